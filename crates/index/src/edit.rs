//! One change at a time. Whatever the extensions say about what changes is made true or dropped with it.

use std::ops::Range;

use object::{HashKind, ObjectId};

use crate::entry::{Entry, Flags, Mode, NewEntry, Stage};
use crate::error::EditError;
use crate::ext::{CacheTree, ResolveUndo, Untracked};
use crate::header::Version;
use crate::index::{Index, MARK_FSMONITOR, MARK_UP_TO_DATE};
use crate::path::{self, PathChecks};
use crate::split::Split;
use crate::stat::{Stat, Time};
use crate::store::{Slot, Slots};

/// What adding may do. All fields have setters of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddOptions {
    /// Whether a path that is not there may be added. Default: `true`.
    pub add: bool,
    /// Whether a file takes the place of a directory's entries, and an entry inside a directory that of a file with the
    /// directory's name. Default: `false`: such conflicts are errors.
    pub replace: bool,
    /// What paths are refused. Default: as git on this platform; `None`: paths were checked before.
    pub checks: Option<PathChecks>,
}

impl Default for AddOptions {
    fn default() -> Self {
        AddOptions { add: true, replace: false, checks: Some(PathChecks::default()) }
    }
}

impl AddOptions {
    /// Sets [`AddOptions::add`].
    #[expect(clippy::should_implement_trait, reason = "a setter is named after its field")]
    pub fn add(mut self, yes: bool) -> Self {
        self.add = yes;
        self
    }

    /// Sets [`AddOptions::replace`].
    pub fn replace(mut self, yes: bool) -> Self {
        self.replace = yes;
        self
    }

    /// Sets [`AddOptions::checks`].
    pub fn checks(mut self, checks: Option<PathChecks>) -> Self {
        self.checks = checks;
        self
    }
}

/// What adding did; with the entry's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// The path was new.
    Inserted(usize),
    /// An entry of that path and stage was there and said something else.
    Replaced(usize),
    /// The very same entry was there. Other stages of its path, if there were any, are gone all the same.
    Unchanged(usize),
}

impl Added {
    /// The entry's position.
    pub fn at(self) -> usize {
        match self {
            Added::Inserted(at) | Added::Replaced(at) | Added::Unchanged(at) => at,
        }
    }
}

/// `sparse`: the index may have entries of directories.
pub(crate) fn check_new(
    entry: &NewEntry<'_>,
    kind: HashKind,
    sparse: bool,
    options: &AddOptions,
) -> Result<(), EditError> {
    if entry.id.kind() != kind {
        return Err(EditError::HashKind { path: entry.path.into() });
    }
    if entry.mode.is_tree() && !(sparse && entry.path.ends_with(b"/")) {
        return Err(EditError::Directory { path: entry.path.into() });
    }
    match options.checks.map(|checks| path::check(entry.path, entry.mode, checks)) {
        Some(Err(source)) => Err(EditError::Path { path: entry.path.into(), source }),
        _ => Ok(()),
    }
}

/// The directories above a path, from the root down, each without its `/`.
pub(crate) fn parents(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    memchr::memchr_iter(b'/', path).filter_map(|at| path.get(..at))
}

impl<'a> Index<'a> {
    /// Puts an entry into the index, in place of one of the same path and stage.
    ///
    /// A stage-0 entry ends a conflict: other stages of the path go, and are recorded as resolved. Costs O(log n) for each
    /// directory of the path, and moving what lies behind if it is new; for many entries [`apply`](Index::apply) is linear.
    ///
    /// # Errors
    /// The path may not be in an index, or not be added; it conflicts with a file or directory; it lies in a directory that
    /// stands as one sparse entry. The index is then as it was.
    pub fn add(&mut self, entry: &NewEntry<'_>, options: &AddOptions) -> Result<Added, EditError> {
        check_new(entry, self.kind, self.sparse, options)?;
        self.outside_of_sparse_dirs(entry.path)?;
        let found = self.find(entry.path, entry.stage);
        if found.is_err() {
            let known = !self.range(entry.path).is_empty();
            if !options.add && !known {
                return Err(EditError::NotThere { path: entry.path.into() });
            }
            let conflicts = self.file_directory_conflicts(entry.path, entry.stage);
            if let (false, Some(&other)) = (options.replace, conflicts.first()) {
                let other = self.get(other).map_or(Vec::new(), |other| other.path().into());
                return Err(EditError::FileDirectory { path: entry.path.into(), other });
            }
            // What lies side by side goes together: a directory may be large.
            for run in conflicts.chunk_by(|at, next| at + 1 == *next).rev() {
                self.remove_at(run.first().map_or(0..0, |&first| first..first + run.len()));
            }
        }
        if entry.stage == Stage::Merged {
            let stages = self.range(entry.path);
            self.remove_at(stages.start + usize::from(found.is_ok())..stages.end);
        }
        // What was removed since it was found lies behind it.
        match found.or_else(|_| self.find(entry.path, entry.stage)) {
            Ok(at) if self.get(at).is_some_and(|old| NewEntry::from(old) == *entry) => Ok(Added::Unchanged(at)),
            Ok(at) => {
                self.replace_entry(at, entry);
                Ok(Added::Replaced(at))
            }
            Err(at) => {
                let slot = self.store.put(entry);
                self.insert_at(at, slot);
                self.path_changed(entry.path, true);
                Ok(Added::Inserted(at))
            }
        }
    }

