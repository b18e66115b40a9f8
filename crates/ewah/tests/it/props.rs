//! Everything the crate says about a bitmap equals what the naive model says.

use packstone_ewah::{BuildError, Ewah, EwahBuf, Run, ops};
use proptest::prelude::*;
use roaring::RoaringBitmap;

use crate::model::{Model, decode, encode, encoded, model};

fn check(e: Ewah<'_>, m: &Model) {
    assert_eq!(e.bit_len(), u64::from(m.len));
    assert!(e.ones().eq(m.bits.iter().copied()));
    assert_eq!(e.count_ones(), m.bits.len() as u64);
    let words = m.words();
    assert_eq!(e.word_len(), words.len());
    assert!(e.words().eq(words.iter().copied()));
    assert_eq!(e.words().len(), words.len());

    // Runs: none empty, together `covered_words`, the rest zero.
    let mut dense = Vec::new();
    for run in e.runs() {
        assert!(run.word_len() > 0);
        match run {
            Run::Fill { bit, words } => dense.extend((0..words).map(|_| if bit { u64::MAX } else { 0 })),
            Run::Literals(l) => dense.extend(l.iter()),
        }
    }
    assert_eq!(dense.len(), e.covered_words());
    dense.resize(words.len(), 0);
    assert_eq!(dense, words);

    let rb: RoaringBitmap = m.bits.iter().copied().collect();
    assert_eq!(e.to_roaring(), rb);
    e.to_roaring().internal_validate().unwrap();
    for bit in [0, 1, 63, 64, m.len / 2, m.len.saturating_sub(1), m.len, m.len + 64, u32::MAX] {
        assert_eq!(e.contains(bit), m.bits.contains(&bit), "{bit}");
    }
}

