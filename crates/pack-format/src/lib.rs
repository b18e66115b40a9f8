//! The bytes of git packs: entries, deltas, zlib seam, .idx, .rev, as bounds-checked readers and writers without I/O.
