//! `gen-repo DIR`: deterministic repositories of a chosen size.
//!
//! We write the whole history as a `git fast-import` stream; git only stores it. The stream depends on the options
//! alone: no clock, no machine, no iteration order of a hash map. It has what storage code stumbles over: topic branches
//! merged by twos and more, several roots, renames, deletions, copies, mode changes, executables, symbolic links,
//! gitlinks, empty and incompressible blobs, a file that grows for long delta chains, deep folders, commits older than
//! their parents, empty commits, lightweight, annotated and nested tags, tags of blobs.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::args::Args;
use crate::git::{Git, Hash};
use crate::rng::Rng;
use crate::sh::{Sh, quote, target};
use crate::{Context as _, Result, fail};

/// What to generate.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// Commits, on all branches together.
    pub(crate) commits: u64,
    /// Files in the newest tree, roughly.
    pub(crate) files: u64,
    /// The same seed (and the same other options) gives the same object ids.
    pub(crate) seed: u64,
    pub(crate) hash: Hash,
    /// Blobs of `big_size` bytes, of three sorts in turn: incompressible, text, and a changed copy of the first.
    pub(crate) big_blobs: u64,
    pub(crate) big_size: u64,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec { commits: 10_000, files: 1_500, seed: 1, hash: Hash::Sha1, big_blobs: 6, big_size: 2 << 20 }
    }
}

impl Spec {
    /// Takes the generator's options out of a command line.
    pub(crate) fn from_args(args: &mut Args) -> Result<Spec> {
        let mut spec = Spec::default();
        for (name, field) in [
            ("--commits", &mut spec.commits),
            ("--files", &mut spec.files),
            ("--seed", &mut spec.seed),
            ("--big-blobs", &mut spec.big_blobs),
            ("--big-size", &mut spec.big_size),
        ] {
            if let Some(value) = args.parsed(name)? {
                *field = value;
            }
        }
        if let Some(hash) = args.parsed("--hash")? {
            spec.hash = hash;
        }
        if spec.commits == 0 || spec.files == 0 {
            return fail("--commits and --files must be at least 1".to_owned());
        }
        Ok(spec)
    }

    /// A folder name that no other specification has.
    pub(crate) fn slug(&self) -> String {
        format!(
            "gen-{}-c{}-f{}-s{}-b{}x{}",
            self.hash.name(),
            self.commits,
            self.files,
            self.seed,
            self.big_blobs,
            self.big_size
        )
    }
}

pub(crate) fn run(sh: Sh, mut args: Args) -> Result<()> {
    let spec = Spec::from_args(&mut args)?;
    let stream_only = args.flag("--stream");
    let repack = args.flag("--repack");
    let dir = args.positional().map(PathBuf::from);
    args.finish()?;
    if stream_only {
        let out = BufWriter::new(io::stdout().lock());
        return stream(&spec, out).map(drop).context(|| "write the stream".to_owned());
    }
    let Some(dir) = dir else {
        return fail("gen-repo needs a folder to write to".to_owned());
    };
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return fail(format!("{} is not empty", dir.display()));
    }
    let home = target().join("xtask/home");
    std::fs::create_dir_all(&home).context(|| format!("create {}", home.display()))?;
    let git = Git::new(sh, "git".as_ref(), &home, None)?;
    create(sh, &git, &dir, &spec)?;
    if repack {
        git.repack_bitmapped(sh, &dir)?;
    }
    if !sh.dry_run {
        println!("{}: main is {}", dir.display(), git.rev_parse(&dir, "refs/heads/main")?);
    }
    Ok(())
}

