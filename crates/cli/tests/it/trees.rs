//! `write-tree` and `read-tree` beside git's: the same words, exit codes and index files, to the byte.

use std::fs::{self, FileTimes};
use std::path::PathBuf;
use std::process::{Command, Output};

use testkit::repo::{Hash, TestRepo, output};

use crate::index::raw_index;
use crate::{PROGRAM, packstone, said, succeeded};

/// Where one of the two works: with an index and a place for new objects of its own.
struct Side<'r> {
    repo: &'r TestRepo,
    dir: PathBuf,
    program: Option<&'static str>,
}

impl Side<'_> {
    /// Runs the command on a copy of the repository's index.
    fn run(&self, words: &[&str]) -> (Output, Option<Vec<u8>>) {
        let _ = fs::remove_dir_all(&self.dir);
        fs::create_dir_all(self.dir.join("objects/pack")).unwrap();
        let index = self.dir.join("index");
        let from = self.repo.git_dir().join("index");
        if from.exists() {
            fs::copy(&from, &index).unwrap();
            // What is racy depends on it.
            let time = fs::metadata(&from).unwrap().modified().unwrap();
            let file = fs::File::options().append(true).open(&index).unwrap();
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
        }
        for shared in fs::read_dir(self.repo.git_dir()).unwrap().map(|entry| entry.unwrap().path()) {
            if let Some(name) = shared.file_name().filter(|name| name.to_string_lossy().starts_with("sharedindex.")) {
                fs::copy(&shared, self.dir.join(name)).unwrap();
            }
        }
        let output = output(self.command().args(words), b"");
        (output, fs::read(&index).ok())
    }

    fn command(&self) -> Command {
        let mut command = match self.program {
            Some(program) => self.repo.program(program),
            None => self.repo.command(),
        };
        command
            .env("GIT_INDEX_FILE", self.dir.join("index"))
            .env("GIT_OBJECT_DIRECTORY", self.dir.join("objects"))
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", self.repo.objects_dir());
        command
    }

    /// git's view of what we left.
    fn git(&self, words: &[&str]) -> Output {
        output(Side { program: None, dir: self.dir.clone(), ..*self }.command().args(words), b"")
    }
}

fn sides(repo: &TestRepo) -> (Side<'_>, Side<'_>) {
    let side = |name: &str, program| Side { repo, dir: repo.scratch().join(name), program };
    (side("git", None), side("ours", Some(PROGRAM)))
}

/// Both do the same, and the trees are there.
#[track_caller]
fn same(repo: &TestRepo, words: &[&str]) -> Output {
    let (git, ours) = sides(repo);
    let ((expected, left_by_git), (output, left)) = (git.run(words), ours.run(words));
    let shown = |output: &Output| {
        let (code, text) = said(output);
        let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with("hint: ")).collect();
        (String::from_utf8_lossy(&output.stdout).into_owned(), code, text)
    };
    assert_eq!(shown(&output), shown(&expected), "{words:?}");
    // A split index has more than one right form: git keeps replacements that are the same as what they replace.
    let split = git.git(&["rev-parse", "--shared-index-path"]).stdout.len() > 1;
    let listing: &[&str] = if split { &["ls-files", "--stage", "-v"] } else { &["ls-files", "--stage", "--debug"] };
    let listed = |side: &Side<'_>| String::from_utf8_lossy(&side.git(listing).stdout).into_owned();
    assert_eq!(listed(&ours), listed(&git), "{words:?}");
    assert!(split || left == left_by_git, "{words:?}: other index files");
    if words.contains(&"write-tree") && output.status.success() {
        let tree = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        let listing = |side: &Side<'_>| side.git(&["ls-tree", "-r", "-t", &tree]);
        assert_eq!(said(&listing(&ours)), (Some(0), String::new()));
        assert_eq!(listing(&ours).stdout, listing(&git).stdout, "{words:?}");
    }
    output
}

/// A few commits that differ in all ways: files and directories in each other's place, modes, links, submodules.
fn history(hash: Hash) -> TestRepo {
    let repo = TestRepo::init(hash);
    let id = "1".repeat(hash.hex_len());
    repo.commit_files(&[("a/b/c", b"1"), ("a/b.c", b"2"), ("a/d", b"3"), ("x", b"4"), ("z/z", b"5")], "one");
    repo.git(["rm", "-qr", "a/b"]);
    repo.commit_files(&[("a/b", b"file now"), ("x", b"44"), ("y/new", b"6")], "two");
    repo.git(["update-index", "--chmod=+x", "x"]);
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{id},module")]);
    std::os::unix::fs::symlink("x", repo.path().join("link")).unwrap();
    repo.git(["add", "link"]);
    repo.git(["commit", "-qm", "three"]);
    repo
}

