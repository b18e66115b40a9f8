//! `update-index` beside git's: the same calls on two indexes of one work tree, with an object directory each. After every
//! call both exit alike, print alike, and leave indexes that git lists alike, stat data and flags included.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, packstone, said, succeeded};

/// A repository in which git and we each have an index and an object directory.
struct Both {
    repo: TestRepo,
    git: Side,
    ours: Side,
    /// Variables for both.
    env: Vec<(&'static str, &'static str)>,
    /// Where both are called, from the root of the work tree.
    dir: &'static str,
}

struct Side {
    index: PathBuf,
    objects: PathBuf,
}

/// How far the two index files have to be alike.
#[derive(Clone, Copy, PartialEq)]
enum Alike {
    /// To the byte.
    Bytes,
    /// In what git lists of them.
    Listed,
}
use Alike::{Bytes, Listed};

impl Both {
    fn new(hash: Hash) -> Both {
        let repo = TestRepo::init(hash);
        let side = |name: &str| {
            let dir = repo.scratch().join(name);
            fs::create_dir_all(dir.join("objects")).unwrap();
            Side { index: dir.join("index"), objects: dir.join("objects") }
        };
        let (git, ours) = (side("git"), side("ours"));
        Both { repo, git, ours, env: Vec::new(), dir: "." }
    }

    fn dress<'c>(&self, command: &'c mut Command, side: &Side) -> &'c mut Command {
        command.env("GIT_INDEX_FILE", &side.index).env("GIT_OBJECT_DIRECTORY", &side.objects);
        command.current_dir(self.repo.path().join(self.dir)).envs(self.env.iter().copied())
    }

    /// git on one of the two.
    fn git(&self, side: &Side, words: &[&str]) -> String {
        let output = output(self.dress(&mut self.repo.command(), side).args(words), b"");
        assert!(output.status.success(), "{words:?}: {}", said(&output).1);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Writes a file whose time is old enough for nothing to be racy.
    fn write(&self, path: &str, bytes: &[u8]) {
        self.repo.write(path, bytes);
        set_mtime(&self.repo.path().join(path), 1000);
    }

    /// Writes other content of perhaps the same size: its time is another, because git does not see fractions of a second.
    fn rewrite(&self, path: &str, bytes: &[u8]) {
        self.repo.write(path, bytes);
        set_mtime(&self.repo.path().join(path), 900);
    }

    /// Calls both, and compares. Gives what we said.
    #[track_caller]
    fn call(&self, alike: Alike, words: &[&str], input: &[u8]) -> Output {
        let mut words: Vec<&str> = words.to_vec();
        // Global options stand in front.
        let at = words
            .iter()
            .position(|word| word.starts_with("--") || *word == "-q" || !word.contains('=') && *word != "-c");
        words.insert(at.unwrap_or(words.len()), "update-index");
        let git = output(self.dress(&mut self.repo.command(), &self.git).args(&words), input);
        let ours = output(self.dress(&mut self.repo.program(PROGRAM), &self.ours).args(&words), input);
        let (git_said, ours_said) = (said(&git), said(&ours));
        assert_eq!(ours_said.0, git_said.0, "{words:?}\ngit: {}\nours: {}", git_said.1, ours_said.1);
        assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&git.stdout), "{words:?}");
        assert_eq!(ours_said.1.is_empty(), git_said.1.is_empty(), "{words:?}\n{}\n{}", git_said.1, ours_said.1);
        self.compare(alike, &words);
        ours
    }

    #[track_caller]
    fn compare(&self, alike: Alike, words: &[&str]) {
        assert_eq!(self.ours.index.exists(), self.git.index.exists(), "{words:?}");
        for list in [&["ls-files", "--stage", "--debug", "-t", "-v"][..], &["ls-files", "--resolve-undo"]] {
            assert_eq!(self.git(&self.ours, list), self.git(&self.git, list), "{words:?}");
        }
        if alike == Bytes && self.git.index.exists() {
            let (ours, git) = (fs::read(&self.ours.index).unwrap(), fs::read(&self.git.index).unwrap());
            assert!(ours == git, "{words:?}\n{}\n{}", git.escape_ascii(), ours.escape_ascii());
        }
    }

    /// As [`call`](Both::call), for what succeeds in silence.
    #[track_caller]
    fn ok(&self, alike: Alike, words: &[&str]) {
        let (code, text) = said(&self.call(alike, words, b""));
        assert_eq!((code, text.as_str()), (Some(0), ""), "{words:?}");
    }

    /// As [`call`](Both::call), for what fails; the messages are the same, too.
    #[track_caller]
    fn same_failure(&self, words: &[&str], input: &[u8], message: &str) {
        let ours = self.call(Bytes, words, input);
        assert_ne!(ours.status.code(), Some(0), "{words:?}");
        assert_eq!(said(&ours).1, message, "{words:?}");
        let mut words: Vec<&str> = words.to_vec();
        words.insert(0, "update-index");
        let git = output(self.dress(&mut self.repo.command(), &self.git).args(&words), input);
        assert_eq!(said(&git).1, message, "git {words:?}");
    }

    /// Both write the same tree, of objects that are all there and sound.
    #[track_caller]
    fn same_tree(&self) -> String {
        let tree = self.git(&self.ours, &["write-tree"]);
        assert_eq!(tree, self.git(&self.git, &["write-tree"]));
        for side in [&self.ours, &self.git] {
            self.git(side, &["fsck", "--strict", "--no-dangling", "--cache"]);
        }
        tree
    }
}

