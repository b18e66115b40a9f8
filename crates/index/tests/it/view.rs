//! Looking into an index without reading it: the same answers as from reading it, from all kinds of files, or an error.

use object::{HashKind, ObjectId};
use packstone_index::ext::{self, Extensions, eoie};
use packstone_index::source::ByteSource;
use packstone_index::{
    AddOptions, Bump, Cursor, Entry, Flags, Header, Index, IndexView, Mode, NewEntry, ReadError, ReadErrorKind,
    ReadOptions, Stage, Stat, Version, ViewError, WriteOptions,
};
use testkit::{Hash, TestRepo};

/// Paths of all lengths in several directories; some conflicts; in version 3 and 4 some with a second flag word.
fn sample(kind: HashKind, version: Version, table: Option<u32>) -> Vec<u8> {
    let mut paths: Vec<Vec<u8>> = Vec::new();
    for n in 0..300 {
        paths.push(format!("dir{:02}/{}{n}", n % 17, "x".repeat(n % 23)).into());
    }
    paths.extend([&b"a"[..], b"a/b", b"a.b", b"z", b"\xff\xfe"].map(Vec::from));
    paths.extend([4094, 4095, 4096, 9000].map(|len| vec![b'l'; len]));
    paths.sort();
    let arena = Bump::new();
    let mut index = Index::new(&arena, kind);
    let entries = paths.iter().enumerate().flat_map(|(n, path)| {
        let stages = if n % 11 == 3 { &[Stage::Base, Stage::Theirs][..] } else { &[Stage::Merged] };
        let skip_worktree = version == Version::V3 && n % 5 == 0 || version == Version::V4 && n % 7 == 0;
        stages.iter().map(move |&stage| NewEntry {
            stage,
            flags: Flags { skip_worktree, ..Flags::default() },
            stat: Stat { size: n as u32, ..Stat::default() },
            ..NewEntry::new(path, Mode(0o100_644), kind.empty_blob())
        })
    });
    index.replace_entries(entries).expect("in order");
    index.set_version(version);
    let options = WriteOptions::default().offset_table(table);
    let (bytes, written) = index.write_to(Vec::new(), &options).expect("written");
    assert_eq!(written.version, version);
    bytes
}

fn owned(entry: Entry<'_>) -> (Vec<u8>, Mode, ObjectId, Stage, Stat, Flags) {
    (entry.path().to_vec(), entry.mode(), entry.id(), entry.stage(), entry.stat(), entry.flags())
}

fn rest(mut cursor: Cursor<'_>) -> Vec<(Vec<u8>, Mode, ObjectId, Stage, Stat, Flags)> {
    let mut found = Vec::new();
    while let Some(entry) = cursor.next().expect("a sound entry") {
        found.push(owned(entry));
    }
    found
}

/// Asks a view everything that the index read from the same bytes can tell.
fn agree(bytes: &[u8], kind: HashKind) {
    let arena = Bump::new();
    let index = Index::read(&arena, bytes, &ReadOptions::new(kind)).expect("a sound index");
    let view = IndexView::parse(bytes, kind).expect("a sound header");
    let all: Vec<_> = index.iter().map(owned).collect();
    assert_eq!((view.len() as usize, view.version(), view.kind()), (all.len(), index.version(), kind));
    assert_eq!(rest(view.cursor()), all);
    for (at, entry) in index.iter().enumerate() {
        let found = view.get(at as u32).unwrap().expect("an entry");
        assert_eq!(owned(found.entry()), all[at]);
        assert_eq!(found.into_path(), entry.path());
        let found = view.lookup(entry.path(), entry.stage()).unwrap().expect("an entry");
        assert_eq!(owned(found.entry()), all[at]);
        for path in [
            entry.path(),
            &entry.path()[..entry.path().len() - 1],
            &[entry.path(), b"\x01"].concat(),
            &[entry.path(), b"/"].concat(),
        ] {
            for stage in Stage::ALL {
                let expected = index.find(path, stage);
                let found = view.find(path, stage).unwrap().map(|at| at as usize).map_err(|at| at as usize);
                assert_eq!(found, expected, "'{}' {stage:?}", path.escape_ascii());
                assert_eq!(view.lookup(path, stage).unwrap().is_some(), expected.is_ok());
            }
            let prefix = view.prefix(path).unwrap();
            assert_eq!(prefix.start as usize..prefix.end as usize, index.prefix(path));
        }
    }
    for at in [0, 1, 63, 64, 65, all.len() / 2, all.len() - 1, all.len(), all.len() + 1] {
        let cursor = view.cursor_at(at as u32).unwrap();
        assert_eq!(cursor.position() as usize, if at < all.len() { at } else { 0 });
        assert_eq!(rest(cursor), all.get(at..).unwrap_or_default());
    }
    assert_eq!(view.get(view.len()).unwrap(), None);
    assert_eq!(view.prefix(b"").unwrap(), 0..view.len());
    assert_eq!(view.find(b"", Stage::Merged).unwrap(), Err(0));
    assert_eq!(view.find(&[0xff; 20], Stage::Theirs).unwrap(), Err(view.len()));
    assert_eq!(view.split_base().unwrap(), None);
}

