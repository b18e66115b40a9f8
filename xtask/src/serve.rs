//! `bench serve`: `packstone pack-objects` beside `git pack-objects`, request by request.
//!
//! Both programs answer the same request in the same repository, alternating, in one run; whole processes are timed. Before
//! a row is timed its answer is checked: `git index-pack --strict` accepts it (for a pack on disk our `.idx` and `.rev`
//! equal git's byte for byte), and it holds exactly the ids of git's answer. A wrong answer ends the run.
//!
//! The repositories are made once and kept in a cache folder; the user's own is only read.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::demo::{build_program, fresh};
use crate::gen_repo::{self, Spec};
use crate::git::{Git, Hash, files_in};
use crate::json::Json;
use crate::measure::{Cost, Job, Meter, Sink};
use crate::pairs::{self, Pairs, Who};
use crate::sh::{Sh, quiet_read, target};
use crate::table::layout;
use crate::{Context as _, Result, fail};

/// Goes into the names of cached folders: raise it when their preparation changes.
const LAYOUT: u32 = 1;

struct Options {
    repo: Option<PathBuf>,
    spec: Spec,
    git: OsString,
    program: Option<PathBuf>,
    cache: PathBuf,
    json: Option<PathBuf>,
    runs: usize,
    threads: usize,
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
        cache: path(args.value("--cache")?)?.unwrap_or_else(|| target().join("xtask/bench")),
        json: path(args.value("--json")?)?,
        runs: args.parsed("--runs")?.unwrap_or(5),
        threads: args.parsed("--threads")?.unwrap_or(2),
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
        std::fs::create_dir_all(&options.cache).context(|| format!("create {}", options.cache.display()))?;
    }
    let git = Git::new(sh, &options.git, &options.cache, None)?;
    let repos = Repos::prepare(sh, &git, &options)?;
    if sh.dry_run {
        println!("(then each row is checked and timed)");
        return Ok(());
    }
    let meter = Meter::new(&options.cache)?;
    let bench = Bench { git_version: git.version()?, git, meter, options, repos, program };
    bench.run()
}

/// The prepared repositories.
struct Repos {
    hash: Hash,
    /// Everything in one pack with a bitmap.
    whole: PathBuf,
    /// The same and one commit more, under a ref that no request asks for.
    more: PathBuf,
    /// History up to `HEAD~later` in one pack with a bitmap, the rest in a second pack.
    grown: PathBuf,
    later: u64,
    first_parents: u64,
}

impl Repos {
    fn prepare(sh: Sh, git: &Git, options: &Options) -> Result<Repos> {
        let slug = match &options.repo {
            Some(repo) if sh.dry_run => repo.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Some(repo) => {
                let refs = quiet_read(git.at(repo).args(["show-ref", "--head"]))?;
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
                None => {
                    gen_repo::create(sh, git, to, &options.spec)?;
                    // fast-import only tries the blob before; a repository that lived for years is packed better.
                    sh.run(git.at(to).args(["repack", "-a", "-d", "-f", "--quiet"]))?;
                }
            }
            sh.run(git.at(to).args(["tag", "--force", "-a", "-m", "bench", "bench-tip", "HEAD"]))?;
            git.repack_bitmapped(sh, to)
        })?;
        if sh.dry_run {
            return Ok(Repos {
                hash: Hash::Sha1,
                more: whole.clone(),
                grown: whole.clone(),
                whole,
                later: 0,
                first_parents: 0,
            });
        }
        let first_parents = git.first_parents(&whole)?;
        let later = if first_parents > 2000 { 1000 } else { first_parents / 3 };
        let more = folder.join("more.git");
        once(sh, &more, |to| add_newest(sh, git, &whole, to))?;
        let grown = folder.join("grown.git");
        once(sh, &grown, |to| grow(sh, git, &whole, to, later))?;
        Ok(Repos { hash: git.hash_of(&whole)?, whole, more, grown, later, first_parents })
    }
}

/// Makes `to` by way of a temporary folder, unless it is there already: a broken preparation leaves nothing behind.
pub(crate) fn once(sh: Sh, to: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if to.exists() {
        return Ok(());
    }
    let part = to.with_extension("part");
    fresh(sh, &part)?;
    make(&part)?;
    if sh.dry_run {
        return Ok(());
    }
    std::fs::rename(&part, to).context(|| format!("rename {}", part.display()))
}

