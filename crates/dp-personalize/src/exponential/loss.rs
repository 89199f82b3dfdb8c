//! How a user scores a candidate.

use dp_core::{SampleRows, params};

use crate::design::{TINY_RIDGE, UserDesign};
use crate::small::{clip_factor, inner, norm};
use crate::{Result, Subspace};

/// Iterations of projected gradient descent for losses without a closed form: the same for all users.
const N_ITERATIONS: usize = 60;

/// What a user reports of a candidate: by how much the best own model in it beats predicting 0.
///
/// ```text
/// gain_j(U) = loss_j(0) - min_v loss_j(v)    in [0, R]
/// ```
///
/// The printed score is the loss itself. Subtracting it from the loss at `v = 0`, which is the same for all candidates, changes no
/// probability under a fixed data set and puts one user's term into `[0, R]` (`docs/errata.md`).
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum SelectionLoss {
    /// Squared loss relative to that of predicting 0: the share of the user's own label variance that a model in the
    /// candidate explains. `R = 1` without any bound on features or labels.
    Explained,
    /// Mean Huber loss, with slopes of at most `slope` (`xi`), features in the subspace clipped to `feature_clip` (`L_f`) and `||v|| <= model_bound`
    /// (`C`): `R = xi L_f C`, as in the paper, for a loss that is `xi`-Lipschitz in the prediction.
    Huber {
        /// `xi`, label units: residuals beyond it count linearly.
        slope: f64,
        /// `L_f`.
        feature_clip: f64,
        /// `C`.
        model_bound: f64,
    },
}

impl SelectionLoss {
    pub(super) fn check(&self) -> Result<()> {
        if let Self::Huber {
            slope,
            feature_clip,
            model_bound,
        } = *self
        {
            params::finite_positive("slope", slope)?;
            params::finite_positive("feature_clip", feature_clip)?;
            params::finite_positive("model_bound", model_bound)?;
            params::finite_positive("slope * feature_clip * model_bound", self.range())?;
        }
        Ok(())
    }

    /// `R`.
    #[must_use]
    pub fn range(&self) -> f64 {
        match *self {
            Self::Explained => 1.0,
            Self::Huber {
                slope,
                feature_clip,
                model_bound,
            } => slope * feature_clip * model_bound,
        }
    }

    /// The user's gain, not yet bounded: the kernel bounds it.
    pub(super) fn gain(
        &self,
        subspace: &Subspace,
        rows: SampleRows<'_>,
        own: &mut UserDesign,
    ) -> f64 {
        own.read(rows.iter(), subspace.basis());
        match *self {
            Self::Explained => {
                own.solve(TINY_RIDGE);
                let total = inner(&own.labels, &own.labels);
                let left: f64 = own.residuals().map(|r| r * r).sum();
                if total > 0.0 { 1.0 - left / total } else { 0.0 }
            }
            Self::Huber {
                slope,
                feature_clip,
                model_bound,
            } => {
                for z in own.projected.chunks_exact_mut(own.rank) {
                    let factor = clip_factor(norm(z), feature_clip);
                    z.iter_mut().for_each(|z| *z *= factor);
                }
                own.own.fill(0.0);
                let before = mean_huber(own, slope);
                descend(own, slope, model_bound);
                before - mean_huber(own, slope)
            }
        }
    }
}

fn mean_huber(own: &UserDesign, slope: f64) -> f64 {
    let terms = own.residuals().map(|r| {
        let size = r.abs();
        if size <= slope {
            0.5 * size * size
        } else {
            slope * (size - 0.5 * slope)
        }
    });
    terms.sum::<f64>() / own.n_rows().max(1) as f64
}

/// Projected gradient descent from 0 with the step that the largest possible curvature allows.
fn descend(own: &mut UserDesign, slope: f64, model_bound: f64) {
    let curvature = inner(&own.projected, &own.projected); // trace of Z^T Z, at least its largest eigenvalue
    if !(curvature > 0.0 && curvature.is_finite()) {
        return;
    }
    for _ in 0..N_ITERATIONS {
        let pulls: Vec<f64> = own.residuals().map(|r| r.clamp(-slope, slope)).collect();
        for (z, pull) in own.projected.chunks_exact(own.rank).zip(pulls) {
            own.own
                .iter_mut()
                .zip(z)
                .for_each(|(v, z)| *v += pull * z / curvature);
        }
        let factor = clip_factor(norm(&own.own), model_bound);
        own.own.iter_mut().for_each(|v| *v *= factor);
    }
}
