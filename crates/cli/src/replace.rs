//! Objects that stand in for others (git-replace): whoever asks for the one gets the other's content.

use std::collections::HashMap;

use object::ObjectId;

use crate::env::os_bytes;
use crate::refs::Refs;
use crate::report::{self, Failure};
use crate::setup::{RefFormat, Repository};

/// A replacement may be replaced itself, this often, as in git.
const MAX_DEPTH: usize = 5;

/// Which objects are replaced, and by which.
#[derive(Debug, Default)]
pub(crate) struct Replacements(HashMap<ObjectId, ObjectId>);

impl Replacements {
    /// What the references below `refs/replace/` (`GIT_REPLACE_REF_BASE`) say, unless `core.useReplaceRefs` or
    /// `GIT_NO_REPLACE_OBJECTS` switch that off.
    pub(crate) fn read(repo: &Repository) -> Result<Replacements, Failure> {
        let off = repo.env.get("GIT_NO_REPLACE_OBJECTS").is_some()
            || !repo.config.truth("core.usereplacerefs")?.unwrap_or(true)
            // Such references cannot be read, and objects are still to be had by their ids.
            || repo.refs == RefFormat::Reftable;
        if off {
            return Ok(Replacements::default());
        }
        let base = match repo.env.get("GIT_REPLACE_REF_BASE") {
            None => "refs/replace/".to_owned(),
            Some(base) => {
                let base = String::from_utf8_lossy(&os_bytes(base)).into_owned();
                if base.ends_with('/') { base } else { base + "/" }
            }
        };
        let mut map = HashMap::new();
        for found in Refs::open(repo)?.list(&base)? {
            let name = found.name.get(base.len()..).unwrap_or_default();
            match ObjectId::from_hex(name).ok().filter(|id| id.kind() == repo.hash) {
                Some(replaced) => drop(map.insert(replaced, found.id)),
                None => {
                    report::warning(format_args!("bad replace ref name: {}", String::from_utf8_lossy(&found.name)));
                }
            }
        }
        Ok(Replacements(map))
    }

    /// The object whose content `id` has.
    #[inline]
    pub(crate) fn of(&self, id: &ObjectId) -> Result<ObjectId, Failure> {
        if self.0.is_empty() { Ok(*id) } else { self.follow(id) }
    }

    fn follow(&self, id: &ObjectId) -> Result<ObjectId, Failure> {
        let mut at = *id;
        for _ in 0..=MAX_DEPTH {
            match self.0.get(&at) {
                Some(next) => at = *next,
                None => return Ok(at),
            }
        }
        Err(Failure::Fatal(format!("replace depth too high for object {id}")))
    }
}
