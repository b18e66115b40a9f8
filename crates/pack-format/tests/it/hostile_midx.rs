//! Multi-pack-indexes, chains and modification times that lie.

use object::{HashKind, ObjectId, Prefix};
use packstone_pack_format::{
    IdxPos, MidxPack, MidxPos, PackOffset, ParseError, ParseErrorKind, PseudoPos, WriteError,
    chunk::{ChunkId, ROW_LEN, Toc, TocErrorKind},
    midx::{self, BitmappedPack, Chain, Midx, Options, Version},
    mtimes::{self, Mtimes},
};
use testkit::{Hash, io::FailAfter, pack::resign};

use crate::kinds;

const NAMES: [&str; 3] = ["pack-b.idx", "pack-a.idx", "pack-c.idx"];
const SORTED: [&str; 3] = ["pack-a.idx", "pack-b.idx", "pack-c.idx"];

fn id(kind: HashKind, n: u8) -> ObjectId {
    ObjectId::from_bytes(&vec![n; kind.len()]).unwrap()
}

/// Six objects in three packs, at 100, 200, ... plus `more`.
fn entries(kind: HashKind, more: u64) -> impl Iterator<Item = (ObjectId, MidxPack, PackOffset)> + Clone {
    (1..7u8)
        .map(move |n| (id(kind, n * 40), MidxPack::new(u32::from(n) % 3), PackOffset::new(u64::from(n) * 100 + more)))
}

/// A good file with all chunks.
fn good(kind: HashKind, version: Version, more: u64) -> Vec<u8> {
    let order = [5, 4, 3, 2, 1, 0].map(|n| MidxPos::new(n + 1000));
    let rows = [0, 2, 4].map(|first| BitmappedPack { first: PseudoPos::new(first + 1000), count: 2 });
    let options = Options::default().version(version).pseudo_order(Some(&order)).bitmapped(Some(&rows));
    let names = if version == Version::V2 { NAMES } else { SORTED };
    midx::write(Vec::new(), kind, &names, entries(kind, more), &options).unwrap().0
}

fn range(bytes: &[u8], kind: HashKind, chunk: ChunkId) -> std::ops::Range<usize> {
    Toc::parse(bytes, 12, bytes[6], kind.len(), 4).unwrap().range(chunk).unwrap()
}

fn error(bytes: &[u8], kind: HashKind) -> ParseError {
    Midx::parse(bytes, kind).map(|_| ()).unwrap_err()
}

/// `bytes` with other ones at `at`, and the right checksum.
fn spoilt(hash: Hash, bytes: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    resign(hash, &mut bytes);
    bytes
}

#[test]
fn every_cut_is_an_error() {
    for (_, kind) in kinds() {
        for version in [Version::V1, Version::V2] {
            let bytes = good(kind, version, 0);
            Midx::parse(&bytes[..], kind).unwrap().verify_all().unwrap();
            for cut in 0..bytes.len() {
                let _ = error(&bytes[..cut], kind);
            }
        }
        let pack = id(kind, 1);
        let (times, _) = mtimes::write(Vec::new(), [1, 2, 3].into_iter(), &pack).unwrap();
        for cut in 0..times.len() {
            Mtimes::parse(&times[..cut], kind, 3, &pack).unwrap_err();
        }
    }
}

