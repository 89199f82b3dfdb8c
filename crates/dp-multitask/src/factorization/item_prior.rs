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

/// Maximum number of columns: their equations are solved for every axis in every step.
const MOST_COLUMNS: usize = 1024;

impl ItemPrior {
    /// From rows of `n_columns`, 1 to 1024, one for each item. The columns in `tastes`, at most
    /// 255, are directions from which users' factors are computed, if users vote
    /// for them.
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

    /// Number of directions on which users vote.
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
