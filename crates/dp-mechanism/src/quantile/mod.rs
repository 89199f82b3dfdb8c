//! A private quantile of one value per user, such as a clip norm.
#![allow(
    clippy::float_arithmetic,
    reason = "the public grid of points, and one user's place on it; scores are exact"
)]

use dp_accounting::Spend;
use dp_core::{DpEvent, Interactions, ParamError, Private, Relation, UserRow, params};

use crate::exponential::{ExponentialMechanism, ScoreChange};
use crate::{Error, NoiseSource, Result};

/// Levels are multiples of 2^-20.
const LEVEL_ONE: u32 = 1 << 20;
/// Maximum number of grid points.
const MAX_POINTS: usize = 1 << 20;

/// A quantile of one value per user, selected by the exponential mechanism on a public grid.
///
/// ```text
/// t_i  = low + i (high - low) / (G - 1),  i = 0, ..., G - 1        grid, public
/// L_i  = users whose grid value is below t_i,   R_i = users at or below,   n = all users
/// u_i  = -max(0, L_i - q n, q n - R_i)          0 exactly at the q-quantiles of the grid values
/// P(i) proportional to exp(epsilon u_i / (2 s)) with the integer weights of ExponentialMechanism
/// ```
///
/// A user's value is assigned to the nearest grid point, values outside to the nearer end, NaN to
/// the lowest point. Every grid point is a candidate, so points between two consecutive values
/// share their score: this is the interval form of the source, with lengths counted in points. If
/// many users share a value, `[L_i, R_i]` is wide and only that point is best; with a single rank
/// instead, every point of a constant column would have the same score.
///
/// Source: Smith, *Privacy-preserving statistical estimation with optimal convergence rates* (STOC
/// 2011, algorithm 2, stated there for replacement and a continuous range).
///
/// # Privacy
/// Released to everybody: one grid point. Unit: the user, who has exactly one value computed from
/// the user's own row. Sensitivity `s` of every `u_i`:
///
/// * **Add/remove.** With one more user with value v, `n` increases by 1, so `q n` by `q`; `L_i`
///   and `R_i` each increase by 0 or 1. So `L_i - q n` and `q n - R_i` each change by `q` or `1 -
///   q`, and a maximum changes no more than its parts: `s = max(q, 1 - q) <= 1`.
/// * **Replace.** `n` stays the same, `L_i` and `R_i` change by at most 1: `s = 1`.
///
/// Scores increase for some points and decrease for others, so the change is general. `q` is a
/// multiple of 2^-20 and the scores are whole multiples of 2^-20, so there is no rounding before
/// the floor of the mechanism. The release has bounded range `epsilon`. The work after one pass
/// over the users depends only on `G`.
///
/// # Numerics
/// With probability `1 - beta` the rank of the result is off by at most
/// `(2 s / epsilon) ln(G / beta)` users. O(users + G).
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger, Plan, PlannedRelease};
/// use dp_core::{Adjacency, InteractionsBuilder, Private, Relation};
/// use dp_mechanism::{NoiseSource, PrivateQuantile};
///
/// let mut builder = InteractionsBuilder::new(100);
/// for user in 0..2000 {
///     for item in 0..1 + user % 50 {
///         builder.push(user, item, 1.0)?;
///     }
/// }
/// let data = Private::new(builder.build().0);
///
/// // the median number of items per user, a point of 0, 1, ..., 100
/// let median = PrivateQuantile::new(0.5, (0.0, 100.0), 101, 1.0, Relation::AddRemove)?;
/// let adjacency = Adjacency::AddRemoveUser;
/// let release = PlannedRelease::new("median", median.event(), 0);
/// let plan = Plan::with_noise_multipliers(1e-6, adjacency, vec![release])?;
/// let mut ledger = Ledger::in_memory("example", Budget::schedule(plan.target(), adjacency)?)?;
/// let spend = ledger.reserve(&plan)?.remove(0);
///
/// let noise = &mut NoiseSource::operating_system();
/// let found = median.release(&data, |user| user.len() as f64, spend, noise)?;
/// assert!((found.value() - 25.0).abs() <= 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrivateQuantile {
    /// q in units of 2^-20.
    level: u32,
    low: f64,
    high: f64,
    n_points: usize,
    mechanism: ExponentialMechanism,
}

impl PrivateQuantile {
    /// The quantile at `level` (0 to 1, rounded to a multiple of 2^-20), on `n_points` points
    /// evenly spaced over `range` (data units), with loss range at most `epsilon` (nats).
    ///
    /// # Errors
    /// [`Error::Param`] if the rounded level is not inside (0, 1), the range is not finite and
    /// increasing, there are not 2 to 2^20 points, or `epsilon` is not in [1e-3, 40].
    pub fn new(
        level: f64,
        range: (f64, f64),
        n_points: usize,
        epsilon: f64,
        relation: Relation,
    ) -> Result<Self> {
        let level = whole_level(level)?;
        let (low, high) = range;
        params::finite("low", low)?;
        params::finite_positive("high - low", high - low)?;
        params::in_range("n_points", n_points, 2, MAX_POINTS, "from 2 to 2^20")?;
        let sensitivity = match relation {
            Relation::AddRemove => level.max(LEVEL_ONE.saturating_sub(level)),
            Relation::Replace => LEVEL_ONE,
        };
        #[cfg(privacy_mutants)]
        let sensitivity = dp_core::mutants::pick(
            "quantile-sensitivity-of-the-other-side",
            sensitivity,
            level.min(LEVEL_ONE.saturating_sub(level)),
        );
        let mechanism = ExponentialMechanism::new(
            epsilon,
            f64::from(sensitivity),
            ScoreChange::General,
            relation,
        )?;
        Ok(Self {
            level,
            low,
            high,
            n_points,
            mechanism,
        })
    }

