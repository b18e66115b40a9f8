//! Copying a file to an output without carrying its bytes through this process.

use std::fs::File;
use std::io;

/// Copies all `len` bytes of `file` to `output` inside the kernel, as far as it can: answers how
/// many bytes it copied, from the start, before it could not go on. The rest is the caller's.
///
/// # Errors
/// When the output fails in a way that another method would meet as well.
#[cfg(target_os = "linux")]
pub(crate) fn copy_whole(file: &File, len: u64, output: std::os::fd::BorrowedFd<'_>) -> io::Result<u64> {
    use rustix::fs::FileType;
    use rustix::io::Errno;

    let kind = rustix::fs::fstat(output).map(|stat| FileType::from_raw_mode(stat.st_mode))?;
    if kind == FileType::Fifo {
        // A pipe of the usual 64 KiB makes reader and writer take turns; the size is the limit for
        // unprivileged processes, and a refusal costs nothing.
        let _ = rustix::pipe::fcntl_setpipe_size(output, 1 << 20);
    }
    let mut at = 0u64;
    while at < len {
        let want = usize::try_from(len - at).unwrap_or(usize::MAX).min(1 << 30);
        let step = match kind {
            FileType::RegularFile => rustix::fs::copy_file_range(file, Some(&mut at), output, None, want),
            FileType::Fifo => {
                rustix::pipe::splice(file, Some(&mut at), output, None, want, rustix::pipe::SpliceFlags::empty())
            }
            FileType::Socket => {
                let before = at;
                rustix::fs::sendfile(output, file, Some(&mut at), want).map(|_| (at - before) as usize)
            }
            // Devices take a mapped slice as cheaply as anything else.
            _ => return Ok(at),
        };
        match step {
            Ok(0) => return Ok(at),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::PIPE) => return Err(Errno::PIPE.into()),
            Err(errno @ (Errno::NOSPC | Errno::IO | Errno::DQUOT | Errno::FBIG)) => return Err(errno.into()),
            Err(_) => return Ok(at),
        }
    }
    Ok(at)
}

#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn copy_whole(_: &File, _: u64, _: std::os::fd::BorrowedFd<'_>) -> io::Result<u64> {
    Ok(0)
}
