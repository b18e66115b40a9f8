//! A disk that fails, stops or loses power at every step of receiving: nothing unsound ever has a name that means
//! something, and what was promised is there.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashfile::FileSystem;
use hashfile::publish::{self, Fsync};
use object::ObjectId;
use odb::Store;
use packstone_index_pack::{Options, ReceiveError, index_file};
use testkit::disk::{Disk, Fault};
use testkit::pack::{Entry, Op, Pack, PackBuilder, delta, object_id, write_loose};
use testkit::{Hash, TestRepo, repo};

use crate::seam;
use crate::support::{files, into, kind};

/// A way to get a pack into an object directory; the ids that are there then.
struct Way {
    name: &'static str,
    prepare: fn(&Path, Hash),
    run: fn(&Path, Hash, Options) -> Result<(), ReceiveError>,
}

const WAYS: &[Way] = &[
    Way { name: "a stream", prepare: |_, _| {}, run: |objects, hash, options| plain(objects, hash, options, false) },
    Way { name: "marks", prepare: |_, _| {}, run: |objects, hash, options| plain(objects, hash, options, true) },
    Way { name: "the same again", prepare: prepare_same, run: |objects, hash, o| plain(objects, hash, o, false) },
    Way { name: "a thin pack", prepare: prepare_thin, run: thin },
    Way { name: "a pack in a file", prepare: prepare_file, run: in_place },
];

fn content() -> [Vec<u8>; 3] {
    let base = b"abcdefgh".repeat(64);
    [base.clone(), [&base[..], b"1"].concat(), [&base[..], b"2"].concat()]
}

fn entries(hash: Hash) -> [Entry; 3] {
    let [base, ..] = content();
    let more = |with: &'static [u8]| delta(512, 513, &[Op::Copy(0, 512), Op::Insert(with)]);
    let id = object_id(hash, "blob", &base);
    [Entry::full("blob", &base), Entry::reference(&id, &more(b"1")), Entry::reference(&id, &more(b"2"))]
}

fn whole(hash: Hash) -> Pack {
    entries(hash).into_iter().fold(PackBuilder::new(hash), PackBuilder::entry).build()
}

fn ids(hash: Hash) -> Vec<ObjectId> {
    content().iter().map(|content| ObjectId::from_bytes(&object_id(hash, "blob", content)).unwrap()).collect()
}

fn plain(objects: &Path, hash: Hash, options: Options, marks: bool) -> Result<(), ReceiveError> {
    let mark = |text: &[u8]| marks.then(|| text.to_vec());
    let options = options.keep(mark(b"keep\n")).promisor(mark(b"promisor\n"));
    into(&objects.join("pack"), &whole(hash).bytes, options).map(drop)
}

fn prepare_same(objects: &Path, hash: Hash) {
    let pack = whole(hash);
    let raw: Vec<Vec<u8>> = ids(hash).iter().map(|id| id.as_bytes().to_vec()).collect();
    pack.write(objects, &pack.idx(&raw));
}

fn prepare_thin(objects: &Path, hash: Hash) {
    let [base, ..] = content();
    write_loose(objects, &object_id(hash, "blob", &base), &[&b"blob 512\0"[..], &base].concat());
}

fn thin(objects: &Path, hash: Hash, options: Options) -> Result<(), ReceiveError> {
    let [_, one, two] = entries(hash);
    let pack = PackBuilder::new(hash).entry(one).entry(two).build();
    let store = Store::open(objects, odb::Options::new(kind(hash))).unwrap();
    into(&objects.join("pack"), &pack.bytes, options.store(Some(store)).fix_thin(true)).map(drop)
}

fn prepare_file(objects: &Path, hash: Hash) {
    let pack = whole(hash);
    std::fs::write(objects.join("pack").join(name(&pack)), pack.bytes).unwrap();
}

fn name(pack: &Pack) -> String {
    format!("pack-{}.pack", testkit::pack::hex(pack.checksum()))
}

fn in_place(objects: &Path, hash: Hash, options: Options) -> Result<(), ReceiveError> {
    index_file(&objects.join("pack").join(name(&whole(hash))), None, options).map(drop)
}

struct Objects {
    dir: tempfile::TempDir,
    hash: Hash,
}

impl Objects {
    fn path(&self) -> PathBuf {
        self.dir.path().join("objects")
    }
}

fn options(hash: Hash, fsync: Fsync, fs: Arc<dyn FileSystem>) -> Options {
    Options::new(kind(hash)).publish(publish::Options::default().fsync(fsync).fs(fs))
}

fn run(way: &Way, hash: Hash, fault: Fault) -> (Objects, Arc<Disk>, Result<(), ReceiveError>) {
    let at = Objects { dir: tempfile::tempdir().unwrap(), hash };
    std::fs::create_dir_all(at.path().join("pack")).unwrap();
    (way.prepare)(&at.path(), hash);
    let disk = Arc::new(Disk::new(at.dir.path()));
    disk.set_fault(fault);
    let result = (way.run)(&at.path(), hash, options(hash, Fsync::Full, seam::on(&disk)));
    (at, disk, result)
}

/// Whatever has a name that means something is whole; and all is there, if it should.
fn assert_sound(objects: &Path, hash: Hash, all: bool, context: &str) {
    let store = Store::open(objects, odb::Options::new(kind(hash)).verify_on_read(true)).unwrap();
    let there: BTreeSet<ObjectId> = store.ids().unwrap().collect();
    for id in &there {
        store.read(id, &mut Vec::new()).unwrap_or_else(|error| panic!("{context}: {id}: {error}"));
    }
    if all {
        for id in ids(hash) {
            assert!(store.contains(&id).unwrap(), "{context}: {id} is not there");
        }
    }
}

