//! Random changes to an index, and the same to a sorted list, by git, and at once.

use std::fs::File;
use std::time::{Duration, SystemTime};

use object::{HashKind, ObjectId};
use packstone_index::{
    AddOptions, Batch, Bump, EditError, Index, Mode, NewEntry, ReadOptions, Stage, Version, WriteOptions,
};
use proptest::prelude::*;
use testkit::io::Rng;
use testkit::{Hash, TestRepo};

use crate::objects::{kind, listed, nodes};
use crate::regressions::bodies::model as driver;

fn script() -> impl Strategy<Value = driver::Script> {
    let kind = prop::sample::select(&HashKind::ALL[..]);
    (kind, prop::collection::vec(any::<[u8; 8]>(), 1..80)).prop_map(|(kind, ops)| driver::Script(kind, ops))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_is_a_sorted_list(script in script()) {
        driver::run(&script);
    }
}

/// A repository with some of the driver's paths checked in, and its index with trees remembered, old enough for nothing to be racy.
fn repo(hash: Hash, version: &str) -> TestRepo {
    let repo = TestRepo::init(hash);
    repo.git(["config", "index.version", version]);
    for path in ["a-x", "a.b", "a/b-c", "a/b/c", "a0/b", "ab", "b/a"] {
        repo.write(path, path.as_bytes());
    }
    repo.commit("first");
    repo.git(["update-index", "--index-version", version]);
    repo.git(["write-tree"]);
    repo
}

fn read_index(repo: &TestRepo) -> Vec<u8> {
    std::fs::read(repo.git_dir().join("index")).unwrap()
}

fn changes(rng: &mut Rng, count: usize) -> Vec<(Vec<u8>, Option<Stage>, u8)> {
    let paths = driver::paths();
    let mut pick = |bound: usize| rng.below(bound as u64) as usize;
    let change = |_| {
        let stage = [Some(Stage::Merged), Some(Stage::Ours), Some(Stage::Theirs), None][pick(8).saturating_sub(4)];
        (paths[pick(paths.len())].clone(), stage, 1 + pick(3) as u8)
    };
    (0..count).map(change).collect()
}

fn apply<'p>(
    changes: &'p [(Vec<u8>, Option<Stage>, u8)],
    kind: HashKind,
    mut one: impl FnMut(&'p [u8], Option<NewEntry<'p>>),
) {
    for (path, stage, id) in changes {
        let id = ObjectId::from_prefix(&[*id; 32], kind).unwrap();
        one(path, stage.map(|stage| NewEntry { stage, ..NewEntry::new(path, Mode(0o100_644), id) }));
    }
}

fn odd(index: &Index<'_>, new: NewEntry<'_>) -> bool {
    index.iter_range(index.range(new.path)).any(|old| old.stage() == Stage::Merged || old.stage() > new.stage)
}

#[test]
fn the_same_edits_make_the_file_that_git_makes() {
    for (hash, version) in [(Hash::Sha1, "2"), (Hash::Sha1, "4"), (Hash::Sha256, "2"), (Hash::Sha256, "4")] {
        let repo = repo(hash, version);
        let kind = kind(&repo);
        let start = read_index(&repo);
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let count = 1 + rng.below(12) as usize;
            let changes = changes(&mut rng, count);

            let arena = Bump::new();
            let mut index = Index::read(&arena, &start, &ReadOptions::new(kind)).unwrap();
            let mut input = Vec::new();
            apply(&changes, kind, |path, entry| {
                match entry {
                    // git keeps a merged entry beside a conflict, and sees no directory behind a path's higher stages.
                    Some(entry) if entry.stage != Stage::Merged && odd(&index, entry) => return,
                    Some(entry) => {
                        index.add(&entry, &AddOptions::default().replace(true)).unwrap();
                        input.extend(format!("100644 {} {}\t", entry.id, entry.stage as u8).bytes());
                    }
                    // For what is not there git forgets trees all the same.
                    None if index.remove(path) == 0 => return,
                    None => input.extend(format!("0 {}\t", kind.null()).bytes()),
                }
                input.extend_from_slice(path);
                input.push(0);
            });
            if input.is_empty() {
                continue;
            }
            let file = repo.git_dir().join("index");
            std::fs::write(&file, &start).unwrap();
            let later = SystemTime::now() + Duration::from_secs(10);
            File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
            repo.git_with(["update-index", "-z", "--index-info"], &input);
            let (ours, _) = index.write_to(Vec::new(), &WriteOptions::default()).unwrap();
            let git = read_index(&repo);
            let theirs = Index::read(&arena, arena.alloc_slice_copy(&git), &ReadOptions::new(kind)).unwrap();
            assert_eq!(listed(&index), listed(&theirs), "seed {seed}: {}", input.escape_ascii());
            assert_eq!(nodes(&index), nodes(&theirs), "seed {seed}: {}", input.escape_ascii());
            assert_eq!(index.resolve_undo(), theirs.resolve_undo(), "seed {seed}: {}", input.escape_ascii());
            assert!(ours == git, "seed {seed}: {}", input.escape_ascii());
        }
    }
}

