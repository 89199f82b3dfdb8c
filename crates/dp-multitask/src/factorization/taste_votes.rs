//! Users vote on taste factors that a run has learned.

use dp_core::UserRow;
use dp_mechanism::{ReleasedVector, Run, SparseBuffer, VectorContribution};

use super::fit::{RoundState, Weighted};
use super::implicit::NoContribution;
use super::item_posterior::{Response, dot};
use super::item_update::{ItemStatistics, ResidualScratch, bias_coordinate};
use super::params::MatrixFactorization;
use crate::Result;
use crate::regression::TaskScales;

/// A user's relative gain counts in full from here on.
const WHOLE_GAIN: f64 = 0.2;
/// Taste factors are kept if the mean vote exceeds this. Chosen on generated ratings and the
/// validation parts of five data sets (decision 0090).
const LEAST_MEAN: f64 = 0.01;

/// The released outcome of users' votes on taste factors. Public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TasteVotes {
    /// Sum of the votes, each from -1 (against the taste factors) to 1, with noise.
    pub sum: f64,
    /// Standard deviation of the noise.
    pub noise_stddev: f64,
    /// The taste factors are kept if the sum is above this.
    pub needed: f64,
    /// Whether they are kept.
    pub kept: bool,
}

impl TasteVotes {
    /// Taste factors are kept if the released sum exceeds `least` by more than so many standard
    /// deviations of its noise.
    pub(super) fn of(released: &ReleasedVector, least: f64, deviations: f64) -> Self {
        let (sum, noise_stddev) = (released.values().iter().sum(), released.noise_stddev());
        let needed = least + deviations * noise_stddev;
        Self {
            sum,
            noise_stddev,
            needed,
            kept: sum > needed,
        }
    }
}

/// One user's vote on taste factors, given as coefficients `x_i` of users' factors `f = [c, v]` with
/// the constant coordinate `c`.
///
/// ```text
/// e_i = y_i - <x_i', f_i>                        f_i the user's factor, and y_i the rating minus the user's offset, without record i
/// m_i = y_i - c (x_i0' + <(x_i1', ...), m>)      m = sum_j v_j / sum_j c, the users' mean taste vector, as released
/// x_i' = x_i - A_i w_i (y_i - <x_i, f_i>) f_i    w_i the weight of the record, A_i the derivative of the estimate by the sum of the item
/// vote = (sum_i m_i^2 - sum_i e_i^2) / (0.2 sum_i m_i^2), from -1 to 1; 0 with fewer than two ratings
/// ```
///
/// Item factors have learned from the rating that they are to predict, and the fewer users an item
/// has, the more; `x_i'` is approximately without it (residuals were clipped when they were summed,
/// and around earlier estimates). The comparison is with taste factors that are the same for all
/// users, which are item biases: where biases are not known well yet, taste factors make up for their
/// errors. `m` is that of the last round of statistics.
///
/// # Privacy
/// A vote is a number from -1 to 1: the L2 sensitivity is 1 when one user is added or removed, and 2
/// for a replacement. It follows from the user's own records and from released numbers.
pub(crate) struct GainVote<'a> {
    statistics: &'a ItemStatistics<'a>,
    coefficients: &'a [f64],
    /// `m`.
    mean_tastes: Vec<f64>,
    response: Response,
}

impl VectorContribution for GainVote<'_> {
    type Scratch = (ResidualScratch, Vec<f64>);

    fn scratch(&self) -> Self::Scratch {
        let described = (self.statistics.describing_scratch(), Vec::new());
        (described, vec![0.0; self.statistics.n_coordinates()])
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer) {
        if user.len() < 2 {
            return;
        }
        let (described, own_x) = scratch;
        self.statistics.describe_each(user, described);
        let ((_, own), each) = &*described;
        let dim = own_x.len();
        let (mut with, mut without) = (0.0, 0.0);
        let records = user.items().iter().zip(&own.labels).zip(&own.weights);
        for (((&item, y), w), f) in records.zip(each.chunks_exact(dim)) {
            let item = item as usize;
            let x = &self.coefficients[item * dim..][..dim];
            own_x.copy_from_slice(x);
            self.response
                .subtract(item, (w * (y - dot(x, f)), f), own_x);
            let shared = f[0] * (own_x[0] + dot(&own_x[1..], &self.mean_tastes));
            with += (y - dot(own_x, f)).powi(2);
            without += (y - shared).powi(2);
        }
        let vote = (without - with) / (WHOLE_GAIN * without);
        if vote.is_finite() {
            out.push(0, vote.clamp(-1.0, 1.0));
        }
    }
}

