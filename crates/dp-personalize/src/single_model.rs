//! One private linear model for all users.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, ReplaceFactor, SampleRows, UserRow, UserSamples, params};
use dp_linalg::{PsdScratch, packed_len, psd_part_plus_ridge_solve};
use dp_mechanism::{Run, SparseBuffer, Trainer, VectorContribution};

use crate::small::{clip_factor, norm, read_symmetric, write_symmetric};
use crate::subspace::describe;
use crate::{Error, PersonalModel, Result};

/// Settings of [`SingleModel`] before validation. All are public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleModelParams {
    /// Bound `eta` on the norm of a row's features.
    pub design_clip: f64,
    /// Bound `zeta` on a label.
    pub label_clip: f64,
}

/// One linear model for all users by perturbed sufficient statistics, released once: the baseline "single model".
///
/// ```text
/// theta = (PSD(A) + r I)^-1 b,   A = sum_ij x_ij x_ij^T + noise,  b = sum_ij y_ij x_ij + noise
/// ```
///
/// with rows clipped to `eta` and labels to `zeta`, where `r` is the spectral norm of the noise of
/// `A`.
///
/// # Privacy
/// See [`SingleModelStatistics`]. Released to everybody: the coefficients. Unit: the user with all rows.
///
/// # Errors
/// [`plan`](Trainer::plan): [`crate::Error::Param`] unless `dim` is from 1 to 1024.
#[derive(Debug, Clone, PartialEq)]
pub struct SingleModel {
    params: SingleModelParams,
}

impl SingleModelParams {
    /// Clipping norms in data units: there are no sensible defaults for them.
    #[must_use]
    pub const fn new(design_clip: f64, label_clip: f64) -> Self {
        Self {
            design_clip,
            label_clip,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when a clipping norm is not finite and positive.
    pub fn check(self) -> Result<SingleModel> {
        params::finite_positive("design_clip", self.design_clip)?;
        params::finite_positive("label_clip", self.label_clip)?;
        Ok(SingleModel { params: self })
    }
}

impl Trainer for SingleModel {
    type Data = UserSamples;
    /// The coefficients, the same for every user.
    type Model = PersonalModel;
    type Error = Error;

    fn width(&self, samples: &UserSamples) -> usize {
        samples.n_features()
    }

    fn requests(&self, dim: usize, _: Adjacency) -> Result<Requests> {
        params::in_range("dim", dim, 1, 1024, "a whole number from 1 to 1024")?;
        let draws = SingleModelStatistics::n_coordinates(dim) as u64;
        let request = ReleaseRequest::new("single model", 1.0, ReplaceFactor::Two, draws);
        Ok(Requests::Shares(vec![request]))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        describe(certificate, "coefficients of one model")
    }

    fn train(&self, samples: &UserSamples, run: &mut Run<'_>) -> Result<PersonalModel> {
        let dim = samples.n_features();
        let share = SingleModelStatistics {
            params: self.params,
            n_features: dim,
            max_rows: samples.max_rows(),
        };
        let shape = (SingleModelStatistics::n_coordinates(dim), 2.0_f64.sqrt());
        let released = run.vector(samples.table(), shape, &share)?;
        let values = released.values();
        let (matrix, rhs) = values.split_at(packed_len(dim));
        let (matrix, mut theta) = (read_symmetric(matrix, dim), rhs.to_vec());
        let ridge = released.noise_stddev() * (2.0 * dim as f64).sqrt();
        psd_part_plus_ridge_solve(&matrix, ridge, &mut theta, &mut PsdScratch::new(dim)?)?;
        let unit = self.params.label_clip / self.params.design_clip;
        theta.iter_mut().for_each(|t| *t *= unit);
        Ok(PersonalModel::of_coefficients(theta))
    }
}

/// One user's contribution to both sums: `(A_j / (m eta^2), b_j / (m eta zeta))`.
///
/// # Privacy
/// `||x x^T||_F <= eta^2` and `||y x|| <= eta zeta` for each of at most `m` rows, so each part has norm at most 1 and both
/// together `sqrt 2`: the sensitivity under add/remove, twice that under replacement.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct SingleModelStatistics {
    /// Clipping norms.
    pub params: SingleModelParams,
    /// Length of the features.
    pub n_features: usize,
    /// Maximum number of rows of a user, `m`.
    pub max_rows: usize,
}

impl SingleModelStatistics {
    /// Coordinates of a release.
    #[must_use]
    pub const fn n_coordinates(dim: usize) -> usize {
        packed_len(dim) + dim
    }
}

impl VectorContribution for SingleModelStatistics {
    type Scratch = [Vec<f64>; 3];

    fn scratch(&self) -> Self::Scratch {
        let dim = self.n_features;
        [vec![0.0; dim * dim], vec![0.0; dim], vec![0.0; dim]]
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer) {
        let ([matrix, rhs, row], dim) = (scratch, self.n_features);
        matrix.fill(0.0);
        rhs.fill(0.0);
        let zeta = self.params.label_clip;
        for (x, y) in SampleRows::of(user, dim).iter() {
            row.iter_mut().zip(x).for_each(|(r, &x)| *r = x.into());
            // in units of eta
            let factor = clip_factor(norm(row), self.params.design_clip) / self.params.design_clip;
            row.iter_mut().for_each(|r| *r *= factor);
            let label = f64::from(y).clamp(-zeta, zeta) / zeta;
            for (a, entries) in matrix.chunks_exact_mut(dim).enumerate() {
                let upper = entries[a..].iter_mut().zip(&row[a..]);
                upper.for_each(|(m, b)| *m += row[a] * b);
                rhs[a] += label * row[a];
            }
        }
        let scale = 1.0 / self.max_rows as f64;
        let n = packed_len(dim);
        let (triangle, rest) = out.dense(n + dim).split_at_mut(n);
        write_symmetric(triangle, matrix, dim, scale);
        rest.iter_mut().zip(rhs).for_each(|(o, b)| *o = *b * scale);
    }
}
