//! What the fuzz targets do with their bytes. The integration tests run the same over `regressions/`.

use object::{HashKind, ObjectId};
use packstone_pack_format::{
    IdxPos, PackOffset, PackPos,
    delta::{self, Instructions},
    entry::{Header, PackHeader},
    idx::Idx,
    rev::Rev,
    varint,
    zlib::{Backend, Inflate, max_inflated_len},
};

/// A body: it panics when it finds something.
pub type Body = fn(&[u8]);

/// Each body by the name of its target and of its folder of inputs.
pub const ALL: &[(&str, Body)] = &[
    ("apply_delta", apply_delta),
    ("inflate", inflate),
    ("parse_entry", parse_entry),
    ("parse_idx", parse_idx),
    ("parse_rev", parse_rev),
];

/// Headers and numbers: what is read and written again is read the same.
pub fn parse_entry(bytes: &[u8]) {
    let _ = PackHeader::from_bytes(bytes).map(|header| assert_eq!(header.to_bytes(), bytes[..PackHeader::LEN]));
    let _ = varint::decode_size(bytes);
    if let Ok((value, len)) = varint::decode_offset(bytes) {
        let mut again = Vec::new();
        varint::encode_offset(value, &mut again);
        assert_eq!(again, bytes[..len]);
    }
    for hash in HashKind::ALL {
        let Ok((header, len)) = Header::parse(bytes, hash) else { continue };
        let mut again = Vec::new();
        header.encode(&mut again);
        assert!(again.len() <= len && len <= bytes.len());
        assert_eq!(Header::parse(&again, hash), Ok((header, again.len())));
        if let Some(Ok(base)) = header.base_offset(PackOffset::new(bytes.len() as u64)) {
            assert!((12..bytes.len() as u64).contains(&base.get()));
        }
    }
}

/// The bytes as an index, as they are and behind a head that makes the rest count.
pub fn parse_idx(bytes: &[u8]) {
    for hash in HashKind::ALL {
        ask_idx(bytes, hash);
        // A fan-out table for as many objects as the bytes can hold, all with first byte 0x80.
        let h = hash.len();
        for version in [1, 2] {
            let (head, row) = if version == 2 { (&b"\xfftOc\0\0\0\x02"[..], h + 8) } else { (&b""[..], h + 4) };
            let count = bytes.len().saturating_sub(2 * h) / row;
            let mut file = head.to_vec();
            (0..256).for_each(|i| file.extend((if i < 0x80 { 0 } else { count as u32 }).to_be_bytes()));
            let mut body = bytes.to_vec();
            body.resize(body.len().max(2 * h), 0);
            // The ids get their first byte, so that look-ups find them.
            for i in 0..count {
                let at = if version == 2 { i * h } else { i * row + 4 };
                body[at] = 0x80;
            }
            if version == 1 {
                body.truncate(count * row + 2 * h);
            }
            file.extend(body);
            ask_idx(&file, hash);
        }
    }
}

/// Asks an index everything, if it is one.
pub fn ask_idx(bytes: &[u8], hash: HashKind) {
    let Ok(idx) = Idx::parse(bytes, hash) else { return };
    for pos in (0..idx.count()).map(IdxPos::new) {
        let id = idx.id(pos);
        if let Some(found) = idx.lookup(&id) {
            assert_eq!(idx.id(found), id);
        }
        assert!(idx.offset(pos).is_ok_and(|offset| offset.get() < 1 << 63) || idx.version() == 2);
        assert_eq!(idx.crc32(pos).is_some(), idx.version() == 2);
        let range = idx.prefix_range(&id.into());
        assert!(range.start <= range.end && range.end <= idx.count());
    }
    let sorted = idx.ids().is_sorted();
    assert!(idx.verify_all().is_err() || sorted);
    let _ = (idx.verify_checksum(), idx.pack_checksum(), idx.idx_checksum(), idx.lookup(&hash.null()));
    assert_eq!(idx.offsets().len(), idx.count() as usize);
}

/// The bytes as a reverse index.
pub fn parse_rev(bytes: &[u8]) {
    for hash in HashKind::ALL {
        let count = bytes.len().saturating_sub(12 + 2 * hash.len()) / 4;
        let trailer = bytes.len().checked_sub(2 * hash.len()).and_then(|at| ObjectId::from_prefix(&bytes[at..], hash));
        let Some(pack) = trailer else { continue };
        let Ok(rev) = Rev::parse(bytes, hash, count as u32, &pack) else { continue };
        for pos in (0..rev.count()).map(PackPos::new) {
            assert!(rev.idx_pos(pos).get() < rev.count());
        }
        let _ = rev.verify_checksum();
    }
}

/// The first byte says how much of the rest is the base; what follows is the delta.
pub fn apply_delta(bytes: &[u8]) {
    let Some((&split, rest)) = bytes.split_first() else { return };
    let (base, delta) = rest.split_at(usize::from(split).min(rest.len()));
    let mut out = Vec::new();
    let result = delta::apply(base, delta, &mut out, 1 << 24);
    let mut made = 0;
    if let Ok((header, list)) = Instructions::parse(delta) {
        for instruction in list {
            let Ok(instruction) = instruction else {
                assert!(result.is_err());
                return;
            };
            made += instruction.len();
        }
        if result.is_ok() {
            assert_eq!((made, out.len() as u64), (header.result_size, header.result_size));
        }
    } else {
        assert!(result.is_err());
    }
}

/// A stream for every backend: the same bytes and the same verdict, in one piece, by steps, and as a beginning.
pub fn inflate(bytes: &[u8]) {
    let Some((&[low, high], stream)) = bytes.split_first_chunk() else { return };
    let size = usize::from(u16::from_le_bytes([low, high]));
    let mut first: Option<Option<(usize, Vec<u8>)>> = None;
    for &backend in Backend::ALL {
        let mut inflate = Inflate::with_backend(backend);
        let mut out = Vec::new();
        let answer = inflate.inflate_into(stream, size as u64, &mut out).ok().map(|used| (used, out));
        if let Some((used, out)) = &answer {
            assert!(size as u64 <= max_inflated_len(*used));
            let mut head = vec![0; size / 2];
            let (_, made) = inflate.inflate_prefix(stream, &mut head).unwrap();
            assert_eq!(head[..made], out[..size / 2]);
        }
        assert_eq!(*first.get_or_insert_with(|| answer.clone()), answer);
    }
}
