//! `bench odb`: reading and writing objects, beside git, row by row.
//!
//! Both programs do the same work in the same repository, alternating, in one run; whole processes are timed, output goes
//! to `/dev/null`. Before a row is timed, both answers are compared: by a digest over every byte where the order is
//! settled, by their sorted lines where it is not, and by `git multi-pack-index verify` for a file that was written. A
//! wrong answer ends the run.
//!
//! The repositories are made once and kept in a cache folder; the user's own is only read.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::args::Args;
use crate::demo::{build_program, fresh};
use crate::gen_repo::{self, Spec};
use crate::git::{Git, Hash, files_in};
use crate::json::Json;
use crate::measure::{Cost, Job, Meter, Sink};
use crate::pairs::{self, Pairs, Who};
use crate::rng::Rng;
use crate::serve::{fnv, host, once};
use crate::sh::{Sh, quiet_feed, quiet_read, root, target};
use crate::table::layout;
use crate::{Context as _, Result, fail};

/// Goes into the names of cached folders: raise it when their preparation changes.
const LAYOUT: u32 = 1;

/// As many objects are asked for in no order.
const RANDOM: usize = 40_000;

/// As many packs share the objects, where there are many.
const PACKS: usize = 100;

/// As many files become objects.
const FILES: usize = 4_000;

/// What a large blob may take of our memory, in KiB.
const MEMORY_GOAL: u64 = 64 << 10;

struct Options {
    repo: Option<PathBuf>,
    spec: Spec,
    git: OsString,
    program: Option<PathBuf>,
    cache: PathBuf,
    json: Option<PathBuf>,
    runs: usize,
    only: Option<String>,
    blob: u64,
}

