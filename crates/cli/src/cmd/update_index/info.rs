//! Entries as they are given: `--cacheinfo` and `--index-info`.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::slice::Iter;

use index::{AddOptions, Batch, Bump, Flags, Mode, NewEntry, Stage};
use object::{HashKind, ObjectId};

use super::paths::Problem;
use super::{Work, cannot_read_stdin};
use crate::env::os_bytes;
use crate::quote::unquote_c;
use crate::report::{self, Failure, chain};

impl Work<'_, '_> {
    /// `<mode>,<object>,<path>` as one word, or the three as three.
    pub(super) fn cache_info(&mut self, rest: &mut Iter<'_, OsString>) -> Result<(), Failure> {
        let hash = self.repo.hash;
        let first = rest.as_slice().first().map(os_bytes_of).unwrap_or_default();
        if let Some((mode, id, path)) = joined(&first, hash) {
            rest.next();
            return self.cache_entry(mode, id, path);
        }
        let [mode, id, path, ..] = rest.as_slice() else {
            return Err(Failure::Usage("error: option 'cacheinfo' expects <mode>,<sha1>,<path>\n".into()));
        };
        let (mode_text, id_text, path) = (os_bytes_of(mode), os_bytes_of(id), os_bytes_of(path));
        let id = ObjectId::from_hex(&id_text).ok().filter(|id| id.kind() == hash);
        rest.nth(2);
        // What cannot be read is named in the path's place.
        match (octal(&mode_text), id) {
            (Some(mode), Some(id)) => self.cache_entry(mode, id, &path),
            (Some(_), None) => Err(Failure::Fatal(cannot_add(&id_text))),
            (None, _) => Err(Failure::Fatal(cannot_add(&mode_text))),
        }
    }

    fn cache_entry(&mut self, mode: u32, id: ObjectId, path: &[u8]) -> Result<(), Failure> {
        self.expand_to(path)?;
        let entry = self.given_entry(path, mode, id, Stage::Merged);
        entry.and_then(|entry| self.add(&entry)).map_err(|problem| problem.fatal(cannot_add(path)))?;
        self.say("add", path)
    }

    /// An entry of what was given, if that can be one.
    fn given_entry<'p>(&self, path: &'p [u8], mode: u32, id: ObjectId, stage: Stage) -> Result<NewEntry<'p>, Problem> {
        let name = || String::from_utf8_lossy(path);
        if !self.may_be_entry(path, Mode(mode)) {
            return Err(Problem::Said(format!("Invalid path '{}'", name())));
        }
        let mode = canonical(mode);
        if mode.is_tree() {
            // git takes it, and then reads a broken index.
            return Err(Problem::Said(format!("{}: a directory cannot be added", name())));
        }
        let flags = Flags { assume_valid: self.ignore_stat, ..Flags::default() };
        Ok(NewEntry { stage, flags, ..NewEntry::new(path, mode, id) })
    }

    /// Lines from standard input, merged into the index in one pass.
    pub(super) fn index_info(&mut self) -> Result<(), Failure> {
        (self.typed.add, self.typed.replace, self.typed.remove) = (true, true, true);
        let mut input = Vec::new();
        io::stdin().lock().read_to_end(&mut input).map_err(|error| cannot_read_stdin(&error))?;
        let unquoted = Bump::new();
        let mut batch = Batch::new();
        let mut last = &b""[..];
        for line in self.lines(&input) {
            let malformed = || Failure::Fatal(format!("malformed index info {}", String::from_utf8_lossy(line)));
            let mut line = Line::parse(line, self.repo.hash).ok_or_else(malformed)?;
            if !self.typed.nul && line.path.starts_with(b"\"") {
                let path = unquote_c(line.path);
                let path = path.ok_or_else(|| Failure::fatal("git update-index: bad quoting of path name"))?;
                line.path = unquoted.alloc_slice_copy(&path);
            }
            let Line { mode, id, stage, path } = line;
            if !self.may_be_entry(path, Mode(mode)) {
                report::say(&format!("Ignoring path {}\n", String::from_utf8_lossy(path)));
                continue;
            }
            last = path;
            if mode == 0 {
                batch.remove(path);
                continue;
            }
            let entry =
                self.given_entry(path, mode, id, stage).map_err(|problem| problem.fatal(cannot_update(path)))?;
            batch.put(entry);
            self.say("add", path)?;
        }
        self.expand()?;
        // Paths were checked above.
        let options = AddOptions::default().replace(true).checks(None);
        self.index.apply(&batch, &options).map_err(|error| Problem::Said(chain(&error)).fatal(cannot_update(last)))?;
        Ok(())
    }

    fn lines<'i>(&self, input: &'i [u8]) -> impl Iterator<Item = &'i [u8]> + use<'i> {
        let end = if self.typed.nul { 0 } else { b'\n' };
        let body = input.strip_suffix(&[end]).unwrap_or(input);
        let some = !input.is_empty();
        body.split(move |byte| *byte == end).filter(move |_| some)
    }
}

