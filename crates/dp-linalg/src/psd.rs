use dp_core::params::{finite_positive, in_range};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::{MatMut, MatRef, Par};

use crate::error::check_len;
use crate::kernels::{InstructionSet, Kernel, LaneSystems, PsdSolve};
use crate::packed::mirror_upper;
use crate::{
    Error, GramAccumulator, Result, cholesky_in_place, cholesky_solve_in_place, score_rows,
};

/// 2^-100: the square of the unit round-off, with a margin for the dimension.
pub(crate) const NEGLIGIBLE: f64 = f64::from_bits((1023 - 100) << 52);

/// Which computation produced the result. It depends only on the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PsdPath {
    /// The matrix has a Cholesky factor, so it is its own projection.
    Cholesky,
    /// The eigendecomposition was computed.
    Eigen,
}

/// Reusable work space for matrices of one dimension.
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

    /// Eigenvalues in increasing order and their vectors, one after the other, as computed by
    /// [`decompose`](Self::decompose).
    pub(crate) fn into_parts(self) -> (Vec<f64>, Vec<f64>) {
        (self.values, self.vectors)
    }

    /// Whether `a + ridge I` has a Cholesky factor, which is stored in `self.matrix`.
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
    /// Otherwise squares inside the iteration would overflow, or vanish and stall it.
    pub(crate) fn decompose(&mut self, a: &[f64]) -> Result<()> {
        let dim = self.dim;
        let scale = power_of_two_below(largest_magnitude(a, dim));
        for (to, from) in self.matrix.iter_mut().zip(a) {
            let x = from / scale;
            *to = if x.abs() < NEGLIGIBLE { 0.0 } else { x };
        }
        // the row-major upper triangle is the column-major lower one, which faer reads
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
/// Which computation produced the result. The matrix is unchanged, apart from the mirrored
/// triangle, if its Cholesky factorisation succeeds.
///
/// # Errors
/// [`Param`](Error::Param) unless `dim` is from 1 to 1024; [`Shape`](Error::Shape) if `a` does not
/// have `dim * dim` entries; [`NotFinite`](Error::NotFinite) for NaN or infinities in the triangle;
/// [`NotConverged`](Error::NotConverged) if the eigenvalue iteration fails. `a` is then unchanged.
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

/// Solves `(Π(A) + ridge I) x = b` in place of b, with Π the projection onto the positive
/// semidefinite matrices (see [`project_psd_in_place`]).
///
/// ```text
/// x = V diag(1 / (max(λ, 0) + ridge)) Vᵀ b,   A = V diag(λ) Vᵀ
/// ```
/// If A has a Cholesky factor, Π(A) is A and the eigendecomposition is skipped.
///
/// # Arguments
/// * `a` - symmetric, row-major, shape `(dim, dim)`; only the diagonal and the triangle above it
///   are read.
/// * `ridge` - a finite number above 0.
/// * `rhs` - b, length `dim`; overwritten by x.
/// * `scratch` - determines `dim`.
///
/// # Returns
/// Which computation produced the result.
///
/// # Errors
/// [`Param`](Error::Param) for a ridge out of range; [`Shape`](Error::Shape) if a length does not
/// match; [`NotFinite`](Error::NotFinite) for NaN or infinities in the triangle or in b;
/// [`NotConverged`](Error::NotConverged) if the eigenvalue iteration fails. b is then unchanged.
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

/// Checks the length, and that the entries on and above the diagonal are finite.
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

/// Work space of [`psd_part_plus_ridge_solve_batch`] for one dimension.
pub struct PsdBatchScratch {
    dim: usize,
    isa: InstructionSet,
    lanes: usize,
    factor: Vec<f64>,
    systems: LaneSystems<f64>,
    /// The index of the right-hand side in each occupied lane.
    waiting: Vec<usize>,
}

impl std::fmt::Debug for PsdBatchScratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("PsdBatchScratch");
        out.field("dim", &self.dim).finish_non_exhaustive()
    }
}

impl PsdBatchScratch {
    /// Largest dimension: beyond it, eight matrices at once exceed the second-level cache.
    pub const MAX_DIM: usize = 256;

    /// # Errors
    /// [`Param`](Error::Param) unless `dim` is from 1 to [`MAX_DIM`](Self::MAX_DIM).
    pub fn new(dim: usize) -> Result<Self> {
        Self::with_instructions(dim, InstructionSet::detect())
    }

