//! Finding the entries in a file's bytes, and settling every bound that is relied on later.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::OnceLock;

use object::HashKind;

use crate::entry::MODE_AT;
use crate::entry::{EXTENDED, INTENT_TO_ADD, NAME_MASK, SKIP_WORKTREE, STAGE_SHIFT, Stage, be16, be32, head_len};
use crate::error::{ReadError, ReadErrorKind};
use crate::ext::{self, Extensions, eoie, ieot};
use crate::header::{Header, Version};
use crate::path_v4;
use crate::read::ReadOptions;
use crate::store::{BLOCK_ENTRIES, BLOCK_PATHS, Block, Slot, Store, Which};

/// How far ahead of an entry its file is touched. The next entry's place follows from this one's length, so that the
/// processor cannot run ahead by itself.
const AHEAD: usize = 1024;

/// Entries below which another thread costs more than it saves.
const WORTH_A_THREAD: usize = 10_000;

/// A file, as those need it who read its entries.
#[derive(Clone, Copy)]
pub(crate) struct Area<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where the trailer begins.
    pub(crate) end: usize,
    pub(crate) kind: HashKind,
    pub(crate) version: Version,
    pub(crate) file: Which,
}

/// The entries of a file.
pub(crate) struct Found {
    slots: Vec<Slot>,
    blocks: Vec<RawBlock>,
    /// The whole first paths of blocks, one behind the other.
    names: Vec<u8>,
    /// Where the entries end.
    pub(crate) end: usize,
    misplaced: Option<ReadError>,
    /// Entries that were not compared with the one before, and their offsets.
    seams: Vec<(usize, usize)>,
}

/// A block whose first path is not in the arena yet.
struct RawBlock {
    at: usize,
    count: usize,
    first: Range<usize>,
}

impl Found {
    pub(crate) fn read(
        area: &Area<'_>,
        count: u32,
        options: &ReadOptions<'_>,
        threads: usize,
    ) -> Result<Self, ReadError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let threads = threads.min(count / WORTH_A_THREAD);
        if threads > 1
            && let Some((starts, stop)) = cut(area, count, options, threads)
            && let Some(found) = read_parts(area, count, &starts, stop, options)
        {
            return Ok(found);
        }
        let mut part = Part::new(area, count, area.end, options);
        let end = part.read(area, Header::LEN, usize::MAX, count)?;
        Ok(Found {
            slots: part.slots,
            blocks: part.blocks,
            names: part.names,
            end,
            misplaced: part.misplaced.map(|(_, error)| error),
            seams: Vec::new(),
        })
    }

    /// Makes the entries known to the store. The error is the first entry that is out of order or without a path, which in
    /// a split index can be right.
    pub(crate) fn settle<'a>(
        self,
        store: &mut Store<'a>,
        area: &Area<'a>,
        options: &ReadOptions<'_>,
    ) -> (Vec<Slot>, Option<ReadError>) {
        let names: &'a [u8] = store.arena.alloc_slice_copy(&self.names);
        let whole = |raw: RawBlock| Block {
            at: raw.at,
            count: raw.count,
            first: names.get(raw.first).unwrap_or_default(),
            whole: OnceLock::new(),
        };
        store.set_file(area.file, area.bytes, self.blocks.into_iter().map(whole).collect());
        let mut misplaced = self.misplaced;
        for (at, offset) in self.seams.into_iter().filter(|_| options.check_order) {
            let (Some(&before), Some(&behind)) = (self.slots.get(at.wrapping_sub(1)), self.slots.get(at)) else {
                continue;
            };
            let (before, behind) = (store.entry(before), store.entry(behind));
            if before.cmp_key(behind.path(), behind.stage()).is_ge() {
                let kind = ReadErrorKind::Order { path: behind.path().into(), stage: behind.stage() };
                let error = ReadError::new(offset, kind);
                misplaced = misplaced.filter(|other| other.at < error.at).or(Some(error));
            }
        }
        (self.slots, misplaced)
    }
}

/// Consecutive entries being read.
struct Part<'a> {
    slots: Vec<Slot>,
    previous: (&'a [u8], Stage),
    blocks: Vec<RawBlock>,
    names: Vec<u8>,
    check_order: bool,
    /// The number of the first entry that is out of order or without a path, and what is to be said about it.
    misplaced: Option<(usize, ReadError)>,
    path_limit: u64,
    expanded: u64,
    /// Keeps the touches of [`AHEAD`] from being optimised away.
    touched: u8,
}

