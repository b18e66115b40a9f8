//! `packstone show-index`: git-show-index.

use std::ffi::OsString;
use std::io::{self, BufReader, BufWriter, Read, Write};

use object::{HashKind, ObjectId};

use crate::env::Environment;
use crate::options::{Given, Spec, Table, Takes};
use crate::report::{self, Failure, plain_io};
use crate::setup::Repository;
use crate::stdio;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Lists what the index of a pack (.idx) on standard input holds, one object a line in the order of the file: the offset in
the pack, the object's id, and in parentheses the CRC-32 of the packed bytes (an index of version 1 has none).

Only what is listed is checked: neither the order nor the checksums of the file are.

Exit code: 0 done; 128 with `fatal: ...`; 129 for a wrong command line.
";

/// How an index of version 2 or later begins.
const SIGNATURE: [u8; 4] = *b"\xfftOc";

#[derive(Debug, Default)]
struct Typed {
    object_format: Option<String>,
}

const TABLE: Table<Typed> = Table {
    usage: &["packstone show-index [--object-format=<hash-algorithm>] < <pack-idx-file>"],
    options: &[Spec {
        short: None,
        long: "object-format",
        takes: Takes::Value("hash-algorithm"),
        negatable: true,
        hidden: false,
        help: "specify the hash algorithm to use",
        set: |typed, _, given| {
            typed.object_format = match given {
                Given::Value(name) => Some(name.to_string_lossy().into_owned()),
                _ => None,
            };
            Ok(())
        },
    }],
};

/// The help page.
pub(crate) fn page() -> String {
    TABLE.page(ABOUT)
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    let mut typed = Typed::default();
    TABLE.parse(words, &mut typed)?;
    let hash = match &typed.object_format {
        Some(name) => HashKind::from_name(name).ok_or_else(|| Failure::fatal("Unknown hash algorithm"))?,
        // It also works where there is no repository.
        None => Repository::find(env).map(|repo| repo.hash).unwrap_or_else(|_| {
            report::warning("assuming SHA-1; use --object-format to override");
            HashKind::Sha1
        }),
    };
    let out = stdio::stdout()?;
    let mut out = BufWriter::with_capacity(stdio::BLOCK, out);
    let listed = list(&mut BufReader::with_capacity(stdio::BLOCK, io::stdin().lock()), hash, &mut out);
    let flushed = out.flush().map_err(stdio::failed);
    listed.and(flushed)
}

/// Lists the index that `input` holds. Memory grows with what is really there, whatever the fan-out table says.
fn list(input: &mut impl Read, hash: HashKind, out: &mut impl Write) -> Result<(), Failure> {
    let head = table(input, 1, 8)?.ok_or_else(|| Failure::fatal("unable to read header"))?;
    let is_v1 = !head.starts_with(&SIGNATURE);
    if !is_v1 && head.get(4..) != Some(&[0, 0, 0, 2]) {
        return Err(Failure::fatal("unknown index version"));
    }
    let mut fanout = if is_v1 { head } else { Vec::new() };
    let rest = table(input, 1, 1024 - fanout.len())?.ok_or_else(|| Failure::fatal("unable to read index"))?;
    fanout.extend_from_slice(&rest);
    let mut count = 0;
    for total in fanout.chunks_exact(4).map(number) {
        if total < count {
            return Err(Failure::fatal("corrupt index file"));
        }
        count = total;
    }
    if is_v1 { list_v1(input, hash, count, out) } else { list_v2(input, hash, count, out) }
}

fn list_v1(input: &mut impl Read, hash: HashKind, count: u32, out: &mut impl Write) -> Result<(), Failure> {
    for nth in 0..count {
        let entry = table(input, 1, 4 + hash.len())?
            .ok_or_else(|| Failure::Fatal(format!("unable to read entry {nth}/{count}")))?;
        let (offset, id) = entry.split_at(4);
        let id = ObjectId::from_bytes(id).map_err(Failure::fatal)?;
        writeln!(out, "{} {id}", number(offset)).map_err(stdio::failed)?;
    }
    Ok(())
}

fn list_v2(input: &mut impl Read, hash: HashKind, count: u32, out: &mut impl Write) -> Result<(), Failure> {
    let mut part = |what: &str, width: usize| match table(input, count, width)? {
        Some(bytes) => Ok(bytes),
        None => Err(Failure::Fatal(format!("unable to read {what} of {count} objects"))),
    };
    let ids = part("the ids", hash.len())?;
    let crcs = part("the CRCs", 4)?;
    let offsets = part("the 32-bit offsets", 4)?;
    let mut wide = 0;
    for ((id, crc), offset) in ids.chunks_exact(hash.len()).zip(crcs.chunks_exact(4)).zip(offsets.chunks_exact(4)) {
        let mut offset = u64::from(number(offset));
        if offset & 0x8000_0000 != 0 {
            // Wide offsets are stored in the order in which objects refer to them, as git writes them.
            if offset & 0x7fff_ffff != wide {
                return Err(Failure::fatal("inconsistent 64b offset index"));
            }
            let bytes =
                table(input, 1, 8)?.ok_or_else(|| Failure::Fatal(format!("unable to read 64b offset {wide}")))?;
            offset = u64::from_be_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
            wide += 1;
        }
        let id = ObjectId::from_bytes(id).map_err(Failure::fatal)?;
        writeln!(out, "{offset} {id} ({:08x})", number(crc)).map_err(stdio::failed)?;
    }
    Ok(())
}

/// The next `count` records of `width` bytes; `None` if the input ends before.
fn table(input: &mut impl Read, count: u32, width: usize) -> Result<Option<Vec<u8>>, Failure> {
    let len = u64::from(count) * width as u64;
    let mut bytes = Vec::new();
    input
        .take(len)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::Fatal(format!("cannot read standard input: {}", plain_io(&error))))?;
    Ok((bytes.len() as u64 == len).then_some(bytes))
}

/// Big-endian, 32 bits.
fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
