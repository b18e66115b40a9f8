//! Lock files: `NAME.lock` beside `NAME`, which is both the lock and the new content.
//!
//! Whoever creates `NAME.lock` (`O_EXCL`) holds the lock; renaming it to `NAME` publishes and unlocks in one step. All
//! of git's programs keep to this, so the lock excludes them as well.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::checkpoint::SetLen;
use crate::error::PublishError;
use crate::fs::{FileSystem, RealFs};
use crate::mode::{FileMode, Shared};
use crate::publish::{DirSync, Fsync, TempName, seal};
use crate::sys;

/// Symbolic links that are followed to the file that is to be locked.
const MAX_LINKS: usize = 5;

/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How a lock is taken and committed. All fields have setters of the same name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long to try while somebody else holds the lock, with growing pauses. Zero (the default): once.
    /// [`Duration::MAX`]: for ever.
    pub timeout: Duration,
    /// What [`LockFile::commit`] does for durability. Default: [`Fsync::Full`].
    pub fsync: Fsync,
    /// The permissions of the file. Default: [`FileMode::ReadWrite`].
    pub mode: FileMode,
    /// For whom they are widened. Default: [`Shared::Umask`].
    pub shared: Shared,
    /// If the path is a symbolic link, lock and replace what it points to. Default: `true`.
    pub follow_links: bool,
    /// Leave our process id in `NAME~pid.lock` while the lock is held, as git's `core.lockfilePid` does, so that
    /// others can tell a held lock from a stale one. Default: `false`.
    pub record_pid: bool,
    /// Where all this happens. Default: [`RealFs`].
    pub fs: Arc<dyn FileSystem>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            timeout: Duration::ZERO,
            fsync: Fsync::default(),
            mode: FileMode::ReadWrite,
            shared: Shared::default(),
            follow_links: true,
            record_pid: false,
            fs: RealFs::shared(),
        }
    }
}

impl Options {
    /// Sets [`Options::timeout`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

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

    /// Sets [`Options::follow_links`].
    pub fn follow_links(mut self, yes: bool) -> Self {
        self.follow_links = yes;
        self
    }

    /// Sets [`Options::record_pid`].
    pub fn record_pid(mut self, yes: bool) -> Self {
        self.record_pid = yes;
        self
    }

    /// Sets [`Options::fs`].
    pub fn fs(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.fs = fs;
        self
    }
}

/// A held lock, and the file that will replace the locked one. Dropping it gives the lock up and leaves the locked file
/// as it was.
///
/// A sink for [`HashFile`](crate::HashFile), with [`SetLen`]. A process that is killed leaves its lock behind: a
/// program that wants to clean up on signals has to catch them.
///
/// ```
/// use std::io::Write;
/// use object::HashKind;
/// use packstone_hashfile::HashFile;
/// use packstone_hashfile::lock::{LockFile, Options};
///
/// let dir = tempfile::tempdir()?;
/// let index = dir.path().join("index");
/// let mut out = HashFile::new(LockFile::acquire(&index, &Options::default())?, HashKind::Sha1);
/// out.write_all(b"DIRC...")?;
/// let (lock, _id) = out.finish()?;
/// assert!(!index.exists() && dir.path().join("index.lock").exists());
/// lock.commit()?;
/// assert!(index.exists() && !dir.path().join("index.lock").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LockFile {
    file: File, // before the paths: closed before they are removed
    lock: TempName,
    pid: Option<TempName>,
    target: PathBuf,
    options: Options,
}

impl LockFile {
    /// Takes the lock on `path`, whether or not that exists. Its directory must exist.
    pub fn acquire(path: &Path, options: &Options) -> Result<LockFile, LockError> {
        let target = if options.follow_links { follow(path) } else { path.to_path_buf() };
        // Absolute, so that a change of the working directory can neither lose the lock nor commit it elsewhere.
        let target = std::path::absolute(&target)
            .map_err(|source| LockError::Create { path: with_suffix(&target, ".lock"), source })?;
        let lock_path = with_suffix(&target, ".lock");
        let started = Instant::now();
        let mut pauses = Pauses::new();
        let file = loop {
            match options.fs.create_new(&lock_path, options.mode.bits()) {
                Ok(file) => break file,
                Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {
                    let left = options.timeout.saturating_sub(started.elapsed());
                    if left.is_zero() {
                        return Err(held(&target, lock_path, started.elapsed(), source));
                    }
                    std::thread::sleep(pauses.next().min(left));
                }
                Err(source) => return Err(LockError::Create { path: lock_path, source }),
            }
        };
        let create = |source| LockError::Create { path: with_suffix(&target, ".lock"), source };
        let lock = TempName::new(lock_path, Arc::clone(&options.fs));
        let pid = if options.record_pid { record_pid(&target, options) } else { None };
        options.shared.apply_to_file(&*options.fs, lock.path(), &file).map_err(create)?;
        Ok(LockFile { file, lock, pid, target, options: options.clone() })
    }

    /// The locked file, links followed, as an absolute path.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The lock file, which holds the new content.
    pub fn path(&self) -> &Path {
        self.lock.path()
    }

