//! Revision arguments: from `v1.0^{tree}`, `HEAD~3`, `a..b` to object ids (gitrevisions).
//!
//! Not understood, and refused by name: dates and upstreams in `@{...}`, and commit message searches (`:/text`,
//! `^{/text}`). Paths, in trees and in the index, are [`path`]'s.

use std::cell::OnceCell;
use std::collections::{BinaryHeap, HashMap};

use object::commit::Commit;
use object::tag::Tag;
use object::{ObjectId, ObjectKind, Prefix};
use odb::{PrefixMatch, Store};
use revwalk::Shallow;

use self::path::Staged;
use crate::refs::Refs;
use crate::replace::Replacements;
use crate::report::{self, Failure, chain};
use crate::setup::Repository;

pub(crate) mod path;

/// What revision arguments add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tips {
    /// Objects asked for, of any kind, tags not peeled, in the order given.
    pub(crate) wants: Vec<ObjectId>,
    /// Objects to leave out with all they reach.
    pub(crate) haves: Vec<ObjectId>,
}

impl Tips {
    /// Adds one object on the side that `exclude` says.
    pub(crate) fn push(&mut self, id: ObjectId, exclude: bool) {
        if exclude { self.haves.push(id) } else { self.wants.push(id) }
    }
}

/// What an abbreviated id is expected to name, where several objects begin so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    Any,
    /// Commits, and tags of commits.
    Committish,
    /// Trees, and what leads to one.
    Treeish,
}

/// Why an argument is not a revision.
#[derive(Debug)]
enum Miss {
    /// It names nothing: the caller says so in its own words.
    Unknown,
    /// An abbreviated id that several objects have, which has been said.
    Ambiguous,
    /// Something worse.
    Failed(Failure),
}

impl From<Failure> for Miss {
    fn from(failure: Failure) -> Self {
        Miss::Failed(failure)
    }
}

/// Turns revision arguments into object ids.
pub(crate) struct Revisions<'a> {
    repository: &'a Repository,
    store: &'a Store,
    shallow: &'a Shallow,
    replacements: Option<&'a Replacements>,
    refs: OnceCell<Refs>,
    staged: OnceCell<Vec<Staged>>,
}

impl<'a> Revisions<'a> {
    /// Over an open store. References are opened when the first name is looked up.
    pub(crate) fn new(repository: &'a Repository, store: &'a Store, shallow: &'a Shallow) -> Self {
        let (refs, staged) = (OnceCell::new(), OnceCell::new());
        Revisions { repository, store, shallow, replacements: None, refs, staged }
    }

    /// Objects are read as `replacements` has them.
    pub(crate) fn replacing(mut self, replacements: &'a Replacements) -> Self {
        self.replacements = Some(replacements);
        self
    }

    /// The references.
    pub(crate) fn refs(&self) -> Result<&Refs, Failure> {
        if let Some(refs) = self.refs.get() {
            return Ok(refs);
        }
        let refs = Refs::open(self.repository)?;
        Ok(self.refs.get_or_init(|| refs))
    }

    /// Adds what one argument means. `not` says that a `--not` is in force, which turns the sides around.
    ///
    /// Fails with `bad revision` if it means nothing, and with `bad object` if it names one that is not there.
    pub(crate) fn add(&self, text: &[u8], not: bool, tips: &mut Tips) -> Result<(), Failure> {
        match self.try_add(text, not, tips) {
            Ok(()) => Ok(()),
            Err(Miss::Failed(failure)) => Err(failure),
            Err(Miss::Unknown | Miss::Ambiguous) => {
                Err(Failure::Fatal(format!("bad revision '{}'", String::from_utf8_lossy(text))))
            }
        }
    }

