//! Sufficient statistics perturbation: Algorithms 2 to 5.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, Interactions, Private, ReplaceFactor, UserRow, parallel, params};
use dp_linalg::{packed_len, project_psd_in_place, unpack_symmetric};
use dp_mechanism::{
    FactorBuffer, FactorContribution, GramGrids, GramLayout, GramSums, PoissonSampling,
    ReleasedGrams, Run, SparseBuffer, Trainer, VectorContribution,
};

use crate::learn::StatisticsLearner;
use crate::problem::{UnitValues, Vectors};
use crate::{Error, ProblemSetup, Result, With, trainer};

/// Settings of [`Ssp`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SspParams {
    /// Bounds, weights and unit.
    pub setup: ProblemSetup,
    /// Share of the budget spent on the matrices, strictly between 0 and 1; the rest goes to the right-hand sides.
    pub matrix_share: f64,
    /// Number of releases of the statistics, each with fresh noise, 1 to 1000. 1 is SSP-c
    /// (Algorithm 3). As many as there are steps, with one step on each, is SSP-i (Algorithm 2).
    /// Every release costs its share of the budget.
    pub n_resamples: usize,
}

impl SspParams {
    /// SSP-c, with half of the budget on the matrices as in the paper.
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

/// Sufficient statistics perturbation: releases noisy `A_j`, `b_j` of all items, on which an
/// encoder is trained.
///
/// As a [`Trainer`] by itself it only releases the statistics; combined [`with`](Self::with) a
/// learner it also trains the learner on each release.
///
/// Source: Krichene et al. 2024, Algorithms 2 (SSP-i) and 3 (SSP-c). Batches of items, Algorithm 5,
/// are a setting of the learner ([`Descent::item_batch`](crate::Descent::item_batch)); batches of
/// examples, Algorithm 4, are [`SampledSsp`](crate::SampledSsp).
///
/// # Privacy
/// Released, and visible to anyone: in each resample all matrices (sensitivity `Gamma_u^2`,
/// `sqrt 2` times that for a replacement) and all right-hand sides (`Gamma_u min(B, Gamma_y)`,
/// twice that for a replacement), as derived at [`SspContribution`]. Item vectors and encoder are
/// post-processing. The unit is that of [`ProblemSetup::unit`]: Theorem 2 for users, Theorem 1 for
/// examples. `R` resamples at a given budget have noise `sqrt R` times as large.
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

    /// The trainer in which `learner` learns from each release.
    pub fn with<L>(&self, learner: L) -> With<Self, L> {
        let (settings, start) = (self.clone(), learner);
        With { settings, start }
    }

    /// Releases the statistics of all items, once for each resample, and passes each to `learn`.
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
    /// [`Error::Unsupported`] for an adjacency that does not match the unit, [`Error::Param`]
    /// without items.
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
    trainer::trains_a_learner!();

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

/// The two requests of a release of statistics, which split its budget by `share`.
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

/// Settings of [`SampledSsp`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledSspParams {
    /// Bounds, weights and unit.
    pub setup: ProblemSetup,
    /// Share of the squared sensitivity for the matrices, strictly between 0 and 1.
    pub matrix_share: f64,
    /// Number of releases, each on its own sample, 1 to 100,000.
    pub n_steps: usize,
    /// Probability that a unit is in a step's sample, in (0, 1].
    pub sampling_probability: f64,
}