    /// Removes all stages of a path, and says how many there were. Conflicts are recorded as resolved.
    pub fn remove(&mut self, path: &[u8]) -> usize {
        let range = self.range(path);
        let count = range.len();
        self.remove_at(range);
        count
    }

    /// Removes one stage of a path, and says whether it was there. Nothing is recorded as resolved.
    pub fn remove_stage(&mut self, path: &[u8], stage: Stage) -> bool {
        let Ok(at) = self.find(path, stage) else { return false };
        self.drop_slots(at..at + 1);
        self.path_changed(path, true);
        true
    }

    /// Removes everything below a directory (without its `/`), and says how many entries that was.
    pub fn remove_dir(&mut self, dir: &[u8]) -> usize {
        let range = self.prefix(&[dir, b"/"].concat());
        let count = range.len();
        self.remove_at(range);
        count
    }

    /// Sets what `lstat` said about an entry's file. Nothing else about it changes.
    pub fn set_stat(&mut self, at: usize, stat: Stat) {
        self.update(at, |entry| entry.stat = stat);
    }

    /// Sets an entry's flags.
    pub fn set_flags(&mut self, at: usize, flags: Flags) {
        let Some(old) = self.get(at) else { return };
        let in_tree = old.flags().intent_to_add != flags.intent_to_add;
        if self.update(at, |entry| entry.flags = flags) && in_tree {
            self.path_changed(old.path(), false);
        }
    }

    /// Sets an entry's mode.
    pub fn set_mode(&mut self, at: usize, mode: Mode) {
        self.update_content(at, |entry| entry.mode = mode);
    }

    /// Sets what an entry names. The file is not known to be unchanged any more.
    ///
    /// # Panics
    /// If `id` is of the other hash function.
    pub fn set_id(&mut self, at: usize, id: ObjectId) {
        assert_eq!(id.kind(), self.kind, "an id of the repository's kind");
        self.update_content(at, |entry| entry.id = id);
    }

