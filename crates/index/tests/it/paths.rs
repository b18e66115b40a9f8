//! S3: which paths may enter an index, beside what `git update-index` lets in.

use std::collections::BTreeSet;

use packstone_index::Mode;
use packstone_index::path::{PathChecks, PathErrorKind, check, check_name};
use testkit::io::Rng;
use testkit::{Hash, TestRepo};

const FILE: Mode = Mode(0o100_644);
const LINK: Mode = Mode(0o120_000);
const DIRECTORY: Mode = Mode(0o040_000);

/// The paths of these that git does not let in. It names each on its standard error.
fn git_refuses(repo: &TestRepo, paths: &BTreeSet<Vec<u8>>, mode: Mode, checks: PathChecks) -> BTreeSet<Vec<u8>> {
    let blob = "1".repeat(repo.hash().hex_len());
    let mut input = Vec::new();
    for path in paths {
        input.extend_from_slice(format!("{:06o} {blob}\t", mode.0).as_bytes());
        input.extend_from_slice(path);
        input.push(0);
    }
    let (ntfs, hfs) = (format!("core.protectNTFS={}", checks.ntfs), format!("core.protectHFS={}", checks.hfs));
    // --replace: some of the paths are directories of others.
    let output = repo.try_git(["-c", &ntfs, "-c", &hfs, "update-index", "--replace", "-z", "--index-info"], &input);
    assert!(output.status.success(), "{}", output.stderr.escape_ascii());
    let lines = output.stderr.split(|&b| b == b'\n');
    lines.filter_map(|line| line.strip_prefix(b"Ignoring path ")).map(<[u8]>::to_vec).collect()
}

/// Git does not look at a component's first byte when it looks for backslashes, so that `\.git` is let in on systems
/// where `\` is an ordinary byte; its fsck then says `hasDotgit`. Windows would take it for `.git`. We refuse it.
fn known_difference(path: &[u8]) -> bool {
    path.split(|&b| b == b'/').any(|name| name.starts_with(b"\\"))
}

fn agree(paths: BTreeSet<Vec<u8>>) {
    let repo = TestRepo::init(Hash::Sha1);
    for (ntfs, hfs) in [(true, false), (false, false), (false, true), (true, true)] {
        for mode in [FILE, LINK] {
            let checks = PathChecks::default().ntfs(ntfs).hfs(hfs);
            let refused = git_refuses(&repo, &paths, mode, checks);
            assert!(refused.len() > 100 && refused.len() < paths.len() - 100, "the paths tell little");
            let mut differ = 0;
            for path in &paths {
                let ours = check(path, mode, checks);
                if ours.is_err() != refused.contains(path) {
                    assert!(
                        ours.is_err() && known_difference(path),
                        "'{}' as {:o} with {checks:?}: {ours:?}",
                        path.escape_ascii(),
                        mode.0
                    );
                    differ += 1;
                }
            }
            assert_eq!(differ > 0, ntfs, "the known difference has gone");
        }
    }
}

