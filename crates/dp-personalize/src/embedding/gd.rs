//! A gradient step on the subspace, for convex losses.

use dp_accounting::ReleaseRequest;
use dp_core::{ReplaceFactor, SampleRows, UserRow, UserSamples, params};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};
use dp_mechanism::{Run, SparseBuffer, VectorContribution};

use super::StepUsers;
use crate::design::UserDesign;
use crate::small::{clip_factor, norm};
use crate::{Result, Subspace};

/// Weight of the count of users in a release, relative to the gradient.
const COUNT_WEIGHT: f64 = 0.25;

/// A step of noisy gradient descent on the subspace, for any [`ConvexLoss`]: the private step of
/// Algorithm 1 by gradients instead of sufficient statistics (almost no inner loop, with a private
/// shared layer).
///
/// ```text
/// g_j = (1/m_j) sum_i l'(<x_ij, U v_j>; y_ij) x_ij v_j^T,     a_j = min(1, C / ||g_j||_F)
/// U <- orthonormal basis of U - eta C (sum_j a_j g_j / C + noise) / N,   N = released number of users
/// ```
///
/// `v_j` is the user's own minimiser in the current subspace, so `g_j` is the gradient of the
/// user's smallest loss with respect to `U`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DpGdEmbedding {
    /// The loss.
    pub loss: ConvexLoss,
    /// Bound `C` on the norm of a user's mean gradient.
    pub gradient_clip: f64,
    /// Step size `eta`.
    pub learning_rate: f64,
    /// Relative ridge of users' personal models, see [`LocalFit`](crate::LocalFit); for the
    /// logistic loss it must be well above 0 if labels are separable.
    pub l2_penalty: f64,
}

impl DpGdEmbedding {
    pub(crate) fn check(&self) -> Result<()> {
        self.loss.check()?;
        params::finite_positive("gradient_clip", self.gradient_clip)?;
        params::finite_positive("learning_rate", self.learning_rate)?;
        params::finite_positive("l2_penalty", self.l2_penalty)?;
        Ok(())
    }

    pub(crate) fn request(dim: usize, rank: usize, step: &str, share: f64) -> ReleaseRequest {
        let draws = (dim * rank + 1) as u64;
        ReleaseRequest::new(format!("{step} gradient"), share, ReplaceFactor::Two, draws)
    }

    /// One step from `current`.
    pub(crate) fn step(
        &self,
        current: &Subspace,
        samples: &UserSamples,
        users: StepUsers,
        run: &mut Run<'_>,
    ) -> Result<Subspace> {
        let max_rows = samples.max_rows();
        let gradients = SubspaceGradients {
            settings: self,
            subspace: current,
            max_rows,
            users,
        };
        let n = current.basis().len() + 1;
        let shape = (n, COUNT_WEIGHT.hypot(1.0));
        let released = run.vector(samples.table(), shape, &gradients)?;
        let values = released.values();
        let (gradient, count) = values.split_at(n - 1);
        let least = released.noise_stddev() / COUNT_WEIGHT;
        let n_users = count
            .first()
            .map_or(least, |c| (c / COUNT_WEIGHT).max(least));
        let scale = self.learning_rate * self.gradient_clip / n_users;
        // a step longer than 1 would do more than replace the subspace: shorten it
        let scale = scale * clip_factor(scale * norm(gradient), 1.0);
        let moved = current
            .basis()
            .iter()
            .zip(gradient)
            .map(|(u, g)| u - scale * g);
        let columns: Vec<f64> = moved.collect();
        let (dim, rank) = (current.dim(), current.rank());
        Subspace::spanned_by(dim, rank, &columns, run.provenance())
    }
}

/// One user's contribution to a gradient step: `(a_j g_j / C, beta)` with `beta = 1/4`.
///
/// # Privacy
/// `||a g / C||_F <= 1`, and every user counts `beta`: the joint contribution has norm at most
/// `sqrt(1 + beta^2)`, the sensitivity under add/remove, twice that under replacement, whatever the
/// loss. The sum over users is never clipped.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
#[derive(Clone, Copy)]
pub struct SubspaceGradients<'a> {
    pub(crate) settings: &'a DpGdEmbedding,
    pub(crate) subspace: &'a Subspace,
    pub(crate) max_rows: usize,
    pub(crate) users: StepUsers,
}

