//! Long-tailed rating tables.

use dp_core::params::{at_least_one, finite_non_negative, finite_positive, in_range};
use dp_core::{InteractionsBuilder, ParamError};
use dp_linalg::PlainLoops;
use rand::Rng;
use rand_distr::weighted::WeightedAliasIndex;
use rand_distr::{Distribution, Exp1, StandardNormal};

use super::normals::NormalLanes;
use crate::{CatalogueSource, ItemCatalogue, Ratings, ReadSummary, Result};

/// A generator of whole-star ratings whose distribution resembles MovieLens: few users and items
/// have most of the ratings, and preferences have low rank.
///
/// ```text
/// n_u    = m + soft(exp(a + s_u z_u)),  soft(x) = x/(1 + x/(c−m)),  a such that Σ n_u = n_ratings
/// w_i    ∝ x_i / √(1 + x_i/exp(s_i/2)),  x_i = exp(s_i ζ_i)
///          user u draws n_u items without replacement, in proportion to w
/// y_ui   = b_u + c_i + ⟨p_u, q_i⟩ + e_ui
/// stars  = 1 + #{cuts below y_ui}
/// ```
///
/// with z, ζ, e normal; `m` the minimum number of ratings per user, `c` the number that the most
/// active users approach: 0.45 of the items, or 1.1 of the mean activity if that is more. The parts
/// of `y` have zero mean and variances `user_share`, `item_share`, `taste_share` over the ratings,
/// and the noise has the rest, so that `y` has variance 1. The thresholds are the normal quantiles
/// of MovieLens-1M's star shares (5.6, 10.8, 26.1, 34.9, 22.6 percent). Coordinate `k` of the taste
/// has variance proportional to 1/k. Popular items are slightly better (correlation of `c_i` with
/// `ζ_i` 0.35), active users slightly stricter (of `b_u` with `z_u` -0.2).
///
/// | parameter | default | range |
/// |---|---|---|
/// | `n_users`, `n_items`, `n_ratings` | given | see [`generate`](Self::generate) |
/// | `min_per_user` | 20 | 1 or above |
/// | `rank` | 12 | 1 to 1000 |
/// | `user_share`, `item_share`, `taste_share` | see [`new`](Self::new) | 0 or above, sum below 1 |
/// | `activity_spread` (in `s_u`), `popularity_spread` (in `s_i`) | see [`new`](Self::new) | 0 to 5 |
///
/// # Examples
/// ```
/// use dp_data::LongTailRatings;
/// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
/// let mut rng = ChaCha8Rng::seed_from_u64(1);
/// let ratings = LongTailRatings::new(50, 100, 2_000).generate(&mut rng)?;
/// assert_eq!(ratings.catalogue().len(), 100);
/// assert_eq!(ratings.interactions().expose().n_records(), 2_000);
/// # Ok::<(), dp_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct LongTailRatings {
    n_users: usize,
    n_items: usize,
    n_ratings: usize,
    min_per_user: usize,
    rank: usize,
    user_share: f64,
    item_share: f64,
    taste_share: f64,
    activity_spread: f64,
    popularity_spread: f64,
}

impl LongTailRatings {
    /// Shares .14, .24, .15 and spreads 1.45, 2.1: approximately the user-mean, item-mean and
    /// factorisation errors and the tails of MovieLens-1M.
    #[must_use]
    pub const fn new(n_users: usize, n_items: usize, n_ratings: usize) -> Self {
        Self {
            n_users,
            n_items,
            n_ratings,
            min_per_user: 20,
            rank: 12,
            user_share: 0.14,
            item_share: 0.24,
            taste_share: 0.15,
            activity_spread: 1.45,
            popularity_spread: 2.1,
        }
    }

    /// The size of MovieLens-1M: 6,040 users, 3,706 items, 1,000,209 ratings.
    #[must_use]
    pub const fn movielens_1m() -> Self {
        Self::new(6_040, 3_706, 1_000_209)
    }

    /// The size of MovieLens-10M: 69,878 users, 10,677 items, 10,000,054 ratings.
    #[must_use]
    pub const fn movielens_10m() -> Self {
        Self::new(69_878, 10_677, 10_000_054)
    }

