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
//! | renamed, or, if no file may be replaced, linked | yes | yes | yes | the name, absent or with its whole content (`None`: perhaps cut) |
//! | directory synced | `fsync` | no | no | the name with its whole content |
//!
//! So with `Full` a name never shows a file whose content could still be lost, and is durable when the call returns.
//! When a set of files has an order (`.pack` and `.rev` before `.idx`), publish them in that order; [`DirSync`] defers the
//! last column to one call, [`Batch`] the sync of many small files to one flush.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::SetLen;
use crate::error::PublishError;
use crate::fs::{FileSystem, RealFs};
use crate::mode::{FileMode, Shared, create_dir_on};
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
    /// Keep the file unread, with a new time, so that nobody takes it for old: for loose objects, whose names say all.
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

/// How a file that must not take another's place gets its name (`core.createObject` in git-config).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placing {
    /// In one step that fails if the name is taken: a rename that does not replace, or a hard link.
    #[default]
    Link,
    /// Look, then rename: for file systems on which neither can be relied on.
    Rename,
}

/// How files are made and published. All fields have setters of the same name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Default: [`Fsync::Full`].
    pub fsync: Fsync,
    /// Default: [`FileMode::ReadOnly`].
    pub mode: FileMode,
    /// Default: [`Shared::Umask`].
    pub shared: Shared,
    /// Whether to make the directory if it is missing, or goes missing: fan-out directories of loose objects are
    /// removed by `git prune-packed` when empty. Only the last component. With [`Fsync::Full`] the new directory's own
    /// name is synced, too. Default: `false`.
    pub make_dir: bool,
    /// Default: [`Placing::Link`].
    pub placing: Placing,
    /// Where all this happens. Default: [`RealFs`].
    pub fs: Arc<dyn FileSystem>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            fsync: Fsync::default(),
            mode: FileMode::default(),
            shared: Shared::default(),
            make_dir: false,
            placing: Placing::default(),
            fs: RealFs::shared(),
        }
    }
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

    /// Sets [`Options::placing`].
    pub fn placing(mut self, placing: Placing) -> Self {
        self.placing = placing;
        self
    }

    /// Sets [`Options::fs`].
    pub fn fs(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.fs = fs;
        self
    }
}

/// A temporary name. The file is removed when it is dropped, unless it got another name.
#[derive(Debug)]
pub(crate) struct TempName {
    path: PathBuf,
    fs: Arc<dyn FileSystem>,
}

impl TempName {
    pub(crate) fn new(path: PathBuf, fs: Arc<dyn FileSystem>) -> TempName {
        TempName { path, fs }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn rename(mut self, to: &Path) -> Result<(), (TempName, io::Error)> {
        match self.fs.rename(&self.path, to) {
            Ok(()) => {
                self.path = PathBuf::new();
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }

    fn rename_new(mut self, to: &Path) -> Result<(), (TempName, io::Error)> {
        match self.fs.rename_new(&self.path, to) {
            Ok(()) => {
                self.path = PathBuf::new();
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }

    /// Removes the file and says whether that went well.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        self.fs.remove_file(&std::mem::take(&mut self.path))
    }
}

impl Drop for TempName {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = self.fs.remove_file(&self.path);
        }
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
    file: File, // before name: closed before it is removed
    name: TempName,
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
        let make = || {
            let (file, path) = builder.make_in(dir, |path| options.fs.create_new(path, mode))?.into_parts();
            Ok((file, path.keep()?)) // it is our own guard that removes it
        };
        let (file, path) =
            with_dir(dir, options, make).map_err(|source| PublishError::Create { dir: dir.into(), source })?;
        Ok(TempFile { file, name: TempName::new(path, Arc::clone(&options.fs)), options: options.clone() })
    }

    /// Its temporary name.
    pub fn path(&self) -> &Path {
        self.name.path()
    }

    /// The open file, for reading back, and for kernel copies into it if the file system
    /// [allows](FileSystem::allows_kernel_copies) them.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// How it was made.
    pub fn options(&self) -> &Options {
        &self.options
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
        let TempFile { file, name, options } = self;
        seal(&*options.fs, file, name.path(), options.shared, options.fsync)?;
        settle(name, dest, if_exists, &options, dirs)
    }
}

impl Write for TempFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.options.fs.write(self.name.path(), &self.file, bytes)
    }

    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.options.fs.write_vectored(self.name.path(), &self.file, bufs)
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
        self.options.fs.set_len(self.name.path(), &self.file, len)
    }
}

