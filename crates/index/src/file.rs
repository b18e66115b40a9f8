//! Index files on disk: opening one with what it builds on, and replacing one safely.
//!
//! # What a crash leaves
//! [`save`] writes to `NAME.lock` and renames it over `NAME` when every byte has been accepted (and synced, if asked): at any
//! moment `NAME` is the old index or the new one, whole. A shared index gets its name, which is its checksum, before the
//! index that needs it is renamed, and one that is no longer named is only removed after. What can be left over is a
//! lock file, a temporary `sharedindex_*`, or a shared index that nobody names; never an index without its shared one.

use std::fs::{self, File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use bumpalo::Bump;
use hashfile::FileMode;
use hashfile::lock::LockFile;
use hashfile::publish::{self, IfExists, TempFile};
use object::ObjectId;

use crate::error::{ReadError, ReadErrorKind, WriteError};
use crate::index::Index;
use crate::read::ReadOptions;
use crate::source::{ByteSource, Bytes};
use crate::split::Split;
use crate::stat::{Stat, Time};
use crate::write::{WriteOptions, Written};

/// The name of the shared index with this checksum: `sharedindex.` and its digits.
pub fn shared_name(base: &ObjectId) -> String {
    format!("{SHARED_PREFIX}{base}")
}

const SHARED_PREFIX: &str = "sharedindex.";

/// The bytes of an index file, and once they are needed those of its shared index.
#[derive(Debug)]
pub struct IndexFile {
    path: PathBuf,
    source: ByteSource,
    bytes: Bytes,
    time: Time,
    dirs: Vec<PathBuf>,
    shared: OnceLock<Bytes>,
}

/// An index file that could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The system refused.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its content makes no sense.
    #[error("{}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What and where.
        source: ReadError,
    },
}

