//! The program as its users meet it: command lines, environments, real repositories, and git beside it.

use std::process::Output;

use testkit::repo::{TestRepo, output};

mod cat_file;
mod config;
mod discovery;
mod git_suite;
mod hash_object;
mod hook;
mod index;
mod index_pack;
mod ls_files;
mod multi_pack_index;
mod ownership;
mod packs;
mod prune_packed;
mod show_index;
mod trees;
mod unpack_objects;
mod update_index;
mod usage;
mod verify_pack;

/// Our program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_packstone");

/// Runs our program in the repository's isolated environment.
fn packstone(repo: &TestRepo, words: &[&str], input: &str) -> Output {
    output(repo.program(PROGRAM).args(words), input.as_bytes())
}

/// Exit code, and standard error as text.
fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Asserts success, and gives standard output.
#[track_caller]
fn succeeded(output: Output) -> Vec<u8> {
    let (code, text) = said(&output);
    assert_eq!(code, Some(0), "{text}");
    output.stdout
}
