//! Sums of small Gramians times weights, rounded user by user.

use dp_core::params::{at_least_one, in_range};

use crate::error::check_len;
use crate::kernels::{InstructionSet, IntegerRows, Kernel, KroneckerUpdate, Rows, SumOfSquares};
use crate::packed::packed_len;
use crate::wide_rows::pair_products;
use crate::{GramAccumulator, INTEGER_LIMIT, Result, StridedRows};

/// Rows that wait to be summed: a few users', so that the sums need not go through the cache for each.
const WAITING_ROWS: usize = 40;

/// Sums of the Gramian of a few integer rows times each of several weights, every product rounded toward zero.
///
/// ```text
/// x_r = trunc(scale_r v_r), each coordinate within +-2^22       (as `integer_row`)
/// S_p = sum_calls trunc(w_p C),   C = sum_r x_r x_r^T
/// ```
///
/// # Numerics
/// While `tr C = sum_r ||x_r||^2` is below 2^53 the Gramian is exact. Each product is one multiplication in double precision, rounded
/// toward zero to an integer. While the magnitudes of those integers add up to less than 2^53, the sums are exact and
/// the same on every processor.
#[derive(Clone)]
pub struct KroneckerAccumulator {
    isa: InstructionSet,
    dim: usize,
    width: usize,
    n_weights: usize,
    /// Rows of the calls that are not in the sums yet, padded to `width`, and behind them those of the call at hand.
    rows: Vec<f64>,
    /// Where the latter start, and how many they are.
    start: usize,
    n_rows: usize,
    /// Calls that wait: how many rows each has, and the weights.
    waiting: Vec<usize>,
    weights: Vec<f64>,
    planes: Vec<f64>,
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
        Ok(Self {
            isa,
            dim,
            width,
            n_weights,
            rows: Vec::new(),
            start: 0,
            n_rows: 0,
            waiting: Vec::new(),
            weights: Vec::new(),
            planes: vec![0.0; n_weights * width * width],
        })
    }

    /// Makes the integer rows of `rows` and returns `tr C`: exact below 2^53, and 2^53 or more where it is not. Rows that were loaded
    /// and not added are gone, also after an error.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when rows are not of length `dim`, end behind their data or are not as many as the scales.
    pub fn load(&mut self, rows: StridedRows<'_>, scales: &[f32]) -> Result<f64> {
        self.rows.truncate(self.start);
        self.n_rows = 0;
        check_len("rows", rows.dim, self.dim)?;
        check_len("scales", scales.len(), rows.n_rows)?;
        let rows = rows.check()?;
        self.n_rows = scales.len();
        self.rows.resize(self.start + self.n_rows * self.width, 0.0);
        let (limit, width, out) = (INTEGER_LIMIT, self.width, &mut self.rows[self.start..]);
        f64::run(self.isa, IntegerRows::new(rows, scales, limit, width, out));
        // squares are not negative, so a sum that passed 2^53 stays there
        Ok(f64::run(self.isa, SumOfSquares(&self.rows[self.start..])))
    }

    /// Writes the inner products `<x_r, x_s>`, `r <= s`, of the loaded rows: exact where `tr C` is. The sum of their squares, those with
    /// `r < s` twice, is `||C||_F^2`.
    pub fn write_inner_products(&self, out: &mut Vec<f64>) {
        let rows = &self.rows[self.start..];
        let rows = Rows::new(rows, self.width, self.n_rows, self.width);
        pair_products(self.isa, rows, out);
    }

    /// Adds `trunc(w_p C)` of the loaded rows to every sum, once for each time they were loaded.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when there are not as many weights as sums.
    pub fn add(&mut self, weights: &[f64]) -> Result<()> {
        check_len("weights", weights.len(), self.n_weights)?;
        self.weights.extend_from_slice(weights);
        self.waiting.push(std::mem::take(&mut self.n_rows));
        self.start = self.rows.len();
        if self.rows.len() >= WAITING_ROWS * self.width {
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
        self.rows.clear();
        (self.start, self.n_rows) = (0, 0);
    }

    /// Writes the upper triangle of every sum, packed, one after the other.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when `out` has another length.
    pub fn write_packed(&mut self, out: &mut [f64]) -> Result<()> {
        let n = packed_len(self.dim);
        check_len("out", out.len(), self.n_weights * n)?;
        self.rows.truncate(self.start); // what was loaded and not added
        self.sum_up();
        let planes = self.planes.chunks_exact(self.width * self.width);
        for (plane, out) in planes.zip(out.chunks_exact_mut(n)) {
            let rows = plane.chunks_exact(self.width).take(self.dim).enumerate();
            let upper = rows.flat_map(|(a, row)| &row[a..self.dim]);
            out.iter_mut().zip(upper).for_each(|(o, &s)| *o = s);
        }
        Ok(())
    }

    /// Sets all sums to zero.
    pub fn reset(&mut self) {
        self.clear();
        self.planes.fill(0.0);
    }
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    reason = "exact integers are the claim"
)]
mod tests {
    use super::*;

