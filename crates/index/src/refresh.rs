//! Entries against the files of a work tree.
//!
//! A file is taken for what its entry says if `lstat` says of it what it said when it was last looked at ([`compare`]). That
//! is not enough where the file may have changed within the very moment the index was written ([`is_racy`]), nor where an
//! entry has no size: then the content is compared, by the work tree's own means ([`WorkTree::same_content`]), since what
//! converts it (line ends, filters) is not known here. [`refresh`] goes through all entries and takes over the stat data of
//! files that turn out to be unchanged.
//!
//! [`Checkout`] is a work tree in the file system.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use object::{NameHasher, ObjectId, ObjectKind, object_id};

use crate::edit::parents;
use crate::entry::{Entry, Mode, Stage};
use crate::index::{Entries, Index, MARK_FSMONITOR, MARK_UP_TO_DATE};
use crate::stat::{Stat, Time};

/// Entries that a thread takes at a time.
const CHUNK: usize = 512;

/// What there is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// What `lstat` said.
    pub stat: Stat,
    /// What it is: `100644`, `100755` (the owner may execute it), `120000`, `040000` for a directory; else 0.
    pub mode: Mode,
}

impl FileState {
    /// From what the system said.
    pub fn from_metadata(meta: &Metadata) -> Self {
        let kind = meta.file_type();
        let mode = match () {
            () if kind.is_symlink() => 0o120_000,
            () if kind.is_dir() => 0o040_000,
            () if kind.is_file() && is_executable(meta) => 0o100_755,
            () if kind.is_file() => 0o100_644,
            () => 0,
        };
        FileState { stat: Stat::from_metadata(meta), mode: Mode(mode) }
    }
}

#[cfg(unix)]
fn is_executable(meta: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &Metadata) -> bool {
    false
}

/// A work tree. Paths are those of entries: from its root, with `/` between the components.
pub trait WorkTree: Sync {
    /// What there is at a path, of a symbolic link itself; `None` if there is nothing. That a directory above is no
    /// directory is an error.
    fn lstat(&self, path: &[u8]) -> io::Result<Option<FileState>>;

    /// Whether the file or symbolic link that was found there has the content that the entry names.
    fn same_content(&self, entry: Entry<'_>, state: &FileState) -> io::Result<bool>;

    /// The commit that the submodule at a path has checked out; `None` if there is no repository, or nothing checked out.
    fn gitlink_head(&self, path: &[u8]) -> io::Result<Option<ObjectId>> {
        let _ = path;
        Ok(None)
    }
}

/// Which fields of [`Stat`] count (git-config, `core.checkStat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckStat {
    /// All but the device, which differs between mounts of one file system.
    #[default]
    Default,
    /// Whole seconds of the mtime, and the size: for work trees that several systems write to.
    Minimal,
}

/// What makes a difference. All fields have setters of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchOptions {
    /// Whether the ctime counts (`core.trustctime`). Default: `true`.
    pub trust_ctime: bool,
    /// Which fields count besides (`core.checkStat`).
    pub check_stat: CheckStat,
    /// Whether the file system keeps the executable bit (`core.fileMode`). Default: `true`.
    pub trust_file_mode: bool,
    /// Whether the file system has symbolic links; if not, they are files that hold the target (`core.symlinks`).
    /// Default: `true`.
    pub has_symlinks: bool,
}

impl Default for MatchOptions {
    fn default() -> Self {
        MatchOptions { trust_ctime: true, check_stat: CheckStat::Default, trust_file_mode: true, has_symlinks: true }
    }
}

impl MatchOptions {
    /// Sets [`MatchOptions::trust_ctime`].
    pub fn trust_ctime(mut self, yes: bool) -> Self {
        self.trust_ctime = yes;
        self
    }

    /// Sets [`MatchOptions::check_stat`].
    pub fn check_stat(mut self, which: CheckStat) -> Self {
        self.check_stat = which;
        self
    }

    /// Sets [`MatchOptions::trust_file_mode`].
    pub fn trust_file_mode(mut self, yes: bool) -> Self {
        self.trust_file_mode = yes;
        self
    }

