//! Pack index files: from ids to offsets. All integers are big-endian (gitformat-pack, "pack-*.idx files").
//!
//! Version 2, of `n` objects with ids of `h` bytes:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | signature `\377tOc`, no sensible start of version 1 |
//! | 4 | 4 | version, 2 |
//! | 8 | 256 x 4 | fan-out: number of ids whose first byte is at most the slot's number; the last one is `n` |
//! | 1032 | n x h | ids, ascending |
//! | | n x 4 | CRC-32 of each entry as it lies in the pack: header, base reference, deflated bytes |
//! | | n x 4 | offset below 2^31; or bit 31 and the number of a slot in the next table |
//! | | m x 8 | offsets |
//! | end - 2h | h | checksum of the pack |
//! | end - h | h | checksum of all bytes before it |
//!
//! Version 1 begins with the fan-out table, then has `n` times a four-byte offset and an id, then the same end.
//!
//! The 64-bit table may hold small offsets too, in any order, and slots may be shared or unused. Git reads at most
//! `n - 1` slots although it can be made to write `n`; here up to `n` are read. A slot number beyond the table, or an
//! offset of 2^63 and more, is an error for that object only.

use std::{
    io::{self, Write},
    ops::Range,
};

use hashfile::HashFile;
use object::{Checksum, HashKind, ObjectId, Prefix};

use crate::{
    IdxPos, PackOffset, ParseError, ParseErrorKind, WriteError,
    ids::{FANOUT_LEN, IdTable, be32},
};

const SIGNATURE: [u8; 4] = *b"\xfftOc";
/// The largest offset in the four-byte table of version 2, and the bit that marks a slot number.
const LARGE: u32 = 1 << 31;

/// A pack index over bytes of any owner: borrowed, mapped or read.
#[derive(Debug, Clone)]
pub struct Idx<D> {
    data: D,
    version: u32,
    /// Version 1 has one table: its ids are four bytes behind its offsets, and `4 + h` from one to the next.
    ids: IdTable,
    crcs_at: usize,
    offsets_at: usize,
    large_at: usize,
    large_count: u32,
    /// Length of the whole file.
    len: usize,
}

impl<D: AsRef<[u8]>> Idx<D> {
    /// Settles version, fan-out table and length, in constant time; accepts what git accepts, and `n` large slots.
    ///
    /// `data` must be the whole file and must not change.
    pub fn parse(data: D, hash: HashKind) -> Result<Self, ParseError> {
        let bytes = data.as_ref();
        let (len, h) = (bytes.len(), hash.len());
        let version_2 = bytes.starts_with(&SIGNATURE);
        let fanout_at = if version_2 { 8 } else { 0 };
        let least = fanout_at + FANOUT_LEN + 2 * h;
        if len < least {
            return Err(ParseError::truncated("pack index", least, len));
        }
        if version_2 {
            let version = be32(bytes, 4);
            if version != 2 {
                let kind = ParseErrorKind::Unsupported { what: "pack index version", found: version };
                return Err(ParseError::new(4, kind));
            }
        }
        let count = IdTable::read_fanout(bytes, fanout_at)?;
        // 64-bit arithmetic: 2^32 objects of 40 bytes stay far below its end, also where `usize` is narrow.
        let (n, found) = (u64::from(count), len as u64);
        let stride = if version_2 { h } else { h + 4 };
        let expected = least as u64 + n * if version_2 { h as u64 + 8 } else { h as u64 + 4 };
        let most = if version_2 { expected + n * 8 } else { expected };
        if found < expected || found > most {
            let what = "pack index";
            return Err(ParseError::new(len, ParseErrorKind::WrongSize { what, expected, found }));
        }
        // All below `len` now, so they fit.
        let (n, ids_at) = (count as usize, fanout_at + FANOUT_LEN);
        let (ids_at, crcs_at, offsets_at) =
            if version_2 { (ids_at, ids_at + n * h, ids_at + n * (h + 4)) } else { (ids_at + 4, 0, ids_at) };
        Ok(Self {
            version: if version_2 { 2 } else { 1 },
            ids: IdTable { hash, count, fanout_at, ids_at, stride },
            crcs_at,
            offsets_at,
            large_at: offsets_at + n * 4,
            large_count: ((found - expected) / 8) as u32,
            len,
            data,
        })
    }

    /// 1 or 2.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The kind of its ids.
    #[inline]
    pub fn hash_kind(&self) -> HashKind {
        self.ids.hash
    }

