//! gix-index as a program that measures itself: the peer of `crates/index/examples/measure.rs`, with the same modes and the
//! same line of output, for `cargo xtask bench index`.
//!
//! Usage: packstone-bench-gix-index read|write FILE [--threads N] [--checksum] [--visit] [--out FILE]

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gix_index::{decode, write};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Options {
    file: PathBuf,
    out: Option<PathBuf>,
    threads: usize,
    checksum: bool,
    visit: bool,
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (Some(mode), Some(file)) = (args.next(), args.next()) else { return Err("read|write FILE".into()) };
    let mut options = Options { file: file.into(), out: None, threads: 1, checksum: false, visit: false };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--threads" => options.threads = value()?.parse()?,
            "--out" => options.out = Some(value()?.into()),
            "--checksum" => options.checksum = true,
            "--visit" => options.visit = true,
            _ => return Err(format!("unknown argument '{arg}'").into()),
        }
    }
    match mode.as_str() {
        "read" => {
            let started = Instant::now();
            let index = load(&options)?;
            if options.visit {
                let visited =
                    index.entries().iter().map(|entry| entry.path(&index).len() as u64 + u64::from(entry.mode.bits()));
                std::hint::black_box(visited.sum::<u64>());
            }
            report(started.elapsed(), &index, 0)
        }
        "write" => save(&options),
        _ => Err(format!("no mode '{mode}'").into()),
    }
}

fn load(options: &Options) -> Result<gix_index::File, Failure> {
    let decode = decode::Options { thread_limit: Some(options.threads), ..decode::Options::default() };
    Ok(gix_index::File::at(&options.file, gix_hash::Kind::Sha1, !options.checksum, decode)?)
}

/// What `gix_index::File::write` does, in its parts, for the region is git's: from the lock taken to the file closed.
fn save(options: &Options) -> Result<(), Failure> {
    let out = options.out.as_ref().ok_or("write needs --out")?;
    let index = load(options)?;
    let lock = out.with_extension("lock");
    let file = File::create_new(&lock)?;
    let started = Instant::now();
    // The size of the buffer is theirs.
    let mut buffer = BufWriter::with_capacity(64 * 1024, Counted(file, 0));
    index.write_to(&mut buffer, write::Options { skip_hash: !options.checksum, ..write::Options::default() })?;
    let Counted(file, writes) = buffer.into_inner()?;
    drop(file);
    let took = started.elapsed();
    fs::rename(&lock, out)?;
    report(took, &index, writes)
}

/// Counts what reaches the system.
#[derive(Debug)]
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

/// Peak memory is taken before the digest, which would touch more.
fn report(took: Duration, index: &gix_index::File, writes: u64) -> Result<(), Failure> {
    let peak = peak_kib();
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    for entry in index.entries() {
        let (mode, stage) = (entry.mode.bits(), entry.stage_raw());
        write!(digest, "{mode:06o} {} {stage}\t", entry.id)?;
        digest.write_all(entry.path(index))?;
        digest.write_all(&[0])?;
    }
    println!(
        "ns={} entries={} digest={:016x} peak_kib={peak} writes={writes}",
        took.as_nanos(),
        index.entries().len(),
        digest.0
    );
    Ok(())
}

/// FNV-1a over what `git ls-files -s -z` prints.
struct Digest(u64);

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The largest resident set so far; 0 where the system does not tell.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
