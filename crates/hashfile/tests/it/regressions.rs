//! Inputs that once failed, and seeds, through the fuzz targets' bodies.

use std::path::Path;

#[test]
fn ops_hashfile() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions/ops_hashfile");
    let mut count = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        crate::bodies::ops_hashfile(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "the seeds are gone");
}
