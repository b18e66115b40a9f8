//! git's configuration: the files, the environment and `-c`, in git's order of precedence.
//!
//! The text of a file is parsed by `gix-config`; the order of sources, the includes and the meaning of values are settled
//! here, because an include takes effect *at its line* (later lines of the including section win over it), which the
//! merged view of that crate does not promise. Each value keeps its place of origin for messages.
//!
//! Sources, the later winning over the earlier (git-config, "FILES" and "ENVIRONMENT"):
//!
//! 1. system: `GIT_CONFIG_SYSTEM` or `/etc/gitconfig`; none if `GIT_CONFIG_NOSYSTEM` is true;
//! 2. global: `GIT_CONFIG_GLOBAL`, or `$XDG_CONFIG_HOME/git/config` and then `~/.gitconfig`;
//! 3. local: `config` in the common directory;
//! 4. worktree: `config.worktree` in the git directory, if `extensions.worktreeConfig` is true;
//! 5. command: `GIT_CONFIG_COUNT`/`_KEY_n`/`_VALUE_n`, then `GIT_CONFIG_PARAMETERS`, then `-c` and `--config-env`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gix_config::parse::{EventRef, Events};

use crate::env::{Environment, Pair, bytes_to_path, os_bytes};
use crate::number::{self, NumberError};
use crate::quote::unquote;
use crate::report::{Failure, plain_io};

/// Deepest chain of includes that is followed, as in git.
const MAX_INCLUDE_DEPTH: usize = 10;

/// Where a value comes from, as far as trust is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// The machine's file.
    System,
    /// The user's files.
    Global,
    /// The repository's file.
    Local,
    /// The work tree's own file.
    Worktree,
    /// The environment and the command line.
    Command,
}

/// One setting, in the order of precedence.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// `section.name` or `section.subsection.name`; section and name in lower case, the subsection as written.
    pub(crate) key: Vec<u8>,
    /// `None` when only the name is given, which means "true".
    pub(crate) value: Option<Vec<u8>>,
    /// Kind of source.
    pub(crate) scope: Scope,
    /// The file as git would show it, and the line (from 1); `None` for the command line.
    pub(crate) place: Option<(PathBuf, u64)>,
}

/// What conditional includes (`includeIf`) are decided by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// The git directory, as found.
    pub(crate) git_dir: Option<PathBuf>,
    /// The root of the work tree.
    pub(crate) work_tree: Option<PathBuf>,
    /// The branch `HEAD` names, without `refs/heads/`.
    pub(crate) branch: Option<Vec<u8>>,
}

/// All settings of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    entries: Vec<Entry>,
}

impl Config {
    /// Reads every source. `common_dir` and `git_dir` name the repository's; without them only the user's are read.
    ///
    /// `worktree_config` says whether the repository's `extensions.worktreeConfig` is true.
    pub(crate) fn load(
        env: &Environment,
        common_dir: Option<&Path>,
        git_dir: Option<&Path>,
        worktree_config: bool,
        conditions: &Conditions,
    ) -> Result<Config, Failure> {
        let load = |urls| Self::load_once(env, common_dir, git_dir, worktree_config, conditions, urls);
        let first = load(None)?;
        // Includes that depend on a remote's URL can only be decided when all URLs are known; git, too, looks twice.
        let asks = |entry: &Entry| {
            entry.key.starts_with(b"includeif.hasconfig:remote.*.url:") && entry.key.ends_with(b".path")
        };
        if !first.entries.iter().any(asks) {
            return Ok(first);
        }
        let urls: Vec<Vec<u8>> = first
            .entries
            .iter()
            .filter(|entry| entry.key.starts_with(b"remote.") && entry.key.ends_with(b".url"))
            .filter_map(|entry| entry.value.clone())
            .collect();
        load(Some(&urls))
    }

