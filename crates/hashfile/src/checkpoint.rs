//! Places in a stream to which a writer can go back.

use std::fs::File;
use std::io::{self, Cursor, Seek};
use std::sync::atomic::{AtomicU64, Ordering};

use object::Checksum;

use crate::crc::RunningCrc;

/// A place in one [`HashFile`](crate::HashFile)'s stream, with the state of both checksums there.
///
/// Made by [`HashFile::checkpoint`](crate::HashFile::checkpoint), used by
/// [`HashFile::truncate`](crate::HashFile::truncate), any number of times. What a caller counts along the way (objects,
/// entries of an index) is the caller's to keep beside it.
#[derive(Clone)]
pub struct Checkpoint {
    pub(crate) total: u64,
    pub(crate) state: Option<Checksum>,
    pub(crate) crc: RunningCrc,
    pub(crate) writer: u64,
    pub(crate) epoch: u64,
}

impl Checkpoint {
    /// Bytes before this place, counted from the writer's first byte.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint").field("total", &self.total).finish_non_exhaustive()
    }
}

/// A sink whose end can be moved: what [`HashFile::truncate`](crate::HashFile::truncate) needs.
///
/// As [`File::set_len`], it does not move the position.
pub trait SetLen: Seek {
    /// Cuts or extends to `len` bytes.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
}

impl SetLen for File {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }
}

impl SetLen for &File {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }
}

impl SetLen for Cursor<Vec<u8>> {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        resize(self.get_mut(), len)
    }
}

impl SetLen for Cursor<&mut Vec<u8>> {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        resize(self.get_mut(), len)
    }
}

impl<T: SetLen + ?Sized> SetLen for &mut T {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        (**self).set_len(len)
    }
}

fn resize(bytes: &mut Vec<u8>, len: u64) -> io::Result<()> {
    let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    bytes.resize(len, 0);
    Ok(())
}

/// Knows which checkpoints of a writer still lie on the stream as it is now.
///
/// A checkpoint taken at byte 100 is void once the stream went back to byte 50: the bytes before 100 are others now, and
/// going "back" to it would leave a trailer over bytes that are not in the file.
pub(crate) struct History {
    writer: u64,
    epoch: u64,
    /// Truncations `(epoch, to)`, rising in both: one that went lower made those before it irrelevant.
    low: Vec<(u64, u64)>,
}

impl History {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        History { writer: NEXT.fetch_add(1, Ordering::Relaxed), epoch: 0, low: Vec::new() }
    }

    pub(crate) fn mark(&self, total: u64, state: Option<Checksum>, crc: RunningCrc) -> Checkpoint {
        Checkpoint { total, state, crc, writer: self.writer, epoch: self.epoch }
    }

    pub(crate) fn holds(&self, at: &Checkpoint, total: u64) -> bool {
        let later = self.low.partition_point(|&(epoch, _)| epoch <= at.epoch);
        let lowest = self.low.get(later).map_or(u64::MAX, |&(_, to)| to);
        at.writer == self.writer && at.total <= total && at.total <= lowest
    }

    pub(crate) fn truncated(&mut self, to: u64) {
        self.epoch += 1;
        while self.low.last().is_some_and(|&(_, earlier)| earlier >= to) {
            self.low.pop();
        }
        self.low.push((self.epoch, to));
    }
}
