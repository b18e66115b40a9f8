//! `packstone multi-pack-index` beside git's.

use std::fs;
use std::path::{Path, PathBuf};

use testkit::pack::{Entry, PackBuilder, resign};
use testkit::{Hash, TestRepo};

use crate::{packstone, said, succeeded};

/// A bare repository of four packs that share objects.
fn packed(hash: Hash) -> TestRepo {
    let repo = TestRepo::linear(hash, 12);
    let base = repo.objects_dir().join("pack/pack-T");
    for range in ["main~6", "main\n^main~8", "main~2\n^main~5", "main"] {
        repo.git_with(["pack-objects", "-q", "--revs", base.to_str().unwrap()], range.as_bytes());
    }
    for path in repo.packs().iter().filter(|path| !path.to_string_lossy().contains("pack-T")) {
        fs::remove_file(path.with_extension("idx")).unwrap();
        fs::remove_file(path).unwrap();
    }
    repo.git(["prune-packed"]);
    repo
}

fn root(repo: &TestRepo) -> PathBuf {
    repo.objects_dir().join("pack/multi-pack-index")
}

fn name(path: &Path, extension: &str) -> String {
    path.with_extension(extension).file_name().unwrap().to_str().unwrap().to_owned()
}

/// What git says and how it ends, and what we do.
fn both(repo: &TestRepo, words: &[&str], input: &str) -> [(Option<i32>, String); 2] {
    let words: Vec<&str> = ["multi-pack-index"].iter().chain(words).copied().collect();
    [said(&repo.try_git(&words, input.as_bytes())), said(&packstone(repo, &words, input))]
}

#[track_caller]
fn same(repo: &TestRepo, words: &[&str], input: &str) -> (Option<i32>, String) {
    let [mut git, ours] = both(repo, words, input);
    // Where git's work ends in an error without dying it exits with 1 or 255, depending on its version; 255 is today's.
    if git.0 == Some(1) && git.1.contains("error: ") {
        git.0 = Some(255);
    }
    assert_eq!(ours, git, "{words:?}");
    ours
}

#[test]
fn write_writes_gits_bytes() {
    for hash in Hash::ALL {
        let repo = packed(hash);
        let packs = repo.packs();
        let preferred = format!("--preferred-pack={}", name(&packs[2], "pack"));
        let list: String = packs[1..].iter().map(|path| format!("{}\n", name(path, "idx"))).collect();
        let crlf = list.replace('\n', "\r\n");
        let cases: [(&[&str], &str); 5] = [
            (&["write"], ""),
            (&["write", "--no-progress", &preferred], ""),
            (&["write", "--stdin-packs"], &list),
            (&["write", "--stdin-packs", &preferred], &crlf),
            (&["write", "--no-bitmap", "--refs-snapshot=/nowhere", "--object-dir=objects"], ""),
        ];
        for (words, input) in cases {
            let words: Vec<&str> = ["multi-pack-index"].iter().chain(words).copied().collect();
            let _ = fs::remove_file(root(&repo));
            repo.git_with(&words, input.as_bytes());
            let theirs = fs::read(root(&repo)).unwrap();
            fs::remove_file(root(&repo)).unwrap();
            assert!(succeeded(packstone(&repo, &words, input)).is_empty());
            assert!(fs::read(root(&repo)).unwrap() == theirs, "{words:?}");
            // What is there already is left alone.
            let before = fs::metadata(root(&repo)).unwrap().modified().unwrap();
            succeeded(packstone(&repo, &words, input));
            assert_eq!(fs::metadata(root(&repo)).unwrap().modified().unwrap(), before);
        }
    }
}

#[test]
fn version_2_is_written_when_asked_for() {
    for hash in Hash::ALL {
        let repo = packed(hash);
        succeeded(packstone(&repo, &["-c", "midx.version=2", "multi-pack-index", "write"], ""));
        assert_eq!(fs::read(root(&repo)).unwrap()[4], 2);
        succeeded(packstone(&repo, &["multi-pack-index", "verify"], ""));
        succeeded(packstone(&repo, &["-c", "midx.version=1", "multi-pack-index", "write"], ""));
        assert_eq!(fs::read(root(&repo)).unwrap()[4], 1);
        let (code, text) = said(&packstone(&repo, &["-c", "midx.version=3", "multi-pack-index", "write"], ""));
        assert_eq!((code, text.as_str()), (Some(128), "fatal: unknown MIDX version: 3\n"));
    }
}

