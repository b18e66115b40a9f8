//! The environment as a value: variables and current directory, taken from the process once.
//!
//! git's global options are a second way to set variables (`--git-dir` is `GIT_DIR`), so they are applied here, and
//! everything behind reads one source. Nothing changes the process's own environment or directory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::number;
use crate::report::{Failure, plain_io};

/// A configuration key with its value, not yet checked.
pub(crate) type Pair = (Vec<u8>, Option<Vec<u8>>);

/// Variables, current directory, and the configuration typed as `-c`.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    variables: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    typed_config: Vec<Pair>,
}

impl Environment {
    /// What the process was started with.
    pub(crate) fn from_process() -> Result<Self, Failure> {
        let cwd = std::env::current_dir().map_err(|error| {
            Failure::Fatal(format!("Unable to read current working directory: {}", plain_io(&error)))
        })?;
        Ok(Environment { variables: std::env::vars_os().collect(), cwd, typed_config: Vec::new() })
    }

    /// No variables at all.
    #[cfg(test)]
    pub(crate) fn empty(cwd: &Path) -> Self {
        Environment { variables: BTreeMap::new(), cwd: cwd.to_owned(), typed_config: Vec::new() }
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The value of a variable whose name was typed by the user.
    pub(crate) fn get_bytes(&self, name: &[u8]) -> Option<Vec<u8>> {
        let name = bytes_to_path(name);
        self.variables.get(name.as_os_str()).map(|value| os_bytes(value).into_owned())
    }

    /// Sets a variable for what follows.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Sets a variable unless it is set already.
    pub(crate) fn set_if_unset(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.entry(name.into()).or_insert_with(|| value.into());
    }

    /// Takes a variable away for what follows.
    pub(crate) fn unset(&mut self, name: &str) {
        self.variables.remove(OsStr::new(name));
    }

    /// A variable as an absolute path, if set and not empty.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).filter(|value| !value.is_empty()).map(|value| self.resolve(Path::new(value)))
    }

    /// A variable as a truth value.
    pub(crate) fn truth(&self, name: &str, default: bool) -> Result<bool, Failure> {
        let Some(value) = self.get(name) else { return Ok(default) };
        number::boolean(Some(&os_bytes(value))).ok_or_else(|| {
            Failure::Fatal(format!("bad boolean environment value '{}' for '{name}'", value.to_string_lossy()))
        })
    }

    /// The user's home directory.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
    }

    /// The current directory, absolute.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Goes to `dir`, as `-C` does; an empty name means "stay".
    pub(crate) fn change_dir(&mut self, dir: &OsStr) -> Result<(), Failure> {
        if dir.is_empty() {
            return Ok(());
        }
        let cannot = |error: &std::io::Error| {
            Failure::Fatal(format!("cannot change to '{}': {}", dir.to_string_lossy(), plain_io(error)))
        };
        let path = self.resolve(Path::new(dir)).canonicalize().map_err(|error| cannot(&error))?;
        if !path.is_dir() {
            return Err(cannot(&std::io::Error::from(std::io::ErrorKind::NotADirectory)));
        }
        self.cwd = path;
        Ok(())
    }

    /// Goes to a directory that is known to exist.
    pub(crate) fn enter(&mut self, dir: &Path) {
        self.cwd = dir.to_owned();
    }

    /// `path`, absolute.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        if path.is_absolute() { path.to_owned() } else { self.cwd.join(path) }
    }

    /// `path` as a message shows it: relative to the current directory where it lies below.
    pub(crate) fn shown(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.cwd) {
            Ok(below) if !below.as_os_str().is_empty() => below.to_owned(),
            _ => path.to_owned(),
        }
    }

    /// Adds a setting typed as `-c` or `--config-env`.
    pub(crate) fn push_config(&mut self, pair: Pair) {
        self.typed_config.push(pair);
    }

    /// The settings typed so far.
    pub(crate) fn typed_config(&self) -> &[Pair] {
        &self.typed_config
    }
}

/// The bytes of an operating-system string. On Unix these are its bytes; elsewhere its UTF-8, lossy.
pub(crate) fn os_bytes(text: &OsStr) -> Cow<'_, [u8]> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Cow::Borrowed(text.as_bytes())
    }
    #[cfg(not(unix))]
    {
        match text.to_string_lossy() {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }
}

/// The path that bytes from a file or a variable name.
pub(crate) fn bytes_to_path(bytes: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        PathBuf::from(OsStr::from_bytes(bytes))
    }
    #[cfg(not(unix))]
    {
        PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// `path` without `.` and `..` steps, by text alone. For comparing and showing, not for opening.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}
