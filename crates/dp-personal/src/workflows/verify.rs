//! `dp verify`: recomputes a certificate from its releases alone; for a folder, also compares its
//! files with the hashes in the certificate.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dp_accounting::{Certificate, LedgerSummary, PrivacyStatement, Status};
use dp_core::{ApproxDp, DpEvent};
use dp_mechanism::Grid;
use dp_pubfeat::AmImplicitSsp;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::item_features::{FEATURE_WEIGHTS, FEATURES};
use crate::output::{
    self, CERTIFICATE, ITEM_FEATURES, ITEM_VECTORS, ITEMS, MODEL_FILES, Manifest, RELEASED,
    RELEASES, ReleasedRun, SHARED, SUBSPACE,
};
use crate::prior::PRIOR;
use crate::settings::VerifySettings;
use crate::workflows::ledger::audit_current;
use crate::workflows::private_run::GIVEN;
use crate::workflows::recompute::{Recomputed, recompute};

/// A certificate whose values have all been recomputed.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Path of the certificate.
    pub path: PathBuf,
    /// The certificate.
    pub certificate: Certificate,
    /// The statement that follows from its releases, including
    /// [`dp_accounting::Status::NotPrivate`].
    pub statement: PrivacyStatement,
    /// Whether the files next to it were compared; `false` if it was checked alone.
    pub files_compared: bool,
    /// Whether the model follows from its releases, if that was requested.
    pub recomputed: Option<Recomputed>,
    /// The ledger that replaced the one that was asked for, if any did.
    pub replaced_by: Option<String>,
    /// The guarantee in words.
    pub overview: String,
}

/// Recomputes a certificate from its releases; for a folder, also compares its files with the
/// hashes in the certificate, and with a ledger, checks that it paid for every release.
///
/// # Errors
/// When the certificate does not verify, a file differs from the one it was issued for, or the
/// ledger did not pay or lacks payments that the file of its users records. A certificate that verifies and promises no privacy is not an error.
pub fn verify(args: &VerifySettings) -> Result<Verified> {
    let files_compared = args.certificate.is_dir();
    let path = if files_compared {
        args.certificate.join(CERTIFICATE)
    } else {
        args.certificate.clone()
    };
    let (certificate, statement) = if files_compared {
        let checked = checked_certificate(&args.certificate)?;
        refuse_other_files(&args.certificate, &checked.0)?;
        checked
    } else {
        recomputed(&path)?
    };
    let mut replaced_by = None;
    if let Some(ledger) = &args.ledger {
        let paid = audit_current(ledger)?;
        let covered = paid.covers(&certificate);
        covered.map_err(|source| Error::Certificate {
            path: path.clone(),
            source,
        })?;
        if files_compared {
            compare_nights(&args.certificate, &certificate, &paid)?;
        }
        replaced_by = paid.successor;
    }
    let recomputed = match args.recompute {
        true if !files_compared => {
            let text = "`recompute` needs the folder of the model, not its certificate alone";
            return Err(Error::Usage(text.to_owned()));
        }
        true => {
            let releases = args.releases.as_deref();
            Some(recompute(&args.certificate, releases, &certificate)?)
        }
        false => None,
    };
    let overview = output::privacy_overview(&certificate, &statement);
    Ok(Verified {
        path,
        certificate,
        statement,
        files_compared,
        recomputed,
        replaced_by,
        overview,
    })
}

/// Refuses a folder that contains anything except released files.
fn refuse_other_files(folder: &Path, certificate: &Certificate) -> Result<()> {
    let (_, others) = Manifest::released_files(folder, certificate)?;
    let Some(name) = others.first() else {
        return Ok(());
    };
    Err(Error::NotReleased {
        path: folder.join(name),
        n_others: others.len() - 1,
    })
}

/// The certificate of a folder whose files match it.
pub(crate) fn checked_certificate(folder: &Path) -> Result<(Certificate, PrivacyStatement)> {
    let (certificate, statement) = recomputed(&folder.join(CERTIFICATE))?;
    compare_files(folder, &certificate)?;
    if let Some(released) = output::read_run_file(folder, RELEASED)? {
        compare_run(folder, &certificate, &released)?;
        compare_noise(folder, &certificate, &released)?;
    }
    Ok((certificate, statement))
}

