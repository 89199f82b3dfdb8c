//! Releases of residuals, clipped around the current predictions.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, Interactions, Private, ReplaceFactor, UserRow, params};
use dp_linalg::project_psd_in_place;
use dp_mechanism::{
    GramGrids, GramSums, ReleasedGrams, ReleasedVector, Run, SparseBuffer, Trainer,
    VectorContribution,
};

use crate::features::in_public_range;
use crate::learn::{StatisticsLearner, vectors_of};
use crate::problem::{UnitValues, Vectors};
use crate::ssp::{OUTPUT, SspContribution, scale_jointly};
use crate::{Error, ItemStatistics, ProblemSetup, Result, With, trainer};

/// Settings of [`ResidualSsp`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualSspParams {
    /// Bounds, weights and unit.
    pub setup: ProblemSetup,
    /// Number of steps, 1 to 1000. The first step includes the pooled release.
    pub n_steps: usize,
    /// How residuals are bounded. The first bound also bounds the labels.
    pub bound: ShrinkingBound,
    /// Share of the budget spent on the pooled matrix, and the same share again on the total
    /// weights; above 0 and below 1/2.
    pub pooled_share: f64,
    /// Whether the statistics of a step discard earlier releases. Gradient descent by a learner
    /// that makes single steps needs this, closed forms do not.
    pub forget: bool,
}

impl ResidualSspParams {
    /// Bounds that fall from `first` to `floor` by a constant ratio, and 2 % of the budget each for
    /// the pooled matrix and the weights.
    #[must_use]
    pub fn new(setup: ProblemSetup, n_steps: usize, first: f64, floor: f64) -> Self {
        let ratio = if n_steps > 1 {
            (floor / first).powf(((n_steps - 1) as f64).recip())
        } else {
            1.0
        };
        let bound = ShrinkingBound {
            first,
            ratio,
            floor,
        };
        Self {
            setup,
            n_steps,
            bound,
            pooled_share: 0.02,
            forget: false,
        }
    }

    /// Checks every range, and bounds the labels by the first bound.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(mut self) -> Result<ResidualSsp> {
        self.setup.check()?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_steps", self.n_steps, 1, 1000, range)?;
        self.bound.check()?;
        params::open_unit("twice pooled_share", 2.0 * self.pooled_share)?;
        self.setup.label_norm = self
            .setup
            .label_norm
            .min(self.bound.first / self.setup.user_norm);
        self.setup.check()?;
        Ok(ResidualSsp { params: self })
    }
}

/// Learns item vectors by repeated small releases of the residuals of the current vectors.
///
/// ```text
/// S = sum_k u u^T,  W_j = sum_k w_kj,  n          released once;   A_j = W_j PSD(S) / n
/// r^t = sum_k w_kj clip(y - <u, v^t>, c_t) u      released in each step, noise proportional to c_t
/// b^t = r^t + A v^t                               the corresponding right-hand side
/// v^(t+1) = result of a learner given A and the b's so far, each weighted by its inverse noise variance
/// ```
///
/// As the residuals shrink, so can the bound and with it the noise, whereas the noise of SSP scales
/// with the labels themselves. A pooled matrix requires noise on `d (d + 1) / 2` numbers instead of
/// that many per item. It is exact when users' vectors do not depend on their items; otherwise the
/// steps still correct each other as long as `A_j` is more than half of the true one. With
/// [`KernelRidge`](crate::KernelRidge) the features' kernel and the known noise determine the
/// weight of each item's evidence; with [`ValueDescent`](crate::ValueDescent), one step and
/// `forget`, the steps are noisy gradient descent of a linear encoder with clipped residuals.
///
/// # Privacy
/// Released, and visible to anyone: `S` (sensitivity `Gamma_u^2`, positive semidefinite: `sqrt 2`
/// times that for a replacement) with the first right-hand sides (`min(Gamma_u B, c_1)`), the
/// weights and the number of units (1, [`TotalsContribution`]), and each further step (`c_t`,
/// [`ResidualContribution`]). Unit: as in [`ProblemSetup::unit`].
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_pubfeat::{ProblemSetup, ResidualSspParams};
/// let residual = ResidualSspParams::new(ProblemSetup::new(8, 1.0), 4, 0.5, 0.1).check()?;
/// let plan = residual.plan(500, ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 3 + 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ResidualSsp {
    params: ResidualSspParams,
}

