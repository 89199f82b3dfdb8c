use super::{
    Artifact, Assumption, CERTIFICATE_SCHEMA, Certificate, Making, NotMade, Project,
    RECORDED_SCHEMA, ReleasedMetric, ReleasedOutput, Status, guarantee_of, verify,
};
use crate::books::ledger::sha256_hex;
use crate::{Error, Plan, PlannedRelease, ReleaseRecord, Result};

/// What trainers assume of settings: words that every such assumption has.
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
    /// Adds an assumption, and renews the digest: for what the training code cannot know, such as whether a ledger counts
    /// all runs. It can only weaken what the certificate says.
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

    /// Takes back that settings were not chosen by looking, and names what was looked at: `explorations` of the same data that nobody
    /// paid for, as the ledger notes them. Renews the digest; without any, the certificate stays as it is.
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
        self.with_not_covered(format!(
            "the choice of settings: figures of this data set that nobody paid for were looked at before, by the notes of the \
             ledger {} times ({})",
            explorations.len(),
            kinds.join("; ")
        ))
    }

    /// Says when and on what the run was made, and renews the digest. Certificates before version 3 have no place for it and
    /// stay as they are.
    #[must_use]
    pub fn with_making(mut self, made: Making) -> Self {
        if self.schema_version >= RECORDED_SCHEMA {
            self.made = Some(made);
            self.digest = verify::digest_of(&self);
        }
        self
    }

    /// Adds something that the guarantee does not cover, and renews the digest.
    #[must_use]
    pub fn with_not_covered(mut self, output: impl Into<String>) -> Self {
        self.not_covered.push(output.into());
        self.digest = verify::digest_of(&self);
        self
    }

    /// Binds a file to the certificate by the hash of its bytes, and renews the digest.
    #[must_use]
    pub fn with_artifact(self, name: impl Into<String>, bytes: &[u8]) -> Self {
        self.with_hashed_artifact(name, sha256_hex(bytes))
    }

    /// [`with_artifact`](Self::with_artifact) of a file whose hash is known: `sha256` in lower-case hexadecimal.
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

    /// The same with held-out metrics that one of its releases paid for. The digest is recomputed.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Vec<ReleasedMetric>) -> Self {
        self.metrics = metrics;
        self.digest = verify::digest_of(&self);
        self
    }
}

/// Collects what a [`Certificate`] says besides its guarantee.
///
/// Defaults: private, no tuning included, all lists empty.
#[derive(Debug, Clone)]
pub struct CertificateBuilder {
    certificate: Certificate,
    planned: Vec<PlannedRelease>,
}

impl CertificateBuilder {
    /// The releases made, in the plan's order; see [`crate::Spend::record`].
    #[must_use]
    pub fn releases(mut self, releases: Vec<ReleaseRecord>) -> Self {
        self.certificate.releases = releases;
        self
    }

    /// The releases of the plan that follow those made, when the run ended early: they count as if they had been made.
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

    /// Adds an output and who may see it.
    #[must_use]
    pub fn released_output(mut self, what: impl Into<String>, to: impl Into<String>) -> Self {
        self.certificate.released.push(ReleasedOutput {
            what: what.into(),
            to: to.into(),
        });
        self
    }

    /// Adds something that the guarantee rests on.
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

    /// Says whether hyper-parameters were chosen within the guarantee.
    #[must_use]
    pub fn tuning_included(mut self, included: bool) -> Self {
        self.certificate.tuning_included = included;
        self
    }

    /// Marks the run as not private, for example because of `seeded noise`. The certificate then
    /// carries no guarantee.
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
    /// [`Error::CertificateMismatch`] when the releases are not those of the plan;
    /// [`Error::NothingReleased`] when a private run released nothing; and whatever
    /// [`Certificate::verify`] would object to.
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

/// The releases made must be the releases planned, one for one.
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
