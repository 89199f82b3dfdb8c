use super::{
    Artifact, Assumption, CERTIFICATE_SCHEMA, Certificate, Making, NotMade, Project,
    RECORDED_SCHEMA, ReleasedMetric, ReleasedOutput, Status, guarantee_of, verify,
};
use crate::books::ledger::sha256_hex;
use crate::{Error, Plan, PlannedRelease, ReleaseRecord, Result};

/// The words in every assumption of a trainer about how its settings were chosen.
const NOT_CHOSEN_BY_LOOKING: &str = "not chosen by looking at";

impl Certificate {
    /// Starts the certificate of a run that followed `plan` on the data set `data_set_id`.
    #[must_use]
    pub fn builder(plan: &Plan, data_set_id: impl Into<String>) -> CertificateBuilder {
        CertificateBuilder {
            planned: plan.releases().to_vec(),
            certificate: Self {
                schema_version: CERTIFICATE_SCHEMA,
                project: Project {
                    name: "dp-personal".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    revision: option_env!("DP_REVISION").map(str::to_owned),
                },
                made: None,
                status: Status::Private,
                data_set_id: data_set_id.into(),
                unit: plan.adjacency().unit().to_owned(),
                adjacency: plan.adjacency(),
                target: plan.target(),
                guarantee: None,
                releases: Vec::new(),
                not_made: Vec::new(),
                released: Vec::new(),
                metrics: Vec::new(),
                artifacts: Vec::new(),
                tuning_included: false,
                assumptions: Vec::new(),
                not_covered: Vec::new(),
                digest: String::new(),
            },
        }
    }
}

impl Certificate {
    /// Adds an assumption and recomputes the digest. For facts that the training code cannot know,
    /// such as whether a ledger counts all runs. An additional assumption can only weaken the
    /// certificate.
    #[must_use]
    pub fn with_assumption(mut self, assumption: impl Into<String>) -> Self {
        self.assume(assumption.into());
        self.digest = verify::digest_of(&self);
        self
    }

    fn assume(&mut self, text: String) {
        let assumption = Assumption {
            text,
            adjacency: (self.schema_version >= RECORDED_SCHEMA).then_some(self.adjacency),
        };
        self.assumptions.push(assumption);
    }

    /// Withdraws the assumption that settings were not chosen by looking at the data, and names
    /// what was looked at: `explorations` of the same data that were not charged to the budget, as
    /// noted in the ledger. Recomputes the digest. If the list is empty, the certificate stays
    /// unchanged.
    #[must_use]
    pub fn after_explorations(mut self, explorations: &[&str]) -> Self {
        if explorations.is_empty() {
            return self;
        }
        let claims = |assumption: &Assumption| assumption.contains(NOT_CHOSEN_BY_LOOKING);
        self.assumptions.retain(|assumption| !claims(assumption));
        let mut kinds = explorations.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        let times = match explorations.len() {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        self.with_not_covered(format!(
            "the choice of settings: figures of this data set that nobody paid for were looked at before, {times} ({}) \
             according to the notes of the ledger",
            kinds.join("; ")
        ))
    }

    /// Adds when and on what the run was made, and recomputes the digest. Certificates before
    /// version 3 have no field for this and stay unchanged.
    #[must_use]
    pub fn with_making(mut self, made: Making) -> Self {
        if self.schema_version >= RECORDED_SCHEMA {
            self.made = Some(made);
            self.digest = verify::digest_of(&self);
        }
        self
    }

    /// Adds an output that the guarantee covers, and recomputes the digest.
    #[must_use]
    pub fn with_released_output(mut self, what: impl Into<String>, to: impl Into<String>) -> Self {
        let (what, to) = (what.into(), to.into());
        self.released.push(ReleasedOutput { what, to });
        self.digest = verify::digest_of(&self);
        self
    }

    /// Adds an output that the guarantee does not cover, and recomputes the digest.
    #[must_use]
    pub fn with_not_covered(mut self, output: impl Into<String>) -> Self {
        self.not_covered.push(output.into());
        self.digest = verify::digest_of(&self);
        self
    }

    /// Binds a file to the certificate by the hash of its bytes, and recomputes the digest.
    #[must_use]
    pub fn with_artifact(self, name: impl Into<String>, bytes: &[u8]) -> Self {
        self.with_hashed_artifact(name, sha256_hex(bytes))
    }

    /// Like [`with_artifact`](Self::with_artifact), for a file whose hash is known: `sha256` in
    /// lower-case hexadecimal.
    #[must_use]
    pub fn with_hashed_artifact(
        mut self,
        name: impl Into<String>,
        sha256: impl Into<String>,
    ) -> Self {
        self.artifacts.push(Artifact {
            name: name.into(),
            sha256: sha256.into(),
        });
        self.digest = verify::digest_of(&self);
        self
    }

    /// Sets the held-out metrics, which must come from one of the certificate's releases, and
    /// recomputes the digest.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Vec<ReleasedMetric>) -> Self {
        self.metrics = metrics;
        self.digest = verify::digest_of(&self);
        self
    }
}