    /// How many objects it lists.
    #[inline]
    pub fn count(&self) -> u32 {
        self.ids.count
    }

    /// How many slots the table of 64-bit offsets has.
    #[inline]
    pub fn large_count(&self) -> u32 {
        self.large_count
    }

    /// The whole file.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// How many ids begin with `first_byte` or a lower byte.
    #[inline]
    pub fn fanout(&self, first_byte: u8) -> u32 {
        self.ids.fanout(self.bytes(), first_byte)
    }

    /// The id at `pos`.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn id(&self, pos: IdxPos) -> ObjectId {
        self.ids.id(self.bytes(), pos.get())
    }

    /// The bytes of the id at `pos`.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn id_bytes(&self, pos: IdxPos) -> &[u8] {
        self.ids.id_bytes(self.bytes(), pos.get())
    }

    /// Where the object's entry begins in the pack. Constant time.
    ///
    /// An error if its slot is not there or holds 2^63 or more. Whether the pack is that long is for the caller to check.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn offset(&self, pos: IdxPos) -> Result<PackOffset, ParseError> {
        self.check(pos);
        if self.version == 1 {
            return Ok(PackOffset::new(u64::from(be32(self.bytes(), self.offsets_at + pos.index() * self.ids.stride))));
        }
        let at = self.offsets_at + pos.index() * 4;
        match be32(self.bytes(), at) {
            small if small < LARGE => Ok(PackOffset::new(u64::from(small))),
            slot => self.large_offset(at, slot - LARGE),
        }
    }

    /// CRC-32 of the entry's bytes in the pack; `None` in version 1, which has none.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn crc32(&self, pos: IdxPos) -> Option<u32> {
        self.check(pos);
        (self.version == 2).then(|| be32(self.bytes(), self.crcs_at + pos.index() * 4))
    }

    /// The ids in their order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = ObjectId> + Clone + '_ {
        (0..self.ids.count as usize).map(|pos| self.id(IdxPos::new(pos as u32)))
    }

    /// The offsets in the order of the ids.
    pub fn offsets(&self) -> impl ExactSizeIterator<Item = Result<PackOffset, ParseError>> + Clone + '_ {
        (0..self.ids.count as usize).map(|pos| self.offset(IdxPos::new(pos as u32)))
    }

    /// Where `id` is listed. An id of another kind is not.
    ///
    /// Fan-out, then interpolation: ids are hashes and thus evenly spread, so two or three probes usually do. On ids that
    /// were chosen to defeat that it is still logarithmic. If an id is listed twice, any of the two.
    #[inline]
    pub fn lookup(&self, id: &ObjectId) -> Option<IdxPos> {
        if id.kind() != self.ids.hash {
            return None;
        }
        self.lookup_bytes(id.as_bytes())
    }

    /// Where the id of these bytes is listed; see [`lookup`](Self::lookup).
    #[inline]
    pub fn lookup_bytes(&self, id: &[u8]) -> Option<IdxPos> {
        self.ids.lookup(self.bytes(), id).map(IdxPos::new)
    }

    /// The positions of all ids that begin with `prefix`; empty where they would be if there are none. Logarithmic.
    pub fn prefix_range(&self, prefix: &Prefix) -> Range<u32> {
        self.ids.prefix_range(self.bytes(), prefix)
    }

    /// Checksum of the pack it was made for; also that pack's trailer.
    #[inline]
    pub fn pack_checksum(&self) -> ObjectId {
        self.trailer(2)
    }

    /// Its own checksum, as the trailer says.
    #[inline]
    pub fn idx_checksum(&self) -> ObjectId {
        self.trailer(1)
    }

    /// Whether the trailer is the checksum of the bytes before it. Linear.
    pub fn verify_checksum(&self) -> Result<(), ParseError> {
        verify_trailer(self.bytes(), self.ids.hash)
    }

    /// All of the contents: checksum, ids ascending and where the fan-out table says, offsets readable and behind the
    /// pack's header. Linear. Equal neighbours are accepted, as by git: some packs hold an object twice.
    pub fn verify_all(&self) -> Result<(), ParseError> {
        self.verify_checksum()?;
        let mut last: Option<&[u8]> = None;
        for pos in (0..self.ids.count).map(IdxPos::new) {
            let id = self.id_bytes(pos);
            let bucket = self.ids.bucket(self.bytes(), id.first().copied().unwrap_or_default());
            if last.is_some_and(|last| last > id) || !bucket.contains(&pos.get()) {
                return Err(ParseError::new(self.ids.ids_at + pos.index() * self.ids.stride, ParseErrorKind::Order));
            }
            last = Some(id);
            let offset = self.offset(pos)?.get();
            if offset < crate::entry::PackHeader::LEN as u64 {
                let kind = ParseErrorKind::OffsetInHeader(offset);
                return Err(ParseError::new(self.offsets_at + pos.index() * 4, kind));
            }
        }
        Ok(())
    }

    /// Gives the bytes back.
    pub fn into_inner(self) -> D {
        self.data
    }

    /// The bytes that were parsed. An owner that now hands out fewer breaks its promise; then the accessors panic.
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    #[inline]
    fn check(&self, pos: IdxPos) {
        assert!(pos.get() < self.ids.count, "position {pos} in a pack index of {}", self.ids.count);
    }

    #[cold]
    fn large_offset(&self, at: usize, slot: u32) -> Result<PackOffset, ParseError> {
        if slot >= self.large_count {
            let (found, limit) = (u64::from(slot), u64::from(self.large_count));
            let kind = ParseErrorKind::OutOfRange { what: "64-bit offset slot", found, limit };
            return Err(ParseError::new(at, kind));
        }
        let at = self.large_at + slot as usize * 8;
        let found = u64::from(be32(self.bytes(), at)) << 32 | u64::from(be32(self.bytes(), at + 4));
        if found >= 1 << 63 {
            let kind = ParseErrorKind::OutOfRange { what: "pack offset", found, limit: 1 << 63 };
            return Err(ParseError::new(at, kind));
        }
        Ok(PackOffset::new(found))
    }

    /// The id that begins `ids` ids before the end.
    fn trailer(&self, ids: usize) -> ObjectId {
        let at = self.len - ids * self.ids.hash.len();
        let bytes = self.bytes().get(at..).unwrap_or_default();
        ObjectId::from_prefix(bytes, self.ids.hash).unwrap_or(self.ids.hash.null())
    }
}

