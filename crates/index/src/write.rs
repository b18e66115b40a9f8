//! From entries and extensions to bytes.

use std::io::{self, Write};

use hashfile::HashFile;
use object::ObjectId;

use crate::entry::{EXTENDED, Entry, INTENT_TO_ADD, NAME_MASK, SIZE_AT, SKIP_WORKTREE, head_len};
use crate::error::WriteError;
use crate::ext::ieot::Block;
use crate::ext::{self, Fsmonitor, Link, eoie, ieot};
use crate::header::{Header, Version};
use crate::index::{Index, MARK_FSMONITOR, MARK_UP_TO_DATE};
use crate::path_v4;
use crate::stat::Stat;
use crate::store::{Lies, Seen, Slots};

/// Entries to a block of the offset table: small enough that a look-up in a mapped index reads few, large enough that the
/// table, and the whole paths that begin blocks in version 4, do not count.
pub const DEFAULT_BLOCK: u32 = 8192;

/// Bytes that are looked through before they go out together: enough to pass by the buffer, and little enough that hashing
/// on another thread begins early.
const LONGEST_RUN: usize = 1 << 20;

/// How an index is written. All fields have setters of the same name.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct WriteOptions<'o> {
    /// Leave the trailer zero instead of hashing (`index.skipHash`). Never done to a shared index. Default: `false`.
    pub skip_hash: bool,
    /// Write extension `EOIE`, by which a reader finds the extensions without reading the entries
    /// (`index.recordEndOfIndexEntries`). Default: `false`, as in git.
    pub end_of_entries: bool,
    /// Write extension `IEOT` with this many entries to a block, by which readers share the work or look up single entries
    /// (`index.recordOffsetTable`); brings `end_of_entries` along. Default: none, as in git. See [`DEFAULT_BLOCK`].
    pub offset_table: Option<u32>,
    /// Threads to use, this one included: a second one hashes. The bytes do not depend on it. Default: 1.
    pub threads: usize,
    /// Write entries with a null id (git: `GIT_ALLOW_NULL_SHA1`); the cached trees are then left out. Default: `false`.
    pub allow_null_ids: bool,
    /// Asked about each entry whose file may have changed within the second it was last looked at: does the content
    /// differ? Its size is then written as zero, so that nobody takes it for unchanged later. Default: nobody is asked,
    /// and all such entries are written so.
    pub is_modified: Option<&'o dyn Fn(Entry<'_>) -> bool>,
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        WriteOptions {
            skip_hash: false,
            end_of_entries: false,
            offset_table: None,
            threads: 1,
            allow_null_ids: false,
            is_modified: None,
        }
    }
}

impl<'o> WriteOptions<'o> {
    /// Sets [`WriteOptions::skip_hash`].
    pub fn skip_hash(mut self, yes: bool) -> Self {
        self.skip_hash = yes;
        self
    }

    /// Sets [`WriteOptions::end_of_entries`].
    pub fn end_of_entries(mut self, yes: bool) -> Self {
        self.end_of_entries = yes;
        self
    }

    /// Sets [`WriteOptions::offset_table`].
    pub fn offset_table(mut self, block: Option<u32>) -> Self {
        self.offset_table = block;
        self
    }

    /// Sets [`WriteOptions::threads`].
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets [`WriteOptions::allow_null_ids`].
    pub fn allow_null_ids(mut self, yes: bool) -> Self {
        self.allow_null_ids = yes;
        self
    }

    /// Sets [`WriteOptions::is_modified`].
    pub fn is_modified(mut self, ask: Option<&'o dyn Fn(Entry<'_>) -> bool>) -> Self {
        self.is_modified = ask;
        self
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The trailer; null if hashing was skipped.
    pub checksum: ObjectId,
    /// Bytes, trailer included.
    pub len: u64,
    /// The version: the lowest that fits, unless 4 was asked for.
    pub version: Version,
}

/// What goes into a file besides the entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// Everything, in one file.
    Whole,
    /// What is not in the shared index.
    Own,
    /// The shared index: entries alone.
    Shared,
}

impl<'a> Index<'a> {
    /// Writes the index as one file, however it is to be split; or, if it builds on a shared index, the part that is not
    /// in that. [`save`](crate::file::save) does the rest: lock, shared index, rename.
    ///
    /// Versions 2 and 3 are byte for byte what git writes from the same entries and extensions. Linear; stretches of
    /// entries that lie side by side as they were read go out as they are.
    ///
    /// # Errors
    /// The sink's; an entry with a null id; a path with a NUL.
    pub fn write_to<W: Write>(&mut self, out: W, options: &WriteOptions<'_>) -> Result<(W, Written), WriteError> {
        if self.shared_base().is_none() {
            return self.write_parts(out, options, Parts::Whole);
        }
        // One that is not what its shared entry says has to be known before it can be told apart from that.
        self.smudge(options);
        self.write_own(out, options)
    }