fn set_mtime(path: &Path, seconds_ago: u64) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(now - seconds_ago);
    File::options().write(true).open(path).and_then(|file| file.set_modified(time)).unwrap();
}

#[cfg(unix)]
fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn files_of_every_kind_come_and_go() {
    use std::os::unix::fs::symlink;
    for hash in Hash::ALL {
        let both = Both::new(hash);
        let root = both.repo.path().to_owned();
        for (path, bytes) in [
            ("a", &b"a\n"[..]),
            ("dir/deep/b", b"b\n"),
            ("dir/c", &[7; 300_000]),
            ("empty", b""),
            ("run", b"#!/bin/sh\n"),
            ("new", b"new\n"),
        ] {
            both.write(path, bytes);
        }
        executable(&root.join("run"));
        symlink("dir/c", root.join("link")).unwrap();
        for sub in ["sub", "unborn"] {
            both.repo.git(["init", "-q", "-b", "main", &format!("--object-format={}", hash.name()), sub]);
        }
        both.repo.git(["-C", "sub", "commit", "-q", "--allow-empty", "-m", "one"]);

        both.same_failure(
            &["a"],
            b"",
            "error: a: cannot add to the index - missing --add option?\nfatal: Unable to process path a\n",
        );
        both.ok(Bytes, &["--add", "a", "dir/deep/b", "dir/c", "empty", "run", "link", "sub"]);
        // Options count for what is behind them; what was said before stays.
        let ours = both.call(Bytes, &["--verbose", "--chmod=+x", "a", "--add", "new", "--chmod=-x", "run"], b"");
        assert_eq!(ours.stdout, b"add 'a'\nchmod +x 'a'\nadd 'new'\nchmod +x 'new'\nadd 'run'\nchmod -x 'run'\n");
        both.same_tree();

        both.same_failure(
            &["--add", "unborn"],
            b"",
            "error: unborn: is a directory - add files inside instead\nfatal: Unable to process path unborn\n",
        );
        both.same_failure(
            &["dir"],
            b"",
            "error: dir: is a directory - add individual files instead\nfatal: Unable to process path dir\n",
        );
        both.same_failure(&["--chmod=+x", "link"], b"", "fatal: git update-index: cannot chmod +x 'link'\n");
        both.same_failure(&["--chmod=x", "a"], b"", "error: option 'chmod' expects \"+x\" or \"-x\"\n");

        both.write("a", b"changed\n");
        both.repo.git(["-C", "sub", "commit", "-q", "--allow-empty", "-m", "two"]);
        both.ok(Bytes, &["a", "sub", "dir/c"]);
        fs::remove_file(root.join("empty")).unwrap();
        both.same_failure(
            &["empty"],
            b"",
            "error: empty: does not exist and --remove not passed\nfatal: Unable to process path empty\n",
        );
        both.ok(Bytes, &["--remove", "empty", "never/was"]);
        both.ok(Bytes, &["--force-remove", "new", "nothing"]);
        both.ok(Bytes, &["--info-only", "--add", "new"]);

        // Files for directories, and the reverse.
        fs::remove_file(root.join("a")).unwrap();
        both.write("a/inside", b"x\n");
        let conflict = "error: 'a/inside' appears as both a file and as a directory\n\
                        error: a/inside: cannot add to the index - missing --add option?\n\
                        fatal: Unable to process path a/inside\n";
        both.same_failure(&["--add", "a/inside"], b"", conflict);
        both.ok(Bytes, &["--add", "--replace", "a/inside"]);
        fs::remove_dir_all(root.join("dir")).unwrap();
        both.write("dir", b"now a file\n");
        both.ok(Bytes, &["--add", "--replace", "dir"]);
        fs::remove_file(root.join("dir")).unwrap();
        symlink("a", root.join("dir")).unwrap();
        both.same_failure(
            &["--add", "dir/inside"],
            b"",
            "error: 'dir/inside' is beyond a symbolic link\nfatal: Unable to process path dir/inside\n",
        );
        fs::remove_file(root.join("run")).unwrap();
        fs::create_dir(root.join("run")).unwrap();
        both.ok(Bytes, &["--remove", "run"]);
        both.ok(Bytes, &["--force-remove", "new"]);
        both.same_tree();
    }
}

