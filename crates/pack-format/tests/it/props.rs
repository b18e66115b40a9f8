//! Laws, and equality with models too simple to be wrong.

use object::{HashKind, ObjectId, Prefix};
use packstone_pack_format::{
    IdxPos, MidxPack, MidxPos, PackOffset,
    delta::{self, Instructions},
    entry::{EntryKind, Header},
    idx::{self, Idx},
    midx::{self, Midx, Version},
    varint,
};
use proptest::prelude::*;
use testkit::pack::{self, Op};

use crate::regressions::bodies;

fn kind() -> impl Strategy<Value = HashKind> {
    prop_oneof![Just(HashKind::Sha1), Just(HashKind::Sha256)]
}

fn number() -> impl Strategy<Value = u64> {
    (0..64u32, any::<u64>()).prop_map(|(bits, value)| value >> bits)
}

/// Ids by a few bytes, repeated: evenly spread ones, crowds with long common beginnings, and the ends of the range.
fn ids(kind: HashKind) -> impl Strategy<Value = Vec<ObjectId>> {
    let id = (0..4u8, any::<[u8; 3]>(), any::<[u8; 32]>()).prop_map(move |(shape, few, mut id)| {
        match shape {
            0 => {}
            1 => id[..8].fill(few[0] & 1),
            2 => id.fill(few[1] | 0xfe),
            _ => id[1..30].fill(0),
        }
        ObjectId::from_bytes(&id[..kind.len()]).unwrap()
    });
    prop::collection::vec(id, 0..300).prop_map(|mut ids| {
        ids.sort();
        ids
    })
}

fn op() -> impl Strategy<Value = (u8, u32, u32, Vec<u8>)> {
    (
        0..8u8,
        0..300u32,
        prop_oneof![1..300u32, Just(0x1_0000), 1..0x2_0000u32],
        prop::collection::vec(any::<u8>(), 1..128),
    )
}

