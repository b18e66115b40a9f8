//! `packstone update-index`: git-update-index.
//!
//! Options and paths are worked off in the order they stand on the command line ([`Work::words`]); what one of them does to
//! the index is in [`paths`] and [`info`]. The index is written at the end, if all went well and there is something to write.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufWriter, Write as _};
use std::slice::Iter;

use hashfile::lock::{LockError, LockFile};
use index::path::PathChecks;
use index::refresh::{Finding, RefreshOptions, is_racy, refresh};
use index::{Bump, Index, Version};

use self::typed::{Action, TABLE, Typed};
use crate::env::{Environment, os_bytes};
use crate::index::{IndexPlace, cannot_lock};
use crate::objects::Objects;
use crate::options::Step;
use crate::present::see_present_files;
use crate::quote::unquote_c;
use crate::report::{self, Failure, chain, plain_io};
use crate::setup::Repository;

mod again;
mod info;
mod paths;
mod typed;

/// Fewest entries for which another thread pays when their files are looked at, and most threads.
const ENTRIES_PER_THREAD: usize = 500;
const MOST_THREADS: usize = 20;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Changes the index: takes over files of the work tree, removes paths, sets flags, or adds entries as they are given.
Options act on the paths behind them; nothing is written unless all of it can be done.

With --index-info a line is `<mode> <object>TAB<path>`, `<mode> <type> <object>TAB<path>` or
`<mode> <object> <stage>TAB<path>`; mode 0 removes the path.

Files that git would convert before it stores them (line ends, ident, filters, encodings; see gitattributes) are
refused, unless their content stays the same.

Configuration: core.trustctime, core.checkStat, core.fileMode, core.symlinks, core.ignoreStat, core.autocrlf,
core.attributesFile, core.protectNTFS, core.protectHFS, core.preloadIndex, core.splitIndex, core.untrackedCache,
core.fsmonitor (whose answers are kept, not asked for), core.compression, core.looseCompression,
core.createObject, core.bigFileThreshold, core.fsync, core.fsyncMethod, core.fsyncObjectFiles, core.sharedRepository,
core.lockfilePid, pack.compression, pack.packSizeLimit, pack.writeReverseIndex,
index.version, index.threads, index.skipHash, index.recordEndOfIndexEntries, index.recordOffsetTable,
splitIndex.maxPercentChange, splitIndex.sharedIndexExpire, feature.manyFiles.

Exit code: 0 done; 1 a refreshed file needs an update or a merge; 128 with `fatal: ...`; 129 for a wrong command line.
";

/// The help page.
pub(crate) fn page() -> String {
    TABLE.page(ABOUT)
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    TABLE.help_if_asked(words)?;
    let repo = Repository::find(env)?;
    let place = IndexPlace::find(&repo)?;
    // Whether there is anything to write is only known later, and only then does it matter who holds the lock.
    let lock = place.lock();
    let arena = Bump::new();
    let opened = place.open()?;
    let mut work = Work {
        index: opened.read(&arena)?,
        repo: &repo,
        place: &place,
        // A file that is not there has no version yet.
        version: if opened.is_new() { 0 } else { u32::MAX },
        checks: repo.path_checks()?,
        ignore_stat: repo.config.truth("core.ignorestat")?.unwrap_or(false),
        objects: None,
        typed: Typed::default(),
        needs_update: false,
        write: true,
        out: BufWriter::new(io::stdout()),
    };
    let seen = see_present_files(&repo, &place, &mut work.index);
    let result = seen.and_then(|()| work.words(words)).and_then(|()| work.finish(lock));
    let flushed = work.out.flush().map_err(|error| Failure::output("write error", error));
    result.and(flushed)
}

/// A run of the command.
struct Work<'w, 'a> {
    repo: &'w Repository,
    place: &'w IndexPlace,
    index: Index<'a>,
    /// The version that `--index-version` set; `u32::MAX`: the one that was read; 0: none yet.
    version: u32,
    checks: PathChecks,
    /// `core.ignoreStat`: what is added is assumed not to change.
    ignore_stat: bool,
    /// Opened when first needed.
    objects: Option<Objects>,
    typed: Typed,
    /// Refreshing found something.
    needs_update: bool,
    /// Whether what changed is to be written.
    write: bool,
    out: BufWriter<io::Stdout>,
}

