//! Verification of a certificate from its events alone, and of its releases against a ledger.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

use super::{CERTIFICATE_SCHEMA, Certificate, Guarantee, RECORDED_SCHEMA, Status, guarantee_of};
use crate::books::ledger::{LedgerSummary, sha256_hex};
use crate::{Error, ReleaseRecord, Result};

/// Relative difference up to which a claimed value counts as equal to the recomputed one. It allows
/// for the rounding of another version; the digest detects smaller edits.
const TOLERANCE: f64 = 1e-10;

/// The same for values that do not come from a closed form: a transform may round differently on
/// another processor.
const NUMERICAL_TOLERANCE: f64 = 1e-8;

/// The recomputed claim of a certificate. Check the status first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Verified {
    /// Private, or not private with the reason.
    pub status: Status,
    /// The recomputed guarantee; `None` if the run is not private.
    pub guarantee: Option<Guarantee>,
}

impl Verified {
    /// Whether the certificate claims a guarantee and its events support it.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.status == Status::Private
    }
}

impl Certificate {
    /// Recomputes every value from the releases and compares it with the claim.
    ///
    /// A certificate with status `not-private` verifies as not private: its digest is checked, it
    /// must contain no guarantee, and the result has that status.
    ///
    /// The values for Gaussian releases have a closed form and must agree. If there are other
    /// mechanisms, epsilon is a bound, which another version of this crate may compute by another
    /// method and more tightly. The claim then holds if the recomputed bound is not above the
    /// claimed epsilon and the claimed lower bound is not above the recomputed bound.
    ///
    /// # Errors
    /// [`Error::CertificateMismatch`] naming the first field that disagrees (`digest`, `unit`,
    /// `release_id`, `guarantee` and its members, `target`); [`Error::CertificateSchema`];
    /// [`Error::NothingReleased`]; [`Error::NonPrivateEvent`], [`Error::Param`] or
    /// [`Error::SamplerAllowance`] if the events have no guarantee at this delta.
    pub fn verify(&self) -> Result<Verified> {
        if !(1..=CERTIFICATE_SCHEMA).contains(&self.schema_version) {
            return Err(Error::CertificateSchema {
                found: self.schema_version,
                supported: CERTIFICATE_SCHEMA,
            });
        }
        agree("digest", &self.digest, &digest_of(self))?;
        agree("unit", self.unit.as_str(), self.adjacency.unit())?;
        self.check_release_ids()?;
        self.check_metrics()?;
        let guarantee = match &self.status {
            Status::NotPrivate { .. } => {
                agree("guarantee", &self.guarantee, &None)?;
                None
            }
            Status::Private => Some(self.check_guarantee()?),
        };
        self.check_recorded()?;
        Ok(Verified {
            status: self.status.clone(),
            guarantee,
        })
    }

    /// Checks the bytes of a file against the certificate.
    ///
    /// # Errors
    /// [`Error::CertificateMismatch`] with field `artifact` if the certificate names no such file,
    /// or if the bytes are not those it was issued for.
    pub fn verify_artifact(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let claimed = self.artifacts.iter().find(|artifact| artifact.name == name);
        let found = sha256_hex(bytes);
        match claimed {
            Some(artifact) => agree("artifact", &artifact.sha256, &found),
            None => Err(mismatch("artifact", &"no such file", &found)),
        }
    }

    /// From version 3 on, every assumption names its adjacency, which must be that of the
    /// certificate. Earlier versions must not have these fields.
    fn check_recorded(&self) -> Result<()> {
        let adjacency = (self.schema_version >= RECORDED_SCHEMA).then_some(self.adjacency);
        for assumption in &self.assumptions {
            agree("assumptions", &assumption.adjacency(), &adjacency)?;
        }
        if adjacency.is_none() {
            agree("made", &self.made, &None)?;
            agree("revision", &self.project.revision, &None)?;
        }
        Ok(())
    }

    /// A metric must name a release that was made, and its value must lie in an interval with
    /// finite ends.
    fn check_metrics(&self) -> Result<()> {
        for metric in &self.metrics {
            let mut made = self.releases.iter();
            if !made.any(|release| release.label == metric.release) {
                return Err(mismatch("metrics", &metric.release, &"no such release"));
            }
            let holds = metric.lower.is_finite()
                && metric.upper.is_finite()
                && (metric.lower..=metric.upper).contains(&metric.value)
                && metric.confidence > 0.0
                && metric.confidence < 1.0
                && metric.clipped_to[0] < metric.clipped_to[1];
            if !holds {
                return Err(mismatch("metrics", metric, &"a value within its interval"));
            }
        }
        Ok(())
    }

    /// A release id stands for exactly one release, so no id may occur twice.
    fn check_release_ids(&self) -> Result<()> {
        let ids: HashSet<&str> = self
            .releases
            .iter()
            .map(|release| release.release_id.as_str())
            .collect();
        agree("release_id", &self.releases.len(), &ids.len())
    }

    fn check_guarantee(&self) -> Result<Guarantee> {
        if self.releases.is_empty() {
            return Err(Error::NothingReleased);
        }
        dp_core::params::open_unit("delta", self.target.delta)?;
        let recomputed = guarantee_of(
            self.schema_version,
            &self.counted(),
            self.adjacency,
            self.target.delta,
        )?;
        let Some(claimed) = &self.guarantee else {
            return Err(mismatch("guarantee", &self.guarantee, &recomputed));
        };
        compare(claimed, &recomputed)?;
        let tolerance = match recomputed.gdp_mu {
            Some(_) => TOLERANCE,
            None => NUMERICAL_TOLERANCE,
        };
        if recomputed.epsilon > self.target.epsilon * (1.0 + tolerance) {
            return Err(mismatch("target", &self.target, &recomputed.epsilon));
        }
        Ok(recomputed)
    }
}

