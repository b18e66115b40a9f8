//! Repositories that git made, read as git reads them.

use std::fs;

use object::Prefix;
use pack_format::{IdxPos, PackOffset, PackPos};
use packstone_odb::{ByteSource, Location, PrefixMatch, Store};
use testkit::{Hash, TestRepo};

use crate::support::{SOURCES, assert_reads_as_git, hex, objects_by_git, options, store};

#[test]
fn loose_objects() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let store = store(&repo);
        assert_reads_as_git(&repo, &store);
    }
}

#[test]
fn one_pack_by_every_byte_source() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.git(["repack", "-adfq", "--depth=20"]);
        for source in SOURCES {
            for budget in [0, 10_000, 96 << 20] {
                let options = options(hash).byte_source(source).delta_base_cache(budget).verify_on_read(true);
                let store = Store::open(&repo.objects_dir(), options).unwrap();
                assert_reads_as_git(&repo, &store);
                assert_eq!(store.problems(), []);
            }
        }
    }
}

#[test]
fn a_long_delta_chain_and_reference_deltas() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 120);
        repo.git(["repack", "-adfq", "--depth=200", "--window=50"]);
        assert!(repo.verify_pack(&repo.only_pack()).iter().any(|object| object.depth > 40));
        assert_reads_as_git(&repo, &store(&repo));
        // Bases named by id, and no reverse index.
        repo.git(["-c", "repack.useDeltaBaseOffset=false", "-c", "pack.writeReverseIndex=false", "repack", "-adfq"]);
        assert_reads_as_git(&repo, &store(&repo));
        // An index of version 1.
        repo.git(["-c", "pack.indexVersion=1", "repack", "-adfq"]);
        let store = store(&repo);
        assert_eq!(store.packs().unwrap()[0].idx().version(), 1);
        assert_reads_as_git(&repo, &store);
    }
}

#[test]
fn many_packs_and_loose_objects() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        for number in 0..12 {
            repo.commit_files(
                &[("file", &testkit::repo::growing(number)), ("n", number.to_string().as_bytes())],
                "more",
            );
            if number % 3 != 2 {
                repo.repack_loose();
            }
        }
        let store = store(&repo);
        assert_eq!(store.packs().unwrap().len(), 8);
        assert_reads_as_git(&repo, &store);
    }
}

#[test]
fn f2_a_pack_that_must_not_be_mapped_is_streamed_by_pread() {
    let repo = TestRepo::init(Hash::Sha1);
    let big = testkit::repo::noise(3 << 20);
    let zeros = vec![0; 20 << 20];
    repo.commit_files(&[("big", &big), ("zeros", &zeros)], "big");
    let check = || {
        for source in SOURCES {
            let store = Store::open(&repo.objects_dir(), options(Hash::Sha1).byte_source(source)).unwrap();
            assert_reads_as_git(&repo, &store);
        }
    };
    check(); // loose
    repo.git(["-c", "core.bigFileThreshold=1m", "repack", "-adq"]);
    check();
}

#[test]
fn order_and_offsets_as_git_lists_them() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.git(["repack", "-adq"]);
        let listed = repo.show_index(&repo.only_pack());
        let trailer = fs::metadata(repo.only_pack()).unwrap().len() - hash.len() as u64;
        for use_rev_files in [true, false] {
            let store = Store::open(&repo.objects_dir(), options(hash).use_rev_files(use_rev_files)).unwrap();
            let pack = &store.packs().unwrap()[0];
            let order = pack.order().unwrap();
            assert_eq!(order.count() as usize, listed.len());
            for (rank, object) in (0..).zip(&listed) {
                let pos = PackPos::new(rank);
                let at = PackOffset::new(object.offset);
                assert_eq!(order.offset(pos), at);
                assert_eq!(order.pos_at(at), Some(pos));
                assert_eq!(order.pos_at(PackOffset::new(at.get() + 1)), None);
                let idx_pos = order.idx_pos(pos);
                assert_eq!(pack.idx().id(idx_pos), hex(&object.id));
                assert_eq!(order.pack_pos(idx_pos), pos);
                let end = listed.get(rank as usize + 1).map_or(trailer, |next| next.offset);
                assert_eq!(order.end(pos).get(), end);
                assert_eq!(pack.entry_bytes(pos).unwrap().len() as u64, end - object.offset);
                assert!(pack.crc_matches(pos).unwrap());
                let Some(Location::Packed { pos: found, at: found_at, .. }) = store.find(&hex(&object.id)).unwrap()
                else {
                    panic!("{} is packed", object.id)
                };
                assert_eq!((found, found_at), (idx_pos, at));
            }
        }
    }
}

