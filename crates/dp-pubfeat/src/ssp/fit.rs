//! SSP-c and SSP-i.

use dp_accounting::{Certificate, Plan, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor, params};
use dp_mechanism::{GramSums, NoiseSource, ReleasedGrams, WatchedNoise};

use super::{ItemStatistics, SspContribution};
use crate::learn::StatisticsLearner;
use crate::paid::Paid;
use crate::problem::Vectors;
use crate::run::{Fit, certify};
use crate::watch::Watch;
use crate::{ProblemSetup, Result, events};

/// Settings of [`Ssp`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SspParams {
    /// Bounds, weights and unit.
    pub setup: ProblemSetup,
    /// Share of the budget spent on the matrices, strictly between 0 and 1; the rest goes to the right-hand sides.
    pub matrix_share: f64,
    /// How often the statistics are released, each time with fresh noise, 1 to 1000. 1 is SSP-c (Algorithm 3). As many as there are steps, one step on
    /// each, is SSP-i (Algorithm 2). Every release costs its share of the budget.
    pub n_resamples: usize,
}

impl SspParams {
    /// SSP-c, half of the budget on the matrices as in the paper.
    #[must_use]
    pub const fn new(setup: ProblemSetup) -> Self {
        Self {
            setup,
            matrix_share: 0.5,
            n_resamples: 1,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<Ssp> {
        self.setup.check()?;
        params::open_unit("matrix_share", self.matrix_share)?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_resamples", self.n_resamples, 1, 1000, range)?;
        Ok(Ssp { params: self })
    }
}

/// Sufficient statistics perturbation: noisy `A_j`, `b_j` of all items, and an encoder trained on them.
///
/// Source: Krichene et al. 2024, Algorithms 2 (SSP-i) and 3 (SSP-c); batches of items, Algorithm 5, are a setting of the learner
/// ([`Descent::item_batch`](crate::Descent::item_batch)); batches of examples, Algorithm 4, are [`SampledSsp`](crate::SampledSsp).
///
/// # Privacy
/// Released, and seen by anyone: per resample all matrices (sensitivity `Gamma_u^2`, `sqrt 2` times that for a replacement) and all right-hand
/// sides (`Gamma_u min(B, Gamma_y)`, twice that): derived at [`SspContribution`]. Item vectors and encoder are post-processing. The unit is that of
/// [`ProblemSetup::unit`]: Theorem 2 for users, Theorem 1 for examples. `R` resamples at a given budget have noise `sqrt R` times as large.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger};
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_data::PublicFeatureTask;
/// use dp_mechanism::NoiseSource;
/// use dp_pubfeat::{FeatureKernel, KernelRidge, ItemFeaturesBuilder, ProblemSetup, RidgeNoise, SspParams, StatisticsLearner};
/// use rand::SeedableRng;
///
/// let set_up = PublicFeatureTask { n_users: 1500, n_items: 60, items_per_user: 15, ..PublicFeatureTask::new(40) };
/// let made = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
/// let mut builder = ItemFeaturesBuilder::new(60, &[40])?;
/// for &(item, feature) in &made.features {
///     builder.push(item, feature, 1.0)?;
/// }
///
/// let ssp = SspParams::new(ProblemSetup::new(8, 1.5)).check()?;
/// let (target, adjacency) = (ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser);
/// let plan = ssp.plan(60, target, adjacency)?;
/// let spends = Ledger::in_memory("made", Budget::new(target, adjacency)?)?.reserve(&plan)?;
///
/// let kernel = FeatureKernel::new(&builder.build(), 0.0)?;
/// let learner = KernelRidge::new(kernel, 8, RidgeNoise::FromRelease { item_norm: 1.0 }, 0.0)?;
/// let fitted = ssp.fit(learner, &made.examples, &plan, spends, &mut NoiseSource::operating_system())?;
/// assert!(fitted.certificate.verify()?.is_private());
/// assert!(made.excess_risk(&fitted.model.item_vectors()?) < made.excess_risk(&vec![0.0; 60 * 8]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Ssp {
    params: SspParams,
}

/// What a run learned, with its certificate.
#[derive(Debug, Clone)]
pub struct FittedItems<L> {
    /// The learner after the run, or item vectors. Released.
    pub model: L,
    /// What was released, under which guarantee.
    pub certificate: Certificate,
}

pub(crate) const OUTPUT: &str =
    "noisy statistics of all items, the encoder and item vectors trained on them, settings";

impl Ssp {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &SspParams {
        &self.params
    }