    fn load_once(
        env: &Environment,
        common_dir: Option<&Path>,
        git_dir: Option<&Path>,
        worktree_config: bool,
        conditions: &Conditions,
        urls: Option<&[Vec<u8>]>,
    ) -> Result<Config, Failure> {
        let mut loader = Loader { env, conditions, urls, config: Config::default() };
        if !env.truth("GIT_CONFIG_NOSYSTEM", false)? {
            let file = env.path("GIT_CONFIG_SYSTEM").unwrap_or_else(|| PathBuf::from("/etc/gitconfig"));
            loader.file(&file, Scope::System)?;
        }
        if let Some(file) = env.path("GIT_CONFIG_GLOBAL") {
            loader.file(&file, Scope::Global)?;
        } else {
            let xdg = match env.get("XDG_CONFIG_HOME").filter(|value| !value.is_empty()) {
                Some(dir) => Some(PathBuf::from(dir)),
                None => env.home().map(|home| home.join(".config")),
            };
            if let Some(dir) = xdg {
                loader.file(&dir.join("git/config"), Scope::Global)?;
            }
            if let Some(home) = env.home() {
                loader.file(&home.join(".gitconfig"), Scope::Global)?;
            }
        }
        if let Some(dir) = common_dir {
            loader.file(&dir.join("config"), Scope::Local)?;
        }
        if let (Some(dir), true) = (git_dir, worktree_config) {
            loader.file(&dir.join("config.worktree"), Scope::Worktree)?;
        }
        loader.command_line()?;
        Ok(loader.config)
    }

    /// One file alone, its includes not followed: how a repository's format is read, before anything is known of it.
    pub(crate) fn one_file(env: &Environment, path: &Path) -> Result<Config, Failure> {
        let mut config = Config::default();
        if let Some(text) = read(env, path)? {
            parse(env, &text, path, Scope::Local, &mut |entry| {
                config.entries.push(entry);
                Ok(())
            })?;
        }
        Ok(config)
    }

    /// Every entry, the earliest (weakest) first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// All entries of `key` (in lower case but for a subsection), the weakest first.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.key == key.as_bytes())
    }

    /// The value that counts, if the key is set at all.
    pub(crate) fn last(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.key == key.as_bytes())
    }

    /// The value as text; a key without `= value` is an error.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&[u8]>, Failure> {
        match self.last(key) {
            None => Ok(None),
            Some(entry) => entry.text().map(Some),
        }
    }

    /// A truth value. Every occurrence is checked, as git does, not only the one that counts.
    pub(crate) fn truth(&self, key: &str) -> Result<Option<bool>, Failure> {
        self.each(key, Entry::truth)
    }

    /// A number that fits a 32-bit signed integer.
    pub(crate) fn int(&self, key: &str) -> Result<Option<i32>, Failure> {
        self.each(key, |entry| entry.number(|text| number::signed(text, i64::from(i32::MAX))).map(|value| value as i32))
    }

    /// An unsigned size.
    pub(crate) fn size(&self, key: &str) -> Result<Option<u64>, Failure> {
        self.each(key, |entry| entry.number(|text| number::unsigned(text, u64::MAX)))
    }

    fn each<T>(&self, key: &str, read: impl Fn(&Entry) -> Result<T, Failure>) -> Result<Option<T>, Failure> {
        let mut last = None;
        for entry in self.all(key) {
            last = Some(read(entry)?);
        }
        Ok(last)
    }
}

impl Entry {
    /// The key as text for messages.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }

    /// The value as text.
    pub(crate) fn text(&self) -> Result<&[u8], Failure> {
        self.value.as_deref().ok_or_else(|| self.no_value())
    }

    /// The value as a truth value.
    pub(crate) fn truth(&self) -> Result<bool, Failure> {
        let value = self.value.as_deref();
        number::boolean(value).ok_or_else(|| {
            let shown = String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
            Failure::Fatal(format!("bad boolean config value '{shown}' for '{}'", self.name()))
        })
    }

    /// The value as a number.
    pub(crate) fn number<T>(&self, read: impl FnOnce(&[u8]) -> Result<T, NumberError>) -> Result<T, Failure> {
        let value = self.value.as_deref().unwrap_or_default();
        read(value).map_err(|error| {
            let place = match &self.place {
                Some((file, _)) => format!(" in file {}", file.display()),
                None => String::new(),
            };
            Failure::Fatal(format!(
                "bad numeric config value '{}' for '{}'{place}: {}",
                String::from_utf8_lossy(value),
                self.name(),
                error.words()
            ))
        })
    }

