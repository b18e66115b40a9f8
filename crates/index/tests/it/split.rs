//! Split indexes: ours for git, git's for us, and what becomes of shared files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hashfile::lock::{self, LockFile};
use hashfile::publish::{self, Fsync};
use object::{HashKind, ObjectId};
use packstone_index::file::{IndexFile, LoadError, SaveOptions, save, shared_name};
use packstone_index::source::ByteSource;
use packstone_index::{
    AddOptions, Batch, Bump, Index, Mode, NewEntry, ReadErrorKind, ReadOptions, Stage, Stat, Time, Version, WriteError,
    WriteOptions,
};
use testkit::io::Rng;
use testkit::{Hash, TestRepo};

use crate::objects::{ByGit, kind, listed, nodes};

const FILE: Mode = Mode(0o100_644);

fn save_to(index: &mut Index<'_>, file: &Path, options: &SaveOptions<'_>) -> Result<(), WriteError> {
    let lock = LockFile::acquire(file, &lock::Options::default().fsync(Fsync::None)).unwrap();
    let publish = publish::Options::default().fsync(Fsync::None);
    save(index, lock, &options.clone().publish(publish)).map(drop)
}

fn open(file: &Path) -> IndexFile {
    IndexFile::open(file, ByteSource::Heap).unwrap().expect("an index")
}

/// Names of the shared indexes in a folder.
fn shared(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("sharedindex")).collect();
    names.sort();
    names
}

fn age(path: &Path, days: u64) {
    let time = SystemTime::now() - Duration::from_secs(days * 86_400);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn age_of(path: &Path) -> Duration {
    fs::metadata(path).unwrap().modified().unwrap().elapsed().unwrap_or_default()
}

/// So many entries, none of which exists.
fn numbered<'a>(arena: &'a Bump, kind: HashKind, count: usize) -> Index<'a> {
    let mut index = Index::new(arena, kind);
    let entry =
        |n: usize| NewEntry::new(arena.alloc_str(&format!("dir{}/{n:04}", n / 10)).as_bytes(), FILE, kind.empty_blob());
    let mut batch = Batch::new();
    (0..count).for_each(|n| batch.put(entry(n)));
    index.apply(&batch, &AddOptions::default()).unwrap();
    index
}

/// A repository with files in the index, and time for them not to be racy.
fn repo(hash: Hash) -> TestRepo {
    let repo = TestRepo::init(hash);
    repo.git(["config", "splitIndex.maxPercentChange", "100"]);
    for n in 0..40 {
        repo.write(&format!("d{}/e{}/f{n}", n % 3, n % 5), format!("{n}").as_bytes());
    }
    repo.write("a", b"a");
    repo.commit("first");
    repo
}

/// The index is newer than any file.
fn later(file: &Path) {
    let time = SystemTime::now() + Duration::from_secs(10);
    File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
}

/// What git lists, every detail.
fn git_lists(repo: &TestRepo) -> String {
    repo.git_str(["ls-files", "--stage", "--debug", "-t", "-v"])
}

