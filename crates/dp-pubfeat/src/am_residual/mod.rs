//! Alternating minimisation with residual rounds: users fit their parameters locally, and item
//! vectors are learned from released residuals through the items' features.

mod contribution;
mod errors;
mod model;
mod prior;

use std::borrow::Borrow;

use chacha20::ChaCha20Rng;
use dp_accounting::{CertificateBuilder, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, params};
use dp_mechanism::{Run, Trainer};
use rand::{RngExt, SeedableRng};

use crate::features::in_public_range;
use crate::learn::{KernelRidge, RidgeNoise, StatisticsLearner};
use crate::{
    Error, ExampleWeights, ProblemSetup, ProtectedUnit, Result, ShrinkingBound, SparseKernel, With,
    trainer,
};
use contribution::{Evidence, Round};

pub use contribution::{LevelStep, RoundContribution, RoundScratch};
pub(crate) use contribution::{MOMENT_RATIO, Totals, mean_moment, push_moments, to_norm};
pub use errors::FeatureErrors;
pub(crate) use errors::LastSolve;
pub use model::{FeatureModel, FeatureWeights};
pub(crate) use prior::LEVELS;
pub use prior::{FeaturePrior, PriorVariances};

/// Settings of [`AmResidualSsp`] before validation. All are public and must not be chosen by
/// looking at the data.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmResidualSspParams {
    /// Length `d` of item vectors, 1 to 256: a bias and `d - 1` taste factors.
    pub dim: usize,
    /// Number of rounds, 1 to 1000; each makes one release.
    pub n_rounds: usize,
    /// Ratio of a round's budget to that of the previous round, from 1e-6 to 1e6.
    pub round_growth: f64,
    /// Share of the budget for the items' total weights, strictly between 0 and 1.
    pub totals_share: f64,
    /// How a user's budget is divided among the user's items.
    pub weights: ExampleWeights,
    /// Bound on a user's weighted residuals, in data units of a rating.
    pub bound: ShrinkingBound,
    /// Norm of a user's taste vector in the release, strictly between 0 and 1; the constant
    /// coordinate completes it to norm 1.
    pub taste_norm: f64,
    /// The local user step.
    pub user_step: LevelStep,
    /// Factor by which the evidence of older rounds is discounted when a round is added, 0 to 1.
    pub memory: f64,
    /// Lower bound on an item's total weight, in standard deviations of its noise, from 1e-6 to
    /// 1e6.
    pub totals_floor: f64,
    /// Prior variance of a coordinate of an item vector, per unit of the features' kernel, from 1e-6 to 1e6.
    pub item_variance: f64,
    /// Residual variance of ratings given users' and items' vectors, from 1e-6 to 1e6.
    pub label_variance: f64,
    /// Seed of the items' taste factors before the first round. Public; it does not affect the
    /// noise.
    pub init_seed: u64,
}

impl AmResidualSspParams {
    /// Defaults that depend on epsilon alone. Chosen on the validation part of MovieLens-1M
    /// (`docs/results.md`).
    #[must_use]
    pub fn for_target(target: ApproxDp) -> Self {
        let (dim, n_rounds, taste_norm, l2_penalty) = match target.epsilon {
            e if e < 2.0 => (3, 6, 0.5, 5.0),
            e if e < 10.0 => (4, 10, 0.7, 5.0),
            _ => (8, 12, 0.7, 8.0),
        };
        Self {
            dim,
            n_rounds,
            round_growth: 1.2,
            totals_share: 0.08,
            weights: ExampleWeights::equal(),
            bound: ShrinkingBound {
                first: 0.95,
                ratio: 0.95,
                floor: 0.7,
            },
            taste_norm,
            user_step: LevelStep {
                label_center: 3.5,
                level_penalty: 5.0,
                l2_penalty,
            },
            memory: 0.8,
            totals_floor: 0.5,
            item_variance: 0.15,
            label_variance: 0.08,
            init_seed: 0,
        }
    }

