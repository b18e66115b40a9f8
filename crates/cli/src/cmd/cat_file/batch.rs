//! Answers about many objects: those that standard input names, or all.

use std::collections::HashSet;
use std::ops::Range;
use std::thread::{self, Scope, ScopedJoinHandle};

use object::ObjectId;
use odb::{Location, Store};
use pack_format::{IdxPos, PackPos};

use super::answer::{About, Answers, Buffers, Item, Request};
use super::crew::{Crew, Unit};
use super::input::Lines;
use super::output::Output;
use super::typed::{Batch, BatchKind};
use crate::replace::Replacements;
use crate::report::{self, Failure, chain};
use crate::revs::Revisions;
use crate::revs::path::Named;
use crate::setup::Repository;
use crate::stdio;

/// So many requests for content make a unit of work.
const CONTENTS: usize = 64;

/// So many requests for what is found out without reading content make one, at first and after a while: others can
/// start soon, and are not woken too often.
const HEADERS: [usize; 2] = [64, 2048];

/// Runs one of the batch options.
pub(super) fn run(repo: &Repository, batch: &Batch) -> Result<(), Failure> {
    let store = repo.open_store()?;
    let shallow = repo.shallow(false)?;
    let replacements = if batch.all_objects { Replacements::default() } else { Replacements::read(repo)? };
    let answers = Answers::new(&store, &replacements, batch);
    let makers = thread::available_parallelism().map_or(1, usize::from);
    let crew = Crew::new(makers);
    thread::scope(|scope| {
        let mut work = Work {
            repo,
            batch,
            store: &store,
            revisions: Revisions::new(repo, &store, &shallow).replacing(&replacements),
            answers: &answers,
            unit: Unit::default(),
            enough: HEADERS[0],
            hands: Hands::Own(Output::new(batch.buffer)?, Box::default()),
            makers,
            crew: &crew,
            scope,
        };
        let done = match (batch.all_objects, batch.kind) {
            (true, _) => work.all_objects(),
            (false, BatchKind::Commands) => work.commands(),
            (false, _) => work.lines(),
        };
        work.finish(done)
    })
}

/// Who answers.
enum Hands<'s> {
    /// This thread.
    Own(Output, Box<Buffers>),
    /// Others; this is the one that writes.
    Crew(ScopedJoinHandle<'s, Result<(), Failure>>),
}

/// A batch being worked off.
struct Work<'s, 'e> {
    repo: &'e Repository,
    batch: &'e Batch,
    store: &'e Store,
    revisions: Revisions<'e>,
    answers: &'e Answers<'e>,
    /// Requests that wait to be answered.
    unit: Unit,
    /// So many requests for headers are handed out together.
    enough: usize,
    hands: Hands<'s>,
    /// How many threads make answers, when there are enough of them.
    makers: usize,
    crew: &'e Crew,
    scope: &'s Scope<'s, 'e>,
}

