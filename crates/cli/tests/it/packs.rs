//! What is packed: the same objects as git packs for the same words and input.

use std::io::Read as _;
use std::process::Stdio;

use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, packstone, said, succeeded};

/// The object set of our answer and of git's.
#[track_caller]
fn same(repo: &TestRepo, options: &[&str], input: &str) {
    let words = [&["pack-objects", "--stdout", "-q"], options].concat();
    let ours = succeeded(packstone(repo, &words, input));
    let git = repo.pack_objects(options, input);
    let (ours, git) = (repo.ids_of_stream(&ours), repo.ids_of_stream(&git));
    assert_eq!(
        ours.symmetric_difference(&git).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "{options:?} {input:?}: ours {}, git {}",
        ours.len(),
        git.len()
    );
}

#[test]
fn revisions() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let (tip, tag) = (repo.rev_parse("main"), repo.rev_parse("v2-nested"));
        let old = repo.rev_parse("main~12");
        let inputs = [
            "main\n".to_owned(),
            "main\n\nside\n".to_owned(),
            "v1\nlight\ntree-tag\nblob-tag\n".to_owned(),
            format!("{tip}\n--not\n{old}\n"),
            format!("{tag}\n^{old}\n"),
            "main~12..main\nside\n".to_owned(),
            "side...main\n".to_owned(),
            "--not\nmain~5\n^v2\n".to_owned(),
            format!("--shallow {old}\nmain\n"),
            "main^{tree}\n^main~3^{tree}\n".to_owned(),
            String::new(),
        ];
        for packed in [false, true] {
            if packed {
                repo.repack_with_bitmap();
            }
            for input in &inputs {
                for options in [
                    &["--revs"][..],
                    &["--revs", "--delta-base-offset", "--include-tag"],
                    &["--thin", "--delta-base-offset"],
                ] {
                    same(&repo, options, input);
                }
            }
            for options in [
                &["--all"][..],
                &["--all", "--filter=blob:none"],
                &["--all", "--filter=tree:0"],
                &["--all", "--filter=blob:limit=100"],
                &["--all", "--no-use-bitmap-index", "--sparse"],
                &["--all", "--no-use-bitmap-index", "--no-sparse", "--shallow"],
                &["--all", "--unpacked"],
                &["--all", "--incremental"],
                &["--all", "--no-reuse-delta", "--threads=1"],
                &["--all", "--no-reuse-object", "--compression=1"],
                &["--reflog"],
            ] {
                same(&repo, options, "");
            }
        }
    }
}

/// Sets of references on standard input are ours alone; git knows only the option.
#[test]
fn sets_on_input() {
    let repo = TestRepo::rich(Hash::Sha1);
    for (input, like) in [
        ("--all\n", "--all"),
        ("--branches\n", "--branches"),
        ("--tags\n", "--tags"),
        ("--tags=v*\n", "--tags=v*"),
        ("--glob=heads/o*\n", "--glob=heads/o*"),
        ("main\n--not\n--branches=side\n", "main --not --branches=side"),
    ] {
        let pack = succeeded(packstone(&repo, &["pack-objects", "--revs", "--stdout", "-q"], input));
        let revisions: Vec<&str> = like.split(' ').collect();
        assert_eq!(repo.ids_of_stream(&pack), repo.rev_list_objects(&revisions), "{input}");
    }
}

#[test]
fn object_lists() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let all = repo.rev_list_objects(&["main~3"]);
        let mut input: String = all.iter().map(|id| format!("{id} some/path\n")).collect();
        // Twice is once; a line may lack its end.
        input.push_str(all.iter().next().unwrap());
        let pack = succeeded(packstone(&repo, &["pack-objects", "--stdout", "-q"], &input));
        assert_eq!(repo.ids_of_stream(&pack), all);
        // Tags of what is listed come along, tags of tags among them.
        let tip = format!("{}\n", repo.rev_parse("main"));
        same(&repo, &["--include-tag"], &tip);
        same(&repo, &[], &tip);
        let input = format!("-{}\n{input}", repo.rev_parse("main~5"));
        let pack = succeeded(packstone(&repo, &["pack-objects", "--stdout", "-q"], &input));
        assert_eq!(repo.ids_of_stream(&pack), all);
    }
}

#[test]
fn index_versions() {
    let repo = TestRepo::rich(Hash::Sha1);
    // Version 1 has no mark: it begins with its first count.
    for (version, marked) in [("1", false), ("2", true), ("0", false)] {
        let base = repo.scratch().join(format!("v{version}"));
        let option = format!("--index-version={version}");
        let words = ["pack-objects", "--all", "-q", &option, base.to_str().unwrap()];
        let name = String::from_utf8(succeeded(packstone(&repo, &words, ""))).unwrap();
        let idx = format!("{}-{}.idx", base.display(), name.trim_end());
        assert_eq!(std::fs::read(&idx).unwrap().starts_with(b"\xfftOc"), marked, "{version}");
        repo.git(["verify-pack", &idx]);
    }
}

