//! Rounds with a feature-based prior (`dp-pubfeat`).

use dp_core::params;
use dp_linalg::project_psd_in_place;
use dp_mechanism::{Grid, Observed, ObservedSums, ReleasedVector};
use dp_pubfeat::{
    AmImplicitSsp, AmImplicitSspParams, AmResidualSsp, AmResidualSspParams, ExampleWeights,
    FeatureModel, ItemFeatures, KernelRidge, LikesContribution, LikesModel, PooledStatistics,
    PriorVariances, ProblemSetup, RidgeNoise, RoundContribution, SparseKernel, StatisticsLearner,
    TotalsContribution,
};

use super::shares::{OneVector, Room, same_vectors};
use crate::trainer::{AuditedUsers, differs, failed};
use crate::view::View;
use crate::{Oracle, Result, Watch};

/// Oracle for alternating minimisation with a feature-based prior (`dp-pubfeat`).
///
/// Like [`PublicFeaturesOracle`](crate::PublicFeaturesOracle), it recomputes a run while the run is
/// in progress, from its releases, public features and settings. The kernel of the items, their
/// popularity, the combination of rounds and the factors of the pooled matrix are computed by the
/// audit's own code, from the formulas of the documentation. The solver and what a user contributes
/// for given item vectors are the trainer's.
#[derive(Debug, Clone)]
pub struct FeatureRoundsOracle {
    fit: FeatureRounds,
    features: Features,
}

/// The fits that [`FeatureRoundsOracle`] supports.
#[derive(Debug, Clone)]
pub enum FeatureRounds {
    /// Residuals of ratings.
    Ratings(AmResidualSsp),
    /// Likes.
    Likes(AmImplicitSsp),
}

impl FeatureRoundsOracle {
    /// Creates an oracle for runs over items with these features, none of which is declared
    /// unrated.
    #[must_use]
    pub fn new(fit: FeatureRounds, features: &ItemFeatures, variances: &PriorVariances) -> Self {
        let features = Features::new(features, variances);
        Self { fit, features }
    }

    fn replay<'a>(&'a self, users: AuditedUsers<'a>) -> Replay<'a> {
        let n_items = self.features.n_items();
        let vectors = match &self.fit {
            FeatureRounds::Ratings(fit) => fit.initial_vectors(n_items),
            FeatureRounds::Likes(fit) => fit.initial_vectors(n_items),
        };
        Replay {
            fit: &self.fit,
            features: &self.features,
            users,
            learner: None,
            vectors,
        }
    }
}

impl Oracle<FeatureModel> for FeatureRoundsOracle {
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<FeatureModel> + 'a> {
        Box::new(self.replay(users))
    }
}

impl Oracle<LikesModel> for FeatureRoundsOracle {
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<LikesModel> + 'a> {
        Box::new(self.replay(users))
    }
}

impl Watch<FeatureModel> for Replay<'_> {
    fn release(&mut self, seen: &Observed<'_>) -> Result<()> {
        self.look(seen)
    }

    fn finish(self: Box<Self>, model: &FeatureModel, _: &mut [View]) -> Result<()> {
        self.same_model(model.item_vectors())
    }
}

impl Watch<LikesModel> for Replay<'_> {
    fn release(&mut self, seen: &Observed<'_>) -> Result<()> {
        self.look(seen)
    }

    fn finish(self: Box<Self>, model: &LikesModel, _: &mut [View]) -> Result<()> {
        self.same_model(model.item_vectors())
    }
}

/// Tolerance as a fraction of a bound: how much the results of equal formulas may differ, because
/// solves end at a residual of 1e-5. In about forty runs of the audits, the largest difference was
/// 1/5600.
const ROOM: u64 = 1_000;
const LOOSE: Room = |bound| bound / ROOM + 2;

