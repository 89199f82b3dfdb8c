//! Algorithm 4 with its plan and its payment.

use dp_accounting::{Certificate, Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, SampleRows, UserRow, UserSamples, params};
use dp_mechanism::{
    ExponentialMechanism, NoiseSource, ScoreChange, ScoreSum, SparseBuffer, VectorContribution,
};

use super::{Candidates, SelectionLoss};
use crate::design::UserDesign;
use crate::{Error, FittedSubspace, Provenance, Result, Subspace};

/// Label of the one release.
const LABEL: &str = "selected subspace";

/// Settings of [`ExponentialSelection`], not yet checked. All are public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExponentialSelectionParams {
    /// Epsilon in nats, 0.001 to 40: the guarantee is pure.
    pub epsilon: f64,
    /// How users score candidates.
    pub loss: SelectionLoss,
}

impl ExponentialSelectionParams {
    /// Candidates scored by [`SelectionLoss::Explained`], which needs no bound in data units.
    #[must_use]
    pub const fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            loss: SelectionLoss::Explained,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] or [`crate::Error::Mechanism`] naming the first setting out of range.
    pub fn check(self) -> Result<ExponentialSelection> {
        self.loss.check()?;
        let selection = ExponentialSelection { params: self };
        selection.mechanism(Adjacency::AddRemoveUser)?;
        Ok(selection)
    }
}

/// Selects one of public candidates with probability growing with the sum of the users' gains.
///
/// ```text
/// P(U) ~ exp(rate sum_j gain_j(U)),   gain_j in [0, R]
/// rate = epsilon / R   (add/remove),   epsilon / (2 R)   (replace)
/// ```
///
/// Source: Jain et al. 2021, Algorithm 4, with the exponent corrected: as printed, `epsilon n / (8 L_f C xi)` times a score that is a
/// sum over users already, it is n epsilon / 4 differentially private (`docs/errata.md`).
///
/// # Privacy
/// Released to everybody: the index of a candidate. Unit: the user with all rows. Under add/remove one user's gains come or go, all of one sign and each
/// at most `R`: a monotone score. Under replacement each score moves by at most `R` either way. [`ScoreSum`] clamps
/// every share in exact integers, so the bound does not rest on the loss, and the mechanism samples exactly:
/// (epsilon, 0), with a loss of bounded range.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger};
/// use dp_core::Adjacency;
/// use dp_data::SharedSubspace;
/// use dp_mechanism::NoiseSource;
/// use dp_personalize::{Candidates, ExponentialSelectionParams, SelectionLoss};
/// use rand::SeedableRng;
///
/// let set_up = SharedSubspace { n_users: 300, dim: 3, rank: 1, ..SharedSubspace::section_6() };
/// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
/// let selection = ExponentialSelectionParams::new(1.0).check()?;
/// let adjacency = Adjacency::AddRemoveUser;
/// let plan = selection.plan(1e-6, adjacency)?;
/// let budget = Budget::schedule(plan.target(), adjacency)?;
/// let spend = Ledger::in_memory("made data", budget)?.reserve(&plan)?.remove(0);
/// let net = Candidates::net(3, 1, 6)?;
/// let fitted = selection.fit(&data.samples, &net, &plan, spend, &mut NoiseSource::operating_system())?;
/// assert_eq!(fitted.model.rank(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExponentialSelection {
    params: ExponentialSelectionParams,
}

impl ExponentialSelection {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &ExponentialSelectionParams {
        &self.params
    }

    fn mechanism(&self, adjacency: Adjacency) -> Result<ExponentialMechanism> {
        let change = if adjacency.is_replace() {
            ScoreChange::General
        } else {
            ScoreChange::Monotone
        };
        let (epsilon, range) = (self.params.epsilon, self.params.loss.range());
        Ok(ExponentialMechanism::new(
            epsilon,
            range,
            change,
            adjacency.relation(),
        )?)
    }