/// Everything that is written, untracked cache included, is the same whether changes are made one by one or at once.
#[test]
fn a_batch_is_its_changes_one_by_one() {
    for (hash, version) in [(Hash::Sha1, "2"), (Hash::Sha256, "4")] {
        let repo = repo(hash, version);
        let kind = kind(&repo);
        for path in ["a/new/u", "b/u", "a/b/u", "u"] {
            repo.write(path, b"untracked");
        }
        repo.git(["update-index", "--force-untracked-cache"]);
        repo.git(["status"]);
        let start = read_index(&repo);
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let count = 1 + rng.below(6) as usize;
            let mut changes = changes(&mut rng, count);
            // Each path once, and not with a directory of its name: what is put and taken away again is another matter.
            changes.sort();
            changes.dedup_by(|b, a| b.0.starts_with(&a.0));
            let arena = Bump::new();
            let read = || Index::read(&arena, &start, &ReadOptions::new(kind)).unwrap();
            let (mut one_by_one, mut at_once, mut batch) = (read(), read(), Batch::new());
            assert!(at_once.untracked().is_some() && at_once.cache_tree().is_some());
            let options = AddOptions::default().replace(true);
            apply(&changes, kind, |path, entry| match entry {
                Some(entry) => {
                    one_by_one.add(&entry, &options).unwrap();
                    batch.put(entry);
                }
                None => {
                    one_by_one.remove(path);
                    batch.remove(path);
                }
            });
            at_once.apply(&batch, &options).unwrap();
            let write = |mut index: Index<'_>| index.write_to(Vec::new(), &WriteOptions::default()).unwrap().0;
            assert!(write(one_by_one) == write(at_once), "seed {seed}: {changes:?}");
        }
    }
}

#[test]
fn directories_are_entries_of_sparse_indexes_alone() {
    for kind in HashKind::ALL {
        let arena = Bump::new();
        let directory = |path: &'static [u8]| NewEntry::new(path, Mode(0o040_000), kind.empty_tree());
        let file = |path: &'static [u8]| NewEntry::new(path, Mode(0o100_644), kind.empty_blob());
        let put = |index: &mut Index<'_>, entry: NewEntry<'static>, options: &AddOptions, at_once: bool| match at_once {
            false => index.add(&entry, options).map(drop),
            true => {
                let mut batch = Batch::new();
                batch.put(entry);
                index.apply(&batch, options).map(drop)
            }
        };
        let (plain, replace) = (AddOptions::default(), AddOptions::default().replace(true));
        for at_once in [false, true] {
            let mut index = Index::new(&arena, kind);
            for path in [&b"d/"[..], b"d"] {
                let refused = put(&mut index, directory(path), &replace, at_once);
                assert!(matches!(refused, Err(EditError::Directory { .. })), "{refused:?}");
            }
            for path in [&b"d-x"[..], b"d/x", b"d/y/z", b"e"] {
                put(&mut index, file(path), &plain, at_once).unwrap();
            }
            index.set_sparse(true);
            let refused = put(&mut index, directory(b"d"), &replace, at_once);
            assert!(matches!(refused, Err(EditError::Directory { .. })), "{refused:?}");
            let refused = put(&mut index, directory(b"d/"), &plain, at_once);
            assert!(matches!(refused, Err(EditError::FileDirectory { .. })), "{refused:?}");
            put(&mut index, directory(b"d/"), &replace, at_once).unwrap();
            let paths = |index: &Index<'_>| index.iter().map(|entry| entry.path().to_vec()).collect::<Vec<_>>();
            assert_eq!(paths(&index), [&b"d-x"[..], b"d/", b"e"]);
            for options in [&plain, &replace] {
                let refused = put(&mut index, file(b"d/x"), options, at_once);
                assert!(matches!(refused, Err(EditError::InSparseDir { .. })), "{refused:?}");
            }
            put(&mut index, file(b"d"), &replace, at_once).unwrap();
            assert_eq!(paths(&index), [&b"d"[..], b"d-x", b"e"]);
        }
    }
}

