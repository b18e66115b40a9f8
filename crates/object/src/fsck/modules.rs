//! Blobs that a tree calls `.gitmodules`: what a submodule may be named, and where it may come from.
//!
//! | key of `[submodule "name"]` | refused |
//! |---|---|
//! | any | a name that is empty, or has a component `..`, between `/` or `\` |
//! | `url` | see `url.rs` |
//! | `path` | one that begins with `-`, and so would be taken for an option |
//! | `update` | one that begins with `!`, which is a command |

use super::config::{self, Visitor};
use super::{Detail, MessageId, Report, Sink, url};

pub(super) fn check<S: Sink>(content: &[u8], report: &mut Report<'_, S>) {
    let mut modules = Modules { name: None, key: None, told: false, report };
    if config::read(content, &mut modules).is_err() {
        let _ = report.say(MessageId::GitmodulesParse, Detail::None);
    }
}

struct Modules<'m, 'r, S> {
    /// Of the submodule that the section is about.
    name: Option<Vec<u8>>,
    /// What every key of the section is taken for, if a NUL in its name hides them: to git all names are C strings.
    key: Option<Vec<u8>>,
    /// Whether the section's name was told of: once, however many keys follow.
    told: bool,
    report: &'m mut Report<'r, S>,
}

impl<S: Sink> Visitor for Modules<'_, '_, S> {
    fn section(&mut self, name: &[u8]) {
        (self.name, self.key, self.told) = (None, None, false);
        let Some(rest) = name.strip_prefix(b"submodule.") else { return };
        match memchr::memchr(0, rest).and_then(|nul| rest.get(..nul)) {
            None => self.name = Some(rest.to_vec()),
            Some(seen) => {
                let Some(dot) = memchr::memrchr(b'.', seen) else { return };
                self.name = seen.get(..dot).map(<[u8]>::to_vec);
                self.key = seen.get(dot + 1..).map(<[u8]>::to_vec);
            }
        }
    }

    fn key(&mut self, key: &[u8], value: Option<&[u8]>) {
        let Some(name) = &self.name else { return };
        if !self.told {
            self.told = true;
            if is_bad_name(name) {
                let _ = self.report.say(MessageId::GitmodulesName, Detail::Text(name));
            }
        }
        let Some(value) = value.and_then(|value| value.split(|&byte| byte == 0).next()) else { return };
        let (id, bad) = match self.key.as_deref().unwrap_or(key) {
            b"url" => (MessageId::GitmodulesUrl, url::is_bad(value)),
            b"path" => (MessageId::GitmodulesPath, value.starts_with(b"-")),
            b"update" => (MessageId::GitmodulesUpdate, value.starts_with(b"!")),
            _ => return,
        };
        if bad {
            let _ = self.report.say(id, Detail::Text(value));
        }
    }
}

/// A name becomes a path below `.git/modules`.
fn is_bad_name(name: &[u8]) -> bool {
    name.is_empty() || name.split(|byte| matches!(byte, b'/' | b'\\')).any(|component| component == b"..")
}
