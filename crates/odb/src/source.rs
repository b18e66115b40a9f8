//! Where the bytes of a file come from: a mapping, the heap, or positioned reads. The one module with `unsafe`.
//!
//! Sizes are taken from the opened handle, never from a directory entry, so that the file measured is the file read.

use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use crate::options::ByteSource;
use crate::platform;

/// The bytes of one whole file (an `.idx`, `.rev`, `.bitmap`, or a pack), mapped or on the heap. Dereference through `AsRef<[u8]>`.
#[derive(Debug)]
pub struct Bytes(Repr);

#[derive(Debug)]
enum Repr {
    Mapped(Mmap),
    Heap(Vec<u8>),
}

impl AsRef<[u8]> for Bytes {
    #[inline]
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
    /// Opens `path`, which must be a regular file, and maps or reads it as `source` says ([`ByteSource::Pread`] reads: what
    /// is parsed in place has to lie in memory). An empty file gives empty bytes.
    ///
    /// # Errors
    /// The operating system's, and `InvalidInput` for anything but a regular file.
    pub fn open(path: &Path, source: ByteSource) -> io::Result<Bytes> {
        let (file, len) = open_regular(path)?;
        Bytes::load(&file, len, source, map)
    }

    fn load(file: &File, len: u64, source: ByteSource, map: Mapper) -> io::Result<Bytes> {
        if source == ByteSource::Mmap
            && len > 0
            && let Ok(map) = map(file, len)
        {
            return Ok(Bytes(Repr::Mapped(map)));
        }
        read_whole(file, len).map(Bytes::from)
    }

    /// Tells the system that `range` will not be read again soon: pages of a mapping that lie in it count towards this
    /// process's memory no more. Reading them again is allowed, and fetches them again. Nothing happens elsewhere.
    pub(crate) fn forget(&self, range: std::ops::Range<usize>) {
        #[cfg(unix)]
        if let Repr::Mapped(map) = &self.0
            && range.start < range.end
            && range.end <= map.len()
        {
            // The system wants whole pages; `memmap2` widens the range at its start, which is harmless.
            // SAFETY: `unchecked_advise_range` warns that a private mapping loses what was written to it. Nothing can
            // have been written: the mapping was made read-only by `map` and is only handed out as `&[u8]`. A page read
            // again comes from the file, as it did the first time, so slices that are alive see the same bytes on the
            // condition that `map` states already: that no other process changes the file. `range` is within the map.
            #[expect(unsafe_code, reason = "the advice has no safe form, as it discards writes to private mappings")]
            // An advice may be refused; then memory is what it was.
            let _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.end - range.start)
            };
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Whether the bytes are a mapping of the file.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Repr::Mapped(_))
    }
}

/// The bytes of a pack: all in memory, or fetched piece by piece.
#[derive(Debug)]
pub(crate) enum PackBytes {
    Whole(Bytes),
    Pread { file: File, len: u64 },
}

impl PackBytes {
    pub(crate) fn open(file: File, len: u64, source: ByteSource) -> io::Result<PackBytes> {
        PackBytes::load(file, len, source, map)
    }

    fn load(file: File, len: u64, source: ByteSource, map: Mapper) -> io::Result<PackBytes> {
        match source {
            ByteSource::Mmap if len > 0 => match map(&file, len) {
                Ok(map) => Ok(PackBytes::Whole(Bytes(Repr::Mapped(map)))),
                Err(_) => Ok(PackBytes::Pread { file, len }),
            },
            ByteSource::Mmap | ByteSource::Pread => Ok(PackBytes::Pread { file, len }),
            ByteSource::Heap => Ok(PackBytes::Whole(Bytes::load(&file, len, source, map)?)),
        }
    }

    /// Whether they are more than memory of our own.
    pub(crate) fn is_handle_or_mapping(&self) -> bool {
        match self {
            PackBytes::Whole(bytes) => bytes.is_mapped(),
            PackBytes::Pread { .. } => true,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            PackBytes::Whole(bytes) => bytes.as_ref().len() as u64,
            PackBytes::Pread { len, .. } => *len,
        }
    }
}