impl Work<'_, '_> {
    /// Works off the command line.
    fn words(&mut self, words: &[OsString]) -> Result<(), Failure> {
        let mut rest = words.iter();
        let mut only_paths = false;
        let mut stdin = false;
        loop {
            let step = match only_paths {
                true => rest.next().map_or(Step::Done, Step::Operand),
                false => TABLE.step(&mut rest, &mut self.typed)?,
            };
            match step {
                Step::Done => break,
                Step::End => only_paths = true,
                Step::Operand(path) => self.path_as_typed(&os_bytes(path))?,
                Step::Option => {
                    for action in std::mem::take(&mut self.typed.actions) {
                        stdin |= action == Action::Stdin;
                        self.act(action, &mut rest)?;
                    }
                }
            }
        }
        self.index_version()?;
        if stdin { self.paths_from_stdin() } else { Ok(()) }
    }

    fn act(&mut self, action: Action, rest: &mut Iter<'_, OsString>) -> Result<(), Failure> {
        let be_last = |name: &str| match rest.len() {
            0 => Ok(()),
            _ => Err(Failure::Usage(format!("error: option '{name}' must be the last argument\n"))),
        };
        match action {
            Action::Refresh => self.refresh(false),
            Action::ReallyRefresh => self.refresh(true),
            Action::CacheInfo => self.cache_info(rest),
            Action::Stdin => be_last("stdin"),
            Action::IndexInfo => {
                be_last("index-info")?;
                self.index_info()
            }
            Action::Unresolve => {
                for path in rest {
                    let path = self.repo.path_in_tree(&os_bytes(path))?;
                    self.unresolve(&path)?;
                }
                Ok(())
            }
            Action::Again => {
                let paths: Vec<Vec<u8>> = rest.map(|path| os_bytes(path).into_owned()).collect();
                self.again(&paths)
            }
            Action::ClearResolveUndo => {
                if !self.index.resolve_undo().is_empty() {
                    self.index.resolve_undo_mut().clear();
                }
                Ok(())
            }
        }
    }

    /// A path from the command line or standard input.
    fn path_as_typed(&mut self, path: &[u8]) -> Result<(), Failure> {
        self.repo.need_work_tree()?;
        let path = self.repo.path_in_tree(path)?;
        self.update(&path)?;
        match self.typed.chmod {
            Some(executable) => self.chmod(&path, executable),
            None => Ok(()),
        }
    }

