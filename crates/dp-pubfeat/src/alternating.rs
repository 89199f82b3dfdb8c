//! Alternating minimisation: users fit their vectors locally, and item vectors are learned from
//! noisy statistics of them.

use dp_accounting::{CertificateBuilder, Requests};
use dp_core::{Adjacency, UserRow, params};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};
use dp_mechanism::{FactorBuffer, FactorContribution, GramGrids, Run, Trainer};

use crate::features::in_public_range;
use crate::learn::{StatisticsLearner, vectors_of};
use crate::problem::Vectors;
use crate::ssp::{ItemStatistics, OUTPUT, gram_requests, scale_jointly};
use crate::{Error, ProblemSetup, ProtectedUnit, Result, SspContribution, With, trainer};

/// Settings of [`AmSsp`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmSspParams {
    /// Bounds on what remains of ratings after subtracting centre and level, and weights. The unit
    /// must be the user: a user's vector is computed from all of the user's ratings.
    pub setup: ProblemSetup,
    /// The local user step.
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

/// AM-SSP for ratings: users fit their vectors exactly and locally, and item vectors are learned
/// from noisy statistics of them through the items' public features.
///
/// ```text
/// repeat:  every user: level and vector from own ratings and released item vectors    (local, UserStep)
///          released:   noisy A_j, b_j of all items                                     (RatingStatistics)
///          learner:    encoder, item vectors                                           (post-processing)
/// ```
///
/// Source: Krichene et al. 2024, Algorithm 1 with SSP-c as the item update. Items without ratings
/// have a vector if they have features; unseen users fold in by [`UserStep::fold_in`]. The learner
/// must not start at 0, where all users' vectors would be 0; an encoder with random parameters does
/// not.
///
/// # Privacy
/// Released, and visible to anyone: in each round all matrices and right-hand sides, with the
/// sensitivities derived at [`RatingStatistics`]. Users' vectors stay with their users; what all
/// users see together is jointly private (billboard model). Unit: the user.
#[derive(Debug, Clone, PartialEq)]
pub struct AmSsp {
    params: AmSspParams,
}

trainer::algorithm! {
    AmSsp of AmSspParams, over n_items,
    /// The trainer in which `learner` learns from each round. Users' features in the table are
    /// ignored.
}

impl AmSsp {
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
}

impl<L: StatisticsLearner + Clone> Trainer for With<AmSsp, L> {
    trainer::trains_a_learner!();

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
        let mut item_vectors = vectors_of(&learner, shape)?;
        trainer::show_round(run, 0, &item_vectors, shape.1);
        for round in 1..=*n_rounds {
            let contribution = RatingStatistics {
                setup,
                user_step,
                item_vectors: &item_vectors,
            };
            let grids = |matrix, rhs| contribution.grids(matrix, rhs);
            let released = run.grams(ratings, grids, &contribution)?;
            learner.learn(&ItemStatistics::of(&released))?;
            item_vectors = vectors_of(&learner, shape)?;
            trainer::show_round(run, round, &item_vectors, shape.1);
        }
        Ok(learner)
    }
}

/// One user's contribution to the statistics of all items, with the user's vector fitted here.
///
/// ```text
/// (o, u) = user step at the released item vectors, u then shortened to norm Gamma_u
/// y_j    = clip(y_j - center - o, Gamma_y), all of the user's scaled so that sum_j w_j^2 y_j^2 <= B^2
/// A_j += w_j u u^T,   b_j += w_j y_j u
/// ```
///
/// # Privacy
/// Bounds and sensitivity are those of [`SspContribution`], whatever `u` is: `Gamma_u^2` and
/// `Gamma_u min(B, Gamma_y)`. The user step reads the user's own ratings and released item vectors,
/// so the contribution is a function of these. The vector never leaves.
#[derive(Debug, Clone, Copy)]
pub struct RatingStatistics<'a> {
    /// Checked settings.
    pub setup: &'a ProblemSetup,
    /// The user step.
    pub user_step: &'a UserStep,
    /// Released item vectors, shape `(m, d)`.
    pub item_vectors: &'a [f64],
}

impl RatingStatistics<'_> {
    /// Grids with the sensitivities above.
    ///
    /// # Errors
    /// As [`SspContribution::grids`].
    pub fn grids(&self, matrix_noise: f64, rhs_noise: f64) -> Result<GramGrids> {
        SspContribution::new(self.setup).grids(matrix_noise, rhs_noise)
    }
}

impl FactorContribution for RatingStatistics<'_> {
    type Scratch = UserStepScratch;

    fn scratch(&self) -> UserStepScratch {
        UserStepScratch::default()
    }

    fn dim(&self) -> usize {
        self.setup.dim
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut UserStepScratch, out: &mut FactorBuffer) {
        let level = self
            .user_step
            .solve(self.item_vectors, user, scratch, &mut out.factor);
        crate::problem::shorten(&mut out.factor, self.setup.user_norm);
        self.setup.weights.weigh(user, &mut out.weights);
        let bound = self.setup.label_bound;
        for (label, &y) in out.labels.iter_mut().zip(user.values()) {
            *label = (f64::from(y) - level).clamp(-bound, bound);
        }
        scale_jointly(&mut out.labels, &out.weights, self.setup.label_norm);
    }
}

