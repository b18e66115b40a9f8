//! Which objects a request asks for.

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use object::{ObjectId, ObjectKind};
use odb::{Observer, Pack, Store};
use revwalk::{
    BlobRule, Boundary, Commits, Filter, Limited, Missing, Numbering, ObjectNr, ObjectSet, ObjectWalk, WalkOptions,
};

use crate::error::SelectError;
use crate::options::setters;

/// A request for objects by reachability: what `git pack-objects --revs` reads.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Objects to send with all that they reach: commits, tags, trees, blobs.
    pub wants: &'a [ObjectId],
    /// Objects that the receiver has, with all that they reach.
    pub haves: &'a [ObjectId],
    /// What to leave out.
    pub filter: Option<&'a Filter>,
    /// Tags to add when what they point at (the second id, fully peeled) is sent: `--include-tag`.
    pub tags: &'a [(ObjectId, ObjectId)],
}

/// Options of determining the objects of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SelectOptions {
    /// Use a reachability bitmap where there is one. Default: `false`.
    pub bitmaps: bool,
    /// In a walk, look for what the receiver has only along paths that changed (git's
    /// `pack.useSparse`). Default: `true`.
    pub sparse: bool,
    /// Whether the pack may be thin, as in [`WriteOptions::thin`](crate::WriteOptions::thin): a walk
    /// then looks at a few more paths for what the receiver has. Default: `false`.
    pub thin: bool,
    /// In a walk, take the trees of all haves as known, not only those of parents of what is
    /// sent: for shallow receivers. Default: `false`.
    pub aggressive_edges: bool,
    /// What to do about missing objects. Default: fail.
    pub missing: Missing,
    /// Which objects to leave out because of where they are stored. Default: none.
    pub exclude: Exclude,
    /// Bytes of decoded trees to keep at hand during walks. Default: 16 MiB.
    pub cache_bytes: usize,
    /// Threads that a walk may use. The result does not depend on it. Default: 1.
    pub threads: usize,
}

impl Default for SelectOptions {
    fn default() -> Self {
        Self {
            bitmaps: false,
            sparse: true,
            thin: false,
            aggressive_edges: false,
            missing: Missing::Error,
            exclude: Exclude::default(),
            cache_bytes: 16 << 20,
            threads: 1,
        }
    }
}

setters!(SelectOptions {
    bitmaps: bool,
    sparse: bool,
    thin: bool,
    aggressive_edges: bool,
    missing: Missing,
    exclude: Exclude,
    cache_bytes: usize,
    threads: usize,
});

/// Objects to leave out because of where they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclude {
    /// Whatever any pack has: `--incremental`.
    pub packed: bool,
    /// Whatever an alternate has: `--local`.
    pub borrowed: bool,
    /// Whatever a pack marked with `.keep` has: `--honor-pack-keep`.
    pub kept: bool,
    /// Whatever these packs have, named as in `--keep-pack`: `pack-<hash>.pack`.
    pub packs: Vec<String>,
    /// Commits that are packed, with what only they reach: `--unpacked`.
    pub packed_commits: bool,
}

impl Exclude {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn covers(&self, pack: &Pack) -> bool {
        self.packed
            || self.borrowed && !pack.is_local()
            || self.kept && pack.is_kept()
            || self.packs.iter().any(|name| pack.path().file_name().is_some_and(|f| f == name.as_str()))
    }
}

/// The objects to pack.
pub struct Selection {
    /// Numbers of all objects of the store.
    pub numbering: Numbering,
    /// The objects to pack.
    pub objects: ObjectSet,
    /// Objects that the receiver is known to have: possible bases of thin deltas.
    pub known: ObjectSet,
    /// The pack whose bitmap answered, if one did.
    pub bitmap: Option<Arc<Pack>>,
    /// What went wrong without stopping the work, for a warning.
    pub warnings: Vec<String>,
    /// What the walk cost.
    pub walked: revwalk::WalkStats,
}

impl std::fmt::Debug for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selection")
            .field("objects", &self.objects.count())
            .field("known", &self.known.count())
            .field("bitmap", &self.bitmap.as_ref().map(|p| p.path().to_owned()))
            .finish()
    }
}

/// Packs of fewer objects are put in order faster than a thread is started.
const LARGE: u32 = 1 << 16;