    /// A key stands without a value where one is needed.
    fn no_value(&self) -> Failure {
        let name = self.name();
        let place = match &self.place {
            Some((file, line)) => format!("bad config variable '{name}' in file '{}' at line {line}", file.display()),
            None => format!("unable to parse '{name}' from command-line config"),
        };
        Failure::Fatal(format!("{place} (missing value for '{name}')"))
    }
}

/// Collects entries, following includes.
struct Loader<'a> {
    env: &'a Environment,
    conditions: &'a Conditions,
    urls: Option<&'a [Vec<u8>]>,
    config: Config,
}

impl Loader<'_> {
    /// A file named by the order of sources: that it is missing is normal.
    fn file(&mut self, path: &Path, scope: Scope) -> Result<(), Failure> {
        self.include(&self.env.resolve(path), scope, 0)
    }

    fn include(&mut self, path: &Path, scope: Scope, depth: usize) -> Result<(), Failure> {
        let Some(text) = read(self.env, path)? else { return Ok(()) };
        let env = self.env;
        parse(env, &text, path, scope, &mut |entry| self.push(entry, Some(path), depth))
    }

    /// Takes an entry, and what it includes right behind it.
    fn push(&mut self, entry: Entry, file: Option<&Path>, depth: usize) -> Result<(), Failure> {
        let included = match self.included_path(&entry, file)? {
            Some(path) => {
                if depth >= MAX_INCLUDE_DEPTH {
                    let from = file.map_or_else(|| "the command line".into(), |file| file.display().to_string());
                    return Err(Failure::Fatal(format!(
                        "exceeded maximum include depth ({MAX_INCLUDE_DEPTH}) while including\n\t{}\nfrom\n\t{from}\n\
                         This might be due to circular includes.",
                        path.display()
                    )));
                }
                Some((path, entry.scope))
            }
            None => None,
        };
        self.config.entries.push(entry);
        match included {
            Some((path, scope)) => self.include(&path, scope, depth + 1),
            None => Ok(()),
        }
    }

    /// The file that `entry` asks to include now, if it does and its condition holds.
    fn included_path(&self, entry: &Entry, file: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
        if entry.key != b"include.path" {
            let condition = entry.key.strip_prefix(b"includeif.").and_then(|rest| rest.strip_suffix(b".path"));
            match condition {
                Some(condition) if self.holds(condition, file)? => {}
                _ => return Ok(None),
            }
        }
        let text = entry.text()?;
        let Some(path) = self.expand(text) else {
            return Err(Failure::Fatal(format!("could not expand include path '{}'", String::from_utf8_lossy(text))));
        };
        if path.is_absolute() {
            return Ok(Some(path));
        }
        match file.and_then(Path::parent) {
            Some(dir) => Ok(Some(dir.join(path))),
            None => Err(Failure::fatal("relative config includes must come from files")),
        }
    }

    /// `~/` is the home directory; `~user/` we cannot know.
    fn expand(&self, text: &[u8]) -> Option<PathBuf> {
        match text.strip_prefix(b"~") {
            None => Some(bytes_to_path(text)),
            Some([]) => self.env.home(),
            Some([b'/', rest @ ..]) => Some(self.env.home()?.join(bytes_to_path(rest))),
            Some(_) => None,
        }
    }

    /// Whether the condition of an `includeIf` holds. Unknown conditions never do.
    fn holds(&self, condition: &[u8], file: Option<&Path>) -> Result<bool, Failure> {
        let strip = |word: &str| condition.strip_prefix(word.as_bytes());
        let git_dir = self.conditions.git_dir.as_deref();
        let work_tree = self.conditions.work_tree.as_deref();
        if let Some(pattern) = strip("gitdir:") {
            self.path_matches(git_dir, pattern, file, false)
        } else if let Some(pattern) = strip("gitdir/i:") {
            self.path_matches(git_dir, pattern, file, true)
        } else if let Some(pattern) = strip("worktree:") {
            self.path_matches(work_tree, pattern, file, false)
        } else if let Some(pattern) = strip("worktree/i:") {
            self.path_matches(work_tree, pattern, file, true)
        } else if let Some(pattern) = strip("onbranch:") {
            let Some(branch) = &self.conditions.branch else { return Ok(false) };
            Ok(glob(&with_stars(pattern.to_vec()), branch, false))
        } else if let Some(pattern) = strip("hasconfig:remote.*.url:") {
            Ok(self.urls.is_some_and(|urls| urls.iter().any(|url| glob(pattern, url, false))))
        } else {
            Ok(false)
        }
    }

    fn path_matches(
        &self,
        dir: Option<&Path>,
        pattern: &[u8],
        file: Option<&Path>,
        ignore_case: bool,
    ) -> Result<bool, Failure> {
        let Some(dir) = dir else { return Ok(false) };
        let mut pattern = match self.expand(pattern) {
            Some(path) => os_bytes(path.as_os_str()).into_owned(),
            None => pattern.to_vec(),
        };
        if pattern.starts_with(b"./") {
            let Some(parent) = file.and_then(|file| file.canonicalize().ok()?.parent().map(Path::to_owned)) else {
                return Err(Failure::fatal("relative config include conditionals must come from files"));
            };
            pattern.splice(..1, os_bytes(parent.as_os_str()).iter().copied());
        } else if !pattern.starts_with(b"/") {
            pattern.splice(..0, *b"**/");
        }
        let pattern = with_stars(pattern);
        let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let matches = |dir: &Path| glob(&pattern, &os_bytes(dir.as_os_str()), ignore_case);
        Ok(matches(&real) || matches(dir))
    }

    /// The settings of the environment and of the command line.
    fn command_line(&mut self) -> Result<(), Failure> {
        for (key, value) in self.env.counted_config()?.into_iter().chain(self.env.config_parameters()?) {
            let key = canonical_key(&key)?;
            self.push(Entry { key, value, scope: Scope::Command, place: None }, None, 0)?;
        }
        Ok(())
    }
}

