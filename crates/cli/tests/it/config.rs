//! Configuration: which value counts, beside `git config`, and what a bad one is answered.
//!
//! A negative `pack.threads` is refused by naming it: that makes the value we read visible.

use std::path::Path;
use std::process::Command;

use testkit::repo::{Hash, TestRepo, output};

use crate::{PROGRAM, packstone, said};

/// What we and git read for `pack.threads` in the environment and with the global options that `dress` adds.
#[track_caller]
fn check(repo: &TestRepo, want: Option<i32>, dress: impl Fn(&mut Command)) {
    let plain = |mut command: Command| {
        for name in ["GIT_CONFIG_COUNT", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_PARAMETERS"] {
            command.env_remove(name);
        }
        command.env("GIT_CONFIG_SYSTEM", "/dev/null");
        dress(&mut command);
        command
    };
    let mut git = plain(repo.command());
    let git = output(git.args(["config", "--int", "pack.threads"]), b"");
    let git: Option<i32> = String::from_utf8(git.stdout).unwrap().trim().parse().ok();
    let mut ours = plain(repo.program(PROGRAM));
    let ours = output(ours.args(["pack-objects", "--stdout"]), b"");
    let (code, text) = said(&ours);
    let ours = match code {
        Some(0) => None,
        _ => text
            .strip_prefix("fatal: invalid number of threads specified (")
            .and_then(|rest| rest.trim_end().strip_suffix(')'))
            .map(|number| number.parse::<i32>().unwrap())
            .or_else(|| panic!("{text}")),
    };
    assert_eq!(git, want, "git");
    assert_eq!(ours, want, "ours");
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn threads(number: i32) -> String {
    format!("[pack]\n\tthreads = {number}\n")
}

#[test]
fn precedence() {
    let repo = TestRepo::init(Hash::Sha1);
    let scratch = repo.scratch();
    let (system, home, xdg) = (scratch.join("system"), scratch.join("home"), scratch.join("xdg"));
    let set = |command: &mut Command| {
        command.env("GIT_CONFIG_SYSTEM", &system).env("HOME", &home).env("XDG_CONFIG_HOME", &xdg);
    };
    check(&repo, None, set);
    write(&system, &threads(-1));
    check(&repo, Some(-1), set);
    write(&xdg.join("git/config"), &threads(-2));
    check(&repo, Some(-2), set);
    write(&home.join(".gitconfig"), &threads(-3));
    check(&repo, Some(-3), set);
    repo.git(["config", "pack.threads", "-4"]);
    check(&repo, Some(-4), set);
    // The work tree's own file counts only once the repository says so.
    write(&repo.git_dir().join("config.worktree"), &threads(-5));
    check(&repo, Some(-4), set);
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    check(&repo, Some(-5), set);
    check(&repo, Some(-6), |command| {
        set(command);
        command.env("GIT_CONFIG_COUNT", "2");
        command.env("GIT_CONFIG_KEY_0", "pack.threads").env("GIT_CONFIG_VALUE_0", "-60");
        command.env("GIT_CONFIG_KEY_1", "Pack.Threads").env("GIT_CONFIG_VALUE_1", "-6");
    });
    check(&repo, Some(-7), |command| {
        set(command);
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "pack.threads").env("GIT_CONFIG_VALUE_0", "-6");
        command.env("GIT_CONFIG_PARAMETERS", "'pack.threads=-70' 'pack.threads'='-7'");
    });
    check(&repo, Some(-8), |command| {
        set(command);
        command.env("GIT_CONFIG_PARAMETERS", "'pack.threads'='-70' 'pack.threads=-71'");
        command.args(["-c", "pack.threads=-72", "-c", "pack.threads=-8"]);
    });
    check(&repo, Some(-9), |command| {
        set(command);
        command.env("NINE", "-9").args(["-c", "pack.threads=-8", "--config-env=pack.threads=NINE"]);
    });
}

