//! Annotated tags.
//!
//! ```text
//! object <id>\n
//! type <kind>\n
//! tag <name>\n
//! tagger <signature>\n     missing in very old ones
//! <name> <value>\n         more headers
//! \n
//! <message>
//! ```

use crate::{
    HashKind, ObjectId, ObjectKind, ParseError, ParseErrorKind,
    commit::{Headers, Signature, after_headers},
};

/// A tag's content, with what it points at settled.
#[derive(Debug, Clone, Copy)]
pub struct Tag<'a> {
    target: ObjectId,
    target_kind: ObjectKind,
    name: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Tag<'a> {
    /// Settles target, kind and name; what follows may be odd, as for git.
    pub fn parse(content: &'a [u8], hash: HashKind) -> Result<Self, ParseError> {
        // Git's own least size: "object ", "\n", "type ", a kind of three, "\n", "tag ", and three more.
        if content.len() < hash.hex_len() + 24 {
            return Err(ParseError::new(content.len(), ParseErrorKind::Truncated { what: "tag" }));
        }
        let line = content.strip_prefix(b"object ");
        let line = line.ok_or_else(|| ParseError::new(0, ParseErrorKind::Expected { what: "an object line" }))?;
        let target = ObjectId::from_hex_prefix(line, hash).filter(|_| line.get(hash.hex_len()) == Some(&b'\n'));
        let target = target.ok_or_else(|| ParseError::new(7, ParseErrorKind::BadId { what: "object line" }))?;
        let at = 7 + hash.hex_len() + 1;
        let (kind, at_name) = field(content, at, b"type ", "a type line")?;
        // A C string to git, as the name is; one that it has room for.
        let kind = kind.split(|&b| b == 0).next().filter(|_| kind.len() < 20).and_then(ObjectKind::from_name);
        let target_kind = kind.ok_or_else(|| ParseError::new(at + 5, ParseErrorKind::UnknownKind))?;
        let (name, at_rest) = field(content, at_name, b"tag ", "a tag line")?;
        // It ends at a NUL.
        let name = name.split(|&b| b == 0).next().unwrap_or_default();
        Ok(Self { target, target_kind, name, rest: content.get(at_rest..).unwrap_or_default() })
    }

    /// What it points at.
    #[inline]
    pub fn target(&self) -> ObjectId {
        self.target
    }

    /// What the target is said to be.
    #[inline]
    pub fn target_kind(&self) -> ObjectKind {
        self.target_kind
    }

    /// The tag's own name, without `refs/tags/`.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Who made it, and when; `None` if it does not say, or not readably.
    pub fn tagger(&self) -> Option<Signature<'a>> {
        let (_, value) = self.headers().find(|(name, _)| *name == b"tagger")?;
        Signature::parse(value)
    }

    /// The headers that follow the name.
    pub fn headers(&self) -> Headers<'a> {
        Headers::new(self.rest)
    }

    /// What follows the headers' empty line; a signature, if any, is its end.
    pub fn message(&self) -> &'a [u8] {
        after_headers(self.rest)
    }
}

/// The value of the line at `at`, which must begin with `name`; and the offset behind that line.
fn field<'a>(content: &'a [u8], at: usize, name: &[u8], what: &'static str) -> Result<(&'a [u8], usize), ParseError> {
    let value = content.get(at..).and_then(|rest| rest.strip_prefix(name));
    let value = value.ok_or_else(|| ParseError::new(at, ParseErrorKind::Expected { what }))?;
    let Some(end) = value.iter().position(|&b| b == b'\n') else {
        return Err(ParseError::new(content.len(), ParseErrorKind::Truncated { what }));
    };
    Ok((value.get(..end).unwrap_or_default(), at + name.len() + end + 1))
}
