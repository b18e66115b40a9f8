//! A developer's loop: look-ups, reads and the order of a pack. `ODB_BENCH_OBJECTS=.../objects` measures a real repository.

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use object::{HashKind, ObjectId};
use pack_format::PackPos;
use packstone_odb::{Options, Scratch, Store};
use testkit::{Hash, TestRepo};

fn benches(c: &mut Criterion) {
    let repo = TestRepo::linear(Hash::Sha1, 1000);
    repo.git(["repack", "-adq"]);
    let objects = std::env::var_os("ODB_BENCH_OBJECTS").map_or_else(|| repo.objects_dir(), PathBuf::from);
    let open = |rev| Store::open(&objects, Options::new(HashKind::Sha1).use_rev_files(rev)).unwrap();
    let store = open(true);
    let ids: Vec<ObjectId> = store.ids().unwrap().collect();
    // Far apart: every prime step visits all, none next to its neighbour.
    let mut turn = 0;
    let mut next = || {
        turn = (turn + 7919) % ids.len();
        &ids[turn]
    };
    let absent = ObjectId::from_sha1([0x5a; 20]);

    c.bench_function("find, random", |b| b.iter(|| store.find(next()).unwrap().is_some()));
    c.bench_function("contains, absent", |b| b.iter(|| store.contains(&absent).unwrap()));
    c.bench_function("header, random", |b| b.iter(|| store.header(next()).unwrap().size));
    let mut out = Vec::new();
    c.bench_function("read, random", |b| b.iter(|| store.read(next(), &mut out).unwrap()));

    let pack = &store.packs().unwrap()[0];
    let order = pack.order().unwrap();
    let mut scratch = Scratch::new();
    let mut pos = 0;
    let mut step = || {
        pos = (pos + 1) % pack.count();
        order.offset(PackPos::new(pos))
    };
    c.bench_function("read, pack order", |b| b.iter(|| pack.read(step(), &mut scratch, &mut out).unwrap()));
    c.bench_function("entry header, pack order", |b| b.iter(|| pack.entry(step()).unwrap().1));
    c.bench_function("pos_at", |b| b.iter(|| order.pos_at(black_box(step()))));
    for (name, rev) in [("order from .rev", true), ("order by sorting", false)] {
        c.bench_function(name, |b| {
            b.iter_batched(
                || open(rev).packs().unwrap(),
                |packs| packs[0].order().unwrap().count(),
                criterion::BatchSize::PerIteration,
            );
        });
    }
}

criterion_group! {
    name = read;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(read);
