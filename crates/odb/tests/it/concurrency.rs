//! Other processes repack while we read (C1).

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use object::ObjectId;
use packstone_odb::Store;
use testkit::pack::{Entry, PackBuilder, object_id};
use testkit::{Hash, TestRepo};

use crate::support::{SOURCES, hex, id, objects_by_git, options, read_all_ways, store};

#[test]
fn c1_objects_that_moved_are_found_after_one_reload() {
    for hash in Hash::ALL {
        for source in SOURCES {
            let repo = TestRepo::linear(hash, 20);
            repo.git(["repack", "-adq"]);
            let store = Store::open(&repo.objects_dir(), options(hash).byte_source(source)).unwrap();
            read_all_ways(&store, &hex(&repo.rev_parse("main"))).unwrap();
            let held = store.packs().unwrap();
            repo.git(["repack", "-adfq", "--depth=5"]);
            // Something new, so that the pack has another name for certain.
            let another = repo.hash_object("blob", b"another");
            repo.git(["update-ref", "refs/tags/another", &another]);
            repo.git(["repack", "-adfq", "--depth=5"]);
            assert!(!held[0].path().exists());
            for name in objects_by_git(&repo).keys() {
                read_all_ways(&store, name).unwrap();
            }
            assert_ne!(store.packs().unwrap()[0].path(), held[0].path());
            // The pack that is gone serves whoever holds it open.
            if source == packstone_odb::ByteSource::Mmap {
                let order = held[0].order().unwrap();
                let (mut scratch, mut out) = (packstone_odb::Scratch::new(), Vec::new());
                for pos in 0..held[0].count() {
                    held[0].read(order.offset(pack_format::PackPos::new(pos)), &mut scratch, &mut out).unwrap();
                }
            }
        }
    }
}

#[test]
fn c1_an_index_open_without_its_pack_that_was_renamed() {
    let hash = Hash::Sha1;
    let pack = PackBuilder::new(hash).entry(Entry::full("blob", b"content")).build();
    let name = id(&pack.id("blob", b"content"));
    let repo = TestRepo::bare(hash);
    let idx = pack.idx(&[name.as_bytes().to_vec()]);
    let first = pack.write_as(&repo.objects_dir(), "pack-1", &idx);
    let options = options(hash).byte_source(packstone_odb::ByteSource::Pread);
    let store = Store::open(&repo.objects_dir(), options).unwrap();
    // A miss opens the index only.
    assert!(!store.contains(&id(&object_id(hash, "blob", b"no"))).unwrap());
    let second = repo.objects_dir().join("pack/pack-2.pack");
    fs::rename(&first, &second).unwrap();
    fs::rename(first.with_extension("idx"), second.with_extension("idx")).unwrap();
    let other = store.clone();
    other.reload().unwrap();
    assert_eq!(read_all_ways(&store, &name).unwrap().1, b"content");
    // And without anybody's reload.
    fs::rename(&second, &first).unwrap();
    fs::rename(second.with_extension("idx"), first.with_extension("idx")).unwrap();
    assert_eq!(read_all_ways(&crate::support::store(&repo), &name).unwrap().1, b"content");
}

#[test]
fn c1_the_same_name_with_other_content() {
    let hash = Hash::Sha1;
    let build = |content: &[u8]| PackBuilder::new(hash).entry(Entry::full("blob", content)).build();
    let (one, two) = (build(b"content 1"), build(b"content 2"));
    let (name_1, name_2) = (id(&one.id("blob", b"content 1")), id(&two.id("blob", b"content 2")));
    let repo = TestRepo::bare(hash);
    let path = one.write_as(&repo.objects_dir(), "pack-x", &one.idx(&[name_1.as_bytes().to_vec()]));
    let store = store(&repo);
    assert_eq!(read_all_ways(&store, &name_1).unwrap().1, b"content 1");
    // Same length and, put back, the same mtime.
    let mtime = fs::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(one.bytes.len(), two.bytes.len());
    let replace = |extension: &str, bytes: &[u8]| {
        let file = path.with_extension(extension);
        let temp = file.with_extension("tmp");
        fs::write(&temp, bytes).unwrap();
        fs::File::options().write(true).open(&temp).unwrap().set_modified(mtime).unwrap();
        fs::rename(&temp, &file).unwrap();
    };
    replace("pack", &two.bytes);
    replace("idx", &two.idx(&[name_2.as_bytes().to_vec()]));
    assert_eq!(read_all_ways(&store, &name_2).unwrap().1, b"content 2");
    assert!(store.read(&name_1, &mut Vec::new()).unwrap_err().is_missing());
}

