//! Objects on trial, large blobs in packs, and objects in memory.

use std::fs;
use std::sync::Arc;

use hashfile::PublishError;
use hashfile::publish::{self, Fsync};
use object::{ObjectId, ObjectKind};
use packstone_odb::{Overlay, Quarantine, WriteError, WriteOptions, alternates};
use testkit::io::{FailAfter, Rng};
use testkit::repo::{noise, output};
use testkit::{Hash, TestRepo};

use crate::support::{hex, read_all_ways, store};
use crate::write::{files, quick};

fn bulk() -> WriteOptions {
    quick().pack(publish::Options::default().fsync(Fsync::None)).big_file_threshold(1000)
}

/// H1: four files of two contents make one pack of two objects; a fifth makes none.
#[test]
fn h1_large_blobs_are_stored_once() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let (a, b) = (noise(5000), Rng::new(7).bytes(300_000));
        let opened = store(&repo);
        let mut writer = opened.writer(bulk());
        let mut ids = Vec::new();
        for content in [&a, &a, &b, &b, &a] {
            ids.push(writer.write_stream(ObjectKind::Blob, Some(content.len() as u64), &content[..]).unwrap());
            assert!(writer.contains(ids.last().unwrap()).unwrap());
            assert!(files(&repo.objects_dir()).iter().all(|name| name.contains("tmp_pack_")));
        }
        // Streams that fail on the way leave no trace, a small one goes its own way, and trees are never packed here.
        for content in [&a, &b] {
            let short = FailAfter::new(&content[..], 4000);
            assert!(writer.write_stream(ObjectKind::Blob, Some(content.len() as u64 + 1), short).is_err());
            assert!(writer.write_stream(ObjectKind::Blob, Some(content.len() as u64 - 1), &content[..]).is_err());
        }
        let small = writer.write(ObjectKind::Blob, b"small").unwrap();
        writer.finish().unwrap();
        let pack = repo.only_pack();
        assert_eq!(repo.ids_of_pack(&pack).len(), 2);
        assert!(pack.with_extension("rev").exists());
        assert_eq!(files(&repo.objects_dir()).len(), 4);
        for (id, content) in ids.iter().zip([&a, &a, &b, &b, &a]) {
            assert_eq!(&read_all_ways(&opened, id).unwrap().1, content);
        }
        assert_eq!(repo.read(&small.to_string()), b"small");
        repo.verify_pack(&pack);
        repo.fsck();
        // Again, by a writer that knows nothing of it, whole and in pieces: no new pack.
        let mut writer = store(&repo).writer(bulk());
        assert_eq!(writer.write(ObjectKind::Blob, &a).unwrap(), ids[0]);
        assert_eq!(writer.write_stream(ObjectKind::Blob, Some(b.len() as u64), &b[..]).unwrap(), ids[2]);
        writer.finish().unwrap();
        assert_eq!(files(&repo.objects_dir()).len(), 4);
    }
}

#[test]
fn packs_of_large_blobs_keep_to_their_limit() {
    let repo = TestRepo::init(Hash::Sha1);
    let opened = store(&repo);
    let mut writer = opened.writer(bulk().pack_size_limit(Some(256 << 10)));
    for (seed, size) in [(1, 66 << 10), (2, 80 << 10), (3, 128 << 10), (4, 300 << 10), (5, 2000)] {
        writer.write(ObjectKind::Blob, &Rng::new(seed).bytes(size)).unwrap();
    }
    writer.finish().unwrap();
    let mut counts: Vec<usize> = repo.packs().iter().map(|pack| repo.ids_of_pack(pack).len()).collect();
    counts.sort();
    assert_eq!(counts, [1, 1, 1, 2], "one alone may be larger than the limit");
    repo.fsck();
}

