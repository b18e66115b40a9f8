//! The commit-graph: facts about commits in fixed-width rows, so that a walk inflates nothing.
//!
//! | at | width | meaning |
//! |---|---|---|
//! | 0 | 4 bytes | `CGPH` |
//! | 4 | 1 byte | version, 1 |
//! | 5 | 1 byte | hash: 1 SHA-1 (H = 20 bytes), 2 SHA-256 (H = 32 bytes) |
//! | 6 | 1 byte | number of chunks |
//! | 7 | 1 byte | number of base layers |
//! | 8 | 12 bytes a row | table of contents, see [`pack_format::chunk`] |
//! | last | H bytes | checksum of all before; also the layer's name in a chain |
//!
//! | chunk | size | meaning |
//! |---|---|---|
//! | `OIDF` | 256 × 4 bytes | fan-out: ids whose first byte is at most i; never decreasing; the last is N |
//! | `OIDL` | N × H bytes | the ids, ascending |
//! | `CDAT` | N × (H + 16) bytes | root tree; two parent words; 30 bits of topological level, 34 bits of seconds |
//! | `GDA2` | N × 4 bytes, optional | corrected date minus date, or bit 31 and a row of `GDO2` |
//! | `GDO2` | rows of 8 bytes, optional | offsets that do not fit 31 bits |
//! | `EDGE` | words of 4 bytes, optional | second and later parents of octopus merges; bit 31 ends a list |
//! | `BASE` | B × H bytes | names of the layers below, lowest first |
//!
//! All numbers are big-endian. A parent word is a *graph position* (rank over all layers, the lowest layer
//! first), 0x7000_0000 for none, or (second word only) bit 31 and a word index into `EDGE`. Source:
//! gitformat-commit-graph.adoc, git 1a3e64c6c. Chunks `GDAT` and `GDOV` of older gits hold wrong numbers and
//! are ignored, as are Bloom filters.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::{Checksum, HashKind, ObjectId};
use odb::{ByteSource, Bytes};
use pack_format::chunk::{ChunkId, Toc, TocError};

const SIGNATURE: [u8; 4] = *b"CGPH";
const VERSION: u8 = 1;
const HEADER_LEN: usize = 8;
const FANOUT_LEN: usize = 256 * 4;
const OIDF: ChunkId = ChunkId(*b"OIDF");
const OIDL: ChunkId = ChunkId(*b"OIDL");
const CDAT: ChunkId = ChunkId(*b"CDAT");
const GDA2: ChunkId = ChunkId(*b"GDA2");
const GDO2: ChunkId = ChunkId(*b"GDO2");
const EDGE: ChunkId = ChunkId(*b"EDGE");
const BASE: ChunkId = ChunkId(*b"BASE");
/// Bytes of a `CDAT` row behind the tree id: two parent words, level and date.
const LINKS_LEN: usize = 16;
/// A parent word that stands for no parent.
const NO_PARENT: u32 = 0x7000_0000;
/// Ends an `EDGE` list; in a parent or `GDA2` word: the rest is an index elsewhere.
const HIGH_BIT: u32 = 1 << 31;

/// Rank of a commit over all layers of a commit-graph, the lowest layer first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphPos(u32);

impl GraphPos {
    /// Wraps a raw position.
    #[inline]
    pub const fn new(pos: u32) -> Self {
        Self(pos)
    }

    /// The raw position.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for GraphPos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphPos({})", self.0)
    }
}

/// One commit-graph file: a whole graph, or one layer of a chain.
///
/// [`parse`](Self::parse) settles every bound; [`verify_checksum`](Self::verify_checksum) reads all bytes.
#[derive(Clone, Debug)]
pub struct GraphFile<D> {
    data: D,
    hash: HashKind,
    count: u32,
    /// Byte ranges in `data`. The first three have exactly the length that `count` demands.
    fanout: Range<usize>,
    ids: Range<usize>,
    rows: Range<usize>,
    dates: Option<Range<usize>>,
    far_dates: Range<usize>,
    edges: Range<usize>,
    bases: Range<usize>,
    base_count: u8,
}

