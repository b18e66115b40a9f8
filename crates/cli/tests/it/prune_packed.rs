//! `prune-packed` beside git's: the same files stay.

use std::collections::BTreeSet;
use std::path::Path;

use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, packstone, said, succeeded};

/// Everything below a directory.
fn files(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        found.insert(entry.display().to_string());
        if entry.is_dir() {
            found.extend(files(&entry));
        }
    }
    found
}

/// Loose objects of which some are packed here, some in an alternate, and some not.
fn mixed(hash: Hash) -> TestRepo {
    let repo = TestRepo::rich(hash);
    repo.repack_loose();
    for pack in repo.packs() {
        let bytes = std::fs::read(&pack).unwrap();
        std::fs::remove_file(&pack).unwrap();
        for ending in ["idx", "rev"] {
            let _ = std::fs::remove_file(pack.with_extension(ending));
        }
        repo.git_with(["unpack-objects", "-q"], &bytes);
    }
    let alternate = repo.scratch().join("alternate/objects");
    std::fs::create_dir_all(alternate.join("pack")).unwrap();
    let ids: Vec<String> = repo.all_objects().into_iter().collect();
    let pack = |dir: &Path, nth: usize| {
        let list: String = ids.iter().skip(nth).step_by(3).map(|id| format!("{id}\n")).collect();
        let base = dir.join("pack/pack");
        repo.git_with(["pack-objects", "-q", base.to_str().unwrap()], list.as_bytes());
    };
    pack(&repo.objects_dir(), 0);
    pack(&alternate, 1);
    std::fs::write(repo.objects_dir().join("info/alternates"), format!("{}\n", alternate.display())).unwrap();
    std::fs::write(repo.objects_dir().join("17").join("not-an-object"), b"").ok();
    repo
}

#[test]
fn as_git() {
    for hash in Hash::ALL {
        let repo = mixed(hash);
        let copy = repo.scratch().join("copy.git");
        let copied = output(std::process::Command::new("cp").arg("-a").arg(repo.git_dir()).arg(&copy), b"");
        assert!(copied.status.success());
        let lines = |bytes: Vec<u8>| {
            // git writes `./objects`.
            let text = String::from_utf8(bytes).unwrap().replace(" ./", " ");
            text.lines().map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let dry = lines(succeeded(packstone(&repo, &["prune-packed", "-n"], "")));
        assert!(dry.len() > 100);
        let git = lines(repo.git(["prune-packed", "--dry-run"]));
        assert_eq!(dry.symmetric_difference(&git).next(), None);

        let before = repo.all_objects();
        assert_eq!(said(&packstone(&repo, &["prune-packed", "-q"], "")), (Some(0), String::new()));
        repo.git(["--git-dir", copy.to_str().unwrap(), "prune-packed"]);
        let relative = |dir: &Path| -> BTreeSet<String> {
            let dir = dir.join("objects");
            let start = dir.display().to_string().len();
            files(&dir).into_iter().map(|path| path[start..].to_owned()).collect()
        };
        let (ours, git) = (relative(repo.git_dir()), relative(&copy));
        assert_eq!(ours, git);
        assert_eq!(repo.all_objects(), before);
        assert!(succeeded(packstone(&repo, &["prune-packed", "--dry-run"], "")).is_empty());
    }
}

#[test]
fn packs_that_do_not_count() {
    let repo = TestRepo::rich(Hash::Sha1);
    repo.repack_loose();
    let packs = repo.packs();
    let bytes = std::fs::read(&packs[0]).unwrap();
    let moved = repo.scratch().join("moved.pack");
    std::fs::rename(&packs[0], &moved).unwrap();
    let idx = repo.scratch().join("moved.idx");
    std::fs::rename(packs[0].with_extension("idx"), &idx).unwrap();
    repo.git_with(["unpack-objects", "-q"], &bytes);
    std::fs::rename(&idx, packs[0].with_extension("idx")).unwrap();
    // No pack beside the index, then a pack that is another.
    assert!(succeeded(packstone(&repo, &["prune-packed", "-n"], "")).is_empty());
    std::fs::write(&packs[0], b"PACK but not really one of that many bytes as to be one").unwrap();
    let output = packstone(&repo, &["prune-packed", "-n"], "");
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(said(&output).1.starts_with("warning: "));
    std::fs::remove_file(&packs[0]).unwrap();
    std::fs::rename(&moved, &packs[0]).unwrap();
    assert!(!succeeded(packstone(&repo, &["prune-packed", "-n"], "")).is_empty());
}

#[test]
fn wrong_words() {
    let repo = TestRepo::init(Hash::Sha1);
    let run = |words: &[&str]| {
        let words = [&["prune-packed"], words].concat();
        let text = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let git = said(&repo.try_git(&words, b""));
        let we = said(&output(repo.program(PROGRAM).args(&words), b""));
        assert_eq!((we.0, text(we.1)), (git.0, text(git.1)), "{words:?}");
    };
    run(&["operand"]);
    run(&["--wrong"]);
    run(&["-x"]);
    run(&[]);
}
