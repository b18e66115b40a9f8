//! Adding objects: loose files and, for large blobs, packs; what is there already is freshened instead.
//!
//! A loose object is deflated into a temporary file (`tmp_obj_*`, which git's cleaners know), synced as
//! [`WriteOptions::loose`] says, and only then given its name; a name that exists is left as it is, since two files of one
//! name hold the same object. See [`hashfile::publish`] for the order of the steps and what a crash leaves.

use std::collections::HashSet;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use hashfile::DEFAULT_IO_BUFFER_SIZE;
use hashfile::publish::{self, Batch, IfExists, TempFile};
use object::{HashKind, NameHasher, ObjectId, ObjectKind, header, object_id};
use pack_format::zlib::Deflate;

use crate::bulk::Bulk;
use crate::error::{ReadError, WriteError};
use crate::options::setters;
use crate::store::Store;

/// Streams up to this many bytes are held, larger ones of unknown size go through a temporary file.
const HELD: u64 = 1 << 20;

/// How objects are written. All fields have setters of the same name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The zlib level of loose objects, -1 (zlib's default) to 9. Default: 1, as git's `core.looseCompression`.
    pub compression: i32,
    /// How loose objects are made, synced and named; [`make_dir`](publish::Options::make_dir) is taken as set. Default:
    /// durable when a call returns ([`Fsync::Full`](publish::Fsync::Full)), which git leaves off for loose objects.
    pub loose: publish::Options,
    /// Whether loose objects get their names together, in [`Writer::finish`], after one flush for all of them
    /// (`core.fsyncMethod=batch`). Until then the store does not have them. Default: `false`.
    pub batch: bool,
    /// Blobs of more bytes than this go into a pack, which appears in [`Writer::finish`]; until then the store does not
    /// have them. Default: 512 MiB, as git's `core.bigFileThreshold`.
    pub big_file_threshold: u64,
    /// The zlib level of blobs in packs, -1 (zlib's default, which is the default here) to 9.
    pub pack_compression: i32,
    /// How packs and what belongs to them are made, synced and named; [`make_dir`](publish::Options::make_dir) is taken as
    /// set. Default: durable when `finish` returns.
    pub pack: publish::Options,
    /// A pack of several blobs is not made larger than this many bytes. Default: no limit.
    pub pack_size_limit: Option<u64>,
    /// Whether packs get a `.rev`. Default: true.
    pub write_rev: bool,
    /// Whether a copy that is there already is read and hashed before it counts; one that is damaged is replaced.
    /// Default: `false`, as git: a file of the right name counts, an empty one, too.
    pub verify_existing: bool,
    /// A pack's time is set to now at most once in this while for each [`Store`]. Default: one hour; what nobody uses
    /// is removed after days, if not weeks.
    pub freshen_interval: Duration,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            compression: 1,
            loose: publish::Options::default(),
            batch: false,
            big_file_threshold: 512 << 20,
            pack_compression: -1,
            pack: publish::Options::default(),
            pack_size_limit: None,
            write_rev: true,
            verify_existing: false,
            freshen_interval: Duration::from_secs(3600),
        }
    }
}

impl WriteOptions {
    setters! {
        compression: i32,
        loose: publish::Options,
        batch: bool,
        big_file_threshold: u64,
        pack_compression: i32,
        pack: publish::Options,
        pack_size_limit: Option<u64>,
        write_rev: bool,
        verify_existing: bool,
        freshen_interval: Duration,
    }

    /// With what is taken as set.
    pub(crate) fn settled(self) -> WriteOptions {
        WriteOptions { loose: self.loose.make_dir(true), pack: self.pack.make_dir(true), ..self }
    }
}

impl Store {
    /// Adds objects to the store's own directory.
    pub fn writer(&self, options: WriteOptions) -> Writer {
        Writer {
            store: self.clone(),
            deflate: Deflate::new(options.compression),
            pack_deflate: Deflate::new(options.pack_compression),
            options: options.settled(),
            inflated: Vec::new(),
            deflated: Vec::new(),
            batch: Batch::new(),
            pending: HashSet::new(),
            bulk: None,
        }
    }
}

