//! `cargo xtask`: every developer task of the workspace.
//!
//! One flat `match`, a file a command. Each command echoes what it runs; `--dry-run` only echoes.

#![forbid(unsafe_code)]

use std::process::ExitCode;

mod args;
mod bench;
mod ci;
mod demo;
mod gen_repo;
mod git;
mod index;
mod json;
mod measure;
mod odb;
mod pairs;
mod receive;
mod rng;
mod serve;
mod sh;
mod table;
mod tidy;

use args::Args;
use sh::Sh;

const USAGE: &str = "\
cargo xtask COMMAND [--dry-run] [OPTIONS]

  demo           Build the program, serve clones and fetches through git's hook, check and measure them beside git
                   --repo DIR   serve a copy of this repository (it is only read) instead of a generated one
                   --runs N (5)  --keep  --program PROGRAM   and the options of gen-repo
  ci             Everything continuous integration runs: format, tidy, lints, docs, demo, tests
                   --quick   leave out documentation and demo
  tidy           Ranks, manifests, licences, front pages, unfinished work, dead links
  bench serve    pack-objects beside git's, row by row, every answer checked
                   --repo DIR   a copy of this repository (it is only read) instead of a generated one
                   --runs N (5)  --threads N (2)  --only TEXT  --json FILE  --cache DIR
                   --git PROGRAM   --program PROGRAM   and the options of gen-repo
  bench index    The index library beside git and gix-index: read, view, write; every answer checked
                   --entries LIST (1,10k,1M,3M)  --quick (1 and 10k)  --only TEXT
                   --runs N (5, and 4 N for less than 100k)  --json FILE  --cache DIR
                   --git PROGRAM  --no-gix   --program PROGRAM  --gix PROGRAM (built otherwise)
  bench odb      cat-file, hash-object and multi-pack-index beside git's, row by row, every answer compared
                   --repo DIR   a copy of this repository (it is only read) instead of a generated one
                   --runs N (5)  --only TEXT  --json FILE  --cache DIR  --blob BYTES (2147483648)
                   --git PROGRAM   --program PROGRAM   and the options of gen-repo
  bench receive  index-pack, verify-pack and unpack-objects beside git's, row by row, what they leave compared
                   --repo DIR   a copy of this repository (it is only read) instead of a generated one
                   --runs N (5)  --only TEXT  --json FILE  --cache DIR
                   --git PROGRAM   --program PROGRAM   and the options of gen-repo
  bench hashfile The sweep over buffer sizes behind hashfile's default
                   --quick  --tsv  --dir DIR (where its files are written)
  gen-repo DIR   Generate a repository: the same options give the same object ids on every machine
                   --commits N (10000)  --files N (1500)  --seed N (1)  --hash sha1|sha256
                   --big-blobs N (6)  --big-size BYTES (2097152)
                   --repack   pack it with a bitmap      --stream   print the fast-import stream instead
";

fn main() -> ExitCode {
    let mut args = Args::new(std::env::args_os().skip(1));
    let sh = Sh { dry_run: args.flag("--dry-run") };
    let command = args.positional();
    let done = match command.as_deref().and_then(|name| name.to_str()) {
        Some("bench") => bench::run(sh, args),
        Some("ci") => ci::run(sh, args),
        Some("demo") => demo::run(sh, args),
        Some("gen-repo") => gen_repo::run(sh, args),
        Some("tidy") => tidy::run(sh, args),
        Some("run-measured") => measure::run_measured(args),
        Some("hook-measured") => match measure::hook_measured(args) {
            Ok(code) => return ExitCode::from(u8::try_from(code).unwrap_or(128)),
            Err(failure) => Err(failure),
        },
        None | Some("help") => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(name) => fail(format!("no command '{name}'; see cargo xtask help")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Why a task ended: text for the person who ran it.
#[derive(Debug)]
pub(crate) struct Failure(String);

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// What a program said, without our line that names the command.
    pub(crate) fn without_first_line(self) -> String {
        self.0.split_once('\n').map_or(String::new(), |(_, said)| said.to_owned())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure(message)
    }
}

pub(crate) fn fail<T>(message: String) -> Result<T> {
    Err(Failure(message))
}

/// Says what was being done when something failed.
pub(crate) trait Context<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure(format!("{}: {error}", doing())))
    }
}
