//! [`answer`]: which objects someone needs who has some and wants others.
//!
//! The set of a side is built in three steps. Commits with a bitmap that the set does not hold yet give theirs. From the
//! others, history is walked, newest commits first, until the set holds what is met or a bitmap covers it; every
//! commit walked leaves its tree. Those trees are then marked with all below them, where the set does not hold it. The
//! haves come first, so that the wants stop at them.
//!
//! A bitmap is believed only as far as can be checked at once: it must hold the commit itself, its tree and its parents,
//! and what these point at in turn, for as many links as [`Request::checked_links`](Request#structfield.checked_links) allows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use object::{ObjectId, ObjectKind, tag::Tag, tree};
use odb::{Observer, PackOrder, Quiet, Store};
use pack_format::PackPos;
use revwalk::{
    Boundary, Commits, Filter, Missing, Numbering, ObjectNr, ObjectSet, ObjectWalk, Place, WalkError, WalkOptions,
    WalkStats,
};
use roaring::RoaringBitmap;

use crate::error::{AnswerError, ParseError, ParseErrorKind};
use crate::filter::Rules;
use crate::read::{BitmapFile, Scratch};

/// What to ask.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Objects wanted, of any kind; tags bring what they point at.
    pub wants: &'a [ObjectId],
    /// Objects that the other side has, with all that is reachable from them. Default: none.
    pub haves: &'a [ObjectId],
    /// What to leave out. Objects wanted by name, and what tags wanted by name point at, always stay. Default: nothing.
    pub filter: Option<&'a Filter>,
    /// Told about the walk; may stop it. Default: silent.
    pub observer: &'a dyn Observer,
    /// Bytes of decoded trees that the walk may keep. Default: 16 MiB.
    pub cache_bytes: usize,
    /// Threads that the walk may use. Default: 1.
    pub threads: usize,
    /// How many links (a commit's tree and parents, a tree's entries) are followed to see that the bitmaps used are closed
    /// under reachability, from their commits down. Default: 1024, all of a small repository and a fraction of a
    /// millisecond; `u64::MAX` follows all, which costs as much as a walk.
    pub checked_links: u64,
}

impl<'a> Request<'a> {
    /// Asks for `wants`, all of it.
    pub fn new(wants: &'a [ObjectId]) -> Self {
        let cache_bytes = WalkOptions::default().cache_bytes;
        Request { wants, haves: &[], filter: None, observer: &Quiet, cache_bytes, threads: 1, checked_links: 1024 }
    }

    /// Sets [`haves`](Request#structfield.haves).
    #[must_use]
    pub fn haves(mut self, haves: &'a [ObjectId]) -> Self {
        self.haves = haves;
        self
    }

    /// Sets [`filter`](Request#structfield.filter).
    #[must_use]
    pub fn filter(mut self, filter: Option<&'a Filter>) -> Self {
        self.filter = filter;
        self
    }

    /// Sets [`observer`](Request#structfield.observer).
    #[must_use]
    pub fn observer(mut self, observer: &'a dyn Observer) -> Self {
        self.observer = observer;
        self
    }

    /// Sets [`cache_bytes`](Request#structfield.cache_bytes).
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets [`checked_links`](Request#structfield.checked_links).
    #[must_use]
    pub fn checked_links(mut self, links: u64) -> Self {
        self.checked_links = links;
        self
    }

    /// Sets [`threads`](Request#structfield.threads).
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }
}

/// An answer: sets over the numbers of the [`Numbering`] given.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// Reachable from the wants, not from the haves, and not filtered out.
    pub objects: ObjectSet,
    /// Reachable from the haves.
    pub haves: ObjectSet,
    /// What it took.
    pub stats: AnswerStats,
}

impl Answer {
    /// [`objects`](Answer#structfield.objects) as a compressed set.
    pub fn to_roaring(&self) -> RoaringBitmap {
        to_roaring(&self.objects)
    }
}

/// Proof that bitmaps were used, and how much had to be walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnswerStats {
    /// Bitmaps taken into a set.
    pub bitmaps: u64,
    /// Tips that a bitmap taken before already covered.
    pub covered: u64,
    /// Commits met for which no bitmap gave the answer.
    pub commits_walked: u64,
    /// Trees and entries read by the walk.
    pub trees: WalkStats,
}

