//! Which commits one side wants and the other side does not have.
//!
//! # The rule that makes it exact
//!
//! Commits are visited from a queue, and the colour "haves side" flows from each visited commit to its
//! parents; a commit coloured after its visit passes the colour on at once. The walk may stop early only
//! when no later visit can colour a commit that was kept. That is decided by what is in the queue:
//!
//! - nothing was kept, and nothing uncoloured waits: the answer is empty whatever comes;
//! - only coloured commits *of the commit-graph* wait, and none has a higher topological level than a kept one: levels
//!   fall along every edge, so no kept commit is an ancestor of theirs. Levels are what git has always written
//!   correctly;
//! - otherwise the walk goes on to the end of the coloured side. Dates prove nothing, so without
//!   a graph that is the price of an exact answer. [`Stop::Dates`] does not pay it.
//!
//! The queue is ordered by corrected dates where the graph has them, which comes close to visiting only what matters; but
//! they prove nothing either, for git has written wrong ones (below the parents' own) wherever history has a date beyond 2^32.
//! Commits that are not in the graph come before all that are, since none of them is an ancestor of one that
//! is. When numbers do not fall along an edge that is seen, the walk starts over with the next weaker order:
//! corrected dates, levels, dates. The edges out of commits that still wait at the end are looked at, too.
//!
//! The output is then put in git's default order by replaying its date queue over the kept commits.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;
use std::ops::Range;

use object::{ObjectId, ObjectKind, tag::Tag};

use crate::ahead::ReadAhead;
use crate::commit_graph::{CommitGraph, Generation, GraphPos};
use crate::commits::{Commits, Read};
use crate::error::WalkError;
use crate::numbering::IdHasher;

/// What to do when a commit of the haves side is not in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MissingHaves {
    /// An error that names it.
    #[default]
    Refuse,
    /// Go on without it, as a server does with what a client says to have.
    Ignore,
}

/// How sure to be that no kept commit is an ancestor of a have before stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stop {
    /// Certain. Without a commit-graph this visits all ancestors of the haves; with one, those with a higher
    /// level than the lowest kept commit.
    #[default]
    Proven,
    /// As soon as dates say so: at once if they are the corrected dates of a commit-graph; without a graph, as git
    /// does, a few commits after the oldest kept one, and only while no visited commit is older than its
    /// parent (from then on as [`Proven`](Stop::Proven)). Wrong dates in the unvisited part can leave
    /// too many commits in the answer, never too few.
    Dates,
}

/// How [`limit`] works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitOptions {
    /// Haves that are not in the store. Default: refused.
    pub missing_haves: MissingHaves,
    /// When to stop. Default: when the answer is certain.
    pub stop: Stop,
    /// Threads that read commits ahead, the caller's included, where many have to be read. Default: 1, and nothing is
    /// read ahead. The answer does not depend on it.
    pub threads: usize,
}

impl Default for LimitOptions {
    fn default() -> Self {
        LimitOptions { missing_haves: MissingHaves::default(), stop: Stop::default(), threads: 1 }
    }
}

impl LimitOptions {
    /// Sets [`threads`](Self#structfield.threads).
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets [`missing_haves`](Self#structfield.missing_haves).
    #[must_use]
    pub fn missing_haves(mut self, missing_haves: MissingHaves) -> Self {
        self.missing_haves = missing_haves;
        self
    }

    /// Sets [`stop`](Self#structfield.stop).
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }
}

/// A commit of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedCommit {
    /// Its id.
    pub id: ObjectId,
    /// Its root tree.
    pub tree: ObjectId,
    /// The committer's time in seconds since 1970 (from a commit-graph, its low 34 bits).
    pub time: u64,
}

/// A commit of the haves side, of which only the tree matters: the other side has all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The commit's id.
    pub commit: ObjectId,
    /// Its root tree.
    pub tree: ObjectId,
}

