//! A naive builder of packs, indices and reverse indices, well formed or not; and a naive reader of deltas.
//!
//! Nothing is checked unless said: an entry may claim any size, a delta any base, an index any offset, and all checksums
//! come out right, so that what a test is about is the only thing that is wrong. Formats as in gitformat-pack.
//!
//! ```
//! use testkit::{Hash, pack::{Entry, Op, PackBuilder, delta}};
//!
//! let text = b"abcdefgh".repeat(8);
//! let pack = PackBuilder::new(Hash::Sha1)
//!     .entry(Entry::full("blob", &text))
//!     .entry(Entry::ofs_to(0, &delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"!")])))
//!     .build();
//! assert_eq!(&pack.bytes[..4], b"PACK");
//! assert_eq!(pack.entries[0].offset, 12);
//! let ids = [pack.id("blob", &text), pack.id("blob", &[&text[..], b"!"].concat())];
//! let idx = pack.idx(&ids);
//! assert_eq!(idx.len(), 8 + 256 * 4 + 2 * (20 + 4 + 4) + 2 * 20);
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use sha1::Digest as _;

use crate::Hash;

/// One entry of a pack to be built.
#[derive(Debug, Clone)]
pub struct Entry {
    kind: u8,
    base: Base,
    inflated: Vec<u8>,
    deflated: Option<Vec<u8>>,
    size: Option<u64>,
    level: i32,
}

#[derive(Debug, Clone)]
enum Base {
    None,
    Distance(u64),
    /// The entry with this number, earlier or later; a later one gives a wrapped distance, which is the test's wish.
    Entry(usize),
    /// Written as they are in place of a distance or an id.
    Raw(Vec<u8>),
}

impl Entry {
    /// An object stored whole. `kind` is `commit`, `tree`, `blob` or `tag`.
    pub fn full(kind: &str, bytes: &[u8]) -> Entry {
        let kind = match kind {
            "commit" => 1,
            "tree" => 2,
            "blob" => 3,
            "tag" => 4,
            other => panic!("no kind of object: {other}"),
        };
        Entry { kind, base: Base::None, inflated: bytes.to_vec(), deflated: None, size: None, level: 6 }
    }

    /// An offset delta to what lies `distance` bytes before the entry.
    pub fn ofs(distance: u64, delta: &[u8]) -> Entry {
        Entry { kind: 6, base: Base::Distance(distance), ..Entry::full("blob", delta) }
    }

    /// An offset delta to the entry with that number in the pack.
    pub fn ofs_to(entry: usize, delta: &[u8]) -> Entry {
        Entry { kind: 6, base: Base::Entry(entry), ..Entry::full("blob", delta) }
    }

    /// An offset delta whose distance is written as these bytes.
    pub fn ofs_raw(distance: &[u8], delta: &[u8]) -> Entry {
        Entry { kind: 6, base: Base::Raw(distance.to_vec()), ..Entry::full("blob", delta) }
    }

    /// A reference delta to the object with that id, 20 or 32 bytes.
    pub fn reference(base: &[u8], delta: &[u8]) -> Entry {
        Entry { kind: 7, base: Base::Raw(base.to_vec()), ..Entry::full("blob", delta) }
    }

    /// Another type number in the header: 0 and 5 are invalid.
    pub fn kind(mut self, kind: u8) -> Entry {
        self.kind = kind;
        self
    }

    /// Another size in the header than that of the bytes.
    pub fn size(mut self, size: u64) -> Entry {
        self.size = Some(size);
        self
    }

    /// These bytes in place of the deflated content.
    pub fn deflated(mut self, bytes: &[u8]) -> Entry {
        self.deflated = Some(bytes.to_vec());
        self
    }

    /// Another zlib level: 0 stores, so that a flipped byte keeps its place.
    pub fn level(mut self, level: i32) -> Entry {
        self.level = level;
        self
    }
}

/// A pack to be built.
#[derive(Debug, Clone)]
pub struct PackBuilder {
    hash: Hash,
    version: u32,
    count: Option<u32>,
    entries: Vec<Entry>,
}

impl PackBuilder {
    /// An empty pack of version 2.
    pub fn new(hash: Hash) -> PackBuilder {
        PackBuilder { hash, version: 2, count: None, entries: Vec::new() }
    }

    /// Adds an entry.
    pub fn entry(mut self, entry: Entry) -> PackBuilder {
        self.entries.push(entry);
        self
    }

    /// Another version.
    pub fn version(mut self, version: u32) -> PackBuilder {
        self.version = version;
        self
    }

    /// Another count in the header than that of the entries.
    pub fn count(mut self, count: u32) -> PackBuilder {
        self.count = Some(count);
        self
    }

