//! [`BitmapFile`]: a parsed `.bitmap` file, and what can be asked of it alone.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ewah::Ewah;
use object::{Checksum, HashKind, ObjectId, ObjectKind};
use odb::{ByteSource, Bytes, Pack, PackOrder, Store};
use pack_format::{IdxPos, PackPos};

use crate::entries::{Entries, Row, bitmap_at};
use crate::error::{OpenError, ParseError, ParseErrorKind};
use crate::ext::{Layout, be_u32};
use crate::header::Header;

/// The kinds in the order of their bitmaps in the file.
const KINDS: [ObjectKind; 4] = [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag];
/// What a damaged bitmap by type is called in an error.
const KIND_BITMAPS: [&str; 4] = ["all commits", "all trees", "all blobs", "all tags"];

/// A `.bitmap` file of one pack.
///
/// Bit *n* stands for the object at [`PackPos`] *n*; entries and name hashes are found by [`IdxPos`].
#[derive(Debug)]
pub struct BitmapFile<D> {
    data: D,
    hash: HashKind,
    objects: u32,
    pack: ObjectId,
    /// Dense words, one set of bits per kind, in the order of [`KINDS`].
    types: [Vec<u64>; 4],
    entries: Entries,
    /// Where the entries end, for bounding their bitmaps.
    entries_end: usize,
    hashes: Option<Range<usize>>,
    pseudo_merges: Option<Range<usize>>,
    /// Tells files apart, so that a [`Scratch`] never answers for another one.
    serial: u64,
}

