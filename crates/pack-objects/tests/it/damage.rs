//! Damage in what is packed, and outputs that fail.

use std::fs;
use std::path::Path;

use odb::{ByteSource, Options, Quiet, Store};
use packstone_pack_objects::{
    PackError, Plain, Request, SelectOptions, Selection, VerifyReuse, WriteOptions, write_stream, write_to_disk,
};
use testkit::io::{FailAfter, Ragged, Rng};
use testkit::pack::{self, Entry, Op, PackBuilder, delta, hex, object_id};
use testkit::repo::{Hash, TestRepo};

use crate::support::{Ask, commits, id, kind, store};

fn select(repo: &TestRepo, ids: &[Vec<u8>]) -> Selection {
    let store = store(repo);
    let ids: Vec<_> = ids.iter().map(|bytes| id(&hex(bytes))).collect();
    Selection::of_list(&store, &ids, &[], &SelectOptions::default(), &Quiet).expect("select")
}

fn stream(selection: &Selection) -> Result<Vec<u8>, PackError> {
    let mut pack = Vec::new();
    write_stream(selection, &WriteOptions::default().delta_base_offset(true), Plain(&mut pack), &Quiet)?;
    Ok(pack)
}

/// The blobs that a pack stream gives a receiver who has nothing.
fn received(hash: Hash, pack: &[u8], id: &[u8]) -> Vec<u8> {
    let receiver = TestRepo::bare(hash);
    receiver.git_with(["index-pack", "--stdin", "--strict"], pack);
    receiver.read(&hex(id))
}

/// Two unrelated blobs, the first of them damaged in its pack by one flipped byte.
fn flipped(hash: Hash) -> (TestRepo, Vec<Vec<u8>>, Vec<u8>) {
    let repo = TestRepo::bare(hash);
    let content = Rng::new(5).bytes(300);
    let mut built =
        PackBuilder::new(hash).entry(Entry::full("blob", &content)).entry(Entry::full("blob", b"other")).build();
    let ids = vec![object_id(hash, "blob", &content), object_id(hash, "blob", b"other")];
    let idx = built.idx(&ids);
    built.bytes[built.entries[0].data as usize + 100] ^= 0x55;
    built.write(&repo.objects_dir(), &idx);
    (repo, ids, content)
}

