//! Pathspecs: which paths the operands of a command mean (gitglossary, "pathspec").
//!
//! A pathspec is a path, which means all below it, or a pattern. It counts from the current directory unless its magic says
//! otherwise. The matching of patterns is `gix-glob`'s. Attributes (`:(attr:...)`) are refused.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

use gix_glob::wildmatch;
use index::Index;

use crate::env::{Environment, os_bytes};
use crate::report::Failure;
use crate::setup::Repository;

/// What magic says about a pathspec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Magic {
    /// From the root of the work tree.
    top: bool,
    /// No pattern.
    literal: bool,
    /// A pattern in which `*` stops at slashes.
    glob: bool,
    /// Letters match in both cases.
    icase: bool,
    /// What it matches is left out.
    exclude: bool,
}

/// One pathspec.
#[derive(Clone, Debug)]
struct Item {
    /// As it was typed.
    typed: Vec<u8>,
    /// From the root of the work tree.
    path: Vec<u8>,
    magic: Magic,
    /// How many bytes of the path are the current directory's, which is never a pattern.
    prefix: usize,
    /// How many bytes stand in front of the first wildcard; all if there is none.
    literal: usize,
    /// The only wildcard is one `*` that does not stop at slashes: what stands behind it.
    suffix: Option<usize>,
}

/// What matched so far: for [`Pathspecs::unmatched`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    Something,
    /// The very path.
    Exactly,
}

/// The pathspecs of a command. None means all paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pathspecs {
    items: Vec<Item>,
    any_exclude: bool,
    seen: Option<Vec<Seen>>,
}

impl Pathspecs {
    /// Understands operands. Without any, all below the current directory is meant.
    pub(crate) fn parse(repo: &Repository, operands: &[OsString]) -> Result<Pathspecs, Failure> {
        if operands.is_empty() {
            let here = Item::new(&repo.prefix, repo.prefix.clone(), Magic::default(), repo.prefix.len());
            let items = Some(here).filter(|here| !here.path.is_empty()).into_iter().collect();
            return Ok(Pathspecs { items, any_exclude: false, seen: None });
        }
        if operands.iter().any(|operand| operand.is_empty()) {
            return Err(Failure::fatal(
                "empty string is not a valid pathspec. please use . instead if you meant to match all paths",
            ));
        }
        let global = Global::of(&repo.env)?;
        let mut items = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            items.push(Item::parse(repo, global, &os_bytes(operand))?);
        }
        if items.iter().all(|item| item.magic.exclude) {
            items.push(Item::parse(repo, global, b".")?);
        }
        let any_exclude = items.iter().any(|item| item.magic.exclude);
        Ok(Pathspecs { items, any_exclude, seen: None })
    }

    /// From now on, remembers which pathspecs matched.
    pub(crate) fn remember(&mut self) {
        self.seen = Some(vec![Seen::Nothing; self.items.len()]);
    }

    /// The directory that all matches lie in, with the `/` at its end; empty: the root.
    pub(crate) fn common_dir(&self) -> &[u8] {
        let mut wanted = self.items.iter().filter(|item| !item.magic.exclude).map(Item::fixed);
        let Some(first) = wanted.next() else { return &[] };
        let common = wanted.fold(first, |common, other| {
            let len = common.iter().zip(other).take_while(|(one, two)| one == two).count();
            common.get(..len).unwrap_or_default()
        });
        let end = common.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        common.get(..end).unwrap_or_default()
    }

    /// The positions that matches can be at, in order.
    pub(crate) fn ranges(&self, index: &Index<'_>) -> Vec<Range<usize>> {
        if self.items.is_empty() {
            return std::iter::once(0..index.len()).collect();
        }
        let mut ranges = Vec::new();
        for item in self.items.iter().filter(|item| !item.magic.exclude) {
            if item.literal < item.path.len() || item.magic.icase || item.path.is_empty() {
                ranges.push(index.prefix(item.fixed()));
                continue;
            }
            let dir = item.path.strip_suffix(b"/").unwrap_or(&item.path);
            ranges.push(index.range(dir));
            ranges.push(index.prefix(&[dir, b"/"].concat()));
        }
        ranges.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }

    /// Whether all paths are meant.
    pub(crate) fn is_all(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether a path is meant. `is_dir`: it is a directory's though it may not end in `/`, as a submodule's.
    pub(crate) fn matches(&mut self, path: &[u8], is_dir: bool) -> bool {
        if self.items.is_empty() {
            return true;
        }
        let mut wanted = false;
        for (nth, item) in self.items.iter().enumerate().filter(|(_, item)| !item.magic.exclude) {
            let Some(seen) = self.seen.as_mut().and_then(|seen| seen.get_mut(nth)) else {
                if item.matches(path, is_dir) != Seen::Nothing {
                    wanted = true;
                    break;
                }
                continue;
            };
            // git asks no further, so that with --error-unmatch the other stages of a path are not listed.
            if *seen == Seen::Exactly && item.literal == item.path.len() {
                continue;
            }
            let how = item.matches(path, is_dir);
            if how != Seen::Nothing {
                wanted = true;
                *seen = if *seen == Seen::Exactly { *seen } else { how };
            }
        }
        if !wanted || !self.any_exclude {
            return wanted;
        }
        // What is left out may well not be there.
        for (seen, item) in self.seen.iter_mut().flatten().zip(&self.items) {
            *seen = if item.magic.exclude { Seen::Something } else { *seen };
        }
        let mut excludes = self.items.iter().filter(|item| item.magic.exclude);
        excludes.all(|item| item.matches(path, is_dir) == Seen::Nothing)
    }

    /// The pathspecs that matched nothing since [`remember`](Self::remember), as typed. One that is repeated counts as
    /// matched if another like it did.
    pub(crate) fn unmatched(&self) -> Vec<&[u8]> {
        let seen = |nth: usize| self.seen.as_ref().and_then(|seen| seen.get(nth)).copied().unwrap_or_default();
        let matched = |item: &Item| {
            let like = |(nth, other): (usize, &Item)| other.typed == item.typed && seen(nth) != Seen::Nothing;
            self.items.iter().enumerate().any(like)
        };
        self.items.iter().filter(|item| !matched(item)).map(|item| item.typed.as_slice()).collect()
    }
}