    /// The same settings for ratings in other units: settings in rating units are multiplied by
    /// `scale`, settings in squared rating units by its square. The centre does not change.
    ///
    /// # Examples
    /// ```
    /// use dp_core::ApproxDp;
    /// use dp_pubfeat::AmResidualSspParams;
    /// // ratings from 0 to 100 in place of 1 to 5
    /// let mut params = AmResidualSspParams::for_target(ApproxDp::target(1.0, 1e-5)?).in_units(25.0);
    /// params.user_step.label_center = 62.5;
    /// assert_eq!(params.bound.first, 0.95 * 25.0);
    /// assert!(params.check().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_units(mut self, scale: f64) -> Self {
        let square = scale * scale;
        self.bound.first *= scale;
        self.bound.floor *= scale;
        self.item_variance *= square;
        self.label_variance *= square;
        self.user_step.l2_penalty *= square;
        self
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<AmResidualSsp> {
        params::in_range("dim", self.dim, 1, 256, "a whole number from 1 to 256")?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_rounds", self.n_rounds, 1, 1000, range)?;
        params::open_unit("totals_share", self.totals_share)?;
        params::open_unit("taste_norm", self.taste_norm)?;
        params::closed_unit("memory", self.memory)?;
        for (name, value) in [
            ("round_growth", self.round_growth),
            ("totals_floor", self.totals_floor),
            ("item_variance", self.item_variance),
            ("label_variance", self.label_variance),
        ] {
            in_public_range(name, value)?;
        }
        self.weights.check()?;
        self.bound.check()?;
        self.user_step.check()?;
        Ok(AmResidualSsp { params: self })
    }

    /// The constant `a` that precedes users' taste factors.
    fn constant(&self) -> f64 {
        constant(self.dim, self.taste_norm)
    }

    /// Shares of the rounds in the budget that the totals leave, each `round_growth` times the
    /// previous one.
    fn round_shares(&self) -> Vec<f64> {
        round_shares(self.n_rounds, self.round_growth, self.totals_share)
    }
}

/// The constant coordinate that completes a taste vector of norm `taste_norm` to norm 1; 1 if there
/// are no taste factors.
pub(crate) fn constant(dim: usize, taste_norm: f64) -> f64 {
    if dim == 1 {
        1.0
    } else {
        (1.0 - taste_norm * taste_norm).sqrt()
    }
}

/// Weights and unit of rounds as a [`ProblemSetup`].
pub(crate) fn round_setup(weights: &ExampleWeights, dim: usize) -> ProblemSetup {
    ProblemSetup {
        weights: weights.clone(),
        ..ProblemSetup::new(dim, 1.0)
    }
}

/// Rows without a bias, with each taste factor computed from a uniform random number.
pub(crate) fn initial_vectors(
    (n_items, dim): (usize, usize),
    seed: u64,
    taste: impl Fn(f64) -> f64,
) -> Vec<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let draw = |at: usize| match at % dim {
        0 => 0.0,
        _ => taste(rng.random()),
    };
    (0..n_items * dim).map(draw).collect()
}

/// The learner of the item vectors, from the variances of a coordinate of an item vector and of a
/// label.
pub(crate) fn ridge(
    kernel: SparseKernel,
    dim: usize,
    (item_variance, label_variance): (f64, f64),
) -> Result<KernelRidge<SparseKernel>> {
    let noise = RidgeNoise::FromRelease {
        item_norm: (item_variance * dim as f64).sqrt(),
    };
    let l2_penalty = label_variance / item_variance;
    KernelRidge::new(kernel, dim, noise, l2_penalty)?.with_tolerance(TOLERANCE)
}

/// Converts first coordinates, which are per unit of users' constant, to biases.
pub(crate) fn with_biases(rows: &mut [f64], dim: usize, constant: f64) {
    rows.iter_mut().step_by(dim).for_each(|v| *v *= constant);
}

/// Shares of rounds in the budget that `totals_share` leaves, each `growth` times the previous one.
pub(crate) fn round_shares(n_rounds: usize, growth: f64, totals_share: f64) -> Vec<f64> {
    // relative to the largest, so that growth to a high power cannot overflow; no share underflows
    let (up, down) = (growth.min(1.0), growth.max(1.0));
    let share = |round: usize| {
        let from_last = (n_rounds - 1 - round) as f64;
        (up.powf(round as f64) * down.powf(-from_last)).max(1e-12)
    };
    let shares: Vec<f64> = (0..n_rounds).map(share).collect();
    let whole = shares.iter().sum::<f64>() / (1.0 - totals_share);
    shares.iter().map(|share| share / whole).collect()
}

const OUTPUT: &str =
    "item vectors and weights of features, made of the listed noisy sums; settings";

/// Relative residual at which a round's solve ends: far below the noise.
const TOLERANCE: f64 = 1e-5;

/// Item variance at which initial taste factors lie between -1/2 and 1/2: that of the default
/// settings.
const INITIAL_VARIANCE: f64 = 0.15;