/// What [`limit`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limited {
    /// All commits reachable from the wants and not from the haves, in git's default order: by time, newest
    /// first, but none before all its visited children; among equal times, in the order of discovery.
    pub commits: Vec<LimitedCommit>,
    /// Every direct parent of those that is on the haves side, each once, in order of discovery.
    pub edges: Vec<Edge>,
    /// The commits that the haves named, each once, in their order.
    pub haves_tips: Vec<Edge>,
    /// Commits of the haves side that are missing or unreadable. History behind them was not seen, so that
    /// `commits` may hold more than the other side lacks. Ends of history that the store never had.
    pub unreadable: Vec<ObjectId>,
    /// What it took.
    pub stats: LimitStats,
}

/// What a [`limit`] cost; for tests that a fast path was taken, and for tracing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitStats {
    /// Commits taken from the queue to find what the haves reach. 0 without haves.
    pub coloured: u64,
    /// Commits whose objects were read, because no graph knows them; those read ahead in vain included.
    pub read: u64,
    /// Those of them that were read in batches; see [`LimitOptions::threads`].
    pub read_ahead: u64,
    /// How often the walk started over because generation numbers did not fall along an edge.
    pub restarts: u32,
}

/// The commits reachable from `wants` and not from `haves`, exactly, with the edge between them.
///
/// Tags among the tips are followed to their commits. Linear in the commits visited (times the logarithm of the queue); never
/// recursive; a commit in the graph costs no read and no hashing. Memory: 1 byte for each commit of the graph, 16 for each of the
/// answer while it is ordered, and about 150 for each commit visited that the graph does not have.
///
/// # Errors
///
/// [`WalkError::Missing`] for a want (or, unless ignored, a have) that the store does not have, though the graph
/// may list it; [`WalkError::MissingLink`] for a missing ancestor of the wants that the haves do not reach
/// either; [`WalkError::NotACommit`] for a tip that is no commit behind its tags, or a parent that is none; read errors.
/// Missing and unreadable *ancestors* of haves are no error, see [`Limited::unreadable`].
pub fn limit(
    commits: &Commits,
    wants: &[ObjectId],
    haves: &[ObjectId],
    options: &LimitOptions,
) -> Result<Limited, WalkError> {
    let mut walk = Walk::new(commits, options.threads);
    let want_nodes = walk.tips(wants, MissingHaves::Refuse)?;
    let have_nodes = walk.tips(haves, options.missing_haves)?;
    if !have_nodes.is_empty() && !want_nodes.is_empty() {
        walk.colour(&want_nodes, &have_nodes, options.stop)?;
    }
    let mut limited = walk.collect(&want_nodes)?;
    for node in have_nodes {
        if walk.set(node, TIP) && !walk.has(node, LOST) {
            limited.haves_tips.push(walk.edge(node));
        }
    }
    limited.unreadable = std::mem::take(&mut walk.unreadable);
    limited.stats = walk.stats;
    Ok(limited)
}

/// A commit of this walk: its position in the graph, or (beyond those) its rank among the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Node(u32);

/// On the haves side.
const HAVE: u8 = 1;
/// Met while colouring.
const QUEUED: u8 = 2;
/// Taken from the queue while colouring: its parents are queued, and coloured if it was.
const DONE: u8 = 4;
/// Met while collecting.
const LISTED: u8 = 8;
/// An edge that was reported.
const EDGE: u8 = 16;
/// A tip that was reported.
const TIP: u8 = 32;
/// Not a commit that could be read.
const LOST: u8 = 64;

/// Of a commit that the graph does not have.
struct Other {
    id: ObjectId,
    tree: ObjectId,
    time: u64,
    /// In `Walk::links`.
    parents: Range<u32>,
    /// Whether the three fields above are filled (unless the commit is lost).
    read: bool,
}

/// What orders the queue. Weaker and weaker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Generation,
    Level,
    Date,
}

/// Generation numbers that do not fall along an edge: start over with a weaker order.
struct OrderBroken;