#[test]
fn heads() {
    for (hash, kind) in kinds() {
        let bytes = good(kind, Version::V1, 0);
        let error = |at, new: &[u8]| {
            let error = error(&spoilt(hash, &bytes, at, new), kind);
            (error.at, error.kind)
        };
        assert!(matches!(error(0, b"m"), (0, ParseErrorKind::Signature { .. })));
        for version in [0, 3, 255] {
            assert!(
                matches!(error(4, &[version]), (4, ParseErrorKind::Unsupported { found, .. }) if found == version.into())
            );
        }
        assert!(matches!(error(5, &[3]), (5, ParseErrorKind::Unsupported { found: 3, .. })));
        let other = if kind == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        let expected = ParseErrorKind::WrongHash { expected: kind, found: other };
        assert_eq!(error(5, &[other.file_id() as u8]), (5, expected));
        assert!(matches!(error(6, &[1]), (24, ParseErrorKind::Chunks(TocErrorKind::NotClosed { .. }))));
        assert!(matches!(error(6, &[9]), (84, ParseErrorKind::Chunks(TocErrorKind::ClosedEarly))));
        // A chunk that is not a multiple of four away, and one before the table's end.
        assert!(matches!(error(12 + 23, &[0x7a]), (24, ParseErrorKind::Chunks(_))));
        assert!(matches!(error(12 + 11, &[12]), (12, ParseErrorKind::Chunks(TocErrorKind::Offset { .. }))));
        for (row, chunk) in [midx::PACK_NAMES, midx::FANOUT, midx::IDS, midx::OFFSETS].into_iter().enumerate() {
            assert_eq!(error(12 + row * ROW_LEN, b"x"), (6, ParseErrorKind::NoChunk { chunk }));
        }
        // The number of base files is not looked at, as by git.
        Midx::parse(spoilt(hash, &bytes, 7, &[9]), kind).unwrap();
    }
}

#[test]
fn sizes_and_fan_out() {
    for (hash, kind) in kinds() {
        let bytes = good(kind, Version::V1, 0);
        let fanout = range(&bytes, kind, midx::FANOUT);
        let found = error(&spoilt(hash, &bytes, fanout.start + 400, &[0xff]), kind);
        assert_eq!((found.at, found.kind), (fanout.start as u64 + 404, ParseErrorKind::Fanout));
        // More objects than ids, up to what would be the largest file: nothing is allocated for them.
        for count in [7u32, u32::MAX] {
            let found = error(&spoilt(hash, &bytes, fanout.end - 4, &count.to_be_bytes()), kind);
            let expected = u64::from(count) * kind.len() as u64;
            assert!(matches!(found.kind, ParseErrorKind::WrongSize { expected: e, .. } if e == expected), "{found}");
        }
    }
}

#[test]
fn names() {
    for (hash, kind) in kinds() {
        let bytes = good(kind, Version::V1, 0);
        let at = range(&bytes, kind, midx::PACK_NAMES).start;
        let error = |at, new: &[u8]| error(&spoilt(hash, &bytes, at, new), kind).kind;
        assert_eq!(error(at + 5, b"b"), ParseErrorKind::NameOrder, "twice the same");
        assert_eq!(error(at + 5, b"c"), ParseErrorKind::NameOrder);
        for bad in [&b"/"[..], b"\\", b"\0", b"..\0", b".\0"] {
            assert_eq!(error(at, bad), ParseErrorKind::Name, "{bad:?}");
        }
        assert_eq!(error(at + 4, b"/"), ParseErrorKind::Name);
        // A name that runs to the end of its chunk, and more names than can be there.
        let end = range(&bytes, kind, midx::PACK_NAMES).end;
        assert!(matches!(error(end - 4, b"xxxx"), ParseErrorKind::Truncated { .. }));
        assert!(matches!(error(11, &[4]), ParseErrorKind::Name | ParseErrorKind::Truncated { .. }));
        assert!(matches!(error(8, &[0xff; 4]), ParseErrorKind::Truncated { .. }));
        // Fewer: the objects of the others cannot be found, nothing else.
        let fewer = Midx::parse(spoilt(hash, &bytes, 11, &[1]), kind).unwrap();
        assert_eq!((fewer.pack_count(), fewer.find_pack(b"pack-b")), (1, None));
        assert!(fewer.location(MidxPos::new(2)).is_ok());
        let kind_of = fewer.location(MidxPos::new(0)).unwrap_err().kind;
        assert_eq!(kind_of, ParseErrorKind::OutOfRange { what: "pack number", found: 1, limit: 1 });
        assert!(fewer.verify_all().is_err());
    }
}

