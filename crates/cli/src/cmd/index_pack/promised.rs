//! `--promisor`: what a promised pack refers to, and only this repository has, goes into a promised pack as well.
//!
//! A promised pack may refer to what is missing, since the remote has it all. So a walk that leaves promised objects out
//! stops there, and would take local objects behind it for unreachable.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use index_pack::{Inspect, Object, Received, Refusal, Strict};
use object::tag::Tag;
use object::tree::Entries;
use object::{HashKind, ObjectId, ObjectKind, commit};

use crate::cmd::pack_objects;
use crate::report::{Failure, plain_io};
use crate::setup::Repository;

/// Notes what a pack refers to, and shows its objects to who checks them.
pub(crate) struct Promised {
    hash: HashKind,
    checks: Option<Arc<Strict>>,
    links: Mutex<HashSet<ObjectId>>,
}

impl Promised {
    pub(crate) fn new(hash: HashKind, checks: Option<Arc<Strict>>) -> Promised {
        Promised { hash, checks, links: Mutex::default() }
    }

    fn links(&self) -> MutexGuard<'_, HashSet<ObjectId>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packs those objects that the repository has and that were not promised before. What is reached from them goes along.
    pub(crate) fn pack(&self, repo: &Repository) -> Result<(), Failure> {
        // Opened anew: the pack that was received is one of its packs now.
        let store = repo.open_store()?;
        let wants: Vec<ObjectId> = {
            let mut found: Vec<ObjectId> =
                self.links().drain().filter(|id| store.contains(id).unwrap_or(false)).collect();
            found.sort_unstable();
            found
        };
        if wants.is_empty() {
            return Ok(());
        }
        let base = repo.objects_dir.join("pack/pack");
        let words: Vec<OsString> = vec![
            "-q".into(),
            "--non-empty".into(),
            "--delta-base-offset".into(),
            "--exclude-promisor-objects-best-effort".into(),
            base.clone().into_os_string(),
        ];
        let Some(checksum) = pack_objects::pack_reachable(repo, &store, &words, wants)? else { return Ok(()) };
        let mut mark = base.into_os_string();
        mark.push(format!("-{checksum}.promisor"));
        match std::fs::File::create(&mark) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // it was empty, and is not there
            Err(error) => {
                Err(Failure::Fatal(format!("cannot create '{}': {}", mark.to_string_lossy(), plain_io(&error))))
            }
        }
    }
}

impl Inspect for Promised {
    fn object(&self, object: Object<'_>) -> Result<(), Refusal> {
        if let Some(checks) = &self.checks {
            checks.object(object)?;
        }
        let content = object.content.unwrap_or_default();
        let mut found = Vec::new();
        match object.kind {
            ObjectKind::Blob => {}
            ObjectKind::Commit => {
                let (tree, _) = commit::links(content, self.hash, &mut found)?;
                found.push(tree);
            }
            ObjectKind::Tag => found.push(Tag::parse(content, self.hash)?.target()),
            ObjectKind::Tree => {
                for entry in Entries::new(content, self.hash) {
                    let entry = entry?;
                    if entry.mode.object_kind().is_some_and(|kind| kind != ObjectKind::Commit) {
                        found.push(entry.id);
                    }
                }
            }
        }
        self.links().extend(found);
        Ok(())
    }

    fn again(&self, pack: &Received<'_>) -> Result<Vec<ObjectId>, Refusal> {
        match &self.checks {
            Some(checks) => checks.again(pack),
            None => Ok(Vec::new()),
        }
    }

    fn object_again(&self, object: Object<'_>) -> Result<(), Refusal> {
        match &self.checks {
            Some(checks) => checks.object_again(object),
            None => Ok(()),
        }
    }

    fn finish(&self, pack: &Received<'_>) -> Result<(), Refusal> {
        self.links().retain(|id| !pack.contains(id));
        match &self.checks {
            Some(checks) => checks.finish(pack),
            None => Ok(()),
        }
    }
}