#[test]
fn objects_on_trial_are_seen_by_those_who_know() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let old = hex(&repo.hash_object("blob", b"old"));
        let main = store(&repo);
        for keep in [false, true] {
            let before = files(&repo.objects_dir());
            let quarantine = Quarantine::create(&main, "incoming", bulk()).unwrap();
            assert!(quarantine.path().file_name().unwrap().to_str().unwrap().starts_with("tmp_objdir-incoming-"));
            let mut writer = quarantine.writer();
            let ids =
                [&b"new"[..], b"old", &noise(3000)].map(|content| writer.write(ObjectKind::Blob, content).unwrap());
            assert_eq!(ids[1], old);
            writer.finish().unwrap();
            // Git's programs work there, too.
            let list = alternates::format_list([repo.objects_dir().as_path()]);
            let mut git = repo.command();
            git.env("GIT_OBJECT_DIRECTORY", quarantine.path());
            git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", String::from_utf8(list).unwrap());
            let by_git = output(git.args(["hash-object", "-w", "--stdin"]), b"by git");
            let by_git = hex(String::from_utf8(by_git.stdout).unwrap().trim());
            for id in ids.iter().chain([&by_git]) {
                assert!(quarantine.store().contains(id).unwrap());
                assert_eq!(main.contains(id).unwrap(), *id == old);
            }
            assert!(!quarantine.path().join(&old.to_string()[..2]).exists(), "what the main store has is not written");
            // An index of this directory's packs alone would hide the main one's.
            fs::write(quarantine.path().join("pack/multi-pack-index"), b"x").unwrap();
            if keep {
                quarantine.migrate().unwrap();
                for id in ids.iter().chain([&by_git]) {
                    assert!(main.contains(id).unwrap());
                }
                let now = files(&repo.objects_dir());
                assert_eq!(now.len(), before.len() + 5, "{now:?}");
                assert!(now.iter().all(|name| !name.contains("tmp_") && !name.contains("multi")));
                repo.fsck();
            } else {
                drop(quarantine);
                assert_eq!(files(&repo.objects_dir()), before);
            }
            assert!(
                fs::read_dir(repo.objects_dir())
                    .unwrap()
                    .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with("tmp_") })
            );
        }
    }
}

/// C3: a pack of the same name must have the same bytes; a loose object stays as it is.
#[test]
fn c3_names_that_are_taken() {
    let hash = Hash::Sha1;
    let repo = TestRepo::init(hash);
    let main = store(&repo);
    let content = noise(3000);
    let fill = |options: WriteOptions| {
        let quarantine = Quarantine::create(&main, "incoming", options).unwrap();
        let mut writer = quarantine.writer();
        writer.write(ObjectKind::Blob, &content).unwrap();
        writer.finish().unwrap();
        quarantine
    };
    let (one, two, three) = (fill(bulk()), fill(bulk()), fill(bulk()));
    one.migrate().unwrap();
    two.migrate().unwrap(); // the same
    let pack = repo.only_pack();
    let mut bytes = fs::read(&pack).unwrap();
    bytes[100] ^= 1;
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, &bytes).unwrap();
    match three.migrate() {
        Err(WriteError::Publish(PublishError::Collision { path, at: 100 })) => assert_eq!(path, pack),
        other => panic!("{other:?}"),
    }
    assert!(fs::read(&pack).unwrap() == bytes, "nothing is overwritten");
    assert_eq!(files(&repo.objects_dir()).len(), 3, "and nothing left over");

    let repo = TestRepo::init(hash);
    let main = store(&repo);
    let quarantine = fill_loose(&main, b"loose");
    let id = main.writer(quick()).write(ObjectKind::Blob, b"loose").unwrap();
    let path = main.loose_path_of(&id, 0);
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::open(&path).unwrap().set_times(fs::FileTimes::new().set_modified(old)).unwrap();
    quarantine.migrate().unwrap();
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > old, "somebody relies on it now");
}

fn fill_loose(main: &packstone_odb::Store, content: &[u8]) -> Quarantine {
    let quarantine = Quarantine::create(main, "incoming", quick()).unwrap();
    let mut writer = quarantine.writer();
    writer.write(ObjectKind::Blob, content).unwrap();
    writer.finish().unwrap();
    quarantine
}

