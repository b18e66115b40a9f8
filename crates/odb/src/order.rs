//! A pack's entries in the order of their offsets.

use pack_format::{IdxPos, PackOffset, PackPos};

/// The three coordinates of a pack's entries in flat arrays: rank in offset order, rank in id order, offset.
///
/// Thirteen bytes per object for packs below 4 GiB, seventeen above. All look-ups but [`pos_at`](Self::pos_at) are one or two
/// array reads.
#[derive(Debug)]
pub struct PackOrder {
    offsets: Offsets,
    /// Item `n`: how many entries begin below `n << shift`. Few begin in between, so that a search reads a line or two.
    below: Vec<u32>,
    shift: u32,
    to_idx: Vec<u32>,
    to_pack: Vec<u32>,
    /// Where the last entry ends: the start of the pack's trailing checksum.
    end: u64,
}

/// Strictly ascending.
#[derive(Debug)]
enum Offsets {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl PackOrder {
    /// From the index positions in pack order, as a `.rev` lists them. `None` unless they put `count` offsets in
    /// strictly ascending order, which no list but the right permutation can.
    pub(crate) fn from_listed(
        count: u32,
        listed: impl Iterator<Item = u32>,
        offset_of: impl Fn(u32) -> Option<u64>,
        end: u64,
    ) -> Option<PackOrder> {
        let mut pairs = listed.take(count as usize);
        PackOrder::from_sorted(count, end, |next| {
            for idx_pos in pairs.by_ref() {
                next(offset_of(idx_pos)?, idx_pos)?;
            }
            Some(())
        })
    }

    /// By sorting the offsets, which must all be below `end`. `None` if two are equal.
    pub(crate) fn from_offsets(offsets: &[u64], end: u64) -> Option<PackOrder> {
        let count = u32::try_from(offsets.len()).ok()?;
        let bits = u64::BITS - end.leading_zeros();
        if bits <= 32 {
            // Offset and position in one word: half the memory traffic.
            let keys = (0..count).zip(offsets).map(|(pos, &at)| at << 32 | u64::from(pos)).collect();
            let sorted = radix_sort(keys, bits, |key: u64| key >> 32);
            PackOrder::from_sorted(count, end, |next| sorted.iter().try_for_each(|&key| next(key >> 32, key as u32)))
        } else {
            let keys = (0..count).zip(offsets).map(|(pos, &at)| (at, pos)).collect();
            let sorted = radix_sort(keys, bits, |key: (u64, u32)| key.0);
            PackOrder::from_sorted(count, end, |next| sorted.iter().try_for_each(|&(at, pos)| next(at, pos)))
        }
    }

    fn from_sorted(
        count: u32,
        end: u64,
        entries: impl FnOnce(&mut dyn FnMut(u64, u32) -> Option<()>) -> Option<()>,
    ) -> Option<PackOrder> {
        let n = count as usize;
        let mut to_idx = Vec::with_capacity(n);
        let mut to_pack = vec![0; n];
        let mut narrow = Vec::with_capacity(if end <= 1 << 32 { n } else { 0 });
        let mut wide = Vec::with_capacity(if end <= 1 << 32 { 0 } else { n });
        let mut least = 0;
        entries(&mut |offset, idx_pos| {
            if offset < least || offset >= end {
                return None;
            }
            least = offset + 1;
            *to_pack.get_mut(idx_pos as usize)? = to_idx.len() as u32; // at most `count`
            to_idx.push(idx_pos);
            if end <= 1 << 32 {
                narrow.push(offset as u32); // below `end`
            } else {
                wide.push(offset);
            }
            Some(())
        })?;
        let (offsets, (below, shift)) = if end <= 1 << 32 {
            let below = count_below(&narrow, end);
            (Offsets::Narrow(narrow), below)
        } else {
            let below = count_below(&wide, end);
            (Offsets::Wide(wide), below)
        };
        (to_idx.len() == n).then_some(PackOrder { offsets, below, shift, to_idx, to_pack, end })
    }

