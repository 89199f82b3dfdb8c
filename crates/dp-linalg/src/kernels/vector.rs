//! Vectors on a grid: quotients rounded toward zero, their exact squared norm, and sums.

use super::dispatch::Operation;
use super::lanes::Lanes;

/// Writes `trunc(values / step)`, clamped to `±limit`, and returns the squared norm in three parts.
#[derive(Debug)]
pub(crate) struct Quantise<'a> {
    values: &'a [f64],
    step: f64,
    limit: f64,
    out: &'a mut [f64],
}

/// `sum z^2 = 2^42 high + 2^22 cross + low` for `z = 2^21 h + l`: sums of `h^2`, `h l` and `l^2`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SquareParts {
    pub(crate) high: f64,
    pub(crate) cross: f64,
    pub(crate) low: f64,
}

/// 2^21 and its inverse.
const HALF: f64 = (1_u64 << 21) as f64;

impl<'a> Quantise<'a> {
    /// Largest number of values: with a limit of 2^43, the sums of that many products are below 2^53.
    pub(crate) const MOST: usize = 256;

    /// # Panics
    /// When lengths differ, there are too many, or the limit is above 2^43.
    pub(crate) fn new(values: &'a [f64], step: f64, limit: f64, out: &'a mut [f64]) -> Self {
        assert!(values.len() == out.len() && values.len() <= Self::MOST);
        assert!(limit <= (1_u64 << 43) as f64);
        Self {
            values,
            step,
            limit,
            out,
        }
    }
}

impl Operation<f64> for Quantise<'_> {
    type Output = SquareParts;

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(self) -> SquareParts {
        let n = self.values.len();
        // SAFETY: `at` is below n, and at most the n - at elements from there are read and written.
        unsafe {
            let (step, inverse, half) = (L::splat(self.step), L::splat(1.0 / HALF), L::splat(HALF));
            let [mut high, mut cross, mut low] = [L::zero(); 3];
            for at in (0..n).step_by(L::WIDTH) {
                let value = L::load_up_to(self.values.as_ptr().add(at), n - at);
                let z = value.over(step).truncate_within(self.limit);
                z.store_up_to(self.out.as_mut_ptr().add(at), n - at);
                let h = z.times(inverse).truncate_within(self.limit);
                let l = z.minus_product(h, half);
                high = high.plus_product(h, h);
                cross = cross.plus_product(h, l);
                low = low.plus_product(l, l);
            }
            SquareParts {
                high: high.sum(),
                cross: cross.sum(),
                low: low.sum(),
            }
        }
    }
}

/// Adds one vector to another.
#[derive(Debug)]
pub(crate) struct AddVector<'a> {
    sums: &'a mut [f64],
    vector: &'a [f64],
}

impl<'a> AddVector<'a> {
    /// # Panics
    /// When the lengths differ.
    pub(crate) fn new(sums: &'a mut [f64], vector: &'a [f64]) -> Self {
        assert!(sums.len() == vector.len());
        Self { sums, vector }
    }
}

impl Operation<f64> for AddVector<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(self) {
        let n = self.sums.len();
        for at in (0..n).step_by(L::WIDTH) {
            // SAFETY: at < n, and at most the n - at elements from there are touched.
            unsafe {
                let to = self.sums.as_mut_ptr().add(at);
                let more = L::load_up_to(self.vector.as_ptr().add(at), n - at);
                L::load_up_to(to, n - at).plus(more).store_up_to(to, n - at);
            }
        }
    }
}

/// Writes `scale` times a vector of single precision.
#[derive(Debug)]
pub(crate) struct ScaledCopy<'a> {
    vector: &'a [f32],
    scale: f64,
    out: &'a mut [f64],
}

impl<'a> ScaledCopy<'a> {
    /// # Panics
    /// When the lengths differ.
    pub(crate) fn new(vector: &'a [f32], scale: f64, out: &'a mut [f64]) -> Self {
        assert!(vector.len() == out.len());
        Self { vector, scale, out }
    }
}

impl Operation<f64> for ScaledCopy<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(self) {
        let n = self.out.len();
        for at in (0..n).step_by(L::WIDTH) {
            // SAFETY: at < n, and at most the n - at elements from there are touched.
            unsafe {
                let x = L::load_single(self.vector.as_ptr().add(at), L::WIDTH.min(n - at));
                let to = self.out.as_mut_ptr().add(at);
                x.times(L::splat(self.scale)).store_up_to(to, n - at);
            }
        }
    }
}
