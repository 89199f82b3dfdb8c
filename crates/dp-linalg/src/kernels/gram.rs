//! Register tiles of a sum of outer products.

use super::dispatch::{Kernel, Operation};
use super::lanes::Lanes;
use super::rows::{Prefetch, RowSource, RowStarts, Spaced};

/// `sum_r left_r[..MR] right_r[..NV * WIDTH]^T` over `count` rows, held in registers.
///
/// Row r of `left`, for r below `count`, is readable for MR elements, and row r of `right` for NV *
/// WIDTH elements. The processor supports the instructions of `L`.
/// Row r of `left`, for r below `count`, is readable for MR elements; the same with `right` and
/// NV * WIDTH. The processor has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn tile<L: Lanes, const MR: usize, const NV: usize>(
    left: impl RowStarts<L::Scalar>,
    right: impl RowStarts<L::Scalar>,
    count: usize,
) -> [[L; NV]; MR] {
    // SAFETY: r < count, and row and lane offsets stay within what the caller guarantees.
    unsafe {
        let mut sums = [[L::zero(); NV]; MR];
        for row in 0..count {
            let (l, r) = (left.start(row), right.start(row));
            let mut x = [L::zero(); NV];
            for v in 0..NV {
                x[v] = L::load(r.add(v * L::WIDTH));
            }
            for m in 0..MR {
                let a = L::splat(*l.add(m));
                for v in 0..NV {
                    sums[m][v] = sums[m][v].plus_product(a, x[v]);
                }
            }
        }
        sums
    }
}

/// Adds a tile to `out`, whose rows are `stride` apart.
///
/// # Safety
/// MR rows of NV * WIDTH elements at `out` can be written; instructions of `L`.
#[inline(always)]
unsafe fn add_tile<L: Lanes, const MR: usize, const NV: usize>(
    sums: [[L; NV]; MR],
    out: *mut L::Scalar,
    stride: usize,
) {
    for (m, row) in sums.into_iter().enumerate() {
        for (v, sum) in row.into_iter().enumerate() {
            // SAFETY: m < MR and v < NV, guaranteed by the caller.
            unsafe {
                let to = out.add(m * stride + v * L::WIDTH);
                L::load(to).plus(sum).store(to);
            }
        }
    }
}

/// Adds MR rows of outer products, `n_vectors` vectors wide, tile by tile.
///
/// # Safety
/// As [`tile`] and [`add_tile`], for MR rows and `n_vectors * WIDTH` columns.
#[inline(always)]
unsafe fn add_strip<L: Lanes, const MR: usize>(
    left: impl RowStarts<L::Scalar>,
    right: impl RowStarts<L::Scalar>,
    count: usize,
    out: (*mut L::Scalar, usize),
    n_vectors: usize,
) {
    let mut done = 0;
    while done < n_vectors {
        // SAFETY: the tile covers vectors done .. done + step <= n_vectors.
        unsafe {
            let right = right.shifted(done * L::WIDTH);
            let to = out.0.add(done * L::WIDTH);
            // four vectors are better split into halves than into three and one
            let step = match n_vectors - done {
                4 => L::TILE_VECTORS.min(2),
                rest => L::TILE_VECTORS.min(rest),
            };
            match step {
                3 => add_tile(tile::<L, MR, 3>(left, right, count), to, out.1),
                2 => add_tile(tile::<L, MR, 2>(left, right, count), to, out.1),
                _ => add_tile(tile::<L, MR, 1>(left, right, count), to, out.1),
            }
            done += step;
        }
    }
}

/// Adds the square of WIDTH rows of outer products at the end of the diagonal. One tile for all of
/// them reads a row once, whereas strips of MR rows would each wait for loads.
///
/// # Safety
/// As [`tile`] and [`add_tile`], for WIDTH rows and WIDTH columns.
#[inline(always)]
unsafe fn add_corner<L: Lanes, const MR: usize>(
    rows: (impl RowStarts<L::Scalar>, impl RowStarts<L::Scalar>),
    count: usize,
    out: (*mut L::Scalar, usize),
) -> bool {
    // SAFETY: WIDTH rows and columns, guaranteed by the caller.
    unsafe {
        match (L::WIDTH, MR) {
            (16, 8) => add_tile(tile::<L, 16, 1>(rows.0, rows.1, count), out.0, out.1),
            (8, 4) => add_tile(tile::<L, 8, 1>(rows.0, rows.1, count), out.0, out.1),
            _ => return false,
        }
    }
    true
}

