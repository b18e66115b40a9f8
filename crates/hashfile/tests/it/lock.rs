//! Lock files: who gets them, what a commit and a rollback leave, what the loser is told.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use object::HashKind;
use packstone_hashfile::lock::{Holder, LockError, LockFile, Options};
use packstone_hashfile::publish::Fsync;
use packstone_hashfile::{HashFile, PublishError};

fn quick() -> Options {
    Options::default().fsync(Fsync::None)
}

fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (path, lock) = (dir.path().join("index"), dir.path().join("index.lock"));
    (dir, path, lock)
}

#[test]
fn commit_and_rollback() {
    for fsync in [Fsync::None, Fsync::WriteoutOnly, Fsync::Full] {
        let (_dir, path, lock_path) = place();
        fs::write(&path, b"old").unwrap();
        let mut lock = LockFile::acquire(&path, &Options::default().fsync(fsync)).unwrap();
        assert_eq!((lock.path(), lock.target()), (lock_path.as_path(), path.as_path()));
        lock.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        lock.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(!lock_path.exists());

        let mut lock = LockFile::acquire(&path, &quick()).unwrap();
        lock.write_all(b"half").unwrap();
        drop(lock);
        LockFile::acquire(&path, &quick()).unwrap().rollback().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(!lock_path.exists());
    }
}

/// H2: a writer that fails gives the lock up and leaves the file.
#[test]
fn a_failed_write_leaves_the_file() {
    let (_dir, path, lock_path) = place();
    fs::write(&path, b"old").unwrap();
    let mut out = HashFile::new(LockFile::acquire(&path, &quick()).unwrap(), HashKind::Sha1);
    out.write_all(b"half").unwrap();
    out.flush().unwrap();
    assert!(lock_path.exists());
    drop(out);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert!(!lock_path.exists());
}