    /// Writes what is not in the shared index, after [`smudge`](Index::smudge).
    pub(crate) fn write_own<W: Write>(&self, out: W, options: &WriteOptions<'_>) -> Result<(W, Written), WriteError> {
        self.write_parts(out, options, Parts::Own)
    }

    /// Writes the index as one file, even if it is split.
    pub(crate) fn write_whole<W: Write>(&self, out: W, options: &WriteOptions<'_>) -> Result<(W, Written), WriteError> {
        self.write_parts(out, options, Parts::Whole)
    }

    /// Writes all entries as a shared index, after [`smudge`](Index::smudge): no extensions, always with its checksum, which
    /// will be its name.
    pub(crate) fn write_shared<W: Write>(
        &self,
        out: W,
        options: &WriteOptions<'_>,
    ) -> Result<(W, Written), WriteError> {
        self.write_parts(out, &options.skip_hash(false), Parts::Shared)
    }

    /// Sets the size of entries to zero that [`is_doubtful`](Index::is_doubtful) finds.
    pub(crate) fn smudge(&mut self, options: &WriteOptions<'_>) {
        for at in 0..self.len() {
            let Some(entry) = self.get(at) else { break };
            if self.is_doubtful(at, entry, options) {
                self.set_stat(at, Stat { size: 0, ..entry.stat() });
            }
        }
    }

    /// Whether an entry's file may have changed without its times telling.
    ///
    /// Only whole seconds count here: git compares no more by default, and has to see the change as well.
    #[inline]
    fn is_doubtful(&self, at: usize, entry: Entry<'_>, options: &WriteOptions<'_>) -> bool {
        let written = self.timestamp.secs;
        if written == 0 || entry.mtime().secs < written {
            return false;
        }
        let up_to_date = self.marks.get(at).is_some_and(|marks| marks & MARK_UP_TO_DATE != 0);
        let asked = || options.is_modified.is_none_or(|ask| ask(entry));
        !up_to_date && !entry.is_gitlink() && entry.stat().size != 0 && asked()
    }

    fn write_parts<W: Write>(
        &self,
        out: W,
        options: &WriteOptions<'_>,
        parts: Parts,
    ) -> Result<(W, Written), WriteError> {
        let own = match (&self.split, parts) {
            (Some(split), Parts::Own) => Some((split, split.own(&self.slots, &self.store))),
            _ => None,
        };
        let none = Slots::default();
        let (nameless, entries) = match &own {
            Some((_, own)) => (&own.replacements, &own.added),
            None => (&none, &self.slots),
        };
        // In the shared index there may be one, too.
        let null = if parts == Parts::Own { self.iter().find(|entry| is_null(*entry)) } else { None };
        if let Some(entry) = null.filter(|_| !options.allow_null_ids) {
            return Err(WriteError::NullId { path: entry.path().into() });
        }
        let plan = Plan::new(self, nameless, entries, options);
        let hashing = hashfile::Options::default()
            .size_hint(Some(plan.len))
            .skip_hash(options.skip_hash)
            .hash_on_thread(options.threads > 1);
        std::thread::scope(|scope| {
            let mut out = HashFile::<W, &[u8]>::scoped(scope, out, self.kind, &hashing);
            let count = u32::try_from(nameless.len() + entries.len());
            let count = count.map_err(|_| WriteError::TooLarge { what: "the number of entries" })?;
            out.write_all(&Header { version: plan.version, count }.to_bytes()).map_err(io_error)?;
            let mut writer = EntryWriter {
                index: self,
                options,
                plan: &plan,
                parts,
                out: &mut out,
                record: Vec::new(),
                run: None,
                previous: Vec::new(),
                blocks: Vec::new(),
                null_ids: null.is_some(),
            };
            writer.write(nameless, true)?;
            writer.write(entries, false)?;
            let (blocks, null_ids) = (writer.blocks, writer.null_ids);

            let entries_end = out.total();
            let mut frames: Vec<([u8; 4], u32)> = Vec::new();
            let mut data = Vec::new();
            let mut put = |out: &mut HashFile<W, &[u8]>, signature, data: &[u8]| {
                let size = u32::try_from(data.len()).map_err(|_| WriteError::TooLarge { what: "an extension" })?;
                frames.push((signature, size));
                out.write_all(&ext::header(signature, size)).and_then(|()| out.write_all(data)).map_err(io_error)
            };
            if !blocks.is_empty() && ieot::append(&blocks, &mut data) {
                put(&mut out, ext::IEOT, &data)?;
            }
            if let Some((split, own)) = &own {
                data.clear();
                let base = split.base.unwrap_or(self.kind.null());
                let (delete, replace) = (own.delete.as_ewah(), own.replace.as_ewah());
                Link { base, delete: Some(delete), replace: Some(replace) }.append_to(&mut data);
                put(&mut out, ext::LINK, &data)?;
            }
            if parts != Parts::Shared {
                self.write_caches(&mut out, null_ids, &mut put)?;
            }
            if (options.end_of_entries || plan.block.is_some())
                && let Ok(end) = u32::try_from(entries_end)
            {
                data.clear();
                eoie::append(end, &frames, self.kind, &mut data);
                out.write_all(&ext::header(ext::EOIE, data.len() as u32))
                    .and_then(|()| out.write_all(&data))
                    .map_err(io_error)?;
            }
            let len = out.total() + self.kind.len() as u64;
            let (out, checksum) = out.finish()?;
            Ok((out, Written { checksum, len, version: plan.version }))
        })
    }

