//! The rounds on ratings.

use std::borrow::Borrow;

use dp_accounting::{CertificateBuilder, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, params};
use dp_mechanism::{Run, Trainer, plan_for};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::evidence::{Evidence, Round, Totals, mean_moment};
use super::{AmResidualSspParams, FeatureModel, FeaturePrior, FeatureWeights, RoundContribution};
use crate::learn::{KernelRidge, RidgeNoise, StatisticsLearner};
use crate::{Error, ProblemSetup, ProtectedUnit, Result, SparseKernel, With, trainer};

const OUTPUT: &str =
    "item vectors and weights of features, made of the noisy sums listed below; settings";

/// Residual at which a round's solve ends, over that of 0: far below the noise.
const TOLERANCE: f64 = 1e-5;

/// Item variance at which initial tastes lie between -1/2 and 1/2: that of the default settings.
const INITIAL_VARIANCE: f64 = 0.15;

/// Alternating minimisation by residual rounds, with public features of items: [`AmSsp`](crate::AmSsp) with [`ResidualSsp`](crate::ResidualSsp) as the item update, its best form for ratings.
///
/// ```text
/// released once:  W_j = sum_k w_kj, the number of users n                                         TotalsContribution
/// each round t:   every user: level and tastes from own ratings and released item vectors         local, LevelStep
///                 released: r_j = sum_k w_kj e_kj x_k, bounded by c_t, and M = sum_k x_k x_k^T        RoundContribution
///                 A_j = W_j PSD(M) / n,  b_j = r_j + A_j v_j, averaged with earlier rounds          post-processing
///                 v = K A (A K A + l A + s^2 I)^-1 b                                               KernelRidge
/// ```
///
/// `K` is the prior of the items by their features and their released popularity ([`FeaturePrior`]), `s` the known noise of `b`, `l` the label variance over the item variance. As residuals are
/// small compared with ratings, so is the noise; one matrix `M` of `d^2` numbers serves all items; items with few ratings lean on their features. Items that nobody rated have vectors all the same, and so has
/// any item whose features are known ([`FeatureWeights::vector`]). Unseen users fold in by [`FeatureModel::fold_in`].
///
/// # Privacy
/// Released, and seen by anyone: the total weights and the number of users (sensitivity 1), and per round all residual sums with the second moments, in one vector (sensitivity
/// `c_t sqrt(1 + .1^2)`); twice that when a user is replaced. Everything else is made of these and of public values; users' levels and tastes stay with their users, and what all users see together is
/// jointly private (billboard model). Each release is chosen by those before it and paid by a spend of its own. Unit: the user, who has one row of the table; the rows are
/// bounded one by one whatever they hold.
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

impl AmResidualSsp {
    pub(super) const fn of(params: AmResidualSspParams) -> Self {
        Self { params }
    }

    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &AmResidualSspParams {
        &self.params
    }

    /// What a fit over `n_items` will release, calibrated to `target`.
    ///
    /// # Errors
    /// As [`Ssp::plan`](crate::Ssp::plan).
    pub fn plan(&self, n_items: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        Ok(plan_for(
            &self.requests(n_items, adjacency)?,
            target,
            adjacency,
        )?)
    }

    /// Numbers in a round's release.
    const fn n_coordinates(&self, n_items: usize) -> usize {
        let dim = self.params.dim;
        n_items.saturating_mul(dim).saturating_add(dim * dim)
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
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

    /// The trainer of item vectors under `prior`. Users' features in the table are not looked at.
    pub fn with<P: Borrow<FeaturePrior>>(&self, prior: P) -> With<Self, P> {
        let (settings, start) = (self.clone(), prior);
        With { settings, start }
    }

    /// Weights and unit, in the form that they have elsewhere.
    fn setup(&self) -> ProblemSetup {
        ProblemSetup {
            weights: self.params.weights.clone(),
            ..ProblemSetup::new(self.params.dim, 1.0)
        }
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
        let mut learner = self.learner(made.kernel)?;
        let mut vectors = self.initial_vectors(n_items);
        trainer::show_round(run, 0, &self.with_biases(vectors.clone()), params.dim);
        let mut seen = Evidence::new(&totals.items, params.dim, params.memory);
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
            learner.learn_pooled(&seen.statistics()?)?;
            vectors = learner.item_vectors()?;
            trainer::show_round(run, t, &self.with_biases(vectors.clone()), params.dim);
        }
        let weights = self.feature_weights(prior, &learner, &made.unknown)?;
        FeatureModel::new(self.with_biases(vectors), weights, params.user_step)
    }

    fn learner(&self, kernel: SparseKernel) -> Result<KernelRidge<SparseKernel>> {
        let params = &self.params;
        let noise = RidgeNoise::FromRelease {
            item_norm: (params.item_variance * params.dim as f64).sqrt(),
        };
        let l2_penalty = params.label_variance / params.item_variance;
        KernelRidge::new(kernel, params.dim, noise, l2_penalty)?.with_tolerance(TOLERANCE)
    }

    /// Item vectors before the first release, shape `(m, d)`: no bias, and tastes between -1/2 and 1/2 at an item variance of .15, in proportion to its root. Public, from the settings alone.
    #[must_use]
    pub fn initial_vectors(&self, n_items: usize) -> Vec<f64> {
        let mut rng = ChaCha20Rng::seed_from_u64(self.params.init_seed);
        let dim = self.params.dim;
        let unit = (self.params.item_variance / INITIAL_VARIANCE).sqrt();
        let mut draw = |at: usize| match at % dim {
            0 => 0.0,
            _ => unit * (rng.random::<f64>() - 0.5),
        };
        (0..n_items * dim).map(&mut draw).collect()
    }

    /// Vectors per unit of users' `x = [a, u]` as rows `[h, q]`: the first coordinate times `a`.
    fn with_biases(&self, mut vectors: Vec<f64>) -> Vec<f64> {
        let a = self.params.constant();
        let biases = vectors.iter_mut().step_by(self.params.dim);
        biases.for_each(|v| *v *= a);
        vectors
    }

    fn feature_weights(
        &self,
        prior: &FeaturePrior,
        learner: &KernelRidge<SparseKernel>,
        unknown: &[f64; super::prior::LEVELS],
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