    fn paths_from_stdin(&mut self) -> Result<(), Failure> {
        self.repo.need_work_tree()?;
        let end = if self.typed.nul { 0 } else { b'\n' };
        let mut stdin = io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = stdin.read_until(end, &mut line);
            if read.map_err(|error| cannot_read_stdin(&error))? == 0 {
                return Ok(());
            }
            let path = line.strip_suffix(&[end]).unwrap_or(&line);
            if !self.typed.nul && path.starts_with(b"\"") {
                let path = unquote_c(path).ok_or_else(|| Failure::fatal("line is badly quoted"))?;
                self.path_as_typed(&path)?;
            } else {
                self.path_as_typed(path)?;
            }
        }
    }

    /// Reports what was done to a path (`--verbose`).
    fn say(&mut self, what: &str, path: &[u8]) -> Result<(), Failure> {
        if !self.typed.verbose {
            return Ok(());
        }
        let line = [what.as_bytes(), b" '", path, b"'\n"].concat();
        self.out.write_all(&line).map_err(|error| Failure::output("write error", error))
    }

    fn refresh(&mut self, really: bool) -> Result<(), Failure> {
        self.repo.need_work_tree()?;
        let Some(tree) = self.place.tree() else { return Ok(()) };
        let threads = match self.repo.config.truth("core.preloadindex")? {
            Some(false) => 1,
            _ => (self.index.len() / ENTRIES_PER_THREAD).clamp(1, MOST_THREADS),
        };
        let options = RefreshOptions::default()
            .threads(threads)
            .matching(tree.matching)
            .really(really)
            .ignore_missing(self.typed.ignore_missing)
            .unmerged_ok(self.typed.unmerged)
            .ignore_submodules(self.typed.ignore_submodules)
            // Nobody asked the monitor what changed since the index was written.
            .trust_fsmonitor(false);
        let mut found = Vec::new();
        refresh(&mut self.index, tree, &options, &mut |at, finding| found.push((at, finding)));
        for (at, finding) in found {
            let Some(path) = self.index.get(at).map(|entry| entry.path()) else { continue };
            let unmerged = matches!(finding, Finding::Unmerged);
            if let Finding::Unreadable(error) = &finding
                && error.kind() == io::ErrorKind::Unsupported
            {
                let path = String::from_utf8_lossy(path);
                return Err(Failure::Fatal(format!("cannot compare '{path}': {error}")));
            }
            if self.typed.quiet && !unmerged {
                continue;
            }
            self.needs_update = true;
            let what = if unmerged { "merge" } else { "update" };
            let line = [path, b": needs ", what.as_bytes(), b"\n"].concat();
            self.out.write_all(&line).map_err(|error| Failure::output("write error", error))?;
        }
        let timestamp = self.index.timestamp();
        if self.index.iter().any(|entry| is_racy(&entry, timestamp)) {
            // A later time of the index spares everybody another look at these files.
            self.index.set_changed();
        }
        Ok(())
    }

    fn index_version(&mut self) -> Result<(), Failure> {
        let wanted = self.typed.index_version;
        let current = match self.version {
            u32::MAX => self.on_disk(),
            version => version,
        };
        let written = match wanted {
            0 => return Ok(()),
            i32::MIN..0 => writeln!(self.out, "{current}"),
            2..=4 => {
                let version = if wanted == 4 { Version::V4 } else { Version::V3 };
                if current != wanted.unsigned_abs() {
                    self.index.set_changed();
                }
                self.index.set_version(version);
                self.version = wanted.unsigned_abs();
                match self.typed.verbose {
                    true => writeln!(self.out, "index-version: was {current}, set to {wanted}"),
                    false => Ok(()),
                }
            }
            _ => return Err(Failure::Fatal(format!("index-version {wanted} not in range: 2..4"))),
        };
        written.map_err(|error| Failure::output("write error", error))
    }

    /// The version that the file had.
    fn on_disk(&self) -> u32 {
        self.index.version() as u32
    }

    /// What is left to be done when all paths have been worked off, and the writing.
    fn finish(&mut self, lock: Result<LockFile, LockError>) -> Result<(), Failure> {
        if let Some(objects) = self.objects.take() {
            objects.finish().map_err(|error| Failure::Fatal(chain(&error)))?;
        }
        let config = &self.repo.config;
        let index = &mut self.index;
        let contradicts = |key: &str, is: &str, what: &str| {
            report::warning(format!("{key} is {is}; remove or change it, if you really want to {what}"));
        };
        if let Some(split) = self.typed.split_index {
            if config.truth("core.splitindex")? == Some(!split) {
                let what = if split { "enable" } else { "disable" };
                contradicts("core.splitIndex", &format!("set to {}", !split), &format!("{what} split index"));
            }
            // Split anew if it is split already: that is how a new shared index is asked for.
            index.unset_split();
            if split {
                index.set_split();
            }
        }
        if self.typed.no_untracked_cache {
            if config.last("core.untrackedcache").is_some_and(|entry| entry.truth().unwrap_or(false)) {
                contradicts("core.untrackedCache", "set to true", "disable the untracked cache");
            }
            index.set_untracked(None);
        }
        if self.typed.no_fsmonitor {
            if crate::index::has_fsmonitor(config) {
                contradicts("core.fsmonitor", "set", "disable fsmonitor");
            }
            index.set_fsmonitor(None);
        }
        if self.typed.verbose {
            for (done, what) in
                [(self.typed.no_untracked_cache, "Untracked cache"), (self.typed.no_fsmonitor, "fsmonitor")]
            {
                if done {
                    writeln!(self.out, "{what} disabled").map_err(|error| Failure::output("write error", error))?;
                }
            }
        }
        if (self.write && index.is_changed()) || self.typed.force_write {
            let lock = match lock {
                Ok(lock) => lock,
                Err(_) if self.typed.quiet => return Err(Failure::Exit(128)),
                Err(error) => return Err(cannot_lock(&error)),
            };
            if self.version == 0 {
                self.place.set_new_version(index);
            }
            self.place.save(index, lock)?;
        }
        if self.needs_update { Err(Failure::Exit(1)) } else { Ok(()) }
    }
}

fn cannot_read_stdin(error: &io::Error) -> Failure {
    Failure::Fatal(format!("cannot read standard input: {}", plain_io(error)))
}
