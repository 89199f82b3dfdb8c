//! QL iteration for symmetric tridiagonal matrices, one matrix per lane.
//!
//! Source: Bowdler, Martin, Reinsch, Wilkinson 1968, Numer. Math. 11 (explicit shifts). All lanes
//! sweep together; a lane that has converged gets identity rotations, so what a lane computes
//! does not depend on its neighbours.

use super::Kernel;
use super::lanes::Lanes;
use super::spectral::Vectors;

/// Sweeps per eigenvalue before giving up; two are typical.
const MOST_SWEEPS: usize = 60;

/// Unit round-off.
const ROUND_OFF: f32 = 1.0 / (1u64 << 53) as f32;

/// Sums of two squares at or below the square of this make no rotation (see `tridiagonal`).
const NEGLIGIBLE: f32 = 1.0 / (1u128 << 110) as f32;

/// Rotations in the order of their use: for each sweep the index of its last one, and a cosine
/// and a sine for each from `dim - 2` down to that.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rotations<T> {
    ends: Vec<usize>,
    pairs: Vec<T>,
}

/// Diagonalises `T = Z diag(d) Z^T` in place of `d` and replaces `z` by `Z^T z`.
/// False when some lane did not converge.
///
/// # Safety
/// `d`, `e` and `z` hold `dim` vectors, the last of `e` of no meaning; instructions of `L`.
#[inline(always)]
pub(super) unsafe fn diagonalise<L: Lanes>(
    dim: usize,
    (d, e): (Vectors<'_, L>, Vectors<'_, L>),
    z: Vectors<'_, L>,
    rotations: &mut Rotations<L::Scalar>,
) -> bool {
    rotations.ends.clear();
    rotations.pairs.clear();
    // SAFETY: indices below dim; a sweep gets room for its rotations.
    unsafe {
        e.set(dim - 1, L::zero());
        let threshold = threshold(dim, d, e);
        let mut shifted = L::zero();
        for l in 0..dim - 1 {
            let mut n_sweeps = 0;
            loop {
                let active = magnitude(e.get(l)).minus(threshold);
                if !any_positive(active) {
                    break;
                }
                if n_sweeps == MOST_SWEEPS {
                    return false;
                }
                n_sweeps += 1;
                let shift = active.where_positive(shift(d, e, l), L::zero());
                for k in l..dim {
                    d.set(k, d.get(k).minus(shift));
                }
                shifted = shifted.plus(shift);
                let start = rotations.pairs.len();
                let room = 2 * L::WIDTH * (dim - 1 - l);
                rotations.ends.push(l);
                rotations.pairs.resize(start + room, L::Scalar::default());
                let pairs = Vectors::new(&mut rotations.pairs[start..]);
                sweep(dim, l, (d, e), z, active, pairs);
            }
            d.set(l, d.get(l).plus(shifted));
        }
        d.set(dim - 1, d.get(dim - 1).plus(shifted));
    }
    true
}

/// Replaces `y` by `Z y`.
///
/// # Safety
/// `rotations` come from [`diagonalise`] with the same dim and `L`; `y` holds dim vectors.
#[inline(always)]
pub(super) unsafe fn rotate_back<L: Lanes>(
    dim: usize,
    rotations: &mut Rotations<L::Scalar>,
    y: Vectors<'_, L>,
) {
    let mut at = rotations.pairs.len() / L::WIDTH;
    let pairs = Vectors::<L>::new(&mut rotations.pairs);
    for &l in rotations.ends.iter().rev() {
        // SAFETY: the sweep that ended at l has left a pair for each i from l to dim - 2.
        unsafe {
            let mut upper = y.get(l);
            for i in l..dim - 1 {
                at -= 2;
                let (c, s) = (pairs.get(at), pairs.get(at + 1));
                let lower = y.get(i + 1);
                y.set(i, c.times(upper).plus_product(s, lower));
                upper = c.times(lower).minus_product(s, upper);
            }
            y.set(dim - 1, upper);
        }
    }
}

