//! The rounds of AM-SSP.

use dp_accounting::{Plan, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, params};
use dp_mechanism::{NoiseSource, WatchedNoise};

use super::{RatingStatistics, UserStep};
use crate::learn::{StatisticsLearner, vectors_of};
use crate::paid::Paid;
use crate::problem::Vectors;
use crate::run::certify;
use crate::ssp::{FittedItems, ItemStatistics, OUTPUT, gram_requests};
use crate::watch::Watch;
use crate::{Error, ProblemSetup, ProtectedUnit, Result, events};

/// Settings of [`AmSsp`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmSspParams {
    /// Bounds on what is left of ratings after centre and level, weights. The unit must be the user: a user's vector comes from all of the user's ratings.
    pub setup: ProblemSetup,
    /// What users do.
    pub user_step: UserStep,
    /// Rounds of user and item steps, 1 to 1000.
    pub n_rounds: usize,
    /// Share of each round's budget spent on matrices, strictly between 0 and 1.
    pub matrix_share: f64,
}

impl AmSspParams {
    /// Half of each round's budget on matrices, as in the paper.
    #[must_use]
    pub const fn new(setup: ProblemSetup, user_step: UserStep, n_rounds: usize) -> Self {
        Self {
            setup,
            user_step,
            n_rounds,
            matrix_share: 0.5,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range; [`crate::Error::Unsupported`] for examples as units.
    pub fn check(self) -> Result<AmSsp> {
        self.setup.check()?;
        if self.setup.unit != ProtectedUnit::User {
            return Err(Error::Unsupported {
                what: "single examples as units where users' vectors are fitted on all of theirs",
            });
        }
        self.user_step.check()?;
        params::open_unit("matrix_share", self.matrix_share)?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_rounds", self.n_rounds, 1, 1000, range)?;
        Ok(AmSsp { params: self })
    }
}

/// AM-SSP for ratings: users fit their vectors exactly and locally, items learn from noisy statistics of them through their public features.
///
/// ```text
/// repeat:  every user: level and vector from own ratings and released item vectors    (local, UserStep)
///          released:   noisy A_j, b_j of all items                                     (RatingStatistics)
///          learner:    encoder, item vectors                                           (post-processing)
/// ```
///
/// Source: Krichene et al. 2024, Algorithm 1 with SSP-c as item update. Items that nobody rated have a vector as long as they have features; unseen users fold in by
/// [`UserStep::fold_in`]. The learner has to start away from 0, where all users' vectors would be 0: an encoder with random parameters does.
///
/// # Privacy
/// Released, and seen by anyone: per round all matrices and right-hand sides, sensitivities as at [`RatingStatistics`]. Users' vectors stay with their users; what all
/// users see together is jointly private (billboard model). Unit: the user.
#[derive(Debug, Clone, PartialEq)]
pub struct AmSsp {
    params: AmSspParams,
}

impl AmSsp {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &AmSspParams {
        &self.params
    }

    /// What a fit over `n_items` will release, calibrated to `target`.
    ///
    /// # Errors
    /// As [`Ssp::plan`](crate::Ssp::plan).
    pub fn plan(&self, n_items: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        self.params.setup.unit.check(adjacency)?;
        params::at_least_one("n_items", n_items)?;
        events::plan(&self.requests(n_items), target, adjacency)
    }

    fn requests(&self, n_items: usize) -> Vec<ReleaseRequest> {
        let (dim, share) = (self.params.setup.dim, self.params.matrix_share);
        let rounds = 1..=self.params.n_rounds;
        let of_one = |t| gram_requests(&format!("round {t}"), dim, n_items, share, 1.0);
        rounds.flat_map(of_one).collect()
    }

    /// Runs the rounds, consuming exactly the spends of `plan`. Users' features in the table are not looked at.
    ///
    /// # Errors
    /// As [`Ssp::fit`](crate::Ssp::fit).
    pub fn fit<L: StatisticsLearner>(
        &self,
        learner: L,
        ratings: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<FittedItems<L>> {
        self.fit_watched(learner, ratings, plan, spends, noise, &mut |_| {})
    }

    /// [`fit`](Self::fit), showing each release to `watch` with what users added to it: for audits.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_watched<L: StatisticsLearner>(
        &self,
        mut learner: L,
        ratings: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<FittedItems<L>> {
        let (setup, n_items) = (&self.params.setup, learner.n_items());
        setup.unit.check(plan.adjacency())?;
        setup.check_ratings(ratings, n_items)?;
        params::same_size("learner's dim", learner.dim(), setup.dim)?;
        let mut paid = Paid::new(plan, &events::wanted(&self.requests(n_items)), spends)?;
        let mut out = WatchedNoise { noise, watch };
        let user_step = &self.params.user_step;
        #[cfg(privacy_mutants)]
        let user_step = &crate::mutants::user_step(user_step, ratings);
        for _ in 0..self.params.n_rounds {
            let item_vectors = vectors_of(&learner, (n_items, setup.dim))?;
            let contribution = RatingStatistics {
                setup,
                user_step,
                item_vectors: &item_vectors,
            };
            let (matrix, rhs) = (paid.next()?, paid.next()?);
            let grids = contribution.grids(matrix.noise_multiplier()?, rhs.noise_multiplier()?)?;
            let released = out.grams(ratings, grids, &contribution, [matrix, rhs])?;
            learner.learn(&ItemStatistics::of(&released))?;
        }
        Ok(FittedItems {
            certificate: certify(
                paid,
                (setup, Vectors::Fitted),
                (OUTPUT, &[]),
                out.is_insecure(),
            )?,
            model: learner,
        })
    }
}
