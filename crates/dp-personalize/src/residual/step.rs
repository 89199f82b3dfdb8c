//! One refinement step: the size of residual gradients as one number, then a joint release of the gradients and of the moments of the models.

use dp_core::{UserRow, params};
use dp_linalg::{
    PsdScratch, packed_len, psd_part_plus_ridge_solve, symmetric_eigen, write_outer_product,
};
use dp_mechanism::{Provenance, ReleasedVector, SparseBuffer, VectorContribution};

use super::gradient::{Public, ResidualScratch};
use crate::small::{clip_factor, norm, read_symmetric, transposed, write_symmetric_square};
use crate::{Result, Subspace};

/// One user's share of a residual Gauss-Newton step.
///
/// ```text
/// R_j = m_j/(m_j - k) X_j^T r_j w_j^T / (||v_j|| e_j)     shape (d, k)
/// S_j = w_j w_j^T                                         shape (k, k)
/// share: a_j (R_j / c, beta S_j),   a_j = min(1, c / ||R_j||_F)      R_j column by column, then the triangle of S_j
/// ```
///
/// with `v_j` the user's own least-squares model in the current subspace, `w_j` its direction, `r_j = y_j - X_j U v_j`, `e_j = ||X_j||_F^2 / d` and `X_j` whitened. The user's error
/// is that of `x^T D v_j` for the missing part `D` of `U`; where features are isotropic the expectation of `R_j` given `v_j` is `D S_j`: `m_j - k` of `m_j` dimensions are left in the residual, which the first factor makes up for.
/// So `D = (sum a R) (sum a S)^-1` with the *same* weights on both sides, and clipping costs weight without any bias. `d k + k (k+1)/2` numbers replace the `(dk)^2 / 2` of Algorithm 2.
///
/// # Privacy
/// `||a R / c||_F <= 1` and `||a beta S||_F <= beta`, so a user's joint share has norm at most `sqrt(1 + beta^2)`: the sensitivity under
/// add/remove, twice that under replacement. One clip serves both parts. The user's model leaves the contribution in these products only.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct ResidualStep<'a> {
    pub(crate) public: Public<'a>,
    pub(crate) clip_norm: f64,
    pub(crate) moment_weight: f64,
}

impl<'a> ResidualStep<'a> {
    /// The shares for features as they are.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when the clip or the weight is not finite and positive.
    ///
    /// # Examples
    /// ```
    /// use dp_core::UserSamplesBuilder;
    /// use dp_mechanism::{Grid, vector_contribution};
    /// use dp_personalize::{Provenance, ResidualStep, Subspace};
    /// let axis = Subspace::spanned_by(2, 1, &[1.0, 0.5], Provenance::NonPrivate)?;
    /// let step = ResidualStep::new(&axis, 0.5, 0.25)?;
    /// let mut users = UserSamplesBuilder::new(2, 8)?;
    /// for (x, y) in [([1.0, -1.0], 2.0), ([0.5, 0.5], -1.0), ([0.0, 1.0], 0.0)] {
    ///     users.push(0, &x, y)?;
    /// }
    /// let samples = users.build().0;
    /// let grid = Grid::new(1.0, 1.0625_f64.sqrt())?;
    /// let n = ResidualStep::n_coordinates(2, 1);
    /// let share = vector_contribution(&grid, n, &step, samples.table().expose().user(0));
    /// assert_eq!(share.len(), n);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(subspace: &'a Subspace, clip_norm: f64, moment_weight: f64) -> Result<Self> {
        Ok(Self {
            public: Public::unwhitened(subspace),
            clip_norm: params::finite_positive("clip_norm", clip_norm)?,
            moment_weight: params::finite_positive("moment_weight", moment_weight)?,
        })
    }
}

impl ResidualStep<'_> {
    /// Coordinates of a release.
    #[must_use]
    pub const fn n_coordinates(dim: usize, rank: usize) -> usize {
        dim * rank + packed_len(rank)
    }

    /// The largest norm of a user's contribution in Euclidean norm, `sqrt(1 + beta^2)` with beta the weight of the moments: the clip norm to
    /// plan a sum of these contributions with.
    #[must_use]
    pub fn share_norm(moment_weight: f64) -> f64 {
        moment_weight.hypot(1.0)
    }
}

