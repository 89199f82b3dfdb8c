//! Symmetric matrices stored as their upper triangle, row by row.

use crate::error::check_len;
use crate::kernels::{Factor, InstructionSet, Solve};
use crate::real::Compiled;
use crate::{Error, Real, Result};

/// Number of entries in the upper triangle of a symmetric matrix.
///
/// ```text
/// dim (dim + 1) / 2
/// ```
/// Saturates at the largest `usize`, which is longer than any slice.
///
/// # Examples
/// ```
/// assert_eq!(dp_linalg::packed_len(4), 10);
/// ```
#[must_use]
pub const fn packed_len(dim: usize) -> usize {
    dim.div_ceil(2).saturating_mul(dim | 1) // the factor that is even is halved
}

/// Index of entry (row, column) in packed order; the two may be given in either order.
///
/// The order is (0,0), (0,1), ..., (0,dim-1), (1,1), ..., (dim-1,dim-1):
/// ```text
/// a dim − a (a − 1)/2 + (b − a),   a = min(row, column), b = max(row, column)
/// ```
///
/// # Panics
/// In debug builds, if an index is not below `dim`.
///
/// # Examples
/// ```
/// use dp_linalg::packed_index;
/// assert_eq!(packed_index(3, 0, 2), 2);
/// assert_eq!(packed_index(3, 2, 1), 4);
/// ```
#[must_use]
pub const fn packed_index(dim: usize, row: usize, column: usize) -> usize {
    let (a, b) = if row <= column {
        (row, column)
    } else {
        (column, row)
    };
    debug_assert!(b < dim);
    a * (2 * dim - a + 1) / 2 + (b - a)
}

/// Expands a packed upper triangle to a full row-major matrix, shape `(dim, dim)`.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) if `packed` does not have [`packed_len`] entries or `full` does
/// not have `dim * dim`.
pub fn unpack_symmetric<T: Real>(packed: &[T], dim: usize, full: &mut [T]) -> Result<()> {
    check_len("packed", packed.len(), packed_len(dim))?;
    check_len("full", full.len(), dim.saturating_mul(dim))?;
    let mut rest = packed;
    for a in 0..dim {
        let (row, below) = rest.split_at(dim - a);
        full[a * dim + a..(a + 1) * dim].copy_from_slice(row);
        for (b, &value) in (a..dim).zip(row) {
            full[b * dim + a] = value;
        }
        rest = below;
    }
    Ok(())
}

/// Reads the upper triangle of a full row-major matrix into packed order.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) if `full` does not have `dim * dim` entries or `packed` does not
/// have [`packed_len`].
pub fn pack_symmetric<T: Real>(full: &[T], dim: usize, packed: &mut [T]) -> Result<()> {
    check_len("full", full.len(), dim.saturating_mul(dim))?;
    check_len("packed", packed.len(), packed_len(dim))?;
    pack_upper(full, dim, dim, packed);
    Ok(())
}

/// Packs the leading `dim` by `dim` upper triangle of rows that are `stride` apart.
pub(crate) fn pack_upper<T: Copy>(full: &[T], stride: usize, dim: usize, packed: &mut [T]) {
    let mut rest = packed;
    for a in 0..dim {
        let (row, below) = rest.split_at_mut(dim - a);
        row.copy_from_slice(&full[a * stride + a..a * stride + dim]);
        rest = below;
    }
}

/// Copies the upper triangle onto the lower one.
pub(crate) fn mirror_upper<T: Copy>(full: &mut [T], dim: usize) {
    for a in 0..dim {
        for b in a + 1..dim {
            full[b * dim + a] = full[a * dim + b];
        }
    }
}

/// Factors a symmetric positive definite matrix in place, `A = Uᵀ U` with U upper triangular.
///
/// Reads and overwrites the diagonal and the entries above it; entries below the diagonal are
/// neither read nor written. (In column-major terms this is the lower factor L = Uᵀ.)
///
/// # Arguments
/// `a` - row-major, shape `(dim, dim)`.
///
/// # Errors
/// [`Shape`](Error::Shape) if `a` does not have `dim * dim` entries;
/// [`NotPositiveDefinite`](Error::NotPositiveDefinite) at the first pivot that is not a finite
/// number above zero, which covers NaN and infinities anywhere in the triangle. The triangle's
/// contents are then unspecified.
///
/// # Numerics
/// Backward stable, like any Cholesky factorisation without pivoting. Cost dim³/3.
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
    T::factor(InstructionSet::detect(), a, dim)
}

