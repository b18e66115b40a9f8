//! Damage of all kinds: the cases that other implementations fell for, by their numbers; every prefix and changed byte; full
//! disks and held locks.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use hashfile::Shared;
use hashfile::lock::{self, LockError, LockFile};
use hashfile::publish::{self, Fsync};
use object::{HashKind, ObjectId};
use packstone_index::ext::{self, CacheTreeBuilder, Fsmonitor, Untracked};
use packstone_index::file::{IndexFile, SaveOptions, save, shared_name};
use packstone_index::source::ByteSource;
use packstone_index::trees::{TreeError, WriteTreeOptions, write_tree};
use packstone_index::{
    AddOptions, Bump, EditError, Entry, ExtError, Flags, Index, IndexView, Mode, NewEntry, Observer, ReadError,
    ReadErrorKind, ReadOptions, Stage, Stat, Time, Version, ViewError, WriteError, WriteOptions,
};
use testkit::io::{Counting, FailAfter, Ragged, Rng, Short};
use testkit::{Hash, TestRepo};

use crate::objects::{ByGit, Memory, kind};
use crate::regressions::bodies;
use crate::verify::{Sample, signed, version_4};

const FILE: Mode = Mode(0o100_644);

fn new(path: &[u8], kind: HashKind) -> NewEntry<'_> {
    NewEntry::new(path, FILE, kind.empty_blob())
}

fn paths(index: &Index<'_>) -> Vec<String> {
    index.iter().map(|entry| entry.path().escape_ascii().to_string()).collect()
}

fn read<'a>(arena: &'a Bump, bytes: &'a [u8], kind: HashKind) -> Result<Index<'a>, ReadError> {
    Index::read(arena, bytes, &ReadOptions::new(kind))
}

fn write(index: &mut Index<'_>) -> Vec<u8> {
    index.write_to(Vec::new(), &WriteOptions::default()).expect("written").0
}

/// The observer that remembers.
#[derive(Default)]
struct Heard {
    dropped: Mutex<Vec<[u8; 4]>>,
    cut: Mutex<Vec<u64>>,
}

impl Observer for Heard {
    fn dropped(&self, signature: [u8; 4], _: u64, _: &ExtError) {
        self.dropped.lock().unwrap().push(signature);
    }

    fn cut_short(&self, at: u64) {
        self.cut.lock().unwrap().push(at);
    }
}

#[test]
fn i1_the_number_is_of_bytes_to_remove() {
    for kind in HashKind::ALL {
        let arena = Bump::new();
        let (bytes, _) = version_4(kind, &[(&[0], "aaabbb", 6), (&[3], "cc", 5), (&[2], "ddd", 6)]);
        let mut index = read(&arena, &bytes, kind).unwrap();
        assert_eq!(paths(&index), ["aaabbb", "aaacc", "aaaddd"]);
        assert_eq!(write(&mut index), bytes);
        let mut made = Index::new(&arena, kind);
        made.replace_entries([&b"aaabbb"[..], b"aaacc", b"aaaddd"].map(|path| new(path, kind))).unwrap();
        made.set_version(Version::V4);
        assert_eq!(write(&mut made), bytes);

        // The length of what both have in common instead: the flags say that it is not so.
        let (bytes, at) = version_4(kind, &[(&[0], "aaabbb", 6), (&[3], "cc", 5), (&[3], "ddd", 6)]);
        let error = read(&arena, &bytes, kind).unwrap_err();
        assert_eq!(error.at, (at[2] + 42 + kind.len()) as u64);
        assert_eq!(error.kind, ReadErrorKind::Unterminated { len: 6 });
    }
}

#[test]
fn i2_more_to_remove_than_there_is() {
    for kind in HashKind::ALL {
        let arena = Bump::new();
        let big = [0x9e, 0xfe, 0xfe, 0xfe, 0xff, 0x00]; // 2^40
        for (strip, value) in [(&[7][..], 7), (&big, 1 << 40), (&[0xff; 10], u64::MAX), (&[0x80; 20], u64::MAX)] {
            let (bytes, at) = version_4(kind, &[(&[0], "aaabbb", 6), (strip, "b", 1)]);
            let error = read(&arena, &bytes, kind).unwrap_err();
            assert_eq!(error.at, (at[1] + 42 + kind.len()) as u64);
            assert_eq!(error.kind, ReadErrorKind::Strip { strip: value, previous: 6 });
        }
        // What the first removes is removed from nothing.
        for strip in [&[1][..], &big] {
            let (bytes, _) = version_4(kind, &[(strip, "aaabbb", 6), (&[6], "b", 1)]);
            assert_eq!(paths(&read(&arena, &bytes, kind).unwrap()), ["aaabbb", "b"]);
        }
        let (bytes, at) = version_4(kind, &[(&[0x80; 20], "aaabbb", 6)]);
        assert_eq!(read(&arena, &bytes, kind).unwrap_err().at, (at[0] + 42 + kind.len()) as u64);
    }
}

#[test]
fn i2_where_blocks_begin_the_whole_path_is_removed() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let kind = kind(&repo);
        for path in ["aa/1", "aa/2", "ab/1", "ab/2", "b/1", "b/2"] {
            repo.write(path, path.as_bytes());
        }
        for config in ["index.version=4", "index.threads=3"] {
            let (key, value) = config.split_once('=').unwrap();
            repo.git(["config", key, value]);
        }
        repo.git(["add", "."]);
        let bytes = fs::read(repo.git_dir().join("index")).unwrap();
        let arena = Bump::new();
        for threads in [1, 3] {
            let index = Index::read(&arena, &bytes, &ReadOptions::new(kind).threads(threads)).unwrap();
            assert_eq!(paths(&index), ["aa/1", "aa/2", "ab/1", "ab/2", "b/1", "b/2"]);
        }
        // Ours begin in the same way: the files are the same.
        let mut index = read(&arena, &bytes, kind).unwrap();
        let (ours, _) = index.write_to(Vec::new(), &WriteOptions::default().offset_table(Some(2))).unwrap();
        assert!(ours == bytes);
        let mut index = Index::new(&arena, kind);
        let theirs = read(&arena, &bytes, kind).unwrap();
        index.replace_entries(theirs.iter().map(NewEntry::from)).unwrap();
        index.set_version(Version::V4);
        let (ours, _) = index.write_to(Vec::new(), &WriteOptions::default().offset_table(Some(2))).unwrap();
        assert!(ours == bytes);
    }
}

fn table(blocks: &[(usize, u32)]) -> Vec<u8> {
    let pairs = blocks.iter().flat_map(|(at, count)| [*at as u32, *count]);
    std::iter::once(1).chain(pairs).flat_map(u32::to_be_bytes).collect()
}

