//! Commits: links first, the rest on demand.
//!
//! ```text
//! tree <id>\n
//! parent <id>\n            any number of times
//! author <signature>\n
//! committer <signature>\n
//! <name> <value>\n         more headers; a line that begins with a space continues the value
//! \n
//! <message>
//! ```
//!
//! Git needs the tree line and well-formed parent lines to walk a commit; whatever follows may be odd. So do we.

use crate::{HashKind, ObjectId, ParseError, ParseErrorKind};

/// A commit's content, with its links settled.
#[derive(Debug, Clone, Copy)]
pub struct Commit<'a> {
    content: &'a [u8],
    hash: HashKind,
    tree: ObjectId,
    /// Where the parent lines begin and end. All of the same length, all checked.
    parents: &'a [u8],
    /// What follows the parent lines.
    rest: &'a [u8],
}

impl<'a> Commit<'a> {
    /// Settles the tree and the parents.
    pub fn parse(content: &'a [u8], hash: HashKind) -> Result<Self, ParseError> {
        let (tree, parents_at, mut at) = tree_line(content, hash)?;
        while let Some((_, next)) = parent_line(content, at, hash)? {
            at = next;
        }
        let parents = content.get(parents_at..at).unwrap_or_default();
        Ok(Self { content, hash, tree, parents, rest: content.get(at..).unwrap_or_default() })
    }

    /// The root directory.
    #[inline]
    pub fn tree(&self) -> ObjectId {
        self.tree
    }

    /// The parents, in their order.
    pub fn parents(&self) -> Parents<'a> {
        Parents { lines: self.parents, hash: self.hash }
    }

    /// Who wrote the change.
    pub fn author(&self) -> Result<Signature<'a>, ParseError> {
        self.signature("author")
    }

    /// Who made the commit, and when.
    pub fn committer(&self) -> Result<Signature<'a>, ParseError> {
        self.signature("committer")
    }

    /// The commit's time in seconds since 1970, as git takes it for its walks: 0 if it cannot be read.
    pub fn commit_time(&self) -> u64 {
        commit_time(self.rest)
    }

    /// The headers that follow the parents, `author` and `committer` among them, until the empty line: name and value.
    /// A value that continues on more lines is given whole, with the line feeds and spaces between them.
    pub fn headers(&self) -> Headers<'a> {
        Headers { rest: self.rest }
    }

    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers().find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
    }

    /// The encoding of the message, if it says one; UTF-8 otherwise.
    pub fn encoding(&self) -> Option<&'a [u8]> {
        self.header("encoding")
    }

    /// What follows the headers' empty line; empty if there is none.
    pub fn message(&self) -> &'a [u8] {
        after_headers(self.rest)
    }

    fn signature(&self, what: &'static str) -> Result<Signature<'a>, ParseError> {
        let at = || self.content.len() - self.rest.len();
        let line = self.header(what).ok_or_else(|| ParseError::new(at(), ParseErrorKind::Expected { what }))?;
        Signature::parse(line).ok_or_else(|| ParseError::new(at(), ParseErrorKind::Expected { what: "a signature" }))
    }
}

/// What a walk needs and nothing else: fills `parents` (cleared first) and returns the tree and the commit's time.
///
/// Accepts, and answers, exactly what [`Commit::parse`] does, in one pass.
pub fn links(content: &[u8], hash: HashKind, parents: &mut Vec<ObjectId>) -> Result<(ObjectId, u64), ParseError> {
    parents.clear();
    let (tree, mut at, _) = tree_line(content, hash)?;
    while let Some((id, next)) = parent_line(content, at, hash)? {
        parents.push(id);
        at = next;
    }
    Ok((tree, commit_time(content.get(at..).unwrap_or_default())))
}

/// The parents of a commit, in their order. Made by [`Commit::parents`].
#[derive(Debug, Clone)]
pub struct Parents<'a> {
    lines: &'a [u8],
    hash: HashKind,
}

impl Iterator for Parents<'_> {
    type Item = ObjectId;

    fn next(&mut self) -> Option<ObjectId> {
        let (line, rest) = self.lines.split_at_checked(PARENT.len() + self.hash.hex_len() + 1)?;
        self.lines = rest;
        ObjectId::from_hex_prefix(line.get(PARENT.len()..)?, self.hash)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let lines = self.lines.len() / (PARENT.len() + self.hash.hex_len() + 1);
        (lines, Some(lines))
    }
}

impl ExactSizeIterator for Parents<'_> {}

/// Headers of a commit or tag. Made by [`Commit::headers`].
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    rest: &'a [u8],
}

impl<'a> Headers<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let all = self.rest;
        if all.is_empty() || all.starts_with(b"\n") {
            return None;
        }
        let mut end = line_end(all, 0);
        while all.get(end + 1) == Some(&b' ') {
            end = line_end(all, end + 1);
        }
        let field = all.get(..end)?;
        self.rest = all.get(end + 1..).unwrap_or_default();
        Some(match field.iter().position(|&b| b == b' ') {
            Some(space) => (field.get(..space)?, field.get(space + 1..)?),
            None => (field, &[]),
        })
    }
}

/// Index of the line feed at or after `from`, or the length.
fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
}

/// What follows the first empty line of `rest`, which begins at the start of a line.
pub(crate) fn after_headers(rest: &[u8]) -> &[u8] {
    if let Some(message) = rest.strip_prefix(b"\n") {
        return message;
    }
    match rest.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => rest.get(at + 2..).unwrap_or_default(),
        None => &[],
    }
}