    /// What a fit over `n_items` will release, calibrated to `target`.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] for neighbours that are not of the unit, [`crate::Error::Param`] without items,
    /// [`crate::Error::Accounting`] when the target cannot be met, [`crate::Error::Mechanism`] when a share is too small for any grid.
    pub fn plan(&self, n_items: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        self.params.setup.unit.check(adjacency)?;
        params::at_least_one("n_items", n_items)?;
        events::plan(&self.requests(n_items), target, adjacency)
    }

    pub(crate) fn requests(&self, n_items: usize) -> Vec<ReleaseRequest> {
        let share = self.params.matrix_share;
        let releases = 1..=self.params.n_resamples;
        let of_one = |t| gram_requests(&format!("statistics {t}"), self.dim(), n_items, share, 1.0);
        releases.flat_map(of_one).collect()
    }

    const fn dim(&self) -> usize {
        self.params.setup.dim
    }

    /// Releases the statistics and has `learner` learn from each release, consuming exactly the spends of `plan`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`], [`crate::Error::Unsupported`] or [`crate::Error::Spends`] when learner, table, plan and spends do not belong together, before any data is
    /// touched; [`crate::Error::Mechanism`] when a release is refused or entropy fails; those of the learner. Spends are consumed either way.
    pub fn fit<L: StatisticsLearner>(
        &self,
        learner: L,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<FittedItems<L>> {
        self.run(learner, data, plan, spends, noise, &mut |_| {})
    }

    /// [`fit`](Self::fit), showing each release to `watch` with what users added to it: for audits.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`crate::Error::Unsupported`] where records are units, of which a watch would see users.
    pub fn fit_watched<L: StatisticsLearner>(
        &self,
        learner: L,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<FittedItems<L>> {
        self.params.setup.unit.check_watch()?;
        self.run(learner, data, plan, spends, noise, watch)
    }

    fn run<L: StatisticsLearner>(
        &self,
        mut learner: L,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<FittedItems<L>> {
        let setup = &self.params.setup;
        let model = (learner.n_items(), learner.dim());
        let wanted = events::wanted(&self.requests(model.0));
        let mut paid = Fit { setup, data, model }.pay(plan, &wanted, spends)?;
        #[cfg(privacy_mutants)]
        let setup = &crate::mutants::setup(setup, data);
        setup.unit.with_rows(data, |rows| {
            for _ in 0..self.params.n_resamples {
                let released = release(setup, rows, &mut paid, noise, watch)?;
                learner.learn(&ItemStatistics::of(&released))?;
            }
            Ok(())
        })?;
        Ok(FittedItems {
            certificate: certify(
                paid,
                (setup, Vectors::Given),
                (OUTPUT, &[]),
                noise.is_insecure(),
            )?,
            model: learner,
        })
    }
}

/// Releases all statistics with the next two spends.
pub(crate) fn release(
    setup: &ProblemSetup,
    rows: &Private<Interactions>,
    paid: &mut Paid<'_>,
    noise: &mut NoiseSource,
    watch: &mut Watch<'_>,
) -> Result<ReleasedGrams> {
    let (matrix, rhs) = (paid.next()?, paid.next()?);
    let contribution = SspContribution::new(setup);
    let grids = contribution.grids(matrix.noise_multiplier()?, rhs.noise_multiplier()?)?;
    let mut out = WatchedNoise { noise, watch };
    Ok(out.grams(rows, grids, &contribution, [matrix, rhs])?)
}

/// The two requests of a release of statistics, `share` of the budget between them.
pub(crate) fn gram_requests(
    name: &str,
    dim: usize,
    n_items: usize,
    matrix_share: f64,
    share: f64,
) -> [ReleaseRequest; 2] {
    let rhs_factor = ReplaceFactor::Two;
    #[cfg(privacy_mutants)]
    let rhs_factor = crate::mutants::rhs_factor(rhs_factor);
    [
        ReleaseRequest::new(
            format!("{name}: matrices"),
            share * matrix_share,
            ReplaceFactor::SqrtTwo,
            GramSums::matrix_draws(n_items, dim),
        ),
        ReleaseRequest::new(
            format!("{name}: right-hand sides"),
            share * (1.0 - matrix_share),
            rhs_factor,
            GramSums::rhs_draws(n_items, dim),
        ),
    ]
}