/// Collects everything in a [`Certificate`] except its guarantee.
///
/// Defaults: private, tuning not included, all lists empty.
#[derive(Debug, Clone)]
pub struct CertificateBuilder {
    certificate: Certificate,
    planned: Vec<PlannedRelease>,
}

impl CertificateBuilder {
    /// Sets the releases that were made, in the plan's order; see [`crate::Spend::record`].
    #[must_use]
    pub fn releases(mut self, releases: Vec<ReleaseRecord>) -> Self {
        self.certificate.releases = releases;
        self
    }

    /// Sets the remaining releases of the plan, if the run ended early. They count as if they had
    /// been made.
    #[must_use]
    pub fn not_made(mut self, rest: &[PlannedRelease]) -> Self {
        let rest = rest.iter().map(|release| NotMade {
            label: release.label().to_owned(),
            event: release.event().clone(),
            n_draws: release.n_draws(),
        });
        self.certificate.not_made = rest.collect();
        self
    }

    /// Adds an output and the audience that receives it.
    #[must_use]
    pub fn released_output(mut self, what: impl Into<String>, to: impl Into<String>) -> Self {
        self.certificate.released.push(ReleasedOutput {
            what: what.into(),
            to: to.into(),
        });
        self
    }

    /// Adds an assumption of the guarantee.
    #[must_use]
    pub fn assumption(mut self, assumption: impl Into<String>) -> Self {
        self.certificate.assume(assumption.into());
        self
    }

    /// Adds an output of the run that the guarantee does not cover.
    #[must_use]
    pub fn not_covered(mut self, output: impl Into<String>) -> Self {
        self.certificate.not_covered.push(output.into());
        self
    }

    /// Sets whether the choice of hyper-parameters is covered by the guarantee.
    #[must_use]
    pub fn tuning_included(mut self, included: bool) -> Self {
        self.certificate.tuning_included = included;
        self
    }

    /// Marks the run as not private, for example because of `seeded noise`. The certificate then
    /// contains no guarantee.
    #[must_use]
    pub fn not_private(mut self, reason: impl Into<String>) -> Self {
        self.certificate.status = Status::NotPrivate {
            reason: reason.into(),
        };
        self
    }

    /// Computes the guarantee and the digest.
    ///
    /// # Errors
    /// [`Error::CertificateMismatch`] if the releases are not those of the plan;
    /// [`Error::NothingReleased`] if a private run released nothing; and the errors of
    /// [`Certificate::verify`].
    pub fn build(self) -> Result<Certificate> {
        let mut certificate = self.certificate;
        check_against_plan(&certificate.counted(), &self.planned)?;
        if certificate.status == Status::Private {
            certificate.guarantee = Some(guarantee_of(
                CERTIFICATE_SCHEMA,
                &certificate.counted(),
                certificate.adjacency,
                certificate.target.delta,
            )?);
        }
        certificate.digest = verify::digest_of(&certificate);
        certificate.verify()?;
        Ok(certificate)
    }
}

/// The releases that were made must be the planned ones, in the same order.
fn check_against_plan(made: &[ReleaseRecord], planned: &[PlannedRelease]) -> Result<()> {
    let same = |(record, plan): (&ReleaseRecord, &PlannedRelease)| {
        record.label == plan.label()
            && record.event == *plan.event()
            && record.n_draws == plan.n_draws()
    };
    if made.len() == planned.len() && made.iter().zip(planned).all(same) {
        return Ok(());
    }
    Err(Error::CertificateMismatch {
        field: "releases",
        claimed: format!("{} releases made", made.len()),
        recomputed: format!("{} others planned", planned.len()),
    })
}
