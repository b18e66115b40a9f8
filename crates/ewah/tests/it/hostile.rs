//! Bytes that are no bitmap: the right error, at the right place, and nothing else.

use packstone_ewah::{Ewah, ParseErrorKind};

use crate::model::{Chunk, encode};

fn wire(bits: u32, words: &[u64], last: u32) -> Vec<u8> {
    let mut out = bits.to_be_bytes().to_vec();
    out.extend((words.len() as u32).to_be_bytes());
    out.extend(words.iter().flat_map(|w| w.to_be_bytes()));
    out.extend(last.to_be_bytes());
    out
}

fn marker(bit: bool, run: u64, literals: u64) -> u64 {
    u64::from(bit) | run << 1 | literals << 33
}

#[track_caller]
fn refuses(bytes: &[u8], max: u64, at: u64, kind: ParseErrorKind) {
    let err = Ewah::parse_within(bytes, max).unwrap_err();
    assert_eq!((err.at, err.kind), (at, kind));
    assert!(err.to_string().starts_with("ewah bitmap, byte "));
}

#[test]
fn every_cut_is_an_error() {
    let good = encode(
        &[Chunk { bit: true, run: 3, literals: vec![5, 6] }, Chunk { bit: false, run: 1, literals: vec![7] }],
        448,
    );
    assert!(Ewah::parse(&good).is_ok());
    for n in 0..good.len() {
        let err = Ewah::parse(&good[..n]).unwrap_err();
        assert!(matches!(err.kind, ParseErrorKind::Truncated { .. }), "{n}: {err}");
        assert!(err.at <= n as u64);
    }
}

#[test]
fn word_count_larger_than_the_file() {
    let mut bytes = wire(64, &[marker(false, 1, 0)], 0);
    bytes[4..8].copy_from_slice(&0x0fff_ffffu32.to_be_bytes());
    refuses(&bytes, 64, 8, ParseErrorKind::Truncated { what: "words", need: 0x7fff_fff8, have: 12 });
    bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    refuses(&bytes, 64, 8, ParseErrorKind::Truncated { what: "words", need: 0x7_ffff_fff8, have: 12 });
}

#[test]
fn more_bits_than_there_are_things() {
    let bytes = wire(u32::MAX, &[marker(false, 1, 0)], 0);
    refuses(&bytes, 12, 0, ParseErrorKind::TooManyBits { bits: u32::MAX.into(), limit: 64 });
    refuses(&wire(65, &[0], 0), 64, 0, ParseErrorKind::TooManyBits { bits: 65, limit: 64 });
    // Rounded to a word, it is what encoders write.
    assert!(Ewah::parse_within(&wire(64, &[marker(false, 0, 1), 0xfff], 0), 12).is_ok());
    assert!(Ewah::parse_within(&wire(0, &[0], 0), 0).is_ok());
    assert!(Ewah::parse_within(&wire(u32::MAX, &[0], 0), u64::MAX).is_ok());
}

#[test]
fn runs_that_would_take_for_ever() {
    let all_ones = wire(12, &[u64::MAX], 0);
    refuses(&all_ones, 12, 8, ParseErrorKind::LiteralsBeyondEnd { need: (1 << 31) - 1, have: 0 });
    let long = |bit| wire(12, &[marker(bit, u32::MAX.into(), 0)], 0);
    refuses(&long(true), 12, 8, ParseErrorKind::BitBeyondEnd { end: 12 });
    refuses(&long(false), 12, 8, ParseErrorKind::WordsBeyondBits { words: u32::MAX.into(), limit: 1 });
    // Many long runs must not add up past an integer's end.
    let many = wire(u32::MAX, &[marker(false, u32::MAX.into(), 0); 64], 0);
    refuses(&many, 1 << 32, 8, ParseErrorKind::WordsBeyondBits { words: u32::MAX.into(), limit: 1 << 26 });
}

#[test]
fn bits_beyond_the_end() {
    let max = 70;
    let end = ParseErrorKind::BitBeyondEnd { end: 70 };
    assert!(Ewah::parse_within(&wire(128, &[marker(true, 1, 1), 0x3f], 0), max).is_ok());
    refuses(&wire(128, &[marker(true, 1, 1), 0x7f], 0), max, 16, end);
    refuses(&wire(128, &[marker(true, 2, 0)], 0), max, 8, end);
    refuses(&wire(70, &[marker(true, 2, 0)], 0), 128, 8, end);
    refuses(&wire(70, &[marker(true, 0, 2), 1, 1 << 6], 0), u64::MAX, 24, end);
    // Zeros may pad the last word, not go on after it.
    assert!(Ewah::parse_within(&wire(70, &[marker(false, 2, 0)], 0), max).is_ok());
    let words = ParseErrorKind::WordsBeyondBits { words: 3, limit: 2 };
    refuses(&wire(70, &[marker(false, 3, 0)], 0), max, 8, words);
    refuses(&wire(70, &[marker(false, 1, 2), 1, 0], 0), max, 8, words);
    refuses(&wire(70, &[marker(false, 2, 0), marker(false, 0, 1), 0], 0), max, 16, words);
}

#[test]
fn cursor_of_the_writer() {
    let words = [marker(false, 1, 1), 9, marker(false, 0, 0)];
    for last in 0..3 {
        assert!(Ewah::parse(&wire(128, &words, last)).is_ok());
    }
    refuses(&wire(128, &words, 3), 128, 32, ParseErrorKind::MarkerIndex { index: 3, words: 3 });
    refuses(&wire(128, &words, u32::MAX), 128, 32, ParseErrorKind::MarkerIndex { index: u32::MAX, words: 3 });
    // No words at all is an empty bitmap; we write it with one marker, as git does.
    let none = wire(5, &[], 0);
    let (e, used) = Ewah::parse(&none).unwrap();
    assert_eq!((used, e.bit_len(), e.count_ones()), (12, 5, 0));
    let mut out = Vec::new();
    e.to_owned().append_to(&mut out);
    assert_eq!(out, wire(5, &[0], 0));
    refuses(&wire(5, &[], 1), 5, 8, ParseErrorKind::MarkerIndex { index: 1, words: 0 });
}

#[test]
fn literals_that_are_not_there() {
    refuses(
        &wire(1000, &[marker(false, 1, 3), 1, 2], 0),
        1000,
        8,
        ParseErrorKind::LiteralsBeyondEnd { need: 3, have: 2 },
    );
}
