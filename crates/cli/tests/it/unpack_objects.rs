//! `unpack-objects` beside git's: the same objects, exit codes and words; hostile packs.

use std::collections::BTreeSet;

use testkit::pack::{Entry, Op, PackBuilder, delta, hex, object_id};
use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, packstone, said, succeeded};

/// Runs our program in the repository with bytes for input.
fn ours(repo: &TestRepo, words: &[&str], input: &[u8]) -> std::process::Output {
    output(repo.program(PROGRAM).args(["unpack-objects"]).args(words), input)
}

/// Every file below the objects' directory.
fn files(repo: &TestRepo) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![repo.objects_dir()];
    while let Some(dir) = dirs.pop() {
        for entry in dir.read_dir().unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => drop(found.insert(path.strip_prefix(repo.objects_dir()).unwrap().display().to_string())),
            }
        }
    }
    found
}

#[test]
fn the_same_as_git() {
    for hash in Hash::ALL {
        let source = TestRepo::rich(hash);
        source.repack();
        let base = source.pack_objects(&["--revs"], "main~12\n");
        let thin = source.pack_objects(&["--revs", "--thin", "--delta-base-offset"], "main\n^main~12\n");
        for words in [
            &[][..],
            &["-q"],
            &["-n"],
            &["-r", "-q"],
            &["-q", "--max-input-size=100000000", "--threads=3", "--memory=1"],
        ] {
            let (git, us) = (TestRepo::bare(hash), TestRepo::bare(hash));
            let of_git: Vec<&str> =
                words.iter().copied().filter(|word| !word.contains("threads") && !word.contains("memory")).collect();
            for pack in [&base, &thin] {
                let theirs = git.try_git([&["unpack-objects"], &of_git[..]].concat(), pack);
                let mine = ours(&us, words, pack);
                assert_eq!(
                    (mine.status.code(), &mine.stdout, &mine.stderr),
                    (theirs.status.code(), &theirs.stdout, &theirs.stderr)
                );
                assert_eq!(files(&us), files(&git), "{words:?}");
            }
            if words != ["-n"] {
                us.git(["fsck", "--full", "--strict", "--no-dangling"]);
            }
        }
    }
}

#[test]
fn what_follows_the_pack_is_passed_on_and_a_head_may_be_missing() {
    for hash in Hash::ALL {
        let source = TestRepo::linear(hash, 2);
        let pack = source.pack_objects(&["--all"], "");
        let repo = TestRepo::bare(hash);
        let out = ours(&repo, &["-q"], &[&pack[..], b"what follows"].concat());
        assert_eq!(succeeded(out), b"what follows");
        let want = files(&repo);
        let repo = TestRepo::bare(hash);
        let count = u32::from_be_bytes(pack[8..12].try_into().unwrap());
        succeeded(ours(&repo, &["-q", &format!("--pack_header=2,{count}")], &pack[12..]));
        assert_eq!(files(&repo), want);
    }
}

#[test]
fn wrong_command_lines_and_packs() {
    let repo = TestRepo::bare(Hash::Sha1);
    let pack = PackBuilder::new(Hash::Sha1).entry(Entry::full("blob", b"x")).build();
    for words in [&["x"][..], &["--nothing"], &["-x"]] {
        assert_eq!(said(&ours(&repo, words, b"")).0, Some(129), "{words:?}");
    }
    for (words, input, want) in [
        (&["--pack_header=2,9x"][..], &b""[..], "fatal: bad --pack_header: 2,9x"),
        (&["-q"], b"", "fatal: early EOF"),
        (&["-q"], b"PACK", "fatal: early EOF"),
        (&["-q"], b"abcdefghijklmnopqrstuvwxyz", "fatal: bad pack file"),
        (&["-q"], b"PACK\0\0\0\x05\0\0\0\0", "fatal: unknown pack file version 5"),
        (&["-q", "--max-input-size=10"], &pack.bytes, "fatal: pack exceeds maximum allowed size"),
        (&["-q"], &pack.bytes[..pack.bytes.len() - 1], "fatal: early EOF"),
        (&["-q", "-r"], &pack.bytes[..pack.bytes.len() - 1], "fatal: early EOF"),
    ] {
        let (code, text) = said(&ours(&repo, words, input));
        assert_eq!((code, text.trim_end()), (Some(128), want));
        let (code, text) = said(&repo.try_git([&["unpack-objects"], words].concat(), input));
        // Older ones write an equals sign here.
        assert_eq!((code, text.trim_end().replace("header=", "header: ")), (Some(128), want.to_owned()), "git");
    }
    let outside = TestRepo::bare(Hash::Sha1);
    let mut command = outside.program(PROGRAM);
    command.current_dir(outside.scratch()).args(["unpack-objects"]);
    let (code, text) = said(&output(&mut command, &pack.bytes));
    assert_eq!(code, Some(128));
    assert!(text.starts_with("fatal: not a git repository"), "{text}");
}

