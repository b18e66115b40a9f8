//! Objects known to be at fault, of which nothing is told.

use crate::{HashKind, IdError, ObjectId};

/// Ids of objects whose findings are ignored: what `fsck.skipList` names. 33 bytes an id, looked up by halving.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkipList {
    /// Sorted, each once.
    ids: Vec<ObjectId>,
}

impl SkipList {
    /// Adds what a file says: an id a line, in any order. What follows a `#`, white space around an id, and empty lines
    /// do not count; a line ends at a NUL, as it does for git.
    pub fn parse(&mut self, text: &[u8], hash: HashKind) -> Result<(), SkipListError> {
        let mut at = 0;
        for (line, whole) in text.split(|&byte| byte == b'\n').enumerate() {
            let white = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
            let end = memchr::memchr2(b'#', 0, whole).unwrap_or(whole.len());
            let id = whole.get(..end).unwrap_or_default();
            let start = id.iter().position(|byte| !white(byte)).unwrap_or(id.len());
            let end = id.iter().rposition(|byte| !white(byte)).map_or(start, |last| last + 1);
            let id = id.get(start..end).unwrap_or_default();
            if !id.is_empty() {
                let parsed = ObjectId::from_hex(id).and_then(|parsed| match parsed.kind() == hash {
                    true => Ok(parsed),
                    false => Err(IdError::HexLength { found: id.len() }),
                });
                let text = || String::from_utf8_lossy(id).into_owned();
                let at = at + start;
                self.ids.push(parsed.map_err(|_| SkipListError { line: line + 1, at, text: text() })?);
            }
            at += whole.len() + 1;
        }
        self.ids.sort_unstable();
        self.ids.dedup();
        Ok(())
    }

    /// Whether it names this object.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.ids.binary_search(id).is_ok()
    }

    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// A line that is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid object name: {text}")]
#[non_exhaustive]
pub struct SkipListError {
    /// Which line, counted from one.
    pub line: usize,
    /// Byte offset of the text.
    pub at: usize,
    /// What is there.
    pub text: String,
}
