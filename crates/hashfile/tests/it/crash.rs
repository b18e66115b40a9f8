//! Publishing and locking on a disk that fails, stops, shortens, or loses power.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use packstone_hashfile::lock::{self, LockFile};
use packstone_hashfile::publish::{Batch, Fsync, IfExists, Options, Placing, TempFile};
use testkit::disk::{Disk, Fault};

use crate::seam;

const OLD: &[u8] = b"old content";
const NEW: &[u8] = b"new content, which is longer";

/// A way to give `root/dest` (or what lies below `root/dir`) new content.
type Way = (&'static str, &'static str, fn(&Path, &Options) -> Result<(), Box<dyn std::error::Error>>);

const WAYS: &[Way] = &[
    ("replace", "dest", |root, options| temp(root, options)?.persist(&root.join("dest"), IfExists::Replace).map(ok)?),
    ("a new name", "new", |root, options| {
        temp(root, options)?.persist(&root.join("new"), IfExists::Compare).map(ok)?
    }),
    ("looked for first", "new", |root, options| {
        let options = options.clone().placing(Placing::Rename);
        temp(root, &options)?.persist(&root.join("new"), IfExists::Keep).map(ok)?
    }),
    ("a new directory", "dir/new", |root, options| {
        let options = options.clone().make_dir(true);
        temp(&root.join("dir"), &options)?.persist(&root.join("dir/new"), IfExists::Keep).map(ok)?
    }),
    ("into a new directory", "dir/new", |root, options| {
        let options = options.clone().make_dir(true);
        temp(root, &options)?.persist(&root.join("dir/new"), IfExists::Refuse).map(ok)?
    }),
    ("a lock", "dest", |root, options| {
        let options = lock::Options::default().fsync(options.fsync).fs(options.fs.clone()).record_pid(true);
        let mut lock = LockFile::acquire(&root.join("dest"), &options)?;
        lock.write_all(NEW)?;
        Ok(lock.commit()?)
    }),
    ("a batch of three", "dir/2", |root, options| batch(root, options, 3)),
    ("a batch of ten", "dir/9", |root, options| batch(root, options, 10)),
];

fn ok<T>(_: T) -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

fn temp(dir: &Path, options: &Options) -> Result<TempFile, Box<dyn std::error::Error>> {
    let mut file = TempFile::create_in(dir, "tmp_x_", options)?;
    file.write_all(NEW)?;
    Ok(file)
}

fn batch(root: &Path, options: &Options, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let options = options.clone().make_dir(true);
    let mut batch = Batch::new();
    for n in 0..count {
        batch.add(temp(root, &options)?, &root.join(format!("dir/{n}")), IfExists::Keep)?;
    }
    batch.commit()?;
    Ok(())
}

struct Place {
    dir: tempfile::TempDir,
    disk: Arc<Disk>,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::write(dir.path().join("root/dest"), OLD).unwrap();
        let disk = Arc::new(Disk::new(&dir.path().join("root")));
        Place { dir, disk }
    }

    fn run(&self, way: &Way, fsync: Fsync) -> Result<(), Box<dyn std::error::Error>> {
        way.2(&self.dir.path().join("root"), &Options::default().fsync(fsync).fs(seam::on(&self.disk)))
    }
}

/// Each file of a final name is the old one or the new one. Whether the way's file is new.
fn is_new(root: &Path, way: &Way, context: &str) -> bool {
    let mut left = vec![root.to_path_buf()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_dir() {
                left.push(entry.path());
            } else if !name.starts_with("tmp_") && !name.ends_with(".lock") {
                let bytes = fs::read(entry.path()).unwrap();
                assert!(bytes == NEW || (name == "dest" && bytes == OLD), "{context}: {name} is {bytes:?}");
            }
        }
    }
    fs::read(root.join(way.1)).is_ok_and(|bytes| bytes == NEW)
}

#[test]
fn each_change_may_fail_or_be_the_last() {
    for way in WAYS {
        let place = Place::new();
        place.run(way, Fsync::Full).unwrap();
        let total = place.disk.count();
        for at in 0..total {
            for fault in [Fault::Fail(at, io::ErrorKind::StorageFull), Fault::Stop(at)] {
                let context = format!("{}, {fault:?} of {total}", way.0);
                let place = Place::new();
                place.disk.set_fault(fault);
                let result = place.run(way, Fsync::Full);
                assert!(place.disk.was_hit(), "{context}");
                let root = place.dir.path().join("root");
                let new = is_new(&root, way, &context);
                assert!(new || result.is_err(), "{context}");
                // Again, unless a lock is left over.
                place.disk.set_fault(Fault::None);
                if root.join("dest.lock").exists() {
                    assert!(matches!(fault, Fault::Stop(_)), "{context}");
                } else if !(new && way.0 == "into a new directory") {
                    place.run(way, Fsync::Full).unwrap();
                    assert!(is_new(&root, way, &context), "{context}");
                }
            }
        }
        for most in [1, 5] {
            let place = Place::new();
            place.disk.set_fault(Fault::Short(most));
            place.run(way, Fsync::Full).unwrap();
            assert!(is_new(&place.dir.path().join("root"), way, way.0) && place.disk.was_hit());
        }
    }
}

#[test]
fn what_a_power_cut_leaves() {
    for way in WAYS {
        let place = Place::new();
        place.run(way, Fsync::Full).unwrap();
        place.disk.promise(way.1);
        let dir = place.dir.path().join("crashed");
        let mut outcomes = [0, 0];
        let states = place.disk.crashes(&dir, |promised, state| {
            let state = format!("{}, {state}", way.0);
            let new = is_new(&dir, way, &state);
            assert!(new || promised.is_empty(), "{state}");
            outcomes[usize::from(new)] += 1;
        });
        assert!(states > 1 && outcomes.iter().all(|&count| count > 0), "{}: {outcomes:?}", way.0);

        // And without syncs the replayer finds damage.
        let place = Place::new();
        place.run(way, Fsync::None).unwrap();
        place.disk.promise(way.1);
        let mut broken = 0;
        place.disk.crashes(&dir, |promised, _| {
            let bytes = fs::read(dir.join(way.1)).unwrap_or_default();
            broken += usize::from(!promised.is_empty() && bytes != NEW);
        });
        assert!(broken > 0, "{}", way.0);
    }
}
