//! Writes a checksummed file durably, as an index or a pack is written. Usage: `write_index FILE`
use std::io::Write;
use std::path::PathBuf;

use object::HashKind;
use packstone_hashfile::{HashFile, lock};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: write_index FILE")?);
    let lock = lock::LockFile::acquire(&path, &lock::Options::default())?;
    let mut out = HashFile::new(lock, HashKind::Sha1);
    for entry in ["DIRC", "first", "second"] {
        out.write_all(entry.as_bytes())?;
    }
    let bytes = out.total();
    let (lock, id) = out.finish()?; // the trailer
    lock.commit()?; // fsync, rename, fsync of the directory
    println!("{bytes} bytes, checksum {id}");
    Ok(())
}
