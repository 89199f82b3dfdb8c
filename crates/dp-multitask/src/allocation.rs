//! How a user's privacy budget is spread over the user's tasks.

use dp_core::params;

use crate::Result;
use crate::counts::NoisyCounts;

/// Adaptive task weights `omega_i = max(n_i, floor)^(-mu)` with a per-user normalisation.
///
/// Source: Krichene et al. 2023, eq. (11) with noisy counts, and in place of eq. (12) the rule
/// that every user spends the whole budget:
///
/// ```text
/// w_ij = omega_i / sqrt(sum_{i' of j} omega_i'^2),    sum_i w_ij^2 = 1
/// ```
///
/// A user's weights depend on released counts and on the user's own items alone. Exponent 0
/// weighs all items of a user alike, larger exponents favour rare items.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskWeights {
    omega: Vec<f64>,
}

impl TaskWeights {
    /// Weights from released counts; counts below `floor` are raised to it, so that noise does
    /// not make an item infinitely rare.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `exponent` is negative or not finite, or `floor` is not
    /// finite and positive.
    pub fn from_counts(counts: &NoisyCounts, exponent: f64, floor: f64) -> Result<Self> {
        params::finite_non_negative("weight_exponent", exponent)?;
        params::finite_positive("count_floor", floor)?;
        Ok(Self {
            omega: counts
                .values()
                .iter()
                .map(|&count| count.max(floor).powf(-exponent))
                .collect(),
        })
    }

    /// The same weight for each of `n_items` items.
    #[must_use]
    pub fn uniform(n_items: usize) -> Self {
        Self {
            omega: vec![1.0; n_items],
        }
    }

    /// Weight of every item before the per-user normalisation.
    #[must_use]
    pub fn omega(&self) -> &[f64] {
        &self.omega
    }

    /// Writes one user's normalised weights, one per item of the user.
    ///
    /// # Panics
    /// When an item is outside the catalogue or `out` is shorter than `items`.
    pub fn normalised_for(&self, items: &[u32], out: &mut [f64]) {
        let mut total = 0.0;
        for (out, &item) in out.iter_mut().zip(items) {
            *out = self.omega[item as usize];
            total += *out * *out;
        }
        let scale = total.sqrt().recip();
        for out in &mut out[..items.len()] {
            *out *= scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_spends_exactly_the_budget() {
        let weights = TaskWeights {
            omega: vec![1.0, 0.5, 1e-9, 40.0],
        };
        for items in [&[0_u32][..], &[2], &[0, 1, 2, 3]] {
            let mut w = vec![0.0; items.len()];
            weights.normalised_for(items, &mut w);
            let total: f64 = w.iter().map(|w| w * w).sum();
            assert!((total - 1.0).abs() < 1e-12);
        }
        let mut w = [0.0; 2];
        weights.normalised_for(&[0, 1], &mut w);
        assert!((w[0] / w[1] - 2.0).abs() < 1e-12);
    }
}
