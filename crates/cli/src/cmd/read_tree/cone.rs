//! Which directories belong to a sparse checkout in cone mode (git-sparse-checkout, "Internals -- cone mode pattern set").
//!
//! | line | meaning |
//! |---|---|
//! | `/*`, `!/*/` | all files right in the root |
//! | `/A/`, `!/A/*/` | all files right in `A` |
//! | `/A/B/` | all below `A/B` |
//!
//! A name's `\`, `*`, `?` and `[` have a `\` in front.

use std::collections::BTreeSet;

use crate::report::{Failure, plain_io};
use crate::setup::Repository;

/// The directories of a sparse checkout, each with the `/` at its end.
#[derive(Debug, Default)]
pub(super) struct Cone {
    /// Those of which only the files right in them belong to it.
    shallow: BTreeSet<Vec<u8>>,
    /// Those of which all does.
    whole: BTreeSet<Vec<u8>>,
}

impl Cone {
    /// The repository's; `None` if it has no sparse checkout, or one by patterns of another kind.
    pub(super) fn of(repo: &Repository) -> Result<Option<Cone>, Failure> {
        let on = |key: &str, default| Ok::<_, Failure>(repo.config.truth(key)?.unwrap_or(default));
        if !on("core.sparsecheckout", false)? || !on("core.sparsecheckoutcone", true)? {
            return Ok(None);
        }
        let path = repo.git_dir.join("info/sparse-checkout");
        match std::fs::read(&path) {
            Ok(text) => Ok(Cone::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::Fatal(format!("cannot read {}: {}", path.display(), plain_io(&error)))),
        }
    }

    fn parse(text: &[u8]) -> Option<Cone> {
        let mut cone = Cone::default();
        for line in text.split(|byte| *byte == b'\n') {
            match line.strip_suffix(b"\r").unwrap_or(line) {
                b"" | b"/*" | b"!/*/" | [b'#', ..] => {}
                [b'!', b'/', dir @ ..] => {
                    let dir = unescaped(dir.strip_suffix(b"*/")?)?;
                    cone.whole.remove(&dir);
                    cone.shallow.insert(dir);
                }
                [b'/', dir @ ..] if dir.ends_with(b"/") => _ = cone.whole.insert(unescaped(dir)?),
                _ => return None,
            }
        }
        Some(cone)
    }

    /// Whether files right in a directory (with the `/`; the root is empty) belong to the checkout.
    pub(super) fn has(&self, dir: &[u8]) -> bool {
        let ends = dir.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
        dir.is_empty()
            || self.shallow.contains(dir)
            || ends.filter_map(|end| dir.get(..end)).any(|above| self.whole.contains(above))
    }

    /// The first directory on the way to a path that is outside of the checkout, and whose path is longer than `beyond`.
    pub(super) fn outside<'p>(&self, path: &'p [u8], beyond: usize) -> Option<&'p [u8]> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
        ends.filter(|end| *end > beyond).filter_map(|end| path.get(..end)).find(|dir| !self.has(dir))
    }
}

/// A name without what protects it from being a pattern; `None` if it is one.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        out.push(match byte {
            b'\\' => *rest.next()?,
            b'*' | b'?' | b'[' => return None,
            byte => byte,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::Cone;

    #[test]
    fn directories() {
        let cone = Cone::parse(b"/*\n!/*/\n/A/\n!/A/*/\n/A/B/\n/we\\[ird\\*/\n").unwrap();
        for (dir, has) in [
            ("", true),
            ("A/", true),
            ("A/B/", true),
            ("A/B/C/", true),
            ("A/C/", false),
            ("A/BB/", false),
            ("B/", false),
            ("we[ird*/", true),
        ] {
            assert_eq!(cone.has(dir.as_bytes()), has, "{dir}");
        }
        assert_eq!(cone.outside(b"A/B/C/file", 0), None);
        assert_eq!(cone.outside(b"A/C/D/file", 0), Some(&b"A/C/"[..]));
        assert_eq!(cone.outside(b"A/C/D/file", 4), Some(&b"A/C/D/"[..]));
        assert_eq!(cone.outside(b"file", 0), None);
        for other in ["*.c\n", "/A/*.c\n", "!/A/\n", "A/\n"] {
            assert!(Cone::parse(other.as_bytes()).is_none(), "{other}");
        }
    }
}
