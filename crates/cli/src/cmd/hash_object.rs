//! `packstone hash-object`: git-hash-object.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, Read, Seek, SeekFrom, Write as _};
use std::path::Path;

use object::fsck::{self, Detail, Finding, Severities, Sink};
use object::{HashKind, ObjectId, ObjectKind, object_id};

use crate::attributes::Conversions;
use crate::env::{Environment, bytes_to_path, os_bytes};
use crate::objects::{HELD, Objects, name_of_file};
use crate::options::{Given, Spec, Table, Takes, flag};
use crate::quote::unquote_c;
use crate::report::{self, Failure, chain, plain_io};
use crate::setup::Repository;
use crate::worktree::{io_words, unsupported};

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Names the objects that files hold, and stores them with -w. Standard input comes before the files. With --stdin-paths
names of files are read from standard input, one a line, from the root of the work tree; one that begins with a double
quote is quoted as in C.

Trees, commits and tags are held against their format first, unless --literally says not to. Blobs that git would
convert before it stores them (line ends, ident, filters, encodings; see gitattributes) are refused, unless their content
stays the same.

Configuration: core.autocrlf, core.attributesFile, core.compression, core.looseCompression, core.bigFileThreshold,
core.createObject, core.fsync, core.fsyncMethod, core.fsyncObjectFiles, core.sharedRepository, pack.compression,
pack.packSizeLimit, pack.writeReverseIndex.

Exit code: 0 done; 128 with `fatal: ...`; 129 for a wrong command line.
";

#[derive(Debug, Default)]
struct Typed {
    kind: Option<OsString>,
    write: bool,
    stdin: u32,
    stdin_paths: bool,
    no_filters: bool,
    literally: bool,
    path: Option<OsString>,
}

const TABLE: Table<Typed> = Table {
    usage: &[
        "packstone hash-object [-t <type>] [-w] [--path=<file> | --no-filters]",
        "                      [--stdin [--literally]] [--] <file>...",
        "packstone hash-object [-t <type>] [-w] --stdin-paths [--no-filters]",
    ],
    options: &[
        Spec {
            short: Some('t'),
            long: "",
            takes: Takes::Value("type"),
            negatable: false,
            hidden: false,
            help: "commit, tree, blob (the default) or tag",
            set: |typed, _, given| {
                if let Given::Value(kind) = given {
                    typed.kind = Some(kind.to_owned());
                }
                Ok(())
            },
        },
        flag!(Some('w'), "", write, "store the objects, too"),
        Spec {
            short: None,
            long: "stdin",
            takes: Takes::Nothing,
            negatable: true,
            hidden: false,
            help: "read an object from standard input",
            set: |typed, _, given| {
                typed.stdin = if matches!(given, Given::On) { typed.stdin.saturating_add(1) } else { 0 };
                Ok(())
            },
        },
        flag!(None, "stdin-paths", stdin_paths, "read names of files from standard input"),
        flag!(None, "no-filters", no_filters, "take content as it is, whatever attributes say"),
        flag!(None, "literally", literally, "take anything for an object of that type"),
        Spec {
            short: None,
            long: "path",
            takes: Takes::Value("file"),
            negatable: true,
            hidden: false,
            help: "take attributes as if the content lay here",
            set: |typed, _, given| {
                typed.path = match given {
                    Given::Value(path) => Some(path.to_owned()),
                    _ => None,
                };
                Ok(())
            },
        },
    ],
};

