//! From bytes to entries and extensions.

use object::{HashKind, ObjectId};

use bumpalo::Bump;

use crate::entry::{
    EXTENDED, Files, INTENT_TO_ADD, NAME_MASK, OUTLINE_TAIL, OWN, SHARED, SKIP_WORKTREE, STAGE_SHIFT, Slot, Stage,
    be16, head_len,
};
use crate::error::{ReadError, ReadErrorKind};
use crate::ext::ieot::Block;
use crate::ext::{self, CacheTree, Extensions, Fsmonitor, Item, Link, ResolveUndo, Untracked, eoie, ieot};
use crate::header::{Header, Version};
use crate::index::{Extension, Index, MARK_FSMONITOR};
use crate::observer::{Observer, Quiet};
use crate::{path_v4, split};

/// How an index is read. All fields but `kind` have setters of the same name.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ReadOptions<'a> {
    /// The hash function of the repository; an index does not say it.
    pub kind: HashKind,
    /// Threads to use, this one included. Default: 1.
    ///
    /// More than one share the entries if the file has a sound offset table (extensions `EOIE` and `IEOT`); without one
    /// they share what can be: a version 2 or 3 file is cut where an entry seems to begin, and the cut is kept only if
    /// the entries in front of it end exactly there. A version 4 file needs the table. What is read never depends on it.
    pub threads: usize,
    /// Whether to hold the content against the trailer, on another thread if `threads` allows one. Default: `false`, as in
    /// git. A zero trailer (`index.skipHash`) always passes; a wrong one is an error.
    pub verify_checksum: bool,
    /// Whether entries out of order are an error. Default: `true`; look-ups and edits rely on it. Without, they may miss
    /// entries, and nothing worse.
    pub check_order: bool,
    /// How many bytes the paths of a version 4 file may have together once they are whole. Default: 64 for each byte of
    /// the file, and a MiB: more than paths of 4096 bytes can need.
    pub path_limit: Option<u64>,
    /// The shared index that a split index builds on. Without it a split index is an error that says its name.
    pub shared: Option<&'a [u8]>,
    /// Told about what is passed over. Default: nobody.
    pub observer: &'a dyn Observer,
}

impl<'a> ReadOptions<'a> {
    /// The defaults, for a repository of this kind.
    pub fn new(kind: HashKind) -> Self {
        ReadOptions {
            kind,
            threads: 1,
            verify_checksum: false,
            check_order: true,
            path_limit: None,
            shared: None,
            observer: &Quiet,
        }
    }

    /// Sets [`ReadOptions::threads`].
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets [`ReadOptions::verify_checksum`].
    pub fn verify_checksum(mut self, yes: bool) -> Self {
        self.verify_checksum = yes;
        self
    }

    /// Sets [`ReadOptions::check_order`].
    pub fn check_order(mut self, yes: bool) -> Self {
        self.check_order = yes;
        self
    }

    /// Sets [`ReadOptions::path_limit`].
    pub fn path_limit(mut self, bytes: Option<u64>) -> Self {
        self.path_limit = bytes;
        self
    }

    /// Sets [`ReadOptions::shared`].
    pub fn shared(mut self, bytes: Option<&'a [u8]>) -> Self {
        self.shared = bytes;
        self
    }

    /// Sets [`ReadOptions::observer`].
    pub fn observer(mut self, observer: &'a dyn Observer) -> Self {
        self.observer = observer;
        self
    }
}

impl<'a> Index<'a> {
    /// Reads an index file.
    ///
    /// Linear in its length. Damage to what is only a cache (`TREE`, `REUC`, `UNTR`, `FSMN`) or a hint (`EOIE`, `IEOT`) is
    /// passed over and told to the observer. Nothing is allocated that the file's length does not account for, except
    /// the paths of version 4 up to [`ReadOptions::path_limit`].
    ///
    /// # Errors
    /// With the byte offset, for anything that makes an entry or a required extension unreadable.
    pub fn read(arena: &'a Bump, bytes: &'a [u8], options: &ReadOptions<'a>) -> Result<Self, ReadError> {
        if !options.verify_checksum {
            return read(arena, bytes, options, options.threads);
        }
        if options.threads < 2 {
            let index = read(arena, bytes, options, 1)?;
            verify(bytes, options.kind)?;
            return Ok(index);
        }
        std::thread::scope(|scope| {
            // The hash takes longer than all the rest, so it gets one of the threads for itself.
            let sum = scope.spawn(|| verify(bytes, options.kind));
            let index = read(arena, bytes, options, options.threads - 1);
            let sum = sum.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let index = index?;
            sum.map(|()| index)
        })
    }
}

