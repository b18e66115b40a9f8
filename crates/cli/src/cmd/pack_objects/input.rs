//! What standard input says, with the references and indexes that options add to it.

use std::io::{self, Read as _};

use object::{ObjectId, ObjectKind};
use odb::Store;
use revwalk::Shallow;

use super::settings::Settings;
use crate::index_ids;
use crate::refs::Ref;
use crate::report::{Failure, chain, plain_io};
use crate::revs::{Revisions, Tips};
use crate::setup::Repository;

/// The objects to pack.
#[derive(Debug)]
pub(super) enum Input {
    /// Each of these, with the path it was found at; and commits whose objects the receiver has.
    Objects { list: Vec<(ObjectId, Vec<u8>)>, bases: Vec<ObjectId> },
    /// What is reached from wants and not from haves.
    Revisions(Tips),
}

/// Everything the `pack-objects` crate needs to know.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) settings: Settings,
    pub(super) input: Input,
    pub(super) shallow: Shallow,
    /// For `--include-tag`: each tag below `refs/tags/`, and what it is a tag of in the end.
    pub(super) tags: Vec<(ObjectId, ObjectId)>,
}

/// Reads standard input, and with `--all` and its like the references, into a request.
pub(super) fn read_input(
    mut settings: Settings,
    mut shallow: Shallow,
    repository: &Repository,
    store: &Store,
) -> Result<Request, Failure> {
    let mut input = Vec::new();
    io::stdin()
        .lock()
        .read_to_end(&mut input)
        .map_err(|error| Failure::Fatal(format!("cannot read standard input: {}", plain_io(&error))))?;
    let read = if settings.revs {
        read_revisions(&input, &mut settings, &mut shallow, repository, store)?
    } else {
        read_objects(&input, repository)?
    };
    let tags = if settings.include_tag {
        let revisions = Revisions::new(repository, store, &shallow);
        let mut tags = Vec::new();
        for tag in revisions.refs()?.list("refs/tags/")? {
            let peeled = match tag.peeled {
                Some(peeled) => Some(peeled),
                None => match store.header(&tag.id) {
                    Ok(header) if header.kind == ObjectKind::Tag => revisions.peel(tag.id, None)?,
                    _ => None,
                },
            };
            tags.extend(peeled.map(|peeled| (tag.id, peeled)));
        }
        tags
    } else {
        Vec::new()
    };
    Ok(Request { settings, input: read, shallow, tags })
}

/// Lines `<id>[ <path>]` and `-<id>`.
fn read_objects(input: &[u8], repository: &Repository) -> Result<Input, Failure> {
    let hash = repository.hash;
    let garbage = |what: &str, line: &[u8]| {
        Failure::Fatal(format!("expected {what}, got garbage:\n {}", String::from_utf8_lossy(line)))
    };
    let (mut list, mut bases) = (Vec::new(), Vec::new());
    for line in lines(input) {
        if let Some(id) = line.strip_prefix(b"-") {
            bases.push(ObjectId::from_hex_prefix(id, hash).ok_or_else(|| garbage("edge object ID", line))?);
            continue;
        }
        let id = ObjectId::from_hex_prefix(line, hash).ok_or_else(|| garbage("object ID", line))?;
        let path = line.get(hash.hex_len() + 1..).unwrap_or_default().to_vec();
        list.push((id, path));
    }
    Ok(Input::Objects { list, bases })
}

