//! Trees from the index and back: beside git, beside a naive model, and against trees and cache trees that lie.

use std::collections::{BTreeMap, BTreeSet};

use object::{HashKind, ObjectId, ObjectKind, object_id};
use packstone_index::ext::{CacheTree, CacheTreeBuilder};
use packstone_index::path::PathChecks;
use packstone_index::trees::{
    CacheTreeFindingKind, ReadTreeOptions, TreeError, TreeLimits, WriteTreeOptions, read_tree, verify_cache_tree,
    write_tree,
};
use packstone_index::{AddOptions, Bump, EditError, Flags, Index, Mode, NewEntry, ReadOptions, Stage, Stat};
use proptest::prelude::*;
use testkit::io::Rng;
use testkit::{Hash, TestRepo};

use crate::objects::{ByGit, Memory, id, index, kind, listed, nodes};

const FILE: Mode = Mode(0o100_644);
const LINK: Mode = Mode(0o120_000);
const GITLINK: Mode = Mode(0o160_000);
const DIRECTORY: Mode = Mode(0o040_000);
const MODES: [Mode; 4] = [FILE, Mode(0o100_755), LINK, GITLINK];

/// Any id that is not null.
fn some(kind: HashKind, n: u8) -> ObjectId {
    object_id(kind, ObjectKind::Blob, &[n]).expect("no collision")
}

/// Paths whose order in the index differs from that of their first components, with directories of one and many entries.
fn tricky_paths(rng: &mut Rng, count: usize) -> BTreeSet<String> {
    let names = ["a", "a-", "a-b", "a.", "a0", "ab", "b", "b b", "\u{e9}", "long-name-in-here", "0", "-", "Z", "~"];
    let mut paths = BTreeSet::<String>::new();
    for _ in 0..count {
        let parts: Vec<&str> = (0..1 + rng.below(4)).map(|_| names[rng.below(names.len() as u64) as usize]).collect();
        let path = parts.join("/");
        let clash =
            paths.iter().any(|other| other.starts_with(&format!("{path}/")) || path.starts_with(&format!("{other}/")));
        if !clash {
            paths.insert(path);
        }
    }
    paths
}

/// What is to be in a tree, by path.
type Files = BTreeMap<Vec<u8>, (Mode, ObjectId)>;

/// The tree of these entries, and of all directories below, by recursion.
fn model(kind: HashKind, entries: &Files, trees: &mut BTreeSet<ObjectId>) -> ObjectId {
    let mut below: BTreeMap<Vec<u8>, Files> = BTreeMap::new();
    let mut records: Vec<(Vec<u8>, Mode, Vec<u8>, ObjectId)> = Vec::new();
    for (path, &(mode, id)) in entries {
        match path.iter().position(|&b| b == b'/') {
            Some(slash) => {
                below.entry(path[..slash].to_vec()).or_default().insert(path[slash + 1..].to_vec(), (mode, id));
            }
            None => records.push((path.clone(), mode, path.clone(), id)),
        }
    }
    for (name, entries) in below {
        records.push(([&name[..], b"/"].concat(), DIRECTORY, name, model(kind, &entries, trees)));
    }
    records.sort();
    let record = |(_, mode, name, id): &(Vec<u8>, Mode, Vec<u8>, ObjectId)| {
        [format!("{:o} ", mode.0).as_bytes(), name, b"\0", id.as_bytes()].concat()
    };
    let id = object_id(kind, ObjectKind::Tree, &records.iter().flat_map(record).collect::<Vec<_>>()).unwrap();
    trees.insert(id);
    id
}

fn model_of(index: &Index<'_>) -> ObjectId {
    let entries = index.iter().map(|entry| (entry.path().to_vec(), (entry.mode(), entry.id()))).collect();
    model(index.kind(), &entries, &mut BTreeSet::new())
}

fn lax() -> WriteTreeOptions<'static> {
    WriteTreeOptions::default().missing_ok(true)
}

/// An index of these files, without looking at paths or order of directories.
fn index_of<'a>(arena: &'a Bump, kind: HashKind, paths: &[&str]) -> Index<'a> {
    let mut index = Index::new(arena, kind);
    index.replace_entries(paths.iter().map(|path| NewEntry::new(path.as_bytes(), FILE, some(kind, 1)))).unwrap();
    index
}

/// A version 2 index of these paths, sorted or not.
fn unsorted(kind: HashKind, paths: &[&str]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend_from_slice(&(paths.len() as u32).to_be_bytes());
    for path in paths {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 24]);
        bytes.extend_from_slice(&FILE.0.to_be_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(some(kind, 1).as_bytes());
        bytes.extend_from_slice(&(path.len() as u16).to_be_bytes());
        bytes.extend_from_slice(path.as_bytes());
        bytes.resize(start + (bytes.len() - start + 8) / 8 * 8, 0);
    }
    bytes.resize(bytes.len() + kind.len(), 0);
    bytes
}

