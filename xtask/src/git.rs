//! Git, cut off from the machine's configuration, and questions that several commands ask it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sh::{Sh, quiet_feed, quiet_read};
use crate::{Context as _, Result, fail};

/// The hash function of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha1,
    Sha256,
}

impl Hash {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Hash::Sha1 => "sha1",
            Hash::Sha256 => "sha256",
        }
    }

    pub(crate) fn hex_len(self) -> usize {
        match self {
            Hash::Sha1 => 40,
            Hash::Sha256 => 64,
        }
    }
}

impl std::str::FromStr for Hash {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Hash, String> {
        [Hash::Sha1, Hash::Sha256]
            .into_iter()
            .find(|hash| hash.name() == name)
            .ok_or_else(|| format!("not a hash function: {name}"))
    }
}

/// A git program with a configuration file and an identity of its own.
#[derive(Clone)]
pub(crate) struct Git {
    program: OsString,
    home: PathBuf,
}

impl Git {
    /// Uses `program`; writes its configuration into `home`, which must exist (in a dry run nothing is written).
    /// `hook` is what upload-pack then runs in place of `git pack-objects`: that setting is honoured only from
    /// configuration that a repository cannot bring along, so it stands here.
    pub(crate) fn new(sh: Sh, program: &OsStr, home: &Path, hook: Option<&str>) -> Result<Git> {
        let git = Git { program: program.to_owned(), home: home.to_owned() };
        if !sh.dry_run {
            std::fs::write(git.config(), config(hook)).context(|| format!("write {}", git.config().display()))?;
        }
        Ok(git)
    }

    fn config(&self) -> PathBuf {
        self.home.join("gitconfig")
    }

    /// The program's name or path.
    pub(crate) fn program(&self) -> &OsStr {
        &self.program
    }

