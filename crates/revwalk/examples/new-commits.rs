//! Lists the commits of one revision that another does not have, as `git rev-list <new> ^<old>` does.
//!
//! `cargo run --example new-commits -- <objects-dir> <new-id> <old-id>`

use std::path::Path;

use object::ObjectId;
use odb::{Options, Store};
use packstone_revwalk::{CommitGraph, Commits, LimitOptions, Shallow, limit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [objects, ids @ ..] = &*args else {
        return Err("usage: new-commits <objects-dir> <new-id> [<old-id>...]".into());
    };
    let ids: Vec<ObjectId> = ids.iter().map(|id| id.parse()).collect::<Result<_, _>>()?;
    let [new, old @ ..] = &*ids else { return Err("no id given".into()) };
    let (objects, hash) = (Path::new(objects), new.kind());

    let store = Store::open(objects, Options::new(hash))?;
    let (graph, problems) = CommitGraph::open(&[objects], hash);
    for problem in problems {
        eprintln!("warning: {problem}");
    }
    let commits = Commits::new(&store, graph, Shallow::none());
    for commit in limit(&commits, &[*new], old, &LimitOptions::default())?.commits {
        println!("{}", commit.id);
    }
    Ok(())
}