impl<D: AsRef<[u8]>> GraphFile<D> {
    /// Settles header, table of contents, fan-out and chunk sizes. O(1) but for the 256 fan-out words.
    ///
    /// A `GDA2` chunk of the wrong size is ignored, as git ignores it.
    ///
    /// # Errors
    ///
    /// [`GraphError`] with the offset in the file.
    pub fn parse(data: D, hash: HashKind) -> Result<Self, GraphError> {
        let bytes = data.as_ref();
        let min = HEADER_LEN + hash.len();
        if bytes.len() < min {
            let kind = GraphErrorKind::Truncated { what: "header", need: min as u64, have: bytes.len() as u64 };
            return Err(GraphError { at: 0, kind });
        }
        if bytes[..4] != SIGNATURE {
            return Err(GraphError { at: 0, kind: GraphErrorKind::Signature });
        }
        let unsupported = |at: u64, what, found: u8| GraphError {
            at,
            kind: GraphErrorKind::Unsupported { what, found: u32::from(found) },
        };
        if bytes[4] != VERSION {
            return Err(unsupported(4, "version", bytes[4]));
        }
        if u32::from(bytes[5]) != hash.file_id() {
            return Err(unsupported(5, "hash", bytes[5]));
        }
        let toc = Toc::parse(bytes, HEADER_LEN, bytes[6], hash.len(), 1)?;
        let chunk = |id: ChunkId| toc.range(id);
        let required = |id| chunk(id).ok_or(GraphError { at: HEADER_LEN as u64, kind: GraphErrorKind::NoChunk { id } });

        let fanout = required(OIDF)?;
        check_len(OIDF, &fanout, FANOUT_LEN as u64, 0)?;
        let mut count = 0;
        for (nr, word) in bytes[fanout.clone()].chunks_exact(4).enumerate() {
            let next = be32(word, 0);
            if next < count {
                return Err(GraphError { at: (fanout.start + 4 * nr) as u64, kind: GraphErrorKind::FanoutOrder });
            }
            count = next;
        }
        // Positions from there on mean something else in a parent word.
        if count >= NO_PARENT {
            return Err(GraphError { at: (fanout.end - 4) as u64, kind: GraphErrorKind::TooManyCommits });
        }

        let n = u64::from(count);
        let (h, row) = (hash.len() as u64, (hash.len() + LINKS_LEN) as u64);
        // Less than a row too long is fine: git measures in rows.
        let trim = |range: Range<usize>, width: u64| range.start..range.start + (n * width) as usize;
        let ids = required(OIDL)?;
        check_len(OIDL, &ids, n * h, h - 1)?;
        let rows = required(CDAT)?;
        check_len(CDAT, &rows, n * row, row - 1)?;
        let dates = chunk(GDA2).filter(|range| check_len(GDA2, range, n * 4, 3).is_ok());
        Ok(GraphFile {
            hash,
            count,
            ids: trim(ids, h),
            rows: trim(rows, row),
            dates: dates.map(|range| trim(range, 4)),
            far_dates: chunk(GDO2).unwrap_or(0..0),
            edges: chunk(EDGE).unwrap_or(0..0),
            bases: chunk(BASE).unwrap_or(0..0),
            base_count: bytes[7],
            fanout,
            data,
        })
    }

    /// The hash of its ids.
    pub fn hash_kind(&self) -> HashKind {
        self.hash
    }

