//! Inputs that once were a problem, and seeds, through the bodies of the fuzz targets; and seeds with bytes changed.

use testkit::io::Rng;

#[path = "../../fuzz/bodies.rs"]
mod bodies;

fn each(target: &str, mut body: impl FnMut(&[u8])) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions").join(target);
    let mut seen = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        body(&std::fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen > 0, "no inputs in {}", dir.display());
}

/// Some inputs that are near this one.
fn nearby(data: &[u8], seed: u64, count: usize, body: &mut dyn FnMut(&[u8])) {
    let mut rng = Rng::new(seed);
    for _ in 0..count {
        let mut data = data.to_vec();
        for _ in 0..=rng.below(2) {
            let at = rng.below(data.len() as u64) as usize;
            match rng.below(4) {
                0 => data[at] ^= 1 << rng.below(8),
                1 => data[at] = [0, 0xff, 0x7f, 0x80][rng.below(4) as usize],
                2 => drop(data.remove(at)),
                _ => data.insert(at, rng.below(256) as u8),
            }
        }
        body(&data);
    }
}

#[test]
fn receive_stream() {
    let mut seed = 0;
    each("receive_stream", |data| {
        bodies::receive_stream(data);
        seed += 1;
        nearby(data, seed, 40, &mut bodies::receive_stream);
    });
}

#[test]
fn apply_delta() {
    let mut seed = 0;
    each("apply_delta", |data| {
        bodies::apply_delta(data);
        seed += 1;
        nearby(data, seed, 20, &mut bodies::apply_delta);
    });
}

#[test]
fn diff_git() {
    each("diff_git", bodies::diff_git);
}

/// By hand, for as long as one likes: `PACKSTONE_FUZZ=rounds cargo test -p packstone-index-pack by_hand -- --ignored`.
#[test]
#[ignore = "long"]
fn by_hand() {
    let rounds = std::env::var("PACKSTONE_FUZZ").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1000);
    each("receive_stream", |data| {
        nearby(data, rounds as u64, rounds, &mut bodies::receive_stream);
        nearby(data, rounds as u64 + 1, rounds / 20, &mut bodies::diff_git);
    });
    each("apply_delta", |data| nearby(data, rounds as u64, rounds, &mut bodies::apply_delta));
}
