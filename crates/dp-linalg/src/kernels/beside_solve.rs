//! Small definite systems side by side.

use super::beside::{Across, SETS};
use super::dispatch::Operation;
use super::lanes::Lanes;
use crate::packed::packed_len;

/// Solves `(A + lift I) x = b` over `b` by Cholesky. `A` is the packed upper triangle and is overwritten. A pivot that is not above zero takes its
/// unknown out: it becomes zero.
#[derive(Debug)]
pub(crate) struct SolveBeside<'a> {
    matrix: &'a mut [Across],
    lifts: &'a Across,
    x: &'a mut [Across],
}

impl<'a> SolveBeside<'a> {
    /// # Panics
    /// When the matrix is not the triangle of a side as long as `x`.
    pub(crate) fn new(matrix: &'a mut [Across], lifts: &'a Across, x: &'a mut [Across]) -> Self {
        assert!(matrix.len() == packed_len(x.len()));
        Self { matrix, lifts, x }
    }

    /// The systems from `first` on.
    ///
    /// # Safety
    /// `first + L::WIDTH` is at most [`SETS`]; instructions of `L`.
    #[inline(always)]
    unsafe fn solve<L: Lanes<Scalar = f32>>(&mut self, first: usize) {
        let n = self.x.len();
        let Self { matrix, x, .. } = self;
        // where row k of the triangle starts, less k
        let row = |k: usize| k * n - k * (k + 1) / 2;
        // SAFETY: sets and instructions as the caller vouches.
        unsafe {
            let lift: L = self.lifts.get(first);
            for k in 0..n {
                let pivot: L = matrix[row(k) + k].get::<L>(first).plus(lift);
                let inverse = L::splat(1.0).over(pivot.root());
                let inverse = pivot.where_positive(inverse, L::zero());
                matrix[row(k) + k].set(first, inverse);
                let known = x[k].get::<L>(first).times(inverse);
                x[k].set(first, known);
                for c in k + 1..n {
                    let u = matrix[row(k) + c].get::<L>(first).times(inverse);
                    matrix[row(k) + c].set(first, u);
                }
                for r in k + 1..n {
                    let u: L = matrix[row(k) + r].get(first);
                    let left = x[r].get::<L>(first).minus_product(u, known);
                    x[r].set(first, left);
                    for c in r..n {
                        let right = matrix[row(k) + c].get(first);
                        let left = matrix[row(r) + c].get::<L>(first);
                        matrix[row(r) + c].set(first, left.minus_product(u, right));
                    }
                }
            }
            for k in (0..n).rev() {
                let mut left: L = x[k].get(first);
                for c in k + 1..n {
                    left = left.minus_product(matrix[row(k) + c].get(first), x[c].get(first));
                }
                x[k].set(first, left.times(matrix[row(k) + k].get(first)));
            }
        }
    }
}

impl Operation<f32> for SolveBeside<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(mut self) {
        for first in (0..SETS).step_by(L::WIDTH) {
            // SAFETY: widths divide `SETS`; instructions as the caller vouches.
            unsafe { self.solve::<L>(first) };
        }
    }
}
