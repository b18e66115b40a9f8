//! Saving an index on a disk that fails, stops, or loses power: it is the old one or the new one, whole, with its shared
//! index.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use hashfile::lock::{self, LockFile};
use hashfile::publish::{self, Fsync};
use packstone_index::file::{IndexFile, SaveOptions, save};
use packstone_index::source::ByteSource;
use packstone_index::{AddOptions, Bump, Index, Mode, NewEntry, ReadOptions};
use testkit::disk::{Disk, Fault};
use testkit::repo::run;
use testkit::{Hash, TestRepo};

use crate::objects::kind;
use crate::seam;

/// The way to save: in one file or split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Whole,
    Split,
    SplitAnew,
}

const WAYS: [Way; 3] = [Way::Whole, Way::Split, Way::SplitAnew];

/// A repository with an index of two entries, split for the ways that need it.
fn before(hash: Hash, way: Way) -> (TestRepo, Arc<Disk>) {
    let repo = TestRepo::init(hash);
    repo.write("a", b"a");
    repo.write("b", b"b");
    repo.git(["add", "a", "b"]);
    if way != Way::Whole {
        repo.git(["update-index", "--split-index"]);
    }
    let disk = Arc::new(Disk::new(repo.git_dir()));
    (repo, disk)
}

/// Adds an entry and saves.
fn add(repo: &TestRepo, disk: &Arc<Disk>, way: Way, fsync: Fsync) -> Result<(), Box<dyn std::error::Error>> {
    let path = repo.git_dir().join("index");
    let (arena, file) = (Bump::new(), IndexFile::open(&path, ByteSource::Heap)?.ok_or("no index")?);
    let mut index = file.read(&arena, &ReadOptions::new(kind(repo)))?;
    let fs = seam::on(disk);
    let lock = LockFile::acquire(&path, &lock::Options::default().fsync(fsync).fs(fs.clone()))?;
    index.add(&NewEntry::new(b"c", Mode(0o100_644), kind(repo).empty_blob()), &AddOptions::default().add(true))?;
    let percent = if way == Way::SplitAnew { 0 } else { 100 };
    let options = SaveOptions::default()
        .publish(publish::Options::default().fsync(fsync).fs(fs))
        .max_percent_change(percent)
        .expire_before(Some(SystemTime::UNIX_EPOCH));
    save(&mut index, lock, &options)?;
    Ok(())
}

/// The number of entries, the index being whole: 2 or 3.
fn entries(repo: &TestRepo, git_dir: &Path, context: &str) -> usize {
    let file = IndexFile::open(&git_dir.join("index"), ByteSource::Heap).unwrap().expect("an index");
    let arena = Bump::new();
    let index: Index<'_> =
        file.read(&arena, &ReadOptions::new(kind(repo))).unwrap_or_else(|error| panic!("{context}: {error}"));
    index.len()
}

#[test]
fn each_change_may_fail_or_be_the_last() {
    for (hash, way) in Hash::ALL.into_iter().flat_map(|hash| WAYS.map(|way| (hash, way))) {
        let (repo, disk) = before(hash, way);
        add(&repo, &disk, way, Fsync::Full).unwrap();
        assert_eq!(entries(&repo, repo.git_dir(), ""), 3);
        for at in 0..disk.count() {
            for fault in [Fault::Fail(at, io::ErrorKind::StorageFull), Fault::Stop(at)] {
                let (repo, disk) = before(hash, way);
                disk.set_fault(fault);
                let result = add(&repo, &disk, way, Fsync::Full);
                let context = format!("{way:?}, {fault:?}");
                let count = entries(&repo, repo.git_dir(), &context);
                assert!(count == 3 || (count == 2 && result.is_err()), "{context}: {count}");
                let _ = fs::remove_file(repo.git_dir().join("index.lock"));
                disk.set_fault(Fault::None);
                if count == 2 {
                    add(&repo, &disk, way, Fsync::Full).unwrap();
                }
                assert_eq!(entries(&repo, repo.git_dir(), &context), 3);
            }
        }
    }
}

#[test]
fn what_a_power_cut_leaves() {
    for (hash, way) in Hash::ALL.into_iter().flat_map(|hash| WAYS.map(|way| (hash, way))) {
        let (repo, disk) = before(hash, way);
        add(&repo, &disk, way, Fsync::Full).unwrap();
        disk.promise("saved");
        let dir = repo.scratch().join("crashed");
        let mut seen = [0; 2];
        disk.crashes(&dir, |promised, state| {
            let state = format!("{way:?}, {state}");
            let count = entries(&repo, &dir, &state);
            assert!(count == 3 || (count == 2 && promised.is_empty()), "{state}: {count}");
            let mut git = repo.command();
            let listed = run(git.env("GIT_DIR", &dir).args(["ls-files"]), b"").stdout;
            assert_eq!(listed.split(|&byte| byte == b'\n').count() - 1, count, "{state}");
            seen[count - 2] += 1;
        });
        assert!(seen.iter().all(|&count| count > 0), "{way:?}: {seen:?}");
    }
}