/// Solves `A x = b` in place of b, given the factor computed by [`cholesky_in_place`].
///
/// # Arguments
/// `u` - row-major upper factor, shape `(dim, dim)`; `rhs` - b, length `dim`.
///
/// # Errors
/// [`Shape`](Error::Shape) if a length does not match.
pub fn cholesky_solve_in_place<T: Real>(u: &[T], dim: usize, rhs: &mut [T]) -> Result<()> {
    T::solve(InstructionSet::detect(), u, dim, rhs)
}

pub(crate) fn factor<T: Compiled>(isa: InstructionSet, a: &mut [T], dim: usize) -> Result<()> {
    check_len("a", a.len(), dim * dim)?;
    T::run(isa, Factor::new(a, dim)).map_err(|pivot| Error::NotPositiveDefinite { pivot })
}

pub(crate) fn solve<T: Compiled>(
    isa: InstructionSet,
    u: &[T],
    dim: usize,
    rhs: &mut [T],
) -> Result<()> {
    check_len("u", u.len(), dim * dim)?;
    check_len("rhs", rhs.len(), dim)?;
    T::run(isa, Solve::new(u, dim, rhs));
    Ok(())
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::shadow_unrelated,
    reason = "equality is the claim; each check rebinds the same few names"
)]
mod tests {
    use super::*;
    use crate::GramAccumulator;
    use crate::test_numbers::Numbers;

    #[test]
    fn packed_index_counts_the_upper_triangle_in_row_order() {
        for dim in 1..20 {
            let pairs = (0..dim).flat_map(|a| (a..dim).map(move |b| (a, b)));
            let mut n = 0;
            for (place, (a, b)) in pairs.enumerate() {
                assert_eq!(packed_index(dim, a, b), place);
                assert_eq!(packed_index(dim, b, a), place);
                n += 1;
            }
            assert_eq!(n, packed_len(dim));
        }
    }

    #[test]
    fn lengths_beyond_all_slices_do_not_wrap() {
        let half = usize::BITS / 2;
        let dim = 1_usize << half;
        assert_eq!(packed_len(dim), (dim >> 1) * (dim >> 1) * 2 + (dim >> 1));
        assert_eq!(packed_len(dim - 1), (dim >> 1) * (dim - 1));
        for dim in [2 * dim, usize::MAX - 1, usize::MAX] {
            assert_eq!(packed_len(dim), usize::MAX);
        }
    }

    #[test]
    fn unpack_and_pack_agree_with_packed_index() -> Result<()> {
        let dim = 7;
        let packed: Vec<f64> = (0..28_u8).map(f64::from).collect();
        let mut full = vec![f64::NAN; dim * dim];
        unpack_symmetric(&packed, dim, &mut full)?;
        for a in 0..dim {
            for b in 0..dim {
                assert!(full[a * dim + b] == packed[packed_index(dim, a, b)]);
            }
        }
        let mut back = vec![f64::NAN; 28];
        pack_symmetric(&full, dim, &mut back)?;
        assert!(back == packed);
        Ok(())
    }

    #[test]
    fn wrong_lengths_are_shape_errors() {
        let mut full = [0.0_f32; 9];
        let shape = |name, found, expected| {
            Err(Error::Shape(dp_core::ShapeError::new(
                name, found, expected,
            )))
        };
        let got = unpack_symmetric(&[0.0; 5], 3, &mut full);
        assert_eq!(got, shape("packed", 5, 6));
        let got = unpack_symmetric(&[0.0; 6], 3, &mut full[..8]);
        assert_eq!(got, shape("full", 8, 9));
        let got = pack_symmetric(&full, 3, &mut [0.0; 7]);
        assert_eq!(got, shape("packed", 7, 6));
    }

    const DIMS: [usize; 18] = [
        1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 23, 24, 33, 64, 65, 100,
    ];

    /// A well-conditioned positive definite matrix whose lower triangle is NaN.
    fn positive_definite(dim: usize, numbers: &mut Numbers) -> Vec<f64> {
        let mut gram = GramAccumulator::new(dim).unwrap();
        gram.add_rows(&numbers.reals(3 * dim * dim)).unwrap();
        let mut a = vec![0.0; dim * dim];
        gram.write_full(&mut a).unwrap();
        for row in 0..dim {
            a[row * dim + row] += 0.5;
            a[row * dim..row * dim + row].fill(f64::NAN);
        }
        a
    }

