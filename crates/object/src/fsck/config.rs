//! The syntax of git's configuration files, of which `.gitmodules` is one: read once, without recursion, nothing
//! included.
//!
//! Facts from git-config, "Syntax", and from what git accepts.

/// A file that cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// What there is to say of a file, in its order.
pub(super) trait Visitor {
    /// A section begins: its name in lower case, for `[name "sub"]` a dot and what stands between the quotes.
    fn section(&mut self, name: &[u8]);
    /// A key, in lower case; its value, if it has one. Of keys in front of the first section nothing is told.
    fn key(&mut self, key: &[u8], value: Option<&[u8]>);
}

/// Tells what the text says, up to its end or to what is malformed.
pub(super) fn read(text: &[u8], visitor: &mut impl Visitor) -> Result<(), Malformed> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut chars = Chars { text, at: 0 };
    let (mut name, mut value) = (Vec::new(), Vec::new());
    let mut in_section = false;
    loop {
        match chars.next() {
            None => return Ok(()),
            Some(b'\n' | b' ' | b'\t' | b'\r') => {}
            Some(b'#' | b';') => chars.skip_line(),
            Some(b'[') => {
                section(&mut chars, &mut name)?;
                in_section = true;
                visitor.section(&name);
            }
            Some(first) if first.is_ascii_alphabetic() => {
                name.clear();
                name.push(first.to_ascii_lowercase());
                let mut next = chars.line();
                while let Some(byte) = next.filter(|&byte| is_key(byte)) {
                    name.push(byte.to_ascii_lowercase());
                    next = chars.line();
                }
                while let Some(b' ' | b'\t') = next {
                    next = chars.line();
                }
                let has_value = match next {
                    None => false,
                    Some(b'=') => {
                        self::value(&mut chars, &mut value)?;
                        true
                    }
                    Some(_) => return Err(Malformed),
                };
                if in_section {
                    visitor.key(&name, has_value.then_some(&value));
                }
            }
            Some(_) => return Err(Malformed),
        }
    }
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// What stands between `[` and `]`.
fn section(chars: &mut Chars<'_>, name: &mut Vec<u8>) -> Result<(), Malformed> {
    name.clear();
    loop {
        match chars.line().ok_or(Malformed)? {
            b']' if name.is_empty() => return Err(Malformed),
            b']' => return Ok(()),
            b' ' | b'\t' | b'\r' => break,
            byte if is_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
            _ => return Err(Malformed),
        }
    }
    while let Some(byte) = chars.line() {
        match byte {
            b' ' | b'\t' | b'\r' => {}
            b'"' => {
                name.push(b'.');
                return sub_section(chars, name);
            }
            _ => return Err(Malformed),
        }
    }
    Err(Malformed)
}

/// What stands between the quotes, and the `]`.
fn sub_section(chars: &mut Chars<'_>, name: &mut Vec<u8>) -> Result<(), Malformed> {
    loop {
        match chars.line().ok_or(Malformed)? {
            b'"' => break,
            b'\\' => name.push(chars.line().ok_or(Malformed)?),
            byte => name.push(byte),
        }
    }
    match chars.line() {
        Some(b']') => Ok(()),
        _ => Err(Malformed),
    }
}

/// What stands behind `=`, up to the end of the line that is not escaped.
fn value(chars: &mut Chars<'_>, value: &mut Vec<u8>) -> Result<(), Malformed> {
    value.clear();
    // White space at the end does not count, unless it is quoted: what counts ends here.
    let mut end = 0;
    let mut quoted = false;
    loop {
        let byte = match chars.line() {
            None if quoted => return Err(Malformed),
            None => break,
            Some(byte) => byte,
        };
        match byte {
            b' ' | b'\t' | b'\r' if !quoted => {
                if end > 0 {
                    value.push(byte);
                }
                continue;
            }
            b'#' | b';' if !quoted => {
                chars.skip_line();
                break;
            }
            b'"' => {
                quoted = !quoted;
                continue;
            }
            b'\\' => match chars.line() {
                None => continue,
                Some(b't') => value.push(b'\t'),
                Some(b'b') => value.push(8),
                Some(b'n') => value.push(b'\n'),
                Some(byte @ (b'\\' | b'"')) => value.push(byte),
                Some(_) => return Err(Malformed),
            },
            byte => value.push(byte),
        }
        end = value.len();
    }
    value.truncate(end);
    Ok(())
}

/// Bytes of a text in which `\r\n` ends a line like `\n`.
struct Chars<'t> {
    text: &'t [u8],
    at: usize,
}

impl Chars<'_> {
    /// The next byte; `None` at the end.
    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        if byte == b'\r' && self.text.get(self.at) == Some(&b'\n') {
            self.at += 1;
            return Some(b'\n');
        }
        Some(byte)
    }

    /// The next byte of the line; `None` at its end, which is used up.
    fn line(&mut self) -> Option<u8> {
        self.next().filter(|&byte| byte != b'\n')
    }

    fn skip_line(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
    }
}
