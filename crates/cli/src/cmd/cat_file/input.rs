//! Lines of standard input, so that it is known when no more can be had without waiting.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

use crate::report::{Failure, plain_io};
use crate::stdio::BLOCK;

/// Reads lines, or strings that end in NUL.
pub(super) struct Lines {
    input: File,
    delim: u8,
    buffer: Vec<u8>,
    /// What of the buffer is still to be used.
    unused: Range<usize>,
    /// Up to here no delimiter was found.
    searched: usize,
    ended: bool,
}

impl Lines {
    pub(super) fn new(input: File, delim: u8) -> Lines {
        Lines { input, delim, buffer: vec![0; BLOCK], unused: 0..0, searched: 0, ended: false }
    }

    /// The next line if it is here already, without its end. A carriage return belongs to the end of a line.
    pub(super) fn next(&mut self) -> Option<Range<usize>> {
        let bytes = self.buffer.get(self.searched..self.unused.end)?;
        let start = self.unused.start;
        match bytes.iter().position(|&byte| byte == self.delim) {
            Some(at) => {
                let mut end = self.searched + at;
                self.unused.start = end + 1;
                self.searched = end + 1;
                let is_return = |end: usize| end > start && self.buffer.get(end - 1) == Some(&b'\r');
                if self.delim == b'\n' && is_return(end) {
                    end -= 1;
                }
                Some(start..end)
            }
            None => {
                self.searched = self.unused.end;
                if !self.ended || self.unused.is_empty() {
                    return None;
                }
                self.unused.start = self.unused.end;
                Some(start..self.unused.end)
            }
        }
    }

    /// The bytes of a line. Good until [`fill`](Self::fill).
    pub(super) fn get(&self, line: &Range<usize>) -> &[u8] {
        self.buffer.get(line.clone()).unwrap_or_default()
    }

    /// Waits for more input; `false` at its end, when [`next`](Self::next) has nothing to give any more.
    pub(super) fn fill(&mut self) -> Result<bool, Failure> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.copy_within(self.unused.clone(), 0);
        self.searched -= self.unused.start;
        self.unused = 0..self.unused.len();
        if self.unused.end == self.buffer.len() {
            // A line longer than the buffer.
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let room = self.buffer.get_mut(self.unused.end..).unwrap_or_default();
        let read = loop {
            match self.input.read(room) {
                Ok(read) => break read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Failure::Fatal(format!("cannot read standard input: {}", plain_io(&error))));
                }
            }
        };
        self.unused.end += read;
        self.ended = read == 0;
        Ok(!self.ended || !self.unused.is_empty())
    }
}
