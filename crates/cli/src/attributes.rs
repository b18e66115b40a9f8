//! Attributes of files (gitattributes), as far as they change what is stored of a file's content.
//!
//! Nothing is converted here yet. What would have to be is told by [`Conversions::needs`], so that it can be refused instead
//! of stored wrongly.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use gix_attributes::StateRef;
use gix_attributes::parse::Kind;
use gix_glob::pattern::Case;
use gix_glob::wildmatch::Mode;

use crate::config::Config;
use crate::env::bytes_to_path;
use crate::number;
use crate::report::Failure;
use crate::setup::Repository;

/// What becomes of a file's content before it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// CR LF becomes LF.
    pub(crate) line_ends: LineEnds,
    /// `$Id: ...$` becomes `$Id$`.
    pub(crate) ident: bool,
    /// What changes any content: a filter or an encoding, by its name.
    pub(crate) always: Option<String>,
}

/// Whether CR LF becomes LF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LineEnds {
    /// No.
    #[default]
    Kept,
    /// If the content looks like text.
    OfText,
    /// Yes.
    Converted,
}

impl Needs {
    /// Why this content cannot be stored as it is; `None` if it can.
    pub(crate) fn of(&self, content: &[u8]) -> Option<String> {
        if let Some(name) = &self.always {
            return Some(name.clone());
        }
        let converts = match self.line_ends {
            LineEnds::Kept => false,
            LineEnds::Converted => true,
            LineEnds::OfText => !is_binary(content),
        };
        if converts && content.windows(2).any(|pair| pair == b"\r\n") {
            return Some("line ends".to_owned());
        }
        if self.ident && content.windows(3).any(|three| three == b"$Id") {
            return Some("ident".to_owned());
        }
        None
    }

    /// Whether every content is stored as it is.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Needs::default()
    }
}

/// A NUL, or a CR that ends no line: such content is certainly not taken for text. (git guesses some more to be binary.)
fn is_binary(content: &[u8]) -> bool {
    let lone_cr = |(at, byte): (usize, &u8)| *byte == b'\r' && content.get(at + 1) != Some(&b'\n');
    content.contains(&0) || content.iter().enumerate().any(lone_cr)
}

/// What the configuration and the attributes say about the files of a work tree.
#[derive(Debug)]
pub(crate) struct Conversions {
    /// `core.autocrlf`, whichever way.
    auto_crlf: bool,
    /// Filters that do something when a file is added.
    filters: Vec<Vec<u8>>,
    ignore_case: bool,
    root: PathBuf,
    /// Attribute files outside of the work tree: the repository's, the user's, the system's.
    outside: [PathBuf; 3],
    read: Mutex<HashMap<Source, Arc<Rules>>>,
}

/// Where attributes are written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// `.gitattributes` in this directory, which is empty or ends in `/`.
    Directory(Vec<u8>),
    Outside(usize),
}

/// One attribute's name, and how it is given.
type Assignment = (String, State);

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Set,
    Unset,
    Unspecified,
    Value(Vec<u8>),
}

/// The lines of an attributes file.
#[derive(Debug, Default)]
struct Rules {
    patterns: Vec<(gix_glob::Pattern, Vec<Assignment>)>,
    macros: HashMap<String, Vec<Assignment>>,
}

impl Conversions {
    /// Reads the settings; attribute files are read when they are needed.
    pub(crate) fn new(repo: &Repository, root: PathBuf) -> Result<Conversions, Failure> {
        let (config, env) = (&repo.config, &repo.env);
        let auto_crlf = match config.last("core.autocrlf") {
            Some(entry) if entry.value.as_deref().is_some_and(|value| value.eq_ignore_ascii_case(b"input")) => true,
            Some(entry) => entry.truth()?,
            None => false,
        };
        let xdg = match env.get("XDG_CONFIG_HOME").filter(|value| !value.is_empty()) {
            Some(dir) => Some(PathBuf::from(dir)),
            None => env.home().map(|home| home.join(".config")),
        };
        let users = match config.text("core.attributesfile")? {
            Some(text) => match (text.strip_prefix(b"~/"), env.home()) {
                (Some(rest), Some(home)) => home.join(bytes_to_path(rest)),
                _ => env.resolve(&bytes_to_path(text)),
            },
            None => xdg.map(|dir| dir.join("git/attributes")).unwrap_or_default(),
        };
        let systems = if env.truth("GIT_ATTR_NOSYSTEM", false)? { "" } else { "/etc/gitattributes" };
        Ok(Conversions {
            auto_crlf,
            filters: filters(config),
            ignore_case: config.truth("core.ignorecase")?.unwrap_or(false),
            root,
            outside: [repo.common_dir.join("info/attributes"), users, systems.into()],
            read: Mutex::default(),
        })
    }

