//! Batched rows: several sets of rows, one set per vector lane, so that an operation common to all
//! sets takes a single instruction.

use dp_core::params::at_least_one;

use crate::error::check_len;
use crate::kernels::{
    BatchedPairs, BatchedProducts, BatchedSolve, BatchedSum, InstructionSet, Interleave, Kernel,
    LowerProducts, Rows, SETS, Separate, Upcoming,
};
use crate::packed::packed_len;
use crate::{Across, Result, StridedRows};

/// Up to [`SETS`](Self::SETS) sets of rows of the same length, in single precision: for example the
/// features of that many users.
///
/// A set is multiplied by a power of two if the sum of its squares would otherwise leave, or nearly
/// leave, the range of single precision, so that sets of any magnitude can be used as long as
/// results are relative to that scale. Rows that a set does not have are zeros.
///
/// # Numerics
/// The results of one set depend on the others only in the sign of zeros: rows that a set does not
/// have add zeros, which turn a sum that has underflowed to -0 into 0. This requires that
/// coefficients and right-hand sides of such rows are 0. Sums are computed in the order of the
/// numbers; whether product and sum are rounded once or separately depends on the processor.
///
/// # Examples
/// ```
/// use dp_linalg::{BatchedRows, StridedRows};
/// let one = StridedRows { data: &[1.0, 2.0, 3.0, 4.0], stride: 2, n_rows: 2, dim: 2 };
/// let other = StridedRows { data: &[5.0, 0.0], stride: 2, n_rows: 1, dim: 2 };
/// let mut rows = BatchedRows::new(2)?;
/// rows.load(&[one, other])?;
/// let mut products = Vec::new();
/// rows.inner_products(&mut products);
/// let of = |set: usize| products.iter().map(move |p| p.0[set]).collect::<Vec<_>>();
/// assert_eq!(of(0), [5.0, 11.0, 25.0]);
/// assert_eq!(of(1), [25.0, 0.0, 0.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
#[derive(Clone)]
pub struct BatchedRows {
    isa: InstructionSet,
    dim: usize,
    /// Number (row, column) of all sets, shape `(n_rows, dim)`.
    cells: Vec<Across>,
    zeros: Vec<f32>,
    upcoming: Upcoming,
    scales: Across,
    squares: Across,
}

/// Prints the shape only: the rows may be private.
impl std::fmt::Debug for BatchedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("BatchedRows");
        out.field("n_rows", &self.n_rows()).field("dim", &self.dim);
        out.finish_non_exhaustive()
    }
}

/// Sums of squares that need no scale. Entries are then at most 1e13 in absolute value, so that
/// sums of squares of products are in range too.
const SAFE_SQUARES: std::ops::Range<f32> = 1e-10..1e10;

/// Maximum number of bytes that are prefetched.
const MOST_AHEAD: usize = 256 * 1024;
/// Number of cache lines fetched by [`fetch_announced`](BatchedRows::fetch_announced).
const LINES_AT_A_TIME: usize = 32;

impl BatchedRows {
    /// Maximum number of sets at a time.
    pub const SETS: usize = SETS;

    /// Creates an empty batch for rows of length `dim`.
    ///
    /// # Errors
    /// [`Param`](crate::Error::Param) if `dim` is 0.
    pub fn new(dim: usize) -> Result<Self> {
        Self::with_instructions(dim, InstructionSet::detect())
    }

    fn with_instructions(dim: usize, isa: InstructionSet) -> Result<Self> {
        Ok(Self {
            isa,
            dim: at_least_one("dim", dim)?,
            cells: Vec::new(),
            zeros: vec![0.0; dim],
            upcoming: Upcoming::default(),
            scales: Across::default(),
            squares: Across::default(),
        })
    }

