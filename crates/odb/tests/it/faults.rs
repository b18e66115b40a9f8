//! What goes wrong while objects are written, at every change of every way to write them; and the ways themselves, which
//! [`crash`](crate::crash) runs until the power is cut.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashfile::publish::{self, Fsync};
use object::{ObjectId, ObjectKind};
use packstone_odb::{Quarantine, Store, WriteError, WriteOptions};
use testkit::disk::{Disk, Fault};
use testkit::pack::{self, write_loose_raw};
use testkit::repo::noise;
use testkit::{Hash, TestRepo};

use crate::fs::FileSystem;
use crate::seam;
use crate::support::options;
use crate::write::files;

/// What a way to write works with.
pub(crate) struct Setting<'s> {
    pub(crate) hash: Hash,
    pub(crate) objects: &'s Path,
    pub(crate) fsync: Fsync,
    pub(crate) fs: Arc<dyn FileSystem>,
    /// Called with what was promised to be in the store.
    pub(crate) promise: &'s dyn Fn(ObjectId),
}

impl Setting<'_> {
    pub(crate) fn store(&self) -> Store {
        Store::open(self.objects, options(self.hash)).unwrap()
    }

    fn publish(&self) -> publish::Options {
        publish::Options::default().fsync(self.fsync).fs(Arc::clone(&self.fs))
    }

    pub(crate) fn options(&self) -> WriteOptions {
        WriteOptions::default().loose(self.publish())
    }
}

/// A way to write objects.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// What is there before.
    pub(crate) prepare: fn(&Path, Hash),
    pub(crate) run: fn(&Setting<'_>) -> Result<(), WriteError>,
}

const fn way(name: &'static str, run: fn(&Setting<'_>) -> Result<(), WriteError>) -> Way {
    Way { name, prepare: |_, _| {}, run }
}

pub(crate) const WAYS: &[Way] = &[
    way("bytes", bytes),
    way("a stream of known length", |setting| streams(setting, true)),
    way("a stream of unknown length", |setting| streams(setting, false)),
    way("a small batch", |setting| batch(setting, 3)),
    way("a large batch", |setting| batch(setting, 9)),
    way("a pack of large blobs", bulk),
    way("packs of large blobs", |setting| bulk_of(setting, Some(3000))),
    way("a quarantine", quarantine),
    Way { prepare: plant_damage, ..way("over a damaged copy", replace) },
];

fn blob(n: usize) -> Vec<u8> {
    format!("blob {n}\n").into_bytes()
}

fn bytes(setting: &Setting<'_>) -> Result<(), WriteError> {
    let mut writer = setting.store().writer(setting.options());
    for n in 0..3 {
        (setting.promise)(writer.write(ObjectKind::Blob, &blob(n))?);
    }
    // Again: nothing is written.
    (setting.promise)(writer.write(ObjectKind::Blob, &blob(0))?);
    (setting.promise)(writer.write(ObjectKind::Tree, b"")?);
    writer.finish()
}

fn streams(setting: &Setting<'_>, known: bool) -> Result<(), WriteError> {
    let mut writer = setting.store().writer(setting.options());
    let content = vec![b'x'; (1 << 20) + 10]; // more than is held
    (setting.promise)(writer.write_stream(ObjectKind::Blob, known.then_some(content.len() as u64), &content[..])?);
    writer.finish()
}

fn batch(setting: &Setting<'_>, count: usize) -> Result<(), WriteError> {
    let mut writer = setting.store().writer(setting.options().batch(true));
    let ids: Vec<ObjectId> = (0..count).map(|n| writer.write(ObjectKind::Blob, &blob(n))).collect::<Result<_, _>>()?;
    writer.finish()?;
    ids.into_iter().for_each(setting.promise);
    Ok(())
}

fn bulk(setting: &Setting<'_>) -> Result<(), WriteError> {
    bulk_of(setting, None)
}