impl<'a> Part<'a> {
    /// Makes room for as many entries as are claimed, or as fit into so many bytes if they are fewer.
    fn new(area: &Area<'_>, count: usize, bytes: usize, options: &ReadOptions<'_>) -> Self {
        let length = area.bytes.len() as u64;
        Part {
            slots: Vec::with_capacity(count.min(bytes / (head_len(area.kind) + 2))),
            previous: (&[], Stage::Merged),
            blocks: Vec::new(),
            names: Vec::new(),
            check_order: options.check_order,
            misplaced: None,
            path_limit: options.path_limit.unwrap_or(length.saturating_mul(64).saturating_add(1 << 20)),
            expanded: 0,
            touched: 0,
        }
    }

    /// Reads from `at` on until `stop` is reached or there are `count` entries. Gives the end of the last.
    fn read(&mut self, area: &Area<'a>, at: usize, stop: usize, count: usize) -> Result<usize, ReadError> {
        let end = match area.version {
            Version::V4 => self.read_v4(area, at, stop, count),
            _ => self.read_records(area, at, stop, count),
        };
        std::hint::black_box(self.touched);
        end
    }

    #[cold]
    #[inline(never)]
    fn misplace(&mut self, path: &[u8], stage: Stage, at: usize) {
        let kind = match path.is_empty() {
            true => ReadErrorKind::EmptyPath,
            false => ReadErrorKind::Order { path: path.into(), stage },
        };
        self.misplaced.get_or_insert_with(|| (self.slots.len(), ReadError::new(at, kind)));
    }

    /// Versions 2 and 3: entries stay where they lie.
    fn read_records(&mut self, area: &Area<'a>, mut at: usize, stop: usize, count: usize) -> Result<usize, ReadError> {
        let base = head_len(area.kind);
        let bytes = area.bytes.get(..area.end).unwrap_or_default();
        while self.slots.len() < count && at < stop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(&[high, low]) = rest.get(base - 2..).and_then(|flags| flags.first_chunk()) else {
                return Err(truncated("index entry", at, base, rest.len()));
            };
            let word = u16::from_be_bytes([high, low]);
            self.touched ^= rest.get(AHEAD).copied().unwrap_or(0) ^ rest.get(AHEAD + 64).copied().unwrap_or(0);
            let mut head = base;
            let mut len = usize::from(word & NAME_MASK);
            if word & EXTENDED != 0 {
                check_extended(rest, base, at)?;
                head += 2;
            }
            if len == usize::from(NAME_MASK) {
                len = long_path(rest.get(head..).unwrap_or_default(), at + head)?;
            }
            let size = (head + len + 8) & !7;
            let Some(record) = rest.get(..size) else { return Err(truncated("index entry", at, size, rest.len())) };
            let Some((path, &[0, ..])) = record.get(head..).and_then(|path| path.split_at_checked(len)) else {
                return Err(ReadError::new(at + head, ReadErrorKind::Unterminated { len: len as u64 }));
            };
            let stage = Stage::from_bits((word >> STAGE_SHIFT) as u8);
            if self.check_order {
                let (previous, before) = self.previous;
                match previous.cmp(path) {
                    Ordering::Less => {}
                    Ordering::Equal if before < stage && len != 0 => {}
                    _ => self.misplace(path, stage, at),
                }
                self.previous = (path, stage);
            } else if len == 0 {
                self.misplace(path, stage, at);
            }
            self.slots.push(Slot::record(area.file, at));
            at += size;
        }
        Ok(at)
    }

    /// Version 4: paths are followed, and only the first of each block is kept.
    fn read_v4(&mut self, area: &Area<'a>, mut at: usize, stop: usize, count: usize) -> Result<usize, ReadError> {
        let base = head_len(area.kind);
        let bytes = area.bytes.get(..area.end).unwrap_or_default();
        let mut path: Vec<u8> = Vec::new();
        let mut before = Stage::Merged;
        let (mut place, mut block_paths) = (BLOCK_ENTRIES, 0u64);
        while self.slots.len() < count && at < stop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(&[high, low]) = rest.get(base - 2..).and_then(|flags| flags.first_chunk()) else {
                return Err(truncated("index entry", at, base, rest.len()));
            };
            let word = u16::from_be_bytes([high, low]);
            self.touched ^= rest.get(AHEAD).copied().unwrap_or(0);
            let mut head = base;
            if word & EXTENDED != 0 {
                check_extended(rest, base, at)?;
                head += 2;
            }
            let field = rest.get(head..).unwrap_or_default();
            let strip = path_v4::decode(field);
            let (strip, number) = strip.unwrap_or((u64::MAX, 1));
            // What the first entry removes is removed from nothing; where reading begins in the middle it is not known.
            let first = self.slots.is_empty() && strip != u64::MAX;
            let Some(keep) = (path.len() as u64).checked_sub(strip).or(first.then_some(0)) else {
                let kind = ReadErrorKind::Strip { strip, previous: path.len() as u64 };
                return Err(ReadError::new(at + head, kind));
            };
            let keep = keep as usize; // no more than a length
            let suffix = field.get(number..).unwrap_or_default();
            let Some(len) = path_v4::suffix_len(suffix) else {
                return Err(ReadError::new(at + head, ReadErrorKind::Unterminated { len: suffix.len() as u64 }));
            };
            let suffix = suffix.get(..len).unwrap_or_default();
            let whole = keep + len;
            let stated = usize::from(word & NAME_MASK);
            if stated != whole.min(usize::from(NAME_MASK)) {
                return Err(ReadError::new(at + head, ReadErrorKind::Unterminated { len: stated as u64 }));
            }
            self.expanded += whole as u64;
            if self.expanded > self.path_limit || whole as u64 > BLOCK_PATHS {
                return Err(ReadError::new(at, ReadErrorKind::PathLimit { limit: self.path_limit.min(BLOCK_PATHS) }));
            }

            let stage = Stage::from_bits((word >> STAGE_SHIFT) as u8);
            // The same bytes are kept in front of both.
            let order = path.get(keep..).unwrap_or_default().cmp(suffix);
            path.truncate(keep);
            path.extend_from_slice(suffix);
            let in_order = order.is_lt() || order.is_eq() && before < stage;
            if whole == 0 || self.check_order && !in_order {
                self.misplace(&path, stage, at);
            }
            before = stage;

            block_paths += whole as u64;
            if place == BLOCK_ENTRIES || block_paths > BLOCK_PATHS {
                let start = self.names.len();
                self.names.extend_from_slice(&path);
                self.blocks.push(RawBlock { at, count: 0, first: start..start + whole });
                (place, block_paths) = (0, whole as u64);
            }
            self.slots.push(Slot::packed(area.file, self.blocks.len() - 1, place));
            place += 1;
            if let Some(block) = self.blocks.last_mut() {
                block.count = place;
            }
            at += head + number + len + 1;
        }
        Ok(at)
    }
}

