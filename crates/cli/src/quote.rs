//! The quoting of `GIT_CONFIG_PARAMETERS`: shell single quotes as git writes them.
//!
//! A quoted string is `'...'`; inside a git-written string a quote is written `'\''` and an exclamation mark `'\!'`.

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
    fn refused() {
        for text in [&b""[..], b"x", b"'open", b"'a'\\''"] {
            assert_eq!(unquote(text), None, "{}", String::from_utf8_lossy(text));
        }
        // A backslash that escapes something else ends the string.
        assert_eq!(unquote(b"'a'\\x'"), Some((b"a".to_vec(), &b"\\x'"[..])));
    }
}