/// Name, address and time of an `author`, `committer` or `tagger` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature<'a> {
    /// The name, without surrounding white space; may be empty.
    pub name: &'a [u8],
    /// What stands between `<` and the next `>`.
    pub email: &'a [u8],
    /// Seconds since 1970; 0 if unreadable. Times beyond 2^63 - 1 are that.
    pub seconds: i64,
    /// The time zone as written, in minutes east of UTC: 90 for `+0130`; 0 if unreadable.
    pub offset: i32,
}

impl<'a> Signature<'a> {
    /// Reads the value of such a line. `None` if it has no `<...>`.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let open = value.iter().position(|&b| b == b'<')?;
        let name = value.get(..open)?.trim_ascii();
        let email = value.get(open + 1..)?;
        let email = email.get(..email.iter().position(|&b| b == b'>')?)?;
        // The last bracket: odd addresses hold more than one, times none.
        let close = value.iter().rposition(|&b| b == b'>')?;
        let mut words = value.get(close + 1..)?.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let seconds = words.next().map_or(0, |word| match word.strip_prefix(b"-") {
            Some(digits) => -(leading_number(digits).min(i64::MAX as u64) as i64),
            None => leading_number(word).min(i64::MAX as u64) as i64,
        });
        let offset = words.next().and_then(zone).unwrap_or(0);
        Some(Self { name, email, seconds, offset })
    }
}

/// `+hhmm` or `-hhmm` in minutes. Odd lengths count their last two digits as minutes, as git does.
fn zone(word: &[u8]) -> Option<i32> {
    let (sign, digits) = match word {
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // No zone is that far from UTC; the limit only keeps the arithmetic in range.
    let number = leading_number(digits).min(99_999) as i32;
    Some(sign * (number / 100 * 60 + number % 100))
}

/// The decimal digits that `text` begins with; 2^64 - 1 if they do not fit; 0 if there are none.
fn leading_number(text: &[u8]) -> u64 {
    text.iter().map_while(|b| b.checked_sub(b'0').filter(|&d| d < 10)).fold(0u64, |value, digit| {
        // `MAX` is sticky: no number below it times ten and more reaches it exactly unless it overflows.
        value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit))).unwrap_or(u64::MAX)
    })
}

const TREE: &[u8] = b"tree ";
const PARENT: &[u8] = b"parent ";

/// The tree, and twice the offset behind its line (the parents' start, and a cursor to move).
#[inline]
fn tree_line(content: &[u8], hash: HashKind) -> Result<(ObjectId, usize, usize), ParseError> {
    let end = TREE.len() + hash.hex_len();
    // Git wants something to follow that line.
    if content.len() <= end + 1 {
        return Err(ParseError::new(content.len(), ParseErrorKind::Truncated { what: "commit" }));
    }
    let line = content.strip_prefix(TREE).filter(|_| content.get(end) == Some(&b'\n'));
    let line = line.ok_or_else(|| ParseError::new(0, ParseErrorKind::Expected { what: "a tree line" }))?;
    let tree = ObjectId::from_hex_prefix(line, hash);
    let tree = tree.ok_or_else(|| ParseError::new(TREE.len(), ParseErrorKind::BadId { what: "tree line" }))?;
    Ok((tree, end + 1, end + 1))
}

/// The parent whose line begins at `at`, and the offset behind it.
#[inline]
fn parent_line(content: &[u8], at: usize, hash: HashKind) -> Result<Option<(ObjectId, usize)>, ParseError> {
    let Some(line) = content.get(at..).and_then(|rest| rest.strip_prefix(PARENT)) else {
        return Ok(None);
    };
    let end = hash.hex_len();
    // A last line too short for an id is some odd header to git, not a parent.
    if line.len() <= end {
        return Ok(None);
    }
    let id = ObjectId::from_hex_prefix(line, hash).filter(|_| line.get(end) == Some(&b'\n') && line.len() > end + 1);
    let id = id.ok_or_else(|| ParseError::new(at, ParseErrorKind::BadId { what: "parent line" }))?;
    Ok(Some((id, at + PARENT.len() + end + 1)))
}

/// The time in the committer line, given what follows the parents. 0 whenever git would say 0.
#[inline]
fn commit_time(rest: &[u8]) -> u64 {
    // Author and committer must be the first two lines: git looks nowhere else.
    if rest.len() <= 6 || !rest.starts_with(b"author") {
        return 0;
    }
    let Some(line) = rest.get(line_end(rest, 0) + 1..) else {
        return 0;
    };
    if line.len() <= 9 || !line.starts_with(b"committer") {
        return 0;
    }
    let end = line_end(line, 0);
    if end == line.len() {
        return 0;
    }
    time_of(line.get(..end).unwrap_or_default())
}

/// The number behind the last `>` of a line.
fn time_of(line: &[u8]) -> u64 {
    let Some(close) = line.iter().rposition(|&b| b == b'>') else {
        return 0;
    };
    let text = line.get(close + 1..).unwrap_or_default();
    // Git's white space: no form feed, no vertical tab.
    let skip = text.iter().position(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n')).unwrap_or(text.len());
    match text.get(skip..).unwrap_or_default() {
        // C's strtoumax wraps negative numbers round; such times are all far in the future.
        [b'-', digits @ ..] => match leading_number(digits) {
            u64::MAX => u64::MAX,
            number => number.wrapping_neg(),
        },
        digits => leading_number(digits),
    }
}