/// Directories whose new names are to be made durable, each once.
#[derive(Debug, Default)]
#[must_use = "names are durable only after `finish`"]
pub struct DirSync {
    dirs: BTreeMap<PathBuf, Arc<dyn FileSystem>>,
}

impl DirSync {
    /// None yet.
    pub fn new() -> Self {
        DirSync::default()
    }

    /// Adds the directory that `path` lies in.
    pub fn add_parent_of(&mut self, path: &Path, fs: &Arc<dyn FileSystem>) {
        let dir = path.parent().unwrap_or(Path::new(""));
        if !self.dirs.contains_key(dir) {
            self.dirs.insert(dir.into(), Arc::clone(fs));
        }
    }

    /// Syncs them, the longest paths first, so that a directory's names are durable before its own. Files renamed
    /// before this call keep their names through a crash.
    pub fn finish(self) -> Result<(), PublishError> {
        for (dir, fs) in self.dirs.into_iter().rev() {
            fs.sync_dir(&dir).map_err(|source| PublishError::SyncDir { dir, source })?;
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
    name: TempName,
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
        let TempFile { file, name, options } = file;
        seal(&*options.fs, file, name.path(), options.shared, Fsync::None)?;
        self.pending.push(Pending { name, dest: dest.into(), if_exists, options });
        Ok(())
    }

    /// Adds a file that somebody else wrote and closed. Until it is published, it is removed when the batch is dropped.
    pub fn add_path(&mut self, path: &Path, dest: &Path, if_exists: IfExists, options: &Options) {
        let name = TempName::new(path.into(), Arc::clone(&options.fs));
        self.pending.push(Pending { name, dest: dest.into(), if_exists, options: options.clone() });
    }

    /// Files that wait.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Publishes all, in the order they were added; the answers are in that order, too.
    ///
    /// On an error the files before it keep their names and those after it are gone.
    pub fn commit(self) -> Result<Vec<Published>, PublishError> {
        self.sync()?;
        let mut dirs = DirSync::new();
        let mut answers = Vec::with_capacity(self.pending.len());
        for Pending { name, dest, if_exists, options } in self.pending {
            answers.push(settle(name, &dest, if_exists, &options, &mut dirs)?);
            if options.fsync == Fsync::Full && options.make_dir {
                // Whoever made that directory may not have synced its name yet; for a whole batch that is one more call.
                dirs.add_parent_of(dest.parent().unwrap_or(Path::new("")), &options.fs);
            }
        }
        dirs.finish()?;
        Ok(answers)
    }

    fn sync(&self) -> Result<(), PublishError> {
        let wanted = || self.pending.iter().filter(|p| p.options.fsync != Fsync::None);
        let whole = wanted().count() >= BATCH_MIN;
        let mut flushed = BTreeSet::new();
        for Pending { name, options, .. } in wanted() {
            let path = name.path();
            let mut step = || -> io::Result<()> {
                if whole {
                    let device = sys::device(path)?;
                    if flushed.contains(&device) {
                        return Ok(());
                    }
                    if options.fs.sync_filesystem(path)? {
                        flushed.insert(device);
                        return Ok(());
                    }
                }
                sync(&*options.fs, path, &File::open(path)?, options.fsync)
            };
            step().map_err(|source| PublishError::Prepare { step: "sync", path: path.to_path_buf(), source })?;
        }
        Ok(())
    }
}

/// Permissions, sync, close: what must succeed before a file may have a name.
pub(crate) fn seal(
    fs: &dyn FileSystem,
    file: File,
    path: &Path,
    shared: Shared,
    fsync: Fsync,
) -> Result<(), PublishError> {
    let failed = |step| move |source| PublishError::Prepare { step, path: path.into(), source };
    shared.apply_to_file(fs, path, &file).map_err(failed("set the mode of"))?;
    sync(fs, path, &file, fsync).map_err(failed("sync"))?;
    fs.close(path, file).map_err(failed("close"))
}

fn sync(fs: &dyn FileSystem, path: &Path, file: &File, fsync: Fsync) -> io::Result<()> {
    match fsync {
        Fsync::None => Ok(()),
        Fsync::WriteoutOnly => fs.sync_data(path, file),
        Fsync::Full => fs.sync_full(path, file),
    }
}

/// Renames a sealed file, or finds that it need not be. What directories have to be synced then goes to `dirs`.
fn settle(
    name: TempName,
    dest: &Path,
    if_exists: IfExists,
    options: &Options,
    dirs: &mut DirSync,
) -> Result<Published, PublishError> {
    let mut name = name;
    for _ in 0..ATTEMPTS {
        let renamed = match if_exists {
            IfExists::Replace => name.rename(dest),
            _ => persist_new(name, dest, options.placing),
        };
        let source = match renamed {
            Ok(()) => {
                if options.fsync == Fsync::Full {
                    dirs.add_parent_of(dest, &options.fs);
                }
                return Ok(Published::Renamed);
            }
            Err((same, source)) => {
                name = same;
                source
            }
        };
        match source.kind() {
            io::ErrorKind::AlreadyExists if if_exists == IfExists::Refuse => {
                return Err(PublishError::Exists { path: dest.into() });
            }
            io::ErrorKind::AlreadyExists if if_exists != IfExists::Replace => {
                match keep_existing(name.path(), dest, if_exists, options)? {
                    Existing::Kept => {
                        if if_exists == IfExists::Keep {
                            let _ = options.fs.set_times(dest, None); // if it is somebody else's, that one sees to it
                        }
                        if options.fsync == Fsync::Full {
                            dirs.add_parent_of(dest, &options.fs);
                        }
                        return Ok(Published::AlreadyThere);
                    }
                    Existing::Vanished => {}
                }
            }
            io::ErrorKind::NotFound if options.make_dir && name.path().exists() => {
                let dir = dest.parent().unwrap_or(Path::new(""));
                let made = create_dir_on(&*options.fs, dir, options.shared);
                made.map_err(|source| PublishError::Rename { from: name.path().into(), to: dest.into(), source })?;
                if options.fsync == Fsync::Full {
                    dirs.add_parent_of(dir, &options.fs);
                }
            }
            _ => return Err(PublishError::Rename { from: name.path().into(), to: dest.into(), source }),
        }
    }
    Err(PublishError::Unsettled { path: dest.into() })
}

/// Renames unless the name is taken, as one step where system and file system can do that.
fn persist_new(name: TempName, dest: &Path, placing: Placing) -> Result<(), (TempName, io::Error)> {
    let (name, error) = match placing {
        Placing::Link => match name.rename_new(dest) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        },
        Placing::Rename => (name, io::ErrorKind::Unsupported.into()),
    };
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => Err((name, error)),
        // Neither an exclusive rename nor hard links here: look first. Two writers may then both rename; what they
        // write under one name is the same unless something is badly wrong.
        _ => match dest.symlink_metadata() {
            Ok(_) => Err((name, io::ErrorKind::AlreadyExists.into())),
            Err(_) => name.rename(dest),
        },
    }
}

