//! Finding the repository: the cases of git-worktree, gitrepository-layout and git(1), "ENVIRONMENT VARIABLES".

use std::path::Path;
use std::process::Command;

use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, said, succeeded};

/// What packing `input` gives when run with the words and variables that `dress` adds, as ids.
fn ids(repo: &TestRepo, input: &str, dress: impl Fn(&mut Command)) -> Vec<String> {
    let mut command = repo.program(PROGRAM);
    dress(&mut command);
    let pack = succeeded(output(command.args(["pack-objects", "--revs", "--stdout", "-q"]), input.as_bytes()));
    repo.ids_of_stream(&pack).into_iter().collect()
}

fn failure(repo: &TestRepo, dress: impl Fn(&mut Command)) -> (Option<i32>, String) {
    let mut command = repo.program(PROGRAM);
    dress(&mut command);
    said(&output(command.args(["pack-objects", "--revs", "--stdout", "-q"]), b"HEAD\n"))
}

#[test]
fn ways_to_a_repository() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("a", b"a"), ("deep/down/b", b"b")], "a");
        let want = ids(&repo, "HEAD\n", |_| {});
        assert_eq!(want.len(), 6);
        let root = repo.path().to_owned();
        let elsewhere = repo.scratch();
        type Dress = Box<dyn Fn(&mut Command)>;
        let cases: Vec<Dress> = vec![
            Box::new({
                let dir = root.join("deep/down");
                move |command| _ = command.current_dir(&dir)
            }),
            Box::new({
                let dir = root.join(".git/refs");
                move |command| _ = command.current_dir(&dir)
            }),
            Box::new({
                let dir = elsewhere.clone();
                let root = root.clone();
                move |command| _ = command.current_dir(&dir).arg("-C").arg(&root)
            }),
            Box::new({
                let dir = elsewhere.clone();
                let root = root.clone();
                move |command| {
                    // `-C` counts from the one before; an empty one stays.
                    command.current_dir(&dir).arg("-C").arg(root.parent().unwrap()).args(["-C", "", "-C", "repo/deep"]);
                }
            }),
            Box::new({
                let dir = elsewhere.clone();
                let root = root.clone();
                move |command| _ = command.current_dir(&dir).env("GIT_DIR", root.join(".git"))
            }),
            Box::new({
                let dir = elsewhere.clone();
                move |command| _ = command.current_dir(&dir).args(["--git-dir", "../repo/.git"])
            }),
            Box::new({
                let dir = root.join(".git");
                move |command| _ = command.current_dir(&dir).arg("--bare")
            }),
            Box::new(move |command| _ = command.args(["--git-dir=.git", "--work-tree=deep", "--namespace=x"])),
        ];
        for (nr, case) in cases.iter().enumerate() {
            assert_eq!(ids(&repo, "HEAD\n", case), want, "case {nr}");
        }
        // A file `.git` that points to the directory.
        let pointing = elsewhere.join("pointing");
        std::fs::create_dir_all(pointing.join("sub")).unwrap();
        std::fs::write(pointing.join(".git"), "gitdir: ../../repo/.git\n").unwrap();
        assert_eq!(ids(&repo, "HEAD\n", |command| _ = command.current_dir(pointing.join("sub"))), want);
    }
}

#[test]
fn work_trees() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("a", b"a")], "a");
    let linked = repo.scratch().join("linked");
    repo.git(["worktree", "add", "-q", "-b", "topic", linked.to_str().unwrap()]);
    let in_linked = |command: &mut Command| _ = command.current_dir(&linked);
    let mut commit = repo.command();
    output(commit.current_dir(&linked).args(["commit", "-q", "--allow-empty", "-m", "on topic"]), b"");
    let mut staged = repo.command();
    std::fs::write(linked.join("staged"), "staged only").unwrap();
    output(staged.current_dir(&linked).args(["add", "staged"]), b"");

    assert_eq!(ids(&repo, "HEAD\n", in_linked).len(), 4);
    assert_eq!(ids(&repo, "HEAD\n", |_| {}).len(), 3);
    assert_eq!(ids(&repo, "HEAD\n^main\n", in_linked).len(), 1);
    // A detached commit that only the linked tree has is reached from everywhere by --all, and what is staged there
    // by --indexed-objects.
    let mut detach = repo.command();
    output(detach.current_dir(&linked).args(["checkout", "-q", "--detach"]), b"");
    let mut commit = repo.command();
    output(commit.current_dir(&linked).args(["commit", "-q", "-m", "detached"]), b"");
    std::fs::write(linked.join("staged"), "staged later").unwrap();
    let mut staged = repo.command();
    output(staged.current_dir(&linked).args(["add", "staged"]), b"");
    for options in
        [&["--all"][..], &["--all", "--indexed-objects"], &["--indexed-objects"], &["--reflog"], &["--all", "--reflog"]]
    {
        let words = [&["pack-objects", "--stdout", "-q"], options].concat();
        for dir in [repo.path(), &linked] {
            let mut ours = repo.program(PROGRAM);
            let ours = succeeded(output(ours.current_dir(dir).args(&words), b""));
            let mut git = repo.command();
            let git = output(git.current_dir(dir).args(&words), b"").stdout;
            assert_eq!(repo.ids_of_stream(&ours), repo.ids_of_stream(&git), "{options:?} in {dir:?}");
        }
    }
}

