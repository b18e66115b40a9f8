//! Where entries lie: in the file that was read, in its shared index, or in the arena.
//!
//! An entry of an index is a [`Slot`]: one number that says where its record is. A version 2 or 3 file is used as it lies, so
//! that reading a million entries allocates eight bytes for each and copies nothing. A version 4 file has to be taken
//! apart to know its paths; that is done 64 entries at a time, when one of them is asked for. Entries that were edited
//! are records in the arena.
//!
//! A record is what a version 2 or 3 file holds, up to and with the NUL behind the path.

use std::ops::Range;
use std::sync::OnceLock;

use bumpalo::Bump;
use object::HashKind;

use crate::entry::{ASSUME_VALID, EXTENDED, Entry, INTENT_TO_ADD, NAME_MASK, NewEntry, SKIP_WORKTREE, STAGE_SHIFT};
use crate::entry::{ID_AT, be16, head_len};
use crate::path_v4;

/// Where one entry lies. Equal slots are the same entry.
///
/// | bits 63, 62 | the rest |
/// |---|---|
/// | 0 | offset of the record in the file |
/// | 1 | offset of the record in the shared index |
/// | 2 | number of a record in the arena |
/// | 3 | version 4: bit 61 the file (1: shared), number of the block, six bits for the place in it |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u64);

const TAG_SHIFT: u32 = 62;
const ARENA: u64 = 2;
const PACKED: u64 = 3;
const PACKED_FILE_SHIFT: u32 = 61;
const PLACE_BITS: u32 = 6;

/// Most entries in a block of a version 4 file.
pub(crate) const BLOCK_ENTRIES: usize = 1 << PLACE_BITS;
/// Most bytes that the paths of a block have together, and so of one path: a place has 32 bits.
pub(crate) const BLOCK_PATHS: u64 = 1 << 31;

/// Which file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    Own = 0,
    Shared = 1,
}

impl Slot {
    /// The record at this offset of a version 2 or 3 file.
    #[inline]
    pub(crate) fn record(file: Which, at: usize) -> Self {
        Slot((file as u64) << TAG_SHIFT | at as u64)
    }

    /// An entry of a version 4 file.
    #[inline]
    pub(crate) fn packed(file: Which, block: usize, place: usize) -> Self {
        Slot(PACKED << TAG_SHIFT | (file as u64) << PACKED_FILE_SHIFT | (block as u64) << PLACE_BITS | place as u64)
    }

    /// The same place, so many blocks further on.
    #[inline]
    pub(crate) fn behind_blocks(self, blocks: usize) -> Self {
        Slot(self.0 + ((blocks as u64) << PLACE_BITS))
    }

    /// The offset, if it is a record of a version 2 or 3 file.
    pub(crate) fn record_at(self) -> Option<usize> {
        (self.tag() < ARENA).then(|| self.rest())
    }

    fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    fn rest(self) -> usize {
        (self.0 & ((1 << TAG_SHIFT) - 1)) as usize
    }
}

/// Up to [`BLOCK_ENTRIES`] consecutive entries of a version 4 file.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    /// Offset of the first entry.
    pub(crate) at: usize,
    /// Number of entries.
    pub(crate) count: usize,
    /// The whole path of the first.
    pub(crate) first: &'a [u8],
    pub(crate) whole: OnceLock<Whole<'a>>,
}

/// A block, taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<'a> {
    /// For each entry the offset of its head, from the block's, and where its path ends in `paths`.
    places: &'a [(u32, u32)],
    paths: &'a [u8],
}

/// Everything that slots point to, but the arena: to be shared by threads.
#[derive(Debug, Default)]
pub(crate) struct Records<'a> {
    files: [&'a [u8]; 2],
    blocks: [Vec<Block<'a>>; 2],
    records: Vec<&'a [u8]>,
}

/// Everything that slots point to.
pub(crate) struct Store<'a> {
    pub(crate) arena: &'a Bump,
    pub(crate) kind: HashKind,
    pub(crate) records: Records<'a>,
}

impl<'a> Store<'a> {
    pub(crate) fn new(arena: &'a Bump, kind: HashKind) -> Self {
        Store { arena, kind, records: Records::default() }
    }