/// Whether the last bytes are the checksum of all others.
pub(crate) fn verify_trailer(bytes: &[u8], hash: HashKind) -> Result<(), ParseError> {
    let Some((body, trailer)) = bytes.len().checked_sub(hash.len()).and_then(|at| bytes.split_at_checked(at)) else {
        return Err(ParseError::truncated("trailer", hash.len(), bytes.len()));
    };
    let mut checksum = Checksum::new(hash);
    checksum.update(body);
    let expected = checksum.finish();
    let found = ObjectId::from_prefix(trailer, hash).unwrap_or(hash.null());
    if found != expected {
        return Err(ParseError::new(body.len(), ParseErrorKind::Checksum { expected, found }));
    }
    Ok(())
}

/// How an index is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Version 2: the largest offset for the four-byte table; larger ones take a 64-bit slot. Git's
    /// `--index-version=2,<offset>`, for tests of the large table. At most 2^31 - 1, the default; more counts as that.
    pub offset_limit: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { offset_limit: LARGE - 1 }
    }
}

impl Options {
    /// Sets [`offset_limit`](Self::offset_limit).
    pub fn offset_limit(mut self, limit: u32) -> Self {
        self.offset_limit = limit;
        self
    }
}

/// Writes a version 2 index and returns the writer and the index's own checksum.
///
/// `entries` are id, CRC-32 of the entry's bytes, and offset; ascending by id. They are gone through five times, once to
/// count and once for each table. The bytes are those that git writes for the same pack. Writes are buffered; `w` is not
/// flushed beyond what `write` does.
pub fn write_v2<W: Write>(
    w: W,
    entries: impl Iterator<Item = (ObjectId, u32, PackOffset)> + Clone,
    pack_checksum: &ObjectId,
) -> Result<(W, ObjectId), WriteError> {
    write_v2_with(w, entries, pack_checksum, &Options::default())
}