#[test]
fn version_2_finds_names_in_any_order() {
    for (hash, kind) in kinds() {
        let bytes = good(kind, Version::V2, 0);
        let midx = Midx::parse(&bytes[..], kind).unwrap();
        assert!(midx.pack_names().eq(NAMES.map(str::as_bytes)));
        for (pack, name) in (0..).map(MidxPack::new).zip(NAMES) {
            assert_eq!(midx.find_pack(name.as_bytes()), Some(pack));
            assert_eq!(midx.find_pack(name.replace(".idx", ".pack").as_bytes()), Some(pack));
            assert_eq!(midx.find_pack(name.replace(".idx", "").as_bytes()), Some(pack));
        }
        for name in [&b""[..], b"pack-", b"pack-d", b"pack-a.id", b"pack-a.idx.idx"] {
            assert_eq!(midx.find_pack(name), None);
        }
        assert_eq!(error(&spoilt(hash, &bytes, 4, &[1]), kind).kind, ParseErrorKind::NameOrder);
        let (none, _) = midx::write(Vec::new(), kind, &[""; 0], entries(kind, 0).take(0), &Options::default()).unwrap();
        let none = Midx::parse(&none[..], kind).unwrap();
        none.verify_all().unwrap();
        assert_eq!((none.count(), none.pack_count(), none.lookup(&id(kind, 1))), (0, 0, None));
        assert_eq!(none.prefix_range(&Prefix::from(id(kind, 1))), 0..0);
    }
}

/// A bad row is an error for its object alone.
#[test]
fn rows() {
    for (hash, kind) in kinds() {
        let large = 1 << 32;
        let bytes = good(kind, Version::V1, large);
        let offsets = range(&bytes, kind, midx::OFFSETS).start;
        let slots = range(&bytes, kind, midx::LARGE_OFFSETS).start;
        let check = |bytes: &[u8], what, found, limit, at| {
            let midx = Midx::parse(bytes, kind).unwrap();
            for (pos, (.., pack, offset)) in (0..).map(MidxPos::new).zip(entries(kind, large)) {
                if pos.get() == 1 {
                    let kind = ParseErrorKind::OutOfRange { what, found, limit };
                    assert_eq!(midx.location(pos), Err(ParseError { at: at as u64, kind }));
                } else {
                    assert_eq!(midx.location(pos), Ok((pack, offset)));
                }
            }
            assert!(midx.verify_checksum().is_ok() && midx.verify_all().is_err());
        };
        check(&spoilt(hash, &bytes, offsets + 8, &3u32.to_be_bytes()), "pack number", 3, 3, offsets + 8);
        let slot = (1u32 << 31 | 6).to_be_bytes();
        check(&spoilt(hash, &bytes, offsets + 12, &slot), "64-bit offset slot", 6, 6, offsets + 12);
        let huge = (1u64 << 63).to_be_bytes();
        check(&spoilt(hash, &bytes, slots + 8, &huge), "pack offset", 1 << 63, 1 << 63, slots + 8);
        // Without the chunk of large offsets, bit 31 is the offset's own.
        let row = Toc::parse(&bytes, 12, bytes[6], kind.len(), 4)
            .unwrap()
            .iter()
            .position(|(id, _)| id == midx::LARGE_OFFSETS);
        let without = Midx::parse(spoilt(hash, &bytes, 12 + row.unwrap() * ROW_LEN, b"x"), kind).unwrap();
        assert_eq!(without.location(MidxPos::new(2)).unwrap().1, PackOffset::new(1 << 31 | 2));
        without.verify_all().unwrap();
        let in_header = Midx::parse(spoilt(hash, &good(kind, Version::V1, 0), offsets, &[0; 8]), kind);
        let _ = in_header.map(|midx| assert!(midx.verify_all().is_err()));
    }
}

#[test]
fn ids_out_of_order() {
    for (hash, kind) in kinds() {
        let bytes = good(kind, Version::V1, 0);
        let at = range(&bytes, kind, midx::IDS).start;
        for (what, new) in [("twice", id(kind, 40)), ("not where the fan-out says", id(kind, 90))] {
            let bytes = spoilt(hash, &bytes, at + kind.len(), new.as_bytes());
            let midx = Midx::parse(&bytes[..], kind).unwrap();
            assert_eq!(midx.verify_all().unwrap_err().kind, ParseErrorKind::Order, "{what}");
        }
        let mut unsigned = bytes.clone();
        unsigned[at] ^= 1;
        let midx = Midx::parse(&unsigned[..], kind).unwrap();
        assert!(matches!(midx.verify_all().unwrap_err().kind, ParseErrorKind::Checksum { .. }));
    }
}

