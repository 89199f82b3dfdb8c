//! Rows of single precision, scaled and rounded toward zero to integers.
//!
//! The product of two numbers of single precision is exact in double precision, and clamping and
//! truncating are exact, so every instruction set gives the same integers.

use super::dispatch::Operation;
use super::lanes::Lanes;

/// Writes the integer rows `trunc(scale_r factors_index)` into `out`, padded with zeros to
/// `width`.
#[derive(Debug)]
pub(crate) struct GatherIntegers<'a> {
    factors: &'a [f32],
    indices: &'a [u32],
    scales: &'a [f32],
    dim: usize,
    width: usize,
    limit: f64,
    out: &'a mut [f64],
}

impl<'a> GatherIntegers<'a> {
    /// The caller has checked that `indices` are below `factors.len() / dim`.
    ///
    /// # Panics
    /// When `out` is shorter than `indices.len() * width`, `width` is below `dim`, or there is not
    /// one scale for each index.
    pub(crate) fn new(
        factors: &'a [f32],
        indices: &'a [u32],
        scales: &'a [f32],
        (dim, width): (usize, usize),
        limit: f64,
        out: &'a mut [f64],
    ) -> Self {
        assert!(dim <= width && indices.len() * width <= out.len());
        assert!(indices.len() == scales.len());
        Self {
            factors,
            indices,
            scales,
            dim,
            width,
            limit,
            out,
        }
    }
}

impl Operation<f64> for GatherIntegers<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(self) {
        let Self { dim, width, .. } = self;
        assert!(width.is_multiple_of(L::WIDTH) && width - dim < L::WIDTH);
        for (r, (&index, &scale)) in self.indices.iter().zip(self.scales).enumerate() {
            let row = &self.factors[index as usize * dim..][..dim];
            for col in (0..width).step_by(L::WIDTH) {
                // SAFETY: col < dim because `width` is dim rounded up to WIDTH, so between 1 and
                // WIDTH of the row's dim elements are read; row r of `out` has `width` elements by
                // the constructor's assertion.
                unsafe {
                    let v = L::load_single(row.as_ptr().add(col), L::WIDTH.min(dim - col));
                    let x = L::splat(scale.into()).times(v).truncate_within(self.limit);
                    x.store(self.out.as_mut_ptr().add(r * width + col));
                }
            }
        }
    }
}

/// Writes the squared norm of the integer row `trunc(scale_r factor)` for every scale.
#[derive(Debug)]
pub(crate) struct SquaredNorms<'a> {
    factor: &'a [f32],
    scales: &'a [f32],
    limit: f64,
    out: &'a mut [f64],
}

impl<'a> SquaredNorms<'a> {
    /// # Panics
    /// When `out` does not hold one number for each scale.
    pub(crate) fn new(
        factor: &'a [f32],
        scales: &'a [f32],
        limit: f64,
        out: &'a mut [f64],
    ) -> Self {
        assert!(scales.len() == out.len());
        Self {
            factor,
            scales,
            limit,
            out,
        }
    }
}

impl Operation<f64> for SquaredNorms<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(self) {
        let dim = self.factor.len();
        for (norm, &scale) in self.out.iter_mut().zip(self.scales) {
            // SAFETY: each load reads at most the dim - col elements that are left.
            *norm = unsafe {
                let scale = L::splat(scale.into());
                let mut sum = L::zero();
                for col in (0..dim).step_by(L::WIDTH) {
                    let from = self.factor.as_ptr().add(col);
                    let v = L::load_single(from, L::WIDTH.min(dim - col));
                    let x = scale.times(v).truncate_within(self.limit);
                    sum = sum.plus_product(x, x);
                }
                sum.sum()
            };
        }
    }
}
