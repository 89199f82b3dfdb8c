//! The closed form for linear encoders, using the known noise.

use dp_core::params;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use super::encoder_descent::multiply;
use super::{StatisticsLearner, check_shape};
use crate::features::{FeatureKernel, ItemKernel, in_public_range};
use crate::{Error, ItemStatistics, Result};

/// The noise that a closed form assumes: `s^2`, the variance of the noise in an entry of `b`
/// divided by the variance of an entry of an item's vector.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum RidgeNoise {
    /// A public constant.
    Given {
        /// `s^2`, above 0.
        ratio: f64,
    },
    /// From the noise of the release, for item vectors whose norm is about `item_norm`, a public
    /// guess.
    ///
    /// ```text
    /// t^2 = item_norm^2 / d,   s^2 = s_b^2 / t^2 + s_A^2 (d + 1) / 2
    /// ```
    ///
    /// `(d + 1) / 2` is the contribution of the noise of a matrix, which is smaller by `sqrt 2` off
    /// the diagonal, to an entry of `A v` per unit of `t^2`.
    FromRelease {
        /// The guess, from 1e-6 to 1e6.
        item_norm: f64,
    },
    /// The same with `t^2` estimated from the release itself, by moments:
    ///
    /// ```text
    /// t^2 = max(0, sum_j ||b_j||^2 - m d s_b^2) / sum_j K_jj (||A_j||_F^2 - d (d + 1) / 2 s_A^2),   at least (floor / d)
    /// ```
    Estimated {
        /// Lower bound on `d t^2`, from 1e-6 to 1e6.
        floor: f64,
    },
}

/// Item vectors in closed form: the linear encoder with the best expected fit, given the noise.
///
/// ```text
/// prior   v ~ N(0, t^2 K)   (theta ~ N(0, t^2 I) on scaled features)
/// data    b = A v + noise,  covariance t^2 (s^2 I + l A)
/// answer  v = K A (A K A + l A + s^2 I)^-1 b
/// ```
///
/// With `s^2 = 0` this is the ridge regression `min_theta sum_j v_j^T A_j v_j / 2 - b_j^T v_j + l
/// ||theta||^2 / 2` of the paper's linear problem: `v = K (A K + l)^-1 b`. `s^2` accounts for the
/// noise of the release, which the ridge alone does not: the noise does not grow with an item's
/// data, while `A_j` does. Both are post-processing. Matrices are replaced by their positive
/// semidefinite parts. The system is solved by conjugate gradients, preconditioned by each item's
/// own block, starting from the solution for the previous statistics; the cost of one of its steps
/// is `m^2 d` with a [`FeatureKernel`], whatever `p` is, and `(m d + n) d` with a
/// [`SparseKernel`](crate::SparseKernel) for `n` active features.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelRidge<K = FeatureKernel> {
    pub(super) kernel: K,
    pub(super) dim: usize,
    noise: RidgeNoise,
    pub(super) l2_penalty: f64,
    tolerance: f64,
    /// `z = (A K A + l A + s^2 I)^-1 b`.
    pub(super) dual: Vec<f64>,
    /// `A z`.
    pub(super) coefficients: Vec<f64>,
    /// `K A z`.
    pub(super) values: Vec<f64>,
}

/// Maximum number of conjugate-gradient steps.
const MOST_STEPS: usize = 1000;
/// Relative residual at which they end.
const TOLERANCE: f64 = 1e-9;

impl<K: ItemKernel> KernelRidge<K> {
    /// A learner; `l2_penalty` is `l`, 0 or above, a public constant.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a setting out of range.
    pub fn new(kernel: K, dim: usize, noise: RidgeNoise, l2_penalty: f64) -> Result<Self> {
        params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        params::finite_non_negative("l2_penalty", l2_penalty)?;
        match noise {
            RidgeNoise::Given { ratio } => params::finite_positive("ratio", ratio)?,
            RidgeNoise::FromRelease { item_norm } => in_public_range("item_norm", item_norm)?,
            RidgeNoise::Estimated { floor } => in_public_range("floor", floor)?,
        };
        let zeros = vec![0.0; kernel.n_items() * dim];
        Ok(Self {
            kernel,
            dim,
            noise,
            l2_penalty,
            tolerance: TOLERANCE,
            dual: zeros.clone(),
            coefficients: zeros.clone(),
            values: zeros,
        })
    }