    /// The bytes, with the right trailer.
    pub fn build(&self) -> Pack {
        let mut bytes = b"PACK".to_vec();
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&self.count.unwrap_or(self.entries.len() as u32).to_be_bytes());
        let mut entries: Vec<Built> = Vec::new();
        for entry in &self.entries {
            let offset = bytes.len() as u64;
            push_header(&mut bytes, entry.kind, entry.size.unwrap_or(entry.inflated.len() as u64));
            match &entry.base {
                Base::None => {}
                Base::Distance(distance) => push_distance(&mut bytes, *distance),
                Base::Entry(number) => {
                    let base = entries.get(*number).map_or(0, |base| base.offset);
                    push_distance(&mut bytes, offset - base);
                }
                Base::Raw(raw) => bytes.extend_from_slice(raw),
            }
            let data = bytes.len() as u64;
            match &entry.deflated {
                Some(deflated) => bytes.extend_from_slice(deflated),
                None => bytes.extend_from_slice(&deflate(&entry.inflated, entry.level)),
            }
            let crc = crc32fast::hash(&bytes[offset as usize..]);
            entries.push(Built { offset, data, end: bytes.len() as u64, crc });
        }
        let checksum = checksum(self.hash, &bytes);
        bytes.extend_from_slice(&checksum);
        Pack { hash: self.hash, bytes, entries }
    }
}

/// A pack that was built.
#[derive(Debug, Clone)]
pub struct Pack {
    /// The hash of ids and trailer.
    pub hash: Hash,
    /// The whole file.
    pub bytes: Vec<u8>,
    /// Where its entries are.
    pub entries: Vec<Built>,
}

/// Where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// Of its first byte.
    pub offset: u64,
    /// Of its deflated content.
    pub data: u64,
    /// Behind its last byte.
    pub end: u64,
    /// CRC-32 of its bytes.
    pub crc: u32,
}

impl Pack {
    /// The id of an object of this pack's hash.
    pub fn id(&self, kind: &str, content: &[u8]) -> Vec<u8> {
        object_id(self.hash, kind, content)
    }

    /// The trailing checksum.
    pub fn checksum(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - self.hash.len()..]
    }

    /// Makes the trailer right again after the bytes were changed.
    pub fn resign(&mut self) {
        resign(self.hash, &mut self.bytes);
    }

    /// The rows of an index that gives the entries these ids, in the order of the entries.
    pub fn rows(&self, ids: &[Vec<u8>]) -> Vec<Row> {
        assert_eq!(ids.len(), self.entries.len(), "an id for each entry");
        let rows = ids.iter().zip(&self.entries);
        rows.map(|(id, entry)| Row { id: id.clone(), crc: entry.crc, offset: entry.offset as u32 }).collect()
    }

    /// A version 2 index that gives the entries these ids, in the order of the entries.
    pub fn idx(&self, ids: &[Vec<u8>]) -> Vec<u8> {
        idx_v2(self.hash, &self.rows(ids), &[], self.checksum())
    }

    /// A version 1 index that gives the entries these ids, in the order of the entries.
    pub fn idx_v1(&self, ids: &[Vec<u8>]) -> Vec<u8> {
        let mut rows = self.rows(ids);
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        let mut bytes = fanout(&rows);
        for row in &rows {
            bytes.extend_from_slice(&row.offset.to_be_bytes());
            bytes.extend_from_slice(&row.id);
        }
        bytes.extend_from_slice(self.checksum());
        let own = checksum(self.hash, &bytes);
        bytes.extend_from_slice(&own);
        bytes
    }

    /// The reverse index for an index that gives the entries these ids.
    pub fn rev(&self, ids: &[Vec<u8>]) -> Vec<u8> {
        let mut rows = self.rows(ids);
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_by_key(|&row| rows[row as usize].offset);
        rev(self.hash, &order, self.checksum())
    }

    /// Writes `pack-<checksum>.pack` and `.idx` into `pack/` of an object directory; returns the path of the `.pack`.
    pub fn write(&self, objects: &Path, idx: &[u8]) -> PathBuf {
        self.write_as(objects, &format!("pack-{}", hex(self.checksum())), idx)
    }

    /// As [`write`](Self::write), under another name.
    pub fn write_as(&self, objects: &Path, name: &str, idx: &[u8]) -> PathBuf {
        let dir = objects.join("pack");
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(name).with_extension("pack");
        fs::write(&path, &self.bytes).unwrap();
        fs::write(path.with_extension("idx"), idx).unwrap();
        path
    }
}

/// One object of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// 20 or 32 bytes.
    pub id: Vec<u8>,
    /// CRC-32 of the entry.
    pub crc: u32,
    /// As written to the table: with bit 31 set the rest is a slot of the table of 64-bit offsets.
    pub offset: u32,
}