#[test]
fn paths_are_those_of_the_current_directory() {
    let mut both = Both::new(Hash::Sha1);
    for path in ["top", "dir/a", "dir/sub/b", "dir/sub/c d"] {
        both.write(path, b"x\n");
    }
    both.dir = "dir/sub";
    let absolute = both.repo.path().join("top");
    both.ok(Bytes, &["--add", "b", "../a", "./../../dir//sub/c d", absolute.to_str().unwrap()]);
    assert_eq!(both.git(&both.ours, &["ls-files", "--full-name", ":/"]).lines().count(), 4);
    let root = both.repo.path().display();
    let outside = format!("fatal: '../../../x' is outside repository at '{root}'\n");
    both.same_failure(&["../../../x"], b"", &outside);
    both.dir = ".";
    // Refused, but not a reason to fail.
    for bad in [".git/x", "a/.GIT/x", "a//../.git", ""] {
        let ours = both.call(Bytes, &["--add", bad], b"");
        assert!(said(&ours).1.starts_with("Ignoring path "), "{bad}");
    }
}

#[test]
fn lists_of_paths() {
    let both = Both::new(Hash::Sha1);
    for path in ["a", "with space", "ümlaut", "tab\tname", "line\nfeed", "\"quoted\""] {
        both.write(path, path.as_bytes());
    }
    both.call(Bytes, &["--add", "--stdin"], b"a\nwith space\n\"\\303\\274mlaut\"\n\"tab\\tname\"\n");
    both.call(Bytes, &["--add", "-z", "--stdin"], b"line\nfeed\0\"quoted\"\0");
    both.call(Bytes, &["--chmod=+x", "--stdin"], b"a\nwith space");
    both.call(Bytes, &["--stdin"], b"");
    both.same_failure(&["--stdin"], b"\"open\n", "fatal: line is badly quoted\n");
    both.same_failure(&["--stdin", "a"], b"", "error: option 'stdin' must be the last argument\n");
    both.same_tree();
}

