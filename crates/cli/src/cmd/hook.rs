//! `packstone hook`: the form that `uploadpack.packObjectsHook` calls.
//!
//! git runs the configured words with its own command behind them: `packstone hook git [<options>] pack-objects ...`
//! (git-config, "uploadpack.packObjectsHook"). The setting is honoured only from the system's, the user's and the command
//! line's configuration, never from the repository's own.

use std::ffi::OsString;

use crate::args::{self, Command};
use crate::cmd;
use crate::env::Environment;
use crate::report::Failure;

const PAGE: &str = "\
usage: packstone hook git [<git's options>] pack-objects [<options>]

Answers in git's place when a server packs objects for a client. Set

    git config --global uploadpack.packObjectsHook 'packstone hook'

and every clone and fetch that git serves from this machine (for this user) is packed by packstone. git
passes its own command line behind the word `hook`; `packstone pack-objects` does what it says.
";

/// The help page.
pub(crate) fn page() -> String {
    PAGE.to_owned()
}

/// Runs the command that git would have run.
pub(crate) fn run(mut env: Environment, words: &[OsString]) -> Result<(), Failure> {
    let wrong = |what: String| Failure::Usage(format!("error: {what}\n{PAGE}"));
    let Some((program, words)) = words.split_first() else {
        return Err(wrong("the command that git would run is missing".to_owned()));
    };
    if program == "-h" {
        return Err(Failure::Help(PAGE.to_owned()));
    }
    let git = std::path::Path::new(program).file_stem();
    if git.is_none_or(|name| name != "git") {
        return Err(wrong(format!("expected git's own command line, found '{}'", program.to_string_lossy())));
    }
    match args::split(words, &mut env)? {
        Command::Run(name, words) if name == "pack-objects" => cmd::pack_objects::run(env, &words),
        Command::Run(name, _) => Err(wrong(format!("'{}' is not what this hook is for", name.to_string_lossy()))),
        _ => Err(wrong("the command that git would run is missing".to_owned())),
    }
}
