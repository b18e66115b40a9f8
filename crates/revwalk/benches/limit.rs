//! Limits over a real repository, named by `PACKSTONE_BENCH_REPO` (its `objects` folder is read), else over a generated
//! one: with the commit-graph it has, and without.
//!
//! A repository without a commit-graph is measured without; write one in a copy to compare.

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use object::{HashKind, ObjectId};
use odb::{Options, Store};
use packstone_revwalk::{CommitGraph, Commits, LimitOptions, Shallow, Stop, limit};
use testkit::{Hash, TestRepo};

/// A line of commits with a merge of a two-commit branch every so often.
fn generated() -> TestRepo {
    let repo = TestRepo::bare(Hash::Sha1);
    let mut stream = String::new();
    let commit = |time: usize, from: &[usize]| {
        let mut text = format!("commit refs/heads/main\nmark :{time}\ncommitter A <a@b> {time} +0000\ndata 0\n");
        for (rank, parent) in from.iter().enumerate() {
            text += &format!("{} :{parent}\n", if rank == 0 { "from" } else { "merge" });
        }
        text + "\n"
    };
    stream += &commit(1, &[]);
    for n in (4..20_000).step_by(3) {
        stream += &commit(n - 2, &[(n - 3).max(1)]);
        stream += &commit(n - 1, &[(n - 3).max(1)]);
        stream += &commit(n, &[n - 2, n - 1]);
    }
    repo.fast_import(stream.as_bytes());
    repo.repack();
    repo.write_commit_graph();
    repo
}

fn limits(c: &mut Criterion) {
    let repo;
    let objects = match std::env::var_os("PACKSTONE_BENCH_REPO") {
        Some(path) => PathBuf::from(path).join("objects"),
        None => {
            repo = generated();
            repo.objects_dir()
        }
    };
    let git = |args: &[&str]| {
        let out = std::process::Command::new("git").arg("--git-dir").arg(objects.parent().unwrap()).args(args).output();
        String::from_utf8(out.unwrap().stdout).unwrap().trim().to_owned()
    };
    let tip: ObjectId = git(&["rev-parse", "HEAD"]).parse().unwrap();
    let have: ObjectId = git(&["rev-parse", "HEAD~500"]).parse().unwrap();
    let count: usize = git(&["rev-list", "--count", "HEAD"]).parse().unwrap();
    let store = Store::open(&objects, Options::new(HashKind::Sha1)).unwrap();
    let (graph, _) = CommitGraph::open(&[&objects], HashKind::Sha1);
    let has_graph = graph.is_some();
    let with = Commits::new(&store, graph, Shallow::none());
    let without = Commits::new(&store, None, Shallow::none());
    let dates = LimitOptions::default().stop(Stop::Dates);
    let proven = LimitOptions::default();
    let all = |commits: &Commits| {
        let limited = limit(commits, &[tip], &[], &proven).unwrap();
        assert_eq!(limited.commits.len(), count);
        black_box(limited)
    };
    let some = |commits: &Commits, options| black_box(limit(commits, &[tip], &[have], options).unwrap());
    if has_graph {
        c.bench_function("graph/all", |b| b.iter(|| all(&with)));
        c.bench_function("graph/tip..500 back/proven", |b| b.iter(|| some(&with, &proven)));
        c.bench_function("graph/tip..500 back/dates", |b| b.iter(|| some(&with, &dates)));
    }
    c.bench_function("commits/all", |b| b.iter(|| all(&without)));
    c.bench_function("commits/tip..500 back/proven", |b| b.iter(|| some(&without, &proven)));
    c.bench_function("commits/tip..500 back/dates", |b| b.iter(|| some(&without, &dates)));
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = limits
}
criterion_main!(benches);
