//! To and from [`RoaringBitmap`], the form for sets held in memory.
//!
//! Both directions cost per run of equal bits, not per bit: a run of a million ones is one step into each of
//! the sixteen roaring containers it spans, and literal words are handed over as bytes.

use alloc::vec;
use alloc::vec::Vec;

use roaring::RoaringBitmap;

use crate::bitmap::{Ewah, EwahBuf};
use crate::builder::Builder;
use crate::error::BuildError;
use crate::iter::{Literals, Run};

/// Words in one roaring container, which holds 2^16 bits.
const CONTAINER_WORDS: usize = 1024;

impl Ewah<'_> {
    /// The same set as a roaring bitmap.
    ///
    /// Runs of ones become run containers where nothing else falls into the same 2^16 bits. Call
    /// [`RoaringBitmap::optimize`] on the result if its size matters more than the time to make it.
    pub fn to_roaring(&self) -> RoaringBitmap {
        let mut out = Containers::default();
        let mut at = 0usize; // in words; parsing bounds it by 2^26
        for run in self.runs() {
            match run {
                Run::Fill { bit, words } => {
                    if bit {
                        out.ones(at, words as usize);
                    }
                    at += words as usize;
                }
                Run::Literals(Literals(mut words)) => {
                    while !words.is_empty() {
                        let room = CONTAINER_WORDS - at % CONTAINER_WORDS;
                        let (head, tail) = words.split_at(room.min(words.len()));
                        out.literals(at, head);
                        at += head.len();
                        words = tail;
                    }
                }
            }
        }
        out.finish()
    }
}

impl EwahBuf {
    /// The same set compressed, `bits` long. Costs one step per run of consecutive ones in `from`.
    ///
    /// # Errors
    /// [`BuildError::BitsTooFew`] when `from` has a bit at or beyond `bits`, [`BuildError::TooLong`] when it
    /// has bit 2^32 - 1.
    pub fn from_roaring(from: &RoaringBitmap, bits: u32) -> Result<EwahBuf, BuildError> {
        let mut out = Builder::new();
        let mut iter = from.iter();
        while let Some(range) = iter.next_range() {
            out.set_range(*range.start(), *range.end())?;
        }
        out.finish_with_bits(bits)
    }
}

/// Collects one container's worth of bits before it hands them to roaring, since adding to a container of
/// roaring's again and again would convert it back and forth.
#[derive(Default)]
struct Containers {
    done: RoaringBitmap,
    /// Number of the container being collected.
    key: usize,
    /// Runs of ones in it, in words from its start, as long as it has no literals.
    runs: Vec<(usize, usize)>,
    /// Its words, least significant byte first, once it has literals; zero elsewhere.
    dense: Vec<[u8; 8]>,
    /// Words of `dense` in use: from the first to one past the last.
    used: core::ops::Range<usize>,
}

impl Containers {
    fn ones(&mut self, at: usize, words: usize) {
        let (mut at, end) = (at, at + words);
        while at < end {
            self.enter(at / CONTAINER_WORDS);
            let start = at % CONTAINER_WORDS;
            let stop = (start + end - at).min(CONTAINER_WORDS);
            at += stop - start;
            if self.used.is_empty() {
                self.runs.push((start, stop));
            } else {
                self.paint(start, stop);
            }
        }
    }

    /// `words` all lie in one container.
    fn literals(&mut self, at: usize, words: &[[u8; 8]]) {
        self.enter(at / CONTAINER_WORDS);
        if self.dense.is_empty() {
            self.dense = vec![[0; 8]; CONTAINER_WORDS];
        }
        for (start, stop) in core::mem::take(&mut self.runs) {
            self.paint(start, stop);
        }
        let start = at % CONTAINER_WORDS;
        self.widen(start, start + words.len());
        for (to, from) in self.dense.iter_mut().skip(start).zip(words) {
            *to = u64::from_be_bytes(*from).to_le_bytes();
        }
    }

    fn paint(&mut self, start: usize, stop: usize) {
        self.widen(start, stop);
        if let Some(words) = self.dense.get_mut(start..stop) {
            words.fill([0xff; 8]);
        }
    }

    fn widen(&mut self, start: usize, stop: usize) {
        self.used = if self.used.is_empty() { start..stop } else { self.used.start..stop };
    }

    fn enter(&mut self, key: usize) {
        if key != self.key {
            self.flush();
            self.key = key;
        }
    }

    fn flush(&mut self) {
        // A container starts below bit 2^32, so its first bit fits; the end of a run may be bit 2^32 - 1.
        let base = (self.key * CONTAINER_WORDS) as u64 * 64;
        for (start, stop) in self.runs.drain(..) {
            let first = base + start as u64 * 64;
            let last = base + stop as u64 * 64 - 1;
            self.done.insert_range(first as u32..=last as u32);
        }
        if !self.used.is_empty() {
            let first = base + self.used.start as u64 * 64;
            if let Some(words) = self.dense.get_mut(self.used.clone()) {
                self.done |= RoaringBitmap::from_lsb0_bytes(first as u32, words.as_flattened());
                words.fill([0; 8]);
            }
            self.used = 0..0;
        }
    }

    fn finish(mut self) -> RoaringBitmap {
        self.flush();
        self.done
    }
}