/// Compares every member of the guarantee.
fn compare(claimed: &Guarantee, recomputed: &Guarantee) -> Result<()> {
    agree("kind", &claimed.kind, &recomputed.kind)?;
    agree("statement", &claimed.statement, &recomputed.statement)?;
    let bounds: &[Figure] = &[
        ("epsilon", |g| Some(g.epsilon)),
        ("epsilon_add_remove", |g| g.epsilon_add_remove),
        ("epsilon_replace", |g| g.epsilon_replace),
    ];
    let exact: &[Figure] = &[
        ("delta", |g| Some(g.delta)),
        ("gdp_mu", |g| g.gdp_mu),
        ("rho", |g| g.rho),
    ];
    let gaussian = recomputed.gdp_mu.is_some();
    compare_figures(
        bounds,
        claimed,
        recomputed,
        if gaussian { close } else { enough },
    )?;
    compare_figures(exact, claimed, recomputed, close)?;
    if gaussian {
        agree("method", &claimed.method, &recomputed.method)?;
        let lower: Figure = ("epsilon_lower", |g| g.epsilon_lower);
        return compare_figures(&[lower], claimed, recomputed, close);
    }
    match claimed.epsilon_lower {
        Some(lower) if (0.0..=recomputed.epsilon).contains(&lower) => Ok(()),
        other => Err(mismatch("epsilon_lower", &other, &recomputed.epsilon_lower)),
    }
}

/// A member of the guarantee and its name.
type Figure = (&'static str, fn(&Guarantee) -> Option<f64>);

/// Every value must be present in both or in neither, and `holds(claimed, recomputed)` must be
/// true.
fn compare_figures(
    figures: &[Figure],
    claimed: &Guarantee,
    recomputed: &Guarantee,
    holds: fn(f64, f64) -> bool,
) -> Result<()> {
    for (field, of) in figures {
        let fine = match (of(claimed), of(recomputed)) {
            (Some(have), Some(want)) => holds(have, want),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !fine {
            return Err(mismatch(field, &of(claimed), &of(recomputed)));
        }
    }
    Ok(())
}

fn close(have: f64, want: f64) -> bool {
    (have - want).abs() <= TOLERANCE * want.abs()
}

/// A bound may be larger than necessary.
fn enough(have: f64, want: f64) -> bool {
    have >= want * (1.0 - NUMERICAL_TOLERANCE)
}

/// SHA-256 of the compact JSON without the digest.
pub(super) fn digest_of(certificate: &Certificate) -> String {
    let mut bare = certificate.clone();
    bare.digest.clear();
    sha256_hex(bare.compact().as_bytes())
}

fn agree<T: PartialEq + Debug + ?Sized>(
    field: &'static str,
    claimed: &T,
    recomputed: &T,
) -> Result<()> {
    if claimed == recomputed {
        Ok(())
    } else {
        Err(mismatch(field, claimed, recomputed))
    }
}

fn mismatch(
    field: &'static str,
    claimed: &(impl Debug + ?Sized),
    recomputed: &(impl Debug + ?Sized),
) -> Error {
    Error::CertificateMismatch {
        field,
        claimed: format!("{claimed:?}"),
        recomputed: format!("{recomputed:?}"),
    }
}

impl LedgerSummary {
    /// Checks that this ledger was charged for every release of `certificate`: same data set, same
    /// adjacency, and each release id with the same event and number of draws, handed out and not
    /// merely held.
    ///
    /// # Errors
    /// [`Error::CertificateMismatch`] for another data set or adjacency, [`Error::NotInLedger`] for
    /// the first release that the ledger does not contain as stated.
    pub fn covers(&self, certificate: &Certificate) -> Result<()> {
        let same = |field, claimed: String, recomputed: String| {
            if claimed == recomputed {
                return Ok(());
            }
            Err(Error::CertificateMismatch {
                field,
                claimed,
                recomputed,
            })
        };
        let adjacency = self.budget.adjacency();
        same(
            "data_set_id",
            certificate.data_set_id.clone(),
            self.data_set_id.clone(),
        )?;
        same(
            "adjacency",
            certificate.adjacency.to_string(),
            adjacency.to_string(),
        )?;
        let paid: HashMap<&str, &ReleaseRecord> = self
            .releases
            .iter()
            .map(|release| (release.release_id.as_str(), release))
            .collect();
        let held: HashSet<&str> = self.held.iter().map(String::as_str).collect();
        for release in &certificate.releases {
            let reason = match paid.get(release.release_id.as_str()) {
                None => "no line has its id",
                Some(line) if line.event != release.event => "another event was paid for",
                Some(line) if line.n_draws != release.n_draws => {
                    "another number of draws was paid for"
                }
                Some(_) if held.contains(release.release_id.as_str()) => {
                    "it is held, and was never handed out"
                }
                Some(_) => continue,
            };
            return Err(Error::NotInLedger {
                label: release.label.clone(),
                reason,
            });
        }
        Ok(())
    }
}