/// Adds objects to a [`Store`]: [`Store::writer`] makes it. One thread uses it; others have their own.
///
/// When a call that writes returns, the store has the object, in a copy whose time was set to now, so that nobody who
/// removes what is old and unused takes it, and which is as durable as the options say; with
/// [`batch`](WriteOptions::batch), and for blobs of more than [`big_file_threshold`](WriteOptions::big_file_threshold), that
/// holds when [`finish`](Self::finish) returns. An object that was there before is as
/// durable as whoever wrote it made it.
///
/// ```
/// # use object as packstone_object;
/// use packstone_object::{HashKind, ObjectKind};
/// use packstone_odb::{Options, Store, WriteOptions};
///
/// let dir = tempfile::tempdir()?;
/// let store = Store::open(dir.path(), Options::new(HashKind::Sha1))?;
/// let mut writer = store.writer(WriteOptions::default());
/// let id = writer.write(ObjectKind::Blob, b"hello\n")?;
/// writer.finish()?;
/// assert_eq!(id.to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
/// assert!(store.contains(&id)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "what waits for `finish` is lost without it"]
pub struct Writer {
    pub(crate) store: Store,
    pub(crate) options: WriteOptions,
    deflate: Deflate,
    pack_deflate: Deflate,
    inflated: Vec<u8>,
    deflated: Vec<u8>,
    batch: Batch,
    /// What is in `batch` and in `bulk`.
    pending: HashSet<ObjectId>,
    bulk: Option<Bulk>,
}

impl Writer {
    /// The store that is written to.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Names an object, and sees to it that the store has it.
    ///
    /// # Errors
    /// If it cannot be written. Nothing has its name then.
    pub fn write(&mut self, kind: ObjectKind, content: &[u8]) -> Result<ObjectId, WriteError> {
        let id = object_id(self.hash(), kind, content)?;
        self.write_as(id, kind, content)?;
        Ok(id)
    }

