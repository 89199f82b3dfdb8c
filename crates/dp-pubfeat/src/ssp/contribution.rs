//! What a unit adds to the statistics.

use dp_core::UserRow;
use dp_mechanism::{FactorBuffer, FactorContribution, GramGrids};

use crate::{ProblemSetup, Result};

/// One unit's share of the statistics of all items.
///
/// ```text
/// u   = the unit's vector, shortened to norm Gamma_u
/// y_j = clip(label, Gamma_y), then all labels of the unit scaled so that sum_j w_j^2 y_j^2 <= B^2
/// A_j += w_j u u^T,   b_j += w_j y_j u,   sum_j w_j^2 <= 1
/// ```
///
/// Source: Krichene et al. 2024, eq. (5), lines 4 and 5 of Algorithms 2 and 3; the joint bound `B` is ours.
///
/// # Privacy
/// Without a unit the stacked matrices change by the blocks `w_j u u^T`, one per item of the unit, because a table has each pair of unit and
/// item once. `||u u^T||_F = ||u||^2`, so
///
/// ```text
/// matrices:          sqrt(sum_j w_j^2 ||u||^4)        <= Gamma_u^2
/// right-hand sides:  sqrt(sum_j w_j^2 y_j^2 ||u||^2)  <= Gamma_u min(B, Gamma_y)
/// ```
///
/// For users these are the bounds of Theorem 2 with `w_bar = 1`. For examples the unit has one item of weight 1, which gives Theorem 1. When a unit is replaced the right-hand sides
/// move by at most twice as much. The matrices move by `M - M'` with `M, M'` both positive semidefinite: `<M, M'> >= 0`, so at most `sqrt 2` times as much. The kernel
/// checks both bounds in exact integers; nothing else here is needed for the guarantee.
///
/// No regulariser is part of the sums (`docs/errata.md`): `lambda_v sum_i ||v_(j_i)||^2` over examples puts the exact count of an item into its gradient.
#[derive(Debug, Clone, Copy)]
pub struct SspContribution<'a> {
    setup: &'a ProblemSetup,
}

impl<'a> SspContribution<'a> {
    /// The contribution under checked settings.
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