#[test]
fn k2_a_flipped_byte_is_not_sent_if_there_is_a_good_copy() {
    for hash in Hash::ALL {
        let (repo, ids, content) = flipped(hash);
        let mut loose = format!("blob {}\0", content.len()).into_bytes();
        loose.extend(&content);
        pack::write_loose(&repo.objects_dir(), &ids[0], &loose);
        // One by one, as a run, and to disk.
        for wanted in [&ids[..1], &ids[..]] {
            let selection = select(&repo, wanted);
            if wanted.len() == 1 {
                assert_eq!(received(hash, &stream(&selection).expect("write"), &ids[0]), content);
            }
            let base = repo.scratch().join("out");
            let options = WriteOptions::default().verify_reuse(VerifyReuse::All);
            match write_to_disk(&selection, &options, &base, &Quiet) {
                Ok(outcome) => assert_eq!(outcome.pack_reused + outcome.reused + 1, outcome.count),
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

#[test]
fn k2_a_flipped_byte_without_a_good_copy_ends_the_work() {
    for hash in Hash::ALL {
        let (repo, ids, _) = flipped(hash);
        let error = stream(&select(&repo, &ids[..1])).expect_err("damaged");
        assert!(matches!(error, PackError::Object { .. }), "{error:?}");
        let base = repo.scratch().join("out");
        for wanted in [&ids[..1], &ids[..]] {
            write_to_disk(&select(&repo, wanted), &WriteOptions::default(), &base, &Quiet).expect_err("damaged");
        }
        // A whole pack is looked at when that is asked for.
        let options = WriteOptions::default().delta_base_offset(true).verify_reuse(VerifyReuse::All);
        let mut out = Vec::new();
        let error = write_stream(&select(&repo, &ids), &options, Plain(&mut out), &Quiet).expect_err("damaged");
        assert!(!matches!(error, PackError::Output(_)), "{error:?}");
        assert!(fs::read_dir(repo.scratch()).expect("list").next().is_none(), "something was left behind");
    }
}

/// A delta whose base reference was changed to another base of the same size: it inflates, and to a wrong object.
fn rebound(hash: Hash) -> (TestRepo, Vec<Vec<u8>>) {
    let (a, b) = ([b'A'; 64], [b'B'; 64]);
    let target = [&a[..], b"!"].concat();
    let program = delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"!")]);
    let build = |base: usize| {
        PackBuilder::new(hash)
            .entry(Entry::full("blob", &a))
            .entry(Entry::full("blob", &b))
            .entry(Entry::ofs_to(base, &program))
            .entry(Entry::full("blob", b"more"))
            .build()
    };
    let ids: Vec<_> = [&a[..], &b[..], &target[..], b"more"].iter().map(|c| object_id(hash, "blob", c)).collect();
    let (right, wrong) = (build(0), build(1));
    assert_eq!(right.bytes.len(), wrong.bytes.len(), "the distances must take as many bytes");
    // The index with the CRCs of the right pack and the trailer of the wrong one.
    let idx = pack::idx_v2(hash, &right.rows(&ids), &[], wrong.checksum());
    let repo = TestRepo::bare(hash);
    wrong.write(&repo.objects_dir(), &idx);
    (repo, ids)
}

#[test]
fn k2_a_delta_bound_to_another_base_is_not_sent() {
    for hash in Hash::ALL {
        let (repo, ids) = rebound(hash);
        for wanted in [&ids[..3], &ids[2..3]] {
            let error = stream(&select(&repo, wanted)).expect_err("damaged");
            assert!(matches!(error, PackError::Object { .. }), "{error:?}");
        }
        // The others are fine.
        stream(&select(&repo, &ids[..2])).expect("undamaged");
    }
}

#[test]
fn k2_a_wrong_crc_alone_ends_the_work() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let built =
            PackBuilder::new(hash).entry(Entry::full("blob", b"one")).entry(Entry::full("blob", b"two")).build();
        let ids = vec![object_id(hash, "blob", b"one"), object_id(hash, "blob", b"two")];
        let mut rows = built.rows(&ids);
        rows[0].crc ^= 1;
        built.write(&repo.objects_dir(), &pack::idx_v2(hash, &rows, &[], built.checksum()));
        stream(&select(&repo, &ids[..1])).expect_err("the copy is not to be trusted");
        stream(&select(&repo, &ids[1..])).expect("the other is fine");
    }
}

#[test]
fn o8_a_base_that_is_damaged_and_also_loose_is_taken_from_there() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let base = Rng::new(9).bytes(300);
        let target = [&base[..], b"more"].concat();
        let program = delta(300, 304, &[Op::Copy(0, 300), Op::Insert(b"more")]);
        let mut built =
            PackBuilder::new(hash).entry(Entry::full("blob", &base)).entry(Entry::ofs_to(0, &program)).build();
        let ids = vec![object_id(hash, "blob", &base), object_id(hash, "blob", &target)];
        let idx = built.idx(&ids);
        built.bytes[built.entries[0].data as usize + 60] ^= 1;
        built.write(&repo.objects_dir(), &idx);
        let mut loose = format!("blob {}\0", base.len()).into_bytes();
        loose.extend(&base);
        pack::write_loose(&repo.objects_dir(), &ids[0], &loose);
        // The base is not sent, so its delta has to be written whole.
        assert_eq!(received(hash, &stream(&select(&repo, &ids[1..])).expect("write"), &ids[1]), target);
    }
}

#[test]
fn k1_deltas_of_two_packs_that_would_make_a_cycle() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let x = Rng::new(3).bytes(201);
        let mut y = x.clone();
        y[200] ^= 0xff;
        let make = |base: &[u8], target: &[u8]| {
            let program = delta(201, 201, &[Op::Copy(0, 200), Op::Insert(&target[200..])]);
            let built =
                PackBuilder::new(hash).entry(Entry::full("blob", base)).entry(Entry::ofs_to(0, &program)).build();
            let ids = vec![object_id(hash, "blob", base), object_id(hash, "blob", target)];
            let idx = built.idx(&ids);
            built.write(&repo.objects_dir(), &idx);
            ids
        };
        make(&x, &y);
        let ids = make(&y, &x);
        let pack = stream(&select(&repo, &ids)).expect("write");
        for (id, content) in [(&ids[0], &y), (&ids[1], &x)] {
            assert_eq!(&received(hash, &pack, id), content);
        }
    }
}

