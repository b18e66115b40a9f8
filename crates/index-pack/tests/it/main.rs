//! The public API against git, and against packs made to hurt.

mod differential;
mod hostile;
mod strict;
mod support;
mod unpack;
