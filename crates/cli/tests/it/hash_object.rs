//! `hash-object` beside git's, the system calls of writing what exists, and memory.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use testkit::io::Rng;
use testkit::pack::unhex;
use testkit::repo::{Hash, TestRepo, noise, output};

use crate::{PROGRAM, packstone, said, succeeded};

/// The names of what git's fsck found, from a program's messages.
fn findings(text: &str) -> Vec<String> {
    let mut found: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("error: object fails fsck: "))
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    found.sort();
    found
}

#[test]
fn malformed_objects_are_refused_as_by_git() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let tree = repo.git_str(["hash-object", "-t", "tree", "-w", "--stdin"]);
        let who = "A U Thor <a@example.com> 1112911993 -0700";
        let commit = format!("tree {tree}\nparent {tree}\nauthor {who}\ncommitter {who}\n\nmessage\n");
        let tag = format!("object {tree}\ntype tree\ntag v1\ntagger {who}\n\nmessage\n");
        let mut cases: Vec<(&str, Vec<u8>)> = vec![("blob", b"any\0thing".to_vec())];
        let edits: &[(&str, &str)] = &[
            ("", ""),
            ("tree ", "Tree "),
            ("object ", "obj "),
            ("type tree", "type"),
            ("type tree", "type bogus"),
            ("type tree\n", ""),
            ("tag v1\n", ""),
            ("tag v1", "tag v..1"),
            ("tag v1", "tag v1.lock"),
            ("tag v1", "tag "),
            ("tag v1", "tag a/.b"),
            ("tag v1", "tag a b"),
            ("parent ", "parent x"),
            ("\nparent", "0\nparent"),
            ("A U Thor <", "A U Thor<"),
            ("A U Thor <", "<"),
            ("A U Thor <", " <"),
            ("A U Thor <", "A > U <"),
            ("A U Thor <", "A < U <"),
            ("<a@example.com>", "a@example.com"),
            ("<a@example.com>", "<a@example.com"),
            ("> 1112911993", ">1112911993"),
            ("> 1112911993", ">  1112911993"),
            ("1112911993", "01112911993"),
            ("1112911993", "0"),
            ("1112911993", "x"),
            ("1112911993", ""),
            ("1112911993", "-5"),
            ("1112911993", "9223372036854775807"),
            ("1112911993", "9223372036854775808"),
            ("1112911993", "99999999999999999999999999999"),
            ("1112911993 ", "1112911993"),
            ("-0700", "0700"),
            ("-0700", "-070"),
            ("-0700", "-07000"),
            ("-0700\n", "-0700 \n"),
            ("author", "authors"),
            ("committer", "commiter"),
            ("author", "author X <x@y> 1 +0000\nauthor"),
            ("committer", "encoding x\ncommitter"),
            ("\n\nmessage", "\nmore x\n\nmessage"),
            ("\n\nmessage", "\nmore x\n"),
            ("\n\nmessage\n", "\n"),
            ("\n\nmessage\n", ""),
            ("message", "mes\0sage"),
            ("author", "aut\0hor"),
            ("tagger", "\0tagger"),
            ("tagger", "taggers"),
            ("\n\n", "\ngpgsig x\n y\n z\n\n"),
        ];
        for (from, to) in edits {
            cases.push(("commit", commit.replacen(from, to, 1).into_bytes()));
            cases.push(("tag", tag.replacen(from, to, 1).into_bytes()));
        }
        cases.push(("commit", vec![]));
        cases.push(("tag", vec![]));
        let id = unhex(&tree);
        let null = vec![0; id.len()];
        let entries: &[&[(&str, &[u8])]] = &[
            &[],
            &[("100644 a", &id), ("100755 b", &id), ("120000 c", &id), ("40000 d", &id), ("160000 e", &id)],
            &[("100664 a", &id)],
            &[("0100644 a", &id)],
            &[("9100644 a", &id)],
            &[("644 a", &id)],
            &[(" a", &id)],
            &[("100644 ", &id)],
            &[("100644 .", &id)],
            &[("100644 ..", &id)],
            &[("100644 .git", &id)],
            &[("40000 .GIT", &id)],
            &[("40000 git~1", &id)],
            &[("40000 .g\u{200c}it", &id)],
            &[("100644 a\\.git", &id)],
            &[("100644 a/b", &id)],
            &[("100644 a", &null)],
            &[("120000 .gitmodules", &id)],
            &[("120000 gitmod~1", &id)],
            &[("120000 .gitattributes", &id)],
            &[("120000 .gitignore", &id), ("120000 .mailmap", &id)],
            &[("100644 b", &id), ("100644 a", &id)],
            &[("100644 a", &id), ("100644 a", &id)],
            &[("100644 a", &id), ("100644 a.b", &id), ("40000 a", &id)],
            &[("40000 a", &id), ("100644 a.b", &id)],
            &[("100644 a", &id[1..])],
        ];
        for list in entries {
            let parts = list.iter().map(|(head, id)| [head.as_bytes(), b"\0", id].concat());
            cases.push(("tree", parts.collect::<Vec<_>>().concat()));
        }
        for len in [4096, 4097] {
            cases.push(("tree", [b"100644 ", "n".repeat(len).as_bytes(), b"\0", &id].concat()));
        }
        cases.push(("tree", b"abc\n".to_vec()));
        let mut refused = 0;
        for (kind, content) in cases {
            let words = ["hash-object", "-t", kind, "--stdin"];
            let theirs = repo.try_git(words, &content);
            let ours = output(repo.program(PROGRAM).args(words), &content);
            let shown = String::from_utf8_lossy(&content).into_owned();
            assert_eq!(ours.status.code(), theirs.status.code(), "{shown}: {:?} {:?}", said(&ours), said(&theirs));
            assert_eq!(ours.stdout, theirs.stdout, "{shown}");
            refused += usize::from(!theirs.status.success());
            let (ours, theirs) = (findings(&said(&ours).1), findings(&said(&theirs).1));
            let of_blobs = |name: &String| !name.starts_with("gitmodulesM"); // of a blob that is not there
            assert_eq!(ours, theirs.into_iter().filter(of_blobs).collect::<Vec<_>>(), "{shown}");
            // And with --literally all is taken.
            let words = ["hash-object", "-t", kind, "--stdin", "--literally"];
            assert_eq!(succeeded(output(repo.program(PROGRAM).args(words), &content)), repo.git_with(words, &content));
        }
        assert!(refused > 80, "{refused}");
    }
}

