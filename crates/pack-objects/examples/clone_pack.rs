//! Writes the pack that a clone of some commits would get: `clone_pack REPO.git ID... > clone.pack`.

use std::error::Error;
use std::os::fd::AsFd;
use std::path::Path;

use object::ObjectId;
use odb::{Options, Quiet, Store};
use packstone_pack_objects::{Request, SelectOptions, Selection, WriteOptions, write_stream};
use revwalk::{CommitGraph, Commits, Shallow};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let objects = Path::new(&args.next().ok_or("usage: clone_pack REPO.git ID...")?).join("objects");
    let wants = args.map(|arg| arg.parse()).collect::<Result<Vec<ObjectId>, _>>()?;
    let hash = wants.first().ok_or("no id given")?.kind();

    let store = Store::open(&objects, Options::new(hash))?;
    let (graph, _problems) = CommitGraph::open(&[&objects], hash);
    let commits = Commits::new(&store, graph, Shallow::none());
    let request = Request { wants: &wants, haves: &[], filter: None, tags: &[] };
    let select = SelectOptions::default().bitmaps(true);
    let selection = Selection::of_request(&store, &commits, request, &select, &Quiet)?;
    eprintln!("{:?}", selection.walked);
    for warning in &selection.warnings {
        eprintln!("warning: {warning}");
    }

    let options = WriteOptions::default().delta_base_offset(true).threads(2);
    let stdout = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let outcome = write_stream(&selection, &options, stdout, &Quiet)?;
    eprintln!("{} objects, {} bytes, {} reused with their pack", outcome.count, outcome.bytes, outcome.pack_reused);
    Ok(())
}
