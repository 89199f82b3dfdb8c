//! The rows of several sets side by side, one set in each vector lane: what is alike for all sets takes one instruction for all.

use dp_core::params::at_least_one;

use crate::error::check_len;
use crate::kernels::{
    BatchedPairs, BatchedProducts, BatchedSolve, BatchedSum, InstructionSet, Interleave, Kernel,
    LowerProducts, Rows, SETS, Separate, Upcoming,
};
use crate::packed::packed_len;
use crate::{Across, Result, StridedRows};

/// Up to [`SETS`](Self::SETS) sets of rows of one length, in single precision: a user's features, for as many users.
///
/// A set is multiplied by a power of two where the sum of its squares would leave the range of single precision otherwise, or nearly so; so that sets
/// of any size can be worked with, as long as nobody asks for their units. Rows that a set does not have are zeros.
///
/// # Numerics
/// What one set gets depends on the others in nothing but the sign of zeros: rows that it does not have add zeros, which make 0 of a sum that has underflowed
/// to -0. Coefficients and right-hand sides of such rows must be 0 for that. The order of sums is that of the numbers; whether product and sum are rounded
/// once or apart depends on the processor.
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

/// Sums of squares that need no scale. Entries are then at most 1e13 in size, so that sums of squares of products are in range too.
const SAFE_SQUARES: std::ops::Range<f32> = 1e-10..1e10;

/// Bytes that are fetched ahead at most.
const MOST_AHEAD: usize = 256 * 1024;
/// Lines that [`fetch_announced`](BatchedRows::fetch_announced) fetches.
const LINES_AT_A_TIME: usize = 32;

impl BatchedRows {
    /// Most sets at a time.
    pub const SETS: usize = SETS;

    /// No rows of length `dim`.
    ///
    /// # Errors
    /// [`Param`](crate::Error::Param) when `dim` is 0.
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

    /// Says which sets are loaded after those that are loaded next: they are fetched from memory bit by bit while these are worked on. Nothing but time
    /// depends on it.
    pub fn announce(&mut self, sets: &[StridedRows<'_>]) {
        self.upcoming = Upcoming::default();
        if let [first, .., last] = sets {
            let addresses = first.data.as_ptr().addr()..last.data.as_ptr_range().end.addr();
            if addresses.len() <= MOST_AHEAD {
                self.upcoming = Upcoming::new(addresses);
            }
        }
    }

    /// Fetches some of what was announced, in the middle of other work. The methods that read rows do the same.
    pub fn fetch_announced(&mut self) {
        self.upcoming.fetch(LINES_AT_A_TIME);
    }

    /// Reads other sets, as many rows as the longest has.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when there are more than [`SETS`](Self::SETS), or rows have another length or end behind their data;
    /// [`Param`](crate::Error::Param) when they overlap.
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

    /// Rows of the longest set.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.cells.len() / self.dim
    }

    /// What each set was multiplied by.
    #[must_use]
    pub const fn scales(&self) -> &Across {
        &self.scales
    }

    /// The sum of the squares of all numbers of each set as loaded, with its scale.
    #[must_use]
    pub const fn squares(&self) -> &Across {
        &self.squares
    }

    /// Reads the rows of `other`, each multiplied by a lower triangular matrix: `x` becomes `L x`. What stands above the diagonal is not read.
    /// Scales and sums of squares stay those of `other`.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when `lower` is not `(dim, dim)` or rows have another length.
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

    /// Writes the inner products of all pairs of rows, the upper triangle of the rows' Gramian, row by row.
    pub fn inner_products(&mut self, out: &mut Vec<Across>) {
        out.resize(packed_len(self.n_rows()), Across::default());
        f32::run(
            self.isa,
            BatchedPairs::new(&self.cells, self.dim, &mut self.upcoming, out),
        );
    }

    /// Writes for each row its inner products with `columns` and then its squared norm, as [`row_products`](crate::row_products).
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when `columns` is not a whole number of them.
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

/// The power of two that brings the largest number to between 1 and 4, less if it is subnormal; 1 where there is none.
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

/// Writes `L x` for one row `x`, as [`BatchedRows::load_product`].
///
/// # Errors
/// [`Shape`](crate::Error::Shape) when `lower` is not a square matrix of the side `x.len()` or `out` has another length.
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

/// Solves `(A + lift I) x = b` over `b` for [`BatchedRows::SETS`] symmetric systems by Cholesky. A pivot that is not above zero takes its unknown out of the
/// system: it becomes zero.
///
/// # Arguments
/// * `matrix` - the packed upper triangles; overwritten
/// * `lifts` - one for each system
/// * `x` - the right-hand sides
///
/// # Errors
/// [`Shape`](crate::Error::Shape) when `matrix` is not the triangle of a side as long as `x`.
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

/// Writes the numbers of each set in order, those of the first set first.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) when `out` is not a whole number of sets, or more than [`BatchedRows::SETS`].
pub fn separate(from: &[Across], out: &mut [f32]) -> Result<()> {
    let n_sets = out.len().checked_div(from.len()).unwrap_or(0).min(SETS);
    check_len("out", out.len(), n_sets * from.len())?;
    f32::run(InstructionSet::detect(), Separate::new(from, out));
    Ok(())
}

#[cfg(test)]
#[path = "batched_tests.rs"]
mod tests;
