//! Marking all that is reachable from trees.

use object::{ObjectId, ObjectKind};
use odb::Observer;

use crate::error::WalkError;
use crate::numbering::{Numbering, Place};
use crate::set::{ObjectNr, ObjectSet};
use crate::trees::{Child, RawEntry, TreeReader, id_of};

/// Which blobs a walk takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum BlobRule {
    /// All of them.
    #[default]
    All,
    /// None; they are not even looked up.
    None,
    /// Those smaller than this many bytes.
    Below(u64),
}

/// What to do about an object that a tree names but the store lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Missing {
    /// Fail with [`WalkError::Missing`].
    #[default]
    Error,
    /// Go on without it.
    Allow,
}

/// Options of an [`ObjectWalk`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WalkOptions {
    /// Which blobs to take. Default: all.
    pub blobs: BlobRule,
    /// Take only trees and blobs less than this many levels below a root tree, which is at level
    /// 0. Default: no limit.
    pub tree_depth: Option<u64>,
    /// What to do about missing objects. Default: fail.
    pub missing: Missing,
    /// Bytes of decoded trees to keep at hand. Default: 64 MiB.
    pub cache_bytes: usize,
    /// The largest tree to read, in bytes; at most 4 GiB - 1, which is the default.
    pub max_tree_bytes: u64,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self {
            blobs: BlobRule::All,
            tree_depth: None,
            missing: Missing::Error,
            cache_bytes: 64 << 20,
            max_tree_bytes: u64::from(u32::MAX),
        }
    }
}

impl WalkOptions {
    /// Sets [`blobs`](Self::blobs).
    #[must_use]
    pub fn blobs(mut self, blobs: BlobRule) -> Self {
        self.blobs = blobs;
        self
    }

    /// Sets [`tree_depth`](Self::tree_depth).
    #[must_use]
    pub fn tree_depth(mut self, depth: Option<u64>) -> Self {
        self.tree_depth = depth;
        self
    }

    /// Sets [`missing`](Self::missing).
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Sets [`cache_bytes`](Self::cache_bytes).
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }
}

/// Objects at which a walk stops.
#[derive(Clone, Copy, Debug)]
pub struct Boundary<'a> {
    /// The objects: neither taken nor entered.
    pub set: &'a ObjectSet,
    /// Whether all that is reachable from a member is a member too. Then entries that a tree
    /// shares with a member need no look-up.
    pub closed: bool,
}

/// Marks everything reachable from trees in an [`ObjectSet`].
///
/// Trees are visited in pack order, sweep by sweep, so that a tree's delta base is at hand when
/// its turn comes, and entries that it shares with a base already visited cost nothing (see the
/// figures in the crate's README). Nothing recurses; memory is the set, a second one of the trees
/// to do, and [`WalkOptions::cache_bytes`].
///
/// A walk can be used for several sets one after another: decoded trees stay at hand.
pub struct ObjectWalk<'n> {
    numbering: &'n Numbering,
    options: WalkOptions,
    reader: TreeReader,
}

/// What walks have cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkStats {
    /// Trees decoded, delta bases included.
    pub trees: u64,
    /// Entries read from bytes.
    pub entries_read: u64,
    /// Entries taken over from a delta base without reading them.
    pub entries_carried: u64,
}

impl<'n> ObjectWalk<'n> {
    /// A walk over the objects of `numbering`.
    pub fn new(numbering: &'n Numbering, options: WalkOptions) -> Self {
        let reader = TreeReader::new(options.cache_bytes, options.max_tree_bytes);
        Self { numbering, options, reader }
    }

    /// What was read so far.
    pub fn stats(&self) -> WalkStats {
        WalkStats {
            trees: self.reader.decoded,
            entries_read: self.reader.entries_read,
            entries_carried: self.reader.entries_carried,
        }
    }

    pub(crate) fn reader(&mut self) -> (&'n Numbering, &mut TreeReader) {
        (self.numbering, &mut self.reader)
    }

    /// Adds `roots`, which must be trees, and all that is reachable from them to `seen`.
    ///
    /// What is in `seen` beforehand is taken as visited with all that it reaches, and what is in
    /// `stop` is neither added nor entered.
    ///
    /// # Errors
    /// When an object is missing (unless allowed), damaged in all its copies, or not of the kind
    /// that the tree says, or when `observer` asks to stop. `seen` then holds a part.
    pub fn mark(
        &mut self,
        roots: impl IntoIterator<Item = ObjectId>,
        seen: &mut ObjectSet,
        stop: Option<Boundary<'_>>,
        observer: &dyn Observer,
    ) -> Result<(), WalkError> {
        let nothing = ObjectSet::new();
        let stop = stop.unwrap_or(Boundary { set: &nothing, closed: true });
        let numbering = self.numbering;
        let epoch = self.reader.next_epoch();
        let mut marker = Marker {
            numbering,
            options: &self.options,
            seen,
            stop: stop.set,
            todo: ObjectSet::with_capacity(numbering.packed_len()),
            below: ObjectSet::new(),
            level: 0,
            measured: ObjectSet::new(),
            recent: Recent::new(),
        };
        if self.options.tree_depth == Some(0) {
            return Ok(());
        }
        for root in roots {
            marker.tree(&root)?;
        }
        // Without a depth limit, what is found goes to `todo` as well: a find behind the sweep
        // waits for the next one. With a limit, a sweep is a level, so that each tree is met at
        // its least depth first.
        let known = |nr: ObjectNr| stop.closed && stop.set.contains(nr);
        loop {
            let mut from = ObjectNr::new(0);
            let mut any = false;
            while let Some(nr) = marker.todo.next_at_or_after(from) {
                any = true;
                marker.todo.remove(nr);
                from = nr;
                if self.options.tree_depth.is_some_and(|depth| marker.level + 1 >= depth) {
                    continue; // all its entries lie too deep
                }
                self.reader.read_and_mark(numbering, nr, epoch, &known, &mut |entry| marker.entry(entry))?;
                if observer.cancelled() {
                    return Err(WalkError::Cancelled);
                }
            }
            if self.options.tree_depth.is_some() {
                std::mem::swap(&mut marker.todo, &mut marker.below);
                marker.level += 1;
            }
            if !any {
                return Ok(());
            }
        }
    }
}

