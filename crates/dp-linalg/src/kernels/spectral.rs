//! Functions of several symmetric matrices at once, one matrix per lane.

use std::marker::PhantomData;

use super::Kernel;
use super::dispatch::Operation;
use super::lanes::Lanes;

/// A mutable list of vectors that is copied like a pointer: the borrow keeps the memory alive, and
/// the functions of this module use a single thread.
pub(super) struct Vectors<'a, L: Lanes> {
    start: *mut L::Scalar,
    count: usize,
    memory: PhantomData<&'a mut [L::Scalar]>,
}

impl<L: Lanes> Clone for Vectors<'_, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Lanes> Copy for Vectors<'_, L> {}

impl<'a, L: Lanes> Vectors<'a, L> {
    #[inline(always)]
    pub(super) fn new(memory: &'a mut [L::Scalar]) -> Self {
        Self {
            start: memory.as_mut_ptr(),
            count: memory.len() / L::WIDTH,
            memory: PhantomData,
        }
    }

    /// The vectors starting at `first`.
    ///
    /// # Safety
    /// `first` is at most the number of vectors.
    #[inline(always)]
    pub(super) unsafe fn from(self, first: usize) -> Self {
        debug_assert!(first <= self.count);
        Self {
            // SAFETY: stays within the memory, or one past it.
            start: unsafe { self.start.add(first * L::WIDTH) },
            count: self.count - first,
            memory: PhantomData,
        }
    }

    /// # Safety
    /// `index` is below the number of vectors; instructions of `L`.
    #[inline(always)]
    pub(super) unsafe fn get(self, index: usize) -> L {
        debug_assert!(index < self.count);
        // SAFETY: the index is guaranteed by the caller.
        unsafe { L::load(self.start.add(index * L::WIDTH)) }
    }

    /// # Safety
    /// As [`get`](Self::get).
    #[inline(always)]
    pub(super) unsafe fn set(self, index: usize, value: L) {
        debug_assert!(index < self.count);
        // SAFETY: the index is guaranteed by the caller.
        unsafe { value.store(self.start.add(index * L::WIDTH)) }
    }
}

/// A batch of `lanes` systems: entry k of system s is at `k * lanes + s` of each list.
#[derive(Debug, Clone)]
pub(crate) struct LaneSystems<T> {
    /// Packed lower triangles by rows: entry (j, k), k <= j, is number `j (j + 1) / 2 + k`.
    pub(crate) matrices: Vec<T>,
    /// Right-hand sides, then solutions.
    pub(crate) rhs: Vec<T>,
    /// The divisors of each matrix and right-hand side, and the ridges.
    pub(crate) matrix_scales: Vec<T>,
    pub(crate) rhs_scales: Vec<T>,
    pub(crate) ridges: Vec<T>,
    dim: usize,
    /// Diagonal, off-diagonal, reciprocals of the reflectors, work space.
    scratch: Vec<T>,
    rotations: Rotations<T>,
}

impl<T: Kernel> LaneSystems<T> {
    pub(crate) fn new(dim: usize, lanes: usize) -> Self {
        let zeros = |n: usize| vec![T::default(); n * lanes];
        Self {
            matrices: zeros(dim * (dim + 1) / 2),
            rhs: zeros(dim),
            matrix_scales: zeros(1),
            rhs_scales: zeros(1),
            ridges: zeros(1),
            dim,
            scratch: zeros(4 * dim),
            rotations: Rotations::default(),
        }
    }
}

/// Replaces each right-hand side by `V diag(t / (max(s lambda, 0) + ridge)) V^T b`, where `V
/// diag(lambda) V^T` is the matrix, s its scale and t that of b. The matrices, whose largest
/// magnitude is from 1 to 2 or zero, are overwritten. Returns false if some lane did not converge.
#[derive(Debug)]
pub(crate) struct PsdSolve<'a, T>(pub(crate) &'a mut LaneSystems<T>);

impl<T: Kernel> Operation<T> for PsdSolve<'_, T> {
    type Output = bool;

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) -> bool {
        let systems = self.0;
        let (dim, lanes) = (systems.dim, L::WIDTH);
        assert!(dim > 0 && systems.matrices.len() == dim * (dim + 1) / 2 * lanes);
        assert!(systems.rhs.len() == dim * lanes && systems.scratch.len() == 4 * dim * lanes);
        let scales = [&systems.matrix_scales, &systems.rhs_scales, &systems.ridges];
        assert!(scales.iter().all(|list| list.len() == lanes));
        let (d, rest) = systems.scratch.split_at_mut(dim * lanes);
        let (e, rest) = rest.split_at_mut(dim * lanes);
        let (reciprocals, work) = rest.split_at_mut(dim * lanes);
        let tridiagonal = (Vectors::<L>::new(d), Vectors::new(e));
        let (reciprocals, work) = (Vectors::new(reciprocals), Vectors::new(work));
        let (a, x) = (
            Vectors::new(&mut systems.matrices),
            Vectors::new(&mut systems.rhs),
        );
        // SAFETY: the lengths were asserted; the instructions are guaranteed by the caller.
        unsafe {
            let [scale, rhs_scale, ridge] = scales.map(|list| L::load(list.as_ptr()));
            reduce(dim, a, tridiagonal, reciprocals, work);
            for i in (2..dim).rev() {
                reflect(i, a, reciprocals, x);
            }
            if !diagonalise(dim, tridiagonal, x, &mut systems.rotations) {
                return false;
            }
            for k in 0..dim {
                let value = tridiagonal.0.get(k);
                let positive = value.where_positive(value.times(scale), L::zero());
                let factor = rhs_scale.over(positive.plus(ridge));
                x.set(k, x.get(k).times(factor));
            }
            rotate_back(dim, &mut systems.rotations, x);
            for i in 2..dim {
                reflect(i, a, reciprocals, x);
            }
        }
        true
    }
}