#[test]
fn trees_are_written() {
    for hash in Hash::ALL {
        let repo = history(hash);
        let all: &[&[&str]] = &[
            &["write-tree"],
            &["write-tree", "--ignore-cache-tree"],
            &["write-tree", "--missing-ok"],
            &["write-tree", "--prefix=a/"],
            &["write-tree", "--prefix=a"],
            &["write-tree", "--prefix=y/new"],
            &["write-tree", "--prefix=nothing/"],
            &["write-tree", "--prefix="],
            &["write-tree", "operands", "are", "ignored"],
        ];
        let each = |repo: &TestRepo| all.iter().for_each(|words| _ = same(repo, words));
        each(&repo);
        for change in [
            &["add", "new"][..],
            &["update-index", "--index-version=4"],
            &["add", "-N", "intended", "deep/intended"],
            &["update-index", "--skip-worktree", "x"],
            &["-c", "core.untrackedCache=true", "status"],
            &["update-index", "--split-index"],
            &["rm", "-rq", "--cached", "a"],
            &["update-index", "--no-split-index"],
            &["-c", "index.skipHash=true", "update-index", "--force-write-index"],
            &["rm", "-rqf", "--cached", "."],
        ] {
            repo.write("new", change.join(" ").as_bytes());
            repo.write("intended", b"");
            repo.write("deep/intended", b"");
            repo.git(change);
            each(&repo);
        }
        fs::remove_file(repo.git_dir().join("index")).unwrap();
        each(&repo);
    }
}

/// An index whose trees are all known is not written again.
#[test]
fn known_trees_cost_nothing() {
    let repo = history(Hash::Sha1);
    packstone(&repo, &["write-tree"], "");
    let path = repo.git_dir().join("index");
    let written = || fs::metadata(&path).unwrap().modified().unwrap();
    let before = written();
    let tree = succeeded(packstone(&repo, &["write-tree"], ""));
    assert_eq!(written(), before);
    assert_eq!(tree, repo.git(["write-tree"]));
    let blob = repo.hash_object("blob", b"7");
    repo.git(["update-index", "--cacheinfo", &format!("100644,{blob},y/new")]);
    let before = fs::read(&path).unwrap();
    succeeded(packstone(&repo, &["write-tree"], ""));
    assert!(fs::read(&path).unwrap() != before, "the new trees are remembered");
}

#[test]
fn there_are_no_trees() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let id = repo.hash_object("blob", b"x");
        let missing = "1".repeat(hash.hex_len());
        let index = |entries: &[(&str, u32, &str, u16)]| {
            fs::write(repo.git_dir().join("index"), raw_index(hash, entries, b"")).unwrap();
        };
        let many: Vec<String> = (0..8).map(|nr| format!("file{nr}")).collect();
        let many: Vec<_> =
            many.iter().flat_map(|path| [1, 2].map(|stage| (path.as_str(), 0o100_644, &id[..], stage))).collect();
        let null = "0".repeat(hash.hex_len());
        let file = |path| (path, 0o100_644, &id[..], 0);
        for entries in [
            &many[..],
            &many[..3],
            &[file("a"), ("b/c", 0o100_755, &missing, 0)],
            &[file("a"), ("b", 0o100_644, &null, 0)],
            &[file("a"), file("a/b"), file("a/c")],
            &[("module", 0o160_000, &missing, 0)],
        ] {
            index(entries);
            same(&repo, &["write-tree"]);
            same(&repo, &["write-tree", "--missing-ok"]);
        }
        // Newer gits see this; older ones made such trees before.
        index(&[file("a"), file("a.b"), file("a/b"), file("a/c")]);
        let (code, text) = said(&packstone(&repo, &["write-tree"], ""));
        let expected = "You have both a and a/b\nfatal: git-write-tree: error building trees\n";
        assert_eq!((code, text.as_str()), (Some(128), expected));
        // git takes these; whoever checked the tree out would be in danger.
        for path in [".git/x", "../x", "a//b", "/abs"] {
            index(&[file(path)]);
            let (code, text) = said(&packstone(&repo, &["write-tree"], ""));
            assert_eq!(code, Some(128));
            assert!(text.starts_with(&format!("error: invalid path '{path}'")), "{text}");
            assert!(text.ends_with("fatal: git-write-tree: error building trees\n"), "{text}");
        }
    }
}

#[test]
fn locked() {
    let repo = history(Hash::Sha1);
    let lock = repo.git_dir().join("index.lock");
    fs::write(&lock, b"").unwrap();
    let before = fs::read(repo.git_dir().join("index")).unwrap();
    for words in [&["write-tree"][..], &["read-tree", "HEAD"], &["read-tree", "--empty"], &["read-tree", "-n", "HEAD"]]
    {
        let (code, text) = said(&packstone(&repo, words, ""));
        let git = said(&repo.try_git(words, b""));
        assert_eq!((code, text.lines().next()), (git.0, git.1.lines().next()), "{words:?}");
    }
    assert_eq!(fs::read(repo.git_dir().join("index")).unwrap(), before);
    assert!(lock.exists());
}