/// The help page.
pub(crate) fn page() -> String {
    TABLE.page(ABOUT)
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    let mut typed = Typed::default();
    let files = TABLE.parse(words, &mut typed)?;
    let repo = match Repository::find(env.clone()) {
        Ok(repo) => Some(repo),
        // Names can be computed anywhere.
        Err(Failure::Fatal(text)) if !typed.write && text.starts_with("not a git repository") => None,
        Err(failure) => return Err(failure),
    };
    let misuse = match () {
        () if typed.stdin_paths && typed.stdin > 0 => "Can't use --stdin-paths with --stdin",
        () if typed.stdin_paths && !files.is_empty() => "Can't specify files with --stdin-paths",
        () if typed.stdin_paths && typed.path.is_some() => "Can't use --stdin-paths with --path",
        () if typed.stdin > 1 => "Multiple --stdin arguments are not supported",
        () if typed.path.is_some() && typed.no_filters => "Can't use --path with --no-filters",
        () => "",
    };
    if !misuse.is_empty() {
        return Err(TABLE.wrong(misuse));
    }
    let kind = match &typed.kind {
        None => ObjectKind::Blob,
        Some(name) => ObjectKind::from_name(&os_bytes(name))
            .ok_or_else(|| Failure::Fatal(format!("invalid object type \"{}\"", name.to_string_lossy())))?,
    };
    if let Some(repo) = &repo {
        repo.config.size("core.bigfilethreshold")?; // a wrong value is an error even where none is needed
    }
    let mut work = Work {
        env: repo.as_ref().map_or(&env, |repo| &repo.env),
        repo: repo.as_ref(),
        kind,
        hash: repo.as_ref().map_or(HashKind::Sha1, |repo| repo.hash),
        check: !typed.literally,
        objects: match &repo {
            Some(repo) if typed.write => Some(Objects::open(repo)?),
            _ => None,
        },
        conversions: match &repo {
            Some(repo) if kind == ObjectKind::Blob && !typed.no_filters => {
                // Without a work tree only the files of attributes that lie elsewhere count.
                Some(Conversions::new(repo, repo.work_tree.clone().unwrap_or_else(|| repo.git_dir.clone()))?)
            }
            _ => None,
        },
    };
    let done = work.all(&typed, &files);
    let finished = match work.objects {
        Some(objects) => objects.finish().map_err(|error| Failure::Fatal(chain(&error))),
        None => Ok(()),
    };
    done.and(finished)
}

struct Work<'w> {
    env: &'w Environment,
    repo: Option<&'w Repository>,
    kind: ObjectKind,
    hash: HashKind,
    check: bool,
    /// With `-w`.
    objects: Option<Objects>,
    /// For blobs, unless attributes do not count.
    conversions: Option<Conversions>,
}

