//! `bench index`: the index library beside git and gix-index.
//!
//! Every figure is of one process that does one thing: git tells the time of its own region (trace2: `do_read_index`,
//! `do_write_index`), ours and gix-index's are small programs that time the same region, from opening the file to usable
//! entries and from the lock taken to the file closed. They take turns, in one run, the page cache warm. Every answer is
//! checked: the number of entries, and a digest over all modes, ids and paths; what was written, byte for byte or by git
//! reading it. A wrong answer voids the row.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Args;
use crate::git::Git;
use crate::json::Json;
use crate::measure::{self, Job, Meter, Sink};
use crate::serve::host;
use crate::sh::{Sh, cargo, quiet_read, root, target};
use crate::table::{layout, mebibytes};
use crate::{Context as _, Result, fail};

use files::{Entry, Files, Table, Variant, sizes, sync};

mod files;

/// Goals are for indexes that take a while; below, only what is slower than git is told.
const LARGE: u64 = 1_000_000;

/// Below, everything is done more often.
const SMALL: u64 = 100_000;
const SMALL_RUNS: usize = 4;

/// Our share of git's memory.
const MEMORY_GOAL: f64 = 0.6;

/// How much more an entry may cost in a larger index.
const GROWTH_GOAL: f64 = 1.25;

struct Options {
    sizes: Vec<u64>,
    only: Option<String>,
    runs: usize,
    json: Option<PathBuf>,
    git: OsString,
    cache: PathBuf,
}

pub(crate) fn run(sh: Sh, mut args: Args) -> Result<()> {
    let path = |value: Option<OsString>| -> Result<Option<PathBuf>> {
        value.map(std::path::absolute).transpose().context(|| "absolute path".to_owned())
    };
    let sizes = match (args.value("--entries")?, args.flag("--quick")) {
        (Some(list), _) => sizes(&list)?,
        (None, true) => vec![1, 10_000],
        (None, false) => vec![1, 10_000, 1_000_000, 3_000_000],
    };
    let options = Options {
        sizes,
        only: args.parsed("--only")?,
        runs: args.parsed("--runs")?.unwrap_or(5),
        json: path(args.value("--json")?)?,
        git: args.value("--git")?.unwrap_or_else(|| "git".into()),
        cache: path(args.value("--cache")?)?.unwrap_or_else(|| target().join("xtask/bench-index")),
    };
    let (program, gix) = (path(args.value("--program")?)?, path(args.value("--gix")?)?);
    let without_gix = args.flag("--no-gix");
    args.finish()?;
    if options.runs == 0 {
        return fail("--runs must be at least 1".to_owned());
    }
    let program = program.map_or_else(|| build_ours(sh), Ok)?;
    let gix = if without_gix { None } else { Some(gix.map_or_else(|| build_gix(sh), Ok)?) };
    if sh.dry_run {
        println!("(then index files are made, each row is timed and its answers are checked)");
        return Ok(());
    }
    fs::create_dir_all(&options.cache).context(|| format!("create {}", options.cache.display()))?;
    Bench::new(sh, options, program, gix)?.run()
}

fn build_ours(sh: Sh) -> Result<PathBuf> {
    let args = ["build", "--release", "--quiet", "--package", "packstone-index", "--example", "measure"];
    sh.run(cargo(&root()).args(args))?;
    Ok(target().join(format!("release/examples/measure{}", std::env::consts::EXE_SUFFIX)))
}

fn build_gix(sh: Sh) -> Result<PathBuf> {
    let built = target().join("bench-gix-index");
    let manifest = Path::new("bench/gix-index/Cargo.toml");
    let args = ["build", "--release", "--quiet", "--locked", "--manifest-path"];
    sh.run(cargo(&root()).args(args).arg(manifest).arg("--target-dir").arg(&built))?;
    Ok(built.join(format!("release/packstone-bench-gix-index{}", std::env::consts::EXE_SUFFIX)))
}

/// What is done with an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Read,
    /// With the checksum verified, which git never does when it reads.
    ReadChecked,
    /// Not mapped.
    ReadHeap,
    /// And each entry looked at: we leave some of the work until then. The others' side is their reading.
    Visit,
    /// Opening and one look-up, beside git's reading of the whole.
    View,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    work: Work,
    variant: Variant,
    threads: usize,
}

