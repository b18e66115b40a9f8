//! Index files to measure with: entries from a generator, everything else by git itself.
//!
//! A large file is made once per size from `git update-index --index-info`; every variant is made from a simpler one, by
//! the git command that adds what it has more. All hold the same entries, which is checked with `git ls-files -s`.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::git::Git;
use crate::rng::Rng;
use crate::sh::quiet_read;
use crate::{Context as _, Result, fail};

/// Entries to a block of our own offset table.
const OWN_BLOCK: &str = "8192";

/// What an index file has besides its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) v4: bool,
    pub(super) tree: bool,
    pub(super) untracked: bool,
    pub(super) table: Table,
}

/// The offset table (IEOT, and EOIE with it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    None,
    /// As git writes it for two threads: two blocks.
    Git,
    /// As git writes it on a machine with 32 processors: as many blocks.
    Many,
    /// As we write it: many blocks.
    Own,
}

/// What a variant has more than the one it is made from.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Tree,
    Untracked,
    V4,
    GitTable,
    ManyTable,
    OwnTable,
}

impl Variant {
    pub(super) const BARE: Variant = Variant { v4: false, tree: false, untracked: false, table: Table::None };

    /// `v4 TREE UNTR IEOT`.
    pub(super) fn name(self) -> String {
        let mut words = vec![if self.v4 { "v4" } else { "v2" }];
        words.extend(self.tree.then_some("TREE"));
        words.extend(self.untracked.then_some("UNTR"));
        match self.table {
            Table::None => {}
            Table::Git => words.push("IEOT"),
            Table::Many => words.push("IEOT-32"),
            Table::Own => words.push("our-IEOT"),
        }
        words.join(" ")
    }

    fn parent(self) -> Option<(Variant, Step)> {
        match self {
            Variant { table: Table::Git, .. } => Some((Variant { table: Table::None, ..self }, Step::GitTable)),
            Variant { table: Table::Many, .. } => Some((Variant { table: Table::None, ..self }, Step::ManyTable)),
            Variant { table: Table::Own, .. } => Some((Variant { table: Table::None, ..self }, Step::OwnTable)),
            Variant { v4: true, .. } => Some((Variant { v4: false, ..self }, Step::V4)),
            Variant { untracked: true, .. } => Some((Variant { untracked: false, ..self }, Step::Untracked)),
            Variant { tree: true, .. } => Some((Variant { tree: false, ..self }, Step::Tree)),
            Variant::BARE => None,
        }
    }
}

/// The files of one size.
pub(super) struct Files<'a> {
    git: &'a Git,
    /// Our program that measures, and here writes.
    program: &'a Path,
    folder: PathBuf,
    entries: u64,
    digest: u64,
}

impl<'a> Files<'a> {
    /// Opens the cache of files with that many entries.
    pub(super) fn new(git: &'a Git, program: &'a Path, cache: &Path, entries: u64) -> Result<Files<'a>> {
        let folder = cache.join(format!("{entries}-v{LAYOUT}"));
        let files = Files { git, program, folder, entries, digest: digest_of(entries) };
        if !files.work().join(".git").exists() {
            fs::create_dir_all(files.work()).context(|| format!("create {}", files.work().display()))?;
            quiet_read(git.at(&files.work()).args(["init", "--quiet"]))?;
        }
        Ok(files)
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Digest of all entries.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// The repository that the files belong to.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Its index. Remove it before use; nobody may write into it, since it can be one of the cached files.
    pub(super) fn index(&self) -> PathBuf {
        self.work().join(".git/index")
    }

    /// A variant; made now if it was not made before.
    pub(super) fn get(&self, variant: Variant) -> Result<PathBuf> {
        let file = self.folder.join(variant.name().replace(' ', "-"));
        if file.exists() {
            return Ok(file);
        }
        match variant.parent() {
            None => {
                println!("(making {} entries)", self.entries);
                self.generate()?;
            }
            Some((parent, step)) => {
                let from = self.get(parent)?;
                println!("(making {} entries, {})", self.entries, variant.name());
                self.place(&from)?;
                self.add(&step, &from)?;
            }
        }
        self.check()?;
        // What is measured next must not wait for these pages.
        sync(&self.index())?;
        fs::rename(self.index(), &file).context(|| format!("rename to {}", file.display()))?;
        Ok(file)
    }