/// Scratch memory for one user.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct GradientScratch {
    design: UserDesign,
    pulled: Vec<f64>,
}

impl<'a> SubspaceGradients<'a> {
    /// The contributions of all users, with all of their at most `max_rows` rows.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    ///
    /// # Examples
    /// ```
    /// use dp_core::UserSamplesBuilder;
    /// use dp_mechanism::{Grid, vector_contribution};
    /// use dp_personalize::{ConvexLoss, DpGdEmbedding, Provenance, Subspace, SubspaceGradients};
    /// let axis = Subspace::spanned_by(2, 1, &[1.0, 0.5], Provenance::NonPrivate)?;
    /// let settings = DpGdEmbedding { loss: ConvexLoss::Squared, gradient_clip: 0.1, learning_rate: 1.0, l2_penalty: 0.01 };
    /// let gradients = SubspaceGradients::new(&settings, &axis, 8)?;
    /// let mut users = UserSamplesBuilder::new(2, 8)?;
    /// users.push(0, &[1.0, -1.0], 2.0)?;
    /// let samples = users.build().0;
    /// let grid = Grid::new(1.0, 1.0625_f64.sqrt())?;
    /// let share = vector_contribution(&grid, 3, &gradients, samples.table().expose().user(0));
    /// assert!(!share.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(
        settings: &'a DpGdEmbedding,
        subspace: &'a Subspace,
        max_rows: usize,
    ) -> Result<Self> {
        settings.check()?;
        params::at_least_one("max_rows", max_rows)?;
        Ok(Self {
            settings,
            subspace,
            max_rows,
            users: StepUsers::ALL,
        })
    }
}

impl VectorContribution for SubspaceGradients<'_> {
    type Scratch = GradientScratch;

    fn scratch(&self) -> GradientScratch {
        GradientScratch {
            design: UserDesign::new(self.subspace.rank()),
            pulled: vec![0.0; self.subspace.dim()],
        }
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut GradientScratch, out: &mut SparseBuffer) {
        let rows = SampleRows::of(user, self.subspace.dim());
        if !self.users.include(rows) {
            return;
        }
        let GradientScratch { design, pulled } = own;
        let (loss, basis) = (self.settings.loss, self.subspace.basis());
        design.read(self.users.model_rows.of(rows.iter(), self.max_rows), basis);
        design.solve_convex(loss, self.settings.l2_penalty);
        let theta = crate::PersonalModel::new(self.subspace, design.own.clone());
        pulled.fill(0.0);
        let mut n_rows = 0.0;
        for (x, y) in self.users.embedding_rows.of(rows.iter(), self.max_rows) {
            let slope = loss.slope(theta.predict(x), y.into());
            pulled
                .iter_mut()
                .zip(x)
                .for_each(|(p, &x)| *p += slope * f64::from(x));
            n_rows += 1.0;
        }
        if n_rows == 0.0 {
            return;
        }
        let size = norm(pulled) * norm(&design.own) / n_rows;
        let clip = self.settings.gradient_clip;
        let scale = clip_factor(size, clip) / (clip * n_rows);
        let (gradient, count) = out.dense(basis.len() + 1).split_at_mut(basis.len());
        for (row, p) in gradient.chunks_exact_mut(design.own.len()).zip(&*pulled) {
            let entries = row.iter_mut().zip(&design.own);
            entries.for_each(|(g, v)| *g = scale * p * v);
        }
        count.fill(COUNT_WEIGHT);
    }
}

/// Number of steps of a user's fit for losses without a closed form: the same for all users.
const N_ITERATIONS: usize = 40;

/// A convex loss `l(p; y)` of the prediction `p = <x, U v>`.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum ConvexLoss {
    /// `(p - y)^2 / 2`.
    #[default]
    Squared,
    /// `log(1 + exp(-s p))`, with `s = 1` for labels above 0 and -1 for others.
    Logistic,
    /// `(p - y)^2 / 2` up to `|p - y| = threshold`, linear beyond.
    Huber {
        /// The threshold, in label units.
        threshold: f64,
    },
}

impl ConvexLoss {
    pub(crate) fn check(self) -> Result<()> {
        if let Self::Huber { threshold } = self {
            params::finite_positive("threshold", threshold)?;
        }
        Ok(())
    }