#[test]
fn answers_are_those_of_the_index_read() {
    for kind in HashKind::ALL {
        for table in [None, Some(1), Some(7), Some(100), Some(8192)] {
            for version in [Version::V2, Version::V3, Version::V4] {
                if version != Version::V4 || table.is_some() {
                    agree(&sample(kind, version, table), kind);
                }
            }
        }
    }
}

#[test]
fn a_look_up_steps_through_one_block() {
    let kind = HashKind::Sha1;
    for (version, table, least, most) in [
        (Version::V2, None, 330, 330 + 64),
        (Version::V2, Some(20), 20, 40),
        (Version::V3, Some(20), 20, 40),
        (Version::V4, Some(20), 20, 40),
    ] {
        let bytes = sample(kind, version, table);
        let view = IndexView::parse(&bytes, kind).unwrap();
        assert_eq!(view.entries_stepped(), 0, "opening looks at no entry");
        let at = view.len() / 2;
        let path = view.cursor_at(at).unwrap().next().unwrap().unwrap().path().to_vec();
        let view = IndexView::parse(&bytes, kind).unwrap();
        assert!(view.find(&path, Stage::Merged).unwrap().is_ok());
        let stepped = view.entries_stepped();
        assert!((least..=most).contains(&stepped), "{version:?} {table:?}: {stepped}");
        assert!(view.find(&path, Stage::Merged).unwrap().is_ok());
        assert!(view.entries_stepped() - stepped <= 64, "the block is known now");
    }
}

#[test]
fn a_look_up_halves() {
    for kind in HashKind::ALL {
        for (version, n_tables) in [(Version::V2, 0), (Version::V2, 1), (Version::V3, 0), (Version::V3, 1)] {
            let paths: Vec<String> =
                (0..30_000).map(|n| format!("d{:03}/{:05}{}", n / 97, n * 2, "y".repeat(n % 31))).collect();
            let arena = Bump::new();
            let mut index = Index::new(&arena, kind);
            let entries = paths.iter().enumerate().map(|(n, path)| NewEntry {
                flags: Flags { skip_worktree: version == Version::V3 && n % 3 == 0, ..Flags::default() },
                stat: Stat { size: n as u32, ino: n as u32 * 77, ..Stat::default() },
                ..NewEntry::new(
                    path.as_bytes(),
                    Mode(0o100_644),
                    object::object_id(kind, object::ObjectKind::Blob, path.as_bytes()).unwrap(),
                )
            });
            index.replace_entries(entries).unwrap();
            // A table of one block, which is of no help but by what says where the entries end; and none.
            let options = WriteOptions::default().offset_table((n_tables == 1).then_some(1 << 20));
            let (bytes, written) = index.write_to(Vec::new(), &options).unwrap();
            assert_eq!(written.version, version);
            let view = IndexView::parse(&bytes, kind).unwrap();
            let mut asked = 0;
            for (n, path) in paths.iter().enumerate().step_by(331).chain([(29_999, &paths[29_999])]) {
                let found = view.lookup(path.as_bytes(), Stage::Merged).unwrap().expect("it is there");
                assert_eq!((found.entry().path(), found.entry().stat().size), (path.as_bytes(), n as u32));
                for missing in [format!("{path}!"), path[..path.len() - 1].into(), format!("d{n:03}")] {
                    assert_eq!(view.lookup(missing.as_bytes(), Stage::Merged).unwrap(), None);
                }
                assert_eq!(view.lookup(path.as_bytes(), Stage::Ours).unwrap(), None);
                asked += 5;
            }
            assert!(view.entries_stepped() < asked * 250, "{} for {asked}", view.entries_stepped());
        }
    }
}

