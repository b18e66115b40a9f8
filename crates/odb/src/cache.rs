//! Resolved delta bases, kept within a budget of bytes and shared by all packs and threads of a store.
//!
//! A hit costs one uncontended lock, one hash look-up and one reference count. Sharded by key, so that threads rarely
//! meet; within a shard the clock algorithm picks the victim (an entry that was used since the hand last passed is
//! spared once), which needs no list to be kept in order by readers.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object::ObjectKind;

/// A power of two.
const SHARDS: usize = 16;

/// What an entry costs beside its bytes: slot, map entry, allocations.
const OVERHEAD: usize = 128;

/// Which entry of which pack: the pack's serial number in this process, and the offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) pack: u64,
    pub(crate) at: u64,
}

/// A resolved object.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) kind: ObjectKind,
    pub(crate) bytes: Arc<Vec<u8>>,
}

#[derive(Debug)]
pub(crate) struct BaseCache {
    budget: usize,
    used: AtomicUsize,
    seed: u64,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    by_key: HashMap<Key, u32, Mixed>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    hand: usize,
}

#[derive(Debug)]
struct Slot {
    key: Key,
    base: Base,
    recent: bool,
}

impl BaseCache {
    pub(crate) fn new(budget: usize) -> BaseCache {
        BaseCache {
            budget,
            used: AtomicUsize::new(0),
            seed: RandomState::new().hash_one(0u64),
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// Whether an object of this size would be kept: one does not push out all others.
    pub(crate) fn takes(&self, size: u64) -> bool {
        size <= self.budget as u64 / 2
    }

    pub(crate) fn get(&self, key: Key) -> Option<Base> {
        if self.budget == 0 {
            return None;
        }
        let mut shard = self.shard(self.shard_of(key));
        let slot = *shard.by_key.get(&key)?;
        let slot = shard.slots.get_mut(slot as usize)?.as_mut()?;
        slot.recent = true;
        Some(slot.base.clone())
    }

    pub(crate) fn insert(&self, key: Key, base: Base) {
        let cost = base.bytes.capacity() + OVERHEAD;
        if !self.takes(cost as u64) {
            return;
        }
        let home = self.shard_of(key);
        {
            let mut shard = self.shard(home);
            if shard.by_key.contains_key(&key) {
                return;
            }
            let slot = Slot { key, base, recent: false };
            let index = match shard.free.pop() {
                Some(index) => index,
                None => {
                    let Ok(index) = u32::try_from(shard.slots.len()) else { return };
                    shard.slots.push(None);
                    index
                }
            };
            if let Some(place) = shard.slots.get_mut(index as usize) {
                *place = Some(slot);
            }
            shard.by_key.insert(key, index);
        }
        let mut used = self.used.fetch_add(cost, Ordering::Relaxed) + cost;
        // Make room where we are first, then next door: keys are spread evenly, so that this is as good as anywhere.
        for step in 0..SHARDS {
            if used <= self.budget {
                break;
            }
            let mut shard = self.shard((home + step) % SHARDS);
            while used > self.budget {
                let Some(freed) = shard.evict(key) else { break };
                used = self.used.fetch_sub(freed, Ordering::Relaxed) - freed;
            }
        }
    }

    fn shard_of(&self, key: Key) -> usize {
        // The high bits of a product depend on all bits of the factor.
        ((self.seed ^ key.pack.rotate_left(48) ^ key.at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % SHARDS
    }

    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        // A shard is consistent between any two statements that can panic (none does), so poison means nothing.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Shard {
    /// Drops one entry, but not `keep`, and says what that freed.
    fn evict(&mut self, keep: Key) -> Option<usize> {
        if self.by_key.len() <= usize::from(self.by_key.contains_key(&keep)) {
            return None;
        }
        // Two rounds at most: the first may only clear marks.
        for _ in 0..2 * self.slots.len() {
            let index = self.hand;
            self.hand = if index + 1 < self.slots.len() { index + 1 } else { 0 };
            let Some(place) = self.slots.get_mut(index) else { continue };
            match place {
                Some(slot) if slot.key == keep => {}
                Some(slot) if slot.recent => slot.recent = false,
                Some(_) => {
                    let slot = place.take()?;
                    self.by_key.remove(&slot.key);
                    self.free.push(index as u32); // an index of `slots`, which are counted in u32
                    return Some(slot.base.bytes.capacity() + OVERHEAD);
                }
                None => {}
            }
        }
        None
    }
}

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.pack.rotate_left(48) ^ self.at);
    }
}

/// A multiplicative hasher seeded per process: offsets come from strangers' packs, but take nobody a long time.
#[derive(Debug, Clone)]
struct Mixed(u64);

impl Default for Mixed {
    fn default() -> Self {
        Mixed(RandomState::new().hash_one(0u64))
    }
}

impl BuildHasher for Mixed {
    type Hasher = Mixer;
    fn build_hasher(&self) -> Mixer {
        Mixer(self.0)
    }
}

struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(len: usize) -> Base {
        Base { kind: ObjectKind::Blob, bytes: Arc::new(vec![7; len]) }
    }

    #[test]
    fn finds_what_was_put_in() {
        let cache = BaseCache::new(1 << 20);
        for at in 0..100 {
            cache.insert(Key { pack: at % 3, at }, base(at as usize));
        }
        for at in 0..100 {
            assert_eq!(cache.get(Key { pack: at % 3, at }).unwrap().bytes.len(), at as usize);
            assert!(cache.get(Key { pack: 3, at }).is_none());
        }
    }

    #[test]
    fn stays_within_the_budget_and_keeps_what_is_used() {
        let budget = 100_000;
        let cache = BaseCache::new(budget);
        let hot = Key { pack: 1, at: 1 };
        cache.insert(hot, base(500));
        for at in 2..10_000 {
            cache.insert(Key { pack: 1, at }, base(500));
            assert!(cache.used() <= budget, "{} bytes", cache.used());
            assert!(cache.get(hot).is_some(), "evicted after {at} although it is used all the time");
        }
        let held: usize = cache.shards.iter().map(|shard| shard.lock().unwrap().by_key.len()).sum();
        assert_eq!(held * (500 + OVERHEAD), cache.used());
        assert!(held > 100);
    }

    #[test]
    fn large_objects_and_no_budget() {
        let cache = BaseCache::new(1000);
        cache.insert(Key { pack: 0, at: 0 }, base(600));
        assert!(cache.get(Key { pack: 0, at: 0 }).is_none());
        let none = BaseCache::new(0);
        none.insert(Key { pack: 0, at: 0 }, base(0));
        assert!(none.get(Key { pack: 0, at: 0 }).is_none());
    }

    #[test]
    fn threads_share_it() {
        let cache = BaseCache::new(50_000);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for at in 0..5_000u64 {
                        let key = Key { pack: thread % 2, at };
                        cache.insert(key, base((at % 97) as usize));
                        if let Some(found) = cache.get(key) {
                            assert_eq!(found.bytes.len(), (at % 97) as usize);
                        }
                    }
                });
            }
        });
        assert!(cache.used() <= 50_000);
    }
}