    /// Makes known what slots of this file point to.
    pub(crate) fn set_file(&mut self, file: Which, bytes: &'a [u8], blocks: Vec<Block<'a>>) {
        let (own, shared) = (&mut self.records.files, &mut self.records.blocks);
        if let (Some(place), Some(list)) = (own.get_mut(file as usize), shared.get_mut(file as usize)) {
            (*place, *list) = (bytes, blocks);
        }
    }

    /// Copies an entry into the arena.
    pub(crate) fn put(&mut self, entry: &NewEntry<'_>) -> Slot {
        let mut record = Vec::with_capacity(ID_AT + 32 + 4 + entry.path.len() + 1);
        let stat = entry.stat.to_bytes();
        record.extend_from_slice(&stat[..24]);
        record.extend_from_slice(&entry.mode.0.to_be_bytes());
        record.extend_from_slice(&stat[24..]);
        record.extend_from_slice(entry.id.as_bytes());
        let mut word = (entry.stage as u16) << STAGE_SHIFT;
        word |= u16::try_from(entry.path.len()).unwrap_or(NAME_MASK).min(NAME_MASK);
        word |= if entry.flags.assume_valid { ASSUME_VALID } else { 0 };
        let mut extended = if entry.flags.skip_worktree { SKIP_WORKTREE } else { 0 };
        extended |= if entry.flags.intent_to_add { INTENT_TO_ADD } else { 0 };
        word |= if extended != 0 { EXTENDED } else { 0 };
        record.extend_from_slice(&word.to_be_bytes());
        if extended != 0 {
            record.extend_from_slice(&extended.to_be_bytes());
        }
        record.extend_from_slice(entry.path);
        record.push(0);
        let number = self.records.records.len() as u64;
        self.records.records.push(self.arena.alloc_slice_copy(&record));
        Slot(ARENA << TAG_SHIFT | number)
    }

    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> Entry<'a> {
        self.records.entry(slot, self.kind, Some(self.arena))
    }

    #[inline]
    pub(crate) fn path(&self, slot: Slot) -> &'a [u8] {
        self.entry(slot).path()
    }

    /// The file this entry lies in, and its bytes there with the padding, if they are exactly what a writer of version 2 or
    /// 3 would write.
    pub(crate) fn verbatim(&self, slot: Slot) -> Option<(&'a [u8], Range<usize>)> {
        let file = *self.records.files.get(usize::try_from(slot.tag()).ok()?)?;
        let start = slot.rest();
        let rest = file.get(start..)?;
        let (base, word) = (head_len(self.kind), be16(rest, head_len(self.kind) - 2));
        let head = if word & EXTENDED != 0 { base + 2 } else { base };
        if word & EXTENDED != 0 && be16(rest, base) == 0 {
            return None;
        }
        let len = path_len(rest, head, word)?;
        let size = (head + len + 8) & !7;
        let padding = rest.get(head + len..size)?;
        padding.iter().all(|&byte| byte == 0).then_some((file, start..start + size))
    }

    /// Takes every block apart, so that threads may look at all entries.
    pub(crate) fn expand(&self) {
        for (file, blocks) in self.records.files.iter().zip(&self.records.blocks) {
            for block in blocks {
                block.whole.get_or_init(|| block.expand(file, self.kind, self.arena));
            }
        }
    }
}

/// The length of a record's path; `head` is where it begins.
#[inline]
fn path_len(record: &[u8], head: usize, word: u16) -> Option<usize> {
    match word & NAME_MASK {
        NAME_MASK => memchr::memchr(0, record.get(head..)?),
        len => Some(usize::from(len)),
    }
}