struct Walk<'a> {
    commits: &'a Commits,
    graph: Option<&'a CommitGraph>,
    graph_len: u32,
    /// Per node.
    flags: Vec<u8>,
    others: Vec<Other>,
    /// Parents of `others`, and of graph nodes whose entry in the graph is unusable.
    links: Vec<Node>,
    numbers: HashMap<ObjectId, Node, BuildHasherDefault<IdHasher>>,
    /// Ranges in `links` for graph nodes whose own parents the graph cannot tell.
    repaired: HashMap<u32, Range<u32>>,
    /// Why a node is lost, as long as that may turn out to be an error.
    lost: HashMap<u32, WalkError>,
    unreadable: Vec<ObjectId>,
    stats: LimitStats,
    ahead: ReadAhead,
    // Scratch, kept for its capacity.
    content: Vec<u8>,
    ids: Vec<ObjectId>,
    positions: Vec<GraphPos>,
    parents: Vec<Node>,
}

impl<'a> Walk<'a> {
    fn new(commits: &'a Commits, threads: usize) -> Self {
        let graph = commits.graph();
        let graph_len = graph.map_or(0, CommitGraph::len);
        Walk {
            commits,
            graph,
            graph_len,
            flags: vec![0; graph_len as usize],
            others: Vec::new(),
            links: Vec::new(),
            numbers: HashMap::default(),
            repaired: HashMap::new(),
            lost: HashMap::new(),
            unreadable: Vec::new(),
            stats: LimitStats::default(),
            ahead: ReadAhead::new(commits.store(), threads),
            content: Vec::new(),
            ids: Vec::new(),
            positions: Vec::new(),
            parents: Vec::new(),
        }
    }

    #[inline]
    fn has(&self, node: Node, flag: u8) -> bool {
        self.flags[node.0 as usize] & flag != 0
    }

    /// Sets a flag; `true` if it was not set.
    #[inline]
    fn set(&mut self, node: Node, flag: u8) -> bool {
        let flags = &mut self.flags[node.0 as usize];
        let fresh = *flags & flag == 0;
        *flags |= flag;
        fresh
    }

    /// The graph and the position of a node that it has.
    #[inline]
    fn in_graph(&self, node: Node) -> Option<(&'a CommitGraph, GraphPos)> {
        self.graph.filter(|_| node.0 < self.graph_len).map(|graph| (graph, GraphPos::new(node.0)))
    }

    #[inline]
    fn other(&self, node: Node) -> &Other {
        &self.others[(node.0 - self.graph_len) as usize]
    }

    fn id(&self, node: Node) -> ObjectId {
        match self.in_graph(node) {
            Some((graph, pos)) => graph.id(pos),
            None => self.other(node).id,
        }
    }

    #[inline]
    fn tree(&self, node: Node) -> ObjectId {
        match self.in_graph(node) {
            Some((graph, pos)) => graph.tree(pos),
            None => self.other(node).tree,
        }
    }

    #[inline]
    fn time(&self, node: Node) -> u64 {
        match self.in_graph(node) {
            Some((graph, pos)) => graph.commit_time(pos),
            None => self.other(node).time,
        }
    }

    fn edge(&self, node: Node) -> Edge {
        Edge { commit: self.id(node), tree: self.tree(node) }
    }

    /// The node of an id, new if need be.
    fn node(&mut self, id: ObjectId) -> Result<Node, WalkError> {
        if let Some(pos) = self.graph.and_then(|graph| graph.lookup(&id)) {
            return Ok(Node(pos.get()));
        }
        let next = u32::try_from(self.flags.len()).map_err(|_| WalkError::TooManyObjects)?;
        let node = *self.numbers.entry(id).or_insert(Node(next));
        if node.0 == next {
            self.flags.push(0);
            let tree = id.kind().null();
            self.others.push(Other { id, tree, time: 0, parents: 0..0, read: false });
        }
        Ok(node)
    }