impl VectorContribution for ResidualStep<'_> {
    type Scratch = ResidualScratch;

    fn scratch(&self) -> ResidualScratch {
        self.public.scratch()
    }

    fn reads_features(&self) -> bool {
        self.public.cache.is_none()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut ResidualScratch, out: &mut SparseBuffer) {
        let Some(found) = self.public.gradient(user, own) else {
            return;
        };
        let (dim, rank) = (found.pulled.len(), found.direction.len());
        let weight = clip_factor(found.size, self.clip_norm);
        let out = out.dense(Self::n_coordinates(dim, rank));
        let (gradient, moments) = out.split_at_mut(dim * rank);
        let scale = weight * found.scale / self.clip_norm;
        found.scales.clear();
        let scales = found.direction.iter().map(|w| scale * w);
        found.scales.extend(scales);
        if write_outer_product(found.scales, found.pulled, gradient).is_err() {
            gradient.fill(0.0); // not for any user: lengths are public
        }
        let scale = weight * self.moment_weight;
        write_symmetric_square(moments, found.direction, scale);
    }
}

/// One user's share of the size of residual gradients: `min(||R_j||_F, c) / c`, with the `R_j` of
/// [`ResidualStep`] and the clip `c` of the step before.
///
/// # Privacy
/// A number from 0 to 1: sensitivity 1 under add/remove; paid for 2 under replacement.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct ResidualEnergy<'a> {
    pub(crate) public: Public<'a>,
    pub(crate) clip_norm: f64,
}

impl<'a> ResidualEnergy<'a> {
    /// The shares for features as they are, in units of a clip.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when the clip is not finite and positive.
    pub fn new(subspace: &'a Subspace, clip_norm: f64) -> Result<Self> {
        Ok(Self {
            public: Public::unwhitened(subspace),
            clip_norm: params::finite_positive("clip_norm", clip_norm)?,
        })
    }
}

impl VectorContribution for ResidualEnergy<'_> {
    type Scratch = ResidualScratch;

    fn scratch(&self) -> ResidualScratch {
        self.public.scratch()
    }

    fn reads_features(&self) -> bool {
        self.public.cache.is_none()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut ResidualScratch, out: &mut SparseBuffer) {
        if let Some(gradient) = self.public.gradient(user, own) {
            out.push(0, (gradient.size / self.clip_norm).min(1.0));
        }
    }
}

/// What a released step says.
pub(super) struct Released {
    /// The next subspace.
    pub(super) subspace: Subspace,
    /// Noisy sum of the users' weights.
    pub(super) weight: f64,
}

/// Post-processing of a step's release: `U <- orthonormal basis of (U + t D)`, `D = R (PSD(S) + ridge)^-1`.
///
/// The positive-part James-Stein factor `t = max(0, 1 - E||noise of D||^2 / ||D||^2)` leaves the subspace
/// where it is when `D` is no larger than its noise, and `||t D||_F` is at most 1, so noise can turn the subspace but
/// not blow it up.
pub(super) fn advance(
    current: &Subspace,
    released: &ReleasedVector,
    clip_norm: f64,
    moment_weight: f64,
    provenance: Provenance,
) -> Result<Released> {
    let (dim, rank) = (current.dim(), current.rank());
    let values = released.values();
    let (residual, moments) = values.split_at(dim * rank);
    let moments = read_symmetric(moments, rank);
    let trace: f64 = moments.iter().step_by(rank + 1).sum();
    let noise = released.noise_stddev();
    let ridge = noise * (2.0 * rank as f64).sqrt();
    let mut scratch = PsdScratch::new(rank)?;
    // released column by column
    let mut change = transposed(residual, rank);
    for row in change.chunks_exact_mut(rank) {
        psd_part_plus_ridge_solve(&moments, ridge, row, &mut scratch)?;
        row.iter_mut().for_each(|x| *x *= clip_norm * moment_weight);
    }
    let inverse_squares = symmetric_eigen(&moments, rank)?.values.into_iter();
    let inverse_squares: f64 = inverse_squares.map(|s| (s.max(0.0) + ridge).powi(-2)).sum();
    let noise_energy = dim as f64 * (noise * clip_norm * moment_weight).powi(2) * inverse_squares;
    let size = norm(&change);
    let shrunk = (1.0 - noise_energy / (size * size)).max(0.0);
    let scale = if shrunk * size > 1.0 {
        1.0 / size
    } else {
        shrunk
    };
    let moved = current
        .basis()
        .iter()
        .zip(&change)
        .map(|(u, d)| u + scale * d);
    let columns: Vec<f64> = moved.collect();
    Ok(Released {
        subspace: Subspace::spanned_by(dim, rank, &columns, provenance)?,
        weight: (trace / moment_weight).max(noise / moment_weight),
    })
}
