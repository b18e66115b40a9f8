//! Multi-pack-index files: one list of ids for many packs; and the chain file that lists the layers of an incremental one.
//! All integers are big-endian (gitformat-pack, "multi-pack-index (MIDX) files").
//!
//! | offset | width | meaning | valid |
//! |---|---|---|---|
//! | 0 | 4 | signature | `MIDX` |
//! | 4 | 1 | version | 1 or 2 |
//! | 5 | 1 | hash | 1 SHA-1, 2 SHA-256 |
//! | 6 | 1 | number of chunks | |
//! | 7 | 1 | number of base files | always 0, not looked at: the chain file alone says which layers there are |
//! | 8 | 4 | number of packs, `p` | |
//! | 12 | 12 x chunks + 12 | table of contents ([`chunk`](crate::chunk)) | every chunk begins at a multiple of 4 |
//! | | | chunks, in any order | |
//! | end - h | h | checksum of all bytes before it | |
//!
//! Chunks, for `n` objects with ids of `h` bytes; a reader passes over others:
//!
//! | id | width | meaning |
//! |---|---|---|
//! | `PNAM` | | `p` names of `.idx` files without their folder, each followed by NUL, then NULs up to a multiple of 4. Version 1: ascending, each once. Version 2: in any order |
//! | `OIDF` | 256 x 4 | fan-out: number of ids whose first byte is at most the slot's number; the last one is `n` |
//! | `OIDL` | n x h | ids, ascending |
//! | `OOFF` | n x 8 | number of the pack in `PNAM`, four bytes; offset in that pack, four bytes |
//! | `LOFF` | m x 8 | only if some offset is 2^32 or more. Then an offset of 2^31 or more has a slot here, and `OOFF` has bit 31 and the slot's number. Without this chunk bit 31 belongs to the offset |
//! | `RIDX` | n x 4 | optional: positions in `OIDL` in the pseudo-pack order ([`PseudoPos`]), plus the number of objects in all layers below |
//! | `BTMP` | p x 8 | optional: the pack's first bit (pseudo-pack order, layers below counted), and how many bits it has |
//!
//! The order in which they are written is that of the table. `multi-pack-index-chain` has the checksum of a layer on each
//! line, in hexadecimal, the oldest layer first; the layer is the file `multi-pack-index-<checksum>.midx` beside it.

use std::{io::Write, ops::Range};

use object::{HashKind, ObjectId, Prefix};

use crate::{
    MidxPack, MidxPos, PackOffset, ParseError, ParseErrorKind, PseudoPos, WriteError,
    chunk::{ChunkId, Toc, encode_toc},
    ids::{FANOUT_LEN, IdTable, be32},
    idx::{Table, fanout, verify_trailer},
};

/// Chunk of the packs' names.
pub const PACK_NAMES: ChunkId = ChunkId(*b"PNAM");
/// Chunk of the fan-out table.
pub const FANOUT: ChunkId = ChunkId(*b"OIDF");
/// Chunk of the ids.
pub const IDS: ChunkId = ChunkId(*b"OIDL");
/// Chunk of packs and offsets.
pub const OFFSETS: ChunkId = ChunkId(*b"OOFF");
/// Chunk of 64-bit offsets.
pub const LARGE_OFFSETS: ChunkId = ChunkId(*b"LOFF");
/// Chunk of the pseudo-pack order.
pub const PSEUDO_ORDER: ChunkId = ChunkId(*b"RIDX");
/// Chunk of the packs' ranges of bits.
pub const BITMAPPED_PACKS: ChunkId = ChunkId(*b"BTMP");

/// What [`OutOfRange`](ParseErrorKind::OutOfRange) says is out of range where a pack number is.
pub const PACK_NUMBER: &str = "pack number";

const SIGNATURE: [u8; 4] = *b"MIDX";
const HEADER_LEN: usize = 12;
/// Chunks begin at multiples of this.
const ALIGN: u64 = 4;
/// With a `LOFF` chunk, the bit that marks a slot number.
const LARGE: u32 = 1 << 31;

