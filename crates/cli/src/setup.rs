//! What the words and variables mean: which repository, its format, its configuration, its object store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hashfile::Shared;
use hashfile::publish::{self, Fsync};
use object::HashKind;
use revwalk::Shallow;

use crate::config::{Conditions, Config, Scope};
use crate::env::{Environment, bytes_to_path, normal, os_bytes};
use crate::ownership;
use crate::report::{self, Failure, chain, plain_io};

/// How references are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefFormat {
    /// Loose files and `packed-refs`.
    Files,
    /// Tables, which we cannot read yet.
    Reftable,
}

/// A repository, found and understood; nothing of its objects is open yet.
#[derive(Debug)]
pub(crate) struct Repository {
    /// Variables and current directory (the root of the work tree, if there is one around us).
    pub(crate) env: Environment,
    /// `HEAD`, the index, and what else a work tree has for itself.
    pub(crate) git_dir: PathBuf,
    /// The root of the work tree, if there is one.
    pub(crate) work_tree: Option<PathBuf>,
    /// Where in the work tree the user stands: empty at the root and outside of it, else a path that ends in `/`.
    pub(crate) prefix: Vec<u8>,
    /// References, configuration and objects, shared by all work trees.
    pub(crate) common_dir: PathBuf,
    /// Where objects are.
    pub(crate) objects_dir: PathBuf,
    /// The hash that names objects.
    pub(crate) hash: HashKind,
    /// How references are stored.
    pub(crate) refs: RefFormat,
    /// The remote that promised missing objects (`extensions.partialClone`).
    pub(crate) promisor: Option<String>,
    /// All settings.
    pub(crate) config: Config,
}

impl Repository {
    /// Finds the repository that `env` means, and reads its configuration.
    pub(crate) fn find(mut env: Environment) -> Result<Repository, Failure> {
        let found = locate(&env)?;
        let common_dir = common_dir(&env, &found.git_dir)?;
        let format = Format::read(&env, &common_dir)?;
        format.verify()?;
        let work_tree = work_tree(&env, &found, &format)?;
        let conditions = Conditions {
            git_dir: Some(found.git_dir.clone()),
            work_tree: work_tree.clone(),
            branch: head_branch(&found.git_dir),
        };
        let config = Config::load(&env, Some(&common_dir), Some(&found.git_dir), format.worktree_config, &conditions)?;
        if found.bare_by_discovery {
            refuse_implicit_bare(&config, &found.git_dir)?;
        }
        // git works at the root of the work tree: names of output files count from there.
        let mut prefix = Vec::new();
        if let Some(root) = &work_tree
            && let Ok(below) = env.cwd().strip_prefix(root)
        {
            for part in below.components() {
                prefix.extend_from_slice(&os_bytes(part.as_os_str()));
                prefix.push(b'/');
            }
            env.enter(root);
        }
        let objects_dir = env.path("GIT_OBJECT_DIRECTORY").unwrap_or_else(|| common_dir.join("objects"));
        Ok(Repository {
            git_dir: found.git_dir,
            work_tree,
            prefix,
            common_dir,
            objects_dir,
            hash: format.hash,
            refs: format.refs,
            promisor: format.promisor,
            config,
            env,
        })
    }

    /// The object directories that `GIT_ALTERNATE_OBJECT_DIRECTORIES` adds, absolute.
    pub(crate) fn alternates(&self) -> Vec<PathBuf> {
        let Some(list) = self.env.get("GIT_ALTERNATE_OBJECT_DIRECTORIES") else { return Vec::new() };
        odb::alternates::parse_list(&os_bytes(list)).iter().map(|path| self.env.resolve(path)).collect()
    }

    /// Opens the object store.
    pub(crate) fn open_store(&self) -> Result<odb::Store, Failure> {
        self.open_store_with(Vec::new())
    }

