// What the fuzz targets do, as plain functions: `tests/it/regressions.rs` runs them over `regressions/`, and
// `tests/it/hostile.rs` over damaged files.

use std::sync::Mutex;

use object::{HashKind, ObjectId};
use packstone_index::ext::{Extensions, IEOT};
use packstone_index::trees::verify_cache_tree;
use packstone_index::verify::verify;
use packstone_index::{
    AddOptions, Bump, EditError, Entry, ExtError, Flags, Index, IndexView, NewEntry, Observer, ReadError,
    ReadErrorKind, ReadOptions, Stage, Version, ViewError, WriteError, WriteOptions,
};

#[path = "against_git.rs"]
pub(crate) mod against_git;
#[path = "model.rs"]
pub(crate) mod model;

/// Any file, perhaps with a shared index, by any number of threads.
pub(crate) fn parse_index(data: &[u8]) {
    let Some((&flags, data)) = data.split_first() else { return };
    let (own, shared) = match data.split_first_chunk() {
        Some((len, rest)) if flags & 0x80 != 0 => {
            rest.split_at_checked(usize::from(u16::from_be_bytes(*len))).map_or((rest, None), |(a, b)| (a, Some(b)))
        }
        _ => (data, None),
    };
    look(own, shared, if flags & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 }, 1 + usize::from(flags >> 1 & 3));
}

/// Operations of eight bytes each, behind one that says the hash function.
pub(crate) fn ops_index(data: &[u8]) {
    let Some((&flags, data)) = data.split_first() else { return };
    let kind = if flags & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    model::run(&model::Script(kind, data.as_chunks::<8>().0.to_vec()));
}

/// A file behind its first eight bytes and without its checksum, by us and by git.
pub(crate) fn diff_index(data: &[u8]) {
    against_git::compare(data);
}

/// Remembers what it is told, and that it is told places inside of the file.
struct Listener {
    len: u64,
    dropped: Mutex<Vec<([u8; 4], u64)>>,
}

impl Observer for Listener {
    fn dropped(&self, signature: [u8; 4], at: u64, why: &ExtError) {
        assert!(at + why.at <= self.len, "{why} in {}", signature.escape_ascii());
        self.dropped.lock().expect("not poisoned").push((signature, at));
    }

    fn hint_ignored(&self, _: &'static str, at: u64) {
        assert!(at <= self.len);
    }

    fn cut_short(&self, at: u64) {
        assert!(at <= self.len);
    }
}

/// Path, stage and id of each entry, read in the plainest way; `None` if any is damaged or out of place.
pub(crate) fn naive(bytes: &[u8], kind: HashKind) -> Option<Vec<(Vec<u8>, Stage, ObjectId)>> {
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let end = bytes.len().checked_sub(kind.len()).filter(|end| *end >= 12)?;
    let version = word(4).filter(|version| bytes.starts_with(b"DIRC") && (2..=4).contains(version))?;
    let (mut at, mut found) = (12, Vec::<(Vec<u8>, Stage, ObjectId)>::new());
    for n in 0..word(8)? {
        let entry = bytes.get(at..end)?;
        let id = ObjectId::from_prefix(entry.get(40..)?, kind)?;
        let flags = u16::from_be_bytes(entry.get(40 + kind.len()..42 + kind.len())?.try_into().ok()?);
        let mut head = 42 + kind.len();
        if flags & 0x4000 != 0 {
            let more = u16::from_be_bytes(entry.get(head..head + 2)?.try_into().ok()?);
            if more & !0x6000 != 0 {
                return None;
            }
            head += 2;
        }
        let stated = usize::from(flags & 0xfff);
        let nul = |from: usize| entry.get(from..)?.iter().position(|byte| *byte == 0);
        let path = if version == 4 {
            let (mut value, mut len) = (0u128, 0);
            loop {
                let byte = *entry.get(head + len)?;
                value = value << 7 | u128::from(byte & 0x7f);
                len += 1;
                if byte & 0x80 == 0 {
                    break;
                }
                value += 1;
                if len > 11 {
                    return None;
                }
            }
            let mut path = found.last().map(|(path, ..)| path.clone()).unwrap_or_default();
            match usize::try_from(value).ok().and_then(|value| path.len().checked_sub(value)) {
                Some(keep) => path.truncate(keep),
                None if n == 0 && u64::try_from(value).is_ok_and(|value| value != u64::MAX) => path.clear(),
                None => return None,
            }
            let suffix = nul(head + len)?;
            path.extend_from_slice(&entry[head + len..head + len + suffix]);
            at += head + len + suffix + 1;
            if path.len().min(0xfff) != stated {
                return None;
            }
            path
        } else {
            let len = if stated == 0xfff { nul(head)? } else { stated };
            let size = (head + len + 8) & !7;
            if *entry.get(..size)?.get(head + len)? != 0 {
                return None;
            }
            at += size;
            entry[head..head + len].to_vec()
        };
        let key = (path, Stage::from_bits((flags >> 12) as u8));
        if key.0.is_empty() || found.last().is_some_and(|(path, stage, _)| (path, stage) >= (&key.0, &key.1)) {
            return None;
        }
        found.push((key.0, key.1, id));
    }
    Some(found)
}

