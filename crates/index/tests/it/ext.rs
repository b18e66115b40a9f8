//! The extensions as git writes them: what is read and written back is the same bytes, and an invalidation leaves what git
//! leaves.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use object::{HashKind, ObjectId};
use packstone_index::ext::{self, CacheTree, Extensions, Fsmonitor, Link, ResolveUndo, Untracked, eoie, ieot};
use packstone_index::{Header, Mode};
use testkit::{Hash, TestRepo};

fn kind(repo: &TestRepo) -> HashKind {
    HashKind::from_name(repo.hash().name()).expect("a kind of ours")
}

fn config(repo: &TestRepo, key: &str, value: &str) {
    repo.git(["config", key, value]);
}

/// A repository whose index has an end and an offset table.
fn recording(hash: Hash) -> TestRepo {
    let repo = TestRepo::init(hash);
    for (key, value) in [("threads", "3"), ("recordEndOfIndexEntries", "true"), ("recordOffsetTable", "true")] {
        config(&repo, &format!("index.{key}"), value);
    }
    for dir in ["", "b/", "aa/", "aa/c/", "aa/c/long name/", "d/e/f/"] {
        for file in ["one", "two"] {
            repo.write(&format!("{dir}{file}"), dir.as_bytes());
        }
    }
    repo.commit("first");
    repo
}

fn index_bytes(repo: &TestRepo) -> Vec<u8> {
    std::fs::read(repo.git_dir().join("index")).expect("an index")
}

/// Number of entries, where they end, and the extensions by signature.
fn extensions(bytes: &[u8], kind: HashKind) -> (usize, usize, BTreeMap<[u8; 4], Vec<u8>>) {
    let header = Header::parse(bytes, kind).expect("a header");
    let end = eoie::locate(bytes, kind).expect("an end of the entries");
    let items = Extensions::new(bytes, end, bytes.len() - kind.len());
    let found = items.map(|item| item.expect("a whole extension")).map(|item| (item.signature, item.data.to_vec()));
    (header.count as usize, end, found.collect())
}

/// Reads every extension with its codec and writes it back; says which there were.
fn round_trip(repo: &TestRepo, split: bool) -> Vec<[u8; 4]> {
    let kind = kind(repo);
    let bytes = index_bytes(repo);
    let (count, end, found) = extensions(&bytes, kind);
    let all = if split { usize::MAX >> 8 } else { count }; // the caches are about the entries of both files
    let sizes: Vec<([u8; 4], u32)> = Extensions::new(&bytes, end, bytes.len() - kind.len())
        .map(|item| item.map(|item| (item.signature, item.data.len() as u32)).expect("a whole extension"))
        .filter(|(signature, _)| *signature != ext::EOIE)
        .collect();
    for (&signature, data) in &found {
        let mut out = Vec::new();
        match signature {
            ext::TREE => CacheTree::parse(data, kind, all).unwrap().append_to(&mut out),
            ext::REUC => ResolveUndo::parse(data, kind).unwrap().append_to(&mut out),
            ext::UNTR => Untracked::parse(data, kind).unwrap().append_to(&mut out),
            ext::LINK => Link::parse(data, kind).unwrap().append_to(&mut out),
            ext::FSMN => {
                let monitor = Fsmonitor::parse(data, all).unwrap();
                Fsmonitor::append(&monitor.token, monitor.dirty.ones(), &mut out);
            }
            ext::IEOT => {
                let blocks = ieot::parse(data, Header::LEN..end, count).expect("a sound table");
                assert!(blocks.len() > 1);
                assert!(ieot::append(&blocks, &mut out));
            }
            ext::EOIE => eoie::append(end as u32, &sizes, kind, &mut out),
            other => panic!("unexpected extension {}", other.escape_ascii()),
        }
        assert_eq!(&out, data, "{}", signature.escape_ascii());
    }
    found.into_keys().collect()
}

