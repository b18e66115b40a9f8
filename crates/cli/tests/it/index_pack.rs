//! `index-pack` beside git's: the same files, lines, exit codes; hostile packs; and git's own commands on top of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::pack::{Entry, Op, PackBuilder, delta, object_id};
use testkit::repo::{Hash, TestRepo, growing, noise, output};

use crate::{PROGRAM, packstone, said, succeeded};

/// Runs our program in the repository with bytes for input.
fn ours(repo: &TestRepo, words: &[&str], input: &[u8]) -> Output {
    output(repo.program(PROGRAM).args(["index-pack"]).args(words), input)
}

fn git(repo: &TestRepo, words: &[&str], input: &[u8]) -> Output {
    repo.try_git([&["index-pack"], words].concat(), input)
}

/// Every file below the directory, with its content.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in at.read_dir().unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => drop(found.insert(path.strip_prefix(dir).unwrap().to_owned(), std::fs::read(&path).unwrap())),
            }
        }
    }
    found
}

#[test]
fn streams_become_the_same_files() {
    for hash in Hash::ALL {
        let source = TestRepo::rich(hash);
        source.repack();
        let base = source.pack_objects(&["--revs"], "main~12\n");
        let rest = ["main\n^main~12\n", "--thin", "--delta-base-offset", "--revs"];
        let thin = source.pack_objects(&rest[1..], rest[0]);
        for words in [
            &[][..],
            &["--keep"],
            &["--keep=why", "--promisor=from"],
            &["--no-rev-index"],
            &["--index-version=1"],
            &["--index-version=2,0x40"],
            &["--strict"],
            &["--fsck-objects", "--threads=1"],
            &["--max-input-size=1000000"],
        ] {
            let words = [&["--stdin", "--fix-thin"], words].concat();
            let (git_repo, our_repo) = (TestRepo::bare(hash), TestRepo::bare(hash));
            for pack in [&base, &base] {
                let pack = [&pack[..], b"what follows"].concat();
                let (theirs, mine) = (git(&git_repo, &words, &pack), ours(&our_repo, &words, &pack));
                assert_eq!(said(&mine), said(&theirs), "{words:?}");
                assert_eq!(mine.stdout, theirs.stdout, "{words:?}");
                assert_eq!(files(&our_repo.objects_dir()), files(&git_repo.objects_dir()), "{words:?}");
            }
            // Bases that are appended are deflated anew, and that is not said to give the same bytes.
            let lines = [git(&git_repo, &words, &thin), ours(&our_repo, &words, &thin)].map(|out| {
                assert_eq!(said(&out), (Some(0), String::new()));
                String::from_utf8(out.stdout).unwrap()
            });
            let listed = [(&git_repo, &lines[0]), (&our_repo, &lines[1])].map(|(repo, line)| {
                let (word, name) = line.trim_end().split_once('\t').unwrap();
                let pack = repo.objects_dir().join(format!("pack/pack-{name}.pack"));
                (word.to_owned(), repo.ids_of_pack(&pack))
            });
            assert_eq!(listed[0], listed[1], "{words:?}");
            our_repo.git(["fsck", "--full", "--no-dangling"]);
        }
    }
}

/// What follows a pack in a file that is standard input is junk; in a pipe it is somebody else's.
#[test]
fn junk_behind_a_file() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let pack = PackBuilder::new(hash).entry(Entry::full("blob", b"x")).build();
        let path = repo.scratch().join("stream");
        for (extra, code) in [(0, 0), (1, 128), (300_000, 128)] {
            std::fs::write(&path, [&pack.bytes[..], &vec![b'j'; extra]].concat()).unwrap();
            for program in [PROGRAM, "git"] {
                let repo = TestRepo::bare(hash);
                let mut command = repo.program(program);
                command.args(["index-pack", "--stdin"]).stdin(std::fs::File::open(&path).unwrap());
                let done = command.output().unwrap();
                assert_eq!(done.status.code(), Some(code), "{program} {extra}");
                assert_eq!(code == 128, said(&done).1.contains("junk"), "{program} {extra}");
                let published =
                    files(&repo.objects_dir()).keys().any(|name| name.extension().is_some_and(|e| e == "idx"));
                assert_eq!(published, code == 0);
            }
        }
    }
}