impl SampledSspParams {
    /// Half of the squared sensitivity for matrices and half for right-hand sides.
    #[must_use]
    pub const fn new(setup: ProblemSetup, n_steps: usize, sampling_probability: f64) -> Self {
        Self {
            setup,
            matrix_share: 0.5,
            n_steps,
            sampling_probability,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<SampledSsp> {
        self.setup.check()?;
        params::open_unit("matrix_share", self.matrix_share)?;
        let range = "a whole number from 1 to 100000";
        params::in_range("n_steps", self.n_steps, 1, 100_000, range)?;
        let sampling = PoissonSampling::new(self.sampling_probability)?;
        Ok(SampledSsp {
            params: self,
            sampling,
        })
    }
}

/// Mini-batch SSP-i (Krichene et al. 2024, Algorithm 4): statistics of a fresh Poisson sample of
/// units in every step, with fresh noise.
///
/// The learner receives the sums divided by the sampling probability, so that they estimate the
/// sums over all units.
///
/// # Privacy
/// A step releases one vector: all upper triangles, with off-diagonal entries times `sqrt 2`, and
/// all right-hand sides, scaled so that a unit's own part has norm at most 1:
///
/// ```text
/// sqrt(a) svec(w_j u u^T) / Gamma_u^2,   sqrt(1 - a) w_j y_j u / (Gamma_u min(B, Gamma_y)),   a = matrix_share
/// squared norm <= a sum_j w_j^2 + (1 - a) <= 1
/// ```
///
/// with the bounds of [`SspContribution`](crate::SspContribution). The units are drawn by
/// independent coins; the event is the Gaussian mechanism on that sample, and all steps are
/// reserved together on a [`Budget::schedule`](dp_accounting::Budget::schedule). The sample stays
/// secret. Unit: as in [`ProblemSetup::unit`]; for examples the coins are those of single examples,
/// as in the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledSsp {
    params: SampledSspParams,
    sampling: PoissonSampling,
}

const SECRET: &str = "who was in the sample of which step stays secret";

trainer::algorithm! {
    SampledSsp of SampledSspParams, over n_items,
    /// The trainer in which `learner` learns from the statistics of each step's sample.
}

impl SampledSsp {
    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        self.params.setup.unit.check(adjacency)?;
        let n = self.n_coordinates(n_items);
        trainer::check_coordinates(n)?;
        let n_steps = self.params.n_steps;
        Ok(trainer::sampled_steps(
            "statistics",
            n_steps,
            self.sampling,
            n,
        ))
    }

    const fn n_coordinates(&self, n_items: usize) -> usize {
        let dim = self.params.setup.dim;
        n_items.saturating_mul(packed_len(dim) + dim)
    }

    fn release(&self, rows: &Private<Interactions>, run: &mut Run<'_>) -> Result<ItemStatistics> {
        let setup = &self.params.setup;
        let n_items = rows.expose().n_items();
        let contribution = VectorStatistics::new(setup, self.params.matrix_share, n_items);
        let n = self.n_coordinates(n_items);
        let released = run.sampled_vector(self.sampling, rows, (n, 1.0), &contribution)?;
        let q = self.sampling.sampling_probability();
        let scales = (
            1.0 / (contribution.matrix_scale * q),
            1.0 / (contribution.rhs_scale * q),
        );
        ItemStatistics::of_vector(
            setup.dim,
            &released.values(),
            scales,
            released.noise_stddev(),
        )
    }
}

impl<L: StatisticsLearner + Clone> Trainer for With<SampledSsp, L> {
    trainer::trains_a_learner!();

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Given);
        trainer::describe(certificate, said, (OUTPUT, &[SECRET]))
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<L> {
        let params = &self.settings.params;
        let mut learner = trainer::begin((&params.setup, &self.start), data, run)?;
        params.setup.unit.with_rows(data, |rows| {
            for _ in 0..params.n_steps {
                learner.learn(&self.settings.release(rows, run)?)?;
            }
            Ok(())
        })?;
        Ok(learner)
    }
}

/// A unit's statistics as one vector of norm at most 1: see [`SampledSsp`].
struct VectorStatistics<'a> {
    setup: &'a ProblemSetup,
    matrix_scale: f64,
    rhs_scale: f64,
    n_items: usize,
}

impl<'a> VectorStatistics<'a> {
    fn new(setup: &'a ProblemSetup, matrix_share: f64, n_items: usize) -> Self {
        let norm = setup.user_norm;
        Self {
            setup,
            matrix_scale: matrix_share.sqrt() / (norm * norm),
            rhs_scale: (1.0 - matrix_share).sqrt() / (norm * setup.label_reach()),
            n_items,
        }
    }
}

