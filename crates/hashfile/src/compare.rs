//! A sink that holds what is written against a file that exists.

use std::io::{self, Read, Write};

/// Bytes compared at a time.
const CHUNK: usize = 32 * 1024;

/// A sink that writes nothing: it reads an existing file and fails at the first byte that differs.
///
/// The *writer* of a format becomes its verifier: run it again over the same input into a
/// [`HashFile`](crate::HashFile) around this sink, and the trailer is compared with everything else. git checks
/// existing pack indexes so.
///
/// Call [`finish`](Compare::finish) at the end: until then the existing file may go on.
///
/// ```
/// use std::io::Write;
/// use object::HashKind;
/// use packstone_hashfile::{Compare, HashFile};
///
/// let mut first = HashFile::new(Vec::new(), HashKind::Sha1);
/// first.write_all(b"the same again")?;
/// let (existing, _) = first.finish()?;
///
/// let mut again = HashFile::new(Compare::new(existing.as_slice()), HashKind::Sha1);
/// again.write_all(b"the same again")?;
/// let (compare, _) = again.finish()?;
/// compare.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Compare<R> {
    existing: R,
    at: u64,
    buf: Box<[u8]>,
    failed: Option<Difference>,
}

impl<R: Read> Compare<R> {
    /// Compares with what `existing` yields from here on. Needs no buffering around `existing`.
    pub fn new(existing: R) -> Self {
        Compare { existing, at: 0, buf: vec![0; CHUNK].into(), failed: None }
    }

    /// Bytes found equal.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Checks that the existing file ends here as well.
    ///
    /// The error holds a [`Difference`] unless reading failed.
    pub fn finish(mut self) -> io::Result<R> {
        if let Some(difference) = self.failed {
            return Err(io::Error::other(difference));
        }
        let mut one = [0];
        match self.read_some(&mut one)? {
            0 => Ok(self.existing),
            _ => Err(io::Error::other(Difference { at: self.at, kind: DifferenceKind::ExistingLonger })),
        }
    }

    fn read_some(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.existing.read(into) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl<R: Read> Write for Compare<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(difference) = self.failed {
            return Err(io::Error::other(difference));
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut buf = std::mem::take(&mut self.buf);
        let want = buf.len().min(bytes.len());
        let have = self.read_some(&mut buf[..want]);
        self.buf = buf;
        let have = have?;
        let (found, written) = (&self.buf[..have], &bytes[..have]);
        let same = found.iter().zip(written).take_while(|(a, b)| a == b).count();
        self.at += same as u64;
        if have == 0 {
            self.failed = Some(Difference { at: self.at, kind: DifferenceKind::ExistingShorter });
        } else if same < have {
            let kind = DifferenceKind::Byte { existing: found[same], written: written[same] };
            self.failed = Some(Difference { at: self.at, kind });
        }
        match self.failed {
            Some(difference) if same == 0 => Err(io::Error::other(difference)),
            _ => Ok(same), // the next call reports the difference: these bytes were equal
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where an existing file and what was written part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("existing file differs at byte {at}: {kind}")]
#[non_exhaustive]
pub struct Difference {
    /// Offset of the first byte that is not the same in both.
    pub at: u64,
    /// How they differ there.
    pub kind: DifferenceKind,
}

/// How an existing file and what was written differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// Two bytes differ.
    #[error("it has {existing:#04x} where {written:#04x} was written")]
    Byte {
        /// The byte in the existing file.
        existing: u8,
        /// The byte that was written.
        written: u8,
    },
    /// The existing file ends there.
    #[error("it ends there")]
    ExistingShorter,
    /// Writing ended there.
    #[error("it goes on")]
    ExistingLonger,
}
