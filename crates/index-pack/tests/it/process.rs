//! What only a process of its own can show: how much memory it took, and how it wrote.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use packstone_index_pack::{Destination, Options, receive, verify};
use testkit::Hash;
use testkit::io::Rng;
use testkit::pack::{Entry, Op, Pack, PackBuilder, delta};

use crate::support::options;

const DIR: &str = "PACKSTONE_TEST_DIR";
const MEMORY: &str = "PACKSTONE_TEST_MEMORY";
const THREADS: &str = "PACKSTONE_TEST_THREADS";

/// The other side: receives standard input, then verifies what it received, and tells the most memory it had.
#[test]
#[ignore = "run by the other tests, as a process of its own"]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let limits: Options = options(Hash::Sha1).memory(number(MEMORY)).threads(number(THREADS) as usize);
    let to = Destination::Directory(PathBuf::from(dir));
    let outcome = receive(&mut std::io::stdin().lock(), to, limits.clone()).unwrap();
    println!("received within {}", peak());
    verify(&outcome.pack, None, limits).unwrap();
    println!("verified within {}", peak());
}

/// The most memory this process had so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Runs the child on a stream that comes in pieces; what it printed.
fn run(mut command: Command, dir: &Path, stream: &[u8], memory: u64, threads: usize) -> String {
    let exe = std::env::current_exe().unwrap();
    command.arg(exe).args(["--exact", "process::child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(DIR, dir).env(MEMORY, memory.to_string()).env(THREADS, threads.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for piece in stream.chunks(61_000) {
                if stdin.write_all(piece).is_err() {
                    return; // the child tells why
                }
            }
        });
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    })
}

fn env() -> Command {
    Command::new("env")
}

fn peaks(pack: &Pack, memory: u64, threads: usize) -> Vec<u64> {
    let dir = tempfile::tempdir().unwrap();
    let text = run(env(), dir.path(), &pack.bytes, memory, threads);
    text.lines().filter_map(|line| line.split_once(" within ")?.1.parse().ok()).collect()
}

/// A large blob, whole, and of zeros: a thousand times what comes in.
fn zeros() -> Pack {
    PackBuilder::new(Hash::Sha1).entry(Entry::full("blob", &vec![0; 96 << 20]).level(1)).build()
}

/// Two megabytes, changed again and again, and for each of them a change that leads nowhere: 160 MiB in all, 80 deltas deep.
fn caterpillar() -> Pack {
    let size = 2 << 20;
    let copies: Vec<Op<'_>> = (1..32).map(|at| Op::Copy(at << 16, 0x1_0000)).collect();
    let program = |first: u8| {
        let fill = vec![first; 64];
        let mut ops: Vec<Op<'_>> = (0..1024).map(|_| Op::Insert(&fill)).collect();
        ops.extend(&copies);
        delta(size, size, &ops)
    };
    let mut pack = PackBuilder::new(Hash::Sha1).entry(Entry::full("blob", &vec![0; size as usize]).level(1));
    let mut last = 0;
    for at in 0..40u8 {
        pack = pack.entry(Entry::ofs_to(last, &program(2 * at))).entry(Entry::ofs_to(last, &program(2 * at + 1)));
        // The chain goes on from the first or the second, so that it is not always the same side that is deep.
        last = 2 * usize::from(at) + 1 + usize::from(at % 3 == 0);
    }
    pack.build()
}

/// Many small deltas: more than the budget keeps.
fn many() -> Pack {
    let base = Rng::new(3).bytes(4000);
    let mut pack = PackBuilder::new(Hash::Sha1).entry(Entry::full("blob", &base));
    let mut rng = Rng::new(4);
    for _ in 0..4000 {
        let text = rng.bytes(120);
        let ops: Vec<Op<'_>> = (0..60).map(|_| Op::Insert(&text)).collect();
        pack = pack.entry(Entry::ofs_to(0, &delta(4000, 7200, &ops)).level(1));
    }
    pack.build()
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads /proc")]
fn memory_stays_within_the_budget() {
    // The program itself, buffers on their way between threads, and what the allocator has not given back.
    let around = 36 << 20;
    for (name, pack) in [("zeros", zeros()), ("caterpillar", caterpillar()), ("many", many())] {
        for (memory, threads) in [(16 << 20, 1), (16 << 20, 2)] {
            let peaks = peaks(&pack, memory, threads);
            assert_eq!(peaks.len(), 2);
            for peak in peaks {
                assert!(peak > 1 << 20 && peak < memory + around, "{name}, {threads}: {} MiB", peak >> 20);
            }
        }
    }
}

/// Whatever the pipe yields, the pack is written in whole buffers.
#[test]
fn writes_are_whole_buffers() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no strace here");
        return;
    }
    let mut pack = PackBuilder::new(Hash::Sha1);
    let mut rng = Rng::new(9);
    for at in 0..300u64 {
        pack = pack.entry(Entry::full("blob", &rng.bytes(1000 + 17 * at as usize)).level(0));
    }
    let pack = pack.entry(Entry::full("blob", &rng.bytes(2 << 20)).level(0)).build();
    for threads in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::create_dir(dir.path().join("pack")).unwrap();
        let mut strace = Command::new("strace");
        strace.args(["-f", "-y", "-e", "trace=write,writev,pwrite64", "-o"]).arg(&log);
        run(strace, &dir.path().join("pack"), &pack.bytes, 64 << 20, threads);
        let log = std::fs::read_to_string(&log).unwrap();
        if log.contains("Operation not permitted") {
            eprintln!("skipped: strace may not trace here");
            return;
        }
        let writes = log.lines().filter(|line| line.contains("tmp_pack_")).count();
        let most = pack.bytes.len() / hashfile::DEFAULT_IO_BUFFER_SIZE + 4;
        assert!(writes > 0 && writes <= most, "{writes} writes of {} bytes, not {most}", pack.bytes.len());
    }
}
