//! Gramians of a few integer rows, multiplied by weights and rounded toward zero on the way.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m512d, _MM_FROUND_NO_EXC, _MM_FROUND_TO_ZERO, _mm512_roundscale_pd};

use super::dispatch::{InstructionSet, Kernel, Operation};
use super::gram::tile;
use super::lanes::Lanes;
use super::rows::{RowSource, RowStarts, Rows};

/// How numbers below 2^52 are rounded toward zero. What becomes of others is left open.
trait TowardZero<L> {
    /// # Safety
    /// The processor has the instructions of `L`.
    unsafe fn round(x: L) -> L;
}

/// By way of [`Lanes::truncate_within`].
struct Clamped;

impl<L: Lanes<Scalar = f64>> TowardZero<L> for Clamped {
    #[inline(always)]
    unsafe fn round(x: L) -> L {
        // SAFETY: as the caller vouches.
        unsafe { x.truncate_within((1_u64 << 52) as f64) }
    }
}

/// One instruction of AVX-512F.
#[cfg(target_arch = "x86_64")]
struct Rounded;

#[cfg(target_arch = "x86_64")]
impl TowardZero<__m512d> for Rounded {
    #[inline(always)]
    unsafe fn round(x: __m512d) -> __m512d {
        // SAFETY: as the caller vouches.
        unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x) }
    }
}

/// Adds `trunc(w_p C)` of every user to plane p of `planes`, `C = sum_r x_r x_r^T` over the user's rows, on the tiles that meet the triangle
/// row <= column. C stays in registers, and a tile of all planes in the cache while the users go by.
#[derive(Debug)]
pub(crate) struct KroneckerUpdate<'a> {
    rows: Rows<'a, f64>,
    /// Rows of each user, in order.
    n_rows: &'a [usize],
    /// One for each user and plane.
    weights: &'a [f64],
    dim: usize,
    planes: &'a mut [f64],
}

impl<'a> KroneckerUpdate<'a> {
    /// # Panics
    /// When the users' rows are not as many as there are, weights are not as many for each user, or `planes` is not a `width * width` plane for
    /// each, `width >= dim`.
    pub(crate) fn new(
        rows: Rows<'a, f64>,
        n_rows: &'a [usize],
        weights: &'a [f64],
        dim: usize,
        planes: &'a mut [f64],
    ) -> Self {
        let width = rows.width();
        assert!(n_rows.iter().sum::<usize>() == rows.count());
        let n_planes = planes.len() / (width * width);
        assert!(dim <= width && planes.len() == n_planes * width * width);
        assert!(weights.len() == n_rows.len() * n_planes);
        Self {
            rows,
            n_rows,
            weights,
            dim,
            planes,
        }
    }

    /// One tile of MR rows and NV vectors at (row, column) of every plane.
    ///
    /// # Safety
    /// MR rows from `row` and NV * WIDTH columns from `column` are within `width`; instructions of `L`.
    #[inline(always)]
    unsafe fn add<L: Lanes<Scalar = f64>, R: TowardZero<L>, const MR: usize, const NV: usize>(
        &mut self,
        row: usize,
        column: usize,
    ) {
        let (width, stride) = (self.rows.width(), self.rows.stride());
        let n_planes = self.planes.len() / (width * width);
        // SAFETY: `Rows` makes `width` elements of each of its rows readable, and the users' rows are all of them; plane p of
        // `planes` has width rows of width elements by the constructor's assertion, and the tile lies within them; there is a weight
        // for each user and plane.
        unsafe {
            let mut rows = self.rows.starts();
            let mut weight = self.weights.as_ptr();
            for &n_rows in self.n_rows {
                let (left, right) = (rows.shifted(row), rows.shifted(column));
                let sums = tile::<L, MR, NV>(left, right, n_rows);
                for p in 0..n_planes {
                    let scale = L::splat(*weight.add(p));
                    let plane = self.planes.as_mut_ptr().add(p * width * width);
                    for m in 0..MR {
                        for v in 0..NV {
                            let to = plane.add((row + m) * width + column + v * L::WIDTH);
                            let rounded = R::round(sums[m][v].times(scale));
                            L::load(to).plus(rounded).store(to);
                        }
                    }
                }
                rows = rows.shifted(n_rows * stride);
                weight = weight.wrapping_add(n_planes);
            }
        }
    }
}

impl KroneckerUpdate<'_> {
    /// Runs with the instructions of `isa`.
    pub(crate) fn run(self, isa: InstructionSet) {
        #[cfg(target_arch = "x86_64")]
        if isa.has_avx512() {
            // SAFETY: the set says that the processor has AVX-512F.
            return unsafe { self.sweep_avx512() };
        }
        f64::run(isa, self);
    }

    /// # Safety
    /// The processor has AVX-512F.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn sweep_avx512(self) {
        // SAFETY: as the caller vouches.
        unsafe { self.sweep::<__m512d, Rounded, 8>() }
    }

    /// All tiles.
    ///
    /// # Safety
    /// The processor has the instructions of `L`.
    #[inline(always)]
    unsafe fn sweep<L: Lanes<Scalar = f64>, R: TowardZero<L>, const MR: usize>(mut self) {
        let width = self.rows.width();
        assert!(width.is_multiple_of(L::WIDTH) && L::WIDTH.is_multiple_of(MR));
        for row in (0..self.dim).step_by(MR) {
            let mut column = row / L::WIDTH * L::WIDTH;
            while column < width {
                // SAFETY: row is a multiple of MR below dim <= width and MR divides width; the tile
                // ends at `width` at the latest.
                unsafe {
                    if column + 2 * L::WIDTH <= width {
                        self.add::<L, R, MR, 2>(row, column);
                        column += 2 * L::WIDTH;
                    } else {
                        self.add::<L, R, MR, 1>(row, column);
                        column += L::WIDTH;
                    }
                }
            }
        }
    }
}

impl Operation<f64> for KroneckerUpdate<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(self) {
        // SAFETY: as the caller vouches.
        unsafe { self.sweep::<L, Clamped, MR>() }
    }
}
