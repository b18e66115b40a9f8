//! Repository builders, naive models, failing readers and writers for packstone's tests.
