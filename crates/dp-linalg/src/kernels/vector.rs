//! Vectors on a grid: quotients rounded toward zero, their exact squared norm, and sums.

use super::dispatch::Operation;
use super::lanes::Lanes;
use super::rows::{Prefetch, Rows};

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
    /// Maximum number of values: with a limit of 2^43, the sums of that many products are below
    /// 2^53.
    pub(crate) const MOST: usize = 256;

    /// # Panics
    /// If lengths differ, there are too many values, or the limit is above 2^43.
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
    /// If the lengths differ.
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
            // SAFETY: at < n, and at most the n - at elements from there are accessed.
            unsafe {
                let to = self.sums.as_mut_ptr().add(at);
                let more = L::load_up_to(self.vector.as_ptr().add(at), n - at);
                L::load_up_to(to, n - at).plus(more).store_up_to(to, n - at);
            }
        }
    }
}

/// Writes `scale` times a single-precision vector.
#[derive(Debug)]
pub(crate) struct ScaledCopy<'a> {
    vector: &'a [f32],
    scale: f64,
    out: &'a mut [f64],
}

impl<'a> ScaledCopy<'a> {
    /// # Panics
    /// If the lengths differ.
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
            // SAFETY: at < n, and at most the n - at elements from there are accessed.
            unsafe {
                let x = L::load_single(self.vector.as_ptr().add(at), L::WIDTH.min(n - at));
                let to = self.out.as_mut_ptr().add(at);
                x.times(L::splat(self.scale)).store_up_to(to, n - at);
            }
        }
    }
}

/// Adds `sum_r coefficient_r factors_index` to `out`.
#[derive(Debug)]
pub(crate) struct GatheredSum<'a> {
    factors: &'a [f32],
    indices: &'a [u32],
    coefficients: &'a [f64],
    /// Rows to be prefetched meanwhile.
    prefetch: Prefetch<'a>,
    out: &'a mut [f64],
}

impl<'a> GatheredSum<'a> {
    /// Rows have the length of `out`.
    ///
    /// # Panics
    /// If an index is not below the number of rows, or there is not one coefficient for each index.
    pub(crate) fn new(
        factors: &'a [f32],
        indices: &'a [u32],
        coefficients: &'a [f64],
        prefetch: Prefetch<'a>,
        out: &'a mut [f64],
    ) -> Self {
        let n_rows = factors.len().checked_div(out.len()).unwrap_or(0);
        assert!(indices.len() == coefficients.len());
        assert!(indices.iter().all(|&index| (index as usize) < n_rows));
        Self {
            factors,
            indices,
            coefficients,
            prefetch,
            out,
        }
    }
}

impl GatheredSum<'_> {
    /// The sums of `N` vectors of columns starting at `first`, in registers while the rows are
    /// processed.
    ///
    /// # Safety
    /// Instructions of `L`; `first + (N - 1) L::WIDTH` is below the length of `out`.
    #[inline(always)]
    unsafe fn add_columns<L: Lanes<Scalar = f64>, const N: usize>(&mut self, first: usize) {
        let dim = self.out.len();
        let left = |v: usize| L::WIDTH.min(dim - first - v * L::WIDTH);
        // SAFETY: vector v < N starts at a column below dim and covers the `left(v)` columns from there, of
        // `out` and of a row; the constructor has checked that all rows are inside `factors`.
        unsafe {
            let mut sums = [L::zero(); N];
            for (&index, &coefficient) in self.indices.iter().zip(self.coefficients) {
                let row = self.factors.as_ptr().add(index as usize * dim + first);
                let scale = L::splat(coefficient);
                for v in 0..N {
                    let x = L::load_single(row.add(v * L::WIDTH), left(v));
                    sums[v] = sums[v].plus_product(scale, x);
                }
            }
            for v in 0..N {
                let at = self.out.as_mut_ptr().add(first + v * L::WIDTH);
                sums[v]
                    .plus(L::load_up_to(at, left(v)))
                    .store_up_to(at, left(v));
            }
        }
    }
}