    /// Number of commits in this file.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether it lists no commits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Zero-based rank of a commit in this file. O(log n).
    pub fn rank(&self, id: &ObjectId) -> Option<u32> {
        if id.kind() != self.hash {
            return None;
        }
        let first = usize::from(id.first_byte());
        let fanout = self.chunk(&self.fanout);
        let mut low = if first == 0 { 0 } else { be32(fanout, 4 * (first - 1)) };
        let mut high = be32(fanout, 4 * first);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.id_bytes(middle).cmp(id.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// The trailing checksum, as stored: the file's name in a chain.
    pub fn checksum(&self) -> ObjectId {
        let bytes = self.data.as_ref();
        let tail = bytes.len().saturating_sub(self.hash.len());
        id_at(bytes, tail, self.hash)
    }

    /// Names of the layers below, lowest first, as stored.
    pub fn base_layers(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let hash = self.hash;
        self.chunk(&self.bases).chunks_exact(hash.len()).map(move |id| id_at(id, 0, hash))
    }

    /// Hashes the file and compares with the trailing checksum. O(bytes).
    ///
    /// # Errors
    ///
    /// [`GraphErrorKind::Checksum`].
    pub fn verify_checksum(&self) -> Result<(), GraphError> {
        let bytes = self.data.as_ref();
        let end = bytes.len().saturating_sub(self.hash.len());
        let mut hasher = Checksum::new(self.hash);
        hasher.update(&bytes[..end]);
        let (found, stored) = (hasher.finish(), self.checksum());
        // A null checksum means that the writer was told to skip hashing.
        if found == stored || stored.is_null() {
            return Ok(());
        }
        Err(GraphError { at: end as u64, kind: GraphErrorKind::Checksum { stored, found } })
    }

    /// Refuses a layer: its positions count commits of files that are not here.
    fn alone(&self) -> Result<(), GraphError> {
        match self.base_count {
            0 => Ok(()),
            found => {
                let kind = GraphErrorKind::Unsupported { what: "base layers outside of a chain", found: found.into() };
                Err(GraphError { at: 7, kind })
            }
        }
    }

    #[inline]
    fn chunk(&self, range: &Range<usize>) -> &[u8] {
        &self.data.as_ref()[range.clone()]
    }

    /// `rank` must be below `count`.
    #[inline]
    fn id_bytes(&self, rank: u32) -> &[u8] {
        let len = self.hash.len();
        &self.chunk(&self.ids)[rank as usize * len..][..len]
    }

    /// The whole `CDAT` row. `rank` must be below `count`.
    #[inline]
    fn row(&self, rank: u32) -> &[u8] {
        let len = self.hash.len() + LINKS_LEN;
        &self.chunk(&self.rows)[rank as usize * len..][..len]
    }

    /// Seconds since 1970, 34 bits.
    #[inline]
    fn time(&self, rank: u32) -> u64 {
        row_time(self.row(rank), self.hash)
    }

    /// The offset that makes a corrected date of a date. `None` without a usable number for this commit.
    #[inline]
    fn date_offset(&self, rank: u32) -> Option<u64> {
        let word = be32(self.chunk(self.dates.as_ref()?), 4 * rank as usize);
        if word & HIGH_BIT == 0 {
            return Some(u64::from(word));
        }
        let at = 8 * (word & !HIGH_BIT) as usize;
        let bytes = self.chunk(&self.far_dates).get(at..at + 8)?;
        Some(u64::from(be32(bytes, 0)) << 32 | u64::from(be32(bytes, 4)))
    }

    /// Whether every commit has a readable corrected date. O(n), 4 bytes each.
    fn dates_are_whole(&self) -> bool {
        let Some(dates) = &self.dates else { return false };
        let far = (self.far_dates.len() / 8) as u32;
        let dates = self.chunk(dates).chunks_exact(4);
        // Without early return: one pass the compiler can vectorise, and files are nearly always fine.
        let bad = dates.map(|word| be32(word, 0)).filter(|w| w & HIGH_BIT != 0 && w & !HIGH_BIT >= far);
        bad.count() == 0
    }
}

fn check_len(id: ChunkId, range: &Range<usize>, need: u64, slack: u64) -> Result<(), GraphError> {
    let have = range.len() as u64;
    if have >= need && have - need <= slack {
        return Ok(());
    }
    Err(GraphError { at: range.start as u64, kind: GraphErrorKind::ChunkSize { id, need, have } })
}

#[inline]
fn be32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

/// The id at `at`, which must leave room for one.
#[inline]
fn id_at(bytes: &[u8], at: usize, hash: HashKind) -> ObjectId {
    ObjectId::from_prefix(&bytes[at..], hash).unwrap_or(hash.null())
}

#[inline]
fn row_time(row: &[u8], hash: HashKind) -> u64 {
    let at = hash.len() + 8;
    u64::from(be32(row, at) & 3) << 32 | u64::from(be32(row, at + 4))
}

/// What the generation numbers of a graph are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Version 2: corrected commit dates, in seconds; a commit's is greater than each of its parents'.
    CorrectedDate,
    /// Version 1: topological levels; a root is 1, others one more than their highest parent.
    Level,
}

/// Facts about commits from one file or a chain of them, by [`GraphPos`].
///
/// After [`open`](Self::open) no accessor can panic but for a position that is not below [`len`](Self::len).
/// Nothing is checked against the commits themselves; see [`GraphFile::verify_checksum`] for bit rot.
///
/// ```no_run
/// use packstone_revwalk::CommitGraph;
/// # use object::{HashKind, ObjectId};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (graph, problems) = CommitGraph::open(&["repo.git/objects".as_ref()], HashKind::Sha1);
/// for problem in problems {
///     eprintln!("warning: {problem}");
/// }
/// let id: ObjectId = "1a3e64c6c4a2d1f9e0f5a1c5a7f8f7d3c2b1a098".parse()?;
/// if let Some(pos) = graph.as_ref().and_then(|graph| graph.lookup(&id)) {
///     println!("{:?}", graph.unwrap().commit_time(pos));
/// }
/// # Ok(())
/// # }
/// ```
pub struct CommitGraph {
    /// Lowest first.
    layers: Vec<Layer>,
    hash: HashKind,
    len: u32,
    generation: OnceLock<Generation>,
}

struct Layer {
    file: GraphFile<Bytes>,
    /// Commits in the layers below: the position of this layer's first.
    first: u32,
}

impl CommitGraph {
    /// Opens the first usable graph of these object directories (local first, then alternates): in each,
    /// `info/commit-graph`, else the chain `info/commit-graphs/commit-graph-chain`, whose layers may lie in
    /// any of the directories.
    ///
    /// A file that cannot be used is a problem to report, never an error: the graph only repeats what the
    /// commits say. Of a broken chain the good lower layers are used.
    pub fn open(objects_dirs: &[&Path], hash: HashKind) -> (Option<CommitGraph>, Vec<GraphProblem>) {
        Self::open_with(objects_dirs, hash, ByteSource::Mmap)
    }

