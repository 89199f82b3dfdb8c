use crate::Result;
use crate::psd::{PsdScratch, check_symmetric};

/// Eigenvalues and eigenvectors of a symmetric matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct SymmetricEigen {
    /// Eigenvalues in increasing order.
    pub values: Vec<f64>,
    /// Orthonormal eigenvectors in the same order, one after the other: shape `(dim, dim)`, with
    /// one vector per row.
    pub vectors: Vec<f64>,
}

/// The eigendecomposition `A = sum_i values[i] vectors[i] vectors[i]^T`.
///
/// # Arguments
/// `a` - symmetric, row-major, shape `(dim, dim)`; the diagonal and the triangle above it are read.
///
/// # Errors
/// [`Param`](crate::Error::Param) unless `dim` is from 1 to 1024; [`Shape`](crate::Error::Shape) if
/// `a` does not have `dim * dim` entries; [`NotFinite`](crate::Error::NotFinite) for NaN or
/// infinities in the triangle; [`NotConverged`](crate::Error::NotConverged) if the iteration fails.
///
/// # Examples
/// ```
/// let eigen = dp_linalg::symmetric_eigen(&[1.0, 2.0, 2.0, 1.0], 2)?;
/// assert!((eigen.values[0] + 1.0).abs() < 1e-12 && (eigen.values[1] - 3.0).abs() < 1e-12);
/// assert!((eigen.vectors[2] - eigen.vectors[3]).abs() < 1e-12);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn symmetric_eigen(a: &[f64], dim: usize) -> Result<SymmetricEigen> {
    let mut scratch = PsdScratch::new(dim)?;
    check_symmetric(a, dim)?;
    scratch.decompose(a)?;
    let (values, vectors) = scratch.into_parts();
    Ok(SymmetricEigen { values, vectors })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_numbers::Numbers;

    #[test]
    fn vectors_and_values_multiply_back() {
        let dim = 9;
        let mut a = Numbers::new(5).reals(dim * dim);
        crate::packed::mirror_upper(&mut a, dim);
        let eigen = symmetric_eigen(&a, dim).unwrap();
        assert!(eigen.values.is_sorted());
        for row in 0..dim {
            for column in 0..dim {
                let vectors = eigen.vectors.chunks_exact(dim).zip(&eigen.values);
                let found: f64 = vectors.map(|(v, l)| l * v[row] * v[column]).sum();
                assert!((found - a[row * dim + column]).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn bad_matrices_are_refused() {
        assert!(symmetric_eigen(&[], 0).is_err() && symmetric_eigen(&[1.0; 3], 2).is_err());
        assert!(symmetric_eigen(&[1.0, f64::NAN, 0.0, 1.0], 2).is_err());
    }
}