    /// Number of entries.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.to_idx.len() as u32 // made from a u32
    }

    /// The rank in id order of the entry with this rank in offset order.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count). Positions that come from a file must be compared with it first.
    #[inline]
    #[must_use]
    pub fn idx_pos(&self, pos: PackPos) -> IdxPos {
        IdxPos::new(self.to_idx[pos.get() as usize])
    }

    /// The rank in offset order of the entry with this rank in id order.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    #[must_use]
    pub fn pack_pos(&self, pos: IdxPos) -> PackPos {
        PackPos::new(self.to_pack[pos.get() as usize])
    }

    /// Where the entry begins.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    #[must_use]
    pub fn offset(&self, pos: PackPos) -> PackOffset {
        PackOffset::new(self.raw_offset(pos.get() as usize))
    }

    /// Where the entry ends, exclusive: the start of the next one, or of the pack's trailer.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    #[must_use]
    pub fn end(&self, pos: PackPos) -> PackOffset {
        let next = pos.get() as usize + 1;
        assert!(next <= self.to_idx.len(), "position {} of {} entries", pos.get(), self.to_idx.len());
        PackOffset::new(if next < self.to_idx.len() { self.raw_offset(next) } else { self.end })
    }

    /// The entry that begins exactly at `at`. A few neighbours are looked at as a rule, O(log n) where the pack has very
    /// large and very small entries.
    #[inline]
    #[must_use]
    pub fn pos_at(&self, at: PackOffset) -> Option<PackPos> {
        let at = at.get();
        let slot = usize::try_from(at >> self.shift).ok()?;
        let (&low, &high) = (self.below.get(slot)?, self.below.get(slot.checked_add(1)?)?);
        let (low, high) = (low as usize, high as usize);
        let found = match &self.offsets {
            Offsets::Narrow(offsets) => search(offsets.get(low..high)?, u32::try_from(at).ok()?),
            Offsets::Wide(offsets) => search(offsets.get(low..high)?, at),
        };
        found.map(|pos| PackPos::new((low + pos) as u32)) // below `count`
    }

    #[inline]
    fn raw_offset(&self, pos: usize) -> u64 {
        match &self.offsets {
            Offsets::Narrow(offsets) => u64::from(offsets[pos]),
            Offsets::Wide(offsets) => offsets[pos],
        }
    }
}

/// The index of `wanted` in a strictly ascending slice.
#[inline]
fn search<T: Copy + Ord>(sorted: &[T], wanted: T) -> Option<usize> {
    if sorted.len() <= 16 { sorted.iter().position(|&at| at == wanted) } else { sorted.binary_search(&wanted).ok() }
}

/// Cuts `0..end` into stretches of `1 << shift` bytes in which four to eight entries begin on average, and counts the
/// entries below the start of each, and below the end of the last.
fn count_below<T: Copy + Into<u64>>(sorted: &[T], end: u64) -> (Vec<u32>, u32) {
    let most = (sorted.len() as u64 / 4).max(1);
    let mut shift = 0;
    while end >> shift >= most && end >> shift > 0 {
        shift += 1;
    }
    let stretches = (end >> shift) as usize + 1; // at most a quarter of the entries, or one
    let mut below = Vec::with_capacity(stretches + 1);
    for (nth, &at) in (0..).zip(sorted) {
        let stretch = (at.into() >> shift) as usize; // below `stretches`, as `at` is below `end`
        while below.len() <= stretch {
            below.push(nth);
        }
    }
    below.resize(stretches + 1, sorted.len() as u32); // a pack's count
    (below, shift)
}

