//! Pack generation: enumerate by bitmap or walk, reuse packs, runs and entries, write to a stream or to disk.