#[test]
fn ours_for_git() {
    for (hash, version) in [(Hash::Sha1, Version::V2), (Hash::Sha1, Version::V4), (Hash::Sha256, Version::V2)] {
        let repo = repo(hash);
        let (kind, file) = (kind(&repo), repo.git_dir().join("index"));
        let blob = ObjectId::from_hex(repo.hash_object("blob", b"other").as_bytes()).unwrap();
        let listed_before = git_lists(&repo);
        later(&file);
        let arena = Bump::new();
        let opened = open(&file);
        let mut index = opened.read(&arena, &ReadOptions::new(kind)).unwrap();
        index.set_split();
        index.set_version(version);
        save_to(&mut index, &file, &SaveOptions::default()).unwrap();
        let base = index.shared_base().unwrap();
        assert_eq!(shared(repo.git_dir()), [shared_name(&base)]);
        assert!(fs::metadata(&file).unwrap().len() < 1000, "all entries are in the shared index");
        assert_eq!(git_lists(&repo), listed_before);
        assert_eq!(repo.git_str(["status", "--porcelain"]), "");
        repo.git(["fsck"]);

        // Replaced, removed, added, in conflict, renamed, in another directory's place, and taken back.
        type Edit<'e> = &'e dyn Fn(&mut Index<'_>);
        let put = |index: &mut Index<'_>, path: &[u8], stage| {
            let entry = NewEntry { stage, ..NewEntry::new(path, FILE, blob) };
            index.add(&entry, &AddOptions::default().replace(true)).unwrap();
        };
        let original = NewEntry::from(index.get(index.range(b"d0/e0/f0").start).unwrap());
        let edits: [Edit<'_>; 8] = [
            &|index| put(index, b"d0/e0/f0", Stage::Merged),
            &|index| assert_eq!(index.remove(b"d1/e1/f1"), 1),
            &|index| put(index, b"d1/e1/f1", Stage::Merged),
            &|index| put(index, b"0 first", Stage::Merged),
            &|index| {
                index.remove(b"d2/e2/f2");
                for stage in [Stage::Base, Stage::Ours, Stage::Theirs] {
                    put(index, b"d2/e2/f2", stage);
                }
            },
            &|index| put(index, b"d1/e3", Stage::Merged),
            &|index| assert!(index.remove_dir(b"d0/e1") > 0),
            &|index| assert!(index.add(&original, &AddOptions::default()).is_ok()),
        ];
        for (n, edit) in edits.into_iter().enumerate() {
            let opened = open(&file);
            let arena = Bump::new();
            let mut index = opened.read(&arena, &ReadOptions::new(kind).verify_checksum(true)).unwrap();
            edit(&mut index);
            let write = WriteOptions::default().is_modified(Some(&|_| false));
            let options = SaveOptions::default().max_percent_change(100).write(write);
            save_to(&mut index, &file, &options).unwrap();
            assert_eq!(index.shared_base(), Some(base), "{n}");
            assert_eq!(repo.git_str(["ls-files", "--stage", "-z"]), listed(&index), "{n}");
            assert_eq!(shared(repo.git_dir()), [shared_name(&base)]);
            // Whole, it is what git has in memory.
            let whole = repo.git_dir().join("whole");
            save_to(&mut index, &whole, &options.as_whole(true)).unwrap();
            let from_whole =
                repo.command().env("GIT_INDEX_FILE", &whole).args(["ls-files", "--stage", "--debug"]).output();
            // But for a mark in memory of what is replaced.
            let from_split = repo.git_str(["ls-files", "--stage", "--debug"]).replace("flags: 8000000", "flags: 0");
            assert_eq!(String::from_utf8(from_whole.unwrap().stdout).unwrap().trim_end(), from_split.trim_end());
            repo.git(["fsck"]);
            if !index.is_unmerged() {
                let id =
                    packstone_index::trees::write_tree(&mut index, &mut ByGit(&repo), &Default::default()).unwrap().id;
                assert_eq!(repo.git_str(["write-tree"]), id.to_string());
            }
        }
        // git goes on from there.
        repo.git(["rm", "--quiet", "--cached", "a"]);
        repo.git(["update-index", "--no-split-index"]);
        let arena = Bump::new();
        assert_eq!(repo.git_str(["ls-files", "--stage", "-z"]), listed(&crate::objects::index(&repo, &arena)));
    }
}

/// The same edits upon the same split index, by git and by us: the same small file.
#[test]
fn gits_for_us() {
    for (hash, version) in [(Hash::Sha1, "2"), (Hash::Sha256, "4")] {
        let repo = repo(hash);
        let (kind, file) = (kind(&repo), repo.git_dir().join("index"));
        repo.git(["update-index", "--index-version", version]);
        later(&file);
        repo.git(["update-index", "--split-index"]);
        repo.git(["write-tree"]);
        let start = fs::read(&file).unwrap();
        let names = shared(repo.git_dir());
        assert_eq!(names.len(), 1);
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let (arena, opened) = (Bump::new(), {
                fs::write(&file, &start).unwrap();
                later(&file);
                open(&file)
            });
            let mut index = opened.read(&arena, &ReadOptions::new(kind).verify_checksum(true)).unwrap();
            assert!(index.is_split());
            let mut input = String::new();
            for _ in 0..1 + rng.below(8) {
                let n = rng.below(40);
                let path = match rng.below(6) {
                    0 => format!("d{}/e{}/new{n}", n % 3, n % 5),
                    1 => format!("d{}/e{}", n % 3, n % 5),
                    2 => format!("d{}/e{}/f{n}/g", n % 3, n % 5),
                    _ => format!("d{}/e{}/f{n}", n % 3, n % 5),
                };
                let path = arena.alloc_str(&path).as_bytes();
                let id = ObjectId::from_prefix(&[rng.below(3) as u8 + 1; 32], kind).unwrap();
                let text = String::from_utf8_lossy(path);
                if rng.below(4) == 0 {
                    if index.remove(path) > 0 {
                        input += &format!("0 {}\t{text}\n", kind.null());
                    }
                } else {
                    index.add(&NewEntry::new(path, FILE, id), &AddOptions::default().replace(true)).unwrap();
                    input += &format!("100644 {id} 0\t{text}\n");
                }
            }
            if input.is_empty() {
                continue;
            }
            repo.git_with(["update-index", "--index-info"], input.as_bytes());
            let git = fs::read(&file).unwrap();
            let mine = repo.git_dir().join("mine");
            save_to(&mut index, &mine, &SaveOptions::default().max_percent_change(100)).unwrap();
            let theirs = open(&file);
            let theirs = theirs.read(&arena, &ReadOptions::new(kind)).unwrap();
            assert_eq!(listed(&index), listed(&theirs), "{seed}: {input}");
            assert_eq!(nodes(&index), nodes(&theirs), "{seed}: {input}");
            assert!(fs::read(&mine).unwrap() == git, "{seed}: {input}");
            assert_eq!(shared(repo.git_dir()), names);
        }
    }
}