    /// Announces the sets that will be loaded after the next ones: they are prefetched gradually
    /// while the next ones are processed. This affects only speed.
    pub fn announce(&mut self, sets: &[StridedRows<'_>]) {
        self.upcoming = Upcoming::default();
        if let [first, .., last] = sets {
            let addresses = first.data.as_ptr().addr()..last.data.as_ptr_range().end.addr();
            if addresses.len() <= MOST_AHEAD {
                self.upcoming = Upcoming::new(addresses);
            }
        }
    }

    /// Prefetches some of the announced sets in the middle of other work. The methods that read
    /// rows do the same.
    pub fn fetch_announced(&mut self) {
        self.upcoming.fetch(LINES_AT_A_TIME);
    }

    /// Loads other sets, with as many rows as the longest has.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if there are more than [`SETS`](Self::SETS), or rows have
    /// another length or extend beyond their data; [`Param`](crate::Error::Param) if they overlap.
    pub fn load(&mut self, sets: &[StridedRows<'_>]) -> Result<()> {
        if sets.len() > SETS {
            check_len("sets", sets.len(), SETS)?;
        }
        let mut checked = [Rows::new(&[], 0, 0, self.dim); SETS];
        for (checked, set) in checked.iter_mut().zip(sets) {
            check_len("rows", set.dim, self.dim)?;
            *checked = set.check()?;
        }
        let n_rows = sets.iter().map(|set| set.n_rows).max().unwrap_or(0);
        self.cells.resize(n_rows * self.dim, Across::default());
        let checked = &checked[..sets.len()];
        self.scales = Across([1.0; SETS]);
        self.interleave(checked);
        if self.squares.0[..sets.len()]
            .iter()
            .all(|s| SAFE_SQUARES.contains(s))
        {
            return Ok(());
        }
        let squares = self.squares.0;
        for ((scale, set), square) in self.scales.0.iter_mut().zip(sets).zip(squares) {
            if !SAFE_SQUARES.contains(&square) {
                *scale = scale_of(*set);
            }
        }
        self.interleave(checked);
        Ok(())
    }

    fn interleave(&mut self, sets: &[Rows<'_, f32>]) {
        let (scales, upcoming) = (&self.scales, &mut self.upcoming);
        let interleave = Interleave::new(sets, &self.zeros, scales, upcoming, &mut self.cells);
        self.squares = f32::run(self.isa, interleave);
    }

    /// Number of rows of the longest set.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.cells.len() / self.dim
    }

    /// The factor by which each set was multiplied.
    #[must_use]
    pub const fn scales(&self) -> &Across {
        &self.scales
    }

    /// The sum of the squares of all numbers of each set as loaded, including its scale.
    #[must_use]
    pub const fn squares(&self) -> &Across {
        &self.squares
    }

    /// Loads the rows of `other`, each multiplied by a lower triangular matrix: `x` becomes `L x`.
    /// Entries above the diagonal are not read. Scales and sums of squares remain those of `other`.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if `lower` is not `(dim, dim)` or rows have another length.
    pub fn load_product(&mut self, other: &mut Self, lower: &[f32]) -> Result<()> {
        check_len("rows", other.dim, self.dim)?;
        check_len("lower", lower.len(), self.dim.saturating_mul(self.dim))?;
        self.cells.resize(other.cells.len(), Across::default());
        (self.scales, self.squares) = (other.scales, other.squares);
        self.upcoming = std::mem::take(&mut other.upcoming);
        let products = LowerProducts::new(
            &other.cells,
            lower,
            self.dim,
            &mut self.upcoming,
            &mut self.cells,
        );
        f32::run(self.isa, products);
        Ok(())
    }

    /// Writes the inner products of all pairs of rows: the upper triangle of the rows' Gram matrix,
    /// row by row.
    pub fn inner_products(&mut self, out: &mut Vec<Across>) {
        out.resize(packed_len(self.n_rows()), Across::default());
        f32::run(
            self.isa,
            BatchedPairs::new(&self.cells, self.dim, &mut self.upcoming, out),
        );
    }

    /// Writes for each row its inner products with `columns` and then its squared norm, like
    /// [`row_products`](crate::row_products).
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if `columns` is not a whole number of columns.
    pub fn products(&mut self, columns: &[f32], out: &mut Vec<Across>) -> Result<()> {
        let n_columns = columns.len() / self.dim;
        check_len("columns", columns.len(), n_columns * self.dim)?;
        let n_products = self.n_rows().saturating_mul(n_columns + 1);
        out.resize(n_products, Across::default());
        let products =
            BatchedProducts::new(&self.cells, columns, self.dim, &mut self.upcoming, out);
        f32::run(self.isa, products);
        Ok(())
    }

    /// Writes `sum_r c_r row_r`.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) unless there is one coefficient for each row and `out` is as long as a row.
    pub fn weighted_sum(&mut self, coefficients: &[Across], out: &mut [Across]) -> Result<()> {
        check_len("coefficients", coefficients.len(), self.n_rows())?;
        check_len("out", out.len(), self.dim)?;
        f32::run(
            self.isa,
            BatchedSum::new(&self.cells, coefficients, &mut self.upcoming, out),
        );
        Ok(())
    }
}

/// The power of two that brings the largest number to between 1 and 4, or less if it is subnormal;
/// 1 if all are zero.
fn scale_of(set: StridedRows<'_>) -> f32 {
    const LARGEST_EXPONENT: u32 = 254;
    let rows = set.data.chunks(set.stride.max(1)).take(set.n_rows);
    let sizes = rows
        .flat_map(|row| &row[..set.dim])
        .map(|x| x.to_bits() & 0x7fff_ffff);
    match sizes.max() {
        None | Some(0) => 1.0,
        Some(size) => {
            let exponent = LARGEST_EXPONENT.saturating_sub(size >> 23);
            f32::from_bits(exponent.max(1) << 23)
        }
    }
}

/// Writes `L x` for one row `x`, like [`BatchedRows::load_product`].
///
/// # Errors
/// [`Shape`](crate::Error::Shape) if `lower` is not a square matrix of side `x.len()` or `out` has
/// another length.
pub fn batched_lower_product(lower: &[f32], x: &[Across], out: &mut [Across]) -> Result<()> {
    check_len("lower", lower.len(), x.len().saturating_mul(x.len()))?;
    check_len("out", out.len(), x.len())?;
    if !x.is_empty() {
        let mut none = Upcoming::default();
        let products = LowerProducts::new(x, lower, x.len(), &mut none, out);
        f32::run(InstructionSet::detect(), products);
    }
    Ok(())
}

/// Solves `(A + lift I) x = b` in place of `b` for [`BatchedRows::SETS`] symmetric systems by
/// Cholesky. If a pivot is not above zero, its unknown is removed from the system and becomes zero.
///
/// # Arguments
/// * `matrix` - the packed upper triangles; overwritten
/// * `lifts` - one for each system
/// * `x` - the right-hand sides
///
/// # Errors
/// [`Shape`](crate::Error::Shape) if `matrix` is not the triangle of a side as long as `x`.
///
/// # Examples
/// ```
/// use dp_linalg::{Across, BatchedRows, batched_solve};
/// let all = |x| Across([x; BatchedRows::SETS]);
/// let mut x = [all(10.0), all(13.0)];
/// batched_solve(&mut [all(3.0), all(2.0), all(4.0)], &all(1.0), &mut x)?;
/// assert_eq!(x.map(|x| x.0[7]), [1.5, 2.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn batched_solve(matrix: &mut [Across], lifts: &Across, x: &mut [Across]) -> Result<()> {
    check_len("matrix", matrix.len(), packed_len(x.len()))?;
    let solve = BatchedSolve::new(matrix, lifts, x);
    f32::run(InstructionSet::detect(), solve);
    Ok(())
}

/// Writes the numbers of each set in order, starting with those of the first set.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) if `out` is not a whole number of sets, or more than
/// [`BatchedRows::SETS`].
pub fn separate(from: &[Across], out: &mut [f32]) -> Result<()> {
    let n_sets = out.len().checked_div(from.len()).unwrap_or(0).min(SETS);
    check_len("out", out.len(), n_sets * from.len())?;
    f32::run(InstructionSet::detect(), Separate::new(from, out));
    Ok(())
}

#[cfg(test)]
#[path = "batched_tests.rs"]
mod tests;
