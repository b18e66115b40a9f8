//! What only some systems have: modes, directory sync, a checked close. Nothing else in this crate names a platform.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Permission bits of a file as it is created, before the umask.
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

#[cfg(unix)]
pub(crate) fn mode(meta: &fs::Metadata) -> Option<u32> {
    Some(std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o7777)
}

#[cfg(not(unix))]
pub(crate) fn mode(_: &fs::Metadata) -> Option<u32> {
    None
}

/// The permissions with these bits, where there are such bits.
#[cfg(unix)]
pub(crate) fn permissions(mode: u32) -> Option<fs::Permissions> {
    Some(std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
pub(crate) fn permissions(_: u32) -> Option<fs::Permissions> {
    None
}

/// The set-group-id bit, where a directory with it hands its group to what is made in it. On BSDs and macOS every
/// directory does so, and setting the bit may be refused.
pub(crate) const DIR_SETGID: u32 = if cfg!(any(target_os = "linux", target_os = "android")) { 0o2000 } else { 0 };

/// Makes the names in `dir` durable. Where directories cannot be synced there is nothing to do.
#[cfg(unix)]
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    let dir = File::open(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })?;
    loop {
        match rustix::fs::fsync(&dir) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            // A file system that has no such notion says so in one of these ways.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP | rustix::io::Errno::NOSYS) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Everything to the disk, its own cache included.
pub(crate) fn sync_full(file: &File) -> io::Result<()> {
    retry(|| file.sync_all())
}

/// Content and length to the disk; times may lag.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    retry(|| file.sync_data())
}

/// Flushes the whole file system that `path` lies on, with one flush of the disk's cache. `false`: not available.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn sync_filesystem(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    retry(|| rustix::fs::syncfs(&file).map_err(io::Error::from))?;
    Ok(true)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn sync_filesystem(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// The file system that `path` lies on.
#[cfg(unix)]
pub(crate) fn device(path: &Path) -> io::Result<u64> {
    Ok(std::os::unix::fs::MetadataExt::dev(&fs::metadata(path)?))
}

#[cfg(not(unix))]
pub(crate) fn device(_: &Path) -> io::Result<u64> {
    Ok(0)
}

/// Closes and reports what closing says: network file systems report a full disk here.
#[cfg(unix)]
pub(crate) fn close(file: File) -> io::Result<()> {
    nix::unistd::close(file).map_err(io::Error::from)
}

#[cfg(not(unix))]
pub(crate) fn close(file: File) -> io::Result<()> {
    drop(file);
    Ok(())
}

/// Renames unless the name is taken, in one step where the system has one, else by a hard link.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => link_new(from, to),
        Err(e) => Err(e.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    link_new(from, to)
}

fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    let _ = fs::remove_file(from); // it has its name; the other one is litter that cleaners know
    Ok(())
}

/// Access and modification time, by name; `None`: now, which others than the owner may set, too, if they may write.
#[cfg(unix)]
pub(crate) fn set_times(path: &Path, to: Option<std::time::SystemTime>) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
    let time = match to {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW as _ },
        Some(time) => match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => Timespec {
                tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX) as _,
                tv_nsec: since.subsec_nanos() as _,
            },
            Err(_) => Timespec { tv_sec: 0, tv_nsec: 0 },
        },
    };
    utimensat(CWD, path, &Timestamps { last_access: time, last_modification: time }, AtFlags::empty())?;
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn set_times(path: &Path, to: Option<std::time::SystemTime>) -> io::Result<()> {
    let time = to.unwrap_or_else(std::time::SystemTime::now);
    // Only a handle with the right to write attributes will do; a read-only file gives none that writes content.
    let file = OpenOptions::new().write(true).open(path).or_else(|_| File::open(path))?;
    file.set_times(fs::FileTimes::new().set_accessed(time).set_modified(time))
}

/// Whether a process runs. `None`: cannot tell.
#[cfg(unix)]
pub(crate) fn process_runs(pid: u32) -> Option<bool> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    match rustix::process::test_kill_process(pid) {
        Ok(()) | Err(rustix::io::Errno::PERM) => Some(true),
        Err(rustix::io::Errno::SRCH) => Some(false),
        Err(_) => None,
    }
}

#[cfg(not(unix))]
pub(crate) fn process_runs(_: u32) -> Option<bool> {
    None
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
