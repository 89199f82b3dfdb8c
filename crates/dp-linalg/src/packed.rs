//! Symmetric matrices stored as their upper triangle, row by row.

use crate::error::check_len;
use crate::{Real, Result};

/// Number of entries in the upper triangle of a symmetric matrix.
///
/// ```text
/// dim (dim + 1) / 2
/// ```
/// The largest `usize`, which no slice is as long as, where that is larger still.
///
/// # Examples
/// ```
/// assert_eq!(dp_linalg::packed_len(4), 10);
/// ```
#[must_use]
pub const fn packed_len(dim: usize) -> usize {
    dim.div_ceil(2).saturating_mul(dim | 1) // the even one of the two halved
}

/// Place of entry (row, column) in packed order; the two may come in either order.
///
/// The order is (0,0), (0,1), ..., (0,dim-1), (1,1), ..., (dim-1,dim-1):
/// ```text
/// a dim − a (a − 1)/2 + (b − a),   a = min(row, column), b = max(row, column)
/// ```
///
/// # Panics
/// In debug builds, when an index is not below `dim`.
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

/// Writes a packed upper triangle out as a full row-major matrix, shape `(dim, dim)`.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) when `packed` does not have [`packed_len`] entries or `full`
/// does not have `dim * dim`.
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
/// [`Shape`](crate::Error::Shape) when `full` does not have `dim * dim` entries or `packed` does
/// not have [`packed_len`].
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

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::shadow_unrelated,
    reason = "equality is the claim; each check rebinds the same few names"
)]
mod tests {
    use super::*;
    use crate::Error;

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
            Err(Error::Shape(dp_core::ShapeError {
                name,
                found,
                expected,
            }))
        };
        let got = unpack_symmetric(&[0.0; 5], 3, &mut full);
        assert_eq!(got, shape("packed", 5, 6));
        let got = unpack_symmetric(&[0.0; 6], 3, &mut full[..8]);
        assert_eq!(got, shape("full", 8, 9));
        let got = pack_symmetric(&full, 3, &mut [0.0; 7]);
        assert_eq!(got, shape("packed", 7, 6));
    }
}
