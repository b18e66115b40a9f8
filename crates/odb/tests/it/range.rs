//! Parts of objects, against the same parts of whole objects; and that what lies outside is left alone.

use std::ops::Range;

use object::{ObjectId, ObjectKind};
use packstone_odb::{ByteSource, Store};
use testkit::pack::{Entry, Op, PackBuilder, deflate, delta};
use testkit::repo::noise;
use testkit::{Hash, TestRepo};

use crate::support::{SOURCES, id, objects_by_git, options};

fn check(store: &Store, name: &ObjectId, kind: ObjectKind, content: &[u8], range: Range<u64>) {
    let mut out = b"left over".to_vec();
    let header = store.read_range(name, range.clone(), &mut out).unwrap();
    assert_eq!((header.kind, header.size), (kind, content.len() as u64));
    let start = range.start.min(header.size) as usize;
    let end = range.end.min(header.size).max(start as u64) as usize;
    assert!(out == content[start..end], "{name} {range:?}");
}

/// Ranges at both ends, across both, and of all lengths in between.
fn check_ranges(store: &Store, name: &ObjectId, kind: ObjectKind, content: &[u8]) {
    let size = content.len() as u64;
    for range in
        [0..0, 0..1, 0..size, 0..u64::MAX, size..size + 5, size.saturating_sub(1)..size, u64::MAX - 1..u64::MAX]
    {
        check(store, name, kind, content, range);
    }
    #[expect(clippy::reversed_empty_ranges, reason = "what is empty is empty")]
    check(store, name, kind, content, 5..2);
    let mut seed = size ^ 0x9e37_79b9;
    for _ in 0..12 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = (seed >> 20) % (size + 1);
        let len = ((seed >> 7) % (size / 3 + 2)) >> (seed % 11);
        check(store, name, kind, content, start..start + len);
    }
}

/// Files of some 300 KB that are made of each other's parts, in a chain of deltas.
fn large_and_deltified(hash: Hash) -> TestRepo {
    let repo = TestRepo::init(hash);
    let mut content = noise(300 << 10);
    for round in 0..8usize {
        let at = round * 30_011;
        content[at..at + 2000].reverse();
        content.splice(at + 500..at + 510, noise(700 + round));
        let tail = content.split_off(content.len() / 3);
        content = [tail, content].concat();
        repo.commit_files(&[("large", &content), ("small", &content[..1000])], "more");
    }
    repo
}

#[test]
fn ranges_are_parts_of_the_whole() {
    for hash in Hash::ALL {
        let repo = large_and_deltified(hash);
        let objects = objects_by_git(&repo);
        for packed in [false, true] {
            if packed {
                repo.git(["repack", "-adfq", "--depth=20", "--window=20"]);
                let depths = repo.verify_pack(&repo.only_pack());
                assert!(depths.iter().any(|object| object.depth >= 4 && object.kind == "blob"));
            }
            for source in SOURCES {
                for cache in [0, 96 << 20] {
                    let options = options(hash).byte_source(source).delta_base_cache(cache);
                    for verify in [false, true] {
                        let store = Store::open(&repo.objects_dir(), options.clone().verify_on_read(verify)).unwrap();
                        for (name, (kind, content)) in &objects {
                            check_ranges(&store, name, *kind, content);
                        }
                        assert_eq!(store.problems(), []);
                    }
                }
            }
        }
        let store = Store::open(&repo.objects_dir(), options(hash)).unwrap();
        let missing = store.read_range(&id(&vec![9; hash.len()]), 0..5, &mut Vec::new());
        assert!(missing.unwrap_err().is_missing());
    }
}

/// A stream of stored blocks that is good for the first 120,000 bytes of `content`, and then has a block of no known type.
fn good_at_first(content: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    for (number, block) in content.chunks(60_000).enumerate() {
        let len = block.len() as u16;
        stream.push(if number == 2 { 0b110 } else { 0 });
        stream.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
        stream.extend(block);
    }
    stream
}

