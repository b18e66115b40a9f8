//! Where the objects of a new pack have been put.

use object::ObjectId;
use pack_format::{PackOffset, PackPos};
use revwalk::Place;

/// Consecutive entries of a source pack that keep their distances in the output.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// First position, and the one after the last.
    start: u32,
    end: u32,
    /// Offset of the first entry in the source.
    source: u64,
    /// Its offset in the output.
    output: u64,
    /// Its rank in the output.
    rank: u32,
}

/// The entries taken from one source pack.
#[derive(Default)]
pub(crate) struct PackLayout {
    segments: Vec<Segment>,
    /// CRC-32 of the entries whose bytes are not those of the source, ascending by position.
    rewritten: Vec<(u32, u32)>,
}

impl PackLayout {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Offset in the output of the entry at `pos`, which lies at `source`, if it was written.
    pub(crate) fn output_of(&self, pos: PackPos, source: PackOffset) -> Option<u64> {
        let at = self.segments.partition_point(|s| s.start <= pos.get()).checked_sub(1)?;
        let segment = &self.segments[at];
        (pos.get() < segment.end).then(|| segment.output + (source.get() - segment.source))
    }

    /// Offset in the source at which the stretch ends that an entry at `pos` would carry on if it
    /// is put to `output`.
    #[inline]
    pub(crate) fn carries_on(&self, pos: PackPos, source: PackOffset, output: u64) -> Option<u64> {
        let last = self.segments.last()?;
        (last.end == pos.get() && output.wrapping_sub(source.get()) == last.output.wrapping_sub(last.source))
            .then_some(last.source)
    }

    /// Notes that the entry at `pos` was put to `output` as it lies.
    #[inline]
    pub(crate) fn kept(&mut self, pos: PackPos, source: PackOffset, output: u64, rank: u32) {
        if self.carries_on(pos, source, output).is_some()
            && let Some(last) = self.segments.last_mut()
        {
            last.end += 1;
            return;
        }
        self.placed(pos, source, output, rank);
    }

    fn placed(&mut self, pos: PackPos, source: PackOffset, output: u64, rank: u32) {
        let start = pos.get();
        self.segments.push(Segment { start, end: start + 1, source: source.get(), output, rank });
    }

    /// Notes that the entry at `pos` was put to `output` in another form.
    pub(crate) fn rewritten(&mut self, pos: PackPos, source: PackOffset, output: u64, rank: u32, crc: u32) {
        self.placed(pos, source, output, rank);
        self.rewritten.push((pos.get(), crc));
    }

    /// The CRC-32 of the entry at `pos` if its bytes are not those of the source.
    pub(crate) fn own_crc(&self, pos: PackPos) -> Option<u32> {
        let at = self.rewritten.binary_search_by_key(&pos.get(), |r| r.0).ok()?;
        Some(self.rewritten[at].1)
    }

    /// All entries as position and rank, ascending by position.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (PackPos, u32)> + '_ {
        self.segments
            .iter()
            .flat_map(|s| (s.start..s.end).map(move |pos| (PackPos::new(pos), s.rank + (pos - s.start))))
    }
}

/// A row of the new index, and the entry's rank in the pack.
pub(crate) struct NewEntry {
    pub(crate) id: ObjectId,
    pub(crate) crc: u32,
    pub(crate) output: u64,
    pub(crate) rank: u32,
}

/// An object written from outside the source packs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutsideEntry {
    pub(crate) nr: u32,
    pub(crate) output: u64,
    pub(crate) rank: u32,
    pub(crate) crc: u32,
}

/// Where everything has been put.
#[derive(Default)]
pub(crate) struct Layout {
    pub(crate) packs: Vec<PackLayout>,
    /// In the order written, which is not the order of numbers.
    pub(crate) outside: Vec<OutsideEntry>,
    /// Entries written so far.
    pub(crate) count: u32,
}

impl Layout {
    /// Offset in the output of the object at `place`, if it was written. Objects outside packs are
    /// not bases of anything.
    pub(crate) fn output_of(
        &self,
        place: Place,
        source: impl FnOnce(usize, PackPos) -> Option<PackOffset>,
    ) -> Option<u64> {
        match place {
            Place::Packed { pack, pos } => self.packs.get(pack)?.output_of(pos, source(pack, pos)?),
            Place::Outside => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_join_while_distances_stay() {
        let (pos, at) = (PackPos::new, PackOffset::new);
        let mut layout = PackLayout::default();
        layout.kept(pos(0), at(12), 12, 0);
        layout.kept(pos(1), at(20), 20, 1);
        layout.kept(pos(3), at(40), 30, 2); // a gap before it
        layout.rewritten(pos(4), at(50), 40, 3, 7);
        layout.kept(pos(5), at(60), 48, 4);
        assert_eq!(layout.segments.len(), 4);
        for (p, source, output) in
            [(0, 12, Some(12)), (1, 20, Some(20)), (2, 30, None), (3, 40, Some(30)), (5, 60, Some(48)), (6, 70, None)]
        {
            assert_eq!(layout.output_of(pos(p), at(source)), output, "{p}");
        }
        assert_eq!(layout.own_crc(pos(4)), Some(7));
        assert_eq!(layout.own_crc(pos(3)), None);
        let ranks: Vec<_> = layout.entries().map(|(p, rank)| (p.get(), rank)).collect();
        assert_eq!(ranks, [(0, 0), (1, 1), (3, 2), (4, 3), (5, 4)]);
    }
}