/// Where this record of a version 2 or 3 file ends.
fn end_of(area: &Area<'_>, slot: Slot) -> Option<usize> {
    let at = slot.record_at()?;
    let rest = area.bytes.get(at..area.end)?;
    let (base, word) = (head_len(area.kind), be16(rest, head_len(area.kind) - 2));
    let head = if word & EXTENDED != 0 { base + 2 } else { base };
    let len = match word & NAME_MASK {
        NAME_MASK => memchr::memchr(0, rest.get(head..)?)?,
        len => usize::from(len),
    };
    Some(at + ((head + len + 8) & !7))
}

#[cold]
pub(crate) fn truncated(what: &'static str, at: usize, need: usize, have: usize) -> ReadError {
    ReadError::new(at, ReadErrorKind::Truncated { what, need: need as u64, have: have as u64 })
}

#[inline(never)]
pub(crate) fn check_extended(rest: &[u8], base: usize, at: usize) -> Result<(), ReadError> {
    let found = be16(rest, base);
    if found & !(SKIP_WORKTREE | INTENT_TO_ADD) != 0 {
        return Err(ReadError::new(at + base, ReadErrorKind::EntryFlags { found }));
    }
    Ok(())
}

/// The length of a path that is too long for the flags to say it.
#[inline(never)]
pub(crate) fn long_path(rest: &[u8], at: usize) -> Result<usize, ReadError> {
    match memchr::memchr(0, rest) {
        Some(len) => Ok(len),
        None => Err(ReadError::new(at, ReadErrorKind::Unterminated { len: rest.len() as u64 })),
    }
}

/// Where threads begin, the first at the first entry, and where the last ends if that is known.
fn cut(area: &Area<'_>, count: usize, options: &ReadOptions<'_>, threads: usize) -> Option<(Vec<usize>, usize)> {
    if let Some((table, end)) = offset_table(area, count, options) {
        let share = count.div_ceil(threads);
        let (mut starts, mut sum) = (Vec::with_capacity(threads), 0);
        for block in &table {
            if sum >= share * starts.len() {
                starts.push(block.at);
            }
            sum += block.entries as usize;
        }
        return Some((starts, end)).filter(|(starts, _)| starts.len() > 1);
    }
    if area.version == Version::V4 {
        return None;
    }
    // The entries' end is not known without reading them, but is hardly far from the file's.
    let length = area.end - Header::LEN;
    let inner = (1..threads).filter_map(|n| likely_start(area, Header::LEN + length / threads * n));
    let starts: Vec<usize> = std::iter::once(Header::LEN).chain(inner).collect();
    let ascending = starts.windows(2).all(|pair| pair[0] < pair[1]);
    (ascending && starts.len() > 1).then_some((starts, usize::MAX))
}

