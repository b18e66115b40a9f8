//! One copy is damaged, another is not (O8); what the index's checksum guards (K2).

use std::fs;
use std::os::unix::fs::symlink;

use object::ObjectKind;
use packstone_odb::{Location, ProblemKind, ReadError, Store};
use testkit::pack::{Entry, Op, PackBuilder, delta, object_id, write_loose};
use testkit::repo::noise;
use testkit::{Hash, TestRepo};

use crate::support::{SOURCES, id, options, read_all_ways, store};

fn loose(repo: &TestRepo, content: &[u8]) {
    let name = object_id(repo.hash(), "blob", content);
    write_loose(&repo.objects_dir(), &name, &[format!("blob {}\0", content.len()).as_bytes(), content].concat());
}

#[test]
fn o8_a_damaged_packed_object_with_a_good_loose_copy() {
    for hash in Hash::ALL {
        for content in [noise(300), noise(800_000)] {
            let mut pack = PackBuilder::new(hash).entry(Entry::full("blob", &content)).build();
            let name = pack.id("blob", &content);
            let idx = pack.idx(std::slice::from_ref(&name));
            pack.bytes[100] ^= 0x10; // the pack's checksum still matches what the index says
            let repo = TestRepo::bare(hash);
            pack.write(&repo.objects_dir(), &idx);
            for source in SOURCES {
                let open = || Store::open(&repo.objects_dir(), options(hash).byte_source(source)).unwrap();
                loose(&repo, &content);
                let both = open();
                let mut out = Vec::new();
                assert_eq!(both.read(&id(&name), &mut out).unwrap(), ObjectKind::Blob);
                assert!(out == content);
                let noted = both.problems();
                assert!(
                    matches!(&noted[..], [p] if matches!(&p.kind, ProblemKind::DamagedCopy { id: of, .. } if *of == id(&name))),
                    "{noted:?}"
                );
                // Remembered: the good copy comes first from now on.
                assert!(matches!(both.find(&id(&name)).unwrap(), Some(Location::Loose { source: 0 })));
                assert!(read_all_ways(&both, &id(&name)).unwrap().1 == content);
                assert_eq!(both.problems().len(), 1);

                fs::remove_file(both.loose_path_of(&id(&name), 0)).unwrap();
                let alone = open();
                for _ in 0..2 {
                    let error = alone.read(&id(&name), &mut out).unwrap_err();
                    assert!(error.is_corrupt() && !error.is_missing(), "{error}");
                    assert!(alone.contains(&id(&name)).unwrap());
                }
                // A copy that comes later helps.
                loose(&repo, &content);
                assert!(read_all_ways(&alone, &id(&name)).unwrap().1 == content);
            }
        }
    }
}

/// A pack of a base, a delta against it and a delta against that, with the base's stream damaged.
fn chain_with_a_bad_base(hash: Hash, by_reference: bool) -> (testkit::pack::Pack, Vec<u8>, [Vec<u8>; 3]) {
    let base = noise(300);
    let second = [&base[..], b"second"].concat();
    let third = [&second[..], b"third"].concat();
    let contents = [base, second, third];
    let programs = [
        delta(300, 306, &[Op::Copy(0, 300), Op::Insert(b"second")]),
        delta(306, 311, &[Op::Copy(0, 306), Op::Insert(b"third")]),
    ];
    let mut builder = PackBuilder::new(hash).entry(Entry::full("blob", &contents[0]));
    for (number, program) in programs.iter().enumerate() {
        builder = builder.entry(if by_reference {
            Entry::reference(&object_id(hash, "blob", &contents[number]), program)
        } else {
            Entry::ofs_to(number, program)
        });
    }
    let mut pack = builder.build();
    let ids: Vec<Vec<u8>> = contents.iter().map(|content| pack.id("blob", content)).collect();
    let idx = pack.idx(&ids);
    pack.bytes[pack.entries[0].data as usize + 50] ^= 0x10;
    (pack, idx, contents)
}