#[test]
fn bitmap_chunks() {
    for (hash, kind) in kinds() {
        let bytes = good(kind, Version::V1, 0);
        let midx = Midx::parse(&bytes[..], kind).unwrap();
        let order = midx.pseudo_order(1000).unwrap().unwrap();
        assert_eq!(order.count(), 6);
        for n in 0..6 {
            assert_eq!(order.midx_pos(PseudoPos::new(n)), Ok(MidxPos::new(5 - n)));
        }
        let row = BitmappedPack { first: PseudoPos::new(1002), count: 2 };
        assert_eq!(midx.bitmapped_pack(MidxPack::new(1)), Ok(Some(row)));
        // Another base than it was written for: some objects are in no layer at hand.
        let order = midx.pseudo_order(1001).unwrap().unwrap();
        assert!(order.midx_pos(PseudoPos::new(5)).is_err() && order.midx_pos(PseudoPos::new(4)).is_ok());
        assert!(midx.pseudo_order(999).unwrap().unwrap().midx_pos(PseudoPos::new(0)).is_err());
        // A chunk of another size spoils itself, not the file. A row's offset ends the chunk before it.
        for (row, by, bad_order) in [(5, 4, true), (6, -4i64, false)] {
            let at = 12 + row * ROW_LEN + 4;
            let offset = u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
            let bytes = spoilt(hash, &bytes, at, &offset.wrapping_add_signed(by).to_be_bytes());
            let midx = Midx::parse(&bytes[..], kind).unwrap();
            midx.verify_all().unwrap();
            assert!(midx.bitmapped_pack(MidxPack::new(0)).is_err());
            assert_eq!(midx.pseudo_order(0).is_err(), bad_order);
        }
    }
}

#[test]
fn what_is_not_written() {
    for (_, kind) in kinds() {
        let write = |names: &[&str], options: &Options<'_>| {
            let mut out = Vec::new();
            let result = midx::write(&mut out, kind, names, entries(kind, 0), options).map(|_| ());
            assert!(out.is_empty());
            result.unwrap_err()
        };
        let (v1, v2) = (Options::default(), Options::default().version(Version::V2));
        assert!(matches!(write(&NAMES, &v1), WriteError::Name { at: 1 }));
        assert!(matches!(write(&["a", "b", "b"], &v1), WriteError::Name { at: 2 }));
        for bad in ["", "..", "a/b", "a\0"] {
            assert!(matches!(write(&["z", bad, "b"], &v2), WriteError::Name { at: 1 }));
        }
        assert!(matches!(write(&SORTED[..2], &v1), WriteError::PackNumber { at: 1 }));
        assert!(matches!(write(&SORTED, &v1.pseudo_order(Some(&[]))), WriteError::Order { .. }));
        assert!(matches!(write(&SORTED, &v1.bitmapped(Some(&[]))), WriteError::Order { .. }));
        let wrong = |entries: Vec<(ObjectId, MidxPack, PackOffset)>| {
            midx::write(Vec::new(), kind, &SORTED, entries.into_iter(), &v1).map(|_| ()).unwrap_err()
        };
        let row = |n, offset| (id(kind, n), MidxPack::new(0), PackOffset::new(offset));
        assert!(matches!(wrong(vec![row(1, 12), row(1, 20)]), WriteError::Order { at: 1 }));
        assert!(matches!(wrong(vec![row(2, 12), row(1, 20)]), WriteError::Order { at: 1 }));
        assert!(matches!(wrong(vec![row(1, 1 << 63)]), WriteError::Offset { .. }));
        let other = if kind == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        let foreign = (id(other, 1), MidxPack::new(0), PackOffset::new(12));
        assert!(matches!(wrong(vec![foreign]), WriteError::WrongHash { .. }));
        let (whole, _) = midx::write(Vec::new(), kind, &SORTED, entries(kind, 0), &v1).unwrap();
        for left in 0..whole.len() as u64 {
            let out = FailAfter::new(Vec::new(), left);
            let result = midx::write(out, kind, &SORTED, entries(kind, 0), &v1).map(|_| ());
            assert!(matches!(result, Err(WriteError::Io(_))), "a disk that is full after {left} bytes");
        }
    }
}

