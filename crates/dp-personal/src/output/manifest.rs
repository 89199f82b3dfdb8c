//! The files of a folder that may be published, each with its hash.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dp_accounting::Certificate;
use serde::{Deserialize, Serialize};

use super::{
    CERTIFICATE, FACTORS, ITEM_FEATURES, ITEM_VECTORS, ITEMS, RELEASED, RELEASES, SHARED, SUBSPACE,
    pretty,
};
use crate::error::{Error, Result};
use crate::item_features::{FEATURE_WEIGHTS, FEATURES};
use crate::prior::PRIOR;
use crate::report::PAGES;
use crate::workflows::nightly::ORDER;

/// Lists all released files of a folder except itself.
pub(crate) const MANIFEST: &str = "manifest.json";
const SCHEMA_VERSION: u32 = 1;
/// Folders with certificates of this version or newer always have a list.
const LISTED_SCHEMA: u32 = 3;
/// The files that a certificate may cover, apart from itself.
const COVERED: [&str; 12] = [
    FACTORS,
    ITEMS,
    SUBSPACE,
    SHARED,
    ITEM_VECTORS,
    ITEM_FEATURES,
    FEATURE_WEIGHTS,
    FEATURES,
    PRIOR,
    ORDER,
    RELEASED,
    RELEASES,
];
/// Prefix of the names of files that must not be published.
pub(crate) const INTERNAL_PREFIX: &str = "internal";

/// The released files of a run: names and SHA-256.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    schema_version: u32,
    /// Digest of the certificate that covers them.
    certificate: String,
    files: BTreeMap<String, String>,
}

/// A file with its content.
type Named = (String, Vec<u8>);

impl Manifest {
    pub(crate) fn of(certificate: &Certificate) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            certificate: certificate.digest.clone(),
            files: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) {
        self.add_hashed(name, dp_accounting::sha256_hex(bytes));
    }

    pub(crate) fn add_hashed(&mut self, name: &str, sha256: String) {
        self.files.insert(name.to_owned(), sha256);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.files.remove(name);
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        pretty(self)
    }

    /// The list of a folder; none for folders of earlier versions.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(MANIFEST);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::read(&path, error)),
        };
        let damaged = |reason: String| Error::Artifact {
            path: path.clone(),
            reason,
        };
        let found: Self =
            serde_json::from_slice(&bytes).map_err(|e| damaged(format!("damaged: {e}")))?;
        if found.schema_version > SCHEMA_VERSION {
            let newer = found.schema_version;
            let reason = format!(
                "schema {newer} is newer than this program, which reads {SCHEMA_VERSION}; use a newer dp"
            );
            return Err(damaged(reason));
        }
        Ok(Some(found))
    }

    /// The released files of a folder whose certificate verifies, and the names of all other files
    /// in it.
    ///
    /// # Errors
    /// When a file of the list is missing or differs, or is none that a model has; when the list
    /// belongs to another certificate or is missing.
    pub(crate) fn released_files(
        folder: &Path,
        certificate: &Certificate,
    ) -> Result<(Vec<Named>, Vec<String>)> {
        let manifest = Self::read(folder)?;
        if manifest.is_none() && certificate.schema_version >= LISTED_SCHEMA {
            return Err(Error::Artifact {
                path: folder.join(MANIFEST),
                reason: "the list of released files is missing".to_owned(),
            });
        }
        let own = |of: &Self| of.certificate == certificate.digest;
        if !manifest.as_ref().is_none_or(own) {
            return Err(Error::Artifact {
                path: folder.join(MANIFEST),
                reason: "it lists the files of another certificate".to_owned(),
            });
        }
        let (mut files, mut others) = (Vec::new(), Vec::new());
        let artifacts = certificate.artifacts.iter().map(|file| file.name.as_str());
        let mut missing: Vec<&str> = artifacts.clone().collect();
        if let Some(of) = &manifest {
            missing.extend(of.files.keys().map(String::as_str));
        }
        // anybody can edit the list: what it adds to the certificate has the name of a page
        let is_of_a_model = |name: &&str| {
            PAGES.contains(name)
                || *name == CERTIFICATE
                || COVERED.contains(name) && artifacts.clone().any(|of| of == *name)
        };
        if let Some(name) = missing.iter().find(|name| !is_of_a_model(name)) {
            return Err(Error::Artifact {
                path: folder.join(name),
                reason: format!(
                    "{MANIFEST} or the certificate lists it, and it is no file of a model: remove it, and restore the original list"
                ),
            });
        }
        let failed = |e| Error::read(folder, e);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == MANIFEST {
                continue;
            }
            let listed = |of: &Self| of.files.contains_key(&name);
            let is_known = manifest.as_ref().map_or_else(
                || missing.contains(&name.as_str()) || PAGES.contains(&name.as_str()),
                listed,
            );
            let is_file = entry.file_type().map_err(failed)?.is_file();
            let is_released = name == CERTIFICATE || is_known;
            if !is_released || !is_file || name.starts_with(INTERNAL_PREFIX) {
                others.push(name);
                continue;
            }
            let path = entry.path();
            let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
            let hash = manifest.as_ref().and_then(|of| of.files.get(&name));
            let in_certificate = certificate.artifacts.iter().any(|file| file.name == name);
            let is_other = hash.is_some_and(|hash| *hash != dp_accounting::sha256_hex(&bytes))
                || in_certificate && certificate.verify_artifact(&name, &bytes).is_err();
            if is_other {
                let reason =
                    "its hash is neither in the certificate nor in manifest.json".to_owned();
                return Err(Error::Artifact { path, reason });
            }
            missing.retain(|other| *other != name);
            files.push((name, bytes));
        }
        if let Some(name) = missing.first() {
            return Err(Error::Artifact {
                path: folder.join(name),
                reason: "the file is missing".to_owned(),
            });
        }
        files.sort();
        others.sort();
        Ok((files, others))
    }
}
