//! Wrong command lines: git's exit codes and git's words.
//!
//! The words are those of git 2.55 (commit 1a3e64c6c), checked by running it; older releases word some otherwise.

use testkit::repo::{Hash, TestRepo};

use crate::{packstone, said, succeeded};

#[test]
fn wrong_options() {
    let repo = TestRepo::linear(Hash::Sha1, 3);
    let table = [
        ("--foo", 129, "error: unknown option `foo'"),
        ("-x", 129, "error: unknown switch `x'"),
        ("--window=abc foo", 129, "error: option `window' expects an integer value with an optional k/m/g suffix"),
        ("--window", 129, "error: option `window' requires a value"),
        (
            "--window=99999999999 x",
            129,
            "error: value 99999999999 for option `window' not in range [-2147483648,2147483647]",
        ),
        ("--re foo", 129, "error: ambiguous option: re (could be --revs or --reflog)"),
        (
            "--max-pack-size=-1 x",
            129,
            "error: option `max-pack-size' expects a non-negative integer value with an optional k/m/g suffix",
        ),
        ("--no-index-version x", 129, "error: unknown option `no-index-version'"),
        ("--quiet=1 x", 129, "error: option `quiet' takes no value"),
        ("--no-window=3 x", 129, "error: option `no-window' takes no value"),
        ("-progress", 129, "error: did you mean `--progress` (with two dashes)?"),
        (
            "--stdout foo",
            129,
            "usage: packstone pack-objects [-q | --progress | --all-progress] [--all-progress-implied]",
        ),
        ("", 129, "usage: packstone pack-objects [-q | --progress | --all-progress] [--all-progress-implied]"),
        ("a b", 129, "usage: packstone pack-objects [-q | --progress | --all-progress] [--all-progress-implied]"),
        ("--thin foo", 128, "fatal: --thin cannot be used to build an indexable pack"),
        ("--stdout --max-pack-size=5m", 128, "fatal: --max-pack-size cannot be used to build a pack for transfer"),
        ("--compression=12 x", 128, "fatal: bad pack compression level 12"),
        ("--index-version=3 x", 128, "fatal: unsupported index version 3"),
        ("--index-version=1,abc x", 128, "fatal: bad index version '1,abc'"),
        ("--missing=foo x", 128, "fatal: invalid value for '--missing': 'foo'"),
        ("--filter=foo x", 128, "fatal: invalid filter-spec 'foo'"),
        ("--filter=tree:x x", 128, "fatal: expected 'tree:<depth>'"),
        ("--filter=sparse:path=x x", 128, "fatal: sparse:path filters support has been dropped"),
        ("--name-hash-version=4 --stdout", 128, "fatal: invalid --name-hash-version option: 4"),
        (
            "--keep-unreachable --unpack-unreachable x",
            128,
            "fatal: options '--keep-unreachable' and '--unpack-unreachable' cannot be used together",
        ),
        ("--stdin-packs --revs x", 128, "fatal: cannot use internal rev list with --stdin-packs"),
        (
            "--stdin-packs --filter=blob:none x",
            128,
            "fatal: options '--stdin-packs' and '--filter' cannot be used together",
        ),
        ("--stdin-packs=odd x", 128, "fatal: invalid value for 'stdin-packs': 'odd'"),
        ("--cruft --all x", 128, "fatal: cannot use internal rev list with --cruft"),
    ];
    for (words, code, first) in table {
        let words: Vec<&str> = ["pack-objects"].into_iter().chain(words.split_whitespace()).collect();
        let (got, text) = said(&packstone(&repo, &words, ""));
        assert_eq!((got, text.lines().next()), (Some(code), Some(first)), "{words:?}");
    }
}