#[test]
fn o8_a_damaged_delta_base_is_found_elsewhere() {
    for hash in Hash::ALL {
        for by_reference in [false, true] {
            let (pack, idx, contents) = chain_with_a_bad_base(hash, by_reference);
            let names = contents.each_ref().map(|content| id(&object_id(hash, "blob", content)));
            let check = |repo: &TestRepo| {
                for source in SOURCES {
                    for budget in [0, 96 << 20] {
                        let options = options(hash).byte_source(source).delta_base_cache(budget);
                        // In both orders: what one read leaves behind must not change another.
                        for order in [[0, 1, 2], [2, 1, 0]] {
                            let store = Store::open(&repo.objects_dir(), options.clone()).unwrap();
                            for number in order {
                                let mut out = Vec::new();
                                store.read(&names[number], &mut out).unwrap();
                                assert!(out == contents[number]);
                            }
                        }
                    }
                }
            };
            // The base loose; in another pack; the middle one loose.
            let repo = TestRepo::bare(hash);
            pack.write(&repo.objects_dir(), &idx);
            let error = store(&repo).read(&names[2], &mut Vec::new()).unwrap_err();
            assert!(error.is_corrupt(), "{error}");
            assert!(store(&repo).contains(&names[2]).unwrap());
            loose(&repo, &contents[0]);
            check(&repo);

            let repo = TestRepo::bare(hash);
            pack.write(&repo.objects_dir(), &idx);
            let good = PackBuilder::new(hash).entry(Entry::full("blob", &contents[0])).build();
            good.write(&repo.objects_dir(), &good.idx(&[good.id("blob", &contents[0])]));
            check(&repo);

            let repo = TestRepo::bare(hash);
            pack.write(&repo.objects_dir(), &idx);
            loose(&repo, &contents[1]);
            let store = store(&repo);
            assert!(store.read(&names[0], &mut Vec::new()).unwrap_err().is_corrupt());
            for number in [1, 2] {
                assert!(read_all_ways(&store, &names[number]).unwrap().1 == contents[number]);
            }
        }
    }
}

#[test]
fn o8_recovery_does_not_go_round_in_circles() {
    // Each pack has one of two objects as a delta against the other's damaged copy.
    for hash in Hash::ALL {
        let (a, b) = (noise(300), [&noise(300)[..], b"b"].concat());
        let to_b = delta(300, 301, &[Op::Copy(0, 300), Op::Insert(b"b")]);
        let to_a = delta(301, 300, &[Op::Copy(0, 300)]);
        let repo = TestRepo::bare(hash);
        for (base, derived, program) in [(&a, &b, &to_b), (&b, &a, &to_a)] {
            let mut pack =
                PackBuilder::new(hash).entry(Entry::full("blob", base)).entry(Entry::ofs_to(0, program)).build();
            let idx = pack.idx(&[pack.id("blob", base), pack.id("blob", derived)]);
            pack.bytes[pack.entries[0].data as usize + 50] ^= 0x10;
            pack.write(&repo.objects_dir(), &idx);
        }
        let store = store(&repo);
        for content in [&a, &b] {
            let name = id(&object_id(hash, "blob", content));
            assert!(store.read(&name, &mut Vec::new()).unwrap_err().is_corrupt());
        }
        loose(&repo, &a);
        for content in [&a, &b] {
            let name = id(&object_id(hash, "blob", content));
            assert!(read_all_ways(&store, &name).unwrap().1 == **content);
        }
    }
}

#[test]
fn o8_what_is_recovered_has_the_right_name() {
    // A loose copy that inflates well but holds something else is no good copy.
    let hash = Hash::Sha1;
    let content = noise(300);
    let mut pack = PackBuilder::new(hash).entry(Entry::full("blob", &content)).build();
    let name = pack.id("blob", &content);
    let idx = pack.idx(std::slice::from_ref(&name));
    pack.bytes[100] ^= 0x10;
    let repo = TestRepo::bare(hash);
    pack.write(&repo.objects_dir(), &idx);
    write_loose(&repo.objects_dir(), &name, b"blob 5\0other");
    assert!(store(&repo).read(&id(&name), &mut Vec::new()).unwrap_err().is_corrupt());
}

