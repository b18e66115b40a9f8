//! What goes wrong while a multi-pack-index is written, at every change; and power cuts. Whatever is left is sound: each
//! file that has a name is whole, names only packs that are there, and every object can be read.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hashfile::publish::{self, Fsync};
use object::{HashKind, ObjectId};
use packstone_odb::midx::{Editor, Layers, MidxError, WriteOptions};
use packstone_odb::{ByteSource, Store};
use testkit::disk::{Disk, Fault};
use testkit::repo::run;
use testkit::{Hash, TestRepo};

use crate::fs::FileSystem;
use crate::seam;
use crate::support::{kind, options};

/// A way to change a multi-pack-index.
struct Way {
    name: &'static str,
    /// With which arguments git wrote what is there before.
    before: &'static [&'static [&'static str]],
    run: fn(&mut Editor<'_>) -> Result<(), MidxError>,
    /// Whether the git that is installed reads what comes of it.
    git_reads: bool,
}

const SINGLE: &[&str] = &["write"];
const LAYER: &[&str] = &["write", "--incremental"];

const WAYS: &[Way] = &[
    Way {
        name: "the first",
        before: &[],
        run: |editor| editor.write(&WriteOptions::default()).map(drop),
        git_reads: true,
    },
    Way {
        name: "in place of another",
        before: &[SINGLE, SINGLE],
        run: |editor| editor.write(&WriteOptions::default()).map(drop),
        git_reads: true,
    },
    Way { name: "the first layer", before: &[], run: layer, git_reads: true },
    Way { name: "a layer on a single file", before: &[SINGLE], run: layer, git_reads: true },
    Way { name: "a layer on layers", before: &[LAYER, LAYER], run: layer, git_reads: true },
    Way {
        name: "in place of layers",
        before: &[LAYER, LAYER],
        run: |editor| editor.write(&WriteOptions::default()).map(drop),
        git_reads: true,
    },
    Way { name: "compacted", before: &[LAYER, LAYER, LAYER], run: |editor| compact(editor, true), git_reads: false },
    Way {
        name: "compacted to a single file",
        before: &[LAYER, LAYER, LAYER],
        run: |editor| compact(editor, false),
        git_reads: false,
    },
    Way {
        name: "without superfluous packs",
        before: &[SINGLE],
        run: |editor| editor.expire(&WriteOptions::default()).map(drop),
        git_reads: true,
    },
];

fn layer(editor: &mut Editor<'_>) -> Result<(), MidxError> {
    editor.write(&WriteOptions::default().incremental(true)).map(drop)
}

/// The first and the second layer become one.
fn compact(editor: &mut Editor<'_>, incremental: bool) -> Result<(), MidxError> {
    let layers = editor.load().expect("a chain");
    let [from, to, ..] = layers.layers() else { return Ok(()) };
    if layers.layers().len() < 3 {
        return Ok(()); // done before
    }
    let options = WriteOptions::default().incremental(incremental);
    editor.compact(&from.midx().checksum(), &to.midx().checksum(), &options).map(drop)
}

/// A commit and its pack for each round; then one more pack with everything, which makes the first superfluous.
fn prepare(way: &Way, hash: Hash) -> TestRepo {
    let repo = TestRepo::bare(hash);
    let base = repo.objects_dir().join("pack/pack");
    let pack = |content: &str| {
        let id = repo.hash_object("blob", content.as_bytes());
        repo.git_with(["pack-objects", "-q", base.to_str().unwrap()], format!("{id}\n").as_bytes());
        repo.git(["prune-packed", "-q"]);
    };
    for (round, args) in way.before.iter().enumerate() {
        pack(&format!("content {round}"));
        if way.name.ends_with("superfluous packs") {
            // Younger, so that it is listed, and the same object.
            for path in repo.packs() {
                let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
                fs::File::open(&path).unwrap().set_times(fs::FileTimes::new().set_modified(time)).unwrap();
            }
            let ids: String = repo.all_objects().iter().map(|id| format!("{id}\n")).collect();
            let more = repo.hash_object("blob", b"more");
            repo.git_with(["pack-objects", "-q", base.to_str().unwrap()], format!("{ids}{more}\n").as_bytes());
            repo.git(["prune-packed", "-q"]);
        }
        repo.git(["multi-pack-index"].iter().chain(*args));
    }
    pack("the last");
    repo
}

fn change(way: &Way, objects: &Path, kind: HashKind, fs: Arc<dyn FileSystem>, fsync: Fsync) -> Result<(), MidxError> {
    let mut editor = Editor::new(objects, kind).publish(publish::Options::default().fsync(fsync).fs(fs));
    (way.run)(&mut editor)
}

/// What is in force: the checksums of the layers. All of it is sound, and every object can be read.
fn state(objects: &Path, hash: Hash, all: &BTreeSet<String>, context: &str) -> Vec<ObjectId> {
    let mut problem = |error| panic!("{context}: {error:?}");
    let layers = Layers::load(objects, kind(hash), ByteSource::Heap, &mut problem);
    let faulty = Editor::new(objects, kind(hash)).verify(&mut |fault| panic!("{context}: {fault}"));
    assert!(!faulty.unwrap_or_else(|error| panic!("{context}: {error}")));
    let store = Store::open(objects, options(hash).verify_on_read(true)).unwrap();
    for id in all {
        let read = store.read(&id.parse().unwrap(), &mut Vec::new());
        read.unwrap_or_else(|error| panic!("{context}: {id}: {error}"));
    }
    layers.iter().flat_map(Layers::layers).map(|layer| layer.midx().checksum()).collect()
}

/// Copies the object directory, so that git need not make it again.
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copied(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

fn with_times(from: &Path, to: &Path) {
    copied(from, to);
    for entry in fs::read_dir(from.join("pack")).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().ends_with(".pack") {
            let time = entry.metadata().unwrap().modified().unwrap();
            let file = fs::File::open(to.join("pack").join(entry.file_name())).unwrap();
            file.set_times(fs::FileTimes::new().set_modified(time)).unwrap();
        }
    }
}

fn midx_files(objects: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in crate::write::files(objects)
        .into_iter()
        .filter(|name| name.contains("multi-pack-index") && !name.contains("/tmp_"))
    {
        found.insert(name.clone(), fs::read(objects.join(&name)).unwrap());
    }
    found
}

#[test]
fn each_change_may_fail() {
    for hash in Hash::ALL {
        for way in WAYS {
            let repo = prepare(way, hash);
            let all = repo.all_objects();
            let work = repo.scratch().join("work");
            let reset = || {
                let _ = fs::remove_dir_all(&work);
                with_times(&repo.objects_dir(), &work);
                Arc::new(Disk::new(&work))
            };
            let disk = reset();
            let before = state(&work, hash, &all, way.name);
            change(way, &work, kind(hash), seam::on(&disk), Fsync::Full).unwrap();
            let after = state(&work, hash, &all, way.name);
            assert_ne!(before, after, "{}", way.name);
            let (total, files) = (disk.count(), midx_files(&work));
            assert!(total >= 6, "{}: {total}", way.name);
            for at in 0..total {
                for stop in [false, true] {
                    let context = format!("{}, change {at} of {total} fails, all after it too: {stop}", way.name);
                    let disk = reset();
                    disk.set_fault(if stop { Fault::Stop(at) } else { Fault::Fail(at, io::ErrorKind::StorageFull) });
                    let result = change(way, &work, kind(hash), seam::on(&disk), Fsync::Full);
                    assert!(disk.was_hit(), "{context}");
                    let now = state(&work, hash, &all, &context);
                    match result {
                        Ok(()) => assert_eq!(now, after, "{context}"),
                        Err(error) => assert!(now == before || now == after, "{context}: {error}"),
                    }
                    // Who is killed leaves the lock, and has to be asked whether it may go.
                    for lock in ["multi-pack-index.lock", "multi-pack-index.d/multi-pack-index-chain.lock"] {
                        let gone = fs::remove_file(work.join("pack").join(lock)).is_err();
                        assert!(gone || stop, "{context}");
                    }
                    disk.set_fault(Fault::None);
                    change(way, &work, kind(hash), seam::on(&disk), Fsync::Full).unwrap();
                    assert_eq!(state(&work, hash, &all, &context), after, "{context}");
                    if now == before {
                        assert_eq!(midx_files(&work), files, "{context}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_power_is_cut() {
    for hash in Hash::ALL {
        for way in WAYS {
            let repo = prepare(way, hash);
            let all = repo.all_objects();
            let before = state(&repo.objects_dir(), hash, &all, way.name);
            let disk = Arc::new(Disk::new(repo.git_dir()));
            change(way, &repo.objects_dir(), kind(hash), seam::on(&disk), Fsync::Full).unwrap();
            disk.promise("done");
            let after = state(&repo.objects_dir(), hash, &all, way.name);
            let dir = repo.scratch().join("crashed");
            let mut seen = HashSet::new();
            let mut reached = BTreeSet::new();
            let states = disk.crashes(&dir, |promised, which| {
                let context = format!("{}, {which}", way.name);
                let objects = dir.join("objects");
                let now = state(&objects, hash, &all, &context);
                assert!(now == after || (promised.is_empty() && now == before), "{context}: {now:?}");
                reached.insert(now == after);
                if way.git_reads && seen.insert(midx_files(&objects)) {
                    for words in [&["multi-pack-index", "verify"][..], &["fsck", "--full", "--no-dangling"]] {
                        run(repo.command().arg("--git-dir").arg(&dir).args(words), b"");
                    }
                }
            });
            assert!(states >= 5 && reached.len() == 2, "{}: {states}", way.name);
        }
    }
}

/// The replayer would notice: without syncs, files of final names are cut.
#[test]
fn without_syncs_files_are_cut() {
    let hash = Hash::Sha1;
    let repo = prepare(&WAYS[1], hash);
    let disk = Arc::new(Disk::new(repo.git_dir()));
    change(&WAYS[1], &repo.objects_dir(), kind(hash), seam::on(&disk), Fsync::None).unwrap();
    let dir = repo.scratch().join("crashed");
    let mut cut = 0;
    disk.crashes(&dir, |_, _| {
        Layers::load(&dir.join("objects"), kind(hash), ByteSource::Heap, &mut |_| cut += 1);
    });
    assert!(cut > 0);
}