#[test]
fn switched_off_sources() {
    let repo = TestRepo::init(Hash::Sha1);
    let scratch = repo.scratch();
    let (system, global, home) = (scratch.join("system"), scratch.join("global"), scratch.join("home"));
    write(&system, &threads(-1));
    write(&home.join(".config/git/config"), &threads(-2));
    write(&global, &threads(-3));
    let set = |command: &mut Command| {
        command.env("GIT_CONFIG_SYSTEM", &system).env("HOME", &home).env_remove("XDG_CONFIG_HOME");
    };
    check(&repo, Some(-2), set);
    check(&repo, Some(-3), |command| {
        set(command);
        command.env("GIT_CONFIG_GLOBAL", &global);
    });
    check(&repo, Some(-1), |command| {
        set(command);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null");
    });
    check(&repo, None, |command| {
        set(command);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "yes");
    });
}

#[test]
fn includes() {
    let repo = TestRepo::init(Hash::Sha1);
    repo.commit_files(&[("a", b"a")], "a");
    let home = repo.scratch().join("home");
    let set = |command: &mut Command| {
        command.env("HOME", &home).env("XDG_CONFIG_HOME", home.join("none"));
    };
    let config = repo.git_dir().join("config");
    let original = std::fs::read_to_string(&config).unwrap();
    write(&home.join("one"), &threads(-1));
    write(&repo.git_dir().join("two"), &threads(-2));
    write(&repo.git_dir().join("deep/three"), "[include]\n\tpath = ../two\n[pack]\n\tthreads = -3\n");
    let real = repo.path().canonicalize().unwrap();
    let real = real.display();
    let table: Vec<(String, Option<i32>)> = vec![
        ("[include]\n\tpath = ~/one\n".into(), Some(-1)),
        ("[include]\n\tpath = two\n".into(), Some(-2)),
        ("[include]\n\tpath = no-such-file\n".into(), None),
        // The later include wins, and what follows an include wins over it, in the same section, too.
        ("[include]\n\tpath = two\n\tpath = ~/one\n".into(), Some(-1)),
        ("[include]\n\tpath = ~/one\n\tpath = two\n".into(), Some(-2)),
        ("[pack]\n\tthreads = -9\n[include]\n\tpath = two\n[pack]\n".into(), Some(-2)),
        ("[include]\n\tpath = two\n[pack]\n\tthreads = -9\n".into(), Some(-9)),
        ("[include]\n\tpath = deep/three\n".into(), Some(-3)),
        (format!("[includeIf \"gitdir:{real}/.git\"]\n\tpath = two\n"), Some(-2)),
        (format!("[includeIf \"gitdir:{real}/\"]\n\tpath = two\n"), Some(-2)),
        ("[includeIf \"gitdir:repo/\"]\n\tpath = two\n".into(), Some(-2)),
        ("[includeIf \"gitdir:REPO/\"]\n\tpath = two\n".into(), None),
        ("[includeIf \"gitdir/i:REPO/\"]\n\tpath = two\n".into(), Some(-2)),
        ("[includeIf \"gitdir:elsewhere/\"]\n\tpath = two\n".into(), None),
        ("[includeIf \"gitdir:./\"]\n\tpath = two\n".into(), None),
        ("[includeIf \"onbranch:main\"]\n\tpath = two\n".into(), Some(-2)),
        ("[includeIf \"onbranch:ma*\"]\n\tpath = two\n".into(), Some(-2)),
        ("[includeIf \"onbranch:topic/\"]\n\tpath = two\n".into(), None),
        ("[includeIf \"unknown:x\"]\n\tpath = two\n".into(), None),
        (
            "[includeIf \"hasconfig:remote.*.url:https://example.com/**\"]\n\tpath = two\n\
             [remote \"origin\"]\n\turl = https://example.com/x/y\n"
                .into(),
            Some(-2),
        ),
        ("[includeIf \"hasconfig:remote.*.url:https://example.com/**\"]\n\tpath = two\n".into(), None),
    ];
    for (text, want) in table {
        std::fs::write(&config, format!("{original}{text}")).unwrap();
        eprintln!("{text}");
        check(&repo, want, set);
    }
    std::fs::write(&config, format!("{original}[include]\n\tpath = config\n")).unwrap();
    let (code, text) = said(&packstone(&repo, &["pack-objects", "--stdout"], ""));
    assert_eq!(code, Some(128));
    assert!(text.starts_with("fatal: exceeded maximum include depth (10) while including"), "{text}");
}

