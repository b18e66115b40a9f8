//! Finding the entries in a file's bytes, and settling every bound that is relied on later.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::OnceLock;

use object::HashKind;

use crate::anchor;
use crate::entry::{EXTENDED, INTENT_TO_ADD, NAME_MASK, SKIP_WORKTREE, STAGE_SHIFT, Stage};
use crate::entry::{be16, head_len, path_len, record_len, whole_head_len};
use crate::error::{ReadError, ReadErrorKind};
use crate::ext::{self, Extensions, eoie, ieot};
use crate::header::{Header, Version};
use crate::path_v4;
use crate::read::ReadOptions;
use crate::store::{AHEAD, BLOCK_ENTRIES, BLOCK_PATHS, Block, Slot, Slots, Store, Which, touch};

/// Versions 2 and 3: how many parts of the file one thread reads in turn. Where an entry begins is only known when the one
/// before was looked at, so that reading one after the other waits for memory each time.
const IN_TURN: usize = 4;

/// Most bytes of a path in version 2 and 3: the places in a block have 32 bits (`store`).
const RECORD_PATH: u64 = BLOCK_PATHS / BLOCK_ENTRIES as u64;

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
    pub(crate) blocks: Vec<RawBlock>,
    /// The whole first paths of blocks, one behind the other; none for versions 2 and 3.
    pub(crate) names: Vec<u8>,
    /// Where the entries end.
    pub(crate) end: usize,
    /// The first entry that is out of order or without a path.
    misplaced: Option<ReadError>,
    /// Whether any has a second flag word.
    extended: bool,
    /// Blocks whose first entry was not compared with the one before.
    seams: Vec<usize>,
}

/// A block whose first path is not in the arena yet.
pub(crate) struct RawBlock {
    pub(crate) at: usize,
    pub(crate) count: usize,
    /// Version 4: the path of the first entry, in [`Found::names`].
    pub(crate) first: Option<Range<usize>>,
}

impl Found {
    pub(crate) fn read(
        area: &Area<'_>,
        count: u32,
        options: &ReadOptions<'_>,
        threads: usize,
    ) -> Result<Self, ReadError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let threads = threads.min(count / WORTH_A_THREAD).max(1);
        let parts = if area.version == Version::V4 { threads } else { threads * IN_TURN };
        if threads > 1
            && let Some((starts, stop)) = cut_by_table(area, count, options, parts)
        {
            let found = match area.version {
                Version::V4 => packed_on_threads(area, count, &starts, stop, options),
                _ => records_in_parts(area, Header::LEN, count, Some((starts, stop)), options, threads),
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Self::read_from(area, Header::LEN, count, options, threads)
    }

    /// Reads the `count` entries that begin at `start`, where one begins. The table is not asked; version 4 is read on one
    /// thread.
    pub(crate) fn read_from(
        area: &Area<'_>,
        start: usize,
        count: usize,
        options: &ReadOptions<'_>,
        threads: usize,
    ) -> Result<Self, ReadError> {
        if area.version == Version::V4 {
            let mut part = Packed::new(area, options);
            part.read(area, start, usize::MAX, count)?;
            return Ok(part.found());
        }
        if count >= WORTH_A_THREAD
            && let Some(found) = records_in_parts(area, start, count, None, options, threads)
        {
            return Ok(found);
        }
        let mut part = Records::new(start, usize::MAX, count, area, options);
        part.read_all(area, count)?;
        Ok(Records::found(vec![part], count, area, options))
    }

    /// Makes the entries known to the store. The error is the first entry that is out of order or without a path, which in
    /// a split index can be right.
    pub(crate) fn settle<'a>(
        self,
        store: &mut Store<'a>,
        area: &Area<'a>,
        options: &ReadOptions<'_>,
    ) -> (Slots, Option<ReadError>) {
        if self.extended {
            store.set_extended();
        }
        let names: &'a [u8] = store.arena.alloc_slice_copy(&self.names);
        let count: usize = self.blocks.iter().map(|block| block.count).sum();
        let (last, before) = self.blocks.split_last().map_or((0, &[][..]), |(last, before)| (last.count, before));
        let regular = before.iter().all(|block| block.count == BLOCK_ENTRIES) && last <= BLOCK_ENTRIES;
        let mut seams = Vec::new();
        for number in self.seams.into_iter().filter(|_| options.check_order) {
            if let Some(before) = number.checked_sub(1).and_then(|number| self.blocks.get(number)) {
                let behind = Slot::packed(area.file, number, 0);
                seams.push((Slot::packed(area.file, number - 1, before.count.saturating_sub(1)), behind, number));
            }
        }
        let slots = match area.file {
            Which::Own if regular => Slots::AsRead(count),
            file => {
                let slots_of = |(number, block): (usize, &RawBlock)| {
                    (0..block.count).map(move |place| Slot::packed(file, number, place))
                };
                Slots::List(self.blocks.iter().enumerate().flat_map(slots_of).collect())
            }
        };
        let offsets: Vec<usize> = seams.iter().filter_map(|seam| Some(self.blocks.get(seam.2)?.at)).collect();
        let whole = |raw: RawBlock| Block {
            at: raw.at,
            count: raw.count,
            first: raw.first.map(|first| names.get(first).unwrap_or_default()),
            whole: OnceLock::new(),
        };
        store.set_file(area.file, area.bytes, self.blocks.into_iter().map(whole).collect());
        let mut misplaced = self.misplaced;
        for ((before, behind, _), offset) in seams.into_iter().zip(offsets) {
            let (before, behind) = (store.entry(before), store.entry(behind));
            if before.cmp_key(behind.path(), behind.stage()).is_ge() {
                let kind = ReadErrorKind::Order { path: behind.path().into(), stage: behind.stage() };
                let error = ReadError::new(offset, kind);
                misplaced = misplaced.filter(|other| other.at < error.at).or(Some(error));
            }
        }
        (slots, misplaced)
    }
}