#[test]
fn any_entries_make_the_trees_that_git_makes() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        let mut rng = Rng::new(1);
        let repo = TestRepo::init(hash);
        let kind = kind(&repo);
        for round in 0..12 {
            let paths = tricky_paths(&mut rng, [0, 1, 2, 5, 40, 300][round % 6]);
            let mut input = String::new();
            for path in &paths {
                let mode = MODES[rng.below(4) as usize];
                input += &format!("{:06o} {}\t{path}\0", mode.0, some(kind, rng.below(9) as u8));
            }
            repo.git(["read-tree", "--empty"]);
            repo.git_with(["update-index", "-z", "--index-info"], input.as_bytes());
            let arena = Bump::new();
            let mut ours = index(&repo, &arena);
            assert_eq!(ours.len(), paths.len());
            let mut memory = Memory::new(kind);
            let tree = write_tree(&mut ours, &mut memory, &lax()).unwrap();
            assert_eq!(tree.id.to_string(), repo.git_str(["write-tree", "--missing-ok"]));
            assert_eq!(tree.id, model_of(&ours));
            assert_eq!(nodes(&ours), nodes(&index(&repo, &Bump::new())));
            assert_eq!((tree.reused, tree.written), (0, nodes(&ours).len()));
            assert_eq!(verify_cache_tree(&ours).unwrap(), []);
            for dir in paths.iter().flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at])) {
                let options = lax().prefix(Some(dir.as_bytes()));
                let tree = write_tree(&mut ours, &mut memory, &options).unwrap();
                assert_eq!(
                    tree.id.to_string(),
                    repo.git_str(["write-tree", "--missing-ok", "--prefix", &format!("{dir}/")])
                );
            }
        }
    }
}

#[test]
fn only_what_changed_is_made_anew() {
    for kind in HashKind::ALL {
        let arena = Bump::new();
        let mut index = index_of(&arena, kind, &["a/b/c/d", "a/b/e/f", "a/g/h", "i/j", "i/k/l", "m"]);
        let mut memory = Memory::new(kind);
        let first = write_tree(&mut index, &mut memory, &lax()).unwrap();
        assert_eq!((first.reused, first.written), (0, 8));

        // Nothing changed: one question, whether the root is there.
        memory.calls = 0;
        let again = write_tree(&mut index, &mut memory, &lax()).unwrap();
        assert_eq!((again.id, again.written, memory.calls), (first.id, 0, 1));
        memory.calls = 0;
        let dry = write_tree(&mut index, &mut memory, &lax().dry(true)).unwrap();
        assert_eq!((dry.id, dry.written, memory.calls), (first.id, 0, 0));

        // a/b/e, a/b, a and the root; from below a/b/c, a/g and i.
        index.add(&NewEntry::new(b"a/b/e/f", FILE, some(kind, 2)), &AddOptions::default()).unwrap();
        memory.calls = 0;
        let dry = write_tree(&mut index, &mut memory, &lax().dry(true)).unwrap();
        assert_eq!((dry.reused, dry.written, memory.calls), (3, 4, 0));
        assert!(index.cache_tree().unwrap().valid(index.cache_tree().unwrap().root()).is_none());
        let second = write_tree(&mut index, &mut memory, &lax()).unwrap();
        assert_eq!((second.reused, second.written), (3, 4));
        assert_eq!((second.id, dry.id), (model_of(&index), model_of(&index)));

        let anew = write_tree(&mut index, &mut memory, &lax().ignore_cache_tree(true)).unwrap();
        assert_eq!((anew.id, anew.reused, anew.written), (second.id, 0, 8));

        // A remembered tree that is not in the store is stored: the root, and one in a place where it is looked for.
        let dir = index.cache_tree().unwrap().valid(index.cache_tree().unwrap().find(b"i/k").unwrap()).unwrap().1;
        memory.trees.remove(&second.id);
        let third = write_tree(&mut index, &mut memory, &lax()).unwrap();
        assert_eq!((third.id, third.reused, third.written), (second.id, 2, 1));
        memory.trees.remove(&dir);
        index.remove(b"i/j");
        let fourth = write_tree(&mut index, &mut memory, &lax()).unwrap();
        assert_eq!((fourth.id, fourth.reused, fourth.written), (model_of(&index), 1, 3));
        assert!(memory.trees.contains_key(&dir));
    }
}

