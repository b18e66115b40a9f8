//! Leaves a directory out of the work tree, as `git update-index --skip-worktree` would for each file in it.
//!
//! Usage: `cargo run -p packstone-index --example edit -- .git/index docs`

use std::path::PathBuf;

use hashfile::lock::{LockFile, Options};
use object::HashKind;
use packstone_index::file::{IndexFile, SaveOptions, save};
use packstone_index::source::ByteSource;
use packstone_index::{Bump, Flags, ReadOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(path), Some(dir)) = (args.next().map(PathBuf::from), args.next()) else { return Err("INDEX DIR".into()) };

    // Locked before it is read, so that nobody replaces it in between. Given up again if anything fails from here on.
    let lock = LockFile::acquire(&path, &Options::default())?;
    let file = IndexFile::open(&path, ByteSource::Auto)?.ok_or("no such index")?;
    let arena = Bump::new();
    let mut index = file.read(&arena, &ReadOptions::new(HashKind::Sha1))?;

    let below = index.prefix(&[dir.as_encoded_bytes(), b"/"].concat());
    for at in below.clone() {
        let Some(entry) = index.get(at) else { break };
        index.set_flags(at, Flags { skip_worktree: true, ..entry.flags() });
    }
    if index.is_changed() {
        save(&mut index, lock, &SaveOptions::default())?;
    }
    println!("{} of {} files are left out", below.len(), index.len());
    Ok(())
}