#[cold]
#[inline(never)]
fn misplaced(path: &[u8], stage: Stage, at: usize) -> ReadError {
    let kind = match path.is_empty() {
        true => ReadErrorKind::EmptyPath,
        false => ReadErrorKind::Order { path: path.into(), stage },
    };
    ReadError::new(at, kind)
}

/// Consecutive entries of version 2 or 3 being read. They stay where they lie.
struct Records<'a> {
    start: usize,
    at: usize,
    /// Where it has to end.
    stop: usize,
    /// The length of each in eights; 0: it does not fit, and has to be found again.
    sizes: Vec<u8>,
    check_order: bool,
    /// Path and stage of the last entry.
    previous: &'a [u8],
    before: Stage,
    /// The number of the first entry that is out of order or without a path, and what is to be said about it.
    misplaced: Option<(usize, ReadError)>,
    extended: bool,
}

impl<'a> Records<'a> {
    fn new(start: usize, stop: usize, count: usize, area: &Area<'_>, options: &ReadOptions<'_>) -> Self {
        let fit = stop.min(area.end).saturating_sub(start) / (head_len(area.kind) + 2);
        Records {
            start,
            at: start,
            stop,
            sizes: Vec::with_capacity(count.min(fit)),
            check_order: options.check_order,
            previous: &[],
            before: Stage::Merged,
            misplaced: None,
            extended: false,
        }
    }

    /// Reads one entry, if it is as nearly all are: in order, a path of moderate length, no second flag word. `false`: nothing
    /// was read, and [`step`](Records::step) has to look.
    ///
    /// `bytes` ends where the trailer begins; `base` is the length of a head. This is where the time goes: few
    /// instructions let the processor see several entries at once.
    #[inline(always)]
    fn quick_step(&mut self, bytes: &'a [u8], base: usize) -> bool {
        let Some(rest) = bytes.get(self.at..) else { return false };
        let Some(&[high, low]) = rest.get(base - 2..).and_then(|flags| flags.first_chunk()) else { return false };
        let word = u16::from_be_bytes([high, low]);
        let len = usize::from(word & NAME_MASK);
        let size = record_len(base, len);
        if word & EXTENDED != 0 || len == usize::from(NAME_MASK) || size > rest.len() {
            return false;
        }
        let Some((&0, path)) = rest.get(base..=base + len).and_then(|path| path.split_last()) else { return false };
        if self.check_order && self.previous.cmp(path) != Ordering::Less || len == 0 {
            return false;
        }
        self.previous = path;
        self.before = Stage::from_bits((word >> STAGE_SHIFT) as u8);
        self.sizes.push(u8::try_from(size / 8).unwrap_or(0));
        self.at += size;
        true
    }