trainer::algorithm! {
    ResidualSsp of ResidualSspParams, over n_items,
    /// The trainer in which `learner` learns after each step. Residuals are those of the learner's
    /// item vectors; a learner whose vectors are not 0 at the start is refused when the trainer is
    /// run.
}

impl ResidualSsp {
    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        let (params, dim) = (&self.params, self.params.setup.dim);
        params.setup.unit.check(adjacency)?;
        trainer::check_coordinates(n_items.saturating_mul(dim))?;
        let step = (1.0 - 2.0 * params.pooled_share) / params.n_steps as f64;
        let mut all = vec![
            trainer::request("total weights", params.pooled_share, n_items + 1),
            ReleaseRequest::new(
                "pooled matrix",
                params.pooled_share,
                ReplaceFactor::SqrtTwo,
                GramSums::pooled_matrix_draws(dim),
            ),
        ];
        let steps = 1..=params.n_steps;
        all.extend(steps.map(|t| trainer::request(format!("residuals {t}"), step, n_items * dim)));
        Ok(Requests::Shares(all))
    }

    fn steps<L: StatisticsLearner>(
        &self,
        learner: &mut L,
        rows: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let setup = &self.params.setup;
        let n_items = rows.expose().n_items();
        let totals = TotalsContribution { setup, n_items };
        let totals = run.vector(rows, (n_items + 1, 1.0), &totals)?;
        let first = first_release(setup, rows, run)?;
        let mut pooled = Pooled::new(
            &first,
            &totals,
            #[cfg(privacy_mutants)]
            rows,
        )?;
        let (mut matrix, mut residuals) = (vec![0.0; setup.dim * setup.dim], Vec::new());
        residuals.resize(n_items * setup.dim, 0.0);
        for (item, b) in residuals.chunks_exact_mut(setup.dim).enumerate() {
            first.write_item(item, &mut matrix, b);
        }
        let mut stddev = first.rhs_noise_stddev();
        for step in 1..=self.params.n_steps {
            let item_vectors = vectors_of(learner, (n_items, setup.dim))?;
            if step > 1 {
                let bound = self.params.bound.at(step);
                let contribution = ResidualContribution {
                    setup,
                    item_vectors: &item_vectors,
                    bound,
                };
                let released = run.vector(rows, (residuals.len(), bound), &contribution)?;
                residuals = released.values();
                stddev = released.noise_stddev();
            }
            let forget = self.params.forget;
            learner.learn(&pooled.observe(&item_vectors, &residuals, stddev, forget)?)?;
        }
        Ok(())
    }
}

/// The pooled matrix and the first right-hand sides.
fn first_release(
    setup: &ProblemSetup,
    rows: &Private<Interactions>,
    run: &mut Run<'_>,
) -> Result<ReleasedGrams> {
    let norm = setup.user_norm;
    let grids = |matrix, rhs| {
        let reach = norm * setup.label_reach();
        Ok::<_, Error>(GramGrids::pooled(matrix, norm * norm, rhs, reach)?)
    };
    run.grams(rows, grids, &SspContribution::new(setup))
}

impl<L: StatisticsLearner + Clone> Trainer for With<ResidualSsp, L> {
    trainer::trains_a_learner!();

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Given);
        trainer::describe(certificate, said, (OUTPUT, &[]))
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<L> {
        let setup = &self.settings.params.setup;
        let mut learner = trainer::begin((setup, &self.start), data, run)?;
        let shape = (learner.n_items(), learner.dim());
        if vectors_of(&learner, shape)?.iter().any(|v| *v != 0.0) {
            return Err(Error::Unsupported {
                what: "residual steps from item vectors other than 0",
            });
        }
        setup
            .unit
            .with_rows(data, |rows| self.settings.steps(&mut learner, rows, run))?;
        Ok(learner)
    }
}