pub(crate) fn run(sh: Sh, mut args: Args) -> Result<()> {
    let path = |value: Option<OsString>| -> Result<Option<PathBuf>> {
        value.map(std::path::absolute).transpose().context(|| "absolute path".to_owned())
    };
    let options = Options {
        repo: path(args.value("--repo")?)?,
        git: args.value("--git")?.unwrap_or_else(|| "git".into()),
        program: path(args.value("--program")?)?,
        cache: path(args.value("--cache")?)?.unwrap_or_else(|| target().join("xtask/bench-odb")),
        json: path(args.value("--json")?)?,
        runs: args.parsed("--runs")?.unwrap_or(5),
        only: args.parsed("--only")?,
        blob: args.parsed("--blob")?.unwrap_or(2 << 30),
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

/// The prepared repositories and files.
struct Inputs {
    hash: Hash,
    folder: PathBuf,
    /// Everything in one pack.
    whole: PathBuf,
    /// The same in many packs.
    many: PathBuf,
    /// Lists of ids, a line each: in the order of the pack, and some in no order.
    in_pack_order: PathBuf,
    random: PathBuf,
    objects: usize,
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
        let (whole, many) = (folder.join("whole.git"), folder.join("many.git"));
        once(sh, &whole, |to| {
            match &options.repo {
                Some(repo) => git.copy_bare(sh, repo, to)?,
                None => drop(gen_repo::create(sh, git, to, &options.spec)?),
            }
            sh.run(git.at(to).args(["repack", "-a", "-d", "--quiet"]))
        })?;
        let (in_pack_order, random) = (folder.join("in-pack-order"), folder.join("random"));
        let mut inputs = Inputs { hash: Hash::Sha1, folder, whole, many, in_pack_order, random, objects: 0 };
        if !sh.dry_run {
            inputs.hash = git.hash_of(&inputs.whole)?;
            let ids = ids_in_pack_order(git, &inputs.whole, inputs.hash)?;
            inputs.objects = ids.len();
            write_lines(&inputs.in_pack_order, ids.iter())?;
            let mut rng = Rng::new(1);
            let picked: Vec<&String> =
                (0..RANDOM).filter_map(|_| ids.get(rng.below(ids.len() as u64) as usize)).collect();
            write_lines(&inputs.random, picked.into_iter())?;
            once(sh, &inputs.many, |to| inputs.scatter(git, &ids, to))?;
        }
        Ok(inputs)
    }

    /// Spreads the objects over many packs, some in two.
    fn scatter(&self, git: &Git, ids: &[String], to: &Path) -> Result<()> {
        let format = format!("--object-format={}", self.hash.name());
        quiet_read(git.command().args(["init", "--quiet", "--bare", &format]).arg(to))?;
        let base = std::path::absolute(to.join("objects/pack/pack")).context(|| "absolute path".to_owned())?;
        let each = ids.len().div_ceil(PACKS).max(1);
        for from in (0..ids.len()).step_by(each) {
            let part = ids.get(from..ids.len().min(from + each + each / 10)).unwrap_or_default();
            let list: String = part.iter().map(|id| format!("{id}\n")).collect();
            let args = ["pack-objects", "--quiet", "--window=0", "--delta-base-offset"];
            quiet_feed(git.at(&self.whole).args(args).arg(&base), list.as_bytes())?;
        }
        Ok(())
    }
}

/// The ids of the only pack's objects, in the order of its entries.
fn ids_in_pack_order(git: &Git, repo: &Path, hash: Hash) -> Result<Vec<String>> {
    let mut found: Vec<(u64, String)> = Vec::new();
    for idx in files_in(&repo.join("objects/pack"))?.iter().filter(|path| path.extension() == Some(OsStr::new("idx"))) {
        let bytes = fs::read(idx).context(|| format!("read {}", idx.display()))?;
        let format = format!("--object-format={}", hash.name());
        for line in quiet_feed(git.command().args(["show-index", &format]), &bytes)?.lines() {
            let mut words = line.split(' ');
            let (Some(Ok(at)), Some(id)) = (words.next().map(str::parse), words.next()) else { continue };
            found.push((at, id.to_owned()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

fn write_lines<'l>(path: &Path, lines: impl Iterator<Item = &'l String>) -> Result<()> {
    let text: String = lines.flat_map(|line| [line.as_str(), "\n"]).collect();
    fs::write(path, text).context(|| format!("write {}", path.display()))
}

/// What is compared before anything is timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Every byte, in order.
    Bytes,
    /// The lines, in any order.
    Lines,
    /// The multi-pack-index that is left, by git.
    Midx,
}

/// What a run starts from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    AsItIs,
    /// Without a multi-pack-index.
    NoMidx,
    /// In an empty repository.
    Empty,
}

/// Work that both programs do.
struct Row {
    name: String,
    repo: PathBuf,
    args: Vec<OsString>,
    stdin: PathBuf,
    check: Check,
    start: Start,
    objects: usize,
    goal: f64,
    /// It takes long, and is about memory: done once.
    long: bool,
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
        let (inputs, none) = (&self.inputs, self.inputs.folder.join("empty"));
        let row = |name: &str, args: &[&str], stdin: &Path, objects, goal| Row {
            name: name.to_owned(),
            repo: inputs.whole.clone(),
            args: args.iter().map(OsString::from).collect(),
            stdin: stdin.to_owned(),
            check: Check::Bytes,
            start: Start::AsItIs,
            objects,
            goal,
            long: false,
        };
        let (all, order) = (inputs.objects, &inputs.in_pack_order);
        let check_all = ["cat-file", "--batch-check", "--batch-all-objects"];
        let batch_all = ["cat-file", "--batch", "--batch-all-objects"];
        let with = |args: &[&'static str], more| [args, &[more]].concat();
        vec![
            row("cat-file --batch, all, pack order", &["cat-file", "--batch"], order, all, 2.0),
            row("cat-file --batch, all, id order", &batch_all, &none, all, 2.0),
            row("cat-file --batch, all, unordered", &with(&batch_all, "--unordered"), &none, all, 2.0),
            row("cat-file --batch, random", &["cat-file", "--batch"], &inputs.random, RANDOM, 2.0),
            row("cat-file --batch-check, all, pack order", &["cat-file", "--batch-check"], order, all, 2.0),
            row("cat-file --batch-check, all, id order", &check_all, &none, all, 2.0),
            Row {
                check: Check::Lines,
                ..row("cat-file --batch-check, all, unordered", &with(&check_all, "--unordered"), &none, all, 2.0)
            },
            row("cat-file --batch-check, random", &["cat-file", "--batch-check"], &inputs.random, RANDOM, 2.0),
            Row {
                check: Check::Midx,
                start: Start::NoMidx,
                repo: inputs.many.clone(),
                ..row(
                    &format!("multi-pack-index write, {PACKS} packs"),
                    &["multi-pack-index", "--no-progress", "write"],
                    &none,
                    all,
                    1.5,
                )
            },
            Row {
                start: Start::Empty,
                ..row(
                    "hash-object -w, new objects",
                    &["hash-object", "-w", "--stdin-paths"],
                    &inputs.folder.join("paths"),
                    FILES,
                    1.0,
                )
            },
            Row {
                repo: inputs.folder.join("stored.git"),
                ..row(
                    "hash-object -w, objects that are packed",
                    &["hash-object", "-w", "--stdin-paths"],
                    &inputs.folder.join("paths"),
                    FILES,
                    1.0,
                )
            },
            Row {
                start: Start::Empty,
                long: true,
                ..row("large blob in", &["hash-object", "-w", "--stdin"], &inputs.folder.join("blob"), 1, 1.0)
            },
            Row {
                repo: inputs.folder.join("large.git"),
                long: true,
                ..row("large blob out", &["cat-file", "--batch"], &inputs.folder.join("blob-id"), 1, 1.0)
            },
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
            self.provide(row)?;
            let result = self.row(row)?;
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

    /// Makes the files and repositories of a row, if they are not there.
    fn provide(&self, row: &Row) -> Result<()> {
        let sh = Sh { dry_run: false };
        let folder = &self.inputs.folder;
        let empty = folder.join("empty");
        fs::write(&empty, b"").context(|| format!("write {}", empty.display()))?;
        let (files, paths) = (folder.join("files"), folder.join("paths"));
        let (blob, stored) = (folder.join("blob"), folder.join("stored.git"));
        if row.stdin == paths {
            once(sh, &files, write_files)?;
            write_lines(
                &paths,
                files_in(&files)?.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().iter(),
            )?;
        }
        if row.repo == stored {
            once(sh, &stored, |to| {
                self.init(to)?;
                let list = fs::read(&paths).context(|| "read the list of files".to_owned())?;
                let ids = quiet_feed(self.git.at(to).args(["hash-object", "-w", "--stdin-paths"]), &list)?;
                let base = std::path::absolute(to.join("objects/pack/pack")).context(|| "absolute path".to_owned())?;
                quiet_feed(self.git.at(to).args(["pack-objects", "--quiet"]).arg(base), ids.as_bytes())?;
                quiet_read(self.git.at(to).arg("prune-packed")).map(drop)
            })?;
        }
        if row.long {
            let size = self.options.blob;
            if fs::metadata(&blob).map_or(0, |meta| meta.len()) != size {
                write_blob(&blob, size)?;
            }
            let large = folder.join("large.git");
            let id = folder.join("blob-id");
            if row.repo == large && fs::read_to_string(&id).map_or(0, |text| text.len()) == 0 {
                fresh(sh, &large)?;
                self.init(&large)?;
                let mut command = self.git.at(&large);
                command.args(["hash-object", "-w"]).arg(&blob);
                fs::write(&id, quiet_read(&mut command)?).context(|| "write the blob's id".to_owned())?;
            }
        }
        Ok(())
    }

    fn init(&self, repo: &Path) -> Result<()> {
        let format = format!("--object-format={}", self.inputs.hash.name());
        quiet_read(self.git.command().args(["init", "--quiet", "--bare", &format]).arg(repo)).map(drop)
    }

    /// Checks a row, then times it.
    fn row(&self, row: &Row) -> Result<Pairs> {
        let (git, ours) = (self.answer(row, Who::Git)?, self.answer(row, Who::Ours)?);
        if git != ours {
            return fail(format!("{}: git answers {git:x?}, we {ours:x?} (length, digest)", row.name));
        }
        let runs = if row.long { 1 } else { self.options.runs };
        Pairs::measure(runs, row.objects, |who| {
            let folder = self.start(row)?;
            let argv = self.argv(row, who);
            let job = Job { argv: &argv, folder: &folder, stdin: &row.stdin, sink: Sink::Null };
            let cost: Cost = self.meter.measure(&self.git, &job)?;
            Ok(cost)
        })
    }

    fn argv(&self, row: &Row, who: Who) -> Vec<OsString> {
        let program = if who == Who::Git { self.git.program() } else { self.program.as_os_str() };
        [&[program.to_owned()], &row.args[..]].concat()
    }

    /// Where a run takes place.
    fn start(&self, row: &Row) -> Result<PathBuf> {
        match row.start {
            Start::AsItIs => Ok(row.repo.clone()),
            Start::NoMidx => {
                let _ = fs::remove_file(row.repo.join("objects/pack/multi-pack-index"));
                Ok(row.repo.clone())
            }
            Start::Empty => {
                let folder = self.options.cache.join("work.git");
                fresh(Sh { dry_run: false }, &folder)?;
                self.init(&folder)?;
                Ok(folder)
            }
        }
    }

    /// Length and digest of an answer.
    fn answer(&self, row: &Row, who: Who) -> Result<(u64, u64)> {
        let folder = self.start(row)?;
        let argv = self.argv(row, who);
        let mut command = Command::new(&argv[0]);
        self.git.isolate(&mut command);
        let stdin = File::open(&row.stdin).context(|| format!("open {}", row.stdin.display()))?;
        command.args(&argv[1..]).current_dir(&folder).stdin(stdin).stdout(Stdio::piped());
        let mut child = command.spawn().context(|| format!("start {}", argv[0].to_string_lossy()))?;
        let mut digest = Digest::default();
        if let Some(mut stdout) = child.stdout.take() {
            let mut block = vec![0; 1 << 16];
            loop {
                let read = stdout.read(&mut block).context(|| "read an answer".to_owned())?;
                match block.get(..read) {
                    None | Some([]) => break,
                    Some(part) if row.check == Check::Lines => digest.lines(part),
                    Some(part) => digest.update(part),
                }
            }
        }
        let status = child.wait().context(|| "wait for an answer".to_owned())?;
        if !status.success() {
            return fail(format!("{}: {} failed: {status}", row.name, argv[0].to_string_lossy()));
        }
        if row.check == Check::Midx {
            quiet_read(self.git.at(&folder).args(["multi-pack-index", "--no-progress", "verify"]))?;
            let path = folder.join("objects/pack/multi-pack-index");
            digest.update(&fs::read(&path).context(|| format!("read {}", path.display()))?);
        }
        Ok(digest.finish())
    }

    fn report(&self, rows: &[Row], results: &[Pairs]) {
        let cells: Vec<Vec<String>> =
            rows.iter().zip(results).map(|(row, result)| result.cells(&row.name, row.goal)).collect();
        println!("\n{}\n\n{}", layout(&pairs::HEADER, &cells), pairs::LEGEND);
        let mut lost = false;
        for (row, result) in rows.iter().zip(results) {
            let mut losses = result.losses(row.goal);
            if row.long {
                losses.retain(|loss| !loss.starts_with("more memory"));
                if result.peak() > MEMORY_GOAL {
                    losses.push(format!("{} KiB are more than {MEMORY_GOAL}", result.peak()));
                }
            }
            for loss in losses {
                println!("lost: {}: {loss}", row.name);
                lost = true;
            }
        }
        if !lost {
            println!("lost: nothing; every row reaches its goal.");
        }
    }

    fn json(&self, rows: &[Row], results: &[Pairs]) -> Json {
        let commit = quiet_read(self.git.at(&root()).args(["rev-parse", "HEAD"])).unwrap_or_default();
        let name = match &self.options.repo {
            Some(repo) => repo.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            None => self.options.spec.slug(),
        };
        let rows = rows.iter().zip(results).map(|(row, result)| {
            let mut members = vec![("name", Json::text(&row.name))];
            members.extend(result.json(row.goal));
            Json::Object(members)
        });
        Json::Object(vec![
            ("bench", Json::text("odb")),
            ("repository", Json::text(name)),
            ("hash", Json::text(self.inputs.hash.name())),
            ("git", Json::text(&self.git_version)),
            ("commit", Json::text(commit.trim())),
            ("host", Json::text(host())),
            ("rows", Json::List(rows.collect())),
        ])
    }
}

/// Small files of text, all different.
fn write_files(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).context(|| format!("create {}", folder.display()))?;
    let mut rng = Rng::new(2);
    for nth in 0..FILES {
        let mut text = format!("file {nth}\n");
        while text.len() < 4096 {
            text.push_str(&format!("{} lines follow, they say\n", rng.below(1 << 20)));
        }
        let path = folder.join(format!("{nth:05}"));
        fs::write(&path, text).context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Text that deflates to about a third.
fn write_blob(path: &Path, size: u64) -> Result<()> {
    let mut out =
        BufWriter::with_capacity(1 << 20, File::create(path).context(|| format!("create {}", path.display()))?);
    let (mut rng, mut left) = (Rng::new(3), size);
    while left > 0 {
        let line = format!("{:016x} is a number, and so is {}\n", rng.next(), rng.below(1000));
        let part = line.as_bytes();
        let part = part.get(..usize::try_from(left).unwrap_or(part.len()).min(part.len())).unwrap_or_default();
        out.write_all(part).context(|| format!("write {}", path.display()))?;
        left -= part.len() as u64;
    }
    out.flush().context(|| format!("write {}", path.display()))
}

/// A digest of bytes, whatever the pieces they come in.
#[derive(Default)]
struct Digest {
    length: u64,
    state: u64,
    /// Less than a word.
    rest: Vec<u8>,
    /// The sum over lines that are complete.
    sum: u64,
}

impl Digest {
    fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let mut bytes = bytes;
        if !self.rest.is_empty() {
            let (head, tail) = bytes.split_at((8 - self.rest.len()).min(bytes.len()));
            self.rest.extend_from_slice(head);
            bytes = tail;
            if self.rest.len() < 8 {
                return;
            }
            let word = std::mem::take(&mut self.rest);
            self.word(&word);
        }
        let words = bytes.chunks_exact(8);
        self.rest.extend_from_slice(words.remainder());
        words.for_each(|word| self.word(word));
    }

    fn word(&mut self, word: &[u8]) {
        let word = word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self.state = (self.state.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Adds up the digests of lines, so that their order does not matter.
    fn lines(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.length += part.len() as u64;
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.sum = self.sum.wrapping_add(fnv(&String::from_utf8_lossy(&self.rest)));
                self.rest.clear();
            }
        }
    }

    fn finish(mut self) -> (u64, u64) {
        let rest = std::mem::take(&mut self.rest);
        self.word(&rest);
        (self.length, self.state.wrapping_add(self.sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(parts: &[&[u8]]) -> (u64, u64) {
        let mut digest = Digest::default();
        parts.iter().for_each(|part| digest.update(part));
        digest.finish()
    }

    #[test]
    fn pieces_make_no_difference() {
        let whole: &[u8] = b"the quick brown fox jumps over the lazy dog";
        for at in 0..whole.len() {
            for more in [0, 1, 9] {
                let (one, two) = whole.split_at(at);
                let (two, three) = two.split_at(more.min(two.len()));
                assert_eq!(digest(&[one, two, three]), digest(&[whole]));
            }
        }
        assert_ne!(digest(&[b"the quick"]), digest(&[b"the quicl"]));
        assert_ne!(digest(&[b"abcdefgh12345678"]), digest(&[b"12345678abcdefgh"]));
    }

    #[test]
    fn order_of_lines_makes_none() {
        let of = |text: &[u8]| {
            let mut digest = Digest::default();
            digest.lines(text);
            digest.finish()
        };
        assert_eq!(of(b"one\ntwo\nthree\n"), of(b"three\none\ntwo\n"));
        assert_ne!(of(b"one\ntwo\n"), of(b"one\ntwp\n"));
    }
}
