//! The command line, taken apart by hand: a parser crate would be most of xtask's build time.

use std::ffi::OsString;
use std::str::FromStr;

use crate::{Result, fail};

/// Arguments not yet consumed. Commands take what they know and then call [`Args::finish`].
pub(crate) struct Args {
    rest: Vec<OsString>,
    /// What stood behind the first `--`: another program's command line, not ours to read.
    foreign: Vec<OsString>,
}

impl Args {
    pub(crate) fn new(rest: impl IntoIterator<Item = OsString>) -> Args {
        let mut rest: Vec<OsString> = rest.into_iter().collect();
        let mut foreign = Vec::new();
        if let Some(at) = rest.iter().position(|arg| arg == "--") {
            foreign = rest.split_off(at + 1);
            rest.pop();
        }
        Args { rest, foreign }
    }

    /// Takes `name` out, and tells whether it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.rest.len();
        self.rest.retain(|arg| arg != name);
        self.rest.len() < before
    }

    /// Takes `name VALUE` or `name=VALUE` out; the last one wins.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<OsString>> {
        let mut found = None;
        let mut at = 0;
        while let Some(arg) = self.rest.get(at) {
            if arg == name {
                if at + 1 >= self.rest.len() {
                    return fail(format!("{name} needs a value"));
                }
                self.rest.remove(at);
                found = Some(self.rest.remove(at));
            } else if let Some(value) = joined(arg, name) {
                self.rest.remove(at);
                found = Some(value);
            } else {
                at += 1;
            }
        }
        Ok(found)
    }

    /// [`value`](Args::value), parsed.
    pub(crate) fn parsed<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(value) = self.value(name)? else {
            return Ok(None);
        };
        match value.to_str().and_then(|text| text.parse().ok()) {
            Some(parsed) => Ok(Some(parsed)),
            None => fail(format!("{name}: cannot understand '{}'", value.to_string_lossy())),
        }
    }

    /// The first argument that is not an option.
    pub(crate) fn positional(&mut self) -> Option<OsString> {
        let at = self.rest.iter().position(|arg| !arg.as_encoded_bytes().starts_with(b"-"))?;
        Some(self.rest.remove(at))
    }

    /// What stood behind `--`, for a command that runs another program.
    pub(crate) fn foreign(&mut self) -> Vec<OsString> {
        std::mem::take(&mut self.foreign)
    }

    /// Refuses whatever nobody took.
    pub(crate) fn finish(self) -> Result<()> {
        match self.rest.first().or(self.foreign.first()) {
            None => Ok(()),
            Some(arg) => fail(format!("unknown argument '{}'; see cargo xtask help", arg.to_string_lossy())),
        }
    }
}

fn joined(arg: &OsString, name: &str) -> Option<OsString> {
    let value = arg.to_str()?.strip_prefix(name)?.strip_prefix('=')?;
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &str) -> Args {
        Args::new(words.split_whitespace().map(OsString::from))
    }

    #[test]
    fn takes_flags_values_and_positionals_in_any_order() {
        let mut args = args("--seed=7 dir --dry-run --commits 10");
        assert_eq!(args.parsed::<u64>("--commits").unwrap(), Some(10));
        assert!(args.flag("--dry-run"));
        assert!(!args.flag("--dry-run"));
        assert_eq!(args.parsed::<u64>("--seed").unwrap(), Some(7));
        assert_eq!(args.positional(), Some("dir".into()));
        args.finish().unwrap();
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert!(args("--nonsense").finish().is_err());
        assert!(args("--seed").value("--seed").is_err());
        assert!(args("--seed x").parsed::<u64>("--seed").is_err());
    }

    #[test]
    fn another_programs_options_are_left_alone() {
        let mut args = args("--stdin x -- git --stdin y -- z");
        assert!(!args.flag("git"));
        assert_eq!(args.value("--stdin").unwrap(), Some("x".into()));
        assert_eq!(args.foreign(), ["git", "--stdin", "y", "--", "z"]);
        args.finish().unwrap();
    }
}