/// Alternating minimisation by residual rounds, with public features of items:
/// [`AmSsp`](crate::AmSsp) with [`ResidualSsp`](crate::ResidualSsp) as the item update, its most
/// accurate form for ratings.
///
/// ```text
/// released once:  W_j = sum_k w_kj, the number of users n                                         TotalsContribution
/// each round t:   every user: level and taste vector from own ratings and released item vectors   local, LevelStep
///                 released: r_j = sum_k w_kj e_kj x_k, bounded by c_t, and M = sum_k x_k x_k^T        RoundContribution
///                 A_j = W_j PSD(M) / n,  b_j = r_j + A_j v_j, averaged with earlier rounds          post-processing
///                 v = K A (A K A + l A + s^2 I)^-1 b                                               KernelRidge
/// ```
///
/// `K` is the prior of the items by their features and their released popularity
/// ([`FeaturePrior`]), `s` the known noise of `b`, `l` the label variance divided by the item
/// variance. As residuals are small compared with ratings, so is the noise; one matrix `M` of `d^2`
/// numbers is used for all items; items with few ratings rely on their features. Items without
/// ratings also have vectors, and so has any item whose features are known
/// ([`FeatureWeights::vector`]). Unseen users fold in by [`FeatureModel::fold_in`].
///
/// # Privacy
/// Released, and visible to anyone: the total weights and the number of users (sensitivity 1), and
/// in each round all residual sums with the second moments, in one vector (sensitivity
/// `c_t sqrt(1 + .1^2)`); twice that when a user is replaced. Everything else is computed from
/// these and from public values; users' levels and taste vectors stay with their users, and what
/// all users see together is jointly private (billboard model). Each release depends on earlier
/// releases and is paid for by its own spend. Unit: the user, who has one row of the table; each
/// row is bounded whatever it contains.
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_pubfeat::AmResidualSspParams;
/// let target = ApproxDp::target(5.0, 1e-5)?;
/// let fit = AmResidualSspParams::for_target(target).check()?;
/// let plan = fit.plan(500, target, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 1 + fit.params().n_rounds);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AmResidualSsp {
    params: AmResidualSspParams,
}

trainer::algorithm! {
    AmResidualSsp of AmResidualSspParams, over n_items,
    /// The trainer of item vectors under `prior`. Users' features in the table are ignored.
}

impl AmResidualSsp {
    /// Number of coordinates in a round's release.
    const fn n_coordinates(&self, n_items: usize) -> usize {
        let dim = self.params.dim;
        n_items.saturating_mul(dim).saturating_add(dim * dim)
    }

    /// The releases of a fit over `n_items`, before the noise multiplier is determined.
    ///
    /// # Errors
    /// [`Error::Param`] when there are no items or too many coordinates, [`Error::Unsupported`] for another adjacency.
    pub fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        ProtectedUnit::User.check(adjacency)?;
        params::at_least_one("n_items", n_items)?;
        let n = self.n_coordinates(n_items);
        trainer::check_coordinates(n)?;
        let share = self.params.totals_share;
        let mut all = vec![trainer::request("total weights", share, n_items + 1)];
        let rounds = (1..).zip(self.params.round_shares());
        all.extend(rounds.map(|(t, share)| trainer::request(format!("residuals {t}"), share, n)));
        Ok(Requests::Shares(all))
    }

    fn setup(&self) -> ProblemSetup {
        round_setup(&self.params.weights, self.params.dim)
    }

    fn rounds(
        &self,
        prior: &FeaturePrior,
        ratings: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<FeatureModel> {
        let (params, n_items) = (&self.params, prior.n_items());
        let floor = params.totals_floor;
        let totals = Totals::release(&self.setup(), n_items, floor, (ratings, &mut *run))?;
        let made = prior.kernel(&totals.items, totals.noise)?;
        let variances = (params.item_variance, params.label_variance);
        let mut learner = ridge(made.kernel, params.dim, variances)?;
        let mut vectors = self.initial_vectors(n_items);
        trainer::show_round(run, 0, &self.with_biases(vectors.clone()), params.dim);
        let mut seen = Evidence::new(&totals.items, params.dim, params.memory);
        let mut last = None;
        for t in 1..=params.n_rounds {
            let bound = params.bound.at(t);
            let contribution = RoundContribution {
                params,
                item_vectors: &self.with_biases(vectors.clone()),
                bound,
            };
            let shape = (contribution.n_coordinates(), contribution.norm());
            let released = run.vector(ratings, shape, &contribution)?;
            let values = released.values();
            let (residuals, moments) = values.split_at(vectors.len());
            let round = Round {
                residuals,
                at: &vectors,
                mean: &mean_moment(moments, params.dim, (bound, totals.n_users))?,
                noise: released.noise_stddev(),
            };
            seen.add(&round);
            let statistics = seen.statistics()?;
            learner.learn_pooled(&statistics)?;
            last = Some(statistics);
            vectors = learner.item_vectors()?;
            trainer::show_round(run, t, &self.with_biases(vectors.clone()), params.dim);
        }
        let weights = self.feature_weights(prior, &learner, &made.unknown)?;
        let model = FeatureModel::new(self.with_biases(vectors), weights, params.user_step)?;
        Ok(model.with_last_solve(last.map(|statistics| LastSolve {
            learner,
            statistics,
            prior: prior.clone(),
            unknown: made.unknown,
            constant: params.constant(),
        })))
    }

    /// Item vectors before the first release, shape `(m, d)`: no bias, and taste factors between
    /// -1/2 and 1/2 at an item variance of .15, scaled in proportion to its root. Public, computed
    /// from the settings alone.
    #[must_use]
    pub fn initial_vectors(&self, n_items: usize) -> Vec<f64> {
        let unit = (self.params.item_variance / INITIAL_VARIANCE).sqrt();
        let taste = |draw| unit * (draw - 0.5);
        initial_vectors((n_items, self.params.dim), self.params.init_seed, taste)
    }

    /// Converts vectors per unit of users' `x = [a, u]` to rows `[h, q]`: multiplies the first
    /// coordinate by `a`.
    fn with_biases(&self, mut vectors: Vec<f64>) -> Vec<f64> {
        with_biases(&mut vectors, self.params.dim, self.params.constant());
        vectors
    }

    fn feature_weights(
        &self,
        prior: &FeaturePrior,
        learner: &KernelRidge<SparseKernel>,
        unknown: &[f64; prior::LEVELS],
    ) -> Result<FeatureWeights> {
        let dim = self.params.dim;
        let theta = learner.kernel().feature_sums(dim, learner.coefficients());
        let (features, shared) = prior.scaled(&theta, dim, unknown);
        let (features, shared) = (self.with_biases(features), self.with_biases(shared));
        FeatureWeights::new(dim, prior.category_sizes(), shared, features)
    }
}