    /// The commits that these ids stand for, each id's in turn.
    fn tips(&mut self, ids: &[ObjectId], missing: MissingHaves) -> Result<Vec<Node>, WalkError> {
        let mut nodes = Vec::with_capacity(ids.len());
        for id in ids {
            match self.tip(*id) {
                Ok(node) => nodes.push(node),
                Err(error) if missing == MissingHaves::Ignore && error.is_missing() => self.unreadable.push(*id),
                Err(error) => return Err(error),
            }
        }
        Ok(nodes)
    }

    fn tip(&mut self, mut id: ObjectId) -> Result<Node, WalkError> {
        let mut tags: Vec<ObjectId> = Vec::new();
        loop {
            let missing = |by: Option<&ObjectId>| match by {
                Some(by) => WalkError::MissingLink { id, by: *by },
                None => WalkError::Missing { id },
            };
            if let Some(pos) = self.graph.and_then(|graph| graph.lookup(&id)) {
                // A graph may outlive the commits it lists.
                return match self.commits.store().contains(&id)? {
                    true => Ok(Node(pos.get())),
                    false => Err(missing(tags.last())),
                };
            }
            if let Some(node) = self.numbers.get(&id).copied().filter(|node| self.other(*node).read) {
                return Ok(node);
            }
            match self.commits.read(&id, &mut self.content, &mut self.ids) {
                Ok(Read::Commit { tree, time }) => {
                    let node = self.node(id)?;
                    self.fill(node, tree, time)?;
                    return Ok(node);
                }
                Ok(Read::Other(ObjectKind::Tag)) => {
                    if tags.contains(&id) {
                        return Err(WalkError::TagCycle { id });
                    }
                    let tag = Tag::parse(&self.content, id.kind());
                    let tag = tag.map_err(|source| WalkError::Malformed { id, source })?;
                    tags.push(id);
                    id = tag.target();
                }
                Ok(Read::Other(kind)) => return Err(WalkError::NotACommit { id, kind }),
                Err(error) if error.is_missing() => return Err(missing(tags.last())),
                Err(error) => return Err(error),
            }
        }
    }

    /// Stores what was read of a commit outside the graph; its parents' ids are in `self.ids`.
    fn fill(&mut self, node: Node, tree: ObjectId, time: u64) -> Result<(), WalkError> {
        self.stats.read += 1;
        let parents = self.link_ids()?;
        let other = &mut self.others[(node.0 - self.graph_len) as usize];
        (other.tree, other.time, other.parents, other.read) = (tree, time, parents, true);
        Ok(())
    }

    /// Turns `self.ids` into nodes at the end of `self.links`.
    fn link_ids(&mut self) -> Result<Range<u32>, WalkError> {
        let start = self.links.len();
        let ids = std::mem::take(&mut self.ids);
        for id in &ids {
            let node = self.node(*id)?;
            self.links.push(node);
        }
        self.ids = ids;
        let end = u32::try_from(self.links.len()).map_err(|_| WalkError::TooManyObjects)?;
        Ok(start as u32..end)
    }

    /// Makes time, tree and parents of a node known; what cannot be read becomes a lost commit without
    /// parents. `by` is the child that led here.
    #[inline]
    fn load(&mut self, node: Node, by: Node) -> Result<(), WalkError> {
        if node.0 < self.graph_len || self.other(node).read || self.has(node, LOST) {
            return Ok(());
        }
        let id = self.other(node).id;
        if self.read_ahead(&id)? && self.other(node).read {
            return Ok(());
        }
        let error = match self.commits.read(&id, &mut self.content, &mut self.ids) {
            Ok(Read::Commit { tree, time }) => return self.fill(node, tree, time),
            Ok(Read::Other(kind)) => WalkError::NotACommit { id, kind },
            Err(WalkError::Missing { id }) => WalkError::MissingLink { id, by: self.id(by) },
            Err(error) => error,
        };
        // Whether that matters depends on the side it is on, which is not settled yet.
        self.set(node, LOST);
        self.lost.insert(node.0, error);
        Ok(())
    }