/// How many times as fast as the others we want to be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Goals {
    git: Option<f64>,
    gix: Option<f64>,
}

impl Row {
    fn name(&self) -> String {
        let what = match self.work {
            Work::Read => "read",
            Work::ReadChecked => "read and verify",
            Work::ReadHeap => "read, not mapped",
            Work::Visit => "read and visit all",
            Work::View => "view, one look-up",
            Work::Write => "write",
        };
        match self.work {
            Work::View => format!("{what}, {}", self.variant.name()),
            _ => format!("{what}, {}, {} thread{}", self.variant.name(), self.threads, &"s"[self.threads % 2..]),
        }
    }

    /// What the project has set itself for large indexes.
    fn goals(&self) -> Goals {
        let (git, gix) = match (self.work, self.threads) {
            (Work::Read, _) => (Some(5.0), Some(3.0)),
            (Work::ReadChecked, 2) => (None, Some(2.0)),
            (Work::ReadChecked | Work::ReadHeap | Work::Visit, _) => (None, None),
            (Work::View, _) => match self.variant {
                // Half of all entries are in each block, and each path builds on all in front of it in its block.
                Variant { v4: true, table: Table::Git, .. } | Variant { table: Table::None, .. } => {
                    (Some(100.0 / 15.0), None)
                }
                _ => (Some(100.0), None),
            },
            (Work::Write, 1) => (Some(2.0), None),
            (Work::Write, _) => (Some(3.5), Some(2.5)),
        };
        Goals { git, gix }
    }

    /// gix-index writes neither version 4, nor offset tables, nor the untracked cache; it has no view.
    fn gix_can(&self) -> bool {
        match self.work {
            Work::Read | Work::ReadChecked | Work::Visit => true,
            Work::ReadHeap | Work::View => false,
            Work::Write => Variant { tree: false, ..self.variant } == Variant::BARE,
        }
    }

    /// Growth with the number of entries is to be linear.
    fn grows(&self) -> bool {
        self.work != Work::View || self.variant.table == Table::None
    }
}

/// The rows of a size. Small indexes have no offset tables; of the largest, a selection tells how time grows.
fn rows(entries: u64) -> Vec<Row> {
    let bare = Variant::BARE;
    let tree = Variant { tree: true, ..bare };
    let both = Variant { untracked: true, ..tree };
    let contents = match entries {
        SMALL..=LARGE => vec![bare, tree, Variant { untracked: true, ..bare }, both],
        _ => vec![bare, both],
    };
    let tables: &[Table] = if entries < 1000 { &[Table::None] } else { &[Table::None, Table::Git] };
    let threads: &[usize] = if entries < 1000 { &[1] } else { &[1, 2] };
    let v4 = |variant: Variant, v4| Variant { v4, ..variant };
    let mut rows = Vec::new();
    let mut add = |work, variant, threads: &[usize]| {
        rows.extend(threads.iter().map(|&threads| Row { work, variant, threads }));
    };
    for version in [false, true] {
        for &content in &contents {
            for &table in tables {
                add(Work::Read, Variant { table, ..v4(content, version) }, threads);
            }
        }
        add(Work::ReadChecked, v4(bare, version), threads);
    }
    add(Work::ReadHeap, bare, &[1]);
    for version in [false, true] {
        add(Work::Visit, v4(bare, version), &[1]);
    }
    // git's side is the faster one, with two threads.
    let sides = threads.get(threads.len() - 1..).unwrap_or_default();
    add(Work::View, both, sides);
    if entries >= 1000 {
        for version in [false, true] {
            for table in [Table::Git, Table::Many, Table::Own] {
                add(Work::View, Variant { table, ..v4(both, version) }, sides);
            }
        }
    }
    for variant in [bare, tree, both, v4(bare, true), v4(both, true)] {
        add(Work::Write, variant, threads);
    }
    rows
}

/// What a measuring program says about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    seconds: f64,
    entries: u64,
    digest: u64,
    peak_kib: u64,
    writes: u64,
}

