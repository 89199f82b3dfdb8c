//! Cholesky factorisation, block row by block row.

use super::Kernel;
use super::block::Block;
use super::dispatch::Operation;
use super::gram::tile;
use super::lanes::Lanes;
use super::rows::{RowStarts, Spaced};

/// Overwrites the upper triangle of a row-major symmetric matrix A with U, where A = U^T U.
///
/// Left-looking: a block of MR rows takes the outer products of all rows above it in one
/// register tile, then the small diagonal block is factored and the rest of the rows solved
/// against it. Below the diagonal nothing outside the diagonal blocks is read or written.
#[derive(Debug)]
pub(crate) struct Factor<'a, T> {
    a: &'a mut [T],
    dim: usize,
}

impl<'a, T> Factor<'a, T> {
    /// # Panics
    /// When `a` does not have `dim * dim` elements.
    pub(crate) fn new(a: &'a mut [T], dim: usize) -> Self {
        assert!(a.len() == dim * dim);
        Self { a, dim }
    }
}

impl<T: Kernel> Operation<T> for Factor<'_, T> {
    /// The pivot that failed, if one did.
    type Output = Result<(), usize>;

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) -> Result<(), usize> {
        assert!(MR <= L::WIDTH);
        let dim = self.dim;
        for start in (0..dim).step_by(MR) {
            // SAFETY: start < dim, and `a` has dim * dim elements.
            let mut block = unsafe { diagonal_block::<L, MR>(self.a, dim, start) };
            block.factor().map_err(|k| start + k)?;
            block.write(self.a, dim, start);
            for col in (start + MR..dim).step_by(L::WIDTH) {
                // SAFETY: rows start .. start + MR exist, because col >= start + MR is below dim.
                unsafe { solve_columns::<L, MR>(&block, self.a, dim, start, col) };
            }
        }
        Ok(())
    }
}

/// The diagonal block at `start`, less the outer products of the rows above.
///
/// # Safety
/// `start` is below `dim`, a multiple of MR <= WIDTH, and `a` has dim * dim elements;
/// instructions of `L`.
#[inline(always)]
unsafe fn diagonal_block<L: Lanes, const MR: usize>(
    a: &[L::Scalar],
    dim: usize,
    start: usize,
) -> Block<L::Scalar, MR> {
    let mut block = Block::read(a, dim, start);
    if start > 0 {
        let rows = MR.min(dim - start);
        let mut products = [[L::Scalar::default(); MR]; MR];
        // SAFETY: the tile reads MR columns of the rows above; the last of these rows is
        // followed by a whole row of dim > start >= MR elements. It reads only `rows` lanes of
        // the right-hand side. MR elements fit into a row of `products`.
        unsafe {
            let from = a.as_ptr().add(start);
            let from = Spaced::new(from, dim);
            let sums = first_lanes_tile::<L, MR>(from, from, start, rows);
            for m in 0..MR {
                sums[m].store_first(products[m].as_mut_ptr(), MR);
            }
        }
        for m in 0..rows {
            for c in m..rows {
                block.u[m][c] = block.u[m][c] - products[m][c];
            }
        }
    }
    block
}

/// [`tile`] of one vector, of which only the first `n` lanes are read.
///
/// # Safety
/// As [`tile`], with `n` readable elements in place of WIDTH.
#[inline(always)]
unsafe fn first_lanes_tile<L: Lanes, const MR: usize>(
    left: Spaced<L::Scalar>,
    right: Spaced<L::Scalar>,
    count: usize,
    n: usize,
) -> [L; MR] {
    // SAFETY: as in `tile`.
    unsafe {
        let mut sums = [L::zero(); MR];
        if n == L::WIDTH {
            let whole = tile::<L, MR, 1>(left, right, count);
            for m in 0..MR {
                sums[m] = whole[m][0];
            }
            return sums;
        }
        for row in 0..count {
            let (l, x) = (left.start(row), L::load_first(right.start(row), n));
            for m in 0..MR {
                sums[m] = sums[m].plus_product(L::splat(*l.add(m)), x);
            }
        }
        sums
    }
}

/// Computes columns `col .. col + WIDTH` of rows `start .. start + MR` of U, all in registers.
///
/// # Safety
/// start + MR <= col < dim, and `a` has dim * dim elements; instructions of `L`.
#[inline(always)]
unsafe fn solve_columns<L: Lanes, const MR: usize>(
    block: &Block<L::Scalar, MR>,
    a: &mut [L::Scalar],
    dim: usize,
    start: usize,
    col: usize,
) {
    let n = L::WIDTH.min(dim - col);
    // SAFETY: the tiles read columns start .. start + MR and col .. col + n <= dim of rows above
    // `start`; the loads and stores touch columns col .. col + n of rows below start + MR <= dim.
    unsafe {
        let base = a.as_mut_ptr();
        let left = Spaced::new(base.add(start).cast_const(), dim);
        let right = Spaced::new(base.add(col).cast_const(), dim);
        let sums = first_lanes_tile::<L, MR>(left, right, start, n);
        let to = base.add(start * dim + col);
        let mut x = [L::zero(); MR];
        for m in 0..MR {
            let mut value = L::load_up_to(to.add(m * dim), n).minus(sums[m]);
            for k in 0..m {
                value = value.minus_product(L::splat(block.u[k][m]), x[k]);
            }
            x[m] = value.times(L::splat(block.reciprocals[m]));
            x[m].store_up_to(to.add(m * dim), n);
        }
    }
}
