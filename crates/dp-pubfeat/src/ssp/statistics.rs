//! Statistics of all items, as released: what learners work on.

use dp_core::params;
use dp_linalg::{packed_len, project_psd_in_place, unpack_symmetric};
use dp_mechanism::{GramLayout, ReleasedGrams};
use rayon::prelude::*;

use crate::Result;

/// Per item a `d x d` matrix `A_j` and a vector `b_j`: the quadratic `sum_j v_j^T A_j v_j / 2 - b_j^T v_j` that item vectors are fitted to.
///
/// # Privacy
/// Released values. Everything done with them is post-processing.
///
/// Read from a file or a message it is checked as in [`new`](Self::new).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct ItemStatistics {
    dim: usize,
    /// `(m, d, d)`, row-major, symmetric.
    matrices: Vec<f64>,
    /// `(m, d)`.
    pub(crate) rhs: Vec<f64>,
    matrix_noise: f64,
    rhs_noise: f64,
}

/// As it was read.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    dim: usize,
    matrices: Vec<f64>,
    rhs: Vec<f64>,
    matrix_noise: f64,
    rhs_noise: f64,
}

impl TryFrom<Unchecked> for ItemStatistics {
    type Error = crate::Error;

    fn try_from(read: Unchecked) -> Result<Self> {
        let noise = [read.matrix_noise, read.rhs_noise];
        Self::new(read.dim, read.matrices, read.rhs, noise)
    }
}

impl ItemStatistics {
    /// Statistics from numbers that are public or released: `matrices` of shape `(m, dim, dim)`, symmetric, `rhs` of shape `(m, dim)`, and the
    /// standard deviations of the noise on a diagonal entry and on an entry of `rhs`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] or [`crate::Error::Shape`] for shapes that do not fit, or numbers that are not finite; [`crate::Error::Unsupported`] for a
    /// matrix that is not symmetric.
    pub fn new(
        dim: usize,
        matrices: Vec<f64>,
        rhs: Vec<f64>,
        noise_stddevs: [f64; 2],
    ) -> Result<Self> {
        params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        params::at_least_one("number of right-hand sides", rhs.len())?;
        params::same_size("right-hand sides", rhs.len() % dim, 0)?;
        params::same_size("matrices", matrices.len(), rhs.len() * dim)?;
        for &value in matrices.iter().chain(&rhs) {
            params::finite("statistic", value)?;
        }
        for noise in noise_stddevs {
            params::finite_non_negative("noise", noise)?;
        }
        let mirrored = |a: &[f64]| {
            let each = (0..dim * dim).map(|at| (at, at % dim * dim + at / dim));
            { each }.all(|(at, mirror)| a[at].to_bits() == a[mirror].to_bits())
        };
        if !matrices.chunks_exact(dim * dim).all(mirrored) {
            return Err(crate::Error::Unsupported {
                what: "matrices that are not symmetric",
            });
        }
        Ok(Self {
            dim,
            matrices,
            rhs,
            matrix_noise: noise_stddevs[0],
            rhs_noise: noise_stddevs[1],
        })
    }

    /// The released sums; a pooled matrix stands for every item.
    pub(crate) fn of(released: &ReleasedGrams) -> Self {
        let (dim, n_items) = (released.dim(), released.n_items());
        debug_assert_eq!(released.layout(), GramLayout::PerItem);
        let mut matrices = vec![0.0; n_items * dim * dim];
        let mut rhs = vec![0.0; n_items * dim];
        let each = matrices
            .chunks_exact_mut(dim * dim)
            .zip(rhs.chunks_exact_mut(dim));
        for (item, (matrix, b)) in each.enumerate() {
            released.write_item(item, matrix, b);
        }
        Self {
            dim,
            matrices,
            rhs,
            matrix_noise: released.matrix_noise_stddev(),
            rhs_noise: released.rhs_noise_stddev(),
        }
    }

    /// From one vector: all upper triangles with `sqrt 2` on the off-diagonals, in units of `scales.0`, then all right-hand sides in units of
    /// `scales.1`; `stddev` the noise of a coordinate.
    pub(crate) fn of_vector(
        dim: usize,
        values: &[f64],
        scales: (f64, f64),
        stddev: f64,
    ) -> Result<Self> {
        let n_packed = packed_len(dim);
        let n_items = values.len() / (n_packed + dim);
        let (triangles, rhs) = values.split_at(n_items * n_packed);
        let mut matrices = vec![0.0; n_items * dim * dim];
        let each = matrices
            .chunks_exact_mut(dim * dim)
            .zip(triangles.chunks_exact(n_packed));
        for (matrix, triangle) in each {
            unpack_symmetric(triangle, dim, matrix)?;
            for (at, cell) in matrix.iter_mut().enumerate() {
                let isometric = if at / dim == at % dim {
                    1.0
                } else {
                    0.5_f64.sqrt()
                };
                *cell *= isometric * scales.0;
            }
        }
        Ok(Self {
            dim,
            matrices,
            rhs: rhs.iter().map(|b| b * scales.1).collect(),
            matrix_noise: stddev * scales.0,
            rhs_noise: stddev * scales.1,
        })
    }

    /// Length `d` of an item's vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Number of items `m`.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.rhs.len() / self.dim
    }

    /// `A_j`, row-major.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn matrix(&self, item: usize) -> &[f64] {
        let square = self.dim * self.dim;
        &self.matrices[item * square..][..square]
    }

    /// `b_j`.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn rhs(&self, item: usize) -> &[f64] {
        &self.rhs[item * self.dim..][..self.dim]
    }

    /// Standard deviation of the noise on a diagonal entry of a matrix (smaller by `sqrt 2` off the diagonal), and on an entry of a
    /// right-hand side.
    #[must_use]
    pub const fn noise_stddevs(&self) -> [f64; 2] {
        [self.matrix_noise, self.rhs_noise]
    }

    /// Replaces every matrix by its positive semidefinite part.
    ///
    /// A noisy `A_j` has negative eigenvalues, along which the quadratic falls without end: gradient descent on raw matrices diverges if it runs long
    /// enough.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] when a matrix is not finite.
    pub fn project_psd(&mut self) -> Result<()> {
        let dim = self.dim;
        let matrices = self.matrices.par_chunks_exact_mut(dim * dim);
        matrices.try_for_each(|matrix| project_psd_in_place(matrix, dim).map(|_| ()))?;
        Ok(())
    }

    /// `out = A v - b` for one item.
    pub(crate) fn residual(&self, item: usize, v: &[f64], out: &mut [f64]) {
        let rows = self.matrix(item).chunks_exact(self.dim);
        for ((out, row), b) in out.iter_mut().zip(rows).zip(self.rhs(item)) {
            *out = row.iter().zip(v).map(|(a, v)| a * v).sum::<f64>() - b;
        }
    }
}
