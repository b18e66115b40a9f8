//! `packstone index-pack`: git-index-pack.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufWriter, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashfile::FileMode;
use index_pack::{Destination, IndexVersion, Inspect, Options, Outcome, ReceiveError, Receiver, Strict, Verified};
use object::{HashKind, ObjectId};
use odb::{Observer, Quiet};

use self::progress::Progress;
use self::promised::Promised;
use self::typed::{TABLE, Typed};
use crate::cmd::receive::{self, Checks};
use crate::config::{Conditions, Config};
use crate::env::{Environment, os_bytes};
use crate::number;
use crate::progress::Counted;
use crate::report::Failure;
use crate::setup::{Part, Repository};
use crate::stdio;

mod progress;
mod promised;
mod typed;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Makes the index (.idx) and the reverse index (.rev) of a pack. With --stdin the pack is read from standard input and kept:
under the name given, else in the repository; what follows it on standard input and was read along goes to standard
output. Prints the checksum, with --stdin behind `pack` and a tab, or behind `keep` and a tab if a .keep was made.

Every object is made and named; one that the repository has already must be the same, byte for byte. With --fix-thin
deltas may have bases that only the repository has: these are appended.

With --verify nothing is written: an index that is there must be the one that would be made.

What is held at a time is bounded by --memory or packstone.memory, 320 MiB if neither is given.

Configuration: pack.indexVersion, pack.threads, pack.writeReverseIndex, packstone.memory, core.bigFileThreshold,
core.deltaBaseCacheLimit, core.fsync, core.fsyncMethod, core.sharedRepository, pack.compression, core.compression.

Exit code: 0 done; 1 with --check-self-contained-and-connected, links lead out of the pack; 128 with `fatal: ...`; 129 for
a wrong command line.
";

/// The help page.
pub(crate) fn page() -> String {
    TABLE.page(ABOUT)
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    let mut typed = Typed::default();
    TABLE.help_if_asked(words)?;
    let place = Surroundings::find(env)?;
    let operands = TABLE.parse(words, &mut typed)?;
    let pack = match &operands[..] {
        [] if typed.stdin => None,
        [pack] => Some(pack.as_os_str()),
        _ => return Err(TABLE.wrong("")),
    };
    if typed.index_given > 1 || typed.threads.is_some_and(|threads| threads < 0) {
        return Err(TABLE.wrong(""));
    }
    if let Some(header) = &typed.pack_header {
        receive::header(header)?;
    }
    let request = Request::settle(&typed, pack, &place)?;
    request.run(&typed, &place, Path::new(pack.unwrap_or_default()))
}

/// Where the command runs: perhaps in no repository.
pub(crate) struct Surroundings {
    /// As the user stands: names of files count from here.
    here: Environment,
    repo: Option<Repository>,
    config: Config,
}

impl Surroundings {
    /// Looks around.
    pub(crate) fn find(env: Environment) -> Result<Surroundings, Failure> {
        let repo = match Repository::find(env.clone()) {
            Ok(repo) => Some(repo),
            Err(Failure::Fatal(text)) if text.starts_with("not a git repository") => None,
            Err(failure) => return Err(failure),
        };
        let config = match &repo {
            Some(repo) => repo.config.clone(),
            None => Config::load(&env, None, None, false, &Conditions::default())?,
        };
        Ok(Surroundings { here: env, repo, config })
    }

    fn hash(&self, typed: Option<&OsStr>) -> Result<HashKind, Failure> {
        match typed {
            Some(name) => HashKind::from_name(&name.to_string_lossy())
                .ok_or_else(|| Failure::Fatal(format!("unknown hash algorithm '{}'", name.to_string_lossy()))),
            None => Ok(self.repo.as_ref().map_or(HashKind::Sha1, |repo| repo.hash)),
        }
    }

    /// What every way of looking at a pack takes from the configuration.
    pub(crate) fn options(
        &self,
        format: Option<&OsStr>,
        threads: Option<i32>,
        memory: Option<u64>,
    ) -> Result<Options, Failure> {
        let mut options = Options::new(self.hash(format)?).threads(receive::threads(&self.config, threads)?);
        if let Some(memory) = receive::memory(&self.config, memory)? {
            options = options.memory(memory as u64);
        }
        if let Some(size) = self.config.size("core.bigfilethreshold")? {
            options = options.big_file_threshold(size);
        }
        Ok(options)
    }

    /// A file that the user named.
    pub(crate) fn file(&self, name: &OsStr) -> PathBuf {
        self.here.resolve(Path::new(name))
    }
}

/// What is to be done, settled.
struct Request {
    options: Options,
    /// The pack, if it is named.
    pack: Option<PathBuf>,
    idx: Option<PathBuf>,
    checks: Option<Arc<Strict>>,
    promised: Option<Arc<Promised>>,
}