    /// As [`write`](Self::write), for content whose name is known. That it is right is not looked at again.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn write_as(&mut self, id: ObjectId, kind: ObjectKind, content: &[u8]) -> Result<(), WriteError> {
        let Some(if_exists) = self.missing(&id)? else { return Ok(()) };
        if self.is_big(kind, content.len() as u64) {
            return self.pack(content.len() as u64, &mut &*content, true).map(drop);
        }
        self.inflated.clear();
        self.inflated.extend_from_slice(&header::encode(kind, content.len() as u64));
        self.inflated.extend_from_slice(content);
        self.deflated.clear();
        self.deflate.deflate(&self.inflated, &mut self.deflated);
        let dest = self.store.loose_path_of(&id, 0);
        // A batch's files are not in directories that may be removed as long as they look empty.
        let dir = if self.options.batch { self.store.objects_dir() } else { dest.parent().unwrap_or(Path::new("")) };
        let mut temp = TempFile::create_in(dir, TEMP, &self.options.loose)?;
        temp.write_all(&self.deflated).map_err(|source| WriteError::File { path: temp.path().into(), source })?;
        self.publish(temp, id, if_exists)
    }

    /// As [`write`](Self::write), for content that comes in pieces. In memory are at most a megabyte or so of it.
    ///
    /// `size` is the number of bytes that `input` will give; if that is not known, more than a megabyte goes to a
    /// temporary file first.
    ///
    /// # Errors
    /// If it cannot be written, if `input` fails, or if it does not give exactly `size` bytes.
    pub fn write_stream(
        &mut self,
        kind: ObjectKind,
        size: Option<u64>,
        mut input: impl Read,
    ) -> Result<ObjectId, WriteError> {
        let mut held = Vec::new();
        let some = size.map_or(HELD + 1, |size| size.saturating_add(1).min(HELD + 1));
        (&mut input).take(some).read_to_end(&mut held).map_err(WriteError::Input)?;
        match size {
            Some(size) if size > HELD => self.stream(kind, size, &mut held.as_slice().chain(input)),
            Some(size) if size != held.len() as u64 => Err(WriteError::Size { size }),
            None if held.len() as u64 > HELD => {
                let (mut spooled, size) = self.spool(held.as_slice().chain(input))?;
                self.stream(kind, size, &mut spooled)
            }
            _ => self.write(kind, &held),
        }
    }

    /// Whether the store has the object, or will when [`finish`](Self::finish) returns, in a copy whose time is now that
    /// of this call: packs are asked first, in all object directories, and no loose object is looked for if one has it.
    ///
    /// # Errors
    /// None for now: what cannot be looked at or freshened does not count.
    pub fn freshen(&mut self, id: &ObjectId) -> Result<bool, WriteError> {
        Ok(self.pending.contains(id) || self.store.freshen(id, &self.options))
    }

    /// Whether the store has the object, or will when [`finish`](Self::finish) returns. Changes nothing.
    ///
    /// # Errors
    /// As for [`Store::contains`].
    pub fn contains(&self, id: &ObjectId) -> Result<bool, ReadError> {
        Ok(self.pending.contains(id) || self.store.contains(id)?)
    }

    /// Publishes what was held back. To do that by dropping the writer would leave nobody to tell what went wrong.
    ///
    /// # Errors
    /// If something cannot be published. What was before it has its name then, what comes after is lost.
    pub fn finish(mut self) -> Result<(), WriteError> {
        self.flush()
    }

    /// As [`finish`](Self::finish), and the writer goes on.
    ///
    /// # Errors
    /// As for [`finish`](Self::finish).
    pub fn flush(&mut self) -> Result<(), WriteError> {
        let batch = std::mem::take(&mut self.batch);
        let packed = self.bulk.take().map_or(Ok(()), |mut bulk| bulk.finish(&self.store, &self.options));
        let loose = batch.commit();
        // Also if that failed: some may be there.
        self.pending.drain().for_each(|id| self.store.wrote_loose(&id));
        packed?;
        loose?;
        Ok(())
    }

    fn hash(&self) -> HashKind {
        self.store.hash_kind()
    }

    /// What to do with a file that has the object's name; `None` if nothing has to be written.
    fn missing(&mut self, id: &ObjectId) -> Result<Option<IfExists>, WriteError> {
        if self.pending.contains(id) {
            return Ok(None);
        }
        if self.options.verify_existing && !self.store.has_sound_copy(id) {
            return Ok(Some(IfExists::Replace));
        }
        Ok((!self.freshen(id)?).then_some(IfExists::Keep))
    }

    fn publish(&mut self, temp: TempFile, id: ObjectId, if_exists: IfExists) -> Result<(), WriteError> {
        let dest = self.store.loose_path_of(&id, 0);
        if self.options.batch {
            self.batch.add(temp, &dest, if_exists)?;
            self.pending.insert(id);
        } else {
            temp.persist(&dest, if_exists)?;
            self.store.wrote_loose(&id);
        }
        Ok(())
    }

    fn is_big(&self, kind: ObjectKind, size: u64) -> bool {
        kind == ObjectKind::Blob && size > self.options.big_file_threshold
    }

    /// Writes a blob into the pack that is being made. `wanted`: it is known that the store does not have it.
    fn pack(&mut self, size: u64, input: &mut dyn Read, wanted: bool) -> Result<ObjectId, WriteError> {
        if let Some(bulk) = &mut self.bulk
            && bulk.is_full(size, self.options.pack_size_limit)
        {
            bulk.finish(&self.store, &self.options)?;
            self.bulk = None;
        }
        let mut bulk = match self.bulk.take() {
            Some(bulk) => bulk,
            None => Bulk::begin(&self.store, &self.options)?,
        };
        let added = self.pack_into(&mut bulk, size, input, wanted);
        // Also if it was given up: what it held is lost, and `finish` has to say so.
        self.bulk = Some(bulk);
        added
    }

    fn pack_into(
        &mut self,
        bulk: &mut Bulk,
        size: u64,
        input: &mut dyn Read,
        wanted: bool,
    ) -> Result<ObjectId, WriteError> {
        let before = bulk.checkpoint()?;
        let added = bulk.add(self.hash(), size, input, &mut self.pack_deflate);
        let keep = match &added {
            Ok(entry) => wanted || self.missing(&entry.id)?.is_some(),
            Err(_) => false,
        };
        match &added {
            Ok(entry) if keep => {
                bulk.keep(*entry);
                self.pending.insert(entry.id);
            }
            _ => bulk.rewind(&before)?,
        }
        added.map(|entry| entry.id)
    }

    /// Writes what is too large to be held, in one pass: the name is known at the end only.
    fn stream(&mut self, kind: ObjectKind, size: u64, input: &mut dyn Read) -> Result<ObjectId, WriteError> {
        if self.is_big(kind, size) {
            return self.pack(size, input, false);
        }
        let mut temp = TempFile::create_in(self.store.objects_dir(), TEMP, &self.options.loose)?;
        let mut hasher = NameHasher::new(self.hash(), kind, size);
        let path = temp.path().to_owned();
        let failed = |source| WriteError::File { path: path.clone(), source };
        let mut output = vec![0; DEFAULT_IO_BUFFER_SIZE];
        self.deflate.reset();
        deflate_step(&mut self.deflate, &header::encode(kind, size), false, &mut output, &mut temp).map_err(failed)?;
        read_exactly(size, input, |part| {
            hasher.update(part);
            deflate_step(&mut self.deflate, part, false, &mut output, &mut temp).map_err(failed)
        })?;
        deflate_step(&mut self.deflate, &[], true, &mut output, &mut temp).map_err(failed)?;
        let id = hasher.finish()?;
        if let Some(if_exists) = self.missing(&id)? {
            self.publish(temp, id, if_exists)?;
        }
        Ok(id)
    }

    /// Copies a stream to a temporary file, to learn how long it is.
    fn spool(&self, mut input: impl Read) -> Result<(TempFile, u64), WriteError> {
        let options = publish::Options::default().fs(self.options.loose.fs.clone());
        let mut file = TempFile::create_in(self.store.objects_dir(), TEMP, &options)?;
        let mut buffer = vec![0; DEFAULT_IO_BUFFER_SIZE];
        let mut size = 0u64;
        let path = file.path().to_owned();
        let failed = |source| WriteError::File { path: path.clone(), source };
        loop {
            let part = read_some(&mut input, &mut buffer).map_err(WriteError::Input)?;
            if part.is_empty() {
                break;
            }
            file.write_all(part).map_err(failed)?;
            size += part.len() as u64;
        }
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok((file, size))
    }
}

