//! A developer's loop: small writes, large writes, lent slices, into a sink that costs nothing.
//!
//! The buffer size is justified by `examples/sweep.rs`, the second thread by `examples/overlap.rs`.

use std::hint::black_box;
use std::io::{self, Write};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use object::HashKind;
use packstone_hashfile::{HashFile, Options, verify};

const LEN: usize = 8 << 20;

fn writing(c: &mut Criterion) {
    let content: Vec<u8> = (0..LEN as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut group = c.benchmark_group("write");
    group.throughput(Throughput::Bytes(LEN as u64)).sample_size(20);
    for (name, piece) in [("20 B", 20), ("4 KiB", 4096), ("1 MiB", 1 << 20)] {
        for (how, options) in [
            ("hashed", Options::default()),
            ("unhashed", Options::default().skip_hash(true)),
            ("thread", Options::default().hash_on_thread(true)),
        ] {
            group.bench_function(format!("{name} {how}"), |b| {
                b.iter(|| {
                    let mut out = HashFile::with_options(io::sink(), HashKind::Sha1, &options);
                    for piece in content.chunks(piece) {
                        out.write_all(piece).expect("a sink takes everything");
                    }
                    black_box(out.finish().expect("a sink takes everything").1)
                })
            });
        }
    }
    group.finish();
}

fn verifying(c: &mut Criterion) {
    let mut out = HashFile::new(Vec::new(), HashKind::Sha1);
    out.write_all(&vec![7; LEN]).expect("a Vec takes everything");
    let (file, _) = out.finish().expect("a Vec takes everything");
    let mut group = c.benchmark_group("verify");
    group.throughput(Throughput::Bytes(LEN as u64)).sample_size(20);
    group.bench_function("sha1", |b| b.iter(|| verify(black_box(&file), HashKind::Sha1).expect("intact")));
    group.finish();
}

criterion_group!(benches, writing, verifying);
criterion_main!(benches);