impl Sample {
    fn from_line(line: &str) -> Option<Sample> {
        let fields: BTreeMap<&str, &str> = line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        let number = |name| fields.get(name)?.parse::<u64>().ok();
        Some(Sample {
            seconds: number("ns")? as f64 / 1e9,
            entries: number("entries")?,
            digest: u64::from_str_radix(fields.get("digest")?, 16).ok()?,
            peak_kib: number("peak_kib")?,
            writes: number("writes")?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Ours,
    Git,
    Gix,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Ours => "ours",
            Side::Git => "git",
            Side::Gix => "gix-index",
        }
    }
}

#[derive(Default)]
struct Measured {
    samples: BTreeMap<Side, Vec<Sample>>,
    /// Why a side's figures mean nothing.
    voids: BTreeMap<Side, String>,
    /// Bytes of the index.
    bytes: u64,
}

struct Bench {
    git: Git,
    /// The same, but what it does goes to a file.
    traced: Git,
    trace: PathBuf,
    meter: Meter,
    options: Options,
    program: PathBuf,
    gix: Option<PathBuf>,
}

impl Bench {
    fn new(sh: Sh, options: Options, program: PathBuf, gix: Option<PathBuf>) -> Result<Bench> {
        let git = Git::new(sh, &options.git, &options.cache, None)?;
        let home = options.cache.join("traced");
        fs::create_dir_all(&home).context(|| format!("create {}", home.display()))?;
        let traced = Git::new(sh, &options.git, &home, None)?;
        let trace = home.join("trace");
        let setting = |git: &Git, name: &str, value: &Path| {
            quiet_read(git.command().args(["config", "--global", name]).arg(value)).map(drop)
        };
        setting(&traced, "trace2.eventTarget", &trace)?;
        let meter = Meter::new(&options.cache)?;
        Ok(Bench { git, traced, trace, meter, options, program, gix })
    }

    fn run(&self) -> Result<()> {
        let version = self.git.version()?;
        println!("\ngit {version}, {} runs each, {}\n", self.options.runs, host());
        let wanted = |row: &Row, entries| {
            let name = format!("{entries} {}", row.name());
            self.options.only.as_ref().is_none_or(|only| name.contains(only))
        };
        let mut tables = Vec::new();
        for &entries in &self.options.sizes {
            let rows: Vec<Row> = rows(entries).into_iter().filter(|row| wanted(row, entries)).collect();
            if rows.is_empty() {
                continue;
            }
            let files = Files::new(&self.git, &self.program, &self.options.cache, entries)?;
            let mut results = Vec::new();
            for row in rows {
                let result = self.row(&files, &row)?;
                println!("- {entries} {}: {}", row.name(), result.summary());
                results.push((row, result));
            }
            tables.push((entries, results));
        }
        if tables.is_empty() {
            return fail("--only matches no row".to_owned());
        }
        for (entries, results) in &tables {
            let cells: Vec<_> = results.iter().map(|(row, result)| result.cells(row, *entries)).collect();
            println!("\n{}\n", layout(&[&[&*format!("{entries} entries")], &HEADER[..]].concat(), &cells));
        }
        println!("Ratios: median of pairs, smallest and largest pair, goal. Peak: largest resident memory.\n");
        let growth = growth(&tables);
        if !growth.is_empty() {
            let cells: Vec<_> = growth.iter().map(Growth::cells).collect();
            println!("{}\n", layout(&["time per entry", "smaller", "larger", "ours", "", "growth", "git"], &cells));
        }
        let losses = losses(&tables, &growth);
        for loss in &losses {
            println!("lost: {loss}");
        }
        if losses.is_empty() {
            println!("lost: nothing; every row reaches its goal.");
        }
        if let Some(path) = &self.options.json {
            let json = self.json(&version, &tables);
            fs::write(path, format!("{json}\n")).context(|| format!("write {}", path.display()))?;
        }
        let void = tables.iter().flat_map(|(_, results)| results).any(|(_, result)| !result.voids.is_empty());
        if void { fail("some answers were wrong; their rows are void".to_owned()) } else { Ok(()) }
    }

