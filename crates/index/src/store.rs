//! Where entries lie: in the file that was read, in its shared index, or in the arena.
//!
//! An entry of an index is a [`Slot`]: one number that says where its record is. What was read stays where it lies, and its
//! slots follow from their positions until the first edit: all that is kept is where every 64th entry begins. When an
//! entry is asked for, its block of 64 is taken apart, into the arena: where each lies, and for version 4 the paths.
//! Entries that were edited are records in the arena.
//!
//! A record is what a version 2 or 3 file holds, up to and with the NUL behind the path.

use std::ops::Range;
use std::sync::OnceLock;

use bumpalo::Bump;
use object::HashKind;

use crate::entry::{
    ASSUME_VALID, EXTENDED, Entry, ID_AT, INTENT_TO_ADD, NAME_MASK, NewEntry, SKIP_WORKTREE, STAGE_SHIFT,
};
use crate::entry::{be16, head_len, path_len, record_len, whole_head_len};
use crate::path_v4;

/// Where one entry lies. Equal slots are the same entry.
///
/// | bits 63, 62 | the rest |
/// |---|---|
/// | 0 | number of a record in the arena |
/// | 1 | in a block: bit 61 the file (1: shared), number of the block, six bits for the place in it |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u64);

const TAG_SHIFT: u32 = 62;
const ARENA: u64 = 0;
const PACKED: u64 = 1;
const PACKED_FILE_SHIFT: u32 = 61;
const PLACE_BITS: u32 = 6;

/// Most entries in a block.
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
    /// An entry of a file.
    #[inline]
    pub(crate) fn packed(file: Which, block: usize, place: usize) -> Self {
        Slot(PACKED << TAG_SHIFT | (file as u64) << PACKED_FILE_SHIFT | (block as u64) << PLACE_BITS | place as u64)
    }

    fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    fn rest(self) -> usize {
        (self.0 & ((1 << TAG_SHIFT) - 1)) as usize
    }

    #[inline]
    fn file(self) -> usize {
        (self.0 >> PACKED_FILE_SHIFT & 1) as usize
    }

    /// `None`: not in a block.
    #[inline]
    fn block_number(self) -> Option<usize> {
        if self.tag() != PACKED {
            return None;
        }
        usize::try_from((self.0 & ((1 << PACKED_FILE_SHIFT) - 1)) >> PLACE_BITS).ok()
    }

    #[inline]
    fn place(self) -> usize {
        self.0 as usize & (BLOCK_ENTRIES - 1)
    }
}

/// The entries of an index, in order.
#[derive(Clone, Debug)]
pub(crate) enum Slots {
    /// Those of the file, as it was read: entry `n` is in block `n / BLOCK_ENTRIES`. Nothing has to be kept for that.
    AsRead(usize),
    List(Vec<Slot>),
}

impl Default for Slots {
    fn default() -> Self {
        Slots::List(Vec::new())
    }
}

