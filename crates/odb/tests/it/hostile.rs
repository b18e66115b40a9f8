//! Packs and indices made by hand to hurt.

use std::fs;

use object::ObjectKind;
use packstone_odb::{ProblemKind, Store};
use testkit::pack::{
    Entry, Op, Pack, PackBuilder, Row, apply, delta, hex, idx_v2, object_id, push_size, unhex, write_loose,
};
use testkit::{Hash, TestRepo};

use crate::support::{SOURCES, id, open, options, read_all_ways, store};

fn s64() -> Vec<u8> {
    b"abcdefgh".repeat(8)
}

/// A repository with nothing in it but this pack.
fn repo_with(pack: &Pack, ids: &[Vec<u8>]) -> TestRepo {
    let repo = TestRepo::bare(pack.hash);
    pack.write(&repo.objects_dir(), &pack.idx(ids));
    repo
}

/// Reads in all ways by all byte sources; all must fail as corrupt. The message of the first.
fn corrupt_by_all_sources(repo: &TestRepo, name: &[u8]) -> String {
    let messages = SOURCES.map(|source| {
        let store = Store::open(&repo.objects_dir(), options(repo.hash()).byte_source(source)).unwrap();
        let error = read_all_ways(&store, &id(name)).unwrap_err();
        assert!(error.is_corrupt(), "{source:?}: {error}");
        error.to_string()
    });
    assert!(messages.iter().all(|message| *message == messages[0]), "{messages:#?}");
    messages[0].clone()
}

#[test]
fn o9_stray_and_half_present_packs() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 3);
        repo.git(["repack", "-adq"]);
        let dir = repo.objects_dir().join("pack");
        let name =
            |letter: &str, extension: &str| dir.join(format!("pack-{}.{extension}", letter.repeat(hash.hex_len())));
        let pack = PackBuilder::new(hash).entry(Entry::full("blob", b"stray")).build();
        let stray = pack.id("blob", b"stray");
        fs::write(name("a", "pack"), &pack.bytes).unwrap();
        fs::create_dir(name("b", "idx")).unwrap();
        fs::write(name("b", "pack"), &pack.bytes).unwrap();
        fs::write(name("c", "idx"), "").unwrap();
        fs::write(name("c", "pack"), &pack.bytes).unwrap();
        fs::write(name("d", "idx"), pack.idx(std::slice::from_ref(&stray))).unwrap();
        fs::write(name("e", "idx"), pack.idx(std::slice::from_ref(&stray))).unwrap();
        fs::create_dir(name("e", "pack")).unwrap();
        fs::write(name("f", "idx"), pack.idx(std::slice::from_ref(&stray))).unwrap();
        fs::write(name("f", "pack"), "").unwrap();
        fs::write(dir.join("README"), "").unwrap();
        fs::write(dir.join("tmp_pack_x"), "").unwrap();
        let store = store(&repo);
        assert_eq!(store.packs().unwrap().len(), 1);
        let listed = repo.show_index(&repo.git_dir().join(store.packs().unwrap()[0].path()));
        for object in &listed {
            read_all_ways(&store, &crate::support::hex(&object.id)).unwrap();
        }
        assert_eq!(store.ids().unwrap().count(), listed.len());
        assert!(!store.contains(&id(&stray)).unwrap());
        let mut kinds: Vec<_> = store.problems().into_iter().map(|problem| problem.kind).collect();
        kinds.sort_by_key(ToString::to_string);
        assert!(
            matches!(
                &kinds[..],
                [
                    ProblemKind::IndexWithoutPack,
                    ProblemKind::PackWithoutIndex,
                    ProblemKind::BrokenPack(_),
                    ProblemKind::BrokenPack(_),
                    ProblemKind::BrokenPack(_),
                    ProblemKind::BrokenPack(_)
                ]
            ),
            "{kinds:?}"
        );
    }
}

