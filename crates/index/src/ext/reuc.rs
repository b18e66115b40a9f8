//! `REUC`: the sides of conflicts that were resolved, so that they can be brought back.
//!
//! | bytes | meaning |
//! |---|---|
//! | up to NUL | path from the root of the work tree |
//! | 3 times up to NUL | modes of the stages 1 to 3, octal; `0` for one that is not there |
//! | 20 or 32 each | ids of those that are there |
//!
//! repeated to the end of the data (gitformat-index, "Resolve undo").

use std::collections::BTreeMap;

use object::{HashKind, ObjectId};

use super::Cursor;
use crate::entry::{Mode, Stage};
use crate::error::{ExtError, ExtErrorKind};

/// What a path was in the stages 1 to 3. At least one is there.
pub type Stages = [Option<(Mode, ObjectId)>; 3];

/// The resolved conflicts, by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolveUndo {
    paths: BTreeMap<Vec<u8>, Stages>,
}

impl ResolveUndo {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the data. A path that comes twice counts as it comes last, as in git.
    pub fn parse(data: &[u8], kind: HashKind) -> Result<Self, ExtError> {
        let mut at = Cursor::new(data);
        let mut paths = BTreeMap::new();
        while !at.rest().is_empty() {
            let start = at.at();
            let path = at.until(0, "path")?;
            let mut modes = [Mode(0); 3];
            for mode in &mut modes {
                let digits_at = at.at();
                let found = octal(at.until(0, "mode")?);
                *mode = found.ok_or_else(|| ExtError::new(digits_at, ExtErrorKind::Malformed { what: "mode" }))?;
            }
            let mut stages = [None; 3];
            for (stage, mode) in stages.iter_mut().zip(modes) {
                if mode.0 != 0 {
                    *stage = ObjectId::from_prefix(at.take(kind.len(), "id")?, kind).map(|id| (mode, id));
                }
            }
            if path.is_empty() || stages == [None; 3] {
                return Err(ExtError::new(start, ExtErrorKind::Impossible { what: "entry without path or stages" }));
            }
            paths.insert(path.to_vec(), stages);
        }
        Ok(ResolveUndo { paths })
    }

    /// Appends the data, paths in ascending order.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        for (path, stages) in &self.paths {
            out.extend_from_slice(path);
            out.push(0);
            for stage in stages {
                let mode = stage.map_or(0, |(mode, _)| mode.0);
                out.extend_from_slice(format!("{mode:o}\0").as_bytes());
            }
            for (_, id) in stages.iter().flatten() {
                out.extend_from_slice(id.as_bytes());
            }
        }
    }

    /// What this path was.
    pub fn get(&self, path: &[u8]) -> Option<&Stages> {
        self.paths.get(path)
    }

    /// All of them, paths ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Stages)> {
        self.paths.iter().map(|(path, stages)| (path.as_slice(), stages))
    }

    /// Records one side of a conflict. Stage 0 and mode 0 are none, and not recorded.
    pub fn record(&mut self, path: &[u8], stage: Stage, mode: Mode, id: ObjectId) {
        let Some(at) = (stage as usize).checked_sub(1).filter(|_| mode.0 != 0) else { return };
        let stages = match self.paths.get_mut(path) {
            Some(stages) => stages,
            None => self.paths.entry(path.to_vec()).or_default(),
        };
        if let Some(place) = stages.get_mut(at) {
            *place = Some((mode, id));
        }
    }

    /// Forgets this path. Says what it was.
    pub fn remove(&mut self, path: &[u8]) -> Option<Stages> {
        self.paths.remove(path)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.paths.clear();
    }

    /// Number of paths.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

fn octal(digits: &[u8]) -> Option<Mode> {
    let mut value = 0u32;
    for digit in digits {
        if !matches!(digit, b'0'..=b'7') || value >> 29 != 0 {
            return None;
        }
        value = value << 3 | u32::from(digit & 7);
    }
    (!digits.is_empty()).then_some(Mode(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(kind: HashKind) -> ResolveUndo {
        let (one, two) = (kind.empty_blob(), kind.empty_tree());
        let mut undo = ResolveUndo::new();
        undo.record(b"z", Stage::Theirs, Mode(0o120_000), two);
        undo.record(b"d/a", Stage::Base, Mode(0o100_644), one);
        undo.record(b"d/a", Stage::Theirs, Mode(0o100_755), two);
        undo
    }

    #[test]
    fn bytes_as_git_writes_them() {
        for kind in HashKind::ALL {
            let (one, two) = (kind.empty_blob(), kind.empty_tree());
            let mut data = Vec::new();
            sample(kind).append_to(&mut data);
            let mut expected = b"d/a\x00100644\x000\x00100755\0".to_vec();
            expected.extend([one.as_bytes(), two.as_bytes(), b"z\x000\x000\x00120000\0", two.as_bytes()].concat());
            assert_eq!(data, expected);
            assert_eq!(ResolveUndo::parse(&data, kind), Ok(sample(kind)));
        }
    }

    #[test]
    fn edits() {
        let kind = HashKind::Sha1;
        let mut undo = sample(kind);
        undo.record(b"q", Stage::Merged, Mode(0o100_644), kind.null());
        undo.record(b"q", Stage::Ours, Mode(0), kind.null());
        assert_eq!((undo.len(), undo.get(b"q")), (2, None));
        undo.record(b"d/a", Stage::Base, Mode(0o100_755), kind.null());
        let stages = [Some((Mode(0o100_755), kind.null())), None, Some((Mode(0o100_755), kind.empty_tree()))];
        assert_eq!(undo.remove(b"d/a"), Some(stages));
        assert_eq!(undo.iter().map(|(path, _)| path).collect::<Vec<_>>(), [b"z"]);
        undo.clear();
        assert!(undo.is_empty());
    }

    #[test]
    fn damage() {
        for kind in HashKind::ALL {
            let mut data = Vec::new();
            sample(kind).append_to(&mut data);
            let first = 4 + 7 + 2 + 7 + 2 * kind.len();
            for len in (1..data.len()).filter(|len| *len != first) {
                assert!(ResolveUndo::parse(&data[..len], kind).is_err(), "{len}");
            }
            for bytes in crate::ext::tests::damaged(&data) {
                let _ = ResolveUndo::parse(&bytes, kind);
            }
            let id = kind.empty_blob();
            for (head, at) in [
                (&b"p\x00100648\x000\x000\0"[..], 2),
                (b"p\x00\x000\x000\0", 2),
                (b"p\x000\x00-1\x000\0", 4),
                (b"p\x000\x000\x0040000000000\0", 6),
                (b"p\x000\x000\x000\0", 0),
                (b"\x00100644\x000\x000\0", 0),
            ] {
                let error = ResolveUndo::parse(&[head, id.as_bytes()].concat(), kind).unwrap_err();
                assert_eq!(error.at, at, "{}", head.escape_ascii());
            }
        }
    }
}