/// The parameters with which rounds are learned, once the totals are known.
enum Learner<'a> {
    Residuals(Residuals<'a>),
    Likes(Likes<'a>),
}

/// A run that is recomputed.
struct Replay<'a> {
    fit: &'a FeatureRounds,
    features: &'a Features,
    users: AuditedUsers<'a>,
    learner: Option<(Totals, Learner<'a>)>,
    /// Per unit of the constant, shape `(m, d)`.
    vectors: Vec<f64>,
}

impl<'a> Replay<'a> {
    fn look(&mut self, seen: &Observed<'_>) -> Result<()> {
        match seen.sums {
            ObservedSums::Vector {
                grid,
                released,
                one_user,
            } => self.vector(grid, released, one_user),
            _ => Err(differs("vectors and nothing else")),
        }
    }

    fn same_model(&self, vectors: &[f64]) -> Result<()> {
        let own = self.with_biases();
        params::same_size("item vectors", vectors.len(), own.len())?;
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= (1.0 + b.abs()) / ROOM as f64;
        if vectors.iter().zip(&own).all(near) {
            return Ok(());
        }
        Err(differs("item vectors that follow from the releases"))
    }

    fn settings(&self) -> (usize, f64, &'a ExampleWeights) {
        match self.fit {
            FeatureRounds::Ratings(fit) => {
                let params = fit.params();
                (params.dim, params.taste_norm, &params.weights)
            }
            FeatureRounds::Likes(fit) => {
                let params = fit.params();
                (params.dim, params.taste_norm, &params.weights)
            }
        }
    }

    /// Rows `[h_j, q_j]`.
    fn with_biases(&self) -> Vec<f64> {
        let (dim, taste_norm, _) = self.settings();
        let mut rows = self.vectors.clone();
        let a = constant(dim, taste_norm);
        rows.iter_mut().step_by(dim).for_each(|v| *v *= a);
        rows
    }

    fn vector(&mut self, grid: &Grid, released: &ReleasedVector, one: OneVector<'_>) -> Result<()> {
        match self.learner.take() {
            None => self.totals(grid, released, one),
            Some((totals, learner)) => self.round((grid, released, one), totals, learner),
        }
    }

    fn totals(&mut self, grid: &Grid, released: &ReleasedVector, one: OneVector<'_>) -> Result<()> {
        let (dim, _, weights) = self.settings();
        let setup = &ProblemSetup {
            weights: weights.clone(),
            ..ProblemSetup::new(dim, 1.0)
        };
        let n_items = self.features.n_items();
        let totals = TotalsContribution { setup, n_items };
        same_vectors(self.users, (grid, released.len()), &totals, one, LOOSE)?;
        let totals = Totals::new(released);
        let learner = match self.fit {
            FeatureRounds::Ratings(fit) => {
                Learner::Residuals(Residuals::new(fit.params(), self.features, &totals)?)
            }
            FeatureRounds::Likes(fit) => {
                Learner::Likes(Likes::new(fit.params(), self.features, &totals))
            }
        };
        self.learner = Some((totals, learner));
        Ok(())
    }

    fn round(
        &mut self,
        (grid, released, one): (&Grid, &ReleasedVector, OneVector<'_>),
        totals: Totals,
        mut learner: Learner<'a>,
    ) -> Result<()> {
        let rows = self.with_biases();
        let at = std::mem::take(&mut self.vectors);
        self.vectors = match (&mut learner, self.fit) {
            (Learner::Residuals(residuals), FeatureRounds::Ratings(fit)) => {
                let bound = fit.params().bound.at(residuals.n_rounds() + 1);
                let contribution = RoundContribution {
                    params: fit.params(),
                    item_vectors: &rows,
                    bound,
                };
                same_vectors(
                    self.users,
                    (grid, released.len()),
                    &contribution,
                    one,
                    LOOSE,
                )?;
                residuals.learn(Round::new(released, &totals, bound, at)?)?
            }
            (Learner::Likes(likes), FeatureRounds::Likes(fit)) => {
                let contribution = LikesContribution::new(fit.params(), &rows);
                let contribution = contribution.map_err(failed)?;
                same_vectors(
                    self.users,
                    (grid, released.len()),
                    &contribution,
                    one,
                    LOOSE,
                )?;
                likes.learn(&Round::new(released, &totals, 1.0, at)?)?
            }
            _ => return Err(differs("a learner of the fit's kind")),
        };
        self.learner = Some((totals, learner));
        Ok(())
    }
}

/// Levels of popularity.
const LEVELS: usize = 10;

/// Rows of the items without the parts that depend on a run, from the formulas of
/// [`FeaturePrior`](dp_pubfeat::FeaturePrior).
#[derive(Debug, Clone)]
struct Features {
    rows: Vec<Vec<(u32, f64)>>,
    n_features: usize,
    variances: PriorVariances,
}

impl Features {
    /// Per category, a row of norm 1 times the square root of its variance, and a constant.
    fn new(features: &ItemFeatures, variances: &PriorVariances) -> Self {
        let row = |item: usize| {
            let mut row = Vec::new();
            for (category, variance) in variances.categories.iter().enumerate() {
                let own: Vec<(u32, f64)> = features.item_category(item, category).collect();
                let norm = own.iter().map(|(_, w)| w * w).sum::<f64>().sqrt();
                let scale = variance.sqrt() / norm;
                row.extend(own.iter().map(|(feature, w)| (*feature, scale * w)));
            }
            let constant = u32::try_from(features.n_features()).unwrap_or(u32::MAX);
            row.push((constant, variances.shared.sqrt()));
            row
        };
        Self {
            rows: (0..features.n_items()).map(row).collect(),
            n_features: features.n_features(),
            variances: variances.clone(),
        }
    }

    const fn n_items(&self) -> usize {
        self.rows.len()
    }

    /// Adds popularity levels: the total weight in units of noise, on a scale of doublings.
    fn kernel(&self, totals: &[f64], noise: f64) -> Result<SparseKernel> {
        let mut rows = self.rows.clone();
        let root = self.variances.popularity.sqrt();
        for (row, total) in rows.iter_mut().zip(totals) {
            let height = (total / noise.max(1.0)).log2();
            let height = height.clamp(0.0, LEVELS as f64 - 1.001);
            for level in 0..LEVELS {
                let share = 1.0 - (height - level as f64).abs();
                let column = u32::try_from(self.n_features + 1 + level).unwrap_or(u32::MAX);
                if share > 0.0 {
                    row.push((column, root * share));
                }
            }
        }
        let n_columns = self.n_features + 1 + LEVELS;
        SparseKernel::new(rows, n_columns, self.variances.own).map_err(failed)
    }
}

/// Share of a user's norm that is used for the items' total weights.
const TO_ITEMS: f64 = 0.95;
/// Norm of a user's second moments in a round, relative to that of the rest.
const MOMENTS: f64 = 0.1;
/// Residual at which the trainer's solves end.
const TOLERANCE: f64 = 1e-5;

/// Released total weights and number of users.
#[derive(Debug, Clone)]
struct Totals {
    weights: Vec<f64>,
    noise: f64,
    n_users: f64,
}

impl Totals {
    fn new(released: &ReleasedVector) -> Self {
        let mut values = released.values();
        let counted = values.pop().unwrap_or_default();
        Self {
            weights: values.iter().map(|t| t / TO_ITEMS).collect(),
            noise: released.noise_stddev() / TO_ITEMS,
            n_users: (counted / (1.0 - TO_ITEMS * TO_ITEMS).sqrt()).max(1.0),
        }
    }
}

/// One release of a round: sums of items, the mean of users' second moments, the noise of a sum,
/// and the vectors per unit of the constant at which it was computed.
struct Round {
    sums: Vec<f64>,
    mean: Vec<f64>,
    noise: f64,
    at: Vec<f64>,
}

impl Round {
    /// `bound` is the norm of what a user contributes to items.
    fn new(
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
fn constant(dim: usize, taste_norm: f64) -> f64 {
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

/// Ratings: all rounds so far are used, each weighted by the inverse of its noise variance, and
/// older ones multiplied by `memory` per round.
struct Residuals<'a> {
    params: &'a AmResidualSspParams,
    weights: Vec<f64>,
    learner: KernelRidge<SparseKernel>,
    rounds: Vec<Round>,
}

impl<'a> Residuals<'a> {
    fn new(params: &'a AmResidualSspParams, features: &Features, totals: &Totals) -> Result<Self> {
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

    const fn n_rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Vectors per unit of the constant after one more round.
    fn learn(&mut self, round: Round) -> Result<Vec<f64>> {
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

/// Likes: only the last round, and popularity from all of them.
struct Likes<'a> {
    params: &'a AmImplicitSspParams,
    features: &'a Features,
    n_users: f64,
    /// Per release, the estimate of `W_j` and its noise.
    popularity: Vec<(Vec<f64>, f64)>,
}

impl<'a> Likes<'a> {
    fn new(params: &'a AmImplicitSspParams, features: &'a Features, totals: &Totals) -> Self {
        Self {
            popularity: vec![(totals.weights.clone(), totals.noise)],
            n_users: totals.n_users,
            params,
            features,
        }
    }

    /// Vectors per unit of the constant.
    fn learn(&mut self, round: &Round) -> Result<Vec<f64>> {
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
