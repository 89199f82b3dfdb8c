//! Taste factors of a prior: users vote on them, and if they are kept, users' factors come from them
//! in the rounds of statistics.

use dp_core::{Interactions, Private, UserRow};
use dp_linalg::packed_len;
use dp_mechanism::{Run, SparseBuffer, VectorContribution};

use super::fit::{RoundState, Weighted, initial_factors};
use super::implicit::UserGramian;
use super::item_update::{ItemUpdate, ScoreModel, UserMatrix};
use super::model::UserPenalties;
use super::params::MatrixFactorization;
use super::taste_votes::TasteVotes;
use super::user_step::{Design, UserScratch, UserStep};
use crate::regression::TaskScales;
use crate::{Error, LocalBias, Result};

/// Largest norm of the taste part of users' factors while taste factors come from a prior: they have
/// less to learn than random ones, so the item biases get more of the norm.
const CLIP_NORM: f64 = 0.7;
/// Share of the budget for the votes on the taste factors of a prior.
pub(super) const VOTE_SHARE: f64 = 0.01;
/// Taste factors are kept if the votes for them exceed those against them by this many standard
/// deviations of the noise: with a budget for which they are hardly above it, item biases alone are
/// better.
const LEAST_DEVIATIONS: f64 = 8.0;
/// A user is against taste factors that increase the squared error by more than this part. About
/// half way, on MovieLens-100K and MovieLens-1M, between factors that help and those of other items:
/// of 943 and 6,040 users, 57 to 58 % and 66 to 70 % are for the former, and 20 to 27 % for the latter
/// (decision 0082).
const MOST_LOSS: f64 = 0.02;

/// Errors that differ by at most this part are the same up to rounding.
const SAME: f64 = 1e-9;

/// One user's vote on the taste factors `q_i` of a prior.
///
/// ```text
/// e_i = y_i - prediction from the user's other ratings by the user step with offset and taste factors
/// m_i = y_i - the same with an offset only
/// vote = 1 if sum_i e_i^2 <= 1.02 sum_i m_i^2, otherwise -1
///        0 with fewer than two ratings, or if the two are the same: nothing is known of the user's items
/// ```
///
/// The prediction does not use the rating itself, so that taste factors of other items make it worse
/// for most users. Factors that help also make it worse for many, since they are fitted to few ratings
/// and item biases are not known yet.
///
/// # Privacy
/// Votes are numbers from -1 to 1: the L2 sensitivity is 1 when one user is added or removed, and 2
/// for a replacement. They follow from the user's own records and from public numbers.
pub(crate) struct TasteVote {
    with: Design,
    without: Design,
    bias: LocalBias,
    penalties: UserPenalties,
}

impl TasteVote {
    /// Sum of squared leave-one-out errors of a user with a design.
    fn squares(&self, design: &Design, user: UserRow<'_>, scratch: &mut UserScratch) -> f64 {
        let (bias, penalties) = (self.bias, self.penalties);
        let step = UserStep {
            design,
            bias,
            penalties,
        };
        step.solve(user, scratch);
        let mut squares = 0.0;
        step.leave_one_out(user, scratch, |at, offset, w| {
            let item = user.items()[at];
            let taste = design.row(item).zip(&*w).skip(1).map(|(q, v)| q * v);
            let label = f64::from(user.values()[at]) - self.bias.center;
            squares += (label - offset - taste.sum::<f64>()).powi(2);
        });
        squares
    }
}

impl VectorContribution for TasteVote {
    type Scratch = Option<[UserScratch; 2]>;

    fn scratch(&self) -> Self::Scratch {
        let scratch = |design: &Design| UserScratch::new(design.dim()).ok();
        Some([scratch(&self.with)?, scratch(&self.without)?])
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer) {
        let Some([with, without]) = scratch else {
            return;
        };
        if user.len() < 2 {
            return;
        }
        let least = self.squares(&self.without, user, without);
        let found = self.squares(&self.with, user, with);
        if (found - least).abs() <= SAME * least {
            return;
        }
        let is_for = found <= (1.0 + MOST_LOSS) * least;
        out.push(0, if is_for { 1.0 } else { -1.0 });
    }
}

impl MatrixFactorization {
    /// Whether users vote on taste factors of a prior.
    pub(super) fn has_prior_tastes(&self) -> bool {
        let has_tastes = (self.prior.as_ref()).is_some_and(|prior| prior.n_tastes() > 0);
        has_tastes && self.params().dim.is_none_or(|dim| dim > 1)
    }

