//! Checking a trailer.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::{Checksum, HashKind, ObjectId};

use crate::DEFAULT_IO_BUFFER_SIZE;
use crate::digest::update_cold;
use crate::error::VerifyError;

/// What the last bytes of an intact file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trailer {
    /// The trailer is the hash of everything before it.
    Matches(ObjectId),
    /// All zero: the writer skipped hashing (`index.skipHash`, gitformat-index, "Extensions"), so nothing vouches for
    /// the content. Whether that is acceptable depends on the file; of git's only the index may say so.
    Skipped,
}

/// Checks `bytes`, whose last [`HashKind::len`] bytes are the trailer.
///
/// One pass, no allocation.
pub fn verify(bytes: &[u8], kind: HashKind) -> Result<Trailer, VerifyError> {
    let short = || VerifyError::Truncated { len: bytes.len() as u64, need: kind.len() as u64 };
    let split = bytes.len().checked_sub(kind.len()).ok_or_else(short)?;
    let (content, trailer) = bytes.split_at(split);
    let mut sum = Checksum::new(kind);
    // A null trailer is never compared, so its file need not be hashed.
    if trailer.iter().any(|&b| b != 0) {
        update_cold(&mut sum, content);
    }
    judge(sum, trailer, split as u64, kind)
}

/// Checks everything that `source` yields, through a buffer of [`DEFAULT_IO_BUFFER_SIZE`].
pub fn verify_reader(mut source: impl Read, kind: HashKind) -> Result<Trailer, VerifyError> {
    let need = kind.len();
    let mut sum = Checksum::new(kind);
    let mut buf = vec![0; DEFAULT_IO_BUFFER_SIZE];
    let (mut held, mut at) = (0, 0); // held: bytes at the front of buf that may be the trailer
    loop {
        let n = match source.read(&mut buf[held..]) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(VerifyError::Io { at, source }),
        };
        at += n as u64;
        held += n;
        if let Some(settled) = held.checked_sub(need) {
            sum.update(&buf[..settled]);
            buf.copy_within(settled..held, 0);
            held = need;
        }
    }
    if held < need {
        return Err(VerifyError::Truncated { len: at, need: need as u64 });
    }
    judge(sum, &buf[..need], at - need as u64, kind)
}

/// Checks the file at `path`.
pub fn verify_file(path: &Path, kind: HashKind) -> Result<Trailer, VerifyError> {
    let file = File::open(path).map_err(|source| VerifyError::Open { path: path.into(), source })?;
    verify_reader(file, kind).map_err(|e| VerifyError::File { path: path.into(), source: Box::new(e) })
}

fn judge(sum: Checksum, trailer: &[u8], at: u64, kind: HashKind) -> Result<Trailer, VerifyError> {
    if trailer.iter().all(|&b| b == 0) {
        return Ok(Trailer::Skipped);
    }
    let computed = sum.finish();
    match ObjectId::from_prefix(trailer, kind) {
        Some(found) if found == computed => Ok(Trailer::Matches(found)),
        Some(found) => Err(VerifyError::Mismatch { at, found, computed }),
        None => Err(VerifyError::Truncated { len: trailer.len() as u64, need: kind.len() as u64 }),
    }
}
