//! An index from tree objects.

use std::cmp::Ordering;

use bumpalo::Bump;
use object::ObjectId;
use object::tree::{self, Entries};

use super::{ObjectAccess, TREE, TreeError};
use crate::edit::parents;
use crate::entry::{Entry, Flags, Mode, NewEntry, Stage};
use crate::ext::CacheTreeBuilder;
use crate::index::Index;
use crate::path::{self, PathChecks};

/// What trees are refused: they may come from a stranger. Every field has a setter of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeLimits {
    /// Names that are refused. Default: git's.
    pub checks: PathChecks,
    /// Trees inside each other, the outermost counted. Default: 2048, as git's `core.maxTreeDepth`.
    pub max_depth: usize,
    /// Entries and trees read. A few small trees can stand for more of both than any machine holds. Default: 2^32 - 1, the
    /// most entries that an index can have.
    pub max_entries: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        TreeLimits { checks: PathChecks::default(), max_depth: 2048, max_entries: u32::MAX as usize }
    }
}

impl TreeLimits {
    /// Sets [`checks`](TreeLimits::checks).
    pub fn checks(mut self, checks: PathChecks) -> Self {
        self.checks = checks;
        self
    }

    /// Sets [`max_depth`](TreeLimits::max_depth).
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// Sets [`max_entries`](TreeLimits::max_entries).
    pub fn max_entries(mut self, count: usize) -> Self {
        self.max_entries = count;
        self
    }
}

/// How to read a tree. Every field has a setter of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReadTreeOptions<'p> {
    /// Put the tree's entries below this directory, and keep the others; a `/` at its end does not matter. Empty: keep the
    /// others, and put the tree's beside them. Default: the tree's take the place of all others.
    pub prefix: Option<&'p [u8]>,
    /// The stage that the entries get.
    pub stage: Stage,
    /// An entry that is equal in path, mode and id to one that was there keeps its stat data and flags.
    pub keep_stat: bool,
    /// What trees are refused.
    pub limits: TreeLimits,
}

impl<'p> ReadTreeOptions<'p> {
    /// Sets [`prefix`](ReadTreeOptions::prefix).
    pub fn prefix(mut self, prefix: Option<&'p [u8]>) -> Self {
        self.prefix = prefix;
        self
    }

    /// Sets [`stage`](ReadTreeOptions::stage).
    pub fn stage(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    /// Sets [`keep_stat`](ReadTreeOptions::keep_stat).
    pub fn keep_stat(mut self, yes: bool) -> Self {
        self.keep_stat = yes;
        self
    }

    /// Sets [`limits`](ReadTreeOptions::limits).
    pub fn limits(mut self, limits: TreeLimits) -> Self {
        self.limits = limits;
        self
    }
}

/// Fills an index from a tree and says how many entries that made.
///
/// Without a prefix the index then remembers every tree that was read ([`Index::cache_tree`]), except such as no index can
/// make: one that holds an empty tree or an unusual mode, and those above it. With a prefix it still remembers what lies
/// elsewhere. Conflicts that were resolved are forgotten, and without a prefix the index is not sparse any more. Linear;
/// with a prefix inside of which there are entries O(n log n).
///
/// # Errors
/// Trees that are missing, malformed, not in order or beyond the limits; names that are refused; a null id; with a prefix
/// also entries that are there already, or that lie where a directory has to be or the reverse.
pub fn read_tree<O: ObjectAccess>(
    index: &mut Index<'_>,
    objects: &mut O,
    id: &ObjectId,
    options: &ReadTreeOptions<'_>,
) -> Result<usize, TreeError<O::Error>> {
    let mut dir = options.prefix.unwrap_or_default().to_vec();
    if !dir.is_empty() {
        if !dir.ends_with(b"/") {
            dir.push(b'/');
        }
        if let Err(source) = path::check(&dir, TREE, options.limits.checks) {
            return Err(TreeError::Path { path: dir, source });
        }
    }
    let mut reader = Reader::new(index, objects, options.limits, Flags::default());
    reader.read(*id, &dir, b"", &|_| false)?;
    let Reader { out: new, builder, .. } = reader;
    let staged = new.iter().map(|entry| NewEntry { stage: options.stage, ..entry });

    if options.prefix.is_none() {
        if options.keep_stat {
            let old: Vec<Entry<'_>> = index.iter().filter(|entry| entry.stage() == Stage::Merged).collect();
            let mut old = old.into_iter().peekable();
            index.replace_entries(staged.map(|mut entry| {
                while old.next_if(|old| old.path() < entry.path).is_some() {}
                let key = (entry.path, entry.mode, entry.id);
                if let Some(old) = old.next_if(|old| (old.path(), old.mode(), old.id()) == key) {
                    entry.stat = old.stat();
                    entry.flags = Flags { intent_to_add: false, ..old.flags() };
                }
                entry
            }))?;
        } else {
            index.replace_entries(staged)?;
        }
        index.set_sparse(false);
        index.set_cache_tree(Some(builder.finish()).filter(|_| options.stage == Stage::Merged));
    } else {
        let alone = index.prefix(&dir).is_empty();
        for entry in new.iter().take(if alone { 1 } else { usize::MAX }) {
            is_free(index, entry.path)?;
        }
        let mut remembered = index.cache_tree().cloned();
        if let Some(tree) = &mut remembered {
            new.iter().for_each(|entry| tree.invalidate(entry.path));
        }
        let old: Vec<Entry<'_>> = index.iter().collect();
        let (mut old, mut new) = (old.into_iter().map(NewEntry::from).peekable(), staged.peekable());
        index.replace_entries(std::iter::from_fn(|| match (old.peek(), new.peek()) {
            (Some(there), Some(here)) if there.path < here.path => old.next(),
            (_, Some(_)) => new.next(),
            (_, None) => old.next(),
        }))?;
        index.set_cache_tree(remembered);
    }
    if !index.resolve_undo().is_empty() {
        index.resolve_undo_mut().clear();
    }
    Ok(new.len())
}

/// Whether an entry can be put here beside all others.
fn is_free<E>(index: &Index<'_>, path: &[u8]) -> Result<(), TreeError<E>> {
    if !index.range(path).is_empty() || !index.prefix(&[path, b"/"].concat()).is_empty() {
        return Err(TreeError::Overlap { path: path.into() });
    }
    for dir in parents(path) {
        // A file, or the directory as one sparse entry.
        if !index.range(dir).is_empty() || !index.range(&[dir, b"/"].concat()).is_empty() {
            return Err(TreeError::Overlap { path: dir.into() });
        }
    }
    Ok(())
}

/// Entries of an index to be, in order: old ones, and new ones whose paths are kept here until they are in the arena.
#[derive(Default)]
pub(crate) struct Collected<'a> {
    paths: Vec<u8>,
    items: Vec<Item<'a>>,
}

