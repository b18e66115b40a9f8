//! The power is cut at every moment of every way to write objects: nothing promised is lost, nothing looks sound that
//! is not. See [`testkit::disk`] for what a power cut may leave.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use hashfile::publish::Fsync;
use object::ObjectId;
use packstone_odb::Store;
use testkit::disk::{Disk, Op};
use testkit::repo::run;
use testkit::{Hash, TestRepo};

use crate::faults::{Setting, WAYS, expected};
use crate::seam;
use crate::support::{hex, options};

/// Opens what a crash left: the promises hold, and whatever has a name that means something is whole, to us and to git.
///
/// git looks once at each set of objects that are there.
fn assert_survived(
    git: &mut Command,
    dir: &Path,
    hash: Hash,
    promised: &[String],
    state: &str,
    seen: &mut HashSet<BTreeSet<ObjectId>>,
) {
    let store = Store::open(&dir.join("objects"), options(hash).verify_on_read(true)).unwrap();
    let promised: Vec<ObjectId> = promised.iter().map(|id| hex(id)).collect();
    let there = expected(&store, &promised);
    for id in &there {
        store.read(id, &mut Vec::new()).unwrap_or_else(|error| panic!("{state}: {id}: {error}"));
    }
    if there.iter().eq(&store.ids().unwrap().collect::<Vec<_>>()) && seen.insert(there) {
        run(git.arg("--git-dir").arg(dir).args(["fsck", "--full", "--no-dangling"]), b"");
    }
}

#[test]
fn nothing_promised_is_lost() {
    for hash in Hash::ALL {
        for way in WAYS {
            let repo = TestRepo::bare(hash);
            (way.prepare)(&repo.objects_dir(), hash);
            let disk = Arc::new(Disk::new(repo.git_dir()));
            (way.run)(&Setting {
                hash,
                objects: &repo.objects_dir(),
                fsync: Fsync::Full,
                fs: seam::on(&disk),
                promise: &|id| disk.promise(id.to_string()),
            })
            .unwrap();
            let dir = repo.scratch().join("crashed");
            let mut seen = HashSet::new();
            let states = disk.crashes(&dir, |promised, state| {
                let state = format!("{}, {state}", way.name);
                assert_survived(&mut repo.command(), &dir, hash, promised, &state, &mut seen);
            });
            assert!(states >= 3, "{}: {states}", way.name);
        }
    }
}

/// The replayer would notice: without syncs, promises are broken and files are cut. That is what `core.fsync=none` means.
#[test]
fn without_syncs_no_promise_holds() {
    let hash = Hash::Sha1;
    for way in &WAYS[..4] {
        let repo = TestRepo::bare(hash);
        let disk = Arc::new(Disk::new(repo.git_dir()));
        (way.run)(&Setting {
            hash,
            objects: &repo.objects_dir(),
            fsync: Fsync::None,
            fs: seam::on(&disk),
            promise: &|id| disk.promise(id.to_string()),
        })
        .unwrap();
        let syncs = disk.ops().iter().filter(|op| matches!(op, Op::Sync(_) | Op::SyncDir(_) | Op::SyncAll)).count();
        assert_eq!(syncs, 0, "{}", way.name);
        let dir = repo.scratch().join("crashed");
        let (mut lost, mut damaged) = (0, 0);
        disk.crashes(&dir, |promised, _| {
            let store = Store::open(&dir.join("objects"), options(hash).verify_on_read(true)).unwrap();
            for id in promised {
                match store.read(&hex(id), &mut Vec::new()) {
                    Ok(_) => {}
                    Err(error) if error.is_missing() => lost += 1,
                    Err(error) if error.is_corrupt() => damaged += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        assert!(lost > 0 && damaged > 0, "{}: {lost} {damaged}", way.name);
    }
}
