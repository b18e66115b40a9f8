//! What is stored of an object, and where: each of its copies, bytes on disk, delta bases, how few digits name it.

use std::ops::Range;

use object::{ObjectId, Prefix};
use pack_format::entry::EntryKind;
use pack_format::{IdxPos, MidxPos, PackOffset};

use crate::error::{Damage, ReadError};
use crate::loose;
use crate::pack::Pack;
use crate::store::{Location, Store};

/// How a copy of an object is stored; made by [`Store::entry`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EntryInfo {
    /// Bytes it takes on disk: an entry with its header in a pack, or a loose object's file. Git's `%(objectsize:disk)`.
    pub disk_size: u64,
    /// The object that a packed delta is based on. Git's `%(deltabase)`, which says zeros for `None`.
    pub delta_base: Option<ObjectId>,
    /// The copy that this is about.
    pub location: Location,
}

impl Store {
    /// How the copy that look-ups prefer is stored. O(1) once the pack's [order](Pack::order) is made.
    ///
    /// # Errors
    /// [`Missing`](ReadError::Missing), damage in the pack's index or the entry's header, and what the system says.
    pub fn entry(&self, id: &ObjectId) -> Result<EntryInfo, ReadError> {
        for _ in 0..2 {
            let location = self.find(id)?.ok_or(ReadError::Missing { id: *id })?;
            if let Some(info) = self.entry_at(id, location)? {
                return Ok(info);
            }
            // The loose file went away in between; a pack may have it by now.
        }
        Err(ReadError::Missing { id: *id })
    }

    /// How this copy of the object is stored, as [`copies`](Self::copies) lists it; `None` for a loose file that went away
    /// meanwhile.
    ///
    /// # Errors
    /// As for [`entry`](Self::entry).
    pub fn entry_at(&self, id: &ObjectId, location: Location) -> Result<Option<EntryInfo>, ReadError> {
        let (disk_size, delta_base) = match &location {
            Location::Packed { pack, at, .. } => packed(pack, *at)?,
            Location::Loose { source } => {
                let Some(source) = self.sources().get(*source).cloned() else { return Ok(None) };
                match self.open_loose(&loose::path(source.path(), id))? {
                    Some((_, len)) => (len, None),
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(EntryInfo { disk_size, delta_base, location }))
    }

    /// Every copy of the object in all sources: by pack, newest first in each source as a rule (a pack may hold an object
    /// twice), then loose files. Their health is not looked at. Asks every pack's own index.
    ///
    /// # Errors
    /// If a pack or a loose file could not be looked at.
    pub fn copies(&self, id: &ObjectId) -> Result<Vec<Location>, ReadError> {
        let found = self.search(id, |state, _| {
            let mut copies = Vec::new();
            for slot in state.slots() {
                self.with_index(slot, |pack| {
                    for pos in pack.idx().prefix_range(&Prefix::from(*id)).map(IdxPos::new) {
                        copies.extend(pack.offset(pos).ok().map(|at| Location::Packed { pack: pack.clone(), pos, at }));
                    }
                })?;
            }
            for (number, source) in state.sources.iter().enumerate() {
                if loose::exists(&loose::path(source.path(), id))? {
                    copies.push(Location::Loose { source: number });
                }
            }
            Ok((!copies.is_empty()).then_some(copies))
        })?;
        Ok(found.unwrap_or_default())
    }

    /// The fewest digits, `min_digits` or more, that no other object's id begins with. The object itself need not exist. Not
    /// below [`Prefix::MIN_DIGITS`], nor above the digits of a whole id.
    ///
    /// # Errors
    /// If a pack or a directory could not be looked at.
    pub fn abbreviate(&self, id: &ObjectId, min_digits: usize) -> Result<usize, ReadError> {
        let all = id.kind().hex_len();
        let mut digits = min_digits.max(Prefix::MIN_DIGITS);
        if digits >= all || id.kind() != self.hash_kind() {
            return Ok(digits.min(all));
        }
        let mut tell_from = |other: &ObjectId| {
            let common = common_digits(id, other);
            if common < all && common >= digits {
                digits = common + 1;
            }
        };
        let state = self.state();
        let whole = Prefix::from(*id);
        // Only an id's neighbours in a sorted list can share more digits with it than all others.
        let near = |range: Range<u32>| [range.start.checked_sub(1), Some(range.end)].into_iter().flatten();
        let mut loose = Vec::new();
        for (number, source) in state.sources.iter().enumerate() {
            for layer in state.complete_midx(number).iter().flat_map(|midx| midx.layers.layers()) {
                let midx = layer.midx();
                let near = near(midx.prefix_range(&whole)).filter(|&pos| pos < midx.count());
                near.for_each(|pos| tell_from(&midx.id(MidxPos::new(pos))));
            }
            for slot in state.unlisted(number) {
                self.with_index(slot, |pack| {
                    let near = near(pack.idx().prefix_range(&whole)).filter(|&pos| pos < pack.count());
                    near.for_each(|pos| tell_from(&pack.idx().id(IdxPos::new(pos))));
                })?;
            }
            loose::list_fanout(source.path(), id.first_byte(), self.hash_kind(), &mut loose)?;
        }
        loose.iter().for_each(tell_from);
        Ok(digits)
    }
}

fn packed(pack: &Pack, at: PackOffset) -> Result<(u64, Option<ObjectId>), ReadError> {
    let order = pack.order()?;
    let pos = order.pos_at(at).ok_or_else(|| pack.corrupt(at.get(), Damage::Offset))?;
    let disk_size = order.end(pos).get() - at.get(); // entries do not overlap
    let kind = pack.entry(at)?.0.kind;
    let base = match (kind, pack.base_of(at, &kind)?) {
        (EntryKind::RefDelta { base }, _) => Some(base),
        (_, None) => None,
        (_, Some(base)) => {
            let pos = order.pos_at(base).ok_or_else(|| pack.corrupt(at.get(), Damage::Offset))?;
            Some(pack.idx().id(order.idx_pos(pos)))
        }
    };
    Ok((disk_size, base))
}

/// How many leading digits two ids of a kind have in common.
fn common_digits(one: &ObjectId, two: &ObjectId) -> usize {
    let (one, two) = (one.as_bytes(), two.as_bytes());
    let bytes = one.iter().zip(two).take_while(|(a, b)| a == b).count();
    match (one.get(bytes), two.get(bytes)) {
        (Some(a), Some(b)) if a >> 4 == b >> 4 => 2 * bytes + 1,
        _ => 2 * bytes,
    }
}
