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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext::{IEOT, TREE};

    /// An index whose entries are any `entries` bytes, with extensions of these sizes and an `EOIE`.
    fn file(kind: HashKind, entries: usize, extensions: &[([u8; 4], u32)]) -> Vec<u8> {
        let mut bytes = vec![b'x'; Header::LEN + entries];
        let end = bytes.len() as u32;
        for &(signature, size) in extensions {
            bytes.extend(header(signature, size));
            bytes.extend(vec![b'y'; size as usize]);
        }
        bytes.extend(header(EOIE, len(kind) as u32));
        append(end, extensions, kind, &mut bytes);
        bytes.extend(vec![0; kind.len()]);
        bytes
    }

    #[test]
    fn found_behind_any_extensions() {
        for kind in HashKind::ALL {
            for extensions in [&[][..], &[(TREE, 5)], &[(IEOT, 12), (TREE, 0), (*b"ABCD", 300)]] {
                for entries in [0, 72] {
                    let bytes = file(kind, entries, extensions);
                    assert_eq!(locate(&bytes, kind), Some(Header::LEN + entries));
                    let other = HashKind::ALL.into_iter().find(|other| *other != kind);
                    assert_eq!(locate(&bytes, other.unwrap_or(kind)), None);
                }
            }
        }
    }

    #[test]
    fn i3_believed_only_if_the_walk_arrives_and_the_hash_fits() {
        for kind in HashKind::ALL {
            let good = file(kind, 72, &[(IEOT, 12), (TREE, 30)]);
            let at = good.len() - kind.len() - len(kind);
            for offset in [0, 11, 12, 83, 85, 92, at - 8, at, good.len(), 0x7fff_ffff, 0xffff_ffff] {
                let mut bytes = good.clone();
                bytes[at..at + 4].copy_from_slice(&(offset as u32).to_be_bytes());
                assert_eq!(locate(&bytes, kind), None, "offset {offset}");
            }
            for changed in [84, 91, 84 + 8 + 12, at - 8, at - 1, at + 4] {
                let mut bytes = good.clone();
                bytes[changed] ^= 1;
                assert_eq!(locate(&bytes, kind), None, "byte {changed}");
            }
            // What the extensions hold is not hashed.
            let mut bytes = good.clone();
            bytes[84 + 8] ^= 1;
            assert_eq!(locate(&bytes, kind), Some(84));
            for bytes in crate::ext::tests::damaged(&good) {
                if let Some(end) = locate(&bytes, kind) {
                    assert_eq!(end, 84);
                }
            }
        }
    }

    #[test]
    fn not_the_last_extension() {
        let kind = HashKind::Sha1;
        let mut bytes = file(kind, 0, &[(TREE, 5)]);
        let trailer = bytes.split_off(bytes.len() - kind.len());
        bytes.extend(header(TREE, 24));
        bytes.extend([0; 24]);
        bytes.extend(trailer);
        assert_eq!(locate(&bytes, kind), None);
    }
}