/// A version 2 index of these rows (sorted here by id) and 64-bit offsets, with the right checksum.
pub fn idx_v2(hash: Hash, rows: &[Row], large: &[u64], pack_checksum: &[u8]) -> Vec<u8> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    let mut bytes = b"\xfftOc\0\0\0\x02".to_vec();
    bytes.extend_from_slice(&fanout(&rows));
    rows.iter().for_each(|row| bytes.extend_from_slice(&row.id));
    rows.iter().for_each(|row| bytes.extend_from_slice(&row.crc.to_be_bytes()));
    rows.iter().for_each(|row| bytes.extend_from_slice(&row.offset.to_be_bytes()));
    large.iter().for_each(|offset| bytes.extend_from_slice(&offset.to_be_bytes()));
    bytes.extend_from_slice(pack_checksum);
    let own = checksum(hash, &bytes);
    bytes.extend_from_slice(&own);
    bytes
}

/// A reverse index that lists these index positions.
pub fn rev(hash: Hash, order: &[u32], pack_checksum: &[u8]) -> Vec<u8> {
    let mut bytes = b"RIDX\0\0\0\x01\0\0\0".to_vec();
    bytes.push(if hash == Hash::Sha1 { 1 } else { 2 });
    order.iter().for_each(|position| bytes.extend_from_slice(&position.to_be_bytes()));
    bytes.extend_from_slice(pack_checksum);
    let own = checksum(hash, &bytes);
    bytes.extend_from_slice(&own);
    bytes
}

fn fanout(rows: &[Row]) -> Vec<u8> {
    (0..=255u8).flat_map(|first| (rows.iter().filter(|row| row.id[0] <= first).count() as u32).to_be_bytes()).collect()
}

/// An instruction of a delta.
#[derive(Debug, Clone, Copy)]
pub enum Op<'a> {
    /// Copy from the base: offset (below 2^32), length (1 to 2^24 - 1).
    Copy(u32, u32),
    /// Insert these bytes (1 to 127).
    Insert(&'a [u8]),
    /// Whatever these bytes mean.
    Raw(&'a [u8]),
}

/// A delta that claims these sizes, with these instructions.
pub fn delta(base_size: u64, result_size: u64, ops: &[Op<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_size(&mut bytes, base_size);
    push_size(&mut bytes, result_size);
    for op in ops {
        match op {
            Op::Copy(offset, len) => {
                let at = bytes.len();
                bytes.push(0x80);
                let len = if *len == 0x1_0000 { 0 } else { *len };
                let fields = offset.to_le_bytes().into_iter().chain(len.to_le_bytes().into_iter().take(3));
                for (bit, byte) in fields.enumerate() {
                    if byte != 0 {
                        bytes[at] |= 1 << bit;
                        bytes.push(byte);
                    }
                }
            }
            Op::Insert(new) => {
                bytes.push(new.len() as u8);
                bytes.extend_from_slice(new);
            }
            Op::Raw(raw) => bytes.extend_from_slice(raw),
        }
    }
    bytes
}

/// Applies a delta the plain way; `None` where git refuses it.
pub fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    fn size(bytes: &mut &[u8]) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            let part = u64::from(byte & 0x7f);
            if shift > 63 || part << shift >> shift != part {
                return None;
            }
            value |= part << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }
    if delta.len() < 4 {
        return None;
    }
    let mut rest = delta;
    if size(&mut rest)? != base.len() as u64 {
        return None;
    }
    let result_size = size(&mut rest)?;
    let mut out = Vec::new();
    while let Some((&op, after)) = rest.split_first() {
        rest = after;
        if op & 0x80 != 0 {
            let mut fields = [0u32; 7];
            for (bit, field) in fields.iter_mut().enumerate() {
                if op >> bit & 1 != 0 {
                    let (&byte, after) = rest.split_first()?;
                    rest = after;
                    *field = u32::from(byte);
                }
            }
            let offset = (fields[0] | fields[1] << 8 | fields[2] << 16 | fields[3] << 24) as usize;
            let len = match (fields[4] | fields[5] << 8 | fields[6] << 16) as usize {
                0 => 0x1_0000,
                len => len,
            };
            out.extend_from_slice(base.get(offset..offset.checked_add(len)?)?);
        } else if op != 0 {
            out.extend_from_slice(rest.get(..op as usize)?);
            rest = &rest[op as usize..];
        } else {
            return None;
        }
        if out.len() as u64 > result_size {
            return None;
        }
    }
    (out.len() as u64 == result_size).then_some(out)
}

/// The id of an object.
pub fn object_id(hash: Hash, kind: &str, content: &[u8]) -> Vec<u8> {
    checksum(hash, &[format!("{kind} {}\0", content.len()).as_bytes(), content].concat())
}

