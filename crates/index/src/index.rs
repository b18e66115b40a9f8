//! The index in memory: entries in order, and what the extensions say about them.

use std::ops::Range;

use bumpalo::Bump;
use object::{HashKind, ObjectId};

use crate::entry::{Entry, Stage};
use crate::ext::{CacheTree, ResolveUndo, Untracked};
use crate::header::Version;
use crate::split::Split;
use crate::stat::Time;
use crate::store::{Records, Slot, Slots, Store};

/// An index: what [`read`](Index::read) found or [`new`](Index::new) begins with, as edits have changed it since.
///
/// `'a` is the life of the arena, and of the bytes that were read: entries of a version 2 or 3 file stay where they lie in
/// those. Edited entries are in the arena, and so are the paths of a version 4 file, once one of the 64 around them is
/// looked at. On top come one byte an entry, eight more once it was looked at, and eight more once any was edited.
///
/// Positions count from 0 in the index's order (path as bytes, then stage) and shift with edits.
pub struct Index<'a> {
    pub(crate) store: Store<'a>,
    pub(crate) kind: HashKind,
    pub(crate) version: Version,
    pub(crate) slots: Slots,
    /// What is known of each entry in memory only, as `MARK_` bits; empty: nothing of any.
    pub(crate) marks: Vec<u8>,
    pub(crate) split: Option<Split>,
    pub(crate) sparse: bool,
    pub(crate) tree: Option<CacheTree<'a>>,
    pub(crate) resolve_undo: ResolveUndo,
    pub(crate) untracked: Option<Untracked<'a>>,
    pub(crate) fsmonitor: Option<Vec<u8>>,
    pub(crate) unknown: Vec<Extension<'a>>,
    pub(crate) timestamp: Time,
    pub(crate) checksum: Option<ObjectId>,
    pub(crate) changed: bool,
}

/// The file system monitor has not seen it change.
pub(crate) const MARK_FSMONITOR: u8 = 1;
/// It was compared with its file since the index was read.
pub(crate) const MARK_UP_TO_DATE: u8 = 2;

/// An optional extension that this crate does not know. It is kept and written back as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its four letters, the first of which is upper case.
    pub signature: [u8; 4],
    /// Its data.
    pub data: &'a [u8],
}

impl<'a> Index<'a> {
    /// An index without entries, as if no file were there. It is written as version 2 or 3 unless
    /// [`set_version`](Index::set_version) asks for another.
    pub fn new(arena: &'a Bump, kind: HashKind) -> Self {
        Index {
            store: Store::new(arena, kind),
            kind,
            version: Version::V2,
            slots: Slots::default(),
            marks: Vec::new(),
            split: None,
            sparse: false,
            tree: None,
            resolve_undo: ResolveUndo::default(),
            untracked: None,
            fsmonitor: None,
            unknown: Vec::new(),
            timestamp: Time::default(),
            checksum: None,
            changed: false,
        }
    }

    /// The hash function of the ids.
    pub fn kind(&self) -> HashKind {
        self.kind
    }

    /// The version it was read from, or will be written as: 2 and 3 both mean "the lowest that fits".
    pub fn version(&self) -> Version {
        self.version
    }