/// Copies `whole`, adds a commit that changes one file, packs all into one.
fn add_newest(sh: Sh, git: &Git, whole: &Path, to: &Path) -> Result<()> {
    git.copy_bare(sh, whole, to)?;
    let head = git.rev_parse(to, "HEAD")?;
    let stream = format!(
        "commit refs/bench/newest\ncommitter C O Mitter <committer@example.com> 1900000000 +0000\n\
         data 7\nnewest\nfrom {head}\nM 100644 inline bench-newest\ndata 7\nnewest\n\n"
    );
    sh.feed(git.at(to).args(["fast-import", "--quiet", "--date-format=raw"]), stream.as_bytes())?;
    git.repack_bitmapped(sh, to)
}

/// Packs history up to `HEAD~later` with a bitmap, then everything newer into a second pack, as a push would add it.
fn grow(sh: Sh, git: &Git, whole: &Path, to: &Path, later: u64) -> Result<()> {
    git.copy_bare(sh, whole, to)?;
    let refs = |extra: &[&str]| -> Result<BTreeSet<String>> {
        let mut command = git.at(to);
        command.args(["for-each-ref", "--format=%(refname) %(objectname)"]).args(extra);
        Ok(quiet_read(&mut command)?.lines().map(str::to_owned).collect())
    };
    let all = refs(&[])?;
    let cut = git.rev_parse(to, &format!("HEAD~{later}"))?;
    let branch = quiet_read(git.at(to).args(["symbolic-ref", "HEAD"]))?.trim().to_owned();
    let mut old = refs(&[&format!("--merged={cut}")])?;
    old.insert(format!("{branch} {cut}"));

    let name = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let kept: BTreeSet<String> = old.iter().map(name).collect();
    let mut back = String::new();
    for line in all.iter().filter(|line| !kept.contains(&name(line))) {
        back.push_str(&format!("delete {}\n", name(line)));
    }
    back.push_str(&format!("update {branch} {cut}\n"));
    sh.feed(git.at(to).args(["update-ref", "--stdin"]), back.as_bytes())?;
    git.repack_bitmapped(sh, to)?;

    let ids = |lines: &BTreeSet<String>| {
        lines.iter().filter_map(|line| line.split(' ').nth(1)).map(|id| format!("{id}\n")).collect::<String>()
    };
    let base = to.join("objects/pack/pack");
    let request = format!("{}--not\n{}", ids(&all), ids(&old));
    let mut command = git.at(whole);
    command.args(["pack-objects", "--revs", "--delta-base-offset", "--quiet"]).arg(base);
    sh.feed(&mut command, request.as_bytes())?;
    let forth: String = all.iter().map(|line| format!("update {line}\n")).collect();
    sh.feed(git.at(to).args(["update-ref", "--stdin"]), forth.as_bytes())?;
    // A quick proof that nothing is missing.
    sh.read(git.at(to).args(["rev-list", "--objects", "--all", "--count"])).map(drop)
}

/// A request that both programs answer.
struct Row {
    name: String,
    /// The test of git's own perf scripts that measures the same work.
    perf: &'static str,
    repo: PathBuf,
    options: Vec<&'static str>,
    input: String,
    output: Output,
    /// How many times as fast as git we want to be.
    goal: f64,
    /// The answer is not closed: what it refers to is in the repository.
    open: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Null,
    Pipe,
    Disk,
}

struct Bench {
    git: Git,
    meter: Meter,
    git_version: String,
    options: Options,
    repos: Repos,
    program: PathBuf,
}

