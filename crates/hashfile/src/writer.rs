//! The writer: buffer, digest, CRC, trailer.

use std::io::{self, Write};
use std::thread::Scope;

use object::{Checksum, HashKind, ObjectId};

use crate::checkpoint::{Checkpoint, History, SetLen};
use crate::crc::RunningCrc;
use crate::digest::{Digest, update_cold};
use crate::error::WriteError;

/// Bytes buffered between a producer and a file: the one size for all of packstone, reading and writing.
///
/// 128 KiB. README shows the sweep that it rests on: below 32 KiB system calls cost, above it the curve is flat, and where
/// every write is a round trip (FUSE, NFS) the number of writes is what counts. git has the same figure.
pub const DEFAULT_IO_BUFFER_SIZE: usize = 128 * 1024;

/// The most that is handed to the sink at once when the buffer is bypassed (rounded to whole buffers).
///
/// Keeps the time to answer an interrupt short, and is the grain at which a second thread follows.
const DIRECT_LIMIT: usize = 1024 * 1024;

/// How a [`HashFile`] works. All fields have setters of the same name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Bytes to buffer, at least 1. Default: [`DEFAULT_IO_BUFFER_SIZE`].
    pub buffer_size: usize,
    /// The expected length of the content in bytes, if known: a small file then gets a small buffer and no second
    /// thread. A wrong guess costs time only.
    pub size_hint: Option<u64>,
    /// Do not hash; the trailer is all zero, as git's `index.skipHash` wants it. Default: `false`.
    pub skip_hash: bool,
    /// Hash on a second thread while this one produces and writes. Default: `false`.
    ///
    /// Costs up to ten more buffers; content and trailer are the same. If the system refuses a thread, the writer hashes
    /// as if not asked.
    pub hash_on_thread: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { buffer_size: DEFAULT_IO_BUFFER_SIZE, size_hint: None, skip_hash: false, hash_on_thread: false }
    }
}

impl Options {
    /// Sets [`Options::buffer_size`].
    pub fn buffer_size(mut self, bytes: usize) -> Self {
        self.buffer_size = bytes;
        self
    }

    /// Sets [`Options::size_hint`].
    pub fn size_hint(mut self, bytes: Option<u64>) -> Self {
        self.size_hint = bytes;
        self
    }

    /// Sets [`Options::skip_hash`].
    pub fn skip_hash(mut self, yes: bool) -> Self {
        self.skip_hash = yes;
        self
    }

    /// Sets [`Options::hash_on_thread`].
    pub fn hash_on_thread(mut self, yes: bool) -> Self {
        self.hash_on_thread = yes;
        self
    }

    fn full_capacity(&self) -> usize {
        self.buffer_size.max(1)
    }

    /// The buffer to start with: all of a small file and its trailer, else the full size.
    fn capacity(&self, kind: HashKind) -> usize {
        let whole = self.size_hint.and_then(|hint| usize::try_from(hint).ok()?.checked_add(kind.len()));
        whole.map_or(self.full_capacity(), |whole| whole.clamp(1, self.full_capacity()))
    }

    fn wants_thread(&self) -> bool {
        // A file that fits into a few buffers is hashed before a thread has started.
        let worth = self.size_hint.is_none_or(|hint| hint > 4 * self.full_capacity() as u64);
        self.hash_on_thread && !self.skip_hash && worth
    }
}