/// A pattern that names a directory matches all below it.
fn with_stars(mut pattern: Vec<u8>) -> Vec<u8> {
    if pattern.ends_with(b"/") {
        pattern.extend_from_slice(b"**");
    }
    pattern
}

/// Shell-style matching in which `*` stops at slashes and `**` does not.
pub(crate) fn glob(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    use gix_glob::wildmatch::Mode;
    let mode = Mode::NO_MATCH_SLASH_LITERAL | if ignore_case { Mode::IGNORE_CASE } else { Mode::empty() };
    gix_glob::wildmatch(pattern.into(), text.into(), mode)
}

/// The text of a configuration file; `None` if there is none.
fn read(env: &Environment, path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => {
            Err(Failure::Fatal(format!("unable to access '{}': {}", env.shown(path).display(), plain_io(&error))))
        }
    }
}

/// Hands each setting of `text` to `take`, in file order.
fn parse(
    env: &Environment,
    text: &[u8],
    path: &Path,
    scope: Scope,
    take: &mut dyn FnMut(Entry) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let shown = env.shown(path);
    let events = Events::from_bytes(text, None).map_err(|error| {
        Failure::Fatal(format!("bad config line {} in file {}", error.line_number(), shown.display()))
    })?;
    let mut line: u64 = 1;
    let mut section = Vec::new();
    let mut name: Option<Vec<u8>> = None;
    let mut has_value = false;
    let mut value = Vec::new();
    for event in events.iter() {
        match event {
            EventRef::SectionHeader { name, separator, subsection_name } => {
                section = name.to_ascii_lowercase();
                if let Some(subsection) = subsection_name {
                    section.push(b'.');
                    // The old form `[section.subsection]` ignores case throughout.
                    if separator.is_some_and(|separator| separator == ".") {
                        section.extend(subsection.to_ascii_lowercase());
                    } else {
                        section.extend_from_slice(subsection);
                    }
                }
            }
            EventRef::SectionValueName(text) => {
                name = Some(text.to_ascii_lowercase());
                has_value = false;
                value.clear();
            }
            EventRef::KeyValueSeparator => has_value = true,
            EventRef::ValueNotDone(part) => value.extend_from_slice(part),
            EventRef::Value(part) | EventRef::ValueDone(part) => {
                value.extend_from_slice(part);
                if let Some(name) = name.take() {
                    let mut key = section.clone();
                    key.push(b'.');
                    key.extend_from_slice(&name);
                    let value = has_value.then(|| gix_config::value::normalize(&value[..]).to_vec());
                    take(Entry { key, value, scope, place: Some((shown.clone(), line)) })?;
                }
            }
            EventRef::Newline(text) => line += text.iter().filter(|&&byte| byte == b'\n').count() as u64,
            EventRef::Comment { .. } | EventRef::Whitespace(_) => {}
        }
    }
    Ok(())
}

