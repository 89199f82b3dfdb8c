//! Private item counts: the number of users who have each item.

use dp_core::params::same_size;
use dp_core::{Interactions, Private, UserRow};
use dp_linalg::ItemRanking;
use dp_mechanism::{ReleasedVector, Run, SparseBuffer, VectorContribution};

use crate::Result;

/// One user's vote for each of the user's items, scaled down to a public norm.
///
/// ```text
/// c_j = min(1, C / sqrt(n_j)) * (indicator of the items of user j),   ||c_j||_2 <= C
/// ```
///
/// `n_j` is the user's own number of items; a user with up to `C^2` items counts in full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountContribution {
    clip_norm: f64,
}

impl CountContribution {
    /// Votes of norm at most `clip_norm`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `clip_norm` is not finite and positive.
    pub fn new(clip_norm: f64) -> Result<Self> {
        Ok(Self {
            clip_norm: dp_core::params::finite_positive("count_clip_norm", clip_norm)?,
        })
    }
}

impl VectorContribution for CountContribution {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let vote = (self.clip_norm / (user.len() as f64).sqrt()).min(1.0);
        out.extend(user.items().iter().map(|&item| (item, vote)));
    }
}

/// Released noisy counts of users per item.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct NoisyCounts {
    values: Vec<f64>,
    noise_stddev: f64,
    insecure: bool,
}

impl NoisyCounts {
    /// Releases the counts of all items at once, as the next release of the run's plan.
    ///
    /// # Privacy
    /// One Gaussian release of L2 sensitivity `clip_norm` (add/remove one user);
    /// the output is public and may be used any number of times.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for an invalid `clip_norm`; errors of [`Run::vector`].
    pub fn release(
        data: &Private<Interactions>,
        clip_norm: f64,
        run: &mut Run<'_>,
    ) -> Result<Self> {
        let contribution = CountContribution::new(clip_norm)?;
        let shape = (data.expose().n_items(), clip_norm);
        Ok(Self::of(&run.vector(data, shape, &contribution)?))
    }

    /// Counts that were released elsewhere: sums of users' votes of any norm, with the standard
    /// deviation of their noise, and whether the noise was repeatable.
    ///
    /// # Privacy
    /// They must have been released: no noise is added here.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a number that is not finite, or a negative standard deviation.
    pub fn released_elsewhere(values: Vec<f64>, noise_stddev: f64, insecure: bool) -> Result<Self> {
        dp_core::params::finite_non_negative("noise_stddev", noise_stddev)?;
        for &value in &values {
            dp_core::params::finite("count", value)?;
        }
        Ok(Self {
            values,
            noise_stddev,
            insecure,
        })
    }

    /// From released sums of users' votes ([`CountContribution`]).
    #[must_use]
    pub fn of(released: &ReleasedVector) -> Self {
        Self {
            values: released.values(),
            noise_stddev: released.noise_stddev(),
            insecure: released.is_insecure(),
        }
    }

    /// Noisy count of each item; may be negative.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Item biases that rank items by their counts: in units of the largest count, or of 1 if that
    /// is larger. Post-processing.
    pub(crate) fn as_biases(&self) -> Vec<f64> {
        let unit = self.unit();
        self.values.iter().map(|n| n / unit).collect()
    }

    /// The largest count, or 1 if that is larger.
    pub(crate) fn unit(&self) -> f64 {
        self.values.iter().fold(1.0, |most: f64, n| most.max(*n))
    }

    /// Mean noisy count of an item.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Effective number of items in use, for rules that must not change with items that no user
    /// has: at most four times the number of equally popular items whose counts would have the same
    /// concentration.
    ///
    /// ```text
    /// min(n, 4 (sum n_i)^2 / (sum n_i^2 - n s^2))      n items, noise of standard deviation s
    /// ```
    ///
    /// The quotient is the inverse of Simpson's index (1949), corrected for the contribution of the
    /// noise. `None` if one of the two sums is within three standard deviations of its noise.
    /// Post-processing.
    ///
    /// # Examples
    /// ```
    /// use dp_multitask::NoisyCounts;
    /// let mut counts = vec![50.0; 20];
    /// counts.resize(20_000, 0.0); // a catalogue with many items that nobody holds
    /// let counts = NoisyCounts::released_elsewhere(counts, 0.1, false)?;
    /// assert_eq!(counts.items_in_use().map(f64::round), Some(80.0));
    /// # Ok::<(), dp_multitask::Error>(())
    /// ```
    #[must_use]
    pub fn items_in_use(&self) -> Option<f64> {
        let (n, variance) = (self.values.len() as f64, self.noise_stddev.powi(2));
        let sum: f64 = self.values.iter().sum();
        let squares = self.values.iter().map(|count| count * count).sum::<f64>() - n * variance;
        let shown =
            sum > 3.0 * (n * variance).sqrt() && squares > 3.0 * (2.0 * n).sqrt() * variance;
        shown.then(|| (4.0 * sum * sum / squares).min(n))
    }

