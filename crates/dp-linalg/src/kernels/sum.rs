//! Sums of gathered rows.

use super::ahead::Ahead;
use super::dispatch::Operation;
use super::lanes::Lanes;

/// Adds `sum_r coefficient_r factors_index` to `out`.
#[derive(Debug)]
pub(crate) struct GatheredSum<'a> {
    factors: &'a [f32],
    indices: &'a [u32],
    coefficients: &'a [f64],
    /// Rows to be fetched from memory meanwhile.
    ahead: Ahead<'a>,
    out: &'a mut [f64],
}

impl<'a> GatheredSum<'a> {
    /// Rows have the length of `out`.
    ///
    /// # Panics
    /// When an index is not below the number of rows, or there is not one coefficient for each index.
    pub(crate) fn new(
        factors: &'a [f32],
        indices: &'a [u32],
        coefficients: &'a [f64],
        ahead: Ahead<'a>,
        out: &'a mut [f64],
    ) -> Self {
        let n_rows = factors.len().checked_div(out.len()).unwrap_or(0);
        assert!(indices.len() == coefficients.len());
        assert!(indices.iter().all(|&index| (index as usize) < n_rows));
        Self {
            factors,
            indices,
            coefficients,
            ahead,
            out,
        }
    }
}

impl GatheredSum<'_> {
    /// The sums of `N` vectors of columns from `first` on, in registers while the rows go by.
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
        self.ahead.fetch(0..1, 1);
        let n_vectors = self.out.len().div_ceil(L::WIDTH);
        let mut done = 0;
        while done < n_vectors {
            let first = done * L::WIDTH;
            // SAFETY: no more vectors than are left, the last of which starts inside `out`.
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