impl Slots {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Slots::AsRead(count) => *count,
            Slots::List(list) => list.len(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<Slot> {
        match self {
            Slots::AsRead(count) => {
                (at < *count).then(|| Slot::packed(Which::Own, at / BLOCK_ENTRIES, at % BLOCK_ENTRIES))
            }
            Slots::List(list) => list.get(at).copied(),
        }
    }

    /// Those at these positions; those beyond the end are not there.
    #[inline]
    pub(crate) fn iter(
        &self,
        range: Range<usize>,
    ) -> impl ExactSizeIterator<Item = Slot> + DoubleEndedIterator + Clone {
        let end = range.end.min(self.len());
        // The range is cut to what is there.
        (range.start.min(end)..end).map(|at| self.get(at).unwrap_or(Slot(ARENA << TAG_SHIFT | u64::from(u32::MAX))))
    }

    /// The first position of the range from which on `before` is false. O(log n).
    pub(crate) fn partition_point(&self, range: Range<usize>, mut before: impl FnMut(Slot) -> bool) -> usize {
        let (mut low, mut high) = (range.start, range.end.min(self.len()));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).is_some_and(&mut before) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Whether the entries of the block that begins with this slot are there, one behind the other.
    fn holds_block(&self, range: Range<usize>, first: Slot, count: usize) -> bool {
        let whole = first.place() == 0 && count <= range.len();
        whole
            && match self {
                Slots::AsRead(_) => true,
                Slots::List(list) => {
                    let here = list.get(range.start..range.start + count).unwrap_or_default();
                    here.iter().zip(first.0..).all(|(slot, expected)| slot.0 == expected)
                }
            }
    }

    /// To be changed.
    pub(crate) fn list(&mut self) -> &mut Vec<Slot> {
        if let Slots::AsRead(_) = self {
            *self = Slots::List(self.iter(0..self.len()).collect());
        }
        match self {
            Slots::List(list) => list,
            Slots::AsRead(_) => unreachable!("it was made a list just now"),
        }
    }
}

/// Up to [`BLOCK_ENTRIES`] consecutive entries of a file.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    /// Offset of the first entry.
    pub(crate) at: usize,
    /// Number of entries.
    pub(crate) count: usize,
    /// Version 4: the whole path of the first.
    pub(crate) first: Option<&'a [u8]>,
    pub(crate) whole: OnceLock<Whole<'a>>,
}

/// A block, taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<'a> {
    /// For each entry the offset of its head, from the block's, and where its path ends in `paths`.
    places: &'a [(u32, u32)],
    /// Version 4: the paths, one behind the other.
    paths: Option<&'a [u8]>,
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
    extended: bool,
}

impl<'a> Store<'a> {
    pub(crate) fn new(arena: &'a Bump, kind: HashKind) -> Self {
        Store { arena, kind, records: Records::default(), extended: false }
    }

    /// Makes known what slots of this file point to.
    pub(crate) fn set_file(&mut self, file: Which, bytes: &'a [u8], blocks: Vec<Block<'a>>) {
        let (own, shared) = (&mut self.records.files, &mut self.records.blocks);
        if let (Some(place), Some(list)) = (own.get_mut(file as usize), shared.get_mut(file as usize)) {
            (*place, *list) = (bytes, blocks);
        }
    }

    /// Whether any entry may have a second flag word.
    pub(crate) fn may_be_extended(&self) -> bool {
        self.extended
    }

    /// To be told when one is read.
    pub(crate) fn set_extended(&mut self) {
        self.extended = true;
    }

    /// The length of the file that was read.
    pub(crate) fn own_len(&self) -> usize {
        self.records.files[0].len()
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
            self.extended = true;
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

    /// The entry of this slot, and the slot behind it with the place of its record, if it is a record of version 2 or 3
    /// and the first of its block or the one that `ahead` tells of.
    #[inline]
    pub(crate) fn in_passing(&self, slot: Slot, ahead: Option<(Slot, usize)>) -> Option<(Entry<'a>, (Slot, usize))> {
        let (file, start) = match ahead {
            _ if slot.place() == 0 => self.records.block_start(slot)?,
            Some((expected, start)) if expected == slot => (*self.records.files.get(slot.file())?, start),
            _ => return None,
        };
        let rest = file.get(start..)?;
        let at = whole_head_len(rest, self.kind);
        let (head, behind) = rest.split_at_checked(at)?;
        let len = path_len(rest, at, self.kind)?;
        let entry = Entry::new(head, behind.get(..len)?, self.kind);
        Some((entry, (Slot(slot.0 + 1), start + record_len(at, len))))
    }

    #[inline]
    pub(crate) fn path(&self, slot: Slot) -> &'a [u8] {
        self.entry(slot).path()
    }