#[test]
fn chains() {
    for (_, kind) in kinds() {
        let (one, two) = (id(kind, 1), id(kind, 2));
        let text = format!("{one}\n{two}\n");
        let chain = Chain { layers: vec![one, two] };
        assert_eq!(Chain::parse(text.as_bytes(), kind), Ok(chain.clone()));
        assert_eq!(Chain::parse(text.trim_end().as_bytes(), kind), Ok(chain.clone()));
        assert_eq!(chain.encode(), text.as_bytes());
        assert_eq!(Chain::parse(b"", kind), Ok(Chain::default()));
        let first = Chain { layers: vec![one] };
        let other = if kind == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        for (line, short) in [
            ("", true),
            ("01", true),
            (&two.to_string()[1..], true),
            (&id(other, 1).to_string(), kind == HashKind::Sha256),
            (&format!("{two} "), false),
            (&"g".repeat(kind.hex_len()), false),
        ] {
            let text = format!("{one}\n{line}\n{two}\n");
            let (chain, error) = Chain::parse_prefix(text.as_bytes(), kind);
            assert_eq!(chain, first);
            let error = error.unwrap();
            assert_eq!(error.at, kind.hex_len() as u64 + 1);
            assert_eq!(matches!(error.kind, ParseErrorKind::Truncated { .. }), short, "{line}");
            assert!(short || error.kind == ParseErrorKind::ChainLine);
            assert_eq!(Chain::parse(text.as_bytes(), kind), Err(error));
        }
    }
}

#[test]
fn modification_times() {
    for (hash, kind) in kinds() {
        let pack = id(kind, 1);
        let (times, checksum) = mtimes::write(Vec::new(), [7, 0, u32::MAX].into_iter(), &pack).unwrap();
        assert!(times.ends_with(checksum.as_bytes()));
        let parse = |bytes: &[u8], count, pack| Mtimes::parse(bytes, kind, count, pack).map(|_| ()).map_err(|e| e.kind);
        let read = Mtimes::parse(&times[..], kind, 3, &pack).unwrap();
        assert!(read.mtimes().eq([7, 0, u32::MAX]));
        assert_eq!(read.mtime(IdxPos::new(2)), u32::MAX);
        for count in [0, 2, 4, u32::MAX] {
            assert!(matches!(parse(&times, count, &pack), Err(ParseErrorKind::WrongSize { .. })));
        }
        let other = id(kind, 2);
        assert_eq!(parse(&times, 3, &other), Err(ParseErrorKind::WrongPack { expected: other, found: pack }));
        let with = |at, byte| parse(&spoilt(hash, &times, at, &[byte]), 3, &pack).unwrap_err();
        assert!(matches!(with(0, b'R'), ParseErrorKind::Signature { .. }));
        assert!(matches!(with(7, 2), ParseErrorKind::Unsupported { found: 2, .. }));
        assert!(matches!(with(11, 3), ParseErrorKind::Unsupported { found: 3, .. }));
        let swapped = if kind == HashKind::Sha1 { 2 } else { 1 };
        assert!(matches!(with(11, swapped), ParseErrorKind::WrongHash { .. }));
        let mut bytes = times.clone();
        bytes[13] ^= 1;
        let changed = Mtimes::parse(&bytes[..], kind, 3, &pack).unwrap();
        assert!(matches!(changed.verify_checksum().unwrap_err().kind, ParseErrorKind::Checksum { .. }));
    }
}

#[test]
#[should_panic(expected = "position 6 in a multi-pack-index of 6")]
fn a_position_of_another_file_is_misuse() {
    let bytes = good(HashKind::Sha1, Version::V1, 0);
    let _ = Midx::parse(&bytes[..], HashKind::Sha1).unwrap().location(MidxPos::new(6));
}