    /// Sets the minimum number of ratings per user.
    #[must_use]
    pub const fn with_min_per_user(mut self, min_per_user: usize) -> Self {
        self.min_per_user = min_per_user;
        self
    }

    /// Sets the rank of the taste component.
    #[must_use]
    pub const fn with_rank(mut self, rank: usize) -> Self {
        self.rank = rank;
        self
    }

    /// Sets the shares of variance of user bias, item bias and taste; noise has the rest.
    #[must_use]
    pub const fn with_shares(mut self, user: f64, item: f64, taste: f64) -> Self {
        self.user_share = user;
        self.item_share = item;
        self.taste_share = taste;
        self
    }

    /// Sets the spreads (standard deviations of logarithms) of activity and popularity.
    #[must_use]
    pub const fn with_spreads(mut self, activity: f64, popularity: f64) -> Self {
        self.activity_spread = activity;
        self.popularity_spread = popularity;
        self
    }

    /// Draws a table. Users and items are called 1, 2, 3, ...; the catalogue counts as declared.
    ///
    /// # Arguments
    /// `rng` - any generator; the same seed gives the same table. Two calls with one generator give
    /// different tables.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) if a parameter is outside the range in the table
    /// above, or if `n_ratings` is not from `min_per_user · n_users` to `0.9 · n_items · n_users`.
    ///
    /// # Numerics
    /// Cost `O(n_ratings · rank)`, and `O(n_items)` for each very active user; about a tenth of a
    /// second per million ratings.
    pub fn generate<R: Rng + ?Sized>(&self, rng: &mut R) -> Result<Ratings> {
        let noise_share = self.check()?;
        let activity = standard_normals(self.n_users, rng);
        let counts = user_counts(&activity, &self.activity());
        let popularity = standard_normals(self.n_items, rng);
        let lists = draw_items(&popularity, self.popularity_spread, &counts, rng);
        let taste = TasteModel::draw(self, &activity, &popularity, &lists, rng);
        let mut builder = InteractionsBuilder::new(self.n_items);
        let noise_stddev = noise_share.sqrt();
        // each list is freed as soon as its ratings are drawn
        for (user, list) in (0_u32..).zip(lists) {
            for item in list {
                let noise: f64 = StandardNormal.sample(rng);
                let latent = taste.mean(user as usize, item as usize) + noise_stddev * noise;
                builder.push(user, item, stars(latent))?;
            }
        }
        Ok(self.with_ids(builder))
    }

    pub(super) const fn rank(&self) -> usize {
        self.rank
    }

    pub(super) const fn user_share(&self) -> f64 {
        self.user_share
    }

    pub(super) const fn item_share(&self) -> f64 {
        self.item_share
    }

    pub(super) const fn taste_share(&self) -> f64 {
        self.taste_share
    }

    fn per_user(&self) -> f64 {
        self.n_ratings as f64 / self.n_users as f64
    }

    fn activity(&self) -> Activity {
        Activity {
            total: self.n_ratings,
            least: self.min_per_user,
            ceiling: (0.45 * self.n_items as f64).max(1.1 * self.per_user()),
            spread: self.activity_spread,
        }
    }

    /// Checks all ranges; returns the share of variance left for the noise.
    fn check(&self) -> Result<f64> {
        let last_u32 = u32::MAX as usize;
        in_range("n_users", self.n_users, 1, last_u32, "1 to 2^32 - 1")?;
        in_range("n_items", self.n_items, 1, last_u32, "1 to 2^32 - 1")?;
        at_least_one("min_per_user", self.min_per_user)?;
        in_range("rank", self.rank, 1, 1000, "1 to 1000")?;
        let per_user = self.per_user();
        if per_user < self.min_per_user as f64 || per_user > 0.9 * self.n_items as f64 {
            return Err(ParamError {
                name: "n_ratings",
                value: self.n_ratings as f64,
                expected: "n_users times a number from min_per_user to 0.9 n_items",
            }
            .into());
        }
        for (name, spread) in [
            ("activity_spread", self.activity_spread),
            ("popularity_spread", self.popularity_spread),
        ] {
            if !(0.0..=5.0).contains(&spread) {
                return Err(ParamError::new(name, spread, "a number from 0 to 5").into());
            }
        }
        let used = finite_non_negative("user_share", self.user_share)?
            + finite_non_negative("item_share", self.item_share)?
            + finite_non_negative("taste_share", self.taste_share)?;
        Ok(finite_positive("noise share", 1.0 - used)?)
    }

