//! Inputs that once broke something, or show a fuzz target its way, run as plain tests.

#[path = "../../fuzz/bodies.rs"]
#[allow(unreachable_pub)] // the fuzz targets are crates of their own
pub(crate) mod bodies;

fn replay(target: &str, body: fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions").join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{}", folder.display());
    for input in inputs {
        eprintln!("{}", input.display());
        body(&std::fs::read(&input).unwrap());
    }
}

#[test]
fn parse_commit_graph() {
    replay("parse_commit_graph", bodies::parse_commit_graph);
}

#[test]
fn parse_filter() {
    replay("parse_filter", bodies::parse_filter);
}
