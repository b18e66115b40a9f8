//! One path: a file that is taken over, removed, or marked.

use std::fs::{self, File};
use std::io::{self, Read as _};

use index::refresh::{FileState, WorkTree as _, compare, is_beyond_symlink};
use index::trees::TreeLimits;
use index::{AddOptions, EditError, Flags, Mode, NewEntry, Stage, path, sparse};
use object::{ObjectId, ObjectKind, object_id};

use super::Work;
use crate::env::os_bytes;
use crate::objects::Objects;
use crate::report::{self, Failure, chain};
use crate::setup::Repository;
use crate::worktree::{Tree, io_words, unsupported};

/// Why a path was not worked off.
pub(super) enum Problem {
    /// To be said in front of the failure that names the path.
    Said(String),
    Failure(Failure),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Problem::Failure(failure)
    }
}

impl Problem {
    /// As the end of the command.
    pub(super) fn fatal(self, what: String) -> Failure {
        match self {
            Problem::Failure(failure) => failure,
            Problem::Said(text) => {
                report::say(&format!("error: {text}\n"));
                Failure::Fatal(what)
            }
        }
    }
}

fn said<T>(text: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Said(text.into()))
}

/// The store, opened now if it was not needed before.
pub(super) fn opened<'o>(objects: &'o mut Option<Objects>, repo: &Repository) -> Result<&'o mut Objects, Failure> {
    if let Some(objects) = objects {
        return Ok(objects);
    }
    Ok(objects.insert(Objects::open(repo)?))
}

impl Work<'_, '_> {
    /// Does to a path what the options in front of it say.
    pub(super) fn update(&mut self, path: &[u8]) -> Result<(), Failure> {
        let Some(tree) = self.place.tree() else { return Ok(()) };
        let typed = &self.typed;
        let marks = typed.assume_unchanged.is_some() || typed.skip_worktree.is_some() || typed.no_fsmonitor_valid;
        // What is only marked or removed need not be there.
        let found = if marks || typed.force_remove { Ok(None) } else { tree.lstat(path) };
        let mode = found.as_ref().ok().and_then(|found| *found).map_or(Mode(0), |state| state.mode);
        let name = String::from_utf8_lossy(path).into_owned();
        if !self.may_be_entry(path, mode) {
            report::say(&format!("Ignoring path {name}\n"));
            return Ok(());
        }
        self.expand_to(path)?;
        if marks {
            return self.mark(path);
        }
        if self.typed.force_remove {
            self.index.remove(path);
            return self.say("remove", path);
        }
        self.take_over(path, found).map_err(|problem| problem.fatal(format!("Unable to process path {name}")))?;
        self.say("add", path)
    }

    /// Whether an entry of this path may be added. A `/` at its end is for sparse directories, which nobody adds by hand.
    pub(super) fn may_be_entry(&self, path: &[u8], mode: Mode) -> bool {
        !path.ends_with(b"/") && path::check(path, mode, self.checks).is_ok()
    }

    /// Makes sure that no sparse directory stands in the way to a path.
    pub(super) fn expand_to(&mut self, path: &[u8]) -> Result<(), Failure> {
        if self.index.is_sparse() {
            let objects = opened(&mut self.objects, self.repo)?;
            sparse::expand_to(&mut self.index, objects, &TreeLimits::default(), path)
                .map_err(|error| Failure::Fatal(chain(&error)))?;
        }
        Ok(())
    }

    /// Replaces all sparse directories by what is in them.
    pub(super) fn expand(&mut self) -> Result<(), Failure> {
        if self.index.is_sparse() {
            let objects = opened(&mut self.objects, self.repo)?;
            sparse::expand(&mut self.index, objects, &TreeLimits::default(), &|_| false)
                .map_err(|error| Failure::Fatal(chain(&error)))?;
        }
        Ok(())
    }

    fn mark(&mut self, path: &[u8]) -> Result<(), Failure> {
        let Ok(at) = self.index.find(path, Stage::Merged) else {
            return Err(Failure::Fatal(format!("Unable to mark file {}", String::from_utf8_lossy(path))));
        };
        let mut flags = self.index.get(at).map_or(Flags::default(), |entry| entry.flags());
        // Only one of the marks at a time, as in git.
        match (self.typed.assume_unchanged, self.typed.skip_worktree) {
            (Some(yes), _) => flags.assume_valid = yes,
            (None, Some(yes)) => flags.skip_worktree = yes,
            (None, None) => {}
        }
        self.index.set_flags(at, flags);
        self.index.set_fsmonitor_valid(at, false);
        self.index.set_changed();
        Ok(())
    }

