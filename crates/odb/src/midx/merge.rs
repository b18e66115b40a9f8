//! From many sorted lists of ids to one in which each id stands once.

use object::ObjectId;
use pack_format::idx::Idx;
use pack_format::midx::Midx;
use pack_format::{IdxPos, MidxPos};

use crate::source::Bytes;

/// A sorted list of ids.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ids<'a> {
    Idx(&'a Idx<Bytes>),
    Midx(&'a Midx<Bytes>),
}

impl<'a> Ids<'a> {
    #[inline]
    pub(super) fn id_bytes(self, pos: u32) -> &'a [u8] {
        match self {
            Ids::Idx(idx) => idx.id_bytes(IdxPos::new(pos)),
            Ids::Midx(midx) => midx.id_bytes(MidxPos::new(pos)),
        }
    }

    #[inline]
    pub(super) fn id(self, pos: u32) -> ObjectId {
        match self {
            Ids::Idx(idx) => idx.id(IdxPos::new(pos)),
            Ids::Midx(midx) => midx.id(MidxPos::new(pos)),
        }
    }

    fn fanout(self, first_byte: u8) -> u32 {
        match self {
            Ids::Idx(idx) => idx.fanout(first_byte),
            Ids::Midx(midx) => midx.fanout(first_byte),
        }
    }
}

/// Calls `winner` with list and position of each id in ascending order, from the first of the lists that has it. Positions
/// that `skip` wants left out are passed over.
///
/// O(n log n) in the ids of a first byte, which are all that is held: 16 bytes each, copies included. An `Err` names a list
/// whose fan-out table lies.
pub(super) fn merge<E>(
    lists: &[Ids<'_>],
    skip: impl Fn(u32, u32) -> bool,
    mut winner: impl FnMut(u32, u32) -> Result<(), E>,
) -> Result<Result<(), E>, u32> {
    // The eight bytes behind the first, then list, then position: one number whose order is the order wanted, but for ids
    // that agree in nine bytes.
    let mut keys: Vec<u128> = Vec::new();
    for first in 0..=255u8 {
        keys.clear();
        for (number, list) in (0u32..).zip(lists) {
            let start = first.checked_sub(1).map_or(0, |below| list.fanout(below));
            for pos in start..list.fanout(first) {
                let &[found, a, b, c, d, e, f, g, h, ..] = list.id_bytes(pos) else { return Err(number) };
                if found != first {
                    return Err(number);
                }
                if skip(number, pos) {
                    continue;
                }
                let key = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
                keys.push(u128::from(key) << 64 | u128::from(number) << 32 | u128::from(pos));
            }
        }
        keys.sort_unstable();
        let mut rest = &mut keys[..];
        while let Some(&head) = rest.first() {
            let len = rest.iter().position(|key| key >> 64 != head >> 64).unwrap_or(rest.len());
            let (run, behind) = rest.split_at_mut(len);
            rest = behind;
            let id = |key: u128| lists.get((key >> 32) as u32 as usize).map(|list| list.id_bytes(key as u32));
            if run.len() > 1 {
                // Stable, so that copies stay in the order of their lists.
                run.sort_by(|&a, &b| id(a).cmp(&id(b)));
            }
            let mut last = None;
            for &key in run.iter() {
                let this = id(key);
                if last != Some(this) {
                    if let Err(error) = winner((key >> 32) as u32, key as u32) {
                        return Ok(Err(error));
                    }
                    last = Some(this);
                }
            }
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use object::HashKind;
    use pack_format::{PackOffset, idx};

    use super::*;

    fn list(ids: &[[u8; 20]]) -> Vec<u8> {
        let rows = ids.iter().map(|id| (ObjectId::from_sha1(*id), 0, PackOffset::new(12)));
        idx::write_v2(Vec::new(), rows, &HashKind::Sha1.null()).unwrap().0
    }

    fn open(bytes: Vec<u8>) -> Idx<Bytes> {
        Idx::parse(Bytes::from(bytes), HashKind::Sha1).unwrap()
    }

    fn id(first: u8, last: u8) -> [u8; 20] {
        let mut id = [7; 20];
        (id[0], id[19]) = (first, last);
        id
    }

    /// Ids that agree in all but their last byte are still sorted, and copies found.
    #[test]
    fn ids_chosen_to_look_alike() {
        let lists = [
            open(list(&[id(1, 9), id(2, 3), id(2, 5)])),
            open(list(&[id(1, 1), id(2, 3), id(2, 4)])),
            open(list(&[id(1, 9), id(2, 1), id(255, 0)])),
        ];
        let ids: Vec<Ids<'_>> = lists.iter().map(Ids::Idx).collect();
        let mut found = Vec::new();
        let done = merge(
            &ids,
            |list, pos| (list, pos) == (0, 0),
            |list, pos| {
                found.push((ids[list as usize].id(pos), list));
                Ok::<(), ()>(())
            },
        );
        assert_eq!(done, Ok(Ok(())));
        let expected =
            [(id(1, 1), 1), (id(1, 9), 2), (id(2, 1), 2), (id(2, 3), 0), (id(2, 4), 1), (id(2, 5), 0), (id(255, 0), 2)];
        assert_eq!(found, expected.map(|(id, list)| (ObjectId::from_sha1(id), list)));
        let stopped = merge(&ids, |_, _| false, |list, pos| if list == 1 { Err(pos) } else { Ok(()) });
        assert_eq!(stopped, Ok(Err(0)));
    }

    #[test]
    fn a_fan_out_table_that_lies() {
        let mut bytes = list(&[id(1, 1), id(2, 2)]);
        // The first id moves up by a bucket.
        bytes[8 + 4..8 + 8].copy_from_slice(&[0; 4]);
        let (good, bad) = (open(list(&[id(1, 1)])), open(bytes));
        assert_eq!(merge(&[Ids::Idx(&good), Ids::Idx(&bad)], |_, _| false, |_, _| Ok::<(), ()>(())), Err(1));
    }
}
