//! `cat-file` beside git's: the same bytes, exit codes and words.
//!
//! What the git that runs the tests may be too old for (`--filter`, `%(objectmode)`, `submodule`) is held against what
//! newer ones document.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Output, Stdio};
use std::time::Instant;

use testkit::repo::{Hash, TestRepo, growing, noise, output};

use crate::{PROGRAM, packstone, said, succeeded};

/// Standard output, exit code, and standard error without hints and the help behind a message.
fn shown(output: &Output) -> (String, Option<i32>, String) {
    let (code, text) = said(output);
    let text = text.split_inclusive('\n').filter(|line| !line.starts_with("hint: "));
    let text: String = text.take_while(|line| *line != "\n" && !line.starts_with("usage: ")).collect();
    (output.stdout.escape_ascii().to_string(), code, text)
}

/// The same call of both gives the same. Gives our output.
#[track_caller]
fn same(repo: &TestRepo, words: &[&str], input: &str) -> Output {
    let words = [&["cat-file"], words].concat();
    let git = repo.try_git(&words, input.as_bytes());
    let we = packstone(repo, &words, input);
    agree(&we, &git, &format!("{words:?}"));
    we
}

/// Both said the same. What is told of a difference is short.
#[track_caller]
fn agree(we: &Output, git: &Output, what: &str) {
    let ((we, our_code, our_text), (git, code, text)) = (shown(we), shown(git));
    assert_eq!((our_code, our_text), (code, text), "{what}");
    let at = we.bytes().zip(git.bytes()).take_while(|(one, two)| one == two).count().saturating_sub(60);
    let part = |text: &str| text.get(at..).unwrap_or_default().chars().take(200).collect::<String>();
    assert_eq!(part(&we), part(&git), "{what}, from byte {at}");
}

/// Everything there is, loose and in packs, some twice, some deltas, some in an alternate.
fn mixed(hash: Hash) -> TestRepo {
    let repo = TestRepo::rich(hash);
    repo.repack();
    repo.git(["config", "gc.auto", "0"]);
    let alternate = repo.scratch().join("alternate.git");
    repo.git(["init", "--quiet", "--bare", &format!("--object-format={}", hash.name()), alternate.to_str().unwrap()]);
    for (dir, text) in [(repo.git_dir(), "loose"), (&alternate, "elsewhere")] {
        repo.git_with(["--git-dir", dir.to_str().unwrap(), "hash-object", "-w", "--stdin"], text.as_bytes());
    }
    std::fs::write(repo.objects_dir().join("info/alternates"), format!("{}\n", alternate.join("objects").display()))
        .unwrap();
    // A second pack that repeats some of the first, and a loose copy.
    let ids: Vec<String> = repo.all_objects().into_iter().step_by(3).collect();
    let base = repo.objects_dir().join("pack/pack");
    repo.git_with(["pack-objects", "-q", base.to_str().unwrap()], (ids.join("\n") + "\n").as_bytes());
    repo
}

#[test]
fn one_object() {
    for hash in Hash::ALL {
        let repo = mixed(hash);
        let absent = "1".repeat(hash.hex_len());
        let tip = repo.rev_parse("main");
        let names = [
            "main",
            "main^{tree}",
            "main:",
            "main:growing",
            "main:src",
            "main:src/",
            "main:src//a0",
            "main:no/such",
            "main:growing/below",
            "main:module",
            "v1",
            "v2-nested",
            "v2-nested^{}",
            "blob-tag",
            "tree-tag",
            "light~2^2",
            "nothing",
            "nothing:path",
            ":path",
            ":1:path",
            "",
            &absent,
            &tip[..9],
            &tip[..3],
            &tip.to_uppercase(),
        ];
        for name in names {
            for words in [
                &["-e"][..],
                &["-p"],
                &["-t"],
                &["-s"],
                &["blob"],
                &["tree"],
                &["commit"],
                &["tag"],
                &["--allow-unknown-type", "-t"],
            ] {
                // Older versions answer so before they look at what it is.
                if !name.is_empty() {
                    same(&repo, &[words, &[name]].concat(), "");
                }
            }
        }
        for words in [
            &["-e", "-p", "main"][..],
            &["-p", "-t", "main"],
            &["--batch-all-objects", "-e"],
            &["-s"],
            &["-s", "main", "main"],
            &["main"],
            &["commit", "main", "main"],
            &["bogus", "main"],
            &["--batch", "--batch-check"],
            &["--batch", "main"],
            &["--batch", "-p"],
            &["--batch=%(nothing)"],
            &["--buffer", "-e", "main"],
            &["--batch-all-objects"],
            &["-z"],
            &["-Z"],
            &["--follow-symlinks", "-t", "main"],
            &["--path=x", "-p", "main"],
            &["--textconv"],
            &["--filters", "a", "b"],
            &["-x"],
        ] {
            same(&repo, words, "");
        }
    }
}