fn owned(entry: Entry<'_>) -> (Vec<u8>, Stage, ObjectId) {
    (entry.path().to_vec(), entry.stage(), entry.id())
}

/// Reads a file in every way and calls every accessor; what it writes is what was read.
pub(crate) fn look(bytes: &[u8], shared: Option<&[u8]>, kind: HashKind, threads: usize) -> bool {
    let listener = Listener { len: bytes.len() as u64, dropped: Mutex::default() };
    let arena = Bump::new();
    let options = ReadOptions::new(kind).threads(threads).observer(&listener);
    // Without the order nothing can be relied on, but nothing breaks either.
    let unordered = Index::read(&arena, bytes, &options.check_order(false));
    if let Ok(index) = &unordered {
        let entries: Vec<_> = index.iter().collect();
        assert_eq!(entries.len(), index.len());
        for entry in &entries {
            let _ = (index.find(entry.path(), entry.stage()), index.range(entry.path()));
        }
        let _ = index.prefix(b"a");
    }
    let _ = (verify(bytes, kind, shared), look_into(bytes, kind));

    let plain = naive(bytes, kind);
    let again; // a shared index that the file takes for its own
    let read = match (Index::read(&arena, bytes, &options), shared) {
        (Err(ReadError { kind: ReadErrorKind::NeedsShared { base }, .. }), Some(shared))
            if shared.len() >= kind.len() =>
        {
            again = [&shared[..shared.len() - kind.len()], base.as_bytes()].concat();
            let listener = Listener { len: bytes.len().max(shared.len()) as u64, dropped: Mutex::default() };
            // The arena has to outlive it, and the observer's life is that of the bytes.
            return look_at_split(bytes, &again, kind, threads, &listener);
        }
        (other, _) => other,
    };
    let mut index = match read {
        Ok(index) => index,
        Err(error) => {
            assert!(error.at <= bytes.len() as u64, "{error}");
            let of_entries = !matches!(
                error.kind,
                ReadErrorKind::RequiredExtension { .. }
                    | ReadErrorKind::Extension { .. }
                    | ReadErrorKind::NeedsShared { .. }
            );
            assert!(!of_entries || plain.is_none(), "{error}, but it can be read");
            assert!(!verify(bytes, kind, None).is_empty() || matches!(error.kind, ReadErrorKind::NeedsShared { .. }));
            return false;
        }
    };
    assert_eq!(index.iter().map(owned).collect::<Vec<_>>(), plain.expect("it was read"));
    // Blocks of entries that nobody looked at are copied; the others are put together. It makes no difference.
    let write = |index: &mut Index<'_>| {
        let written = index.write_to(Vec::new(), &WriteOptions::default().allow_null_ids(true));
        written.map(|(bytes, _)| bytes).map_err(|error| error.to_string())
    };
    let mut unseen = Index::read(&arena, bytes, &options).expect("as before");
    assert!(write(&mut unseen) == write(&mut index));
    look_at(&mut index, None);
    true
}

fn look_at_split(own: &[u8], shared: &[u8], kind: HashKind, threads: usize, listener: &Listener) -> bool {
    let arena = Bump::new();
    let options = ReadOptions::new(kind).threads(threads).observer(listener).shared(Some(shared));
    match Index::read(&arena, own, &options) {
        Ok(mut index) => {
            look_at(&mut index, Some(shared));
            true
        }
        Err(ReadError { kind: ReadErrorKind::Shared { source }, .. }) => {
            assert!(source.at <= shared.len() as u64, "{source}");
            assert!(naive(shared, kind).is_none());
            false
        }
        Err(error) => {
            assert!(error.at <= own.len() as u64, "{error}");
            false
        }
    }
}