impl Bench {
    fn rows(&self) -> Result<Vec<Row>> {
        let repos = &self.repos;
        let all_refs = format!("{}\n--not\n\n", self.git.ref_ids(&repos.whole, &[])?.join("\n"));
        let clone = || vec!["--revs", "--thin", "--stdout", "--delta-base-offset", "--include-tag"];
        let served = |name: &str, perf, repo: &Path, output, goal| Row {
            name: name.to_owned(),
            perf,
            repo: repo.to_owned(),
            options: clone(),
            input: all_refs.clone(),
            output,
            goal,
            open: false,
        };
        let fetch = |name: &str, repo: &Path, behind: u64| -> Result<Row> {
            let want = self.git.rev_parse(repo, "HEAD")?;
            let have = self.git.rev_parse(repo, &format!("HEAD~{behind}"))?;
            Ok(Row {
                name: format!("fetch of {behind}, thin, {name}"),
                perf: "p5311 server, p5310 simulated fetch",
                repo: repo.to_owned(),
                options: clone(),
                input: format!("{want}\n--not\n{have}\n\n"),
                output: Output::Null,
                goal: 3.0,
                open: true,
            })
        };
        let disk = |name: &str, perf, repo: &Path, options: &[&'static str], goal| Row {
            name: name.to_owned(),
            perf,
            repo: repo.to_owned(),
            options: [&["--all"], options].concat(),
            input: String::new(),
            output: Output::Disk,
            goal,
            open: false,
        };
        let mut walk = served("clone, no bitmap (walk)", "-", &repos.whole, Output::Null, 4.0);
        walk.options.push("--no-use-bitmap-index");
        let mut partial =
            served("partial clone, blob:none", "p5310 simulated partial clone", &repos.whole, Output::Null, 4.0);
        partial.options.push("--filter=blob:none");
        partial.open = true;
        let grown = format!("clone, bitmapped pack + pack of {} later commits", repos.later);
        let mut rows = vec![
            served("clone, one bitmapped pack (verbatim)", "p5310 simulated clone", &repos.whole, Output::Null, 6.0),
            served(
                "clone, one bitmapped pack, through a pipe",
                "p5310 simulated clone",
                &repos.whole,
                Output::Pipe,
                6.0,
            ),
            served("clone, all but the pack's newest commit (runs)", "p5332 1-pack", &repos.more, Output::Null, 3.5),
            served(&grown, "p5310 clone (partial bitmap)", &repos.grown, Output::Null, 4.0),
            walk,
            fetch("from two packs", &repos.grown, repos.later)?,
            fetch("from one pack", &repos.whole, repos.later)?,
        ];
        if repos.first_parents > 5000 {
            rows.push(fetch("from one pack", &repos.whole, 5000)?);
        }
        let bitmap = ["--use-bitmap-index", "--delta-base-offset"];
        rows.extend([
            partial,
            disk("pack to file, bitmap", "p5310 pack to file (bitmap)", &repos.whole, &bitmap, 5.0),
            disk(
                "pack to file, bitmap, without OFS_DELTA",
                "p5310 pack to file (bitmap)",
                &repos.whole,
                &bitmap[..1],
                5.0,
            ),
            disk("pack to file, partial bitmap", "p5310 pack to file (partial bitmap)", &repos.grown, &bitmap, 4.0),
            disk("pack to file, walk", "p5310 repack to disk, less its bitmap", &repos.whole, &bitmap[1..], 4.0),
        ]);
        let wanted = |row: &Row| self.options.only.as_ref().is_none_or(|only| row.name.contains(only));
        rows.retain(wanted);
        Ok(rows)
    }

    fn run(&self) -> Result<()> {
        let rows = self.rows()?;
        if rows.is_empty() {
            return fail("--only matches no row".to_owned());
        }
        println!("\ngit {}, {} runs each, {} threads\n", self.git_version, self.options.runs, self.options.threads);
        let mut results = Vec::new();
        for row in &rows {
            let result = self.row(row)?;
            println!("- {}: {}", row.name, result.summary());
            results.push(result);
        }
        self.report(&rows, &results)?;
        match &self.options.json {
            Some(path) => {
                let json = self.json(&rows, &results)?;
                std::fs::write(path, format!("{json}\n")).context(|| format!("write {}", path.display()))
            }
            None => Ok(()),
        }
    }

    /// Checks a row, then times it.
    fn row(&self, row: &Row) -> Result<Pairs> {
        let work = self.options.cache.join("work");
        fresh(Sh { dry_run: false }, &work)?;
        let stdin = work.join("stdin");
        std::fs::write(&stdin, &row.input).context(|| "write the request".to_owned())?;
        let expected = self.answer(row, &work, &stdin)?;
        let ours = self.check(row, &work, &stdin, self.program.as_os_str())?;
        if ours != expected {
            let missing = expected.iter().filter(|id| ours.binary_search(id).is_err()).count();
            let extra = ours.iter().filter(|id| expected.binary_search(id).is_err()).count();
            return fail(format!("{}: {missing} objects missing, {extra} that git does not send", row.name));
        }
        let result = Pairs::measure(self.options.runs, expected.len(), |who| {
            let program = if who == Who::Git { self.git.program() } else { self.program.as_os_str() };
            self.once(row, &work, &stdin, program)
        })?;
        std::fs::remove_dir_all(&work).context(|| format!("remove {}", work.display()))?;
        Ok(result)
    }

    /// Ids in git's own answer to a row; asked once for a repository and a version of git.
    fn answer(&self, row: &Row, work: &Path, stdin: &Path) -> Result<Vec<String>> {
        let key = format!("{} {:?} {}", self.git_version, row.options, row.input);
        let kept = row.repo.with_extension(format!("{:016x}.ids", fnv(&key)));
        if let Ok(text) = std::fs::read_to_string(&kept) {
            return Ok(text.lines().map(str::to_owned).collect());
        }
        let ids = self.check(row, work, stdin, self.git.program())?;
        std::fs::write(&kept, ids.join("\n")).context(|| format!("write {}", kept.display()))?;
        Ok(ids)
    }