/// Which form of a multi-pack-index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Version {
    /// Names are sorted. Every git since 2.20 reads it; the default.
    #[default]
    V1,
    /// Names are in any order. Git reads it since 2.54.
    V2,
}

impl Version {
    /// 1 or 2.
    pub const fn get(self) -> u8 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }

    /// The version of that number, if it is known.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Version::V1),
            2 => Some(Version::V2),
            _ => None,
        }
    }
}

/// A multi-pack-index, or one layer of an incremental one, over bytes of any owner: borrowed, mapped or read.
#[derive(Debug, Clone)]
pub struct Midx<D> {
    data: D,
    version: Version,
    ids: IdTable,
    /// Where each name is, without its NUL.
    names: Vec<Range<usize>>,
    /// The packs by name, if their own order is another.
    by_name: Option<Vec<MidxPack>>,
    offsets_at: usize,
    large: Option<Range<usize>>,
    pseudo_order: Option<Range<usize>>,
    bitmapped: Option<Range<usize>>,
}

impl<D: AsRef<[u8]>> Midx<D> {
    /// Settles header, table of contents, sizes of the required chunks, fan-out table and names. Linear in the number of
    /// packs (times its logarithm if a version 2 file does not sort them), not in that of objects.
    ///
    /// Every name is a plain file name: not empty, without slash or backslash, neither `.` nor `..`. Git takes whatever is
    /// there. `data` must be the whole file and must not change.
    pub fn parse(data: D, hash: HashKind) -> Result<Self, ParseError> {
        let bytes = data.as_ref();
        let h = hash.len();
        let least = HEADER_LEN + h;
        let Some((&[s0, s1, s2, s3, version, hash_id, chunks, _, p0, p1, p2, p3], _)) =
            bytes.split_first_chunk::<HEADER_LEN>().filter(|_| bytes.len() >= least)
        else {
            return Err(ParseError::truncated("multi-pack-index", least, bytes.len()));
        };
        if [s0, s1, s2, s3] != SIGNATURE {
            return Err(ParseError::new(0, ParseErrorKind::Signature { what: "a multi-pack-index" }));
        }
        let Some(version) = Version::from_number(version) else {
            let kind = ParseErrorKind::Unsupported { what: "multi-pack-index version", found: version.into() };
            return Err(ParseError::new(4, kind));
        };
        match HashKind::from_file_id(hash_id.into()) {
            Some(found) if found == hash => {}
            Some(found) => return Err(ParseError::new(5, ParseErrorKind::WrongHash { expected: hash, found })),
            None => {
                let kind = ParseErrorKind::Unsupported { what: "hash in multi-pack-index", found: hash_id.into() };
                return Err(ParseError::new(5, kind));
            }
        }
        let toc = Toc::parse(bytes, HEADER_LEN, chunks, h, ALIGN)
            .map_err(|error| ParseError { at: error.at, kind: ParseErrorKind::Chunks(error.kind) })?;
        let need = |chunk| toc.range(chunk).ok_or(ParseError::new(6, ParseErrorKind::NoChunk { chunk }));

        let names_chunk = need(PACK_NAMES)?;
        let fanout = need(FANOUT)?;
        check_size(&fanout, "fan-out chunk", FANOUT_LEN as u64)?;
        let count = IdTable::read_fanout(bytes, fanout.start)?;
        let ids = need(IDS)?;
        check_size(&ids, "chunk of ids", u64::from(count) * h as u64)?;
        let offsets = need(OFFSETS)?;
        check_size(&offsets, "chunk of offsets", u64::from(count) * 8)?;

        let names = read_names(bytes, names_chunk, u32::from_be_bytes([p0, p1, p2, p3]))?;
        let name = |pack: usize| names.get(pack).and_then(|range| bytes.get(range.clone())).unwrap_or_default();
        let mut by_name = None;
        if let Some(at) = (1..names.len()).find(|&pack| name(pack - 1) >= name(pack)) {
            if version == Version::V1 {
                let at = names.get(at).map_or(0, |range| range.start);
                return Err(ParseError::new(at, ParseErrorKind::NameOrder));
            }
            let mut order: Vec<_> = (0..names.len() as u32).map(MidxPack::new).collect();
            order.sort_by_key(|pack| name(pack.index()));
            by_name = Some(order);
        }
        Ok(Self {
            version,
            ids: IdTable { hash, count, fanout_at: fanout.start, ids_at: ids.start, stride: h },
            names,
            by_name,
            offsets_at: offsets.start,
            large: toc.range(LARGE_OFFSETS),
            pseudo_order: toc.range(PSEUDO_ORDER),
            bitmapped: toc.range(BITMAPPED_PACKS),
            data,
        })
    }

