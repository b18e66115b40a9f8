//! `packstone read-tree`: git-read-tree with one tree, or none.
//!
//! The work tree is never changed. More trees, which make a merge, are refused.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use hashfile::lock::LockFile;
use index::ext::CacheTreeBuilder;
use index::refresh::{WorkTree as _, compare};
use index::trees::{ReadTreeOptions, TreeError, TreeLimits, read_tree};
use index::{Bump, Entry, Flags, Index, Stage, sparse};
use object::{ObjectId, ObjectKind};

use self::cone::Cone;
use self::typed::{TABLE, Typed};
use crate::env::{Environment, os_bytes};
use crate::index::{IndexPlace, cannot_lock};
use crate::objects::{Objects, ObjectsError};
use crate::present::see_present_files;
use crate::report::{self, Failure, chain};
use crate::revs::Revisions;
use crate::setup::Repository;
use crate::worktree::Tree;

mod cone;
mod typed;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Makes the index that of a tree. Without -m, --reset or --prefix the old index is not looked at. With -m and --reset
entries that stay the same keep what is known about their files; with -m it is an error if others were changed
in the work tree, unless -i says not to look.

A file named as a directory of --prefix, or inside of it, is an error, not replaced.

Configuration: core.protectNTFS, core.protectHFS, core.maxTreeDepth and all that says how an index is written (see
update-index).

Exit code: 0 done; 128 with `fatal: ...` or `error: ...`; 129 for a wrong command line, or an option that is not
supported.
";

/// The help page.
pub(crate) fn page() -> String {
    TABLE.page(ABOUT)
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    TABLE.help_if_asked(words)?;
    let repo = Repository::find(env)?;
    let mut typed = Typed::default();
    let operands = TABLE.parse(words, &mut typed)?;
    if let Some(refusal) = typed.refusal() {
        return Err(refusal);
    }
    if u8::from(typed.merge) + u8::from(typed.reset) + u8::from(typed.prefix.is_some()) > 1 {
        return Err(Failure::fatal("Which one? -m, --reset, or --prefix?"));
    }
    if typed.prefix.as_ref().is_some_and(|prefix| os_bytes(prefix).starts_with(b"/")) {
        return Err(Failure::fatal("Invalid prefix, prefix cannot start with '/'"));
    }

    let place = IndexPlace::find(&repo)?;
    let lock = place.lock().map_err(|error| cannot_lock(&error))?;
    let (arena, opened) = (Bump::new(), place.open()?);
    let mut index = match typed.merges() && !opened.is_new() {
        true => {
            let mut index = opened.read(&arena)?;
            see_present_files(&repo, &place, &mut index)?;
            index
        }
        // Of the old index nothing is kept, not even its version.
        false => {
            let mut index = Index::new(&arena, repo.hash);
            place.set_new_version(&mut index);
            index
        }
    };
    if (typed.merge || typed.prefix.is_some()) && index.is_unmerged() {
        return Err(Failure::fatal("You need to resolve your current index first"));
    }
    let mut objects = Objects::open(&repo)?;
    let trees = trees(&repo, &objects, &operands)?;
    let tree = one(&typed, &trees)?;
    if typed.merges() && !typed.index_only {
        repo.need_work_tree()?;
    }
    let limits = limits(&repo)?;
    let read = match tree {
        None => {
            let mut builder = CacheTreeBuilder::new(repo.hash);
            builder.open(b"");
            builder.close(Some((0, repo.hash.empty_tree())));
            index.set_cache_tree(Some(builder.finish()));
            Ok(())
        }
        Some(id) => {
            // Only an index that has directories as entries gets new ones.
            let cone = if index.is_sparse() && !typed.full { Cone::of(&repo)? } else { None };
            let mut reading = Reading { typed: &typed, objects: &mut objects, limits, tree: place.tree(), cone };
            reading.read(&mut index, &id)
        }
    };
    match read {
        Ok(()) => {}
        Err(_) if typed.quiet => return Err(Failure::Exit(128)),
        Err(problem) => {
            report::say(&format!("error: {problem}\n"));
            return Err(Failure::Exit(128));
        }
    }
    if typed.dry_run {
        return Ok(());
    }
    write(&repo, &place, &typed, &mut index, lock)
}