#[test]
fn o13_a_cycle_in_a_stored_pack_is_an_error_not_a_loop() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let ids = vec![object_id(hash, "blob", b"x"), object_id(hash, "blob", b"y")];
        let program = delta(64, 64, &[Op::Copy(0, 63), Op::Insert(b"x")]);
        let built = PackBuilder::new(hash)
            .entry(Entry::reference(&ids[1], &program))
            .entry(Entry::reference(&ids[0], &program))
            .entry(Entry::full("blob", b"z"))
            .build();
        let mut all = ids.clone();
        all.push(object_id(hash, "blob", b"z"));
        let idx = built.idx(&all);
        built.write(&repo.objects_dir(), &idx);
        stream(&select(&repo, &ids)).expect_err("no such objects");
    }
}

#[test]
fn completed_thin_packs_keep_their_deltas() {
    for hash in Hash::ALL {
        // As index-pack completes them: the base behind what is made from it.
        let repo = TestRepo::bare(hash);
        let base = Rng::new(4).bytes(500);
        let target = [&base[..], b"thin"].concat();
        let base_id = object_id(hash, "blob", &base);
        let program = delta(500, 504, &[Op::Copy(0, 500), Op::Insert(b"thin")]);
        let built = PackBuilder::new(hash)
            .entry(Entry::reference(&base_id, &program))
            .entry(Entry::full("blob", b"gap"))
            .entry(Entry::full("blob", &base))
            .build();
        let ids = vec![object_id(hash, "blob", &target), object_id(hash, "blob", b"gap"), base_id];
        let idx = built.idx(&ids);
        built.write(&repo.objects_dir(), &idx);
        let selection = select(&repo, &[ids[0].clone(), ids[2].clone()]);
        let mut pack = Vec::new();
        let outcome = write_stream(&selection, &WriteOptions::default(), Plain(&mut pack), &Quiet).expect("write");
        assert_eq!(outcome.deltas, 1);
        assert_eq!(received(hash, &pack, &ids[0]), target);
    }
}

#[test]
fn b1_the_bitmap_of_another_pack_is_a_warning_and_a_walk() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 4);
        repo.repack_with_bitmap();
        let old = fs::read(repo.only_pack().with_extension("bitmap")).expect("read");
        let tree = repo.rev_parse("main~1^{tree}");
        let commit = repo.git_str(["commit-tree", "-p", "main", "-m", "later", &tree]);
        repo.git(["update-ref", "refs/heads/main", &commit]);
        repo.repack();
        fs::write(repo.only_pack().with_extension("bitmap"), old).expect("write");
        let ask = Ask { wants: vec![commit], offsets: true, bitmaps: true, sparse: true, ..Ask::default() };
        let selection = ask.select(&repo);
        assert!(selection.bitmap.is_none());
        assert_eq!(selection.warnings.len(), 1, "{:?}", selection.warnings);
        assert_eq!(crate::support::ids(&selection), repo.rev_list_objects(&["main"]));
    }
}

/// A pack that lists an object twice: bit and position are not the same thing any more.
#[test]
fn b4_the_same_object_twice_in_a_pack() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let blob = |n: u8| [b"content ".as_slice(), &[n; 40]].concat();
        let contents: Vec<_> = [1, 2, 1, 3].map(blob).to_vec();
        let mut pack = PackBuilder::new(hash);
        for content in &contents {
            pack = pack.entry(Entry::full("blob", content));
        }
        let built = pack.build();
        let ids: Vec<_> = contents.iter().map(|content| object_id(hash, "blob", content)).collect();
        let idx = built.idx(&ids);
        built.write(&repo.objects_dir(), &idx);
        let selection = select(&repo, &ids);
        assert_eq!(selection.objects.count(), 3);
        let pack = stream(&selection).expect("write");
        assert_eq!(repo.ids_of_stream(&pack).len(), 3);
        for (id, content) in ids.iter().zip(&contents) {
            assert_eq!(&received(hash, &pack, id), content);
        }
        let base = repo.scratch().join("out");
        let outcome = write_to_disk(&selection, &WriteOptions::default(), &base, &Quiet).expect("write");
        repo.verify_pack(&repo.scratch().join(format!("out-{}.pack", outcome.checksum)));
    }
}