#[test]
fn failures_are_gits() {
    for hash in Hash::ALL {
        let empty = TestRepo::init(hash);
        assert_eq!(same(&empty, &["write"], ""), (Some(255), "error: no pack files to index.\n".into()));
        same(&empty, &["write", "--stdin-packs", "--preferred-pack=none"], "");
        same(&empty, &["verify"], "");
        same(&empty, &["expire"], "");
        same(&empty, &["repack"], "");
        let (code, text) = said(&packstone(&empty, &["multi-pack-index", "write", "--object-dir=nowhere"], ""));
        assert_eq!(code, Some(128));
        assert!(text.starts_with("fatal: Invalid path 'nowhere': "), "{text}");
        assert!(!root(&empty).exists());

        let repo = packed(hash);
        let hollow = PackBuilder::new(hash).build();
        let path = hollow.write(&repo.objects_dir(), &hollow.idx(&[]));
        let preferred = format!("--preferred-pack={}", name(&path, "idx"));
        let (code, text) = said(&packstone(&repo, &["multi-pack-index", "write", &preferred], ""));
        assert_eq!(code, Some(255));
        assert!(
            text.starts_with("error: cannot select preferred pack ") && text.ends_with(" with no objects\n"),
            "{text}"
        );

        repo.git(["multi-pack-index", "write"]);
        let packs = repo.packs();
        let saved = fs::read(&packs[0]).unwrap();
        fs::remove_file(&packs[0]).unwrap();
        // Git before 2.54 is content with the names.
        let lost = said(&packstone(&repo, &["multi-pack-index", "write"], ""));
        assert_eq!(lost, (Some(255), "error: could not load pack 0\n".into()));
        fs::write(&packs[0], saved).unwrap();

        let lock = root(&repo).with_extension("lock");
        fs::write(&lock, b"").unwrap();
        let input = format!("{}\n", name(&packs[0], "idx"));
        let [git, ours] = both(&repo, &["write", "--stdin-packs"], &input);
        assert_eq!(ours.0, git.0);
        let head = |text: &str| text.lines().next().unwrap().rsplit_once("multi-pack-index.lock").unwrap().1.to_owned();
        assert_eq!(head(&ours.1), head(&git.1));
    }
}

