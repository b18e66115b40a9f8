//! The wire form.
//!
//! | offset | width | unit | meaning | valid when |
//! |---|---|---|---|---|
//! | 0 | 4 | bits | length of the bitmap, expanded | runs and literals do not reach beyond it |
//! | 4 | 4 | words | `n`, length of the compressed words | 12 + 8 `n` bytes are there |
//! | 8 | 8 `n` | | compressed words: markers and literals (layout in `word.rs`) | literals announced by a marker are there |
//! | 8 + 8 `n` | 4 | words | index of the last marker, zero-based, within the compressed words | below `n`, or both zero |
//!
//! All numbers are unsigned, most significant byte first. Source: git's
//! `Documentation/technical/bitmap-format.adoc`, "Appendix A", git 1a3e64c6c.
//!
//! The index of the last marker only serves programs that go on appending; git does not look at it when it
//! reads. An index outside the words is refused as a sign of damage; one that points at another word is let
//! through, and is never used here.

use alloc::vec::Vec;

use crate::bitmap::{Ewah, EwahBuf};
use crate::error::{ParseError, ParseErrorKind};
use crate::iter::{Literals, Run};
use crate::word::{Marker, words_for};

/// Bytes before the compressed words.
const HEAD: usize = 8;
/// Bytes after them.
const TAIL: usize = 4;

impl<'a> Ewah<'a> {
    /// Reads a bitmap from the start of `bytes`; says how many bytes it takes.
    ///
    /// Everything is checked here, at a cost of one step per marker: lengths, and that no bit is set at or beyond
    /// the bitmap's own length. Literal words are not touched, nothing is allocated.
    ///
    /// # Errors
    /// [`ParseError`] with the offset of the first field that cannot be.
    pub fn parse(bytes: &'a [u8]) -> Result<(Ewah<'a>, usize), ParseError> {
        Self::parse_within(bytes, u64::from(u32::MAX))
    }

    /// As [`parse`](Ewah::parse), for a bitmap over `max_bits` things: a bit set at or beyond `max_bits` is an
    /// error. The stored length may be `max_bits` rounded up to a whole word, since encoders count by words.
    ///
    /// # Errors
    /// [`ParseError`] with the offset of the first field that cannot be.
    pub fn parse_within(bytes: &'a [u8], max_bits: u64) -> Result<(Ewah<'a>, usize), ParseError> {
        let err = |at: usize, kind| Err(ParseError { at: at as u64, kind });
        let bit_len = read_u32(bytes, 0, "bit count")?;
        let count = read_u32(bytes, 4, "word count")?;
        let limit = max_bits.div_ceil(64).saturating_mul(64);
        if u64::from(bit_len) > limit {
            return err(0, ParseErrorKind::TooManyBits { bits: bit_len.into(), limit });
        }
        let body = bytes.get(HEAD..).unwrap_or(&[]);
        let need = u64::from(count) * 8;
        let Some(body) = usize::try_from(need).ok().and_then(|n| body.get(..n)) else {
            let have = body.len() as u64;
            return err(HEAD, ParseErrorKind::Truncated { what: "words", need, have });
        };
        let (words, _) = body.as_chunks::<8>();
        let after = HEAD + body.len();
        let index = read_u32(bytes, after, "index of the last marker")?;
        if index >= count.max(1) {
            return err(after, ParseErrorKind::MarkerIndex { index, words: count });
        }

        let end = u64::from(bit_len).min(max_bits);
        let allowed = u64::from(words_for(bit_len));
        let (mut at, mut covered) = (0usize, 0u64);
        while let Some(word) = words.get(at) {
            let marker = Marker::from_wire(*word);
            let left = (words.len() - at - 1) as u64;
            if u64::from(marker.literals) > left {
                let need = marker.literals.into();
                return err(HEAD + 8 * at, ParseErrorKind::LiteralsBeyondEnd { need, have: left });
            }
            covered += u64::from(marker.run);
            if marker.bit && marker.run > 0 && covered * 64 > end {
                return err(HEAD + 8 * at, ParseErrorKind::BitBeyondEnd { end });
            }
            covered += u64::from(marker.literals);
            if covered > allowed {
                let kind = ParseErrorKind::WordsBeyondBits { words: covered, limit: allowed };
                return err(HEAD + 8 * at, kind);
            }
            at += 1 + marker.literals as usize;
            if marker.literals > 0 && covered * 64 > end {
                // At most the last word can straddle the end: `allowed` words are `end` rounded up, or less.
                let last = words.get(at - 1).map_or(0, |w| u64::from_be_bytes(*w));
                let beyond = covered * 64 - end;
                if beyond >= 64 || last.leading_zeros() < beyond as u32 {
                    return err(HEAD + 8 * (at - 1), ParseErrorKind::BitBeyondEnd { end });
                }
            }
        }
        // `covered` is at most `allowed`, which came from 32 bits.
        Ok((Ewah { words, bit_len, covered: covered as u32 }, after + TAIL))
    }

    /// Number of bytes of the wire form.
    pub fn encoded_len(&self) -> usize {
        HEAD + 8 * self.compressed_words() + TAIL
    }
}

impl EwahBuf {
    /// Appends the wire form to `out`, [`Ewah::encoded_len`] bytes. The same bitmap gives the same bytes always.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.as_ewah().encoded_len());
        out.extend_from_slice(&self.bit_len.to_be_bytes());
        out.extend_from_slice(&(self.words.len() as u32).to_be_bytes());
        out.extend_from_slice(self.words.as_flattened());
        out.extend_from_slice(&self.last_marker.to_be_bytes());
    }

    /// Writes the wire form; [`Ewah::encoded_len`] bytes in four calls, so give a buffered writer.
    ///
    /// # Errors
    /// Those of the writer.
    #[cfg(feature = "std")]
    pub fn write<W: std::io::Write>(&self, mut out: W) -> std::io::Result<()> {
        out.write_all(&self.bit_len.to_be_bytes())?;
        out.write_all(&(self.words.len() as u32).to_be_bytes())?;
        out.write_all(self.words.as_flattened())?;
        out.write_all(&self.last_marker.to_be_bytes())
    }
}

/// Makes the encoding the shortest one, as [`Builder`](crate::Builder) would have built it.
impl From<Ewah<'_>> for EwahBuf {
    fn from(from: Ewah<'_>) -> EwahBuf {
        let mut out = crate::Builder::new();
        for run in from.runs() {
            match run {
                Run::Fill { bit, words } => out.append_run(bit, words as u32),
                Run::Literals(Literals(words)) => out.append_wire(Literals(words)),
            }
        }
        out.finish_at(from.bit_len)
    }
}

fn read_u32(bytes: &[u8], at: usize, what: &'static str) -> Result<u32, ParseError> {
    match bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) {
        Some(field) => Ok(u32::from_be_bytes(*field)),
        None => {
            let have = bytes.len().saturating_sub(at) as u64;
            Err(ParseError { at: at as u64, kind: ParseErrorKind::Truncated { what, need: 4, have } })
        }
    }
}