/// Adds the square of twice WIDTH rows of outer products at the end of the diagonal in two passes
/// over the rows, with 24 and 13 registers of sums. Of the two triangles of products of the upper
/// half of each vector with itself, only [`TURNS`] vectors are computed, which [`unturn`] moves
/// into place; they are added to `turned`.
///
/// # Safety
/// As [`tile`] and [`add_tile`], for twice WIDTH rows and columns and at least one row of each.
#[inline(always)]
unsafe fn add_last_square<L: Lanes, const MR: usize, S: RowStarts<L::Scalar>>(
    left: S,
    right: S,
    count: usize,
    out: (*mut L::Scalar, usize),
    turned: &mut [L::Scalar],
) -> bool {
    if (L::WIDTH, MR) != (16, 8) || turned.len() != TURNS * L::WIDTH {
        return false;
    }
    // SAFETY: 2 WIDTH = 32 rows and columns, guaranteed by the caller; `turned` has TURNS vectors.
    unsafe {
        let (wide, narrow) = wide_and_narrow::<L>(left, right, count);
        add_tile(wide, out.0, out.1);
        add_tile(narrow, out.0.add(8 * out.1 + 16), out.1);
        // only if the rows are multiplied by themselves, which is detected here, they are read and
        // halved once
        let (last, sums) = if left.start(0) == right.start(0) {
            last_and_turned::<L, _>(left, left, count)
        } else {
            last_and_turned::<L, _>(left, right, count)
        };
        add_tile(last, out.0.add(16 * out.1 + 16), out.1);
        add_tile([sums], turned.as_mut_ptr(), 0);
    }
    true
}

/// Eight rows of outer products with two vectors, and the next eight with the second vector only.
///
/// # Safety
/// As [`tile`], for 16 rows and two vectors of 16 columns.
#[inline(always)]
unsafe fn wide_and_narrow<L: Lanes>(
    left: impl RowStarts<L::Scalar>,
    right: impl RowStarts<L::Scalar>,
    count: usize,
) -> ([[L; 2]; 8], [[L; 1]; 8]) {
    // SAFETY: row < count, and row and lane offsets stay within what the caller guarantees.
    unsafe {
        let (mut wide, mut narrow) = ([[L::zero(); 2]; 8], [[L::zero(); 1]; 8]);
        for row in 0..count {
            let (l, r) = (left.start(row), right.start(row));
            let x = [L::load(r), L::load(r.add(L::WIDTH))];
            for (m, sums) in wide.iter_mut().enumerate() {
                let a = L::splat(*l.add(m));
                for v in 0..2 {
                    sums[v] = sums[v].plus_product(a, x[v]);
                }
            }
            for (m, sums) in narrow.iter_mut().enumerate() {
                sums[0] = sums[0].plus_product(L::splat(*l.add(8 + m)), x[1]);
            }
        }
        (wide, narrow)
    }
}

/// Rows 16 to 23 of outer products with the second vector, and the upper halves of both vectors
/// times themselves rotated by 0 to half of their length: each product of two numbers of a half is
/// among them (those rotated by half of the length twice).
///
/// # Safety
/// As [`tile`], for 32 rows and two vectors of 16 columns.
#[inline(always)]
unsafe fn last_and_turned<L: Lanes, S: RowStarts<L::Scalar>>(
    left: S,
    right: S,
    count: usize,
) -> ([[L; 1]; 8], [L; TURNS]) {
    // SAFETY: row < count, and row and lane offsets stay within what the caller guarantees.
    unsafe {
        let (mut last, mut turned) = ([[L::zero(); 1]; 8], [L::zero(); TURNS]);
        for row in 0..count {
            let (l, r) = (left.start(row), right.start(row));
            let x = L::load(r.add(L::WIDTH));
            for (m, sums) in last.iter_mut().enumerate() {
                sums[0] = sums[0].plus_product(L::splat(*l.add(16 + m)), x);
            }
            let a = L::load(l).upper_halves(L::load(l.add(L::WIDTH)));
            let b = L::load(r).upper_halves(x);
            turned[0] = turned[0].plus_product(a, b);
            turned[1] = turned[1].plus_product(a, b.turn_halves::<1>());
            turned[2] = turned[2].plus_product(a, b.turn_halves::<2>());
            turned[3] = turned[3].plus_product(a, b.turn_halves::<3>());
            turned[4] = turned[4].plus_product(a, b.turn_halves::<4>());
        }
        (last, turned)
    }
}

