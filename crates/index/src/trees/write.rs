//! Tree objects from an index.

use object::{ObjectId, ObjectKind, object_id};

use super::{ObjectAccess, Step, TREE, TreeError, Walk, fitting, push_record};
use crate::entry::{Entry, Stage};
use crate::ext::{CacheTree, CacheTreeBuilder, NodeId};
use crate::index::Index;
use crate::path::{self, PathChecks};

/// How to write a tree. Every field has a setter of its name.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct WriteTreeOptions<'p> {
    /// Do not ask whether the blobs are there.
    pub missing_ok: bool,
    /// Return the tree of this directory; a `/` at its end does not matter. Default: the root's.
    pub prefix: Option<&'p [u8]>,
    /// Make every tree anew, whatever the index remembers.
    pub ignore_cache_tree: bool,
    /// Store no tree, and leave the index as it is: only say which tree it would be.
    pub dry: bool,
    /// Paths that are refused. They are not looked at in directories whose trees the index remembers.
    pub checks: PathChecks,
}

impl<'p> WriteTreeOptions<'p> {
    /// Sets [`missing_ok`](WriteTreeOptions::missing_ok).
    pub fn missing_ok(mut self, yes: bool) -> Self {
        self.missing_ok = yes;
        self
    }

    /// Sets [`prefix`](WriteTreeOptions::prefix).
    pub fn prefix(mut self, prefix: Option<&'p [u8]>) -> Self {
        self.prefix = prefix;
        self
    }

    /// Sets [`ignore_cache_tree`](WriteTreeOptions::ignore_cache_tree).
    pub fn ignore_cache_tree(mut self, yes: bool) -> Self {
        self.ignore_cache_tree = yes;
        self
    }

    /// Sets [`dry`](WriteTreeOptions::dry).
    pub fn dry(mut self, yes: bool) -> Self {
        self.dry = yes;
        self
    }

    /// Sets [`checks`](WriteTreeOptions::checks).
    pub fn checks(mut self, checks: PathChecks) -> Self {
        self.checks = checks;
        self
    }
}

/// A tree that was written, and at what cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenTree {
    /// The tree of the root, or of the prefix.
    pub id: ObjectId,
    /// Directories that were taken from the cache tree, each with all below it.
    pub reused: usize,
    /// Trees that were made and stored (or only hashed, if [`dry`](WriteTreeOptions::dry)).
    pub written: usize,
}

/// Writes the trees of an index, and remembers them in its cache tree.
///
/// Entries that are only intended to be added are left out, and a directory that holds nothing else has no entry in its
/// parent; such directories, and all above them, are not remembered. A sparse directory stands for its tree.
///
/// A remembered tree is taken only where the entries it covers fit its directory and the object is there; a cache tree that
/// claims more than that loses no file. An id that is wrong while the span fits is believed, as by git:
/// [`verify_cache_tree`](super::verify_cache_tree) finds it. Linear in the entries that are not covered, but for one look at
/// every entry's stage. If the root's tree is remembered nothing is done.
///
/// # Errors
/// Conflicts, an entry without an id, a path that is refused, a file and a directory of the same name, entries out of order,
/// no such prefix, and, unless `missing_ok`, a missing blob or sparse directory's tree.
pub fn write_tree<O: ObjectAccess>(
    index: &mut Index<'_>,
    objects: &mut O,
    options: &WriteTreeOptions<'_>,
) -> Result<WrittenTree, TreeError<O::Error>> {
    let prefix = options.prefix.map(|prefix| normal(prefix).ok_or_else(|| no_prefix(prefix))).transpose()?;
    if let Some(tree) = index.cache_tree().filter(|_| !options.ignore_cache_tree)
        && let Some((count, root)) = tree.valid(tree.root())
        && count as usize == index.len()
        && (options.dry || objects.contains(&root, ObjectKind::Tree).map_err(TreeError::Objects)?)
    {
        let id = match &prefix {
            None => root,
            Some(dir) => in_tree(tree, dir).ok_or_else(|| no_prefix(dir))?,
        };
        return Ok(WrittenTree { id, reused: 1, written: 0 });
    }
    let mut writer = Writer::new(index, objects, options);
    writer.prefix = prefix;
    let (tree, written) = writer.run()?;
    if !options.dry {
        index.set_cache_tree(Some(tree));
    }
    Ok(written)
}

