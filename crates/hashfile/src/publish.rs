//! Giving a finished file its name: temporary file, sync, rename, sync of the directory.
//!
//! Until the rename nothing is visible but a `tmp_*` file, which git's `gc` and `prune` remove when it is old and which
//! [`TempFile`] removes when dropped. The order is fixed, and each step must succeed before the next:
//!
//! | step | [`Fsync::Full`] | [`Fsync::WriteoutOnly`] | [`Fsync::None`] | a crash of the machine after it leaves |
//! |---|---|---|---|---|
//! | content written | - | - | - | a temporary file, or none |
//! | permissions widened ([`Shared`]) | yes | yes | yes | the same |
//! | content synced | `fsync` | written out | no | the same |
//! | closed, error checked | yes | yes | yes | the same |
//! | renamed | yes | yes | yes | the name, absent or with its whole content (`None`: perhaps cut) |
//! | directory synced | `fsync` | no | no | the name with its whole content |
//!
//! So with `Full` a name never shows a file whose content could still be lost, and is durable when the call returns.
//! When a set of files has an order (`.pack` and `.rev` before `.idx`), publish them in that order; [`DirSync`] defers the
//! last column to one call, [`Batch`] the sync of many small files to one flush.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::checkpoint::SetLen;
use crate::error::PublishError;
use crate::mode::{FileMode, Shared, create_dir};
use crate::{DEFAULT_IO_BUFFER_SIZE, sys};

/// How often a name or a directory that others keep changing is tried again.
const ATTEMPTS: usize = 6;

/// Below this many files a batch syncs each one: a flush of the whole file system may have to write others' data too.
const BATCH_MIN: usize = 8;

/// What is done so that a file survives a crash of the machine (`core.fsync` and `core.fsyncMethod` in git-config).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// Nothing.
    None,
    /// The content is handed to the disk, whose own cache may still hold it. Where safe code has no call for that
    /// (Linux), `fdatasync`: more than asked.
    WriteoutOnly,
    /// Content and name are on the disk.
    #[default]
    Full,
}

/// What to do when the name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// Replace the file, atomically.
    Replace,
    /// Keep the file if it has the same bytes, else fail: for packs and their indexes, whose names promise content.
    /// A file that vanishes meanwhile is no collision.
    Compare,
    /// Keep the file unread: for loose objects, whose names say all.
    Keep,
    /// Fail.
    Refuse,
}

/// How a name came to have its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// By our file.
    Renamed,
    /// By the file that was there; ours is gone.
    AlreadyThere,
}

/// How files are made and published. All fields have setters of the same name.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Default: [`Fsync::Full`].
    pub fsync: Fsync,
    /// Default: [`FileMode::ReadOnly`].
    pub mode: FileMode,
    /// Default: [`Shared::Umask`].
    pub shared: Shared,
    /// Whether to make the directory if it is missing, or goes missing: fan-out directories of loose objects are
    /// removed by `git prune-packed` when empty. Only the last component. Default: `false`.
    pub make_dir: bool,
}

impl Options {
    /// Sets [`Options::fsync`].
    pub fn fsync(mut self, fsync: Fsync) -> Self {
        self.fsync = fsync;
        self
    }

    /// Sets [`Options::mode`].
    pub fn mode(mut self, mode: FileMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets [`Options::shared`].
    pub fn shared(mut self, shared: Shared) -> Self {
        self.shared = shared;
        self
    }

    /// Sets [`Options::make_dir`].
    pub fn make_dir(mut self, yes: bool) -> Self {
        self.make_dir = yes;
        self
    }
}

/// A file that has no name of its own yet. Removed when dropped.
///
/// A sink for [`HashFile`](crate::HashFile), with [`SetLen`].
///
/// ```
/// use std::io::Write;
/// use object::HashKind;
/// use packstone_hashfile::HashFile;
/// use packstone_hashfile::publish::{IfExists, Options, TempFile};
///
/// let dir = tempfile::tempdir()?;
/// let mut out = HashFile::new(TempFile::create_in(dir.path(), "tmp_pack_", &Options::default())?, HashKind::Sha1);
/// out.write_all(b"PACK...")?;
/// let (file, id) = out.finish()?;
/// let dest = dir.path().join(format!("pack-{id}.pack"));
/// file.persist(&dest, IfExists::Compare)?;
/// assert_eq!(std::fs::metadata(&dest)?.len(), 7 + 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TempFile {
    file: File, // before path: closed before it is removed
    path: TempPath,
    options: Options,
}