#[test]
fn i6_a_cache_tree_that_claims_too_much_loses_no_file() {
    for kind in HashKind::ALL {
        let wrong = some(kind, 9);
        let right = |paths: &[&str]| model_of(&index_of(&Bump::new(), kind, paths));
        // Entries; and what nodes claim, by path. None of it can be so.
        type Lie<'l> = (&'l [&'l str], &'l [(&'l str, u32)]);
        let lies: [Lie<'_>; 7] = [
            (&["a/b", "z"], &[("a", 500)]),
            (&["a/b", "z"], &[("a", 2)]),
            (&["a/b", "a/c", "z"], &[("a", 1)]),
            (&["a/b", "a/c", "a/d", "z"], &[("a", 2)]),
            (&["a/b", "z"], &[("a", u32::MAX - 2)]),
            (&["a/b/c", "a/d", "z"], &[("a/b", 2)]),
            (&["a/b", "z"], &[("", 500), ("a", 500)]),
        ];
        for (paths, claims) in lies {
            let arena = Bump::new();
            let mut index = index_of(&arena, kind, paths);
            let claim = |dir: &str| claims.iter().find(|(of, _)| *of == dir).map(|&(_, count)| (count, wrong));
            let mut builder = CacheTreeBuilder::new(kind);
            builder.open(b"");
            builder.open(b"a");
            builder.open(b"b");
            builder.close(claim("a/b"));
            builder.close(claim("a"));
            builder.close(claim(""));
            index.set_cache_tree(Some(builder.finish()));
            let mut memory = Memory::new(kind);
            memory.trees.insert(wrong, Vec::new()); // so that it is there
            let findings = verify_cache_tree(&index).unwrap();
            assert_eq!(findings.len(), claims.len(), "{paths:?} {claims:?} {findings:?}");
            assert!(findings.iter().all(|finding| matches!(finding.kind, CacheTreeFindingKind::Span { .. })));
            let tree = write_tree(&mut index, &mut memory, &lax()).unwrap();
            assert_eq!(tree.id, right(paths), "{paths:?} {claims:?}");
            assert_eq!(tree.reused, 0);
            assert_eq!(verify_cache_tree(&index).unwrap(), []);
        }
        // A node for which there is no directory is left out.
        let arena = Bump::new();
        let mut index = index_of(&arena, kind, &["z"]);
        let mut builder = CacheTreeBuilder::new(kind);
        builder.open(b"");
        builder.open(b"a");
        builder.close(Some((1, wrong)));
        index.set_cache_tree(Some(builder.finish()));
        let findings = verify_cache_tree(&index).unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].dir, b"a");
        assert_eq!(findings[0].kind, CacheTreeFindingKind::Span { claimed: 1, actual: 0 });
        write_tree(&mut index, &mut Memory::new(kind), &lax()).unwrap();
        assert_eq!(nodes(&index).len(), 1);
    }
}

#[test]
fn i6_entries_that_are_in_no_tree_are_not_covered() {
    for kind in HashKind::ALL {
        let later = Flags { intent_to_add: true, ..Flags::default() };
        let entry = NewEntry::new(b"a/b", FILE, some(kind, 1));
        for entry in [NewEntry { flags: later, ..entry }, NewEntry { stage: Stage::Ours, ..entry }] {
            let arena = Bump::new();
            let mut index = Index::new(&arena, kind);
            index.replace_entries([entry]).unwrap();
            let mut builder = CacheTreeBuilder::new(kind);
            builder.open(b"");
            builder.open(b"a");
            builder.close(Some((1, kind.empty_tree())));
            index.set_cache_tree(Some(builder.finish()));
            let findings = verify_cache_tree(&index).unwrap();
            assert_eq!(findings.len(), 1);
            assert_eq!((&findings[0].dir[..], &findings[0].kind), (&b"a"[..], &CacheTreeFindingKind::NotInTree));
        }
    }
}

#[test]
fn i7_verify_finds_what_git_believes() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        let repo = TestRepo::init(hash);
        let kind = kind(&repo);
        repo.commit_files(&[("d/e/a", b"1"), ("d/e/b", b"2"), ("f", b"3")], "first");
        let path = repo.git_dir().join("index");
        let mut bytes = std::fs::read(&path).unwrap();
        let (old, new) = (id(&repo.hash_object("blob", b"1")), id(&repo.hash_object("blob", b"other")));
        let at = bytes.windows(old.as_bytes().len()).position(|window| window == old.as_bytes()).unwrap();
        bytes[at..at + kind.len()].copy_from_slice(new.as_bytes());
        testkit::pack::resign(hash, &mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(repo.git_str(["write-tree"]), repo.rev_parse("HEAD^{tree}"), "git believes it");

        let arena = Bump::new();
        let mut index = index(&repo, &arena);
        let findings = verify_cache_tree(&index).unwrap();
        let dirs: Vec<&[u8]> = findings.iter().map(|finding| &finding.dir[..]).collect();
        assert_eq!(dirs, [&b""[..], b"d", b"d/e"]);
        let data = bytes.windows(4).position(|window| window == b"TREE").unwrap() + 8;
        for (finding, name) in findings.iter().zip([&b"\0"[..], b"d\0", b"e\0"]) {
            assert!(matches!(finding.kind, CacheTreeFindingKind::Id { .. }));
            assert!(bytes[data + finding.at as usize..].starts_with(name), "{finding:?}");
        }
        let tree =
            write_tree(&mut index, &mut ByGit(&repo), &WriteTreeOptions::default().ignore_cache_tree(true)).unwrap();
        assert_eq!(tree.id, model_of(&index));
        assert_eq!(repo.kind(&tree.id.to_string()), "tree");
        assert_eq!(verify_cache_tree(&index).unwrap(), []);
    }
}

#[test]
fn what_is_only_intended_to_be_added_is_left_out() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("a/one", b"1"), ("b/c/two", b"2"), ("d/three", b"3")], "first");
        for path in ["b/c/later", "only/later/this", "only/that"] {
            repo.write(path, b"x");
        }
        repo.git(["add", "--intent-to-add", "."]);
        let arena = Bump::new();
        let mut ours = index(&repo, &arena);
        let tree = write_tree(&mut ours, &mut ByGit(&repo), &WriteTreeOptions::default()).unwrap();
        assert_eq!(tree.id.to_string(), repo.git_str(["write-tree"]));
        assert_eq!(tree.id.to_string(), repo.rev_parse("HEAD^{tree}"));
        assert_eq!(nodes(&ours), nodes(&index(&repo, &Bump::new())));
        assert!(nodes(&ours)[0].ends_with("invalid, 4"), "{:?}", nodes(&ours));
        assert_eq!(verify_cache_tree(&ours).unwrap(), []);
        for prefix in ["b", "b/c/", "only", "only/later", "a", "d//", ""] {
            let tree = write_tree(&mut ours, &mut ByGit(&repo), &lax().prefix(Some(prefix.as_bytes()))).unwrap();
            assert_eq!(tree.id.to_string(), repo.git_str(["write-tree", "--prefix", prefix]), "{prefix}");
            assert_eq!(tree.reused, 2, "a and d");
        }
        // Nothing but such: the empty tree.
        repo.git(["read-tree", "--empty"]);
        repo.git(["add", "--intent-to-add", "only"]);
        let mut ours = index(&repo, &arena);
        let tree = write_tree(&mut ours, &mut ByGit(&repo), &lax()).unwrap();
        assert_eq!((tree.id, tree.id.to_string()), (ours.kind().empty_tree(), repo.git_str(["write-tree"])));
    }
}

