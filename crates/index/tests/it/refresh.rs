//! Refreshing beside `git update-index --refresh`, the racy cases of cases.md (I10, I11), and threads.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use object::{HashKind, ObjectId};
use packstone_index::file::IndexFile;
use packstone_index::refresh::{
    Changed, CheckStat, Checkout, FileState, Finding, MatchOptions, RefreshOptions, WorkTree, compare,
    is_secretly_modified, refresh,
};
use packstone_index::source::ByteSource;
use packstone_index::{Bump, Entry, Flags, Index, Mode, NewEntry, ReadOptions, Stat, Time, WriteOptions};
use testkit::repo::{Hash, TestRepo};

use crate::objects::{id, kind};

fn set_mtime(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).and_then(|file| file.set_modified(time)).unwrap();
}

/// A moment in whole seconds, some time ago.
fn ago(seconds: u64) -> SystemTime {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    SystemTime::UNIX_EPOCH + Duration::from_secs(now - seconds)
}

/// Reads the index with its timestamp.
fn load<'a>(file: &'a IndexFile, arena: &'a Bump, hash: HashKind) -> Index<'a> {
    file.read(arena, &ReadOptions::new(hash)).unwrap()
}

fn open(repo: &TestRepo) -> IndexFile {
    IndexFile::open(&repo.git_dir().join("index"), ByteSource::Heap).unwrap().unwrap()
}

/// What `git update-index` says of findings.
fn said(index: &Index<'_>, at: usize, finding: &Finding) -> String {
    let path = index.get(at).unwrap().path().escape_ascii().to_string();
    match finding {
        Finding::Unmerged => format!("{path}: needs merge\n"),
        _ => format!("{path}: needs update\n"),
    }
}

