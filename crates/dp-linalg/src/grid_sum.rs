//! Exact sums of vectors that are first quantised to a grid.

use crate::Result;
use crate::error::check_len;
use crate::kernels::{AddVector, InstructionSet, Kernel, Quantise, SquareParts};

/// Sums of integer vectors that are computed from numbers on the fly.
///
/// ```text
/// z_i = trunc(v_i / step)  clamped to ±2^43, NaN to 0
/// ```
///
/// # Numerics
/// The integers and their squared norm are exact and the same on every processor. So are the sums
/// while the magnitudes of what was added to a coordinate add up to at most 2^53.
#[derive(Clone)]
pub struct GridSum {
    isa: InstructionSet,
    sums: Vec<f64>,
    /// The current vector.
    integers: Vec<f64>,
}

/// Prints the shape only: the sums may be private.
impl std::fmt::Debug for GridSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("GridSum");
        out.field("len", &self.sums.len()).finish_non_exhaustive()
    }
}

impl GridSum {
    /// Integers are clamped to this: the squared norm of a clamped vector is at least 2^86.
    pub const LIMIT: f64 = (1_u64 << 43) as f64;

    /// Creates sums of zero.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self::with_instructions(len, InstructionSet::detect())
    }

    fn with_instructions(len: usize, isa: InstructionSet) -> Self {
        Self {
            isa,
            sums: vec![0.0; len],
            integers: vec![0.0; len],
        }
    }

    /// Computes the integers of a vector and returns their exact squared norm. They are not added
    /// until [`add`](Self::add) is called.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if the length of the vector differs from that of the sum.
    ///
    /// # Examples
    /// ```
    /// let mut sum = dp_linalg::GridSum::new(2);
    /// assert_eq!(sum.load(&[0.8, -1.7], 0.5)?, 1 + 9);
    /// sum.add();
    /// assert_eq!(sum.sums(), [1.0, -3.0]);
    /// # Ok::<(), dp_linalg::Error>(())
    /// ```
    pub fn load(&mut self, vector: &[f64], step: f64) -> Result<u128> {
        check_len("vector", vector.len(), self.sums.len())?;
        let parts = vector
            .chunks(Quantise::MOST)
            .zip(self.integers.chunks_mut(Quantise::MOST));
        let mut norm = 0;
        for (values, out) in parts {
            let quantise = Quantise::new(values, step, Self::LIMIT, out);
            norm += f64::run(self.isa, quantise).total();
        }
        Ok(norm)
    }

    /// Adds the loaded integers.
    pub fn add(&mut self) {
        f64::run(self.isa, AddVector::new(&mut self.sums, &self.integers));
    }

    /// The sums so far.
    #[must_use]
    pub fn sums(&self) -> &[f64] {
        &self.sums
    }

    /// Sets all sums to zero.
    pub fn reset(&mut self) {
        self.sums.fill(0.0);
    }
}

impl SquareParts {
    /// The squared norm: no part is negative in total, so the sum below is one of integers up to
    /// 2^95.
    #[allow(clippy::cast_possible_truncation, reason = "integers below 2^53")]
    fn total(self) -> u128 {
        let [high, cross, low] = [self.high, self.cross, self.low].map(|x| i128::from(x as i64));
        ((high << 42) + (cross << 22) + low).unsigned_abs()
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

    /// Ordinary, large and extreme numbers alternately.
    fn value(i: usize) -> f64 {
        let x = ((i * 7919 % 1009) as f64 - 504.3) * 1.37e3;
        match i % 11 {
            0 => x * 1e6,
            1 => f64::NAN,
            2 => -0.0,
            3 => x * 1e-9,
            4 if i.is_multiple_of(5) => f64::INFINITY,
            5 if i.is_multiple_of(7) => -1e300,
            _ => x,
        }
    }

    #[test]
    fn every_instruction_set_gives_the_integers_and_the_norm_of_the_definition() {
        let limit = 1_i64 << 43;
        for len in [1, 3, 8, 50, 103, 256, 257, 700] {
            for step in [1.0, 0.37, 1e-4, 123.0] {
                let vector: Vec<f64> = (0..len).map(value).collect();
                let wide = |v: f64| i128::from(((v / step) as i64).clamp(-limit, limit));
                let expected: Vec<i128> = vector.iter().map(|&v| wide(v)).collect();
                let norm: u128 = expected.iter().map(|z| z.unsigned_abs().pow(2)).sum();
                for isa in InstructionSet::available() {
                    let mut sum = GridSum::with_instructions(len, isa);
                    assert_eq!(sum.load(&vector, step).unwrap(), norm, "{isa:?}");
                    assert!(sum.sums().iter().all(|&s| s == 0.0));
                    sum.add();
                    sum.load(&vec![step * 3.5; len], step).unwrap();
                    sum.add();
                    let found = sum.sums().iter().map(|&s| s as i128);
                    assert!(found.eq(expected.iter().map(|z| z + 3)), "{isa:?} {len}");
                    sum.reset();
                    assert!(sum.sums().iter().all(|&s| s == 0.0));
                }
            }
        }
        assert!(GridSum::new(2).load(&[1.0], 1.0).is_err());
    }

    #[test]
    fn squares_of_the_largest_integers_do_not_round() {
        for z in [(1_u64 << 43) - 1, (1 << 42) + 1, (1 << 21) + 1, 1 << 43] {
            let mut sum = GridSum::new(300);
            let vector = vec![-(z as f64); 300];
            let expected = u128::from(z).pow(2) * 300;
            assert_eq!(sum.load(&vector, 1.0).unwrap(), expected);
        }
    }
}