/// Maximum number of sweeps per eigenvalue; two are typical.
const MOST_SWEEPS: usize = 60;

/// Unit round-off.
const ROUND_OFF: f32 = 1.0 / (1u64 << 53) as f32;

/// Sums of two squares at or below the square of this cause no rotation (see `tridiagonal`).
const NEGLIGIBLE: f32 = 1.0 / (1u128 << 110) as f32;

/// Rotations in the order of their use: for each sweep the index of its last rotation, and a cosine
/// and a sine for each from `dim - 2` down to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rotations<T> {
    ends: Vec<usize>,
    pairs: Vec<T>,
}

/// Diagonalises `T = Z diag(d) Z^T` in place of `d` and replaces `z` by `Z^T z`. Returns false if
/// some lane did not converge.
///
/// # Safety
/// `d`, `e` and `z` have `dim` vectors, the last of `e` being unused; instructions of `L`.
#[inline(always)]
pub(super) unsafe fn diagonalise<L: Lanes>(
    dim: usize,
    (d, e): (Vectors<'_, L>, Vectors<'_, L>),
    z: Vectors<'_, L>,
    rotations: &mut Rotations<L::Scalar>,
) -> bool {
    rotations.ends.clear();
    rotations.pairs.clear();
    // SAFETY: indices are below dim; a sweep gets space for its rotations.
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
/// `rotations` come from [`diagonalise`] with the same dim and `L`; `y` has dim vectors.
#[inline(always)]
pub(super) unsafe fn rotate_back<L: Lanes>(
    dim: usize,
    rotations: &mut Rotations<L::Scalar>,
    y: Vectors<'_, L>,
) {
    let mut at = rotations.pairs.len() / L::WIDTH;
    let pairs = Vectors::<L>::new(&mut rotations.pairs);
    for &l in rotations.ends.iter().rev() {
        // SAFETY: the sweep that ended at l has stored a pair for each i from l to dim - 2.
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

/// One QL sweep from the bottom up to l. Source: Bowdler, Martin, Reinsch, Wilkinson 1968, Numer.
/// Math. 11 (explicit shifts). All lanes sweep together; a lane that has converged gets identity
/// rotations, so the results of a lane do not depend on its neighbours.
///
/// # Safety
/// As [`diagonalise`]; `pairs` has two vectors for each i from l to dim - 2.
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

/// Wilkinson's shift for the two leading rows starting at l; only lanes with non-zero `e_l` count.
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
    // SAFETY: the instructions are guaranteed by the caller.
    unsafe { x.where_positive(x, L::zero().minus(x)) }
}

#[inline(always)]
unsafe fn any_positive<L: Lanes>(x: L) -> bool {
    // SAFETY: the instructions are guaranteed by the caller.
    let count = unsafe { x.where_positive(L::splat(L::Scalar::ONE), L::zero()).sum() };
    count > L::Scalar::default()
}

/// Squares of norms at or below the square of this count as zero: the matrices are scaled to a
/// largest entry from 1 to 2, so what is dropped is far below the round-off, and no reciprocal of a
/// subnormal number is computed.
const NEGLIGIBLE_NORM: f32 = 1.0 / (1u128 << 110) as f32;

/// Reduces A to `T = Q^T A Q` with diagonal `d` and off-diagonal `e` (`e_k` couples k and k + 1).
///
/// Row i of the packed lower triangle `a` stores the vector u of the i-th reflector `I -
/// reciprocals_i u u^T`, which acts on the coordinates below i.
///
/// # Safety
/// `a` has `dim (dim + 1) / 2` vectors and each of the others `dim`; instructions of `L`.
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

/// Converts the first `n` entries of `u` to the vector of a reflector that maps them to their last
/// coordinate. Returns `2 / u^T u` (0 for lanes with nothing to reflect) and that coordinate.
///
/// # Safety
/// `u` has n >= 1 vectors; instructions of `L`.
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
/// As [`reduce`], after it; `x` has dim vectors, and i is from 1 to dim - 1.
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