    /// Reads one entry.
    #[inline(never)]
    fn step(&mut self, area: &Area<'a>) -> Result<(), ReadError> {
        let base = head_len(area.kind);
        let at = self.at;
        let rest = area.bytes.get(at..area.end).unwrap_or_default();
        let Some(&[high, low]) = rest.get(base - 2..).and_then(|flags| flags.first_chunk()) else {
            return Err(truncated("index entry", at, base, rest.len()));
        };
        let word = u16::from_be_bytes([high, low]);
        let mut head = base;
        let mut len = usize::from(word & NAME_MASK);
        if word & EXTENDED != 0 {
            check_extended(rest, base, at)?;
            self.extended = true;
            head += 2;
        }
        if len == usize::from(NAME_MASK) {
            len = long_path(rest.get(head..).unwrap_or_default(), at + head)?;
        }
        if len as u64 > RECORD_PATH {
            return Err(ReadError::new(at, ReadErrorKind::PathLimit { limit: RECORD_PATH }));
        }
        let size = record_len(head, len);
        let Some(record) = rest.get(..size) else { return Err(truncated("index entry", at, size, rest.len())) };
        let Some((path, &[0, ..])) = record.get(head..).and_then(|path| path.split_at_checked(len)) else {
            return Err(ReadError::new(at + head, ReadErrorKind::Unterminated { len: len as u64 }));
        };
        let stage = Stage::from_bits((word >> STAGE_SHIFT) as u8);
        let wrong = match self.check_order {
            true => match self.previous.cmp(path) {
                Ordering::Less => false,
                Ordering::Equal => self.before >= stage || len == 0,
                Ordering::Greater => true,
            },
            false => len == 0,
        };
        if wrong && self.misplaced.is_none() {
            self.misplaced = Some((self.sizes.len(), misplaced(path, stage, at)));
        }
        (self.previous, self.before) = (path, stage);
        self.sizes.push(u8::try_from(size / 8).unwrap_or(0));
        self.at = at + size;
        Ok(())
    }

    fn is_running(&self, most: usize) -> bool {
        self.at < self.stop && self.sizes.len() < most
    }

    /// Reads until the part's end is reached or there are `most` entries.
    fn read_all(&mut self, area: &Area<'a>, most: usize) -> Result<(), ReadError> {
        let (bytes, base) = (area.bytes.get(..area.end).unwrap_or_default(), head_len(area.kind));
        while self.is_running(most) {
            if !self.quick_step(bytes, base) {
                self.step(area)?;
            }
        }
        Ok(())
    }

