//! Publishing: what is there afterwards, whatever went wrong.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use packstone_hashfile::publish::{Batch, DirSync, Fsync, IfExists, Options, Published, TempFile};
use packstone_hashfile::{FileMode, PublishError, Shared, create_dir, create_dir_all};

const POLICIES: [Fsync; 3] = [Fsync::None, Fsync::WriteoutOnly, Fsync::Full];

fn temp(dir: &Path, content: &[u8], options: &Options) -> TempFile {
    let mut file = TempFile::create_in(dir, "tmp_obj_", options).unwrap();
    file.write_all(content).unwrap();
    file
}

fn quick() -> Options {
    Options::default().fsync(Fsync::None)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_has_its_name_and_nothing_else_remains() {
    for fsync in POLICIES {
        for if_exists in [IfExists::Replace, IfExists::Compare, IfExists::Keep, IfExists::Refuse] {
            let dir = tempfile::tempdir().unwrap();
            let file = temp(dir.path(), b"content", &Options::default().fsync(fsync));
            assert!(file.path().file_name().unwrap().to_str().unwrap().starts_with("tmp_obj_"));
            let dest = dir.path().join("x.pack");
            assert_eq!(file.persist(&dest, if_exists).unwrap(), Published::Renamed);
            assert_eq!(names(dir.path()), ["x.pack"]);
            assert_eq!(fs::read(dest).unwrap(), b"content");
        }
    }
}

#[test]
fn an_abandoned_file_goes() {
    let dir = tempfile::tempdir().unwrap();
    let file = temp(dir.path(), b"content", &quick());
    assert_eq!(names(dir.path()).len(), 1);
    drop(file);
    assert_eq!(names(dir.path()), [""; 0]);
}

/// C3: the same name again.
#[test]
fn a_name_that_is_taken() {
    for fsync in POLICIES {
        let options = Options::default().fsync(fsync);
        let dir = tempfile::tempdir().unwrap();
        let dest = dir.path().join("x.pack");
        fs::write(&dest, b"content").unwrap();
        let persist = |content: &[u8], if_exists| temp(dir.path(), content, &options).persist(&dest, if_exists);

        assert_eq!(persist(b"content", IfExists::Compare).unwrap(), Published::AlreadyThere);
        assert_eq!(persist(b"another", IfExists::Keep).unwrap(), Published::AlreadyThere);
        assert!(matches!(persist(b"content", IfExists::Refuse), Err(PublishError::Exists { .. })));
        for (content, differs) in [(&b"conXent"[..], 3), (b"cont", 4), (b"content and more", 7)] {
            match persist(content, IfExists::Compare) {
                Err(PublishError::Collision { path, at }) => {
                    assert_eq!((path.as_path(), at), (dest.as_path(), differs))
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(fs::read(&dest).unwrap(), b"content", "what was there stays");
        assert_eq!(persist(b"another", IfExists::Replace).unwrap(), Published::Renamed);
        assert_eq!(fs::read(&dest).unwrap(), b"another");
        assert_eq!(names(dir.path()), ["x.pack"], "no temporary files remain");
    }
}

#[test]
fn a_directory_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let dest = dir.path().join("x");
    fs::create_dir(&dest).unwrap();
    for if_exists in [IfExists::Replace, IfExists::Compare] {
        assert!(temp(dir.path(), b"content", &quick()).persist(&dest, if_exists).is_err());
    }
    assert_eq!(names(dir.path()), ["x"]);
}

/// The name comes and goes under our feet: every attempt ends in one of the two files, or says that it gave up.
#[test]
fn a_lost_race() {
    let dir = tempfile::tempdir().unwrap();
    let dest = dir.path().join("x.pack");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                temp(dir.path(), b"content", &quick()).persist(&dest, IfExists::Compare).unwrap();
                let _ = fs::remove_file(&dest);
            }
        });
        for _ in 0..500 {
            match temp(dir.path(), b"content", &quick()).persist(&dest, IfExists::Compare) {
                Ok(_) | Err(PublishError::Unsettled { .. }) => {}
                Err(e) => panic!("{e}: {:?}", std::error::Error::source(&e)),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// C2: eight writers of the same names, and one that removes empty directories.
#[test]
fn directories_that_vanish() {
    let root = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    let options = quick().make_dir(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for i in 0..8 {
                    let _ = fs::remove_dir(root.path().join(i.to_string()));
                }
            }
        });
        let writers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    for i in 0..50 {
                        let dir = root.path().join((i % 8).to_string());
                        let dest = dir.join(i.to_string());
                        let attempt = || {
                            let mut file = TempFile::create_in(&dir, "tmp_obj_", &options)?;
                            file.write_all(b"content").unwrap();
                            file.persist(&dest, IfExists::Keep)
                        };
                        attempt().unwrap();
                    }
                })
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    for i in 0..50 {
        let dir = root.path().join((i % 8).to_string());
        assert_eq!(fs::read(dir.join(i.to_string())).unwrap(), b"content");
        assert!(names(&dir).iter().all(|name| !name.starts_with("tmp_")));
    }
}

