//! Answers about many objects: those that standard input names, or all.

use std::collections::HashSet;

use object::ObjectId;
use odb::{Location, Store};
use pack_format::PackPos;

use super::answer::{Answers, Buffers, Request};
use super::input::Lines;
use super::output::Output;
use super::typed::{Batch, BatchKind};
use crate::replace::Replacements;
use crate::report::{self, Failure, chain};
use crate::revs::Revisions;
use crate::revs::path::Named;
use crate::setup::Repository;
use crate::stdio;

/// Runs one of the batch options.
pub(super) fn run(repo: &Repository, batch: &Batch) -> Result<(), Failure> {
    let store = repo.open_store()?;
    let shallow = repo.shallow(false)?;
    let replacements = if batch.all_objects { Replacements::default() } else { Replacements::read(repo)? };
    let revisions = Revisions::new(repo, &store, &shallow).replacing(&replacements);
    let mut work = Work {
        repo,
        batch,
        store: &store,
        revisions,
        answers: Answers::new(&store, &replacements, batch),
        buffers: Buffers::default(),
        out: Output::new(batch.buffer)?,
    };
    let done = match (batch.all_objects, batch.kind) {
        (true, _) => work.all_objects(),
        (false, BatchKind::Commands) => work.commands(),
        (false, _) => work.lines(),
    };
    // What was answered before something went wrong was an answer.
    let flushed = work.out.flush();
    done.and(flushed)
}

/// A batch being worked off.
struct Work<'w> {
    repo: &'w Repository,
    batch: &'w Batch,
    store: &'w Store,
    revisions: Revisions<'w>,
    answers: Answers<'w>,
    buffers: Buffers,
    out: Output,
}

impl Work<'_> {
    /// Answers about what lines name.
    fn lines(&mut self) -> Result<(), Failure> {
        let mut lines = Lines::new(stdio::stdin()?, self.batch.delim_in);
        loop {
            let Some(line) = lines.next() else {
                self.out.before_waiting()?;
                if lines.fill()? {
                    continue;
                }
                return Ok(());
            };
            let line = lines.get(&line);
            let (name, rest) = if self.answers.splits_lines() { split(line) } else { (line, &b""[..]) };
            self.answer(name, rest, self.batch.kind)?;
        }
    }

    /// Answers about one name.
    fn answer(&mut self, name: &[u8], rest: &[u8], kind: BatchKind) -> Result<(), Failure> {
        let found = match ObjectId::from_hex_prefix(name, self.repo.hash) {
            Some(id) if name.len() == self.repo.hash.hex_len() => Named::Object(id, None),
            _ => self.revisions.find(name, self.batch.follow_symlinks)?,
        };
        let (answers, out) = (&self.answers, &mut self.out);
        match found {
            Named::Object(id, mode) => {
                let request = Request { id, mode, name: Some(name), rest, place: None };
                answers.answer(&request, kind, &mut self.buffers, out)
            }
            Named::Missing => answers.status(name, "missing", out),
            Named::Ambiguous => answers.status(name, "ambiguous", out),
            Named::Outside(path) => answers.path_status("symlink", &path, out),
            Named::Dangling => answers.path_status("dangling", name, out),
            Named::Loop => answers.path_status("loop", name, out),
            Named::NotDir => answers.path_status("notdir", name, out),
        }
    }

    /// Does what lines say.
    fn commands(&mut self) -> Result<(), Failure> {
        let mut lines = Lines::new(stdio::stdin()?, self.batch.delim_in);
        let mut queue: Vec<(BatchKind, Vec<u8>)> = Vec::new();
        loop {
            let Some(line) = lines.next() else {
                self.out.before_waiting()?;
                if lines.fill()? {
                    continue;
                }
                break;
            };
            match parse(lines.get(&line))? {
                Command::Flush if !self.batch.buffer => return Err(Failure::fatal("flush is only for --buffer mode")),
                Command::Flush => {
                    self.work_off(&mut queue)?;
                    self.out.flush()?;
                }
                Command::Answer(kind, name) if self.batch.buffer => queue.push((kind, name.to_vec())),
                Command::Answer(kind, name) => self.answer(name, b"", kind)?,
            }
        }
        // So that git's test suite can see what a flush is good for.
        if self.repo.env.truth("GIT_TEST_CAT_FILE_NO_FLUSH_ON_EXIT", false)? {
            return Ok(());
        }
        self.work_off(&mut queue)
    }

    fn work_off(&mut self, queue: &mut Vec<(BatchKind, Vec<u8>)>) -> Result<(), Failure> {
        for (kind, name) in queue.drain(..) {
            self.answer(&name, b"", kind)?;
        }
        Ok(())
    }

    /// Answers about all objects.
    fn all_objects(&mut self) -> Result<(), Failure> {
        if self.repo.promisor.is_some() {
            report::warning("This repository uses promisor remotes. Some objects may not be loaded.");
        }
        if self.batch.unordered {
            return self.as_stored();
        }
        for id in self.store.ids().map_err(|error| Failure::Fatal(chain(&error)))? {
            self.by_id(id)?;
        }
        Ok(())
    }

    fn by_id(&mut self, id: ObjectId) -> Result<(), Failure> {
        let request = Request { id, mode: None, name: None, rest: b"", place: None };
        self.answers.answer(&request, self.batch.kind, &mut self.buffers, &mut self.out)
    }

    /// Loose objects, then pack by pack, each object where it lies; each once.
    fn as_stored(&mut self) -> Result<(), Failure> {
        let failed = |error: &odb::ReadError| Failure::Fatal(chain(error));
        let packs = self.store.packs().map_err(|error| Failure::Fatal(chain(&error)))?;
        let mut loose = Vec::new();
        for source in 0..self.store.sources().len() {
            loose.extend(self.store.loose_ids(source).map_err(|error| failed(&error))?);
        }
        let mut seen = HashSet::new();
        let one_place = packs.len() + usize::from(!loose.is_empty()) <= 1;
        for id in loose {
            if seen.insert(id) {
                self.by_id(id)?;
            }
        }
        for pack in packs.iter() {
            let order = match pack.order() {
                Ok(order) => order,
                // An index with a bad offset has no order.
                Err(_) => {
                    for pos in 0..pack.count() {
                        let id = pack.idx().id(pack_format::IdxPos::new(pos));
                        if one_place || seen.insert(id) {
                            self.by_id(id)?;
                        }
                    }
                    continue;
                }
            };
            for pos in (0..order.count()).map(PackPos::new) {
                let idx_pos = order.idx_pos(pos);
                let id = pack.idx().id(idx_pos);
                if one_place || seen.insert(id) {
                    let place = Location::Packed { pack: pack.clone(), pos: idx_pos, at: order.offset(pos) };
                    let request = Request { id, mode: None, name: None, rest: b"", place: Some(place) };
                    self.answers.answer(&request, self.batch.kind, &mut self.buffers, &mut self.out)?;
                }
            }
        }
        Ok(())
    }
}

