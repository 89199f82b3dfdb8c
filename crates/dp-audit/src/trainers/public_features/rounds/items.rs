//! Item vectors from releases, from the formulas of [`AmResidualSsp`](dp_pubfeat::AmResidualSsp) and [`AmImplicitSsp`](dp_pubfeat::AmImplicitSsp).

use dp_linalg::project_psd_in_place;
use dp_mechanism::ReleasedVector;
use dp_pubfeat::{
    AmImplicitSspParams, AmResidualSspParams, KernelRidge, PooledStatistics, RidgeNoise,
    SparseKernel, StatisticsLearner,
};

use super::prior::Features;
use crate::Result;
use crate::trainers::failed;

/// Share of a user's norm that goes to the items' total weights.
const TO_ITEMS: f64 = 0.95;
/// Norm of a user's second moments in a round, over that of the rest.
const MOMENTS: f64 = 0.1;
/// Residual at which the trainer's solves end.
const TOLERANCE: f64 = 1e-5;

/// Released total weights and number of users.
#[derive(Debug, Clone)]
pub(super) struct Totals {
    weights: Vec<f64>,
    noise: f64,
    n_users: f64,
}

impl Totals {
    pub(super) fn new(released: &ReleasedVector) -> Self {
        let mut values = released.values();
        let counted = values.pop().unwrap_or_default();
        Self {
            weights: values.iter().map(|t| t / TO_ITEMS).collect(),
            noise: released.noise_stddev() / TO_ITEMS,
            n_users: (counted / (1.0 - TO_ITEMS * TO_ITEMS).sqrt()).max(1.0),
        }
    }
}

/// One release of a round: sums of items, the mean of users' second moments, the noise of a sum, and the vectors per unit of constant that it was made at.
pub(super) struct Round {
    sums: Vec<f64>,
    mean: Vec<f64>,
    noise: f64,
    at: Vec<f64>,
}

impl Round {
    /// `bound` is the norm of what a user adds to items.
    pub(super) fn new(
        released: &ReleasedVector,
        totals: &Totals,
        bound: f64,
        vectors: Vec<f64>,
    ) -> Result<Self> {
        let (mut sums, noise) = (released.values(), released.noise_stddev());
        let moments = sums.split_off(vectors.len());
        let dim = moments.len().isqrt();
        let mirror = |at: usize| at % dim * dim + at / dim;
        let symmetric = |m: &[f64], at: usize| 0.5 * (m[at] + m[mirror(at)]);
        let whole = MOMENTS * bound * totals.n_users;
        let cells = 0..dim * dim;
        let mut mean: Vec<f64> = { cells.clone() }
            .map(|at| symmetric(&moments, at) / whole)
            .collect();
        project_psd_in_place(&mut mean, dim).map_err(failed)?;
        Ok(Self {
            mean: cells.map(|at| symmetric(&mean, at)).collect(),
            sums,
            noise,
            at: vectors,
        })
    }
}

/// `a` of users' `[a, u]`.
pub(super) fn constant(dim: usize, taste_norm: f64) -> f64 {
    if dim == 1 {
        return 1.0;
    }
    (1.0 - taste_norm * taste_norm).sqrt()
}

fn ridge(
    kernel: SparseKernel,
    dim: usize,
    [item_variance, label_variance]: [f64; 2],
) -> Result<KernelRidge<SparseKernel>> {
    let item_norm = (item_variance * dim as f64).sqrt();
    let noise = RidgeNoise::FromRelease { item_norm };
    let made = KernelRidge::new(kernel, dim, noise, label_variance / item_variance);
    made.and_then(|made| made.with_tolerance(TOLERANCE))
        .map_err(failed)
}

/// Ratings: all rounds so far speak, each with one over the variance of its noise, older ones with `memory` per round less.
pub(super) struct Residuals<'a> {
    params: &'a AmResidualSspParams,
    weights: Vec<f64>,
    learner: KernelRidge<SparseKernel>,
    rounds: Vec<Round>,
}

impl<'a> Residuals<'a> {
    pub(super) fn new(
        params: &'a AmResidualSspParams,
        features: &Features,
        totals: &Totals,
    ) -> Result<Self> {
        let least = params.totals_floor * totals.noise;
        let weights: Vec<f64> = totals.weights.iter().map(|w| w.max(least)).collect();
        let kernel = features.kernel(&weights, totals.noise)?;
        let variances = [params.item_variance, params.label_variance];
        Ok(Self {
            learner: ridge(kernel, params.dim, variances)?,
            rounds: Vec::new(),
            params,
            weights,
        })
    }

