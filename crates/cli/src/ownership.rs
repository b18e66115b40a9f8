//! Whether a repository that was found by looking around may be trusted: it belongs to the user, or `safe.directory` names it
//! (git-config, "safe.directory").
//!
//! A repository that the user named (`GIT_DIR`) is taken on their word, as by git; so are those that a git process hands
//! to its children.

use std::path::{Path, PathBuf};

use crate::config::{Conditions, Config, Scope};
use crate::env::{Environment, bytes_to_path, os_bytes};
use crate::report::{self, Failure};

/// Refuses a repository with a part that belongs to somebody else, unless it was declared safe. `parts`: the `.git` file, the
/// root of the work tree and the git directory, as far as there are any; `root` is what the user would call it.
pub(crate) fn check(env: &Environment, root: &Path, parts: &[&Path]) -> Result<(), Failure> {
    let stranger = env.truth("GIT_TEST_ASSUME_DIFFERENT_OWNER", false)?;
    if !stranger && parts.iter().all(|part| belongs_to_user(env, part)) {
        return Ok(());
    }
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    // Only from where the repository's owner cannot write: its own files are not read yet.
    let config = Config::load(env, None, None, false, &Conditions::default())?;
    if declared_safe(env, &config, &root)? {
        return Ok(());
    }
    let root = root.display();
    Err(Failure::Fatal(format!(
        "detected dubious ownership in repository at '{root}'\nTo add an exception for this directory, call:\n\n\tgit config \
         --global --add safe.directory {root}"
    )))
}

fn declared_safe(env: &Environment, config: &Config, root: &Path) -> Result<bool, Failure> {
    let mut safe = false;
    for entry in config.all("safe.directory") {
        if !matches!(entry.scope, Scope::System | Scope::Global | Scope::Command) {
            continue;
        }
        let value = entry.text()?;
        match value {
            // What was said before does not count.
            b"" => safe = false,
            b"*" => safe = true,
            b"." => safe |= env.cwd() == root,
            _ => safe |= names(env, value, root),
        }
    }
    Ok(safe)
}

/// Whether a value of `safe.directory` names the directory, or with `/*` at its end one above.
fn names(env: &Environment, value: &[u8], root: &Path) -> bool {
    let (value, below) = match value.strip_suffix(b"/*") {
        Some(above) => (above, true),
        None => (value, false),
    };
    let path = match value {
        b"~" => env.home(),
        [b'~', b'/', rest @ ..] => env.home().map(|home| home.join(bytes_to_path(rest))),
        _ => Some(bytes_to_path(value)),
    };
    let Some(path) = path else { return false };
    let path = if below && value.is_empty() { PathBuf::from("/") } else { path };
    if !path.is_absolute() {
        report::warning(format!(
            "safe.directory '{}' not absolute",
            String::from_utf8_lossy(&os_bytes(path.as_os_str()))
        ));
        return false;
    }
    let real = path.canonicalize().unwrap_or(path);
    if below { root != real && root.starts_with(&real) } else { root == real }
}

/// Whether the file or directory itself, not what a link leads to, is the user's. For root that is also who became root by
/// sudo.
#[cfg(unix)]
fn belongs_to_user(env: &Environment, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return false };
    let user = rustix::process::geteuid();
    let before_sudo = || env.get("SUDO_UID")?.to_str()?.parse::<u32>().ok();
    metadata.uid() == user.as_raw() || (user.is_root() && before_sudo() == Some(metadata.uid()))
}

/// Owners are told apart where the system has them in a form that the standard library knows.
#[cfg(not(unix))]
fn belongs_to_user(_env: &Environment, _path: &Path) -> bool {
    true
}
