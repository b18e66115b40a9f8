//! Sparse indexes beside git's.

use object::{HashKind, ObjectId, ObjectKind, object_id};
use packstone_index::ext::CacheTreeBuilder;
use packstone_index::sparse::{collapse, expand, expand_to};
use packstone_index::trees::{TreeError, TreeLimits, WriteTreeOptions, verify_cache_tree, write_tree};
use packstone_index::{Bump, Flags, Index, Mode, NewEntry, Stage};
use testkit::{Hash, TestRepo};

use crate::objects::{ByGit, Memory, index, listed, nodes};

const FILES: [&str; 16] = [
    "a.txt",
    "a/1",
    "a/b/2",
    "a/b/c/3",
    "a/b/c/4",
    "a/b-/5",
    "a/d/6",
    "b/7",
    "b/c/8",
    "b/c/d/9",
    "c/d/e/f/10",
    "c/d/e/g",
    "c/d-/h",
    "z",
    "z-/1",
    "zz/y/x/w",
];

fn repo(hash: Hash) -> TestRepo {
    let repo = TestRepo::init(hash);
    let files: Vec<(&str, &[u8])> = FILES.iter().map(|path| (*path, path.as_bytes())).collect();
    repo.commit_files(&files, "first");
    repo
}

/// Makes the repository's index full or sparse, with these directories checked out.
fn checkout(repo: &TestRepo, sparse: bool, dirs: &[&str]) {
    let form = if sparse { "--sparse-index" } else { "--no-sparse-index" };
    repo.git([&["sparse-checkout", "set", "--cone", form][..], dirs].concat());
}

/// As git's cone mode: these directories with all below, and the files right in each directory above.
fn cone<'d>(dirs: &'d [&str]) -> impl Fn(&[u8]) -> bool + 'd {
    |dir| {
        dirs.iter().any(|picked| {
            let picked = format!("{picked}/");
            dir.starts_with(picked.as_bytes()) || picked.as_bytes().starts_with(dir)
        })
    }
}

/// Ids, paths and which are outside of the checkout. Entries, not files: a sparse index is listed as it is.
fn git_lists(repo: &TestRepo) -> (String, String) {
    let list = |flag| String::from_utf8(repo.git(["ls-files", "--sparse", flag, "-z"])).expect("paths are text");
    (list("-s"), list("-t"))
}

fn lists(index: &Index<'_>) -> (String, String) {
    let tag = |entry: packstone_index::Entry<'_>| {
        let tag = if entry.flags().skip_worktree { 'S' } else { 'H' };
        format!("{tag} {}\0", String::from_utf8_lossy(entry.path()))
    };
    (listed(index), index.iter().map(tag).collect())
}

const CONES: [&[&str]; 7] =
    [&[], &["a"], &["a/b/c"], &["a/b", "b/c"], &["c/d/e/f", "zz"], &["nowhere"], &["a", "b", "c", "z-", "zz"]];

#[test]
fn collapsing_and_expanding_make_what_git_makes() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        let repo = repo(hash);
        for dirs in CONES {
            checkout(&repo, false, dirs);
            let arena = Bump::new();
            let mut ours = index(&repo, &arena);
            let full = lists(&ours);
            assert_eq!((ours.len(), ours.is_sparse()), (FILES.len(), false));
            checkout(&repo, true, dirs);
            let theirs = index(&repo, &arena);
            let sparse = git_lists(&repo);

            let collapsed = collapse(&mut ours, &mut ByGit(&repo), &cone(dirs)).unwrap();
            assert_eq!(lists(&ours), sparse, "{dirs:?}");
            assert!(ours.is_sparse() && theirs.is_sparse());
            assert_eq!(collapsed, ours.iter().filter(|entry| entry.is_sparse_dir()).count());
            assert_eq!(nodes(&ours), nodes(&theirs));
            assert_eq!(verify_cache_tree(&ours).unwrap(), []);
            assert_eq!(collapse(&mut ours, &mut ByGit(&repo), &cone(dirs)).unwrap(), 0, "nothing is left");
            assert_eq!(lists(&ours), sparse);

            let expanded = expand(&mut ours, &mut ByGit(&repo), &TreeLimits::default(), &|_| false).unwrap();
            assert_eq!((expanded, ours.is_sparse()), (collapsed, false));
            assert_eq!(lists(&ours), full, "{dirs:?}");
            assert_eq!(verify_cache_tree(&ours).unwrap(), []);
            assert!(ours.cache_tree().unwrap().is_fully_valid());
            checkout(&repo, false, dirs);
            assert_eq!(nodes(&ours), nodes(&index(&repo, &arena)));
            let tree = write_tree(&mut ours, &mut ByGit(&repo), &WriteTreeOptions::default()).unwrap();
            assert_eq!((tree.id.to_string(), tree.written), (repo.rev_parse("HEAD^{tree}"), 0));
        }
    }
}