#[test]
fn i3_a_stale_offset_table_changes_nothing() {
    for kind in HashKind::ALL {
        let size = (42 + kind.len() + 1 + 8) & !7;
        let third = 12 + 2 * size;
        let cases: [&[(usize, u32)]; 6] = [
            &[(12, 2), (third, 2)],
            &[(12, 2), (third + size, 2)],
            &[(12, 2), (third + 3, 2)],
            &[(12, 2), (0x7fff_ffff, 2)],
            &[(12, 2), (third, 1)],
            &[(12, 4), (third, 2)],
        ];
        for blocks in cases {
            let mut sample = Sample::new(kind).files(&["a", "b", "c", "d"]);
            let end = sample.bytes.len();
            sample.extension(ext::IEOT, &table(blocks));
            sample.end_of_entries(end);
            let bytes = sample.finish();
            for threads in [1, 4] {
                let arena = Bump::new();
                let index = Index::read(&arena, &bytes, &ReadOptions::new(kind).threads(threads)).unwrap();
                assert_eq!(paths(&index), ["a", "b", "c", "d"], "{blocks:?}");
            }
        }
    }
}

/// Enough for two threads to share.
const MANY: usize = 20_500;

/// So many entries; every thousandth has a second flag word, and some a path that is longer than the flags can say.
fn many<'a>(arena: &'a Bump, kind: HashKind, count: usize, version: Version) -> Index<'a> {
    let long = "y".repeat(5000);
    let path = |n: usize| match n % 5000 {
        17 => format!("dir{:03}/file{n:06}{long}", n / 300),
        _ => format!("dir{:03}/file{n:06}{}", n / 300, &long[..n % 23]),
    };
    let paths: Vec<String> = (0..count).map(path).collect();
    let entry = |(n, path): (usize, &String)| NewEntry {
        path: arena.alloc_slice_copy(path.as_bytes()),
        stat: Stat { size: n as u32, ..Stat::default() },
        flags: Flags { skip_worktree: n % 1000 == 7, ..Flags::default() },
        ..new(b"", kind)
    };
    let mut index = Index::new(arena, kind);
    index.replace_entries(paths.iter().enumerate().map(entry)).unwrap();
    index.set_version(version);
    index
}

/// Where the entry behind the one at this place begins.
fn next_entry(bytes: &[u8], at: usize, kind: HashKind) -> usize {
    let flags = u16::from_be_bytes([bytes[at + 40 + kind.len()], bytes[at + 41 + kind.len()]]);
    let head = at + 42 + kind.len() + if flags & 0x4000 != 0 { 2 } else { 0 };
    let nul = |from: usize| from + bytes[from..].iter().position(|byte| *byte == 0).unwrap();
    match bytes[7] {
        4 => nul(head + 1 + bytes[head..].iter().position(|byte| byte & 0x80 == 0).unwrap()) + 1,
        _ => at + ((nul(head) - at + 8) & !7),
    }
}

/// Path, stage and id of all entries, or the error, by so many threads.
fn outcome(bytes: &[u8], kind: HashKind, threads: usize) -> Result<Vec<(Vec<u8>, Stage, ObjectId)>, ReadError> {
    let arena = Bump::new();
    let index = Index::read(&arena, bytes, &ReadOptions::new(kind).threads(threads))?;
    Ok(index.iter().map(|entry| (entry.path().to_vec(), entry.stage(), entry.id())).collect())
}

/// What is read never depends on threads, and is what the plainest reader reads.
#[track_caller]
fn all_agree(bytes: &[u8], kind: HashKind, what: &dyn std::fmt::Debug) {
    let one = outcome(bytes, kind, 1);
    for threads in [2, 3] {
        let other = outcome(bytes, kind, threads);
        assert!(one == other, "{what:?}: {:?} with {threads} threads, {:?} with one", other.err(), one.as_ref().err());
    }
    let plain = bodies::naive(bytes, kind);
    match (one, plain) {
        (Ok(one), Some(plain)) => assert!(one == plain, "{what:?}"),
        (Ok(_), None) => panic!("{what:?}: damage was not seen"),
        (Err(error), Some(_)) => {
            let of_extension =
                matches!(error.kind, ReadErrorKind::RequiredExtension { .. } | ReadErrorKind::Extension { .. });
            assert!(of_extension, "{what:?}: {error}");
        }
        (Err(_), None) => {}
    }
}

#[test]
fn i3_a_stale_offset_table_changes_nothing_for_threads_either() {
    for (kind, version) in
        [(HashKind::Sha1, Version::V2), (HashKind::Sha1, Version::V4), (HashKind::Sha256, Version::V4)]
    {
        let arena = Bump::new();
        let mut index = many(&arena, kind, MANY, version);
        let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default().offset_table(Some(6000))).unwrap();
        let end = ext::eoie::locate(&bytes, kind).unwrap();
        let item = ext::Extensions::new(&bytes, end, bytes.len()).next().unwrap().unwrap();
        assert_eq!(item.signature, ext::IEOT);
        let blocks = ext::ieot::parse(item.data, 12..end, MANY).unwrap();
        let blocks: Vec<(usize, u32)> = blocks.iter().map(|block| (block.at, block.entries)).collect();
        assert_eq!(blocks.len(), 4);
        all_agree(&bytes, kind, &"a sound table");
        type Change = fn(&mut Vec<(usize, u32)>, usize);
        let changes: [(&str, Change); 8] = [
            ("one entry too late", |blocks, next| blocks[2].0 = next),
            ("an entry's bytes off", |blocks, _| blocks[2].0 += 3),
            ("far beyond", |blocks, _| blocks[2].0 = 0x7fff_ffff),
            ("too few", |blocks, _| blocks[2].1 -= 1),
            ("too many", |blocks, _| blocks[2].1 += 2),
            ("one of the next block's", |blocks, _| (blocks[1].1, blocks[2].1) = (6001, 5999)),
            ("not where a path begins", |blocks, next| {
                (blocks[1].1, blocks[2]) = (6001, (next, 5999));
            }),
            ("twice the same block", |blocks, _| blocks[2].0 = blocks[1].0),
        ];
        for (what, change) in changes {
            let mut blocks = blocks.clone();
            let next = next_entry(&bytes, blocks[2].0, kind);
            change(&mut blocks, next);
            let mut bytes = bytes.clone();
            bytes[item.at..item.at + item.data.len()].copy_from_slice(&table(&blocks));
            all_agree(&bytes, kind, &what);
            assert_eq!(outcome(&bytes, kind, 2).unwrap().len(), MANY, "{what}");
        }
    }
}

