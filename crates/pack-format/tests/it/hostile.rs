//! Bytes that lie: the cases of other implementations' bug trackers.

use object::{HashKind, ObjectId};
use packstone_pack_format::{
    IdxPos, PackOffset, PackPos, ParseErrorKind, WriteError,
    delta::{self, DeltaErrorKind, Instruction, Instructions},
    entry::{self, EntryKind, Header, PackHeader},
    idx::{self, Idx},
    rev::{self, Rev},
    varint::{self, VarintError},
};
use testkit::{
    io::FailAfter,
    pack::{Op, Row, delta as encode, idx_v2, resign, rev as rev_of},
};

use crate::{idx_error, kinds};

fn apply(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, DeltaErrorKind> {
    let mut out = b"former".to_vec();
    delta::apply(base, delta, &mut out, 1 << 20).map(|()| out).map_err(|error| error.kind)
}

/// What git does with deltas, verified with git: the two four-byte forms and the 64 KiB copy are sound, all else is not.
#[test]
fn delta_rules() {
    let text = b"abcdefgh".repeat(8);
    let whole = Op::Copy(0, 64);
    assert_eq!(apply(&text, &encode(64, 64, &[whole])), Ok(text.clone()));
    assert_eq!(apply(&text, &encode(64, 66, &[whole, Op::Insert(b"!!")])), Ok([&text[..], b"!!"].concat()));
    // Padding is allowed, and an empty result.
    assert_eq!(apply(&text, b"\xc0\x00\x80\x00"), Ok(Vec::new()));
    assert_eq!(apply(&text, b"\x40\x01\x01A"), Ok(b"A".to_vec()));
    let large: Vec<u8> = (0..76_800u32).map(|i| (i / 7) as u8).collect();
    assert_eq!(apply(&large, &encode(76_800, 65_536, &[Op::Raw(b"\x80")])), Ok(large[..65_536].to_vec()));
    assert_eq!(apply(&text, b"\x40\x01\x00"), Err(DeltaErrorKind::TooShort(3)));
    assert_eq!(apply(&text, b"\x40\x00"), Err(DeltaErrorKind::TooShort(2)));
    assert_eq!(apply(&text, b""), Err(DeltaErrorKind::TooShort(0)));
    let bad = |size, result, ops: &[Op<'_>]| apply(&text, &encode(size, result, ops)).unwrap_err();
    assert_eq!(bad(63, 64, &[whole]), DeltaErrorKind::BaseSize { expected: 63, found: 64 });
    assert_eq!(bad(64, 64, &[Op::Copy(1, 64)]), DeltaErrorKind::CopyOutOfBase { offset: 1, len: 64, base: 64 });
    assert_eq!(bad(64, 10, &[whole]), DeltaErrorKind::TooMuch { expected: 10 });
    assert_eq!(bad(64, 65, &[whole]), DeltaErrorKind::TooLittle { expected: 65, found: 64 });
    assert_eq!(bad(64, 64, &[whole, Op::Raw(b"\x91")]), DeltaErrorKind::Truncated);
    assert_eq!(bad(64, 5, &[Op::Raw(b"\x05abc")]), DeltaErrorKind::Truncated);
    assert_eq!(bad(64, 64, &[whole, Op::Raw(b"\x05")]), DeltaErrorKind::Truncated);
    assert_eq!(bad(64, 64, &[whole, Op::Insert(b"Z")]), DeltaErrorKind::TooMuch { expected: 64 });
    assert_eq!(bad(64, 64, &[Op::Raw(b"\0\0\0")]), DeltaErrorKind::Reserved);
    assert_eq!(bad(64, 64, &[whole, Op::Raw(b"\0")]), DeltaErrorKind::Reserved);
    let far = DeltaErrorKind::CopyOutOfBase { offset: 0xff00_0000, len: 4, base: 64 };
    assert_eq!(bad(64, 4, &[Op::Raw(b"\x98\xff\x04")]), far);
    // Right only modulo 2^32.
    assert!(matches!(bad((1 << 32) + 64, 64, &[whole]), DeltaErrorKind::BaseSize { .. }));
    assert!(matches!(bad(64, (1 << 32) + 64, &[whole]), DeltaErrorKind::Limit { .. }));
    assert_eq!(apply(&text, &[[0xff; 10], [1; 10]].concat()), Err(DeltaErrorKind::Overflow));
    assert_eq!(apply(&text, &[0x80; 6]), Err(DeltaErrorKind::Truncated));
    // A size of three bytes, which git reads and never writes.
    let mut much = vec![7; 70_000];
    much[0] = 1;
    assert_eq!(apply(&much, &encode(70_000, 70_000, &[Op::Copy(0, 70_000)])), Ok(much.clone()));
}

/// One byte that makes 64 KiB: the limit is held against the claim, and memory grows only with what is made.
#[test]
fn delta_bombs() {
    let base = vec![0; 65_536];
    let bomb = encode(65_536, 65_536 * 512, &[Op::Raw(&[0x80; 512])]);
    let mut out = Vec::new();
    let error = delta::apply(&base, &bomb, &mut out, 1 << 20).unwrap_err();
    assert_eq!(error.kind, DeltaErrorKind::Limit { size: 65_536 * 512, limit: 1 << 20 });
    assert_eq!(out.capacity(), 0);
    delta::apply(&base, &bomb, &mut out, 1 << 25).unwrap();
    assert_eq!(out.len(), 1 << 25);
    // A claim of 2^60 with nothing behind it costs next to nothing, even without a limit.
    let claim = encode(65_536, 1 << 60, &[Op::Raw(&[0x80; 4])]);
    let mut out = Vec::new();
    assert!(matches!(
        delta::apply(&base, &claim, &mut out, u64::MAX).unwrap_err().kind,
        DeltaErrorKind::TooLittle { .. }
    ));
    assert!(out.capacity() < 1 << 20);
}

#[test]
fn instructions_are_fused_and_say_where() {
    let bytes = encode(64, 64, &[Op::Copy(3, 5), Op::Insert(b"xy"), Op::Raw(b"\0\x01a")]);
    let (header, mut list) = Instructions::parse(&bytes).unwrap();
    assert_eq!(header, delta::Header { base_size: 64, result_size: 64 });
    assert_eq!(list.next(), Some(Ok(Instruction::Copy { offset: 3, len: 5 })));
    assert_eq!(list.next(), Some(Ok(Instruction::Insert(b"xy"))));
    assert_eq!(list.offset(), 8);
    let error = list.next().unwrap().unwrap_err();
    assert_eq!((error.at, error.kind), (8, DeltaErrorKind::Reserved));
    assert_eq!((list.next(), list.next()), (None, None));
    // The header alone, as from the first inflated bytes.
    assert_eq!(delta::Header::parse(&bytes[..2]), Ok((header, 2)));
    assert!(delta::Header::parse(&bytes[..1]).is_err());
}

#[test]
fn varints() {
    // The overflow check does not depend on the width of anything.
    let mut far = vec![0xff; 12];
    far.push(0x7f);
    assert_eq!(varint::decode_offset(&far), Err(VarintError::Overflow));
    assert_eq!(varint::decode_size(&far), Err(VarintError::Overflow));
    assert_eq!(varint::decode_size(&[0x80; 10]), Err(VarintError::Overflow));
    assert_eq!(varint::decode_size(&[0x80; 9]), Err(VarintError::Truncated));
    assert_eq!(varint::decode_offset(&[0x80; 3]), Err(VarintError::Truncated));
    assert_eq!(varint::decode_offset(b"\x80\x00"), Ok((128, 2)));
    assert_eq!(varint::decode_size(b"\x80\x01"), Ok((128, 2)));
    assert_eq!(
        (varint::decode_size(b""), varint::decode_offset(b"")),
        (Err(VarintError::Truncated), Err(VarintError::Truncated))
    );
    for value in [0, 0x7f, 0x80, 0x407f, 0x4080, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
        let (mut size, mut offset) = (Vec::new(), Vec::new());
        varint::encode_size(value, &mut size);
        varint::encode_offset(value, &mut offset);
        assert!(size.len() <= varint::MAX_LEN && offset.len() <= varint::MAX_LEN);
        assert_eq!(varint::decode_size(&size), Ok((value, size.len())));
        assert_eq!(varint::decode_offset(&offset), Ok((value, offset.len())), "{value}");
    }
}

#[test]
fn entry_headers() {
    for (_, kind) in kinds() {
        let parse = |bytes: &[u8]| Header::parse(bytes, kind).map_err(|error| error.kind);
        assert_eq!(parse(b"\x00"), Err(ParseErrorKind::EntryType(0)));
        assert_eq!(parse(b"\x50"), Err(ParseErrorKind::EntryType(5)));
        assert!(matches!(parse(b""), Err(ParseErrorKind::Truncated { .. })));
        assert!(matches!(parse(b"\xb0"), Err(ParseErrorKind::Truncated { .. })));
        // A size that is right only modulo 2^64, or 2^32.
        let overflow = [&[0xb4][..], &[0x80; 8], &[0x10]].concat();
        assert_eq!(parse(&overflow), Err(ParseErrorKind::Overflow { what: "entry size" }));
        let (header, len) = parse(b"\xb4\x86\x80\x80\x80\x02").unwrap();
        assert_eq!((header.size, len), ((2 << 32) + 100, 6));
        // Distances: nothing, the pack's own header, before it, and too many bits.
        assert_eq!(parse(b"\x60\x00"), Err(ParseErrorKind::BaseOutOfPack { distance: 0 }));
        assert!(matches!(parse(&[&[0x60][..], &[0xff; 12], &[0x7f]].concat()), Err(ParseErrorKind::Overflow { .. })));
        assert!(matches!(parse(b"\x60\x80"), Err(ParseErrorKind::Truncated { .. })));
        let at = PackOffset::new(100);
        for (distance, base) in [
            (1, Some(99)),
            (88, Some(12)),
            (89, None),
            (100, None),
            (101, None),
            (1 << 40, None),
            (u64::MAX, None),
            (0, None),
        ] {
            let header = Header { kind: EntryKind::OfsDelta { distance }, size: 0 };
            let found = header.base_offset(at).unwrap();
            assert_eq!(found.ok(), base.map(PackOffset::new), "{distance}");
        }
        assert_eq!(parse(b"\x30").unwrap().0.base_offset(at), None);
        // A base id cut short.
        let full = [&[0x71][..], kind.empty_tree().as_bytes()].concat();
        assert_eq!(parse(&full).unwrap().0.kind, EntryKind::RefDelta { base: kind.empty_tree() });
        for cut in 0..full.len() {
            assert!(matches!(parse(&full[..cut]), Err(ParseErrorKind::Truncated { .. })));
        }
        let mut longest = Vec::new();
        Header { kind: EntryKind::RefDelta { base: kind.null() }, size: u64::MAX }.encode(&mut longest);
        assert_eq!(longest.len(), entry::MAX_LEN - 32 + kind.len());
        assert_eq!(parse(&longest).unwrap().1, longest.len());
    }
    assert_eq!(PackHeader::from_bytes(b"PACK\0\0\0\x03\0\0\0\x05x").unwrap(), PackHeader { version: 3, count: 5 });
    for bad in [
        &b"PACK\0\0\0\x02\0\0\0"[..],
        b"pack\0\0\0\x02\0\0\0\0",
        b"PACK\0\0\0\x01\0\0\0\0",
        b"PACK\0\0\0\x04\0\0\0\0",
        b"",
    ] {
        assert!(PackHeader::from_bytes(bad).is_err());
    }
}

fn rows(kind: HashKind, n: u8) -> Vec<Row> {
    (0..n)
        .map(|i| Row { id: vec![i.wrapping_mul(40); kind.len()], crc: u32::from(i), offset: 12 + u32::from(i) * 100 })
        .collect()
}

#[test]
fn large_offsets() {
    for (hash, kind) in kinds() {
        let pack = vec![9; kind.len()];
        let mut table = rows(kind, 6);
        for (i, slot) in [5, 0, 1, 2, 3, 4].into_iter().enumerate() {
            table[i].offset = 1 << 31 | slot;
        }
        // Slot 0: small is allowed. 1: the largest. 2: 2^63. 3: 2^64 - 1. 4: right only modulo 2^32. 5 is not there.
        let large = [77, i64::MAX as u64, 1 << 63, u64::MAX, (1 << 32) + 12];
        let bytes = idx_v2(hash, &table, &large, &pack);
        let idx = Idx::parse(&bytes[..], kind).unwrap();
        let offset = |pos| idx.offset(IdxPos::new(pos)).map(PackOffset::get).map_err(|error| error.kind);
        assert_eq!(offset(0), Err(ParseErrorKind::OutOfRange { what: "64-bit offset slot", found: 5, limit: 5 }));
        assert_eq!((offset(1), offset(2)), (Ok(77), Ok(i64::MAX as u64)));
        assert!(matches!(offset(3), Err(ParseErrorKind::OutOfRange { what: "pack offset", .. })));
        assert!(matches!(offset(4), Err(ParseErrorKind::OutOfRange { what: "pack offset", .. })));
        assert_eq!(offset(5), Ok((1 << 32) + 12));
        // Bad slots spoil their object only, but not the whole check.
        idx.verify_checksum().unwrap();
        assert!(idx.verify_all().is_err());
        // n slots are read, n + 1 are not; a slot number far beyond does not wrap round.
        table[0].offset = u32::MAX;
        assert!(Idx::parse(&idx_v2(hash, &table, &[0; 6], &pack)[..], kind).unwrap().offset(IdxPos::new(0)).is_err());
        assert!(matches!(idx_error(&idx_v2(hash, &table, &[0; 7], &pack), kind), ParseErrorKind::WrongSize { .. }));
    }
}

#[test]
fn spoilt_indices() {
    for (hash, kind) in kinds() {
        let pack = vec![9; kind.len()];
        let good = idx_v2(hash, &rows(kind, 5), &[], &pack);
        Idx::parse(&good[..], kind).unwrap().verify_all().unwrap();
        for cut in 0..good.len() {
            Idx::parse(&good[..cut], kind).unwrap_err();
        }
        let spoilt = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            resign(hash, &mut bytes);
            bytes
        };
        assert!(matches!(idx_error(&spoilt(7, 3), kind), ParseErrorKind::Unsupported { found: 3, .. }));
        assert_eq!(idx_error(&spoilt(8, 1), kind), ParseErrorKind::Fanout);
        // Without its signature it is read as version 1, whose fan-out table then goes down or does not fit.
        Idx::parse(&spoilt(0, 0)[..], kind).unwrap_err();
        // A count of four thousand million.
        assert!(matches!(idx_error(&spoilt(8 + 255 * 4, 0xff), kind), ParseErrorKind::WrongSize { .. }));
        // Ids out of order, and out of their bucket.
        for (at, byte) in [(1032, 200), (1032 + kind.len() + 1, 0), (1032 + 3 * kind.len(), 0)] {
            let bytes = spoilt(at, byte);
            let idx = Idx::parse(&bytes[..], kind).unwrap();
            idx.verify_checksum().unwrap();
            assert!(idx.verify_all().is_err() || byte == 0 && at == 1032 + kind.len() + 1);
            for pos in (0..5).map(IdxPos::new) {
                let _ = idx.lookup(&idx.id(pos));
            }
        }
        let mut bytes = good.clone();
        *bytes.last_mut().unwrap() ^= 1;
        let error = Idx::parse(&bytes[..], kind).unwrap().verify_checksum().unwrap_err();
        assert!(matches!(error.kind, ParseErrorKind::Checksum { .. }));
        // The other kind of repository.
        let other = if kind == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        assert!(Idx::parse(&good[..], other).is_err());
        assert_eq!(Idx::parse(&good[..], kind).unwrap().lookup(&other.null()), None);
        // Nothing in it.
        let empty = idx_v2(hash, &[], &[], &pack);
        let idx = Idx::parse(&empty[..], kind).unwrap();
        assert_eq!((idx.count(), idx.lookup(&kind.null()), idx.pack_checksum().as_bytes()), (0, None, &pack[..]));
        idx.verify_all().unwrap();
    }
}

#[test]
#[should_panic(expected = "position 5 in an index of 5")]
fn a_position_of_another_index_is_misuse() {
    let bytes = idx_v2(testkit::Hash::Sha1, &rows(HashKind::Sha1, 5), &[], &[9; 20]);
    let _ = Idx::parse(&bytes[..], HashKind::Sha1).unwrap().id(IdxPos::new(5));
}

#[test]
fn spoilt_reverse_indices() {
    for (hash, kind) in kinds() {
        let pack = ObjectId::from_bytes(&vec![9; kind.len()]).unwrap();
        let idx = idx_v2(hash, &rows(kind, 3), &[], pack.as_bytes());
        let idx = Idx::parse(&idx[..], kind).unwrap();
        let good = rev_of(hash, &[0, 1, 2], pack.as_bytes());
        let parse = |bytes: &[u8]| Rev::parse(bytes.to_vec(), kind, 3, &pack).map_err(|error| error.kind);
        parse(&good).unwrap().verify_all(&idx).unwrap();
        assert_eq!(parse(&good).unwrap().idx_pos(PackPos::new(1)), IdxPos::new(1));
        for cut in 0..good.len() {
            parse(&good[..cut]).unwrap_err();
        }
        let spoilt = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            resign(hash, &mut bytes);
            parse(&bytes)
        };
        assert!(matches!(spoilt(0, 0), Err(ParseErrorKind::Signature { .. })));
        assert!(matches!(spoilt(7, 2), Err(ParseErrorKind::Unsupported { .. })));
        assert!(matches!(spoilt(11, 3), Err(ParseErrorKind::Unsupported { .. })));
        assert!(matches!(spoilt(11, 3 - kind.file_id() as u8), Err(ParseErrorKind::WrongHash { .. })));
        assert_eq!(
            spoilt(15, 3).unwrap_err(),
            ParseErrorKind::OutOfRange { what: "index position", found: 3, limit: 3 }
        );
        assert!(matches!(spoilt(24, 1), Err(ParseErrorKind::WrongPack { .. })));
        assert!(matches!(
            Rev::parse(&good[..], kind, 2, &pack).map(|_| ()).unwrap_err().kind,
            ParseErrorKind::WrongSize { .. }
        ));
        // In range, but twice the same, or in another order: only the whole check sees that.
        for order in [[0, 0, 2], [1, 0, 2], [2, 1, 0]] {
            let bytes = rev_of(hash, &order, pack.as_bytes());
            let error = parse(&bytes).unwrap().verify_all(&idx).unwrap_err();
            assert!(matches!(error.kind, ParseErrorKind::Disagrees { .. }));
        }
        let empty = rev_of(hash, &[], pack.as_bytes());
        assert_eq!(Rev::parse(&empty[..], kind, 0, &pack).unwrap().positions().len(), 0);
    }
}