    /// What has to be done to the content of a file before it is stored.
    pub(crate) fn needs(&self, path: &[u8]) -> Needs {
        let found = self.attributes(path);
        let is = |name: &str, value: &[u8]| match found.get(name) {
            Some(State::Value(found)) => found == value,
            _ => false,
        };
        let text = match found.get("text") {
            None | Some(State::Unspecified) => found.get("crlf"),
            text => text,
        };
        let line_ends = match text {
            Some(State::Set) => LineEnds::Converted,
            Some(State::Unset) => LineEnds::Kept,
            Some(State::Value(value)) if value == b"input" => LineEnds::Converted,
            Some(State::Value(value)) if value == b"auto" => LineEnds::OfText,
            _ if is("eol", b"lf") || is("eol", b"crlf") => LineEnds::Converted,
            _ if self.auto_crlf => LineEnds::OfText,
            _ => LineEnds::Kept,
        };
        let filter = match found.get("filter") {
            Some(State::Value(name)) if self.filters.contains(name) => Some(("filter", name.as_slice())),
            _ => None,
        };
        let encoding = match found.get("working-tree-encoding") {
            Some(State::Value(name)) if name.is_empty() || name.eq_ignore_ascii_case(b"utf-8") => None,
            Some(State::Value(name)) => Some(("working-tree-encoding", name.as_slice())),
            Some(State::Set | State::Unset) => Some(("working-tree-encoding", &b""[..])),
            _ => None,
        };
        let always = filter.or(encoding).map(|(kind, name)| format!("{kind} '{}'", String::from_utf8_lossy(name)));
        Needs { line_ends, ident: found.get("ident") == Some(&State::Set), always }
    }

    /// All attributes of a file: what the file nearest to it says counts, in it the last line that matches, and before all
    /// of them the repository's own file (gitattributes, "DESCRIPTION").
    fn attributes(&self, path: &[u8]) -> HashMap<String, State> {
        let mut sources = vec![Source::Outside(0)];
        let slashes: Vec<usize> =
            path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect();
        sources.extend(slashes.iter().rev().filter_map(|&at| Some(Source::Directory(path.get(..=at)?.to_vec()))));
        sources.extend([Source::Directory(Vec::new()), Source::Outside(1), Source::Outside(2)]);
        let sources: Vec<(usize, Arc<Rules>)> = sources
            .into_iter()
            .map(|source| {
                let above = match &source {
                    Source::Directory(dir) => dir.len(),
                    Source::Outside(_) => 0,
                };
                (above, self.rules(source))
            })
            .collect();
        let case = if self.ignore_case { Case::Fold } else { Case::Sensitive };
        let mut found = HashMap::new();
        for (above, rules) in &sources {
            let path = path.get(*above..).unwrap_or_default();
            let name_at = path.iter().rposition(|byte| *byte == b'/').map(|at| at + 1);
            for (pattern, assignments) in rules.patterns.iter().rev() {
                let mode = Mode::NO_MATCH_SLASH_LITERAL;
                if pattern.matches_repo_relative_path(path.into(), name_at, Some(false), case, mode) {
                    assign(assignments, &sources, &mut found);
                }
            }
        }
        found
    }

    fn rules(&self, source: Source) -> Arc<Rules> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = read.get(&source) {
            return Arc::clone(rules);
        }
        let path = match &source {
            Source::Directory(dir) => self.root.join(bytes_to_path(dir)).join(".gitattributes"),
            Source::Outside(at) => self.outside.get(*at).cloned().unwrap_or_default(),
        };
        let top = !matches!(&source, Source::Directory(dir) if !dir.is_empty());
        // A file that is not there, or not for us to read, says nothing.
        let rules = Arc::new(std::fs::read(path).map(|text| Rules::parse(&text, top)).unwrap_or_default());
        read.insert(source, Arc::clone(&rules));
        rules
    }
}

/// Takes over what a line says, and what the macros that it sets say. What is there already stays.
fn assign(assignments: &[Assignment], sources: &[(usize, Arc<Rules>)], found: &mut HashMap<String, State>) {
    let mut stack: Vec<&Assignment> = assignments.iter().collect();
    let binary: Vec<Assignment> = ["diff", "merge", "text"].map(|name| (name.to_owned(), State::Unset)).into();
    while let Some((name, state)) = stack.pop() {
        if found.contains_key(name) {
            continue;
        }
        found.insert(name.clone(), state.clone());
        if *state == State::Set {
            let own = sources.iter().find_map(|(_, rules)| rules.macros.get(name));
            match own {
                Some(assignments) => stack.extend(assignments),
                None if name == "binary" => stack.extend(&binary),
                None => {}
            }
        }
    }
}

