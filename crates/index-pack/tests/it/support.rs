//! What the tests share.

use std::path::{Path, PathBuf};

use object::HashKind;
use packstone_index_pack::{Destination, Options, Outcome, ReceiveError, receive};
use testkit::{Hash, TestRepo};

pub(crate) fn kind(hash: Hash) -> HashKind {
    match hash {
        Hash::Sha1 => HashKind::Sha1,
        Hash::Sha256 => HashKind::Sha256,
    }
}

pub(crate) fn options(hash: Hash) -> Options {
    let publish = hashfile::publish::Options::default().fsync(hashfile::publish::Fsync::None);
    Options::new(kind(hash)).publish(publish)
}

pub(crate) fn store(repo: &TestRepo) -> odb::Store {
    odb::Store::open(&repo.objects_dir(), odb::Options::new(kind(repo.hash()))).unwrap()
}

/// Receives into a directory.
pub(crate) fn into(dir: &Path, stream: &[u8], options: Options) -> Result<Outcome, ReceiveError> {
    receive(&mut &stream[..], Destination::Directory(dir.into()), options)
}

/// All files of a directory, sorted.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