    /// Which version the file has.
    #[inline]
    pub fn version(&self) -> Version {
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

    /// How many packs it covers. In a chain: this layer alone.
    #[inline]
    pub fn pack_count(&self) -> u32 {
        self.names.len() as u32
    }

    /// The whole file.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// The name of a pack's `.idx` as the file has it, without folder.
    ///
    /// # Panics
    /// If `pack` is not below [`pack_count`](Self::pack_count).
    #[inline]
    pub fn pack_name(&self, pack: MidxPack) -> &[u8] {
        &self.bytes()[self.names[pack.index()].clone()]
    }

    /// The names of all packs, by their number.
    pub fn pack_names(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone + '_ {
        self.names.iter().map(|range| self.bytes().get(range.clone()).unwrap_or_default())
    }

    /// The pack of that name, which may be that of the `.idx`, of the `.pack`, or have no ending. Logarithmic.
    pub fn find_pack(&self, name: &[u8]) -> Option<MidxPack> {
        let stem = name.strip_suffix(b".idx").or(name.strip_suffix(b".pack")).unwrap_or(name);
        let at = |rank: usize| match &self.by_name {
            Some(order) => order.get(rank).copied().unwrap_or(MidxPack::new(0)),
            None => MidxPack::new(rank as u32),
        };
        let (mut low, mut high) = (0, self.names.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.pack_name(at(middle)).iter().cmp(stem.iter().chain(b".idx")) {
                std::cmp::Ordering::Equal => return Some(at(middle)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
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
    pub fn id(&self, pos: MidxPos) -> ObjectId {
        self.ids.id(self.bytes(), pos.get())
    }

    /// The bytes of the id at `pos`.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn id_bytes(&self, pos: MidxPos) -> &[u8] {
        self.ids.id_bytes(self.bytes(), pos.get())
    }

    /// The ids in their order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = ObjectId> + Clone + '_ {
        (0..self.ids.count as usize).map(|pos| self.id(MidxPos::new(pos as u32)))
    }

    /// Where `id` is listed. An id of another kind is not. Cost as [`Idx::lookup`](crate::idx::Idx::lookup).
    #[inline]
    pub fn lookup(&self, id: &ObjectId) -> Option<MidxPos> {
        if id.kind() != self.ids.hash {
            return None;
        }
        self.lookup_bytes(id.as_bytes())
    }

    /// Where the id of these bytes is listed.
    #[inline]
    pub fn lookup_bytes(&self, id: &[u8]) -> Option<MidxPos> {
        self.ids.lookup(self.bytes(), id).map(MidxPos::new)
    }

    /// The positions of all ids that begin with `prefix`; empty where they would be if there are none. Logarithmic.
    pub fn prefix_range(&self, prefix: &Prefix) -> Range<u32> {
        self.ids.prefix_range(self.bytes(), prefix)
    }

    /// In which pack the object's entry is, and where it begins there. Constant time.
    ///
    /// An error if there is no such pack, or the slot is not there or holds 2^63 or more; other objects are not concerned.
    /// Whether the pack is that long is for the caller to check.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn location(&self, pos: MidxPos) -> Result<(MidxPack, PackOffset), ParseError> {
        assert!(pos.get() < self.count(), "position {pos} in a multi-pack-index of {}", self.count());
        let at = self.offsets_at + pos.index() * 8;
        let pack = be32(self.bytes(), at);
        if pack >= self.pack_count() {
            let (found, limit) = (u64::from(pack), u64::from(self.pack_count()));
            return Err(ParseError::new(at, ParseErrorKind::OutOfRange { what: PACK_NUMBER, found, limit }));
        }
        let offset = match (be32(self.bytes(), at + 4), &self.large) {
            (slot, Some(large)) if slot >= LARGE => self.large_offset(at + 4, slot - LARGE, large)?,
            (small, _) => PackOffset::new(u64::from(small)),
        };
        Ok((MidxPack::new(pack), offset))
    }

    /// The pseudo-pack order, if the file has it. `base_objects` is how many objects the layers below have, 0 without a
    /// chain.
    pub fn pseudo_order(&self, base_objects: u32) -> Result<Option<PseudoOrder<'_>>, ParseError> {
        let Some(range) = &self.pseudo_order else { return Ok(None) };
        check_size(range, "chunk of the pseudo-pack order", u64::from(self.count()) * 4)?;
        let table = self.bytes().get(range.clone()).unwrap_or_default().as_chunks().0;
        Ok(Some(PseudoOrder { table, at: range.start, base: base_objects }))
    }

    /// Which bits of the bitmap are this pack's, if the file says so.
    ///
    /// # Panics
    /// If `pack` is not below [`pack_count`](Self::pack_count).
    pub fn bitmapped_pack(&self, pack: MidxPack) -> Result<Option<BitmappedPack>, ParseError> {
        assert!(pack.get() < self.pack_count(), "pack {pack} in a multi-pack-index of {}", self.pack_count());
        let Some(range) = &self.bitmapped else { return Ok(None) };
        check_size(range, "chunk of bitmapped packs", u64::from(self.pack_count()) * 8)?;
        let at = range.start + pack.index() * 8;
        let first = PseudoPos::new(be32(self.bytes(), at));
        Ok(Some(BitmappedPack { first, count: be32(self.bytes(), at + 4) }))
    }

    /// Its own checksum, as the trailer says. Names the layer's file in a chain, and bitmaps repeat it.
    pub fn checksum(&self) -> ObjectId {
        let bytes = self.bytes();
        let trailer = bytes.len().checked_sub(self.ids.hash.len()).and_then(|at| bytes.get(at..));
        trailer.and_then(|bytes| ObjectId::from_prefix(bytes, self.ids.hash)).unwrap_or(self.ids.hash.null())
    }

    /// Whether the trailer is the checksum of the bytes before it. Linear.
    pub fn verify_checksum(&self) -> Result<(), ParseError> {
        verify_trailer(self.bytes(), self.ids.hash)
    }

    /// All of the contents that can be told from the file alone: checksum, ids strictly ascending and where the fan-out
    /// table says, packs and offsets readable, the latter behind the pack's header. Linear.
    pub fn verify_all(&self) -> Result<(), ParseError> {
        self.verify_checksum()?;
        let mut last: Option<&[u8]> = None;
        for pos in (0..self.count()).map(MidxPos::new) {
            let id = self.id_bytes(pos);
            let bucket = self.ids.bucket(self.bytes(), id.first().copied().unwrap_or_default());
            if last.is_some_and(|last| last >= id) || !bucket.contains(&pos.get()) {
                return Err(ParseError::new(self.ids.ids_at + pos.index() * self.ids.stride, ParseErrorKind::Order));
            }
            last = Some(id);
            let (_, offset) = self.location(pos)?;
            if offset.get() < crate::entry::PackHeader::LEN as u64 {
                let kind = ParseErrorKind::OffsetInHeader(offset.get());
                return Err(ParseError::new(self.offsets_at + pos.index() * 8 + 4, kind));
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

    #[cold]
    fn large_offset(&self, at: usize, slot: u32, large: &Range<usize>) -> Result<PackOffset, ParseError> {
        let slots = self.bytes().get(large.clone()).unwrap_or_default().as_chunks::<8>().0;
        let Some(found) = slots.get(slot as usize).map(|slot| u64::from_be_bytes(*slot)) else {
            let (found, limit) = (u64::from(slot), slots.len() as u64);
            let kind = ParseErrorKind::OutOfRange { what: "64-bit offset slot", found, limit };
            return Err(ParseError::new(at, kind));
        };
        if found >= 1 << 63 {
            let kind = ParseErrorKind::OutOfRange { what: "pack offset", found, limit: 1 << 63 };
            return Err(ParseError::new(large.start + slot as usize * 8, kind));
        }
        Ok(PackOffset::new(found))
    }
}

fn check_size(range: &Range<usize>, what: &'static str, expected: u64) -> Result<(), ParseError> {
    let found = range.len() as u64;
    if found != expected {
        return Err(ParseError::new(range.start, ParseErrorKind::WrongSize { what, expected, found }));
    }
    Ok(())
}

/// Where `count` names are in the chunk.
fn read_names(bytes: &[u8], chunk: Range<usize>, count: u32) -> Result<Vec<Range<usize>>, ParseError> {
    let short = |at| {
        let what = "chunk of pack names";
        ParseError::new(at, ParseErrorKind::Truncated { what, need: u64::from(count) * 2, have: chunk.len() as u64 })
    };
    // A name has a byte and its NUL at least: a count beyond that must not allocate.
    if u64::from(count) * 2 > chunk.len() as u64 {
        return Err(short(chunk.start));
    }
    let mut names = Vec::with_capacity(count as usize);
    let mut at = chunk.start;
    for _ in 0..count {
        let rest = bytes.get(at..chunk.end).unwrap_or_default();
        let len = rest.iter().position(|&byte| byte == 0).ok_or_else(|| short(at))?;
        if !is_file_name(rest.get(..len).unwrap_or_default()) {
            return Err(ParseError::new(at, ParseErrorKind::Name));
        }
        names.push(at..at + len);
        at += len + 1;
    }
    Ok(names)
}

/// Whether joining it to a folder names something right in that folder.
fn is_file_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/' | b'\\'))
}

/// The `RIDX` chunk: from pseudo-pack order to id order.
#[derive(Debug, Clone, Copy)]
pub struct PseudoOrder<'a> {
    table: &'a [[u8; 4]],
    at: usize,
    base: u32,
}

impl PseudoOrder<'_> {
    /// How many objects the layer has.
    pub fn count(&self) -> u32 {
        self.table.len() as u32
    }

    /// The object at `pos`; both positions count this layer's objects alone. Constant time. An error if the chunk names an
    /// object that is not in this layer.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn midx_pos(&self, pos: PseudoPos) -> Result<MidxPos, ParseError> {
        let found = u32::from_be_bytes(self.table[pos.index()]);
        match found.checked_sub(self.base) {
            Some(local) if local < self.count() => Ok(MidxPos::new(local)),
            _ => {
                let limit = u64::from(self.base) + u64::from(self.count());
                let kind =
                    ParseErrorKind::OutOfRange { what: "position in the multi-pack-index", found: found.into(), limit };
                Err(ParseError::new(self.at + pos.index() * 4, kind))
            }
        }
    }
}