/// The flags of a path of 4095 bytes and more do not say how long it is: only what is removed from the path before tells that a
/// block does not begin with a whole path.
#[test]
fn i2_blocks_that_begin_in_the_middle_of_a_path() {
    let kind = HashKind::Sha1;
    let arena = Bump::new();
    let mut index = Index::new(&arena, kind);
    let path = |n: usize| {
        let letter = if n < MANY / 2 { "a" } else { "b" };
        arena.alloc_str(&format!("a/{}{n:05}", letter.repeat(4100))).as_bytes()
    };
    index.replace_entries((0..MANY).map(|n| new(path(n), kind))).unwrap();
    index.set_version(Version::V4);
    let mut bytes = write(&mut index);
    bytes.truncate(bytes.len() - kind.len());
    let end = bytes.len();
    let middle = (0..MANY / 2).fold(12, |at, _| next_entry(&bytes, at, kind));
    let half = MANY as u32 / 2;
    let blocks = table(&[(12, half), (middle, MANY as u32 - half)]);
    bytes.extend([&ext::header(ext::IEOT, blocks.len() as u32)[..], &blocks].concat());
    let mut data = Vec::new();
    ext::eoie::append(end as u32, &[(ext::IEOT, blocks.len() as u32)], kind, &mut data);
    bytes.extend([&ext::header(ext::EOIE, data.len() as u32)[..], &data].concat());
    all_agree(&signed(bytes, kind), kind, &"in the middle");
}

#[test]
fn damage_in_large_files() {
    for (kind, version, table) in [
        (HashKind::Sha1, Version::V2, None),
        (HashKind::Sha256, Version::V2, Some(4000)),
        (HashKind::Sha256, Version::V4, None),
        (HashKind::Sha1, Version::V4, Some(4000)),
    ] {
        let arena = Bump::new();
        let mut index = many(&arena, kind, MANY, version);
        let (bytes, written) = index.write_to(Vec::new(), &WriteOptions::default().offset_table(table)).unwrap();
        assert_eq!(written.version, if version == Version::V4 { Version::V4 } else { Version::V3 });
        for count in [0, 1, MANY - 1, MANY + 1, u32::MAX as usize] {
            let mut bytes = bytes.clone();
            bytes[8..12].copy_from_slice(&(count as u32).to_be_bytes());
            all_agree(&bytes, kind, &count);
        }
        let mut rng = Rng::new(7);
        let mut at = 12;
        for n in 0..12 {
            // Around the places where parts may begin, and into what matters most: the flags, lengths and paths.
            let near = bytes.len() / 16 * (1 + n) + rng.below(200) as usize;
            while at < near {
                at = next_entry(&bytes, at, kind);
            }
            let within = 40 + kind.len() + rng.below(30) as usize;
            let mut bytes = bytes.clone();
            let place = (at + within).min(bytes.len() - 1);
            bytes[place] = rng.next_u64() as u8;
            all_agree(&bytes, kind, &(place, bytes[place]));
        }
        for cut in [12, bytes.len() / 2, bytes.len() - 1] {
            all_agree(&bytes[..cut], kind, &cut);
        }
    }
}

#[test]
fn i4_a_zero_trailer_is_not_checked_and_a_wrong_one_is_if_asked() {
    for kind in HashKind::ALL {
        let bytes = Sample::new(kind).files(&["a", "b"]).finish();
        let end = bytes.len() - kind.len();
        let check = ReadOptions::new(kind).verify_checksum(true);
        for threads in [1, 2] {
            let arena = Bump::new();
            let index = Index::read(&arena, &bytes, &check.threads(threads)).unwrap();
            assert_eq!(index.checksum().unwrap().as_bytes(), &bytes[end..]);

            let zero = [&bytes[..end], &vec![0; kind.len()]].concat();
            let index = Index::read(&arena, &zero, &check.threads(threads)).unwrap();
            assert_eq!((paths(&index), index.checksum()), (vec!["a".into(), "b".into()], None));

            let mut wrong = bytes.clone();
            wrong[end] ^= 1;
            assert_eq!(paths(&read(&arena, &wrong, kind).unwrap()), ["a", "b"]);
            let error = Index::read(&arena, &wrong, &check.threads(threads)).unwrap_err();
            assert_eq!(error.at, end as u64);
            assert!(matches!(error.kind, ReadErrorKind::Checksum { .. }), "{error}");
        }
    }
}

/// `TREE` data: name, count, subtrees, id.
fn nodes(nodes: &[(&str, i64, u64, Option<&[u8]>)]) -> Vec<u8> {
    let node = |(name, count, subtrees, id): &(&str, i64, u64, Option<&[u8]>)| {
        [format!("{name}\0{count} {subtrees}\n").as_bytes(), id.unwrap_or_default()].concat()
    };
    nodes.iter().flat_map(node).collect()
}

#[test]
fn i6_cache_trees_that_lie() {
    for kind in HashKind::ALL {
        let id = kind.empty_tree();
        let id = Some(id.as_bytes());
        let (short, root) = (id.map(|id| &id[..10]), ("", -1, 1, None));
        let mut endless = nodes(&[root]);
        endless.extend(b"a\x00-1 0");
        let cases: [(Vec<u8>, bool); 10] = [
            (nodes(&[root, ("a", -1, 0, None)]), true),
            (nodes(&[root, ("a", 0, 0, id)]), false),
            (nodes(&[root, ("a", 500, 0, id)]), false),
            (nodes(&[("", 500, 1, id), ("a", 1, 0, id)]), false),
            (nodes(&[("", -1, 2, None), ("a", 4_294_967_295, 0, id), ("b", 4_294_967_295, 0, id)]), false),
            (nodes(&[("", -1, 1_000_000_000, None)]), false),
            (endless, false),
            (nodes(&[root, ("a", 1, 0, short)]), false),
            (nodes(&[("", -1, 2, None), ("a", 1, 0, id), ("a", 1, 0, id)]), false),
            // Covers more than its directory has: only the entries tell.
            (nodes(&[root, ("a", 2, 0, id)]), true),
        ];
        for (data, kept) in cases {
            let mut sample = Sample::new(kind).files(&["a/b", "z"]);
            sample.extension(ext::TREE, &data);
            let bytes = sample.finish();
            let (arena, heard) = (Bump::new(), Heard::default());
            let mut index = Index::read(&arena, &bytes, &ReadOptions::new(kind).observer(&heard)).unwrap();
            let dropped = if kept { vec![] } else { vec![ext::TREE] };
            assert_eq!(*heard.dropped.lock().unwrap(), dropped, "{}", data.escape_ascii());
            assert_eq!((paths(&index), index.cache_tree().is_some()), (vec!["a/b".into(), "z".into()], kept));
            let mut made = Index::new(&arena, kind);
            made.replace_entries(index.iter().map(NewEntry::from)).unwrap();
            let mut memory = Memory::new(kind);
            let options = WriteTreeOptions::default();
            let root = write_tree(&mut made, &mut memory, &options).unwrap().id;
            assert_eq!(write_tree(&mut index, &mut memory, &options).unwrap().id, root, "{}", data.escape_ascii());
        }
    }
}

