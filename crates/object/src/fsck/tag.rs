//! Tags.

use super::commit::{Lines, is_id};
use super::{Detail, MessageId, Report, Sink, Stop, ident};
use crate::{HashKind, ObjectKind};

pub(super) fn check<S: Sink>(content: &[u8], hash: HashKind, report: &mut Report<'_, S>) -> Result<(), Stop> {
    // A message may hold NULs.
    let mut lines = Lines::new(content, memchr::memchr(0, content), report)?;
    let Some(object) = lines.after(b"object ") else { return report.say(MessageId::MissingObject, Detail::None) };
    if !is_id(object, hash) {
        report.say(MessageId::BadObjectSha1, Detail::None)?;
    }
    let Some(kind) = lines.after(b"type ") else { return report.say(MessageId::MissingTypeEntry, Detail::None) };
    if ObjectKind::from_name(kind).is_none() {
        report.say(MessageId::BadType, Detail::None)?;
    }
    let Some(name) = lines.after(b"tag ") else { return report.say(MessageId::MissingTagEntry, Detail::None) };
    if !is_ref_name(name) {
        report.say(MessageId::BadTagName, Detail::Text(name))?;
    }
    match lines.after(b"tagger ") {
        Some(tagger) => ident::check(tagger, report)?,
        // Very old tags do not say.
        None => report.say(MessageId::MissingTaggerEntry, Detail::None)?,
    }
    match lines.rest().first() {
        None | Some(b'\n') => Ok(()),
        Some(_) => report.say(MessageId::ExtraHeaderEntry, Detail::None),
    }
}

/// Whether `refs/tags/NAME` may be a reference (git-check-ref-format).
fn is_ref_name(name: &[u8]) -> bool {
    let forbidden = |byte: &u8| matches!(byte, 0..=b' ' | 0x7f | b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\');
    let pair = |pair: &[u8]| name.windows(2).any(|found| found == pair);
    !(name.iter().any(forbidden) || pair(b"..") || pair(b"@{") || name.ends_with(b"."))
        && name
            .split(|&byte| byte == b'/')
            .all(|part| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock"))
}
