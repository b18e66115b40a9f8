//! What a pack is made of: `cargo run --release --example survey -- objects/pack/pack-*.pack`

use std::{collections::BTreeMap, env, error::Error, fs, path::Path, time::Instant};

use object::HashKind;
use packstone_pack_format::{
    entry::{EntryKind, Header, PackHeader},
    idx::Idx,
    zlib::Inflate,
};

fn main() -> Result<(), Box<dyn Error>> {
    for path in env::args().skip(1) {
        let (pack, idx) = (fs::read(&path)?, fs::read(Path::new(&path).with_extension("idx"))?);
        let idx = Idx::parse(idx, HashKind::Sha1)?;
        idx.verify_all()?;
        println!("{path}: {} entries in {} bytes", PackHeader::from_bytes(&pack)?.count, pack.len());

        let mut offsets = idx.offsets().collect::<Result<Vec<_>, _>>()?;
        offsets.sort_unstable();
        let (mut inflate, mut out) = (Inflate::new(), Vec::new());
        let mut kinds = BTreeMap::<_, (u64, u64, u64)>::new();
        let start = Instant::now();
        for at in offsets {
            let bytes = pack.get(at.get() as usize..).ok_or("offset beyond the pack")?;
            let (header, head) = Header::parse(bytes, HashKind::Sha1)?;
            out.clear();
            let deflated = inflate.inflate_into(&bytes[head..], header.size, &mut out)?;
            let name = match header.kind {
                EntryKind::OfsDelta { .. } => "offset delta",
                EntryKind::RefDelta { .. } => "reference delta",
                whole => whole.object_kind().map_or("", |kind| kind.name()),
            };
            let sums = kinds.entry(name).or_default();
            *sums = (sums.0 + 1, sums.1 + deflated as u64, sums.2 + header.size);
        }
        for (name, (count, deflated, inflated)) in kinds {
            println!("{count:>9} {name:16} {deflated:>11} bytes deflated {inflated:>11} inflated");
        }
        println!("inflated in {:.2?}", start.elapsed());
    }
    Ok(())
}
