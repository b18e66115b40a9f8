//! Packs written on a disk that fails, stops, or loses power: what has an index is whole.

use std::io;
use std::path::Path;
use std::sync::Arc;

use hashfile::publish::{self, Fsync};
use odb::{Options, Quiet, Store};
use packstone_pack_objects::{PackError, WriteOptions, write_to_disk};
use testkit::disk::{Disk, Fault};
use testkit::repo::{Hash, TestRepo, run};

use crate::seam;
use crate::support::{Ask, kind};

/// Where packs are written to: a repository without objects.
fn target(hash: Hash) -> (TestRepo, Arc<Disk>) {
    let repo = TestRepo::bare(hash);
    let disk = Arc::new(Disk::new(repo.git_dir()));
    (repo, disk)
}

/// All of `from`, one pack verbatim or entry by entry, to `to`.
fn write(from: &TestRepo, to: &TestRepo, disk: &Arc<Disk>, all: bool, fsync: Fsync) -> Result<(), PackError> {
    let wants = if all { vec!["HEAD".to_owned()] } else { vec!["HEAD^{tree}".to_owned()] };
    let wants = wants.iter().map(|name| from.rev_parse(name)).collect();
    let selection = Ask { wants, ..Ask::default() }.select(from);
    let options =
        WriteOptions::default().write_rev(true).publish(publish::Options::default().fsync(fsync).fs(seam::on(disk)));
    write_to_disk(&selection, &options, &to.objects_dir().join("pack/pack"), &Quiet).map(drop)
}

/// Everything that is visible reads well. How many objects that is.
fn readable(git_dir: &Path, hash: Hash, context: &str) -> usize {
    let store = Store::open(&git_dir.join("objects"), Options::new(kind(hash)).verify_on_read(true)).unwrap();
    let ids: Vec<_> = store.ids().unwrap().collect();
    for id in &ids {
        store.read(id, &mut Vec::new()).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    ids.len()
}

fn source(hash: Hash) -> TestRepo {
    let repo = TestRepo::linear(hash, 3);
    repo.repack();
    repo
}

#[test]
fn each_change_may_fail_or_be_the_last() {
    for hash in Hash::ALL {
        let from = source(hash);
        for all in [true, false] {
            let (to, disk) = target(hash);
            write(&from, &to, &disk, all, Fsync::Full).unwrap();
            let want = readable(to.git_dir(), hash, "");
            assert!(want > 0);
            for at in 0..disk.count() {
                for fault in [Fault::Fail(at, io::ErrorKind::StorageFull), Fault::Stop(at)] {
                    let (to, disk) = target(hash);
                    disk.set_fault(fault);
                    let result = write(&from, &to, &disk, all, Fsync::Full);
                    let context = format!("{fault:?}");
                    let found = readable(to.git_dir(), hash, &context);
                    assert!(found == want || (found == 0 && result.is_err()), "{context}: {found}");
                    disk.set_fault(Fault::None);
                    write(&from, &to, &disk, all, Fsync::Full).unwrap();
                    assert_eq!(readable(to.git_dir(), hash, &context), want, "{context}");
                }
            }
            let (to, disk) = target(hash);
            disk.set_fault(Fault::Short(100));
            write(&from, &to, &disk, all, Fsync::Full).unwrap();
            assert!(disk.was_hit());
            to.verify_pack(&to.only_pack());
        }
    }
}

#[test]
fn what_a_power_cut_leaves() {
    for hash in Hash::ALL {
        let from = source(hash);
        for all in [true, false] {
            let (to, disk) = target(hash);
            write(&from, &to, &disk, all, Fsync::Full).unwrap();
            disk.promise("written");
            let want = readable(to.git_dir(), hash, "");
            let dir = to.scratch().join("crashed");
            let mut seen = [0; 2];
            disk.crashes(&dir, |promised, state| {
                let found = readable(&dir, hash, state);
                assert!(found == want || (found == 0 && promised.is_empty()), "{state}: {found}");
                // git finds nothing wrong with what is there; what it lacks are objects that other packs may have.
                let packs = dir.join("objects/pack");
                for idx in std::fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path()) {
                    let pack = idx.with_extension("pack");
                    if idx.extension().is_some_and(|extension| extension == "idx") && pack.exists() {
                        run(to.command().arg("verify-pack").arg(&idx), b"");
                    }
                }
                seen[usize::from(found > 0)] += 1;
            });
            assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
        }
    }
}
