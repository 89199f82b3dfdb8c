//! A single pass over a user's rows, in the rows' single precision: inner products with a public
//! basis, norms, weighted sums.

use dp_core::UserRow;
use dp_linalg::{StridedRows, row_products, weighted_row_sum};

use crate::Result;
use crate::design::UserDesign;
use crate::embedding::RowUse;
use crate::small::norm_of_row;

/// Minimum factor by which norms computed in single precision are overestimated, which exceeds the
/// error of sums of up to 1024 squares: rows clipped by them stay below the clipping norm.
pub(crate) const NORM_MARGIN: f64 = 1.0 + 1e-5;
/// Number of rows that are summed in single precision before they are added to a sum in double
/// precision. Even and odd rows are summed separately, so rounding adds at most 34 2^-24 = 2.1e-6
/// of the sum of the norms, however many rows there are: [`NORM_MARGIN`] allows for it.
const ROWS_IN_SINGLE: usize = 64;
/// Squares outside of this range may have lost digits or overflowed.
const SAFE_SQUARES: std::ops::Range<f32> = 1e-25..1e30;

/// A user's rows as stored in the table, each followed by its label.
#[derive(Clone, Copy)]
pub(crate) struct UserCells<'a> {
    cells: &'a [f32],
    n_features: usize,
}

impl<'a> UserCells<'a> {
    pub(crate) fn of(user: UserRow<'a>, n_features: usize) -> Self {
        Self {
            cells: user.features(),
            n_features,
        }
    }

    /// Cells that are not in a table.
    #[cfg(test)]
    pub(crate) const fn raw(cells: &'a [f32], n_features: usize) -> Self {
        Self { cells, n_features }
    }

    pub(crate) const fn stride(self) -> usize {
        self.n_features + 1
    }

    pub(crate) const fn n_rows(self) -> usize {
        self.cells.len() / self.stride()
    }

    pub(crate) const fn rows(self) -> StridedRows<'a> {
        StridedRows {
            data: self.cells,
            stride: self.stride(),
            n_rows: self.n_rows(),
            dim: self.n_features,
        }
    }

    /// The same rows in blocks of `n_rows`.
    fn blocks(self, n_rows: usize) -> impl Iterator<Item = Self> {
        let blocks = self.cells.chunks(n_rows * self.stride());
        blocks.map(move |cells| Self { cells, ..self })
    }

    pub(crate) fn features(self, row: usize) -> &'a [f32] {
        &self.cells[row * self.stride()..][..self.n_features]
    }

    pub(crate) fn label(self, row: usize) -> f32 {
        self.cells[row * self.stride() + self.n_features]
    }

    /// The rows up to the last non-zero one.
    pub(crate) fn without_padding(self) -> Self {
        let end = (0..self.n_rows()).rev().find(|&row| self.is_used(row));
        let n_rows = end.map_or(0, |last| last + 1);
        Self {
            cells: &self.cells[..n_rows * self.stride()],
            ..self
        }
    }

    /// Whether the row is non-zero: zeros follow the last row.
    pub(crate) fn is_used(self, row: usize) -> bool {
        self.features(row).iter().any(|&x| x != 0.0)
    }
}

/// The results of a pass, and scratch memory.
#[derive(Default)]
pub(crate) struct Sweep {
    rank: usize,
    /// The basis by columns.
    columns: Vec<f32>,
    /// For each row of the table: products with the columns, and the squared norm.
    found: Vec<f32>,
    /// Non-zero rows, in order.
    used: Vec<usize>,
    coefficients: Vec<f32>,
    /// Sum of one block of rows, then of all.
    sum: Vec<f32>,
    total: Vec<f64>,
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "one rounding to f32, as the rows are f32"
)]
pub(crate) const fn single(x: f64) -> f32 {
    x as f32
}

impl Sweep {
    /// For a basis of shape `(n_features, rank)`.
    pub(crate) fn new(basis: &[f64], rank: usize) -> Self {
        let column = |k: usize| basis.iter().skip(k).step_by(rank);
        Self {
            rank,
            columns: (0..rank).flat_map(column).map(|&b| single(b)).collect(),
            sum: vec![0.0; basis.len() / rank],
            ..Self::default()
        }
    }

