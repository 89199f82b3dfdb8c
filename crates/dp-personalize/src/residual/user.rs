//! What a user computes for a step: the own model, its residual, the gradient of the subspace.

use dp_core::{SampleRows, UserRow};
use dp_linalg::score_rows;

use crate::Subspace;
use crate::design::{TINY_RIDGE, UserDesign};
use crate::small::norm;

/// Public values of a step that users compute with.
#[derive(Clone, Copy)]
pub(crate) struct Public<'a> {
    /// Length of the features as they are.
    pub(crate) n_features: usize,
    /// The subspace for whitened features.
    pub(crate) subspace: &'a Subspace,
    /// The whitening transform `W`, if any.
    pub(crate) transform: Option<&'a [f64]>,
    /// `W U`: the basis for features as they are.
    pub(crate) basis: &'a [f64],
}

/// Working memory.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct ResidualScratch {
    design: UserDesign,
    /// Residual-weighted sum of the rows, and the same after whitening.
    pulled: [Vec<f64>; 2],
    /// Unit vector along the own model.
    pub(super) direction: Vec<f64>,
    /// `R_j`, shape `(dim, rank)`.
    pub(super) gradient: Vec<f64>,
}

impl Public<'_> {
    pub(super) fn scratch(&self) -> ResidualScratch {
        let (dim, rank) = (self.n_features, self.subspace.rank());
        ResidualScratch {
            design: UserDesign::new(rank),
            pulled: [vec![0.0; dim], vec![0.0; dim]],
            direction: vec![0.0; rank],
            gradient: vec![0.0; dim * rank],
        }
    }

    /// Fills direction and gradient of one user and returns the norm of the gradient, or `None` for
    /// a user who has nothing to say: no more rows than `rank`, or a model that is zero.
    ///
    /// ```text
    /// R_j = m_j/(m_j - k) W X_j^T r_j w_j^T / (||v_j|| e_j),  w_j = v_j/||v_j||,  r_j = y_j - X_j W U v_j,  e_j = ||X_j||_F^2 / d
    /// ```
    pub(super) fn gradient(&self, user: UserRow<'_>, own: &mut ResidualScratch) -> Option<f64> {
        let rank = self.subspace.rank();
        let rows = SampleRows::of(user, self.n_features);
        let design = &mut own.design;
        design.read(rows.iter(), self.basis);
        let n_rows = design.n_rows();
        if n_rows <= rank || !design.solve(TINY_RIDGE) {
            return None;
        }
        let [sum, whitened] = &mut own.pulled;
        sum.fill(0.0);
        let mut energy = 0.0;
        for ((x, _), r) in rows.iter().zip(design.residuals()) {
            for (s, &x) in sum.iter_mut().zip(x) {
                let x = f64::from(x);
                *s += r * x;
                energy += x * x;
            }
        }
        let length = norm(&design.own);
        let boost = n_rows as f64 / (n_rows - rank) as f64;
        let scale = boost * self.n_features as f64 / (length * energy);
        let pulled = match self.transform {
            Some(transform) => {
                score_rows(transform, sum, whitened).ok()?;
                whitened
            }
            None => sum,
        };
        own.direction
            .iter_mut()
            .zip(&design.own)
            .for_each(|(w, v)| *w = v / length);
        for (row, p) in own.gradient.chunks_exact_mut(rank).zip(&*pulled) {
            row.iter_mut()
                .zip(&own.direction)
                .for_each(|(g, w)| *g = scale * p * w);
        }
        let size = norm(&own.gradient);
        size.is_finite().then_some(size)
    }
}