/// Every cut of the output: an error, and nothing that looks like a pack.
#[test]
fn h2_an_output_that_fails_is_an_error() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 3);
        repo.repack();
        let ask = Ask { wants: vec![repo.rev_parse("main~1")], offsets: true, sparse: true, ..Ask::default() };
        let (whole, ..) = ask.pack(&repo);
        let selection = ask.select(&repo);
        for left in 0..whole.len() as u64 {
            let mut out = Vec::new();
            let failing = Plain(FailAfter::new(&mut out, left));
            write_stream(&selection, &ask.write_options(), failing, &Quiet).expect_err("the output fails");
            assert!(out.len() < whole.len());
        }
        let mut out = Vec::new();
        write_stream(&selection, &ask.write_options(), Plain(Ragged::new(&mut out, 1, 7)), &Quiet).expect("write");
        assert!(out == whole, "short writes change the bytes");
        #[cfg(target_os = "linux")]
        for wants in ["main", "main~1"] {
            let ask = Ask { wants: vec![repo.rev_parse(wants)], ..ask.clone() };
            let full = fs::File::options().write(true).open("/dev/full").expect("open");
            let error = write_stream(&ask.select(&repo), &ask.write_options(), full, &Quiet).expect_err("full");
            assert!(!error.is_broken_pipe());
        }
    }
}

#[test]
fn a_reader_that_leaves_is_told_apart() {
    let repo = TestRepo::linear(Hash::Sha1, 3);
    repo.repack();
    for wants in ["main", "main~1"] {
        let ask = Ask { wants: vec![repo.rev_parse(wants)], offsets: true, sparse: true, ..Ask::default() };
        let selection = ask.select(&repo);
        // A program that another test is about to start may hold the reading end for a moment: then once more.
        let error = (0..1000).find_map(|_| {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let writer = fs::File::from(std::os::fd::OwnedFd::from(writer));
            write_stream(&selection, &ask.write_options(), writer, &Quiet).err()
        });
        let error = error.expect("no reader");
        assert!(error.is_broken_pipe(), "{error:?}");
    }
}

/// The same bytes to a file, a pipe and memory, from mapped and from read packs.
#[test]
fn every_way_out_and_in_gives_the_same_bytes() {
    use std::io::Read;
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.repack();
        for wants in ["main", "main~4"] {
            let ask = Ask { wants: vec![repo.rev_parse(wants)], offsets: true, sparse: true, ..Ask::default() };
            let (expected, ..) = ask.pack(&repo);
            let path = repo.scratch().join("out");
            let file = fs::File::create(&path).expect("create");
            write_stream(&ask.select(&repo), &ask.write_options(), file, &Quiet).expect("write");
            assert!(fs::read(&path).expect("read") == expected, "to a file");
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            let drained = std::thread::spawn(move || {
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes).map(|_| bytes)
            });
            let writer = fs::File::from(std::os::fd::OwnedFd::from(writer));
            write_stream(&ask.select(&repo), &ask.write_options(), writer, &Quiet).expect("write");
            assert!(drained.join().expect("join").expect("read") == expected, "to a pipe");
            for source in [ByteSource::Mmap, ByteSource::Pread, ByteSource::Heap] {
                assert!(from(&repo, source, &ask) == expected, "{source:?}");
            }
        }
    }
}

fn from(repo: &TestRepo, source: ByteSource, ask: &Ask) -> Vec<u8> {
    let options = Options::new(kind(repo.hash())).byte_source(source);
    let store = Store::open(Path::new(&repo.objects_dir()), options).expect("open");
    let commits = commits(repo, &store, revwalk::Shallow::none());
    let wants: Vec<_> = ask.wants.iter().map(|hex| id(hex)).collect();
    let request = Request { wants: &wants, haves: &[], filter: None, tags: &[] };
    let selection =
        Selection::of_request(&store, &commits, request, &SelectOptions::default(), &Quiet).expect("select");
    let mut pack = Vec::new();
    write_stream(&selection, &ask.write_options(), Plain(&mut pack), &Quiet).expect("write");
    pack
}
