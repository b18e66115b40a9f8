//! The first few bytes of a zlib stream, without the tables that a decoder of whole streams makes first.
//!
//! A block's codes are canonical (RFC 1951, 3.2.2): how many codes there are of each length, and the symbols in the order
//! of their codes, are enough to read one symbol bit by bit. For a handful of symbols that costs a fraction of the tables.
//! Whatever is unusual is left to the decoder proper: this one only ever says yes.

use std::sync::LazyLock;

/// So many bytes at most are worth it.
pub(super) const MOST: usize = 64;

/// Longest code, in bits.
const MAX_BITS: usize = 15;

/// Symbols for literals and lengths, and for distances.
const LITERALS: usize = 288;
const DISTANCES: usize = 30;

/// The order in which the lengths of the codes for code lengths stand (RFC 1951, 3.2.7).
const ORDER: [u8; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// For symbols 257 and up: the least length, and how many more bits tell it (RFC 1951, 3.2.5).
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// The codes of blocks that bring none along (RFC 1951, 3.2.6).
static FIXED: LazyLock<Option<(Code<LITERALS>, Code<DISTANCES>)>> = LazyLock::new(|| {
    let mut lengths = [8; LITERALS];
    lengths.get_mut(144..256)?.fill(9);
    lengths.get_mut(256..280)?.fill(7);
    let counts = Counts::new(&[5; 32])?;
    let distances = Code { symbols: counts.symbols(&[5; DISTANCES])?, counts };
    Some((Code::new(&lengths)?, distances))
});

/// Fills `out`. `None`: it takes a decoder that knows all of the format, or can tell what is wrong.
pub(super) fn fill(input: &[u8], out: &mut [u8]) -> Option<()> {
    let (&cmf, &flags) = (input.first()?, input.get(1)?);
    // Deflate with a window of 32 KiB at most, no dictionary, and a check on these two bytes (RFC 1950, 2.2).
    if cmf & 0x0f != 8 || cmf >> 4 > 7 || flags & 0x20 != 0 {
        return None;
    }
    if !(u16::from(cmf) << 8 | u16::from(flags)).is_multiple_of(31) {
        return None;
    }
    let mut bits = Bits { input: input.get(2..)?, held: 0, count: 0 };
    let mut done = 0;
    loop {
        let last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => {
                bits.align();
                let (len, not) = (bits.take(16)?, bits.take(16)?);
                if len ^ not != 0xffff {
                    return None;
                }
                for _ in 0..len {
                    *out.get_mut(done)? = bits.take(8)? as u8;
                    done += 1;
                    if done == out.len() {
                        return Some(());
                    }
                }
            }
            1 => {
                let (literals, distances) = FIXED.as_ref()?;
                let mut distance = |bits: &mut Bits<'_>| distances.read(bits);
                block(&mut bits, literals, &mut distance, out, &mut done)?;
            }
            2 => {
                let (literals, counts, lengths) = codes(&mut bits)?;
                // Most streams are asked for fewer bytes than it takes for the first of them to be repeated.
                let mut code: Option<Code<DISTANCES>> = None;
                let mut distance = |bits: &mut Bits<'_>| {
                    if code.is_none() {
                        code = Some(Code { symbols: counts.symbols(&lengths)?, counts });
                    }
                    code.as_ref()?.read(bits)
                };
                block(&mut bits, &literals, &mut distance, out, &mut done)?;
            }
            _ => return None,
        }
        if done == out.len() {
            return Some(());
        }
        if last {
            return None;
        }
    }
}

/// Symbols up to the end of the block, or until `out` is full. `distance` reads a symbol of the other code.
fn block<'i>(
    bits: &mut Bits<'i>,
    literals: &Code<LITERALS>,
    distance: &mut impl FnMut(&mut Bits<'i>) -> Option<u16>,
    out: &mut [u8],
    done: &mut usize,
) -> Option<()> {
    while *done < out.len() {
        let symbol = literals.read(bits)?;
        if symbol < 256 {
            *out.get_mut(*done)? = symbol as u8;
            *done += 1;
            continue;
        }
        if symbol == 256 {
            break;
        }
        let &(least, more) = LENGTHS.get(usize::from(symbol) - 257)?;
        let length = usize::from(least) + bits.take(u32::from(more))? as usize;
        let distance = match distance(bits)? {
            symbol @ 0..4 => usize::from(symbol) + 1,
            symbol if usize::from(symbol) < DISTANCES => {
                let more = u32::from(symbol / 2 - 1);
                ((2 + usize::from(symbol % 2)) << more) + 1 + bits.take(more)? as usize
            }
            _ => return None,
        };
        for _ in 0..length {
            let byte = *out.get(done.checked_sub(distance)?)?;
            *out.get_mut(*done)? = byte;
            *done += 1;
            if *done == out.len() {
                break;
            }
        }
    }
    Some(())
}

