//! The oracle: a set of bit numbers and a length, and an encoder of chunks that takes any liberty the format
//! allows (empty markers, runs split in two, all-zero literals) where ours would not.

use std::collections::BTreeSet;

use packstone_ewah::EwahBuf;
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) bits: BTreeSet<u32>,
    pub(crate) len: u32,
}

impl Model {
    pub(crate) fn words(&self) -> Vec<u64> {
        let mut out = vec![0; self.len.div_ceil(64) as usize];
        for &bit in &self.bits {
            out[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        out
    }

    pub(crate) fn build(&self) -> EwahBuf {
        let mut b = EwahBuf::builder();
        for &bit in &self.bits {
            b.set(bit).unwrap();
        }
        b.finish_with_bits(self.len).unwrap()
    }
}

/// One chunk as another encoder might write it.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) bit: bool,
    pub(crate) run: u32,
    pub(crate) literals: Vec<u64>,
}

/// The wire form of chunks, written independently of the crate.
pub(crate) fn encode(chunks: &[Chunk], bit_len: u32) -> Vec<u8> {
    let mut words = Vec::new();
    let mut last = 0;
    for c in chunks {
        last = words.len();
        words.push(u64::from(c.bit) | u64::from(c.run) << 1 | (c.literals.len() as u64) << 33);
        words.extend(&c.literals);
    }
    let mut out = bit_len.to_be_bytes().to_vec();
    out.extend((words.len() as u32).to_be_bytes());
    out.extend(words.iter().flat_map(|w| w.to_be_bytes()));
    out.extend((last as u32).to_be_bytes());
    out
}

/// What the chunks mean, bit by bit.
pub(crate) fn decode(chunks: &[Chunk], bit_len: u32) -> Model {
    let mut bits = BTreeSet::new();
    let mut word = 0u32;
    for c in chunks {
        if c.bit {
            bits.extend(word * 64..(word + c.run) * 64);
        }
        word += c.run;
        for l in &c.literals {
            bits.extend((0..64).filter(|i| l >> i & 1 == 1).map(|i| word * 64 + i));
            word += 1;
        }
    }
    Model { bits, len: bit_len }
}

fn literal() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => any::<u64>(),
        1 => Just(0),
        1 => Just(u64::MAX),
        1 => Just(1),
        1 => Just(1 << 63),
        1 => (0u32..64, 0u32..64).prop_map(|(a, b)| 1 << a | 1 << b),
    ]
}

pub(crate) fn chunks() -> impl Strategy<Value = Vec<Chunk>> {
    let run = prop_oneof![3 => 0u32..4, 1 => 0u32..1100];
    let chunk = (any::<bool>(), run, prop::collection::vec(literal(), 0..5));
    prop::collection::vec(chunk.prop_map(|(bit, run, literals)| Chunk { bit, run, literals }), 0..8)
}

/// Chunks and a length that holds them: their words, and sometimes more.
pub(crate) fn encoded() -> impl Strategy<Value = (Vec<Chunk>, u32)> {
    (chunks(), prop_oneof![Just(0u32), 0u32..200]).prop_map(|(chunks, more)| {
        let words: u32 = chunks.iter().map(|c| c.run + c.literals.len() as u32).sum();
        (chunks, words * 64 + more)
    })
}

/// Sets with runs in them, and a length.
pub(crate) fn model() -> impl Strategy<Value = Model> {
    let spans = prop::collection::vec((0u32..400, prop_oneof![0u32..3, 60u32..70, 0u32..70_000]), 0..12);
    (spans, 0u32..200).prop_map(|(spans, more)| {
        let (mut bits, mut at) = (BTreeSet::new(), 0);
        for (gap, len) in spans {
            at += gap;
            bits.extend(at..at + len);
            at += len;
        }
        let len = bits.last().map_or(0, |b| b + 1) + more;
        Model { bits, len }
    })
}
