//! Answers equal the naive difference of closures and git's own answer by bitmap, and bitmaps had a part in them.

use packstone_pack_bitmap::{AnswerError, OpenOptions, Request, answer};
use revwalk::{Commits, Filter, Numbering, Shallow};
use testkit::{Hash, TestRepo};

use crate::world::{Form, Ours, TIPS, Truth, forms, grown, ours, store};

const FILTERS: [&str; 11] = [
    "blob:none",
    "blob:limit=0",
    "blob:limit=12",
    "blob:limit=1000",
    "tree:0",
    "object:type=commit",
    "object:type=tree",
    "object:type=blob",
    "object:type=tag",
    "blob:limit=1000+object:type=blob",
    "blob:none+tree:0",
];

/// Tips by the bits of a number that a small generator draws.
fn draw(state: &mut u64, odds: u64) -> Vec<&'static str> {
    TIPS.into_iter()
        .filter(|_| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*state >> 33).is_multiple_of(odds)
        })
        .collect()
}

#[track_caller]
fn check(o: &Ours, truth: &Truth, wants: &[&str], haves: &[&str], filter: Option<&str>) {
    let ids = |tips: &[&str]| tips.iter().map(|t| truth.id(t)).collect::<Vec<_>>();
    let got = o.ask(&ids(wants), &ids(haves), filter).unwrap();
    let want = truth.answer(wants, haves, filter);
    let names = o.names(&got);
    assert!(
        names == want,
        "wants {wants:?} haves {haves:?} filter {filter:?}: lacks {:?}, has too many {:?}",
        want.difference(&names).collect::<Vec<_>>(),
        names.difference(&want).collect::<Vec<_>>(),
    );
    // The haves are complete too.
    let have: u64 = got.haves.count();
    assert_eq!(have, truth.answer(haves, &[], None).len() as u64);
}

#[test]
fn every_tip_alone_and_against_main() {
    for form in forms() {
        let repo = grown(form);
        let truth = Truth::of(&repo, &TIPS);
        let o = Ours::of(&repo);
        assert_eq!((o.file.has_lookup_table(), o.file.has_name_hashes()), (form.table, form.names));
        for tip in TIPS {
            check(&o, &truth, &[tip], &[], None);
            check(&o, &truth, &[tip], &["main~2"], None);
            check(&o, &truth, &["main"], &[tip], None);
        }
        check(&o, &truth, &TIPS, &[], None);
        check(&o, &truth, &TIPS, &TIPS, None);
        check(&o, &truth, &[], &["main"], None);
        check(&o, &truth, &["main", "main"], &[], None);
    }
}

#[test]
fn drawn_requests_with_every_filter() {
    for (form, graph) in [
        (Form { hash: Hash::Sha1, table: false, names: true }, false),
        (Form { hash: Hash::Sha256, table: true, names: true }, true),
    ] {
        let repo = grown(form);
        if graph {
            repo.write_commit_graph();
        }
        let truth = Truth::of(&repo, &TIPS);
        let o = Ours::of(&repo);
        assert_eq!(o.commits.graph().is_some(), graph);
        let mut state = 7;
        for round in 0..40 {
            let (wants, haves) = (draw(&mut state, 4), draw(&mut state, 6));
            check(&o, &truth, &wants, &haves, None);
            let filter = FILTERS[round % FILTERS.len()];
            check(&o, &truth, &wants, &haves, Some(filter));
            check(&o, &truth, &wants, &[], Some(filter));
        }
    }
}

