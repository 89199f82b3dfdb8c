//! One matrix for all items, times each item's weight.

#[cfg(privacy_mutants)]
use dp_core::{Interactions, Private};
use dp_linalg::project_psd_in_place;
use dp_mechanism::{ReleasedGrams, ReleasedVector};

use super::TotalsContribution;
use crate::{ItemStatistics, Result};

/// Released pooled matrices `A_j = W_j C`, and right-hand sides that are refined.
pub(super) struct Pooled {
    dim: usize,
    /// `(m, d, d)`.
    matrices: Vec<f64>,
    /// Sum of `b^t / s_t^2` and of `1 / s_t^2`.
    weighted: (Vec<f64>, f64),
}

impl Pooled {
    /// `C = PSD(S) / n` from the released sum and number of units; `W_j` the released total weights, at least one standard deviation of their noise.
    pub(super) fn new(
        sums: &ReleasedGrams,
        totals: &ReleasedVector,
        #[cfg(privacy_mutants)] data: &Private<Interactions>,
    ) -> Result<Self> {
        let (dim, n_items) = (sums.dim(), sums.n_items());
        let (mut average, mut rhs) = (vec![0.0; dim * dim], vec![0.0; dim]);
        sums.write_item(0, &mut average, &mut rhs);
        project_psd_in_place(&mut average, dim)?;
        let values = totals.values();
        let least = totals.noise_stddev();
        let n_units = (values[n_items] / TotalsContribution::units()).max(1.0);
        #[cfg(privacy_mutants)]
        let n_units = crate::mutants::units(n_units, data);
        let average: Vec<f64> = (0..dim * dim)
            .map(|at| (average[at] + average[at % dim * dim + at / dim]) / (2.0 * n_units))
            .collect();
        let scaled = values[..n_items].iter().flat_map(|total| {
            let weight = total.max(least) / TotalsContribution::ITEMS;
            average.iter().map(move |c| weight * c)
        });
        Ok(Self {
            dim,
            matrices: scaled.collect(),
            weighted: (vec![0.0; n_items * dim], 0.0),
        })
    }

    /// Released residuals at `v` stand for right-hand sides `r + A v`, whose noise is that of `r`. Returns the statistics of all releases so
    /// far, each weighed by one over its variance; of this one alone with `forget`.
    pub(super) fn observe(
        &mut self,
        v: &[f64],
        residuals: &[f64],
        stddev: f64,
        forget: bool,
    ) -> Result<ItemStatistics> {
        let dim = self.dim;
        if forget {
            self.weighted.0.fill(0.0);
            self.weighted.1 = 0.0;
        }
        let precision = (stddev * stddev).recip();
        let items = self.matrices.chunks_exact(dim * dim);
        let each = v.chunks_exact(dim).zip(residuals.chunks_exact(dim));
        let sums = self.weighted.0.chunks_exact_mut(dim);
        for ((matrix, (v, r)), sum) in items.zip(each).zip(sums) {
            for ((sum, row), r) in sum.iter_mut().zip(matrix.chunks_exact(dim)).zip(r) {
                let image: f64 = row.iter().zip(v).map(|(a, v)| a * v).sum();
                *sum += precision * (r + image);
            }
        }
        self.weighted.1 += precision;
        let rhs = self.weighted.0.iter().map(|b| b / self.weighted.1);
        let noise = self.weighted.1.sqrt().recip();
        ItemStatistics::new(dim, self.matrices.clone(), rhs.collect(), [0.0, noise])
    }
}