/// Ids met a short while ago, each in the one place where it can be.
///
/// The first tree of each delta chain is read entry by entry, and most of its entries are those of the
/// chain before; this spares them the look-up.
struct Recent {
    slots: Vec<[u8; Self::ID_LEN]>,
}

impl Recent {
    /// The longest id there is.
    const ID_LEN: usize = 32;
    /// Half a megabyte: at home in a second-level cache, and more entries than most trees have.
    const SLOTS: usize = 1 << 14;

    fn new() -> Self {
        // Ids of a different slot, so that none is found before it was met.
        let slots = (0..Self::SLOTS).map(|slot| {
            let mut id = [0; Self::ID_LEN];
            id[..2].copy_from_slice(&((slot ^ 1) as u16).to_le_bytes());
            id
        });
        Self { slots: slots.collect() }
    }

    /// Whether `id` is remembered. It is from now on.
    #[inline]
    fn met(&mut self, id: &[u8]) -> bool {
        let [a, b, ..] = *id else { return false };
        let slot = &mut self.slots[usize::from(u16::from_le_bytes([a, b])) % Self::SLOTS];
        let Some(known) = slot.get_mut(..id.len()) else { return false };
        if known == id {
            return true;
        }
        known.copy_from_slice(id);
        false
    }
}

struct Marker<'a> {
    numbering: &'a Numbering,
    options: &'a WalkOptions,
    seen: &'a mut ObjectSet,
    stop: &'a ObjectSet,
    todo: ObjectSet,
    /// With a depth limit: the trees of the next level.
    below: ObjectSet,
    level: u64,
    /// Blobs found to be too large.
    measured: ObjectSet,
    recent: Recent,
}

impl Marker<'_> {
    #[inline]
    fn entry(&mut self, entry: RawEntry<'_>) -> Result<(), WalkError> {
        if entry.child == Child::Gitlink || entry.child == Child::Blob && self.options.blobs == BlobRule::None {
            return Ok(());
        }
        if self.options.tree_depth.is_none() && self.recent.met(entry.id) {
            return Ok(());
        }
        match entry.child {
            Child::Tree => {
                let id = id_of(entry.id)?;
                let Some(nr) = self.number_of(&id)? else { return Ok(()) };
                if !self.stop.contains(nr) && self.seen.insert(nr) {
                    if self.options.tree_depth.is_some() { &mut self.below } else { &mut self.todo }.insert(nr);
                }
                Ok(())
            }
            Child::Blob => match self.options.blobs {
                BlobRule::None => Ok(()),
                BlobRule::All => {
                    let id = id_of(entry.id)?;
                    if let Some(nr) = self.number_of(&id)?
                        && !self.stop.contains(nr)
                    {
                        self.seen.insert(nr);
                    }
                    Ok(())
                }
                BlobRule::Below(limit) => self.sized_blob(entry.id, limit),
            },
            Child::Gitlink => Ok(()),
        }
    }

    fn tree(&mut self, id: &ObjectId) -> Result<(), WalkError> {
        if let Some(nr) = self.number_of(id)?
            && !self.stop.contains(nr)
            && self.seen.insert(nr)
        {
            self.todo.insert(nr);
        }
        Ok(())
    }

    #[cold]
    fn sized_blob(&mut self, id: &[u8], limit: u64) -> Result<(), WalkError> {
        let id = id_of(id)?;
        let Some(nr) = self.number_of(&id)? else { return Ok(()) };
        if self.stop.contains(nr) || self.seen.contains(nr) || self.measured.contains(nr) {
            return Ok(());
        }
        if size_of_blob(self.numbering, nr)? < limit { &mut *self.seen } else { &mut self.measured }.insert(nr);
        Ok(())
    }

    #[inline]
    fn number_of(&self, id: &ObjectId) -> Result<Option<ObjectNr>, WalkError> {
        match self.numbering.number_of(id)? {
            None if self.options.missing == Missing::Error => Err(WalkError::Missing { id: *id }),
            found => Ok(found),
        }
    }
}

/// The size of a blob in bytes, without reading it.
pub(crate) fn size_of_blob(numbering: &Numbering, nr: ObjectNr) -> Result<u64, WalkError> {
    if let Place::Packed { pack, pos } = numbering.place(nr) {
        let pack = numbering.pack(pack);
        if let Ok(header) = pack.order().and_then(|order| pack.header(order.offset(pos))) {
            return Ok(header.size);
        }
    }
    let id = numbering.id_of(nr)?;
    let header = numbering.store().header(&id)?;
    match header.kind {
        ObjectKind::Blob => Ok(header.size),
        kind => Err(WalkError::NotABlob { id, kind }),
    }
}
