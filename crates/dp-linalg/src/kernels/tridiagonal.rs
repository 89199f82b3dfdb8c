//! Householder reduction of several symmetric matrices to tridiagonal form, one matrix per lane.

use super::Kernel;
use super::lanes::Lanes;
use super::spectral::Vectors;

/// Squares of norms at or below the square of this count as zero: the matrices are scaled to a
/// largest entry from 1 to 2, so what is dropped is far below the round-off, and no reciprocal of
/// a subnormal number is formed.
const NEGLIGIBLE_NORM: f32 = 1.0 / (1u128 << 110) as f32;

/// Reduces A to `T = Q^T A Q` with diagonal `d` and off-diagonal `e` (`e_k` couples k and k + 1).
///
/// Row i of the packed lower triangle `a` keeps the vector u of the i-th reflector
/// `I - reciprocals_i u u^T`; it acts on the coordinates below i.
///
/// # Safety
/// `a` holds `dim (dim + 1) / 2` vectors and each of the others `dim`; instructions of `L`.
#[inline(always)]
pub(super) unsafe fn reduce<L: Lanes>(
    dim: usize,
    a: Vectors<'_, L>,
    (d, e): (Vectors<'_, L>, Vectors<'_, L>),
    reciprocals: Vectors<'_, L>,
    work: Vectors<'_, L>,
) {
    // SAFETY: rows below dim of the triangle, entries below dim elsewhere.
    unsafe {
        for i in (1..dim).rev() {
            let u = a.from(row(i));
            d.set(i, u.get(i));
            if i == 1 {
                e.set(0, u.get(0));
                reciprocals.set(1, L::zero());
                break;
            }
            let (reciprocal, off_diagonal) = reflector(u, i);
            e.set(i - 1, off_diagonal);
            reciprocals.set(i, reciprocal);
            multiply(a, u, work, i);
            let mut along = L::zero();
            for k in 0..i {
                let p = work.get(k).times(reciprocal);
                along = along.plus_product(p, u.get(k));
                work.set(k, p);
            }
            let half = L::splat(L::Scalar::from_single(0.5));
            let along = along.times(reciprocal).times(half);
            for k in 0..i {
                work.set(k, work.get(k).minus_product(along, u.get(k)));
            }
            update(a, u, work, i);
        }
        d.set(0, a.get(0));
    }
}

/// Where row `i` of a packed lower triangle begins.
pub(super) const fn row(i: usize) -> usize {
    i * (i + 1) / 2
}

/// Turns the first `n` entries of `u` into the vector of a reflector that maps them to their last
/// coordinate. Returns `2 / u^T u` (0 for lanes with nothing to reflect) and that coordinate.
///
/// # Safety
/// `u` holds n >= 1 vectors; instructions of `L`.
#[inline(always)]
unsafe fn reflector<L: Lanes>(u: Vectors<'_, L>, n: usize) -> (L, L) {
    // SAFETY: entries below n.
    unsafe {
        let mut square = L::zero();
        for k in 0..n {
            square = square.plus_product(u.get(k), u.get(k));
        }
        let least = L::Scalar::from_single(NEGLIGIBLE_NORM);
        let substantial = square.minus(L::splat(least * least));
        let last = u.get(n - 1);
        let root = square.root();
        let target = last.where_positive(L::zero().minus(root), root);
        u.set(n - 1, last.minus(target));
        let half_square = square.minus_product(last, target);
        let reciprocal = L::splat(L::Scalar::ONE).over(half_square);
        (
            substantial.where_positive(reciprocal, L::zero()),
            substantial.where_positive(target, L::zero()),
        )
    }
}

/// `out = A u` over the leading `n` rows and columns of the packed lower triangle.
///
/// # Safety
/// As [`reduce`], n below dim; `u` does not overlap these rows, nor `out`.
#[inline(always)]
unsafe fn multiply<L: Lanes>(a: Vectors<'_, L>, u: Vectors<'_, L>, out: Vectors<'_, L>, n: usize) {
    // SAFETY: rows, and entries of `u` and `out`, below n.
    unsafe {
        let mut j = 0;
        if n % 2 == 1 {
            out.set(0, a.get(0).times(u.get(0)));
            j = 1;
        }
        while j < n {
            let (upper, lower) = (a.from(row(j)), a.from(row(j + 1)));
            let (x, y) = (u.get(j), u.get(j + 1));
            let mut sums = [L::zero(); 2];
            for k in 0..j {
                let (s, t, w) = (upper.get(k), lower.get(k), u.get(k));
                sums[0] = sums[0].plus_product(s, w);
                sums[1] = sums[1].plus_product(t, w);
                out.set(k, out.get(k).plus_product(s, x).plus_product(t, y));
            }
            let across = lower.get(j);
            let first = sums[0].plus_product(upper.get(j), x);
            let second = sums[1].plus_product(across, x);
            out.set(j, first.plus_product(across, y));
            out.set(j + 1, second.plus_product(lower.get(j + 1), y));
            j += 2;
        }
    }
}

/// `A -= u q^T + q u^T` over the leading `n` rows of the packed lower triangle.
///
/// # Safety
/// As [`multiply`].
#[inline(always)]
unsafe fn update<L: Lanes>(a: Vectors<'_, L>, u: Vectors<'_, L>, q: Vectors<'_, L>, n: usize) {
    // SAFETY: rows, and entries of `u` and `q`, below n.
    unsafe {
        for j in 0..n {
            let to = a.from(row(j));
            let (x, y) = (u.get(j), q.get(j));
            for k in 0..=j {
                let less = to.get(k).minus_product(x, q.get(k));
                to.set(k, less.minus_product(y, u.get(k)));
            }
        }
    }
}

/// Applies the i-th reflector to the first i entries of `x`.
///
/// # Safety
/// As [`reduce`], after it; `x` holds dim vectors, and i is from 1 to dim - 1.
#[inline(always)]
pub(super) unsafe fn reflect<L: Lanes>(
    i: usize,
    a: Vectors<'_, L>,
    reciprocals: Vectors<'_, L>,
    x: Vectors<'_, L>,
) {
    // SAFETY: entries below i of row i and of `x`.
    unsafe {
        let u = a.from(row(i));
        let mut along = L::zero();
        for k in 0..i {
            along = along.plus_product(u.get(k), x.get(k));
        }
        let along = along.times(reciprocals.get(i));
        for k in 0..i {
            x.set(k, x.get(k).minus_product(along, u.get(k)));
        }
    }
}
