//! git's object database: packs, loose objects and alternates, with budgeted caches and a thread-safe handle.
