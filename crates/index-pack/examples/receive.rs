//! Receives a pack from standard input into a directory, or verifies one:
//! `receive DIRECTORY [THREADS [MEMORY_MIB [STORE]]] < PACK`, `receive --verify PACK [THREADS [MEMORY_MIB]]`.
//!
//! With a store (an `objects` directory) a thin pack is completed from it. Prints counts and times.

use std::error::Error;
use std::path::Path;

use object::HashKind;
use packstone_index_pack::{Destination, Options, receive, verify};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let checks = args.first().is_some_and(|arg| arg == "--verify");
    let args = if checks { &args[1..] } else { &args[..] };
    let number = |at: usize| args.get(at).map(|arg| arg.parse::<u64>()).transpose();
    let mut options = Options::new(HashKind::Sha1).threads(number(1)?.unwrap_or(1) as usize);
    if let Some(mib) = number(2)? {
        options = options.memory(mib << 20);
    }
    let path = Path::new(args.first().ok_or("no path given")?);
    if checks {
        let verified = verify(path, None, options)?;
        println!("{} {:?} {:?}", verified.checksum(), verified.counts(), verified.timings());
        return Ok(());
    }
    if let Some(store) = args.get(3) {
        let store = odb::Store::open(Path::new(store), odb::Options::new(HashKind::Sha1))?;
        options = options.store(Some(store)).fix_thin(true);
    }
    let outcome = receive(&mut std::io::stdin().lock(), Destination::Directory(path.into()), options)?;
    println!("{} {:?} {:?}", outcome.checksum, outcome.counts, outcome.timings);
    Ok(())
}