/// Public bound `c_t` on a unit's residuals in step `t`.
///
/// ```text
/// c_t = max(floor, first ratio^(t - 1))        t = 1, 2, ...
/// ```
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShrinkingBound {
    /// Bound of the first step, in data units of a label, from 1e-6 to 1e6.
    pub first: f64,
    /// Ratio of the bound of a step to that of the previous step, above 0 and at most 1.
    pub ratio: f64,
    /// Smallest bound, from 1e-6 to `first`: about the noise of labels.
    pub floor: f64,
}

impl ShrinkingBound {
    pub(crate) fn check(&self) -> Result<()> {
        in_public_range("first", self.first)?;
        in_public_range("floor", self.floor)?;
        params::finite_non_negative("first - floor", self.first - self.floor)?;
        params::finite_positive("ratio", self.ratio)?;
        params::closed_unit("ratio", self.ratio)?;
        Ok(())
    }

    /// `c_t`, with `t` counted from 1.
    #[must_use]
    pub fn at(&self, step: usize) -> f64 {
        let power = step.saturating_sub(1) as f64;
        (self.first * self.ratio.powf(power)).max(self.floor)
    }
}

/// One unit's contribution to the residual sums of all items at given item vectors.
///
/// ```text
/// e_j = y_j - <u, v_j>,   all of the unit's scaled so that ||u||^2 sum_j w_j^2 e_j^2 <= c^2
/// r_j += w_j e_j u
/// ```
///
/// `u` is shortened to `Gamma_u` and `y_j` clipped to `Gamma_y` first. Coordinates are ordered by
/// item, `d` each.
///
/// # Privacy
/// The unit adds the blocks `w_j e_j u`, one per item, of squared norm `w_j^2 e_j^2 ||u||^2`; their
/// sum is at most `c^2` by construction, whatever the item vectors, which are released values. L2
/// sensitivity `c` under add/remove, `2 c` under replacement.
#[derive(Debug, Clone, Copy)]
pub struct ResidualContribution<'a> {
    /// Checked settings.
    pub setup: &'a ProblemSetup,
    /// Released item vectors, shape `(m, d)`.
    pub item_vectors: &'a [f64],
    /// The bound `c`, in data units of a label times those of `u`.
    pub bound: f64,
}

impl VectorContribution for ResidualContribution<'_> {
    type Scratch = UnitValues;

    fn scratch(&self) -> UnitValues {
        UnitValues::default()
    }

    fn contribute(&self, unit: UserRow<'_>, own: &mut UnitValues, out: &mut SparseBuffer) {
        let dim = self.setup.dim;
        own.read(self.setup, unit);
        let (u, residuals) = (&own.vector, &mut own.labels);
        for (residual, &item) in residuals.iter_mut().zip(unit.items()) {
            let v = &self.item_vectors[item as usize * dim..][..dim];
            *residual -= u.iter().zip(v).map(|(u, v)| u * v).sum::<f64>();
        }
        let norm = u.iter().map(|u| u * u).sum::<f64>().sqrt();
        if norm > 0.0 {
            scale_jointly(residuals, &own.weights, self.bound / norm);
        }
        let each = own.weights.iter().zip(&*residuals);
        for (&item, (w, e)) in unit.items().iter().zip(each) {
            let first = item as usize * dim;
            let at = |a: usize| u32::try_from(first + a).unwrap_or(u32::MAX); // checked by the plan
            out.extend(u.iter().enumerate().map(|(a, u)| (at(a), w * e * u)));
        }
    }
}

/// One unit's contribution to the items' total weights and to the number of units.
///
/// ```text
/// t_j += .95 w_j,   t_m += sqrt(1 - .95^2)      for a unit with items
/// ```
///
/// # Privacy
/// Squared norm `.95^2 sum_j w_j^2 + 1 - .95^2 <= 1`: sensitivity 1 under add/remove, 2 under replacement.
#[derive(Debug, Clone, Copy)]
pub struct TotalsContribution<'a> {
    /// Checked settings.
    pub setup: &'a ProblemSetup,
    /// Number of items `m`.
    pub n_items: usize,
}

