//! Long-tailed rating tables.

use dp_core::params::{at_least_one, finite_non_negative, finite_positive, in_range};
use dp_core::{InteractionsBuilder, ParamError};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::activity::{Activity, user_counts};
use super::draw::ItemSampler;
use super::taste::{TasteModel, standard_normals, stars};
use crate::{CatalogueSource, ItemCatalogue, Ratings, ReadSummary, Result};

/// A generator of whole-star ratings whose shape resembles MovieLens: few users and items have
/// most of the ratings, and tastes have low rank.
///
/// ```text
/// n_u    = m + soft(exp(a + s_u z_u)),  soft(x) = x/(1 + x/(c−m)),  a such that Σ n_u = n_ratings
/// w_i    ∝ x_i / √(1 + x_i/exp(s_i/2)),  x_i = exp(s_i ζ_i)
///          user u draws n_u items without replacement, in proportion to w
/// y_ui   = b_u + c_i + ⟨p_u, q_i⟩ + e_ui
/// stars  = 1 + #{cuts below y_ui}
/// ```
///
/// with z, ζ, e normal; `m` the least number of a user's ratings, `c` the number that the
/// busiest approach: 0.45 of the items, or 1.1 of the mean activity if that is more. The parts
/// of `y` have zero mean and variances `user_share`, `item_share`, `taste_share` over the ratings, and
/// the noise has the rest, so that `y` has variance 1. The cuts are the normal quantiles of
/// MovieLens-1M's star shares (5.6, 10.8, 26.1, 34.9, 22.6 percent). Coordinate `k` of the taste
/// carries variance in proportion to 1/k. Popular items are a little better (correlation of
/// `c_i` with `ζ_i` 0.35), busy users a little stricter (of `b_u` with `z_u` -0.2).
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
    /// Shares .14, .24, .15 and spreads 1.45, 2.1: the user-mean, item-mean and factorisation
    /// errors and the tails of MovieLens-1M, roughly.
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

    /// Sets the least number of ratings of a user.
    #[must_use]
    pub const fn with_min_per_user(mut self, min_per_user: usize) -> Self {
        self.min_per_user = min_per_user;
        self
    }

    /// Sets the rank of the taste.
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
    /// `rng` - any generator; the same seed gives the same table. Two calls on one generator
    /// give different tables.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) - a parameter is outside the range in the table
    /// above, or `n_ratings` is not from `min_per_user · n_users` to `0.9 · n_items · n_users`.
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
        // each list is given back as soon as its ratings are drawn
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

    /// Checks every range; returns the share of variance left for the noise.
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
                return Err(ParamError {
                    name,
                    value: spread,
                    expected: "a number from 0 to 5",
                }
                .into());
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
