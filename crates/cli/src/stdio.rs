//! Standard input and output past the standard library's buffers: what is read and written in large blocks need not be
//! copied again, and the kernel can copy into it.

use std::fs::File;
use std::io;

use crate::report::Failure;

/// How much is written at a time, as by all that is measured against git.
pub(crate) const BLOCK: usize = 128 * 1024;

/// Standard input as a file of its own.
pub(crate) fn stdin() -> Result<File, Failure> {
    own(&io::stdin()).map_err(|error| Failure::output("cannot open standard input", error))
}

/// Standard output as a file of its own.
pub(crate) fn stdout() -> Result<File, Failure> {
    own(&io::stdout()).map_err(|error| Failure::output("cannot open standard output", error))
}

#[cfg(unix)]
fn own(stream: &impl std::os::fd::AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn own(stream: &impl std::os::windows::io::AsHandle) -> io::Result<File> {
    stream.as_handle().try_clone_to_owned().map(File::from)
}

/// What to say when standard output cannot be written to.
pub(crate) fn failed(error: io::Error) -> Failure {
    Failure::output("write error", error)
}