#[test]
fn words_are_taken_as_by_git() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        repo.write("a", b"a\n");
        repo.write("b b", b"");
        repo.write("sub/c", b"c\r\n");
        repo.write("sub/d", b"d\r\n");
        repo.write("quo\"te", b"q");
        repo.write(".gitattributes", b"*.text text\n*.id ident\n*.none -text\n");
        repo.write("x.text", b"x\r\n");
        repo.write("y.text", b"y\n");
        repo.write("i.id", b"$Id$\n");
        repo.write("n.none", b"n\r\n");
        let cases: &[(&[&str], &str)] = &[
            (&["a", "b b"], ""),
            (&["--stdin", "a"], "stdin"),
            (&["--stdin"], ""),
            (&["a", "--stdin"], "first"),
            (&["--", "a"], ""),
            (&["--stdin-paths"], "a\nb b\nsub/c\n\"quo\\\"te\"\n"),
            (&["--stdin-paths"], "a\nsub/d"),
            (&["--stdin-paths", "--no-filters"], "x.text\n"),
            (&["--stdin-paths"], "\"a\n"),
            (&["--stdin-paths"], "missing\n"),
            (&["--stdin-paths"], ""),
            (&["--stdin-paths", "a"], ""),
            (&["--stdin", "--stdin-paths"], ""),
            (&["--stdin-paths", "--path=x"], ""),
            (&["--stdin", "--stdin"], ""),
            (&["--path=x", "--no-filters", "a"], ""),
            (&["--no-path", "--path=x", "--no-path", "--no-filters", "a"], ""),
            (&["missing"], ""),
            (&["a", "missing", "b b"], ""),
            (&["sub"], ""),
            (&["-t", "blob", "a"], ""),
            (&["-tblob", "a"], ""),
            (&["-t", "bl", "a"], ""),
            (&["-t"], ""),
            (&["--bogus"], ""),
            (&[], ""),
            (&["-h"], ""),
            (&["y.text", "n.none"], ""),
            (&["--no-filters", "x.text", "i.id"], ""),
            (&["--path=n.none", "x.text"], ""),
            (&["--stdin"], "a\r\nb"),
            (&["--stdin", "--path=a.none"], "a\r\nb"),
        ];
        for (words, input) in cases {
            for write in [false, true] {
                let mut all = vec!["hash-object"];
                all.extend(write.then_some("-w"));
                all.extend(*words);
                let theirs = repo.try_git(&all, input.as_bytes());
                let ours = packstone(&repo, &all, input);
                assert_eq!(ours.status.code(), theirs.status.code(), "{all:?}: {}", said(&ours).1);
                if words != &["-h"] {
                    assert_eq!(ours.stdout, theirs.stdout, "{all:?}");
                }
                let fatal = |text: &str| {
                    text.lines().filter(|line| line.starts_with("fatal")).map(str::to_owned).collect::<Vec<_>>()
                };
                assert_eq!(fatal(&said(&ours).1), fatal(&said(&theirs).1), "{all:?}");
            }
        }
        // What would have to be converted is refused by name.
        for (words, input, what) in [
            (&["x.text"][..], "", "line ends"),
            (&["--path=x.text", "sub/c"], "", "line ends"),
            (&["--stdin", "--path=x.text"], "\r\n", "line ends"),
            (&["--stdin-paths"], "x.text\n", "line ends"),
            (&["i.id"], "", "ident"),
        ] {
            let (code, text) = said(&packstone(&repo, &[&["hash-object", "-w"], words].concat(), input));
            assert_eq!(code, Some(128));
            assert!(text.contains(what) && text.contains("not supported yet"), "{text}");
        }
        // In a directory of the work tree, and out of it all.
        for (dir, words) in
            [("sub", ["c", "../a"]), ("sub", ["../sub/c", "/etc/passwd"]), ("/", ["/etc/passwd", "etc/passwd"])]
        {
            let run = |mut command: Command| {
                output(command.current_dir(repo.path().join(dir)).arg("hash-object").args(words), b"")
            };
            let (ours, theirs) = (run(repo.program(PROGRAM)), run(repo.command()));
            assert_eq!((ours.status.code(), &ours.stdout), (theirs.status.code(), &theirs.stdout), "{}", said(&ours).1);
        }
        // H2: an output that fails.
        #[cfg(target_os = "linux")]
        {
            let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
            let child = repo.program(PROGRAM).args(["hash-object", "a"]).stdout(full).stderr(Stdio::piped()).spawn();
            let (code, text) = said(&child.unwrap().wait_with_output().unwrap());
            assert!(code == Some(128) && text.contains("No space left"), "{text}");
        }
        let mut command = repo.program(PROGRAM);
        let (code, text) = said(&output(command.current_dir("/").args(["hash-object", "-w", "--stdin"]), b""));
        assert!(code == Some(128) && text.starts_with("fatal: not a git repository"), "{text}");
        repo.fsck();
    }
}

