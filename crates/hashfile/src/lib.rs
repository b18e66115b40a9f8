//! Checksummed buffered writer for git's files: CRC-32, checkpoints, trailer, durable publishing, lock files.
