//! From bytes to entries and extensions.

use object::{HashKind, ObjectId};

use bumpalo::Bump;

use crate::error::{ExtError, ExtErrorKind, ReadError, ReadErrorKind};
use crate::ext::{self, CacheTree, Extensions, Fsmonitor, Item, Link, ResolveUndo, Untracked};
use crate::header::Header;
use crate::index::{Extension, Index, MARK_FSMONITOR};
use crate::observer::{Observer, Quiet};
use crate::scan::{Area, Found as Entries};
use crate::split;
use crate::store::{Slot, Slots, Store, Which};

/// How an index is read. All fields but `kind` have setters of the same name.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ReadOptions<'a> {
    /// The hash function of the repository; an index does not say it.
    pub kind: HashKind,
    /// Threads to use, this one included. Default: 1.
    ///
    /// More than one share the entries: by the file's offset table (extensions `EOIE` and `IEOT`) if that is sound, else a
    /// version 2 or 3 file is cut where an entry seems to begin, and the cut is kept only if the entries in front of it
    /// end exactly there. A version 4 file without a table is read by one. What is read never depends on it.
    pub threads: usize,
    /// Whether to hold the content against the trailer, on another thread if `threads` allows one. Default: `false`, as in
    /// git. A zero trailer (`index.skipHash`) always passes; a wrong one is an error.
    pub verify_checksum: bool,
    /// Whether entries out of order are an error. Default: `true`; look-ups and edits rely on it. Without, they may miss
    /// entries, and nothing worse.
    pub check_order: bool,
    /// How many bytes the paths of a version 4 file may have together once they are whole. Default: 64 for each byte of
    /// the file, and a MiB: more than paths of 4096 bytes can need.
    pub path_limit: Option<u64>,
    /// The shared index that a split index builds on. Without it a split index is an error that says its name.
    pub shared: Option<&'a [u8]>,
    /// Told about what is passed over. Default: nobody.
    pub observer: &'a dyn Observer,
}

impl<'a> ReadOptions<'a> {
    /// The defaults, for a repository of this kind.
    pub fn new(kind: HashKind) -> Self {
        ReadOptions {
            kind,
            threads: 1,
            verify_checksum: false,
            check_order: true,
            path_limit: None,
            shared: None,
            observer: &Quiet,
        }
    }

    /// Sets [`ReadOptions::threads`].
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets [`ReadOptions::verify_checksum`].
    pub fn verify_checksum(mut self, yes: bool) -> Self {
        self.verify_checksum = yes;
        self
    }

    /// Sets [`ReadOptions::check_order`].
    pub fn check_order(mut self, yes: bool) -> Self {
        self.check_order = yes;
        self
    }

    /// Sets [`ReadOptions::path_limit`].
    pub fn path_limit(mut self, bytes: Option<u64>) -> Self {
        self.path_limit = bytes;
        self
    }

    /// Sets [`ReadOptions::shared`].
    pub fn shared(mut self, bytes: Option<&'a [u8]>) -> Self {
        self.shared = bytes;
        self
    }

    /// Sets [`ReadOptions::observer`].
    pub fn observer(mut self, observer: &'a dyn Observer) -> Self {
        self.observer = observer;
        self
    }
}

impl<'a> Index<'a> {
    /// Reads an index file.
    ///
    /// Linear in its length. Damage to what is only a cache (`TREE`, `REUC`, `UNTR`, `FSMN`) or a hint (`EOIE`, `IEOT`) is
    /// passed over and told to the observer. Nothing is allocated that the file's length does not account for, except
    /// the paths of version 4 up to [`ReadOptions::path_limit`].
    ///
    /// # Errors
    /// With the byte offset, for anything that makes an entry or a required extension unreadable.
    pub fn read(arena: &'a Bump, bytes: &'a [u8], options: &ReadOptions<'a>) -> Result<Self, ReadError> {
        if !options.verify_checksum {
            return read(arena, bytes, options, options.threads);
        }
        if options.threads < 2 {
            let index = read(arena, bytes, options, 1)?;
            verify(bytes, options.kind)?;
            return Ok(index);
        }
        std::thread::scope(|scope| {
            // The hash takes longer than all the rest, so it gets one of the threads for itself.
            let sum = scope.spawn(|| verify(bytes, options.kind));
            let index = read(arena, bytes, options, options.threads - 1);
            let sum = sum.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let index = index?;
            sum.map(|()| index)
        })
    }
}

