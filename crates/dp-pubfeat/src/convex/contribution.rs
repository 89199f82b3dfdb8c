//! A unit's curvature and slope at given item vectors.

use dp_core::{UserRow, params};
use dp_mechanism::{FactorBuffer, FactorContribution, GramGrids};

use super::ConvexLoss;
use crate::features::in_public_range;
use crate::ssp::scale_jointly;
use crate::{ProblemSetup, Result};

/// One unit's share of the quadratic approximation of the loss around item vectors `v`.
///
/// ```text
/// s_j = <u, v_j>,   h_j = clip(l''(s_j, y_j), [f L2, L2]),   e_j = clip(l'(s_j, y_j), L1)
/// H_j += w_j h_j u u^T,   g_j += w_j e_j u
/// ```
///
/// `u` is shortened to `Gamma_u`; `L1`, `L2` are the loss's bounds, and all `e_j` of a unit are scaled so that `sum_j w_j^2 e_j^2 <= E^2`, `E` the slope norm.
/// Curvatures below `f = 1/64` of their bound are raised to it: kernel factors carry `sqrt(h_j)`, and the step is damped where the
/// loss is flat. Source: Krichene et al. 2024, eq. (11), Algorithm 7, lines 5 and 6.
///
/// # Privacy
/// As for [`SspContribution`](crate::SspContribution) with weights `w_j h_j` and labels `e_j / h_j`: without a unit the blocks `w_j h_j u u^T` and `w_j e_j u` go, so
///
/// ```text
/// matrices:  sqrt(sum_j w_j^2 h_j^2 ||u||^4)  <= L2 Gamma_u^2
/// slopes:    sqrt(sum_j w_j^2 e_j^2 ||u||^2)  <= Gamma_u min(E, L1)
/// ```
///
/// under add/remove; `sqrt 2` (matrices, positive semidefinite as `h_j >= 0`) and 2 times that under replacement. `v` is released.
pub struct CurvatureContribution<'a> {
    setup: &'a ProblemSetup,
    loss: &'a dyn ConvexLoss,
    item_vectors: &'a [f64],
    slope_norm: f64,
    /// Of the first and second derivative.
    bounds: [f64; 2],
}

impl std::fmt::Debug for CurvatureContribution<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CurvatureContribution")
            .field("setup", self.setup)
            .finish_non_exhaustive()
    }
}

/// Least curvature, as a share of its bound.
const LEAST_CURVATURE: f64 = 1.0 / 64.0;

impl<'a> CurvatureContribution<'a> {
    /// The contribution at released item vectors, shape `(m, d)`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a loss whose bounds are not from 1e-6 to 1e6; [`crate::Error::Shape`] for item vectors that are not of the length `d`.
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
            // a NaN becomes the largest
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
