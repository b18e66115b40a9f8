//! Sparse checkouts: files that are there though they need not be.

use index::refresh::WorkTree as _;
use index::trees::TreeLimits;
use index::{Flags, Index, sparse};

use crate::index::IndexPlace;
use crate::objects::Objects;
use crate::report::{Failure, chain};
use crate::setup::Repository;
use crate::worktree::Tree;

/// In a sparse checkout a file that is there nevertheless is looked at like any other: its entry loses the flag that says
/// that it need not be. The index is expanded if there is such a directory.
///
/// git does this whenever it reads an index (git-sparse-checkout, "sparse.expectFilesOutsideOfPatterns").
pub(crate) fn see_present_files(repo: &Repository, place: &IndexPlace, index: &mut Index<'_>) -> Result<(), Failure> {
    let config = &repo.config;
    let Some(tree) = place.tree() else { return Ok(()) };
    if !config.truth("core.sparsecheckout")?.unwrap_or(false)
        || config.truth("sparse.expectfilesoutsideofpatterns")?.unwrap_or(false)
    {
        return Ok(());
    }
    let present = |index: &Index<'_>| {
        let mut missing = Missing { tree, dir: Vec::new() };
        let skipped = index.iter().enumerate().filter(|(_, entry)| entry.flags().skip_worktree);
        skipped.filter(|(_, entry)| missing.is_there(entry.path())).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let mut found = present(index);
    if found.iter().any(|&at| index.get(at).is_some_and(|entry| entry.is_sparse_dir())) {
        let limits = TreeLimits::default().checks(repo.path_checks()?);
        sparse::expand(index, &mut Objects::open(repo)?, &limits, &|_| false)
            .map_err(|error| Failure::Fatal(chain(&error)))?;
        found = present(index);
    }
    for at in found {
        let flags = index.get(at).map_or(Flags::default(), |entry| entry.flags());
        index.set_flags(at, Flags { skip_worktree: false, ..flags });
    }
    Ok(())
}

/// Looks for files of which most are not there, in order.
struct Missing<'t> {
    tree: &'t Tree,
    /// A directory with its `/` that is not there.
    dir: Vec<u8>,
}

impl Missing<'_> {
    fn is_there(&mut self, path: &[u8]) -> bool {
        if !self.dir.is_empty() && path.starts_with(&self.dir) {
            return false;
        }
        let is_there = |path: &[u8]| matches!(self.tree.lstat(path), Ok(Some(_)));
        if is_there(path.strip_suffix(b"/").unwrap_or(path)) {
            return true;
        }
        let dirs = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let gone = dirs.filter_map(|at| path.get(..at)).find(|dir| !is_there(dir));
        self.dir = gone.map_or(Vec::new(), |dir| [dir, b"/"].concat());
        false
    }
}
