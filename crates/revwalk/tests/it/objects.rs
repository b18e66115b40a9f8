//! Walks over trees, beside git's.

use std::collections::{BTreeSet, HashSet};

use object::{HashKind, ObjectId};
use odb::{Observer, Options, Quiet, Store};
use packstone_revwalk::{
    BlobRule, Boundary, Missing, Numbering, ObjectSet, ObjectWalk, Place, WalkError, WalkOptions, WalkStats,
};
use testkit::{Hash, TestRepo};

fn store(repo: &TestRepo) -> Store {
    let kind = match repo.hash() {
        Hash::Sha1 => HashKind::Sha1,
        Hash::Sha256 => HashKind::Sha256,
    };
    Store::open(&repo.objects_dir(), Options::new(kind)).expect("open")
}

fn id(hex: &str) -> ObjectId {
    hex.parse().expect("an id")
}

/// The root trees of all commits that `revisions` reach.
fn roots(repo: &TestRepo, revisions: &[&str]) -> Vec<ObjectId> {
    let mut args = vec!["log", "--format=%T"];
    args.extend(revisions);
    repo.git_str(args).lines().map(id).collect()
}

fn names(numbering: &Numbering, set: &ObjectSet) -> BTreeSet<String> {
    set.iter().map(|nr| numbering.id_of(nr).expect("an id").to_string()).collect()
}

/// Trees and blobs that git lists.
fn listed(repo: &TestRepo, revisions: &[&str]) -> BTreeSet<String> {
    let mut args = vec!["rev-list", "--objects", "--no-object-names"];
    args.extend(revisions);
    let commits: BTreeSet<String> = repo.git_str(["rev-list", "--all"]).lines().map(str::to_owned).collect();
    repo.git_str(args).lines().map(str::to_owned).filter(|id| !commits.contains(id)).collect()
}

fn walk(numbering: &Numbering, options: &WalkOptions, roots: &[ObjectId]) -> (ObjectSet, WalkStats) {
    let mut walk = ObjectWalk::new(numbering, options.clone());
    let mut seen = ObjectSet::new();
    walk.mark(roots.iter().copied(), &mut seen, None, &Quiet).expect("walk");
    (seen, walk.stats())
}

/// Enough trees for threads to start, which a small repository has not.
fn large(hash: Hash) -> TestRepo {
    let repo = TestRepo::linear(hash, 2500);
    repo.repack();
    repo
}

#[test]
fn reaches_what_git_reaches_on_any_number_of_threads() {
    for hash in Hash::ALL {
        let repo = large(hash);
        let store = store(&repo);
        let numbering = Numbering::new(&store, None).expect("number");
        let roots = roots(&repo, &["main"]);
        let (one, stats) = walk(&numbering, &WalkOptions::default(), &roots);
        assert_eq!(names(&numbering, &one), listed(&repo, &["main"]));
        assert!(stats.entries_carried > stats.entries_read, "the deltas were not used: {stats:?}");
        for threads in [2, 3] {
            let (many, _) = walk(&numbering, &WalkOptions::default().threads(threads), &roots);
            assert!(many.words() == one.words() || names(&numbering, &many) == names(&numbering, &one));
        }
        // With hardly a cache, bases are read again and again, and the answer is the same.
        let (poor, _) = walk(&numbering, &WalkOptions::default().cache_bytes(1), &roots);
        assert_eq!(names(&numbering, &poor), names(&numbering, &one));
    }
}

#[test]
fn filters_are_gits() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        for packed in [false, true] {
            if packed {
                repo.repack();
            }
            let store = store(&repo);
            let numbering = Numbering::new(&store, None).expect("number");
            let roots = roots(&repo, &["main", "side"]);
            let options = WalkOptions::default;
            let cases = [
                ("blob:none", options().blobs(BlobRule::None)),
                ("blob:limit=100", options().blobs(BlobRule::Below(100))),
                ("blob:limit=0", options().blobs(BlobRule::Below(0))),
                ("tree:0", options().tree_depth(Some(0))),
                ("tree:1", options().tree_depth(Some(1))),
                ("tree:2", options().tree_depth(Some(2))),
                ("tree:4", options().tree_depth(Some(4))),
            ];
            for (filter, options) in cases {
                let expected = listed(&repo, &[&format!("--filter={filter}"), "main", "side"]);
                for threads in [1, 2] {
                    let (seen, _) = walk(&numbering, &options.clone().threads(threads), &roots);
                    assert_eq!(names(&numbering, &seen), expected, "{filter}");
                }
            }
        }
    }
}

#[test]
fn stops_at_a_boundary() {
    for hash in Hash::ALL {
        let repo = large(hash);
        let store = store(&repo);
        let numbering = Numbering::new(&store, None).expect("number");
        let (old, _) = walk(&numbering, &WalkOptions::default(), &roots(&repo, &["main~1200"]));
        let new = roots(&repo, &["main", "^main~1200"]);
        for boundary in [Boundary::closed(&old), Boundary::open(&old)] {
            for threads in [1, 2] {
                let mut walk = ObjectWalk::new(&numbering, WalkOptions::default().threads(threads));
                let mut seen = ObjectSet::new();
                walk.mark(new.iter().copied(), &mut seen, Some(boundary), &Quiet).expect("walk");
                let expected = &listed(&repo, &["main"]) - &names(&numbering, &old);
                assert_eq!(names(&numbering, &seen), expected);
            }
        }
    }
}

