//! `dp publish`: a copy of the released files of a run only.

use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use dp_accounting::Status;

use super::report::pages_anew;
use super::verify::checked_certificate;
use crate::error::{Error, Result};
use crate::output::{CERTIFICATE, MANIFEST, Manifest, OutputFolder, internal_folder_of};
use crate::report::{PAGES, ReportedRun};
use crate::settings::PublishSettings;

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The published files.
    pub files: Vec<PathBuf>,
    /// Files of the folder that the certificate does not cover and that were not copied.
    pub left_out: Vec<PathBuf>,
}

/// Checks the certificate of a release folder as [`verify`](super::verify::verify) does, and copies
/// the files that it covers, with a list of their hashes, to a folder that appears completely or
/// not at all. The pages of the folder are written anew from these files.
///
/// # Errors
/// When the certificate does not verify, promises no privacy or belongs to other files; when the
/// new folder exists and is neither empty nor to be replaced, or cannot be written.
pub fn publish(args: &PublishSettings) -> Result<Published> {
    let (from, to) = (&args.model, &args.dest);
    refuse_nested(from, to)?;
    let run = ReportedRun::of_checked(from, checked_certificate(from)?)?;
    if let Status::NotPrivate { reason } = run.statement.status {
        let path = from.join(CERTIFICATE);
        return Err(Error::NotPublished { path, reason });
    }
    let (mut files, left_out) = Manifest::released_files(from, &run.certificate)?;
    let mut manifest = Manifest::of(&run.certificate);
    // no hash in the certificate covers the pages, so they are not copied
    let pages = pages_anew(run, |name| files.iter().any(|(of, _)| of == name))?;
    files.retain(|(name, _)| !PAGES.contains(&name.as_str()));
    files.extend(pages);
    files.sort();
    let is_empty = fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_none());
    let folder = OutputFolder::create_released(to, args.force || is_empty)?;
    for (name, bytes) in &files {
        folder.write(name, bytes)?;
        manifest.add(name, bytes);
    }
    folder.write(MANIFEST, &manifest.to_bytes()?)?;
    folder.commit()?;
    let names = files.iter().map(|(name, _)| name.as_str());
    Ok(Published {
        files: names.chain([MANIFEST]).map(|name| to.join(name)).collect(),
        left_out: left_out.iter().map(|name| from.join(name)).collect(),
    })
}

/// A copy inside the folder would be an additional file in it, a folder that contains it would be
/// replaced together with it, and its folder of internal files contains what must not be published.
pub(super) fn refuse_nested(from: &Path, to: &Path) -> Result<()> {
    let whole = |path: &Path| whole(path).map_err(|e| Error::write(path, e));
    let to_whole = whole(to)?;
    for own in [from.to_owned(), internal_folder_of(from)] {
        let own_whole = whole(&own)?;
        if own_whole.starts_with(&to_whole) || to_whole.starts_with(&own_whole) {
            let (to, own) = (to.display(), own.display());
            let text =
                format!("one of `dest` {to} and {own} contains the other; choose another `dest`");
            return Err(Error::Usage(text));
        }
    }
    Ok(())
}

/// The path without links and `..`: that of the nearest existing parent folder, and the rest.
fn whole(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let mut rest = Vec::new();
    for above in path.ancestors() {
        if let Ok(mut whole) = above.canonicalize() {
            for part in rest.into_iter().rev() {
                match part {
                    Component::ParentDir => {
                        whole.pop();
                    }
                    part => whole.push(part),
                }
            }
            return Ok(whole);
        }
        rest.extend(above.components().next_back());
    }
    Err(io::ErrorKind::NotFound.into())
}