#[test]
fn entries_as_given() {
    for hash in Hash::ALL {
        let both = Both::new(hash);
        both.write("f", b"content\n");
        both.ok(Bytes, &["--add", "f"]);
        let id = both.git(&both.ours, &["rev-parse", ":f"]).trim_end().to_owned();
        let null = "0".repeat(hash.hex_len());
        let joined = |mode: &str, path: &str| format!("{mode},{id},{path}");

        both.ok(Bytes, &["--add", "--cacheinfo", &joined("100644", "one")]);
        both.ok(Bytes, &["--add", "--cacheinfo", "100755", &id, "two", "--cacheinfo", &joined("120000", "link")]);
        both.ok(Bytes, &["--add", "--cacheinfo", &joined("777", "odd"), "--cacheinfo", &joined("100600", "odder")]);
        both.ok(Bytes, &["--add", "--cacheinfo", &joined("160000", "module")]);
        let missing = "error: new: cannot add to the index - missing --add option?\n\
                       fatal: git update-index: --cacheinfo cannot add new\n";
        both.same_failure(&["--cacheinfo", &joined("100644", "new")], b"", missing);
        let invalid = "error: Invalid path '../x'\nfatal: git update-index: --cacheinfo cannot add ../x\n";
        both.same_failure(&["--add", "--cacheinfo", &joined("100644", "../x")], b"", invalid);
        let expects = "error: option 'cacheinfo' expects <mode>,<sha1>,<path>\n";
        both.same_failure(&["--cacheinfo"], b"", expects);
        both.same_failure(&["--cacheinfo", "100644", &id], b"", expects);
        both.same_failure(
            &["--cacheinfo", "100644", "1234", "two"],
            b"",
            "fatal: git update-index: --cacheinfo cannot add 1234\n",
        );
        // Nothing may name no object.
        let ours = both.call(Bytes, &["--cacheinfo", &format!("100644,{null},f")], b"");
        assert_eq!(ours.status.code(), Some(128));

        let listed = both.git(&both.git, &["ls-files", "--stage"]);
        let tree = both.same_tree();
        let tree = both.git(&both.git, &["ls-tree", "-r", tree.trim_end()]);
        both.call(Bytes, &["--index-info"], format!("0 {null}\tone\n0 {null}\tgone\n").as_bytes());
        both.call(Bytes, &["--index-info"], listed.as_bytes());
        both.call(Bytes, &["--index-info"], tree.as_bytes());
        let stages = format!("0 {null}\tf\n100644 {id} 1\tf\n100755 {id} 2\tf\n100644 {id} 3\tf\n");
        both.call(Bytes, &["--index-info"], stages.as_bytes());
        // A directory where a file was, and the reverse.
        let replaced = format!("100644 {id}\tf/in/side\n100644 {id}\tone/more\n100644 {id}\ttwo/x\n100644 {id}\ttwo\n");
        both.call(Bytes, &["--index-info"], replaced.as_bytes());
        both.call(Bytes, &["-z", "--index-info"], format!("100644 {id}\t\"raw\n\0").as_bytes());
        let quoted = format!("100644 {id}\t\"tab\\there\"\n100644 {id}\t.git/x\n");
        both.call(Bytes, &["--verbose", "--index-info"], quoted.as_bytes());
        both.call(Bytes, &["--index-info"], b"");
        both.same_failure(&["--index-info"], b"no such line\n", "fatal: malformed index info no such line\n");
        let bad = format!("100644 {id}\t\"open\n");
        both.same_failure(&["--index-info"], bad.as_bytes(), "fatal: git update-index: bad quoting of path name\n");
    }
}

#[test]
fn a_directory_is_no_entry() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("dir/f", b"x\n")], "one");
    let before = repo.git_str(["ls-files", "-s"]);
    let tree = repo.git_str(["ls-tree", "HEAD"]) + "\n";
    // git takes this, and its next command finds an entry "dirf".
    let (code, text) = said(&packstone(&repo, &["update-index", "--index-info"], &tree));
    assert_eq!(code, Some(128));
    assert_eq!(text, "error: dir: a directory cannot be added\nfatal: git update-index: unable to update dir\n");
    assert_eq!(repo.git_str(["ls-files", "-s"]), before);
}

#[test]
fn a_large_list_is_one_pass() {
    let both = Both::new(Hash::Sha1);
    let id = both.repo.hash_object("blob", b"x\n");
    let line = |n: u32| format!("100644 {id}\tdir{}/file{}\n", n.wrapping_mul(2_654_435_761) % 97, n);
    let input: String = (0..20_000).map(line).collect();
    both.call(Bytes, &["--index-info"], input.as_bytes());
}

#[test]
fn flags() {
    let both = Both::new(Hash::Sha1);
    for path in ["a", "b", "c/d"] {
        both.write(path, b"x\n");
    }
    both.ok(Bytes, &["--add", "a", "b", "c/d"]);
    both.ok(Bytes, &["--assume-unchanged", "a"]);
    both.ok(Bytes, &["--skip-worktree", "b", "c/d"]);
    both.ok(Bytes, &["--no-skip-worktree", "c/d", "--no-assume-unchanged", "a"]);
    both.ok(Bytes, &["--assume-unchanged", "a"]);
    both.same_failure(&["--skip-worktree", "none"], b"", "fatal: Unable to mark file none\n");
    // What is marked is not looked at.
    both.write("a", b"changed\n");
    both.write("b", b"changed\n");
    both.ok(Bytes, &["a", "b"]);
    both.ok(Bytes, &["--refresh"]);
    let ours = both.call(Bytes, &["--really-refresh"], b"");
    assert_eq!(ours.stdout, b"a: needs update\n");
    both.ok(Bytes, &["--ignore-skip-worktree-entries", "--remove", "b"]);
    both.ok(Bytes, &["--remove", "b"]);
    both.ok(Bytes, &["-c", "core.ignoreStat=true", "--add", "b"]);
    both.same_tree();
}