    fn product(u: &[f64], dim: usize, a: usize, b: usize) -> f64 {
        let rows = u.chunks_exact(dim).take(a.min(b) + 1);
        rows.map(|row| row[a] * row[b]).sum()
    }

    #[test]
    fn factor_multiplies_back_and_leaves_the_lower_triangle_alone() -> Result<()> {
        let mut numbers = Numbers::new(11);
        for isa in InstructionSet::available() {
            for dim in DIMS {
                let a = positive_definite(dim, &mut numbers);
                let mut u = a.clone();
                factor(isa, &mut u, dim)?;
                for row in 0..dim {
                    for col in 0..dim {
                        let place = row * dim + col;
                        if col < row {
                            assert!(u[place].is_nan());
                        } else {
                            let error = (product(&u, dim, row, col) - a[place]).abs();
                            // dim products no larger than the diagonal, about 2 dim
                            assert!(error < 1e-12, "{isa:?} dim {dim}: {error}");
                        }
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn solution_reproduces_the_right_hand_side() -> Result<()> {
        let mut numbers = Numbers::new(12);
        for isa in InstructionSet::available() {
            for dim in DIMS {
                let a = positive_definite(dim, &mut numbers);
                let known = numbers.reals(dim);
                let entry = |row: usize, col: usize| a[row.min(col) * dim + row.max(col)];
                let times = |row| (0..dim).map(|col| entry(row, col) * known[col]).sum();
                let mut x: Vec<f64> = (0..dim).map(times).collect();
                let mut u = a.clone();
                factor(isa, &mut u, dim)?;
                solve(isa, &u, dim, &mut x)?;
                for (x, known) in x.iter().zip(&known) {
                    assert!((x - known).abs() < 1e-11, "{isa:?} dim {dim}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn f32_solves_to_single_precision() -> Result<()> {
        let mut numbers = Numbers::new(13);
        for isa in InstructionSet::available() {
            for dim in DIMS {
                let double = positive_definite(dim, &mut numbers);
                let mut x = vec![1.0; dim];
                let mut u = double.clone();
                factor(isa, &mut u, dim)?;
                solve(isa, &u, dim, &mut x)?;

                #[allow(clippy::cast_possible_truncation, reason = "rounding is the point")]
                let mut single: Vec<f32> = double.iter().map(|&a| a as f32).collect();
                let mut y = vec![1.0_f32; dim];
                factor(isa, &mut single, dim)?;
                solve(isa, &single, dim, &mut y)?;
                for (x, y) in x.iter().zip(&y) {
                    assert!((x - f64::from(*y)).abs() < 1e-4, "{isa:?} dim {dim}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn names_the_pivot_that_fails() {
        let mut numbers = Numbers::new(14);
        for isa in InstructionSet::available() {
            for dim in [1, 5, 8, 13, 30] {
                let good = positive_definite(dim, &mut numbers);
                for pivot in [0, dim / 2, dim - 1] {
                    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                        let mut a = good.clone();
                        a[pivot * dim + pivot] = bad;
                        let failure = Err(Error::NotPositiveDefinite { pivot });
                        assert_eq!(factor(isa, &mut a, dim), failure, "{bad}");
                    }
                    for bad in [f64::NAN, f64::INFINITY, 1e200] {
                        let mut a = good.clone();
                        a[pivot] = bad; // row 0; the pivot itself if pivot is 0
                        let failure = Err(Error::NotPositiveDefinite { pivot });
                        if pivot > 0 {
                            assert_eq!(factor(isa, &mut a, dim), failure, "{bad}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let mut a = [1.0; 8];
        assert!(matches!(cholesky_in_place(&mut a, 3), Err(Error::Shape(_))));
        let mut x = [1.0; 3];
        let got = cholesky_solve_in_place(&[1.0; 4], 2, &mut x);
        assert!(matches!(got, Err(Error::Shape(_))));
        let got = cholesky_solve_in_place(&a, 3, &mut x);
        assert!(matches!(got, Err(Error::Shape(_))));
    }

    #[test]
    fn an_empty_matrix_is_solved() {
        assert_eq!(cholesky_in_place::<f64>(&mut [], 0), Ok(()));
        assert_eq!(cholesky_solve_in_place::<f64>(&[], 0, &mut []), Ok(()));
    }
}
