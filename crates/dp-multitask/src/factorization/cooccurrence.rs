//! Item factors of likes from released co-occurrences of items.

use dp_core::{Interactions, Private, UserRow};
use dp_linalg::{packed_index, packed_len, symmetric_eigen, unpack_symmetric};
use dp_mechanism::{Error as RunError, Run, SparseBuffer, VectorContribution};

use super::fit::{POPULARITY, shown};
use super::implicit::{INSIDE, NoContribution, OFF_DIAGONAL};
use super::model::FactorModel;
use super::params::MatrixFactorization;
use super::popularity::Popularity;
use super::typical_user::typical_factor;
use crate::{NoisyCounts, Result, TaskWeights};

/// Maximum number of items whose co-occurrences are released: their number is quadratic.
pub const MOST_COOCCURRING: usize = 1000;
/// Maximum number of taste factors.
const MOST_TASTES: usize = 60;
/// Weights of items are a negative power of their released counts, with this exponent.
const EXPONENT: f64 = 0.25;
/// Co-occurrences are used if the number of users is at least this many times the largest
/// eigenvalue of the noise. With fewer than [`FEW_LIKES`] per user, the head shrinks to as many
/// items as that holds for, at least [`LEAST_ITEMS`]; with more, alternating minimisation gives
/// better lists, and with fewer than [`TOO_FEW_LIKES`] popularity does.
const LEAST_SIGNAL: f64 = 60.0;
const FEW_LIKES: f64 = 12.0;
const TOO_FEW_LIKES: f64 = 8.0;
const LEAST_ITEMS: usize = 50;
/// Eigenvalues count as signal above this multiple of the noise's largest one.
const ABOVE: f64 = 1.05;
/// The users' penalty is this divided by the likes per user, and at least and at most [`PENALTY`],
/// relative to the mean strength of the taste factors.
const LIKES: f64 = 10.0;
const PENALTY: [f64; 2] = [0.3, 0.8];

/// One user's contribution to the co-occurrences of the learned items: `w w^T`, where `w` holds the
/// user's weights ([`TaskWeights::weigh`]), as a packed upper triangle with off-diagonal entries
/// times `sqrt 2`.
///
/// # Privacy
/// In these coordinates the norm is the Frobenius norm `||w w^T|| = ||w||^2 <= 1`, the L2
/// sensitivity when one user is added or removed. A user without learned items adds nothing.
struct Cooccurrences<'a> {
    weights: &'a TaskWeights,
    /// The row of each item, if it is learned.
    rows: Vec<Option<usize>>,
    n_learned: usize,
}

/// One user's contribution to the number of users with likes, 1.
struct HasLikes;

impl<'a> Cooccurrences<'a> {
    fn of(weights: &'a TaskWeights) -> Self {
        let mut n_learned = 0;
        let row = |omega: &f64| {
            (*omega > 0.0).then(|| {
                n_learned += 1;
                n_learned - 1
            })
        };
        let rows = weights.omega().iter().map(row).collect();
        Self {
            weights,
            rows,
            n_learned,
        }
    }

    /// The popularity of items: the counts, combined with those that the diagonal of the released
    /// co-occurrences contains, by the precision of their noise.
    ///
    /// ```text
    /// n_i = r G_ii / omega_i^2      a user with weights omega_i / W adds 1 / W^2 to G_ii / omega_i^2
    /// ```
    ///
    /// `r` is such that both sums over the learned items are the same. The second weights users with
    /// few likes more than the counts do. Post-processing.
    fn popularity(&self, counts: &NoisyCounts, (matrix, sigma): (&[f64], f64)) -> Popularity {
        let mut found = Popularity::of(counts);
        let learned: Vec<(usize, f64, f64)> = (self.rows.iter().enumerate())
            .zip(self.weights.omega())
            .filter_map(|((item, row), omega)| {
                let diagonal = row.as_ref()? * (self.n_learned + 1);
                Some((
                    item,
                    matrix[diagonal] / omega.powi(2),
                    sigma / omega.powi(2),
                ))
            })
            .collect();
        let of_counts: f64 = learned.iter().map(|of| counts.values()[of.0]).sum();
        let of_diagonal: f64 = learned.iter().map(|of| of.1).sum();
        let scale = of_counts / of_diagonal;
        if scale.is_finite() && scale > 0.0 {
            for (item, votes, noise) in learned {
                found.refine(item, scale * votes, scale * noise);
            }
        }
        found
    }

