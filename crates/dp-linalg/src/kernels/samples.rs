//! A few rows of one user, read where they lie.

use super::dispatch::{Kernel, Operation};
use super::lanes::Lanes;
use super::rows::Rows;
use super::score::dot;

/// Writes the inner products of each row with some columns, and behind them its squared norm.
#[derive(Debug)]
pub(crate) struct RowProducts<'a, T> {
    rows: Rows<'a, T>,
    columns: &'a [T],
    out: &'a mut [T],
}

impl<'a, T> RowProducts<'a, T> {
    /// Columns as long as a row, one after the other.
    ///
    /// # Panics
    /// When `out` does not hold one number for each row and column and one more for each row.
    pub(crate) fn new(rows: Rows<'a, T>, columns: &'a [T], out: &'a mut [T]) -> Self {
        let n_columns = columns.len() / rows.width();
        assert!(columns.len() == n_columns * rows.width());
        assert!(out.len() == rows.count() * (n_columns + 1));
        Self { rows, columns, out }
    }
}

/// Inner products of `x` with each of `others`, side by side.
///
/// # Safety
/// All can be read for `dim` elements; instructions of `L`.
#[inline(always)]
unsafe fn side_by_side<L: Lanes, const N: usize>(
    x: *const L::Scalar,
    others: [*const L::Scalar; N],
    dim: usize,
) -> [L; N] {
    let whole = dim / L::WIDTH * L::WIDTH;
    // SAFETY: whole <= dim, and what is left from there is less than a vector.
    unsafe {
        let mut sums = [L::zero(); N];
        for i in (0..whole).step_by(L::WIDTH) {
            let a = L::load(x.add(i));
            for k in 0..N {
                sums[k] = sums[k].plus_product(a, L::load(others[k].add(i)));
            }
        }
        if whole < dim {
            let rest = dim - whole;
            let a = L::load_first(x.add(whole), rest);
            for k in 0..N {
                let b = L::load_first(others[k].add(whole), rest);
                sums[k] = sums[k].plus_product(a, b);
            }
        }
        sums
    }
}

impl<T: Kernel> Operation<T> for RowProducts<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let dim = self.rows.width();
        let n = self.columns.len() / dim + 1;
        for (r, out) in self.out.chunks_exact_mut(n).enumerate() {
            // SAFETY: `Rows` makes `dim` elements of each of its rows readable, of which `out` has as many; column
            // k < n - 1 has `dim` elements.
            unsafe {
                let x = self.rows.as_ptr().add(r * self.rows.stride());
                let other = |k: usize| match k + 1 < n {
                    true => self.columns.as_ptr().add(k * dim),
                    false => x,
                };
                let mut first = 0;
                while first < n {
                    let to = &mut out[first..];
                    first += match n - first {
                        1 => put(side_by_side::<L, 1>(x, [other(first)], dim), to),
                        2 => put(
                            side_by_side::<L, 2>(x, [other(first), other(first + 1)], dim),
                            to,
                        ),
                        _ => {
                            let three = [other(first), other(first + 1), other(first + 2)];
                            put(side_by_side::<L, 3>(x, three, dim), to)
                        }
                    };
                }
            }
        }
    }
}

/// Writes the sums of the lanes and returns how many they are.
///
/// # Safety
/// Instructions of `L`.
#[inline(always)]
unsafe fn put<L: Lanes, const N: usize>(sums: [L; N], out: &mut [L::Scalar]) -> usize {
    for (out, sum) in out.iter_mut().zip(sums) {
        // SAFETY: as the caller vouches.
        *out = unsafe { sum.sum() };
    }
    N
}

/// Writes `sum_r c_r row_r`.
#[derive(Debug)]
pub(crate) struct RowSum<'a, T> {
    rows: Rows<'a, T>,
    coefficients: &'a [T],
    out: &'a mut [T],
}

