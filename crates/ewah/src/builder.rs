//! [`Builder`]: append-only construction in bounded memory.

use alloc::vec;
use alloc::vec::Vec;

use crate::bitmap::EwahBuf;
use crate::error::BuildError;
use crate::iter::{Literals, Run};
use crate::word::{Marker, WORD_BITS, WireWord, fill, words_for};

/// Builds a bitmap from its first bit to its last.
///
/// What comes out is the shortest encoding, and for the same bits always the same one: neighbouring runs are
/// joined, all-zero and all-one words never stay literals. git's own builder gives the same words.
///
/// Whole words and single bits can be mixed: a word or run goes to the next word boundary.
#[derive(Clone, Debug)]
pub struct Builder {
    words: Vec<WireWord>,
    /// The open marker and where it lies in `words`; written back when it closes.
    marker: Marker,
    marker_at: usize,
    /// Words pushed into `words`, expanded.
    covered: u32,
    /// The word that `set` is filling: number `covered`. Zero when none is open.
    tail: u64,
    bit_len: u32,
}

impl Builder {
    /// An empty builder.
    pub fn new() -> Self {
        Builder { words: vec![[0; 8]], marker: Marker::default(), marker_at: 0, covered: 0, tail: 0, bit_len: 0 }
    }

    /// Length so far, in bits.
    pub fn bit_len(&self) -> u64 {
        u64::from(self.bit_len)
    }

    /// Sets one bit; all bits between the last one set and this one are zero.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] unless `bit` is at or beyond [`bit_len`](Builder::bit_len);
    /// [`BuildError::TooLong`] for bit 2^32 - 1, whose length the wire form cannot say.
    pub fn set(&mut self, bit: u32) -> Result<(), BuildError> {
        self.set_range(bit, bit)
    }

    /// Sets all bits from `first` to `last`, both included, at a cost that does not grow with their number.
    ///
    /// # Errors
    /// As [`set`](Builder::set); [`BuildError::OutOfOrder`] too when `last` is below `first`.
    pub fn set_range(&mut self, first: u32, last: u32) -> Result<(), BuildError> {
        if first < self.bit_len || last < first {
            return Err(BuildError::OutOfOrder { bit: first.min(last), next: self.bit_len });
        }
        let bit_len = last.checked_add(1).ok_or(BuildError::TooLong)?;
        let (from, to) = (first / WORD_BITS, last / WORD_BITS);
        let head = u64::MAX << (first % WORD_BITS);
        let tail = u64::MAX >> (WORD_BITS - 1 - last % WORD_BITS);
        if from > self.covered {
            self.close_tail();
            self.append_run(false, from - self.covered);
        }
        if from == to {
            self.tail |= head & tail;
        } else {
            self.tail |= head;
            self.close_tail();
            self.append_run(true, to - self.covered);
            self.tail = tail;
        }
        self.bit_len = bit_len;
        Ok(())
    }

    /// Appends one word of 64 bits, the least significant first, at the next word boundary.
    ///
    /// # Errors
    /// [`BuildError::TooLong`] when the length would pass 2^32 - 1 bits.
    pub fn push_word(&mut self, word: u64) -> Result<(), BuildError> {
        self.grow(1)?;
        self.append_word(word);
        Ok(())
    }

    /// Appends `words` words of the same bit at the next word boundary.
    ///
    /// # Errors
    /// [`BuildError::TooLong`] when the length would pass 2^32 - 1 bits.
    pub fn push_run(&mut self, bit: bool, words: u64) -> Result<(), BuildError> {
        let words = self.grow(words)?;
        self.append_run(bit, words);
        Ok(())
    }

    /// Appends words at the next word boundary.
    ///
    /// # Errors
    /// [`BuildError::TooLong`] when the length would pass 2^32 - 1 bits; nothing is appended then.
    pub fn push_literals(&mut self, words: &[u64]) -> Result<(), BuildError> {
        self.grow(words.len() as u64)?;
        for &word in words {
            self.append_word(word);
        }
        Ok(())
    }

    /// Appends a piece of another bitmap at the next word boundary.
    ///
    /// # Errors
    /// [`BuildError::TooLong`] when the length would pass 2^32 - 1 bits; nothing is appended then.
    pub fn push(&mut self, run: Run<'_>) -> Result<(), BuildError> {
        let words = self.grow(run.word_len())?;
        match run {
            Run::Fill { bit, .. } => self.append_run(bit, words),
            Run::Literals(literals) => self.append_wire(literals),
        }
        Ok(())
    }