#[test]
fn i7_an_entry_that_says_something_else_is_in_another_tree() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let kind = kind(&repo);
        repo.commit_files(&[("d/a", b"one"), ("e/f/b", b"two"), ("c", b"three")], "first");
        let other = ObjectId::from_hex(repo.hash_object("blob", b"other").as_bytes()).unwrap();
        let file = repo.git_dir().join("index");
        let before = fs::read(&file).unwrap();
        let same = repo.git_str(["write-tree"]);
        type Edit = fn(&mut Index<'_>, ObjectId);
        let edits: [(&str, Edit); 6] = [
            ("set_id", |index, id| index.set_id(index.range(b"d/a").start, id)),
            ("set_mode", |index, _| index.set_mode(index.range(b"d/a").start, Mode(0o100_755))),
            ("set_flags", |index, _| {
                let flags = Flags { intent_to_add: true, ..Flags::default() };
                index.set_flags(index.range(b"d/a").start, flags);
            }),
            ("add", |index, id| {
                index.add(&NewEntry::new(b"e/new", FILE, id), &AddOptions::default()).unwrap();
            }),
            ("remove", |index, _| assert_eq!(index.remove(b"e/f/b"), 1)),
            ("replace", |index, id| {
                index.add(&NewEntry::new(b"e", FILE, id), &AddOptions::default().replace(true)).unwrap();
            }),
        ];
        for (what, edit) in edits {
            let arena = Bump::new();
            let mut index = read(&arena, &before, kind).unwrap();
            edit(&mut index, other);
            fs::write(&file, write(&mut index)).unwrap();
            let tree = repo.git_str(["write-tree"]);
            assert_ne!(tree, same, "{what}");
            assert_eq!(
                write_tree(&mut index, &mut ByGit(&repo), &WriteTreeOptions::default()).unwrap().id.to_string(),
                tree
            );
            // What git makes of the entries alone.
            let listed = repo.git(["ls-files", "--stage"]);
            fs::remove_file(&file).unwrap();
            repo.git_with(["update-index", "--index-info"], &listed);
            if what != "set_flags" {
                assert_eq!(repo.git_str(["write-tree"]), tree, "{what}");
            }
        }
    }
}

#[test]
fn i9_paths_of_4095_bytes_and_more() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let kind = kind(&repo);
        let long = |len: usize, end: &str| format!("{}{end}", "a".repeat(len));
        let names = [long(4094, ""), long(4095, ""), long(4095, "b"), long(4095, "c")];
        let lines = |name: &String| format!("100644 {} 0\t{name}\n", kind.empty_blob());
        repo.git_with(["update-index", "--index-info"], names.iter().map(lines).collect::<String>().as_bytes());
        let file = repo.git_dir().join("index");
        for version in ["2", "4", "2"] {
            repo.git(["update-index", "--index-version", version]);
            let theirs = fs::read(&file).unwrap();
            let arena = Bump::new();
            let mut index = read(&arena, &theirs, kind).unwrap();
            assert_eq!(paths(&index), names);
            assert!(write(&mut index) == theirs);
            for name in &names {
                assert_eq!(index.range(name.as_bytes()).len(), 1);
            }
            // There and back.
            let other = if version == "2" { Version::V4 } else { Version::V2 };
            index.set_version(other);
            let changed = write(&mut index);
            let mut again = read(&arena, &changed, kind).unwrap();
            assert_eq!((again.version(), paths(&again)), (other, names.to_vec()));
            again.set_version(index.version());
            assert_eq!(write(&mut again), changed);
            again.set_version(if version == "2" { Version::V2 } else { Version::V4 });
            assert!(write(&mut again) == theirs);
            // Made by us.
            let mut made = Index::new(&arena, kind);
            for name in names.iter().rev() {
                made.add(&new(name.as_bytes(), kind), &AddOptions::default()).unwrap();
            }
            made.set_version(if version == "2" { Version::V2 } else { Version::V4 });
            assert!(write(&mut made) == theirs);
        }
    }
}

fn set_mtime(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn save_quietly(index: &mut Index<'_>, file: &Path, options: &SaveOptions<'_>) {
    let lock = LockFile::acquire(file, &lock::Options::default().fsync(Fsync::None)).unwrap();
    let options = options.clone().publish(publish::Options::default().fsync(Fsync::None));
    save(index, lock, &options).unwrap();
}

/// A change within the second in which the index was written: whoever writes it next has to leave a trace.
#[test]
fn i10_racily_clean_entries() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for split in [false, true] {
        for content in [&b"bbbb"[..], b""] {
            let repo = TestRepo::init(Hash::Sha1);
            let kind = kind(&repo);
            let (file, path) = (repo.git_dir().join("index"), repo.path().join("f"));
            repo.write("f", b"aaaa");
            set_mtime(&path, time);
            repo.git(["add", "f"]);
            repo.write("same", b"same");
            set_mtime(&repo.path().join("same"), time);
            repo.git(["add", "same"]);
            if split {
                repo.git(["update-index", "--split-index"]);
            }
            repo.git(["config", "core.checkStat", "minimal"]); // the inode change time is beyond our reach
            repo.git(["config", "core.trustctime", "false"]);
            set_mtime(&file, time);
            repo.write("f", content);
            set_mtime(&path, time);
            assert_eq!(repo.git_str(["diff-files", "--name-only"]), "f");

            let asked = Mutex::new(Vec::new());
            let same = |entry: Entry<'_>| {
                asked.lock().unwrap().push(entry.path().to_vec());
                fs::read(repo.path().join(std::str::from_utf8(entry.path()).unwrap())).unwrap() != b"same"
            };
            let index_file = IndexFile::open(&file, ByteSource::Auto).unwrap().unwrap();
            let arena = Bump::new();
            let mut index = index_file.read(&arena, &ReadOptions::new(kind)).unwrap();
            assert_eq!(index.timestamp(), Time { secs: 1_700_000_000, nanos: 0 });
            index.add(&new(b"unrelated", kind), &AddOptions::default()).unwrap();
            save_quietly(
                &mut index,
                &file,
                &SaveOptions::default().write(WriteOptions::default().is_modified(Some(&same))),
            );
            assert_eq!(asked.into_inner().unwrap(), [&b"f"[..], b"same"], "each once");
            assert_eq!(repo.git_str(["diff-files", "--name-only"]), "f\nunrelated");
            let sizes = repo.git_str(["ls-files", "--debug", "f", "same"]);
            let sizes: Vec<&str> = sizes.lines().filter(|line| line.contains("size:")).collect();
            assert_eq!(sizes, ["  size: 0\tflags: 0", "  size: 4\tflags: 0"]);
        }
    }
}

