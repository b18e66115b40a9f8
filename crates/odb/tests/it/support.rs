//! What the tests share.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use object::{HashKind, ObjectId, ObjectKind};
use packstone_odb::{ByteSource, Options, ReadError, Store};
use testkit::{Hash, TestRepo};

pub(crate) const SOURCES: [ByteSource; 3] = [ByteSource::Mmap, ByteSource::Pread, ByteSource::Heap];

pub(crate) fn kind(hash: Hash) -> HashKind {
    match hash {
        Hash::Sha1 => HashKind::Sha1,
        Hash::Sha256 => HashKind::Sha256,
    }
}

pub(crate) fn options(hash: Hash) -> Options {
    Options::new(kind(hash))
}

pub(crate) fn open(objects: &Path, hash: Hash) -> Store {
    Store::open(objects, options(hash)).unwrap()
}

pub(crate) fn store(repo: &TestRepo) -> Store {
    open(&repo.objects_dir(), repo.hash())
}

pub(crate) fn id(bytes: &[u8]) -> ObjectId {
    ObjectId::from_bytes(bytes).unwrap()
}

pub(crate) fn hex(text: &str) -> ObjectId {
    ObjectId::from_hex(text.as_bytes()).unwrap()
}

/// Reads whole, as a stream and by header; the three must agree. What the whole read gave.
pub(crate) fn read_all_ways(store: &Store, id: &ObjectId) -> Result<(ObjectKind, Vec<u8>), ReadError> {
    let mut out = b"left over from before".to_vec();
    let result = store.read(id, &mut out);
    let mut streamed = Vec::new();
    let stream = store.stream(id).map_err(|_| ()).and_then(|mut stream| {
        let header = stream.header();
        stream.read_to_end(&mut streamed).map_err(|_| ())?;
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "a stream that ended goes on ending");
        Ok(header)
    });
    match &result {
        Ok(kind) => {
            let header = store.header(id).unwrap();
            assert_eq!((header.kind, header.size), (*kind, out.len() as u64), "{id}");
            assert_eq!(stream, Ok(header), "{id}");
            assert!(streamed == out, "{id} differs when streamed");
            assert!(store.contains(id).unwrap());
        }
        Err(_) => assert!(stream.is_err(), "{id} cannot be read whole, but streamed"),
    }
    result.map(|kind| (kind, out))
}

/// Every object of a repository, as `git cat-file --batch` gives them.
pub(crate) fn objects_by_git(repo: &TestRepo) -> BTreeMap<ObjectId, (ObjectKind, Vec<u8>)> {
    let output = repo.git(["cat-file", "--batch", "--batch-all-objects", "--buffer"]);
    let mut objects = BTreeMap::new();
    let mut rest = &output[..];
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap();
        let line = std::str::from_utf8(&rest[..end]).unwrap();
        let mut words = line.split(' ');
        let id = hex(words.next().unwrap());
        let kind = ObjectKind::from_name(words.next().unwrap().as_bytes()).unwrap();
        let size: usize = words.next().unwrap().parse().unwrap();
        rest = &rest[end + 1..];
        objects.insert(id, (kind, rest[..size].to_vec()));
        assert_eq!(rest[size], b'\n');
        rest = &rest[size + 1..];
    }
    objects
}

/// Reads every object in every way and compares with git.
pub(crate) fn assert_reads_as_git(repo: &TestRepo, store: &Store) {
    let objects = objects_by_git(repo);
    assert!(!objects.is_empty());
    for (id, (kind, content)) in &objects {
        let (found, out) = read_all_ways(store, id).unwrap();
        assert_eq!(found, *kind, "{id}");
        assert!(out == *content, "{id} has other content than git says");
    }
    let ids: Vec<ObjectId> = store.ids().unwrap().collect();
    assert_eq!(ids, objects.keys().copied().collect::<Vec<_>>());
}
