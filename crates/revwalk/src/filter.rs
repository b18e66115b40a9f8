//! Object filters: which of the reachable objects a partial clone leaves out.
//!
//! | spec | leaves out |
//! |---|---|
//! | `blob:none` | every blob |
//! | `blob:limit=<n>[kmg]` | blobs of n bytes or more |
//! | `tree:<depth>` | trees and blobs at that depth or below; a commit's root tree is at depth 0 |
//! | `object:type=<kind>` | all objects but those of that kind |
//! | `sparse:oid=<blob>` | what the sparse-checkout patterns in that blob do not name |
//! | `combine:<spec>+<spec>...` | what any of the specs leaves out |
//!
//! Source: git-rev-list.adoc ("--filter"). Specs inside `combine:` are percent-encoded; numbers are C
//! numbers (`0x10`, `010`) with an optional unit of 1024, 1024² or 1024³. Objects that were asked for by
//! name are never left out; who asked knows which those are, not the filter.

use std::fmt;
use std::str::FromStr;

use object::ObjectKind;

/// A filter, as git's protocol and command lines spell it.
///
/// `Display` gives the spec that parses back to the same filter, with plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filter {
    /// `blob:none`.
    BlobNone,
    /// `blob:limit=<n>`: no blobs of this many bytes or more.
    BlobLimit(u64),
    /// `tree:<depth>`: no trees and blobs at this depth or deeper.
    TreeDepth(u64),
    /// `object:type=<kind>`: no objects of other kinds.
    ObjectType(ObjectKind),
    /// `sparse:oid=<blob>`: the name of a blob, as a revision. Walks refuse it for now.
    SparseOid(String),
    /// `combine:...`: an object must pass all of them. May be empty: then all pass.
    Combine(Vec<Filter>),
}

/// `combine:` inside `combine:`, that often: more than any use, and few enough for a stack.
const MAX_NESTING: usize = 100;

/// Characters that must be escaped inside `combine:`, besides white space, control characters, `%` and `+`.
const RESERVED: &[u8] = b"~`!@#$^&*()[]{}\\;'\",<>?";

impl Filter {
    /// Reads a filter spec.
    ///
    /// # Errors
    ///
    /// [`FilterError`], which displays as git's message does.
    pub fn parse(spec: &str) -> Result<Filter, FilterError> {
        parse(spec, 0)
    }

    /// Both filters, as when `--filter` is given twice: a combination is extended, anything else becomes one.
    #[must_use]
    pub fn and(self, other: Filter) -> Filter {
        match self {
            Filter::Combine(mut all) => {
                all.push(other);
                Filter::Combine(all)
            }
            one => Filter::Combine(vec![one, other]),
        }
    }
}

fn parse(spec: &str, nesting: usize) -> Result<Filter, FilterError> {
    let invalid = || FilterError::Invalid { spec: spec.to_owned() };
    if spec == "auto" {
        Err(FilterError::AutoHere)
    } else if spec == "blob:none" {
        Ok(Filter::BlobNone)
    } else if let Some(size) = spec.strip_prefix("blob:limit=") {
        number(size).map(Filter::BlobLimit).ok_or_else(invalid)
    } else if let Some(depth) = spec.strip_prefix("tree:") {
        number(depth).map(Filter::TreeDepth).ok_or(FilterError::TreeDepth)
    } else if let Some(name) = spec.strip_prefix("sparse:oid=") {
        Ok(Filter::SparseOid(name.to_owned()))
    } else if spec.starts_with("sparse:path=") {
        Err(FilterError::SparsePath)
    } else if let Some(name) = spec.strip_prefix("object:type=") {
        let kind = ObjectKind::from_name(name.as_bytes());
        kind.map(Filter::ObjectType).ok_or_else(|| FilterError::ObjectType { found: name.to_owned() })
    } else if let Some(subs) = spec.strip_prefix("combine:") {
        if subs.is_empty() {
            return Err(FilterError::EmptyCombine);
        }
        if nesting == MAX_NESTING {
            return Err(FilterError::Nesting { limit: MAX_NESTING });
        }
        let subs = subs.split('+').filter(|sub| !sub.is_empty());
        subs.map(|sub| parse_sub(sub, nesting + 1)).collect::<Result<_, _>>().map(Filter::Combine)
    } else {
        Err(invalid())
    }
}

fn parse_sub(sub: &str, nesting: usize) -> Result<Filter, FilterError> {
    if let Some(found) = sub.bytes().find(|b| *b <= b' ' || !b.is_ascii() || RESERVED.contains(b)) {
        return Err(FilterError::Unescaped { found: char::from(found) });
    }
    let decoded = String::from_utf8(percent_decode(sub.as_bytes())).map_err(|_| FilterError::NotText)?;
    parse(&decoded, nesting)
}