    /// Lets a program answer a row into a file, checks the pack and returns its ids.
    fn check(&self, row: &Row, work: &Path, stdin: &Path, program: &OsStr) -> Result<Vec<String>> {
        let out = work.join("check");
        fresh(Sh { dry_run: false }, &out)?;
        let streamed = out.join("streamed.pack");
        let sink = if row.output == Output::Disk { Sink::Null } else { Sink::File(streamed.clone()) };
        self.execute(row, stdin, program, &out, sink)?;
        let borrow = row.open.then_some(row.repo.as_path());
        let ids = if row.output == Output::Disk {
            let pack = files_in(&out)?.into_iter().find(|path| path.extension() == Some(OsStr::new("pack")));
            match pack {
                Some(pack) => self.git.ids_of_disk_pack(&pack, self.repos.hash, work)?,
                None => return fail(format!("{}: no pack in {}", row.name, out.display())),
            }
        } else {
            self.git.ids_of_pack(&streamed, self.repos.hash, work, borrow)?
        };
        std::fs::remove_dir_all(&out).context(|| format!("remove {}", out.display()))?;
        Ok(ids)
    }

    /// One timed run.
    fn once(&self, row: &Row, work: &Path, stdin: &Path, program: &OsStr) -> Result<Cost> {
        let out = work.join("out");
        fresh(Sh { dry_run: false }, &out)?;
        let sink = if row.output == Output::Pipe { Sink::Pipe } else { Sink::Null };
        self.execute(row, stdin, program, &out, sink)
    }

    fn execute(&self, row: &Row, stdin: &Path, program: &OsStr, out: &Path, sink: Sink) -> Result<Cost> {
        let mut argv: Vec<OsString> = vec![program.into(), "pack-objects".into(), "--quiet".into()];
        argv.push(format!("--threads={}", self.options.threads).into());
        argv.extend(row.options.iter().map(OsString::from));
        if row.output == Output::Disk {
            argv.push(out.join("pack").into());
        }
        self.meter.measure(&self.git, &Job { argv: &argv, folder: &row.repo, stdin, sink })
    }

    fn report(&self, rows: &[Row], results: &[Pairs]) -> Result<()> {
        let cells: Vec<Vec<String>> = rows
            .iter()
            .zip(results)
            .map(|(row, result)| [result.cells(&row.name, row.goal), vec![row.perf.to_owned()]].concat())
            .collect();
        let header = [&pairs::HEADER[..], &["git's perf test"]].concat();
        println!("\n{}\n", layout(&header, &cells));
        println!("{}", pairs::LEGEND);
        let mut lost = false;
        for (row, result) in rows.iter().zip(results) {
            for loss in result.losses(row.goal) {
                println!("lost: {}: {loss}", row.name);
                lost = true;
            }
        }
        if !lost {
            println!("lost: nothing; every row reaches its goal within git's memory.");
        }
        Ok(())
    }

    fn json(&self, rows: &[Row], results: &[Pairs]) -> Result<Json> {
        let commit = quiet_read(self.git.at(&crate::sh::root()).args(["rev-parse", "HEAD"])).unwrap_or_default();
        let rows = rows
            .iter()
            .zip(results)
            .map(|(row, result)| {
                let mut members = vec![("name", Json::text(&row.name)), ("perf", Json::text(row.perf))];
                members.extend(result.json(row.goal));
                Json::Object(members)
            })
            .collect();
        Ok(Json::Object(vec![
            ("bench", Json::text("serve")),
            ("repository", Json::text(self.repository())),
            ("hash", Json::text(self.repos.hash.name())),
            ("git", Json::text(&self.git_version)),
            ("commit", Json::text(commit.trim())),
            ("host", Json::text(host())),
            ("threads", Json::Number(self.options.threads as f64)),
            ("rows", Json::List(rows)),
        ]))
    }

    fn repository(&self) -> String {
        match &self.options.repo {
            Some(repo) => repo.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            None => self.options.spec.slug(),
        }
    }
}

/// What one would ask about the machine, as far as it tells.
pub(crate) fn host() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores, {}", model.map_or("unknown processor", |(_, name)| name), std::env::consts::OS)
}

/// FNV-1a, for names of cached files.
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_is_fnv() {
        assert_eq!(fnv(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