#[test]
fn a_pack_tells_about_itself() {
    let repo = TestRepo::linear(Hash::Sha1, 3);
    repo.git(["repack", "-adq"]);
    let path = repo.only_pack();
    fs::write(path.with_extension("keep"), "").unwrap();
    for source in SOURCES {
        let store = Store::open(&repo.objects_dir(), options(Hash::Sha1).byte_source(source)).unwrap();
        let pack = &store.packs().unwrap()[0];
        let bytes = fs::read(&path).unwrap();
        assert_eq!(pack.path(), path);
        assert_eq!(pack.name(), path.file_stem().unwrap().to_str().unwrap());
        assert_eq!(pack.len(), bytes.len() as u64);
        assert!(pack.is_kept() && pack.is_local() && !pack.is_promisor() && !pack.is_cruft());
        assert_eq!(pack.checksum().unwrap().as_bytes(), &bytes[bytes.len() - 20..]);
        assert_eq!(pack.mtime(), fs::metadata(&path).unwrap().modified().unwrap());
        assert_eq!(pack.slice(PackOffset::new(0), pack.len()).unwrap(), bytes);
        assert_eq!(pack.file().unwrap().metadata().unwrap().len(), pack.len());
        assert!(pack.slice(PackOffset::new(1), pack.len()).is_err());
        assert!(pack.slice(PackOffset::new(u64::MAX), 2).is_err());
        for at in [0, 11, pack.len() - 20, pack.len(), u64::MAX] {
            assert!(pack.entry(PackOffset::new(at)).is_err(), "{at}");
        }
        assert_eq!(pack.idx().count(), pack.count());
        let _ = pack.idx().id(IdxPos::new(0));
    }
}

#[test]
fn abbreviations_as_git_resolves_them() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let check = |store: &Store| {
            let ids: Vec<_> = objects_by_git(&repo).into_keys().collect();
            let mut many = 0;
            for id in &ids {
                for digits in [4, 5, 7, hash.hex_len()] {
                    let prefix = Prefix::from_hex(&id.to_hex().as_bytes()[..digits], store.hash_kind()).unwrap();
                    let want: Vec<_> = ids.iter().copied().filter(|id| prefix.matches(id)).collect();
                    let got = match store.prefix(&prefix).unwrap() {
                        PrefixMatch::None => vec![],
                        PrefixMatch::One(id) => vec![id],
                        PrefixMatch::Many(ids) => ids,
                    };
                    assert_eq!(got, want);
                    many += usize::from(want.len() > 1);
                }
            }
            let _ = many;
            let none = Prefix::from_hex(b"00000000000", store.hash_kind()).unwrap();
            assert_eq!(store.prefix(&none).unwrap(), PrefixMatch::None);
        };
        check(&store(&repo));
        repo.git(["repack", "-dq"]); // reachable objects packed, one loose copy left of each of the others
        check(&store(&repo));
    }
}

#[test]
fn ambiguous_abbreviations_list_all() {
    let repo = TestRepo::bare(Hash::Sha1);
    let objects = repo.objects_dir();
    let write = |text: &str| {
        let id = testkit::pack::unhex(text);
        testkit::pack::write_loose(&objects, &id, b"blob 0\0");
        hex(text)
    };
    let first = write("abcd000000000000000000000000000000000001");
    let second = write("abcdf00000000000000000000000000000000001");
    write("abce000000000000000000000000000000000001");
    let store = store(&repo);
    let prefix = |text: &[u8]| store.prefix(&Prefix::from_hex(text, store.hash_kind()).unwrap()).unwrap();
    assert_eq!(prefix(b"abcd"), PrefixMatch::Many(vec![first, second]));
    assert_eq!(prefix(b"abcdf"), PrefixMatch::One(second));
    assert_eq!(prefix(b"abcde"), PrefixMatch::None);
}

#[test]
fn missing_objects_are_missing() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 3);
        let store = store(&repo);
        for other in Hash::ALL {
            let id = crate::support::id(&vec![0x5a; other.len()]);
            assert!(store.find(&id).unwrap().is_none());
            assert!(!store.contains(&id).unwrap());
            assert!(store.header(&id).unwrap_err().is_missing());
            assert!(store.read(&id, &mut Vec::new()).unwrap_err().is_missing());
            assert!(store.stream(&id).unwrap_err().is_missing());
        }
    }
}

#[test]
fn an_empty_repository_and_no_repository() {
    let repo = TestRepo::bare(Hash::Sha1);
    let store = store(&repo);
    assert_eq!(store.packs().unwrap().len(), 0);
    assert_eq!(store.ids().unwrap().count(), 0);
    fs::remove_dir_all(repo.objects_dir().join("pack")).unwrap();
    assert_eq!(crate::support::store(&repo).packs().unwrap().len(), 0);
    assert!(Store::open(&repo.path().join("nowhere"), options(Hash::Sha1)).is_err());
    assert!(Store::open(&repo.path().join("HEAD"), options(Hash::Sha1)).is_err());
}

#[test]
fn size_limit() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("big", &testkit::repo::noise(5000)), ("small", b"small")], "both");
    let blob = hex(&repo.rev_parse("HEAD:big"));
    let small = hex(&repo.rev_parse("HEAD:small"));
    for packed in [false, true] {
        if packed {
            repo.repack();
        }
        for source in [ByteSource::Mmap, ByteSource::Pread] {
            let options = options(Hash::Sha1).max_object_size(Some(4999)).byte_source(source);
            let store = Store::open(&repo.objects_dir(), options).unwrap();
            let error = store.read(&blob, &mut Vec::new()).unwrap_err();
            assert_eq!(error.to_string(), "an object of 5000 bytes exceeds the limit of 4999");
            assert_eq!(store.header(&blob).unwrap().size, 5000);
            store.read(&small, &mut Vec::new()).unwrap();
        }
    }
}