/// Makes `d/e/f/one` differ on two branches and merges them.
fn conflict(repo: &TestRepo) {
    repo.git(["checkout", "--quiet", "-b", "other"]);
    repo.commit_files(&[("d/e/f/one", b"theirs")], "theirs");
    repo.git(["checkout", "--quiet", "main"]);
    repo.commit_files(&[("d/e/f/one", b"ours")], "ours");
    assert!(!repo.try_git(["merge", "--quiet", "other"], b"").status.success());
}

#[test]
fn what_git_wrote_comes_back_byte_for_byte() {
    for hash in Hash::ALL {
        for version in ["2", "4"] {
            let repo = recording(hash);
            repo.git(["update-index", "--index-version", version]);
            assert_eq!(round_trip(&repo, false), [ext::EOIE, ext::IEOT, ext::TREE]);

            conflict(&repo);
            assert_eq!(round_trip(&repo, false), [ext::EOIE, ext::IEOT, ext::TREE]);
            repo.git(["add", "d/e/f/one"]);
            assert_eq!(round_trip(&repo, false), [ext::EOIE, ext::IEOT, ext::REUC, ext::TREE]);

            config(&repo, "core.untrackedCache", "true");
            repo.git(["update-index", "--force-untracked-cache"]);
            assert_eq!(round_trip(&repo, false), [ext::EOIE, ext::IEOT, ext::REUC, ext::TREE, ext::UNTR]);
            for (path, bytes) in
                [("aa/.gitignore", &b"*.o\n"[..]), ("aa/x.o", b""), ("new/deep/file", b""), ("aa/c/u", b"")]
            {
                repo.write(path, bytes);
            }
            repo.git(["status"]);
            round_trip(&repo, false);
            repo.git(["status", "--untracked-files=all"]);
            round_trip(&repo, false);

            let hook = repo.scratch().join("monitor");
            std::fs::write(&hook, "#!/bin/sh\nprintf 'some token\\0aa/one\\0'\n").unwrap();
            std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
            config(&repo, "core.fsmonitor", hook.to_str().unwrap());
            repo.git(["update-index", "--fsmonitor"]);
            repo.git(["status"]);
            repo.git(["update-index", "--force-write-index"]);
            let all = [ext::EOIE, ext::FSMN, ext::IEOT, ext::REUC, ext::TREE, ext::UNTR];
            assert_eq!(round_trip(&repo, false), all);

            repo.git(["update-index", "--split-index"]);
            repo.git(["rm", "--quiet", "--cached", "b/one"]);
            repo.git(["update-index", "--chmod=+x", "b/two"]);
            repo.write("aa/added", b"x");
            repo.git(["add", "aa/added"]);
            let split = round_trip(&repo, true);
            assert!(split.contains(&ext::LINK) && split.contains(&ext::FSMN));
        }
    }
}

#[test]
fn what_the_extensions_say() {
    for hash in Hash::ALL {
        let repo = recording(hash);
        let kind = kind(&repo);
        conflict(&repo);
        let stages: Vec<String> =
            repo.git_str(["ls-files", "-u"]).lines().map(|line| line[7..7 + kind.hex_len()].into()).collect();
        repo.git(["add", "d/e/f/one"]);
        repo.git(["write-tree"]);
        let (count, _, found) = extensions(&index_bytes(&repo), kind);

        let undo = ResolveUndo::parse(&found[&ext::REUC], kind).unwrap();
        let sides = undo.get(b"d/e/f/one").expect("the path").map(|side| side.expect("all three sides"));
        assert_eq!(
            sides.map(|(mode, id)| (mode, id.to_string())).to_vec(),
            stages.into_iter().map(|id| (Mode(0o100_644), id)).collect::<Vec<_>>()
        );

        let tree = CacheTree::parse(&found[&ext::TREE], kind, count).unwrap();
        assert!(tree.is_fully_valid());
        let root = repo.git_str(["write-tree"]);
        let mut dirs = vec![("".to_owned(), root.clone())];
        for line in repo.git_str(["ls-tree", "-rtd", &root]).lines() {
            let (meta, path) = line.split_once('\t').unwrap();
            dirs.push((path.to_owned(), meta.rsplit(' ').next().unwrap().to_owned()));
        }
        assert_eq!(tree.node_count(), dirs.len());
        for (dir, id) in dirs {
            let entries = repo.git_str(["ls-files", "--", if dir.is_empty() { "." } else { &dir }]).lines().count();
            let node = tree.find(dir.as_bytes()).unwrap_or_else(|| panic!("no node for '{dir}'"));
            assert_eq!(tree.valid(node), Some((entries as u32, ObjectId::from_hex(id.as_bytes()).unwrap())), "{dir}");
        }
    }
}