    /// Makes a cached file the repository's index. It is the same file under a second name, which is safe because git
    /// replaces an index and never writes into one.
    pub(super) fn place(&self, file: &Path) -> Result<()> {
        self.clear()?;
        fs::hard_link(file, self.index()).context(|| format!("link {}", file.display()))
    }

    /// Removes the repository's index, and the lock of a run that was broken off.
    pub(super) fn clear(&self) -> Result<()> {
        for path in [self.index(), self.index().with_extension("lock")] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return fail(format!("remove {}: {error}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What git reads from the repository's index are the entries that were generated.
    pub(super) fn check(&self) -> Result<()> {
        let mut child = self
            .git
            .at(&self.work())
            .args(["ls-files", "--stage", "-z"])
            .stdout(Stdio::piped())
            .spawn()
            .context(|| "start git ls-files".to_owned())?;
        let mut digest = FNV_START;
        if let Some(mut pipe) = child.stdout.take() {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let len = pipe.read(&mut buffer).context(|| "read git ls-files".to_owned())?;
                let Some(bytes) = buffer.get(..len).filter(|bytes| !bytes.is_empty()) else { break };
                digest = fnv(digest, bytes);
            }
        }
        let status = child.wait().context(|| "wait for git ls-files".to_owned())?;
        match (status.success(), digest == self.digest) {
            (true, true) => Ok(()),
            (true, false) => fail(format!("{}: git reads other entries from it", self.index().display())),
            (false, _) => fail(format!("{}: git cannot read it", self.index().display())),
        }
    }

    fn generate(&self) -> Result<()> {
        self.clear()?;
        let mut child = self
            .git
            .at(&self.work())
            .args(["update-index", "--index-info"])
            .stdin(Stdio::piped())
            .spawn()
            .context(|| "start git update-index".to_owned())?;
        if let Some(pipe) = child.stdin.take() {
            let mut pipe = BufWriter::new(pipe);
            for number in 0..self.entries {
                let Entry { mode, id, path } = Entry::new(number);
                writeln!(pipe, "{mode} {id}\t{path}").context(|| "write to git update-index".to_owned())?;
            }
            pipe.flush().context(|| "write to git update-index".to_owned())?;
        }
        if !child.wait().context(|| "wait for git update-index".to_owned())?.success() {
            return fail("git update-index --index-info failed".to_owned());
        }
        // Entries that come from a list have no stat data. Ours goes in here; git does not mind the checksum that no
        // longer fits when it reads, and writes the file again.
        let index = self.index();
        let mut bytes = fs::read(&index).context(|| format!("read {}", index.display()))?;
        if fill_stat(&mut bytes) != Some(self.entries) {
            return fail(format!("{}: not the version 2 index it should be", index.display()));
        }
        fs::write(&index, bytes).context(|| format!("write {}", index.display()))?;
        quiet_read(self.git.at(&self.work()).args(["update-index", "--force-write-index"])).map(drop)
    }

    fn add(&self, step: &Step, from: &Path) -> Result<()> {
        let mut git = self.git.at(&self.work());
        match step {
            Step::Tree => {
                quiet_read(git.args(["write-tree", "--missing-ok"]))?;
                self.has(b"TREE")
            }
            Step::Untracked => {
                let folder = self.work().join("src");
                self.make_untracked()?;
                quiet_read(git.args(["update-index", "--force-untracked-cache"]))?;
                let mut status = self.git.at(&self.work());
                let status = status.args(["status", "--porcelain"]).stdout(Stdio::null()).status();
                if !status.context(|| "start git status".to_owned())?.success() {
                    return fail("git status failed".to_owned());
                }
                fs::remove_dir_all(&folder).context(|| format!("remove {}", folder.display()))?;
                self.has(b"UNTR")
            }
            Step::V4 => quiet_read(git.args(["update-index", "--index-version", "4"])).map(drop),
            Step::GitTable | Step::ManyTable => {
                let threads = if *step == Step::GitTable { "index.threads=2" } else { "index.threads=32" };
                quiet_read(git.args(["-c", threads, "update-index", "--force-write-index"]))?;
                self.has(b"IEOT")
            }
            Step::OwnTable => {
                self.clear()?;
                let mut write = Command::new(self.program);
                write.arg("write").arg(from).arg("--out").arg(self.index());
                quiet_read(write.args(["--checksum", "--offset-table", OWN_BLOCK]))?;
                self.has(b"IEOT")
            }
        }
    }

    /// Every directory of the entries, and in each a file that none of them names.
    fn make_untracked(&self) -> Result<()> {
        let mut last = PathBuf::new();
        for number in 0..self.entries {
            let folder = self.work().join(Entry::new(number).folder());
            if folder != last {
                fs::create_dir_all(&folder)
                    .and_then(|()| fs::File::create(folder.join("compiled.o")))
                    .context(|| format!("fill {}", folder.display()))?;
                last = folder;
            }
        }
        Ok(())
    }

    /// A guard against measuring what is not there.
    fn has(&self, signature: &[u8; 4]) -> Result<()> {
        let bytes = fs::read(self.index()).context(|| format!("read {}", self.index().display()))?;
        match bytes.windows(4).any(|window| window == signature) {
            true => Ok(()),
            false => fail(format!("git wrote no {} extension", String::from_utf8_lossy(signature))),
        }
    }
}

/// Waits until a file is on disk.
pub(super) fn sync(file: &Path) -> Result<()> {
    fs::File::open(file).and_then(|file| file.sync_all()).context(|| format!("sync {}", file.display()))
}

/// Goes into the names of cached folders: raise it when their preparation changes.
const LAYOUT: u32 = 1;

const FOLDER: u64 = 48;
const MODULE: u64 = 25 * FOLDER;

/// One generated entry. Entries with rising numbers are in index order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: &'static str,
    pub(super) id: String,
    pub(super) path: String,
}

impl Entry {
    /// The entry of a number below ten million.
    pub(super) fn new(number: u64) -> Entry {
        let mut rng = Rng::new(number);
        let words = ["cache", "handler", "io", "options", "parse", "refs", "test", "transport", "tree_walk", "util"];
        let endings = ["c", "h", "rs", "java", "py", "md"];
        let mut pick = |from: &[&'static str]| from.get(rng.index(from.len())).copied().unwrap_or_default();
        let (word, ending) = (pick(&words), pick(&endings));
        let (module, part) = (number / MODULE, number % MODULE / FOLDER);
        let mode = match rng.below(1000) {
            0 => "120000",
            1..=20 => "100755",
            _ => "100644",
        };
        let id = format!("{:016x}{:016x}{:08x}", rng.next(), rng.next(), rng.next() as u32);
        Entry { mode, id, path: format!("src/module{module:04}/part{part:02}/file_{number:07}_{word}.{ending}") }
    }

    fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// As `git ls-files -s -z` prints it.
    fn line(&self) -> String {
        let Entry { mode, id, path } = self;
        format!("{mode} {id} 0\t{path}\0")
    }

    pub(super) fn digest(&self) -> u64 {
        fnv(FNV_START, self.line().as_bytes())
    }
}

fn digest_of(entries: u64) -> u64 {
    (0..entries).fold(FNV_START, |digest, number| fnv(digest, Entry::new(number).line().as_bytes()))
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, as our measuring programs compute it.
fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Gives every entry of a version 2 index stat data as of a checkout some years ago. Returns how many there were.
fn fill_stat(bytes: &mut [u8]) -> Option<u64> {
    let header = bytes.first_chunk::<12>()?;
    let count = match *header {
        [b'D', b'I', b'R', b'C', 0, 0, 0, 2, a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        _ => return None,
    };
    let mut at = 12;
    for number in 0..count {
        let mut rng = Rng::new(!number);
        let entry = bytes.get_mut(at..)?;
        let seconds = 1_600_000_000 + rng.below(1 << 24) as u32;
        let nanoseconds = rng.below(1_000_000_000) as u32;
        let fields = [
            (0, seconds),
            (4, nanoseconds),
            (8, seconds),
            (12, nanoseconds),
            (16, 0xfe00),
            (20, 1_000_000 + number as u32),
            (28, 1000),
            (32, 1000),
            (36, 1 + rng.below(60_000) as u32),
        ];
        for (offset, value) in fields {
            *entry.get_mut(offset..)?.first_chunk_mut()? = value.to_be_bytes();
        }
        let flags = u16::from_be_bytes(*entry.get(60..)?.first_chunk()?);
        at += (62 + usize::from(flags & 0xfff) + 8) & !7;
    }
    Some(count)
}

/// Sizes of `--entries`, as `1,10k,1M,3M`.
pub(super) fn sizes(list: &OsStr) -> Result<Vec<u64>> {
    let size = |word: &str| {
        let (digits, unit) = match word.as_bytes().last() {
            Some(b'k') => (word.trim_end_matches('k'), 1000),
            Some(b'M') => (word.trim_end_matches('M'), 1_000_000),
            _ => (word, 1),
        };
        let count = digits.parse::<u64>().ok()?.checked_mul(unit)?;
        (1..10_000_000).contains(&count).then_some(count)
    };
    let text = list.to_string_lossy();
    match text.split(',').map(|word| size(word.trim())).collect() {
        Some(sizes) => Ok(sizes),
        None => fail(format!("--entries: cannot understand '{text}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_index_order_and_of_the_length_of_real_paths() {
        let numbers = || (0..5000).chain([999_999, 1_000_000, 2_999_999, 9_999_999]);
        let paths: Vec<String> = numbers().map(|number| Entry::new(number).path).collect();
        assert!(paths.is_sorted_by(|a, b| a < b));
        let mean = paths.iter().map(String::len).sum::<usize>() / paths.len();
        assert!((43..=49).contains(&mean), "{mean}");
        assert!(numbers().all(|number| Entry::new(number).id.len() == 40));
        // The files in caches depend on it: raise LAYOUT when this changes.
        assert_eq!(
            Entry::new(1234).line(),
            "100644 4e6241f252d0a033b912e3ff44b145a58c72a511 0\tsrc/module0001/part00/file_0001234_refs.rs\0"
        );
    }

    #[test]
    fn variants_are_made_step_by_step_from_the_bare_one() {
        let mut variant = Variant { v4: true, tree: true, untracked: true, table: Table::Own };
        assert_eq!(variant.name(), "v4 TREE UNTR our-IEOT");
        let mut steps = Vec::new();
        while let Some((parent, step)) = variant.parent() {
            variant = parent;
            steps.push(step);
        }
        assert_eq!(variant, Variant::BARE);
        assert_eq!(steps, [Step::OwnTable, Step::V4, Step::Untracked, Step::Tree]);
    }

    #[test]
    fn stat_data_goes_where_it_belongs() {
        let mut bytes = b"DIRC\0\0\0\x02\0\0\0\x02".to_vec();
        for name in ["a", "longer-name"] {
            let mut entry = vec![0xee; 60];
            entry.extend([0, name.len() as u8]);
            entry.extend(name.as_bytes());
            entry.resize((entry.len() + 8) & !7, 0);
            bytes.extend(entry);
        }
        let before = bytes.clone();
        assert_eq!(fill_stat(&mut bytes), Some(2));
        let second = 12 + 64;
        for start in [12, second] {
            assert_eq!(bytes[start + 24..start + 28], before[start + 24..start + 28], "the mode stays");
            assert_eq!(bytes[start + 40..start + 63], before[start + 40..start + 63], "so do id, flags and path");
            assert_ne!(bytes[start..start + 24], before[start..start + 24]);
        }
        assert_ne!(bytes[12..36], bytes[second..second + 24]);
        assert_eq!(fill_stat(&mut bytes[..100]), None);
        assert_eq!(fill_stat(&mut b"DIRC\0\0\0\x04\0\0\0\x00".to_vec()), None);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(sizes("1,10k, 3M".as_ref()).unwrap(), [1, 10_000, 3_000_000]);
        for wrong in ["", "0", "x", "10G", "10M", "1,,2"] {
            assert!(sizes(wrong.as_ref()).is_err(), "{wrong}");
        }
    }
}
