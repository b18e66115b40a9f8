//! Time and peak memory of other programs.
//!
//! The kernel keeps a peak only for all finished children of a process together. So each measured program is the only
//! child of a fresh copy of this one: `xtask run-measured`. The copy writes what it learned to a file.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::args::Args;
use crate::git::Git;
use crate::{Context as _, Result, fail};

/// What one run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Seconds from start to exit, set-up included: what a user waits for.
    pub(crate) wall: f64,
    /// Seconds of processor time, user and system, of all threads.
    pub(crate) cpu: f64,
    /// Largest resident set in KiB; 0 where the system does not tell.
    pub(crate) peak_kib: u64,
}

impl Cost {
    fn to_line(self) -> String {
        format!("{} {} {}\n", self.wall, self.cpu, self.peak_kib)
    }

    fn from_line(line: &str) -> Option<Cost> {
        let mut words = line.split_ascii_whitespace();
        let cost = Cost {
            wall: words.next()?.parse().ok()?,
            cpu: words.next()?.parse().ok()?,
            peak_kib: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(cost)
    }
}

/// Where a measured program's output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    /// `/dev/null`.
    Null,
    /// A pipe that is read and forgotten: what upload-pack does to a pack on its way out.
    Pipe,
    /// A fresh file.
    File(PathBuf),
}

impl Sink {
    fn to_word(&self) -> OsString {
        match self {
            Sink::Null => "null".into(),
            Sink::Pipe => "pipe".into(),
            Sink::File(path) => {
                let mut word = OsString::from("file:");
                word.push(path);
                word
            }
        }
    }

    fn from_word(word: &OsStr) -> Result<Sink> {
        match word.to_str() {
            Some("null") => Ok(Sink::Null),
            Some("pipe") => Ok(Sink::Pipe),
            Some(text) if text.starts_with("file:") => Ok(Sink::File(text["file:".len()..].into())),
            _ => fail(format!("no sink '{}'", word.to_string_lossy())),
        }
    }
}

/// One program to run and measure.
pub(crate) struct Job<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) folder: &'a Path,
    pub(crate) stdin: &'a Path,
    pub(crate) sink: Sink,
}

/// Measures programs with a copy of this one, so that a build of xtask meanwhile does not pull it away.
pub(crate) struct Meter {
    program: PathBuf,
    report: PathBuf,
}

impl Meter {
    /// Puts the copy into `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Meter> {
        let program = folder.join(format!("meter{}", std::env::consts::EXE_SUFFIX));
        std::env::current_exe()
            .and_then(|own| std::fs::copy(own, &program))
            .context(|| format!("copy this program to {}", program.display()))?;
        Ok(Meter { program, report: folder.join("meter-report") })
    }

    /// The copy.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Runs a job in git's isolated environment. A program that fails is an error: its time means nothing.
    pub(crate) fn measure(&self, git: &Git, job: &Job<'_>) -> Result<Cost> {
        let mut command = Command::new(&self.program);
        command.current_dir(job.folder).arg("run-measured").arg("--report").arg(&self.report);
        command.arg("--stdin").arg(job.stdin).arg("--sink").arg(job.sink.to_word()).arg("--").args(job.argv);
        git.isolate(&mut command);
        let output = command.output().context(|| "start the measuring process".to_owned())?;
        if !output.status.success() {
            let line: Vec<_> = job.argv.iter().map(|word| word.to_string_lossy()).collect();
            let said = String::from_utf8_lossy(&output.stderr);
            return fail(format!("{} failed: {}\n{}", line.join(" "), output.status, said.trim_end()));
        }
        let text = std::fs::read_to_string(&self.report).context(|| format!("read {}", self.report.display()))?;
        Cost::from_line(&text).ok_or_else(|| format!("no cost in {}", self.report.display()).into())
    }
}

/// `run-measured --report FILE --stdin FILE --sink SINK -- PROGRAM ARGS...`, hidden: the process between us and the
/// measured program.
pub(crate) fn run_measured(mut args: Args) -> Result<()> {
    let (Some(report), Some(stdin), Some(sink)) =
        (args.value("--report")?, args.value("--stdin")?, args.value("--sink")?)
    else {
        return fail("run-measured is for xtask itself".to_owned());
    };
    let argv = args.foreign();
    let stdin = std::fs::File::open(&stdin).context(|| format!("open {}", stdin.to_string_lossy()))?;
    let mut command = program(&argv)?;
    command.stdin(stdin);
    let sink = Sink::from_word(&sink)?;
    command.stdout(match &sink {
        Sink::Null => Stdio::null(),
        Sink::Pipe => Stdio::piped(),
        Sink::File(path) => std::fs::File::create(path).context(|| format!("create {}", path.display()))?.into(),
    });
    let (cost, code) = run_one(&mut command)?;
    std::fs::write(&report, cost.to_line()).context(|| "write the report".to_owned())?;
    if code == 0 { Ok(()) } else { fail(format!("exit code {code}")) }
}