    /// [`open`](Self::open), reading the files as `source` says.
    pub fn open_with(
        objects_dirs: &[&Path],
        hash: HashKind,
        source: ByteSource,
    ) -> (Option<CommitGraph>, Vec<GraphProblem>) {
        let mut problems = Vec::new();
        let graph = objects_dirs.iter().find_map(|dir| {
            let info = dir.join("info");
            let path = info.join("commit-graph");
            let single = load(&path, hash, source, &mut problems);
            let single = single.filter(|file| match file.alone() {
                Ok(()) => true,
                Err(error) => {
                    problems.push(GraphProblem { path, kind: GraphProblemKind::Graph(error) });
                    false
                }
            });
            let layers = match single {
                Some(file) => vec![Layer { file, first: 0 }],
                None => load_chain(&info, objects_dirs, hash, source, &mut problems),
            };
            CommitGraph::from_layers(layers, hash)
        });
        (graph, problems)
    }

    /// A graph of one file that is already in memory.
    pub fn from_bytes(bytes: Vec<u8>, hash: HashKind) -> Result<CommitGraph, GraphError> {
        let file = GraphFile::parse(Bytes::from(bytes), hash)?;
        file.alone()?;
        let len = file.len();
        let layers = vec![Layer { file, first: 0 }];
        Ok(CommitGraph { layers, hash, len, generation: OnceLock::new() })
    }

    fn from_layers(layers: Vec<Layer>, hash: HashKind) -> Option<CommitGraph> {
        let last = layers.last()?;
        let len = last.first + last.file.len();
        Some(CommitGraph { layers, hash, len, generation: OnceLock::new() })
    }