impl Selection {
    /// Exactly the objects named, each of which must exist: what `git pack-objects` reads without
    /// `--revs`. `bases` are objects that the receiver has.
    ///
    /// # Errors
    /// When an object is missing.
    pub fn of_list(
        store: &Store,
        ids: &[ObjectId],
        bases: &[ObjectId],
        options: &SelectOptions,
        observer: &dyn Observer,
    ) -> Result<Self, SelectError> {
        observer.phase("Enumerating objects", None);
        let numbering = Numbering::new(store, None)?;
        let mut objects = ObjectSet::with_capacity(numbering.packed_len());
        let mut known = ObjectSet::new();
        for id in ids {
            match numbering.number_of(id)? {
                Some(nr) => {
                    objects.insert(nr);
                }
                None if options.missing == Missing::Error => return Err(revwalk::WalkError::Missing { id: *id }.into()),
                None => {}
            }
            observer.inc(1);
        }
        for id in bases {
            known.extend(numbering.number_of(id)?);
        }
        let mut selection =
            Self { numbering, objects, known, bitmap: None, warnings: Vec::new(), walked: Default::default() };
        selection.exclude(&options.exclude)?;
        Ok(selection)
    }

    /// What `request` asks for: by bitmap where [`SelectOptions::bitmaps`] allows and one can
    /// answer, else by a walk. A damaged or stale bitmap is a warning and a walk.
    ///
    /// By bitmap the answer is exact: all that the wants reach, less all that the haves reach. A
    /// walk finds what the receiver has only near the edge, as git's does, and may send more.
    ///
    /// # Errors
    /// When an object is missing or damaged in all its copies, when the filter is one that this
    /// release cannot apply, or when `observer` asks to stop.
    pub fn of_request(
        store: &Store,
        commits: &Commits,
        request: Request<'_>,
        options: &SelectOptions,
        observer: &dyn Observer,
    ) -> Result<Self, SelectError> {
        observer.phase("Enumerating objects", None);
        std::thread::scope(|scope| {
            if options.threads > 1 {
                // All that follows needs the packs in offset order, and some of it not at once.
                let large: Vec<_> = store.packs()?.iter().filter(|pack| pack.count() >= LARGE).cloned().collect();
                scope.spawn(move || large.iter().for_each(|pack| drop(pack.order())));
            }
            Self::find(store, commits, request, options, observer)
        })
    }

    fn find(
        store: &Store,
        commits: &Commits,
        request: Request<'_>,
        options: &SelectOptions,
        observer: &dyn Observer,
    ) -> Result<Self, SelectError> {
        let rules = request.filter.map(Rules::of).transpose()?.unwrap_or_default();
        let mut warnings = Vec::new();
        let mut found = None;
        if options.bitmaps && options.missing == Missing::Error && !options.exclude.packed_commits {
            found = by_bitmap(store, commits, request, options, observer, &mut warnings)?;
        }
        let mut selection = match found {
            Some(selection) => selection,
            None => by_walk(store, commits, request, &rules, options, observer)?,
        };
        selection.warnings.extend(warnings);
        selection.include_tags(request.tags)?;
        selection.exclude(&options.exclude)?;
        Ok(selection)
    }

    fn include_tags(&mut self, tags: &[(ObjectId, ObjectId)]) -> Result<(), SelectError> {
        for (tag, peeled) in tags {
            let Some(target) = self.numbering.number_of(peeled)? else { continue };
            if !self.objects.contains(target) {
                continue;
            }
            for id in revwalk::peel(self.numbering.store(), tag)?.tags {
                if let Some(nr) = self.numbering.number_of(&id)? {
                    self.objects.insert(nr);
                }
            }
        }
        Ok(())
    }

    fn exclude(&mut self, exclude: &Exclude) -> Result<(), SelectError> {
        if exclude.is_empty() {
            return Ok(());
        }
        for index in 0..self.numbering.pack_count() {
            let pack = Arc::clone(self.numbering.pack(index));
            if !exclude.covers(&pack) {
                continue;
            }
            // An object is left out if any excluded pack has it, also where another copy has its number.
            for id in pack.idx().ids() {
                if let Some(nr) = self.numbering.packed_number_of(&id)? {
                    self.objects.remove(nr);
                }
            }
        }
        if exclude.borrowed {
            let first = self.numbering.packed_len();
            for (rank, id) in self.numbering.outside_ids().iter().enumerate() {
                if !self.numbering.store().loose_path_of(id, 0).is_file() {
                    self.objects.remove(ObjectNr::new(first + rank as u32));
                }
            }
        }
        Ok(())
    }
}

/// A filter, split into what each kind of object needs.
#[derive(Clone, Copy, Debug)]
struct Rules {
    blobs: BlobRule,
    tree_depth: Option<u64>,
    /// Only this kind of object, besides those asked for by name.
    only: Option<ObjectKind>,
    /// Contradicting kinds: nothing but what is asked for by name.
    nothing: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { blobs: BlobRule::All, tree_depth: None, only: None, nothing: false }
    }
}

impl Rules {
    fn of(filter: &Filter) -> Result<Self, SelectError> {
        let mut rules = Self::default();
        rules.add(filter)?;
        Ok(rules)
    }