    /// The arena it was made with.
    pub fn arena(&self) -> &'a Bump {
        self.store.arena
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// The entry at a position.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Entry<'a>> {
        Some(self.store.entry(self.slots.get(at)?))
    }

    /// All entries in order.
    #[inline]
    pub fn iter(&self) -> Iter<'a, '_> {
        self.iter_range(0..self.len())
    }

    /// The entries at these positions; those beyond the end are not there.
    pub fn iter_range(&self, range: Range<usize>) -> Iter<'a, '_> {
        let end = range.end.min(self.len());
        Iter { slots: &self.slots, range: range.start.min(end)..end, store: &self.store, ahead: None }
    }

    /// The entries alone, for threads to share.
    pub fn entries(&self) -> Entries<'a, '_> {
        self.store.expand();
        Entries { slots: &self.slots, records: &self.store.records, kind: self.kind }
    }

    /// Where the entry of this path and stage is, or else where it would be. O(log n).
    pub fn find(&self, path: &[u8], stage: Stage) -> Result<usize, usize> {
        let at = self.slots.partition_point(0..self.len(), |slot| self.store.entry(slot).cmp_key(path, stage).is_lt());
        match self.get(at).is_some_and(|entry| entry.cmp_key(path, stage).is_eq()) {
            true => Ok(at),
            false => Err(at),
        }
    }

    /// The positions of all stages of exactly this path. O(log n).
    pub fn range(&self, path: &[u8]) -> Range<usize> {
        let start = self.slots.partition_point(0..self.len(), |slot| self.store.path(slot) < path);
        let stages = self.iter_range(start..self.len()).take_while(|entry| entry.path() == path);
        start..start + stages.count()
    }

    /// The positions of all entries whose path begins with these bytes: a directory's if they end in `/`. O(log n).
    pub fn prefix(&self, prefix: &[u8]) -> Range<usize> {
        let start = self.slots.partition_point(0..self.len(), |slot| self.store.path(slot) < prefix);
        start..self.slots.partition_point(start..self.len(), |slot| self.store.path(slot).starts_with(prefix))
    }

    /// Whether any entry is of an unresolved merge. O(n).
    pub fn is_unmerged(&self) -> bool {
        self.iter().any(|entry| entry.stage() != Stage::Merged)
    }

    /// Whether whole directories outside of a sparse checkout may stand as one entry (extension `sdir`).
    pub fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// Whether the file system monitor has not seen the entry's file change.
    pub fn fsmonitor_valid(&self, at: usize) -> bool {
        self.mark(at, MARK_FSMONITOR)
    }

    /// Whether the entry was found to be what its file is since the index was read. Not stored.
    pub fn is_up_to_date(&self, at: usize) -> bool {
        self.mark(at, MARK_UP_TO_DATE)
    }

    fn mark(&self, at: usize, bit: u8) -> bool {
        self.marks.get(at).is_some_and(|marks| marks & bit != 0)
    }

    /// The trees that parts of the index are known to be (extension `TREE`).
    pub fn cache_tree(&self) -> Option<&CacheTree<'a>> {
        self.tree.as_ref()
    }

    /// The conflicts that were resolved (extension `REUC`).
    pub fn resolve_undo(&self) -> &ResolveUndo {
        &self.resolve_undo
    }

    /// What was found untracked in the work tree (extension `UNTR`).
    pub fn untracked(&self) -> Option<&Untracked<'a>> {
        self.untracked.as_ref()
    }

    /// What to ask the file system monitor for changes since (extension `FSMN`).
    pub fn fsmonitor_token(&self) -> Option<&[u8]> {
        self.fsmonitor.as_deref()
    }

    /// The shared index it builds on, if it is split and that one is written.
    pub fn shared_base(&self) -> Option<ObjectId> {
        self.split.as_ref()?.base
    }

    /// Whether it is to be written as a split index.
    pub fn is_split(&self) -> bool {
        self.split.is_some()
    }

    /// Optional extensions that this crate does not know, in file order.
    pub fn extensions(&self) -> &[Extension<'a>] {
        &self.unknown
    }

    /// When the file it was read from was last written. Zero if unknown: then no entry is taken for racy.
    pub fn timestamp(&self) -> Time {
        self.timestamp
    }

    /// The trailer of the file it was read from; `None` if that is zero, as with `index.skipHash`, or there was no file.
    pub fn checksum(&self) -> Option<ObjectId> {
        self.checksum
    }

    /// Whether there is anything to write: an edit since it was read.
    pub fn is_changed(&self) -> bool {
        self.changed
    }
}

impl std::fmt::Debug for Index<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("version", &self.version)
            .field("entries", &self.len())
            .field("split", &self.is_split())
            .field("sparse", &self.sparse)
            .finish_non_exhaustive()
    }
}

/// The entries of an index without all else: may be looked at from several threads.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a, 'i> {
    slots: &'i Slots,
    records: &'i Records<'a>,
    kind: HashKind,
}

impl<'a> Entries<'a, '_> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// The entry at a position.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Entry<'a>> {
        Some(self.records.entry(self.slots.get(at)?, self.kind, None))
    }

    /// All in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry<'a>> + DoubleEndedIterator {
        self.slots.iter(0..self.len()).map(|slot| self.records.entry(slot, self.kind, None))
    }
}

/// Entries in order.
#[derive(Clone)]
pub struct Iter<'a, 'i> {
    slots: &'i Slots,
    range: Range<usize>,
    store: &'i Store<'a>,
    /// The slot behind the last one, and where its record begins. Records of version 2 and 3 that go by in order need not
    /// be found one by one.
    ahead: Option<(Slot, usize)>,
}

impl<'a> Iterator for Iter<'a, '_> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let slot = self.slots.get(self.range.next()?)?;
        match self.store.in_passing(slot, self.ahead) {
            Some((entry, ahead)) => {
                self.ahead = Some(ahead);
                Some(entry)
            }
            None => Some(self.store.entry(slot)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<Entry<'a>> {
        Some(self.store.entry(self.slots.get(self.range.nth(n)?)?))
    }
}

impl DoubleEndedIterator for Iter<'_, '_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.store.entry(self.slots.get(self.range.next_back()?)?))
    }
}

impl ExactSizeIterator for Iter<'_, '_> {}
impl std::iter::FusedIterator for Iter<'_, '_> {}

impl<'a, 'i> IntoIterator for &'i Index<'a> {
    type Item = Entry<'a>;
    type IntoIter = Iter<'a, 'i>;

    fn into_iter(self) -> Iter<'a, 'i> {
        self.iter()
    }
}
