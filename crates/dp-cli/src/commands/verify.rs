//! `dp verify`: recompute a certificate from its releases alone; for a folder, compare its files
//! with the hashes in the certificate as well.

use std::fs;
use std::path::{Path, PathBuf};

use dp_accounting::{Certificate, Status, Verified};
use serde_json::{Value, json};

use crate::args::VerifyArgs;
use crate::error::{Error, Result};
use crate::output::{self, CERTIFICATE};

pub(crate) fn run(args: &VerifyArgs) -> Result<()> {
    let path: PathBuf = if args.certificate.is_dir() {
        args.certificate.join(CERTIFICATE)
    } else {
        args.certificate.clone()
    };
    let does_not_hold = |source| Error::Certificate {
        path: path.clone(),
        source,
    };
    let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
    let text = String::from_utf8_lossy(&bytes);
    let certificate = Certificate::from_json(&text).map_err(does_not_hold)?;
    let verified = certificate.verify().map_err(does_not_hold)?;
    if args.certificate.is_dir() {
        for artifact in &certificate.artifacts {
            let file = args.certificate.join(&artifact.name);
            let bytes = fs::read(&file).map_err(|e| Error::read(&file, e))?;
            let same = certificate.verify_artifact(&artifact.name, &bytes);
            same.map_err(does_not_hold)?;
        }
    }
    if args.json {
        output::print_json(&as_json(&path, &certificate, &verified))?;
    }
    if let Status::NotPrivate { reason } = verified.status {
        return Err(Error::NotPrivate { path, reason });
    }
    if args.json {
        return Ok(());
    }
    output::print(&format!(
        "{} holds: recomputed from its {} releases\n\n{}",
        path.display(),
        certificate.releases.len(),
        output::privacy_overview(&certificate)
    ))
}

fn as_json(path: &Path, certificate: &Certificate, verified: &Verified) -> Value {
    json!({
        "certificate": path.display().to_string(),
        "verified": true,
        "private": verified.is_private(),
        "guarantee": verified.guarantee,
        "adjacency": certificate.adjacency,
        "data_set": certificate.data_set_id,
        "n_releases": certificate.releases.len(),
        "digest": certificate.digest,
    })
}
