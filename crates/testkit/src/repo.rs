//! Repositories built by git, isolated from the machine's configuration.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

/// Time of the first commit, in seconds since 1970; each commit and tag is a minute later than the one before.
const EPOCH: u64 = 1_700_000_000;

/// The hash function of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hash {
    /// 20 byte ids.
    Sha1,
    /// 32 byte ids.
    Sha256,
}

impl Hash {
    /// Both, for tests that run once for each.
    pub const ALL: [Hash; 2] = [Hash::Sha1, Hash::Sha256];

    /// Git's name for it: `sha1` or `sha256`.
    pub fn name(self) -> &'static str {
        match self {
            Hash::Sha1 => "sha1",
            Hash::Sha256 => "sha256",
        }
    }

    /// Bytes in an id.
    pub fn len(self) -> usize {
        match self {
            Hash::Sha1 => 20,
            Hash::Sha256 => 32,
        }
    }

    /// Never: ids have bytes. Here because there is a `len`.
    pub fn is_empty(self) -> bool {
        false
    }

    /// Hexadecimal digits in an id.
    pub fn hex_len(self) -> usize {
        2 * self.len()
    }
}

/// One line of `git verify-pack -v`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedObject {
    /// Object id in hexadecimal.
    pub id: String,
    /// `commit`, `tree`, `blob` or `tag`.
    pub kind: String,
    /// Inflated bytes of what is stored: for a delta the delta's own size.
    pub size: u64,
    /// Bytes of the entry in the pack, header included.
    pub packed: u64,
    /// Offset of the entry in the pack.
    pub offset: u64,
    /// Length of its delta chain; 0 for an object stored whole.
    pub depth: u32,
    /// Id of its delta base, in hexadecimal.
    pub base: Option<String>,
}

/// One line of `git show-index`, in the order of the pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedObject {
    /// Object id in hexadecimal.
    pub id: String,
    /// Offset of the entry in the pack.
    pub offset: u64,
    /// CRC-32 of the entry's bytes in the pack; a version 1 index has none.
    pub crc32: Option<u32>,
}

/// A repository in a temporary folder, gone when this is dropped.
#[derive(Debug)]
pub struct TestRepo {
    temp: TempDir,
    root: PathBuf,
    git_dir: PathBuf,
    hash: Hash,
    clock: AtomicU64,
}

impl TestRepo {
    /// An empty repository with a work tree and an unborn branch `main`.
    pub fn init(hash: Hash) -> TestRepo {
        TestRepo::create(hash, false)
    }

    /// An empty bare repository with an unborn branch `main`.
    pub fn bare(hash: Hash) -> TestRepo {
        TestRepo::create(hash, true)
    }

    fn create(hash: Hash, bare: bool) -> TestRepo {
        let temp = TempDir::with_prefix("packstone-test-").expect("create a temporary folder");
        let root = temp.path().join("repo");
        let git_dir = if bare { root.clone() } else { root.join(".git") };
        let repo = TestRepo { temp, root, git_dir, hash, clock: AtomicU64::new(0) };
        let mut command = isolated_git(repo.temp.path());
        command.args(["init", "--quiet", "--initial-branch=main"]);
        command.arg(format!("--object-format={}", hash.name()));
        if bare {
            command.arg("--bare");
        }
        command.arg(&repo.root);
        run(&mut command, b"");
        repo
    }

    /// A linear history of `commits` commits, made by one `fast-import`: each rewrites `file` (a little longer every
    /// time, so that a repack makes a delta chain of it) and adds a file in a folder of its own. Branch `main`, nothing
    /// checked out, bare.
    pub fn linear(hash: Hash, commits: usize) -> TestRepo {
        let repo = TestRepo::bare(hash);
        let mut stream = Stream::new();
        for n in 0..commits {
            stream.commit("refs/heads/main", &format!("commit {n}"), n as u64, &[]);
            stream.file("100644", "file", &growing(n));
            stream.file("100644", &format!("d{}/f{n}", n % 7), format!("file {n}\n").as_bytes());
        }
        repo.fast_import(&stream.bytes);
        repo
    }

