//! Bodies of the fuzz targets. `tests/it/regressions.rs` runs them too, over `regressions/`.

use packstone_ewah::{Ewah, EwahBuf, Run, ops};

/// Dense words are compared only up to here, so that a run of four billion bits costs the fuzzer nothing.
const DENSE: u64 = 1 << 16;

/// Arbitrary bytes: parse, then call every accessor.
pub(crate) fn parse_ewah(data: &[u8]) {
    let Some((limit, bytes)) = data.split_first() else {
        return;
    };
    let within = Ewah::parse_within(bytes, u64::from(*limit) * 37);
    let Ok((e, used)) = Ewah::parse(bytes) else {
        assert!(within.is_err());
        return;
    };
    assert!(used <= bytes.len() && used == e.encoded_len());
    assert!(e.covered_words() <= e.word_len());
    let steps: u64 = e.runs().map(|r| r.word_len()).sum();
    assert_eq!(steps, e.covered_words() as u64);
    let count = e.count_ones();
    assert!(count <= e.bit_len());
    let rb = e.to_roaring();
    assert_eq!(rb.len(), count);
    rb.internal_validate().expect("roaring bitmap is sound");
    assert!(rb.max().is_none_or(|m| u64::from(m) < e.bit_len()));
    assert!(within.is_err() || rb.max().is_none_or(|m| u64::from(m) < u64::from(*limit) * 37));
    assert!(e.ones().take(1000).eq(rb.iter().take(1000)));
    let normal = EwahBuf::from(e);
    assert!(normal.as_ewah() == e);
    let mut out = Vec::new();
    normal.append_to(&mut out);
    assert!(out.len() <= used.max(20));
    let mut again = Vec::new();
    EwahBuf::from_roaring(&rb, e.bit_len() as u32).expect("fits").append_to(&mut again);
    // Only trailing zeros, which the set does not know of, may tell the two apart.
    let (back, _) = Ewah::parse(&again).expect("own bytes");
    assert!(back == e && again.len() <= out.len());
    if e.bit_len() <= DENSE {
        let words: Vec<u64> = e.words().collect();
        let mut dense = vec![0; e.word_len()];
        e.or_into(&mut dense).expect("long enough");
        assert_eq!(words, dense);
    }
}

/// Two bitmaps made of pieces, their operations against dense words.
pub(crate) fn ops_ewah(data: &[u8]) {
    let (a, b) = data.split_at(data.len() / 2);
    let (a, b) = (pieces(a), pieces(b));
    let (x, y) = (a.as_ewah(), b.as_ewah());
    let len = x.word_len().max(y.word_len());
    let dense = |e: Ewah<'_>| {
        let mut words: Vec<u64> = e.words().collect();
        words.resize(len, 0);
        words
    };
    type Op = fn(Ewah<'_>, Ewah<'_>) -> EwahBuf;
    type OnWords = fn(u64, u64) -> u64;
    let table: [(Op, OnWords); 4] =
        [(ops::and, |a, b| a & b), (ops::or, |a, b| a | b), (ops::xor, |a, b| a ^ b), (ops::andnot, |a, b| a & !b)];
    for (streamed, word) in table {
        let got = streamed(x, y);
        let want: Vec<u64> = dense(x).iter().zip(dense(y)).map(|(a, b)| word(*a, b)).collect();
        assert!(got.as_ewah().words().eq(want));
        let mut bytes = Vec::new();
        got.append_to(&mut bytes);
        let (back, used) = Ewah::parse(&bytes).expect("own bytes");
        assert_eq!(used, bytes.len());
        assert!(back.runs().zip(back.runs().skip(1)).all(|(a, b)| match (a, b) {
            (Run::Fill { bit: a, .. }, Run::Fill { bit: b, .. }) => a != b,
            (Run::Literals(_), Run::Literals(_)) => false,
            _ => true,
        }));
    }
}

/// Two bytes a step: a run, or a literal word made of a repeated byte, or bits.
fn pieces(data: &[u8]) -> EwahBuf {
    let mut b = EwahBuf::builder();
    for step in data.as_chunks::<2>().0.iter().take(500) {
        let [kind, n] = *step;
        let result = match kind % 4 {
            0 => b.push_run(kind & 4 != 0, u64::from(n)),
            1 => b.push_word(u64::from_le_bytes([n; 8])),
            2 => b.set(b.bit_len() as u32 + u32::from(n)),
            _ => {
                let first = b.bit_len() as u32 + u32::from(kind / 4);
                b.set_range(first, first + u32::from(n))
            }
        };
        result.expect("short enough");
    }
    b.finish()
}
