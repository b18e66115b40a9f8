//! What to make of each finding: git's defaults, and what configuration says otherwise.

use super::{Finding, MessageId, Severity};

/// Names in trees may have this many bytes, unless [`Severities::set`] says otherwise.
pub const MAX_NAME: i64 = 4096;

/// How much each finding matters. About a hundred bytes, no indirection.
///
/// ```
/// use packstone_object::fsck::{MessageId, Severities, Severity};
///
/// let mut severities = Severities::strict();
/// assert_eq!(severities.of(MessageId::HasDotgit), Severity::Error);
/// let lists = severities.apply(b"missingEmail=ignore,badTagName=error,skipList=known")?;
/// assert_eq!(lists, [b"known"]);
/// assert_eq!(severities.of(MessageId::MissingEmail), Severity::Ignore);
/// # Ok::<(), packstone_object::fsck::SeverityError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Severities {
    of: [Severity; MessageId::ALL.len()],
    /// Names longer than this are told.
    max_name: i64,
    strict: bool,
}

impl Default for Severities {
    /// As `git fsck` without options: every finding at its own severity.
    fn default() -> Self {
        let mut of = [Severity::Ignore; MessageId::ALL.len()];
        for (severity, id) in of.iter_mut().zip(MessageId::ALL) {
            *severity = id.default_severity();
        }
        Severities { of, max_name: MAX_NAME, strict: false }
    }
}

impl Severities {
    /// As `git index-pack` and `git unpack-objects` have it with `--strict` or `--fsck-objects`, and `git fsck
    /// --strict`: warnings are errors, and files may not be writable for the group.
    pub fn strict() -> Self {
        let mut severities = Severities { strict: true, ..Severities::default() };
        for severity in &mut severities.of {
            if *severity == Severity::Warn {
                *severity = Severity::Error;
            }
        }
        severities
    }

    /// As `git hash-object` has it, which makes no object of which anything is to be said: all are errors but what is
    /// ignored.
    pub fn pedantic() -> Self {
        let mut severities = Severities::strict();
        for severity in &mut severities.of {
            if *severity != Severity::Ignore {
                *severity = (*severity).max(Severity::Error);
            }
        }
        severities
    }

    /// How much this one matters.
    #[inline]
    pub fn of(&self, id: MessageId) -> Severity {
        // The list has one place for each.
        self.of.get(id as usize).copied().unwrap_or(Severity::Error)
    }

    /// How many bytes a name in a tree may have.
    #[inline]
    pub fn max_name(&self) -> i64 {
        self.max_name
    }

    /// Whether warnings became errors, and files may not be writable for the group.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// A finding of this severity; `None` if it is to be ignored.
    #[inline]
    pub fn finding<'c>(&self, id: MessageId, detail: super::Detail<'c>) -> Option<Finding<'c>> {
        let severity = self.of(id);
        (severity != Severity::Ignore).then_some(Finding { id, severity, detail })
    }

    /// Sets one, as `fsck.<id> = <severity>` does: the name in any case; `error`, `warn` or `ignore`, for
    /// `largePathname` also followed by `:` and the most bytes a name may have.
    pub fn set(&mut self, id: &[u8], severity: &[u8]) -> Result<(), SeverityError> {
        let lower = || String::from_utf8_lossy(&id.to_ascii_lowercase()).into_owned();
        let known = MessageId::from_name(id).ok_or_else(|| SeverityError::UnknownId { name: lower() })?;
        let mut word = severity;
        let mut most = None;
        if known == MessageId::LargePathname
            && let Some(colon) = memchr::memchr(b':', severity)
            && let Some((before, after)) = severity.split_at_checked(colon)
        {
            (word, most) = (before, after.get(1..));
        }
        let parsed = match word {
            b"error" => Severity::Error,
            b"warn" => Severity::Warn,
            b"ignore" => Severity::Ignore,
            _ => return Err(SeverityError::UnknownSeverity { text: String::from_utf8_lossy(word).into_owned() }),
        };
        if let Some(text) = most {
            let parsed = number(text);
            self.max_name =
                parsed.ok_or_else(|| SeverityError::BadLength { text: String::from_utf8_lossy(text).into_owned() })?;
        }
        if known.default_severity() == Severity::Fatal && parsed != Severity::Error {
            return Err(SeverityError::Fatal { name: lower(), severity: String::from_utf8_lossy(word).into_owned() });
        }
        if let Some(place) = self.of.get_mut(known as usize) {
            *place = parsed;
        }
        Ok(())
    }

    /// Sets what a list says, as `--strict=<id>=<severity>,...` does: separated by commas, spaces or `|`, id and
    /// severity by `=` or `:`. Gives the files named by `skipList=<file>`, whose content is for
    /// [`SkipList::parse`](super::SkipList::parse).
    pub fn apply<'t>(&mut self, list: &'t [u8]) -> Result<Vec<&'t [u8]>, SeverityError> {
        let mut lists = Vec::new();
        for item in list.split(|byte| matches!(byte, b',' | b' ' | b'|')).filter(|item| !item.is_empty()) {
            let at = memchr::memchr2(b'=', b':', item).unwrap_or(item.len());
            let (name, value) = item.split_at_checked(at).unwrap_or((item, b""));
            let value = value.split_first().map(|(_, value)| value);
            match (name.eq_ignore_ascii_case(b"skiplist"), value) {
                (true, Some(file)) => lists.push(file),
                (true, None) => return Err(SeverityError::NoPath),
                (false, Some(severity)) => self.set(name, severity)?,
                (false, None) => {
                    let name = String::from_utf8_lossy(&name.to_ascii_lowercase()).into_owned();
                    return Err(SeverityError::NoSeverity { name });
                }
            }
        }
        Ok(lists)
    }
}

/// Configuration that git refuses, in git's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeverityError {
    /// No finding has that name.
    #[error("Unhandled message id: {name}")]
    UnknownId {
        /// In lower case.
        name: String,
    },
    /// Not `error`, `warn` or `ignore`.
    #[error("Unknown fsck message type: '{text}'")]
    UnknownSeverity {
        /// What it says.
        text: String,
    },
    /// A name alone.
    #[error("Missing '=': '{name}'")]
    NoSeverity {
        /// In lower case.
        name: String,
    },
    /// What makes an object unreadable stays an error.
    #[error("Cannot demote {name} to {severity}")]
    Fatal {
        /// In lower case.
        name: String,
        /// What it should have become.
        severity: String,
    },
    /// The most bytes that a name may have are no number.
    #[error("unable to parse max tree entry len: {text}")]
    BadLength {
        /// What it says.
        text: String,
    },
    /// `skipList` alone.
    #[error("skiplist requires a path")]
    NoPath,
}

/// A number as in git's configuration: decimal, octal behind `0`, hexadecimal behind `0x`; then perhaps k, m or g.
fn number(text: &[u8]) -> Option<i64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (text, shift) = match text.split_last()? {
        (b'k' | b'K', rest) => (rest, 10),
        (b'm' | b'M', rest) => (rest, 20),
        (b'g' | b'G', rest) => (rest, 30),
        _ => (text, 0),
    };
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
        [b'0', rest @ ..] if !rest.is_empty() => (rest, 8),
        _ => (text, 10),
    };
    if digits.is_empty() {
        return None;
    }
    let value = digits.iter().try_fold(0i64, |sum, &digit| {
        let digit = char::from(digit).to_digit(radix)?;
        sum.checked_mul(radix.into())?.checked_add(digit.into())
    })?;
    let value = value.checked_mul(1 << shift)?;
    Some(if negative { -value } else { value })
}
