//! Dense numbers for every object of a store.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use object::ObjectId;
use odb::{Pack, Store};
use pack_format::PackPos;

use crate::error::WalkError;
use crate::set::ObjectNr;

/// Gives each object of a store a number, so that sets of objects are bitsets.
///
/// The packs of the store stand one after another, an optional `first` one in front, then local
/// before borrowed and newer before older; an object in several packs has the number of the first
/// of them. Objects outside packs are numbered when they are first asked for. A `Numbering` is a
/// snapshot: packs that appear later are not seen, and packs deleted later stay readable.
///
/// Memory: the order tables of the packs asked about (at most 16 bytes an object), and about 80
/// bytes for each object outside packs that was met.
pub struct Numbering {
    store: Store,
    packs: Vec<NumberedPack>,
    packed: u32,
    outside: RwLock<Outside>,
}

struct NumberedPack {
    pack: Arc<Pack>,
    first: u32,
}

#[derive(Default)]
struct Outside {
    ids: Vec<ObjectId>,
    numbers: HashMap<ObjectId, ObjectNr, BuildHasherDefault<IdHasher>>,
}

/// Where a numbered object lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In a pack.
    Packed {
        /// Index of the pack, for [`Numbering::pack`].
        pack: usize,
        /// Rank in that pack's offset order.
        pos: PackPos,
    },
    /// Outside the packs of the snapshot: loose, or in a pack that came later.
    Outside,
}

impl Numbering {
    /// Numbers the objects of `store`, those of `first` before all others.
    ///
    /// # Errors
    /// When the packs cannot be listed, or hold more than `u32::MAX` objects together.
    pub fn new(store: &Store, first: Option<&Arc<Pack>>) -> Result<Self, WalkError> {
        let listed = store.packs()?;
        let mut packs = Vec::with_capacity(listed.len() + 1);
        let mut packed = 0u32;
        let rest = listed.iter().filter(|pack| first.is_none_or(|f| f.path() != pack.path()));
        for pack in first.into_iter().chain(rest) {
            packs.push(NumberedPack { pack: Arc::clone(pack), first: packed });
            packed = packed.checked_add(pack.count()).ok_or(WalkError::TooManyObjects)?;
        }
        Ok(Self { store: store.clone(), packs, packed, outside: RwLock::default() })
    }

    /// The store whose objects are numbered.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How many numbers belong to packs: all below this, none at or above.
    pub fn packed_len(&self) -> u32 {
        self.packed
    }

    /// How many packs are numbered.
    pub fn pack_count(&self) -> usize {
        self.packs.len()
    }

    /// The pack at `index`, as named by [`Place::Packed`].
    ///
    /// # Panics
    /// When `index` is not below [`pack_count`](Self::pack_count).
    pub fn pack(&self, index: usize) -> &Arc<Pack> {
        &self.packs[index].pack
    }

    /// The number of the first object of the pack at `index`.
    ///
    /// # Panics
    /// When `index` is not below [`pack_count`](Self::pack_count).
    pub fn pack_base(&self, index: usize) -> u32 {
        self.packs[index].first
    }

    /// The numbers of the pack at `index`, as `start..end`.
    ///
    /// # Panics
    /// When `index` is not below [`pack_count`](Self::pack_count).
    pub fn pack_range(&self, index: usize) -> std::ops::Range<u32> {
        let numbered = &self.packs[index];
        numbered.first..numbered.first + numbered.pack.count()
    }

    /// The number of the object called `id`, or `None` if the store has no such object.
    ///
    /// O(packs) look-ups; an object outside packs costs a file-system look-up the first time.
    ///
    /// # Errors
    /// When an index or a directory cannot be read.
    #[inline]
    pub fn number_of(&self, id: &ObjectId) -> Result<Option<ObjectNr>, WalkError> {
        match self.packed_number_of(id)? {
            Some(nr) => Ok(Some(nr)),
            None => self.outside_number_of(id),
        }
    }

    /// The number of the object called `id` if a numbered pack has it.
    ///
    /// # Errors
    /// When an index cannot be read.
    #[inline]
    pub fn packed_number_of(&self, id: &ObjectId) -> Result<Option<ObjectNr>, WalkError> {
        for numbered in &self.packs {
            if let Some(pos) = numbered.pack.idx().lookup(id) {
                let pos = numbered.pack.order()?.pack_pos(pos);
                return Ok(Some(ObjectNr::new(numbered.first + pos.get())));
            }
        }
        Ok(None)
    }

    #[cold]
    fn outside_number_of(&self, id: &ObjectId) -> Result<Option<ObjectNr>, WalkError> {
        let known = self.outside.read().unwrap_or_else(PoisonError::into_inner).numbers.get(id).copied();
        if known.is_some() || !self.store.contains(id)? {
            return Ok(known);
        }
        let mut outside = self.outside.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&nr) = outside.numbers.get(id) {
            return Ok(Some(nr));
        }
        let rank = u32::try_from(outside.ids.len()).map_err(|_| WalkError::TooManyObjects)?;
        let nr = ObjectNr::new(self.packed.checked_add(rank).ok_or(WalkError::TooManyObjects)?);
        outside.ids.push(*id);
        outside.numbers.insert(*id, nr);
        Ok(Some(nr))
    }

    /// Where the object numbered `nr` lies.
    #[inline]
    pub fn place(&self, nr: ObjectNr) -> Place {
        if nr.get() >= self.packed {
            return Place::Outside;
        }
        // The packs before the partition point start at or before `nr`; the last of them that is
        // not empty holds it, and an empty pack never is the last, as the next starts with it.
        let pack = self.packs.partition_point(|p| p.first <= nr.get()) - 1;
        Place::Packed { pack, pos: PackPos::new(nr.get() - self.packs[pack].first) }
    }

    /// The name of the object numbered `nr`.
    ///
    /// # Errors
    /// When the pack's order cannot be read, or `nr` was never given out.
    pub fn id_of(&self, nr: ObjectNr) -> Result<ObjectId, WalkError> {
        match self.place(nr) {
            Place::Packed { pack, pos } => {
                let pack = &self.packs[pack].pack;
                Ok(pack.idx().id(pack.order()?.idx_pos(pos)))
            }
            Place::Outside => {
                let outside = self.outside.read().unwrap_or_else(PoisonError::into_inner);
                let rank = (nr.get() - self.packed) as usize;
                outside.ids.get(rank).copied().ok_or(WalkError::UnknownNumber { nr: nr.get() })
            }
        }
    }

    /// The ids of the objects outside packs that were met so far; the first has number
    /// [`packed_len`](Self::packed_len).
    pub fn outside_ids(&self) -> Vec<ObjectId> {
        self.outside.read().unwrap_or_else(PoisonError::into_inner).ids.clone()
    }
}

impl std::fmt::Debug for Numbering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Numbering").field("packs", &self.packs.len()).field("packed", &self.packed).finish()
    }
}

/// Takes the first eight bytes of an id as its hash: ids are uniformly distributed already.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // `ObjectId` hashes its bytes, and a slice its length before them; only long writes carry id bytes.
        if let Some(head) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*head);
        }
    }

    fn write_usize(&mut self, _: usize) {}
}
