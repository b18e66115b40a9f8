//! A naive pack builder and reader.
