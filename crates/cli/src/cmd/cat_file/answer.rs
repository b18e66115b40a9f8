//! Answers about objects whose ids are known.

use std::io::Read;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use object::{ObjectId, ObjectKind};
use odb::{Content, Location, ObjectHeader, ObjectStream, ReadError, Scratch, Store};
use pack_format::entry::Header;

use super::format::{Known, Wants};
use super::one::say;
use super::typed::{Batch, BatchKind, Leave};
use crate::replace::Replacements;
use crate::report::{self, Failure};
use crate::stdio::BLOCK;

/// Objects of this size or more may be written piece by piece.
const STREAMED: u64 = 512 << 10;

/// What is to be answered.
pub(super) struct Item {
    pub(super) about: About,
    pub(super) kind: BatchKind,
}

/// What an answer is about.
pub(super) enum About {
    /// An object.
    Object(Request),
    /// A name that is none; and what is to be said about it.
    Name(Range<usize>, &'static str),
    /// A path that leads to no object; what is to be said comes first.
    Path(&'static str, Range<usize>),
}

/// When one in so many of a pack's objects was asked about, its order is made.
const WORTH_AN_ORDER: u32 = 64;

/// Whether that is so is looked at once in so many times.
const FEW: u32 = 256;

/// An object to answer about.
pub(super) struct Request {
    pub(super) id: ObjectId,
    pub(super) mode: Option<u32>,
    /// What named it, for messages; `None`: its id.
    pub(super) name: Option<Range<usize>>,
    pub(super) rest: Range<usize>,
    /// Where it is, if that is known.
    pub(super) place: Option<Location>,
}

/// Where answers go.
pub(super) trait Sink {
    /// Text that is gathered; more can be appended. [`settle`](Self::settle) is to be called some time after that.
    fn text(&mut self) -> &mut Vec<u8>;

    /// Appends content. The buffer may be exchanged for another.
    fn content(&mut self, content: &mut Vec<u8>) -> Result<(), Failure>;

    /// At the end of an answer: lets go of what is enough.
    fn settle(&mut self) -> Result<(), Failure>;
}

/// What all answers have in common.
pub(super) struct Answers<'a> {
    store: &'a Store,
    replacements: &'a Replacements,
    batch: &'a Batch,
    wants: Wants,
    null: ObjectId,
    /// How many headers were asked for so far.
    headers: AtomicU32,
}

/// Buffers that answers reuse.
#[derive(Default)]
pub(super) struct Buffers {
    scratch: Scratch,
    content: Vec<u8>,
}

impl<'a> Answers<'a> {
    pub(super) fn new(store: &'a Store, replacements: &'a Replacements, batch: &'a Batch) -> Self {
        let mut wants = batch.format.wants();
        wants.kind |= batch.filter != Leave::Nothing;
        wants.size |= matches!(batch.filter, Leave::LargeBlobs(_));
        Answers { store, replacements, batch, wants, null: store.hash_kind().null(), headers: AtomicU32::new(0) }
    }

    /// Whether lines are split at their first white space.
    pub(super) fn splits_lines(&self) -> bool {
        self.wants.rest
    }

    /// Answers. `text` is what names are part of.
    pub(super) fn item(
        &self,
        item: &Item,
        text: &[u8],
        buffers: &mut Buffers,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let part = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
        match &item.about {
            About::Object(request) => self.answer(request, item.kind, text, buffers, out),
            About::Name(name, status) => self.status(part(name), status, out),
            About::Path(status, path) => {
                let (path, delim) = (part(path), self.batch.delim_out);
                let text = out.text();
                text.extend_from_slice(format!("{status} {}", path.len()).as_bytes());
                text.push(delim);
                text.extend_from_slice(path);
                text.push(delim);
                out.settle()
            }
        }
    }

    /// Says in place of an answer why there is none.
    fn status(&self, name: &[u8], status: &str, out: &mut impl Sink) -> Result<(), Failure> {
        let text = out.text();
        text.extend_from_slice(name);
        text.push(b' ');
        text.extend_from_slice(status.as_bytes());
        text.push(self.batch.delim_out);
        out.settle()
    }