#[test]
fn trees_are_read() {
    for hash in Hash::ALL {
        let repo = history(hash);
        repo.git(["update-index", "--assume-unchanged", "a/d"]);
        repo.git(["update-index", "--skip-worktree", "x", "z/z"]);
        for change in
            [&[][..], &["update-index", "--index-version=4"], &["update-index", "--untracked-cache"], &["status"]]
        {
            if !change.is_empty() {
                repo.try_git(change, b"");
            }
            for tree in ["HEAD", "HEAD~1", "HEAD~2", "HEAD^{tree}", "HEAD:a"] {
                for options in [
                    "",
                    "-m",
                    "--reset",
                    "-m -i",
                    "--reset -i",
                    "-m -q",
                    "-n",
                    "-m -n",
                    "-v",
                    "-m -i --no-sparse-checkout",
                ] {
                    same(
                        &repo,
                        &["read-tree"].into_iter().chain(options.split_whitespace()).chain([tree]).collect::<Vec<_>>(),
                    );
                }
            }
            same(&repo, &["read-tree", "--empty"]);
            same(&repo, &["read-tree"]);
            same(&repo, &["-c", "index.version=4", "read-tree", "HEAD"]);
        }
        let tree = repo.rev_parse("HEAD~1^{tree}");
        same(&repo, &["read-tree", &tree]);
        same(&repo, &["read-tree", &tree[..12]]);
        same(&repo, &["read-tree", &repo.git_str(["hash-object", "-t", "tree", "/dev/null"])]);
        // Files that were changed: what would be lost is not.
        for path in ["x", "a/d", "y/new"] {
            repo.write(path, b"changed in the work tree");
            for options in ["-m", "--reset", "-m -i", "-q -m"] {
                let words = ["read-tree"].into_iter().chain(options.split_whitespace()).chain(["HEAD~1"]);
                same(&repo, &words.collect::<Vec<_>>());
            }
        }
        fs::remove_file(repo.path().join("y/new")).unwrap();
        same(&repo, &["read-tree", "-m", "HEAD~2"]);
    }
}

#[test]
fn into_a_directory() {
    for hash in Hash::ALL {
        let repo = history(hash);
        let (git, ours) = sides(&repo);
        for prefix in ["new/", "new", "a/deeper/", "new/a/b"] {
            for option in ["", "-i"] {
                let prefix = format!("--prefix={prefix}");
                let words: Vec<&str> =
                    ["read-tree", option, &prefix, "HEAD~1"].into_iter().filter(|word| !word.is_empty()).collect();
                for side in [&git, &ours] {
                    let (output, _) = side.run(&words);
                    assert_eq!(said(&output), (Some(0), String::new()), "{words:?}");
                }
                let listed = |side: &Side<'_>| side.git(&["ls-files", "--stage", "--debug"]).stdout;
                assert_eq!(listed(&ours), listed(&git), "{words:?}");
                let written = |side: &Side<'_>| side.git(&["write-tree"]).stdout;
                assert_eq!(written(&ours), written(&git), "{words:?}");
            }
        }
        same(&repo, &["read-tree", "--prefix=y/", "HEAD:y"]);
        for (prefix, words) in
            [("a/.git/", "invalid path 'a/.git/"), ("a//b/", "invalid path 'a//b/"), ("../", "invalid path '../")]
        {
            let (output, left) = ours.run(&["read-tree", &format!("--prefix={prefix}"), "HEAD"]);
            let (code, text) = said(&output);
            assert!(code == Some(128) && text.starts_with(&format!("error: {words}")), "{text}");
            assert_eq!(left, fs::read(repo.git_dir().join("index")).ok());
        }
        // git replaces the file without a word.
        let (output, _) = ours.run(&["read-tree", "--prefix=x/", "HEAD"]);
        assert_eq!(said(&output), (Some(128), "error: Entry 'x' overlaps with 'x'.  Cannot bind.\n".into()));
    }
}

#[test]
fn into_another_file() {
    for hash in Hash::ALL {
        let repo = history(hash);
        let (git, ours) = sides(&repo);
        for words in [
            &["read-tree", "--index-output=out", "HEAD~1"][..],
            &["read-tree", "--index-output=out", "-m", "-i", "HEAD~2"],
        ] {
            let mut written = Vec::new();
            for side in [&git, &ours] {
                let (output, left) = side.run(words);
                assert_eq!(said(&output), (Some(0), String::new()));
                assert_eq!(left, fs::read(repo.git_dir().join("index")).ok(), "the index stays");
                written.push(fs::read(repo.path().join("out")).unwrap());
                fs::remove_file(repo.path().join("out")).unwrap();
                assert!(!side.dir.join("index.lock").exists());
            }
            assert!(written[0] == written[1], "{words:?}");
        }
        let index = ours.dir.join("index");
        let (output, left) = ours.run(&["read-tree", &format!("--index-output={}", index.display()), "HEAD~1"]);
        assert_eq!(said(&output).0, Some(0));
        assert_eq!(left, git.run(&["read-tree", "HEAD~1"]).1);
    }
}

