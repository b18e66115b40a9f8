//! The stream, cut into entries: headers read, zlib streams inflated once, CRC-32s taken.
//!
//! Bytes come in pieces of any size and gather in blocks. Entries that lie whole in a block take the fast path of the
//! zlib seam; one that may not is stepped through as its bytes come, so that no piece of input is looked at twice, and
//! nothing waits for bytes that the pack does not need: a stream over a connection stays open behind its last byte.
//!
//! What the scanner learns leaves in [`Batch`]es, for whoever hashes and writes.

use std::sync::Arc;

use object::{HashKind, ObjectId, ObjectKind};
use odb::Observer;
use pack_format::ParseErrorKind;
use pack_format::entry::{EntryKind, Header, PackHeader};
use pack_format::zlib::{Inflate, ZlibError};

use crate::error::ReceiveError;
use crate::options::Options;
use crate::table::MAX_OFFSET;

/// Bytes of input that are gathered before they are passed on.
pub(crate) const BLOCK: usize = 1 << 20;

/// Entries that inflate to more are stepped through, and never held here.
pub(crate) const LARGE: u64 = 1 << 20;

/// An entry that may take as many bytes is not stepped through only because a full block cuts it.
const CARRIED: usize = 256 << 10;

/// Output of one step.
const STEP: usize = 64 << 10;

/// Where an entry's inflated bytes are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Inflated {
    /// In [`Batch::whole`] or [`Batch::deltas`], from here on.
    At(usize),
    /// A whole object, in the pieces that came before.
    Pieces,
    /// A large delta, which was only measured.
    Dropped,
}

/// An entry, scanned.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) at: u64,
    pub(crate) header_len: u8,
    pub(crate) kind: EntryKind,
    pub(crate) size: u64,
    pub(crate) crc: u32,
    pub(crate) inflated: Inflated,
}

/// A part of a large object; they come in order, of one object at a time, before its entry.
#[derive(Debug)]
pub(crate) struct Piece {
    /// With the first part: kind and size.
    pub(crate) begins: Option<(ObjectKind, u64)>,
    /// In [`Batch::whole`].
    pub(crate) from: usize,
    pub(crate) len: usize,
}

/// What was scanned since the last one.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Bytes of the pack.
    pub(crate) raw: Vec<u8>,
    pub(crate) entries: Vec<Scanned>,
    pub(crate) pieces: Vec<Piece>,
    /// Inflated whole objects and pieces.
    pub(crate) whole: Vec<u8>,
    /// Inflated deltas.
    pub(crate) deltas: Vec<u8>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.raw.is_empty() && self.entries.is_empty() && self.pieces.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.raw.clear();
        self.entries.clear();
        self.pieces.clear();
        self.whole.clear();
        self.deltas.clear();
    }
}

/// An entry whose bytes are still coming.
struct Stepping {
    at: u64,
    header_len: u8,
    kind: EntryKind,
    size: u64,
    produced: u64,
    crc: crc32fast::Hasher,
    /// Content so far, of what is held.
    held: Vec<u8>,
}

enum State {
    Head,
    Entry,
    Stepping(Box<Stepping>),
    Trailer,
    Done,
}

/// What to do next.
enum Next {
    Again,
    NeedsInput,
}

/// See the [module](self).
pub(crate) struct Scanner {
    hash: HashKind,
    max_input_size: Option<u64>,
    max_object_size: Option<u64>,
    max_objects: Option<u32>,
    /// Input; what lies before `pos` is scanned.
    block: Vec<u8>,
    pos: usize,
    /// Offset in the pack of the block's first byte.
    base: u64,
    state: State,
    count: u32,
    left: u32,
    inflate: Inflate,
    output: Vec<u8>,
    batch: Batch,
    trailer: Option<ObjectId>,
    /// Hears of the phase by this name when the header came.
    observer: Arc<dyn Observer>,
    phase: &'static str,
}

impl Scanner {
    pub(crate) fn new(options: &Options, phase: &'static str) -> Scanner {
        Scanner {
            observer: Arc::clone(&options.observer),
            phase,
            hash: options.hash,
            max_input_size: options.max_input_size,
            max_object_size: options.max_object_size,
            max_objects: options.max_objects,
            block: Vec::with_capacity(BLOCK),
            pos: 0,
            base: 0,
            state: State::Head,
            count: 0,
            left: 0,
            inflate: Inflate::new(),
            output: Vec::new(),
            batch: Batch::default(),
            trailer: None,
        }
    }

    /// Entries that the pack says it has; 0 before its header came.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The trailer, once the pack is complete.
    pub(crate) fn trailer(&self) -> Option<ObjectId> {
        self.trailer
    }