    fn write_caches<O>(
        &self,
        out: &mut O,
        null_ids: bool,
        put: &mut impl FnMut(&mut O, [u8; 4], &[u8]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut data = Vec::new();
        if let Some(tree) = self.tree.as_ref().filter(|_| !null_ids) {
            tree.append_to(&mut data);
            put(out, ext::TREE, &data)?;
        }
        if !self.resolve_undo.is_empty() {
            data.clear();
            self.resolve_undo.append_to(&mut data);
            put(out, ext::REUC, &data)?;
        }
        if let Some(cache) = &self.untracked {
            data.clear();
            cache.append_to(&mut data);
            put(out, ext::UNTR, &data)?;
        }
        if let Some(token) = &self.fsmonitor {
            data.clear();
            let valid = |at: usize| self.marks.get(at).is_some_and(|marks| marks & MARK_FSMONITOR != 0);
            Fsmonitor::append(
                token,
                (0u32..).zip(0..self.len()).filter(|&(_, at)| !valid(at)).map(|(bit, _)| bit),
                &mut data,
            );
            put(out, ext::FSMN, &data)?;
        }
        if self.sparse {
            put(out, ext::SDIR, &[])?;
        }
        for extension in &self.unknown {
            put(out, extension.signature, extension.data)?;
        }
        Ok(())
    }
}

/// What has to be known before the first byte is written.
struct Plan {
    version: Version,
    /// Entries to a block of the offset table.
    block: Option<usize>,
    /// Bytes of the file, nearly: what it was read from, or what short paths would take.
    len: u64,
}

impl Plan {
    fn new(index: &Index<'_>, nameless: &Slots, entries: &Slots, options: &WriteOptions<'_>) -> Plan {
        // Most indexes never had a second flag word; the others have to be looked through.
        let extended = index.store.may_be_extended()
            && [nameless, entries].iter().any(|slots| {
                let look = |seen: Seen<'_, '_>| if seen.entry.extended_word() != 0 { Err(()) } else { Ok(()) };
                index.store.each(slots, 0..slots.len(), look).is_err()
            });
        let version = match (index.version, extended) {
            (Version::V4, _) => Version::V4,
            (_, true) => Version::V3,
            (_, false) => Version::V2,
        };
        let block = options.offset_table.map(|block| usize::try_from(block.max(1)).unwrap_or(usize::MAX));
        let guess = (nameless.len() + entries.len()) * (head_len(index.kind) + 32);
        Plan { version, block, len: guess.max(index.store.own_len()) as u64 }
    }
}

struct EntryWriter<'p, 'o, 'a, 's, W> {
    index: &'p Index<'a>,
    options: &'p WriteOptions<'p>,
    plan: &'p Plan,
    parts: Parts,
    out: &'o mut HashFile<W, &'s [u8]>,
    record: Vec<u8>,
    /// Bytes of a file that go out as they are, as soon as something else follows.
    run: Option<Lies<'a>>,
    /// Version 4: what the next path is told apart from.
    previous: Vec<u8>,
    blocks: Vec<Block>,
    null_ids: bool,
}

#[inline]
fn is_null(entry: Entry<'_>) -> bool {
    entry.id_bytes().iter().all(|&byte| byte == 0)
}

fn io_error(source: io::Error) -> WriteError {
    WriteError::from(hashfile::WriteError::Io { taken: 0, source })
}

impl<'s, 'a: 's, W: Write> EntryWriter<'_, '_, 'a, 's, W> {
    fn write(&mut self, slots: &Slots, nameless: bool) -> Result<(), WriteError> {
        let block = self.plan.block.unwrap_or(usize::MAX);
        for start in (0..slots.len()).step_by(block) {
            let range = start..start.saturating_add(block).min(slots.len());
            let mut restart = self.plan.block.is_some();
            if restart {
                let at = usize::try_from(self.out.total()).unwrap_or(usize::MAX);
                self.blocks.push(Block { at, entries: u32::try_from(range.len()).unwrap_or(u32::MAX) });
            }
            let (index, mut first) = (self.index, true);
            index.store.each(slots, range, |seen| {
                let fresh = std::mem::take(&mut first);
                self.write_entry(seen, nameless, fresh, std::mem::take(&mut restart))
            })?;
            self.flush().map_err(io_error)?;
        }
        Ok(())
    }

