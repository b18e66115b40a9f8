//! The index of a work tree: where it is, and how the configuration wants it read, locked and written.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hashfile::lock::{self, LockError, LockFile};
use hashfile::publish;
use index::file::{IndexFile, SaveOptions, save};
use index::source::ByteSource;
use index::{Bump, DEFAULT_BLOCK, Entry, ExtError, Index, Observer, ReadOptions, Version, WriteOptions};
use object::HashKind;

use crate::config::Config;
use crate::number;
use crate::report::{self, Failure, chain, plain_io};
use crate::setup::{Part, Repository};
use crate::worktree::Tree;

/// Fewest entries for which another thread pays, when the number of threads is ours to choose.
const ENTRIES_PER_THREAD: u64 = 10_000;

/// Bytes of a small entry, to guess their number from the length of a file.
const ENTRY_BYTES: u64 = 100;

/// Where the index is, and what the configuration says about it.
#[derive(Debug)]
pub(crate) struct IndexPlace {
    /// `GIT_INDEX_FILE`, or `index` in the git directory.
    pub(crate) path: PathBuf,
    /// Where shared indexes are.
    git_dir: PathBuf,
    hash: HashKind,
    settings: Settings,
    /// Asked about files that may have changed within the second their entries were last looked at.
    tree: Option<Tree>,
}

/// What the configuration and the environment say.
#[derive(Debug)]
struct Settings {
    /// `index.threads`: `None` if not set, 0 for as many as pay.
    threads: Option<usize>,
    /// For an index that is not there yet, or what is wrong with the setting.
    new_version: Result<Version, &'static str>,
    skip_hash: bool,
    end_of_entries: bool,
    offset_table: bool,
    /// `core.splitIndex`.
    split: Option<bool>,
    max_percent_change: u32,
    expire_before: Option<SystemTime>,
    drop_untracked: bool,
    /// Whether there is a file system monitor to be asked, so that what it said is worth keeping.
    keep_fsmonitor: bool,
    publish: publish::Options,
    record_pid: bool,
    allow_null_ids: bool,
    /// `GIT_TEST_SPLIT_INDEX`: split whatever is written.
    always_split: bool,
}

/// An index opened for reading: its bytes, which the entries borrow.
pub(crate) struct Opened<'p> {
    place: &'p IndexPlace,
    file: Option<IndexFile>,
}

impl IndexPlace {
    /// Finds out where the index is, and reads what matters of the configuration.
    pub(crate) fn find(repo: &Repository) -> Result<IndexPlace, Failure> {
        Ok(IndexPlace {
            path: repo.env.path("GIT_INDEX_FILE").unwrap_or_else(|| repo.git_dir.join("index")),
            git_dir: repo.git_dir.clone(),
            hash: repo.hash,
            settings: Settings::read(repo)?,
            tree: Tree::of(repo)?,
        })
    }

