//! Objects piece by piece.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

use object::{NameHasher, ObjectId, ObjectKind};
use pack_format::PackOffset;
use pack_format::zlib::Inflate;

use crate::chain;
use crate::error::{Damage, ReadError};
use crate::inflating::{StepError, inflate_end, inflate_some};
use crate::loose::{self, First};
use crate::options::Options;
use crate::pack::Pack;
use crate::source::PackBytes;
use crate::store::ObjectHeader;

/// Objects up to this size are read whole: with all that can be done about damage, and no state machine per object.
const WHOLE: u64 = 512 << 10;

/// An object's content as [`Read`], made by [`Store::stream`](crate::Store::stream).
///
/// Errors of reading carry a [`ReadError`] as their inner error. The `read` that would say that the end is reached fails
/// instead if the stream does not hold exactly the size in the header, so whoever reads to the end knows.
#[derive(Debug)]
pub struct ObjectStream {
    header: ObjectHeader,
    state: State,
}

#[derive(Debug)]
enum State {
    Whole {
        bytes: Vec<u8>,
        from: usize,
    },
    Inflating(Box<Inflating>),
    /// After the end, or an error.
    Done,
}

#[derive(Debug)]
struct Inflating {
    input: Input,
    inflate: Inflate,
    /// Content bytes still to come.
    left: u64,
    size: u64,
    first: Option<First>,
    /// What inflating the first bytes led to, if it was the end or an error.
    early: Option<Result<(), StepError>>,
    verify: Option<NameHasher>,
    id: ObjectId,
}

impl ObjectStream {
    /// Kind and size.
    #[must_use]
    pub fn header(&self) -> ObjectHeader {
        self.header
    }

    pub(crate) fn whole(kind: ObjectKind, bytes: Vec<u8>) -> ObjectStream {
        ObjectStream { header: ObjectHeader { kind, size: bytes.len() as u64 }, state: State::Whole { bytes, from: 0 } }
    }

    /// A stream of the entry at `at`; `None` if it is to be read whole.
    pub(crate) fn packed(pack: &Arc<Pack>, at: PackOffset, id: ObjectId) -> Result<Option<ObjectStream>, ReadError> {
        let (entry, len) = pack.entry(at)?;
        let Some(kind) = entry.kind.object_kind().filter(|_| entry.size > WHOLE) else { return Ok(None) };
        let header = ObjectHeader { kind, size: entry.size };
        let data = at.get() + len as u64; // inside the pack
        chain::plausible(pack, at.get(), data, entry.size)?;
        let mut inflate = Inflate::new();
        inflate.reset();
        let input = PackInput {
            pack: Arc::clone(pack),
            at: at.get(),
            next: data,
            end: pack.entries_end()?,
            forgotten: data,
            buffer: Vec::new(),
            from: 0,
        };
        Ok(Some(ObjectStream::inflating(header, Input::Pack(input), inflate, None, None, id, pack.options())))
    }

    /// A stream of a loose object; `None` if it is to be read whole.
    pub(crate) fn loose(
        path: PathBuf,
        (file, len): (File, u64),
        id: ObjectId,
        options: &Options,
    ) -> Result<Option<ObjectStream>, ReadError> {
        let mut inflate = Inflate::new();
        let opened = loose::begin(&path, BufReader::with_capacity(64 << 10, file), len, &mut inflate)?;
        if opened.header.size <= WHOLE {
            return Ok(None);
        }
        let early = match opened.state {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        let input = Input::Loose { path, reader: opened.input };
        Ok(Some(ObjectStream::inflating(opened.header, input, inflate, Some(opened.first), early, id, options)))
    }

    fn inflating(
        header: ObjectHeader,
        input: Input,
        inflate: Inflate,
        first: Option<First>,
        early: Option<Result<(), StepError>>,
        id: ObjectId,
        options: &Options,
    ) -> ObjectStream {
        let verify = options.verify_on_read.then(|| NameHasher::new(id.kind(), header.kind, header.size));
        let (left, size) = (header.size, header.size);
        let state = State::Inflating(Box::new(Inflating { input, inflate, left, size, first, early, verify, id }));
        ObjectStream { header, state }
    }
}

impl Read for ObjectStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        match &mut self.state {
            State::Done => Ok(0),
            State::Whole { bytes, from } => {
                let mut rest = bytes.get(*from..).unwrap_or_default();
                let n = rest.read(out)?;
                *from += n;
                Ok(n)
            }
            State::Inflating(inflating) => {
                let result = inflating.read(out);
                if !matches!(result, Ok(1..)) {
                    self.state = State::Done;
                }
                result.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }
}

impl Inflating {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, ReadError> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        let out = out.get_mut(..most).unwrap_or_default();
        if out.is_empty() {
            return self.finish().map(|()| 0);
        }
        let n = match self.first.as_mut().map(|first| first.take(out)) {
            Some(n @ 1..) => n,
            _ => self.inflate(out)?,
        };
        if let Some(hasher) = &mut self.verify {
            hasher.update(out.get(..n).unwrap_or_default());
        }
        self.left -= n as u64;
        Ok(n)
    }