    /// Shows the entries at these positions in order, with what can be copied of them as it lies. Blocks that nobody asked
    /// for are read on the way and not kept: a whole index goes by without a byte being allocated.
    pub(crate) fn each<E>(
        &self,
        slots: &Slots,
        range: Range<usize>,
        mut show: impl FnMut(Seen<'_, 'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut at, end) = (range.start, range.end.min(slots.len()));
        // The path before, and the block that it is the last of.
        let (mut path, mut last) = (path_v4::Path::default(), None);
        while let Some(slot) = slots.get(at).filter(|_| at < end) {
            match self.records.unseen(slot).filter(|(_, block)| slots.holds_block(at..end, slot, block.count)) {
                Some((file, block)) => {
                    let follows = slot.0.checked_sub(BLOCK_ENTRIES as u64) == last;
                    let passing = Passing { file, block, kind: self.kind, at };
                    match block.first {
                        None => passing.records(&mut show)?,
                        Some(first) => passing.packed(first, follows, &mut path, &mut show)?,
                    }
                    last = Some(slot.0);
                    at += block.count;
                }
                None => {
                    show(Seen { at, entry: self.entry(slot), lies: None })?;
                    last = None;
                    at += 1;
                }
            }
        }
        Ok(())
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

/// An entry that goes by.
pub(crate) struct Seen<'s, 'a> {
    /// Its position.
    pub(crate) at: usize,
    pub(crate) entry: Entry<'s>,
    pub(crate) lies: Option<Lies<'a>>,
}

/// Where an entry lies exactly as it would be written: by version 2 or 3, or by version 4 behind the entry that went by
/// before.
#[derive(Clone)]
pub(crate) struct Lies<'a> {
    pub(crate) file: &'a [u8],
    pub(crate) range: Range<usize>,
    pub(crate) packed: bool,
}

/// A block that goes by. All that is looked at was checked when the file was read.
struct Passing<'b, 'a> {
    file: &'a [u8],
    block: &'b Block<'a>,
    kind: HashKind,
    /// Position of its first entry.
    at: usize,
}

impl<'a> Passing<'_, 'a> {
    fn records<E>(&self, show: &mut impl FnMut(Seen<'_, 'a>) -> Result<(), E>) -> Result<(), E> {
        let base = head_len(self.kind);
        let mut start = self.block.at;
        touch(self.file, start, BLOCK_TOUCH);
        for place in 0..self.block.count {
            let rest = self.file.get(start..).unwrap_or_default();
            let at = whole_head_len(rest, self.kind);
            let (head, behind) = rest.split_at_checked(at).unwrap_or_default();
            let len = path_len(rest, at, self.kind).unwrap_or(0);
            let (path, behind) = behind.split_at_checked(len).unwrap_or_default();
            let size = record_len(at, len);
            let zero = behind.get(..size - at - len).is_some_and(|padding| padding.iter().all(|&byte| byte == 0));
            let mut plain = at == base || be16(rest, base) != 0;
            plain &= be16(rest, base - 2) & NAME_MASK != NAME_MASK || len >= usize::from(NAME_MASK);
            let lies = Lies { file: self.file, range: start..start + size, packed: false };
            let entry = Entry::new(head, path, self.kind);
            show(Seen { at: self.at + place, entry, lies: Some(lies).filter(|_| zero && plain) })?;
            start += size;
        }
        Ok(())
    }