    /// Reads a batch around a commit if it is time for one; whether it was.
    fn read_ahead(&mut self, id: &ObjectId) -> Result<bool, WalkError> {
        let batch = self.ahead.next(self.commits.store(), id);
        if batch.is_empty() {
            return Ok(false);
        }
        let before = self.stats.read;
        for found in batch {
            let mut parents = &*found.parents;
            for commit in found.commits {
                let (own, rest) = parents.split_at(commit.parents);
                parents = rest;
                let node = self.node(commit.id)?;
                if node.0 < self.graph_len || self.other(node).read {
                    continue;
                }
                self.ids.clear();
                self.ids.extend_from_slice(self.commits.shallow().parents(&commit.id).unwrap_or(own));
                self.fill(node, commit.tree, commit.time)?;
            }
        }
        let fresh = self.stats.read - before;
        self.stats.read_ahead += fresh;
        self.ahead.learned(fresh as usize);
        Ok(true)
    }

    /// Puts the parents of a loaded node in `self.parents`.
    #[inline]
    fn find_parents(&mut self, node: Node) -> Result<(), WalkError> {
        self.parents.clear();
        let range = match self.in_graph(node) {
            Some((graph, pos)) => {
                self.positions.clear();
                if graph.parents(pos, &mut self.positions).is_ok() {
                    self.parents.extend(self.positions.iter().map(|pos| Node(pos.get())));
                    return Ok(());
                }
                self.repair(node)?
            }
            None => self.other(node).parents.clone(),
        };
        self.parents.extend_from_slice(&self.links[range.start as usize..range.end as usize]);
        Ok(())
    }

    /// The parents of a commit whose entry in the graph is unusable, from the commit itself.
    #[cold]
    fn repair(&mut self, node: Node) -> Result<Range<u32>, WalkError> {
        if let Some(range) = self.repaired.get(&node.0) {
            return Ok(range.clone());
        }
        let id = self.id(node);
        match self.commits.read(&id, &mut self.content, &mut self.ids)? {
            Read::Commit { .. } => {}
            Read::Other(kind) => return Err(WalkError::NotACommit { id, kind }),
        }
        self.stats.read += 1;
        let range = self.link_ids()?;
        self.repaired.insert(node.0, range.clone());
        Ok(range)
    }

    /// Flags everything that the haves reach, as far as that can touch what the wants reach.
    fn colour(&mut self, wants: &[Node], haves: &[Node], stop: Stop) -> Result<(), WalkError> {
        let mut order = match self.graph.map(CommitGraph::generation_kind) {
            Some(Generation::CorrectedDate) => Order::Generation,
            Some(Generation::Level) => Order::Level,
            None => Order::Date,
        };
        while let Err(OrderBroken) = self.colour_by(order, wants, haves, stop)? {
            self.stats.restarts += 1;
            self.flags.iter_mut().for_each(|flags| *flags &= LOST);
            order = match order {
                Order::Generation => Order::Level,
                // By date no order is ever called broken.
                Order::Level | Order::Date => Order::Date,
            };
        }
        Ok(())
    }

    /// Where a loaded node stands in the queue: greater comes first.
    #[inline]
    fn key(&self, node: Node, order: Order) -> Result<u64, OrderBroken> {
        const BEFORE_GRAPH: u64 = 1 << 63;
        match (order, self.in_graph(node)) {
            (Order::Date, _) => Ok(self.time(node)),
            (_, None) => Ok(self.other(node).time | BEFORE_GRAPH),
            // A number that reaches the others' range is no date, whatever the file says.
            (Order::Generation, Some((graph, pos))) => {
                graph.generation(pos).filter(|generation| *generation < BEFORE_GRAPH).ok_or(OrderBroken)
            }
            (Order::Level, Some((graph, pos))) => graph.level(pos).map(u64::from).ok_or(OrderBroken),
        }
    }

