//! Batched sets of rows: number (row, column) of every set in one vector, and the inverse.

use super::dispatch::Operation;
use super::lanes::{Lanes, MOST_LANES};
use super::rows::{Rows, Upcoming};
use crate::packed::packed_len;

/// Number of sets per batch.
pub(crate) const SETS: usize = MOST_LANES;

/// One number of each of several sets.
#[derive(Clone, Copy, Default, PartialEq)]
#[repr(C, align(64))]
pub struct Across(pub [f32; SETS]);

/// Prints nothing: the numbers may be private.
impl std::fmt::Debug for Across {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Across").finish_non_exhaustive()
    }
}

impl Across {
    /// The vector of the sets starting at `first`.
    ///
    /// # Safety
    /// `first + L::WIDTH` is at most [`SETS`]; instructions of `L`.
    #[inline(always)]
    pub(super) unsafe fn get<L: Lanes<Scalar = f32>>(&self, first: usize) -> L {
        // SAFETY: guaranteed by the caller.
        unsafe { L::load(self.0.as_ptr().add(first)) }
    }

    /// Overwrites the sets starting at `first`.
    ///
    /// # Safety
    /// As [`get`](Self::get).
    #[inline(always)]
    pub(super) unsafe fn set<L: Lanes<Scalar = f32>>(&mut self, first: usize, vector: L) {
        // SAFETY: guaranteed by the caller.
        unsafe { vector.store(self.0.as_mut_ptr().add(first)) }
    }
}

/// Writes number (r, c) of every set times the set's scale to `out[r dim + c]`, or zero if a set
/// has no such row, and returns the sums of the squares.
#[derive(Debug)]
pub(crate) struct Interleave<'a> {
    sets: &'a [Rows<'a, f32>],
    /// Used for rows that a set does not have.
    zeros: &'a [f32],
    scales: &'a Across,
    upcoming: &'a mut Upcoming,
    out: &'a mut [Across],
}

/// Number of cache lines prefetched per transposed square of numbers.
const LINES_AT_A_TIME: usize = 6;

impl<'a> Interleave<'a> {
    /// # Panics
    /// If there are more than [`SETS`] sets, their rows are not as long as `zeros`, or `out` is not
    /// a whole number of rows.
    pub(crate) fn new(
        sets: &'a [Rows<'a, f32>],
        zeros: &'a [f32],
        scales: &'a Across,
        upcoming: &'a mut Upcoming,
        out: &'a mut [Across],
    ) -> Self {
        assert!(sets.len() <= SETS && out.len().is_multiple_of(zeros.len()));
        assert!(sets.iter().all(|rows| rows.width() == zeros.len()));
        Self {
            sets,
            zeros,
            scales,
            upcoming,
            out,
        }
    }

    /// Writes as many sets, starting at `first`, as a vector has lanes.
    ///
    /// # Safety
    /// `first + L::WIDTH` is at most [`SETS`]; instructions of `L`.
    #[inline(always)]
    unsafe fn write<L: Lanes<Scalar = f32>>(&mut self, first: usize) -> L {
        let dim = self.zeros.len();
        // SAFETY: every pointer is to a row that can be read for `dim` elements, and a load reads
        // elements from a column below `dim` on and no more than remain; instructions and sets are
        // guaranteed by the caller.
        unsafe {
            let scale: L = self.scales.get(first);
            let mut squares = [L::zero(); 4];
            for (r, out) in self.out.chunks_exact_mut(dim).enumerate() {
                let mut from = [self.zeros.as_ptr(); SETS];
                for (from, set) in from.iter_mut().zip(self.sets.iter().skip(first)) {
                    if r < set.count() {
                        *from = set.as_ptr().add(r * set.stride());
                    }
                }
                let (whole, rest) = out.split_at_mut(dim / L::WIDTH * L::WIDTH);
                for (part, out) in whole.chunks_exact_mut(L::WIDTH).enumerate() {
                    let mut block = [L::zero(); MOST_LANES];
                    for l in 0..L::WIDTH {
                        block[l] = L::load(from[l].add(part * L::WIDTH));
                    }
                    self.upcoming.fetch(LINES_AT_A_TIME);
                    L::transpose(&mut block);
                    for i in 0..L::WIDTH {
                        let x = block[i].times(scale);
                        squares[i % 4] = squares[i % 4].plus_product(x, x);
                        out[i].set(first, x);
                    }
                }
                if !rest.is_empty() {
                    let (column, mut block) = (dim - rest.len(), [L::zero(); MOST_LANES]);
                    for l in 0..L::WIDTH {
                        block[l] = L::load_first(from[l].add(column), rest.len());
                    }
                    L::transpose(&mut block);
                    for (out, x) in rest.iter_mut().zip(block) {
                        let x = x.times(scale);
                        squares[0] = squares[0].plus_product(x, x);
                        out.set(first, x);
                    }
                }
            }
            let [a, b, c, d] = squares;
            a.plus(b).plus(c.plus(d))
        }
    }
}