    /// Releases the votes on the first `most` taste factors of the prior, if it has any, and returns
    /// the fit of all rounds: if the votes for them are clearly above the noise, it starts from
    /// them; otherwise it is that of a prior without them, whose columns remain evidence for the
    /// means.
    pub(super) fn voted(
        &self,
        data: &Private<Interactions>,
        most: usize,
        rounds: &mut RoundState,
        run: &mut Run<'_>,
    ) -> Result<Option<Self>> {
        let Some(prior) = self.prior.as_ref().filter(|_| self.has_prior_tastes()) else {
            return Ok(None);
        };
        let prior = prior.with_tastes(most);
        let (params, n_items) = (self.params(), prior.n_items());
        let dim = params.dim.unwrap_or(rounds.dim.max(1 + prior.n_tastes()));
        let mut factors = initial_factors(n_items, dim, params.init_stddev, params.init_seed)?;
        prior.write_tastes(&mut factors, dim, params.init_stddev);
        let n_shown = 1 + prior.n_tastes().min(dim - 1);
        let shown = factors.chunks_exact(dim).flat_map(|row| &row[..n_shown]);
        let shown: Vec<f64> = shown.copied().collect();
        let vote = TasteVote {
            with: Design::new(&shown, n_shown, ScoreModel::Biased),
            without: Design::new(&vec![0.0; n_items], 1, ScoreModel::Biased),
            bias: params.bias(),
            penalties: params.training_penalties,
        };
        let released = run.vector(data, (1, 1.0), &vote)?;
        let votes = TasteVotes::of(&released, 0.0, LEAST_DEVIATIONS);
        rounds.prior_votes = Some(votes);
        let mut fit = self.clone();
        if votes.kept {
            (rounds.are_described, rounds.dim, rounds.factors) = (true, dim, factors);
            fit.params.clip_norm = params.clip_norm.min(CLIP_NORM);
        } else {
            fit.prior = Some(prior.with_tastes(0));
        }
        Ok(Some(fit))
    }

    /// A round of statistics in which users' factors are computed from the taste factors of the
    /// prior: it releases the users' matrix and sums of residuals around the estimates so far, which
    /// are 0 in the first round.
    ///
    /// # Privacy
    /// Releases [`UserGramian`] and [`ItemResiduals`](super::ItemResiduals); the rest is
    /// post-processing.
    pub(super) fn described_round(
        &self,
        on: &Weighted<'_>,
        scales: &TaskScales,
        rounds: &mut RoundState,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let (params, dim) = (self.params(), rounds.dim);
        let ItemUpdate::Residual(settings) = &params.item_update else {
            let what = "a prior of items without residual rounds";
            return Err(Error::Unsupported { what });
        };
        let statistics = self.statistics(dim, &rounds.factors, on.weights)?;
        let shape = (packed_len(dim), params.factor_bound().powi(2));
        let released = run.vector(on.data, shape, &UserGramian(&statistics))?;
        rounds.users = Some(UserMatrix::of_vector(&released, dim, params.clip_norm)?);

        let mut x = self.coefficients(&rounds.factors, dim);
        let mut bound = settings.bound(params.label_bound, rounds.n_rounds);
        if rounds.n_rounds == 0 {
            x.fill(0.0);
            bound = params.label_bound;
        }
        let released = self.release_residuals(&x, on, rounds, (bound, settings.clip), run)?;
        let (sums, noise_stddev) = (released.values(), released.noise_stddev());
        let x = self.posterior(rounds, (scales, &[]), (&sums, &x, noise_stddev))?;
        rounds.refine(self.rows(x, dim), noise_stddev / bound);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;
    use dp_mechanism::{Grid, vector_contribution};

    use super::*;
    use crate::FactorizationParams;

    /// Ten users: ratings of even users follow the taste factor, those of odd ones something else;
    /// the last one has a single rating.
    #[test]
    fn a_vote_says_whether_taste_factors_predict_the_users_own_ratings() {
        let params = FactorizationParams::adadpals_for_target(dp_core::ApproxDp {
            epsilon: 1.0,
            delta: 1e-5,
        });
        let rows: Vec<f64> = (0..24).flat_map(|i| [0.0, [0.5, -0.5][i % 2]]).collect();
        let vote = TasteVote {
            with: Design::new(&rows, 2, ScoreModel::Biased),
            without: Design::new(&[0.0; 24], 1, ScoreModel::Biased),
            bias: params.bias(),
            penalties: params.training_penalties,
        };
        let mut builder = InteractionsBuilder::new(24);
        for user in 0..9_u32 {
            for item in 0..24_u32 {
                let sign = |at: u32| [1.0, -1.0][at as usize % 2];
                let taste = if user % 2 == 0 {
                    sign(item)
                } else {
                    sign(item / 2)
                };
                builder.push(user, item, 3.0 + taste).unwrap();
            }
        }
        builder.push(9, 3, 5.0).unwrap();
        let (table, _) = builder.build();
        let grid = Grid::new(1.0, 1.0).unwrap();
        let votes = (0..10).map(|user| {
            let own = vector_contribution(&grid, 1, &vote, table.user(user));
            own.iter()
                .map(|(_, z)| *z as f64 / grid.l2_bound() as f64)
                .sum::<f64>()
        });
        // rounded on the grid, a vote is at most its bound
        let expected = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 0.0];
        for (vote, expected) in votes.zip(expected) {
            assert!(
                vote.abs() <= 1.0 && (vote - expected).abs() < 1e-5,
                "{vote} {expected}"
            );
        }
    }
}
