//! The rounds on likes.

use std::borrow::Borrow;

use dp_accounting::{CertificateBuilder, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, params};
use dp_mechanism::{Run, Trainer, plan_for};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::item_step::{Learned, LikesRound, Popularity, learn};
use super::{AmImplicitSspParams, LikesContribution, LikesModel};
use crate::am_residual::{Totals, mean_moment, round_shares};
use crate::residual::TotalsContribution;
use crate::{Error, FeaturePrior, ProblemSetup, ProtectedUnit, Result, With, trainer};

const OUTPUT: &str = "item vectors and weights of features, made of the noisy sums listed below; total weights of items; settings";

/// Alternating minimisation on likes, with public features of items: AM-SSP for implicit feedback, with one matrix for all items and a prior by features.
///
/// ```text
/// loss   sum over records (1 - s_kj)^2 + a0 sum over all users and items s_kj^2          s_kj the score of item j for user k
/// released once:  W_j = sum_k w_kj, the number of users n                                 TotalsContribution
/// each round:     every user: tastes from own likes and released item vectors              local, LikesStep
///                 released: b_j = sum_k w_kj x_k and M = sum_k x_k x_k^T                   LikesContribution
///                 C = PSD(M) / n,  b_j = (W_j + a0 n) C v_j                                 post-processing
///                 v by ridge regression on features, knowing the noise of b               post-processing
/// ```
///
/// The second part of the loss needs all users' scores of all items, which nobody has: for items it is `a0 n C`, made of a release; for users `a0 V^T V`, made of item vectors that anyone may see. Records are
/// a yes whatever their values. Residuals, which serve ratings so well ([`AmResidualSsp`](crate::AmResidualSsp)), have no part here: scores are far below 1, so that what is left of a yes is hardly smaller than the yes
/// itself, and the noise would be the same.
///
/// Source: Krichene et al. 2024, Algorithm 1 with the loss of implicit alternating least squares (Hu, Koren and Volinsky 2008), whose released Gramian the paper leaves out (`docs/errata.md`).
///
/// # Privacy
/// Released, and seen by anyone: the total weights and the number of users (sensitivity 1), and per round all right-hand sides with the second moments, in one vector (sensitivity `sqrt(1 + .1^2)`); twice
/// that when a user is replaced. Everything else is made of these and of public values; users' tastes stay with their users, and what all users see together is jointly private (billboard model). Each release is
/// chosen by those before it and paid by a spend of its own. Unit: the user, who has one row of the table; the rows are bounded one by one whatever they hold.
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_pubfeat::AmImplicitSspParams;
/// let target = ApproxDp::target(5.0, 1e-5)?;
/// let fit = AmImplicitSspParams::for_target(target).check()?;
/// let plan = fit.plan(500, target, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 1 + fit.params().n_rounds);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AmImplicitSsp {
    params: AmImplicitSspParams,
}

impl AmImplicitSsp {
    /// What a weight of 1 is in the release of the total weights, whose bound per user is 1: the noise of a total weight is that of the
    /// release over this.
    pub const TOTALS_UNIT: f64 = TotalsContribution::ITEMS;

    pub(super) const fn of(params: AmImplicitSspParams) -> Self {
        Self { params }
    }

    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &AmImplicitSspParams {
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
        n_items
            .saturating_add(self.params.dim)
            .saturating_mul(self.params.dim)
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        ProtectedUnit::User.check(adjacency)?;
        params::at_least_one("n_items", n_items)?;
        let n = self.n_coordinates(n_items);
        trainer::check_coordinates(n)?;
        let AmImplicitSspParams {
            n_rounds,
            round_growth,
            totals_share,
            ..
        } = self.params;
        let mut all = vec![trainer::request("total weights", totals_share, n_items + 1)];
        let shares = round_shares(n_rounds, round_growth, totals_share);
        let rounds = (1..).zip(shares);
        all.extend(rounds.map(|(t, share)| trainer::request(format!("likes {t}"), share, n)));
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
        likes: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<LikesModel> {
        let (params, n_items) = (&self.params, prior.n_items());
        let floor = params.totals_floor;
        let totals = Totals::release(&self.setup(), n_items, floor, (likes, &mut *run))?;
        let mut popularity = Popularity::new(&totals);
        let first = self.initial_vectors(n_items);
        trainer::show_round(run, 0, &first, params.dim);
        let mut learned = self.round(prior, &first, &mut popularity, (likes, &mut *run))?;
        trainer::show_round(run, 1, &learned.vectors, params.dim);
        for t in 2..=params.n_rounds {
            let at = &learned.vectors;
            learned = self.round(prior, at, &mut popularity, (likes, &mut *run))?;
            trainer::show_round(run, t, &learned.vectors, params.dim);
        }
        let totals = (totals.released, totals.noise);
        LikesModel::new(learned.vectors, learned.weights, params.fold_in, totals)
    }

    /// Users, one release, items.
    fn round(
        &self,
        prior: &FeaturePrior,
        item_vectors: &[f64],
        popularity: &mut Popularity,
        (likes, run): (&Private<Interactions>, &mut Run<'_>),
    ) -> Result<Learned> {
        let (params, dim) = (&self.params, self.params.dim);
        let contribution = LikesContribution::new(params, item_vectors)?;
        let shape = (contribution.n_coordinates(), LikesContribution::norm());
        let released = run.vector(likes, shape, &contribution)?;
        let values = released.values();
        let (sums, moments) = values.split_at(item_vectors.len());
        let round = LikesRound {
            dim,
            sums,
            mean: &mean_moment(moments, dim, (1.0, popularity.n_users))?,
            noise: released.noise_stddev(),
        };
        learn(params, prior, popularity, &round)
    }

    /// Item vectors before the first release, shape `(m, d)`: no bias, and tastes up to `init_scale`. Public, from the settings alone.
    #[must_use]
    pub fn initial_vectors(&self, n_items: usize) -> Vec<f64> {
        let mut rng = ChaCha20Rng::seed_from_u64(self.params.init_seed);
        let (dim, scale) = (self.params.dim, self.params.init_scale);
        let draw = |at: usize| match at % dim {
            0 => 0.0,
            _ => scale * (2.0 * rng.random::<f64>() - 1.0),
        };
        (0..n_items * dim).map(draw).collect()
    }
}

impl<P: Borrow<FeaturePrior>> Trainer for With<AmImplicitSsp, P> {
    type Data = Private<Interactions>;
    type Model = LikesModel;
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

    fn train(&self, likes: &Self::Data, run: &mut Run<'_>) -> Result<LikesModel> {
        let (settings, prior) = (&self.settings, self.start.borrow());
        let shape = (prior.n_items(), settings.params.dim);
        settings.setup().check_ratings(likes, shape)?;
        settings.rounds(prior, likes, run)
    }
}