/// Undoes percent-encoding. What is no escape stays as it is, and so does `%00`, as in git.
fn percent_decode(text: &[u8]) -> Vec<u8> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let escape = match (first, tail) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)).map(|(high, low)| (high * 16 + low) as u8),
            _ => None,
        };
        match escape {
            Some(byte) if byte != 0 => {
                out.push(byte);
                rest = &tail[2..];
            }
            _ => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

/// A C number with an optional unit: `[ws][+](0x hex | 0 octal | decimal)[kKmMgG]`, below 2^64.
fn number(text: &str) -> Option<u64> {
    // `strtoumax` would take a minus sign and wrap; git looks for one anywhere first.
    if text.contains('-') {
        return None;
    }
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    let text = text.strip_prefix('+').unwrap_or(text);
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (radix, digits) = match hex {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_hexdigit()) => (16, digits),
        _ if text.starts_with('0') => (8, text),
        _ => (10, text),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, unit) = digits.split_at(end);
    let value = u64::from_str_radix(digits, radix).ok()?;
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    value.checked_mul(factor)
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::BlobNone => f.write_str("blob:none"),
            Filter::BlobLimit(size) => write!(f, "blob:limit={size}"),
            Filter::TreeDepth(depth) => write!(f, "tree:{depth}"),
            Filter::ObjectType(kind) => write!(f, "object:type={kind}"),
            Filter::SparseOid(name) => write!(f, "sparse:oid={name}"),
            // "combine:" alone would not parse; a lone separator stands for no filter.
            Filter::Combine(subs) if subs.is_empty() => f.write_str("combine:+"),
            Filter::Combine(subs) => {
                f.write_str("combine:")?;
                for (nr, sub) in subs.iter().enumerate() {
                    if nr > 0 {
                        f.write_str("+")?;
                    }
                    percent_encode(&sub.to_string(), f)?;
                }
                Ok(())
            }
        }
    }
}

fn percent_encode(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for byte in text.bytes() {
        // Beyond ASCII too: C's `char` is signed where git is mostly run, so such bytes are "below space".
        let plain = byte.is_ascii() && byte > b' ' && byte != b'%' && byte != b'+' && !RESERVED.contains(&byte);
        match plain {
            true => write!(f, "{}", char::from(byte))?,
            false => write!(f, "%{byte:02x}")?,
        }
    }
    Ok(())
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(spec: &str) -> Result<Filter, FilterError> {
        Filter::parse(spec)
    }
}

/// A filter spec that git would refuse too, for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// No such filter, or a size that is no number.
    #[error("invalid filter-spec '{spec}'")]
    Invalid {
        /// The (decoded) spec.
        spec: String,
    },
    /// `tree:` without a number behind it.
    #[error("expected 'tree:<depth>'")]
    TreeDepth,
    /// `sparse:path=`, which git dropped because it let clients name the server's files.
    #[error("sparse:path filters support has been dropped")]
    SparsePath,
    /// `object:type=` with something that is no kind of object.
    #[error("'{found}' for 'object:type=<type>' is not a valid object type")]
    ObjectType {
        /// What stands there.
        found: String,
    },
    /// `combine:` with nothing behind it.
    #[error("expected something after combine:")]
    EmptyCombine,
    /// A character inside `combine:` that must be percent-encoded.
    #[error("must escape char in sub-filter-spec: '{found}'")]
    Unescaped {
        /// The character.
        found: char,
    },
    /// `auto` is for clone and fetch, which ask the server; it selects nothing by itself.
    #[error("'auto' filter not supported by this command")]
    AutoHere,
    /// `combine:` nested deeper than this crate follows.
    #[error("filters combined more than {limit} levels deep")]
    Nesting {
        /// The limit.
        limit: usize,
    },
    /// A percent-encoded name that is not UTF-8.
    #[error("sub-filter-spec is not UTF-8")]
    NotText,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_c_numbers() {
        for (text, value) in [
            ("0", Some(0)),
            ("1k", Some(1024)),
            ("2M", Some(2 << 20)),
            ("3g", Some(3 << 30)),
            (" +7", Some(7)),
            ("0x10", Some(16)),
            ("0X1fk", Some(31 << 10)),
            ("010", Some(8)),
            ("0k", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("18446744073709551615k", None),
            ("0x", None),
            ("08", None),
            ("-1", None),
            ("1-", None),
            ("1kb", None),
            ("1 k", None),
            ("", None),
            ("k", None),
            ("++1", None),
        ] {
            assert_eq!(number(text), value, "{text:?}");
        }
    }

    #[test]
    fn nesting_has_an_end() {
        let deep = "combine:".repeat(100_000) + "blob:none";
        assert_eq!(Filter::parse(&deep), Err(FilterError::Nesting { limit: MAX_NESTING }));
        let fine = "combine:".repeat(MAX_NESTING) + "blob:none";
        let filter = Filter::parse(&fine).unwrap();
        assert_eq!(filter.to_string(), fine);
    }
}