impl TempFile {
    /// Creates a file in `dir`, which must be on the file system of the final name, called `prefix` and six random
    /// characters. git's prefixes begin with `tmp_`, by which its cleaners know them.
    ///
    /// The file has its final permissions from the start, so that the umask and default ACLs apply as to any file.
    pub fn create_in(dir: &Path, prefix: &str, options: &Options) -> Result<TempFile, PublishError> {
        let mode = options.mode.bits();
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).rand_bytes(6);
        let made = with_dir(dir, options, || builder.make_in(dir, |path| sys::create_new(path, mode)));
        let made = made.map_err(|source| PublishError::Create { dir: dir.into(), source })?;
        let (file, path) = made.into_parts();
        Ok(TempFile { file, path, options: options.clone() })
    }

    /// Its temporary name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for reading back and for kernel copies into it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it the name `dest`, by all steps of the [module](self)'s table.
    pub fn persist(self, dest: &Path, if_exists: IfExists) -> Result<Published, PublishError> {
        let mut dirs = DirSync::new();
        let published = self.persist_deferred(dest, if_exists, &mut dirs)?;
        dirs.finish()?;
        Ok(published)
    }

    /// Gives it the name `dest`, and leaves the sync of the directory to `dirs`.
    pub fn persist_deferred(
        self,
        dest: &Path,
        if_exists: IfExists,
        dirs: &mut DirSync,
    ) -> Result<Published, PublishError> {
        let TempFile { file, path, options } = self;
        seal(file, &path, options.shared, options.fsync)?;
        let published = settle(path, dest, if_exists, &options)?;
        if options.fsync == Fsync::Full {
            dirs.add_parent_of(dest);
        }
        Ok(published)
    }
}

impl Write for TempFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.file.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Read for TempFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read(buf)
    }
}

impl Seek for TempFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl SetLen for TempFile {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

/// Directories whose new names are to be made durable, each once.
#[derive(Debug, Default)]
#[must_use = "names are durable only after `finish`"]
pub struct DirSync {
    dirs: BTreeSet<PathBuf>,
}

impl DirSync {
    /// None yet.
    pub fn new() -> Self {
        DirSync::default()
    }

    /// Adds the directory that `path` lies in.
    pub fn add_parent_of(&mut self, path: &Path) {
        self.dirs.insert(path.parent().unwrap_or(Path::new("")).into());
    }

