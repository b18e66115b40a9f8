// The same file read by us and by the installed git: both accept it and list the same, or both refuse it, or the difference is
// a known one.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use object::{Checksum, HashKind};
use packstone_index::{Bump, Index, ReadErrorKind, ReadOptions};

/// A file, and what both say.
struct Case<'c> {
    kind: HashKind,
    bytes: &'c [u8],
    /// A line for each entry, or why there are none.
    ours: Result<Vec<u8>, ReadErrorKind>,
    git: Output,
}

impl Case<'_> {
    /// We refuse, and git does not, or does not come that far.
    fn refused(&self, test: impl Fn(&ReadErrorKind) -> bool) -> bool {
        self.git.status.code() != Some(128) && self.ours.as_ref().is_err_and(test)
    }

    fn git_says(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.git.stderr).contains(text)
    }
}

/// A difference that is known: its name, which is also that of an input that shows it, why we differ, and what it looks like.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    #[allow(dead_code)] // for readers
    pub(crate) why: &'static str,
    /// Whether it shows on every machine.
    pub(crate) everywhere: bool,
    is_it: fn(&Case<'_>) -> bool,
}

pub(crate) const KNOWN: &[Known] = &[
    Known {
        name: "out-of-order",
        why: "git looks at the order only when it checks a repository; look-ups and merges rely on it",
        everywhere: true,
        is_it: |case| case.refused(|kind| matches!(kind, ReadErrorKind::Order { .. })),
    },
    Known {
        name: "no-path",
        why: "git lists an entry without a path, which no command can mean (cases.md I4: files lost)",
        everywhere: true,
        is_it: |case| case.refused(|kind| matches!(kind, ReadErrorKind::EmptyPath)),
    },
    Known {
        name: "wrong-length",
        why: "git takes what the flags say for the length, and prints up to the NUL: two different paths (cases.md I1)",
        everywhere: true,
        is_it: |case| case.refused(|kind| matches!(kind, ReadErrorKind::Unterminated { .. })),
    },
    Known {
        name: "nul-in-path",
        why: "git prints up to the NUL; we list the path as long as it is said to be, and refuse to write it",
        everywhere: true,
        is_it: |case| {
            case.git.status.success() && read(case, |index| index.iter().any(|entry| entry.path().contains(&0)))
        },
    },
    Known {
        name: "into-the-trailer",
        why: "git has the end of the mapping only: it reads the checksum as an entry, or dies of a signal",
        everywhere: true,
        is_it: |case| case.refused(|kind| matches!(kind, ReadErrorKind::Truncated { .. })),
    },
    Known {
        name: "endless-number",
        why: "git takes a number of version 4 that does not fit 64 bits for zero, and its bytes for the path",
        everywhere: true,
        is_it: |case| case.refused(|kind| matches!(kind, ReadErrorKind::Strip { strip: u64::MAX, .. })),
    },
    Known {
        name: "expanded",
        why: "git expands a sparse index in a repository without sparse checkout; we list what is there",
        everywhere: true,
        is_it: |case| read(case, |index| index.is_sparse()),
    },
    Known {
        name: "monitor-beyond-entries",
        why: "git gives up with a BUG if a monitor's bitmap is longer than the index (cases.md I13)",
        everywhere: true,
        is_it: |case| case.git_says("BUG: ") || case.git_says("fsmonitor_dirty"),
    },
    Known {
        name: "size-beyond-the-file",
        why: "git believes what an extension says its size is, reads on behind the mapping and dies of a signal",
        everywhere: false,
        is_it: |case| case.git.status.code().is_none(),
    },
    Known {
        name: "bits-upon-nothing",
        why: "git takes bitmaps of a split index as they come, even where no shared index is named (cases.md I4)",
        everywhere: true,
        is_it: |case| case.refused(|kind| matches!(kind, ReadErrorKind::Extension { .. })),
    },
    Known {
        name: "claimed-words",
        why: "git allocates the words that a bitmap claims before it looks whether they are there",
        everywhere: false,
        is_it: |case| case.git_says("Out of memory"),
    },
];

fn read(case: &Case<'_>, test: impl Fn(&Index<'_>) -> bool) -> bool {
    let arena = Bump::new();
    Index::read(&arena, case.bytes, &ReadOptions::new(case.kind)).is_ok_and(|index| test(&index))
}

/// The name of the known difference that the file shows, if it shows one.
pub(crate) fn compare(data: &[u8]) -> Option<&'static str> {
    let (&flags, data) = data.split_first()?;
    let kind = if flags & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    // Signature, version and checksum are as they should be, so that what comes behind is looked at.
    let version = [2, 3, 4][usize::from(flags >> 1) % 3];
    let mut bytes = [&b"DIRC\0\0\0"[..], &[version], data].concat();
    let mut sum = Checksum::new(kind);
    sum.update(&bytes);
    bytes.extend(sum.finish().as_bytes());

    let arena = Bump::new();
    let ours = Index::read(&arena, &bytes, &ReadOptions::new(kind)).map_err(|error| error.kind).map(|index| {
        let line = |entry: packstone_index::Entry<'_>| {
            let head = format!("{:06o} {} {}\t", entry.mode().0, entry.id(), entry.stage() as u8);
            [head.as_bytes(), entry.path(), b"\0"].concat()
        };
        index.iter().flat_map(line).collect()
    });
    let case = Case { kind, bytes: &bytes, ours, git: list(kind, &bytes) };
    let same = match &case.ours {
        Ok(listed) => case.git.status.success() && case.git.stdout == *listed,
        Err(_) => case.git.status.code() == Some(128),
    };
    if same {
        return None;
    }
    let known = KNOWN.iter().find(|known| (known.is_it)(&case)).map(|known| known.name);
    assert!(
        known.is_some(),
        "ours: {:?}, git: {}, '{}', {}",
        case.ours.as_ref().map(|listed| listed.escape_ascii().to_string()),
        case.git.status,
        case.git.stdout.escape_ascii(),
        String::from_utf8_lossy(&case.git.stderr)
    );
    known
}

fn list(kind: HashKind, bytes: &[u8]) -> Output {
    static REPOSITORIES: OnceLock<[tempfile::TempDir; 2]> = OnceLock::new();
    let git = |dir: &Path| {
        let mut command = Command::new("git");
        command.current_dir(dir).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", dir).env("LC_ALL", "C");
        command
    };
    let repositories = REPOSITORIES.get_or_init(|| {
        HashKind::ALL.map(|kind| {
            let dir = tempfile::tempdir().expect("a folder");
            let format = format!("--object-format={}", kind.name());
            let made = git(dir.path()).args(["init", "--quiet", &format]).status().expect("git runs");
            assert!(made.success());
            dir
        })
    });
    let dir = repositories[usize::from(kind != HashKind::ALL[0])].path();
    // Tests may do this side by side.
    let index = tempfile::NamedTempFile::new_in(dir).expect("a file");
    std::fs::write(index.path(), bytes).expect("room");
    let list = ["ls-files", "--stage", "--sparse", "-z"];
    git(dir).env("GIT_INDEX_FILE", index.path()).args(list).output().expect("git runs")
}
