//! Ids as short as they can be while no other object's begins so.

use std::sync::Arc;

use object::{ObjectId, Prefix};
use odb::{Pack, Store};
use pack_format::IdxPos;

use crate::config::Config;
use crate::number;
use crate::report::{Failure, chain};

/// Fewest digits of an abbreviated id.
pub(crate) const MIN_DIGITS: usize = 4;

/// Fewest digits when git is to choose.
const MIN_AUTO: u32 = 7;

/// How short ids are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Length {
    /// Not abbreviated.
    #[default]
    Full,
    /// This many digits, or more where they do not tell objects apart.
    Digits(usize),
    /// As many as will do for a repository of this size.
    Auto,
}

impl Length {
    /// What `core.abbrev` says.
    pub(crate) fn configured(config: &Config) -> Result<Length, Failure> {
        let Some(entry) = config.last("core.abbrev") else { return Ok(Length::Auto) };
        let text = entry.text()?;
        if text.eq_ignore_ascii_case(b"auto") {
            return Ok(Length::Auto);
        }
        if number::bool_word(Some(text)) == Some(false) {
            return Ok(Length::Full);
        }
        let digits = entry.number(|text| number::signed(text, i64::from(i32::MAX)))?;
        match usize::try_from(digits) {
            Ok(digits) if digits >= MIN_DIGITS => Ok(Length::Digits(digits)),
            _ => Err(Failure::Fatal(format!("abbrev length out of range: {digits}"))),
        }
    }
}

/// Shortens ids. Knows all objects that there are.
pub(crate) struct Abbreviator {
    digits: usize,
    packs: Arc<[Arc<Pack>]>,
    /// In order.
    loose: Vec<ObjectId>,
}

impl Abbreviator {
    /// Looks at what the store has.
    pub(crate) fn new(store: &Store, length: Length) -> Result<Abbreviator, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::Fatal(error.to_string());
        let packs = store.packs().map_err(|error| failed(&error))?;
        let mut loose = Vec::new();
        for source in 0..store.sources().len() {
            loose.extend(store.loose_ids(source).map_err(|error| Failure::Fatal(chain(&error)))?);
        }
        let digits = match length {
            Length::Full => usize::MAX,
            Length::Digits(digits) => digits,
            Length::Auto => {
                // As git estimates: loose objects by one directory of 256.
                let sample = loose.iter().filter(|id| id.first_byte() == 0x17).count() as u64;
                let count = packs.iter().map(|pack| u64::from(pack.count())).sum::<u64>() + sample * 256;
                // With n objects, about one pair agrees in log2(n^2) bits.
                let bits = count.checked_ilog2().unwrap_or(0) + 1;
                bits.div_ceil(2).max(MIN_AUTO) as usize
            }
        };
        loose.sort_unstable();
        Ok(Abbreviator { digits, packs, loose })
    }

    /// How many digits of an id tell it from all others.
    pub(crate) fn digits(&self, id: &ObjectId) -> usize {
        let all = id.kind().hex_len();
        let mut digits = self.digits.min(all);
        let mut tell_from = |other: &ObjectId| {
            let common = common_digits(id.as_bytes(), other.as_bytes());
            if common < all && common >= digits {
                digits = common + 1;
            }
        };
        if self.digits >= all {
            return all;
        }
        let at = self.loose.partition_point(|other| other < id);
        let near = at.saturating_sub(1)..(at + 2).min(self.loose.len());
        self.loose.get(near).unwrap_or_default().iter().for_each(&mut tell_from);
        if let Some(prefix) =
            id.to_hex().get(..self.digits).and_then(|hex| Prefix::from_hex(hex.as_bytes(), id.kind()).ok())
        {
            for pack in self.packs.iter() {
                let idx = pack.idx();
                idx.prefix_range(&prefix).for_each(|at| tell_from(&idx.id(IdxPos::new(at))));
            }
        }
        digits
    }
}

fn common_digits(one: &[u8], two: &[u8]) -> usize {
    let bytes = one.iter().zip(two).take_while(|(a, b)| a == b).count();
    match (one.get(bytes), two.get(bytes)) {
        (Some(a), Some(b)) if a >> 4 == b >> 4 => 2 * bytes + 1,
        _ => 2 * bytes,
    }
}
