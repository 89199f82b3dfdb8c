//! Forward and backward substitution with an upper Cholesky factor.

use super::Kernel;
use super::block::Block;
use super::dispatch::Operation;
use super::lanes::Lanes;

/// Solves U^T U x = b in place of b, for a row-major upper factor U.
///
/// Both sweeps go block by block: a small triangle in scalars, the columns to its right in
/// vectors.
#[derive(Debug)]
pub(crate) struct Solve<'a, T> {
    u: &'a [T],
    dim: usize,
    x: &'a mut [T],
}

impl<'a, T> Solve<'a, T> {
    /// # Panics
    /// When the lengths are not `dim * dim` and `dim`.
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
            // SAFETY: instructions as the caller vouches; lengths by the constructor.
            unsafe { subtract_rows::<L, MR>(u, dim, start, &part, x) };
        }
        for start in (0..dim).step_by(MR).rev() {
            let (block, mut part) = read_block::<T, MR>(u, dim, start, x);
            // SAFETY: instructions as the caller vouches; lengths by the constructor.
            unsafe { subtract_known::<L, MR>(u, dim, start, &mut part, x) };
            block.solve(&mut part);
            write_part(&part, start, x);
        }
    }
}

/// The diagonal block at `start` and the part of `x` beside it.
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

/// Subtracts `part_m u_{start + m}` from what of `x` lies right of the block.
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

/// Subtracts from `part_m` the inner product of row `start + m` with `x`, right of the block.
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
