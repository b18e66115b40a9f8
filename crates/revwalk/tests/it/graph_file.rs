//! Commit-graph files made by hand, right or wrong.

use object::{Checksum, HashKind, ObjectId};
use pack_format::chunk::{ChunkId, Toc, encode_toc};

/// A `CDAT` row with its id.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) id: ObjectId,
    pub(crate) tree: ObjectId,
    pub(crate) parents: [u32; 2],
    pub(crate) level: u32,
    pub(crate) time: u64,
}

/// What goes into a file. Rows must be in id order.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    pub(crate) rows: Vec<Row>,
    pub(crate) edges: Option<Vec<u32>>,
    pub(crate) dates: Option<Vec<u32>>,
    pub(crate) far_dates: Option<Vec<u64>>,
    pub(crate) bases: Vec<ObjectId>,
}

impl Parts {
    pub(crate) fn write(&self, hash: HashKind) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
        let mut chunks: Vec<([u8; 4], Vec<u8>)> = Vec::new();
        let below = |byte| self.rows.iter().filter(|row| row.id.first_byte() <= byte).count() as u32;
        chunks.push((*b"OIDF", words(&(0..=255).map(below).collect::<Vec<_>>())));
        chunks.push((*b"OIDL", self.rows.iter().flat_map(|row| row.id.as_bytes().to_vec()).collect()));
        let mut data = Vec::new();
        for row in &self.rows {
            data.extend_from_slice(row.tree.as_bytes());
            let date = [row.level << 2 | (row.time >> 32) as u32 & 3, row.time as u32];
            data.extend(words(&row.parents));
            data.extend(words(&date));
        }
        chunks.push((*b"CDAT", data));
        chunks.extend(self.dates.as_ref().map(|dates| (*b"GDA2", words(dates))));
        let far = self.far_dates.as_ref();
        chunks.extend(far.map(|far| (*b"GDO2", far.iter().flat_map(|n| n.to_be_bytes()).collect())));
        chunks.extend(self.edges.as_ref().map(|edges| (*b"EDGE", words(edges))));
        if !self.bases.is_empty() {
            chunks.push((*b"BASE", self.bases.iter().flat_map(|id| id.as_bytes().to_vec()).collect()));
        }
        let mut file =
            vec![b'C', b'G', b'P', b'H', 1, hash.file_id() as u8, chunks.len() as u8, self.bases.len() as u8];
        let sizes: Vec<_> = chunks.iter().map(|(id, data)| (ChunkId(*id), data.len() as u64)).collect();
        encode_toc(&sizes, 8, &mut file);
        chunks.iter().for_each(|(_, data)| file.extend_from_slice(data));
        file.resize(file.len() + hash.len(), 0);
        resign(&mut file, hash);
        file
    }
}

/// Makes the trailing checksum right again.
pub(crate) fn resign(file: &mut [u8], hash: HashKind) {
    let end = file.len() - hash.len();
    let mut hasher = Checksum::new(hash);
    hasher.update(&file[..end]);
    file[end..].copy_from_slice(hasher.finish().as_bytes());
}

fn toc(file: &[u8], hash: HashKind) -> Toc {
    Toc::parse(file, 8, file[6], hash.len(), 1).unwrap()
}

/// Renames a chunk to something nobody knows, and signs the file again.
pub(crate) fn drop_chunk(file: &mut [u8], id: &[u8; 4], hash: HashKind) {
    let count = usize::from(file[6]);
    let row = (0..count).map(|nr| 8 + 12 * nr).find(|&at| file[at..at + 4] == *id).expect("the chunk is there");
    file[row..row + 4].copy_from_slice(b"ZZZZ");
    resign(file, hash);
}

/// Where a chunk lies.
pub(crate) fn chunk_range(file: &[u8], id: &[u8; 4], hash: HashKind) -> std::ops::Range<usize> {
    toc(file, hash).range(ChunkId(*id)).expect("the chunk is there")
}

/// Shortens a chunk to `len` bytes, moving what follows, and signs the file again.
pub(crate) fn cut_chunk(file: &[u8], id: &[u8; 4], len: usize, hash: HashKind) -> Vec<u8> {
    let chunks: Vec<_> = toc(file, hash).iter().collect();
    let size = |(chunk, range): &(ChunkId, std::ops::Range<usize>)| if chunk.0 == *id { len } else { range.len() };
    let sizes: Vec<_> = chunks.iter().map(|chunk| (chunk.0, size(chunk) as u64)).collect();
    let mut out = file[..8].to_vec();
    encode_toc(&sizes, 8, &mut out);
    for chunk in &chunks {
        out.extend_from_slice(&file[chunk.1.start..chunk.1.start + size(chunk)]);
    }
    out.resize(out.len() + hash.len(), 0);
    resign(&mut out, hash);
    out
}
