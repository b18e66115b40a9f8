//! `tidy`: what the compiler does not check. The tree is read as text; each finding names a file.
//!
//! Ranks (an edge goes down, never sideways or up), manifests, licences, front pages, the places where `unsafe`, zlib
//! libraries, printing and the environment may appear, words that mean unfinished work, dead links.

use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::git::files_in;
use crate::sh::{Sh, cargo, root};
use crate::{Context as _, Result, fail};

/// The house: folder and rank. A crate may use every crate of a lower rank and none of its own.
const RANKS: [(&str, u32); 12] = [
    ("ewah", 0),
    ("hash-lanes", 0),
    ("object", 1),
    ("hashfile", 2),
    ("pack-format", 3),
    ("index", 3),
    ("odb", 4),
    ("revwalk", 5),
    ("index-pack", 5),
    ("pack-bitmap", 6),
    ("pack-objects", 7),
    ("cli", 8),
];

/// The only files that may hold `unsafe`, each use under an expectation with its reason.
const UNSAFE_FILES: [&str; 2] = ["crates/odb/src/source.rs", "crates/index/src/source.rs"];

/// The only file that may name a zlib library.
const ZLIB_FILE: &str = "crates/pack-format/src/zlib.rs";

pub(crate) fn run(sh: Sh, args: Args) -> Result<()> {
    args.finish()?;
    let root = root();
    let mut problems = Vec::new();

    let tree = |edges: &str| {
        let args = ["tree", "--workspace", "--depth=1", "--prefix=depth", "--no-dedupe"];
        sh.read(cargo(&root).args(args).args(["--all-features", "--target=all", "--edges", edges]))
    };
    let shipped = tree("normal,build")?;
    let everything = tree("normal,build,dev")?;
    if sh.dry_run {
        return Ok(());
    }
    problems.extend(rank_problems(&everything));
    problems.extend(
        edges(&shipped)
            .filter(|(_, to)| to == "testkit")
            .map(|(from, _)| format!("{from}: testkit may only be a dev-dependency")),
    );

    for folder in files_in(&root.join("crates"))? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != "testkit" && !RANKS.iter().any(|(ranked, _)| *ranked == name) {
            problems.push(format!("crates/{name}: no rank; add it to the table in xtask/src/tidy.rs"));
        }
        crate_problems(&folder, &name, &mut problems)?;
    }

    for folder in files_in(&root.join("bench"))? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest = folder.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).context(|| format!("read {}", manifest.display()))?;
        problems.extend(rival_problems(&name, &text, folder.join("Cargo.lock").is_file()));
    }

    let mut files = Vec::new();
    text_files(&root, &mut files)?;
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(file).context(|| format!("read {name}"))?;
        problems.extend(text_problems(&name, &text));
        if name.ends_with(".rs") {
            problems.extend(source_problems(&name, &text));
        }
        if name.ends_with(".md") {
            let folder = file.parent().unwrap_or(&root);
            problems.extend(
                links(&text)
                    .filter(|link| !folder.join(link).exists())
                    .map(|link| format!("{name}: dead link to {link}")),
            );
        }
    }

    if problems.is_empty() {
        println!("tidy: {} files, {} crates, nothing to say", files.len(), RANKS.len());
        return Ok(());
    }
    for problem in &problems {
        println!("tidy: {problem}");
    }
    fail(format!("tidy found {} problems", problems.len()))
}

/// Edges between members of the workspace in the output of `cargo tree --prefix=depth --depth=1`, as folder names.
fn edges(tree: &str) -> impl Iterator<Item = (String, String)> {
    let mut from = None;
    tree.lines().filter_map(move |line| {
        let (depth, package) = line.split_at_checked(1)?;
        let folder = member(package);
        if depth == "0" {
            from = folder;
            return None;
        }
        Some((from.clone()?, folder?))
    })
}

/// `packstone-odb v0.1.0 (/path/to/crates/odb)` is a member of the workspace, in folder `odb`; what has no path is not.
fn member(package: &str) -> Option<String> {
    let (_, path) = package.split_once(" (")?;
    let path = path.split_once(')')?.0.replace('\\', "/");
    if !path.contains('/') {
        return None; // "(proc-macro)"
    }
    path.rsplit('/').next().map(str::to_owned)
}

fn rank_problems(tree: &str) -> Vec<String> {
    let rank = |folder: &str| RANKS.iter().find(|(name, _)| *name == folder).map(|(_, rank)| *rank);
    edges(tree)
        .filter_map(|(from, to)| match (rank(&from), rank(&to)) {
            (Some(above), Some(below)) if above > below => None,
            (Some(_), None) if to == "testkit" => None,
            (above, below) => Some(format!(
                "{from} (rank {}) depends on {to} (rank {}): edges point down only",
                above.map_or("none".to_owned(), |rank| rank.to_string()),
                below.map_or("none".to_owned(), |rank| rank.to_string()),
            )),
        })
        .collect()
}