#[test]
fn files_get_the_same_indexes() {
    for hash in Hash::ALL {
        let source = TestRepo::linear(hash, 6);
        let pack = source.pack_objects(&["--all"], "");
        let format = format!("--object-format={}", hash.name());
        for words in [
            &["a.pack"][..],
            &["--keep=x", "a.pack"],
            &["-o", "b.idx", "a.pack"],
            &["--index-version=1", "--no-rev-index", "a.pack"],
            &["--verify", "a.pack"],
            &["--verify-stat", "a.pack"],
            &["--verify-stat-only", "a.pack"],
            &["--rev-index", "a.pack"],
        ] {
            let words = [&[&format[..]], words].concat();
            let mut said_by = Vec::new();
            for program in ["git", PROGRAM] {
                // Outside of any repository.
                let dir = source.scratch().join(format!("{}-{}", hash.name(), program.len()));
                std::fs::create_dir_all(&dir).unwrap();
                if !dir.join("a.pack").exists() {
                    std::fs::write(dir.join("a.pack"), &pack).unwrap();
                    output(source.program("git").current_dir(&dir).args(["index-pack", &format, "a.pack"]), b"");
                }
                let out = output(source.program(program).current_dir(&dir).arg("index-pack").args(&words), b"");
                said_by.push((said(&out), out.stdout, files(&dir)));
            }
            assert_eq!(said_by[0], said_by[1], "{words:?}");
        }
    }
}

#[test]
fn wrong_command_lines() {
    let repo = TestRepo::bare(Hash::Sha1);
    let pack = PackBuilder::new(Hash::Sha1).entry(Entry::full("blob", b"x")).build();
    std::fs::write(repo.path().join("a.pack"), &pack.bytes).unwrap();
    for (words, code) in [
        ("", 129),
        ("--nothing a.pack", 129),
        ("-q a.pack", 129),
        ("a.pack b.pack", 129),
        ("-o", 129),
        ("-o a.idx -o b.idx a.pack", 129),
        ("--threads=-1 a.pack", 129),
        ("--threads=x a.pack", 129),
        ("--progress-title", 129),
        ("--index-version=3 a.pack", 128),
        ("--index-version=2,x a.pack", 128),
        ("--index-version=1,5k a.pack", 128),
        ("--pack_header=2 a.pack", 128),
        ("notpack", 128),
        ("nothere.pack", 128),
        ("-o zz a.pack", 128),
        ("--fix-thin a.pack", 128),
        ("--promisor a.pack", 128),
        ("--verify a.idx", 128),
        ("--object-format=foo a.pack", 128),
        ("--object-format=sha1 --stdin", 128),
        ("--stdin zz", 128),
        ("--max-input-size=10 a.pack", 128),
        ("--strict=nothing=error a.pack", 128),
        ("--strict=missingEmail=no a.pack", 128),
        ("--strict=missingEmail a.pack", 128),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mine = said(&ours(&repo, &words, b""));
        let mut theirs = said(&git(&repo, &words, b""));
        if words == ["--promisor", "a.pack"] {
            // Older ones do not mind.
            theirs = (Some(128), "fatal: --promisor cannot be used with a pack name\n".to_owned());
        }
        assert_eq!((mine.0, theirs.0), (Some(code), Some(code)), "{words:?}: {} {}", mine.1, theirs.1);
        if code == 128 && !mine.1.contains("pack_header") {
            assert_eq!(mine.1, theirs.1, "{words:?}");
        }
    }
    for setting in ["pack.indexVersion=3", "pack.indexVersion=x", "pack.threads=-1", "pack.writeReverseIndex=x"] {
        let words = ["-c", setting, "index-pack", "a.pack"];
        assert_eq!(said(&packstone(&repo, &words, "")), said(&repo.try_git(words, b"")), "{setting}");
    }
    let mut outside = repo.program(PROGRAM);
    outside.current_dir(repo.scratch()).args(["index-pack", "--stdin"]);
    let want = (Some(128), "fatal: --stdin requires a git repository\n".to_owned());
    assert_eq!(said(&output(&mut outside, &pack.bytes)), want);
}