    /// The plan of the one release. Its guarantee is stated at `delta`, which it does not need; reserve it on a
    /// [`Budget::schedule`](dp_accounting::Budget::schedule).
    ///
    /// # Errors
    /// [`crate::Error::Accounting`] for a delta outside (0, 1).
    pub fn plan(&self, delta: f64, adjacency: Adjacency) -> Result<Plan> {
        let release = PlannedRelease::new(LABEL, self.mechanism(adjacency)?.event(), 0);
        Ok(Plan::with_noise_multipliers(
            delta,
            adjacency,
            vec![release],
        )?)
    }

    /// Selects a candidate, consuming the spend of `plan`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] or [`crate::Error::Spends`] when samples, candidates, plan and spend do not belong together, before any
    /// data is touched; [`crate::Error::Mechanism`] when the release is refused or entropy fails.
    pub fn fit(
        &self,
        samples: &UserSamples,
        candidates: &Candidates,
        plan: &Plan,
        spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<FittedSubspace> {
        let subspaces = candidates.subspaces();
        params::same_size("candidates' dim", subspaces[0].dim(), samples.n_features())?;
        let [planned] = plan.releases() else {
            return Err(not_paid());
        };
        if spend.label() != planned.label()
            || spend.event() != planned.event()
            || spend.adjacency() != plan.adjacency()
            || planned.label() != LABEL
        {
            return Err(not_paid());
        }
        let certificate = Certificate::builder(plan, spend.data_set_id())
            .releases(vec![spend.record()])
            .released_output("index of the selected candidate, settings", "anyone")
            .assumption("one person has one user id")
            .assumption("the candidates were not chosen by looking at this data set")
            .assumption("settings were not chosen by looking at this data set")
            .not_covered("personal models, which stay with their users")
            .not_covered("total running time");
        let mechanism = self.mechanism(plan.adjacency())?;
        let gains = CandidateGains {
            loss: self.params.loss,
            subspaces,
        };
        let sum = ScoreSum::accumulate(samples.table(), subspaces.len(), mechanism, &gains)?;
        let selected = sum.select(spend, noise)?;
        // a candidate from seeded noise would be passed on unchanged
        let seeded = |one: &Subspace| one.provenance() == Provenance::SeededNoise;
        let insecure = selected.is_insecure() || subspaces.iter().any(seeded);
        let certificate = if insecure {
            certificate.not_private("seeded noise")
        } else {
            certificate
        };
        let chosen = &subspaces[selected.index().min(subspaces.len() - 1)];
        Ok(FittedSubspace {
            model: chosen.clone().with_provenance(Provenance::of(insecure)),
            certificate: certificate.build()?,
        })
    }
}

fn not_paid() -> Error {
    Error::Spends {
        expected: 1,
        found: 1,
        label: LABEL.to_owned(),
    }
}

/// One user's gains over all candidates.
///
/// # Privacy
/// Each gain is clamped to `[0, R]` by [`ScoreSum`] in exact integers.
#[allow(
    missing_debug_implementations,
    reason = "public values; print those instead"
)]
pub struct CandidateGains<'a> {
    /// How users score.
    pub loss: SelectionLoss,
    /// The candidates.
    pub subspaces: &'a [Subspace],
}

/// Working memory for one user.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct GainScratch(UserDesign);

impl VectorContribution for CandidateGains<'_> {
    type Scratch = GainScratch;

    fn scratch(&self) -> GainScratch {
        GainScratch(UserDesign::new(
            self.subspaces.first().map_or(1, Subspace::rank),
        ))
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut GainScratch, out: &mut SparseBuffer) {
        let dim = self.subspaces.first().map_or(1, Subspace::dim);
        let rows = SampleRows::of(user, dim);
        for (at, subspace) in (0..).zip(self.subspaces) {
            out.push(at, self.loss.gain(subspace, rows, &mut own.0));
        }
    }
}
