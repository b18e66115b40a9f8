//! Part of an object's content, without building what lies outside as far as that can be avoided.
//!
//! Through a chain of deltas the range is followed backwards: each delta says which parts of its result are literal, and
//! where in the base the others come from. What is left at the end is taken out of the object stored whole while that is
//! inflated, up to the last byte needed and without holding it.
//!
//! Where that does not pay (small objects, ranges of half of it or more, ranges that fall to pieces) the whole object is
//! read. So it is whenever something is wrong, to have other copies tried, and when names are to be verified.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;

use object::ObjectId;
use pack_format::PackOffset;
use pack_format::delta::{DeltaError, DeltaErrorKind, Instruction, Instructions};
use pack_format::zlib::{Inflate, ZlibError};

use crate::chain::{self, Walk};
use crate::error::{Damage, ReadError};
use crate::inflating::{PreadReader, StepError, inflate_end, inflate_some};
use crate::loose;
use crate::pack::Pack;
use crate::packs::Need;
use crate::scratch::{self, Scratch};
use crate::source::PackBytes;
use crate::store::{ObjectHeader, Spot, Store};

/// Objects up to this size are read whole, which also puts them where they are found again.
const SMALL: u64 = 64 << 10;

/// Ranges longer than this are not followed through deltas: their result is allocated before it is known to be there.
const LONGEST: u64 = 64 << 20;

/// Deltas larger than this are not followed, nor those that would cut the range into more pieces than this.
const LARGEST_DELTA: u64 = 16 << 20;
const MOST_PIECES: usize = 1 << 16;

impl Store {
    /// The bytes of the object's content in `range` into `out`, which is cleared first, and the header of the whole object.
    /// What of the range lies behind the end of the content is left out.
    ///
    /// Inflating stops at the end of the range, so damage behind it is not found, and the zlib checksum, which is at the end,
    /// is only looked at if the range goes that far: [`Options::verify_on_read`](crate::Options::verify_on_read) reads the
    /// whole object. A range of a delta takes the deltas of
    /// its chain and the beginning of their base, and of these only what the range is made of is held.
    ///
    /// # Errors
    /// As for [`read`](Self::read). [`Options::max_object_size`](crate::Options::max_object_size) limits the length of what
    /// is read, which is the whole object's where that has to be read.
    pub fn read_range(&self, id: &ObjectId, range: Range<u64>, out: &mut Vec<u8>) -> Result<ObjectHeader, ReadError> {
        let read = |out: &mut Vec<u8>| {
            if self.options().verify_on_read {
                return Ok(None);
            }
            self.search(id, |state, look| {
                let Some(spot) = self.locate(state, id, Need::Bytes, look)? else { return Ok(None) };
                scratch::with(|scratch| match spot {
                    Spot::Packed { pack, at } => {
                        let result = packed(&pack, at, &range, scratch, out);
                        self.noting(&pack, at, id, result).map(Some)
                    }
                    Spot::Loose { source } => {
                        let path = loose::path(state.sources.get(source).map_or(self.objects_dir(), |s| s.path()), id);
                        let Some(file) = self.open_loose(&path)? else { return Ok(None) };
                        loose_range(&path, file, &range, self.options().max_object_size, scratch, out).map(Some)
                    }
                })
            })
        };
        match read(out) {
            Ok(Some(Some(header))) => return Ok(header),
            Ok(_) => {}
            Err(error) if error.is_corrupt() => {} // other copies are what whole reads try
            Err(error) => return Err(error),
        }
        let kind = self.read(id, out)?;
        let header = ObjectHeader { kind, size: out.len() as u64 };
        let part = clamp(&range, header.size);
        // Both are within the length of a vector.
        out.truncate(part.end as usize);
        out.drain(..part.start as usize);
        Ok(header)
    }
}

/// What of the range lies within `size` bytes.
fn clamp(range: &Range<u64>, size: u64) -> Range<u64> {
    let start = range.start.min(size);
    start..range.end.clamp(start, size)
}

/// Whether reading a part is worth the trouble.
fn pays(part: &Range<u64>, size: u64) -> bool {
    size > SMALL && (part.end - part.start) < size / 2
}

/// Bytes of the object at hand, and where in the output they belong.
#[derive(Debug, Clone, Copy)]
struct Piece {
    from: u64,
    len: u64,
    to: usize,
}

impl Piece {
    fn ends_at(&self) -> (u64, usize) {
        (self.from + self.len, self.to + self.len as usize)
    }
}