/// What the end-of-entries extension of a file says is not to be followed into what its entries are not.
#[test]
fn a_look_up_copes_with_damage() {
    let kind = HashKind::Sha1;
    let bytes = sample(kind, Version::V2, Some(1 << 20));
    let whole = IndexView::parse(&bytes, kind).unwrap();
    let last = whole.cursor_at(whole.len() - 1).unwrap().next().unwrap().unwrap().path().to_vec();
    for at in (Header::LEN..bytes.len() - 20).step_by(13) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        // An answer or an error, and never another entry.
        if let Ok(view) = IndexView::parse(&damaged, kind)
            && let Ok(Some(found)) = view.lookup(&last, Stage::Merged)
        {
            assert_eq!(found.entry().path(), last);
        }
    }
}

#[test]
fn version_4_without_a_table_needs_a_full_read() {
    for kind in HashKind::ALL {
        let bytes = sample(kind, Version::V4, None);
        let view = IndexView::parse(&bytes, kind).unwrap();
        assert!(matches!(view.find(b"a", Stage::Merged), Err(ViewError::NeedsFullRead { .. })));
        assert!(matches!(view.get(0), Err(ViewError::NeedsFullRead { .. })));
        assert!(matches!(view.prefix(b"a"), Err(ViewError::NeedsFullRead { .. })));
        assert_eq!(view.get(view.len()).unwrap(), None);
        let arena = Bump::new();
        let index = Index::read(&arena, &bytes, &ReadOptions::new(kind)).unwrap();
        assert_eq!(rest(view.cursor()), index.iter().map(owned).collect::<Vec<_>>());
        assert_eq!(view.extension(ext::TREE).unwrap(), None);
        assert_eq!(view.split_base().unwrap(), None);
    }
}

#[test]
fn a_file_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let opened = IndexView::open(&path, HashKind::Sha1, ByteSource::OnDemand);
    assert!(opened.unwrap().is_none());
    for kind in HashKind::ALL {
        for (version, table) in [(Version::V2, None), (Version::V2, Some(64)), (Version::V4, Some(64))] {
            // Long enough to be mapped.
            let start = sample(kind, version, table);
            let arena = Bump::new();
            let mut index = Index::read(&arena, &start, &ReadOptions::new(kind)).unwrap();
            for n in 0..20_000 {
                let path = format!("zz/{n:06}");
                let entry = NewEntry::new(path.as_bytes(), Mode(0o100_644), kind.empty_blob());
                index.add(&entry, &AddOptions::default().add(true)).unwrap();
            }
            let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default().offset_table(table)).unwrap();
            std::fs::write(&path, &bytes).unwrap();
            for source in [ByteSource::OnDemand, ByteSource::Auto, ByteSource::Heap] {
                let view = IndexView::open(&path, kind, source).unwrap().expect("a file");
                assert!(view.lookup(b"zz/012345", Stage::Merged).unwrap().is_some());
                assert!(view.lookup(b"zz/0123456", Stage::Merged).unwrap().is_none());
            }
        }
    }
    std::fs::write(&path, b"DIRX").unwrap();
    let error = IndexView::open(&path, HashKind::Sha1, ByteSource::OnDemand).unwrap_err();
    assert!(error.to_string().contains("index"), "{error}");
}

#[test]
fn an_empty_index_has_all_answers() {
    for version in [Version::V2, Version::V4] {
        let arena = Bump::new();
        let mut index = Index::new(&arena, HashKind::Sha1);
        index.set_version(version);
        let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default()).unwrap();
        let view = IndexView::parse(&bytes, HashKind::Sha1).unwrap();
        assert!(view.is_empty());
        assert_eq!(view.find(b"a", Stage::Merged), Ok(Err(0)));
        assert_eq!((view.prefix(b""), view.get(0)), (Ok(0..0), Ok(None)));
        assert_eq!(rest(view.cursor()), []);
    }
}

/// Paths so long that a block has room for more entries than it holds, as far as a table alone can tell.
fn long(first: u8) -> Vec<u8> {
    let mut path = vec![b'x'; 150];
    path[0] = first;
    path
}

/// An index of four entries, `long` a to d, with a table of two blocks, and where that table's data begin.
fn two_blocks(kind: HashKind, version: Version) -> (Vec<u8>, usize) {
    let arena = Bump::new();
    let mut index = Index::new(&arena, kind);
    let paths = [b'a', b'b', b'c', b'd'].map(long);
    let entries = paths.iter().map(|path| NewEntry::new(path, Mode(0o100_644), kind.empty_blob()));
    index.replace_entries(entries).unwrap();
    index.set_version(version);
    let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default().offset_table(Some(2))).unwrap();
    let end = eoie::locate(&bytes, kind).unwrap();
    let table = Extensions::new(&bytes, end, bytes.len() - kind.len())
        .map(Result::unwrap)
        .find(|item| item.signature == ext::IEOT);
    let at = table.unwrap().at;
    (bytes, at)
}

