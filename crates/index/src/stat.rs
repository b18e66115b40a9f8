//! What `lstat` said about a file when it was last found to be what the index says.
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 4 + 4 | ctime: seconds, nanoseconds |
//! | 8 | 4 + 4 | mtime: seconds, nanoseconds |
//! | 16 | 4 | device |
//! | 20 | 4 | inode |
//! | 24 | 4 | uid (an entry has its mode in front of it) |
//! | 28 | 4 | gid |
//! | 32 | 4 | size in bytes |
//!
//! All big endian and cut to 32 bits (gitformat-index, "Index entry").

/// A moment as the index keeps it: modulo 2^32 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Seconds since 1970, modulo 2^32: times before 1970 and after 2106 wrap.
    pub secs: u32,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

impl Time {
    /// From the system's seconds and nanoseconds.
    pub const fn new(secs: i64, nanos: i64) -> Self {
        // Cut, not clamped: what is compared later is cut in the same way.
        Time { secs: secs as u32, nanos: nanos as u32 }
    }
}

/// The fields of `stat` that tell whether a file may have changed. All zero: nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stat {
    /// When the inode last changed.
    pub ctime: Time,
    /// When the content last changed.
    pub mtime: Time,
    /// Device, low 32 bits.
    pub dev: u32,
    /// Inode, low 32 bits.
    pub ino: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes, as [`Stat::cut_size`] cuts it.
    pub size: u32,
}

impl Stat {
    /// Bytes of the fields together.
    pub const LEN: usize = 36;

    /// The low 32 bits of a size. A size that is not zero but whose low bits are is kept as 2^31, since zero means that
    /// the content has to be looked at.
    pub const fn cut_size(size: u64) -> u32 {
        match size as u32 {
            0 if size != 0 => 0x8000_0000,
            low => low,
        }
    }

    /// From what the system said, cut as the index keeps it.
    #[cfg(unix)]
    pub fn from_metadata(meta: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Stat {
            ctime: Time::new(meta.ctime(), meta.ctime_nsec()),
            mtime: Time::new(meta.mtime(), meta.mtime_nsec()),
            dev: meta.dev() as u32,
            ino: meta.ino() as u32,
            uid: meta.uid(),
            gid: meta.gid(),
            size: Self::cut_size(meta.size()),
        }
    }

    /// From what the system said, cut as the index keeps it. What it does not tell is zero.
    #[cfg(not(unix))]
    pub fn from_metadata(meta: &std::fs::Metadata) -> Self {
        let time = |time: std::io::Result<std::time::SystemTime>| match time
            .ok()
            .map(|time| time.duration_since(std::time::UNIX_EPOCH))
        {
            Some(Ok(after)) => Time::new(after.as_secs() as i64, i64::from(after.subsec_nanos())),
            _ => Time::default(),
        };
        Stat {
            ctime: time(meta.created()),
            mtime: time(meta.modified()),
            size: Self::cut_size(meta.len()),
            ..Stat::default()
        }
    }

    /// Reads the fields as an untracked cache keeps them: in the order of the table above, without a gap.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(four) => u32::from_be_bytes(*four),
            None => 0,
        };
        Stat {
            ctime: Time { secs: word(0), nanos: word(4) },
            mtime: Time { secs: word(8), nanos: word(12) },
            dev: word(16),
            ino: word(20),
            uid: word(24),
            gid: word(28),
            size: word(32),
        }
    }

    /// The inverse of [`from_bytes`](Stat::from_bytes).
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let words = [
            self.ctime.secs,
            self.ctime.nanos,
            self.mtime.secs,
            self.mtime.nanos,
            self.dev,
            self.ino,
            self.uid,
            self.gid,
            self.size,
        ];
        let mut out = [0; Self::LEN];
        for (place, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i11_sizes_that_are_multiples_of_four_gib_do_not_become_zero() {
        assert_eq!(Stat::cut_size(0), 0);
        assert_eq!(Stat::cut_size(1 << 32), 0x8000_0000);
        assert_eq!(Stat::cut_size(1 << 33), 0x8000_0000);
        assert_eq!(Stat::cut_size((1 << 32) + 1), 1);
        assert_eq!(Stat::cut_size(u64::from(u32::MAX)), u32::MAX);
    }

    #[test]
    fn i11_times_wrap_and_keep_their_nanoseconds() {
        // 1960-05-05 05:05:05.5 and 2200-05-05, as git stores them.
        assert_eq!(Time::new(-304_800_895, 500_000_000), Time { secs: 3_990_166_401, nanos: 500_000_000 });
        assert_eq!(Time::new(7_268_832_000, 0), Time { secs: 2_973_864_704, nanos: 0 });
    }

    #[test]
    fn bytes_and_back() {
        let mut bytes = [0u8; Stat::LEN];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = at as u8 ^ 0xa5;
        }
        assert_eq!(Stat::from_bytes(&bytes).to_bytes(), bytes);
    }
}