fn verify(bytes: &[u8], kind: HashKind) -> Result<(), ReadError> {
    match hashfile::verify(bytes, kind) {
        Err(hashfile::VerifyError::Mismatch { at, found, computed }) => {
            Err(ReadError { at, kind: ReadErrorKind::Checksum { found, computed } })
        }
        // Too short: the header said so already.
        _ => Ok(()),
    }
}

fn read<'a>(
    arena: &'a Bump,
    bytes: &'a [u8],
    options: &ReadOptions<'a>,
    threads: usize,
) -> Result<Index<'a>, ReadError> {
    let kind = options.kind;
    let header = Header::parse(bytes, kind)?;
    let end = bytes.len() - kind.len(); // not less than the header: it was checked
    let area = Area { bytes, end, kind, version: header.version, form: OWN };
    let mut entries = Entries::read(arena, &area, header.count, options, threads)?;

    let mut found = Found::default();
    for item in Extensions::new(bytes, entries.end, end) {
        match item {
            Ok(item) => found.take(item)?,
            Err(_) => {
                // Whoever wrote this wrote nonsense: what it said about the entries in front is not trusted either.
                options.observer.cut_short(entries.end as u64);
                found = Found { link: found.link, sparse: found.sparse, ..Found::default() };
                break;
            }
        }
    }

    let mut index = Index::new(arena, kind);
    index.files.own = bytes;
    index.version = header.version;
    index.checksum = bytes.get(end..).and_then(|id| ObjectId::from_prefix(id, kind)).filter(|id| !id.is_null());
    index.sparse = found.sparse;
    index.unknown = found.unknown;
    match found.link {
        Some((at, data)) => split_index(&mut index, entries, at, data, options)?,
        None => {
            if let Some(error) = entries.misplaced.take() {
                return Err(error);
            }
            index.slots = entries.slots;
        }
    }
    read_caches(&mut index, &found.caches, options);
    Ok(index)
}

/// Puts a split index together: what the file holds, on top of its shared index.
fn split_index<'a>(
    index: &mut Index<'a>,
    own: Entries<'a>,
    at: usize,
    data: &'a [u8],
    options: &ReadOptions<'a>,
) -> Result<(), ReadError> {
    let kind = options.kind;
    let link = Link::parse(data, kind)
        .map_err(|source| ReadError::new(at, ReadErrorKind::Extension { signature: ext::LINK, source }))?;
    if link.base.is_null() {
        // It builds on nothing yet: an index that will be split when it is written.
        if let Some(error) = own.misplaced {
            return Err(error);
        }
        index.slots = own.slots;
        index.split = Some(split::Split { base: None, slots: Vec::new(), of: Vec::new() });
        return Ok(());
    }
    let Some(shared) = options.shared else {
        return Err(ReadError::new(at, ReadErrorKind::NeedsShared { base: link.base }));
    };
    let base = read_shared(index.arena, shared, &link, options).map_err(|error| match error.kind {
        ReadErrorKind::WrongShared { .. } => error,
        _ => ReadError::new(at, ReadErrorKind::Shared { source: Box::new(error) }),
    })?;
    index.files.shared = shared;
    let merged = split::merge(index.arena, index.files, kind, own.slots, base, &link)
        .map_err(|what| ReadError::new(at, ReadErrorKind::Split { what }))?;
    (index.slots, index.split) = (merged.0, Some(merged.1));
    Ok(())
}

/// The entries of a shared index. Its extensions mean nothing.
fn read_shared<'a>(
    arena: &'a Bump,
    bytes: &'a [u8],
    link: &Link<'_>,
    options: &ReadOptions<'a>,
) -> Result<Vec<Slot<'a>>, ReadError> {
    let kind = options.kind;
    let header = Header::parse(bytes, kind)?;
    let end = bytes.len() - kind.len();
    let found = bytes.get(end..).and_then(|id| ObjectId::from_prefix(id, kind)).unwrap_or(kind.null());
    if found != link.base {
        return Err(ReadError::new(end, ReadErrorKind::WrongShared { expected: link.base, found }));
    }
    if options.verify_checksum {
        verify(bytes, kind)?;
    }
    let area = Area { bytes, end, kind, version: header.version, form: SHARED };
    let entries = Entries::read(arena, &area, header.count, options, options.threads)?;
    match entries.misplaced {
        Some(error) => Err(error),
        None => Ok(entries.slots),
    }
}

/// Extensions as they were met.
#[derive(Default)]
struct Found<'a> {
    link: Option<(usize, &'a [u8])>,
    sparse: bool,
    caches: Vec<Item<'a>>,
    unknown: Vec<Extension<'a>>,
}