/// Creates the bare repository `dir`.
pub(crate) fn create(sh: Sh, git: &Git, dir: &Path, spec: &Spec) -> Result<Summary> {
    let format = format!("--object-format={}", spec.hash.name());
    sh.run(git.command().args(["init", "--quiet", "--bare", "--initial-branch=main", &format]).arg(dir))?;
    println!(
        "$ git -C {} fast-import   # {} commits, about {} files, seed {}, {}",
        quote(dir.as_os_str()),
        spec.commits,
        spec.files,
        spec.seed,
        spec.hash.name()
    );
    if sh.dry_run {
        return Ok(Summary::default());
    }
    let mut child = git
        .at(dir)
        .args(["fast-import", "--quiet", "--date-format=raw"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context(|| "start git fast-import".to_owned())?;
    let written = match child.stdin.take() {
        Some(stdin) => stream(spec, BufWriter::with_capacity(1 << 17, stdin)),
        None => Err(io::Error::other("no pipe")),
    };
    let status = child.wait().context(|| "wait for git fast-import".to_owned())?;
    if !status.success() {
        return fail(format!("git fast-import failed: {status}"));
    }
    written.context(|| "write to git fast-import".to_owned())
}

/// What a stream held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) commits: u64,
    pub(crate) merges: u64,
    pub(crate) octopuses: u64,
    pub(crate) renames: u64,
    pub(crate) deletes: u64,
    pub(crate) tags: u64,
    pub(crate) blobs: u64,
    pub(crate) skewed: u64,
}

/// Writes the `fast-import` stream of `spec`.
pub(crate) fn stream<W: Write>(spec: &Spec, out: W) -> io::Result<Summary> {
    let mut history = History::new(spec, out);
    history.write()?;
    Ok(history.summary)
}

/// A commit or blob under its number in the stream.
type Mark = u64;

struct File {
    path: String,
    /// A line is a seed from which its text is made: histories fit in memory.
    lines: Vec<u32>,
    executable: bool,
    blob: Mark,
}

enum Change {
    Put { mode: &'static str, blob: Mark, path: String },
    Module { id: String, path: String },
    Delete { path: String },
}

/// An open topic branch.
struct Topic {
    tip: Mark,
    /// Replayed by the merge: `fast-import` starts a merge from its first parent's tree.
    changes: Vec<Change>,
    /// Commits still to come.
    left: u64,
}

struct History<'s, W> {
    spec: &'s Spec,
    out: W,
    rng: Rng,
    summary: Summary,
    marks: u64,
    time: u64,
    main: Mark,
    /// Slot `n` is the ref `refs/heads/topic/n`, used by one topic after another.
    topics: Vec<Option<Topic>>,
    files: Vec<File>,
    folders: Vec<String>,
    named: u64,
    growing: Vec<u32>,
    /// The next commit on main adds a line to the growing file.
    grow_due: bool,
    noise: Vec<u8>,
    last_tag: Option<String>,
    /// Content of the file being written.
    buffer: Vec<u8>,
}

const TOPICS: usize = 8;
const EPOCH: u64 = 1_100_000_000;

impl<'s, W: Write> History<'s, W> {
    fn new(spec: &'s Spec, out: W) -> Self {
        History {
            spec,
            out,
            rng: Rng::new(spec.seed),
            summary: Summary::default(),
            marks: 0,
            time: EPOCH,
            main: 0,
            topics: (0..TOPICS).map(|_| None).collect(),
            files: Vec::new(),
            folders: vec![String::new()],
            named: 0,
            growing: Vec::new(),
            grow_due: false,
            noise: Vec::new(),
            last_tag: None,
            buffer: Vec::new(),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        self.first_commit()?;
        let tag_every = (self.spec.commits / 60).max(5);
        let grow_every = (self.spec.commits / 1000).max(1);
        let big_every = self.spec.commits / (self.spec.big_blobs + 1) + 1;
        let mut big = 0;
        while self.summary.commits < self.spec.commits {
            let n = self.summary.commits;
            self.grow_due |= n.is_multiple_of(grow_every);
            let ready = self.topics.iter().flatten().filter(|topic| topic.left == 0).count();
            match self.rng.below(100) {
                _ if n / big_every > big => {
                    let blob = self.big_blob(big)?;
                    big += 1;
                    self.commit_on_main(vec![blob])?;
                }
                0..35 => self.commit_on_main(Vec::new())?,
                35..75 => self.commit_on_topic()?,
                _ if ready > 0 => self.merge(ready)?,
                _ => self.commit_on_topic()?,
            }
            if self.summary.commits.is_multiple_of(tag_every) {
                self.tag()?;
            }
        }
        self.second_root()?;
        self.out.write_all(b"done\n")?;
        self.out.flush()
    }

    /// The first commit has a third of the files and one of everything that is rare later on.
    fn first_commit(&mut self) -> io::Result<()> {
        self.out.write_all(b"feature done\n")?;
        let mut changes = Vec::new();
        for _ in 0..self.spec.files / 10 {
            let parent = self.rng.index(self.folders.len());
            let parent = self.folders.get(parent).cloned().unwrap_or_default();
            if parent.matches('/').count() < 12 {
                let name = word(self.rng.next());
                self.folders.push(format!("{parent}{name}{}/", self.folders.len()));
            }
        }
        for _ in 0..self.spec.files.div_ceil(3) {
            changes.push(self.add()?);
        }
        let empty = self.blob(b"")?;
        changes.push(Change::Put { mode: "100644", blob: empty, path: "empty".into() });
        let script = self.blob(b"#!/bin/sh\nexit 0\n")?;
        changes.push(Change::Put { mode: "100755", blob: script, path: "tools/run.sh".into() });
        let link = self.blob(b"tools/run.sh")?;
        changes.push(Change::Put { mode: "120000", blob: link, path: "run".into() });
        let deep = self.blob(b"far down\n")?;
        let path = (1..=40).map(|level| format!("{level}/")).collect::<String>();
        changes.push(Change::Put { mode: "100644", blob: deep, path: format!("deep/{path}file") });
        let spaced = self.blob("name with a space and a letter outside ASCII\n".as_bytes())?;
        changes.push(Change::Put { mode: "100644", blob: spaced, path: "docs/f\u{fc}nf st\u{fc}ck.txt".into() });
        changes.push(self.module());
        self.main = self.commit("refs/heads/main", None, &[], &changes)?;
        Ok(())
    }

    fn commit_on_main(&mut self, mut changes: Vec<Change>) -> io::Result<()> {
        if std::mem::take(&mut self.grow_due) {
            changes.push(self.grow()?);
        }
        self.change(&mut changes)?;
        self.main = self.commit("refs/heads/main", Some(self.main), &[], &changes)?;
        Ok(())
    }

    /// Continues an open topic or opens one at main's tip.
    fn commit_on_topic(&mut self) -> io::Result<()> {
        let slot = self.rng.index(TOPICS);
        let length = self.rng.between(1, 8);
        let Some(open) = self.topics.get_mut(slot) else {
            return Ok(());
        };
        let mut topic = match open.take() {
            Some(topic) if topic.left > 0 => topic,
            // A finished topic waits for its merge; this commit goes to main instead.
            Some(topic) => {
                *open = Some(topic);
                return self.commit_on_main(Vec::new());
            }
            None => Topic { tip: self.main, changes: Vec::new(), left: length },
        };
        let mut changes = Vec::new();
        self.change(&mut changes)?;
        let branch = format!("refs/heads/topic/{slot}");
        topic.tip = self.commit(&branch, Some(topic.tip), &[], &changes)?;
        topic.left -= 1;
        topic.changes.append(&mut changes);
        if let Some(open) = self.topics.get_mut(slot) {
            *open = Some(topic);
        }
        Ok(())
    }

    /// Merges one finished topic into main, now and then several at once.
    fn merge(&mut self, ready: usize) -> io::Result<()> {
        let take = if ready > 1 && self.rng.chance(300) { ready.min(5) } else { 1 };
        let mut parents = Vec::new();
        let mut changes = Vec::new();
        for open in &mut self.topics {
            if parents.len() < take
                && open.as_ref().is_some_and(|topic| topic.left == 0)
                && let Some(mut topic) = open.take()
            {
                parents.push(topic.tip);
                changes.append(&mut topic.changes);
            }
        }
        self.summary.merges += 1;
        self.summary.octopuses += u64::from(parents.len() > 1);
        self.main = self.commit("refs/heads/main", Some(self.main), &parents, &changes)?;
        Ok(())
    }

    /// A history that shares nothing with the main one.
    fn second_root(&mut self) -> io::Result<()> {
        let page = self.blob(b"<p>pages</p>\n")?;
        let changes = [Change::Put { mode: "100644", blob: page, path: "index.html".into() }];
        self.commit("refs/heads/pages", None, &[], &changes)?;
        Ok(())
    }

    /// What one commit does.
    fn change(&mut self, changes: &mut Vec<Change>) -> io::Result<()> {
        let done = self.summary.commits.min(self.spec.commits);
        let target = self.spec.files / 3 + self.spec.files * 2 / 3 * done / self.spec.commits;
        let missing = target.saturating_sub(self.files.len() as u64);
        for _ in 0..missing.min(4) {
            changes.push(self.add()?);
        }
        match self.rng.below(1000) {
            0..5 => return Ok(()), // nothing at all: the tree is the parent's
            5..35 => self.rename(changes)?,
            35..55 => self.delete(changes),
            55..65 => self.toggle_executable(changes),
            65..70 => self.symlink(changes)?,
            70..73 => changes.push(self.module()),
            73..76 => self.copy(changes),
            76..90 => changes.push(self.add()?),
            _ => {}
        }
        let mut edits = 1;
        while edits < 12 && self.rng.chance(400) {
            edits += 1;
        }
        for _ in 0..edits {
            self.edit(changes)?;
        }
        Ok(())
    }

    fn add(&mut self) -> io::Result<Change> {
        let len = match self.rng.below(100) {
            0..2 => self.rng.between(300, 2000),
            2..20 => self.rng.between(100, 300),
            _ => self.rng.between(5, 100),
        };
        let lines: Vec<u32> = (0..len).map(|_| self.rng.next() as u32).collect();
        let blob = self.text_blob(&lines)?;
        let path = self.new_path();
        let executable = self.rng.chance(30);
        let file = File { path, lines, executable, blob };
        let change = put(&file);
        self.files.push(file);
        Ok(change)
    }

    fn edit(&mut self, changes: &mut Vec<Change>) -> io::Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        // Some files change all the time, most hardly ever.
        let at = if self.rng.chance(500) {
            self.rng.index(self.files.len().div_ceil(10))
        } else {
            self.rng.index(self.files.len())
        };
        let mut file = self.files.swap_remove(at);
        for _ in 0..self.rng.between(1, 3) {
            let line = self.rng.index(file.lines.len() + 1);
            let removed = self.rng.below(4) as usize;
            let end = (line + removed).min(file.lines.len());
            let added = self.rng.between(u64::from(end == line), 6);
            let fresh: Vec<u32> = (0..added).map(|_| self.rng.next() as u32).collect();
            file.lines.splice(line..end, fresh);
        }
        file.blob = self.text_blob(&file.lines)?;
        changes.push(put(&file));
        self.put_back(at, file);
        Ok(())
    }

    fn rename(&mut self, changes: &mut Vec<Change>) -> io::Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let at = self.rng.index(self.files.len());
        let mut file = self.files.swap_remove(at);
        let path = self.new_path();
        changes.push(Change::Delete { path: std::mem::replace(&mut file.path, path) });
        if self.rng.chance(400) {
            let line = self.rng.next() as u32;
            file.lines.push(line);
            file.blob = self.text_blob(&file.lines)?;
        }
        changes.push(put(&file));
        self.put_back(at, file);
        self.summary.renames += 1;
        Ok(())
    }

    fn delete(&mut self, changes: &mut Vec<Change>) {
        if self.files.len() < 2 {
            return;
        }
        let at = self.rng.index(self.files.len());
        let file = self.files.swap_remove(at);
        changes.push(Change::Delete { path: file.path });
        self.summary.deletes += 1;
    }

    fn toggle_executable(&mut self, changes: &mut Vec<Change>) {
        let at = self.rng.index(self.files.len());
        if let Some(file) = self.files.get_mut(at) {
            file.executable = !file.executable;
            changes.push(put(file));
        }
    }

    fn symlink(&mut self, changes: &mut Vec<Change>) -> io::Result<()> {
        let at = self.rng.index(self.files.len());
        let target = self.files.get(at).map(|file| file.path.clone()).unwrap_or_default();
        let blob = self.blob(target.as_bytes())?;
        self.named += 1;
        changes.push(Change::Put { mode: "120000", blob, path: format!("links/l{}", self.named) });
        Ok(())
    }

    /// The same blob once more under another path.
    fn copy(&mut self, changes: &mut Vec<Change>) {
        let at = self.rng.index(self.files.len());
        if let Some(file) = self.files.get(at) {
            self.named += 1;
            let path = format!("copies/c{}.txt", self.named);
            changes.push(Change::Put { mode: "100644", blob: file.blob, path });
        }
    }

    /// A commit of another repository, which need not exist here.
    fn module(&mut self) -> Change {
        let digits = self.spec.hash.hex_len();
        let mut id = String::new();
        while id.len() < digits {
            id.push_str(&format!("{:016x}", self.rng.next()));
        }
        id.truncate(digits);
        Change::Module { id, path: format!("modules/m{}", self.rng.below(4)) }
    }

    /// One line more in a file that only grows.
    fn grow(&mut self) -> io::Result<Change> {
        let line = self.rng.next() as u32;
        self.growing.push(line);
        let lines = std::mem::take(&mut self.growing);
        let blob = self.text_blob(&lines)?;
        self.growing = lines;
        Ok(Change::Put { mode: "100644", blob, path: "CHANGES".into() })
    }

    fn big_blob(&mut self, number: u64) -> io::Result<Change> {
        let size = self.spec.big_size as usize;
        let mut bytes = match number % 3 {
            0 => {
                let mut noise = Vec::with_capacity(size + 8);
                while noise.len() < size {
                    noise.extend_from_slice(&self.rng.next().to_le_bytes());
                }
                noise.truncate(size);
                self.noise.clone_from(&noise);
                noise
            }
            1 => {
                let mut text = Vec::with_capacity(size + 200);
                while text.len() < size {
                    push_line(&mut text, self.rng.below(5000) as u32);
                }
                text
            }
            _ => {
                let mut changed = self.noise.clone();
                let middle = changed.len() / 2;
                changed.splice(middle..middle, *b"a few bytes more");
                changed
            }
        };
        bytes.truncate(size + 16);
        let blob = self.blob(&bytes)?;
        Ok(Change::Put { mode: "100644", blob, path: format!("big/{}.bin", number % 3) })
    }

    fn new_path(&mut self) -> String {
        self.named += 1;
        let folder = self.rng.index(self.folders.len());
        let folder = self.folders.get(folder).map_or("", String::as_str);
        let kind = ["rs", "c", "h", "md", "txt", "toml"];
        let ending = kind.get(self.named as usize % kind.len()).unwrap_or(&"txt");
        format!("{folder}{}_{}.{ending}", word(self.rng.next()), self.named)
    }

    /// Undoes a `swap_remove`, so that hot files stay at the front.
    fn put_back(&mut self, at: usize, file: File) {
        self.files.push(file);
        let last = self.files.len() - 1;
        self.files.swap(at, last);
    }

    fn text_blob(&mut self, lines: &[u32]) -> io::Result<Mark> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        for line in lines {
            push_line(&mut buffer, *line);
        }
        let mark = self.blob(&buffer);
        self.buffer = buffer;
        mark
    }

    fn blob(&mut self, bytes: &[u8]) -> io::Result<Mark> {
        self.marks += 1;
        self.summary.blobs += 1;
        writeln!(self.out, "blob\nmark :{}\ndata {}", self.marks, bytes.len())?;
        self.out.write_all(bytes)?;
        self.out.write_all(b"\n")?;
        Ok(self.marks)
    }

    fn commit(&mut self, branch: &str, from: Option<Mark>, merged: &[Mark], changes: &[Change]) -> io::Result<Mark> {
        self.summary.commits += 1;
        self.marks += 1;
        let mark = self.marks;
        self.time += self.rng.between(60, 5400);
        let mut time = self.time;
        if self.summary.commits > 1 && self.rng.chance(10) {
            // Older than its parent, as a machine with a wrong clock makes it.
            time -= self.rng.between(3600, 200_000);
            self.summary.skewed += 1;
        }
        let author = self.rng.below(40);
        let zone = ["+0000", "+0200", "-0700", "+0530"];
        let zone = zone.get(author as usize % zone.len()).unwrap_or(&"+0000");
        let mut message = format!("{} {}\n", word(self.rng.next()), word(self.rng.next())).into_bytes();
        let body = self.rng.below(6);
        if body > 0 {
            message.push(b'\n');
        }
        for _ in 0..body {
            push_line(&mut message, self.rng.next() as u32);
        }
        let written = time.saturating_sub(self.rng.below(7200));
        let out = &mut self.out;
        writeln!(out, "commit {branch}\nmark :{mark}")?;
        writeln!(out, "author Author {author} <author{author}@example.com> {written} {zone}")?;
        writeln!(out, "committer Committer <committer@example.com> {time} +0000")?;
        writeln!(out, "data {}", message.len())?;
        out.write_all(&message)?;
        if let Some(from) = from {
            writeln!(out, "from :{from}")?;
        }
        for parent in merged {
            writeln!(out, "merge :{parent}")?;
        }
        for change in changes {
            match change {
                Change::Put { mode, blob, path } => writeln!(out, "M {mode} :{blob} {path}")?,
                Change::Module { id, path } => writeln!(out, "M 160000 {id} {path}")?,
                Change::Delete { path } => writeln!(out, "D {path}")?,
            }
        }
        out.write_all(b"\n")?;
        Ok(mark)
    }

    /// Mostly an annotated tag of main; in turn also a lightweight one, a tag of a tag, a tag of a blob.
    fn tag(&mut self) -> io::Result<()> {
        self.summary.tags += 1;
        let n = self.summary.tags;
        let name = format!("v{n}");
        match n % 8 {
            2 => return writeln!(self.out, "reset refs/tags/{name}\nfrom :{}\n", self.main),
            4 => {
                let blob = self.files.first().map_or(self.main, |file| file.blob);
                self.annotated(&format!("blob-{name}"), &format!(":{blob}"))?;
            }
            6 => {
                if let Some(inner) = self.last_tag.clone() {
                    self.annotated(&format!("nested-{name}"), &inner)?;
                }
            }
            _ => {
                let target = format!(":{}", self.main);
                self.annotated(&name, &target)?;
                self.last_tag = Some(format!(":{}", self.marks));
            }
        }
        Ok(())
    }

    fn annotated(&mut self, name: &str, target: &str) -> io::Result<()> {
        self.marks += 1;
        let time = self.time;
        let message = format!("release {name}\n");
        writeln!(self.out, "tag {name}\nmark :{}\nfrom {target}", self.marks)?;
        writeln!(self.out, "tagger Committer <committer@example.com> {time} +0000")?;
        writeln!(self.out, "data {}\n{message}", message.len())
    }
}