impl Operation<f32> for Interleave<'_> {
    type Output = Across;

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(mut self) -> Across {
        let mut squares = Across::default();
        for first in (0..SETS).step_by(L::WIDTH) {
            // SAFETY: widths divide `SETS`; the instructions are guaranteed by the caller.
            unsafe {
                let found = self.write::<L>(first);
                squares.set(first, found);
            }
        }
        squares
    }
}

/// Writes the numbers of each set in order, starting with those of the first set.
#[derive(Debug)]
pub(crate) struct Separate<'a> {
    from: &'a [Across],
    out: &'a mut [f32],
}

impl<'a> Separate<'a> {
    /// # Panics
    /// If `out` is not a whole number of sets, at most [`SETS`].
    pub(crate) fn new(from: &'a [Across], out: &'a mut [f32]) -> Self {
        assert!(out.len().is_multiple_of(from.len().max(1)) && out.len() <= SETS * from.len());
        Self { from, out }
    }
}

impl Operation<f32> for Separate<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(self) {
        let dim = self.from.len().max(1);
        for (at, from) in self.from.chunks(L::WIDTH).enumerate() {
            for (group, out) in self.out.chunks_mut(L::WIDTH * dim).enumerate() {
                // SAFETY: widths divide `SETS`, and there are no more groups of sets than vectors
                // of them; a set has `from.len()` numbers from column `at L::WIDTH` on; the
                // instructions are guaranteed by the caller.
                unsafe {
                    let mut block = [L::zero(); MOST_LANES];
                    for (vector, from) in block.iter_mut().zip(from) {
                        *vector = from.get(group * L::WIDTH);
                    }
                    L::transpose(&mut block);
                    for (set, vector) in out.chunks_exact_mut(dim).zip(block) {
                        let to = set.as_mut_ptr().add(at * L::WIDTH);
                        vector.store_up_to(to, from.len());
                    }
                }
            }
        }
    }
}

/// Writes `L x` for every row `x`, with `L` a lower triangular matrix whose entries above the
/// diagonal are not read. The result for a row does not depend on how many rows are processed
/// together.
#[derive(Debug)]
pub(crate) struct LowerProducts<'a> {
    rows: &'a [Across],
    lower: &'a [f32],
    dim: usize,
    upcoming: &'a mut Upcoming,
    out: &'a mut [Across],
}

impl<'a> LowerProducts<'a> {
    /// # Panics
    /// If `lower` is not `(dim, dim)`, `rows` is not a whole number of rows, or `out` has another
    /// length than `rows`.
    pub(crate) fn new(
        rows: &'a [Across],
        lower: &'a [f32],
        dim: usize,
        upcoming: &'a mut Upcoming,
        out: &'a mut [Across],
    ) -> Self {
        assert!(dim > 0 && Some(lower.len()) == dim.checked_mul(dim));
        assert!(rows.len() == out.len() && rows.len().is_multiple_of(dim));
        Self {
            rows,
            lower,
            dim,
            upcoming,
            out,
        }
    }

    /// Writes numbers `at..at + A` of rows `row..row + R`.
    ///
    /// # Safety
    /// They exist, and so do the sets `first..first + L::WIDTH`; instructions of `L`.
    #[inline(always)]
    unsafe fn write<L: Lanes<Scalar = f32>, const R: usize, const A: usize>(
        &mut self,
        first: usize,
        row: usize,
        at: usize,
    ) {
        self.upcoming.fetch(10);
        let dim = self.dim;
        // SAFETY: at + A <= dim, so columns below it exist in rows and in rows at..at + A of the
        // matrix; the instructions are guaranteed by the caller.
        unsafe {
            let x = self.rows.as_ptr().add(row * dim);
            let matrix = self.lower.as_ptr().add(at * dim);
            let mut sums = [[L::zero(); A]; R];
            for c in 0..at {
                let mut scales = [L::zero(); A];
                for a in 0..A {
                    scales[a] = L::splat(*matrix.add(a * dim + c));
                }
                for r in 0..R {
                    let x: L = (*x.add(r * dim + c)).get(first);
                    for a in 0..A {
                        sums[r][a] = sums[r][a].plus_product(scales[a], x);
                    }
                }
            }
            for i in 0..A {
                let c = at + i;
                for r in 0..R {
                    let x: L = (*x.add(r * dim + c)).get(first);
                    for a in i..A {
                        let scale = L::splat(*matrix.add(a * dim + c));
                        sums[r][a] = sums[r][a].plus_product(scale, x);
                    }
                }
            }
            let to = self.out.as_mut_ptr().add(row * dim + at);
            for r in 0..R {
                for a in 0..A {
                    (*to.add(r * dim + a)).set(first, sums[r][a]);
                }
            }
        }
    }

