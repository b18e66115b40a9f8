//! What the fuzz targets do with their bytes. The integration tests run the same over `regressions/`.

use object::{HashKind, ObjectId};
use packstone_pack_format::{
    IdxPos, MidxPack, MidxPos, PackOffset, PackPos, PseudoPos,
    chunk::encode_toc,
    delta::{self, Instructions},
    entry::{Header, PackHeader},
    idx::Idx,
    midx::{self, Chain, Midx},
    mtimes::Mtimes,
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
    ("parse_midx", parse_midx),
    ("parse_mtimes", parse_mtimes),
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

/// The bytes as modification times.
pub fn parse_mtimes(bytes: &[u8]) {
    for hash in HashKind::ALL {
        let count = bytes.len().saturating_sub(12 + 2 * hash.len()) / 4;
        let trailer = bytes.len().checked_sub(2 * hash.len()).and_then(|at| ObjectId::from_prefix(&bytes[at..], hash));
        let Some(pack) = trailer else { continue };
        let Ok(times) = Mtimes::parse(bytes, hash, count as u32, &pack) else { continue };
        assert!(times.mtimes().eq((0..times.count()).map(|pos| times.mtime(IdxPos::new(pos)))));
        let _ = times.verify_checksum();
    }
}

/// The bytes as a multi-pack-index, as they are and behind a head that makes the rest count; and as a chain.
pub fn parse_midx(bytes: &[u8]) {
    for hash in HashKind::ALL {
        if let Ok(chain) = Chain::parse(bytes, hash) {
            assert_eq!(Chain::parse(&chain.encode(), hash), Ok(chain));
        }
        ask_midx(bytes, hash);
        // The first bytes: version, packs, objects, and the length of the names. Then the chunks' bytes.
        let Some((&[version, packs, objects, names], body)) = bytes.split_first_chunk() else { continue };
        let (names, n) = (usize::from(names) * 4, u64::from(objects));
        let large = (body.len() as u64).saturating_sub(names as u64 + n * (hash.len() as u64 + 12)) / 8;
        let chunks = [
            (midx::PACK_NAMES, names as u64),
            (midx::FANOUT, 1024),
            (midx::IDS, n * hash.len() as u64),
            (midx::OFFSETS, n * 8),
            (midx::PSEUDO_ORDER, n * 4),
            (midx::LARGE_OFFSETS, large * 8),
        ];
        let chunks = &chunks[..5 + usize::from(version & 4 != 0)];
        let mut file = b"MIDX".to_vec();
        file.extend([version & 3, hash.file_id() as u8, chunks.len() as u8, 0, 0, 0, 0, packs]);
        encode_toc(chunks, 12, &mut file);
        let size = chunks.iter().map(|(_, size)| *size as usize).sum::<usize>() - 1024;
        let mut body = body.to_vec();
        body.resize(size, 0);
        file.extend(&body[..names]);
        (0..256).for_each(|i| file.extend((if i < 0x80 { 0 } else { u32::from(objects) }).to_be_bytes()));
        (0..usize::from(objects)).for_each(|i| body[names + i * hash.len()] = 0x80);
        file.extend(&body[names..]);
        file.extend(hash.null().as_bytes());
        ask_midx(&file, hash);
    }
}

/// Asks a multi-pack-index everything, if it is one; what it says is written again and read the same.
pub fn ask_midx(bytes: &[u8], hash: HashKind) {
    let Ok(midx) = Midx::parse(bytes, hash) else { return };
    let mut entries = Vec::new();
    let order = midx.pseudo_order(0).ok().flatten();
    for pos in (0..midx.count()).map(MidxPos::new) {
        let id = midx.id(pos);
        assert_eq!(id.as_bytes(), midx.id_bytes(pos));
        if let Some(found) = midx.lookup(&id) {
            assert_eq!(midx.id(found), id);
        }
        let range = midx.prefix_range(&id.into());
        assert!(range.start <= range.end && range.end <= midx.count());
        if let Ok((pack, offset)) = midx.location(pos) {
            assert!(pack.get() < midx.pack_count() && offset.get() < 1 << 63);
            entries.push((id, pack, offset));
        }
        if let Some(Ok(listed)) = order.map(|order| order.midx_pos(PseudoPos::new(pos.get()))) {
            assert!(listed.get() < midx.count());
        }
    }
    let names: Vec<_> = midx.pack_names().collect();
    for (pack, name) in (0..).map(MidxPack::new).zip(&names) {
        assert!(!name.contains(&b'/'));
        assert_eq!(midx.pack_name(pack), *name);
        if name.ends_with(b".idx") {
            assert!(midx.find_pack(name).is_some_and(|found| midx.pack_name(found) == *name));
        }
        let _ = midx.bitmapped_pack(pack);
    }
    let sorted = midx.ids().is_sorted_by(|a, b| a < b);
    assert!(midx.verify_all().is_err() || sorted);
    let _ = (midx.verify_checksum(), midx.checksum(), midx.lookup(&hash.null()), midx.fanout(0));
    if sorted && entries.len() as u32 == midx.count() {
        let options = midx::Options::default().version(midx.version());
        let (again, checksum) = midx::write(Vec::new(), hash, &names, entries.iter().copied(), &options).unwrap();
        let again = Midx::parse(&again[..], hash).unwrap();
        again.verify_all().map_or_else(|error| assert!(midx.verify_all() != Ok(()), "{error}"), |()| ());
        assert_eq!(again.checksum(), checksum);
        assert!(again.pack_names().eq(names));
        for (pos, (id, pack, offset)) in (0..).map(MidxPos::new).zip(entries) {
            assert_eq!((again.id(pos), again.location(pos)), (id, Ok((pack, offset))));
        }
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
        // The decoder of first bytes says what the other says, whatever the stream.
        let (mut head, mut same) = (vec![0; size.min(64)], vec![0; size.min(64)]);
        let (made, prefix) = (inflate.inflate_first(stream, &mut head), inflate.inflate_prefix(stream, &mut same));
        assert_eq!(made, prefix.map(|(_, made)| made));
        assert!(made.is_err() || head == same);
        assert_eq!(*first.get_or_insert_with(|| answer.clone()), answer);
    }
}
