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