fn bulk_of(setting: &Setting<'_>, limit: Option<u64>) -> Result<(), WriteError> {
    let options = setting.options().pack(setting.publish()).big_file_threshold(1000).pack_size_limit(limit);
    let mut writer = setting.store().writer(options.pack_compression(0));
    let contents = [vec![b'x'; 2000], vec![b'y'; 1500], vec![b'x'; 2000]];
    let ids: Vec<ObjectId> =
        contents.iter().map(|content| writer.write(ObjectKind::Blob, content)).collect::<Result<_, _>>()?;
    writer.finish()?;
    ids.into_iter().for_each(setting.promise);
    Ok(())
}

fn quarantine(setting: &Setting<'_>) -> Result<(), WriteError> {
    let options = setting.options().pack(setting.publish()).big_file_threshold(1000);
    let quarantine = Quarantine::create(&setting.store(), "incoming", options)?;
    let mut writer = quarantine.writer();
    let contents = [vec![b'x'; 2000], blob(0), blob(1)];
    let ids: Vec<ObjectId> =
        contents.iter().map(|content| writer.write(ObjectKind::Blob, content)).collect::<Result<_, _>>()?;
    writer.finish()?;
    quarantine.migrate()?;
    ids.into_iter().for_each(setting.promise);
    Ok(())
}

/// An empty file where the first blob should be.
fn plant_damage(objects: &Path, hash: Hash) {
    write_loose_raw(objects, &pack::object_id(hash, "blob", &blob(0)), b"");
}

fn replace(setting: &Setting<'_>) -> Result<(), WriteError> {
    let mut writer = setting.store().writer(setting.options().verify_existing(true));
    (setting.promise)(writer.write(ObjectKind::Blob, &blob(0))?);
    writer.finish()
}

/// The objects that have sound names, and all that were promised; not what was [planted](plant_damage).
pub(crate) fn expected(store: &Store, promised: &[ObjectId]) -> BTreeSet<ObjectId> {
    let planted = |id: &ObjectId| fs::metadata(store.loose_path_of(id, 0)).is_ok_and(|meta| meta.len() == 0);
    store.ids().unwrap().filter(|id| !planted(id)).chain(promised.iter().copied()).collect()
}

/// An object directory alone: made sooner than a repository.
struct Objects {
    dir: tempfile::TempDir,
    hash: Hash,
}

impl Objects {
    fn objects_dir(&self) -> PathBuf {
        self.dir.path().join("objects")
    }
}

/// Runs a way with a fault, in a new object directory. The repository, the disk, how it ended, and what was promised.
fn run(way: &Way, hash: Hash, fault: Fault) -> (Objects, Arc<Disk>, Result<(), WriteError>, Vec<ObjectId>) {
    let repo = Objects { dir: tempfile::tempdir().unwrap(), hash };
    fs::create_dir_all(repo.objects_dir().join("pack")).unwrap();
    (way.prepare)(&repo.objects_dir(), hash);
    let disk = Arc::new(Disk::new(repo.dir.path()));
    disk.set_fault(fault);
    let promised = std::cell::RefCell::new(Vec::new());
    let result = (way.run)(&Setting {
        hash,
        objects: &repo.objects_dir(),
        fsync: Fsync::Full,
        fs: seam::on(&disk),
        promise: &|id| promised.borrow_mut().push(id),
    });
    let promised = promised.into_inner();
    (repo, disk, result, promised)
}

/// Every file of a final name is sound, and what was promised is there.
fn assert_sound(repo: &Objects, promised: &[ObjectId], context: &str) {
    let store = Store::open(&repo.objects_dir(), options(repo.hash).verify_on_read(true)).unwrap();
    for id in expected(&store, promised) {
        store.read(&id, &mut Vec::new()).unwrap_or_else(|error| panic!("{context}: {id}: {error}"));
    }
}

fn is_temporary(name: &str) -> bool {
    name.split('/').any(|part| part.starts_with("tmp_"))
}

