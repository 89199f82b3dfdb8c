//! Gram sums of integer rows that are computed from scaled factors on the fly.

use dp_core::params::at_least_one;

use super::{Block, GATHER_ROWS, GramAccumulator};
use crate::error::check_len;
use crate::kernels::{
    GatherIntegers, GatheredSum, InstructionSet, Kernel, Prefetch, Rows, SquaredNorms,
};
use crate::{Error, Result};

/// Coordinates of integer rows are clamped to this: squares stay below 2^45, and the sum of 256 of
/// them below 2^53.
pub const INTEGER_LIMIT: f64 = (1 << 22) as f64;

/// Writes the integer row `trunc(scale v)`, with each coordinate clamped to ±[`INTEGER_LIMIT`] and
/// NaN mapped to zero. Exact: the same integers on every processor and as in
/// [`GramAccumulator::add_gathered_integers_with_rhs`].
///
/// # Errors
/// [`Shape`](Error::Shape) if the lengths differ.
///
/// # Examples
/// ```
/// let mut row = [0.0; 3];
/// dp_linalg::integer_row(&[1.5, -0.4, f32::NAN], 2.0, &mut row)?;
/// assert_eq!(row, [3.0, 0.0, 0.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn integer_row(factor: &[f32], scale: f32, out: &mut [f64]) -> Result<()> {
    check_len("out", out.len(), factor.len())?;
    for (x, &v) in out.iter_mut().zip(factor) {
        *x = (f64::from(scale) * f64::from(v)).truncate_within(INTEGER_LIMIT);
    }
    Ok(())
}

/// Writes the squared norm of [`integer_row`] for every scale; exact for up to 256 coordinates.
///
/// # Errors
/// [`Shape`](Error::Shape) if `out` does not have one element for each scale.
pub fn integer_squared_norms(factor: &[f32], scales: &[f32], out: &mut [f64]) -> Result<()> {
    check_len("out", out.len(), scales.len())?;
    let norms = SquaredNorms::new(factor, scales, INTEGER_LIMIT, out);
    f64::run(InstructionSet::detect(), norms);
    Ok(())
}

/// Adds `sum_r c_r factors_(index_r)` to `out` in double precision. Exact if factors and
/// coefficients are integers and all partial sums are below 2^53.
///
/// # Arguments
/// * `factors` - shape `(m, dim)`, row-major, `dim` the length of `out`
/// * `indices`, `coefficients` - row and factor of each term
///
/// # Errors
/// [`Shape`](Error::Shape) if `factors` is not a whole number of rows or the other lengths differ;
/// [`IndexOutOfRange`](Error::IndexOutOfRange) if an index is not below m. The sum is then
/// unchanged.
///
/// # Examples
/// ```
/// let mut sum = [0.0; 2];
/// dp_linalg::add_gathered_rows(&[1.0, 2.0, 30.0, 40.0], &[1, 0, 1], &[1.0, -1.0, 2.0], &mut sum)?;
/// assert_eq!(sum, [89.0, 118.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn add_gathered_rows(
    factors: &[f32],
    indices: &[u32],
    coefficients: &[f64],
    out: &mut [f64],
) -> Result<()> {
    at_least_one("dim", out.len())?;
    let n_rows = factors.len() / out.len();
    check_len("factors", factors.len(), n_rows * out.len())?;
    check_len("coefficients", coefficients.len(), indices.len())?;
    let last = indices.iter().copied().max();
    if last.is_some_and(|index| index as usize >= n_rows) {
        return Err(Error::IndexOutOfRange { n_rows });
    }
    sum_rows(
        InstructionSet::detect(),
        factors,
        indices,
        coefficients,
        out,
    );
    Ok(())
}

fn sum_rows(
    isa: InstructionSet,
    factors: &[f32],
    indices: &[u32],
    coefficients: &[f64],
    out: &mut [f64],
) {
    for start in (0..indices.len()).step_by(GATHER_ROWS) {
        let end = indices.len().min(start + GATHER_ROWS);
        let next = indices.len().min(end + GATHER_ROWS);
        let prefetch = Prefetch::new(factors, &indices[end..next], out.len());
        let (chosen, own) = (&indices[start..end], &coefficients[start..end]);
        f64::run(isa, GatheredSum::new(factors, chosen, own, prefetch, out));
    }
}

