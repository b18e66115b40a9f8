//! Blobs that a tree calls `.gitattributes`: git's limits on them.

use super::{Detail, MessageId, Report, Sink};

/// git reads no `.gitattributes` of more bytes than this.
pub const MAX_ATTRIBUTES: usize = 100 << 20;

/// git reads no line of this many bytes or more, in a `.gitattributes`.
pub const MAX_ATTRIBUTES_LINE: usize = 2048;

pub(super) fn check<S: Sink>(content: &[u8], report: &mut Report<'_, S>) {
    if content.len() > MAX_ATTRIBUTES {
        let _ = report.say(MessageId::GitattributesLarge, Detail::None);
        return;
    }
    let mut rest = content;
    while !rest.is_empty() {
        let end = memchr::memchr2(b'\n', 0, rest);
        if end.unwrap_or(rest.len()) >= MAX_ATTRIBUTES_LINE {
            let _ = report.say(MessageId::GitattributesLineLength, Detail::None);
            return;
        }
        rest = match end {
            Some(end) if rest.get(end) == Some(&b'\n') => rest.get(end + 1..).unwrap_or_default(),
            _ => return,
        };
    }
}