#[test]
fn nothing_behind_the_range_is_inflated() {
    let hash = Hash::Sha1;
    let content = noise(200_000);
    let result = [&content[1000..90_000], b"something new", &content[3000..150_000]].concat();
    let ops = [
        Op::Copy(1000, 60_000),
        Op::Copy(61_000, 29_000),
        Op::Insert(b"something new"),
        Op::Copy(3000, 100_000),
        Op::Copy(103_000, 47_000),
    ];
    let first = delta(content.len() as u64, result.len() as u64, &ops);
    // A delta of a delta, which takes its parts in another order.
    let top = [&result[50_000..120_000], &result[100..60_100]].concat();
    let second = delta(result.len() as u64, top.len() as u64, &[Op::Copy(50_000, 70_000), Op::Copy(100, 60_000)]);
    let pack = PackBuilder::new(hash)
        .entry(Entry::full("blob", &content).deflated(&good_at_first(&content)))
        .entry(Entry::ofs_to(0, &first))
        .entry(Entry::ofs_to(1, &second))
        .build();
    let names = [&content, &result, &top].map(|content| pack.id("blob", content));
    let repo = TestRepo::bare(hash);
    pack.write(&repo.objects_dir(), &pack.idx(&names));
    let names = names.map(|name| id(&name));
    for source in [ByteSource::Mmap, ByteSource::Pread] {
        let store = Store::open(&repo.objects_dir(), options(hash).byte_source(source)).unwrap();
        for (name, content) in names.iter().zip([&content, &result, &top]) {
            for range in [0..1, 5..30_000, 20_000..40_000] {
                check(&store, name, ObjectKind::Blob, content, range);
            }
        }
        // Across the seams of the first delta, and nothing but a literal.
        check(&store, &names[1], ObjectKind::Blob, &result, 88_990..89_200);
        check(&store, &names[1], ObjectKind::Blob, &result, 89_000..89_013);
        check(&store, &names[2], ObjectKind::Blob, &top, 69_000..71_000);
        assert_eq!(store.problems(), [], "the damage was never met");
        for name in &names {
            assert!(store.read(name, &mut Vec::new()).unwrap_err().is_corrupt());
            assert!(store.read_range(name, 0..u64::MAX, &mut Vec::new()).unwrap_err().is_corrupt());
        }
        assert!(store.read_range(&names[0], 190_000..190_010, &mut Vec::new()).unwrap_err().is_corrupt());
    }
    // The same for a loose object.
    let repo = TestRepo::bare(hash);
    let loose = [format!("blob {}\0", content.len()).as_bytes(), &content].concat();
    testkit::pack::write_loose_raw(&repo.objects_dir(), names[0].as_bytes(), &good_at_first(&loose));
    let store = Store::open(&repo.objects_dir(), options(hash)).unwrap();
    check(&store, &names[0], ObjectKind::Blob, &content, 0..1);
    check(&store, &names[0], ObjectKind::Blob, &content, 70_000..90_000);
    assert!(store.read_range(&names[0], 190_000..190_010, &mut Vec::new()).unwrap_err().is_corrupt());
}

#[test]
fn another_copy_serves_where_one_is_damaged_within_the_range() {
    let hash = Hash::Sha1;
    let content = noise(200_000);
    // Damage that only a checksum shows: seen by ranges that reach the end.
    let mut other = content.clone();
    other[7] ^= 1;
    let mut stream = deflate(&other, 0);
    let end = stream.len();
    stream[end - 4..].copy_from_slice(&deflate(&content, 0)[end - 4..]);
    let subtle = PackBuilder::new(hash).entry(Entry::full("blob", &content).deflated(&stream)).build();
    let pack = PackBuilder::new(hash).entry(Entry::full("blob", &content).deflated(&good_at_first(&content))).build();
    let name = pack.id("blob", &content);
    let repo = TestRepo::bare(hash);
    pack.write(&repo.objects_dir(), &pack.idx(std::slice::from_ref(&name)));
    repo.hash_object("blob", &content);
    testkit::pack::write_loose(&repo.objects_dir(), &name, &[b"blob 200000\0", &content[..]].concat());
    let store = Store::open(&repo.objects_dir(), options(hash)).unwrap();
    check(&store, &id(&name), ObjectKind::Blob, &content, 190_000..190_100);
    let repo = TestRepo::bare(hash);
    subtle.write(&repo.objects_dir(), &subtle.idx(std::slice::from_ref(&name)));
    let store = Store::open(&repo.objects_dir(), options(hash)).unwrap();
    check(&store, &id(&name), ObjectKind::Blob, &content, 199_900..199_999);
    assert!(store.read_range(&id(&name), 199_900..200_000, &mut Vec::new()).unwrap_err().is_corrupt());
}

#[test]
fn a_delta_that_lies_is_an_error_in_a_range_too() {
    let hash = Hash::Sha1;
    let content = noise(100_000);
    let size = content.len() as u64;
    for (claimed_base, claimed, ops) in [
        (size, 100_001, vec![Op::Copy(0, 100_000)]),
        (size, 99_999, vec![Op::Copy(0, 100_000)]),
        (size + 1, 100_000, vec![Op::Copy(0, 100_000)]),
        (size - 1, 100_000, vec![Op::Copy(0, 100_000)]),
        (size, 100_000, vec![Op::Copy(1, 100_000)]),
        (size, 100_000, vec![Op::Copy(0, 50_000), Op::Raw(&[0]), Op::Copy(50_000, 50_000)]),
    ] {
        let delta = delta(claimed_base, claimed, &ops);
        let pack = PackBuilder::new(hash).entry(Entry::full("blob", &content)).entry(Entry::ofs_to(0, &delta)).build();
        let names = [pack.id("blob", &content), pack.id("blob", b"whatever")];
        let repo = TestRepo::bare(hash);
        pack.write(&repo.objects_dir(), &pack.idx(&names));
        let store = Store::open(&repo.objects_dir(), options(hash)).unwrap();
        let error = store.read_range(&id(&names[1]), 10..20, &mut Vec::new()).unwrap_err();
        assert!(error.is_corrupt(), "{error}");
        // With the base in the cache, too.
        store.read(&id(&names[1]), &mut Vec::new()).unwrap_err();
        assert!(store.read_range(&id(&names[1]), 10..20, &mut Vec::new()).unwrap_err().is_corrupt());
    }
}

#[test]
fn limits_hold_for_what_is_read() {
    let repo = large_and_deltified(Hash::Sha1);
    let large = crate::support::hex(&repo.rev_parse("HEAD:large"));
    repo.git(["repack", "-adfq"]);
    let store = Store::open(&repo.objects_dir(), options(Hash::Sha1).max_object_size(Some(10_000))).unwrap();
    let mut out = Vec::new();
    store.read_range(&large, 1000..11_000, &mut out).unwrap();
    assert_eq!(out.len(), 10_000);
    let error = store.read_range(&large, 1000..11_001, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "an object of 10001 bytes exceeds the limit of 10000");
}