    fn row(&self, files: &Files<'_>, row: &Row) -> Result<Measured> {
        let file = files.get(row.variant)?;
        let bytes = fs::metadata(&file).context(|| format!("look at {}", file.display()))?.len();
        let mut result = Measured { bytes, ..Measured::default() };
        let mut sides = vec![Side::Ours, Side::Git];
        sides.extend(self.gix.as_ref().filter(|_| row.gix_can()).map(|_| Side::Gix));
        // What takes microseconds needs more of them. One round more than is counted warms the caches.
        let runs = if files.entries() < SMALL { SMALL_RUNS * self.options.runs } else { self.options.runs };
        for round in 0..=runs {
            for _ in 0..sides.len() {
                // Who goes first changes, so that what the one before leaves in caches favours nobody.
                sides.rotate_left(1);
                let Some(&side) = sides.last().filter(|side| !result.voids.contains_key(side)) else { continue };
                match self.once(files, &file, row, side) {
                    Ok(sample) if round > 0 => result.samples.entry(side).or_default().push(sample),
                    Ok(_) => {}
                    Err(failure) if side == Side::Git => return Err(failure),
                    Err(failure) => {
                        result.voids.insert(side, failure.to_string());
                    }
                }
            }
            sides.rotate_left(1);
        }
        result.samples.retain(|side, _| !result.voids.contains_key(side));
        Ok(result)
    }

    /// One process, its answer checked.
    fn once(&self, files: &Files<'_>, file: &Path, row: &Row, side: Side) -> Result<Sample> {
        let sample = match side {
            Side::Git => self.git_once(files, file, row)?,
            Side::Ours => self.program_once(&self.program, files, file, row)?,
            Side::Gix => match &self.gix {
                Some(gix) => self.program_once(gix, files, file, row)?,
                None => return fail("no program for gix-index".to_owned()),
            },
        };
        let digest = match (side, row.work) {
            (Side::Git, _) => sample.digest,
            (_, Work::View) => sought(files.entries()).digest(),
            _ => files.digest(),
        };
        if sample.entries != files.entries() {
            return fail(format!("{} entries instead of {}", sample.entries, files.entries()));
        }
        if sample.digest != digest {
            return fail("other entries than git's".to_owned());
        }
        if row.work == Work::Write {
            self.check_written(files, file, side)?;
        }
        Ok(sample)
    }

    fn git_once(&self, files: &Files<'_>, file: &Path, row: &Row) -> Result<Sample> {
        files.place(file)?;
        let threads = format!("index.threads={}", row.threads);
        let mut argv: Vec<OsString> = vec![self.options.git.clone(), "-c".into(), threads.into()];
        let (region, count) = match row.work {
            Work::Write => {
                // More than one thread would make it write the table that this file does not have.
                argv.extend(
                    ["-c", "index.recordOffsetTable=false", "-c", "index.recordEndOfIndexEntries=false"]
                        .map(Into::into),
                );
                argv.extend(["update-index", "--force-write-index"].map(Into::into));
                ("do_write_index", "write/cache_nr")
            }
            _ => {
                argv.extend(["ls-files", "--", "no-such-path"].map(Into::into));
                ("do_read_index", "read/cache_nr")
            }
        };
        let _ = fs::remove_file(&self.trace);
        let work = files.work();
        let job = Job { argv: &argv, folder: &work, stdin: "/dev/null".as_ref(), sink: Sink::Null };
        let cost = self.meter.measure(&self.traced, &job)?;
        let trace = fs::read_to_string(&self.trace).context(|| format!("read {}", self.trace.display()))?;
        match (region_seconds(&trace, region), traced_number(&trace, count)) {
            (Some(seconds), Some(entries)) => {
                Ok(Sample { seconds, entries, digest: 0, peak_kib: cost.peak_kib, writes: 0 })
            }
            _ => fail(format!("git's trace has no region {region}")),
        }
    }

    fn program_once(&self, program: &Path, files: &Files<'_>, file: &Path, row: &Row) -> Result<Sample> {
        let mut command = Command::new(program);
        let (mode, more): (_, &[&str]) = match row.work {
            Work::Read => ("read", &[]),
            Work::ReadChecked => ("read", &["--checksum"]),
            Work::ReadHeap => ("read", &["--heap"]),
            Work::Visit => ("read", &["--visit"]),
            Work::View => ("view", &["--path"]),
            Work::Write => ("write", &["--checksum", "--out"]),
        };
        command.arg(mode).arg(file).args(more);
        match row.work {
            Work::View => {
                command.arg(sought(files.entries()).path);
            }
            Work::Write => {
                files.clear()?;
                command.arg(files.index()).args(["--threads", &row.threads.to_string()]);
            }
            _ => {
                command.args(["--threads", &row.threads.to_string()]);
            }
        }
        let line = quiet_read(&mut command)?;
        Sample::from_line(&line).ok_or_else(|| format!("cannot understand '{}'", line.trim()).into())
    }

