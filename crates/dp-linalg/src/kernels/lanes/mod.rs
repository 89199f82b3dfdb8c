//! One vector of numbers, for each instruction set.

use super::Kernel;

/// Number of lanes of the widest vector.
pub(crate) const MOST_LANES: usize = 16;

/// A vector of `WIDTH` numbers, at most [`MOST_LANES`]. All methods are `inline(always)`, so that
/// they are compiled with the instructions of the function selected by [`Kernel::run`].
///
/// # Safety
/// Every method requires that the processor supports the instructions of the implementing type, and
/// that pointers are valid for the stated number of elements. No alignment is required.
#[cfg_attr(
    not(feature = "dense"),
    allow(dead_code, reason = "some serve the dense algorithms only")
)]
pub(crate) trait Lanes: Copy {
    /// The element type.
    type Scalar: Kernel;
    /// Elements in a vector.
    const WIDTH: usize;
    /// Widest register tile, in vectors, that leaves registers for the operands.
    const TILE_VECTORS: usize;

    /// All zeros.
    unsafe fn zero() -> Self;
    /// `value` in every lane.
    unsafe fn splat(value: Self::Scalar) -> Self;
    /// Reads `WIDTH` elements.
    unsafe fn load(from: *const Self::Scalar) -> Self;
    /// Reads the first `n <= WIDTH` elements and accesses no others; the remaining lanes are zero.
    unsafe fn load_first(from: *const Self::Scalar, n: usize) -> Self;
    /// Writes `WIDTH` elements.
    unsafe fn store(self, to: *mut Self::Scalar);
    /// Writes the first `n <= WIDTH` elements and accesses no others.
    unsafe fn store_first(self, to: *mut Self::Scalar, n: usize);
    /// `self + other`.
    unsafe fn plus(self, other: Self) -> Self;
    /// `self - other`.
    unsafe fn minus(self, other: Self) -> Self;
    /// `self * other`.
    unsafe fn times(self, other: Self) -> Self;
    /// `self + a * b`, with a single rounding if the processor supports it.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// `self - a * b`, with a single rounding if the processor supports it.
    unsafe fn minus_product(self, a: Self, b: Self) -> Self;
    /// `self / other`.
    unsafe fn over(self, other: Self) -> Self;
    /// Square root of each lane.
    unsafe fn root(self) -> Self;
    /// The lanes of `then` where `self` is above zero, those of `otherwise` elsewhere (also for
    /// NaN).
    unsafe fn where_positive(self, then: Self, otherwise: Self) -> Self;
    /// Sum of the lanes.
    unsafe fn sum(self) -> Self::Scalar;
    /// Reads the first `n <= WIDTH` single-precision numbers and accesses no others; widens them
    /// exactly, and the remaining lanes are zero.
    unsafe fn load_single(from: *const f32, n: usize) -> Self;
    /// Clamps each lane to `[-limit, limit]` and rounds it toward zero; NaN becomes zero.
    unsafe fn truncate_within(self, limit: Self::Scalar) -> Self;
    /// The upper half of `self`, then the upper half of `other`.
    unsafe fn upper_halves(self, other: Self) -> Self;
    /// Both halves rotated by `BY` lanes: lane i of a half receives lane i + BY, modulo the length
    /// of the half.
    unsafe fn turn_halves<const BY: usize>(self) -> Self;

    /// Transposes lanes and vectors: lane l of vector v becomes lane v of vector l, for the first
    /// `WIDTH` vectors.
    #[inline(always)]
    unsafe fn transpose(block: &mut [Self; MOST_LANES]) {
        let mut numbers = [[Self::Scalar::default(); MOST_LANES]; MOST_LANES];
        // SAFETY: no vector is wider than a row of `numbers`; the instructions are guaranteed by
        // the caller.
        unsafe {
            for (row, vector) in numbers.iter_mut().zip(block.iter()).take(Self::WIDTH) {
                vector.store(row.as_mut_ptr());
            }
            for (lane, vector) in block.iter_mut().enumerate().take(Self::WIDTH) {
                let column = std::array::from_fn::<_, MOST_LANES, _>(|v| numbers[v][lane]);
                *vector = Self::load(column.as_ptr());
            }
        }
    }

    /// [`load_first`](Self::load_first), without a mask if the whole vector is read.
    #[inline(always)]
    unsafe fn load_up_to(from: *const Self::Scalar, n: usize) -> Self {
        // SAFETY: passed on to the caller.
        unsafe {
            if n >= Self::WIDTH {
                Self::load(from)
            } else {
                Self::load_first(from, n)
            }
        }
    }

    /// [`store_first`](Self::store_first), without a mask if the whole vector is written.
    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut Self::Scalar, n: usize) {
        // SAFETY: passed on to the caller.
        unsafe {
            if n >= Self::WIDTH {
                self.store(to);
            } else {
                self.store_first(to, n);
            }
        }
    }
}

mod arrays;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use arrays::Plain;
