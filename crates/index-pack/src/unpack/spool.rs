//! What has to wait, put aside: in memory up to a limit, behind it in a temporary file.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashfile::publish::{Options, TempFile};

use super::error::UnpackError;

/// Memory is taken in blocks of this size, so that growing never copies.
const BLOCK: usize = 1 << 20;

/// Bytes that wait for the file, so that writes are few.
const WRITE: usize = 128 << 10;

/// Where something was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    at: u64,
    len: u64,
}

/// Only grows. Several threads read, and append when the first of them is done with it.
pub(crate) struct Spool {
    blocks: Vec<Vec<u8>>,
    len: u64,
    /// How much may be held in blocks.
    memory: usize,
    file: Mutex<Overflow>,
    dir: PathBuf,
    options: Options,
}

#[derive(Default)]
struct Overflow {
    /// Made when first needed.
    file: Option<TempFile>,
    /// Bytes in the file, and those that wait to be written behind them.
    written: u64,
    waiting: Vec<u8>,
}

impl Spool {
    /// Holds `memory` bytes; the file would lie in `dir`.
    pub(crate) fn new(memory: usize, dir: PathBuf, options: Options) -> Self {
        Spool { blocks: Vec::new(), len: 0, memory, file: Mutex::default(), dir, options }
    }

    /// One for nothing.
    pub(crate) fn none() -> Self {
        Spool::new(0, PathBuf::new(), Options::default())
    }

    /// Bytes put aside by [`append`](Self::append).
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Where the bytes from `from` to the end lie.
    pub(crate) fn since(&self, from: u64) -> Place {
        Place { at: from, len: self.len - from }
    }

    /// Puts bytes behind all others.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<(), UnpackError> {
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
                if self.blocks.len() >= self.memory / BLOCK {
                    return self.overflow().append(bytes, &self.dir, &self.options);
                }
                self.blocks.push(Vec::with_capacity(BLOCK));
            }
            if let Some(block) = self.blocks.last_mut() {
                let (now, later) = bytes.split_at(bytes.len().min(BLOCK - block.len()));
                block.extend_from_slice(now);
                bytes = later;
            }
        }
        Ok(())
    }

    /// Puts bytes into the file, by any thread, when nobody appends any more.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<Place, UnpackError> {
        let mut file = self.overflow();
        let at = self.held() + file.written + file.waiting.len() as u64;
        file.append(bytes, &self.dir, &self.options)?;
        Ok(Place { at, len: bytes.len() as u64 })
    }

    /// Gives back what was put there.
    pub(crate) fn get(&self, place: Place, out: &mut Vec<u8>) -> Result<(), UnpackError> {
        out.clear();
        self.pieces(place, &mut |part| {
            out.extend_from_slice(part);
            Ok(())
        })
    }

    /// The same, in pieces.
    pub(crate) fn pieces(
        &self,
        place: Place,
        each: &mut dyn FnMut(&[u8]) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        let Place { mut at, mut len } = place;
        let mut buffer = Vec::new();
        while len > 0 {
            let n = if at < self.held() {
                let (nth, from) = ((at / BLOCK as u64) as usize, (at % BLOCK as u64) as usize);
                let block = self.blocks.get(nth).and_then(|block| block.get(from..)).unwrap_or_default();
                let part = block.get(..block.len().min(usize::try_from(len).unwrap_or(usize::MAX))).unwrap_or_default();
                each(part)?;
                part.len()
            } else {
                buffer.resize(usize::try_from(len).unwrap_or(usize::MAX).min(WRITE), 0);
                self.overflow().read(at - self.held(), &mut buffer)?;
                each(&buffer)?;
                buffer.len()
            };
            if n == 0 {
                return Err(UnpackError::Aside(io::ErrorKind::UnexpectedEof.into()));
            }
            at += n as u64;
            len -= n as u64;
        }
        Ok(())
    }

    /// Bytes in memory.
    fn held(&self) -> u64 {
        match self.blocks.split_last() {
            Some((last, full)) => full.len() as u64 * BLOCK as u64 + last.len() as u64,
            None => 0,
        }
    }

    fn overflow(&self) -> MutexGuard<'_, Overflow> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overflow {
    fn append(&mut self, bytes: &[u8], dir: &std::path::Path, options: &Options) -> Result<(), UnpackError> {
        if self.file.is_none() {
            let made = TempFile::create_in(dir, "tmp_obj_", options);
            self.file = Some(made.map_err(|error| UnpackError::Aside(io::Error::other(error)))?);
        }
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= WRITE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), UnpackError> {
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(self.written)).map_err(UnpackError::Aside)?;
            file.write_all(&self.waiting).map_err(UnpackError::Aside)?;
            self.written += self.waiting.len() as u64;
            self.waiting.clear();
        }
        Ok(())
    }

    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), UnpackError> {
        if at + out.len() as u64 > self.written {
            self.flush()?;
        }
        let file = self.file.as_mut().ok_or_else(|| UnpackError::Aside(io::ErrorKind::UnexpectedEof.into()))?;
        file.seek(SeekFrom::Start(at)).map_err(UnpackError::Aside)?;
        file.read_exact(out).map_err(UnpackError::Aside)
    }
}