#[test]
fn a_freshened_pack_stays_open() {
    let repo = TestRepo::linear(Hash::Sha1, 3);
    repo.git(["repack", "-adq"]);
    let store = store(&repo);
    let before = store.packs().unwrap();
    let now = std::time::SystemTime::now() + std::time::Duration::from_secs(100);
    fs::File::open(before[0].path()).unwrap().set_modified(now).unwrap();
    fs::write(before[0].path().with_extension("keep"), "").unwrap();
    store.reload().unwrap();
    let after = store.packs().unwrap();
    assert_eq!(before[0].serial(), after[0].serial(), "the files are the same, and so stay open");
    assert!(!before[0].is_kept() && after[0].is_kept());
    assert_ne!(before[0].mtime(), after[0].mtime());
}

#[test]
fn c1_readers_during_repacks() {
    let repo = TestRepo::linear(Hash::Sha1, 60);
    repo.git(["repack", "-adq"]);
    let objects: Vec<(ObjectId, Vec<u8>)> =
        objects_by_git(&repo).into_iter().map(|(id, (_, content))| (id, content)).collect();
    let absent = id(&[0x77; 20]);
    for source in SOURCES {
        let store = Store::open(&repo.objects_dir(), options(Hash::Sha1).byte_source(source)).unwrap();
        let done = AtomicBool::new(false);
        let reads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (store, objects, done, reads) = (store.clone(), &objects, &done, &reads);
                scope.spawn(move || {
                    let mut out = Vec::new();
                    let mut round = thread;
                    while !done.load(Ordering::Relaxed) {
                        for step in 0..objects.len() {
                            let (name, content) = &objects[(step * 7 + round) % objects.len()];
                            store.read(name, &mut out).unwrap_or_else(|error| panic!("{name}: {error}"));
                            assert!(out == *content);
                            assert_eq!(store.header(name).unwrap().size, content.len() as u64);
                            reads.fetch_add(1, Ordering::Relaxed);
                        }
                        assert!(!store.contains(&absent).unwrap());
                        round += 13;
                    }
                });
            }
            for round in 0..6 {
                // Loose, then packed again under a new name.
                let more = repo.hash_object("blob", format!("{source:?} {round}").as_bytes());
                repo.git(["update-ref", &format!("refs/tags/t{round}"), &more]);
                repo.git(["repack", "-adfq", &format!("--depth={}", 2 + round)]);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(reads.into_inner() > objects.len());
    }
}