impl Item {
    fn new(typed: &[u8], path: Vec<u8>, magic: Magic, prefix: usize) -> Item {
        let prefix = prefix.min(path.len());
        let wild = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        let literal = match magic.literal {
            true => path.len(),
            false => path.iter().position(wild).unwrap_or(path.len()).max(prefix),
        };
        let behind = path.get(literal + 1..).filter(|behind| !behind.iter().any(wild));
        let one_star = !magic.glob && path.get(literal) == Some(&b'*') && behind.is_some();
        let suffix = one_star.then_some(literal + 1);
        Item { typed: typed.into(), path, magic, prefix, literal, suffix }
    }

    fn parse(repo: &Repository, global: Global, typed: &[u8]) -> Result<Item, Failure> {
        let shown = String::from_utf8_lossy(typed);
        let (mut magic, mut given_prefix, mut rest) = (Magic::default(), None, typed);
        if !global.literal && typed.starts_with(b":") {
            (magic, given_prefix, rest) = match typed.starts_with(b":(") {
                true => long_magic(typed)?,
                false => short_magic(typed)?,
            };
        }
        global.check()?;
        let named_glob = magic.glob;
        magic.glob |= global.glob && !magic.literal;
        magic.literal |= global.literal || (global.no_glob && !named_glob);
        magic.icase |= global.icase;
        if magic.literal && magic.glob {
            return Err(Failure::Fatal(format!("{shown}: 'literal' and 'glob' are incompatible")));
        }
        if let Some(prefix) = given_prefix {
            return Ok(Item::new(typed, rest.into(), magic, prefix));
        }
        if magic.top {
            return Ok(Item::new(typed, rest.into(), magic, 0));
        }
        let path = repo.path_in_tree(rest).map_err(|failure| match failure {
            Failure::Fatal(text) => Failure::Fatal(format!("{shown}: {text}")),
            other => other,
        })?;
        let prefix = match Path::new(&crate::env::bytes_to_path(rest)).is_absolute() {
            true => 0,
            false => kept_of_prefix(&repo.prefix, rest),
        };
        Ok(Item::new(typed, path, magic, prefix))
    }