#[test]
fn packs_that_do_not_fit_their_index() {
    for hash in Hash::ALL {
        let builder = PackBuilder::new(hash).entry(Entry::full("blob", b"content"));
        let good = builder.build();
        let name = good.id("blob", b"content");
        let idx = good.idx(std::slice::from_ref(&name));
        let mut other_trailer = good.clone();
        *other_trailer.bytes.last_mut().unwrap() ^= 1;
        let mut cut = good.clone();
        cut.bytes.pop();
        let mut header_only = good.clone();
        header_only.bytes.truncate(12);
        let mut signature = good.clone();
        signature.bytes[0] = b'p';
        for (what, pack) in [
            ("trailer", other_trailer),
            ("cut", cut),
            ("header only", header_only),
            ("signature", signature),
            ("count", builder.clone().count(2).build()),
            ("version 1", builder.clone().version(1).build()),
            ("version 4", builder.clone().version(4).build()),
        ] {
            for source in SOURCES {
                let repo = TestRepo::bare(hash);
                // Signed for the pack at hand but where the trailer is what is wrong.
                let idx = if what == "trailer" || pack.bytes.len() < good.bytes.len() {
                    idx.clone()
                } else {
                    pack.idx(std::slice::from_ref(&name))
                };
                pack.write_as(&repo.objects_dir(), "pack-x", &idx);
                let store = Store::open(&repo.objects_dir(), options(hash).byte_source(source)).unwrap();
                let error = store.read(&id(&name), &mut Vec::new()).unwrap_err();
                assert!(error.is_missing(), "{what}: {error}");
                assert!(!store.contains(&id(&name)).unwrap());
                assert!(
                    matches!(store.problems()[..], [ref p] if matches!(p.kind, ProblemKind::BrokenPack(_))),
                    "{what}"
                );
            }
        }
        let repo = TestRepo::bare(hash);
        let three = builder.version(3).build();
        three.write(&repo.objects_dir(), &three.idx(std::slice::from_ref(&name)));
        assert_eq!(read_all_ways(&store(&repo), &id(&name)).unwrap().1, b"content");
    }
}

#[test]
fn f2_empty_companions_are_passed_over() {
    let repo = TestRepo::linear(Hash::Sha1, 3);
    repo.git(["repack", "-adq"]);
    let rev = repo.only_pack().with_extension("rev");
    fs::remove_file(&rev).ok();
    fs::write(&rev, "").unwrap();
    fs::create_dir_all(repo.objects_dir().join("info")).unwrap();
    fs::write(repo.objects_dir().join("info/alternates"), "").unwrap();
    for source in SOURCES {
        let store = Store::open(&repo.objects_dir(), options(Hash::Sha1).byte_source(source)).unwrap();
        store.packs().unwrap()[0].order().unwrap();
        crate::support::assert_reads_as_git(&repo, &store);
        assert!(matches!(&store.problems()[..], [problem] if matches!(problem.kind, ProblemKind::BrokenRev(_))));
    }
}

#[test]
fn a_reverse_index_that_lies_is_not_believed() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 5);
        repo.git(["repack", "-adq"]);
        let path = repo.only_pack();
        let listed = repo.show_index(&path);
        let rev = path.with_extension("rev");
        let checksum = &fs::read(&path).unwrap()[fs::metadata(&path).unwrap().len() as usize - hash.len()..].to_vec();
        let n = listed.len() as u32;
        for order in [(0..n).collect::<Vec<_>>(), vec![0; n as usize], (0..n).rev().collect()] {
            fs::remove_file(&rev).ok();
            fs::write(&rev, testkit::pack::rev(hash, &order, checksum)).unwrap();
            let store = store(&repo);
            let packs = store.packs().unwrap();
            let order = packs[0].order().unwrap();
            for (rank, object) in (0..).zip(&listed) {
                assert_eq!(order.offset(pack_format::PackPos::new(rank)).get(), object.offset);
            }
        }
    }
}