#[test]
fn edges_are_known_as_in_gits_sparse_walk() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 60);
        repo.repack();
        let store = store(&repo);
        let numbering = Numbering::new(&store, None).expect("number");
        let mut walk = ObjectWalk::new(&numbering, WalkOptions::default());
        let (mut known, mut absent) = (ObjectSet::new(), HashSet::new());
        let wanted = roots(&repo, &["main", "^main~5"]);
        let edge = roots(&repo, &["-1", "main~5"]);
        walk.mark_edges(wanted, edge, &mut known, &mut absent, &Quiet).expect("mark");
        assert!(absent.is_empty());
        // All of it is the edge's, and of the paths that changed all is known.
        let whole = listed(&repo, &["main~5"]);
        let known = names(&numbering, &known);
        assert!(known.is_subset(&whole));
        let at_top: Vec<String> =
            repo.git_str(["ls-tree", "--object-only", "main~5"]).lines().map(str::to_owned).collect();
        assert!(at_top.iter().all(|id| known.contains(id)));
        assert!(known.len() < whole.len());
    }
}

#[test]
fn what_is_missing_is_named() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let lost = "1".repeat(hash.hex_len());
        let blob = repo.hash_object("blob", b"here");
        let tree = |entries: &str| {
            let made = repo.git_with(["mktree", "--missing"], entries.as_bytes());
            id(String::from_utf8(made).expect("an id").trim())
        };
        let without_blob = tree(&format!("100644 blob {blob}\there\n100644 blob {lost}\tgone\n"));
        let without_tree = tree(&format!("100644 blob {blob}\there\n040000 tree {lost}\tgone\n"));
        let store = store(&repo);
        let numbering = Numbering::new(&store, None).expect("number");
        let mark = |root, options: WalkOptions, stop: Option<Boundary<'_>>| {
            let mut seen = ObjectSet::new();
            ObjectWalk::new(&numbering, options).mark([root], &mut seen, stop, &Quiet).map(|()| seen)
        };
        let options = WalkOptions::default;
        assert!(
            matches!(mark(without_blob, options(), None), Err(WalkError::Missing { id }) if id.to_string() == lost)
        );
        assert!(
            matches!(mark(without_tree, options(), None), Err(WalkError::MissingTree { id }) if id.to_string() == lost)
        );
        mark(without_blob, options().blobs(BlobRule::None), None).expect("not looked for");
        let absent = HashSet::from([id(&lost)]);
        let nothing = ObjectSet::new();
        for root in [without_blob, without_tree] {
            let seen = mark(root, options().missing(Missing::Allow), None).expect("allowed");
            assert_eq!(names(&numbering, &seen), BTreeSet::from([root.to_string(), blob.clone()]));
            mark(root, options(), Some(Boundary::open(&nothing).absent(&absent))).expect("the receiver has it");
        }
        // A blob where a tree should be.
        let error = mark(id(&blob), options(), None).expect_err("not a tree");
        assert!(matches!(error, WalkError::NotATree { .. }), "{error}");
    }
}

#[test]
fn a_cancelled_walk_ends() {
    struct Stop;
    impl Observer for Stop {
        fn cancelled(&self) -> bool {
            true
        }
    }
    let repo = TestRepo::linear(Hash::Sha1, 3);
    let store = store(&repo);
    let numbering = Numbering::new(&store, None).expect("number");
    let mut walk = ObjectWalk::new(&numbering, WalkOptions::default());
    let error = walk.mark(roots(&repo, &["main"]), &mut ObjectSet::new(), None, &Stop).expect_err("cancelled");
    assert!(matches!(error, WalkError::Cancelled));
}

#[test]
fn numbers_name_objects_and_places() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 5);
        repo.repack();
        let loose = repo.hash_object("blob", b"loose");
        let store = store(&repo);
        let numbering = Numbering::new(&store, None).expect("number");
        let all = repo.all_objects();
        assert_eq!(numbering.packed_len() as usize, all.len() - 1);
        for hex in &all {
            let nr = numbering.number_of(&id(hex)).expect("look").expect("there");
            assert_eq!(numbering.id_of(nr).expect("an id").to_string(), *hex);
            assert_eq!(matches!(numbering.place(nr), Place::Outside), *hex == loose);
        }
        assert_eq!(numbering.outside_ids(), [id(&loose)]);
        assert_eq!(numbering.number_of(&id(&"2".repeat(hash.hex_len()))).expect("look"), None);
        // The lowest numbers are those of the pack in offset order.
        let offsets = repo.show_index(&repo.only_pack());
        for (nr, object) in offsets.iter().enumerate() {
            assert_eq!(
                numbering.id_of(packstone_revwalk::ObjectNr::new(nr as u32)).expect("an id").to_string(),
                object.id
            );
        }
    }
}