#[test]
fn o8_what_the_system_refuses_is_no_damage() {
    let repo = TestRepo::linear(Hash::Sha1, 3);
    repo.git(["repack", "-adq"]);
    let path = repo.only_pack();
    let aside = repo.scratch().join("aside");
    fs::create_dir_all(repo.scratch()).unwrap();
    let head = id(&testkit::pack::unhex(&repo.rev_parse("main")));
    for extension in ["idx", "pack"] {
        let file = path.with_extension(extension);
        let store = store(&repo);
        fs::rename(&file, &aside).unwrap();
        symlink(file.file_name().unwrap(), &file).unwrap(); // to itself: ELOOP, to any user
        let error = store.read(&head, &mut Vec::new()).unwrap_err();
        assert!(!error.is_missing() && !error.is_corrupt(), "{extension}: {error:?}");
        assert!(matches!(error, ReadError::Io { .. } | ReadError::Open(_)));
        assert!(store.contains(&head).is_err(), "not known to be missing");
        fs::remove_file(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
        assert_eq!(read_all_ways(&store, &head).unwrap().0, ObjectKind::Commit);
    }
}

#[test]
fn a_pack_cut_while_open_is_an_error_without_a_mapping() {
    use packstone_odb::ByteSource;
    let hash = Hash::Sha1;
    let content = noise(2 << 20);
    for (source, survives) in [(ByteSource::Pread, false), (ByteSource::Heap, true)] {
        let pack = PackBuilder::new(hash)
            .entry(Entry::full("blob", b"small"))
            .entry(Entry::full("blob", &content).level(0))
            .build();
        let ids = [pack.id("blob", b"small"), pack.id("blob", &content)];
        let repo = TestRepo::bare(hash);
        let path = pack.write(&repo.objects_dir(), &pack.idx(&ids));
        let store = Store::open(&repo.objects_dir(), options(hash).byte_source(source)).unwrap();
        store.read(&id(&ids[0]), &mut Vec::new()).unwrap(); // opens it
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(pack.bytes.len() as u64 / 2).unwrap();
        let result = read_all_ways(&store, &id(&ids[1]));
        assert_eq!(result.is_ok(), survives);
        if let Err(error) = result {
            assert!(error.is_corrupt(), "{error}");
        }
    }
}

/// Two bases of the same size and a delta against the first whose distance was changed to the second: zlib sees nothing.
fn rebound(hash: Hash) -> (TestRepo, Vec<u8>, Vec<u8>) {
    let (a, b) = (b"A".repeat(64), b"B".repeat(64));
    let program = delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"!")]);
    let build = |base| {
        PackBuilder::new(hash)
            .entry(Entry::full("blob", &a))
            .entry(Entry::full("blob", &b))
            .entry(Entry::ofs_to(base, &program))
            .build()
    };
    let (good, bad) = (build(0), build(1));
    let content = [&a[..], b"!"].concat();
    let ids = [good.id("blob", &a), good.id("blob", &b), good.id("blob", &content)];
    let mut rows = bad.rows(&ids);
    for (row, entry) in rows.iter_mut().zip(&good.entries) {
        assert_eq!(u64::from(row.offset), entry.offset);
        row.crc = entry.crc; // as they were before the byte flipped
    }
    let repo = TestRepo::bare(hash);
    bad.write(&repo.objects_dir(), &testkit::pack::idx_v2(hash, &rows, &[], bad.checksum()));
    (repo, content, ids[2].clone())
}

#[test]
fn k2_a_delta_bound_to_another_base_is_seen_by_crc_and_by_name() {
    for hash in Hash::ALL {
        let (repo, content, name) = rebound(hash);
        let plain = store(&repo);
        let packs = plain.packs().unwrap();
        let order = packs[0].order().unwrap();
        let idx_pos = packs[0].idx().lookup(&id(&name)).unwrap();
        for pos in 0..3 {
            let pos = pack_format::PackPos::new(pos);
            assert_eq!(packs[0].crc_matches(pos).unwrap(), pos != order.pack_pos(idx_pos));
        }
        let strict = || Store::open(&repo.objects_dir(), options(hash).verify_on_read(true)).unwrap();
        let error = read_all_ways(&strict(), &id(&name)).unwrap_err();
        assert!(error.is_corrupt(), "{error}");
        loose(&repo, &content);
        assert_eq!(read_all_ways(&strict(), &id(&name)).unwrap().1, content);
    }
}

#[test]
fn k2_a_wrong_crc_with_good_data_shows_too() {
    let hash = Hash::Sha1;
    let pack = PackBuilder::new(hash).entry(Entry::full("blob", b"content")).build();
    let mut rows = pack.rows(&[pack.id("blob", b"content")]);
    rows[0].crc ^= 1;
    let repo = TestRepo::bare(hash);
    pack.write(&repo.objects_dir(), &testkit::pack::idx_v2(hash, &rows, &[], pack.checksum()));
    let store = store(&repo);
    assert!(!store.packs().unwrap()[0].crc_matches(pack_format::PackPos::new(0)).unwrap());
}
