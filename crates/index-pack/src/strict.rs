//! Whether what is received is sound: each object by itself, as git's fsck sees it, and all that they name.
//!
//! A [`Strict`] is an [`Inspect`]. While the pack is resolved it checks content and notes what objects name and which
//! blobs trees call `.gitmodules` or `.gitattributes`. When all have come it follows the links, each once, and looks at
//! those blobs, wherever they came.
//!
//! | git | [`StrictOptions`] |
//! |---|---|
//! | `--fsck-objects[=<list>]` | `fsck` |
//! | `--strict[=<list>]` | `fsck`, `links` |
//! | `--check-self-contained-and-connected` | `links`; exit code 1 where [`Verdict::foreign`] is not 0 |
//!
//! Cost: some 15 ns an entry that the tree looked at before does not have; memory 21 or 33 bytes for each object
//! received or named, and as much again for a time. Links of submodules are not followed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object::fsck::{self, Finding, MessageId, Severities, Sink, SkipList, Special, TreeCheck};
use object::tag::Tag;
use object::tree::{Entries, Mode};
use object::{HashKind, ObjectId, ObjectKind, ParseError, commit};
use odb::{ReadError, Store};

use crate::links::Links;
use crate::options::{Inspect, Object, Received, Refusal};

/// Told of each finding, with the object it is about; from any thread.
pub type Report = Arc<dyn Fn(&ObjectId, &Finding<'_>) + Send + Sync>;

/// What is checked. `StrictOptions::new(hash)`, then the setters named after the fields.
#[derive(Clone)]
#[non_exhaustive]
pub struct StrictOptions {
    /// The hash that names the objects.
    pub hash: HashKind,
    /// Check content, with these severities. Default: not; objects only have to be readable.
    pub fsck: Option<Severities>,
    /// Objects of which nothing is told. Default: none.
    pub skip: SkipList,
    /// Everything named must be there, and be what it is named as. Default: `false`; then only commits and tags may not
    /// name one thing as two.
    pub links: bool,
    /// Where objects may be that are not in the pack. Default: nowhere.
    pub store: Option<Store>,
    /// Commits whose parents are not followed, since the history ends there. Default: none.
    pub shallow: Vec<ObjectId>,
    /// More objects and links than this, counted by each thread, are refused. Default: 2^27 (2.7 GiB of SHA-1).
    pub max_links: usize,
    /// Told of each finding. Default: nobody.
    pub report: Option<Report>,
}

impl std::fmt::Debug for StrictOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StrictOptions").field("fsck", &self.fsck).field("links", &self.links).finish_non_exhaustive()
    }
}

macro_rules! setters {
    ($($field:ident: $type:ty),* $(,)?) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}

impl StrictOptions {
    /// Nothing but that objects can be read.
    #[must_use]
    pub fn new(hash: HashKind) -> Self {
        StrictOptions {
            hash,
            fsck: None,
            skip: SkipList::default(),
            links: false,
            store: None,
            shallow: Vec::new(),
            max_links: 1 << 27,
            report: None,
        }
    }

    setters! {
        fsck: Option<Severities>,
        skip: SkipList,
        links: bool,
        store: Option<Store>,
        shallow: Vec<ObjectId>,
        max_links: usize,
        report: Option<Report>,
    }
}

/// Why a pack is refused. What was found in its objects went to [`StrictOptions::report`] before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StrictError {
    /// An object that cannot be read as what it is.
    #[error("invalid {kind} {id}")]
    Invalid {
        /// The object.
        id: ObjectId,
        /// What it is.
        kind: ObjectKind,
        /// What is wrong with it.
        source: ParseError,
    },
    /// An error was found in an object.
    #[error("fsck error in packed object")]
    Object {
        /// The object.
        id: ObjectId,
    },
    /// An error was found when all had come: in a `.gitmodules` or `.gitattributes`.
    #[error("fsck error in pack objects")]
    Special,
    /// An object that is named is nowhere.
    #[error("did not receive expected object {id}")]
    Missing {
        /// The object.
        id: ObjectId,
    },
    /// An object is not what it is named as.
    #[error("object {id}: expected type {expected}, found {found}")]
    Kind {
        /// The object.
        id: ObjectId,
        /// What it is named as.
        expected: ObjectKind,
        /// What it is, or is named as elsewhere.
        found: ObjectKind,
    },
    /// More objects and links than [`StrictOptions::max_links`].
    #[error("more than {limit} objects and links")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The store cannot say what it has.
    #[error(transparent)]
    Store(#[from] ReadError),
}