#[test]
fn not_supported() {
    let repo = mixed(Hash::Sha1);
    for (words, name) in [
        (&["--textconv", "main:growing"][..], "textconv"),
        (&["--filters", "main:growing"], "filters"),
        (&["--use-mailmap", "-p", "main"], "use-mailmap"),
        (&["--mailmap", "--batch"], "mailmap"),
        (&["--batch", "--textconv"], "textconv"),
    ] {
        let output = packstone(&repo, &[&["cat-file"], words].concat(), "");
        assert_eq!(said(&output), (Some(129), format!("error: option `{name}' is not supported yet\n")));
    }
    for command in ["mailmap true", "remote-object-info origin x"] {
        let (code, text) = said(&packstone(&repo, &["cat-file", "--batch-command"], command));
        assert_eq!(code, Some(128));
        assert!(text.starts_with("fatal: command '") && text.ends_with("' is not supported yet\n"), "{text}");
    }
}

#[test]
fn lines() {
    for hash in Hash::ALL {
        let repo = mixed(hash);
        let mut names: Vec<String> = repo.all_objects().into_iter().collect();
        let absent = "1".repeat(hash.hex_len());
        let short = names[7][..8].to_owned();
        for name in [
            "main",
            "nothing",
            "",
            "v1^{}",
            "main:growing",
            "main:link",
            ":x",
            "x y",
            "main~3:src and more",
            "main\t\tx",
            "main:no/such",
            "0123",
            "deadbeef",
            "^main",
            "main..side",
            &absent,
            &short,
            &"0".repeat(hash.hex_len() + 1),
        ] {
            names.push(name.to_owned());
        }
        let lines = names.join("\n");
        let formats = [
            "%(objectname) %(objecttype) %(objectsize)",
            "",
            "%(objectname)",
            "%(objectsize)=%(objecttype)",
            "%(objecttype) %(rest)|",
            "100%% %x",
        ];
        for option in ["--batch", "--batch-check"] {
            for format in formats {
                for more in [&[][..], &["--buffer"], &["--no-buffer"]] {
                    same(&repo, &[&[&format!("{option}={format}")[..]], more].concat(), &lines);
                }
            }
            same(&repo, &[option], &lines);
            same(&repo, &[option], &(lines.replace('\n', "\r\n") + "\n"));
            for zero in ["-z", "-Z"] {
                same(&repo, &[option, zero], &lines.replace('\n', "\0"));
                same(&repo, &[option, zero], &(lines.replace('\n', "\0") + "\0"));
            }
        }
        let commands: String = (names.iter().enumerate())
            .map(|(at, name)| format!("{} {name}\n", if at % 2 == 0 { "info" } else { "contents" }))
            .collect();
        for more in [&[][..], &["--buffer"]] {
            same(&repo, &[&["--batch-command"], more].concat(), &commands);
            same(&repo, &[&["--batch-command=%(objecttype) %(rest)"], more].concat(), &commands);
            same(&repo, &[&["--batch-command", "-Z"], more].concat(), &commands.replace('\n', "\0"));
        }
        same(&repo, &["--batch-command", "--buffer"], "info main\nflush\ncontents main\nflush\ninfo v1");
        for wrong in ["", "\n", " info main", "info", "flush now", "flush", "infomain", "unknown", "contents\n"] {
            same(&repo, &["--batch-command"], wrong);
        }
        // What is queued is not answered when something is wrong behind it.
        same(&repo, &["--batch-command", "--buffer"], "info main\nwrong");
        same(&repo, &["--batch-command"], "info main\nwrong");
    }
}

