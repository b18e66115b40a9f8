//! Damage: remembered, and got around by other copies.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use object::{ObjectId, ObjectKind, Prefix};
use pack_format::{IdxPos, PackOffset};

use crate::cache::Base;
use crate::chain;
use crate::error::{Damage, ProblemKind, ReadError};
use crate::loose;
use crate::pack::Pack;
use crate::packs::{Need, State};
use crate::scratch::Scratch;
use crate::store::{MAX_ROUNDS, Store};

/// How deep recovery follows damaged bases into other copies that are deltas with damaged bases themselves.
const MAX_RECOVERY_DEPTH: usize = 16;

/// After so many bases of one object turned out to be lost, the object is.
const MAX_RECOVERY_FAILURES: usize = 256;

/// Copies found damaged: by pack (serial number) and offset.
#[derive(Debug, Default)]
pub(crate) struct Damaged {
    /// Spares healthy stores the lock.
    any: AtomicBool,
    copies: RwLock<HashSet<(u64, PackOffset)>>,
}

impl Damaged {
    pub(crate) fn holds(&self, pack: &Pack, at: PackOffset) -> bool {
        self.any.load(Ordering::Acquire)
            && self.copies.read().unwrap_or_else(PoisonError::into_inner).contains(&(pack.serial(), at))
    }

    pub(crate) fn note(&self, pack: &Pack, at: PackOffset) {
        self.copies.write().unwrap_or_else(PoisonError::into_inner).insert((pack.serial(), at));
        self.any.store(true, Ordering::Release);
    }
}

impl Store {
    /// Remembers damage in a packed copy, so that it is not tried first again.
    pub(crate) fn noting<T>(
        &self,
        pack: &Pack,
        at: PackOffset,
        id: &ObjectId,
        result: Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        if let Err(error @ ReadError::Corrupt(_)) = &result {
            self.0.damaged.note(pack, at);
            self.0.problems.note(pack.path(), ProblemKind::DamagedCopy { id: *id, reason: error.to_string() });
        }
        result
    }

    pub(crate) fn noting_loose<T>(
        &self,
        path: &Path,
        id: &ObjectId,
        result: Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        if let Err(error @ ReadError::Corrupt(_)) = &result {
            self.0.problems.note(path, ProblemKind::DamagedCopy { id: *id, reason: error.to_string() });
        }
        result
    }

    pub(crate) fn check_crc_if_asked(&self, pack: &Pack, at: PackOffset) -> Result<(), ReadError> {
        if self.options().verify_on_read {
            let pos = pack.order()?.pos_at(at).ok_or_else(|| pack.corrupt(at.get(), Damage::Offset))?;
            if !pack.crc_matches(pos)? {
                return Err(ReadError::corrupt(pack.path(), at.get(), Damage::Crc));
            }
        }
        Ok(())
    }

    pub(crate) fn verify_if_asked(
        &self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
        path: &Path,
        at: u64,
    ) -> Result<(), ReadError> {
        if self.options().verify_on_read { verify(id, kind, content, path, at) } else { Ok(()) }
    }

    /// Tries everything after `first`, the damage met in the copy that should have served.
    #[cold]
    pub(crate) fn recover(&self, id: &ObjectId, first: ReadError, out: &mut Vec<u8>) -> Result<ObjectKind, ReadError> {
        let mut state = Arc::clone(&self.state());
        for _ in 0..MAX_ROUNDS {
            if let Some(base) = self.other_copy(&state, id, &mut Recovery::default()) {
                out.clear();
                out.extend_from_slice(&base.bytes);
                return Ok(base.kind);
            }
            // A repack may have just made a good copy.
            match self.newer_than(&state)? {
                Some(newer) => state = newer,
                None => break,
            }
        }
        Err(first)
    }

    /// Any copy that reads well and has the right name.
    fn other_copy(&self, state: &State, id: &ObjectId, recovery: &mut Recovery) -> Option<Base> {
        if recovery.is_hopeless(id) {
            return None;
        }
        let mut scratch = Scratch::new();
        let mut out = Vec::new();
        let limit = self.options().max_object_size;
        let mut copies = Vec::new();
        for slot in state.slots() {
            let Ok(Some(pack)) = slot.open(Need::All, &self.0.shared, &self.0.problems) else { continue };
            // All entries of that name: a pack may hold an object twice.
            for pos in pack.idx().prefix_range(&Prefix::from(*id)).map(IdxPos::new) {
                copies.extend(pack.offset(pos).ok().map(|at| (Arc::clone(&pack), at)));
            }
        }
        // Complete copies first,
        for &(ref pack, at) in &copies {
            if !self.0.damaged.holds(pack, at) {
                let result = self.check_crc_if_asked(pack, at).and_then(|()| {
                    let kind = pack.read(at, &mut scratch, &mut out)?;
                    verify(id, kind, &out, pack.path(), at.get())?;
                    Ok(kind)
                });
                if let Ok(kind) = self.noting(pack, at, id, result) {
                    return Some(Base { kind, bytes: Arc::new(out) });
                }
            }
        }
        for source in 0..state.sources.len() {
            let path = self.loose_path(state, source, id);
            if let Ok(Some(file)) = self.open_loose(&path)
                && let Ok(kind) = loose::read(&path, file, limit, &mut scratch, &mut out)
                && verify(id, kind, &out, &path, 0).is_ok()
            {
                return Some(Base { kind, bytes: Arc::new(out) });
            }
        }
        // then those whose bases have to be gathered.
        recovery.visiting.push(*id);
        let mut found = None;
        for &(ref pack, at) in &copies {
            if self.check_crc_if_asked(pack, at).is_err() {
                continue;
            }
            let mut elsewhere = |base: &ObjectId| self.other_copy(state, base, recovery);
            if let Ok(kind) = chain::read(pack, at.get(), &mut scratch, &mut out, Some(&mut elsewhere))
                && verify(id, kind, &out, pack.path(), at.get()).is_ok()
            {
                found = Some(Base { kind, bytes: Arc::new(std::mem::take(&mut out)) });
                break;
            }
        }
        recovery.visiting.pop();
        if found.is_none() {
            recovery.hopeless.insert(*id);
        }
        found
    }
}

/// What one recovery keeps in mind, so that it ends soon.
#[derive(Default)]
struct Recovery {
    /// The objects that bases are being gathered for, outermost first: a base that needs one of them is no help.
    visiting: Vec<ObjectId>,
    /// Objects that were sought in vain.
    hopeless: HashSet<ObjectId>,
}

impl Recovery {
    fn is_hopeless(&self, id: &ObjectId) -> bool {
        self.visiting.contains(id)
            || self.hopeless.contains(id)
            || self.visiting.len() >= MAX_RECOVERY_DEPTH
            || self.hopeless.len() >= MAX_RECOVERY_FAILURES
    }
}

/// Whether another copy may help. What the system refuses may be refused for one file only.
pub(crate) fn can_recover(error: &ReadError) -> bool {
    matches!(error, ReadError::Corrupt(_) | ReadError::Io { .. })
}

/// Whether content has the name it is stored under.
fn verify(id: &ObjectId, kind: ObjectKind, content: &[u8], path: &Path, at: u64) -> Result<(), ReadError> {
    match object::object_id(id.kind(), kind, content) {
        Ok(found) if found == *id => Ok(()),
        Ok(_) => Err(ReadError::corrupt(path, at, Damage::WrongName { expected: *id })),
        Err(_) => Err(ReadError::corrupt(path, at, Damage::Collision)),
    }
}