    fn inflate(&mut self, out: &mut [u8]) -> Result<usize, ReadError> {
        match self.early.take() {
            Some(Err(error)) => return Err(self.input.error(error)),
            Some(Ok(())) => return Err(self.input.corrupt(Damage::SizeMismatch { size: self.size })),
            None => {}
        }
        let mut produced = 0;
        let ended = match inflate_some(&mut self.input, &mut self.inflate, out, &mut produced) {
            Ok(ended) => ended,
            Err(error) => return Err(self.input.error(error)),
        };
        // The stream may end right with the last byte; then `finish` must not go on.
        if ended {
            if (produced as u64) < self.left {
                return Err(self.input.corrupt(Damage::SizeMismatch { size: self.size }));
            }
            self.early = Some(Ok(()));
        }
        Ok(produced)
    }

    /// All of the content is out: nothing may follow, and the name must be right.
    fn finish(&mut self) -> Result<(), ReadError> {
        if self.first.as_ref().is_some_and(|first| !first.as_slice().is_empty()) {
            return Err(self.input.corrupt(Damage::SizeMismatch { size: self.size }));
        }
        let ended = match self.early.take() {
            Some(ended) => ended,
            None => inflate_end(&mut self.input, &mut self.inflate, self.size),
        };
        ended.map_err(|error| self.input.error(error))?;
        self.input.at_end()?;
        match self.verify.take().map(NameHasher::finish) {
            None => Ok(()),
            Some(Ok(id)) if id == self.id => Ok(()),
            Some(Ok(_)) => Err(self.input.corrupt(Damage::WrongName { expected: self.id })),
            Some(Err(_)) => Err(self.input.corrupt(Damage::Collision)),
        }
    }
}

#[derive(Debug)]
enum Input {
    Pack(PackInput),
    Loose { path: PathBuf, reader: BufReader<File> },
}

/// Deflated bytes of an entry and what follows it, piece by piece.
#[derive(Debug)]
struct PackInput {
    pack: Arc<Pack>,
    /// Of the entry.
    at: u64,
    /// What to read next: for packs in memory, all from here on is available at once.
    next: u64,
    end: u64,
    /// Up to here, a pack in memory was told that its bytes were used up.
    forgotten: u64,
    buffer: Vec<u8>,
    from: usize,
}

impl Input {
    fn error(&self, error: StepError) -> ReadError {
        match self {
            Input::Pack(input) => error.at(&input.pack, input.at),
            Input::Loose { path, .. } => loose::step_error(path, error),
        }
    }

    fn corrupt(&self, damage: Damage) -> ReadError {
        match self {
            Input::Pack(input) => input.pack.corrupt(input.at, damage),
            Input::Loose { path, .. } => ReadError::corrupt(path, 0, damage),
        }
    }

    fn at_end(&mut self) -> Result<(), ReadError> {
        match self {
            Input::Pack(_) => Ok(()), // the next entry follows
            Input::Loose { path, reader } => loose::at_end(path, reader),
        }
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let n = available.read(out)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Input::Pack(input) => input.fill_buf(),
            Input::Loose { reader, .. } => reader.fill_buf(),
        }
    }

    fn consume(&mut self, amount: usize) {
        match self {
            Input::Pack(input) => input.consume(amount),
            Input::Loose { reader, .. } => reader.consume(amount),
        }
    }
}

/// So many bytes of a mapped pack are read before their pages are given back: a large object must not come to count as
/// this process's memory.
const FORGET: u64 = 8 << 20;

impl PackInput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.pack.bytes().map_err(io::Error::other)? {
            // Both are at most the length of a slice.
            PackBytes::Whole(bytes) => {
                Ok(bytes.as_ref().get(self.next as usize..self.end as usize).unwrap_or_default())
            }
            PackBytes::Pread { file, .. } => {
                if self.from >= self.buffer.len() {
                    let len = self.end.saturating_sub(self.next).min(64 << 10);
                    self.buffer.resize(len as usize, 0);
                    self.from = 0;
                    crate::source::read_exact_at(file, &mut self.buffer, self.next)?;
                    self.next += len;
                }
                Ok(self.buffer.get(self.from..).unwrap_or_default())
            }
        }
    }

    fn consume(&mut self, amount: usize) {
        match self.pack.bytes() {
            Ok(PackBytes::Whole(_)) => {
                self.next += amount as u64;
                if self.next - self.forgotten >= FORGET {
                    self.pack.forget(self.forgotten..self.next);
                    self.forgotten = self.next;
                }
            }
            _ => self.from += amount,
        }
    }
}