    /// What was written is what was read: the same bytes, or at least git finds the same entries in it.
    fn check_written(&self, files: &Files<'_>, file: &Path, side: Side) -> Result<()> {
        let read = |path: &Path| fs::read(path).context(|| format!("read {}", path.display()));
        let index = files.index();
        let same = read(file)? == read(&index)?;
        // What is written next must not wait for these pages.
        sync(&index)?;
        match side {
            _ if same => Ok(()),
            Side::Git => fail(format!("git writes {} otherwise than it did", file.display())),
            Side::Ours => fail("not the bytes that git writes".to_owned()),
            Side::Gix => files.check(),
        }
    }

    fn json(&self, version: &str, tables: &[Results]) -> Json {
        let commit = quiet_read(self.git.at(&root()).args(["rev-parse", "HEAD"])).unwrap_or_default();
        let rows =
            tables.iter().flat_map(|(entries, results)| results.iter().map(|(row, result)| result.json(row, *entries)));
        Json::Object(vec![
            ("bench", Json::text("index")),
            ("git", Json::text(version)),
            ("commit", Json::text(commit.trim())),
            ("host", Json::text(host())),
            ("runs", Json::Number(self.options.runs as f64)),
            ("rows", Json::List(rows.collect())),
        ])
    }
}

/// The rows of one size, with what was measured.
type Results = (u64, Vec<(Row, Measured)>);

/// The entry that is looked up: far behind, but not the last.
fn sought(entries: u64) -> Entry {
    Entry::new(entries * 7 / 10)
}

const HEADER: [&str; 10] =
    ["ours", "git", "git / ours", "goal", "gix", "gix / ours", "goal", "ours peak", "git peak", "gix peak"];

impl Measured {
    fn of(&self, side: Side) -> &[Sample] {
        self.samples.get(&side).map_or(&[], Vec::as_slice)
    }

    fn seconds(&self, side: Side) -> f64 {
        measure::median(self.of(side).iter().map(|sample| sample.seconds))
    }

    fn peak(&self, side: Side) -> u64 {
        self.of(side).iter().map(|sample| sample.peak_kib).max().unwrap_or(0)
    }

    /// How much longer a side took than we did, pair by pair.
    fn ratios(&self, side: Side) -> Vec<f64> {
        let pairs = self.of(side).iter().zip(self.of(Side::Ours));
        pairs.map(|(theirs, ours)| theirs.seconds / ours.seconds).collect()
    }

    fn ratio(&self, side: Side) -> Option<f64> {
        Some(measure::median(self.ratios(side))).filter(|ratio| !ratio.is_nan())
    }

    fn summary(&self) -> String {
        let mut words: Vec<String> = self
            .samples
            .keys()
            .map(|&side| match self.ratio(side).filter(|_| side != Side::Ours) {
                Some(ratio) => format!("{} {} ({ratio:.2}x)", time(self.seconds(side)), side.name()),
                None => format!("{} {}", time(self.seconds(side)), side.name()),
            })
            .collect();
        words.extend(self.voids.iter().map(|(side, why)| format!("VOID: {}: {why}", side.name())));
        words.join(", ")
    }

    fn cells(&self, row: &Row, entries: u64) -> Vec<String> {
        let goals = if entries < LARGE { Goals::default() } else { row.goals() };
        let goal = |goal: Option<f64>| goal.map_or(String::new(), |goal| format!("{goal:.1}x"));
        let seconds = |side| match (self.of(side), self.voids.contains_key(&side)) {
            (_, true) => "void".to_owned(),
            ([], false) => "-".to_owned(),
            _ => time(self.seconds(side)),
        };
        let ratio = |side| match self.ratio(side) {
            Some(ratio) => {
                let (low, high) = measure::spread(self.ratios(side));
                format!("{ratio:.2}x ({low:.2}-{high:.2})")
            }
            None => "-".to_owned(),
        };
        let peak = |side| mebibytes(self.peak(side));
        vec![
            row.name(),
            seconds(Side::Ours),
            seconds(Side::Git),
            ratio(Side::Git),
            goal(goals.git),
            seconds(Side::Gix),
            ratio(Side::Gix),
            goal(goals.gix),
            peak(Side::Ours),
            peak(Side::Git),
            peak(Side::Gix),
        ]
    }