#[test]
fn disk_sizes_and_bases() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let lines: String = repo.all_objects().iter().map(|id| format!("{id}\n")).collect();
        let format = "--batch-check=%(objectname) %(objectsize:disk) %(deltabase)";
        let bases = |output: &Output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().filter(|line| !line.ends_with(&"0".repeat(hash.hex_len()))).count()
        };
        for rev in ["true", "false"] {
            for offsets in ["true", "false"] {
                repo.git(["-c", &format!("repack.useDeltaBaseOffset={offsets}"), "repack", "-adfq"]);
                repo.git(["config", "pack.readReverseIndex", rev]);
                assert!(bases(&same(&repo, &[format], &lines)) > 20, "no deltas to be told about");
                same(&repo, &[format, "--batch-all-objects"], "");
            }
        }
        let pack = repo.only_pack();
        let moved = repo.scratch().join("moved.pack");
        std::fs::rename(&pack, &moved).unwrap();
        let _ = std::fs::remove_file(pack.with_extension("idx"));
        repo.git_with(["unpack-objects", "-q"], &std::fs::read(&moved).unwrap());
        assert_eq!(bases(&same(&repo, &[format], &lines)), 0);
    }
}

#[test]
fn all_objects() {
    for hash in Hash::ALL {
        let repo = mixed(hash);
        for words in [&["--batch-check"][..], &["--batch"], &["--batch-check=%(objectname)"], &["--batch=x"]] {
            let words = [words, &["--batch-all-objects"]].concat();
            let ordered = same(&repo, &words, "");
            let unordered = succeeded(packstone(&repo, &[&["cat-file"], &words[..], &["--unordered"]].concat(), ""));
            assert_eq!(unordered.len(), ordered.stdout.len());
            if words[0].starts_with("--batch-check") {
                let sorted = |bytes: &[u8]| {
                    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
                    lines.sort();
                    lines
                };
                assert_eq!(sorted(&unordered), sorted(&ordered.stdout));
            }
        }
        // With one pack and nothing else, the order is that of the pack.
        let repo = TestRepo::rich(hash);
        repo.repack();
        same(&repo, &["--batch-all-objects", "--batch", "--unordered"], "");
        same(
            &repo,
            &["--batch-all-objects", "--batch-check=%(objectname) %(objectsize:disk)", "--unordered", "-Z"],
            "",
        );
    }
}

#[test]
fn filters() {
    for hash in Hash::ALL {
        let repo = mixed(hash);
        let all = succeeded(packstone(&repo, &["cat-file", "--batch-all-objects", "--batch-check"], ""));
        let all: Vec<(String, String, u64)> = String::from_utf8(all)
            .unwrap()
            .lines()
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                (words[0].to_owned(), words[1].to_owned(), words[2].parse().unwrap())
            })
            .collect();
        let input: String = all.iter().map(|(id, ..)| format!("{id}\n")).collect();
        type Leaves = fn(&str, u64) -> bool;
        let filters: [(&str, Leaves); 5] = [
            ("blob:none", |kind, _| kind == "blob"),
            ("blob:limit=100", |kind, size| kind == "blob" && size >= 100),
            ("blob:limit=1k", |kind, size| kind == "blob" && size >= 1024),
            ("object:type=tree", |kind, _| kind != "tree"),
            ("object:type=tag", |kind, _| kind != "tag"),
        ];
        for (filter, leaves_out) in filters {
            let option = format!("--filter={filter}");
            let (mut kept, mut told) = (String::new(), String::new());
            for (id, kind, size) in &all {
                let line = format!("{id} {kind} {size}\n");
                if leaves_out(kind, *size) {
                    told.push_str(&format!("{id} excluded\n"));
                } else {
                    kept.push_str(&line);
                    told.push_str(&line);
                }
            }
            assert!(told.contains("excluded") && !kept.is_empty());
            let run = |words: &[&str]| {
                let words = [&["cat-file", &option], words].concat();
                String::from_utf8_lossy(&succeeded(packstone(&repo, &words, &input))).into_owned()
            };
            assert_eq!(run(&["--batch-check", "--batch-all-objects"]), kept);
            assert_eq!(run(&["--batch-check"]), told);
            let names = told.replace(" excluded", "").lines().fold(String::new(), |names, line| names + &line[..8]);
            assert_eq!(run(&["--batch-check=%(objectname)"]).lines().fold(String::new(), |n, l| n + &l[..8]), names);
            let contents = run(&["--batch=%(objectname)"]);
            assert_eq!(contents.matches(" excluded\n").count(), told.matches(" excluded\n").count());
        }
        let said_of = |words: &[&str]| said(&packstone(&repo, &[&["cat-file"], words].concat(), ""));
        assert_eq!(
            said_of(&["--batch", "--filter=tree:1"]),
            (Some(129), "usage: objects filter not supported: 'tree'\n".to_owned())
        );
        assert_eq!(said_of(&["--filter=x"]), (Some(128), "fatal: invalid filter-spec 'x'\n".to_owned()));
        assert_eq!(
            said_of(&["-e", "main", "--filter=blob:none"]),
            (Some(129), "usage: objects filter only supported in batch mode\n".to_owned())
        );
    }
}