#[test]
fn what_verify_finds_is_what_git_finds() {
    for hash in Hash::ALL {
        let repo = packed(hash);
        repo.git(["multi-pack-index", "write"]);
        let good = fs::read(root(&repo)).unwrap();
        assert_eq!(same(&repo, &["verify"], ""), (Some(0), String::new()));
        let chunk = |nr: usize| u64::from_be_bytes(good[16 + nr * 12..24 + nr * 12].try_into().unwrap()) as usize;
        let (names, fanout, ids, offsets) = (chunk(0), chunk(1), chunk(2), chunk(3));
        let h = hash.len();
        let end = good.len() - h;
        // Offset, byte, whether the checksum is made right, and whether git 2.47 says the same word for word.
        let cases = [
            ("signature", 0, 0, true, true),
            ("version", 4, 0, true, true),
            ("hash", 5, 3, true, true),
            ("fewer chunks", 6, 1, true, true),
            ("more chunks", 6, 7, true, true),
            ("no pack names", 12, 1, true, true),
            ("no fan-out", 24, 1, true, true),
            ("no ids", 36, 1, true, true),
            ("no offsets", 48, 1, true, true),
            ("chunk offset", 16, 1, true, true),
            ("chunk alignment", 23, 0x49, true, true),
            ("chunk twice", 36 + 3, b'F', true, true),
            ("name of no pack", names + 2, b'a', true, false),
            ("names out of order", names + 7, b'~', true, true),
            ("fan-out", fanout + 250 * 4 + 2, 0xff, true, true),
            ("order", ids + 16 * h, 0, true, false),
            ("pack number", offsets + 16 * 8 + 2, 7, true, false),
            ("offset", offsets + 16 * 8 + 6, 0xff, true, true),
            ("offset, unsigned", offsets + 16 * 8 + 6, 0xff, false, true),
            ("checksum", end + 3, !good[end + 3], false, true),
        ];
        for (what, at, byte, sign, word_for_word) in cases {
            let mut bytes = good.clone();
            bytes[at] = byte;
            if sign {
                resign(hash, &mut bytes);
            }
            fs::write(root(&repo), &bytes).unwrap();
            let [git, ours] = both(&repo, &["verify"], "");
            assert_eq!(ours.0, git.0, "{what}: {} and {}", ours.1, git.1);
            assert_ne!(ours.0, Some(0), "{what}");
            if word_for_word {
                // The one path in it is relative to git's folder.
                let dir = format!("{}/", repo.git_dir().display());
                assert_eq!(ours.1.replace(&dir, ""), git.1.replace(&dir, "").replace("./", ""), "{what}");
            } else {
                let first =
                    |text: &str| text.lines().next().unwrap_or_default().trim_start_matches("fatal: ").to_owned();
                assert!(first(&ours.1).starts_with(&first(&git.1)), "{what}: {} and {}", ours.1, git.1);
            }
        }
        for len in [0, 11, 12 + h] {
            fs::write(root(&repo), &good[..len]).unwrap();
            let [git, ours] = both(&repo, &["verify"], "");
            assert_eq!(ours.0, git.0, "{len}: {}", ours.1);
        }
        fs::write(root(&repo), &good).unwrap();
        // Damage does not stop writing.
        fs::write(root(&repo), b"MIDY, and nothing that could be used").unwrap();
        let (code, text) = said(&packstone(&repo, &["multi-pack-index", "write"], ""));
        assert_eq!(code, Some(0), "{text}");
        assert!(fs::read(root(&repo)).unwrap() == good);
    }
}