fn temporary(objects: &Path) -> Vec<PathBuf> {
    let is = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("tmp_");
    files(&objects.join("pack")).into_iter().filter(is).collect()
}

#[test]
fn each_change_may_fail() {
    for hash in Hash::ALL {
        for way in WAYS {
            let (at, disk, result) = run(way, hash, Fault::None);
            result.unwrap();
            assert_sound(&at.path(), hash, true, way.name);
            let total = disk.count();
            assert!(total >= 8, "{}: {total}", way.name);
            for change in 0..total {
                let error = [io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied][change % 2];
                let context = format!("{}, change {change} of {total} fails, {error:?}", way.name);
                let (at, disk, result) = run(way, hash, Fault::Fail(change, error));
                assert!(disk.was_hit(), "{context}");
                assert_sound(&at.path(), hash, result.is_ok(), &context);
                // What cannot be removed is left: one file at most.
                assert!(temporary(&at.path()).len() <= 1, "{context}: {:?}", temporary(&at.path()));
                disk.set_fault(Fault::None);
                let again = (way.run)(&at.path(), at.hash, options(hash, Fsync::Full, seam::on(&disk)));
                again.unwrap_or_else(|error| panic!("{context}, then: {error}"));
                assert_sound(&at.path(), hash, true, &context);
            }
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_whole_files() {
    for hash in Hash::ALL {
        for way in WAYS {
            let (_, disk, _) = run(way, hash, Fault::None);
            for change in 0..disk.count() {
                let context = format!("{}, killed before change {change}", way.name);
                let (at, _, result) = run(way, hash, Fault::Stop(change));
                assert_sound(&at.path(), hash, result.is_ok(), &context);
                for path in files(&at.path().join("pack")) {
                    let name = path.file_name().unwrap().to_str().unwrap();
                    assert!(name.starts_with("tmp_") || name.starts_with("pack-"), "{context}: {name}");
                }
            }
        }
    }
}

#[test]
fn short_writes_change_nothing() {
    for way in WAYS {
        let hash = Hash::Sha1;
        let (expected, ..) = run(way, hash, Fault::None);
        for most in [13, 1000] {
            let (at, disk, result) = run(way, hash, Fault::Short(most));
            result.unwrap();
            assert!(disk.was_hit());
            let contents = |at: &Objects| -> Vec<(PathBuf, Vec<u8>)> {
                let paths = files(&at.path().join("pack")).into_iter();
                paths.map(|path| (path.file_name().unwrap().into(), std::fs::read(&path).unwrap())).collect()
            };
            assert!(contents(&at) == contents(&expected), "{}", way.name);
        }
    }
}

#[test]
fn nothing_promised_is_lost() {
    for hash in Hash::ALL {
        for way in WAYS {
            let repo = TestRepo::bare(hash);
            (way.prepare)(&repo.objects_dir(), hash);
            let disk = Arc::new(Disk::new(repo.git_dir()));
            (way.run)(&repo.objects_dir(), hash, options(hash, Fsync::Full, seam::on(&disk))).unwrap();
            disk.promise("all");
            let dir = repo.scratch().join("crashed");
            let mut seen = BTreeSet::new();
            let states = disk.crashes(&dir, |promised, state| {
                let objects = dir.join("objects");
                assert_sound(&objects, hash, !promised.is_empty(), &format!("{}, {state}", way.name));
                let store = Store::open(&objects, odb::Options::new(kind(hash))).unwrap();
                let there: Vec<ObjectId> = store.ids().unwrap().collect();
                if seen.insert(there) {
                    let mut git = repo.command();
                    git.arg("--git-dir").arg(&dir).args(["fsck", "--full", "--no-dangling"]);
                    repo::run(&mut git, b"");
                }
            });
            assert!(states >= 3, "{}: {states}", way.name);
        }
    }
}

/// C3: a file of the pack's name that holds something else is never taken for it, nor replaced.
#[test]
fn a_name_that_is_taken() {
    for hash in Hash::ALL {
        let pack = whole(hash);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name(&pack));
        let plain = || crate::support::options(hash);
        let mut other = pack.bytes.clone();
        *other.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &other).unwrap();
        let error = into(dir.path(), &pack.bytes, plain()).unwrap_err();
        assert!(
            matches!(error, ReceiveError::Publish(hashfile::PublishError::Collision { at, .. })
                if at == pack.bytes.len() as u64 - 1),
            "{error:?}"
        );
        assert!(std::fs::read(&path).unwrap() == other);
        assert_eq!(files(dir.path()), std::slice::from_ref(&path));
        std::fs::remove_file(&path).unwrap();
        // Several at once: one wins, the others find the same.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| into(dir.path(), &pack.bytes, plain().threads(2)).unwrap());
            }
        });
        assert_eq!(files(dir.path()).len(), 3);
        // A mark that is there stays, and is not ours.
        let mark = path.with_extension("keep");
        std::fs::write(&mark, b"theirs").unwrap();
        let outcome = into(dir.path(), &pack.bytes, plain().keep(Some(b"ours".to_vec()))).unwrap();
        assert!(!outcome.kept && std::fs::read(&mark).unwrap() == b"theirs");
    }
}
