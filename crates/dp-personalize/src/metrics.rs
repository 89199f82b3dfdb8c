//! Errors against a known truth: for made data only.

use dp_core::{UserSamples, params};

use crate::design::UserDesign;
use crate::{LocalFit, PersonalModel, Result, Subspace};

/// What is known of made data: every user's true coefficients, and the second moments of the features.
#[derive(Debug, Clone, Copy)]
pub struct GroundTruth<'a> {
    /// True coefficients `theta_j`, shape `(n_users, dim)`, row-major.
    pub coefficients: &'a [f64],
    /// `E[x_c^2]` of each coordinate of the features, which are uncorrelated; length `dim`.
    pub feature_variances: &'a [f64],
}

impl GroundTruth<'_> {
    /// Mean over users of the excess population risk of the models, in user order.
    ///
    /// ```text
    /// (1/n) sum_j E_x (b_j + <x, theta^_j - theta_j>)^2 = (1/n) sum_j b_j^2 + sum_c E[x_c^2] (theta^_jc - theta_jc)^2
    /// ```
    ///
    /// for features of mean 0 and truths without a level.
    /// The mean squared error on new rows is this plus the variance of the label noise.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when there are not as many models as users.
    pub fn population_mse(&self, models: impl Iterator<Item = PersonalModel>) -> Result<f64> {
        let dim = self.feature_variances.len();
        let mut truth = self.coefficients.chunks_exact(dim);
        let (mut total, mut n) = (0.0, 0);
        for model in models {
            n += 1;
            let theta = truth.next().unwrap_or_default();
            params::same_size("model", model.coefficients().len(), theta.len())?;
            let terms = model
                .coefficients()
                .iter()
                .zip(theta)
                .zip(self.feature_variances);
            total += model.level().powi(2);
            total += terms.map(|((a, b), s)| s * (a - b) * (a - b)).sum::<f64>();
        }
        params::same_size("models", n, self.coefficients.len() / dim)?;
        Ok(total / n.max(1) as f64)
    }

    /// The same for the models that `local` fits in `subspace` on each user's rows.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when truth, samples and subspace do not fit each other.
    pub fn subspace_mse(
        &self,
        subspace: &Subspace,
        local: &LocalFit,
        samples: &UserSamples,
    ) -> Result<f64> {
        params::same_size("features", samples.n_features(), subspace.dim())?;
        let mut design = UserDesign::new(subspace.rank());
        self.population_mse(
            samples
                .users()
                .map(|rows| local.fit_with(subspace, rows, &mut design)),
        )
    }
}