    /// Sets or clears the executable bit of an entry.
    pub(super) fn chmod(&mut self, path: &[u8], executable: bool) -> Result<(), Failure> {
        let (sign, mode) = if executable { ('+', 0o100_755) } else { ('-', 0o100_644) };
        let at = self.index.find(path, Stage::Merged).ok();
        let at = at.filter(|&at| self.index.get(at).is_some_and(|entry| entry.mode().is_blob()));
        let Some(at) = at else {
            let name = String::from_utf8_lossy(path);
            return Err(Failure::Fatal(format!("git update-index: cannot chmod {sign}x '{name}'")));
        };
        self.index.set_mode(at, Mode(mode));
        self.say(&format!("chmod {sign}x"), path)
    }

    /// Brings the entry of a path to what the work tree has there.
    fn take_over(&mut self, path: &[u8], found: io::Result<Option<FileState>>) -> Result<(), Problem> {
        let Some(tree) = self.place.tree() else { return Ok(()) };
        let name = String::from_utf8_lossy(path);
        if is_beyond_symlink(path, tree).unwrap_or(false) {
            return said(format!("'{name}' is beyond a symbolic link"));
        }
        let old = self.index.find(path, Stage::Merged).ok();
        if old.and_then(|at| self.index.get(at)).is_some_and(|entry| entry.flags().skip_worktree) {
            // The file need not be there, so what it is does not matter; but removing the path was asked for.
            if !self.typed.ignore_skip_worktree_entries && self.typed.remove {
                self.index.remove(path);
            }
            return Ok(());
        }
        match found {
            Ok(None) => self.remove_missing(path),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => self.remove_missing(path),
            Err(error) => said(format!("lstat(\"{name}\"): {}", io_words(&error))),
            Ok(Some(state)) if state.mode.is_tree() => self.directory(path, old, &state),
            Ok(Some(state)) => self.file(path, old, &state),
        }
    }

    fn remove_missing(&mut self, path: &[u8]) -> Result<(), Problem> {
        if !self.typed.remove {
            return said(format!("{}: does not exist and --remove not passed", String::from_utf8_lossy(path)));
        }
        self.index.remove(path);
        Ok(())
    }

    /// A directory is a submodule, or stands where a file was, or was named by mistake.
    fn directory(&mut self, path: &[u8], old: Option<usize>, state: &FileState) -> Result<(), Problem> {
        let Some(tree) = self.place.tree() else { return Ok(()) };
        let name = String::from_utf8_lossy(path);
        let head = |path| {
            let dir = tree.file(path).map_err(|error| Problem::Said(format!("{name}: {error}")))?;
            tree.head_of(&dir).map_err(Problem::Failure)
        };
        match old.and_then(|at| self.index.get(at)) {
            Some(entry) if entry.is_gitlink() => match head(path)? {
                // A submodule without a commit leaves the entry as it is.
                None => Ok(()),
                Some(_) => self.file(path, old, state),
            },
            Some(_) => self.remove_missing(path),
            None if !self.index.prefix(&[path, b"/"].concat()).is_empty() => {
                said(format!("{name}: is a directory - add individual files instead"))
            }
            None => match head(path)? {
                None => said(format!("{name}: is a directory - add files inside instead")),
                Some(_) => self.file(path, None, state),
            },
        }
    }

    /// A file, symbolic link or submodule, unless its entry says so already.
    fn file(&mut self, path: &[u8], old: Option<usize>, state: &FileState) -> Result<(), Problem> {
        let Some(tree) = self.place.tree() else { return Ok(()) };
        let old = old.and_then(|at| self.index.get(at));
        if let Some(entry) = old {
            let same = || compare(&entry, state, tree, self.index.timestamp(), &tree.matching);
            // If they cannot be compared, the reason will show when the file is read.
            if entry.flags().assume_valid || same().is_ok_and(|changed| changed.is_empty()) {
                return Ok(());
            }
        }
        let mode = entry_mode(tree, old.map(|entry| entry.mode()), state);
        let id = content_id(tree, path, state, self.typed.info_only, || opened(&mut self.objects, self.repo))?;
        let flags = Flags { assume_valid: self.ignore_stat, ..Flags::default() };
        let entry = NewEntry { path, id, mode, stage: Stage::Merged, stat: state.stat, flags };
        let at = self.add(&entry)?;
        self.index.set_up_to_date(at, state.mode.is_blob());
        Ok(())
    }

