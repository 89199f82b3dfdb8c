//! Sums of small Gramians times weights, rounded user by user.

use dp_core::params::{at_least_one, in_range};

use crate::error::check_len;
use crate::kernels::{GatherIntegers, InstructionSet, Kernel, KroneckerUpdate, Rows};
use crate::packed::packed_len;
use crate::{GramAccumulator, INTEGER_LIMIT, Result};

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
    /// Rows of the call at hand, padded to `width`.
    rows: Vec<f64>,
    n_rows: usize,
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
            n_rows: 0,
            planes: vec![0.0; n_weights * width * width],
        })
    }

    /// Makes the integer rows of `rows`, shape `(n, dim)`, and returns `tr C`: exact below 2^53, and 2^53 or more where it is not.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when there are not `dim` numbers to each scale.
    pub fn load(&mut self, rows: &[f32], scales: &[f32]) -> Result<f64> {
        check_len("rows", rows.len(), scales.len() * self.dim)?;
        self.n_rows = scales.len();
        self.rows.resize(self.n_rows * self.width, 0.0);
        for ((row, scale), out) in rows
            .chunks_exact(self.dim)
            .zip(scales)
            .zip(self.rows.chunks_exact_mut(self.width))
        {
            let (shape, one) = ((self.dim, self.width), std::slice::from_ref(scale));
            let gather = GatherIntegers::new(row, &[0], one, shape, INTEGER_LIMIT, out);
            f64::run(self.isa, gather);
        }
        // squares are not negative, so a sum that passed 2^53 stays there
        Ok(integer_product(&self.rows, &self.rows))
    }

    /// Writes the inner products `<x_r, x_s>`, `r <= s`, of the loaded rows: exact where `tr C` is. The sum of their squares, those with
    /// `r < s` twice, is `||C||_F^2`.
    pub fn write_inner_products(&self, out: &mut Vec<f64>) {
        out.clear();
        let row = |r: usize| &self.rows[r * self.width..(r + 1) * self.width];
        for r in 0..self.n_rows {
            out.extend((r..self.n_rows).map(|s| integer_product(row(r), row(s))));
        }
    }

    /// Adds `trunc(w_p C)` of the loaded rows to every sum.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when there are not as many weights as sums.
    pub fn add(&mut self, weights: &[f64]) -> Result<()> {
        check_len("weights", weights.len(), self.n_weights)?;
        let rows = Rows::new(&self.rows, self.width, self.n_rows, self.width);
        let update = KroneckerUpdate::new(rows, weights, self.dim, &mut self.planes);
        f64::run(self.isa, update);
        Ok(())
    }

    /// Writes the upper triangle of every sum, packed, one after the other.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when `out` has another length.
    pub fn write_packed(&self, out: &mut [f64]) -> Result<()> {
        let n = packed_len(self.dim);
        check_len("out", out.len(), self.n_weights * n)?;
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
        self.planes.fill(0.0);
    }
}

/// Four sums side by side over padded rows.
fn integer_product(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0_f64; 4];
    for (a, b) in a.chunks_exact(4).zip(b.chunks_exact(4)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    reason = "exact integers are the claim"
)]
mod tests {
    use super::*;

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
                let trace = sums.load(&rows, &scales).unwrap();
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
                sums.add(&weights).unwrap();
                let mut out = vec![0.0; 3 * packed_len(dim)];
                sums.write_packed(&mut out).unwrap();
                let mut found = out.iter();
                for w in weights {
                    for a in 0..dim {
                        for b in a..dim {
                            let once = (c(a, b) as f64 * w).trunc();
                            assert_eq!(*found.next().unwrap(), 2.0 * once, "{isa:?} {dim}");
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
        assert!(sums.load(&[1.0; 3], &[1.0]).is_err());
        assert_eq!(sums.load(&[9.0; 4], &[1.0; 2]).unwrap(), 324.0);
        assert_eq!(sums.load(&[2.0, f32::NAN], &[1.0]).unwrap(), 4.0);
        assert!(sums.add(&[1.0; 2]).is_err());
        sums.add(&[1.0]).unwrap();
        let mut out = [0.0; 3];
        assert!(sums.write_packed(&mut [0.0; 2]).is_err());
        sums.write_packed(&mut out).unwrap();
        assert_eq!(out, [4.0, 0.0, 0.0]);
        sums.reset();
        sums.write_packed(&mut out).unwrap();
        assert_eq!(out, [0.0; 3]);
    }
}
