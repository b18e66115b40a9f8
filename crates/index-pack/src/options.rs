//! What a caller can choose, and what it gets told.

use std::path::PathBuf;
use std::sync::Arc;

use hashfile::publish;
use object::{HashKind, ObjectId, ObjectKind};
use odb::{Observer, Quiet, Store};

/// The version of the index that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexVersion {
    /// Ids and offsets only, offsets below 2^32.
    V1,
    /// With CRC-32s and large offsets.
    #[default]
    V2,
}

/// How a pack is received, indexed or verified. `Options::new(hash)`, then the setters named after the fields.
///
/// ```
/// # use object as packstone_object;
/// use packstone_index_pack::Options;
/// use packstone_object::HashKind;
///
/// let options = Options::new(HashKind::Sha1).threads(2).memory(128 << 20);
/// assert_eq!(options.threads, 2);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The hash that names the objects. Default: SHA-1.
    pub hash: HashKind,
    /// Threads that work, the caller's included. Default: 1. Results do not depend on it.
    pub threads: usize,
    /// The memory budget in bytes: tables, deltas kept for the second phase, and objects alive. Default: 320 MiB.
    ///
    /// Two things can exceed it, since nothing works without them: the tables (some sixty bytes an entry), and one delta
    /// with its base and its result. Everything else gives way.
    pub memory: u64,
    /// A stream of more bytes than this is refused. Default: no limit.
    pub max_input_size: Option<u64>,
    /// An object, or a delta, of more bytes than this is refused. Default: no limit.
    pub max_object_size: Option<u64>,
    /// A result of a delta of more bytes than this is refused, because it has to be held. Default: 4 GiB less one byte.
    pub max_delta_result: u64,
    /// A pack of more entries than this is refused. Default: no limit.
    pub max_objects: Option<u32>,
    /// A delta chain of more deltas than this is refused. Default: no limit.
    pub max_depth: Option<u32>,
    /// Blobs of more bytes than this are never held whole, unless they are bases. Default: 512 MiB, as git's
    /// `core.bigFileThreshold`.
    pub big_file_threshold: u64,
    /// Whether bases that the pack lacks are taken from the [`store`](Self::store) and appended. Default: `false`.
    pub fix_thin: bool,
    /// Where missing bases come from, and against whose objects those received are compared, byte for byte. Default: none.
    pub store: Option<Store>,
    /// The zlib level of appended bases, -1 (zlib's default, which is the default here) to 9.
    pub compression: i32,
    /// Default: version 2.
    pub index_version: IndexVersion,
    /// The largest offset in the four-byte table of a version 2 index; for tests of the large table. Default: 2^31 - 1.
    pub offset_limit: u32,
    /// Whether a `.rev` is written. Default: `true`.
    pub write_rev: bool,
    /// Refuse a pack in which an object comes twice. Default: `false`.
    pub refuse_duplicates: bool,
    /// Content of a `.keep` file to write. Default: none is written.
    pub keep: Option<Vec<u8>>,
    /// Content of a `.promisor` file to write. Default: none is written.
    pub promisor: Option<Vec<u8>>,
    /// How files are made, synced and named. Default: durable when the call returns.
    pub publish: publish::Options,
    /// Told of progress, and asked whether to stop. Default: neither.
    pub observer: Arc<dyn Observer>,
    /// Shown each object. Default: nobody.
    pub inspect: Option<Arc<dyn Inspect>>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("hash", &self.hash).field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            hash: HashKind::Sha1,
            threads: 1,
            memory: 320 << 20,
            max_input_size: None,
            max_object_size: None,
            max_delta_result: u32::MAX as u64,
            max_objects: None,
            max_depth: None,
            big_file_threshold: 512 << 20,
            fix_thin: false,
            store: None,
            compression: -1,
            index_version: IndexVersion::V2,
            offset_limit: u32::MAX >> 1,
            write_rev: true,
            refuse_duplicates: false,
            keep: None,
            promisor: None,
            publish: publish::Options::default(),
            observer: Arc::new(Quiet),
            inspect: None,
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