/// The trees that the operands lead to.
fn trees(repo: &Repository, objects: &Objects, operands: &[OsString]) -> Result<Vec<ObjectId>, Failure> {
    if operands.is_empty() {
        return Ok(Vec::new());
    }
    let shallow = repo.shallow(false)?;
    let revisions = Revisions::new(repo, objects.store(), &shallow);
    let tree = |operand: &OsString| {
        let shown = operand.to_string_lossy();
        let named = revisions.name(&os_bytes(operand))?;
        let id = named.ok_or_else(|| Failure::Fatal(format!("Not a valid object name {shown}")))?;
        // Known to everybody, stored or not.
        if id == repo.hash.empty_tree() {
            return Ok(id);
        }
        let tree = revisions.peel(id, Some(ObjectKind::Tree))?;
        tree.ok_or_else(|| Failure::Fatal(format!("failed to unpack tree object {shown}")))
    };
    operands.iter().map(tree).collect()
}

/// The tree to read, if it is one and all goes together.
fn one(typed: &Typed, trees: &[ObjectId]) -> Result<Option<ObjectId>, Failure> {
    if trees.is_empty() && !typed.empty && !typed.merges() {
        report::warning("read-tree: emptying the index with no arguments is deprecated; use --empty");
    } else if !trees.is_empty() && typed.empty {
        return Err(Failure::fatal("passing trees as arguments contradicts --empty"));
    }
    if typed.update && typed.index_only {
        return Err(Failure::fatal("-u and -i at the same time makes no sense"));
    }
    if (typed.update || typed.index_only) && !typed.merges() {
        let option = if typed.update { "-u" } else { "-i" };
        return Err(Failure::Fatal(format!("{option} is meaningless without -m, --reset, or --prefix")));
    }
    if typed.update {
        return Err(Failure::Usage("error: switch `u' is not supported yet\n".into()));
    }
    match trees {
        [] if typed.merges() => Err(Failure::fatal("you must specify at least one tree to merge")),
        [] => Ok(None),
        [tree] => Ok(Some(*tree)),
        _ => Err(Failure::Usage("error: more than one tree is not supported yet\n".into())),
    }
}

fn limits(repo: &Repository) -> Result<TreeLimits, Failure> {
    let limits = TreeLimits::default().checks(repo.path_checks()?);
    match repo.config.int("core.maxtreedepth")?.and_then(|depth| usize::try_from(depth).ok()) {
        Some(depth) => Ok(limits.max_depth(depth)),
        None => Ok(limits),
    }
}

/// One tree being brought into an index.
struct Reading<'r> {
    typed: &'r Typed,
    objects: &'r mut Objects,
    limits: TreeLimits,
    tree: Option<&'r Tree>,
    /// What belongs to the sparse checkout, if the index knows of one.
    cone: Option<Cone>,
}

/// Why the tree was not read.
type Problem = String;

