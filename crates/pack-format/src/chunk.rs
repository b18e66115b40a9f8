//! Chunk files: the table of contents shared by commit-graph and multi-pack-index files.
//!
//! | at | width | meaning |
//! |---|---|---|
//! | `toc_at` + 12·i | 4 bytes | chunk id; each id once, never zero for a chunk |
//! | `toc_at` + 12·i + 4 | 8 bytes, big-endian | where chunk i starts, in bytes from the start of the *file* |
//! | `toc_at` + 12·count | 4 bytes | zero: closes the table |
//! | `toc_at` + 12·count + 4 | 8 bytes, big-endian | where the last chunk ends |
//!
//! Chunks lie one after the other in table order, so a chunk ends where the next one starts, and starts
//! never decrease. At least a trailing checksum follows the last chunk. Source: gitformat-chunk.adoc
//! (git 1a3e64c6c). The number of chunks is in the header of the file that has the table, one byte wide in
//! both formats.
//!
//! ```
//! use packstone_pack_format::chunk::{ChunkId, Toc, encode_toc};
//!
//! const NAME: ChunkId = ChunkId(*b"NAME");
//! let mut file = b"HEAD".to_vec();
//! encode_toc(&[(NAME, 3)], 4, &mut file);
//! file.extend_from_slice(b"abc");
//! file.extend_from_slice(&[0; 20]); // the trailing checksum
//! let toc = Toc::parse(&file, 4, 1, 20, 1)?;
//! assert_eq!(toc.get(&file, NAME), Some(&b"abc"[..]));
//! # Ok::<(), packstone_pack_format::chunk::TocError>(())
//! ```

use std::fmt;
use std::ops::Range;

/// Bytes of one row of the table: a 4-byte id and an 8-byte offset.
pub const ROW_LEN: usize = 12;

/// A chunk's name: four bytes, usually ASCII letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub [u8; 4]);

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkId({self})")
    }
}

/// A table of contents whose every range lies inside the file it was parsed from.
///
/// It owns its rows (at most 255), so it can be kept beside the bytes.
#[derive(Clone, Debug, Default)]
pub struct Toc {
    rows: Vec<(ChunkId, Range<usize>)>,
}

impl Toc {
    /// Reads the table of `count` chunks that starts `toc_at` bytes into `file`.
    ///
    /// `trailer_len` bytes at the end of the file belong to no chunk. Each chunk must start at a multiple
    /// of `align` bytes (1 for commit-graph files, 4 for multi-pack-index files). A chunk that begins inside
    /// the table itself is refused.
    ///
    /// # Errors
    ///
    /// [`TocError`], with the offset of the row in `file`.
    pub fn parse(file: &[u8], toc_at: usize, count: u8, trailer_len: usize, align: u64) -> Result<Toc, TocError> {
        let table_len = (usize::from(count) + 1) * ROW_LEN;
        let truncated = TocError {
            at: toc_at as u64,
            kind: TocErrorKind::Truncated { need: table_len as u64, have: file.len().saturating_sub(toc_at) as u64 },
        };
        let table = toc_at.checked_add(table_len).and_then(|end| file.get(toc_at..end)).ok_or(truncated)?;
        let first = (toc_at + table_len) as u64;
        let limit = file.len().saturating_sub(trailer_len) as u64;

        let mut rows: Vec<(ChunkId, Range<usize>)> = Vec::with_capacity(usize::from(count));
        // The chunk whose end is not known yet: the next row tells.
        let mut open: Option<(ChunkId, u64)> = None;
        for (nr, row) in table.chunks_exact(ROW_LEN).enumerate() {
            let at = (toc_at + nr * ROW_LEN) as u64;
            let fail = |kind| TocError { at, kind };
            let (id, offset) = split_row(row);
            let low = open.map_or(0, |(_, start)| start);
            if offset < low || offset > limit {
                return Err(fail(TocErrorKind::Offset { offset, low, limit }));
            }
            if let Some((id, start)) = open.take() {
                rows.push((id, start as usize..offset as usize));
            }
            if nr == usize::from(count) {
                if id.0 != [0; 4] {
                    return Err(fail(TocErrorKind::NotClosed { id }));
                }
                break;
            }
            if id.0 == [0; 4] {
                return Err(fail(TocErrorKind::ClosedEarly));
            }
            if align > 1 && offset % align != 0 {
                return Err(fail(TocErrorKind::Unaligned { id, offset, align }));
            }
            if rows.iter().any(|(seen, _)| *seen == id) {
                return Err(fail(TocErrorKind::Duplicate { id }));
            }
            open = Some((id, offset));
        }
        // Only now: of a table whose count is wrong, its end is the better thing to tell.
        if let Some((_, range)) = rows.first()
            && (range.start as u64) < first
        {
            let kind = TocErrorKind::Offset { offset: range.start as u64, low: first, limit };
            return Err(TocError { at: toc_at as u64, kind });
        }
        Ok(Toc { rows })
    }

    /// Where the chunk lies in the file, in bytes.
    pub fn range(&self, id: ChunkId) -> Option<Range<usize>> {
        self.rows.iter().find(|(seen, _)| *seen == id).map(|(_, range)| range.clone())
    }

    /// The chunk's bytes. `None` if there is no such chunk, or if `file` is shorter than the file this table
    /// was parsed from.
    pub fn get<'a>(&self, file: &'a [u8], id: ChunkId) -> Option<&'a [u8]> {
        file.get(self.range(id)?)
    }

    /// All chunks in file order, with their byte ranges.
    pub fn iter(&self) -> impl Iterator<Item = (ChunkId, Range<usize>)> + '_ {
        self.rows.iter().cloned()
    }
}

