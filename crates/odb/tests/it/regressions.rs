//! Inputs that once were a problem, and seeds, through the bodies of the fuzz targets.

#[path = "../../fuzz/bodies.rs"]
mod bodies;

fn each(target: &str, body: fn(&[u8])) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions").join(target);
    let mut seen = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        body(&std::fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen > 0, "no inputs in {}", dir.display());
}

#[test]
fn parse_loose() {
    each("parse_loose", bodies::parse_loose);
}

#[test]
fn read_pack() {
    each("read_pack", bodies::read_pack);
}
