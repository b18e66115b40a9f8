//! `demo`: real clones and fetches, served by our program through git's own `uploadpack.packObjectsHook`, beside git.
//!
//! Every request is made twice by an ordinary git client against an ordinary `git upload-pack`: once the pack comes from
//! `git pack-objects`, once from `packstone hook`. Both results must hold the same objects and pass `git fsck`. That
//! the hook did the work is proved twice: it leaves the requests it saw, and git's own trace must show no `git pack-objects`.
//! Then the very requests are run again, outside the clones (whose pace the client sets), to measure the two programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::args::Args;
use crate::gen_repo::{self, Spec};
use crate::git::Git;
use crate::measure::{self, Cost, Job, Meter, Request, Sink};
use crate::sh::{Sh, cargo, quiet_read, quote, root, target};
use crate::table::{layout, mebibytes, seconds};
use crate::{Context as _, Result, fail};

/// The repository that is served.
pub(crate) enum Source {
    Generated(Spec),
    /// A repository of the user's, which is copied and never written to.
    Repo(PathBuf),
}

pub(crate) fn run(sh: Sh, mut args: Args) -> Result<()> {
    let keep = args.flag("--keep");
    let runs = args.parsed("--runs")?.unwrap_or(5);
    let program = args.value("--program")?.map(PathBuf::from);
    let repo = args.value("--repo")?.map(PathBuf::from);
    let spec = Spec::from_args(&mut args)?;
    args.finish()?;
    let source = match repo {
        Some(repo) => Source::Repo(std::path::absolute(repo).context(|| "--repo".to_owned())?),
        None => Source::Generated(spec),
    };
    let program = match program {
        Some(program) => std::path::absolute(program).context(|| "--program".to_owned())?,
        None => build_program(sh)?,
    };
    demo(sh, &program, &source, runs, keep)
}

/// Builds the program in release mode and returns its path.
pub(crate) fn build_program(sh: Sh) -> Result<PathBuf> {
    let target = target();
    let args = ["build", "--release", "--package", "packstone", "--target-dir"];
    sh.run(cargo(&root()).args(args).arg(&target))?;
    Ok(target.join("release").join(format!("packstone{}", std::env::consts::EXE_SUFFIX)))
}