#[test]
fn refresh_says_what_is_not_up_to_date() {
    let both = Both::new(Hash::Sha1);
    for path in ["gone", "same", "touched", "x/changed"] {
        both.write(path, b"x\n");
    }
    both.ok(Bytes, &["--add", "gone", "same", "touched", "x/changed"]);
    both.ok(Bytes, &["--refresh"]);
    let id = both.git(&both.git, &["rev-parse", ":same"]);
    both.call(Bytes, &["--index-info"], format!("100644 {} 2\tmerge\n", id.trim_end()).as_bytes());
    set_mtime(&both.repo.path().join("touched"), 500);
    both.rewrite("x/changed", b"y\n");
    fs::remove_file(both.repo.path().join("gone")).unwrap();
    let ours = both.call(Bytes, &["--refresh"], b"");
    assert_eq!(ours.stdout, b"gone: needs update\nmerge: needs merge\nx/changed: needs update\n");
    for words in [
        &["--ignore-missing", "--refresh"][..],
        &["--unmerged", "--refresh"],
        &["-q", "--refresh"],
        &["-q", "--unmerged", "--refresh"],
        &["--refresh", "--ignore-missing"],
        &["--really-refresh", "--verbose"],
    ] {
        both.call(Bytes, words, b"");
    }
}

#[test]
fn conflicts_are_resolved_and_brought_back() {
    for hash in Hash::ALL {
        let both = Both::new(hash);
        both.write("f", b"resolved\n");
        both.write("g", b"x\n");
        let id = both.repo.hash_object("blob", b"x\n");
        let stage = |n: u8, path: &str| format!("100644 {id} {n}\t{path}\n");
        let stages = [stage(1, "f"), stage(2, "f"), stage(3, "f"), stage(2, "g"), stage(3, "gone")].concat();
        both.call(Bytes, &["--index-info"], stages.as_bytes());
        both.ok(Bytes, &["f", "g", "--force-remove", "gone"]);
        assert_eq!(both.git(&both.ours, &["ls-files", "--resolve-undo"]).lines().count(), 5);
        both.ok(Bytes, &["--unresolve", "f", "gone", "never"]);
        both.ok(Bytes, &["--unresolve", "f"]);
        both.ok(Bytes, &["f"]);
        both.ok(Bytes, &["--clear-resolve-undo"]);
        assert_eq!(both.git(&both.ours, &["ls-files", "--resolve-undo"]), "");
        both.ok(Bytes, &["--clear-resolve-undo"]);
    }
}

#[test]
fn versions() {
    for hash in Hash::ALL {
        let mut both = Both::new(hash);
        both.call(Bytes, &["--show-index-version"], b"");
        for path in ["a/long/path/one", "a/long/path/two", "b"] {
            both.write(path, b"x\n");
        }
        both.ok(Bytes, &["--add", "a/long/path/one", "b"]);
        for version in ["4", "2", "3", "4"] {
            both.call(Bytes, &["--verbose", "--index-version", version], b"");
            both.call(Bytes, &["--show-index-version"], b"");
        }
        both.ok(Bytes, &["--add", "a/long/path/two"]);
        both.ok(Bytes, &["--index-version=3", "--skip-worktree", "b"]);
        both.call(Bytes, &["--show-index-version"], b"");
        both.same_failure(&["--index-version", "5"], b"", "fatal: index-version 5 not in range: 2..4\n");
        both.call(Bytes, &["--index-version", "x"], b"");
        for (variable, config) in
            [("4", "index.version=2"), ("2", "feature.manyFiles=false"), ("", "index.version=1"), ("9", "a.b=c")]
        {
            both.env = if variable.is_empty() { Vec::new() } else { vec![("GIT_INDEX_VERSION", variable)] };
            for side in [&both.git, &both.ours] {
                fs::remove_file(&side.index).unwrap();
            }
            both.call(Bytes, &["-c", config, "--add", "b"], b"");
            both.call(Bytes, &["--show-index-version"], b"");
        }
        both.env.clear();
        both.ok(Bytes, &["-c", "index.skipHash=true", "--force-write-index"]);
        both.ok(Bytes, &["--force-write-index"]);
        // The blocks of the offset table are ours to choose.
        both.ok(Listed, &["-c", "index.threads=4", "--force-write-index"]);
        let bytes = fs::read(&both.ours.index).unwrap();
        assert!([&b"EOIE"[..], b"IEOT"].iter().all(|name| bytes.windows(4).any(|four| four == *name)));
        both.ok(Bytes, &["-c", "index.threads=1", "--force-write-index"]);
    }
}