    /// `fresh`: it is not what stands before it in its file that was written before. `restart`: the path is written whole
    /// (version 4), so that reading can begin with it.
    #[inline]
    fn write_entry(
        &mut self,
        seen: Seen<'_, 'a>,
        nameless: bool,
        fresh: bool,
        restart: bool,
    ) -> Result<(), WriteError> {
        let entry = seen.entry;
        if is_null(entry) {
            if !self.options.allow_null_ids {
                return Err(WriteError::NullId { path: entry.path().into() });
            }
            self.null_ids = true;
        }
        let path = if nameless { &[][..] } else { entry.path() };
        // Packed ones were read up to their NUL.
        if seen.lies.as_ref().is_none_or(|lies| !lies.packed) && memchr::memchr(0, path).is_some() {
            return Err(WriteError::Nul { path: path.into() });
        }
        // For a split index that was seen to before, and positions here are not those of the index.
        let doubtful = self.parts == Parts::Whole && self.index.is_doubtful(seen.at, entry, self.options);
        let packed = self.plan.version == Version::V4;
        let usable =
            |lies: &Lies<'a>| lies.packed == packed && !doubtful && !nameless && !(packed && (fresh || restart));
        match (seen.lies.filter(usable), &mut self.run) {
            (Some(lies), Some(run))
                if std::ptr::eq(run.file, lies.file)
                    && run.range.end == lies.range.start
                    && run.range.len() < LONGEST_RUN =>
            {
                run.range.end = lies.range.end;
            }
            (Some(lies), _) => {
                self.flush().map_err(io_error)?;
                self.run = Some(lies);
            }
            (None, _) => {
                self.flush().map_err(io_error)?;
                self.put_head(entry, path.len(), doubtful);
                self.put_path(path, restart);
                self.out.write_all(&self.record).map_err(io_error)?;
            }
        }
        if packed {
            self.previous.clear();
            self.previous.extend_from_slice(path);
        }
        Ok(())
    }

    /// Writes what waits to go out as it is.
    fn flush(&mut self) -> io::Result<()> {
        match self.run.take().and_then(|run| run.file.get(run.range)) {
            Some(bytes) => self.out.write_shared(bytes),
            None => Ok(()),
        }
    }

    /// Puts everything in front of the path into `record`.
    fn put_head(&mut self, entry: Entry<'_>, len: usize, doubtful: bool) {
        let kind = self.index.kind;
        let extended = entry.extended_word() & (SKIP_WORKTREE | INTENT_TO_ADD);
        let mut word = entry.flag_word() & !(EXTENDED | NAME_MASK);
        word |= u16::try_from(len).unwrap_or(NAME_MASK).min(NAME_MASK);
        word |= if extended != 0 { EXTENDED } else { 0 };
        self.record.clear();
        self.record.extend_from_slice(entry.head().get(..head_len(kind) - 2).unwrap_or_default());
        if let Some(size) = self.record.get_mut(SIZE_AT..SIZE_AT + 4).filter(|_| doubtful) {
            size.fill(0);
        }
        self.record.extend_from_slice(&word.to_be_bytes());
        if extended != 0 {
            self.record.extend_from_slice(&extended.to_be_bytes());
        }
    }

    fn put_path(&mut self, path: &[u8], restart: bool) {
        if self.plan.version == Version::V4 {
            let common = if restart { 0 } else { path_v4::common_prefix(&self.previous, path) };
            // Whoever reads from the start removes all of the path before; whoever starts here has none and ignores the
            // number.
            path_v4::encode((self.previous.len() - common) as u64, &mut self.record);
            self.record.extend_from_slice(path.get(common..).unwrap_or_default());
            self.record.push(0);
        } else {
            self.record.extend_from_slice(path);
            let len = (self.record.len() + 8) & !7;
            self.record.resize(len, 0);
        }
    }
}
