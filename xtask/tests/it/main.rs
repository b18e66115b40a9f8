//! xtask as a program: what its hidden commands promise to the visible ones.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn xtask() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.stdin(Stdio::null());
    command
}

/// A folder of the test's own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn numbers(report: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(report).unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_measured_program_gets_its_input_and_its_own_options() {
    let folder = folder("measured");
    std::fs::write(folder.join("in"), "request\n").unwrap();
    let mut command = xtask();
    command.current_dir(&folder).args(["run-measured", "--report", "report", "--stdin", "in"]);
    command.args(["--sink", "file:out", "--", "sh", "-c", "cat; echo \"$1\"; sleep 0.1", "sh", "--dry-run"]);
    succeeded(&command.output().unwrap());
    assert_eq!(std::fs::read_to_string(folder.join("out")).unwrap(), "request\n--dry-run\n");
    let [wall, _cpu, peak] = numbers(&folder.join("report"))[..] else { panic!("three numbers") };
    assert!((0.1..10.0).contains(&wall), "{wall}");
    assert!((100.0..200_000.0).contains(&peak), "{peak} KiB");
}

#[test]
fn a_failing_program_is_not_measured() {
    let folder = folder("failing");
    let mut command = xtask();
    command.current_dir(&folder).args(["run-measured", "--report", "report", "--stdin", "/dev/null"]);
    command.args(["--sink", "pipe", "--", "sh", "-c", "exit 3"]);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("exit code 3"));
}

#[test]
fn the_hook_keeps_requests_and_passes_everything_through() {
    let folder = folder("hook");
    for n in 0..2 {
        std::fs::write(folder.join("in"), format!("want {n}\n")).unwrap();
        let mut command = xtask();
        command.arg("hook-measured").arg(&folder).args(["--", "sh", "-c", "cat; exit $1", "sh"]);
        command.arg(if n == 0 { "0" } else { "7" });
        let output = command.stdin(std::fs::File::open(folder.join("in")).unwrap()).output().unwrap();
        assert_eq!(output.stdout, format!("want {n}\n").as_bytes());
        assert_eq!(output.status.code(), Some(if n == 0 { 0 } else { 7 }));
        let kept = std::fs::read_to_string(folder.join(format!("{n}.stdin"))).unwrap();
        assert_eq!(kept, format!("want {n}\n"));
        assert!(folder.join(format!("{n}.argv")).exists());
        // Only what ended well has a cost.
        assert_eq!(folder.join(format!("{n}.cost")).exists(), n == 0);
    }
}

#[test]
fn a_dry_run_only_tells() {
    let folder = folder("dry");
    let repo = folder.join("repo");
    let output = xtask().arg("--dry-run").arg("gen-repo").arg(&repo).output().unwrap();
    succeeded(&output);
    assert!(String::from_utf8_lossy(&output.stdout).contains("git init"));
    assert!(!repo.exists());
    let output = xtask().args(["no-such-command"]).output().unwrap();
    assert!(!output.status.success());
}