    /// Answers, with content if `kind` says so.
    fn answer(
        &self,
        request: &Request,
        kind: BatchKind,
        text: &[u8],
        buffers: &mut Buffers,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let part = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
        let name = request.name.as_ref().map(part);
        let real = if self.batch.all_objects { request.id } else { self.replacements.of(&request.id)? };
        let contents = kind == BatchKind::Contents;
        let mut known = Known {
            id: &request.id,
            kind: ObjectKind::Blob,
            size: 0,
            mode: request.mode,
            disk_size: 0,
            delta_base: &self.null,
            rest: part(&request.rest),
        };
        // Where all objects are answered about and only their names are wanted, they are not looked at.
        let mut content = None;
        let mut missing = false;
        if contents && self.batch.filter == Leave::Nothing {
            match self.content(&real, request, buffers) {
                Ok(found) => {
                    (known.kind, known.size) = match &found {
                        Content::Whole(kind) => (*kind, buffers.content.len() as u64),
                        Content::Stream(stream) => (stream.header().kind, stream.header().size),
                    };
                    content = Some(found);
                }
                Err(error) => {
                    say(&error);
                    if !error.is_missing() && self.store.header(&real).is_ok() {
                        return Err(Failure::Fatal(format!("unable to stream {} to stdout", request.id)));
                    }
                    missing = true;
                }
            }
        } else if self.wants.kind || self.wants.size {
            let header = self.header(&real, request);
            match header {
                Ok(header) => (known.kind, known.size) = (header.kind, header.size),
                Err(error) => {
                    say(&error);
                    missing = true;
                }
            }
        } else if !(self.batch.all_objects || self.wants.disk_size || self.wants.delta_base) {
            missing = match self.store.contains(&real) {
                Ok(there) => !there,
                Err(error) => {
                    say(&error);
                    true
                }
            };
        }
        let base;
        if !missing && (self.wants.disk_size || self.wants.delta_base) {
            let stored = match &request.place {
                Some(place) => self.store.entry_at(&real, place.clone()),
                None => self.store.entry(&real).map(Some),
            };
            match stored {
                Ok(Some(stored)) => {
                    base = stored.delta_base.unwrap_or(self.null);
                    (known.disk_size, known.delta_base) = (stored.disk_size, &base);
                }
                Ok(None) => missing = true,
                Err(error) => {
                    say(&error);
                    missing = true;
                }
            }
        }
        if missing {
            return match (request.mode, name) {
                (Some(0o160_000), _) => self.status(request.id.to_hex().as_bytes(), "submodule", out),
                (_, Some(name)) => self.status(name, "missing", out),
                (_, None) => self.status(request.id.to_hex().as_bytes(), "missing", out),
            };
        }
        if self.leaves_out(&known) {
            return match name {
                _ if self.batch.all_objects => Ok(()),
                Some(name) => self.status(name, "excluded", out),
                None => self.status(request.id.to_hex().as_bytes(), "excluded", out),
            };
        }
        if contents && content.is_none() {
            let found = self.content(&real, request, buffers).map_err(|error| {
                say(&error);
                Failure::Fatal(format!("object {} disappeared", request.id))
            })?;
            content = Some(found);
        }
        let text = out.text();
        self.batch.format.put(&known, text);
        text.push(self.batch.delim_out);
        match content {
            None => {}
            Some(Content::Whole(_)) => {
                out.content(&mut buffers.content)?;
                out.text().push(self.batch.delim_out);
            }
            Some(Content::Stream(stream)) => {
                self.copy(&request.id, stream, buffers, out)?;
                out.text().push(self.batch.delim_out);
            }
        }
        out.settle()
    }

    /// Kind and size. Once many are asked for, it pays to know the order of a large pack: then chains of deltas need not
    /// be followed to their ends each time.
    fn header(&self, id: &ObjectId, request: &Request) -> Result<ObjectHeader, ReadError> {
        let asked = self.headers.fetch_add(1, Ordering::Relaxed);
        if asked % FEW == FEW - 1
            && let Ok(Some(Location::Packed { pack, .. })) = self.store.find(id)
            && asked >= pack.count() / WORTH_AN_ORDER
        {
            // Without one, headers are to be had all the same.
            let _ = pack.order();
        }
        match &request.place {
            Some(Location::Packed { pack, at, .. }) => pack.header(*at).or_else(|_| self.store.header(id)),
            _ => self.store.header(id),
        }
    }

    fn leaves_out(&self, known: &Known<'_>) -> bool {
        match self.batch.filter {
            Leave::Nothing => false,
            Leave::Blobs => known.kind == ObjectKind::Blob,
            Leave::LargeBlobs(size) => known.kind == ObjectKind::Blob && known.size >= size,
            Leave::OtherThan(kind) => known.kind != kind,
        }
    }

    /// Reads an object into the buffer, or opens it if it is too large for that.
    fn content(&self, id: &ObjectId, request: &Request, buffers: &mut Buffers) -> Result<Content, ReadError> {
        if let Some(Location::Packed { pack, at, .. }) = &request.place {
            let is_small = |(entry, _): (Header, usize)| entry.kind.is_delta() || entry.size < STREAMED;
            if pack.entry(*at).is_ok_and(is_small)
                && let Ok(kind) = pack.read(*at, &mut buffers.scratch, &mut buffers.content)
            {
                return Ok(Content::Whole(kind));
            }
            // The store knows of other copies.
        }
        self.store.read_or_stream(id, &mut buffers.scratch, &mut buffers.content)
    }

    /// Writes a stream.
    fn copy(
        &self,
        id: &ObjectId,
        mut stream: ObjectStream,
        buffers: &mut Buffers,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let block = &mut buffers.content;
        loop {
            block.resize(BLOCK, 0);
            let read = stream.read(block).map_err(|error| {
                report::say(&format!("error: {error}\n"));
                Failure::Fatal(format!("unable to stream {id} to stdout"))
            })?;
            if read == 0 {
                return Ok(());
            }
            block.truncate(read);
            out.content(block)?;
        }
    }
}