    /// Bytes of the pack so far.
    pub(crate) fn consumed(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// Input behind the pack.
    pub(crate) fn rest(&self) -> &[u8] {
        self.block.get(self.pos..).unwrap_or_default()
    }

    /// How much more input the block takes; at least 1.
    pub(crate) fn room(&self) -> usize {
        BLOCK.saturating_sub(self.block.len()).max(1)
    }

    /// Where input goes; what is scanned must not be changed.
    pub(crate) fn input(&mut self) -> &mut Vec<u8> {
        &mut self.block
    }

    /// Scans what came in, and hands on what is ready.
    ///
    /// `spare` gives batches whose buffers can be used again.
    pub(crate) fn scan(
        &mut self,
        spare: &mut dyn FnMut() -> Batch,
        emit: &mut dyn FnMut(Batch) -> Result<(), ReceiveError>,
    ) -> Result<(), ReceiveError> {
        loop {
            let next = self.step()?;
            if let Some(limit) = self.max_input_size
                && self.consumed() > limit
            {
                let at = self.consumed();
                return Err(ReceiveError::Limit { what: "input of bytes", found: at, limit, at });
            }
            let full = self.block.len() >= BLOCK && matches!(next, Next::NeedsInput);
            if full || matches!(self.state, State::Done) {
                self.pass_block(spare, emit)?;
            } else if self.batch.whole.len() >= BLOCK || self.batch.deltas.len() >= BLOCK {
                self.pass_batch(spare, emit)?;
            }
            if matches!(next, Next::NeedsInput) {
                return Ok(());
            }
        }
    }

    /// The error of a stream that ends now.
    pub(crate) fn ended(&self) -> ReceiveError {
        ReceiveError::Truncated { at: self.base + self.block.len() as u64 }
    }

    fn pass_batch(
        &mut self,
        spare: &mut dyn FnMut() -> Batch,
        emit: &mut dyn FnMut(Batch) -> Result<(), ReceiveError>,
    ) -> Result<(), ReceiveError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let fresh = spare();
        emit(std::mem::replace(&mut self.batch, fresh))
    }

    /// Passes the scanned part of the block on, and keeps the rest.
    fn pass_block(
        &mut self,
        spare: &mut dyn FnMut() -> Batch,
        emit: &mut dyn FnMut(Batch) -> Result<(), ReceiveError>,
    ) -> Result<(), ReceiveError> {
        // The trailer is for whoever has checked it.
        let trailer = if matches!(self.state, State::Done) { self.hash.len() } else { 0 };
        let raw_len = self.pos.saturating_sub(trailer);
        let mut fresh = spare();
        let mut block = std::mem::take(&mut fresh.raw);
        block.extend_from_slice(self.block.get(self.pos..).unwrap_or_default());
        std::mem::swap(&mut self.block, &mut block);
        block.truncate(raw_len);
        self.base += self.pos as u64;
        self.pos = 0;
        self.batch.raw = block;
        if self.batch.is_empty() {
            self.batch = fresh;
            return Ok(());
        }
        emit(std::mem::replace(&mut self.batch, fresh))
    }

