//! What is done with what the scanner finds: bytes written and hashed, whole objects named, deltas kept.
//!
//! Runs on a thread of its own where there may be two, so that the other one does nothing but read and inflate.

use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use hashfile::publish::TempFile;
use hashfile::{DEFAULT_IO_BUFFER_SIZE, HashFile};
use object::{Checksum, CollisionDetected, NameHasher, ObjectId, ObjectKind, object_ids};
use odb::Observer;
use pack_format::PackOffset;
use pack_format::entry::{EntryKind, Header};
use pack_format::zlib::Inflate;

use crate::budget::Arena;
use crate::check::Check;
use crate::eager::Eager;
use crate::error::ReceiveError;
use crate::options::Options;
use crate::platform;
use crate::scan::{Batch, Inflated, Scanned};
use crate::table::{NONE, NOT_KEPT, Row, Stored, Table};

/// Bytes of batches between the threads, and of the threads' own buffers, about.
const UNDER_WAY: u64 = 24 << 20;

/// Where the bytes of the pack go.
pub(crate) enum Sink {
    /// To a new file.
    Temp { file: Box<HashFile<TempFile>>, path: PathBuf },
    /// They are in a file already.
    Hash(Checksum),
}

impl Sink {
    fn put(&mut self, raw: &[u8]) -> Result<(), ReceiveError> {
        match self {
            Sink::Temp { file, path } => file.write_all(raw).map_err(ReceiveError::file(&*path)),
            Sink::Hash(checksum) => {
                checksum.update(raw);
                Ok(())
            }
        }
    }
}

/// See the [module](self).
pub(crate) struct Collector {
    pub(crate) sink: Sink,
    pub(crate) table: Table,
    /// Deltas against ids: the id, the entry.
    pub(crate) refs: Vec<(ObjectId, u32)>,
    pub(crate) arena: Arena,
    /// Large objects whose content somebody has yet to look at.
    pub(crate) unseen: Vec<u32>,
    memory: u64,
    check: Check,
    observer: Arc<dyn Observer>,
    ids: Vec<ObjectId>,
    eager: Eager,
    inflate: Inflate,
    raw: Vec<u8>,
    /// The large object whose pieces come, and those that are complete but have no entry yet.
    open: Option<NameHasher>,
    closed: VecDeque<Result<ObjectId, CollisionDetected>>,
    open_left: u64,
}

impl Collector {
    pub(crate) fn new(sink: Sink, options: &Options) -> Collector {
        Collector {
            sink,
            table: Table::new(options.hash),
            refs: Vec::new(),
            arena: Arena::default(),
            unseen: Vec::new(),
            memory: options.memory,
            check: Check::new(options),
            observer: Arc::clone(&options.observer),
            ids: Vec::new(),
            eager: Eager::new(options.max_depth, options.max_object_size.unwrap_or(u64::MAX)),
            inflate: Inflate::new(),
            raw: Vec::new(),
            open: None,
            closed: VecDeque::new(),
            open_left: 0,
        }
    }

    /// Takes a batch, and leaves its buffers, empty, to be used again.
    pub(crate) fn take(&mut self, batch: &mut Batch) -> Result<(), ReceiveError> {
        if self.observer.cancelled() {
            return Err(ReceiveError::Cancelled);
        }
        if !batch.raw.is_empty() {
            self.sink.put(&batch.raw)?;
        }
        self.pieces(batch);
        self.name_whole(batch)?;
        let chunk = self.chunk(batch);
        let ids = std::mem::take(&mut self.ids);
        let mut names = ids.iter();
        for scanned in &batch.entries {
            self.add(scanned, chunk, &mut names)?;
        }
        self.ids = ids;
        self.observer.inc(batch.entries.len() as u64);
        if chunk.is_some() {
            self.arena.keep(std::mem::take(&mut batch.deltas));
        }
        batch.clear();
        Ok(())
    }

    /// Does what can be done while nothing comes; whether there was anything.
    pub(crate) fn idle(&mut self) -> Result<bool, ReceiveError> {
        let Collector { sink, table, arena, check, eager, inflate, raw, .. } = self;
        let Sink::Temp { file, path } = sink else { return Ok(false) };
        let (written, handle) = (file.total().saturating_sub(DEFAULT_IO_BUFFER_SIZE as u64), file.get_ref().file());
        let count = table.len();
        eager.turn(table, arena, check, &mut |table, entry, out| {
            // The last bytes may wait in the buffer, and the last entry's end is not known.
            let end = table.end_of(entry, count);
            let from = table.offset(entry) + table.header_len(entry);
            if end > written || from > end {
                return Ok(false);
            }
            raw.resize((end - from) as usize, 0);
            let read = platform::read_at(handle, raw, from).map_err(ReceiveError::file(&*path))?;
            let done = inflate.inflate_into(raw, table.size(entry), out);
            if read < raw.len() || done != Ok(raw.len()) {
                return Err(ReceiveError::Changed { path: path.clone() });
            }
            Ok(true)
        })
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self) -> Result<(), ReceiveError> {
        self.eager.name(&mut self.table, &mut self.check)?;
        self.eager = Eager::default();
        Ok(())
    }

