//! Commit-graph files that lie, and what becomes of walks that meet them.

use object::{HashKind, ObjectId};
use packstone_revwalk::commit_graph::{Generation, GraphErrorKind, GraphFile, GraphProblemKind};
use packstone_revwalk::{CommitGraph, Commits, GraphPos, LimitOptions, Shallow, limit};
use testkit::Hash;

use crate::graph_file::{Parts, Row, chunk_range, cut_chunk, drop_chunk, resign};
use crate::history::{Dag, History, open_graph};
use crate::regressions::bodies::use_graph;

/// Two octopus merges, as O17 tells to make them.
fn octopuses() -> Dag {
    let mut dag = Dag::default();
    let r = dag.commit(100, &[]);
    let [a, b, d, e] = [110, 120, 130, 140].map(|time| dag.commit(time, &[r]));
    let o1 = dag.commit(150, &[a, b, d]);
    dag.commit(160, &[o1, a, b, e]);
    dag
}

fn graph_of(history: &History) -> Vec<u8> {
    history.write_graph(&[history.ids.len() - 1], &[], &[]);
    std::fs::read(history.graph_path()).unwrap()
}

fn replace_graph(history: &History, bytes: &[u8]) {
    std::fs::remove_file(history.graph_path()).unwrap();
    std::fs::write(history.graph_path(), bytes).unwrap();
}

fn facts_are_right(history: &History, commits: &Commits) {
    for (nr, (parents, _)) in history.dag.commits.iter().enumerate() {
        let info = commits.info(&history.ids[nr]).unwrap();
        assert_eq!(info.parents, history.ids_of(parents));
        assert_eq!(info.tree, history.trees[nr]);
    }
    let tip = *history.ids.last().unwrap();
    let all = limit(commits, &[tip], &[], &LimitOptions::default()).unwrap();
    assert_eq!(all.commits.len(), history.ids.len());
    for have in 0..history.ids.len() {
        let some = limit(commits, &[tip], &[history.ids[have]], &LimitOptions::default()).unwrap();
        assert_eq!(some.commits.len(), history.dag.limit(&[history.ids.len() - 1], &[have]).len());
    }
}

#[test]
fn o17_parents_of_octopus_merges() {
    for hash in Hash::ALL {
        let history = History::new(octopuses(), hash);
        let file = graph_of(&history);
        assert_eq!(chunk_range(&file, b"EDGE", history.hash).len(), 5 * 4);
        let commits = history.commits();
        assert!(commits.graph().is_some());
        facts_are_right(&history, &commits);
        let tip = *history.ids.last().unwrap();
        // Commits of the graph are not read, octopus merges included.
        assert_eq!(limit(&commits, &[tip], &[], &LimitOptions::default()).unwrap().stats.read, 0);
    }
}

#[test]
fn o17_a_missing_or_short_edge_list_sends_us_to_the_commits() {
    for hash in Hash::ALL {
        let history = History::new(octopuses(), hash);
        let file = graph_of(&history);
        let mut without = file.clone();
        drop_chunk(&mut without, b"EDGE", history.hash);
        // An end mark that is gone lets the last list run out of the chunk.
        let mut endless = file.clone();
        let edges = chunk_range(&file, b"EDGE", history.hash);
        endless[edges.end - 4] &= 0x7f;
        resign(&mut endless, history.hash);
        let short = |len| cut_chunk(&file, b"EDGE", len, history.hash);
        for bad in [without, endless, short(0), short(3), short(4), short(16)] {
            replace_graph(&history, &bad);
            let commits = history.commits();
            let graph = commits.graph().expect("usable but for the octopus merges");
            let mut broken = 0;
            for octopus in [5, 6] {
                let pos = graph.lookup(&history.ids[octopus]).unwrap();
                let mut parents = vec![GraphPos::new(3)];
                if let Err(error) = graph.parents(pos, &mut parents) {
                    assert!(matches!(error.kind, GraphErrorKind::EdgeList { .. }), "{error}");
                    assert_eq!(parents, [GraphPos::new(3)], "no half-filled list");
                    broken += 1;
                }
            }
            assert!(broken > 0);
            facts_are_right(&history, &commits);
        }
    }
}