    /// Puts an entry into the index as far as `--add` and `--replace` allow.
    pub(super) fn add(&mut self, entry: &NewEntry<'_>) -> Result<usize, Problem> {
        let options = AddOptions::default().add(self.typed.add).replace(self.typed.replace).checks(Some(self.checks));
        match self.index.add(entry, &options) {
            Ok(added) => Ok(added.at()),
            Err(error) => {
                if !matches!(error, EditError::NotThere { .. }) {
                    report::say(&format!("error: {error}\n"));
                }
                let name = String::from_utf8_lossy(entry.path);
                said(format!("{name}: cannot add to the index - missing --add option?"))
            }
        }
    }

    /// Brings back the conflict that a path had.
    pub(super) fn unresolve(&mut self, path: &[u8]) -> Result<(), Failure> {
        if self.index.resolve_undo().get(path).is_none() {
            return Ok(());
        }
        let Some(stages) = self.index.resolve_undo_mut().remove(path) else { return Ok(()) };
        if self.index.find(path, Stage::Merged).is_err() && !self.index.range(path).is_empty() {
            return Ok(()); // it has one already
        }
        self.index.remove_stage(path, Stage::Merged);
        let stages = [Stage::Base, Stage::Ours, Stage::Theirs].into_iter().zip(stages);
        for (stage, (mode, id)) in stages.filter_map(|(stage, side)| Some((stage, side?))) {
            let entry = NewEntry { stage, ..NewEntry::new(path, mode, id) };
            if let Err(error) = self.index.add(&entry, &AddOptions::default().checks(Some(self.checks))) {
                report::say(&format!("error: {error}\nerror: cannot unmerge '{}'\n", String::from_utf8_lossy(path)));
                (self.write, self.needs_update) = (false, true);
                break;
            }
        }
        Ok(())
    }
}

/// The mode that an entry gets: what the file system cannot tell is taken from the entry that was there.
fn entry_mode(tree: &Tree, old: Option<Mode>, state: &FileState) -> Mode {
    let (links, executables) = (tree.matching.has_symlinks, tree.matching.trust_file_mode);
    match (state.mode, old) {
        (mode, _) if mode.is_tree() => Mode(0o160_000),
        (mode, Some(old)) if mode.is_blob() && !links && old.is_symlink() => old,
        (mode, Some(old)) if mode.is_blob() && !executables && old.is_blob() => old,
        (mode, _) if mode.is_blob() && !executables => Mode(0o100_644),
        (mode, _) => mode,
    }
}

/// Names what a path holds, and unless `only_name` stores it.
fn content_id<'o>(
    tree: &Tree,
    path: &[u8],
    state: &FileState,
    only_name: bool,
    objects: impl FnOnce() -> Result<&'o mut Objects, Failure>,
) -> Result<ObjectId, Problem> {
    let name = String::from_utf8_lossy(path);
    let at = tree.file(path).map_err(|error| Problem::Said(format!("{name}: {error}")))?;
    if state.mode.is_tree() {
        let head = tree.head_of(&at)?;
        return head.map_or_else(|| said(format!("'{name}' does not have a commit checked out")), Ok);
    }
    let content = if state.mode.is_symlink() {
        let target = fs::read_link(&at);
        let target = target.map_err(|error| Problem::Said(format!("readlink(\"{name}\"): {}", io_words(&error))))?;
        os_bytes(target.as_os_str()).into_owned()
    } else if state.mode.is_blob() {
        let cannot = |what: &str, error: &io::Error| Problem::Said(format!("{what}(\"{name}\"): {}", io_words(error)));
        let mut file = File::open(&at).map_err(|error| cannot("open", &error))?;
        let needs = tree.needs(path);
        if needs.is_nothing() {
            let id = objects()?.write_file(&mut file, only_name);
            return id
                .map_err(|error| Problem::Said(format!("{name}: failed to insert into database: {}", chain(&error))));
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(|error| cannot("read", &error))?;
        if let Some(what) = needs.of(&content) {
            return Err(Failure::Fatal(format!("cannot add '{name}': {}", unsupported(&what))).into());
        }
        content
    } else {
        return said(format!("{name}: unsupported file type"));
    };
    let objects = objects()?;
    let id = match only_name {
        true => object_id(objects.store().hash_kind(), ObjectKind::Blob, &content).map_err(Into::into),
        false => objects.write(ObjectKind::Blob, &content),
    };
    id.map_err(|error| Problem::Said(format!("{name}: failed to insert into database: {}", chain(&error))))
}
