//! A look at an index file without reading it: what it costs depends on what is asked, not on the file.
//!
//! Entries have no fixed length, so that the millionth can only be found from one that is known. Three ways lead on:
//! - A look-up in version 2 or 3 halves the bytes of the entries: from any place an entry near it can be found, and where
//!   the last one ends is told by the end-of-entries extension (`EOIE`), or by what lies behind ([`anchor`]).
//! - The offset table (`IEOT`) knows the first entry of every block: the first paths of some blocks are read, then one
//!   block is stepped through. So version 4 is entered, and positions are counted.
//! - Else version 2 and 3 are stepped through once from the start, from length to length, to count positions or where the
//!   other ways fail; version 4 cannot be entered anywhere else, since each path builds on the one before.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use object::{HashKind, ObjectId};

use crate::anchor;
use crate::entry::{EXTENDED, Entry, ID_AT, NAME_MASK, Stage, be16, head_len, path_len, record_len};
use crate::error::{ReadError, ReadErrorKind};
use crate::ext::{self, Extensions, Link, eoie, ieot};
use crate::file::LoadError;
use crate::header::{Header, Version};
use crate::path_v4;
use crate::read::{ReadOptions, required};
use crate::scan::{Area, Found, RawBlock, check_extended, long_path, truncated};
use crate::source::{ByteSource, Bytes};
use crate::store::Which;

/// Why a view does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// Only [`Index::read`](crate::Index::read) can tell.
    #[error("{why} needs a full read")]
    NeedsFullRead {
        /// What it is about this index.
        why: &'static str,
    },
    /// What was looked at is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// An index file that is looked into: [`open`](IndexView::open)ed, or any bytes.
///
/// Opening checks the header and reads the offset table, if there is a sound one; entries are checked when they are looked
/// at. Offset tables are hints: the block in which a look-up ends must end where the next one begins, or else the table is
/// not used any more. What is found is then right, whatever other blocks are; but positions count on their numbers of
/// entries, and a table that was made to mislead can get them wrong. Look-ups count on entries being in order, and on the
/// end-of-entries extension if its hash is right, or else on extensions that follow each other up to the trailer.
///
/// ```
/// # use packstone_index::{AddOptions, Bump, Index, IndexView, Mode, NewEntry, Stage, WriteOptions};
/// # let kind = object::HashKind::Sha1;
/// # let arena = Bump::new();
/// # let mut index = Index::new(&arena, kind);
/// # let entry = NewEntry::new(b"src/lib.rs", Mode(0o100_644), kind.empty_blob());
/// # index.add(&entry, &AddOptions::default())?;
/// # let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default())?;
/// let view = IndexView::parse(bytes, kind)?;
/// assert_eq!(view.len(), 1);
/// let entry = view.lookup(b"src/lib.rs", Stage::Merged)?.expect("an entry");
/// assert_eq!(entry.entry().id(), kind.empty_blob());
/// assert_eq!(view.prefix(b"src/")?, 0..1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IndexView<D> {
    bytes: D,
    kind: HashKind,
    header: Header,
    /// Where the entries end, by a sound `EOIE`.
    hinted_end: Option<usize>,
    /// Where they end, by what lies behind them; for versions 2 and 3 without an `EOIE`.
    seen_end: OnceLock<Option<usize>>,
    /// The blocks of a sound offset table.
    hinted: Vec<Block>,
    /// A block did not fit.
    distrusted: AtomicBool,
    /// All entries.
    whole: Block,
    stepped: AtomicU64,
}

/// Consecutive entries.
#[derive(Debug)]
struct Block {
    at: usize,
    /// Position of the first.
    first: u32,
    entries: u32,
    /// Known once the block was stepped through.
    marks: OnceLock<Result<Marks, ReadError>>,
}

/// Where entries of a block are.
#[derive(Debug)]
struct Marks {
    /// Some 64 entries lie between two.
    list: Vec<Mark>,
    /// Version 4: paths.
    names: Vec<u8>,
    /// Byte offset behind the last.
    end: usize,
}