#[test]
fn modes_and_submodules() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let check = |format: &str, line: &str| {
            let output = packstone(&repo, &["cat-file", &format!("--batch-check={format}")], line);
            String::from_utf8(succeeded(output)).unwrap()
        };
        assert_eq!(
            check("%(objectmode) %(objecttype)", "main:bin/run.sh\nmain:bin\nmain\n"),
            "100755 blob\n040000 tree\n commit\n"
        );
        assert_eq!(check("%(objectmode)", "main~35:link\nmain:bin/"), "120000\n040000\n");
        assert_eq!(check("%(objectmode)", "main:module"), format!("{} submodule\n", "1".repeat(hash.hex_len())));
    }
}

#[test]
fn replaced_objects() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.git(["config", "gc.auto", "0"]);
        let (old, new) = (repo.rev_parse("main~3"), repo.rev_parse("main~12"));
        repo.git(["replace", &old, &new]);
        let blob = repo.rev_parse("main:growing");
        let other = repo.hash_object("blob", b"something else");
        repo.git(["replace", &blob, &other]);
        let tree = repo.rev_parse("main~4^{tree}");
        repo.git(["replace", &tree, &repo.rev_parse("main~30^{tree}")]);
        let ids: String = repo.all_objects().iter().map(|id| format!("{id}\n")).collect();
        let lines = ids + "main~3\nmain~3^\nmain~4:growing\nmain:growing\nmain~3:merged\n";
        let run = |dress: &[&str], name: &str| {
            for words in [&["-p", name][..], &["-t", name], &["-s", name], &["-e", name]] {
                same(&repo, words, "");
            }
            for words in [&["--batch"][..], &["--batch-check"], &["--batch", "--batch-all-objects"]] {
                let words = [dress, &["cat-file"], words].concat();
                let git = repo.try_git(&words, lines.as_bytes());
                let we = packstone(&repo, &words, &lines);
                agree(&we, &git, &format!("{words:?}"));
            }
        };
        run(&[], "main~3");
        run(&["-c", "core.useReplaceRefs=false"], "main:growing");
        run(&["--no-replace-objects"], "main~4^{tree}");
        assert_ne!(
            packstone(&repo, &["cat-file", "-p", &blob], "").stdout,
            packstone(&repo, &["-c", "core.useReplaceRefs=false", "cat-file", "-p", &blob], "").stdout
        );
    }
}

