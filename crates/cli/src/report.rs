//! How the program fails: errors turned into text and exit codes as git's.
//!
//! | exit | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the answer is "no", or nothing to do was named |
//! | 128 | `fatal: ...` on standard error |
//! | 129 | the command line itself is wrong |
//! | 141 | the reader of our output went away (what a shell reports for a death by `SIGPIPE`) |

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command ends before its work is done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Cannot go on: `fatal: <text>`, exit 128.
    Fatal(String),
    /// The command line is wrong: the text as it stands, exit 129.
    Usage(String),
    /// Help was asked for by `-h`: the text on standard output, exit 129 (as git's commands do).
    Help(String),
    /// Everything has been said already.
    Exit(u8),
    /// Nobody reads our output any more. Said to nobody.
    ClosedPipe,
}

impl Failure {
    /// A `fatal: ` failure from any text.
    pub(crate) fn fatal(text: impl fmt::Display) -> Self {
        Failure::Fatal(text.to_string())
    }

    /// From an I/O error on our own output: a closed pipe is not worth a message.
    pub(crate) fn output(what: &str, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::ClosedPipe
        } else {
            Failure::Fatal(format!("{what}: {}", plain_io(&error)))
        }
    }

    /// Says it, and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Failure::Fatal(text) => {
                say(&format!("fatal: {text}\n"));
                ExitCode::from(128)
            }
            Failure::Usage(text) => {
                say(&text);
                ExitCode::from(129)
            }
            Failure::Help(text) => {
                // A reader that closed early (`| head`) is no failure of ours.
                let _ = io::stdout().lock().write_all(text.as_bytes());
                ExitCode::from(129)
            }
            Failure::Exit(code) => ExitCode::from(code),
            Failure::ClosedPipe => ExitCode::from(141),
        }
    }
}

/// Joins an error with its sources, so that the file and the reason below both show.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let below = source.to_string();
        // Some errors already quote their source.
        if !text.contains(&below) {
            text.push_str(": ");
            text.push_str(&below);
        }
        next = source.source();
    }
    text
}

/// The operating system's words alone, without Rust's "(os error N)", as git prints them.
pub(crate) fn plain_io(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// `warning: <text>` on standard error.
pub(crate) fn warning(text: impl fmt::Display) {
    say(&format!("warning: {text}\n"));
}

/// Writes to standard error in one call; that it cannot be written has no remedy.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