    fn colour_by(
        &mut self,
        order: Order,
        wants: &[Node],
        haves: &[Node],
        stop: Stop,
    ) -> Result<Result<(), OrderBroken>, WalkError> {
        // For early returns of the inner error without mixing it up with the outer one.
        macro_rules! checked {
            ($result:expr) => {
                match $result {
                    Ok(value) => value,
                    Err(OrderBroken) => return Ok(Err(OrderBroken)),
                }
            };
        }
        let mut queue: BinaryHeap<(u64, Node)> = BinaryHeap::new();
        let mut waiting = 0; // queued without colour
        let mut kept = 0u64; // done without colour
        let mut oldest_kept = u64::MAX;
        let mut lowest_kept = u32::MAX;
        let mut slop = SLOP;
        let mut dates_lie = false;
        for &node in haves {
            self.set(node, HAVE);
        }
        for &node in haves.iter().chain(wants) {
            if self.set(node, QUEUED) {
                queue.push((checked!(self.key(node, order)), node));
                waiting += usize::from(!self.has(node, HAVE));
            }
        }

        let mut late: Vec<Node> = Vec::new();
        while let Some((key, node)) = queue.pop() {
            self.stats.coloured += 1;
            let have = self.has(node, HAVE);
            self.set(node, DONE);
            if !have {
                waiting -= 1;
                kept += 1;
                oldest_kept = oldest_kept.min(self.time(node));
                if let (true, Some((graph, pos))) = (order != Order::Date, self.in_graph(node)) {
                    lowest_kept = lowest_kept.min(checked!(graph.level(pos).ok_or(OrderBroken)));
                }
            }
            self.find_parents(node)?;
            let parents = std::mem::take(&mut self.parents);
            let in_graph = node.0 < self.graph_len;
            for &parent in &parents {
                self.load(parent, node)?;
                let parent_key = checked!(self.key(parent, order));
                if parent_key >= key && in_graph && order != Order::Date {
                    return Ok(Err(OrderBroken));
                }
                dates_lie |= parent_key > key;
                if self.set(parent, QUEUED) {
                    if have {
                        self.set(parent, HAVE);
                    } else if !self.has(parent, HAVE) {
                        waiting += 1;
                    }
                    queue.push((parent_key, parent));
                } else if have && self.set(parent, HAVE) {
                    match self.has(parent, DONE) {
                        true => late.push(parent),
                        false => waiting -= 1,
                    }
                }
            }
            self.parents = parents;
            if !late.is_empty() {
                self.pass_on(&mut late, &mut kept, &mut waiting)?;
            }

            if waiting > 0 {
                slop = SLOP;
                continue;
            }
            if kept == 0 {
                break;
            }
            let Some(&(_, next)) = queue.peek() else { break };
            if order != Order::Date && next.0 < self.graph_len {
                if order == Order::Level || stop == Stop::Dates {
                    return self.check_frontier(queue.iter().copied(), order);
                }
                let queue = queue.into_iter().map(|(_, node)| node).collect();
                return self.colour_down_to(lowest_kept, queue, kept);
            }
            if stop == Stop::Dates && !dates_lie {
                slop = if self.time(next) >= oldest_kept { SLOP } else { slop - 1 };
                if slop == 0 {
                    break;
                }
            }
        }
        Ok(Ok(()))
    }

    /// Lets commits that were kept, and are coloured now, pass it on.
    #[cold]
    fn pass_on(&mut self, late: &mut Vec<Node>, kept: &mut u64, waiting: &mut usize) -> Result<(), WalkError> {
        while let Some(node) = late.pop() {
            *kept -= 1;
            self.find_parents(node)?;
            for nr in 0..self.parents.len() {
                let parent = self.parents[nr];
                if self.set(parent, HAVE) {
                    match self.has(parent, DONE) {
                        true => late.push(parent),
                        false => *waiting -= 1,
                    }
                }
            }
        }
        Ok(())
    }