/// The beginning of temporary names; git removes what is called so and old.
const TEMP: &str = "tmp_obj_";

/// Gives `size` bytes of `input` to `each`, in pieces; that must be all there are.
pub(crate) fn read_exactly(
    size: u64,
    input: &mut dyn Read,
    mut each: impl FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let mut buffer = vec![0; DEFAULT_IO_BUFFER_SIZE];
    let mut left = size;
    loop {
        let part = read_some(input, &mut buffer).map_err(WriteError::Input)?;
        if part.is_empty() && left == 0 {
            return Ok(());
        }
        left = match left.checked_sub(part.len() as u64) {
            Some(left) if !part.is_empty() => left,
            _ => return Err(WriteError::Size { size }),
        };
        each(part)?;
    }
}

/// What one read gives; nothing at the end.
fn read_some<'b>(input: &mut (impl Read + ?Sized), buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    loop {
        match input.read(buffer) {
            Ok(n) => return Ok(buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Deflates all of `input`, and the end of the stream if it is the last.
pub(crate) fn deflate_step(
    deflate: &mut Deflate,
    mut input: &[u8],
    last: bool,
    output: &mut [u8],
    sink: &mut impl Write,
) -> io::Result<()> {
    loop {
        let step = deflate.step(input, output, last);
        sink.write_all(output.get(..step.produced).unwrap_or_default())?;
        input = input.get(step.consumed..).unwrap_or_default();
        if step.done || (!last && input.is_empty()) {
            return Ok(());
        }
    }
}