impl GramAccumulator<f64> {
    /// Adds `sum_r x_r x_r^T` and `sum_r y_r x_r` over the integer rows
    /// `x_r = trunc(scale_r factors_(index_r))` of [`integer_row`].
    ///
    /// # Arguments
    /// * `factors` - shape `(m, dim)`, row-major
    /// * `indices`, `scales`, `labels` - row, scale and y of each term; integers for exact sums
    ///
    /// # Errors
    /// [`Shape`](Error::Shape) if `factors` is not a whole number of rows or the other lengths
    /// differ; [`IndexOutOfRange`](Error::IndexOutOfRange) if an index is not below m. The sums are
    /// then unchanged.
    pub fn add_gathered_integers_with_rhs(
        &mut self,
        factors: &[f32],
        indices: &[u32],
        scales: &[f32],
        labels: &[f64],
    ) -> Result<()> {
        let n_rows = factors.len() / self.dim;
        check_len("factors", factors.len(), n_rows * self.dim)?;
        check_len("scales", scales.len(), indices.len())?;
        check_len("labels", labels.len(), indices.len())?;
        let last = indices.iter().copied().max();
        if last.is_some_and(|index| index as usize >= n_rows) {
            return Err(Error::IndexOutOfRange { n_rows });
        }
        self.sweep_integers(factors, indices, scales, labels);
        Ok(())
    }