    fn of(data: &[f32], dim: usize) -> StridedRows<'_> {
        let n_rows = data.len() / dim;
        StridedRows {
            data,
            stride: dim,
            n_rows,
            dim,
        }
    }

    #[test]
    fn every_instruction_set_gives_the_integers_of_the_definition() {
        for (dim, n_rows) in [(1, 1), (3, 2), (8, 5), (17, 10), (33, 3), (50, 10)] {
            let rows: Vec<f32> = (0..dim * n_rows)
                .map(|i| ((i * 37 % 101) as f32 - 50.3) * 7.7)
                .collect();
            let scales: Vec<f32> = (0..n_rows).map(|r| 1.3 + r as f32).collect();
            let weights = [0.37, -12.0, 1e-3];
            let integer = |r: usize, a: usize| -> i64 {
                (f64::from(scales[r]) * f64::from(rows[r * dim + a])) as i64
            };
            let c = |a: usize, b: usize| -> i64 {
                (0..n_rows).map(|r| integer(r, a) * integer(r, b)).sum()
            };
            for isa in InstructionSet::available() {
                let mut sums = KroneckerAccumulator::with_instructions(dim, 3, isa).unwrap();
                let trace = sums.load(of(&rows, dim), &scales).unwrap();
                assert_eq!(trace, (0..dim).map(|a| c(a, a)).sum::<i64>() as f64);
                let mut products = Vec::new();
                sums.write_inner_products(&mut products);
                let pairs = (0..n_rows).flat_map(|r| (r..n_rows).map(move |s| (r, s)));
                let squares = pairs.zip(&products).map(|((r, s), &p)| {
                    let square = (p as i128).pow(2);
                    if r == s { square } else { 2 * square }
                });
                let norm: i128 = (0..dim * dim)
                    .map(|at| i128::from(c(at / dim, at % dim)).pow(2))
                    .sum();
                assert_eq!(squares.sum::<i128>(), norm);
                sums.add(&weights).unwrap();
                for _ in 0..7 {
                    sums.load(of(&rows, dim), &scales).unwrap();
                    sums.add(&weights).unwrap();
                }
                sums.load(of(&rows, dim), &scales).unwrap(); // and not added
                let mut out = vec![0.0; 3 * packed_len(dim)];
                sums.write_packed(&mut out).unwrap();
                let mut found = out.iter();
                for w in weights {
                    for a in 0..dim {
                        for b in a..dim {
                            let once = (c(a, b) as f64 * w).trunc();
                            assert_eq!(*found.next().unwrap(), 8.0 * once, "{isa:?} {dim}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn shapes_are_checked_and_fewer_rows_leave_nothing_behind() {
        assert!(KroneckerAccumulator::new(0, 1).is_err());
        assert!(KroneckerAccumulator::new(2, 0).is_err());
        let mut sums = KroneckerAccumulator::new(2, 1).unwrap();
        assert!(sums.load(of(&[1.0; 3], 3), &[1.0]).is_err());
        assert!(sums.load(of(&[1.0; 4], 2), &[1.0]).is_err());
        assert_eq!(sums.load(of(&[9.0; 4], 2), &[1.0; 2]).unwrap(), 324.0);
        assert_eq!(sums.load(of(&[2.0, f32::NAN], 2), &[1.0]).unwrap(), 4.0);
        assert!(sums.add(&[1.0; 2]).is_err());
        sums.add(&[1.0]).unwrap();
        let mut out = [0.0; 3];
        assert!(sums.write_packed(&mut [0.0; 2]).is_err());
        sums.write_packed(&mut out).unwrap();
        assert_eq!(out, [4.0, 0.0, 0.0]);
        // what was loaded before a refusal is not added after it
        for (rows, scales) in [(of(&[1.0; 3], 3), 1), (of(&[1.0; 4], 2), 1)] {
            sums.load(of(&[9.0; 4], 2), &[1.0; 2]).unwrap();
            assert!(sums.load(rows, &[1.0; 2][..scales]).is_err());
            sums.add(&[1.0]).unwrap();
        }
        sums.write_packed(&mut out).unwrap();
        assert_eq!(out, [4.0, 0.0, 0.0]);
        sums.reset();
        sums.write_packed(&mut out).unwrap();
        assert_eq!(out, [0.0; 3]);
    }
}
