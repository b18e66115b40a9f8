//! `%(atom)` formats: text with places for what is known about an object.

use object::{ObjectId, ObjectKind};

use crate::report::Failure;

/// What can stand in a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Atom {
    Name,
    Kind,
    Mode,
    Size,
    DiskSize,
    DeltaBase,
    Rest,
}

const ATOMS: &[(&[u8], Atom)] = &[
    (b"objectname", Atom::Name),
    (b"objecttype", Atom::Kind),
    (b"objectmode", Atom::Mode),
    (b"objectsize", Atom::Size),
    (b"objectsize:disk", Atom::DiskSize),
    (b"deltabase", Atom::DeltaBase),
    (b"rest", Atom::Rest),
];

#[derive(Debug)]
enum Part {
    Text(Vec<u8>),
    Atom(Atom),
}

/// A format that was understood.
#[derive(Debug)]
pub(super) struct Format {
    parts: Vec<Part>,
}

/// What a format asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    pub(super) kind: bool,
    pub(super) size: bool,
    pub(super) disk_size: bool,
    pub(super) delta_base: bool,
    pub(super) rest: bool,
}

/// What is known about an object. What was not asked for may be anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'k> {
    pub(super) id: &'k ObjectId,
    pub(super) kind: ObjectKind,
    pub(super) size: u64,
    pub(super) mode: Option<u32>,
    pub(super) disk_size: u64,
    pub(super) delta_base: &'k ObjectId,
    pub(super) rest: &'k [u8],
}

impl Default for Format {
    /// `%(objectname) %(objecttype) %(objectsize)`.
    fn default() -> Self {
        let space = || Part::Text(b" ".to_vec());
        let parts = vec![Part::Atom(Atom::Name), space(), Part::Atom(Atom::Kind), space(), Part::Atom(Atom::Size)];
        Format { parts }
    }
}

impl Format {
    /// Reads a format. `%%` is a percent sign, and so is any other that no parenthesis follows.
    pub(super) fn parse(format: &[u8]) -> Result<Format, Failure> {
        let mut parts = Vec::new();
        let mut text = Vec::new();
        let mut rest = format;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if byte != b'%' {
                text.push(byte);
                continue;
            }
            let Some(inside) = rest.strip_prefix(b"(") else {
                rest = rest.strip_prefix(b"%").unwrap_or(rest);
                text.push(b'%');
                continue;
            };
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let Some(end) = inside.iter().position(|&byte| byte == b')') else {
                let text = format!("bad cat-file format: element '{}' does not end in ')'", shown(rest));
                return Err(Failure::Fatal(text));
            };
            let (name, after) = inside.split_at(end);
            let Some((_, atom)) = ATOMS.iter().find(|(known, _)| *known == name) else {
                return Err(Failure::Fatal(format!("bad cat-file format: %({})", shown(name))));
            };
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(Part::Atom(*atom));
            rest = after.get(1..).unwrap_or_default();
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Format { parts })
    }

    /// What it asks for.
    pub(super) fn wants(&self) -> Wants {
        let has = |atom| self.parts.iter().any(|part| matches!(part, Part::Atom(found) if *found == atom));
        Wants {
            kind: has(Atom::Kind),
            size: has(Atom::Size),
            disk_size: has(Atom::DiskSize),
            delta_base: has(Atom::DeltaBase),
            rest: has(Atom::Rest),
        }
    }

    /// Appends what is known about an object.
    pub(super) fn put(&self, known: &Known<'_>, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Atom(Atom::Name) => out.extend_from_slice(known.id.to_hex().as_bytes()),
                Part::Atom(Atom::Kind) => out.extend_from_slice(known.kind.name().as_bytes()),
                Part::Atom(Atom::Mode) => {
                    if let Some(mode) = known.mode {
                        out.extend_from_slice(format!("{mode:06o}").as_bytes());
                    }
                }
                Part::Atom(Atom::Size) => put_number(known.size, out),
                Part::Atom(Atom::DiskSize) => put_number(known.disk_size, out),
                Part::Atom(Atom::DeltaBase) => out.extend_from_slice(known.delta_base.to_hex().as_bytes()),
                Part::Atom(Atom::Rest) => out.extend_from_slice(known.rest),
            }
        }
    }
}

/// Appends a number in decimal.
pub(super) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20]; // 2^64 - 1 has 20
    let mut at = digits.len();
    while let Some(digit) = digits.get_mut(..at).and_then(<[u8]>::last_mut) {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        at -= 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for number in [0, 7, 10, 4_294_967_296, u64::MAX] {
            let mut out = Vec::new();
            put_number(number, &mut out);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }

    #[test]
    fn formats() {
        let id = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391".parse().unwrap();
        let known = Known {
            id: &id,
            kind: ObjectKind::Blob,
            size: 12,
            mode: Some(0o40000),
            disk_size: 34,
            delta_base: &id,
            rest: b"and so on",
        };
        let put = |format: &str| {
            let mut out = Vec::new();
            Format::parse(format.as_bytes()).map(|format| format.put(&known, &mut out)).map_err(
                |failure| match failure {
                    Failure::Fatal(text) => text,
                    other => panic!("{other:?}"),
                },
            )?;
            Ok::<_, String>(String::from_utf8(out).unwrap())
        };
        assert_eq!(put("%(objecttype)%(objectsize:disk)-%(objectsize)").as_deref(), Ok("blob34-12"));
        assert_eq!(put("100%% %x %(rest)%").as_deref(), Ok("100% %x and so on%"));
        assert_eq!(put("%(objectmode)").as_deref(), Ok("040000"));
        assert_eq!(put(""), Ok(String::new()));
        assert_eq!(put("a%(object)b"), Err("bad cat-file format: %(object)".to_owned()));
        assert_eq!(put("a%(rest"), Err("bad cat-file format: element '(rest' does not end in ')'".to_owned()));
    }
}
