//! Damage in what is packed.

