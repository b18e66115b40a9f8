//! Random histories with random clocks: every source of facts gives the naive model's answer.

use std::collections::BTreeSet;

use packstone_revwalk::{Commits, LimitOptions, Stop, limit};
use proptest::prelude::*;
use testkit::Hash;

use crate::history::{Dag, History};

/// Up to 40 commits with up to four parents each, near ones more often; clocks that are right, noisy, or nonsense.
fn dags() -> impl Strategy<Value = Dag> {
    let commit = (proptest::collection::vec(0.0..1.0f64, 0..5), any::<u32>());
    (proptest::collection::vec(commit, 1..40), 0..3u32).prop_map(|(commits, clock)| {
        let mut dag = Dag::default();
        for (nr, (parents, noise)) in commits.iter().enumerate() {
            let mut distinct = Vec::new();
            // Mostly one parent: draws of five become one to four.
            for draw in parents.iter().take(if noise % 3 == 0 { 4 } else { 1 }) {
                // Seldom a root.
                if nr == 0 || noise % 16 == 1 {
                    break;
                }
                let parent = nr - 1 - (draw * draw * (nr as f64)) as usize % nr;
                if !distinct.contains(&parent) {
                    distinct.push(parent);
                }
            }
            let time = match clock {
                0 => 1_000_000 + 60 * nr as u64,
                1 => 1_000_000 + 60 * nr as u64 - u64::from(noise % 600),
                _ => u64::from(*noise) << (noise % 4),
            };
            dag.commit(time, &distinct);
        }
        dag
    })
}

fn pick(seeds: &[u32], len: usize) -> Vec<usize> {
    seeds.iter().map(|&seed| seed as usize % len).collect()
}

fn check(
    history: &History,
    commits: &Commits,
    wants: &[usize],
    haves: &[usize],
    git: bool,
) -> Result<(), TestCaseError> {
    let (want_ids, have_ids) = (history.ids_of(wants), history.ids_of(haves));
    let exact = history.dag.limit(wants, haves);
    let got = limit(commits, &want_ids, &have_ids, &LimitOptions::default()).unwrap();
    let numbers: BTreeSet<usize> = got.commits.iter().map(|commit| history.numbers[&commit.id]).collect();
    prop_assert_eq!(numbers.len(), got.commits.len());
    prop_assert_eq!(&numbers, &exact);
    for commit in &got.commits {
        let nr = history.numbers[&commit.id];
        prop_assert_eq!(commit.tree, history.trees[nr]);
        let mask = if commits.graph().is_some_and(|graph| graph.lookup(&commit.id).is_some()) {
            (1 << 34) - 1
        } else {
            u64::MAX
        };
        prop_assert_eq!(commit.time, history.dag.commits[nr].1 & mask);
    }
    let edges: Vec<usize> = got.edges.iter().map(|edge| history.numbers[&edge.commit]).collect();
    prop_assert!(got.edges.iter().all(|edge| edge.tree == history.trees[history.numbers[&edge.commit]]));
    prop_assert_eq!(edges.len(), edges.iter().collect::<BTreeSet<_>>().len());
    prop_assert_eq!(edges.into_iter().collect::<BTreeSet<_>>(), history.dag.edges(wants, haves));
    prop_assert!(got.unreadable.is_empty());

    let by_dates = limit(commits, &want_ids, &have_ids, &LimitOptions::default().stop(Stop::Dates)).unwrap();
    let by_dates: BTreeSet<usize> = by_dates.commits.iter().map(|commit| history.numbers[&commit.id]).collect();
    prop_assert!(by_dates.is_superset(&exact));

    if git {
        let listed = history.rev_list(&want_ids, &have_ids);
        let set: BTreeSet<usize> = listed.iter().map(|id| history.numbers[id]).collect();
        // Git may list too many when clocks lie; never too few.
        prop_assert!(set.is_superset(&exact));
        if set == exact {
            prop_assert_eq!(got.commits.iter().map(|commit| commit.id).collect::<Vec<_>>(), listed);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn limit_is_the_naive_difference(
        dag in dags(),
        sha256 in any::<bool>(),
        queries in proptest::collection::vec(
            (proptest::collection::vec(any::<u32>(), 1..4), proptest::collection::vec(any::<u32>(), 0..4)), 12),
        covered in proptest::collection::vec(any::<u32>(), 1..3),
        more in proptest::collection::vec(any::<u32>(), 1..3),
    ) {
        let history = History::new(dag, if sha256 { Hash::Sha256 } else { Hash::Sha1 });
        let len = history.ids.len();
        let queries: Vec<_> = queries.iter().map(|(wants, haves)| (pick(wants, len), pick(haves, len))).collect();
        let all = |commits: &Commits, git: usize| -> Result<(), TestCaseError> {
            for (nr, (wants, haves)) in queries.iter().enumerate() {
                check(&history, commits, wants, haves, nr < git)?;
            }
            Ok(())
        };
        all(&history.commits(), 3)?;
        // Part of history in a graph of levels, then of corrected dates; then two layers; then all of it.
        let (covered, more) = (pick(&covered, len), pick(&more, len));
        history.write_graph(&covered, &["-c", "commitGraph.generationVersion=1"], &[]);
        all(&history.commits(), 0)?;
        std::fs::remove_file(history.graph_path()).unwrap();
        history.write_graph(&covered, &[], &["--split=no-merge"]);
        all(&history.commits(), 0)?;
        history.write_graph(&more, &[], &["--split=no-merge"]);
        all(&history.commits(), 0)?;
        history.write_graph(&(0..len).collect::<Vec<_>>(), &[], &[]);
        let commits = history.commits();
        prop_assert_eq!(commits.graph().unwrap().len() as usize, len);
        all(&commits, 3)?;
    }
}
