//! Names with a path: `revision:path`, `:path`, `:2:path`, and what is behind symbolic links on the way.
//!
//! A path that begins with `./` or `../` counts from the user's place in the work tree, all others from the top.

use index::trees::TreeLimits;
use index::{Bump, sparse};
use object::tree::{Entries, Entry, Mode};
use object::{ObjectId, ObjectKind};

use super::{Hint, Miss, Revisions, unsupported};
use crate::env::bytes_to_path;
use crate::index::IndexPlace;
use crate::objects::Objects;
use crate::report::{self, Failure, chain};

/// So many symbolic links are followed, as in git.
const MAX_LINKS: usize = 40;

/// What an argument names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// This object, whether it is there or not, and the mode that a tree or the index gives it.
    Object(ObjectId, Option<u32>),
    /// Nothing.
    Missing,
    /// An abbreviated id that several objects have, which has been said.
    Ambiguous,
    /// A symbolic link that leads out of the tree: to there.
    Outside(Vec<u8>),
    /// A symbolic link that leads to nothing.
    Dangling,
    /// Symbolic links without end.
    Loop,
    /// A path with a file in a directory's place.
    NotDir,
}

impl Named {
    /// The object, if it is one.
    pub(super) fn object(self) -> Option<ObjectId> {
        match self {
            Named::Object(id, _) => Some(id),
            _ => None,
        }
    }
}

/// An entry of the index.
pub(super) struct Staged {
    path: Vec<u8>,
    stage: u8,
    mode: u32,
    id: ObjectId,
}

/// A mode as git reads it: what kind of entry, and whether a file is executable.
pub(crate) fn canonical(mode: Mode) -> u32 {
    if mode.is_blob() {
        if mode.0 & 0o100 != 0 { 0o100_755 } else { 0o100_644 }
    } else if mode.is_symlink() {
        0o120_000
    } else if mode.is_tree() {
        0o040_000
    } else {
        0o160_000
    }
}