#[test]
fn split_indexes() {
    for hash in Hash::ALL {
        let both = Both::new(hash);
        let paths: Vec<String> = (0..20).map(|n| format!("file{n:02}")).collect();
        let words = |first: &'static str, paths: &'static [usize]| -> Vec<String> {
            let named = paths.iter().map(|n| format!("file{n:02}"));
            std::iter::once(first.to_owned()).chain(named).collect()
        };
        for path in &paths {
            both.write(path, path.as_bytes());
        }
        let call = |words: Vec<String>| both.ok(Bytes, &words.iter().map(String::as_str).collect::<Vec<_>>());
        call(words("--add", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
        both.ok(Bytes, &["--split-index"]);
        call(words("--add", &[12]));
        call(words("--force-remove", &[3, 4]));
        call(words("--chmod=+x", &[7]));
        call(words("--skip-worktree", &[9]));
        both.ok(Bytes, &["-c", "splitIndex.maxPercentChange=100", "--add", "file13", "file14", "file15", "file16"]);
        // A fifth is new now: all goes into another shared index.
        call(words("--add", &[17]));
        both.ok(Bytes, &["--split-index"]);
        // git makes one file of it on this occasion.
        both.ok(Listed, &["--index-version", "4"]);
        both.ok(Bytes, &["--no-split-index"]);
        both.ok(Bytes, &["-c", "core.splitIndex=true", "--add", "file18"]);
        both.ok(Bytes, &["-c", "core.splitIndex=false", "--add", "file19"]);
        both.call(Bytes, &["-c", "core.splitIndex=false", "--split-index"], b"");
        both.same_tree();
    }
}

#[test]
fn shared_indexes_expire() {
    let repo = TestRepo::init(Hash::Sha1);
    let shared = || {
        let names =
            fs::read_dir(repo.git_dir()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("sharedindex.")).collect::<Vec<_>>()
    };
    let age = |seconds| {
        for name in shared() {
            set_mtime(&repo.git_dir().join(name), seconds);
        }
    };
    let add = |name: &str, config: &str| {
        repo.write(name, b"x\n");
        succeeded(packstone(&repo, &["-c", config, "update-index", "--add", "--split-index", name], ""));
        shared().len()
    };
    let day = 24 * 3600;
    assert_eq!(add("a", "a.b=c"), 1);
    assert_eq!(add("b", "a.b=c"), 2);
    age(14 * day - 100);
    assert_eq!(add("c", "a.b=c"), 3);
    age(14 * day + 100);
    assert_eq!(add("d", "splitIndex.sharedIndexExpire=16.days.ago"), 4);
    age(4000 * day);
    assert_eq!(add("e", "splitIndex.sharedIndexExpire=never"), 5);
    age(1);
    // What was just read is as young as can be.
    assert!(add("f", "splitIndex.sharedIndexExpire=now") <= 2);
    let (code, text) =
        said(&packstone(&repo, &["-c", "splitIndex.sharedIndexExpire=x y", "update-index", "--refresh"], ""));
    assert_eq!(code, Some(128), "{text}");
}

#[test]
fn a_lock_held_by_somebody_else() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("f", b"x\n"), ("g", b"x\n")], "one");
    set_mtime(&repo.path().join("f"), 1000);
    succeeded(packstone(&repo, &["update-index", "--refresh"], ""));
    let lock = repo.git_dir().join("index.lock");
    let index = repo.git_dir().join("index");
    set_mtime(&repo.path().join("g"), 1000);
    succeeded(packstone(&repo, &["update-index", "--refresh"], ""));
    fs::write(&lock, b"somebody's").unwrap();
    let before = fs::read(&index).unwrap();
    // As long as there is nothing to write, the lock does not matter.
    succeeded(packstone(&repo, &["update-index", "--show-index-version"], ""));
    let (code, text) = said(&packstone(&repo, &["update-index", "--force-remove", "f"], ""));
    let root = repo.git_dir().display();
    assert_eq!(code, Some(128));
    assert!(text.starts_with(&format!("fatal: Unable to create '{root}/index.lock': File exists.\n\n")), "{text}");
    let quiet = packstone(&repo, &["update-index", "-q", "--force-remove", "f"], "");
    assert_eq!(said(&quiet), (Some(128), String::new()));
    assert_eq!(fs::read(&index).unwrap(), before);
    assert_eq!(fs::read(&lock).unwrap(), b"somebody's");
    fs::remove_file(&lock).unwrap();
    // A failure leaves neither a lock nor another index.
    let (code, _) = said(&packstone(&repo, &["update-index", "--force-remove", "f", "none"], ""));
    assert_eq!(code, Some(0));
    let before = fs::read(&index).unwrap();
    let (code, _) = said(&packstone(&repo, &["update-index", "--force-remove", "g", "--assume-unchanged", "none"], ""));
    assert_eq!((code, lock.exists(), fs::read(&index).unwrap() == before), (Some(128), false, true));
}

