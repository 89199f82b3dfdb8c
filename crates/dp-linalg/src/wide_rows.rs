//! A few rows in double precision: their inner products, sums and products with a matrix.

use dp_core::params::at_least_one;

use crate::error::check_len;
use crate::kernels::{InstructionSet, Kernel, PairProducts, RowSum, Rows, RowsTimes, Widen};
use crate::packed::packed_len;
use crate::{Result, StridedRows};

/// Rows of one length in double precision, in memory that serves one set of rows after the other.
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
            width: dim.next_multiple_of(f64::width(isa)),
            n_rows: 0,
            data: Vec::new(),
        })
    }

    /// Reads other rows.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when they have another length or end behind their data.
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

    /// Reads the rows of `other`, each times the matrix: `x` becomes `x^T matrix`.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when lengths differ.
    pub fn load_product(&mut self, other: &Self, matrix: &PaddedMatrix) -> Result<()> {
        check_len("rows", other.dim, self.dim)?;
        check_len("matrix", matrix.dim, self.dim)?;
        self.resize(other.n_rows);
        let rows = Rows::new(&other.data, other.width, other.n_rows, other.dim);
        let product = RowsTimes::new(rows, &matrix.data, self.width, &mut self.data);
        f64::run(self.isa, product);
        Ok(())
    }

    /// Writes the inner products of all pairs of rows, the upper triangle of the rows' Gramian, row by row; makes `out` as long as
    /// that.
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
    /// [`Param`](crate::Error::Param) when `dim` is 0; [`Shape`](crate::Error::Shape) when the matrix has another size.
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

    fn product<'a>(a: impl IntoIterator<Item = &'a f64>, b: &[f64]) -> f64 {
        a.into_iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn close(found: f64, expected: f64) -> bool {
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
                data.push(f32::NAN); // must not be touched
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
                        assert!(close(found, product(column, row)), "{isa:?} {dim}");
                    }
                }
                let (mut pairs, mut sum) = (Vec::new(), vec![f64::NAN; dim]);
                moved.inner_products(&mut pairs);
                let mut found = pairs.iter();
                for (r, row) in moved.iter().enumerate() {
                    for other in moved.iter().skip(r) {
                        assert!(
                            close(*found.next().unwrap(), product(row, other)),
                            "{isa:?}"
                        );
                    }
                }
                rows.weighted_sum(&coefficients, &mut sum)?;
                for (a, &found) in sum.iter().enumerate() {
                    let column: Vec<f64> = rows.iter().map(|row| row[a]).collect();
                    assert!(close(found, product(&column, &coefficients)), "{isa:?}");
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
        assert!(pairs.len() == 1 && close(pairs[0], 8.0));
        assert!(rows.weighted_sum(&[1.0; 2], &mut [0.0; 2]).is_err());
        assert!(rows.weighted_sum(&[1.0], &mut [0.0; 3]).is_err());
        assert!(PaddedMatrix::new(&[1.0; 5], 2).is_err());
        let matrix = PaddedMatrix::new(&[1.0; 9], 3).unwrap();
        let other = rows.clone();
        assert!(rows.load_product(&other, &matrix).is_err());
    }
}