/// The exact local user step. All settings are public.
///
/// ```text
/// o = sum_j (y_j - center) / (n + offset_shrinkage)                    the user's own level, n the user's ratings; or 0
/// u = (sum_j v_j v_j^T + l2_penalty I)^-1 sum_j (y_j - center - o) v_j    over all of the user's items, unweighted
/// ```
///
/// Source: Krichene et al. 2024, appendix E.1.2; the level `o` is our addition.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserStep {
    /// Public centre of the ratings.
    pub label_center: f64,
    /// Number of ratings equal to the centre with which the user's level is averaged, 0 or above;
    /// none for no level.
    pub offset_shrinkage: Option<f64>,
    /// Ridge, from 1e-6 to 1e6.
    pub l2_penalty: f64,
}

/// A user's own parameters: level and vector. Private to that user.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "a private model; printing it is never wanted"
)]
pub struct PersonalVector {
    /// `center + o`.
    pub level: f64,
    /// `u`.
    pub vector: Vec<f64>,
}

impl PersonalVector {
    /// `center + o + <u, v>`. An item without ratings also has a vector, computed from its
    /// features.
    #[must_use]
    pub fn predict(&self, item_vector: &[f64]) -> f64 {
        let score: f64 = self
            .vector
            .iter()
            .zip(item_vector)
            .map(|(u, v)| u * v)
            .sum();
        self.level + score
    }
}

/// Scratch memory for user steps.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's values; printing them is never wanted"
)]
pub struct UserStepScratch {
    matrix: Vec<f64>,
}

impl UserStep {
    pub(crate) fn check(&self) -> Result<()> {
        params::finite("label_center", self.label_center)?;
        params::finite_non_negative("offset_shrinkage", self.offset_shrinkage.unwrap_or(0.0))?;
        in_public_range("l2_penalty", self.l2_penalty)?;
        Ok(())
    }

    /// A user's level and vector, given all item vectors of shape `(m, dim)`: the fold-in of any
    /// user, whether or not they were in training.
    ///
    /// # Privacy
    /// Local: a function of the user's own ratings and released item vectors.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when an item has no vector.
    pub fn fold_in(
        &self,
        item_vectors: &[f64],
        dim: usize,
        user: UserRow<'_>,
    ) -> Result<PersonalVector> {
        params::at_least_one("dim", dim)?;
        crate::features::check_items(user.items(), item_vectors.len() / dim)?;
        let mut vector = vec![0.0; dim];
        let scratch = &mut UserStepScratch::default();
        let level = self.solve(item_vectors, user, scratch, &mut vector);
        Ok(PersonalVector { level, vector })
    }

    /// Writes `u` and returns `center + o`. A user whose sums are not finite gets the zero vector.
    pub(crate) fn solve(
        &self,
        item_vectors: &[f64],
        user: UserRow<'_>,
        scratch: &mut UserStepScratch,
        out: &mut [f64],
    ) -> f64 {
        let dim = out.len();
        let level = self.label_center + self.offset(user);
        let matrix = &mut scratch.matrix;
        matrix.clear();
        matrix.resize(dim * dim, 0.0);
        matrix
            .iter_mut()
            .step_by(dim + 1)
            .for_each(|a| *a = self.l2_penalty);
        out.fill(0.0);
        for (item, y) in user.iter() {
            let v = &item_vectors[item as usize * dim..][..dim];
            let residual = f64::from(y) - level;
            for ((row, b), v_a) in matrix.chunks_exact_mut(dim).zip(&mut *out).zip(v) {
                *b += residual * v_a;
                row.iter_mut()
                    .zip(v)
                    .for_each(|(cell, v_b)| *cell += v_a * v_b);
            }
        }
        let solved =
            cholesky_in_place(matrix, dim).and_then(|()| cholesky_solve_in_place(matrix, dim, out));
        if solved.is_err() || !out.iter().all(|u| u.is_finite()) {
            out.fill(0.0);
        }
        level
    }

    fn offset(&self, user: UserRow<'_>) -> f64 {
        let Some(shrinkage) = self.offset_shrinkage else {
            return 0.0;
        };
        let centred = user
            .values()
            .iter()
            .map(|&y| f64::from(y) - self.label_center);
        let n = user.len() as f64 + shrinkage;
        let mean = if n > 0.0 {
            centred.sum::<f64>() / n
        } else {
            0.0
        };
        if mean.is_finite() { mean } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    #[test]
    fn a_user_s_vector_is_the_ridge_solution_of_numpy() {
        let mut builder = InteractionsBuilder::new(3);
        for (item, y) in [(0, 5.0), (1, 2.0), (2, 4.0)] {
            builder.push(0, item, y).unwrap();
        }
        builder.ensure_users(2);
        let data = builder.build().0;
        let step = UserStep {
            label_center: 3.0,
            offset_shrinkage: Some(1.0),
            l2_penalty: 0.5,
        };
        let v = [1.0, 0.5, -1.0, 1.0, 0.2, 2.0];
        let found = step.fold_in(&v, 2, data.user(0)).unwrap();
        // numpy: o = .5; solve(V^T V + .5 I, V^T (y - 3.5))
        assert!((found.level - 3.5).abs() < 1e-15);
        for (u, e) in found
            .vector
            .iter()
            .zip([1.223_021_582_733_813, 0.064_748_201_438_848_92])
        {
            assert!((u - e).abs() < 1e-12, "{u}");
        }
        let nobody = step.fold_in(&v, 2, data.user(1)).unwrap();
        assert!((nobody.level - 3.0).abs() < 1e-15);
        assert!(nobody.vector.iter().all(|u| *u == 0.0));
        assert!(step.fold_in(&v[..4], 2, data.user(0)).is_err());
    }
}
