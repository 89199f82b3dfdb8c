use dp_core::params::{finite_positive, in_range};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::{MatMut, MatRef, Par};

use crate::error::check_len;
use crate::packed::mirror_upper;
use crate::{
    Error, GramAccumulator, Result, cholesky_in_place, cholesky_solve_in_place, score_rows,
};

/// 2^-100, the square of the unit round-off and a margin for the dimension.
pub(crate) const NEGLIGIBLE: f64 = f64::from_bits((1023 - 100) << 52);

/// Which computation gave the answer. It follows from the matrix alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PsdPath {
    /// The matrix has a Cholesky factor, so it is its own projection.
    Cholesky,
    /// The matrix went through its eigendecomposition.
    Eigen,
}

/// Work space for matrices of one dimension, to be used again and again.
pub struct PsdScratch {
    dim: usize,
    matrix: Vec<f64>,
    /// Eigenvectors, one after the other.
    vectors: Vec<f64>,
    /// Eigenvalues in increasing order.
    values: Vec<f64>,
    coordinates: Vec<f64>,
    workspace: MemBuffer,
}

impl std::fmt::Debug for PsdScratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("PsdScratch");
        out.field("dim", &self.dim).finish_non_exhaustive()
    }
}

impl PsdScratch {
    /// # Errors
    /// [`Param`](Error::Param) unless `dim` is from 1 to 1024.
    pub fn new(dim: usize) -> Result<Self> {
        in_range("dim", dim, 1, 1024, "a whole number from 1 to 1024")?;
        let layout = self_adjoint_evd_scratch::<f64>(
            dim,
            ComputeEigenvectors::Yes,
            Par::Seq,
            Default::default(),
        );
        Ok(Self {
            dim,
            matrix: vec![0.0; dim * dim],
            vectors: vec![0.0; dim * dim],
            values: vec![0.0; dim],
            coordinates: vec![0.0; dim],
            workspace: MemBuffer::new(layout),
        })
    }

    /// Dimension of the matrices.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Eigenvalues in increasing order and their vectors, one after the other, as [`decompose`](Self::decompose) left them.
    pub(crate) fn into_parts(self) -> (Vec<f64>, Vec<f64>) {
        (self.values, self.vectors)
    }

    /// Whether `a + ridge I` has a Cholesky factor, which is left in `self.matrix`.
    fn factors(&mut self, a: &[f64], ridge: f64) -> bool {
        self.matrix.copy_from_slice(a);
        for diagonal in self.matrix.iter_mut().step_by(self.dim + 1) {
            *diagonal += ridge;
        }
        cholesky_in_place(&mut self.matrix, self.dim).is_ok()
    }

    /// Eigenvalues and eigenvectors of the symmetric matrix with the upper triangle of `a`.
    ///
    /// The matrix is first divided by a power of two near its largest entry, and entries below
    /// [`NEGLIGIBLE`] of it become zero: a change far below the round-off of the decomposition.
    /// Otherwise squares inside the iteration overflow, or vanish and stall it.
    pub(crate) fn decompose(&mut self, a: &[f64]) -> Result<()> {
        let dim = self.dim;
        let scale = power_of_two_below(largest_magnitude(a, dim));
        for (to, from) in self.matrix.iter_mut().zip(a) {
            let x = from / scale;
            *to = if x.abs() < NEGLIGIBLE { 0.0 } else { x };
        }
        // The row-major upper triangle is the column-major lower one, which is what faer reads.
        self_adjoint_evd(
            MatRef::from_column_major_slice(&self.matrix, dim, dim),
            DiagMut::from_slice_mut(&mut self.values),
            Some(MatMut::from_column_major_slice_mut(
                &mut self.vectors,
                dim,
                dim,
            )),
            Par::Seq,
            MemStack::new(&mut self.workspace),
            Default::default(),
        )
        .map_err(|_| Error::NotConverged { dim })?;
        for value in &mut self.values {
            *value *= scale;
        }
        Ok(())
    }

    /// x = V diag(1 / (max(lambda, 0) + ridge)) V^T b, in place of b.
    fn solve_in_eigenbasis(&mut self, ridge: f64, rhs: &mut [f64]) -> Result<()> {
        score_rows(&self.vectors, rhs, &mut self.coordinates)?;
        rhs.fill(0.0);
        let vectors = self.vectors.chunks_exact(self.dim);
        for ((vector, &value), &coordinate) in vectors.zip(&self.values).zip(&self.coordinates) {
            let along = coordinate / (value.max(0.0) + ridge);
            for (x, v) in rhs.iter_mut().zip(vector) {
                *x += along * v;
            }
        }
        Ok(())
    }
}