    fn with_instructions(dim: usize, isa: InstructionSet) -> Result<Self> {
        let range = "a whole number from 1 to 256";
        in_range("dim", dim, 1, Self::MAX_DIM, range)?;
        let lanes = f64::width(isa);
        Ok(Self {
            dim,
            isa,
            lanes,
            factor: vec![0.0; dim * dim],
            systems: LaneSystems::new(dim, lanes),
            waiting: Vec::with_capacity(lanes),
        })
    }

    /// Dimension of the matrices.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of matrices that share one decomposition; batches of a multiple of it leave no lane
    /// unused.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Solves by Cholesky if A has a factor; otherwise returns `false` and leaves `rhs` unchanged.
    fn solve_definite(&mut self, a: &[f64], ridge: f64, rhs: &mut [f64]) -> Result<bool> {
        for added in [0.0, ridge] {
            self.factor.copy_from_slice(a);
            for diagonal in self.factor.iter_mut().step_by(self.dim + 1) {
                *diagonal += added;
            }
            if cholesky_in_place(&mut self.factor, self.dim).is_err() {
                return Ok(false);
            }
        }
        cholesky_solve_in_place(&self.factor, self.dim, rhs)?;
        Ok(true)
    }

    /// Puts a system into the next free lane, scaled by powers of two.
    fn wait(&mut self, a: &[f64], ridge: f64, rhs: &[f64], owner: usize) {
        let (dim, lanes, lane) = (self.dim, self.lanes, self.waiting.len());
        self.waiting.push(owner);
        let systems = &mut self.systems;
        let scale = power_of_two_below(largest_magnitude(a, dim));
        let mut to = systems.matrices[lane..].iter_mut().step_by(lanes);
        for row in 0..dim {
            for (from, to) in a[row..].iter().step_by(dim).take(row + 1).zip(&mut to) {
                let x = from / scale;
                *to = if x.abs() < NEGLIGIBLE { 0.0 } else { x };
            }
        }
        let rhs_scale = power_of_two_below(rhs.iter().fold(0.0, |m, x| x.abs().max(m)));
        let to = systems.rhs[lane..].iter_mut().step_by(lanes);
        for (to, from) in to.zip(rhs) {
            *to = from / rhs_scale;
        }
        systems.matrix_scales[lane] = scale;
        systems.rhs_scales[lane] = rhs_scale;
        systems.ridges[lane] = ridge;
    }

    /// Solves the queued systems; unused lanes get the zero matrix.
    fn flush(&mut self, rhs: &mut [f64]) -> Result<()> {
        let (dim, lanes, taken) = (self.dim, self.lanes, self.waiting.len());
        if taken == 0 {
            return Ok(());
        }
        let systems = &mut self.systems;
        for lane in taken..lanes {
            for list in [&mut systems.matrices, &mut systems.rhs] {
                list[lane..]
                    .iter_mut()
                    .step_by(lanes)
                    .for_each(|x| *x = 0.0);
            }
            systems.matrix_scales[lane] = 1.0;
            systems.rhs_scales[lane] = 1.0;
            systems.ridges[lane] = 1.0;
        }
        if !f64::run(self.isa, PsdSolve(systems)) {
            return Err(Error::NotConverged { dim });
        }
        for (lane, owner) in self.waiting.drain(..).enumerate() {
            let from = systems.rhs[lane..].iter().step_by(lanes);
            for (to, from) in rhs[owner * dim..][..dim].iter_mut().zip(from) {
                *to = *from;
            }
        }
        Ok(())
    }
}