#[test]
fn i10_who_is_doubted() {
    for kind in HashKind::ALL {
        let arena = Bump::new();
        let entry = |path: &'static [u8], secs: u32, nanos: u32, size: u32| NewEntry {
            stat: Stat { mtime: Time { secs, nanos }, size, ..Stat::default() },
            ..new(path, kind)
        };
        let read_back = |index: &mut Index<'_>, options: &WriteOptions<'_>| {
            let bytes = index.write_to(Vec::new(), options).unwrap().0;
            let arena = Bump::new();
            let again = read(&arena, &bytes, kind).unwrap();
            again.iter().map(|entry| entry.stat().size).collect::<Vec<_>>()
        };
        let mut index = Index::new(&arena, kind);
        let link = NewEntry { mode: Mode(0o160_000), ..entry(b"submodule", 100, 0, 7) };
        let entries = [entry(b"a", 99, 999_999_999, 7), entry(b"b", 100, 0, 7), entry(b"c", 101, 0, 7), link];
        index.replace_entries(entries).unwrap();
        // Not known when the file was written: as a new one.
        assert_eq!(read_back(&mut index, &WriteOptions::default()), [7, 7, 7, 7]);
        index.set_timestamp(Time { secs: 100, nanos: 0 });
        assert_eq!(read_back(&mut index, &WriteOptions::default()), [7, 0, 0, 7]);
        index.set_timestamp(Time { secs: 100, nanos: 5 });
        assert_eq!(read_back(&mut index, &WriteOptions::default()), [7, 0, 0, 7]);
        assert_eq!(read_back(&mut index, &WriteOptions::default().is_modified(Some(&|_| false))), [7, 7, 7, 7]);
        index.set_up_to_date(1, true);
        assert_eq!(read_back(&mut index, &WriteOptions::default()), [7, 7, 0, 7]);
        index.set_version(Version::V4);
        assert_eq!(read_back(&mut index, &WriteOptions::default().offset_table(Some(1))), [7, 7, 0, 7]);
        // In memory nothing changed.
        assert_eq!(index.get(2).unwrap().stat().size, 7);
    }
}

#[test]
fn i11_times_that_do_not_fit() {
    let repo = TestRepo::init(Hash::Sha1);
    let kind = kind(&repo);
    for date in ["1960-05-05 05:05:05.5", "2200-05-05 00:00:00"] {
        let path = repo.path().join("f");
        repo.write("f", b"content");
        assert!(Command::new("touch").env("TZ", "UTC").args(["-d", date]).arg(&path).status().unwrap().success());
        repo.git(["add", "f"]);
        let bytes = fs::read(repo.git_dir().join("index")).unwrap();
        let arena = Bump::new();
        let mut index = read(&arena, &bytes, kind).unwrap();
        let stat = Stat::from_metadata(&fs::symlink_metadata(&path).unwrap());
        assert_eq!(index.get(0).unwrap().stat(), stat, "{date}");
        // Ours is clean for git.
        index.set_stat(0, Stat::default());
        index.set_stat(0, stat);
        fs::write(repo.git_dir().join("index"), write(&mut index)).unwrap();
        assert_eq!(repo.git_str(["diff-files"]), "", "{date}");
    }
}

#[test]
fn i13_extensions_that_are_unknown_or_cut() {
    for kind in HashKind::ALL {
        let with = |tail: &[u8]| {
            let mut sample = Sample::new(kind).files(&["a"]);
            sample.bytes.extend(tail);
            sample.finish()
        };
        let frame = |signature: &[u8; 4], data: &[u8]| [&ext::header(*signature, data.len() as u32), data].concat();
        let tree = frame(b"TREE", &nodes(&[("", -1, 0, None)]));
        let (entries_end, arena) = (with(b"").len() - kind.len(), Bump::new());

        // One that may be ignored is kept, and written again.
        let bytes = with(&[&tree, &frame(b"ABCD", b"123")[..]].concat());
        let mut index = read(&arena, &bytes, kind).unwrap();
        assert_eq!(
            index.extensions().iter().map(|ext| (&ext.signature, ext.data)).collect::<Vec<_>>(),
            [(b"ABCD", &b"123"[..])]
        );
        assert_eq!(write(&mut index), bytes);
        index.drop_unknown_extensions();
        assert_eq!(write(&mut index), with(&tree));

        let bytes = with(&frame(b"abcd", b"123"));
        let error = read(&arena, &bytes, kind).unwrap_err();
        assert_eq!(error.at, entries_end as u64);
        assert_eq!(error.kind, ReadErrorKind::RequiredExtension { signature: *b"abcd" });
        assert!(error.to_string().contains("abcd"));

        // What has to be understood cannot be left out because it is cut: that would be another index.
        for signature in [*b"abcd", ext::LINK, ext::SDIR, [0; 4]] {
            let bytes = with(&[&tree[..], &ext::header(signature, 100), b"data"].concat());
            let error = read(&arena, &bytes, kind).unwrap_err();
            assert_eq!(error.at, (entries_end + tree.len()) as u64, "{error}");
            let view = IndexView::parse(&bytes[..], kind).unwrap();
            assert_eq!(view.lookup(b"a", Stage::Merged).unwrap_err(), ViewError::Read(error));
        }

        let cut = [&ext::header(*b"TREE", 0xffff_fff0)[..], b"data"].concat();
        for tail in [&cut[..], b"stray", b"\0\0\0\0\0"] {
            let (bytes, heard) = (with(&[&tree[..], tail].concat()), Heard::default());
            let index = Index::read(&arena, &bytes, &ReadOptions::new(kind).observer(&heard)).unwrap();
            assert_eq!((paths(&index), index.cache_tree().is_none()), (vec!["a".into()], true));
            assert_eq!(heard.cut.lock().unwrap().len(), 1);
        }
    }
}

#[test]
fn i13_a_monitors_bits_beyond_the_entries() {
    for kind in HashKind::ALL {
        let monitor = |bits: u32| {
            let words = [1u64 << 33, 0xffff_ffff].map(u64::to_be_bytes).concat();
            let bitmap = [&[bits, 2].map(u32::to_be_bytes).concat()[..], &words, &[0; 4]].concat();
            [&2u32.to_be_bytes()[..], b"tok\0", &(bitmap.len() as u32).to_be_bytes(), &bitmap].concat()
        };
        for (bits, kept) in [(300, false), (32, false), (4, true)] {
            let mut data = monitor(bits);
            if kept {
                data.clear();
                Fsmonitor::append(b"tok", [0, 3], &mut data);
            }
            let mut sample = Sample::new(kind).files(&["a", "b", "c", "d"]);
            sample.extension(ext::FSMN, &data);
            let (bytes, heard, arena) = (sample.finish(), Heard::default(), Bump::new());
            let mut index = Index::read(&arena, &bytes, &ReadOptions::new(kind).observer(&heard)).unwrap();
            assert_eq!(heard.dropped.lock().unwrap().is_empty(), kept);
            assert_eq!(index.fsmonitor_token(), kept.then_some(&b"tok"[..]));
            let valid: Vec<bool> = (0..5).map(|at| index.fsmonitor_valid(at)).collect();
            assert_eq!(valid, if kept { [false, true, true, false, false] } else { [false; 5] });
            // The bits move with the entries.
            index.remove(b"b");
            index.add(&new(b"a2", kind), &AddOptions::default()).unwrap();
            let valid: Vec<bool> = (0..5).map(|at| index.fsmonitor_valid(at)).collect();
            assert_eq!(valid, if kept { [false, false, true, false, false] } else { [false; 5] });
        }
        for data in [vec![0x80; 1], vec![0x80; 20]] {
            let mut sample = Sample::new(kind).files(&["a"]);
            sample.extension(ext::UNTR, &data);
            let (bytes, heard, arena) = (sample.finish(), Heard::default(), Bump::new());
            let index = Index::read(&arena, &bytes, &ReadOptions::new(kind).observer(&heard)).unwrap();
            assert_eq!((index.untracked().is_none(), heard.dropped.lock().unwrap().len()), (true, 1));
        }
    }
}

