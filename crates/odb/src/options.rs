//! What a caller can choose when opening a store.

use std::path::PathBuf;

use object::HashKind;

/// How the bytes of packs and their indices are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ByteSource {
    /// Private, read-only memory mappings; the fastest. Where a file cannot be mapped (some network file systems refuse),
    /// packs fall back to [`Pread`](Self::Pread) and the small files to [`Heap`](Self::Heap).
    ///
    /// Choose another source for files that someone may truncate or overwrite in place while the store is open: with a
    /// mapping the kernel then ends the process (`SIGBUS`), or bytes change under the reader. Git never does that to
    /// its own files; it only creates and unlinks them.
    #[default]
    Mmap,
    /// Positioned reads from an open file; a pack truncated under our feet is an error. Indices are read to the heap.
    Pread,
    /// Whole files read to the heap when first needed; nothing that happens to them afterwards matters.
    Heap,
}

/// What a [`Store`](crate::Store) is opened with. `Options::new(kind)`, then the setters named after the fields.
///
/// ```
/// use packstone_odb::{ByteSource, Options};
/// # use object as packstone_object;
/// use packstone_object::HashKind;
///
/// let options = Options::new(HashKind::Sha1).byte_source(ByteSource::Pread).delta_base_cache(16 << 20);
/// assert_eq!(options.delta_base_cache, 16 << 20);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The hash that names the repository's objects. Default: SHA-1.
    pub hash: HashKind,
    /// How packs and indices are reached. Default: [`ByteSource::Mmap`].
    pub byte_source: ByteSource,
    /// Bytes of resolved delta bases kept for all threads and packs together. Default: 96 MiB, as git's
    /// `core.deltaBaseCacheLimit` (which git spends per thread).
    pub delta_base_cache: usize,
    /// Alternate object directories from the environment, in order (see [`alternates::parse_list`](crate::alternates::parse_list));
    /// relative paths are relative to the process's working directory. They come before those of `info/alternates`.
    pub alternates: Vec<PathBuf>,
    /// How deep alternates of alternates are followed; those of the store itself have depth 0. Default: 5, as git.
    pub max_alternates_depth: u32,
    /// Objects and delta results larger than this many bytes are refused by whole reads ([`ReadError::TooLarge`](crate::ReadError::TooLarge)).
    /// Default: no limit (sizes are never trusted for allocation all the same).
    pub max_object_size: Option<u64>,
    /// Whether `.rev` files are used; without them the offset order of a pack is computed. Default: true.
    pub use_rev_files: bool,
    /// Whether multi-pack-indexes are used (`core.multiPackIndex`). Default: true.
    pub use_midx: bool,
    /// How many files of packs (`.idx`, `.pack`, `.rev`, `.mtimes`) stay open at once, as handles or mappings; bytes on the
    /// heap do not count. Beyond it the packs least recently used are closed, and opened again when needed. What callers
    /// hold (a [`Pack`](crate::Pack), a stream) stays open, so it is a bound on what the store keeps of its own accord.
    ///
    /// Default: `None`, which is 16,384 with [`ByteSource::Mmap`] (mappings take no handle; Linux allows 65,530 of them
    /// per process) and 512 otherwise. When the system has no handles left all the same, idle packs are closed and the call
    /// is tried again; if that does not help either, the system's error is returned, and held against nothing.
    pub max_open_files: Option<usize>,
    /// Whether each object that is read whole or streamed is hashed, and refused when it does not have the name it was
    /// asked for; what is read whole from a pack must also have the CRC-32 that the index gives. Default: false, as git;
    /// content is then guarded by zlib's checksum only.
    pub verify_on_read: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            hash: HashKind::Sha1,
            byte_source: ByteSource::default(),
            delta_base_cache: 96 << 20,
            alternates: Vec::new(),
            max_alternates_depth: 5,
            max_object_size: None,
            use_rev_files: true,
            use_midx: true,
            max_open_files: None,
            verify_on_read: false,
        }
    }
}

macro_rules! setters {
    ($($field:ident: $type:ty),* $(,)?) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}
pub(crate) use setters;

impl Options {
    /// The defaults, for a repository of this hash.
    #[must_use]
    pub fn new(hash: HashKind) -> Self {
        Options { hash, ..Options::default() }
    }

    /// The cap on open files that is in force.
    pub(crate) fn file_cap(&self) -> usize {
        self.max_open_files.unwrap_or(if self.byte_source == ByteSource::Mmap { 16 << 10 } else { 512 })
    }

    setters! {
        hash: HashKind,
        byte_source: ByteSource,
        delta_base_cache: usize,
        alternates: Vec<PathBuf>,
        max_alternates_depth: u32,
        max_object_size: Option<u64>,
        use_rev_files: bool,
        use_midx: bool,
        max_open_files: Option<usize>,
        verify_on_read: bool,
    }
}
