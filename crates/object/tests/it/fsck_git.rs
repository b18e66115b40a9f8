//! `git fsck` as the oracle of `fsck`: one process for many objects.

use std::collections::{HashMap, HashSet};

use packstone_object::commit::Commit;
use packstone_object::fsck::{self, Detail, Finding, Severities, Sink, Special};
use packstone_object::tag::Tag;
use packstone_object::{HashKind, ObjectId, ObjectKind};
use testkit::pack::{self, Entry, PackBuilder};
use testkit::{Hash, TestRepo};

/// An object of a batch.
pub(crate) type Object = (ObjectKind, Vec<u8>);

/// What is said of an object: that it cannot be parsed, or findings in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Unparsed,
    Told(Vec<String>),
}

/// Findings as lines, and blobs with a meaning.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) lines: Vec<String>,
    pub(crate) special: Vec<(Special, Vec<u8>)>,
    pub(crate) entries: usize,
}

impl Sink for Lines {
    fn finding(&mut self, finding: Finding<'_>) {
        let severity = if finding.severity.is_error() { "error" } else { "warning" };
        // git writes names and URLs as they are, line ends and all: only that they follow is compared.
        let text = match finding.detail {
            Detail::Text(_) => format!("{}: {}: ", finding.id, finding.id.text()),
            _ => finding.to_string(),
        };
        self.lines.push(format!("{severity} {text}"));
    }

    fn special(&mut self, special: Special, id: &[u8]) {
        self.special.push((special, id.to_vec()));
    }

    fn entry(&mut self, _: packstone_object::tree::Mode, _: &[u8]) {
        self.entries += 1;
    }
}

/// Our verdicts. Blobs are checked as what the batch's trees take them for.
pub(crate) fn ours(objects: &[Object], hash: HashKind, severities: &Severities) -> Vec<Verdict> {
    let mut special = Vec::new();
    let mut verdicts: Vec<Verdict> = objects
        .iter()
        .map(|(kind, content)| {
            let parsed = match kind {
                ObjectKind::Commit => Commit::parse(content, hash).is_ok(),
                ObjectKind::Tag => Tag::parse(content, hash).is_ok(),
                _ => true,
            };
            let mut lines = Lines::default();
            let sound = fsck::check(*kind, content, hash, severities, &mut lines);
            assert_eq!(sound, !lines.lines.iter().any(|line| line.starts_with("error")), "{:?}", lines.lines);
            special.append(&mut lines.special);
            if parsed { Verdict::Told(lines.lines) } else { Verdict::Unparsed }
        })
        .collect();
    special.sort();
    special.dedup();
    let ids: HashMap<_, _> = objects.iter().enumerate().map(|(n, object)| (id_of(object, hash), n)).collect();
    for (special, id) in special {
        let Some(&n) = ids.get(&ObjectId::from_bytes(&id).unwrap()) else { continue };
        let mut lines = Lines::default();
        match special {
            Special::Modules => fsck::gitmodules(&objects[n].1, severities, &mut lines),
            Special::Attributes => fsck::gitattributes(&objects[n].1, severities, &mut lines),
        };
        if let Verdict::Told(told) = &mut verdicts[n] {
            told.append(&mut lines.lines);
        }
    }
    verdicts
}

pub(crate) fn id_of((kind, content): &Object, hash: HashKind) -> ObjectId {
    packstone_object::object_id(hash, *kind, content).unwrap()
}

/// The verdicts of `git fsck` with these options and settings. Each object is there once.
pub(crate) fn gits(objects: &[Object], hash: Hash, options: &[&str]) -> Vec<Verdict> {
    let repo = TestRepo::bare(hash);
    let kind = HashKind::from_len(hash.len()).unwrap();
    let ids: Vec<Vec<u8>> = objects.iter().map(|object| id_of(object, kind).as_bytes().to_vec()).collect();
    let entries = objects.iter().map(|(kind, content)| Entry::full(kind.name(), content).level(0));
    let builder = entries.fold(PackBuilder::new(hash), PackBuilder::entry);
    let pack = builder.build();
    pack.write(&repo.objects_dir(), &pack.idx(&ids));
    let out = repo.try_git(options, b"");
    let by_hex: HashMap<String, usize> = ids.iter().enumerate().map(|(n, id)| (pack::hex(id), n)).collect();
    let mut verdicts = vec![Verdict::Told(Vec::new()); ids.len()];
    for line in out.stderr.split(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        if let Some(rest) = line.strip_prefix("error: ")
            && let Some(hex) = rest.strip_suffix(": object corrupt or missing")
        {
            verdicts[by_hex[hex]] = Verdict::Unparsed;
        }
        let Some((severity, rest)) = line.split_once(" in ").filter(|(word, _)| matches!(*word, "error" | "warning"))
        else {
            continue;
        };
        let (object, text) = rest.split_once(": ").unwrap();
        let n = by_hex.get(object.rsplit(' ').next().unwrap());
        // Of objects that name one thing in two kinds, or cannot be read on.
        if text == "broken links" {
            continue;
        }
        if let Some(Verdict::Told(told)) = n.map(|&n| &mut verdicts[n]) {
            told.push(format!("{severity} {text}"));
        }
    }
    verdicts
}

/// Whether both say the same; names and URLs apart.
pub(crate) fn same(ours: &Verdict, gits: &Verdict) -> bool {
    match (ours, gits) {
        (Verdict::Told(ours), Verdict::Told(gits)) => {
            // git tells of a bad name again at each key.
            let once = |told: &[String]| {
                let mut seen = HashSet::new();
                let again = |line: &&String| !line.contains(" gitmodulesName: ") || seen.insert(line.to_string());
                told.iter().filter(again).cloned().collect::<Vec<_>>()
            };
            let (ours, gits) = (once(ours), once(gits));
            ours.len() == gits.len()
                && ours.iter().zip(&gits).all(|(ours, git)| match ours.ends_with(": ") {
                    true => git.starts_with(ours.as_str()),
                    false => git == ours,
                })
        }
        _ => ours == gits,
    }
}

/// Demands parity over a batch.
pub(crate) fn compare(objects: &[Object], hash: Hash, severities: &Severities, options: &[&str]) {
    let kind = HashKind::from_len(hash.len()).unwrap();
    let mut seen = HashSet::new();
    let objects: Vec<Object> = objects.iter().filter(|object| seen.insert(id_of(object, kind))).cloned().collect();
    let gits = gits(&objects, hash, options);
    let ours = ours(&objects, kind, severities);
    let sound = gits.iter().filter(|verdict| **verdict == Verdict::Told(Vec::new())).count();
    assert!(sound > 0 && sound < gits.len(), "a batch has both, or it shows nothing");
    let mut wrong = 0;
    for ((ours, gits), object) in ours.iter().zip(&gits).zip(&objects) {
        if !same(ours, gits) {
            wrong += 1;
            if wrong < 20 {
                eprintln!("{} {:?}\n  ours {ours:?}\n  git  {gits:?}", object.0, String::from_utf8_lossy(&object.1));
            }
        }
    }
    assert_eq!(wrong, 0, "of {} verdicts", objects.len());
}
