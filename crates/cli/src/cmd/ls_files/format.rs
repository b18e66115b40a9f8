//! `--format`.

use index::{Entry, Mode};
use odb::Store;

use super::Out;
use crate::abbreviate::Abbreviator;
use crate::report::Failure;

/// A format, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Format(Vec<Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Text(Vec<u8>),
    Mode,
    Name,
    Type,
    Size {
        padded: bool,
    },
    Stage,
    Path,
    /// What is no token: an error when an entry is to be shown by it, as in git, and none if there is no entry.
    Bad(String),
}

/// Atoms and what they stand for.
const ATOMS: &[(&[u8], Token)] = &[
    (b"(objectmode)", Token::Mode),
    (b"(objectname)", Token::Name),
    (b"(objecttype)", Token::Type),
    (b"(objectsize)", Token::Size { padded: false }),
    (b"(objectsize:padded)", Token::Size { padded: true }),
    (b"(stage)", Token::Stage),
    (b"(path)", Token::Path),
];

/// Atoms that need files and their attributes.
const REFUSED: &[&str] = &["eolinfo:index", "eolinfo:worktree", "eolattr"];

impl Format {
    pub(super) fn parse(mut text: &[u8]) -> Result<Format, Failure> {
        let mut tokens = Vec::new();
        while let Some(at) = text.iter().position(|byte| *byte == b'%') {
            let (before, behind) = text.split_at(at);
            let behind = behind.get(1..).unwrap_or_default();
            tokens.push(Token::Text(before.into()));
            if let Some((byte, len)) = literal(behind) {
                tokens.push(Token::Text(vec![byte]));
                text = behind.get(len..).unwrap_or_default();
            } else if let Some((atom, token)) = ATOMS.iter().find(|(atom, _)| behind.starts_with(atom)) {
                tokens.push(token.clone());
                text = behind.get(atom.len()..).unwrap_or_default();
            } else {
                let refused = |name: &&&str| behind.starts_with(format!("({name})").as_bytes());
                if let Some(name) = REFUSED.iter().find(refused) {
                    return Err(Failure::Usage(format!("error: format `{name}' is not supported yet\n")));
                }
                tokens.push(Token::Bad(why_bad(behind)));
                return Ok(Format(tokens));
            }
        }
        tokens.push(Token::Text(text.into()));
        Ok(Format(tokens))
    }

    /// Whether objects have to be looked at.
    pub(super) fn needs_objects(&self) -> bool {
        self.0.iter().any(|token| matches!(token, Token::Size { .. }))
    }

    pub(super) fn expand(
        &self,
        entry: &Entry<'_>,
        store: Option<&Store>,
        abbreviator: Option<&Abbreviator>,
        out: &mut Out,
    ) -> Result<(), Failure> {
        for token in &self.0 {
            match token {
                Token::Text(text) => out.bytes.extend_from_slice(text),
                Token::Mode => out.mode(entry.mode()),
                Token::Name => out.id(&entry.id(), abbreviator),
                Token::Type => out.bytes.extend_from_slice(kind(entry.mode()).as_bytes()),
                Token::Size { padded } => {
                    let size = size(entry, store)?;
                    let width = if *padded { 7 } else { 0 };
                    out.bytes.extend_from_slice(format!("{size:>width$}").as_bytes());
                }
                Token::Stage => out.bytes.push(b'0' + entry.stage() as u8),
                Token::Path => out.path(entry.path()),
                Token::Bad(why) => return Err(Failure::Fatal(why.clone())),
            }
        }
        Ok(())
    }
}

/// The byte that stands for itself behind a `%`, and how long that is.
fn literal(behind: &[u8]) -> Option<(u8, usize)> {
    let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
    match behind.first()? {
        b'%' => Some((b'%', 1)),
        b'n' => Some((b'\n', 1)),
        b'x' => Some(((digit(1)? << 4 | digit(2)?) as u8, 3)),
        _ => None,
    }
}

fn why_bad(behind: &[u8]) -> String {
    let shown = String::from_utf8_lossy(behind);
    if !behind.starts_with(b"(") {
        return format!("bad ls-files format: element '{shown}' does not start with '('");
    }
    match shown.find(')') {
        None => format!("bad ls-files format: element '{shown}' does not end in ')'"),
        Some(end) => format!("bad ls-files format: %{}", &shown[..=end]),
    }
}

fn kind(mode: Mode) -> &'static str {
    match mode {
        mode if mode.is_tree() => "tree",
        mode if mode.is_gitlink() => "commit",
        _ => "blob",
    }
}

/// The size of a blob; `-` for all else.
fn size(entry: &Entry<'_>, store: Option<&Store>) -> Result<String, Failure> {
    if kind(entry.mode()) != "blob" {
        return Ok("-".to_owned());
    }
    let id = entry.id();
    let header = store.map(|store| store.header(&id));
    let header = header.and_then(Result::ok);
    let header = header.ok_or_else(|| Failure::Fatal(format!("could not get object info about '{id}'")))?;
    Ok(header.size.to_string())
}