/// The hash of bytes.
pub fn checksum(hash: Hash, bytes: &[u8]) -> Vec<u8> {
    match hash {
        Hash::Sha1 => sha1::Sha1::digest(bytes).to_vec(),
        Hash::Sha256 => sha2::Sha256::digest(bytes).to_vec(),
    }
}

/// Replaces the trailing hash of a file by that of the bytes before it.
pub fn resign(hash: Hash, bytes: &mut [u8]) {
    let at = bytes.len() - hash.len();
    let right = checksum(hash, &bytes[..at]);
    bytes[at..].copy_from_slice(&right);
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that hexadecimal digits stand for.
pub fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "an odd number of digits: {text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// A zlib stream of `bytes` at a level from 0 (stored) to 9.
pub fn deflate(bytes: &[u8], level: i32) -> Vec<u8> {
    let mut out = vec![0; 2 * bytes.len() + 1024];
    let mut state = zlib_rs::Deflate::new(level, true, 15);
    let status = state.compress(bytes, &mut out, zlib_rs::DeflateFlush::Finish).unwrap();
    assert_eq!(status, zlib_rs::Status::StreamEnd);
    out.truncate(state.total_out() as usize);
    out
}

/// Writes a loose object whose inflated bytes, header included, are `inflated`, under the id given; returns its path.
pub fn write_loose(objects: &Path, id: &[u8], inflated: &[u8]) -> PathBuf {
    write_loose_raw(objects, id, &deflate(inflated, 6))
}

/// Writes a loose object's file as it is, under the id given; returns its path.
pub fn write_loose_raw(objects: &Path, id: &[u8], bytes: &[u8]) -> PathBuf {
    let hex = hex(id);
    let dir = objects.join(&hex[..2]);
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join(&hex[2..]);
    let _ = fs::remove_file(&path); // git's are read-only
    fs::write(&path, bytes).unwrap();
    path
}

/// Type and size of an entry.
pub fn push_header(out: &mut Vec<u8>, kind: u8, size: u64) {
    let first = kind << 4 | (size & 0x0f) as u8;
    let rest = size >> 4;
    out.push(if rest > 0 { first | 0x80 } else { first });
    if rest > 0 {
        push_size(out, rest);
    }
}

/// The size encoding: seven bits a byte, lowest first.
pub fn push_size(out: &mut Vec<u8>, mut size: u64) {
    while size > 0x7f {
        out.push(size as u8 | 0x80);
        size >>= 7;
    }
    out.push(size as u8);
}

/// The offset encoding: highest first, each continuation worth one more.
pub fn push_distance(out: &mut Vec<u8>, mut distance: u64) {
    let mut bytes = vec![(distance & 0x7f) as u8];
    distance >>= 7;
    while distance > 0 {
        distance -= 1;
        bytes.push((distance & 0x7f) as u8 | 0x80);
        distance >>= 7;
    }
    bytes.reverse();
    out.extend_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestRepo;

    #[test]
    fn git_reads_what_is_built() {
        for hash in Hash::ALL {
            let repo = TestRepo::bare(hash);
            let text = b"abcdefgh".repeat(8);
            let longer = [&text[..], b"!"].concat();
            let program = delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"!")]);
            assert_eq!(apply(&text, &program), Some(longer.clone()));
            let third = [&b"?"[..], &longer].concat();
            let id = |bytes: &[u8]| object_id(hash, "blob", bytes);
            let pack = PackBuilder::new(hash)
                .entry(Entry::full("blob", &text))
                .entry(Entry::ofs_to(0, &program))
                .entry(Entry::reference(&id(&longer), &delta(65, 66, &[Op::Insert(b"?"), Op::Copy(0, 65)])))
                .build();
            let ids = [id(&text), id(&longer), id(&third)];
            let path = pack.write(&repo.objects_dir(), &pack.idx(&ids));
            fs::write(path.with_extension("rev"), pack.rev(&ids)).unwrap();
            let listed = repo.verify_pack(&path);
            assert_eq!(listed.iter().map(|object| object.offset).collect::<Vec<_>>(), {
                pack.entries.iter().map(|entry| entry.offset).collect::<Vec<_>>()
            });
            assert_eq!(repo.read(&hex(&ids[2])), third);
            fs::write(path.with_extension("idx"), pack.idx_v1(&ids)).unwrap();
            assert_eq!(repo.read(&hex(&ids[2])), third);
            let loose = id(b"loose");
            write_loose(&repo.objects_dir(), &loose, b"blob 5\0loose");
            assert_eq!(repo.read(&hex(&loose)), b"loose");
        }
    }
}