    /// Writes all numbers of rows `row..row + R`, `A` at a time.
    ///
    /// # Safety
    /// As [`write`](Self::write).
    #[inline(always)]
    unsafe fn write_rows<L: Lanes<Scalar = f32>, const R: usize, const A: usize>(
        &mut self,
        first: usize,
        row: usize,
    ) {
        let whole = self.dim / A * A;
        // SAFETY: whole <= dim; rows and sets are guaranteed by the caller.
        unsafe {
            for at in (0..whole).step_by(A) {
                self.write::<L, R, A>(first, row, at);
            }
            for at in whole..self.dim {
                self.write::<L, R, 1>(first, row, at);
            }
        }
    }
}

impl Operation<f32> for LowerProducts<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(mut self) {
        let n_rows = self.rows.len() / self.dim;
        let whole = n_rows / 5 * 5;
        for first in (0..SETS).step_by(L::WIDTH) {
            // SAFETY: widths divide `SETS`, and there are `n_rows` rows; the instructions are
            // guaranteed by the caller.
            unsafe {
                for row in (0..whole).step_by(5) {
                    self.write_rows::<L, 5, 4>(first, row);
                }
                for row in whole..n_rows {
                    self.write_rows::<L, 1, 8>(first, row);
                }
            }
        }
    }
}

/// Writes the inner products of all pairs of rows: each row first with itself and then with those
/// after it.
#[derive(Debug)]
pub(crate) struct BatchedPairs<'a> {
    rows: &'a [Across],
    dim: usize,
    upcoming: &'a mut Upcoming,
    out: &'a mut [Across],
}

impl<'a> BatchedPairs<'a> {
    /// # Panics
    /// If `rows` is not a whole number of rows, or `out` does not have one element for each pair.
    pub(crate) fn new(
        rows: &'a [Across],
        dim: usize,
        upcoming: &'a mut Upcoming,
        out: &'a mut [Across],
    ) -> Self {
        assert!(dim > 0 && rows.len().is_multiple_of(dim));
        let n_rows = rows.len() / dim;
        assert!(out.len() == packed_len(n_rows));
        Self {
            rows,
            dim,
            upcoming,
            out,
        }
    }

    /// Rows `r..r + R` with rows `s..s + S`: the pairs whose second row is not before the first.
    ///
    /// # Safety
    /// They exist, `r = s` or `r + R <= s`, and so do the sets `first..first + L::WIDTH`; instructions of `L`.
    #[inline(always)]
    unsafe fn write<L: Lanes<Scalar = f32>, const R: usize, const S: usize>(
        &mut self,
        first: usize,
        r: usize,
        s: usize,
    ) {
        self.upcoming.fetch(16);
        let (dim, n_rows) = (self.dim, self.rows.len() / self.dim);
        // SAFETY: the rows are guaranteed by the caller, each with `dim` elements; the pair (a, b),
        // a <= b < n_rows, is among those of the constructor.
        unsafe {
            let (left, right) = (
                self.rows.as_ptr().add(r * dim),
                self.rows.as_ptr().add(s * dim),
            );
            let mut sums = [[L::zero(); S]; R];
            for c in 0..dim {
                let mut y = [L::zero(); S];
                for j in 0..S {
                    y[j] = (*right.add(j * dim + c)).get(first);
                }
                for i in 0..R {
                    let x = (*left.add(i * dim + c)).get(first);
                    for j in 0..S {
                        sums[i][j] = sums[i][j].plus_product(x, y[j]);
                    }
                }
            }
            for i in 0..R {
                let start = (r + i) * n_rows - (r + i) * (r + i + 1) / 2;
                for j in 0..S {
                    if s + j >= r + i {
                        let to = self.out.as_mut_ptr().add(start + s + j);
                        (*to).set(first, sums[i][j]);
                    }
                }
            }
        }
    }
}

