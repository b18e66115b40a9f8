//! Packs that git makes: the same files as `git index-pack`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use packstone_index_pack::{Destination, IndexVersion, Options, Receiver, index_file, verify};
use testkit::io::Ragged;
use testkit::{Hash, TestRepo};

use crate::support::{files, into, options, store};

/// Everything that git makes of a stream: names and contents.
fn by_git(repo: &TestRepo, args: &[&str], stream: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let fresh = TestRepo::bare(repo.hash());
    std::fs::write(
        fresh.objects_dir().join("info/alternates"),
        [repo.objects_dir().as_os_str().as_encoded_bytes(), b"\n"].concat(),
    )
    .unwrap();
    let mut all = vec!["-c", "pack.writeReverseIndex=true", "index-pack", "--stdin"];
    all.extend(args);
    fresh.git_with(all, stream);
    contents(&fresh.objects_dir().join("pack"))
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files(dir).iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}

fn assert_same(repo: &TestRepo, args: &[&str], stream: &[u8], options: Options) {
    let theirs = by_git(repo, args, stream);
    for (threads, memory) in [(1, 320 << 20), (2, 320 << 20), (3, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let options = options.clone().threads(threads).memory(memory);
        into(dir.path(), stream, options).unwrap();
        let ours = contents(dir.path());
        assert!(ours == theirs, "{threads} {memory}: {:?} {:?}", ours.keys(), theirs.keys());
    }
}

/// Packs of both kinds of deltas, and without; with and without what a version 1 index lacks.
#[test]
fn files_are_those_of_git() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        for args in [&["--all"][..], &["--all", "--delta-base-offset"], &["--all", "--no-reuse-delta", "--window=0"]] {
            let stream = repo.pack_objects(args, "");
            assert_same(&repo, &[], &stream, options(hash));
            assert_same(&repo, &["--index-version=1"], &stream, options(hash).index_version(IndexVersion::V1));
            assert_same(&repo, &["--index-version=2,0x40"], &stream, options(hash).offset_limit(0x40));
        }
        let mut third = repo.pack_objects(&["--all"], "");
        third[7] = 3;
        testkit::pack::resign(hash, &mut third);
        assert_same(&repo, &[], &third, options(hash));
        let marked = options(hash).keep(Some(b"mine\n".to_vec())).promisor(Some(b"theirs\n".to_vec()));
        assert_same(&repo, &["--keep=mine", "--promisor=theirs"], &third, marked);
    }
}

/// Every way to hand over a stream, and what follows it, gives the same.
#[test]
fn pieces_of_any_size() {
    let hash = Hash::Sha1;
    let repo = TestRepo::linear(hash, 60);
    let stream = repo.pack_objects(&["--all", "--delta-base-offset"], "");
    let more = [&stream[..], b"and more"].concat();
    let whole = tempfile::tempdir().unwrap();
    into(whole.path(), &stream, options(hash)).unwrap();
    let expected = contents(whole.path());
    for threads in [1, 2] {
        for size in [1, 7, 500, 4096, more.len()] {
            let dir = tempfile::tempdir().unwrap();
            let to = Destination::Directory(dir.path().into());
            let mut receiver = Receiver::new(to, options(hash).threads(threads)).unwrap();
            let mut taken = 0;
            for piece in more.chunks(size) {
                taken += receiver.feed(piece).unwrap();
            }
            assert_eq!(taken, stream.len());
            assert_eq!(receiver.consumed(), stream.len() as u64);
            assert_eq!(receiver.feed(b"x").unwrap(), 0);
            receiver.finish().unwrap();
            assert!(contents(dir.path()) == expected);
        }
        for seed in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            let to = Destination::Directory(dir.path().into());
            let mut receiver = Receiver::new(to, options(hash).threads(threads)).unwrap();
            // Behind the pack comes nothing more: whoever read on would wait for ever.
            let mut input = Ragged::new(&stream[..], seed, 3000).chain(Never);
            assert_eq!(receiver.read_from(&mut input).unwrap(), b"");
            receiver.finish().unwrap();
            assert!(contents(dir.path()) == expected);
        }
    }
}