/// Without the `/` that end it or are doubled. `None` if it begins with one: such a directory is in no index.
fn normal(prefix: &[u8]) -> Option<Vec<u8>> {
    let names: Vec<&[u8]> = prefix.split(|&b| b == b'/').filter(|name| !name.is_empty()).collect();
    (!prefix.starts_with(b"/")).then(|| names.join(&b'/'))
}

fn no_prefix<E>(prefix: &[u8]) -> TreeError<E> {
    TreeError::Prefix { prefix: prefix.into() }
}

fn in_tree(tree: &CacheTree<'_>, dir: &[u8]) -> Option<ObjectId> {
    Some(tree.valid(tree.find(dir)?)?.1)
}

/// A directory whose tree is being put together.
struct Frame<'a> {
    /// With the `/` at the end; the root's is empty.
    dir: &'a [u8],
    name: &'a [u8],
    /// What was remembered of it.
    node: Option<NodeId>,
    /// Position of its first entry.
    start: usize,
    /// Where its tree begins in the bytes of all open directories.
    bytes: usize,
    /// The index has more in this directory than its tree: it cannot be remembered.
    incomplete: bool,
}

struct Writer<'w, 'a, O> {
    index: &'w Index<'a>,
    objects: &'w mut O,
    options: &'w WriteTreeOptions<'w>,
    prefix: Option<Vec<u8>>,
    /// The tree of the prefix, if it was made.
    prefix_id: Option<ObjectId>,
    old: Option<&'w CacheTree<'a>>,
    new: CacheTreeBuilder<'a>,
    frames: Vec<Frame<'a>>,
    /// The trees of all open directories, one behind the other.
    bytes: Vec<u8>,
    reused: usize,
    written: usize,
}

impl<'w, 'a, O: ObjectAccess> Writer<'w, 'a, O> {
    fn new(index: &'w Index<'a>, objects: &'w mut O, options: &'w WriteTreeOptions<'w>) -> Self {
        Writer {
            index,
            objects,
            options,
            prefix: None,
            prefix_id: None,
            old: index.cache_tree().filter(|_| !options.ignore_cache_tree),
            new: CacheTreeBuilder::new(index.kind()),
            frames: Vec::new(),
            bytes: Vec::new(),
            reused: 0,
            written: 0,
        }
    }

    fn run(mut self) -> Result<(CacheTree<'a>, WrittenTree), TreeError<O::Error>> {
        self.all_merged()?;
        let mut walk = Walk::new(self.index);
        self.open(b"", b"", self.old.map(CacheTree::root), 0);
        while let Some(step) = walk.next() {
            match step {
                Step::Open { dir, name } => {
                    self.check_place(&walk, dir)?;
                    let old = self.old.zip(self.frames.last().and_then(|parent| parent.node));
                    let node = old.and_then(|(tree, parent)| tree.child(parent, name));
                    match self.remembered(node, walk.at(), dir)? {
                        Some(count) => walk.skip(count),
                        None => self.open(dir, name, node, walk.at()),
                    }
                }
                Step::Entry(entry, name) => {
                    if entry.is_sparse_dir() {
                        self.check_place(&walk, entry.path())?;
                    } else if !walk.in_order() {
                        return Err(TreeError::Order { path: entry.path().into() });
                    }
                    self.entry(entry, name)?;
                }
                Step::Close => drop(self.close(walk.at())?),
            }
        }
        let root = self.close(self.index.len())?;
        let tree = self.new.finish();
        let id = match self.prefix {
            Some(dir) => self.prefix_id.or_else(|| in_tree(&tree, &dir)).ok_or_else(|| no_prefix(&dir))?,
            None => root,
        };
        Ok((tree, WrittenTree { id, reused: self.reused, written: self.written }))
    }

    fn all_merged(&self) -> Result<(), TreeError<O::Error>> {
        let mut paths: Vec<Vec<u8>> = Vec::new();
        for entry in self.index.iter().filter(|entry| entry.stage() != Stage::Merged) {
            if paths.last().is_none_or(|last| last != entry.path()) {
                paths.push(entry.path().into());
            }
        }
        if paths.is_empty() { Ok(()) } else { Err(TreeError::Unmerged { paths }) }
    }