    /// Syncs them. Files renamed before this call keep their names through a crash.
    pub fn finish(self) -> Result<(), PublishError> {
        for dir in self.dirs {
            sys::sync_dir(&dir).map_err(|source| PublishError::SyncDir { dir, source })?;
        }
        Ok(())
    }
}

/// Many small files, published together for the price of one flush (as `core.fsyncMethod=batch` aims for).
///
/// Nothing has its name before [`commit`](Batch::commit), which makes all contents durable first: on Linux by flushing
/// the file system as a whole (`syncfs`, which reports write errors since Linux 5.8), elsewhere and for a few files
/// one by one.
#[derive(Debug, Default)]
#[must_use = "nothing is published before `commit`"]
pub struct Batch {
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct Pending {
    path: TempPath,
    dest: PathBuf,
    if_exists: IfExists,
    options: Options,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Adds a finished file. It is closed, so a batch may be larger than the limit on open files.
    pub fn add(&mut self, file: TempFile, dest: &Path, if_exists: IfExists) -> Result<(), PublishError> {
        let TempFile { file, path, options } = file;
        seal(file, &path, options.shared, Fsync::None)?;
        self.pending.push(Pending { path, dest: dest.into(), if_exists, options });
        Ok(())
    }

    /// Publishes all, in the order they were added; the answers are in that order, too.
    ///
    /// On an error the files before it keep their names and those after it are gone.
    pub fn commit(self) -> Result<Vec<Published>, PublishError> {
        self.sync()?;
        let mut dirs = DirSync::new();
        let mut answers = Vec::with_capacity(self.pending.len());
        for Pending { path, dest, if_exists, options } in self.pending {
            answers.push(settle(path, &dest, if_exists, &options)?);
            if options.fsync == Fsync::Full {
                dirs.add_parent_of(&dest);
            }
        }
        dirs.finish()?;
        Ok(answers)
    }

    fn sync(&self) -> Result<(), PublishError> {
        let wanted = || self.pending.iter().filter(|p| p.options.fsync != Fsync::None);
        let whole = wanted().count() >= BATCH_MIN;
        let mut flushed = BTreeSet::new();
        for Pending { path, options, .. } in wanted() {
            let step = || -> io::Result<()> {
                if whole {
                    let device = sys::device(path)?;
                    if flushed.contains(&device) {
                        return Ok(());
                    }
                    if sys::sync_filesystem(path)? {
                        flushed.insert(device);
                        return Ok(());
                    }
                }
                sync(&File::open(path)?, options.fsync)
            };
            let mut step = step;
            step().map_err(|source| PublishError::Prepare { step: "sync", path: path.to_path_buf(), source })?;
        }
        Ok(())
    }
}

/// Permissions, sync, close: what must succeed before a file may have a name.
pub(crate) fn seal(file: File, path: &Path, shared: Shared, fsync: Fsync) -> Result<(), PublishError> {
    let failed = |step| move |source| PublishError::Prepare { step, path: path.into(), source };
    shared.apply_to_file(&file).map_err(failed("set the mode of"))?;
    sync(&file, fsync).map_err(failed("sync"))?;
    sys::close(file).map_err(failed("close"))
}

fn sync(file: &File, fsync: Fsync) -> io::Result<()> {
    match fsync {
        Fsync::None => Ok(()),
        Fsync::WriteoutOnly => sys::sync_data(file),
        Fsync::Full => sys::sync_full(file),
    }
}

/// Renames a sealed file, or finds that it need not be.
fn settle(path: TempPath, dest: &Path, if_exists: IfExists, options: &Options) -> Result<Published, PublishError> {
    let mut path = path;
    for _ in 0..ATTEMPTS {
        let renamed = match if_exists {
            IfExists::Replace => path.persist(dest),
            _ => persist_new(path, dest),
        };
        let failure = match renamed {
            Ok(()) => return Ok(Published::Renamed),
            Err(failure) => failure,
        };
        path = failure.path;
        let source = failure.error;
        match source.kind() {
            io::ErrorKind::AlreadyExists if if_exists == IfExists::Refuse => {
                return Err(PublishError::Exists { path: dest.into() });
            }
            io::ErrorKind::AlreadyExists if if_exists != IfExists::Replace => {
                match keep_existing(&path, dest, if_exists, options.fsync)? {
                    Existing::Kept => return Ok(Published::AlreadyThere),
                    Existing::Vanished => {}
                }
            }
            io::ErrorKind::NotFound if options.make_dir && path.exists() => {
                let dir = dest.parent().unwrap_or(Path::new(""));
                let made = create_dir(dir, options.shared);
                made.map_err(|source| PublishError::Rename { from: path.to_path_buf(), to: dest.into(), source })?;
            }
            _ => return Err(PublishError::Rename { from: path.to_path_buf(), to: dest.into(), source }),
        }
    }
    Err(PublishError::Unsettled { path: dest.into() })
}

/// Renames unless the name is taken, as one step where system and file system can do that.
fn persist_new(path: TempPath, dest: &Path) -> Result<(), tempfile::PathPersistError> {
    let mut failure = match path.persist_noclobber(dest) {
        Ok(()) => return Ok(()),
        Err(failure) => failure,
    };
    match failure.error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => Err(failure),
        // Neither an exclusive rename nor hard links here: look first. Two writers may then both rename; what they
        // write under one name is the same unless something is badly wrong.
        _ => match dest.symlink_metadata() {
            Ok(_) => {
                failure.error = io::ErrorKind::AlreadyExists.into();
                Err(failure)
            }
            Err(_) => failure.path.persist(dest),
        },
    }
}

enum Existing {
    Kept,
    Vanished,
}

/// Decides about a file that has the name already. If it stays, it is as durable as ours would have been.
fn keep_existing(ours: &Path, dest: &Path, if_exists: IfExists, fsync: Fsync) -> Result<Existing, PublishError> {
    let failed = |source| PublishError::Existing { path: dest.into(), source };
    let theirs = match File::open(dest) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Existing::Vanished),
        // A name that cannot be read is still taken, and a loose object need not be read.
        Err(_) if if_exists == IfExists::Keep => return Ok(Existing::Kept),
        Err(e) => return Err(failed(e)),
    };
    if if_exists == IfExists::Compare {
        let ours = match File::open(ours) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Existing::Vanished), // the rename will say so
            Err(source) => return Err(PublishError::Prepare { step: "read", path: ours.into(), source }),
        };
        if let Some(at) = first_difference(ours, &theirs).map_err(failed)? {
            return Err(PublishError::Collision { path: dest.into(), at });
        }
    }
    sync(&theirs, fsync).map_err(failed)?;
    Ok(Existing::Kept)
}

