//! `EOIE`: where the entries end, so that the extensions can be found without reading them.
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 4 | byte offset of the end of the entries, big endian |
//! | 4 | 20 or 32 | hash over signature and size of every extension in front of this one, not over their data |
//!
//! It must be the last extension, so that it lies at a known distance from the end of the file (gitformat-index, "End of
//! Index Entry"). A program that rewrites entries and keeps this extension leaves a hash that still fits: the offset is a
//! hint, and whoever uses it has to find that the entries end there.

use object::{Checksum, HashKind};

use super::{EOIE, Extensions, HEADER_LEN, header};
use crate::header::Header;

/// Bytes of the data.
pub const fn len(kind: HashKind) -> usize {
    4 + kind.len()
}

/// The end of the entries by a sound `EOIE` of this whole index file: it is the last extension, a walk over the extensions
/// from that offset arrives exactly at it, and its hash fits. `None` if there is none, or it is not sound.
pub fn locate(bytes: &[u8], kind: HashKind) -> Option<usize> {
    let trailer = bytes.len().checked_sub(kind.len())?;
    let at = trailer.checked_sub(HEADER_LEN + len(kind))?;
    let data = bytes.get(at..trailer)?.strip_prefix(&header(EOIE, len(kind) as u32))?;
    let (offset, hash) = data.split_first_chunk()?;
    let end = usize::try_from(u32::from_be_bytes(*offset)).ok()?;
    if end < Header::LEN || end > at {
        return None;
    }
    let mut computed = Checksum::new(kind);
    for item in Extensions::new(bytes, end, at) {
        let item = item.ok()?;
        computed.update(&header(item.signature, item.data.len() as u32));
    }
    (computed.finish().as_bytes() == hash).then_some(end)
}

/// Appends the data of the extension behind entries that end at byte `end`, and behind `extensions`: signatures and sizes
/// in the order of the file.
pub fn append(end: u32, extensions: &[([u8; 4], u32)], kind: HashKind, out: &mut Vec<u8>) {
    let mut hash = Checksum::new(kind);
    for &(signature, size) in extensions {
        hash.update(&header(signature, size));
    }
    out.extend_from_slice(&end.to_be_bytes());
    out.extend_from_slice(hash.finish().as_bytes());
}