    /// The same, with more alternates.
    pub(crate) fn open_store_with(&self, more: Vec<PathBuf>) -> Result<odb::Store, Failure> {
        let mut options = odb::Options::new(self.hash).alternates([self.alternates(), more].concat());
        if let Some(bytes) = self.config.size("core.deltabasecachelimit")? {
            options = options.delta_base_cache(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        if let Some(use_rev_files) = self.config.truth("pack.readreverseindex")? {
            options = options.use_rev_files(use_rev_files);
        }
        if let Some(use_midx) = self.config.truth("core.multipackindex")? {
            options = options.use_midx(use_midx);
        }
        odb::Store::open(&self.objects_dir, options).map_err(|error| Failure::Fatal(chain(&error)))
    }

    /// Warns about what of the object store cannot be used; the work goes on with the rest.
    pub(crate) fn warn_of_problems(&self, store: &odb::Store) {
        for problem in store.problems() {
            report::warning(problem);
        }
    }

    /// The commit-graph, unless it is switched off. What is wrong with it is a warning: it only repeats the commits.
    pub(crate) fn commit_graph(&self, store: &odb::Store) -> Result<Option<revwalk::CommitGraph>, Failure> {
        if !self.config.truth("core.commitgraph")?.unwrap_or(true) {
            return Ok(None);
        }
        let sources = store.sources();
        let dirs: Vec<&Path> = sources.iter().map(|source| source.path()).collect();
        let (graph, problems) = revwalk::CommitGraph::open(&dirs, self.hash);
        for problem in problems {
            report::warning(problem);
        }
        Ok(graph)
    }

    /// The root of the work tree, for commands that cannot do without.
    pub(crate) fn need_work_tree(&self) -> Result<&Path, Failure> {
        self.work_tree.as_deref().ok_or_else(|| Failure::fatal("this operation must be run in a work tree"))
    }

    /// How packs and what belongs to them are written: permissions and durability as configured.
    pub(crate) fn publish_options(&self) -> Result<publish::Options, Failure> {
        self.publish_options_of(Part::Packs)
    }

    /// How files of this part of the repository are written: permissions and durability as configured.
    pub(crate) fn publish_options_of(&self, part: Part) -> Result<publish::Options, Failure> {
        let shared = match self.config.last("core.sharedrepository") {
            None => Shared::Umask,
            Some(entry) => match &entry.value {
                None => Shared::Group,
                Some(value) => {
                    String::from_utf8_lossy(value).parse().map_err(|error| Failure::Fatal(format!("{error}")))?
                }
            },
        };
        let synced = match self.config.text("core.fsync")? {
            Some(list) => part.is_synced(&String::from_utf8_lossy(list)),
            None => part == Part::Packs,
        };
        let old = self.config.truth("core.fsyncobjectfiles")?.unwrap_or(false);
        let synced = synced || (part == Part::LooseObjects && old);
        // git's test suite turns syncing off by this variable.
        let synced = synced && self.env.truth("GIT_TEST_FSYNC", true)?;
        let fsync = match self.config.text("core.fsyncmethod")? {
            _ if !synced => Fsync::None,
            Some(b"writeout-only") => Fsync::WriteoutOnly,
            _ => Fsync::Full,
        };
        Ok(publish::Options::default().shared(shared).fsync(fsync))
    }

    /// Where this repository's history is cut: the shallow file, and the old grafts unless `true_parents`.
    pub(crate) fn shallow(&self, true_parents: bool) -> Result<Shallow, Failure> {
        let path = match self.env.get("GIT_SHALLOW_FILE") {
            // An empty name says: as if there were no such file.
            Some(name) if name.is_empty() => None,
            Some(name) => Some(self.env.resolve(Path::new(name))),
            None => Some(self.common_dir.join("shallow")),
        };
        let mut shallow = Shallow::none();
        if let Some(path) = path
            && let Some(bytes) = read_if_there(&path)?
        {
            shallow = Shallow::parse(&bytes, self.hash)
                .map_err(|error| Failure::Fatal(format!("{} in {}", chain(&error), self.env.shown(&path).display())))?;
        }
        if !true_parents {
            let path = match self.env.path("GIT_GRAFT_FILE") {
                Some(path) => path,
                None => self.common_dir.join("info/grafts"),
            };
            if let Some(bytes) = read_if_there(&path)? {
                for line in shallow.parse_grafts(&bytes, self.hash) {
                    report::say(&format!("error: bad graft data in line {line} of {}\n", path.display()));
                }
            }
        }
        Ok(shallow)
    }
}

/// What `core.fsync` tells apart, as far as it is written here (git-config, `core.fsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Packs, and what belongs to them.
    Packs,
    /// Objects in files of their own.
    LooseObjects,
    /// The index.
    Index,
}

impl Part {
    /// Whether a list as `core.fsync` takes it names this part: parts and groups of parts, `-` for "not", `none` to start
    /// from nothing. The beginning of a name will do.
    fn is_synced(self, list: &str) -> bool {
        let names: &[&str] = match self {
            Part::Packs => &["pack", "objects", "committed", "added", "all"],
            Part::LooseObjects => &["loose-object", "objects", "committed", "added", "all"],
            Part::Index => &["index", "added", "all"],
        };
        let (mut base, mut named, mut denied) = (self == Part::Packs, false, false);
        for word in list.split([',', ' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()) {
            let (name, negated) = match word.strip_prefix('-') {
                Some(name) => (name, true),
                None => (word, false),
            };
            if name == "none" {
                base = false;
            } else if !name.is_empty() && names.iter().any(|part| part.starts_with(name)) {
                *(if negated { &mut denied } else { &mut named }) = true;
            }
        }
        (base && !denied) || named
    }
}

/// The git directory, and how it came to be that.
struct Found {
    git_dir: PathBuf,
    /// The directory that holds `.git`, when it was found by looking around.
    around: Option<PathBuf>,
    /// Found by looking around, with no `.git` of its own.
    bare_by_discovery: bool,
}

/// `GIT_DIR`, or the first repository at or above the current directory.
fn locate(env: &Environment) -> Result<Found, Failure> {
    if let Some(given) = env.get("GIT_DIR") {
        let path = env.resolve(Path::new(given));
        let not_a_repository = || Failure::Fatal(format!("not a git repository: '{}'", given.to_string_lossy()));
        let git_dir = if path.is_dir() { path } else { gitfile(env, &path)?.ok_or_else(not_a_repository)? };
        if !is_git_directory(env, &git_dir) {
            return Err(not_a_repository());
        }
        return Ok(Found { git_dir, around: None, bare_by_discovery: false });
    }
    let ceilings = ceilings(env);
    let device = device(env.cwd());
    let mut dir = env.cwd();
    loop {
        let dot_git = dir.join(".git");
        let around = Some(dir.to_owned());
        if let Some(git_dir) = gitfile(env, &dot_git)? {
            ownership::check(env, dir, &[&dot_git, dir, &git_dir])?;
            return Ok(Found { git_dir, around, bare_by_discovery: false });
        }
        if is_git_directory(env, &dot_git) {
            ownership::check(env, dir, &[dir, &dot_git])?;
            return Ok(Found { git_dir: dot_git, around, bare_by_discovery: false });
        }
        if is_git_directory(env, dir) {
            ownership::check(env, dir, &[dir])?;
            return Ok(Found { git_dir: dir.to_owned(), around: None, bare_by_discovery: true });
        }
        let Some(parent) = dir.parent().filter(|_| !ceilings.iter().any(|ceiling| ceiling == dir)) else {
            return Err(Failure::fatal("not a git repository (or any of the parent directories): .git"));
        };
        if ceilings.iter().any(|ceiling| ceiling == parent) {
            return Err(Failure::fatal("not a git repository (or any of the parent directories): .git"));
        }
        if self::device(parent) != device && !env.truth("GIT_DISCOVERY_ACROSS_FILESYSTEM", false)? {
            return Err(Failure::Fatal(format!(
                "not a git repository (or any parent up to mount point {})\nStopping at filesystem boundary \
                 (GIT_DISCOVERY_ACROSS_FILESYSTEM not set).",
                dir.display()
            )));
        }
        dir = parent;
    }
}

/// The directories that discovery must not look into (`GIT_CEILING_DIRECTORIES`).
fn ceilings(env: &Environment) -> Vec<PathBuf> {
    let Some(list) = env.get("GIT_CEILING_DIRECTORIES") else { return Vec::new() };
    let mut resolve_links = true;
    let mut out = Vec::new();
    for path in std::env::split_paths(list) {
        if path.as_os_str().is_empty() {
            // An empty entry says that the ones behind it hold no symbolic links.
            resolve_links = false;
        } else if path.is_absolute() {
            let real = if resolve_links { path.canonicalize().unwrap_or(path) } else { normal(&path) };
            out.push(real);
        }
    }
    out
}

/// What tells one file system from another.
fn device(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).ok().map(|metadata| metadata.dev())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Where a `.git` file points; `None` if `path` is not a file.
fn gitfile(env: &Environment, path: &Path) -> Result<Option<PathBuf>, Failure> {
    let shown = || env.shown(path).display().to_string();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            if metadata.len() > 1 << 20 {
                return Err(Failure::Fatal(format!("too large to be a .git file: '{}'", shown())));
            }
        }
        _ => return Ok(None),
    }
    let text =
        fs::read(path).map_err(|error| Failure::Fatal(format!("error opening '{}': {}", shown(), plain_io(&error))))?;
    let Some(target) = text.strip_prefix(b"gitdir: ") else {
        return Err(Failure::Fatal(format!("invalid gitfile format: {}", shown())));
    };
    let end = target.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    let target = &target[..end];
    if target.is_empty() {
        return Err(Failure::Fatal(format!("no path in gitfile: {}", shown())));
    }
    let dir = path.parent().unwrap_or(Path::new(".")).join(bytes_to_path(target));
    if !is_git_directory(env, &dir) {
        return Err(Failure::Fatal(format!("not a git repository: {}", String::from_utf8_lossy(target))));
    }
    Ok(Some(dir.canonicalize().unwrap_or(dir)))
}