    /// A small bare repository that has one of everything: merges with two and three parents, two roots, annotated,
    /// lightweight and nested tags, tags of a tree and of a blob, a growing file, a renamed and a deleted one, an executable, a
    /// symbolic link, a gitlink, an empty blob, a blob that does not compress, nested folders, a commit older than its
    /// parent. About 60 commits, loosely 250 objects; branches `main`, `side`, `other`, `root2`.
    pub fn rich(hash: Hash) -> TestRepo {
        let repo = TestRepo::bare(hash);
        let mut stream = Stream::new();
        for n in 0..40_u64 {
            stream.commit("refs/heads/main", &format!("main {n}"), n * 10, &[]);
            stream.file("100644", "growing", &growing(n as usize));
            stream.file("100644", &format!("src/a{}/b/c{}.txt", n % 3, n % 5), format!("text {n}\n").as_bytes());
            match n {
                0 => {
                    stream.file("100755", "run.sh", b"#!/bin/sh\nexit 0\n");
                    stream.file("120000", "link", b"run.sh");
                    stream.file("100644", "empty", b"");
                    stream.gitlink("module", &"1".repeat(hash.hex_len()));
                }
                5 => stream.file("100644", "noise.bin", &noise(40_000)),
                10 => stream.line("R run.sh bin/run.sh"),
                15 => stream.line("D link"),
                _ => {}
            }
            if n == 20 {
                stream.line("");
                stream.line("reset refs/heads/side");
                stream.line("from refs/heads/main");
                stream.line("");
                stream.line("reset refs/heads/other");
                stream.line("from refs/heads/main");
            }
        }
        for n in 0..6_u64 {
            // The first of these is older than its parent.
            stream.commit("refs/heads/side", &format!("side {n}"), n * 10, &[]);
            stream.file("100644", &format!("side/f{n}"), format!("side {n}\n").as_bytes());
            stream.commit("refs/heads/other", &format!("other {n}"), 300 + n * 10, &[]);
            stream.file("100644", &format!("other/f{n}"), format!("other {n}\n").as_bytes());
        }
        stream.commit("refs/heads/root2", "another root", 350, &[]);
        stream.file("100644", "lonely", b"lonely\n");
        stream.commit("refs/heads/main", "merge side", 400, &["refs/heads/side"]);
        stream.file("100644", "merged", b"one\n");
        stream.commit("refs/heads/main", "octopus", 410, &["refs/heads/other", "refs/heads/root2"]);
        stream.file("100644", "merged", b"two\n");
        stream.commit("refs/heads/side", "side after the merge", 420, &[]);
        stream.file("100644", "side/late", b"late\n");
        stream.commit("refs/heads/main", "tip", 430, &[]);
        stream.file("100644", "merged", b"three\n");
        repo.fast_import(&stream.bytes);
        repo.tick_to(10_000);
        repo.git(["tag", "light", "main~3"]);
        repo.annotated_tag("v1", "main~10");
        repo.annotated_tag("v2", "main");
        repo.annotated_tag("v2-nested", "v2");
        repo.annotated_tag("tree-tag", "main~20^{tree}");
        repo.annotated_tag("blob-tag", "main~20:growing");
        repo
    }

    /// The hash function.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The work tree, or the repository itself when it is bare.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The folder that holds `objects` and `refs`.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// `objects` in [`git_dir`](Self::git_dir).
    pub fn objects_dir(&self) -> PathBuf {
        self.git_dir.join("objects")
    }

    /// A folder beside the repository for whatever a test writes; it goes away with the repository.
    pub fn scratch(&self) -> PathBuf {
        let path = self.temp.path().join("scratch");
        std::fs::create_dir_all(&path).expect("create the scratch folder");
        path
    }

    /// `git` in this repository's isolated environment, to be given arguments: current folder, identity and dates are
    /// set; no configuration outside the repository is read.
    pub fn command(&self) -> Command {
        let mut command = isolated_git(self.temp.path());
        self.dress(&mut command);
        command
    }