#[derive(Clone, Copy)]
enum Item<'a> {
    Old(Entry<'a>),
    /// The path begins where that of the new one before it ends.
    New {
        start: usize,
        end: usize,
        mode: Mode,
        id: ObjectId,
        flags: Flags,
    },
}

impl<'a> Collected<'a> {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn push_old(&mut self, entry: Entry<'a>) {
        self.items.push(Item::Old(entry));
    }

    pub(crate) fn push_new(&mut self, path: &[u8], mode: Mode, id: ObjectId, flags: Flags) {
        let start = self.paths.len();
        self.paths.extend_from_slice(path);
        self.items.push(Item::New { start, end: self.paths.len(), mode, id, flags });
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = NewEntry<'_>> {
        self.items.iter().map(|item| match *item {
            Item::Old(entry) => entry.into(),
            Item::New { mode, id, flags, .. } => NewEntry { flags, ..NewEntry::new(self.path(item), mode, id) },
        })
    }

    fn path<'s>(&'s self, item: &Item<'a>) -> &'s [u8] {
        match *item {
            Item::Old(entry) => entry.path(),
            Item::New { start, end, .. } => self.paths.get(start..end).unwrap_or_default(),
        }
    }

    /// Whether this path is among those added since there were `from` of them.
    fn has(&self, from: usize, path: &[u8]) -> bool {
        // Whatever lies between a file and a directory of the same name begins with that name.
        let items = self.items.get(from..).unwrap_or_default();
        items.last().is_some_and(|last| self.path(last).starts_with(path))
            && items.binary_search_by(|item| self.path(item).cmp(path)).is_ok()
    }
}

/// Reads trees, and puts together the entries and the cache tree that they make.
pub(crate) struct Reader<'o, 'a, O> {
    pub(crate) out: Collected<'a>,
    pub(crate) builder: CacheTreeBuilder<'a>,
    objects: &'o mut O,
    arena: &'a Bump,
    kind: object::HashKind,
    limits: TreeLimits,
    left: usize,
    /// What new entries get.
    flags: Flags,
    /// Buffers of trees that were read to their end.
    spare: Vec<Vec<u8>>,
}

/// A tree that is being read.
struct Frame {
    id: ObjectId,
    bytes: Vec<u8>,
    /// Where its next entry begins.
    at: usize,
    /// Where the name of the entry in front of that is, and whether it is a directory.
    previous: Option<(usize, usize, bool)>,
    /// Length of the directory's path, with the `/`.
    path_len: usize,
    /// How many entries there were before it.
    start: usize,
    /// Whether its entries in the index make this very tree.
    faithful: bool,
}

impl<'o, 'a, O: ObjectAccess> Reader<'o, 'a, O> {
    pub(crate) fn new(index: &Index<'a>, objects: &'o mut O, limits: TreeLimits, flags: Flags) -> Self {
        Reader {
            out: Collected::default(),
            builder: CacheTreeBuilder::new(index.kind()),
            objects,
            arena: index.arena(),
            kind: index.kind(),
            limits,
            left: limits.max_entries,
            flags,
            spare: Vec::new(),
        }
    }

