//! Requests by reachability: the same objects as git's, in a pack that git accepts.

use std::collections::{BTreeSet, HashMap};

use testkit::io::Rng;
use testkit::repo::{Hash, TestRepo};

use crate::support::{Ask, ids};

/// How a repository's objects lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Storage {
    Loose,
    Packed,
    Bitmapped,
    BitmappedAndLater,
    TwoPacksAndLoose,
}

const STORAGES: [Storage; 5] =
    [Storage::Loose, Storage::Packed, Storage::Bitmapped, Storage::BitmappedAndLater, Storage::TwoPacksAndLoose];

fn repository(hash: Hash, storage: Storage, graph: bool) -> TestRepo {
    let repo = TestRepo::rich(hash);
    match storage {
        Storage::Loose => {
            let pack = repo.packs();
            for pack in pack {
                let aside = repo.scratch().join("aside.pack");
                std::fs::rename(&pack, &aside).expect("move the pack");
                for extension in ["idx", "rev"] {
                    let _ = std::fs::remove_file(pack.with_extension(extension));
                }
                repo.git_with(["unpack-objects", "-q"], &std::fs::read(&aside).expect("read the pack"));
            }
        }
        Storage::Packed => repo.repack(),
        Storage::Bitmapped => repo.repack_with_bitmap(),
        Storage::BitmappedAndLater | Storage::TwoPacksAndLoose => {
            if storage == Storage::BitmappedAndLater {
                repo.repack_with_bitmap()
            } else {
                repo.repack()
            }
            for round in 0..2 {
                for n in 0..5 {
                    let blob = repo.hash_object("blob", format!("later {round} {n}\n").repeat(50 + n).as_bytes());
                    let listing =
                        repo.git_str(["ls-tree", "main"]) + &format!("\n100644 blob {blob}\tlater{round}-{n}\n");
                    let tree = repo.git_with(["mktree"], listing.as_bytes());
                    let tree = String::from_utf8(tree).expect("an id");
                    repo.tick();
                    let commit = repo.git_str(["commit-tree", "-p", "main", "-m", "later", tree.trim()]);
                    repo.git(["update-ref", "refs/heads/main", &commit]);
                }
                if round == 0 {
                    repo.repack_loose();
                }
            }
            if storage == Storage::BitmappedAndLater {
                repo.repack_loose();
            }
        }
    }
    if graph {
        repo.write_commit_graph();
    }
    repo
}

fn asks(repo: &TestRepo, storage: Storage, seed: u64) -> Vec<Ask> {
    let commits: Vec<String> = repo.git_str(["rev-list", "--all"]).lines().map(str::to_owned).collect();
    let refs: Vec<String> =
        repo.git_str(["for-each-ref", "--format=%(objectname)"]).lines().map(str::to_owned).collect();
    let mut rng = Rng::new(seed);
    let mut pick = |from: &[String], most: u64| -> Vec<String> {
        (0..rng.below(most) + 1).map(|_| from[rng.below(from.len() as u64) as usize].clone()).collect()
    };
    let bitmaps = matches!(storage, Storage::Bitmapped | Storage::BitmappedAndLater);
    let all = Ask { wants: refs.clone(), bitmaps, offsets: true, sparse: true, ..Ask::default() };
    let mut asks = vec![
        all.clone(),
        Ask { offsets: false, ..all.clone() },
        Ask { haves: vec![commits[commits.len() / 2].clone()], thin: true, ..all.clone() },
        Ask { wants: vec![refs[0].clone()], include_tag: true, ..all.clone() },
    ];
    for filter in [
        "blob:none",
        "blob:limit=200",
        "tree:0",
        "tree:1",
        "tree:3",
        "object:type=tree",
        "object:type=blob",
        "object:type=commit",
        "object:type=tag",
        "combine:blob:limit=1k+tree:3",
    ] {
        let filter = Some(filter.to_owned());
        asks.push(Ask { filter: filter.clone(), ..all.clone() });
        asks.push(Ask { filter, wants: pick(&commits, 3), haves: pick(&commits, 2), thin: true, ..all.clone() });
    }
    for round in 0..12 {
        asks.push(Ask {
            wants: pick(if round % 3 == 0 { &refs } else { &commits }, 3),
            haves: if round % 4 == 3 { Vec::new() } else { pick(&commits, 3) },
            thin: round % 2 == 0,
            offsets: round % 3 != 1,
            include_tag: round % 4 == 1,
            sparse: round % 5 != 0,
            ..all.clone()
        });
    }
    asks
}

/// The parents of every commit.
fn parents(repo: &TestRepo) -> HashMap<String, Vec<String>> {
    let listing = repo.git_str(["rev-list", "--all", "--parents"]);
    let line = |line: &str| {
        let mut ids = line.split(' ').map(str::to_owned);
        (ids.next().expect("a commit"), ids.collect())
    };
    listing.lines().map(line).collect()
}

/// Whether git lists exactly the commits that the wants reach and the haves do not.
fn git_is_exact(parents: &HashMap<String, Vec<String>>, repo: &TestRepo, ask: &Ask) -> bool {
    let reach = |tips: &[String]| {
        let mut todo: Vec<String> = tips.iter().map(|tip| repo.rev_parse(&format!("{tip}^{{}}"))).collect();
        let mut reached = BTreeSet::new();
        while let Some(id) = todo.pop() {
            if let Some(parents) = parents.get(&id)
                && reached.insert(id)
            {
                todo.extend(parents.iter().cloned());
            }
        }
        reached
    };
    let exact = &reach(&ask.wants) - &reach(&ask.haves);
    let mut args = vec!["rev-list".to_owned()];
    args.extend(ask.wants.iter().cloned());
    args.push("--not".to_owned());
    args.extend(ask.haves.iter().cloned());
    repo.git_str(args).lines().map(str::to_owned).collect::<BTreeSet<_>>() == exact
}

