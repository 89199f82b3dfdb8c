//! Public information about items, available before any release.

use dp_core::{ParamError, params};

use crate::Result;

/// Public columns of all items, for the mean of the prior of their parameters: a linear map of the
/// columns, whose weights are learned from the releases.
///
/// # Privacy
/// Columns are public and were not computed from the training records: they cost nothing.
///
/// # Examples
/// ```
/// use dp_multitask::ItemPrior;
/// // three items, what others think of them and one direction of taste
/// let prior = ItemPrior::new(vec![0.3, 1.0, 0.0, -1.0, -0.3, 0.2], 2, 1..2)?;
/// assert_eq!((prior.n_items(), prior.n_tastes()), (3, 1));
/// # Ok::<(), dp_multitask::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ItemPrior {
    n_columns: usize,
    /// Standardised to mean 0 and variance 1, row by row; columns that are the same for all items
    /// are 0.
    columns: Vec<f64>,
    tastes: std::ops::Range<usize>,
    /// Relative lengths of the taste factors as given.
    lengths: Vec<f64>,
}

/// Number of standard deviations above which released sums of the first round support the taste
/// factors of a prior. An item's sum excludes the effect of its own ratings on users' factors, so
/// for taste factors of other items the sum over items has mean 0. Its variance is that of the
/// products themselves: it includes the noise, the sampling of users, and true taste factors that
/// wrong ones pick up.
const LEAST_DEVIATIONS: f64 = 4.0;
/// Maximum number of columns: their equations are solved for every axis in every step.
const MOST_COLUMNS: usize = 1024;

impl ItemPrior {
    /// From rows of `n_columns`, 1 to 1024, one for each item. The columns in `tastes`, at most
    /// 255, are directions used for users' factors in the first round, and in
    /// later ones if the sums of the first support them.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when these are out of range or a value is not between -1e6 and 1e6.
    pub fn new(rows: Vec<f64>, n_columns: usize, tastes: std::ops::Range<usize>) -> Result<Self> {
        let expected = "from 1 to 1024 columns, the same for each item";
        params::in_range("n_columns", n_columns, 1, MOST_COLUMNS, expected)?;
        if rows.is_empty() || !rows.len().is_multiple_of(n_columns) {
            return Err(ParamError::new("rows", rows.len() as f64, expected).into());
        }
        let expected = "some of the columns, at most 255";
        params::in_range("tastes", tastes.end, tastes.start, n_columns, expected)?;
        params::in_range("tastes", tastes.len(), 0, 255, expected)?;
        if let Some(value) = rows.iter().find(|x| x.is_nan() || x.abs() > 1e6) {
            return Err(ParamError::new("rows", *value, "numbers from -1e6 to 1e6").into());
        }
        let n_items = (rows.len() / n_columns) as f64;
        let (mut columns, mut lengths) = (rows, Vec::new());
        for j in 0..n_columns {
            let each = || columns.iter().skip(j).step_by(n_columns);
            let mean = each().sum::<f64>() / n_items;
            let variance = each().map(|x| (x - mean).powi(2)).sum::<f64>() / n_items;
            let stddev = variance.sqrt();
            if tastes.contains(&j) {
                lengths.push(stddev);
            }
            let scale = if stddev > 1e-9 * (1.0 + mean.abs()) {
                stddev.recip()
            } else {
                0.0
            };
            for x in columns.iter_mut().skip(j).step_by(n_columns) {
                *x = scale * (*x - mean);
            }
        }
        Ok(Self {
            n_columns,
            columns,
            tastes,
            lengths,
        })
    }

    /// Number of items with a row.
    #[must_use]
    pub fn n_items(&self) -> usize {
        self.columns.len() / self.n_columns
    }

    /// Number of directions used for users' factors in the first round.
    #[must_use]
    pub fn n_tastes(&self) -> usize {
        self.tastes.len()
    }

    /// The same without taste factors: their columns remain evidence for the means.
    pub(super) fn without_tastes(&self) -> Self {
        Self {
            tastes: 0..0,
            lengths: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether released sums of the first round support the taste factors; see [`LEAST_DEVIATIONS`].
    ///
    /// ```text
    /// z_k = sum_i W_i q_ik r_ik / sqrt(sum_i (W_i q_ik r_ik)^2)        sum_k z_k >= 4 sqrt(d)
    /// ```
    pub(super) fn shows_in(&self, sums: &[f64], weights: &[f64], dim: usize) -> bool {
        let n_shown = self.n_tastes().min(dim - 1);
        let along = |k: usize| {
            let items = sums.chunks_exact(dim).zip(weights);
            let items = items.zip(self.columns.chunks_exact(self.n_columns));
            let (mut sum, mut squares) = (0.0, f64::MIN_POSITIVE);
            for ((r, w), columns) in items {
                let term = w * columns[self.tastes.start + k] * r[1 + k];
                sum += term;
                squares += term * term;
            }
            sum / squares.sqrt()
        };
        let total: f64 = (0..n_shown).map(along).sum();
        total >= LEAST_DEVIATIONS * (n_shown as f64).sqrt()
    }

    pub(super) fn into_columns(self) -> Vec<f64> {
        self.columns
    }

    pub(super) fn columns(&self) -> &[f64] {
        &self.columns
    }

    /// Overwrites the first taste factors of rows `[h_i, q_i]`, with their given relative lengths
    /// and a root mean square of `stddev`.
    pub(super) fn write_tastes(&self, rows: &mut [f64], dim: usize, stddev: f64) {
        let n = self.n_tastes();
        let squares: f64 = self.lengths.iter().map(|l| l * l).sum();
        let mean = (squares / n.max(1) as f64).sqrt().max(f64::MIN_POSITIVE);
        let items = rows
            .chunks_exact_mut(dim)
            .zip(self.columns.chunks_exact(self.n_columns));
        for (row, columns) in items {
            let tastes = columns[self.tastes.clone()].iter().zip(&self.lengths);
            for (q, (x, length)) in row[1..].iter_mut().zip(tastes) {
                *q = stddev * x * length / mean;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    #[test]
    fn sums_along_the_taste_factors_support_them_and_others_do_not() {
        let (n_items, dim) = (400, 3);
        for seed in 0..20 {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
            let tastes: Vec<f64> = (0..n_items * 2).map(|_| normal()).collect();
            let weights: Vec<f64> = (0..n_items).map(|item| (1 + item % 5) as f64).collect();
            let prior = ItemPrior::new(tastes.clone(), 2, 0..2).unwrap();
            let mut shown = |share: f64| {
                let rows = tastes.chunks_exact(2).zip(&weights);
                let sums: Vec<f64> = rows
                    .flat_map(|(q, w)| [0.0, share * w * q[0], share * w * q[1]])
                    .map(|sum| sum + 2.0 * normal())
                    .collect();
                prior.shows_in(&sums, &weights, dim)
            };
            // standardised sums: normal around 0, so a false alarm has probability 3e-5; far above 4; far below -4
            assert_eq!([0.0, 1.0, -1.0].map(&mut shown), [false, true, false]);
        }
    }
}