fn split_row(row: &[u8]) -> (ChunkId, u64) {
    let mut id = [0; 4];
    let mut offset = [0; 8];
    id.copy_from_slice(&row[..4]);
    offset.copy_from_slice(&row[4..ROW_LEN]);
    (ChunkId(id), u64::from_be_bytes(offset))
}

/// Appends the table for chunks of the given sizes (bytes, in file order) to `out`, as it must stand
/// `toc_at` bytes into the file; the first chunk follows the table at once.
///
/// # Panics
///
/// With more than 255 chunks: the header's one-byte count could not hold them.
pub fn encode_toc(chunks: &[(ChunkId, u64)], toc_at: u64, out: &mut Vec<u8>) {
    assert!(chunks.len() <= 255, "a chunk file has at most 255 chunks");
    let mut offset = toc_at + ((chunks.len() + 1) * ROW_LEN) as u64;
    for (id, size) in chunks {
        out.extend_from_slice(&id.0);
        out.extend_from_slice(&offset.to_be_bytes());
        offset += size;
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&offset.to_be_bytes());
}

/// A table of contents that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (chunk table, offset {at})")]
#[non_exhaustive]
pub struct TocError {
    /// Byte offset in the file of the row (or of the table) that is wrong.
    pub at: u64,
    /// What is wrong.
    pub kind: TocErrorKind,
}

/// What is wrong with a table of contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TocErrorKind {
    /// The file ends inside the table.
    #[error("file too short: {need} bytes of table, {have} left")]
    Truncated {
        /// Bytes of the whole table.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// A chunk would start before its predecessor, inside the table, or beyond the end.
    #[error("chunk offset {offset} outside {low}..={limit}")]
    Offset {
        /// The offset found.
        offset: u64,
        /// The lowest one possible here.
        low: u64,
        /// The highest one possible in this file.
        limit: u64,
    },
    /// A chunk does not start where the format wants it.
    #[error("chunk {id} at {offset} is not {align}-byte aligned")]
    Unaligned {
        /// The chunk.
        id: ChunkId,
        /// Its offset.
        offset: u64,
        /// The alignment asked for.
        align: u64,
    },
    /// The same id twice.
    #[error("chunk {id} is there twice")]
    Duplicate {
        /// The chunk.
        id: ChunkId,
    },
    /// The zero id came before the promised number of chunks.
    #[error("the table closes before its last chunk")]
    ClosedEarly,
    /// The row after the last chunk does not have the zero id.
    #[error("the table is closed by {id} instead of zero")]
    NotClosed {
        /// The id found.
        id: ChunkId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ChunkId = ChunkId(*b"AAAA");
    const B: ChunkId = ChunkId(*b"BBBB");

    fn file(chunks: &[(ChunkId, u64)]) -> Vec<u8> {
        let mut out = vec![b'h'; 8];
        encode_toc(chunks, 8, &mut out);
        let body: u64 = chunks.iter().map(|(_, size)| size).sum();
        out.resize(out.len() + body as usize + 20, 7);
        out
    }

    #[test]
    fn reads_what_it_writes() {
        let bytes = file(&[(A, 5), (B, 0)]);
        let toc = Toc::parse(&bytes, 8, 2, 20, 1).unwrap();
        assert_eq!(toc.range(A), Some(44..49));
        assert_eq!(toc.get(&bytes, B), Some(&b""[..]));
        assert_eq!(toc.iter().count(), 2);
        assert_eq!(toc.get(&bytes, ChunkId(*b"CCCC")), None);
    }

    #[test]
    fn every_cut_is_an_error() {
        let bytes = file(&[(A, 5), (B, 4)]);
        for len in 0..bytes.len() {
            assert!(Toc::parse(&bytes[..len], 8, 2, 20, 1).is_err(), "{len}");
        }
    }

    #[test]
    fn bad_rows_are_told_apart() {
        let good = file(&[(A, 4), (B, 4)]);
        let kind = |edit: &dyn Fn(&mut Vec<u8>), align| {
            let mut bytes = good.clone();
            edit(&mut bytes);
            Toc::parse(&bytes, 8, 2, 20, align).unwrap_err().kind
        };
        assert!(matches!(kind(&|b| b[20..24].copy_from_slice(b"AAAA"), 1), TocErrorKind::Duplicate { id: A }));
        assert!(matches!(kind(&|b| b[20..24].fill(0), 1), TocErrorKind::ClosedEarly));
        assert!(matches!(kind(&|b| b[32..36].fill(1), 1), TocErrorKind::NotClosed { .. }));
        assert!(matches!(kind(&|b| b[31] = 45, 4), TocErrorKind::Unaligned { id: B, offset: 45, .. }));
        assert!(matches!(kind(&|b| b[31] = 1, 1), TocErrorKind::Offset { offset: 1, .. }));
        assert!(matches!(kind(&|b| b[12..20].fill(255), 1), TocErrorKind::Offset { .. }));
        assert!(matches!(kind(&|b| b[43] = 255, 1), TocErrorKind::Offset { .. }));
        // A chunk must not begin inside the table.
        assert!(matches!(kind(&|b| b[19] = 43, 1), TocErrorKind::Offset { low: 44, .. }));
    }
}
