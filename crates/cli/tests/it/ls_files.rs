//! `ls-files` beside git's: the same bytes, exit codes and words.
//!
//! Known differences, all where git's own answer is at odds with its documentation: with several pathspecs, git compares
//! an excluding one only from the length of what the others have in common on, and so `git ls-files -- src/x ':!abc'` lists
//! nothing; and with `--resolve-undo` it does not look at that beginning at all.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, packstone, said};

/// Paths that have to be quoted, that look like patterns, and that differ in case only.
const PATHS: &[&str] = &[
    "*",
    "A",
    "D/x",
    "[x]",
    "a",
    "a b",
    "ab/c/d.c",
    "ab/c/e.h",
    "ab/x.c",
    "ab/\u{e4}",
    "back\\slash",
    "d/*/ab",
    "d/a",
    "d/e/ab",
    "d/e/q\"q",
    "d/e/x.c",
    "d/tab\there",
    "x.c",
    "z",
    "\u{f6}/b",
];

fn git_and_we(repo: &TestRepo, dir: &Path, dress: impl Fn(&mut Command)) -> (Output, Output) {
    let run = |mut command: Command| {
        dress(command.current_dir(dir));
        output(&mut command, b"")
    };
    (run(repo.command()), run(repo.program(PROGRAM)))
}

/// The same call of both gives the same.
#[track_caller]
fn same_in(repo: &TestRepo, dir: &str, words: &[&str]) {
    let (git, we) = git_and_we(repo, &repo.path().join(dir), |command| _ = command.args(words));
    // git gives a hint when it expands a sparse index.
    let (code, text) = said(&git);
    let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with("hint: ")).collect();
    assert_eq!(said(&we), (code, text), "{words:?} in '{dir}'");
    let at = we.stdout.iter().zip(&git.stdout).take_while(|(one, two)| one == two).count();
    let shown = |output: &Output| output.stdout.iter().skip(at).take(200).copied().collect::<Vec<u8>>();
    let (we, git) = (shown(&we), shown(&git));
    assert_eq!(we.escape_ascii().to_string(), git.escape_ascii().to_string(), "{words:?} in '{dir}', from byte {at}");
}

/// A repository with all of [`PATHS`], some with flags, and some conflicts, one of them resolved.
fn odd(hash: Hash) -> TestRepo {
    let repo = TestRepo::init(hash);
    let [one, two] = [&b"one\n"[..], b"number two\n"].map(|bytes| repo.hash_object("blob", bytes));
    let mut info = String::new();
    for (nr, path) in PATHS.iter().enumerate() {
        let mode = ["100644", "100644", "100755", "120000", "160000"][nr % 5];
        let stages: &[u8] = match nr % 7 {
            3 => &[1, 3],
            5 => &[1, 2, 3],
            _ => &[0],
        };
        for stage in stages {
            info.push_str(&format!("{mode} {} {stage}\t{path}\0", if nr % 2 == 0 { &one } else { &two }));
        }
    }
    repo.git_with(["update-index", "-z", "--index-info"], info.as_bytes());
    repo.git(["update-index", "--assume-unchanged", "--", "a", "d/e/x.c"]);
    repo.git(["update-index", "--skip-worktree", "--", "z", "d/e/x.c"]);
    repo.git(["update-index", "--cacheinfo", &format!("100644,{one},x.c")]);
    repo.write("seen", b"by lstat\n");
    repo.git(["add", "seen"]);
    repo.write("intended", b"");
    repo.git(["add", "--intent-to-add", "intended"]);
    for dir in ["d/e", "ab/c", "\u{f6}", "[x]", "D"] {
        std::fs::create_dir_all(repo.path().join(dir)).unwrap();
    }
    repo
}

const FORMAT: &str = "--format=%(objectmode) %(objectname) %(objecttype) %(objectsize) %(objectsize:padded) %(stage) %(path)%x00%x4a%%%n.";

