//! Whether an object's content keeps to its format: what git's fsck says about one object, looked at alone.
//!
//! [`check`] tells each [`Finding`] to a [`Sink`] under git's name for it (git-fsck, "FSCK MESSAGES"), with the
//! severity that [`Severities`] gives it, in git's order. Like git it goes on after what is no error, so what is told
//! of a commit or a tag depends on the severities; of a tree everything is told in any case.
//!
//! The content of a blob matters only where a tree gives it a name with a meaning. The sink is told which blobs those
//! are ([`Sink::special`]); [`gitmodules`] and [`gitattributes`] check them.
//!
//! | checked | by | linear in | allocates |
//! |---|---|---|---|
//! | commit, tag | headers, signatures, NULs | the header; NULs of a commit in all of it | nothing |
//! | tree | modes, names and their disguises, order, duplicates | the content | 24 bytes a file whose name begins the next |
//! | `.gitmodules` | syntax, names, URLs, paths, update commands | the content | a name and a value |
//! | `.gitattributes` | size, length of lines | the content | nothing |
//!
//! Who checks many versions of a folder takes a [`TreeCheck`], which looks at what they share once.
//!
//! Findings that git makes with more than one object in its hands (`gitmodulesMissing`, `gitmodulesBlob` and the like)
//! are the caller's to make, with [`Severities::finding`].

mod attributes;
mod commit;
mod config;
mod disguise;
mod ident;
mod message;
mod modules;
mod severities;
mod skip;
mod tag;
mod tree;
mod trees;
mod url;

use std::fmt;

pub use attributes::{MAX_ATTRIBUTES, MAX_ATTRIBUTES_LINE};
pub use message::{MessageId, Severity};
pub use severities::{MAX_NAME, Severities, SeverityError};
pub use skip::{SkipList, SkipListError};
pub use trees::TreeCheck;

use crate::tree::Mode;
use crate::{HashKind, ObjectKind};

/// Something wrong with an object. Its text is git's: the name, a colon, and what is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding<'c> {
    /// What.
    pub id: MessageId,
    /// How much that matters, by the [`Severities`] given. Never [`Severity::Ignore`].
    pub severity: Severity,
    /// What differs from object to object.
    pub detail: Detail<'c>,
}

/// What belongs to one finding rather than to all of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail<'c> {
    /// Nothing.
    None,
    /// Byte offset in the content of the NUL that is meant.
    NulAt(usize),
    /// The name, path or URL that is meant.
    Text(&'c [u8]),
    /// Why a tree cannot be parsed. git says it in front, on a line of its own, even of objects that a [`SkipList`]
    /// names.
    Parse(&'static str),
}

impl fmt::Display for Finding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.id.text())?;
        match self.detail {
            Detail::None | Detail::Parse(_) => Ok(()),
            Detail::NulAt(at) => write!(f, ": NUL at offset {at}"),
            // Up to a NUL, and without what would play tricks with a terminal.
            Detail::Text(text) => {
                let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
                let text = String::from_utf8_lossy(text);
                let plain = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '?' } else { c };
                write!(f, ": {}", text.chars().map(plain).collect::<String>())
            }
        }
    }
}

/// A blob that means something to git because of its name in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Special {
    /// `.gitmodules`: see [`gitmodules`].
    Modules,
    /// `.gitattributes`: see [`gitattributes`].
    Attributes,
}

/// Where findings go.
pub trait Sink {
    /// Something is wrong with the object.
    fn finding(&mut self, finding: Finding<'_>);

    /// A tree gives the object of these raw bytes such a name, in some disguise, unless as a symbolic link. It may be
    /// no blob at all.
    #[inline]
    fn special(&mut self, special: Special, id: &[u8]) {
        let _ = (special, id);
    }

    /// A tree has this entry, of this raw id. Told of each that can be read, in order, so that who follows links need
    /// not read the tree again.
    #[inline]
    fn entry(&mut self, mode: Mode, id: &[u8]) {
        let _ = (mode, id);
    }
}

/// Findings as text, for who wants no more.
impl Sink for Vec<String> {
    fn finding(&mut self, finding: Finding<'_>) {
        self.push(finding.to_string());
    }
}

/// Tells what is wrong with the content; `true` if none of it is an error.
///
/// Linear in the content, whatever it is, and without allocation for what is sound. A blob is sound.
pub fn check(kind: ObjectKind, content: &[u8], hash: HashKind, severities: &Severities, sink: &mut impl Sink) -> bool {
    let mut report = Report::new(severities, sink);
    match kind {
        ObjectKind::Blob => {}
        ObjectKind::Tree => drop(tree::check(content, hash, &mut report)),
        // Why they stopped is in the report.
        ObjectKind::Commit => drop(commit::check(content, hash, &mut report)),
        ObjectKind::Tag => drop(tag::check(content, hash, &mut report)),
    }
    report.sound
}

/// Tells what is wrong with a `.gitmodules`; `true` if none of it is an error.
///
/// It is read as git reads the file in a work tree. git's fsck differs in two ways, where it looks at less than git
/// will read later: it takes a byte 0xff for the end of the file, and gives up at a byte order mark.
pub fn gitmodules(content: &[u8], severities: &Severities, sink: &mut impl Sink) -> bool {
    let mut report = Report::new(severities, sink);
    modules::check(content, &mut report);
    report.sound
}

/// Tells what is wrong with a `.gitattributes`; `true` if none of it is an error. Like git it looks no further than a
/// NUL.
pub fn gitattributes(content: &[u8], severities: &Severities, sink: &mut impl Sink) -> bool {
    let mut report = Report::new(severities, sink);
    attributes::check(content, &mut report);
    report.sound
}

/// What is to be looked at no further.
#[derive(Debug, Clone, Copy)]
struct Stop;

/// Findings on their way to a sink.
struct Report<'r, S> {
    severities: &'r Severities,
    sink: &'r mut S,
    sound: bool,
}

impl<'r, S: Sink> Report<'r, S> {
    fn new(severities: &'r Severities, sink: &'r mut S) -> Self {
        Report { severities, sink, sound: true }
    }

    /// Tells of one. An error says to stop, which who looks at independent things may ignore.
    #[cold]
    fn say(&mut self, id: MessageId, detail: Detail<'_>) -> Result<(), Stop> {
        let Some(finding) = self.severities.finding(id, detail) else { return Ok(()) };
        self.sink.finding(finding);
        match finding.severity.is_error() {
            true => {
                self.sound = false;
                Err(Stop)
            }
            false => Ok(()),
        }
    }
}
