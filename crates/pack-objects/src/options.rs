//! What a caller can choose.

/// How reused bytes are checked before they leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum VerifyReuse {
    /// Entries and runs of entries are held against the index's CRC-32; a pack that is sent as a
    /// whole is not, as that would cost more than a fifth of the time.
    #[default]
    Runs,
    /// Whole packs too.
    All,
    /// Only entries that are reused one by one.
    Entries,
}

/// Options of writing a pack.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Name delta bases by their distance (`OFS_DELTA`) where that is possible. Without it, all
    /// deltas name their bases by id. Default: `false`, as in git.
    pub delta_base_offset: bool,
    /// Leave deltas against objects that the receiver has. Default: `false`.
    pub thin: bool,
    /// Reuse deltas as they lie. Without it, every delta is written as a whole object. Default:
    /// `true`.
    pub reuse_delta: bool,
    /// Reuse deflated bytes as they lie. Without it, every object is inflated and deflated again.
    /// Default: `true`.
    pub reuse_object: bool,
    /// zlib level for what is deflated anew, -1 to 9; -1 is zlib's own default. Default: -1.
    pub compression: i32,
    /// Threads that may work at once; 1 keeps all work on the caller's. The bytes written do not
    /// depend on it. Default: 1.
    pub threads: usize,
    /// How reused bytes are checked. Default: [`VerifyReuse::Runs`].
    pub verify_reuse: VerifyReuse,
    /// Objects of at least this many bytes are streamed when they are deflated anew, not held.
    /// Default: 512 MiB.
    pub big_file_threshold: u64,
    /// How `.pack`, `.idx` and `.rev` are made durable on disk, and their permissions. Default:
    /// synced with their directory, read-only for all.
    pub publish: hashfile::publish::Options,
    /// Whether to write a `.rev` beside the `.idx`. Default: `true`.
    pub write_rev: bool,
    /// Version of the `.idx`, 1 or 2. Default: 2.
    pub index_version: u32,
    /// In version 2 of the `.idx`, offsets beyond this go into the table of 64-bit offsets. At most
    /// 2^31 - 1, which is the default.
    pub index_offset_limit: u32,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            delta_base_offset: false,
            thin: false,
            reuse_delta: true,
            reuse_object: true,
            compression: -1,
            threads: 1,
            verify_reuse: VerifyReuse::Runs,
            big_file_threshold: 512 << 20,
            publish: hashfile::publish::Options::default(),
            write_rev: true,
            index_version: 2,
            index_offset_limit: i32::MAX as u32,
        }
    }
}

macro_rules! setters {
    ($type:ty { $($name:ident: $of:ty),* $(,)? }) => {
        impl $type {
            $(
                #[doc = concat!("Sets [`", stringify!($name), "`](Self::", stringify!($name), ").")]
                #[must_use]
                pub fn $name(mut self, $name: $of) -> Self {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}
pub(crate) use setters;

setters!(WriteOptions {
    delta_base_offset: bool,
    thin: bool,
    reuse_delta: bool,
    reuse_object: bool,
    compression: i32,
    threads: usize,
    verify_reuse: VerifyReuse,
    big_file_threshold: u64,
    publish: hashfile::publish::Options,
    write_rev: bool,
    index_version: u32,
    index_offset_limit: u32,
});