    fn row(&self, item: u32) -> Option<usize> {
        self.rows.get(item as usize).copied().flatten()
    }
}

impl VectorContribution for HasLikes {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        if !user.is_empty() {
            out.push(0, 1.0);
        }
    }
}

impl VectorContribution for Cooccurrences<'_> {
    /// Weights of all records; row and weight of the learned ones.
    type Scratch = (Vec<f64>, Vec<(usize, f64)>);

    fn scratch(&self) -> Self::Scratch {
        Self::Scratch::default()
    }

    fn contribute(
        &self,
        user: UserRow<'_>,
        (weights, learned): &mut Self::Scratch,
        out: &mut SparseBuffer,
    ) {
        weights.resize(user.len(), 0.0);
        self.weights.weigh(user, weights);
        learned.clear();
        let records = user.items().iter().zip(&*weights);
        learned.extend(
            records
                .filter_map(|(&item, &w)| Some((self.row(item)?, w)))
                .filter(|of| of.1 > 0.0),
        );
        for (at, &(a, x)) in learned.iter().enumerate() {
            for &(b, y) in &learned[at..] {
                let scale = if a == b { 1.0 } else { OFF_DIAGONAL };
                if let Ok(index) = u32::try_from(packed_index(self.n_learned, a, b)) {
                    out.push(index, INSIDE * scale * x * y);
                }
            }
        }
    }
}

/// Mean of the co-occurrences that were released so far, weighted by precision.
struct Released {
    packed: Vec<f64>,
    precision: f64,
}

/// What learns from likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Learner {
    /// Of this many items.
    Cooccurrences(usize),
    Popularity,
    AlternatingMinimisation,
}

impl Learner {
    /// By the number of likes per user, that of users relative to the noise of a single item, and
    /// that of items in the head.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "floats saturate"
    )]
    fn of(likes: f64, signal: f64, head: usize) -> Self {
        let most = (signal / LEAST_SIGNAL).powi(2) as usize;
        if most >= head {
            return Self::Cooccurrences(head);
        }
        match most {
            m if m >= LEAST_ITEMS && likes < FEW_LIKES => Self::Cooccurrences(m),
            _ if likes < TOO_FEW_LIKES => Self::Popularity,
            _ => Self::AlternatingMinimisation,
        }
    }
}