#[test]
fn writers_refuse_what_no_reader_takes() {
    for (_, kind) in kinds() {
        let id = |byte| ObjectId::from_bytes(&vec![byte; kind.len()]).unwrap();
        let pack = id(9);
        let v2 = |list: &[(ObjectId, u32, PackOffset)]| idx::write_v2(Vec::new(), list.iter().copied(), &pack);
        let at = PackOffset::new;
        assert!(matches!(v2(&[(id(2), 0, at(12)), (id(1), 0, at(20))]), Err(WriteError::Order { at: 1 })));
        assert!(matches!(v2(&[(id(2), 0, at(1 << 63))]), Err(WriteError::Offset { version: 2, .. })));
        assert!(matches!(
            idx::write_v1(Vec::new(), [(id(2), at(1 << 32))].into_iter(), &pack),
            Err(WriteError::Offset { version: 1, .. })
        ));
        let other = if kind == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        assert!(matches!(v2(&[(other.null(), 0, at(12))]), Err(WriteError::WrongHash { .. })));
        // Offsets around 2^31, in any order, come back; the same object twice is allowed.
        let list =
            [(id(1), 1, at(1 << 40)), (id(1), 2, at((1 << 31) - 1)), (id(3), 3, at(1 << 31)), (id(4), 4, at(12))];
        let (bytes, checksum) = v2(&list).unwrap();
        let idx = Idx::parse(bytes, kind).unwrap();
        idx.verify_all().unwrap();
        assert_eq!((idx.large_count(), idx.idx_checksum()), (2, checksum));
        assert!(idx.offsets().map(Result::unwrap).eq(list.iter().map(|(.., offset)| *offset)));
        // A full disk at any byte is an error.
        for left in 0..idx.as_bytes().len() as u64 {
            let out = FailAfter::new(Vec::new(), left);
            assert!(matches!(idx::write_v2(out, list.iter().copied(), &pack), Err(WriteError::Io(_))));
        }
        for left in 0..(12 + 8 + 2 * kind.len()) as u64 {
            let out = FailAfter::new(Vec::new(), left);
            let order = [1, 0].map(IdxPos::new);
            assert!(matches!(rev::write(out, order.into_iter(), &pack), Err(WriteError::Io(_))));
        }
    }
}
