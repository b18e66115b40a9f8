//! `limit` on histories with a point.

use std::collections::BTreeSet;

use object::{ObjectId, ObjectKind};
use packstone_revwalk::{Commits, LimitOptions, MissingHaves, Shallow, Stop, WalkError, limit};
use testkit::{Hash, TestRepo};

use crate::history::{Dag, History, open_graph, open_store};

fn options() -> LimitOptions {
    LimitOptions::default()
}

fn listed(commits: &Commits, wants: &[ObjectId], haves: &[ObjectId]) -> Vec<ObjectId> {
    limit(commits, wants, haves, &options()).unwrap().commits.iter().map(|commit| commit.id).collect()
}

#[test]
fn lists_what_git_lists_in_its_order() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.repack();
        let store = open_store(&repo);
        let names = ["main", "side", "other", "root2", "main~3", "main~10", "main~30", "v2-nested", "light"];
        for graph in [false, true] {
            if graph {
                repo.write_commit_graph();
            }
            let commits = Commits::new(&store, open_graph(&repo).0, Shallow::none());
            assert_eq!(commits.graph().is_some(), graph);
            for want in names {
                for haves in [&[][..], &["side"], &["main~10", "other~2"], &["v1"], &["root2"]] {
                    let id = |name: &&str| repo.rev_parse(name).parse().unwrap();
                    let have_ids: Vec<ObjectId> = haves.iter().map(id).collect();
                    let got = listed(&commits, &[id(&want)], &have_ids);
                    let args = ["rev-list", want, "--not"].into_iter().chain(haves.iter().copied());
                    let git = repo.git_str(args);
                    assert_eq!(
                        got.iter().map(|id| id.to_string()).collect::<Vec<_>>(),
                        git.lines().collect::<Vec<_>>()
                    );
                }
            }
        }
    }
}

#[test]
fn edges_are_the_parents_on_the_other_side() {
    for hash in Hash::ALL {
        let mut dag = Dag::default();
        let a = dag.commit(100, &[]);
        let b = dag.commit(200, &[a]);
        let c = dag.commit(300, &[a]);
        let d = dag.commit(400, &[b]);
        let e = dag.commit(500, &[d, c, a]);
        let history = History::new(dag, hash);
        for graph in [false, true] {
            if graph {
                history.write_graph(&[e], &[], &[]);
            }
            let commits = history.commits();
            let got = limit(&commits, &history.ids_of(&[e]), &history.ids_of(&[c, b, c]), &options()).unwrap();
            let ids: Vec<_> = got.commits.iter().map(|commit| commit.id).collect();
            assert_eq!(ids, history.ids_of(&[e, d]));
            assert_eq!(got.commits[0].tree, history.trees[e]);
            assert_eq!(got.commits[0].time, 500);
            let edges: Vec<_> = got.edges.iter().map(|edge| (edge.commit, edge.tree)).collect();
            // `a` too: a direct parent, though it is behind the other edges.
            assert_eq!(edges, [c, a, b].map(|nr| (history.ids[nr], history.trees[nr])));
            let tips: Vec<_> = got.haves_tips.iter().map(|edge| (edge.commit, edge.tree)).collect();
            assert_eq!(tips, [c, b].map(|nr| (history.ids[nr], history.trees[nr])));
        }
    }
}

#[test]
fn empty_answers() {
    let mut dag = Dag::default();
    let a = dag.commit(100, &[]);
    let b = dag.commit(200, &[a]);
    let history = History::new(dag, Hash::Sha1);
    let commits = history.commits();
    assert_eq!(limit(&commits, &[], &[], &options()).unwrap().commits, []);
    let got = limit(&commits, &[], &history.ids_of(&[b]), &options()).unwrap();
    assert_eq!((got.commits.len(), got.edges.len(), got.haves_tips.len()), (0, 0, 1));
    assert_eq!(listed(&commits, &history.ids_of(&[b, a]), &history.ids_of(&[b])), []);
    assert_eq!(listed(&commits, &history.ids_of(&[a]), &history.ids_of(&[b])), []);
}

