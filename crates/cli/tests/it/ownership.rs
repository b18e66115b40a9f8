//! Repositories of somebody else (cases S4), as git judges them.

use std::path::Path;
use std::process::Command;

use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, said};

/// Exit code and message of git and of ours for a harmless question asked in `dir`; they must be the same. The code.
#[track_caller]
fn asked(repo: &TestRepo, dir: &Path, config: &[String], dress: impl Fn(&mut Command)) -> Option<i32> {
    let run = |program: &str| {
        let mut command = repo.program(program);
        command.current_dir(dir);
        for value in config {
            command.arg("-c").arg(format!("safe.directory={value}"));
        }
        dress(&mut command);
        said(&output(command.args(["cat-file", "-e", "HEAD"]), b""))
    };
    let ours = run(PROGRAM);
    assert_eq!(ours, run("git"), "{} {config:?}", dir.display());
    assert!(ours.0 == Some(0) || ours.1.contains("detected dubious ownership"), "{}", ours.1);
    ours.0
}

/// As git's own tests pretend it.
fn assumed(command: &mut Command) {
    command.env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
}

#[test]
fn s4_declared_safe_or_refused() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("deep/a", b"a")], "a");
        let root = repo.path().canonicalize().unwrap();
        let bare = repo.scratch().join("bare.git");
        repo.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
        let work = repo.scratch().join("work");
        repo.git(["worktree", "add", "--quiet", work.to_str().unwrap()]);
        let places = [root.clone(), root.join("deep"), root.join(".git"), bare, work];
        let mut codes = Vec::new();
        for dir in &places {
            assert_eq!(asked(&repo, dir, &[], |_| {}), Some(0));
            let text = |path: &Path| path.to_str().unwrap().to_owned();
            let mut values: Vec<Vec<String>> = vec![
                vec![],
                vec!["*".into()],
                vec!["*".into(), String::new()],
                vec![String::new(), ".".into()],
                vec!["relative".into()],
                vec!["/*".into()],
                vec!["~/*".into()],
            ];
            for path in &places {
                for value in [text(path), text(path) + "/", text(path) + "/*", text(path.parent().unwrap()) + "/*"] {
                    values.push(vec![value.clone()]);
                    values.push(vec![value, String::new()]);
                }
            }
            codes.extend(values.iter().map(|config| asked(&repo, dir, config, assumed)));
            // What the user names is taken on their word.
            let named = |command: &mut Command| {
                assumed(command);
                command.env("GIT_DIR", root.join(".git"));
            };
            assert_eq!(asked(&repo, dir, &[], named), Some(0));
            // A repository cannot declare itself safe.
            repo.git(["config", "safe.directory", "*"]);
            assert_eq!(asked(&repo, dir, &[], assumed), Some(128));
            repo.git(["config", "--unset", "safe.directory"]);
        }
        assert!(codes.contains(&Some(0)) && codes.contains(&Some(128)));
    }
}

/// Files that really belong to others, which only root can make.
#[cfg(unix)]
#[test]
fn s4_the_owner_is_looked_at() {
    use std::os::unix::fs::lchown;
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("a", b"a")], "a");
    let (root, git_dir) = (repo.path(), repo.path().join(".git"));
    if lchown(&git_dir, Some(1234), None).is_err() {
        eprintln!("not run: giving files away takes root");
        return;
    }
    assert_eq!(asked(&repo, root, &[], |_| {}), Some(128));
    assert_eq!(asked(&repo, root, &[], |command| _ = command.env("SUDO_UID", "1234")), Some(0));
    assert_eq!(asked(&repo, root, &[], |command| _ = command.env("SUDO_UID", "1235")), Some(128));
    assert_eq!(asked(&repo, root, &[], |command| _ = command.env("SUDO_UID", "")), Some(128));
    assert_eq!(asked(&repo, root, &[root.to_str().unwrap().to_owned()], |_| {}), Some(0));
    lchown(&git_dir, Some(0), None).unwrap();
    assert_eq!(asked(&repo, root, &[], |_| {}), Some(0));
    lchown(root, Some(1234), None).unwrap();
    assert_eq!(asked(&repo, root, &[], |_| {}), Some(128));
    assert_eq!(asked(&repo, root, &[], |command| _ = command.env("GIT_DIR", &git_dir)), Some(0));
}
