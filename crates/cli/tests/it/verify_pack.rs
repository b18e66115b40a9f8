//! `verify-pack` beside git's: what it lists, how packs may be named, and what damage costs.

use std::path::Path;

use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, said};

/// Exit code and standard output of both programs, git's first, for a directory that is no repository.
fn both(repo: &TestRepo, dir: &Path, words: &[&str]) -> [(Option<i32>, String); 2] {
    ["git", PROGRAM].map(|program| {
        let out = output(repo.program(program).current_dir(dir).arg("verify-pack").args(words), b"");
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    })
}

#[test]
fn the_same_lists() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.repack();
        let dir = repo.scratch().join(hash.name());
        std::fs::create_dir_all(&dir).unwrap();
        let format = format!("--object-format={}", hash.name());
        for (name, version) in [("one", "1"), ("two", "2"), ("wide", "2,0x40")] {
            let pack = dir.join(name).with_extension("pack");
            std::fs::copy(repo.only_pack(), &pack).unwrap();
            let version = format!("--index-version={version}");
            repo.git(["index-pack", &format, &version, pack.to_str().unwrap()]);
        }
        for words in [
            &["one"][..],
            &["one.idx", "two.pack", "wide"],
            &["-v", "one", "wide.idx"],
            &["-s", "two"],
            &["-v", "-s", "two"],
            &["--verbose", "--stat-only", "--no-stat-only", "two"],
            &["missing"],
            &["-v", "missing", "two"],
            &["-s", "missing"],
        ] {
            let [git, ours] = both(&repo, &dir, &[&[&format[..]], words].concat());
            assert_eq!(ours, git, "{words:?}");
        }
        // In the repository the hash is known.
        let path = repo.only_pack();
        let out = output(repo.program(PROGRAM).args(["verify-pack", "-v"]).arg(&path), b"");
        assert_eq!(out.stdout, repo.git(["verify-pack".as_ref(), "-v".as_ref(), path.as_os_str()]));
    }
}

#[test]
fn damage() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 5);
        repo.repack();
        let dir = repo.scratch();
        let format = format!("--object-format={}", hash.name());
        let (pack, idx) = (repo.only_pack(), repo.only_pack().with_extension("idx"));
        let (pack, idx) = (std::fs::read(pack).unwrap(), std::fs::read(idx).unwrap());
        let at = |file: &str| dir.join(file);
        for place in 0..pack.len() {
            let mut bad = pack.clone();
            bad[place] ^= 0x40;
            std::fs::write(at("a.pack"), &bad).unwrap();
            std::fs::write(at("a.idx"), &idx).unwrap();
            if place % 29 == 0 {
                let words = [&format[..], "-s", "a"];
                let [git, _] = both(&repo, &dir, &words);
                assert_eq!(git, (Some(1), "a.pack: bad\n".to_owned()));
                let out = output(repo.program(PROGRAM).current_dir(&dir).arg("verify-pack").args(words), b"");
                let (code, text) = said(&out);
                assert_eq!((code, &out.stdout[..]), (Some(1), &b"a.pack: bad\n"[..]), "{place}");
                assert!(text.starts_with("fatal: "), "{text}");
            }
        }
        std::fs::write(at("a.pack"), &pack).unwrap();
        for place in (0..idx.len()).step_by(131) {
            let mut bad = idx.clone();
            bad[place] ^= 0x40;
            std::fs::write(at("a.idx"), &bad).unwrap();
            let [git, ours] = both(&repo, &dir, &[&format, "a"]);
            assert_eq!((git.0, ours.0), (Some(1), Some(1)), "{place}");
        }
        std::fs::write(at("a.idx"), &idx).unwrap();
        for len in [0, 11, 12, 40, pack.len() - 1] {
            std::fs::write(at("a.pack"), &pack[..len]).unwrap();
            let [git, ours] = both(&repo, &dir, &[&format, "a"]);
            assert_eq!((git.0, ours.0), (Some(1), Some(1)), "{len}");
        }
        std::fs::write(at("a.pack"), [&pack[..], b"x"].concat()).unwrap();
        let [git, ours] = both(&repo, &dir, &[&format, "a"]);
        assert_eq!((git.0, ours.0), (Some(1), Some(1)));
    }
}

#[test]
fn wrong_command_lines() {
    let repo = TestRepo::bare(Hash::Sha1);
    for (words, code) in
        [(&[][..], 129), (&["-x", "a"], 129), (&["--nothing"], 129), (&["--object-format=foo", "a"], 1)]
    {
        let [git, ours] = both(&repo, repo.path(), words);
        assert_eq!((git.0, ours.0), (Some(code), Some(code)), "{words:?}");
    }
}