    fn with_ids(&self, builder: InteractionsBuilder) -> Ratings {
        let (interactions, dropped) = builder.build();
        let summary = ReadSummary {
            n_read: interactions.n_records(),
            dropped,
            ..ReadSummary::default()
        };
        let names = |n: usize| (1..=n).map(|id| id.to_string());
        Ratings::assemble(
            interactions,
            names(self.n_users).collect(),
            ItemCatalogue::from_ids(names(self.n_items)),
            CatalogueSource::Declared,
            summary,
        )
    }
}

fn draw_items<R: Rng + ?Sized>(
    popularity: &[f64],
    spread: f64,
    counts: &[usize],
    rng: &mut R,
) -> Vec<Vec<u32>> {
    let bend = (0.5 * spread).exp();
    let weight = |z: &f64| {
        let x = (spread * z).exp();
        x / (1.0 + x / bend).sqrt()
    };
    let weights = popularity.iter().map(weight).collect();
    let mut sampler = ItemSampler::new(weights);
    counts
        .iter()
        .map(|&count| sampler.draw(count, rng))
        .collect()
}

/// Normal quantiles of MovieLens-1M's cumulative star shares (56,172, 107,556, 261,196, 348,970,
/// 226,309 of 1,000,203).
const STAR_CUTS: [f64; 4] = [-1.587_845_9, -0.979_385_5, -0.189_532_5, 0.751_210_2];
const ITEM_POPULARITY_CORRELATION: f64 = 0.35;
const USER_ACTIVITY_CORRELATION: f64 = -0.2;

/// Stars for a latent value with mean 0 and variance 1 over the ratings.
pub(super) fn stars(latent: f64) -> f32 {
    STAR_CUTS.iter().fold(
        1.0,
        |stars, &cut| if latent > cut { stars + 1.0 } else { stars },
    )
}

/// Independent standard normal numbers.
pub(super) fn standard_normals<R: Rng + ?Sized>(n: usize, rng: &mut R) -> Vec<f64> {
    (0..n).map(|_| StandardNormal.sample(rng)).collect()
}

/// Biases and factors of users and items.
pub(super) struct TasteModel {
    rank: usize,
    user_bias: Vec<f64>,
    item_bias: Vec<f64>,
    user_factors: Vec<f64>,
    item_factors: Vec<f64>,
}

impl TasteModel {
    /// Draws a model whose parts have the parameters' shares of variance over `lists`.
    pub(super) fn draw<R: Rng + ?Sized>(
        params: &LongTailRatings,
        activity: &[f64],
        popularity: &[f64],
        lists: &[Vec<u32>],
        rng: &mut R,
    ) -> Self {
        let per_user: Vec<f64> = lists.iter().map(|list| list.len() as f64).collect();
        let mut per_item = vec![0.0; popularity.len()];
        for &item in lists.iter().flatten() {
            per_item[item as usize] += 1.0;
        }
        let mut user_bias = correlated(activity, USER_ACTIVITY_CORRELATION, rng);
        standardise(&mut user_bias, &per_user, params.user_share());
        let mut item_bias = correlated(popularity, ITEM_POPULARITY_CORRELATION, rng);
        standardise(&mut item_bias, &per_item, params.item_share());
        let rank = params.rank();
        let mut item_factors = standard_normals(popularity.len() * rank, rng);
        scale_coordinates(&mut item_factors, rank, params.taste_share());
        Self {
            rank,
            user_bias,
            item_bias,
            user_factors: standard_normals(activity.len() * rank, rng),
            item_factors,
        }
    }