    /// What all paths that it matches begin with.
    fn fixed(&self) -> &[u8] {
        let len = if self.magic.icase { self.prefix } else { self.literal };
        self.path.get(..len).unwrap_or_default()
    }

    fn same(&self, one: &[u8], two: &[u8]) -> bool {
        if self.magic.icase { one.eq_ignore_ascii_case(two) } else { one == two }
    }

    fn matches(&self, name: &[u8], is_dir: bool) -> Seen {
        let path = self.path.as_slice();
        if path.is_empty() {
            return Seen::Something;
        }
        // The current directory means just that.
        if self.magic.icase && name.get(..self.prefix) != path.get(..self.prefix) {
            return Seen::Nothing;
        }
        if name.get(..path.len()).is_some_and(|begin| self.same(begin, path)) {
            if name.len() == path.len() {
                return Seen::Exactly;
            }
            if path.ends_with(b"/") || name.get(path.len()) == Some(&b'/') {
                return Seen::Something;
            }
        } else if is_dir && path.strip_suffix(b"/").is_some_and(|dir| self.same(dir, name)) {
            return Seen::Exactly;
        }
        if self.literal < path.len() && self.matches_pattern(name) { Seen::Something } else { Seen::Nothing }
    }

    fn matches_pattern(&self, name: &[u8]) -> bool {
        let (begin, pattern) = self.path.split_at(self.literal);
        let Some((name_begin, rest)) = name.split_at_checked(self.literal) else { return false };
        if !self.same(begin, name_begin) {
            return false;
        }
        if let Some(suffix) = self.suffix.and_then(|at| self.path.get(at..)) {
            let end = rest.len().checked_sub(suffix.len()).and_then(|at| rest.get(at..));
            return end.is_some_and(|end| self.same(end, suffix));
        }
        let mut mode = wildmatch::Mode::empty();
        mode.set(wildmatch::Mode::NO_MATCH_SLASH_LITERAL, self.magic.glob);
        mode.set(wildmatch::Mode::IGNORE_CASE, self.magic.icase);
        gix_glob::wildmatch(pattern.into(), rest.into(), mode)
    }
}

/// What the environment, and so the global options, say about all pathspecs.
#[derive(Clone, Copy, Debug)]
struct Global {
    literal: bool,
    glob: bool,
    no_glob: bool,
    icase: bool,
}

impl Global {
    fn of(env: &Environment) -> Result<Global, Failure> {
        Ok(Global {
            literal: env.truth("GIT_LITERAL_PATHSPECS", false)?,
            glob: env.truth("GIT_GLOB_PATHSPECS", false)?,
            no_glob: env.truth("GIT_NOGLOB_PATHSPECS", false)?,
            icase: env.truth("GIT_ICASE_PATHSPECS", false)?,
        })
    }

    fn check(self) -> Result<(), Failure> {
        if self.glob && self.no_glob {
            return Err(Failure::fatal("global 'glob' and 'noglob' pathspec settings are incompatible"));
        }
        if self.literal && (self.glob || self.icase) {
            return Err(Failure::fatal(
                "global 'literal' pathspec setting is incompatible with all other global pathspec settings",
            ));
        }
        Ok(())
    }
}

/// Magic, the length that it gives for the current directory, and the path behind.
type Parsed<'t> = (Magic, Option<usize>, &'t [u8]);

