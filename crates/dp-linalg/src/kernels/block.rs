//! A small diagonal block of an upper triangular factor.

use super::Kernel;

/// MR rows and columns on the diagonal of a symmetric matrix, then of its upper factor U. Where
/// the matrix ends earlier, the identity fills the rest, so that all loops have constant bounds.
pub(super) struct Block<T, const MR: usize> {
    /// Only the upper triangle means anything.
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

    /// Sets the reciprocals of a block of U.
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
