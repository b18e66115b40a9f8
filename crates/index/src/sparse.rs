//! Sparse indexes: whole directories outside of a sparse checkout as one entry each.
//!
//! Such an entry has mode `040000`, a path that ends in `/`, the id of the directory's tree and the skip-worktree flag
//! (gitformat-index, "Sparse Directory Entries"). [`expand`] puts the files in its place, [`collapse`] does the reverse.
//! Both are one pass over the entries, and keep what the index remembers of its trees ([`Index::cache_tree`]) true. Both
//! forget the file system monitor, as git does.

use object::ObjectId;

use crate::edit::parents;
use crate::entry::{Flags, Stage};
use crate::ext::{CacheTreeBuilder, NodeId};
use crate::index::Index;
use crate::trees::{
    Collected, ObjectAccess, Reader, Step, TREE, TreeError, TreeLimits, Walk, WriteTreeOptions, fitting, write_tree,
};

/// What entries outside of a sparse checkout say, be they files or directories.
const OUTSIDE: Flags = Flags { skip_worktree: true, assume_valid: false, intent_to_add: false };

/// A directory that is being copied.
struct Frame {
    /// What is remembered of it.
    node: Option<NodeId>,
    /// How many entries it has and which tree they make, if that is known and fits.
    known: Option<(u32, ObjectId)>,
    /// How many entries were copied before it.
    start: usize,
}

impl Frame {
    fn root(index: &Index<'_>) -> Frame {
        let tree = index.cache_tree();
        let known = tree.and_then(|tree| tree.valid(tree.root()));
        let known = known.filter(|(count, _)| *count as usize == index.len());
        Frame { node: tree.map(|tree| tree.root()), known, start: 0 }
    }

    /// The directory in this one that the walk just opened.
    fn child(&self, index: &Index<'_>, walk: &Walk<'_, '_>, dir: &[u8], name: &[u8], start: usize) -> Frame {
        let node = index.cache_tree().zip(self.node).and_then(|(tree, node)| Some((tree, tree.child(node, name)?)));
        let known = node.and_then(|(tree, node)| fitting(index, tree, node, walk.at(), dir));
        Frame { node: node.map(|(_, node)| node), known, start }
    }

    /// What the new cache tree says about it when `end` entries have been copied.
    fn valid(&self, end: usize) -> Option<(u32, ObjectId)> {
        let count = u32::try_from(end - self.start).ok().filter(|&count| count > 0);
        count.zip(self.known.map(|(_, id)| id))
    }
}

/// Replaces sparse directories by what is in them, and says how many that were. `keep` is asked for each of them by its path
/// with the `/`, and for those inside of one that is not kept, too; what it picks stays, or becomes, one entry.
///
/// The index is sparse afterwards only if a sparse directory is left.
///
/// # Errors
/// Trees that are missing, malformed or beyond the limits, as with [`read_tree`](crate::trees::read_tree); the index is then
/// as it was.
pub fn expand<O: ObjectAccess>(
    index: &mut Index<'_>,
    objects: &mut O,
    limits: &TreeLimits,
    keep: &dyn Fn(&[u8]) -> bool,
) -> Result<usize, TreeError<O::Error>> {
    if !index.iter().any(|entry| entry.is_sparse_dir() && !keep(entry.path())) {
        index.set_sparse(index.iter().any(|entry| entry.is_sparse_dir()));
        return Ok(0);
    }
    let mut reader = Reader::new(index, objects, *limits, OUTSIDE);
    let mut expanded = 0;
    let mut walk = Walk::new(index);
    let mut frames = vec![Frame::root(index)];
    reader.builder.open(b"");
    while let Some(frame) = frames.last_mut() {
        match walk.next() {
            Some(Step::Open { dir, name }) => {
                let child = frame.child(index, &walk, dir, name, reader.out.len());
                reader.builder.open(name);
                frames.push(child);
            }
            Some(Step::Entry(entry, name)) if entry.is_sparse_dir() && !keep(entry.path()) => {
                expanded += 1;
                if !reader.read(entry.id(), entry.path(), name, keep)? {
                    frames.iter_mut().for_each(|frame| frame.known = None);
                }
            }
            Some(Step::Entry(entry, name)) => {
                reader.out.push_old(entry);
                if entry.is_sparse_dir() {
                    reader.builder.open(name);
                    reader.builder.close(Some((1, entry.id())));
                }
            }
            Some(Step::Close) | None => {
                reader.builder.close(frame.valid(reader.out.len()));
                frames.pop();
            }
        }
    }
    let Reader { out, builder, .. } = reader;
    index.replace_entries(out.iter())?;
    index.set_sparse(out.iter().any(|entry| entry.mode.is_tree()));
    index.set_cache_tree(Some(builder.finish()));
    index.set_fsmonitor(None);
    Ok(expanded)
}