    /// Goes on from coloured commits, of the graph and not yet done, until none has a level above `lowest`.
    fn colour_down_to(
        &mut self,
        lowest: u32,
        nodes: Vec<Node>,
        mut kept: u64,
    ) -> Result<Result<(), OrderBroken>, WalkError> {
        let key = |walk: &Self, node: Node| match walk.in_graph(node) {
            Some(_) => walk.key(node, Order::Level),
            // Behind an entry that was repaired: no order to rely on.
            None => Err(OrderBroken),
        };
        let mut queue = BinaryHeap::with_capacity(nodes.len());
        for node in nodes {
            match key(self, node) {
                Ok(level) => queue.push((level, node)),
                Err(OrderBroken) => return Ok(Err(OrderBroken)),
            }
        }
        let mut late: Vec<Node> = Vec::new();
        while let Some(&(level, node)) = queue.peek() {
            if kept == 0 || level <= u64::from(lowest) {
                break;
            }
            queue.pop();
            self.stats.coloured += 1;
            self.set(node, DONE);
            self.find_parents(node)?;
            for nr in 0..self.parents.len() {
                let parent = self.parents[nr];
                let parent_level = match key(self, parent) {
                    Ok(parent_level) if parent_level < level => parent_level,
                    _ => return Ok(Err(OrderBroken)),
                };
                if self.set(parent, HAVE) && self.has(parent, DONE) {
                    late.push(parent);
                }
                if self.set(parent, QUEUED) {
                    queue.push((parent_level, parent));
                }
            }
            // Nothing uncoloured waits.
            if !late.is_empty() {
                self.pass_on(&mut late, &mut kept, &mut 0)?;
            }
        }
        if kept == 0 { Ok(Ok(())) } else { self.check_frontier(queue.into_iter(), Order::Level) }
    }

    /// Whether the numbers fall along the edges out of the waiting graph commits, too.
    fn check_frontier(
        &mut self,
        queue: impl Iterator<Item = (u64, Node)>,
        order: Order,
    ) -> Result<Result<(), OrderBroken>, WalkError> {
        for (key, node) in queue {
            self.find_parents(node)?;
            for nr in 0..self.parents.len() {
                let parent = self.parents[nr];
                // A parent outside the graph stands in an entry that was repaired: no order to rely on.
                let fine = parent.0 < self.graph_len && self.key(parent, order).is_ok_and(|parent| parent < key);
                if !fine {
                    return Ok(Err(OrderBroken));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Lists what the wants reach without the coloured part, in git's order, with the edge.
    fn collect(&mut self, wants: &[Node]) -> Result<Limited, WalkError> {
        let mut limited = Limited::default();
        // By time, then first come, first served.
        let mut queue: BinaryHeap<(u64, Reverse<u32>, Node)> = BinaryHeap::new();
        let mut arrivals = 0u32;
        let mut push = |queue: &mut BinaryHeap<_>, time: u64, node: Node| {
            queue.push((time, Reverse(arrivals), node));
            arrivals += 1;
        };
        for &node in wants {
            if !self.has(node, HAVE) && self.set(node, LISTED) {
                push(&mut queue, self.time(node), node);
            }
        }
        while let Some((time, _, node)) = queue.pop() {
            limited.commits.push(LimitedCommit { id: self.id(node), tree: self.tree(node), time });
            self.find_parents(node)?;
            let parents = std::mem::take(&mut self.parents);
            for &parent in &parents {
                if self.has(parent, HAVE) {
                    if self.set(parent, EDGE) && !self.has(parent, LOST) {
                        limited.edges.push(self.edge(parent));
                    }
                } else if self.set(parent, LISTED) {
                    self.load(parent, node)?;
                    if let Some(error) = self.lost.remove(&parent.0) {
                        return Err(error);
                    }
                    push(&mut queue, self.time(parent), parent);
                }
            }
            self.parents = parents;
        }
        // What is still lost is on the haves side.
        let lost = std::mem::take(&mut self.lost);
        let mut lost: Vec<ObjectId> = lost.into_keys().map(|node| self.id(Node(node))).collect();
        lost.sort_unstable();
        self.unreadable.extend(lost);
        Ok(limited)
    }
}

/// How many coloured commits git visits beyond the oldest kept one.
const SLOP: u32 = 5;
