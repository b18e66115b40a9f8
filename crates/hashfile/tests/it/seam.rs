//! Our seam to the file system on testkit's disk. Other crates' tests include this file; the crate is `crate::fs` there.

use std::fs::{File, Permissions};
use std::io::{self, Seek};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use testkit::disk::{Disk, Op};

use crate::fs::{FileSystem, RealFs};

/// Changes are made by the system, after the disk was asked. Nothing is really synced: the disk remembers what was.
#[derive(Debug, Clone)]
pub(crate) struct Seam(Arc<Disk>);

/// The file system on a disk.
pub(crate) fn on(disk: &Arc<Disk>) -> Arc<dyn FileSystem> {
    Arc::new(Seam(Arc::clone(disk)))
}

impl FileSystem for Seam {
    fn create_new(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.0.step(Op::Create(path.into()), || RealFs.create_new(path, mode))
    }

    fn write(&self, path: &Path, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        let at = file.stream_position()?;
        self.0.write(path, at, bytes, |bytes| RealFs.write(path, file, bytes))
    }

    fn set_len(&self, path: &Path, file: &File, len: u64) -> io::Result<()> {
        self.0.step(Op::SetLen(path.into(), len), || RealFs.set_len(path, file, len))
    }

    fn set_permissions(&self, path: &Path, file: Option<&File>, permissions: Permissions) -> io::Result<()> {
        self.0.step(Op::Other("set_permissions", path.into()), || RealFs.set_permissions(path, file, permissions))
    }

    fn sync_data(&self, path: &Path, _: &File) -> io::Result<()> {
        self.0.step(Op::Sync(path.into()), || Ok(()))
    }

    fn sync_full(&self, path: &Path, _: &File) -> io::Result<()> {
        self.0.step(Op::Sync(path.into()), || Ok(()))
    }

    fn sync_filesystem(&self, _: &Path) -> io::Result<bool> {
        self.0.step(Op::SyncAll, || Ok(true))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.step(Op::SyncDir(dir.into()), || Ok(()))
    }

    fn close(&self, path: &Path, file: File) -> io::Result<()> {
        self.0.step(Op::Other("close", path.into()), || RealFs.close(path, file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.step(Op::Rename(from.into(), to.into()), || RealFs.rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.step(Op::Rename(from.into(), to.into()), || RealFs.rename_new(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.step(Op::Remove(path.into()), || RealFs.remove_file(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.step(Op::MakeDir(path.into()), || RealFs.create_dir(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.step(Op::RemoveDir(path.into()), || RealFs.remove_dir(path))
    }

    fn set_times(&self, path: &Path, to: Option<SystemTime>) -> io::Result<()> {
        self.0.step(Op::Other("set_times", path.into()), || RealFs.set_times(path, to))
    }
}
