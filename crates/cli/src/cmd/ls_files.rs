//! `packstone ls-files`: git-ls-files, as far as it lists the index.
//!
//! Work trees are not looked at: what compares with them is refused by name.

use std::ffi::OsString;
use std::io::{self, StdoutLock, Write as _};

use index::trees::TreeLimits;
use index::{Bump, Entry, Index, Mode, Stage, sparse};
use object::ObjectId;

use self::format::Format;
use self::typed::{TABLE, Typed};
use crate::abbreviate::{Abbreviator, Length};
use crate::env::Environment;
use crate::index::IndexPlace;
use crate::objects::Objects;
use crate::pathspec::Pathspecs;
use crate::present::see_present_files;
use crate::quote::quote_c;
use crate::report::{self, Failure, chain};
use crate::setup::Repository;

mod format;
mod typed;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Lists the paths in the index that the pathspecs mean; without any, all below the current directory. Paths count
from the current directory, unless --full-name is given.

With -s a line is `<mode> <object> <stage>TAB<path>`. With -t, -v or -f each begins with a letter: H in the index,
M unmerged, S need not be in the work tree, U resolved; lower case for what -v or -f mark.

In --format, %(objectmode) %(objectname) %(objecttype) %(objectsize) %(objectsize:padded) %(stage) and %(path) stand
for parts of an entry, %xNN for the byte of this number, %n for a newline, %% for %.

Configuration: core.quotePath, core.abbrev, core.fsmonitor (whose answers are shown, not asked for), core.protectNTFS,
core.protectHFS, index.threads.

Exit code: 0 done; 1 with --error-unmatch, if a pathspec means nothing; 128 with `fatal: ...`; 129 for a wrong
command line, or an option that is not supported.
";

/// How much is written at a time, as by all that is measured against git.
const CHUNK: usize = 128 * 1024;

/// The help page.
pub(crate) fn page() -> String {
    TABLE.page(ABOUT)
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    TABLE.help_if_asked(words)?;
    let repo = Repository::find(env)?;
    let mut typed = Typed::default();
    let operands = TABLE.parse(words, &mut typed)?;
    let format = typed.settle()?;
    let mut specs = Pathspecs::parse(&repo, &operands)?;
    if typed.error_unmatch {
        specs.remember();
    }

    let place = IndexPlace::find(&repo)?;
    let (arena, opened) = (Bump::new(), place.open()?);
    let mut index = opened.read(&arena)?;
    see_present_files(&repo, &place, &mut index)?;
    if index.is_sparse() && !typed.sparse && typed.lists_entries() {
        let common = specs.common_dir();
        let outside = |dir: &[u8]| !dir.starts_with(common) && !common.starts_with(dir);
        let limits = TreeLimits::default().checks(repo.path_checks()?);
        sparse::expand(&mut index, &mut Objects::open(&repo)?, &limits, &outside)
            .map_err(|error| Failure::Fatal(chain(&error)))?;
    }

    let store = match format.as_ref().is_some_and(Format::needs_objects) || typed.abbrev.is_some() {
        true => Some(repo.open_store()?),
        false => None,
    };
    let length = match typed.abbrev {
        Some(Length::Auto) => Length::configured(&repo.config)?,
        given => given.unwrap_or_default(),
    };
    let abbreviator = match &store {
        Some(store) if length != Length::Full => Some(Abbreviator::new(store, length)?),
        _ => None,
    };
    let mut list = List {
        typed: &typed,
        format,
        store,
        abbreviator,
        out: Out {
            bytes: Vec::with_capacity(CHUNK + CHUNK / 8),
            stdout: io::stdout().lock(),
            prefix: if typed.full_name { Vec::new() } else { repo.prefix.clone() },
            quote: (!typed.nul).then_some(repo.config.truth("core.quotepath")?.unwrap_or(true)),
        },
    };
    if typed.lists_entries() {
        list.entries(&index, &mut specs)?;
    }
    if typed.resolve_undo {
        list.resolved(&index, &mut specs)?;
    }
    list.out.flush()?;
    let unmatched = if typed.error_unmatch { specs.unmatched() } else { Vec::new() };
    for spec in &unmatched {
        let spec = String::from_utf8_lossy(spec);
        report::say(&format!("error: pathspec '{spec}' did not match any file(s) known to git\n"));
    }
    if unmatched.is_empty() {
        return Ok(());
    }
    report::say("Did you forget to 'git add'?\n");
    Err(Failure::Exit(1))
}