    fn sweep_integers(&mut self, factors: &[f32], indices: &[u32], scales: &[f32], labels: &[f64]) {
        let (dim, width) = (self.dim, self.width);
        for start in (0..indices.len()).step_by(GATHER_ROWS) {
            let end = indices.len().min(start + GATHER_ROWS);
            let next = indices.len().min(end + GATHER_ROWS);
            let shape = (dim, width);
            let (chosen, scales) = (&indices[start..end], &scales[start..end]);
            let rows = &mut self.rows;
            let gather = GatherIntegers::new(factors, chosen, scales, shape, INTEGER_LIMIT, rows);
            f64::run(self.isa, gather);
            let rows = Rows::new(&self.rows, width, end - start, width);
            let block = Block {
                left: rows,
                right: rows,
                labels: Some(&labels[start..end]),
                prefetch: Prefetch::new(factors, &indices[end..next], dim),
            };
            block.add_to(self.isa, dim, (&mut self.gram, &mut []), &mut self.rhs);
        }
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
    use crate::packed_len;

    /// Ordinary and extreme numbers alternately.
    fn factor(n: usize) -> Vec<f32> {
        let odd = [
            f32::NAN,
            f32::INFINITY,
            -f32::MAX,
            1e-45,
            -0.0,
            4.2e6,
            -4.2e6,
        ];
        (0..n)
            .map(|i| match i % 11 {
                5 => odd[i / 11 % odd.len()],
                k => (k as f32 - 5.3) * 1.37,
            })
            .collect()
    }

    /// The definition, computed with integers.
    fn expected(scale: f32, v: f32) -> i64 {
        let product = f64::from(scale) * f64::from(v);
        if product.is_nan() {
            return 0;
        }
        if product.abs() > INTEGER_LIMIT {
            return if product > 0.0 { 1 << 22 } else { -(1 << 22) };
        }
        product as i64
    }

    const SCALES: [f32; 7] = [0.0, 1.0, 0.3, 1234.5, -2.0, f32::INFINITY, f32::NAN];

    #[test]
    fn every_instruction_set_makes_the_same_integers_and_norms() {
        for dim in [1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 64] {
            let v = factor(dim * SCALES.len());
            let indices: Vec<u32> = (0..SCALES.len() as u32).collect();
            let rows = v.chunks_exact(dim);
            let mut sums = vec![0_i64; dim];
            for (row, &scale) in rows.clone().zip(&SCALES) {
                let mut integers = vec![0.0; dim];
                integer_row(row, scale, &mut integers).unwrap();
                for ((x, &v), sum) in integers.iter().zip(row).zip(&mut sums) {
                    assert_eq!(*x as i64, expected(scale, v));
                    *sum += expected(scale, v);
                }
            }
            for isa in InstructionSet::available() {
                let mut gram = GramAccumulator::<f64>::with_instructions(dim, isa).unwrap();
                gram.add_gathered_integers_with_rhs(&v, &indices, &SCALES, &[1.0; 7])
                    .unwrap();
                let rhs: Vec<i64> = gram.rhs().iter().map(|&b| b as i64).collect();
                assert_eq!(rhs, sums, "{isa:?}, dim {dim}");
                let mut packed = vec![0.0; packed_len(dim)];
                gram.write_packed(&mut packed).unwrap();
                let corner: i64 = rows
                    .clone()
                    .zip(&SCALES)
                    .map(|(row, &s)| expected(s, row[0]).pow(2))
                    .sum();
                assert_eq!(packed[0] as i64, corner);
                let mut norms = [0.0; 7];
                let row = &v[..dim];
                f64::run(
                    isa,
                    SquaredNorms::new(row, &SCALES, INTEGER_LIMIT, &mut norms),
                );
                for (&norm, &scale) in norms.iter().zip(&SCALES) {
                    let exact: i64 = row.iter().map(|&v| expected(scale, v).pow(2)).sum();
                    assert_eq!(norm as i64, exact);
                }
            }
        }
    }

    #[test]
    fn gathered_rows_are_summed_on_every_instruction_set() {
        for dim in [1, 2, 3, 7, 8, 9, 16, 17, 31, 40, 64, 65, 129, 256] {
            let n_rows = 70;
            let factors: Vec<f32> = (0..dim * n_rows)
                .map(|i| (i * 7919 % 4001) as f32 - 2000.0)
                .collect();
            let indices: Vec<u32> = (0..n_rows as u32).map(|r| r * 31 % 70).collect();
            let coefficients: Vec<f64> = (0..n_rows).map(|r| (r * 13 % 29) as f64 - 14.0).collect();
            let expected = |k: usize| -> f64 {
                let terms = indices.iter().zip(&coefficients);
                5.0 + terms
                    .map(|(&i, c)| c * f64::from(factors[i as usize * dim + k]))
                    .sum::<f64>()
            };
            for isa in InstructionSet::available() {
                let mut out = vec![5.0; dim];
                sum_rows(isa, &factors, &indices, &coefficients, &mut out);
                for (k, &sum) in out.iter().enumerate() {
                    assert_eq!(sum, expected(k), "{isa:?}, dim {dim}");
                }
            }
        }
        let mut out = [0.0; 2];
        assert!(add_gathered_rows(&[1.0; 3], &[0], &[1.0], &mut out).is_err());
        assert!(add_gathered_rows(&[1.0; 4], &[2], &[1.0], &mut out).is_err());
        assert!(add_gathered_rows(&[1.0; 4], &[1], &[], &mut out).is_err());
        assert!(add_gathered_rows(&[1.0; 4], &[1], &[1.0], &mut []).is_err());
        assert_eq!(out, [0.0; 2]);
    }

    #[test]
    fn the_largest_norms_are_exact() {
        let v = [f32::MAX; 256];
        let mut norm = [0.0];
        integer_squared_norms(&v, &[1.0], &mut norm).unwrap();
        assert_eq!(norm[0] as i64, 256 << 44);
    }

    #[test]
    fn lengths_and_indices_are_checked() {
        let mut gram = GramAccumulator::<f64>::new(2).unwrap();
        let mut add = |f: &[f32], i: &[u32], s: &[f32], y: &[f64]| {
            gram.add_gathered_integers_with_rhs(f, i, s, y).is_err()
        };
        assert!(add(&[1.0; 3], &[0], &[1.0], &[1.0]));
        assert!(add(&[1.0; 4], &[2], &[1.0], &[1.0]));
        assert!(add(&[1.0; 4], &[1], &[], &[1.0]));
        assert!(add(&[1.0; 4], &[1], &[1.0], &[]));
        assert!(!add(&[1.0; 4], &[1], &[1.0], &[1.0]));
        assert_eq!(gram.rhs(), [1.0, 1.0]);
    }
}
