//! Where answers go: gathered to large blocks, long contents past the buffer.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::time::{Duration, Instant};

use crate::report::Failure;
use crate::stdio::{self, BLOCK};

/// Contents up to this size are gathered, as a copy costs less than a call.
const GATHERED: usize = 16 * 1024;

/// Unless output is to be buffered, what was gathered does not wait longer than this for more.
const PATIENCE: Duration = Duration::from_millis(5);

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

    /// What is gathered; more can be appended. [`settle`](Self::settle) is to be called some time after that.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Appends content.
    pub(super) fn content(&mut self, content: &[u8]) -> Result<(), Failure> {
        if content.len() <= GATHERED {
            self.buffer.extend_from_slice(content);
            return Ok(());
        }
        let done = write_both(&mut self.file, &self.buffer, content).map_err(stdio::failed);
        self.buffer.clear();
        self.oldest = None;
        done
    }

    /// At the end of an answer: lets go of what is large or old enough.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        if self.buffer.len() >= BLOCK {
            return self.flush();
        }
        if !self.patient && !self.buffer.is_empty() {
            let now = Instant::now();
            if *self.oldest.get_or_insert(now) + PATIENCE <= now {
                return self.flush();
            }
        }
        Ok(())
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

/// Writes two buffers with as few calls as the system allows.
fn write_both(file: &mut File, first: &[u8], second: &[u8]) -> io::Result<()> {
    let mut slices = [IoSlice::new(first), IoSlice::new(second)];
    let mut slices = &mut slices[..];
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
