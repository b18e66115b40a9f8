//! `--again`: paths that were changed before, seen from HEAD.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use index::trees::ObjectAccess as _;
use index::{Mode, Stage};
use object::{ObjectId, ObjectKind, tree::Entries};

use super::Work;
use super::paths::opened;
use crate::config::glob;
use crate::objects::Objects;
use crate::refs::Refs;
use crate::report::{Failure, chain};

impl Work<'_, '_> {
    /// Updates every entry that differs from HEAD and that one of the paths means; all below the current directory if
    /// there are none.
    pub(super) fn again(&mut self, typed: &[Vec<u8>]) -> Result<(), Failure> {
        self.repo.need_work_tree()?;
        let mut specs = Vec::new();
        for path in typed {
            if path.starts_with(b":") {
                return Err(Failure::Fatal(format!(
                    "pathspec magic is not supported with --again: '{}'",
                    String::from_utf8_lossy(path)
                )));
            }
            specs.push(self.repo.path_in_tree(path)?);
        }
        if specs.is_empty() {
            specs.push(self.repo.prefix.clone());
        }
        let mut head = match Refs::open(self.repo)?.head()? {
            Some(head) => Some(Trees::of_commit(opened(&mut self.objects, self.repo)?, head.id)?),
            None => None,
        };
        // What to update is settled first: updating one path may remove others.
        let (mut paths, directory) = self.differing(&specs, &mut head)?;
        if directory {
            self.expand()?;
            paths = self.differing(&specs, &mut head)?.0;
        }
        for path in paths {
            if self.index.find(&path, Stage::Merged).is_ok() {
                self.update(&path)?;
            }
        }
        Ok(())
    }

    /// The entries that are not what HEAD has, and whether one of them is a sparse directory.
    fn differing(&mut self, specs: &[Vec<u8>], head: &mut Option<Trees>) -> Result<(Vec<Vec<u8>>, bool), Failure> {
        let (mut paths, mut directory) = (Vec::new(), false);
        for entry in self.index.iter() {
            let path = entry.path();
            if entry.stage() != Stage::Merged || !specs.iter().any(|spec| means(spec, path)) {
                continue;
            }
            let old = match head {
                Some(trees) => {
                    let objects = opened(&mut self.objects, self.repo)?;
                    trees.find(objects, path.strip_suffix(b"/").unwrap_or(path))?
                }
                None => None,
            };
            if old != Some((entry.mode(), entry.id())) {
                directory |= entry.is_sparse_dir();
                paths.push(path.to_vec());
            }
        }
        Ok((paths, directory))
    }
}

/// Whether a path is what the user named, or lies in it, or matches it as a pattern.
fn means(spec: &[u8], path: &[u8]) -> bool {
    let dir = spec.strip_suffix(b"/").unwrap_or(spec);
    let below = path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
    dir.is_empty() || below || (spec.iter().any(|byte| b"*?[".contains(byte)) && glob(spec, path, false))
}

/// The trees of a commit, as far as they were looked at.
struct Trees {
    /// By directory, which is empty or ends in `/`; `None`: not there.
    dirs: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Trees {
    fn of_commit(objects: &mut Objects, commit: ObjectId) -> Result<Trees, Failure> {
        let peeled = revwalk::peel(objects.store(), &commit).map_err(|error| Failure::Fatal(chain(&error)))?;
        let mut content = Vec::new();
        let kind = objects.store().read(&peeled.target, &mut content).map_err(|error| Failure::Fatal(chain(&error)))?;
        let root = match kind {
            ObjectKind::Commit => object::commit::Commit::parse(&content, commit.kind()).map(|commit| commit.tree()),
            _ => return Err(Failure::Fatal(format!("HEAD names {commit}, which is no commit"))),
        };
        let root = root.map_err(|error| Failure::Fatal(format!("commit {commit}: {error}")))?;
        Ok(Trees { dirs: HashMap::from([(Vec::new(), Some(read(objects, &root)?))]) })
    }

    /// What is at a path.
    fn find(&mut self, objects: &mut Objects, path: &[u8]) -> Result<Option<(Mode, ObjectId)>, Failure> {
        let hash = objects.store().hash_kind();
        let mut start = 0;
        loop {
            let rest = path.get(start..).unwrap_or_default();
            let slash = rest.iter().position(|byte| *byte == b'/');
            let name = rest.get(..slash.unwrap_or(rest.len())).unwrap_or_default();
            let Some(Some(tree)) = self.dirs.get(path.get(..start).unwrap_or_default()) else { return Ok(None) };
            let found = Entries::new(tree, hash).filter_map(Result::ok).find(|entry| entry.name == name);
            let found = found.map(|entry| (entry.mode, entry.id));
            let Some(slash) = slash else { return Ok(found) };
            start += slash + 1;
            if let Slot::Vacant(slot) = self.dirs.entry(path.get(..start).unwrap_or_default().to_vec()) {
                slot.insert(match found {
                    Some((mode, id)) if mode.is_tree() => Some(read(objects, &id)?),
                    _ => None,
                });
            }
        }
    }
}

fn read(objects: &mut Objects, tree: &ObjectId) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    objects.read_tree(tree, &mut content).map_err(|error| Failure::Fatal(chain(&error)))?;
    Ok(content)
}
