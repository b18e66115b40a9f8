//! Names of versions of a folder, each of which begins as the one before it does.
//!
//! Most trees are stored as deltas that change some ids and leave the size alone. Then the header that is hashed first is
//! the same, and so is the content as far as the delta copies the beginning of its base: the hasher of the base, kept at
//! intervals, goes on from there. On git's own repository that saves a quarter of the bytes of trees.
//!
//! Worth it for as long as objects are hashed one after the other.

use object::{CollisionDetected, HashKind, NameHasher, ObjectId, ObjectKind};
use pack_format::delta::{Instruction, Instructions};

/// Content between states that are kept.
const STEP: usize = 1 << 10;

/// Below this, there is nothing to gain.
pub(crate) const LEAST: usize = 2 * STEP;

/// The hasher of an object after each [`STEP`] bytes of its content.
#[derive(Debug, Default)]
pub(crate) struct States(Vec<NameHasher>);

/// How many bytes of its base's beginning the result of a delta begins with, if it has the same size; else 0.
pub(crate) fn shared(delta: &[u8]) -> usize {
    let Ok((header, instructions)) = Instructions::parse(delta) else { return 0 };
    if header.base_size != header.result_size {
        return 0;
    }
    let mut sum = 0;
    for instruction in instructions {
        match instruction {
            Ok(Instruction::Copy { offset, len }) if offset == sum => sum += len,
            _ => break,
        }
    }
    usize::try_from(sum).unwrap_or(0)
}

/// Names an object whose first `shared` bytes are those of an object of the same kind and size, which has those states; with
/// the object's own states, if they are to be kept.
pub(crate) fn name(
    hash: HashKind,
    kind: ObjectKind,
    content: &[u8],
    base: Option<(&States, usize)>,
    keep: bool,
) -> (Result<ObjectId, CollisionDetected>, States) {
    let mut states = Vec::new();
    let known =
        base.and_then(|(states, shared)| states.0.get(..(shared.min(content.len()) / STEP).min(states.0.len())));
    let known = known.unwrap_or_default();
    let mut hasher = match known.last() {
        Some(state) => state.clone(),
        None => NameHasher::new(hash, kind, content.len() as u64),
    };
    let rest = content.get(known.len() * STEP..).unwrap_or_default();
    if keep {
        states.reserve(content.len() / STEP);
        states.extend_from_slice(known);
        for part in rest.chunks(STEP) {
            hasher.update(part);
            if part.len() == STEP {
                states.push(hasher.clone());
            }
        }
    } else {
        hasher.update(rest);
    }
    (hasher.finish(), States(states))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::object_id;

    #[test]
    fn names_are_the_same() {
        for hash in HashKind::ALL {
            let base: Vec<u8> = (0..10_000u32).map(|at| (at * 7 % 251) as u8).collect();
            let (id, states) = name(hash, ObjectKind::Tree, &base, None, true);
            assert_eq!(id, object_id(hash, ObjectKind::Tree, &base));
            assert_eq!(states.0.len(), 9);
            for at in [0, 1, 1023, 1024, 1025, 5000, 9215, 9216, 9999] {
                let mut other = base.clone();
                other[at] ^= 1;
                for keep in [false, true] {
                    let (id, own) = name(hash, ObjectKind::Tree, &other, Some((&states, at)), keep);
                    assert_eq!(id, object_id(hash, ObjectKind::Tree, &other), "{at}");
                    let again = name(hash, ObjectKind::Tree, &other, Some((&own, other.len())), false);
                    assert_eq!(again.0, id);
                }
            }
        }
    }

    #[test]
    fn what_is_shared() {
        // Sizes 100 and 100; copies from the start, one after the other, then an insert.
        assert_eq!(shared(&[100, 100, 0x90, 40, 0x91, 40, 20, 1, 7, 0x91, 61, 39]), 60);
        assert_eq!(shared(&[100, 100, 0x91, 1, 99, 1, 7]), 0); // not the start
        assert_eq!(shared(&[100, 101, 0x90, 100, 1, 7]), 0); // another size
        assert_eq!(shared(&[100, 100]), 0); // no delta
    }
}
