//! Functions of several symmetric matrices at once, one matrix per lane.

use std::marker::PhantomData;

use super::Kernel;
use super::dispatch::Operation;
use super::lanes::Lanes;
use super::ql::{Rotations, diagonalise, rotate_back};
use super::tridiagonal::{reduce, reflect};

/// A mutable list of vectors, copied about like a pointer: the borrow keeps the memory alive and
/// the functions of this module keep to one thread.
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

    /// The vectors from `first` on.
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
        // SAFETY: the caller vouches for the index.
        unsafe { L::load(self.start.add(index * L::WIDTH)) }
    }

    /// # Safety
    /// As [`get`](Self::get).
    #[inline(always)]
    pub(super) unsafe fn set(self, index: usize, value: L) {
        debug_assert!(index < self.count);
        // SAFETY: the caller vouches for the index.
        unsafe { value.store(self.start.add(index * L::WIDTH)) }
    }
}

/// `lanes` systems side by side: entry k of system s is at `k * lanes + s` of each list.
#[derive(Debug, Clone)]
pub(crate) struct LaneSystems<T> {
    /// Packed lower triangles by rows: entry (j, k), k <= j, is number `j (j + 1) / 2 + k`.
    pub(crate) matrices: Vec<T>,
    /// Right-hand sides, then solutions.
    pub(crate) rhs: Vec<T>,
    /// What each matrix and right-hand side was divided by, and each ridge.
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

/// Replaces each right-hand side by `V diag(t / (max(s lambda, 0) + ridge)) V^T b`, where
/// `V diag(lambda) V^T` is the matrix, s its scale and t that of b. The matrices, of largest
/// magnitude from 1 to 2 or zero, are destroyed. False when some lane did not converge.
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
        // SAFETY: the lengths were asserted; instructions as the caller vouches.
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