#[test]
fn i3_a_table_that_does_not_fit_is_not_believed() {
    for kind in HashKind::ALL {
        for version in [Version::V2, Version::V4] {
            let (good, at) = two_blocks(kind, version);
            let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            let second = word(&good, at + 12);
            let one = (word(&good, at + 12) - 12) / 2;
            for (changes, why) in [
                (&[][..], "as it was"),
                (&[(12, second + one)], "one entry too late"),
                (&[(12, second - one)], "one entry too early"),
                (&[(12, second + 3)], "three bytes too late"),
                (&[(12, second + 8)], "eight bytes too late"),
                (&[(12, 0x7fff_ffff)], "beyond the file"),
                (&[(16, 1)], "too few"),
                (&[(8, 4)], "too many"),
                (&[(8, 1), (16, 3)], "moved forward"),
                (&[(8, 3), (16, 1)], "moved back"),
                (&[(8, 3), (16, 1), (12, second - one)], "both wrong"),
            ] {
                let mut bytes = good.clone();
                for &(offset, value) in changes {
                    bytes[at + offset..at + offset + 4].copy_from_slice(&value.to_be_bytes());
                }
                for position in 0..4u32 {
                    let view = IndexView::parse(&bytes, kind).unwrap();
                    let path = long(b'a' + position as u8);
                    let found = view.find(&path, Stage::Merged);
                    let got = view.get(position).map(|entry| entry.map(|entry| entry.into_path().into_owned()));
                    let missing = view.find(&[path[0], b'z'], Stage::Merged);
                    if version == Version::V4 && !changes.is_empty() {
                        // Nothing but the table tells where an entry can be read.
                        let full = |error: &ViewError| matches!(error, ViewError::NeedsFullRead { .. });
                        assert!(found.as_ref().map_or_else(full, |found| *found == Ok(position)), "{why}: {found:?}");
                        assert!(got.as_ref().map_or_else(full, |got| *got == Some(path.to_vec())), "{why}: {got:?}");
                        assert!(missing.as_ref().map_or_else(full, |found| *found == Err(position + 1)), "{why}");
                    } else {
                        assert_eq!((found, got), (Ok(Ok(position)), Ok(Some(path.to_vec()))), "{why}");
                        assert_eq!(missing, Ok(Err(position + 1)), "{why}");
                    }
                    assert_eq!(rest(view.cursor()).len(), 4, "{why}");
                }
            }
        }
    }
}

/// Asks everything, whatever the answers.
fn ask(bytes: &[u8], kind: HashKind) -> Option<()> {
    let view = IndexView::parse(bytes, kind).ok()?;
    let _ = (view.extension(ext::TREE), view.split_base(), view.prefix(b"a"), view.cursor_at(2).is_ok());
    for path in [b'a', b'b', b'd', 0xff].map(long) {
        let _ = view.find(&path, Stage::Merged);
        let _ = view.lookup(&path, Stage::Ours);
    }
    for at in [0, 1, 2, 3, view.len().wrapping_sub(1)] {
        let _ = view.get(at);
    }
    let mut cursor = view.cursor();
    while let Ok(Some(entry)) = cursor.next() {
        let _ = owned(entry);
    }
    assert!(matches!(cursor.next(), Ok(None)), "nothing after an error");
    Some(())
}

#[test]
fn damage() {
    for kind in HashKind::ALL {
        for version in [Version::V2, Version::V4] {
            let (good, _) = two_blocks(kind, version);
            let mut plain = good.clone();
            let eoie_at = good.len() - kind.len() - eoie::len(kind);
            plain[eoie_at] ^= 1; // no table any more
            for good in [good, plain] {
                for len in 0..good.len() {
                    ask(&good[..len], kind);
                }
                for at in 0..good.len() {
                    for byte in [0, 1, 0x0f, 0x40, 0x7f, 0x80, 0xff, good[at] ^ 1, good[at].wrapping_add(8)] {
                        let mut bytes = good.clone();
                        bytes[at] = byte;
                        ask(&bytes, kind);
                    }
                }
            }
        }
    }
}