#[test]
fn i13_entries_without_an_id() {
    for kind in HashKind::ALL {
        let mut sample = Sample::new(kind).files(&["a", "b"]);
        sample.bytes[12 + 40..12 + 40 + kind.len()].fill(0);
        sample.extension(ext::TREE, &nodes(&[("", 2, 0, Some(kind.empty_tree().as_bytes()))]));
        let bytes = sample.finish();
        let arena = Bump::new();
        let mut index = read(&arena, &bytes, kind).unwrap();
        assert_eq!(paths(&index), ["a", "b"]);
        assert!(
            matches!(index.write_to(Vec::new(), &WriteOptions::default()), Err(WriteError::NullId { path }) if path == b"a")
        );
        let null = index.add(&NewEntry::new(b"z", FILE, kind.null()), &AddOptions::default());
        assert!(null.is_ok(), "refused only when it is written");
        index.remove(b"z");
        index.set_cache_tree(read(&arena, &bytes, kind).unwrap().cache_tree().cloned());
        let allowed = WriteOptions::default().allow_null_ids(true);
        let (written, _) = index.write_to(Vec::new(), &allowed).unwrap();
        let again = read(&arena, &written, kind).unwrap();
        assert_eq!((paths(&again), again.cache_tree().is_none()), (vec!["a".into(), "b".into()], true));

        // In a split index it may be in either file.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("index");
        index.set_split();
        save_quietly(&mut index, &file, &SaveOptions::default().write(allowed));
        let opened = IndexFile::open(&file, ByteSource::Heap).unwrap().unwrap();
        let mut index = opened.read(&arena, &ReadOptions::new(kind)).unwrap();
        assert!(index.is_split() && index.cache_tree().is_none() && index.get(0).unwrap().id().is_null());
        let old = fs::read(&file).unwrap();
        index.add(&new(b"c", kind), &AddOptions::default()).unwrap();
        let lock = LockFile::acquire(&file, &lock::Options::default().fsync(Fsync::None)).unwrap();
        let options = SaveOptions::default().max_percent_change(100);
        assert!(matches!(save(&mut index, lock, &options), Err(WriteError::NullId { path }) if path == b"a"));
        assert_eq!(fs::read(&file).unwrap(), old);
        write_tree(&mut index, &mut Memory::new(kind), &WriteTreeOptions::default()).unwrap_err();
        index.set_cache_tree(Some({
            let mut tree = CacheTreeBuilder::new(kind);
            tree.open(b"");
            tree.close(Some((3, kind.empty_tree())));
            tree.finish()
        }));
        save_quietly(&mut index, &file, &options.write(allowed));
        let opened = IndexFile::open(&file, ByteSource::Heap).unwrap().unwrap();
        let index = opened.read(&arena, &ReadOptions::new(kind)).unwrap();
        assert_eq!((paths(&index).len(), index.cache_tree().is_none()), (3, true));
    }
}

#[test]
fn s3_evil_paths_are_read_but_not_added() {
    let evil = [".git/x", "../x", "/abs", "a//b", "a/./b", "a/", ".GIT/x", "git~1/x", "a\\b"];
    for kind in HashKind::ALL {
        for path in evil {
            let allowed = path == "a\\b" && !cfg!(windows);
            let arena = Bump::new();
            let entry = new(path.as_bytes(), kind);
            let mut index = Index::new(&arena, kind);
            let refused = index.add(&entry, &AddOptions::default());
            assert_eq!(refused.is_ok(), allowed, "{path}");
            assert!(allowed || matches!(refused, Err(EditError::Path { .. })));
            let mut batch = packstone_index::Batch::new();
            batch.put(entry);
            assert_eq!(index.apply(&batch, &AddOptions::default()).is_ok(), allowed);

            let bytes = Sample::new(kind).files(&[path]).finish();
            let mut index = read(&arena, &bytes, kind).unwrap();
            assert_eq!(index.get(0).unwrap().path(), path.as_bytes(), "whoever creates files checks again");
            let written = write_tree(&mut index, &mut Memory::new(kind), &WriteTreeOptions::default());
            assert_eq!(written.is_ok(), allowed, "{path}");
            assert!(allowed || matches!(written, Err(TreeError::Path { .. } | TreeError::Order { .. })), "{path}");
            // It can be taken out.
            assert_eq!((index.remove(path.as_bytes()), index.len()), (1, 0));
        }
        let arena = Bump::new();
        let mut index = Index::new(&arena, kind);
        let link = NewEntry { mode: Mode(0o120_000), ..new(b"d/.gitmodules", kind) };
        assert!(matches!(index.add(&link, &AddOptions::default()), Err(EditError::Path { .. })));
        assert!(index.add(&new(b"d/.gitmodules", kind), &AddOptions::default()).is_ok());
    }
}

