//! `bench WHAT`: claims about speed, as programs.

use crate::args::Args;
use crate::sh::{Sh, cargo, root};
use crate::{Result, fail, index, odb, receive, serve};

pub(crate) fn run(sh: Sh, mut args: Args) -> Result<()> {
    match args.positional().as_deref().and_then(|name| name.to_str()) {
        Some("serve") => serve::run(sh, args),
        Some("index") => index::run(sh, args),
        Some("odb") => odb::run(sh, args),
        Some("receive") => receive::run(sh, args),
        Some("hashfile") => hashfile(sh, args),
        Some(name) => fail(format!("no benchmark '{name}'; there are: serve, index, odb, receive, hashfile")),
        None => fail("which benchmark? serve, index, odb, receive or hashfile".to_owned()),
    }
}

/// The sweep over buffer sizes that justifies the default of `hashfile`. It needs that library, which xtask must not
/// depend on, so it is an example there.
fn hashfile(sh: Sh, mut args: Args) -> Result<()> {
    let mut command = cargo(&root());
    command.args(["run", "--release", "--quiet", "--package", "packstone-hashfile", "--example", "sweep", "--"]);
    for flag in ["--quick", "--tsv"] {
        if args.flag(flag) {
            command.arg(flag);
        }
    }
    if let Some(folder) = args.value("--dir")? {
        command.arg("--dir").arg(folder);
    }
    args.finish()?;
    sh.run(&mut command)
}