/// A view answers as the index does, or not at all.
fn look_into(bytes: &[u8], kind: HashKind) -> Result<(), ViewError> {
    let view = IndexView::parse(bytes, kind)?;
    let (mut cursor, mut count) = (view.cursor(), 0);
    let plain = naive(bytes, kind);
    let walked = loop {
        match cursor.next() {
            Ok(Some(entry)) => {
                if let Some(plain) = &plain {
                    assert_eq!(owned(entry), plain[count]);
                }
                count += 1;
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    assert!(walked || plain.is_none());
    let end = view.entries_end()?;
    let table = Extensions::new(bytes, end, bytes.len() - kind.len()).flatten().any(|item| item.signature == IEOT);
    for (at, entry) in (0u32..).zip(plain.iter().flatten()) {
        let found = view.lookup(&entry.0, entry.1)?;
        assert_eq!(found.map(|found| owned(found.entry())), Some(entry.clone()));
        if !table {
            assert_eq!(view.get(at)?.map(|found| owned(found.entry())), Some(entry.clone()));
            assert_eq!(view.find(&entry.0, entry.1)?, Ok(at));
        }
        view.prefix(&entry.0)?;
    }
    view.split_base()?;
    Ok(())
}

fn look_at(index: &mut Index<'_>, shared: Option<&[u8]>) {
    let kind = index.kind();
    let entries: Vec<Entry<'_>> = index.iter().collect();
    assert_eq!((entries.len(), index.is_empty()), (index.len(), entries.is_empty()));
    assert!(index.iter().rev().eq(entries.iter().rev().copied()));
    assert!(index.entries().iter().eq(entries.iter().copied()));
    for (at, entry) in entries.iter().enumerate() {
        assert_eq!(index.get(at), Some(*entry));
        assert_eq!(index.find(entry.path(), entry.stage()), Ok(at));
        assert!(index.range(entry.path()).contains(&at) && index.prefix(entry.path()).contains(&at));
        assert!(!index.is_up_to_date(at));
        assert!(!index.fsmonitor_valid(at) || index.fsmonitor_token().is_some());
        let _ = (entry.stat(), entry.mode(), entry.is_gitlink(), index.is_replacement(at));
    }
    assert_eq!(index.get(entries.len()), None);
    assert_eq!(index.is_unmerged(), entries.iter().any(|entry| entry.stage() != Stage::Merged));
    assert!(!index.is_changed());
    let _ = (format!("{index:?}"), index.checksum(), index.timestamp(), verify_cache_tree(index));
    let (version, is_split) = (index.version(), index.shared_base().is_some());
    for version in [version, if version == Version::V4 { Version::V2 } else { Version::V4 }] {
        index.set_version(version);
        for table in [None, Some(2)] {
            write_and_read(index, shared.filter(|_| is_split), table);
        }
    }
    // Whatever was read can be edited.
    if let Some(entry) = index.get(index.len() / 2) {
        let path = entry.path();
        index.remove(path);
        let new = NewEntry::new(b"a/b/new", packstone_index::Mode(0o100_644), kind.empty_blob());
        match index.add(&new, &AddOptions::default().replace(true)) {
            Ok(added) => assert_eq!(index.get(added.at()).map(NewEntry::from), Some(new)),
            Err(error) => assert!(matches!(error, EditError::InSparseDir { .. }), "{error}"),
        }
    }
}

fn write_and_read(index: &mut Index<'_>, shared: Option<&[u8]>, table: Option<u32>) {
    let options = WriteOptions::default().allow_null_ids(true).offset_table(table);
    let written = match index.write_to(Vec::new(), &options) {
        Ok((bytes, written)) => {
            assert_eq!(bytes.len() as u64, written.len);
            bytes
        }
        Err(WriteError::Nul { path }) => return assert!(path.contains(&0)),
        Err(error) => panic!("{error}"),
    };
    let arena = Bump::new();
    let read = ReadOptions::new(index.kind()).verify_checksum(true);
    // A shared index of a made-up name does not fit its content.
    let read = if shared.is_some() { read.verify_checksum(false).shared(shared) } else { read };
    let mut again = Index::read(&arena, &written, &read).expect("what was written");
    assert_eq!(again.len(), index.len());
    assert!(again.iter().zip(index.iter()).all(|(a, b)| a == b));
    assert_eq!(again.is_sparse(), index.is_sparse());
    assert_eq!(again.resolve_undo(), index.resolve_undo());
    assert_eq!(again.fsmonitor_token(), index.fsmonitor_token());
    assert_eq!(again.extensions(), index.extensions());
    assert!((0..index.len()).all(|at| again.fsmonitor_valid(at) == index.fsmonitor_valid(at)));
    let null = index.iter().any(|entry| entry.id().is_null());
    let tree = |index: &Index<'_>| {
        let mut out = Vec::new();
        index.cache_tree().iter().for_each(|tree| tree.append_to(&mut out));
        out
    };
    assert!(null || tree(&again) == tree(index));
    let untracked = |index: &Index<'_>| {
        let mut out = Vec::new();
        index.untracked().iter().for_each(|cache| cache.append_to(&mut out));
        out
    };
    assert_eq!(untracked(&again), untracked(index));
    let extended = again
        .iter()
        .any(|entry| entry.flags() != Flags { assume_valid: entry.flags().assume_valid, ..Flags::default() });
    assert!(shared.is_some() || index.version() == Version::V4 || (again.version() == Version::V3) == extended);
    // However the file wrote it, it is written as we write it.
    if shared.is_none() {
        let mut fresh = Index::new(&arena, index.kind());
        fresh.replace_entries(again.iter().map(NewEntry::from)).expect("in order");
        fresh.set_version(index.version());
        let (fresh, _) = fresh.write_to(Vec::new(), &options).expect("what was written once");
        let end = IndexView::parse(&fresh[..], index.kind()).expect("a header").entries_end().expect("entries");
        assert!(written.get(..end) == fresh.get(..end));
    }
    let (twice, _) = again.write_to(Vec::new(), &options).expect("what was written once");
    assert!(twice == written);
}