    /// Sets [`MatchOptions::has_symlinks`].
    pub fn has_symlinks(mut self, yes: bool) -> Self {
        self.has_symlinks = yes;
        self
    }
}

/// In what a file differs from its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changed(u8);

impl Changed {
    /// When the content was written.
    pub const MTIME: Changed = Changed(1);
    /// When the inode was changed.
    pub const CTIME: Changed = Changed(2);
    /// The user or group.
    pub const OWNER: Changed = Changed(4);
    /// The inode.
    pub const INODE: Changed = Changed(8);
    /// The size, or the content itself.
    pub const DATA: Changed = Changed(16);
    /// The executable bit.
    pub const MODE: Changed = Changed(32);
    /// File, symbolic link, directory.
    pub const TYPE: Changed = Changed(64);

    /// In nothing.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// In one of these at least.
    pub fn any(self, of: Changed) -> bool {
        self.0 & of.0 != 0
    }

    /// In these as well.
    pub fn and(self, also: Changed) -> Changed {
        Changed(self.0 | also.0)
    }

    fn add_if(&mut self, yes: bool, what: Changed) {
        self.0 |= if yes { what.0 } else { 0 };
    }
}

/// Compares stat data: what differs of two looks at the same path.
///
/// Nanoseconds count only where both sides have them, because not all file systems and not all writers of indexes do.
pub fn match_stat(old: &Stat, new: &Stat, options: &MatchOptions) -> Changed {
    let full = options.check_stat == CheckStat::Default;
    let differ = |a: Time, b: Time| a.secs != b.secs || (full && a.nanos != 0 && b.nanos != 0 && a.nanos != b.nanos);
    let mut changed = Changed::default();
    changed.add_if(differ(old.mtime, new.mtime), Changed::MTIME);
    changed.add_if(full && options.trust_ctime && differ(old.ctime, new.ctime), Changed::CTIME);
    changed.add_if(full && (old.uid != new.uid || old.gid != new.gid), Changed::OWNER);
    changed.add_if(full && old.ino != new.ino, Changed::INODE);
    changed.add_if(old.size != new.size, Changed::DATA);
    changed
}

/// Whether a file may have changed after the entry was made without its stat data telling: it was last written when the
/// index was, or later. `timestamp` is [`Index::timestamp`]; if that is not known nothing is racy, and a submodule never is.
///
/// To the nanosecond, or to the second if either side has none.
pub fn is_racy(entry: &Entry<'_>, timestamp: Time) -> bool {
    if timestamp.secs == 0 || entry.is_gitlink() {
        return false;
    }
    let mtime = entry.mtime();
    match mtime.nanos == 0 || timestamp.nanos == 0 {
        true => mtime.secs >= timestamp.secs,
        false => mtime >= timestamp,
    }
}

/// Compares an entry with what was found at its path. Its flags are not looked at, except that a path that is yet to be
/// added always differs.
///
/// The content is read only if nothing else differs and the entry is racy. Where the result has [`Changed::DATA`], that may
/// just mean that the entry has no size: [`is_modified`] settles it.
///
/// # Errors
/// The work tree's.
pub fn compare<W: WorkTree + ?Sized>(
    entry: &Entry<'_>,
    state: &FileState,
    tree: &W,
    timestamp: Time,
    options: &MatchOptions,
) -> io::Result<Changed> {
    let mut changed = Changed::default();
    if entry.flags().intent_to_add {
        return Ok(Changed::DATA.and(Changed::MODE).and(Changed::TYPE));
    }
    let (was, is) = (entry.mode(), state.mode);
    if was.is_gitlink() {
        changed.add_if(!is.is_tree(), Changed::TYPE);
        if changed.is_empty() {
            let head = tree.gitlink_head(entry.path())?;
            changed.add_if(head.is_some_and(|head| head != entry.id()), Changed::DATA);
        }
        return Ok(changed);
    }
    if was.is_symlink() {
        changed.add_if(!is.is_symlink() && (options.has_symlinks || !is.is_blob()), Changed::TYPE);
    } else {
        changed.add_if(!is.is_blob(), Changed::TYPE);
        changed.add_if(options.trust_file_mode && (was.0 ^ is.0) & 0o100 != 0, Changed::MODE);
    }
    let stat = entry.stat();
    changed = changed.and(match_stat(&stat, &state.stat, options));
    // Without a size the content is not known, unless there is none.
    changed.add_if(stat.size == 0 && entry.id() != entry.id().kind().empty_blob(), Changed::DATA);
    if changed.is_empty() && is_racy(entry, timestamp) {
        changed.add_if(!tree.same_content(*entry, state)?, Changed::DATA);
    }
    Ok(changed)
}

