//! Sorted ids behind a fan-out table, which `.idx` and multi-pack-index files share: where they lie, and look-up.

use std::{cmp::Ordering, ops::Range};

use object::{HashKind, ObjectId, Prefix};

use crate::{ParseError, ParseErrorKind};

/// Bytes of a fan-out table: 256 cumulative counts of four bytes each.
pub(crate) const FANOUT_LEN: usize = 256 * 4;

/// Where a file has its fan-out table and its ids. Its owner settled that both lie within the bytes that it passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdTable {
    pub(crate) hash: HashKind,
    pub(crate) count: u32,
    pub(crate) fanout_at: usize,
    pub(crate) ids_at: usize,
    /// From one id to the next, in bytes.
    pub(crate) stride: usize,
}

impl IdTable {
    /// The last count of the fan-out table at `at`, which is the number of ids; an error if the counts go down somewhere.
    /// Constant time. The table must be there.
    pub(crate) fn read_fanout(bytes: &[u8], at: usize) -> Result<u32, ParseError> {
        let mut count = 0;
        for at in (at..at + FANOUT_LEN).step_by(4) {
            let next = be32(bytes, at);
            if next < count {
                return Err(ParseError::new(at, ParseErrorKind::Fanout));
            }
            count = next;
        }
        Ok(count)
    }

    /// How many ids begin with `first_byte` or a lower byte.
    #[inline]
    pub(crate) fn fanout(&self, bytes: &[u8], first_byte: u8) -> u32 {
        be32(bytes, self.fanout_at + usize::from(first_byte) * 4)
    }

    /// Positions of the ids with that first byte. Within `count`, since the fan-out table never goes down.
    #[inline]
    pub(crate) fn bucket(&self, bytes: &[u8], first_byte: u8) -> Range<u32> {
        let start = first_byte.checked_sub(1).map_or(0, |below| self.fanout(bytes, below));
        start..self.fanout(bytes, first_byte)
    }

    /// The bytes of the id at `pos`. Panics if there is none.
    #[inline]
    pub(crate) fn id_bytes<'a>(&self, bytes: &'a [u8], pos: u32) -> &'a [u8] {
        assert!(pos < self.count, "position {pos} in an index of {}", self.count);
        let at = self.ids_at + pos as usize * self.stride;
        &bytes[at..at + self.hash.len()]
    }

    /// The id at `pos`. Panics if there is none.
    #[inline]
    pub(crate) fn id(&self, bytes: &[u8], pos: u32) -> ObjectId {
        match ObjectId::from_prefix(self.id_bytes(bytes, pos), self.hash) {
            Some(id) => id,
            None => self.hash.null(), // `id_bytes` gives as many bytes as an id has
        }
    }

    /// Where the id of these bytes is listed.
    #[inline]
    pub(crate) fn lookup(&self, bytes: &[u8], id: &[u8]) -> Option<u32> {
        let (&first, _) = id.split_first().filter(|_| id.len() == self.hash.len())?;
        let range = self.bucket(bytes, first);
        let ids = Ids { bytes: bytes.get(self.ids_at..)?, stride: self.stride, len: self.hash.len() };
        ids.search(id, range)
    }

    /// The positions of all ids that begin with `prefix`; empty where they would be if there are none. Logarithmic.
    pub(crate) fn prefix_range(&self, bytes: &[u8], prefix: &Prefix) -> Range<u32> {
        let bucket = self.bucket(bytes, prefix.first_byte());
        let start = self.partition(bytes, bucket.clone(), |id| prefix.cmp_id(id) == Ordering::Greater);
        let end = self.partition(bytes, start..bucket.end, |id| prefix.cmp_id(id) != Ordering::Less);
        start..end
    }

    /// The first position in `range` whose id is not `before`.
    fn partition(&self, bytes: &[u8], mut range: Range<u32>, before: impl Fn(&[u8]) -> bool) -> u32 {
        while range.start < range.end {
            let middle = range.start + (range.end - range.start) / 2;
            if before(self.id_bytes(bytes, middle)) {
                range.start = middle + 1;
            } else {
                range.end = middle;
            }
        }
        range.start
    }
}

/// The sorted ids of an index, evenly spaced.
#[derive(Clone, Copy)]
struct Ids<'a> {
    /// Begins with the first id.
    bytes: &'a [u8],
    stride: usize,
    len: usize,
}

impl<'a> Ids<'a> {
    #[inline]
    fn get(&self, pos: u32) -> &'a [u8] {
        let at = pos as usize * self.stride;
        self.bytes.get(at..at + self.len).unwrap_or_default()
    }

    /// The eight bytes behind the first as a number: within a bucket of the fan-out table, the first says nothing.
    #[inline]
    fn key(id: &[u8]) -> u64 {
        id.get(1..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_be_bytes(*chunk))
    }

    /// Finds `id` in `range`, a bucket of the fan-out table.
    #[inline]
    fn search(&self, id: &[u8], range: Range<u32>) -> Option<u32> {
        let key = Self::key(id);
        let (mut low, mut high) = (range.start, range.end);
        // Ids in this bucket for each step of the key, as a fraction of 2^64.
        let density = u64::from(high - low);
        let scale = |distance: u64| ((u128::from(distance) * u128::from(density)) >> 64) as u32;
        // Where the key would be if ids were perfectly even; off by about the square root of the bucket's size.
        let mut guess = low.saturating_add(scale(key));
        // From a true id nearby, the second guess is off by the fourth root; then neighbours settle it.
        for _ in 0..2 {
            if high - low <= 4 {
                break;
            }
            guess = guess.clamp(low, high - 1);
            let found = Self::key(self.get(guess));
            match found.cmp(&key) {
                Ordering::Less => {
                    low = guess + 1;
                    guess = low.saturating_add(scale(key - found));
                }
                Ordering::Greater => {
                    high = guess;
                    guess = high.saturating_sub(scale(found - key) + 1);
                }
                Ordering::Equal => match self.get(guess).cmp(id) {
                    Ordering::Less => low = guess + 1,
                    Ordering::Greater => high = guess,
                    Ordering::Equal => return Some(guess),
                },
            }
        }
        self.gallop(id, low, high, guess)
    }

    /// Finds `id` in `low..high`, looking near `guess` first: logarithmic in how far off the guess is.
    #[inline]
    fn gallop(&self, id: &[u8], mut low: u32, mut high: u32, guess: u32) -> Option<u32> {
        if low >= high {
            return None;
        }
        let guess = guess.clamp(low, high - 1);
        let mut step = 2;
        match self.get(guess).cmp(id) {
            Ordering::Equal => return Some(guess),
            Ordering::Less => {
                low = guess + 1;
                while let Some(probe) = low.checked_add(step).filter(|&probe| probe < high) {
                    match self.get(probe).cmp(id) {
                        Ordering::Equal => return Some(probe),
                        Ordering::Less => low = probe + 1,
                        Ordering::Greater => {
                            high = probe;
                            break;
                        }
                    }
                    step = step.saturating_mul(4);
                }
            }
            Ordering::Greater => {
                high = guess;
                while let Some(probe) = high.checked_sub(step).filter(|&probe| probe >= low) {
                    match self.get(probe).cmp(id) {
                        Ordering::Equal => return Some(probe),
                        Ordering::Greater => high = probe,
                        Ordering::Less => {
                            low = probe + 1;
                            break;
                        }
                    }
                    step = step.saturating_mul(4);
                }
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).cmp(id) {
                Ordering::Equal => return Some(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// The four bytes at `at` as a number. Callers keep within what `parse` settled.
#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) => u32::from_be_bytes(*chunk),
        None => 0,
    }
}