#[test]
fn o10_offsets_through_the_64_bit_table() {
    let noise = testkit::repo::noise(200);
    let contents: [&[u8]; 4] = [&noise[..50], &noise[50..100], &noise[100..150], &noise[150..]];
    for hash in Hash::ALL {
        // Small offsets through the large table, as git writes them on request.
        for limit in ["2,0x40", "2,12", "2,0"] {
            let repo = TestRepo::bare(hash);
            let mut input = String::new();
            for content in contents {
                input += &format!("{}\n", repo.hash_object("blob", content));
            }
            let pack = repo.pack_objects(&[], &input);
            let path = repo.objects_dir().join("pack/pack-1.pack");
            fs::write(&path, pack).unwrap();
            repo.git(["index-pack", &format!("--index-version={limit}"), path.to_str().unwrap()]);
            let plain = open(&repo.objects_dir(), hash);
            assert_eq!(plain.problems(), [], "{limit}");
            let packs = plain.packs().unwrap();
            assert!(packs[0].idx().large_count() > 0, "{limit}");
            for content in contents {
                let name = id(&object_id(hash, "blob", content));
                assert!(matches!(plain.find(&name).unwrap(), Some(packstone_odb::Location::Packed { .. })));
                assert_eq!(read_all_ways(&plain, &name).unwrap().1, content);
            }
        }

        // Slots by hand: bad ones are errors for their own object.
        let mut builder = PackBuilder::new(hash);
        for content in contents {
            builder = builder.entry(Entry::full("blob", content));
        }
        let pack = builder.build();
        let ids: Vec<Vec<u8>> = contents.iter().map(|content| pack.id("blob", content)).collect();
        let end = pack.bytes.len() as u64;
        let true_offset = pack.entries[1].offset;
        for (what, slot, table) in [
            ("slot out of the table", 5, vec![true_offset]),
            ("2^63", 0, vec![1 << 63]),
            ("2^64 - 1", 0, vec![u64::MAX]),
            ("2^32 + the true offset", 0, vec![(1 << 32) + true_offset]),
            ("the trailer", 0, vec![end - hash.len() as u64]),
            ("the end", 0, vec![end]),
            ("the pack's header", 0, vec![11]),
        ] {
            let mut rows = pack.rows(&ids);
            rows[1].offset = 0x8000_0000 | slot;
            let idx = idx_v2(hash, &rows, &table, pack.checksum());
            for source in SOURCES {
                let repo = TestRepo::bare(hash);
                pack.write(&repo.objects_dir(), &idx);
                let store = Store::open(&repo.objects_dir(), options(hash).byte_source(source)).unwrap();
                for (number, content) in contents.iter().enumerate() {
                    let result = read_all_ways(&store, &id(&ids[number]));
                    if number == 1 {
                        assert!(result.unwrap_err().is_corrupt(), "{what}");
                    } else {
                        assert_eq!(result.unwrap().1, *content, "{what}");
                    }
                }
                assert!(store.packs().unwrap()[0].order().is_err(), "{what}");
            }
            // Another copy helps.
            let repo = TestRepo::bare(hash);
            pack.write(&repo.objects_dir(), &idx);
            let inflated = [format!("blob {}\0", contents[1].len()).as_bytes(), contents[1]].concat();
            write_loose(&repo.objects_dir(), &ids[1], &inflated);
            assert_eq!(read_all_ways(&store(&repo), &id(&ids[1])).unwrap().1, contents[1], "{what}");
        }
        let mut rows = pack.rows(&ids);
        rows[1].offset = 0x8000_0000;
        let repo = TestRepo::bare(hash);
        pack.write(&repo.objects_dir(), &idx_v2(hash, &rows, &[true_offset], pack.checksum()));
        assert_eq!(read_all_ways(&store(&repo), &id(&ids[1])).unwrap().1, contents[1]);
    }
}

#[test]
fn o12_offset_delta_distances() {
    let text = s64();
    let longer = [&text[..], b"!"].concat();
    let program = delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"!")]);
    for hash in Hash::ALL {
        let whole = PackBuilder::new(hash).entry(Entry::full("blob", &text));
        let at = whole.build().entries[0].end; // where the second entry begins
        let overflow = [&[0xff; 12][..], &[0x7f]].concat();
        for (what, entry) in [
            ("0", Entry::ofs(0, &program)),
            ("to the pack's first byte", Entry::ofs(at, &program)),
            ("into the pack's header", Entry::ofs(at - 4, &program)),
            ("before the pack", Entry::ofs(1 << 40, &program)),
            ("right modulo 2^32", Entry::ofs((1 << 32) + at - 12, &program)),
            ("into the middle of an entry", Entry::ofs(at - 12 - 3, &program)),
            ("beyond 64 bits", Entry::ofs_raw(&overflow, &program)),
        ] {
            let pack = whole.clone().entry(entry).build();
            let ids = [pack.id("blob", &text), pack.id("blob", &longer)];
            let repo = repo_with(&pack, &ids);
            corrupt_by_all_sources(&repo, &ids[1]);
            assert!(store(&repo).header(&id(&ids[1])).unwrap_err().is_corrupt(), "{what}");
            assert_eq!(read_all_ways(&store(&repo), &id(&ids[0])).unwrap().1, text);
        }
        let pack = whole.entry(Entry::ofs(at - 12, &program)).build();
        let ids = [pack.id("blob", &text), pack.id("blob", &longer)];
        assert_eq!(read_all_ways(&store(&repo_with(&pack, &ids)), &id(&ids[1])).unwrap().1, longer);
    }
}

