//! Standard errors of what is learned from likes. Post-processing of releases.

use chacha20::ChaCha20Rng;
use dp_core::parallel;
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

use super::{AmImplicitSspParams, ItemStep, Learned, LikesRound, Popularity};
use crate::am_residual::{FeatureErrors, LastSolve, mean_moment};
use crate::{FeaturePrior, PooledStatistics, Result};

/// Number of draws of noise around the released values.
const N_DRAWS: u64 = 16;
/// Number of draws that are solved in parallel.
const AT_ONCE: usize = 8;
/// Seed of the draws. Public: they use released and public values only and hide nothing. Their
/// streams are not those of the simulated sums of ratings.
const SEED: u64 = 1;
/// Relative residual at which the solve of a draw ends.
const TOLERANCE: f64 = 1e-2;

/// The releases behind the last item step.
#[derive(Debug, Clone)]
pub(super) struct LastStep {
    pub(super) params: AmImplicitSspParams,
    pub(super) prior: FeaturePrior,
    /// Popularity of the items according to earlier releases.
    pub(super) popularity: Popularity,
    /// The round's release: right-hand sides, then second moments.
    pub(super) released: Vec<f64>,
    /// Standard deviation of the noise in each of its numbers.
    pub(super) noise: f64,
}

impl LastStep {
    /// The item step for what the round `released`, given the popularity before it; also returns
    /// the popularity after it.
    pub(super) fn step(
        &self,
        released: &[f64],
        before: &Popularity,
    ) -> Result<(ItemStep, Popularity)> {
        let (params, dim) = (&self.params, self.params.dim);
        let (sums, moments) = released.split_at(self.prior.n_items() * dim);
        let round = LikesRound {
            dim,
            sums,
            mean: &mean_moment(moments, dim, (1.0, before.n_users))?,
            noise: self.noise,
        };
        let mut popularity = before.clone();
        popularity.add(&round, params.constant());
        let step = ItemStep::new(params, &self.prior, &popularity, &round)?;
        Ok((step, popularity))
    }

    /// Standard errors of item vectors and of the weights of features:
    ///
    /// ```text
    /// error^2 = posterior variance given W, n, C + max(0, scatter of all noise - scatter of the noise in b alone)
    /// ```
    ///
    /// with the posterior variance of [`KernelRidge::standard_errors`](crate::KernelRidge::standard_errors). The two
    /// scatters are mean squares over the same draws of noise, added to the released values: in one
    /// the popularity, number of users and matrix are those of the draw, in the other as released.
    pub(super) fn errors(&self) -> Result<FeatureErrors> {
        let (params, prior) = (&self.params, &self.prior);
        let (step, _) = self.step(&self.released, &self.popularity)?;
        let (exact, step) = step.solved(params, prior)?;
        let exact = flat(&exact);
        let mut known = step.clone();
        known.learner = known.learner.with_tolerance(TOLERANCE)?;
        let mut added = vec![0.0; exact.len()];
        let numbers: Vec<u64> = (0..N_DRAWS).collect();
        for numbers in numbers.chunks(AT_ONCE) {
            for draw in parallel::map(numbers.len(), |at| self.draw(&known, numbers[at])) {
                let [all, of_sums] = draw?;
                let both = all.iter().zip(&of_sums).zip(&exact);
                for (to, ((all, of_sums), exact)) in added.iter_mut().zip(both) {
                    *to += (all - exact).powi(2) - (of_sums - exact).powi(2);
                }
            }
        }
        let unknown = step.scales.unknown;
        let last = LastSolve {
            learner: step.learner,
            statistics: step.statistics,
            prior: prior.clone(),
            unknown: step.unknown,
            constant: params.constant(),
        };
        let mut errors = last.errors()?;
        step.scales.scale(&mut errors.items);
        let FeatureErrors {
            items,
            features,
            shared,
        } = &mut errors;
        features.iter_mut().for_each(|e| *e *= unknown);
        shared.iter_mut().for_each(|e| *e *= unknown);
        let all = (items.iter_mut())
            .chain(shared.iter_mut())
            .chain(features.iter_mut());
        for (error, added) in all.zip(added) {
            *error = error.hypot((added / N_DRAWS as f64).max(0.0).sqrt());
        }
        Ok(errors)
    }

    /// Item vectors and weights of features with noise drawn around the released values: in all of
    /// them, and in the right-hand sides alone.
    fn draw(&self, known: &ItemStep, number: u64) -> Result<[Vec<f64>; 2]> {
        let mut rng = ChaCha20Rng::seed_from_u64(SEED);
        rng.set_stream(number);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let released: Vec<f64> = (self.released.iter())
            .map(|value| value + self.noise * normal())
            .collect();
        let mut before = self.popularity.clone();
        // sums are precision times weight
        let of_sums = before.precision.sqrt();
        before
            .sums
            .iter_mut()
            .for_each(|s| *s += of_sums * normal());
        before.n_users = (before.n_users + before.users_noise * normal()).max(1.0);
        let (mut step, _) = self.step(&released, &before)?;
        step.learner = (step.learner.starting_as(&known.learner)).with_tolerance(TOLERANCE)?;
        let (all, _) = step.solved(&self.params, &self.prior)?;

        let mut known = known.clone();
        let seen = &known.statistics;
        let (dim, factors, matrix) = (seen.dim(), seen.factors().to_vec(), seen.matrix().to_vec());
        let rhs = released[..factors.len() * dim].to_vec();
        known.statistics = PooledStatistics::new(dim, factors, matrix, rhs, self.noise)?;
        let (of_sums, _) = known.solved(&self.params, &self.prior)?;
        Ok([flat(&all), flat(&of_sums)])
    }
}

/// All numbers, in the order of [`FeatureErrors`] with the shared part before the features.
fn flat(learned: &Learned) -> Vec<f64> {
    let weights = &learned.weights;
    let parts = [&learned.vectors[..], weights.shared(), weights.features()];
    parts.concat()
}
