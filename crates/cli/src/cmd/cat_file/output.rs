//! Where answers go: gathered to large blocks, long contents past the buffer.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::time::{Duration, Instant};

use super::answer::Sink;
use crate::report::Failure;
use crate::stdio::{self, BLOCK};

/// Contents up to this size are gathered, as a copy costs less than a call.
pub(super) const GATHERED: usize = 16 * 1024;

/// Unless output is to be buffered, what was gathered does not wait longer than this for more.
const PATIENCE: Duration = Duration::from_millis(5);

/// So many slices go into one call; systems take at least 1024.
const SLICES: usize = 257;

/// A piece of the answers: text, and content behind it.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) text: Vec<u8>,
    pub(super) content: Vec<u8>,
}

impl Piece {
    pub(super) fn len(&self) -> usize {
        self.text.len() + self.content.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Standard output.
pub(super) struct Output {
    file: File,
    buffer: Vec<u8>,
    /// `--buffer`: only full blocks leave by themselves.
    patient: bool,
    oldest: Option<Instant>,
}

impl Output {
    pub(super) fn new(patient: bool) -> Result<Output, Failure> {
        Ok(Output { file: stdio::stdout()?, buffer: Vec::with_capacity(2 * BLOCK), patient, oldest: None })
    }

    /// Appends pieces.
    pub(super) fn pieces(&mut self, pieces: &[Piece]) -> Result<(), Failure> {
        if pieces.iter().map(Piece::len).sum::<usize>() <= GATHERED {
            for piece in pieces {
                self.buffer.extend_from_slice(&piece.text);
                self.buffer.extend_from_slice(&piece.content);
            }
            return if self.buffer.len() >= BLOCK { self.flush() } else { Ok(()) };
        }
        let mut slices = Vec::with_capacity(SLICES);
        slices.push(IoSlice::new(&self.buffer));
        let mut done = Ok(());
        for pieces in pieces.chunks((SLICES - 1) / 2) {
            slices.extend(pieces.iter().flat_map(|piece| [IoSlice::new(&piece.text), IoSlice::new(&piece.content)]));
            done = done.and_then(|()| write_slices(&mut self.file, &mut slices));
            slices.clear();
        }
        drop(slices);
        self.buffer.clear();
        self.oldest = None;
        done.map_err(stdio::failed)
    }

    /// Whether something was gathered that should not wait.
    pub(super) fn holds_back(&self) -> bool {
        !self.patient && !self.buffer.is_empty()
    }

    /// Another for the same, to be used in place of this one from now on.
    pub(super) fn hand_over(&mut self) -> Result<Output, Failure> {
        self.flush()?;
        Output::new(self.patient)
    }

    /// Before input is waited for: lets go of all, unless output is to be buffered.
    pub(super) fn before_waiting(&mut self) -> Result<(), Failure> {
        if self.patient { Ok(()) } else { self.flush() }
    }

    /// Lets go of all.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let done = self.file.write_all(&self.buffer).map_err(stdio::failed);
        self.buffer.clear();
        self.oldest = None;
        done
    }
}

impl Sink for Output {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn content(&mut self, content: &mut Vec<u8>) -> Result<(), Failure> {
        if content.len() <= GATHERED {
            self.buffer.extend_from_slice(content);
            return Ok(());
        }
        let mut slices = [IoSlice::new(&self.buffer), IoSlice::new(content)];
        let done = write_slices(&mut self.file, &mut slices).map_err(stdio::failed);
        self.buffer.clear();
        self.oldest = None;
        done
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if self.buffer.len() >= BLOCK {
            return self.flush();
        }
        if self.holds_back() {
            let now = Instant::now();
            if *self.oldest.get_or_insert(now) + PATIENCE <= now {
                return self.flush();
            }
        }
        Ok(())
    }
}

/// Writes all with as few calls as the system allows.
fn write_slices(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0); // drops empty ones
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