    /// The level in use: a multiple of 2^-20.
    #[must_use]
    pub fn level(&self) -> f64 {
        f64::from(self.level) / f64::from(LEVEL_ONE)
    }

    /// The event to plan and charge; no noise draws need to be counted.
    #[must_use]
    pub fn event(&self) -> DpEvent {
        self.mechanism.event()
    }

    /// Releases the quantile of `value` over all users.
    ///
    /// `value` may use only the user's own row and what is public or already released.
    ///
    /// # Errors
    /// [`Error::WrongSpend`] if the spend is not for [`event`](Self::event) or more;
    /// [`Error::EntropyUnavailable`]. In each case nothing is released and the spend is lost.
    pub fn release(
        &self,
        data: &Private<Interactions>,
        value: impl Fn(UserRow<'_>) -> f64,
        spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<ReleasedQuantile> {
        self.mechanism.check_spend(&spend)?;
        #[cfg(privacy_mutants)]
        if let Some(high) = crate::mutants::range_end(data.expose(), &value, self.high) {
            return Self { high, ..*self }.release(data, value, spend, noise);
        }
        let counts = self.shard_sum(data.expose(), &value);
        let point = self.select(&counts, spend, noise)?;
        Ok(self.released(point, noise.is_insecure()))
    }

    /// Number of users of one shard at each point.
    pub(crate) fn shard_sum(
        &self,
        shard: &Interactions,
        value: &dyn Fn(UserRow<'_>) -> f64,
    ) -> Vec<i64> {
        let mut counts = vec![0_i64; self.n_points];
        for user in 0..shard.n_users() {
            if let Some(count) = counts.get_mut(self.point_of(value(shard.user(user)))) {
                let one = 1;
                #[cfg(privacy_mutants)]
                let one = crate::mutants::votes(one, shard.user(user));
                *count = count.wrapping_add_unsigned(one);
            }
        }
        counts
    }

    /// The point selected from the numbers of users per point.
    pub(crate) fn select(
        &self,
        counts: &[i64],
        spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<usize> {
        self.mechanism.check_spend(&spend)?;
        let mut bits = noise.release_stream()?.into_bits();
        Ok(self.mechanism.draw(&self.scores(counts), &mut bits))
    }

    /// The quantile at a grid point.
    pub(crate) fn released(&self, point: usize, insecure: bool) -> ReleasedQuantile {
        ReleasedQuantile {
            value: self.value_of(point),
            insecure,
        }
    }

    pub(crate) const fn n_points(&self) -> usize {
        self.n_points
    }

    /// The grid point nearest to a value; the lowest for NaN.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating, and NaN gives 0: what the docs say"
    )]
    fn point_of(&self, value: f64) -> usize {
        let last = self.n_points.saturating_sub(1);
        let share = (value - self.low) / (self.high - self.low);
        #[cfg(privacy_mutants)]
        let last = dp_core::mutants::pick("quantile-no-clip", last, usize::MAX);
        let point = (share * self.n_points.saturating_sub(1) as f64).round() as usize;
        point.min(last)
    }

    fn value_of(&self, point: usize) -> f64 {
        let share = point as f64 / self.n_points.saturating_sub(1) as f64;
        (self.low + share * (self.high - self.low)).min(self.high)
    }

    /// The scores `u_i` of all grid points in steps of the mechanism, from the numbers of users per
    /// point.
    fn scores(&self, counts: &[i64]) -> Vec<i64> {
        let n = counts.iter().fold(0, |n: i64, &c| n.wrapping_add(c));
        let aim = i128::from(n).saturating_mul(self.level.into());
        let mut below = 0_i128;
        let score = |&count: &i64| {
            let upto = below.saturating_add(i128::from(count) << LEVEL_ONE.trailing_zeros());
            let off = 0
                .max(below.saturating_sub(aim))
                .max(aim.saturating_sub(upto));
            below = upto;
            // exact up to 2^53, that is, 2^33 users; the mechanism clamps before that
            self.mechanism.in_steps(-(off as f64))
        };
        counts.iter().map(score).collect()
    }
}

/// A level as a whole multiple of 2^-20.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number from 0 to 2^20"
)]
fn whole_level(level: f64) -> Result<u32> {
    params::open_unit("level", level)?;
    let whole = (level * f64::from(LEVEL_ONE)).round() as u32;
    if whole == 0 || whole == LEVEL_ONE {
        return Err(Error::Param(ParamError {
            name: "level",
            value: level,
            expected: "a level from 2^-20 to 1 - 2^-20",
        }));
    }
    Ok(whole)
}

/// A released quantile. Public.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReleasedQuantile {
    value: f64,
    insecure: bool,
}

impl ReleasedQuantile {
    /// The selected grid point, in data units.
    #[must_use]
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// Whether the draw was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }
}

#[cfg(test)]
mod tests;