/// A key as typed, made canonical: section and name in lower case and well formed.
fn canonical_key(key: &[u8]) -> Result<Vec<u8>, Failure> {
    let bad = |what: &str| {
        Failure::Fatal(format!("unable to parse command-line config ({what}: {})", String::from_utf8_lossy(key)))
    };
    let last_dot = match key.iter().rposition(|&byte| byte == b'.') {
        None | Some(0) => return Err(bad("key does not contain a section")),
        Some(at) => at,
    };
    let first_dot = key.iter().position(|&byte| byte == b'.').unwrap_or(last_dot);
    let (head, name) = (&key[..last_dot], &key[last_dot + 1..]);
    if name.is_empty() {
        return Err(bad("key does not contain variable name"));
    }
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let section = &head[..first_dot];
    if !section.iter().all(word) || !name.iter().all(word) || !name[0].is_ascii_alphabetic() {
        return Err(bad("invalid key"));
    }
    if head.contains(&b'\n') {
        return Err(bad("invalid key (newline)"));
    }
    let mut out = section.to_ascii_lowercase();
    out.extend_from_slice(&head[first_dot..]);
    out.push(b'.');
    out.extend(name.to_ascii_lowercase());
    Ok(out)
}

impl Environment {
    /// The pairs of `GIT_CONFIG_COUNT`, `GIT_CONFIG_KEY_<n>` and `GIT_CONFIG_VALUE_<n>`.
    fn counted_config(&self) -> Result<Vec<Pair>, Failure> {
        let Some(count) = self.get("GIT_CONFIG_COUNT").filter(|count| !count.is_empty()) else {
            return Ok(Vec::new());
        };
        let count: u32 = match count.to_str().map(|text| text.trim_start().parse::<u64>()) {
            Some(Ok(count)) => match u32::try_from(count) {
                Ok(count) if count <= i32::MAX as u32 => count,
                _ => return Err(Failure::fatal("too many entries in GIT_CONFIG_COUNT")),
            },
            _ => return Err(Failure::fatal("bogus count in GIT_CONFIG_COUNT")),
        };
        let mut pairs = Vec::new();
        for at in 0..count {
            let get = |what: &str, name: &str| {
                let name = format!("{name}{at}");
                self.get(&name)
                    .map(|value| os_bytes(value).into_owned())
                    .ok_or_else(|| Failure::Fatal(format!("missing config {what} {name}")))
            };
            let key = get("key", "GIT_CONFIG_KEY_")?;
            pairs.push((key, Some(get("value", "GIT_CONFIG_VALUE_")?)));
        }
        Ok(pairs)
    }

    /// The pairs of `GIT_CONFIG_PARAMETERS`, then those typed as `-c` and `--config-env`.
    fn config_parameters(&self) -> Result<Vec<Pair>, Failure> {
        let mut pairs = match self.get("GIT_CONFIG_PARAMETERS") {
            Some(text) => parameters(&os_bytes(text)).ok_or_else(|| {
                Failure::fatal("unable to parse command-line config (bogus format in GIT_CONFIG_PARAMETERS)")
            })?,
            None => Vec::new(),
        };
        pairs.extend(self.typed_config().iter().cloned());
        for (key, _) in &pairs {
            if key.is_empty() {
                return Err(Failure::fatal("unable to parse command-line config (bogus config parameter)"));
            }
        }
        Ok(pairs)
    }
}

/// Splits `name=value` at the first equals sign; a name alone means "true".
pub(crate) fn split_pair(text: &[u8]) -> Pair {
    match text.iter().position(|&byte| byte == b'=') {
        None => (text.trim_ascii().to_vec(), None),
        Some(at) => (text[..at].trim_ascii().to_vec(), Some(text[at + 1..].to_vec())),
    }
}