#[cfg(unix)]
#[test]
fn f3_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for (shared, want) in [("umask", [0o444, 0o755, 0o644]), ("group", [0o440, 0o2770, 0o660])] {
        let repo = TestRepo::init(Hash::Sha1);
        repo.git(["config", "core.sharedRepository", shared]);
        repo.write("f", b"content\n");
        let umask = if shared == "umask" { "022" } else { "077" };
        let mut command = repo.program("sh");
        command.args(["-c", &format!("umask {umask} && exec \"$0\" update-index --add --split-index f"), PROGRAM]);
        succeeded(output(&mut command, b""));
        let id = repo.rev_parse(":f");
        let fan_out = repo.objects_dir().join(&id[..2]);
        let found = [mode(fan_out.join(&id[2..])), mode(fan_out), mode(repo.git_dir().join("index"))];
        assert_eq!(found, want, "{shared}");
        let shared_index = fs::read_dir(repo.git_dir()).unwrap().map(|entry| entry.unwrap());
        let shared_index =
            shared_index.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"sharedindex."));
        assert!(shared_index.map(|entry| mode(entry.path())).all(|mode| mode == want[2]));
    }
}

#[test]
fn objects_that_are_there_are_kept_fresh() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("packed", b"packed\n")], "one");
    repo.repack();
    let pack = repo.only_pack();
    let loose = repo.hash_object("blob", b"loose\n");
    let loose = repo.objects_dir().join(&loose[..2]).join(&loose[2..]);
    let old = SystemTime::now() - Duration::from_secs(1000);
    for path in [&pack, &loose] {
        let mut permissions = fs::metadata(path).unwrap().permissions();
        #[expect(clippy::permissions_set_readonly_false, reason = "in a folder of the test's own")]
        permissions.set_readonly(false);
        fs::set_permissions(path, permissions).unwrap();
        set_mtime(path, 1000);
    }
    repo.write("copy", b"packed\n");
    repo.write("other", b"loose\n");
    succeeded(packstone(&repo, &["update-index", "--add", "copy", "other"], ""));
    for path in [&pack, &loose] {
        assert!(fs::metadata(path).unwrap().modified().unwrap() > old + Duration::from_secs(500));
    }
    let copy = repo.rev_parse(":copy");
    assert!(!repo.objects_dir().join(&copy[..2]).join(&copy[2..]).exists(), "a second copy of a packed object");
    repo.fsck();
}

#[test]
fn large_files_are_streamed() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let content: Vec<u8> = (0..1_000_000u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
        repo.write("large", &content);
        succeeded(packstone(&repo, &["-c", "core.bigFileThreshold=1m", "update-index", "--add", "large"], ""));
        assert_eq!(repo.rev_parse(":large"), repo.git_str(["hash-object", "large"]));
        assert_eq!(repo.read(&repo.rev_parse(":large")), content);
    }
}

