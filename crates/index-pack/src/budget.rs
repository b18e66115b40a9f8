//! One number for the memory that a run uses: deltas that are kept and objects that are alive, beside the tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Left for objects whatever tables take, if the budget as a whole is not smaller.
const LEAST: u64 = 16 << 20;

/// What is used of the budget, by all threads together.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// Of `memory` bytes, of which tables take so many. However large those are, a part is left for objects: without
    /// it, they would be made again and again.
    pub(crate) fn new(memory: u64, tables: u64) -> Budget {
        let limit = memory.saturating_sub(tables).max((memory / 4).min(LEAST));
        Budget { limit, used: AtomicU64::new(0) }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn take(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether `more` bytes would go beyond the limit.
    pub(crate) fn is_over(&self, more: u64) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(more) > self.limit
    }
}

/// The content of an object, counted for as long as it is alive.
#[derive(Debug)]
pub(crate) struct Content<'b> {
    bytes: Vec<u8>,
    counted: u64,
    budget: &'b Budget,
}

impl<'b> Content<'b> {
    pub(crate) fn new(bytes: Vec<u8>, budget: &'b Budget) -> Arc<Content<'b>> {
        let counted = bytes.capacity() as u64;
        budget.take(counted);
        Arc::new(Content { bytes, counted, budget })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffer, if nobody else has the content.
    pub(crate) fn recycle(content: Arc<Content<'b>>) -> Option<Vec<u8>> {
        let mut content = Arc::into_inner(content)?;
        Some(std::mem::take(&mut content.bytes))
    }
}

impl Drop for Content<'_> {
    fn drop(&mut self) {
        self.budget.give(self.counted);
    }
}

/// Inflated deltas that are kept from the scan, so that they need not be inflated again.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: Vec<Vec<u8>>,
    bytes: u64,
}

/// Bits of a place in a chunk; chunks are smaller than that many bytes.
const PLACE: u32 = 21;

impl Arena {
    /// Bytes kept.
    pub(crate) fn len(&self) -> u64 {
        self.bytes
    }

    /// The number that [`Arena::keep`] would give a chunk, if it can.
    pub(crate) fn next(&self, len: usize) -> Option<u32> {
        let chunk = u32::try_from(self.chunks.len()).ok()?;
        // The last number is not given away, so that no place is `NOT_KEPT`.
        (chunk < (1 << (32 - PLACE)) - 1 && len < 1 << PLACE).then_some(chunk)
    }

    pub(crate) fn keep(&mut self, mut chunk: Vec<u8>) {
        chunk.shrink_to_fit();
        self.bytes += chunk.capacity() as u64;
        self.chunks.push(chunk);
    }

    pub(crate) fn place(chunk: u32, from: usize) -> u32 {
        chunk << PLACE | from as u32
    }

    pub(crate) fn get(&self, place: u32, len: u64) -> Option<&[u8]> {
        let chunk = self.chunks.get((place >> PLACE) as usize)?;
        let from = (place & ((1 << PLACE) - 1)) as usize;
        chunk.get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }
}
