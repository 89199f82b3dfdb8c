//! Weighted sums of a few rows, and rows times a matrix.

use super::dispatch::{Kernel, Operation};
use super::lanes::Lanes;
use super::rows::Rows;

/// Writes `sum_r c_r row_r`.
#[derive(Debug)]
pub(crate) struct RowSum<'a, T> {
    rows: Rows<'a, T>,
    coefficients: &'a [T],
    out: &'a mut [T],
}

impl<'a, T> RowSum<'a, T> {
    /// # Panics
    /// If there is not one coefficient for each row, or `out` has another length than a row.
    pub(crate) fn new(rows: Rows<'a, T>, coefficients: &'a [T], out: &'a mut [T]) -> Self {
        assert!(rows.count() == coefficients.len() && rows.width() == out.len());
        Self {
            rows,
            coefficients,
            out,
        }
    }
}

/// Adds `scale` times the first `n` elements at `row`, `N` vectors wide, to `sums`.
///
/// # Safety
/// `n` is above `(N - 1) L::WIDTH`, and that many elements can be read; instructions of `L`.
#[inline(always)]
unsafe fn add_multiple<L: Lanes, const N: usize>(
    sums: &mut [L; N],
    scale: L::Scalar,
    row: *const L::Scalar,
    n: usize,
) {
    // SAFETY: vector v < N starts below n and covers at most what remains from there.
    unsafe {
        let scale = L::splat(scale);
        for v in 0..N {
            let x = L::load_up_to(row.add(v * L::WIDTH), n - v * L::WIDTH);
            sums[v] = sums[v].plus_product(scale, x);
        }
    }
}

impl<T: Kernel> RowSum<'_, T> {
    /// The sums of `N` vectors of columns starting at `first`, with even and odd rows summed
    /// separately to hide the latency of addition.
    ///
    /// # Safety
    /// Instructions of `L`; `first + (N - 1) L::WIDTH` is below the length of `out`.
    #[inline(always)]
    unsafe fn write_columns<L: Lanes<Scalar = T>, const N: usize>(&mut self, first: usize) {
        let (len, stride) = (self.out.len(), self.rows.stride());
        let left = |v: usize| L::WIDTH.min(len - first - v * L::WIDTH);
        // SAFETY: vector v < N starts at a column below the row's length and covers the `left(v)` columns from there.
        unsafe {
            let row = |r: usize| self.rows.as_ptr().add(r * stride + first);
            let mut sums = [[L::zero(); N]; 2];
            let pairs = self.coefficients.chunks_exact(2);
            if let [last] = pairs.remainder() {
                add_multiple(&mut sums[0], *last, row(self.rows.count() - 1), len - first);
            }
            for (pair, c) in pairs.enumerate() {
                add_multiple(&mut sums[0], c[0], row(2 * pair), len - first);
                add_multiple(&mut sums[1], c[1], row(2 * pair + 1), len - first);
            }
            for v in 0..N {
                let to = self.out.as_mut_ptr().add(first + v * L::WIDTH);
                sums[0][v].plus(sums[1][v]).store_up_to(to, left(v));
            }
        }
    }
}

impl<T: Kernel> Operation<T> for RowSum<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(mut self) {
        let n_vectors = self.out.len().div_ceil(L::WIDTH);
        let mut done = 0;
        while done < n_vectors {
            let first = done * L::WIDTH;
            // SAFETY: no more vectors than remain, the last of which starts inside `out`.
            unsafe {
                done += match n_vectors - done {
                    1 => {
                        self.write_columns::<L, 1>(first);
                        1
                    }
                    2 | 3 => {
                        self.write_columns::<L, 2>(first);
                        2
                    }
                    _ => {
                        self.write_columns::<L, 4>(first);
                        4
                    }
                };
            }
        }
    }
}

/// Writes each row times a matrix whose rows are padded to whole vectors.
#[derive(Debug)]
pub(crate) struct RowsTimes<'a, T> {
    rows: Rows<'a, T>,
    matrix: &'a [T],
    width: usize,
    out: &'a mut [T],
}

impl<'a, T: Copy> RowsTimes<'a, T> {
    /// # Panics
    /// If `matrix` does not have a row of `width` for each element of a row, or `out` does not have
    /// one for each row.
    pub(crate) fn new(rows: Rows<'a, T>, matrix: &'a [T], width: usize, out: &'a mut [T]) -> Self {
        assert!(matrix.len() == rows.width() * width && out.len() == rows.count() * width);
        Self {
            rows,
            matrix,
            width,
            out,
        }
    }

    /// Writes vectors `first..first + N` of rows `row..row + R`.
    ///
    /// # Safety
    /// They are within the rows and the width; instructions of `L`.
    #[inline(always)]
    unsafe fn write<L: Lanes<Scalar = T>, const R: usize, const N: usize>(
        &mut self,
        row: usize,
        first: usize,
    ) {
        let (stride, width) = (self.rows.stride(), self.width);
        // SAFETY: element c of each row is below its length, which is the number of rows of the
        // matrix; vectors are within the width, guaranteed by the caller.
        unsafe {
            let x = self.rows.as_ptr().add(row * stride);
            let mut sums = [[L::zero(); N]; R];
            for c in 0..self.rows.width() {
                let m = self.matrix.as_ptr().add(c * width + first * L::WIDTH);
                let mut line = [L::zero(); N];
                for v in 0..N {
                    line[v] = L::load(m.add(v * L::WIDTH));
                }
                for r in 0..R {
                    let scale = L::splat(*x.add(r * stride + c));
                    for v in 0..N {
                        sums[r][v] = sums[r][v].plus_product(scale, line[v]);
                    }
                }
            }
            for r in 0..R {
                let to = self
                    .out
                    .as_mut_ptr()
                    .add((row + r) * width + first * L::WIDTH);
                for v in 0..N {
                    sums[r][v].store(to.add(v * L::WIDTH));
                }
            }
        }
    }

    /// Writes all vectors of rows `row..row + R`.
    ///
    /// # Safety
    /// As [`write`](Self::write).
    #[inline(always)]
    unsafe fn write_rows<L: Lanes<Scalar = T>, const R: usize>(&mut self, row: usize) {
        let n_vectors = self.width / L::WIDTH;
        let mut done = 0;
        while done < n_vectors {
            // SAFETY: no more vectors than remain; the rows are guaranteed by the caller.
            unsafe {
                done += match n_vectors - done {
                    1 => {
                        self.write::<L, R, 1>(row, done);
                        1
                    }
                    2 | 3 => {
                        self.write::<L, R, 2>(row, done);
                        2
                    }
                    _ => {
                        self.write::<L, R, 4>(row, done);
                        4
                    }
                };
            }
        }
    }
}

impl<T: Kernel> Operation<T> for RowsTimes<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(mut self) {
        assert!(self.width.is_multiple_of(L::WIDTH));
        let count = self.rows.count();
        let mut row = 0;
        while row < count {
            // SAFETY: no more rows than remain.
            unsafe {
                row += match count - row {
                    1 => {
                        self.write_rows::<L, 1>(row);
                        1
                    }
                    2..5 => {
                        self.write_rows::<L, 2>(row);
                        2
                    }
                    _ => {
                        self.write_rows::<L, 5>(row);
                        5
                    }
                };
            }
        }
    }
}