impl MatrixFactorization {
    /// Releases users' votes on the taste factors of the coefficients `x` if they have to decide, and
    /// drops these unless the votes are for them. Otherwise only noise is released.
    pub(super) fn vote_on_tastes(
        &self,
        x: &mut Vec<f64>,
        on: &Weighted<'_>,
        scales: &TaskScales,
        rounds: &mut RoundState,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let (params, dim) = (self.params(), rounds.dim);
        let about_users = self.users_in(rounds, scales, on.weights.omega())?;
        let known = self.known(scales, &about_users);
        let users = rounds.users.as_ref().filter(|_| rounds.tastes_are_open);
        let Some((users, response)) = users.zip(rounds.evidence.response(&known)) else {
            run.vector(on.data, (1, 1.0), &NoContribution)?;
            return Ok(());
        };
        let vote = GainVote {
            statistics: &self.statistics(dim, &rounds.factors, on.weights)?,
            coefficients: x,
            mean_tastes: users.mean_tastes(params.clip_norm),
            response,
        };
        let released = run.vector(on.data, (1, 1.0), &vote)?;
        let votes = TasteVotes::of(&released, LEAST_MEAN * users.n_users(), 1.0);
        rounds.taste_votes = Some(votes);
        rounds.tastes_are_open = false;
        if !votes.kept {
            *x = self.drop_tastes(on, scales, rounds)?;
        }
        Ok(())
    }