    /// Puts parts together that fit together and have `count` entries or more.
    fn found(parts: Vec<Records<'_>>, count: usize, area: &Area<'_>, options: &ReadOptions<'_>) -> Found {
        let mut blocks = Vec::with_capacity(count.div_ceil(BLOCK_ENTRIES));
        let extended = parts.iter().any(|part| part.extended);
        let mut wrong = None;
        let mut last: Option<(&[u8], Stage)> = None;
        let (mut number, mut at) = (0, parts.first().map_or(Header::LEN, |part| part.start));
        for part in parts {
            if number >= count {
                break; // read beyond the entries, where the end was not known
            }
            let first = record_key(area, part.start);
            if let (Some(last), true) = (last, options.check_order)
                && last >= first
            {
                wrong.get_or_insert_with(|| misplaced(first.0, first.1, part.start));
            }
            if let Some((_, error)) = part.misplaced.filter(|&(nth, _)| number + nth < count) {
                wrong.get_or_insert(error);
            }
            last = Some((part.previous, part.before));
            let mut sizes = part.sizes.get(..count - number).unwrap_or(&part.sizes);
            while !sizes.is_empty() {
                let place = number % BLOCK_ENTRIES;
                if place == 0 {
                    blocks.push(RawBlock { at, count: BLOCK_ENTRIES.min(count - number), first: None });
                }
                let (block, rest) = sizes.split_at_checked(BLOCK_ENTRIES - place).unwrap_or((sizes, &[]));
                at = match block.contains(&0) {
                    true => block.iter().fold(at, |at, _| end_of(area, at).unwrap_or(at)),
                    false => at + block.iter().map(|&size| usize::from(size)).sum::<usize>() * 8,
                };
                number += block.len();
                sizes = rest;
            }
        }
        Found { blocks, names: Vec::new(), end: at, misplaced: wrong, extended, seams: Vec::new() }
    }
}

/// Reads version 2 or 3 in parts, each on a thread. `None` if the parts do not fit together: then what said where
/// they begin was wrong, and only reading from the start can tell what is there.
fn records_in_parts(
    area: &Area<'_>,
    start: usize,
    count: usize,
    table: Option<(Vec<usize>, usize)>,
    options: &ReadOptions<'_>,
    threads: usize,
) -> Option<Found> {
    let wanted = threads * IN_TURN;
    let stop = table.as_ref().map(|(_, stop)| *stop);
    let starts = match table {
        Some((starts, _)) if starts.len() == wanted => starts,
        // None, or one with few blocks: git makes as many as threads.
        _ => likely_starts(area, start, stop.unwrap_or_else(|| likely_end(area, start, count)), wanted),
    };
    let stops = starts.iter().skip(1).copied().chain([stop.unwrap_or(usize::MAX)]);
    let mut parts: Vec<Records<'_>> =
        starts.iter().zip(stops).map(|(&start, stop)| Records::new(start, stop, count, area, options)).collect();
    let mut groups = parts.chunks_mut(starts.len().div_ceil(threads).max(1));
    std::thread::scope(|scope| {
        let first = groups.next();
        for group in groups {
            scope.spawn(move || read_in_turn(group, area, count));
        }
        if let Some(group) = first {
            read_in_turn(group, area, count);
        }
    });
    for pair in parts.windows(2) {
        let [before, behind] = pair else { continue };
        if before.at != behind.start {
            return None;
        }
    }
    let total: usize = parts.iter().map(|part| part.sizes.len()).sum();
    let complete = match stop {
        Some(stop) => total == count && parts.last()?.at == stop,
        None => total >= count,
    };
    complete.then(|| Records::found(parts, count, area, options))
}

/// Reads parts, four of them a step each in turn. One that fails ends there: whether that matters is seen when they are put
/// together.
fn read_in_turn<'a>(parts: &mut [Records<'a>], area: &Area<'a>, most: usize) {
    let (bytes, base) = (area.bytes.get(..area.end).unwrap_or_default(), head_len(area.kind));
    if let [a, b, c, d] = parts {
        // None can run beyond its end unnoticed: it is asked before each step.
        while a.is_running(most) && b.is_running(most) && c.is_running(most) && d.is_running(most) {
            let quick = [
                a.quick_step(bytes, base),
                b.quick_step(bytes, base),
                c.quick_step(bytes, base),
                d.quick_step(bytes, base),
            ];
            if quick != [true; IN_TURN] {
                let mut parts = [&mut *a, b, c, d].into_iter().zip(quick).filter(|(_, quick)| !quick);
                if parts.any(|(part, _)| part.step(area).is_err()) {
                    break;
                }
            }
        }
    }
    for part in parts {
        let _ = part.read_all(area, most);
    }
}