#[test]
fn how_much_may_differ() {
    let kind = HashKind::Sha1;
    for (percent, added, fresh) in
        [(20, 25, false), (20, 26, true), (100, 400, false), (0, 0, true), (0, 1, true), (1, 1, false), (1, 2, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let (file, arena) = (dir.path().join("index"), Bump::new());
        let mut index = numbered(&arena, kind, 100);
        index.set_split();
        save_to(&mut index, &file, &SaveOptions::default()).unwrap();
        let base = index.shared_base();
        // Those that are replaced or gone do not count.
        index.set_stat(3, Stat { ino: 1, ..Stat::default() });
        let mut batch = Batch::new();
        let paths: Vec<String> = (0..added).map(|n| format!("new{n}")).collect();
        paths.iter().for_each(|path| batch.put(NewEntry::new(path.as_bytes(), FILE, kind.empty_blob())));
        index.apply(&batch, &AddOptions::default()).unwrap();
        let options = SaveOptions::default().max_percent_change(percent);
        save_to(&mut index, &file, &options).unwrap();
        assert_eq!(index.shared_base() != base, fresh, "{percent}, {added}");
        assert_eq!(shared(dir.path()).len(), 1 + usize::from(fresh));
        let opened = open(&file);
        let again = opened.read(&arena, &ReadOptions::new(kind)).unwrap();
        assert_eq!(listed(&again), listed(&index));

        // As git decides.
        let repo = TestRepo::init(Hash::Sha1);
        repo.git(["config", "splitIndex.maxPercentChange", &percent.to_string()]);
        let line = |path: String| format!("100644 {} 0\t{path}\n", kind.empty_blob());
        let lines: String = (0..100).map(|n| line(format!("{n:04}"))).collect();
        repo.git_with(["update-index", "--index-info"], lines.as_bytes());
        repo.git(["update-index", "--split-index"]);
        let before = shared(repo.git_dir()).len();
        if added > 0 {
            let lines: String = (0..added).map(|n| line(format!("new{n}"))).collect();
            repo.git_with(["update-index", "--index-info"], lines.as_bytes());
            assert_eq!(shared(repo.git_dir()).len() > before, fresh, "git: {percent}, {added}");
        }
    }
}

#[test]
fn old_shared_indexes_go_when_a_new_one_is_written() {
    for kind in HashKind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("index");
        let old = |n: u8, days| {
            let id = ObjectId::from_prefix(&[n; 32], kind).unwrap();
            let path = dir.path().join(shared_name(&id));
            fs::write(&path, b"old").unwrap();
            age(&path, days);
            path
        };
        let (older, newer, other) = (old(1, 15), old(2, 13), dir.path().join("unshared"));
        fs::write(&other, b"").unwrap();
        age(&other, 100);
        let arena = Bump::new();
        let mut index = numbered(&arena, kind, 10);
        index.set_split();
        let two_weeks = Some(SystemTime::now() - Duration::from_secs(14 * 86_400));
        save_to(&mut index, &file, &SaveOptions::default()).unwrap();
        assert!(older.exists() && newer.exists(), "none goes unless asked");
        let mine = dir.path().join(shared_name(&index.shared_base().unwrap()));

        // No new one: what is used is freshened, and nothing goes.
        age(&mine, 20);
        index.set_stat(0, Stat { ino: 2, ..Stat::default() });
        save_to(&mut index, &file, &SaveOptions::default().expire_before(two_weeks)).unwrap();
        assert!(older.exists() && age_of(&mine) < Duration::from_secs(3600));

        age(&mine, 20);
        index.set_stat(0, Stat { ino: 3, ..Stat::default() });
        save_to(&mut index, &file, &SaveOptions::default().expire_before(two_weeks).max_percent_change(0)).unwrap();
        let now = shared_name(&index.shared_base().unwrap());
        let left = [now, newer.file_name().unwrap().to_str().unwrap().to_owned()];
        let mut left = left.to_vec();
        left.sort();
        assert_eq!(shared(dir.path()), left);
        assert!(other.exists());

        // Reading freshens, too.
        let mine = dir.path().join(shared_name(&index.shared_base().unwrap()));
        age(&mine, 20);
        let opened = open(&file);
        opened.read(&arena, &ReadOptions::new(kind)).unwrap();
        assert!(age_of(&mine) < Duration::from_secs(3600));
    }
}

