//! What is done to an index all day: read, looked into, edited, written. 100,000 entries in directories of 20.
//!
//! For a developer's loop; what is claimed against others is measured by `cargo xtask bench index`.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use object::HashKind;
use packstone_index::{
    AddOptions, Batch, Bump, Index, IndexView, Mode, NewEntry, ReadOptions, Stage, Version, WriteOptions,
};

const COUNT: usize = 100_000;
const KIND: HashKind = HashKind::Sha1;

fn paths() -> Vec<String> {
    (0..COUNT).map(|n| format!("dir{:02}/sub{:04}/file{n:06}.c", n / 2000, n / 20)).collect()
}

fn file(paths: &[String], version: Version, table: Option<u32>) -> Vec<u8> {
    let arena = Bump::new();
    let mut index = Index::new(&arena, KIND);
    let entry = |path| NewEntry::new(path, Mode(0o100_644), KIND.empty_blob());
    index.replace_entries(paths.iter().map(|path| entry(path.as_bytes()))).expect("in order");
    index.set_version(version);
    index.write_to(Vec::new(), &WriteOptions::default().offset_table(table)).expect("into memory").0
}

fn benches(c: &mut Criterion) {
    let paths = paths();
    let mut g = c.benchmark_group("index");
    g.sample_size(20).throughput(Throughput::Elements(COUNT as u64));
    for (name, version) in [("v2", Version::V2), ("v4", Version::V4)] {
        let bytes = file(&paths, version, None);
        let options = ReadOptions::new(KIND);
        g.bench_function(format!("read {name}"), |b| {
            b.iter(|| Index::read(&Bump::new(), &bytes, &options).map(|index| index.len()))
        });
        g.bench_function(format!("read {name} and look at all"), |b| {
            b.iter(|| {
                Index::read(&Bump::new(), &bytes, &options)
                    .map(|index| index.iter().map(|e| e.path().len()).sum::<usize>())
            })
        });
        let arena = Bump::new();
        let mut index = Index::read(&arena, &bytes, &options).expect("our own file");
        g.bench_function(format!("write {name}"), |b| b.iter(|| index.write_to(Vec::new(), &WriteOptions::default())));
        let whole = WriteOptions::default().skip_hash(true);
        g.bench_function(format!("write {name} without hash"), |b| b.iter(|| index.write_to(Vec::new(), &whole)));

        let changes: Vec<String> = paths.iter().step_by(2).map(|path| format!("{path}.new")).collect();
        let mut batch = Batch::new();
        for path in &changes {
            batch.put(NewEntry::new(path.as_bytes(), Mode(0o100_644), KIND.empty_blob()));
        }
        let arena = Bump::new();
        let read = || Index::read(&arena, &bytes, &options).expect("our own file");
        g.bench_function(format!("apply 50,000 to {name}"), |b| {
            b.iter_batched_ref(read, |index| index.apply(&batch, &AddOptions::default()), BatchSize::LargeInput)
        });
    }

    g.throughput(Throughput::Elements(1));
    let wanted = paths[COUNT / 3].as_bytes();
    for (name, version, table) in [("v2", Version::V2, None), ("v4 with table", Version::V4, Some(8192))] {
        let bytes = file(&paths, version, table);
        g.bench_function(format!("view of {name}, one look-up"), |b| {
            b.iter(|| IndexView::parse(&bytes[..], KIND).expect("a header").find(wanted, Stage::Merged))
        });
    }
    g.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