#[test]
fn the_same_as_git_s_own_bitmap_walk() {
    let repo = grown(Form { hash: Hash::Sha1, table: true, names: true });
    let truth = Truth::of(&repo, &TIPS);
    let o = Ours::of(&repo);
    let requests: [(&[&str], &[&str]); 5] = [
        (&["main", "refs/tags/v2-nested"], &[]),
        (&["main", "topic", "refs/tags/late"], &["main~9", "side"]),
        (&["back", "main:growing", "refs/tags/tree-tag"], &["root2"]),
        // The blob before the tree that holds it: in the other order git forgets that it was asked for by name.
        (&["main:new/y", "main^{tree}", "refs/tags/blob-tag", "side"], &["main~25"]),
        (&["side", "refs/tags/v1"], &["main~30:src"]),
    ];
    for (wants, haves) in requests {
        for filter in [None].into_iter().chain(FILTERS.map(Some)) {
            let spec = filter.map(|f| {
                // git takes several filters for a combination.
                f.split('+').map(|f| format!("--filter={f}")).collect::<Vec<_>>()
            });
            let spec = spec.unwrap_or_default();
            let mut args = vec!["--use-bitmap-index"];
            args.extend(spec.iter().map(String::as_str));
            args.extend(wants);
            args.push("--not");
            args.extend(haves);
            let git = repo.rev_list_objects(&args);
            let ids = |tips: &[&str]| tips.iter().map(|t| truth.id(t)).collect::<Vec<_>>();
            let got = o.ask(&ids(wants), &ids(haves), filter).unwrap();
            assert_eq!(o.names(&got), git, "{args:?}");
        }
    }
}

#[test]
fn the_objects_that_pack_objects_packs() {
    let repo = grown(Form { hash: Hash::Sha256, table: false, names: true });
    let truth = Truth::of(&repo, &TIPS);
    let o = Ours::of(&repo);
    for (wants, haves) in [(&["main", "topic"][..], &["side"][..]), (&["refs/tags/v2-nested"], &[])] {
        let mut input = String::new();
        wants.iter().for_each(|t| input += &format!("{}\n", truth.ids[t]));
        haves.iter().for_each(|t| input += &format!("^{}\n", truth.ids[t]));
        let git = repo.pack_objects_ids(&["--revs", "--use-bitmap-index"], &input);
        let ids = |tips: &[&str]| tips.iter().map(|t| truth.id(t)).collect::<Vec<_>>();
        assert_eq!(o.names(&o.ask(&ids(wants), &ids(haves), None).unwrap()), git);
    }
}

#[test]
fn bitmaps_do_the_work() {
    let repo = grown(Form { hash: Hash::Sha1, table: false, names: true });
    let truth = Truth::of(&repo, &TIPS);
    let o = Ours::of(&repo);
    // In the pack: one bitmap, and nothing is walked.
    let stats = o.ask(&[truth.id("main~2")], &[], None).unwrap().stats;
    assert_eq!((stats.bitmaps, stats.commits_walked, stats.trees.trees), (1, 0, 0));
    // Two commits after it: just those two are walked, and the bitmaps of both parents of nothing else.
    let stats = o.ask(&[truth.id("main")], &[], None).unwrap().stats;
    assert_eq!((stats.bitmaps, stats.commits_walked), (1, 2));
    assert!(stats.trees.trees < 20, "{stats:?}");
    // A tip that a bitmap covers needs no other.
    let stats = o.ask(&[truth.id("main~2"), truth.id("main~9"), truth.id("refs/tags/v1")], &[], None).unwrap().stats;
    assert_eq!((stats.bitmaps, stats.covered, stats.commits_walked), (1, 2, 0));
    // Wants behind the haves cost nothing.
    let stats = o.ask(&[truth.id("main~9")], &[truth.id("main~2")], None).unwrap().stats;
    assert_eq!((stats.bitmaps, stats.commits_walked), (1, 0));
}

#[test]
fn a_long_history_with_few_bitmaps() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 450);
        repo.repack_with_bitmap();
        let tips = ["main", "main~1", "main~99", "main~101", "main~150", "main~333", "main~449"];
        let truth = Truth::of(&repo, &tips);
        let o = Ours::of(&repo);
        assert!(o.file.entry_count() < 200, "{}", o.file.entry_count());
        for want in tips {
            check(&o, &truth, &[want], &[], None);
            for have in tips {
                check(&o, &truth, &[want], &[have], None);
                check(&o, &truth, &[want], &[have], Some("blob:none"));
            }
        }
        let walked = o.ask(&[truth.id("main~150")], &[], None).unwrap().stats;
        assert!(walked.bitmaps == 1 && walked.commits_walked > 0 && walked.commits_walked < 200, "{walked:?}");
    }
}