/// Few edits leave most blocks of entries as they lie in the file, and those are copied: which ones makes no difference.
#[test]
fn what_is_copied_is_what_would_be_made() {
    const COUNT: usize = 64 * 6 + 17;
    for (kind, version) in
        [(HashKind::Sha1, Version::V2), (HashKind::Sha256, Version::V4), (HashKind::Sha1, Version::V4)]
    {
        let arena = Bump::new();
        let path = |n: usize, end: &str| {
            arena.alloc_str(&format!("dir{:02}/{}{n:04}{end}", n / 50, "y".repeat(n % 4))).as_bytes()
        };
        let mut paths: Vec<&[u8]> = (0..COUNT).map(|n| path(n, "")).collect();
        paths.sort_unstable();
        let blob = kind.empty_blob();
        let start = {
            let mut index = Index::new(&arena, kind);
            index.replace_entries(paths.iter().map(|path| NewEntry::new(path, Mode(0o100_644), blob))).unwrap();
            index.set_version(version);
            index.write_to(Vec::new(), &WriteOptions::default()).unwrap().0
        };
        for seed in 0..120 {
            let mut rng = Rng::new(seed);
            let mut index = Index::read(&arena, &start, &ReadOptions::new(kind)).unwrap();
            let mut kept: Vec<NewEntry<'_>> =
                paths.iter().map(|path| NewEntry::new(path, Mode(0o100_644), blob)).collect();
            for _ in 0..1 + rng.below(3) {
                // Around the borders of blocks.
                let at = (64 * rng.below(7) + rng.below(5)).saturating_sub(2) as usize % kept.len();
                match rng.below(4) {
                    0 => {
                        let count = [1, 2, 64, 66][rng.below(4) as usize];
                        for entry in kept.drain(at..(at + count).min(kept.len())) {
                            assert_eq!(index.remove(entry.path), 1);
                        }
                    }
                    1 => {
                        let entry = NewEntry::new(
                            arena.alloc_slice_copy(&[kept[at].path, b"+"].concat()),
                            Mode(0o100_644),
                            blob,
                        );
                        index.add(&entry, &AddOptions::default()).unwrap();
                        kept.retain(|old| old.path != entry.path);
                        let at = kept.partition_point(|old| old.path < entry.path);
                        kept.insert(at, entry);
                    }
                    2 => {
                        kept[at].mode = Mode(0o100_755);
                        index.set_mode(index.find(kept[at].path, Stage::Merged).unwrap(), Mode(0o100_755));
                    }
                    _ => {
                        kept[at].flags.skip_worktree = true;
                        index.set_flags(index.find(kept[at].path, Stage::Merged).unwrap(), kept[at].flags);
                    }
                }
            }
            for version in [version, Version::V2, Version::V4] {
                for table in [None, Some(64), Some(100)] {
                    let options = WriteOptions::default().offset_table(table);
                    index.set_version(version);
                    let copied = index.write_to(Vec::new(), &options).unwrap();
                    let mut made = Index::new(&arena, kind);
                    made.replace_entries(kept.iter().copied()).unwrap();
                    made.set_version(version);
                    let made = made.write_to(Vec::new(), &options).unwrap();
                    assert!(copied.0 == made.0, "seed {seed}, {version:?}, {table:?}");
                    assert_eq!(copied.1, made.1);
                }
            }
            assert!(index.iter().map(NewEntry::from).eq(kept));
        }
    }
}