/// A set of numbers as a [`RoaringBitmap`]. Costs one pass over the words.
pub fn to_roaring(set: &ObjectSet) -> RoaringBitmap {
    /// Words in a container of roaring's.
    const CONTAINER: usize = 1024;
    let mut out = RoaringBitmap::new();
    let mut bytes = Vec::with_capacity(CONTAINER * 8);
    for (nr, words) in set.words().chunks(CONTAINER).enumerate() {
        let Some(last) = words.iter().rposition(|word| *word != 0) else { continue };
        bytes.clear();
        bytes.extend(words.iter().take(last + 1).flat_map(|word| word.to_le_bytes()));
        // Numbers have 32 bits, so the words of a set do not go beyond that.
        let first = (nr * CONTAINER) as u64 * 64;
        out |= RoaringBitmap::from_lsb0_bytes(first as u32, &bytes);
    }
    out
}

/// Everything reachable from the wants and not from the haves, filtered: exactly that, whether by bitmap or by walk.
///
/// `numbering` must have the pack of `file` in front ([`Numbering::new`] with `first`). Objects outside that pack get
/// the numbers after it. A tip that the store lacks is an error on either side; what is missing behind a have is
/// passed over, as in git.
///
/// When all tips have bitmaps, costs a few passes over the words of a bitmap, independent of the length of history.
///
/// # Errors
/// [`AnswerError`]; see [`AnswerError::should_walk`].
pub fn answer<D: AsRef<[u8]>>(
    numbering: &Numbering,
    file: &BitmapFile<D>,
    commits: &Commits,
    request: &Request<'_>,
) -> Result<Answer, AnswerError> {
    let rules = Rules::new(request.filter)?;
    if commits.shallow().alters() {
        return Err(AnswerError::AlteredHistory);
    }
    if numbering.pack_count() == 0
        || numbering.pack(0).count() != file.object_count()
        || numbering.pack(0).idx().pack_checksum() != file.pack_checksum()
    {
        return Err(AnswerError::WrongNumbering);
    }
    let mut search = Search {
        numbering,
        file,
        order: numbering.pack(0).order()?,
        commits,
        store: numbering.store(),
        observer: request.observer,
        scratch: Scratch::new(),
        stats: AnswerStats::default(),
        links_left: request.checked_links,
        checked: ObjectSet::new(),
    };
    let options = WalkOptions::default().cache_bytes(request.cache_bytes).threads(request.threads);

    let mut haves = ObjectSet::new();
    if !request.haves.is_empty() {
        let tips = search.tips(request.haves)?;
        let options = options.clone().missing(Missing::Allow);
        haves = search.closure(&tips, None, Side::Haves, Some(options))?;
    }
    let tips = search.tips(request.wants)?;
    let walk = rules.walk(options);
    let mut objects = search.closure(&tips, Some(&haves), Side::Wants, walk)?;
    objects.subtract(&haves);
    rules.apply(&mut objects, &tips.all, numbering, file)?;
    Ok(Answer { objects, haves, stats: search.stats })
}

/// What was asked for by name, and what its tags point at.
#[derive(Default)]
struct Tips {
    /// All of it.
    all: ObjectSet,
    commits: Vec<(ObjectNr, ObjectId)>,
    trees: Vec<ObjectId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Haves,
    Wants,
}

/// A commit that waits for its turn: newest first, then whatever keeps runs alike.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    time: u64,
    nr: Reverse<u32>,
    tree: ObjectId,
    parents: Vec<ObjectId>,
    id: ObjectId,
}

struct Search<'a, D> {
    numbering: &'a Numbering,
    file: &'a BitmapFile<D>,
    order: &'a PackOrder,
    commits: &'a Commits,
    store: &'a Store,
    observer: &'a dyn Observer,
    scratch: Scratch,
    stats: AnswerStats,
    links_left: u64,
    /// Objects whose links were followed.
    checked: ObjectSet,
}