impl<'a, T> RowSum<'a, T> {
    /// # Panics
    /// When there is not one coefficient for each row, or `out` has another length than a row.
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
/// `n` is above `(N - 1) L::WIDTH`, and so many elements can be read; instructions of `L`.
#[inline(always)]
unsafe fn add_multiple<L: Lanes, const N: usize>(
    sums: &mut [L; N],
    scale: L::Scalar,
    row: *const L::Scalar,
    n: usize,
) {
    // SAFETY: vector v < N starts below n and covers at most what is left from there.
    unsafe {
        let scale = L::splat(scale);
        for v in 0..N {
            let x = L::load_up_to(row.add(v * L::WIDTH), n - v * L::WIDTH);
            sums[v] = sums[v].plus_product(scale, x);
        }
    }
}

impl<T: Kernel> RowSum<'_, T> {
    /// The sums of `N` vectors of columns from `first` on, even and odd rows apart to hide the latency of addition.
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
            // SAFETY: no more vectors than are left, the last of which starts inside `out`.
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
    /// When `matrix` does not have a row of `width` for each element of a row, or `out` for each row.
    pub(crate) fn new(rows: Rows<'a, T>, matrix: &'a [T], width: usize, out: &'a mut [T]) -> Self {
        assert!(matrix.len() == rows.width() * width && out.len() == rows.count() * width);
        Self {
            rows,
            matrix,
            width,
            out,
        }
    }

    /// Rows `row..row + R`, vectors `first..first + N`.
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
        // SAFETY: element c of each row is below its length, which is the number of the matrix's rows; vectors
        // are within the width as the caller vouches.
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

    /// All vectors of rows `row..row + R`.
    ///
    /// # Safety
    /// As [`write`](Self::write).
    #[inline(always)]
    unsafe fn write_rows<L: Lanes<Scalar = T>, const R: usize>(&mut self, row: usize) {
        let n_vectors = self.width / L::WIDTH;
        let mut done = 0;
        while done < n_vectors {
            // SAFETY: no more vectors than are left; rows as the caller vouches.
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
            // SAFETY: no more rows than are left.
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

/// Writes the inner products of all pairs of rows, each row first with itself and then with those behind it.
#[derive(Debug)]
pub(crate) struct PairProducts<'a, T> {
    rows: Rows<'a, T>,
    out: &'a mut [T],
}

impl<'a, T> PairProducts<'a, T> {
    /// # Panics
    /// When `out` does not hold a number for each pair.
    pub(crate) fn new(rows: Rows<'a, T>, out: &'a mut [T]) -> Self {
        assert!(out.len() == rows.count() * (rows.count() + 1) / 2);
        Self { rows, out }
    }
}

impl<T: Kernel> Operation<T> for PairProducts<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let (count, dim, stride) = (self.rows.count(), self.rows.width(), self.rows.stride());
        let mut out = self.out;
        for r in 0..count {
            // SAFETY: `Rows` makes `dim` elements of each of its `count` rows readable.
            unsafe {
                let row = |s: usize| self.rows.as_ptr().add(s * stride);
                let mut s = r;
                while s < count {
                    let n = if count - s >= 4 {
                        let four = [row(s), row(s + 1), row(s + 2), row(s + 3)];
                        put(side_by_side::<L, 4>(row(r), four, dim), out)
                    } else {
                        put(side_by_side::<L, 1>(row(r), [row(s)], dim), out)
                    };
                    s += n;
                    out = out.split_at_mut(n).1;
                }
            }
        }
    }
}

/// Returns the sum of the squares.
#[derive(Debug)]
pub(crate) struct SumOfSquares<'a, T>(pub(crate) &'a [T]);

impl<T: Kernel> Operation<T> for SumOfSquares<'_, T> {
    type Output = T;

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) -> T {
        // SAFETY: equal lengths; instructions as the caller vouches.
        unsafe { dot::<L>(self.0, self.0) }
    }
}
