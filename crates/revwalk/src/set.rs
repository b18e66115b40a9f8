//! Dense sets of object numbers.

use std::fmt;

/// Dense number of an object within one [`Numbering`](crate::Numbering).
///
/// Packs come first, one after another, each object at its rank in offset order; objects outside
/// packs follow in the order in which they were met. With the bitmapped pack placed first, a
/// number below that pack's object count is also the object's bit in its bitmaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectNr(u32);

impl ObjectNr {
    /// Wraps a raw number.
    #[inline]
    pub const fn new(nr: u32) -> Self {
        Self(nr)
    }

    /// The raw number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for ObjectNr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectNr({})", self.0)
    }
}

const BITS: u32 = u64::BITS;

/// A set of [`ObjectNr`]s as a dense bitset, growing as numbers are inserted.
///
/// Words are 64 bits, least significant bit first: number `n` is bit `n % 64` of word `n / 64`.
/// Memory is `highest number / 8` bytes. Queries beyond the stored words answer "absent".
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ObjectSet {
    words: Vec<u64>,
}

impl ObjectSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set with room for the numbers below `numbers`.
    pub fn with_capacity(numbers: u32) -> Self {
        Self { words: vec![0; numbers.div_ceil(BITS) as usize] }
    }

    /// A set made of `words`, least significant bit first.
    pub fn from_words(words: Vec<u64>) -> Self {
        Self { words }
    }

    /// The set of all numbers below `numbers`.
    pub fn full(numbers: u32) -> Self {
        let mut words = vec![!0; (numbers / BITS) as usize];
        if !numbers.is_multiple_of(BITS) {
            words.push((1 << (numbers % BITS)) - 1);
        }
        Self { words }
    }

    /// Adds `nr`; `true` if it was absent.
    #[inline]
    pub fn insert(&mut self, nr: ObjectNr) -> bool {
        let at = (nr.0 / BITS) as usize;
        if at >= self.words.len() {
            self.grow(at);
        }
        let bit = 1u64 << (nr.0 % BITS);
        let word = &mut self.words[at];
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.words.resize((at + 1).max(self.words.len() * 2), 0);
    }

    /// Takes `nr` out; `true` if it was present.
    #[inline]
    pub fn remove(&mut self, nr: ObjectNr) -> bool {
        let Some(word) = self.words.get_mut((nr.0 / BITS) as usize) else {
            return false;
        };
        let bit = 1u64 << (nr.0 % BITS);
        let present = *word & bit != 0;
        *word &= !bit;
        present
    }

    /// Whether `nr` is in the set.
    #[inline]
    pub fn contains(&self, nr: ObjectNr) -> bool {
        self.words.get((nr.0 / BITS) as usize).is_some_and(|word| word >> (nr.0 % BITS) & 1 == 1)
    }

    /// Adds all of `other`.
    pub fn union_with(&mut self, other: &Self) {
        self.union_words(&other.words);
    }

    /// Adds the numbers whose bits are set in `words`.
    pub fn union_words(&mut self, words: &[u64]) {
        if words.len() > self.words.len() {
            self.words.resize(words.len(), 0);
        }
        for (a, b) in self.words.iter_mut().zip(words) {
            *a |= b;
        }
    }

    /// Takes all of `other` out.
    pub fn subtract(&mut self, other: &Self) {
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a &= !b;
        }
    }

    /// Keeps only what is also in `other`.
    pub fn intersect_with(&mut self, other: &Self) {
        let common = self.words.len().min(other.words.len());
        self.words.truncate(common);
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a &= b;
        }
    }

    /// How many numbers the set holds. O(words).
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// How many numbers in `[start, end)` the set holds.
    pub fn count_range(&self, start: u32, end: u32) -> u64 {
        self.ranges(start, end).map(|(a, b)| u64::from(b - a)).sum()
    }

    /// Whether no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The words, least significant bit first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The words for in-place changes, at least `numbers / 64` of them, rounded up.
    pub fn words_mut(&mut self, numbers: u32) -> &mut Vec<u64> {
        let need = numbers.div_ceil(BITS) as usize;
        if need > self.words.len() {
            self.words.resize(need, 0);
        }
        &mut self.words
    }

    /// The first member at or after `from`.
    #[inline]
    pub fn next_at_or_after(&self, from: ObjectNr) -> Option<ObjectNr> {
        let mut at = (from.0 / BITS) as usize;
        let mut word = self.words.get(at)? & (!0 << (from.0 % BITS));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some(ObjectNr(at as u32 * BITS + word.trailing_zeros()))
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ObjectNr> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let base = at as u32 * BITS;
            std::iter::successors((word != 0).then_some(word), |w| {
                let rest = w & (w - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |w| ObjectNr(base + w.trailing_zeros()))
        })
    }

    /// The maximal ranges `[a, b)` of consecutive members within `[start, end)`, ascending.
    pub fn ranges(&self, start: u32, end: u32) -> Ranges<'_> {
        Ranges { words: &self.words, at: start, end }
    }
}

