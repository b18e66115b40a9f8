//! Objects written, and found written already.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use hashfile::publish::{self, Fsync, Placing};
use object::{ObjectId, ObjectKind, object_id};
use packstone_odb::{WriteError, WriteOptions};
use testkit::io::{FailAfter, Ragged, Rng};
use testkit::pack::{self, write_loose_raw};
use testkit::repo::{growing, noise};
use testkit::{Hash, TestRepo};

use crate::support::{hex, kind, read_all_ways, store};

/// Without waiting for the disk.
pub(crate) fn quick() -> WriteOptions {
    WriteOptions::default().loose(publish::Options::default().fsync(Fsync::None))
}

/// The files below a directory, from it.
pub(crate) fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => found.push(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

fn age(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(long_ago())).unwrap();
}

fn is_old(path: &Path) -> bool {
    fs::metadata(path).unwrap().modified().unwrap() == long_ago()
}

#[test]
fn git_reads_what_is_written_whichever_way() {
    for hash in Hash::ALL {
        for fsync in [Fsync::None, Fsync::WriteoutOnly, Fsync::Full] {
            for (batch, placing) in [(false, Placing::Link), (false, Placing::Rename), (true, Placing::Link)] {
                let repo = TestRepo::bare(hash);
                let store = store(&repo);
                let loose = publish::Options::default().fsync(fsync).placing(placing);
                let mut writer = store.writer(WriteOptions::default().loose(loose).batch(batch));
                let mut written = Vec::new();
                let tree = [b"100644 a\0", object_id(kind(hash), ObjectKind::Blob, b"").unwrap().as_bytes()].concat();
                for content in [vec![], b"a".to_vec(), noise(100), growing(5000), noise(1 << 20), noise((1 << 20) + 1)]
                {
                    let id = writer.write(ObjectKind::Blob, &content).unwrap();
                    written.push((id, ObjectKind::Blob, content));
                }
                for (n, size) in
                    [0, 10, 70_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 1_500_000].into_iter().enumerate()
                {
                    for known in [true, false] {
                        let content = Rng::new(size + n as u64 + u64::from(known)).bytes(size as usize);
                        let input = Ragged::new(Cursor::new(content.clone()), size, 60_000);
                        let id = writer.write_stream(ObjectKind::Blob, known.then_some(size), input).unwrap();
                        written.push((id, ObjectKind::Blob, content));
                    }
                }
                let id = writer.write_stream(ObjectKind::Tree, None, &tree[..]).unwrap();
                written.push((id, ObjectKind::Tree, tree));
                for (id, ..) in &written {
                    assert!(writer.contains(id).unwrap());
                    assert_eq!(store.contains(id).unwrap(), !batch);
                    assert!(writer.freshen(id).unwrap());
                }
                writer.finish().unwrap();
                repo.fsck();
                for (id, kind, content) in written {
                    assert_eq!(read_all_ways(&store, &id).unwrap(), (kind, content.clone()));
                    assert_eq!(repo.kind(&id.to_string()), kind.name());
                    assert!(repo.read(&id.to_string()) == content);
                }
                assert!(files(&repo.objects_dir()).iter().all(|name| !name.contains("tmp_")));
            }
        }
    }
}

#[test]
fn streams_that_do_not_give_what_was_announced() {
    let repo = TestRepo::bare(Hash::Sha1);
    let store = store(&repo);
    for batch in [false, true] {
        let mut writer = store.writer(quick().batch(batch));
        for size in [10u64, 1 << 20, (1 << 20) + 1, 3 << 20] {
            let content = noise(size as usize);
            for wrong in [size - 1, size + 1] {
                match writer.write_stream(ObjectKind::Blob, Some(wrong), &content[..]) {
                    Err(WriteError::Size { size }) => assert_eq!(size, wrong),
                    other => panic!("{other:?}"),
                }
            }
            for known in [Some(size), None] {
                let input = FailAfter::new(&content[..], size - 1);
                match writer.write_stream(ObjectKind::Blob, known, input) {
                    Err(WriteError::Input(error)) => assert_eq!(error.kind(), std::io::ErrorKind::StorageFull),
                    other => panic!("{other:?}"),
                }
            }
        }
        writer.finish().unwrap();
        assert_eq!(files(&repo.objects_dir()), [""; 0], "nothing is left of it");
    }
}

