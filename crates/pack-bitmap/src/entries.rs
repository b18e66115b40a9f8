//! The entries: one compressed bitmap per selected commit.
//!
//! | offset | width | meaning | valid when |
//! |---|---|---|---|
//! | 0 | 4 | the commit, as rank in the pack *index* | below the object count, once only |
//! | 4 | 1 | XOR offset: 0, or how many entries before this one the other half stands | at most 160, and at most the entry's own number |
//! | 5 | 1 | flags; 0x1 is a hint for writers | any |
//! | 6 | | compressed bitmap over ranks in *pack* order | see `packstone-ewah` |
//!
//! Source: git's `Documentation/technical/bitmap-format.adoc`, "On-disk format", git 1a3e64c6c.
//!
//! Bitmaps hang on each other in chains, at times hundreds long; undoing one is a loop, since XOR does not ask for the
//! order. Every step goes to an entry that begins earlier in the file, so that a loop ends whatever the bytes.

use std::ops::Range;

use ewah::Ewah;
use pack_format::IdxPos;

use crate::error::{ParseError, ParseErrorKind};
use crate::ext::{ROW, be_u32, be_u64};

/// Bytes before an entry's bitmap.
pub(crate) const ENTRY: usize = 6;
/// The least a compressed bitmap takes: two counts, no words, one index.
const LEAST_BITMAP: usize = 12;
/// An entry may be XORed with one so many entries before it, no further.
pub(crate) const MAX_XOR_OFFSET: u32 = 160;
/// "No row" in a lookup table.
const NO_ROW: u32 = u32::MAX;

/// Number of an entry: its place in the file, or in the lookup table where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Row(pub(crate) u32);

/// Where an entry is and what it hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Offset of its compressed bitmap in the file.
    pub(crate) bitmap_at: usize,
    pub(crate) base: Option<Row>,
}

/// How entries are found.
#[derive(Clone, Debug)]
pub(crate) enum Entries {
    /// By the file's own table, entry by entry as asked for.
    Table { rows: Range<usize>, entries: Range<usize>, objects: u32 },
    /// By a scan that hops from entry to entry and reads no bitmap.
    Scanned {
        /// In file order.
        list: Vec<Entry>,
        /// Rank in the pack index, place in `list`; ascending.
        by_commit: Vec<(u32, u32)>,
    },
}

impl Entries {
    /// `part` is where the entries lie, without the bitmaps by type.
    pub(crate) fn parse(
        bytes: &[u8],
        part: Range<usize>,
        count: u32,
        table: Option<Range<usize>>,
        objects: u32,
    ) -> Result<Entries, ParseError> {
        let need = u64::from(count) * (ENTRY + LEAST_BITMAP) as u64;
        let have = part.len() as u64;
        if need > have {
            let what = "entries";
            return Err(ParseError::new(8, ParseErrorKind::Truncated { what, need, have }));
        }
        match table {
            Some(rows) => check_table(bytes, rows, part, objects),
            None => scan(bytes, part, count, objects),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        // Both came from a count of 32 bits.
        match self {
            Entries::Table { rows, .. } => (rows.len() / ROW) as u32,
            Entries::Scanned { list, .. } => list.len() as u32,
        }
    }

    /// The entry for a commit.
    pub(crate) fn row_of(&self, bytes: &[u8], commit: IdxPos) -> Option<Row> {
        match self {
            Entries::Table { rows, .. } => {
                let rows = bytes.get(rows.clone())?.as_chunks::<ROW>().0;
                let row = rows.binary_search_by_key(&commit.get(), |row| be_u32(row, 0));
                row.ok().map(|row| Row(row as u32))
            }
            Entries::Scanned { by_commit, .. } => {
                let at = by_commit.binary_search_by_key(&commit.get(), |(pos, _)| *pos);
                at.ok().and_then(|at| by_commit.get(at)).map(|(_, row)| Row(*row))
            }
        }
    }

    /// All commits with an entry, ascending.
    pub(crate) fn commits<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = IdxPos> + 'a {
        let (rows, list): (&[[u8; ROW]], &[(u32, u32)]) = match self {
            Entries::Table { rows, .. } => {
                let rows = bytes.get(rows.clone()).unwrap_or(&[]);
                (rows.as_chunks().0, &[])
            }
            Entries::Scanned { by_commit, .. } => (&[], by_commit),
        };
        let rows = rows.iter().map(|row| be_u32(row, 0));
        rows.chain(list.iter().map(|(pos, _)| *pos)).map(IdxPos::new)
    }