impl fmt::Debug for ObjectSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(ObjectNr::get)).finish()
    }
}

impl Extend<ObjectNr> for ObjectSet {
    fn extend<T: IntoIterator<Item = ObjectNr>>(&mut self, iter: T) {
        for nr in iter {
            self.insert(nr);
        }
    }
}

impl FromIterator<ObjectNr> for ObjectSet {
    fn from_iter<T: IntoIterator<Item = ObjectNr>>(iter: T) -> Self {
        let mut set = Self::new();
        set.extend(iter);
        set
    }
}

/// Maximal runs of consecutive members; see [`ObjectSet::ranges`]. Costs per word and run, not per
/// member.
pub struct Ranges<'a> {
    words: &'a [u64],
    at: u32,
    end: u32,
}

impl Ranges<'_> {
    /// The first position at or after `at` whose bit equals `bit`, or `end`.
    fn seek(&self, at: u32, bit: bool) -> u32 {
        let flip = if bit { 0 } else { !0u64 };
        let mut index = (at / BITS) as usize;
        let Some(&first) = self.words.get(index) else {
            return if bit { self.end } else { at };
        };
        let mut word = (first ^ flip) & (!0 << (at % BITS));
        while word == 0 {
            index += 1;
            match self.words.get(index) {
                Some(&next) => word = next ^ flip,
                None if bit => return self.end,
                None => return self.end.min(index as u32 * BITS),
            }
        }
        self.end.min(index as u32 * BITS + word.trailing_zeros())
    }
}

impl Iterator for Ranges<'_> {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        if self.at >= self.end {
            return None;
        }
        let start = self.seek(self.at, true);
        if start >= self.end {
            self.at = self.end;
            return None;
        }
        let stop = self.seek(start, false);
        self.at = stop;
        Some((start, stop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn naive_ranges(members: &BTreeSet<u32>, start: u32, end: u32) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &n in members.range(start..end) {
            match ranges.last_mut() {
                Some(last) if last.1 == n => last.1 = n + 1,
                _ => ranges.push((n, n + 1)),
            }
        }
        ranges
    }

    proptest! {
        #[test]
        fn equals_a_btree_set(
            a in proptest::collection::btree_set(0u32..300, 0..200),
            b in proptest::collection::btree_set(0u32..500, 0..200),
            start in 0u32..310, len in 0u32..310,
        ) {
            let set = |members: &BTreeSet<u32>| members.iter().map(|&n| ObjectNr(n)).collect::<ObjectSet>();
            let (sa, sb) = (set(&a), set(&b));
            let members = |s: &ObjectSet| s.iter().map(ObjectNr::get).collect::<BTreeSet<_>>();
            prop_assert_eq!(members(&sa), a.clone());
            prop_assert_eq!(sa.count(), a.len() as u64);
            let mut union = sa.clone();
            union.union_with(&sb);
            prop_assert_eq!(members(&union), &a | &b);
            let mut minus = sa.clone();
            minus.subtract(&sb);
            prop_assert_eq!(members(&minus), &a - &b);
            let mut both = sa.clone();
            both.intersect_with(&sb);
            prop_assert_eq!(members(&both), &a & &b);
            prop_assert_eq!(sa.ranges(start, start + len).collect::<Vec<_>>(), naive_ranges(&a, start, start + len));
            prop_assert_eq!(sa.count_range(start, start + len), a.range(start..start + len).count() as u64);
            prop_assert_eq!(
                sa.next_at_or_after(ObjectNr(start)).map(ObjectNr::get),
                a.range(start..).next().copied()
            );
            for n in 0..520 {
                prop_assert_eq!(sa.contains(ObjectNr(n)), a.contains(&n));
            }
            let mut emptied = sa.clone();
            for &n in &a {
                prop_assert!(emptied.remove(ObjectNr(n)));
                prop_assert!(!emptied.remove(ObjectNr(n)));
            }
            prop_assert!(emptied.is_empty());
        }

        #[test]
        fn full_holds_all_below(n in 0u32..400) {
            prop_assert_eq!(ObjectSet::full(n).ranges(0, 500).collect::<Vec<_>>(),
                if n == 0 { vec![] } else { vec![(0, n)] });
        }
    }
}
