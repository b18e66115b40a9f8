//! What the fuzz targets do with their input; `tests/it/regressions.rs` does it with stored inputs.

use std::path::Path;

use hashfile::publish::{self, Fsync};
use object::{HashKind, ObjectId};
use packstone_index_pack::{Destination, Options, Outcome, ReceiveError, Receiver, index_file, verify};
use testkit::pack::{Entry, PackBuilder, apply, checksum, object_id};
use testkit::{Hash, TestRepo};

fn kind(hash: Hash) -> HashKind {
    match hash {
        Hash::Sha1 => HashKind::Sha1,
        Hash::Sha256 => HashKind::Sha256,
    }
}

/// Limits, since a few bytes can honestly stand for gigabytes.
fn options(hash: Hash) -> Options {
    let publish = publish::Options::default().fsync(Fsync::None);
    Options::new(kind(hash)).publish(publish).max_object_size(Some(1 << 20))
}

fn receive(dir: &Path, stream: &[u8], piece: usize, options: Options) -> Result<Outcome, ReceiveError> {
    let mut receiver = Receiver::new(Destination::Directory(dir.into()), options)?;
    for piece in stream.chunks(piece) {
        receiver.feed(piece)?;
    }
    receiver.finish()
}

/// Receives a stream in several ways, which must agree; and what was received must be sound to everybody who reads it.
fn in_every_way(hash: Hash, stream: &[u8]) -> bool {
    let mut first: Option<Option<ObjectId>> = None;
    for (threads, memory, piece) in [(1, 64 << 20, usize::MAX), (2, 64 << 20, 64), (1, 0, 3)] {
        let dir = tempfile::tempdir().unwrap();
        let objects = dir.path().join("pack");
        std::fs::create_dir(&objects).unwrap();
        let limits = options(hash).threads(threads).memory(memory);
        let result = receive(&objects, stream, piece, limits.clone());
        let checksum = result.as_ref().ok().map(|outcome| outcome.checksum);
        match first {
            None => first = Some(checksum),
            Some(first) => assert_eq!(first, checksum, "ways disagree: {result:?}"),
        }
        let left = std::fs::read_dir(&objects).unwrap().count();
        let Ok(outcome) = result else {
            assert_eq!(left, 0, "something is left behind");
            continue;
        };
        assert_eq!(left, 3);
        let verified = verify(&outcome.pack, None, limits.clone()).unwrap();
        assert_eq!(verified.objects().len() as u32, outcome.counts.objects);
        let again = index_file(&outcome.pack, Some(&dir.path().join("again.idx")), limits).unwrap();
        assert!(std::fs::read(&again.idx).unwrap() == std::fs::read(&outcome.idx).unwrap());
        let store = odb::Store::open(dir.path(), odb::Options::new(kind(hash)).verify_on_read(true)).unwrap();
        for object in verified.objects() {
            store.read(&object.id, &mut Vec::new()).unwrap();
        }
    }
    first.flatten().is_some()
}

/// The input is a byte of hash kind (its highest bit) and number of entries, then entries. Head and trailer are made to
/// fit.
pub(crate) fn stream(data: &[u8]) -> Option<(Hash, Vec<u8>)> {
    let (&first, entries) = data.split_first()?;
    let hash = if first & 0x80 == 0 { Hash::Sha1 } else { Hash::Sha256 };
    let mut pack = b"PACK\0\0\0\x02\0\0\0".to_vec();
    pack.push(first & 0x7f);
    pack.extend_from_slice(entries);
    let trailer = checksum(hash, &pack);
    pack.extend_from_slice(&trailer);
    Some((hash, pack))
}

/// A whole stream.
pub(crate) fn receive_stream(data: &[u8]) {
    if let Some((hash, stream)) = stream(data) {
        in_every_way(hash, &stream);
    }
}

/// The input is a byte of length, a base of so many bytes, and a delta: accepted if a naive reader accepts it, and with
/// its result.
pub(crate) fn apply_delta(data: &[u8]) {
    let Some((&len, rest)) = data.split_first() else { return };
    let (base, delta) = rest.split_at(usize::from(len).min(rest.len()));
    let expected = apply(base, delta).filter(|result| result.len() <= 1 << 20);
    for hash in Hash::ALL {
        let pack = PackBuilder::new(hash).entry(Entry::full("blob", base)).entry(Entry::ofs_to(0, delta)).build();
        assert_eq!(in_every_way(hash, &pack.bytes), expected.is_some());
        if let Some(expected) = &expected {
            let dir = tempfile::tempdir().unwrap();
            let outcome = receive(dir.path(), &pack.bytes, 100, options(hash)).unwrap();
            let ids = [object_id(hash, "blob", base), object_id(hash, "blob", expected)];
            assert!(std::fs::read(outcome.idx).unwrap() == pack.idx(&ids));
        }
    }
}

/// As [`receive_stream`], beside `git index-pack`: it must take what we take, and refuse what we refuse. Slow, a process
/// each time.
pub(crate) fn diff_git(data: &[u8]) {
    let Some((hash, stream)) = stream(data) else { return };
    let dir = tempfile::tempdir().unwrap();
    let ours = receive(dir.path(), &stream, 1000, options(hash).max_object_size(None));
    let repo = TestRepo::bare(hash);
    let theirs = repo.try_git(["index-pack", "--stdin"], &stream);
    let known = match &ours {
        // git 2.47 says of a delta that has two bases of one name that it was resolved already.
        Ok(_) => String::from_utf8_lossy(&theirs.stderr).contains("duplicate base"),
        Err(_) => false,
    };
    assert!(known || ours.is_ok() == theirs.status.success(), "{ours:?}, git: {theirs:?}");
}
