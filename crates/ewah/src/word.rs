//! Marker words and words as they lie on the wire.
//!
//! A stream of EWAH words is a row of chunks. Each chunk opens with one *marker* word (git's documents call
//! it RLW, "run length word") and goes on with as many *literal* words as the marker says.
//!
//! | bits of a marker | width | meaning |
//! |---|---|---|
//! | 0 | 1 | the bit that the run repeats |
//! | 1..=32 | 32 | length of the run, in words of 64 bits |
//! | 33..=63 | 31 | how many literal words follow the marker |
//!
//! Source: git's `Documentation/technical/bitmap-format.adoc`, "Appendix A: Serialization format for an EWAH
//! bitmap", git 1a3e64c6c. Bit 0 is the least significant bit, in markers as in literals.

/// Bits in one word.
pub(crate) const WORD_BITS: u32 = 64;

/// One encoded word: eight bytes, most significant first, as the wire has them.
///
/// Bitmaps keep this form in memory too: a borrowed bitmap then needs no copy, an owned one is written with a
/// plain copy, and turning a word round costs less than fetching it.
pub(crate) type WireWord = [u8; 8];

/// A marker word, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) bit: bool,
    /// Words in the run.
    pub(crate) run: u32,
    /// Literal words after the marker; below 2^31.
    pub(crate) literals: u32,
}

impl Marker {
    pub(crate) fn from_wire(word: WireWord) -> Self {
        let word = u64::from_be_bytes(word);
        // The casts cut on purpose: each field is masked to its width by them.
        Marker { bit: word & 1 == 1, run: (word >> 1) as u32, literals: (word >> 33) as u32 }
    }

    pub(crate) fn to_wire(self) -> WireWord {
        debug_assert!(self.literals < 1 << 31);
        (u64::from(self.bit) | u64::from(self.run) << 1 | u64::from(self.literals) << 33).to_be_bytes()
    }
}

/// How many words `bits` bits take.
pub(crate) fn words_for(bits: u32) -> u32 {
    bits.div_ceil(WORD_BITS)
}

/// The word that a run repeats.
pub(crate) fn fill(bit: bool) -> u64 {
    if bit { u64::MAX } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_fields_lie_where_the_table_says() {
        let bits = |m: Marker| u64::from_be_bytes(m.to_wire());
        assert_eq!(bits(Marker { bit: true, run: 0, literals: 0 }), 1);
        assert_eq!(bits(Marker { bit: false, run: u32::MAX, literals: 0 }), 0x1_ffff_fffe);
        assert_eq!(bits(Marker { bit: false, run: 0, literals: (1 << 31) - 1 }), 0xffff_fffe_0000_0000);
        for m in [
            Marker { bit: true, run: 7, literals: 9 },
            Marker { bit: false, run: u32::MAX, literals: (1 << 31) - 1 },
            Marker::default(),
        ] {
            assert_eq!(Marker::from_wire(m.to_wire()), m);
        }
    }

    #[test]
    fn words_round_up() {
        assert_eq!(words_for(0), 0);
        assert_eq!(words_for(1), 1);
        assert_eq!(words_for(64), 1);
        assert_eq!(words_for(65), 2);
        assert_eq!(words_for(u32::MAX), 1 << 26);
    }
}