impl<D: AsRef<[u8]>> BitmapFile<D> {
    /// Reads the structure of a file that belongs to a pack of `objects` objects whose trailing checksum is `pack`.
    ///
    /// Checks header and sections, decodes the bitmaps by type (every object must have exactly one), and finds the
    /// entries, by the lookup table or else by hopping over them. The bitmaps of commits are checked as they are
    /// used. Takes memory for half a byte per object, and 20 bytes per entry where there is no lookup table.
    ///
    /// # Errors
    /// [`ParseError`]: the file is not usable for this pack.
    pub fn parse(data: D, hash: HashKind, objects: u32, pack: &ObjectId) -> Result<Self, ParseError> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let bytes = data.as_ref();
        let (header, found) = Header::parse(bytes, hash)?;
        if found != *pack {
            let kind = ParseErrorKind::WrongPack { expected: *pack, found };
            return Err(ParseError::new(Header::LEN, kind));
        }
        let layout = Layout::new(bytes, &header, hash, objects)?;
        let (types, entries_at) = types(bytes, &layout.bitmaps, objects)?;
        let part = entries_at..layout.bitmaps.end;
        let entries = Entries::parse(bytes, part, header.entries, layout.table, objects)?;
        Ok(BitmapFile {
            hash,
            objects,
            pack: found,
            types,
            entries,
            entries_end: layout.bitmaps.end,
            hashes: layout.hashes,
            pseudo_merges: layout.pseudo_merges,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            data,
        })
    }

    /// Number of objects in the pack; also the number of bits.
    pub fn object_count(&self) -> u32 {
        self.objects
    }

    /// Number of commits that have a bitmap.
    pub fn entry_count(&self) -> u32 {
        self.entries.count()
    }

    /// Checksum of the pack that the file belongs to.
    pub fn pack_checksum(&self) -> ObjectId {
        self.pack
    }

    /// Whether a name-hash cache is there; see [`name_hash`](BitmapFile::name_hash).
    pub fn has_name_hashes(&self) -> bool {
        self.hashes.is_some()
    }

    /// Whether entries are found through a lookup table in the file.
    pub fn has_lookup_table(&self) -> bool {
        matches!(self.entries, Entries::Table { .. })
    }

    /// Whether the file has pseudo-merges. They only save time, and are not used yet.
    pub fn has_pseudo_merges(&self) -> bool {
        self.pseudo_merges.is_some()
    }

    /// The commits that have a bitmap, ascending.
    pub fn commits(&self) -> impl Iterator<Item = IdxPos> + '_ {
        self.entries.commits(self.data.as_ref())
    }

    /// Whether a commit has a bitmap. Logarithmic.
    pub fn has_commit(&self, commit: IdxPos) -> bool {
        self.entries.row_of(self.data.as_ref(), commit).is_some()
    }

    /// The objects of one kind, as dense words over [`PackPos`], least significant bit first.
    pub fn of_kind(&self, kind: ObjectKind) -> &[u64] {
        let [commits, trees, blobs, tags] = &self.types;
        match kind {
            ObjectKind::Commit => commits,
            ObjectKind::Tree => trees,
            ObjectKind::Blob => blobs,
            ObjectKind::Tag => tags,
        }
    }

    /// What the object at `pos` is, according to the file; `None` beyond the last object.
    pub fn kind_at(&self, pos: PackPos) -> Option<ObjectKind> {
        let (word, bit) = (pos.index() / 64, pos.get() % 64);
        let is = |kind: &ObjectKind| self.of_kind(*kind).get(word).is_some_and(|word| word >> bit & 1 == 1);
        KINDS.into_iter().find(is)
    }

    /// The hash of the name under which the object was met when the file was written (see
    /// [`name_hash`](crate::name_hash())); `None` if the file has no cache, or not so many objects.
    pub fn name_hash(&self, object: IdxPos) -> Option<u32> {
        let hashes = self.data.as_ref().get(self.hashes.clone()?)?;
        (object.get() < self.objects).then(|| be_u32(hashes, object.index() * 4))
    }

    /// Everything reachable from `commit`, itself included, as dense words over [`PackPos`], least significant bit
    /// first; `None` if it has no bitmap.
    ///
    /// `bit` is where the pack has that commit ([`PackOrder::pack_pos`]); a bitmap without that bit is damaged.
    /// Costs one pass over each bitmap of the XOR chain down to one that `scratch` remembers.
    ///
    /// # Errors
    /// [`ParseError`] when an entry of the chain is damaged.
    pub fn reach<'s>(
        &self,
        commit: IdxPos,
        bit: PackPos,
        scratch: &'s mut Scratch,
    ) -> Result<Option<&'s [u64]>, ParseError> {
        let bytes = self.data.as_ref();
        let Some(row) = self.entries.row_of(bytes, commit) else { return Ok(None) };
        scratch.enter(self.serial);
        let len = self.objects.div_ceil(64) as usize;
        scratch.words.clear();
        scratch.chain.clear();
        let mut next = Some(row);
        while let Some(row) = next {
            if let Some(words) = scratch.cache.get(row) {
                scratch.words.extend_from_slice(words);
                break;
            }
            // Ends: every base begins earlier in the file (see `entries.rs`).
            let entry = self.entries.entry(bytes, row)?;
            scratch.chain.push((row, entry.bitmap_at));
            next = entry.base;
        }
        scratch.words.resize(len, 0);
        let steps = scratch.chain.len();
        for (nr, (row, at)) in scratch.chain.iter().rev().enumerate() {
            let (bitmap, _) = self.bitmap(*at)?;
            let words = scratch.words.as_mut_slice();
            if bitmap.xor_into(words).is_err() {
                // Not so after `parse_within`.
                let kind = ParseErrorKind::Disagree { what: "the number of objects" };
                return Err(ParseError::new(*at, kind));
            }
            // Neighbours in the file hang on each other, so what was undone once is worth keeping: the end, and
            // for the others that branch off, a station now and then.
            let left = steps - 1 - nr;
            if steps > 1 && left.is_multiple_of(STATION) {
                scratch.cache.keep(*row, words);
            }
        }
        let set = scratch.words.get(bit.index() / 64).is_some_and(|w| w >> (bit.get() % 64) & 1 == 1);
        if !set {
            let at = scratch.chain.first().map_or(0, |(_, at)| *at);
            let kind = ParseErrorKind::NotClosed { pos: commit.get(), what: "own bit" };
            return Err(ParseError::new(at, kind));
        }
        Ok(Some(&scratch.words))
    }

    fn bitmap(&self, at: usize) -> Result<(Ewah<'_>, usize), ParseError> {
        bitmap_at(self.data.as_ref(), at, self.entries_end, self.objects, "a commit")
    }

    /// Compares the trailing checksum with the file. One pass over it.
    ///
    /// # Errors
    /// [`ParseErrorKind::Checksum`].
    pub fn verify_checksum(&self) -> Result<(), ParseError> {
        let bytes = self.data.as_ref();
        // `parse` made sure that there is a trailer.
        let (body, trailer) = bytes.split_at(bytes.len().saturating_sub(self.hash.len()));
        let mut sum = Checksum::new(self.hash);
        sum.update(body);
        let expected = sum.finish();
        if expected.as_bytes() == trailer {
            return Ok(());
        }
        let found = ObjectId::from_bytes(trailer).unwrap_or(self.hash.null());
        Err(ParseError::new(body.len(), ParseErrorKind::Checksum { expected, found }))
    }

    /// Decodes every entry, with `order` that of the pack. Costs about as much as all chains are long together, less
    /// what `scratch` remembers.
    ///
    /// # Errors
    /// [`ParseError`] for the first entry that is damaged; the checksum is not looked at.
    pub fn verify_all(&self, order: &PackOrder, scratch: &mut Scratch) -> Result<(), ParseError> {
        for commit in self.commits() {
            let bit = order.pack_pos(commit);
            if self.kind_at(bit) != Some(ObjectKind::Commit) {
                let kind = ParseErrorKind::NotClosed { pos: commit.get(), what: "kind" };
                return Err(ParseError::new(0, kind));
            }
            self.reach(commit, bit, scratch)?;
        }
        Ok(())
    }
}