#[test]
fn a_missing_directory_is_an_error_unless_it_may_be_made() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("12");
    match TempFile::create_in(&dir, "tmp_obj_", &quick()) {
        Err(PublishError::Create { dir: found, source }) => {
            assert_eq!((found, source.kind()), (dir.clone(), std::io::ErrorKind::NotFound));
        }
        other => panic!("{other:?}"),
    }
    // Between the two steps somebody removes it; the temporary file lies elsewhere.
    let options = quick().make_dir(true);
    temp(root.path(), b"content", &options).persist(&dir.join("34"), IfExists::Keep).unwrap();
    assert_eq!(names(&dir), ["34"]);
}

#[test]
fn batches() {
    for (count, fsync) in [(3, Fsync::Full), (40, Fsync::Full), (40, Fsync::WriteoutOnly), (40, Fsync::None)] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default().fsync(fsync);
        fs::write(dir.path().join("1"), b"1").unwrap();
        let mut batch = Batch::new();
        for i in 0..count {
            let file = temp(dir.path(), i.to_string().as_bytes(), &options);
            batch.add(file, &dir.path().join(i.to_string()), IfExists::Compare).unwrap();
        }
        assert!(!dir.path().join("0").exists(), "nothing has its name before commit");
        let answers = batch.commit().unwrap();
        assert_eq!(answers.len(), count);
        assert_eq!(answers[1], Published::AlreadyThere);
        assert_eq!(names(dir.path()).len(), count);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut batch = Batch::new();
    batch.add(temp(dir.path(), b"x", &quick()), &dir.path().join("x"), IfExists::Compare).unwrap();
    drop(batch);
    assert_eq!(names(dir.path()), [""; 0], "a batch that is dropped leaves nothing");
}

#[test]
fn deferred_directory_sync() {
    let dir = tempfile::tempdir().unwrap();
    let mut dirs = DirSync::new();
    for name in ["x.pack", "x.rev", "x.idx"] {
        let file = temp(dir.path(), name.as_bytes(), &Options::default());
        file.persist_deferred(&dir.path().join(name), IfExists::Compare, &mut dirs).unwrap();
    }
    dirs.finish().unwrap();
    let mut dirs = DirSync::new();
    dirs.add_parent_of(&dir.path().join("gone/x"), &packstone_hashfile::RealFs::shared());
    assert!(matches!(dirs.finish(), Err(PublishError::SyncDir { .. })));
}

#[test]
fn values_of_shared_repository() {
    for (text, want) in [
        ("umask", Shared::Umask),
        ("false", Shared::Umask),
        ("0", Shared::Umask),
        ("group", Shared::Group),
        ("True", Shared::Group),
        ("1", Shared::Group),
        ("all", Shared::Everybody),
        ("world", Shared::Everybody),
        ("everybody", Shared::Everybody),
        ("2", Shared::Everybody),
        ("0660", Shared::Exact(0o660)),
        ("0777", Shared::Exact(0o666)),
    ] {
        assert_eq!(text.parse(), Ok(want), "{text}");
    }
    for text in ["0400", "7", "group2", "-1", "0999"] {
        assert!(text.parse::<Shared>().is_err(), "{text}");
    }
}

