//! `bench receive`: packs taken in and checked, beside git, row by row.
//!
//! Both programs do the same work, alternating, in one run, each in a repository of its own that is made anew before its turn;
//! whole processes are timed. Before a row is timed, what both leave is compared: the lines they print, the names of
//! all files below `objects`, and the bytes of indexes. A difference ends the run.
//!
//! The packs are made once and kept in a cache folder; the user's own repository is only read.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::args::Args;
use crate::demo::{build_program, fresh};
use crate::gen_repo::{self, Spec};
use crate::git::{Git, Hash, files_in, pack_count};
use crate::json::Json;
use crate::measure::{Job, Meter, Sink};
use crate::pairs::{self, Pairs, Who};
use crate::serve::{fnv, host, once};
use crate::sh::{Sh, quiet_feed, quiet_read, root, target};
use crate::table::layout;
use crate::{Context as _, Result, fail};

/// Goes into the names of cached folders: raise it when their preparation changes.
const LAYOUT: u32 = 1;

/// A fetch that is unpacked has about as many objects, if the repository has.
const FETCH: usize = 48_000;

struct Options {
    repo: Option<PathBuf>,
    spec: Spec,
    git: OsString,
    program: Option<PathBuf>,
    cache: PathBuf,
    json: Option<PathBuf>,
    runs: usize,
    only: Option<String>,
}

pub(crate) fn run(sh: Sh, mut args: Args) -> Result<()> {
    let path = |value: Option<OsString>| -> Result<Option<PathBuf>> {
        value.map(std::path::absolute).transpose().context(|| "absolute path".to_owned())
    };
    let options = Options {
        repo: path(args.value("--repo")?)?,
        git: args.value("--git")?.unwrap_or_else(|| "git".into()),
        program: path(args.value("--program")?)?,
        cache: path(args.value("--cache")?)?.unwrap_or_else(|| target().join("xtask/bench-receive")),
        json: path(args.value("--json")?)?,
        runs: args.parsed("--runs")?.unwrap_or(5),
        only: args.parsed("--only")?,
        spec: Spec::from_args(&mut args)?,
    };
    args.finish()?;
    if options.runs == 0 {
        return fail("--runs must be at least 1".to_owned());
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build_program(sh)?,
    };
    if !sh.dry_run {
        fs::create_dir_all(&options.cache).context(|| format!("create {}", options.cache.display()))?;
    }
    let git = Git::new(sh, &options.git, &options.cache, None)?;
    let inputs = Inputs::prepare(sh, &git, &options)?;
    if sh.dry_run {
        println!("(then each row is checked and timed)");
        return Ok(());
    }
    let meter = Meter::new(&options.cache)?;
    Bench { git_version: git.version()?, git, meter, options, inputs, program }.run()
}

/// The prepared packs.
struct Inputs {
    hash: Hash,
    /// A repository with everything in one pack.
    whole: PathBuf,
    pack: PathBuf,
    objects: usize,
    /// A pack of the newest objects, as a fetch brings it.
    fetch: PathBuf,
    fetched: usize,
    /// Repositories that have those objects, loose and packed.
    loose: PathBuf,
    packed: PathBuf,
}

impl Inputs {
    fn prepare(sh: Sh, git: &Git, options: &Options) -> Result<Inputs> {
        let slug = match &options.repo {
            Some(repo) => {
                let refs =
                    if sh.dry_run { String::new() } else { quiet_read(git.at(repo).args(["show-ref", "--head"]))? };
                let name = repo.file_name().unwrap_or_default().to_string_lossy().into_owned();
                format!("{name}-{:016x}", fnv(&format!("{}\n{refs}", repo.display())))
            }
            None => options.spec.slug(),
        };
        let folder = options.cache.join(format!("{slug}-v{LAYOUT}"));
        let whole = folder.join("whole.git");
        once(sh, &whole, |to| {
            match &options.repo {
                Some(repo) => git.copy_bare(sh, repo, to)?,
                None => drop(gen_repo::create(sh, git, to, &options.spec)?),
            }
            sh.run(git.at(to).args(["repack", "-a", "-d", "--quiet"]))
        })?;
        let mut inputs = Inputs {
            hash: Hash::Sha1,
            pack: PathBuf::new(),
            objects: 0,
            fetch: folder.join("fetch.pack"),
            fetched: 0,
            loose: folder.join("loose.git"),
            packed: folder.join("packed.git"),
            whole,
        };
        if !sh.dry_run {
            inputs.hash = git.hash_of(&inputs.whole)?;
            let packs = files_in(&inputs.whole.join("objects/pack"))?;
            let pack = packs.into_iter().find(|path| path.extension() == Some(OsStr::new("pack")));
            inputs.pack = match pack {
                Some(pack) => pack,
                None => return fail("the repository is empty".to_owned()),
            };
            inputs.objects = pack_count(&inputs.pack)?;
            if !inputs.fetch.exists() {
                inputs.cut(git)?;
            }
            inputs.fetched = pack_count(&inputs.fetch)?;
            let bytes = fs::read(&inputs.fetch).context(|| "read the fetched pack".to_owned())?;
            once(sh, &inputs.loose, |to| {
                init(git, inputs.hash, to)?;
                quiet_feed(git.at(to).args(["unpack-objects", "-q"]), &bytes).map(drop)
            })?;
            once(sh, &inputs.packed, |to| {
                init(git, inputs.hash, to)?;
                quiet_feed(git.at(to).args(["index-pack", "--stdin"]), &bytes).map(drop)
            })?;
        }
        Ok(inputs)
    }

