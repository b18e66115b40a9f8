//! Answers about one object, named on the command line.

use std::ffi::OsStr;
use std::io::{BufWriter, Read, Write};

use object::tree::Entries;
use object::{ObjectId, ObjectKind};
use odb::{ReadError, Store};
use revwalk::Shallow;

use super::typed::{Mode, kind_of};
use crate::env::os_bytes;
use crate::quote::quote_c;
use crate::replace::Replacements;
use crate::report::{self, Failure, chain};
use crate::revs::Revisions;
use crate::revs::path::canonical;
use crate::setup::Repository;
use crate::stdio;

/// The repository, open.
struct Open<'r> {
    repo: &'r Repository,
    store: Store,
    shallow: Shallow,
    replacements: Replacements,
}

impl Open<'_> {
    fn new(repo: &Repository) -> Result<Open<'_>, Failure> {
        Ok(Open {
            repo,
            store: repo.open_store()?,
            shallow: repo.shallow(false)?,
            replacements: Replacements::read(repo)?,
        })
    }

    fn revisions(&self) -> Revisions<'_> {
        Revisions::new(self.repo, &self.store, &self.shallow).replacing(&self.replacements)
    }
}

/// Does what `-e`, `-p`, `-t` or `-s` asks for.
pub(super) fn answer(repo: &Repository, mode: Mode, name: &OsStr) -> Result<(), Failure> {
    let open = Open::new(repo)?;
    let id = open.revisions().need(&os_bytes(name))?;
    let header = || {
        let header = open.store.header(&open.replacements.of(&id)?);
        header.map_err(|error| {
            say(&error);
            match mode {
                Mode::Pretty => Failure::Fatal(format!("Not a valid object name {}", name.to_string_lossy())),
                _ => Failure::fatal("git cat-file: could not get object info"),
            }
        })
    };
    match mode {
        Mode::Exists => match open.store.contains(&id) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Exit(1)),
            Err(error) => Err(Failure::Fatal(chain(&error))),
        },
        Mode::Kind => print(header()?.kind.name()),
        Mode::Size => print(&header()?.size.to_string()),
        _ if header()?.kind == ObjectKind::Tree => list(&open, &id),
        _ => show(&open, &id),
    }
}

/// Shows what the object leads to that is of this kind.
pub(super) fn show_as(repo: &Repository, kind: &OsStr, name: &OsStr) -> Result<(), Failure> {
    let open = Open::new(repo)?;
    let revisions = open.revisions();
    let id = revisions.need(&os_bytes(name))?;
    match revisions.peel(id, Some(kind_of(kind)?))? {
        Some(id) => show(&open, &id),
        None => Err(Failure::Fatal(format!("git cat-file {}: bad file", name.to_string_lossy()))),
    }
}

/// The content as it is.
fn show(open: &Open<'_>, id: &ObjectId) -> Result<(), Failure> {
    let mut out = stdio::stdout()?;
    let failed = || Failure::Fatal(format!("unable to stream {id} to stdout"));
    let mut stream = open.store.stream(&open.replacements.of(id)?).map_err(|error| {
        say(&error);
        failed()
    })?;
    let mut block = vec![0; stdio::BLOCK];
    loop {
        let read = stream.read(&mut block).map_err(|error| {
            report::say(&format!("error: {error}\n"));
            failed()
        })?;
        let Some(part) = block.get(..read).filter(|part| !part.is_empty()) else { return Ok(()) };
        out.write_all(part).map_err(stdio::failed)?;
    }
}

/// A tree as ls-tree lists it.
fn list(open: &Open<'_>, id: &ObjectId) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let read = open.store.read(&open.replacements.of(id)?, &mut bytes);
    read.map_err(|error| Failure::Fatal(chain(&error)))?;
    let quote = open.repo.config.truth("core.quotepath")?.unwrap_or(true);
    let mut out = BufWriter::with_capacity(stdio::BLOCK, stdio::stdout()?);
    let mut line = Vec::new();
    for entry in Entries::new(&bytes, open.repo.hash) {
        let entry = entry.map_err(|error| Failure::Fatal(format!("tree {id}: {error}")))?;
        let kind = entry.mode.object_kind().unwrap_or(ObjectKind::Commit);
        line.clear();
        line.extend_from_slice(format!("{:06o} {} {}\t", canonical(entry.mode), kind.name(), entry.id).as_bytes());
        quote_c(entry.name, quote, &mut line);
        line.push(b'\n');
        out.write_all(&line).map_err(stdio::failed)?;
    }
    out.flush().map_err(stdio::failed)
}

fn print(line: &str) -> Result<(), Failure> {
    let mut out = stdio::stdout()?;
    out.write_all(format!("{line}\n").as_bytes()).map_err(stdio::failed)
}

/// That an object is not there is said by what follows; what is wrong with one is said here.
pub(super) fn say(error: &ReadError) {
    if !error.is_missing() {
        report::say(&format!("error: {}\n", chain(error)));
    }
}