    fn add(&mut self, filter: &Filter) -> Result<(), SelectError> {
        match filter {
            Filter::BlobNone => self.blobs = BlobRule::None,
            Filter::BlobLimit(limit) => {
                self.blobs = match self.blobs {
                    BlobRule::All => BlobRule::Below(*limit),
                    BlobRule::Below(other) => BlobRule::Below(other.min(*limit)),
                    rule => rule,
                }
            }
            Filter::TreeDepth(depth) => {
                self.tree_depth = Some(self.tree_depth.map_or(*depth, |other| other.min(*depth)));
            }
            Filter::ObjectType(kind) => match self.only {
                Some(other) if other != *kind => self.nothing = true,
                _ => self.only = Some(*kind),
            },
            Filter::Combine(all) => {
                for filter in all {
                    self.add(filter)?;
                }
            }
            other => return Err(SelectError::UnsupportedFilter { filter: other.to_string() }),
        }
        Ok(())
    }

    fn takes(&self, kind: ObjectKind) -> bool {
        !self.nothing && self.only.is_none_or(|only| only == kind)
    }
}

fn by_walk(
    store: &Store,
    commits: &Commits,
    request: Request<'_>,
    rules: &Rules,
    options: &SelectOptions,
    observer: &dyn Observer,
) -> Result<Selection, SelectError> {
    let numbering = Numbering::new(store, None)?;
    let wants = Tips::peel(store, request.wants)?;
    let haves = Tips::peel(store, request.haves)?;
    let limit = revwalk::LimitOptions::default().stop(revwalk::Stop::Dates).threads(options.threads);
    let limited = revwalk::limit(commits, &wants.commits, &haves.commits, &limit)?;
    let (objects, known, walked) = walk_objects(&numbering, &limited, &wants, &haves, rules, options, observer)?;
    Ok(Selection { numbering, objects, known, bitmap: None, warnings: Vec::new(), walked })
}

fn by_bitmap(
    store: &Store,
    commits: &Commits,
    request: Request<'_>,
    options: &SelectOptions,
    observer: &dyn Observer,
    warnings: &mut Vec<String>,
) -> Result<Option<Selection>, SelectError> {
    let aside = options.threads > 1;
    let opening = pack_bitmap::OpenOptions::default().byte_source(store.options().byte_source).verify(!aside);
    let found = pack_bitmap::find(store, &opening)?;
    warnings.extend(found.problems.iter().map(|problem| with_sources(problem)));
    let Some((pack, file)) = found.bitmap else { return Ok(None) };
    let numbering = Numbering::new(store, Some(&pack))?;
    let ask = pack_bitmap::Request::new(request.wants)
        .haves(request.haves)
        .filter(request.filter)
        .observer(observer)
        .cache_bytes(options.cache_bytes)
        .threads(options.threads);
    // With a thread to spare, the file is verified while it answers.
    let (answer, verified) = std::thread::scope(|scope| {
        let verifying = aside.then(|| scope.spawn(|| pack_bitmap::verify(&pack, &file)));
        let answer = pack_bitmap::answer(&numbering, &file, commits, &ask);
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        (answer, verifying.map_or(Ok(()), join))
    });
    if let Err(error) = verified {
        warnings.push(with_sources(&error));
        return Ok(None);
    }
    match answer {
        Ok(answer) => Ok(Some(Selection {
            numbering,
            objects: answer.objects,
            known: answer.haves,
            bitmap: Some(pack),
            warnings: Vec::new(),
            walked: answer.stats.trees,
        })),
        Err(pack_bitmap::AnswerError::Walk(error)) => Err(error.into()),
        Err(pack_bitmap::AnswerError::UnsupportedFilter { .. } | pack_bitmap::AnswerError::AlteredHistory) => Ok(None),
        Err(error) => {
            let path = pack.path().with_extension("bitmap");
            warnings.push(format!("{}: {}", path.display(), with_sources(&error)));
            Ok(None)
        }
    }
}

/// An error's text with those of its sources.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