/// What was learned of a pack that is sound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Verdict {
    /// How many objects are named that are not in the pack, but elsewhere. Counted where links are followed.
    pub foreign: u64,
    /// Blobs that trees call `.gitmodules` and that are nowhere, ascending: whoever fetches the rest has to check them.
    /// Where links are followed there are none.
    pub missing_modules: Vec<ObjectId>,
}

/// Checks all objects of one pack: see the [module](self).
pub struct Strict {
    options: StrictOptions,
    /// Of threads that do not look at an object now.
    idle: Mutex<Vec<Worker>>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Strict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Strict").field("options", &self.options).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// Blobs to look at again, ascending; and whether that was done.
    wanted: Vec<(ObjectId, Special, bool)>,
    failed: bool,
    verdict: Verdict,
}

struct Worker {
    notes: Notes,
    parents: Vec<ObjectId>,
    trees: TreeCheck,
}

/// What is followed later.
struct Notes {
    links: Links,
    special: Vec<(ObjectId, Special)>,
    /// How many of these there may be before they are sorted, each once.
    special_room: usize,
}

impl Strict {
    /// Checks one pack. Give it to [`Options::inspect`](crate::Options::inspect).
    #[must_use]
    pub fn new(mut options: StrictOptions) -> Strict {
        options.shallow.sort_unstable();
        Strict { options, idle: Mutex::default(), state: Mutex::default() }
    }