impl TotalsContribution<'_> {
    /// Share of a unit's norm for its items.
    pub(crate) const ITEMS: f64 = 0.95;

    /// Share of a unit's norm for the count of units.
    pub(crate) fn units() -> f64 {
        (1.0 - Self::ITEMS * Self::ITEMS).sqrt()
    }
}

impl VectorContribution for TotalsContribution<'_> {
    type Scratch = Vec<f64>;

    fn scratch(&self) -> Vec<f64> {
        Vec::new()
    }

    fn contribute(&self, unit: UserRow<'_>, weights: &mut Vec<f64>, out: &mut SparseBuffer) {
        if unit.is_empty() {
            return;
        }
        weights.clear();
        weights.resize(unit.len(), 0.0);
        self.setup.weights.weigh(unit, weights);
        let each = unit.items().iter().copied().zip(&*weights);
        out.extend(each.map(|(item, w)| (item, Self::ITEMS * w)));
        out.push(
            u32::try_from(self.n_items).unwrap_or(u32::MAX),
            Self::units(),
        );
    }
}

/// Released pooled matrices `A_j = W_j C`, and right-hand sides that are refined step by step.
pub(super) struct Pooled {
    dim: usize,
    /// `(m, d, d)`.
    matrices: Vec<f64>,
    /// Sum of `b^t / s_t^2` and of `1 / s_t^2`.
    weighted: (Vec<f64>, f64),
}

impl Pooled {
    /// `C = PSD(S) / n` from the released sum and number of units; `W_j` are the released total
    /// weights, at least one standard deviation of their noise.
    pub(super) fn new(
        sums: &ReleasedGrams,
        totals: &ReleasedVector,
        #[cfg(privacy_mutants)] data: &Private<Interactions>,
    ) -> Result<Self> {
        let (dim, n_items) = (sums.dim(), sums.n_items());
        let (mut average, mut rhs) = (vec![0.0; dim * dim], vec![0.0; dim]);
        sums.write_item(0, &mut average, &mut rhs);
        project_psd_in_place(&mut average, dim)?;
        let values = totals.values();
        let least = totals.noise_stddev();
        let n_units = (values[n_items] / TotalsContribution::units()).max(1.0);
        #[cfg(privacy_mutants)]
        let n_units = crate::mutants::units(n_units, data);
        let average: Vec<f64> = (0..dim * dim)
            .map(|at| (average[at] + average[at % dim * dim + at / dim]) / (2.0 * n_units))
            .collect();
        let scaled = values[..n_items].iter().flat_map(|total| {
            let weight = total.max(least) / TotalsContribution::ITEMS;
            average.iter().map(move |c| weight * c)
        });
        Ok(Self {
            dim,
            matrices: scaled.collect(),
            weighted: (vec![0.0; n_items * dim], 0.0),
        })
    }

    /// Converts released residuals `r` at `v` to right-hand sides `r + A v`, whose noise is that of
    /// `r`. Returns the statistics of all releases so far, each weighted by its inverse variance,
    /// or of this release alone with `forget`.
    pub(super) fn observe(
        &mut self,
        v: &[f64],
        residuals: &[f64],
        stddev: f64,
        forget: bool,
    ) -> Result<ItemStatistics> {
        let dim = self.dim;
        if forget {
            self.weighted.0.fill(0.0);
            self.weighted.1 = 0.0;
        }
        let precision = (stddev * stddev).recip();
        let items = self.matrices.chunks_exact(dim * dim);
        let each = v.chunks_exact(dim).zip(residuals.chunks_exact(dim));
        let sums = self.weighted.0.chunks_exact_mut(dim);
        for ((matrix, (v, r)), sum) in items.zip(each).zip(sums) {
            for ((sum, row), r) in sum.iter_mut().zip(matrix.chunks_exact(dim)).zip(r) {
                let image: f64 = row.iter().zip(v).map(|(a, v)| a * v).sum();
                *sum += precision * (r + image);
            }
        }
        self.weighted.1 += precision;
        let rhs = self.weighted.0.iter().map(|b| b / self.weighted.1);
        let noise = self.weighted.1.sqrt().recip();
        ItemStatistics::new(dim, self.matrices.clone(), rhs.collect(), [0.0, noise])
    }
}
