//! The rounds of AM-SSP.

use dp_accounting::{CertificateBuilder, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, params};
use dp_mechanism::{Run, Trainer, plan_for};

use super::{RatingStatistics, UserStep};
use crate::learn::{StatisticsLearner, vectors_of};
use crate::problem::Vectors;
use crate::ssp::{ItemStatistics, OUTPUT, gram_requests};
use crate::{Error, ProblemSetup, ProtectedUnit, Result, With, trainer};

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
        Ok(plan_for(
            &self.requests(n_items, adjacency)?,
            target,
            adjacency,
        )?)
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        let params = &self.params;
        params.setup.unit.check(adjacency)?;
        params::at_least_one("n_items", n_items)?;
        let of_one = |t| {
            let name = format!("round {t}");
            gram_requests(&name, params.setup.dim, n_items, params.matrix_share, 1.0)
        };
        let rounds = 1..=params.n_rounds;
        Ok(Requests::Shares(rounds.flat_map(of_one).collect()))
    }

    /// The trainer that has `learner` learn from each round. Users' features in the table are not looked at.
    pub fn with<L>(&self, learner: L) -> With<Self, L> {
        let (settings, start) = (self.clone(), learner);
        With { settings, start }
    }
}

impl<L: StatisticsLearner + Clone> Trainer for With<AmSsp, L> {
    type Data = Private<Interactions>;
    type Model = L;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        self.start.n_items()
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_items, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Fitted);
        trainer::describe(certificate, said, (OUTPUT, &[]))
    }

    fn train(&self, ratings: &Self::Data, run: &mut Run<'_>) -> Result<L> {
        let AmSspParams {
            setup,
            user_step,
            n_rounds,
            ..
        } = &self.settings.params;
        let mut learner = self.start.clone();
        let shape = (learner.n_items(), learner.dim());
        setup.check_ratings(ratings, shape)?;
        #[cfg(privacy_mutants)]
        let user_step = &crate::mutants::user_step(user_step, ratings);
        for _ in 0..*n_rounds {
            let contribution = RatingStatistics {
                setup,
                user_step,
                item_vectors: &vectors_of(&learner, shape)?,
            };
            let grids = |matrix, rhs| contribution.grids(matrix, rhs);
            let released = run.grams(ratings, grids, &contribution)?;
            learner.learn(&ItemStatistics::of(&released))?;
        }
        Ok(learner)
    }
}