/// O4: loose, packed, cruft; and F3, modes.
#[test]
fn o4_what_exists_is_freshened() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let content = noise(300);
        let name = repo.hash_object("blob", &content);
        let id = hex(&name);
        let path = store(&repo).loose_path_of(&id, 0);
        age(&path);
        assert_eq!(store(&repo).writer(quick()).write(ObjectKind::Blob, &content).unwrap(), id);
        assert!(!is_old(&path), "a loose file");

        // An empty or damaged file of that name counts as the object, as git says, unless its health is asked for.
        write_loose_raw(&repo.objects_dir(), &pack::unhex(&name), b"");
        store(&repo).writer(quick()).write(ObjectKind::Blob, &content).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        for damage in [&b""[..], b"x", &fs::read(repo.git_dir().join("HEAD")).unwrap()] {
            write_loose_raw(&repo.objects_dir(), &pack::unhex(&name), damage);
            let mut writer = store(&repo).writer(quick().verify_existing(true));
            writer.write_stream(ObjectKind::Blob, None, &content[..]).unwrap();
            writer.finish().unwrap();
            assert!(repo.read(&name) == content);
        }
        age(&path);
        store(&repo).writer(quick().verify_existing(true)).write(ObjectKind::Blob, &content).unwrap();
        assert!(!is_old(&path));

        // In a pack: its time, once, and no other file's.
        repo.commit_files(&[("a", &content), ("b", b"b")], "both");
        repo.repack();
        let pack = repo.only_pack();
        let idx = pack.with_extension("idx");
        age(&pack);
        age(&idx);
        let before = files(&repo.objects_dir());
        let opened = store(&repo);
        let mut writer = opened.writer(quick());
        writer.write(ObjectKind::Blob, &content).unwrap();
        assert!(!is_old(&pack) && is_old(&idx));
        age(&pack);
        writer.write(ObjectKind::Blob, b"b").unwrap();
        opened.writer(quick()).write(ObjectKind::Blob, b"b").unwrap();
        assert!(is_old(&pack), "once a store and while");
        opened.writer(quick().freshen_interval(Duration::ZERO)).write(ObjectKind::Blob, b"b").unwrap();
        assert!(!is_old(&pack));
        assert_eq!(files(&repo.objects_dir()), before, "nothing was written");

        // In a cruft pack: a loose copy.
        repo.git(["checkout", "-q", "--orphan", "other"]);
        repo.git(["rm", "-q", "-r", "-f", "."]);
        repo.commit_files(&[("c", b"c")], "without");
        repo.git(["branch", "-D", "main"]);
        repo.git(["reflog", "expire", "--expire=all", "--all"]);
        repo.git(["repack", "--cruft", "-d", "-q"]);
        let mtimes: Vec<_> =
            repo.packs().iter().map(|pack| pack.with_extension("mtimes")).filter(|p| p.exists()).collect();
        assert_eq!(mtimes.len(), 1);
        age(&mtimes[0]);
        age(&mtimes[0].with_extension("pack"));
        assert!(!path.exists());
        store(&repo).writer(quick()).write(ObjectKind::Blob, &content).unwrap();
        assert!(path.exists() && is_old(&mtimes[0]) && is_old(&mtimes[0].with_extension("pack")));
        repo.git(["prune", "--expire=1.day.ago"]);
        assert!(repo.read(&name) == content);
    }
}

/// C2: writers of the same objects, and one that removes directories as long as they are empty.
#[test]
fn c2_writers_of_the_same_objects() {
    let repo = TestRepo::bare(Hash::Sha1);
    let opened = store(&repo);
    let done = AtomicBool::new(false);
    let contents: Vec<Vec<u8>> = (0..50).map(|n| format!("object {n}").into_bytes()).collect();
    let ids: Vec<ObjectId> =
        contents.iter().map(|content| object_id(kind(Hash::Sha1), ObjectKind::Blob, content).unwrap()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for first in 0..=u8::MAX {
                    let _ = fs::remove_dir(repo.objects_dir().join(format!("{first:02x}")));
                }
            }
        });
        // Two stores of eight writers each, as two processes would be.
        let writers: Vec<_> = (0..16)
            .map(|n| {
                let (opened, contents, ids) = (if n % 2 == 0 { opened.clone() } else { store(&repo) }, &contents, &ids);
                scope.spawn(move || {
                    let mut writer = opened.writer(quick().batch(n % 4 == 3));
                    for (content, id) in contents.iter().zip(ids) {
                        let written = match n % 3 {
                            0 => writer.write_stream(ObjectKind::Blob, None, &content[..]),
                            _ => writer.write(ObjectKind::Blob, content),
                        };
                        assert_eq!(written.unwrap(), *id);
                    }
                    writer.finish().unwrap();
                })
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    for (id, content) in ids.iter().zip(&contents) {
        assert!(repo.read(&id.to_string()) == *content);
    }
    assert_eq!(files(&repo.objects_dir()).len(), 50, "no temporary files");
    repo.fsck();
}