impl Request {
    fn settle(typed: &Typed, pack: Option<&OsStr>, place: &Surroundings) -> Result<Request, Failure> {
        let suffix = |name: &OsStr, suffix: &str| match os_bytes(name).strip_suffix(suffix.as_bytes()) {
            Some(_) => Ok(place.file(name)),
            None => {
                Err(Failure::Fatal(format!("packfile name '{}' does not end with '{suffix}'", name.to_string_lossy())))
            }
        };
        let config = &place.config;
        let version = config.int("pack.indexversion")?.unwrap_or(2);
        if !(0..=2).contains(&version) {
            return Err(Failure::Fatal(format!("bad pack.indexVersion={version}")));
        }
        let mut options = place.options(typed.object_format.as_deref(), typed.threads, typed.memory)?;
        options = options.index_version(if version == 1 { IndexVersion::V1 } else { IndexVersion::V2 });
        if let Some(text) = &typed.index_version {
            options = index_version(text, options)?;
        }
        if typed.fix_thin && !typed.stdin {
            return Err(Failure::fatal("the option '--fix-thin' requires '--stdin'"));
        }
        if typed.stdin && place.repo.is_none() {
            return Err(Failure::fatal("--stdin requires a git repository"));
        }
        if typed.stdin && typed.object_format.is_some() {
            return Err(Failure::fatal("options '--object-format' and '--stdin' cannot be used together"));
        }
        if pack.is_some() && typed.promisor.is_some() {
            return Err(Failure::fatal("--promisor cannot be used with a pack name"));
        }
        let pack = pack.map(|name| suffix(name, ".pack")).transpose()?;
        let idx = typed.index.as_deref().map(|name| suffix(name, ".idx")).transpose()?;
        let rev = config.truth("pack.writereverseindex")?.unwrap_or(true);
        let rev = rev && !place.here.truth("GIT_TEST_NO_WRITE_REV_INDEX", false)?;
        let store = match &place.repo {
            Some(repo) if repo.hash == options.hash => {
                let publish = repo.publish_options_of(Part::Packs)?.mode(FileMode::ReadOnly).make_dir(true);
                options = options.publish(publish).compression(repo.write_options()?.pack_compression);
                Some(repo.open_store()?)
            }
            _ => None,
        };
        options = options
            .store(store.clone())
            .fix_thin(typed.fix_thin)
            .write_rev(typed.rev_index.unwrap_or(rev))
            .refuse_duplicates(typed.strict)
            .keep(typed.keep.clone())
            .promisor(typed.promisor.clone())
            .max_input_size(Some(typed.max_input_size).filter(|&limit| limit > 0));
        let checks = Checks {
            severities: &typed.severities,
            content: typed.strict || typed.fsck_objects,
            links: typed.strict || typed.connected,
        };
        let checks = match checks.content || checks.links {
            true => Some(checks.ready(&place.here, options.hash, place.repo.as_ref().zip(store.as_ref()))?),
            false => None,
        };
        let promised = typed.promisor.is_some().then(|| Arc::new(Promised::new(options.hash, checks.clone())));
        let inspect = match &promised {
            Some(promised) => Some(Arc::clone(promised) as Arc<dyn Inspect>),
            None => checks.clone().map(|checks| checks as Arc<dyn Inspect>),
        };
        Ok(Request { options: options.inspect(inspect), pack, idx, checks, promised })
    }

    fn run(self, typed: &Typed, place: &Surroundings, shown: &Path) -> Result<(), Failure> {
        let progress = Arc::new(Progress::new(typed));
        let options = self.options.clone().observer(if progress.is_needed() {
            Arc::clone(&progress) as Arc<dyn Observer>
        } else {
            Arc::new(Quiet)
        });
        if typed.verify || typed.stat || typed.stat_only {
            let pack = self.pack.as_deref().ok_or_else(|| TABLE.wrong(""))?;
            let verified = index_pack::verify(pack, self.idx.as_deref(), options);
            progress.finish(0);
            let verified = verified.map_err(|error| failure(&error, shown))?;
            return if typed.stat || typed.stat_only { show(&verified, !typed.stat_only) } else { Ok(()) };
        }
        let (outcome, rest) = if typed.stdin {
            self.receive(typed, place, options, &progress)
        } else {
            let pack = self.pack.as_deref().unwrap_or(shown);
            index_pack::index_file(pack, self.idx.as_deref(), options).map(|outcome| (outcome, Vec::new()))
        }
        .map_err(|error| {
            progress.finish(0);
            failure(&error, shown)
        })?;
        progress.finish(outcome.counts.appended);
        let verdict = self.checks.map(|checks| checks.verdict()).unwrap_or_default();
        say(&outcome, typed.stdin, &rest, &verdict.missing_modules)?;
        if let (Some(promised), Some(repo)) = (&self.promised, &place.repo) {
            promised.pack(repo)?;
        }
        match typed.connected && verdict.foreign > 0 {
            true => Err(Failure::Exit(1)),
            false => Ok(()),
        }
    }

