//! git's reachability bitmaps: read them and answer what to send.
