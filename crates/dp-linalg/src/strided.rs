//! Products with a few rows of single precision that lie anywhere in a slice: one user's features.

use dp_core::params::{at_least_one, in_range};

use crate::Result;
use crate::error::check_len;
use crate::kernels::{
    InstructionSet, Kernel, RowProducts, RowScores, RowSum, Rows, ScaledCopy, fetch_lines,
};

/// `n_rows` rows of length `dim` that start `stride` elements apart in `data`.
#[derive(Clone, Copy)]
pub struct StridedRows<'a> {
    /// Where they are.
    pub data: &'a [f32],
    /// From the start of one row to the start of the next, `dim` at least.
    pub stride: usize,
    /// How many.
    pub n_rows: usize,
    /// Elements of a row.
    pub dim: usize,
}

/// Prints the shape only: the rows may be private.
impl std::fmt::Debug for StridedRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("StridedRows");
        out.field("n_rows", &self.n_rows).field("dim", &self.dim);
        out.finish_non_exhaustive()
    }
}

impl<'a> StridedRows<'a> {
    pub(crate) fn check(self) -> Result<Rows<'a, f32>> {
        at_least_one("dim", self.dim)?;
        if let Some(last) = self.n_rows.checked_sub(1) {
            let expected = "the length of a row or more";
            in_range("stride", self.stride, self.dim, usize::MAX, expected)?;
            let end = last.saturating_mul(self.stride).saturating_add(self.dim);
            if end > self.data.len() {
                check_len("data", self.data.len(), end)?;
            }
        }
        Ok(Rows::new(self.data, self.stride, self.n_rows, self.dim))
    }
}

/// Starts to fetch numbers from memory that are read soon: the next user's, while one user's are worked on. Changes nothing but the time
/// that reading them takes. Beyond 8 KB nothing is fetched: the first-level cache has other work, and who holds so much seldom reads all of it at once.
pub fn fetch_ahead(numbers: &[f32]) {
    if size_of_val(numbers) <= MOST_AHEAD {
        fetch_lines(numbers);
    }
}

/// Bytes that are fetched ahead at most.
const MOST_AHEAD: usize = 8 * 1024;

/// Writes for each row its inner products with `columns` and then its squared norm, in single precision.
///
/// # Arguments
/// * `columns` - any number of them, each of length `dim`, one after the other
/// * `out` - made to hold `(n_rows, n_columns + 1)`
///
/// # Errors
/// [`Param`](crate::Error::Param) when `dim` is 0 or rows overlap; [`Shape`](crate::Error::Shape) when the rows end behind the data or `columns` is not a whole
/// number of them.
///
/// # Examples
/// ```
/// use dp_linalg::StridedRows;
/// let rows = StridedRows { data: &[1.0, 2.0, 9.0, 3.0, 4.0, 9.0], stride: 3, n_rows: 2, dim: 2 };
/// let mut out = Vec::new();
/// dp_linalg::row_products(rows, &[1.0, -1.0], &mut out)?;
/// assert_eq!(out, [-1.0, 5.0, -1.0, 25.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn row_products(rows: StridedRows<'_>, columns: &[f32], out: &mut Vec<f32>) -> Result<()> {
    let checked = rows.check()?;
    let n_columns = columns.len() / rows.dim;
    check_len("columns", columns.len(), n_columns * rows.dim)?;
    out.resize(rows.n_rows.saturating_mul(n_columns + 1), 0.0);
    let products = RowProducts::new(checked, columns, out);
    f32::run(InstructionSet::detect(), products);
    Ok(())
}

/// Writes the inner product of each row with `vector`, in single precision, into `out` of one number for each row.
///
/// # Errors
/// As [`row_products`]; [`Shape`](crate::Error::Shape) when a length does not fit.
///
/// # Examples
/// ```
/// use dp_linalg::StridedRows;
/// let rows = StridedRows { data: &[1.0, 2.0, 9.0, 3.0, 4.0, 9.0], stride: 3, n_rows: 2, dim: 2 };
/// let mut out = [0.0; 2];
/// dp_linalg::row_scores(rows, &[1.0, -1.0], &mut out)?;
/// assert_eq!(out, [-1.0, -1.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn row_scores(rows: StridedRows<'_>, vector: &[f32], out: &mut [f32]) -> Result<()> {
    let checked = rows.check()?;
    check_len("vector", vector.len(), rows.dim)?;
    check_len("out", out.len(), rows.n_rows)?;
    let scores = RowScores::new(checked, vector, out);
    f32::run(InstructionSet::detect(), scores);
    Ok(())
}

/// Writes `sum_r c_r row_r`, in single precision, into `out` of length `dim`.
///
/// # Errors
/// As [`row_products`]; [`Shape`](crate::Error::Shape) when a length does not fit.
pub fn weighted_row_sum(
    rows: StridedRows<'_>,
    coefficients: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let checked = rows.check()?;
    check_len("coefficients", coefficients.len(), rows.n_rows)?;
    check_len("out", out.len(), rows.dim)?;
    let sum = RowSum::new(checked, coefficients, out);
    f32::run(InstructionSet::detect(), sum);
    Ok(())
}