#[test]
fn an_index_that_makes_no_tree_is_left_as_it_is() {
    for kind in HashKind::ALL {
        let arena = Bump::new();
        let fails = |mut index: Index<'_>, memory: &mut Memory, options: &WriteTreeOptions<'_>| {
            index.set_cache_tree(None);
            let before = listed(&index);
            let error = write_tree(&mut index, memory, options).unwrap_err();
            assert_eq!((listed(&index), index.cache_tree().is_some()), (before, false));
            error
        };
        let mut memory = Memory::new(kind);

        let mut unmerged = index_of(&arena, kind, &["a/b", "z"]);
        for (path, stage) in [(b"a/c", Stage::Base), (b"a/c", Stage::Theirs), (b"zz1", Stage::Ours)] {
            let entry = NewEntry { stage, ..NewEntry::new(path, FILE, some(kind, 1)) };
            unmerged.add(&entry, &AddOptions::default()).unwrap();
        }
        match fails(unmerged, &mut memory, &lax()) {
            TreeError::Unmerged { paths } => assert_eq!(paths, [b"a/c", b"zz1"]),
            other => panic!("{other}"),
        }

        for paths in [&["a", "a/b"][..], &["a", "a-", "a/b"], &["x/a", "x/a!", "x/a-b/c", "x/a/b/c", "x/b"]] {
            match fails(index_of(&arena, kind, paths), &mut memory, &lax()) {
                TreeError::FileDirectory { path } => assert_eq!(path, paths[0].as_bytes()),
                other => panic!("{other}"),
            }
        }
        write_tree(&mut index_of(&arena, kind, &["a!", "a-", "a/b", "a0", "b", "b-/c", "bb"]), &mut memory, &lax())
            .unwrap();

        for path in [".git/x", "../x", "/abs", "a//b", "a/./b", "a/", ".GIT/x", "git~1/x", "a/.git", "x/a\\.git"] {
            match fails(index_of(&arena, kind, &[path]), &mut memory, &lax()) {
                TreeError::Path { path: at, .. } => assert_eq!(at, path.as_bytes()),
                other => panic!("{path}: {other}"),
            }
        }
        let checks = PathChecks::default().ntfs(false);
        write_tree(&mut index_of(&arena, kind, &["git~1/x"]), &mut memory, &lax().checks(checks)).unwrap();

        let with = |mode, id, path: &[u8]| {
            let mut index = index_of(&arena, kind, &["a/b"]);
            let entries = [NewEntry::new(b"a/b", FILE, some(kind, 1)), NewEntry::new(path, mode, id)];
            index.replace_entries(entries).unwrap();
            index
        };
        for mode in MODES {
            let error = fails(with(mode, kind.null(), b"c"), &mut memory, &lax());
            assert!(matches!(&error, TreeError::NullId { path } if path == b"c"), "{error}");
        }
        let error = fails(with(DIRECTORY, some(kind, 2), b"c/"), &mut memory, &lax());
        assert!(matches!(&error, TreeError::Directory { path } if path == b"c/"), "{error}");
        let mut sparse = with(DIRECTORY, some(kind, 2), b"c/");
        sparse.set_sparse(true);
        let error = write_tree(&mut sparse, &mut memory, &WriteTreeOptions::default()).unwrap_err();
        assert!(matches!(&error, TreeError::Missing { path, .. } if path == b"c/"), "{error}");
        assert!(write_tree(&mut sparse, &mut memory, &lax()).is_ok());
        let mut inside = with(DIRECTORY, some(kind, 2), b"a/b/");
        inside.set_sparse(true);
        let error = fails(inside, &mut memory, &lax());
        assert!(matches!(&error, TreeError::FileDirectory { path } if path == b"a/b"), "{error}");

        let mut twice = index_of(&arena, kind, &["a"]);
        let dir = |path| NewEntry::new(path, DIRECTORY, some(kind, 2));
        twice.replace_entries([dir(b"b/"), NewEntry::new(b"b/x", FILE, some(kind, 1))]).unwrap();
        twice.set_sparse(true);
        let error = fails(twice, &mut memory, &lax());
        assert!(matches!(&error, TreeError::FileDirectory { path } if path == b"b/"), "{error}");
        let mut beside = index_of(&arena, kind, &["a"]);
        beside.replace_entries([NewEntry::new(b"b-", FILE, some(kind, 1)), dir(b"b/")]).unwrap();
        beside.set_sparse(true);
        write_tree(&mut beside, &mut memory, &lax()).unwrap();

        for (paths, at) in [(&["b", "a"][..], "a"), (&["a", "a"], "a"), (&["a/x", "b", "a/y"], "a/")] {
            let bytes = arena.alloc_slice_copy(&unsorted(kind, paths));
            let index = Index::read(&arena, bytes, &ReadOptions::new(kind).check_order(false)).unwrap();
            assert_eq!(index.len(), paths.len());
            match fails(index, &mut memory, &lax()) {
                TreeError::Order { path } => assert_eq!(String::from_utf8_lossy(&path), at),
                other => panic!("{other}"),
            }
        }

        // Blobs are asked for, submodules are not, and nothing is with `missing_ok`.
        memory.missing.insert(some(kind, 3));
        for mode in MODES {
            let strict = WriteTreeOptions::default();
            let outcome = write_tree(&mut with(mode, some(kind, 3), b"c"), &mut memory, &strict);
            match outcome {
                Err(TreeError::Missing { path, mode: found, id }) if mode != GITLINK => {
                    assert_eq!((&path[..], found, id), (&b"c"[..], mode, some(kind, 3)));
                }
                Ok(_) if mode == GITLINK => {}
                other => panic!("{other:?}"),
            }
            write_tree(&mut with(mode, some(kind, 3), b"c"), &mut memory, &lax()).unwrap();
        }

        for prefix in [&b"b"[..], b"a/b", b"a/c", b"/a", b"/", b"a/b/c"] {
            let error = fails(index_of(&arena, kind, &["a/b"]), &mut memory, &lax().prefix(Some(prefix)));
            assert!(matches!(error, TreeError::Prefix { .. }), "{error}");
        }
    }
}

