//! SSP for convex losses: Algorithm 7.

use dp_accounting::{CertificateBuilder, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, UserRow, params};
use dp_mechanism::{FactorBuffer, FactorContribution, GramGrids, Run, Trainer, plan_for};

use crate::features::in_public_range;
use crate::learn::{StatisticsLearner, vectors_of};
use crate::problem::Vectors;
use crate::ssp::{ItemStatistics, OUTPUT, gram_requests, scale_jointly};
use crate::{Error, ProblemSetup, Result, With, trainer};

/// A twice differentiable convex loss `l(s, y)` of a score `s = <u, v>` and a label `y`, with bounds on its derivatives in `s`.
///
/// # Privacy
/// The guarantee does not depend on the bounds: derivatives outside them are clipped to them. Wrong
/// bounds cost accuracy.
///
/// **[`first`](Self::first) and [`second`](Self::second) receive users' private scores and
/// labels.** The guarantee relies on these requirements for an implementation: all methods are pure
/// functions of their arguments, keep no state between calls, write and send nothing, and do not
/// panic, whatever the numbers (including infinite ones and NaN).
pub trait ConvexLoss: Sync {
    /// `l(s, y)`.
    fn loss(&self, score: f64, label: f64) -> f64;

    /// `l'(s, y)`.
    fn first(&self, score: f64, label: f64) -> f64;

    /// `l''(s, y)`, 0 or above.
    fn second(&self, score: f64, label: f64) -> f64;

    /// Bound on `|l'|` for labels up to `label_bound`, finite and above 0; where `l'` is unbounded,
    /// the value that it is clipped to.
    fn first_bound(&self, label_bound: f64) -> f64;

    /// Bound on `l''`, finite and above 0.
    fn second_bound(&self) -> f64;
}

/// `log(1 + exp(-y s))`, with the sign of a label as its class. `|l'| <= 1`, `l'' <= 1/4`.
///
/// # Examples
/// ```
/// use dp_pubfeat::{ConvexLoss, Logistic};
/// assert_eq!(Logistic.first(0.0, 1.0), -0.5);
/// assert_eq!(Logistic.second(0.0, -3.0), 0.25);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Logistic;

/// 1 or -1.
fn class(label: f64) -> f64 {
    if label > 0.0 { 1.0 } else { -1.0 }
}

/// `1 / (1 + exp(-x))`.
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl ConvexLoss for Logistic {
    fn loss(&self, score: f64, label: f64) -> f64 {
        let margin = class(label) * score;
        (-margin).max(0.0) + (-margin.abs()).exp().ln_1p()
    }

    fn first(&self, score: f64, label: f64) -> f64 {
        -class(label) * sigmoid(-class(label) * score)
    }

    fn second(&self, score: f64, _: f64) -> f64 {
        sigmoid(score) * sigmoid(-score)
    }

    fn first_bound(&self, _: f64) -> f64 {
        1.0
    }

    fn second_bound(&self) -> f64 {
        0.25
    }
}

/// `(s - y)^2 / 2`, with residuals beyond twice the label bound clipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Squared;

impl ConvexLoss for Squared {
    fn loss(&self, score: f64, label: f64) -> f64 {
        0.5 * (score - label).powi(2)
    }

    fn first(&self, score: f64, label: f64) -> f64 {
        score - label
    }

    fn second(&self, _: f64, _: f64) -> f64 {
        1.0
    }

    fn first_bound(&self, label_bound: f64) -> f64 {
        2.0 * label_bound
    }

    fn second_bound(&self) -> f64 {
        1.0
    }
}

/// One unit's contribution to the quadratic approximation of the loss around item vectors `v`.
///
/// ```text
/// s_j = <u, v_j>,   h_j = clip(l''(s_j, y_j), [f L2, L2]),   e_j = clip(l'(s_j, y_j), L1)
/// H_j += w_j h_j u u^T,   g_j += w_j e_j u
/// ```
///
/// `u` is shortened to `Gamma_u`; `L1`, `L2` are the loss's bounds, and all `e_j` of a unit are
/// scaled so that `sum_j w_j^2 e_j^2 <= E^2`, where `E` is the slope norm. Curvatures below
/// `f = 1/64` of their bound are raised to it: kernel factors carry `sqrt(h_j)`, and the step is
/// damped where the loss is flat. Source: Krichene et al. 2024, eq. (11), Algorithm 7, lines 5 and
/// 6.
///
/// # Privacy
/// As for [`SspContribution`](crate::SspContribution) with weights `w_j h_j` and labels
/// `e_j / h_j`: removing a unit removes the blocks `w_j h_j u u^T` and `w_j e_j u`, so
///
/// ```text
/// matrices:  sqrt(sum_j w_j^2 h_j^2 ||u||^4)  <= L2 Gamma_u^2
/// slopes:    sqrt(sum_j w_j^2 e_j^2 ||u||^2)  <= Gamma_u min(E, L1)
/// ```
///
/// under add/remove; under replacement `sqrt 2` times that for the matrices, which are positive
/// semidefinite as `h_j >= 0`, and 2 times that for the slopes. `v` is released.
pub struct CurvatureContribution<'a> {
    setup: &'a ProblemSetup,
    loss: &'a dyn ConvexLoss,
    item_vectors: &'a [f64],
    slope_norm: f64,
    /// Bounds on the first and second derivative.
    bounds: [f64; 2],
}

