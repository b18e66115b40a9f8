//! Packs made by this crate, held against git's.

mod damage;
mod disk;
mod requests;
mod support;
