//! A developer's loop: a pack received, within more or less memory, and verified. `INDEX_PACK_BENCH=FILE.pack` takes a real one.

use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use hashfile::publish::{self, Fsync};
use object::HashKind;
use packstone_index_pack::{Destination, Options, receive, verify};
use testkit::{Hash, TestRepo};

fn benches(c: &mut Criterion) {
    let repo = TestRepo::linear(Hash::Sha1, 2000);
    repo.repack();
    let pack = std::env::var_os("INDEX_PACK_BENCH").map_or_else(|| repo.only_pack(), PathBuf::from);
    let stream = std::fs::read(&pack).unwrap();
    let publish = publish::Options::default().fsync(Fsync::None);
    let options = |threads| Options::new(HashKind::Sha1).threads(threads).publish(publish.clone());
    let take = |options: Options| {
        let dir = tempfile::tempdir().unwrap();
        receive(&mut &stream[..], Destination::Directory(dir.path().into()), options).unwrap().counts.objects
    };
    c.bench_function("receive, 1 thread", |b| b.iter(|| take(options(1))));
    c.bench_function("receive, 2 threads", |b| b.iter(|| take(options(2))));
    c.bench_function("receive, 2 threads, 16 MiB", |b| b.iter(|| take(options(2).memory(16 << 20))));
    c.bench_function("verify, 2 threads", |b| b.iter(|| verify(&pack, None, options(2)).unwrap().counts().objects));
}

criterion_group! {
    name = receiving;
    config = Criterion::default().sample_size(10).measurement_time(std::time::Duration::from_secs(3));
    targets = benches
}
criterion_main!(receiving);