#[test]
fn options() {
    for hash in Hash::ALL {
        let repo = odd(hash);
        for change in [&[][..], &["update-index", "--index-version=4"], &["update-index", "--split-index"]] {
            if !change.is_empty() {
                repo.git(change);
            }
            for dir in ["", "d", "d/e", "ab/c", "\u{f6}"] {
                for options in [
                    "",
                    "-c",
                    "-s",
                    "-t",
                    "-v",
                    "-f",
                    "-u",
                    "-z",
                    "--debug",
                    "--sparse",
                    "--deduplicate",
                    "--full-name",
                    "--abbrev -s",
                    "--abbrev=5 -s",
                    "--abbrev=0 -s",
                    "--abbrev=99 -s",
                    "--abbrev --no-abbrev -s",
                    "-t -s",
                    "-v -u",
                    "-s -z --full-name",
                    "--deduplicate -t",
                    "--deduplicate -v",
                    "--deduplicate -u",
                    "-u -z -t",
                    "--stage --no-stage",
                    "--unmerged --debug",
                    "-c -u",
                    "--exclude-standard -x a",
                    "--no-cached",
                    "--format=%(path)",
                    "--format=%(stage)%x09%(path) -u",
                    "--format=%(path) -z",
                    "--debug --format=%(path)",
                ] {
                    same_in(
                        &repo,
                        dir,
                        &["ls-files"].into_iter().chain(options.split_whitespace()).collect::<Vec<_>>(),
                    );
                }
                same_in(&repo, dir, &["-c", "core.quotePath=false", "ls-files"]);
                same_in(&repo, dir, &["ls-files", FORMAT, "--", ":/a", ":/z", ":/ab"]);
            }
            for options in [&["--resolve-undo"][..], &["--resolve-undo", "-t"], &["--resolve-undo", "-s", "-v"]] {
                same_in(&repo, "", &[&["ls-files"][..], options].concat());
                same_in(&repo, "", &[&["ls-files", "--abbrev=6"][..], options, &["x.c"]].concat());
            }
        }
    }
}

#[test]
fn pathspecs() {
    let repo = odd(Hash::Sha1);
    let absolute = repo.path().join("d/e").to_string_lossy().into_owned();
    let specs = [
        "a",
        "A",
        "d",
        "d/",
        "d/e",
        "d/e/",
        "d/e/..",
        ".",
        "./",
        "..",
        "../",
        "../d",
        "../../a",
        "x.c/",
        "d/a/",
        "*",
        "?",
        "**",
        "*.c",
        "**/*.c",
        "d/*",
        "d/**",
        "d/**/ab",
        "d/*/ab",
        "d/\\*/ab",
        "[x]",
        "[[]x]",
        "[a-z]",
        "[!a-z]",
        "*[",
        "a?b",
        "ab/*/d.c",
        "ab/?.c",
        "*/ab",
        "d*",
        "\\*",
        "[[:upper:]]*",
        "nothing",
        "d//e",
        "d/./e",
        ":/",
        ":",
        "::",
        ":/d",
        ":!d",
        ":^d",
        ":/!d",
        ":(top)d/e",
        ":(literal)*",
        ":(glob)*",
        ":(glob)d/*",
        ":(glob)**/ab",
        ":(icase)AB",
        ":(icase)D/E/*",
        ":(top,icase)D",
        ":(exclude)*.c",
        ":(exclude,icase)*.C",
        ":(glob,icase)D/*/AB",
        ":()a",
        ":(,)a",
        "back\\slash",
        "back\\\\slash",
        "\u{e4}",
        ":(glob)[x]",
        "d/tab\there",
        // Refused:
        ":(bad)a",
        ":(glob",
        ":(literal,glob)a",
        ":%a",
        ":(prefix:x)a",
        "../../..",
        "/etc/passwd",
        "",
        &absolute,
    ];
    for dir in ["", "d", "d/e", "[x]", "D"] {
        for spec in specs {
            same_in(&repo, dir, &["ls-files", "-s", "--", spec]);
            for global in ["--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs"] {
                same_in(&repo, dir, &[global, "ls-files", "--", spec]);
            }
        }
    }
    for specs in [
        &["a", "z"][..],
        &["z", "a", "a"],
        &["d/e", "ab"],
        &["d", ":!d/e"],
        &[":!d", ":!ab"],
        &["d/*", ":(exclude)*.c"],
        &["*.c", "*.h"],
        &["d/e/ab", "d/e/x.c"],
        &["d", "d/e"],
        &[":(icase)A", "z"],
    ] {
        for dir in ["", "d"] {
            same_in(&repo, dir, &[&["ls-files", "-t", "--"][..], specs].concat());
        }
    }
    for globals in [["--glob-pathspecs", "--noglob-pathspecs"], ["--literal-pathspecs", "--icase-pathspecs"]] {
        same_in(&repo, "", &[&globals[..], &["ls-files", "a"]].concat());
    }
    let (git, we) =
        git_and_we(&repo, repo.path(), |command| _ = command.env("GIT_LITERAL_PATHSPECS", "1").args(["ls-files", "*"]));
    assert_eq!((said(&we), we.stdout), (said(&git), git.stdout));
    // What is known to be different.
    let we = packstone(&repo, &["ls-files", "--", "d/e/x.c", ":!z.c"], "");
    assert_eq!(we.stdout, b"d/e/x.c\n");
    assert!(packstone(&repo, &["ls-files", "--", "a", ":(attr:x)b"], "").stdout.is_empty());
}