/// A buffered writer that ends its output with the hash of all of it, as git's files do.
///
/// # Writing
/// Through [`io::Write`]. Bytes go to the sink in whole buffers, whatever the sizes they come in; what is larger than
/// a buffer goes there without being copied, in multiples of it. [`write`](Write::write) fails only if it took nothing
/// and may take less than it was given (use [`write_all`](Write::write_all)); [`total`](HashFile::total) is exact
/// at any time, failures included.
///
/// The digest covers exactly what the sink *took*: short writes, interrupts (which are retried) and failures half-way
/// leave it in step with the file, so writing may go on after an error that went away ([`io::ErrorKind::WouldBlock`],
/// a full disk that was cleared).
///
/// # Ending
/// [`finish`](HashFile::finish) flushes, appends the trailer and hands the sink back. A writer that is dropped
/// instead loses what it buffers and leaves no trailer, so that half a file never looks like a whole one.
///
/// # Hashing on a second thread
/// With [`Options::hash_on_thread`] each buffer goes to the thread after the sink took it and comes back to be filled
/// again: nothing is copied that would not be without, but large writes are no longer passed through, since the
/// thread cannot borrow them. To pass large slices through as well, hash on a scoped thread
/// ([`scoped`](HashFile::scoped)) and lend them with [`write_shared`](HashFile::write_shared). That is what the
/// second type parameter is for: what can be lent.
///
/// ```
/// use std::io::Write;
/// use object::HashKind;
/// use packstone_hashfile::{HashFile, Options};
///
/// let mapped = vec![7u8; 3 << 20]; // stands for a memory-mapped pack
/// let (pack, id) = std::thread::scope(|scope| -> std::io::Result<_> {
///     let options = Options::default().hash_on_thread(true);
///     let mut out = HashFile::scoped(scope, Vec::new(), HashKind::Sha1, &options);
///     out.write_all(b"header")?;
///     out.write_shared(&mapped[1 << 20..])?; // written here, hashed there, copied nowhere
///     Ok(out.finish()?)
/// })?;
/// assert_eq!(pack.len(), 6 + (2 << 20) + 20);
/// assert_eq!(&pack[pack.len() - 20..], id.as_bytes());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct HashFile<W, S = &'static [u8]> {
    inner: W,
    kind: HashKind,
    /// Accepted bytes that are not hashed yet. The sink has taken the first `taken` of them: more than none only after
    /// a write failed half-way.
    buf: Vec<u8>,
    taken: usize,
    /// Bytes hashed, which the sink took before those in `buf`.
    hashed: u64,
    capacity: usize,
    full_capacity: usize,
    digest: Digest<S>,
    crc: RunningCrc,
    history: History,
    broken: bool,
}

impl<W: Write> HashFile<W> {
    /// Writes to `inner` with the default [`Options`].
    pub fn new(inner: W, kind: HashKind) -> Self {
        Self::with_options(inner, kind, &Options::default())
    }

    /// Writes to `inner`. Starts a thread if the options ask for one.
    pub fn with_options(inner: W, kind: HashKind, options: &Options) -> Self {
        let digest = match options.wants_thread() {
            true => Digest::spawned(kind, options.capacity(kind)),
            false => Digest::here(kind),
        };
        Self::build(inner, kind, options, digest)
    }
}

impl<'scope, W: Write> HashFile<W, &'scope [u8]> {
    /// As [`with_options`](HashFile::with_options), but a thread that the options ask for is one of `scope`'s, to which
    /// slices can be lent: [`write_shared`](HashFile::write_shared).
    pub fn scoped(scope: &'scope Scope<'scope, '_>, inner: W, kind: HashKind, options: &Options) -> Self {
        let digest = match options.wants_thread() {
            true => Digest::scoped(scope, kind, options.capacity(kind)),
            false => Digest::here(kind),
        };
        Self::build(inner, kind, options, digest)
    }
}

impl<W: Write, S> HashFile<W, S> {
    fn build(inner: W, kind: HashKind, options: &Options, digest: Digest<S>) -> Self {
        let capacity = options.capacity(kind);
        HashFile {
            inner,
            kind,
            buf: Vec::with_capacity(capacity),
            taken: 0,
            hashed: 0,
            capacity,
            full_capacity: options.full_capacity(),
            digest: if options.skip_hash { Digest::Off } else { digest },
            crc: RunningCrc::default(),
            history: History::new(),
            broken: false,
        }
    }

    /// Bytes accepted so far, those still buffered included.
    pub fn total(&self) -> u64 {
        self.hashed + self.buf.len() as u64
    }

    /// Bytes the sink has taken so far.
    pub fn taken(&self) -> u64 {
        self.hashed + self.taken as u64
    }

    /// The hash this writer ends with.
    pub fn kind(&self) -> HashKind {
        self.kind
    }

    /// The sink. What is buffered has not reached it.
    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    /// Starts a CRC-32 over what is written from here on; one that runs already is dropped.
    pub fn crc32_begin(&mut self) {
        self.crc.begin();
    }

    /// Ends the CRC-32 and returns it.
    ///
    /// # Panics
    /// If none was begun.
    #[track_caller]
    pub fn crc32_end(&mut self) -> u32 {
        self.crc.end().expect("crc32_end without crc32_begin")
    }