#[test]
fn bad_input() {
    let repo = TestRepo::rich(Hash::Sha1);
    let absent = "1".repeat(40);
    let revs = ["pack-objects", "--revs", "--stdout", "-q"];
    for (words, input, want) in [
        (&revs[..], "nothing\n".to_owned(), "fatal: bad revision 'nothing'\n".to_owned()),
        (&revs, "--no-such\n".to_owned(), "fatal: not a rev '--no-such'\n".to_owned()),
        (&revs, "--shallow x\n".to_owned(), "fatal: not an object name 'x'\n".to_owned()),
        (&revs, format!("{absent}\n"), format!("fatal: bad object {absent}\n")),
        (
            &["pack-objects", "--stdout"],
            "zzz\n".to_owned(),
            "fatal: expected object ID, got garbage:\n zzz\n".to_owned(),
        ),
        (
            &["pack-objects", "--stdout"],
            "-zzz\n".to_owned(),
            "fatal: expected edge object ID, got garbage:\n -zzz\n".to_owned(),
        ),
    ] {
        assert_eq!(said(&packstone(&repo, words, &input)), (Some(128), want));
    }
    let (code, text) = said(&packstone(&repo, &["pack-objects", "--stdout", "-q"], &format!("{absent}\n")));
    assert_eq!(code, Some(128));
    assert!(text.starts_with("fatal: ") && text.contains(&absent), "{text}");
}

#[test]
fn exclusions() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("a", b"one")], "one");
    repo.repack();
    let kept = repo.only_pack();
    repo.commit_files(&[("a", b"two")], "two");
    repo.git(["repack", "-d", "-q"]);
    repo.commit_files(&[("a", b"three")], "three");
    std::fs::write(kept.with_extension("keep"), "").unwrap();
    let name = kept.file_name().unwrap().to_str().unwrap();
    for options in [
        &["--all", "--honor-pack-keep"][..],
        &["--all", &format!("--keep-pack={name}")],
        &["--all", "--unpacked"],
        &["--all", "--incremental"],
        &["--all", "--local"],
    ] {
        same(&repo, options, "");
    }
    let borrower = TestRepo::init(Hash::Sha1);
    std::fs::write(borrower.objects_dir().join("info/alternates"), format!("{}\n", repo.objects_dir().display()))
        .unwrap();
    borrower.git(["reset", "-q", "--hard", &repo.rev_parse("main")]);
    borrower.commit_files(&[("b", b"own")], "own");
    same(&borrower, &["--all", "--local"], "");
    same(&borrower, &["--all"], "");
}

#[test]
fn non_empty() {
    let repo = TestRepo::rich(Hash::Sha1);
    assert_eq!(succeeded(packstone(&repo, &["pack-objects", "--stdout", "--revs", "--non-empty", "-q"], "")), b"");
    let empty = succeeded(packstone(&repo, &["pack-objects", "--stdout", "--revs", "-q"], ""));
    assert_eq!(empty.len(), 32);
}

/// Texts and their form as git has them: rewritten in place, closed by "done.".
#[test]
fn progress() {
    let repo = TestRepo::rich(Hash::Sha1);
    let count = repo.rev_list_objects(&["main"]).len();
    let text = |words: &[&str]| {
        let words = [&["pack-objects", "--revs", "--stdout"], words].concat();
        let (code, text) = said(&packstone(&repo, &words, "main\n"));
        assert_eq!(code, Some(0));
        text
    };
    assert_eq!(text(&[]), "", "no terminal, no progress");
    assert_eq!(text(&["--progress", "-q"]), "");
    assert_eq!(text(&["--all-progress-implied"]), "");
    let usual = text(&["--progress"]);
    let lines: Vec<&str> = usual.split_terminator('\n').collect();
    assert_eq!(lines[0], format!("Enumerating objects: {count}, done."));
    let last = format!("\rCounting objects: 100% ({count}/{count}), done.");
    assert!(lines[1].starts_with("Counting objects: ") && lines[1].ends_with(&last), "{:?}", lines[1]);
    assert!(lines[2].starts_with(&format!("Total {count} (delta ")), "{}", lines[2]);
    assert_eq!(lines.len(), 3);
    for words in [&["--all-progress"][..], &["--progress", "--all-progress-implied"]] {
        let all = text(words);
        assert!(all.contains(&format!("\rWriting objects: 100% ({count}/{count}), done.\nTotal ")), "{all:?}");
    }
}

/// A full device is an error with a code; a reader that left is an end without a word.
#[test]
#[cfg(target_os = "linux")]
fn output_that_fails() {
    let repo = TestRepo::rich(Hash::Sha1);
    for bitmap in [false, true] {
        if bitmap {
            repo.repack_with_bitmap();
        }
        let mut command = repo.program(PROGRAM);
        command.args(["pack-objects", "--all", "--stdout", "-q"]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let (code, text) = said(&command.output().unwrap());
        assert_eq!(code, Some(128));
        assert!(text.starts_with("fatal: ") && text.contains("No space left on device"), "{text}");

        let mut command = repo.program(PROGRAM);
        command.args(["pack-objects", "--all", "--stdout", "-q"]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        drop(child.stdin.take());
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((child.wait().unwrap().code(), text.as_str()), (Some(141), ""));
    }
}

/// The bytes depend on the repository and the request, not on how many threads there were.
#[test]
fn the_same_bytes() {
    let repo = TestRepo::rich(Hash::Sha256);
    repo.repack_with_bitmap();
    repo.git(["branch", "-D", "-q", "other"]);
    for words in ["--all --stdout", "--revs --stdout --thin --delta-base-offset"] {
        let mut packs = ["1", "2", "7"].map(|threads| {
            let words: Vec<&str> =
                ["pack-objects", "-q", "--threads", threads].into_iter().chain(words.split(' ')).collect();
            succeeded(output(repo.program(PROGRAM).args(words), b"main\n^main~9\n"))
        });
        packs.sort();
        assert_eq!(packs[0], packs[2]);
    }
}
