//! How many files of packs are open, and which of them to close when there are too many.
//!
//! Counted are handles and mappings of `.idx`, `.pack`, `.rev` and `.mtimes` files; bytes on the heap hold neither. Packs are
//! closed whole, those first whose last use lies furthest back, and only if nobody but the store's own list holds them: what
//! a caller was given stays open. Readers take no lock for this; a list is kept of what is open, and changed when packs
//! are opened and closed.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::packs::Slot;
use crate::platform;

/// So many times an operation is tried anew after the system was out of handles and some could be closed: others may be
/// as fast as we are in taking them.
const RETRIES: usize = 8;

#[derive(Debug)]
pub(crate) struct Handles {
    cap: usize,
    open: AtomicUsize,
    /// Goes up with every pack opened: the time by which uses are compared.
    clock: AtomicU64,
    slots: Mutex<Vec<Weak<Slot>>>,
}

impl Handles {
    pub(crate) fn new(cap: usize) -> Handles {
        Handles { cap, open: AtomicUsize::new(0), clock: AtomicU64::new(1), slots: Mutex::default() }
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Notes a pack that may come to hold files.
    pub(crate) fn register(&self, slot: &Arc<Slot>) {
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(slot));
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self, files: usize) {
        self.open.fetch_sub(files, Ordering::Relaxed);
    }

    /// To be called before a file is opened. Closes a quarter when the cap is reached, so that it is rarely needed.
    pub(crate) fn make_room(&self) {
        if self.open.load(Ordering::Relaxed) >= self.cap {
            self.close(self.cap - self.cap.div_ceil(4), |_| true);
        }
    }

    /// Runs `open`, and again after packs that hold handles were closed, if the system has none left.
    pub(crate) fn retrying<T>(&self, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut result = open();
        for _ in 0..RETRIES {
            match &result {
                Err(error) if platform::is_exhausted(error) && self.close(0, Slot::holds_handle) => result = open(),
                _ => break,
            }
        }
        result
    }

    /// Closes idle packs, least recently used first, until at most `target` files are open. Whether any was closed.
    fn close(&self, target: usize, which: impl Fn(&Slot) -> bool) -> bool {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open: Vec<(u64, Arc<Slot>)> =
            slots.drain(..).filter_map(|slot| slot.upgrade()).map(|slot| (slot.last_used(), slot)).collect();
        open.sort_by_key(|(used, _)| *used);
        let mut any = false;
        for (_, slot) in open {
            if self.open.load(Ordering::Relaxed) > target && which(&slot) && slot.close() {
                any = true;
            } else if slot.is_open() {
                slots.push(Arc::downgrade(&slot));
            }
        }
        any
    }
}