impl<'a> Found<'a> {
    fn take(&mut self, item: Item<'a>) -> Result<(), ReadError> {
        match item.signature {
            ext::EOIE | ext::IEOT => {}
            ext::TREE | ext::REUC | ext::UNTR | ext::FSMN => self.caches.push(item),
            ext::LINK => self.link = Some((item.at, item.data)),
            ext::SDIR => self.sparse = true,
            signature if signature[0].is_ascii_uppercase() => {
                self.unknown.push(Extension { signature, data: item.data });
            }
            signature => {
                let at = item.at.saturating_sub(8);
                return Err(ReadError::new(at, ReadErrorKind::RequiredExtension { signature }));
            }
        }
        Ok(())
    }
}

/// Reads the optional extensions; one that is damaged is not there.
fn read_caches<'a>(index: &mut Index<'a>, caches: &[Item<'a>], options: &ReadOptions<'_>) {
    let (kind, count) = (index.kind, index.slots.len());
    for item in caches {
        let data = item.data;
        let read = match item.signature {
            ext::TREE => CacheTree::parse(data, kind, count).map(|tree| index.tree = Some(tree)),
            ext::REUC => ResolveUndo::parse(data, kind).map(|undo| index.resolve_undo = undo),
            ext::UNTR => Untracked::parse(data, kind).map(|cache| index.untracked = Some(cache)),
            _ => Fsmonitor::parse(data, count).map(|Fsmonitor { token, dirty }| {
                index.marks.clear();
                index.marks.resize(count, MARK_FSMONITOR);
                for bit in dirty.ones() {
                    if let Some(marks) = index.marks.get_mut(bit as usize) {
                        *marks &= !MARK_FSMONITOR;
                    }
                }
                index.fsmonitor = Some(token.into_owned());
            }),
        };
        if let Err(why) = read {
            options.observer.dropped(item.signature, item.at as u64, &why);
        }
    }
}

/// A file, as those need it who read its entries.
#[derive(Clone, Copy)]
pub(crate) struct Area<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where the trailer begins.
    pub(crate) end: usize,
    pub(crate) kind: HashKind,
    pub(crate) version: Version,
    /// How version 4 entries name this file.
    pub(crate) form: u8,
}

/// Entries that were read.
struct Entries<'a> {
    slots: Vec<Slot<'a>>,
    /// Where they end.
    end: usize,
    /// The first that was out of order or without a path, which in a split index can be right.
    misplaced: Option<ReadError>,
}

impl<'a> Entries<'a> {
    fn read(
        arena: &'a Bump,
        area: &Area<'a>,
        count: u32,
        options: &ReadOptions<'a>,
        threads: usize,
    ) -> Result<Self, ReadError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if threads > 1
            && area.version != Version::V4
            && let Some(parts) = cut(area, count, options, threads)
            && let Some(entries) = read_parts(area, count, &parts, options)
        {
            return Ok(entries);
        }
        let mut part = Part::new(area, count, options);
        let end = part.read(arena, area, Header::LEN, count)?;
        Ok(Entries { slots: part.slots, end, misplaced: part.misplaced })
    }
}

/// Consecutive entries being read.
struct Part<'a> {
    slots: Vec<Slot<'a>>,
    previous: (&'a [u8], Stage),
    check_order: bool,
    misplaced: Option<ReadError>,
    path_limit: u64,
}

impl<'a> Part<'a> {
    /// Makes room for as many entries as are claimed, or as fit into the file if they are fewer.
    fn new(area: &Area<'_>, count: usize, options: &ReadOptions<'_>) -> Self {
        let least = head_len(area.kind) + 2;
        let fit = area.end / least;
        let length = area.bytes.len() as u64;
        Part {
            slots: Vec::with_capacity(count.min(fit)),
            previous: (&[], Stage::Merged),
            check_order: options.check_order,
            misplaced: None,
            path_limit: options.path_limit.unwrap_or(length.saturating_mul(64).saturating_add(1 << 20)),
        }
    }

    fn read(&mut self, arena: &'a Bump, area: &Area<'a>, at: usize, count: usize) -> Result<usize, ReadError> {
        match area.version {
            Version::V4 => self.read_v4(arena, area, at, count),
            _ => self.read_records(area, at, count),
        }
    }