/// Issue of a release of git, over NFS: 4,018 utime and 8,074 access calls for objects that existed.
#[test]
fn what_a_pack_of_an_alternate_has_costs_one_utimensat() {
    const COUNT: usize = 4000;
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: what_a_pack_of_an_alternate_has_costs_one_utimensat needs strace, which is not installed");
        return;
    }
    let shared = TestRepo::init(Hash::Sha1);
    let mut names = String::new();
    for n in 0..COUNT {
        let name = format!("files/{n}");
        shared.write(&name, format!("content {n}\n").as_bytes());
        names += &format!("{name}\n");
    }
    shared.commit("all of them");
    shared.repack();
    assert_eq!(shared.git_str(["count-objects"]), "0 objects, 0 kilobytes");

    let repo = TestRepo::init(Hash::Sha1);
    let alternates = format!("{}\n", shared.objects_dir().display());
    fs::write(repo.objects_dir().join("info/alternates"), alternates).unwrap();
    repo.write("here", b"here"); // a loose object and a pack of its own, in the way of whoever looks there first
    repo.commit("own");
    repo.repack();
    repo.hash_object("blob", b"loose");

    let trace = repo.scratch().join("trace");
    let mut command = repo.program("strace");
    command.args(["-f", "-qq", "-s", "300", "-o"]).arg(&trace);
    command.args(["-e", "trace=file,utimensat,futimesat,utime,utimes,desc"]).arg(PROGRAM);
    let made = output(
        command
            .current_dir(shared.path())
            .args(["hash-object", "-w", "--stdin-paths"])
            .env("GIT_DIR", repo.git_dir())
            .env("GIT_WORK_TREE", shared.path()),
        names.as_bytes(),
    );
    let ids = String::from_utf8(succeeded(made)).unwrap();
    assert_eq!(ids.lines().count(), COUNT);
    let trace = fs::read_to_string(trace).unwrap();
    let opened = |name: &str| trace.lines().filter(|line| line.contains(name)).count();
    assert!(opened("files/1\"") > 0, "the trace shows what was done");
    let times: Vec<&str> = trace.lines().filter(|line| line.contains("utime")).collect();
    assert_eq!(times.len(), 1, "{times:#?}");
    assert!(times[0].contains("utimensat") && times[0].contains(".pack\"") && times[0].contains("= 0"), "{times:?}");
    // No path under two hexadecimal digits in either object directory.
    for objects in [repo.objects_dir(), shared.objects_dir(), "objects".into(), ".git/objects".into()] {
        let objects = objects.to_str().unwrap();
        for line in trace.lines() {
            for at in line.match_indices(objects).map(|(at, _)| at + objects.len()) {
                let below = line[at..].trim_start_matches('/').as_bytes();
                let digits = below.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
                assert!(digits < 2 || below.starts_with(b"pack"), "{line}");
            }
        }
    }
    assert_eq!(repo.git_str(["count-objects"]), "1 objects, 4 kilobytes");
}

