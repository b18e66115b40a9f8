//! What was typed in front of the command: git's global options.
//!
//! Options that mean nothing to storage (paging, hints) are accepted, as scripts pass them along.

use std::ffi::{OsStr, OsString};

use crate::config;
use crate::env::{Environment, bytes_to_path, os_bytes};
use crate::report::Failure;

/// Shown with a wrong global option, and by `packstone --help`.
pub(crate) const USAGE: &str = "\
usage: packstone [-v | --version] [-h | --help] [-C <path>] [-c <name>=<value>]
                 [--config-env=<name>=<envvar>] [--git-dir=<path>] [--work-tree=<path>]
                 [--namespace=<name>] [--bare] [--shallow-file <path>]
                 [--no-replace-objects] <command> [<args>]
";

/// Options with a value that only the variable of the same meaning records.
const VARIABLES: &[(&str, &str)] = &[
    ("--git-dir", "GIT_DIR"),
    ("--work-tree", "GIT_WORK_TREE"),
    ("--namespace", "GIT_NAMESPACE"),
    ("--attr-source", "GIT_ATTR_SOURCE"),
];

/// Options that are a variable set to a value.
const SWITCHES: &[(&str, &str, &str)] = &[
    ("--no-replace-objects", "GIT_NO_REPLACE_OBJECTS", "1"),
    ("--literal-pathspecs", "GIT_LITERAL_PATHSPECS", "1"),
    ("--no-literal-pathspecs", "GIT_LITERAL_PATHSPECS", "0"),
    ("--glob-pathspecs", "GIT_GLOB_PATHSPECS", "1"),
    ("--noglob-pathspecs", "GIT_NOGLOB_PATHSPECS", "1"),
    ("--icase-pathspecs", "GIT_ICASE_PATHSPECS", "1"),
];

/// Options without effect here.
const IGNORED: &[&str] =
    &["-p", "--paginate", "-P", "--no-pager", "--no-lazy-fetch", "--no-optional-locks", "--no-advice"];

/// What stands behind the global options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// A command's name and its own words.
    Run(OsString, Vec<OsString>),
    /// `--version`.
    Version,
    /// `--help`, perhaps of a command.
    Help(Option<OsString>),
    /// Nothing.
    None,
}

/// Applies the global options at the start of `words` to `env`, and gives the command behind them.
pub(crate) fn split(words: &[OsString], env: &mut Environment) -> Result<Command, Failure> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = os_bytes(word);
        if !text.starts_with(b"-") {
            return Ok(Command::Run(word.clone(), rest.cloned().collect()));
        }
        let text = &text[..];
        match text {
            b"-v" | b"--version" => return Ok(Command::Version),
            b"-h" | b"--help" => return Ok(Command::Help(rest.next().cloned())),
            b"-C" => {
                let dir = rest.next().ok_or_else(|| usage("no directory given for '-C' option"))?;
                env.change_dir(dir)?;
            }
            b"-c" => {
                let pair = rest.next().ok_or_else(|| usage("-c expects a configuration string"))?;
                env.push_config(config::split_pair(&os_bytes(pair)));
            }
            b"--config-env" => {
                let spec = rest.next().ok_or_else(|| usage("no config key given for --config-env"))?;
                let pair = config::config_env(spec, env)?;
                env.push_config(pair);
            }
            b"--shallow-file" => {
                let file = rest.next().ok_or_else(|| usage("no file given for '--shallow-file' option"))?;
                env.set("GIT_SHALLOW_FILE", file);
            }
            b"--bare" => {
                let here = env.cwd().to_owned();
                env.set_if_unset("GIT_DIR", here);
                env.set("GIT_IMPLICIT_WORK_TREE", "0");
            }
            _ => {
                if let Some((_, name, value)) = SWITCHES.iter().find(|(option, ..)| option.as_bytes() == text) {
                    env.set(name, *value);
                    continue;
                }
                if IGNORED.iter().any(|option| option.as_bytes() == text) || text.starts_with(b"--exec-path=") {
                    continue;
                }
                if let Some(spec) = text.strip_prefix(b"--config-env=") {
                    let pair = config::config_env(bytes_to_path(spec).as_os_str(), env)?;
                    env.push_config(pair);
                    continue;
                }
                let Some((variable, value)) = variable(text, &mut rest)? else {
                    return Err(usage(&format!("unknown option: {}", String::from_utf8_lossy(text))));
                };
                env.set(variable, value);
            }
        }
    }
    Ok(Command::None)
}

/// Reads `--name value` and `--name=value` for the options that stand for a variable.
fn variable(
    text: &[u8],
    rest: &mut std::slice::Iter<'_, OsString>,
) -> Result<Option<(&'static str, OsString)>, Failure> {
    for &(option, name) in VARIABLES {
        match text.strip_prefix(option.as_bytes()) {
            Some([]) => {
                let what = if option == "--namespace" { "namespace" } else { "directory" };
                let value = rest.next().ok_or_else(|| usage(&format!("no {what} given for '{option}' option")))?;
                return Ok(Some((name, value.clone())));
            }
            Some([b'=', value @ ..]) => return Ok(Some((name, bytes_to_path(value).into_os_string()))),
            _ => {}
        }
    }
    Ok(None)
}

fn usage(what: &str) -> Failure {
    Failure::Usage(format!("{what}\n{USAGE}"))
}

/// Whether a command's words ask for its help page.
pub(crate) fn asks_help(words: &[OsString]) -> bool {
    words.len() == 1 && words.first().is_some_and(|word| word == OsStr::new("--help"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn split_text(text: &str, env: &mut Environment) -> Result<Command, Failure> {
        let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
        split(&words, env)
    }

    #[test]
    fn options_become_variables() {
        let mut env = Environment::empty(Path::new("/"));
        env.set("SECRET", "7");
        let command = split_text(
            "--git-dir=a -c x.y=z --namespace n -p --config-env=x.w=SECRET -C /tmp --shallow-file  pack-objects -q",
            &mut env,
        )
        .unwrap();
        assert_eq!(command, Command::Run("pack-objects".into(), vec!["-q".into()]));
        assert_eq!(env.get("GIT_DIR"), Some(OsStr::new("a")));
        assert_eq!(env.get("GIT_NAMESPACE"), Some(OsStr::new("n")));
        assert_eq!(env.get("GIT_SHALLOW_FILE"), Some(OsStr::new("")));
        assert_eq!(
            env.typed_config(),
            [(b"x.y".to_vec(), Some(b"z".to_vec())), (b"x.w".to_vec(), Some(b"7".to_vec()))]
        );
    }

    #[test]
    fn bare_keeps_an_explicit_directory() {
        let mut env = Environment::empty(Path::new("/repo.git"));
        split_text("--bare x", &mut env).unwrap();
        assert_eq!(env.get("GIT_DIR"), Some(OsStr::new("/repo.git")));
        split_text("--git-dir=/other --bare x", &mut env).unwrap();
        assert_eq!(env.get("GIT_DIR"), Some(OsStr::new("/other")));
    }

    #[test]
    fn wrong_ones() {
        for text in ["--nonsense x", "-c", "-C", "--git-dir", "--config-env"] {
            let mut env = Environment::empty(Path::new("/"));
            assert!(matches!(split_text(text, &mut env), Err(Failure::Usage(_))), "{text}");
        }
        let mut env = Environment::empty(Path::new("/"));
        assert!(matches!(split_text("-C /does-not-exist x", &mut env), Err(Failure::Fatal(_))));
        assert!(matches!(split_text("--config-env=a.b=NONE x", &mut env), Err(Failure::Fatal(_))));
    }
}