impl Operation<f32> for BatchedPairs<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(mut self) {
        let n_rows = self.rows.len() / self.dim;
        let whole = n_rows / 5 * 5;
        for first in (0..SETS).step_by(L::WIDTH) {
            // SAFETY: blocks of five up to `whole`, single rows after that; widths divide `SETS`;
            // the instructions are guaranteed by the caller.
            unsafe {
                for r in (0..whole).step_by(5) {
                    for s in (r..whole).step_by(5) {
                        self.write::<L, 5, 5>(first, r, s);
                    }
                    for s in whole..n_rows {
                        self.write::<L, 5, 1>(first, r, s);
                    }
                }
                for r in whole..n_rows {
                    for s in r..n_rows {
                        self.write::<L, 1, 1>(first, r, s);
                    }
                }
            }
        }
    }
}

/// Writes the inner products of each row with some columns, followed by its squared norm.
#[derive(Debug)]
pub(crate) struct BatchedProducts<'a> {
    rows: &'a [Across],
    columns: &'a [f32],
    dim: usize,
    upcoming: &'a mut Upcoming,
    out: &'a mut [Across],
}

impl<'a> BatchedProducts<'a> {
    /// Columns of length `dim`, one after the other.
    ///
    /// # Panics
    /// If `rows` or `columns` is not a whole number of them, or `out` does not have one element for
    /// each row and column and one more for each row.
    pub(crate) fn new(
        rows: &'a [Across],
        columns: &'a [f32],
        dim: usize,
        upcoming: &'a mut Upcoming,
        out: &'a mut [Across],
    ) -> Self {
        assert!(dim > 0 && rows.len().is_multiple_of(dim) && columns.len().is_multiple_of(dim));
        let products = columns.len() / dim + 1;
        assert!(Some(out.len()) == products.checked_mul(rows.len() / dim));
        Self {
            rows,
            columns,
            dim,
            upcoming,
            out,
        }
    }

    /// Rows `row..row + R` with columns `k..k + K`, and with themselves.
    ///
    /// # Safety
    /// They exist, and so do the sets `first..first + L::WIDTH`; instructions of `L`.
    #[inline(always)]
    unsafe fn write<L: Lanes<Scalar = f32>, const R: usize, const K: usize>(
        &mut self,
        first: usize,
        row: usize,
        k: usize,
    ) {
        self.upcoming.fetch(40);
        let (dim, n) = (self.dim, self.columns.len() / self.dim);
        // SAFETY: rows and columns are guaranteed by the caller, each with `dim` elements; `out`
        // has n + 1 numbers for each row.
        unsafe {
            let x = self.rows.as_ptr().add(row * dim);
            let columns = self.columns.as_ptr().add(k * dim);
            let (mut sums, mut squares) = ([[L::zero(); K]; R], [L::zero(); R]);
            for c in 0..dim {
                let mut column = [L::zero(); K];
                for k in 0..K {
                    column[k] = L::splat(*columns.add(k * dim + c));
                }
                for r in 0..R {
                    let x: L = (*x.add(r * dim + c)).get(first);
                    squares[r] = squares[r].plus_product(x, x);
                    for k in 0..K {
                        sums[r][k] = sums[r][k].plus_product(column[k], x);
                    }
                }
            }
            for r in 0..R {
                let to = self.out.as_mut_ptr().add((row + r) * (n + 1));
                for j in 0..K {
                    (*to.add(k + j)).set(first, sums[r][j]);
                }
                (*to.add(n)).set(first, squares[r]);
            }
        }
    }

    /// Rows `row..row + R` with all columns.
    ///
    /// # Safety
    /// As [`write`](Self::write).
    #[inline(always)]
    unsafe fn write_rows<L: Lanes<Scalar = f32>, const R: usize>(
        &mut self,
        first: usize,
        row: usize,
    ) {
        let n = self.columns.len() / self.dim;
        let mut k = 0;
        // SAFETY: no more columns than remain; rows and sets are guaranteed by the caller.
        unsafe {
            while k + 2 <= n {
                self.write::<L, R, 2>(first, row, k);
                k += 2;
            }
            if k < n || n == 0 {
                match n - k {
                    0 => self.write::<L, R, 0>(first, row, k),
                    _ => self.write::<L, R, 1>(first, row, k),
                }
            }
        }
    }
}