#[test]
fn a_read_tree_is_what_git_reads() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        let mut rng = Rng::new(2);
        let repo = TestRepo::init(hash);
        let kind = kind(&repo);
        for _ in 0..4 {
            let mut input = String::new();
            for path in tricky_paths(&mut rng, 80) {
                let mode = MODES[rng.below(4) as usize];
                input += &format!("{:06o} {}\t{path}\0", mode.0, some(kind, rng.below(9) as u8));
            }
            repo.git(["read-tree", "--empty"]);
            repo.git_with(["update-index", "-z", "--index-info"], input.as_bytes());
            let tree = repo.git_str(["write-tree", "--missing-ok"]);
            repo.git(["read-tree", "--empty"]);

            // Into an index of something else, with a conflict that was resolved.
            let arena = Bump::new();
            let mut ours = index_of(&arena, kind, &["a/b", "q/r"]);
            ours.resolve_undo_mut().record(b"q/r", Stage::Base, FILE, some(kind, 1));
            let read = read_tree(&mut ours, &mut ByGit(&repo), &id(&tree), &ReadTreeOptions::default()).unwrap();
            repo.git(["read-tree", &tree]);
            assert_eq!(read, ours.len());
            assert_eq!(listed(&ours), String::from_utf8_lossy(&repo.git(["ls-files", "-s", "-z"])));
            assert_eq!(nodes(&ours), nodes(&index(&repo, &Bump::new())));
            assert!(ours.resolve_undo().is_empty());
            assert_eq!(verify_cache_tree(&ours).unwrap(), []);
            let mut memory = Memory::new(kind);
            memory.trees.insert(id(&tree), Vec::new());
            let again = write_tree(&mut ours, &mut memory, &lax()).unwrap();
            assert_eq!((again.id.to_string(), again.written), (tree.clone(), 0));

            // Below directories, new and with something in them.
            for prefix in ["new", "new/er/", "a"] {
                repo.git(["read-tree", "--empty"]);
                let there = format!("100644 {}\ta/+/x\0100644 {0}\tnew-\0", some(kind, 1));
                repo.git_with(["update-index", "-z", "--index-info"], there.as_bytes());
                let mut ours = index_of(&arena, kind, &["a/+/x", "new-"]);
                write_tree(&mut ours, &mut memory, &lax()).unwrap();
                let options = ReadTreeOptions::default().prefix(Some(prefix.as_bytes()));
                read_tree(&mut ours, &mut ByGit(&repo), &id(&tree), &options).unwrap();
                repo.git(["read-tree", "--prefix", prefix, &tree]);
                assert_eq!(listed(&ours), String::from_utf8_lossy(&repo.git(["ls-files", "-s", "-z"])));
                assert_eq!(verify_cache_tree(&ours).unwrap(), []);
                let whole = write_tree(&mut ours, &mut memory, &lax()).unwrap();
                assert_eq!(whole.id.to_string(), repo.git_str(["write-tree", "--missing-ok"]));
                assert!(whole.reused > 0, "what lies elsewhere is still remembered");
            }
        }
    }
}

