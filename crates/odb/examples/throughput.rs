//! How fast a repository can be read: `cargo run --release --example throughput -- .git/objects pack-order|random|headers [N]`.

use std::path::Path;
use std::time::Instant;

use object::{HashKind, ObjectId};
use packstone_odb::{Options, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [objects, what, rest @ ..] = &arguments[..] else {
        return Err("usage: throughput <objects> <what> [n]".into());
    };
    let store = Store::open(Path::new(objects), Options::new(HashKind::Sha1))?;
    let start = Instant::now();
    let (mut count, mut bytes) = (0u64, 0u64);
    let mut out = Vec::new();
    match what.as_str() {
        "pack-order" => {
            let mut scratch = packstone_odb::Scratch::new();
            for pack in store.packs()?.iter() {
                let order = pack.order()?;
                for pos in (0..order.count()).map(pack_format::PackPos::new) {
                    pack.read(order.offset(pos), &mut scratch, &mut out)?;
                    (count, bytes) = (count + 1, bytes + out.len() as u64);
                }
            }
        }
        "random" => {
            let n = rest.first().map_or(Ok(40_000), |n| n.parse())?;
            let all: Vec<ObjectId> = store.ids()?.collect();
            // A step without common factors visits all, each far from the last.
            let mut at = 0;
            for _ in 0..n.min(all.len()) {
                at = (at + 1_000_003) % all.len();
                store.read(&all[at], &mut out)?;
                (count, bytes) = (count + 1, bytes + out.len() as u64);
            }
        }
        _ => {
            for id in store.ids()? {
                (count, bytes) = (count + 1, bytes + store.header(&id)?.size);
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} objects, {bytes} bytes, {seconds:.3} s");
    Ok(())
}
