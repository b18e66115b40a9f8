//! `index stat` and `index verify`, on sound files and on damaged ones.

use std::path::Path;

use testkit::repo::{Hash, TestRepo};

use crate::{packstone, said, succeeded};

/// A version 2 index of these entries (path, mode, id, stage), with whatever is to follow them and a zero trailer, which
/// says that there is no checksum.
pub(crate) fn raw_index(hash: Hash, entries: &[(&str, u32, &str, u16)], behind: &[u8]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend((entries.len() as u32).to_be_bytes());
    for (path, mode, id, stage) in entries {
        let at = bytes.len();
        bytes.extend([0; 24]);
        bytes.extend(mode.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend((0..hash.len()).map(|nr| u8::from_str_radix(&id[2 * nr..2 * nr + 2], 16).expect("digits")));
        bytes.extend((stage << 12 | path.len() as u16).to_be_bytes());
        bytes.extend(path.as_bytes());
        let len = (bytes.len() - at + 8) & !7;
        bytes.resize(at + len, 0);
    }
    bytes.extend(behind);
    bytes.extend(vec![0; hash.len()]);
    bytes
}

fn json(repo: &TestRepo, words: &[&str]) -> String {
    let words = [&["index", "stat", "--json"], words].concat();
    String::from_utf8(succeeded(packstone(repo, &words, ""))).unwrap()
}

/// Asserts that the JSON, white space aside, has these parts.
#[track_caller]
fn has(json: &str, parts: &[&str]) {
    let squeezed: String = json.split_whitespace().collect();
    for part in parts {
        assert!(squeezed.contains(part), "no {part} in {json}");
    }
}

#[test]
fn stat_of_everything() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        for (key, value) in [
            ("index.threads", "2"),
            ("index.recordEndOfIndexEntries", "true"),
            ("index.recordOffsetTable", "true"),
            ("core.untrackedCache", "true"),
        ] {
            repo.git(["config", key, value]);
        }
        repo.commit_files(&[("a/b/c", b"1"), ("a/d", b"2"), ("e/f", b"3"), ("g", b"4")], "all");
        repo.write("new/file", b"");
        repo.git(["update-index", "--assume-unchanged", "a/d"]);
        repo.git(["update-index", "--skip-worktree", "g"]);
        repo.git(["status"]);
        let path = repo.git_dir().join("index");
        let size = std::fs::metadata(&path).unwrap().len();
        let text = json(&repo, &[]);
        let format = format!("\"object_format\":\"{}\"", hash.name());
        has(
            &text,
            &[
                &format!("\"size\":{size}"),
                &format,
                "\"version\":3",
                "\"count\":4",
                "\"stages\":[4,0,0,0]",
                "\"assume_valid\":1",
                "\"skip_worktree\":1",
                "\"cache_tree\":{\"nodes\":4,\"valid\":2,\"invalid\":2}",
                "{\"name\":\"header\",\"at\":0,\"bytes\":12}",
                "{\"name\":\"entries\",\"at\":12,",
                "{\"name\":\"TREE\",",
                "{\"name\":\"UNTR\",",
                "{\"name\":\"EOIE\",",
                "\"untracked\":{\"directories\":",
                "\"offset_table\":{\"blocks\":",
                "\"split\":null",
                "\"damaged\":[]",
            ],
        );
        for region in ["map", "entries", "TREE", "UNTR", "FSMN", "others", "total"] {
            has(&text[text.find("nanoseconds").unwrap()..], &[&format!("\"{region}\":")]);
        }
        // The regions are all of the file.
        let numbers = |name: &str| -> Vec<u64> {
            let name = format!("\"{name}\": ");
            let regions = &text[text.find("\"regions\"").unwrap()..text.find("\"cache_tree\"").unwrap()];
            let values = regions.match_indices(&name).map(|(at, _)| &regions[at + name.len()..]);
            values.map(|rest| rest[..rest.find(['\n', ',']).unwrap()].parse().unwrap()).collect()
        };
        assert_eq!(numbers("bytes").iter().sum::<u64>(), size);
        assert!(numbers("at").is_sorted());
        let table = String::from_utf8(succeeded(packstone(&repo, &["index", "stat"], ""))).unwrap();
        for part in
            ["version       3, ", "entries       4\n", "skip worktree 1", "cache tree    4 nodes, 2 of them invalid"]
        {
            assert!(table.contains(part), "{table}");
        }
        assert!(table.lines().all(|line| !line.ends_with(' ')), "{table}");
        assert_eq!(said(&packstone(&repo, &["index", "verify"], "")), (Some(0), String::new()));

        // Outside of the repository its hash function has to be said.
        let scratch = repo.scratch();
        let copy = scratch.join("copy");
        std::fs::copy(&path, &copy).unwrap();
        let options = [copy.to_str().unwrap(), "--object-format", hash.name()];
        let words = |verb: &'static str| [&["-C", "/", "index", verb][..], &options].concat();
        let output = packstone(&repo, &words("stat"), "");
        assert!(String::from_utf8(succeeded(output)).unwrap().contains(hash.name()));
        assert_eq!(said(&packstone(&repo, &words("verify"), "")), (Some(0), String::new()));
        let guessed = packstone(&repo, &["-C", "/", "index", "verify", options[0]], "");
        assert_eq!(guessed.status.code(), Some(i32::from(hash == Hash::Sha256)));
    }
}