impl VectorContribution for VectorStatistics<'_> {
    type Scratch = UnitValues;

    fn scratch(&self) -> UnitValues {
        UnitValues::default()
    }

    fn contribute(&self, unit: UserRow<'_>, own: &mut UnitValues, out: &mut SparseBuffer) {
        let dim = self.setup.dim;
        own.read(self.setup, unit);
        scale_jointly(&mut own.labels, &own.weights, self.setup.label_norm);
        let n_packed = packed_len(dim);
        let u = &own.vector;
        let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX); // checked: coordinates fit
        for (&item, w) in unit.items().iter().zip(&own.weights) {
            let mut at = item as usize * n_packed;
            for a in 0..dim {
                for b in a..dim {
                    let isometric = if a == b { 1.0 } else { 2.0_f64.sqrt() };
                    out.push(index(at), self.matrix_scale * isometric * w * u[a] * u[b]);
                    at += 1;
                }
            }
        }
        for ((&item, w), y) in unit.items().iter().zip(&own.weights).zip(&own.labels) {
            let first = self.n_items * n_packed + item as usize * dim;
            for (a, u) in u.iter().enumerate() {
                out.push(index(first + a), self.rhs_scale * w * y * u);
            }
        }
    }
}

/// One unit's contribution to the statistics of all items.
///
/// ```text
/// u   = the unit's vector, shortened to norm Gamma_u
/// y_j = clip(label, Gamma_y), then all labels of the unit scaled so that sum_j w_j^2 y_j^2 <= B^2
/// A_j += w_j u u^T,   b_j += w_j y_j u,   sum_j w_j^2 <= 1
/// ```
///
/// Source: Krichene et al. 2024, eq. (5), lines 4 and 5 of Algorithms 2 and 3; the joint bound `B`
/// is our addition.
///
/// # Privacy
/// Removing a unit changes the stacked matrices by the blocks `w_j u u^T`, one per item of the
/// unit, because a table has each pair of unit and item once. `||u u^T||_F = ||u||^2`, so
///
/// ```text
/// matrices:          sqrt(sum_j w_j^2 ||u||^4)        <= Gamma_u^2
/// right-hand sides:  sqrt(sum_j w_j^2 y_j^2 ||u||^2)  <= Gamma_u min(B, Gamma_y)
/// ```
///
/// For users these are the bounds of Theorem 2 with `w_bar = 1`. For examples the unit has one item
/// of weight 1, which gives Theorem 1. When a unit is replaced, the right-hand sides move by at
/// most twice as much. The matrices move by `M - M'` with `M, M'` both positive semidefinite:
/// `<M, M'> >= 0`, so by at most `sqrt 2` times as much. The kernel checks both bounds in exact
/// integers; the guarantee depends on nothing else here.
///
/// The sums contain no regulariser (`docs/errata.md`): `lambda_v sum_i ||v_(j_i)||^2` over examples
/// would put the exact count of an item into its gradient.
#[derive(Debug, Clone, Copy)]
pub struct SspContribution<'a> {
    setup: &'a ProblemSetup,
}

impl<'a> SspContribution<'a> {
    /// The contribution under validated settings.
    #[must_use]
    pub const fn new(setup: &'a ProblemSetup) -> Self {
        Self { setup }
    }

    /// Grids with the sensitivities above.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when a noise multiplier does not fit a grid.
    pub fn grids(&self, matrix_noise: f64, rhs_noise: f64) -> Result<GramGrids> {
        let norm = self.setup.user_norm;
        let rhs_clip = norm * self.setup.label_reach();
        Ok(GramGrids::new(
            matrix_noise,
            norm * norm,
            rhs_noise,
            rhs_clip,
        )?)
    }
}

impl FactorContribution for SspContribution<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn dim(&self) -> usize {
        self.setup.dim
    }

    fn contribute(&self, unit: UserRow<'_>, (): &mut (), out: &mut FactorBuffer) {
        self.setup.write_vector(unit, &mut out.factor);
        self.setup.weights.weigh(unit, &mut out.weights);
        for (label, &y) in out.labels.iter_mut().zip(unit.values()) {
            *label = self.setup.label(y);
        }
        scale_jointly(&mut out.labels, &out.weights, self.setup.label_norm);
    }
}

/// Scales labels down together so that `sum w^2 y^2 <= norm^2`.
pub(crate) fn scale_jointly(labels: &mut [f64], weights: &[f64], norm: f64) {
    let squares = labels.iter().zip(weights).map(|(y, w)| (w * y) * (w * y));
    let own = squares.sum::<f64>().sqrt();
    if own > norm {
        let scale = norm / own;
        labels.iter_mut().for_each(|y| *y *= scale);
    }
}

