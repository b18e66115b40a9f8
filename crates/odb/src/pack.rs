//! One pack: its index, its bytes, its entries.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use object::{HashKind, ObjectId, ObjectKind};
use pack_format::entry::{self, EntryKind, PackHeader};
use pack_format::idx::Idx;
use pack_format::mtimes::Mtimes;
use pack_format::rev::Rev;
use pack_format::{IdxPos, PackOffset, PackPos};

use crate::cache::{BaseCache, Key};
use crate::error::{Damage, ReadError};
use crate::handles::Handles;
use crate::options::Options;
use crate::order::PackOrder;
use crate::platform::Stamp;
use crate::scratch::Scratch;
use crate::source::{self, Bytes, PackBytes};
use crate::store::ObjectHeader;

/// What all packs of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) cache: BaseCache,
    pub(crate) handles: Handles,
}

/// What a directory's listing says about a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Of the `.pack`.
    pub(crate) path: PathBuf,
    pub(crate) source: usize,
    pub(crate) kept: bool,
    pub(crate) promisor: bool,
    pub(crate) cruft: bool,
}

impl Listed {
    /// The file's name without directory and extension.
    pub(crate) fn name(&self) -> &[u8] {
        self.path.file_stem().unwrap_or_default().as_encoded_bytes()
    }
}

/// What the file system says about a pack's files before any of them is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OnDisk {
    /// Of the `.pack`.
    pub(crate) mtime: SystemTime,
    pub(crate) len: u64,
    /// Of the `.pack` and of the `.idx`.
    stamps: [Stamp; 2],
}

impl OnDisk {
    /// Of the `.pack` at `path`, and its `.idx`. `InvalidInput` unless both are regular files.
    pub(crate) fn of(path: &Path) -> io::Result<OnDisk> {
        let (meta, idx) = (fs::metadata(path)?, fs::metadata(path.with_extension("idx"))?);
        if !meta.is_file() || !idx.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mtime = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Ok(OnDisk { mtime, len: meta.len(), stamps: [Stamp::of(&meta), Stamp::of(&idx)] })
    }
}

/// A pack with its index. The index is open; the pack itself is opened when first read, and stays readable from then
/// on, also when another process unlinks it.
///
/// Reads here concern this pack only: they report damage and try nothing else. [`Store`](crate::Store) is what finds
/// other copies.
#[derive(Debug)]
pub struct Pack {
    listed: Listed,
    on_disk: OnDisk,
    name: String,
    files: Arc<Files>,
    shared: Arc<Shared>,
}

/// The open files, each opened when first needed. They outlive a change of what the directory says about the pack.
#[derive(Debug)]
struct Files {
    /// Distinguishes packs in the base cache; never used twice in a process.
    serial: u64,
    idx: OnceLock<Idx<Bytes>>,
    bytes: OnceLock<OpenBytes>,
    opening: Mutex<()>,
    rev: OnceLock<Option<Rev<Bytes>>>,
    rev_problem: OnceLock<String>,
    mtimes: OnceLock<Mtimes<Bytes>>,
    order: OnceLock<PackOrder>,
    ordering: Mutex<()>,
    /// How often something was searched for that the order would have told.
    unordered: AtomicU32,
    /// The kinds of objects as far as they are known, by rank in the order; 0 is not known.
    kinds: OnceLock<Box<[AtomicU8]>>,
    /// How many handles and mappings the above are.
    held: AtomicUsize,
    shared: Arc<Shared>,
}

/// The open `.pack`.
#[derive(Debug)]
struct OpenBytes {
    bytes: PackBytes,
    stamp: Stamp,
    /// What its header and its trailer say.
    count: u32,
    checksum: ObjectId,
}

impl Drop for Files {
    fn drop(&mut self) {
        self.shared.handles.closed(*self.held.get_mut());
    }
}

/// Packs with more objects than this do not get their order computed only to check where a delta's base begins.
const EAGER_ORDER: u32 = 1 << 16;