    /// Mean noisy count of the [items in use](Self::items_in_use); 0 if their number cannot be
    /// determined.
    #[must_use]
    pub fn mean_in_use(&self) -> f64 {
        let sum: f64 = self.values.iter().sum();
        self.items_in_use().map_or(0.0, |n| sum / n)
    }

    /// The popularity baseline: for every user who has `held_out` records, the `k` items with the
    /// largest noisy counts, best first, excluding those in the user's `own` records. An empty list
    /// for every other user. Private, like the records that it excludes.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the tables differ in their number of users, or have another
    /// number of items.
    pub fn most_popular_held_out(
        &self,
        own: &Private<Interactions>,
        held_out: &Private<Interactions>,
        k: usize,
    ) -> Result<Private<Vec<Vec<u32>>>> {
        let n_items = self.values.len();
        let (own, held_out) = (own.expose(), held_out.expose());
        same_size("items of the table", own.n_items(), n_items)?;
        same_size("items of the held-out table", held_out.n_items(), n_items)?;
        same_size(
            "users of the held-out table",
            held_out.n_users(),
            own.n_users(),
        )?;
        let ranking = ItemRanking::new(&self.values);
        let list = |(row, asked): (UserRow<'_>, UserRow<'_>)| {
            let k = if asked.is_empty() { 0 } else { k };
            Ok(ranking.best(k, row.items())?)
        };
        let lists: Result<Vec<Vec<u32>>> = own.users().zip(held_out.users()).map(list).collect();
        Ok(Private::new(lists?))
    }

    /// Standard deviation of the noise in each count.
    #[must_use]
    pub const fn noise_stddev(&self) -> f64 {
        self.noise_stddev
    }

