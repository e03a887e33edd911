//! Files are written whole or not at all: into a temporary file beside the target, then moved over it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Replaces the content of an existing file; its permissions stay, and a symbolic link stays a link.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let target = fs::canonicalize(path)?;
    let permissions = fs::metadata(&target)?.permissions();
    if permissions.readonly() {
        let reason = "the file is read-only";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    let file = beside(&target, content.as_ref())?;
    file.as_file().set_permissions(permissions)?;
    file.persist(&target)?;
    Ok(())
}

/// Writes a file that must not exist yet.
pub fn create(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    beside(path, content.as_ref())?.persist_noclobber(path)?;
    Ok(())
}

/// Writes a file, whether there is one already or not; what is there and is no file stays as it is.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => replace(path, content),
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path, content),
        Err(error) => Err(error),
    }
}

/// The content in a temporary file in the target's directory; it vanishes unless it is moved.
fn beside(target: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".energyc-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_but_never_created_over_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        assert!(replace(&path, "x").is_err());
        create(&path, "one").expect("a new file");
        let refused = create(&path, "two").expect_err("it exists");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).expect("text"), "one");
        replace(&path, "three").expect("a replacement");
        assert_eq!(fs::read_to_string(&path).expect("text"), "three");
        write(&path, "four").expect("a replacement");
        assert_eq!(fs::read_to_string(&path).expect("text"), "four");
        assert_eq!(fs::read_dir(folder.path()).expect("entries").count(), 1);
        write(&folder.path().join("b"), "five").expect("a new file");
        assert!(write(folder.path(), "six").is_err());
    }
}