impl Operation<f32> for BatchedProducts<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(mut self) {
        let n_rows = self.rows.len() / self.dim;
        let whole = n_rows / 5 * 5;
        for first in (0..SETS).step_by(L::WIDTH) {
            // SAFETY: widths divide `SETS`, and there are `n_rows` rows; the instructions are
            // guaranteed by the caller.
            unsafe {
                for row in (0..whole).step_by(5) {
                    self.write_rows::<L, 5>(first, row);
                }
                for row in whole..n_rows {
                    self.write_rows::<L, 1>(first, row);
                }
            }
        }
    }
}

/// Writes `sum_r c_r row_r`.
#[derive(Debug)]
pub(crate) struct BatchedSum<'a> {
    rows: &'a [Across],
    coefficients: &'a [Across],
    upcoming: &'a mut Upcoming,
    out: &'a mut [Across],
}

impl<'a> BatchedSum<'a> {
    /// # Panics
    /// If there is not one coefficient for each row of the length of `out`.
    pub(crate) fn new(
        rows: &'a [Across],
        coefficients: &'a [Across],
        upcoming: &'a mut Upcoming,
        out: &'a mut [Across],
    ) -> Self {
        assert!(Some(rows.len()) == coefficients.len().checked_mul(out.len()));
        Self {
            rows,
            coefficients,
            upcoming,
            out,
        }
    }

    /// Writes the sums `at..at + N`.
    ///
    /// # Safety
    /// They exist, and so do the sets `first..first + L::WIDTH`; instructions of `L`.
    #[inline(always)]
    unsafe fn write<L: Lanes<Scalar = f32>, const N: usize>(&mut self, first: usize, at: usize) {
        self.upcoming.fetch(16);
        let dim = self.out.len();
        // SAFETY: row r has dim numbers, and at + N <= dim; the instructions are guaranteed by the
        // caller.
        unsafe {
            let mut sums = [L::zero(); N];
            for (r, c) in self.coefficients.iter().enumerate() {
                let (c, row): (L, _) = (c.get(first), self.rows.as_ptr().add(r * dim + at));
                for i in 0..N {
                    sums[i] = sums[i].plus_product(c, (*row.add(i)).get(first));
                }
            }
            for i in 0..N {
                (*self.out.as_mut_ptr().add(at + i)).set(first, sums[i]);
            }
        }
    }
}

impl Operation<f32> for BatchedSum<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(mut self) {
        let dim = self.out.len();
        let whole = dim / 10 * 10;
        for first in (0..SETS).step_by(L::WIDTH) {
            // SAFETY: whole <= dim; widths divide `SETS`; the instructions are guaranteed by the
            // caller.
            unsafe {
                for at in (0..whole).step_by(10) {
                    self.write::<L, 10>(first, at);
                }
                for at in whole..dim {
                    self.write::<L, 1>(first, at);
                }
            }
        }
    }
}

/// Solves `(A + lift I) x = b` in place of `b` by Cholesky. `A` is the packed upper triangle and is
/// overwritten. If a pivot is not above zero, its unknown is removed and becomes zero.
#[derive(Debug)]
pub(crate) struct BatchedSolve<'a> {
    matrix: &'a mut [Across],
    lifts: &'a Across,
    x: &'a mut [Across],
}

impl<'a> BatchedSolve<'a> {
    /// # Panics
    /// If the matrix is not the triangle of a side as long as `x`.
    pub(crate) fn new(matrix: &'a mut [Across], lifts: &'a Across, x: &'a mut [Across]) -> Self {
        assert!(matrix.len() == packed_len(x.len()));
        Self { matrix, lifts, x }
    }

    /// Solves the systems starting at `first`.
    ///
    /// # Safety
    /// `first + L::WIDTH` is at most [`SETS`]; instructions of `L`.
    #[inline(always)]
    unsafe fn solve<L: Lanes<Scalar = f32>>(&mut self, first: usize) {
        let n = self.x.len();
        let Self { matrix, x, .. } = self;
        // start of row k of the triangle, minus k
        let row = |k: usize| k * n - k * (k + 1) / 2;
        // SAFETY: sets and instructions are guaranteed by the caller.
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

impl Operation<f32> for BatchedSolve<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(mut self) {
        for first in (0..SETS).step_by(L::WIDTH) {
            // SAFETY: widths divide `SETS`; the instructions are guaranteed by the caller.
            unsafe { self.solve::<L>(first) };
        }
    }
}
