//! Commits whose parents are not those they name: the ends of a shallow clone, and grafts.
//!
//! A `shallow` file lists one commit id a line; each is treated as having no parents. An `info/grafts` file
//! (deprecated, still read by git) lists a commit and the parents to use instead, separated by white space;
//! lines that start with `#` and empty lines count for nothing. Where both name a commit, the shallow file
//! wins. Source: gitformat-commit-graph.adoc and gitrepository-layout.adoc ("shallow", "info/grafts").

use std::collections::HashMap;

use object::{HashKind, ObjectId};

/// Which commits have other parents than their content says.
///
/// As long as [`alters`](Self::alters) is true, commit-graph files must not be used: they describe the true
/// history. [`Commits`](crate::Commits) sees to that.
#[derive(Clone, Debug, Default)]
pub struct Shallow {
    parents: HashMap<ObjectId, Box<[ObjectId]>>,
    /// A shallow file exists, be it empty.
    shallow: bool,
}

impl Shallow {
    /// A complete repository: no shallow file, no grafts.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the content of a `shallow` file. Git ignores what follows an id on its line, and so does this.
    ///
    /// An existing but empty file makes the repository a shallow one, as it does for git. A `--shallow-file`
    /// option with an empty name means [`none`](Self::none).
    ///
    /// # Errors
    ///
    /// [`ShallowError::BadLine`] for a line that does not begin with an id of this kind.
    pub fn parse(bytes: &[u8], hash: HashKind) -> Result<Self, ShallowError> {
        let mut shallow = Shallow { shallow: true, ..Self::default() };
        for (nr, line) in lines(bytes) {
            let id = ObjectId::from_hex_prefix(line, hash).ok_or(ShallowError::BadLine { line: nr })?;
            shallow.parents.insert(id, Box::default());
        }
        Ok(shallow)
    }

    /// A shallow repository whose history ends at these commits.
    pub fn from_ids(ids: impl IntoIterator<Item = ObjectId>) -> Self {
        let mut shallow = Shallow { shallow: true, ..Self::default() };
        ids.into_iter().for_each(|id| shallow.cut(id));
        shallow
    }

    /// Treats one more commit as having no parents (`--shallow <id>` on the input of `pack-objects`).
    pub fn cut(&mut self, id: ObjectId) {
        self.shallow = true;
        self.parents.insert(id, Box::default());
    }

    /// Gives a commit other parents, unless something is known about it already.
    /// `false` if so: git reports that as duplicate graft data.
    pub fn graft(&mut self, id: ObjectId, parents: &[ObjectId]) -> bool {
        let fresh = !self.parents.contains_key(&id);
        if fresh {
            self.parents.insert(id, parents.into());
        }
        fresh
    }

    /// Adds the content of an `info/grafts` file; call it after the shallow file was read, which wins.
    /// Returns the (one-based) numbers of the lines that are no grafts and of duplicates: git reports and
    /// skips them.
    pub fn parse_grafts(&mut self, bytes: &[u8], hash: HashKind) -> Vec<usize> {
        let mut bad = Vec::new();
        for (nr, line) in lines(bytes) {
            let line = line.trim_ascii_end();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let mut ids = line.split(u8::is_ascii_whitespace).map(|word| match word.len() == hash.hex_len() {
                true => ObjectId::from_hex_prefix(word, hash),
                false => None,
            });
            let commit = ids.next().flatten();
            let parents: Option<Vec<ObjectId>> = ids.collect();
            match commit.zip(parents) {
                Some((commit, parents)) => {
                    // A commit cut by the shallow file stays cut, and that is not worth a word.
                    let cut = self.shallow && self.parents.get(&commit).is_some_and(|p| p.is_empty());
                    if !self.graft(commit, &parents) && !cut {
                        bad.push(nr);
                    }
                }
                None => bad.push(nr),
            }
        }
        bad
    }

    /// The parents to use for a commit instead of its own; `None` if its own count.
    #[inline]
    pub fn parents(&self, id: &ObjectId) -> Option<&[ObjectId]> {
        if self.parents.is_empty() {
            return None;
        }
        self.parents.get(id).map(|parents| &**parents)
    }

    /// Whether history differs from what commits say, or a shallow file exists.
    pub fn alters(&self) -> bool {
        self.shallow || !self.parents.is_empty()
    }

    /// Whether the repository is a shallow one (grafts alone do not make it so).
    pub fn is_shallow(&self) -> bool {
        self.shallow
    }

    /// The commits without parents, in no particular order.
    pub fn ids(&self) -> impl Iterator<Item = &ObjectId> + '_ {
        self.parents.iter().filter(|(_, parents)| parents.is_empty()).map(|(id, _)| id)
    }
}

/// One-based line numbers and lines without their line feeds; no line after a final line feed.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines = (!bytes.is_empty()).then(|| body.split(|&b| b == b'\n'));
    lines.into_iter().flatten().enumerate().map(|(nr, line)| (nr + 1, line))
}

/// A shallow file that git would refuse too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShallowError {
    /// A line that does not begin with an object id.
    #[error("bad shallow line {line}")]
    BadLine {
        /// One-based number of the line.
        line: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_sha1([byte; 20])
    }

    #[test]
    fn shallow_files() {
        let hash = HashKind::Sha1;
        let text = format!("{}\n{} trailing words\n", id(1), id(2));
        let shallow = Shallow::parse(text.as_bytes(), hash).unwrap();
        assert!(shallow.is_shallow() && shallow.alters());
        assert_eq!(shallow.parents(&id(1)), Some(&[][..]));
        assert_eq!(shallow.parents(&id(2)), Some(&[][..]));
        assert_eq!(shallow.parents(&id(3)), None);
        assert_eq!(shallow.ids().count(), 2);

        let empty = Shallow::parse(b"", hash).unwrap();
        assert!(empty.is_shallow() && empty.alters());
        assert!(!Shallow::none().alters());

        assert_eq!(Shallow::parse(b"\n", hash).unwrap_err(), ShallowError::BadLine { line: 1 });
        let cut = format!("{}\n{}", id(1), &id(2).to_string()[..39]);
        assert_eq!(Shallow::parse(cut.as_bytes(), hash).unwrap_err(), ShallowError::BadLine { line: 2 });
        assert!(Shallow::parse(format!("{}\n", id(1)).as_bytes(), HashKind::Sha256).is_err());
    }

    #[test]
    fn grafts() {
        let hash = HashKind::Sha1;
        let mut shallow = Shallow::from_ids([id(9)]);
        let text = format!(
            "# a comment\n\n{} {} {}\n{}\nnonsense\n{} {}\n{} {}\n",
            id(1),
            id(2),
            id(3),
            id(4),
            id(1),
            id(5),
            id(9),
            id(1)
        );
        assert_eq!(shallow.parse_grafts(text.as_bytes(), hash), [5, 6]);
        assert_eq!(shallow.parents(&id(1)), Some(&[id(2), id(3)][..]));
        assert_eq!(shallow.parents(&id(4)), Some(&[][..]));
        assert_eq!(shallow.parents(&id(9)), Some(&[][..]));
    }
}