impl<'s, 'e: 's> Work<'s, 'e> {
    /// Answers about what lines name.
    fn lines(&mut self) -> Result<(), Failure> {
        let mut lines = Lines::new(stdio::stdin()?, self.batch.delim_in);
        loop {
            let Some(line) = lines.next() else {
                self.before_waiting()?;
                if lines.fill()? {
                    continue;
                }
                return Ok(());
            };
            let line = lines.get(&line);
            let (name, rest) = if self.answers.splits_lines() { split(line) } else { (line, &b""[..]) };
            self.name(name, rest, self.batch.kind)?;
        }
    }

    /// Has one name answered about.
    fn name(&mut self, name: &[u8], rest: &[u8], kind: BatchKind) -> Result<(), Failure> {
        let found = match ObjectId::from_hex_prefix(name, self.repo.hash) {
            Some(id) if name.len() == self.repo.hash.hex_len() => Named::Object(id, None),
            _ => self.revisions.find(name, self.batch.follow_symlinks)?,
        };
        let mut keep = |bytes: &[u8]| -> Range<usize> {
            let start = self.unit.text.len();
            self.unit.text.extend_from_slice(bytes);
            start..self.unit.text.len()
        };
        let about = match found {
            Named::Object(id, mode) => {
                About::Object(Request { id, mode, name: Some(keep(name)), rest: keep(rest), place: None })
            }
            Named::Missing => About::Name(keep(name), "missing"),
            Named::Ambiguous => About::Name(keep(name), "ambiguous"),
            Named::Outside(path) => About::Path("symlink", keep(&path)),
            Named::Dangling => About::Path("dangling", keep(name)),
            Named::Loop => About::Path("loop", keep(name)),
            Named::NotDir => About::Path("notdir", keep(name)),
        };
        self.item(about, kind)
    }

    fn item(&mut self, about: About, kind: BatchKind) -> Result<(), Failure> {
        self.unit.items.push(Item { about, kind });
        let enough = if kind == BatchKind::Contents { CONTENTS } else { self.enough };
        if self.unit.items.len() < enough {
            return Ok(());
        }
        self.enough = (self.enough + self.enough / 4).min(HEADERS[1]);
        self.pass_on(true)
    }

    /// Has what waits answered. `many`: more is to come at once, so that help pays.
    fn pass_on(&mut self, many: bool) -> Result<(), Failure> {
        let unit = std::mem::take(&mut self.unit);
        match &mut self.hands {
            Hands::Own(out, buffers) => {
                if many && self.makers > 1 {
                    self.call_help()?;
                    self.unit = unit;
                    return self.pass_on(many);
                }
                for item in &unit.items {
                    self.answers.item(item, &unit.text, buffers, out)?;
                }
                if unit.flush { out.flush() } else { Ok(()) }
            }
            Hands::Crew(_) => {
                let empty = unit.items.is_empty() && !unit.flush;
                if empty || self.crew.submit(unit) { Ok(()) } else { Err(Failure::ClosedPipe) }
            }
        }
    }

    /// Starts the threads.
    fn call_help(&mut self) -> Result<(), Failure> {
        let (crew, answers) = (self.crew, self.answers);
        for _ in 0..self.makers {
            self.scope.spawn(move || crew.make(answers));
        }
        let Hands::Own(out, _) = &mut self.hands else { return Ok(()) };
        let mut out = out.hand_over()?;
        self.hands = Hands::Crew(self.scope.spawn(move || crew.write(&mut out)));
        Ok(())
    }

    /// Before input is waited for, everything is on its way, unless output is to be buffered.
    fn before_waiting(&mut self) -> Result<(), Failure> {
        self.pass_on(false)?;
        match &mut self.hands {
            Hands::Own(out, _) => out.before_waiting(),
            // The writer sees to that.
            Hands::Crew(_) => Ok(()),
        }
    }

    /// Waits for all answers. What was asked for before something went wrong is answered.
    fn finish(mut self, done: Result<(), Failure>) -> Result<(), Failure> {
        let passed = self.pass_on(false);
        match self.hands {
            Hands::Own(mut out, _) => {
                let flushed = out.flush();
                done.and(passed).and(flushed)
            }
            Hands::Crew(writer) => {
                self.crew.close();
                let written = writer.join().unwrap_or(Err(Failure::Exit(128)));
                // The writer knows the reason why others stopped.
                written.and(done).and(passed)
            }
        }
    }

    /// Does what lines say.
    fn commands(&mut self) -> Result<(), Failure> {
        let mut lines = Lines::new(stdio::stdin()?, self.batch.delim_in);
        let mut queue: Vec<(BatchKind, Vec<u8>)> = Vec::new();
        loop {
            let Some(line) = lines.next() else {
                self.before_waiting()?;
                if lines.fill()? {
                    continue;
                }
                break;
            };
            match parse(lines.get(&line))? {
                Command::Flush if !self.batch.buffer => return Err(Failure::fatal("flush is only for --buffer mode")),
                Command::Flush => {
                    self.work_off(&mut queue)?;
                    self.unit.flush = true;
                    self.pass_on(false)?;
                }
                Command::Answer(kind, name) if self.batch.buffer => queue.push((kind, name.to_vec())),
                Command::Answer(kind, name) => self.name(name, b"", kind)?,
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
            self.name(&name, b"", kind)?;
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
            self.by_id(id, None)?;
        }
        Ok(())
    }

    fn by_id(&mut self, id: ObjectId, place: Option<Location>) -> Result<(), Failure> {
        self.item(About::Object(Request { id, mode: None, name: None, rest: 0..0, place }), self.batch.kind)
    }

    /// Loose objects, then pack by pack, each object where it lies; each once.
    fn as_stored(&mut self) -> Result<(), Failure> {
        let packs = self.store.packs().map_err(|error| Failure::Fatal(chain(&error)))?;
        let mut loose = Vec::new();
        for source in 0..self.store.sources().len() {
            loose.extend(self.store.loose_ids(source).map_err(|error| Failure::Fatal(chain(&error)))?);
        }
        let mut seen = HashSet::new();
        let one_place = packs.len() + usize::from(!loose.is_empty()) <= 1;
        for id in loose {
            if seen.insert(id) {
                self.by_id(id, None)?;
            }
        }
        for pack in packs.iter() {
            // An index with a bad offset has no order.
            let order = pack.order().ok();
            for nth in 0..pack.count() {
                let pos = order.map_or(IdxPos::new(nth), |order| order.idx_pos(PackPos::new(nth)));
                let id = pack.idx().id(pos);
                if one_place || seen.insert(id) {
                    let place = order.map(|order| {
                        let at = order.offset(PackPos::new(nth));
                        Location::Packed { pack: pack.clone(), pos, at }
                    });
                    self.by_id(id, place)?;
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