impl std::fmt::Debug for CurvatureContribution<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CurvatureContribution")
            .field("setup", self.setup)
            .finish_non_exhaustive()
    }
}

/// Smallest curvature, as a share of its bound.
const LEAST_CURVATURE: f64 = 1.0 / 64.0;

impl<'a> CurvatureContribution<'a> {
    /// The contribution at released item vectors, shape `(m, d)`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a loss whose bounds are not from 1e-6 to 1e6;
    /// [`crate::Error::Shape`] for item vectors of a length other than `d`.
    pub fn new(
        setup: &'a ProblemSetup,
        loss: &'a dyn ConvexLoss,
        item_vectors: &'a [f64],
        slope_norm: f64,
    ) -> Result<Self> {
        let n_items = item_vectors.len() / setup.dim.max(1);
        params::same_size("item vectors", item_vectors.len(), n_items * setup.dim)?;
        let bounds = [loss.first_bound(setup.label_bound), loss.second_bound()];
        in_public_range("first_bound", bounds[0])?;
        in_public_range("second_bound", bounds[1])?;
        Ok(Self {
            setup,
            loss,
            item_vectors,
            slope_norm,
            bounds,
        })
    }

    /// Grids with the sensitivities above.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when a noise multiplier or bound does not fit a grid.
    pub fn grids(&self, matrix_noise: f64, rhs_noise: f64) -> Result<GramGrids> {
        let norm = self.setup.user_norm;
        Ok(GramGrids::new(
            matrix_noise,
            norm * norm * self.bounds[1],
            rhs_noise,
            norm * self.slope_reach(),
        )?)
    }

    fn slope_reach(&self) -> f64 {
        self.slope_norm.min(self.bounds[0])
    }
}

impl FactorContribution for CurvatureContribution<'_> {
    type Scratch = Vec<f64>;

    fn scratch(&self) -> Vec<f64> {
        Vec::new()
    }

    fn dim(&self) -> usize {
        self.setup.dim
    }

    fn contribute(&self, unit: UserRow<'_>, curvatures: &mut Vec<f64>, out: &mut FactorBuffer) {
        let dim = self.setup.dim;
        self.setup.write_vector(unit, &mut out.factor);
        self.setup.weights.weigh(unit, &mut out.weights);
        let [first, second] = self.bounds;
        curvatures.clear();
        for (slope, (item, y)) in out.labels.iter_mut().zip(unit.iter()) {
            let v = &self.item_vectors[item as usize * dim..][..dim];
            let score: f64 = out.factor.iter().zip(v).map(|(u, v)| u * v).sum();
            let y = self.setup.label(y);
            let curvature = self.loss.second(score, y);
            // NaN becomes the largest value
            let floor = LEAST_CURVATURE * second;
            curvatures.push(if curvature < second {
                curvature.max(floor)
            } else {
                second
            });
            let raw = self.loss.first(score, y);
            *slope = if raw.is_nan() {
                0.0
            } else {
                raw.clamp(-first, first)
            };
        }
        scale_jointly(&mut out.labels, &out.weights, self.slope_norm);
        let records = out.labels.iter_mut().zip(&mut out.weights);
        for ((label, weight), h) in records.zip(&*curvatures) {
            *label /= h;
            *weight *= h;
        }
    }
}

/// Settings of [`ConvexSsp`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvexSspParams {
    /// Bounds, weights and unit. Of the bounds on labels only `label_bound` is used.
    pub setup: ProblemSetup,
    /// Share of each release's budget spent on the curvatures, strictly between 0 and 1.
    pub matrix_share: f64,
    /// Number of quadratic approximations `T`, each a separate release, 1 to 1000.
    pub n_steps: usize,
    /// Bound `E` on the weighted norm of a unit's slopes, from 1e-6 to 1e6; it has no effect at or
    /// above the loss's own bound.
    pub slope_norm: f64,
}

