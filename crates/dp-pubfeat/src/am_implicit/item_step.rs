//! Item vectors from released sums: post-processing.

use super::AmImplicitSspParams;
use crate::am_residual::{LEVELS, Totals};
use crate::learn::{KernelRidge, RidgeNoise, StatisticsLearner};
use crate::{FeaturePrior, FeatureWeights, PooledStatistics, Result, SparseKernel};

/// Residual at which a solve ends, over that of 0: far below the noise.
const TOLERANCE: f64 = 1e-5;

/// How popular items are, by all releases so far, each weighed by one over the variance of its noise.
pub(super) struct Popularity {
    /// Precision times total weight of each item.
    sums: Vec<f64>,
    precision: f64,
    pub(super) n_users: f64,
}

impl Popularity {
    pub(super) fn new(totals: &Totals) -> Self {
        let precision = (totals.noise * totals.noise).recip();
        Self {
            sums: totals.released.iter().map(|w| precision * w).collect(),
            precision,
            n_users: totals.n_users,
        }
    }

    /// Adds what the first coordinates `a W_j` of right-hand sides say, each with this noise.
    fn add(&mut self, round: &LikesRound<'_>, constant: f64) {
        let scale = constant / (round.noise * round.noise);
        let firsts = round.sums.iter().step_by(round.dim);
        for (sum, first) in self.sums.iter_mut().zip(firsts) {
            *sum += scale * first;
        }
        self.precision += scale * constant;
    }

    fn noise(&self) -> f64 {
        self.precision.sqrt().recip()
    }

    /// `W_j`, at least so many deviations of the noise.
    fn weights(&self, floor: f64) -> Vec<f64> {
        let least = floor * self.noise();
        let weight = |sum: &f64| (sum / self.precision).max(least);
        self.sums.iter().map(weight).collect()
    }
}

/// One round's release, taken apart.
pub(super) struct LikesRound<'a> {
    pub(super) dim: usize,
    /// Right-hand sides, shape `(m, d)`.
    pub(super) sums: &'a [f64],
    /// `C`: the mean of users' `x x^T`, shape `(d, d)`.
    pub(super) mean: &'a [f64],
    /// Standard deviation of the noise in a right-hand side.
    pub(super) noise: f64,
}

/// What is learned in a round.
pub(super) struct Learned {
    /// Rows `[h_j, q_j]`.
    pub(super) vectors: Vec<f64>,
    pub(super) weights: FeatureWeights,
}

/// Lengths that items' vectors are expected to have by their popularity, relative to each other.
struct Scales {
    items: Vec<f64>,
    /// Of an item of unknown popularity: the mean over items that are not said to be unrated, weighed by their totals.
    unknown: f64,
}

impl Scales {
    /// `s_j = W_j^p` over the root of their mean square.
    fn new(weights: &[f64], prior: &FeaturePrior, power: f64) -> Self {
        let mut items: Vec<f64> = weights.iter().map(|w| w.powf(power)).collect();
        let square = items.iter().map(|s| s * s).sum::<f64>() / items.len() as f64;
        items.iter_mut().for_each(|s| *s /= square.sqrt());
        let (mut sum, mut whole) = (0.0, 0.0);
        for (item, (s, w)) in items.iter().zip(weights).enumerate() {
            if !prior.is_unrated(item) {
                sum += w * s;
                whole += w;
            }
        }
        let unknown = if whole > 0.0 { sum / whole } else { 1.0 };
        for (item, s) in items.iter_mut().enumerate() {
            if prior.is_unrated(item) {
                *s = unknown;
            }
        }
        Self { items, unknown }
    }
}

/// The item step.
///
/// ```text
/// seen     b_j = (W_j + a0 n) C v_j + noise          every user pulls the score to 0 with weight a0
/// prior    v_j = s_j z_j,  z ~ N(0, t^2 K),  s_j ~ W_j^p
/// answer   z = K A (A K A + l A + s^2 I)^-1 b,   A_j = s_j (W_j + a0 n) C
/// ```
///
/// An item's vector grows with its popularity, since `a0 n` is large compared with `W_j`; features say how those who like it differ from everybody, which is a question of direction. Of items that are publicly
/// known to be unrated nothing is seen, noes included.
pub(super) fn learn(
    params: &AmImplicitSspParams,
    prior: &FeaturePrior,
    popularity: &mut Popularity,
    round: &LikesRound<'_>,
) -> Result<Learned> {
    let constant = params.constant();
    popularity.add(round, constant);
    let weights = popularity.weights(params.totals_floor);
    let scales = Scales::new(&weights, prior, params.popularity_exponent);
    let made = prior.kernel(&weights, popularity.noise())?;
    let noise = RidgeNoise::FromRelease {
        item_norm: (params.item_variance * params.dim as f64).sqrt(),
    };
    let l2_penalty = params.label_variance / params.item_variance;
    let learner = KernelRidge::new(made.kernel, params.dim, noise, l2_penalty)?;
    let mut learner = learner.with_tolerance(TOLERANCE)?;
    let noes = params.item_unobserved_weight * popularity.n_users;
    let each = weights.iter().zip(&scales.items).enumerate();
    let factors = each.map(|(item, (w, s))| match prior.is_unrated(item) {
        true => 0.0,
        false => s * (w + noes),
    });
    let (dim, matrix, rhs) = (params.dim, round.mean.to_vec(), round.sums.to_vec());
    let statistics = PooledStatistics::new(dim, factors.collect(), matrix, rhs, round.noise)?;
    learner.learn_pooled(&statistics)?;
    let mut vectors = learner.item_vectors()?;
    for (row, s) in vectors.chunks_exact_mut(dim).zip(&scales.items) {
        row.iter_mut().for_each(|v| *v *= s);
    }
    let weights = encoder(prior, &learner, &made.unknown, (constant, scales.unknown))?;
    with_biases(&mut vectors, dim, constant);
    Ok(Learned { vectors, weights })
}

/// The linear encoder behind a solution, for items of unknown popularity.
fn encoder(
    prior: &FeaturePrior,
    learner: &KernelRidge<SparseKernel>,
    unknown: &[f64; LEVELS],
    (constant, scale): (f64, f64),
) -> Result<FeatureWeights> {
    let dim = learner.dim();
    let theta = learner.kernel().feature_sums(dim, learner.coefficients());
    let (mut features, mut shared) = prior.scaled(&theta, dim, unknown);
    for part in [&mut features, &mut shared] {
        part.iter_mut().for_each(|t| *t *= scale);
        with_biases(part, dim, constant);
    }
    FeatureWeights::new(dim, prior.category_sizes(), shared, features)
}

/// First coordinates, per unit of users' constant, become biases.
fn with_biases(rows: &mut [f64], dim: usize, constant: f64) {
    rows.iter_mut().step_by(dim).for_each(|v| *v *= constant);
}
