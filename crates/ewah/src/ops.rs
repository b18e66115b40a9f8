//! Set operations.
//!
//! Two compressed bitmaps give a third without being expanded: [`and`], [`or`], [`xor`] and [`andnot`] walk
//! both run by run, so that a run against a run is one step and a run against literals is at most a copy.
//!
//! A compressed bitmap can also be worked into dense words (bit 0 of the first word being bit 0):
//! [`Ewah::or_into`], [`Ewah::xor_into`], [`Ewah::and_into`], [`Ewah::andnot_into`]. A chain of XORed bitmaps is
//! best undone that way.

use crate::bitmap::{Ewah, EwahBuf};
use crate::builder::Builder;
use crate::error::TooShort;
use crate::iter::{Literals, Run, Runs};
use crate::word::fill;

/// The bits set in both; as long as the longer of the two.
pub fn and(a: Ewah<'_>, b: Ewah<'_>) -> EwahBuf {
    combine(a, b, |a, b| a & b)
}

/// The bits set in either; as long as the longer of the two.
pub fn or(a: Ewah<'_>, b: Ewah<'_>) -> EwahBuf {
    combine(a, b, |a, b| a | b)
}

/// The bits set in one and not in the other; as long as the longer of the two.
pub fn xor(a: Ewah<'_>, b: Ewah<'_>) -> EwahBuf {
    combine(a, b, |a, b| a ^ b)
}

/// The bits set in `a` and not in `b`; as long as the longer of the two.
pub fn andnot(a: Ewah<'_>, b: Ewah<'_>) -> EwahBuf {
    combine(a, b, |a, b| a & !b)
}

/// One side of a merge: the piece at hand, of which any number of words can be taken.
struct Cursor<'a> {
    runs: Runs<'a>,
    now: Option<Run<'a>>,
}

impl<'a> Cursor<'a> {
    fn new(from: Ewah<'a>) -> Self {
        let mut runs = from.runs();
        let now = runs.next();
        Cursor { runs, now }
    }

    /// Words at hand in one piece; endless zeros after the end.
    fn left(&self) -> u64 {
        self.now.map_or(u64::MAX, |run| run.word_len())
    }

    /// Takes `n` words, at most [`left`](Cursor::left).
    fn take(&mut self, n: u64) -> Run<'a> {
        let (taken, rest) = match self.now {
            None => {
                return Run::Fill { bit: false, words: n };
            }
            Some(Run::Fill { bit, words }) => {
                let words_left = words.saturating_sub(n);
                let rest = (words_left > 0).then_some(Run::Fill { bit, words: words_left });
                (Run::Fill { bit, words: n }, rest)
            }
            Some(Run::Literals(Literals(words))) => {
                let (head, tail) = words.split_at((n as usize).min(words.len()));
                (Run::Literals(Literals(head)), (!tail.is_empty()).then_some(Run::Literals(Literals(tail))))
            }
        };
        self.now = rest.or_else(|| self.runs.next());
        taken
    }
}

fn combine(a: Ewah<'_>, b: Ewah<'_>, op: impl Fn(u64, u64) -> u64) -> EwahBuf {
    let bit_len = a.bit_len.max(b.bit_len);
    let (mut a, mut b) = (Cursor::new(a), Cursor::new(b));
    let mut out = Builder::new();
    while a.now.is_some() || b.now.is_some() {
        let n = a.left().min(b.left());
        match (a.take(n), b.take(n)) {
            (Run::Fill { bit: x, .. }, Run::Fill { bit: y, .. }) => {
                // One step, however long; and at most 2^26 words, so the cast keeps all.
                out.append_run(op(fill(x), fill(y)) != 0, n as u32);
            }
            (Run::Fill { bit, .. }, Run::Literals(words)) => {
                against_run(&mut out, words, |w| op(fill(bit), w));
            }
            (Run::Literals(words), Run::Fill { bit, .. }) => {
                against_run(&mut out, words, |w| op(w, fill(bit)));
            }
            (Run::Literals(x), Run::Literals(y)) => {
                for (x, y) in x.iter().zip(y.iter()) {
                    out.append_word(op(x, y));
                }
            }
        }
    }
    out.finish_at(bit_len)
}

/// Literals against one repeated word: what the operation makes of 0 and of all ones says which of constant,
/// copy or complement it is.
fn against_run(out: &mut Builder, words: Literals<'_>, op: impl Fn(u64) -> u64) {
    match (op(0), op(u64::MAX)) {
        (0, 0) => out.append_run(false, words.len() as u32),
        (u64::MAX, u64::MAX) => out.append_run(true, words.len() as u32),
        (0, u64::MAX) => out.append_wire(words),
        _ => {
            for word in words.iter() {
                out.append_word(op(word));
            }
        }
    }
}

impl Ewah<'_> {
    /// Sets in `out` every bit that is set here.
    ///
    /// Costs one step per run, a fill of the words under each run of ones, and one pass over the literals.
    ///
    /// # Errors
    /// [`TooShort`] when `out` has fewer than [`covered_words`](Ewah::covered_words).
    pub fn or_into(&self, out: &mut [u64]) -> Result<(), TooShort> {
        self.apply(
            out,
            |bit, words| {
                if bit {
                    words.fill(u64::MAX);
                }
            },
            |to, from| *to |= from,
        )
        .map(drop)
    }

    /// Flips in `out` every bit that is set here.
    ///
    /// # Errors
    /// [`TooShort`] when `out` has fewer than [`covered_words`](Ewah::covered_words).
    pub fn xor_into(&self, out: &mut [u64]) -> Result<(), TooShort> {
        self.apply(
            out,
            |bit, words| {
                if bit {
                    words.iter_mut().for_each(|w| *w = !*w);
                }
            },
            |to, from| *to ^= from,
        )
        .map(drop)
    }

    /// Clears in `out` every bit that is set here.
    ///
    /// # Errors
    /// [`TooShort`] when `out` has fewer than [`covered_words`](Ewah::covered_words).
    pub fn andnot_into(&self, out: &mut [u64]) -> Result<(), TooShort> {
        self.apply(
            out,
            |bit, words| {
                if bit {
                    words.fill(0);
                }
            },
            |to, from| *to &= !from,
        )
        .map(drop)
    }

    /// Clears in `out` every bit that is not set here, beyond this bitmap's end too.
    ///
    /// # Errors
    /// [`TooShort`] when `out` has fewer than [`covered_words`](Ewah::covered_words).
    pub fn and_into(&self, out: &mut [u64]) -> Result<(), TooShort> {
        let rest = self.apply(
            out,
            |bit, words| {
                if !bit {
                    words.fill(0);
                }
            },
            |to, from| *to &= from,
        )?;
        rest.fill(0);
        Ok(())
    }

    /// Walks `out` along the runs; gives back the words beyond the last.
    fn apply<'o>(
        &self,
        out: &'o mut [u64],
        on_fill: impl Fn(bool, &mut [u64]),
        on_literal: impl Fn(&mut u64, u64),
    ) -> Result<&'o mut [u64], TooShort> {
        let short = TooShort { need: self.covered_words(), have: out.len() };
        if short.have < short.need {
            return Err(short);
        }
        let mut rest = out;
        for run in self.runs() {
            let (here, tail) = rest.split_at_mut_checked(run.word_len() as usize).ok_or(short)?;
            rest = tail;
            match run {
                Run::Fill { bit, .. } => on_fill(bit, here),
                Run::Literals(Literals(words)) => {
                    for (to, from) in here.iter_mut().zip(words) {
                        on_literal(to, u64::from_be_bytes(*from));
                    }
                }
            }
        }
        Ok(rest)
    }
}
