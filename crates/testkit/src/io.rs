//! Readers and writers that misbehave in every way that [`std::io`] allows, and one that counts.
//!
//! All are deterministic: what a seed does once it does again.

use std::io::{self, Read, Seek, SeekFrom, Write};

/// A small generator (xorshift64*), so that tests need no crate for it.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Any seed will do.
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// `len` bytes that do not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        out.truncate(len);
        out
    }
}

/// Takes or gives at most a random part of what it is offered, at least one byte; every third call is interrupted.
///
/// A correct user of [`Read`] or [`Write`] notices nothing.
#[derive(Debug, Clone)]
pub struct Ragged<T> {
    /// What does the work.
    pub inner: T,
    rng: Rng,
    most: usize,
}

impl<T> Ragged<T> {
    /// At most `most` bytes at a time.
    pub fn new(inner: T, seed: u64, most: usize) -> Self {
        Ragged { inner, rng: Rng::new(seed), most: most.max(1) }
    }

    fn len(&mut self, offered: usize) -> io::Result<usize> {
        if self.rng.below(3) == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = self.most.min(offered).max(1) as u64;
        Ok((1 + self.rng.below(most)) as usize)
    }
}

impl<W: Write> Write for Ragged<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.len(bytes.len())?.min(bytes.len());
        self.inner.write(&bytes[..n])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Ragged<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.len(buf.len())?.min(buf.len());
        self.inner.read(&mut buf[..n])
    }
}

/// Takes (or gives) at most `most` bytes a call.
#[derive(Debug, Clone)]
pub struct Short<T> {
    /// What does the work.
    pub inner: T,
    /// Bytes a call.
    pub most: usize,
}

impl<W: Write> Write for Short<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(&bytes[..bytes.len().min(self.most)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Short<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = buf.len().min(self.most);
        self.inner.read(&mut buf[..most])
    }
}

/// Takes (or gives) exactly `left` bytes, then fails with `kind` at every call until `left` is raised again.
///
/// As a disk that is full: the call that crosses the limit is cut short, only the next one fails.
#[derive(Debug, Clone)]
pub struct FailAfter<T> {
    /// What does the work.
    pub inner: T,
    /// Bytes until it fails.
    pub left: u64,
    /// How it fails.
    pub kind: io::ErrorKind,
    /// Whether [`Write::flush`] fails, too, once nothing is left.
    pub fail_flush: bool,
}

impl<T> FailAfter<T> {
    /// Fails as a full disk does.
    pub fn new(inner: T, left: u64) -> Self {
        FailAfter { inner, left, kind: io::ErrorKind::StorageFull, fail_flush: false }
    }

    /// Fails with `kind` instead.
    pub fn kind(mut self, kind: io::ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Makes flushing fail as well.
    pub fn fail_flush(mut self) -> Self {
        self.fail_flush = true;
        self
    }

    fn most(&self, offered: usize) -> io::Result<usize> {
        match usize::try_from(self.left).unwrap_or(usize::MAX).min(offered) {
            0 if offered > 0 => Err(self.kind.into()),
            most => Ok(most),
        }
    }
}

impl<W: Write> Write for FailAfter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = self.most(bytes.len())?;
        let n = self.inner.write(&bytes[..most])?;
        self.left -= n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.fail_flush && self.left == 0 {
            return Err(self.kind.into());
        }
        self.inner.flush()
    }
}

impl<R: Read> Read for FailAfter<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = self.most(buf.len())?;
        let n = self.inner.read(&mut buf[..most])?;
        self.left -= n as u64;
        Ok(n)
    }
}

impl<T: Seek> Seek for FailAfter<T> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Counts calls and bytes.
#[derive(Debug, Clone, Default)]
pub struct Counting<T> {
    /// What does the work.
    pub inner: T,
    /// Calls of `read` or `write`.
    pub calls: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes of each call, in order.
    pub sizes: Vec<usize>,
}

impl<T> Counting<T> {
    /// Nothing counted yet.
    pub fn new(inner: T) -> Self {
        Counting { inner, calls: 0, bytes: 0, sizes: Vec::new() }
    }

    fn count(&mut self, n: usize) {
        self.calls += 1;
        self.bytes += n as u64;
        self.sizes.push(n);
    }
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.count(n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.count(n);
        Ok(n)
    }
}