/// A row of the `BTMP` chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitmappedPack {
    /// The first bit of the pack's objects, over all layers.
    pub first: PseudoPos,
    /// How many objects are taken from the pack.
    pub count: u32,
}

/// How a multi-pack-index is written.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Options<'a> {
    /// Version 1 unless set.
    pub version: Version,
    /// The `RIDX` chunk: positions in the order of the entries, plus the number of objects in all layers below, by
    /// pseudo-pack order. As many as entries.
    pub pseudo_order: Option<&'a [MidxPos]>,
    /// The `BTMP` chunk, a row for each pack.
    pub bitmapped: Option<&'a [BitmappedPack]>,
}

impl<'a> Options<'a> {
    /// Sets [`version`](Self::version).
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Sets [`pseudo_order`](Self::pseudo_order).
    pub fn pseudo_order(mut self, order: Option<&'a [MidxPos]>) -> Self {
        self.pseudo_order = order;
        self
    }

    /// Sets [`bitmapped`](Self::bitmapped).
    pub fn bitmapped(mut self, packs: Option<&'a [BitmappedPack]>) -> Self {
        self.bitmapped = packs;
        self
    }
}

/// Writes a multi-pack-index and returns the writer and the file's checksum.
///
/// `names` are those of the `.idx` files, ascending in version 1. `entries` are id, pack (its rank in `names`) and offset,
/// each id once, ascending; they are gone through three times, and once more if an offset needs 64 bits. The bytes are
/// those that git writes for the same choice of copies.
///
/// # Errors
/// [`WriteError`]; nothing is written when names or ids are out of order.
pub fn write<W: Write, N: AsRef<[u8]>>(
    w: W,
    hash: HashKind,
    names: &[N],
    entries: impl Iterator<Item = (ObjectId, MidxPack, PackOffset)> + Clone,
    options: &Options<'_>,
) -> Result<(W, ObjectId), WriteError> {
    let pack_count = u32::try_from(names.len()).map_err(|_| WriteError::TooMany)?;
    let mut names_len = 0;
    let mut last: Option<&[u8]> = None;
    for (at, name) in names.iter().enumerate() {
        let name = name.as_ref();
        if !is_file_name(name) || options.version == Version::V1 && last.is_some_and(|last| last >= name) {
            return Err(WriteError::Name { at: at as u64 });
        }
        last = Some(name);
        names_len += name.len() as u64 + 1;
    }
    let padding = names_len.next_multiple_of(ALIGN) - names_len;
    let fanout = fanout(entries.clone().map(|(id, ..)| id), hash, true)?;
    let n = u64::from(fanout[255]);
    let (mut top, mut large) = (0, 0u64);
    for (at, (_, pack, offset)) in entries.clone().enumerate() {
        if pack.get() >= pack_count {
            return Err(WriteError::PackNumber { at: at as u64 });
        }
        top = top.max(offset.get());
        large += u64::from(offset.get() >= u64::from(LARGE));
    }
    if top >= 1 << 63 {
        return Err(WriteError::Offset { offset: top, version: options.version.get().into() });
    }
    let wide = top > u64::from(u32::MAX);
    let wrong_len = |order: &[_]| order.len() as u64 != n;
    if options.pseudo_order.is_some_and(wrong_len) || options.bitmapped.is_some_and(|rows| rows.len() != names.len()) {
        return Err(WriteError::Order { at: n });
    }

    let h = hash.len() as u64;
    let mut chunks =
        vec![(PACK_NAMES, names_len + padding), (FANOUT, FANOUT_LEN as u64), (IDS, n * h), (OFFSETS, n * 8)];
    chunks.extend(wide.then_some((LARGE_OFFSETS, large * 8)));
    chunks.extend(options.pseudo_order.map(|_| (PSEUDO_ORDER, n * 4)));
    chunks.extend(options.bitmapped.map(|_| (BITMAPPED_PACKS, u64::from(pack_count) * 8)));
    let mut head = SIGNATURE.to_vec();
    head.extend([options.version.get(), hash.file_id() as u8, chunks.len() as u8, 0]);
    head.extend(pack_count.to_be_bytes());
    encode_toc(&chunks, HEADER_LEN as u64, &mut head);
    let body: u64 = chunks.iter().map(|(_, size)| size).sum();

    let mut out = Table::new(w, hash, head.len() as u64 + body + h);
    out.put(&head)?;
    for name in names {
        out.put(name.as_ref())?;
        out.put(&[0])?;
    }
    out.put(&[0; ALIGN as usize][..padding as usize])?;
    out.fanout(&fanout)?;
    for (id, ..) in entries.clone() {
        out.put(id.as_bytes())?;
    }
    let mut slot = LARGE;
    for (_, pack, offset) in entries.clone() {
        let value = if wide && offset.get() >= u64::from(LARGE) {
            let this = slot;
            slot = slot.checked_add(1).ok_or(WriteError::TooMany)?;
            this
        } else {
            offset.get() as u32
        };
        out.put(&(u64::from(pack.get()) << 32 | u64::from(value)).to_be_bytes())?;
    }
    if wide {
        for (.., offset) in entries.filter(|(.., offset)| offset.get() >= u64::from(LARGE)) {
            out.put(&offset.get().to_be_bytes())?;
        }
    }
    for pos in options.pseudo_order.unwrap_or_default() {
        out.put(&pos.get().to_be_bytes())?;
    }
    for row in options.bitmapped.unwrap_or_default() {
        out.put(&row.first.get().to_be_bytes())?;
        out.put(&row.count.to_be_bytes())?;
    }
    out.finish()
}