/// How long the runs below take, in seconds each: a few in CI, longer by hand.
fn seconds() -> u64 {
    std::env::var("PACKSTONE_CONCURRENCY_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// Readers in threads while `maintain` is called again and again with a number that goes up, until the time is over.
fn readers_during(repo: &TestRepo, store: &Store, maintain: &dyn Fn(usize)) {
    let objects: Vec<(ObjectId, Vec<u8>)> =
        objects_by_git(repo).into_iter().map(|(id, (_, content))| (id, content)).collect();
    let absent = id(&vec![0x77; repo.hash().len()]);
    let done = AtomicBool::new(false);
    let reads = AtomicUsize::new(0);
    let rounds = std::thread::scope(|scope| {
        for thread in 0..3 {
            let (store, objects, done, reads) = (store.clone(), &objects, &done, &reads);
            scope.spawn(move || {
                let mut out = Vec::new();
                let mut round = thread;
                while !done.load(Ordering::Relaxed) {
                    for step in 0..objects.len() {
                        let (name, content) = &objects[(step * 7 + round) % objects.len()];
                        store.read(name, &mut out).unwrap_or_else(|error| panic!("{name}: {error:?}"));
                        assert!(out == *content);
                        assert_eq!(store.header(name).unwrap().size, content.len() as u64);
                        assert!(store.contains(name).unwrap());
                        assert!(store.find(name).unwrap().is_some());
                        store.entry(name).unwrap_or_else(|error| panic!("{name}: {error:?}"));
                        let half = content.len() as u64 / 2;
                        store.read_range(name, half..half + 9, &mut out).unwrap();
                        assert_eq!(out, content[half as usize..(half as usize + 9).min(content.len())]);
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(!store.contains(&absent).unwrap());
                    // All that there was is listed at any moment.
                    let ids: BTreeSet<ObjectId> = store.ids().unwrap().collect();
                    assert!(objects.iter().all(|(id, _)| ids.contains(id)));
                    round += 13;
                }
            });
        }
        let start = std::time::Instant::now();
        let mut round = 0;
        // Also when `maintain` panics, or the readers would go on for ever.
        struct Stop<'d>(&'d AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&done);
        while start.elapsed().as_secs() < seconds() || round < 2 {
            maintain(round);
            round += 1;
        }
        round
    });
    assert!(reads.into_inner() > objects.len() && rounds >= 2);
    let damaged = |problem: &packstone_odb::Problem| {
        matches!(
            problem.kind,
            packstone_odb::ProblemKind::DamagedCopy { .. } | packstone_odb::ProblemKind::BrokenPack(_)
        )
    };
    let problems: Vec<_> = store.problems().into_iter().filter(damaged).collect();
    assert_eq!(problems, [], "nothing that is only replaced is damaged");
}

/// Something new, so that packs have other names each time.
fn grow(repo: &TestRepo, round: usize) {
    let more = repo.hash_object("blob", format!("number {round} {}", std::process::id()).as_bytes());
    repo.git(["update-ref", &format!("refs/tags/t{round}"), &more]);
}

#[test]
fn c1_readers_during_multi_pack_index_write_expire_repack() {
    for source in [packstone_odb::ByteSource::Mmap, packstone_odb::ByteSource::Pread] {
        let repo = TestRepo::linear(Hash::Sha1, 30);
        repo.git(["repack", "-adq"]);
        let options = options(Hash::Sha1).byte_source(source).max_open_files(Some(12));
        let store = Store::open(&repo.objects_dir(), options).unwrap();
        readers_during(&repo, &store, &|round| {
            grow(&repo, round);
            repo.git(["repack", "-dq"]);
            repo.git(["multi-pack-index", "write"]);
            repo.git(["multi-pack-index", "repack", "--batch-size=0"]);
            repo.git(["multi-pack-index", "expire"]);
        });
    }
}

#[test]
fn c1_readers_during_full_repacks_with_bitmaps() {
    let repo = TestRepo::linear(Hash::Sha256, 30);
    let store = store(&repo);
    readers_during(&repo, &store, &|round| {
        grow(&repo, round);
        let write = if round % 2 == 0 { "--write-midx" } else { "-q" };
        repo.git(["repack", "-adbq", write]);
    });
}

#[test]
fn c1_readers_during_gc() {
    let repo = TestRepo::linear(Hash::Sha1, 30);
    let store = store(&repo);
    readers_during(&repo, &store, &|round| {
        grow(&repo, round);
        repo.git(["gc", "-q", "--prune=now"]);
        if round % 3 == 2 {
            repo.git(["multi-pack-index", "write"]);
        }
    });
}