    /// The latent value before noise.
    pub(super) fn mean(&self, user: usize, item: usize) -> f64 {
        let p = &self.user_factors[user * self.rank..][..self.rank];
        let q = &self.item_factors[item * self.rank..][..self.rank];
        let taste: f64 = p.iter().zip(q).map(|(p, q)| p * q).sum();
        self.user_bias[user] + self.item_bias[item] + taste
    }
}

/// Standard normal numbers with the given correlation to `scores`.
fn correlated<R: Rng + ?Sized>(scores: &[f64], correlation: f64, rng: &mut R) -> Vec<f64> {
    let own = correlation.mul_add(-correlation, 1.0).sqrt();
    scores
        .iter()
        .map(|score| {
            let z: f64 = StandardNormal.sample(rng);
            correlation * score + own * z
        })
        .collect()
}

/// Shifts and scales `values` to weighted mean 0 and weighted variance `variance`.
fn standardise(values: &mut [f64], weights: &[f64], variance: f64) {
    let total: f64 = weights.iter().sum();
    let weighted = |of: &dyn Fn(f64) -> f64, numbers: &[f64]| {
        let sum: f64 = numbers.iter().zip(weights).map(|(&v, w)| of(v) * w).sum();
        sum / total
    };
    let mean = weighted(&|v| v, values);
    values.iter_mut().for_each(|v| *v -= mean);
    let found = weighted(&|v| v * v, values);
    if found > 0.0 {
        let scale = (variance / found).sqrt();
        values.iter_mut().for_each(|v| *v *= scale);
    }
}

/// Scales coordinate k of every factor so that its variance is proportional to 1/k and all
/// coordinates together have `variance` against factors of variance 1.
fn scale_coordinates(factors: &mut [f64], rank: usize, variance: f64) {
    let harmonic: f64 = (1..=rank).map(|k| 1.0 / k as f64).sum();
    let scales: Vec<f64> = (1..=rank)
        .map(|k| (variance / (k as f64 * harmonic)).sqrt())
        .collect();
    for factor in factors.chunks_exact_mut(rank) {
        factor.iter_mut().zip(&scales).for_each(|(f, s)| *f *= s);
    }
}

/// The distribution of the users' counts.
pub(super) struct Activity {
    /// Sum of all counts.
    pub(super) total: usize,
    /// Smallest count.
    pub(super) least: usize,
    /// The limit that counts above the smallest approach and never exceed.
    pub(super) ceiling: f64,
    /// Standard deviation of the logarithm.
    pub(super) spread: f64,
}

impl Activity {
    /// Ratings above the smallest count at log-location `location`.
    fn above_least(&self, z: f64, location: f64) -> f64 {
        let x = (location + self.spread * z).exp();
        let ceiling = self.ceiling - self.least as f64;
        1.0 / (1.0 / x + 1.0 / ceiling)
    }
}

/// Counts for users with normal scores `z`, with their location found by bisection so that the sum
/// is `total`. Fractions are carried over from user to user, so nothing is lost to rounding.
pub(super) fn user_counts(z: &[f64], law: &Activity) -> Vec<usize> {
    let above = (law.total - law.least * z.len()) as f64;
    let location = bisect(|a| z.iter().map(|&z| law.above_least(z, a)).sum::<f64>() < above);
    let (mut exact, mut given) = (0.0, 0);
    z.iter()
        .map(|&z| {
            exact += law.above_least(z, location);
            let due = whole(exact);
            let count = law.least + due - given;
            given = due;
            count
        })
        .collect()
}

/// The position in `[-50, 50]` where `is_below` becomes false.
fn bisect(is_below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (-50.0, 50.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// A sum of counts, rounded to the nearest whole number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sums of counts lie between 0 and the number of ratings"
)]
fn whole(x: f64) -> usize {
    x.round() as usize
}

/// Draws lists of distinct items.
///
/// The distribution is that of drawing one item after another, each time in proportion to the
/// weights of the remaining items. Most lists are short compared with the catalogue, so items are
/// first drawn with replacement, and items already in the list are skipped. A list still incomplete
/// after a bounded number of draws is completed by the smallest exponential keys `E_i / w_i` of the
/// remaining items, which has the same distribution (Efraimidis and Spirakis 2006).
pub(super) struct ItemSampler {
    weights: Vec<f64>,
    alias: WeightedAliasIndex<f64>,
    taken_by: Vec<u32>,
    turn: u32,
}