    fn pieces(&mut self, batch: &Batch) {
        for piece in &batch.pieces {
            if let Some((kind, size)) = piece.begins {
                self.open = Some(NameHasher::new(self.table.hash, kind, size));
                self.open_left = size;
            }
            let bytes = batch.whole.get(piece.from..piece.from + piece.len).unwrap_or_default();
            if let Some(open) = &mut self.open {
                open.update(bytes);
                self.open_left = self.open_left.saturating_sub(bytes.len() as u64);
            }
            if self.open_left == 0
                && let Some(open) = self.open.take()
            {
                self.closed.push_back(open.finish());
            }
        }
    }

    fn name_whole(&mut self, batch: &Batch) -> Result<(), ReceiveError> {
        self.ids.clear();
        let whole = || batch.entries.iter().filter_map(|entry| Some((entry, held(entry, batch)?)));
        let items = whole().map(|(_, (kind, content))| (kind, content));
        if let Err(source) = object_ids(self.table.hash, items, &mut self.ids) {
            let at = whole().nth(self.ids.len()).map_or(0, |(entry, _)| entry.at);
            return Err(ReceiveError::Collision { at, source });
        }
        for ((entry, (kind, content)), id) in whole().zip(&self.ids) {
            self.check.object(entry.at, id, kind, content)?;
        }
        Ok(())
    }

    /// The number of this batch's deltas in the arena, if they are to be kept.
    fn chunk(&self, batch: &Batch) -> Option<u32> {
        if batch.deltas.is_empty() {
            return None;
        }
        // The rest is for tables, for objects alive, and for what is under way now.
        let tables = u64::from(self.table.len()) * Table::row_len(self.table.hash);
        let share = (self.memory / 16 * 11).saturating_sub(tables + UNDER_WAY);
        let fits = self.arena.len() + batch.deltas.len() as u64 <= share;
        fits.then(|| self.arena.next(batch.deltas.len())).flatten()
    }

    fn add(
        &mut self,
        scanned: &Scanned,
        chunk: Option<u32>,
        names: &mut std::slice::Iter<'_, ObjectId>,
    ) -> Result<(), ReceiveError> {
        let at = scanned.at;
        let (stored, parent) = match scanned.kind {
            EntryKind::OfsDelta { .. } => (Stored::OfsDelta, self.base_of(scanned)?),
            EntryKind::RefDelta { .. } => (Stored::RefDelta, NONE),
            EntryKind::Commit => (Stored::Whole(ObjectKind::Commit), NONE),
            EntryKind::Tree => (Stored::Whole(ObjectKind::Tree), NONE),
            EntryKind::Blob => (Stored::Whole(ObjectKind::Blob), NONE),
            EntryKind::Tag => (Stored::Whole(ObjectKind::Tag), NONE),
        };
        let kept = match (scanned.inflated, chunk) {
            (Inflated::At(from), Some(chunk)) if scanned.kind.is_delta() => Arena::place(chunk, from),
            _ => NOT_KEPT,
        };
        let id = match (scanned.inflated, stored) {
            (Inflated::At(_), Stored::Whole(_)) => names.next().copied(),
            (Inflated::Pieces, _) => {
                let id = self.closed.pop_front().unwrap_or(Ok(self.table.hash.null()));
                Some(id.map_err(|source| ReceiveError::Collision { at, source })?)
            }
            _ => None,
        };
        let row =
            Row { at, header_len: scanned.header_len, stored, size: scanned.size, crc: scanned.crc, parent, kept };
        let entry = self.table.push(row, id.as_ref());
        self.eager.push(entry, parent);
        if let EntryKind::RefDelta { base } = scanned.kind {
            self.refs.push((base, entry));
        }
        if matches!(scanned.inflated, Inflated::Pieces) && self.check.wants_content() {
            self.unseen.push(entry);
        }
        Ok(())
    }

    fn base_of(&self, scanned: &Scanned) -> Result<u32, ReceiveError> {
        let header = Header { kind: scanned.kind, size: scanned.size };
        match header.base_offset(PackOffset::new(scanned.at)) {
            Some(Ok(base)) => {
                let base = base.get();
                self.table.find(base).ok_or(ReceiveError::NoBase { at: scanned.at, base })
            }
            Some(Err(source)) => Err(ReceiveError::Entry { at: scanned.at, source }),
            None => Ok(NONE),
        }
    }
}

/// Kind and content of a whole object that lies in its batch.
fn held<'b>(entry: &Scanned, batch: &'b Batch) -> Option<(ObjectKind, &'b [u8])> {
    let (Some(kind), Inflated::At(from)) = (entry.kind.object_kind(), entry.inflated) else { return None };
    Some((kind, batch.whole.get(from..from + entry.size as usize).unwrap_or_default()))
}