/// The blocks of extension `IEOT` and the end of the entries, if that and `EOIE` are sound.
fn offset_table(area: &Area<'_>, count: usize, options: &ReadOptions<'_>) -> Option<(Vec<ieot::Block>, usize)> {
    let end = eoie::locate(area.bytes, area.kind)?;
    let mut items = Extensions::new(area.bytes, end, area.end).map_while(Result::ok);
    let item = items.find(|item| item.signature == ext::IEOT)?;
    let table = ieot::parse(item.data, Header::LEN..end, count);
    if table.is_none() {
        options.observer.hint_ignored("offset table", item.at as u64);
    }
    Some((table?, end))
}

/// A place near `near` where an entry of version 2 or 3 seems to begin, and a few more behind it. A guess: nothing is
/// taken from it before the entries in front are known to end there.
fn likely_start(area: &Area<'_>, near: usize) -> Option<usize> {
    const TRIES: usize = 8192;
    const CHAIN: usize = 6;
    let base = head_len(area.kind);
    let bytes = area.bytes.get(..area.end)?;
    let next = |at: usize| {
        let rest = bytes.get(at..)?;
        let word = be16(rest.get(..base)?, base - 2);
        let head = if word & EXTENDED != 0 { base + 2 } else { base };
        let len = usize::from(word & NAME_MASK);
        let mode = matches!(be32(rest, MODE_AT), 0o100_644 | 0o100_755 | 0o120_000 | 0o160_000 | 0o040_000);
        let size = (head + len + 8) & !7;
        let record = rest.get(..size)?;
        let (path, padding) = record.get(head..)?.split_at_checked(len)?;
        let sound = mode && len > 0 && len < usize::from(NAME_MASK) && padding.iter().all(|&byte| byte == 0);
        (sound && !path.contains(&0)).then_some(at + size)
    };
    let first = (near - Header::LEN) / 8 * 8 + Header::LEN;
    (0..TRIES).map(|n| first + n * 8).find(|&at| (0..CHAIN).try_fold(at, |at, _| next(at)).is_some())
}

/// Reads each part on a thread of its own. `None` if they do not fit together: then what said where they begin was
/// wrong, and only reading from the start can tell what is there.
fn read_parts(
    area: &Area<'_>,
    count: usize,
    starts: &[usize],
    stop: usize,
    options: &ReadOptions<'_>,
) -> Option<Found> {
    let stops: Vec<usize> = starts.iter().skip(1).copied().chain([stop]).collect();
    let run = |at: usize, stop: usize, room: usize| {
        let mut part = Part::new(area, count, room, options);
        let end = part.read(area, at, stop, count);
        (part, end)
    };
    let read = std::thread::scope(|scope| {
        let others = starts.iter().zip(&stops).skip(1);
        let others: Vec<_> = others
            .map(|(&at, &stop)| scope.spawn(move || run(at, stop, stop.min(area.end).saturating_sub(at))))
            .collect();
        let first = starts.first().zip(stops.first()).map(|(&at, &stop)| run(at, stop, area.end));
        let others =
            others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        first.into_iter().chain(others).collect::<Vec<_>>()
    });
    let mut read = read.into_iter();
    let (mut whole, end) = read.next()?;
    let mut end = end.ok()?;
    let mut seams = Vec::new();
    for ((part, part_end), &start) in read.zip(starts.iter().skip(1)) {
        if start != end {
            if stop != usize::MAX {
                options.observer.hint_ignored("offset table", start as u64);
            }
            return None;
        }
        let (entries, blocks, names) = (whole.slots.len(), whole.blocks.len(), whole.names.len());
        seams.push((entries, start));
        if whole.misplaced.is_none() {
            whole.misplaced = part.misplaced.map(|(at, error)| (entries + at, error));
        }
        match blocks {
            0 => whole.slots.extend_from_slice(&part.slots),
            _ => whole.slots.extend(part.slots.iter().map(|slot| slot.behind_blocks(blocks))),
        }
        let moved = |raw: RawBlock| RawBlock { first: raw.first.start + names..raw.first.end + names, ..raw };
        whole.blocks.extend(part.blocks.into_iter().map(moved));
        whole.names.extend_from_slice(&part.names);
        whole.expanded += part.expanded;
        end = part_end.unwrap_or(usize::MAX);
    }
    // A last part whose end is not known has read on into what follows, and failed there or not.
    if whole.slots.len() > count || end == usize::MAX {
        end = end_of(area, *whole.slots.get(count.checked_sub(1)?)?)?;
    }
    whole.slots.truncate(count);
    let complete =
        whole.slots.len() == count && whole.expanded <= whole.path_limit && (stop == usize::MAX || end == stop);
    let misplaced = whole.misplaced.filter(|&(at, _)| at < count).map(|(_, error)| error);
    complete.then_some(Found { slots: whole.slots, blocks: whole.blocks, names: whole.names, end, misplaced, seams })
}