    fn losses(&self, row: &Row, entries: u64) -> Vec<String> {
        let mut losses: Vec<String> =
            self.voids.iter().map(|(side, why)| format!("void for {}: {why}", side.name())).collect();
        let goals = if entries < LARGE { Goals::default() } else { row.goals() };
        for (side, goal) in [(Side::Git, goals.git), (Side::Gix, goals.gix)] {
            match (self.ratio(side), goal) {
                // git would have to do as much.
                (Some(_), None) if side == Side::Git && row.work == Work::ReadChecked => {}
                (Some(ratio), _) if ratio < 1.0 => losses.push(format!("slower than {} ({ratio:.2}x)", side.name())),
                (Some(ratio), Some(goal)) if ratio < goal => {
                    losses.push(format!("{ratio:.2}x {} is below the goal of {goal:.1}x", side.name()));
                }
                _ => {}
            }
        }
        let (ours, git) = (self.peak(Side::Ours) as f64, self.peak(Side::Git) as f64);
        let share = ours / git;
        if entries >= LARGE && row.work != Work::Write && share > MEMORY_GOAL {
            losses.push(format!("{:.0} % of git's memory, more than {:.0} %", share * 100.0, MEMORY_GOAL * 100.0));
        }
        let writes = self.of(Side::Ours).iter().map(|sample| sample.writes).max().unwrap_or(0);
        let limit = most_writes(self.bytes);
        if row.work == Work::Write && writes > limit {
            losses.push(format!("{writes} calls of write, more than {limit}"));
        }
        losses
    }

    fn json(&self, row: &Row, entries: u64) -> Json {
        let number = |value: Option<f64>| Json::Number(value.unwrap_or(f64::NAN));
        let goals = row.goals();
        let mut members = vec![
            ("name", Json::text(row.name())),
            ("entries", Json::Number(entries as f64)),
            ("bytes", Json::Number(self.bytes as f64)),
            ("threads", Json::Number(row.threads as f64)),
            ("git_goal", number(goals.git.filter(|_| entries >= LARGE))),
            ("gix_goal", number(goals.gix.filter(|_| entries >= LARGE))),
            ("git_ratio", number(self.ratio(Side::Git))),
            ("gix_ratio", number(self.ratio(Side::Gix))),
            (
                "ours_writes",
                Json::Number(self.of(Side::Ours).iter().map(|sample| sample.writes).max().unwrap_or(0) as f64),
            ),
        ];
        let sides = [
            (Side::Ours, "ours_seconds", "ours_peak_kib"),
            (Side::Git, "git_seconds", "git_peak_kib"),
            (Side::Gix, "gix_seconds", "gix_peak_kib"),
        ];
        for (side, seconds, peak) in sides {
            members.push((seconds, Json::numbers(self.of(side).iter().map(|sample| sample.seconds))));
            members.push((peak, Json::Number(self.peak(side) as f64)));
        }
        members.push((
            "void",
            Json::List(self.voids.iter().map(|(side, why)| Json::text(format!("{}: {why}", side.name()))).collect()),
        ));
        Json::Object(members)
    }
}

/// Full buffers, and one call each for what is left and for the trailer.
fn most_writes(bytes: u64) -> u64 {
    bytes / (128 * 1024) + 2
}

/// The same row at two large sizes.
struct Growth {
    name: String,
    sizes: [u64; 2],
    /// Nanoseconds per entry.
    ours: [f64; 2],
    git: [f64; 2],
}

impl Growth {
    fn factor([smaller, larger]: [f64; 2]) -> f64 {
        larger / smaller
    }