#[test]
fn conflicts_and_sparse_checkouts() {
    for hash in Hash::ALL {
        let repo = history(hash);
        let id = repo.hash_object("blob", b"x");
        let info: String = [1, 2, 3].map(|stage| format!("100644 {id} {stage}\tconflict\n")).concat();
        repo.git_with(["update-index", "--index-info"], info.as_bytes());
        for words in [&["-m"][..], &["--prefix=new/"], &["--reset"], &["--reset", "-i"], &[]] {
            same(&repo, &[&["read-tree"][..], words, &["HEAD"]].concat());
        }
        repo.git(["reset", "-q", "--hard"]);
        repo.git(["sparse-checkout", "set", "--cone", "--sparse-index", "a"]);
        let (git, ours) = sides(&repo);
        for words in [
            &["-m", "HEAD"][..],
            &["-m", "HEAD~1"],
            &["--reset", "HEAD~2"],
            &["-m", "-i", "HEAD~1"],
            &["-m", "--no-sparse-checkout", "HEAD"],
        ] {
            let words = [&["read-tree"], words].concat();
            for side in [&git, &ours] {
                assert_eq!(side.run(&words).0.status.code(), Some(0), "{words:?}");
            }
            for listing in [
                &["ls-files", "--sparse", "-t", "-s"][..],
                &["ls-files", "--debug"],
                &["write-tree"],
                &["status", "--short"],
            ] {
                let listed = |side: &Side<'_>| String::from_utf8_lossy(&side.git(listing).stdout).into_owned();
                assert_eq!(listed(&ours), listed(&git), "{words:?} {listing:?}");
            }
        }
        same(&repo, &["write-tree"]);
        same(&repo, &["write-tree", "--ignore-cache-tree"]);
        same(&repo, &["write-tree", "--prefix=y"]);
    }
}

#[test]
fn wrong_command_lines() {
    let repo = history(Hash::Sha1);
    for words in [
        &["-m"][..],
        &["-m", "--reset", "HEAD"],
        &["-m", "--prefix=x/", "HEAD"],
        &["--prefix=/x", "HEAD"],
        &["nonsense"],
        &["HEAD:x"],
        &["HEAD", "--empty"],
        &["-i", "HEAD"],
        &["-u", "HEAD"],
        &["-u", "-i", "-m", "HEAD"],
        &["1111111111111111111111111111111111111111"],
    ] {
        same(&repo, &[&["read-tree"], words].concat());
    }
    for (words, first) in [
        ("read-tree -m -u HEAD", "error: switch `u' is not supported yet"),
        ("read-tree HEAD HEAD~1", "error: more than one tree is not supported yet"),
        ("read-tree -m HEAD HEAD~1 HEAD", "error: more than one tree is not supported yet"),
        ("read-tree --trivial -m HEAD", "error: option `trivial' is not supported yet"),
        ("read-tree --aggressive -m HEAD", "error: option `aggressive' is not supported yet"),
        ("read-tree --debug-unpack -m HEAD", "error: option `debug-unpack' is not supported yet"),
        ("read-tree --recurse-submodules HEAD", "error: option `recurse-submodules' is not supported yet"),
        (
            "read-tree --exclude-per-directory=.gitignore HEAD",
            "error: option `exclude-per-directory' is not supported yet",
        ),
        ("read-tree --nonsense", "error: unknown option `nonsense'"),
        ("write-tree --nonsense", "error: unknown option `nonsense'"),
        ("write-tree --prefix", "error: option `prefix' requires a value"),
    ] {
        let before = fs::read(repo.git_dir().join("index")).unwrap();
        let (code, text) = said(&packstone(&repo, &words.split(' ').collect::<Vec<_>>(), ""));
        assert_eq!((code, text.lines().next()), (Some(129), Some(first)), "{words}");
        assert_eq!(fs::read(repo.git_dir().join("index")).unwrap(), before);
        assert!(!repo.git_dir().join("index.lock").exists());
    }
    let bare = TestRepo::bare(Hash::Sha1);
    let tree = bare.hash_object("tree", b"");
    for words in
        [&["read-tree", "-m", &tree][..], &["read-tree", "--prefix=a/", &tree], &["read-tree", &tree], &["write-tree"]]
    {
        same(&bare, words);
    }
}