/// An entry whose place is known.
#[derive(Debug)]
struct Mark {
    at: usize,
    position: u32,
    /// Version 4: where its path is in [`Marks::names`].
    path: Range<usize>,
}

impl Block {
    fn new(at: usize, first: u32, entries: u32) -> Self {
        Block { at, first, entries, marks: OnceLock::new() }
    }
}

/// One entry of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewEntry<'v> {
    head: &'v [u8],
    path: Cow<'v, [u8]>,
    kind: HashKind,
}

impl<'v> ViewEntry<'v> {
    /// The entry.
    pub fn entry(&self) -> Entry<'_> {
        Entry::new(self.head, &self.path, self.kind)
    }

    /// Its path, which is borrowed unless the file is of version 4.
    pub fn into_path(self) -> Cow<'v, [u8]> {
        self.path
    }
}

impl IndexView<Bytes> {
    /// Opens an index file; `None` if there is none. As [`parse`](Self::parse).
    ///
    /// # Errors
    /// What the system says, or as for [`parse`](Self::parse).
    pub fn open(path: &Path, kind: HashKind, source: ByteSource) -> Result<Option<Self>, LoadError> {
        let bytes = match Bytes::open(path, source) {
            Ok((bytes, _)) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(LoadError::Io { path: path.into(), source }),
        };
        Self::parse(bytes, kind).map(Some).map_err(|source| LoadError::Content { path: path.into(), source })
    }
}

impl<D: AsRef<[u8]>> IndexView<D> {
    /// Looks at the header, and at the offset table if there is one. O(blocks).
    ///
    /// # Errors
    /// The file is too short, or its signature or version is another one.
    pub fn parse(bytes: D, kind: HashKind) -> Result<Self, ReadError> {
        let file = bytes.as_ref();
        let header = Header::parse(file, kind)?;
        let hinted_end = eoie::locate(file, kind);
        let table = hinted_end.and_then(|end| {
            let table = extensions(file, end, kind).find(|item| item.signature == ext::IEOT)?;
            ieot::parse(table.data, Header::LEN..end, usize::try_from(header.count).ok()?)
        });
        let mut first = 0;
        let hinted = table.unwrap_or_default().into_iter().map(|block| {
            first += block.entries;
            Block::new(block.at, first - block.entries, block.entries)
        });
        let hinted = hinted.collect();
        let whole = Block::new(Header::LEN, 0, header.count);
        let (distrusted, stepped) = (AtomicBool::new(false), AtomicU64::new(0));
        let seen_end = OnceLock::new();
        Ok(IndexView { bytes, kind, header, hinted_end, seen_end, hinted, distrusted, whole, stepped })
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Number of entries, as the header says: whether there are as many is known only when they are looked at.
    pub fn len(&self) -> u32 {
        self.header.count
    }

    /// Whether the header says that there are no entries.
    pub fn is_empty(&self) -> bool {
        self.header.count == 0
    }

    /// Version of the format.
    pub fn version(&self) -> Version {
        self.header.version
    }

    /// The hash function of the ids.
    pub fn kind(&self) -> HashKind {
        self.kind
    }

    /// The entry at a position; `None` beyond the last.
    ///
    /// Costs a step through its block the first time one of that block is asked for; then at most 64 steps.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn get(&self, at: u32) -> Result<Option<ViewEntry<'_>>, ViewError> {
        if at >= self.header.count {
            return Ok(None);
        }
        self.cursor_at(at)?.next_view()
    }

    /// Where the entry of this path and stage is, or else where it would be. Costs as [`get`](Self::get), and the first
    /// paths of some blocks.
    ///
    /// # Errors
    /// [`ViewError::NeedsFullRead`] for a version 4 file without a sound offset table, and for the part of a split index that
    /// lies on a shared one; [`ViewError::Read`] for damage.
    pub fn find(&self, path: &[u8], stage: Stage) -> Result<Result<u32, u32>, ViewError> {
        let (at, entry) = self.partition(|entry| entry.cmp_key(path, stage).is_lt())?;
        let found = entry.is_some_and(|entry| entry.entry().cmp_key(path, stage).is_eq());
        Ok(if found { Ok(at) } else { Err(at) })
    }

