//! The commands, a page each.

use std::ffi::OsString;

use crate::env::Environment;
use crate::report::Failure;

pub(crate) mod cat_file;
pub(crate) mod hash_object;
pub(crate) mod hook;
pub(crate) mod index;
pub(crate) mod index_pack;
pub(crate) mod ls_files;
pub(crate) mod multi_pack_index;
pub(crate) mod pack_objects;
pub(crate) mod prune_packed;
pub(crate) mod read_tree;
pub(crate) mod receive;
pub(crate) mod show_index;
pub(crate) mod unpack_objects;
pub(crate) mod update_index;
pub(crate) mod verify_pack;
pub(crate) mod write_tree;

/// A command: its name, what it is for, its help page, and its work.
pub(crate) struct Entry {
    /// As typed.
    pub(crate) name: &'static str,
    /// One line for the list of commands.
    pub(crate) about: &'static str,
    /// The page that `--help` shows.
    pub(crate) page: fn() -> String,
    /// Does it. Gets the words behind the name.
    pub(crate) run: fn(Environment, &[OsString]) -> Result<(), Failure>,
}

/// Every command.
pub(crate) const ALL: &[Entry] = &[
    Entry {
        name: "pack-objects",
        about: "write a pack of chosen objects to a file or to standard output",
        page: pack_objects::page,
        run: pack_objects::run,
    },
    Entry {
        name: "index-pack",
        about: "make the index of a pack, or receive one",
        page: index_pack::page,
        run: index_pack::run,
    },
    Entry {
        name: "unpack-objects",
        about: "write the objects of a pack as loose ones",
        page: unpack_objects::page,
        run: unpack_objects::run,
    },
    Entry {
        name: "verify-pack",
        about: "hold packs against their indexes",
        page: verify_pack::page,
        run: verify_pack::run,
    },
    Entry {
        name: "multi-pack-index",
        about: "write, verify and tidy up the index of all packs",
        page: multi_pack_index::page,
        run: multi_pack_index::run,
    },
    Entry {
        name: "update-index",
        about: "bring files of the work tree, or entries as given, into the index",
        page: update_index::page,
        run: update_index::run,
    },
    Entry { name: "ls-files", about: "list what is in the index", page: ls_files::page, run: ls_files::run },
    Entry {
        name: "write-tree",
        about: "make the trees of what is in the index",
        page: write_tree::page,
        run: write_tree::run,
    },
    Entry { name: "read-tree", about: "make the index that of a tree", page: read_tree::page, run: read_tree::run },
    Entry {
        name: "hash-object",
        about: "name the objects that files hold, and store them",
        page: hash_object::page,
        run: hash_object::run,
    },
    Entry {
        name: "cat-file",
        about: "show objects, or what is known about them",
        page: cat_file::page,
        run: cat_file::run,
    },
    Entry { name: "show-index", about: "list the index of a pack", page: show_index::page, run: show_index::run },
    Entry {
        name: "prune-packed",
        about: "delete loose objects that packs have as well",
        page: prune_packed::page,
        run: prune_packed::run,
    },
    Entry {
        name: "index",
        about: "show what an index file is made of, and what is wrong with it",
        page: index::page,
        run: index::run,
    },
    Entry {
        name: "hook",
        about: "answer the calls that git makes through uploadpack.packObjectsHook",
        page: hook::page,
        run: hook::run,
    },
];

/// The command of this name.
pub(crate) fn find(name: &std::ffi::OsStr) -> Option<&'static Entry> {
    ALL.iter().find(|entry| name == entry.name)
}
