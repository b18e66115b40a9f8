//! `packstone`: git's storage plumbing as one program.
//!
//! A thin layer: [`args`] reads what stands in front of the command, [`setup`] finds the repository and opens it, a page
//! of [`cmd`] turns a command's own words into a request to a library crate, and [`report`] says how it went.
//!
//! * [`env`](mod@env), [`config`], [`number`], [`quote`] are variables and settings, and how git writes them.
//! * [`options`] is a table of options, read the way git's commands read theirs.
//! * [`refs`], [`revs`], [`index_ids`] lead from names to object ids, [`abbreviate`] back to short names, [`replace`]
//!   says which objects stand in for others.
//! * [`pathspec`] tells which paths operands mean.
//! * [`index`](mod@index), [`objects`], [`worktree`], [`present`] and [`attributes`] are what commands work on that have
//!   to do with the index.
//! * [`progress`] shows meters, [`stdio`] is what much is read from and written to.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use crate::args::Command;
use crate::env::Environment;
use crate::report::Failure;

mod abbreviate;
mod args;
mod attributes;
mod cmd;
mod config;
mod env;
mod index;
mod index_ids;
mod number;
mod objects;
mod options;
mod ownership;
mod pathspec;
mod present;
mod progress;
mod quote;
mod refs;
mod replace;
mod report;
mod revs;
mod setup;
mod stdio;
mod worktree;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(words: &[OsString]) -> Result<(), Failure> {
    let mut env = Environment::from_process()?;
    match args::split(words, &mut env)? {
        Command::Version => print(&format!("packstone version {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Help(None) => print(&help()),
        Command::Help(Some(name)) => print(&(command(&name)?.page)()),
        Command::None => {
            print(&help())?;
            Err(Failure::Exit(1))
        }
        Command::Run(name, _) if name == "version" => run(&["--version".into()]),
        Command::Run(name, rest) if name == "help" => {
            run(&[&["--help".into()][..], &rest[..rest.len().min(1)]].concat())
        }
        Command::Run(name, rest) => {
            let command = command(&name)?;
            if args::asks_help(&rest) {
                return print(&(command.page)());
            }
            (command.run)(env, &rest)
        }
    }
}

fn command(name: &OsString) -> Result<&'static cmd::Entry, Failure> {
    cmd::find(name).ok_or_else(|| {
        report::say(&format!(
            "packstone: '{}' is not a packstone command. See 'packstone --help'.\n",
            name.to_string_lossy()
        ));
        Failure::Exit(1)
    })
}

fn help() -> String {
    let mut text = String::from(args::USAGE);
    text.push_str("\nDrop-in replacements for git's storage plumbing:\n\n");
    for command in cmd::ALL {
        let _ = writeln!(text, "   {:15}{}", command.name, command.about);
    }
    text.push_str("\n'packstone <command> --help' describes a command, 'packstone <command> -h' lists its options.\n");
    text
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output("write error", error))
}