    fn cells(&self) -> Vec<String> {
        let ns = |value: f64| format!("{value:.1} ns");
        let [smaller, larger] = self.sizes.map(|size| size.to_string());
        let ours = self.ours.map(ns);
        let [first, second] = ours;
        let factors = [Growth::factor(self.ours), Growth::factor(self.git)].map(|factor| format!("{factor:.2}x"));
        let [own, git] = factors;
        vec![self.name.clone(), smaller, larger, first, second, own, git]
    }
}

fn growth(tables: &[Results]) -> Vec<Growth> {
    let mut large = tables.iter().filter(|(entries, _)| *entries >= LARGE);
    let Some((smaller, first)) = large.next() else { return Vec::new() };
    let mut found = Vec::new();
    for (larger, rows) in large {
        for (row, result) in rows.iter().filter(|(row, _)| row.grows()) {
            let Some((_, base)) = first.iter().find(|(other, _)| other == row) else { continue };
            let per_entry = |side| {
                [(base, smaller), (result, larger)].map(|(of, entries)| of.seconds(side) * 1e9 / *entries as f64)
            };
            let (ours, git) = (per_entry(Side::Ours), per_entry(Side::Git));
            found.push(Growth { name: row.name(), sizes: [*smaller, *larger], ours, git });
        }
    }
    found
}

fn losses(tables: &[Results], growth: &[Growth]) -> Vec<String> {
    let mut losses = Vec::new();
    for (entries, results) in tables {
        for (row, result) in results {
            losses.extend(
                result.losses(row, *entries).into_iter().map(|loss| format!("{entries} {}: {loss}", row.name())),
            );
        }
    }
    for row in growth {
        let factor = Growth::factor(row.ours);
        if factor > GROWTH_GOAL {
            losses.push(format!(
                "{} {}: an entry takes {factor:.2}x as long as in {}",
                row.sizes[1], row.name, row.sizes[0]
            ));
        }
    }
    losses
}

/// Seconds of a region in git's trace of events, the last if there are several.
fn region_seconds(trace: &str, label: &str) -> Option<f64> {
    let label = format!("\"label\":\"{label}\"");
    let leaves = |line: &&str| line.contains("\"event\":\"region_leave\"") && line.contains(&label);
    field(trace.lines().rfind(leaves)?, "t_rel")?.parse().ok()
}

/// A number that git tells in its trace.
fn traced_number(trace: &str, key: &str) -> Option<u64> {
    let key = format!("\"key\":\"{key}\"");
    field(trace.lines().rfind(|line| line.contains(&key))?, "value")?.parse().ok()
}

/// A number of a JSON object without nested ones, with or without quotes.
fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}']).next().map(|value| value.trim_matches('"'))
}