impl Rules {
    /// Lines that make no sense say nothing, as in git. Macros count only in files at the `top`.
    fn parse(text: &[u8], top: bool) -> Rules {
        let mut rules = Rules::default();
        for (kind, assignments, _) in gix_attributes::parse(text).filter_map(Result::ok) {
            let assignments = assignments.filter_map(Result::ok).map(|assignment| {
                let state = match assignment.state {
                    StateRef::Set => State::Set,
                    StateRef::Unset => State::Unset,
                    StateRef::Unspecified => State::Unspecified,
                    StateRef::Value(value) => State::Value(value.as_bstr().to_vec()),
                };
                (assignment.name.as_str().to_owned(), state)
            });
            match kind {
                Kind::Pattern(pattern) => rules.patterns.push((pattern, assignments.collect())),
                Kind::Macro(name) if top => {
                    rules.macros.insert(name.as_str().to_owned(), assignments.collect());
                }
                Kind::Macro(_) => {}
            }
        }
        rules
    }
}

/// The filters that do something when a file is added, or say that they must.
fn filters(config: &Config) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for entry in config.entries() {
        let Some(rest) = entry.key.strip_prefix(b"filter.") else { continue };
        let Some(dot) = rest.iter().rposition(|byte| *byte == b'.') else { continue };
        let (name, what) = (&rest[..dot], &rest[dot + 1..]);
        let does = match what {
            b"clean" | b"process" => entry.value.as_deref().is_some_and(|command| !command.is_empty()),
            b"required" => number::boolean(entry.value.as_deref()).unwrap_or(true),
            _ => false,
        };
        if does && !names.iter().any(|known| known == name) {
            names.push(name.to_vec());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use testkit::repo::{Hash, TestRepo};

    use super::*;
    use crate::env::Environment;

    fn conversions(repo: &TestRepo) -> Conversions {
        let mut env = Environment::empty(repo.path());
        for (name, value) in [("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_ATTR_NOSYSTEM", "1")] {
            env.set(name, value);
        }
        Conversions::new(&Repository::find(env).unwrap(), repo.path().to_owned()).unwrap()
    }

    /// What git says of these attributes, beside what we say.
    #[test]
    fn attributes_are_gits() {
        let repo = TestRepo::init(Hash::Sha1);
        repo.write(
            ".gitattributes",
            b"* text=auto\n*.bin binary\n[attr]note text ident=x -crlf\n*.note note\n\"sp ace\" ident\n\
              /top filter=a\ndir/deep eol=lf\n*.unset -text\n!neg text\n# comment\n  *.c   diff=c   !text\n",
        );
        repo.write(
            "dir/.gitattributes",
            b"*.bin !text ident\nsub/ text\nsub/** eol=crlf\n[attr]lost ident\n*.l lost\n",
        );
        std::fs::create_dir_all(repo.git_dir().join("info")).unwrap();
        std::fs::write(repo.git_dir().join("info/attributes"), "dir/own -ident filter=b\n").unwrap();
        let ours = conversions(&repo);
        let names = ["text", "crlf", "eol", "ident", "filter", "binary", "note", "lost"];
        for path in [
            "a",
            "a.bin",
            "a.note",
            "sp ace",
            "top",
            "dir/top",
            "dir/deep",
            "dir/a.bin",
            "dir/sub/x",
            "dir/sub/y/z",
            "dir/own",
            "dir/a.l",
            "a.unset",
            "!neg",
            "neg",
            "x.c",
            "dir/x.c",
        ] {
            let words = [&["check-attr", "-z"][..], &names, &["--", path]].concat();
            let said = repo.git(words);
            let said: Vec<&[u8]> = said.split(|byte| *byte == 0).collect();
            let found = ours.attributes(path.as_bytes());
            for three in said.chunks_exact(3) {
                let ours = match found.get(std::str::from_utf8(three[1]).unwrap()) {
                    None | Some(State::Unspecified) => &b"unspecified"[..],
                    Some(State::Set) => b"set",
                    Some(State::Unset) => b"unset",
                    Some(State::Value(value)) => value,
                };
                assert_eq!(ours, three[2], "{path} {}", three[1].escape_ascii());
            }
        }
    }

    #[test]
    fn what_has_to_be_converted() {
        let text = Needs { line_ends: LineEnds::OfText, ..Needs::default() };
        assert_eq!(text.of(b"a\nb\n"), None);
        assert_eq!(text.of(b"a\r\nb\0"), None);
        assert_eq!(text.of(b"a\r\nb\rc"), None);
        assert!(text.of(b"a\r\nb\n").is_some());
        let all = Needs { line_ends: LineEnds::Converted, ..Needs::default() };
        assert!(all.of(b"a\r\nb\0").is_some() && all.of(b"a\n").is_none());
        let ident = Needs { ident: true, ..Needs::default() };
        assert!(ident.of(b"x $Id: y $").is_some() && ident.of(b"x\r\n").is_none());
        assert!(Needs { always: Some("filter 'x'".into()), ..Needs::default() }.of(b"").is_some());
        assert!(Needs::default().is_nothing() && Needs::default().of(b"\r\n$Id$").is_none());
    }
}