#[test]
fn no_repository() {
    let repo = TestRepo::init(Hash::Sha1);
    let nowhere = repo.scratch();
    let here = |command: &mut Command| _ = command.current_dir(&nowhere);
    let text = "fatal: not a git repository (or any of the parent directories): .git\n";
    assert_eq!(failure(&repo, here), (Some(128), text.to_owned()));
    assert_eq!(
        failure(&repo, |command| _ = command.args(["--git-dir", "missing"])),
        (Some(128), "fatal: not a git repository: 'missing'\n".to_owned())
    );
    std::fs::write(nowhere.join(".git"), "something else\n").unwrap();
    assert_eq!(failure(&repo, here), (Some(128), "fatal: invalid gitfile format: .git\n".to_owned()));
    std::fs::write(nowhere.join(".git"), "gitdir: away\n").unwrap();
    assert_eq!(failure(&repo, here), (Some(128), "fatal: not a git repository: away\n".to_owned()));
    // Help needs none.
    let mut command = repo.program(PROGRAM);
    assert_eq!(said(&output(command.current_dir(&nowhere).args(["pack-objects", "-h"]), b"")).0, Some(129));
}

#[test]
fn formats() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("a", b"a")], "a");
    let config = repo.git_dir().join("config");
    let original = std::fs::read_to_string(&config).unwrap();
    for (text, want) in [
        ("[core]\nrepositoryformatversion = 2\n", Some("Expected git repo version <= 1, found 2")),
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nnew = 1\nother\n",
            Some("unknown repository extensions found:\n\tnew\n\tother"),
        ),
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nnew = 1\n",
            Some("unknown repository extension found:\n\tnew"),
        ),
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = sha3\n",
            Some("invalid value for 'extensions.objectformat': 'sha3'"),
        ),
        (
            "[core]\nrepositoryformatversion = 0\n[extensions]\nobjectFormat = sha1\n",
            Some("repo version is 0, but v1-only extension found:\n\tobjectformat"),
        ),
        ("[core]\nrepositoryformatversion = 0\n[extensions]\nnew = 1\n", None),
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nnoop\nnoop-v1\npartialClone = origin\npreciousObjects\n",
            None,
        ),
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nrefStorage = reftable\n",
            Some("references stored as reftable are not supported yet; name objects by their full ids"),
        ),
    ] {
        std::fs::write(&config, format!("{original}{text}")).unwrap();
        let (code, said) = failure(&repo, |_| {});
        match want {
            Some(want) => assert_eq!((code, said), (Some(128), format!("fatal: {want}\n"))),
            None => assert_eq!((code, said.as_str()), (Some(0), ""), "{text}"),
        }
    }
    std::fs::write(&config, original).unwrap();
    let bare = TestRepo::bare(Hash::Sha1);
    assert_eq!(
        failure(&bare, |command| _ = command.args(["-c", "safe.bareRepository=explicit"])),
        (
            Some(128),
            format!(
                "fatal: cannot use bare repository '{}' (safe.bareRepository is 'explicit')\n",
                bare.path().display()
            )
        )
    );
}

#[test]
fn object_directories() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("a", b"a")], "a");
    let first = repo.git_str(["rev-parse", "HEAD"]);
    // A quarantine, as receive-pack makes one: new objects there, the others by alternates.
    let quarantine = repo.scratch().join("odd \"name\":with colon");
    std::fs::create_dir_all(&quarantine).unwrap();
    let objects = repo.objects_dir();
    let quoted = format!("\"{}\"", quarantine.display().to_string().replace('"', "\\\""));
    let mut commit = repo.command();
    commit.env("GIT_OBJECT_DIRECTORY", &quarantine).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects);
    let second = output(commit.args(["commit-tree", "-p", &first, "-m", "second", &format!("{first}^{{tree}}")]), b"");
    let second = String::from_utf8(second.stdout).unwrap();
    let input = format!("{second}^{first}\n");
    let mut command = repo.program(PROGRAM);
    let words = ["pack-objects", "--revs", "--stdout", "-q"];
    let plain = output(command.args(words), input.as_bytes());
    assert_eq!(said(&plain), (Some(128), format!("fatal: bad object {second}")));
    for (main, others) in
        [(quarantine.clone(), objects.display().to_string()), (objects.clone(), format!("/no/such:{quoted}"))]
    {
        let mut command = repo.program(PROGRAM);
        command.env("GIT_OBJECT_DIRECTORY", main).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", others);
        let pack = succeeded(output(command.args(words), input.as_bytes()));
        assert_eq!(pack[8..12], [0, 0, 0, 1]);
    }
}

/// Names of output files count from the root of the work tree, wherever the command was started.
#[test]
fn output_files() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("a", b"a"), ("deep/b", b"b")], "a");
        let mut command = repo.program(PROGRAM);
        let output =
            output(command.current_dir(repo.path().join("deep")).args(["pack-objects", "--all", "-q", "out"]), b"");
        let name = String::from_utf8(succeeded(output)).unwrap();
        let name = name.trim_end();
        let base = repo.path().join(format!("out-{name}"));
        for extension in ["pack", "idx", "rev"] {
            assert!(Path::new(&format!("{}.{extension}", base.display())).exists(), "{extension}");
        }
        repo.git(["verify-pack", &format!("{}.idx", base.display())]);
    }
}
