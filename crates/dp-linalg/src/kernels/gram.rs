//! Register tiles of a sum of outer products.

use super::dispatch::Operation;
use super::lanes::Lanes;
use super::rows::{Ahead, Rows};

/// `sum_r left_r[..MR] right_r[..NV * WIDTH]^T` over `count` rows, held in registers.
///
/// # Safety
/// Row r starts at `left + r * left_stride` and is readable for MR elements; the same with
/// `right` and NV * WIDTH. The processor has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn tile<L: Lanes, const MR: usize, const NV: usize>(
    left: (*const L::Scalar, usize),
    right: (*const L::Scalar, usize),
    count: usize,
) -> [[L; NV]; MR] {
    // SAFETY: row and lane offsets stay within what the caller vouches for. The pointers move on
    // by wrapping arithmetic because the step after the last row may leave the allocation.
    unsafe {
        let mut sums = [[L::zero(); NV]; MR];
        let (mut l, mut r) = (left.0, right.0);
        for _ in 0..count {
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
            l = l.wrapping_add(left.1);
            r = r.wrapping_add(right.1);
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
            // SAFETY: m < MR and v < NV, as the caller vouches.
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
    left: (*const L::Scalar, usize),
    right: (*const L::Scalar, usize),
    count: usize,
    out: (*mut L::Scalar, usize),
    n_vectors: usize,
) {
    let mut done = 0;
    while done < n_vectors {
        // SAFETY: the tile covers vectors done .. done + step <= n_vectors.
        unsafe {
            let right = (right.0.add(done * L::WIDTH), right.1);
            let to = out.0.add(done * L::WIDTH);
            // four vectors are better halved than split into three and one
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

/// Adds `sum_r left_r right_r^T` to the tiles of `gram` that meet the triangle row <= column.
/// Before each strip, a share of the rows `ahead` is fetched that fits the strip's work.
#[derive(Debug)]
pub(crate) struct GramUpdate<'a, T> {
    left: Rows<'a, T>,
    right: Rows<'a, T>,
    dim: usize,
    gram: &'a mut [T],
    ahead: Ahead<'a>,
}

impl<'a, T> GramUpdate<'a, T> {
    /// # Panics
    /// When counts or widths differ, or `gram` is not `width * width` with `width >= dim`.
    pub(crate) fn new(
        left: Rows<'a, T>,
        right: Rows<'a, T>,
        dim: usize,
        gram: &'a mut [T],
        ahead: Ahead<'a>,
    ) -> Self {
        let width = right.width();
        assert!(left.count() == right.count() && left.width() == width);
        assert!(dim <= width && gram.len() == width * width);
        Self {
            left,
            right,
            dim,
            gram,
            ahead,
        }
    }
}

impl<T> Operation<T> for GramUpdate<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let width = self.right.width();
        assert!(width.is_multiple_of(L::WIDTH) && L::WIDTH.is_multiple_of(MR));
        if self.right.count() == 0 {
            return;
        }
        let strips = (0..self.dim).step_by(MR).map(|row| {
            let first = row / L::WIDTH * L::WIDTH;
            (row, first, (width - first) / L::WIDTH)
        });
        let work: usize = strips.clone().map(|(_, _, n_vectors)| n_vectors).sum();
        let mut done = 0;
        for (row, first, n_vectors) in strips {
            self.ahead.fetch(done..done + n_vectors, work);
            done += n_vectors;
            // SAFETY: row + MR <= width, because row is a multiple of MR below dim <= width and
            // MR divides width; first <= row < width. `Rows` makes `width` elements of each row
            // readable, and `gram` has width rows of width elements.
            unsafe {
                add_strip::<L, MR>(
                    (self.left.as_ptr().add(row), self.left.stride()),
                    (self.right.as_ptr().add(first), self.right.stride()),
                    self.right.count(),
                    (self.gram.as_mut_ptr().add(row * width + first), width),
                    n_vectors,
                );
            }
        }
    }
}

/// Adds `sum_r labels_r rows_r` to `out`.
#[derive(Debug)]
pub(crate) struct WeightedSum<'a, T> {
    labels: &'a [T],
    rows: Rows<'a, T>,
    out: &'a mut [T],
}

impl<'a, T> WeightedSum<'a, T> {
    /// # Panics
    /// When `labels` and `rows` differ in number, or `out` is not as wide as `rows`.
    pub(crate) fn new(labels: &'a [T], rows: Rows<'a, T>, out: &'a mut [T]) -> Self {
        assert!(labels.len() == rows.count() && out.len() == rows.width());
        Self { labels, rows, out }
    }
}

impl<T> Operation<T> for WeightedSum<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let width = self.rows.width();
        assert!(width.is_multiple_of(L::WIDTH));
        // SAFETY: the labels are rows of one element; `out` is one row of `width` elements.
        unsafe {
            add_strip::<L, 1>(
                (self.labels.as_ptr(), 1),
                (self.rows.as_ptr(), self.rows.stride()),
                self.rows.count(),
                (self.out.as_mut_ptr(), width),
                width / L::WIDTH,
            );
        }
    }
}