/// The objects of `limited`'s commits that the receiver is not known to have, and those that it is
/// known to have.
fn walk_objects(
    numbering: &Numbering,
    limited: &Limited,
    wants: &Tips,
    haves: &Tips,
    rules: &Rules,
    options: &SelectOptions,
    observer: &dyn Observer,
) -> Result<(ObjectSet, ObjectSet, revwalk::WalkStats), SelectError> {
    let missing = options.missing;
    let number = |id: &ObjectId| match numbering.number_of(id)? {
        None if missing == Missing::Error => Err(revwalk::WalkError::Missing { id: *id }),
        found => Ok(found),
    };
    let walk_options = WalkOptions::default()
        .missing(missing)
        .cache_bytes(options.cache_bytes)
        .threads(options.threads)
        .blobs(rules.blobs)
        .tree_depth(rules.tree_depth);

    // What the receiver has: the edge's trees, and whatever is named besides commits.
    let (mut known, mut absent) = (ObjectSet::new(), HashSet::new());
    let mut edge_walk =
        ObjectWalk::new(numbering, walk_options.clone().missing(Missing::Allow).blobs(BlobRule::All).tree_depth(None));
    for id in haves.tags.iter().chain(&haves.blobs) {
        known.extend(numbering.number_of(id)?);
    }
    let roots = || haves.trees.iter().copied();
    edge_walk.mark(roots(), &mut known, None, observer)?;
    let edges = limited.edges.iter().map(|edge| edge.tree);
    let tips = limited.haves_tips.iter().map(|tip| tip.tree).filter(|_| options.aggressive_edges);
    if options.sparse {
        // For thin packs, git also looks for bases at the paths of trees asked for by name.
        let named = wants.trees.iter().copied().filter(|_| options.thin);
        edge_walk.mark_edges(
            limited.commits.iter().map(|c| c.tree).chain(named),
            edges,
            &mut known,
            &mut absent,
            observer,
        )?;
        edge_walk.mark(tips, &mut known, None, observer)?;
    } else {
        edge_walk.mark(edges.chain(tips), &mut known, None, observer)?;
    }

    let mut objects = ObjectSet::with_capacity(numbering.packed_len());
    let packed_commit = |nr: ObjectNr| options.exclude.packed_commits && nr.get() < numbering.packed_len();
    let mut roots = Vec::new();
    for commit in &limited.commits {
        let Some(nr) = number(&commit.id)? else { continue };
        if packed_commit(nr) {
            continue;
        }
        if rules.takes(ObjectKind::Commit) {
            objects.insert(nr);
        }
        roots.push(commit.tree);
        observer.inc(1);
    }
    roots.extend(&wants.trees);
    let mut stats = revwalk::WalkStats::default();
    if rules.takes(ObjectKind::Tree) || rules.takes(ObjectKind::Blob) {
        let stop = Some(Boundary::open(&known).absent(&absent));
        let mut walk = ObjectWalk::new(numbering, walk_options.clone());
        if rules.takes(ObjectKind::Tree) && rules.takes(ObjectKind::Blob) {
            walk.mark(roots, &mut objects, stop, observer)?;
        } else {
            // Only one of both: the trees are needed to find the blobs, and to tell them apart.
            let mut trees = ObjectSet::new();
            ObjectWalk::new(numbering, walk_options.blobs(BlobRule::None)).mark(
                roots.iter().copied(),
                &mut trees,
                stop,
                observer,
            )?;
            if rules.takes(ObjectKind::Tree) {
                objects.union_with(&trees);
            } else {
                let mut all = ObjectSet::new();
                walk.mark(roots, &mut all, stop, observer)?;
                all.subtract(&trees);
                objects.union_with(&all);
            }
        }
        stats = walk.stats();
    }
    // What is asked for by name is sent whatever the filter says, unless the receiver has it. As in
    // git, a tree that is also that of a commit does not count as asked for by name.
    let roots: HashSet<ObjectId> = limited.commits.iter().map(|c| c.tree).collect();
    let named_trees = wants.trees.iter().filter(|id| !roots.contains(id));
    for id in wants.tags.iter().chain(named_trees).chain(&wants.blobs) {
        if let Some(nr) = number(id)?
            && !known.contains(nr)
        {
            objects.insert(nr);
        }
    }
    if !rules.takes(ObjectKind::Commit) {
        let sent: HashSet<ObjectId> = limited.commits.iter().map(|c| c.id).collect();
        for id in wants.commits.iter().filter(|id| sent.contains(id)) {
            objects.extend(number(id)?);
        }
    }
    let edges = edge_walk.stats();
    stats.trees += edges.trees;
    stats.entries_read += edges.entries_read;
    stats.entries_carried += edges.entries_carried;
    Ok((objects, known, stats))
}

/// Objects asked for by name, peeled and sorted by kind.
#[derive(Default)]
struct Tips {
    tags: Vec<ObjectId>,
    commits: Vec<ObjectId>,
    trees: Vec<ObjectId>,
    blobs: Vec<ObjectId>,
}

impl Tips {
    fn peel(store: &Store, ids: &[ObjectId]) -> Result<Self, SelectError> {
        let mut tips = Self::default();
        for id in ids {
            let peeled = revwalk::peel(store, id)?;
            tips.tags.extend(peeled.tags);
            match peeled.kind {
                ObjectKind::Commit => tips.commits.push(peeled.target),
                ObjectKind::Tree => tips.trees.push(peeled.target),
                ObjectKind::Blob => tips.blobs.push(peeled.target),
                ObjectKind::Tag => {} // a tag that leads nowhere else is in `tags`
            }
        }
        Ok(tips)
    }
}