/// Whether a file that differs from its entry by [`compare`] is another one, and not merely touched. Reads the content if
/// that could be the same.
///
/// # Errors
/// The work tree's.
pub fn is_modified<W: WorkTree + ?Sized>(
    entry: &Entry<'_>,
    state: &FileState,
    changed: Changed,
    tree: &W,
) -> io::Result<bool> {
    if changed.is_empty() {
        return Ok(false);
    }
    let certain = changed.any(Changed::MODE.and(Changed::TYPE))
        || (changed.any(Changed::DATA) && (entry.is_gitlink() || entry.stat().size != 0));
    Ok(certain || !tree.same_content(*entry, state)?)
}

/// Whether a file differs from its entry though its stat data do not: what to answer to
/// [`WriteOptions::is_modified`](crate::WriteOptions::is_modified).
///
/// If the stat data differ, everybody can see that for himself; everybody sees whole seconds, but git as it is usually built
/// no fractions. A file that cannot be read is taken for modified.
pub fn is_secretly_modified<W: WorkTree + ?Sized>(entry: &Entry<'_>, tree: &W, options: &MatchOptions) -> bool {
    let Ok(Some(mut state)) = tree.lstat(entry.path()) else { return false };
    (state.stat.mtime.nanos, state.stat.ctime.nanos) = (0, 0);
    let same_stat = compare(entry, &state, tree, Time::default(), options).is_ok_and(Changed::is_empty);
    same_stat && !tree.same_content(*entry, &state).unwrap_or(false)
}

/// Whether a symbolic link stands in the way to a path, so that what is behind it is not in the work tree.
///
/// # Errors
/// The work tree's.
pub fn is_beyond_symlink<W: WorkTree + ?Sized>(path: &[u8], tree: &W) -> io::Result<bool> {
    for dir in parents(path) {
        match tree.lstat(dir)? {
            Some(state) if state.mode.is_tree() => {}
            state => return Ok(state.is_some_and(|state| state.mode.is_symlink())),
        }
    }
    Ok(false)
}

/// How entries are refreshed. All fields have setters of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefreshOptions {
    /// Threads that look at files, this one included. What comes out does not depend on it. Default: 1.
    pub threads: usize,
    /// What makes a difference.
    pub matching: MatchOptions,
    /// Look at files that are assumed to be unchanged, too, and take that back where they are not
    /// (`update-index --really-refresh`). Default: `false`.
    pub really: bool,
    /// Say nothing about files that are not there. Default: `false`.
    pub ignore_missing: bool,
    /// Pass over entries that need not be in the work tree, without marking them as looked at. Default: `false`.
    pub ignore_skip_worktree: bool,
    /// Say nothing about paths of an unresolved merge. Default: `false`.
    pub unmerged_ok: bool,
    /// Pass over submodules. Default: `false`.
    pub ignore_submodules: bool,
    /// Whether the file system monitor was asked just now, so that what it has not seen change need not be looked at.
    /// Default: `true`.
    pub trust_fsmonitor: bool,
}

impl Default for RefreshOptions {
    fn default() -> Self {
        RefreshOptions {
            threads: 1,
            matching: MatchOptions::default(),
            really: false,
            ignore_missing: false,
            ignore_skip_worktree: false,
            unmerged_ok: false,
            ignore_submodules: false,
            trust_fsmonitor: true,
        }
    }
}