    /// The entry of this path and stage. Costs as [`find`](Self::find); in versions 2 and 3 O(log n), if there is an
    /// end-of-entries extension, and else in addition a quick look at the second half of the file, once.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn lookup(&self, path: &[u8], stage: Stage) -> Result<Option<ViewEntry<'_>>, ViewError> {
        let before = |entry: Entry<'_>| entry.cmp_key(path, stage).is_lt();
        let entry = match self.halve(before)? {
            Some(entry) => entry,
            None => self.partition(before)?.1,
        };
        Ok(entry.filter(|entry| entry.entry().cmp_key(path, stage).is_eq()))
    }

    /// The positions of all entries whose path begins with these bytes: a directory's if they end in `/`.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn prefix(&self, prefix: &[u8]) -> Result<Range<u32>, ViewError> {
        let (start, _) = self.partition(|entry| entry.path() < prefix)?;
        let (end, _) = self.partition(|entry| entry.path() < prefix || entry.path().starts_with(prefix))?;
        Ok(start..end.max(start))
    }

    /// All entries of the file, from the first on; of a split index, those that are in it.
    pub fn cursor(&self) -> Cursor<'_> {
        self.raw().cursor(&self.whole)
    }

    /// The entries from a position on. Costs as [`get`](Self::get).
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn cursor_at(&self, at: u32) -> Result<Cursor<'_>, ViewError> {
        self.understood()?;
        if at >= self.header.count {
            return Ok(Cursor { left: 0, ..self.cursor() });
        }
        self.with_blocks(|blocks| {
            let number = blocks.partition_point(|block| block.first <= at).saturating_sub(1);
            let Some(block) = blocks.get(number) else { return Ok(self.cursor()) };
            let marks = self.marks(blocks, number)?;
            let near = marks.list.partition_point(|mark| mark.position <= at).checked_sub(1);
            let mut cursor = self.raw().cursor_near(block, marks, near);
            while cursor.position < at && cursor.step()?.is_some() {}
            // The last of this block is not the last of all.
            cursor.left = self.header.count - at;
            self.stepped.fetch_add(cursor.steps, Ordering::Relaxed);
            Ok(cursor)
        })
    }

    /// The data of an extension, the last one if there are several. Costs a step through all entries, once, unless an
    /// end-of-entries extension says where they end.
    ///
    /// # Errors
    /// [`ViewError::Read`] if the entries had to be stepped through and are damaged.
    pub fn extension(&self, signature: [u8; 4]) -> Result<Option<&[u8]>, ViewError> {
        Ok(self.item(signature)?.map(|item| item.data))
    }

    /// The shared index that a split index builds on; `None` if all entries are here. Costs as
    /// [`extension`](Self::extension).
    ///
    /// # Errors
    /// As [`extension`](Self::extension), and if the extension is damaged.
    pub fn split_base(&self) -> Result<Option<ObjectId>, ViewError> {
        let Some(item) = self.item(ext::LINK)? else { return Ok(None) };
        let link = Link::parse(item.data, self.kind)
            .map_err(|source| ReadError::new(item.at, ReadErrorKind::Extension { signature: ext::LINK, source }))?;
        Ok(Some(link.base).filter(|base| !base.is_null()))
    }

    /// How many entries were stepped over so far, from one to the next: what look-ups have cost.
    pub fn entries_stepped(&self) -> u64 {
        self.stepped.load(Ordering::Relaxed)
    }

    fn raw(&self) -> Raw<'_> {
        let bytes = self.bytes();
        let end = bytes.len().saturating_sub(self.kind.len());
        Raw { bytes: bytes.get(..end).unwrap_or_default(), kind: self.kind, version: self.header.version }
    }

    fn item(&self, signature: [u8; 4]) -> Result<Option<ext::Item<'_>>, ViewError> {
        let items = extensions(self.bytes(), self.entries_end()?, self.kind);
        Ok(items.filter(|item| item.signature == signature).last())
    }

    /// Byte offset of the end of the entries, where the extensions begin. Costs as [`extension`](Self::extension).
    ///
    /// # Errors
    /// As [`extension`](Self::extension).
    pub fn entries_end(&self) -> Result<usize, ViewError> {
        match self.end_at_once() {
            Some(end) => Ok(end),
            None => Ok(self.marks(std::slice::from_ref(&self.whole), 0)?.end),
        }
    }

    /// Where the entries end, if that can be told without going through them. As soon as the end is known from the entries,
    /// that counts.
    fn end_at_once(&self) -> Option<usize> {
        if self.whole.marks.get().is_some() {
            return None;
        }
        if self.hinted_end.is_some() {
            return self.hinted_end.filter(|_| !self.distrusted.load(Ordering::Relaxed));
        }
        if self.header.version == Version::V4 {
            return None;
        }
        *self.seen_end.get_or_init(|| anchor::end(self.raw().bytes, self.header.count, self.kind))
    }

    /// That the entries of this file mean what they say alone.
    fn understood(&self) -> Result<(), ViewError> {
        if self.header.version == Version::V4 && self.hinted.is_empty() && self.header.count > 0 {
            return Err(ViewError::NeedsFullRead { why: "a version 4 index without offset table" });
        }
        let raw = self.raw().bytes;
        for item in Extensions::new(raw, self.entries_end()?, raw.len()) {
            let item = match item {
                Ok(item) => item,
                Err(cut) => match required(raw.get(cut.at..).unwrap_or_default(), cut.at) {
                    Some(error) => return Err(error.into()),
                    None => break,
                },
            };
            if !ext::is_optional(item.signature) && !matches!(item.signature, ext::LINK | ext::SDIR) {
                let kind = ReadErrorKind::RequiredExtension { signature: item.signature };
                return Err(ReadError::new(item.at - ext::HEADER_LEN, kind).into());
            }
        }
        match self.split_base()? {
            Some(_) => Err(ViewError::NeedsFullRead { why: "an index on top of a shared one" }),
            None => Ok(()),
        }
    }

    /// Tries the blocks of the offset table; if they do not fit, that is the end of them, and all entries are one block.
    fn with_blocks<'v, T>(&'v self, ask: impl Fn(&'v [Block]) -> Result<T, ViewError>) -> Result<T, ViewError> {
        if !self.hinted.is_empty() && !self.distrusted.load(Ordering::Relaxed) {
            if let Ok(answer) = ask(&self.hinted) {
                return Ok(answer);
            }
            self.distrusted.store(true, Ordering::Relaxed);
        }
        if self.header.version == Version::V4 && self.header.count > 0 {
            return Err(ViewError::NeedsFullRead { why: "a version 4 index whose offset table does not fit" });
        }
        ask(std::slice::from_ref(&self.whole))
    }

    /// Steps through a block if that has not been done, and finds that it ends where the next one begins.
    fn marks<'v>(&'v self, blocks: &'v [Block], number: usize) -> Result<&'v Marks, ViewError> {
        let block = blocks.get(number).unwrap_or(&self.whole);
        let end = match blocks.get(number + 1) {
            Some(next) => Some(next.at),
            None => self.hinted_end.filter(|_| !std::ptr::eq(block, &self.whole)),
        };
        let marks = block.marks.get_or_init(|| {
            self.stepped.fetch_add(block.entries.into(), Ordering::Relaxed);
            self.raw().marks(block, end)
        });
        let marks = marks.as_ref().map_err(|error| error.clone())?;
        match end {
            Some(end) if end != marks.end => Err(misfit()),
            _ => Ok(marks),
        }
    }

    /// The first entry for which `before` does not hold, by halving the bytes of the entries. The outer `None`: another
    /// way has to be gone.
    fn halve(&self, before: impl Fn(Entry<'_>) -> bool) -> Result<Option<Option<ViewEntry<'_>>>, ViewError> {
        self.understood()?;
        let Some(end) = self.end_at_once().filter(|_| self.header.version != Version::V4 && self.header.count > 0)
        else {
            return Ok(None);
        };
        let raw = self.raw();
        let raw = Raw { bytes: raw.bytes.get(..end).unwrap_or_default(), ..raw };
        let cursor_from = |at: usize| Cursor { at, ..raw.cursor(&self.whole) };
        let mut steps = 0;
        // `before` holds for the entry at `low`, or that is the first; and does not for the one at `high`, or there is none.
        let (mut low, mut high) = (Header::LEN, end);
        while high - low > NEAR {
            let Some(at) = anchor::find(raw.bytes, low, low + (high - low) / 2, self.kind) else { return Ok(None) };
            if at <= low || at >= high {
                break;
            }
            let Ok(Some(entry)) = cursor_from(at).next_view() else { return Ok(None) };
            steps += 1;
            if before(entry.entry()) { low = at } else { high = at }
        }
        let mut cursor = cursor_from(low);
        let mut found = None;
        while cursor.at < end && found.is_none() {
            let Ok(entry) = cursor.next_view() else { return Ok(None) };
            found = entry.filter(|entry| !before(entry.entry()));
        }
        self.stepped.fetch_add(steps + cursor.steps, Ordering::Relaxed);
        Ok(Some(found))
    }

    /// How many entries there are in front of the first for which `before` does not hold, and that one. `before` must hold
    /// for all in front of it and for none behind.
    fn partition(&self, before: impl Fn(Entry<'_>) -> bool) -> Result<(u32, Option<ViewEntry<'_>>), ViewError> {
        self.understood()?;
        if self.header.count == 0 {
            return Ok((0, None));
        }
        self.with_blocks(|blocks| {
            let raw = self.raw();
            let first_of = |block: &Block| raw.cursor(block).next_view()?.ok_or_else(misfit);
            let behind = search(blocks.len(), |number| match blocks.get(number) {
                Some(block) => Ok(before(first_of(block)?.entry())),
                None => Ok(false),
            })?;
            let Some(number) = behind.checked_sub(1) else {
                return Ok((0, blocks.first().map(first_of).transpose()?));
            };
            let Some(block) = blocks.get(number) else { return Err(misfit()) };
            let marks = self.marks(blocks, number)?;
            let near = search(marks.list.len(), |mark| {
                let entry = raw.cursor_near(block, marks, Some(mark)).next_view()?;
                Ok(entry.is_some_and(|entry| before(entry.entry())))
            })?;
            let mut cursor = raw.cursor_near(block, marks, near.checked_sub(1));
            let mut found = None;
            while let Some((head, path)) = cursor.step()? {
                if !before(Entry::new(head, path.unwrap_or(&cursor.path), self.kind)) {
                    found = Some((cursor.position - 1, Some(cursor.view(head, path))));
                    break;
                }
            }
            self.stepped.fetch_add(cursor.steps, Ordering::Relaxed);
            Ok(match found {
                Some(found) => found,
                None => (cursor.position, blocks.get(number + 1).map(first_of).transpose()?),
            })
        })
    }
}

impl<D> std::fmt::Debug for IndexView<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexView")
            .field("header", &self.header)
            .field("blocks", &self.hinted.len())
            .finish_non_exhaustive()
    }
}

