//! SSP-c and SSP-i.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, Interactions, Private, ReplaceFactor, params};
use dp_mechanism::{GramSums, Run, Trainer};

use super::{ItemStatistics, SspContribution};
use crate::learn::StatisticsLearner;
use crate::problem::Vectors;
use crate::{Error, ProblemSetup, Result, With, trainer};

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
/// As a [`Trainer`] it releases the statistics and no more; [`with`](Self::with) a learner it trains that on each release.
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
/// use dp_data::PublicFeatureTask;
/// use dp_pubfeat::{Adjacency, ApproxDp, Budget, FeatureKernel, ItemFeaturesBuilder, KernelRidge, Ledger, NoiseSource};
/// use dp_pubfeat::{ProblemSetup, RidgeNoise, SspParams, StatisticsLearner, Trainer};
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
/// let fitted = ssp.with(learner).fit(&made.examples, &plan, spends, &mut NoiseSource::operating_system())?;
/// assert!(fitted.certificate.verify()?.is_private());
/// assert!(made.excess_risk(&fitted.model.item_vectors()?) < made.excess_risk(&vec![0.0; 60 * 8]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Ssp {
    params: SspParams,
}

pub(crate) const OUTPUT: &str =
    "noisy statistics of all items, the encoder and item vectors trained on them, settings";

impl Ssp {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &SspParams {
        &self.params
    }

    /// The trainer that has `learner` learn from each release.
    pub fn with<L>(&self, learner: L) -> With<Self, L> {
        let (settings, start) = (self.clone(), learner);
        With { settings, start }
    }

    /// Releases the statistics of all items, once for each resample, and hands each to `learn`.
    fn release(
        &self,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
        mut learn: impl FnMut(ItemStatistics) -> Result<()>,
    ) -> Result<()> {
        let setup = &self.params.setup;
        #[cfg(privacy_mutants)]
        let setup = &crate::mutants::setup(setup, data);
        let contribution = SspContribution::new(setup);
        setup.unit.with_rows(data, |rows| {
            for _ in 0..self.params.n_resamples {
                let grids = |matrix, rhs| contribution.grids(matrix, rhs);
                let released = run.grams(rows, grids, &contribution)?;
                learn(ItemStatistics::of(&released))?;
            }
            Ok(())
        })
    }
}

impl Trainer for Ssp {
    type Data = Private<Interactions>;
    /// The statistics of every resample.
    type Model = Vec<ItemStatistics>;
    type Error = Error;

    fn width(&self, data: &Self::Data) -> usize {
        data.expose().n_items()
    }

    /// Matrices and right-hand sides of `n_items` items for every resample.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for neighbours that are not of the unit, [`Error::Param`] without items.
    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        let params = &self.params;
        params.setup.unit.check(adjacency)?;
        params::at_least_one("n_items", n_items)?;
        let of_one = |t| {
            let name = format!("statistics {t}");
            gram_requests(&name, params.setup.dim, n_items, params.matrix_share, 1.0)
        };
        let releases = 1..=params.n_resamples;
        Ok(Requests::Shares(releases.flat_map(of_one).collect()))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.params.setup, Vectors::Given);
        trainer::describe(certificate, said, (OUTPUT, &[]))
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<Self::Model> {
        let setup = &self.params.setup;
        trainer::check(setup, (self.width(data), setup.dim), data, run)?;
        let mut all = Vec::new();
        self.release(data, run, |statistics| {
            all.push(statistics);
            Ok(())
        })?;
        Ok(all)
    }
}

impl<L: StatisticsLearner + Clone> Trainer for With<Ssp, L> {
    type Data = Private<Interactions>;
    type Model = L;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        self.start.n_items()
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_items, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        self.settings.describe(certificate)
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<L> {
        let mut learner = trainer::begin((&self.settings.params.setup, &self.start), data, run)?;
        let learn = |statistics: ItemStatistics| learner.learn(&statistics);
        self.settings.release(data, run, learn)?;
        Ok(learner)
    }
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