/// Reads the value of `GIT_CONFIG_PARAMETERS`: quoted words separated by blanks, either `'name=value'` as git wrote before
/// 2.31 or `'name'='value'` since. `None` if it is not well formed.
pub(crate) fn parameters(text: &[u8]) -> Option<Vec<Pair>> {
    let mut pairs = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(pairs);
        }
        let (word, after) = unquote(rest)?;
        match after {
            [] => {
                pairs.push(split_pair(&word));
                rest = after;
            }
            [blank, more @ ..] if blank.is_ascii_whitespace() => {
                pairs.push(split_pair(&word));
                rest = more;
            }
            [b'=', b'\'', ..] => {
                let (value, after) = unquote(&after[1..])?;
                if !matches!(after, [] | [b' ' | b'\t' | b'\n' | b'\r', ..]) {
                    return None;
                }
                pairs.push((word, Some(value)));
                rest = after;
            }
            [b'='] | [b'=', b' ' | b'\t' | b'\n' | b'\r', ..] => {
                pairs.push((word, None));
                rest = &after[1..];
            }
            _ => return None,
        }
    }
}

/// The name a `--config-env=<name>=<variable>` gives, and the variable's value.
pub(crate) fn config_env(spec: &OsStr, env: &Environment) -> Result<Pair, Failure> {
    let spec = os_bytes(spec);
    let shown = String::from_utf8_lossy(&spec);
    let Some(at) = spec.iter().rposition(|&byte| byte == b'=') else {
        return Err(Failure::Fatal(format!("invalid config format: {shown}")));
    };
    let (name, variable) = (&spec[..at], &spec[at + 1..]);
    if variable.is_empty() {
        return Err(Failure::Fatal(format!(
            "missing environment variable name for configuration '{}'",
            String::from_utf8_lossy(name)
        )));
    }
    match env.get_bytes(variable) {
        Some(value) => Ok((name.to_vec(), Some(value))),
        None => Err(Failure::Fatal(format!(
            "missing environment variable '{}' for configuration '{}'",
            String::from_utf8_lossy(variable),
            String::from_utf8_lossy(name)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<(String, Option<String>, u64)> {
        let env = Environment::empty(Path::new("/"));
        let mut out = Vec::new();
        parse(&env, text.as_bytes(), Path::new("/f"), Scope::Local, &mut |entry| {
            out.push((
                entry.name(),
                entry.value.map(|value| String::from_utf8_lossy(&value).into_owned()),
                entry.place.map_or(0, |place| place.1),
            ));
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn files() {
        let text =
            "[Core]\n\tBare = true # said\n  name\n[a \"Sub.B\"] X=\"q ; \\\"\" \n[a.SUB]\n\n\ty = one\\\n two\nz =\n";
        let got = entries(text);
        let want = [
            ("core.bare", Some("true"), 2),
            ("core.name", None, 3),
            ("a.Sub.B.x", Some("q ; \""), 4),
            ("a.sub.y", Some("one two"), 8),
            ("a.sub.z", Some(""), 9),
        ];
        let want: Vec<_> = want.iter().map(|&(k, v, l)| (k.to_owned(), v.map(str::to_owned), l)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn parameter_forms() {
        let pair = |key: &str, value: Option<&str>| (key.as_bytes().to_vec(), value.map(|v| v.as_bytes().to_vec()));
        assert_eq!(
            parameters(b"'a.b=c' 'd.e'='f g' 'h.i'= 'j.k' 'l.m'='it'\\''s'"),
            Some(vec![
                pair("a.b", Some("c")),
                pair("d.e", Some("f g")),
                pair("h.i", None),
                pair("j.k", None),
                pair("l.m", Some("it's"))
            ])
        );
        for bad in ["a.b=c", "'a'x", "'a'='b", "'a'='b'c", "'a'=b"] {
            assert_eq!(parameters(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn keys() {
        assert_eq!(canonical_key(b"Pack.Window").unwrap(), b"pack.window");
        assert_eq!(canonical_key(b"A.B.c.D").unwrap(), b"a.B.c.d");
        for bad in ["pack", ".x", "pack.", "pa ck.x", "pack.1x", "a.b\nc.d"] {
            assert!(canonical_key(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