#[test]
fn unmatched() {
    let repo = odd(Hash::Sha256);
    for specs in [
        &["a"][..],
        &["nothing"],
        &["a", "nothing", "nothing"],
        &["nothing", "*.c", "no/*"],
        &["d", "d/e/"],
        &[":!e/ab", ":!z"],
        &["nothing", ":!z"],
        &["a", ":!nothing"],
        &[],
        &["ab/\u{e4}"],
    ] {
        for dir in ["", "d", "D"] {
            same_in(&repo, dir, &[&["ls-files", "--error-unmatch", "--"][..], specs].concat());
        }
    }
}

#[test]
fn abbreviations() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let mut info = String::new();
        for nr in 0..600 {
            let id = repo_blob(&repo, nr);
            info.push_str(&format!("100644 {id} 0\tfile{nr}\n"));
        }
        repo.git_with(["update-index", "--index-info"], info.as_bytes());
        for packed in [false, true] {
            if packed {
                repo.git_with(["pack-objects", "-q", ".git/objects/pack/pack"], info_ids(&info).as_bytes());
                repo.git(["prune-packed"]);
            }
            for options in [&["--abbrev"][..], &["--abbrev=1"], &["--abbrev=4"], &["--abbrev=-3"], &["--abbrev=7"]] {
                same_in(&repo, "", &[&["ls-files", "-s"][..], options].concat());
            }
            for setting in ["core.abbrev=4", "core.abbrev=no", "core.abbrev=auto", "core.abbrev=12"] {
                same_in(&repo, "", &["-c", setting, "ls-files", "-s", "--abbrev"]);
                same_in(&repo, "", &["-c", setting, "ls-files", "-s"]);
            }
        }
    }
}

/// What is not there must not look like what is (git since 2.55).
#[test]
fn abbreviations_of_missing_objects() {
    let repo = TestRepo::init(Hash::Sha1);
    let there = repo_blob(&repo, 7);
    let (begin, last) = there.split_at(there.len() - 1);
    let missing = format!("{begin}{}", if last == "0" { '1' } else { '0' });
    repo.git(["update-index", "--add", "--cacheinfo", &format!("100644,{missing},a")]);
    let output = packstone(&repo, &["ls-files", "-s", "--abbrev"], "");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("100644 {missing} 0\ta\n"));
}

fn repo_blob(repo: &TestRepo, nr: u32) -> String {
    repo.hash_object("blob", format!("{nr}\n").as_bytes())
}

