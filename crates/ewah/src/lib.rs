//! EWAH compressed bitmaps as git stores them.
//!
//! EWAH ("enhanced word-aligned hybrid") packs a bitmap into 64-bit words: long runs of equal bits become one
//! word, the rest is spelled out. It is the form of every bitmap in git's `.bitmap` files, and in the index
//! extensions for the untracked cache, the file system monitor and split indexes; git, JGit and libgit2 share
//! it. This crate knows the bitmaps and nothing else of git. To ask a `.bitmap` file what a clone needs, use
//! `packstone-pack-bitmap`. For sets in memory that change, use [`roaring`](::roaring); this crate converts both ways.
//!
//! ```
//! use packstone_ewah::{Ewah, EwahBuf, ops};
//!
//! let mut b = EwahBuf::builder();
//! b.set(3)?;
//! b.set_range(64, 1_000_000)?;
//! let mut bytes = Vec::new();
//! b.finish().append_to(&mut bytes);
//! assert_eq!(bytes.len(), 44); // 12 bytes of frame, four words
//!
//! let (bitmap, used) = Ewah::parse(&bytes)?;
//! assert_eq!((used, bitmap.bit_len(), bitmap.count_ones()), (44, 1_000_001, 999_938));
//! assert!(ops::xor(bitmap, bitmap).as_ewah().ones().next().is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Types
//!
//! - [`Ewah`] borrows encoded words, for instance from a mapped file; [`EwahBuf`] owns them.
//! - [`Builder`] appends: bits, ranges, words, runs.
//! - [`Runs`], [`Words`], [`Ones`] read. Prefer runs: a run of a billion bits is one step.
//! - [`ops`] combines two compressed bitmaps; [`Ewah::or_into`] and its siblings work into dense words.
//! - [`Ewah::to_roaring`], [`EwahBuf::from_roaring`] convert.
//!
//! # Guarantees
//!
//! - No input makes this crate panic or loop. [`Ewah::parse`] settles every bound in one step per marker word;
//!   after it no accessor can fail.
//! - Parsing allocates nothing. Operations allocate what their result takes; expanding a bitmap of `n` bits into
//!   words that the caller owns allocates nothing. A bitmap has at most [`MAX_BITS`] bits, whatever it claims, so
//!   give [`Ewah::parse_within`] the bound you know when bytes come from strangers.
//! - The encoder is deterministic and gives the shortest encoding, which is also git's, word for word.
//!
//! # Features
//!
//! - `std` (default): [`EwahBuf::write`], and roaring's own `std` code paths. Without it the crate needs `alloc`.

#![no_std]
#![forbid(unsafe_code)] // nothing here is worth it: the loops over words vectorise as they are

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod word;

mod bitmap;
mod builder;
mod codec;
mod error;
mod iter;
pub mod ops;
mod roaring;

pub use bitmap::{Ewah, EwahBuf};
pub use builder::Builder;
pub use error::{BuildError, ParseError, ParseErrorKind, TooShort};
pub use iter::{Literals, Ones, Run, Runs, Words};

/// The greatest length in bits: the wire form counts them in 32 bits.
pub const MAX_BITS: u32 = u32::MAX;