/// The oldest-looking commit is the newest: every kept commit is behind it.
#[test]
fn clock_skew_does_not_add_commits() {
    for hash in Hash::ALL {
        let mut dag = Dag::default();
        let mut line = vec![dag.commit(10_000, &[])];
        for n in 1..30 {
            line.push(dag.commit(10_000 + n, &[line[n as usize - 1]]));
        }
        // Ten commits of long ago on top of it.
        let mut old = *line.last().unwrap();
        for n in 0..10 {
            old = dag.commit(n + 1, &[old]);
        }
        let history = History::new(dag, hash);
        let wants = history.ids_of(&[line[20]]);
        let haves = history.ids_of(&[old]);
        // Git gives up long before it finds out.
        assert_ne!(history.rev_list(&wants, &haves), []);
        for (config, graph) in
            [("", false), ("commitGraph.generationVersion=1", true), ("commitGraph.generationVersion=2", true)]
        {
            if graph {
                let _ = std::fs::remove_file(history.graph_path());
                history.write_graph(&[old], &["-c", config], &[]);
            }
            assert_eq!(listed(&history.commits(), &wants, &haves), []);
            // Half of history in the graph, the skewed half not.
            if graph {
                std::fs::remove_file(history.graph_path()).unwrap();
                history.write_graph(&[line[25]], &["-c", config], &[]);
                let got = limit(&history.commits(), &wants, &haves, &options()).unwrap();
                assert_eq!(got.commits, []);
                assert_eq!(got.stats.read, 14);
            }
        }
        // And by dates alone: never too few.
        let by_dates = limit(&history.commits_without_graph(), &wants, &haves, &options().stop(Stop::Dates)).unwrap();
        assert!(by_dates.commits.len() <= 21);
    }
}

#[test]
fn generation_numbers_end_the_walk_early() {
    let mut dag = Dag::default();
    let mut tip = dag.commit(1000, &[]);
    for n in 1..500 {
        tip = dag.commit(1000 + n, &[tip]);
    }
    let history = History::new(dag, Hash::Sha1);
    let (wants, haves) = (history.ids_of(&[tip]), history.ids_of(&[tip - 10]));
    let without = limit(&history.commits_without_graph(), &wants, &haves, &options()).unwrap();
    assert_eq!(without.stats.coloured, 500, "dates prove nothing");
    let dates = limit(&history.commits_without_graph(), &wants, &haves, &options().stop(Stop::Dates)).unwrap();
    assert!(dates.stats.coloured < 20, "{:?}", dates.stats);
    assert_eq!(dates.commits, without.commits);
    for version in ["commitGraph.generationVersion=1", "commitGraph.generationVersion=2"] {
        let _ = std::fs::remove_file(history.graph_path());
        history.write_graph(&[tip], &["-c", version], &[]);
        let with = limit(&history.commits(), &wants, &haves, &options()).unwrap();
        assert_eq!((with.stats.coloured, with.stats.read, with.stats.restarts), (10, 0, 0));
        assert_eq!((&with.commits, &with.edges), (&without.commits, &without.edges));
    }
}

#[test]
fn missing_and_wrong_tips() {
    for hash in Hash::ALL {
        let mut dag = Dag::default();
        let a = dag.commit(100, &[]);
        let b = dag.commit(200, &[a]);
        let history = History::new(dag, hash);
        let gone: ObjectId = "1".repeat(hash.hex_len()).parse().unwrap();
        let (ids, tree) = (history.ids_of(&[a, b]), history.trees[a]);
        let commits = history.commits();
        let error = limit(&commits, &[ids[1], gone], &[], &options()).unwrap_err();
        assert!(matches!(error, WalkError::Missing { id } if id == gone), "{error}");
        let error = limit(&commits, &[ids[1]], &[gone], &options()).unwrap_err();
        assert!(matches!(error, WalkError::Missing { id } if id == gone), "{error}");
        let ignore = options().missing_haves(MissingHaves::Ignore);
        let got = limit(&commits, &[ids[1]], &[gone, ids[0]], &ignore).unwrap();
        assert_eq!((got.commits.len(), got.haves_tips.len(), got.unreadable), (1, 1, vec![gone]));
        let error = limit(&commits, &[tree], &[], &options()).unwrap_err();
        assert!(matches!(error, WalkError::NotACommit { id, kind: ObjectKind::Tree } if id == tree), "{error}");
    }
}