/// The object's name, and the rest of the line behind its first white space.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let (name, rest) = line.split_at(line.iter().position(is_space).unwrap_or(line.len()));
    let from = rest.iter().position(|byte| !is_space(byte)).unwrap_or(rest.len());
    (name, rest.get(from..).unwrap_or_default())
}

/// A line for `--batch-command`.
enum Command<'l> {
    Flush,
    Answer(BatchKind, &'l [u8]),
}

fn parse(line: &[u8]) -> Result<Command<'_>, Failure> {
    let shown = || String::from_utf8_lossy(line).into_owned();
    match line.first() {
        None => return Err(Failure::fatal("empty command in input")),
        Some(byte) if byte.is_ascii_whitespace() || *byte == 0x0b => {
            return Err(Failure::Fatal(format!("whitespace before command: '{}'", shown())));
        }
        Some(_) => {}
    }
    for name in ["contents", "flush", "info", "mailmap", "remote-object-info"] {
        let Some(rest) = line.strip_prefix(name.as_bytes()) else { continue };
        let argument = match (name, rest) {
            ("flush", b"") => return Ok(Command::Flush),
            ("flush", _) => return Err(Failure::fatal("flush takes no arguments")),
            (_, [b' ', argument @ ..]) => argument,
            _ => return Err(Failure::Fatal(format!("{name} requires arguments"))),
        };
        return match name {
            "contents" => Ok(Command::Answer(BatchKind::Contents, argument)),
            "info" => Ok(Command::Answer(BatchKind::Info, argument)),
            _ => Err(Failure::Fatal(format!("command '{name}' is not supported yet"))),
        };
    }
    Err(Failure::Fatal(format!("unknown command: '{}'", shown())))
}