#[test]
fn parents_beyond_the_graph_send_us_to_the_commits() {
    for hash in Hash::ALL {
        let history = History::new(octopuses(), hash);
        let file = graph_of(&history);
        let rows = chunk_range(&file, b"CDAT", history.hash);
        for word in [7u32, 8, 0x6fff_ffff, 0x7000_0001, 0x8000_0000, 0xffff_ffff] {
            let mut bad = file.clone();
            for row in bad[rows.clone()].chunks_exact_mut(history.hash.len() + 16) {
                row[history.hash.len()..][..4].copy_from_slice(&word.to_be_bytes());
            }
            resign(&mut bad, history.hash);
            replace_graph(&history, &bad);
            facts_are_right(&history, &history.commits());
        }
    }
}

/// A parent far in the future, a child in the past.
fn far_dates(time: u64) -> Dag {
    let mut dag = Dag::default();
    let root = dag.commit(1000, &[]);
    let far = dag.commit(time, &[root]);
    let child = dag.commit(1000, &[far]);
    let other = dag.commit(1700, &[root]);
    dag.commit(1800, &[child, other]);
    dag
}

#[test]
fn o18_dates_beyond_what_the_file_holds() {
    for hash in Hash::ALL {
        for time in [1 << 32, 1 << 34, 99_999_999_999] {
            let history = History::new(far_dates(time), hash);
            // Whatever git writes: some of its versions write wrong numbers here.
            graph_of(&history);
            let commits = history.commits();
            let graph = commits.graph().unwrap();
            let pos = graph.lookup(&history.ids[1]).unwrap();
            assert_eq!(graph.commit_time(pos), time & ((1 << 34) - 1));
            for want in 0..history.ids.len() {
                for have in 0..history.ids.len() {
                    let (wants, haves) = ([history.ids[want]], [history.ids[have]]);
                    let got = limit(&commits, &wants, &haves, &LimitOptions::default()).unwrap();
                    assert_eq!(got.commits.len(), history.dag.limit(&[want], &[have]).len(), "{want} {have}");
                }
            }
        }
    }
}

#[test]
fn o18_corrected_dates_are_used_all_or_none() {
    for hash in Hash::ALL {
        let history = History::new(octopuses(), hash);
        let file = graph_of(&history);
        let dates = chunk_range(&file, b"GDA2", history.hash);
        let kind = |bytes: &[u8]| CommitGraph::from_bytes(bytes.to_vec(), history.hash).unwrap().generation_kind();
        assert_eq!(kind(&file), Generation::CorrectedDate);

        // The overflow flag without the overflow chunk.
        let mut flagged = file.clone();
        flagged[dates.start] |= 0x80;
        resign(&mut flagged, history.hash);
        assert_eq!(kind(&flagged), Generation::Level);
        let mut none = file.clone();
        drop_chunk(&mut none, b"GDA2", history.hash);
        assert_eq!(kind(&none), Generation::Level);
        let short = cut_chunk(&file, b"GDA2", dates.len() - 4, history.hash);
        assert_eq!(kind(&short), Generation::Level);
        for bad in [flagged, none, short] {
            replace_graph(&history, &bad);
            facts_are_right(&history, &history.commits());
        }
    }
}

#[test]
fn o18_overflow_rows_are_64_bit_offsets() {
    for hash in HashKind::ALL {
        let id = |byte: u8| ObjectId::from_bytes(&vec![byte; hash.len()]).unwrap();
        let row = |byte, parents, level, time| Row { id: id(byte), tree: id(9), parents, level, time };
        const NONE: u32 = 0x7000_0000;
        let mut parts = Parts {
            rows: vec![row(1, [NONE, NONE], 1, (1 << 34) - 1), row(2, [0, NONE], 2, 1000), row(3, [1, NONE], 3, 7)],
            dates: Some(vec![0, 1 << 31 | 1, 1 << 31]),
            far_dates: Some(vec![u64::MAX - 3, (1 << 34) - 1000]),
            ..Parts::default()
        };
        let graph = CommitGraph::from_bytes(parts.write(hash), hash).unwrap();
        assert_eq!(graph.generation_kind(), Generation::CorrectedDate);
        let generations: Vec<_> = (0..3).map(|pos| graph.generation(GraphPos::new(pos)).unwrap()).collect();
        assert_eq!(generations, [(1 << 34) - 1, 1 << 34, u64::MAX], "no sum wraps round");
        // One row too few: none of the dates count.
        parts.far_dates = Some(vec![5]);
        let graph = CommitGraph::from_bytes(parts.write(hash), hash).unwrap();
        assert_eq!(graph.generation(GraphPos::new(1)), Some(2));
    }
}