/// The bitmaps by type, and where they end.
fn types(bytes: &[u8], part: &Range<usize>, objects: u32) -> Result<([Vec<u64>; 4], usize), ParseError> {
    // As many words as the pack has objects for; the pack's index is many times larger.
    let len = objects.div_ceil(64) as usize;
    let mut types = [(); 4].map(|()| vec![0u64; len]);
    let mut at = part.start;
    for (words, what) in types.iter_mut().zip(KIND_BITMAPS) {
        let (bitmap, used) = bitmap_at(bytes, at, part.end, objects, what)?;
        if bitmap.or_into(words).is_err() {
            let kind = ParseErrorKind::Disagree { what: "the number of objects" };
            return Err(ParseError::new(at, kind));
        }
        at += used;
    }
    // All bits are below `objects`; so when they are as many as objects and none twice, each object has one.
    let [commits, trees, blobs, tags] = &types;
    let (mut typed, mut united) = (0u64, 0u64);
    for (((a, b), c), d) in commits.iter().zip(trees).zip(blobs).zip(tags) {
        typed += [a, b, c, d].into_iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
        united += u64::from((a | b | c | d).count_ones());
    }
    if typed != united || united != u64::from(objects) {
        return Err(ParseError::new(part.start, ParseErrorKind::Types { typed, objects }));
    }
    Ok((types, at))
}

/// How [`open`] reads a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenOptions {
    /// How the file is reached. Default: mapped.
    pub byte_source: ByteSource,
    /// Whether to compare the file's trailing checksum, and to look for objects that the pack holds twice: one pass
    /// over the file and one over the ids in the pack index. Default: yes. Without, damage inside a bitmap that
    /// leaves the structure intact gives a wrong answer, as it does in git.
    pub verify: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { byte_source: ByteSource::default(), verify: true }
    }
}

impl OpenOptions {
    /// Sets [`byte_source`](OpenOptions#structfield.byte_source).
    #[must_use]
    pub fn byte_source(mut self, byte_source: ByteSource) -> Self {
        self.byte_source = byte_source;
        self
    }

    /// Sets [`verify`](OpenOptions#structfield.verify).
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }
}

/// Opens the `.bitmap` beside a pack; `None` if there is none.
///
/// # Errors
/// [`OpenError`]: there is one, and it cannot be used. Warn, and go without.
pub fn open(pack: &Pack, options: &OpenOptions) -> Result<Option<BitmapFile<Bytes>>, OpenError> {
    let path = pack.path().with_extension("bitmap");
    let bytes = match Bytes::open(&path, options.byte_source) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(OpenError::Io { path, source }),
    };
    let checksum = match pack.checksum() {
        Ok(checksum) => checksum,
        Err(source) => return Err(OpenError::Pack { path, source }),
    };
    let parsed = BitmapFile::parse(bytes, pack.hash_kind(), pack.count(), &checksum);
    let file = parsed.map_err(|source| OpenError::Parse { path: path.clone(), source })?;
    if options.verify {
        verify(pack, &file)?;
    }
    Ok(Some(file))
}