struct Never;

impl Read for Never {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        panic!("read behind the end of the pack");
    }
}

/// Thin packs: the same objects, each base once.
#[test]
fn thin_packs_are_completed() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 40);
        for args in [&["--revs", "--thin"][..], &["--revs", "--thin", "--delta-base-offset"]] {
            let stream = repo.pack_objects(args, "main\n^main~10\n");
            let theirs: Vec<String> = repo.index_stream(&stream).into_iter().map(|object| object.id).collect();
            for threads in [1, 2] {
                let dir = tempfile::tempdir().unwrap();
                let completed = options(hash).store(Some(store(&repo))).fix_thin(true).threads(threads);
                let outcome = into(dir.path(), &stream, completed).unwrap();
                assert!(outcome.counts.appended > 0);
                let ours: Vec<String> = repo.show_index(&outcome.pack).into_iter().map(|object| object.id).collect();
                assert_eq!(ours, theirs);
                repo.git([std::ffi::OsStr::new("verify-pack"), outcome.pack.as_os_str()]);
                let again = verify(&outcome.pack, None, options(hash)).unwrap();
                assert_eq!(again.checksum(), outcome.checksum);
                let without = options(hash).store(Some(store(&repo))).threads(threads);
                let empty = tempfile::tempdir().unwrap();
                into(empty.path(), &stream, without).unwrap_err();
                assert!(files(empty.path()).is_empty());
            }
        }
    }
}

/// A pack in a file, indexed and verified; the list of objects is that of `git verify-pack -v`.
#[test]
fn files_in_place() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.repack();
        let pack = repo.only_pack();
        let dir = tempfile::tempdir().unwrap();
        let (copy, idx) = (dir.path().join("copy.pack"), dir.path().join("other.idx"));
        std::fs::copy(&pack, &copy).unwrap();
        for threads in [1, 2] {
            let outcome = index_file(&copy, Some(&idx), options(hash).threads(threads)).unwrap();
            assert_eq!((&outcome.pack, &outcome.idx), (&copy, &idx));
            assert!(std::fs::read(&idx).unwrap() == std::fs::read(pack.with_extension("idx")).unwrap());
            let rev = dir.path().join("other.rev");
            assert!(std::fs::read(rev).unwrap() == std::fs::read(pack.with_extension("rev")).unwrap());
            let verified = verify(&copy, Some(&idx), options(hash).threads(threads)).unwrap();
            let ours: Vec<_> = verified
                .objects()
                .map(|o| {
                    let base = o.base.map(|base| (o.depth, base.to_string()));
                    (o.id.to_string(), o.kind.name().to_owned(), o.size, o.packed, o.at.get(), base)
                })
                .collect();
            let theirs: Vec<_> = repo
                .verify_pack(&pack)
                .into_iter()
                .map(|o| (o.id, o.kind, o.size, o.packed, o.offset, o.base.map(|base| (o.depth, base))))
                .collect();
            assert_eq!(ours, theirs);
            assert_eq!(verified.histogram().iter().sum::<u32>() as usize, theirs.len());
        }
        index_file(&copy, Some(&idx), options(hash).index_version(IndexVersion::V1)).unwrap();
        verify(&copy, Some(&idx), options(hash)).unwrap();
        index_file(&copy, Some(&idx), options(hash).offset_limit(300)).unwrap();
        verify(&copy, Some(&idx), options(hash)).unwrap();
        let mut bytes = std::fs::read(&idx).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        testkit::pack::resign(hash, &mut bytes);
        std::fs::remove_file(&idx).unwrap();
        std::fs::write(&idx, bytes).unwrap();
        verify(&copy, Some(&idx), options(hash)).unwrap_err();
    }
}