#[test]
fn numbers_that_do_not_fall_are_not_believed() {
    for hash in Hash::ALL {
        let mut dag = Dag::default();
        let mut tip = dag.commit(1000, &[]);
        for n in 1..30 {
            tip = dag.commit(1000 + n, &[tip]);
        }
        let history = History::new(dag, hash);
        let file = graph_of(&history);
        let rows = chunk_range(&file, b"CDAT", history.hash);
        let dates = chunk_range(&file, b"GDA2", history.hash);
        let graph = CommitGraph::from_bytes(file.clone(), history.hash).unwrap();
        let position = |nr: usize| graph.lookup(&history.ids[nr]).unwrap().get() as usize;
        // The have claims to be old: a walk that believed it would stop before it.
        let mut late = file.clone();
        let level_at = rows.start + position(20) * (history.hash.len() + 16) + history.hash.len() + 8;
        late[level_at..level_at + 8].copy_from_slice(&(1u64 << 34 | 5).to_be_bytes());
        late[dates.start + 4 * position(20)..][..4].fill(0);
        // And all levels zero, as the oldest writers left them.
        let mut zero = late.clone();
        for row in zero[rows].chunks_exact_mut(history.hash.len() + 16) {
            row[history.hash.len() + 8..][..4].fill(0);
        }
        let mut huge = file.clone();
        drop_chunk(&mut huge, b"GDA2", history.hash);
        for (mut bad, restarts) in [(late, 2), (zero, 2)] {
            resign(&mut bad, history.hash);
            replace_graph(&history, &bad);
            let got =
                limit(&history.commits(), &[history.ids[10]], &[history.ids[20]], &LimitOptions::default()).unwrap();
            assert_eq!(got.commits, []);
            assert_eq!(got.stats.restarts, restarts);
        }
    }
}

#[test]
fn every_cut_is_refused_or_harmless() {
    for hash in Hash::ALL {
        let history = History::new(octopuses(), hash);
        let file = graph_of(&history);
        for len in 0..file.len() {
            let mut cut = file[..len].to_vec();
            let graph = CommitGraph::from_bytes(cut.clone(), history.hash);
            assert!(graph.is_err(), "cut to {len}");
            if len >= 8 + history.hash.len() {
                resign(&mut cut, history.hash);
                assert!(CommitGraph::from_bytes(cut, history.hash).is_err());
            }
        }
    }
}

#[test]
fn every_changed_byte_is_refused_or_harmless() {
    for hash in Hash::ALL {
        let history = History::new(octopuses(), hash);
        let file = graph_of(&history);
        use_graph(&file, history.hash);
        for at in 0..file.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut bad = file.clone();
                bad[at] ^= change;
                use_graph(&bad, history.hash);
                let parsed = GraphFile::parse(&bad, history.hash);
                // Whatever slips through is found by those who ask.
                assert!(parsed.is_err() || parsed.is_ok_and(|graph| graph.verify_checksum().is_err()), "{at}");
            }
        }
        let other = if history.hash == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        let error = GraphFile::parse(&file, other).unwrap_err();
        assert!(matches!(error.kind, GraphErrorKind::Unsupported { what: "hash", .. }));
    }
}

#[test]
fn wrong_counts_are_refused() {
    for hash in Hash::ALL {
        let history = History::new(octopuses(), hash);
        let file = graph_of(&history);
        let refuse = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut bad = file.clone();
            edit(&mut bad);
            resign(&mut bad, history.hash);
            GraphFile::parse(bad, history.hash).unwrap_err().kind
        };
        let fanout = chunk_range(&file, b"OIDF", history.hash);
        let set_count = |bad: &mut Vec<u8>, n: u32| bad[fanout.end - 4..fanout.end].copy_from_slice(&n.to_be_bytes());
        assert!(matches!(
            refuse(&|bad| set_count(bad, 6)),
            GraphErrorKind::FanoutOrder | GraphErrorKind::ChunkSize { .. }
        ));
        assert!(
            matches!(refuse(&|bad| set_count(bad, 8)), GraphErrorKind::ChunkSize { have, need, .. } if have < need)
        );
        assert!(matches!(refuse(&|bad| set_count(bad, 0x7000_0000)), GraphErrorKind::TooManyCommits));
        assert!(matches!(refuse(&|bad| bad[fanout.start] = 1), GraphErrorKind::FanoutOrder));
        assert!(matches!(refuse(&|bad| bad[4] = 2), GraphErrorKind::Unsupported { what: "version", found: 2 }));
        assert!(matches!(refuse(&|bad| bad[6] -= 1), GraphErrorKind::Toc(_)));
        assert!(matches!(refuse(&|bad| bad[6] += 1), GraphErrorKind::Toc(_)));
        for id in [b"OIDF", b"OIDL", b"CDAT"] {
            assert!(matches!(refuse(&|bad| drop_chunk(bad, id, history.hash)), GraphErrorKind::NoChunk { .. }));
            let short = cut_chunk(&file, id, 40, history.hash);
            let error = GraphFile::parse(short, history.hash).unwrap_err();
            assert!(matches!(error.kind, GraphErrorKind::ChunkSize { .. }), "{error}");
        }
        // A layer is no graph of its own.
        let mut layer = file.clone();
        layer[7] = 1;
        assert!(CommitGraph::from_bytes(layer, history.hash).is_err());
    }
}

