//! The power is cut at every moment of every way to write objects: nothing promised is lost, nothing looks sound that
//! is not. See [`testkit::disk`] for what a power cut may leave.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use hashfile::publish::{self, Fsync};
use object::ObjectId;
use packstone_odb::midx::{Editor, Layers, WriteOptions as MidxOptions};
use packstone_odb::{ByteSource, Store};
use testkit::disk::{Disk, Op};
use testkit::repo::run;
use testkit::{Hash, TestRepo};

use crate::faults::{Setting, WAYS, expected};
use crate::seam;
use crate::support::{hex, kind, options};

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

/// A multi-pack-index is the old one, the new one, or none, and promised, it is the new one.
#[test]
fn a_multi_pack_index_is_whole_or_not_there() {
    for hash in Hash::ALL {
        for (incremental, again) in [(false, false), (false, true), (true, false), (true, true)] {
            let repo = TestRepo::bare(hash);
            let pack = |content: &[u8]| {
                let id = repo.hash_object("blob", content);
                repo.git_with(["pack-objects", "-q", "objects/pack/pack"], format!("{id}\n").as_bytes());
                repo.git(["prune-packed", "-q"]);
                id
            };
            let mut ids = vec![pack(b"one"), pack(b"two")];
            if again {
                let kind = if incremental { "--incremental" } else { "--no-incremental" };
                repo.git(["multi-pack-index", "write", kind]);
                ids.push(pack(b"three"));
            }
            let disk = Arc::new(Disk::new(repo.git_dir()));
            let publish = publish::Options::default().fs(seam::on(&disk));
            let mut editor = Editor::new(&repo.objects_dir(), kind(hash)).publish(publish);
            editor.write(&MidxOptions::default().incremental(incremental)).unwrap();
            disk.promise("written");
            let dir = repo.scratch().join("crashed");
            let mut covered_at_most = 0;
            let states = disk.crashes(&dir, |promised, state| {
                let state = format!("incremental {incremental}, again {again}: {state}");
                let store = Store::open(&dir.join("objects"), options(hash).verify_on_read(true)).unwrap();
                for id in &ids {
                    store.read(&hex(id), &mut Vec::new()).unwrap_or_else(|error| panic!("{state}: {error}"));
                }
                let layers = Layers::load(&dir.join("objects"), kind(hash), ByteSource::Heap, &mut |error| {
                    // A layer that is not there yet is no damage; the chain file does not name it.
                    panic!("{state}: {error:?}");
                });
                let covered = layers.map_or(0, |layers| layers.pack_count());
                covered_at_most = covered_at_most.max(covered);
                assert!(promised.is_empty() || covered as usize == ids.len(), "{state}: {covered}");
                assert!(covered as usize == ids.len() || covered == if again { 2 } else { 0 }, "{state}: {covered}");
                run(repo.command().arg("--git-dir").arg(&dir).args(["multi-pack-index", "verify"]), b"");
            });
            assert!(states > 1 && covered_at_most as usize == ids.len());
        }
    }
}
