//! `packstone index stat`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use index::ext::{self, CacheTree, Extensions, Fsmonitor, Item, Link, ResolveUndo, Untracked, ieot};
use index::{Bump, Header, Index, IndexView, ReadError, ReadOptions, Version};
use object::{HashKind, ObjectId};

use super::json::Json;
use super::{Place, lossy};
use crate::report::{Failure, chain};

/// What is found out about a file.
struct Stat {
    file: String,
    size: u64,
    version: Version,
    hash: HashKind,
    checksum: Option<ObjectId>,
    entries: Entries,
    regions: Vec<Region>,
    cache_tree: Option<(u64, u64)>,
    resolve_undo: Option<u64>,
    untracked: Option<Cache>,
    fsmonitor: Option<(String, u64)>,
    split: Option<Split>,
    offset_table: Option<u64>,
    /// Extensions that make no sense, and why.
    damaged: Vec<(String, String)>,
    times: Times,
}

/// Numbers of entries, those of a shared index included.
#[derive(Default)]
struct Entries {
    count: u64,
    stages: [u64; 4],
    assume_valid: u64,
    skip_worktree: u64,
    intent_to_add: u64,
    fsmonitor_valid: u64,
    sparse_dirs: u64,
    gitlinks: u64,
}

/// A stretch of the file.
struct Region {
    name: String,
    at: u64,
    bytes: u64,
}

struct Cache {
    dirs: u64,
    valid: u64,
    names: u64,
}

struct Split {
    base: ObjectId,
    shared: u64,
    deleted: u64,
    replaced: u64,
}

/// How long each region takes to read.
#[derive(Default)]
struct Times {
    map: Duration,
    entries: Duration,
    tree: Duration,
    untracked: Duration,
    fsmonitor: Duration,
    others: Duration,
}

impl Times {
    fn named(&self) -> [(&'static str, Duration); 6] {
        [
            ("map", self.map),
            ("entries", self.entries),
            ("TREE", self.tree),
            ("UNTR", self.untracked),
            ("FSMN", self.fsmonitor),
            ("others", self.others),
        ]
    }

    fn total(&self) -> Duration {
        self.named().iter().map(|(_, time)| *time).sum()
    }
}

/// Runs the command.
pub(super) fn run(place: &Place, json: bool) -> Result<(), Failure> {
    let stat = Stat::of(place)?;
    let text = if json { stat.json().print() } else { stat.table() };
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output("write error", error))
}

impl Stat {
    fn of(place: &Place) -> Result<Stat, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Fatal(format!("{}: {error}", place.shown.display()));
        let mut times = Times::default();
        let start = Instant::now();
        let bytes = place.open()?;
        times.map = start.elapsed();
        let (bytes, hash) = (bytes.as_ref(), place.hash);
        let shared = place.shared(bytes);
        let shared = shared.as_ref().map(|(_, shared)| shared.as_ref());

        let view = IndexView::parse(bytes, hash).map_err(|error| failed(&error))?;
        let end = view.entries_end().map_err(|error| failed(&error))?;
        let trailer = bytes.len().saturating_sub(hash.len());
        let items: Vec<Item<'_>> = Extensions::new(bytes, end, trailer).map_while(Result::ok).collect();
        let arena = Bump::new();
        let options = ReadOptions::new(hash).shared(shared);
        let index = Index::read(&arena, bytes, &options).map_err(|error| failed(&chain(&error)))?;
        times.entries = entries_alone(bytes, end, &items, &options).map_err(|error| failed(&chain(&error)))?;