    /// `follows`: `path` is that of the entry in front of the block.
    fn packed<E>(
        &self,
        first: &[u8],
        follows: bool,
        path: &mut path_v4::Path,
        show: &mut impl FnMut(Seen<'_, 'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let base = head_len(self.kind);
        let mut start = self.block.at;
        touch(self.file, start, BLOCK_TOUCH);
        for place in 0..self.block.count {
            let rest = self.file.get(start..).unwrap_or_default();
            let at = whole_head_len(rest, self.kind);
            let (head, field) = rest.split_at_checked(at).unwrap_or_default();
            let (strip, number) = path_v4::decode(field).unwrap_or((0, 0));
            let suffix = field.get(number..).unwrap_or_default();
            let len = path_v4::suffix_len(suffix).unwrap_or(0);
            let mut minimal = at == base || be16(rest, base) != 0;
            if place > 0 || follows {
                let keep = path.len().saturating_sub(usize::try_from(strip).unwrap_or(usize::MAX));
                // Nothing is taken away that is put back: else a writer would have kept it.
                minimal &= len == 0 || path.bytes().get(keep) != suffix.first();
                path.replace_end(keep, suffix, len);
            } else {
                minimal = false;
                path.replace_end(0, first, first.len());
            }
            let end = start + at + number + len + 1;
            let lies = Lies { file: self.file, range: start..end, packed: true };
            let entry = Entry::new(head, path.bytes(), self.kind);
            show(Seen { at: self.at + place, entry, lies: Some(lies).filter(|_| minimal) })?;
            start = end;
        }
        Ok(())
    }
}

/// About the length of a block.
const BLOCK_TOUCH: usize = 8 * 1024;

/// How many bytes of a whole file are touched at once before they are read: as much as the fastest cache holds.
pub(crate) const AHEAD: usize = 32 * 1024;

/// Has a stretch of a file brought into the cache. Where an entry begins is known only when the one before was looked at,
/// so that reading waits for memory each time; lines that are asked for together come together.
pub(crate) fn touch(bytes: &[u8], at: usize, len: usize) {
    const LINE: usize = 64;
    let ahead = bytes.get(at..).unwrap_or_default();
    let lines = ahead.get(..len).unwrap_or(ahead).as_chunks::<LINE>().0;
    std::hint::black_box(lines.iter().fold(0, |all, line| all ^ line[0]));
}

impl<'a> Records<'a> {
    /// `arena` may be left out once all blocks are expanded.
    #[inline]
    pub(crate) fn entry(&self, slot: Slot, kind: HashKind, arena: Option<&'a Bump>) -> Entry<'a> {
        let found = if slot.tag() == ARENA { self.edited(slot, kind) } else { self.packed(slot, kind, arena) };
        // Every slot was made from an entry that is there.
        found.unwrap_or(Entry::new(&[], &[], kind))
    }

    fn edited(&self, slot: Slot, kind: HashKind) -> Option<Entry<'a>> {
        let (_, record) = self.records.get(slot.rest())?.split_last()?;
        let (head, path) = record.split_at_checked(whole_head_len(record, kind))?;
        Some(Entry::new(head, path, kind))
    }

    #[inline]
    fn packed(&self, slot: Slot, kind: HashKind, arena: Option<&'a Bump>) -> Option<Entry<'a>> {
        let (file, block, whole) = self.block(slot, kind, arena)?;
        let &(head, end) = whole.places.get(slot.place())?;
        let rest = file.get(block.at + head as usize..)?;
        let (head, behind) = rest.split_at_checked(whole_head_len(rest, kind))?;
        let path = match whole.paths {
            None => behind.get(..end as usize)?,
            Some(paths) => {
                let start = match slot.place().checked_sub(1) {
                    Some(before) => whole.places.get(before)?.1,
                    None => 0,
                };
                paths.get(start as usize..end as usize)?
            }
        };
        Some(Entry::new(head, path, kind))
    }

    /// The file of a slot that is the first of a block of version 2 or 3, and where that begins. Brings it into the cache.
    #[inline(never)]
    fn block_start(&self, slot: Slot) -> Option<(&'a [u8], usize)> {
        let block = self.blocks.get(slot.file())?.get(slot.block_number()?)?;
        if block.first.is_some() {
            return None;
        }
        let file = *self.files.get(slot.file())?;
        touch(file, block.at, BLOCK_TOUCH);
        Some((file, block.at))
    }

    /// The block that a slot is in, and its file, if it was not taken apart.
    fn unseen(&self, slot: Slot) -> Option<(&'a [u8], &Block<'a>)> {
        let block = self.blocks.get(slot.file())?.get(slot.block_number()?)?;
        block.whole.get().is_none().then_some((*self.files.get(slot.file())?, block))
    }

    #[inline]
    fn block(&self, slot: Slot, kind: HashKind, arena: Option<&'a Bump>) -> Option<(&'a [u8], &Block<'a>, &Whole<'a>)> {
        let which = slot.file();
        let file = *self.files.get(which)?;
        let block = self.blocks.get(which)?.get(slot.block_number()?)?;
        let whole = match arena {
            Some(arena) => block.whole.get_or_init(|| block.expand(file, kind, arena)),
            None => block.whole.get()?,
        };
        Some((file, block, whole))
    }
}

impl<'a> Block<'a> {
    #[inline(never)]
    fn expand(&self, file: &'a [u8], kind: HashKind, arena: &'a Bump) -> Whole<'a> {
        match self.first {
            None => self.expand_records(file, kind, arena),
            Some(first) => self.expand_packed(first, file, kind, arena),
        }
    }