/// Replaces a symmetric matrix by the nearest positive semidefinite one in Frobenius norm.
///
/// ```text
/// Π(A) = Σ_i max(λ_i, 0) v_i v_iᵀ,   A = Σ_i λ_i v_i v_iᵀ
/// ```
/// Source: [Higham 1988, Linear Algebra Appl. 103, Theorem 2.1].
///
/// # Arguments
/// `a` - row-major, shape `(dim, dim)`; the diagonal and the triangle above it are read, both
/// triangles are written.
///
/// # Returns
/// How the answer was found. The matrix is unchanged, apart from the mirrored triangle, when its
/// Cholesky factorisation succeeds.
///
/// # Errors
/// [`Param`](Error::Param) unless `dim` is from 1 to 1024; [`Shape`](Error::Shape) when `a` does
/// not have `dim * dim` entries; [`NotFinite`](Error::NotFinite) for NaN or infinities in the
/// triangle; [`NotConverged`](Error::NotConverged) when the eigenvalue iteration fails. `a` is
/// unchanged then.
///
/// # Numerics
/// The error is a small multiple of the unit round-off times the largest eigenvalue; eigenvalues
/// of the result may be negative by that much. O(dim³), allocates.
///
/// # Examples
/// ```
/// let mut a = [1.0, 2.0, 2.0, 1.0]; // eigenvalues 3 and -1
/// dp_linalg::project_psd_in_place(&mut a, 2)?;
/// assert!(a.iter().all(|x| (x - 1.5).abs() < 1e-12));
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn project_psd_in_place(a: &mut [f64], dim: usize) -> Result<PsdPath> {
    let mut scratch = PsdScratch::new(dim)?;
    check_symmetric(a, dim)?;
    if scratch.factors(a, 0.0) {
        mirror_upper(a, dim);
        return Ok(PsdPath::Cholesky);
    }
    scratch.decompose(a)?;
    let first = scratch.values.partition_point(|&value| value <= 0.0);
    let rows = &mut scratch.vectors[first * dim..];
    for (row, value) in rows.chunks_exact_mut(dim).zip(&scratch.values[first..]) {
        let root = value.sqrt();
        for x in row {
            *x *= root;
        }
    }
    let mut projection = GramAccumulator::new(dim)?;
    projection.add_rows(rows)?;
    projection.write_full(a)?;
    Ok(PsdPath::Eigen)
}

/// Solves `(Π(A) + ridge I) x = b` in place of b, Π the projection on the positive semidefinite
/// matrices (see [`project_psd_in_place`]).
///
/// ```text
/// x = V diag(1 / (max(λ, 0) + ridge)) Vᵀ b,   A = V diag(λ) Vᵀ
/// ```
/// Where A has a Cholesky factor, Π(A) is A and the eigendecomposition is skipped.
///
/// # Arguments
/// * `a` - symmetric, row-major, shape `(dim, dim)`; only the diagonal and the triangle above it
///   are read.
/// * `ridge` - a finite number above 0.
/// * `rhs` - b, length `dim`; overwritten by x.
/// * `scratch` - sets `dim`.
///
/// # Returns
/// How the answer was found.
///
/// # Errors
/// [`Param`](Error::Param) for a ridge out of range; [`Shape`](Error::Shape) when a length does
/// not fit; [`NotFinite`](Error::NotFinite) for NaN or infinities in the triangle or in b;
/// [`NotConverged`](Error::NotConverged) when the eigenvalue iteration fails. b is unchanged then.
///
/// # Numerics
/// Relative error about the unit round-off times (largest eigenvalue + ridge) / ridge. O(dim³),
/// no allocation.
///
/// # Examples
/// ```
/// use dp_linalg::{PsdPath, PsdScratch, psd_part_plus_ridge_solve};
///
/// let mut scratch = PsdScratch::new(2)?;
/// let mut x = [1.0, 1.0];
/// // diag(3, -1) projects to diag(3, 0)
/// let path = psd_part_plus_ridge_solve(&[3.0, 0.0, 0.0, -1.0], 0.5, &mut x, &mut scratch)?;
/// assert_eq!(path, PsdPath::Eigen);
/// assert!((x[0] - 1.0 / 3.5).abs() < 1e-12 && (x[1] - 2.0).abs() < 1e-12);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn psd_part_plus_ridge_solve(
    a: &[f64],
    ridge: f64,
    rhs: &mut [f64],
    scratch: &mut PsdScratch,
) -> Result<PsdPath> {
    finite_positive("ridge", ridge)?;
    check_symmetric(a, scratch.dim)?;
    check_len("rhs", rhs.len(), scratch.dim)?;
    check_finite("rhs", rhs)?;
    if scratch.factors(a, 0.0) && scratch.factors(a, ridge) {
        cholesky_solve_in_place(&scratch.matrix, scratch.dim, rhs)?;
        return Ok(PsdPath::Cholesky);
    }
    scratch.decompose(a)?;
    scratch.solve_in_eigenbasis(ridge, rhs)?;
    Ok(PsdPath::Eigen)
}

/// Length, and finite entries on and above the diagonal.
pub(crate) fn check_symmetric(a: &[f64], dim: usize) -> Result<()> {
    check_len("a", a.len(), dim * dim)?;
    for (row, entries) in a.chunks_exact(dim).enumerate() {
        check_finite("a", &entries[row..])?;
    }
    Ok(())
}

pub(crate) fn check_finite(name: &'static str, values: &[f64]) -> Result<()> {
    if values.iter().all(|value| value.is_finite()) {
        Ok(())
    } else {
        Err(Error::NotFinite { name })
    }
}

/// Largest magnitude on and above the diagonal.
pub(crate) fn largest_magnitude(a: &[f64], dim: usize) -> f64 {
    let rows = a.chunks_exact(dim).enumerate();
    let upper = rows.flat_map(|(row, entries)| &entries[row..]);
    upper.fold(0.0, |largest, value| value.abs().max(largest))
}

/// The power of two at or below a finite `value >= 0`, at least the smallest normal number.
pub(crate) fn power_of_two_below(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & f64::INFINITY.to_bits()).max(f64::MIN_POSITIVE)
}
