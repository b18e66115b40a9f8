//! This library as a program that measures itself, beside git and gix-index: `cargo xtask bench index` runs it, once per
//! measurement, so that the allocator is as cold as in a command that reads an index and does its work.
//!
//! Usage:
//!
//! - `measure read FILE [--threads N] [--checksum] [--heap] [--visit]`: from opening the file to usable entries and extensions,
//!   or to each entry seen.
//! - `measure view FILE --path PATH [--heap]`: opening and one look-up.
//! - `measure write FILE --out FILE [--threads N] [--checksum] [--offset-table ENTRIES]`: what git's region `do_write_index`
//!   covers, from the lock taken to the file closed; reading before and renaming after are not timed, nothing is synced.
//!
//! Prints a line of `name=value`: nanoseconds, entries, a digest of what was read (FNV-1a over what `git ls-files -s -z` would
//! print; of the one entry for a view), the largest resident memory in KiB, and how often `write` was called.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use object::HashKind;
use packstone_index::file::IndexFile;
use packstone_index::source::ByteSource;
use packstone_index::{Bump, Entry, Index, IndexView, ReadOptions, Stage, WriteOptions};

type Failure = Box<dyn std::error::Error>;

const KIND: HashKind = HashKind::Sha1;

struct Options {
    file: PathBuf,
    out: Option<PathBuf>,
    path: Option<String>,
    threads: usize,
    checksum: bool,
    visit: bool,
    source: ByteSource,
    offset_table: Option<u32>,
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (Some(mode), Some(file)) = (args.next(), args.next()) else { return Err("read|view|write FILE".into()) };
    let mut options = Options {
        file: file.into(),
        out: None,
        path: None,
        threads: 1,
        checksum: false,
        visit: false,
        source: ByteSource::Auto,
        offset_table: None,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--threads" => options.threads = value()?.parse()?,
            "--offset-table" => options.offset_table = Some(value()?.parse()?),
            "--out" => options.out = Some(value()?.into()),
            "--path" => options.path = Some(value()?),
            "--checksum" => options.checksum = true,
            "--visit" => options.visit = true,
            "--heap" => options.source = ByteSource::Heap,
            _ => return Err(format!("unknown argument '{arg}'").into()),
        }
    }
    if mode == "view" && options.source == ByteSource::Auto {
        options.source = ByteSource::OnDemand;
    }
    match mode.as_str() {
        "read" => read(&options),
        "view" => view(&options),
        "write" => write(&options),
        _ => Err(format!("no mode '{mode}'").into()),
    }
}

fn open(options: &Options) -> Result<IndexFile, Failure> {
    Ok(IndexFile::open(&options.file, options.source)?.ok_or("no such file")?)
}

fn read(options: &Options) -> Result<(), Failure> {
    let started = Instant::now();
    let file = open(options)?;
    let arena = Bump::new();
    let reading = ReadOptions::new(KIND).threads(options.threads).verify_checksum(options.checksum);
    let index = file.read(&arena, &reading)?;
    if options.visit {
        let sum = index.iter().map(|entry| entry.path().len() as u64 + u64::from(entry.mode().0)).sum::<u64>();
        std::hint::black_box(sum);
    }
    report_index(started.elapsed(), &index, 0)
}

fn view(options: &Options) -> Result<(), Failure> {
    let path = options.path.as_ref().ok_or("view needs --path")?;
    let started = Instant::now();
    let view = IndexView::open(&options.file, KIND, options.source)?.ok_or("no such file")?;
    let found = view.lookup(path.as_bytes(), Stage::Merged)?.ok_or("no such entry")?;
    let took = started.elapsed();
    let peak = peak_kib();
    let mut digest = Digest::new();
    digest.entry(found.entry())?;
    report(took, u64::from(view.len()), digest, peak, 0);
    Ok(())
}

fn write(options: &Options) -> Result<(), Failure> {
    let out = options.out.as_ref().ok_or("write needs --out")?;
    let file = open(options)?;
    let arena = Bump::new();
    let mut index = file.read(&arena, &ReadOptions::new(KIND).threads(options.threads))?;
    let lock = out.with_extension("lock");
    let target = File::create_new(&lock)?;
    let started = Instant::now();
    let writing = WriteOptions::default()
        .threads(options.threads)
        .skip_hash(!options.checksum)
        .offset_table(options.offset_table);
    let (Counted(target, writes), _) = index.write_to(Counted(target, 0), &writing)?;
    drop(target);
    let took = started.elapsed();
    fs::rename(&lock, out)?;
    report_index(took, &index, writes)
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

/// Peak memory is taken before the digest, which would touch more.
fn report_index(took: Duration, index: &Index<'_>, writes: u64) -> Result<(), Failure> {
    let peak = peak_kib();
    let mut digest = Digest::new();
    for entry in index.iter() {
        digest.entry(entry)?;
    }
    report(took, index.len() as u64, digest, peak, writes);
    Ok(())
}

fn report(took: Duration, entries: u64, digest: Digest, peak_kib: u64, writes: u64) {
    let (ns, digest) = (took.as_nanos(), digest.sum);
    println!("ns={ns} entries={entries} digest={digest:016x} peak_kib={peak_kib} writes={writes}");
}

struct Digest {
    sum: u64,
    line: String,
}

impl Digest {
    fn new() -> Digest {
        Digest { sum: 0xcbf2_9ce4_8422_2325, line: String::new() }
    }

    fn entry(&mut self, entry: Entry<'_>) -> Result<(), Failure> {
        self.line.clear();
        write!(self.line, "{:06o} {} {}\t", entry.mode().0, entry.id(), entry.stage() as u8)?;
        for &byte in self.line.as_bytes().iter().chain(entry.path()).chain(&[0]) {
            self.sum = (self.sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(())
    }
}

/// The largest resident set so far; 0 where the system does not tell.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