#[test]
fn a_held_lock() {
    let (_dir, path, lock_path) = place();
    let _held = LockFile::acquire(&path, &quick()).unwrap();
    match LockFile::acquire(&path, &quick()) {
        Err(e @ LockError::Held { .. }) => {
            let text = e.to_string();
            assert!(text.contains(lock_path.to_str().unwrap()), "{text}");
            assert!(text.contains("another process may be at work"), "{text}");
            assert!(text.contains("remove the file and try again"), "{text}");
            let source = std::error::Error::source(&e).unwrap().to_string();
            assert!(source.contains("exists"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert!(lock_path.exists(), "the loser leaves the winner's lock alone");
}

#[test]
fn waiting_for_a_lock() {
    let (_dir, path, lock_path) = place();
    let held = LockFile::acquire(&path, &quick()).unwrap();
    let started = Instant::now();
    let patient = quick().timeout(Duration::from_millis(60));
    match LockFile::acquire(&path, &patient) {
        Err(LockError::Held { waited, .. }) => assert!(waited >= Duration::from_millis(60)),
        other => panic!("{other:?}"),
    }
    assert!(started.elapsed() < Duration::from_secs(10));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| LockFile::acquire(&path, &quick().timeout(Duration::MAX)).map(drop));
        std::thread::sleep(Duration::from_millis(30));
        held.commit().unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert!(path.exists() && !lock_path.exists());
}

/// Many writers, one file: each reads, adds one, commits; none is lost.
#[test]
fn the_lock_excludes() {
    let (_dir, path, _) = place();
    fs::write(&path, b"0").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let mut lock = LockFile::acquire(&path, &quick().timeout(Duration::from_secs(60))).unwrap();
                    let count: u32 = fs::read_to_string(&path).unwrap().parse().unwrap();
                    write!(lock, "{}", count + 1).unwrap();
                    lock.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(fs::read(&path).unwrap(), b"100");
}

#[test]
fn the_directory_must_exist() {
    let (dir, _, _) = place();
    let path = dir.path().join("gone/index");
    match LockFile::acquire(&path, &quick().timeout(Duration::MAX)) {
        Err(LockError::Create { path: found, source }) => {
            assert_eq!(found, dir.path().join("gone/index.lock"));
            assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
        }
        other => panic!("{other:?}"),
    }
}

/// What is locked became a directory: the commit fails, nothing is left behind.
#[test]
fn a_commit_that_cannot_be() {
    let (dir, path, lock_path) = place();
    let lock = LockFile::acquire(&path, &quick()).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(lock.commit(), Err(PublishError::Rename { .. })));
    assert!(!lock_path.exists());
    // The lock file was stolen.
    let lock = LockFile::acquire(&dir.path().join("other"), &quick()).unwrap();
    fs::remove_file(lock.path()).unwrap();
    assert!(matches!(lock.commit(), Err(PublishError::Rename { .. })));
    let lock = LockFile::acquire(&dir.path().join("other"), &quick()).unwrap();
    fs::remove_file(lock.path()).unwrap();
    assert!(lock.rollback().is_err());
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_are_followed() {
        let (dir, path, _) = place();
        let real = dir.path().join("real");
        fs::write(&real, b"old").unwrap();
        symlink("middle", &path).unwrap();
        symlink(&real, dir.path().join("middle")).unwrap();
        let mut lock = LockFile::acquire(&path, &quick()).unwrap();
        assert_eq!(lock.target(), real);
        lock.write_all(b"new").unwrap();
        lock.commit().unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(path.is_symlink());

        LockFile::acquire(&path, &quick().follow_links(false)).unwrap().commit().unwrap();
        assert!(!path.is_symlink(), "the link itself was replaced");
    }

    #[test]
    fn links_that_lead_nowhere() {
        let (_dir, path, lock_path) = place();
        symlink("index", &path).unwrap();
        let lock = LockFile::acquire(&path, &quick()).unwrap();
        assert_eq!(lock.path(), lock_path);
    }

    #[test]
    fn who_holds_it() {
        let (dir, path, lock_path) = place();
        let pid_path = dir.path().join("index~pid.lock");
        let holder = || match LockFile::acquire(&path, &quick()) {
            Err(e @ LockError::Held { holder, .. }) => (holder, e.to_string()),
            other => panic!("{other:?}"),
        };

        let held = LockFile::acquire(&path, &quick().record_pid(true)).unwrap();
        assert_eq!(fs::read_to_string(&pid_path).unwrap(), format!("pid {}\n", std::process::id()));
        let (who, text) = holder();
        assert_eq!(who, Holder::Running { pid: std::process::id() });
        assert!(text.contains(&format!("process {} may hold it", std::process::id())), "{text}");
        held.commit().unwrap();
        assert!(!pid_path.exists());

        // A process that has ended and been waited for.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = child.id();
        child.wait().unwrap();
        fs::write(&lock_path, b"").unwrap();
        fs::write(&pid_path, format!("pid {gone}\n")).unwrap();
        let (who, text) = holder();
        assert_eq!(who, Holder::Gone { pid: gone });
        assert!(text.contains("no longer runs: remove the file"), "{text}");
        for garbage in ["", "pid", "pid 0", "pid -1", "pid x", "12", "pid 99999999999999999999"] {
            fs::write(&pid_path, garbage).unwrap();
            assert_eq!(holder().0, Holder::Unknown, "{garbage}");
        }
    }

    /// F3: the index and its like.
    #[test]
    fn modes() {
        use packstone_hashfile::Shared;
        let (dir, path, _) = place();
        fs::write(dir.path().join("probe"), b"").unwrap();
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let plain = mode(&dir.path().join("probe"));
        for shared in [Shared::Umask, Shared::Group, Shared::Exact(0o600)] {
            LockFile::acquire(&path, &quick().shared(shared)).unwrap().commit().unwrap();
            assert_eq!(mode(&path), shared.widen(plain, false));
        }
    }
}