impl RefreshOptions {
    /// Sets [`RefreshOptions::threads`].
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets [`RefreshOptions::matching`].
    pub fn matching(mut self, options: MatchOptions) -> Self {
        self.matching = options;
        self
    }

    /// Sets [`RefreshOptions::really`].
    pub fn really(mut self, yes: bool) -> Self {
        self.really = yes;
        self
    }

    /// Sets [`RefreshOptions::ignore_missing`].
    pub fn ignore_missing(mut self, yes: bool) -> Self {
        self.ignore_missing = yes;
        self
    }

    /// Sets [`RefreshOptions::ignore_skip_worktree`].
    pub fn ignore_skip_worktree(mut self, yes: bool) -> Self {
        self.ignore_skip_worktree = yes;
        self
    }

    /// Sets [`RefreshOptions::unmerged_ok`].
    pub fn unmerged_ok(mut self, yes: bool) -> Self {
        self.unmerged_ok = yes;
        self
    }

    /// Sets [`RefreshOptions::ignore_submodules`].
    pub fn ignore_submodules(mut self, yes: bool) -> Self {
        self.ignore_submodules = yes;
        self
    }

    /// Sets [`RefreshOptions::trust_fsmonitor`].
    pub fn trust_fsmonitor(mut self, yes: bool) -> Self {
        self.trust_fsmonitor = yes;
        self
    }
}

/// Why an entry is not what its file is.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// The path is one of an unresolved merge. Told once for all its stages.
    Unmerged,
    /// There is no file, or a symbolic link stands in the way to it.
    Missing,
    /// The path is yet to be added.
    Added,
    /// It is something else than a file, symbolic link or submodule now, or another one of these.
    TypeChanged,
    /// Content or mode are others.
    Modified,
    /// The file could not be looked at.
    Unreadable(io::Error),
}

/// What refreshing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Refreshed {
    /// Entries that got new stat data.
    pub updated: usize,
    /// Entries, or paths of a merge, that are not what their files are.
    pub changed: usize,
}

/// Looks at the files of all entries. Those found unchanged get what `lstat` says now, and are marked as
/// [up to date](Index::is_up_to_date); all others are reported with their position, in order, and left alone.
///
/// Entries that need not be in the work tree or are assumed to be unchanged are believed; sparse directories are passed
/// over. One `lstat` for each file and each directory above one, and the content of files that were touched.
pub fn refresh<W: WorkTree + ?Sized>(
    index: &mut Index<'_>,
    tree: &W,
    options: &RefreshOptions,
    report: &mut dyn FnMut(usize, Finding),
) -> Refreshed {
    let mut outcome = Refreshed::default();
    for (at, verdict) in look(index, tree, options) {
        match verdict {
            Verdict::Pass => {}
            Verdict::Clean => index.set_up_to_date(at, true),
            Verdict::Update(state) => {
                outcome.updated += 1;
                index.set_stat(at, state.stat);
                index.set_up_to_date(at, state.mode.is_blob());
            }
            Verdict::Finding(finding) => {
                outcome.changed += 1;
                take_back_assumption(index, at, &finding, options);
                report(at, finding);
            }
        }
    }
    outcome
}

fn take_back_assumption(index: &mut Index<'_>, at: usize, finding: &Finding, options: &RefreshOptions) {
    let differs = matches!(finding, Finding::Added | Finding::TypeChanged | Finding::Modified);
    let Some(mut flags) = index.get(at).map(|entry| entry.flags()).filter(|_| options.really && differs) else {
        return;
    };
    flags.assume_valid = false;
    index.set_flags(at, flags);
    index.set_fsmonitor_valid(at, false);
}

/// What comes of an entry.
enum Verdict {
    /// Nothing.
    Pass,
    /// Nothing but the mark that it was looked at.
    Clean,
    /// New stat data.
    Update(FileState),
    Finding(Finding),
}