/// Consecutive entries of version 4 being read. Paths are followed, and only the first of each block is kept.
struct Packed {
    blocks: Vec<RawBlock>,
    names: Vec<u8>,
    count: usize,
    end: usize,
    check_order: bool,
    misplaced: Option<ReadError>,
    path_limit: u64,
    expanded: u64,
    extended: bool,
    seams: Vec<usize>,
    /// What the first entry removes from a path that is not known here, and the length of the last path.
    removes: u64,
    last_len: usize,
}

impl Packed {
    fn new(area: &Area<'_>, options: &ReadOptions<'_>) -> Self {
        let length = area.bytes.len() as u64;
        Packed {
            blocks: Vec::new(),
            names: Vec::new(),
            count: 0,
            end: Header::LEN,
            check_order: options.check_order,
            misplaced: None,
            path_limit: options.path_limit.unwrap_or(length.saturating_mul(64).saturating_add(1 << 20)),
            expanded: 0,
            extended: false,
            seams: Vec::new(),
            removes: 0,
            last_len: 0,
        }
    }

    fn found(self) -> Found {
        Found {
            blocks: self.blocks,
            names: self.names,
            end: self.end,
            misplaced: self.misplaced,
            extended: self.extended,
            seams: self.seams,
        }
    }

    /// Reads from `at` on until `stop` is reached or there are `count` entries.
    fn read(&mut self, area: &Area<'_>, mut at: usize, stop: usize, count: usize) -> Result<(), ReadError> {
        let base = head_len(area.kind);
        let bytes = area.bytes.get(..area.end).unwrap_or_default();
        let (mut path, mut before) = (path_v4::Path::default(), Stage::Merged);
        let (mut place, mut block_paths, mut touched) = (BLOCK_ENTRIES, 0u64, at);
        while self.count < count && at < stop {
            if at >= touched {
                touch(bytes, at, AHEAD);
                touched = at + AHEAD;
            }
            let size = match self.quick_step(bytes, at, base, &mut path) {
                Some((size, stage)) => {
                    before = stage;
                    size
                }
                None => self.step(area, at, &mut path, &mut before)?,
            };
            let whole = path.len() as u64;
            self.expanded += whole;
            if self.expanded > self.path_limit || whole > BLOCK_PATHS {
                return Err(ReadError::new(at, ReadErrorKind::PathLimit { limit: self.path_limit.min(BLOCK_PATHS) }));
            }
            block_paths += whole;
            if place == BLOCK_ENTRIES || block_paths > BLOCK_PATHS {
                self.close(place);
                let start = self.names.len();
                self.names.extend_from_slice(path.bytes());
                self.blocks.push(RawBlock { at, count: 0, first: Some(start..start + path.len()) });
                (place, block_paths) = (0, whole);
            }
            place += 1;
            self.count += 1;
            at += size;
        }
        self.close(place);
        (self.end, self.last_len) = (at, path.len());
        Ok(())
    }

    /// Notes how many entries the last block has.
    fn close(&mut self, count: usize) {
        if let Some(block) = self.blocks.last_mut() {
            block.count = count;
        }
    }

    /// Reads one entry, if it is as nearly all are: the path in order, little to remove, little to append, no second flag
    /// word. Its bytes and its stage; `None`: nothing was read, and [`step`](Packed::step) has to look.
    ///
    /// The flags and the number of bytes to remove say where the next entry begins, so that the processor need not wait for
    /// the search for the NUL, which only confirms it.
    #[inline(always)]
    fn quick_step(&self, bytes: &[u8], at: usize, base: usize, path: &mut path_v4::Path) -> Option<(usize, Stage)> {
        let rest = bytes.get(at + base - 2..)?;
        let (&[high, low, strip], suffix) = rest.split_first_chunk()?;
        let suffix: &[u8; path_v4::SHORT] = suffix.first_chunk()?;
        let word = u16::from_be_bytes([high, low]);
        let (stated, strip) = (usize::from(word & NAME_MASK), usize::from(strip));
        let keep = path.len().checked_sub(strip)?;
        let len = stated.checked_sub(keep)?;
        let usual = word & EXTENDED == 0 && strip < 0x80 && stated != usize::from(NAME_MASK) && self.count > 0;
        if !usual || !path_v4::ends_at(suffix, len) || !path.replace_rising(keep, suffix, len) {
            return None;
        }
        Some((base + 1 + len + 1, Stage::from_bits((word >> STAGE_SHIFT) as u8)))
    }