/// What belongs to later work is parsed, and refused by name.
#[test]
fn not_yet() {
    let repo = TestRepo::linear(Hash::Sha1, 3);
    for (words, what) in [
        ("--stdin-packs x", "option `stdin-packs'"),
        ("--cruft x", "option `cruft'"),
        ("--cruft-expiration=now x", "option `cruft'"),
        ("--keep-unreachable --all x", "option `keep-unreachable'"),
        ("--pack-loose-unreachable --all x", "option `pack-loose-unreachable'"),
        ("--unpack-unreachable=2.weeks.ago --all x", "option `unpack-unreachable'"),
        ("--write-bitmap-index --all x", "option `write-bitmap-index'"),
        ("--write-bitmap-index-quiet --all x", "option `write-bitmap-index'"),
        ("--max-pack-size=1m x", "option `max-pack-size'"),
        ("--delta-islands --all x", "option `delta-islands'"),
        ("--uri-protocol=https --stdout", "option `uri-protocol'"),
        ("--path-walk --all x", "option `path-walk'"),
    ] {
        let words: Vec<&str> = ["pack-objects"].into_iter().chain(words.split_whitespace()).collect();
        assert_eq!(
            said(&packstone(&repo, &words, "")),
            (Some(129), format!("error: {what} is not supported yet\n")),
            "{words:?}"
        );
        assert_eq!(repo.scratch().read_dir().unwrap().count(), 0);
    }
    // Their negations change nothing.
    let words = "pack-objects --stdout --revs -q --no-cruft --no-stdin-packs --no-delta-islands --no-path-walk \
                 --no-write-bitmap-index --no-keep-unreachable --no-max-pack-size --no-uri-protocol";
    let words: Vec<&str> = words.split_whitespace().collect();
    succeeded(packstone(&repo, &words, "HEAD\n"));
}

#[test]
fn global_options() {
    let repo = TestRepo::linear(Hash::Sha1, 1);
    for (words, code, first) in [
        (&["--nonsense", "pack-objects"][..], 129, "unknown option: --nonsense"),
        (&["-c"], 129, "-c expects a configuration string"),
        (
            &["--config-env=a.b=NOT_SET", "pack-objects", "x"],
            128,
            "fatal: missing environment variable 'NOT_SET' for configuration 'a.b'",
        ),
        (
            &["-C", "/no/such/place", "pack-objects", "x"],
            128,
            "fatal: cannot change to '/no/such/place': No such file or directory",
        ),
        (
            &["-c", "novalue", "pack-objects", "x"],
            128,
            "fatal: unable to parse command-line config (key does not contain a section: novalue)",
        ),
        (&["frobnicate"], 1, "packstone: 'frobnicate' is not a packstone command. See 'packstone --help'."),
    ] {
        let (got, text) = said(&packstone(&repo, words, ""));
        assert_eq!((got, text.lines().next()), (Some(code), Some(first)), "{words:?}");
    }
    assert_eq!(said(&packstone(&repo, &[], "")).0, Some(1));
}

#[test]
fn help() {
    let repo = TestRepo::linear(Hash::Sha1, 1);
    let text = |words: &[&str], code: i32| {
        let output = packstone(&repo, words, "");
        assert_eq!(said(&output), (Some(code), String::new()), "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(text(&["--version"], 0).starts_with("packstone version "));
    assert!(text(&["--help"], 0).contains("pack-objects"));
    // `-h` is git's short list, on standard output, with git's odd exit code; `--help` is a page.
    let short = text(&["pack-objects", "-h"], 129);
    let long = text(&["pack-objects", "--help"], 0);
    assert_eq!(long, text(&["--help", "pack-objects"], 0));
    assert_eq!(long, text(&["help", "pack-objects"], 0));
    for option in short.lines().filter(|line| line.trim_start().starts_with("--")) {
        assert!(long.contains(option));
    }
    assert!(long.contains("packstone.verifyReuse"));
    assert!(text(&["hook", "--help"], 0).contains("uploadpack.packObjectsHook"));
}

/// Every option of git's table exists here, with the same abbreviations.
#[test]
fn every_option_of_git() {
    let repo = TestRepo::linear(Hash::Sha1, 1);
    let long = String::from_utf8(packstone(&repo, &["pack-objects", "--help"], "").stdout).unwrap();
    for option in
        "quiet progress all-progress all-progress-implied index-version max-pack-size local incremental window \
                   window-memory depth reuse-delta reuse-object delta-base-offset threads non-empty revs unpacked all \
                   reflog indexed-objects stdin-packs stdout include-tag keep-unreachable pack-loose-unreachable \
                   unpack-unreachable cruft cruft-expiration sparse thin path-walk shallow honor-pack-keep keep-pack \
                   compression keep-true-parents use-bitmap-index write-bitmap-index filter missing \
                   exclude-promisor-objects exclude-promisor-objects-best-effort delta-islands uri-protocol \
                   name-hash-version"
            .split_whitespace()
    {
        let there = long.lines().any(|line| {
            line.split_whitespace().any(|word| {
                let word = word.trim_start_matches("--").trim_start_matches("[no-]");
                word.split(['=', '[', ' ']).next() == Some(option)
            })
        });
        assert!(there, "{option}");
    }
}