#[test]
fn a_tree_is_put_only_where_there_is_room() {
    for kind in HashKind::ALL {
        let mut memory = Memory::new(kind);
        let d = memory.tree(&[("100644", "z", some(kind, 1))]);
        let tree = memory.tree(&[("40000", "d", d), ("100644", "x", some(kind, 1))]);
        let arena = Bump::new();
        let put = |there: &[&str], prefix: &str, memory: &mut Memory| {
            let mut index = index_of(&arena, kind, there);
            let before = listed(&index);
            let options = ReadTreeOptions::default().prefix(Some(prefix.as_bytes()));
            match read_tree(&mut index, memory, &tree, &options) {
                Ok(_) => Ok(index.iter().map(|e| String::from_utf8_lossy(e.path()).into_owned()).collect::<Vec<_>>()),
                Err(error) => {
                    assert_eq!(listed(&index), before);
                    Err(error)
                }
            }
        };
        for (there, prefix, overlap) in [
            (&["s/x"][..], "s/", "s/x"),
            (&["s/d"], "s", "s/d"),
            (&["s/x/file"], "s", "s/x"),
            (&["s"], "s/", "s"),
            (&["s"], "s/t/u/", "s"),
            (&["a", "x"], "", "x"),
        ] {
            match put(there, prefix, &mut memory) {
                Err(TreeError::Overlap { path }) => assert_eq!(String::from_utf8_lossy(&path), overlap),
                other => panic!("{there:?} {prefix}: {other:?}"),
            }
        }
        for prefix in ["../q", ".git/", "/s", "s//t", "s//", "a/.GIT", "/"] {
            assert!(matches!(put(&["q"], prefix, &mut memory), Err(TreeError::Path { .. })), "{prefix}");
        }
        assert_eq!(put(&["s-1", "s/other", "s0"], "s", &mut memory).unwrap(), ["s-1", "s/d/z", "s/other", "s/x", "s0"]);
        assert_eq!(put(&["a", "y"], "", &mut memory).unwrap(), ["a", "d/z", "x", "y"]);

        let mut sparse = Index::new(&arena, kind);
        sparse.replace_entries([NewEntry::new(b"s/", DIRECTORY, d)]).unwrap();
        sparse.set_sparse(true);
        for prefix in [&b"s"[..], b"s/t"] {
            let options = ReadTreeOptions::default().prefix(Some(prefix));
            let error = read_tree(&mut sparse, &mut memory, &tree, &options).unwrap_err();
            assert!(matches!(error, TreeError::Overlap { .. }), "{error}");
        }

        let mut index = Index::new(&arena, kind);
        read_tree(&mut index, &mut memory, &tree, &ReadTreeOptions::default().stage(Stage::Theirs)).unwrap();
        assert!(index.iter().all(|entry| entry.stage() == Stage::Theirs) && index.len() == 2);
        assert!(index.cache_tree().is_none());
    }
}

#[test]
fn equal_entries_keep_their_stat_data_if_asked() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("a/same", b"1"), ("a/other", b"2"), ("b", b"3"), ("c", b"4")], "first");
        let first = repo.rev_parse("HEAD^{tree}");
        repo.commit_files(&[("a/other", b"22"), ("c", b"44"), ("d", b"5")], "second");
        repo.git(["update-index", "--assume-unchanged", "b"]);
        repo.git(["update-index", "--chmod=+x", "a/same"]);
        for keep in [true, false] {
            let arena = Bump::new();
            let mut ours = index(&repo, &arena);
            let before: Vec<Stat> = ours.iter().map(|entry| entry.stat()).collect();
            let options = ReadTreeOptions::default().keep_stat(keep);
            read_tree(&mut ours, &mut ByGit(&repo), &id(&first), &options).unwrap();
            let kept: Vec<bool> = ours.iter().map(|entry| before.contains(&entry.stat())).collect();
            assert_eq!(kept, [false, false, keep, false]); // a/other, a/same (another mode), b, c
            assert_eq!(ours.get(2).unwrap().flags().assume_valid, keep);
            assert_eq!(nodes(&ours)[0], format!(": 4 {first}, 1"));
        }
        repo.git(["read-tree", "--reset", &first]);
        let arena = Bump::new();
        let theirs = index(&repo, &arena);
        assert!(theirs.get(2).unwrap().stat() != Stat::default() && theirs.get(1).unwrap().stat() == Stat::default());
    }
}

#[test]
fn hostile_trees_are_refused() {
    for kind in HashKind::ALL {
        let blob = some(kind, 1);
        let mut memory = Memory::new(kind);
        let sub = memory.tree(&[("100644", "f", blob)]);
        let empty = memory.put(Vec::new());
        let mut read = |entries: &[(&str, &str, ObjectId)]| {
            let inner = memory.tree(entries);
            let root = memory.tree(&[("100644", "a", blob), ("40000", "d", inner)]);
            let arena = Bump::new();
            let mut index = index_of(&arena, kind, &["old/entry"]);
            index.set_sparse(true);
            let before = listed(&index);
            let outcome = read_tree(&mut index, &mut memory, &root, &ReadTreeOptions::default());
            if outcome.is_err() {
                assert_eq!((listed(&index), index.is_sparse()), (before, true));
            }
            outcome
        };
        for name in [".git", "..", ".", "x/y", ".GIT", "git~1", ".git ", "a\\.git", ".git::$INDEX_ALLOCATION"] {
            for (mode, id) in [("100644", blob), ("40000", sub), ("120000", blob), ("160000", blob)] {
                match read(&[(mode, name, id)]) {
                    Err(TreeError::Path { path, .. }) => assert_eq!(path, format!("d/{name}").as_bytes()),
                    other => panic!("{mode} {name}: {other:?}"),
                }
            }
        }
        assert!(matches!(read(&[("120000", ".gitmodules", blob)]), Err(TreeError::Path { .. })));
        assert!(read(&[("100644", ".gitmodules", blob)]).is_ok());

        for (entries, at) in [
            (&[("100644", "b", blob), ("100644", "a", blob)][..], "d/a"),
            (&[("100644", "b", blob), ("100644", "b", blob)], "d/b"),
            (&[("40000", "b", sub), ("40000", "b", sub)], "d/b"),
            (&[("40000", "b", sub), ("100644", "b-", blob)], "d/b-"),
            (&[("40000", "b", sub), ("100644", "b", blob)], "d/b"),
            (&[("100644", "b0", blob), ("40000", "b", sub)], "d/b"),
        ] {
            match read(entries) {
                Err(TreeError::Order { path }) => assert_eq!(path, at.as_bytes()),
                other => panic!("{entries:?}: {other:?}"),
            }
        }
        for entries in [
            &[("100644", "b", blob), ("40000", "b", sub)][..],
            &[("100644", "b", blob), ("40000", "b", empty)],
            &[("100644", "b", blob), ("100644", "b-", blob), ("40000", "b-x", sub), ("40000", "b", sub)],
        ] {
            match read(entries) {
                Err(TreeError::FileDirectory { path }) => assert_eq!(path, b"d/b"),
                other => panic!("{entries:?}: {other:?}"),
            }
        }
        assert!(matches!(read(&[("100644", "", blob)]), Err(TreeError::Tree { .. })));
        assert!(matches!(read(&[("100648", "x", blob)]), Err(TreeError::Tree { .. })));
        assert!(matches!(read(&[("100644", "x", kind.null())]), Err(TreeError::NullId { .. })));
        assert!(matches!(read(&[("40000", "x", some(kind, 7))]), Err(TreeError::Objects(_))));

        // Cut at every byte: an error unless that is between two entries.
        let mut whole = memory.trees[&sub].clone();
        whole.extend_from_slice(&whole.clone());
        let second = whole.len() / 2 + 7;
        whole[second] = b'g';
        for end in 0..whole.len() {
            let cut = memory.put(whole[..end].to_vec());
            let arena = Bump::new();
            let outcome = read_tree(&mut Index::new(&arena, kind), &mut memory, &cut, &ReadTreeOptions::default());
            match outcome {
                Ok(count) => assert_eq!(count * whole.len() / 2, end),
                Err(TreeError::Tree { id, dir, .. }) => assert_eq!((id, dir.len()), (cut, 0)),
                Err(other) => panic!("{end}: {other}"),
            }
        }
    }
}