    /// Reads one entry: its bytes.
    #[inline(never)]
    fn step(
        &mut self,
        area: &Area<'_>,
        at: usize,
        path: &mut path_v4::Path,
        before: &mut Stage,
    ) -> Result<usize, ReadError> {
        let base = head_len(area.kind);
        let rest = area.bytes.get(at..area.end).unwrap_or_default();
        let Some(&[high, low]) = rest.get(base - 2..).and_then(|flags| flags.first_chunk()) else {
            return Err(truncated("index entry", at, base, rest.len()));
        };
        let word = u16::from_be_bytes([high, low]);
        let mut head = base;
        if word & EXTENDED != 0 {
            check_extended(rest, base, at)?;
            self.extended = true;
            head += 2;
        }
        let field = rest.get(head..).unwrap_or_default();
        let (strip, number) = path_v4::decode(field).unwrap_or((u64::MAX, 1));
        // What the first entry removes is removed from nothing; where reading begins in the middle it is not known.
        let first = self.count == 0 && strip != u64::MAX;
        let Some(keep) = (path.len() as u64).checked_sub(strip).or(first.then_some(0)) else {
            let kind = ReadErrorKind::Strip { strip, previous: path.len() as u64 };
            return Err(ReadError::new(at + head, kind));
        };
        let keep = keep as usize; // no more than a length
        if self.count == 0 {
            self.removes = strip;
        }
        let field = field.get(number..).unwrap_or_default();
        let Some(len) = path_v4::suffix_len(field) else {
            return Err(ReadError::new(at + head, ReadErrorKind::Unterminated { len: field.len() as u64 }));
        };
        let whole = keep + len;
        let stated = usize::from(word & NAME_MASK);
        if stated != whole.min(usize::from(NAME_MASK)) {
            return Err(ReadError::new(at + head, ReadErrorKind::Unterminated { len: stated as u64 }));
        }
        if self.expanded + whole as u64 > self.path_limit || whole as u64 > BLOCK_PATHS {
            return Err(ReadError::new(at, ReadErrorKind::PathLimit { limit: self.path_limit.min(BLOCK_PATHS) }));
        }
        let stage = Stage::from_bits((word >> STAGE_SHIFT) as u8);
        let order = path.replace_end(keep, field, len);
        let wrong = whole == 0 || self.check_order && (order.is_gt() || order.is_eq() && *before >= stage);
        if wrong && self.misplaced.is_none() {
            self.misplaced = Some(misplaced(path.bytes(), stage, at));
        }
        *before = stage;
        Ok(head + number + len + 1)
    }
}

/// Reads each part of version 4 on a thread of its own. `None` as above.
fn packed_on_threads(
    area: &Area<'_>,
    count: usize,
    starts: &[usize],
    stop: usize,
    options: &ReadOptions<'_>,
) -> Option<Found> {
    let stops: Vec<usize> = starts.iter().skip(1).copied().chain([stop]).collect();
    let run = |at: usize, stop: usize| {
        let mut part = Packed::new(area, options);
        part.read(area, at, stop, count).ok().map(|()| part)
    };
    let parts = std::thread::scope(|scope| {
        let others = starts.iter().zip(&stops).skip(1);
        let others: Vec<_> = others.map(|(&at, &stop)| scope.spawn(move || run(at, stop))).collect();
        let first = starts.first().zip(stops.first()).and_then(|(&at, &stop)| run(at, stop));
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        [first].into_iter().chain(others.into_iter().map(join)).collect::<Option<Vec<_>>>()
    })?;
    let mut parts = parts.into_iter();
    let mut whole = parts.next()?;
    for (part, &start) in parts.zip(starts.iter().skip(1)) {
        // A part begins with a whole path: all of the one before is removed.
        if start != whole.end || part.removes != whole.last_len as u64 {
            options.observer.hint_ignored("offset table", start as u64);
            return None;
        }
        let names = whole.names.len();
        let moved = |first: Range<usize>| first.start + names..first.end + names;
        whole.seams.push(whole.blocks.len());
        whole.blocks.extend(part.blocks.into_iter().map(|raw| RawBlock { first: raw.first.map(moved), ..raw }));
        whole.names.extend_from_slice(&part.names);
        whole.misplaced = whole.misplaced.or(part.misplaced);
        whole.count += part.count;
        whole.expanded += part.expanded;
        whole.extended |= part.extended;
        (whole.end, whole.last_len) = (part.end, part.last_len);
    }
    (whole.count == count && whole.end == stop && whole.expanded <= whole.path_limit).then(|| whole.found())
}