/// One QL sweep from the bottom up to l.
///
/// # Safety
/// As [`diagonalise`]; `pairs` holds two vectors for each i from l to dim - 2.
#[inline(always)]
unsafe fn sweep<L: Lanes>(
    dim: usize,
    l: usize,
    (d, e): (Vectors<'_, L>, Vectors<'_, L>),
    z: Vectors<'_, L>,
    active: L,
    pairs: Vectors<'_, L>,
) {
    // SAFETY: indices from l to dim - 1.
    unsafe {
        let one = L::splat(L::Scalar::ONE);
        let least = L::Scalar::from_single(NEGLIGIBLE);
        let least = L::splat(least * least);
        let (mut c, mut s) = (one, L::zero());
        let mut p = d.get(dim - 1);
        let mut below = z.get(dim - 1);
        let mut at = 0;
        for i in (l..dim - 1).rev() {
            let (off, diagonal) = (e.get(i), d.get(i));
            let (g, h) = (c.times(off), c.times(p));
            let square = p.times(p).plus_product(off, off);
            let r = square.root();
            let turned = s.times(r);
            e.set(i + 1, active.where_positive(turned, e.get(i + 1)));
            let turns = active.where_positive(square.minus(least), L::zero());
            let reciprocal = one.over(r);
            s = turns.where_positive(off.times(reciprocal), L::zero());
            c = turns.where_positive(p.times(reciprocal), one);
            p = c.times(diagonal).minus_product(s, g);
            let inner = c.times(g).plus_product(s, diagonal);
            d.set(i + 1, h.plus_product(s, inner));
            let above = z.get(i);
            z.set(i + 1, s.times(above).plus_product(c, below));
            below = c.times(above).minus_product(s, below);
            pairs.set(at, c);
            pairs.set(at + 1, s);
            at += 2;
        }
        z.set(l, below);
        e.set(l, active.where_positive(s.times(p), e.get(l)));
        d.set(l, c.times(p));
    }
}

/// Wilkinson's shift for the leading two rows from l on; only lanes with `e_l` not zero count.
///
/// # Safety
/// As [`diagonalise`], l below dim - 1.
#[inline(always)]
unsafe fn shift<L: Lanes>(d: Vectors<'_, L>, e: Vectors<'_, L>, l: usize) -> L {
    // SAFETY: l + 1 is below dim.
    unsafe {
        let (g, off) = (d.get(l), e.get(l));
        let p = d.get(l + 1).minus(g).over(off.plus(off));
        let root = L::splat(L::Scalar::ONE).plus_product(p, p).root();
        let far = p.where_positive(p.plus(root), p.minus(root));
        g.minus(off.over(far))
    }
}

/// Off-diagonal entries up to the round-off of the largest entry count as zero.
///
/// # Safety
/// As [`diagonalise`].
#[inline(always)]
unsafe fn threshold<L: Lanes>(dim: usize, d: Vectors<'_, L>, e: Vectors<'_, L>) -> L {
    // SAFETY: indices below dim.
    unsafe {
        let mut largest = L::zero();
        for k in 0..dim {
            let size = magnitude(d.get(k)).plus(magnitude(e.get(k)));
            largest = size.minus(largest).where_positive(size, largest);
        }
        largest.times(L::splat(L::Scalar::from_single(ROUND_OFF)))
    }
}

#[inline(always)]
unsafe fn magnitude<L: Lanes>(x: L) -> L {
    // SAFETY: instructions as the caller vouches.
    unsafe { x.where_positive(x, L::zero().minus(x)) }
}

#[inline(always)]
unsafe fn any_positive<L: Lanes>(x: L) -> bool {
    // SAFETY: instructions as the caller vouches.
    let count = unsafe { x.where_positive(L::splat(L::Scalar::ONE), L::zero()).sum() };
    count > L::Scalar::default()
}