/// Solves `(Π(A_s) + ridge_s I) x_s = b_s` for many systems, with Π as in
/// [`psd_part_plus_ridge_solve`](crate::psd_part_plus_ridge_solve).
///
/// ```text
/// x = V f(Λ) Vᵀ b = Q Z f(Λ) Zᵀ Qᵀ b,   f(λ) = 1 / (max(λ, 0) + ridge),   A = Q T Qᵀ,  T = Z Λ Zᵀ
/// ```
/// Systems whose matrix has a Cholesky factor are solved with it. The others are batched, one per
/// vector lane, and solved through a Householder reduction to the tridiagonal T and QL iterations.
/// The eigenvectors are never formed: the rotations are applied to `Qᵀ b` and, in reverse order, to
/// the result. Sources: Martin, Reinsch, Wilkinson 1968, Numer. Math. 11, and Bowdler and others in
/// the same volume.
///
/// # Arguments
/// * `matrices` - shape `(n, dim, dim)`, row-major; of each, the diagonal and the triangle above it
///   are read.
/// * `ridges` - n finite numbers above 0.
/// * `rhs` - shape `(n, dim)`; overwritten by the solutions.
/// * `scratch` - determines `dim`.
///
/// # Returns
/// The number of systems that required eigenvalues.
///
/// # Errors
/// As [`psd_part_plus_ridge_solve`](crate::psd_part_plus_ridge_solve), with `rhs` unchanged, for
/// invalid input; [`NotConverged`](Error::NotConverged), with `rhs` partly overwritten.
///
/// # Numerics
/// Relative error about the unit round-off times (largest eigenvalue + ridge) / ridge. The result
/// for one system does not depend, in any bit, on the others in the batch. 4 dim³/3 operations and
/// O(dim²) square roots and divisions for each system. The list of rotations grows to its final
/// size in the first calls; nothing else allocates.
///
/// # Examples
/// ```
/// use dp_linalg::{PsdBatchScratch, psd_part_plus_ridge_solve_batch};
///
/// let mut scratch = PsdBatchScratch::new(2)?;
/// let matrices = [3.0, 0.0, 0.0, -1.0, 2.0, 0.0, 0.0, 2.0]; // diag(3, -1) and diag(2, 2)
/// let mut x = [1.0; 4];
/// let n = psd_part_plus_ridge_solve_batch(&matrices, &[0.5, 0.5], &mut x, &mut scratch)?;
/// assert_eq!(n, 1);
/// let expected = [1.0 / 3.5, 2.0, 0.4, 0.4];
/// assert!(x.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-12));
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn psd_part_plus_ridge_solve_batch(
    matrices: &[f64],
    ridges: &[f64],
    rhs: &mut [f64],
    scratch: &mut PsdBatchScratch,
) -> Result<usize> {
    let dim = scratch.dim;
    check_len("matrices", matrices.len(), ridges.len() * dim * dim)?;
    check_len("rhs", rhs.len(), ridges.len() * dim)?;
    check_finite("rhs", rhs)?;
    for (a, &ridge) in matrices.chunks_exact(dim * dim).zip(ridges) {
        finite_positive("ridge", ridge)?;
        check_symmetric(a, dim)?;
    }
    scratch.waiting.clear();
    let mut n_eigen = 0;
    for (at, (a, &ridge)) in matrices.chunks_exact(dim * dim).zip(ridges).enumerate() {
        let b = &mut rhs[at * dim..][..dim];
        if scratch.solve_definite(a, ridge, b)? {
            continue;
        }
        scratch.wait(a, ridge, b, at);
        n_eigen += 1;
        if scratch.waiting.len() == scratch.lanes {
            scratch.flush(rhs)?;
        }
    }
    scratch.flush(rhs)?;
    Ok(n_eigen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_numbers::Numbers;
    use crate::{PsdScratch, psd_part_plus_ridge_solve};

    /// Symmetric matrices of many kinds: noise, low rank plus noise, zero, diagonal with repeated
    /// and tiny entries, definite, two blocks, graded.
    fn matrices(dim: usize, numbers: &mut Numbers) -> Vec<f64> {
        let mut all = Vec::new();
        for kind in 0..11 {
            let noise = numbers.reals(dim * dim);
            let direction = numbers.reals(dim);
            let entry = |i: usize, j: usize| {
                let (i, j) = (i.min(j), i.max(j));
                let same = if i == j { 1.0 } else { 0.0 };
                match kind {
                    0 => 0.0,
                    1 => same * f64::from([-2, 0, 1, 1, 3][i % 5]),
                    2 => same * [1e-300, -1e-9, 1.0, 0.0][i % 4] + 1e-12 * noise[i * dim + j],
                    3 => 30.0 * same + 0.1 * noise[i * dim + j],
                    4 => direction[i] * direction[j],
                    5 => -direction[i] * direction[j],
                    6 if (i < dim / 2) != (j < dim / 2) => 0.0,
                    7 => noise[i * dim + j] * 1e-3_f64.powi(i32::try_from(i + j).unwrap()),
                    8 => 1e150 * noise[i * dim + j],
                    9 => 5.0 * direction[i] * direction[j] + noise[i * dim + j],
                    _ => noise[i * dim + j],
                }
            };
            all.extend((0..dim * dim).map(|at| entry(at / dim, at % dim)));
        }
        all
    }

    #[test]
    fn agrees_with_the_eigendecomposition_of_each_matrix() -> Result<()> {
        let mut numbers = Numbers::new(31);
        for isa in InstructionSet::available() {
            for dim in [1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64] {
                let a = matrices(dim, &mut numbers);
                let n = a.len() / (dim * dim);
                let b = numbers.reals(n * dim);
                let sizes: Vec<f64> = a
                    .chunks_exact(dim * dim)
                    .map(|a| largest_magnitude(a, dim).max(1.0))
                    .collect();
                let ridges: Vec<f64> = sizes.iter().map(|size| 0.1 * size).collect();
                let mut scratch = PsdBatchScratch::with_instructions(dim, isa)?;
                let mut single = PsdScratch::new(dim)?;
                let mut x = b.clone();
                psd_part_plus_ridge_solve_batch(&a, &ridges, &mut x, &mut scratch)?;
                for at in 0..n {
                    let mut y = b[at * dim..][..dim].to_vec();
                    let a = &a[at * dim * dim..][..dim * dim];
                    psd_part_plus_ridge_solve(a, ridges[at], &mut y, &mut single)?;
                    let size = y.iter().fold(0.0_f64, |m, y| m.max(y.abs()));
                    for (x, y) in x[at * dim..][..dim].iter().zip(&y) {
                        let error = (x - y).abs() / size;
                        assert!(error < 1e-11, "{isa:?} dim {dim} matrix {at}: {error}");
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn a_system_does_not_feel_its_neighbours() -> Result<()> {
        let (dim, mut numbers) = (12, Numbers::new(32));
        let a = matrices(dim, &mut numbers);
        let n = a.len() / (dim * dim);
        let b = numbers.reals(n * dim);
        for isa in InstructionSet::available() {
            let mut scratch = PsdBatchScratch::with_instructions(dim, isa)?;
            let mut together = b.clone();
            let ridges = vec![0.5; n];
            psd_part_plus_ridge_solve_batch(&a, &ridges, &mut together, &mut scratch)?;
            let mut alone = b.clone();
            for (a, x) in a.chunks_exact(dim * dim).zip(alone.chunks_exact_mut(dim)) {
                psd_part_plus_ridge_solve_batch(a, &[0.5], x, &mut scratch)?;
            }
            let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&together), bits(&alone), "{isa:?}");
        }
        Ok(())
    }

    #[test]
    fn bad_input_is_refused_and_the_right_hand_sides_kept() -> Result<()> {
        let mut scratch = PsdBatchScratch::new(2)?;
        let good = [1.0, 0.0, 0.0, -1.0, 1.0, 0.0, 0.0, -1.0];
        let mut solve = |a: &[f64], ridges: &[f64], x: &mut [f64]| {
            psd_part_plus_ridge_solve_batch(a, ridges, x, &mut scratch)
        };
        for bad in [f64::NAN, f64::INFINITY] {
            let (mut a, mut x) = (good, [1.0; 4]);
            a[5] = bad;
            let refused = Err(Error::NotFinite { name: "a" });
            assert_eq!(solve(&a, &[1.0; 2], &mut x), refused);
            assert!(matches!(
                solve(&good, &[1.0, bad], &mut x),
                Err(Error::Param(_))
            ));
            assert!(x.iter().all(|x| x.to_bits() == 1.0_f64.to_bits()));
            let refused = Err(Error::NotFinite { name: "rhs" });
            assert_eq!(solve(&good, &[1.0; 2], &mut [1.0, 1.0, 1.0, bad]), refused);
        }
        for ridges in [&[1.0][..], &[1.0; 3]] {
            assert!(matches!(
                solve(&good, ridges, &mut [1.0; 4]),
                Err(Error::Shape(_))
            ));
        }
        assert_eq!(solve(&[], &[], &mut []), Ok(0));
        assert!(matches!(PsdBatchScratch::new(0), Err(Error::Param(_))));
        assert!(matches!(PsdBatchScratch::new(257), Err(Error::Param(_))));
        Ok(())
    }
}