/// The commit of a submodule that the tests make.
fn head_of(dir: &Path) -> io::Result<Option<ObjectId>> {
    match fs::read_to_string(dir.join(".git/refs/heads/main")) {
        Ok(text) => Ok(Some(id(text.trim_end()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A work tree in which nearly everything that can happen to a file has happened.
#[cfg(unix)]
fn lived_in(hash: Hash) -> TestRepo {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let repo = TestRepo::init(hash);
    let root = repo.path().to_owned();
    for name in [
        "assumed",
        "became-dir",
        "became-link",
        "chmod",
        "deleted",
        "dir/beyond",
        "dir/link/file",
        "empty",
        "emptied",
        "file-for-dir/inside",
        "gone/a",
        "gone/b",
        "grown",
        "same",
        "same-size",
        "skipped",
        "touched",
        "zz",
    ] {
        repo.write(name, if name == "empty" { b"" } else { b"content\n" });
    }
    symlink("target", root.join("link")).unwrap();
    symlink("target", root.join("link-same")).unwrap();
    for sub in ["sub-moved", "sub-same", "sub-gone"] {
        repo.git(["init", "-q", "-b", "main", &format!("--object-format={}", hash.name()), sub]);
        repo.git(["-C", sub, "commit", "-q", "--allow-empty", "-m", "one"]);
    }
    repo.git(["-c", "advice.addEmbeddedRepo=false", "add", "."]);
    let conflict = format!("100644 {} 1\tconflict\n100644 {0} 3\tconflict\n", repo.rev_parse(":same"));
    repo.git_with(["update-index", "--index-info"], conflict.as_bytes());
    repo.write("intent", b"content\n");
    repo.git(["add", "-N", "intent"]);
    repo.git(["update-index", "--assume-unchanged", "assumed"]);
    repo.git(["update-index", "--skip-worktree", "skipped"]);
    // Files looked at long before the index was written: nothing is racy but what is made so below.
    for entry in repo.git_str(["ls-files", "-s"]).lines().filter(|line| line.starts_with("100")) {
        let path = root.join(entry.split('\t').nth(1).unwrap());
        if path.exists() {
            set_mtime(&path, ago(1000));
        }
    }
    let _ = repo.try_git(["update-index", "-q", "--unmerged", "--refresh"], b"");

    repo.write("assumed", b"other\n");
    repo.write("skipped", b"other\n");
    repo.write("same-size", b"CONTENT\n");
    repo.write("grown", b"content\nmore\n");
    repo.write("emptied", b"");
    set_mtime(&root.join("touched"), ago(500));
    fs::set_permissions(root.join("chmod"), fs::Permissions::from_mode(0o755)).unwrap();
    for file in ["deleted", "became-dir", "became-link", "link"] {
        fs::remove_file(root.join(file)).unwrap();
    }
    for dir in ["gone", "file-for-dir", "sub-gone"] {
        fs::remove_dir_all(root.join(dir)).unwrap();
    }
    repo.write("became-dir/file", b"content\n");
    symlink("content", root.join("became-link")).unwrap();
    symlink("another", root.join("link")).unwrap();
    repo.write("file-for-dir", b"");
    repo.write("elsewhere/file", b"content\n");
    fs::remove_dir_all(root.join("dir/link")).unwrap();
    symlink("../elsewhere", root.join("dir/link")).unwrap();
    repo.git(["-C", "sub-moved", "commit", "-q", "--allow-empty", "-m", "two"]);
    repo
}

#[cfg(unix)]
#[test]
fn findings_and_stat_data_are_gits() {
    let base = RefreshOptions::default();
    let matching = MatchOptions::default();
    let cases: [(&[&str], &[&str], RefreshOptions); 9] = [
        (&[], &[], base),
        (&[], &["--ignore-missing"], base.ignore_missing(true)),
        (&[], &["--unmerged"], base.unmerged_ok(true)),
        (&[], &["--ignore-submodules"], base.ignore_submodules(true)),
        (&[], &["--really-refresh"], base.really(true)),
        (&["core.trustctime=false"], &[], base.matching(matching.trust_ctime(false))),
        (&["core.checkStat=minimal"], &[], base.matching(matching.check_stat(CheckStat::Minimal))),
        (&["core.fileMode=false"], &[], base.matching(matching.trust_file_mode(false))),
        (&["core.symlinks=false"], &[], base.matching(matching.has_symlinks(false))),
    ];
    for hash in Hash::ALL {
        let repo = lived_in(hash);
        let before = fs::read(repo.git_dir().join("index")).unwrap();
        let time = fs::metadata(repo.git_dir().join("index")).unwrap().modified().unwrap();
        for (config, options, ours) in cases {
            fs::write(repo.git_dir().join("index"), &before).unwrap();
            set_mtime(&repo.git_dir().join("index"), time);
            let arena = Bump::new();
            let file = open(&repo);
            let mut index = load(&file, &arena, kind(&repo));
            let checkout = Checkout::new(repo.path()).gitlink_head(&head_of);
            let mut found = Vec::new();
            let refreshed =
                refresh(&mut index, &checkout, &ours.threads(2), &mut |at, finding| found.push((at, finding)));
            assert_eq!(refreshed.changed, found.len());
            let text: String = found.iter().map(|(at, finding)| said(&index, *at, finding)).collect();
            let is_modified = |entry: Entry<'_>| is_secretly_modified(&entry, &checkout, &ours.matching);
            let write = WriteOptions::default().is_modified(Some(&is_modified));
            let (out, _) = index.write_to(Vec::new(), &write).unwrap();

            let mut words: Vec<&str> = config.iter().flat_map(|config| ["-c", *config]).collect();
            words.push("update-index");
            words.extend(options);
            words.extend((!options.contains(&"--really-refresh")).then_some("--refresh"));
            let git = repo.try_git(words.clone(), b"");
            assert_eq!(text, String::from_utf8(git.stdout).unwrap(), "{hash:?} {words:?}");
            // git, as it is built everywhere, compares whole seconds: of a ctime of the same second it keeps the old
            // fraction where we take over the new one.
            let cut = |line: &str| match line.strip_prefix("  ctime: ").and_then(|time| time.split(':').next()) {
                Some(seconds) => format!("{seconds}\n"),
                None => format!("{line}\n"),
            };
            let listed = |repo: &TestRepo| -> String {
                repo.git_str(["ls-files", "--stage", "--debug", "-t", "-v"]).lines().map(cut).collect()
            };
            let theirs = listed(&repo);
            fs::write(repo.git_dir().join("index"), out).unwrap();
            assert_eq!(listed(&repo), theirs, "{hash:?} {words:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn findings_say_why() {
    let repo = lived_in(Hash::Sha1);
    let arena = Bump::new();
    let file = open(&repo);
    let mut index = load(&file, &arena, kind(&repo));
    let checkout = Checkout::new(repo.path()).gitlink_head(&head_of);
    let mut found = BTreeMap::new();
    refresh(&mut index, &checkout, &RefreshOptions::default(), &mut |at, finding| {
        found.insert(at, finding);
    });
    let found: Vec<String> = found
        .iter()
        .map(|(at, finding)| {
            let finding = match finding {
                Finding::Unreadable(error) => format!("{:?}", error.kind()),
                finding => format!("{finding:?}"),
            };
            format!("{} {finding}", index.get(*at).unwrap().path().escape_ascii())
        })
        .collect();
    assert_eq!(
        found,
        [
            "became-dir TypeChanged",
            "became-link TypeChanged",
            "chmod Modified",
            "conflict Unmerged",
            "deleted Missing",
            "dir/link/file Missing",
            "emptied Modified",
            "file-for-dir/inside NotADirectory",
            "gone/a Missing",
            "gone/b Missing",
            "grown Modified",
            "intent Added",
            "link Modified",
            "same-size Modified",
            "sub-gone Missing",
            "sub-moved Modified",
        ]
    );
    // What was found to be as it should be is not looked at again.
    let at = index.range(b"touched").start;
    assert!(index.is_up_to_date(at) && index.is_up_to_date(index.range(b"assumed").start));
    assert!(!index.is_up_to_date(index.range(b"sub-same").start));
    fs::remove_file(repo.path().join("touched")).unwrap();
    let mut again = Vec::new();
    refresh(&mut index, &checkout, &RefreshOptions::default(), &mut |at, _| again.push(at));
    assert_eq!(again.len(), 16);
}

/// What refreshing says of `f`, and the stored size of its entry after the index was written again.
fn look_at_f(repo: &TestRepo) -> (Option<String>, u32) {
    let arena = Bump::new();
    let file = open(repo);
    let mut index = load(&file, &arena, kind(repo));
    let mut found = None;
    let checkout = Checkout::new(repo.path());
    refresh(&mut index, &checkout, &RefreshOptions::default(), &mut |at, finding| {
        assert_eq!(index_path(repo, at), "f");
        found = Some(format!("{finding:?}"));
    });
    let options = MatchOptions::default().trust_ctime(false);
    let is_modified = |entry: Entry<'_>| is_secretly_modified(&entry, &checkout, &options);
    let (out, _) = index.write_to(Vec::new(), &WriteOptions::default().is_modified(Some(&is_modified))).unwrap();
    fs::write(repo.git_dir().join("index"), out).unwrap();
    let (arena, file) = (Bump::new(), open(repo));
    let written = load(&file, &arena, kind(repo));
    let size = written.get(written.range(b"f").start).unwrap().stat().size;
    (found, size)
}

fn index_path(repo: &TestRepo, at: usize) -> String {
    repo.git_str(["ls-files"]).lines().nth(at).unwrap().to_owned()
}

#[test]
fn i10_a_change_within_the_moment_of_writing_is_seen() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let (f, index, then) = (repo.path().join("f"), repo.git_dir().join("index"), ago(100));
        repo.git(["config", "core.trustctime", "false"]);
        repo.write("f", b"aaaa");
        set_mtime(&f, then);
        repo.git(["add", "f"]);
        set_mtime(&index, then);
        repo.write("f", b"bbbb");
        set_mtime(&f, then);
        assert_eq!(look_at_f(&repo), (Some("Modified".into()), 0));
        assert_eq!(repo.git_str(["diff-files", "--name-only"]), "f");
        // The size is zero now, which is what the file's becomes: it is still not what was added.
        repo.write("f", b"");
        set_mtime(&f, then);
        assert_eq!(look_at_f(&repo).0, Some("Modified".into()));
        assert_eq!(repo.git_str(["diff-files", "--name-only"]), "f");
    }
}

#[test]
fn i10_a_change_that_only_fractions_of_a_second_tell_is_seen_by_git() {
    let repo = TestRepo::init(Hash::Sha1);
    let (f, index, then) = (repo.path().join("f"), repo.git_dir().join("index"), ago(100));
    repo.git(["config", "core.trustctime", "false"]);
    repo.write("f", b"aaaa");
    set_mtime(&f, then + Duration::from_millis(100));
    repo.git(["add", "f"]);
    set_mtime(&index, then + Duration::from_millis(200));
    repo.write("f", b"bbbb");
    set_mtime(&f, then + Duration::from_millis(300));
    // We see that it changed; git will not, once the index is younger than the file by a second.
    assert_eq!(look_at_f(&repo), (Some("Modified".into()), 0));
    assert_eq!(repo.git_str(["diff-files", "--name-only"]), "f");
}

#[test]
fn i10_an_unchanged_racy_file_stays_clean() {
    let repo = TestRepo::init(Hash::Sha1);
    let (f, index, then) = (repo.path().join("f"), repo.git_dir().join("index"), ago(100));
    repo.write("f", b"aaaa");
    set_mtime(&f, then);
    repo.git(["add", "f"]);
    set_mtime(&index, then);
    assert_eq!(look_at_f(&repo), (None, 4));
}

#[test]
fn i11_times_beyond_32_bits_are_clean() {
    let repo = TestRepo::init(Hash::Sha1);
    let path = repo.path().join("f");
    for time in [
        SystemTime::UNIX_EPOCH - Duration::new(304_800_895, 500_000_000),
        SystemTime::UNIX_EPOCH + Duration::from_secs(7_268_832_000),
    ] {
        repo.write("f", b"content");
        set_mtime(&path, time);
        if fs::metadata(&path).unwrap().modified().unwrap() != time {
            continue; // not every file system goes as far
        }
        repo.git(["add", "f"]);
        let arena = Bump::new();
        let file = open(&repo);
        let mut index = load(&file, &arena, kind(&repo));
        let before = index.get(0).unwrap().stat();
        // After 2106 the time wraps, and the file looks younger than the index.
        let refreshed =
            refresh(&mut index, &Checkout::new(repo.path()), &RefreshOptions::default(), &mut |_, finding| {
                panic!("{finding:?}")
            });
        assert_eq!((refreshed.updated, index.get(0).unwrap().stat()), (0, before));
    }
}

/// A work tree that is a function of the path.
struct Made {
    hash: HashKind,
    looks: AtomicUsize,
    reads: AtomicUsize,
}

/// What of eight kinds of file a path of [`many`] is.
fn nature(path: &[u8]) -> u8 {
    path.iter().fold(7u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte)) % 8
}

const SEEN: Stat = Stat {
    ctime: Time { secs: 5, nanos: 1 },
    mtime: Time { secs: 5, nanos: 1 },
    dev: 1,
    ino: 2,
    uid: 3,
    gid: 4,
    size: 5,
};

impl WorkTree for Made {
    fn lstat(&self, path: &[u8]) -> io::Result<Option<FileState>> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if !path.ends_with(b".c") {
            return Ok(Some(FileState { stat: Stat::default(), mode: Mode(0o040_000) }));
        }
        let file = |stat, mode| Ok(Some(FileState { stat, mode: Mode(mode) }));
        match nature(path) {
            0 => Ok(None),
            1 => Err(io::ErrorKind::PermissionDenied.into()),
            2 => file(Stat { mtime: Time { secs: 6, nanos: 1 }, ..SEEN }, 0o100_644),
            3 => file(Stat { size: 6, ..SEEN }, 0o100_644),
            4 => file(SEEN, 0o100_755),
            _ => file(SEEN, 0o100_644),
        }
    }

    fn same_content(&self, entry: Entry<'_>, _: &FileState) -> io::Result<bool> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(entry.id() == self.hash.empty_blob())
    }
}

fn many<'a>(arena: &'a Bump, hash: HashKind) -> Index<'a> {
    let mut index = Index::new(arena, hash);
    for n in 0..3000 {
        let path = format!("dir{}/sub{}/file{n}.c", n % 7, n % 5).into_bytes();
        let mut new = NewEntry { stat: SEEN, ..NewEntry::new(&path, Mode(0o100_644), hash.empty_blob()) };
        new.flags.skip_worktree = n % 50 == 0;
        index.add(&new, &Default::default()).unwrap();
    }
    index
}

#[test]
fn threads_make_no_difference() {
    for hash in HashKind::ALL {
        let outcomes: Vec<_> = [1, 2, 3, 64]
            .map(|threads| {
                let arena = Bump::new();
                let mut index = many(&arena, hash);
                index.set_timestamp(Time { secs: 9, nanos: 0 });
                let tree = Made { hash, looks: AtomicUsize::new(0), reads: AtomicUsize::new(0) };
                let options = RefreshOptions::default().threads(threads);
                let mut found = Vec::new();
                let refreshed = refresh(&mut index, &tree, &options, &mut |at, f| found.push(format!("{at} {f:?}")));
                let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default()).unwrap();
                let marks: Vec<bool> = (0..index.len()).map(|at| index.is_up_to_date(at)).collect();
                // Not a look at each directory for each of its files.
                assert!(tree.looks.into_inner() < 3500);
                (refreshed, found, bytes, marks, tree.reads.into_inner())
            })
            .into();
        let (refreshed, found, _, _, reads) = &outcomes[0];
        assert!(refreshed.updated > 200 && refreshed.changed > 1000 && found.len() == refreshed.changed);
        assert_eq!(*reads, refreshed.updated, "only what was touched is read");
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
    }
}

#[test]
fn who_is_believed() {
    let arena = Bump::new();
    let hash = HashKind::Sha256;
    let tree = Made { hash, looks: AtomicUsize::new(0), reads: AtomicUsize::new(0) };
    let missing = (0..).map(|n| format!("{n}.c").into_bytes()).find(|path| nature(path) == 0).unwrap();
    let look = |flags: Flags, monitored: bool, options: RefreshOptions| {
        let mut index = Index::new(&arena, hash);
        let entry = NewEntry { stat: SEEN, flags, ..NewEntry::new(&missing, Mode(0o100_644), hash.empty_blob()) };
        index.add(&entry, &Default::default()).unwrap();
        index.set_fsmonitor(Some(b"token"));
        index.set_fsmonitor_valid(0, monitored);
        refresh(&mut index, &tree, &options, &mut |_, _| ()).changed
    };
    let (none, base) = (Flags::default(), RefreshOptions::default());
    let assumed = Flags { assume_valid: true, ..none };
    let skipped = Flags { skip_worktree: true, ..none };
    assert_eq!(look(none, false, base), 1);
    assert_eq!(look(none, true, base), 0);
    assert_eq!(look(none, true, base.trust_fsmonitor(false)), 1);
    assert_eq!(look(assumed, false, base), 0);
    assert_eq!(look(assumed, false, base.really(true)), 1);
    assert_eq!(look(skipped, false, base.really(true)), 0);
    assert_eq!(look(none, false, base.ignore_missing(true)), 0);
}

#[test]
fn without_a_size_nothing_is_clean_but_the_empty_blob() {
    let arena = Bump::new();
    for hash in HashKind::ALL {
        let tree = Made { hash, looks: AtomicUsize::new(0), reads: AtomicUsize::new(0) };
        let stat = Stat { size: 0, ..SEEN };
        let state = FileState { stat, mode: Mode(0o100_644) };
        let mut index = Index::new(&arena, hash);
        for (path, blob) in [(b"a", hash.empty_blob()), (b"b", hash.empty_tree())] {
            let new = NewEntry { stat, ..NewEntry::new(path, Mode(0o100_644), blob) };
            index.add(&new, &Default::default()).unwrap();
        }
        let what = |at| {
            let entry = index.get(at).unwrap();
            compare(&entry, &state, &tree, Time::default(), &MatchOptions::default()).unwrap()
        };
        assert_eq!((what(0), what(1)), (Changed::default(), Changed::DATA));
    }
}