/// For each item a `d x d` matrix `A_j` and a vector `b_j`: the quadratic `sum_j v_j^T A_j v_j /
/// 2 - b_j^T v_j` to which item vectors are fitted.
///
/// # Privacy
/// Released values. Everything done with them is post-processing.
///
/// When read from a file or a message, the values are checked as in [`new`](Self::new).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct ItemStatistics {
    dim: usize,
    /// `(m, d, d)`, row-major, symmetric.
    matrices: Vec<f64>,
    /// `(m, d)`.
    pub(crate) rhs: Vec<f64>,
    matrix_noise: f64,
    rhs_noise: f64,
}

/// The values as read, before they are checked.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    dim: usize,
    matrices: Vec<f64>,
    rhs: Vec<f64>,
    matrix_noise: f64,
    rhs_noise: f64,
}

impl TryFrom<Unchecked> for ItemStatistics {
    type Error = crate::Error;

    fn try_from(read: Unchecked) -> Result<Self> {
        let noise = [read.matrix_noise, read.rhs_noise];
        Self::new(read.dim, read.matrices, read.rhs, noise)
    }
}

impl ItemStatistics {
    /// Statistics from numbers that are public or released: `matrices` of shape `(m, dim, dim)`,
    /// symmetric, `rhs` of shape `(m, dim)`, and the standard deviations of the noise on a diagonal
    /// entry and on an entry of `rhs`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] or [`crate::Error::Shape`] for shapes that do not match, or numbers
    /// that are not finite; [`crate::Error::Unsupported`] for a matrix that is not symmetric.
    pub fn new(
        dim: usize,
        matrices: Vec<f64>,
        rhs: Vec<f64>,
        noise_stddevs: [f64; 2],
    ) -> Result<Self> {
        params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        params::at_least_one("number of right-hand sides", rhs.len())?;
        params::same_size("right-hand sides", rhs.len() % dim, 0)?;
        params::same_size("matrices", matrices.len(), rhs.len() * dim)?;
        for &value in matrices.iter().chain(&rhs) {
            params::finite("statistic", value)?;
        }
        for noise in noise_stddevs {
            params::finite_non_negative("noise", noise)?;
        }
        let mirrored = |a: &[f64]| {
            let each = (0..dim * dim).map(|at| (at, at % dim * dim + at / dim));
            { each }.all(|(at, mirror)| a[at].to_bits() == a[mirror].to_bits())
        };
        if !matrices.chunks_exact(dim * dim).all(mirrored) {
            return Err(crate::Error::Unsupported {
                what: "matrices that are not symmetric",
            });
        }
        Ok(Self {
            dim,
            matrices,
            rhs,
            matrix_noise: noise_stddevs[0],
            rhs_noise: noise_stddevs[1],
        })
    }

    /// The released sums; a pooled matrix is used for every item.
    pub(crate) fn of(released: &ReleasedGrams) -> Self {
        let (dim, n_items) = (released.dim(), released.n_items());
        debug_assert_eq!(released.layout(), GramLayout::PerItem);
        let mut matrices = vec![0.0; n_items * dim * dim];
        let mut rhs = vec![0.0; n_items * dim];
        let each = matrices
            .chunks_exact_mut(dim * dim)
            .zip(rhs.chunks_exact_mut(dim));
        for (item, (matrix, b)) in each.enumerate() {
            released.write_item(item, matrix, b);
        }
        Self {
            dim,
            matrices,
            rhs,
            matrix_noise: released.matrix_noise_stddev(),
            rhs_noise: released.rhs_noise_stddev(),
        }
    }

    /// Statistics from one vector: all upper triangles with `sqrt 2` on the off-diagonals, in units
    /// of `scales.0`, then all right-hand sides in units of `scales.1`; `stddev` is the noise of a
    /// coordinate.
    pub(crate) fn of_vector(
        dim: usize,
        values: &[f64],
        scales: (f64, f64),
        stddev: f64,
    ) -> Result<Self> {
        let n_packed = packed_len(dim);
        let n_items = values.len() / (n_packed + dim);
        let (triangles, rhs) = values.split_at(n_items * n_packed);
        let mut matrices = vec![0.0; n_items * dim * dim];
        let each = matrices
            .chunks_exact_mut(dim * dim)
            .zip(triangles.chunks_exact(n_packed));
        for (matrix, triangle) in each {
            unpack_symmetric(triangle, dim, matrix)?;
            for (at, cell) in matrix.iter_mut().enumerate() {
                let isometric = if at / dim == at % dim {
                    1.0
                } else {
                    0.5_f64.sqrt()
                };
                *cell *= isometric * scales.0;
            }
        }
        Ok(Self {
            dim,
            matrices,
            rhs: rhs.iter().map(|b| b * scales.1).collect(),
            matrix_noise: stddev * scales.0,
            rhs_noise: stddev * scales.1,
        })
    }

