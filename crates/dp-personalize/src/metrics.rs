//! Errors with respect to a known truth, for generated data only; and metrics of classification
//! scores.

use dp_core::{UserSamples, params};

use crate::design::UserDesign;
use crate::{LocalFit, PersonalModel, Result, Subspace};

/// Known properties of generated data: every user's true coefficients, and the second moments of
/// the features.
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
    /// for features of mean 0 and true models without a level. The mean squared error on new rows
    /// is this plus the variance of the label noise.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the number of models differs from the number of users.
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

    /// The same for the models that `local` fits in `subspace` to each user's rows.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when truth, samples and subspace do not match.
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

/// Scores of positive and negative rows, where a higher score means a more likely positive: of one
/// user or of many. Private if the rows are.
#[derive(Clone, Default)]
#[allow(
    missing_debug_implementations,
    reason = "users' labels; printing them is never wanted"
)]
pub struct ClassScores {
    rows: Vec<(f64, bool)>,
}

impl ClassScores {
    /// Adds a row with its score in logits.
    pub fn push(&mut self, logit: f64, yes: bool) {
        self.rows.push((logit, yes));
    }

    /// Adds the rows of another user.
    pub fn extend(&mut self, other: &Self) {
        self.rows.extend_from_slice(&other.rows);
    }

    /// Number of positive or negative rows.
    #[must_use]
    pub fn count(&self, yes: bool) -> usize {
        self.rows.iter().filter(|row| row.1 == yes).count()
    }

    /// Area under the ROC curve: the probability that a positive row has a higher score than a
    /// negative one, with ties counted half. None without rows of both classes, or if a score is
    /// not a number.
    ///
    /// # Examples
    /// ```
    /// use dp_personalize::ClassScores;
    /// let mut scores = ClassScores::default();
    /// for (logit, yes) in [(2.0, true), (-1.0, false), (1.0, false), (1.0, true)] {
    ///     scores.push(logit, yes);
    /// }
    /// assert_eq!(scores.auc(), Some(0.875));
    /// assert_eq!(scores.recall(true), Some(1.0));
    /// assert_eq!(scores.recall(false), Some(0.5));
    /// ```
    #[must_use]
    pub fn auc(&self) -> Option<f64> {
        let pairs = self.count(true) as f64 * self.count(false) as f64;
        if pairs <= 0.0 || self.rows.iter().any(|row| row.0.is_nan()) {
            return None;
        }
        let mut rows = self.rows.clone();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut below, mut wins) = (0.0, 0.0);
        #[allow(clippy::float_cmp, reason = "ties are equal scores")]
        for tied in rows.chunk_by(|a, b| a.0 == b.0) {
            let yes = tied.iter().filter(|row| row.1).count() as f64;
            let no = tied.len() as f64 - yes;
            wins += yes * (below + 0.5 * no);
            below += no;
        }
        Some(wins / pairs)
    }

    /// Mean of `log(1 + exp(-s logit))`, with `s` 1 for positive rows and -1 for negative ones.
    /// None without rows.
    #[must_use]
    pub fn log_loss(&self) -> Option<f64> {
        let loss = |&(logit, yes): &(f64, bool)| {
            let margin = if yes { logit } else { -logit };
            (-margin.abs()).exp().ln_1p() + (-margin).max(0.0)
        };
        let total: f64 = self.rows.iter().map(loss).sum();
        (!self.rows.is_empty()).then(|| total / self.rows.len() as f64)
    }

    /// Share of the rows of one class that are classified correctly, with a logit above 0 meaning
    /// positive and any other negative. None without such rows.
    #[must_use]
    pub fn recall(&self, yes: bool) -> Option<f64> {
        let n = self.count(yes);
        let right = self.rows.iter().filter(|row| row.1 == yes);
        let right = right.filter(|row| (row.0 > 0.0) == yes).count();
        (n > 0).then(|| right as f64 / n as f64)
    }
}