    fn try_add(&self, text: &[u8], not: bool, tips: &mut Tips) -> Result<(), Miss> {
        // `..` alone and `^..` name a directory.
        if text == b".." || text == b"^.." {
            return Err(Miss::Unknown);
        }
        if let Some(at) = find(text, b"..")
            && self.add_range(text, at, not, tips)?
        {
            return Ok(());
        }
        if let Some(base) = text.strip_suffix(b"^@") {
            return self.add_parents(base, None, not, tips);
        }
        if let Some(base) = text.strip_suffix(b"^!") {
            self.add_parents(base, None, !not, tips)?;
            return self.add_one(base, not, tips);
        }
        if let Some(at) = rfind(text, b"^-") {
            let (base, number) = (&text[..at], &text[at + 2..]);
            let which = match number {
                [] => Some(1),
                digits if digits.iter().all(u8::is_ascii_digit) => parse_digits(digits).filter(|&nth| nth > 0),
                _ => None,
            };
            if let Some(which) = which {
                self.add_parents(base, Some(which), !not, tips)?;
                return self.add_one(base, not, tips);
            }
        }
        match text.strip_prefix(b"^") {
            Some(rest) => self.add_one(rest, !not, tips),
            None => self.add_one(text, not, tips),
        }
    }

    /// The object that one argument names, whether or not it is there; `None` if it names nothing. No ranges.
    pub(crate) fn name(&self, text: &[u8]) -> Result<Option<ObjectId>, Failure> {
        match self.resolve(text, Hint::Any) {
            Ok(id) => Ok(Some(id)),
            Err(Miss::Unknown | Miss::Ambiguous) => Ok(None),
            Err(Miss::Failed(failure)) => Err(failure),
        }
    }

    fn add_one(&self, text: &[u8], exclude: bool, tips: &mut Tips) -> Result<(), Miss> {
        let id = self.resolve(text, Hint::Any)?;
        self.must_exist(&id, text)?;
        tips.push(id, exclude);
        Ok(())
    }

