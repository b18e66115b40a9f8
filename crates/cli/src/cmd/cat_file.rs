//! `packstone cat-file`: git-cat-file.

use std::ffi::OsString;

use self::typed::{Asked, TABLE, Typed};
use crate::env::Environment;
use crate::report::Failure;
use crate::setup::Repository;

mod answer;
mod batch;
mod crew;
mod format;
mod input;
mod one;
mod output;
mod typed;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Shows an object, or says whether it is there (-e), of which type (-t) or size (-s) it is.

With --batch, standard input names an object per line; for each, a line as the format says is printed, the content, and
a newline. --batch-check leaves out the content. --batch-command reads lines `info <object>`, `contents <object>` and,
with --buffer, `flush`. In a format, %(objectname) %(objecttype) %(objectsize) %(objectsize:disk) %(objectmode)
%(deltabase) and %(rest) (what follows the first white space of the line) stand for what is known about the object.

What cannot be shown is said in place of it: `<name> missing`, `<name> ambiguous`, `<name> excluded` (by --filter=blob:none,
blob:limit=<n> or object:type=<type>), `<id> submodule`; with --follow-symlinks also `symlink`, `dangling`, `loop` and
`notdir`, each with a length and on a second line the path or the name.

Answers leave before more input is waited for, unless --buffer is given.

Configuration: core.useReplaceRefs, core.quotePath, core.deltaBaseCacheLimit, pack.readReverseIndex.

Exit code: 0 done; 1 with -e, if the object is not there; 128 with `fatal: ...`; 129 for a wrong command line, or an
option that is not supported.
";

/// The help page.
pub(crate) fn page() -> String {
    TABLE.page(ABOUT)
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    TABLE.help_if_asked(words)?;
    let repo = Repository::find(env)?;
    let mut typed = Typed::default();
    let operands = TABLE.parse(words, &mut typed)?;
    match typed.settle(operands)? {
        Asked::One { mode, name } => one::answer(&repo, mode, &name),
        Asked::AsKind { kind, name } => one::show_as(&repo, &kind, &name),
        Asked::Batch(batch) => batch::run(&repo, &batch),
    }
}
