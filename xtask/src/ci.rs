//! `ci`: everything that continuous integration runs, in one command that needs only Rust and git.
//!
//! The tests come last, so that their summary is what one sees at the end.

use std::process::Command;
use std::time::Instant;

use crate::args::Args;
use crate::demo;
use crate::gen_repo::Spec;
use crate::git::{Hash, files_in};
use crate::sh::{Sh, cargo, quiet_read, root};
use crate::{Result, fail, tidy};

pub(crate) fn run(sh: Sh, mut args: Args) -> Result<()> {
    let quick = args.flag("--quick");
    args.finish()?;
    let root = root();
    let cargo = || cargo(&root);
    needs(cargo().args(["fmt", "--version"]), "rustfmt (rustup component add rustfmt)")?;
    needs(cargo().args(["clippy", "--version"]), "clippy (rustup component add clippy)")?;
    needs(Command::new("git").arg("--version"), "git")?;

    let started = Instant::now();
    let step = |name: &str| println!("\n=== {name} ({} s) ===", started.elapsed().as_secs());

    step("format");
    sh.run(cargo().args(["fmt", "--all", "--check"]))?;
    // The fuzz targets are workspaces of their own: building them takes a nightly compiler, formatting does not.
    for folder in files_in(&root.join("crates"))? {
        let manifest = folder.join("fuzz/Cargo.toml");
        if manifest.exists() {
            let manifest = manifest.strip_prefix(&root).unwrap_or(&manifest);
            sh.run(cargo().args(["fmt", "--check", "--manifest-path"]).arg(manifest))?;
        }
    }

    step("tidy");
    tidy::run(sh, Args::new([]))?;

    step("lints");
    // In the workspace the program switches pack-format's fast backend on; the second call sees it without.
    let deny = ["--", "--deny", "warnings"];
    sh.run(cargo().args(["clippy", "--workspace", "--all-targets"]).args(deny))?;
    sh.run(cargo().args(["clippy", "--package", "packstone-pack-format", "--all-targets"]).args(deny))?;

    if !quick {
        step("documentation");
        let mut doc = cargo();
        doc.args(["doc", "--workspace", "--no-deps"]);
        sh.run(doc.env("RUSTDOCFLAGS", "--deny warnings"))?;

        step("demo on a small generated repository");
        let program = demo::build_program(sh)?;
        for hash in [Hash::Sha1, Hash::Sha256] {
            let spec = Spec { commits: 400, files: 80, hash, big_size: 100_000, ..Spec::default() };
            demo::demo(sh, &program, &demo::Source::Generated(spec), 1, false)?;
        }
    }

    step("tests");
    sh.run(cargo().args(["test", "--package", "packstone-pack-format"]))?;
    // Unit, integration, documentation and xtask's own tests; the bodies of the fuzz targets run over their regressions.
    sh.run(cargo().args(["test", "--workspace"]))?;
    if !sh.dry_run {
        println!("\nci: all passed in {} s", started.elapsed().as_secs());
    }
    Ok(())
}

fn needs(command: &mut Command, what: &str) -> Result<()> {
    match quiet_read(command) {
        Ok(_) => Ok(()),
        Err(_) => fail(format!("this needs {what}")),
    }
}
