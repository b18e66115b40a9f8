//! Names files as git would: `cargo run --example name -- FILE...`

use std::{env, error::Error, fs};

use packstone_object::{HashKind, ObjectKind, object_id};

fn main() -> Result<(), Box<dyn Error>> {
    for path in env::args().skip(1) {
        let content = fs::read(&path)?;
        for hash in HashKind::ALL {
            println!("{hash} {} {path}", object_id(hash, ObjectKind::Blob, &content)?);
        }
    }
    Ok(())
}
