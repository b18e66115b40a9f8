//! Undoing bitmaps and answering, on a generated history of 2,000 commits.

use criterion::{Criterion, criterion_group, criterion_main};
use object::{HashKind, ObjectId};
use odb::{Options, Store};
use packstone_pack_bitmap::{OpenOptions, Request, Scratch, answer, find, open};
use revwalk::{Commits, Filter, Numbering, Shallow};
use testkit::{Hash, TestRepo};

fn benches(c: &mut Criterion) {
    let repo = TestRepo::linear(Hash::Sha1, 2000);
    repo.repack_with_bitmap();
    let store = Store::open(&repo.objects_dir(), Options::new(HashKind::Sha1)).unwrap();
    let (pack, file) = find(&store, &OpenOptions::default()).unwrap().bitmap.expect("a bitmap");
    let numbering = Numbering::new(&store, Some(&pack)).unwrap();
    let commits = Commits::new(&store, None, Shallow::none());
    let order = pack.order().unwrap();
    let id = |name: &str| -> [ObjectId; 1] { [repo.rev_parse(name).parse().unwrap()] };
    let (main, old) = (id("main"), id("main~150"));

    let mut g = c.benchmark_group("pack-bitmap");
    g.bench_function("open", |b| b.iter(|| open(&pack, &OpenOptions::default()).unwrap()));
    g.bench_function("open, unverified", |b| {
        b.iter(|| open(&pack, &OpenOptions::default().verify(false)).unwrap());
    });
    for (name, budget) in [("every bitmap", 32 << 20), ("every bitmap, nothing kept", 0)] {
        g.bench_function(name, |b| {
            b.iter(|| {
                let mut scratch = Scratch::with_budget(budget);
                for commit in file.commits() {
                    file.reach(commit, order.pack_pos(commit), &mut scratch).unwrap();
                }
            });
        });
    }
    let filter = Filter::BlobNone;
    let all = Request::new(&main);
    for (name, request) in
        [("all", all), ("all, blob:none", all.filter(Some(&filter))), ("since 150 commits", all.haves(&old))]
    {
        g.bench_function(name, |b| {
            b.iter(|| answer(&numbering, &file, &commits, &request).unwrap());
        });
    }
    g.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