/// Looks at all entries, perhaps on several threads.
fn look<W: WorkTree + ?Sized>(index: &Index<'_>, tree: &W, options: &RefreshOptions) -> Vec<(usize, Verdict)> {
    let look = Look { entries: index.entries(), marks: &index.marks, timestamp: index.timestamp(), tree, options };
    let count = index.len();
    let threads = options.threads.clamp(1, count.div_ceil(CHUNK).max(1));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut chunks = Vec::new();
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            let Some(start) = chunk.checked_mul(CHUNK).filter(|&start| start < count) else { return chunks };
            let mut ways = Ways { tree, clear: Vec::new(), blocked: Vec::new() };
            let verdicts = (start..count.min(start + CHUNK)).map(|at| (at, look.at(at, &mut ways)));
            chunks.push((chunk, verdicts.filter(|(_, verdict)| !matches!(verdict, Verdict::Pass)).collect()));
        }
    };
    let mut chunks: BTreeMap<usize, Vec<(usize, Verdict)>> = BTreeMap::new();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        chunks.extend(work());
        for other in others {
            chunks.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    chunks.into_values().flatten().collect()
}

struct Look<'l, 'a, W: ?Sized> {
    entries: Entries<'a, 'l>,
    marks: &'l [u8],
    timestamp: Time,
    tree: &'l W,
    options: &'l RefreshOptions,
}

impl<W: WorkTree + ?Sized> Look<'_, '_, W> {
    fn at(&self, at: usize, ways: &mut Ways<'_, W>) -> Verdict {
        let (Some(entry), options) = (self.entries.get(at), self.options) else { return Verdict::Pass };
        let (flags, marks) = (entry.flags(), self.marks.get(at).copied().unwrap_or(0));
        if (options.ignore_submodules && entry.is_gitlink())
            || (options.ignore_skip_worktree && flags.skip_worktree)
            || entry.is_sparse_dir()
        {
            return Verdict::Pass;
        }
        if entry.stage() != Stage::Merged {
            let before = at.checked_sub(1).and_then(|at| self.entries.get(at));
            let first = before.is_none_or(|before| before.path() != entry.path() || before.stage() == Stage::Merged);
            return match first && !options.unmerged_ok {
                true => Verdict::Finding(Finding::Unmerged),
                false => Verdict::Pass,
            };
        }
        if marks & MARK_UP_TO_DATE != 0 {
            return Verdict::Pass;
        }
        if flags.skip_worktree
            || (flags.assume_valid && !options.really)
            || (options.trust_fsmonitor && marks & MARK_FSMONITOR != 0)
        {
            return Verdict::Clean;
        }
        let found = match ways.is_clear(entry.path()) {
            Ok(true) => self.tree.lstat(entry.path()),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        match found {
            Ok(Some(state)) => {
                self.file(entry, &state).unwrap_or_else(|error| Verdict::Finding(Finding::Unreadable(error)))
            }
            Ok(None) if options.ignore_missing => Verdict::Pass,
            Ok(None) => Verdict::Finding(Finding::Missing),
            Err(error) => Verdict::Finding(Finding::Unreadable(error)),
        }
    }

    fn file(&self, entry: Entry<'_>, state: &FileState) -> io::Result<Verdict> {
        let changed = compare(&entry, state, self.tree, self.timestamp, &self.options.matching)?;
        if changed.is_empty() {
            // A submodule can change without its directory telling.
            return Ok(if entry.is_gitlink() { Verdict::Pass } else { Verdict::Clean });
        }
        if !is_modified(&entry, state, changed, self.tree)? {
            return Ok(Verdict::Update(*state));
        }
        Ok(Verdict::Finding(match changed {
            _ if entry.flags().intent_to_add => Finding::Added,
            changed if changed.any(Changed::TYPE) => Finding::TypeChanged,
            _ => Finding::Modified,
        }))
    }
}

/// The directories that lead to the last path: looked at once for all that is in them.
struct Ways<'t, W: ?Sized> {
    tree: &'t W,
    /// A directory with its `/`, above which there is no symbolic link.
    clear: Vec<u8>,
    /// A symbolic link or nothing where a directory should be, with a `/`. Empty: none is known.
    blocked: Vec<u8>,
}

