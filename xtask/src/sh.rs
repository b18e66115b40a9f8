//! Running other programs: each is echoed before it starts, and with `--dry-run` only echoed.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Context as _, Result, fail};

/// How commands run.
#[derive(Clone, Copy)]
pub(crate) struct Sh {
    /// Echo, but do nothing.
    pub(crate) dry_run: bool,
}

impl Sh {
    /// Runs a command whose output is the user's to see.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        self.echo(command);
        if self.dry_run {
            return Ok(());
        }
        let status = command.status().context(|| format!("start {}", shown(command)))?;
        if status.success() { Ok(()) } else { fail(format!("{} failed: {status}", shown(command))) }
    }

    /// Runs a command and returns what it printed; empty in a dry run.
    pub(crate) fn read(&self, command: &mut Command) -> Result<String> {
        self.feed(command, b"")
    }

    /// Runs a command with `input` on its standard input and returns what it printed; empty in a dry run.
    pub(crate) fn feed(&self, command: &mut Command, input: &[u8]) -> Result<String> {
        self.echo(command);
        if self.dry_run {
            return Ok(String::new());
        }
        quiet_feed(command, input)
    }

    fn echo(&self, command: &Command) {
        println!("$ {}", shown(command));
    }
}

/// Runs a command without an echo, for the many small questions that would bury the steps.
pub(crate) fn quiet_read(command: &mut Command) -> Result<String> {
    quiet_feed(command, b"")
}

/// [`quiet_read`] with `input` on the standard input.
pub(crate) fn quiet_feed(command: &mut Command, input: &[u8]) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(|| format!("start {}", shown(command)))?;
    let mut stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that stops reading closes the pipe; its exit code then says what happened.
            stdin.as_mut().map(|stdin| stdin.write_all(input))
        });
        child.wait_with_output()
    })
    .context(|| format!("wait for {}", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return fail(format!("{} failed: {}\n{}", shown(command), output.status, said.trim_end()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command as one could type it. Environment and folder are left out unless they matter to a reader.
fn shown(command: &Command) -> String {
    let mut line = String::new();
    if let Some(folder) = command.get_current_dir().filter(|folder| *folder != root()) {
        line.push_str(&format!("(cd {}) ", quote(folder.as_os_str())));
    }
    let mut variables = command.get_envs();
    if let Some((name, Some(value))) = variables.find(|(name, _)| *name == "RUSTDOCFLAGS") {
        line.push_str(&format!("{}={} ", name.to_string_lossy(), quote(value)));
    }
    // Rustup names cargo by its whole path; nobody types that.
    let program = Path::new(command.get_program());
    let short = program.file_name().filter(|name| *name == "cargo");
    line.push_str(&quote(short.unwrap_or(command.get_program())));
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&quote(arg));
    }
    line
}

/// Quotes a word for a POSIX shell where it needs it.
pub(crate) fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,~^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `cargo`, the one that runs us.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    here.parent().map(Path::to_path_buf).unwrap_or(here)
}

/// Where cargo builds to, and our own working folders lie.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => root().join(target),
        None => root().join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_what_could_be_typed() {
        let mut command = Command::new("git");
        command.args(["-c", "a.b=c d", "it's", "", "plain"]).env("X", "y");
        assert_eq!(shown(&command), r"git -c 'a.b=c d' 'it'\''s' '' plain");
    }

    #[test]
    fn a_dry_run_runs_nothing() {
        let sh = Sh { dry_run: true };
        sh.run(&mut Command::new("/no/such/program")).unwrap();
        assert_eq!(sh.read(&mut Command::new("/no/such/program")).unwrap(), "");
        let sh = Sh { dry_run: false };
        assert!(sh.run(&mut Command::new("/no/such/program")).is_err());
    }
}
