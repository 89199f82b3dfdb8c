//! The closed form where all items share one matrix: coordinate by coordinate.

use dp_core::params;

use super::{KernelRidge, PooledStatistics};
use crate::Result;
use crate::features::ItemKernel;

impl<K: ItemKernel> KernelRidge<K> {
    /// [`learn`](crate::StatisticsLearner::learn) for matrices `A_j = f_j C`, without ever writing them.
    ///
    /// ```text
    /// C = U^T L U:   in the coordinates U v every A_j is the diagonal f_j L, so that a product costs m d in place of m d^2
    /// ```
    ///
    /// The same steps of conjugate gradients with the same preconditioner, in turned coordinates.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the statistics are of other items, [`crate::Error::Diverged`] when the solve leaves the finite numbers, [`crate::Error::Linalg`] when the matrix has no eigenvectors
    /// to be found.
    pub fn learn_pooled(&mut self, pooled: &PooledStatistics) -> Result<()> {
        params::same_size("statistics' dim", pooled.dim(), self.dim)?;
        let n_items = self.kernel.n_items();
        params::same_size("items of the statistics", pooled.factors().len(), n_items)?;
        let axes = pooled.axes()?;
        let square: f64 = pooled.matrix().iter().map(|a| a * a).sum();
        let squares = |item: usize| pooled.factors()[item].powi(2) * square;
        let ratio = self.ratio([0.0, pooled.rhs_noise()], pooled.rhs(), squares);
        let factors = pooled.factors().iter();
        let diagonal: Vec<f64> = factors
            .flat_map(|f| axes.values().map(move |value| f * value))
            .collect();
        let inverse = self.inverse(&diagonal, ratio);
        let scale = |by: &[f64], z: &[f64], out: &mut [f64]| {
            let each = out.iter_mut().zip(z).zip(by);
            each.for_each(|((out, z), by)| *out = by * z);
        };
        let dual = self.solve(
            |z, out| scale(&diagonal, z, out),
            |r| {
                r.iter_mut().zip(&inverse).for_each(|(r, by)| *r *= by);
                Ok(())
            },
            ratio,
            (&axes.turned(pooled.rhs()), axes.turned(&self.dual)),
        )?;
        let mut along = vec![0.0; dual.len()];
        scale(&diagonal, &dual, &mut along);
        self.coefficients = axes.turned_back(&along);
        self.kernel
            .apply(self.dim, &self.coefficients, &mut self.values);
        self.dual = axes.turned_back(&dual);
        Ok(())
    }

    /// One over the diagonal of `K_jj A^2 + l A + s^2 I`.
    fn inverse(&self, diagonal: &[f64], ratio: f64) -> Vec<f64> {
        let own = |at: usize| self.kernel.diagonal(at / self.dim);
        let each = diagonal.iter().enumerate();
        each.map(|(at, a)| (own(at) * a * a + self.l2_penalty * a + ratio).recip())
            .collect()
    }
}