/// [`write_v2`] with options.
pub fn write_v2_with<W: Write>(
    w: W,
    entries: impl Iterator<Item = (ObjectId, u32, PackOffset)> + Clone,
    pack_checksum: &ObjectId,
    options: &Options,
) -> Result<(W, ObjectId), WriteError> {
    let hash = pack_checksum.kind();
    let fanout = fanout(entries.clone().map(|(id, ..)| id), hash, false)?;
    let limit = u64::from(options.offset_limit.min(LARGE - 1));
    let n = u64::from(fanout[255]);
    let large = entries.clone().filter(|(.., offset)| offset.get() > limit).count() as u64;
    let h = hash.len() as u64;
    let size = 8 + FANOUT_LEN as u64 + n * (h + 8) + large * 8 + 2 * h;
    let mut out = Table::new(w, hash, size);
    out.put(&SIGNATURE)?;
    out.put(&2u32.to_be_bytes())?;
    out.fanout(&fanout)?;
    for (id, ..) in entries.clone() {
        out.put(id.as_bytes())?;
    }
    for (_, crc, _) in entries.clone() {
        out.put(&crc.to_be_bytes())?;
    }
    let mut slot = LARGE;
    for (.., offset) in entries.clone() {
        let value = match offset.get() {
            small if small <= limit => small as u32,
            offset if offset >= 1 << 63 => return Err(WriteError::Offset { offset, version: 2 }),
            // Fewer than 2^31 slots, or the entries before them already fill more than 2^63 bytes.
            _ => {
                let this = slot;
                slot = slot.checked_add(1).ok_or(WriteError::TooMany)?;
                this
            }
        };
        out.put(&value.to_be_bytes())?;
    }
    for (.., offset) in entries.filter(|(.., offset)| offset.get() > limit) {
        out.put(&offset.get().to_be_bytes())?;
    }
    out.put(pack_checksum.as_bytes())?;
    out.finish()
}

/// Writes a version 1 index and returns the writer and the index's own checksum.
///
/// `entries` are id and offset, ascending by id; offsets must be below 2^32. They are gone through twice. Only for
/// readers that know nothing newer: without CRCs, reuse of its entries has to inflate them.
pub fn write_v1<W: Write>(
    w: W,
    entries: impl Iterator<Item = (ObjectId, PackOffset)> + Clone,
    pack_checksum: &ObjectId,
) -> Result<(W, ObjectId), WriteError> {
    let hash = pack_checksum.kind();
    let fanout = fanout(entries.clone().map(|(id, _)| id), hash, false)?;
    let h = hash.len() as u64;
    let mut out = Table::new(w, hash, FANOUT_LEN as u64 + u64::from(fanout[255]) * (4 + h) + 2 * h);
    out.fanout(&fanout)?;
    for (id, offset) in entries {
        let offset = offset.get();
        let small = u32::try_from(offset).map_err(|_| WriteError::Offset { offset, version: 1 })?;
        out.put(&small.to_be_bytes())?;
        out.put(id.as_bytes())?;
    }
    out.put(pack_checksum.as_bytes())?;
    out.finish()
}

/// Counts ids by first byte, cumulatively, and checks kind and order; `once` refuses equal neighbours.
pub(crate) fn fanout(
    ids: impl Iterator<Item = ObjectId>,
    hash: HashKind,
    once: bool,
) -> Result<[u32; 256], WriteError> {
    let mut fanout = [0u32; 256];
    let (mut count, mut last) = (0u64, None);
    for id in ids {
        if id.kind() != hash {
            return Err(WriteError::WrongHash { expected: hash, found: id.kind() });
        }
        if last.is_some_and(|last| last > id || once && last == id) {
            return Err(WriteError::Order { at: count });
        }
        last = Some(id);
        count += 1;
        if count > u64::from(u32::MAX) {
            return Err(WriteError::TooMany);
        }
        fanout[usize::from(id.first_byte())] += 1;
    }
    let mut sum = 0;
    for slot in &mut fanout {
        sum += *slot;
        *slot = sum;
    }
    Ok(fanout)
}

/// The writer of tables, whose bytes must add up to what was announced.
pub(crate) struct Table<W: Write> {
    out: HashFile<W>,
}

impl<W: Write> Table<W> {
    pub(crate) fn new(w: W, hash: HashKind, size: u64) -> Self {
        let options = hashfile::Options::default().size_hint(Some(size));
        Self { out: HashFile::with_options(w, hash, &options) }
    }

    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    pub(crate) fn fanout(&mut self, fanout: &[u32; 256]) -> io::Result<()> {
        fanout.iter().try_for_each(|slot| self.put(&slot.to_be_bytes()))
    }

    pub(crate) fn finish(self) -> Result<(W, ObjectId), WriteError> {
        self.out.finish().map_err(|error| WriteError::Io(error.into()))
    }
}
