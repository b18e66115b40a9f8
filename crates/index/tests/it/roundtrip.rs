//! Indexes that git wrote, in every state that it can be made to write: read, written back byte for byte, and written in another
//! version for git to read.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use hashfile::Trailer;
use object::HashKind;
use packstone_index::ext::{CacheTree, Extensions, eoie, ieot};
use packstone_index::file::shared_name;
use packstone_index::{Bump, Header, Index, NewEntry, ReadErrorKind, ReadOptions, Version, WriteOptions, ext};
use testkit::{Hash, TestRepo};

use crate::objects::kind;

/// What git is told when it writes.
#[derive(Debug, Clone, Copy)]
struct Settings {
    version: &'static str,
    /// The end of the entries and an offset table.
    table: bool,
    skip_hash: bool,
    split: bool,
}

const SETTINGS: [Settings; 6] = [
    Settings { version: "2", table: false, skip_hash: false, split: false },
    Settings { version: "4", table: false, skip_hash: false, split: false },
    Settings { version: "2", table: true, skip_hash: true, split: false },
    Settings { version: "4", table: true, skip_hash: false, split: false },
    Settings { version: "2", table: true, skip_hash: false, split: true },
    Settings { version: "4", table: false, skip_hash: false, split: true },
];

fn read<'a>(arena: &'a Bump, bytes: &'a [u8], git_dir: &Path, kind: HashKind, threads: usize) -> Index<'a> {
    let options = ReadOptions::new(kind).verify_checksum(true).threads(threads);
    match Index::read(arena, bytes, &options) {
        Err(error) => {
            let ReadErrorKind::NeedsShared { base } = error.kind else { panic!("{error}") };
            let shared = arena.alloc_slice_copy(&fs::read(git_dir.join(shared_name(&base))).expect("a shared index"));
            Index::read(arena, bytes, &options.shared(Some(shared))).expect("a sound index")
        }
        Ok(index) => index,
    }
}

/// Entries to a block of the offset table, if there is one.
fn table(bytes: &[u8], kind: HashKind) -> Option<u32> {
    let end = eoie::locate(bytes, kind)?;
    let mut items = Extensions::new(bytes, end, bytes.len() - kind.len()).map(|item| item.expect("a whole extension"));
    let item = items.find(|item| item.signature == ext::IEOT)?;
    let count = Header::parse(bytes, kind).expect("a header").count;
    Some(ieot::parse(item.data, Header::LEN..end, count as usize).expect("a sound table").first()?.entries)
}