#[test]
fn layers_and_their_compaction() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let dir = repo.objects_dir().join("pack/multi-pack-index.d");
        let lines = || -> Vec<String> {
            let text = fs::read_to_string(dir.join("multi-pack-index-chain")).unwrap();
            text.lines().map(str::to_owned).collect()
        };
        for n in 0..4u8 {
            repo.commit_files(&[("file", &[n; 30])], "c");
            repo.repack_loose();
            assert!(succeeded(packstone(&repo, &["multi-pack-index", "write", "--incremental"], "")).is_empty());
        }
        let chain = lines();
        assert_eq!(chain.len(), 4);
        repo.git(["multi-pack-index", "verify"]);
        succeeded(packstone(&repo, &["multi-pack-index", "verify"], ""));
        for command in ["expire", "repack"] {
            let [git, ours] = both(&repo, &[command], "");
            assert_eq!(ours, git);
            assert_eq!(ours.0, Some(128));
        }
        let compact = |words: &[&str]| {
            let words: Vec<&str> = ["multi-pack-index", "compact"].iter().chain(words).copied().collect();
            packstone(&repo, &words, "")
        };
        let of = |words: &[&str]| said(&compact(words));
        let (a, b, c) = (&chain[0], &chain[1], &chain[2]);
        let fatal = |text: String| (Some(128), format!("fatal: {text}\n"));
        assert_eq!(of(&["<missing>", b]), fatal("could not find MIDX: <missing>".into()));
        assert_eq!(of(&[&"0".repeat(hash.hex_len()), b]).0, Some(128));
        assert_eq!(of(&[c, a]), fatal(format!("MIDX {c} must be an ancestor of {a}")));
        assert_eq!(of(&[a, a]), fatal("MIDX compaction endpoints must be unique".into()));
        let v1 = packstone(&repo, &["-c", "midx.version=1", "multi-pack-index", "compact", a, b], "");
        assert_eq!(said(&v1), fatal("cannot perform MIDX compaction with v1 format".into()));
        assert_eq!(
            of(&["--incremental", "--base=deadbeef", b, c]),
            (Some(255), "error: could not find base MIDX 'deadbeef'\n".into())
        );
        let (code, text) = of(&["--no-write-chain-file", a, b]);
        assert_eq!(code, Some(129));
        assert!(text.starts_with("error: cannot use --no-write-chain-file without --incremental\nusage: "), "{text}");
        assert_eq!(of(&[a]).0, Some(129));
        assert_eq!(lines(), chain);

        let layer = succeeded(compact(&["--incremental", "--no-write-chain-file", a, b]));
        let layer = String::from_utf8(layer).unwrap();
        assert!(dir.join(format!("multi-pack-index-{}.midx", layer.trim())).exists());
        assert_eq!(lines(), chain);
        assert!(succeeded(compact(&["--incremental", b, c])).is_empty());
        let after = lines();
        assert_eq!((after.len(), &after[0], &after[2]), (3, &chain[0], &chain[3]));
        succeeded(packstone(&repo, &["multi-pack-index", "verify"], ""));

        // On a base, without being named by the chain. Older versions of git do not know version 2.
        repo.git(["config", "core.multiPackIndex", "false"]);
        repo.commit_files(&[("file", b"more")], "c");
        repo.repack_loose();
        let write = |words: &[&str]| {
            let words: Vec<&str> = ["multi-pack-index", "write"].iter().chain(words).copied().collect();
            packstone(&repo, &words, "")
        };
        let (code, text) = said(&write(&["--incremental", "--base=none"]));
        assert_eq!(code, Some(129));
        assert!(text.starts_with("error: cannot use --base without --no-write-chain-file\nusage: "), "{text}");
        for base in ["none", &after[0], ""] {
            let base = format!("--base={base}");
            let layer = succeeded(write(&["--incremental", "--no-write-chain-file", &base]));
            assert_eq!(layer.len(), hash.hex_len() + 1);
        }
        assert_eq!(lines(), after);
        let (code, text) = said(&write(&["--incremental", "--no-write-chain-file", "--base=beef"]));
        assert_eq!((code, text.as_str()), (Some(255), "error: could not find base MIDX 'beef'\n"));
        // A layer that is missing is a finding.
        fs::remove_file(dir.join(format!("multi-pack-index-{}.midx", after[1]))).unwrap();
        let (code, text) = said(&packstone(&repo, &["multi-pack-index", "verify"], ""));
        assert_eq!(code, Some(1));
        assert!(text.contains("warning: unable to find all multi-pack-index files\n"), "{text}");
    }
}

#[test]
fn repack_and_expire() {
    for hash in Hash::ALL {
        let repo = packed(hash);
        let all = repo.all_objects();
        succeeded(packstone(&repo, &["multi-pack-index", "write"], ""));
        let before = repo.packs();
        let off = packstone(&repo, &["-c", "core.multiPackIndex=false", "multi-pack-index", "repack"], "");
        assert!(succeeded(off).is_empty());
        assert_eq!(repo.packs(), before);
        let out = packstone(&repo, &["multi-pack-index", "repack", "--batch-size=1g"], "");
        assert!(succeeded(out).is_empty(), "the pack's name is not printed");
        let new: Vec<PathBuf> = repo.packs().into_iter().filter(|path| !before.contains(path)).collect();
        assert_eq!(new.len(), 1);
        assert_eq!(repo.ids_of_pack(&new[0]), all);
        succeeded(packstone(&repo, &["multi-pack-index", "verify"], ""));
        succeeded(packstone(&repo, &["multi-pack-index", "expire"], ""));
        assert_eq!(repo.packs(), new);
        assert_eq!(repo.all_objects(), all);
        repo.git(["multi-pack-index", "verify"]);
        repo.fsck();
        // One pack is nothing to put together.
        succeeded(packstone(&repo, &["multi-pack-index", "repack", "--batch-size=0"], ""));
        assert_eq!(repo.packs(), new);
        // With islands, which restrict deltas that we do not make.
        repo.git_with(["hash-object", "-w", "--stdin"], b"one more");
        repo.git(["repack", "-q", "--keep-unreachable"]);
        let id = repo.hash_object("blob", b"and one more");
        let base = repo.objects_dir().join("pack/pack");
        repo.git_with(["pack-objects", "-q", base.to_str().unwrap()], id.as_bytes());
        succeeded(packstone(&repo, &["multi-pack-index", "write"], ""));
        let count = repo.packs().len();
        succeeded(packstone(&repo, &["-c", "repack.useDeltaIslands=true", "multi-pack-index", "repack"], ""));
        assert_eq!(repo.packs().len(), count + 1);
    }
}

