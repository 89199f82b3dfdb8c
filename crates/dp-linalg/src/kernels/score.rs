//! Inner products.

use super::Kernel;
use super::dispatch::Operation;
use super::lanes::Lanes;

/// Writes the inner product of each row with `vector`.
#[derive(Debug)]
pub(crate) struct Scores<'a, T> {
    rows: &'a [T],
    vector: &'a [T],
    out: &'a mut [T],
}

impl<'a, T> Scores<'a, T> {
    /// # Panics
    /// When `rows` does not hold one row for each element of `out`.
    pub(crate) fn new(rows: &'a [T], vector: &'a [T], out: &'a mut [T]) -> Self {
        assert!(rows.len() == vector.len() * out.len());
        Self { rows, vector, out }
    }
}

impl<T: Kernel> Operation<T> for Scores<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let dim = self.vector.len();
        for (r, score) in self.out.iter_mut().enumerate() {
            // SAFETY: instructions as the caller vouches; both slices have `dim` elements.
            *score = unsafe { dot::<L>(&self.rows[r * dim..][..dim], self.vector) };
        }
    }
}

/// Inner product in four running vectors.
///
/// # Safety
/// Equal lengths; instructions of `L`.
#[inline(always)]
pub(super) unsafe fn dot<L: Lanes>(x: &[L::Scalar], y: &[L::Scalar]) -> L::Scalar {
    let n = x.len();
    debug_assert_eq!(n, y.len());
    let step = 4 * L::WIDTH;
    let (blocks, whole) = (n / step * step, n / L::WIDTH * L::WIDTH);
    // SAFETY: every index below stays under n.
    unsafe {
        let (x, y) = (x.as_ptr(), y.as_ptr());
        let mut sums = [L::zero(); 4];
        for i in (0..blocks).step_by(step) {
            for (v, sum) in sums.iter_mut().enumerate() {
                let at = i + v * L::WIDTH;
                *sum = sum.plus_product(L::load(x.add(at)), L::load(y.add(at)));
            }
        }
        for i in (blocks..whole).step_by(L::WIDTH) {
            sums[0] = sums[0].plus_product(L::load(x.add(i)), L::load(y.add(i)));
        }
        if whole < n {
            let rest = n - whole;
            let (a, b) = (
                L::load_first(x.add(whole), rest),
                L::load_first(y.add(whole), rest),
            );
            sums[1] = sums[1].plus_product(a, b);
        }
        sums[0].plus(sums[1]).plus(sums[2].plus(sums[3])).sum()
    }
}