#[test]
fn widening() {
    let widen = |shared: Shared, mode, is_dir| shared.widen(mode, is_dir) & 0o777;
    assert_eq!(widen(Shared::Umask, 0o400, false), 0o400);
    assert_eq!(widen(Shared::Group, 0o400, false), 0o440, "never writable");
    assert_eq!(widen(Shared::Group, 0o600, false), 0o660);
    assert_eq!(widen(Shared::Group, 0o644, false), 0o664, "widened, not replaced");
    assert_eq!(widen(Shared::Everybody, 0o400, false), 0o444);
    assert_eq!(widen(Shared::Everybody, 0o600, false), 0o664);
    assert_eq!(widen(Shared::Exact(0o640), 0o444, false), 0o440, "narrowed as well");
    assert_eq!(widen(Shared::Exact(0o640), 0o644, false), 0o640);
    assert_eq!(widen(Shared::Group, 0o700, true), 0o770);
    assert_eq!(widen(Shared::Everybody, 0o700, true), 0o775);
    assert_eq!(widen(Shared::Exact(0o660), 0o755, true), 0o770);
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// What the umask leaves of `bits`, learnt from a file: asking for the umask means setting it, for all threads.
    fn after_umask(dir: &Path, bits: u32) -> u32 {
        let path = dir.join("probe");
        let mut options = fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), bits).open(&path).unwrap();
        let mode = mode(&path);
        fs::remove_file(path).unwrap();
        mode
    }

    /// F3.
    #[test]
    fn modes_are_the_umasks_and_widened() {
        let dir = tempfile::tempdir().unwrap();
        for (file_mode, bits) in [(FileMode::ReadOnly, 0o444), (FileMode::ReadWrite, 0o666)] {
            let plain = after_umask(dir.path(), bits);
            for shared in [Shared::Umask, Shared::Group, Shared::Everybody, Shared::Exact(0o640)] {
                let dest = dir.path().join("x");
                let options = quick().mode(file_mode).shared(shared);
                temp(dir.path(), b"content", &options).persist(&dest, IfExists::Replace).unwrap();
                assert_eq!(mode(&dest), shared.widen(plain, false), "{shared:?}");
            }
        }
    }

    #[test]
    fn modes_of_directories() {
        let root = tempfile::tempdir().unwrap();
        let plain = root.path().join("plain");
        create_dir(&plain, Shared::Umask).unwrap();
        create_dir(&plain, Shared::Umask).unwrap(); // again: somebody else made it
        let shared = root.path().join("deep/er/shared");
        assert!(create_dir(&shared, Shared::Group).is_err());
        create_dir_all(&shared, Shared::Group).unwrap();
        assert_eq!(mode(&shared), Shared::Group.widen(mode(&plain), true));
        #[cfg(target_os = "linux")]
        assert_eq!(mode(shared.parent().unwrap()) & 0o2070, 0o2070);
        fs::write(root.path().join("file"), b"").unwrap();
        assert!(create_dir(&root.path().join("file"), Shared::Umask).is_err());
    }

    /// A directory that takes no new names: the error has the path and the system's reason, nothing remains.
    #[test]
    fn a_read_only_directory() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("locked");
        fs::create_dir(&dir).unwrap();
        let file = temp(root.path(), b"content", &quick());
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
        if fs::write(dir.join("probe"), b"").is_ok() {
            return; // the superuser is above modes; `a_file_as_directory` covers the path
        }
        assert!(matches!(TempFile::create_in(&dir, "tmp_", &quick()), Err(PublishError::Create { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied));
        assert!(matches!(file.persist(&dir.join("x"), IfExists::Compare), Err(PublishError::Rename { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied));
        assert_eq!(names(root.path()), ["locked"]);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_file_as_directory() {
        let root = tempfile::tempdir().unwrap();
        let not_a_dir = root.path().join("file");
        fs::write(&not_a_dir, b"").unwrap();
        for options in [quick(), quick().make_dir(true)] {
            assert!(matches!(TempFile::create_in(&not_a_dir, "tmp_", &options), Err(PublishError::Create { .. })));
            for if_exists in [IfExists::Replace, IfExists::Compare] {
                let file = temp(root.path(), b"content", &options);
                assert!(matches!(file.persist(&not_a_dir.join("x"), if_exists), Err(PublishError::Rename { .. })));
            }
        }
        assert_eq!(names(root.path()), ["file"]);
    }
}