impl Work<'_> {
    fn all(&mut self, typed: &Typed, files: &[OsString]) -> Result<(), Failure> {
        let prefix = self.repo.map_or(&[][..], |repo| &repo.prefix);
        let from_root = |file: &OsStr| match Path::new(file).is_absolute() {
            true => os_bytes(file).into_owned(),
            false => [prefix, &os_bytes(file)].concat(),
        };
        let as_if = typed.path.as_deref().map(from_root);
        if typed.stdin > 0 {
            let id = self.stdin(as_if.as_deref())?;
            say(&id)?;
        }
        for file in files {
            let file = from_root(file);
            let id = self.file(&file, as_if.as_deref().unwrap_or(&file))?;
            say(&id)?;
        }
        if typed.stdin_paths {
            let mut stdin = io::stdin().lock();
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = stdin.read_until(b'\n', &mut line);
                if read.map_err(|error| Failure::Fatal(format!("cannot read standard input: {}", plain_io(&error))))?
                    == 0
                {
                    break;
                }
                let path = line.strip_suffix(b"\n").unwrap_or(&line);
                let path = match path.first() {
                    Some(b'"') => unquote_c(path).ok_or_else(|| Failure::fatal("line is badly quoted"))?,
                    _ => path.to_vec(),
                };
                let id = self.file(&path, &path)?;
                say(&id)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &[u8], as_if: &[u8]) -> Result<ObjectId, Failure> {
        let name = String::from_utf8_lossy(file);
        let path = self.env.resolve(&bytes_to_path(file));
        let mut opened = File::open(path)
            .map_err(|error| Failure::Fatal(format!("could not open '{name}' for reading: {}", plain_io(&error))))?;
        self.content(&mut opened, Some(as_if)).map_err(|problem| match problem {
            Problem::Failed(failure) => failure,
            Problem::Said(text) => {
                report::say(&format!("error: {text}\n"));
                let what = if self.objects.is_some() { "add" } else { "hash" };
                let into = if self.objects.is_some() { " to database" } else { "" };
                Failure::Fatal(format!("Unable to {what} {name}{into}"))
            }
        })
    }

    fn stdin(&mut self, as_if: Option<&[u8]>) -> Result<ObjectId, Failure> {
        let id = match stdin_as_file() {
            Some(mut file) => self.content(&mut file, as_if),
            None => self.piped(io::stdin().lock(), as_if),
        };
        id.map_err(|problem| match problem {
            Problem::Failed(failure) => failure,
            Problem::Said(text) => Failure::Fatal(text),
        })
    }

    /// What a file holds from its position on.
    fn content(&mut self, file: &mut File, as_if: Option<&[u8]>) -> Result<ObjectId, Problem> {
        let meta = file.metadata()?;
        if !meta.is_file() {
            return self.piped(file, as_if);
        }
        let at = file.stream_position()?;
        let size = meta.len().saturating_sub(at);
        if !self.can_be_streamed(as_if) || size <= HELD {
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            return self.bytes(&content, as_if);
        }
        match &mut self.objects {
            Some(objects) => Ok(objects.write_large(file, at, size)?),
            None => Ok(name_of_file(file, size, self.hash)?),
        }
    }

    /// Content of a length that is known at its end only.
    fn piped(&mut self, mut input: impl Read, as_if: Option<&[u8]>) -> Result<ObjectId, Problem> {
        let mut content = Vec::new();
        let most = if self.can_be_streamed(as_if) { HELD + 1 } else { u64::MAX };
        (&mut input).take(most).read_to_end(&mut content)?;
        if (content.len() as u64) < most {
            return self.bytes(&content, as_if);
        }
        let mut rest = content.as_slice().chain(input);
        match &mut self.objects {
            Some(objects) => Ok(objects.write_stream(ObjectKind::Blob, &mut rest)?),
            None => {
                let mut file = tempfile::tempfile()?;
                let size = io::copy(&mut rest, &mut file)?;
                file.seek(SeekFrom::Start(0))?;
                Ok(name_of_file(&mut file, size, self.hash)?)
            }
        }
    }

    /// Whether nothing has to look at the content as a whole.
    fn can_be_streamed(&self, as_if: Option<&[u8]>) -> bool {
        self.kind == ObjectKind::Blob && self.needs(as_if).is_nothing()
    }

    fn needs(&self, as_if: Option<&[u8]>) -> crate::attributes::Needs {
        match (&self.conversions, as_if, self.repo) {
            (Some(conversions), Some(path), Some(repo)) => {
                // As it stands in the work tree, if it does.
                let path = bytes_to_path(path);
                let inside = repo.work_tree.as_deref().map(|root| crate::env::normal(&root.join(&path)));
                let inside = inside.as_deref().zip(repo.work_tree.as_deref());
                let inside = inside.and_then(|(path, root)| path.strip_prefix(root).ok());
                let path = os_bytes(inside.unwrap_or(&path).as_os_str());
                // Patterns match what lies elsewhere by its name, not by where a root is.
                conversions.needs(path.strip_prefix(b"/").unwrap_or(&path))
            }
            _ => crate::attributes::Needs::default(),
        }
    }

    fn bytes(&mut self, content: &[u8], as_if: Option<&[u8]>) -> Result<ObjectId, Problem> {
        if let Some(what) = self.needs(as_if).of(content) {
            return Err(Failure::Fatal(format!("cannot take this content: {}", unsupported(&what))).into());
        }
        if self.check && !fsck::check(self.kind, content, self.hash, &Severities::pedantic(), &mut Said) {
            return Err(Failure::fatal("refusing to create malformed object").into());
        }
        match &mut self.objects {
            Some(objects) => Ok(objects.write(self.kind, content)?),
            None => Ok(object_id(self.hash, self.kind, content).map_err(crate::objects::ObjectsError::from)?),
        }
    }
}

/// Findings, one a line.
struct Said;

impl Sink for Said {
    fn finding(&mut self, finding: Finding<'_>) {
        if let Detail::Parse(why) = finding.detail {
            report::say(&format!("error: {why}\n"));
        }
        report::say(&format!("error: object fails fsck: {finding}\n"));
    }
}

/// Why there is no name.
enum Problem {
    /// Of this content, with its text.
    Said(String),
    /// That is the end.
    Failed(Failure),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Problem::Failed(failure)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem::Said(format!("read error: {}", io_words(&error)))
    }
}

impl From<crate::objects::ObjectsError> for Problem {
    fn from(error: crate::objects::ObjectsError) -> Self {
        Problem::Said(chain(&error))
    }
}

/// Standard input, if it is a file whose length is known.
fn stdin_as_file() -> Option<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let file = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
        file.metadata().is_ok_and(|meta| meta.is_file()).then_some(file)
    }
    #[cfg(not(unix))]
    None
}

/// One line at once, since callers may wait for it.
fn say(id: &ObjectId) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{id}").and_then(|()| stdout.flush()).map_err(|error| Failure::output("write error", error))
}