/// Number of vectors of turned products: rotations by 0, 1, ... up to half of a half of 16 lanes.
const TURNS: usize = 5;

/// Number of elements of turned products for rows of `width` in vectors of `lanes`; 0 if
/// [`add_last_square`] does not apply.
pub(crate) fn turned_len(width: usize, lanes: usize) -> usize {
    match (lanes, width) {
        (16, 32..) => TURNS * lanes,
        _ => 0,
    }
}

/// Adds turned products, [`turned_len`] of them, to the rows of `gram`, which have length `width`,
/// and clears them.
pub(crate) fn unturn<T: Kernel>(turned: &mut [T], gram: &mut [T], width: usize) {
    const HALF: usize = 8;
    if turned.is_empty() {
        return;
    }
    let sums = &mut turned[..TURNS * 2 * HALF];
    for (which, first) in [width - 3 * HALF, width - HALF].into_iter().enumerate() {
        for a in 0..HALF {
            let row = &mut gram[(first + a) * width + first..][..HALF];
            for (b, entry) in row.iter_mut().enumerate().skip(a) {
                let (turn, lane) = if b - a < TURNS {
                    (b - a, a)
                } else {
                    (HALF + a - b, b)
                };
                *entry = *entry + sums[(turn * 2 + which) * HALF + lane];
            }
        }
    }
    sums.fill(T::default());
}

/// Adds `sum_r left_r right_r^T` to the tiles of `gram` that meet the triangle row <= column.
/// Before each strip, a share of the rows in `prefetch` is fetched that matches the strip's work.
#[derive(Debug)]
pub(crate) struct GramUpdate<'a, T, R> {
    left: R,
    right: R,
    dim: usize,
    gram: &'a mut [T],
    turned: &'a mut [T],
    prefetch: Prefetch<'a>,
}

impl<'a, T, R: RowSource<T>> GramUpdate<'a, T, R> {
    /// Each row of `left` is that of `right` times a number, so entry (a, b) may be computed as (b,
    /// a). `turned` receives a part of the sums, [`turned_len`] elements, which [`unturn`] adds to
    /// `gram`; if it is empty, all sums go into `gram`.
    ///
    /// # Panics
    /// If counts or widths differ, or `gram` is not `width * width` with `width >= dim`.
    pub(crate) fn new(
        (left, right): (R, R),
        dim: usize,
        gram: &'a mut [T],
        turned: &'a mut [T],
        prefetch: Prefetch<'a>,
    ) -> Self {
        let width = right.width();
        assert!(left.count() == right.count() && left.width() == width);
        assert!(dim <= width && gram.len() == width * width);
        Self {
            left,
            right,
            dim,
            gram,
            turned,
            prefetch,
        }
    }
}

impl<T: Kernel, R: RowSource<T>> Operation<T> for GramUpdate<'_, T, R> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let (width, count) = (self.right.width(), self.right.count());
        assert!(width.is_multiple_of(L::WIDTH) && L::WIDTH.is_multiple_of(MR));
        if count == 0 {
            return;
        }
        let strips = (0..self.dim).step_by(MR).map(|row| {
            let first = row / L::WIDTH * L::WIDTH;
            (row, first, (width - first) / L::WIDTH)
        });
        let work: usize = strips.clone().map(|(_, _, n_vectors)| n_vectors).sum();
        let mut done = 0;
        for (row, first, n_vectors) in strips {
            self.prefetch.fetch(done..done + n_vectors, work);
            done += n_vectors;
            // SAFETY: row + MR <= width, because row is a multiple of MR below dim <= width and MR
            // divides width; first <= row < width, and row + n_vectors * WIDTH = width where row is
            // first. A `RowSource` makes `width` elements of each row readable, and `gram` has
            // width rows of width elements.
            unsafe {
                let left = self.left.starts().shifted(row);
                let right = self.right.starts().shifted(first);
                let out = (self.gram.as_mut_ptr().add(row * width + first), width);
                let last = row == first
                    && match n_vectors {
                        2 => add_last_square::<L, MR, _>(left, right, count, out, self.turned),
                        1 => add_corner::<L, MR>((left, right), count, out),
                        _ => false,
                    };
                if last {
                    self.prefetch.fetch(done..work, work);
                    break;
                }
                add_strip::<L, MR>(left, right, count, out, n_vectors);
            }
        }
    }
}

/// Adds `sum_r labels_r rows_r` to `out`.
#[derive(Debug)]
pub(crate) struct WeightedSum<'a, T, R> {
    labels: &'a [T],
    rows: R,
    out: &'a mut [T],
}