#[test]
fn trees_are_written_from_sparse_indexes() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        let repo = repo(hash);
        checkout(&repo, true, &["a/b"]);
        repo.write("a/b/new", b"new");
        repo.git(["add", "a/b/new"]);
        let arena = Bump::new();
        let mut ours = index(&repo, &arena);
        assert!(ours.is_sparse() && ours.iter().any(|entry| entry.is_sparse_dir()));
        for anew in [false, true] {
            let options = WriteTreeOptions::default().ignore_cache_tree(anew);
            let tree = write_tree(&mut ours, &mut ByGit(&repo), &options).unwrap();
            assert_eq!(tree.id.to_string(), repo.git_str(["write-tree"]));
            assert_eq!(verify_cache_tree(&ours).unwrap(), []);
        }
        let dir = WriteTreeOptions::default().prefix(Some(b"c/"));
        let tree = write_tree(&mut ours, &mut ByGit(&repo), &dir).unwrap();
        assert_eq!(tree.id.to_string(), repo.rev_parse("HEAD:c"));
    }
}

#[test]
fn only_what_is_on_the_way_is_expanded() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        let repo = repo(hash);
        checkout(&repo, true, &[]);
        let arena = Bump::new();
        let to = |path: &str| {
            let mut ours = index(&repo, &arena);
            let count = expand_to(&mut ours, &mut ByGit(&repo), &TreeLimits::default(), path.as_bytes()).unwrap();
            assert_eq!(verify_cache_tree(&ours).unwrap(), []);
            assert!(ours.cache_tree().unwrap().is_fully_valid());
            let paths: Vec<String> =
                ours.iter().map(|entry| String::from_utf8_lossy(entry.path()).into_owned()).collect();
            assert_eq!(ours.is_sparse(), paths.iter().any(|path| path.ends_with('/')));
            (count, paths.join(" "))
        };
        assert_eq!(to("a/b/c/3"), (1, "a.txt a/1 a/b-/ a/b/2 a/b/c/3 a/b/c/4 a/d/ b/ c/ z z-/ zz/".into()));
        assert_eq!(to("a/b"), (1, "a.txt a/1 a/b-/ a/b/ a/d/ b/ c/ z z-/ zz/".into()));
        for path in ["a", "a.txt", "q/r", "z", "a.txt/x"] {
            assert_eq!(to(path), (0, "a.txt a/ b/ c/ z z-/ zz/".into()), "{path}");
        }
        // A path that is not there: as far as its directories are.
        assert_eq!(to("c/d/nothing"), (1, "a.txt a/ b/ c/d-/ c/d/e/ z z-/ zz/".into()));
    }
}

#[test]
fn what_has_to_stay_stays() {
    let outside = Flags { skip_worktree: true, ..Flags::default() };
    for kind in HashKind::ALL {
        let blob = object_id(kind, ObjectKind::Blob, b"x").unwrap();
        let full = |arena: &mut Vec<NewEntry<'static>>| {
            let paths = ["a/b/1", "a/b/2", "a/c/3", "d/4", "e/f/5", "e/g/6", "h"];
            arena.extend(
                paths
                    .iter()
                    .map(|path| NewEntry { flags: outside, ..NewEntry::new(path.as_bytes(), Mode(0o100_644), blob) }),
            );
        };
        let collapsed = |change: &dyn Fn(&mut NewEntry<'static>)| {
            let arena = Bump::new();
            let mut entries = Vec::new();
            full(&mut entries);
            entries.iter_mut().for_each(change);
            let mut index = Index::new(&arena, kind);
            index.replace_entries(entries).unwrap();
            let mut memory = Memory::new(kind);
            collapse(&mut index, &mut memory, &|_| false).unwrap();
            assert_eq!(verify_cache_tree(&index).unwrap(), []);
            let paths = index.iter().map(|entry| String::from_utf8_lossy(entry.path()).into_owned());
            paths.collect::<Vec<_>>().join(" ")
        };
        let at = |path: &'static str, change: fn(&mut NewEntry<'static>)| {
            move |entry: &mut NewEntry<'static>| {
                if entry.path == path.as_bytes() {
                    change(entry);
                }
            }
        };
        assert_eq!(collapsed(&|_| {}), "a/ d/ e/ h");
        assert_eq!(collapsed(&at("a/b/2", |e| e.flags.skip_worktree = false)), "a/b/1 a/b/2 a/c/ d/ e/ h");
        assert_eq!(collapsed(&at("e/g/6", |e| e.mode = Mode(0o160_000))), "a/ d/ e/f/ e/g/6 h");
        assert_eq!(collapsed(&at("d/4", |e| e.flags.intent_to_add = true)), "a/ d/4 e/ h");
        let unmerged = collapsed(&at("d/4", |e| e.stage = Stage::Ours));
        assert_eq!(unmerged, "a/b/1 a/b/2 a/c/3 d/4 e/f/5 e/g/6 h");
    }
}