/// Revisions, after what the options add (`--all`, `--reflog`, `--indexed-objects`).
fn read_revisions(
    input: &[u8],
    settings: &mut Settings,
    shallow: &mut Shallow,
    repository: &Repository,
    store: &Store,
) -> Result<Input, Failure> {
    let lines: Vec<&[u8]> = lines(input).take_while(|line| !line.is_empty()).collect();
    // History is cut before it is looked at, wherever the lines that say so stand.
    for line in &lines {
        if let Some(id) = line.strip_prefix(b"--shallow ") {
            let id = ObjectId::from_hex_prefix(id, repository.hash)
                .ok_or_else(|| Failure::Fatal(format!("not an object name '{}'", String::from_utf8_lossy(id))))?;
            shallow.cut(id);
            settings.bitmaps = false;
        }
    }
    let revisions = Revisions::new(repository, store, shallow);
    let mut tips = Tips::default();
    if settings.all {
        add_all(&revisions, store, false, &mut tips)?;
    }
    if settings.reflog {
        for id in revisions.refs()?.logged_ids()? {
            // Logs outlive what they name.
            if store.contains(&id).map_err(|error| Failure::Fatal(chain(&error)))? {
                tips.push(id, false);
            }
        }
    }
    if settings.indexed_objects {
        add_indexed(&revisions, repository, &mut tips)?;
    }
    let mut not = false;
    for line in lines {
        match line {
            b"--not" => not = !not,
            [b'-', ..] => add_option(line, &revisions, store, not, &mut tips)?,
            _ => revisions.add(line, not, &mut tips)?,
        }
    }
    Ok(Input::Revisions(tips))
}

/// A line that begins with a dash. git takes only `--not` and `--shallow`; sets of references are welcome here, too.
fn add_option(
    line: &[u8],
    revisions: &Revisions<'_>,
    store: &Store,
    not: bool,
    tips: &mut Tips,
) -> Result<(), Failure> {
    if line.starts_with(b"--shallow ") {
        return Ok(());
    }
    if line == b"--all" {
        return add_all(revisions, store, not, tips);
    }
    let (name, pattern) = match line.iter().position(|&byte| byte == b'=') {
        Some(at) => (&line[..at], Some(&line[at + 1..])),
        None => (line, None),
    };
    let base = match name {
        b"--branches" => "refs/heads/",
        b"--tags" => "refs/tags/",
        b"--remotes" => "refs/remotes/",
        b"--glob" if pattern.is_some() => "",
        _ => return Err(Failure::Fatal(format!("not a rev '{}'", String::from_utf8_lossy(line)))),
    };
    let found = match pattern {
        Some(pattern) => revisions.refs()?.matching(base, pattern)?,
        None => revisions.refs()?.list(base)?,
    };
    for reference in found {
        add_reference(store, &reference, not, tips)?;
    }
    Ok(())
}

fn add_reference(store: &Store, reference: &Ref, not: bool, tips: &mut Tips) -> Result<(), Failure> {
    if !store.contains(&reference.id).map_err(|error| Failure::Fatal(chain(&error)))? {
        return Err(Failure::Fatal(format!("bad object {}", String::from_utf8_lossy(&reference.name))));
    }
    tips.push(reference.id, not);
    Ok(())
}

/// Every reference and what every work tree has checked out.
fn add_all(revisions: &Revisions<'_>, store: &Store, not: bool, tips: &mut Tips) -> Result<(), Failure> {
    let refs = revisions.refs()?;
    for reference in refs.list("refs/")?.into_iter().chain(refs.head()?).chain(refs.other_heads()?) {
        add_reference(store, &reference, not, tips)?;
    }
    Ok(())
}

/// What the indexes of all work trees name.
fn add_indexed(revisions: &Revisions<'_>, repository: &Repository, tips: &mut Tips) -> Result<(), Failure> {
    for dir in revisions.refs()?.git_dirs() {
        let index = match repository.env.path("GIT_INDEX_FILE").filter(|_| dir == repository.git_dir) {
            Some(path) => path,
            None => dir.join("index"),
        };
        for id in index_ids::of_git_dir(&dir, &index, repository.hash).map_err(Failure::Fatal)? {
            tips.push(id, false);
        }
    }
    Ok(())
}

/// Lines without their line feeds; no line behind the last line feed.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let some = (!bytes.is_empty()).then(|| body.split(|&byte| byte == b'\n'));
    some.into_iter().flatten()
}