fn put(file: &File) -> Change {
    let mode = if file.executable { "100755" } else { "100644" };
    Change::Put { mode, blob: file.blob, path: file.path.clone() }
}

#[rustfmt::skip]
const WORDS: [&str; 64] = [
    "let", "self", "return", "match", "value", "index", "offset", "length", "buffer", "writer",
    "reader", "object", "tree", "blob", "commit", "parent", "delta", "base", "pack", "entry",
    "error", "result", "option", "some", "none", "bytes", "slice", "count", "total", "limit",
    "first", "last", "next", "previous", "window", "cache", "lookup", "insert", "remove", "update",
    "check", "verify", "parse", "format", "header", "trailer", "checksum", "hash", "bits", "words",
    "run", "literal", "copy", "stream", "source", "target", "branch", "merge", "walk", "filter",
    "shallow", "depth", "graph", "generation",
];

fn word(number: u64) -> &'static str {
    WORDS.get((number % 64) as usize).unwrap_or(&"word")
}

/// Text that looks and compresses like code, made from a seed.
fn push_line(out: &mut Vec<u8>, seed: u32) {
    let mut bits = Rng::new(u64::from(seed)).next();
    let indent = (bits % 4) as usize * 4;
    out.resize(out.len() + indent, b' ');
    bits /= 4;
    let words = 2 + bits % 6;
    bits /= 8;
    for n in 0..words {
        if n > 0 {
            let joints: [&[u8]; 4] = [b" ", b".", b"(", b" = "];
            out.extend_from_slice(joints.get((bits % 4) as usize).unwrap_or(&joints[0]));
            bits /= 4;
        }
        out.extend_from_slice(word(bits).as_bytes());
        bits /= 64;
    }
    if seed.is_multiple_of(3) {
        out.extend_from_slice(format!(", {seed:x}").as_bytes());
    }
    out.extend_from_slice(b";\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sh::quiet_read;

    fn small(hash: Hash) -> Spec {
        Spec { commits: 300, files: 60, seed: 42, hash, big_blobs: 3, big_size: 20_000 }
    }

    fn bytes(spec: &Spec) -> (Vec<u8>, Summary) {
        let mut out = Vec::new();
        let summary = stream(spec, &mut out).unwrap();
        (out, summary)
    }

    #[test]
    fn the_stream_depends_on_the_options_alone() {
        let spec = small(Hash::Sha1);
        assert!(bytes(&spec).0 == bytes(&spec).0);
        assert!(bytes(&spec).0 != bytes(&Spec { seed: 43, ..spec }).0);
    }

    #[test]
    fn a_stream_has_some_of_everything() {
        let (out, summary) = bytes(&Spec { commits: 2000, ..small(Hash::Sha1) });
        // One more than asked for: the second root.
        assert_eq!(summary.commits, 2001);
        assert!(summary.merges > 50, "{summary:?}");
        assert!(summary.octopuses > 3, "{summary:?}");
        assert!(summary.renames > 20, "{summary:?}");
        assert!(summary.deletes > 10, "{summary:?}");
        assert!(summary.skewed > 5, "{summary:?}");
        let text = String::from_utf8_lossy(&out);
        for needle in ["\nM 120000 ", "\nM 160000 ", "\nM 100755 ", "\ntag nested-", "\ntag blob-", "\nD "] {
            assert!(text.contains(needle), "no {needle:?}");
        }
    }

    /// Ids are pinned: whoever changes the generator changes everybody's repositories, and should know.
    #[test]
    fn same_seed_gives_the_same_ids() {
        let home = std::env::temp_dir().join(format!("packstone-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let sh = Sh { dry_run: false };
        let git = Git::new(sh, "git".as_ref(), &home, None).unwrap();
        for (hash, main) in [(Hash::Sha1, PINNED_SHA1), (Hash::Sha256, PINNED_SHA256)] {
            let refs: Vec<String> = (0..2)
                .map(|n| {
                    let dir = home.join(format!("{}-{n}", hash.name()));
                    create(sh, &git, &dir, &small(hash)).unwrap();
                    quiet_read(git.at(&dir).args(["fsck", "--full", "--strict", "--no-dangling"])).unwrap();
                    assert_eq!(git.rev_parse(&dir, "refs/heads/main").unwrap(), main);
                    quiet_read(git.at(&dir).arg("for-each-ref")).unwrap()
                })
                .collect();
            assert_eq!(refs[0], refs[1]);
            assert!(refs[0].lines().count() > 20);
        }
        std::fs::remove_dir_all(&home).unwrap();
    }

    const PINNED_SHA1: &str = "d61d1ff96b03e0e5ebbeb8cc730baee3cf27d2fb";
    const PINNED_SHA256: &str = "629e7d0ce95ff6164e3dee89c9e08ca9dc5b4f388544c44e474b92ee3fd7b081";
}