    /// Makes the pack of the newest objects.
    fn cut(&self, git: &Git) -> Result<()> {
        let line = quiet_read(git.at(&self.whole).args(["rev-list", "--first-parent", "HEAD"]))?;
        let line: Vec<&str> = line.lines().collect();
        let count = |old: &str| -> Result<usize> {
            let not = format!("^{old}");
            let words = ["rev-list", "--objects", "--no-object-names", "HEAD", &not];
            Ok(quiet_read(git.at(&self.whole).args(words))?.lines().count())
        };
        // The nearest commit beyond which there are enough; the range is halved until it is found.
        let (mut low, mut high) = (0, line.len().saturating_sub(1));
        while low < high {
            let middle = usize::midpoint(low, high);
            match line.get(middle).map(|old| count(old)).transpose()?.is_some_and(|found| found < FETCH) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let wanted = match line.get(low) {
            Some(old) if low + 1 < line.len() => format!("HEAD\n^{old}\n"),
            _ => "HEAD\n".to_owned(),
        };
        let list = self.fetch.with_extension("revs");
        fs::write(&list, wanted).context(|| format!("write {}", list.display()))?;
        let open = |path: &Path| File::open(path).context(|| format!("open {}", path.display()));
        let mut command = git.at(&self.whole);
        command.args(["pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset"]).stdin(open(&list)?);
        let out = File::create(&self.fetch).context(|| format!("create {}", self.fetch.display()))?;
        let status = command.stdout(out).status().context(|| "start git".to_owned())?;
        if status.success() { Ok(()) } else { fail(format!("git pack-objects failed: {status}")) }
    }
}

fn init(git: &Git, hash: Hash, repo: &Path) -> Result<()> {
    let format = format!("--object-format={}", hash.name());
    quiet_read(git.command().args(["init", "--quiet", "--bare", &format]).arg(repo)).map(drop)
}

/// What a run starts from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Empty,
    Whole,
    Loose,
    Packed,
}

/// Work that both programs do.
struct Row {
    name: &'static str,
    args: Vec<OsString>,
    /// Words that only we understand.
    ours: &'static [&'static str],
    stdin: PathBuf,
    start: Start,
    objects: usize,
    goal: f64,
}

struct Bench {
    git: Git,
    meter: Meter,
    git_version: String,
    options: Options,
    inputs: Inputs,
    program: PathBuf,
}

impl Bench {
    fn rows(&self) -> Vec<Row> {
        let inputs = &self.inputs;
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let index = Row {
            name: "index-pack, everything",
            args: words(&["index-pack", "--stdin"]),
            ours: &[],
            stdin: inputs.pack.clone(),
            start: Start::Empty,
            objects: inputs.objects,
            goal: 4.0,
        };
        let unpack = |name, start, goal| Row {
            name,
            args: words(&["unpack-objects", "-q"]),
            ours: &[],
            stdin: inputs.fetch.clone(),
            start,
            objects: inputs.fetched,
            goal,
        };
        vec![
            Row {
                name: "index-pack, everything, --memory=128m",
                ours: &["--memory=128m"],
                args: index.args.clone(),
                stdin: index.stdin.clone(),
                goal: 3.0,
                ..index
            },
            index,
            Row {
                name: "verify-pack, everything",
                args: [words(&["verify-pack"]), vec![inputs.pack.clone().into_os_string()]].concat(),
                ours: &[],
                stdin: PathBuf::from("/dev/null"),
                start: Start::Whole,
                objects: inputs.objects,
                goal: 5.0,
            },
            unpack("unpack-objects, a fetch", Start::Empty, 3.0),
            unpack("unpack-objects, all there loose", Start::Loose, 4.0),
            unpack("unpack-objects, all there packed", Start::Packed, 4.0),
        ]
    }