proptest! {
    #[test]
    fn varints_as_the_model(value in number(), after in any::<u8>()) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        varint::encode_size(value, &mut ours);
        pack::push_size(&mut theirs, value);
        prop_assert_eq!(&ours, &theirs);
        let len = ours.len();
        ours.push(after);
        prop_assert_eq!(varint::decode_size(&ours), Ok((value, len)));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        varint::encode_offset(value, &mut ours);
        pack::push_distance(&mut theirs, value);
        prop_assert_eq!(&ours, &theirs);
        let len = ours.len();
        ours.push(after);
        prop_assert_eq!(varint::decode_offset(&ours), Ok((value, len)));
    }

    /// A multi-pack-index says of each id what was written, and knows no others.
    #[test]
    fn multi_pack_indexes_as_a_map(
        (kind, mut ids) in kind().prop_flat_map(|kind| (Just(kind), ids(kind))),
        places in prop::collection::vec((0..5u32, prop_oneof![0..1u64 << 31, number().prop_map(|n| n >> 1)]), 300),
        second in any::<bool>(),
    ) {
        ids.dedup();
        let version = if second { Version::V2 } else { Version::V1 };
        let names: Vec<String> = (0..5).map(|n| format!("pack-{}.idx", if second { 9 - n } else { n })).collect();
        let rows = ids.iter().zip(&places);
        let rows = rows.map(|(id, (pack, offset))| (*id, MidxPack::new(*pack), PackOffset::new(*offset)));
        let options = midx::Options::default().version(version);
        let (bytes, _) = midx::write(Vec::new(), kind, &names, rows.clone(), &options).unwrap();
        bodies::ask_midx(&bytes, kind);
        let read = Midx::parse(&bytes[..], kind).unwrap();
        read.verify_checksum().unwrap();
        prop_assert_eq!(read.version(), version);
        prop_assert!(read.ids().eq(ids.iter().copied()));
        for (pos, (id, pack, offset)) in (0..).map(MidxPos::new).zip(rows) {
            prop_assert_eq!(read.lookup(&id), Some(pos));
            prop_assert_eq!(read.location(pos), Ok((pack, offset)));
            let digits = 4 + offset.get() as usize % (kind.hex_len() - 4);
            let prefix = Prefix::from_hex(&id.to_string().as_bytes()[..digits], kind).unwrap();
            let range = read.prefix_range(&prefix);
            let model = |at: &u32| prefix.matches(&ids[*at as usize]);
            prop_assert!(range.clone().all(|at| model(&at)));
            prop_assert_eq!(range.len(), (0..read.count()).filter(model).count());
            let mut other = id.as_bytes().to_vec();
            other[kind.len() - 1] ^= 1;
            let other = ObjectId::from_bytes(&other).unwrap();
            prop_assert_eq!(read.lookup(&other).is_some(), ids.contains(&other));
        }
    }

    #[test]
    fn entry_headers_round_trip(kind in kind(), which in 0..6u8, size in number(), distance in number(), byte in any::<u8>()) {
        let base = ObjectId::from_bytes(&vec![byte; kind.len()]).unwrap();
        let what = match which {
            0 => EntryKind::Commit,
            1 => EntryKind::Tree,
            2 => EntryKind::Blob,
            3 => EntryKind::Tag,
            4 => EntryKind::OfsDelta { distance: distance.max(1) },
            _ => EntryKind::RefDelta { base },
        };
        let header = Header { kind: what, size };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        let len = bytes.len();
        prop_assert!(len <= packstone_pack_format::entry::MAX_LEN);
        for cut in 0..len {
            prop_assert!(Header::parse(&bytes[..cut], kind).is_err());
        }
        bytes.push(byte);
        prop_assert_eq!(Header::parse(&bytes, kind), Ok((header, len)));
    }

    /// Programs that mean well, mostly: applied, and followed, as the plain way does.
    #[test]
    fn deltas_as_the_model(base in prop::collection::vec(any::<u8>(), 0..400), ops in prop::collection::vec(op(), 0..12), lie in 0..20i64, noise in prop::collection::vec(any::<u8>(), 0..3)) {
        let mut result_size = 0;
        let list: Vec<Op<'_>> = ops.iter().map(|(which, offset, len, bytes)| match which {
            0..4 => {
                let offset = if *which < 3 { *offset % (base.len() as u32 + 1) } else { *offset };
                let len = if *which < 3 { (*len).min(base.len() as u32 - offset).max(1) } else { *len };
                result_size += i64::from(len);
                Op::Copy(offset, len)
            }
            4 if noise.len() == 2 => Op::Raw(&noise),
            _ => {
                result_size += bytes.len() as i64;
                Op::Insert(bytes)
            }
        }).collect();
        // Mostly the truth.
        let claimed = result_size + if lie < 2 { lie * 2 - 1 } else { 0 };
        let bytes = pack::delta(base.len() as u64, claimed.max(0) as u64, &list);
        let mut out = Vec::new();
        let ours = delta::apply(&base, &bytes, &mut out, u64::MAX).is_ok().then_some(&out);
        let theirs = pack::apply(&base, &bytes);
        prop_assert_eq!(ours, theirs.as_ref());
        if let (Some(result), Ok((_, list))) = (theirs, Instructions::parse(&bytes)) {
            prop_assert_eq!(list.map(|i| i.unwrap().len()).sum::<u64>(), result.len() as u64);
        }
    }

    #[test]
    fn any_delta_as_the_model(base in prop::collection::vec(any::<u8>(), 0..40), head in 0..3u8, mut bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80..0xa0u8, 1..4u8], 0..30)) {
        if head > 0 {
            bytes.splice(0..0, [base.len() as u8, bytes.len() as u8]);
        }
        let mut out = Vec::new();
        let ours = delta::apply(&base, &bytes, &mut out, u64::MAX).is_ok().then_some(out);
        prop_assert_eq!(ours, pack::apply(&base, &bytes));
    }

    #[test]
    fn indices_as_a_sorted_list((kind, ids, probes) in kind().prop_flat_map(|kind| (Just(kind), ids(kind), ids(kind))), offsets in prop::collection::vec(number(), 300), limit in any::<u32>(), digits in 4..12usize) {
        let entries: Vec<_> = ids.iter().zip(&offsets).enumerate().map(|(i, (id, offset))| (*id, i as u32 * 3, PackOffset::new(offset >> 1))).collect();
        let checksum = kind.empty_blob();
        let options = idx::Options::default().offset_limit(limit);
        let (v2, own) = idx::write_v2_with(Vec::new(), entries.iter().copied(), &checksum, &options).unwrap();
        let small = entries.iter().map(|(id, _, offset)| (*id, PackOffset::new(offset.get() & 0xffff_ffff)));
        let (v1, _) = idx::write_v1(Vec::new(), small.clone(), &checksum).unwrap();
        let v2 = Idx::parse(v2, kind).unwrap();
        let v1 = Idx::parse(v1, kind).unwrap();
        prop_assert_eq!((v2.idx_checksum(), v2.pack_checksum(), v1.version()), (own, checksum, 1));
        v2.verify_checksum().unwrap();
        for (pos, (id, crc, offset)) in entries.iter().enumerate() {
            let pos = IdxPos::new(pos as u32);
            prop_assert_eq!((v2.id(pos), v2.crc32(pos), v2.offset(pos)), (*id, Some(*crc), Ok(*offset)));
            prop_assert_eq!((v1.id(pos), v1.crc32(pos)), (*id, None));
        }
        prop_assert!(v2.ids().eq(ids.iter().copied()) && v1.ids().eq(ids.iter().copied()));
        prop_assert!(v1.offsets().map(Result::unwrap).eq(small.map(|(_, offset)| offset)));
        for id in ids.iter().chain(&probes) {
            for idx in [&v1, &v2] {
                match idx.lookup(id) {
                    Some(pos) => prop_assert_eq!(idx.id(pos), *id),
                    None => prop_assert!(!ids.contains(id)),
                }
                let prefix = Prefix::from_hex(&id.to_hex().as_bytes()[..digits], kind).unwrap();
                let start = ids.iter().position(|id| prefix.cmp_id(id.as_bytes()).is_le()).unwrap_or(ids.len());
                let count = ids.iter().filter(|id| prefix.matches(id)).count();
                prop_assert_eq!(idx.prefix_range(&prefix), start as u32..(start + count) as u32);
            }
        }
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for (_, body) in bodies::ALL {
            body(&bytes);
        }
    }

    /// A good index with some bytes changed: whatever parses can be asked everything.
    #[test]
    fn changed_indices_can_be_read((kind, ids) in kind().prop_flat_map(|kind| (Just(kind), ids(kind))), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        let entries = ids.iter().map(|id| (*id, 1, PackOffset::new(12)));
        let (mut bytes, _) = idx::write_v2(Vec::new(), entries, &kind.empty_blob()).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bodies::ask_idx(&bytes, kind);
    }
}
