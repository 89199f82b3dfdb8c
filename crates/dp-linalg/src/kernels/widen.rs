//! Rows of single precision in double precision: as they are, and scaled and rounded toward zero to integers.

use super::dispatch::Operation;
use super::lanes::Lanes;
use super::rows::Rows;

/// Writes rows in double precision, padded with zeros to whole vectors.
#[derive(Debug)]
pub(crate) struct Widen<'a> {
    rows: Rows<'a, f32>,
    width: usize,
    out: &'a mut [f64],
}

impl<'a> Widen<'a> {
    /// # Panics
    /// When `out` does not have `width` elements, at least as many as a row, for each row.
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
    /// When there is not one scale for each row, or `out` does not have `width` elements, at least as many as a row, for each.
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