    fn receive(
        &self,
        typed: &Typed,
        place: &Surroundings,
        options: Options,
        progress: &Progress,
    ) -> Result<(Outcome, Vec<u8>), ReceiveError> {
        let to = match (&self.pack, &self.idx, &place.repo) {
            (Some(pack), idx, _) => Destination::Files { pack: pack.clone(), idx: idx.clone() },
            (None, None, Some(repo)) => Destination::Directory(repo.objects_dir.join("pack")),
            (None, Some(idx), Some(repo)) => {
                Destination::DirectoryBut { dir: repo.objects_dir.join("pack"), idx: idx.clone() }
            }
            (None, _, None) => Destination::Directory(PathBuf::from(".")),
        };
        let input = |error: Failure| ReceiveError::Input(std::io::Error::other(format!("{error:?}")));
        let mut stdin = Counted { input: stdio::stdin().map_err(input)?, meter: &progress.meter };
        let mut receiver = Receiver::new(to, options)?;
        if let Some(header) = &typed.pack_header {
            receiver.feed(&receive::header_bytes(header).map_err(input)?)?;
        }
        let rest = receiver.read_from(&mut stdin)?;
        if let Some(extra) = behind(&mut stdin.input, &rest) {
            return Err(ReceiveError::Junk { at: receiver.consumed(), extra });
        }
        Ok((receiver.finish()?, rest))
    }
}

/// How many bytes follow the pack in standard input, if that is a file: there nobody else waits for them.
fn behind(input: &mut File, rest: &[u8]) -> Option<u64> {
    let metadata = input.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let unread = metadata.len().saturating_sub(input.stream_position().ok()?);
    Some(unread + rest.len() as u64).filter(|&extra| extra > 0)
}

/// Reads `<version>[,<offset>]`.
fn index_version(text: &OsStr, options: Options) -> Result<Options, Failure> {
    let bytes = os_bytes(text);
    let bad = || Failure::Fatal(format!("bad --index-version={}", text.to_string_lossy()));
    let mut parts = bytes.splitn(2, |&byte| byte == b',');
    let version = parts.next().unwrap_or_default();
    let options = match version {
        b"" | b"0" | b"2" => options.index_version(IndexVersion::V2),
        b"1" => options.index_version(IndexVersion::V1),
        _ => return Err(bad()),
    };
    match parts.next() {
        None => Ok(options),
        Some(offset) if offset.last().is_some_and(u8::is_ascii_hexdigit) => {
            let offset = number::unsigned(offset, u64::from(u32::MAX >> 1)).map_err(|_| bad())?;
            Ok(options.offset_limit(offset as u32))
        }
        Some(_) => Err(bad()),
    }
}

fn say(outcome: &Outcome, stdin: bool, rest: &[u8], missing: &[ObjectId]) -> Result<(), Failure> {
    let word = match (stdin, outcome.kept) {
        (false, _) => "",
        (true, true) => "keep\t",
        (true, false) => "pack\t",
    };
    let mut text = format!("{word}{}\n", outcome.checksum).into_bytes();
    text.extend_from_slice(rest);
    for id in missing {
        text.extend_from_slice(format!("{id}\n").as_bytes());
    }
    let mut stdout = stdio::stdout()?;
    stdout.write_all(&text).map_err(stdio::failed)
}

/// Lists the objects of a pack, if asked, and how many there are with each length of chain.
pub(crate) fn show(verified: &Verified, list: bool) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(stdio::BLOCK, stdio::stdout()?);
    let mut write = || {
        if list {
            for object in verified.objects() {
                let (id, kind, at) = (object.id, object.kind.name(), object.at.get());
                write!(out, "{id} {kind:6} {} {} {at}", object.size, object.packed)?;
                match object.base {
                    Some(base) => writeln!(out, " {} {base}", object.depth)?,
                    None => writeln!(out)?,
                }
            }
        }
        for (depth, count) in verified.histogram().into_iter().enumerate().filter(|&(_, count)| count > 0) {
            let objects = if count == 1 { "object" } else { "objects" };
            match depth {
                0 => writeln!(out, "non delta: {count} {objects}")?,
                depth => writeln!(out, "chain length = {depth}: {count} {objects}")?,
            }
        }
        out.flush()
    };
    write().map_err(stdio::failed)
}

fn failure(error: &ReceiveError, shown: &Path) -> Failure {
    Failure::Fatal(receive::words_of(error, shown))
}