    /// What was learned, once the pack was received.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        lock(&self.state).verdict.clone()
    }

    fn look(&self, worker: &mut Worker, object: Object<'_>) -> Result<(), StrictError> {
        let (id, kind) = (object.id, object.kind);
        let options = &self.options;
        let invalid = |source| StrictError::Invalid { id, kind, source };
        let Worker { notes, parents, trees } = worker;
        notes.links.object(id.as_bytes(), kind);
        let content = object.content.unwrap_or_default();
        match kind {
            ObjectKind::Commit => {
                let (tree, _) = commit::links(content, options.hash, parents).map_err(invalid)?;
                notes.links.link(tree.as_bytes(), ObjectKind::Tree);
                if options.shallow.binary_search(&id).is_err() {
                    for parent in parents {
                        notes.links.link(parent.as_bytes(), ObjectKind::Commit);
                    }
                }
            }
            ObjectKind::Tag => {
                let tag = Tag::parse(content, options.hash).map_err(invalid)?;
                notes.links.link(tag.target().as_bytes(), tag.target_kind());
            }
            ObjectKind::Tree | ObjectKind::Blob => {}
        }
        let mut told = Told { strict: self, id, notes, skipped: None, broken: false };
        let sound = match (kind, &options.fsck) {
            (ObjectKind::Tree, Some(_)) => trees.check(content, &mut told),
            (ObjectKind::Tree, None) if options.links => {
                // Only whether it is broken counts.
                trees.check(content, &mut told);
                true
            }
            (ObjectKind::Commit | ObjectKind::Tag, Some(severities)) => {
                fsck::check(kind, content, options.hash, severities, &mut told)
            }
            _ => true,
        };
        let (skipped, broken) = (told.skipped == Some(true), told.broken);
        if !sound && !skipped {
            return Err(StrictError::Object { id });
        }
        // A tree that nobody minds being broken can still not be followed.
        let unminded = kind == ObjectKind::Tree
            && options.fsck.as_ref().is_some_and(|severities| !severities.of(MessageId::BadTree).is_error());
        if (broken || unminded)
            && options.links
            && let Some(Err(source)) = Entries::new(content, options.hash).find(Result::is_err)
        {
            return Err(invalid(source));
        }
        match worker.notes.links.len() > options.max_links {
            true => Err(StrictError::TooMany { limit: options.max_links }),
            false => Ok(()),
        }
    }

    fn report(&self, id: &ObjectId, finding: &Finding<'_>) {
        if let Some(report) = &self.options.report {
            report(id, finding);
        }
    }

    /// Tells of a finding that is about no content. Says whether it is an error.
    fn say(&self, id: &ObjectId, message: MessageId) -> bool {
        let finding = self.options.fsck.as_ref().and_then(|fsck| fsck.finding(message, fsck::Detail::None));
        let Some(finding) = finding.filter(|_| !self.options.skip.contains(id)) else { return false };
        self.report(id, &finding);
        finding.severity.is_error()
    }

    /// Checks a blob that trees call so; `None` if it is too large to be held. Says whether it has an error.
    fn special(&self, id: &ObjectId, special: Special, content: Option<&[u8]>) -> bool {
        let Some(severities) = &self.options.fsck else { return false };
        let Some(content) = content else {
            return self.say(
                id,
                match special {
                    Special::Modules => MessageId::GitmodulesLarge,
                    Special::Attributes => MessageId::GitattributesLarge,
                },
            );
        };
        if self.options.skip.contains(id) {
            return false;
        }
        let mut told = Blob { strict: self, id };
        !match special {
            Special::Modules => fsck::gitmodules(content, severities, &mut told),
            Special::Attributes => fsck::gitattributes(content, severities, &mut told),
        }
    }

    /// Whether all that is named is there, and what it is named as. Gives how much of it is not in the pack.
    fn follow(&self, links: &Links) -> Result<u64, StrictError> {
        let mut foreign = 0;
        for (id, known) in links.iter().filter(|(_, known)| known.is_named()) {
            let found = match known.kind() {
                Some(kind) => kind,
                None if !self.options.links => match known.named_as() {
                    Some(kind) => kind,
                    None => continue,
                },
                None => {
                    foreign += 1;
                    // git knows this one without having it.
                    let empty = (id == self.options.hash.empty_tree()).then_some(ObjectKind::Tree);
                    let found = empty.map_or_else(|| self.stored(&id), |kind| Ok(Some(kind)))?;
                    found.ok_or(StrictError::Missing { id })?
                }
            };
            if let Some(expected) = known.named_other_than(found) {
                return Err(StrictError::Kind { id, expected, found });
            }
        }
        Ok(foreign)
    }

    /// What the store has under that name.
    fn stored(&self, id: &ObjectId) -> Result<Option<ObjectKind>, StrictError> {
        match self.options.store.as_ref().map(|store| store.header(id)) {
            None => Ok(None),
            Some(Ok(header)) => Ok(Some(header.kind)),
            Some(Err(error)) if error.is_missing() => Ok(None),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// What is to be said of blobs with a meaning that are no blobs, or not in the pack. Keeps those that are.
    fn sort_out(&self, links: &Links, special: Vec<(ObjectId, Special)>, state: &mut State) -> Result<(), StrictError> {
        let mut content = Vec::new();
        for (id, special) in special {
            let (missing, no_blob) = match special {
                Special::Modules => (MessageId::GitmodulesMissing, MessageId::GitmodulesBlob),
                Special::Attributes => (MessageId::GitattributesMissing, MessageId::GitattributesBlob),
            };
            let here = links.get(&id).kind();
            let kind = match here {
                Some(kind) => Some(kind),
                None => self.stored(&id)?,
            };
            state.failed |= match (kind, special) {
                (Some(ObjectKind::Blob), _) if here.is_some() => {
                    state.wanted.push((id, special, false));
                    false
                }
                (Some(ObjectKind::Blob), _) => {
                    content.clear();
                    if let Some(store) = &self.options.store {
                        store.read(&id, &mut content)?;
                    }
                    self.special(&id, special, Some(&content))
                }
                (Some(_), _) => self.say(&id, no_blob),
                // Nothing is said of those that may yet come, unless that is to be ignored.
                (None, Special::Modules) => {
                    let of = self.options.fsck.as_ref().map(|fsck| fsck.of(missing));
                    if of.is_some_and(|of| of != fsck::Severity::Ignore) && !self.options.skip.contains(&id) {
                        state.verdict.missing_modules.push(id);
                    }
                    false
                }
                (None, Special::Attributes) => self.say(&id, missing),
            };
        }
        Ok(())
    }
}

/// Severities for who only follows links.
fn readable() -> Severities {
    let mut severities = Severities::default();
    for id in MessageId::ALL.iter().filter(|id| **id != MessageId::BadTree) {
        // What is fatal cannot be ignored, and is not said of trees.
        let _ = severities.set(id.name().as_bytes(), b"ignore");
    }
    severities
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inspect for Strict {
    fn object(&self, object: Object<'_>) -> Result<(), Refusal> {
        let idle = lock(&self.idle).pop();
        let mut worker = idle.unwrap_or_else(|| Worker {
            notes: Notes { links: Links::new(self.options.hash), special: Vec::new(), special_room: 1 << 12 },
            parents: Vec::new(),
            trees: TreeCheck::new(self.options.hash, self.options.fsck.clone().unwrap_or_else(readable)),
        });
        let looked = self.look(&mut worker, object);
        lock(&self.idle).push(worker);
        looked.map_err(Refusal::from)
    }

    fn again(&self, _: &Received<'_>) -> Result<Vec<ObjectId>, Refusal> {
        let mut links = Links::new(self.options.hash);
        let mut special = Vec::new();
        for mut worker in std::mem::take(&mut *lock(&self.idle)) {
            special.append(&mut worker.notes.special);
            links.append(worker.notes.links);
        }
        links.sort();
        special.sort_unstable();
        special.dedup();
        let mut state = lock(&self.state);
        state.verdict.foreign = self.follow(&links)?;
        self.sort_out(&links, special, &mut state)?;
        let mut wanted: Vec<ObjectId> = state.wanted.iter().map(|(id, ..)| *id).collect();
        wanted.dedup();
        Ok(wanted)
    }

    fn object_again(&self, object: Object<'_>) -> Result<(), Refusal> {
        let mut mine = Vec::new();
        {
            // Once each, even if it comes twice.
            let wanted = &mut lock(&self.state).wanted;
            let from = wanted.partition_point(|(id, ..)| *id < object.id);
            for (_, special, done) in wanted.iter_mut().skip(from).take_while(|(id, ..)| *id == object.id) {
                if !std::mem::replace(done, true) {
                    mine.push(*special);
                }
            }
        }
        for special in mine {
            if self.special(&object.id, special, object.content) {
                lock(&self.state).failed = true;
            }
        }
        Ok(())
    }

    fn finish(&self, _: &Received<'_>) -> Result<(), Refusal> {
        match lock(&self.state).failed {
            true => Err(StrictError::Special.into()),
            false => Ok(()),
        }
    }
}

/// What the check of one object says.
struct Told<'t> {
    strict: &'t Strict,
    id: ObjectId,
    notes: &'t mut Notes,
    /// Whether the object is one of those to be skipped, once that mattered.
    skipped: Option<bool>,
    broken: bool,
}

impl Sink for Told<'_> {
    fn finding(&mut self, finding: Finding<'_>) {
        self.broken |= finding.id == MessageId::BadTree;
        if self.strict.options.fsck.is_none() {
            return;
        }
        if !*self.skipped.get_or_insert_with(|| self.strict.options.skip.contains(&self.id)) {
            self.strict.report(&self.id, &finding);
        }
    }

    fn special(&mut self, special: Special, id: &[u8]) {
        if self.strict.options.fsck.is_none() {
            return;
        }
        let Ok(id) = ObjectId::from_bytes(id) else { return };
        let list = &mut self.notes.special;
        list.push((id, special));
        // Versions of one folder mostly have the same.
        if list.len() >= self.notes.special_room {
            list.sort_unstable();
            list.dedup();
            self.notes.special_room = self.notes.special_room.max(2 * list.len());
        }
    }

    #[inline]
    fn entry(&mut self, mode: Mode, id: &[u8]) {
        if self.strict.options.links
            && let Some(kind) = mode.object_kind()
        {
            self.notes.links.link(id, kind);
        }
    }
}

/// What the check of a blob with a meaning says.
struct Blob<'b> {
    strict: &'b Strict,
    id: &'b ObjectId,
}

impl Sink for Blob<'_> {
    fn finding(&mut self, finding: Finding<'_>) {
        self.strict.report(self.id, &finding);
    }
}