#[test]
fn another_object_directory() {
    for hash in Hash::ALL {
        let (repo, other) = (TestRepo::bare(hash), packed(hash));
        let dir = other.objects_dir();
        let option = format!("--object-dir={}", dir.display());
        for words in [["multi-pack-index", &option, "write"], ["multi-pack-index", "write", &option]] {
            let _ = fs::remove_file(root(&other));
            succeeded(packstone(&repo, &words, ""));
            assert!(root(&other).exists() && !root(&repo).exists());
        }
        succeeded(packstone(&repo, &["multi-pack-index", "verify", &option], ""));
        // Objects are taken from there, although the repository does not know of it.
        let before = other.packs().len();
        succeeded(packstone(&repo, &["multi-pack-index", "repack", &option], ""));
        assert_eq!(other.packs().len(), before + 1);
        succeeded(packstone(&repo, &["multi-pack-index", "expire", &option], ""));
        assert_eq!(other.packs().len(), 1);
        other.fsck();
    }
}

#[test]
fn packs_that_cannot_be_covered_are_warned_of() {
    for hash in Hash::ALL {
        let repo = packed(hash);
        let text = b"text";
        let lone = PackBuilder::new(hash).entry(Entry::full("blob", text)).build();
        let path = lone.write(&repo.objects_dir(), &lone.idx(&[lone.id("blob", text)]));
        fs::remove_file(&path).unwrap();
        let (code, text) = said(&packstone(&repo, &["multi-pack-index", "write"], ""));
        assert_eq!(code, Some(0));
        let shown = path.with_extension("idx");
        assert_eq!(text, format!("warning: failed to add packfile '{}'\n", shown.display()));
    }
}

#[test]
fn command_lines() {
    let repo = packed(Hash::Sha1);
    let usage = |words: &[&str]| {
        let words: Vec<&str> = ["multi-pack-index"].iter().chain(words).copied().collect();
        said(&packstone(&repo, &words, ""))
    };
    for (words, message) in [
        (&[][..], "error: need a subcommand\nusage: packstone multi-pack-index "),
        (&["--no-progress"], "error: need a subcommand\nusage: "),
        (&["polish"], "error: unknown subcommand: `polish'\nusage: "),
        (&["write", "operand"], "usage: packstone multi-pack-index [<options>] write"),
        (&["verify", "operand"], "usage: packstone multi-pack-index [<options>] verify"),
        (&["verify", "--bitmap"], "error: unknown option `bitmap'\nusage: "),
        (&["write", "--bitmap"], "error: option `bitmap' is not supported yet\n"),
        (&["compact", "--bitmap", "a", "b"], "error: option `bitmap' is not supported yet\n"),
        (&["write", "--no-write-chain-file"], "error: cannot use --no-write-chain-file without --incremental\nusage: "),
        (&["repack", "--batch-size=x"], "error: option `batch-size' expects a non-negative integer value"),
    ] {
        let (code, text) = usage(words);
        assert_eq!(code, Some(129), "{words:?}");
        assert!(text.starts_with(message), "{words:?}: {text}");
    }
    // With --no-bitmap behind it, nothing is refused.
    assert_eq!(usage(&["write", "--bitmap", "--no-bitmap"]).0, Some(0));
    let (code, text) = usage(&["write", "--progress", "--no-progress"]);
    assert_eq!((code, text.as_str()), (Some(0), ""));
    let (_, text) = usage(&["verify", "--progress"]);
    assert!(text.contains("Verifying object offsets: 100% "), "{text}");
    let outside = repo.scratch();
    let out = testkit::repo::output(
        repo.program(crate::PROGRAM).current_dir(&outside).args(["multi-pack-index", "write"]),
        b"",
    );
    let (code, text) = said(&out);
    assert_eq!(code, Some(128));
    assert!(text.starts_with("fatal: not a git repository"), "{text}");
}
