//! Where the bytes come from: the only file of this crate with `unsafe` in it, a read-only mapping.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use crate::stat::{Stat, Time};

/// How an index file gets into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteSource {
    /// Small files are read; from [`MAP_FROM`] bytes on they are mapped, or read where that fails. For whoever reads all
    /// of a file: the pages that the system has in memory are mapped at once.
    ///
    /// Everyone who follows git's lock protocol replaces an index and never writes into it. If some other process cuts
    /// or rewrites a mapped file in place all the same, reading can end the program (`SIGBUS`) or see changed bytes.
    #[default]
    Auto,
    /// As `Auto`, but pages are mapped one by one as they are looked at: what an [`IndexView`](crate::IndexView) wants.
    OnDemand,
    /// Always read: safe whatever others do to the file meanwhile, at the cost of a copy.
    Heap,
}

/// Bytes from which on a mapping is worth its page faults.
pub const MAP_FROM: u64 = 1 << 20;

/// The bytes of one file.
#[derive(Debug)]
pub struct Bytes(Repr);

#[derive(Debug)]
enum Repr {
    Mapped(Mmap),
    Heap(Vec<u8>),
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Repr::Mapped(map) => map,
            Repr::Heap(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes(Repr::Heap(bytes))
    }
}

impl Bytes {
    /// Opens a regular file; gives its bytes and when it was last written.
    pub fn open(path: &Path, source: ByteSource) -> io::Result<(Bytes, Time)> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let time = Stat::from_metadata(&meta).mtime;
        if source != ByteSource::Heap
            && meta.len() >= MAP_FROM
            && let Ok(map) = map(&file, meta.len(), source == ByteSource::Auto)
        {
            return Ok((Bytes(Repr::Mapped(map)), time));
        }
        let mut bytes = Vec::new();
        // Grows with what is there, not with what the directory says.
        (&file).take(u64::MAX).read_to_end(&mut bytes)?;
        Ok((Bytes(Repr::Heap(bytes)), time))
    }

    /// Whether the bytes are a mapping of the file.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Repr::Mapped(_))
    }
}

fn map(file: &File, len: u64, at_once: bool) -> io::Result<Mmap> {
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
    if len == 0 || isize::try_from(len).is_err() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut options = MmapOptions::new();
    options.len(len);
    if at_once {
        options.populate();
    }
    // SAFETY: `memmap2` asks that the mapped range is neither changed nor cut while the map lives. Checked here: `len` is
    // the non-zero length that this very handle reported for a regular file and fits `isize`, so every byte of the slice
    // lies inside the file at this moment; the handle is read-only and so is the private mapping, so nothing in this
    // process writes through it; the slice is handed out as `&[u8]`, a type for which every bit pattern is valid, and
    // all reading bound-checks against the slice's length, which is in our memory and not in the file: bytes that change
    // give wrong entries or errors, but no access outside. Not checkable: that no other process cuts the file meanwhile.
    // git replaces an index and never writes into one; who cannot rely on that is told by `ByteSource` to use `Heap`.
    #[expect(unsafe_code, reason = "a file mapping cannot be made without; the caller can choose ByteSource::Heap")]
    unsafe {
        options.map_copy_read_only(file)
    }
}
