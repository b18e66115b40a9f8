//! The seam to the file system: every change that publishing, locking and the crates above make goes through it.
//!
//! [`RealFs`] is the default and does what the standard library does. Another implementation can count, record, refuse
//! or shorten each step: packstone's tests prove with two of them what a failure or a power cut at any step leaves.
//! Reading, listing and looking at metadata do not go through the seam.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, IoSlice, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::sys;

/// What a program does to a file system. Handles are real ones; what is done *with* them goes through here, too, with
/// the path that the file had when it was made.
///
/// Every method may fail with what the system says. None retries, but for interrupts.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Creates a file that must not exist (`O_EXCL`), for reading and writing, with these permission bits less the umask.
    fn create_new(&self, path: &Path, mode: u32) -> io::Result<File>;

    /// Writes at the file's position; as [`Write::write`], maybe less than all.
    fn write(&self, path: &Path, file: &File, bytes: &[u8]) -> io::Result<usize>;

    /// As [`write`](Self::write), from several slices; by default only the first that holds anything.
    fn write_vectored(&self, path: &Path, file: &File, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write(path, file, bufs.iter().find(|buf| !buf.is_empty()).map_or(&[], |buf| &**buf))
    }

    /// Cuts or extends the file to `len` bytes.
    fn set_len(&self, path: &Path, file: &File, len: u64) -> io::Result<()>;

    /// Changes the permissions of a directory, or, through its handle, of a file.
    fn set_permissions(&self, path: &Path, file: Option<&File>, permissions: Permissions) -> io::Result<()>;

    /// Content and length to the disk; times may lag (`fdatasync`).
    fn sync_data(&self, path: &Path, file: &File) -> io::Result<()>;

    /// Everything of the file to the disk, its cache included (`fsync`).
    fn sync_full(&self, path: &Path, file: &File) -> io::Result<()>;

    /// Flushes the whole file system that `path` lies on. `false`: not to be had, and nothing was done.
    fn sync_filesystem(&self, path: &Path) -> io::Result<bool>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Closes and reports what closing says: network file systems report a full disk here.
    fn close(&self, path: &Path, file: File) -> io::Result<()>;

    /// Gives a file another name, over a file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// As [`rename`](Self::rename), but fails with [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the name is taken,
    /// in one step. Any other error says that this cannot be done here.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory of mode `0777` less the umask, which must not exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Sets a file's times of access and modification, by its name, in one step; `None`: to now, which needs no more
    /// than the right to write it.
    fn set_times(&self, path: &Path, to: Option<SystemTime>) -> io::Result<()>;

    /// Whether bytes may also reach files by other ways than [`write`](Self::write), such as copies within the kernel.
    /// Default: `false`.
    fn allows_kernel_copies(&self) -> bool {
        false
    }
}

/// The operating system's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl RealFs {
    /// As options carry it.
    pub fn shared() -> Arc<dyn FileSystem> {
        Arc::new(RealFs)
    }
}

impl FileSystem for RealFs {
    fn create_new(&self, path: &Path, mode: u32) -> io::Result<File> {
        sys::create_new(path, mode)
    }

    fn write(&self, _: &Path, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn write_vectored(&self, _: &Path, mut file: &File, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        file.write_vectored(bufs)
    }

    fn set_len(&self, _: &Path, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn set_permissions(&self, path: &Path, file: Option<&File>, permissions: Permissions) -> io::Result<()> {
        match file {
            Some(file) => file.set_permissions(permissions),
            None => fs::set_permissions(path, permissions),
        }
    }

    fn sync_data(&self, _: &Path, file: &File) -> io::Result<()> {
        sys::sync_data(file)
    }

    fn sync_full(&self, _: &Path, file: &File) -> io::Result<()> {
        sys::sync_full(file)
    }

    fn sync_filesystem(&self, path: &Path) -> io::Result<bool> {
        sys::sync_filesystem(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        sys::sync_dir(dir)
    }

    fn close(&self, _: &Path, file: File) -> io::Result<()> {
        sys::close(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        sys::rename_new(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn set_times(&self, path: &Path, to: Option<SystemTime>) -> io::Result<()> {
        sys::set_times(path, to)
    }

    fn allows_kernel_copies(&self) -> bool {
        true
    }
}
