//! The result of a regression.

use dp_core::{Interactions, Private, ShapeError, UserRow, params};
use dp_linalg::{GramAccumulator, cholesky_in_place, cholesky_solve_in_place};

use crate::{NoisyCounts, Provenance, Result};

/// Coefficients of every task. Public if they were released.
///
/// ```text
/// prediction of task i for a user with features x:  <theta_i, x>
/// ```
///
/// # Examples
/// ```
/// use dp_multitask::{Provenance, TaskModels};
/// let models = TaskModels::new(2, vec![1.0, 0.0, 0.5, 2.0], Provenance::NonPrivate)?;
/// assert_eq!(models.predict(1, &[2.0, 1.0]), 3.0);
/// # Ok::<(), dp_multitask::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TaskModels {
    dim: usize,
    coefficients: Vec<f64>,
    provenance: Provenance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counts: Option<NoisyCounts>,
}

impl TaskModels {
    /// Models from coefficients of shape `(n_tasks, dim)`, row-major.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `dim` is 0, [`crate::Error::Shape`] when the length is not a
    /// multiple of it.
    pub fn new(dim: usize, coefficients: Vec<f64>, provenance: Provenance) -> Result<Self> {
        params::at_least_one("dim", dim)?;
        if !coefficients.len().is_multiple_of(dim) {
            return Err(ShapeError {
                name: "coefficients",
                found: coefficients.len(),
                expected: coefficients.len().div_ceil(dim) * dim,
            }
            .into());
        }
        Ok(Self {
            dim,
            coefficients,
            provenance,
            counts: None,
        })
    }

    /// The same models with the task counts that were released with them.
    #[must_use]
    pub fn with_counts(mut self, counts: Option<NoisyCounts>) -> Self {
        self.counts = counts;
        self
    }

    /// The released task counts, if the run made any.
    #[must_use]
    pub const fn counts(&self) -> Option<&NoisyCounts> {
        self.counts.as_ref()
    }

    /// Ridge regression of every task without any privacy, for comparison:
    /// `theta_i = (sum_j x_j x_j^T + l2_penalty I)^-1 sum_j y_ij x_j`. Nothing is clipped.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `l2_penalty` is not finite and positive, or the table has no
    /// features; [`crate::Error::Linalg`] when features are so large that sums overflow.
    pub fn non_private_ridge(data: &Private<Interactions>, l2_penalty: f64) -> Result<Self> {
        params::finite_positive("l2_penalty", l2_penalty)?;
        let data = data.expose();
        let dim = params::at_least_one("feature_dim", data.feature_dim())?;
        let mut coefficients = vec![0.0; data.n_items() * dim];
        let mut matrix = vec![0.0; dim * dim];
        let mut features = Vec::new();
        let rows = data.users().flat_map(|row| row.features().to_vec());
        features.extend(rows.map(f64::from));
        let values: Vec<f64> = data
            .users()
            .flat_map(|r| r.values().to_vec())
            .map(f64::from)
            .collect();
        let mut gram = GramAccumulator::<f64>::new(dim)?;
        for (task, theta) in coefficients.chunks_exact_mut(dim).enumerate() {
            let entries = data.item_major().item(task);
            let users: Vec<u32> = entries.iter().map(|e| e.user).collect();
            let labels: Vec<f64> = entries
                .iter()
                .map(|e| values[e.position as usize])
                .collect();
            gram.reset();
            gram.add_gathered_with_rhs(&features, &users, None, &labels)?;
            gram.write_full(&mut matrix)?;
            matrix
                .iter_mut()
                .step_by(dim + 1)
                .for_each(|a| *a += l2_penalty);
            theta.copy_from_slice(gram.rhs());
            cholesky_in_place(&mut matrix, dim)?;
            cholesky_solve_in_place(&matrix, dim, theta)?;
        }
        Self::new(dim, coefficients, Provenance::NonPrivate)
    }

    /// Length of each task's coefficients.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Number of tasks.
    #[must_use]
    pub const fn n_tasks(&self) -> usize {
        self.coefficients.len() / self.dim
    }

    /// The origin of the coefficients.
    #[must_use]
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// All coefficients, shape `(n_tasks, dim)`, row-major.
    #[must_use]
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// Prediction of `task` for a user with these features; those beyond `dim` are ignored.
    ///
    /// # Panics
    /// When there is no such task.
    #[must_use]
    pub fn predict(&self, task: usize, features: &[f32]) -> f64 {
        let theta = &self.coefficients[task * self.dim..][..self.dim];
        theta
            .iter()
            .zip(features)
            .map(|(t, &x)| t * f64::from(x))
            .sum()
    }

    /// Pairs of prediction and label for one user's records, in their order.
    ///
    /// # Privacy
    /// Local: a function of the user's own records and the coefficients.
    ///
    /// # Panics
    /// When the user has a record of a task that the model does not have.
    pub fn predict_user<'a>(&'a self, user: UserRow<'a>) -> impl Iterator<Item = (f64, f64)> + 'a {
        user.iter()
            .map(move |(task, y)| (self.predict(task as usize, user.features()), y.into()))
    }
}
