//! A bitmap file taken apart, to be put together again with a part changed. Knows the format on its own, but for the
//! compressed bitmaps.

use ewah::{Ewah, EwahBuf};
use testkit::{Hash, TestRepo};

pub(crate) const HASHES: u16 = 0x4;
pub(crate) const TABLE: u16 = 0x10;
pub(crate) const PSEUDO: u16 = 0x20;

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) pos: u32,
    pub(crate) xor: u8,
    pub(crate) flags: u8,
    pub(crate) bitmap: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) hash: Hash,
    pub(crate) flags: u16,
    /// Overrides the number of entries.
    pub(crate) count: Option<u32>,
    pub(crate) pack: Vec<u8>,
    pub(crate) types: Vec<Vec<u8>>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) pseudo: Vec<u8>,
    /// Rows of the lookup table: commit, offset, row of the base. Computed if empty and the flag is set.
    pub(crate) table: Vec<(u32, u64, u32)>,
    pub(crate) names: Vec<u8>,
}

pub(crate) fn wire(bitmap: &EwahBuf) -> Vec<u8> {
    let mut out = Vec::new();
    bitmap.append_to(&mut out);
    out
}

pub(crate) fn bits(of: &[u8]) -> (Vec<u32>, u32) {
    let (e, _) = Ewah::parse(of).unwrap();
    (e.ones().collect(), e.bit_len() as u32)
}

pub(crate) fn made_of(bits: impl IntoIterator<Item = u32>, len: u32) -> Vec<u8> {
    let mut b = EwahBuf::builder();
    bits.into_iter().for_each(|bit| b.set(bit).unwrap());
    wire(&b.finish_with_bits(len).unwrap())
}

impl Parts {
    /// `objects` is the number of objects in the pack.
    pub(crate) fn of(file: &[u8], hash: Hash, objects: u32) -> Parts {
        let flags = u16::from_be_bytes([file[6], file[7]]);
        let count = u32::from_be_bytes(file[8..12].try_into().unwrap());
        let mut at = 12 + hash.len();
        let pack = file[12..at].to_vec();
        let mut next = |skip: usize| {
            let head = &file[at..at + skip];
            let (_, used) = Ewah::parse(&file[at + skip..]).unwrap();
            at += skip + used;
            (head, file[at - used..at].to_vec())
        };
        let types = (0..4).map(|_| next(0).1).collect();
        let entries = (0..count)
            .map(|_| {
                let (head, bitmap) = next(6);
                let pos = u32::from_be_bytes(head[..4].try_into().unwrap());
                Entry { pos, xor: head[4], flags: head[5], bitmap }
            })
            .collect();
        let end = file.len() - hash.len();
        let names = if flags & HASHES != 0 { end - objects as usize * 4..end } else { end..end };
        let (names, pseudo) = (file[names].to_vec(), Vec::new());
        Parts { hash, flags, count: None, pack, types, entries, pseudo, table: vec![], names }
    }

    pub(crate) fn of_repo(repo: &TestRepo) -> Parts {
        let pack = repo.only_pack();
        let file = std::fs::read(pack.with_extension("bitmap")).unwrap();
        Parts::of(&file, repo.hash(), repo.ids_of_pack(&pack).len() as u32)
    }

    /// The rows of a right lookup table.
    pub(crate) fn rows(&self) -> Vec<(u32, u64, u32)> {
        let mut at = 12 + self.hash.len() + self.types.iter().map(Vec::len).sum::<usize>();
        let mut rows: Vec<_> = self
            .entries
            .iter()
            .enumerate()
            .map(|(nr, e)| {
                let here = at as u64;
                at += 6 + e.bitmap.len();
                let base = nr.checked_sub(e.xor.into()).filter(|_| e.xor > 0);
                let base = base.map(|nr| self.entries[nr].pos);
                (e.pos, here, base)
            })
            .collect();
        rows.sort();
        let row_of = |pos| rows.iter().position(|r| r.0 == pos).unwrap() as u32;
        rows.iter().map(|(p, at, base)| (*p, *at, base.map_or(u32::MAX, row_of))).collect()
    }

    /// The file, with a right trailing checksum.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"BITM\0\x01".to_vec();
        out.extend(self.flags.to_be_bytes());
        out.extend(self.count.unwrap_or(self.entries.len() as u32).to_be_bytes());
        out.extend(&self.pack);
        self.types.iter().for_each(|t| out.extend(t));
        for e in &self.entries {
            out.extend(e.pos.to_be_bytes());
            out.extend([e.xor, e.flags]);
            out.extend(&e.bitmap);
        }
        out.extend(&self.pseudo);
        if self.flags & TABLE != 0 {
            let rows = if self.table.is_empty() { self.rows() } else { self.table.clone() };
            for (pos, at, base) in rows {
                out.extend(pos.to_be_bytes());
                out.extend(at.to_be_bytes());
                out.extend(base.to_be_bytes());
            }
        }
        out.extend(&self.names);
        out.extend(testkit::pack::checksum(self.hash, &out));
        out
    }
}