    /// The same learner with solves that stop at a residual of `tolerance` times the norm of `b`
    /// instead of 1e-9.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless it lies strictly between 0 and 1.
    pub fn with_tolerance(mut self, tolerance: f64) -> Result<Self> {
        self.tolerance = params::open_unit("tolerance", tolerance)?;
        Ok(self)
    }

    /// The same learner, whose next solve starts at the solution of `other`, of the same shape.
    pub(crate) fn starting_as(mut self, other: &Self) -> Self {
        self.dual.clone_from(&other.dual);
        self
    }

    /// The kernel.
    pub const fn kernel(&self) -> &K {
        &self.kernel
    }

    /// `A z`, shape `(m, d)`: `K` times it gives the item vectors, and `X^T` times it the weights
    /// of a linear encoder.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// `s^2` and `t^2` for this noise in matrices and right-hand sides, and matrices with these
    /// squared norms.
    pub(super) fn assumed(
        &self,
        [of_matrix, of_rhs]: [f64; 2],
        rhs: &[f64],
        squares: impl Fn(usize) -> f64,
    ) -> [f64; 2] {
        let d = self.dim as f64;
        let mixed = 0.5 * (d + 1.0) * of_matrix * of_matrix;
        let variance = match self.noise {
            RidgeNoise::Given { ratio } => return [ratio, of_rhs * of_rhs / ratio],
            RidgeNoise::FromRelease { item_norm } => item_norm * item_norm / d,
            RidgeNoise::Estimated { floor } => {
                let n_items = self.kernel.n_items();
                let noise = (n_items as f64) * d * of_rhs * of_rhs;
                let seen = rhs.iter().map(|b| b * b).sum::<f64>() - noise;
                let matrix = |item| (squares(item) - d * mixed).max(0.0);
                let expected: f64 = (0..n_items)
                    .map(|item| self.kernel.diagonal(item) * matrix(item))
                    .sum();
                let moment = if expected > 0.0 { seen / expected } else { 0.0 };
                moment.max(floor / d)
            }
        };
        // without either noise there would be no solution where a matrix is singular
        let ratio = (of_rhs * of_rhs / variance + mixed).max(1e-12);
        [ratio, variance]
    }

    /// Cholesky factors of `K_jj A_j^2 + l A_j + s^2 I`.
    fn blocks(&self, statistics: &ItemStatistics, ratio: f64) -> Result<Vec<f64>> {
        let dim = self.dim;
        let mut blocks = vec![0.0; self.values.len() * dim];
        for (item, block) in blocks.chunks_exact_mut(dim * dim).enumerate() {
            let a = statistics.matrix(item);
            let own = self.kernel.diagonal(item);
            for (at, cell) in block.iter_mut().enumerate() {
                let (row, column) = (at / dim, at % dim);
                let square: f64 = (0..dim)
                    .map(|k| a[row * dim + k] * a[k * dim + column])
                    .sum();
                *cell = own * square + self.l2_penalty * a[at];
                if row == column {
                    *cell += ratio;
                }
            }
            cholesky_in_place(block, dim)?;
        }
        Ok(blocks)
    }