/// A blob that comes in pieces takes no memory by its size; the limit is the system's, on all of the process's data.
#[cfg(target_os = "linux")]
#[test]
fn large_blobs_go_in_within_64_mib() {
    const SIZE: u64 = 80 << 20; // the whole of 2 GiB is for those who measure
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let path = repo.path().join("large");
        let mut file = File::create(&path).unwrap();
        file.write_all(&noise(1 << 20)).unwrap();
        file.set_len(SIZE).unwrap(); // zeros, which cost no room
        drop(file);
        let limited = |words: &str| {
            let mut command = repo.program("sh");
            command.args(["-c", &format!("ulimit -d 65536 && {words}")]).env("packstone", PROGRAM);
            String::from_utf8(succeeded(output(&mut command, b""))).unwrap().trim().to_owned()
        };
        let want = repo.git_str(["-c", "core.bigFileThreshold=1m", "hash-object", "large"]);
        assert_eq!(limited("\"$packstone\" hash-object large"), want);
        assert_eq!(limited("cat large | \"$packstone\" hash-object --stdin"), want);
        assert!(repo.try_git(["cat-file", "-e", &want], b"").status.code() != Some(0));
        assert_eq!(limited("\"$packstone\" hash-object -w large"), want);
        assert_eq!(repo.git_str(["cat-file", "-s", &want]), SIZE.to_string());
        repo.git(["prune", "--expire=now"]);
        assert_eq!(limited("cat large | \"$packstone\" hash-object -w --stdin"), want);
        assert_eq!(limited("\"$packstone\" hash-object -w --stdin <large"), want);
        repo.git(["prune", "--expire=now"]);
        // Into a pack, and not into a second one.
        for _ in 0..2 {
            assert_eq!(limited("\"$packstone\" -c core.bigFileThreshold=1m hash-object -w large"), want);
        }
        assert_eq!(repo.ids_of_pack(&repo.only_pack()).len(), 1);
        assert_eq!(repo.git_str(["count-objects"]), "0 objects, 0 kilobytes");
        assert_eq!(repo.git_str(["cat-file", "-s", &want]), SIZE.to_string());
        repo.fsck();
    }
}

/// And comes out again, mapped pages of its pack included: looked at while all but the last part has been read.
#[cfg(target_os = "linux")]
#[test]
fn large_blobs_come_out_within_64_mib() {
    const SIZE: usize = 80 << 20;
    for (hash, threshold) in [(Hash::Sha1, "1m"), (Hash::Sha256, "1g")] {
        let repo = TestRepo::init(hash);
        let content = Rng::new(1).bytes(SIZE);
        repo.write("large", &content);
        let set = format!("core.bigFileThreshold={threshold}");
        let id =
            String::from_utf8(succeeded(packstone(&repo, &["-c", &set, "hash-object", "-w", "large"], ""))).unwrap();
        assert_eq!(repo.packs().len(), usize::from(threshold == "1m"));
        let mut command = repo.program(PROGRAM);
        command.args(["cat-file", "blob", id.trim()]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut read = vec![0; SIZE - (1 << 20)];
        out.read_exact(&mut read).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        out.read_to_end(&mut read).unwrap();
        assert!(child.wait().unwrap().success() && read == content);
        assert!(peak < 64 << 10, "{peak} KiB");
    }
}
