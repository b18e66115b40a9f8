//! What a hashing thread gains: 300 MB in runs from memory to `/dev/null`, a pipe, a file; hashed here, on a thread with
//! copies, on a scoped thread with loans; beside hashing and writing alone.
//!
//! Usage: `cargo run --release -p packstone-hashfile --example overlap -- [RUN_BYTES]`

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use object::{Checksum, HashKind};
use packstone_hashfile::{HashFile, Options};

const TOTAL: usize = 300_000_000;
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let run: usize = std::env::args().nth(1).map_or(Ok(4_000_000), |text| text.parse())?;
    let source: Vec<u8> = (0..TOTAL as u64).step_by(8).flat_map(|i| (i * 0x9e37_79b9).to_le_bytes()).collect();
    let source = &source[..TOTAL];
    let temp = tempfile::tempdir()?;
    let path = temp.path().join("out");

    let hash = median(|| {
        let mut sum = Checksum::new(HashKind::Sha1);
        sum.update(source);
        std::hint::black_box(sum.finish());
        Ok(())
    })?;
    println!("runs of {run} bytes; hashing alone {hash:.1} ms\n");
    println!("| sink | write alone | hashed here | thread, copied | scoped thread, lent |\n|---|---|---|---|---|");
    for name in ["/dev/null", "pipe", "file"] {
        let open = || -> io::Result<(Box<dyn Write>, Option<Child>)> {
            Ok(match name {
                "pipe" => {
                    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
                    let pipe = child.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
                    (Box::new(pipe), Some(child))
                }
                "file" => {
                    let _ = std::fs::remove_file(&path);
                    (Box::new(File::create_new(&path)?), None)
                }
                name => (Box::new(OpenOptions::new().write(true).open(name)?), None),
            })
        };
        let time = |threaded: bool, lent: bool, skip: bool| {
            median(|| {
                let (file, child) = open()?;
                let options = Options::default().hash_on_thread(threaded).skip_hash(skip);
                std::thread::scope(|scope| {
                    let mut out = HashFile::scoped(scope, file, HashKind::Sha1, &options);
                    for run in source.chunks(run) {
                        match lent {
                            true => out.write_shared(run)?,
                            false => out.write_all(run)?,
                        }
                    }
                    out.finish().map_err(io::Error::from)
                })?;
                child.map_or(Ok(()), |mut child| child.wait().map(drop))
            })
        };
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} |",
            time(false, false, true)?,
            time(false, false, false)?,
            time(true, false, false)?,
            time(true, true, false)?,
        );
    }
    Ok(())
}

fn median(mut step: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        step()?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok(Duration::as_secs_f64(&times[ROUNDS / 2]) * 1e3)
}