    /// The bitmap; its length is that of the last bit set or word pushed.
    pub fn finish(mut self) -> EwahBuf {
        self.close_tail();
        self.close_marker();
        EwahBuf { words: self.words, bit_len: self.bit_len, covered: self.covered, last_marker: self.marker_at as u32 }
    }

    /// The bitmap with a length of `bits`. A last word that was pushed whole may be cut, if the bits cut off are
    /// zero.
    ///
    /// # Errors
    /// [`BuildError::BitsTooFew`] when what was appended does not fit `bits`.
    pub fn finish_with_bits(mut self, bits: u32) -> Result<EwahBuf, BuildError> {
        self.close_tail();
        self.close_marker();
        let need = if bits >= self.bit_len {
            0
        } else if words_for(bits) < self.covered {
            self.bit_len
        } else {
            // At most `bit_len`, since no bit is set beyond it.
            (u64::from(self.covered) * 64).saturating_sub(u64::from(self.last_word().leading_zeros())) as u32
        };
        if bits < need {
            return Err(BuildError::BitsTooFew { bits, need });
        }
        self.bit_len = bits;
        Ok(self.finish())
    }

    /// The bitmap, `bit_len` long, for callers that appended no bit beyond it and at most as many words as it takes.
    pub(crate) fn finish_at(mut self, bit_len: u32) -> EwahBuf {
        debug_assert!(self.tail == 0 && self.covered <= words_for(bit_len));
        self.bit_len = bit_len;
        self.finish()
    }

    /// Opens word `base / 64` with `word`; the length then ends at its highest bit.
    pub(crate) fn push_last_word(&mut self, base: u32, word: u64) -> Result<(), BuildError> {
        let bits = WORD_BITS - word.leading_zeros();
        let bit_len = base.checked_add(bits).ok_or(BuildError::TooLong)?;
        self.close_tail();
        self.tail = word;
        self.bit_len = bit_len;
        Ok(())
    }

    /// The last word covered, expanded.
    fn last_word(&self) -> u64 {
        if self.marker.literals > 0 {
            self.words.last().map_or(0, |w| u64::from_be_bytes(*w))
        } else {
            fill(self.marker.bit && self.marker.run > 0)
        }
    }

    /// Rounds up to a word and makes room in the bit count for `words` words more.
    fn grow(&mut self, words: u64) -> Result<u32, BuildError> {
        let start = u64::from(words_for(self.bit_len));
        let bits = start.checked_add(words).and_then(|w| w.checked_mul(64)).ok_or(BuildError::TooLong)?;
        let bits = u32::try_from(bits).map_err(|_| BuildError::TooLong)?;
        self.close_tail();
        self.bit_len = bits;
        Ok(words as u32) // 64 times it fits 32 bits
    }

    fn close_tail(&mut self) {
        if self.tail != 0 {
            let word = core::mem::take(&mut self.tail);
            self.append_word(word);
        }
    }

    fn close_marker(&mut self) {
        if let Some(slot) = self.words.get_mut(self.marker_at) {
            *slot = self.marker.to_wire();
        }
    }

    fn open_marker(&mut self) {
        self.close_marker();
        self.marker = Marker::default();
        self.marker_at = self.words.len();
        self.words.push([0; 8]);
    }

    pub(crate) fn append_word(&mut self, word: u64) {
        if word == 0 || word == u64::MAX {
            self.append_run(word != 0, 1);
        } else {
            // A bitmap holds at most 2^26 words: no field of a marker can overflow, here or below.
            self.words.push(word.to_be_bytes());
            self.marker.literals += 1;
            self.covered += 1;
        }
    }

    pub(crate) fn append_run(&mut self, bit: bool, words: u32) {
        if words == 0 {
            return;
        }
        if self.marker.literals != 0 || (self.marker.run != 0 && self.marker.bit != bit) {
            self.open_marker();
        }
        self.marker.bit = bit;
        self.marker.run += words;
        self.covered += words;
    }

    pub(crate) fn append_wire(&mut self, literals: Literals<'_>) {
        let mut rest = literals.0;
        while let Some(first) = rest.first() {
            // Copied in stretches; words that are no literals in the shortest encoding take the slow way.
            let plain = rest.iter().position(|w| *w == [0; 8] || *w == [0xff; 8]).unwrap_or(rest.len());
            if plain == 0 {
                self.append_word(u64::from_be_bytes(*first));
                rest = rest.get(1..).unwrap_or(&[]);
            } else {
                let (head, tail) = rest.split_at(plain);
                self.words.extend_from_slice(head);
                self.marker.literals += plain as u32;
                self.covered += plain as u32;
                rest = tail;
            }
        }
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}