/// Whether `dir` looks like a git directory: a well-formed `HEAD`, objects and references.
fn is_git_directory(env: &Environment, dir: &Path) -> bool {
    if !has_head(&dir.join("HEAD")) {
        return false;
    }
    let Ok(common) = common_dir(env, dir) else { return false };
    let objects = env.path("GIT_OBJECT_DIRECTORY").unwrap_or_else(|| common.join("objects"));
    objects.exists() && common.join("refs").exists()
}

fn has_head(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    if metadata.is_symlink() {
        return fs::read_link(path).is_ok_and(|target| os_bytes(target.as_os_str()).starts_with(b"refs/"));
    }
    let Ok(text) = fs::read(path) else { return false };
    if let Some(target) = text.strip_prefix(b"ref:") {
        return target.trim_ascii_start().starts_with(b"refs/");
    }
    HashKind::ALL.iter().any(|hash| text.get(..hash.hex_len()).is_some_and(|id| id.iter().all(u8::is_ascii_hexdigit)))
}

/// The directory a work tree shares with the others: `GIT_COMMON_DIR`, or the file `commondir`, or the git directory.
fn common_dir(env: &Environment, git_dir: &Path) -> Result<PathBuf, Failure> {
    if let Some(dir) = env.path("GIT_COMMON_DIR") {
        return Ok(dir);
    }
    let Some(text) = read_if_there(&git_dir.join("commondir"))? else { return Ok(git_dir.to_owned()) };
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    let dir = git_dir.join(bytes_to_path(&text[..end]));
    Ok(dir.canonicalize().unwrap_or(dir))
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Failure::Fatal(format!("could not open '{}': {}", path.display(), plain_io(&error)))),
    }
}