    /// The 95 % interval of an item's count that accounts for the noise alone: for the sum of
    /// clipped votes over the users of this data set, not of the population they come from.
    /// `[value - 1.96 s, value + 1.96 s]`, where `s` is the [standard deviation of the
    /// noise](Self::noise_stddev), in users. Post-processing.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn interval(&self, item: usize) -> [f64; 2] {
        let half = 1.96 * self.noise_stddev;
        [self.values[item] - half, self.values[item] + half]
    }

    /// Whether the noise was repeatable, which invalidates the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;
    use dp_mechanism::{Grid, vector_contribution};

    use super::*;

    #[test]
    fn votes_are_whole_up_to_the_squared_norm_and_bounded_above_it() {
        let grid = Grid::new(7.0, 10.0).unwrap();
        let contribution = CountContribution::new(10.0).unwrap();
        for (n, vote) in [(1_u32, 1.0), (100, 1.0), (101, 0.995), (10_000, 0.1)] {
            let mut builder = InteractionsBuilder::new(n as usize);
            for item in 0..n {
                builder.push(0, item, 5.0).unwrap();
            }
            let (table, _) = builder.build();
            let votes = vector_contribution(&grid, n as usize, &contribution, table.user(0));
            assert_eq!(votes.len(), n as usize, "a user at the bound was rejected");
            let squared: u128 = votes
                .iter()
                .map(|&(_, z)| u128::from(z.unsigned_abs()).pow(2))
                .sum();
            assert!(squared <= u128::from(grid.l2_bound()).pow(2));
            assert!((votes[0].1 as f64 * grid.step() - vote).abs() < 1e-3);
        }
    }

    /// 2,000 seeded releases of votes, some of which are clipped. The share of intervals that
    /// contain the value has the standard error .0049; six of them, .029, are exceeded by chance
    /// once in 5e8 tests, for each of three items.
    #[test]
    #[allow(clippy::disallowed_types, reason = "a test pays for single releases")]
    fn intervals_hold_the_clipped_sums_as_often_as_they_say() {
        const N_RUNS: u64 = 2_000;
        let mut builder = InteractionsBuilder::new(3);
        for user in 0..40 {
            for item in 0..=user % 3 {
                builder.push(user, item, 1.0).unwrap();
            }
        }
        let data = Private::new(builder.build().0);
        // 14, 13 and 13 users with 1, 2 and 3 items; votes of norm 1 for all of them
        let (two, three) = (13.0 / 2.0_f64.sqrt(), 13.0 / 3.0_f64.sqrt());
        let truth = [14.0 + two + three, two + three, three];
        let target = dp_core::ApproxDp::target(1.0, 1e-5).unwrap();
        let adjacency = dp_core::Adjacency::AddRemoveUser;
        let request =
            dp_accounting::ReleaseRequest::new("item counts", 1.0, dp_core::ReplaceFactor::Two, 3);
        let requests = [request];
        let plan = dp_accounting::Plan::calibrate(target, adjacency, &requests).unwrap();
        let requests = dp_accounting::Requests::Shares(requests.to_vec());
        let mut held = [0_u32; 3];
        for seed in 0..N_RUNS {
            let budget = dp_accounting::Budget::new(plan.target(), adjacency).unwrap();
            let mut ledger = dp_accounting::Ledger::in_memory("users", budget).unwrap();
            let spends = ledger.reserve(&plan).unwrap();
            let noise = &mut dp_mechanism::NoiseSource::insecure_seeded(seed);
            let mut run = Run::new(&plan, spends, noise).unwrap();
            run.begin(&requests, 1).unwrap();
            let counts = NoisyCounts::release(&data, 1.0, &mut run).unwrap();
            for (item, held) in held.iter_mut().enumerate() {
                let [low, high] = counts.interval(item);
                *held += u32::from(low <= truth[item] && truth[item] <= high);
            }
        }
        for held in held {
            let share = f64::from(held) / N_RUNS as f64;
            assert!((share - 0.95).abs() < 0.029, "{share}");
        }
    }

    #[test]
    fn items_that_nobody_holds_change_neither_the_items_in_use_nor_their_mean() {
        let popular: Vec<f64> = (1..=500_u32).map(|i| 20_000.0 / f64::from(i)).collect();
        // noise of standard deviation 5 constructed so that it cancels in both sums
        let with = |n_others: usize| {
            let noise = (0..500 + n_others).map(|i| if i % 2 == 0 { 5.0 } else { -5.0 });
            let counts = popular.iter().copied().chain(std::iter::repeat(0.0));
            let values = counts.zip(noise).map(|(count, z)| count + z).collect();
            NoisyCounts::released_elsewhere(values, 5.0, true).unwrap()
        };
        // harmonic numbers: H_500 = 6.79, its square divided by that of the squares, 1.64, is 28.1,
        // times 4
        let (few, many) = (with(0), with(60_000));
        for counts in [&few, &many] {
            let n = counts.items_in_use().unwrap();
            assert!((n / 112.4 - 1.0).abs() < 0.01, "{n}");
            let expected = 20_000.0 * 6.793 / n;
            assert!((counts.mean_in_use() / expected - 1.0).abs() < 0.01);
        }
        let alike = NoisyCounts::released_elsewhere(vec![7.0; 10], 0.1, true).unwrap();
        assert_eq!(alike.items_in_use(), Some(10.0));
        let drowned = NoisyCounts::released_elsewhere(vec![7.0, -6.0, 3.0], 20.0, true).unwrap();
        assert_eq!((drowned.items_in_use(), drowned.mean_in_use()), (None, 0.0));
        // each of the two sums must be above its noise: 60 sd are 600, and 3 sqrt(2 n) variances
        // 4,243
        let of = |value: fn(i32) -> f64| {
            let values = (0..100).map(value).collect();
            NoisyCounts::released_elsewhere(values, 10.0, true).unwrap()
        };
        let adds_up_to_nothing = of(|i| if i % 2 == 0 { 30.0 } else { -30.0 });
        assert_eq!(adds_up_to_nothing.items_in_use(), None);
        let squares_of_noise = of(|i| if i % 2 == 0 { 15.0 } else { -1.0 });
        assert_eq!(squares_of_noise.items_in_use(), None);
    }
}