#[test]
fn progress_and_the_end_of_input() {
    let source = TestRepo::linear(Hash::Sha1, 30);
    source.repack();
    let pack = source.pack_objects(&["--all"], "");
    let last =
        |text: &str| -> Vec<String> { text.lines().map(|line| line.rsplit('\r').next().unwrap().to_owned()).collect() };
    for words in [
        &["--stdin"][..],
        &["-v", "--stdin"],
        &["--stdin", "--show-resolving-progress"],
        &["--stdin", "--report-end-of-input"],
        &["-v", "--stdin", "--progress-title", "Taking"],
    ] {
        let (theirs, mine) = (TestRepo::bare(Hash::Sha1), TestRepo::bare(Hash::Sha1));
        let (code, text) = said(&ours(&mine, words, &pack));
        let (their_code, their_text) = said(&git(&theirs, words, &pack));
        // How fast it went is git's alone.
        let their_text: Vec<String> =
            last(&their_text).iter().map(|line| line.split(", ").next().unwrap().to_owned() + ", done.").collect();
        let want: Vec<String> = if words.contains(&"--report-end-of-input") { last("\0") } else { their_text };
        assert_eq!((code, last(&text)), (their_code, want), "{words:?}");
    }
    // Bases that were appended are told of.
    let thin = source.pack_objects(&["--revs", "--thin"], "main\n^main~3\n");
    let base = source.pack_objects(&["--revs"], "main~3\n");
    let repo = TestRepo::bare(Hash::Sha1);
    repo.git_with(["index-pack", "--stdin"], &base);
    let (code, text) = said(&ours(&repo, &["-v", "--stdin", "--fix-thin"], &thin));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(", completed with ") && text.ends_with(" local objects.\n"), "{text}");
}

const TEXT: &[u8] = b"abcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefgh";

#[test]
fn hostile_packs_leave_nothing() {
    for hash in Hash::ALL {
        let missing = vec![7; hash.len()];
        let zeros = vec![0; 65_536];
        let cases: Vec<(Entry, &str)> = vec![
            (Entry::full("blob", TEXT).kind(5), "unknown object type 5"),
            (Entry::full("blob", TEXT).size(63), "pack has bad object at offset"),
            (Entry::full("blob", TEXT).size(65), "pack has bad object at offset"),
            (Entry::full("blob", TEXT).size((1 << 32) + 64), "pack has bad object at offset"),
            (Entry::full("commit", TEXT).size(1 << 40), "pack has bad object at offset"),
            (Entry::ofs_to(0, &delta(65_536, 1 << 40, &[Op::Raw(&[0x80; 4])])), "exceeds the limit"),
            (Entry::ofs_to(0, &delta((1 << 32) + 65_536, 4, &[Op::Copy(0, 4)])), "failed to apply delta"),
            (Entry::ofs(3, &delta(1, 1, &[Op::Copy(0, 1)])), "pack has 1 unresolved delta"),
            (Entry::ofs(1 << 40, &delta(1, 1, &[Op::Copy(0, 1)])), "delta base offset is out of bound"),
            (Entry::reference(&missing, &delta(1, 1, &[Op::Copy(0, 1)])), "pack has 1 unresolved delta"),
        ];
        for (entry, words) in cases {
            let pack = PackBuilder::new(hash).entry(Entry::full("blob", &zeros)).entry(entry).build();
            for options in [&["--stdin"][..], &["--stdin", "--fix-thin", "--strict", "--keep"]] {
                let repo = TestRepo::bare(hash);
                let before = files(&repo.objects_dir());
                let out = ours(&repo, options, &pack.bytes);
                let (code, text) = said(&out);
                assert_eq!((code, out.stdout.len()), (Some(128), 0), "{text}");
                assert!(text.starts_with("fatal: ") && text.contains(words), "{text}");
                assert!(text.contains(&format!("offset {}", pack.entries[1].offset)), "{text}");
                assert_eq!(files(&repo.objects_dir()), before);
            }
        }
        // As many bytes as one likes from a few: a limit says how many.
        let bomb = PackBuilder::new(hash)
            .entry(Entry::full("blob", &zeros))
            .entry(Entry::ofs_to(0, &delta(65_536, 65_536 * 512, &[Op::Raw(&[0x80; 512])])))
            .build();
        let repo = TestRepo::bare(hash);
        succeeded(ours(&repo, &["--stdin", "--memory=1m"], &bomb.bytes));
        // A middle of a chain that is here already.
        let (c, b) = (vec![b'C'; 100], [&[b'C'; 100][..], b"B"].concat());
        let pack = PackBuilder::new(hash)
            .entry(Entry::reference(
                &object_id(hash, "blob", &b),
                &delta(101, 102, &[Op::Copy(0, 101), Op::Insert(b"A")]),
            ))
            .entry(Entry::reference(
                &object_id(hash, "blob", &c),
                &delta(100, 101, &[Op::Copy(0, 100), Op::Insert(b"B")]),
            ))
            .build();
        let repo = TestRepo::bare(hash);
        repo.hash_object("blob", &c);
        repo.hash_object("blob", &b);
        succeeded(ours(&repo, &["--stdin", "--fix-thin"], &pack.bytes));
        repo.git(["fsck", "--full", "--no-dangling"]);
    }
}

