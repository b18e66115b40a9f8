//! A pack to a stream.

use std::io::Write;

use hashfile::{HashFile, WriteError};
use odb::{Observer, Pack};
use pack_format::PackOffset;

use crate::error::PackError;
use crate::options::{VerifyReuse, WriteOptions};
use crate::select::Selection;
use crate::write::{Outcome, Packer, verbatim};

/// Bytes copied at once where the kernel cannot do it all by itself.
const PIECE: u64 = 1 << 20;

/// Where a streamed pack goes.
///
/// Any [`Write`] will do through [`Plain`]; an output that has a file descriptor lets the kernel copy
/// whole packs.
pub trait Output: Write {
    /// The descriptor behind this writer, if bytes may go there past it (nothing may be buffered).
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

impl Output for std::fs::File {
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(self))
    }
}

/// A writer without a file descriptor.
#[derive(Debug)]
pub struct Plain<W>(pub W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Output for Plain<W> {}

impl<O: Output + ?Sized> Output for &mut O {
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        (**self).descriptor()
    }
}

/// Writes the pack of `selection` to `output`, trailer included.
///
/// If the selection is exactly one pack, that pack is copied as it lies, by the kernel where the
/// output allows. Else runs of entries are copied, entries whose base has moved get a new header, and
/// deltas whose base is neither sent nor known are written whole.
///
/// # Errors
/// When the output fails, an object is damaged in all its copies, or `observer` asks to stop. What
/// was written until then has no valid trailer.
pub fn write_stream(
    selection: &Selection,
    options: &WriteOptions,
    mut output: impl Output,
    observer: &dyn Observer,
) -> Result<Outcome, PackError> {
    let total = selection.objects.count();
    let count = u32::try_from(total).map_err(|_| PackError::TooMany { count: total })?;
    let check = options.verify_reuse == VerifyReuse::All;
    if let Some(pack) = verbatim(selection, options, total, check, observer)? {
        observer.phase("Writing objects", Some(total));
        copy_pack(pack, &mut output, observer)?;
        observer.inc(total);
        return Outcome::of_whole(pack, count);
    }
    let hash = selection.numbering.store().hash_kind();
    std::thread::scope(|scope| {
        let hashing = hashfile::Options::default().hash_on_thread(options.threads > 1);
        let mut out = HashFile::scoped(scope, output, hash, &hashing);
        let mut packer = Packer::new(selection, options, observer);
        packer.write(count, &mut out)?;
        let (mut output, checksum) = out.finish().map_err(write_error)?;
        output.flush().map_err(PackError::output)?;
        Ok(packer.outcome(checksum))
    })
}

pub(crate) fn write_error(error: WriteError) -> PackError {
    if error.is_broken_pipe() { PackError::BrokenPipe } else { PackError::Output(std::io::Error::other(error)) }
}

/// Copies the pack's file to the output.
pub(crate) fn copy_pack(pack: &Pack, output: &mut impl Output, observer: &dyn Observer) -> Result<(), PackError> {
    let len = pack.len();
    #[cfg(unix)]
    let mut at = match (output.descriptor(), pack.file()) {
        (Some(descriptor), Ok(file)) => {
            crate::platform::copy_whole(&file, len, descriptor).map_err(PackError::output)?
        }
        _ => 0,
    };
    #[cfg(not(unix))]
    let mut at = 0;
    while at < len {
        let piece = pack.slice(PackOffset::new(at), (len - at).min(PIECE))?;
        output.write_all(&piece).map_err(PackError::output)?;
        at += piece.len() as u64;
        if observer.cancelled() {
            return Err(PackError::Cancelled);
        }
    }
    output.flush().map_err(PackError::output)
}
