//! What differs between platforms: positioned reads, file identity, paths as bytes. Nothing else names a platform.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Opens for reading, without blocking on anything that is not a regular file (a fifo named like a pack).
pub(crate) fn open_read(path: &Path) -> io::Result<File> {
    imp::open_read(path)
}

/// Fills `out` from `at` on, whatever the length of single reads; `UnexpectedEof` when the file ends before.
pub(crate) fn read_exact_at(file: &File, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
    while !out.is_empty() {
        match imp::read_at(file, out, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                out = out.get_mut(n..).ok_or(io::ErrorKind::InvalidData)?;
                at += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What tells one file or directory from another, however its path is spelt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Identity(imp::Identity);

/// The identity of what `path` leads to, symbolic links followed.
pub(crate) fn identity(path: &Path, meta: &Metadata) -> io::Result<Identity> {
    imp::identity(path, meta).map(Identity)
}

/// The state of a directory or file at one moment. Two equal stamps of a path: nothing seen to have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp(imp::Stamp);

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Stamp {
        Stamp(imp::stamp(meta))
    }

    /// Whether both are the same inode with the same length, times aside. `false` where that cannot be known.
    pub(crate) fn same_file(&self, other: &Stamp) -> bool {
        imp::same_file(&self.0, &other.0)
    }
}

/// A path out of a file's or the environment's bytes; `None` where the platform has no such path.
pub(crate) fn path_from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    imp::path_from_bytes(bytes)
}

/// Whether the error passes by itself (out of handles, stale handle, permission being changed), so that it says nothing
/// about the file's content.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::StaleNetworkFileHandle
    )
}

/// Whether the process or the system has no file handle left.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    imp::is_exhausted(error)
}

#[cfg(unix)]
mod imp {
    use std::ffi::OsStr;
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::{Path, PathBuf};

    use rustix::fs::{Mode, OFlags};

    pub(super) fn open_read(path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        loop {
            match rustix::fs::open(path, flags, Mode::empty()) {
                Ok(fd) => return Ok(File::from(fd)),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    pub(super) fn read_at(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
        file.read_at(out, at)
    }

    pub(super) type Identity = (u64, u64);

    pub(super) fn identity(_: &Path, meta: &Metadata) -> io::Result<Identity> {
        Ok((meta.dev(), meta.ino()))
    }

    /// Device, inode, length, mtime and ctime in nanoseconds.
    pub(super) type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

    pub(super) fn stamp(meta: &Metadata) -> Stamp {
        (meta.dev(), meta.ino(), meta.len(), (meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()))
    }

    pub(super) fn same_file(a: &Stamp, b: &Stamp) -> bool {
        (a.0, a.1, a.2) == (b.0, b.1, b.2)
    }

    pub(super) fn path_from_bytes(bytes: &[u8]) -> Option<PathBuf> {
        Some(PathBuf::from(OsStr::from_bytes(bytes)))
    }

    pub(super) fn is_exhausted(error: &io::Error) -> bool {
        use rustix::io::Errno;
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
    }
}

#[cfg(not(unix))]
mod imp {
    use std::fs::{File, Metadata};
    use std::io;
    use std::path::{Path, PathBuf};
    use std::time::SystemTime;

    pub(super) fn open_read(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    #[cfg(windows)]
    pub(super) fn read_at(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(file, out, at)
    }

    #[cfg(not(windows))]
    pub(super) fn read_at(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
        use std::io::{Read, Seek, SeekFrom};
        // One cursor for all threads: the lock makes seek and read one step.
        static CURSOR: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _guard = CURSOR.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut file = file;
        file.seek(SeekFrom::Start(at))?;
        file.read(out)
    }

    pub(super) type Identity = PathBuf;

    pub(super) fn identity(path: &Path, _: &Metadata) -> io::Result<Identity> {
        path.canonicalize()
    }

    pub(super) type Stamp = (u64, Option<SystemTime>, Option<SystemTime>);

    pub(super) fn stamp(meta: &Metadata) -> Stamp {
        (meta.len(), meta.modified().ok(), meta.created().ok())
    }

    pub(super) fn same_file(_: &Stamp, _: &Stamp) -> bool {
        false
    }

    pub(super) fn path_from_bytes(bytes: &[u8]) -> Option<PathBuf> {
        std::str::from_utf8(bytes).ok().map(PathBuf::from)
    }

    pub(super) fn is_exhausted(error: &io::Error) -> bool {
        // ERROR_TOO_MANY_OPEN_FILES; elsewhere nothing is known about it.
        cfg!(windows) && error.raw_os_error() == Some(4)
    }
}