    /// The hash of its ids.
    pub fn hash_kind(&self) -> HashKind {
        self.hash
    }

    /// Number of commits in all layers: positions are below it.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it lists no commits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The files it is made of, lowest layer first.
    pub fn files(&self) -> impl Iterator<Item = &GraphFile<Bytes>> + '_ {
        self.layers.iter().map(|layer| &layer.file)
    }

    /// Position of a commit. O(layers · log n).
    pub fn lookup(&self, id: &ObjectId) -> Option<GraphPos> {
        self.layers.iter().rev().find_map(|layer| layer.file.rank(id).map(|rank| GraphPos(layer.first + rank)))
    }

    /// The layer of a position, and the rank in it.
    ///
    /// # Panics
    ///
    /// If there is no such position.
    #[inline]
    fn layer(&self, pos: GraphPos) -> (&Layer, u32) {
        assert!(pos.0 < self.len, "graph position {} of {}", pos.0, self.len);
        let layer = match &*self.layers {
            [only] => only,
            layers => &layers[layers.partition_point(|layer| layer.first <= pos.0) - 1],
        };
        (layer, pos.0 - layer.first)
    }

    /// The commit's id.
    ///
    /// # Panics
    ///
    /// If `pos` is not below [`len`](Self::len); so for all accessors.
    #[inline]
    pub fn id(&self, pos: GraphPos) -> ObjectId {
        let (layer, rank) = self.layer(pos);
        id_at(layer.file.id_bytes(rank), 0, self.hash)
    }

    /// The commit's root tree.
    #[inline]
    pub fn tree(&self, pos: GraphPos) -> ObjectId {
        let (layer, rank) = self.layer(pos);
        id_at(layer.file.row(rank), 0, self.hash)
    }

    /// The committer's time in seconds since 1970, of which the file keeps the low 34 bits. Git takes this
    /// number for the commit's date wherever it uses the graph, and so do we.
    #[inline]
    pub fn commit_time(&self, pos: GraphPos) -> u64 {
        let (layer, rank) = self.layer(pos);
        layer.file.time(rank)
    }

    /// Appends the commit's parents, in their order.
    ///
    /// # Errors
    ///
    /// A position beyond this layer and those below, or an `EDGE` list that starts or runs beyond its chunk
    /// (which may be missing). `out` is then as it was before: read the commit instead.
    #[inline]
    pub fn parents(&self, pos: GraphPos, out: &mut Vec<GraphPos>) -> Result<(), GraphError> {
        let (layer, rank) = self.layer(pos);
        let row = layer.file.row(rank);
        let (first, second) = (be32(row, self.hash.len()), be32(row, self.hash.len() + 4));
        let limit = layer.first + layer.file.len();
        if first < limit && second == NO_PARENT {
            out.push(GraphPos(first));
            return Ok(());
        }
        if first == NO_PARENT {
            return Ok(());
        }
        let len = out.len();
        self.more_parents(layer, rank, [first, second], out).inspect_err(|_| out.truncate(len))
    }

    fn more_parents(
        &self,
        layer: &Layer,
        rank: u32,
        [first, second]: [u32; 2],
        out: &mut Vec<GraphPos>,
    ) -> Result<(), GraphError> {
        let limit = layer.first + layer.file.len();
        let row_at = layer.file.rows.start + rank as usize * (self.hash.len() + LINKS_LEN) + self.hash.len();
        let mut push = |word: u32, at: usize| {
            if word >= limit {
                return Err(GraphError { at: at as u64, kind: GraphErrorKind::Parent { pos: word, limit } });
            }
            out.push(GraphPos(word));
            Ok(())
        };
        push(first, row_at)?;
        if second == NO_PARENT {
            return Ok(());
        }
        if second & HIGH_BIT == 0 {
            return push(second, row_at + 4);
        }
        // The index counts words, not bytes.
        let start = (second & !HIGH_BIT) as usize;
        let edges = layer.file.chunk(&layer.file.edges);
        let list = edges.get(4 * start..).unwrap_or_default().chunks_exact(4);
        for (nr, word) in list.enumerate() {
            let word = be32(word, 0);
            push(word & !HIGH_BIT, layer.file.edges.start + 4 * (start + nr))?;
            if word & HIGH_BIT != 0 {
                return Ok(());
            }
        }
        let kind = GraphErrorKind::EdgeList { index: start as u32, words: (edges.len() / 4) as u32 };
        Err(GraphError { at: row_at as u64 + 4, kind })
    }

