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
fn parse_ewah() {
    each("parse_ewah", bodies::parse_ewah);
}

#[test]
fn ops_ewah() {
    each("ops_ewah", bodies::ops_ewah);
}