impl Revisions<'_> {
    /// What an argument names. `follow`: symbolic links in `revision:path` are followed.
    pub(crate) fn find(&self, text: &[u8], follow: bool) -> Result<Named, Failure> {
        let found = match self.resolve_name(text, Hint::Any) {
            Ok(id) => Ok(Named::Object(id, None)),
            Err(Miss::Unknown) => self.resolve_path(text, follow),
            Err(miss) => Err(miss),
        };
        match found {
            Ok(found) => Ok(found),
            Err(Miss::Unknown) => Ok(Named::Missing),
            Err(Miss::Ambiguous) => Ok(Named::Ambiguous),
            Err(Miss::Failed(failure)) => Err(failure),
        }
    }

    /// The object that an argument names, or why it names none.
    pub(crate) fn need(&self, text: &[u8]) -> Result<ObjectId, Failure> {
        match self.find(text, false)?.object() {
            Some(id) => Ok(id),
            None => Err(self.why_nothing(text)?),
        }
    }

    /// `revision:path` and `:path`; a colon inside `@{...}` or `^{...}` belongs to something else.
    pub(super) fn resolve_path(&self, text: &[u8], follow: bool) -> Result<Named, Miss> {
        match text {
            [b':', b'/', _, ..] => Err(unsupported(text)),
            [b':', rest @ ..] => {
                let (stage, path) = stage_of(rest);
                let path = self.whole_path(path)?;
                Ok(self
                    .staged(&path)?
                    .find(|staged| staged.stage == stage)
                    .map_or(Named::Missing, |staged| Named::Object(staged.id, Some(staged.mode))))
            }
            _ => {
                let (revision, path) = split(text).ok_or(Miss::Unknown)?;
                let id = self.inner(revision, Hint::Treeish)?;
                let path = self.whole_path(path)?;
                let Some(tree) = self.tree(&id)? else { return Err(Miss::Unknown) };
                if follow { self.follow(tree, path) } else { self.walk(tree, &path) }
            }
        }
    }

    /// The path from the top of the work tree.
    fn whole_path(&self, path: &[u8]) -> Result<Vec<u8>, Failure> {
        if !path.starts_with(b"./") && !path.starts_with(b"../") {
            return Ok(path.to_vec());
        }
        if self.repository.work_tree.is_none() {
            return Err(Failure::fatal("relative path syntax can't be used outside working tree"));
        }
        self.repository.path_in_tree(path)
    }

    /// Walks down from a tree.
    fn walk(&self, (root, mut bytes): Tree, path: &[u8]) -> Result<Named, Miss> {
        let mut rest = path;
        let mut found = (root, None);
        while !rest.is_empty() {
            let (name, below) = first_part(rest);
            let entry = self.entry(&bytes, name).ok_or(Miss::Unknown)?;
            found = (entry.0, Some(entry.1));
            let Some(below) = below else { break };
            if entry.1 != 0o040_000 {
                return Err(Miss::Unknown);
            }
            rest = below;
            if !rest.is_empty() {
                bytes = self.tree(&entry.0)?.ok_or(Miss::Unknown)?.1;
            }
        }
        Ok(Named::Object(found.0, found.1))
    }

    /// Walks down from a tree, and on where symbolic links lead.
    fn follow(&self, root: Tree, path: Vec<u8>) -> Result<Named, Miss> {
        // From the root to where we are; what is still to be walked; the mode met last.
        let (mut dirs, mut rest, mut mode) = (vec![root], path, None);
        let mut links = 0;
        let missing = |links| if links > 0 { Named::Dangling } else { Named::Missing };
        loop {
            let Some((id, bytes)) = dirs.last() else { return Ok(Named::Missing) };
            let slashes = rest.iter().take_while(|&&byte| byte == b'/').count();
            rest.drain(..slashes);
            let (name, below) = first_part(&rest);
            if name.is_empty() {
                return Ok(Named::Object(*id, mode));
            }
            if name == b".." {
                if dirs.len() == 1 {
                    return Ok(Named::Outside(rest));
                }
                rest = below.unwrap_or_default().to_vec();
                dirs.pop();
                continue;
            }
            let Some((id, found)) = self.entry(bytes, name) else { return Ok(missing(links)) };
            mode = Some(found);
            match found {
                0o040_000 => match below {
                    None => return Ok(Named::Object(id, mode)),
                    Some(below) => {
                        rest = below.to_vec();
                        let Some(tree) = self.tree(&id)? else { return Ok(missing(links)) };
                        dirs.push(tree);
                    }
                },
                0o100_644 | 0o100_755 if below.is_none() => return Ok(Named::Object(id, mode)),
                0o100_644 | 0o100_755 => return Ok(Named::NotDir),
                0o120_000 => {
                    if links == MAX_LINKS {
                        return Ok(Named::Loop);
                    }
                    links += 1;
                    let mut target = Vec::new();
                    if self.read(&id, &mut target).is_err() {
                        return Ok(Named::Dangling);
                    }
                    if target.starts_with(b"/") {
                        return Ok(Named::Outside(target));
                    }
                    if let Some(below) = below {
                        target.push(b'/');
                        target.extend_from_slice(below);
                    }
                    rest = target;
                }
                // Nothing is below a submodule.
                _ => return Ok(missing(links)),
            }
        }
    }

    /// The entry of this name: its id and its mode.
    fn entry(&self, tree: &[u8], name: &[u8]) -> Option<(ObjectId, u32)> {
        let found = |entry: Entry<'_>| (entry.name == name).then(|| (entry.id, canonical(entry.mode)));
        Entries::new(tree, self.repository.hash).map_while(Result::ok).find_map(found)
    }

    /// The tree that an object leads to; `None` if there is none.
    fn tree(&self, id: &ObjectId) -> Result<Option<Tree>, Failure> {
        let Some(id) = self.peel(*id, Some(ObjectKind::Tree))? else { return Ok(None) };
        let mut bytes = Vec::new();
        match self.store.read(&self.real(&id)?, &mut bytes) {
            Ok(ObjectKind::Tree) => Ok(Some((id, bytes))),
            Ok(_) => Ok(None),
            Err(error) => {
                if !error.is_missing() {
                    report::say(&format!("error: {}\n", chain(&error)));
                }
                Ok(None)
            }
        }
    }

    /// The entries of the index that have this path.
    fn staged(&self, path: &[u8]) -> Result<impl Iterator<Item = &Staged>, Failure> {
        let all = match self.staged.get() {
            Some(all) => all,
            None => {
                let all = self.read_index()?;
                self.staged.get_or_init(|| all)
            }
        };
        let from = all.partition_point(|staged| staged.path[..] < *path);
        let path = path.to_vec();
        Ok(all.get(from..).unwrap_or_default().iter().take_while(move |staged| staged.path == path))
    }

    fn read_index(&self) -> Result<Vec<Staged>, Failure> {
        let repo = self.repository;
        let place = IndexPlace::find(repo)?;
        let (arena, opened) = (Bump::new(), place.open()?);
        let mut index = opened.read(&arena)?;
        if index.is_sparse() {
            let limits = TreeLimits::default().checks(repo.path_checks()?);
            sparse::expand(&mut index, &mut Objects::open(repo)?, &limits, &|_| false)
                .map_err(|error| Failure::Fatal(chain(&error)))?;
        }
        let staged = |entry: index::Entry<'_>| Staged {
            path: entry.path().to_vec(),
            stage: entry.stage() as u8,
            mode: entry.mode().0,
            id: entry.id(),
        };
        Ok(index.iter().map(staged).collect())
    }

    /// What to say about an argument that names nothing.
    fn why_nothing(&self, text: &[u8]) -> Result<Failure, Failure> {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let on_disk = |path: &[u8]| self.repository.env.resolve(&bytes_to_path(path)).symlink_metadata().is_ok();
        let text_of = match text {
            [b':', rest @ ..] if !rest.is_empty() && !rest.starts_with(b"/") => {
                let (stage, path) = stage_of(rest);
                let path = self.whole_path(path)?;
                let name = shown(&path);
                if let Some(other) = self.staged(&path)?.next() {
                    let other = other.stage;
                    format!(
                        "path '{name}' is in the index, but not at stage {stage}\nhint: Did you mean ':{other}:{name}'?"
                    )
                } else if on_disk(&path) {
                    format!("path '{name}' exists on disk, but not in the index")
                } else {
                    format!("path '{name}' does not exist (neither on disk nor in the index)")
                }
            }
            _ => match split(text) {
                None | Some((b"", _)) => format!("Not a valid object name {}", shown(text)),
                Some((revision, path)) => match self.inner(revision, Hint::Treeish) {
                    Err(Miss::Failed(failure)) => return Err(failure),
                    Err(_) => format!("invalid object name '{}'.", shown(revision)),
                    Ok(_) => {
                        let path = self.whole_path(path)?;
                        let (name, revision) = (shown(&path), shown(revision));
                        match on_disk(&path) {
                            true => format!("path '{name}' exists on disk, but not in '{revision}'"),
                            false => format!("path '{name}' does not exist in '{revision}'"),
                        }
                    }
                },
            },
        };
        Ok(Failure::Fatal(text_of))
    }
}

/// A tree's id and content.
type Tree = (ObjectId, Vec<u8>);

/// The stage that `0:` to `3:` in front of a path say, and the path.
fn stage_of(text: &[u8]) -> (u8, &[u8]) {
    match text {
        [stage @ b'0'..=b'3', b':', path @ ..] => (stage - b'0', path),
        path => (0, path),
    }
}

/// Before and behind the colon between a revision and a path.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'@' | b'^' if text.get(at + 1) == Some(&b'{') => {
                depth += 1;
                at += 1;
            }
            b'}' if depth > 0 => depth -= 1,
            b':' if depth == 0 => return Some((text.get(..at)?, text.get(at + 1..)?)),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The first name of a path, and what is behind the slash that follows it.
fn first_part(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|&byte| byte == b'/') {
        Some(at) => (path.get(..at).unwrap_or_default(), path.get(at + 1..)),
        None => (path, None),
    }
}
