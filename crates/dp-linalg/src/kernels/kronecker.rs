//! Gramians of a few integer rows, multiplied by weights and rounded toward zero on the way.

use super::dispatch::Operation;
use super::gram::tile;
use super::lanes::Lanes;
use super::rows::Rows;

/// Products are clamped to this before they are rounded: far above what any caller admits.
const LIMIT: f64 = (1_u64 << 52) as f64;

/// Adds `trunc(w_p C)` to plane p of `planes`, `C = sum_r x_r x_r^T`, on the tiles that meet the triangle
/// row <= column. C stays in registers.
#[derive(Debug)]
pub(crate) struct KroneckerUpdate<'a> {
    rows: Rows<'a, f64>,
    weights: &'a [f64],
    dim: usize,
    planes: &'a mut [f64],
}

impl<'a> KroneckerUpdate<'a> {
    /// # Panics
    /// When `planes` is not a `width * width` plane for each weight, `width >= dim`.
    pub(crate) fn new(
        rows: Rows<'a, f64>,
        weights: &'a [f64],
        dim: usize,
        planes: &'a mut [f64],
    ) -> Self {
        let width = rows.width();
        assert!(dim <= width && planes.len() == weights.len() * width * width);
        Self {
            rows,
            weights,
            dim,
            planes,
        }
    }

    /// One tile of MR rows and NV vectors at (row, column) of every plane.
    ///
    /// # Safety
    /// MR rows from `row` and NV * WIDTH columns from `column` are within `width`; instructions of `L`.
    #[inline(always)]
    unsafe fn add<L: Lanes<Scalar = f64>, const MR: usize, const NV: usize>(
        &mut self,
        row: usize,
        column: usize,
    ) {
        let (width, stride) = (self.rows.width(), self.rows.stride());
        // SAFETY: `Rows` makes `width` elements of each row readable; plane p of `planes` has width rows
        // of width elements by the constructor's assertion, and the tile lies within them.
        unsafe {
            let left = (self.rows.as_ptr().add(row), stride);
            let right = (self.rows.as_ptr().add(column), stride);
            let sums = tile::<L, MR, NV>(left, right, self.rows.count());
            for (p, &weight) in self.weights.iter().enumerate() {
                let weight = L::splat(weight);
                let plane = self.planes.as_mut_ptr().add(p * width * width);
                for m in 0..MR {
                    for v in 0..NV {
                        let to = plane.add((row + m) * width + column + v * L::WIDTH);
                        let rounded = sums[m][v].times(weight).truncate_within(LIMIT);
                        L::load(to).plus(rounded).store(to);
                    }
                }
            }
        }
    }
}

impl Operation<f64> for KroneckerUpdate<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f64>, const MR: usize>(mut self) {
        let width = self.rows.width();
        assert!(width.is_multiple_of(L::WIDTH) && L::WIDTH.is_multiple_of(MR));
        for row in (0..self.dim).step_by(MR) {
            let mut column = row / L::WIDTH * L::WIDTH;
            while column < width {
                // SAFETY: row is a multiple of MR below dim <= width and MR divides width; the tile
                // ends at `width` at the latest.
                unsafe {
                    if column + 2 * L::WIDTH <= width {
                        self.add::<L, MR, 2>(row, column);
                        column += 2 * L::WIDTH;
                    } else {
                        self.add::<L, MR, 1>(row, column);
                        column += L::WIDTH;
                    }
                }
            }
        }
    }
}
