//! Who, and when: `NAME <EMAIL> SECONDS ZONE`, as authors, committers and taggers are written.

use super::{Detail, MessageId, Report, Sink, Stop};

/// Tells the first thing that is wrong with the line.
#[inline]
pub(super) fn check<S: Sink>(line: &[u8], report: &mut Report<'_, S>) -> Result<(), Stop> {
    match fault(line) {
        None => Ok(()),
        Some(id) => report.say(id, Detail::None),
    }
}

/// A space stands before the `<`, and a name that may be empty all the same; behind the `>` one space, and perhaps
/// blanks.
fn fault(line: &[u8]) -> Option<MessageId> {
    let Some(open) = memchr::memchr2(b'<', b'>', line) else { return Some(MessageId::MissingEmail) };
    let (name, rest) = line.split_at_checked(open)?;
    match (name, rest) {
        ([], [b'<', ..]) => return Some(MessageId::MissingNameBeforeEmail),
        (_, [b'>', ..]) => return Some(MessageId::BadName),
        ([.., b' '], _) => {}
        _ => return Some(MessageId::MissingSpaceBeforeEmail),
    }
    let email = rest.get(1..)?;
    let date = match memchr::memchr2(b'<', b'>', email).and_then(|close| email.get(close..)) {
        Some([b'>', date @ ..]) => date,
        _ => return Some(MessageId::BadEmail),
    };
    let Some(date) = date.strip_prefix(b" ") else { return Some(MessageId::MissingSpaceBeforeDate) };
    let blank = date.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let date = date.get(blank..)?;
    let mut seconds = Some(0i64);
    let mut digits = 0;
    while let Some(&digit @ b'0'..=b'9') = date.get(digits) {
        seconds = seconds.and_then(|sum| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0')));
        digits += 1;
    }
    let zone = date.get(digits..)?;
    match date {
        _ if digits == 0 => return Some(MessageId::BadDate),
        [b'0', b' ', ..] => {}
        [b'0', ..] => return Some(MessageId::ZeroPaddedDate),
        _ => {}
    }
    if seconds.is_none() {
        return Some(MessageId::BadDateOverflow);
    }
    match zone {
        [b' ', b'+' | b'-', a, b, c, d] if [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()) => None,
        [b' ', ..] => Some(MessageId::BadTimezone),
        _ => Some(MessageId::BadDate),
    }
}