impl Options {
    /// The defaults, for objects of this hash.
    #[must_use]
    pub fn new(hash: HashKind) -> Self {
        Options { hash, ..Options::default() }
    }

    setters! {
        hash: HashKind,
        threads: usize,
        memory: u64,
        max_input_size: Option<u64>,
        max_object_size: Option<u64>,
        max_delta_result: u64,
        max_objects: Option<u32>,
        max_depth: Option<u32>,
        big_file_threshold: u64,
        fix_thin: bool,
        store: Option<Store>,
        compression: i32,
        index_version: IndexVersion,
        offset_limit: u32,
        write_rev: bool,
        refuse_duplicates: bool,
        keep: Option<Vec<u8>>,
        promisor: Option<Vec<u8>>,
        publish: publish::Options,
        observer: Arc<dyn Observer>,
        inspect: Option<Arc<dyn Inspect>>,
    }
}

/// An object of the pack, as [`Inspect`] sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Object<'a> {
    /// Its name.
    pub id: ObjectId,
    /// Its kind.
    pub kind: ObjectKind,
    /// Bytes of content.
    pub size: u64,
    /// The content; `None` for a blob beyond [`Options::big_file_threshold`] that nothing had to hold.
    pub content: Option<&'a [u8]>,
}

/// Why an [`Inspect`] refuses.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// Sees every object that is received, once for each entry of the pack, before anything is published. An error ends the
/// work, and nothing is published.
pub trait Inspect: Send + Sync {
    /// An object, as it gets its name; from any thread, in any order.
    fn object(&self, object: Object<'_>) -> Result<(), Refusal>;

    /// All were seen: which of the pack's objects shall be shown [again](Self::object_again), now that all are known?
    /// Those that the pack does not have are passed over. Default: none.
    fn again(&self, pack: &Received<'_>) -> Result<Vec<ObjectId>, Refusal> {
        let _ = pack;
        Ok(Vec::new())
    }

    /// An object that was asked for, or another that shares its chain of deltas; from any thread, in any order.
    fn object_again(&self, object: Object<'_>) -> Result<(), Refusal> {
        let _ = object;
        Ok(())
    }

    /// All were seen, and the pack is complete. `pack` has every object of it, appended bases too.
    fn finish(&self, pack: &Received<'_>) -> Result<(), Refusal> {
        let _ = pack;
        Ok(())
    }
}

/// The ids of a pack that is complete and not yet published.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    pub(crate) table: &'a dyn Ids,
    pub(crate) order: &'a [u32],
}

/// Where the ids of entries are.
pub(crate) trait Ids: std::fmt::Debug {
    fn id(&self, entry: u32) -> ObjectId;
}

impl Ids for crate::table::Table {
    fn id(&self, entry: u32) -> ObjectId {
        crate::table::Table::id(self, entry)
    }
}

impl Ids for Vec<ObjectId> {
    fn id(&self, entry: u32) -> ObjectId {
        self[entry as usize]
    }
}

impl Received<'_> {
    /// Whether the pack has the object. Logarithmic.
    #[must_use]
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.order.binary_search_by(|&entry| self.table.id(entry).cmp(id)).is_ok()
    }

    /// All ids, ascending; one that comes twice in the pack comes twice.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = ObjectId> + '_ {
        self.order.iter().map(|&entry| self.table.id(entry))
    }
}

/// Where a received pack goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// As `pack-<checksum>.pack` and so on into this directory, `objects/pack` of a repository.
    Directory(PathBuf),
    /// As [`Directory`](Self::Directory), but for the index and what is named after it, which get this name.
    DirectoryBut {
        /// The directory.
        dir: PathBuf,
        /// The index.
        idx: PathBuf,
    },
    /// Under these names; `None` for the pack's name with `.idx` for `.pack`. Other files are named after the pack.
    Files {
        /// The pack.
        pack: PathBuf,
        /// The index.
        idx: Option<PathBuf>,
    },
}
