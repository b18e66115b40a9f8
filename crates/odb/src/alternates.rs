//! The syntax of alternates: the file `info/alternates` and the list in the environment.
//!
//! Both name object directories, in order of preference (gitrepository-layout, "objects/info/alternates"; git(1),
//! "GIT_ALTERNATE_OBJECT_DIRECTORIES"). The file has one path a line, the list is separated as `PATH` is. In both
//! an item that begins with `#` is a comment, an empty one is skipped, and one that begins with `"` is quoted as in C, so
//! that it may hold the separator. Nothing is trimmed: a carriage return or a space at the end belongs to the path.

use std::path::PathBuf;

use crate::platform;

/// The separator of the environment's list on this platform: `;` on Windows, `:` elsewhere.
pub const LIST_SEPARATOR: u8 = if cfg!(windows) { b';' } else { b':' };

/// The paths of an `info/alternates` file, as written. Relative ones are relative to the *objects* directory that
/// holds the file's `info/`. The last line needs no line feed.
///
/// ```
/// use packstone_odb::alternates::parse_file;
/// use std::path::PathBuf;
///
/// let paths = parse_file(b"# shared\n../../base/objects\n\n\"/with\\nline\"\n");
/// assert_eq!(paths, [PathBuf::from("../../base/objects"), PathBuf::from("/with\nline")]);
/// ```
#[must_use]
pub fn parse_file(bytes: &[u8]) -> Vec<PathBuf> {
    parse(bytes, b'\n')
}

/// The paths of `GIT_ALTERNATE_OBJECT_DIRECTORIES`, as written, for [`Options::alternates`](crate::Options::alternates).
///
/// ```
/// # #[cfg(unix)] {
/// use packstone_odb::alternates::parse_list;
/// use std::path::PathBuf;
///
/// let paths = parse_list(br#""/a:b/q\"uo/objects":/c/objects"#);
/// assert_eq!(paths, [PathBuf::from("/a:b/q\"uo/objects"), PathBuf::from("/c/objects")]);
/// # }
/// ```
#[must_use]
pub fn parse_list(bytes: &[u8]) -> Vec<PathBuf> {
    parse(bytes, LIST_SEPARATOR)
}

/// The list that [`parse_list`] reads, for `GIT_ALTERNATE_OBJECT_DIRECTORIES` of another process: paths that hold the
/// separator, or could be taken for something else, are quoted.
///
/// ```
/// # #[cfg(unix)] {
/// use packstone_odb::alternates::{format_list, parse_list};
///
/// let paths = ["/srv/co:lon.git/objects".as_ref(), "/plain".as_ref()];
/// let list = format_list(paths);
/// assert_eq!(list, br#""/srv/co:lon.git/objects":/plain"#);
/// assert_eq!(parse_list(&list), paths);
/// # }
/// ```
#[must_use]
pub fn format_list<'p>(paths: impl IntoIterator<Item = &'p std::path::Path>) -> Vec<u8> {
    let mut out = Vec::new();
    for path in paths {
        let bytes = path.as_os_str().as_encoded_bytes();
        if !out.is_empty() {
            out.push(LIST_SEPARATOR);
        }
        if !bytes.contains(&LIST_SEPARATOR) && !matches!(bytes.first(), Some(b'"' | b'#')) {
            out.extend_from_slice(bytes);
            continue;
        }
        out.push(b'"');
        for &byte in bytes {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
    out
}

fn parse(mut rest: &[u8], separator: u8) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    while !rest.is_empty() {
        // A quoted path may hold separators, so quoting comes first. Broken quoting is no quoting: the item is taken
        // literally, up to the next separator.
        let quoted = unquote(rest).filter(|(_, after)| after.first().is_none_or(|&byte| byte == separator));
        let (path, after) = match quoted {
            Some((path, after)) => (path, after),
            None => {
                let end = rest.iter().position(|&byte| byte == separator).unwrap_or(rest.len());
                let (item, after) = rest.split_at(end);
                let item = if item.first() == Some(&b'#') { &[] } else { item };
                (item.to_vec(), after)
            }
        };
        if !path.is_empty() {
            paths.extend(platform::path_from_bytes(&path));
        }
        rest = after.get(1..).unwrap_or_default();
    }
    paths
}

/// Takes a C-quoted string off the front: its meaning, and what follows the closing quote. `None` if there is none.
fn unquote(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = bytes.strip_prefix(b"\"")?;
    let mut out = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((out, rest)),
            b'\\' => {
                let (&escape, after) = rest.split_first()?;
                rest = after;
                out.push(match escape {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'r' => b'\r',
                    b'\\' | b'"' => escape,
                    // Three octal digits, at most 377.
                    b'0'..=b'3' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        digits.iter().try_fold(escape - b'0', |value, &digit| match digit {
                            b'0'..=b'7' => Some(value << 3 | (digit - b'0')),
                            _ => None,
                        })?
                    }
                    _ => return None,
                });
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[track_caller]
    fn file(bytes: &[u8], want: &[&[u8]]) {
        let got = parse_file(bytes);
        let got: Vec<&[u8]> = got.iter().map(|path| path.as_os_str().as_bytes()).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn o5_file_syntax() {
        file(b"", &[]);
        file(b"/a\n", &[b"/a"]);
        file(b"/a", &[b"/a"]);
        file(b"/a\n\n\n/b", &[b"/a", b"/b"]);
        file(b"#/a\n/b\n#", &[b"/b"]);
        file(b"/a#b\n", &[b"/a#b"]);
        file(b"/a\r\n", &[b"/a\r"]);
        file(b"/a \n /b\n", &[b"/a ", b" /b"]);
        file(b"../x/objects/\n", &[b"../x/objects/"]);
        file(b"\"/a\\tb\\\\c\\\"\"\n/d", &[b"/a\tb\\c\"", b"/d"]);
        file(b"\"/oct\\303\\244l\"\n", &[b"/oct\xc3\xa4l"]);
        file(b"\"/two\nlines\"\n/b\n", &[b"/two\nlines", b"/b"]);
    }

    #[test]
    fn o5_broken_quoting_is_literal() {
        file(b"\"/a\n/b\n", &[b"\"/a", b"/b"]);
        file(b"\"/a\\q\"\n", &[b"\"/a\\q\""]);
        file(b"\"/a\\400\"\n", &[b"\"/a\\400\""]);
        file(b"\"/a\\38\"\n", &[b"\"/a\\38\""]);
        file(b"\"/a\\", &[b"\"/a\\"]);
        file(b"\"/a\"x\n/b", &[b"\"/a\"x", b"/b"]);
        file(b"\"\"\n\"", &[b"\""]);
    }

    #[test]
    fn o5_list_in_the_environment() {
        let got = parse_list(b"\"/x/q\\\"u:o/objects\":/c/objects::#no:/d");
        assert_eq!(got, ["/x/q\"u:o/objects", "/c/objects", "/d"].map(PathBuf::from));
    }
}