/// S4: links in a quarantine lead nowhere, and are never moved.
#[cfg(unix)]
#[test]
fn s4_symbolic_links_are_refused() {
    let repo = TestRepo::init(Hash::Sha1);
    let main = store(&repo);
    let outside = repo.scratch().join("secret");
    fs::write(&outside, b"secret").unwrap();
    for name in ["pack/pack-1234.pack", "ab/cdefabcdefabcdefabcdefabcdefabcdefabcd"] {
        let quarantine = fill_loose(&main, b"content");
        let link = quarantine.path().join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        match quarantine.migrate() {
            Err(WriteError::File { path, .. }) => assert_eq!(path, link),
            other => panic!("{other:?}"),
        }
        assert_eq!(files(&repo.objects_dir()), [""; 0], "nothing was moved");
    }
    // A directory that is a link is not entered, neither to migrate nor to remove.
    let quarantine = fill_loose(&main, b"content");
    let elsewhere = repo.scratch().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("cdefabcdefabcdefabcdefabcdefabcdefabcd"), b"x").unwrap();
    std::os::unix::fs::symlink(&elsewhere, quarantine.path().join("ab")).unwrap();
    quarantine.migrate().unwrap();
    assert_eq!(files(&elsewhere).len(), 1);
    assert_eq!(files(&repo.objects_dir()).len(), 1);
    assert_eq!(fs::read(outside).unwrap(), b"secret");
}

/// S4: a list separator in the path.
#[test]
fn s4_a_repository_called_co_lon() {
    let parent = TestRepo::init(Hash::Sha1);
    let repo = parent.path().join("co:lon.git");
    parent.git(["init", "-q", "--bare", repo.to_str().unwrap()]);
    let objects = repo.join("objects");
    let main = crate::support::open(&objects, Hash::Sha1);
    let quarantine = fill_loose(&main, b"content");
    let list = alternates::format_list([objects.as_path()]);
    let mut git = parent.command();
    git.env("GIT_DIR", &repo).env("GIT_OBJECT_DIRECTORY", quarantine.path());
    git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", String::from_utf8(list).unwrap());
    let old = main.writer(quick()).write(ObjectKind::Blob, b"old").unwrap();
    let seen = output(git.args(["cat-file", "-p", &old.to_string()]), b"");
    assert_eq!(seen.stdout, b"old");
    assert!(quarantine.store().contains(&old).unwrap());
    quarantine.migrate().unwrap();
}

#[test]
fn objects_in_memory() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        let old = hex(&repo.hash_object("blob", b"old"));
        let below = store(&repo);
        let mut overlay = Overlay::new(below.clone(), Some(100));
        let a = overlay.write(ObjectKind::Blob, b"a").unwrap();
        assert_eq!(overlay.write(ObjectKind::Blob, b"a").unwrap(), a);
        let tree = overlay.write(ObjectKind::Tree, &[b"100644 a\0", a.as_bytes()].concat()).unwrap();
        let held = overlay.held();
        match overlay.write(ObjectKind::Blob, &[0; 100]) {
            Err(WriteError::OverBudget { held: would, limit: 100 }) => assert_eq!(would, held + 100),
            other => panic!("{other:?}"),
        }
        assert_eq!((overlay.held(), overlay.ids().len()), (held, 2));
        let mut out = b"before".to_vec();
        for (id, kind, content) in [(a, ObjectKind::Blob, &b"a"[..]), (old, ObjectKind::Blob, b"old")] {
            assert_eq!(overlay.read(&id, &mut out).unwrap(), kind);
            assert_eq!(out, content);
            assert_eq!(overlay.header(&id).unwrap().size, content.len() as u64);
            assert!(overlay.contains(&id).unwrap());
        }
        let nowhere = ObjectId::from_bytes(&vec![7; hash.len()]).unwrap();
        assert!(overlay.read(&nowhere, &mut out).unwrap_err().is_missing() && !overlay.contains(&nowhere).unwrap());
        assert_eq!(files(&repo.objects_dir()).len(), 1, "nothing was written");
        let mut writer = below.writer(quick());
        assert!(overlay.write_to(&mut writer, [nowhere]).is_err());
        overlay.write_to(&mut writer, [a, tree, old]).unwrap();
        writer.finish().unwrap();
        assert_eq!(repo.kind(&tree.to_string()), "tree");
        overlay.clear();
        assert_eq!((overlay.held(), overlay.ids().len()), (0, 0));
        assert!(overlay.contains(&tree).unwrap());
        repo.fsck();
        let _ = Arc::new(overlay); // shared by threads as it is
    }
}