/// The certificate of a model folder; an error for one without a certificate that holds and covers its files:
/// without one, nothing shows that the model is private.
pub(crate) fn refuse_uncertified(folder: &Path) -> Result<Certificate> {
    if fs::symlink_metadata(folder.join(CERTIFICATE)).is_err() {
        let reason = format!(
            "holds a model without its {CERTIFICATE}, so nothing shows that the model is private; copy the whole folder, as `dp publish` does, or name the `out` of the run"
        );
        return Err(Error::model(folder, reason));
    }
    checked_certificate(folder).map(|(certificate, _)| certificate)
}

/// A certificate whose values have all been recomputed; the rest of the program only repeats them.
fn recomputed(path: &Path) -> Result<(Certificate, PrivacyStatement)> {
    let certificate = output::read_certificate(path)?;
    let statement = PrivacyStatement::of(&certificate).map_err(|source| Error::Certificate {
        path: path.to_owned(),
        source,
    })?;
    Ok((certificate, statement))
}

/// Compares model and released values in the folder with the hashes in the certificate. A
/// certificate that does not name such a file says nothing about one in the folder; weights or a
/// feature table that it does not name belong to no run.
pub(crate) fn compare_files(folder: &Path, certificate: &Certificate) -> Result<()> {
    let has = |name: &&str| certificate.artifacts.iter().any(|file| file.name == *name);
    let lies = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    let models = [SUBSPACE, SHARED, ITEM_VECTORS].into_iter();
    let mut names: Vec<&str> = models.filter(has).collect();
    names.extend(has(&ITEM_VECTORS).then_some(ITEMS));
    if names.is_empty() {
        names.extend(MODEL_FILES);
    }
    // runs of earlier versions have no released values, and most runs have no weights or feature
    // table; if such a file exists but the certificate does not name it, the comparison fails
    let more = [
        RELEASED,
        FEATURE_WEIGHTS,
        FEATURES,
        PRIOR,
        ITEM_FEATURES,
        RELEASES,
    ]
    .into_iter();
    names.extend(more.filter(|name| has(name) || lies(name)));
    for name in names {
        let path = folder.join(name);
        let does_not_belong = |reason: String| Error::Artifact {
            path: path.clone(),
            reason,
        };
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => does_not_belong(format!(
                "it is missing; copy the whole folder, or name the {CERTIFICATE} to check it alone"
            )),
            _ => does_not_belong(error.to_string()),
        })?;
        certificate
            .verify_artifact(name, &bytes)
            .map_err(|_| does_not_belong("its hash is not in the certificate".to_owned()))?;
        if let (Status::Private, Some(unprotected)) =
            (&certificate.status, output::without_privacy(&bytes))
        {
            return Err(does_not_belong(format!(
                "its header says {unprotected}, and the certificate promises privacy"
            )));
        }
    }
    Ok(())
}

/// Compares the certificate with what `report.json` says of the run: its target, its data set and
/// whether its noise was seeded. Files of earlier versions say nothing.
fn compare_run(folder: &Path, certificate: &Certificate, released: &ReleasedRun) -> Result<()> {
    let Some(run) = &released.run else {
        return Ok(());
    };
    let refused = |reason: &str| {
        Err(Error::Artifact {
            path: folder.join(RELEASED),
            reason: reason.to_owned(),
        })
    };
    if certificate.status == Status::Private && !run[GIVEN]["insecure_seed"].is_null() {
        return refused("the noise of its run was seeded, and the certificate promises privacy");
    }
    let target: Option<ApproxDp> = serde_json::from_value(run["target"].clone()).ok();
    // plans of sampled rounds end below the target by the width of their calibration
    let has_target = target.is_none_or(|of| {
        let (epsilon, delta) = (certificate.target.epsilon, certificate.target.delta);
        epsilon <= (1.0 + SAME) * of.epsilon
            && epsilon >= (1.0 - CALIBRATED) * of.epsilon
            && (delta - of.delta).abs() <= SAME * of.delta
    });
    let data_set = run["data_set"].as_str();
    match has_target && data_set.is_none_or(|of| of == certificate.data_set_id) {
        true => Ok(()),
        false => refused("its run has another target or data set than the certificate"),
    }
}