impl<'a> Records<'a> {
    /// `arena` may be left out once all blocks are expanded.
    #[inline]
    pub(crate) fn entry(&self, slot: Slot, kind: HashKind, arena: Option<&'a Bump>) -> Entry<'a> {
        let bytes = match slot.tag() {
            0 => self.files[0].get(slot.rest()..),
            1 => self.files[1].get(slot.rest()..),
            ARENA => self.records.get(slot.rest()).copied(),
            _ => return self.packed(slot, kind, arena),
        };
        // That there is a whole record was checked when the slot was made.
        let bytes = bytes.unwrap_or_default();
        let base = head_len(kind);
        let word = be16(bytes, base - 2);
        let at = if word & EXTENDED != 0 { base + 2 } else { base };
        let (head, rest) = bytes.split_at_checked(at).unwrap_or_default();
        let len = path_len(bytes, at, word).unwrap_or(0);
        Entry::new(head, rest.get(..len).unwrap_or_default(), kind)
    }

    fn packed(&self, slot: Slot, kind: HashKind, arena: Option<&'a Bump>) -> Entry<'a> {
        let file = (slot.0 >> PACKED_FILE_SHIFT & 1) as usize;
        let number = (slot.0 & ((1 << PACKED_FILE_SHIFT) - 1)) >> PLACE_BITS;
        let place = slot.0 as usize & (BLOCK_ENTRIES - 1);
        let bytes = self.files.get(file).copied().unwrap_or_default();
        let block = self.blocks.get(file).and_then(|blocks| blocks.get(usize::try_from(number).ok()?));
        let found = block.and_then(|block| {
            let whole = match arena {
                Some(arena) => block.whole.get_or_init(|| block.expand(bytes, kind, arena)),
                None => block.whole.get()?,
            };
            let &(head, end) = whole.places.get(place)?;
            let start = match place.checked_sub(1) {
                Some(before) => whole.places.get(before)?.1,
                None => 0,
            };
            let rest = bytes.get(block.at + head as usize..)?;
            let base = head_len(kind);
            let len = if be16(rest, base - 2) & EXTENDED != 0 { base + 2 } else { base };
            Some(Entry::new(rest.get(..len)?, whole.paths.get(start as usize..end as usize)?, kind))
        });
        found.unwrap_or(Entry::new(&[], &[], kind))
    }
}

impl<'a> Block<'a> {
    #[inline(never)]
    fn expand(&self, file: &'a [u8], kind: HashKind, arena: &'a Bump) -> Whole<'a> {
        let base = head_len(kind);
        let mut places = Vec::with_capacity(self.count);
        let mut paths: Vec<u8> = Vec::with_capacity(self.count * (self.first.len() + 8));
        let (mut at, mut start) = (self.at, 0);
        for place in 0..self.count {
            let rest = file.get(at..).unwrap_or_default();
            let head = if be16(rest, base - 2) & EXTENDED != 0 { base + 2 } else { base };
            let field = rest.get(head..).unwrap_or_default();
            // All of this was checked when the file was read.
            let (strip, number) = path_v4::decode(field).unwrap_or((0, 0));
            let suffix = field.get(number..).unwrap_or_default();
            let len = path_v4::suffix_len(suffix).unwrap_or(0);
            let end = paths.len();
            if place == 0 {
                paths.extend_from_slice(self.first);
            } else {
                let keep = (end - start).saturating_sub(usize::try_from(strip).unwrap_or(usize::MAX));
                paths.extend_from_within(start..start + keep);
                paths.extend_from_slice(suffix.get(..len).unwrap_or_default());
            }
            start = end;
            places.push(((at - self.at) as u32, paths.len() as u32));
            at += head + number + len + 1;
        }
        Whole { places: arena.alloc_slice_copy(&places), paths: arena.alloc_slice_copy(&paths) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Flags, Mode, Stage};
    use crate::stat::Stat;

    #[test]
    fn what_is_stored_is_what_was_given() {
        let arena = Bump::new();
        for kind in HashKind::ALL {
            let mut store = Store::new(&arena, kind);
            for path in [&b"a"[..], &[b'x'; 4094], &[b'x'; 4095], &[b'x'; 5000]] {
                for bits in 0..32u8 {
                    let new = NewEntry {
                        path,
                        id: kind.empty_blob(),
                        mode: Mode(0o100_755),
                        stage: Stage::from_bits(bits >> 3),
                        stat: Stat { size: 7, gid: 9, ..Stat::default() },
                        flags: Flags {
                            assume_valid: bits & 1 != 0,
                            skip_worktree: bits & 2 != 0,
                            intent_to_add: bits & 4 != 0,
                        },
                    };
                    let slot = store.put(&new);
                    assert_eq!(NewEntry::from(store.entry(slot)), new);
                }
            }
        }
    }

    #[test]
    fn slots_tell_their_places_apart() {
        for file in [Which::Own, Which::Shared] {
            assert_ne!(Slot::record(file, 5), Slot::packed(file, 0, 5));
            assert_eq!(Slot::packed(file, 3, 63).behind_blocks(7), Slot::packed(file, 10, 63));
        }
        assert_ne!(Slot::record(Which::Own, 5), Slot::record(Which::Shared, 5));
        assert_ne!(Slot::packed(Which::Own, 5, 5), Slot::packed(Which::Shared, 5, 5));
    }
}
