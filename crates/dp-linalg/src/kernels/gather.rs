//! The copy of chosen rows into a block.

use super::dispatch::{Kernel, Operation};
use super::lanes::Lanes;

/// Copies rows `indices` of `factors` into `out`, padded with zeros to `width`; with weights,
/// also the rows times their weights into `scaled`.
#[derive(Debug)]
pub(crate) struct Gather<'a, T> {
    factors: &'a [T],
    indices: &'a [u32],
    dim: usize,
    width: usize,
    out: &'a mut [T],
    scaled: Option<(&'a [T], &'a mut [T])>,
}

impl<'a, T> Gather<'a, T> {
    /// The caller has checked that `indices` are below `factors.len() / dim`.
    ///
    /// # Panics
    /// When a buffer is shorter than `indices.len() * width`, or `width` below `dim`.
    pub(crate) fn new(
        factors: &'a [T],
        indices: &'a [u32],
        dim: usize,
        width: usize,
        out: &'a mut [T],
        scaled: Option<(&'a [T], &'a mut [T])>,
    ) -> Self {
        assert!(dim <= width && indices.len() * width <= out.len());
        if let Some((weights, scaled)) = &scaled {
            assert!(weights.len() == indices.len() && scaled.len() >= indices.len() * width);
        }
        Self {
            factors,
            indices,
            dim,
            width,
            out,
            scaled,
        }
    }
}

impl<T: Kernel> Operation<T> for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let Self { dim, width, .. } = self;
        let mut scaled = self.scaled;
        for (r, &index) in self.indices.iter().enumerate() {
            let row = &self.factors[index as usize * dim..][..dim];
            for col in (0..width).step_by(L::WIDTH) {
                // SAFETY: `row` has dim elements, of which at most dim - col are read from col on
                // (`width` is dim rounded up to WIDTH, so col < dim); row r of `out` and of
                // `scaled` has `width` elements by the constructor's assertion.
                unsafe {
                    let x = L::load_up_to(row.as_ptr().add(col), dim - col);
                    x.store(self.out.as_mut_ptr().add(r * width + col));
                    if let Some((weights, to)) = &mut scaled {
                        let w = L::splat(*weights.get_unchecked(r));
                        w.times(x).store(to.as_mut_ptr().add(r * width + col));
                    }
                }
            }
        }
    }
}
