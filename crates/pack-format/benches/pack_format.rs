//! For a developer's loop: what happens once for each of a million objects.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use object::{HashKind, ObjectKind, object_id};
use packstone_pack_format::{
    IdxPos, PackOffset,
    delta::{self, Instructions},
    idx::{self, Idx},
    zlib::{Backend, Deflate, Inflate},
};
use testkit::{
    io::Rng,
    pack::{Op, delta as encode},
};

fn index(c: &mut Criterion) {
    for count in [10_000u32, 400_000] {
        let name = |i: u32| object_id(HashKind::Sha1, ObjectKind::Blob, &i.to_be_bytes()).unwrap();
        let mut entries: Vec<_> = (0..count).map(|i| (name(i), i, PackOffset::new(12 + u64::from(i)))).collect();
        entries.sort_unstable();
        let (bytes, _) = idx::write_v2(Vec::new(), entries.iter().copied(), &HashKind::Sha1.null()).unwrap();
        let idx = Idx::parse(bytes, HashKind::Sha1).unwrap();
        // In no order, as ids come: half of them there.
        let mut rng = Rng::new(1);
        let probes: Vec<_> = (0..4096).map(|_| name(rng.below(u64::from(count) * 2) as u32)).collect();
        let mut group = c.benchmark_group(format!("idx/{count}"));
        group.throughput(Throughput::Elements(probes.len() as u64));
        group.bench_function("lookup", |b| {
            b.iter(|| probes.iter().filter(|id| black_box(&idx).lookup(id).is_some()).count())
        });
        group.throughput(Throughput::Elements(u64::from(count)));
        group
            .bench_function("offsets", |b| b.iter(|| black_box(&idx).offsets().map(|o| o.unwrap().get()).sum::<u64>()));
        group.bench_function("ids", |b| {
            let ids = || (0..count).map(|pos| idx.id(IdxPos::new(pos)));
            b.iter(|| ids().map(|id| u64::from(id.first_byte())).sum::<u64>())
        });
        group.finish();
    }
}

fn deltas(c: &mut Criterion) {
    // A tree of git.git's size: most is copied, a few entries are new.
    let base = Rng::new(2).bytes(16_000);
    let ops: Vec<_> = (0..16)
        .flat_map(|i| [Op::Copy(i * 1000, 980), Op::Insert(b"twenty bytes, of an id"), Op::Copy(i, 7)])
        .collect();
    let size = 16 * (980 + 22 + 7);
    let program = encode(16_000, size, &ops);
    let mut out = Vec::new();
    let mut group = c.benchmark_group("delta");
    group.throughput(Throughput::Bytes(size));
    group.bench_function("apply", |b| {
        b.iter(|| delta::apply(black_box(&base), black_box(&program), &mut out, 1 << 20).unwrap())
    });
    group.bench_function("instructions", |b| {
        b.iter(|| Instructions::parse(black_box(&program)).unwrap().1.map(|i| i.unwrap().len()).sum::<u64>())
    });
    group.finish();
}

fn zlib(c: &mut Criterion) {
    let text: Vec<u8> = (0..800u32).flat_map(|i| format!("line {i} of {}\n", i * i % 97).into_bytes()).collect();
    for &backend in Backend::ALL {
        for len in [100, 6000] {
            let mut stream = Vec::new();
            let mut deflate = Deflate::with_backend(backend, -1);
            deflate.deflate(&text[..len], &mut stream);
            let mut group = c.benchmark_group(format!("zlib/{backend:?}/{len}"));
            group.throughput(Throughput::Bytes(len as u64));
            let mut inflate = Inflate::with_backend(backend);
            let mut out = vec![0; len];
            group.bench_function("inflate_exact", |b| {
                b.iter(|| inflate.inflate_exact(black_box(&stream), &mut out).unwrap())
            });
            group.bench_function("deflate", |b| {
                b.iter_batched_ref(
                    || Vec::with_capacity(2 * len),
                    |out| deflate.deflate(black_box(&text[..len]), out),
                    BatchSize::SmallInput,
                )
            });
            group.finish();
        }
    }
}

criterion_group!(benches, index, deltas, zlib);
criterion_main!(benches);