#[test]
fn s3_every_disguise_is_seen_where_git_sees_it() {
    let before = ["", "a/", "a/b/", "a\\", "\\", "a/\\", "a\\\\", "./", "../", "/", "a//", "a/./", "a/../", "\u{200c}"];
    let names = [
        ".git",
        ".GIT",
        ".Git",
        "git~1",
        "GIT~1",
        "gIt~1",
        "git~2",
        "git~11",
        "git~",
        "git",
        ".gi",
        ".gitt",
        ".g\u{200c}it",
        "\u{feff}.git",
        ".\u{202a}git",
        ".gi\u{206f}t",
        ".git\u{200f}",
        ".gi\u{200b}t",
        ".g\u{130}t",
        ".gıt",
        ".",
        "..",
        "...",
        ".gitmodules",
        ".GITMODULES",
        ".gitModules",
        "gitmod~1",
        "GITMOD~4",
        "gitmod~5",
        "gitmod~0",
        "gitmod~12",
        "gitmo~1",
        "gi7eba~1",
        "GI7EBA~9",
        "gi7eba~0",
        "gi7eb~10",
        "gi7eb~01",
        "gi7~1000",
        "gi7~100a",
        "~1000000",
        "~9999999",
        "~0000000",
        "gi7ebax1",
        "gi7eba~",
        "gi7d29~1",
        ".gitmodules\u{200d}",
        ".git\u{200d}modules",
        ".gitignore",
        "x",
        "con",
        "c:",
    ];
    let after = [
        "",
        ".",
        " ",
        ". .",
        "..",
        "  x",
        ":",
        ":x",
        "::$INDEX_ALLOCATION",
        ". :x",
        "\\",
        "\\x",
        ". \\x",
        "/",
        "/x",
        " /x",
        ":/x",
        "~",
        "1",
        "x",
        "\u{200c}",
        "\u{200c}/x",
        "\u{200c}x",
        "\u{ffff}",
        "\u{fffe}x",
        "/.git",
        "/..",
        "/.",
        "\\.git",
        "\\..",
        "\\git~1",
        "\\.gitmodules",
        "\\.gitmodules\\",
        "\\gitmod~1 /x",
    ];
    let mut paths = BTreeSet::new();
    for before in before {
        for name in names {
            for after in after {
                paths.insert(format!("{before}{name}{after}").into_bytes());
            }
            // Bytes that are no UTF-8: alone, cut short, overlong, a surrogate, beyond the last character.
            for raw in
                [&b"\xff"[..], b"\xe2\x80", b"\xe2\x80/x", b"\xc0\xae", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80x"]
            {
                paths.insert([before.as_bytes(), name.as_bytes(), raw].concat());
                paths.insert([before.as_bytes(), raw, name.as_bytes()].concat());
            }
        }
    }
    agree(paths);
}

#[test]
fn s3_strings_of_the_letters_that_matter() {
    let parts =
        [".", "g", "i", "t", "G", "~", "1", "\\", "/", " ", ":", "x", ".git", ".gitmodules", "git~1", "\u{200c}"];
    let mut rng = Rng::new(3);
    let mut paths = BTreeSet::new();
    for _ in 0..6000 {
        let len = 1 + rng.below(8);
        let path = (0..len).map(|_| parts[rng.below(parts.len() as u64) as usize]).collect::<String>();
        paths.insert(path.into_bytes());
    }
    agree(paths);
}

#[test]
fn s3_the_reason_and_the_place_are_told() {
    let checks = PathChecks::default().hfs(true);
    for (path, mode, at, kind) in [
        (&b""[..], FILE, 0, PathErrorKind::Empty),
        (b"", DIRECTORY, 0, PathErrorKind::Empty),
        (b"/", DIRECTORY, 0, PathErrorKind::Absolute),
        (b"/abs", FILE, 0, PathErrorKind::Absolute),
        (b"a//b", FILE, 2, PathErrorKind::Empty),
        (b"a/", FILE, 2, PathErrorKind::Empty),
        (b"a//", DIRECTORY, 2, PathErrorKind::Empty),
        (b"ab/./c", FILE, 3, PathErrorKind::Dot),
        (b"../x", FILE, 0, PathErrorKind::Dot),
        (b"x/..", FILE, 2, PathErrorKind::Dot),
        (b"x/.git/", DIRECTORY, 2, PathErrorKind::DotGit),
        (b"x/.Git/y", FILE, 2, PathErrorKind::DotGit),
        (b"x/y\\git~1", FILE, 4, PathErrorKind::DotGit),
        (b"x/.git\xe2\x80\x8d/y", FILE, 2, PathErrorKind::DotGit),
        (b".gitmodules", LINK, 0, PathErrorKind::GitModules),
        (b"x/GI7EBA~1. ", LINK, 2, PathErrorKind::GitModules),
        (b"a/b\0c", FILE, 3, PathErrorKind::Nul),
    ] {
        let error = check(path, mode, checks).unwrap_err();
        assert_eq!((error.at, error.kind), (at, kind), "{}", path.escape_ascii());
    }
    for (path, mode) in [(&b"a/"[..], DIRECTORY), (b"a/b/", DIRECTORY), (b".gitmodules", FILE), (&[b'x'; 5000], FILE)] {
        assert_eq!(check(path, mode, checks), Ok(()), "{}", path.escape_ascii());
    }
}

#[test]
fn s3_names_in_trees() {
    let checks = PathChecks::default();
    for (name, mode, kind) in [
        (&b""[..], FILE, PathErrorKind::Empty),
        (b"a/b", FILE, PathErrorKind::Slash),
        (b"a/", DIRECTORY, PathErrorKind::Slash),
        (b"a\0", FILE, PathErrorKind::Nul),
        (b"..", DIRECTORY, PathErrorKind::Dot),
        (b".GIT", DIRECTORY, PathErrorKind::DotGit),
        (b".gitmodules:x", LINK, PathErrorKind::GitModules),
    ] {
        assert_eq!(check_name(name, mode, checks).unwrap_err().kind, kind, "{}", name.escape_ascii());
    }
    assert_eq!(check_name(b"git~1", FILE, checks.ntfs(false)), Ok(()));
}
