//! A pack as it comes: heads of entries, inflated content, the trailer; each byte is looked at once.
//!
//! Nothing is read ahead of need: one read is made when what is at hand does not suffice, and whatever it gives will do. So a
//! sender that waits for an answer while it holds the connection open is never waited for.

use std::io::{self, Read};

use object::{Checksum, HashKind, ObjectId};
use pack_format::entry::{self, Header, PackHeader};
use pack_format::zlib::{Inflate, ZlibError};
use pack_format::{PackOffset, ParseErrorKind};

use super::error::{UnpackError, Wrong};

/// Bytes of input that are held.
const BUFFER: usize = 256 << 10;

/// Inflated bytes that are handed over at a time.
const PIECE: usize = 128 << 10;

/// The input, its checksum, and where it stands.
pub(crate) struct Stream<R> {
    input: R,
    hash: HashKind,
    buffer: Vec<u8>,
    /// What of the buffer is read and not used yet.
    from: usize,
    to: usize,
    /// Where in the buffer the bytes begin that the checksum has not seen.
    summed: usize,
    checksum: Checksum,
    /// Offset in the pack of the next unused byte.
    at: u64,
    /// How many bytes of a pack are taken.
    limit: Option<u64>,
    inflate: Inflate,
    pulled: Pulled,
    piece: Vec<u8>,
}

/// How far an entry's stream is inflated that goes in pieces.
#[derive(Default)]
struct Pulled {
    at: u64,
    size: u64,
    total: u64,
    done: bool,
}

impl<R: Read> Stream<R> {
    pub(crate) fn new(input: R, hash: HashKind, limit: Option<u64>) -> Self {
        Stream {
            input,
            hash,
            buffer: vec![0; BUFFER],
            from: 0,
            to: 0,
            summed: 0,
            checksum: Checksum::new(hash),
            at: 0,
            limit,
            inflate: Inflate::new(),
            pulled: Pulled::default(),
            piece: Vec::new(),
        }
    }

    /// The pack's head; one that was read before is hashed as if it came now.
    pub(crate) fn head(&mut self, given: Option<PackHeader>) -> Result<PackHeader, UnpackError> {
        if let Some(given) = given {
            // Versions differ in this number alone.
            let mut bytes = PackHeader::new(given.count).to_bytes();
            if let Some(version) = bytes.get_mut(4..8) {
                version.copy_from_slice(&given.version.to_be_bytes());
            }
            let head = PackHeader::from_bytes(&bytes).map_err(|error| self.parse_error(error, 0))?;
            self.checksum.update(&bytes);
            self.at = PackHeader::LEN as u64;
            return Ok(head);
        }
        while self.to - self.from < PackHeader::LEN {
            if !self.more()? {
                return Err(self.cut());
            }
        }
        let head = PackHeader::from_bytes(self.unused()).map_err(|error| self.parse_error(error, 0))?;
        self.take(PackHeader::LEN);
        Ok(head)
    }

    /// Where the next unused byte lies.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The head of the next entry.
    pub(crate) fn entry(&mut self) -> Result<Header, UnpackError> {
        self.check_limit()?;
        loop {
            match Header::parse(self.unused(), self.hash) {
                Ok((header, len)) => {
                    self.take(len);
                    return Ok(header);
                }
                Err(error)
                    if matches!(error.kind, ParseErrorKind::Truncated { .. })
                        && self.to - self.from < entry::MAX_LEN =>
                {
                    if !self.more()? {
                        return Err(self.cut());
                    }
                }
                Err(error) => return Err(self.parse_error(error, self.at)),
            }
        }
    }

    /// Where the base of an entry at `at` lies, if the entry says so.
    pub(crate) fn base_of(&self, header: &Header, at: u64) -> Result<Option<u64>, UnpackError> {
        match header.base_offset(PackOffset::new(at)) {
            None => Ok(None),
            Some(Ok(base)) => Ok(Some(base.get())),
            Some(Err(error)) => Err(self.parse_error(error, at)),
        }
    }

    /// Inflates the entry's stream, which must hold `size` bytes, into `out`. `raw` gets the stream as it came.
    pub(crate) fn inflate(
        &mut self,
        at: u64,
        size: u64,
        out: &mut Vec<u8>,
        mut raw: impl FnMut(&[u8]) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        out.clear();
        // Most streams lie in the buffer as a whole, and take the fast path.
        let input = self.buffer.get(self.from..self.to).unwrap_or_default();
        if let Ok(used) = self.inflate.inflate_into(input, size, out) {
            raw(input.get(..used).unwrap_or_default())?;
            self.take(used);
            return Ok(());
        }
        out.clear();
        self.inflate_pieces(at, size, raw, |part| {
            out.extend_from_slice(part);
            Ok(())
        })
    }