impl Operation<f64> for GatheredSum<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(mut self) {
        self.prefetch.fetch(0..1, 1);
        let n_vectors = self.out.len().div_ceil(L::WIDTH);
        let mut done = 0;
        while done < n_vectors {
            let first = done * L::WIDTH;
            // SAFETY: no more vectors than remain, the last of which starts inside `out`.
            unsafe {
                match n_vectors - done {
                    1 => self.add_columns::<L, 1>(first),
                    2 | 3 => self.add_columns::<L, 2>(first),
                    4..8 => self.add_columns::<L, 4>(first),
                    _ => self.add_columns::<L, 8>(first),
                }
            }
            done += match n_vectors - done {
                1 => 1,
                2 | 3 => 2,
                4..8 => 4,
                _ => 8,
            };
        }
    }
}

/// Writes rows in double precision, padded with zeros to whole vectors.
#[derive(Debug)]
pub(crate) struct Widen<'a> {
    rows: Rows<'a, f32>,
    width: usize,
    out: &'a mut [f64],
}

impl<'a> Widen<'a> {
    /// # Panics
    /// If `out` does not have `width` elements, at least as many as a row, for each row.
    pub(crate) fn new(rows: Rows<'a, f32>, width: usize, out: &'a mut [f64]) -> Self {
        assert!(rows.width() <= width && out.len() == rows.count() * width);
        Self { rows, width, out }
    }
}

impl Operation<f64> for Widen<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(self) {
        let (dim, width) = (self.rows.width(), self.width);
        assert!(width.is_multiple_of(L::WIDTH) && width - dim < L::WIDTH);
        for (r, out) in self.out.chunks_exact_mut(width).enumerate() {
            for col in (0..width).step_by(L::WIDTH) {
                // SAFETY: col < dim, and at most the dim - col elements of the row from there are read; `out` has
                // a whole vector from col on.
                unsafe {
                    let from = self.rows.as_ptr().add(r * self.rows.stride() + col);
                    let x = L::load_single(from, L::WIDTH.min(dim - col));
                    x.store(out.as_mut_ptr().add(col));
                }
            }
        }
    }
}

/// Writes the integer rows `trunc(scale_r row_r)`, clamped to `±limit` and padded with zeros to whole vectors.
#[derive(Debug)]
pub(crate) struct IntegerRows<'a> {
    rows: Rows<'a, f32>,
    scales: &'a [f32],
    limit: f64,
    width: usize,
    out: &'a mut [f64],
}

impl<'a> IntegerRows<'a> {
    /// # Panics
    /// If there is not one scale for each row, or `out` does not have `width` elements, at least as
    /// many as a row, for each.
    pub(crate) fn new(
        rows: Rows<'a, f32>,
        scales: &'a [f32],
        limit: f64,
        width: usize,
        out: &'a mut [f64],
    ) -> Self {
        assert!(rows.count() == scales.len() && rows.width() <= width);
        assert!(out.len() == rows.count() * width);
        Self {
            rows,
            scales,
            limit,
            width,
            out,
        }
    }
}

impl Operation<f64> for IntegerRows<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(self) {
        let (dim, width) = (self.rows.width(), self.width);
        assert!(width.is_multiple_of(L::WIDTH) && width - dim < L::WIDTH);
        let rows = self.out.chunks_exact_mut(width).zip(self.scales);
        for (r, (out, &scale)) in rows.enumerate() {
            for col in (0..width).step_by(L::WIDTH) {
                // SAFETY: col < dim, and at most the dim - col elements of the row from there are read; `out` has
                // a whole vector from col on.
                unsafe {
                    let from = self.rows.as_ptr().add(r * self.rows.stride() + col);
                    let v = L::load_single(from, L::WIDTH.min(dim - col));
                    let x = L::splat(scale.into()).times(v).truncate_within(self.limit);
                    x.store(out.as_mut_ptr().add(col));
                }
            }
        }
    }
}

/// Writes the integer rows `trunc(scale_r factors_index)` into `out`, padded with zeros to
/// `width`.
///
/// The product of two single-precision numbers is exact in double precision, and clamping and
/// truncating are exact, so every instruction set gives the same integers.
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
    /// If `out` is shorter than `indices.len() * width`, `width` is below `dim`, or there is not
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
    /// If `out` does not have one element for each scale.
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
            // SAFETY: each load reads at most the dim - col remaining elements.
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