    fn must_exist(&self, id: &ObjectId, name: &[u8]) -> Result<(), Failure> {
        match self.store.contains(id) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Fatal(format!("bad object {}", String::from_utf8_lossy(name)))),
            Err(error) => Err(Failure::Fatal(chain(&error))),
        }
    }

    /// `a..b` and `a...b`; an empty side is `HEAD`. `false` if a side names nothing, so that this is no range.
    fn add_range(&self, text: &[u8], at: usize, not: bool, tips: &mut Tips) -> Result<bool, Miss> {
        let symmetric = text.get(at + 2) == Some(&b'.');
        let or_head = |side| if side == &b""[..] { &b"HEAD"[..] } else { side };
        let left = or_head(&text[..at]);
        let right = or_head(&text[at + if symmetric { 3 } else { 2 }..]);
        let known = |result: Result<ObjectId, Miss>| match result {
            Ok(id) => Ok(Some(id)),
            Err(Miss::Unknown | Miss::Ambiguous) => Ok(None),
            Err(failed) => Err(failed),
        };
        let (Some(left), Some(right)) =
            (known(self.resolve(left, Hint::Committish))?, known(self.resolve(right, Hint::Committish))?)
        else {
            return Ok(false);
        };
        let shown = String::from_utf8_lossy(text);
        if !symmetric {
            for id in [&left, &right] {
                if !self.store.contains(id).map_err(|error| Failure::Fatal(chain(&error)))? {
                    return Err(Failure::Fatal(format!("Invalid revision range {shown}")).into());
                }
            }
            tips.push(left, !not);
            tips.push(right, not);
            return Ok(true);
        }
        let commit = |id| {
            self.peel(id, Some(ObjectKind::Commit))?
                .ok_or_else(|| Failure::Fatal(format!("Invalid symmetric difference expression {shown}")))
        };
        for base in self.common_ancestors(commit(left)?, commit(right)?)? {
            tips.push(base, !not);
        }
        // The sides themselves stay what was named: a tag is wanted as a tag.
        tips.push(left, not);
        tips.push(right, not);
        Ok(true)
    }

    /// The parents of a commit, or one of them, on the side that `exclude` says.
    fn add_parents(&self, base: &[u8], which: Option<usize>, exclude: bool, tips: &mut Tips) -> Result<(), Miss> {
        let (base, exclude) = match base.strip_prefix(b"^") {
            Some(rest) => (rest, !exclude),
            None => (base, exclude),
        };
        let id = self.resolve(base, Hint::Committish)?;
        let id = self.peel(id, Some(ObjectKind::Commit))?.ok_or(Miss::Unknown)?;
        let (parents, _) = self.links(&id)?;
        match which {
            None => parents.into_iter().for_each(|parent| tips.push(parent, exclude)),
            Some(nth) => tips.push(*parents.get(nth - 1).ok_or(Miss::Unknown)?, exclude),
        }
        Ok(())
    }

    /// One object name, without ranges and exclusions.
    fn resolve(&self, text: &[u8], hint: Hint) -> Result<ObjectId, Miss> {
        match self.resolve_name(text, hint) {
            Err(Miss::Unknown) => self.resolve_path(text, false)?.object().ok_or(Miss::Unknown),
            other => other,
        }
    }

    fn resolve_name(&self, text: &[u8], hint: Hint) -> Result<ObjectId, Miss> {
        // `name^2`, `name~3`: the last of several such steps binds last.
        let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let head = &text[..text.len() - digits];
        if let Some((&step @ (b'^' | b'~'), base)) = head.split_last() {
            let number = match &text[text.len() - digits..] {
                [] => 1,
                digits => parse_digits(digits).ok_or(Miss::Unknown)?,
            };
            return if step == b'^' { self.nth_parent(base, number) } else { self.nth_ancestor(base, number) };
        }
        if let Some(body) = text.strip_suffix(b"}")
            && let Some(at) = rfind(body, b"^{")
        {
            return self.peel_onion(&text[..at], &body[at + 2..], text);
        }
        if let Ok(id) = ObjectId::from_hex(text)
            && id.kind() == self.repository.hash
        {
            return Ok(id);
        }
        if let Some(body) = text.strip_suffix(b"}")
            && let Some(at) = rfind(body, b"@{")
        {
            return self.logged(&text[..at], &body[at + 2..], text);
        }
        if let Some(id) = self.reference(text)? {
            return Ok(id);
        }
        // What `git describe` prints: anything, `-g`, an abbreviated id.
        if let Some(at) = rfind(text, b"-g")
            && let Ok(id) = self.abbreviated(&text[at + 2..], Hint::Committish)
        {
            return Ok(id);
        }
        self.abbreviated(text, hint)
    }

    fn reference(&self, name: &[u8]) -> Result<Option<ObjectId>, Failure> {
        let name = if name == b"@" { b"HEAD" } else { name };
        Ok(self.refs()?.find_short(name)?.map(|found| found.id))
    }

    /// An abbreviated id.
    fn abbreviated(&self, text: &[u8], hint: Hint) -> Result<ObjectId, Miss> {
        let Ok(prefix) = Prefix::from_hex(text, self.repository.hash) else { return Err(Miss::Unknown) };
        match self.store.prefix(&prefix).map_err(|error| Failure::Fatal(chain(&error)))? {
            PrefixMatch::None => Err(Miss::Unknown),
            PrefixMatch::One(id) => Ok(id),
            PrefixMatch::Many(ids) => {
                let mut fitting = Vec::new();
                for id in ids {
                    if self.fits(&id, hint)? {
                        fitting.push(id);
                    }
                }
                if let [id] = fitting[..] {
                    return Ok(id);
                }
                report::say(&format!("error: short object ID {} is ambiguous\n", String::from_utf8_lossy(text)));
                Err(Miss::Ambiguous)
            }
        }
    }

    fn fits(&self, id: &ObjectId, hint: Hint) -> Result<bool, Failure> {
        Ok(match hint {
            Hint::Any => true,
            Hint::Committish => self.peel(*id, Some(ObjectKind::Commit))?.is_some(),
            Hint::Treeish => self.peel(*id, Some(ObjectKind::Tree))?.is_some(),
        })
    }

    /// `name^n`: its `n`th parent, or the commit itself for 0.
    fn nth_parent(&self, base: &[u8], number: usize) -> Result<ObjectId, Miss> {
        let id = self.commit(base)?;
        if number == 0 {
            return Ok(id);
        }
        self.links(&id)?.0.get(number - 1).copied().ok_or(Miss::Unknown)
    }

    /// `name~n`: following first parents `n` times.
    fn nth_ancestor(&self, base: &[u8], number: usize) -> Result<ObjectId, Miss> {
        let mut id = self.commit(base)?;
        for _ in 0..number {
            id = self.links(&id)?.0.first().copied().ok_or(Miss::Unknown)?;
        }
        Ok(id)
    }

    /// A part of a longer name.
    fn inner(&self, text: &[u8], hint: Hint) -> Result<ObjectId, Miss> {
        self.resolve_name(text, hint).map_err(|miss| if matches!(miss, Miss::Ambiguous) { Miss::Unknown } else { miss })
    }

    fn commit(&self, text: &[u8]) -> Result<ObjectId, Miss> {
        let id = self.inner(text, Hint::Committish)?;
        self.peel(id, Some(ObjectKind::Commit))?.ok_or(Miss::Unknown)
    }

    /// `name^{...}`.
    fn peel_onion(&self, base: &[u8], inside: &[u8], text: &[u8]) -> Result<ObjectId, Miss> {
        let (kind, hint) = match inside {
            b"" => (None, Hint::Any),
            b"commit" => (Some(ObjectKind::Commit), Hint::Committish),
            b"tree" => (Some(ObjectKind::Tree), Hint::Treeish),
            b"blob" => (Some(ObjectKind::Blob), Hint::Any),
            b"tag" => (Some(ObjectKind::Tag), Hint::Any),
            b"object" => {
                let id = self.inner(base, Hint::Any)?;
                self.kind(&id)?.ok_or(Miss::Unknown)?;
                return Ok(id);
            }
            [b'/', ..] => return Err(unsupported(text)),
            _ => return Err(Miss::Unknown),
        };
        let id = self.inner(base, hint)?;
        self.peel(id, kind)?.ok_or(Miss::Unknown)
    }

    /// `name@{n}`: where a reference was `n` changes ago; without a name, the current branch.
    fn logged(&self, base: &[u8], inside: &[u8], text: &[u8]) -> Result<ObjectId, Miss> {
        let number = match inside {
            digits if !digits.is_empty() && digits.len() < 9 && digits.iter().all(u8::is_ascii_digit) => {
                parse_digits(digits)
            }
            _ => None,
        };
        let Some(number) = number else { return Err(unsupported(text)) };
        let refs = self.refs()?;
        let base = if base == b"@" || base.is_empty() { b"HEAD" } else { base };
        let found = refs.find_short(base)?.ok_or(Miss::Unknown)?;
        if number == 0 {
            return Ok(found.id);
        }
        refs.log_entry(&found.name, number)?.map_err(|count| {
            Miss::Failed(Failure::Fatal(format!(
                "log for '{}' only has {count} entries",
                String::from_utf8_lossy(base)
            )))
        })
    }

    fn kind(&self, id: &ObjectId) -> Result<Option<ObjectKind>, Failure> {
        match self.store.header(&self.real(id)?) {
            Ok(header) => Ok(Some(header.kind)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(Failure::Fatal(chain(&error))),
        }
    }

    /// The object whose content `id` has.
    fn real(&self, id: &ObjectId) -> Result<ObjectId, Failure> {
        self.replacements.map_or(Ok(*id), |replacements| replacements.of(id))
    }

    /// Reads an object that has to be there.
    fn read(&self, id: &ObjectId, out: &mut Vec<u8>) -> Result<ObjectKind, Failure> {
        self.store.read(&self.real(id)?, out).map_err(|error| Failure::Fatal(chain(&error)))
    }

    /// What `id` is behind its tags, down to an object of kind `want` (or to whatever is no tag). `None` if it is
    /// not there or leads to another kind. A tag that names itself, directly or not, cannot exist.
    pub(crate) fn peel(&self, mut id: ObjectId, want: Option<ObjectKind>) -> Result<Option<ObjectId>, Failure> {
        let mut bytes = Vec::new();
        loop {
            let Some(kind) = self.kind(&id)? else { return Ok(None) };
            if want == Some(kind) || (want.is_none() && kind != ObjectKind::Tag) {
                return Ok(Some(id));
            }
            let failed = |error: &dyn std::error::Error| Failure::Fatal(format!("object {id}: {error}"));
            bytes.clear();
            match kind {
                ObjectKind::Tag => {
                    self.read(&id, &mut bytes)?;
                    id = Tag::parse(&bytes, self.repository.hash).map_err(|error| failed(&error))?.target();
                }
                ObjectKind::Commit if want == Some(ObjectKind::Tree) => {
                    self.read(&id, &mut bytes)?;
                    let commit = Commit::parse(&bytes, self.repository.hash).map_err(|error| failed(&error))?;
                    return Ok(Some(commit.tree()));
                }
                _ => return Ok(None),
            }
        }
    }

    /// A commit's parents, as the shallow file and grafts leave them, and its time.
    fn links(&self, id: &ObjectId) -> Result<(Vec<ObjectId>, u64), Failure> {
        let mut bytes = Vec::new();
        let kind = self.read(id, &mut bytes)?;
        if kind != ObjectKind::Commit {
            return Err(Failure::Fatal(format!("object {id} is a {}, not a commit", kind.name())));
        }
        let mut parents = Vec::new();
        let (_, time) = object::commit::links(&bytes, self.repository.hash, &mut parents)
            .map_err(|error| Failure::Fatal(format!("commit {id}: {error}")))?;
        if let Some(altered) = self.shallow.parents(id) {
            parents = altered.to_vec();
        }
        Ok((parents, time))
    }

    /// Commits both can reach which together reach all such commits: the merge bases, and perhaps some more below them.
    /// As they are wanted for leaving out all they reach, the extra ones change nothing.
    fn common_ancestors(&self, left: ObjectId, right: ObjectId) -> Result<Vec<ObjectId>, Failure> {
        const LEFT: u8 = 1;
        const RIGHT: u8 = 2;
        /// Reached from a common ancestor already found.
        const BELOW: u8 = 4;
        let mut marks: HashMap<ObjectId, u8> = HashMap::new();
        let mut known: HashMap<ObjectId, (Vec<ObjectId>, u64)> = HashMap::new();
        // Newest first. A commit is taken up again whenever it gains a mark.
        let mut queue: BinaryHeap<(u64, ObjectId)> = BinaryHeap::new();
        let mut open = 0usize;
        let mut queued: HashMap<ObjectId, u8> = HashMap::new();
        for (id, mark) in [(left, LEFT), (right, RIGHT)] {
            let links = self.links(&id)?;
            let marks = marks.entry(id).or_insert(0);
            *marks |= mark;
            if !queued.contains_key(&id) {
                queue.push((links.1, id));
                open += 1;
            }
            queued.insert(id, *marks);
            known.insert(id, links);
        }
        let mut found = Vec::new();
        // Once everything queued lies below a common ancestor, nothing new can be found.
        while open > 0
            && let Some((_, id)) = queue.pop()
        {
            queued.remove(&id);
            let mut mark = marks.get(&id).copied().unwrap_or(0);
            if mark & BELOW == 0 {
                open -= 1;
                if mark == LEFT | RIGHT {
                    found.push(id);
                    mark |= BELOW;
                }
            }
            let parents = known.get(&id).map(|links| links.0.clone()).unwrap_or_default();
            for parent in parents {
                let old = marks.get(&parent).copied().unwrap_or(0);
                let new = old | mark;
                if new == old {
                    continue;
                }
                marks.insert(parent, new);
                let time = match known.get(&parent) {
                    Some(links) => links.1,
                    None => {
                        let links = self.links(&parent)?;
                        let time = links.1;
                        known.insert(parent, links);
                        time
                    }
                };
                match queued.insert(parent, new) {
                    None => {
                        queue.push((time, parent));
                        if new & BELOW == 0 {
                            open += 1;
                        }
                    }
                    Some(before) => {
                        if before & BELOW == 0 && new & BELOW != 0 {
                            open -= 1;
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

fn unsupported(text: &[u8]) -> Miss {
    Miss::Failed(Failure::Fatal(format!(
        "revision '{}' is of a form that is not supported yet",
        String::from_utf8_lossy(text)
    )))
}

fn parse_digits(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse::<u32>().ok().and_then(|number| usize::try_from(number).ok())
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn rfind(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).rposition(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Environment;
    use testkit::repo::{Hash, TestRepo};

    fn open(repo: &TestRepo) -> (Repository, Store, Shallow) {
        let repository = Repository::find(Environment::empty(repo.path())).unwrap();
        let store = repository.open_store().unwrap();
        let shallow = repository.shallow(false).unwrap();
        (repository, store, shallow)
    }

    /// What `git rev-parse` makes of an argument: wants, and (behind `^`) haves. `None` if it refuses.
    fn git_says(repo: &TestRepo, argument: &str) -> Option<(Vec<String>, Vec<String>)> {
        let output = repo.try_git(["rev-parse", "--revs-only", argument], b"");
        let text = String::from_utf8(output.stdout).unwrap();
        if !output.status.success() || text.is_empty() {
            return None;
        }
        let (haves, wants): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('^'));
        let owned = |lines: Vec<&str>| {
            let mut lines: Vec<String> = lines.iter().map(|line| line.trim_start_matches('^').to_owned()).collect();
            lines.sort();
            lines
        };
        Some((owned(wants), owned(haves)))
    }

    fn we_say(revisions: &Revisions<'_>, argument: &str) -> Result<(Vec<String>, Vec<String>), String> {
        let mut tips = Tips::default();
        match revisions.add(argument.as_bytes(), false, &mut tips) {
            Ok(()) => {
                let text = |ids: &[ObjectId]| {
                    let mut ids: Vec<String> = ids.iter().map(ObjectId::to_string).collect();
                    ids.sort();
                    ids
                };
                Ok((text(&tips.wants), text(&tips.haves)))
            }
            Err(Failure::Fatal(text)) => Err(text),
            Err(other) => panic!("{argument}: {other:?}"),
        }
    }

    #[test]
    fn as_rev_parse() {
        for hash in Hash::ALL {
            let repo = TestRepo::rich(hash);
            repo.repack_loose();
            repo.git(["update-ref", "refs/remotes/origin/main", "main~1"]);
            repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
            repo.git(["branch", "v1-side", "main~2"]);
            repo.git(["pack-refs", "--all"]);
            repo.git(["branch", "loose/branch", "main~4"]);
            let tip = repo.rev_parse("main");
            let short = repo.git_str(["rev-parse", "--short=7", "main~7"]);
            let described = format!("anything-12-g{short}");
            let upper = tip.to_uppercase();
            let tree_path = format!("{short}:src/a0");
            let mut arguments: Vec<&str> = vec![
                "HEAD",
                "@",
                "main",
                "main~3",
                "main~0",
                "main~",
                "main^",
                "main^0",
                "main^2",
                "main~1^2",
                "main~1^3",
                "main^^",
                "main~2^2~1",
                "HEAD~10^0~2",
                "refs/heads/main",
                "heads/side",
                "tags/v1",
                "v1",
                "light",
                "v1^{}",
                "v1^{commit}",
                "v1^0",
                "v1~2",
                "v1^{tree}",
                "v1^{tag}",
                "v1^{object}",
                "v2-nested",
                "v2-nested^{tag}",
                "v2-nested^{}",
                "v2-nested^{commit}~1",
                "tree-tag",
                "tree-tag^{}",
                "tree-tag^{tree}",
                "blob-tag^{}",
                "blob-tag^{blob}",
                "main^{tree}",
                "main:",
                "main:growing",
                "main~5:src/a0/b",
                "v1:bin/run.sh",
                "v1-side",
                "origin",
                "origin/main",
                "remotes/origin/main",
                "loose/branch",
                "^main",
                "^v1^{}",
                "^main~3",
                "main~5..main",
                "v1..side",
                "..main~2",
                "main~7..",
                "main...side",
                "side...other",
                "main...root2",
                "root2...side~9",
                "main~3...main",
                "v1...v2",
                "main~1^@",
                "v1^@",
                "main~1^!",
                "main~9^!",
                "main~1^-",
                "main~1^-2",
                // Refused:
                "",
                "nothing",
                "main^9",
                "main~9999",
                "v1^{blob}",
                "main^{tag}",
                "deadbeef",
                "..",
                "^..",
                "main^{x}",
                "main:no/such",
                "main~1^-9",
                "main..nothing",
                "nothing...main",
                "refs/heads",
                "config",
                "main@{u}x",
                "ma in",
                "main..side..other",
                "^^main",
                "v1^{commit",
                "0123",
                "heads/../main",
            ];
            arguments.extend([tip.as_str(), &short, &described, &upper, &tree_path]);
            let (repository, store, shallow) = open(&repo);
            let revisions = Revisions::new(&repository, &store, &shallow);
            for argument in arguments {
                match (git_says(&repo, argument), we_say(&revisions, argument)) {
                    (Some(git), Ok(ours)) => assert_eq!(ours, git, "{argument}"),
                    (None, Err(text)) => assert!(text.starts_with("bad revision"), "{argument}: {text}"),
                    (git, ours) => panic!("{argument}: git says {git:?}, we {ours:?}"),
                }
            }
        }
    }

    #[test]
    fn sides_and_missing_objects() {
        let repo = TestRepo::rich(Hash::Sha1);
        let (repository, store, shallow) = open(&repo);
        let revisions = Revisions::new(&repository, &store, &shallow);
        let id = |text: &str| ObjectId::from_hex(repo.rev_parse(text).as_bytes()).unwrap();
        let mut tips = Tips::default();
        revisions.add(b"main~1..main", true, &mut tips).unwrap();
        revisions.add(b"^side", true, &mut tips).unwrap();
        assert_eq!(tips.wants, [id("main~1"), id("side")]);
        assert_eq!(tips.haves, [id("main")]);
        let absent = "1".repeat(40);
        for (argument, want) in [
            (absent.clone(), format!("bad object {absent}")),
            (format!("^{absent}"), format!("bad object {absent}")),
            (format!("{absent}..main"), format!("Invalid revision range {absent}..main")),
            (format!("main...{absent}"), format!("Invalid symmetric difference expression main...{absent}")),
            (":/text".to_owned(), "revision ':/text' is of a form that is not supported yet".to_owned()),
            ("main^{/x}".to_owned(), "revision 'main^{/x}' is of a form that is not supported yet".to_owned()),
        ] {
            assert_eq!(we_say(&revisions, &argument), Err(want));
        }
    }

    #[test]
    fn logs_and_fetched() {
        let repo = TestRepo::init(Hash::Sha1);
        for text in ["one", "two", "three"] {
            repo.commit_files(&[("file", text.as_bytes())], text);
        }
        repo.git(["branch", "other", "HEAD~1"]);
        repo.git(["fetch", "-q", ".", "other"]);
        let (repository, store, shallow) = open(&repo);
        let revisions = Revisions::new(&repository, &store, &shallow);
        for argument in
            ["HEAD@{0}", "HEAD@{1}", "@{2}", "main@{1}", "main@{1}^{tree}", "other@{0}", "FETCH_HEAD", "FETCH_HEAD^"]
        {
            assert_eq!(we_say(&revisions, argument).ok(), git_says(&repo, argument), "{argument}");
        }
        assert!(we_say(&revisions, "main@{9}").unwrap_err().contains("log for 'main' only has 3 entries"));
        assert!(we_say(&revisions, "main@{yesterday}").unwrap_err().contains("not supported yet"));
    }

    /// Many ids, so that four digits are not enough: the kind that is asked for decides.
    #[test]
    fn ambiguous_prefixes() {
        let repo = TestRepo::init(Hash::Sha1);
        let commit = repo.commit_files(&[("a", b"a")], "commit");
        // A blob that begins as the commit does.
        let wanted = &commit[..4];
        let mut found = None;
        for nr in 0..2_000_000u32 {
            let text = format!("try {nr}");
            let id = object::object_id(object::HashKind::Sha1, ObjectKind::Blob, text.as_bytes()).unwrap().to_string();
            if id.starts_with(wanted) {
                found = Some(text);
                break;
            }
        }
        repo.hash_object("blob", found.expect("one in 65536 fits").as_bytes());
        let (repository, store, shallow) = open(&repo);
        let revisions = Revisions::new(&repository, &store, &shallow);
        assert_eq!(we_say(&revisions, wanted), Err(format!("bad revision '{wanted}'")));
        for argument in [format!("{wanted}^0"), format!("{wanted}^{{commit}}"), format!("{wanted}^{{tree}}")] {
            assert_eq!(we_say(&revisions, &argument).ok(), git_says(&repo, &argument), "{argument}");
        }
    }
}