impl<D: AsRef<[u8]>> Search<'_, D> {
    /// Looks the names up, peeling tags. A name given twice counts once.
    fn tips(&self, names: &[ObjectId]) -> Result<Tips, AnswerError> {
        let mut tips = Tips::default();
        let mut content = Vec::new();
        for name in names {
            let mut by = None;
            let mut id = *name;
            // Ends: every round adds to `all` or leaves.
            loop {
                let nr = self.numbering.number_of(&id)?.ok_or(match by {
                    None => WalkError::Missing { id },
                    Some(by) => WalkError::MissingLink { id, by },
                })?;
                if !tips.all.insert(nr) {
                    break;
                }
                match self.kind(&id, nr)? {
                    ObjectKind::Commit => tips.commits.push((nr, id)),
                    ObjectKind::Tree => tips.trees.push(id),
                    ObjectKind::Blob => {}
                    ObjectKind::Tag => {
                        self.store.read(&id, &mut content)?;
                        let tag =
                            Tag::parse(&content, id.kind()).map_err(|source| WalkError::Malformed { id, source })?;
                        (by, id) = (Some(id), tag.target());
                        continue;
                    }
                }
                break;
            }
        }
        // Packs that git wrote begin with the newest commits, whose bitmaps cover the others'.
        tips.commits.sort_unstable_by_key(|(nr, _)| *nr);
        Ok(tips)
    }

    /// The kind of a tip, from its header; what the bitmap file says must agree.
    fn kind(&self, id: &ObjectId, nr: ObjectNr) -> Result<ObjectKind, AnswerError> {
        let actual = match self.numbering.place(nr) {
            Place::Packed { pack, pos } => {
                let pack = self.numbering.pack(pack);
                let header = pack.order().and_then(|order| pack.header(order.offset(pos)));
                match header {
                    Ok(header) => header.kind,
                    Err(_) => self.store.header(id)?.kind, // another copy may be sound
                }
            }
            Place::Outside => self.store.header(id)?.kind,
        };
        match self.file.kind_at(PackPos::new(nr.get())) {
            Some(stated) if stated != actual => {
                let kind = ParseErrorKind::Kind { id: *id, actual, stated };
                Err(ParseError::new(0, kind).into())
            }
            _ => Ok(actual),
        }
    }

    /// Everything reachable from `tips`. What is in `stop`, which must be closed under reachability, need not be in
    /// the result. `walk` says how trees are walked, if at all.
    fn closure(
        &mut self,
        tips: &Tips,
        stop: Option<&ObjectSet>,
        side: Side,
        walk: Option<WalkOptions>,
    ) -> Result<ObjectSet, AnswerError> {
        let nothing = ObjectSet::new();
        let stop = stop.unwrap_or(&nothing);
        let mut set = ObjectSet::with_capacity(self.file.object_count());

        // Tips with bitmaps first, so that the others meet as much as possible.
        let mut rest = Vec::new();
        for &(nr, id) in &tips.commits {
            if set.contains(nr) || stop.contains(nr) {
                self.stats.covered += 1;
            } else if !self.take(nr, &id, &mut set)? {
                rest.push((nr, id));
            }
        }

        let mut trees = Vec::new();
        let mut waiting = BinaryHeap::new();
        for (nr, id) in rest {
            if set.contains(nr) {
                self.stats.covered += 1;
            } else {
                self.wait(nr, id, &mut waiting)?;
            }
        }
        while let Some(commit) = waiting.pop() {
            let nr = ObjectNr::new(commit.nr.0);
            // Met twice, or covered by a bitmap that was taken since.
            if set.contains(nr) {
                continue;
            }
            set.insert(nr);
            trees.push(commit.tree);
            self.stats.commits_walked += 1;
            self.observer.inc(1);
            if self.observer.cancelled() {
                return Err(WalkError::Cancelled.into());
            }
            for parent in commit.parents {
                let Some(nr) = self.numbering.number_of(&parent)? else {
                    if side == Side::Haves {
                        continue;
                    }
                    return Err(WalkError::MissingLink { id: parent, by: commit.id }.into());
                };
                if set.contains(nr) || stop.contains(nr) || self.take(nr, &parent, &mut set)? {
                    continue;
                }
                self.wait(nr, parent, &mut waiting)?;
            }
        }

        // From here on the set holds, with each tree, all that is below it: walks may stop at it as at `stop`.
        set.union_with(&tips.all_but_trees(self.numbering)?);
        trees.extend_from_slice(&tips.trees);
        if let Some(options) = walk
            && !trees.is_empty()
        {
            let mut boundary = set.clone();
            boundary.union_with(stop);
            let boundary = Boundary::closed(&boundary);
            let mut walk = ObjectWalk::new(self.numbering, options);
            let mut found = ObjectSet::new();
            walk.mark(trees, &mut found, Some(boundary), self.observer)?;
            let stats = walk.stats();
            self.stats.trees.trees += stats.trees;
            self.stats.trees.entries_read += stats.entries_read;
            self.stats.trees.entries_carried += stats.entries_carried;
            set.union_with(&found);
        }
        set.union_with(&tips.all);
        Ok(set)
    }

    /// Queues a commit for the walk.
    fn wait(&self, nr: ObjectNr, id: ObjectId, waiting: &mut BinaryHeap<Waiting>) -> Result<(), AnswerError> {
        let info = self.commits.info(&id)?;
        let (time, tree, parents) = (info.time, info.tree, info.parents);
        waiting.push(Waiting { time, nr: Reverse(nr.get()), tree, parents, id });
        Ok(())
    }

    /// Adds a commit's bitmap to the set, if it has one.
    fn take(&mut self, nr: ObjectNr, id: &ObjectId, set: &mut ObjectSet) -> Result<bool, AnswerError> {
        if nr.get() >= self.file.object_count() {
            return Ok(false);
        }
        let bit = PackPos::new(nr.get());
        let commit = self.order.idx_pos(bit);
        let Some(words) = self.file.reach(commit, bit, &mut self.scratch)? else {
            return Ok(false);
        };
        let mut links = Links {
            numbering: self.numbering,
            words,
            left: &mut self.links_left,
            checked: &mut self.checked,
            waiting: VecDeque::new(),
        };
        if let Some(what) = links.follow(self.commits, self.store, nr, id)? {
            let kind = ParseErrorKind::NotClosed { pos: commit.get(), what };
            return Err(ParseError::new(0, kind).into());
        }
        set.union_words(words);
        self.stats.bitmaps += 1;
        Ok(true)
    }
}