#[test]
fn symbolic_links() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("file", b"file\n"), ("dir/sub/deep", b"deep\n"), ("dir/one", b"one\n")], "files");
    for (link, target) in [
        ("same", "file"),
        ("dirlink", "dir"),
        ("again", "same"),
        ("nowhere", "nope"),
        ("outside", "../up"),
        ("outside-dir", ".."),
        ("absolute", "/etc/passwd"),
        ("dir/up", "../file"),
        ("dir/up-dir", ".."),
        ("dir/far", "../../far"),
        ("dir/sub/far", "../../../far/"),
        ("dir/sub/up", "../up"),
        ("up-down", "dir/.."),
        ("up-down-slash", "dir/../"),
        ("up-two", "dirlink/sub/../../file"),
        ("loop1", "loop2"),
        ("loop2", "loop1"),
        ("slashes", "dir//sub///deep"),
    ] {
        std::os::unix::fs::symlink(target, repo.path().join(link)).unwrap();
    }
    let id = "1".repeat(40);
    repo.git(["add", "."]);
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{id},module")]);
    repo.git(["commit", "-qm", "links"]);
    let paths = [
        "file",
        "same",
        "again",
        "dirlink",
        "dirlink/one",
        "dirlink/no",
        "nowhere",
        "outside",
        "outside-dir",
        "absolute",
        "dir/up",
        "dir/up/below",
        "dir/up-dir",
        "dir/up-dir/file",
        "dir/up-dir/no",
        "dir/far",
        "dir/sub/far",
        "dir/sub/up",
        "up-down",
        "up-down-slash",
        "up-two",
        "loop1",
        "loop1/x",
        "slashes",
        "",
        "dir/",
        "dir//one",
        "file/x",
        "no",
        "module",
        "module/x",
        "outside-dir/x",
        "dir/sub/../one",
        "..",
        "/file",
        "dir/sub/deep/../x",
        "same/../file",
    ];
    let lines: String = paths.iter().map(|path| format!("HEAD:{path}\n")).collect();
    for words in [&["--batch-check"][..], &["--batch"], &["--batch-check", "-Z"]] {
        let input = if words.contains(&"-Z") { lines.replace('\n', "\0") } else { lines.clone() };
        let output = same(&repo, &[words, &["--follow-symlinks"]].concat(), &input);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for word in ["symlink ", "dangling ", "loop ", "notdir ", " missing"] {
            assert!(text.contains(word), "no '{word}'");
        }
    }
}

#[test]
fn paths_in_the_index() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("file", b"base\n"), ("dir/other", b"other\n")], "base");
        repo.git(["branch", "topic"]);
        repo.commit_files(&[("file", b"ours\n")], "ours");
        repo.checkout("topic");
        repo.commit_files(&[("file", b"theirs\n")], "theirs");
        let _ = repo.try_git(["merge", "main"], b"");
        repo.write("untracked", b"x");
        let names = [
            ":file",
            ":0:file",
            ":1:file",
            ":2:file",
            ":3:file",
            ":4:file",
            ":dir/other",
            ":./dir/other",
            ":dir",
            ":untracked",
            ":nothing",
            ":1:dir/other",
            ":",
            "HEAD:./file",
            "HEAD:dir/../file",
            "HEAD:untracked",
            "HEAD:./nothing",
        ];
        for name in names {
            for words in [&["-p"][..], &["-e"], &["-t"]] {
                same(&repo, &[words, &[name]].concat(), "");
            }
        }
        same(&repo, &["--batch-check"], &names.join("\n"));
        same(&repo, &["-p", "HEAD:../file"], "");
        // In a directory, from there.
        let below = |program: &str, name: &str| {
            let mut command = if program.is_empty() { repo.command() } else { repo.program(program) };
            output(command.current_dir(repo.path().join("dir")).args(["cat-file", "-p", name]), b"")
        };
        for name in ["HEAD:./other", "HEAD:other", "HEAD:../file", ":./other", ":other", "HEAD:./", "HEAD:../.."] {
            agree(&below(PROGRAM, name), &below("", name), name);
        }
    }
}

/// A client that asks one thing at a time gets its answers one at a time.
#[test]
fn answers_leave_before_waiting() {
    let repo = TestRepo::rich(Hash::Sha1);
    let id = repo.rev_parse("main:growing");
    for words in [&["--batch-check"][..], &["--batch"], &["--batch-command"], &["--batch-command", "--buffer"]] {
        let commands = words.contains(&"--batch-command");
        let mut command = repo.program(PROGRAM);
        command.arg("cat-file").args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut input, mut answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        for _ in 0..3 {
            let line = format!("{}{id}\n", if commands { "info " } else { "" });
            input.write_all(line.as_bytes()).unwrap();
            if words.contains(&"--buffer") {
                input.write_all(b"flush\n").unwrap();
            }
            let mut head = String::new();
            answers.read_line(&mut head).unwrap();
            let size = head.trim_end().strip_prefix(&format!("{id} blob ")).unwrap().parse::<usize>().unwrap();
            if words == ["--batch"] {
                let mut content = vec![0; size + 1];
                answers.read_exact(&mut content).unwrap();
            }
        }
        drop(input);
        assert!(child.wait().unwrap().success());
    }
}

