//! Buffers that reads reuse.

use std::cell::RefCell;

use pack_format::zlib::Inflate;

use crate::chain::Hop;

/// Buffers that reads reuse. One per thread; grows to the largest delta and the longest chain it meets.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) inflate: Inflate,
    /// The deltas between an object and its base.
    pub(crate) hops: Vec<Hop>,
    /// One inflated delta.
    pub(crate) delta: Vec<u8>,
    /// Deflated bytes, where they have to be read.
    pub(crate) input: Vec<u8>,
}

/// A delta larger than this is not kept for the next.
const KEPT: usize = 4 << 20;

impl Scratch {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Scratch {
        Scratch::default()
    }

    fn trim(&mut self) {
        if self.delta.capacity() > KEPT {
            self.delta = Vec::new();
        }
        if self.hops.capacity() > KEPT / size_of::<Hop>() {
            self.hops = Vec::new();
        }
    }
}

/// Lends this thread's buffers to `work`, for calls that are not handed any.
pub(crate) fn with<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    SCRATCH.with(|shared| match shared.try_borrow_mut() {
        Ok(mut scratch) => {
            let result = work(&mut scratch);
            scratch.trim();
            result
        }
        // In use further up this thread's stack: a base is being looked for while an object is recovered.
        Err(_) => work(&mut Scratch::new()),
    })
}