impl<P: Borrow<FeaturePrior>> Trainer for With<AmResidualSsp, P> {
    type Data = Private<Interactions>;
    type Model = FeatureModel;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        self.start.borrow().n_items()
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_items, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let setup = self.settings.setup();
        self.start.borrow().describe(certificate, &setup, OUTPUT)
    }

    fn train(&self, ratings: &Self::Data, run: &mut Run<'_>) -> Result<FeatureModel> {
        let (settings, prior) = (&self.settings, self.start.borrow());
        let shape = (prior.n_items(), settings.params.dim);
        settings.setup().check_ratings(ratings, shape)?;
        settings.rounds(prior, ratings, run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> AmResidualSspParams {
        AmResidualSspParams::for_target(ApproxDp::target(5.0, 1e-5).unwrap())
    }

    #[test]
    fn shares_grow_as_stated_and_spend_everything() {
        for growth in [0.5, 1.0, 1.7] {
            let mut params = params();
            params.round_growth = growth;
            let shares = params.round_shares();
            let whole: f64 = shares.iter().sum();
            assert!((whole + params.totals_share - 1.0).abs() < 1e-12);
            for pair in shares.windows(2) {
                assert!((pair[1] / pair[0] - growth).abs() < 1e-9);
            }
        }
        let mut params = params();
        (params.n_rounds, params.round_growth) = (1000, 1e6);
        assert!(
            params
                .round_shares()
                .iter()
                .all(|s| *s > 0.0 && s.is_finite())
        );
    }

    #[test]
    fn every_setting_out_of_range_is_refused() {
        let refused: [fn(&mut AmResidualSspParams); 14] = [
            |p| p.dim = 0,
            |p| p.dim = 257,
            |p| p.n_rounds = 0,
            |p| p.n_rounds = 1001,
            |p| p.round_growth = f64::NAN,
            |p| p.totals_share = 1.0,
            |p| p.taste_norm = 1.0,
            |p| p.memory = -0.1,
            |p| p.totals_floor = 0.0,
            |p| p.item_variance = 0.0,
            |p| p.label_variance = f64::INFINITY,
            |p| p.bound.ratio = 1.1,
            |p| p.user_step.level_penalty = 0.0,
            |p| p.user_step.label_center = f64::NAN,
        ];
        assert!(params().check().is_ok());
        for (at, change) in refused.into_iter().enumerate() {
            let mut params = params();
            change(&mut params);
            assert!(params.check().is_err(), "{at}");
        }
    }

    #[test]
    fn defaults_pass_their_own_checks_at_every_epsilon() {
        for epsilon in [1e-6, 0.1, 1.0, 5.0, 20.0, 1e6] {
            let target = ApproxDp {
                epsilon,
                delta: 1e-5,
            };
            assert!(
                AmResidualSspParams::for_target(target).check().is_ok(),
                "epsilon {epsilon}"
            );
        }
    }
}
