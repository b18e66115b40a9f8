//! Body of the fuzz target. `tests/it/regressions.rs` runs it too, over `regressions/`.

use object::{HashKind, ObjectId, ObjectKind};
use pack_format::{IdxPos, PackPos};
use packstone_pack_bitmap::{BitmapFile, Scratch};

/// Byte 0: hash (bit 0) and how the rest is to be taken (bit 1: a whole file as it is). Bytes 1 and 2: number of objects.
/// Unless the rest is a whole file, signature, version and pack checksum are put in front of it and a trailer behind,
/// so that the fuzzer spends its bytes on flags, count, bitmaps and sections.
pub(crate) fn parse_bitmap(data: &[u8]) {
    let Some((&[mode, high, low], rest)) = data.split_first_chunk::<3>() else { return };
    let hash = if mode & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let objects = u32::from(u16::from_be_bytes([high, low]));
    let pack = hash.null();
    let bytes = if mode & 2 != 0 {
        rest.to_vec()
    } else {
        let Some((head, body)) = rest.split_at_checked(6) else { return };
        let mut bytes = b"BITM\0\x01".to_vec();
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(pack.as_bytes());
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len() + hash.len(), 0);
        bytes
    };
    let Ok(file) = BitmapFile::parse(bytes, hash, objects, &pack) else { return };
    assert_eq!(file.object_count(), objects);
    assert_eq!(file.commits().count(), file.entry_count() as usize);
    let kinds = [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag];
    let typed: u32 = kinds.iter().flat_map(|k| file.of_kind(*k)).map(|w| w.count_ones()).sum();
    assert_eq!(typed, objects);
    assert!((0..objects).all(|p| file.kind_at(PackPos::new(p)).is_some()));
    let _ = file.verify_checksum();
    let mut scratch = Scratch::with_budget(4096);
    for commit in file.commits() {
        assert!(file.has_commit(commit) && commit.get() < objects);
        for bit in [commit.get(), 0, objects, u32::MAX].map(PackPos::new) {
            if let Ok(words) = file.reach(commit, bit, &mut scratch) {
                let words = words.expect("has a bitmap");
                let (word, at) = (words[bit.index() / 64], bit.get() % 64);
                assert!(word >> at & 1 == 1 && bit.get() < objects);
            }
        }
    }
    for pos in [0, objects / 2, objects, u32::MAX].map(IdxPos::new) {
        let name = file.name_hash(pos);
        assert_eq!(name.is_some(), file.has_name_hashes() && pos.get() < objects);
        if !file.has_commit(pos) {
            assert!(matches!(file.reach(pos, PackPos::new(0), &mut scratch), Ok(None)));
        }
    }
    let _: ObjectId = file.pack_checksum();
}