fn verify(bytes: &[u8], kind: HashKind) -> Result<(), ReadError> {
    match hashfile::verify(bytes, kind) {
        Err(hashfile::VerifyError::Mismatch { at, found, computed }) => {
            Err(ReadError { at, kind: ReadErrorKind::Checksum { found, computed } })
        }
        // Too short: the header said so already.
        _ => Ok(()),
    }
}

fn read<'a>(
    arena: &'a Bump,
    bytes: &'a [u8],
    options: &ReadOptions<'a>,
    threads: usize,
) -> Result<Index<'a>, ReadError> {
    let kind = options.kind;
    let header = Header::parse(bytes, kind)?;
    let end = bytes.len() - kind.len(); // not less than the header: it was checked
    let area = Area { bytes, end, kind, version: header.version, file: Which::Own };
    let entries = Entries::read(&area, header.count, options, threads)?;
    let entries_end = entries.end;

    let mut found = Found::default();
    for item in Extensions::new(bytes, entries_end, end) {
        match item {
            Ok(item) => found.take(item)?,
            Err(cut) => {
                if let Some(error) = required(bytes.get(cut.at..end).unwrap_or_default(), cut.at) {
                    return Err(error);
                }
                // Whoever wrote this wrote nonsense: what it said about the entries in front is not trusted either.
                options.observer.cut_short(entries_end as u64);
                found = Found { link: found.link, sparse: found.sparse, ..Found::default() };
                break;
            }
        }
    }

    let mut index = Index::new(arena, kind);
    index.version = header.version;
    index.checksum = bytes.get(end..).and_then(|id| ObjectId::from_prefix(id, kind)).filter(|id| !id.is_null());
    index.sparse = found.sparse;
    index.unknown = found.unknown;
    let (slots, misplaced) = entries.settle(&mut index.store, &area, options);
    index.slots = slots;
    match (found.link, misplaced) {
        (Some((at, data)), misplaced) => split_index(&mut index, misplaced, at, data, options)?,
        (None, Some(error)) => return Err(error),
        (None, None) => {}
    }
    read_caches(&mut index, &found.caches, options);
    Ok(index)
}

/// Puts a split index together: what the file holds, on top of its shared index.
fn split_index<'a>(
    index: &mut Index<'a>,
    misplaced: Option<ReadError>,
    at: usize,
    data: &'a [u8],
    options: &ReadOptions<'a>,
) -> Result<(), ReadError> {
    let kind = options.kind;
    let link = Link::parse(data, kind)
        .map_err(|source| ReadError::new(at, ReadErrorKind::Extension { signature: ext::LINK, source }))?;
    if link.base.is_null() {
        // It builds on nothing yet: an index that will be split when it is written.
        if let Some(error) = misplaced {
            return Err(error);
        }
        index.split = Some(split::Split { base: None, slots: Slots::default(), of: Vec::new() });
        return Ok(());
    }
    let Some(shared) = options.shared else {
        return Err(ReadError::new(at, ReadErrorKind::NeedsShared { base: link.base }));
    };
    let base = read_shared(&mut index.store, shared, &link, options).map_err(|error| match error.kind {
        ReadErrorKind::WrongShared { .. } => error,
        _ => ReadError::new(at, ReadErrorKind::Shared { source: Box::new(error) }),
    })?;
    let own = std::mem::take(index.slots.list());
    let merged = split::merge(&mut index.store, own, base, &link)
        .map_err(|what| ReadError::new(at, ReadErrorKind::Split { what }))?;
    (index.slots, index.split) = (Slots::List(merged.0), Some(merged.1));
    Ok(())
}