    /// Drops taste factors from the evidence of all rounds, and returns coefficients without them.
    pub(super) fn drop_tastes(
        &self,
        on: &Weighted<'_>,
        scales: &TaskScales,
        rounds: &mut RoundState,
    ) -> Result<Vec<f64>> {
        // from now on the constant coordinate of users' factors is 1
        let constant = bias_coordinate(self.params().clip_norm, rounds.dim);
        rounds.evidence = rounds.evidence.of_constant(rounds.dim, constant);
        (rounds.dim, rounds.tastes_are_open) = (1, false);
        let about_users = self.users_in(rounds, scales, on.weights.omega())?;
        let known = self.known(scales, &about_users);
        rounds.evidence.estimates(&known)
    }
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use dp_core::{Interactions, InteractionsBuilder};
    use dp_mechanism::{Grid, vector_contribution};
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, StandardNormal};

    use super::super::fit::initial_factors;
    use super::super::item_posterior::{ItemEvidence, Known};
    use super::super::tests::{params, users_of_all_kinds};
    use super::*;
    use crate::TaskWeights;

    const N_ITEMS: usize = 300;
    const N_IDS: u32 = 300;
    const DIM: usize = 3;

    /// 200 users with ten items each, so that an item has seven on average. Ratings `3 + taste <a_i, b_j> + noise`.
    fn few_users_for_an_item(taste: f64) -> Interactions {
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let mut normal = move || -> f64 { StandardNormal.sample(&mut rng) };
        let a: Vec<f64> = (0..N_ITEMS * 2).map(|_| normal()).collect();
        let mut chosen = ChaCha20Rng::seed_from_u64(5);
        let mut builder = InteractionsBuilder::new(N_ITEMS);
        for user in 0..200 {
            let b = [normal(), normal()];
            let mut items: Vec<u32> = (0..10).map(|_| chosen.random_range(0..N_IDS)).collect();
            items.sort_unstable();
            items.dedup();
            for item in items {
                let own = &a[2 * item as usize..][..2];
                let rating = 3.0 + taste * dot(own, &b) + normal();
                #[allow(clippy::cast_possible_truncation, reason = "ratings are single")]
                builder.push(user, item, rating as f32).unwrap();
            }
        }
        builder.build().0
    }

    /// The mean vote on item factors that are estimated, without noise, from the users' own factors,
    /// where users' factors come from `factors`; and what it would be with their own parts in them.
    fn mean_votes(table: &Interactions, factors: &[f64]) -> [f64; 2] {
        let params = params(8.0);
        let fit = params.check().unwrap();
        let weights = TaskWeights::uniform(N_ITEMS);
        let mut statistics = fit.statistics(DIM, factors, &weights).unwrap();
        statistics.leave_out_records();
        let (mut sums, mut totals) = (vec![0.0; N_ITEMS * DIM], vec![1e-3; N_ITEMS]);
        let (mut matrix, mut mean) = (vec![0.0; DIM * DIM], vec![0.0; DIM]);
        let mut scratch = (statistics.describing_scratch(), Vec::new());
        for user in table.users() {
            statistics.describe_each(user, &mut scratch);
            let ((_, own), each) = &scratch;
            let records = user.items().iter().zip(&own.labels).zip(&own.weights);
            for (((&item, y), w), f) in records.zip(each.chunks_exact(DIM)) {
                let item = item as usize;
                totals[item] += w;
                for k in 0..DIM {
                    sums[item * DIM + k] += w * y * f[k];
                }
            }
            for (at, entry) in matrix.iter_mut().enumerate() {
                *entry += own.factor[at / DIM] * own.factor[at % DIM] / 200.0;
            }
            mean.iter_mut()
                .zip(&own.factor)
                .for_each(|(m, f)| *m += f / 200.0);
        }
        let known = Known {
            weights: &totals,
            matrix: &matrix,
            sampling: &[],
            columns: &[],
            unit: 1.0,
        };
        let mut evidence = ItemEvidence::of(sums, 10.0);
        let x = evidence.estimates(&known).unwrap();
        let mut nothing = ItemEvidence::of(vec![0.0; N_ITEMS * DIM], 1e-30);
        nothing.estimates(&known).unwrap();
        let grid = Grid::new(1.0, 1.0).unwrap();
        [&evidence, &nothing].map(|evidence| {
            let vote = GainVote {
                statistics: &statistics,
                coefficients: &x,
                mean_tastes: mean[1..].iter().map(|m| m / mean[0]).collect(),
                response: evidence.response(&known).unwrap(),
            };
            let votes = table.users().flat_map(|user| {
                let own = vector_contribution(&grid, 1, &vote, user);
                own.into_iter().map(|(_, z)| z as f64 * grid.step())
            });
            votes.sum::<f64>() / 200.0
        })
    }

    #[test]
    fn users_do_not_vote_for_what_items_have_learned_from_them() {
        let random = initial_factors(N_ITEMS, DIM, 0.3, 3).unwrap();
        let [without_own, with_own] = mean_votes(&few_users_for_an_item(0.0), &random);
        assert!(with_own > 0.3, "{with_own}");
        assert!(without_own < 0.0, "{without_own}");
    }

    #[test]
    fn users_vote_for_taste_factors_that_predict_their_ratings() {
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let mut truth = vec![0.0; N_ITEMS * DIM];
        for row in truth.chunks_exact_mut(DIM) {
            row[1..].fill_with(|| StandardNormal.sample(&mut rng));
        }
        let [without_own, _] = mean_votes(&few_users_for_an_item(1.0), &truth);
        assert!(without_own > 0.1, "{without_own}");
    }

    /// Coefficients of ordinary size, huge ones and such that are not finite, and users with all
    /// kinds of records: no vote exceeds its bound in integers, and no user is rejected.
    #[test]
    fn no_vote_exceeds_its_bound() {
        let table = users_of_all_kinds(12);
        let n_items = table.n_items();
        let weights = TaskWeights::uniform(n_items);
        let totals = vec![3.0; n_items];
        let known = Known {
            weights: &totals,
            matrix: &[0.4, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 0.3],
            sampling: &[],
            columns: &[],
            unit: 1.0,
        };
        let fit = params(1.0).check().unwrap();
        let grid = Grid::new(7.0, 1.0).unwrap();
        let mut largest = 0;
        for size in [0.5, 1e9, 1e200] {
            let factors = initial_factors(n_items, DIM, size, 3).unwrap();
            let statistics = fit.statistics(DIM, &factors, &weights).unwrap();
            let mut evidence = ItemEvidence::of(factors.clone(), 1.0);
            if evidence.estimates(&known).is_err() {
                assert!(size > 1e100, "sums of size {size} have estimates");
                continue;
            }
            let response = evidence.response(&known).unwrap();
            let vote = GainVote {
                statistics: &statistics,
                coefficients: &factors,
                mean_tastes: vec![size; 2],
                response,
            };
            for user in table.users() {
                for (_, z) in vector_contribution(&grid, 1, &vote, user) {
                    assert!(z.unsigned_abs() <= grid.l2_bound());
                    largest = largest.max(z.unsigned_abs());
                }
            }
        }
        // the kernel rejects users above the bound, so some are at it
        assert!(largest as f64 > 0.9999 * grid.l2_bound() as f64);
    }
}