impl<W: WorkTree + ?Sized> Ways<'_, W> {
    /// Whether only directories lead to the path. That there is none where one should be, or a symbolic link, means
    /// that there is no file either.
    fn is_clear(&mut self, path: &[u8]) -> io::Result<bool> {
        if !self.blocked.is_empty() && path.starts_with(&self.blocked) {
            return Ok(false);
        }
        let common = self.clear.iter().zip(path).take_while(|(a, b)| a == b).count();
        let common = path.get(..common).and_then(|common| memchr::memrchr(b'/', common)).map_or(0, |at| at + 1);
        self.clear.truncate(common);
        for at in memchr::memchr_iter(b'/', path).filter(|&at| at >= common) {
            let (Some(dir), Some(with_slash)) = (path.get(..at), path.get(..=at)) else { break };
            match self.tree.lstat(dir)? {
                Some(state) if state.mode.is_tree() => self.clear = with_slash.to_vec(),
                Some(state) if !state.mode.is_symlink() => return Err(io::ErrorKind::NotADirectory.into()),
                _ => {
                    self.blocked = with_slash.to_vec();
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Names what the file at a path would be as an object, with whatever conversion applies to it.
pub type HashContent<'h> = &'h (dyn Fn(Entry<'_>, &Path) -> io::Result<ObjectId> + Sync);

/// Tells the commit that the submodule in a directory has checked out.
pub type GitlinkHead<'h> = &'h (dyn Fn(&Path) -> io::Result<Option<ObjectId>> + Sync);

/// A work tree in the file system.
pub struct Checkout<'h> {
    root: PathBuf,
    hash_content: HashContent<'h>,
    gitlink_head: GitlinkHead<'h>,
}

impl std::fmt::Debug for Checkout<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkout").field("root", &self.root).finish_non_exhaustive()
    }
}

impl<'h> Checkout<'h> {
    /// The work tree with this root. Files are taken as they are, and submodules for unchanged.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Checkout { root: root.into(), hash_content: &hash_file, gitlink_head: &|_| Ok(None) }
    }

    /// Sets what names the content of regular files, for those that have to be converted first.
    pub fn hash_content(mut self, hook: HashContent<'h>) -> Self {
        self.hash_content = hook;
        self
    }

    /// Sets what looks into submodules.
    pub fn gitlink_head(mut self, hook: GitlinkHead<'h>) -> Self {
        self.gitlink_head = hook;
        self
    }

    /// Where a path of the index is in the file system.
    ///
    /// # Errors
    /// If the system has no such names (Windows: all but UTF-8).
    pub fn file(&self, path: &[u8]) -> io::Result<PathBuf> {
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            Ok(self.root.join(std::ffi::OsStr::from_bytes(path)))
        }
        #[cfg(not(unix))]
        {
            let path = std::str::from_utf8(path).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            Ok(self.root.join(path))
        }
    }
}

impl WorkTree for Checkout<'_> {
    fn lstat(&self, path: &[u8]) -> io::Result<Option<FileState>> {
        match fs::symlink_metadata(self.file(path)?) {
            Ok(meta) => Ok(Some(FileState::from_metadata(&meta))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn same_content(&self, entry: Entry<'_>, state: &FileState) -> io::Result<bool> {
        let file = self.file(entry.path())?;
        let id = match state.mode {
            mode if mode.is_symlink() => hash_link(&file, entry.id())?,
            mode if mode.is_blob() => (self.hash_content)(entry, &file)?,
            _ => return Ok(false),
        };
        Ok(id == entry.id())
    }

    fn gitlink_head(&self, path: &[u8]) -> io::Result<Option<ObjectId>> {
        (self.gitlink_head)(&self.file(path)?)
    }
}

fn hash_link(path: &Path, like: ObjectId) -> io::Result<ObjectId> {
    let target = fs::read_link(path)?;
    #[cfg(unix)]
    let target = std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str());
    #[cfg(not(unix))]
    let target = &target.to_string_lossy().replace('\\', "/").into_bytes()[..];
    object_id(like.kind(), ObjectKind::Blob, target).map_err(io::Error::other)
}

/// Names the content of a file as it is.
fn hash_file(entry: Entry<'_>, path: &Path) -> io::Result<ObjectId> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut hasher = NameHasher::new(entry.id().kind(), ObjectKind::Blob, size);
    // A file that shrinks meanwhile gets a name of nothing, and so differs; of one that grows the times will tell.
    let mut file = file.take(size);
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(usize::MAX).clamp(1, 128 * 1024)];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return hasher.finish().map_err(io::Error::other),
            Ok(read) => hasher.update(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use object::HashKind;

    use super::*;
    use crate::{Bump, NewEntry};

    #[test]
    fn i10_racy_to_the_nanosecond_where_both_sides_have_them() {
        let arena = Bump::new();
        let time = |secs, nanos| Time { secs, nanos };
        for (mtime, timestamp, racy) in [
            (time(7, 999_999_999), time(8, 0), false),
            (time(7, 999_999_999), time(8, 1), false),
            (time(8, 0), time(8, 0), true),
            (time(8, 0), time(8, 5), true),
            (time(8, 5), time(8, 0), true),
            (time(8, 5), time(8, 5), true),
            (time(8, 5), time(8, 6), false),
            (time(8, 6), time(8, 5), true),
            (time(9, 1), time(8, 5), true),
            (time(9, 1), time(0, 0), false),
        ] {
            let mut index = Index::new(&arena, HashKind::Sha1);
            let stat = Stat { mtime, ..Stat::default() };
            for mode in [0o100_644, 0o160_000] {
                let new = NewEntry::new(b"f", Mode(mode), HashKind::Sha1.empty_blob());
                index.add(&NewEntry { stat, ..new }, &Default::default()).unwrap();
                let entry = index.get(0).unwrap();
                assert_eq!(is_racy(&entry, timestamp), racy && mode == 0o100_644, "{mtime:?} {timestamp:?}");
            }
        }
    }

    #[test]
    fn stat_fields_count_as_the_options_say() {
        let (full, minimal) = (MatchOptions::default(), MatchOptions::default().check_stat(CheckStat::Minimal));
        let no_ctime = full.trust_ctime(false);
        let time = |secs, nanos| Time { secs, nanos };
        let old = Stat { mtime: time(5, 5), ctime: time(6, 6), dev: 1, ino: 2, uid: 3, gid: 4, size: 5 };
        let none = Changed::default();
        for (new, in_full, in_no_ctime, in_minimal) in [
            (old, none, none, none),
            (Stat { dev: 9, ..old }, none, none, none),
            (Stat { mtime: time(4, 5), ..old }, Changed::MTIME, Changed::MTIME, Changed::MTIME),
            (Stat { mtime: time(5, 6), ..old }, Changed::MTIME, Changed::MTIME, none),
            (Stat { mtime: time(5, 0), ..old }, none, none, none),
            (Stat { ctime: time(7, 6), ..old }, Changed::CTIME, none, none),
            (Stat { ctime: time(6, 0), ..old }, none, none, none),
            (Stat { uid: 9, ..old }, Changed::OWNER, Changed::OWNER, none),
            (Stat { gid: 9, ..old }, Changed::OWNER, Changed::OWNER, none),
            (Stat { ino: 9, ..old }, Changed::INODE, Changed::INODE, none),
            (Stat { size: 9, ..old }, Changed::DATA, Changed::DATA, Changed::DATA),
        ] {
            assert_eq!(match_stat(&old, &new, &full), in_full, "{new:?}");
            assert_eq!(match_stat(&new, &old, &full), in_full, "{new:?}");
            assert_eq!(match_stat(&old, &new, &no_ctime), in_no_ctime, "{new:?}");
            assert_eq!(match_stat(&old, &new, &minimal), in_minimal, "{new:?}");
        }
    }
}