    /// Length `d` of an item's vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Number of items `m`.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.rhs.len() / self.dim
    }

    /// `A_j`, row-major.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn matrix(&self, item: usize) -> &[f64] {
        let square = self.dim * self.dim;
        &self.matrices[item * square..][..square]
    }

    /// `b_j`.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn rhs(&self, item: usize) -> &[f64] {
        &self.rhs[item * self.dim..][..self.dim]
    }

    /// Standard deviation of the noise on a diagonal entry of a matrix (smaller by `sqrt 2` off the diagonal), and on an entry of a
    /// right-hand side.
    #[must_use]
    pub const fn noise_stddevs(&self) -> [f64; 2] {
        [self.matrix_noise, self.rhs_noise]
    }

    /// Replaces every matrix by its positive semidefinite part.
    ///
    /// A noisy `A_j` has negative eigenvalues, along which the quadratic is unbounded below:
    /// gradient descent on unprojected matrices diverges if it runs long enough.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] when a matrix is not finite.
    pub fn project_psd(&mut self) -> Result<()> {
        let dim = self.dim;
        parallel::try_for_each(
            self.matrices.chunks_exact_mut(dim * dim),
            || Ok(()),
            |(), matrix| Ok(project_psd_in_place(matrix, dim).map(|_| ())?),
        )
    }

    /// `out = A v - b` for one item.
    pub(crate) fn residual(&self, item: usize, v: &[f64], out: &mut [f64]) {
        let rows = self.matrix(item).chunks_exact(self.dim);
        for ((out, row), b) in out.iter_mut().zip(rows).zip(self.rhs(item)) {
            *out = row.iter().zip(v).map(|(a, v)| a * v).sum::<f64>() - b;
        }
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;
    use dp_mechanism::{Grid, vector_contribution};

    use super::*;

    #[test]
    fn a_unit_s_vector_has_norm_one_and_turns_back_into_its_statistics() {
        let mut builder = InteractionsBuilder::new(3).with_feature_dim(2);
        builder.set_features(0, &[1.2, -1.6]).unwrap();
        builder.push(0, 0, 3.0).unwrap();
        builder.push(0, 2, -5.0).unwrap();
        let data = builder.build().0;
        let setup = ProblemSetup {
            user_norm: 2.0,
            label_norm: 3.0,
            ..ProblemSetup::new(2, 4.0)
        };
        let (n, grid) = (3 * (3 + 2), Grid::new(1.0, 1.0).unwrap());
        let contribution = VectorStatistics::new(&setup, 0.3, 3);
        let mut values = vec![0.0; n];
        let mut norm = 0_u128;
        for (at, z) in vector_contribution(&grid, n, &contribution, data.user(0)) {
            values[at] = z as f64 * grid.step();
            norm += u128::from(z.unsigned_abs()).pow(2);
        }
        let share = (norm as f64).sqrt() / grid.l2_bound() as f64;
        assert!(share <= 1.0 && share > 0.999_99, "{share}"); // at both bounds at once
        let scales = (
            1.0 / contribution.matrix_scale,
            1.0 / contribution.rhs_scale,
        );
        let back = ItemStatistics::of_vector(2, &values, scales, 0.1).unwrap();
        // w = 1/sqrt 2, labels 3 and -4 scaled together to weighted norm 3: times .848528
        let w = 0.5_f64.sqrt();
        for (item, y) in [(0, 3.0), (2, -4.0)] {
            let expected = [1.44, -1.92, -1.92, 2.56].map(|x| w * x);
            let b = [1.2, -1.6].map(|u| w * y * 0.848_528_137_4 * u);
            let pairs = back.matrix(item).iter().zip(expected);
            assert!({ pairs }.all(|(f, e)| (f - e).abs() < 1e-6));
            assert!(
                back.rhs(item)
                    .iter()
                    .zip(b)
                    .all(|(f, e)| (f - e).abs() < 1e-6)
            );
        }
        assert!(back.matrix(1).iter().all(|a| *a == 0.0));
    }
}
