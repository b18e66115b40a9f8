//! Permission bits: who may read and write what git stores.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::str::FromStr;

use crate::fs::{FileSystem, RealFs};
use crate::sys;

/// The permissions that a kind of file is created with; the umask (or the directory's default ACL) then takes its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileMode {
    /// `0444`: what is named by its content and never changes: objects, packs and their companions, commit-graphs.
    #[default]
    ReadOnly,
    /// `0666`: what is replaced as a whole: the index, the multi-pack-index.
    ReadWrite,
}

impl FileMode {
    pub(crate) fn bits(self) -> u32 {
        match self {
            FileMode::ReadOnly => 0o444,
            FileMode::ReadWrite => 0o666,
        }
    }
}

/// `core.sharedRepository`: for whom the permissions that the umask left are widened (git-config, that variable).
///
/// Write bits are never added to a file whose owner has none, so a read-only object stays read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shared {
    /// Nobody: the umask decides.
    #[default]
    Umask,
    /// The group may read and write.
    Group,
    /// The group may read and write, everybody may read.
    Everybody,
    /// Exactly these permissions, whatever the umask; the low nine bits, `0600` among them, no execute bits.
    Exact(u32),
}

impl Shared {
    /// The bits a file or directory of `mode` should have.
    pub fn widen(self, mode: u32, is_dir: bool) -> u32 {
        let (want, exact) = match self {
            Shared::Umask => return mode,
            Shared::Group => (0o660, false),
            Shared::Everybody => (0o664, false),
            Shared::Exact(bits) => (bits & 0o666, true),
        };
        let mut bits = want;
        if mode & 0o200 == 0 {
            bits &= !0o222;
        }
        if mode & 0o100 != 0 {
            bits |= readers_execute(bits);
        }
        let mut new = if exact { (mode & !0o777) | bits } else { mode | bits };
        if is_dir {
            new |= readers_execute(new);
            if new & 0o060 != 0 {
                new |= sys::DIR_SETGID;
            }
        }
        new
    }

    pub(crate) fn apply_to_file(self, on: &dyn FileSystem, path: &Path, file: &File) -> io::Result<()> {
        if self == Shared::Umask {
            return Ok(());
        }
        self.apply(on, path, Some(file), &file.metadata()?)
    }

    fn apply_to_dir(self, on: &dyn FileSystem, dir: &Path) -> io::Result<()> {
        if self == Shared::Umask {
            return Ok(());
        }
        self.apply(on, dir, None, &fs::metadata(dir)?)
    }

    fn apply(self, on: &dyn FileSystem, path: &Path, file: Option<&File>, meta: &fs::Metadata) -> io::Result<()> {
        let Some(old) = sys::mode(meta) else { return Ok(()) };
        match sys::permissions(self.widen(old, meta.is_dir())) {
            Some(new) if sys::permissions(old).as_ref() != Some(&new) => on.set_permissions(path, file, new),
            _ => Ok(()),
        }
    }
}

impl FromStr for Shared {
    type Err = SharedError;

    /// The value as configuration files hold it: a name, a number in octal, or a boolean.
    fn from_str(text: &str) -> Result<Self, SharedError> {
        match text {
            "umask" => return Ok(Shared::Umask),
            "group" => return Ok(Shared::Group),
            "all" | "world" | "everybody" => return Ok(Shared::Everybody),
            _ => {}
        }
        match u32::from_str_radix(text, 8) {
            Ok(0) => Ok(Shared::Umask),
            // From a time when there were three levels.
            Ok(1) => Ok(Shared::Group),
            Ok(2) => Ok(Shared::Everybody),
            Ok(bits) if bits & 0o600 == 0o600 => Ok(Shared::Exact(bits & 0o666)),
            Ok(bits) => Err(SharedError::OwnerLocked { bits }),
            Err(_) if ["true", "yes", "on"].iter().any(|yes| text.eq_ignore_ascii_case(yes)) => Ok(Shared::Group),
            Err(_) if ["false", "no", "off", ""].iter().any(|no| text.eq_ignore_ascii_case(no)) => Ok(Shared::Umask),
            Err(_) => Err(SharedError::Unknown { text: text.into() }),
        }
    }
}

/// Not a value of `core.sharedRepository`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SharedError {
    /// A mode that would lock the owner out.
    #[error("mode {bits:#o} for a shared repository: the owner of files must always have read and write permissions")]
    OwnerLocked {
        /// The mode given.
        bits: u32,
    },
    /// No name, number or boolean.
    #[error("'{text}' is no value for a shared repository")]
    Unknown {
        /// The text given.
        text: String,
    },
}

/// Makes a directory of mode `0777` less the umask, widened as `shared` says. That it exists already is success: another
/// process may have made it just now.
pub fn create_dir(dir: &Path, shared: Shared) -> io::Result<()> {
    create_dir_on(&RealFs, dir, shared)
}

/// As [`create_dir`], on a file system given.
pub fn create_dir_on(on: &dyn FileSystem, dir: &Path, shared: Shared) -> io::Result<()> {
    match on.create_dir(dir) {
        Ok(()) => shared.apply_to_dir(on, dir),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(e) => Err(e),
    }
}

/// As [`create_dir`], with the missing directories above.
pub fn create_dir_all(dir: &Path, shared: Shared) -> io::Result<()> {
    if dir.as_os_str().is_empty() {
        return Ok(());
    }
    match (create_dir(dir, shared), dir.parent()) {
        (Err(e), Some(parent)) if e.kind() == io::ErrorKind::NotFound => {
            create_dir_all(parent, shared)?;
            create_dir(dir, shared)
        }
        (result, _) => result,
    }
}

fn readers_execute(mode: u32) -> u32 {
    (mode & 0o444) >> 2
}