#[test]
fn a_want_that_only_the_graph_knows_is_missing() {
    for hash in Hash::ALL {
        let mut dag = Dag::default();
        let a = dag.commit(100, &[]);
        let b = dag.commit(200, &[a]);
        let history = History::new(dag, hash);
        history.write_graph(&[b], &[], &[]);
        let name = history.ids[b].to_string();
        std::fs::remove_file(history.repo.objects_dir().join(&name[..2]).join(&name[2..])).unwrap();
        let commits = history.commits();
        assert!(commits.graph().unwrap().lookup(&history.ids[b]).is_some());
        let error = limit(&commits, &[history.ids[b]], &[], &options()).unwrap_err();
        assert!(matches!(error, WalkError::Missing { id } if id == history.ids[b]), "{error}");
    }
}

#[test]
fn a_gap_in_history_matters_on_the_wants_side_only() {
    for hash in Hash::ALL {
        let mut dag = Dag::default();
        let a = dag.commit(100, &[]);
        let b = dag.commit(200, &[a]);
        let c = dag.commit(300, &[b]);
        let d = dag.commit(400, &[c]);
        let e = dag.commit(500, &[d]);
        let history = History::new(dag, hash);
        let name = history.ids[b].to_string();
        std::fs::remove_file(history.repo.objects_dir().join(&name[..2]).join(&name[2..])).unwrap();
        let commits = history.commits();
        let (wants, haves) = (history.ids_of(&[e]), history.ids_of(&[c]));
        let got = limit(&commits, &wants, &haves, &options()).unwrap();
        assert_eq!(got.commits.iter().map(|commit| commit.id).collect::<Vec<_>>(), history.ids_of(&[e, d]));
        assert_eq!(got.unreadable, history.ids_of(&[b]));
        let error = limit(&commits, &wants, &[], &options()).unwrap_err();
        match error {
            WalkError::MissingLink { id, by } => assert_eq!([id, by], [history.ids[b], history.ids[c]]),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn tags_stand_for_their_commits() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let commits = Commits::new(&open_store(&repo), None, Shallow::none());
        let id = |name: &str| repo.rev_parse(name).parse::<ObjectId>().unwrap();
        assert_eq!(
            listed(&commits, &[id("v2-nested")], &[id("v1")]),
            listed(&commits, &[id("main")], &[id("main~10")])
        );
        let error = limit(&commits, &[id("blob-tag")], &[], &options()).unwrap_err();
        assert!(matches!(error, WalkError::NotACommit { kind: ObjectKind::Blob, .. }), "{error}");
    }
}

#[test]
fn shallow_history_ends_where_it_is_cut() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.write_commit_graph();
        for cuts in [&["main~5"][..], &["main~1", "side~3"], &["main", "other", "side"]] {
            let cut_ids: Vec<ObjectId> = cuts.iter().map(|name| repo.rev_parse(name).parse().unwrap()).collect();
            let file: String = cut_ids.iter().map(|id| format!("{id}\n")).collect();
            let path = repo.scratch().join("shallow");
            std::fs::write(&path, &file).unwrap();
            let shallow = Shallow::parse(file.as_bytes(), open_store(&repo).hash_kind()).unwrap();
            let commits = Commits::new(&open_store(&repo), open_graph(&repo).0, shallow);
            assert!(commits.graph().is_none());
            for (wants, haves) in [
                (&["main"][..], &[][..]),
                (&["main", "side"], &["main~20"]),
                (&["main"], &["main~3"]),
                (&["side"], &["main"]),
            ] {
                let ids = |names: &[&str]| {
                    names.iter().map(|name| repo.rev_parse(name).parse().unwrap()).collect::<Vec<ObjectId>>()
                };
                let args = ["--shallow-file", path.to_str().unwrap(), "rev-list"].into_iter();
                let (wants, haves) = (ids(wants), ids(haves));
                let haves_args = haves.iter().map(|id| format!("^{id}"));
                let git = repo
                    .git_str(args.map(str::to_owned).chain(wants.iter().map(ObjectId::to_string)).chain(haves_args));
                let got = listed(&commits, &wants, &haves);
                assert_eq!(got.iter().map(|id| id.to_string()).collect::<Vec<_>>(), git.lines().collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn grafts_replace_parents() {
    for hash in Hash::ALL {
        let mut dag = Dag::default();
        let a = dag.commit(100, &[]);
        let b = dag.commit(200, &[a]);
        let c = dag.commit(300, &[]);
        let d = dag.commit(400, &[b]);
        let history = History::new(dag, hash);
        history.write_graph(&[c, d], &[], &[]);
        let line = format!("{} {} {}\n", history.ids[d], history.ids[c], history.ids[a]);
        let info = history.repo.git_dir().join("info");
        std::fs::create_dir_all(&info).unwrap();
        std::fs::write(info.join("grafts"), &line).unwrap();
        let mut shallow = Shallow::none();
        assert_eq!(shallow.parse_grafts(line.as_bytes(), history.hash), []);
        let commits = Commits::new(&history.store(), open_graph(&history.repo).0, shallow);
        let all = listed(&commits, &history.ids_of(&[d]), &[]);
        assert_eq!(all, history.ids_of(&[d, c, a]));
        assert_eq!(all, history.rev_list(&history.ids_of(&[d]), &[]));
        assert_eq!(listed(&commits, &history.ids_of(&[d]), &history.ids_of(&[c])), history.ids_of(&[d, a]));
    }
}

#[test]
fn deep_history_needs_no_stack() {
    let mut dag = Dag::default();
    let mut tip = dag.commit(5000, &[]);
    for n in 1..3000 {
        // Dates run backwards, so that nearly every commit is coloured late.
        tip = dag.commit(5000 - n, &[tip]);
    }
    let history = History::new(dag, Hash::Sha1);
    let on_a_small_stack = std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
        let commits = history.commits();
        assert_eq!(listed(&commits, &history.ids_of(&[tip - 1]), &history.ids_of(&[tip])), []);
        let all: BTreeSet<ObjectId> = listed(&commits, &history.ids_of(&[tip]), &[]).into_iter().collect();
        assert_eq!(all.len(), 3000);
    });
    on_a_small_stack.unwrap().join().unwrap();
}

#[test]
fn reading_ahead_changes_nothing_but_the_time() {
    for hash in Hash::ALL {
        let mut dag = Dag::default();
        dag.commit(1000, &[]);
        for n in 1..4000usize {
            let older = n.saturating_sub(2 + n % 50);
            let parents = if n % 7 == 0 && n > 1 { vec![n - 1, older] } else { vec![n - 1] };
            dag.commit(1000 + n as u64 * 10 - (n as u64 * 7919) % 500, &parents);
        }
        let history = History::new(dag, hash);
        history.repo.repack();
        let store = history.store();
        let cut = Shallow::from_ids([history.ids[2000], history.ids[1500]]);
        history.write_graph(&[1000], &[], &[]);
        let graph = open_graph(&history.repo).0;
        for commits in [
            history.commits_without_graph(),
            Commits::new(&store, None, cut),
            Commits::new(&store, graph, Shallow::none()),
        ] {
            for haves in [&[][..], &[3500], &[1200, 3000]] {
                let (wants, haves) = (history.ids_of(&[3999, 3990]), history.ids_of(haves));
                for stop in [Stop::Proven, Stop::Dates] {
                    let one = limit(&commits, &wants, &haves, &options().stop(stop)).unwrap();
                    for threads in [2, 3] {
                        let many = limit(&commits, &wants, &haves, &options().stop(stop).threads(threads)).unwrap();
                        assert_eq!((&many.commits, &many.edges), (&one.commits, &one.edges));
                        assert_eq!((&many.haves_tips, &many.unreadable), (&one.haves_tips, &one.unreadable));
                        // Not vacuous: the longest of these walks did read ahead.
                        if haves.is_empty() && commits.graph().is_none() {
                            assert!(many.stats.read_ahead > 0, "{:?}", many.stats);
                        }
                    }
                }
            }
        }
    }
}