/// The extensions up to the first that is cut short.
fn extensions(bytes: &[u8], start: usize, kind: HashKind) -> impl Iterator<Item = ext::Item<'_>> {
    Extensions::new(bytes, start, bytes.len().saturating_sub(kind.len())).map_while(Result::ok)
}

/// Bytes of entries that are stepped through rather than halved.
const NEAR: usize = 16 * 1024;

/// `partition_point` of `0..len` with questions that can fail.
fn search(len: usize, before: impl Fn(usize) -> Result<bool, ViewError>) -> Result<usize, ViewError> {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        match before(middle)? {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

/// What is seen of a table that does not fit. Never leaves this file: without the table there is another answer.
fn misfit() -> ViewError {
    ViewError::NeedsFullRead { why: "an index whose offset table does not fit" }
}

/// The file up to its trailer, and how to read it.
#[derive(Debug, Clone, Copy)]
struct Raw<'v> {
    bytes: &'v [u8],
    kind: HashKind,
    version: Version,
}

impl<'v> Raw<'v> {
    fn cursor(self, block: &Block) -> Cursor<'v> {
        let (at, position, left) = (block.at, block.first, block.entries);
        Cursor { raw: self, at, position, left, next: Next::Whole, path: Vec::new(), steps: 0 }
    }

    /// At a mark of the block, or at its beginning.
    fn cursor_near(self, block: &Block, marks: &Marks, mark: Option<usize>) -> Cursor<'v> {
        let cursor = self.cursor(block);
        let Some(mark) = mark.and_then(|mark| marks.list.get(mark)) else { return cursor };
        let left = cursor.left.saturating_sub(mark.position - block.first);
        let path = marks.names.get(mark.path.clone()).unwrap_or_default().to_vec();
        Cursor { at: mark.at, position: mark.position, left, next: Next::Known, path, ..cursor }
    }

    /// Steps from length to length. `end` is where the entries should end, if that is known.
    fn marks(self, block: &Block, end: Option<usize>) -> Result<Marks, ReadError> {
        let end = end.unwrap_or(self.bytes.len());
        let area = Area { bytes: self.bytes, end, kind: self.kind, version: self.version, file: Which::Own };
        let options = ReadOptions::new(self.kind).check_order(false);
        let count = usize::try_from(block.entries).unwrap_or(usize::MAX);
        let found = Found::read_from(&area, block.at, count, &options, 1)?;
        let mut position = block.first;
        let mark = |block: RawBlock| {
            position += block.count as u32;
            Mark { at: block.at, position: position - block.count as u32, path: block.first.unwrap_or_default() }
        };
        Ok(Marks { list: found.blocks.into_iter().map(mark).collect(), names: found.names, end: found.end })
    }

    #[inline(always)]
    fn len(self, at: usize, base: usize) -> Result<usize, ReadError> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let Some(word) = rest.get(base - 2..).and_then(|flags| flags.first_chunk()) else {
            return Err(truncated("index entry", at, base, rest.len()));
        };
        let word = u16::from_be_bytes(*word);
        let head = base + if word & EXTENDED != 0 { 2 } else { 0 };
        let mut len = usize::from(word & NAME_MASK);
        if len == usize::from(NAME_MASK) {
            len = long_path(rest.get(head..).unwrap_or_default(), at + head)?;
        }
        let size = record_len(head, len);
        if size > rest.len() {
            return Err(truncated("index entry", at, size, rest.len()));
        }
        Ok(size)
    }

    /// Length of the head, bytes to remove from the path before, bytes of that number, bytes of the rest of the path.
    fn parts_v4(self, at: usize) -> Result<(usize, u64, usize, usize), ReadError> {
        let base = head_len(self.kind);
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.len() < base {
            return Err(truncated("index entry", at, base, rest.len()));
        }
        let mut head = base;
        if be16(rest, base - 2) & EXTENDED != 0 {
            check_extended(rest, base, at)?;
            head += 2;
        }
        let field = rest.get(head..).unwrap_or_default();
        let Some((strip, number)) = path_v4::decode(field) else {
            return Err(ReadError::new(at + head, ReadErrorKind::Strip { strip: u64::MAX, previous: 0 }));
        };
        let suffix = field.get(number..).unwrap_or_default();
        match path_v4::suffix_len(suffix) {
            Some(len) => Ok((head, strip, number, len)),
            None => Err(ReadError::new(at + head, ReadErrorKind::Unterminated { len: suffix.len() as u64 })),
        }
    }
}