    /// `(A K A + l A + s^2 I)^-1 b` from `b` and an initial guess, for `A` given by its product.
    pub(super) fn solve(
        &self,
        multiply: impl Fn(&[f64], &mut [f64]),
        precondition: impl Fn(&mut [f64]) -> Result<()>,
        ratio: f64,
        (rhs, mut dual): (&[f64], Vec<f64>),
    ) -> Result<Vec<f64>> {
        let (mut a, mut k) = (vec![0.0; rhs.len()], vec![0.0; rhs.len()]);
        let product = |z: &[f64], out: &mut [f64]| {
            multiply(z, &mut a);
            self.kernel.apply(self.dim, &a, &mut k);
            multiply(&k, out);
            for ((out, z), a) in out.iter_mut().zip(z).zip(&a) {
                *out += self.l2_penalty * a + ratio * z;
            }
        };
        let stop = (self.tolerance, MOST_STEPS);
        conjugate_gradients(product, precondition, rhs, &mut dual, stop)?;
        Ok(dual)
    }
}

impl<K: ItemKernel> StatisticsLearner for KernelRidge<K> {
    fn n_items(&self) -> usize {
        self.kernel.n_items()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn learn(&mut self, statistics: &ItemStatistics) -> Result<()> {
        check_shape(self, statistics)?;
        let squares = |item| statistics.matrix(item).iter().map(|a| a * a).sum();
        let [ratio, _] = self.assumed(statistics.noise_stddevs(), &statistics.rhs, squares);
        let mut projected = statistics.clone();
        projected.project_psd()?;
        let (statistics, dim) = (&projected, self.dim);
        let blocks = self.blocks(statistics, ratio)?;
        let precondition = |r: &mut [f64]| {
            let rows = r.chunks_exact_mut(dim);
            for (block, r) in blocks.chunks_exact(dim * dim).zip(rows) {
                cholesky_solve_in_place(block, dim, r)?;
            }
            Ok(())
        };
        let product = |z: &[f64], out: &mut [f64]| multiply(statistics, z, out);
        let from = (&*statistics.rhs, self.dual.clone());
        let dual = self.solve(product, precondition, ratio, from)?;
        multiply(statistics, &dual, &mut self.coefficients);
        self.kernel.apply(dim, &self.coefficients, &mut self.values);
        self.dual = dual;
        Ok(())
    }

    fn item_vectors(&self) -> Result<Vec<f64>> {
        Ok(self.values.clone())
    }
}

/// Solves `M x = b` for a positive definite `M` given by its product, starting at `x`;
/// `precondition` overwrites a residual `r` with an approximation of `M^-1 r`. Stops at a residual
/// of `tolerance` times the norm of `b`, or after `most` steps, whichever comes first. Starting
/// from `x = 0`, an early stop gives a regularised solution; starting from an older solution, it
/// gives one between that and the new one.
fn conjugate_gradients(
    mut product: impl FnMut(&[f64], &mut [f64]),
    precondition: impl Fn(&mut [f64]) -> Result<()>,
    b: &[f64],
    x: &mut [f64],
    (tolerance, most): (f64, usize),
) -> Result<()> {
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let goal = tolerance * tolerance * dot(b, b);
    let mut image = vec![0.0; b.len()];
    product(x, &mut image);
    let mut residual: Vec<f64> = b.iter().zip(&image).map(|(b, m)| b - m).collect();
    let mut z = residual.clone();
    precondition(&mut z)?;
    let mut direction = z.clone();
    let mut along = dot(&residual, &z);
    for _ in 0..most {
        if dot(&residual, &residual) <= goal {
            break;
        }
        product(&direction, &mut image);
        let curvature = dot(&direction, &image);
        if !(curvature > 0.0 && along.is_finite()) {
            return Err(Error::Diverged);
        }
        let step = along / curvature;
        x.iter_mut()
            .zip(&direction)
            .for_each(|(x, d)| *x += step * d);
        residual
            .iter_mut()
            .zip(&image)
            .for_each(|(r, m)| *r -= step * m);
        z.copy_from_slice(&residual);
        precondition(&mut z)?;
        let next = dot(&residual, &z);
        let keep = next / along;
        along = next;
        direction
            .iter_mut()
            .zip(&z)
            .for_each(|(d, z)| *d = z + keep * *d);
    }
    super::finite(x)
}