    /// `dl/dp`.
    #[must_use]
    pub fn slope(self, prediction: f64, label: f64) -> f64 {
        match self {
            Self::Squared => prediction - label,
            Self::Huber { threshold } => (prediction - label).clamp(-threshold, threshold),
            Self::Logistic if label > 0.0 => -1.0 / (1.0 + prediction.exp()),
            Self::Logistic => 1.0 / (1.0 + (-prediction).exp()),
        }
    }

    /// Largest `d^2 l / dp^2`.
    const fn smoothness(self) -> f64 {
        match self {
            Self::Logistic => 0.25,
            Self::Squared | Self::Huber { .. } => 1.0,
        }
    }
}

impl UserDesign {
    /// Writes `v = argmin sum_i l(<z_i, v>; y_i) + (lambda/2) t ||v||^2`, with `t = tr(Z^T Z) / k`,
    /// to `own`; zeros if that is not finite.
    ///
    /// By repeatedly minimising the quadratic that has the loss's largest curvature everywhere:
    /// every such step lowers the loss, and all steps share one Cholesky factorisation.
    pub(crate) fn solve_convex(&mut self, loss: ConvexLoss, ridge: f64) {
        if loss == ConvexLoss::Squared {
            self.solve(ridge);
            return;
        }
        let (rank, smoothness) = (self.rank, loss.smoothness());
        let (mut factor, trace) = self.gram();
        let lift = ridge * trace / rank as f64;
        for (at, g) in factor.iter_mut().enumerate() {
            *g *= smoothness;
            if at % (rank + 1) == 0 {
                *g += lift;
            }
        }
        self.own.fill(0.0);
        if cholesky_in_place(&mut factor, rank).is_err() {
            return;
        }
        let mut step = vec![0.0; rank];
        for _ in 0..N_ITERATIONS {
            step.iter_mut()
                .zip(&self.own)
                .for_each(|(s, v)| *s = -lift * v);
            for (z, y) in self.projected.chunks_exact(rank).zip(&self.labels) {
                let slope = loss.slope(crate::small::inner(z, &self.own), *y);
                step.iter_mut().zip(z).for_each(|(s, z)| *s -= slope * z);
            }
            if cholesky_solve_in_place(&factor, rank, &mut step).is_err() {
                break;
            }
            self.own.iter_mut().zip(&step).for_each(|(v, s)| *v += s);
        }
        if self.own.iter().any(|v| !v.is_finite()) {
            self.own.fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_model_has_no_slope_left() {
        let rows = [
            ([1.0_f32, 0.5], 2.0_f32),
            ([0.3, -1.0], -1.0),
            ([-0.7, 0.2], 0.4),
            ([0.1, 0.9], -3.0),
        ];
        let identity = [1.0, 0.0, 0.0, 1.0];
        for loss in [
            ConvexLoss::Squared,
            ConvexLoss::Logistic,
            ConvexLoss::Huber { threshold: 0.5 },
        ] {
            let mut design = UserDesign::new(2);
            design.read(rows.iter().map(|(x, y)| (&x[..], *y)), &identity);
            design.solve_convex(loss, 0.3);
            let trace = design.gram().1;
            for k in 0..2 {
                let z = design.projected.chunks_exact(2).zip(&design.labels);
                let pull: f64 = z
                    .map(|(z, y)| {
                        z[k] * loss.slope(z[0] * design.own[0] + z[1] * design.own[1], *y)
                    })
                    .sum();
                let slope = pull + 0.3 * trace / 2.0 * design.own[k];
                assert!(slope.abs() < 1e-6, "{loss:?}: {slope}");
            }
        }
    }

    #[test]
    fn separable_labels_and_huge_rows_give_finite_models() {
        let identity = [1.0];
        for x in [1.0_f32, f32::MAX, f32::MIN_POSITIVE] {
            let mut design = UserDesign::new(1);
            let row = [x];
            design.read([(&row[..], 1.0), (&row[..], 1.0)].into_iter(), &identity);
            design.solve_convex(ConvexLoss::Logistic, 1e-9);
            assert!(design.own[0].is_finite());
        }
        assert!(ConvexLoss::Huber { threshold: 0.0 }.check().is_err());
        for p in [1e300, -1e300] {
            for y in [-1.0, 1.0] {
                assert!(ConvexLoss::Logistic.slope(p, y).abs() <= 1.0);
            }
        }
    }
}