/// Reads exactly `out.len()` bytes at `at`. A file that has become shorter is an `UnexpectedEof`.
pub(crate) fn read_exact_at(file: &File, out: &mut [u8], at: u64) -> io::Result<()> {
    platform::read_exact_at(file, out, at)
}

/// Opens a regular file without following the path twice: type and length are those of the handle.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    let file = platform::open_read(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, meta.len()))
}

/// Reads the `len` bytes that the handle reported. Fewer are an error; memory grows with what is really there.
fn read_whole(file: &File, len: u64) -> io::Result<Vec<u8>> {
    // A file of that length exists, so this is not a claim from inside a file; yet sparse files are cheap to make and
    // memory is not, hence the steps.
    const STEP: u64 = 64 << 20;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < len {
        let start = bytes.len();
        let step = usize::try_from(STEP.min(len - start as u64)).unwrap_or(usize::MAX);
        bytes.try_reserve(step).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.resize(start + step, 0);
        platform::read_exact_at(file, &mut bytes[start..], start as u64)?;
    }
    Ok(bytes)
}

/// How a file gets mapped: a seam, so that tests can have mappings fail.
type Mapper = fn(&File, u64) -> io::Result<Mmap>;

fn map(file: &File, len: u64) -> io::Result<Mmap> {
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
    if len == 0 || isize::try_from(len).is_err() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: `memmap2` asks that the mapped range is not changed or cut while the map lives. What can be checked is:
    // `len` is the non-zero length that this very handle reported for a regular file (`open_regular`), and fits
    // `isize`, so every byte of the slice lies inside the file at this moment; the handle was opened for reading only
    // and the mapping is private and read-only, so nothing in this process can write through it; the slice is only
    // ever handed out as shared `&[u8]`, a type for which every bit pattern is valid, and all parsers bound-check each
    // access against the slice's length, which is a number in our memory and not in the file, so that bytes which
    // change under us can give wrong values or errors but no access outside of the map. What cannot be checked is that
    // no other process truncates or rewrites the file meanwhile. git only ever creates and unlinks these files; a
    // caller who cannot rely on that is told by `ByteSource::Mmap` to choose another source.
    #[expect(unsafe_code, reason = "a file mapping cannot be made without; the caller chose ByteSource::Mmap")]
    unsafe {
        MmapOptions::new().len(len).map_copy_read_only(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn refuse(_: &File, _: u64) -> io::Result<Mmap> {
        Err(io::Error::from_raw_os_error(19)) // ENODEV, what some network and FUSE file systems answer
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn f2_a_refused_mapping_falls_back_to_reading() {
        let f = file(b"some bytes");
        let bytes = Bytes::load(&f, 10, ByteSource::Mmap, refuse).unwrap();
        assert!(!bytes.is_mapped());
        assert_eq!(bytes.as_ref(), b"some bytes");

        let pack = PackBytes::load(f, 10, ByteSource::Mmap, refuse).unwrap();
        assert!(matches!(pack, PackBytes::Pread { len: 10, .. }));
    }

    #[test]
    fn f2_an_empty_file_is_empty_bytes() {
        for source in [ByteSource::Mmap, ByteSource::Pread, ByteSource::Heap] {
            let bytes = Bytes::load(&file(b""), 0, source, map).unwrap();
            assert!(!bytes.is_mapped());
            assert!(bytes.as_ref().is_empty());
        }
    }

    #[test]
    fn mapped_and_read_bytes_are_the_same() {
        let f = file(b"some bytes");
        let mapped = Bytes::load(&f, 10, ByteSource::Mmap, map).unwrap();
        assert!(mapped.is_mapped());
        assert_eq!(mapped.as_ref(), Bytes::load(&f, 10, ByteSource::Heap, map).unwrap().as_ref());
    }

    #[test]
    fn a_file_cut_after_it_was_measured_is_an_error() {
        let f = file(b"some bytes");
        f.set_len(4).unwrap();
        let error = Bytes::load(&f, 10, ByteSource::Heap, map).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