#[test]
fn what_is_missing() {
    let repo = grown(Form { hash: Hash::Sha1, table: false, names: true });
    let truth = Truth::of(&repo, &TIPS);
    let o = Ours::of(&repo);
    let nobody = "1234567890123456789012345678901234567890".parse().unwrap();
    for (wants, haves) in [(vec![nobody], vec![]), (vec![truth.id("main")], vec![nobody])] {
        let error = o.ask(&wants, &haves, None).unwrap_err();
        assert!(matches!(&error, AnswerError::Walk(e) if e.is_missing()), "{error}");
        assert!(!error.should_walk());
    }

    // A loose tree behind a loose commit goes away: an error for who wants it, nothing for who has it.
    let tree = repo.rev_parse("back^{tree}");
    let (dir, rest) = tree.split_at(2);
    std::fs::remove_file(repo.objects_dir().join(dir).join(rest)).unwrap();
    let o = Ours::of(&repo);
    let error = o.ask(&[truth.id("back")], &[], None).unwrap_err();
    assert!(matches!(&error, AnswerError::Walk(e) if e.is_missing()), "{error}");
    let got = o.ask(&[truth.id("main")], &[truth.id("back")], None).unwrap();
    let want = truth.answer(&["main"], &["back"], None);
    assert!(o.names(&got).is_superset(&want));
}

#[test]
fn questions_that_bitmaps_cannot_answer() {
    let repo = grown(Form { hash: Hash::Sha1, table: false, names: true });
    let truth = Truth::of(&repo, &TIPS);
    let o = Ours::of(&repo);
    let main = [truth.id("main")];
    for (filter, spec) in
        [("tree:1", "tree:1"), ("sparse:oid=main:growing", "sparse:oid=main:growing"), ("blob:none+tree:2", "tree:2")]
    {
        let error = o.ask(&main, &[], Some(filter)).unwrap_err();
        assert!(matches!(&error, AnswerError::UnsupportedFilter { spec: s } if s == spec), "{error}");
        assert!(error.should_walk());
    }

    let store = store(&repo);
    let shallow = Commits::new(&store, None, Shallow::from_ids([truth.id("main~9")]));
    let error = answer(&o.numbering, &o.file, &shallow, &Request::new(&main)).unwrap_err();
    assert!(matches!(error, AnswerError::AlteredHistory) && error.should_walk());

    // A numbering that begins with another pack.
    let packs = store.packs().unwrap();
    let other = packs.iter().find(|p| p.path() != o.numbering.pack(0).path()).unwrap();
    let numbering = Numbering::new(&store, Some(other)).unwrap();
    let error = answer(&numbering, &o.file, &o.commits, &Request::new(&main)).unwrap_err();
    assert!(matches!(error, AnswerError::WrongNumbering));

    // No filter at all, spelled as a combination of none.
    let nothing = Filter::Combine(vec![]);
    let all = answer(&o.numbering, &o.file, &o.commits, &Request::new(&main).filter(Some(&nothing))).unwrap();
    assert_eq!(o.names(&all), truth.answer(&["main"], &[], None));
}

#[test]
fn a_repository_without_bitmap() {
    let repo = TestRepo::rich(Hash::Sha1);
    let (none, problems) = ours(&repo, &OpenOptions::default());
    assert!(none.is_none() && problems.is_empty());
    repo.repack();
    let (none, problems) = ours(&repo, &OpenOptions::default());
    assert!(none.is_none() && problems.is_empty());
}

#[test]
fn cancelling() {
    struct No;
    impl odb::Observer for No {
        fn cancelled(&self) -> bool {
            true
        }
    }
    let repo = grown(Form { hash: Hash::Sha1, table: false, names: true });
    let o = Ours::of(&repo);
    let main = [repo.rev_parse("main").parse().unwrap()];
    let request = Request::new(&main).observer(&No);
    let error = answer(&o.numbering, &o.file, &o.commits, &request).unwrap_err();
    assert!(matches!(error, AnswerError::Walk(revwalk::WalkError::Cancelled)));
}
