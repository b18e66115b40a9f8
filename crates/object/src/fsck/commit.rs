//! Commits; and what commits and tags have in common: a header of lines that ends at an empty one.

use super::{Detail, MessageId, Report, Sink, Stop, ident};
use crate::{HashKind, ObjectId};

pub(super) fn check<S: Sink>(content: &[u8], hash: HashKind, report: &mut Report<'_, S>) -> Result<(), Stop> {
    let nul = memchr::memchr(0, content);
    let mut lines = Lines::new(content, nul, report)?;
    let Some(tree) = lines.after(b"tree ") else { return report.say(MessageId::MissingTree, Detail::None) };
    if !is_id(tree, hash) {
        report.say(MessageId::BadTreeSha1, Detail::None)?;
    }
    while let Some(parent) = lines.after(b"parent ") {
        if !is_id(parent, hash) {
            report.say(MessageId::BadParentSha1, Detail::None)?;
        }
    }
    let mut authors = 0;
    while let Some(author) = lines.after(b"author ") {
        ident::check(author, report)?;
        authors += 1;
    }
    match authors {
        0 => report.say(MessageId::MissingAuthor, Detail::None)?,
        1 => {}
        _ => report.say(MessageId::MultipleAuthors, Detail::None)?,
    }
    let Some(committer) = lines.after(b"committer ") else {
        return report.say(MessageId::MissingCommitter, Detail::None);
    };
    ident::check(committer, report)?;
    match nul {
        Some(_) => report.say(MessageId::NulInCommit, Detail::None),
        None => Ok(()),
    }
}

/// The lines of a header, one after the other.
pub(super) struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    /// A header ends at an empty line, or with the content if that ends a line, and holds no NUL. `nul` is where the
    /// content has its first. Without one, a content that ends a line, as nearly all do, needs no further look.
    pub(super) fn new<S: Sink>(
        content: &'a [u8],
        nul: Option<usize>,
        report: &mut Report<'_, S>,
    ) -> Result<Lines<'a>, Stop> {
        if nul.is_none() && content.last() == Some(&b'\n') {
            return Ok(Lines(content));
        }
        let before_nul = content.get(..nul.unwrap_or(content.len())).unwrap_or_default();
        let complete = memchr::memmem::find(before_nul, b"\n\n").is_some();
        match nul {
            _ if complete => Ok(Lines(content)),
            Some(at) => report.say(MessageId::NulInHeader, Detail::NulAt(at)).and(Err(Stop)),
            None => report.say(MessageId::UnterminatedHeader, Detail::None).and(Err(Stop)),
        }
    }

    /// What stands behind `start` on the next line, if it begins so. The line is used up then.
    #[inline]
    pub(super) fn after(&mut self, start: &[u8]) -> Option<&'a [u8]> {
        let value = self.0.strip_prefix(start)?;
        let end = memchr::memchr(b'\n', value)?;
        self.0 = value.get(end + 1..)?;
        value.get(..end)
    }

    /// What has not been used up.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }
}

/// Whether this is an id of that kind and nothing else.
pub(super) fn is_id(text: &[u8], hash: HashKind) -> bool {
    text.len() == hash.hex_len() && ObjectId::from_hex_prefix(text, hash).is_some()
}