fn same_as_git(hash: Hash, storage: Storage, graph: bool, seed: u64) {
    let repo = repository(hash, storage, graph);
    let parents = parents(&repo);
    for ask in asks(&repo, storage, seed) {
        let options = ask.git_options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let expected = repo.pack_objects_ids(&options, &ask.input());
        let (pack, outcome, selection) = ask.pack(&repo);
        assert!(selection.warnings.is_empty(), "{:?}", selection.warnings);
        let found = ids(&selection);
        let (more, less): (Vec<_>, Vec<_>) =
            (found.difference(&expected).collect(), expected.difference(&found).collect());
        // Where dates run backwards, git can miss that a commit is reachable from the haves; we do not.
        let less = if git_is_exact(&parents, &repo, &ask) { less } else { Vec::new() };
        assert!(more.is_empty() && less.is_empty(), "too many: {more:?}, too few: {less:?} for {storage:?} {ask:?}");
        assert_eq!(outcome.count as usize, found.len());
        // index-pack accepts it, and finds in it what was selected.
        assert_eq!(repo.ids_of_stream(&pack), found, "{storage:?} {ask:?}");
        assert_eq!(outcome.bytes, pack.len() as u64);
        if ask.bitmaps && !ask.filter.as_deref().is_some_and(|f| f.contains("tree:1") || f.contains("tree:3")) {
            assert!(selection.bitmap.is_some(), "the bitmap was not used: {ask:?}");
        }
        let threaded = Ask { threads: 3, ..ask.clone() };
        assert!(threaded.pack(&repo).0 == pack, "the bytes depend on the number of threads: {ask:?}");
    }
}

macro_rules! same_as_git {
    ($($name:ident: $storage:ident, $graph:expr;)*) => {$(
        #[test]
        fn $name() {
            assert!(STORAGES.contains(&Storage::$storage));
            for (seed, hash) in Hash::ALL.into_iter().enumerate() {
                same_as_git(hash, Storage::$storage, $graph, seed as u64 + 1);
            }
        }
    )*};
}

same_as_git! {
    loose: Loose, false;
    packed: Packed, true;
    bitmapped: Bitmapped, false;
    bitmapped_and_a_later_pack: BitmappedAndLater, true;
    two_packs_and_loose_objects: TwoPacksAndLoose, false;
}

#[test]
fn a_whole_pack_is_sent_as_it_lies() {
    for hash in Hash::ALL {
        for bitmaps in [false, true] {
            let repo = TestRepo::rich(hash);
            if bitmaps {
                repo.repack_with_bitmap()
            } else {
                repo.repack()
            }
            let wants: Vec<String> =
                repo.git_str(["for-each-ref", "--format=%(objectname)"]).lines().map(str::to_owned).collect();
            let ask = Ask { wants, offsets: true, bitmaps, sparse: true, ..Ask::default() };
            let (pack, outcome, _) = ask.pack(&repo);
            assert!(outcome.verbatim, "the fast path was not taken");
            assert!(pack == std::fs::read(repo.only_pack()).expect("read the pack"));
            // A receiver without offset deltas cannot have it as it lies.
            let (pack, outcome, _) = Ask { offsets: false, ..ask }.pack(&repo);
            assert!(!outcome.verbatim);
            let listed = repo.index_stream(&pack);
            assert_eq!(listed.len(), outcome.count as usize);
            assert!(outcome.deltas > 0, "the deltas were lost");
            // Entries of the pack whose bitmap answered count as reused with their pack.
            assert_eq!(outcome.reused_deltas > 0, !bitmaps);
        }
    }
}

#[test]
fn runs_are_reused_around_a_gap() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.repack_with_bitmap();
        let ask =
            Ask { wants: vec![repo.rev_parse("main")], offsets: true, bitmaps: true, sparse: true, ..Ask::default() };
        let (_, outcome, _) = ask.pack(&repo);
        assert!(!outcome.verbatim);
        assert!(outcome.pack_reused > outcome.count / 2, "{outcome:?}");
        assert!(outcome.pack_reused < outcome.count || outcome.reused == 0);
    }
}

#[test]
fn thin_packs_keep_deltas_against_what_the_receiver_has() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 60);
        repo.repack_with_bitmap();
        let ask = |thin| Ask {
            wants: vec![repo.rev_parse("main~20")],
            haves: vec![repo.rev_parse("main~40")],
            thin,
            offsets: true,
            bitmaps: true,
            sparse: true,
            ..Ask::default()
        };
        let (thin, thin_outcome, _) = ask(true).pack(&repo);
        let (full, ..) = ask(false).pack(&repo);
        assert!(thin_outcome.deltas > 0);
        // Both are complete once indexed; the fat one without the objects around it.
        assert_eq!(repo.ids_of_stream(&thin), repo.ids_of_stream(&full));
        let alone = TestRepo::bare(hash);
        alone.git_with(["index-pack", "--stdin"], &full);
    }
}

#[test]
fn an_empty_answer_is_an_empty_pack() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 3);
        let tip = repo.rev_parse("main");
        let ask = Ask { wants: vec![tip.clone()], haves: vec![tip], sparse: true, ..Ask::default() };
        let (pack, outcome, _) = ask.pack(&repo);
        assert_eq!(outcome.count, 0);
        assert_eq!(pack, repo.pack_objects(&["--revs"], &ask.input()));
    }
}