/// What [`OpenOptions::verify`] asks for, apart: for callers that let the file answer meanwhile, and drop the answer if it
/// turns out to be damaged.
///
/// # Errors
/// [`OpenError::Parse`].
pub fn verify<D: AsRef<[u8]>>(pack: &Pack, file: &BitmapFile<D>) -> Result<(), OpenError> {
    let verified = file.verify_checksum().and_then(|()| no_object_twice(pack));
    verified.map_err(|source| OpenError::Parse { path: pack.path().with_extension("bitmap"), source })
}

/// An object at two offsets has two bits, and nobody could say which of them a set means.
fn no_object_twice(pack: &Pack) -> Result<(), ParseError> {
    let idx = pack.idx();
    let mut last: Option<&[u8]> = None;
    for pos in (0..idx.count()).map(IdxPos::new) {
        let id = idx.id_bytes(pos);
        if last == Some(id) {
            return Err(ParseError::new(0, ParseErrorKind::DuplicateObject { id: idx.id(pos) }));
        }
        last = Some(id);
    }
    Ok(())
}

/// What [`find`] found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// The pack and its bitmap file; `None` if no pack has one that can be used.
    pub bitmap: Option<(Arc<Pack>, BitmapFile<Bytes>)>,
    /// Files that were tried before and cannot be used, each worth a warning.
    pub problems: Vec<OpenError>,
}

/// Opens the bitmap that git would use: that of the first pack, in the store's order, that has a usable one.
///
/// # Errors
/// When the packs cannot be listed.
pub fn find(store: &Store, options: &OpenOptions) -> Result<Found, odb::OpenError> {
    let mut problems = Vec::new();
    for pack in store.packs()?.iter() {
        match open(pack, options) {
            Ok(None) => {}
            Ok(Some(file)) => {
                return Ok(Found { bitmap: Some((Arc::clone(pack), file)), problems });
            }
            Err(error) => problems.push(error),
        }
    }
    Ok(Found { bitmap: None, problems })
}

/// Every so many links of a chain, counted from its far end, an undone bitmap is remembered.
const STATION: usize = 16;

/// Memory that [`BitmapFile::reach`] uses again: the words it hands out, and bitmaps it has undone.
///
/// Belongs to no file; used with another one it forgets.
#[derive(Debug, Default)]
pub struct Scratch {
    serial: u64,
    words: Vec<u64>,
    chain: Vec<(Row, usize)>,
    cache: Cache,
}

impl Scratch {
    /// Remembers up to 32 MiB of undone bitmaps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers up to `bytes` bytes of undone bitmaps; the words handed out last come on top.
    pub fn with_budget(bytes: usize) -> Self {
        let cache = Cache { budget: bytes, ..Cache::default() };
        Scratch { cache, ..Scratch::default() }
    }

    fn enter(&mut self, serial: u64) {
        if self.serial != serial {
            self.serial = serial;
            self.cache.clear();
        }
    }
}

/// Undone bitmaps by row; when full, the oldest goes.
#[derive(Debug)]
struct Cache {
    budget: usize,
    used: usize,
    by_row: HashMap<Row, Box<[u64]>>,
    by_age: VecDeque<Row>,
}

impl Default for Cache {
    fn default() -> Self {
        Cache { budget: 32 << 20, used: 0, by_row: HashMap::new(), by_age: VecDeque::new() }
    }
}

impl Cache {
    fn get(&self, row: Row) -> Option<&[u64]> {
        self.by_row.get(&row).map(|words| &**words)
    }

    fn keep(&mut self, row: Row, words: &[u64]) {
        let size = size_of_val(words);
        if size > self.budget || self.by_row.contains_key(&row) {
            return;
        }
        while self.used + size > self.budget {
            let Some(oldest) = self.by_age.pop_front() else { return };
            self.used -= self.by_row.remove(&oldest).map_or(0, |words| size_of_val(&*words));
        }
        self.by_row.insert(row, words.into());
        self.by_age.push_back(row);
        self.used += size;
    }

    fn clear(&mut self) {
        self.by_row.clear();
        self.by_age.clear();
        self.used = 0;
    }
}

/// The path of the `.bitmap` that belongs to a pack.
pub fn path_for(pack: &Pack) -> PathBuf {
    pack.path().with_extension("bitmap")
}
