//! Checksummed buffered writer for git's files: CRC-32, checkpoints, trailer, durable publishing, lock files.
#![forbid(unsafe_code)]

mod checkpoint;
mod compare;
mod crc;
mod digest;
mod error;
pub mod lock;
mod mode;
pub mod publish;
mod sys;
mod verify;
mod writer;

pub use checkpoint::{Checkpoint, SetLen};
pub use compare::{Compare, Difference, DifferenceKind};
pub use error::{PublishError, VerifyError, WriteError};
pub use mode::{FileMode, Shared, SharedError, create_dir, create_dir_all};
pub use verify::{Trailer, verify, verify_file, verify_reader};
pub use writer::{DEFAULT_IO_BUFFER_SIZE, HashFile, Options, Parts};