impl IndexFile {
    /// Opens an index; `None` if there is no such file.
    pub fn open(path: &Path, source: ByteSource) -> io::Result<Option<IndexFile>> {
        match Bytes::open(path, source) {
            Ok((bytes, time)) => Ok(Some(IndexFile {
                path: path.into(),
                source,
                bytes,
                time,
                dirs: path.parent().map(Path::to_path_buf).into_iter().collect(),
                shared: OnceLock::new(),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where else a shared index may lie than beside the file: the git directory, if the index is somewhere else.
    pub fn shared_dirs(mut self, dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        self.dirs.extend(dirs);
        self
    }

    /// Reads it, with its shared index if it is split. That one's modification time is set to now, where that is allowed,
    /// so that nobody takes it for unused (git does the same).
    pub fn read<'a>(&'a self, arena: &'a Bump, options: &ReadOptions<'a>) -> Result<Index<'a>, LoadError> {
        let bytes = self.bytes.as_ref();
        let read = match Index::read(arena, bytes, options) {
            Err(ReadError { kind: ReadErrorKind::NeedsShared { base }, .. }) if options.shared.is_none() => {
                let shared = self.shared(&base)?;
                Index::read(arena, bytes, &options.shared(Some(shared)))
            }
            other => other,
        };
        let mut index = read.map_err(|source| LoadError::Content { path: self.path.clone(), source })?;
        index.set_timestamp(self.time);
        Ok(index)
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When it was last written.
    pub fn time(&self) -> Time {
        self.time
    }

    /// The bytes of the shared index with this checksum.
    pub fn shared(&self, base: &ObjectId) -> Result<&[u8], LoadError> {
        if let Some(bytes) = self.shared.get() {
            return Ok(bytes.as_ref());
        }
        let name = shared_name(base);
        let mut failure = None;
        for dir in &self.dirs {
            let path = dir.join(&name);
            match Bytes::open(&path, self.source) {
                Ok((bytes, _)) => {
                    freshen(&path);
                    return Ok(self.shared.get_or_init(|| bytes).as_ref());
                }
                // The first place is where it should be, so that one's failure is told.
                Err(source) => {
                    failure.get_or_insert(LoadError::Io { path, source });
                }
            }
        }
        let missing = || LoadError::Io { path: name.into(), source: io::ErrorKind::NotFound.into() };
        Err(failure.unwrap_or_else(missing))
    }
}

/// Sets a shared index's times to now. Its owner may; for all others it stays as old as it is.
fn freshen(path: &Path) {
    let now = SystemTime::now();
    let times = FileTimes::new().set_accessed(now).set_modified(now);
    let _ = File::open(path).and_then(|file| file.set_times(times));
}

/// How an index replaces the one on disk. All fields have setters of the same name.
#[derive(Clone)]
#[non_exhaustive]
pub struct SaveOptions<'o> {
    /// What is written.
    pub write: WriteOptions<'o>,
    /// Where a shared index goes: the git directory. Default: beside the index.
    pub shared_dir: Option<PathBuf>,
    /// Durability and permissions of a shared index; the index has those of its lock. Default: those of `hashfile`.
    pub publish: publish::Options,
    /// A new shared index is written when more than this many percent of the entries are not in the old one: 0 always, 100
    /// never (`splitIndex.maxPercentChange`). Default: 20.
    pub max_percent_change: u32,
    /// Shared indexes last used before this moment are removed when a new one is written (`splitIndex.sharedIndexExpire`).
    /// Default: none is.
    pub expire_before: Option<SystemTime>,
    /// Write one file even if the index is split, which it stays. Default: `false`.
    pub as_whole: bool,
}

impl Default for SaveOptions<'_> {
    fn default() -> Self {
        SaveOptions {
            write: WriteOptions::default(),
            shared_dir: None,
            publish: publish::Options::default(),
            max_percent_change: 20,
            expire_before: None,
            as_whole: false,
        }
    }
}

impl<'o> SaveOptions<'o> {
    /// Sets [`SaveOptions::write`].
    pub fn write(mut self, options: WriteOptions<'o>) -> Self {
        self.write = options;
        self
    }

    /// Sets [`SaveOptions::shared_dir`].
    pub fn shared_dir(mut self, dir: Option<PathBuf>) -> Self {
        self.shared_dir = dir;
        self
    }

    /// Sets [`SaveOptions::publish`].
    pub fn publish(mut self, options: publish::Options) -> Self {
        self.publish = options;
        self
    }

    /// Sets [`SaveOptions::max_percent_change`].
    pub fn max_percent_change(mut self, percent: u32) -> Self {
        self.max_percent_change = percent;
        self
    }

    /// Sets [`SaveOptions::expire_before`].
    pub fn expire_before(mut self, time: Option<SystemTime>) -> Self {
        self.expire_before = time;
        self
    }

    /// Sets [`SaveOptions::as_whole`].
    pub fn as_whole(mut self, yes: bool) -> Self {
        self.as_whole = yes;
        self
    }
}

/// Writes the index to `lock` and makes it the one on disk; first its shared index, if one is needed.
///
/// If a shared index cannot be created where it belongs (a read-only git directory), all goes into one file.
///
/// # Errors
/// The index on disk is as it was, and the lock is given up. Only a failure to sync the directory comes after the rename.
pub fn save(index: &mut Index<'_>, lock: LockFile, options: &SaveOptions<'_>) -> Result<Written, WriteError> {
    let dir = options.shared_dir.clone().or_else(|| lock.target().parent().map(Path::to_path_buf)).unwrap_or_default();
    let mut whole = options.as_whole || !index.is_split();
    let mut fresh = None;
    if !whole {
        if index.is_sparse() {
            return Err(WriteError::SparseSplit);
        }
        // Before anything is written, so that what is taken for shared later is what the shared index says.
        index.smudge(&options.write);
        if index.needs_new_base(options.max_percent_change) {
            fresh = write_base(index, &dir, options)?;
            whole = fresh.is_none();
        }
    }
    let (lock, written) = match whole {
        true => index.write_whole(lock, &options.write)?,
        false => index.write_own(lock, &options.write)?,
    };
    let time = lock.file().metadata().map(|meta| Stat::from_metadata(&meta).mtime);
    lock.commit()?;
    match (fresh, index.shared_base()) {
        (Some(base), _) => expire(&dir, &base, options),
        (None, Some(base)) if !whole => drop(options.publish.fs.set_times(&dir.join(shared_name(&base)), None)),
        _ => {}
    }
    index.checksum = Some(written.checksum).filter(|id| !id.is_null());
    index.changed = false;
    // What is edited and saved later must not be measured by the file that is no more.
    index.timestamp = time.unwrap_or_default();
    Ok(written)
}

/// Writes all entries as a new shared index and builds on that. `None` if it cannot be created.
fn write_base(index: &mut Index<'_>, dir: &Path, options: &SaveOptions<'_>) -> Result<Option<ObjectId>, WriteError> {
    let publish = options.publish.clone().mode(FileMode::ReadWrite);
    let Ok(temp) = TempFile::create_in(dir, "sharedindex_", &publish) else { return Ok(None) };
    let (temp, written) = index.write_shared(temp, &options.write)?;
    let base = written.checksum;
    // The name says the content, but whoever wrote a file of this name may have left it damaged.
    temp.persist(&dir.join(shared_name(&base)), IfExists::Replace)?;
    let of = (1..).take(index.slots.len()).collect();
    index.split = Some(Split { base: Some(base), slots: index.slots.clone(), of });
    Ok(Some(base))
}

/// Removes shared indexes that were not used since the time given.
fn expire(dir: &Path, keep: &ObjectId, options: &SaveOptions<'_>) {
    let (Some(before), Ok(entries)) = (options.expire_before, fs::read_dir(dir)) else { return };
    let keep = shared_name(keep);
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let ours = name.as_encoded_bytes().starts_with(SHARED_PREFIX.as_bytes()) && name != keep.as_str();
        let old = || entry.metadata().and_then(|meta| meta.modified()).is_ok_and(|time| time <= before);
        if ours && old() {
            // Housekeeping: whoever cannot remove it now may do so next time.
            let _ = options.publish.fs.remove_file(&entry.path());
        }
    }
}

impl Index<'_> {
    fn needs_new_base(&self, max_percent_change: u32) -> bool {
        let Some(split) = self.split.as_ref().filter(|split| split.base.is_some()) else { return true };
        match max_percent_change {
            0 => true,
            100.. => false,
            percent => {
                let count = self.slots.len();
                (count as u128) * u128::from(percent) < split.not_shared(count) as u128 * 100
            }
        }
    }
}