/// Expands just the sparse directories that stand in the way to a path, and says how many that were: 0 if the path is
/// outside of all.
///
/// # Errors
/// As [`expand`].
pub fn expand_to<O: ObjectAccess>(
    index: &mut Index<'_>,
    objects: &mut O,
    limits: &TreeLimits,
    path: &[u8],
) -> Result<usize, TreeError<O::Error>> {
    let inside = |dir: &[u8]| index.find(&[dir, b"/"].concat(), Stage::Merged).is_ok();
    if !parents(path).any(inside) {
        return Ok(0);
    }
    expand(index, objects, limits, &|dir| !path.starts_with(dir))
}

/// Makes sparse directories of those outside of the checkout, and says how many that were. The index is sparse afterwards.
///
/// `in_cone` says of a directory, by its path with the `/`, whether files right in it belong to the checkout; it has to
/// pick every directory above one that it picks. A directory outside is collapsed if all its entries have the
/// skip-worktree flag, none is of a conflict or a submodule, and its tree is known. Trees that are not known are written first.
///
/// Nothing is done to an index that is empty, split or has conflicts.
///
/// # Errors
/// As [`write_tree`]; the entries are then as they were.
pub fn collapse<O: ObjectAccess>(
    index: &mut Index<'_>,
    objects: &mut O,
    in_cone: &dyn Fn(&[u8]) -> bool,
) -> Result<usize, TreeError<O::Error>> {
    if index.is_empty() || index.is_split() || index.is_unmerged() {
        return Ok(0);
    }
    if !index.cache_tree().is_some_and(|tree| tree.is_fully_valid()) {
        write_tree(index, objects, &WriteTreeOptions::default().missing_ok(true))?;
    }
    // How many entries in front of each position have to stay.
    let mut stay = Vec::with_capacity(index.len() + 1);
    let mut count = 0u32;
    stay.push(0);
    for entry in index.iter() {
        count += u32::from(entry.is_gitlink() || !entry.flags().skip_worktree);
        stay.push(count);
    }
    let mut out = Collected::default();
    let mut builder = CacheTreeBuilder::new(index.kind());
    let mut collapsed = 0;
    let mut walk = Walk::new(index);
    let mut frames = vec![Frame::root(index)];
    builder.open(b"");
    while let Some(frame) = frames.last() {
        match walk.next() {
            Some(Step::Open { dir, name }) => {
                let child = frame.child(index, &walk, dir, name, out.len());
                builder.open(name);
                if let Some((count, id)) = child.known
                    && stay.get(walk.at()) == stay.get(walk.at() + count as usize)
                    && !in_cone(dir)
                {
                    out.push_new(dir, TREE, id, OUTSIDE);
                    builder.close(Some((1, id)));
                    walk.skip(count as usize);
                    collapsed += 1;
                } else {
                    frames.push(child);
                }
            }
            Some(Step::Entry(entry, name)) => {
                out.push_old(entry);
                if entry.is_sparse_dir() {
                    builder.open(name);
                    builder.close(Some((1, entry.id())));
                }
            }
            Some(Step::Close) | None => {
                builder.close(frame.valid(out.len()));
                frames.pop();
            }
        }
    }
    index.replace_entries(out.iter())?;
    index.set_sparse(true);
    index.set_cache_tree(Some(builder.finish()));
    index.set_fsmonitor(None);
    Ok(collapsed)
}