#[test]
fn a_cache_tree_that_lies_about_its_span_collapses_nothing() {
    for kind in HashKind::ALL {
        let blob = object_id(kind, ObjectKind::Blob, b"x").unwrap();
        for claim in [1, 3, 500] {
            let arena = Bump::new();
            let mut index = Index::new(&arena, kind);
            let entry = |path: &'static str| NewEntry {
                flags: Flags { skip_worktree: true, ..Flags::default() },
                ..NewEntry::new(path.as_bytes(), Mode(0o100_644), blob)
            };
            index.replace_entries(["a/b", "a/c", "d/e", "f"].map(entry)).unwrap();
            let mut builder = CacheTreeBuilder::new(kind);
            builder.open(b"");
            builder.open(b"a");
            builder.close(Some((claim, blob)));
            builder.open(b"d");
            builder.close(Some((1, blob)));
            builder.close(Some((if claim == 1 { 4 } else { 3 }, blob)));
            index.set_cache_tree(Some(builder.finish()));
            assert_eq!(collapse(&mut index, &mut Memory::new(kind), &|_| false).unwrap(), 1);
            let paths: Vec<&[u8]> = index.iter().map(|entry| entry.path()).collect();
            assert_eq!(paths, [&b"a/b"[..], b"a/c", b"d/", b"f"]);
            let tree = index.cache_tree().unwrap();
            assert_eq!(tree.valid(tree.find(b"a").unwrap()), None, "what was a lie is not passed on");
            assert_eq!(tree.valid(tree.root()).is_some(), claim == 1);
        }
    }
}

#[test]
fn an_expansion_that_fails_changes_nothing() {
    for kind in HashKind::ALL {
        let mut memory = Memory::new(kind);
        let blob = object_id(kind, ObjectKind::Blob, b"x").unwrap();
        let good = memory.tree(&[("100644", "f", blob)]);
        let empty = memory.put(Vec::new());
        let mut deep = good;
        for _ in 0..2048 {
            deep = memory.tree(&[("40000", "d", deep)]);
        }
        let bad = memory.tree(&[("100644", "..", blob)]);
        let arena = Bump::new();
        let sparse = |id: ObjectId| {
            let mut index = Index::new(&arena, kind);
            let dir = |path, id| NewEntry {
                flags: Flags { skip_worktree: true, ..Flags::default() },
                ..NewEntry::new(path, Mode(0o040_000), id)
            };
            index.replace_entries([dir(b"a/", good), dir(b"b/", id)]).unwrap();
            index.set_sparse(true);
            index.set_fsmonitor(Some(b"token"));
            index
        };
        for id in [blob, deep, bad, kind.null()] {
            let mut index = sparse(id);
            let before = listed(&index);
            let error = expand(&mut index, &mut memory, &TreeLimits::default(), &|_| false).unwrap_err();
            assert!(
                matches!(error, TreeError::Objects(_) | TreeError::TooDeep { .. } | TreeError::Path { .. }),
                "{error}"
            );
            assert_eq!((listed(&index), index.is_sparse()), (before, true));
            assert_eq!(index.fsmonitor_token(), Some(&b"token"[..]));
        }
        // Kept, it is not looked at.
        let mut index = sparse(bad);
        assert_eq!(expand(&mut index, &mut memory, &TreeLimits::default(), &|dir| dir == b"b/").unwrap(), 1);
        assert!(index.is_sparse() && index.len() == 2 && index.get(0).unwrap().path() == b"a/f");
        assert_eq!(index.fsmonitor_token(), None);
        // A directory without entries is gone, and the tree above is not the one that was known.
        let mut index = sparse(empty);
        write_tree(&mut index, &mut memory, &WriteTreeOptions::default()).unwrap();
        assert_eq!(expand(&mut index, &mut memory, &TreeLimits::default(), &|_| false).unwrap(), 2);
        assert_eq!((index.len(), index.is_sparse()), (1, false));
        let tree = index.cache_tree().unwrap();
        assert_eq!((tree.valid(tree.root()), tree.valid(tree.find(b"a").unwrap())), (None, Some((1, good))));
        assert_eq!(verify_cache_tree(&index).unwrap(), []);
    }
}