impl ItemSampler {
    const DRAWS_PER_ITEM: usize = 4;

    /// # Panics
    /// If there are no weights or one is not positive and finite.
    pub(super) fn new(weights: Vec<f64>) -> Self {
        let alias = WeightedAliasIndex::new(weights.clone())
            .expect("weights are positive and their sum is finite");
        Self {
            taken_by: vec![0; weights.len()],
            weights,
            alias,
            turn: 0,
        }
    }

    /// `count` distinct items, in no particular order; all of them if there are fewer.
    pub(super) fn draw<R: Rng + ?Sized>(&mut self, count: usize, rng: &mut R) -> Vec<u32> {
        self.next_turn();
        let count = count.min(self.weights.len());
        let mut list = Vec::with_capacity(count);
        for _ in 0..Self::DRAWS_PER_ITEM * count {
            if list.len() == count {
                return list;
            }
            let item = self.alias.sample(rng);
            if self.taken_by[item] != self.turn {
                self.taken_by[item] = self.turn;
                list.push(to_u32(item));
            }
        }
        self.complete(&mut list, count, rng);
        list
    }

    fn next_turn(&mut self) {
        if self.turn == u32::MAX {
            self.taken_by.fill(0);
            self.turn = 0;
        }
        self.turn += 1;
    }

    fn complete<R: Rng + ?Sized>(&self, list: &mut Vec<u32>, count: usize, rng: &mut R) {
        let missing = count - list.len();
        if missing == 0 {
            return;
        }
        let left = (0..self.weights.len()).filter(|&item| self.taken_by[item] != self.turn);
        let mut keys: Vec<(f64, u32)> = left
            .map(|item| {
                let exponential: f64 = Exp1.sample(rng);
                (exponential / self.weights[item], to_u32(item))
            })
            .collect();
        keys.select_nth_unstable_by(missing - 1, |a, b| a.0.total_cmp(&b.0));
        list.extend(keys[..missing].iter().map(|&(_, item)| item));
    }
}

fn to_u32(item: usize) -> u32 {
    u32::try_from(item).expect("fewer than 2^32 items")
}

/// Rows of one user, from a stream of normal numbers.
pub(super) struct NewRows<'a> {
    pub(super) normals: NormalLanes,
    /// Standard deviation of each feature.
    pub(super) stddevs: &'a [f32],
    pub(super) label_noise: f32,
    /// The user's coefficients.
    pub(super) own: &'a [f32],
    /// The cells to be written.
    pub(super) cells: &'a mut [f32],
}

impl PlainLoops for NewRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        self.normals.fill(self.cells);
        for row in self.cells.chunks_exact_mut(self.own.len() + 1) {
            let Some((y, x)) = row.split_last_mut() else {
                continue;
            };
            for (x, &stddev) in x.iter_mut().zip(self.stddevs) {
                *x *= stddev;
            }
            *y = self.label_noise * *y + inner(x, self.own);
        }
    }
}