/// A listing being written.
struct List<'t> {
    typed: &'t Typed,
    format: Option<Format>,
    /// Open if anything is to be asked about objects.
    store: Option<odb::Store>,
    abbreviator: Option<Abbreviator>,
    out: Out,
}

impl List<'_> {
    fn entries(&mut self, index: &Index<'_>, specs: &mut Pathspecs) -> Result<(), Failure> {
        let typed = self.typed;
        let deduplicate = typed.deduplicate && !typed.tags && !typed.shows_stage();
        let mut last: Option<&[u8]> = None;
        for range in specs.ranges(index) {
            for (at, entry) in range.clone().zip(index.iter_range(range)) {
                if typed.unmerged && entry.stage() == Stage::Merged {
                    continue;
                }
                let path = entry.path();
                if deduplicate && last.replace(path) == Some(path) {
                    continue;
                }
                if specs.is_all() || specs.matches(path, entry.is_sparse_dir() || entry.is_gitlink()) {
                    self.entry(index, at, &entry)?;
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, index: &Index<'_>, at: usize, entry: &Entry<'_>) -> Result<(), Failure> {
        match &self.format {
            Some(format) => format.expand(entry, self.store.as_ref(), self.abbreviator.as_ref(), &mut self.out)?,
            None => {
                let flags = entry.flags();
                if self.typed.shows_tag() {
                    let tag = match entry.stage() {
                        Stage::Merged if flags.skip_worktree => b'S',
                        Stage::Merged => b'H',
                        _ => b'M',
                    };
                    let lower =
                        (self.typed.valid && flags.assume_valid) || (self.typed.fsmonitor && index.fsmonitor_valid(at));
                    self.out.bytes.extend([if lower { tag.to_ascii_lowercase() } else { tag }, b' ']);
                }
                if self.typed.shows_stage() {
                    self.stage(entry.mode(), &entry.id(), entry.stage());
                }
                self.out.path(entry.path());
            }
        }
        self.out.end();
        if self.typed.debug {
            self.debug(index, at, entry);
        }
        self.out.spill()
    }

    /// `<mode> <object> <stage>TAB`.
    fn stage(&mut self, mode: Mode, id: &ObjectId, stage: Stage) {
        self.out.mode(mode);
        self.out.bytes.push(b' ');
        self.out.id(id, self.abbreviator.as_ref());
        self.out.bytes.extend([b' ', b'0' + stage as u8, b'\t']);
    }

    fn debug(&mut self, index: &Index<'_>, at: usize, entry: &Entry<'_>) {
        let (stat, flags) = (entry.stat(), entry.flags());
        // git shows the word it has in memory (its header `read-cache-ll.h`).
        let mut word = (entry.stage() as u32) << 12;
        for (set, bit) in [
            (flags.assume_valid, 1 << 15),
            (flags.skip_worktree || flags.intent_to_add, 1 << 14),
            (index.fsmonitor_valid(at), 1 << 21),
            (index.is_replacement(at), 1 << 27),
            (flags.intent_to_add, 1 << 29),
            (flags.skip_worktree, 1 << 30),
        ] {
            word |= if set { bit } else { 0 };
        }
        let ([ctime, mtime], bytes) = ([stat.ctime, stat.mtime], &mut self.out.bytes);
        // A Vec takes all there is.
        let _ = writeln!(bytes, "  ctime: {}:{}\n  mtime: {}:{}", ctime.secs, ctime.nanos, mtime.secs, mtime.nanos);
        let _ = writeln!(bytes, "  dev: {}\tino: {}\n  uid: {}\tgid: {}", stat.dev, stat.ino, stat.uid, stat.gid);
        let _ = writeln!(bytes, "  size: {}\tflags: {word:x}", stat.size);
    }

    /// Conflicts that were resolved.
    fn resolved(&mut self, index: &Index<'_>, specs: &mut Pathspecs) -> Result<(), Failure> {
        for (path, stages) in index.resolve_undo().iter() {
            if !specs.matches(path, false) {
                continue;
            }
            for (stage, side) in [Stage::Base, Stage::Ours, Stage::Theirs].into_iter().zip(stages) {
                let Some((mode, id)) = side else { continue };
                if self.typed.shows_tag() {
                    self.out.bytes.extend_from_slice(b"U ");
                }
                self.stage(*mode, id, stage);
                self.out.path(path);
                self.out.end();
                self.out.spill()?;
            }
        }
        Ok(())
    }
}

/// Standard output, and how paths are shown on it.
struct Out {
    bytes: Vec<u8>,
    stdout: StdoutLock<'static>,
    /// Where paths count from: empty, or with a `/` at its end.
    prefix: Vec<u8>,
    /// `None`: paths as they are, lines end with NUL. Else whether bytes beyond ASCII are quoted.
    quote: Option<bool>,
}

impl Out {
    fn path(&mut self, path: &[u8]) {
        match path.strip_prefix(&self.prefix[..]) {
            Some(path) if !path.is_empty() => self.shown(path),
            _ => self.shown(&relative(path, &self.prefix)),
        }
    }

    fn shown(&mut self, path: &[u8]) {
        match self.quote {
            Some(all) => quote_c(path, all, &mut self.bytes),
            None => self.bytes.extend_from_slice(path),
        }
    }

    fn mode(&mut self, mode: Mode) {
        match mode.0 {
            0o100_644 => self.bytes.extend_from_slice(b"100644"),
            other => self.bytes.extend_from_slice(format!("{other:06o}").as_bytes()),
        }
    }

    fn id(&mut self, id: &ObjectId, abbreviator: Option<&Abbreviator>) {
        let hex = id.to_hex();
        let digits = abbreviator.map_or(hex.len(), |abbreviator| abbreviator.digits(id));
        self.bytes.extend_from_slice(hex.as_bytes().get(..digits).unwrap_or_default());
    }

    /// Ends a line.
    fn end(&mut self) {
        self.bytes.push(if self.quote.is_some() { b'\n' } else { 0 });
    }

    /// Writes if there is enough to be worth it.
    fn spill(&mut self) -> Result<(), Failure> {
        if self.bytes.len() < CHUNK { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), Failure> {
        let written = self.stdout.write_all(&self.bytes);
        self.bytes.clear();
        written.map_err(|error| Failure::output("write error", error))
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.write()?;
        self.stdout.flush().map_err(|error| Failure::output("write error", error))
    }
}

/// A path from a directory (with the `/` at its end): up as far as it has to, then down.
fn relative(path: &[u8], from: &[u8]) -> Vec<u8> {
    let same = path.iter().zip(from).take_while(|(one, two)| one == two).count();
    let begin = from.get(..same).unwrap_or_default();
    let mut common = begin.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let mut rest = path.get(common..).unwrap_or_default();
    // The directory itself, or one above it, named without the `/`.
    if same == path.len() && from.get(same) == Some(&b'/') {
        (common, rest) = (same + 1, b"");
    }
    let ups = from.get(common..).unwrap_or_default().iter().filter(|byte| **byte == b'/').count();
    let mut out = b"../".repeat(ups);
    out.extend_from_slice(rest);
    if out.is_empty() { b"./".to_vec() } else { out }
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn up_and_down() {
        for (path, from, expected) in [
            ("a/b", "", "a/b"),
            ("a/b", "a/", "b"),
            ("a/b", "c/", "../a/b"),
            ("a/b", "a/c/d/", "../../b"),
            ("ab/c", "a/", "../ab/c"),
            ("a", "ab/", "../a"),
            ("a", "a/", "./"),
            ("a/", "a/", "./"),
            ("a", "a/b/", "../"),
            ("a/b", "a/b/c/", "../"),
        ] {
            let found = relative(path.as_bytes(), from.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{path} from {from}");
        }
    }
}
