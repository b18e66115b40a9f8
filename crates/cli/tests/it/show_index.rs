//! `show-index` beside git's.

use std::process::Output;

use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, said};

fn both(repo: &TestRepo, words: &[&str], index: &[u8]) -> (Output, Output) {
    let words = [&["show-index"], words].concat();
    (repo.try_git(&words, index), output(repo.program(PROGRAM).args(&words), index))
}

#[test]
fn both_versions() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        for version in ["1", "2", "2,0x40"] {
            let base = repo.scratch().join("pack");
            let version = format!("--index-version={version}");
            let args = ["pack-objects", "-q", "--all", &version, base.to_str().unwrap()];
            let name = String::from_utf8(repo.git(args)).unwrap();
            let index = std::fs::read(repo.scratch().join(format!("pack-{}.idx", name.trim_end()))).unwrap();
            let format = format!("--object-format={}", hash.name());
            for words in [&[][..], &[&format[..]]] {
                let (git, we) = both(&repo, words, &index);
                assert_eq!(said(&we), (Some(0), String::new()));
                assert!(we.stdout == git.stdout && we.stdout.len() > 10_000, "{version}");
            }
            // Cut anywhere, and with a fan-out table that promises much.
            let mut cuts: Vec<Vec<u8>> = [0, 4, 7, 8, 500, 1031, 1032, 1500, index.len() * 9 / 10]
                .iter()
                .map(|&len| index[..len].to_vec())
                .collect();
            let mut promising = index.clone();
            promising[1028..1032].fill(0xff);
            cuts.push(promising);
            let mut falling = index.clone();
            falling[500..504].fill(0xff);
            cuts.push(falling);
            for cut in cuts {
                let (git, we) = both(&repo, &[], &cut);
                assert_eq!(we.status.code(), git.status.code(), "{} bytes", cut.len());
                let text = said(&we).1;
                assert_eq!(text.starts_with("fatal: "), !git.status.success(), "{text}");
            }
            for file in std::fs::read_dir(repo.scratch()).unwrap() {
                std::fs::remove_file(file.unwrap().path()).unwrap();
            }
        }
    }
}

#[test]
fn without_a_repository() {
    let repo = TestRepo::rich(Hash::Sha1);
    repo.repack();
    let index = std::fs::read(repo.only_pack().with_extension("idx")).unwrap();
    let run =
        |words: &[&str]| output(repo.program(PROGRAM).current_dir("/").args([&["show-index"], words].concat()), &index);
    let (code, text) = said(&run(&[]));
    assert_eq!((code, &text[..]), (Some(0), "warning: assuming SHA-1; use --object-format to override\n"));
    assert_eq!(said(&run(&["--object-format=sha1"])), (Some(0), String::new()));
    assert_eq!(said(&run(&["--object-format=x"])), (Some(128), "fatal: Unknown hash algorithm\n".to_owned()));
    assert_eq!(said(&run(&["--object-format=sha256"])).0, Some(128));
}