impl Pack {
    /// Opens nothing yet.
    pub(crate) fn new(listed: Listed, on_disk: OnDisk, shared: Arc<Shared>) -> Result<Pack, ReadError> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        if on_disk.len < min_len(shared.options.hash) {
            return Err(ReadError::corrupt(&listed.path, on_disk.len, Damage::Truncated { what: "pack" }));
        }
        let files = Files {
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            idx: OnceLock::new(),
            bytes: OnceLock::new(),
            opening: Mutex::new(()),
            rev: OnceLock::new(),
            rev_problem: OnceLock::new(),
            mtimes: OnceLock::new(),
            order: OnceLock::new(),
            ordering: Mutex::new(()),
            unordered: AtomicU32::new(0),
            kinds: OnceLock::new(),
            held: AtomicUsize::new(0),
            shared: Arc::clone(&shared),
        };
        Ok(Pack::with_files(listed, on_disk, Arc::new(files), shared))
    }

    fn with_files(listed: Listed, on_disk: OnDisk, files: Arc<Files>, shared: Arc<Shared>) -> Pack {
        let name = listed.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Pack { listed, on_disk, name, files, shared }
    }

    /// The same open files under what the directory says now; `None` if the directory now has other files, whatever they
    /// are called.
    pub(crate) fn listed_anew(&self, listed: &Listed, on_disk: &OnDisk, shared: &Arc<Shared>) -> Option<Pack> {
        let [ours, theirs] = [&self.on_disk.stamps, &on_disk.stamps];
        if self.listed.source != listed.source || !ours.iter().zip(theirs).all(|(a, b)| a.same_file(b)) {
            return None;
        }
        // An inode can be written anew. The index ends in the pack's checksum and its own.
        let hash = self.hash_kind().len();
        let known = self.index().ok()?;
        let (file, len) = source::open_regular(&listed.path.with_extension("idx")).ok()?;
        let mut trailers = [0; 64];
        let trailers = trailers.get_mut(..2 * hash)?;
        source::read_exact_at(&file, trailers, len.checked_sub(2 * hash as u64)?).ok()?;
        let (pack, idx) = trailers.split_at(hash);
        let same = pack == known.pack_checksum().as_bytes() && idx == known.idx_checksum().as_bytes();
        same.then(|| Pack::with_files(listed.clone(), on_disk.clone(), Arc::clone(&self.files), Arc::clone(shared)))
    }

    /// The index, opened and checked if it was not yet.
    #[inline]
    pub(crate) fn index(&self) -> Result<&Idx<Bytes>, ReadError> {
        match self.files.idx.get() {
            Some(idx) => Ok(idx),
            None => self.open_index(),
        }
    }

    #[cold]
    fn open_index(&self) -> Result<&Idx<Bytes>, ReadError> {
        let _one = self.files.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(idx) = self.files.idx.get() {
            return Ok(idx);
        }
        let path = self.path().with_extension("idx");
        let bytes = self.load(&path).map_err(|error| ReadError::io(&path, error))?;
        let mapped = bytes.is_mapped();
        let idx = Idx::parse(bytes, self.hash_kind()).map_err(|error| ReadError::corrupt(&path, error.at, error))?;
        if let Some(open) = self.files.bytes.get() {
            self.check_pair(open, &idx)?;
        }
        self.holding(mapped);
        Ok(self.files.idx.get_or_init(|| idx))
    }

    /// Whether pack and index belong together, as far as header and trailers tell.
    fn check_pair(&self, open: &OpenBytes, idx: &Idx<Bytes>) -> Result<(), ReadError> {
        if open.count != idx.count() {
            let text = format!("pack has {} objects and its index {}", open.count, idx.count());
            return Err(self.corrupt(8, Damage::Format(text)));
        }
        if open.checksum != idx.pack_checksum() {
            let at = open.bytes.len().saturating_sub(self.hash_kind().len() as u64);
            return Err(self.corrupt(at, Damage::Format("pack is not the one that its index was made for".into())));
        }
        Ok(())
    }

    /// The bytes of one of the small files beside the pack.
    fn load(&self, path: &Path) -> io::Result<Bytes> {
        self.shared.handles.make_room();
        self.shared.handles.retrying(|| Bytes::open(path, self.options().byte_source))
    }

    /// Counts a file that was opened, if it is a handle or a mapping.
    fn holding(&self, counts: bool) {
        if counts {
            self.files.held.fetch_add(1, Ordering::Relaxed);
            self.shared.handles.opened();
        }
    }

    /// Whether closing it would give something back.
    pub(crate) fn holds_files(&self) -> bool {
        self.files.held.load(Ordering::Relaxed) > 0
    }

    /// Whether it has an open file handle, and not only mappings.
    pub(crate) fn holds_handle(&self) -> bool {
        self.files.bytes.get().is_some_and(|open| matches!(open.bytes, PackBytes::Pread { .. }))
    }

    /// The path of the `.pack`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.listed.path
    }

    /// The file's name without directory and extension: `pack-` and a hash.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Index of the object directory it lies in, in [`Store::sources`](crate::Store::sources).
    #[must_use]
    pub fn source(&self) -> usize {
        self.listed.source
    }

    /// Whether it lies in the store's own object directory, and not in an alternate.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.listed.source == 0
    }

    /// Whether a `.keep` protects it from repacking.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.listed.kept
    }

    /// Whether it came from a promisor remote (`.promisor`).
    #[must_use]
    pub fn is_promisor(&self) -> bool {
        self.listed.promisor
    }

    /// Whether it holds unreachable objects with a time for each (`.mtimes`).
    #[must_use]
    pub fn is_cruft(&self) -> bool {
        self.listed.cruft
    }

    /// When the `.pack` was last modified, at the time it was listed.
    #[must_use]
    pub fn mtime(&self) -> SystemTime {
        self.on_disk.mtime
    }

    /// Bytes of the `.pack`, header and trailer included.
    #[allow(clippy::len_without_is_empty)]
    #[must_use]
    pub fn len(&self) -> u64 {
        self.files.bytes.get().map_or(self.on_disk.len, |open| open.bytes.len())
    }

    /// Number of objects.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.idx().count()
    }

    /// The pack's index.
    #[inline]
    #[must_use]
    pub fn idx(&self) -> &Idx<Bytes> {
        match self.files.idx.get() {
            Some(idx) => idx,
            None => unreachable!("no pack leaves this crate before its index was opened"),
        }
    }

    /// The hash of the pack's ids and trailer.
    #[inline]
    #[must_use]
    pub fn hash_kind(&self) -> HashKind {
        self.shared.options.hash
    }

    /// A number that no other pack opened in this process has.
    #[inline]
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.files.serial
    }

    /// The pack's trailing checksum, as it stands in the `.pack`; checked to be the one its index names. (Not checked
    /// to be the checksum of the content: that takes reading all of it.)
    ///
    /// # Errors
    /// Those of opening the pack.
    pub fn checksum(&self) -> Result<ObjectId, ReadError> {
        Ok(self.opened()?.checksum)
    }

    /// The open `.pack`, for copies that the kernel makes. A new handle when the pack is mapped, which is checked to be
    /// of the file that was mapped; use [`slice`](Self::slice) when that is gone by now.
    ///
    /// # Errors
    /// Those of opening the pack, or if the path now leads to another file.
    pub fn file(&self) -> Result<File, ReadError> {
        let OpenBytes { bytes, stamp, .. } = self.opened()?;
        let file = match bytes {
            PackBytes::Pread { file, .. } => file.try_clone(),
            PackBytes::Whole(_) => {
                self.shared.handles.retrying(|| source::open_regular(self.path())).and_then(|(file, _)| {
                    if Stamp::of(&file.metadata()?).same_file(stamp) {
                        Ok(file)
                    } else {
                        Err(io::Error::new(io::ErrorKind::NotFound, "the pack was replaced"))
                    }
                })
            }
        };
        file.map_err(|error| ReadError::io(self.path(), error))
    }

    /// `len` raw bytes from `at` on, borrowed where the pack lies in memory.
    ///
    /// # Errors
    /// Corrupt if the file is shorter.
    #[inline]
    pub fn slice(&self, at: PackOffset, len: u64) -> Result<Cow<'_, [u8]>, ReadError> {
        let bytes = self.bytes()?;
        let short = || self.corrupt(at.get(), Damage::Truncated { what: "pack" });
        let end = at.get().checked_add(len).filter(|&end| end <= bytes.len()).ok_or_else(short)?;
        match bytes {
            PackBytes::Whole(bytes) => {
                // Both are at most the length of a slice.
                bytes.as_ref().get(at.get() as usize..end as usize).map(Cow::Borrowed).ok_or_else(short)
            }
            PackBytes::Pread { file, .. } => {
                // `len` is within the length of the file, as its handle reported it.
                let mut out = vec![0; usize::try_from(len).map_err(|_| short())?];
                self.read_at(file, &mut out, at.get())?;
                Ok(Cow::Owned(out))
            }
        }
    }

    /// Says that the bytes in `range` (file offsets) will not be needed again soon, so that a mapped pack that is read
    /// from end to end does not come to count as this process's memory. They can still be read.
    pub fn forget(&self, range: std::ops::Range<u64>) {
        if let Ok(OpenBytes { bytes: PackBytes::Whole(bytes), .. }) = self.opened()
            && let (Ok(start), Ok(end)) = (usize::try_from(range.start), usize::try_from(range.end))
        {
            bytes.forget(start..end);
        }
    }

    /// The bytes of an entry: header, base reference, deflated content; what the index's CRC-32 covers.
    ///
    /// # Errors
    /// Those of [`order`](Self::order) and [`slice`](Self::slice).
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn entry_bytes(&self, pos: PackPos) -> Result<Cow<'_, [u8]>, ReadError> {
        let order = self.order()?;
        let at = order.offset(pos);
        self.slice(at, order.end(pos).get() - at.get())
    }

    /// The header of the entry at `at`, and its length in bytes, base reference included. No allocation when the pack
    /// lies in memory.
    ///
    /// # Errors
    /// Corrupt if `at` is not within the entries, or no valid header stands there.
    #[inline]
    pub fn entry(&self, at: PackOffset) -> Result<(entry::Header, usize), ReadError> {
        let at = at.get();
        let bytes = self.bytes()?;
        let end = bytes.len().saturating_sub(self.hash_kind().len() as u64);
        if at < PackHeader::LEN as u64 || at >= end {
            return Err(self.corrupt(at, Damage::Offset));
        }
        let parsed = match bytes {
            PackBytes::Whole(bytes) => {
                // Both are at most the length of a slice, and `at < end`.
                let bytes = bytes.as_ref().get(at as usize..end as usize).unwrap_or_default();
                entry::Header::parse(bytes, self.hash_kind())
            }
            PackBytes::Pread { file, .. } => {
                let mut buffer = [0; entry::MAX_LEN];
                let have = (end - at).min(buffer.len() as u64) as usize;
                let buffer = &mut buffer[..have];
                self.read_at(file, buffer, at)?;
                entry::Header::parse(buffer, self.hash_kind())
            }
        };
        parsed.map_err(|error| self.corrupt(at, error))
    }

    /// The pack's entries in the order of their offsets; made when first asked for and kept: from the `.rev` if there is a
    /// valid one (one pass), else by sorting the offsets (O(n) too). Thirteen bytes per object.
    ///
    /// # Errors
    /// Corrupt if the index gives an object an offset outside of the pack, or two objects the same.
    #[inline]
    pub fn order(&self) -> Result<&PackOrder, ReadError> {
        match self.files.order.get() {
            Some(order) => Ok(order),
            None => self.make_order(),
        }
    }

    #[cold]
    fn make_order(&self) -> Result<&PackOrder, ReadError> {
        let end = self.entries_end()?;
        let _one = self.files.ordering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = self.files.order.get() {
            return Ok(order);
        }
        let idx = self.index()?;
        let order = match self.listed_order(idx, end) {
            Some(order) => order,
            None => self.sorted_order(idx, end)?,
        };
        Ok(self.files.order.get_or_init(|| order))
    }

    /// The order that the `.rev` lists, if there is one and it is that of the offsets.
    fn listed_order(&self, idx: &Idx<Bytes>, end: u64) -> Option<PackOrder> {
        let rev = self.rev(idx)?;
        let listed = rev.positions().map(IdxPos::get);
        let order =
            PackOrder::from_listed(idx.count(), listed, |pos| Some(idx.offset(IdxPos::new(pos)).ok()?.get()), end)?;
        // Ascending and below `end` is settled; the first must lie behind the header.
        (order.count() == 0 || order.offset(PackPos::new(0)).get() >= PackHeader::LEN as u64).then_some(order)
    }

    fn sorted_order(&self, idx: &Idx<Bytes>, end: u64) -> Result<PackOrder, ReadError> {
        let count = idx.count();
        let mut offsets = Vec::with_capacity(count as usize);
        for pos in (0..count).map(IdxPos::new) {
            let at = idx
                .offset(pos)
                .map_err(|error| ReadError::corrupt(&self.path().with_extension("idx"), error.at, error))?;
            offsets.push(self.in_entries_of(at, end)?.get());
        }
        PackOrder::from_offsets(&offsets, end)
            .ok_or_else(|| self.corrupt(0, Damage::Format("two objects have the same offset".into())))
    }

    /// The object at `at`, whole, into `out` (which is cleared first), and its kind. Delta chains are followed without
    /// recursion; bases come from, and go to, the store's cache.
    ///
    /// `at` must be the start of an entry, as indices and [`order`](Self::order) give it.
    ///
    /// # Errors
    /// Corrupt for damage in the entry or its bases, [`ReadError::TooLarge`], I/O. `out` then holds nothing of use.
    pub fn read(&self, at: PackOffset, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<ObjectKind, ReadError> {
        crate::chain::read(self, at.get(), scratch, out, None)
    }

    /// The kind and size of the object at `at`: headers along its delta chain are read, and the first bytes of the
    /// delta, but nothing is inflated whole.
    ///
    /// # Errors
    /// As for [`read`](Self::read), where the damage shows.
    pub fn header(&self, at: PackOffset) -> Result<ObjectHeader, ReadError> {
        crate::chain::header(self, at.get())
    }

    /// The offset that the index gives to an object, checked to lie within the pack's entries.
    ///
    /// # Errors
    /// Corrupt, concerning this object only.
    #[inline]
    pub fn offset(&self, pos: IdxPos) -> Result<PackOffset, ReadError> {
        let at = self
            .index()?
            .offset(pos)
            .map_err(|error| ReadError::corrupt(&self.path().with_extension("idx"), error.at, error))?;
        self.in_entries(at)
    }

    /// The offset of the base that an entry's header refers to; `None` for objects stored whole. Bases are looked up in
    /// this pack only: a stored pack has to be complete.
    ///
    /// # Errors
    /// Corrupt if the base is not an entry of this pack.
    #[inline]
    pub fn base_of(&self, at: PackOffset, kind: &EntryKind) -> Result<Option<PackOffset>, ReadError> {
        match *kind {
            EntryKind::OfsDelta { distance } => {
                let base = self.base_before(at, distance)?;
                if self.begins_entry(base) {
                    Ok(Some(base))
                } else {
                    Err(self.corrupt(at.get(), Damage::BaseOutOfBounds { distance }))
                }
            }
            EntryKind::RefDelta { base } => self.base_named(at, &base).map(Some),
            _ => Ok(None),
        }
    }

    /// As [`base_of`](Self::base_of), with the base's rank, which the order tells along with whether an entry begins there.
    #[inline]
    pub(crate) fn base_in(
        &self,
        order: &PackOrder,
        at: PackOffset,
        kind: &EntryKind,
    ) -> Result<Option<(PackOffset, PackPos)>, ReadError> {
        match *kind {
            EntryKind::OfsDelta { distance } => {
                let base = self.base_before(at, distance)?;
                let rank = order.pos_at(base);
                let rank = rank.ok_or_else(|| self.corrupt(at.get(), Damage::BaseOutOfBounds { distance }))?;
                Ok(Some((base, rank)))
            }
            EntryKind::RefDelta { base } => {
                let base = self.base_named(at, &base)?;
                let rank = order.pos_at(base).ok_or_else(|| self.corrupt(base.get(), Damage::Offset))?;
                Ok(Some((base, rank)))
            }
            _ => Ok(None),
        }
    }

    /// `distance` bytes before `at`, if that lies behind the pack's header.
    #[inline]
    fn base_before(&self, at: PackOffset, distance: u64) -> Result<PackOffset, ReadError> {
        match at.get().checked_sub(distance) {
            Some(base) if distance > 0 && base >= PackHeader::LEN as u64 => Ok(PackOffset::new(base)),
            _ => Err(self.corrupt(at.get(), Damage::BaseOutOfBounds { distance })),
        }
    }

    /// Where the base lies that the entry at `at` names.
    fn base_named(&self, at: PackOffset, base: &ObjectId) -> Result<PackOffset, ReadError> {
        let pos = self.index()?.lookup(base);
        self.offset(pos.ok_or_else(|| self.corrupt(at.get(), Damage::BaseNotInPack { base: *base }))?)
    }

    /// Compares the CRC-32 of an entry's bytes with the index's: the only guard of an entry's header and base reference.
    /// `true` also where the index (version 1) has none.
    ///
    /// # Errors
    /// Those of [`entry_bytes`](Self::entry_bytes).
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    pub fn crc_matches(&self, pos: PackPos) -> Result<bool, ReadError> {
        let idx_pos = self.order()?.idx_pos(pos);
        match self.index()?.crc32(idx_pos) {
            Some(expected) => Ok(crc32fast::hash(&self.entry_bytes(pos)?) == expected),
            None => Ok(true),
        }
    }

    /// What is wrong with the `.rev`, once it was looked for and found unusable.
    pub(crate) fn rev_problem(&self) -> Option<&str> {
        self.files.rev_problem.get().map(String::as_str)
    }

    pub(crate) fn cache(&self) -> &BaseCache {
        &self.shared.cache
    }

    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }

    pub(crate) fn key(&self, at: u64) -> Key {
        Key { pack: self.files.serial, at }
    }

    pub(crate) fn corrupt(&self, at: u64, damage: impl Into<Damage>) -> ReadError {
        ReadError::corrupt(&self.listed.path, at, damage)
    }

    /// Where the entries end and the trailer begins.
    pub(crate) fn entries_end(&self) -> Result<u64, ReadError> {
        // `min_len` was checked when the bytes were opened.
        Ok(self.bytes()?.len().saturating_sub(self.hash_kind().len() as u64))
    }

    /// Opens the pack now rather than at the first read: whoever holds the result can read even if it is unlinked.
    #[inline]
    pub(crate) fn bytes(&self) -> Result<&PackBytes, ReadError> {
        self.opened().map(|open| &open.bytes)
    }

    /// Fills `out` from `at` on. A file that ends before is damage; what else the system says is not.
    pub(crate) fn read_at(&self, file: &File, out: &mut [u8], at: u64) -> Result<(), ReadError> {
        source::read_exact_at(file, out, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.corrupt(at, Damage::Truncated { what: "pack" }),
            _ => ReadError::io(self.path(), error),
        })
    }

    #[inline]
    fn opened(&self) -> Result<&OpenBytes, ReadError> {
        match self.files.bytes.get() {
            Some(open) => Ok(open),
            None => self.open_bytes(),
        }
    }

    #[cold]
    fn open_bytes(&self) -> Result<&OpenBytes, ReadError> {
        let _one = self.files.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = self.files.bytes.get() {
            return Ok(open);
        }
        // Failures are not remembered: a lack of file handles passes, and so may a file system that went away.
        let io = |error| ReadError::io(self.path(), error);
        self.shared.handles.make_room();
        let (file, len) = self.shared.handles.retrying(|| source::open_regular(self.path())).map_err(io)?;
        let stamp = Stamp::of(&file.metadata().map_err(io)?);
        let hash = self.hash_kind();
        if len < min_len(hash) {
            return Err(self.corrupt(len, Damage::Truncated { what: "pack" }));
        }
        let mut head = [0; PackHeader::LEN];
        self.read_at(&file, &mut head, 0)?;
        let header = PackHeader::from_bytes(&head).map_err(|error| self.corrupt(error.at, error))?;
        let mut trailer = [0; 32];
        let trailer = trailer.get_mut(..hash.len()).unwrap_or_default();
        let at = len - hash.len() as u64;
        self.read_at(&file, trailer, at)?;
        let truncated = || self.corrupt(at, Damage::Truncated { what: "pack" });
        let checksum = ObjectId::from_prefix(trailer, hash).ok_or_else(truncated)?;
        let bytes = PackBytes::open(file, len, self.options().byte_source).map_err(io)?;
        let counts = bytes.is_handle_or_mapping();
        let open = OpenBytes { bytes, stamp, count: header.count, checksum };
        if let Some(idx) = self.files.idx.get() {
            self.check_pair(&open, idx)?;
        }
        self.holding(counts);
        Ok(self.files.bytes.get_or_init(|| open))
    }

    /// Checks that `at` lies within the entries.
    pub(crate) fn in_entries(&self, at: PackOffset) -> Result<PackOffset, ReadError> {
        self.in_entries_of(at, self.entries_end()?)
    }

    fn in_entries_of(&self, at: PackOffset, end: u64) -> Result<PackOffset, ReadError> {
        if at.get() >= PackHeader::LEN as u64 && at.get() < end {
            Ok(at)
        } else {
            Err(self.corrupt(at.get(), Damage::Offset))
        }
    }

    /// Whether an entry begins at `at`, as far as that can be known cheaply: by the order if it is there or quickly made,
    /// else by the `.rev`, else it is believed. So it is when a multi-pack-index led here and the pack's own is gone.
    fn begins_entry(&self, at: PackOffset) -> bool {
        if let Some(order) = self.files.order.get() {
            return order.pos_at(at).is_some();
        }
        let Ok(idx) = self.index() else { return true };
        // Each search in the `.rev` takes as long as it takes to order some sixty entries.
        let searches = self.files.unordered.fetch_add(1, Ordering::Relaxed);
        if idx.count() <= EAGER_ORDER.max(searches.saturating_mul(64)) {
            // An index with a bad offset elsewhere has no order; that is no fault of this entry's.
            return self.order().map_or(true, |order| order.pos_at(at).is_some());
        }
        let Some(rev) = self.rev(idx) else { return true };
        let (mut low, mut high) = (0, idx.count());
        while low < high {
            let middle = low + (high - low) / 2;
            let Ok(found) = idx.offset(rev.idx_pos(PackPos::new(middle))) else { return true };
            match found.cmp(&at) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        false
    }

    /// What is known of the kinds of this pack's objects; `None` before the order is made.
    #[inline]
    pub(crate) fn kinds(&self) -> Option<Kinds<'_>> {
        let order = self.files.order.get()?;
        let kinds = self.files.kinds.get_or_init(|| (0..order.count()).map(|_| AtomicU8::new(0)).collect());
        Some(Kinds { order, kinds })
    }

    /// The `.rev` if it exists, fits, and is to be used.
    fn rev(&self, idx: &Idx<Bytes>) -> Option<&Rev<Bytes>> {
        self.files
            .rev
            .get_or_init(|| {
                if !self.options().use_rev_files {
                    return None;
                }
                // Not there is the normal case for older packs, and no transient error is worth more than a sort.
                let bytes = self.load(&self.path().with_extension("rev")).ok()?;
                let mapped = bytes.is_mapped();
                match Rev::parse(bytes, self.hash_kind(), idx.count(), &idx.pack_checksum()) {
                    Ok(rev) => {
                        self.holding(mapped);
                        Some(rev)
                    }
                    Err(error) => {
                        let _ = self.files.rev_problem.set(error.to_string());
                        None
                    }
                }
            })
            .as_ref()
    }

    /// The times of a cruft pack's objects (`.mtimes`), by rank in the index; `None` for other packs. Opened when first
    /// asked for.
    ///
    /// # Errors
    /// Corrupt if the file does not fit the pack, and what the system says.
    pub fn mtimes(&self) -> Result<Option<&Mtimes<Bytes>>, ReadError> {
        if !self.is_cruft() {
            return Ok(None);
        }
        if let Some(mtimes) = self.files.mtimes.get() {
            return Ok(Some(mtimes));
        }
        let path = self.path().with_extension("mtimes");
        let idx = self.index()?;
        let bytes = self.load(&path).map_err(|error| ReadError::io(&path, error))?;
        let mapped = bytes.is_mapped();
        let mtimes = Mtimes::parse(bytes, self.hash_kind(), idx.count(), &idx.pack_checksum())
            .map_err(|error| ReadError::corrupt(&path, error.at, error))?;
        // Whose thread comes second drops what it opened.
        if self.files.mtimes.set(mtimes).is_ok() {
            self.holding(mapped);
        }
        Ok(self.files.mtimes.get())
    }
}

/// The kinds of a pack's objects, a byte each. A delta does not say what it makes, and its chain is followed once only.
#[derive(Clone, Copy)]
pub(crate) struct Kinds<'p> {
    order: &'p PackOrder,
    kinds: &'p [AtomicU8],
}

const KINDS: [ObjectKind; 4] = [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag];

impl Kinds<'_> {
    /// The order that the ranks belong to.
    #[inline]
    pub(crate) fn order(&self) -> &'_ PackOrder {
        self.order
    }

    #[inline]
    pub(crate) fn get(&self, rank: PackPos) -> Option<ObjectKind> {
        let number = self.kinds.get(rank.get() as usize)?.load(Ordering::Relaxed);
        KINDS.get(usize::from(number).wrapping_sub(1)).copied()
    }

    pub(crate) fn set(&self, rank: PackPos, kind: ObjectKind) {
        if let (Some(slot), Some(number)) =
            (self.kinds.get(rank.get() as usize), KINDS.iter().position(|&known| known == kind))
        {
            slot.store(number as u8 + 1, Ordering::Relaxed);
        }
    }
}

/// Header and trailer.
fn min_len(hash: HashKind) -> u64 {
    (PackHeader::LEN + hash.len()) as u64
}