    /// Gives any program (ours, say) the environment that [`command`](Self::command) gives git.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        isolate(&mut command, self.temp.path());
        self.dress(&mut command);
        command
    }

    fn dress(&self, command: &mut Command) {
        let date = format!("{} +0000", EPOCH + 60 * self.clock.load(Ordering::Relaxed));
        command.current_dir(&self.root).env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
    }

    /// Runs git and returns its standard output. Panics unless it succeeds.
    pub fn git<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Vec<u8> {
        self.git_with(args, b"")
    }

    /// Runs git with `input` on its standard input and returns its standard output. Panics unless it succeeds.
    pub fn git_with<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>, input: &[u8]) -> Vec<u8> {
        run(self.command().args(args), input).stdout
    }

    /// Runs git and returns its standard output as text without the final newline. Panics unless it succeeds.
    pub fn git_str<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        text(self.git(args)).trim_end_matches('\n').to_owned()
    }

    /// Runs git with `input`, whatever the exit code.
    pub fn try_git<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>, input: &[u8]) -> Output {
        output(self.command().args(args), input)
    }

    /// Runs `git fast-import` over `stream`.
    pub fn fast_import(&self, stream: &[u8]) {
        self.git_with(["fast-import", "--quiet", "--force", "--date-format=raw"], stream);
    }

    /// Lets the clock go forward by one commit.
    pub fn tick(&self) {
        self.clock.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the clock to `minutes` after its start, for histories whose dates run backwards.
    pub fn tick_to(&self, minutes: u64) {
        self.clock.store(minutes, Ordering::Relaxed);
    }

    /// Writes a file of the work tree, creating its folders.
    pub fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.root.join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("create the folder of a file");
        }
        std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    }

    /// Commits the work tree as it is and returns the commit's id.
    pub fn commit(&self, message: &str) -> String {
        self.tick();
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--allow-empty", "-m", message]);
        self.rev_parse("HEAD")
    }

    /// Writes files and commits them; returns the commit's id.
    pub fn commit_files(&self, files: &[(&str, &[u8])], message: &str) -> String {
        for (path, bytes) in files {
            self.write(path, bytes);
        }
        self.commit(message)
    }

    /// Creates a branch at HEAD and switches to it.
    pub fn branch(&self, name: &str) {
        self.git(["checkout", "--quiet", "-b", name]);
    }

    /// Switches to a branch or commit.
    pub fn checkout(&self, revision: &str) {
        self.git(["checkout", "--quiet", revision]);
    }

    /// Merges `others` (several make an octopus) into HEAD, always with a merge commit; returns its id.
    pub fn merge(&self, others: &[&str]) -> String {
        self.tick();
        let mut args = vec!["merge", "--quiet", "--no-ff", "-m", "merge"];
        args.extend(others);
        self.git(args);
        self.rev_parse("HEAD")
    }

    /// Creates a lightweight tag.
    pub fn tag(&self, name: &str, target: &str) {
        self.git(["tag", name, target]);
    }

    /// Creates a tag object for `target`, which may be any object, and returns the tag object's id.
    pub fn annotated_tag(&self, name: &str, target: &str) -> String {
        self.tick();
        self.git(["tag", "-a", "-m", name, name, target]);
        self.rev_parse(&format!("refs/tags/{name}"))
    }

    /// Id of a revision, in hexadecimal.
    pub fn rev_parse(&self, revision: &str) -> String {
        self.git_str(["rev-parse", "--verify", revision])
    }

    /// Writes a loose object of any content, well formed or not, and returns its id.
    pub fn hash_object(&self, kind: &str, bytes: &[u8]) -> String {
        let args = ["hash-object", "-w", "--literally", "-t", kind, "--stdin"];
        text(self.git_with(args, bytes)).trim_end().to_owned()
    }

    /// The content of an object.
    pub fn read(&self, id: &str) -> Vec<u8> {
        let kind = self.kind(id);
        self.git(["cat-file", &kind, id])
    }

    /// The kind of an object.
    pub fn kind(&self, id: &str) -> String {
        self.git_str(["cat-file", "-t", id])
    }

    /// Packs everything reachable into one pack with a bitmap and a `.rev`, and drops what was packed or loose before.
    pub fn repack_with_bitmap(&self) {
        self.git(["repack", "-adb", "--quiet"]);
    }

    /// Packs everything reachable into one pack without a bitmap.
    pub fn repack(&self) {
        self.git(["-c", "repack.writeBitmaps=false", "repack", "-ad", "--quiet"]);
    }

    /// Packs what is loose into one more pack.
    pub fn repack_loose(&self) {
        self.git(["repack", "--quiet"]);
    }

    /// Writes the commit-graph of everything reachable from the refs.
    pub fn write_commit_graph(&self) {
        self.git(["commit-graph", "write", "--reachable"]);
    }

    /// The `.pack` files of the repository, by name.
    pub fn packs(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.objects_dir().join("pack")) else {
            return Vec::new();
        };
        let mut packs: Vec<PathBuf> = entries
            .map(|entry| entry.expect("read the pack folder").path())
            .filter(|path| path.extension() == Some(OsStr::new("pack")))
            .collect();
        packs.sort();
        packs
    }

    /// The only pack of the repository. Panics when there is another number of them.
    pub fn only_pack(&self) -> PathBuf {
        let packs = self.packs();
        assert_eq!(packs.len(), 1, "packs: {packs:?}");
        packs.into_iter().next().expect("one pack")
    }

    /// Ids that `git rev-list --objects` lists for `revisions` (`^x`, `--not`, `--all` and filters included).
    pub fn rev_list_objects(&self, revisions: &[&str]) -> BTreeSet<String> {
        let mut args = vec!["rev-list", "--objects", "--no-object-names"];
        args.extend(revisions);
        lines(&self.git(args))
    }

    /// Ids of every object in the repository and its alternates, reachable or not.
    pub fn all_objects(&self) -> BTreeSet<String> {
        lines(&self.git(["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]))
    }

    /// Ids that `git pack-objects` puts into a pack for these options and this input: the answer ours is compared with.
    /// `options` must leave out `--stdout`; the input is what the program reads (`--revs` and so on are options).
    pub fn pack_objects_ids(&self, options: &[&str], input: &str) -> BTreeSet<String> {
        let pack = self.pack_objects(options, input);
        self.ids_of_stream(&pack)
    }

    /// The bytes of the pack that `git pack-objects --stdout` writes.
    pub fn pack_objects(&self, options: &[&str], input: &str) -> Vec<u8> {
        let mut args = vec!["pack-objects", "--stdout", "--quiet"];
        args.extend(options);
        self.git_with(args, input.as_bytes())
    }

    /// Ids of the objects that a pack stream carries, thin or not. `git index-pack --strict` checks it in a repository
    /// beside this one that borrows this one's objects; the bases it adds to a thin pack are left out.
    pub fn ids_of_stream(&self, pack: &[u8]) -> BTreeSet<String> {
        let carried = pack_count(pack);
        let index = self.index_stream(pack);
        index.into_iter().take(carried).map(|object| object.id).collect()
    }

    /// Indexes a pack stream, thin or not, beside this repository as [`ids_of_stream`](Self::ids_of_stream) does;
    /// returns its objects in the order of the pack, those that completed a thin pack last.
    pub fn index_stream(&self, pack: &[u8]) -> Vec<IndexedObject> {
        let beside = TestRepo::bare(self.hash);
        let info = beside.objects_dir().join("info");
        std::fs::create_dir_all(&info).expect("create objects/info");
        let mut borrowed = self.objects_dir().into_os_string();
        borrowed.push("\n");
        std::fs::write(info.join("alternates"), borrowed.as_encoded_bytes()).expect("write the alternates");
        if pack_count(pack) == 0 {
            // index-pack keeps no empty pack, but checks it.
            beside.git_with(["index-pack", "--stdin"], pack);
            return Vec::new();
        }
        beside.git_with(["index-pack", "--strict", "--stdin", "--fix-thin"], pack);
        beside.show_index(&beside.only_pack())
    }

    /// Objects of a pack as `git show-index` lists its `.idx`, in the order of the pack. `pack` is the `.pack` or the `.idx`.
    pub fn show_index(&self, pack: &Path) -> Vec<IndexedObject> {
        let idx = std::fs::read(pack.with_extension("idx"))
            .unwrap_or_else(|error| panic!("read the index of {}: {error}", pack.display()));
        let format = format!("--object-format={}", self.hash.name());
        let listing = text(self.git_with(["show-index", &format], &idx));
        let mut objects: Vec<IndexedObject> = listing.lines().map(indexed_object).collect();
        objects.sort_by_key(|object| object.offset);
        objects
    }

    /// Ids of the objects in a pack that has an index.
    pub fn ids_of_pack(&self, pack: &Path) -> BTreeSet<String> {
        self.show_index(pack).into_iter().map(|object| object.id).collect()
    }

    /// Objects of a pack as `git verify-pack -v` lists them, in the order of the pack.
    pub fn verify_pack(&self, pack: &Path) -> Vec<PackedObject> {
        let args = [OsStr::new("verify-pack"), OsStr::new("-v"), pack.as_os_str()];
        let listing = text(self.git(args));
        let mut objects: Vec<PackedObject> =
            listing.lines().filter_map(|line| packed_object(line, self.hash.hex_len())).collect();
        objects.sort_by_key(|object| object.offset);
        objects
    }

    /// Checks every object and connection. Panics when `git fsck --full --strict` finds anything.
    pub fn fsck(&self) {
        self.git(["fsck", "--full", "--strict", "--no-dangling", "--no-progress"]);
    }
}

/// `git` without the user's and the system's configuration, hooks and identity; `home` holds nothing.
fn isolated_git(home: &Path) -> Command {
    let mut command = Command::new("git");
    isolate(&mut command, home);
    command
}

fn isolate(command: &mut Command, home: &Path) {
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    let null = if cfg!(windows) { "NUL" } else { "/dev/null" };
    let date = format!("{EPOCH} +0000");
    command
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", null)
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CEILING_DIRECTORIES", home)
        .env("GIT_AUTHOR_NAME", "A U Thor")
        .env("GIT_AUTHOR_EMAIL", "author@example.com")
        .env("GIT_COMMITTER_NAME", "C O Mitter")
        .env("GIT_COMMITTER_EMAIL", "committer@example.com")
        .env("GIT_AUTHOR_DATE", &date)
        .env("GIT_COMMITTER_DATE", &date)
        // No background work that would race with a test, and quick deterministic packing.
        .env("GIT_CONFIG_COUNT", "4")
        .env("GIT_CONFIG_KEY_0", "gc.auto")
        .env("GIT_CONFIG_VALUE_0", "0")
        .env("GIT_CONFIG_KEY_1", "maintenance.auto")
        .env("GIT_CONFIG_VALUE_1", "false")
        .env("GIT_CONFIG_KEY_2", "pack.threads")
        .env("GIT_CONFIG_VALUE_2", "1")
        .env("GIT_CONFIG_KEY_3", "protocol.file.allow")
        .env("GIT_CONFIG_VALUE_3", "always");
}

/// Runs a command with `input` and returns what it wrote, whatever its exit code.
pub fn output(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("a piped standard input");
    std::thread::scope(|scope| {
        // A program that stops reading early closes the pipe; its exit code tells the story.
        scope.spawn(move || stdin.write_all(input).and_then(|()| stdin.flush()).ok());
        child.wait_with_output().unwrap_or_else(|error| panic!("wait for {command:?}: {error}"))
    })
}

/// Runs a command with `input`; panics with what it said unless it succeeds.
pub fn run(command: &mut Command, input: &[u8]) -> Output {
    let output = output(command, input);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout[..output.stdout.len().min(2000)]),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

/// Bytes that deflate cannot shrink, the same on every call.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(len)
    .collect()
}

/// A text of `n + 20` lines of which the last is new with each `n`: versions of it make good deltas.
pub fn growing(n: usize) -> Vec<u8> {
    let mut text = String::new();
    for line in 0..n + 20 {
        writeln!(text, "line {line} of a file that grows, {}", line * line % 977).expect("write to a string");
    }
    text.into_bytes()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("git prints UTF-8 here")
}

fn lines(bytes: &[u8]) -> BTreeSet<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

/// The number of objects that a pack's header claims.
fn pack_count(pack: &[u8]) -> usize {
    assert!(pack.len() >= 12 && &pack[..4] == b"PACK", "not a pack: {} bytes", pack.len());
    u32::from_be_bytes([pack[8], pack[9], pack[10], pack[11]]) as usize
}

/// `<offset> <id>`, followed by ` (<crc>)` for a version 2 index.
fn indexed_object(line: &str) -> IndexedObject {
    let mut words = line.split_ascii_whitespace();
    let mut word = || words.next();
    let offset = word().and_then(|word| word.parse().ok());
    let id = word().map(str::to_owned);
    let crc32 = word().map(|word| {
        let digits = word.trim_matches(['(', ')']);
        u32::from_str_radix(digits, 16).expect("a CRC in hexadecimal")
    });
    match (offset, id) {
        (Some(offset), Some(id)) => IndexedObject { id, offset, crc32 },
        _ => panic!("show-index printed {line:?}"),
    }
}

/// `<id> <kind> <size> <packed> <offset> [<depth> <base>]`; anything else is part of the summary.
fn packed_object(line: &str, hex_len: usize) -> Option<PackedObject> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [id, kind, size, packed, offset, rest @ ..] = words.as_slice() else {
        return None;
    };
    if id.len() != hex_len || !id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let (depth, base) = match rest {
        [] => (0, None),
        [depth, base] => (depth.parse().ok()?, Some((*base).to_owned())),
        _ => return None,
    };
    Some(PackedObject {
        id: (*id).to_owned(),
        kind: (*kind).to_owned(),
        size: size.parse().ok()?,
        packed: packed.parse().ok()?,
        offset: offset.parse().ok()?,
        depth,
        base,
    })
}