    /// `git`, to be given arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        self.isolate(&mut command);
        command
    }

    /// `git -C dir`, to be given arguments.
    pub(crate) fn at(&self, dir: &Path) -> Command {
        let mut command = self.command();
        command.arg("-C").arg(dir);
        command
    }

    /// Gives any command git's isolated environment.
    pub(crate) fn isolate(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"GIT_") {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home)
            .env("GIT_CONFIG_GLOBAL", self.config())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("GIT_AUTHOR_NAME", "A U Thor")
            .env("GIT_AUTHOR_EMAIL", "author@example.com")
            .env("GIT_AUTHOR_DATE", "1700000000 +0000")
            .env("GIT_COMMITTER_NAME", "C O Mitter")
            .env("GIT_COMMITTER_EMAIL", "committer@example.com")
            .env("GIT_COMMITTER_DATE", "1700000000 +0000");
    }

    /// `git --version`, as `2.47.3`.
    pub(crate) fn version(&self) -> Result<String> {
        let line = quiet_read(self.command().arg("--version"))?;
        Ok(line.trim().trim_start_matches("git version ").to_owned())
    }

    /// The hash function of a repository.
    pub(crate) fn hash_of(&self, repo: &Path) -> Result<Hash> {
        let name = quiet_read(self.at(repo).args(["rev-parse", "--show-object-format"]))?;
        Ok(name.trim().parse()?)
    }

    /// Copies a repository's objects and every ref into a new bare repository of its own, which borrows from nobody.
    /// The original is only read. Files are linked where the file system allows, which is safe because git never
    /// changes an object file.
    pub(crate) fn copy_bare(&self, sh: Sh, from: &Path, to: &Path) -> Result<()> {
        sh.run(self.command().args(["clone", "--quiet", "--mirror"]).arg(from).arg(to))?;
        if sh.dry_run {
            return Ok(());
        }
        let objects = to.join("objects");
        let pack = objects.join("pack");
        let kept = files_in(&pack)?.into_iter().filter(|path| path.extension() == Some(OsStr::new("keep")));
        for file in kept.chain([objects.join("info/commit-graph")]) {
            remove_if_there(&file)?;
        }
        let graphs = objects.join("info/commit-graphs");
        if graphs.exists() {
            std::fs::remove_dir_all(&graphs).context(|| format!("remove {}", graphs.display()))?;
        }
        if objects.join("info/alternates").exists() {
            sh.run(self.at(to).args(["repack", "-a", "-d", "--quiet"]))?;
            remove_if_there(&objects.join("info/alternates"))?;
        }
        Ok(())
    }

    /// Packs everything reachable into one pack with a bitmap.
    pub(crate) fn repack_bitmapped(&self, sh: Sh, repo: &Path) -> Result<()> {
        sh.run(self.at(repo).args(["repack", "-a", "-d", "-b", "--quiet"]))
    }

    /// Ids of all refs, as they are (tags not peeled), without repetitions: what a full clone wants.
    pub(crate) fn ref_ids(&self, repo: &Path, patterns: &[&str]) -> Result<Vec<String>> {
        let mut command = self.at(repo);
        command.args(["for-each-ref", "--format=%(objectname)"]).args(patterns);
        let listing = quiet_read(&mut command)?;
        let mut seen = BTreeSet::new();
        Ok(listing.lines().filter(|id| seen.insert(*id)).map(str::to_owned).collect())
    }

    /// The id of a revision.
    pub(crate) fn rev_parse(&self, repo: &Path, revision: &str) -> Result<String> {
        let id = quiet_read(self.at(repo).args(["rev-parse", "--verify", "--quiet", revision]))?;
        Ok(id.trim().to_owned())
    }

    /// Commits on HEAD's first-parent chain.
    pub(crate) fn first_parents(&self, repo: &Path) -> Result<u64> {
        let count = quiet_read(self.at(repo).args(["rev-list", "--count", "--first-parent", "HEAD"]))?;
        count.trim().parse().context(|| "count of commits".to_owned())
    }

    /// Ids of every object that a repository holds by itself, loose and packed, sorted.
    pub(crate) fn all_ids(&self, repo: &Path) -> Result<Vec<String>> {
        let args = ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)"];
        let listing = quiet_read(self.at(repo).args(args))?;
        let mut ids: Vec<String> = listing.lines().map(str::to_owned).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Checks a pack with `git index-pack --strict` and returns the ids of the objects it carries, sorted, without
    /// those that complete a thin pack. `beside` is where a scratch repository is made; `borrow` is a repository whose
    /// objects count as present (a thin pack's bases, what a partial clone leaves out).
    pub(crate) fn ids_of_pack(
        &self,
        pack: &Path,
        hash: Hash,
        beside: &Path,
        borrow: Option<&Path>,
    ) -> Result<Vec<String>> {
        let scratch = self.scratch(hash, beside)?;
        if let Some(lender) = borrow {
            let objects = std::path::absolute(lender.join("objects")).context(|| "absolute path".to_owned())?;
            let alternates = scratch.join("objects/info/alternates");
            std::fs::write(&alternates, format!("{}\n", objects.display()))
                .context(|| format!("write {}", alternates.display()))?;
        }
        let carried = pack_count(pack)?;
        let mut command = self.at(&scratch);
        command.args(["index-pack", "--strict", "--stdin"]);
        if borrow.is_some() {
            command.arg("--fix-thin");
        }
        let stdin = std::fs::File::open(pack).context(|| format!("open {}", pack.display()))?;
        let output = command.stdin(stdin).output().context(|| "start git index-pack".to_owned())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return fail(format!("git index-pack refuses {}: {}", pack.display(), said.trim_end()));
        }
        let idx = files_in(&scratch.join("objects/pack"))?
            .into_iter()
            .find(|path| path.extension() == Some(OsStr::new("idx")));
        let ids = match idx {
            Some(idx) => self.ids_of_idx(&idx, hash, carried)?,
            None if carried == 0 => Vec::new(),
            None => {
                return fail(format!("git index-pack made no index of {}", pack.display()));
            }
        };
        std::fs::remove_dir_all(&scratch).context(|| format!("remove {}", scratch.display()))?;
        Ok(ids)
    }

    /// Checks a pack on disk with `git index-pack --strict`, and that the `.idx` (and the `.rev`, when there is one)
    /// beside it equals the one that git then writes, byte for byte. Returns the ids of its objects, sorted.
    pub(crate) fn ids_of_disk_pack(&self, pack: &Path, hash: Hash, beside: &Path) -> Result<Vec<String>> {
        let scratch = self.scratch(hash, beside)?;
        let idx = scratch.join("own.idx");
        quiet_read(self.at(&scratch).args(["index-pack", "--strict", "--rev-index", "-o"]).arg(&idx).arg(pack))?;
        for ending in ["idx", "rev"] {
            let (ours, own) = (pack.with_extension(ending), idx.with_extension(ending));
            if ending == "rev" && !ours.exists() {
                continue;
            }
            let read = |path: &Path| std::fs::read(path).context(|| format!("read {}", path.display()));
            if read(&ours)? != read(&own)? {
                return fail(format!("{} is not what git index-pack makes of its pack", ours.display()));
            }
        }
        let ids = self.ids_of_idx(&idx, hash, usize::MAX)?;
        std::fs::remove_dir_all(&scratch).context(|| format!("remove {}", scratch.display()))?;
        Ok(ids)
    }

    /// An empty bare repository.
    fn scratch(&self, hash: Hash, beside: &Path) -> Result<PathBuf> {
        let scratch = beside.join("scratch.git");
        if scratch.exists() {
            std::fs::remove_dir_all(&scratch).context(|| format!("remove {}", scratch.display()))?;
        }
        let format = format!("--object-format={}", hash.name());
        quiet_read(self.command().args(["init", "--quiet", "--bare", &format]).arg(&scratch))?;
        Ok(scratch)
    }

    /// Ids in an index of those objects that come first in the pack, `carried` of them, sorted.
    pub(crate) fn ids_of_idx(&self, idx: &Path, hash: Hash, carried: usize) -> Result<Vec<String>> {
        let bytes = std::fs::read(idx).context(|| format!("read {}", idx.display()))?;
        let format = format!("--object-format={}", hash.name());
        let listing = quiet_feed(self.command().args(["show-index", &format]), &bytes)?;
        Ok(first_ids(&listing, carried))
    }
}

