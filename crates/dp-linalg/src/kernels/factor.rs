//! Cholesky factorisation, block row by block row.

use super::Kernel;
use super::dispatch::Operation;
use super::gram::{Block, tile};
use super::lanes::Lanes;
use super::rows::{RowStarts, Spaced};

/// Overwrites the upper triangle of a row-major symmetric matrix A with U, where A = U^T U.
///
/// Left-looking: a block of MR rows accumulates the outer products of all rows above it in one
/// register tile, then the small diagonal block is factored and the rest of the rows is solved
/// against it. Below the diagonal, nothing outside the diagonal blocks is read or written.
#[derive(Debug)]
pub(crate) struct Factor<'a, T> {
    a: &'a mut [T],
    dim: usize,
}

impl<'a, T> Factor<'a, T> {
    /// # Panics
    /// If `a` does not have `dim * dim` elements.
    pub(crate) fn new(a: &'a mut [T], dim: usize) -> Self {
        assert!(a.len() == dim * dim);
        Self { a, dim }
    }
}

impl<T: Kernel> Operation<T> for Factor<'_, T> {
    /// The index of the pivot that failed, if any.
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

/// The diagonal block at `start`, minus the outer products of the rows above.
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

/// [`tile`] for one vector, of which only the first `n` lanes are read.
///
/// # Safety
/// As [`tile`], with `n` readable elements instead of WIDTH.
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

/// Solves U^T U x = b in place of b, for a row-major upper factor U.
///
/// Both sweeps go block by block: a small triangle in scalars, and the columns to its right in
/// vectors.
#[derive(Debug)]
pub(crate) struct Solve<'a, T> {
    u: &'a [T],
    dim: usize,
    x: &'a mut [T],
}

impl<'a, T> Solve<'a, T> {
    /// # Panics
    /// If the lengths are not `dim * dim` and `dim`.
    pub(crate) fn new(u: &'a [T], dim: usize, x: &'a mut [T]) -> Self {
        assert!(u.len() == dim * dim && x.len() == dim);
        Self { u, dim, x }
    }
}

impl<T: Kernel> Operation<T> for Solve<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let Self { u, dim, x } = self;
        for start in (0..dim).step_by(MR) {
            let (block, mut part) = read_block::<T, MR>(u, dim, start, x);
            block.solve_transposed(&mut part);
            write_part(&part, start, x);
            // SAFETY: the instructions are guaranteed by the caller, the lengths by the
            // constructor.
            unsafe { subtract_rows::<L, MR>(u, dim, start, &part, x) };
        }
        for start in (0..dim).step_by(MR).rev() {
            let (block, mut part) = read_block::<T, MR>(u, dim, start, x);
            // SAFETY: the instructions are guaranteed by the caller, the lengths by the
            // constructor.
            unsafe { subtract_known::<L, MR>(u, dim, start, &mut part, x) };
            block.solve(&mut part);
            write_part(&part, start, x);
        }
    }
}

/// The diagonal block at `start` and the corresponding part of `x`.
#[inline(always)]
fn read_block<T: Kernel, const MR: usize>(
    u: &[T],
    dim: usize,
    start: usize,
    x: &[T],
) -> (Block<T, MR>, [T; MR]) {
    let mut block = Block::read(u, dim, start);
    block.invert_diagonal();
    let mut part = [T::default(); MR];
    let rows = MR.min(dim - start);
    part[..rows].copy_from_slice(&x[start..start + rows]);
    (block, part)
}

#[inline(always)]
fn write_part<T: Kernel, const MR: usize>(part: &[T; MR], start: usize, x: &mut [T]) {
    let rows = MR.min(x.len() - start);
    x[start..start + rows].copy_from_slice(&part[..rows]);
}

/// Subtracts `part_m u_{start + m}` from the part of `x` to the right of the block.
///
/// # Safety
/// `u` has dim * dim elements and `x` has dim; instructions of `L`.
#[inline(always)]
unsafe fn subtract_rows<L: Lanes, const MR: usize>(
    u: &[L::Scalar],
    dim: usize,
    start: usize,
    part: &[L::Scalar; MR],
    x: &mut [L::Scalar],
) {
    for col in (start + MR..dim).step_by(L::WIDTH) {
        let n = dim - col;
        // SAFETY: rows start .. start + MR exist, because start + MR <= col < dim; of each, and
        // of x, at most n elements from col on are touched.
        unsafe {
            let to = x.as_mut_ptr().add(col);
            let row = u.as_ptr().add(start * dim + col);
            let mut value = L::load_up_to(to, n);
            for m in 0..MR {
                let from = L::load_up_to(row.add(m * dim), n);
                value = value.minus_product(L::splat(part[m]), from);
            }
            value.store_up_to(to, n);
        }
    }
}

/// Subtracts from `part_m` the inner product of row `start + m` with `x`, to the right of the
/// block.
///
/// # Safety
/// As [`subtract_rows`].
#[inline(always)]
unsafe fn subtract_known<L: Lanes, const MR: usize>(
    u: &[L::Scalar],
    dim: usize,
    start: usize,
    part: &mut [L::Scalar; MR],
    x: &[L::Scalar],
) {
    if start + MR >= dim {
        return;
    }
    // SAFETY: as in `subtract_rows`.
    unsafe {
        let mut sums = [L::zero(); MR];
        for col in (start + MR..dim).step_by(L::WIDTH) {
            let n = dim - col;
            let row = u.as_ptr().add(start * dim + col);
            let known = L::load_up_to(x.as_ptr().add(col), n);
            for m in 0..MR {
                sums[m] = sums[m].plus_product(known, L::load_up_to(row.add(m * dim), n));
            }
        }
        for m in 0..MR {
            part[m] = part[m] - sums[m].sum();
        }
    }
}