#[test]
fn each_change_may_fail() {
    for hash in Hash::ALL {
        for way in WAYS {
            let (repo, disk, result, want) = run(way, hash, Fault::None);
            result.unwrap();
            assert_sound(&repo, &want, way.name);
            let total = disk.count();
            assert!(total > 4 && !want.is_empty());
            for at in 0..total {
                let error = [io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied][at % 2];
                {
                    let context = format!("{}, change {at} of {total} fails, {error:?}", way.name);
                    let (repo, disk, result, promised) = run(way, hash, Fault::Fail(at, error));
                    assert!(disk.was_hit(), "{context}");
                    assert_sound(&repo, &promised, &context);
                    match result {
                        // Of times, and of removing what is left over, nobody needs to be told.
                        Ok(()) => assert_eq!(promised, want, "{context}"),
                        Err(error) => {
                            let mut text = error.to_string();
                            let mut source = std::error::Error::source(&error);
                            while let Some(next) = source {
                                text += &format!(": {next}");
                                source = next.source();
                            }
                            assert!(text.contains("told to fail"), "{context}: {text}");
                        }
                    }
                    // At most one thing is left: what could not be removed.
                    let left = files(&repo.objects_dir());
                    assert!(left.iter().filter(|name| is_temporary(name)).count() <= 1, "{context}: {left:?}");
                    // Once more, and all is well.
                    disk.set_fault(Fault::None);
                    let again = std::cell::RefCell::new(Vec::new());
                    let objects = repo.objects_dir();
                    let promise = |id| again.borrow_mut().push(id);
                    let fs = seam::on(&disk);
                    (way.run)(&Setting { hash, objects: &objects, fsync: Fsync::Full, fs, promise: &promise }).unwrap();
                    assert_eq!(again.into_inner(), want, "{context}");
                    assert_sound(&repo, &want, &context);
                }
            }
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_whole_files() {
    for hash in Hash::ALL {
        for way in WAYS {
            let (_, disk, _, want) = run(way, hash, Fault::None);
            for at in 0..disk.count() {
                let context = format!("{}, killed before change {at}", way.name);
                let (repo, _, result, promised) = run(way, hash, Fault::Stop(at));
                assert!(result.is_err() || promised == want, "{context}");
                assert_sound(&repo, &promised, &context);
                for name in files(&repo.objects_dir()) {
                    let whole = name.len() == hash.hex_len() + 1 || name.starts_with("pack/pack-");
                    assert!(whole || is_temporary(&name), "{context}: {name}");
                }
            }
        }
    }
}

#[test]
fn short_writes_change_nothing() {
    for hash in Hash::ALL {
        for way in WAYS {
            let (whole, _, _, want) = run(way, hash, Fault::None);
            for most in [13, 1000] {
                let (repo, disk, result, promised) = run(way, hash, Fault::Short(most));
                result.unwrap();
                assert!(disk.was_hit());
                assert_eq!(promised, want);
                assert_sound(&repo, &promised, way.name);
                assert_eq!(files(&repo.objects_dir()), files(&whole.objects_dir()), "{}", way.name);
            }
        }
    }
}

/// A pack whose time cannot be set is of no help against removal: the object is written again.
#[test]
fn o4_a_pack_that_cannot_be_touched() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let content = noise(100);
        let name = repo.hash_object("blob", &content);
        let pack = repo.git_with(["pack-objects", "-q", "objects/pack/pack"], format!("{name}\n").as_bytes());
        repo.git(["prune-packed", "-q"]);
        assert!(!pack.is_empty() && files(&repo.objects_dir()).iter().all(|name| name.starts_with("pack/")));
        let disk = Arc::new(Disk::new(repo.git_dir()));
        let setting =
            Setting { hash, objects: &repo.objects_dir(), fsync: Fsync::None, fs: seam::on(&disk), promise: &|_| {} };
        let store = setting.store();
        // Twice it fails, once for the pack and once for the loose file that is not there.
        disk.set_fault(Fault::Fail(0, io::ErrorKind::PermissionDenied));
        let id = store.writer(setting.options()).write(ObjectKind::Blob, &content).unwrap();
        assert!(disk.was_hit() && store.loose_path_of(&id, 0).exists());
        // The next time it works, and the failure was not remembered as a success.
        let before = disk.ops().len();
        assert!(store.writer(setting.options()).freshen(&id).unwrap());
        let made = disk.ops().split_off(before);
        assert!(made.len() == 1 && format!("{made:?}").contains(".pack"), "{made:?}");
    }
}
