//! Inputs that once were a problem, and seeds, through the body of the fuzz target.

#[path = "../../fuzz/bodies.rs"]
mod bodies;

#[test]
fn parse_bitmap() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions/parse_bitmap");
    let mut seen = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        bodies::parse_bitmap(&std::fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen > 0, "no inputs in {}", dir.display());
}
