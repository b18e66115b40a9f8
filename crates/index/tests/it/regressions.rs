//! Inputs that once were a problem, and seeds, through the bodies of the fuzz targets.

#[path = "../../fuzz/bodies.rs"]
pub(crate) mod bodies;

use std::collections::BTreeSet;
use std::path::Path;

/// Name and content of each.
fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions").join(target);
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let inputs: Vec<_> =
        files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect();
    assert!(!inputs.is_empty(), "the inputs are gone");
    inputs
}

#[test]
fn parse_index() {
    inputs("parse_index").iter().for_each(|(_, input)| bodies::parse_index(input));
}

#[test]
fn ops_index() {
    inputs("ops_index").iter().for_each(|(_, input)| bodies::ops_index(input));
}

/// What differs is what is said to differ, and does so still.
#[test]
fn diff_index() {
    let known = bodies::against_git::KNOWN;
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for (name, input) in inputs("diff_index") {
        let found = bodies::against_git::compare(&input);
        // The difference that is expected is in front of the dot.
        let expected = known.iter().find(|known| known.name == name.split('.').next().unwrap());
        if found != expected.map(|known| known.name) && expected.is_none_or(|known| known.everywhere) {
            wrong.push((name, found));
        }
        seen.extend(found);
    }
    assert_eq!(wrong, []);
    for known in known.iter().filter(|known| known.everywhere) {
        assert!(seen.contains(known.name), "no input shows that {}", known.why);
    }
    bodies::diff_index(b"\0\0\0\0\0");
}