/// All that git says about an index file.
fn git_says(repo: &TestRepo, bytes: &[u8]) -> String {
    let file = repo.git_dir().join("looked-at");
    fs::write(&file, bytes).unwrap();
    let mut said = String::new();
    for args in [
        &["ls-files", "--stage", "--debug", "-t", "-v", "--sparse"][..],
        &["ls-files", "--resolve-undo"],
        &["--no-optional-locks", "status", "--porcelain=v2"],
        &["write-tree"],
    ] {
        let output = repo.command().env("GIT_INDEX_FILE", &file).args(args).output().unwrap();
        assert!(
            output.status.success() || args == ["write-tree"],
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        said += &String::from_utf8_lossy(&output.stdout);
        said += &String::from_utf8_lossy(&output.stderr);
    }
    said
}

fn fsck(repo: &TestRepo, bytes: &[u8]) {
    let file = repo.git_dir().join("looked-at");
    fs::write(&file, bytes).unwrap();
    let output = repo.command().env("GIT_INDEX_FILE", &file).args(["fsck", "--no-dangling"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("error"), "{said}");
}

/// Reads the repository's index, writes it back, and in the other version.
fn there_and_back(repo: &TestRepo, what: &str) {
    let kind = kind(repo);
    let bytes = fs::read(repo.git_dir().join("index")).unwrap();
    let arena = Bump::new();
    let mut index = read(&arena, &bytes, repo.git_dir(), kind, 1);
    let other = read(&arena, &bytes, repo.git_dir(), kind, 3);
    assert!(index.iter().eq(other.iter()), "{what}");
    assert!(is_in_state(&index, what), "{what} has none of it");

    let skip_hash = matches!(hashfile::verify(&bytes, kind), Ok(Trailer::Skipped));
    let table = table(&bytes, kind);
    let options = WriteOptions::default().skip_hash(skip_hash).offset_table(table);
    let options = options.end_of_entries(eoie::locate(&bytes, kind).is_some());
    let (ours, _) = index.write_to(Vec::new(), &options).unwrap();
    assert!(ours == bytes, "{what}:\n{}\n{}", ours.escape_ascii(), bytes.escape_ascii());
    // Entry by entry, too.
    if !index.is_split() {
        let mut made = read(&arena, &bytes, repo.git_dir(), kind, 1);
        for at in 0..made.len() {
            let stat = made.get(at).unwrap().stat();
            made.set_stat(at, packstone_index::Stat::default());
            made.set_stat(at, stat);
        }
        let (ours, _) = made.write_to(Vec::new(), &options).unwrap();
        assert!(ours == bytes, "{what}: {}", ours.escape_ascii());
    }

    let said = git_says(repo, &bytes);
    let to = if index.version() == Version::V4 { Version::V2 } else { Version::V4 };
    index.set_version(to);
    let (ours, written) = index.write_to(Vec::new(), &options).unwrap();
    assert_eq!(written.version == Version::V4, to == Version::V4);
    assert_eq!(git_says(repo, &ours), said, "{what}");
    fsck(repo, &ours);
    // And back again.
    let mut again = read(&arena, &ours, repo.git_dir(), kind, 1);
    again.set_version(if to == Version::V4 { Version::V2 } else { Version::V4 });
    assert!(again.write_to(Vec::new(), &options).unwrap().0 == bytes, "{what}");
}

/// That the index is what it was to be.
fn is_in_state(index: &Index<'_>, what: &str) -> bool {
    let state = what.split(',').next().expect("a name");
    let flags = || index.iter().map(|entry| entry.flags());
    match state {
        "clean" => index.cache_tree().is_some_and(CacheTree::is_fully_valid),
        "trees partly known" => index.cache_tree().is_some_and(|tree| !tree.is_fully_valid()),
        "conflicts" => index.is_unmerged() && index.range(b"d/e/f").len() == 3,
        "resolved" => index.resolve_undo().len() == 3,
        "flags" => {
            flags().any(|flags| flags.intent_to_add)
                && flags().any(|flags| flags.assume_valid)
                && flags().any(|flags| flags.skip_worktree)
        }
        "submodule" => index.iter().any(|entry| entry.is_gitlink()),
        "untracked cache and monitor" => {
            index.untracked().is_some() && index.fsmonitor_token().is_some() && index.fsmonitor_valid(0)
        }
        "sparse checkout" => flags().any(|flags| flags.skip_worktree) && !index.is_sparse(),
        "sparse index" => index.is_sparse() && index.iter().any(|entry| entry.is_sparse_dir()),
        "nothing" => index.is_empty(),
        _ => true,
    }
}

/// Has git write the index in every way.
fn in_all_ways(hash: Hash, state: &str, make: fn(&TestRepo)) {
    let repo = TestRepo::init(hash);
    basis(&repo);
    make(&repo);
    let file = repo.git_dir().join("index");
    let start = fs::read(&file).unwrap();
    for settings in SETTINGS {
        if settings.split && state == "sparse index" {
            continue; // git refuses
        }
        fs::write(&file, &start).unwrap();
        // Nothing is racy: else git writes all entries into the small file of a split index.
        let later = SystemTime::now() + Duration::from_secs(10);
        File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
        let table = settings.table.to_string();
        let update = |args: &[&str]| {
            let mut command = repo.command();
            for (key, value) in [
                ("threads", if settings.table { "3" } else { "1" }),
                ("recordEndOfIndexEntries", &table),
                ("recordOffsetTable", &table),
                ("skipHash", &settings.skip_hash.to_string()),
            ] {
                command.args(["-c", &format!("index.{key}={value}")]);
            }
            assert!(command.arg("update-index").args(args).status().unwrap().success());
        };
        update(&["--index-version", settings.version, "--force-write-index"]);
        if settings.split {
            File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
            update(&["--split-index"]);
        }
        let bytes = fs::read(&file).unwrap();
        let arena = Bump::new();
        let index = read(&arena, &bytes, repo.git_dir(), kind(&repo), 1);
        let is = (index.is_split(), index.checksum().is_none(), index.version() == Version::V4);
        assert_eq!(is, (settings.split, settings.skip_hash, settings.version == "4"));
        assert_eq!(eoie::locate(&bytes, kind(&repo)).is_some(), settings.table);
        there_and_back(&repo, &format!("{state}, {hash:?}, {settings:?}"));
    }
}

fn basis(repo: &TestRepo) {
    for (path, bytes) in
        [("a", &b"a\n"[..]), ("a.b", b""), ("d/e/f", b"f\n"), ("d/e/g", b"g\n"), ("d/h", b"h\n"), ("z/y", b"y\n")]
    {
        repo.write(path, bytes);
    }
    repo.write("run", b"#!/bin/sh\n");
    fs::set_permissions(repo.path().join("run"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("a", repo.path().join("link")).unwrap();
    repo.commit("first");
}

/// Commits the change on another branch and this one here, and tries to merge.
fn merge(repo: &TestRepo, theirs: fn(&TestRepo), ours: fn(&TestRepo)) {
    repo.git(["checkout", "--quiet", "-b", "other"]);
    theirs(repo);
    repo.commit("theirs");
    repo.git(["checkout", "--quiet", "main"]);
    ours(repo);
    repo.commit("ours");
    assert!(!repo.try_git(["merge", "--quiet", "other"], b"").status.success());
}

fn conflicts(repo: &TestRepo) {
    let theirs = |repo: &TestRepo| {
        repo.write("d/e/f", b"theirs\n");
        repo.write("both", b"theirs\n");
        repo.git(["rm", "--quiet", "d/h"]);
        repo.git(["mv", "z/y", "z/theirs"]);
    };
    merge(repo, theirs, |repo| {
        repo.write("d/e/f", b"ours\n");
        repo.write("both", b"ours\n");
        repo.write("d/h", b"changed\n");
        repo.git(["mv", "z/y", "z/ours"]);
    });
}

type State = (&'static str, fn(&TestRepo));

const STATES: &[State] = &[
    ("clean", |_| {}),
    ("trees partly known", |repo| {
        repo.write("d/e/new", b"new\n");
        repo.git(["add", "d/e/new"]);
        repo.git(["rm", "--quiet", "--cached", "z/y"]);
        repo.write("a", b"changed, and longer\n");
    }),
    ("a file for a directory", |repo| {
        fs::remove_dir_all(repo.path().join("d/e")).unwrap();
        repo.write("d/e", b"file\n");
        repo.git(["add", "--all"]);
    }),
    ("conflicts", conflicts),
    ("resolved", |repo| {
        conflicts(repo);
        repo.git(["add", "both", "d/e/f"]);
        repo.git(["rm", "--quiet", "--cached", "d/h"]);
    }),
    ("flags", |repo| {
        repo.write("intended", b"intended\n");
        repo.git(["add", "--intent-to-add", "intended"]);
        repo.git(["update-index", "--assume-unchanged", "a"]);
        repo.git(["update-index", "--skip-worktree", "d/e/f"]);
        repo.git(["update-index", "--chmod=+x", "d/h"]);
    }),
    ("submodule", |repo| {
        let head = repo.rev_parse("HEAD");
        repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
    }),
    ("untracked cache and monitor", |repo| {
        repo.write("d/e/untracked", b"");
        repo.write("new/deep/untracked", b"");
        repo.write(".gitignore", b"*.o\n");
        let hook = repo.scratch().join("monitor");
        fs::write(&hook, "#!/bin/sh\nprintf 'token\\0d/e/f\\0'\n").unwrap();
        fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
        repo.git(["config", "core.untrackedCache", "true"]);
        repo.git(["config", "core.fsmonitor", hook.to_str().unwrap()]);
        repo.git(["update-index", "--untracked-cache", "--fsmonitor"]);
        repo.git(["status"]);
    }),
    ("sparse checkout", |repo| {
        repo.git(["sparse-checkout", "set", "--cone", "d/e"]);
    }),
    ("sparse index", |repo| {
        repo.git(["sparse-checkout", "set", "--cone", "--sparse-index", "z"]);
    }),
    ("nothing", |repo| {
        repo.git(["rm", "-r", "--quiet", "--cached", "."]);
    }),
    ("names", |repo| {
        for name in ["with space", "line\nbreak", "\u{fc}ml\u{e4}ut", "\u{1f980}/c", &"long".repeat(60), "-dash", "#"] {
            repo.write(name, name.as_bytes());
        }
        let long = [4094, 4095, 4096].map(|len| "l".repeat(len));
        repo.git(["add", "--all"]);
        let blob = repo.hash_object("blob", b"long");
        let line = |path: &String| format!("100644 {blob} 0\t{path}\n");
        repo.git_with(["update-index", "--index-info"], long.iter().map(line).collect::<String>().as_bytes());
    }),
];

fn states(hash: Hash, half: usize) {
    for (state, make) in STATES.iter().skip(half).step_by(2) {
        in_all_ways(hash, state, *make);
    }
}

// In pieces, so that they run side by side.

#[test]
fn what_git_writes_comes_back_sha1() {
    states(Hash::Sha1, 0);
}

#[test]
fn what_git_writes_comes_back_sha1_too() {
    states(Hash::Sha1, 1);
}

#[test]
fn what_git_writes_comes_back_sha256() {
    states(Hash::Sha256, 0);
}

#[test]
fn what_git_writes_comes_back_sha256_too() {
    states(Hash::Sha256, 1);
}

/// Commits of a history, checked out.
#[test]
fn checkouts() {
    for hash in Hash::ALL {
        let (repo, history) = (TestRepo::init(hash), TestRepo::rich(hash));
        repo.git(["fetch", "--quiet", history.path().to_str().unwrap(), "main", "side"]);
        for commit in ["FETCH_HEAD", "FETCH_HEAD~2", "FETCH_HEAD~20", "FETCH_HEAD^0"] {
            repo.git(["checkout", "--quiet", "--detach", commit]);
            there_and_back(&repo, commit);
        }
    }
}

/// Every tree of a history as an index.
#[test]
fn histories() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let commits = repo.git_str(["rev-list", "--all"]);
        for (n, commit) in commits.lines().enumerate() {
            repo.git(["read-tree", commit]);
            repo.git(["update-index", "--index-version", if n % 2 == 0 { "2" } else { "4" }]);
            let bytes = fs::read(repo.git_dir().join("index")).unwrap();
            let arena = Bump::new();
            let kind = kind(&repo);
            let mut index = read(&arena, &bytes, repo.git_dir(), kind, 1);
            assert!(index.write_to(Vec::new(), &WriteOptions::default()).unwrap().0 == bytes);
            // The same entries from nothing: the same bytes but for the cached trees.
            let mut made = Index::new(&arena, kind);
            made.replace_entries(index.iter().map(NewEntry::from)).unwrap();
            made.set_version(index.version());
            index.set_cache_tree(None);
            let (made, _) = made.write_to(Vec::new(), &WriteOptions::default()).unwrap();
            assert!(made == index.write_to(Vec::new(), &WriteOptions::default()).unwrap().0);
            fs::write(repo.git_dir().join("index"), &made).unwrap();
            assert_eq!(repo.git_str(["write-tree"]), repo.rev_parse(&format!("{commit}^{{tree}}")));
        }
    }
}

/// So many entries that threads share them, by git's own offset table.
#[test]
fn many_entries() {
    for (hash, version) in [(Hash::Sha1, "2"), (Hash::Sha256, "4")] {
        let repo = TestRepo::init(hash);
        for key in ["threads=3", "recordOffsetTable=true", "recordEndOfIndexEntries=true"] {
            let (key, value) = key.split_once('=').unwrap();
            repo.git(["config", &format!("index.{key}"), value]);
        }
        repo.git(["config", "index.version", version]);
        let blob = repo.hash_object("blob", b"");
        let line = |n: usize| format!("100644 {blob} 0\tdir{}/{}file{n}\n", n % 100, "x".repeat(n % 9));
        repo.git_with(["update-index", "--index-info"], (0..30_500).map(line).collect::<String>().as_bytes());
        repo.git(["write-tree"]);
        let bytes = fs::read(repo.git_dir().join("index")).unwrap();
        let (arena, kind) = (Bump::new(), kind(&repo));
        let mut index = read(&arena, &bytes, repo.git_dir(), kind, 1);
        assert_eq!(index.len(), 30_500);
        for threads in [2, 3, 4] {
            let other = read(&arena, &bytes, repo.git_dir(), kind, threads);
            assert!(index.iter().eq(other.iter()));
        }
        for threads in [1, 2] {
            let options = WriteOptions::default().offset_table(table(&bytes, kind)).threads(threads);
            assert!(index.write_to(Vec::new(), &options).unwrap().0 == bytes);
        }
        // Ours, read by git's threads.
        let (ours, _) = index.write_to(Vec::new(), &WriteOptions::default().offset_table(Some(1000))).unwrap();
        let listed = repo.git(["ls-files", "--stage", "--debug"]);
        fs::write(repo.git_dir().join("index"), ours).unwrap();
        assert!(repo.git(["ls-files", "--stage", "--debug"]) == listed);
    }
}