    /// Opens it; that there is none yet is no error.
    pub(crate) fn open(&self) -> Result<Opened<'_>, Failure> {
        let file = IndexFile::open(&self.path, ByteSource::Auto).map_err(|error| {
            Failure::Fatal(format!("{}: index file open failed: {}", self.path.display(), plain_io(&error)))
        })?;
        Ok(Opened { place: self, file: file.map(|file| file.shared_dirs([self.git_dir.clone()])) })
    }

    /// Takes the lock. What stands in its way is told by [`cannot_lock`], now or when there is something to write.
    pub(crate) fn lock(&self) -> Result<LockFile, LockError> {
        self.lock_other(&self.path)
    }

    /// Takes the lock of another file that an index is to be written to.
    pub(crate) fn lock_other(&self, path: &Path) -> Result<LockFile, LockError> {
        let publish = &self.settings.publish;
        let options = lock::Options::default().fsync(publish.fsync).shared(publish.shared);
        LockFile::acquire(path, &options.record_pid(self.settings.record_pid))
    }

    /// Gives an index that was not read from a file the version that new ones are to have.
    pub(crate) fn set_new_version(&self, index: &mut Index<'_>) {
        index.set_version(self.settings.new_version.unwrap_or_else(|name| {
            report::warning(format!("{name} set, but the value is invalid.\nUsing version 3"));
            Version::V3
        }));
    }

    /// The work tree, if there is one.
    pub(crate) fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// Writes the index and makes it the one on disk.
    pub(crate) fn save(&self, index: &mut Index<'_>, lock: LockFile) -> Result<(), Failure> {
        if self.settings.always_split && !index.is_sparse() {
            if index.shared_base().is_some_and(|base| base.first_byte() & 15 < 6) {
                index.unset_split();
            }
            index.set_split();
        }
        self.write(index, lock, false)
    }

    /// Writes the index as one file, even if it is split, to what `lock` locks: any file.
    pub(crate) fn save_whole(&self, index: &mut Index<'_>, lock: LockFile) -> Result<(), Failure> {
        self.write(index, lock, true)
    }

    fn write(&self, index: &mut Index<'_>, lock: LockFile, whole: bool) -> Result<(), Failure> {
        let settings = &self.settings;
        let is_modified = |entry: Entry<'_>| self.tree.as_ref().is_some_and(|tree| tree.is_secretly_modified(&entry));
        let write = WriteOptions::default()
            .skip_hash(settings.skip_hash)
            .end_of_entries(settings.end_of_entries)
            .offset_table(settings.offset_table.then_some(DEFAULT_BLOCK))
            .threads(self.threads(index.len() as u64))
            .allow_null_ids(settings.allow_null_ids)
            .is_modified(Some(&is_modified));
        let options = SaveOptions::default()
            .write(write)
            .shared_dir(Some(self.git_dir.clone()))
            .publish(settings.publish.clone())
            .max_percent_change(settings.max_percent_change)
            .expire_before(settings.expire_before)
            .as_whole(whole);
        match save(index, lock, &options) {
            Ok(_) => Ok(()),
            Err(error) => {
                report::say(&format!("error: {}\n", chain(&error)));
                Err(Failure::fatal("Unable to write new index file"))
            }
        }
    }

    /// How many threads a file with so many entries is worth. The result of reading and writing does not depend on it.
    fn threads(&self, entries: u64) -> usize {
        match self.settings.threads {
            Some(threads) if threads > 0 => threads,
            _ => {
                let most = std::thread::available_parallelism().map_or(1, usize::from);
                usize::try_from(entries / ENTRIES_PER_THREAD).unwrap_or(most).clamp(1, most)
            }
        }
    }
}

impl Opened<'_> {
    /// Reads it, and makes it what the configuration asks for. An index without entries if there is no file.
    pub(crate) fn read<'a>(&'a self, arena: &'a Bump) -> Result<Index<'a>, Failure> {
        let settings = &self.place.settings;
        let mut index = match &self.file {
            None => Index::new(arena, self.place.hash),
            Some(file) => {
                let threads = self.place.threads(file.bytes().len() as u64 / ENTRY_BYTES);
                let options = ReadOptions::new(self.place.hash).threads(threads).observer(&Say);
                let index = file.read(arena, &options).map_err(|error| {
                    report::say(&format!("error: {}\n", chain(&error)));
                    Failure::fatal("index file corrupt")
                })?;
                for extension in index.extensions() {
                    report::say(&format!("ignoring {} extension\n", extension.signature.escape_ascii()));
                }
                index
            }
        };
        if settings.drop_untracked {
            index.set_untracked(None);
        }
        match settings.split {
            Some(true) if !index.is_sparse() => index.set_split(),
            Some(false) => index.unset_split(),
            _ => {}
        }
        if !settings.keep_fsmonitor {
            index.set_fsmonitor(None);
        }
        Ok(index)
    }

    /// Whether there is no file.
    pub(crate) fn is_new(&self) -> bool {
        self.file.is_none()
    }
}

/// Says that the lock was not taken.
pub(crate) fn cannot_lock(error: &LockError) -> Failure {
    match error {
        LockError::Held { path, holder, source, .. } => {
            Failure::Fatal(format!("Unable to create '{}': {}.\n\n{holder}", path.display(), plain_io(source)))
        }
        LockError::Create { path, source } => {
            Failure::Fatal(format!("Unable to create '{}': {}", path.display(), plain_io(source)))
        }
        other => Failure::Fatal(chain(other)),
    }
}

