//! Iterators: [`Runs`] (one step per run, whatever its length), [`Words`] and [`Ones`] on top of it.

use core::fmt;
use core::iter::FusedIterator;

use crate::word::{Marker, WORD_BITS, WireWord, fill};

/// A piece of a bitmap: a run of equal words, or words spelled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run<'a> {
    /// `words` words whose bits are all `bit`. Never zero words.
    Fill {
        /// The repeated bit.
        bit: bool,
        /// Length of the run in words of 64 bits.
        words: u64,
    },
    /// Words spelled out. Never none. An encoder other than ours may have put all-zero words among them.
    Literals(Literals<'a>),
}

impl Run<'_> {
    /// Length in words of 64 bits.
    pub fn word_len(&self) -> u64 {
        match self {
            Run::Fill { words, .. } => *words,
            Run::Literals(words) => words.len() as u64,
        }
    }
}

/// Words spelled out in a bitmap, still as the wire has them; reading one turns its bytes round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Literals<'a>(pub(crate) &'a [WireWord]);

impl<'a> Literals<'a> {
    /// Number of words.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none; never so for literals out of [`Runs`].
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The word at `index`. Bit 0 of a word is its least significant.
    pub fn get(&self, index: usize) -> Option<u64> {
        self.0.get(index).map(|w| u64::from_be_bytes(*w))
    }

    /// All words in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + Clone + use<'a> {
        self.0.iter().map(|w| u64::from_be_bytes(*w))
    }
}

impl fmt::Debug for Literals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over the runs and literal stretches of a bitmap; see [`Ewah::runs`](crate::Ewah::runs).
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    rest: &'a [WireWord],
    /// Literal words of the marker whose run was handed out last.
    literals: u32,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(words: &'a [WireWord]) -> Self {
        Runs { rest: words, literals: 0 }
    }

    /// Index of the last marker word, walking all of them.
    pub(crate) fn last_marker(&self) -> u32 {
        let (mut at, mut last) = (0usize, 0usize);
        while let Some(word) = self.rest.get(at) {
            last = at;
            at = at.saturating_add(1 + Marker::from_wire(*word).literals as usize);
        }
        last as u32
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    #[inline]
    fn next(&mut self) -> Option<Run<'a>> {
        loop {
            if self.literals != 0 {
                // Parsing has made sure of the length; `min` only keeps the slice from ever panicking.
                let (head, tail) = self.rest.split_at((self.literals as usize).min(self.rest.len()));
                self.rest = tail;
                self.literals = 0;
                if !head.is_empty() {
                    return Some(Run::Literals(Literals(head)));
                }
            }
            let (word, tail) = self.rest.split_first()?;
            let marker = Marker::from_wire(*word);
            self.rest = tail;
            self.literals = marker.literals;
            if marker.run != 0 {
                return Some(Run::Fill { bit: marker.bit, words: u64::from(marker.run) });
            }
        }
    }
}

impl FusedIterator for Runs<'_> {}

/// Iterator over the words of a bitmap, expanded; see [`Ewah::words`](crate::Ewah::words).
#[derive(Clone, Debug)]
pub struct Words<'a> {
    runs: Runs<'a>,
    now: Option<Run<'a>>,
    /// Words still to hand out; after the last run they are zero.
    left: usize,
}

impl<'a> Words<'a> {
    pub(crate) fn new(runs: Runs<'a>, len: usize) -> Self {
        Words { runs, now: None, left: len }
    }
}

impl Iterator for Words<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        loop {
            match &mut self.now {
                Some(Run::Fill { bit, words }) if *words > 0 => {
                    *words -= 1;
                    return Some(fill(*bit));
                }
                Some(Run::Literals(Literals(words))) => {
                    if let Some((first, rest)) = words.split_first() {
                        *words = rest;
                        return Some(u64::from_be_bytes(*first));
                    }
                }
                _ => {}
            }
            self.now = self.runs.next();
            if self.now.is_none() {
                return Some(0);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Words<'_> {}
impl FusedIterator for Words<'_> {}

/// Iterator over the bits that are set, ascending; see [`Ewah::ones`](crate::Ewah::ones).
#[derive(Clone, Debug)]
pub struct Ones<'a> {
    runs: Runs<'a>,
    literals: &'a [WireWord],
    /// Number of the word that `runs` or `literals` yields next.
    next_word: u32,
    /// Bits of the current literal word not yet handed out, and the number of its bit 0.
    word: u64,
    base: u32,
    /// Bits of the current run of ones not yet handed out.
    run: core::ops::Range<u64>,
}

impl<'a> Ones<'a> {
    pub(crate) fn new(runs: Runs<'a>) -> Self {
        Ones { runs, literals: &[], next_word: 0, word: 0, base: 0, run: 0..0 }
    }
}

impl Iterator for Ones<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if let Some(bit) = self.run.next() {
                return Some(bit as u32); // below bit_len, so below 2^32
            }
            if self.word != 0 {
                let bit = self.word.trailing_zeros();
                self.word &= self.word - 1;
                return Some(self.base + bit);
            }
            if let Some((first, rest)) = self.literals.split_first() {
                self.literals = rest;
                self.word = u64::from_be_bytes(*first);
                self.base = self.next_word * WORD_BITS;
                self.next_word += 1;
                continue;
            }
            match self.runs.next()? {
                Run::Fill { bit, words } => {
                    let start = u64::from(self.next_word);
                    // Parsing bounds the sum by 2^26 words.
                    self.next_word += words as u32;
                    if bit {
                        self.run = start * 64..(start + words) * 64;
                    }
                }
                Run::Literals(Literals(words)) => self.literals = words,
            }
        }
    }
}

impl FusedIterator for Ones<'_> {}
