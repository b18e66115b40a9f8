//! What a reader of `.bitmap` files does all day: parse, expand, undo XOR, convert.
//!
//! The bitmap has the shape of a reachability bitmap: 400,000 bits, most in long runs, a part as scattered
//! literals.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use packstone_ewah::{Ewah, EwahBuf, ops};

const BITS: u32 = 400_000;

fn shape(seed: u32) -> EwahBuf {
    let mut b = EwahBuf::builder();
    let (mut at, mut x) = (0u32, seed);
    while at < BITS - 6000 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let n = x >> 20; // below 4096
        if x & 0x300 == 0 {
            for bit in (at..at + n).step_by(3) {
                b.set(bit).unwrap();
            }
        } else {
            b.set_range(at, at + n).unwrap();
        }
        at += n + 1 + (x & 0xff);
    }
    b.finish_with_bits(BITS).unwrap()
}

fn benches(c: &mut Criterion) {
    let (a, b) = (shape(1), shape(2));
    let mut wire = Vec::new();
    a.append_to(&mut wire);
    let mut dense = vec![0u64; BITS.div_ceil(64) as usize];
    let rb = a.as_ewah().to_roaring();
    let mut g = c.benchmark_group("ewah");
    g.throughput(Throughput::Bytes(wire.len() as u64));
    g.bench_function("parse", |b| b.iter(|| Ewah::parse_within(&wire, BITS.into()).unwrap()));
    g.bench_function("or_into", |b| b.iter(|| a.as_ewah().or_into(&mut dense).unwrap()));
    g.bench_function("xor_into", |b| b.iter(|| a.as_ewah().xor_into(&mut dense).unwrap()));
    g.bench_function("xor", |bench| bench.iter(|| ops::xor(a.as_ewah(), b.as_ewah())));
    g.bench_function("count_ones", |b| b.iter(|| a.as_ewah().count_ones()));
    g.bench_function("ones", |b| b.iter(|| a.as_ewah().ones().map(u64::from).sum::<u64>()));
    g.bench_function("to_roaring", |b| b.iter(|| a.as_ewah().to_roaring()));
    g.bench_function("from_roaring", |b| b.iter(|| EwahBuf::from_roaring(&rb, BITS).unwrap()));
    g.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
