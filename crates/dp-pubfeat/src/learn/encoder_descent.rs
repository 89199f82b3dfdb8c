//! Gradient descent on an encoder's parameters.

use dp_core::params;
use rand::Rng;
use rand::seq::index;

use super::{StatisticsLearner, check_shape, finite};
use crate::{
    FeatureKernel, ItemStatistics, Optimiser, OptimiserState, PublicEncoder, Result, SparseRows,
};

/// How an encoder is trained on released statistics. All settings are public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descent {
    /// Number of steps on the statistics of one release, 1 to 1,000,000. There is no early
    /// stopping.
    pub n_steps: usize,
    /// How a gradient moves the parameters.
    pub optimiser: Optimiser,
    /// Number of items in a step, drawn uniformly without replacement; none for all. Items are
    /// public, so this neither costs nor saves privacy budget.
    pub item_batch: Option<usize>,
    /// Weight of `||v_j||^2 / 2` for each item, a public constant, 0 or above.
    pub l2_penalty: f64,
    /// Whether matrices are replaced by their positive semidefinite parts first. The paper does not
    /// do this; see [`ItemStatistics::project_psd`].
    pub project_psd: bool,
}

impl Descent {
    /// All items in every step, matrices projected, no penalty.
    #[must_use]
    pub const fn new(n_steps: usize, optimiser: Optimiser) -> Self {
        Self {
            n_steps,
            optimiser,
            item_batch: None,
            l2_penalty: 0.0,
            project_psd: true,
        }
    }

    fn check(&self, n_items: usize) -> Result<()> {
        let range = "a whole number from 1 to 1000000";
        params::in_range("n_steps", self.n_steps, 1, 1_000_000, range)?;
        params::finite_non_negative("l2_penalty", self.l2_penalty)?;
        if let Some(batch) = self.item_batch {
            params::in_range("item_batch", batch, 1, n_items, "1 to the number of items")?;
        }
        self.optimiser.check().map(|_| ())
    }
}

/// Gradient steps on the parameters of any encoder (lines 9 to 11 of Algorithm 2, 7 and 8 of Algorithm 3, 7 to 9 of Algorithm 5).
///
/// ```text
/// G = sum_{j in batch} J_j [A_j v_j - b_j + l2_penalty v_j],   theta <- theta - optimiser's step of G
/// ```
///
/// Source: Krichene et al. 2024, Proposition 1. One forward and one backward pass per item and step; the gradient keeps the sparsity of the features.
#[derive(Debug, Clone)]
pub struct EncoderDescent<E, R> {
    encoder: E,
    descent: Descent,
    state: OptimiserState,
    rng: R,
}

impl<E: PublicEncoder, R: Rng> EncoderDescent<E, R> {
    /// A learner that starts at the encoder's parameters; `rng` draws batches of items, the same
    /// ones in every run of a trainer.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a setting out of range.
    pub fn new(encoder: E, descent: Descent, rng: R) -> Result<Self> {
        descent.check(encoder.n_items())?;
        let state = OptimiserState::new(descent.optimiser, encoder.dim())?;
        Ok(Self {
            encoder,
            descent,
            state,
            rng,
        })
    }

    /// The encoder in its current state.
    #[must_use]
    pub const fn encoder(&self) -> &E {
        &self.encoder
    }

    /// The encoder in its current state.
    #[must_use]
    pub fn into_encoder(self) -> E {
        self.encoder
    }

    /// Items of the next step; in increasing order if it uses all of them.
    fn batch(&mut self) -> Vec<u32> {
        let n_items = self.encoder.n_items();
        let number = |j: usize| u32::try_from(j).unwrap_or(u32::MAX); // items are u32
        match self.descent.item_batch {
            None => (0..n_items).map(number).collect(),
            Some(size) => index::sample(&mut self.rng, n_items, size)
                .into_iter()
                .map(number)
                .collect(),
        }
    }

    fn step(&mut self, statistics: &ItemStatistics, gradient: &mut SparseRows) -> Result<()> {
        let (items, dim) = (self.batch(), self.encoder.dim());
        let mut vectors = vec![0.0; items.len() * dim];
        self.encoder.forward(&items, &mut vectors)?;
        let mut in_vectors = vec![0.0; vectors.len()];
        let each = in_vectors
            .chunks_exact_mut(dim)
            .zip(vectors.chunks_exact(dim));
        for (&item, (g, v)) in items.iter().zip(each) {
            statistics.residual(item as usize, v, g);
            for (g, v) in g.iter_mut().zip(v) {
                *g += self.descent.l2_penalty * v;
            }
        }
        finite(&in_vectors)?;
        gradient.clear();
        self.encoder.vjp(&items, &in_vectors, gradient)?;
        self.state.step(gradient, self.encoder.parameters_mut());
        Ok(())
    }
}

impl<E: PublicEncoder, R: Rng> StatisticsLearner for EncoderDescent<E, R> {
    fn n_items(&self) -> usize {
        self.encoder.n_items()
    }

    fn dim(&self) -> usize {
        self.encoder.dim()
    }

    fn learn(&mut self, statistics: &ItemStatistics) -> Result<()> {
        check_shape(self, statistics)?;
        let mut projected = None;
        if self.descent.project_psd {
            let copy: &mut ItemStatistics = projected.insert(statistics.clone());
            copy.project_psd()?;
        }
        let statistics = projected.as_ref().unwrap_or(statistics);
        let mut gradient = SparseRows::new(self.encoder.dim());
        for _ in 0..self.descent.n_steps {
            self.step(statistics, &mut gradient)?;
        }
        finite(&self.item_vectors()?)
    }

