//! The extensions, each by itself and against the entries.

use object::{Checksum, HashKind, ObjectId};

use super::entries::{Entries, Seen};
use super::{Findings, shown};
use crate::entry::Mode;
use crate::error::ExtError;
use crate::ext::{self, CacheTree, Cursor, Extensions, Fsmonitor, Item, Link, ResolveUndo, Untracked, eoie, ieot};
use crate::path::{self, PathChecks};

/// Looks at all extensions. `count`: how many entries there are, those of a shared index included, if that is known.
pub(super) fn look(
    bytes: &[u8],
    kind: HashKind,
    entries: &Entries,
    count: Option<usize>,
    findings: &mut Findings,
) -> Seen {
    let mut seen = Seen::default();
    let Some(start) = entries.end else { return seen };
    let mut items: Vec<Item<'_>> = Vec::new();
    for item in Extensions::new(bytes, start, bytes.len().saturating_sub(kind.len())) {
        match item {
            Ok(item) => {
                if items.iter().any(|other| other.signature == item.signature) {
                    let name = item.signature.escape_ascii();
                    findings.error(item.at - ext::HEADER_LEN, format!("extension {name} is there again"));
                }
                items.push(item);
            }
            Err(cut) => findings.error(cut.at, "an extension runs into the trailer; it and all behind it are lost"),
        }
    }
    let of = |signature| items.iter().find(|item| item.signature == signature);
    seen.sparse = of(ext::SDIR).is_some();
    if let Some(item) = of(ext::LINK) {
        link(item, kind, entries, seen.sparse, &mut seen.link, findings);
    }
    // Without the number nothing counts entries beyond it.
    let most = count.unwrap_or(u32::MAX as usize);
    for (nth, item) in items.iter().enumerate() {
        let result = match item.signature {
            ext::TREE => CacheTree::parse(item.data, kind, most).map(|_| seen.tree = Some(item.at)),
            ext::REUC => ResolveUndo::parse(item.data, kind).and_then(|_| resolve_undo(item, kind, findings)),
            ext::UNTR => Untracked::parse(item.data, kind).map(|cache| untracked(item, &cache, findings)),
            ext::FSMN => Fsmonitor::parse(item.data, most).map(|_| ()),
            ext::IEOT => {
                offset_table(item, entries, findings);
                Ok(())
            }
            ext::EOIE => {
                let before = items.get(..nth).unwrap_or_default();
                end_of_entries(item, kind, start, before, nth + 1 < items.len(), findings);
                Ok(())
            }
            ext::SDIR if !item.data.is_empty() => {
                findings.warning(item.at, format!("extension sdir has {} bytes of data", item.data.len()));
                Ok(())
            }
            ext::LINK | ext::SDIR => Ok(()),
            signature if ext::is_optional(signature) => Ok(()), // anybody's
            signature => {
                let name = signature.escape_ascii();
                findings.error(item.at - ext::HEADER_LEN, format!("extension {name} is required and not known"));
                Ok(())
            }
        };
        if let Err(error) = result {
            damaged(item, &error, findings);
        }
    }
    seen
}

fn damaged(item: &Item<'_>, error: &ExtError, findings: &mut Findings) {
    let offset = usize::try_from(error.at).unwrap_or(usize::MAX);
    let name = item.signature.escape_ascii();
    findings.error(item.at.saturating_add(offset), format!("extension {name}: {}", error.kind));
}

/// Whether its own entries fit what it replaces. That its bits fit the shared index is seen when both are read.
fn link(
    item: &Item<'_>,
    kind: HashKind,
    entries: &Entries,
    sparse: bool,
    place: &mut Option<usize>,
    findings: &mut Findings,
) {
    let link = match Link::parse(item.data, kind) {
        Ok(link) => link,
        Err(error) => {
            *place = Some(item.at);
            return damaged(item, &error, findings);
        }
    };
    if sparse {
        findings.error(item.at, "both split and sparse");
    }
    if link.base.is_null() {
        return;
    }
    *place = Some(item.at);
    let ones = |bits: Option<ewah::Ewah<'_>>| bits.map_or(0, |bits| bits.count_ones());
    if ones(link.replace) != entries.nameless as u64 {
        let (bits, own) = (ones(link.replace), entries.nameless);
        findings.error(item.at, format!("extension link: {bits} entries are replaced, by {own}"));
    }
}