    /// Adds all that is in a tree as entries below `dir` (with a `/`, or empty), and a node called `name` to the cache tree.
    /// Directories that `keep` picks (by their path with the `/`) become sparse ones. Says whether the node is valid.
    pub(crate) fn read(
        &mut self,
        id: ObjectId,
        dir: &[u8],
        name: &'a [u8],
        keep: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, TreeError<O::Error>> {
        let mut path = dir.to_vec();
        let mut frames = vec![self.open(id, dir.len(), name)?];
        let mut valid = false;
        while let Some(frame) = frames.last_mut() {
            let next = Entries::from_offset(&frame.bytes, self.kind, frame.at).next();
            path.truncate(frame.path_len);
            let Some(entry) = next else {
                valid = frames.pop().is_some_and(|frame| self.close(frame));
                if let Some(parent) = frames.last_mut() {
                    parent.faithful &= valid;
                }
                continue;
            };
            let entry = match entry {
                Ok(entry) => entry,
                Err(source) => return Err(TreeError::Tree { id: frame.id, dir: path, source }),
            };
            let (mode, faithful) = canonical(&entry, &frame.bytes);
            path.extend_from_slice(entry.name);
            self.check(frame, &entry, mode, &path)?;
            frame.faithful &= faithful;
            let name_at = entry.end - self.kind.len() - 1 - entry.name.len();
            frame.previous = Some((name_at, name_at + entry.name.len(), mode.is_tree()));
            frame.at = entry.end;
            let id = entry.id;
            if !mode.is_tree() {
                self.out.push_new(&path, mode, id, self.flags);
                continue;
            }
            if self.out.has(frame.start, &path) {
                return Err(TreeError::FileDirectory { path });
            }
            let name = self.arena.alloc_slice_copy(entry.name);
            path.push(b'/');
            if keep(&path) {
                self.out.push_new(&path, TREE, id, self.flags);
                self.builder.open(name);
                self.builder.close(Some((1, id)));
            } else if frames.len() >= self.limits.max_depth {
                return Err(TreeError::TooDeep { limit: self.limits.max_depth });
            } else {
                frames.push(self.open(id, path.len(), name)?);
            }
        }
        Ok(valid)
    }

    fn open(&mut self, id: ObjectId, path_len: usize, name: &'a [u8]) -> Result<Frame, TreeError<O::Error>> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        self.objects.read_tree(&id, &mut bytes).map_err(TreeError::Objects)?;
        self.builder.open(name);
        Ok(Frame { id, bytes, at: 0, previous: None, path_len, start: self.out.len(), faithful: true })
    }

    /// Says whether the cache tree remembers the directory.
    fn close(&mut self, frame: Frame) -> bool {
        let count = u32::try_from(self.out.len() - frame.start).ok();
        // No index has a directory without entries, except for the root.
        let valid = count.filter(|&count| frame.faithful && (count > 0 || frame.path_len == 0));
        self.builder.close(valid.map(|count| (count, frame.id)));
        self.spare.push(frame.bytes);
        valid.is_some()
    }

    fn check(
        &mut self,
        frame: &Frame,
        entry: &tree::Entry<'_>,
        mode: Mode,
        path: &[u8],
    ) -> Result<(), TreeError<O::Error>> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(TreeError::TooMany { limit: self.limits.max_entries });
        };
        self.left = left;
        // What a link may be called depends on the directories above it, too.
        let checked = path::check_name(entry.name, mode, self.limits.checks);
        let checked = checked.and_then(|()| match mode.is_symlink() {
            true => path::check(path, mode, self.limits.checks),
            false => Ok(()),
        });
        if let Err(source) = checked {
            return Err(TreeError::Path { path: path.into(), source });
        }
        if let Some((start, end, is_tree)) = frame.previous
            && tree_order(frame.bytes.get(start..end).unwrap_or_default(), is_tree, entry.name, mode.is_tree()).is_ge()
        {
            return Err(TreeError::Order { path: path.into() });
        }
        if entry.id.is_null() {
            return Err(TreeError::NullId { path: path.into() });
        }
        Ok(())
    }
}

/// The mode that an index has for it, and whether the tree says just that.
fn canonical(entry: &tree::Entry<'_>, tree: &[u8]) -> (Mode, bool) {
    let (mode, text): (u32, &[u8]) = match entry.mode {
        mode if mode.is_tree() => (TREE.0, b"40000 "),
        mode if mode.is_symlink() => (0o120_000, b"120000 "),
        mode if mode.is_gitlink() => (0o160_000, b"160000 "),
        mode if mode.0 & 0o100 != 0 => (0o100_755, b"100755 "),
        _ => (0o100_644, b"100644 "),
    };
    (Mode(mode), tree.get(entry.at..).is_some_and(|rest| rest.starts_with(text)))
}

/// The order of a tree's entries: by bytes, a directory as if it had a `/` at its end.
fn tree_order(a: &[u8], a_is_tree: bool, b: &[u8], b_is_tree: bool) -> Ordering {
    let slash = |is_tree: bool| is_tree.then_some(&b'/');
    a.iter().chain(slash(a_is_tree)).cmp(b.iter().chain(slash(b_is_tree)))
}