impl ConvexSspParams {
    /// `n_steps` approximations, a fifth of the budget on curvatures, and slopes up to the loss's
    /// own bound.
    #[must_use]
    pub const fn new(setup: ProblemSetup, n_steps: usize) -> Self {
        Self {
            setup,
            matrix_share: 0.2,
            n_steps,
            slope_norm: 1e6,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<ConvexSsp> {
        self.setup.check()?;
        params::open_unit("matrix_share", self.matrix_share)?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_steps", self.n_steps, 1, 1000, range)?;
        in_public_range("slope_norm", self.slope_norm)?;
        Ok(ConvexSsp { params: self })
    }
}

/// SSP for a convex loss: in each step, the release of noisy curvatures and slopes around the
/// current item vectors defines a quadratic from which a learner learns.
///
/// ```text
/// sum_j (v - v^t)_j^T PSD(H_j) (v - v^t)_j / 2 + g_j^T (v - v^t)_j:   statistics A = PSD(H), b = PSD(H) v^t - g
/// ```
///
/// Source: Krichene et al. 2024, Algorithm 7, with the positive semidefinite parts of the noisy
/// curvatures. The paper does not evaluate it; our evaluation is in `docs/results.md`.
///
/// # Privacy
/// Released, and visible to anyone: in each step all curvatures (sensitivity `L2 Gamma_u^2`,
/// `sqrt 2` times that for a replacement) and all slopes (`Gamma_u min(E, L1)`, twice that for a
/// replacement): [`CurvatureContribution`]. Unit: as in [`ProblemSetup::unit`].
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_pubfeat::{ConvexSspParams, ProblemSetup};
/// let convex = ConvexSspParams::new(ProblemSetup::new(8, 1.0), 2).check()?;
/// let plan = convex.plan(500, ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ConvexSsp {
    params: ConvexSspParams,
}

impl ConvexSsp {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &ConvexSspParams {
        &self.params
    }

    /// The releases of a fit over `n_items`, calibrated to `target`.
    ///
    /// # Errors
    /// As [`Ssp::plan`](crate::Ssp::plan).
    pub fn plan(&self, n_items: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        Ok(plan_for(
            &self.requests(n_items, adjacency)?,
            target,
            adjacency,
        )?)
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        let params = &self.params;
        params.setup.unit.check(adjacency)?;
        params::at_least_one("n_items", n_items)?;
        let of_one = |t| {
            let name = format!("curvature {t}");
            gram_requests(&name, params.setup.dim, n_items, params.matrix_share, 1.0)
        };
        let steps = 1..=params.n_steps;
        Ok(Requests::Shares(steps.flat_map(of_one).collect()))
    }

    /// The trainer in which `learner` learns from the quadratic approximation of `loss` in each
    /// step. A loss whose bounds are not from 1e-6 to 1e6 is refused when the trainer is run.
    pub fn with<C, L>(&self, loss: C, learner: L) -> With<Self, (C, L)> {
        With {
            settings: self.clone(),
            start: (loss, learner),
        }
    }

    /// `A = PSD(H)`, `b = A v - g`.
    fn release(
        &self,
        loss: &dyn ConvexLoss,
        v: &[f64],
        rows: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<ItemStatistics> {
        let params = &self.params;
        let contribution = CurvatureContribution::new(&params.setup, loss, v, params.slope_norm)?;
        let grids = |matrix, rhs| contribution.grids(matrix, rhs);
        let released = run.grams(rows, grids, &contribution)?;
        let mut statistics = ItemStatistics::of(&released);
        statistics.project_psd()?;
        let dim = params.setup.dim;
        let mut image = vec![0.0; v.len()];
        for (item, image) in image.chunks_exact_mut(dim).enumerate() {
            // A v - g, because the residual is A v - rhs
            statistics.residual(item, &v[item * dim..][..dim], image);
        }
        statistics.rhs = image;
        Ok(statistics)
    }
}

impl<C: ConvexLoss, L: StatisticsLearner + Clone> Trainer for With<ConvexSsp, (C, L)> {
    type Data = Private<Interactions>;
    type Model = L;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        self.start.1.n_items()
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_items, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Given);
        trainer::describe(certificate, said, (OUTPUT, &[]))
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<L> {
        let (loss, start) = &self.start;
        let setup = &self.settings.params.setup;
        in_public_range("second_bound", loss.second_bound())?;
        in_public_range("first_bound", loss.first_bound(setup.label_bound))?;
        let mut learner = trainer::begin((setup, start), data, run)?;
        let shape = (learner.n_items(), learner.dim());
        setup.unit.with_rows(data, |rows| {
            for _ in 0..self.settings.params.n_steps {
                let v = vectors_of(&learner, shape)?;
                learner.learn(&self.settings.release(loss, &v, rows, run)?)?;
            }
            Ok(())
        })?;
        Ok(learner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_those_of_differences_and_within_their_bounds() {
        let losses: [&dyn ConvexLoss; 2] = [&Logistic, &Squared];
        for loss in losses {
            for score in [-30.0, -2.0, -0.1, 0.0, 0.7, 3.0, 40.0] {
                for y in [-1.0, 1.0] {
                    let h = 1e-4;
                    let slope = (loss.loss(score + h, y) - loss.loss(score - h, y)) / (2.0 * h);
                    assert!((slope - loss.first(score, y)).abs() < 1e-7);
                    let bend = (loss.first(score + h, y) - loss.first(score - h, y)) / (2.0 * h);
                    assert!((bend - loss.second(score, y)).abs() < 1e-7);
                    assert!((0.0..=loss.second_bound()).contains(&loss.second(score, y)));
                }
            }
        }
        for y in [-1.0, 1.0] {
            assert!(Logistic.first(-800.0, y).abs() <= 1.0 && Logistic.loss(800.0, y).is_finite());
        }
    }
}