/// The branch that `HEAD` names, for conditional includes.
fn head_branch(git_dir: &Path) -> Option<Vec<u8>> {
    let path = git_dir.join("HEAD");
    let text = match fs::read_link(&path) {
        Ok(target) => os_bytes(target.as_os_str()).into_owned(),
        Err(_) => fs::read(path).ok()?.strip_prefix(b"ref:")?.trim_ascii().to_vec(),
    };
    Some(text.strip_prefix(b"refs/heads/")?.to_vec())
}

/// `safe.bareRepository=explicit` forbids to use a bare repository that was only stumbled upon.
fn refuse_implicit_bare(config: &Config, git_dir: &Path) -> Result<(), Failure> {
    let setting = config
        .all("safe.barerepository")
        .filter(|entry| matches!(entry.scope, Scope::System | Scope::Global | Scope::Command));
    match setting.last().map(|entry| entry.text()).transpose()? {
        Some(b"explicit") => Err(Failure::Fatal(format!(
            "cannot use bare repository '{}' (safe.bareRepository is 'explicit')",
            git_dir.display()
        ))),
        _ => Ok(()),
    }
}

/// The root of the work tree, if there is one.
fn work_tree(env: &Environment, found: &Found, format: &Format) -> Result<Option<PathBuf>, Failure> {
    let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
    if let Some(path) = env.path("GIT_WORK_TREE") {
        return Ok(Some(real(path)));
    }
    if let Some(path) = &format.work_tree {
        return Ok(Some(real(found.git_dir.join(path))));
    }
    if format.bare || !env.truth("GIT_IMPLICIT_WORK_TREE", true)? {
        return Ok(None);
    }
    Ok(match &found.around {
        Some(dir) => Some(dir.clone()),
        // With GIT_DIR alone, the current directory counts as the root.
        None if !found.bare_by_discovery => Some(env.cwd().to_owned()),
        None => None,
    })
}