    /// Whether a directory may begin here.
    fn check_place(&self, walk: &Walk<'_, 'a>, dir: &'a [u8]) -> Result<(), TreeError<O::Error>> {
        if !walk.in_order() {
            return Err(TreeError::Order { path: dir.into() });
        }
        match walk.in_the_way(dir) {
            Some(file) => Err(TreeError::FileDirectory { path: file.into() }),
            None => Ok(()),
        }
    }

    fn open(&mut self, dir: &'a [u8], name: &'a [u8], node: Option<NodeId>, start: usize) {
        self.new.open(name);
        self.frames.push(Frame { dir, name, node, start, bytes: self.bytes.len(), incomplete: false });
    }

    /// Takes a directory's tree from the cache tree if it can be had there, and says how many entries that covers.
    fn remembered(
        &mut self,
        node: Option<NodeId>,
        at: usize,
        dir: &'a [u8],
    ) -> Result<Option<usize>, TreeError<O::Error>> {
        let Some((tree, node)) = self.old.zip(node) else { return Ok(None) };
        let Some((count, id)) = fitting(self.index, tree, node, at, dir) else { return Ok(None) };
        if !self.options.dry && !self.contains(&id, ObjectKind::Tree)? {
            return Ok(None);
        }
        self.new.keep(tree, node);
        push_record(&mut self.bytes, TREE, tree.name(node), &id);
        self.reused += 1;
        Ok(Some(count as usize))
    }

    fn entry(&mut self, entry: Entry<'a>, name: &'a [u8]) -> Result<(), TreeError<O::Error>> {
        let (path, mode, id) = (entry.path(), entry.mode(), entry.id());
        if let Err(source) = path::check(path, mode, self.options.checks) {
            return Err(TreeError::Path { path: path.into(), source });
        }
        if id.is_null() {
            return Err(TreeError::NullId { path: path.into() });
        }
        if mode.is_tree() {
            if !self.index.is_sparse() || !path.ends_with(b"/") {
                return Err(TreeError::Directory { path: path.into() });
            }
            self.new.open(name);
            self.new.close(Some((1, id)));
        } else if entry.flags().intent_to_add {
            if let Some(frame) = self.frames.last_mut() {
                frame.incomplete = true;
            }
            return Ok(());
        }
        if let Some(kind) = mode.object_kind().filter(|_| !self.options.missing_ok)
            && !self.contains(&id, kind)?
        {
            return Err(TreeError::Missing { path: path.into(), mode, id });
        }
        push_record(&mut self.bytes, mode, name, &id);
        Ok(())
    }

    /// Stores the tree of the directory opened last, whose entries end in front of `end`, and enters it into its parent.
    fn close(&mut self, end: usize) -> Result<ObjectId, TreeError<O::Error>> {
        let Some(Frame { dir, name, start, bytes, incomplete, .. }) = self.frames.pop() else {
            return Ok(self.index.kind().empty_tree()); // as many are opened as closed
        };
        let tree = self.bytes.get(bytes..).unwrap_or_default();
        let is_empty = tree.is_empty();
        let id = match self.options.dry {
            true => object_id(self.index.kind(), ObjectKind::Tree, tree)?,
            false => self.objects.write_tree(tree).map_err(TreeError::Objects)?,
        };
        self.written += 1;
        self.bytes.truncate(bytes);
        let count = u32::try_from(end - start).ok().filter(|_| !incomplete);
        self.new.close(count.map(|count| (count, id)));
        if self.prefix.as_deref() == Some(dir.strip_suffix(b"/").unwrap_or(dir)) {
            self.prefix_id = Some(id);
        }
        if let Some(parent) = self.frames.last_mut() {
            parent.incomplete |= incomplete;
            if !is_empty {
                push_record(&mut self.bytes, TREE, name, &id);
            }
        }
        Ok(id)
    }

    fn contains(&mut self, id: &ObjectId, kind: ObjectKind) -> Result<bool, TreeError<O::Error>> {
        self.objects.contains(id, kind).map_err(TreeError::Objects)
    }
}
