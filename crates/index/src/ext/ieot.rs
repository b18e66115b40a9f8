//! `IEOT`: where blocks of entries begin, so that threads can read them side by side.
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 4 | version: 1 |
//! | 4 + 8 i | 4 | byte offset in the file of block i's first entry |
//! | 8 + 8 i | 4 | number of entries in block i |
//!
//! Big endian (gitformat-index, "Index Entry Offset Table"). In version 4 a block's first entry has its whole path, though
//! the number in front of it still says how many bytes to remove from the path before. As with `EOIE`, this is a hint that
//! may be stale: whoever uses it has to find that each block ends where the next one begins.

use std::ops::Range;

use crate::header::Header;

/// The only version.
pub const VERSION: u32 = 1;

/// Less than any entry takes: stat data, mode, a SHA-1 id, flags.
const MIN_ENTRY: u64 = 62;

/// A stretch of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Byte offset of the first entry in the file.
    pub at: usize,
    /// Number of entries, at least one.
    pub entries: u32,
}

/// The blocks, if the table is sound for `count` entries in the bytes `entries` of the file: the first block begins where
/// the entries do, each has room for as many as it claims, and together they are `count`. `None` if it is not.
pub fn parse(data: &[u8], entries: Range<usize>, count: usize) -> Option<Vec<Block>> {
    let (version, table) = data.split_first_chunk()?;
    let (words, rest) = table.as_chunks::<4>();
    let (pairs, odd) = words.as_chunks::<2>();
    if u32::from_be_bytes(*version) != VERSION || !rest.is_empty() || !odd.is_empty() || entries.start < Header::LEN {
        return None;
    }
    let mut blocks = Vec::with_capacity(pairs.len());
    for [at, entries] in pairs {
        let at = usize::try_from(u32::from_be_bytes(*at)).ok()?;
        blocks.push(Block { at, entries: u32::from_be_bytes(*entries) });
    }
    if blocks.first()?.at != entries.start {
        return None;
    }
    let mut sum = 0u64;
    for (at, block) in blocks.iter().enumerate() {
        let end = blocks.get(at + 1).map_or(entries.end, |next| next.at);
        let room = end.checked_sub(block.at)? as u64;
        if block.entries == 0 || room < u64::from(block.entries) * MIN_ENTRY {
            return None;
        }
        sum += u64::from(block.entries);
    }
    (sum == count as u64).then_some(blocks)
}

/// Appends the data of the extension. Offsets beyond 32 bits cannot be said: then nothing is appended, and `false` returned.
pub fn append(blocks: &[Block], out: &mut Vec<u8>) -> bool {
    if blocks.last().is_some_and(|last| u32::try_from(last.at).is_err()) {
        return false;
    }
    out.extend_from_slice(&VERSION.to_be_bytes());
    for block in blocks {
        out.extend_from_slice(&(block.at as u32).to_be_bytes());
        out.extend_from_slice(&block.entries.to_be_bytes());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(blocks: &[(u32, u32)]) -> Vec<u8> {
        let mut out = Vec::new();
        let blocks: Vec<_> = blocks.iter().map(|&(at, entries)| Block { at: at as usize, entries }).collect();
        assert!(append(&blocks, &mut out));
        out
    }

    #[test]
    fn there_and_back() {
        let data = table(&[(12, 2), (156, 2)]);
        assert_eq!(data[..12], [0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0, 2]);
        let blocks = parse(&data, 12..300, 4).unwrap();
        assert_eq!(blocks, [Block { at: 12, entries: 2 }, Block { at: 156, entries: 2 }]);
        assert_eq!(parse(&table(&[(12, 4)]), 12..300, 4).unwrap().len(), 1);
        assert!(!append(&[Block { at: 1 << 32, entries: 1 }], &mut Vec::new()));
    }

    #[test]
    fn i3_what_cannot_be_is_no_table() {
        // Four entries of 72 bytes.
        for (blocks, why) in [
            (&[(12, 2), (0x7fff_ffff, 2)][..], "beyond the entries"),
            (&[(12, 2), (156, 1)], "fewer entries than there are"),
            (&[(12, 4), (156, 2)], "more entries than there are"),
            (&[(12, 3), (156, 1)], "more entries than the block has room for"),
            (&[(12, 4), (300, 0)], "an empty block"),
            (&[(12, 0), (156, 4)], "an empty block in front"),
            (&[(84, 3)], "begins behind the first entry"),
            (&[(0, 4)], "begins in the header"),
            (&[(156, 2), (12, 2)], "descends"),
            (&[(12, 2), (12, 2)], "twice the same"),
            (&[(12, u32::MAX), (156, 5)], "a sum beyond 32 bits"),
            (&[], "nothing"),
        ] {
            assert_eq!(parse(&table(blocks), 12..300, 4), None, "{why}");
        }
        let good = table(&[(12, 2), (156, 2)]);
        let mut other = good.clone();
        other[3] = 2;
        assert_eq!(parse(&other, 12..300, 4), None, "version 2");
        for len in (0..good.len()).filter(|len| *len != 12) {
            assert_eq!(parse(&good[..len], 12..300, 4), None, "cut at {len}");
        }
        assert_eq!(parse(&good, 12..200, 4), None, "entries end earlier");
        for bytes in crate::ext::tests::damaged(&good) {
            let _ = parse(&bytes, 12..300, 4);
        }
    }
}
