//! For a developer's loop: the paths that a walk over a million objects takes a million times.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use packstone_object::{HashKind, ObjectId, ObjectKind, commit, object_id, tree::Entries};

fn ids(c: &mut Criterion) {
    let id = HashKind::Sha1.empty_tree();
    let text = id.to_string();
    c.bench_function("hex/encode", |b| b.iter(|| black_box(id).to_hex()));
    c.bench_function("hex/decode", |b| b.iter(|| ObjectId::from_hex(black_box(text.as_bytes()))));
    c.bench_function("id/from_bytes", |b| b.iter(|| ObjectId::from_bytes(black_box(id.as_bytes()))));
}

fn parsers(c: &mut Criterion) {
    // Forty entries, names of 5 to 24 bytes: a usual folder.
    let mut tree = Vec::new();
    for i in 0..40usize {
        tree.extend_from_slice(if i % 5 == 0 { b"40000 " } else { b"100644 " });
        tree.extend_from_slice(&b"abcdefghijklmnopqrstuvwxyz"[..5 + i * 7 % 20]);
        tree.push(0);
        tree.extend_from_slice(HashKind::Sha1.empty_blob().as_bytes());
    }
    let mut group = c.benchmark_group("tree");
    group.throughput(Throughput::Bytes(tree.len() as u64));
    group.bench_function("entries", |b| {
        b.iter(|| {
            let entries = Entries::new(black_box(&tree), HashKind::Sha1).map_while(Result::ok);
            entries.map(|entry| u64::from(entry.mode.is_tree()) + u64::from(entry.id.first_byte())).sum::<u64>()
        })
    });
    group.finish();
    let id = HashKind::Sha1.empty_tree();
    let who = "A U Thor <author@example.com> 1700000000 +0100";
    let text = format!("tree {id}\nparent {id}\nauthor {who}\ncommitter {who}\n\nA message\n");
    let mut parents = Vec::new();
    c.bench_function("commit/links", |b| {
        b.iter(|| commit::links(black_box(text.as_bytes()), HashKind::Sha1, &mut parents))
    });
    c.bench_function("name/200 bytes", |b| {
        let content = [7; 200];
        b.iter(|| object_id(HashKind::Sha1, ObjectKind::Blob, black_box(&content)))
    });
}

criterion_group!(benches, ids, parsers);
criterion_main!(benches);