/// Least significant digit first, eleven bits at a time, over the low `bits` of `key`. Stable; O(n) time, 2n memory.
fn radix_sort<T: Copy>(mut items: Vec<T>, bits: u32, key: impl Fn(T) -> u64) -> Vec<T> {
    const DIGIT: u32 = 11;
    const BUCKETS: usize = 1 << DIGIT;
    if items.len() < 256 {
        items.sort_by_key(|&item| key(item));
        return items;
    }
    let mut other = items.clone();
    let mut shift = 0;
    while shift < bits {
        let digit = |item: T| (key(item) >> shift) as usize % BUCKETS;
        let mut starts = [0usize; BUCKETS];
        for &item in &items {
            starts[digit(item)] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        for &item in &items {
            let start = &mut starts[digit(item)];
            other[*start] = item;
            *start += 1;
        }
        std::mem::swap(&mut items, &mut other);
        shift += DIGIT;
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(offsets: &[u64], end: u64) {
        let order = PackOrder::from_offsets(offsets, end).unwrap();
        let mut sorted: Vec<(u64, u32)> = (0..).zip(offsets).map(|(pos, &at)| (at, pos)).collect();
        sorted.sort_unstable();
        assert_eq!(order.count() as usize, offsets.len());
        for (rank, &(at, idx_pos)) in (0..).zip(&sorted) {
            let pos = PackPos::new(rank);
            assert_eq!(order.offset(pos).get(), at);
            assert_eq!(order.idx_pos(pos).get(), idx_pos);
            assert_eq!(order.pack_pos(IdxPos::new(idx_pos)), pos);
            assert_eq!(order.pos_at(PackOffset::new(at)), Some(pos));
            let end = sorted.get(rank as usize + 1).map_or(end, |next| next.0);
            assert_eq!(order.end(pos).get(), end);
            for near in [at.wrapping_sub(1), at + 1] {
                let want = sorted.binary_search_by_key(&near, |entry| entry.0).ok();
                assert_eq!(order.pos_at(PackOffset::new(near)).map(|pos| pos.get() as usize), want);
            }
        }
        let listed: Vec<u32> = sorted.iter().map(|entry| entry.1).collect();
        let again =
            PackOrder::from_listed(order.count(), listed.iter().copied(), |pos| Some(offsets[pos as usize]), end)
                .unwrap();
        assert_eq!(again.to_idx, order.to_idx);
        assert_eq!(again.to_pack, order.to_pack);
        if offsets.len() > 1 {
            let swapped = listed.iter().rev().copied();
            assert!(PackOrder::from_listed(order.count(), swapped, |pos| Some(offsets[pos as usize]), end).is_none());
            let short = listed[1..].iter().copied();
            assert!(PackOrder::from_listed(order.count(), short, |pos| Some(offsets[pos as usize]), end).is_none());
        }
    }

    #[test]
    fn equal_offsets_are_no_order() {
        assert!(PackOrder::from_offsets(&[12, 40, 12], 100).is_none());
        assert!(PackOrder::from_offsets(&[12, 100], 100).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn narrow(offsets in prop::collection::btree_set(12u64..5_000_000, 0..600)) {
            check(&shuffled(&offsets), 5_000_000);
        }

        #[test]
        fn at_the_edge_of_32_bits(offsets in prop::collection::btree_set((1u64 << 32) - 4000..1 << 32, 0..600)) {
            check(&shuffled(&offsets), 1 << 32);
        }

        #[test]
        fn wide(offsets in prop::collection::btree_set(12u64..1 << 45, 0..600)) {
            check(&shuffled(&offsets), 1 << 45);
        }

        #[test]
        fn uneven(steps in prop::collection::vec(0u32..40, 0..400)) {
            let mut at = 12;
            let offsets: BTreeSet<u64> = steps.iter().map(|&step| { at += 1 + (1u64 << step); at }).collect();
            check(&shuffled(&offsets), 1 << 50);
        }
    }

    /// Another order, always the same.
    fn shuffled(offsets: &BTreeSet<u64>) -> Vec<u64> {
        let mut offsets: Vec<u64> = offsets.iter().copied().collect();
        offsets.sort_by_key(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        offsets
    }
}
