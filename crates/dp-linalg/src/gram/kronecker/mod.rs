//! Sums of small Gram matrices times weights, with products rounded down user by user.

use dp_core::params::{at_least_one, in_range};

use crate::error::check_len;
use crate::kernels::{
    HOME, InstructionSet, IntegerRows, Kernel, KroneckerUpdate, Rows, SumOfSquares,
};
use crate::packed::packed_len;
use crate::strided::pair_products;
use crate::{AlignedVec, GramAccumulator, INTEGER_LIMIT, Result, StridedRows};

/// Number of rows that are buffered before they are summed: those of a few users, so that the sums
/// do not have to pass through the cache for each user.
const WAITING_ROWS: usize = 40;

/// Sums of the Gram matrix of a few integer rows times each of several weights, with every product
/// rounded down to an integer.
///
/// ```text
/// x_r = trunc(scale_r v_r), each coordinate within +-2^22       (as `integer_row`)
/// S_p = sum_calls floor(w_p C),   C = sum_r x_r x_r^T
/// ```
///
/// # Numerics
/// While `tr C = sum_r ||x_r||^2` is below 2^53, the Gram matrix is exact. Each product is rounded
/// down to an integer exactly. While the magnitudes of those integers add up to no more than 2^51,
/// the sums are exact and the same on every processor.
#[derive(Clone)]
pub struct KroneckerAccumulator {
    isa: InstructionSet,
    dim: usize,
    width: usize,
    n_weights: usize,
    /// Buffered rows of calls that are not in the sums yet, padded to `width`, followed by those of
    /// the current call and free space.
    rows: AlignedVec<f64>,
    /// Start and number of the current call's rows.
    start: usize,
    n_rows: usize,
    /// Buffered calls: the number of rows of each, and the weights.
    waiting: Vec<usize>,
    weights: Vec<f64>,
    /// Start values are [`HOME`].
    planes: AlignedVec<f64>,
}

/// Prints the shape only: the sums may be private.
impl std::fmt::Debug for KroneckerAccumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("KroneckerAccumulator");
        out.field("dim", &self.dim)
            .field("n_weights", &self.n_weights)
            .finish_non_exhaustive()
    }
}

impl KroneckerAccumulator {
    /// Creates an accumulator of zeros for rows of length `dim` and `n_weights` weights.
    ///
    /// # Errors
    /// [`Param`](crate::Error::Param) unless `dim` is from 1 to 1024 and there is at least one
    /// weight.
    pub fn new(dim: usize, n_weights: usize) -> Result<Self> {
        Self::with_instructions(dim, n_weights, InstructionSet::detect())
    }

    fn with_instructions(dim: usize, n_weights: usize, isa: InstructionSet) -> Result<Self> {
        let most = GramAccumulator::<f64>::MAX_DIM;
        in_range("dim", dim, 1, most, "a whole number from 1 to 1024")?;
        at_least_one("n_weights", n_weights)?;
        let width = dim.next_multiple_of(f64::width(isa));
        let mut planes = AlignedVec::zeros(n_weights * width * width);
        planes.fill(HOME);
        Ok(Self {
            isa,
            dim,
            width,
            n_weights,
            rows: AlignedVec::zeros(2 * WAITING_ROWS * width),
            start: 0,
            n_rows: 0,
            waiting: Vec::new(),
            weights: Vec::new(),
            planes,
        })
    }

    /// Computes the integer rows of `rows` and returns `tr C`, which is exact below 2^53 and at
    /// least 2^53 if it is not exact. Rows that were loaded and not added are discarded, also after
    /// an error.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if rows are not of length `dim`, extend beyond their data or
    /// differ in number from the scales.
    pub fn load(&mut self, rows: StridedRows<'_>, scales: &[f32]) -> Result<f64> {
        self.n_rows = 0;
        check_len("rows", rows.dim, self.dim)?;
        check_len("scales", scales.len(), rows.n_rows)?;
        let rows = rows.check()?;
        self.make_room(scales.len());
        self.n_rows = scales.len();
        let at_hand = self.at_hand();
        let (limit, width, out) = (INTEGER_LIMIT, self.width, &mut self.rows[at_hand.clone()]);
        f64::run(self.isa, IntegerRows::new(rows, scales, limit, width, out));
        // squares are not negative, so a sum that exceeds 2^53 stays above it
        Ok(f64::run(self.isa, SumOfSquares(&self.rows[at_hand])))
    }

    /// The range of the loaded rows.
    fn at_hand(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.n_rows * self.width
    }

    /// Makes room for a number of rows after the buffered ones.
    fn make_room(&mut self, n_rows: usize) {
        let len = self.start + n_rows * self.width;
        if len > self.rows.len() {
            let mut more = AlignedVec::zeros(2 * len);
            more[..self.start].copy_from_slice(&self.rows[..self.start]);
            self.rows = more;
        }
    }

    /// Writes the inner products `<x_r, x_s>`, `r <= s`, of the loaded rows; they are exact if `tr
    /// C` is. The sum of their squares, counting those with `r < s` twice, is `||C||_F^2`.
    pub fn write_inner_products(&self, out: &mut Vec<f64>) {
        let rows = &self.rows[self.at_hand()];
        let rows = Rows::new(rows, self.width, self.n_rows, self.width);
        pair_products(self.isa, rows, out);
    }

    /// Adds `floor(w_p C)` of the loaded rows to every sum; calling it again without a new load adds
    /// nothing.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if the number of weights differs from the number of sums.
    pub fn add(&mut self, weights: &[f64]) -> Result<()> {
        check_len("weights", weights.len(), self.n_weights)?;
        self.weights.extend_from_slice(weights);
        self.start = self.at_hand().end;
        self.waiting.push(std::mem::take(&mut self.n_rows));
        if self.start >= WAITING_ROWS * self.width {
            self.sum_up();
        }
        Ok(())
    }

    /// Adds the buffered calls to the sums.
    fn sum_up(&mut self) {
        let n_rows = self.waiting.iter().sum();
        let rows = Rows::new(&self.rows, self.width, n_rows, self.width);
        let (waiting, weights, planes) = (&self.waiting, &self.weights, &mut self.planes);
        KroneckerUpdate::new(rows, waiting, weights, self.dim, planes).run(self.isa);
        self.clear();
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.weights.clear();
        (self.start, self.n_rows) = (0, 0);
    }

    /// Writes the packed upper triangle of every sum, one after the other.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if `out` has another length.
    pub fn write_packed(&mut self, out: &mut [f64]) -> Result<()> {
        let n = packed_len(self.dim);
        check_len("out", out.len(), self.n_weights * n)?;
        self.sum_up(); // without rows that were loaded and not added
        let planes = self.planes.chunks_exact(self.width * self.width);
        for (plane, out) in planes.zip(out.chunks_exact_mut(n)) {
            let rows = plane.chunks_exact(self.width).take(self.dim).enumerate();
            let upper = rows.flat_map(|(a, row)| &row[a..self.dim]);
            out.iter_mut().zip(upper).for_each(|(o, &s)| *o = s - HOME);
        }
        Ok(())
    }

    /// Sets all sums to zero.
    pub fn reset(&mut self) {
        self.clear();
        self.planes.fill(HOME);
    }
}

#[cfg(test)]
mod tests;