/// What a repository's own file says about its format (gitrepository-layout, "repository format").
#[derive(Debug)]
struct Format {
    version: i32,
    bare: bool,
    work_tree: Option<PathBuf>,
    hash: HashKind,
    refs: RefFormat,
    promisor: Option<String>,
    worktree_config: bool,
    /// Extensions that only a version 1 repository may have, as found.
    v1_only: Vec<String>,
    unknown: Vec<String>,
}

impl Format {
    fn read(env: &Environment, common_dir: &Path) -> Result<Format, Failure> {
        let config = Config::one_file(env, &common_dir.join("config"))?;
        let mut format = Format {
            version: config.int("core.repositoryformatversion")?.unwrap_or(0),
            bare: config.truth("core.bare")?.unwrap_or(false),
            work_tree: config.text("core.worktree")?.map(bytes_to_path),
            hash: HashKind::Sha1,
            refs: RefFormat::Files,
            promisor: None,
            worktree_config: false,
            v1_only: Vec::new(),
            unknown: Vec::new(),
        };
        for entry in config.entries() {
            let Some(name) = entry.key.strip_prefix(b"extensions.") else { continue };
            let name = String::from_utf8_lossy(name).into_owned();
            let text = || entry.text().map(String::from_utf8_lossy);
            let invalid = |key: &str, value: &str| Failure::Fatal(format!("invalid value for '{key}': '{value}'"));
            match name.as_str() {
                "noop" => {}
                "preciousobjects" => {
                    entry.truth()?;
                }
                "partialclone" => format.promisor = Some(text()?.into_owned()),
                "worktreeconfig" => format.worktree_config = entry.truth()?,
                "noop-v1" | "relativeworktrees" | "submodulepathconfig" => format.v1_only.push(name),
                "objectformat" => {
                    let value = text()?;
                    format.hash =
                        HashKind::from_name(&value).ok_or_else(|| invalid("extensions.objectformat", &value))?;
                    format.v1_only.push(name);
                }
                // Ids of the other hash are only a help for translation: ours are those of `objectformat`.
                "compatobjectformat" => {
                    let value = text()?;
                    HashKind::from_name(&value).ok_or_else(|| invalid("extensions.compatobjectformat", &value))?;
                    format.v1_only.push(name);
                }
                "refstorage" => {
                    let value = text()?;
                    format.refs = match value.split(':').next() {
                        Some("files") => RefFormat::Files,
                        Some("reftable") => RefFormat::Reftable,
                        _ => return Err(invalid("extensions.refstorage", &value)),
                    };
                    format.v1_only.push(name);
                }
                _ => format.unknown.push(name),
            }
        }
        Ok(format)
    }

    fn verify(&self) -> Result<(), Failure> {
        let list = |one: &str, many: &str, names: &[String]| {
            let mut text = if names.len() == 1 { one.to_owned() } else { many.to_owned() };
            for name in names {
                text.push_str("\n\t");
                text.push_str(name);
            }
            Err(Failure::Fatal(text))
        };
        if self.version > 1 {
            return Err(Failure::Fatal(format!("Expected git repo version <= 1, found {}", self.version)));
        }
        if self.version == 1 && !self.unknown.is_empty() {
            return list("unknown repository extension found:", "unknown repository extensions found:", &self.unknown);
        }
        if self.version == 0 && !self.v1_only.is_empty() {
            return list(
                "repo version is 0, but v1-only extension found:",
                "repo version is 0, but v1-only extensions found:",
                &self.v1_only,
            );
        }
        Ok(())
    }
}