impl MatrixFactorization {
    /// Item factors from the co-occurrences of likes, in place of alternating minimisation, if there
    /// are enough users for them to show above the noise; popularity if not, and users have too few
    /// likes for alternating minimisation; `None` otherwise, and where noise covers the number of users.
    ///
    /// ```text
    /// G = sum_j w_j w_j^T + noise = sum_k l_k v_k v_k^T        released in each round; the mean weighted by precision
    /// b = 2 sigma sqrt(m)                                      the largest eigenvalue of the noise, of standard deviation sigma off the diagonal
    /// s_k = (l_k + sqrt(l_k^2 - b^2)) / 2,  c_k = 1 - (b / 2 s_k)^2       l_k > 1.05 b
    /// q_ik = r sqrt(s_k c_k) v_ik
    /// ```
    ///
    /// `w_j` are the user's weights, of norm 1, on the `m` items that are learned. `s_k` is the
    /// eigenvalue without noise, `c_k` the squared cosine between its eigenvector and `v_k`, both
    /// for a low rank and large `m` (Benaych-Georges and Nadakuditi 2011). The scale `r` is such
    /// that the users' penalty, which is a setting, is `10 / L` (from 0.3 to 0.8) of the mean of
    /// `s_k c_k r^2`, with `L` likes per user by the released counts. At most 60 taste factors; with none above the
    /// noise, popularity ranks the items.
    ///
    /// # Privacy
    /// The number of users and one sum of norm at most 1 for each round, in place of the round's
    /// right-hand sides; the Gramian of all users is released as noise. The rest, the decision
    /// included, is post-processing.
    pub(super) fn by_cooccurrences(
        &self,
        counts: &NoisyCounts,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<Option<FactorModel>> {
        let n_items = counts.values().len();
        let users = run.vector(data, (1, 1.0), &HasLikes)?;
        let (n_users, error) = (users.values()[0], users.noise_stddev());
        if n_users <= 3.0 * error {
            return Ok(None);
        }
        let head = self
            .params()
            .n_head(n_items, Some(counts))
            .unwrap_or(n_items);
        if head > MOST_COOCCURRING && self.params().least_head == 0 {
            return Ok(None); // that many are asked for
        }
        let mut planned = 0.0;
        for round in 1..=self.params().n_rounds {
            planned += self.rhs_noise(run.plan(), round)?.powi(-2);
        }
        let likes = (counts.values().iter().sum::<f64>() / n_users).max(1.0);
        let of_one = n_users / largest_of_noise(planned, 1);
        let m = match Learner::of(likes, of_one, head.min(MOST_COOCCURRING)) {
            Learner::Cooccurrences(m) => m,
            Learner::Popularity => return self.popularity(counts, data, run).map(Some),
            Learner::AlternatingMinimisation => return Ok(None),
        };
        let weights = TaskWeights::from_counts(counts, EXPONENT, self.params().count_floor)?;
        let weights = weights.keeping(self.params().record_sampling.selection(Some(counts)));
        let weights = weights.with_head(counts, m)?;
        let pairs = Cooccurrences::of(&weights);
        let mut released = Released {
            packed: vec![0.0; packed_len(m)],
            precision: 0.0,
        };
        let mut model = self.by_popularity(Popularity::of(counts), counts, run)?;
        run.round(&shown(0, model.item_factors(), model.dim()));
        for round in 1..=self.params().n_rounds {
            let sums = (run.vector(data, (1, 1.0), &NoContribution))
                .and_then(|_| run.vector(data, (packed_len(m), 1.0), &pairs));
            let sums = match sums {
                // the model of a list that ends early is that of its last complete round
                Err(RunError::EndOfList) if round > 1 && run.is_at_end()? => break,
                sums => sums?,
            };
            released.add(&sums.values(), sums.noise_stddev());
            // a model that is paid for is not lost because eigenvectors cannot be computed
            if let Ok(found) = self.of_cooccurrences(&released, (&pairs, likes), counts, run) {
                model = found;
            }
            run.round(&shown(round, model.item_factors(), model.dim()));
        }
        Ok(Some(model))
    }

    /// The model of these co-occurrences, with standard deviations of the noise in the factors to
    /// first order, `sigma r sqrt(s_k c_k) / (s_k - mean of the other l)`, without what turns the
    /// taste factors among themselves.
    fn of_cooccurrences(
        &self,
        released: &Released,
        (pairs, likes): (&Cooccurrences<'_>, f64),
        counts: &NoisyCounts,
        run: &Run<'_>,
    ) -> Result<FactorModel> {
        let m = pairs.n_learned;
        let edge = largest_of_noise(released.precision, m);
        let matrix = released.matrix(m)?;
        let popularity = pairs.popularity(counts, (&matrix, released.precision.sqrt().recip()));
        let eigen = symmetric_eigen(&matrix, m)?;
        let axes = eigen.values.iter().zip(eigen.vectors.chunks_exact(m));
        let tastes: Vec<(f64, f64, &[f64])> = (axes.rev())
            .take_while(|(value, _)| **value > ABOVE * edge)
            .take(MOST_TASTES)
            .map(|(value, axis)| {
                let strength = 0.5 * (value + (value * value - edge * edge).sqrt());
                (strength, 1.0 - (0.5 * edge / strength).powi(2), axis)
            })
            .collect();
        if tastes.is_empty() {
            return self.by_popularity(popularity, counts, run);
        }
        let dim = 1 + tastes.len();
        let scoring = self.params().scoring(dim);
        let mean = tastes.iter().map(|(s, c, _)| s * c).sum::<f64>() / tastes.len() as f64;
        let penalty = scoring.penalties.map_or(1.0, |of| of.factor);
        let square = penalty / (mean * (LIKES / likes).clamp(PENALTY[0], PENALTY[1]));
        let sigma = edge / (2.0 * (m as f64).sqrt());
        let others = eigen.values.iter().rev().skip(tastes.len());
        let mean_other = (others.sum::<f64>() / (m - tastes.len()).max(1) as f64).max(0.0);
        let mut factors = vec![0.0; pairs.rows.len() * dim];
        let mut errors = factors.clone();
        let rows = factors
            .chunks_exact_mut(dim)
            .zip(errors.chunks_exact_mut(dim));
        let of_all = popularity.as_counts(counts)?;
        let popularity = popularity.relative();
        let popularity = popularity.values.iter().zip(&popularity.noise);
        for (((factor, error), row), (n, noise)) in rows.zip(&pairs.rows).zip(popularity) {
            let Some(row) = *row else { continue };
            (factor[0], error[0]) = (POPULARITY * n.max(0.0), POPULARITY * noise);
            let entries = factor[1..].iter_mut().zip(&mut error[1..]);
            for ((q, e), (strength, cosine, axis)) in entries.zip(&tastes) {
                *q = (square * strength * cosine).sqrt() * axis[row];
                *e = sigma * (square * strength * cosine).sqrt()
                    / (strength - mean_other).max(0.5 * strength);
            }
        }
        let model = FactorModel::new(scoring, factors, run.provenance())?;
        let typical = typical_factor(&model.design(), &of_all);
        let model = model.of_cooccurrences().with_counts(Some(counts.clone()));
        let model = match typical {
            Some(factor) => model.with_typical_user(factor)?,
            None => model,
        };
        match errors.iter().all(|error| error.is_finite()) {
            true => model.with_standard_errors(errors),
            false => Ok(model),
        }
    }
}

impl Released {
    fn add(&mut self, packed: &[f64], noise_stddev: f64) {
        let precision = noise_stddev.powi(-2);
        self.precision += precision;
        let share = precision / self.precision;
        for (mean, new) in self.packed.iter_mut().zip(packed) {
            *mean += share * (new - *mean);
        }
    }

    /// The full symmetric matrix.
    fn matrix(&self, n_learned: usize) -> Result<Vec<f64>> {
        let mut full = vec![0.0; n_learned * n_learned];
        unpack_symmetric(&self.packed, n_learned, &mut full)?;
        for (row, entries) in full.chunks_exact_mut(n_learned).enumerate() {
            for (column, entry) in entries.iter_mut().enumerate() {
                *entry /= if row == column { 1.0 } else { OFF_DIAGONAL };
            }
        }
        Ok(full)
    }
}

/// `2 sigma sqrt(m)`, where `2 sigma^2` is the variance of the noise in isometric coordinates.
fn largest_of_noise(precision: f64, n_learned: usize) -> f64 {
    2.0 * (0.5 * n_learned as f64 / precision).sqrt()
}

#[cfg(test)]
mod tests {
    use dp_mechanism::Grid;

    use super::super::tests::{noisy_counts, squared_norm, users_of_all_kinds};
    use super::*;

    #[test]
    fn no_user_adds_more_than_one_and_none_is_rejected() {
        let table = users_of_all_kinds(12);
        let counts = noisy_counts(&Private::new(table.clone()));
        let grid = Grid::new(7.0, 1.0).unwrap();
        let bound = u128::from(grid.l2_bound()).pow(2);
        for (exponent, head) in [(0.0, 0.999), (0.25, 0.999), (EXPONENT, 0.3), (3.0, 0.02)] {
            let weights = TaskWeights::from_counts(&counts, exponent, 1.0).unwrap();
            let weights = weights.head(&counts, head).unwrap();
            let pairs = Cooccurrences::of(&weights);
            let len = packed_len(pairs.n_learned);
            for user in 0..table.n_users() {
                let user = table.user(user);
                let squared = squared_norm(&grid, len, &pairs, user);
                assert!(squared <= bound, "{exponent} {head}");
                let learned = user.items().iter().any(|&item| pairs.row(item).is_some());
                // all of the bound, but for what the grid rounds away
                assert_eq!(
                    squared as f64 > 0.98 * bound as f64,
                    learned,
                    "{exponent} {head}"
                );
                let of_one = squared_norm(&grid, 1, &HasLikes, user);
                assert!(of_one <= bound);
                assert_eq!(of_one == 0, user.is_empty());
            }
        }
    }

    #[test]
    fn with_few_likes_the_head_shrinks_to_what_shows_above_the_noise() {
        use Learner::{AlternatingMinimisation, Cooccurrences, Popularity};
        let of_items = |m: f64| 60.0 * m.sqrt() * (1.0 + 1e-9);
        for (likes, items, head, expected) in [
            (3.0, 250.0, 250, Cooccurrences(250)),
            (3.0, 249.0, 250, Cooccurrences(249)),
            (11.9, 50.0, 250, Cooccurrences(50)),
            (3.0, 49.0, 250, Popularity),
            (7.9, 49.0, 250, Popularity),
            (8.0, 49.0, 250, AlternatingMinimisation),
            (12.0, 249.0, 250, AlternatingMinimisation),
            (12.0, 250.0, 250, Cooccurrences(250)),
            (3.0, 20.0, 20, Cooccurrences(20)),
            (1e9, 1e300, 7, Cooccurrences(7)),
        ] {
            let found = Learner::of(likes, of_items(items), head);
            assert_eq!(found, expected, "{likes} {items} {head}");
        }
    }

    /// Three items with 100, 200 and 300 users, and counts whose noise covers them.
    #[test]
    fn the_diagonal_refines_counts_whatever_the_weights_of_items_are() {
        let rough = NoisyCounts::released_elsewhere(vec![250.0, 150.0, 200.0], 1e3, false).unwrap();
        for exponent in [0.0, 0.25, 1.0] {
            let weights = TaskWeights::from_counts(&rough, exponent, 1.0).unwrap();
            let pairs = Cooccurrences::of(&weights);
            // of users with weights omega_i / W, W = 1
            let mut matrix = vec![0.0; 9];
            for (row, n) in [100.0, 200.0, 300.0].into_iter().enumerate() {
                matrix[row * 4] = n * weights.omega()[row].powi(2);
            }
            let found = pairs.popularity(&rough, (&matrix, 1e-6));
            for (n, expected) in found.values.iter().zip([100.0, 200.0, 300.0]) {
                assert!(
                    (n / expected - 1.0).abs() < 1e-3,
                    "{exponent}: {n} {expected}"
                );
            }
            assert!(found.noise.iter().all(|noise| *noise < 1.0));
            // and noise of co-occurrences that covers the counts leaves these as they are
            let kept = pairs.popularity(&rough, (&matrix, 1e9)).values;
            assert!(
                kept.iter()
                    .zip(rough.values())
                    .all(|(a, b)| (a - b).abs() < 1e-3 * b)
            );
        }
    }
}