    /// Where an entry is. A table is checked here, against the entry itself.
    pub(crate) fn entry(&self, bytes: &[u8], row: Row) -> Result<Entry, ParseError> {
        match self {
            Entries::Scanned { list, .. } => {
                let entry = list.get(row.0 as usize).copied();
                entry.ok_or(ParseError::new(8, out_of_range("entry", row.0, list.len())))
            }
            Entries::Table { rows, entries, objects } => from_table(bytes, rows, entries, *objects, row),
        }
    }
}

/// Structure only: ascending commits below the object count, and entries that fill their part of the file. Most offsets
/// are looked at as they are used.
fn check_table(bytes: &[u8], rows: Range<usize>, entries: Range<usize>, objects: u32) -> Result<Entries, ParseError> {
    let list = bytes.get(rows.clone()).unwrap_or(&[]).as_chunks::<ROW>().0;
    let mut last = None;
    for (nr, row) in list.iter().enumerate() {
        let pos = be_u32(row, 0);
        let at = rows.start + nr * ROW;
        if pos >= objects {
            return Err(ParseError::new(at, out_of_range("commit", pos, objects as usize)));
        }
        if last.is_some_and(|last| last >= pos) {
            return Err(ParseError::new(at, ParseErrorKind::Order { pos }));
        }
        last = Some(pos);
    }
    let offset = |row: &[u8; ROW]| be_u64(row, 4);
    let stray = |at: usize, len: usize| {
        let len = len as u64;
        Err(ParseError::new(at, ParseErrorKind::Stray { len }))
    };
    // The first entry must begin where the types end, and the last end where the next section begins: so the count
    // and the table are those of this file.
    let first = list.iter().map(offset).min();
    if first.unwrap_or(entries.end as u64) != entries.start as u64 {
        return stray(entries.start, entries.len());
    }
    if let Some((nr, _)) = list.iter().enumerate().max_by_key(|(_, row)| offset(row)) {
        let row = Row(nr as u32); // below the count, which has 32 bits
        let at = from_table(bytes, &rows, &entries, objects, row)?.bitmap_at;
        // What would be read beyond the end shows as a length that does not fit.
        let words = u64::from(be_u32(bytes, at + 4));
        let (need, have) = (LEAST_BITMAP as u64 + words * 8, (entries.end - at) as u64);
        if need > have {
            let kind = ParseErrorKind::Truncated { what: "bitmap of a commit", need, have };
            return Err(ParseError::new(at, kind));
        }
        if need < have {
            return stray(at + need as usize, (have - need) as usize);
        }
    }
    Ok(Entries::Table { rows, entries, objects })
}

fn from_table(
    bytes: &[u8],
    rows: &Range<usize>,
    entries: &Range<usize>,
    objects: u32,
    row: Row,
) -> Result<Entry, ParseError> {
    let count = rows.len() / ROW;
    if row.0 as usize >= count {
        return Err(ParseError::new(rows.start, out_of_range("row of the lookup table", row.0, count)));
    }
    // Where the row says its entry is; anything that does not hold six bytes is an error.
    let begin = |row: u32| -> Result<(usize, usize), ParseError> {
        let row_at = rows.start + row as usize * ROW;
        let offset = be_u64(bytes, row_at + 4);
        let at = usize::try_from(offset)
            .ok()
            .filter(|at| *at >= entries.start && at.checked_add(ENTRY).is_some_and(|end| end <= entries.end));
        let kind =
            || ParseErrorKind::OutOfRange { what: "offset of an entry", found: offset, limit: entries.end as u64 };
        at.map(|at| (row_at, at)).ok_or_else(|| ParseError::new(row_at + 4, kind()))
    };
    let (row_at, at) = begin(row.0)?;
    let commit = be_u32(bytes, row_at);
    let base = be_u32(bytes, row_at + 12);
    let disagree = |what| Err(ParseError::new(row_at, ParseErrorKind::Disagree { what }));
    if be_u32(bytes, at) != commit || commit >= objects {
        return disagree("the commit");
    }
    let distance = u32::from(bytes.get(at + 4).copied().unwrap_or(0));
    if distance > MAX_XOR_OFFSET {
        return Err(ParseError::new(at + 4, ParseErrorKind::XorOffset { distance }));
    }
    if (distance == 0) != (base == NO_ROW) {
        return disagree("what the bitmap is XORed with");
    }
    let base = match base {
        NO_ROW => None,
        base if base as usize >= count => {
            let kind = out_of_range("row of the lookup table", base, count);
            return Err(ParseError::new(row_at + 12, kind));
        }
        base => {
            // Strictly earlier: this is what makes every chain end.
            if begin(base)?.1 >= at {
                return Err(ParseError::new(row_at + 12, ParseErrorKind::XorOffset { distance: 0 }));
            }
            Some(Row(base))
        }
    };
    Ok(Entry { bitmap_at: at + ENTRY, base })
}