/// Manifest, licences and front pages of one crate.
fn crate_problems(folder: &Path, name: &str, problems: &mut Vec<String>) -> Result<()> {
    let manifest = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).context(|| format!("read {}", manifest.display()))?;
    problems.extend(manifest_problems(name, &text));
    if published(name) {
        for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if !folder.join(file).is_file() {
                problems.push(format!("crates/{name}: no {file}"));
            }
        }
    }
    if !folder.join("src/lib.rs").is_file() && !folder.join("src/main.rs").is_file() {
        problems.push(format!("crates/{name}: neither src/lib.rs nor src/main.rs"));
    }
    let fuzz = folder.join("fuzz/Cargo.toml");
    if fuzz.is_file() {
        let text = std::fs::read_to_string(&fuzz).context(|| format!("read {}", fuzz.display()))?;
        if !text.lines().any(|line| line.trim() == "[workspace]") {
            problems.push(format!("crates/{name}/fuzz: must be a workspace of its own"));
        }
        if !folder.join("tests/it/regressions.rs").is_file() {
            problems.push(format!("crates/{name}: no tests/it/regressions.rs runs the fuzz bodies"));
        }
    }
    Ok(())
}

fn published(name: &str) -> bool {
    name != "testkit"
}

fn manifest_problems(name: &str, text: &str) -> Vec<String> {
    let has = |wanted: &str| text.lines().any(|line| line.trim() == wanted);
    let starts = |wanted: &str| text.lines().any(|line| line.trim().starts_with(wanted));
    let package = if name == "cli" { "packstone".to_owned() } else { format!("packstone-{name}") };
    let mut missing = Vec::new();
    let mut want = |present: bool, what: &str| {
        if !present {
            missing.push(format!("crates/{name}/Cargo.toml: no `{what}`"));
        }
    };
    for line in ["edition.workspace = true", "rust-version.workspace = true", "license.workspace = true"] {
        want(has(line), line);
    }
    want(text.contains("[lints]\nworkspace = true"), "[lints] workspace = true");
    want(starts("description = "), "description");
    if published(name) {
        want(has(&format!("name = \"{package}\"")), &format!("name = \"{package}\""));
        want(has("repository.workspace = true"), "repository.workspace = true");
        want(has("readme = \"README.md\""), "readme = \"README.md\"");
        want(!has("publish = false"), "publishing allowed");
    } else {
        want(has("publish = false"), "publish = false");
    }
    missing
}

/// Manifest of a crate that measures somebody else's library: it must not reach what we ship.
fn rival_problems(name: &str, text: &str, locked: bool) -> Vec<String> {
    let has = |wanted: &str| text.lines().any(|line| line.trim() == wanted);
    let mut problems = Vec::new();
    for line in ["[workspace]", "publish = false"] {
        if !has(line) {
            problems.push(format!("bench/{name}/Cargo.toml: no `{line}`"));
        }
    }
    if !locked {
        problems.push(format!("bench/{name}: no Cargo.lock, so that figures could be of any version"));
    }
    problems
}

/// Files of text that are ours: sources, manifests, documents, scripts.
fn text_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    const SKIPPED: [&str; 6] = ["target", ".git", "corpus", "artifacts", "regressions", "golden"];
    for path in files_in(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                text_files(&path, found)?;
            }
        } else if [".rs", ".md", ".toml", ".sh", ".yml"].iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    Ok(())
}

fn text_problems(name: &str, text: &str) -> Vec<String> {
    // Spelled in halves: this file is checked too.
    let unfinished = [["TO", "DO"], ["FIX", "ME"], ["dbg", "!("], ["todo", "!("], ["unimplemented", "!("]];
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for word in &unfinished {
            if line.contains(&word.concat()) {
                problems.push(format!("{name}:{number}: {}", word.concat()));
            }
        }
        if line.ends_with(' ') || line.ends_with('\t') {
            problems.push(format!("{name}:{number}: trailing space"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        problems.push(format!("{name}: no newline at the end"));
    }
    problems
}

fn source_problems(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let Some((folder, inner)) = name.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) else {
        if name == "xtask/src/main.rs" && !text.contains("#![forbid(unsafe_code)]") {
            problems.push(format!("{name}: no #![forbid(unsafe_code)]"));
        }
        return problems;
    };
    if !inner.starts_with("src/") {
        return problems;
    }
    if !text.starts_with("//!") {
        problems.push(format!("{name}: does not begin with its documentation (//!)"));
    }
    if inner == "src/lib.rs" || inner == "src/main.rs" {
        let allowed = UNSAFE_FILES.iter().any(|file| file.starts_with(&format!("crates/{folder}/")));
        if !allowed && !text.contains("#![forbid(unsafe_code)]") {
            problems.push(format!("{name}: no #![forbid(unsafe_code)]"));
        }
    }
    let library = folder != "cli" && folder != "testkit";
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        let mut find = |forbidden: &[&str], why: &str| {
            for word in forbidden {
                if code.contains(word) {
                    problems.push(format!("{name}:{number}: `{word}`: {why}"));
                }
            }
        };
        if !UNSAFE_FILES.contains(&name) {
            find(&["unsafe {", "unsafe fn", "unsafe impl"], "not in this file");
        }
        if folder != "testkit" && name != ZLIB_FILE {
            find(&["zlib_rs::", "sirocco::"], "only pack-format's zlib module names a zlib library");
        }
        if library {
            find(&["println!(", "print!(", "eprintln!(", "eprint!("], "libraries never print");
            find(&["process::exit", "process::abort"], "libraries never exit");
            find(&["env::var", "env::args", "env::current_dir"], "libraries never read the environment");
        }
    }
    problems.dedup();
    problems
}