    /// As [`inflate`](Self::inflate), in pieces.
    pub(crate) fn inflate_pieces(
        &mut self,
        at: u64,
        size: u64,
        mut raw: impl FnMut(&[u8]) -> Result<(), UnpackError>,
        mut each: impl FnMut(&[u8]) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        let mut piece = std::mem::take(&mut self.piece);
        piece.resize(PIECE, 0);
        self.begin(at, size);
        let done = loop {
            match self.pull(&mut piece, &mut raw) {
                Ok(0) => break Ok(()),
                Ok(n) => {
                    if let Err(error) = each(piece.get(..n).unwrap_or_default()) {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.piece = piece;
        done
    }

    /// Begins to inflate the stream of the entry at `at` by [`pull`](Self::pull).
    pub(crate) fn begin(&mut self, at: u64, size: u64) {
        self.inflate.reset();
        self.pulled = Pulled { at, size, total: 0, done: false };
    }

    /// Some more of the entry's content, which must have the size announced; 0 at its end.
    pub(crate) fn pull(
        &mut self,
        out: &mut [u8],
        raw: &mut impl FnMut(&[u8]) -> Result<(), UnpackError>,
    ) -> Result<usize, UnpackError> {
        let Pulled { at, size, .. } = self.pulled;
        let wrong = |error| UnpackError::at(at, Wrong::Zlib(error));
        while !self.pulled.done {
            if self.from == self.to && !self.more()? {
                return Err(self.cut());
            }
            let input = self.buffer.get(self.from..self.to).unwrap_or_default();
            let step = self.inflate.step(input, out).map_err(wrong)?;
            raw(input.get(..step.consumed).unwrap_or_default())?;
            self.take(step.consumed);
            self.pulled.done = step.done;
            self.pulled.total += step.produced as u64;
            if self.pulled.total > size {
                return Err(wrong(ZlibError::TooLong { expected: size }));
            }
            if step.done && self.pulled.total < size {
                return Err(wrong(ZlibError::TooShort { expected: size }));
            }
            if step.produced > 0 {
                return Ok(step.produced);
            }
            if step.consumed == 0 && !step.done {
                return Err(wrong(ZlibError::Corrupt)); // with input and room at hand
            }
        }
        Ok(0)
    }

    /// Reads the trailer, which must be the checksum of all before it.
    pub(crate) fn trailer(&mut self) -> Result<ObjectId, UnpackError> {
        self.sum();
        let at = self.at;
        let computed = std::mem::replace(&mut self.checksum, Checksum::new(self.hash)).finish();
        let len = self.hash.len();
        while self.to - self.from < len {
            if !self.more()? {
                return Err(self.cut());
            }
        }
        let stored = ObjectId::from_prefix(self.unused(), self.hash).unwrap_or(self.hash.null());
        self.from += len;
        self.at += len as u64;
        self.summed = self.from;
        self.check_limit()?;
        match stored == computed {
            true => Ok(computed),
            false => Err(UnpackError::at(at, Wrong::Trailer { stored, computed })),
        }
    }

    /// What was read behind the pack's end.
    pub(crate) fn rest(&self) -> Vec<u8> {
        self.unused().to_vec()
    }

    fn unused(&self) -> &[u8] {
        self.buffer.get(self.from..self.to).unwrap_or_default()
    }

    fn take(&mut self, len: usize) {
        self.from += len;
        self.at += len as u64;
    }

    /// The checksum sees what was used.
    fn sum(&mut self) {
        self.checksum.update(self.buffer.get(self.summed..self.from).unwrap_or_default());
        self.summed = self.from;
    }

    /// Reads once; `false` if nothing is left. There is room: nobody needs more at once than half of the buffer.
    fn more(&mut self) -> Result<bool, UnpackError> {
        if self.from == self.to || self.buffer.len() - self.to < BUFFER / 2 {
            self.sum();
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            (self.from, self.summed) = (0, 0);
        }
        let room = self.buffer.get_mut(self.to..).unwrap_or_default();
        let n = loop {
            match self.input.read(room) {
                Ok(n) => break n.min(room.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(UnpackError::Input(error)),
            }
        };
        self.to += n;
        self.check_limit()?;
        Ok(n > 0)
    }

    /// What was read along behind the pack's end does not count.
    fn check_limit(&self) -> Result<(), UnpackError> {
        match self.limit {
            Some(limit) if self.at > limit => Err(UnpackError::InputTooLarge { limit }),
            _ => Ok(()),
        }
    }

    fn cut(&self) -> UnpackError {
        UnpackError::at(self.at + (self.to - self.from) as u64, Wrong::Truncated)
    }

    fn parse_error(&self, error: pack_format::ParseError, at: u64) -> UnpackError {
        UnpackError::at(at, Wrong::Format(error.kind))
    }
}