#[test]
fn stat_of_conflicts_and_split_indexes() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let id = repo.hash_object("blob", b"x");
        let info: String = [1, 2, 3].map(|stage| format!("100644 {id} {stage}\tconflict\n")).concat();
        repo.git_with(["update-index", "--index-info"], info.as_bytes());
        repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{id},module")]);
        has(&json(&repo, &[]), &["\"count\":4", "\"stages\":[1,1,1,1]", "\"gitlinks\":1", "\"resolve_undo\":null"]);
        repo.git(["update-index", "--cacheinfo", &format!("100644,{id},conflict")]);
        has(&json(&repo, &[".git/index"]), &["\"count\":2", "\"resolve_undo\":{\"paths\":1}"]);
        repo.git(["update-index", "--split-index"]);
        repo.git([
            "-c",
            "splitIndex.maxPercentChange=100",
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("100644,{id},new"),
        ]);
        let text = json(&repo, &[]);
        has(&text, &["\"count\":3", "\"shared_entries\":2", "\"deleted\":0"]);
        assert_eq!(said(&packstone(&repo, &["index", "verify"], "")), (Some(0), String::new()));

        // Damage to the shared index is told by its name.
        let shared = std::fs::read_dir(repo.git_dir()).unwrap().map(|entry| entry.unwrap().path());
        let shared = shared.filter(|path| path.to_string_lossy().contains("sharedindex")).last().unwrap();
        let mut bytes = std::fs::read(&shared).unwrap();
        bytes[20] ^= 1;
        make_writable(&shared);
        std::fs::write(&shared, &bytes).unwrap();
        let output = packstone(&repo, &["index", "verify"], "");
        let name = shared.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stdout).unwrap();
        let end = bytes.len() - hash.len();
        assert!(text.starts_with(&format!("{name}: byte {end}: error: trailer is ")), "{text}");
        std::fs::remove_file(&shared).unwrap();
        let output = packstone(&repo, &["index", "verify"], "");
        assert!(String::from_utf8(output.stdout).unwrap().contains("needs the shared index"));
        let (code, text) = said(&packstone(&repo, &["index", "stat"], ""));
        assert!(code == Some(128) && text.contains("needs the shared index"), "{text}");
    }
}

fn make_writable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
}

