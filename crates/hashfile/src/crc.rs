//! The running CRC-32 over a stretch of what is written.
//!
//! Packs record one per entry (gitformat-pack, "Version 2 pack-*.idx files"): the CRC-32 of ISO 3309, as zlib's, over the
//! entry's bytes as they lie in the pack: header, base reference, deflated data.

/// A CRC-32 that can be started, stopped and rewound.
#[derive(Clone, Default)]
pub(crate) struct RunningCrc(Option<crc32fast::Hasher>);

impl RunningCrc {
    pub(crate) fn begin(&mut self) {
        self.0 = Some(crc32fast::Hasher::new());
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some(crc) = &mut self.0 {
            crc.update(bytes);
        }
    }

    pub(crate) fn end(&mut self) -> Option<u32> {
        self.0.take().map(crc32fast::Hasher::finalize)
    }
}
