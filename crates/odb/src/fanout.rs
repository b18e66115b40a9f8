//! What fan-out directories hold, listed once, so that an object that is not loose need not be asked after each time.
//!
//! A listing may be older than an object that another process has written since, so it can only ever say "look elsewhere
//! first": look-ups that find an object nowhere ask the files themselves before they give up. An object that a listing has
//! is opened like any other, and may be gone.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object::{HashKind, ObjectId};

use crate::loose;

/// After so many files that were not there, a fan-out directory is listed.
const MISSES: u8 = 4;

/// The listings of one source.
#[derive(Debug)]
pub(crate) struct LooseCache([Mutex<Fanout>; 256]);

impl Default for LooseCache {
    fn default() -> Self {
        LooseCache(std::array::from_fn(|_| Mutex::default()))
    }
}

#[derive(Debug, Default)]
struct Fanout {
    /// Sorted.
    ids: Option<Arc<[ObjectId]>>,
    misses: u8,
    /// Goes up with every change of our own, so that a listing begun before is not kept after.
    version: u32,
}

impl LooseCache {
    /// Whether the object was there when its directory was listed; `None` if that is not known. `list` lists it now if it
    /// was not yet.
    pub(crate) fn has(&self, objects: &Path, id: &ObjectId, hash: HashKind, list: bool) -> Option<bool> {
        let (ids, version) = {
            let fanout = self.fanout(id);
            (fanout.ids.clone(), (list || fanout.misses >= MISSES).then_some(fanout.version))
        };
        if let Some(ids) = ids {
            return Some(ids.binary_search(id).is_ok());
        }
        let version = version?;
        let mut listed = Vec::new();
        loose::list_fanout(objects, id.first_byte(), hash, &mut listed).ok()?;
        let has = listed.binary_search(id).is_ok();
        let mut fanout = self.fanout(id);
        if fanout.version == version {
            fanout.ids = Some(listed.into());
        }
        Some(has)
    }

    /// Notes that the file was not there.
    pub(crate) fn missed(&self, id: &ObjectId) {
        let mut fanout = self.fanout(id);
        fanout.misses = fanout.misses.saturating_add(1);
    }

    /// Forgets what is known about the object's directory.
    pub(crate) fn forget(&self, id: &ObjectId) {
        let mut fanout = self.fanout(id);
        *fanout = Fanout { version: fanout.version.wrapping_add(1), ..Fanout::default() };
    }

    fn fanout(&self, id: &ObjectId) -> MutexGuard<'_, Fanout> {
        self.0[usize::from(id.first_byte())].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
