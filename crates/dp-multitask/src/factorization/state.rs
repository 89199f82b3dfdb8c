//! What a run has learnt so far. Everything in it was released or is public.

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, Normal};

use super::item_update::ItemUpdate;
use super::params::FactorizationParams;
use super::residual_step::KeptMatrices;
use crate::regression::TaskScales;
use crate::{NoisyCounts, Result};

/// Released counts, and the rounds so far.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct TrainingState {
    pub(super) counts: Option<NoisyCounts>,
    /// From the released total weights of the items, for gradient steps and pooled matrices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scales: Option<TaskScales>,
    pub(super) rounds: Option<RoundState>,
}

/// Item factors as they stand after the rounds so far.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct RoundState {
    pub(super) dim: usize,
    pub(super) n_rounds: usize,
    pub(super) factors: Vec<f64>,
    /// Sum of the inverse noise variances of the rounds so far.
    precision: f64,
    /// The last released matrices, for residual rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) matrices: Option<KeptMatrices>,
}

impl TrainingState {
    pub(super) fn n_rounds(&self) -> usize {
        self.rounds.as_ref().map_or(0, |rounds| rounds.n_rounds)
    }

    /// Whether this is a state that a run over `n_items` can be in after `n_releases`.
    pub(super) fn is_consistent(
        &self,
        params: &FactorizationParams,
        n_items: usize,
        n_releases: usize,
    ) -> bool {
        let counted = params.releases_counts();
        let counts = self.counts.iter().len();
        let before = counts + self.scales.iter().len();
        let releases = params.releases_of(self.n_rounds());
        let releases = releases.and_then(|n| n.checked_add(before));
        let factors_fit = self.rounds.as_ref().is_none_or(|rounds| {
            let expected = n_items.checked_mul(rounds.dim);
            (1..=256).contains(&rounds.dim)
                && Some(rounds.factors.len()) == expected
                && rounds.factors.iter().all(|f| f.is_finite())
                && rounds.precision.is_finite()
                && rounds.precision > 0.0
                && rounds.matrices_fit(params, n_items)
        });
        let weighed = params.weight_share().is_some();
        let scales_fit = match &self.scales {
            Some(scales) => weighed && scales.is_consistent(n_items),
            None => !weighed || self.rounds.is_none(),
        };
        let counts_fit = match &self.counts {
            Some(counts) => {
                let values = counts.values();
                counted && values.len() == n_items && values.iter().all(|v| v.is_finite())
            }
            None => !counted || n_releases == 0,
        };
        releases == Some(n_releases) && factors_fit && counts_fit && scales_fit
    }
}

impl RoundState {
    pub(super) fn new(params: &FactorizationParams, n_items: usize, dim: usize) -> Result<Self> {
        Ok(Self {
            dim,
            n_rounds: 0,
            factors: initial_factors(n_items, dim, params.init_stddev, params.init_seed)?,
            precision: 0.0,
            matrices: None,
        })
    }

    /// Residual rounds keep the matrices of the rounds of statistics, other runs keep none.
    fn matrices_fit(&self, params: &FactorizationParams, n_items: usize) -> bool {
        let dim = params.score_model.coordinates(self.dim);
        let kept = matches!(params.item_update, ItemUpdate::Residual(_));
        match &self.matrices {
            Some(matrices) => {
                let n_matrices = if params.pooled_matrices.is_some() {
                    1
                } else {
                    n_items
                };
                kept && matrices.is_consistent(n_matrices, dim)
            }
            None => !kept,
        }
    }

    /// Takes over factors that a round made from those before it.
    pub(super) fn refine(&mut self, factors: Vec<f64>, noise_multiplier: f64) {
        self.precision += noise_multiplier.powi(-2);
        self.n_rounds += 1;
        self.factors = factors;
    }

    /// Takes over a round's factors. Item biases alone do not depend on how users were described
    /// in the round, so rounds are averaged by their precision; tastes are those of the last round.
    pub(super) fn advance(&mut self, solved: Vec<f64>, noise_multiplier: f64) {
        let precision = noise_multiplier.powi(-2);
        self.precision += precision;
        self.n_rounds += 1;
        if self.dim > 1 {
            self.factors = solved;
            return;
        }
        let share = precision / self.precision;
        for (average, new) in self.factors.iter_mut().zip(solved) {
            *average += share * (new - *average);
        }
    }
}

/// Rows `[0, q_i]` with `q_i` normal, shape `(n_items, dim)`.
pub(crate) fn initial_factors(
    n_items: usize,
    dim: usize,
    stddev: f64,
    seed: u64,
) -> Result<Vec<f64>> {
    let normal = Normal::new(0.0, stddev).map_err(|_| dp_core::ParamError {
        name: "init_stddev",
        value: stddev,
        expected: "a finite number above 0",
    })?;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    Ok((0..n_items * dim)
        .map(|at| {
            if at % dim == 0 {
                0.0
            } else {
                normal.sample(&mut rng)
            }
        })
        .collect())
}