    /// What [`generation`](Self::generation) returns: corrected dates if *every* layer has one for *every* of
    /// its commits, else levels. O(n) once, 4 bytes a commit.
    pub fn generation_kind(&self) -> Generation {
        *self.generation.get_or_init(|| match self.layers.iter().all(|layer| layer.file.dates_are_whole()) {
            true => Generation::CorrectedDate,
            false => Generation::Level,
        })
    }

    /// The commit's generation number, of the kind [`generation_kind`](Self::generation_kind) for all of them:
    /// greater than any of its parents' if the writer made no mistake. `None` where the writer stored no level.
    #[inline]
    pub fn generation(&self, pos: GraphPos) -> Option<u64> {
        match self.generation_kind() {
            Generation::CorrectedDate => {
                let (layer, rank) = self.layer(pos);
                // The sum may leave 34 bits: dates are 34, offsets up to 64 bits wide.
                layer.file.date_offset(rank).map(|offset| layer.file.time(rank).saturating_add(offset))
            }
            Generation::Level => self.level(pos).map(u64::from),
        }
    }

    /// The commit's topological level, 30 bits; `None` where the writer stored none. Levels stop growing at
    /// 2^30 - 1.
    #[inline]
    pub fn level(&self, pos: GraphPos) -> Option<u32> {
        let (layer, rank) = self.layer(pos);
        let level = be32(layer.file.row(rank), self.hash.len() + 8) >> 2;
        (level != 0).then_some(level)
    }
}

impl fmt::Debug for CommitGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitGraph").field("len", &self.len).field("layers", &self.layers.len()).finish()
    }
}

fn load(path: &Path, hash: HashKind, source: ByteSource, problems: &mut Vec<GraphProblem>) -> Option<GraphFile<Bytes>> {
    let problem = |kind| GraphProblem { path: path.to_owned(), kind };
    let bytes = match Bytes::open(path, source) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            problems.push(problem(GraphProblemKind::Io(error)));
            return None;
        }
    };
    match GraphFile::parse(bytes, hash) {
        Ok(file) => Some(file),
        Err(error) => {
            problems.push(problem(GraphProblemKind::Graph(error)));
            None
        }
    }
}

/// The layers of a chain that fit together, lowest first; none without a chain.
fn load_chain(
    info: &Path,
    objects_dirs: &[&Path],
    hash: HashKind,
    source: ByteSource,
    problems: &mut Vec<GraphProblem>,
) -> Vec<Layer> {
    let path = info.join("commit-graphs").join("commit-graph-chain");
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                problems.push(GraphProblem { path, kind: GraphProblemKind::Io(error) });
            }
            return Vec::new();
        }
    };
    let mut layers: Vec<Layer> = Vec::new();
    let mut names: Vec<ObjectId> = Vec::new();
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    for (nr, line) in text.split(|&b| b == b'\n').enumerate().filter(|_| !text.is_empty()) {
        let chain_problem = |kind| GraphProblem { path: path.clone(), kind };
        let Ok(name) = ObjectId::from_hex(line) else {
            problems.push(chain_problem(GraphProblemKind::ChainLine { line: nr + 1 }));
            break;
        };
        let file_name = format!("graph-{name}.graph");
        let candidates = objects_dirs.iter().map(|dir| dir.join("info").join("commit-graphs").join(&file_name));
        let found = candidates.into_iter().find_map(|path| load(&path, hash, source, problems).zip(Some(path)));
        let Some((file, layer_path)) = found else {
            problems.push(chain_problem(GraphProblemKind::LayerMissing { name }));
            break;
        };
        let first = layers.last().map_or(0, |below| below.first + below.file.len());
        let fits = first.checked_add(file.len()).is_some_and(|len| len < NO_PARENT);
        // Each layer names all below it, and its own name is its checksum.
        let matches = file.checksum() == name && file.base_layers().eq(names.iter().copied());
        if !matches || !fits {
            problems.push(GraphProblem { path: layer_path, kind: GraphProblemKind::LayerMismatch { name } });
            break;
        }
        layers.push(Layer { file, first });
        names.push(name);
    }
    layers
}