/// Writes the outer product `scales x^T` in double precision: one row of the length of `x` for each scale.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) when `out` has another size.
///
/// # Examples
/// ```
/// let mut out = [0.0; 4];
/// dp_linalg::write_outer_product(&[2.0, -1.0], &[1.0, 3.0], &mut out)?;
/// assert_eq!(out, [2.0, 6.0, -1.0, -3.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn write_outer_product(scales: &[f64], x: &[f32], out: &mut [f64]) -> Result<()> {
    check_len("out", out.len(), scales.len() * x.len())?;
    let isa = InstructionSet::detect();
    for (&scale, row) in scales.iter().zip(out.chunks_exact_mut(x.len().max(1))) {
        f64::run(isa, ScaledCopy::new(x, scale, row));
    }
    Ok(())
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "numbers of the test fit single precision"
)]
mod tests {
    use super::*;
    use crate::test_numbers::Numbers;

    const SHAPES: [(usize, usize, usize); 8] = [
        (1, 1, 1),
        (3, 2, 0),
        (7, 1, 4),
        (16, 5, 2),
        (17, 4, 1),
        (33, 9, 3),
        (50, 10, 2),
        (70, 11, 5),
    ];

    fn numbers(n: usize, seed: u64) -> Vec<f32> {
        let reals: Vec<f64> = Numbers::new(seed).reals(n);
        reals.into_iter().map(|x| x as f32).collect()
    }

    /// Rows with a number behind each that must not be touched.
    fn rows(dim: usize, n_rows: usize) -> Vec<f32> {
        let mut data = numbers(n_rows * (dim + 1), 3);
        data.chunks_exact_mut(dim + 1)
            .for_each(|row| row[dim] = f32::NAN);
        data
    }

    fn view(data: &[f32], dim: usize, n_rows: usize) -> StridedRows<'_> {
        StridedRows {
            data,
            stride: dim + 1,
            n_rows,
            dim,
        }
    }

    fn product<'a>(a: &'a [f32], b: impl IntoIterator<Item = &'a f32>) -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    }

    fn close(found: impl Into<f64>, expected: f64, error: f64) -> bool {
        (found.into() - expected).abs() <= error * (1.0 + expected.abs())
    }

    #[test]
    fn every_instruction_set_gives_the_products_of_the_definition() -> Result<()> {
        for (dim, n_rows, n_columns) in SHAPES {
            let (data, columns) = (rows(dim, n_rows), numbers(dim * n_columns, 4));
            let view = view(&data, dim, n_rows);
            let row = |r: usize| &data[r * (dim + 1)..][..dim];
            for isa in InstructionSet::available() {
                let mut out = vec![0.0; n_rows * (n_columns + 1)];
                let products = RowProducts::new(view.check()?, &columns, &mut out);
                f32::run(isa, products);
                for (r, found) in out.chunks_exact(n_columns + 1).enumerate() {
                    for (k, column) in columns.chunks_exact(dim).enumerate() {
                        assert!(close(found[k], product(row(r), column), 1e-5), "{isa:?}");
                    }
                    let square = product(row(r), row(r));
                    assert!(close(found[n_columns], square, 1e-5), "{isa:?}");
                }
                let vector = numbers(dim, 6);
                let mut scores = vec![f32::NAN; n_rows];
                f32::run(isa, RowScores::new(view.check()?, &vector, &mut scores));
                for (r, found) in scores.iter().enumerate() {
                    assert!(close(*found, product(row(r), &vector), 1e-5), "{isa:?}");
                }
                let coefficients = numbers(n_rows, 5);
                let mut sum = vec![f32::NAN; dim];
                f32::run(isa, RowSum::new(view.check()?, &coefficients, &mut sum));
                for (a, found) in sum.iter().enumerate() {
                    let entries = data.iter().skip(a).step_by(dim + 1);
                    let expected = product(&coefficients, entries);
                    assert!(close(*found, expected, 1e-5), "{isa:?} {dim}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn shapes_are_checked() {
        let data = [1.0; 8];
        let of = |stride, n_rows, dim| StridedRows {
            data: &data,
            stride,
            n_rows,
            dim,
        };
        let mut out = Vec::new();
        for (rows, fine) in [
            (of(4, 2, 4), true),
            (of(5, 2, 3), true),
            (of(5, 2, 4), false),
            (of(4, 3, 1), false),
            (of(usize::MAX, 3, 1), false),
            (of(1, 0, 9), true),
            (of(1, 1, 0), false),
            (of(3, 2, 4), false),
            (of(0, 1, 1), false),
        ] {
            assert_eq!(row_products(rows, &[], &mut out).is_ok(), fine, "{rows:?}");
        }
        assert!(row_products(of(4, 2, 4), &[0.0; 5], &mut out).is_err());
        assert!(row_scores(of(4, 2, 4), &[0.0; 3], &mut [0.0; 2]).is_err());
        assert!(row_scores(of(4, 2, 4), &[0.0; 4], &mut [0.0; 1]).is_err());
        assert!(row_scores(of(5, 2, 4), &[0.0; 4], &mut [0.0; 2]).is_err());
        assert!(weighted_row_sum(of(4, 2, 4), &[1.0], &mut [0.0; 4]).is_err());
        assert!(weighted_row_sum(of(4, 2, 4), &[1.0; 2], &mut [0.0; 3]).is_err());
    }
}