/// `None` if the whole object had better be read.
fn packed(
    pack: &Pack,
    at: PackOffset,
    range: &Range<u64>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<Option<ObjectHeader>, ReadError> {
    out.clear();
    let header = chain::header(pack, at.get())?;
    let part = clamp(range, header.size);
    let len = part.end - part.start;
    if len == 0 {
        return Ok(Some(header));
    }
    let limit = pack.options().max_object_size;
    if !pays(&part, header.size) && limit.is_none_or(|limit| header.size <= limit) {
        return Ok(None);
    }
    chain::check_limit(len, limit)?;
    let mut pieces = vec![Piece { from: part.start, len, to: 0 }];
    let mut walk = Walk::new(at.get());
    let mut size = header.size;
    loop {
        let here = walk.at;
        if let Some(base) = pack.cache().get(pack.key(here)) {
            if base.bytes.len() as u64 != size {
                let kind = DeltaErrorKind::BaseSize { expected: size, found: base.bytes.len() as u64 };
                return Err(pack.corrupt(here, DeltaError { at: 0, kind }));
            }
            Filling::new(pieces, out).take(0, &base.bytes);
            return Ok(Some(header));
        }
        let (entry, entry_len) = pack.entry(PackOffset::new(here))?;
        let data = here + entry_len as u64; // inside the pack
        chain::plausible(pack, here, data, entry.size)?;
        if entry.kind.object_kind().is_some() {
            if entry.size != size {
                return Err(pack.corrupt(here, Damage::SizeMismatch { size }));
            }
            let mut filling = Filling::new(pieces, out);
            let end = pack.entries_end()?;
            let error = |error: StepError| error.at(pack, here);
            scratch.inflate.reset();
            let Scratch { inflate, input, .. } = scratch;
            match pack.bytes()? {
                PackBytes::Whole(bytes) => {
                    // Both are at most the length of a slice.
                    let mut deflated = bytes.as_ref().get(data as usize..end as usize).unwrap_or_default();
                    filling.inflate(&mut deflated, inflate, 0, size).map_err(error)?;
                }
                PackBytes::Pread { file, .. } => {
                    filling.inflate(&mut PreadReader::new(file, data, end, input), inflate, 0, size).map_err(error)?;
                }
            }
            return Ok(Some(header));
        }
        if entry.size > LARGEST_DELTA || len > LONGEST {
            return Ok(None);
        }
        walk.go_to_base(pack, &entry.kind)?;
        chain::inflate_delta(pack, here, data, entry.size, scratch)?;
        let Some(base_size) =
            follow(&scratch.delta, size, &mut pieces, len as usize, out).map_err(|error| pack.corrupt(here, error))?
        else {
            return Ok(None);
        };
        if pieces.is_empty() {
            return Ok(Some(header)); // all of it was literal
        }
        size = base_size;
    }
}

/// Replaces pieces of a delta's result by pieces of its base; literal bytes go to the output. The size of the base, or
/// `None` if there would be too many pieces. The delta is checked as it would be to apply it.
fn follow(
    delta: &[u8],
    size: u64,
    pieces: &mut Vec<Piece>,
    len: usize,
    out: &mut Vec<u8>,
) -> Result<Option<u64>, DeltaError> {
    let (header, mut instructions) = Instructions::parse(delta)?;
    let error = |at: usize, kind| DeltaError { at: at as u64, kind };
    let (expected, base) = (header.result_size, header.base_size);
    if expected != size {
        // The delta above was made for another base.
        return Err(error(0, DeltaErrorKind::BaseSize { expected: size, found: expected }));
    }
    // Pieces sorted by where they begin, which they do after the first delta no more by themselves.
    pieces.sort_unstable_by_key(|piece| piece.from);
    let needed = pieces.iter().map(|piece| piece.from + piece.len).max().unwrap_or(0);
    let first = pieces.first().map_or(0, |piece| piece.from);
    // The instructions that make what is needed: where their results begin, and what they are.
    let mut spans = Vec::new();
    let mut made = 0;
    loop {
        let at = instructions.offset();
        let Some(instruction) = instructions.next() else { break };
        let instruction = instruction?;
        if let Instruction::Copy { offset, len } = instruction
            && offset + len > base
        {
            return Err(error(at, DeltaErrorKind::CopyOutOfBase { offset, len, base }));
        }
        let end = made + instruction.len(); // far below 2^64: a delta of 16 MiB makes 2^48 at most
        if end > expected {
            return Err(error(at, DeltaErrorKind::TooMuch { expected }));
        }
        if made < needed && end > first {
            if spans.len() == MOST_PIECES {
                return Ok(None);
            }
            spans.push((made, instruction));
        }
        made = end;
    }
    if made != expected {
        return Err(error(delta.len(), DeltaErrorKind::TooLittle { expected, found: made }));
    }
    out.resize(len, 0);
    let mut below: Vec<Piece> = Vec::new();
    for piece in pieces.iter() {
        let end = piece.from + piece.len;
        let start = spans.partition_point(|(start, _)| *start <= piece.from).saturating_sub(1);
        for &(start, instruction) in spans.get(start..).unwrap_or_default() {
            if start >= end {
                break;
            }
            // The part of the piece that this instruction makes.
            let from = piece.from.max(start);
            let part = end.min(start + instruction.len()) - from;
            let to = piece.to + (from - piece.from) as usize;
            let skip = from - start;
            match instruction {
                Instruction::Insert(bytes) => {
                    let bytes = bytes.get(skip as usize..).and_then(|bytes| bytes.get(..part as usize));
                    if let (Some(out), Some(bytes)) = (out.get_mut(to..to + part as usize), bytes) {
                        out.copy_from_slice(bytes);
                    }
                }
                Instruction::Copy { offset, .. } => {
                    let next = Piece { from: offset + skip, len: part, to };
                    let joins = |last: &&mut Piece| last.ends_at() == (next.from, next.to);
                    // Long copies are cut into instructions of 64 KiB.
                    if let Some(last) = below.last_mut().filter(joins) {
                        last.len += part;
                    } else if below.len() < MOST_PIECES {
                        below.push(next);
                    } else {
                        return Ok(None);
                    }
                }
            }
        }
    }
    *pieces = below;
    Ok(Some(base))
}

fn loose_range(
    path: &Path,
    (file, len): (File, u64),
    range: &Range<u64>,
    limit: Option<u64>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<Option<ObjectHeader>, ReadError> {
    out.clear();
    let opened = loose::begin(path, BufReader::with_capacity(64 << 10, file), len, &mut scratch.inflate)?;
    let header = opened.header;
    let part = clamp(range, header.size);
    if part.is_empty() {
        return Ok(Some(header));
    }
    if !pays(&part, header.size) && limit.is_none_or(|limit| header.size <= limit) {
        return Ok(None);
    }
    chain::check_limit(part.end - part.start, limit)?;
    let mut filling = Filling::new(vec![Piece { from: part.start, len: part.end - part.start, to: 0 }], out);
    let (mut input, first) = (opened.input, opened.first);
    filling.take(0, first.as_slice());
    if !filling.is_done() {
        let ended = opened.state.map_err(|error| loose::step_error(path, error))?;
        if ended {
            return Err(ReadError::corrupt(path, 0, Damage::SizeMismatch { size: header.size }));
        }
        let at = first.as_slice().len() as u64;
        filling
            .inflate(&mut input, &mut scratch.inflate, at, header.size)
            .map_err(|error| loose::step_error(path, error))?;
    }
    Ok(Some(header))
}

/// An output that pieces of an object are put into as it passes by.
struct Filling<'o> {
    /// By where they begin.
    pieces: Vec<Piece>,
    /// All before are there.
    done: usize,
    /// Where in the object the last piece ends.
    end: u64,
    out: &'o mut Vec<u8>,
}

impl<'o> Filling<'o> {
    fn new(mut pieces: Vec<Piece>, out: &'o mut Vec<u8>) -> Self {
        pieces.sort_unstable_by_key(|piece| piece.from);
        let end = pieces.iter().map(|piece| piece.from + piece.len).max().unwrap_or(0);
        Filling { pieces, done: 0, end, out }
    }

    fn is_done(&self) -> bool {
        self.done == self.pieces.len()
    }

    /// Takes what is needed of `bytes`, which begin at `at` of the object. They come in their order, without gaps.
    fn take(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        for piece in self.pieces.get(self.done..).unwrap_or_default() {
            if piece.from >= end {
                break;
            }
            let (from, to) = (piece.from.max(at), (piece.from + piece.len).min(end));
            if from >= to {
                continue;
            }
            // Within `bytes`, and so within memory.
            let part = bytes.get((from - at) as usize..(to - at) as usize).unwrap_or_default();
            let start = piece.to + (from - piece.from) as usize;
            if self.out.len() < start + part.len() {
                self.out.resize(start + part.len(), 0); // grows with what is there
            }
            if let Some(out) = self.out.get_mut(start..start + part.len()) {
                out.copy_from_slice(part);
            }
        }
        while self.pieces.get(self.done).is_some_and(|piece| piece.from + piece.len <= end) {
            self.done += 1;
        }
    }

    /// Inflates until all pieces are there; `at` bytes of the object have passed already. If the last byte of `size` is
    /// among them, so is the checksum.
    fn inflate(
        &mut self,
        input: &mut impl BufRead,
        inflate: &mut Inflate,
        mut at: u64,
        size: u64,
    ) -> Result<(), StepError> {
        let mut window = vec![0; 32 << 10];
        while !self.is_done() {
            let room = window.len().min(usize::try_from(self.end - at).unwrap_or(usize::MAX));
            let mut produced = 0;
            let ended = inflate_some(input, inflate, window.get_mut(..room).unwrap_or_default(), &mut produced)?;
            self.take(at, window.get(..produced).unwrap_or_default());
            at += produced as u64;
            if ended {
                let short = StepError::Zlib(ZlibError::TooShort { expected: size });
                return if at == size { Ok(()) } else { Err(short) };
            }
        }
        if at == size { inflate_end(input, inflate, size) } else { Ok(()) }
    }
}
