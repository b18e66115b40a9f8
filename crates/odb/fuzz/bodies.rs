//! What the fuzz targets do with their input; `tests/it/regressions.rs` does it with stored inputs.

use std::fs;
use std::io::Read;

use object::{HashKind, ObjectId};
use packstone_odb::{ByteSource, Options, Store};
use testkit::Hash;
use testkit::pack::{Row, checksum, idx_v2, write_loose_raw};

const SOURCES: [ByteSource; 3] = [ByteSource::Mmap, ByteSource::Pread, ByteSource::Heap];

/// Reads every object in every way by every byte source. All must agree on success and content.
fn read_everything(objects: &std::path::Path, hash: HashKind, ids: &[ObjectId]) {
    let mut first: Vec<Option<Vec<u8>>> = Vec::new();
    for source in SOURCES {
        // A limit, since a few bytes can honestly stand for gigabytes.
        let options = Options::new(hash).byte_source(source).max_object_size(Some(1 << 20));
        let store = Store::open(objects, options).unwrap();
        for (number, id) in ids.iter().enumerate() {
            let mut out = Vec::new();
            let whole = store.read(id, &mut out);
            let header = store.header(id);
            if whole.is_ok() {
                assert_eq!(header.unwrap().size, out.len() as u64);
                let mut streamed = Vec::new();
                store.stream(id).unwrap().read_to_end(&mut streamed).unwrap();
                assert_eq!(streamed, out);
            }
            let result = whole.ok().map(|_| out);
            match first.get(number) {
                None => first.push(result),
                Some(before) => assert_eq!(*before, result, "byte sources disagree"),
            }
        }
        for pack in store.packs().unwrap().iter() {
            let _ = pack.order();
        }
    }
}

/// The input is the file of a loose object.
pub(crate) fn parse_loose(data: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let id = [0x42; 20];
    write_loose_raw(dir.path(), &id, data);
    read_everything(dir.path(), HashKind::Sha1, &[ObjectId::from_bytes(&id).unwrap()]);
}

/// The input is the entries of a pack: one byte of hash kind and number of objects (1 to 8), two bytes of offset for
/// each, then the entries. Header, trailer and index are made to fit; the ids are the objects' numbers.
pub(crate) fn read_pack(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let (hash, kind) = if first & 0x80 == 0 { (Hash::Sha1, HashKind::Sha1) } else { (Hash::Sha256, HashKind::Sha256) };
    let count = usize::from(first % 8) + 1;
    let Some((offsets, entries)) = rest.split_at_checked(2 * count) else { return };
    let mut pack = b"PACK\0\0\0\x02\0\0\0".to_vec();
    pack.push(count as u8);
    pack.extend_from_slice(entries);
    let trailer = checksum(hash, &pack);
    pack.extend_from_slice(&trailer);
    let mut rows = Vec::new();
    for (number, offset) in (1..).zip(offsets.chunks_exact(2)) {
        let offset = 12 + u32::from(u16::from_be_bytes([offset[0], offset[1]]));
        rows.push(Row { id: vec![number; hash.len()], crc: 0, offset });
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("pack")).unwrap();
    fs::write(dir.path().join("pack/pack-1.pack"), &pack).unwrap();
    fs::write(dir.path().join("pack/pack-1.idx"), idx_v2(hash, &rows, &[], &trailer)).unwrap();
    let ids: Vec<ObjectId> = rows.iter().map(|row| ObjectId::from_bytes(&row.id).unwrap()).collect();
    read_everything(dir.path(), kind, &ids);
}