/// Seconds in the unit that fits: from microseconds on.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1e-3 => format!("{:.1} us", seconds * 1e6),
        _ => format!("{:.2} ms", seconds * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"
{"event":"region_enter","nesting":1,"category":"index","label":"do_read_index","msg":".git/index"}
{"event":"data","t_abs":0.001733,"t_rel":0.001399,"nesting":2,"category":"index","key":"read/cache_nr","value":"20000"}
{"event":"region_leave","repo":1,"t_rel":0.001403,"nesting":1,"category":"index","label":"do_read_index","msg":".git/index"}
"#;

    #[test]
    fn the_region_is_found_in_gits_trace() {
        assert_eq!(region_seconds(TRACE, "do_read_index"), Some(0.001_403));
        assert_eq!(region_seconds(TRACE, "do_write_index"), None);
        assert_eq!(traced_number(TRACE, "read/cache_nr"), Some(20_000));
        assert_eq!(traced_number(TRACE, "write/cache_nr"), None);
    }

    #[test]
    fn what_programs_print_is_understood() {
        let line = "ns=1500000 entries=2 digest=00000000000000ff peak_kib=3 writes=4\n";
        let sample = Sample { seconds: 0.0015, entries: 2, digest: 255, peak_kib: 3, writes: 4 };
        assert_eq!(Sample::from_line(line), Some(sample));
        assert_eq!(Sample::from_line("ns=1 entries=2"), None);
        assert_eq!(Sample::from_line(""), None);
    }

    #[test]
    fn rows_cover_what_is_claimed() {
        let large = rows(LARGE);
        for (at, row) in large.iter().enumerate() {
            assert!(!large[..at].contains(row), "{} twice", row.name());
        }
        let has = |name: &str| large.iter().any(|row| row.name() == name);
        for version in ["v2", "v4"] {
            for content in ["", " TREE", " UNTR", " TREE UNTR"] {
                for table in ["", " IEOT"] {
                    assert!(has(&format!("read, {version}{content}{table}, 1 thread")));
                    assert!(has(&format!("read, {version}{content}{table}, 2 threads")));
                }
            }
            assert!(has(&format!("read and verify, {version}, 2 threads")));
            assert!(has(&format!("write, {version}, 2 threads")));
            assert!(has(&format!("view, one look-up, {version} TREE UNTR our-IEOT")));
        }
        let view_without_table =
            |row: &Row| row.work == Work::View && row.variant.v4 && row.variant.table == Table::None;
        assert!(!large.iter().any(view_without_table), "a version 4 file without table has no view");
        // What the largest have, the large have too: growth needs both.
        assert!(rows(3_000_000).iter().all(|row| large.contains(row)));
        assert!(rows(1).iter().all(|row| row.threads == 1 && row.variant.table == Table::None));
    }

    fn sample(seconds: f64, peak_kib: u64, writes: u64) -> Sample {
        Sample { seconds, entries: 1, digest: 0, peak_kib, writes }
    }

    fn measured(ours: Sample, git: Sample, gix: Option<Sample>) -> Measured {
        let mut samples = BTreeMap::from([(Side::Ours, vec![ours]), (Side::Git, vec![git])]);
        samples.extend(gix.map(|gix| (Side::Gix, vec![gix])));
        Measured { samples, voids: BTreeMap::new(), bytes: 1 << 20 }
    }

    const READ: Row = Row { work: Work::Read, variant: Variant::BARE, threads: 1 };
    const WRITE: Row = Row { work: Work::Write, variant: Variant::BARE, threads: 2 };

    #[test]
    fn losses_are_told() {
        let git = sample(5.0, 100, 0);
        let fine = measured(sample(1.0, 60, 0), git, Some(sample(3.0, 90, 0)));
        assert!(fine.losses(&READ, LARGE).is_empty());
        let lost = |ours, gix| measured(ours, git, gix).losses(&READ, LARGE);
        assert_eq!(lost(sample(2.0, 60, 0), None).len(), 1, "below the goal");
        assert_eq!(lost(sample(1.0, 61, 0), Some(sample(2.9, 90, 0))).len(), 2, "memory, and gix-index");
        let small = measured(sample(2.0, 90, 0), git, None);
        assert!(small.losses(&READ, 1000).is_empty(), "goals are for large indexes");
        assert_eq!(measured(sample(6.0, 1, 0), git, None).losses(&READ, 1).len(), 1, "slower than git");
        let verified = Row { work: Work::ReadChecked, ..READ };
        assert!(measured(sample(6.0, 1, 0), git, None).losses(&verified, 1).is_empty(), "git does not verify");
        assert!(measured(sample(1.0, 1, 10), git, None).losses(&WRITE, LARGE).is_empty());
        assert_eq!(measured(sample(1.0, 1, 11), git, None).losses(&WRITE, LARGE).len(), 1, "too many writes");
        let mut void = fine;
        void.voids.insert(Side::Ours, "other entries".to_owned());
        assert_eq!(void.losses(&READ, LARGE).len(), 1);
    }

    #[test]
    fn growth_is_per_entry() {
        let table = |entries: u64, seconds: f64| {
            (entries, vec![(READ, measured(sample(seconds, 1, 0), sample(9.0, 1, 0), None))])
        };
        let tables = [table(10, 1.0), table(LARGE, 1.0), table(3 * LARGE, 6.0)];
        let growth = growth(&tables);
        assert_eq!(growth.len(), 1);
        assert_eq!((growth[0].sizes, growth[0].ours), ([LARGE, 3 * LARGE], [1000.0, 2000.0]));
        assert_eq!(losses(&tables[1..], &growth).iter().filter(|loss| loss.contains("as long")).count(), 1);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time(0.000_012_34), "12.3 us");
        assert_eq!(time(0.123_456), "123.46 ms");
    }
}