#[test]
fn what_no_index_can_make_is_not_remembered() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        let repo = TestRepo::init(hash);
        let kind = kind(&repo);
        let blob = id(&repo.hash_object("blob", b"x"));
        let mut memory = Memory::new(kind);
        let empty = memory.put(Vec::new());
        let plain = memory.tree(&[("100644", "f", blob)]);
        let with_empty = memory.tree(&[("40000", "e", empty), ("100644", "f", blob)]);
        let group_writable = memory.tree(&[("100664", "f", blob)]);
        let zero = memory.tree(&[("040000", "p", plain)]);
        for (odd, mode) in [(with_empty, FILE), (group_writable, FILE), (zero, FILE)] {
            let root = memory.tree(&[("40000", "odd", odd), ("40000", "plain", plain), ("100644", "z", blob)]);
            let arena = Bump::new();
            let mut index = Index::new(&arena, kind);
            read_tree(&mut index, &mut memory, &root, &ReadTreeOptions::default()).unwrap();
            assert!(index.iter().all(|entry| entry.mode() == mode));
            let tree = index.cache_tree().unwrap();
            assert!(tree.valid(tree.root()).is_none() && tree.valid(tree.find(b"odd").unwrap()).is_none());
            assert_eq!(tree.valid(tree.find(b"plain").unwrap()), Some((1, plain)));
            let written = write_tree(&mut index, &mut memory, &lax()).unwrap();
            assert_eq!(written.id, model_of(&index));
            assert_ne!(written.id, root);
        }
        // Modes that git never writes, as git takes them.
        for tree in memory.trees.values() {
            repo.git_with(["hash-object", "-t", "tree", "-w", "--stdin", "--literally"], tree);
        }
        for mode in ["100664", "100600", "100755", "100777", "100711", "120777", "160777", "0", "777", "20000"] {
            let root = memory.tree(&[(mode, "f", blob)]);
            repo.git_with(["hash-object", "-t", "tree", "-w", "--stdin", "--literally"], &memory.trees[&root]);
            repo.git(["read-tree", &root.to_string()]);
            let arena = Bump::new();
            let mut ours = Index::new(&arena, kind);
            read_tree(&mut ours, &mut memory, &root, &ReadTreeOptions::default()).unwrap();
            assert_eq!(listed(&ours), String::from_utf8_lossy(&repo.git(["ls-files", "-s", "-z"])), "{mode}");
        }
    }
}

#[test]
fn depth_and_number_have_limits() {
    let kind = HashKind::Sha1;
    let mut memory = Memory::new(kind);
    let mut tree = memory.tree(&[("100644", "f", some(kind, 1))]);
    let mut deep = vec![tree];
    for _ in 1..10_000 {
        tree = memory.tree(&[("40000", "d", tree)]);
        deep.push(tree);
    }
    let arena = Bump::new();
    let mut index = Index::new(&arena, kind);
    let mut read = |id: &ObjectId, limits: TreeLimits| {
        read_tree(&mut index, &mut memory, id, &ReadTreeOptions::default().limits(limits))
    };
    let limits = TreeLimits::default();
    assert_eq!(read(&deep[2047], limits).unwrap(), 1);
    assert!(matches!(read(&deep[2048], limits), Err(TreeError::TooDeep { limit: 2048 })));
    assert!(matches!(read(&deep[9999], limits), Err(TreeError::TooDeep { limit: 2048 })));
    assert_eq!(read(&deep[9999], limits.max_depth(10_000)).unwrap(), 1);

    // ... and back to trees and into a check, as deep.
    assert_eq!(index.cache_tree().unwrap().node_count(), 10_000);
    let options = lax().ignore_cache_tree(true);
    assert_eq!(write_tree(&mut index, &mut Memory::new(kind), &options).unwrap().id, deep[9999]);
    assert_eq!(verify_cache_tree(&index).unwrap(), []);

    // Thirty trees that stand for 2^30 files.
    let mut bomb = deep[0];
    for _ in 0..30 {
        bomb = memory.tree(&[("40000", "a", bomb), ("40000", "b", bomb)]);
    }
    let options = ReadTreeOptions::default().limits(limits.max_entries(10_000));
    let error = read_tree(&mut index, &mut memory, &bomb, &options).unwrap_err();
    assert!(matches!(error, TreeError::TooMany { limit: 10_000 }), "{error}");

    // A path of 300,000 components is no tree to be afraid of either.
    let path = ["d/".repeat(300_000).as_bytes(), b"f"].concat();
    let mut index = Index::new(&arena, kind);
    index
        .replace_entries([NewEntry::new(&path, FILE, some(kind, 1)), NewEntry::new(b"e", FILE, some(kind, 1))])
        .unwrap();
    let written = write_tree(&mut index, &mut Memory::new(kind), &lax()).unwrap();
    assert_eq!(written.written, 300_001);
}

