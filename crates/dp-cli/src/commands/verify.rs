//! `dp verify`: recompute a certificate from its releases alone.

use std::fs;
use std::path::PathBuf;

use dp_accounting::{Certificate, Status};
use serde_json::json;

use crate::args::VerifyArgs;
use crate::error::{Error, Result};
use crate::output::{self, CERTIFICATE};

pub(crate) fn run(args: &VerifyArgs) -> Result<()> {
    let path: PathBuf = if args.certificate.is_dir() {
        args.certificate.join(CERTIFICATE)
    } else {
        args.certificate.clone()
    };
    let text = fs::read_to_string(&path).map_err(|e| Error::read(&path, e))?;
    let certificate = Certificate::from_json(&text).map_err(Error::Certificate)?;
    let verified = certificate.verify().map_err(Error::Certificate)?;
    if args.json {
        output::print_json(&json!({
            "certificate": path,
            "verified": true,
            "private": verified.is_private(),
            "guarantee": verified.guarantee,
            "adjacency": certificate.adjacency,
            "n_releases": certificate.releases.len(),
            "digest": certificate.digest,
        }))?;
    } else {
        match &verified.status {
            Status::Private => {
                println!("{}: holds. Recomputed from its releases:\n", path.display());
                print!("{}", output::privacy_statement(&certificate));
            }
            Status::NotPrivate { reason } => {
                println!("{}: intact, and it claims no privacy: {reason}", path.display());
            }
        }
    }
    Ok(())
}
