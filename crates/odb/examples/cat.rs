//! Prints an object: `cargo run --example cat -- .git/objects ce0136`.

use std::io::{self, Write};
use std::path::Path;

use object::{HashKind, Prefix};
use packstone_odb::{Options, PrefixMatch, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [objects, text] = &arguments[..] else { return Err("usage: cat <objects directory> <id>".into()) };
    let hash = if text.len() > 40 { HashKind::Sha256 } else { HashKind::Sha1 };
    let store = Store::open(Path::new(objects), Options::new(hash))?;
    let id = match store.prefix(&Prefix::from_hex(text.as_bytes(), hash)?)? {
        PrefixMatch::One(id) => id,
        PrefixMatch::None => return Err("no such object".into()),
        PrefixMatch::Many(ids) => return Err(format!("could be any of {} objects", ids.len()).into()),
    };
    // Piece by piece: a blob of gigabytes takes no more memory than a small one.
    let mut stream = store.stream(&id)?;
    eprintln!("{id} {} {}", stream.header().kind.name(), stream.header().size);
    let mut out = io::stdout().lock();
    io::copy(&mut stream, &mut out)?;
    Ok(out.flush()?)
}