#[test]
fn the_shared_index_may_be_elsewhere_or_nowhere() {
    let kind = HashKind::Sha1;
    let (git_dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (file, arena) = (elsewhere.path().join("alternate"), Bump::new());
    let mut index = numbered(&arena, kind, 10);
    index.set_split();
    let dir = Some(git_dir.path().to_path_buf());
    save_to(&mut index, &file, &SaveOptions::default().shared_dir(dir.clone())).unwrap();
    let name = shared_name(&index.shared_base().unwrap());
    assert_eq!((shared(git_dir.path()), shared(elsewhere.path())), (vec![name.clone()], vec![]));

    let missing = open(&file);
    let error = missing.read(&arena, &ReadOptions::new(kind)).unwrap_err();
    assert!(matches!(&error, LoadError::Io { path, .. } if path.ends_with(&name)), "{error}");
    let found = open(&file).shared_dirs(dir.clone());
    assert_eq!(listed(&found.read(&arena, &ReadOptions::new(kind)).unwrap()), listed(&index));
    // Bytes alone say what they need.
    let bytes = fs::read(&file).unwrap();
    let error = Index::read(&arena, &bytes, &ReadOptions::new(kind)).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::NeedsShared { base: index.shared_base().unwrap() });

    // Another index under its name, and a damaged one.
    let path = git_dir.path().join(&name);
    let right = fs::read(&path).unwrap();
    let (wrong, _) = numbered(&arena, kind, 9).write_to(Vec::new(), &WriteOptions::default()).unwrap();
    fs::write(&path, wrong).unwrap();
    let wrong = open(&file).shared_dirs(dir.clone());
    let error = wrong.read(&arena, &ReadOptions::new(kind)).unwrap_err();
    let LoadError::Content { source, .. } = error else { panic!("{error}") };
    assert!(matches!(source.kind, ReadErrorKind::WrongShared { .. }), "{source}");
    let mut damaged = right.clone();
    damaged[12 + 60] ^= 0x40; // an unknown flag for the first entry
    fs::write(&path, damaged).unwrap();
    let wrong = open(&file).shared_dirs(dir.clone());
    let error = wrong.read(&arena, &ReadOptions::new(kind)).unwrap_err();
    let LoadError::Content { source, .. } = error else { panic!("{error}") };
    assert!(matches!(source.kind, ReadErrorKind::Shared { .. }), "{source}");

    // Where none can be made all goes into one file.
    let nowhere = Some(PathBuf::from("/nonexistent/folder"));
    let mut index = numbered(&arena, kind, 10);
    index.set_split();
    save_to(&mut index, &file, &SaveOptions::default().shared_dir(nowhere)).unwrap();
    let bytes = fs::read(&file).unwrap();
    assert_eq!(listed(&Index::read(&arena, &bytes, &ReadOptions::new(kind)).unwrap()), listed(&index));
}