fn bytes(b: &EwahBuf) -> Vec<u8> {
    let mut out = Vec::new();
    b.append_to(&mut out);
    let mut written = Vec::new();
    b.write(&mut written).unwrap();
    assert_eq!(out, written);
    assert_eq!(out.len(), b.as_ewah().encoded_len());
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn any_legal_encoding_reads_as_the_model((chunks, len) in encoded(), junk in prop::collection::vec(any::<u8>(), 0..9)) {
        let m = decode(&chunks, len);
        let mut wire = encode(&chunks, len);
        let exact = wire.len();
        wire.extend(junk);
        let (e, used) = Ewah::parse(&wire).unwrap();
        prop_assert_eq!(used, exact);
        check(e, &m);

        // Copying keeps the encoding, normalising gives the one that the builder gives.
        if !chunks.is_empty() {
            prop_assert_eq!(bytes(&e.to_owned()), &wire[..exact]);
        }
        let normal = EwahBuf::from(e);
        check(normal.as_ewah(), &m);
        prop_assert_eq!(normal.as_ewah(), e);
    }

    #[test]
    fn bounds_are_exact((chunks, len) in encoded(), cut in 0u32..130) {
        // Any bound from the last bit on is good as long as the stored length fits it in words.
        let m = decode(&chunks, len);
        let wire = encode(&chunks, len);
        let max = len.saturating_sub(cut);
        let last = m.bits.last().map_or(0, |b| b + 1);
        let ok = last <= max && len <= max.next_multiple_of(64);
        prop_assert_eq!(Ewah::parse_within(&wire, max.into()).is_ok(), ok);
        // A stored length that cuts into the last word, or lower.
        let words: u32 = chunks.iter().map(|c| c.run + c.literals.len() as u32).sum();
        let short = encode(&chunks, max);
        prop_assert_eq!(Ewah::parse(&short).is_ok(), last <= max && words <= max.div_ceil(64));
    }

    #[test]
    fn all_ways_to_build_agree(m in model()) {
        let by_bit = m.build();
        check(by_bit.as_ewah(), &m);
        let by_word = EwahBuf::from_words(&m.words(), m.len).unwrap();
        let rb: RoaringBitmap = m.bits.iter().copied().collect();
        let by_range = EwahBuf::from_roaring(&rb, m.len).unwrap();
        prop_assert_eq!(bytes(&by_bit), bytes(&by_word));
        prop_assert_eq!(bytes(&by_bit), bytes(&by_range));
        prop_assert_eq!(bytes(&by_bit), bytes(&EwahBuf::from(by_bit.as_ewah())));

        let mut b = EwahBuf::builder();
        for run in by_bit.as_ewah().runs() {
            b.push(run).unwrap();
        }
        prop_assert_eq!(bytes(&b.finish_with_bits(m.len).unwrap()), bytes(&by_bit));
        let mut b = EwahBuf::builder();
        b.push_literals(&m.words()).unwrap();
        let whole = b.finish_with_bits(m.len).unwrap();
        check(whole.as_ewah(), &m);

        if let Some(last) = m.bits.last() {
            let need = last + 1;
            prop_assert_eq!(EwahBuf::from_roaring(&rb, need - 1), Err(BuildError::BitsTooFew { bits: need - 1, need }));
            prop_assert_eq!(EwahBuf::from_words(&m.words(), need - 1), Err(BuildError::BitsTooFew { bits: need - 1, need }));
            prop_assert!(EwahBuf::from_words(&m.words(), need).is_ok());
        }
        let wire = bytes(&by_bit);
        let (back, used) = Ewah::parse_within(&wire, m.len.into()).unwrap();
        prop_assert_eq!(used, wire.len());
        prop_assert_eq!(back, by_bit.as_ewah());
    }

    #[test]
    fn operations_are_those_of_sets(a in encoded(), b in encoded()) {
        let (wa, wb) = (encode(&a.0, a.1), encode(&b.0, b.1));
        let (ea, eb) = (Ewah::parse(&wa).unwrap().0, Ewah::parse(&wb).unwrap().0);
        let (ma, mb) = (decode(&a.0, a.1), decode(&b.0, b.1));
        let len = ma.len.max(mb.len);
        type Op = (fn(Ewah<'_>, Ewah<'_>) -> EwahBuf, fn(&Ewah<'_>, &mut [u64]) -> Result<(), packstone_ewah::TooShort>);
        let table: [(Op, Model); 4] = [
            ((ops::and, |e, out| e.and_into(out)), Model { bits: &ma.bits & &mb.bits, len }),
            ((ops::or, |e, out| e.or_into(out)), Model { bits: &ma.bits | &mb.bits, len }),
            ((ops::xor, |e, out| e.xor_into(out)), Model { bits: &ma.bits ^ &mb.bits, len }),
            ((ops::andnot, |e, out| e.andnot_into(out)), Model { bits: &ma.bits - &mb.bits, len }),
        ];
        for ((streamed, into), want) in &table {
            let got = streamed(ea, eb);
            check(got.as_ewah(), want);
            // What comes out is already in shortest form.
            prop_assert_eq!(bytes(&got), bytes(&EwahBuf::from(got.as_ewah())));
            let mut dense = ma.words();
            dense.resize(want.words().len() + 1, 0);
            into(&eb, &mut dense).unwrap();
            let mut want = want.words();
            want.push(0);
            prop_assert_eq!(dense, want);
        }
        prop_assert_eq!(ea == eb, ma == mb);
    }

    #[test]
    fn short_output_is_refused_and_left_alone(a in encoded(), fill in any::<u64>()) {
        let wire = encode(&a.0, a.1);
        let e = Ewah::parse(&wire).unwrap().0;
        let Some(short) = e.covered_words().checked_sub(1) else { return Ok(()) };
        for into in [Ewah::and_into, Ewah::or_into, Ewah::xor_into, Ewah::andnot_into] {
            let mut dense = vec![fill; short];
            let err = into(&e, &mut dense).unwrap_err();
            prop_assert_eq!((err.need, err.have), (short + 1, short));
            prop_assert!(dense.iter().all(|w| *w == fill));
        }
    }

    #[test]
    fn mixing_bits_words_and_runs(steps in prop::collection::vec((0u8..4, 0u32..200, any::<u64>()), 0..40)) {
        let (mut b, mut m) = (EwahBuf::builder(), Model { bits: Default::default(), len: 0 });
        for (kind, n, word) in steps {
            let start = m.len.next_multiple_of(64);
            match kind {
                0 => {
                    b.set(m.len + n).unwrap();
                    m.bits.insert(m.len + n);
                    m.len += n + 1;
                }
                1 => {
                    let last = m.len + n + (word % 300) as u32;
                    b.set_range(m.len + n, last).unwrap();
                    m.bits.extend(m.len + n..=last);
                    m.len = last + 1;
                }
                2 => {
                    b.push_word(word).unwrap();
                    m.bits.extend((0..64).filter(|i| word >> i & 1 == 1).map(|i| start + i));
                    m.len = start + 64;
                }
                _ => {
                    let words = n % 5;
                    b.push_run(word % 2 == 1, words.into()).unwrap();
                    if word % 2 == 1 {
                        m.bits.extend(start..start + words * 64);
                    }
                    m.len = start + words * 64;
                }
            }
            prop_assert_eq!(b.bit_len(), u64::from(m.len));
        }
        check(b.finish().as_ewah(), &m);
    }
}

#[test]
fn the_ends_of_the_number_range() {
    let mut b = EwahBuf::builder();
    b.set(u32::MAX - 1).unwrap();
    assert_eq!(b.set(u32::MAX), Err(BuildError::TooLong));
    assert_eq!(b.push_word(0), Err(BuildError::TooLong));
    assert_eq!(b.set(5), Err(BuildError::OutOfOrder { bit: 5, next: u32::MAX }));
    let big = b.finish();
    assert_eq!(big.as_ewah().compressed_words(), 2);
    assert!(big.as_ewah().ones().eq([u32::MAX - 1]));
    assert!(big.as_ewah().to_roaring().iter().eq([u32::MAX - 1]));
    assert_eq!(EwahBuf::from_roaring(&big.as_ewah().to_roaring(), u32::MAX).unwrap(), big);
    assert!(EwahBuf::from_roaring(&RoaringBitmap::full(), u32::MAX).is_err());

    let mut b = EwahBuf::builder();
    assert_eq!(b.push_run(true, 1 << 26), Err(BuildError::TooLong));
    assert_eq!(b.push_run(true, u64::MAX), Err(BuildError::TooLong));
    b.push_run(true, (1 << 26) - 1).unwrap();
    let ones = b.finish_with_bits(u32::MAX).unwrap();
    assert_eq!(ones.as_ewah().count_ones(), (1 << 32) - 64);
    assert_eq!(ones.as_ewah().runs().count(), 1);
    // Per container, not per bit: this would take minutes otherwise.
    let rb = ones.as_ewah().to_roaring();
    assert_eq!(rb.len(), (1 << 32) - 64);
    assert_eq!(EwahBuf::from_roaring(&rb, u32::MAX).unwrap(), ones);
    assert_eq!(ops::xor(ones.as_ewah(), ones.as_ewah()).as_ewah().count_ones(), 0);
    assert_eq!(ops::or(ones.as_ewah(), big.as_ewah()).as_ewah().count_ones(), (1 << 32) - 63);
}