    // All that is looked at here was checked when the file was read.

    fn expand_records(&self, file: &'a [u8], kind: HashKind, arena: &'a Bump) -> Whole<'a> {
        let mut places = [(0u32, 0u32); BLOCK_ENTRIES];
        let mut at = self.at;
        for place in places.iter_mut().take(self.count) {
            let rest = file.get(at..).unwrap_or_default();
            let head = whole_head_len(rest, kind);
            let len = path_len(rest, head, kind).unwrap_or(0);
            *place = ((at - self.at) as u32, len as u32);
            at += record_len(head, len);
        }
        Whole { places: arena.alloc_slice_copy(places.get(..self.count).unwrap_or_default()), paths: None }
    }

    fn expand_packed(&self, first: &'a [u8], file: &'a [u8], kind: HashKind, arena: &'a Bump) -> Whole<'a> {
        let mut places = [(0u32, 0u32); BLOCK_ENTRIES];
        let mut paths: Vec<u8> = Vec::with_capacity(self.count * (first.len() + 8));
        touch(file, self.at, BLOCK_TOUCH);
        let (mut at, mut start, mut end) = (self.at, 0, 0usize);
        for (n, place) in places.iter_mut().take(self.count).enumerate() {
            let rest = file.get(at..).unwrap_or_default();
            let head = whole_head_len(rest, kind);
            let field = rest.get(head..).unwrap_or_default();
            let (strip, number) = path_v4::decode(field).unwrap_or((0, 0));
            let suffix = field.get(number..).unwrap_or_default();
            let whole = be16(rest, head_len(kind) - 2) & NAME_MASK;
            let keep = (end - start).saturating_sub(usize::try_from(strip).unwrap_or(usize::MAX));
            // As a rule the length says where the path ends, which is faster than looking for the NUL.
            let len = match usize::from(whole).checked_sub(keep) {
                Some(len) if n > 0 && whole != NAME_MASK => len,
                _ => path_v4::suffix_len(suffix).unwrap_or(0),
            };
            if n == 0 {
                paths.extend_from_slice(first);
            } else {
                paths.extend_from_within(start..start + keep);
                paths.extend_from_slice(suffix.get(..len).unwrap_or_default());
            }
            (start, end) = (end, paths.len());
            *place = ((at - self.at) as u32, end as u32);
            at += head + number + len + 1;
        }
        let places = places.get(..self.count).unwrap_or_default();
        Whole {
            places: arena.alloc_slice_copy(places),
            paths: Some(arena.alloc_slice_copy(paths.get(..end).unwrap_or_default())),
        }
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
        assert_ne!(Slot::packed(Which::Own, 5, 5), Slot::packed(Which::Shared, 5, 5));
        assert_ne!(Slot::packed(Which::Own, 5, 5), Slot::packed(Which::Own, 6, 5));
        let mut slots = Slots::AsRead(130);
        let before: Vec<Slot> = slots.iter(0..200).collect();
        assert_eq!(before.len(), 130);
        assert_eq!(slots.get(129), Some(Slot::packed(Which::Own, 2, 1)));
        assert_eq!(slots.get(130), None);
        assert_eq!(*slots.list(), before);
        let mut asked = before.iter().take(77);
        assert_eq!(slots.partition_point(0..130, |slot| asked.clone().any(|&one| one == slot)), 77);
        assert!(asked.next().is_some());
    }
}
