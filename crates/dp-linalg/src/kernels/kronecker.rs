//! Gram matrices of a few integer rows, multiplied by weights and rounded down on the fly.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m512d, _MM_FROUND_NO_EXC, _MM_FROUND_TO_ZERO, _mm512_fmadd_round_pd, _mm512_loadu_pd,
    _mm512_set1_pd, _mm512_storeu_pd,
};

use super::dispatch::{InstructionSet, Kernel, Operation};
use super::gram::tile;
use super::lanes::Lanes;
use super::rows::{RowSource, RowStarts, Rows};

/// The start value of sums. Between 2^52 and 2^53 the double-precision numbers are exactly the
/// integers, so that a sum rounded toward zero is rounded down to an integer.
pub(crate) const HOME: f64 = 1.5 * (1_u64 << 52) as f64;

/// How the floor of an exact product is added to a sum that stays within 2^51 of [`HOME`].
trait AddFloor<L: Lanes> {
    /// Adds the floors of `x` times `weight` to the numbers at `to`.
    ///
    /// # Safety
    /// `L::WIDTH` numbers at `to` can be read and written; the processor supports the instructions
    /// of `L`.
    unsafe fn add(x: L, weight: f64, to: *mut f64);
}

/// Processes one number after the other.
struct OneByOne;

impl<L: Lanes<Scalar = f64>> AddFloor<L> for OneByOne {
    #[inline(always)]
    unsafe fn add(x: L, weight: f64, to: *mut f64) {
        // SAFETY: guaranteed by the caller; no vector is wider than the array.
        unsafe {
            let mut numbers = [0.0; 8];
            assert!(L::WIDTH <= numbers.len());
            x.store(numbers.as_mut_ptr());
            for (lane, &x) in numbers.iter().take(L::WIDTH).enumerate() {
                *to.add(lane) += floor_of_product(x, weight);
            }
        }
    }
}

/// The largest integer that is not above the product of two numbers, for products below 2^52.
#[inline(always)]
fn floor_of_product(a: f64, b: f64) -> f64 {
    let rounded = a * b;
    let lost = a.mul_add(b, -rounded);
    let floor = rounded.floor();
    let rounded_up_to_it = floor >= rounded && lost < 0.0;
    if rounded_up_to_it { floor - 1.0 } else { floor }
}

/// A single instruction of AVX-512F: product and sum are rounded once, toward zero.
#[cfg(target_arch = "x86_64")]
struct Fused;

#[cfg(target_arch = "x86_64")]
impl AddFloor<__m512d> for Fused {
    #[inline(always)]
    unsafe fn add(x: __m512d, weight: f64, to: *mut f64) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let sum = _mm512_loadu_pd(to);
            let sum = _mm512_fmadd_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(
                x,
                _mm512_set1_pd(weight),
                sum,
            );
            _mm512_storeu_pd(to, sum);
        }
    }
}

/// Adds `floor(w_p C)` of every user to plane p of `planes`, `C = sum_r x_r x_r^T` over the user's
/// rows, on the tiles that meet the triangle row <= column. Planes start at [`HOME`]. C stays in
/// registers, and a tile of all planes stays in the cache while the users are processed.
#[derive(Debug)]
pub(crate) struct KroneckerUpdate<'a> {
    rows: Rows<'a, f64>,
    /// Number of rows of each user, in order.
    n_rows: &'a [usize],
    /// One per user and plane.
    weights: &'a [f64],
    dim: usize,
    planes: &'a mut [f64],
}

impl<'a> KroneckerUpdate<'a> {
    /// # Panics
    /// If the users' row counts do not add up to the number of rows, the number of weights per user
    /// differs, or `planes` is not a `width * width` plane for each weight, `width >= dim`.
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

    /// Adds one tile of MR rows and NV vectors at (row, column) of every plane.
    ///
    /// # Safety
    /// MR rows from `row` and NV * WIDTH columns from `column` are within `width`; instructions of `L`.
    #[inline(always)]
    unsafe fn add<L: Lanes<Scalar = f64>, R: AddFloor<L>, const MR: usize, const NV: usize>(
        &mut self,
        row: usize,
        column: usize,
    ) {
        let (width, stride) = (self.rows.width(), self.rows.stride());
        let n_planes = self.planes.len() / (width * width);
        // SAFETY: `Rows` makes `width` elements of each of its rows readable, and the users' rows
        // are all of them; plane p of `planes` has width rows of width elements by the
        // constructor's assertion, and the tile lies within them; there is a weight for each user
        // and plane.
        unsafe {
            let mut rows = self.rows.starts();
            let mut weight = self.weights.as_ptr();
            for &n_rows in self.n_rows {
                let (left, right) = (rows.shifted(row), rows.shifted(column));
                let sums = tile::<L, MR, NV>(left, right, n_rows);
                for p in 0..n_planes {
                    let scale = *weight.add(p);
                    let plane = self.planes.as_mut_ptr().add(p * width * width);
                    for m in 0..MR {
                        for v in 0..NV {
                            let to = plane.add((row + m) * width + column + v * L::WIDTH);
                            R::add(sums[m][v], scale, to);
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
            // SAFETY: the set is proof that the processor supports AVX-512F.
            return unsafe { self.sweep_avx512() };
        }
        f64::run(isa, self);
    }

    /// # Safety
    /// The processor supports AVX-512F.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn sweep_avx512(self) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.sweep::<__m512d, Fused, 8>() }
    }

    /// Processes all tiles.
    ///
    /// # Safety
    /// The processor supports the instructions of `L`.
    #[inline(always)]
    unsafe fn sweep<L: Lanes<Scalar = f64>, R: AddFloor<L>, const MR: usize>(mut self) {
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
        // SAFETY: guaranteed by the caller.
        unsafe { self.sweep::<L, OneByOne, MR>() }
    }
}
