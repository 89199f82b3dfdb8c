//! What all regression methods share: bounds on a user's data, the budget's spread, the domain.

use dp_accounting::CertificateBuilder;
use dp_core::{Interactions, Private, UserRow, params};
use dp_mechanism::Run;

use crate::checked::taken_on_trust;
use crate::factorization::in_public_range;
use crate::{BudgetAllocation, NoisyCounts, Result, TaskCounts, TaskWeights};

const OUTPUT: &str = "task coefficients, noisy task counts, settings";

/// Public settings of a multi-task regression: per-task coefficients `theta_i` that predict user
/// `j`'s label for task `i` from the user's own features, `y_ij ~ <theta_i, x_j>`.
///
/// Tasks are the items of the table. There is no intercept: give users a constant feature where
/// one is wanted. Magnitudes must lie between 1e-6 and 1e6.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSetup {
    /// Length of the features `d`, 1 to 256.
    pub dim: usize,
    /// Bound `Gamma_x` on the norm of a user's features; longer vectors are shortened to it.
    pub feature_norm: f64,
    /// Bound `Gamma_y` on a label, data units; larger ones are clipped to it.
    pub label_bound: f64,
    /// Bound `B` on the weighted root mean square `sqrt(sum_i w_ij^2 y_ij^2)` of a user's labels,
    /// data units; a user above it has all labels scaled down together. At `label_bound` and
    /// above it never acts.
    pub label_norm: f64,
    /// Radius of the ball `C` around 0 that the coefficients are kept in.
    pub radius: f64,
    /// How a user's budget is spread over the user's tasks.
    pub allocation: BudgetAllocation,
}

impl TaskSetup {
    /// Settings for features and coefficients in the unit ball, so that labels lie in [-1, 1],
    /// with all of a user's tasks weighed alike.
    ///
    /// The joint label norm is `1/sqrt(3)`, the root mean square of labels that are uniform on
    /// their range: smaller labels lose nothing by it and the noise shrinks by as much.
    #[must_use]
    pub fn unit_ball(dim: usize) -> Self {
        Self {
            dim,
            feature_norm: 1.0,
            label_bound: 1.0,
            label_norm: 3.0_f64.sqrt().recip(),
            radius: 1.0,
            allocation: BudgetAllocation::equal(),
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(&self) -> Result<()> {
        params::in_range("dim", self.dim, 1, 256, "a whole number from 1 to 256")?;
        in_public_range("feature_norm", self.feature_norm)?;
        in_public_range("label_bound", self.label_bound)?;
        in_public_range("label_norm", self.label_norm)?;
        in_public_range("radius", self.radius)?;
        self.allocation.check()
    }

    /// `min(B, Gamma_y)`: what a user's weighted labels can amount to.
    pub(super) const fn label_reach(&self) -> f64 {
        self.label_norm.min(self.label_bound)
    }

    /// A user's features, shortened to norm `Gamma_x`. Cells that are missing count as 0.
    pub(super) fn write_features(&self, user: UserRow<'_>, out: &mut [f64]) {
        out.fill(0.0);
        for (out, &x) in out.iter_mut().zip(user.features()) {
            *out = x.into();
        }
        shorten(out, self.feature_norm);
    }

    pub(super) fn label(&self, y: f32) -> f64 {
        f64::from(y).clamp(-self.label_bound, self.label_bound)
    }

    /// The table must have features of the length that the settings say.
    pub(super) fn check_table(&self, data: &Private<Interactions>) -> Result<()> {
        let found = data.expose().feature_dim();
        Ok(params::same_size("users' features", found, self.dim)?)
    }

    /// The counts, released if the allocation asks for it, and the weights they give.
    pub(super) fn weights(
        &self,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<(TaskWeights, Option<NoisyCounts>)> {
        let counts = match self.allocation.released_counts() {
            Some((_, clip_norm)) => Some(NoisyCounts::release(data, clip_norm, run)?),
            None => None,
        };
        let n_tasks = data.expose().n_items();
        let weights = self.allocation.weights(n_tasks, counts.as_ref())?;
        Ok((weights, counts))
    }

    /// What is known of the task sizes.
    pub(super) fn task_counts<'a>(
        &'a self,
        released: Option<&'a NoisyCounts>,
    ) -> Option<&'a [f64]> {
        match self.allocation.counts() {
            Some(TaskCounts::Public { values }) => Some(values),
            _ => released.map(NoisyCounts::values),
        }
    }

    /// Completes the certificate of a run with these settings.
    pub(super) fn describe(
        &self,
        certificate: CertificateBuilder,
        assumptions: &[String],
    ) -> CertificateBuilder {
        let certificate = certificate
            .released_output(OUTPUT, "anyone")
            .assumption("settings were not chosen by looking at this data set")
            .tuning_included(false);
        let certificate = taken_on_trust(certificate, assumptions);
        match self.allocation.counts() {
            Some(TaskCounts::Public { .. }) => {
                certificate.assumption("the task counts in the settings are public knowledge")
            }
            _ => certificate,
        }
    }

    /// The Euclidean projection on the ball.
    pub(super) fn project(&self, coefficients: &mut [f64]) {
        shorten(coefficients, self.radius);
    }
}

/// Scales a vector down to norm `bound`; one that is not finite, to zero.
pub(crate) fn shorten(vector: &mut [f64], bound: f64) {
    let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    if !norm.is_finite() {
        vector.fill(0.0);
    } else if norm > bound {
        let scale = bound / norm;
        vector.iter_mut().for_each(|v| *v *= scale);
    }
}