/// Path and stage of the record of version 2 or 3 at `at`, which was read before.
fn record_key<'a>(area: &Area<'a>, at: usize) -> (&'a [u8], Stage) {
    let rest = area.bytes.get(at..area.end).unwrap_or_default();
    let head = whole_head_len(rest, area.kind);
    let len = path_len(rest, head, area.kind).unwrap_or(0);
    let stage = Stage::from_bits((be16(rest, head_len(area.kind) - 2) >> STAGE_SHIFT) as u8);
    (rest.get(head..head + len).unwrap_or_default(), stage)
}

/// Where the record of version 2 or 3 at `at` ends.
fn end_of(area: &Area<'_>, at: usize) -> Option<usize> {
    let rest = area.bytes.get(at..area.end)?;
    let head = whole_head_len(rest, area.kind);
    Some(at + record_len(head, path_len(rest, head, area.kind)?))
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

/// Where as many parts as wanted begin, the first at the first entry, by extension `IEOT`; and where the entries end. `None`
/// if that and `EOIE` are not there or not sound.
fn cut_by_table(
    area: &Area<'_>,
    count: usize,
    options: &ReadOptions<'_>,
    wanted: usize,
) -> Option<(Vec<usize>, usize)> {
    let (table, end) = offset_table(area, count, options)?;
    let share = count.div_ceil(wanted);
    let (mut starts, mut sum) = (Vec::with_capacity(wanted), 0);
    for block in &table {
        if sum >= share * starts.len() {
            starts.push(block.at);
        }
        sum += block.entries as usize;
    }
    (starts.len() > 1).then_some((starts, end))
}

/// Places, the first at the first entry, that cut a version 2 or 3 file into parts of about the same length.
///
/// `end` is where the entries end, or about there, so that the places are not certain.
fn likely_starts(area: &Area<'_>, start: usize, end: usize, wanted: usize) -> Vec<usize> {
    let bytes = area.bytes.get(..end).unwrap_or_default();
    let length = end.saturating_sub(start);
    let mut starts = vec![start];
    for n in 1..wanted {
        if let Some(start) = anchor::find(bytes, start, start + length / wanted * n, area.kind)
            && starts.last().is_some_and(|&last| last < start)
        {
            starts.push(start);
        }
    }
    starts
}

/// About where `count` records that begin at `start` end, by the length of some of them: for parts of the same length.
fn likely_end(area: &Area<'_>, start: usize, count: usize) -> usize {
    const SAMPLES: usize = 8;
    const RECORDS: usize = 32;
    let bytes = area.bytes.get(..area.end).unwrap_or_default();
    let length = area.end.saturating_sub(start);
    let (mut records, mut taken) = (0, 0);
    for n in 0..SAMPLES {
        let Some(from) = anchor::find(bytes, start, start + length / SAMPLES * n, area.kind) else { continue };
        let mut at = from;
        for _ in 0..RECORDS {
            let Some(end) = end_of(area, at).filter(|&end| end <= area.end) else { break };
            (at, records) = (end, records + 1);
        }
        taken += at - from;
    }
    let likely = count as u128 * taken as u128 / u128::max(records, 1);
    usize::try_from(likely).ok().and_then(|likely| likely.checked_add(start)).map_or(area.end, |end| end.min(area.end))
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