    #[inline(always)]
    fn push(&mut self, slot: Slot<'a>, path: &'a [u8], stage: Stage, at: usize) {
        if self.check_order {
            let (previous, before) = self.previous;
            match previous.cmp(path) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal if before < stage && !path.is_empty() => {}
                _ => self.misplace(path, stage, at),
            }
        } else if path.is_empty() {
            self.misplace(path, stage, at);
        }
        self.previous = (path, stage);
        self.slots.push(slot);
    }

    #[cold]
    fn misplace(&mut self, path: &[u8], stage: Stage, at: usize) {
        let kind = match path.is_empty() {
            true => ReadErrorKind::EmptyPath,
            false => ReadErrorKind::Order { path: path.into(), stage },
        };
        self.misplaced.get_or_insert_with(|| ReadError::new(at, kind));
    }

    /// Versions 2 and 3: entries stay where they lie.
    fn read_records(&mut self, area: &Area<'a>, mut at: usize, count: usize) -> Result<usize, ReadError> {
        let base = head_len(area.kind);
        let bytes = area.bytes.get(..area.end).unwrap_or_default();
        for _ in 0..count {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(&[high, low]) = rest.get(base - 2..).and_then(|flags| flags.first_chunk()) else {
                return Err(truncated("index entry", at, base, rest.len()));
            };
            let word = u16::from_be_bytes([high, low]);
            let mut head = base;
            if word & EXTENDED != 0 {
                check_extended(rest, base, at)?;
                head += 2;
            }
            let mut len = usize::from(word & NAME_MASK);
            if len == usize::from(NAME_MASK) {
                len = long_path(rest.get(head..).unwrap_or_default(), at + head)?;
            }
            let size = (head + len + 8) & !7;
            let Some(record) = rest.get(..size).and_then(|_| rest.get(..=head + len)) else {
                return Err(truncated("index entry", at, size, rest.len()));
            };
            let Some((0, path)) = record.get(head..).and_then(|path| path.split_last()) else {
                return Err(ReadError::new(at + head, ReadErrorKind::Unterminated { len: len as u64 }));
            };
            self.push(Slot::from_record(record), path, Stage::from_bits((word >> STAGE_SHIFT) as u8), at);
            at += size;
        }
        Ok(at)
    }

    /// Version 4: paths are put together in the arena, heads stay where they lie.
    fn read_v4(&mut self, arena: &'a Bump, area: &Area<'a>, mut at: usize, count: usize) -> Result<usize, ReadError> {
        let base = head_len(area.kind);
        let bytes = area.bytes.get(..area.end).unwrap_or_default();
        let mut outline: Vec<u8> = Vec::new(); // the path, and for a moment what an outline slot has behind it
        let mut expanded = 0u64;
        for n in 0..count {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(&[high, low]) = rest.get(base - 2..).and_then(|flags| flags.first_chunk()) else {
                return Err(truncated("index entry", at, base, rest.len()));
            };
            let word = u16::from_be_bytes([high, low]);
            let mut head = base;
            if word & EXTENDED != 0 {
                check_extended(rest, base, at)?;
                head += 2;
            }
            let field = rest.get(head..).unwrap_or_default();
            let Some((strip, number)) = path_v4::decode(field) else {
                let kind = ReadErrorKind::Strip { strip: u64::MAX, previous: outline.len() as u64 };
                return Err(ReadError::new(at + head, kind));
            };
            let keep = match (outline.len() as u64).checked_sub(strip) {
                Some(keep) => keep as usize, // no more than a length
                // What the first entry removes is removed from nothing.
                None if n == 0 => 0,
                None => {
                    let kind = ReadErrorKind::Strip { strip, previous: outline.len() as u64 };
                    return Err(ReadError::new(at + head, kind));
                }
            };
            let suffix = field.get(number..).unwrap_or_default();
            let len = path_v4::suffix_len(suffix)
                .ok_or_else(|| ReadError::new(at + head, ReadErrorKind::Unterminated { len: suffix.len() as u64 }))?;
            let stated = usize::from(word & NAME_MASK);
            if stated != (keep + len).min(usize::from(NAME_MASK)) {
                return Err(ReadError::new(at + head, ReadErrorKind::Unterminated { len: stated as u64 }));
            }
            expanded += (keep + len) as u64;
            if expanded > self.path_limit {
                return Err(ReadError::new(at, ReadErrorKind::PathLimit { limit: self.path_limit }));
            }
            outline.truncate(keep);
            outline.extend_from_slice(suffix.get(..len).unwrap_or_default());
            let mut tail = [area.form; OUTLINE_TAIL];
            tail[..8].copy_from_slice(&(at as u64).to_le_bytes());
            outline.extend_from_slice(&tail);
            let stored: &'a [u8] = arena.alloc_slice_copy(&outline);
            outline.truncate(keep + len);
            let path = stored.get(..keep + len).unwrap_or_default();
            self.push(Slot::from_outline(stored), path, Stage::from_bits((word >> STAGE_SHIFT) as u8), at);
            at += head + number + len + 1;
        }
        Ok(at)
    }
}