fn scan(bytes: &[u8], part: Range<usize>, count: u32, objects: u32) -> Result<Entries, ParseError> {
    // The caller has compared `count` with the bytes there are.
    let mut list = Vec::with_capacity(count as usize);
    let mut by_commit = Vec::with_capacity(count as usize);
    let mut at = part.start;
    for nr in 0..count {
        let left = part.end.saturating_sub(at);
        if left < ENTRY + LEAST_BITMAP {
            let need = (ENTRY + LEAST_BITMAP) as u64;
            let kind = ParseErrorKind::Truncated { what: "an entry", need, have: left as u64 };
            return Err(ParseError::new(at, kind));
        }
        let commit = be_u32(bytes, at);
        if commit >= objects {
            return Err(ParseError::new(at, out_of_range("commit", commit, objects as usize)));
        }
        let distance = u32::from(bytes.get(at + 4).copied().unwrap_or(0));
        let base = match distance {
            0 => None,
            _ if distance > MAX_XOR_OFFSET || distance > nr => {
                return Err(ParseError::new(at + 4, ParseErrorKind::XorOffset { distance }));
            }
            _ => Some(Row(nr - distance)),
        };
        let bitmap_at = at + ENTRY;
        list.push(Entry { bitmap_at, base });
        by_commit.push((commit, nr));
        // Only over it: whether the words make sense shows when they are used.
        let need = LEAST_BITMAP as u64 + u64::from(be_u32(bytes, bitmap_at + 4)) * 8;
        let have = (part.end - bitmap_at) as u64;
        if need > have {
            let kind = ParseErrorKind::Truncated { what: "bitmap of a commit", need, have };
            return Err(ParseError::new(bitmap_at, kind));
        }
        at = bitmap_at + need as usize;
    }
    if at != part.end {
        let len = (part.end - at) as u64;
        return Err(ParseError::new(at, ParseErrorKind::Stray { len }));
    }
    by_commit.sort_unstable();
    if let Some((pos, row)) = by_commit.windows(2).find_map(|pair| (pair[0].0 == pair[1].0).then_some(pair[1])) {
        let at = list.get(row as usize).map_or(part.start, |e: &Entry| e.bitmap_at - ENTRY);
        return Err(ParseError::new(at, ParseErrorKind::Order { pos }));
    }
    Ok(Entries::Scanned { list, by_commit })
}

/// The compressed bitmap of an entry.
pub(crate) fn bitmap_at<'a>(
    bytes: &'a [u8],
    at: usize,
    end: usize,
    objects: u32,
    what: &'static str,
) -> Result<(Ewah<'a>, usize), ParseError> {
    let part = bytes.get(at..end).unwrap_or(&[]);
    Ewah::parse_within(part, objects.into())
        .map_err(|source| ParseError { at: at as u64 + source.at, kind: ParseErrorKind::Ewah { what, source } })
}

fn out_of_range(what: &'static str, found: u32, limit: usize) -> ParseErrorKind {
    ParseErrorKind::OutOfRange { what, found: found.into(), limit: limit as u64 }
}