const TEXT: &[u8] = b"abcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefgh";

#[test]
fn hostile_packs() {
    for hash in Hash::ALL {
        let missing = vec![7; hash.len()];
        let zeros = vec![0; 65_536];
        let bomb = delta(65_536, 1 << 40, &[Op::Raw(&[0x80; 4])]);
        let cases: Vec<(Entry, &str)> = vec![
            (Entry::full("blob", TEXT).kind(5), "invalid entry type 5"),
            (Entry::full("blob", TEXT).size(63), "holds more than"),
            (Entry::full("blob", TEXT).size(65), "holds less than"),
            (Entry::full("blob", TEXT).size((1 << 32) + 64), "holds less than"),
            (Entry::full("commit", TEXT).size(1 << 40), "holds less than"),
            (Entry::ofs_to(0, &bomb), "failed to apply delta"),
            (Entry::ofs_to(0, &delta((1 << 32) + 65_536, 1, &[Op::Copy(0, 1)])), "failed to apply delta"),
            (Entry::ofs(3, &delta(1, 1, &[Op::Copy(0, 1)])), "no entry begins at"),
            (Entry::ofs(1 << 40, &delta(1, 1, &[Op::Copy(0, 1)])), "is not in the pack"),
            (Entry::reference(&missing, &delta(1, 1, &[Op::Copy(0, 1)])), "unresolved deltas left after unpacking"),
        ];
        for (entry, words) in cases {
            let pack = PackBuilder::new(hash).entry(Entry::full("blob", &zeros)).entry(entry).build();
            for option in ["-q", "-r"] {
                let repo = TestRepo::bare(hash);
                let (code, text) = said(&ours(&repo, &[option], &pack.bytes));
                let at = format!("offset {}", pack.entries[1].offset);
                assert!(text.contains(&at), "{text}");
                if option == "-q" {
                    assert_eq!(code, Some(128));
                    assert!(text.contains(words), "{text}");
                } else {
                    assert!(matches!(code, Some(1 | 128)), "{text}");
                    assert!(files(&repo).contains(&path(&object_id(hash, "blob", &zeros))));
                }
                assert!(!files(&repo).iter().any(|file| file.contains("tmp_")));
            }
        }
    }
}

fn path(id: &[u8]) -> String {
    let hex = hex(id);
    format!("{}/{}", &hex[..2], &hex[2..])
}

/// As git, unpack-objects believes that a file of the right name is the object; what comes in a pack is not compared.
#[test]
fn a_damaged_copy_stays() {
    let hash = Hash::Sha1;
    let repo = TestRepo::bare(hash);
    let id = repo.hash_object("blob", TEXT);
    let file = repo.objects_dir().join(&id[..2]).join(&id[2..]);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, b"").unwrap();
    let pack = PackBuilder::new(hash).entry(Entry::full("blob", TEXT)).build();
    for program in ["git", "ours"] {
        match program {
            "git" => drop(repo.git_with(["unpack-objects", "-q"], &pack.bytes)),
            _ => drop(succeeded(ours(&repo, &["-q"], &pack.bytes))),
        }
        assert_eq!(file.metadata().unwrap().len(), 0, "{program}");
    }
}

#[test]
fn settings() {
    let repo = TestRepo::bare(Hash::Sha1);
    for (setting, want) in [
        ("pack.threads=-1", "fatal: invalid number of threads specified (-1)"),
        ("packstone.memory=x", "fatal: bad numeric config value 'x' for 'packstone.memory': invalid unit"),
        ("core.loosecompression=11", "fatal: bad zlib compression level 11"),
    ] {
        let (code, text) = said(&packstone(&repo, &["-c", setting, "unpack-objects"], ""));
        assert_eq!((code, text.lines().next()), (Some(128), Some(want)));
    }
}