impl<'a, T, R: RowSource<T>> WeightedSum<'a, T, R> {
    /// # Panics
    /// If `labels` and `rows` differ in number, or `out` is not as wide as `rows`.
    pub(crate) fn new(labels: &'a [T], rows: R, out: &'a mut [T]) -> Self {
        assert!(labels.len() == rows.count() && out.len() == rows.width());
        Self { labels, rows, out }
    }
}

impl<T: Kernel, R: RowSource<T>> Operation<T> for WeightedSum<'_, T, R> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let width = self.rows.width();
        assert!(width.is_multiple_of(L::WIDTH));
        // SAFETY: the labels are rows of one element; `out` is one row of `width` elements.
        unsafe {
            add_strip::<L, 1>(
                Spaced::new(self.labels.as_ptr(), 1),
                self.rows.starts(),
                self.rows.count(),
                (self.out.as_mut_ptr(), width),
                width / L::WIDTH,
            );
        }
    }
}

/// MR rows and columns on the diagonal of a symmetric matrix, later of its upper factor U. If the
/// matrix ends earlier, the identity fills the rest, so that all loops have constant bounds.
pub(super) struct Block<T, const MR: usize> {
    /// Only the upper triangle is meaningful.
    pub(super) u: [[T; MR]; MR],
    /// One over the diagonal.
    pub(super) reciprocals: [T; MR],
}

impl<T: Kernel, const MR: usize> Block<T, MR> {
    /// Reads the block that starts at row and column `start` of a `dim` by `dim` matrix.
    #[inline(always)]
    pub(super) fn read(a: &[T], dim: usize, start: usize) -> Self {
        let rows = MR.min(dim - start);
        let mut u = [[T::default(); MR]; MR];
        for (m, row) in u.iter_mut().enumerate() {
            if m < rows {
                let from = &a[(start + m) * dim + start..][..rows];
                row[m..rows].copy_from_slice(&from[m..]);
            } else {
                row[m] = T::ONE;
            }
        }
        Self {
            u,
            reciprocals: [T::ONE; MR],
        }
    }

    /// Computes the reciprocals of the diagonal of a block of U.
    #[inline(always)]
    pub(super) fn invert_diagonal(&mut self) {
        for k in 0..MR {
            self.reciprocals[k] = self.u[k][k].reciprocal();
        }
    }

    /// Writes the block's upper triangle back.
    #[inline(always)]
    pub(super) fn write(&self, a: &mut [T], dim: usize, start: usize) {
        let rows = MR.min(dim - start);
        for m in 0..rows {
            let to = &mut a[(start + m) * dim + start..][..rows];
            to[m..].copy_from_slice(&self.u[m][m..rows]);
        }
    }

    /// Factors the block in place; fails at a pivot that is not a positive normal number.
    ///
    /// Eliminates with rows divided by their pivot and takes the square roots last: a chain of
    /// eight divisions is shorter than one of eight divisions and eight roots.
    #[inline(always)]
    pub(super) fn factor(&mut self) -> Result<(), usize> {
        for k in 0..MR {
            let pivot = self.u[k][k];
            if !(pivot > T::default() && pivot.normal()) {
                return Err(k);
            }
            let reciprocal = pivot.reciprocal();
            for m in k + 1..MR {
                let multiple = self.u[k][m] * reciprocal;
                for c in m..MR {
                    self.u[m][c] = self.u[m][c] - multiple * self.u[k][c];
                }
            }
        }
        for k in 0..MR {
            let root = self.u[k][k].root();
            self.reciprocals[k] = root.reciprocal();
            self.u[k][k] = root;
            for c in k + 1..MR {
                self.u[k][c] = self.u[k][c] * self.reciprocals[k];
            }
        }
        Ok(())
    }

    /// Solves U^T y = b in place.
    #[inline(always)]
    pub(super) fn solve_transposed(&self, x: &mut [T; MR]) {
        for k in 0..MR {
            x[k] = x[k] * self.reciprocals[k];
            for c in k + 1..MR {
                x[c] = x[c] - x[k] * self.u[k][c];
            }
        }
    }

    /// Solves U x = y in place.
    #[inline(always)]
    pub(super) fn solve(&self, x: &mut [T; MR]) {
        for k in (0..MR).rev() {
            x[k] = x[k] * self.reciprocals[k];
            for c in 0..k {
                x[c] = x[c] - x[k] * self.u[c][k];
            }
        }
    }
}