    fn item_vectors(&self) -> Result<Vec<f64>> {
        let items = 0..self.encoder.n_items();
        let items: Vec<u32> = items.map_while(|j| u32::try_from(j).ok()).collect();
        let mut vectors = vec![0.0; items.len() * self.encoder.dim()];
        self.encoder.forward(&items, &mut vectors)?;
        Ok(vectors)
    }
}

/// Settings of [`ValueDescent`]. All are public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueDescentParams {
    /// Number of steps on the statistics of one release, 1 to 1,000,000.
    pub n_steps: usize,
    /// Step size as a multiple of the inverse of the largest curvature, above 0 and at most 2.
    pub rate: f64,
    /// Weight of the penalty `||theta||_F^2 / 2`, in units of the statistics times the kernel's scale, 0 or above.
    pub l2_penalty: f64,
    /// Whether matrices are replaced by their positive semidefinite parts first.
    pub project_psd: bool,
}

impl ValueDescentParams {
    /// Full steps, matrices projected, no penalty.
    #[must_use]
    pub const fn new(n_steps: usize) -> Self {
        Self {
            n_steps,
            rate: 1.0,
            l2_penalty: 0.0,
            project_psd: true,
        }
    }
}

/// Gradient descent on the parameters `theta` of a linear encoder, without forming them.
///
/// ```text
/// theta <- theta - h X^T (A v - b) - h l theta    becomes    v <- v - h [K (A v - b) + l v],   K the feature kernel
/// ```
///
/// Gives the same iterates as descent on the parameters, at a cost of `m^2 d` per step whatever `p`
/// is. The largest curvature `L` of `K^(1/2) A K^(1/2)` is found by power iteration on released
/// values; the step is `rate / (L + l)`.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueDescent {
    kernel: FeatureKernel,
    params: ValueDescentParams,
    dim: usize,
    values: Vec<f64>,
}

impl ValueDescent {
    /// A learner that starts at 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a setting out of range.
    pub fn new(kernel: FeatureKernel, dim: usize, params: ValueDescentParams) -> Result<Self> {
        params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        let range = "a whole number from 1 to 1000000";
        params::in_range("n_steps", params.n_steps, 1, 1_000_000, range)?;
        params::finite_positive("rate", params.rate)?;
        params::finite_non_negative("2 - rate", 2.0 - params.rate)?;
        params::finite_non_negative("l2_penalty", params.l2_penalty)?;
        let values = vec![0.0; kernel.n_items() * dim];
        Ok(Self {
            kernel,
            params,
            dim,
            values,
        })
    }

    /// Estimate of the largest eigenvalue of `K A`, raised by a twentieth.
    fn curvature(&self, statistics: &ItemStatistics) -> f64 {
        let dim = self.dim;
        let mut v: Vec<f64> = (0..self.values.len())
            .map(|k| 1.0 + 0.1 * f64::from(u8::try_from(k % 7).unwrap_or(0)))
            .collect();
        let (mut a, mut largest) = (vec![0.0; v.len()], 0.0);
        for _ in 0..40 {
            let norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
            if !(norm > 0.0 && norm.is_finite()) {
                return 0.0;
            }
            v.iter_mut().for_each(|v| *v /= norm);
            multiply(statistics, &v, &mut a);
            self.kernel.apply(dim, &a, &mut v);
            largest = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        }
        1.05 * largest
    }

    fn descend(&mut self, statistics: &ItemStatistics) -> Result<()> {
        let whole = self.curvature(statistics) + self.params.l2_penalty;
        if whole <= 0.0 {
            return Ok(()); // all zeros: nothing to learn
        }
        let step = self.params.rate / whole;
        let mut in_values = vec![0.0; self.values.len()];
        let mut moved = in_values.clone();
        for _ in 0..self.params.n_steps {
            let each = in_values
                .chunks_exact_mut(self.dim)
                .zip(self.values.chunks_exact(self.dim));
            for (item, (g, v)) in each.enumerate() {
                statistics.residual(item, v, g);
            }
            self.kernel.apply(self.dim, &in_values, &mut moved);
            for (v, m) in self.values.iter_mut().zip(&moved) {
                *v -= step * (m + self.params.l2_penalty * *v);
            }
        }
        finite(&self.values)
    }
}

impl StatisticsLearner for ValueDescent {
    fn n_items(&self) -> usize {
        self.kernel.n_items()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn learn(&mut self, statistics: &ItemStatistics) -> Result<()> {
        check_shape(self, statistics)?;
        if !self.params.project_psd {
            return self.descend(statistics);
        }
        let mut projected = statistics.clone();
        projected.project_psd()?;
        self.descend(&projected)
    }

    fn item_vectors(&self) -> Result<Vec<f64>> {
        Ok(self.values.clone())
    }
}

/// `out_j = A_j v_j` for all items.
pub(super) fn multiply(statistics: &ItemStatistics, v: &[f64], out: &mut [f64]) {
    let dim = statistics.dim();
    let each = out.chunks_exact_mut(dim).zip(v.chunks_exact(dim));
    for (item, (out, v)) in each.enumerate() {
        let rows = statistics.matrix(item).chunks_exact(dim);
        for (out, row) in out.iter_mut().zip(rows) {
            *out = row.iter().zip(v).map(|(a, v)| a * v).sum();
        }
    }
}
