//! Prints what the bitmaps by type in a `.bitmap` file hold: `cargo run --example bitmap_stats -- FILE`.
//!
//! The four bitmaps stand right after the header, which is 12 bytes and one hash (20 bytes here: SHA-1).

use packstone_ewah::{Ewah, Run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: bitmap_stats FILE.bitmap")?;
    let file = std::fs::read(path)?;
    let mut rest = file.get(12 + 20..).ok_or("shorter than a header")?;
    for name in ["commits", "trees", "blobs", "tags"] {
        let (bitmap, used) = Ewah::parse(rest)?;
        let fills = bitmap.runs().filter(|run| matches!(run, Run::Fill { .. })).count();
        println!(
            "{name}: {} of {} objects, {fills} runs, {} words compressed to {}",
            bitmap.count_ones(),
            bitmap.bit_len(),
            bitmap.word_len(),
            bitmap.compressed_words(),
        );
        rest = &rest[used..];
    }
    Ok(())
}