/// `hook-measured FOLDER -- [PROGRAM ARGS...] git pack-objects ...`, hidden: what upload-pack runs as its
/// `packObjectsHook` during a demo. Keeps the request (arguments and standard input) in FOLDER, so that it can be run again, and its cost. The
/// files are the proof that a clone went through the hook.
pub(crate) fn hook_measured(mut args: Args) -> Result<i32> {
    let Some(folder) = args.positional().map(PathBuf::from) else {
        return fail("hook-measured is for xtask itself".to_owned());
    };
    let argv = args.foreign();
    let number = (0..10_000)
        .find(|n| std::fs::File::create_new(folder.join(format!("{n}.stdin"))).is_ok())
        .ok_or_else(|| format!("cannot write to {}", folder.display()))?;
    let file = |ending: &str| folder.join(format!("{number}.{ending}"));
    let mut request = Vec::new();
    std::io::stdin().read_to_end(&mut request).context(|| "read the request".to_owned())?;
    std::fs::write(file("stdin"), &request).context(|| "keep the request".to_owned())?;
    let words: Vec<&[u8]> = argv.iter().map(|word| word.as_encoded_bytes()).collect();
    std::fs::write(file("argv"), words.join(&0)).context(|| "keep the arguments".to_owned())?;
    let stdin = std::fs::File::open(file("stdin")).context(|| "open the request".to_owned())?;
    let (cost, code) = run_one(program(&argv)?.stdin(stdin))?;
    if code == 0 {
        std::fs::write(file("cost"), cost.to_line()).context(|| "write the cost".to_owned())?;
    }
    Ok(code)
}

/// A request that [`hook_measured`] kept.
pub(crate) struct Request {
    pub(crate) argv: Vec<OsString>,
    pub(crate) stdin: PathBuf,
}

/// Requests that went through the hook, oldest first. One that has no cost did not end well.
pub(crate) fn requests(folder: &Path) -> Result<Vec<Request>> {
    let mut found = Vec::new();
    for number in 0.. {
        let file = |ending: &str| folder.join(format!("{number}.{ending}"));
        if !file("stdin").exists() {
            break;
        }
        let text = std::fs::read_to_string(file("argv")).context(|| "read the kept arguments".to_owned())?;
        if !file("cost").exists() {
            return fail(format!("the hook failed: {}", text.replace('\0', " ")));
        }
        found.push(Request { argv: text.split('\0').map(OsString::from).collect(), stdin: file("stdin") });
    }
    Ok(found)
}

fn program(argv: &[OsString]) -> Result<Command> {
    let Some((program, args)) = argv.split_first() else {
        return fail("no program to run".to_owned());
    };
    let mut command = Command::new(program);
    command.args(args);
    Ok(command)
}

/// Runs the one child that this process has.
fn run_one(command: &mut Command) -> Result<(Cost, i32)> {
    let started = Instant::now();
    let mut child = command.spawn().context(|| format!("start {}", command.get_program().to_string_lossy()))?;
    if let Some(mut pipe) = child.stdout.take() {
        let mut buffer = vec![0; 1 << 16];
        while pipe.read(&mut buffer).context(|| "read the program's output".to_owned())? > 0 {}
    }
    let status = child.wait().context(|| "wait for the program".to_owned())?;
    let wall = started.elapsed().as_secs_f64();
    let (cpu, peak_kib) = children_usage();
    Ok((Cost { wall, cpu, peak_kib }, status.code().unwrap_or(128)))
}

#[cfg(unix)]
fn children_usage() -> (f64, u64) {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else {
        return (0.0, 0);
    };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    // Linux and the BSDs count KiB here, macOS bytes.
    let unit = if cfg!(target_os = "macos") { 1024 } else { 1 };
    let peak = u64::try_from(usage.max_rss()).unwrap_or(0) / unit;
    (seconds(usage.user_time()) + seconds(usage.system_time()), peak)
}

#[cfg(not(unix))]
fn children_usage() -> (f64, u64) {
    (0.0, 0)
}

/// The middle of some numbers; of an even count the mean of the two in the middle.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (Some(high), 0) => (high + sorted.get(middle.wrapping_sub(1)).unwrap_or(high)) / 2.0,
        (Some(middle), _) => *middle,
        (None, _) => f64::NAN,
    }
}

/// Smallest and largest of some numbers.
pub(crate) fn spread(numbers: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let start = (f64::INFINITY, f64::NEG_INFINITY);
    numbers.into_iter().fold(start, |(low, high), number| (low.min(number), high.max(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_survive_their_file() {
        let cost = Cost { wall: 1.25, cpu: 0.5, peak_kib: 4096 };
        assert_eq!(Cost::from_line(&cost.to_line()), Some(cost));
        assert_eq!(Cost::from_line("1 2"), None);
        assert_eq!(Cost::from_line("1 2 x"), None);
    }

    #[test]
    fn sinks_survive_the_command_line() {
        for sink in [Sink::Null, Sink::Pipe, Sink::File("/a b".into())] {
            assert_eq!(Sink::from_word(&sink.to_word()).unwrap(), sink);
        }
        assert!(Sink::from_word("elsewhere".as_ref()).is_err());
    }

    #[test]
    fn medians_and_spreads() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
        assert_eq!(spread([3.0, 1.0, 2.0]), (1.0, 3.0));
    }
}
