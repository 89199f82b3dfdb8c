//! Algorithm 4 as a trainer.

use dp_accounting::{CertificateBuilder, PlannedRelease, Requests};
use dp_core::{Adjacency, SampleRows, UserRow, UserSamples, params};
use dp_mechanism::{
    ExponentialMechanism, Provenance, Run, ScoreChange, SparseBuffer, Trainer, VectorContribution,
};

use super::{Candidates, SelectionLoss};
use crate::design::UserDesign;
use crate::subspace::describe;
use crate::{Error, Result, Subspace};

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

    /// Checks every range. The candidates are public settings as well.
    ///
    /// # Errors
    /// [`crate::Error::Param`] or [`crate::Error::Mechanism`] naming the first setting out of range.
    pub fn check(self, candidates: Candidates) -> Result<ExponentialSelection> {
        self.loss.check()?;
        let selection = ExponentialSelection {
            params: self,
            candidates,
        };
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
/// at most `R`: a monotone score. Under replacement each score moves by at most `R` either way. [`ScoreSum`](dp_mechanism::ScoreSum) clamps
/// every share in exact integers, so the bound does not rest on the loss, and the mechanism samples exactly:
/// (epsilon, 0), with a loss of bounded range. What it costs is part of the settings: [`plan`](Trainer::plan) states it at the target's delta, which it
/// does not need, and refuses a target with a smaller epsilon. Reserve it on a [`Budget::schedule`](dp_accounting::Budget::schedule).
///
/// # Errors
/// [`plan`](Trainer::plan): [`crate::Error::Shape`] when the candidates have another length than the features;
/// [`crate::Error::Accounting`] when the target is below the cost.
///
/// # Examples
/// ```
/// use dp_data::SharedSubspace;
/// use dp_personalize::{
///     Adjacency, ApproxDp, Budget, Candidates, ExponentialSelectionParams, Ledger, NoiseSource, Trainer,
/// };
/// use rand::SeedableRng;
///
/// let set_up = SharedSubspace { n_users: 300, dim: 3, rank: 1, ..SharedSubspace::section_6() };
/// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
/// let (target, adjacency) = (ApproxDp::target(1.0, 1e-6)?, Adjacency::AddRemoveUser);
/// let selection = ExponentialSelectionParams::new(1.0).check(Candidates::net(3, 1, 6)?)?;
/// let plan = selection.plan(3, target, adjacency)?;
/// let spends = Ledger::in_memory("made data", Budget::schedule(target, adjacency)?)?.reserve(&plan)?;
/// let fitted = selection.fit(&data.samples, &plan, spends, &mut NoiseSource::operating_system())?;
/// assert_eq!(fitted.model.rank(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ExponentialSelection {
    params: ExponentialSelectionParams,
    candidates: Candidates,
}

impl ExponentialSelection {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &ExponentialSelectionParams {
        &self.params
    }

    /// What is chosen from.
    #[must_use]
    pub const fn candidates(&self) -> &Candidates {
        &self.candidates
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
}

impl Trainer for ExponentialSelection {
    type Data = UserSamples;
    type Model = Subspace;
    type Error = Error;

    fn width(&self, samples: &UserSamples) -> usize {
        samples.n_features()
    }

    fn requests(&self, dim: usize, adjacency: Adjacency) -> Result<Requests> {
        let candidates = self.candidates.subspaces();
        params::same_size("candidates' dim", candidates[0].dim(), dim)?;
        let event = self.mechanism(adjacency)?.event();
        Ok(Requests::Fixed(vec![PlannedRelease::new(LABEL, event, 0)]))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        describe(certificate, "index of the selected candidate, settings")
            .assumption("the candidates were not chosen by looking at this data set")
    }

    fn train(&self, samples: &UserSamples, run: &mut Run<'_>) -> Result<Subspace> {
        let subspaces = self.candidates.subspaces();
        let gains = CandidateGains {
            loss: self.params.loss,
            subspaces,
        };
        let mechanism = self.mechanism(run.plan().adjacency())?;
        let selected = run.select(samples.table(), subspaces.len(), mechanism, &gains)?;
        // a candidate from seeded noise would be passed on unchanged
        let seeded = |one: &Subspace| one.provenance() == Provenance::SeededNoise;
        run.taint(subspaces.iter().any(seeded));
        let chosen = &subspaces[selected.index().min(subspaces.len() - 1)];
        Ok(chosen.clone().with_provenance(run.provenance()))
    }
}

/// One user's gains over all candidates.
///
/// # Privacy
/// Each gain is clamped to `[0, R]` by [`ScoreSum`](dp_mechanism::ScoreSum) in exact integers.
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