#[test]
fn what_would_have_to_be_converted_is_refused() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.write(
        ".gitattributes",
        b"*.txt text\n*.lfs filter=lfs\n*.id ident\n*.16 working-tree-encoding=utf-16\n*.bin -text\n",
    );
    repo.git(["config", "filter.lfs.clean", "cat"]);
    for (path, content) in [
        ("dos.txt", &b"a\r\n"[..]),
        ("unix.txt", b"a\n"),
        ("any.lfs", b""),
        ("plain.id", b"x"),
        ("marked.id", b"$Id$"),
        ("wide.16", b"\0a"),
        ("dos.bin", b"a\r\n"),
        ("dos", b"a\r\n"),
        ("binary", b"a\r\n\0"),
    ] {
        repo.write(path, content);
    }
    let add = |config: &str, path: &str| said(&packstone(&repo, &["-c", config, "update-index", "--add", path], ""));
    for (path, why) in [
        ("dos.txt", "line ends"),
        ("any.lfs", "filter 'lfs'"),
        ("marked.id", "ident"),
        ("wide.16", "working-tree-encoding 'utf-16'"),
    ] {
        let text =
            format!("fatal: cannot add '{path}': it has to be converted first ({why}), which is not supported yet\n");
        assert_eq!(add("a.b=c", path), (Some(128), text));
    }
    for path in ["unix.txt", "plain.id", "dos.bin", "dos", "binary"] {
        assert_eq!(add("a.b=c", path), (Some(0), String::new()));
        assert_eq!(repo.rev_parse(&format!(":{path}")), repo.git_str(["hash-object", path]));
        repo.git(["update-index", "--force-remove", path]);
    }
    assert_eq!(add("core.autocrlf=input", "dos").0, Some(128));
    assert_eq!(add("core.autocrlf=true", "binary").0, Some(0));
    // A comparison that would need it is refused as well, rather than answered wrongly.
    repo.git(["add", "dos.txt"]);
    set_mtime(&repo.path().join("dos.txt"), 1000);
    let (code, text) = said(&packstone(&repo, &["update-index", "--refresh"], ""));
    let what = "cannot compare 'dos.txt': it has to be converted first (line ends), which is not supported yet";
    assert_eq!((code, text), (Some(128), format!("fatal: {what}\n")));
}

#[test]
fn again_is_what_differs_from_head() {
    let mut both = Both::new(Hash::Sha1);
    let ids = ["a", "dir/b", "dir/c"].map(|path| {
        both.write(path, b"x\n");
        path
    });
    both.ok(Bytes, &[&["--add"][..], &ids].concat());
    both.rewrite("a", b"y\n");
    // Without a commit everything differs.
    both.ok(Bytes, &["--again"]);
    both.rewrite("dir/b", b"y\n");
    both.dir = "dir";
    both.ok(Bytes, &["-g"]);
    both.dir = ".";
    both.rewrite("dir/c", b"y\n");
    both.write("a", b"zz\n");
    both.ok(Bytes, &["--again", "dir/"]);
    both.ok(Bytes, &["--again", "*"]);
    both.same_tree();
}

#[test]
fn usage() {
    let repo = TestRepo::init(Hash::Sha1);
    let help = packstone(&repo, &["update-index", "-h"], "");
    assert_eq!(help.status.code(), Some(129));
    assert!(help.stdout.starts_with(b"usage: packstone update-index [<options>] [--] [<file>...]\n\n    -q  "));
    for name in ["untracked-cache", "force-untracked-cache", "test-untracked-cache", "fsmonitor", "fsmonitor-valid"] {
        let (code, text) = said(&packstone(&repo, &["update-index", &format!("--{name}")], ""));
        assert_eq!((code, text), (Some(129), format!("error: option `{name}' is not supported\n")));
    }
    let (code, text) = said(&packstone(&repo, &["update-index", "--nonsense"], ""));
    assert!(code == Some(129) && text.starts_with("error: unknown option `nonsense'\nusage: "), "{text}");
    let bare = TestRepo::bare(Hash::Sha1);
    let (code, text) = said(&packstone(&bare, &["update-index", "--refresh"], ""));
    assert_eq!((code, text.as_str()), (Some(128), "fatal: this operation must be run in a work tree\n"));
    // Entries need no work tree.
    let blob = bare.hash_object("blob", b"x");
    succeeded(packstone(&bare, &["update-index", "--index-info"], &format!("100644 {blob}\tf\n")));
    assert_eq!(bare.git_str(["ls-files"]), "f");
}

#[test]
fn caches_of_the_work_tree_can_be_dropped() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.write("f", b"x\n");
    repo.git(["add", "f"]);
    repo.git(["update-index", "--force-untracked-cache"]);
    repo.git(["status"]);
    let has = |name: &[u8]| fs::read(repo.git_dir().join("index")).unwrap().windows(4).any(|four| four == name);
    assert!(has(b"UNTR"));
    succeeded(packstone(&repo, &["update-index", "--chmod=+x", "f"], ""));
    assert!(has(b"UNTR"));
    let ours = packstone(&repo, &["update-index", "--no-untracked-cache", "--verbose"], "");
    assert_eq!(succeeded(ours), b"Untracked cache disabled\n");
    assert!(!has(b"UNTR"));
    let ours = packstone(&repo, &["-c", "core.fsmonitor=true", "update-index", "--no-fsmonitor", "--verbose"], "");
    assert!(said(&ours).1.starts_with("warning: core.fsmonitor is set; "));
    assert_eq!(succeeded(ours), b"fsmonitor disabled\n");
}