/// A chain of three layers, its folder, and the names.
fn chain(hash: Hash) -> (History, std::path::PathBuf, Vec<String>) {
    let history = History::new(octopuses(), hash);
    for tip in [2, 5, 6] {
        history.write_graph(&[tip], &[], &["--split=no-merge"]);
    }
    let folder = history.repo.objects_dir().join("info/commit-graphs");
    let names = std::fs::read_to_string(folder.join("commit-graph-chain")).unwrap();
    let names: Vec<String> = names.lines().map(str::to_owned).collect();
    assert_eq!(names.len(), 3);
    (history, folder, names)
}

#[test]
fn a_chain_is_used_as_far_as_it_is_whole() {
    for hash in Hash::ALL {
        let expect =
            |break_it: &dyn Fn(&std::path::Path, &[String]), layers: usize, wanted: fn(&GraphProblemKind) -> bool| {
                let (history, folder, names) = chain(hash);
                break_it(&folder, &names);
                let (graph, problems) = open_graph(&history.repo);
                assert!(problems.iter().any(|problem| wanted(&problem.kind)), "{problems:?}");
                assert_eq!(graph.as_ref().map_or(0, |graph| graph.files().count()), layers);
                facts_are_right(&history, &Commits::new(&history.store(), graph, Shallow::none()));
            };
        let layer = |folder: &std::path::Path, name: &str| folder.join(format!("graph-{name}.graph"));
        let missing = |kind: &GraphProblemKind| matches!(kind, GraphProblemKind::LayerMissing { .. });
        let mismatch = |kind: &GraphProblemKind| matches!(kind, GraphProblemKind::LayerMismatch { .. });
        let remove = |nr: usize| {
            move |folder: &std::path::Path, names: &[String]| std::fs::remove_file(layer(folder, &names[nr])).unwrap()
        };
        expect(&remove(2), 2, missing);
        expect(&remove(1), 1, missing);
        expect(&remove(0), 0, missing);
        let swap = |folder: &std::path::Path, names: &[String]| {
            std::fs::remove_file(layer(folder, &names[1])).unwrap();
            std::fs::copy(layer(folder, &names[2]), layer(folder, &names[1])).unwrap();
        };
        expect(&swap, 1, mismatch);
        let rewrite = |text: fn(&[String]) -> String| {
            move |folder: &std::path::Path, names: &[String]| {
                std::fs::remove_file(folder.join("commit-graph-chain")).unwrap();
                std::fs::write(folder.join("commit-graph-chain"), text(names)).unwrap();
            }
        };
        expect(&rewrite(|names| format!("{}\n{}\n", names[0], names[2])), 1, mismatch);
        expect(&rewrite(|names| format!("{}\nnonsense\n", names[0])), 1, |kind| {
            matches!(kind, GraphProblemKind::ChainLine { line: 2 })
        });
        expect(&rewrite(|names| format!("{}\n{}\n", names[1], names[2])), 0, mismatch);
        // The same layer again and again.
        expect(&rewrite(|names| format!("{}\n", names[0]).repeat(3)), 1, mismatch);
    }
}

#[test]
fn an_empty_chain_file_counts_as_none() {
    let (history, folder, _) = chain(Hash::Sha1);
    std::fs::remove_file(folder.join("commit-graph-chain")).unwrap();
    std::fs::write(folder.join("commit-graph-chain"), "").unwrap();
    let (graph, problems) = open_graph(&history.repo);
    assert!(graph.is_none() && problems.is_empty(), "{problems:?}");
}

#[test]
fn a_broken_single_file_makes_way_for_the_chain() {
    for hash in Hash::ALL {
        let (history, ..) = chain(hash);
        std::fs::write(history.graph_path(), b"CGPH").unwrap();
        let (graph, problems) = open_graph(&history.repo);
        assert_eq!(problems.len(), 1);
        assert_eq!(graph.unwrap().files().count(), 3);
    }
}
