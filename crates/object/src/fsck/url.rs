//! Where a submodule may come from.
//!
//! Refused is what would be taken for an option; a line end, in plain text or as `%0a`, in a URL that git itself or
//! curl would send on, since a line of the attacker's own could follow it; and a URL for curl that has no host, or else
//! is malformed. A relative URL that leaves the one it is relative to may become any of that, so behind the `../` no
//! `/` or `:` may stand.
//!
//! Nothing is refused that only makes no sense. Facts from git's release notes on CVE-2018-17456, CVE-2020-5260 and
//! CVE-2020-11008, and from what git refuses.

/// Whether this may not be the URL of a submodule. Linear.
pub(super) fn is_bad(url: &[u8]) -> bool {
    if url.starts_with(b"-") {
        return true;
    }
    if is_relative(url) {
        return has_line_end(url) || leaves(url);
    }
    if url.starts_with(b"git://") {
        return has_line_end(url);
    }
    let schemes = [&b"http"[..], b"https", b"ftp", b"ftps"];
    let for_curl = schemes.iter().find_map(|scheme| {
        let rest = url.strip_prefix(*scheme)?;
        // `http::URL` asks for the helper, whatever the URL's own scheme.
        rest.strip_prefix(b"::").or(rest.starts_with(b"://").then_some(url))
    });
    for_curl.is_some_and(|url| !matches!(is_wellformed(url), Some(false)))
}

fn is_relative(url: &[u8]) -> bool {
    matches!(url, [b'.', b'/' | b'\\', ..] | [b'.', b'.', b'/' | b'\\', ..])
}

/// Whether nothing is left of a relative URL's beginning but what could become a host or a port.
fn leaves(mut url: &[u8]) -> bool {
    let mut up = false;
    loop {
        url = match url {
            [b'.', b'/' | b'\\', rest @ ..] => rest,
            [b'.', b'.', b'/' | b'\\', rest @ ..] => {
                up = true;
                rest
            }
            _ => return up && matches!(url, [b'/' | b':', ..]),
        };
    }
}

/// Whether a line end is in it, plainly or escaped. In front of the first colon nothing is unescaped.
fn has_line_end(url: &[u8]) -> bool {
    let escaped = match memchr::memchr(b':', url) {
        Some(colon) if colon > 0 => url.get(colon..).unwrap_or_default(),
        _ => url,
    };
    memchr::memchr(b'\n', url).is_some() || has_escaped_line_end(escaped)
}

fn has_escaped_line_end(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text).any(|at| matches!(text.get(at..), Some([_, b'0', b'a' | b'A', ..])))
}

/// `None` for a malformed URL; else whether it holds a line end, when components `..` have taken away what they take
/// away.
fn is_wellformed(url: &[u8]) -> Option<bool> {
    let colon = url.iter().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')))?;
    let (scheme, rest) = url.split_at_checked(colon).filter(|_| url.first().is_some_and(u8::is_ascii_alphabetic))?;
    let rest = rest.strip_prefix(b"://")?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at_checked(end)?;
    let (user, host) = match memchr::memchr(b'@', authority) {
        Some(at) => (authority.get(..at)?, authority.get(at + 1..)?),
        None => (&b""[..], authority),
    };
    if !escapes_are_sound(user) || !is_host(host, scheme.eq_ignore_ascii_case(b"file")) || !escapes_are_sound(rest) {
        return None;
    }
    let end = rest.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(rest.len());
    let (path, query) = rest.split_at_checked(end)?;
    let line_end = |text: &[u8]| memchr::memchr(b'\n', text).is_some() || has_escaped_line_end(text);
    // Whether each component that is still there holds one.
    let mut components = Vec::new();
    for component in path.strip_prefix(b"/").into_iter().flat_map(|path| path.split(|&byte| byte == b'/')) {
        match dots(component) {
            Some(1) => {}
            Some(2) => drop(components.pop()?),
            _ => components.push(line_end(component)),
        }
    }
    Some(line_end(user) || line_end(query) || components.contains(&true))
}

/// How many dots a component consists of, be they escaped or not; `None` if of anything else.
fn dots(mut component: &[u8]) -> Option<usize> {
    let mut dots = 0;
    while !component.is_empty() {
        component = match component {
            [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] => rest,
            _ => return None,
        };
        dots += 1;
    }
    Some(dots)
}

/// Whether two hexadecimal digits follow each `%`.
fn escapes_are_sound(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text).all(
        |at| matches!(text.get(at..), Some([_, high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit()),
    )
}

/// A host, perhaps with a port. Only for files it may be left out, and then a port as well.
fn is_host(host: &[u8], may_be_empty: bool) -> bool {
    if host.is_empty() {
        return may_be_empty;
    }
    let colon =
        memchr::memrchr(b':', host).filter(|&colon| host.get(colon..).is_some_and(|tail| !tail.contains(&b']')));
    let (name, port) = host.split_at_checked(colon.unwrap_or(host.len())).unwrap_or((host, b""));
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'[' | b']' | b':');
    let port = port.strip_prefix(b":").unwrap_or_default();
    let number = port.iter().try_fold(0u32, |sum, digit| match digit {
        b'0'..=b'9' => Some((sum * 10 + u32::from(digit - b'0')).min(1 << 16)),
        _ => None,
    });
    let port_is_sound = port.is_empty() || matches!(number, Some(1..=0xffff));
    let is_there = host.first() != Some(&b':') || (may_be_empty && port.is_empty());
    is_there && name.iter().all(allowed) && port_is_sound
}
