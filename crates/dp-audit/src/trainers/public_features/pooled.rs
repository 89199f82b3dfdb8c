//! The statistics that a pooled matrix and residuals stand for, from the formulas of [`ResidualSsp`](dp_pubfeat::ResidualSsp).

use dp_linalg::project_psd_in_place;
use dp_mechanism::{ReleasedGrams, ReleasedVector};
use dp_pubfeat::ItemStatistics;

use crate::Result;
use crate::trainers::failed;

/// Share of a user's norm that goes to the items' total weights.
const TO_ITEMS: f64 = 0.95;

pub(super) struct Pooled {
    dim: usize,
    /// `W_j`, released.
    weights: Vec<f64>,
    /// Number of units, released.
    n_units: f64,
    /// `PSD(S) / n`.
    average: Vec<f64>,
    /// Sum over releases of `b / s^2`, and of `1 / s^2`.
    evidence: (Vec<f64>, f64),
    n_observed: usize,
}

impl Pooled {
    pub(super) const fn new(dim: usize) -> Self {
        Self {
            dim,
            weights: Vec::new(),
            n_units: 1.0,
            average: Vec::new(),
            evidence: (Vec::new(), 0.0),
            n_observed: 0,
        }
    }

    pub(super) const fn has_totals(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Releases of residuals so far, the first right-hand sides among them.
    pub(super) const fn n_observed(&self) -> usize {
        self.n_observed
    }

    /// `W_j = max(t_j, s) / .95` and `n = max(t_m / sqrt(1 - .95^2), 1)`.
    pub(super) fn totals(&mut self, released: &ReleasedVector) {
        let (mut values, least) = (released.values(), released.noise_stddev());
        let counted = values.pop().unwrap_or_default();
        self.n_units = (counted / (1.0 - TO_ITEMS * TO_ITEMS).sqrt()).max(1.0);
        let weights = values.iter().map(|t| t.max(least) / TO_ITEMS);
        self.weights = weights.collect();
    }

    pub(super) fn matrix(&mut self, released: &ReleasedGrams) -> Result<()> {
        let dim = self.dim;
        let mut matrix = vec![0.0; dim * dim];
        released.write_item(0, &mut matrix, &mut vec![0.0; dim]);
        project_psd_in_place(&mut matrix, dim).map_err(failed)?;
        let mean = |at: usize| 0.5 * (matrix[at] + matrix[at % dim * dim + at / dim]);
        self.average = (0..dim * dim).map(|at| mean(at) / self.n_units).collect();
        Ok(())
    }

    /// `b = r + W_j C v`, averaged with what is known already.
    pub(super) fn observe(
        &mut self,
        v: &[f64],
        residuals: &[f64],
        stddev: f64,
        forget: bool,
    ) -> Result<ItemStatistics> {
        if forget {
            self.evidence = (vec![0.0; v.len()], 0.0);
        }
        self.n_observed += 1;
        let (dim, precision) = (self.dim, stddev.powi(-2));
        for (at, sum) in self.evidence.0.iter_mut().enumerate() {
            let (item, row) = (at / dim, &self.average[at % dim * dim..][..dim]);
            let own = &v[item * dim..][..dim];
            let image: f64 = row.iter().zip(own).map(|(c, v)| c * v).sum();
            *sum += precision * (residuals[at] + self.weights[item] * image);
        }
        self.evidence.1 += precision;
        let total = self.evidence.1;
        let rhs = self.evidence.0.iter().map(|b| b / total).collect();
        let matrices = self.weights.iter();
        let matrices = matrices.flat_map(|w| self.average.iter().map(move |c| w * c));
        let noise = [0.0, total.sqrt().recip()];
        ItemStatistics::new(dim, matrices.collect(), rhs, noise).map_err(failed)
    }
}
