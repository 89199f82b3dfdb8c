//! Products with a few single-precision rows at arbitrary positions in a slice, such as one user's
//! features.

use dp_core::params::{at_least_one, in_range};

use crate::Result;
use crate::error::check_len;
use crate::kernels::{
    InstructionSet, Kernel, PairProducts, RowProducts, RowScores, RowSum, Rows, RowsTimes,
    ScaledCopy, Widen, fetch_lines,
};
use crate::packed::packed_len;

/// `n_rows` rows of length `dim` that start `stride` elements apart in `data`.
#[derive(Clone, Copy)]
pub struct StridedRows<'a> {
    /// The slice that contains them.
    pub data: &'a [f32],
    /// Distance from the start of one row to the start of the next, at least `dim`.
    pub stride: usize,
    /// Number of rows.
    pub n_rows: usize,
    /// Number of elements per row.
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

/// Prefetches numbers that will be read soon, such as those of the next user while the current user
/// is processed. This affects only speed. Beyond 8 KB nothing is prefetched: the first-level cache
/// has other uses, and such long arrays are seldom read completely at once.
pub fn prefetch(numbers: &[f32]) {
    if size_of_val(numbers) <= MOST_AHEAD {
        fetch_lines(numbers);
    }
}

/// Maximum number of bytes that are prefetched.
const MOST_AHEAD: usize = 8 * 1024;

/// Writes for each row its inner products with `columns` and then its squared norm, in single precision.
///
/// # Arguments
/// * `columns` - any number of columns, each of length `dim`, one after the other
/// * `out` - resized to `(n_rows, n_columns + 1)`
///
/// # Errors
/// [`Param`](crate::Error::Param) if `dim` is 0 or rows overlap; [`Shape`](crate::Error::Shape) if
/// the rows extend beyond the data or `columns` is not a whole number of columns.
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

/// Writes the inner product of each row with `vector`, in single precision, into `out`, which has
/// one element per row.
///
/// # Errors
/// As [`row_products`]; [`Shape`](crate::Error::Shape) if a length does not match.
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
/// As [`row_products`]; [`Shape`](crate::Error::Shape) if a length does not match.
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

/// Writes the outer product `scales x^T` in double precision: one row of the length of `x` for each
/// scale.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) if `out` has another size.
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

/// Rows of one length in double precision, in memory that is reused for successive sets of rows.
///
/// # Examples
/// ```
/// use dp_linalg::{StridedRows, WideRows};
/// let mut rows = WideRows::new(2)?;
/// rows.load(StridedRows { data: &[1.0, 2.0, 3.0, 4.0], stride: 2, n_rows: 2, dim: 2 })?;
/// let mut products = Vec::new();
/// rows.inner_products(&mut products);
/// assert_eq!(products, [5.0, 11.0, 25.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
#[derive(Clone)]
pub struct WideRows {
    isa: InstructionSet,
    dim: usize,
    width: usize,
    n_rows: usize,
    /// Rows padded to `width`.
    data: Vec<f64>,
}

/// Prints the shape only: the rows may be private.
impl std::fmt::Debug for WideRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("WideRows");
        out.field("n_rows", &self.n_rows).field("dim", &self.dim);
        out.finish_non_exhaustive()
    }
}

impl WideRows {
    /// Creates an empty set of rows of length `dim`.
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
            width: dim.next_multiple_of(f64::width(isa)),
            n_rows: 0,
            data: Vec::new(),
        })
    }

    /// Loads other rows.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if they have another length or extend beyond their data.
    pub fn load(&mut self, rows: StridedRows<'_>) -> Result<()> {
        check_len("rows", rows.dim, self.dim)?;
        let checked = rows.check()?;
        self.resize(rows.n_rows);
        f64::run(self.isa, Widen::new(checked, self.width, &mut self.data));
        Ok(())
    }

    fn resize(&mut self, n_rows: usize) {
        self.n_rows = n_rows;
        self.data.resize(n_rows * self.width, 0.0);
    }

    /// The rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        let rows = self.data.chunks_exact(self.width);
        rows.map(|row| &row[..self.dim])
    }

    fn rows(&self) -> Rows<'_, f64> {
        Rows::new(&self.data, self.width, self.n_rows, self.width)
    }

    /// Loads the rows of `other`, each multiplied by the matrix: `x` becomes `x^T matrix`.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if lengths differ.
    pub fn load_product(&mut self, other: &Self, matrix: &PaddedMatrix) -> Result<()> {
        check_len("rows", other.dim, self.dim)?;
        check_len("matrix", matrix.dim, self.dim)?;
        self.resize(other.n_rows);
        let rows = Rows::new(&other.data, other.width, other.n_rows, other.dim);
        let product = RowsTimes::new(rows, &matrix.data, self.width, &mut self.data);
        f64::run(self.isa, product);
        Ok(())
    }

    /// Writes the inner products of all pairs of rows: the upper triangle of the rows' Gram matrix,
    /// row by row. `out` is resized accordingly.
    pub fn inner_products(&self, out: &mut Vec<f64>) {
        pair_products(self.isa, self.rows(), out);
    }

    /// Writes `sum_r c_r row_r`.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) unless there is one coefficient for each row and `out` is as long as a row.
    pub fn weighted_sum(&self, coefficients: &[f64], out: &mut [f64]) -> Result<()> {
        check_len("coefficients", coefficients.len(), self.n_rows)?;
        check_len("out", out.len(), self.dim)?;
        let rows = Rows::new(&self.data, self.width, self.n_rows, self.dim);
        f64::run(self.isa, RowSum::new(rows, coefficients, out));
        Ok(())
    }
}

