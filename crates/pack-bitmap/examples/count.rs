//! Counts what a clone of some commits would send, by bitmap:
//! `cargo run --release --example count -- REPO.git/objects WANT... [^HAVE...]`.

use std::time::Instant;

use object::{HashKind, ObjectId};
use odb::{Options, Store};
use packstone_pack_bitmap::{OpenOptions, Request, answer, find};
use revwalk::{CommitGraph, Commits, Numbering, Shallow};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let objects = args.next().ok_or("usage: count OBJECTS-DIR WANT... [^HAVE...]")?;
    let (mut wants, mut haves) = (Vec::<ObjectId>::new(), Vec::<ObjectId>::new());
    for arg in args {
        match arg.strip_prefix('^') {
            Some(id) => haves.push(id.parse()?),
            None => wants.push(arg.parse()?),
        }
    }
    let hash = wants.first().map_or(HashKind::Sha1, ObjectId::kind);

    let start = Instant::now();
    let store = Store::open(objects.as_ref(), Options::new(hash))?;
    let found = find(&store, &OpenOptions::default())?;
    for problem in &found.problems {
        eprintln!("warning: {problem}");
    }
    let Some((pack, file)) = found.bitmap else {
        return Err("no usable bitmap".into());
    };
    let opened = start.elapsed();
    let (graph, _) = CommitGraph::open(&[objects.as_ref()], hash);
    let commits = Commits::new(&store, graph, Shallow::none());
    let numbering = Numbering::new(&store, Some(&pack))?;
    pack.order()?;
    let ordered = start.elapsed();
    let answer = answer(&numbering, &file, &commits, &Request::new(&wants).haves(&haves))?;
    let answered = start.elapsed();

    println!("{} objects", answer.objects.count());
    println!("{:?}", answer.stats);
    println!("opened in {opened:?}, order in {:?}, answered in {:?}", ordered - opened, answered - ordered);
    Ok(())
}
