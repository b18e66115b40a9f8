//! How git quotes: `GIT_CONFIG_PARAMETERS` as a shell does, paths as C does.
//!
//! A shell's string is `'...'`; inside a git-written string a quote is written `'\''` and an exclamation mark `'\!'`. A
//! path that holds control characters, quotes or backslashes is `"..."` with C's escapes, three octal digits among them.

/// Reads one quoted string at the start of `text`. Gives its bytes and what follows the closing quote.
///
/// `None` if `text` does not start with a quote or the string does not end.
pub(crate) fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"'")?;
    let mut out = Vec::new();
    loop {
        let end = rest.iter().position(|&byte| byte == b'\'')?;
        let (inside, after) = rest.split_at(end);
        out.extend_from_slice(inside);
        let after = &after[1..];
        match after {
            [b'\\', escaped @ (b'\'' | b'!'), b'\'', more @ ..] => {
                out.push(*escaped);
                rest = more;
            }
            _ => return Some((out, after)),
        }
    }
}

/// Reads a path quoted as in C, which is all of `text`. `None` if it is not well formed.
pub(crate) fn unquote_c(text: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?.iter();
    let mut out = Vec::with_capacity(text.len());
    while let Some(&byte) = rest.next() {
        out.push(match byte {
            b'"' => return None,
            b'\\' => match rest.next()? {
                b'a' => 7,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'v' => 11,
                b'f' => 12,
                b'r' => b'\r',
                byte @ (b'"' | b'\\') => *byte,
                first @ b'0'..=b'3' => {
                    let mut digit = || rest.next().filter(|byte| (b'0'..=b'7').contains(byte)).map(|byte| byte - b'0');
                    ((first - b'0') << 6) | (digit()? << 3) | digit()?
                }
                _ => return None,
            },
            byte => byte,
        });
    }
    Some(out)
}

/// Appends a path as git shows it: as it is, or as [`unquote_c`] reads it if it holds control characters, quotes or
/// backslashes. `all`: bytes beyond ASCII are a reason as well, and are not shown (`core.quotePath`).
pub(crate) fn quote_c(path: &[u8], all: bool, out: &mut Vec<u8>) {
    let high = |byte: u8| all && byte >= 0x80;
    // Without an early exit this is done many bytes at a time.
    let special =
        path.iter().fold(false, |any, &b| any | (b < b' ') | (b == b'"') | (b == b'\\') | (b == 0x7f) | high(b));
    if !special {
        out.extend_from_slice(path);
        return;
    }
    out.push(b'"');
    for &byte in path {
        let letter = match byte {
            7 => b'a',
            8 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            11 => b'v',
            12 => b'f',
            b'\r' => b'r',
            b'"' | b'\\' => byte,
            0x00..b' ' | 0x7f => 0,
            _ if high(byte) => 0,
            _ => {
                out.push(byte);
                continue;
            }
        };
        match letter {
            0 => out.extend([b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
            letter => out.extend([b'\\', letter]),
        }
    }
    out.push(b'"');
}

/// Quotes `text` the way [`unquote`] reads it.
#[cfg(test)]
pub(crate) fn quote(text: &[u8]) -> Vec<u8> {
    let mut out = vec![b'\''];
    for &byte in text {
        if matches!(byte, b'\'' | b'!') {
            out.extend_from_slice(&[b'\'', b'\\', byte, b'\'']);
        } else {
            out.push(byte);
        }
    }
    out.push(b'\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for text in [&b""[..], b"plain", b"it's", b"!", b"a'!'b", b"'''", b"\\'x", b"\xff\n"] {
            let mut quoted = quote(text);
            quoted.extend_from_slice(b" tail");
            assert_eq!(unquote(&quoted), Some((text.to_vec(), &b" tail"[..])));
        }
    }

    #[test]
    fn paths() {
        for (text, path) in [
            (&br#""""#[..], &b""[..]),
            (br#""a b""#, b"a b"),
            (br#""\303\244\t\n\"\\\a\000""#, b"\xc3\xa4\t\n\"\\\x07\0"),
        ] {
            assert_eq!(unquote_c(text).as_deref(), Some(path));
        }
        for text in [&b""[..], b"a", b"\"", b"\"a", br#""a"b""#, br#""\""#, br#""\x41""#, br#""\40""#, br#""\400""#] {
            assert_eq!(unquote_c(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn every_byte_comes_back() {
        for byte in 0..=u8::MAX {
            for all in [false, true] {
                let path = [b'a', byte, b'z'];
                let mut quoted = Vec::new();
                quote_c(&path, all, &mut quoted);
                match quoted.starts_with(b"\"") {
                    true => assert_eq!(unquote_c(&quoted).as_deref(), Some(&path[..])),
                    false => assert_eq!(quoted, path),
                }
                let plain = byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\') || byte == b' ';
                assert_eq!(quoted == path, plain || (byte >= 0x80 && !all), "{byte:#x}");
            }
        }
    }

    #[test]
    fn refused() {
        for text in [&b""[..], b"x", b"'open", b"'a'\\''"] {
            assert_eq!(unquote(text), None, "{}", String::from_utf8_lossy(text));
        }
        // A backslash that escapes something else ends the string.
        assert_eq!(unquote(b"'a'\\x'"), Some((b"a".to_vec(), &b"\\x'"[..])));
    }
}
