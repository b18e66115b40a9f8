//! `uploadpack.packObjectsHook`: real clones and fetches, served by git with us behind it.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::repo::{Hash, TestRepo, output, run};

use crate::{PROGRAM, packstone, said, succeeded};

/// A user's configuration with the hook in it; the hook notes each call.
struct Server {
    config: PathBuf,
    calls: PathBuf,
    scratch: PathBuf,
}

impl Server {
    fn new(repo: &TestRepo) -> Server {
        let scratch = repo.scratch();
        let (config, calls, hook) = (scratch.join("gitconfig"), scratch.join("calls"), scratch.join("hook"));
        // A script, so that the test can prove who answered.
        let script = format!("#!/bin/sh\necho \"$@\" >>'{}'\nexec '{PROGRAM}' hook \"$@\"\n", calls.display());
        std::fs::write(&hook, script).unwrap();
        let text = format!(
            "[uploadpack]\n\tpackObjectsHook = sh {}\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n\
             [safe]\n\tdirectory = *\n[protocol]\n\tversion = 2\n[advice]\n\tdetachedHead = false\n",
            hook.display()
        );
        std::fs::write(&config, text).unwrap();
        Server { config, calls, scratch }
    }

    fn git(&self, repo: &TestRepo, words: &[&str]) -> Vec<u8> {
        run(self.dress(&mut repo.command()).args(words), b"").stdout
    }

    fn dress<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("GIT_CONFIG_GLOBAL", &self.config).current_dir(&self.scratch)
    }

    /// The calls since the last time this was asked.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.calls).unwrap_or_default();
        std::fs::write(&self.calls, "").unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

#[test]
fn clones_and_fetches() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        // A submodule's commit is nowhere to be found, which --strict does not mind.
        repo.repack_with_bitmap();
        let server = Server::new(&repo);
        let url = url(repo.path());
        let cases: &[(&str, &[&str])] = &[
            ("full", &[]),
            ("bare", &["--bare"]),
            ("mirror", &["--mirror"]),
            ("single", &["--single-branch", "--no-tags", "--bare", "--branch=side"]),
            ("shallow", &["--depth=2", "--no-single-branch"]),
            ("blobless", &["--filter=blob:none", "--bare"]),
            ("treeless", &["--filter=tree:0", "--bare"]),
            ("limited", &["--filter=blob:limit=1k", "--bare"]),
        ];
        for (name, options) in cases {
            let words = [&["clone", "-q"], *options, &[&url, name]].concat();
            server.git(&repo, &words);
            server.git(&repo, &["-C", name, "fsck", "--full", "--strict"]);
            let calls = server.calls();
            assert!(!calls.is_empty(), "{name}: the hook was not called");
            assert!(calls.iter().all(|call| call.starts_with("git ") && call.contains("pack-objects")), "{calls:?}");
            if *name == "shallow" {
                assert!(calls[0].starts_with("git --shallow-file "), "{calls:?}");
            }
        }
        let list = |dir: &str, revision: &str| {
            let words = ["-C", dir, "rev-list", "--objects", "--no-object-names", revision];
            let mut lines: Vec<String> =
                String::from_utf8(server.git(&repo, &words)).unwrap().lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let want: Vec<String> = repo.rev_list_objects(&["side"]).into_iter().collect();
        assert_eq!(list("single", "side"), want);

        // Deeper, and then all of it.
        server.git(&repo, &["-C", "shallow", "fetch", "-q", "--deepen=3"]);
        server.git(&repo, &["-C", "shallow", "fsck", "--full", "--strict"]);
        server.git(&repo, &["-C", "shallow", "fetch", "-q", "--unshallow"]);
        server.git(&repo, &["-C", "shallow", "fsck", "--full", "--strict"]);
        assert_eq!(server.calls().len(), 2);
        assert_eq!(list("shallow", "origin/main"), repo.rev_list_objects(&["main"]).into_iter().collect::<Vec<_>>());

        // News after the bitmap was written, as a thin pack, with a tag that comes along.
        let tree = repo.rev_parse("main~3^{tree}");
        let new = repo.git_str(["commit-tree", "-p", "main", "-p", "side", "-m", "news", &tree]);
        repo.git(["update-ref", "refs/heads/main", &new]);
        repo.annotated_tag("v3", "main");
        server.git(&repo, &["-C", "full", "fetch", "-q"]);
        let calls = server.calls();
        assert!(calls.len() == 1 && calls[0].contains("--thin") && calls[0].contains("--include-tag"), "{calls:?}");
        server.git(&repo, &["-C", "full", "fsck", "--full", "--strict"]);
        assert_eq!(list("full", "v3"), repo.rev_list_objects(&["v3"]).into_iter().collect::<Vec<_>>());
    }
}

/// From a shallow repository, too, where no bitmap may be used.
#[test]
fn from_a_shallow_repository() {
    let repo = TestRepo::linear(Hash::Sha1, 12);
    let server = Server::new(&repo);
    server.git(&repo, &["clone", "-q", "--bare", "--depth=4", &url(repo.path()), "cut"]);
    server.git(&repo, &["clone", "-q", "--bare", &url(&server.scratch.join("cut")), "copy"]);
    server.git(&repo, &["-C", "copy", "fsck", "--full", "--strict"]);
    assert_eq!(server.git(&repo, &["-C", "copy", "rev-list", "--count", "main"]), b"4\n");
    assert_eq!(server.calls().len(), 2);
}

#[test]
fn progress_reaches_the_client() {
    let repo = TestRepo::linear(Hash::Sha1, 5);
    let server = Server::new(&repo);
    let mut command = repo.command();
    let words = ["clone", "--progress", "--bare", &url(repo.path()), "copy"];
    let (code, text) = said(&output(server.dress(&mut command).args(words), b""));
    assert_eq!(code, Some(0));
    for part in ["remote: Enumerating objects: ", "remote: Counting objects: 100% (", "remote: Total "] {
        assert!(text.contains(part), "{part}: {text:?}");
    }
}

#[test]
fn forms() {
    let repo = TestRepo::linear(Hash::Sha1, 3);
    let direct = succeeded(packstone(&repo, &["pack-objects", "--revs", "--stdout", "-q"], "main\n"));
    for program in ["git", "/usr/lib/git-core/git", "git.exe"] {
        let words = ["hook", program, "--shallow-file", "", "-c", "a.b=c", "pack-objects", "--revs", "--stdout", "-q"];
        assert_eq!(succeeded(packstone(&repo, &words, "main\n")), direct, "{program}");
    }
    for (words, want) in [
        (&["hook"][..], "error: the command that git would run is missing"),
        (&["hook", "git"], "error: the command that git would run is missing"),
        (&["hook", "rm", "-rf"], "error: expected git's own command line, found 'rm'"),
        (&["hook", "git", "gc"], "error: 'gc' is not what this hook is for"),
    ] {
        let (code, text) = said(&packstone(&repo, words, ""));
        assert_eq!((code, text.lines().next()), (Some(129), Some(want)), "{words:?}");
    }
    // What the hook refuses, the client hears of.
    let (code, text) = said(&packstone(&repo, &["hook", "git", "pack-objects", "--stdout", "--uri-protocol=x"], ""));
    assert_eq!((code, text.as_str()), (Some(129), "error: option `uri-protocol' is not supported yet\n"));
}