fn cannot_add(what: &[u8]) -> String {
    format!("git update-index: --cacheinfo cannot add {}", String::from_utf8_lossy(what))
}

fn cannot_update(path: &[u8]) -> String {
    format!("git update-index: unable to update {}", String::from_utf8_lossy(path))
}

fn os_bytes_of(word: &OsString) -> Vec<u8> {
    os_bytes(word).into_owned()
}

/// `<mode>,<object>,<path>`.
fn joined(word: &[u8], hash: HashKind) -> Option<(u32, ObjectId, &[u8])> {
    let comma = word.iter().position(|byte| *byte == b',')?;
    let (mode, rest) = (word.get(..comma)?, word.get(comma + 1..)?);
    let id = ObjectId::from_hex_prefix(rest, hash)?;
    let path = rest.get(hash.hex_len()..)?.strip_prefix(b",")?;
    Some((octal(mode)?, id, path))
}

/// A line of `--index-info`.
struct Line<'l> {
    mode: u32,
    id: ObjectId,
    stage: Stage,
    path: &'l [u8],
}

impl<'l> Line<'l> {
    /// The mode is in front, the id behind, perhaps followed by a stage; what is between these does not matter.
    fn parse(line: &'l [u8], hash: HashKind) -> Option<Line<'l>> {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (mut head, path) = (line.get(..tab)?, line.get(tab + 1..)?);
        let space = head.iter().position(|byte| *byte == b' ')?;
        let mode = octal(head.get(..space)?)?;
        let mut stage = Stage::Merged;
        if let [rest @ .., b' ', digit @ b'0'..=b'3'] = head {
            (head, stage) = (rest, Stage::from_bits(digit - b'0'));
        }
        let (rest, id) = head.split_at_checked(head.len().checked_sub(hash.hex_len())?)?;
        let id = ObjectId::from_hex(id).ok().filter(|_| rest.ends_with(b" "))?;
        Some(Line { mode, id, stage, path })
    }
}

fn octal(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u32::from_str_radix(text, 8).ok()
}

/// The mode that git keeps of one that was given.
fn canonical(mode: u32) -> Mode {
    Mode(match mode & 0o170_000 {
        0o120_000 => 0o120_000,
        0o040_000 if mode == 0o040_000 => mode,
        0o040_000 | 0o160_000 => 0o160_000,
        _ if mode & 0o100 != 0 => 0o100_755,
        _ => 0o100_644,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        for hash in HashKind::ALL {
            let id = hash.empty_blob();
            let parse = |text: String| {
                Line::parse(text.as_bytes(), hash).map(|line| (line.mode, line.id, line.stage, line.path.to_vec()))
            };
            let good = |stage| Some((0o100_644, id, stage, b"a\tb".to_vec()));
            assert_eq!(parse(format!("100644 {id}\ta\tb")), good(Stage::Merged));
            assert_eq!(parse(format!("100644 blob {id}\ta\tb")), good(Stage::Merged));
            assert_eq!(parse(format!("100644 {id} 2\ta\tb")), good(Stage::Ours));
            assert_eq!(parse(format!("0 {}\tx", hash.null())), Some((0, hash.null(), Stage::Merged, b"x".to_vec())));
            for bad in [
                format!("{id}\tx"),
                format!("100644 {id} x"),
                format!("100649 {id}\tx"),
                format!("100644 {id} 4\tx"),
                format!("100644 x{id}\tx"),
                "100644 12\tx".to_owned(),
                String::new(),
            ] {
                assert_eq!(parse(bad.clone()), None, "{bad}");
            }
        }
    }

    #[test]
    fn modes() {
        for (given, kept) in [
            (0o100_600, 0o100_644),
            (0o100_711, 0o100_755),
            (0o644, 0o100_644),
            (0o777, 0o100_755),
            (0o120_777, 0o120_000),
            (0o040_755, 0o160_000),
            (0o160_000, 0o160_000),
            (0o040_000, 0o040_000),
        ] {
            assert_eq!(canonical(given), Mode(kept), "{given:o}");
        }
    }
}