/// The configuration of an isolated git.
fn config(hook: Option<&str>) -> String {
    let mut config = String::from(
        "[safe]\n\tdirectory = *\n\
         [gc]\n\tauto = 0\n\
         [maintenance]\n\tauto = false\n\
         [init]\n\tdefaultBranch = main\n\
         [advice]\n\tdetachedHead = false\n\
         [protocol \"file\"]\n\tallow = always\n\
         [uploadpack]\n\tallowFilter = true\n",
    );
    if let Some(hook) = hook {
        let escaped = hook.replace('\\', r"\\").replace('"', "\\\"");
        config.push_str(&format!("\tpackObjectsHook = \"{escaped}\"\n"));
    }
    config
}

/// Ids of `git show-index`'s listing of the `carried` first objects in offset order, sorted.
fn first_ids(listing: &str, carried: usize) -> Vec<String> {
    let mut objects: Vec<(u64, &str)> = listing
        .lines()
        .filter_map(|line| {
            let (offset, rest) = line.split_once(' ')?;
            Some((offset.parse().ok()?, rest.split(' ').next()?))
        })
        .collect();
    objects.sort_unstable();
    objects.truncate(carried);
    let mut ids: Vec<String> = objects.into_iter().map(|(_, id)| id.to_owned()).collect();
    ids.sort_unstable();
    ids
}

/// The number of objects that a pack's header claims.
pub(crate) fn pack_count(pack: &Path) -> Result<usize> {
    use std::io::Read as _;
    let mut header = [0; 12];
    std::fs::File::open(pack)
        .and_then(|mut file| file.read_exact(&mut header))
        .context(|| format!("read the header of {}", pack.display()))?;
    match header {
        [b'P', b'A', b'C', b'K', 0, 0, 0, 2, count @ ..] => Ok(u32::from_be_bytes(count) as usize),
        _ => fail(format!("{} is not a pack", pack.display())),
    }
}

/// The files of a folder, sorted by name; none when there is no such folder.
pub(crate) fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return fail(format!("list {}: {error}", folder.display())),
    };
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.context(|| format!("list {}", folder.display()))?.path());
    }
    files.sort();
    Ok(files)
}

fn remove_if_there(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            fail(format!("remove {}: {error}", file.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hook_is_quoted_for_the_configuration() {
        assert!(config(Some(r#"'a b\c' "x""#)).contains(r#"packObjectsHook = "'a b\\c' \"x\"""#));
        assert!(!config(None).contains("packObjectsHook"));
    }

    #[test]
    fn completed_bases_are_not_counted() {
        let listing = "300 cc (00000001)\n12 bb (00000002)\n150 aa (00000003)\n";
        assert_eq!(first_ids(listing, 2), ["aa", "bb"]);
        assert_eq!(first_ids(listing, 3), ["aa", "bb", "cc"]);
    }
}