impl Settings {
    fn read(repo: &Repository) -> Result<Settings, Failure> {
        let config = &repo.config;
        let many_files = config.truth("feature.manyfiles")?.unwrap_or(false);
        let threads = threads(repo)?;
        // Who sets the number of threads by hand is expected to want what threads can use.
        let by_hand = threads.is_some_and(|threads| threads != 1);
        let untracked = config.text("core.untrackedcache")?;
        Ok(Settings {
            threads,
            new_version: new_version(repo, many_files)?,
            skip_hash: config.truth("index.skiphash")?.unwrap_or(many_files),
            end_of_entries: config.truth("index.recordendofindexentries")?.unwrap_or(by_hand),
            offset_table: by_hand && config.truth("index.recordoffsettable")?.unwrap_or(true),
            split: config.truth("core.splitindex")?,
            max_percent_change: max_percent_change(config)?,
            expire_before: expire_before(config)?,
            drop_untracked: untracked.is_some_and(|text| number::boolean(Some(text)) == Some(false)),
            keep_fsmonitor: has_fsmonitor(config),
            publish: repo.publish_options_of(Part::Index)?,
            record_pid: config.truth("core.lockfilepid")?.unwrap_or(false),
            allow_null_ids: repo.env.truth("GIT_ALLOW_NULL_SHA1", false)?,
            always_split: repo.env.truth("GIT_TEST_SPLIT_INDEX", false)?,
        })
    }
}

/// `index.threads`: a number, or a truth value of which true means "as many as pay".
fn threads(repo: &Repository) -> Result<Option<usize>, Failure> {
    let from_env = repo.env.get("GIT_TEST_INDEX_THREADS").and_then(|value| value.to_str()?.parse().ok());
    if let Some(threads) = from_env.filter(|&threads| threads > 0) {
        return Ok(Some(threads));
    }
    let Some(entry) = repo.config.last("index.threads") else { return Ok(None) };
    if let Some(yes) = number::bool_word(entry.value.as_deref()) {
        return Ok(Some(if yes { 0 } else { 1 }));
    }
    let threads = entry.number(|text| number::signed(text, i64::from(i32::MAX)))?;
    Ok(Some(usize::try_from(threads).unwrap_or(0)))
}

/// `GIT_INDEX_VERSION`, `index.version`, or what `feature.manyFiles` makes the default.
fn new_version(repo: &Repository, many_files: bool) -> Result<Result<Version, &'static str>, Failure> {
    let version = |number: i64| match number {
        2 => Some(Version::V2),
        3 => Some(Version::V3),
        4 => Some(Version::V4),
        _ => None,
    };
    if let Some(value) = repo.env.get("GIT_INDEX_VERSION") {
        let number = value.to_str().and_then(|text| text.parse().ok());
        return Ok(number.and_then(version).ok_or("GIT_INDEX_VERSION"));
    }
    let default = if many_files { 4 } else { 3 };
    // A number below zero is as good as none.
    let number = repo.config.int("index.version")?.filter(|&number| number >= 0).unwrap_or(default);
    Ok(version(number.into()).ok_or("index.version"))
}

fn max_percent_change(config: &Config) -> Result<u32, Failure> {
    match config.int("splitindex.maxpercentchange")? {
        Some(percent @ 0..=100) => Ok(percent.unsigned_abs()),
        Some(percent) => {
            report::say(&format!("error: splitIndex.maxPercentChange value '{percent}' should be between 0 and 100\n"));
            Ok(20)
        }
        None => Ok(20),
    }
}

/// `splitIndex.sharedIndexExpire`: shared indexes last used before then may go; `None`: none may.
fn expire_before(config: &Config) -> Result<Option<SystemTime>, Failure> {
    let Some(entry) = config.last("splitindex.sharedindexexpire") else {
        return Ok(SystemTime::now().checked_sub(Duration::from_secs(14 * 24 * 3600)));
    };
    let text = String::from_utf8_lossy(entry.text()?);
    match text.as_ref() {
        "never" | "false" => return Ok(None),
        "now" | "all" => return Ok(Some(SystemTime::now())),
        _ => {}
    }
    let seconds = match gix_date::parse(&text, Some(gix_date::Zoned::now())) {
        Ok(time) => time.seconds,
        Err(_) => {
            return Err(Failure::Fatal(format!("'{text}' for '{}' is not a valid timestamp", entry.name())));
        }
    };
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    Ok(SystemTime::UNIX_EPOCH.checked_add(since))
}

/// Whether `core.fsmonitor` names a hook or turns the built-in monitor on.
pub(crate) fn has_fsmonitor(config: &Config) -> bool {
    let Some(entry) = config.last("core.fsmonitor") else { return false };
    number::boolean(entry.value.as_deref()).unwrap_or(true)
}

/// Says what reading passed over.
struct Say;

impl Observer for Say {
    fn dropped(&self, signature: [u8; 4], at: u64, why: &ExtError) {
        let name = signature.escape_ascii();
        report::warning(format!("dropping damaged {name} extension at byte {at} of the index: {why}"));
    }

    fn cut_short(&self, at: u64) {
        report::warning(format!("the index ends inside of an extension at byte {at}, which is dropped"));
    }
}