pub(crate) fn pair_products(isa: InstructionSet, rows: Rows<'_, f64>, out: &mut Vec<f64>) {
    out.resize(packed_len(rows.count()), 0.0);
    f64::run(isa, PairProducts::new(rows, out));
}

/// A square matrix laid out for [`WideRows::load_product`].
#[derive(Debug, Clone)]
pub struct PaddedMatrix {
    dim: usize,
    /// Rows padded to whole vectors.
    data: Vec<f64>,
}

impl PaddedMatrix {
    /// The matrix `(dim, dim)`, row-major.
    ///
    /// # Errors
    /// [`Param`](crate::Error::Param) if `dim` is 0; [`Shape`](crate::Error::Shape) if the matrix
    /// has another size.
    pub fn new(matrix: &[f64], dim: usize) -> Result<Self> {
        Self::with_instructions(matrix, dim, InstructionSet::detect())
    }

    fn with_instructions(matrix: &[f64], dim: usize, isa: InstructionSet) -> Result<Self> {
        at_least_one("dim", dim)?;
        check_len("matrix", matrix.len(), dim * dim)?;
        let width = dim.next_multiple_of(f64::width(isa));
        let mut data = vec![0.0; dim * width];
        for (out, row) in data.chunks_exact_mut(width).zip(matrix.chunks_exact(dim)) {
            out[..dim].copy_from_slice(row);
        }
        Ok(Self { dim, data })
    }
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

    /// Rows with a number after each that must not be read.
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

    fn exact_product<'a>(a: impl IntoIterator<Item = &'a f64>, b: &[f64]) -> f64 {
        a.into_iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-13 * (1.0 + expected.abs())
    }

    #[test]
    fn every_instruction_set_gives_the_numbers_of_the_definition() -> Result<()> {
        for (dim, n_rows) in [
            (1, 1),
            (3, 2),
            (7, 1),
            (8, 5),
            (17, 4),
            (33, 9),
            (50, 10),
            (70, 11),
        ] {
            let mut numbers = Numbers::new(3);
            let mut data: Vec<f32> = Vec::new();
            for _ in 0..n_rows {
                data.extend(numbers.reals(dim).into_iter().map(|x| x as f32));
                data.push(f32::NAN); // must not be read
            }
            let (matrix, coefficients) = (numbers.reals(dim * dim), numbers.reals(n_rows));
            for isa in InstructionSet::available() {
                let mut rows = WideRows::with_instructions(dim, isa)?;
                let mut moved = rows.clone();
                let stride = dim + 1;
                rows.load(StridedRows {
                    data: &data,
                    stride,
                    n_rows,
                    dim,
                })?;
                for (row, given) in rows.iter().zip(data.chunks_exact(stride)) {
                    assert!(
                        row.iter()
                            .zip(given)
                            .all(|(a, b)| a.to_bits() == f64::from(*b).to_bits())
                    );
                }
                let padded = PaddedMatrix::with_instructions(&matrix, dim, isa)?;
                moved.load_product(&rows, &padded)?;
                for (row, found) in rows.iter().zip(moved.iter()) {
                    for (a, &found) in found.iter().enumerate() {
                        let column = matrix.iter().skip(a).step_by(dim);
                        assert!(near(found, exact_product(column, row)), "{isa:?} {dim}");
                    }
                }
                let (mut pairs, mut sum) = (Vec::new(), vec![f64::NAN; dim]);
                moved.inner_products(&mut pairs);
                let mut found = pairs.iter();
                for (r, row) in moved.iter().enumerate() {
                    for other in moved.iter().skip(r) {
                        assert!(
                            near(*found.next().unwrap(), exact_product(row, other)),
                            "{isa:?}"
                        );
                    }
                }
                rows.weighted_sum(&coefficients, &mut sum)?;
                for (a, &found) in sum.iter().enumerate() {
                    let column: Vec<f64> = rows.iter().map(|row| row[a]).collect();
                    assert!(
                        near(found, exact_product(&column, &coefficients)),
                        "{isa:?}"
                    );
                }
            }
        }
        Ok(())
    }

    #[test]
    fn shapes_are_checked_and_fewer_rows_leave_nothing_behind() {
        let of = |data, n_rows, dim| StridedRows {
            data,
            stride: dim,
            n_rows,
            dim,
        };
        let mut rows = WideRows::new(2).unwrap();
        assert!(WideRows::new(0).is_err() && PaddedMatrix::new(&[], 0).is_err());
        assert!(rows.load(of(&[1.0; 6], 2, 3)).is_err());
        assert!(rows.load(of(&[1.0; 3], 2, 2)).is_err());
        rows.load(of(&[9.0; 6], 3, 2)).unwrap();
        rows.load(of(&[2.0; 2], 1, 2)).unwrap();
        let mut pairs = vec![7.0; 4];
        rows.inner_products(&mut pairs);
        assert!(pairs.len() == 1 && near(pairs[0], 8.0));
        assert!(rows.weighted_sum(&[1.0; 2], &mut [0.0; 2]).is_err());
        assert!(rows.weighted_sum(&[1.0], &mut [0.0; 3]).is_err());
        assert!(PaddedMatrix::new(&[1.0; 5], 2).is_err());
        let matrix = PaddedMatrix::new(&[1.0; 9], 3).unwrap();
        let other = rows.clone();
        assert!(rows.load_product(&other, &matrix).is_err());
    }
}