/// Compares the number of nights that the model was made of with those in the ledger that paid for
/// their lifetime: nights that a model lacks were lost in crashes, but none is made without its
/// line.
fn compare_nights(folder: &Path, certificate: &Certificate, paid: &LedgerSummary) -> Result<()> {
    let released: Option<ReleasedRun> = output::read_run_file(folder, RELEASED)?;
    let Some(n_made) = released.as_ref().and_then(ReleasedRun::n_nights) else {
        return Ok(());
    };
    let is_own = |id: &String| certificate.releases.iter().any(|of| of.release_id == *id);
    let own = paid.nights.iter().filter(|(id, _)| is_own(id));
    let numbers = own.flat_map(|(_, nights)| nights.iter().filter_map(|night| night.number));
    let n_paid = numbers.count();
    if n_paid >= n_made {
        return Ok(());
    }
    Err(Error::Artifact {
        path: folder.join(RELEASED),
        reason: format!(
            "the model is made of {n_made} nights, and the ledger has {n_paid} of its lifetime: it is an older copy, or was cut; verify with the newest one"
        ),
    })
}

/// The label of the release of noisy counts; for a candidate, after its name.
const COUNTS: &str = "item counts";
/// The same for likes with public features, where each user's contribution has norm 1.
const TOTALS: &str = "total weights";
/// Maximum relative difference between two computations of the same standard deviation.
const SAME: f64 = 1e-9;
/// Largest relative distance by which a calibrated plan stays below its target.
const CALIBRATED: f64 = 1e-3;

/// Compares the noise that `report.json` states for its counts with that of their release in the
/// certificate and the bound on votes in the settings. Counts without either are refused; runs
/// without counts are not compared.
fn compare_noise(folder: &Path, certificate: &Certificate, released: &ReleasedRun) -> Result<()> {
    let Some(counts) = &released.counts else {
        return Ok(());
    };
    let does_not_belong = |reason: String| Error::Artifact {
        path: folder.join(RELEASED),
        reason,
    };
    let Some((noise_multiplier, clip_norm, unit)) = release_of_counts(released, certificate) else {
        let reason = "it has counts, but neither certificate nor settings determine their noise";
        return Err(does_not_belong(reason.to_owned()));
    };
    let grid = Grid::new(noise_multiplier, clip_norm);
    let paid = grid
        .map_err(|e| does_not_belong(e.to_string()))?
        .noise_stddev()
        / unit;
    let stated = counts.noise_stddev();
    if (stated - paid).abs() <= SAME * paid {
        return Ok(());
    }
    let reason =
        format!("it states noise {stated} for its counts, the certificate's release has {paid}");
    Err(does_not_belong(reason))
}

/// Noise multiplier and bound of the release of a run's counts, and the value of a count of 1 in
/// it; for the chosen candidate, if there are several.
fn release_of_counts(run: &ReleasedRun, certificate: &Certificate) -> Option<(f64, f64, f64)> {
    let multiplier_of = |label: &str| {
        let mut releases = certificate.releases.iter();
        match releases.find(|release| release.label == label)?.event {
            DpEvent::Gaussian {
                noise_multiplier, ..
            } => Some(noise_multiplier),
            _ => None,
        }
    };
    let label = match &run.comparison {
        Some(of) => format!("candidate {}: {COUNTS}", of.chosen.checked_add(1)?),
        None => COUNTS.to_owned(),
    };
    let counts = || {
        let clip_norm = run.settings.get("count_clip_norm").and_then(Value::as_f64);
        Some((multiplier_of(&label)?, clip_norm?, 1.0))
    };
    counts().or_else(|| Some((multiplier_of(TOTALS)?, 1.0, AmImplicitSsp::TOTALS_UNIT)))
}