#[test]
fn o12_a_base_inside_another_entry_is_refused_though_it_inflates() {
    // The first object is stored, and its content holds the bytes of a whole entry: only the list of entries can tell.
    for hash in Hash::ALL {
        let inner = PackBuilder::new(hash).entry(Entry::full("blob", &s64())).build();
        let inner = &inner.bytes[12..inner.bytes.len() - hash.len()];
        let outer = PackBuilder::new(hash).entry(Entry::full("blob", inner).level(0));
        let built = outer.build();
        let place = built.bytes.windows(inner.len()).position(|bytes| bytes == inner).unwrap() as u64;
        let program = delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"!")]);
        let pack = outer.entry(Entry::ofs(built.entries[0].end - place, &program)).build();
        let ids = [pack.id("blob", inner), pack.id("blob", &[&s64()[..], b"!"].concat())];
        let repo = repo_with(&pack, &ids);
        assert!(corrupt_by_all_sources(&repo, &ids[1]).contains("not an entry"));
    }
}

#[test]
fn o13_ref_delta_cycle() {
    let (x, y) = (b"x".repeat(64), b"y".repeat(64));
    for hash in Hash::ALL {
        let (name_x, name_y) = (object_id(hash, "blob", &x), object_id(hash, "blob", &y));
        let to_x = delta(64, 64, &[Op::Insert(&x)]);
        let to_y = delta(64, 64, &[Op::Insert(&y)]);
        let cycle =
            PackBuilder::new(hash).entry(Entry::reference(&name_y, &to_x)).entry(Entry::reference(&name_x, &to_y));
        let pack = cycle.build();
        let repo = repo_with(&pack, &[name_x.clone(), name_y.clone()]);
        for name in [&name_x, &name_y] {
            assert!(corrupt_by_all_sources(&repo, name).contains("cycle"));
            assert!(store(&repo).header(&id(name)).unwrap_err().is_corrupt());
        }

        // To itself.
        let pack = PackBuilder::new(hash).entry(Entry::reference(&name_x, &to_x)).build();
        let repo = repo_with(&pack, std::slice::from_ref(&name_x));
        assert!(corrupt_by_all_sources(&repo, &name_x).contains("cycle"));
        assert!(store(&repo).header(&id(&name_x)).unwrap_err().is_corrupt());

        // A chain that leads into a cycle it is no part of.
        let z = b"z".repeat(64);
        let name_z = object_id(hash, "blob", &z);
        let pack = cycle.clone().entry(Entry::reference(&name_x, &delta(64, 64, &[Op::Insert(&z)]))).build();
        let repo = repo_with(&pack, &[name_x.clone(), name_y.clone(), name_z.clone()]);
        assert!(corrupt_by_all_sources(&repo, &name_z).contains("cycle"));

        // With a copy of one of them stored whole in the same pack both can be read, whichever the index finds first.
        for full_first in [false, true] {
            let full = Entry::full("blob", &x);
            let (pack, ids) = if full_first {
                let builder = PackBuilder::new(hash).entry(full);
                let builder = builder.entry(Entry::reference(&name_y, &to_x)).entry(Entry::reference(&name_x, &to_y));
                (builder.build(), [name_x.clone(), name_x.clone(), name_y.clone()])
            } else {
                (cycle.clone().entry(full).build(), [name_x.clone(), name_y.clone(), name_x.clone()])
            };
            let repo = repo_with(&pack, &ids);
            for source in SOURCES {
                let store = Store::open(&repo.objects_dir(), options(hash).byte_source(source)).unwrap();
                assert_eq!(read_all_ways(&store, &id(&name_x)).unwrap().1, x);
                assert_eq!(read_all_ways(&store, &id(&name_y)).unwrap().1, y);
            }
        }
    }
}

#[test]
fn o13_ref_delta_base_in_another_pack_is_not_used() {
    let text = s64();
    let longer = [&text[..], b"!"].concat();
    for hash in Hash::ALL {
        let first = PackBuilder::new(hash).entry(Entry::full("blob", &text)).build();
        let program = delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"!")]);
        let second = PackBuilder::new(hash).entry(Entry::reference(&first.id("blob", &text), &program)).build();
        let (base, derived) = (first.id("blob", &text), first.id("blob", &longer));
        for loose_base in [false, true] {
            let repo = repo_with(&second, std::slice::from_ref(&derived));
            if loose_base {
                repo.hash_object("blob", &text);
            } else {
                first.write(&repo.objects_dir(), &first.idx(std::slice::from_ref(&base)));
            }
            assert!(corrupt_by_all_sources(&repo, &derived).contains(&hex(&base)));
            let store = store(&repo);
            assert!(store.header(&id(&derived)).unwrap_err().is_corrupt());
            assert!(store.contains(&id(&derived)).unwrap(), "there, if damaged: not missing");
            assert_eq!(read_all_ways(&store, &id(&base)).unwrap().1, text);
        }
    }
}