/// Follows what the objects of one bitmap point at, as far as that may cost.
struct Links<'a> {
    numbering: &'a Numbering,
    words: &'a [u64],
    left: &'a mut u64,
    checked: &'a mut ObjectSet,
    waiting: VecDeque<(ObjectNr, ObjectId, ObjectKind)>,
}

impl Links<'_> {
    /// The kind of object that the bitmap of the commit `id` should hold and does not. The commit's own links are looked at
    /// whatever it costs.
    fn follow(
        &mut self,
        commits: &Commits,
        store: &Store,
        nr: ObjectNr,
        id: &ObjectId,
    ) -> Result<Option<&'static str>, AnswerError> {
        self.waiting.push_back((nr, *id, ObjectKind::Commit));
        let mut content = Vec::new();
        while let Some((nr, id, kind)) = self.waiting.pop_front() {
            if !self.checked.insert(nr) {
                continue;
            }
            if kind == ObjectKind::Commit {
                let info = commits.info(&id)?;
                if !self.link(&info.tree, ObjectKind::Tree)? {
                    return Ok(Some("tree"));
                }
                for parent in &info.parents {
                    if !self.link(parent, ObjectKind::Commit)? {
                        return Ok(Some("parent"));
                    }
                }
            } else {
                store.read(&id, &mut content)?;
                for entry in tree::Entries::new(&content, id.kind()) {
                    let entry = entry.map_err(|source| WalkError::Malformed { id, source })?;
                    // A commit of another repository is no link.
                    let Some(kind) = entry.mode.object_kind().filter(|kind| *kind != ObjectKind::Commit) else {
                        continue;
                    };
                    if !self.link(&entry.id, kind)? {
                        return Ok(Some("tree entry"));
                    }
                }
            }
            if *self.left == 0 {
                break;
            }
        }
        Ok(None)
    }

    /// Whether the bitmap holds the object.
    fn link(&mut self, id: &ObjectId, kind: ObjectKind) -> Result<bool, AnswerError> {
        *self.left = self.left.saturating_sub(1);
        let Some(nr) = self.numbering.packed_number_of(id)? else { return Ok(false) };
        let word = self.words.get((nr.get() / 64) as usize).copied().unwrap_or(0);
        if kind != ObjectKind::Blob && !self.checked.contains(nr) {
            self.waiting.push_back((nr, *id, kind));
        }
        Ok(word >> (nr.get() % 64) & 1 == 1)
    }
}

impl Tips {
    fn all_but_trees(&self, numbering: &Numbering) -> Result<ObjectSet, WalkError> {
        let mut set = self.all.clone();
        for tree in &self.trees {
            if let Some(nr) = numbering.number_of(tree)? {
                set.remove(nr);
            }
        }
        Ok(set)
    }
}
