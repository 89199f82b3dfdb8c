//! Public information about items, available before any release.

use std::ops::Range;

use dp_core::{ParamError, params};
use dp_linalg::symmetric_eigen;

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
    tastes: Range<usize>,
    /// Relative lengths of the taste factors as given.
    lengths: Vec<f64>,
}

/// Maximum number of columns: their equations are solved for every axis in every step.
const MOST_COLUMNS: usize = 1024;

impl ItemPrior {
    /// From rows of `n_columns`, 1 to 1024, one for each item. The columns in `tastes`, at most
    /// 255, are directions from which users' factors are computed, if users vote
    /// for them; they are turned to the principal axes of the items, largest variance first, so that
    /// the first ones are those that matter most.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when these are out of range or a value is not between -1e6 and 1e6.
    pub fn new(rows: Vec<f64>, n_columns: usize, tastes: Range<usize>) -> Result<Self> {
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
        turn_to_principal_axes(&mut columns, n_columns, tastes.clone())?;
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

    /// Number of directions on which users vote.
    #[must_use]
    pub fn n_tastes(&self) -> usize {
        self.tastes.len()
    }

    /// The same with at most this many taste factors: the columns of the others remain evidence for
    /// the means.
    pub(super) fn with_tastes(&self, most: usize) -> Self {
        let n = self.n_tastes().min(most);
        let first = self.tastes.start;
        Self {
            tastes: first..first + n,
            lengths: self.lengths[..n].to_vec(),
            ..self.clone()
        }
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

/// Replaces the columns `tastes` by their coordinates along the principal axes of the items, in the
/// order of decreasing variance.
fn turn_to_principal_axes(rows: &mut [f64], n_columns: usize, tastes: Range<usize>) -> Result<()> {
    let d = tastes.len();
    if d == 0 {
        return Ok(());
    }
    let n_items = (rows.len() / n_columns) as f64;
    let mut means = vec![0.0; d];
    for row in rows.chunks_exact(n_columns) {
        let sums = means.iter_mut().zip(&row[tastes.clone()]);
        sums.for_each(|(mean, q)| *mean += q / n_items);
    }
    let mut covariance = vec![0.0; d * d];
    for row in rows.chunks_exact(n_columns) {
        let own = &row[tastes.clone()];
        for (a, entries) in covariance.chunks_exact_mut(d).enumerate() {
            for (b, entry) in entries.iter_mut().enumerate() {
                *entry += (own[a] - means[a]) * (own[b] - means[b]) / n_items;
            }
        }
    }
    let eigen = symmetric_eigen(&covariance, d)?;
    for row in rows.chunks_exact_mut(n_columns) {
        let own = row[tastes.clone()].to_vec();
        let axes = eigen.vectors.chunks_exact(d).rev(); // values increase
        for (q, axis) in row[tastes.clone()].iter_mut().zip(axes) {
            *q = axis.iter().zip(&own).map(|(a, q)| a * q).sum();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taste_factors_are_in_the_order_of_what_they_say_about_items() {
        // a bias; two taste factors whose difference varies three times as much as their sum
        let (sum, difference) = ([1.0, -1.0, 1.0, -1.0], [3.0, 3.0, -3.0, -3.0]);
        let rows = (0..4).flat_map(|i| {
            let half = |x: f64| x / f64::sqrt(2.0);
            [
                [4.0, 2.0, 2.0, 0.0][i],
                5.0 + half(sum[i] + difference[i]),
                half(sum[i] - difference[i]),
            ]
        });
        let prior = ItemPrior::new(rows.collect(), 3, 1..3).unwrap();
        assert!((prior.lengths[0] - 3.0).abs() < 1e-12 && (prior.lengths[1] - 1.0).abs() < 1e-12);
        let first = prior.with_tastes(1);
        assert_eq!(first.n_tastes(), 1);
        let mut shown = [0.0; 8];
        first.write_tastes(&mut shown, 2, 0.3);
        let sign = shown[1].signum();
        for (row, expected) in shown.chunks_exact(2).zip(difference) {
            assert!((sign * row[1] - 0.1 * expected).abs() < 1e-12, "{shown:?}");
        }
    }
}
