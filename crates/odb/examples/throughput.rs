//! How fast a repository can be read: `cargo run --release --example throughput -- .git/objects pack-order|random|one-by-one|headers [threads]`.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use object::{HashKind, ObjectId};
use packstone_odb::{Many, Options, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [objects, what, rest @ ..] = &arguments[..] else {
        return Err("usage: throughput <objects> <what> [threads]".into());
    };
    let store = Store::open(Path::new(objects), Options::new(HashKind::Sha1))?;
    let start = Instant::now();
    let (mut count, mut bytes) = (0u64, 0u64);
    let threads = rest.first().map_or(Ok(1), |n| n.parse())?;
    let many = Many::default().threads(threads);
    let mut read = |ids: Vec<ObjectId>, in_order| {
        store.read_many(
            ids,
            &many.clone().in_order(in_order),
            |_| false,
            |_, read| match read {
                Ok((_, content)) => {
                    (count, bytes) = (count + 1, bytes + content.unwrap_or_default().len() as u64);
                    ControlFlow::Continue(())
                }
                Err(error) => ControlFlow::Break(error),
            },
        )
    };
    // Every so many: far from each other in the order of ids.
    let some = |ids: Vec<ObjectId>| (0..40_000).map(|n| ids[n * 1_000_003 % ids.len()]).collect::<Vec<_>>();
    let stopped = match what.as_str() {
        "pack-order" => read(store.ids_in_pack_order()?.collect(), true),
        "random" => read(some(store.ids()?.collect()), false),
        "one-by-one" => {
            let mut out = Vec::new();
            for id in some(store.ids()?.collect()) {
                store.read(&id, &mut out)?;
                (count, bytes) = (count + 1, bytes + out.len() as u64);
            }
            ControlFlow::Continue(())
        }
        _ => store.headers(store.ids()?, &many, |_, header| match header {
            Ok(header) => {
                (count, bytes) = (count + 1, bytes + header.size);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }),
    };
    if let ControlFlow::Break(error) = stopped {
        return Err(error.into());
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} objects, {bytes} bytes, {seconds:.3} s");
    Ok(())
}