/// Relative targets of Markdown links, without their anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split_once(')')?.0;
        let target = target.split('#').next()?;
        let relative = !target.is_empty() && !target.contains("://") && !target.contains(char::is_whitespace);
        // Paths into rustdoc (`crate::X`) are not files.
        (relative && !target.contains("::")).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
0packstone-odb v0.1.0 (/w/crates/odb)
1memmap2 v0.9.0
1packstone-object v0.1.0 (/w/crates/object)
1testkit v0.0.0 (/w/crates/testkit)

0packstone-object v0.1.0 (/w/crates/object)
1thiserror-impl v2.0.0 (proc-macro)
";

    #[test]
    fn edges_may_only_go_down() {
        assert_eq!(
            edges(TREE).collect::<Vec<_>>(),
            [("odb".into(), "object".into()), ("odb".into(), "testkit".into())]
        );
        assert!(rank_problems(TREE).is_empty());
        let up = "0packstone-object v0 (/w/crates/object)\n1packstone-odb v0 (/w/crates/odb)\n";
        assert_eq!(rank_problems(up).len(), 1);
        let sideways = "0packstone-index v0 (/w/crates/index)\n1packstone-pack-format v0 (/w/crates/pack-format)\n";
        assert_eq!(rank_problems(sideways).len(), 1);
        let unknown = "0packstone-odb v0 (/w/crates/odb)\n1new v0 (/w/crates/new)\n";
        assert_eq!(rank_problems(unknown).len(), 1);
    }

    #[test]
    fn manifests_take_what_is_shared_from_the_workspace() {
        let good = "[package]\nname = \"packstone-odb\"\ndescription = \"x\"\nreadme = \"README.md\"\n\
                    edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
                    repository.workspace = true\n\n[lints]\nworkspace = true\n";
        assert_eq!(manifest_problems("odb", good), Vec::<String>::new());
        assert_eq!(manifest_problems("odb", &good.replace("edition.workspace = true", "edition = \"2021\"")).len(), 1);
        assert_eq!(manifest_problems("odb", &good.replace("[lints]\n", "")).len(), 1);
        assert_eq!(manifest_problems("index", good).len(), 1);
    }

    #[test]
    fn rivals_are_kept_apart() {
        let good = "[package]\npublish = false\n\n[workspace]\n";
        assert_eq!(rival_problems("x", good, true), Vec::<String>::new());
        assert_eq!(rival_problems("x", "[package]\n", false).len(), 3);
    }

    #[test]
    fn sources_are_checked_by_where_they_lie() {
        let lib = "//! Docs.\n#![forbid(unsafe_code)]\n";
        assert!(source_problems("crates/odb/src/lib.rs", "//! Docs.\n").is_empty());
        assert!(source_problems("crates/object/src/lib.rs", lib).is_empty());
        assert_eq!(source_problems("crates/object/src/lib.rs", "//! Docs.\n").len(), 1);
        assert_eq!(source_problems("crates/object/src/id.rs", "fn f() {}\n").len(), 1);
        let hidden = "//! Docs.\n// println!( is only mentioned\n";
        assert!(source_problems("crates/object/src/id.rs", hidden).is_empty());
        let printing = "//! Docs.\nfn f() { println!(\"x\") }\n";
        assert!(!source_problems("crates/object/src/id.rs", printing).is_empty());
        assert!(source_problems("crates/cli/src/report.rs", printing).is_empty());
        let zlib = "//! Docs.\nuse zlib_rs::x;\n";
        assert_eq!(source_problems("crates/odb/src/pack.rs", zlib).len(), 1);
        assert!(source_problems(ZLIB_FILE, zlib).is_empty());
    }

    #[test]
    fn unfinished_work_and_untidy_text_is_found() {
        let word = ["TO", "DO"].concat();
        assert_eq!(text_problems("x.rs", &format!("// {word}: later\n")).len(), 1);
        assert_eq!(text_problems("x.md", "a \nb").len(), 2);
        assert!(text_problems("x.md", "a\n").is_empty());
    }

    #[test]
    fn links_to_files_are_recognised() {
        let text = "[a](docs/a.md#part) [b](https://x.y/z) [c](#here) [d](crate::Type) [e](LICENSE)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md", "LICENSE"]);
    }
}
