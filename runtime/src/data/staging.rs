//! A folder that appears whole or not at all: it is filled beside its place, under a hidden name, and moved at the end.
//!
//! What fails is cleaned up at once; what a killed run left behind is replaced by the next one.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Held while a folder is filled.
const LOCK: &str = "lock";

/// A folder that is being filled.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    partial: PathBuf,
    /// Files of these names alone may be replaced.
    files: &'static [&'static str],
    is_done: bool,
    /// Two runs never fill the same folder; the system drops it with the process.
    _lock: File,
}

impl Staging {
    /// Begins a folder made of these files. One that exists is replaced only if that is wanted.
    pub fn begin(target: &Path, files: &'static [&'static str], replace: bool) -> Result<Staging, String> {
        check(target, files, replace)?;
        let partial = beside(target, "partial")?;
        let cannot = |error: &dyn std::fmt::Display| format!("cannot write `{}`: {error}", partial.display());
        if let Err(error) = fs::create_dir(&partial)
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(cannot(&error));
        }
        let lock = File::create(partial.join(LOCK)).map_err(|error| cannot(&error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(format!("another run is writing `{}`", target.display())),
            Err(TryLockError::Error(error)) => return Err(cannot(&error)),
        }
        for file in files {
            if let Err(error) = fs::remove_file(partial.join(file))
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(cannot(&error));
            }
        }
        Ok(Staging { target: target.to_path_buf(), partial, files, is_done: false, _lock: lock })
    }

    /// Where a file is written.
    pub fn path(&self, file: &str) -> PathBuf {
        self.partial.join(file)
    }

    /// Moves the folder to its place.
    pub fn finish(mut self) -> Result<(), String> {
        let target = self.target.clone();
        let cannot = |error: std::io::Error| format!("cannot write `{}`: {error}", target.display());
        let old = beside(&target, "replaced")?;
        if target.exists() {
            check(&target, self.files, true)?;
            remove(&old, self.files);
            fs::rename(&target, &old).map_err(cannot)?;
        }
        fs::remove_file(self.partial.join(LOCK)).map_err(cannot)?;
        fs::rename(&self.partial, &target).map_err(cannot)?;
        self.is_done = true;
        remove(&old, self.files);
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_done {
            remove(&self.partial, self.files);
        }
    }
}

/// Whether the folder may be written, without touching what others put there.
fn check(target: &Path, files: &[&str], replace: bool) -> Result<(), String> {
    let shown = target.display();
    let Ok(found) = fs::symlink_metadata(target) else { return Ok(()) };
    if !found.is_dir() {
        return Err(format!("`{shown}` exists and is no folder"));
    }
    if !replace {
        return Err(format!("`{shown}` exists already; --force replaces it"));
    }
    let entries = fs::read_dir(target).map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    for entry in entries {
        let name = entry.map_err(|error| format!("cannot read `{shown}`: {error}"))?.file_name();
        if !files.iter().any(|file| name == *file) {
            return Err(format!("`{shown}` is not replaced: `{}` in it was made by others", name.display()));
        }
    }
    Ok(())
}

/// A hidden name in the same folder.
fn beside(target: &Path, what: &str) -> Result<PathBuf, String> {
    let name = target.file_name().ok_or_else(|| format!("`{}` cannot be a new folder", target.display()))?;
    Ok(target.with_file_name(format!(".{}.{what}", name.to_string_lossy())))
}

/// Removes these files, and the folder if nothing else is in it.
fn remove(folder: &Path, files: &[&str]) {
    for file in files.iter().chain([&LOCK]) {
        let _ = fs::remove_file(folder.join(file));
    }
    let _ = fs::remove_dir(folder);
}