    /// Remembers this place, so that [`truncate`](HashFile::truncate) can return to it. Writes nothing.
    ///
    /// Costs hashing what is buffered once more, and waits for the second thread if there is one.
    pub fn checkpoint(&self) -> Result<Checkpoint, WriteError> {
        let state = self.state_with(&self.buf).map_err(|e| self.error(e))?;
        Ok(self.history.mark(self.total(), state, self.crc.clone()))
    }

    /// Goes back to `to`: sink, buffer, digest and CRC are as if nothing had been written since.
    ///
    /// The sink is cut only if bytes beyond `to` have reached it; it is cut relative to its position, so output may
    /// have begun in the middle of a file. If cutting fails half-way, the writer accepts nothing more.
    pub fn truncate(&mut self, to: &Checkpoint) -> Result<(), WriteError>
    where
        W: SetLen,
    {
        if !self.history.holds(to, self.total()) {
            return Err(WriteError::StaleCheckpoint { checkpoint: to.total, total: self.total() });
        }
        match self.taken().checked_sub(to.total) {
            None | Some(0) => {
                // All in the buffer, which holds `hashed..total`; it is no longer than usize.
                self.buf.truncate((to.total - self.hashed) as usize);
            }
            Some(beyond) => {
                self.cut(beyond).map_err(|e| self.error(e))?;
                self.buf.clear();
                self.taken = 0;
                self.hashed = to.total;
                self.digest.reset(to.state.clone()).map_err(|e| self.error(e))?;
            }
        }
        self.crc = to.crc.clone();
        self.history.truncated(to.total);
        Ok(())
    }

    fn cut(&mut self, beyond: u64) -> io::Result<()>
    where
        W: SetLen,
    {
        self.usable()?;
        let end = self.inner.stream_position()?;
        let keep = end.checked_sub(beyond).ok_or(io::ErrorKind::InvalidInput)?;
        // From here on a failure leaves a sink that is not where the digest is.
        self.broken = true;
        self.inner.seek(io::SeekFrom::Start(keep))?;
        self.inner.set_len(keep)?;
        self.broken = false;
        Ok(())
    }

    /// Flushes, appends the trailer, and returns the sink with the hash of everything before the trailer (null, like
    /// the trailer, if hashing is off).
    ///
    /// The sink is flushed as [`Write::flush`] does; to make a file durable is [`publish`](crate::publish)'s part.
    pub fn finish(mut self) -> Result<(W, ObjectId), WriteError> {
        let id = self.id().map_err(|e| self.error(e))?;
        // The last buffer and the trailer share a write where they fit into one.
        self.buf.extend_from_slice(id.as_bytes());
        self.close().map_err(|e| self.error(e))?;
        Ok((self.inner, id))
    }

    /// As [`finish`](HashFile::finish), but appends nothing.
    pub fn finish_without_trailer(mut self) -> Result<(W, ObjectId), WriteError> {
        let id = self.id().map_err(|e| self.error(e))?;
        self.close().map_err(|e| self.error(e))?;
        Ok((self.inner, id))
    }

    /// Gives up: the sink as it is, and what is known about the bytes it took. Writes nothing.
    pub fn into_parts(self) -> Result<Parts<W>, WriteError> {
        let state = self.state_with(&self.buf[..self.taken]).map_err(|e| self.error(e))?;
        let taken = self.taken();
        let checksum = state.map_or(self.kind.null(), Checksum::finish);
        Ok(Parts { inner: self.inner, taken, checksum, unwritten: self.buf[self.taken..].to_vec() })
    }

    fn id(&self) -> io::Result<ObjectId> {
        Ok(self.state_with(&self.buf)?.map_or(self.kind.null(), Checksum::finish))
    }

    fn state_with(&self, unhashed: &[u8]) -> io::Result<Option<Checksum>> {
        let mut state = self.digest.snapshot()?;
        if let Some(state) = &mut state {
            state.update(unhashed);
        }
        Ok(state)
    }

    fn close(&mut self) -> io::Result<()> {
        self.usable()?;
        self.push()?;
        self.inner.flush()
    }

