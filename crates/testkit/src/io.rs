//! Short, failing and interrupted readers and writers.