/// A `fast-import` stream under construction.
struct Stream {
    bytes: Vec<u8>,
}

impl Stream {
    fn new() -> Stream {
        Stream { bytes: Vec::new() }
    }

    fn line(&mut self, line: &str) {
        self.bytes.extend_from_slice(line.as_bytes());
        self.bytes.push(b'\n');
    }

    fn data(&mut self, bytes: &[u8]) {
        self.line(&format!("data {}", bytes.len()));
        self.bytes.extend_from_slice(bytes);
        self.bytes.push(b'\n');
    }

    /// Opens a commit on `branch` (its first parent is the branch's tip) at `minute`, with more parents.
    fn commit(&mut self, branch: &str, message: &str, minute: u64, merged: &[&str]) {
        let time = EPOCH + 60 * minute;
        self.line(&format!("commit {branch}"));
        self.line(&format!("author A U Thor <author@example.com> {time} +0000"));
        self.line(&format!("committer C O Mitter <committer@example.com> {time} +0000"));
        self.data(message.as_bytes());
        for parent in merged {
            self.line(&format!("merge {parent}"));
        }
    }

    fn file(&mut self, mode: &str, path: &str, bytes: &[u8]) {
        self.line(&format!("M {mode} inline {path}"));
        self.data(bytes);
    }