/// Objects that are not held as a whole, in packs and loose, deflated and not.
#[test]
fn large_blobs() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.git(["config", "core.bigFileThreshold", "100k"]);
    let contents = [noise(3 << 20), vec![b'x'; 5 << 20], growing(20_000), Vec::new()];
    let ids: Vec<String> = contents.iter().map(|content| repo.hash_object("blob", content)).collect();
    let lines = ids.join("\n");
    for packed in [false, true] {
        if packed {
            let base = repo.objects_dir().join("pack/pack");
            repo.git_with(["pack-objects", "-q", base.to_str().unwrap()], (ids.join("\n") + "\n").as_bytes());
            assert_eq!(said(&packstone(&repo, &["prune-packed"], "")), (Some(0), String::new()));
        }
        for words in [&["--batch"][..], &["--batch", "--buffer"], &["--batch=%(objectsize) %(rest)", "-Z"]] {
            let input = if words.contains(&"-Z") { lines.replace('\n', "\0") } else { lines.clone() };
            same(&repo, words, &input);
        }
        for id in &ids {
            same(&repo, &["-p", id], "");
            same(&repo, &["blob", id], "");
        }
    }
}

/// Other copies serve where one is damaged; where there is none, what was answered before still is.
#[test]
fn damaged_objects() {
    let repo = TestRepo::init(Hash::Sha1);
    let (good, bad) = (repo.hash_object("blob", b"good"), repo.hash_object("blob", &noise(5000)));
    let path = repo.objects_dir().join(&bad[..2]).join(&bad[2..]);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let lines = format!("{good}\n{bad}\n{good}\n");
    let (output, started) = (packstone(&repo, &["cat-file", "--batch"], &lines), Instant::now());
    let (code, text) = said(&output);
    assert_eq!(code, Some(128));
    assert!(
        text.starts_with("error: ") && text.contains(&format!("fatal: unable to stream {bad} to stdout")),
        "{text}"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{good} blob 4\ngood\n"));
    assert!(started.elapsed().as_secs() < 5);
    // The header is sound.
    assert_eq!(said(&packstone(&repo, &["cat-file", "--batch-check"], &lines)).0, Some(0));
    std::fs::write(&path, b"").unwrap();
    let output = packstone(&repo, &["cat-file", "--batch-check"], &lines);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, format!("{good} blob 4\n{bad} missing\n{good} blob 4\n"));
    assert_eq!(said(&packstone(&repo, &["cat-file", "-p", &bad], "")).0, Some(128));
    assert_eq!(said(&packstone(&repo, &["cat-file", "-e", &bad], "")).0, Some(0));
}

/// Many answers are made by several threads; their order, and where they stop, stay the same.
#[test]
fn many_answers() {
    let repo = TestRepo::init(Hash::Sha1);
    let ids: Vec<String> =
        (0..300).map(|nth| repo.hash_object("blob", &[&noise(20_000 + 97 * nth)[..], &[nth as u8]].concat())).collect();
    let lines: String = (0..9).flat_map(|_| ids.iter().map(|id| format!("{id}\n"))).collect();
    let whole = same(&repo, &["--batch"], &lines).stdout;
    same(&repo, &["--batch", "--buffer"], &lines);
    same(&repo, &["--batch-check"], &lines);
    // Something goes wrong in the middle.
    let bad = repo.hash_object("blob", &noise(5000));
    let path = repo.objects_dir().join(&bad[..2]).join(&bad[2..]);
    let half = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &half[..half.len() / 2]).unwrap();
    let output = packstone(&repo, &["cat-file", "--batch"], &format!("{lines}{bad}\n{lines}"));
    let (code, text) = said(&output);
    assert_eq!(code, Some(128));
    assert!(text.ends_with(&format!("fatal: unable to stream {bad} to stdout\n")), "{text}");
    assert!(output.stdout == whole, "{} bytes of {}", output.stdout.len(), whole.len());
    let commands: String = lines.lines().map(|id| format!("contents {id}\n")).collect();
    let output = packstone(&repo, &["cat-file", "--batch-command"], &format!("{commands}wrong\n{commands}"));
    assert_eq!(said(&output), (Some(128), "fatal: unknown command: 'wrong'\n".to_owned()));
    assert!(output.stdout == whole, "{} bytes of {}", output.stdout.len(), whole.len());
    // The reader goes away while there is much more to write.
    let mut command = repo.program(PROGRAM);
    command.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let mut start = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    assert!(whole.starts_with(&start));
    assert_eq!(child.wait().unwrap().code(), Some(141));
    let _ = feeding.join().unwrap();
}