#[test]
fn whole_again() {
    for kind in HashKind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let (file, arena) = (dir.path().join("index"), Bump::new());
        let mut index = numbered(&arena, kind, 30);
        let (plain, _) = index.write_to(Vec::new(), &WriteOptions::default()).unwrap();
        index.set_split();
        save_to(&mut index, &file, &SaveOptions::default()).unwrap();
        assert!(fs::read(&file).unwrap() != plain);
        let opened = open(&file);
        let mut index = opened.read(&arena, &ReadOptions::new(kind)).unwrap();
        assert!(index.is_split() && !index.is_changed());
        save_to(&mut index, &file, &SaveOptions::default().as_whole(true)).unwrap();
        assert!(index.is_split() && fs::read(&file).unwrap() == plain);
        index.unset_split();
        assert!(index.is_changed());
        save_to(&mut index, &file, &SaveOptions::default()).unwrap();
        assert!(fs::read(&file).unwrap() == plain);

        let mut sparse = numbered(&arena, kind, 3);
        sparse.set_sparse(true);
        sparse.set_split();
        assert!(matches!(save_to(&mut sparse, &file, &SaveOptions::default()), Err(WriteError::SparseSplit)));
        assert!(fs::read(&file).unwrap() == plain);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no lock is left");
    }
}

/// git 2.47 names a shared index after the hash that it skips, and loses all entries: ours is safe, and git can read it.
#[test]
fn i4_no_hash_and_a_shared_index() {
    for hash in Hash::ALL {
        let repo = repo(hash);
        let (kind, file) = (kind(&repo), repo.git_dir().join("index"));
        let before = git_lists(&repo);
        later(&file);
        let (arena, opened) = (Bump::new(), open(&file));
        let mut index = opened.read(&arena, &ReadOptions::new(kind)).unwrap();
        index.set_split();
        let options = SaveOptions::default().write(WriteOptions::default().skip_hash(true));
        save_to(&mut index, &file, &options).unwrap();
        let names = shared(repo.git_dir());
        assert!(names.len() == 1 && !names[0].contains("0000000000"), "{names:?}");
        assert_eq!(git_lists(&repo), before);
        repo.git(["fsck"]);
        assert!(index.checksum().is_none());
    }
}

/// Racy entries of a shared index are told apart from it, as they must be: the shared file is not written again.
#[test]
fn what_is_racy_is_written_beside_the_shared_index() {
    for kind in HashKind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let (file, arena) = (dir.path().join("index"), Bump::new());
        let mut index = numbered(&arena, kind, 10);
        let stat = Stat { mtime: Time { secs: 1000, nanos: 0 }, size: 5, ..Stat::default() };
        (0..10).for_each(|at| index.set_stat(at, stat));
        index.set_split();
        save_to(&mut index, &file, &SaveOptions::default()).unwrap();
        let base = index.shared_base();
        let sizes = || {
            let opened = open(&file);
            let index = opened.read(&arena, &ReadOptions::new(kind)).unwrap();
            assert_eq!(index.shared_base(), base);
            index.iter().map(|entry| entry.stat().size).collect::<Vec<_>>()
        };
        assert_eq!(sizes(), [5; 10]);
        let opened = open(&file);
        let mut index = opened.read(&arena, &ReadOptions::new(kind)).unwrap();
        index.set_timestamp(Time { secs: 1000, nanos: 1 });
        index.set_up_to_date(4, true);
        save_to(&mut index, &file, &SaveOptions::default()).unwrap();
        assert_eq!(sizes(), [0, 0, 0, 0, 5, 0, 0, 0, 0, 0]);
        assert_eq!((0..10).filter(|&at| index.is_replacement(at)).count(), 9);
    }
}

/// A split index may have nothing in it, begin with nothing, and come to nothing.
#[test]
fn nothing_can_be_split() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let (kind, file) = (kind(&repo), repo.git_dir().join("index"));
        let arena = Bump::new();
        let mut index = Index::new(&arena, kind);
        index.set_split();
        let options = SaveOptions::default().max_percent_change(100);
        save_to(&mut index, &file, &options).unwrap();
        assert_eq!(git_lists(&repo), "");
        let new = |path| NewEntry::new(path, FILE, ObjectId::from_prefix(&[7; 32], kind).unwrap());
        for paths in [&[&b"a"[..], b"b/c"][..], &[], &[b"b/c"]] {
            let opened = open(&file);
            let mut index = opened.read(&arena, &ReadOptions::new(kind)).unwrap();
            assert!(index.is_split());
            index.replace_entries(paths.iter().map(|path| new(path))).unwrap();
            save_to(&mut index, &file, &options).unwrap();
            assert_eq!(
                repo.git_str(["ls-files", "-z"]),
                paths.iter().map(|path| format!("{}\0", path.escape_ascii())).collect::<String>()
            );
            assert_eq!(shared(repo.git_dir()).len(), 1);
        }
    }
}