    fn gitlink(&mut self, path: &str, id: &str) {
        self.line(&format!("M 160000 {id} {path}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_calls_give_the_same_ids() {
        for hash in Hash::ALL {
            let make = || {
                let repo = TestRepo::init(hash);
                repo.commit_files(&[("a", b"one\n"), ("d/b", b"two\n")], "first");
                repo.branch("side");
                repo.commit_files(&[("side", b"s\n")], "side");
                repo.checkout("main");
                repo.commit_files(&[("a", b"three\n")], "second");
                let merge = repo.merge(&["side"]);
                let tag = repo.annotated_tag("v1", "main");
                (merge, tag)
            };
            let (merge, tag) = make();
            assert_eq!(merge.len(), hash.hex_len());
            assert_eq!((merge, tag), make());
        }
    }

    #[test]
    fn rich_has_one_of_everything() {
        for hash in Hash::ALL {
            let repo = TestRepo::rich(hash);
            repo.repack_with_bitmap();
            repo.fsck();
            let pack = repo.only_pack();
            assert!(pack.with_extension("bitmap").exists());
            let objects = repo.verify_pack(&pack);
            for kind in ["commit", "tree", "blob", "tag"] {
                assert!(objects.iter().any(|object| object.kind == kind), "no {kind}");
            }
            assert!(objects.iter().any(|object| object.depth > 3), "no delta chain");
            let parents = repo.git_str(["rev-list", "--parents", "--all"]);
            let widest = parents.lines().map(|line| line.split(' ').count() - 1).max();
            assert_eq!(widest, Some(3), "an octopus");
            let tree = repo.git_str(["ls-tree", "-r", "main"]);
            for mode in ["100644", "100755", "160000"] {
                assert!(tree.contains(mode), "no {mode}");
            }
            let ids: BTreeSet<String> = objects.into_iter().map(|object| object.id).collect();
            assert_eq!(ids, repo.rev_list_objects(&["--all"]));
            assert_eq!(ids, repo.ids_of_pack(&pack));
            assert_eq!(ids, repo.all_objects());
        }
    }

    #[test]
    fn thin_streams_list_only_what_they_carry() {
        for hash in Hash::ALL {
            let repo = TestRepo::linear(hash, 30);
            repo.repack();
            let pack = repo.pack_objects(&["--revs", "--thin"], "main\n^main~10\n");
            let ids = repo.ids_of_stream(&pack);
            assert_eq!(ids, repo.rev_list_objects(&["main", "^main~10"]));
            assert!(repo.index_stream(&pack).len() > ids.len(), "the pack was not thin");
            let empty = repo.pack_objects(&["--revs"], "main\n^main\n");
            assert!(repo.ids_of_stream(&empty).is_empty());
        }
    }

    #[test]
    fn failures_are_shown_with_the_command() {
        let repo = TestRepo::init(Hash::Sha1);
        let failed = repo.try_git(["rev-parse", "--verify", "nothing"], b"");
        assert_eq!(failed.status.code(), Some(128));
        let panic = std::panic::catch_unwind(|| repo.git(["rev-parse", "--verify", "nothing"]));
        let message = *panic.expect_err("git fails").downcast::<String>().expect("a message");
        assert!(message.contains("rev-parse"), "{message}");
    }
}