/// The layers of an incremental multi-pack-index, oldest first: the content of `multi-pack-index-chain`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// The checksum of each layer.
    pub layers: Vec<ObjectId>,
}

impl Chain {
    /// Reads a chain file. Empty bytes are an empty chain, which git takes for none. The last line may lack its newline.
    ///
    /// # Errors
    /// At the first line that is no id of that kind. Git uses the layers before it; they are in
    /// [`parse_prefix`](Self::parse_prefix).
    pub fn parse(bytes: &[u8], hash: HashKind) -> Result<Self, ParseError> {
        match Self::parse_prefix(bytes, hash) {
            (chain, None) => Ok(chain),
            (_, Some(error)) => Err(error),
        }
    }

    /// The layers that the file names before its end or its first bad line, and what is wrong with the latter. A file that
    /// is too short for one id names none.
    pub fn parse_prefix(bytes: &[u8], hash: HashKind) -> (Self, Option<ParseError>) {
        let mut chain = Self::default();
        let mut at = 0;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            match ObjectId::from_hex(text) {
                Ok(id) if id.kind() == hash => chain.layers.push(id),
                _ if text.len() < hash.hex_len() => {
                    let (need, have) = (hash.hex_len() as u64, text.len() as u64);
                    let kind = ParseErrorKind::Truncated { what: "line of the multi-pack-index chain", need, have };
                    return (chain, Some(ParseError::new(at, kind)));
                }
                _ => return (chain, Some(ParseError::new(at, ParseErrorKind::ChainLine))),
            }
            at += line.len();
        }
        (chain, None)
    }

    /// The file's bytes: a line for each layer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for id in &self.layers {
            // Writing to memory does not fail.
            let _ = writeln!(out, "{id}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::ROW_LEN;

    /// The table at the top is what the code does.
    #[test]
    fn layout() {
        let (id, pack) = (HashKind::Sha1.null(), MidxPack::new(0));
        let rows = [BitmappedPack { first: PseudoPos::new(0), count: 1 }];
        let order = [MidxPos::new(0)];
        let options = Options::default().pseudo_order(Some(&order)).bitmapped(Some(&rows));
        let entry = [(id, pack, PackOffset::new(1 << 32))];
        let (out, checksum) = write(Vec::new(), HashKind::Sha1, &["a.idx"], entry.into_iter(), &options).unwrap();
        assert_eq!(out[..HEADER_LEN], *b"MIDX\x01\x01\x07\0\0\0\0\x01");
        let table = HEADER_LEN + 8 * ROW_LEN;
        assert_eq!(&out[table..table + 8], b"a.idx\0\0\0");
        assert_eq!(out.len(), table + 8 + 1024 + 20 + 8 + 8 + 4 + 8 + 20);
        let midx = Midx::parse(&out[..], HashKind::Sha1).unwrap();
        assert_eq!(midx.checksum(), checksum);
        assert_eq!(midx.location(MidxPos::new(0)), Ok((pack, PackOffset::new(1 << 32))));
        assert_eq!(midx.bitmapped_pack(pack), Ok(Some(rows[0])));
    }
}
