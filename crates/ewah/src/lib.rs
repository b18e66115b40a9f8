//! EWAH compressed bitmaps as git stores them: codec, run iterators, streamed set operations, conversion to and from roaring.