        let mut stat = Stat {
            file: lossy(place.shown.as_os_str()),
            size: bytes.len() as u64,
            version: view.version(),
            hash,
            checksum: index.checksum(),
            entries: Entries::of(&index),
            regions: regions(end, &items, bytes.len(), hash),
            cache_tree: None,
            resolve_undo: None,
            untracked: None,
            fsmonitor: None,
            split: None,
            offset_table: None,
            damaged: Vec::new(),
            times,
        };
        for item in &items {
            stat.extension(item, index.len(), end, view.len());
        }
        if let Some(split) = &mut stat.split {
            split.shared =
                shared.and_then(|shared| Header::parse(shared, hash).ok()).map_or(0, |head| head.count.into());
        }
        Ok(stat)
    }

    /// Looks at an extension. `count`: all entries, `own`: those of the file.
    fn extension(&mut self, item: &Item<'_>, count: usize, end: usize, own: u32) {
        let start = Instant::now();
        let (data, hash) = (item.data, self.hash);
        let read = match item.signature {
            ext::TREE => CacheTree::parse(data, hash, count).map(|tree| {
                let nodes = tree.node_count() as u64;
                let valid = tree.nodes().filter(|node| node.valid.is_some()).count() as u64;
                self.cache_tree = Some((valid, nodes - valid));
            }),
            ext::REUC => ResolveUndo::parse(data, hash).map(|undo| self.resolve_undo = Some(undo.len() as u64)),
            ext::UNTR => Untracked::parse(data, hash).map(|cache| {
                let valid = cache.directories().filter(|dir| dir.valid.is_some()).count() as u64;
                let (dirs, names) = (cache.directory_count() as u64, cache.untracked_count());
                self.untracked = Some(Cache { dirs, valid, names });
            }),
            ext::FSMN => Fsmonitor::parse(data, count).map(|monitor| {
                let token = String::from_utf8_lossy(&monitor.token).into_owned();
                self.fsmonitor = Some((token, monitor.dirty.count_ones()));
            }),
            ext::LINK => Link::parse(data, hash).map(|link| {
                let deleted = link.delete.map_or(0, |bits| bits.count_ones());
                let replaced = link.replace.map_or(0, |bits| bits.count_ones());
                self.split = Some(Split { base: link.base, shared: 0, deleted, replaced });
            }),
            ext::IEOT => {
                let blocks = ieot::parse(data, Header::LEN..end, own as usize);
                match blocks {
                    Some(blocks) => self.offset_table = Some(blocks.len() as u64),
                    None => self.damaged.push(("IEOT".into(), "does not fit the entries".into())),
                }
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = read {
            self.damaged.push((item.signature.escape_ascii().to_string(), error.to_string()));
        }
        let time = start.elapsed();
        match item.signature {
            ext::TREE => self.times.tree += time,
            ext::UNTR => self.times.untracked += time,
            ext::FSMN => self.times.fsmonitor += time,
            _ => self.times.others += time,
        }
    }

    fn table(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, text: String| _ = writeln!(out, "{name:14}{text}");
        line("file", self.file.clone());
        line("version", format!("{}, {}, {} bytes", self.version as u8, self.hash.name(), self.size));
        line("checksum", self.checksum.map_or("none (index.skipHash)".into(), |id| id.to_string()));
        let Entries { count, stages, .. } = &self.entries;
        line("entries", count.to_string());
        let unmerged: u64 = stages.iter().skip(1).sum();
        if unmerged > 0 {
            let [_, base, ours, theirs] = stages;
            line("unmerged", format!("{unmerged} (base {base}, ours {ours}, theirs {theirs})"));
        }
        for (name, number) in self.entries.kinds().into_iter().filter(|(_, number)| *number > 0) {
            line(name, number.to_string());
        }
        if let Some(split) = &self.split {
            let Split { base, shared, deleted, replaced } = split;
            line("split", format!("on {base}: {shared} entries, {deleted} deleted, {replaced} replaced"));
        }
        if let Some((valid, invalid)) = self.cache_tree {
            line("cache tree", format!("{} nodes, {invalid} of them invalid", valid + invalid));
        }
        if let Some(paths) = self.resolve_undo {
            line("resolve undo", format!("{paths} paths"));
        }
        if let Some(Cache { dirs, valid, names }) = &self.untracked {
            line("untracked", format!("{dirs} directories, {} of them invalid, {names} names", dirs - valid));
        }
        if let Some((token, dirty)) = &self.fsmonitor {
            line("fsmonitor", format!("{dirty} entries may have changed since {}", token.escape_default()));
        }
        if let Some(blocks) = self.offset_table {
            line("offset table", format!("{blocks} blocks"));
        }
        for (name, why) in &self.damaged {
            line("damaged", format!("{name}: {why}"));
        }
        let _ = writeln!(out, "\n{:14}{:>14}{:>14}", "region", "offset", "bytes");
        for Region { name, at, bytes } in &self.regions {
            let share = *bytes as f64 * 100.0 / self.size.max(1) as f64;
            let _ = writeln!(out, "{name:14}{at:>14}{bytes:>14}{share:>7.1}%");
        }
        let _ = writeln!(out, "\n{:14}{:>14}", "read", "ms");
        for (name, time) in self.times.named().into_iter().chain([("total", self.times.total())]) {
            let _ = writeln!(out, "{name:14}{:>14.3}", time.as_secs_f64() * 1e3);
        }
        out
    }

    fn json(&self) -> Json {
        let number = Json::Number;
        let Entries { count, stages, .. } = &self.entries;
        let mut entries = vec![("count", number(*count)), ("stages", Json::List(stages.map(number).into()))];
        entries.extend(
            ["assume_valid", "skip_worktree", "intent_to_add", "fsmonitor_valid"].into_iter().zip(
                [
                    self.entries.assume_valid,
                    self.entries.skip_worktree,
                    self.entries.intent_to_add,
                    self.entries.fsmonitor_valid,
                ]
                .map(number),
            ),
        );
        entries.push(("sparse_directories", number(self.entries.sparse_dirs)));
        entries.push(("gitlinks", number(self.entries.gitlinks)));
        let region = |Region { name, at, bytes }: &Region| {
            Json::Object(vec![("name", Json::Text(name.clone())), ("at", number(*at)), ("bytes", number(*bytes))])
        };
        let nanos = |time: Duration| number(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let times = self.times.named().into_iter().chain([("total", self.times.total())]);
        let damaged = |(name, why): &(String, String)| {
            Json::Object(vec![("name", Json::Text(name.clone())), ("why", Json::Text(why.clone()))])
        };
        Json::Object(vec![
            ("file", Json::Text(self.file.clone())),
            ("size", number(self.size)),
            ("version", number(self.version as u64)),
            ("object_format", Json::Text(self.hash.name().into())),
            ("checksum", Json::or_null(self.checksum, |id| Json::Text(id.to_string()))),
            ("entries", Json::Object(entries)),
            ("regions", Json::List(self.regions.iter().map(region).collect())),
            (
                "cache_tree",
                Json::or_null(self.cache_tree, |(valid, invalid)| {
                    let nodes = ("nodes", number(valid + invalid));
                    Json::Object(vec![nodes, ("valid", number(valid)), ("invalid", number(invalid))])
                }),
            ),
            ("resolve_undo", Json::or_null(self.resolve_undo, |paths| Json::Object(vec![("paths", number(paths))]))),
            (
                "untracked",
                Json::or_null(self.untracked.as_ref(), |Cache { dirs, valid, names }| {
                    let dirs = ("directories", number(*dirs));
                    Json::Object(vec![dirs, ("valid", number(*valid)), ("names", number(*names))])
                }),
            ),
            (
                "fsmonitor",
                Json::or_null(self.fsmonitor.as_ref(), |(token, dirty)| {
                    Json::Object(vec![("token", Json::Text(token.clone())), ("dirty", number(*dirty))])
                }),
            ),
            (
                "split",
                Json::or_null(self.split.as_ref(), |split| {
                    Json::Object(vec![
                        ("base", Json::Text(split.base.to_string())),
                        ("shared_entries", number(split.shared)),
                        ("deleted", number(split.deleted)),
                        ("replaced", number(split.replaced)),
                    ])
                }),
            ),
            ("offset_table", Json::or_null(self.offset_table, |blocks| Json::Object(vec![("blocks", number(blocks))]))),
            ("damaged", Json::List(self.damaged.iter().map(damaged).collect())),
            ("nanoseconds", Json::Object(times.map(|(name, time)| (name, nanos(time))).collect())),
        ])
    }
}

impl Entries {
    fn of(index: &Index<'_>) -> Entries {
        let mut entries = Entries { count: index.len() as u64, ..Entries::default() };
        for (at, entry) in index.iter().enumerate() {
            let flags = entry.flags();
            if let Some(stage) = entries.stages.get_mut(entry.stage() as usize) {
                *stage += 1;
            }
            entries.assume_valid += u64::from(flags.assume_valid);
            entries.skip_worktree += u64::from(flags.skip_worktree);
            entries.intent_to_add += u64::from(flags.intent_to_add);
            entries.fsmonitor_valid += u64::from(index.fsmonitor_valid(at));
            entries.sparse_dirs += u64::from(entry.is_sparse_dir());
            entries.gitlinks += u64::from(entry.is_gitlink());
        }
        entries
    }

    fn kinds(&self) -> [(&'static str, u64); 6] {
        [
            ("assume valid", self.assume_valid),
            ("skip worktree", self.skip_worktree),
            ("intent to add", self.intent_to_add),
            ("fsm. valid", self.fsmonitor_valid),
            ("sparse dirs", self.sparse_dirs),
            ("gitlinks", self.gitlinks),
        ]
    }
}

fn regions(end: usize, items: &[Item<'_>], len: usize, hash: HashKind) -> Vec<Region> {
    let region = |name: &str, at: usize, bytes: usize| Region { name: name.into(), at: at as u64, bytes: bytes as u64 };
    let mut regions = vec![region("header", 0, Header::LEN), region("entries", Header::LEN, end - Header::LEN)];
    let mut at = end;
    for item in items {
        let name = item.signature.escape_ascii().to_string();
        regions.push(region(&name, at, item.data.len() + ext::HEADER_LEN));
        at = item.at + item.data.len();
    }
    let trailer = len.saturating_sub(hash.len());
    if at < trailer {
        regions.push(region("(cut short)", at, trailer - at));
    }
    regions.push(region("trailer", trailer, len - trailer));
    regions
}

/// How long it takes to read the entries, without all extensions but the one that makes an index split.
fn entries_alone(
    bytes: &[u8],
    end: usize,
    items: &[Item<'_>],
    options: &ReadOptions<'_>,
) -> Result<Duration, ReadError> {
    let mut alone = bytes.get(..end).unwrap_or_default().to_vec();
    for item in items.iter().filter(|item| !ext::is_optional(item.signature)) {
        alone.extend_from_slice(&ext::header(item.signature, item.data.len() as u32));
        alone.extend_from_slice(item.data);
    }
    alone.extend_from_slice(options.kind.null().as_bytes());
    let arena = Bump::new();
    let start = Instant::now();
    let index = Index::read(&arena, &alone, &ReadOptions::new(options.kind).shared(options.shared))?;
    let time = start.elapsed();
    drop(index);
    Ok(time)
}