/// The codes that a block brings along; of the second how many there are of each length, and the lengths.
fn codes(bits: &mut Bits<'_>) -> Option<(Code<LITERALS>, Counts, [u8; DISTANCES])> {
    let literals = bits.take(5)? as usize + 257;
    let distances = bits.take(5)? as usize + 1;
    let count = bits.take(4)? as usize + 4;
    if literals > 286 || distances > DISTANCES {
        return None;
    }
    let mut of_lengths = [0; 19];
    for &place in ORDER.get(..count)? {
        *of_lengths.get_mut(usize::from(place))? = bits.take(3)? as u8;
    }
    let code = Code::<19>::new(&of_lengths)?;
    if !code.counts.is_complete {
        return None;
    }
    let mut lengths = [0; LITERALS + DISTANCES];
    let mut at = 0;
    while at < literals + distances {
        let symbol = code.read(bits)?;
        let (length, times) = match symbol {
            0..16 => (symbol as u8, 1),
            16 => (*lengths.get(at.checked_sub(1)?)?, 3 + bits.take(2)?),
            17 => (0, 3 + bits.take(3)?),
            _ => (0, 11 + bits.take(7)?),
        };
        let end = at + times as usize;
        if end > literals + distances {
            return None;
        }
        lengths.get_mut(at..end)?.fill(length);
        at = end;
    }
    // Without a code for its end, a block has none.
    if lengths.get(256) == Some(&0) {
        return None;
    }
    let mut of_distances = [0; DISTANCES];
    of_distances.get_mut(..distances)?.copy_from_slice(lengths.get(literals..literals + distances)?);
    Some((Code::new(lengths.get(..literals)?)?, Counts::new(&of_distances)?, of_distances))
}

/// How many codes of a canonical code have each length. The code is complete, or of one symbol or none.
#[derive(Clone, Copy)]
struct Counts {
    of: [u16; MAX_BITS + 1],
    is_complete: bool,
}

impl Counts {
    fn new(lengths: &[u8]) -> Option<Counts> {
        let mut of = [0; MAX_BITS + 1];
        // Two tables, as neighbours are often the same and would wait for each other.
        let mut odd = [0u16; MAX_BITS + 1];
        for pair in lengths.chunks(2) {
            *of.get_mut(usize::from(*pair.first()?))? += 1;
            if let Some(&length) = pair.get(1) {
                *odd.get_mut(usize::from(length))? += 1;
            }
        }
        of.iter_mut().zip(odd).for_each(|(count, more)| *count += more);
        // What is over-subscribed or incomplete is for others to judge.
        let mut left = 1i32;
        for &count in of.get(1..)? {
            left = left * 2 - i32::from(count);
            if left < 0 {
                return None;
            }
        }
        // A code of one symbol has one bit, whose other value means nothing; one of none is for blocks that need none.
        let is_tiny = of.get(2..)?.iter().all(|&count| count == 0);
        (left == 0 || is_tiny).then_some(Counts { of, is_complete: left == 0 })
    }

    /// The symbols in the order of their codes.
    fn symbols<const N: usize>(&self, lengths: &[u8]) -> Option<[u16; N]> {
        let mut starts = [0u16; MAX_BITS + 1];
        let mut sum = 0;
        for (start, &count) in starts.iter_mut().zip(&self.of).skip(1) {
            *start = sum;
            sum += count;
        }
        let mut symbols = [0; N];
        for (symbol, &length) in (0..).zip(lengths) {
            if length > 0 {
                let start = starts.get_mut(usize::from(length))?;
                *symbols.get_mut(usize::from(*start))? = symbol;
                *start += 1;
            }
        }
        Some(symbols)
    }
}

/// A canonical code of up to `N` symbols.
struct Code<const N: usize> {
    counts: Counts,
    symbols: [u16; N],
}

impl<const N: usize> Code<N> {
    fn new(lengths: &[u8]) -> Option<Self> {
        let counts = Counts::new(lengths)?;
        Some(Code { symbols: counts.symbols(lengths)?, counts })
    }

    #[inline]
    fn read(&self, bits: &mut Bits<'_>) -> Option<u16> {
        let (mut code, mut first, mut index) = (0i32, 0i32, 0i32);
        for &count in self.counts.of.get(1..)? {
            let count = i32::from(count);
            code |= bits.take(1)? as i32;
            if code - first < count {
                return self.symbols.get((index + code - first) as usize).copied();
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

/// Bits, the lowest of each byte first.
struct Bits<'i> {
    input: &'i [u8],
    held: u64,
    count: u32,
}

impl Bits<'_> {
    /// The next bits, 16 at most, the first the lowest.
    #[inline]
    fn take(&mut self, n: u32) -> Option<u32> {
        while self.count < n {
            let (&byte, rest) = self.input.split_first()?;
            self.input = rest;
            self.held |= u64::from(byte) << self.count;
            self.count += 8;
        }
        let bits = self.held as u32 & ((1 << n) - 1);
        self.held >>= n;
        self.count -= n;
        Some(bits)
    }

    /// On to the next whole byte.
    fn align(&mut self) {
        let odd = self.count % 8;
        self.held >>= odd;
        self.count -= odd;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zlib::Deflate;

    /// All kinds of blocks are read here, and not left to the other decoder.
    #[test]
    fn is_used() {
        let text: Vec<u8> = (0..2000u32).flat_map(|nth| format!("{} lines\n", nth * nth % 977).into_bytes()).collect();
        for (content, level, kind) in
            [(&text[..], 0, 0), (&b"hello, hello, hello"[..], 6, 1), (&text[..], 6, 2), (&[7; 5000][..], 9, 2)]
        {
            let mut stream = Vec::new();
            Deflate::new(level).deflate(content, &mut stream);
            let mut out = [0; 16];
            assert!(fill(&stream, &mut out).is_some(), "level {level}");
            assert_eq!(out, content[..16]);
            // Two bits behind the one that says whether the block is the last.
            if content.len() == text.len() {
                assert_eq!(stream[2] >> 1 & 3, kind, "another kind of block at level {level}");
            }
        }
    }
}
