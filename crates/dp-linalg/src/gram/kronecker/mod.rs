//! Sums of small Gramians times weights, rounded down user by user.

use dp_core::params::{at_least_one, in_range};

use crate::error::check_len;
use crate::kernels::{
    HOME, InstructionSet, IntegerRows, Kernel, KroneckerUpdate, Rows, SumOfSquares,
};
use crate::packed::packed_len;
use crate::strided::pair_products;
use crate::{AlignedVec, GramAccumulator, INTEGER_LIMIT, Result, StridedRows};

/// Rows that wait to be summed: a few users', so that the sums need not go through the cache for each.
const WAITING_ROWS: usize = 40;

/// Sums of the Gramian of a few integer rows times each of several weights, every product rounded down to an integer.
///
/// ```text
/// x_r = trunc(scale_r v_r), each coordinate within +-2^22       (as `integer_row`)
/// S_p = sum_calls floor(w_p C),   C = sum_r x_r x_r^T
/// ```
///
/// # Numerics
/// While `tr C = sum_r ||x_r||^2` is below 2^53 the Gramian is exact. Each integer is the largest up to the exact product. While the magnitudes of those
/// integers add up to no more than 2^51, the sums are exact and the same on every processor.
#[derive(Clone)]
pub struct KroneckerAccumulator {
    isa: InstructionSet,
    dim: usize,
    width: usize,
    n_weights: usize,
    /// Rows of the calls that are not in the sums yet, padded to `width`, behind them those of the call at hand, and room.
    rows: AlignedVec<f64>,
    /// Where those of the call at hand start, and how many they are.
    start: usize,
    n_rows: usize,
    /// Calls that wait: how many rows each has, and the weights.
    waiting: Vec<usize>,
    weights: Vec<f64>,
    /// From [`HOME`] on.
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
    /// An accumulator of zeros for rows of length `dim` and `n_weights` weights.
    ///
    /// # Errors
    /// [`Param`](crate::Error::Param) unless `dim` is from 1 to 1024 and there is a weight.
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

    /// Makes the integer rows of `rows` and returns `tr C`: exact below 2^53, and 2^53 or more where it is not. Rows that were loaded
    /// and not added are gone, also after an error.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when rows are not of length `dim`, end behind their data or are not as many as the scales.
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
        // squares are not negative, so a sum that passed 2^53 stays there
        Ok(f64::run(self.isa, SumOfSquares(&self.rows[at_hand])))
    }

    /// Where the loaded rows are.
    fn at_hand(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.n_rows * self.width
    }

    /// Makes room for so many rows behind those that wait.
    fn make_room(&mut self, n_rows: usize) {
        let len = self.start + n_rows * self.width;
        if len > self.rows.len() {
            let mut more = AlignedVec::zeros(2 * len);
            more[..self.start].copy_from_slice(&self.rows[..self.start]);
            self.rows = more;
        }
    }

    /// Writes the inner products `<x_r, x_s>`, `r <= s`, of the loaded rows: exact where `tr C` is. The sum of their squares, those with
    /// `r < s` twice, is `||C||_F^2`.
    pub fn write_inner_products(&self, out: &mut Vec<f64>) {
        let rows = &self.rows[self.at_hand()];
        let rows = Rows::new(rows, self.width, self.n_rows, self.width);
        pair_products(self.isa, rows, out);
    }

    /// Adds `floor(w_p C)` of the loaded rows to every sum, once for each time they were loaded.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when there are not as many weights as sums.
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

    /// Adds the calls that wait.
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

    /// Writes the upper triangle of every sum, packed, one after the other.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when `out` has another length.
    pub fn write_packed(&mut self, out: &mut [f64]) -> Result<()> {
        let n = packed_len(self.dim);
        check_len("out", out.len(), self.n_weights * n)?;
        self.sum_up(); // without what was loaded and not added
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
