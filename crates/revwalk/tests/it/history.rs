//! Histories of any shape as real repositories, and a naive model of what a limit is.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use object::{HashKind, ObjectId};
use odb::{Options, Store};
use packstone_revwalk::{CommitGraph, Commits, Shallow};
use testkit::{Hash, TestRepo};

/// Commits by number; parents are smaller numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dag {
    pub(crate) commits: Vec<(Vec<usize>, u64)>,
}

impl Dag {
    pub(crate) fn commit(&mut self, time: u64, parents: &[usize]) -> usize {
        self.commits.push((parents.to_vec(), time));
        self.commits.len() - 1
    }

    /// Everything reachable from these, themselves included.
    pub(crate) fn reach(&self, tips: &[usize]) -> BTreeSet<usize> {
        let mut seen = BTreeSet::new();
        let mut stack = tips.to_vec();
        while let Some(nr) = stack.pop() {
            if seen.insert(nr) {
                stack.extend(&self.commits[nr].0);
            }
        }
        seen
    }

    pub(crate) fn limit(&self, wants: &[usize], haves: &[usize]) -> BTreeSet<usize> {
        &self.reach(wants) - &self.reach(haves)
    }

    /// Direct parents, on the haves side, of what [`limit`](Self::limit) gives.
    pub(crate) fn edges(&self, wants: &[usize], haves: &[usize]) -> BTreeSet<usize> {
        let kept = self.limit(wants, haves);
        let parents: BTreeSet<usize> = kept.iter().flat_map(|&nr| self.commits[nr].0.clone()).collect();
        &parents - &kept
    }
}

/// A DAG as a bare repository; commit `n` is branch `c<n>`, with a tree of its own.
pub(crate) struct History {
    pub(crate) dag: Dag,
    pub(crate) repo: TestRepo,
    pub(crate) hash: HashKind,
    pub(crate) ids: Vec<ObjectId>,
    pub(crate) trees: Vec<ObjectId>,
    pub(crate) numbers: HashMap<ObjectId, usize>,
}

impl History {
    pub(crate) fn new(dag: Dag, hash: Hash) -> History {
        let repo = TestRepo::bare(hash);
        let mut stream = String::new();
        for (nr, (parents, time)) in dag.commits.iter().enumerate() {
            stream += &format!("commit refs/heads/c{nr}\nmark :{}\ncommitter A <a@b> {time} +0000\ndata 0\n", nr + 1);
            for (rank, parent) in parents.iter().enumerate() {
                stream += &format!("{} :{}\n", if rank == 0 { "from" } else { "merge" }, parent + 1);
            }
            let content = nr.to_string();
            stream += &format!("M 100644 inline f\ndata {}\n{content}\n\n", content.len());
        }
        repo.fast_import(stream.as_bytes());
        let refs = repo.git_str(["for-each-ref", "--format=%(refname:lstrip=2) %(objectname) %(tree)", "refs/heads/"]);
        let none = id_kind(hash).null();
        let (mut ids, mut trees) = (vec![none; dag.commits.len()], vec![none; dag.commits.len()]);
        for line in refs.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let nr: usize = words[0][1..].parse().unwrap();
            ids[nr] = words[1].parse().unwrap();
            trees[nr] = words[2].parse().unwrap();
        }
        let numbers = ids.iter().enumerate().map(|(nr, id)| (*id, nr)).collect();
        History { dag, repo, hash: id_kind(hash), ids, trees, numbers }
    }

    pub(crate) fn store(&self) -> Store {
        open_store(&self.repo)
    }

    /// With whatever commit-graph there is, which must be fine.
    pub(crate) fn commits(&self) -> Commits {
        let (graph, problems) = open_graph(&self.repo);
        assert!(problems.is_empty(), "{problems:?}");
        Commits::new(&self.store(), graph, Shallow::none())
    }

    pub(crate) fn commits_without_graph(&self) -> Commits {
        Commits::new(&self.store(), None, Shallow::none())
    }

    pub(crate) fn ids_of(&self, numbers: &[usize]) -> Vec<ObjectId> {
        numbers.iter().map(|&nr| self.ids[nr]).collect()
    }

    /// Writes a commit-graph of what these commits reach; `options` go to git (`-c x=y` first).
    pub(crate) fn write_graph(&self, tips: &[usize], config: &[&str], options: &[&str]) {
        let input: String = tips.iter().map(|&nr| format!("{}\n", self.ids[nr])).collect();
        let args: Vec<&str> = [config, &["commit-graph", "write", "--stdin-commits"], options].concat();
        self.repo.git_with(args, input.as_bytes());
    }

    pub(crate) fn graph_path(&self) -> std::path::PathBuf {
        self.repo.objects_dir().join("info/commit-graph")
    }

    /// What git lists, in its order.
    pub(crate) fn rev_list(&self, wants: &[ObjectId], haves: &[ObjectId]) -> Vec<ObjectId> {
        let mut input: String = wants.iter().map(|id| format!("{id}\n")).collect();
        input += &haves.iter().map(|id| format!("^{id}\n")).collect::<String>();
        let out = self.repo.git_with(["rev-list", "--stdin"], input.as_bytes());
        String::from_utf8(out).unwrap().lines().map(|line| line.parse().unwrap()).collect()
    }
}

pub(crate) fn id_kind(hash: Hash) -> HashKind {
    HashKind::from_name(hash.name()).unwrap()
}

pub(crate) fn open_store(repo: &TestRepo) -> Store {
    Store::open(&repo.objects_dir(), Options::new(id_kind(repo.hash()))).unwrap()
}

pub(crate) fn open_graph(repo: &TestRepo) -> (Option<CommitGraph>, Vec<packstone_revwalk::commit_graph::GraphProblem>) {
    let dir = repo.objects_dir();
    CommitGraph::open(&[Path::new(&dir)], id_kind(repo.hash()))
}