    fn run(&self) -> Result<()> {
        let mut rows = self.rows();
        rows.retain(|row| self.options.only.as_ref().is_none_or(|only| row.name.contains(only)));
        if rows.is_empty() {
            return fail("--only matches no row".to_owned());
        }
        println!("\ngit {}, {} runs each\n", self.git_version, self.options.runs);
        let mut results = Vec::new();
        for row in &rows {
            let (git, ours) = (self.answer(row, Who::Git)?, self.answer(row, Who::Ours)?);
            if let Some((git, ours)) = git.iter().zip(&ours).find(|(git, ours)| git != ours) {
                return fail(format!("{}: git leaves {git}, we {ours}", row.name));
            }
            if git.len() != ours.len() {
                return fail(format!("{}: git leaves {} files, we {}", row.name, git.len(), ours.len()));
            }
            let result = Pairs::measure(self.options.runs, row.objects, |who| {
                let folder = self.start(row)?;
                let argv = self.argv(row, who);
                let job = Job { argv: &argv, folder: &folder, stdin: &row.stdin, sink: Sink::Null };
                self.meter.measure(&self.git, &job)
            })?;
            println!("- {}: {}", row.name, result.summary());
            results.push(result);
        }
        self.report(&rows, &results);
        match &self.options.json {
            Some(path) => {
                let json = self.json(&rows, &results);
                fs::write(path, format!("{json}\n")).context(|| format!("write {}", path.display()))
            }
            None => Ok(()),
        }
    }

    fn argv(&self, row: &Row, who: Who) -> Vec<OsString> {
        match who {
            Who::Git => [&[self.git.program().to_owned()], &row.args[..]].concat(),
            Who::Ours => {
                let ours: Vec<OsString> = row.ours.iter().map(OsString::from).collect();
                [&[self.program.clone().into_os_string()], &row.args[..], &ours].concat()
            }
        }
    }

    /// Where a run takes place.
    fn start(&self, row: &Row) -> Result<PathBuf> {
        Ok(match row.start {
            Start::Whole => self.inputs.whole.clone(),
            Start::Loose => self.inputs.loose.clone(),
            Start::Packed => self.inputs.packed.clone(),
            Start::Empty => {
                let folder = self.options.cache.join("work.git");
                fresh(Sh { dry_run: false }, &folder)?;
                init(&self.git, self.inputs.hash, &folder)?;
                folder
            }
        })
    }

    /// What a program prints and leaves: lines, names of files, digests of indexes.
    fn answer(&self, row: &Row, who: Who) -> Result<Vec<String>> {
        let folder = self.start(row)?;
        let argv = self.argv(row, who);
        let mut command = Command::new(&argv[0]);
        self.git.isolate(&mut command);
        let stdin = File::open(&row.stdin).context(|| format!("open {}", row.stdin.display()))?;
        command.args(&argv[1..]).current_dir(&folder).stdin(stdin).stderr(Stdio::inherit());
        let output = command.output().context(|| format!("start {}", argv[0].to_string_lossy()))?;
        if !output.status.success() {
            return fail(format!("{}: {} failed: {}", row.name, argv[0].to_string_lossy(), output.status));
        }
        let mut answer: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        let mut folders = vec![folder.join("objects")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).context(|| format!("read {}", folder.display()))? {
                let path = entry.context(|| format!("read {}", folder.display()))?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if matches!(path.extension().and_then(OsStr::to_str), Some("idx" | "rev")) {
                    let bytes = fs::read(&path).context(|| format!("read {}", path.display()))?;
                    answer.push(format!("{} {:x}", path.display(), fnv(&String::from_utf8_lossy(&bytes))));
                } else {
                    answer.push(path.display().to_string());
                }
            }
        }
        answer.sort();
        Ok(answer)
    }

    fn report(&self, rows: &[Row], results: &[Pairs]) {
        let cells: Vec<Vec<String>> =
            rows.iter().zip(results).map(|(row, result)| result.cells(row.name, row.goal)).collect();
        println!("\n{}\n\n{}", layout(&pairs::HEADER, &cells), pairs::LEGEND);
        let losses: Vec<String> = rows
            .iter()
            .zip(results)
            .flat_map(|(row, result)| {
                result.losses(row.goal).into_iter().map(move |loss| format!("lost: {}: {loss}", row.name))
            })
            .collect();
        match losses.is_empty() {
            true => println!("lost: nothing; every row reaches its goal."),
            false => println!("{}", losses.join("\n")),
        }
    }

    fn json(&self, rows: &[Row], results: &[Pairs]) -> Json {
        let commit = quiet_read(self.git.at(&root()).args(["rev-parse", "HEAD"])).unwrap_or_default();
        let name = match &self.options.repo {
            Some(repo) => repo.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            None => self.options.spec.slug(),
        };
        let rows = rows.iter().zip(results).map(|(row, result)| {
            let mut members = vec![("name", Json::text(row.name))];
            members.extend(result.json(row.goal));
            Json::Object(members)
        });
        Json::Object(vec![
            ("bench", Json::text("receive")),
            ("repository", Json::text(name)),
            ("hash", Json::text(self.inputs.hash.name())),
            ("git", Json::text(&self.git_version)),
            ("commit", Json::text(commit.trim())),
            ("host", Json::text(host())),
            ("rows", Json::List(rows.collect())),
        ])
    }
}