/// Runs one test of this binary by itself, in a shell's environment.
fn run_alone(test: &str, prelude: &str, folder: &Path) {
    let exe = std::env::current_exe().unwrap();
    let script = format!("{prelude}; exec \"$0\" --exact hostile::{test} --include-ignored --nocapture");
    let mut command = Command::new("sh");
    let output = command.arg("-c").arg(script).arg(exe).env("PACKSTONE_TEST_FOLDER", folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn f3_modes_of_index_and_shared_index() {
    for (umask, mode) in [("022", 0o644), ("077", 0o600), ("002", 0o664), ("027", 0o640)] {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        run_alone("saves_one_of_each", &format!("umask {umask}"), dir.path());
        let mode_of = |folder: &str, shared: bool| {
            let mut files = fs::read_dir(dir.path().join(folder)).unwrap().map(|entry| entry.unwrap());
            let wanted = |name: &str| if shared { name.starts_with("sharedindex.") } else { name == "index" };
            let file = files.find(|entry| wanted(entry.file_name().to_str().unwrap())).expect("a file");
            file.metadata().unwrap().mode() & 0o777
        };
        for (folder, expected) in
            [("umask", mode), ("group", mode | 0o660), ("everybody", mode | 0o664), ("exact", 0o640)]
        {
            assert_eq!(mode_of(folder, false), expected, "{umask}, {folder}");
            assert_eq!(mode_of(folder, true), expected, "{umask}, {folder}, shared index");
        }
    }
}

#[test]
#[ignore = "run by f3_modes_of_index_and_shared_index, with a umask of its own"]
fn saves_one_of_each() {
    let Some(dir) = std::env::var_os("PACKSTONE_TEST_FOLDER") else { return };
    for (folder, shared) in [
        ("umask", Shared::Umask),
        ("group", Shared::Group),
        ("everybody", Shared::Everybody),
        ("exact", Shared::Exact(0o640)),
    ] {
        let dir = Path::new(&dir).join(folder);
        fs::create_dir(&dir).unwrap();
        let arena = Bump::new();
        let mut index = many(&arena, HashKind::Sha1, 10, Version::V2);
        index.set_split();
        let lock = LockFile::acquire(&dir.join("index"), &lock::Options::default().shared(shared)).unwrap();
        save(&mut index, lock, &SaveOptions::default().publish(publish::Options::default().shared(shared))).unwrap();
    }
}

#[test]
fn a_full_disk_leaves_the_old_index() {
    let dir = tempfile::tempdir().unwrap();
    run_alone("fills_the_disk", "trap '' XFSZ; ulimit -f 64", dir.path());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left over");
}

#[test]
#[ignore = "run by a_full_disk_leaves_the_old_index, with a limit to the size of files"]
fn fills_the_disk() {
    let Some(dir) = std::env::var_os("PACKSTONE_TEST_FOLDER") else { return };
    let file = Path::new(&dir).join("index");
    let arena = Bump::new();
    for (split, threads) in [(false, 1), (false, 2), (true, 1), (true, 2)] {
        let mut old = many(&arena, HashKind::Sha1, 10, Version::V2);
        save_quietly(&mut old, &file, &SaveOptions::default());
        let before = fs::read(&file).unwrap();
        let mut index = many(&arena, HashKind::Sha1, MANY, Version::V2);
        if split {
            index.set_split();
        }
        let lock = LockFile::acquire(&file, &lock::Options::default()).unwrap();
        let error = save(&mut index, lock, &SaveOptions::default().write(WriteOptions::default().threads(threads)))
            .unwrap_err();
        assert!(matches!(error, WriteError::Hashfile(_)), "{error}");
        assert_eq!(fs::read(&file).unwrap(), before);
        assert!(index.is_changed());
    }
}

#[test]
fn a_held_lock_is_told_and_nothing_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("index");
    let arena = Bump::new();
    save_quietly(&mut many(&arena, HashKind::Sha1, 10, Version::V2), &file, &SaveOptions::default());
    let before = fs::read(&file).unwrap();
    let held = LockFile::acquire(&file, &lock::Options::default()).unwrap();
    let error = LockFile::acquire(&file, &lock::Options::default()).unwrap_err();
    assert!(matches!(&error, LockError::Held { path, .. } if path.ends_with("index.lock")), "{error}");
    let error = WriteError::from(error);
    assert!(matches!(error, WriteError::Lock(LockError::Held { .. })), "{error}");
    drop(held);
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// All there can be in an index.
fn rich(kind: HashKind, version: Version, options: &WriteOptions<'_>) -> Vec<u8> {
    let arena = Bump::new();
    let mut index = Index::new(&arena, kind);
    let long = "l".repeat(4095);
    for (n, path) in ["a", "a.b", "b/c", "b/d/e", "b/d/f", "link", &long, "sub"].into_iter().enumerate() {
        let mode = Mode([0o100_644, 0o100_755, 0o120_000, 0o160_000][n % 4]);
        let stages = if n == 3 { &[Stage::Base, Stage::Ours, Stage::Theirs][..] } else { &[Stage::Merged] };
        for &stage in stages {
            let mut entry = NewEntry { stage, mode, ..new(path.as_bytes(), kind) };
            let time = |n: u32| Time { secs: n, nanos: n * 1000 };
            entry.stat = Stat { ctime: time(1), mtime: time(2), dev: 3, ino: 4, uid: 5, gid: 6, size: n as u32 };
            if version != Version::V2 {
                entry.flags = Flags { assume_valid: n == 1, skip_worktree: n == 2, intent_to_add: n == 4 };
            }
            index.add(&entry, &AddOptions::default()).unwrap();
        }
    }
    let mut tree = CacheTreeBuilder::new(kind);
    tree.open(b"");
    tree.open(b"b");
    tree.open(b"d");
    tree.close(None);
    tree.close(None);
    tree.close(None);
    index.set_cache_tree(Some(tree.finish()));
    index.set_fsmonitor(Some(b"token"));
    index.set_fsmonitor_valid(2, true);
    index.set_fsmonitor_valid(5, true);
    for stage in [Stage::Base, Stage::Theirs] {
        index.resolve_undo_mut().record(b"gone", stage, FILE, kind.empty_blob());
    }
    let untracked = untracked(kind);
    index.set_untracked(Some(Untracked::parse(arena.alloc_slice_copy(&untracked), kind).unwrap()));
    index.set_version(version);
    index.write_to(Vec::new(), options).unwrap().0
}

/// An untracked cache as git writes it.
fn untracked(kind: HashKind) -> Vec<u8> {
    let hash = if kind == HashKind::Sha1 { Hash::Sha1 } else { Hash::Sha256 };
    let repo = TestRepo::init(hash);
    for path in ["b/c", "b/d/u", "u"] {
        repo.write(path, b"");
    }
    repo.git(["update-index", "--add", "b/c", "--force-untracked-cache"]);
    repo.git(["status"]);
    let bytes = fs::read(repo.git_dir().join("index")).unwrap();
    let arena = Bump::new();
    let mut out = Vec::new();
    read(&arena, &bytes, kind).unwrap().untracked().expect("a cache").append_to(&mut out);
    out
}

fn each_rich(mut test: impl FnMut(HashKind, Vec<u8>)) {
    for kind in HashKind::ALL {
        for (version, table) in
            [(Version::V2, None), (Version::V3, Some(3)), (Version::V4, None), (Version::V4, Some(3))]
        {
            test(kind, rich(kind, version, &WriteOptions::default().offset_table(table)));
        }
    }
}

#[test]
fn every_prefix_and_every_changed_byte() {
    each_rich(|kind, bytes| {
        assert!(bodies::look(&bytes, None, kind, 1));
        let long = bytes.windows(64).position(|window| window == [b'l'; 64]).unwrap();
        let skip = |at: &usize| (long + 8..long + 4080).contains(at);
        for at in (0..bytes.len()).filter(|at| !skip(at)) {
            let mut bytes = bytes.clone();
            bytes[at] ^= [1, 0x80, 0x10, 0xff][at % 4];
            bodies::look(&bytes, None, kind, 1 + at % 2);
            if at % 3 == 0 {
                assert!(!bodies::look(&bytes[..at], None, kind, 1) || at > bytes.len() / 2);
            }
        }
    });
}

#[test]
fn writers_that_fail_and_writers_that_stutter() {
    each_rich(|kind, bytes| {
        let arena = Bump::new();
        let mut index = read(&arena, &bytes, kind).unwrap();
        let table = ext::eoie::locate(&bytes, kind).map(|_| 3);
        for threads in [1, 2] {
            let options = WriteOptions::default().offset_table(table).threads(threads);
            for left in (0..bytes.len()).filter(|left| left % 13 == 0 || *left + 300 > bytes.len()) {
                let error = index.write_to(FailAfter::new(Vec::new(), left as u64), &options).unwrap_err();
                assert!(matches!(error, WriteError::Hashfile(_)), "{error}");
            }
            let (out, _) = index.write_to(FailAfter::new(Vec::new(), bytes.len() as u64), &options).unwrap();
            assert!(out.inner == bytes);
            let (out, _) = index.write_to(Short { inner: Vec::new(), most: 7 }, &options).unwrap();
            assert!(out.inner == bytes);
            let (out, _) = index.write_to(Ragged::new(Vec::new(), 5, 1000), &options).unwrap();
            assert!(out.inner == bytes);
        }
    });
}

#[test]
fn a_write_that_fails_leaves_what_it_was_to_replace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("index");
    let kind = HashKind::Sha256;
    let bytes = rich(kind, Version::V4, &WriteOptions::default());
    let arena = Bump::new();
    let mut index = read(&arena, &bytes, kind).unwrap();
    fs::write(&file, b"the old index").unwrap();
    for left in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        let lock = LockFile::acquire(&file, &lock::Options::default()).unwrap();
        assert!(index.write_to(FailAfter::new(lock, left as u64), &WriteOptions::default()).is_err());
        assert_eq!(fs::read(&file).unwrap(), b"the old index");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    save_quietly(&mut index, &file, &SaveOptions::default());
    assert!(fs::read(&file).unwrap() == bytes);
}

/// As few calls as the size allows, and the same bytes, however much was edited and by how many threads.
#[test]
fn writes_are_few_and_large() {
    const COUNT: usize = 100_000;
    let kind = HashKind::Sha1;
    for version in [Version::V2, Version::V4] {
        let arena = Bump::new();
        let bytes = write(&mut many(&arena, kind, COUNT, version));
        for every in [1, 2, 3, 100, 30_000, usize::MAX] {
            let mut index = read(&arena, &bytes, kind).unwrap();
            for at in (0..COUNT).step_by(every).skip(1) {
                index.set_stat(at, Stat { size: 9, ..Stat::default() });
            }
            let mut plain = None;
            for (threads, table) in [(1, None), (2, None), (2, Some(8192))] {
                let options = WriteOptions::default().threads(threads).offset_table(table);
                let (out, written) = index.write_to(Counting::new(Vec::new()), &options).unwrap();
                assert_eq!(out.inner.len() as u64, written.len);
                let most = written.len / (128 << 10) + 2;
                assert!(out.calls <= most, "{} calls, {most} would do: {every}, {threads}", out.calls);
                if table.is_none() {
                    assert!(plain.get_or_insert_with(|| out.inner.clone()) == &out.inner);
                }
            }
            if every < usize::MAX {
                let again = plain.as_deref().map(|bytes| read(&arena, bytes, kind).unwrap()).unwrap();
                assert!(again.iter().zip(index.iter()).all(|(a, b)| a == b) && again.len() == COUNT);
            } else {
                assert!(plain.as_ref() == Some(&bytes));
            }
        }
    }
}

/// The name of a shared index is its checksum, so there always is one.
#[test]
fn i4_a_shared_index_always_has_its_checksum() {
    for kind in HashKind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("index");
        let arena = Bump::new();
        let mut index = Index::new(&arena, kind);
        index.replace_entries([&b"a"[..], b"b"].map(|path| new(path, kind))).unwrap();
        index.set_split();
        save_quietly(&mut index, &file, &SaveOptions::default().write(WriteOptions::default().skip_hash(true)));
        let base = index.shared_base().unwrap();
        assert!(!base.is_null());
        assert!(hashfile::verify(&fs::read(dir.path().join(shared_name(&base))).unwrap(), kind).is_ok());
        assert!(fs::read(&file).unwrap().ends_with(&vec![0; kind.len()]));
        let opened = IndexFile::open(&file, ByteSource::Auto).unwrap().unwrap();
        let mut index = opened.read(&arena, &ReadOptions::new(kind).verify_checksum(true)).unwrap();
        index.add(&new(b"c", kind), &AddOptions::default()).unwrap();
        save_quietly(&mut index, &file, &SaveOptions::default().write(WriteOptions::default().skip_hash(true)));
        let opened = IndexFile::open(&file, ByteSource::Auto).unwrap().unwrap();
        assert_eq!(paths(&opened.read(&arena, &ReadOptions::new(kind)).unwrap()), ["a", "b", "c"]);

        // What git 2.47 makes of the two settings together: entries without paths upon nothing.
        let mut sample = Sample::new(kind);
        let (first, second) = (sample.entry(b"", 0o100_644, 0), sample.entry(b"", 0o100_644, 0));
        assert!(first < second);
        let mut data = kind.null().as_bytes().to_vec();
        let mut bits = ewah::EwahBuf::builder();
        bits.set_range(0, 1).unwrap();
        ewah::EwahBuf::new().append_to(&mut data);
        bits.finish().append_to(&mut data);
        sample.extension(ext::LINK, &data);
        let bytes = sample.finish();
        assert_eq!(read(&arena, &bytes, kind).unwrap_err().kind, ReadErrorKind::EmptyPath);
    }
}

/// Places in a block have 32 bits, so that a path may not have as many bytes as it likes.
#[test]
fn a_path_of_more_than_32_mib_is_an_error() {
    const MOST: usize = 32 << 20;
    for kind in HashKind::ALL {
        for (len, fits) in [(MOST, true), (MOST + 1, false)] {
            let mut bytes = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
            bytes.resize(bytes.len() + 40, 0);
            bytes.extend_from_slice(kind.empty_blob().as_bytes());
            bytes.extend_from_slice(&0x0fffu16.to_be_bytes());
            bytes.resize(bytes.len() + len, b'x');
            bytes.resize(12 + (bytes.len() - 12 + 8) / 8 * 8 + kind.len(), 0);
            let arena = Bump::new();
            let read = Index::read(&arena, &bytes, &ReadOptions::new(kind));
            match read {
                Ok(index) => assert!(fits && index.get(0).is_some_and(|entry| entry.path().len() == len)),
                Err(error) => {
                    assert!(!fits && error.at == 12, "{error}");
                    assert_eq!(error.kind, ReadErrorKind::PathLimit { limit: MOST as u64 });
                }
            }
        }
    }
}