    /// Hands the whole buffer to the sink, without hashing it.
    fn push(&mut self) -> io::Result<()> {
        while let Some(rest) = self.buf.get(self.taken..).filter(|rest| !rest.is_empty()) {
            // Only `finish` can have filled the buffer beyond its size.
            let piece = rest.len().min(self.full_capacity);
            self.taken += write_some(&mut self.inner, &rest[..piece])?;
        }
        Ok(())
    }

    /// Hands the whole buffer to the sink and the digest, and empties it.
    fn drain(&mut self) -> io::Result<()> {
        self.push()?;
        let len = self.buf.len();
        self.digest.take(&mut self.buf)?;
        self.hashed += len as u64;
        self.taken = 0;
        Ok(())
    }

    /// Makes room in the buffer.
    fn make_room(&mut self) -> io::Result<()> {
        self.usable()?;
        if self.taken > 0 || self.buf.len() >= self.full_capacity {
            self.drain()?;
        } else if self.buf.len() >= self.capacity {
            self.capacity = self.full_capacity; // the size hint was too small
        }
        Ok(())
    }

    /// Copies what fits into the buffer, which has room.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.capacity - self.buf.len());
        self.buf.extend_from_slice(&bytes[..n]);
        self.crc.update(&bytes[..n]);
        n
    }

    /// How many of `len` bytes can go past the buffer, in whole buffers. 0: copy instead.
    fn direct(&self, len: usize) -> usize {
        if !self.buf.is_empty() {
            return 0;
        }
        let most = len.min(DIRECT_LIMIT.max(self.full_capacity));
        most - most % self.full_capacity
    }

    fn usable(&self) -> io::Result<()> {
        match self.broken {
            true => Err(io::Error::other("the sink is unusable since cutting it failed")),
            false => Ok(()),
        }
    }

    fn error(&self, source: io::Error) -> WriteError {
        WriteError::at(self.taken(), source)
    }
}

impl<W: Write, S: AsRef<[u8]> + Clone> HashFile<W, S> {
    /// Writes all of `shared`, and lets the second thread hash the same memory: large slices are not copied.
    ///
    /// The same as [`write_all`](Write::write_all) without a second thread, and for what fits into the buffer.
    pub fn write_shared(&mut self, shared: S) -> io::Result<()> {
        let bytes = shared.as_ref();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            self.make_room()?;
            let direct = self.direct(rest.len());
            at += match &self.digest {
                Digest::Thread(pipeline) if direct > 0 => {
                    let n = write_some(&mut self.inner, &rest[..direct])?;
                    self.hashed += n as u64;
                    self.crc.update(&rest[..n]);
                    pipeline.share(shared.clone(), at..at + n)?;
                    n
                }
                _ => self.write(rest)?,
            };
        }
        Ok(())
    }
}

impl<W: Write, S> Write for HashFile<W, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.make_room()?;
        let direct = self.direct(bytes.len());
        if direct == 0 {
            return Ok(self.fill(bytes));
        }
        match &mut self.digest {
            Digest::Thread(_) => Ok(self.fill(bytes)), // it cannot borrow them
            Digest::Off => {
                let n = write_some(&mut self.inner, &bytes[..direct])?;
                self.hashed += n as u64;
                self.crc.update(&bytes[..n]);
                Ok(n)
            }
            Digest::Here(sum) => {
                let n = write_some(&mut self.inner, &bytes[..direct])?;
                self.hashed += n as u64;
                self.crc.update(&bytes[..n]);
                update_cold(sum, &bytes[..n]);
                Ok(n)
            }
        }
    }

    /// Hands everything buffered to the sink and flushes it.
    fn flush(&mut self) -> io::Result<()> {
        self.usable()?;
        if !self.buf.is_empty() {
            self.drain()?;
        }
        self.inner.flush()
    }
}

/// What is left of a writer that gave up, see [`HashFile::into_parts`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Parts<W> {
    /// The sink.
    pub inner: W,
    /// Bytes it took.
    pub taken: u64,
    /// The hash of those bytes; null if hashing is off.
    pub checksum: ObjectId,
    /// Bytes that were accepted and did not reach it.
    pub unwritten: Vec<u8>,
}

/// One successful write of at least one byte; how many were taken.
fn write_some(sink: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match sink.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) if n > bytes.len() => return Err(io::Error::other("the sink claims more bytes than it was given")),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
