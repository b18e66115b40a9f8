//! Object graph walks: commit-graph, commits, trees through their deltas, object filters, shallow boundaries.
