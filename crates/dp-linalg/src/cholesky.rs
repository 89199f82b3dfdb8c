use crate::error::check_len;
use crate::kernels::{Factor, InstructionSet, Solve};
use crate::{Error, Real, Result};

/// Factors a symmetric positive definite matrix in place, `A = Uᵀ U` with U upper triangular.
///
/// Reads and overwrites the diagonal and what lies above it; entries below the diagonal are
/// neither read nor written. (In column-major terms this is the lower factor L = Uᵀ.)
///
/// # Arguments
/// `a` - row-major, shape `(dim, dim)`.
///
/// # Errors
/// [`Shape`](Error::Shape) when `a` does not have `dim * dim` entries;
/// [`NotPositiveDefinite`](Error::NotPositiveDefinite) at the first pivot that is not a finite
/// number above zero, which covers NaN and infinities anywhere in the triangle. The triangle's
/// contents are unspecified then.
///
/// # Numerics
/// Backward stable, as any Cholesky factorisation without pivoting. Cost dim³/3.
///
/// # Examples
/// ```
/// use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};
///
/// let mut a = [4.0, 2.0, 2.0, 5.0];
/// let mut x = [10.0, 13.0];
/// cholesky_in_place(&mut a, 2)?;
/// assert_eq!([a[0], a[1], a[3]], [2.0, 1.0, 2.0]);
/// cholesky_solve_in_place(&a, 2, &mut x)?;
/// assert_eq!(x, [1.5, 2.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn cholesky_in_place<T: Real>(a: &mut [T], dim: usize) -> Result<()> {
    factor(InstructionSet::detect(), a, dim)
}

/// Solves `A x = b` in place of b, given the factor that [`cholesky_in_place`] left.
///
/// # Arguments
/// `u` - row-major upper factor, shape `(dim, dim)`; `rhs` - b, length `dim`.
///
/// # Errors
/// [`Shape`](Error::Shape) when a length does not fit.
pub fn cholesky_solve_in_place<T: Real>(u: &[T], dim: usize, rhs: &mut [T]) -> Result<()> {
    solve(InstructionSet::detect(), u, dim, rhs)
}

fn factor<T: Real>(isa: InstructionSet, a: &mut [T], dim: usize) -> Result<()> {
    check_len("a", a.len(), dim * dim)?;
    T::run(isa, Factor::new(a, dim)).map_err(|pivot| Error::NotPositiveDefinite { pivot })
}

fn solve<T: Real>(isa: InstructionSet, u: &[T], dim: usize, rhs: &mut [T]) -> Result<()> {
    check_len("u", u.len(), dim * dim)?;
    check_len("rhs", rhs.len(), dim)?;
    T::run(isa, Solve::new(u, dim, rhs));
    Ok(())
}