enum Existing {
    Kept,
    Vanished,
}

/// Decides about a file that has the name already. If it stays, it is as durable as ours would have been.
fn keep_existing(ours: &Path, dest: &Path, if_exists: IfExists, options: &Options) -> Result<Existing, PublishError> {
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
    sync(&*options.fs, dest, &theirs, options.fsync).map_err(failed)?;
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

/// Makes a directory, widened as the options say, and with [`Fsync::Full`] its name durable. That it exists already is
/// success, and is as durable as whoever made it did.
pub fn make_dir(dir: &Path, options: &Options) -> io::Result<()> {
    let new = !dir.is_dir();
    create_dir_on(&*options.fs, dir, options.shared)?;
    if !new || options.fsync != Fsync::Full {
        return Ok(());
    }
    options.fs.sync_dir(dir.parent().unwrap_or(Path::new(""))).inspect_err(|_| {
        // Else the next writer would find it there and rely on it.
        let _ = options.fs.remove_dir(dir);
    })
}

/// Runs `step`, and again after making `dir`, for as long as the directory is missing and may be made.
fn with_dir<T>(dir: &Path, options: &Options, mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut attempts = ATTEMPTS;
    loop {
        match step() {
            Err(e) if e.kind() == io::ErrorKind::NotFound && options.make_dir && attempts > 0 => {
                attempts -= 1;
                make_dir(dir, options)?;
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
            let options = Options::default().fsync(Fsync::None);
            let answer = keep_existing(ours, theirs, IfExists::Compare, &options);
            assert!(matches!(answer, Ok(Existing::Vanished)));
        }
    }
}
