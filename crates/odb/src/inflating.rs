//! Inflating from readers: what does not lie in memory, or is too large to be trusted with an allocation.

use std::fs::File;
use std::io::{self, BufRead, Read};

use pack_format::zlib::{Inflate, ZlibError};

use crate::chain::TRUSTED;
use crate::error::{Damage, ReadError};
use crate::pack::Pack;
use crate::source;

/// How many bytes a positioned read asks for.
const CHUNK: usize = 64 << 10;

/// Why inflating stopped.
#[derive(Debug)]
pub(crate) enum StepError {
    Io(io::Error),
    Zlib(ZlibError),
}

impl StepError {
    /// The error of reading the entry at `at`. A file that ends where its handle said it goes on has been cut.
    pub(crate) fn at(self, pack: &Pack, at: u64) -> ReadError {
        match self {
            StepError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                pack.corrupt(at, Damage::Truncated { what: "pack" })
            }
            StepError::Io(error) => ReadError::io(pack.path(), error),
            StepError::Zlib(error) => pack.corrupt(at, error),
        }
    }
}

/// Inflates until `out` is full or the stream ends, adding to `produced`, the bytes in `out` already; says whether the
/// stream ended. What was produced before an error counts too.
///
/// A step that neither uses nor makes anything although there is input and room would go on doing so, and input that
/// ends before the stream will not come back: both are errors, so that no loop around this waits for ever.
pub(crate) fn inflate_some(
    input: &mut impl BufRead,
    inflate: &mut Inflate,
    out: &mut [u8],
    produced: &mut usize,
) -> Result<bool, StepError> {
    while let Some(room) = out.get_mut(*produced..).filter(|room| !room.is_empty()) {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(StepError::Io(error)),
        };
        let ended = available.is_empty();
        let step = inflate.step(available, room).map_err(StepError::Zlib)?;
        input.consume(step.consumed);
        *produced += step.produced;
        if step.done {
            return Ok(true);
        }
        if step.consumed == 0 && step.produced == 0 {
            return Err(StepError::Zlib(if ended { ZlibError::Truncated } else { ZlibError::Corrupt }));
        }
    }
    Ok(false)
}

/// Goes on to the end of a stream that must hold nothing more than the `expected` bytes already inflated.
pub(crate) fn inflate_end(input: &mut impl BufRead, inflate: &mut Inflate, expected: u64) -> Result<(), StepError> {
    // The checksum and empty blocks may be still to come; with room for a byte, a byte too many shows.
    let mut extra = 0;
    if inflate_some(input, inflate, &mut [0], &mut extra)? && extra == 0 {
        Ok(())
    } else {
        Err(StepError::Zlib(ZlibError::TooLong { expected }))
    }
}

/// Inflates a whole stream of exactly `size` bytes into `out`. Memory grows with what the stream really holds.
pub(crate) fn inflate_growing(
    input: &mut impl BufRead,
    size: usize,
    inflate: &mut Inflate,
    out: &mut Vec<u8>,
) -> Result<(), StepError> {
    inflate.reset();
    inflate_rest(input, size, inflate, out, 0)
}

/// As [`inflate_growing`], with the first `done` bytes in `out` already, and the stream begun.
pub(crate) fn inflate_rest(
    input: &mut impl BufRead,
    size: usize,
    inflate: &mut Inflate,
    out: &mut Vec<u8>,
    mut done: usize,
) -> Result<(), StepError> {
    let expected = size as u64;
    while done < size {
        let step = usize::try_from(TRUSTED).unwrap_or(usize::MAX).max(done);
        out.resize(size.min(done.saturating_add(step)), 0);
        if inflate_some(input, inflate, out, &mut done)? {
            return if done == size { Ok(()) } else { Err(StepError::Zlib(ZlibError::TooShort { expected })) };
        }
    }
    out.truncate(size);
    inflate_end(input, inflate, expected)
}

/// Part of a file, by positioned reads through a borrowed buffer.
pub(crate) struct PreadReader<'a> {
    file: &'a File,
    next: u64,
    end: u64,
    buffer: &'a mut Vec<u8>,
    /// What of the buffer is still to be consumed.
    from: usize,
}

impl<'a> PreadReader<'a> {
    pub(crate) fn new(file: &'a File, from: u64, end: u64, buffer: &'a mut Vec<u8>) -> Self {
        buffer.clear();
        PreadReader { file, next: from, end, buffer, from: 0 }
    }
}

impl BufRead for PreadReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.from >= self.buffer.len() {
            // Small first: most entries are. What follows them is rarely read next.
            let most = if self.buffer.is_empty() { 4096 } else { CHUNK as u64 };
            let len = self.end.saturating_sub(self.next).min(most) as usize;
            self.buffer.resize(len, 0);
            self.from = 0;
            source::read_exact_at(self.file, self.buffer, self.next)?;
            self.next += len as u64;
        }
        Ok(self.buffer.get(self.from..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.from += amount;
    }
}

impl Read for PreadReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let n = available.read(out)?;
        self.consume(n);
        Ok(n)
    }
}