/// The entries of a shared index. Its extensions mean nothing.
fn read_shared<'a>(
    store: &mut Store<'a>,
    bytes: &'a [u8],
    link: &Link<'_>,
    options: &ReadOptions<'a>,
) -> Result<Vec<Slot>, ReadError> {
    let kind = options.kind;
    let header = Header::parse(bytes, kind)?;
    let end = bytes.len() - kind.len();
    let found = bytes.get(end..).and_then(|id| ObjectId::from_prefix(id, kind)).unwrap_or(kind.null());
    if found != link.base {
        return Err(ReadError::new(end, ReadErrorKind::WrongShared { expected: link.base, found }));
    }
    if options.verify_checksum {
        verify(bytes, kind)?;
    }
    let area = Area { bytes, end, kind, version: header.version, file: Which::Shared };
    match Entries::read(&area, header.count, options, options.threads)?.settle(store, &area, options) {
        (_, Some(error)) => Err(error),
        (mut slots, None) => Ok(std::mem::take(slots.list())),
    }
}

/// Why what is left of an extension cannot be passed over: its signature says that it has to be understood.
pub(crate) fn required(rest: &[u8], at: usize) -> Option<ReadError> {
    let (&signature, _) = rest.split_first_chunk().filter(|_| rest.len() >= ext::HEADER_LEN)?;
    let kind = match signature {
        ext::LINK | ext::SDIR => {
            let source = ExtError::new(0, ExtErrorKind::Truncated { what: "data" });
            ReadErrorKind::Extension { signature, source }
        }
        _ if ext::is_optional(signature) => return None,
        _ => ReadErrorKind::RequiredExtension { signature },
    };
    Some(ReadError::new(at, kind))
}

/// Extensions as they were met.
#[derive(Default)]
struct Found<'a> {
    link: Option<(usize, &'a [u8])>,
    sparse: bool,
    caches: Vec<Item<'a>>,
    unknown: Vec<Extension<'a>>,
}

impl<'a> Found<'a> {
    fn take(&mut self, item: Item<'a>) -> Result<(), ReadError> {
        match item.signature {
            ext::EOIE | ext::IEOT => {}
            ext::TREE | ext::REUC | ext::UNTR | ext::FSMN => self.caches.push(item),
            ext::LINK => self.link = Some((item.at, item.data)),
            ext::SDIR => self.sparse = true,
            signature if signature[0].is_ascii_uppercase() => {
                self.unknown.push(Extension { signature, data: item.data });
            }
            signature => {
                let at = item.at.saturating_sub(8);
                return Err(ReadError::new(at, ReadErrorKind::RequiredExtension { signature }));
            }
        }
        Ok(())
    }
}

/// Reads the optional extensions; one that is damaged is not there.
fn read_caches<'a>(index: &mut Index<'a>, caches: &[Item<'a>], options: &ReadOptions<'_>) {
    let (kind, count) = (index.kind, index.slots.len());
    for item in caches {
        let data = item.data;
        let read = match item.signature {
            ext::TREE => CacheTree::parse(data, kind, count).map(|tree| index.tree = Some(tree)),
            ext::REUC => ResolveUndo::parse(data, kind).map(|undo| index.resolve_undo = undo),
            ext::UNTR => Untracked::parse(data, kind).map(|cache| index.untracked = Some(cache)),
            _ => Fsmonitor::parse(data, count).map(|Fsmonitor { token, dirty }| {
                index.marks.clear();
                index.marks.resize(count, MARK_FSMONITOR);
                for bit in dirty.ones() {
                    if let Some(marks) = index.marks.get_mut(bit as usize) {
                        *marks &= !MARK_FSMONITOR;
                    }
                }
                index.fsmonitor = Some(token.into_owned());
            }),
        };
        if let Err(why) = read {
            options.observer.dropped(item.signature, item.at as u64, &why);
        }
    }
}