#[test]
fn bad_values() {
    let repo = TestRepo::init(Hash::Sha1);
    let config = repo.git_dir().join("config");
    let original = std::fs::read_to_string(&config).unwrap();
    for (text, want) in [
        (
            "[pack]\n\twindow = abc\n",
            "bad numeric config value 'abc' for 'pack.window' in file .git/config: invalid unit",
        ),
        ("[pack]\n\tdepth = 9g\n", "bad numeric config value '9g' for 'pack.depth' in file .git/config: out of range"),
        (
            "[pack]\n\twindowMemory = -1\n",
            "bad numeric config value '-1' for 'pack.windowmemory' in file .git/config: invalid unit",
        ),
        ("[pack]\n\tthreads\n", "bad numeric config value '' for 'pack.threads' in file .git/config: invalid unit"),
        ("[pack]\n\tuseBitmaps = maybe\n", "bad boolean config value 'maybe' for 'pack.usebitmaps'"),
        // An overruled value is read, too.
        (
            "[pack]\n\tuseBitmaps = maybe\n\tuseBitmaps = true\n",
            "bad boolean config value 'maybe' for 'pack.usebitmaps'",
        ),
        ("[pack]\n\tcompression = 10\n", "bad pack compression level 10"),
        ("[core]\n\tcompression = 10\n", "bad zlib compression level 10"),
        ("[pack]\n\tindexVersion = 3\n", "bad pack.indexVersion=3"),
        ("[pack]\n\tallowPackReuse = some\n", "invalid pack.allowPackReuse value: 'some'"),
        ("[pack\n", "bad config line "),
    ] {
        std::fs::write(&config, format!("{original}{text}")).unwrap();
        let (code, said) = said(&packstone(&repo, &["pack-objects", "--stdout"], ""));
        assert_eq!(code, Some(128), "{text}");
        assert!(said.starts_with(&format!("fatal: {want}")), "{text}: {said}");
    }
    std::fs::write(&config, &original).unwrap();
    let (_, text) = said(&packstone(&repo, &["-c", "pack.window=1x", "pack-objects", "--stdout"], ""));
    assert_eq!(text, "fatal: bad numeric config value '1x' for 'pack.window': invalid unit\n");
    for (name, value, want) in [
        (
            "GIT_CONFIG_PARAMETERS",
            "'a.b",
            "fatal: unable to parse command-line config (bogus format in GIT_CONFIG_PARAMETERS)\n",
        ),
        ("GIT_CONFIG_COUNT", "x", "fatal: bogus count in GIT_CONFIG_COUNT\n"),
        ("GIT_CONFIG_COUNT", "9", "fatal: missing config key GIT_CONFIG_KEY_4\n"),
        ("GIT_CONFIG_COUNT", "99999999999", "fatal: too many entries in GIT_CONFIG_COUNT\n"),
    ] {
        let mut command = repo.program(PROGRAM);
        let output = output(command.env(name, value).args(["pack-objects", "--stdout"]), b"");
        assert_eq!(said(&output), (Some(128), want.to_owned()), "{name}={value}");
    }
    // A limit that a file would have to honour is refused; a stream has none.
    let limited = ["-c", "pack.packSizeLimit=1m", "pack-objects"];
    let file = repo.scratch().join("p");
    let words = [&limited[..], &[file.to_str().unwrap()]].concat();
    assert_eq!(said(&packstone(&repo, &words, "")).0, Some(129));
    assert_eq!(said(&packstone(&repo, &[&limited[..], &["--stdout"]].concat(), "")).0, Some(0));
}