/// Entries one after the other. Each is lent until the next is asked for, since version 4 paths are put together in one
/// place. After an error there is nothing more.
#[derive(Debug, Clone)]
pub struct Cursor<'v> {
    raw: Raw<'v>,
    at: usize,
    position: u32,
    left: u32,
    /// Version 4 only.
    next: Next,
    /// Version 4: the path of the last entry.
    path: Vec<u8>,
    steps: u64,
}

/// Where the path of the next entry of version 4 comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is whole, as the first of a block.
    Whole,
    /// It is in [`Cursor::path`] already.
    Known,
    /// It builds on the one before.
    Builds,
}

/// A head; and the path, unless that is in [`Cursor::path`].
type Step<'v> = (&'v [u8], Option<&'v [u8]>);

impl<'v> Cursor<'v> {
    /// The next entry.
    ///
    /// # Errors
    /// It is damaged, or not there though the header says so.
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, ViewError> {
        let kind = self.raw.kind;
        Ok(self.step()?.map(|(head, path)| Entry::new(head, path.unwrap_or(&self.path), kind)))
    }

    /// Position of the entry that is next.
    pub fn position(&self) -> u32 {
        self.position
    }

    fn next_view(&mut self) -> Result<Option<ViewEntry<'v>>, ViewError> {
        Ok(self.step()?.map(|(head, path)| self.view(head, path)))
    }

    fn view(&self, head: &'v [u8], path: Option<&'v [u8]>) -> ViewEntry<'v> {
        let path = path.map_or_else(|| Cow::Owned(self.path.clone()), Cow::Borrowed);
        ViewEntry { head, path, kind: self.raw.kind }
    }

    fn step(&mut self) -> Result<Option<Step<'v>>, ReadError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = 0;
        let step = if self.raw.version == Version::V4 { self.step_v4()? } else { self.step_record()? };
        self.left = left;
        self.position += 1;
        self.steps += 1;
        self.next = Next::Builds;
        Ok(Some(step))
    }

    fn step_record(&mut self) -> Result<Step<'v>, ReadError> {
        let base = head_len(self.raw.kind);
        let size = self.raw.len(self.at, base)?;
        let record = self.raw.bytes.get(self.at..self.at + size).unwrap_or_default();
        let word = be16(record, base - 2);
        let mut head = base;
        if word & EXTENDED != 0 {
            check_extended(record, base, self.at)?;
            head += 2;
        }
        let (head, rest) = record.split_at_checked(head).unwrap_or_default();
        let len = path_len(record, head.len(), self.raw.kind).unwrap_or(rest.len());
        let Some((path, [0, ..])) = rest.split_at_checked(len) else {
            return Err(ReadError::new(self.at + head.len(), ReadErrorKind::Unterminated { len: len as u64 }));
        };
        self.at += size;
        Ok((head, Some(path)))
    }

    fn step_v4(&mut self) -> Result<Step<'v>, ReadError> {
        let (head, strip, number, len) = self.raw.parts_v4(self.at)?;
        let previous = self.path.len();
        let keep = match usize::try_from(strip).ok().and_then(|strip| previous.checked_sub(strip)) {
            _ if self.next == Next::Whole => 0,
            _ if self.next == Next::Known => previous.saturating_sub(len),
            Some(keep) => keep,
            None => {
                let kind = ReadErrorKind::Strip { strip, previous: previous as u64 };
                return Err(ReadError::new(self.at + head, kind));
            }
        };
        let entry = self.raw.bytes.get(self.at..).unwrap_or_default();
        let stated = usize::from(be16(entry, ID_AT + self.raw.kind.len()) & NAME_MASK);
        if stated != (keep + len).min(usize::from(NAME_MASK)) {
            return Err(ReadError::new(self.at + head, ReadErrorKind::Unterminated { len: stated as u64 }));
        }
        self.path.truncate(keep);
        self.path.extend_from_slice(entry.get(head + number..head + number + len).unwrap_or_default());
        self.at += head + number + len + 1;
        Ok((entry.get(..head).unwrap_or_default(), None))
    }
}