#[test]
fn o14_delta_rules() {
    let text = s64();
    let copy = Op::Copy(0, 64);
    let cases: &[(&str, Vec<u8>)] = &[
        ("reserved", unhex("400100")),
        ("wrong source size", delta(63, 64, &[copy])),
        ("copy beyond the base", delta(64, 64, &[Op::Copy(1, 64)])),
        ("result too short", delta(64, 10, &[copy])),
        ("result too long", delta(64, 65, &[copy])),
        ("cut copy", delta(64, 64, &[Op::Raw(&[0x91])])),
        ("cut insert", delta(64, 5, &[Op::Raw(b"\x05abc")])),
        ("cut insert behind a full result", delta(64, 64, &[copy, Op::Raw(&[5])])),
        ("more than the result", delta(64, 64, &[copy, Op::Insert(b"Z")])),
        ("offset with bit 31", delta(64, 4, &[Op::Raw(&[0x98, 0xff, 0x04])])),
        ("nothing, in two bytes", unhex("4000")),
        ("nothing, padded to four", unhex("c0008000")),
        ("one byte", unhex("40010141")),
        ("all of it", delta(64, 64, &[copy])),
        ("sizes of 70 bits", [&[0xff; 9][..], &[0x7f, 0x40, 0x90, 0x40]].concat()),
        ("source size right modulo 2^32", delta((1 << 32) + 64, 64, &[copy])),
        ("result size right modulo 2^32", delta(64, (1 << 32) + 64, &[copy])),
        ("length with all three bytes", delta(64, 64, &[Op::Raw(&[0xf0, 64, 0, 0])])),
        ("empty delta", vec![]),
    ];
    for hash in Hash::ALL {
        for (what, program) in cases {
            let want = apply(&text, program);
            let result = want.clone().unwrap_or_else(|| b"cannot be".to_vec());
            let pack =
                PackBuilder::new(hash).entry(Entry::full("blob", &text)).entry(Entry::ofs_to(0, program)).build();
            let ids = [pack.id("blob", &text), pack.id("blob", &result)];
            let repo = repo_with(&pack, &ids);
            match want {
                None => drop(corrupt_by_all_sources(&repo, &ids[1])),
                Some(want) => {
                    let store = store(&repo);
                    assert_eq!(read_all_ways(&store, &id(&ids[1])).unwrap(), (ObjectKind::Blob, want), "{what}");
                }
            }
            // The reader of git 2.47 stumbles over empty results; the one that receives packs is the oracle.
            let by_git = TestRepo::bare(hash).try_git(["index-pack", "--stdin"], &pack.bytes);
            assert_eq!(by_git.status.success(), apply(&text, program).is_some(), "the model differs from git: {what}");
        }

        // Length 0 means 65536.
        let base = vec![b'.'; 76800];
        let program = delta(76800, 65536, &[Op::Raw(&[0x80])]);
        let pack = PackBuilder::new(hash).entry(Entry::full("blob", &base)).entry(Entry::ofs_to(0, &program)).build();
        let ids = [pack.id("blob", &base), pack.id("blob", &base[..65536])];
        assert_eq!(read_all_ways(&store(&repo_with(&pack, &ids)), &id(&ids[1])).unwrap().1, &base[..65536]);
    }
}

#[test]
fn s1_a_tiny_pack_with_a_huge_result() {
    let base = vec![0; 65536];
    let hash = Hash::Sha1;
    let huge = |n: usize, claimed: u64| {
        let program = delta(65536, claimed, &[Op::Raw(&vec![0x80; n])]);
        let pack = PackBuilder::new(hash).entry(Entry::full("blob", &base)).entry(Entry::ofs_to(0, &program)).build();
        let ids = [pack.id("blob", &base), object_id(hash, "blob", &vec![0; n * 65536])];
        (repo_with(&pack, &ids), id(&ids[1]))
    };
    let (repo, name) = huge(512, 512 * 65536);
    assert_eq!(read_all_ways(&store(&repo), &name).unwrap().1.len(), 32 << 20);
    let limited = Store::open(&repo.objects_dir(), options(hash).max_object_size(Some(1 << 20))).unwrap();
    let error = limited.read(&name, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "an object of 33554432 bytes exceeds the limit of 1048576");
    // A claim that the instructions do not keep costs no memory.
    let (repo, name) = huge(4, 1 << 40);
    assert!(read_all_ways(&store(&repo), &name).unwrap_err().is_corrupt());
}