#[cold]
fn truncated(what: &'static str, at: usize, need: usize, have: usize) -> ReadError {
    ReadError::new(at, ReadErrorKind::Truncated { what, need: need as u64, have: have as u64 })
}

#[inline(never)]
fn check_extended(rest: &[u8], base: usize, at: usize) -> Result<(), ReadError> {
    let found = be16(rest, base);
    if found & !(SKIP_WORKTREE | INTENT_TO_ADD) != 0 {
        return Err(ReadError::new(at + base, ReadErrorKind::EntryFlags { found }));
    }
    Ok(())
}

/// The length of a path that is too long for the flags to say it.
#[inline(never)]
fn long_path(rest: &[u8], at: usize) -> Result<usize, ReadError> {
    match memchr::memchr(0, rest) {
        Some(len) => Ok(len),
        None => Err(ReadError::new(at, ReadErrorKind::Unterminated { len: rest.len() as u64 })),
    }
}

/// Cuts the entries into parts for threads, by the file's own table or where entries seem to begin.
fn cut(area: &Area<'_>, count: usize, options: &ReadOptions<'_>, threads: usize) -> Option<Vec<Block>> {
    // Below this a thread costs more than it saves.
    const WORTH: usize = 10_000;
    let threads = threads.min(count / WORTH);
    if threads < 2 {
        return None;
    }
    let table = offset_table(area, count, options).unwrap_or_default();
    Some(group(&table, threads)).filter(|parts| parts.len() > 1)
}

/// The blocks of the extension `IEOT`, if it and `EOIE` are sound.
pub(crate) fn offset_table(area: &Area<'_>, count: usize, options: &ReadOptions<'_>) -> Option<Vec<Block>> {
    let entries_end = eoie::locate(area.bytes, area.kind)?;
    let item = Extensions::new(area.bytes, entries_end, area.end)
        .map_while(Result::ok)
        .find(|item| item.signature == ext::IEOT)?;
    let table = ieot::parse(item.data, Header::LEN..entries_end, count);
    if table.is_none() {
        options.observer.hint_ignored("offset table", item.at as u64);
    }
    table
}

/// Joins neighbouring blocks until there are about as many as threads.
fn group(table: &[Block], threads: usize) -> Vec<Block> {
    let total: u64 = table.iter().map(|block| u64::from(block.entries)).sum();
    let share = total.div_ceil(threads as u64).max(1);
    let mut parts: Vec<Block> = Vec::with_capacity(threads);
    for &block in table {
        match parts.last_mut() {
            Some(part) if u64::from(part.entries) + u64::from(block.entries) / 2 < share => {
                part.entries += block.entries
            }
            _ => parts.push(block),
        }
    }
    parts
}

/// Reads each part on a thread of its own. `None` if they do not fit together: then what said where they begin was
/// wrong, and only reading from the start can tell what is there.
fn read_parts<'a>(area: &Area<'a>, count: usize, parts: &[Block], options: &ReadOptions<'a>) -> Option<Entries<'a>> {
    let (first, others) = parts.split_first()?;
    let run = |block: &Block, room: usize| {
        let mut part = Part::new(area, room, options);
        let end = part.read_records(area, block.at, block.entries as usize).ok()?;
        Some((part, end))
    };
    let mut read = std::thread::scope(|scope| {
        let threads: Vec<_> =
            others.iter().map(|block| scope.spawn(move || run(block, block.entries as usize))).collect();
        let mut read = vec![run(first, count)];
        for thread in threads {
            read.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        read.into_iter().collect::<Option<Vec<_>>>()
    })?
    .into_iter();
    let (mut whole, mut end) = read.next()?;
    for ((part, part_end), block) in read.zip(others) {
        if block.at != end {
            options.observer.hint_ignored("offset table", block.at as u64);
            return None;
        }
        // The parts' own order was checked on their threads, all but the seam.
        let mut part = part;
        let Some(seam) = part.slots.first() else { continue };
        let entry = seam.entry(Files { own: area.bytes, shared: &[] }, area.kind);
        if options.check_order && whole.previous >= (entry.path(), entry.stage()) {
            whole.misplace(entry.path(), entry.stage(), block.at);
        }
        whole.misplaced = whole.misplaced.take().or(part.misplaced.take());
        whole.previous = part.previous;
        whole.slots.extend_from_slice(&part.slots);
        end = part_end;
    }
    (whole.slots.len() == count).then_some(Entries { slots: whole.slots, end, misplaced: whole.misplaced })
}
