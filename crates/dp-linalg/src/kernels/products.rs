//! Inner products of a few rows, with columns and with each other.

use super::dispatch::{Kernel, Operation};
use super::lanes::Lanes;
use super::rows::Rows;
use crate::packed::packed_len;

/// Writes the inner products of each row with some columns, followed by its squared norm.
#[derive(Debug)]
pub(crate) struct RowProducts<'a, T> {
    rows: Rows<'a, T>,
    columns: &'a [T],
    out: &'a mut [T],
}

impl<'a, T> RowProducts<'a, T> {
    /// The columns are as long as a row, one after the other.
    ///
    /// # Panics
    /// If `out` does not have one element for each row and column and one more for each row.
    pub(crate) fn new(rows: Rows<'a, T>, columns: &'a [T], out: &'a mut [T]) -> Self {
        let n_columns = columns.len() / rows.width();
        assert!(columns.len() == n_columns * rows.width());
        assert!(Some(out.len()) == rows.count().checked_mul(n_columns + 1));
        Self { rows, columns, out }
    }
}

/// Inner products of `x` with each of `others`, computed together.
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
    // SAFETY: whole <= dim, and what remains from there is less than a vector.
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

/// Writes the inner product of each row with one vector.
#[derive(Debug)]
pub(crate) struct RowScores<'a, T> {
    rows: Rows<'a, T>,
    vector: &'a [T],
    out: &'a mut [T],
}

impl<'a, T> RowScores<'a, T> {
    /// # Panics
    /// If the vector is not as long as a row, or `out` does not have one element for each row.
    pub(crate) fn new(rows: Rows<'a, T>, vector: &'a [T], out: &'a mut [T]) -> Self {
        assert!(vector.len() == rows.width() && out.len() == rows.count());
        Self { rows, vector, out }
    }
}

impl<T: Kernel> Operation<T> for RowScores<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let (dim, vector) = (self.vector.len(), self.vector.as_ptr());
        let (fives, rest) = self.out.as_chunks_mut::<5>();
        let n_in_fives = 5 * fives.len();
        // SAFETY: `Rows` makes the first `dim` elements of as many rows readable as `out` has elements.
        unsafe {
            let row = |r: usize| self.rows.as_ptr().add(r * self.rows.stride());
            for (at, out) in fives.iter_mut().enumerate() {
                let five = std::array::from_fn::<_, 5, _>(|k| row(5 * at + k));
                put(side_by_side::<L, 5>(vector, five, dim), out);
            }
            for (at, out) in rest.iter_mut().enumerate() {
                let one = side_by_side::<L, 1>(vector, [row(n_in_fives + at)], dim);
                *out = one[0].sum();
            }
        }
    }
}

/// Writes the sums of the lanes and returns their number.
///
/// # Safety
/// Instructions of `L`.
#[inline(always)]
unsafe fn put<L: Lanes, const N: usize>(sums: [L; N], out: &mut [L::Scalar]) -> usize {
    for (out, sum) in out.iter_mut().zip(sums) {
        // SAFETY: guaranteed by the caller.
        *out = unsafe { sum.sum() };
    }
    N
}

/// Writes the inner products of all pairs of rows: each row first with itself and then with those
/// after it.
#[derive(Debug)]
pub(crate) struct PairProducts<'a, T> {
    rows: Rows<'a, T>,
    out: &'a mut [T],
}

impl<'a, T> PairProducts<'a, T> {
    /// # Panics
    /// If `out` does not have one element for each pair.
    pub(crate) fn new(rows: Rows<'a, T>, out: &'a mut [T]) -> Self {
        assert!(out.len() == packed_len(rows.count()));
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
        // SAFETY: equal lengths; the instructions are guaranteed by the caller.
        unsafe { dot::<L>(self.0, self.0) }
    }
}

/// Writes the inner product of each row with `vector`.
#[derive(Debug)]
pub(crate) struct Scores<'a, T> {
    rows: &'a [T],
    vector: &'a [T],
    out: &'a mut [T],
}

impl<'a, T> Scores<'a, T> {
    /// # Panics
    /// If `rows` does not have one row for each element of `out`.
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
            // SAFETY: the instructions are guaranteed by the caller; both slices have `dim`
            // elements.
            *score = unsafe { dot::<L>(&self.rows[r * dim..][..dim], self.vector) };
        }
    }
}

/// Inner product with four running vectors.
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