/// A copy that is there and is another object is found out, as by git.
#[test]
fn other_content_under_the_name() {
    let repo = TestRepo::bare(Hash::Sha1);
    let pack = PackBuilder::new(Hash::Sha1).entry(Entry::full("blob", TEXT)).build();
    let id = repo.hash_object("blob", TEXT);
    let other = repo.hash_object("blob", &noise(64));
    let path = |id: &str| repo.objects_dir().join(&id[..2]).join(&id[2..]);
    std::fs::remove_file(path(&id)).unwrap();
    std::fs::rename(path(&other), path(&id)).unwrap();
    let (code, text) = said(&ours(&repo, &["--stdin"], &pack.bytes));
    assert_eq!(code, Some(128));
    assert!(text.contains(&format!("SHA1 COLLISION FOUND WITH {id}")), "{text}");
}

#[test]
fn checks() {
    let repo = TestRepo::linear(Hash::Sha1, 2);
    let tree = repo.rev_parse("main^{tree}");
    let bad = repo.git_with(
        ["hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        format!("tree {tree}\nauthor A U Thor 1112911993 -0700\ncommitter A U Thor <a@b> 1112911993 -0700\n\nx\n")
            .as_bytes(),
    );
    let bad = String::from_utf8(bad).unwrap();
    let alone = repo.git_with(["pack-objects", "--stdout", "-q"], bad.as_bytes());
    let whole = repo.git_with(["pack-objects", "--stdout", "-q", "--revs"], bad.as_bytes());
    for (words, pack, code, what) in [
        (&["--strict"][..], &whole, 128, "missingEmail"),
        (&["--fsck-objects"], &alone, 128, "missingEmail"),
        (&["--strict=missingEmail=ignore"], &whole, 0, ""),
        (&["--strict=missingEmail=ignore"], &alone, 128, &tree[..]),
        (&["--fsck-objects=missingEmail=ignore"], &alone, 0, ""),
        (&["--fsck-objects=missingEmail=warn"], &alone, 0, "warning: "),
        (&["--check-self-contained-and-connected"], &whole, 0, ""),
        (&["--check-self-contained-and-connected"], &alone, 128, &tree[..]),
    ] {
        let words = [&["--stdin"], words].concat();
        let (mine, theirs) = (TestRepo::bare(Hash::Sha1), TestRepo::bare(Hash::Sha1));
        let out = ours(&mine, &words, pack);
        let want = git(&theirs, &words, pack);
        assert_eq!((out.status.code(), &out.stdout), (Some(code), &want.stdout), "{words:?} {}", said(&out).1);
        assert_eq!(want.status.code(), Some(code), "{words:?} {}", said(&want).1);
        assert!(said(&out).1.contains(what), "{}", said(&out).1);
        let unpacked = output(mine.program(PROGRAM).args(["unpack-objects", "-q"]).args(&words[1..2]), pack);
        if words[1].starts_with("--strict") {
            assert_eq!(unpacked.status.code(), Some(code), "{}", said(&unpacked).1);
        }
    }
    // Links out of the pack are said by the exit code.
    let other = TestRepo::bare(Hash::Sha1);
    other.git_with(["index-pack", "--stdin"], &repo.pack_objects(&["--revs"], &format!("{tree}\n")));
    for run in [ours, git] {
        let out = run(&other, &["--stdin", "--check-self-contained-and-connected"], &alone);
        assert_eq!(out.status.code(), Some(1));
        assert!(out.stdout.starts_with(b"pack\t"));
    }
}

/// What a promised pack refers to and only the repository has goes into a promised pack, too; what is promised already
/// does not.
#[test]
fn promised_packs_take_along_what_they_refer_to() {
    for hash in Hash::ALL {
        let source = TestRepo::linear(hash, 3);
        let ids = |words: &[&str], input: &str| source.pack_objects(words, input);
        let repo = TestRepo::bare(hash);
        repo.git_with(["unpack-objects", "-q"], &ids(&["--revs"], "main~1\n"));
        let commit = ids(&[], &format!("{}\n{}\n", source.rev_parse("main"), source.rev_parse("main^{tree}")));
        for repeat in [false, true] {
            succeeded(ours(&repo, &["--stdin", "--promisor=here"], &commit));
            let packs = repo.packs();
            assert_eq!(packs.len(), 2, "{repeat}");
            let mut listed = Vec::new();
            for pack in packs {
                let mark = std::fs::read_to_string(pack.with_extension("promisor")).unwrap();
                listed.push((mark, repo.ids_of_pack(&pack)));
            }
            listed.sort();
            // Everything that was there before is reached from the commit's parent.
            assert_eq!(listed[0], (String::new(), source.rev_list_objects(&["main~1"])));
            assert_eq!(listed[1].0, "here\n");
        }
    }
}

#[test]
fn a_pack_in_the_repository_with_its_index_elsewhere() {
    let source = TestRepo::linear(Hash::Sha1, 2);
    let pack = source.pack_objects(&["--all"], "");
    let (mine, theirs) = (TestRepo::bare(Hash::Sha1), TestRepo::bare(Hash::Sha1));
    let words = ["--stdin", "-o", "elsewhere.idx"];
    assert_eq!(succeeded(ours(&mine, &words, &pack)), succeeded(git(&theirs, &words, &pack)));
    for below in ["objects", "."] {
        let all = |repo: &TestRepo| {
            let mut all = files(&repo.path().join(below));
            all.retain(|path, _| !path.starts_with("hooks"));
            all
        };
        assert_eq!(all(&mine), all(&theirs));
    }
}

/// A directory with a `git` that hands these three commands to our program, and notes that it did.
fn wrapper(dir: &Path) -> PathBuf {
    let real = Command::new("git").arg("--exec-path").output().unwrap().stdout;
    let real = String::from_utf8(real).unwrap();
    let git = Path::new(real.trim()).join("git");
    let at = dir.join("bin");
    std::fs::create_dir_all(&at).unwrap();
    let script = format!(
        "#!/bin/sh\nfor word\ndo\n\tcase $skip$word in\n\t-C|-c|--git-dir|--work-tree|--shallow-file) skip=x; continue;;\n\
         \t-*) continue;;\n\tx*) skip=; continue;;\n\
         \tindex-pack|unpack-objects|verify-pack) echo $word >>'{log}'; exec '{PROGRAM}' \"$@\";;\n\t*) break;;\n\tesac\ndone\n\
         GIT_EXEC_PATH='{at}' exec '{git}' \"$@\"\n",
        log = dir.join("calls").display(),
        at = at.display(),
        git = git.display(),
    );
    for entry in Path::new(real.trim()).read_dir().unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "git" {
            std::os::unix::fs::symlink(entry.path(), at.join(entry.file_name())).unwrap();
        }
    }
    std::fs::write(at.join("git"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(at.join("git"), mode).unwrap();
    at
}

/// Clone, fetch, push and bundles by git, with our program in place of its three.
#[cfg(unix)]
#[test]
fn under_git() {
    for hash in Hash::ALL {
        let server = TestRepo::init(hash);
        for nth in 0..5 {
            server.commit_files(&[("file", &growing(nth)), (&format!("dir/{nth}"), b"x")], "some");
        }
        let scratch = server.scratch();
        let bin = wrapper(&scratch);
        let git = |dir: &Path, words: &[&str]| {
            let path = std::env::join_paths([bin.clone(), "/usr/bin".into(), "/bin".into()]).unwrap();
            let mut command = server.program(bin.join("git"));
            command.current_dir(dir).env("PATH", path).env("GIT_EXEC_PATH", &bin).args(words);
            let out = output(&mut command, b"");
            assert_eq!(out.status.code(), Some(0), "{words:?} {}", said(&out).1);
            String::from_utf8(out.stdout).unwrap()
        };
        let url = format!("file://{}", server.path().display());
        let calls = || std::fs::read_to_string(scratch.join("calls")).unwrap_or_default();
        git(&scratch, &["clone", "-q", "--bare", &url, "clone"]);
        let clone = scratch.join("clone");
        assert_eq!(calls(), "index-pack\n");
        // A small fetch becomes loose objects; one that is checked a pack.
        for (setting, want) in [("false", "unpack-objects\n"), ("true", "index-pack\n")] {
            server.commit_files(&[("new", setting.as_bytes())], "one more");
            let before = calls();
            git(&clone, &["-c", &format!("fetch.fsckObjects={setting}"), "fetch", "-q", "origin", "main:main"]);
            assert_eq!(calls(), before + want);
            assert_eq!(git(&clone, &["rev-parse", "main"]).trim(), server.rev_parse("main"));
        }
        // Both ways of receiving, in a quarantine.
        let target = TestRepo::bare(hash);
        let to = format!("file://{}", target.path().display());
        let before = calls();
        for limit in ["1", "10000"] {
            target.git(["config", "receive.unpackLimit", limit]);
            target.git(["config", "receive.fsckObjects", "true"]);
            let name = format!("main:refs/heads/limit-{limit}");
            git(&clone, &["push", "-q", &to, &name]);
            target.git(["update-ref", "-d", &format!("refs/heads/limit-{limit}")]);
            target.git(["repack", "-adq"]);
            target.git(["prune", "--expire=now"]);
        }
        assert_eq!(calls(), before + "index-pack\nunpack-objects\n");
        git(&clone, &["bundle", "create", "-q", "../all.bundle", "--all"]);
        git(target.path(), &["bundle", "unbundle", scratch.join("all.bundle").to_str().unwrap()]);
        assert!(calls().ends_with("unpack-objects\nindex-pack\n"));
        target.git(["fsck", "--full", "--strict", "--no-dangling"]);
        git(&clone, &["fsck", "--full", "--strict", "--no-dangling"]);
        // What is refused leaves no trace.
        target.git(["config", "receive.maxInputSize", "100"]);
        let before = files(&target.objects_dir());
        server.commit_files(&[("large", &noise(5000)), ("text", &growing(50))], "large");
        git(&clone, &["fetch", "-q", "origin", "main:main"]);
        let mut push = server.program(bin.join("git"));
        push.current_dir(&clone).env("GIT_EXEC_PATH", &bin).args(["push", "-q", &to, "main:refs/heads/refused"]);
        assert_ne!(output(&mut push, b"").status.code(), Some(0));
        assert_eq!(files(&target.objects_dir()), before);
        std::fs::remove_file(scratch.join("calls")).unwrap();
    }
}