/// Eight partial sums, so that the compiler can use vector registers.
#[inline(always)]
fn inner(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (a, b) in a8.iter().zip(b8) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use dp_linalg::with_vector_instructions;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn stars_step_at_the_cuts() {
        for (latent, expected) in [
            (-9.0, 1.0),
            (-1.0, 2.0),
            (-0.5, 3.0),
            (0.0, 4.0),
            (0.75, 4.0),
            (0.76, 5.0),
            (9.0, 5.0),
        ] {
            assert_eq!(stars(latent).to_bits(), f32::to_bits(expected), "{latent}");
        }
    }

    #[test]
    fn standardised_values_have_the_variance_asked_for_under_their_weights() {
        let mut values = vec![1.0, 2.0, 10.0, 7.0];
        let weights = [5.0, 1.0, 2.0, 0.0];
        standardise(&mut values, &weights, 0.25);
        let moment = |power: i32| {
            let sum: f64 = values
                .iter()
                .zip(&weights)
                .map(|(v, w)| w * v.powi(power))
                .sum();
            sum / 8.0
        };
        assert!(moment(1).abs() < 1e-15);
        assert!((moment(2) - 0.25).abs() < 1e-15);
    }

    #[test]
    fn coordinates_share_the_variance_harmonically() {
        let mut factors = vec![1.0; 6];
        scale_coordinates(&mut factors, 3, 0.22);
        let variances: Vec<f64> = factors[3..].iter().map(|f| f * f).collect();
        for (variance, expected) in variances.iter().zip([0.12, 0.06, 0.04]) {
            assert!((variance - expected).abs() < 1e-15);
        }
    }

    fn law(total: usize) -> Activity {
        Activity {
            total,
            least: 20,
            ceiling: 700.0,
            spread: 1.5,
        }
    }

    #[test]
    fn counts_add_up_and_stay_within_their_limits() {
        let z: Vec<f64> = (0..101).map(|i| f64::from(i) / 10.0 - 5.0).collect();
        for total in [2_020, 2_021, 15_000, 60_000] {
            let counts = user_counts(&z, &law(total));
            assert_eq!(counts.iter().sum::<usize>(), total);
            assert!(counts.iter().all(|c| (20..=700).contains(c)));
        }
    }

    #[test]
    fn a_higher_score_means_more_ratings() {
        let counts = user_counts(&[-1.0, 0.0, 1.0], &law(300));
        assert!(counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
        // below the ceiling, log-distances of counts above the minimum are equal: 80^2 is near 18 *
        // 142
        let above: Vec<f64> = counts.iter().map(|&c| c as f64 - 20.0).collect();
        assert!(above[2] / above[1] > 3.0 && above[1] / above[0] > 3.0);
    }

    #[test]
    fn lists_hold_different_items_and_the_number_asked_for() {
        let weights: Vec<f64> = (0..40).map(|i| f64::from(i).exp2()).collect();
        let mut sampler = ItemSampler::new(weights);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for count in [0, 1, 5, 39, 40, 41] {
            let mut list = sampler.draw(count, &mut rng);
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), count.min(40));
        }
    }

    /// Probability that successive sampling of two items takes `item`.
    fn inclusion_of_two(weights: &[f64], item: usize) -> f64 {
        let sum: f64 = weights.iter().sum();
        let second: f64 = (0..weights.len())
            .filter(|&first| first != item)
            .map(|first| weights[first] / sum * weights[item] / (sum - weights[first]))
            .sum();
        weights[item] / sum + second
    }

    #[test]
    fn both_ways_of_drawing_follow_successive_sampling() {
        // one heavy item: after the bounded draws many lists still need completing
        let weights = [60.0, 1.0, 2.0, 0.5];
        let mut sampler = ItemSampler::new(weights.to_vec());
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let n = 100_000;
        let mut seen = [0.0; 4];
        for _ in 0..n {
            for item in sampler.draw(2, &mut rng) {
                seen[item as usize] += 1.0;
            }
        }
        for (item, times) in seen.into_iter().enumerate() {
            let p = inclusion_of_two(&weights, item);
            // six standard deviations: false-alarm rate 1e-8 over the four items
            let tolerance = 6.0 * (p * (1.0 - p) / f64::from(n)).sqrt();
            assert!((times / f64::from(n) - p).abs() < tolerance, "{item}");
        }
    }

    const DIM: usize = 11;

    #[test]
    fn made_rows_do_not_change() {
        let own: [f32; DIM] = std::array::from_fn(|k| k as f32 - 4.5);
        let stddevs: [f32; DIM] = std::array::from_fn(|k| 1.0 / (k + 1) as f32);
        let mut cells = [0.0; 7 * (DIM + 1)];
        with_vector_instructions(NewRows {
            normals: NormalLanes::new(9),
            stddevs: &stddevs,
            label_noise: 0.25,
            own: &own,
            cells: &mut cells,
        });
        let sum = |h: u32, x: &f32| h.rotate_left(5).wrapping_add(x.to_bits());
        assert_eq!(cells.iter().fold(0, sum), 0xc52e_98b9);
    }
}