    fn update_content(&mut self, at: usize, change: impl FnOnce(&mut NewEntry<'_>)) {
        let Some(path) = self.get(at).map(|entry| entry.path()) else { return };
        if self.update(at, change) {
            self.clear_marks(at, MARK_FSMONITOR | MARK_UP_TO_DATE);
            self.path_changed(path, false);
        }
    }

    fn update(&mut self, at: usize, change: impl FnOnce(&mut NewEntry<'_>)) -> bool {
        let Some(old) = self.get(at) else { return false };
        let mut new = NewEntry::from(old);
        change(&mut new);
        if new == NewEntry::from(old) {
            return false;
        }
        if let Some(slot) = self.slots.list().get_mut(at) {
            *slot = self.store.put(&new);
        }
        self.changed = true;
        true
    }

    /// Sets what [`version`](Index::version) to write: [`Version::V2`] and [`Version::V3`] are both "the lowest that fits".
    pub fn set_version(&mut self, version: Version) {
        self.changed |= (version == Version::V4) != (self.version == Version::V4);
        self.version = version;
    }

    /// Sets whether directories may stand as one entry. The entries do not change: see [`sparse`](crate::sparse).
    pub fn set_sparse(&mut self, yes: bool) {
        self.changed |= self.sparse != yes;
        self.sparse = yes;
    }

    /// Sets when the file it stands for was written: entries whose files are not older are looked at again.
    pub fn set_timestamp(&mut self, time: Time) {
        self.timestamp = time;
    }

    /// Sets or drops the trees that parts of the index are known to be.
    pub fn set_cache_tree(&mut self, tree: Option<CacheTree<'a>>) {
        self.changed |= tree.is_some() || self.tree.is_some();
        self.tree = tree;
    }

    /// The conflicts that were resolved, to be changed.
    pub fn resolve_undo_mut(&mut self) -> &mut ResolveUndo {
        self.changed = true;
        &mut self.resolve_undo
    }

    /// Sets or drops what was found untracked.
    pub fn set_untracked(&mut self, cache: Option<Untracked<'a>>) {
        self.changed |= cache.is_some() || self.untracked.is_some();
        self.untracked = cache;
    }

    /// Sets what to ask the file system monitor for changes since, or forgets the monitor and all it said.
    pub fn set_fsmonitor(&mut self, token: Option<&[u8]>) {
        self.changed |= self.fsmonitor.as_deref() != token;
        self.fsmonitor = token.map(Vec::from);
        if token.is_none() {
            self.marks.iter_mut().for_each(|marks| *marks &= !MARK_FSMONITOR);
        }
    }

    /// Sets whether the file system monitor has not seen the entry's file change.
    pub fn set_fsmonitor_valid(&mut self, at: usize, yes: bool) {
        if self.fsmonitor_valid(at) != yes {
            self.set_mark(at, MARK_FSMONITOR, yes);
            self.changed |= self.fsmonitor.is_some();
        }
    }

    /// Sets whether the entry was found to be what its file is. Not stored, and so no change.
    pub fn set_up_to_date(&mut self, at: usize, yes: bool) {
        self.set_mark(at, MARK_UP_TO_DATE, yes);
    }

    /// Drops the unknown extensions: their keeper may have to do so after changes it does not understand.
    pub fn drop_unknown_extensions(&mut self) {
        self.changed |= !self.unknown.is_empty();
        self.unknown.clear();
    }

    /// Makes it be written as a split index; a shared index is written at that moment if there is none yet.
    pub fn set_split(&mut self) {
        if self.split.is_none() {
            self.split = Some(Split { base: None, slots: Slots::default(), of: Vec::new() });
            self.changed = true;
        }
    }

    /// Makes it be written as one file.
    pub fn unset_split(&mut self) {
        self.changed |= self.split.take().is_some();
    }

    /// Has it written even if nothing changed.
    pub fn set_changed(&mut self) {
        self.changed = true;
    }

    fn outside_of_sparse_dirs(&self, path: &[u8]) -> Result<(), EditError> {
        if !self.sparse {
            return Ok(());
        }
        for at in memchr::memchr_iter(b'/', path) {
            let Some(dir) = path.get(..=at).filter(|dir| dir.len() < path.len()) else { continue };
            if self.find(dir, Stage::Merged).is_ok() {
                return Err(EditError::InSparseDir { path: path.into(), dir: dir.into() });
            }
        }
        Ok(())
    }

    /// Entries of the stage that cannot be beside a new one of this path, in order: files that are named as a directory
    /// above it, and what lies in a directory of its name; or in itself, if it is one.
    fn file_directory_conflicts(&self, path: &[u8], stage: Stage) -> Vec<usize> {
        let mut found: Vec<usize> = parents(path).filter_map(|dir| self.find(dir, stage).ok()).collect();
        let dir = if path.ends_with(b"/") { path.to_vec() } else { [path, b"/"].concat() };
        found.extend(self.prefix(&dir).filter(|&at| self.get(at).is_some_and(|entry| entry.stage() == stage)));
        found
    }

    fn replace_entry(&mut self, at: usize, entry: &NewEntry<'_>) {
        let Some(slot) = self.slots.list().get_mut(at) else { return };
        *slot = self.store.put(entry);
        self.clear_marks(at, MARK_FSMONITOR | MARK_UP_TO_DATE);
        self.path_changed(entry.path, false);
    }

    fn insert_at(&mut self, at: usize, slot: Slot) {
        if !self.marks.is_empty() {
            self.marks.insert(at, 0);
        }
        if let Some(split) = &mut self.split
            && !split.of.is_empty()
        {
            split.of.insert(at, 0);
        }
        self.slots.list().insert(at, slot);
    }

    /// Removes entries; those of a conflict are recorded as resolved.
    fn remove_at(&mut self, range: Range<usize>) {
        let gone: Vec<Entry<'a>> = self.iter_range(range.clone()).collect();
        if gone.is_empty() {
            return;
        }
        self.drop_slots(range);
        for entry in gone {
            self.resolve_undo.record(entry.path(), entry.stage(), entry.mode(), entry.id());
            self.path_changed(entry.path(), true);
        }
    }

    fn drop_slots(&mut self, range: Range<usize>) {
        self.slots.list().drain(range.clone());
        if !self.marks.is_empty() {
            self.marks.drain(range.clone());
        }
        if let Some(split) = &mut self.split
            && !split.of.is_empty()
        {
            split.of.drain(range);
        }
    }

    fn set_mark(&mut self, at: usize, bit: u8, yes: bool) {
        if at >= self.slots.len() || (!yes && self.marks.is_empty()) {
            return;
        }
        if self.marks.is_empty() {
            self.marks.resize(self.slots.len(), 0);
        }
        if let Some(marks) = self.marks.get_mut(at) {
            *marks = if yes { *marks | bit } else { *marks & !bit };
        }
    }

    fn clear_marks(&mut self, at: usize, bits: u8) {
        if let Some(marks) = self.marks.get_mut(at) {
            *marks &= !bits;
        }
    }

    /// The tree that holds this path is another one now; and if the path itself came or went, what is untracked may be.
    pub(crate) fn path_changed(&mut self, path: &[u8], came_or_went: bool) {
        self.changed = true;
        if let Some(tree) = &mut self.tree {
            tree.invalidate(path);
        }
        if let Some(cache) = self.untracked.as_mut().filter(|_| came_or_went) {
            cache.invalidate(path);
        }
    }
}