    /// The open lock file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Syncs as the options say, makes the new content the locked file's, and gives the lock up. On an error, except
    /// one of syncing the directory, the locked file is as it was and the lock is given up, too.
    pub fn commit(self) -> Result<(), PublishError> {
        let LockFile { file, lock, pid, target, options } = self;
        seal(&*options.fs, file, lock.path(), Shared::Umask, options.fsync)?; // widened when it was made
        drop(pid);
        lock.rename(&target).map_err(|(lock, source)| PublishError::Rename {
            from: lock.path().to_path_buf(),
            to: target.clone(),
            source,
        })?;
        if options.fsync == Fsync::Full {
            let mut dirs = DirSync::new();
            dirs.add_parent_of(&target, &options.fs);
            dirs.finish()?;
        }
        Ok(())
    }

    /// Gives the lock up and reports if that fails; dropping does the same in silence.
    pub fn rollback(self) -> io::Result<()> {
        let LockFile { file, lock, pid, .. } = self;
        drop((file, pid));
        lock.remove()
    }
}

impl Write for LockFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.options.fs.write(self.lock.path(), &self.file, bytes)
    }

    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.options.fs.write_vectored(self.lock.path(), &self.file, bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Read for LockFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read(buf)
    }
}

impl Seek for LockFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl SetLen for LockFile {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.options.fs.set_len(self.lock.path(), &self.file, len)
    }
}

/// The lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The lock file exists.
    #[error("cannot create {}, which exists{}; {holder}", path.display(), since(age))]
    Held {
        /// The lock file, as an absolute path.
        path: PathBuf,
        /// What is known about who made it.
        holder: Holder,
        /// How old it is.
        age: Option<Duration>,
        /// How long it was tried.
        waited: Duration,
        /// What the system said.
        source: io::Error,
    },
    /// The lock file could not be created for another reason.
    #[error("cannot create {}", path.display())]
    Create {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Who may hold a lock. The text says what the user can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Holder {
    /// Nobody left word.
    #[error(
        "another process may be at work in this repository, or one died there and left the lock behind: \
         if none is running, remove the file and try again"
    )]
    Unknown,
    /// A process with the recorded number runs; numbers are used again, so it may be another one.
    #[error("process {pid} may hold it: wait for it to end; if it is no git process, remove the file and try again")]
    Running {
        /// The recorded number.
        pid: u32,
    },
    /// The process that made the lock is gone.
    #[error("process {pid}, which made it, no longer runs: remove the file and try again")]
    Gone {
        /// The recorded number.
        pid: u32,
    },
}

fn held(target: &Path, lock: PathBuf, waited: Duration, source: io::Error) -> LockError {
    let made = fs::symlink_metadata(&lock).and_then(|meta| meta.modified());
    let age = made.ok().and_then(|made| SystemTime::now().duration_since(made).ok());
    let holder = match read_pid(target).map(|pid| (pid, sys::process_runs(pid))) {
        Some((pid, Some(true))) => Holder::Running { pid },
        Some((pid, Some(false))) => Holder::Gone { pid },
        _ => Holder::Unknown,
    };
    LockError::Held { path: lock, holder, age, waited, source }
}

fn since(age: &Option<Duration>) -> String {
    let Some(seconds) = age.map(|age| age.as_secs()) else { return String::new() };
    let (count, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7200 => (seconds / 60, "minute"),
        7200..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!(" since {count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// The sidecar file: `pid `, the number in decimal, a line feed (git-config, `core.lockfilePid`).
fn record_pid(target: &Path, options: &Options) -> Option<TempName> {
    // A courtesy to others: without it the lock holds just as well, so no failure here is one of the lock's.
    let path = with_suffix(target, "~pid.lock");
    let file = options.fs.create_new(&path, options.mode.bits()).ok()?;
    let name = TempName::new(path, Arc::clone(&options.fs));
    let text = format!("pid {}\n", std::process::id());
    (options.fs.write(name.path(), &file, text.as_bytes()).ok()? == text.len()).then_some(name)
}

fn read_pid(target: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(with_suffix(target, "~pid.lock")).ok()?.take(64).read_to_string(&mut text).ok()?;
    text.strip_prefix("pid ")?.trim_end().parse().ok().filter(|&pid| pid > 0)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What a chain of symbolic links points to; the last link looked at if it is too long.
fn follow(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let Ok(to) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(to); // an absolute `to` replaces it all
    }
    path
}

/// Pauses that grow with the square of the attempts, a quarter shorter or longer at random so that two processes
/// do not keep meeting.
struct Pauses {
    attempt: u32,
    random: u64,
}

impl Pauses {
    fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Pauses { attempt: 0, random: RandomState::new().hash_one(std::process::id()) | 1 }
    }

    fn next(&mut self) -> Duration {
        self.attempt = self.attempt.saturating_add(1);
        let pause = Duration::from_millis(u64::from(self.attempt).pow(2)).min(MAX_PAUSE);
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        pause.mul_f64(0.75 + (self.random % 1000) as f64 / 2000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_bounded() {
        let mut pauses = Pauses::new();
        let first = pauses.next();
        assert!(first >= Duration::from_micros(750) && first <= Duration::from_micros(1250), "{first:?}");
        for _ in 0..100 {
            assert!(pauses.next() <= MAX_PAUSE.mul_f64(1.25));
        }
        assert!(pauses.next() >= MAX_PAUSE.mul_f64(0.75));
    }

    #[test]
    fn ages_read_well() {
        let of = |seconds| since(&Some(Duration::from_secs(seconds)));
        assert_eq!(of(1), " since 1 second");
        assert_eq!(of(59), " since 59 seconds");
        assert_eq!(of(3600 * 50), " since 2 days");
        assert_eq!(since(&None), "");
    }
}