/// The first offset at which two streams differ; the length of the shorter if it begins the other.
fn first_difference(mut a: impl Read, mut b: impl Read) -> io::Result<Option<u64>> {
    let mut left = vec![0; DEFAULT_IO_BUFFER_SIZE];
    let mut right = vec![0; DEFAULT_IO_BUFFER_SIZE];
    let mut at = 0;
    loop {
        let (n, m) = (read_full(&mut a, &mut left)?, read_full(&mut b, &mut right)?);
        if left[..n] != right[..m] {
            let same = left[..n].iter().zip(&right[..m]).take_while(|(x, y)| x == y).count();
            return Ok(Some(at + same as u64));
        }
        if n < left.len() {
            return Ok(None);
        }
        at += n as u64;
    }
}

fn read_full(source: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < buf.len() {
        match source.read(&mut buf[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(have)
}

/// Runs `step`, and again after making `dir`, for as long as the directory is missing and may be made.
fn with_dir<T>(dir: &Path, options: &Options, mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut attempts = ATTEMPTS;
    loop {
        match step() {
            Err(e) if e.kind() == io::ErrorKind::NotFound && options.make_dir && attempts > 0 => {
                attempts -= 1;
                create_dir(dir, options.shared)?;
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_where_they_are() {
        let long = vec![1u8; DEFAULT_IO_BUFFER_SIZE * 2 + 5];
        assert_eq!(first_difference(&long[..], &long[..]).unwrap(), None);
        for at in [0, 1, DEFAULT_IO_BUFFER_SIZE - 1, DEFAULT_IO_BUFFER_SIZE, long.len() - 1] {
            let mut other = long.clone();
            other[at] = 2;
            assert_eq!(first_difference(&long[..], &other[..]).unwrap(), Some(at as u64));
            assert_eq!(first_difference(&long[..at], &long[..]).unwrap(), Some(at as u64));
            assert_eq!(first_difference(&long[..], &long[..at]).unwrap(), Some(at as u64));
        }
    }

    #[test]
    fn a_name_that_vanishes_is_no_collision() {
        let dir = tempfile::tempdir().unwrap();
        let (here, gone) = (dir.path().join("here"), dir.path().join("gone"));
        std::fs::write(&here, b"x").unwrap();
        for (ours, theirs) in [(&here, &gone), (&gone, &here)] {
            let answer = keep_existing(ours, theirs, IfExists::Compare, Fsync::None);
            assert!(matches!(answer, Ok(Existing::Vanished)));
        }
    }
}