/// Empties a working folder of ours.
pub(crate) fn fresh(sh: Sh, folder: &Path) -> Result<()> {
    if sh.dry_run {
        return Ok(());
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder).context(|| format!("remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).context(|| format!("create {}", folder.display()))
}

pub(crate) fn demo(sh: Sh, program: &Path, source: &Source, runs: usize, keep: bool) -> Result<()> {
    let work = target().join("xtask/demo");
    fresh(sh, &work)?;
    let plain = Git::new(sh, "git".as_ref(), &work, None)?;

    let server = work.join("server.git");
    match source {
        Source::Generated(spec) => {
            gen_repo::create(sh, &plain, &server, spec)?;
        }
        Source::Repo(repo) => plain.copy_bare(sh, repo, &server)?,
    }
    plain.repack_bitmapped(sh, &server)?;
    if sh.dry_run {
        println!("(then clones and fetches from it through the hook, each checked and measured)");
        return Ok(());
    }

    let stage = Stage::new(plain, work, server, program.to_owned())?;
    println!("\nserving {} to git {}:", stage.server.display(), stage.plain.version()?);
    let mut rows = Vec::new();
    for scene in stage.scenes() {
        rows.push(stage.play(&scene, runs)?);
    }
    let header = [
        "request",
        "objects",
        "git waits",
        "ours waits",
        "git packs",
        "ours packs",
        "ratio",
        "git peak",
        "ours peak",
        "fsck",
    ];
    println!("\n{}", layout(&header, &rows));
    println!(
        "\nwaits: the whole clone or fetch as its user sees it, client included; packs: what the server spends, the same\n\
         requests run again into a pipe, median of {runs}, alternating; ratio: git / ours of that; peak: memory of that\n\
         process. Both results of a request hold the same objects, and git's trace shows that no git pack-objects made ours."
    );
    if keep {
        println!("kept: {}", stage.work.display());
    } else {
        std::fs::remove_dir_all(&stage.work).context(|| format!("remove {}", stage.work.display()))?;
    }
    Ok(())
}

/// One request of a client.
struct Scene {
    name: String,
    /// What the client has before: made by git alone, not measured.
    before: Before,
    /// Arguments of the client's git; `URL` and `DEST` stand for the server and the client's repository.
    client: Vec<String>,
}

enum Before {
    Nothing,
    /// A bare repository whose only branch is this commit of the server.
    History(String),
    /// A bare shallow clone of depth 1.
    Shallow,
}

/// Everything a demo works with.
struct Stage {
    plain: Git,
    meter: Meter,
    work: PathBuf,
    server: PathBuf,
    url: String,
    program: PathBuf,
    branch: String,
    first_parents: u64,
}

impl Stage {
    fn new(plain: Git, work: PathBuf, server: PathBuf, program: PathBuf) -> Result<Stage> {
        let url = format!("file://{}", server.display());
        let branch = quiet_read(plain.at(&server).args(["symbolic-ref", "HEAD"]))?.trim().to_owned();
        let first_parents = plain.first_parents(&server)?;
        let meter = Meter::new(&work)?;
        Ok(Stage { plain, meter, work, server, url, program, branch, first_parents })
    }

    fn scenes(&self) -> Vec<Scene> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let behind = (self.first_parents / 10).clamp(1, 1000).min(self.first_parents.saturating_sub(1));
        let branch = &self.branch;
        vec![
            Scene {
                name: "full clone".into(),
                before: Before::Nothing,
                client: words("clone --quiet --bare URL DEST"),
            },
            Scene {
                name: format!("fetch of {behind} commits"),
                before: Before::History(format!("HEAD~{behind}")),
                client: words("-C DEST fetch --quiet URL +refs/heads/*:refs/heads/* +refs/tags/*:refs/tags/*"),
            },
            Scene {
                name: "shallow clone, depth 1".into(),
                before: Before::Nothing,
                client: words("clone --quiet --bare --depth=1 URL DEST"),
            },
            Scene {
                name: "deepen by 20".into(),
                before: Before::Shallow,
                client: words(&format!("-C DEST fetch --quiet --deepen=20 URL +{branch}:{branch}")),
            },
            Scene {
                name: "partial clone, checked out".into(),
                before: Before::Nothing,
                client: words("clone --quiet --filter=blob:none URL DEST"),
            },
        ]
    }

    /// Plays a scene with both programs, compares, measures; returns a row of the table.
    fn play(&self, scene: &Scene, runs: usize) -> Result<Vec<String>> {
        println!("- {}", scene.name);
        let git = self.serve(scene, Engine::Git)?;
        let ours = self.serve(scene, Engine::Ours)?;
        let ids = self.plain.all_ids(&git.client)?;
        if ids != self.plain.all_ids(&ours.client)? {
            return fail(format!("{}: not the objects that git sends", scene.name));
        }
        self.fsck(&ours.client, &git.client)?;

        let mut costs = (Vec::new(), Vec::new());
        for _ in 0..runs {
            costs.0.push(self.replay(&git.requests)?);
            costs.1.push(self.replay(&ours.requests)?);
        }
        let wall = |costs: &[Cost]| measure::median(costs.iter().map(|cost| cost.wall));
        let peak = |costs: &[Cost]| costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0);
        let ratio = measure::median(costs.0.iter().zip(&costs.1).map(|(git, ours)| git.wall / ours.wall));
        let row = vec![
            scene.name.clone(),
            ids.len().to_string(),
            seconds(git.waited),
            seconds(ours.waited),
            seconds(wall(&costs.0)),
            seconds(wall(&costs.1)),
            format!("{ratio:.1}x"),
            mebibytes(peak(&costs.0)),
            mebibytes(peak(&costs.1)),
            "ok".to_owned(),
        ];
        for client in [&git.client, &ours.client] {
            std::fs::remove_dir_all(client).context(|| format!("remove {}", client.display()))?;
        }
        Ok(row)
    }

    /// Lets a client make its request to a server that packs with `engine`.
    fn serve(&self, scene: &Scene, engine: Engine) -> Result<Served> {
        let slug: String = scene.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let home = self.work.join(format!("{slug}-{}", engine.name()));
        let client = home.join("client");
        let requests = home.join("requests");
        std::fs::create_dir_all(&requests).context(|| format!("create {}", requests.display()))?;

        let mut hook =
            format!("{} hook-measured {} --", quote(self.meter.program().as_os_str()), quote(requests.as_os_str()));
        if engine == Engine::Ours {
            hook.push_str(&format!(" {} hook", quote(self.program.as_os_str())));
        }
        let git = Git::new(Sh { dry_run: false }, self.plain.program(), &home, Some(&hook))?;
        self.prepare(&scene.before, &client)?;

        let trace = home.join("trace");
        let mut command = git.command();
        command.env("GIT_TRACE2_EVENT", &trace).args(scene.client.iter().map(|word| match word.as_str() {
            "URL" => OsString::from(&self.url),
            "DEST" => client.clone().into_os_string(),
            word => word.into(),
        }));
        let started = Instant::now();
        quiet_read(&mut command)?;
        let waited = started.elapsed().as_secs_f64();

        let requests = measure::requests(&requests)?;
        if requests.is_empty() {
            return fail(format!("{}: upload-pack never called the hook", scene.name));
        }
        let trace = std::fs::read_to_string(&trace).context(|| format!("read {}", trace.display()))?;
        match (engine, git_packed(&trace)) {
            (Engine::Git, false) => {
                fail(format!("{}: the trace misses git pack-objects, so it proves nothing", scene.name))
            }
            (Engine::Ours, true) => fail(format!("{}: git pack-objects ran behind our hook", scene.name)),
            _ => Ok(Served { client, waited, requests }),
        }
    }

    fn prepare(&self, before: &Before, client: &Path) -> Result<()> {
        match before {
            Before::Nothing => {}
            Before::History(revision) => {
                let format = format!("--object-format={}", self.plain.hash_of(&self.server)?.name());
                quiet_read(self.plain.command().args(["init", "--quiet", "--bare", &format]).arg(client))?;
                let start = self.plain.rev_parse(&self.server, revision)?;
                let refspec = format!("{start}:{}", self.branch);
                quiet_read(self.plain.at(client).args(["fetch", "--quiet", "--no-tags", &self.url, &refspec]))?;
            }
            Before::Shallow => {
                let args = ["clone", "--quiet", "--bare", "--depth=1", &self.url];
                quiet_read(self.plain.command().args(args).arg(client))?;
            }
        }
        Ok(())
    }

    /// Checks what a client holds. A repository may have old sins of its own: then git's own clone has the same.
    fn fsck(&self, ours: &Path, git: &Path) -> Result<()> {
        let check = |client| {
            let args = ["fsck", "--full", "--strict", "--no-dangling", "--no-progress"];
            quiet_read(self.plain.at(client).args(args)).map_err(|failure| failure.without_first_line())
        };
        match (check(ours), ours) {
            (Ok(_), _) => Ok(()),
            (Err(found), _) => match check(git) {
                Err(also) if also == found => Ok(()),
                _ => fail(format!("git fsck --full --strict in {}: {found}", ours.display())),
            },
        }
    }

    /// Runs the requests of a scene once more, as upload-pack ran them.
    fn replay(&self, requests: &[Request]) -> Result<Cost> {
        let mut total = Cost::default();
        for request in requests {
            let job = Job { argv: &request.argv, folder: &self.server, stdin: &request.stdin, sink: Sink::Pipe };
            let cost = self.meter.measure(&self.plain, &job)?;
            total.wall += cost.wall;
            total.cpu += cost.cpu;
            total.peak_kib = total.peak_kib.max(cost.peak_kib);
        }
        Ok(total)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Git,
    Ours,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Engine::Git => "git",
            Engine::Ours => "ours",
        }
    }
}

struct Served {
    client: PathBuf,
    waited: f64,
    requests: Vec<Request>,
}

/// Whether git's trace (`GIT_TRACE2_EVENT`) tells of a `git pack-objects`.
fn git_packed(trace: &str) -> bool {
    trace.lines().any(|line| line.contains(r#""event":"cmd_name""#) && line.contains(r#""name":"pack-objects""#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_tells_who_packed() {
        let upload = r#"{"event":"cmd_name","sid":"1","name":"upload-pack","hierarchy":"upload-pack"}"#;
        let pack = r#"{"event":"cmd_name","sid":"2","name":"pack-objects","hierarchy":"upload-pack/pack-objects"}"#;
        let start = r#"{"event":"child_start","argv":["packstone","hook","git","pack-objects"]}"#;
        assert!(!git_packed(&format!("{upload}\n{start}\n")));
        assert!(git_packed(&format!("{upload}\n{pack}\n")));
    }
}