#[test]
fn f1_declared_sizes_that_are_lies() {
    for hash in Hash::ALL {
        let content = b"a".repeat(100);
        for size in [99, 101, (1 << 32) + 100, 1 << 40, u64::MAX, 0] {
            let pack = PackBuilder::new(hash).entry(Entry::full("blob", &content).size(size)).build();
            let ids = [pack.id("blob", &content)];
            let repo = repo_with(&pack, &ids);
            corrupt_by_all_sources(&repo, &ids[0]);
            if size > 1 << 20 {
                assert!(store(&repo).header(&id(&ids[0])).unwrap_err().is_corrupt(), "{size}");
            }
            let program = delta(100, 100, &[Op::Copy(0, 100)]);
            let delta = Entry::ofs_to(0, &program).size(size);
            let pack = PackBuilder::new(hash).entry(Entry::full("blob", &content)).entry(delta).build();
            let ids = [pack.id("blob", &content), pack.id("blob", b"other")];
            corrupt_by_all_sources(&repo_with(&pack, &ids), &ids[1]);
        }
    }
}

#[test]
fn entries_that_are_no_entries() {
    for hash in Hash::ALL {
        let text = s64();
        let mut long_size = Vec::new();
        push_size(&mut long_size, u64::MAX);
        for entry in [
            Entry::full("blob", &text).kind(0),
            Entry::full("blob", &text).kind(5),
            Entry::full("blob", &text).deflated(b""),
            Entry::full("blob", &text).deflated(b"x"),
            Entry::full("blob", &text).deflated(&testkit::pack::deflate(&text, 6)[..8]),
            Entry::full("blob", b"").deflated(b""),
            Entry::reference(&[7; 10], b"").deflated(b""),
        ] {
            let pack = PackBuilder::new(hash).entry(entry).build();
            let ids = [pack.id("blob", &text)];
            corrupt_by_all_sources(&repo_with(&pack, &ids), &ids[0]);
        }
    }
}

#[test]
fn a_type_that_no_delta_chain_ends_in() {
    // The chain ends in an entry of an invalid type: kinds come from the base.
    let hash = Hash::Sha256;
    let program = delta(64, 64, &[Op::Copy(0, 64)]);
    let pack =
        PackBuilder::new(hash).entry(Entry::full("blob", &s64()).kind(5)).entry(Entry::ofs_to(0, &program)).build();
    let ids = [pack.id("blob", b"1"), pack.id("blob", b"2")];
    let repo = repo_with(&pack, &ids);
    corrupt_by_all_sources(&repo, &ids[1]);
    assert!(store(&repo).header(&id(&ids[1])).unwrap_err().is_corrupt());
}

#[test]
fn an_index_with_ids_out_of_order_or_a_wild_fanout_does_not_panic() {
    let hash = Hash::Sha1;
    let contents: Vec<Vec<u8>> = (0..40).map(|n| format!("blob {n}").into_bytes()).collect();
    let mut builder = PackBuilder::new(hash);
    for content in &contents {
        builder = builder.entry(Entry::full("blob", content));
    }
    let pack = builder.build();
    let ids: Vec<Vec<u8>> = contents.iter().map(|content| pack.id("blob", content)).collect();
    let good = pack.idx(&ids);
    let attempt = |idx: &[u8]| {
        let repo = TestRepo::bare(hash);
        pack.write(&repo.objects_dir(), idx);
        let store = store(&repo);
        for name in &ids {
            let _ = store.read(&id(name), &mut Vec::new());
        }
        let _ = store.ids().unwrap().count();
        if let Some(pack) = store.packs().unwrap().first() {
            let _ = pack.order();
        }
    };
    for at in (8..good.len()).step_by(61) {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        testkit::pack::resign(hash, &mut bad);
        attempt(&bad);
    }
    for len in [0, 7, 8, 1031, 1032, good.len() - 1, good.len() - 40] {
        attempt(&good[..len]);
    }
    let rows: Vec<Row> = pack.rows(&ids).into_iter().map(|row| Row { offset: 12, ..row }).collect();
    attempt(&idx_v2(hash, &rows, &[], pack.checksum()));
}