/// Why a commit-graph file, or one entry of it, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("commit-graph offset {at}: {kind}")]
#[non_exhaustive]
pub struct GraphError {
    /// Byte offset in the file.
    pub at: u64,
    /// What is wrong there.
    pub kind: GraphErrorKind,
}

impl From<TocError> for GraphError {
    fn from(error: TocError) -> Self {
        GraphError { at: error.at, kind: GraphErrorKind::Toc(error) }
    }
}

/// What is wrong with a commit-graph file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphErrorKind {
    /// The file ends inside something.
    #[error("{what} truncated: {need} bytes needed, {have} there")]
    Truncated {
        /// What was cut.
        what: &'static str,
        /// Bytes it takes.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// Not a commit-graph file.
    #[error("no commit-graph signature")]
    Signature,
    /// A version or hash that this reader, or this repository, does not have.
    #[error("unsupported {what} {found}")]
    Unsupported {
        /// Which header field.
        what: &'static str,
        /// Its value.
        found: u32,
    },
    /// The table of contents is wrong.
    #[error(transparent)]
    Toc(TocError),
    /// A mandatory chunk is not there.
    #[error("chunk {id} is missing")]
    NoChunk {
        /// Which one.
        id: ChunkId,
    },
    /// A chunk whose size does not go with the number of commits.
    #[error("chunk {id} has {have} bytes instead of {need}")]
    ChunkSize {
        /// Which one.
        id: ChunkId,
        /// Bytes that the number of commits demands.
        need: u64,
        /// Bytes that it has.
        have: u64,
    },
    /// A fan-out word smaller than its predecessor.
    #[error("fan-out decreases")]
    FanoutOrder,
    /// More commits than positions.
    #[error("more commits than the format can number")]
    TooManyCommits,
    /// A parent that is not in this layer or below.
    #[error("parent position {pos} is not below {limit}")]
    Parent {
        /// The position found.
        pos: u32,
        /// Commits in this layer and below.
        limit: u32,
    },
    /// The list of an octopus merge's parents does not lie inside the `EDGE` chunk.
    #[error("extra edges from word {index} on do not end within {words} words")]
    EdgeList {
        /// Where the list starts, in words.
        index: u32,
        /// Words in the chunk; 0 also if there is none.
        words: u32,
    },
    /// The trailing checksum is that of other bytes.
    #[error("checksum {stored} stored, {found} computed")]
    Checksum {
        /// What the file ends with.
        stored: ObjectId,
        /// What its bytes give.
        found: ObjectId,
    },
}

/// A commit-graph file that was passed over, and why: worth a warning.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
#[non_exhaustive]
pub struct GraphProblem {
    /// The file.
    pub path: PathBuf,
    /// Why it was passed over.
    #[source]
    pub kind: GraphProblemKind,
}

/// Why a commit-graph file was passed over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphProblemKind {
    /// It cannot be read.
    #[error(transparent)]
    Io(std::io::Error),
    /// Its bytes are wrong.
    #[error(transparent)]
    Graph(GraphError),
    /// A line of the chain file is not an id.
    #[error("line {line} is not a hash")]
    ChainLine {
        /// One-based number of the line.
        line: usize,
    },
    /// No directory has a usable file for a layer; the layers below are used.
    #[error("layer {name} not found; using the layers below it")]
    LayerMissing {
        /// The layer.
        name: ObjectId,
    },
    /// A layer that was made for another chain, or is not what its name says; the layers below are used.
    #[error("layer {name} does not belong to this chain; using the layers below it")]
    LayerMismatch {
        /// The layer.
        name: ObjectId,
    },
}
