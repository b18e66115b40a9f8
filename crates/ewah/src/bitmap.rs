//! The two bitmaps: [`Ewah`] borrows encoded words, [`EwahBuf`] owns them.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::builder::Builder;
use crate::error::BuildError;
use crate::iter::{Ones, Run, Runs, Words};
use crate::word::{WireWord, words_for};

/// A compressed bitmap whose words lie elsewhere, as a rule in a mapped file.
///
/// Three words in size, cheap to copy. However it was made, its runs and literals cover no more words than
/// [`bit_len`](Ewah::bit_len) takes, and no bit at or beyond that length is set; so no accessor can fail.
#[derive(Clone, Copy)]
pub struct Ewah<'a> {
    pub(crate) words: &'a [WireWord],
    pub(crate) bit_len: u32,
    /// Words covered by runs and literals; words between here and `bit_len` are zero.
    pub(crate) covered: u32,
}

impl<'a> Ewah<'a> {
    /// Length in bits. Bits from the last encoded word up to this length are zero.
    pub fn bit_len(&self) -> u64 {
        u64::from(self.bit_len)
    }

    /// Length in words of 64 bits, the last one perhaps in part.
    pub fn word_len(&self) -> usize {
        words_for(self.bit_len) as usize
    }

    /// Words that the encoding covers; those from here to [`word_len`](Ewah::word_len) are zero. Dense slices
    /// handed to [`or_into`](Ewah::or_into) and its siblings must be at least this long.
    pub fn covered_words(&self) -> usize {
        self.covered as usize
    }

    /// Words that the compressed form takes, markers included.
    pub fn compressed_words(&self) -> usize {
        self.words.len()
    }

    /// Runs and stretches of literals, in order, none of them empty. A run of any length is one step.
    pub fn runs(&self) -> Runs<'a> {
        Runs::new(self.words)
    }

    /// All [`word_len`](Ewah::word_len) words, expanded.
    pub fn words(&self) -> Words<'a> {
        Words::new(self.runs(), self.word_len())
    }

    /// The numbers of the bits that are set, ascending.
    pub fn ones(&self) -> Ones<'a> {
        Ones::new(self.runs())
    }

    /// How many bits are set. Costs one step per run and one per literal word.
    pub fn count_ones(&self) -> u64 {
        self.runs()
            .map(|run| match run {
                Run::Fill { bit: true, words } => words * 64,
                Run::Fill { bit: false, .. } => 0,
                Run::Literals(words) => words.iter().map(|w| u64::from(w.count_ones())).sum(),
            })
            .sum()
    }

    /// Whether `bit` is set. Costs one step per run before it; for many questions use
    /// [`or_into`](Ewah::or_into) or [`to_roaring`](Ewah::to_roaring) once.
    pub fn contains(&self, bit: u32) -> bool {
        let mut word = u64::from(bit / 64);
        for run in self.runs() {
            let len = run.word_len();
            if word < len {
                return match run {
                    Run::Fill { bit, .. } => bit,
                    Run::Literals(words) => words.get(word as usize).is_some_and(|w| w >> (bit % 64) & 1 == 1),
                };
            }
            word -= len;
        }
        false
    }

    /// A copy that owns its words, bit for bit the same encoding.
    pub fn to_owned(&self) -> EwahBuf {
        if self.words.is_empty() {
            return EwahBuf { bit_len: self.bit_len, ..EwahBuf::default() };
        }
        let last_marker = self.runs().last_marker();
        EwahBuf { words: self.words.to_vec(), bit_len: self.bit_len, covered: self.covered, last_marker }
    }
}

/// Equal when the lengths are and the same bits are set, whatever the encoding.
impl PartialEq for Ewah<'_> {
    fn eq(&self, other: &Ewah<'_>) -> bool {
        self.bit_len == other.bit_len
            && (self.words == other.words || crate::ops::xor(*self, *other).as_ewah().is_all_zero())
    }
}

impl Eq for Ewah<'_> {}

impl Ewah<'_> {
    fn is_all_zero(&self) -> bool {
        self.runs().all(|run| match run {
            Run::Fill { bit, .. } => !bit,
            Run::Literals(words) => words.iter().all(|w| w == 0),
        })
    }
}

impl fmt::Debug for Ewah<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct List<'a>(Runs<'a>);
        impl fmt::Debug for List<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.0.clone()).finish()
            }
        }
        f.debug_struct("Ewah").field("bit_len", &self.bit_len).field("runs", &List(self.runs())).finish()
    }
}

/// A compressed bitmap that owns its words; [`Builder`] makes it.
#[derive(Clone)]
pub struct EwahBuf {
    /// Never empty: an empty bitmap has one marker of nothing, as git writes it.
    pub(crate) words: Vec<WireWord>,
    pub(crate) bit_len: u32,
    pub(crate) covered: u32,
    /// Index in `words` of the last marker; the wire form ends with it.
    pub(crate) last_marker: u32,
}

impl EwahBuf {
    /// An empty bitmap of no bits.
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder to append to.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Compresses dense words, bit 0 of the first word being bit 0. Words after the last one that is not zero
    /// are left out of the encoding; the length is `bits` all the same.
    ///
    /// # Errors
    /// [`BuildError::BitsTooFew`] when a bit at or beyond `bits` is set, [`BuildError::TooLong`] beyond 2^32 - 1.
    pub fn from_words(words: &[u64], bits: u32) -> Result<EwahBuf, BuildError> {
        let used = words.len() - words.iter().rev().take_while(|w| **w == 0).count();
        let mut out = Builder::new();
        let Some((&last, head)) = words.get(..used).and_then(<[u64]>::split_last) else {
            return out.finish_with_bits(bits);
        };
        for &word in head {
            out.push_word(word)?;
        }
        // Bit by bit only here, so that the length is that of the last bit and `bits` may cut the last word.
        let base = u32::try_from(head.len() as u64 * 64).map_err(|_| BuildError::TooLong)?;
        out.push_last_word(base, last)?;
        out.finish_with_bits(bits)
    }

    /// The bitmap, borrowed; it has all the reading methods.
    pub fn as_ewah(&self) -> Ewah<'_> {
        Ewah { words: &self.words, bit_len: self.bit_len, covered: self.covered }
    }
}

impl Default for EwahBuf {
    fn default() -> Self {
        EwahBuf { words: vec![[0; 8]], bit_len: 0, covered: 0, last_marker: 0 }
    }
}

/// Equal when the lengths are and the same bits are set, whatever the encoding.
impl PartialEq for EwahBuf {
    fn eq(&self, other: &EwahBuf) -> bool {
        self.as_ewah() == other.as_ewah()
    }
}

impl Eq for EwahBuf {}

impl fmt::Debug for EwahBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ewah().fmt(f)
    }
}