/// `:(word,word)path`.
fn long_magic(typed: &[u8]) -> Result<Parsed<'_>, Failure> {
    let shown = String::from_utf8_lossy(typed);
    let (mut magic, mut prefix) = (Magic::default(), None);
    let mut rest = typed.get(2..).unwrap_or_default();
    loop {
        let end = rest.iter().position(|byte| matches!(byte, b',' | b')')).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        match word {
            b"" => {}
            b"top" => magic.top = true,
            b"literal" => magic.literal = true,
            b"glob" => magic.glob = true,
            b"icase" => magic.icase = true,
            b"exclude" => magic.exclude = true,
            b"attr" | [b'a', b't', b't', b'r', b':', ..] => {
                let what = "pathspec magic not supported by this command: 'attr'";
                return Err(Failure::Fatal(format!("{shown}: {what}")));
            }
            _ => match word.strip_prefix(b"prefix:") {
                Some(digits) => {
                    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                    prefix =
                        Some(number.ok_or_else(|| Failure::fatal("invalid parameter for pathspec magic 'prefix'"))?);
                }
                None => {
                    let word = String::from_utf8_lossy(word);
                    return Err(Failure::Fatal(format!("Invalid pathspec magic '{word}' in '{shown}'")));
                }
            },
        }
        match behind.split_first() {
            Some((b')', path)) => return Ok((magic, prefix, path)),
            Some((_, words)) => rest = words,
            None => {
                return Err(Failure::Fatal(format!("Missing ')' at the end of pathspec magic in '{shown}'")));
            }
        }
    }
}

/// `:!path`, with a letter for each magic; a `:` may end them.
fn short_magic(typed: &[u8]) -> Result<Parsed<'_>, Failure> {
    let mut magic = Magic::default();
    let mut rest = typed.get(1..).unwrap_or_default();
    while let Some((&letter, behind)) = rest.split_first() {
        match letter {
            b':' => {
                rest = behind;
                break;
            }
            b'/' => magic.top = true,
            b'!' | b'^' => magic.exclude = true,
            // Kept for magic to come.
            b'"' | b'#' | b'%' | b'&' | b'\'' | b',' | b'-' | b';' | b'<' | b'=' | b'>' | b'@' | b'_' | b'`' | b'~' => {
                return Err(Failure::Fatal(format!(
                    "Unimplemented pathspec magic '{}' in '{}'",
                    char::from(letter),
                    String::from_utf8_lossy(typed)
                )));
            }
            _ => break,
        }
        rest = behind;
    }
    Ok((magic, None, rest))
}

/// How much of the current directory is left in front of a path that may begin with `..`.
fn kept_of_prefix(prefix: &[u8], typed: &[u8]) -> usize {
    let (mut kept, mut below) = (prefix.len(), 0usize);
    for part in typed.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if below > 0 => below -= 1,
            b".." => {
                let dir = prefix.get(..kept.saturating_sub(1)).unwrap_or_default();
                kept = dir.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
            }
            _ => below += 1,
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_the_current_directory() {
        for (typed, kept) in [
            ("", 4),
            ("x", 4),
            ("x/..", 4),
            ("../x", 2),
            ("../../x", 0),
            ("./../b", 2),
            ("x/../../b", 2),
            ("../../../..", 0),
        ] {
            assert_eq!(kept_of_prefix(b"a/b/", typed.as_bytes()), kept, "{typed}");
        }
    }

    #[test]
    fn magic() {
        let top = Magic { top: true, ..Magic::default() };
        let exclude = Magic { exclude: true, ..Magic::default() };
        let both = Magic { exclude: true, top: true, ..Magic::default() };
        for (typed, magic, rest) in [
            (":", Magic::default(), ""),
            ("::a", Magic::default(), "a"),
            (":/", top, ""),
            (":/a", top, "a"),
            (":!a", exclude, "a"),
            (":^/:!a", both, "!a"),
            (":a:b", Magic::default(), "a:b"),
        ] {
            let parsed = short_magic(typed.as_bytes()).unwrap();
            assert_eq!(parsed, (magic, None, rest.as_bytes()), "{typed}");
        }
        let parsed = long_magic(b":(glob,,top,icase)a)b").unwrap();
        let magic = Magic { glob: true, top: true, icase: true, ..Magic::default() };
        assert_eq!(parsed, (magic, None, &b"a)b"[..]));
        assert_eq!(long_magic(b":()").unwrap(), (Magic::default(), None, &b""[..]));
        assert_eq!(long_magic(b":(prefix:3)abcd").unwrap().1, Some(3));
    }
}