/// One command of git's, and the paths that it adds and removes: ours must make of the extensions in front of it what git
/// made of them behind it.
fn same_as_git(hash: Hash, flags: u32, command: &[&str], changed: &[&str], came_or_went: &[&str]) {
    let repo = recording(hash);
    let kind = kind(&repo);
    repo.write("aa/c/untracked", b"");
    config(&repo, "status.showUntrackedFiles", if flags == 0 { "all" } else { "normal" });
    repo.git(["update-index", "--force-untracked-cache"]);
    repo.git(["status"]);
    repo.git(["write-tree"]);
    let (count, _, before) = extensions(&index_bytes(&repo), kind);
    let mut tree = CacheTree::parse(&before[&ext::TREE], kind, count).unwrap();
    assert!(tree.is_fully_valid());
    let mut untracked = Untracked::parse(&before[&ext::UNTR], kind).unwrap();
    assert_eq!(untracked.dir_flags() & Untracked::SHOW_OTHER_DIRECTORIES, flags);
    let valid = |cache: &Untracked<'_>| cache.directories().filter(|dir| dir.valid.is_some()).count();
    assert!(valid(&untracked) > 5, "git listed the directories");

    repo.git(command);
    changed.iter().for_each(|path| tree.invalidate(path.as_bytes()));
    came_or_went.iter().for_each(|path| untracked.invalidate(path.as_bytes()));

    let (_, _, after) = extensions(&index_bytes(&repo), kind);
    let (mut our_tree, mut our_untracked) = (Vec::new(), Vec::new());
    tree.append_to(&mut our_tree);
    untracked.append_to(&mut our_untracked);
    assert_eq!(our_tree.escape_ascii().to_string(), after[&ext::TREE].escape_ascii().to_string(), "{command:?}");
    assert_eq!(valid(&untracked), valid(&Untracked::parse(&after[&ext::UNTR], kind).unwrap()), "{command:?}, {flags}");
    assert_eq!(our_untracked, after[&ext::UNTR], "{command:?}, {flags}");
}

#[test]
fn i7_invalidation_leaves_what_git_leaves() {
    for hash in Hash::ALL {
        let blob = "1".repeat(hash.hex_len()); // need not be there
        for flags in [0, Untracked::SHOW_OTHER_DIRECTORIES] {
            for path in ["one", "aa/one", "aa/c/long name/two"] {
                let info = format!("100644,{blob},{path}");
                same_as_git(hash, flags, &["update-index", "--cacheinfo", &info], &[path], &[]);
                same_as_git(hash, flags, &["update-index", "--force-remove", path], &[path], &[path]);
            }
            for path in ["new", "aa/new", "d/e/f/g/h", "aa/c/new/x", "d/x"] {
                let info = format!("100644,{blob},{path}");
                same_as_git(hash, flags, &["update-index", "--add", "--cacheinfo", &info], &[path], &[path]);
            }
            // For what a file or directory takes the place of, git leaves the untracked cache as it is.
            for (path, replaced) in [("d/e", &["d/e/f/one", "d/e/f/two"][..]), ("b/one/x", &["b/one"])] {
                let info = format!("100644,{blob},{path}");
                let changed = [replaced, &[path]].concat();
                same_as_git(
                    hash,
                    flags,
                    &["update-index", "--add", "--replace", "--cacheinfo", &info],
                    &changed,
                    &[path],
                );
            }
        }
    }
}
