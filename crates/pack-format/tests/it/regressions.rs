//! Runs the fuzzers' bodies over what they once choked on, and over the seeds.

use std::{fs, path::Path};

// Public items, for the fuzz targets.
#[allow(unreachable_pub)]
#[path = "../../fuzz/bodies.rs"]
pub(crate) mod bodies;

#[test]
fn inputs_that_were_found() {
    for (name, body) in bodies::ALL {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions").join(name);
        let mut run = 0;
        for file in fs::read_dir(&dir).unwrap() {
            body(&fs::read(file.unwrap().path()).unwrap());
            run += 1;
        }
        assert!(run > 0, "{name} has seeds");
    }
}