#[test]
fn a_claimed_count_costs_nothing() {
    for version in [Version::V2, Version::V4] {
        let (mut bytes, _) = two_blocks(HashKind::Sha1, version);
        bytes[8..12].copy_from_slice(&[0xff; 4]);
        let view = IndexView::parse(&bytes, HashKind::Sha1).unwrap();
        assert_eq!(view.len(), u32::MAX);
        let error = view.find(&long(b'd'), Stage::Merged).unwrap_err();
        match version {
            Version::V4 => assert!(matches!(error, ViewError::NeedsFullRead { .. })),
            _ => assert!(
                matches!(error, ViewError::Read(ReadError { kind: ReadErrorKind::Truncated { .. }, .. })),
                "{error}"
            ),
        }
        ask(&bytes, HashKind::Sha1);
    }
}

#[test]
fn a_required_extension_that_is_unknown_is_refused_by_name() {
    let (good, table_at) = two_blocks(HashKind::Sha1, Version::V2);
    let mut bytes = good.clone();
    bytes[table_at - 8..table_at - 4].copy_from_slice(b"abcd");
    let view = IndexView::parse(&bytes, HashKind::Sha1).unwrap();
    let kind = ReadErrorKind::RequiredExtension { signature: *b"abcd" };
    match view.find(b"a", Stage::Merged) {
        Err(ViewError::Read(error)) => assert_eq!((error.at, error.kind), (table_at as u64 - 8, kind)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_that_git_wrote() {
    for hash in Hash::ALL {
        let kind = HashKind::from_name(hash.name()).unwrap();
        let repo = TestRepo::init(hash);
        let blob = "1".repeat(hash.hex_len());
        let lines: String =
            (0..500).map(|n| format!("100644 {blob} 0\tsome dir/d{:02}/file-{n:03}\n", n / 20)).collect();
        let index_path = repo.git_dir().join("index");
        for (key, value) in [("threads", "6"), ("recordEndOfIndexEntries", "true"), ("recordOffsetTable", "true")] {
            repo.git(["config", &format!("index.{key}"), value]);
        }
        for version in ["2", "4"] {
            repo.git(["read-tree", "--empty"]);
            repo.git(["update-index", "--index-version", version]);
            repo.git_with(["update-index", "--index-info"], lines.as_bytes());
            let bytes = std::fs::read(&index_path).unwrap();
            let header = Header::parse(&bytes, kind).unwrap();
            assert_eq!((header.version as u8, header.count), (version.parse().unwrap(), 500));
            agree(&bytes, kind);
            let view = IndexView::parse(&bytes, kind).unwrap();
            view.lookup(b"some dir/d12/file-250", Stage::Merged).unwrap().expect("an entry");
            assert!(view.entries_stepped() < 200, "one of six blocks: {}", view.entries_stepped());
        }
    }
}

#[test]
fn a_split_index_needs_its_shared_one() {
    for hash in Hash::ALL {
        let kind = HashKind::from_name(hash.name()).unwrap();
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("a", b"1"), ("b", b"2"), ("c", b"3")], "first");
        repo.git(["config", "splitIndex.maxPercentChange", "100"]);
        repo.git(["update-index", "--split-index"]);
        repo.write("d", b"4");
        repo.git(["add", "d"]);
        let bytes = std::fs::read(repo.git_dir().join("index")).unwrap();
        let view = IndexView::parse(&bytes, kind).unwrap();
        let base = view.split_base().unwrap().expect("a shared index");
        assert!(repo.git_dir().join(format!("sharedindex.{base}")).exists());
        assert!(matches!(view.find(b"d", Stage::Merged), Err(ViewError::NeedsFullRead { .. })));
        assert!(matches!(view.get(0), Err(ViewError::NeedsFullRead { .. })));
        assert!(matches!(view.prefix(b""), Err(ViewError::NeedsFullRead { .. })));
        let own = rest(view.cursor());
        assert_eq!(own.last().map(|entry| entry.0.as_slice()), Some(&b"d"[..]), "added ones come last");
    }
}

#[test]
fn views_are_shared_between_threads() {
    let bytes = sample(HashKind::Sha1, Version::V2, Some(10));
    let view = IndexView::parse(bytes, HashKind::Sha1).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for at in 0..view.len() {
                    let entry = view.get(at).unwrap().unwrap();
                    let (path, stage) = (entry.entry().path(), entry.entry().stage());
                    assert_eq!(view.find(path, stage), Ok(Ok(at)));
                }
            });
        }
    });
}