    fn step(&mut self) -> Result<Next, ReceiveError> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Head => self.head(),
            State::Entry => self.entry(),
            State::Stepping(stepping) => self.go_on(stepping),
            State::Trailer => {
                let rest = self.block.get(self.pos..).unwrap_or_default();
                let Some(trailer) = ObjectId::from_prefix(rest, self.hash) else {
                    self.state = State::Trailer;
                    return Ok(Next::NeedsInput);
                };
                self.pos += self.hash.len();
                self.trailer = Some(trailer);
                Ok(Next::NeedsInput)
            }
            State::Done => Ok(Next::NeedsInput),
        }
    }

    fn head(&mut self) -> Result<Next, ReceiveError> {
        let bytes = self.block.get(..PackHeader::LEN).unwrap_or(&self.block);
        if bytes.len() < PackHeader::LEN {
            self.state = State::Head;
            return Ok(Next::NeedsInput);
        }
        let header = PackHeader::from_bytes(bytes).map_err(ReceiveError::Header)?;
        if let Some(limit) = self.max_objects
            && header.count > limit
        {
            let (found, limit) = (u64::from(header.count), u64::from(limit));
            return Err(ReceiveError::Limit { what: "number of entries", found, limit, at: 8 });
        }
        self.pos = PackHeader::LEN;
        (self.count, self.left) = (header.count, header.count);
        if header.count > 0 {
            // Before the first entry is counted, maybe by another thread.
            self.observer.phase(self.phase, Some(u64::from(header.count)));
        }
        self.between();
        Ok(Next::Again)
    }

    fn between(&mut self) {
        self.state = if self.left == 0 { State::Trailer } else { State::Entry };
    }

    fn entry(&mut self) -> Result<Next, ReceiveError> {
        let at = self.consumed();
        let bytes = self.block.get(self.pos..).unwrap_or_default();
        let (header, header_len) = match Header::parse(bytes, self.hash) {
            Ok(parsed) => parsed,
            Err(error) if matches!(error.kind, ParseErrorKind::Truncated { .. }) => {
                self.state = State::Entry;
                return Ok(Next::NeedsInput);
            }
            Err(source) => return Err(ReceiveError::Entry { at, source }),
        };
        if let Some(limit) = self.max_object_size
            && header.size > limit
        {
            return Err(ReceiveError::Limit { what: "size in bytes", found: header.size, limit, at });
        }
        if at >= MAX_OFFSET {
            return Err(ReceiveError::Limit { what: "offset", found: at, limit: MAX_OFFSET, at });
        }
        let data = bytes.get(header_len..).unwrap_or_default();
        if header.size <= LARGE {
            let bound = deflated_bound(header.size);
            let (sure, full) = (data.len() >= bound, self.block.len() >= BLOCK);
            if sure || full && bound <= CARRIED {
                let arena = match header.kind.is_delta() {
                    true => &mut self.batch.deltas,
                    false => &mut self.batch.whole,
                };
                let from = arena.len();
                match self.inflate.inflate_into(data, header.size, arena) {
                    Ok(len) => {
                        let end = self.pos + header_len + len;
                        let crc = crc32fast::hash(self.block.get(self.pos..end).unwrap_or_default());
                        self.pos = end;
                        self.push(at, header_len, &header, crc, Inflated::At(from));
                        return Ok(Next::Again);
                    }
                    // A stream of many empty parts can be longer than any honest one.
                    Err(ZlibError::Truncated | ZlibError::TooShort { .. }) if sure => {}
                    Err(ZlibError::Truncated | ZlibError::TooShort { .. }) => {
                        self.state = State::Entry;
                        return Ok(Next::NeedsInput);
                    }
                    Err(source) => return Err(ReceiveError::Zlib { at, source }),
                }
            }
        }
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytes.get(..header_len).unwrap_or_default());
        self.pos += header_len;
        self.inflate.reset();
        if let (Some(kind), true) = (header.kind.object_kind(), header.size > LARGE) {
            self.batch.pieces.push(Piece { begins: Some((kind, header.size)), from: 0, len: 0 });
        }
        self.state = State::Stepping(Box::new(Stepping {
            at,
            header_len: header_len as u8,
            kind: header.kind,
            size: header.size,
            produced: 0,
            crc,
            held: Vec::new(),
        }));
        Ok(Next::Again)
    }

    fn push(&mut self, at: u64, header_len: usize, header: &Header, crc: u32, inflated: Inflated) {
        let (kind, size, header_len) = (header.kind, header.size, header_len as u8);
        self.batch.entries.push(Scanned { at, header_len, kind, size, crc, inflated });
        self.left -= 1;
        self.between();
    }

    fn go_on(&mut self, mut entry: Box<Stepping>) -> Result<Next, ReceiveError> {
        self.output.resize(STEP, 0);
        let zlib = |source| ReceiveError::Zlib { at: entry.at, source };
        let input = self.block.get(self.pos..).unwrap_or_default();
        let step = self.inflate.step(input, &mut self.output).map_err(zlib)?;
        let made = self.output.get(..step.produced).unwrap_or_default();
        if step.produced as u64 > entry.size - entry.produced {
            return Err(zlib(ZlibError::TooLong { expected: entry.size }));
        }
        entry.crc.update(input.get(..step.consumed).unwrap_or_default());
        entry.produced += step.produced as u64;
        self.pos += step.consumed;
        let is_delta = entry.kind.is_delta();
        let streamed = entry.size > LARGE;
        if !streamed {
            entry.held.extend_from_slice(made);
        } else if !is_delta && !made.is_empty() {
            let from = self.batch.whole.len();
            self.batch.whole.extend_from_slice(made);
            self.batch.pieces.push(Piece { begins: None, from, len: made.len() });
        }
        if !step.done {
            self.state = State::Stepping(entry);
            let stuck = step.consumed == 0 && step.produced == 0;
            return Ok(if stuck { Next::NeedsInput } else { Next::Again });
        }
        if entry.produced != entry.size {
            return Err(zlib(ZlibError::TooShort { expected: entry.size }));
        }
        let inflated = match (streamed, is_delta) {
            (true, true) => Inflated::Dropped,
            (true, false) => Inflated::Pieces,
            (false, _) => {
                let arena = if is_delta { &mut self.batch.deltas } else { &mut self.batch.whole };
                let from = arena.len();
                arena.extend_from_slice(&entry.held);
                Inflated::At(from)
            }
        };
        let header = Header { kind: entry.kind, size: entry.size };
        let (at, header_len, crc) = (entry.at, usize::from(entry.header_len), entry.crc.clone().finalize());
        self.push(at, header_len, &header, crc, inflated);
        Ok(Next::Again)
    }
}

/// The most bytes that an honest deflater makes of `size`: stored blocks of 16 KiB at worst.
fn deflated_bound(size: u64) -> usize {
    (size + size / 1024 + 64) as usize
}