    /// Reads all rows of a user.
    pub(crate) fn read(&mut self, user: UserCells<'_>) {
        self.used.clear();
        if row_products(user.rows(), &self.columns, &mut self.found).is_err() {
            return; // does not happen for any user: lengths are those of the table and the basis
        }
        let squares = self.found.chunks_exact(self.rank + 1);
        let used = squares.enumerate().filter(|(row, found)| {
            found[self.rank] > 0.0 || user.is_used(*row) // a square may have underflowed
        });
        self.used.extend(used.map(|(row, _)| row));
    }

    /// The non-zero rows that belong to `rows`.
    pub(crate) fn used(
        &self,
        (rows, max_rows): (RowUse, usize),
    ) -> impl Iterator<Item = usize> + '_ {
        let used = self.used.iter().enumerate();
        used.filter(move |(i, _)| rows.includes(*i, max_rows))
            .map(|(_, &row)| row)
    }

    /// Copies `(x^T B, y)` of these rows, to be solved with
    /// [`SINGLE_RIDGE`](crate::design::SINGLE_RIDGE) or more.
    pub(crate) fn fill(&self, design: &mut UserDesign, user: UserCells<'_>, rows: (RowUse, usize)) {
        design.projected.clear();
        design.labels.clear();
        for row in self.used(rows) {
            let products = &self.found[row * (self.rank + 1)..][..self.rank];
            for &z in products {
                design.projected.push(z.into());
            }
            design.labels.push(user.label(row).into());
        }
    }

    /// The squared norm of a row.
    pub(crate) fn square(&self, user: UserCells<'_>, row: usize) -> f64 {
        let square = self.found[row * (self.rank + 1) + self.rank];
        if SAFE_SQUARES.contains(&square) {
            square.into()
        } else {
            norm_of_row(user.features(row)).powi(2)
        }
    }

    /// The norm of a row, overestimated by up to 2e-5 and never underestimated.
    pub(crate) fn norm(&self, user: UserCells<'_>, row: usize) -> f64 {
        self.square(user, row).sqrt() * NORM_MARGIN
    }

    /// `sum_i c_i x_i` over the rows returned by [`used`](Self::used), with `c_i x_i` of about size
    /// 1.
    pub(crate) fn weighted_sum(
        &mut self,
        user: UserCells<'_>,
        (rows, max_rows): (RowUse, usize),
        coefficients: impl Iterator<Item = f64>,
    ) -> &[f32] {
        self.coefficients.clear();
        self.coefficients.resize(user.n_rows(), 0.0);
        let used = self.used.iter().enumerate();
        let used = used.filter(|(i, _)| rows.includes(*i, max_rows));
        for ((_, &row), c) in used.zip(coefficients) {
            self.coefficients[row] = single(c);
        }
        if self.sum_blocks(user).is_err() {
            self.sum.fill(0.0); // as in `read`
        }
        &self.sum
    }

    /// `sum_i c_i x_i` over all rows, in blocks of [`ROWS_IN_SINGLE`].
    fn sum_blocks(&mut self, user: UserCells<'_>) -> Result<()> {
        let Self {
            coefficients,
            sum,
            total,
            ..
        } = self;
        if coefficients.len() <= ROWS_IN_SINGLE {
            return Ok(weighted_row_sum(user.rows(), coefficients, sum)?);
        }
        total.clear();
        total.resize(sum.len(), 0.0);
        let blocks = user.blocks(ROWS_IN_SINGLE);
        for (block, coefficients) in blocks.zip(coefficients.chunks(ROWS_IN_SINGLE)) {
            weighted_row_sum(block.rows(), coefficients, sum)?;
            let sums = total.iter_mut().zip(&*sum);
            sums.for_each(|(total, &part)| *total += f64::from(part));
        }
        let totals = sum.iter_mut().zip(&*total);
        totals.for_each(|(sum, &total)| *sum = single(total));
        Ok(())
    }
}