/// Paths and modes of resolved conflicts. The form was checked.
fn resolve_undo(item: &Item<'_>, kind: HashKind, findings: &mut Findings) -> Result<(), ExtError> {
    let mut at = Cursor::new(item.data);
    while !at.rest().is_empty() {
        let start = item.at + at.at();
        let path = at.until(0, "path")?;
        if let Err(error) = path::check(path, Mode(0o100_644), PathChecks::default()) {
            findings.error(start + error.at, format!("extension REUC: path '{}': {}", shown(path), error.kind));
        }
        let mut ids = 0;
        for _ in 0..3 {
            let start = item.at + at.at();
            let mode = at.until(0, "mode")?;
            ids += usize::from(mode.iter().any(|&digit| digit != b'0'));
            if !matches!(mode, b"0" | b"100644" | b"100755" | b"120000" | b"160000") {
                let mode = mode.escape_ascii();
                findings.warning(start, format!("extension REUC: '{}' has mode {mode}", shown(path)));
            }
        }
        at.take(ids * kind.len(), "ids")?;
    }
    Ok(())
}

/// Names that cannot be those of files in a directory.
fn untracked(item: &Item<'_>, cache: &Untracked<'_>, findings: &mut Findings) {
    for (nth, dir) in cache.directories().enumerate() {
        let no_name = |name: &[u8]| name.is_empty() || name.contains(&b'/') || name == b"." || name == b"..";
        let wrong = dir.untracked().find(|name| no_name(name.strip_suffix(b"/").unwrap_or(name)));
        let wrong = wrong.or(Some(dir.name).filter(|name| if nth == 0 { !name.is_empty() } else { no_name(name) }));
        if let Some(name) = wrong {
            findings.error(item.at, format!("extension UNTR: directory {nth} has or is '{}'", shown(name)));
        }
    }
}

fn end_of_entries(
    item: &Item<'_>,
    kind: HashKind,
    entries_end: usize,
    before: &[Item<'_>],
    more: bool,
    findings: &mut Findings,
) {
    let mut at = Cursor::new(item.data);
    let Some((end, hash)) = at.be32("end").ok().zip(Some(at.rest())).filter(|_| item.data.len() == eoie::len(kind))
    else {
        let what = format!("extension EOIE has {} bytes, expected {}", item.data.len(), eoie::len(kind));
        return findings.error(item.at, what);
    };
    if end as usize != entries_end {
        let what = format!("extension EOIE: says that the entries end at {end}, they end at {entries_end}");
        findings.error(item.at, what);
    }
    let mut sum = Checksum::new(kind);
    for item in before {
        sum.update(&ext::header(item.signature, item.data.len() as u32));
    }
    let computed = sum.finish();
    if computed.as_bytes() != hash {
        let found = ObjectId::from_prefix(hash, kind).unwrap_or(kind.null());
        let what = format!("extension EOIE: hash is {found}, the extensions in front make {computed}");
        findings.error(item.at + 4, what);
    }
    if more {
        findings.error(item.at, "extension EOIE is not the last");
    }
}

/// Every block against where entries really begin.
fn offset_table(item: &Item<'_>, entries: &Entries, findings: &mut Findings) {
    let mut say = |offset: usize, what: String| findings.error(item.at + offset, format!("extension IEOT: {what}"));
    let mut at = Cursor::new(item.data);
    match at.be32("version") {
        Ok(ieot::VERSION) => {}
        Ok(version) => return say(0, format!("version {version} is not supported")),
        Err(_) => return say(0, "version is truncated".into()),
    }
    let mut first = 0usize;
    while !at.rest().is_empty() {
        let offset = at.at();
        let Some((start, count)) = at.be32("offset").ok().zip(at.be32("number").ok()) else {
            return say(offset, "block is truncated".into());
        };
        match entries.places.get(first) {
            _ if count == 0 => say(offset + 4, "block without entries".into()),
            None => return say(offset, format!("block at {start} begins behind the last entry")),
            Some(place) if place.at != start as usize => {
                say(offset, format!("block begins at {start}, entry {} is at {}", first + 1, place.at));
            }
            Some(place) if !place.whole => {
                say(offset, format!("block begins with entry {}, whose path needs the one in front", first + 1));
            }
            Some(_) => {}
        }
        first = first.saturating_add(count as usize);
    }
    if first != entries.places.len() {
        let (has, length) = (entries.places.len(), item.data.len());
        say(length.min(4), format!("blocks have {first} entries, there are {has}"));
    }
}