fn info_ids(info: &str) -> String {
    let ids = info.lines().filter_map(|line| line.split(' ').nth(1));
    ids.map(|id| format!("{id}\n")).collect()
}

#[test]
fn sparse() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let files = ["folder/a", "folder/sub/x", "folder/sub/y", "other/z", "deep/x/y", "top"];
        repo.commit_files(&files.map(|path| (path, path.as_bytes())), "all");
        repo.git(["sparse-checkout", "set", "--cone", "--sparse-index", "deep"]);
        for words in [
            &[][..],
            &["--sparse"],
            &["-s"],
            &["--sparse", "-t"],
            &["--debug"],
            &["folder/sub/x"],
            &["folder/sub/"],
            &["folder"],
            &["folder/"],
            &["--sparse", "folder"],
            &["--sparse", "folder/"],
            &["--sparse", "folder/a"],
            &["*.y"],
            &["*y"],
            &["deep"],
            &["--format=%(objecttype) %(objectsize:padded) %(path)", "--sparse"],
            &["-u"],
            &["--deduplicate", "--sparse"],
        ] {
            for dir in ["", "deep"] {
                same_in(&repo, dir, &[&["ls-files"][..], words].concat());
            }
        }
        // What is there is not sparse.
        repo.write("other/z", b"in the way");
        for words in [&["-t"][..], &["--sparse", "-t"], &["--sparse", "-s"], &["--sparse", "other"]] {
            same_in(&repo, "", &[&["ls-files"][..], words].concat());
            same_in(&repo, "", &[&["-c", "sparse.expectFilesOutsideOfPatterns=true", "ls-files"][..], words].concat());
        }
        let before = std::fs::read(repo.git_dir().join("index")).unwrap();
        packstone(&repo, &["ls-files"], "");
        assert_eq!(std::fs::read(repo.git_dir().join("index")).unwrap(), before, "looking changes nothing");
    }
}

/// Wherever the repository is, and without an index.
#[test]
fn places() {
    let repo = odd(Hash::Sha1);
    let git_dir = repo.git_dir().to_string_lossy().into_owned();
    let scratch = repo.scratch();
    for words in [
        &["--git-dir", &git_dir, "ls-files"][..],
        &["--git-dir", &git_dir, "--work-tree", &scratch.to_string_lossy(), "ls-files", "d"],
        &["-C", &repo.path().join("d").to_string_lossy(), "ls-files"],
        &["--git-dir", &git_dir, "--bare", "ls-files", "a"],
    ] {
        let (git, we) = git_and_we(&repo, &scratch, |command| _ = command.args(words));
        assert_eq!((said(&we), we.stdout), (said(&git), git.stdout), "{words:?}");
    }
    same_in(&repo, ".git", &["ls-files"]);
    let empty = TestRepo::init(Hash::Sha1);
    same_in(&empty, "", &["ls-files", "-s"]);
    same_in(&empty, "", &["ls-files", "--format=%(bad)"]);
    let bare = TestRepo::bare(Hash::Sha256);
    same_in(&bare, "", &["ls-files"]);
    std::fs::write(empty.git_dir().join("index"), b"DIRC nonsense that is long enough to be an index file").unwrap();
    let (code, text) = said(&packstone(&empty, &["ls-files"], ""));
    assert_eq!(code, Some(128));
    assert!(text.contains("bad index version") && text.contains("fatal: index file corrupt"), "{text}");
}

