//! Which buffer size? Writes files of several sizes through buffers of 4 KiB to 4 MiB and into a mapping, and prints the
//! time and the calls of `write`. `cargo xtask bench hashfile` runs this.
//!
//! Usage: `cargo run --release -p packstone-hashfile --example sweep -- [--tsv] [--dir DIR] [--quick]`
//!
//! The content comes in pieces of 100 bytes, as the entries of an index do. Sizes are taken in turn, round after round, so
//! that a slow spell of the machine falls on all; the median of the rounds is printed. Nothing is synced: what is
//! measured is the way to the page cache.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use object::{Checksum, HashKind};
use packstone_hashfile::{HashFile, Options};

const PIECE: usize = 100;
const MIB: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Method {
    /// A buffer of this many bytes, and whether to hash on a second thread.
    Buffer(usize, bool),
    /// The file is extended to its final size, mapped, filled, unmapped.
    Mapping,
}

struct Row {
    file: usize,
    method: Method,
    hash: bool,
    times: Vec<Duration>,
    writes: u64,
}

/// Counts what reaches the system.
struct Counted(File, u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 += 1;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (mut tsv, mut quick, mut dir) = (false, false, std::env::temp_dir());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--tsv" => tsv = true,
            "--quick" => quick = true,
            "--dir" => dir = PathBuf::from(args.next().unwrap_or_else(|| usage())),
            _ => usage(),
        }
    }
    let temp = tempfile::tempdir_in(dir)?;
    let path = temp.path().join("out");
    let content: Vec<u8> = (0..256 * MIB as u64).step_by(8).flat_map(|i| (i * 0x9e37_79b9).to_le_bytes()).collect();
    let sizes = if quick { &[MIB][..] } else { &[MIB, 16 * MIB, 256 * MIB] };

    let mut rows = Vec::new();
    for &file in sizes {
        let first = rows.len();
        for hash in [true, false] {
            let buffers = (12..=22).map(|shift| Method::Buffer(1 << shift, false));
            let others = [Method::Mapping, Method::Buffer(128 << 10, true)];
            for method in buffers.chain(others) {
                if hash || method != others[1] {
                    rows.push(Row { file, method, hash, times: Vec::new(), writes: 0 });
                }
            }
        }
        let rounds = if quick { 3 } else { (256 * MIB / file).clamp(7, 31) };
        for round in 0..rounds {
            // From another start each time: what the system does now and then (writing back) must not meet the same row.
            let rows = &mut rows[first..];
            let start = round * 7 % rows.len();
            rows.rotate_left(start);
            for row in rows.iter_mut() {
                let (time, writes) = run(&path, &content[..file], row.method, row.hash)?;
                row.times.push(time);
                row.writes = writes;
            }
            rows.rotate_right(start);
        }
    }
    for row in &mut rows {
        row.times.sort_unstable();
    }
    print(&rows, tsv);
    Ok(())
}

fn usage() -> ! {
    eprintln!("usage: sweep [--tsv] [--quick] [--dir DIR]");
    std::process::exit(2)
}

fn run(path: &Path, content: &[u8], method: Method, hash: bool) -> io::Result<(Duration, u64)> {
    let _ = std::fs::remove_file(path);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    let started = Instant::now();
    let writes = match method {
        Method::Buffer(size, threaded) => {
            let options = Options::default().buffer_size(size).skip_hash(!hash).hash_on_thread(threaded);
            let mut out = HashFile::with_options(Counted(file, 0), HashKind::Sha1, &options);
            for piece in content.chunks(PIECE) {
                out.write_all(piece)?;
            }
            out.finish()?.0.1
        }
        Method::Mapping => {
            write_mapped(&file, content, hash)?;
            0
        }
    };
    Ok((started.elapsed(), writes))
}

fn write_mapped(file: &File, content: &[u8], hash: bool) -> io::Result<()> {
    let kind = HashKind::Sha1;
    file.set_len((content.len() + kind.len()) as u64)?;
    #[expect(unsafe_code, reason = "a mapping for comparison only; nobody else has the file")]
    // SAFETY: the file was created exclusively above, under a random directory, and is not cut while mapped.
    let mut map = unsafe { memmap2::MmapMut::map_mut(file)? };
    let mut sum = Checksum::new(kind);
    let (mut at, mut hashed) = (0, 0);
    for piece in content.chunks(PIECE) {
        map[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
        // Hashed while it is in the cache, as the buffer is.
        if hash && at - hashed >= 128 << 10 {
            sum.update(&map[hashed..at]);
            hashed = at;
        }
    }
    if hash {
        sum.update(&map[hashed..at]);
    }
    let id = if hash { sum.finish() } else { kind.null() };
    map[at..].copy_from_slice(id.as_bytes());
    Ok(())
}

fn print(rows: &[Row], tsv: bool) {
    if tsv {
        println!("file_mib\tmethod\tbuffer_kib\thash\tmedian_ms\tmin_ms\twrites");
    } else {
        println!("| file | method | hashed: ms | not hashed: ms | writes |\n|---|---|---|---|---|");
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    for row in rows {
        let (median, min) = (row.times[row.times.len() / 2], row.times[0]);
        let (name, kib) = match row.method {
            Method::Buffer(size, false) => ("buffer", size >> 10),
            Method::Buffer(size, true) => ("buffer, hashing thread", size >> 10),
            Method::Mapping => ("mapping", 0),
        };
        let file = row.file / MIB;
        if tsv {
            println!("{file}\t{name}\t{kib}\t{}\t{:.3}\t{:.3}\t{}", row.hash, ms(median), ms(min), row.writes);
        } else if row.hash {
            let plain = rows.iter().find(|r| r.file == row.file && r.method == row.method && !r.hash);
            let plain = plain.map_or(String::new(), |r| format!("{:.2}", ms(r.times[r.times.len() / 2])));
            let name = if kib > 0 { format!("{kib} KiB {name}") } else { name.into() };
            println!("| {file} MiB | {name} | {:.2} | {plain} | {} |", ms(median), row.writes);
        }
    }
}