#[test]
fn a_failing_store_leaves_the_index_as_it_was() {
    let kind = HashKind::Sha1;
    let arena = Bump::new();
    let mut index = index_of(&arena, kind, &["a/b", "c/d"]);
    let error =
        write_tree(&mut index, &mut ByGit(&TestRepo::init(Hash::Sha1)), &WriteTreeOptions::default()).unwrap_err();
    assert!(matches!(error, TreeError::Missing { .. }), "{error}");
    assert!(index.cache_tree().is_none());
    let error = read_tree(&mut index, &mut Memory::new(kind), &some(kind, 1), &Default::default()).unwrap_err();
    assert!(matches!(error, TreeError::Objects(_)), "{error}");
    assert_eq!(index.len(), 2);
    let other = HashKind::Sha256;
    let mut memory = Memory::new(other);
    let tree = memory.tree(&[("100644", "f", some(other, 1))]);
    let error = read_tree(&mut index, &mut memory, &tree, &Default::default()).unwrap_err();
    assert!(!matches!(error, TreeError::Edit(EditError::Order { .. })), "{error}");
}

#[derive(Debug, Clone)]
enum Op {
    Add(usize, u8, usize),
    Remove(usize),
    Flags(usize, bool),
    Write,
}

const POOL: [&str; 14] =
    ["a", "a-/x", "a/b/c", "a/b/d", "a/b", "a/e", "b/c", "b/d/e/f", "b/d/e/g", "b", "c", "a0", "a/b-", "b/d"];

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..POOL.len(), any::<u8>(), 0..4usize).prop_map(|(path, n, mode)| Op::Add(path, n, mode)),
        3 => (0..POOL.len()).prop_map(Op::Remove),
        1 => (0..POOL.len(), any::<bool>()).prop_map(|(path, yes)| Op::Flags(path, yes)),
        3 => Just(Op::Write),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Whatever is edited in between, what is remembered is true, and what is written is what the model says.
    #[test]
    fn remembered_trees_stay_true(ops in prop::collection::vec(op(), 1..40), sha256: bool) {
        let kind = if sha256 { HashKind::Sha256 } else { HashKind::Sha1 };
        let arena = Bump::new();
        let mut index = Index::new(&arena, kind);
        let mut memory = Memory::new(kind);
        for op in ops {
            match op {
                Op::Add(path, n, mode) => {
                    let entry = NewEntry::new(POOL[path].as_bytes(), MODES[mode], some(kind, n));
                    index.add(&entry, &AddOptions::default().replace(true)).unwrap();
                }
                Op::Remove(path) => drop(index.remove(POOL[path].as_bytes())),
                Op::Flags(path, yes) => {
                    if let Ok(at) = index.find(POOL[path].as_bytes(), Stage::Merged) {
                        index.set_flags(at, Flags { intent_to_add: yes, ..Flags::default() });
                    }
                }
                Op::Write => {
                    let tree = write_tree(&mut index, &mut memory, &WriteTreeOptions::default()).unwrap();
                    let entries: BTreeMap<_, _> = index
                        .iter()
                        .filter(|entry| !entry.flags().intent_to_add)
                        .map(|entry| (entry.path().to_vec(), (entry.mode(), entry.id())))
                        .collect();
                    let mut trees = BTreeSet::new();
                    prop_assert_eq!(tree.id, model(kind, &entries, &mut trees));
                    prop_assert!(trees.iter().all(|tree| memory.trees.contains_key(tree)));
                    // As it would be read back.
                    let mut data = Vec::new();
                    index.cache_tree().unwrap().append_to(&mut data);
                    let data = arena.alloc_slice_copy(&data);
                    let read = CacheTree::parse(data, kind, index.len()).unwrap();
                    index.set_cache_tree(Some(read));
                    if entries.len() == index.len() {
                        let mut back = Index::new(&arena, kind);
                        read_tree(&mut back, &mut memory, &tree.id, &ReadTreeOptions::default()).unwrap();
                        prop_assert_eq!(listed(&back), listed(&index));
                        prop_assert_eq!(crate::objects::nodes(&back), crate::objects::nodes(&index));
                    }
                }
            }
            prop_assert_eq!(verify_cache_tree(&index).unwrap(), vec![]);
        }
    }
}
