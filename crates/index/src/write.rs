//! From entries and extensions to bytes.

use std::io::{self, Write};
use std::ops::Range;

use hashfile::HashFile;
use object::{HashKind, ObjectId};

use crate::entry::{EXTENDED, Entry, INTENT_TO_ADD, NAME_MASK, SKIP_WORKTREE, head_len};
use crate::error::WriteError;
use crate::ext::ieot::Block;
use crate::ext::{self, Fsmonitor, Link, eoie, ieot};
use crate::header::{Header, Version};
use crate::index::{Index, MARK_FSMONITOR, MARK_UP_TO_DATE};
use crate::path_v4;
use crate::store::{Slots, Store};

/// Entries to a block of the offset table: small enough that a look-up in a mapped index reads few, large enough that the
/// table, and the whole paths that begin blocks in version 4, do not count.
pub const DEFAULT_BLOCK: u32 = 8192;

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
        self.smudge(options);
        let parts = if self.shared_base().is_some() { Parts::Own } else { Parts::Whole };
        self.write_parts(out, options, parts)
    }

    /// Writes the index as one file, even if it is split.
    pub(crate) fn write_whole<W: Write>(
        &mut self,
        out: W,
        options: &WriteOptions<'_>,
    ) -> Result<(W, Written), WriteError> {
        self.smudge(options);
        self.write_parts(out, options, Parts::Whole)
    }

    /// Writes all entries as a shared index: no extensions, always with its checksum, which will be its name.
    pub(crate) fn write_shared<W: Write>(
        &mut self,
        out: W,
        options: &WriteOptions<'_>,
    ) -> Result<(W, Written), WriteError> {
        self.smudge(options);
        self.write_parts(out, &options.skip_hash(false), Parts::Shared)
    }

    /// Sets the size of entries to zero whose file may have changed without its times telling.
    ///
    /// Only whole seconds count here: git compares no more by default, and has to see the change as well.
    fn smudge(&mut self, options: &WriteOptions<'_>) {
        let written = self.timestamp.secs;
        if written == 0 {
            return;
        }
        for at in 0..self.len() {
            let Some(entry) = self.get(at) else { break };
            let up_to_date = self.marks.get(at).is_some_and(|marks| marks & MARK_UP_TO_DATE != 0);
            if entry.mtime().secs < written || up_to_date || entry.is_gitlink() {
                continue;
            }
            let mut stat = entry.stat();
            if stat.size != 0 && options.is_modified.is_none_or(|ask| ask(entry)) {
                stat.size = 0;
                self.set_stat(at, stat);
            }
        }
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
        let plan = Plan::new(self, nameless, entries, options)?;
        let hashing = hashfile::Options::default()
            .size_hint(Some(plan.len))
            .skip_hash(options.skip_hash)
            .hash_on_thread(options.threads > 1);
        std::thread::scope(|scope| {
            let mut out = HashFile::<W, &[u8]>::scoped(scope, out, self.kind, &hashing);
            let io = |source| WriteError::from(hashfile::WriteError::Io { taken: 0, source });
            let count = u32::try_from(nameless.len() + entries.len());
            let count = count.map_err(|_| WriteError::TooLarge { what: "the number of entries" })?;
            out.write_all(&Header { version: plan.version, count }.to_bytes()).map_err(io)?;
            let mut writer = EntryWriter {
                store: &self.store,
                kind: self.kind,
                plan: &plan,
                out: &mut out,
                record: Vec::new(),
                previous: &[],
                blocks: Vec::new(),
            };
            writer.write(nameless, true).map_err(io)?;
            writer.write(entries, false).map_err(io)?;
            let blocks = writer.blocks;

            let entries_end = out.total();
            let mut frames: Vec<([u8; 4], u32)> = Vec::new();
            let mut data = Vec::new();
            let mut put = |out: &mut HashFile<W, &[u8]>, signature, data: &[u8]| {
                let size = u32::try_from(data.len()).map_err(|_| WriteError::TooLarge { what: "an extension" })?;
                frames.push((signature, size));
                out.write_all(&ext::header(signature, size)).and_then(|()| out.write_all(data)).map_err(io)
            };
            if plan.block.is_some() && ieot::append(&blocks, &mut data) {
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
                self.write_caches(&mut out, &plan, &mut put)?;
            }
            if (options.end_of_entries || plan.block.is_some())
                && let Ok(end) = u32::try_from(entries_end)
            {
                data.clear();
                eoie::append(end, &frames, self.kind, &mut data);
                out.write_all(&ext::header(ext::EOIE, data.len() as u32))
                    .and_then(|()| out.write_all(&data))
                    .map_err(io)?;
            }
            let len = out.total() + self.kind.len() as u64;
            let (out, checksum) = out.finish()?;
            Ok((out, Written { checksum, len, version: plan.version }))
        })
    }

    fn write_caches<O>(
        &self,
        out: &mut O,
        plan: &Plan,
        put: &mut impl FnMut(&mut O, [u8; 4], &[u8]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut data = Vec::new();
        if let Some(tree) = self.tree.as_ref().filter(|_| !plan.null_ids) {
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

/// What a pass over the entries found out before the first byte is written.
struct Plan {
    version: Version,
    /// Entries to a block of the offset table.
    block: Option<usize>,
    /// Bytes of the file, nearly.
    len: u64,
    null_ids: bool,
}

impl Plan {
    fn new(
        index: &Index<'_>,
        nameless: &Slots,
        entries: &Slots,
        options: &WriteOptions<'_>,
    ) -> Result<Plan, WriteError> {
        let (mut extended, mut null_ids, mut len) = (false, false, Header::LEN);
        let base = head_len(index.kind);
        for (slots, named) in [(nameless, false), (entries, true)] {
            for slot in slots.iter(0..slots.len()) {
                let entry = index.store.entry(slot);
                extended |= entry.extended_word() != 0;
                if entry.id_bytes().iter().all(|&byte| byte == 0) {
                    if !options.allow_null_ids {
                        return Err(WriteError::NullId { path: entry.path().into() });
                    }
                    null_ids = true;
                }
                if named {
                    if memchr::memchr(0, entry.path()).is_some() {
                        return Err(WriteError::Nul { path: entry.path().into() });
                    }
                    len += (base + entry.path().len() + 8) & !7;
                }
            }
        }
        let version = match (index.version, extended) {
            (Version::V4, _) => Version::V4,
            (_, true) => Version::V3,
            (_, false) => Version::V2,
        };
        let block = options.offset_table.map(|block| usize::try_from(block.max(1)).unwrap_or(usize::MAX));
        Ok(Plan { version, block, len: len as u64, null_ids })
    }
}

struct EntryWriter<'p, 'o, 'a, 's, W> {
    store: &'p Store<'a>,
    kind: HashKind,
    plan: &'p Plan,
    out: &'o mut HashFile<W, &'s [u8]>,
    record: Vec<u8>,
    /// Version 4: what the next path is told apart from.
    previous: &'a [u8],
    blocks: Vec<Block>,
}

/// Bytes of a file that go out as they are.
#[derive(Clone, Copy)]
struct Run<'a> {
    file: &'a [u8],
    start: usize,
    end: usize,
}

impl<'s, 'a: 's, W: Write> EntryWriter<'_, '_, 'a, 's, W> {
    fn write(&mut self, slots: &Slots, nameless: bool) -> io::Result<()> {
        let Some(block) = self.plan.block else { return self.write_block(slots, 0..slots.len(), nameless, false) };
        for start in (0..slots.len()).step_by(block) {
            let range = start..start.saturating_add(block).min(slots.len());
            let at = usize::try_from(self.out.total()).unwrap_or(usize::MAX);
            self.blocks.push(Block { at, entries: u32::try_from(range.len()).unwrap_or(u32::MAX) });
            self.write_block(slots, range, nameless, true)?;
        }
        Ok(())
    }

    /// `restart`: the first path is written whole (version 4), so that reading can begin with it.
    fn write_block(&mut self, slots: &Slots, range: Range<usize>, nameless: bool, restart: bool) -> io::Result<()> {
        if self.plan.version == Version::V4 {
            for (at, slot) in slots.iter(range).enumerate() {
                self.write_v4(self.store.entry(slot), nameless, restart && at == 0)?;
            }
            return Ok(());
        }
        let mut run: Option<Run<'a>> = None;
        for slot in slots.iter(range) {
            let verbatim = if nameless { None } else { self.store.verbatim(slot) };
            if let Some((file, range)) = verbatim {
                match &mut run {
                    Some(run) if std::ptr::eq(run.file, file) && run.end == range.start => run.end = range.end,
                    _ => self.flush(run.replace(Run { file, start: range.start, end: range.end }))?,
                }
                continue;
            }
            self.flush(run.take())?;
            self.write_record(self.store.entry(slot), nameless)?;
        }
        self.flush(run)
    }

    fn flush(&mut self, run: Option<Run<'a>>) -> io::Result<()> {
        match run.and_then(|run| run.file.get(run.start..run.end)) {
            Some(bytes) => self.out.write_shared(bytes),
            None => Ok(()),
        }
    }

    /// Puts everything in front of the path into `record`.
    fn begin_record(&mut self, entry: Entry<'a>, len: usize) {
        let extended = entry.extended_word() & (SKIP_WORKTREE | INTENT_TO_ADD);
        let mut word = entry.flag_word() & !(EXTENDED | NAME_MASK);
        word |= u16::try_from(len).unwrap_or(NAME_MASK).min(NAME_MASK);
        word |= if extended != 0 { EXTENDED } else { 0 };
        self.record.clear();
        self.record.extend_from_slice(entry.head().get(..head_len(self.kind) - 2).unwrap_or_default());
        self.record.extend_from_slice(&word.to_be_bytes());
        if extended != 0 {
            self.record.extend_from_slice(&extended.to_be_bytes());
        }
    }

    fn write_record(&mut self, entry: Entry<'a>, nameless: bool) -> io::Result<()> {
        let path = if nameless { &[][..] } else { entry.path() };
        self.begin_record(entry, path.len());
        self.record.extend_from_slice(path);
        let len = (self.record.len() + 8) & !7;
        self.record.resize(len, 0);
        self.out.write_all(&self.record)
    }

    fn write_v4(&mut self, entry: Entry<'a>, nameless: bool, restart: bool) -> io::Result<()> {
        let path = if nameless { &[][..] } else { entry.path() };
        self.begin_record(entry, path.len());
        let common = if restart { 0 } else { path_v4::common_prefix(self.previous, path) };
        // Whoever reads from the start removes all of the path before; whoever starts here has none and ignores the number.
        path_v4::encode((self.previous.len() - common) as u64, &mut self.record);
        self.record.extend_from_slice(path.get(common..).unwrap_or_default());
        self.record.push(0);
        self.previous = path;
        self.out.write_all(&self.record)
    }
}
