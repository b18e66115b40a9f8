//! Positions as types: a byte offset, and different ranks. Mixing two does not compile.

macro_rules! position {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($int);

        impl $name {
            /// Names this position.
            #[inline]
            pub const fn new(value: $int) -> Self {
                Self(value)
            }

            /// The number.
            #[inline]
            pub const fn get(self) -> $int {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

macro_rules! rank {
    ($(#[$doc:meta])* $name:ident) => {
        position! { $(#[$doc])* $name(u32) }

        impl $name {
            /// The number, to index memory with.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

position! {
    /// Byte offset of an entry's first header byte, counted from the start of the pack. The first entry's is 12.
    PackOffset(u64)
}
rank! {
    /// Rank in offset order: 0 is the first entry of the `.pack`. Also its bit number in that pack's bitmap.
    PackPos
}
rank! {
    /// Rank in id order, as listed by the `.idx`; 0 is the lowest id.
    IdxPos
}
rank! {
    /// Number of a pack in a multi-pack-index: its rank in the PNAM chunk. In a chain: in its own layer.
    MidxPack
}
rank! {
    /// Rank in id order over all packs of a multi-pack-index, as listed by its OIDL chunk.
    MidxPos
}
rank! {
    /// Rank in the pseudo-pack order of a multi-pack-index: the preferred pack, then the others by their number in the
    /// multi-pack-index, each in offset order. Also the bit number in its bitmap.
    PseudoPos
}