#[test]
fn wrong_command_lines() {
    let repo = odd(Hash::Sha1);
    for (words, first) in [
        ("--format=x -s", "fatal: --format cannot be used with -s, -o, -k, -t, --resolve-undo, --deduplicate, --eol"),
        ("--format=x -o", "fatal: --format cannot be used with -s, -o, -k, -t, --resolve-undo, --deduplicate, --eol"),
        ("--format", "error: option `format' requires a value"),
        ("--abbrev=x", "error: option `abbrev' expects a numerical value"),
        ("--nonsense", "error: unknown option `nonsense'"),
        ("-y", "error: unknown switch `y'"),
        ("--no-full-name", "error: unknown option `no-full-name'"),
        ("-d", "error: option `deleted' is not supported yet"),
        ("-m", "error: option `modified' is not supported yet"),
        ("-o --exclude-standard", "error: option `others' is not supported yet"),
        ("-i -c", "error: option `ignored' is not supported yet"),
        ("-k", "error: option `killed' is not supported yet"),
        ("--with-tree=HEAD", "error: option `with-tree' is not supported yet"),
        ("--recurse-submodules", "error: option `recurse-submodules' is not supported yet"),
        ("--eol", "error: option `eol' is not supported yet"),
        ("-X file", "error: option `exclude-from' is not supported yet"),
        ("--format=%(eolinfo:index)", "error: format `eolinfo:index' is not supported yet"),
        ("--format=%(eolattr)", "error: format `eolattr' is not supported yet"),
    ] {
        let output = packstone(&repo, &["ls-files"].into_iter().chain(words.split(' ')).collect::<Vec<_>>(), "");
        let (code, text) = said(&output);
        assert_eq!((code, text.lines().next()), (Some(129), Some(first)), "{words}");
        assert!(output.stdout.is_empty());
    }
    for format in ["%", "%x", "%x4", "%(path", "%(bad)", "a%(path)%zz", "%%(path)%(objectsize:wrong)"] {
        same_in(&repo, "", &["ls-files", &format!("--format={format}")]);
    }
    // Its object is not there.
    let id = "1".repeat(repo.hash().hex_len());
    repo.git(["update-index", "--add", "--cacheinfo", &format!("100644,{id},missing")]);
    same_in(&repo, "", &["ls-files", "--format=%(objectsize) %(path)", "missing"]);
    same_in(&repo, "", &["ls-files", "--no-deleted", "--no-others", "--no-with-tree", "a"]);
}

/// Who reads only the beginning is not told off.
#[test]
fn a_reader_that_leaves() {
    let repo = TestRepo::init(Hash::Sha1);
    let id = repo.hash_object("blob", b"");
    let info: String = (0..40_000).map(|nr| format!("100644 {id} 0\tdirectory/file{nr:06}\n")).collect();
    repo.git_with(["update-index", "--index-info"], info.as_bytes());
    let mut child =
        repo.program(PROGRAM).args(["ls-files"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut line = [0; 21];
    stdout.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"directory/file000000\n");
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(said(&output), (Some(141), String::new()));
    same_in(&repo, "", &["ls-files"]);
    same_in(&repo, "", &["ls-files", "-s", "directory/file03*"]);
}

/// Many pathspecs that nobody thought of.
#[test]
fn any_pathspec() {
    let repo = odd(Hash::Sha256);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % below
    };
    let magic = ["", "", "", "", ":/", ":(icase)", ":(glob)", ":(literal)", ":(top,glob)", ":(top,icase)", ":"];
    let parts =
        ["a", "b", "c", "d", "e", "x", "A", "/", "/", ".c", "*", "**", "?", "[a-d]", "[!x]", "\\", "\u{e4}", ".", ".."];
    let dirs = ["", "", "d", "d/e", "D", "ab/c", "[x]"];
    for _ in 0..150 {
        let mut spec = magic[random(magic.len())].to_owned();
        match random(3) {
            0 => spec.push_str(&PATHS[random(PATHS.len())].replacen(['a', '/', 'x'], "*", 1)),
            1 => spec.push_str(&PATHS[random(PATHS.len())].replacen(['b', 'c'], "?", 1)),
            _ => (0..1 + random(5)).for_each(|_| spec.push_str(parts[random(parts.len())])),
        }
        same_in(&repo, dirs[random(dirs.len())], &["ls-files", "-t", "--", &spec]);
    }
}
