use std::collections::HashSet;
use std::fmt::Debug;

use super::{CERTIFICATE_SCHEMA, Certificate, Guarantee, Status, guarantee_of};
use crate::ledger::sha256_hex;
use crate::{Error, Result};

/// Relative difference up to which a claimed figure counts as equal to the recomputed one. It
/// allows for another version's rounding; the digest catches smaller edits.
const TOLERANCE: f64 = 1e-10;

/// A certificate's claim, recomputed. Look at the status before anything else.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Verified {
    /// Private, or not and why.
    pub status: Status,
    /// The recomputed guarantee; `None` when the run is not private.
    pub guarantee: Option<Guarantee>,
}

impl Verified {
    /// Whether the certificate claims, and its events support, a guarantee.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.status == Status::Private
    }
}

impl Certificate {
    /// Recomputes every figure from the releases and compares.
    ///
    /// A certificate that says `not-private` verifies as just that: its digest is checked, it
    /// must carry no guarantee, and the result says so.
    ///
    /// # Errors
    /// [`Error::CertificateMismatch`] naming the first field that disagrees (`digest`, `unit`,
    /// `release_id`, `guarantee` and its members, `target`); [`Error::CertificateSchema`];
    /// [`Error::NothingReleased`]; [`Error::NonPrivateEvent`], [`Error::Param`] or
    /// [`Error::SamplerAllowance`] when the events have no guarantee at this delta.
    pub fn verify(&self) -> Result<Verified> {
        if self.schema_version != CERTIFICATE_SCHEMA {
            return Err(Error::CertificateSchema {
                found: self.schema_version,
                supported: CERTIFICATE_SCHEMA,
            });
        }
        agree("digest", &self.digest, &digest_of(self))?;
        agree("unit", self.unit.as_str(), self.adjacency.unit())?;
        self.check_release_ids()?;
        let guarantee = match &self.status {
            Status::NotPrivate { .. } => {
                agree("guarantee", &self.guarantee, &None)?;
                None
            }
            Status::Private => Some(self.check_guarantee()?),
        };
        Ok(Verified {
            status: self.status.clone(),
            guarantee,
        })
    }

    /// Checks the bytes of a file against the certificate.
    ///
    /// # Errors
    /// [`Error::CertificateMismatch`] with field `artifact` when the certificate names no such
    /// file, or the bytes are not those it was issued for.
    pub fn verify_artifact(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let claimed = self.artifacts.iter().find(|artifact| artifact.name == name);
        let found = sha256_hex(bytes);
        match claimed {
            Some(artifact) => agree("artifact", &artifact.sha256, &found),
            None => Err(mismatch("artifact", &"no such file", &found)),
        }
    }

    /// A payment covers one release, so no id may occur twice.
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
        let recomputed = guarantee_of(&self.releases, self.adjacency, self.target.delta)?;
        let Some(claimed) = &self.guarantee else {
            return Err(mismatch("guarantee", &self.guarantee, &recomputed));
        };
        compare(claimed, &recomputed)?;
        if recomputed.epsilon > self.target.epsilon * (1.0 + TOLERANCE) {
            return Err(mismatch("target", &self.target, &recomputed.epsilon));
        }
        Ok(recomputed)
    }
}

/// Every member of the guarantee.
fn compare(claimed: &Guarantee, recomputed: &Guarantee) -> Result<()> {
    agree("kind", &claimed.kind, &recomputed.kind)?;
    agree("statement", &claimed.statement, &recomputed.statement)?;
    let pairs = [
        ("epsilon", Some(claimed.epsilon), Some(recomputed.epsilon)),
        ("delta", Some(claimed.delta), Some(recomputed.delta)),
        ("gdp_mu", Some(claimed.gdp_mu), Some(recomputed.gdp_mu)),
        ("rho", Some(claimed.rho), Some(recomputed.rho)),
        (
            "epsilon_add_remove",
            claimed.epsilon_add_remove,
            recomputed.epsilon_add_remove,
        ),
        (
            "epsilon_replace",
            claimed.epsilon_replace,
            recomputed.epsilon_replace,
        ),
    ];
    for (field, have, want) in pairs {
        let close = match (have, want) {
            (Some(have), Some(want)) => (have - want).abs() <= TOLERANCE * want.abs(),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !close {
            return Err(mismatch(field, &have, &want));
        }
    }
    Ok(())
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