    pub(super) const fn n_rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Vectors per unit of constant after one more round.
    pub(super) fn learn(&mut self, round: Round) -> Result<Vec<f64>> {
        self.rounds.push(round);
        let (dim, last) = (self.params.dim, self.rounds.len() - 1);
        let counts: Vec<f64> = (0..)
            .zip(&self.rounds)
            .map(|(t, round)| {
                self.params
                    .memory
                    .powi(i32::try_from(last).unwrap_or(0) - t)
                    / round.noise.powi(2)
            })
            .collect();
        let whole: f64 = counts.iter().sum();
        let over = |value: &dyn Fn(&Round) -> f64| -> f64 {
            let each = counts.iter().zip(&self.rounds);
            each.map(|(g, one)| g * value(one)).sum::<f64>() / whole
        };
        let matrix = (0..dim * dim).map(|at| over(&|one| one.mean[at]));
        let rhs = (0..self.weights.len() * dim).map(|at| {
            let (item, row) = (at / dim, at % dim);
            over(&|one| {
                let v = &one.at[item * dim..][..dim];
                let image = one.mean[row * dim..][..dim].iter().zip(v);
                one.sums[at] + self.weights[item] * image.map(|(c, v)| c * v).sum::<f64>()
            })
        });
        let squares = counts.iter().zip(&self.rounds);
        let noise = squares
            .map(|(g, one)| (g * one.noise).powi(2))
            .sum::<f64>()
            .sqrt()
            / whole;
        let weights = self.weights.clone();
        let statistics =
            PooledStatistics::new(dim, weights, matrix.collect(), rhs.collect(), noise);
        let learned = self.learner.learn_pooled(&statistics.map_err(failed)?);
        learned.map_err(failed)?;
        self.learner.item_vectors().map_err(failed)
    }
}

/// Likes: the last round alone, and popularity by all of them.
pub(super) struct Likes<'a> {
    params: &'a AmImplicitSspParams,
    features: &'a Features,
    n_users: f64,
    /// Per release what it says of `W_j`, and the noise of that.
    popularity: Vec<(Vec<f64>, f64)>,
}

impl<'a> Likes<'a> {
    pub(super) fn new(
        params: &'a AmImplicitSspParams,
        features: &'a Features,
        totals: &Totals,
    ) -> Self {
        Self {
            popularity: vec![(totals.weights.clone(), totals.noise)],
            n_users: totals.n_users,
            params,
            features,
        }
    }

    /// Vectors per unit of constant.
    pub(super) fn learn(&mut self, round: &Round) -> Result<Vec<f64>> {
        let (params, dim) = (self.params, self.params.dim);
        let a = constant(dim, params.taste_norm);
        let firsts = round.sums.iter().step_by(dim).map(|b| b / a);
        self.popularity.push((firsts.collect(), round.noise / a));
        let precisions = || self.popularity.iter().map(|(_, noise)| noise.powi(-2));
        let whole: f64 = precisions().sum();
        let noise = whole.sqrt().recip();
        let weight = |item: usize| {
            let each = self.popularity.iter().zip(precisions());
            let mean = each.map(|((w, _), p)| p * w[item]).sum::<f64>() / whole;
            mean.max(params.totals_floor * noise)
        };
        let weights: Vec<f64> = (0..self.features.n_items()).map(weight).collect();
        let power = |w: &f64| w.powf(params.popularity_exponent);
        let square = weights.iter().map(|w| power(w).powi(2)).sum::<f64>() / weights.len() as f64;
        let lengths: Vec<f64> = weights.iter().map(|w| power(w) / square.sqrt()).collect();
        let noes = params.item_unobserved_weight * self.n_users;
        let factors = lengths.iter().zip(&weights).map(|(s, w)| s * (w + noes));
        let (matrix, rhs) = (round.mean.clone(), round.sums.clone());
        let statistics = PooledStatistics::new(dim, factors.collect(), matrix, rhs, round.noise);
        let variances = [params.item_variance, params.label_variance];
        let mut learner = ridge(self.features.kernel(&weights, noise)?, dim, variances)?;
        learner
            .learn_pooled(&statistics.map_err(failed)?)
            .map_err(failed)?;
        let mut vectors = learner.item_vectors().map_err(failed)?;
        for (row, s) in vectors.chunks_exact_mut(dim).zip(&lengths) {
            row.iter_mut().for_each(|v| *v *= s);
        }
        Ok(vectors)
    }
}