/// Every finding is a line with its place.
#[test]
fn findings() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let id = repo.hash_object("blob", b"x");
        let file = |path| (path, 0o100_644, id.as_str(), 0);
        let head = 42 + hash.len();
        let size = |path: &str| (head + path.len() + 8) & !7;
        let b = 12 + size("b");
        let data = b + size("../a") + 8;
        let cases: Vec<(Vec<u8>, String)> = vec![
            (raw_index(hash, &[file("b"), file("c")], b""), String::new()),
            // I13: required, too long, stray bytes, a bit for an entry that is not there.
            (
                raw_index(hash, &[file("b"), file("d/a")], b"abcd\0\0\0\x03123"),
                format!("byte {}: error: extension abcd is required and not known\n", data - 8),
            ),
            (
                raw_index(hash, &[file("b"), file("d/a")], b"TREE\xff\xff\xff\xf0"),
                format!(
                    "byte {}: error: an extension runs into the trailer; it and all behind it are lost\n",
                    data - 8
                ),
            ),
            (
                raw_index(hash, &[file("b"), file("d/a")], b"UNTR\0\0\0\x01x"),
                format!("byte {}: error: extension UNTR: environment is truncated\n", data + 1),
            ),
            // I6: lies.
            (raw_index(hash, &[file("b"), file("d/a")], b"TREE\0\0\0\x0d\0-1 1\nd\0-1 0\n"), String::new()),
            (
                raw_index(hash, &[file("b"), file("d/a")], b"TREE\0\0\0\x0d\0-1 1\nd\x009999 "),
                format!("byte {}: error: extension TREE: number of subtrees is truncated\n", data + 13),
            ),
            // I3: an offset table that is not about these entries, and no end of the entries beside it.
            (
                raw_index(
                    hash,
                    &[file("b"), file("d/a")],
                    b"IEOT\0\0\0\x14\0\0\0\x01\0\0\0\x0c\0\0\0\x01\0\0\0\x0d\0\0\0\x01",
                ),
                format!("byte {}: error: extension IEOT: block begins at 13, entry 2 is at {b}\n", data + 12),
            ),
            // S3, order, and a null id.
            (
                raw_index(hash, &[file("b"), file("../a")], b""),
                format!(
                    "byte {b}: error: '../a' (stage 0) is out of order\nbyte {}: error: path '../a': component '.' or '..'\n",
                    b + head
                ),
            ),
            (
                raw_index(hash, &[("n", 0o100_644, &"0".repeat(hash.hex_len()), 0)], b""),
                "byte 52: warning: 'n' names no object\n".into(),
            ),
        ];
        for (nr, (bytes, expected)) in cases.iter().enumerate() {
            let path = repo.scratch().join("index");
            std::fs::write(&path, bytes).unwrap();
            let output = packstone(&repo, &["index", "verify", path.to_str().unwrap()], "");
            let code = i32::from(!expected.is_empty());
            assert_eq!(String::from_utf8_lossy(&output.stdout), *expected, "case {nr}");
            assert_eq!(said(&output), (Some(code), String::new()), "case {nr}");
        }
    }
}

#[test]
fn wrong_command_lines() {
    let repo = TestRepo::init(Hash::Sha1);
    for (words, code, first) in [
        (&["index"][..], 129, "error: need a subcommand"),
        (&["index", "frob"], 129, "error: unknown subcommand: `frob'"),
        (&["index", "stat", "a", "b"], 129, "error: too many arguments"),
        (&["index", "verify", "--json"], 129, "error: unknown option `json'"),
        (&["index", "verify", "--object-format=md5"], 128, "fatal: unknown hash algorithm 'md5'"),
        (&["index", "stat", "nothing"], 128, "fatal: cannot open 'nothing': No such file or directory"),
        (&["index", "verify"], 128, "fatal: cannot open '.git/index': No such file or directory"),
        (&["-C", "/", "index", "stat"], 128, "fatal: not a git repository (or any of the parent directories): .git"),
    ] {
        let (got, text) = said(&packstone(&repo, words, ""));
        assert_eq!((got, text.lines().next()), (Some(code), Some(first)), "{words:?}");
    }
    assert_eq!(packstone(&repo, &["index", "-h"], "").status.code(), Some(129));
    assert!(String::from_utf8(succeeded(packstone(&repo, &["index", "--help"], ""))).unwrap().contains("verify"));
}