impl Reading<'_> {
    fn read(&mut self, index: &mut Index<'_>, id: &ObjectId) -> Result<(), Problem> {
        let options = ReadTreeOptions::default().limits(self.limits);
        match &self.typed.prefix {
            Some(prefix) => {
                let mut prefix = os_bytes(prefix).into_owned();
                if !prefix.is_empty() && !prefix.ends_with(b"/") {
                    prefix.push(b'/');
                }
                self.read_beside(index, id, &options.prefix(Some(&prefix)), &prefix)
            }
            None if self.typed.merges() => self.read_over(index, id, &options),
            None => read_tree(index, self.objects, id, &options).map(|_| ()).map_err(problem),
        }
    }

    /// Puts the tree into a directory.
    fn read_beside(
        &mut self,
        index: &mut Index<'_>,
        id: &ObjectId,
        options: &ReadTreeOptions<'_>,
        prefix: &[u8],
    ) -> Result<(), Problem> {
        let expanded = match self.typed.full || prefix.is_empty() {
            true => sparse::expand(index, self.objects, &self.limits, &|_| false),
            false => sparse::expand_to(index, self.objects, &self.limits, prefix),
        };
        expanded.map_err(problem)?;
        let mut untracked = index.untracked().cloned();
        let old: Vec<Entry<'_>> = index.iter().collect();
        read_tree(index, self.objects, id, options).map_err(problem)?;
        if let Some(untracked) = &mut untracked {
            // Of those that were there before, it costs no more than a look.
            index.iter_range(index.prefix(prefix)).for_each(|entry| untracked.invalidate(entry.path()));
        }
        index.set_untracked(untracked);
        self.collapse(index, &old, prefix)
    }

    /// Takes the tree in place of the entries, as a merge of one tree does.
    fn read_over(
        &mut self,
        index: &mut Index<'_>,
        id: &ObjectId,
        options: &ReadTreeOptions<'_>,
    ) -> Result<(), Problem> {
        sparse::expand(index, self.objects, &self.limits, &|_| false).map_err(problem)?;
        let old: Vec<Entry<'_>> = index.iter().filter(|entry| entry.stage() == Stage::Merged).collect();
        let timestamp = index.timestamp();
        let mut untracked = index.untracked().cloned();
        read_tree(index, self.objects, id, &options.keep_stat(true)).map_err(problem)?;

        let mut changed = |path: &[u8]| untracked.iter_mut().for_each(|untracked| untracked.invalidate(path));
        let mut outside = Vec::new();
        let mut new = index.iter().enumerate().peekable();
        for entry in &old {
            while let Some((_, added)) = new.next_if(|(_, new)| new.path() < entry.path()) {
                changed(added.path());
            }
            let beside = new.next_if(|(_, new)| new.path() == entry.path());
            if beside.is_some_and(|(_, new)| (new.mode(), new.id()) == (entry.mode(), entry.id())) {
                continue;
            }
            self.check_unchanged(entry, timestamp)?;
            changed(entry.path());
            // What need not be in the work tree need not be there when it is another, either.
            outside.extend(beside.filter(|_| entry.flags().skip_worktree).map(|(at, _)| at));
        }
        new.for_each(|(_, added)| changed(added.path()));
        for at in outside {
            index.set_flags(at, Flags { skip_worktree: true, ..Flags::default() });
        }
        index.set_untracked(untracked);
        self.collapse(index, &old, b"")
    }

    /// Makes single entries of the directories outside of a sparse checkout. What is new in one need not be in the work tree
    /// if that goes for all that was there before. Only directories in `inside` (with the `/`, or empty) get new entries.
    fn collapse(&mut self, index: &mut Index<'_>, old: &[Entry<'_>], inside: &[u8]) -> Result<(), Problem> {
        let Some(cone) = &self.cone else { return Ok(()) };
        let mut outside = Vec::new();
        let mut last: Option<(&[u8], bool)> = None;
        let range = index.prefix(inside);
        for (at, entry) in range.clone().zip(index.iter_range(range)) {
            let Some(dir) = cone.outside(entry.path(), inside.len()) else { continue };
            let collapses = match last {
                Some((same, collapses)) if same == dir => collapses,
                _ => {
                    let before = old.get(old.partition_point(|old| old.path() < dir)..).unwrap_or_default();
                    before.iter().take_while(|old| old.path().starts_with(dir)).all(|old| old.flags().skip_worktree)
                }
            };
            last = Some((dir, collapses));
            outside.extend(Some(at).filter(|_| collapses && !entry.flags().skip_worktree));
        }
        for at in outside {
            index.set_flags(at, Flags { skip_worktree: true, ..Flags::default() });
        }
        sparse::collapse(index, self.objects, &|dir| cone.has(dir) || inside.starts_with(dir))
            .map(|_| ())
            .map_err(problem)
    }

    /// That a file which is to be another is what its entry says.
    fn check_unchanged(&self, entry: &Entry<'_>, timestamp: index::Time) -> Result<(), Problem> {
        let careful = entry.flags().assume_valid || entry.flags().skip_worktree;
        let Some(tree) = self.tree.filter(|_| !self.typed.index_only && (careful || !self.typed.reset)) else {
            return Ok(());
        };
        let changed = match tree.lstat(entry.path()) {
            Ok(None) => return Ok(()),
            Ok(Some(_)) if entry.is_gitlink() => return Ok(()),
            Ok(Some(state)) => compare(entry, &state, tree, timestamp, &tree.matching),
            Err(error) => Err(error),
        };
        let path = String::from_utf8_lossy(entry.path());
        match changed {
            Ok(changed) if changed.is_empty() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                Err(format!("cannot compare '{path}': {error}"))
            }
            _ => Err(format!("Entry '{path}' not uptodate. Cannot merge.")),
        }
    }
}

fn problem(error: TreeError<ObjectsError>) -> Problem {
    match error {
        TreeError::Overlap { path } => {
            let path = String::from_utf8_lossy(&path);
            format!("Entry '{path}' overlaps with '{path}'.  Cannot bind.")
        }
        TreeError::Path { path, .. } => format!("invalid path '{}'", String::from_utf8_lossy(&path)),
        other => chain(&other),
    }
}

fn write(
    repo: &Repository,
    place: &IndexPlace,
    typed: &Typed,
    index: &mut Index<'_>,
    lock: LockFile,
) -> Result<(), Failure> {
    let Some(output) = &typed.index_output else { return place.save(index, lock) };
    let output = repo.env.resolve(Path::new(output));
    if output == place.path {
        return place.save_whole(index, lock);
    }
    // The index's own lock is held until the other file is written.
    let other = place.lock_other(&output).map_err(|error| cannot_lock(&error))?;
    place.save_whole(index, other)?;
    drop(lock);
    Ok(())
}
