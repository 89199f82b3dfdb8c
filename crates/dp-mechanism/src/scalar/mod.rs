//! A private sum of one number per user, and the number of users.

use dp_accounting::Spend;
use dp_core::{Interactions, Private, UserRow};

use crate::{
    Grid, NoiseSource, ReleasedVector, Result, SparseBuffer, VectorContribution, VectorSum,
};

/// One number per user as a vector contribution of length 1.
pub(crate) struct Scalar<F>(pub(crate) F);

impl<F: Fn(UserRow<'_>) -> f64 + Sync> VectorContribution for Scalar<F> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        out.push(0, (self.0)(user));
    }
}

/// A released noisy number. Public.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReleasedScalar {
    value: f64,
    noise_stddev: f64,
    insecure: bool,
}

impl ReleasedScalar {
    /// Converts a vector of length 1.
    pub(crate) fn of(released: &ReleasedVector) -> Self {
        Self {
            value: released.values().first().copied().unwrap_or(0.0),
            noise_stddev: released.noise_stddev(),
            insecure: released.is_insecure(),
        }
    }

    /// The noisy number, in data units.
    #[must_use]
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// Standard deviation of its noise, in data units.
    #[must_use]
    pub const fn noise_stddev(&self) -> f64 {
        self.noise_stddev
    }

    /// Whether the noise was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }

    #[cfg(privacy_mutants)]
    pub(crate) const fn with_value(self, value: f64) -> Self {
        Self { value, ..self }
    }
}

/// Releases the sum of one number per user: a [`VectorSum`] of length 1.
///
/// ```text
/// sum_u clamp(value(u), -clip, clip) + N(0, (z clip)^2)     NaN counts as 0
/// ```
///
/// up to the integer grid of [`Grid`]; `z` is the noise multiplier of `spend`.
///
/// # Privacy
/// Released to everybody: one number. Unit: the user; adding or removing one changes the sum by at
/// most `clip`, which the kernel checks in integers. Event: Gaussian with multiplier `z`, one draw.
/// `value` may use only the user's own row and what is public or already released.
///
/// # Errors
/// [`crate::Error::Param`] if `clip` is not finite and positive; [`crate::Error::WrongSpend`] or
/// [`crate::Error::DrawCount`] if the spend is not for one Gaussian release of one draw;
/// [`crate::Error::EntropyUnavailable`]. In each case nothing is released and the spend is lost.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger, Plan, ReleaseRequest};
/// use dp_core::{Adjacency, ApproxDp, InteractionsBuilder, Private, ReplaceFactor};
/// use dp_mechanism::{NoiseSource, release_scalar_sum, release_user_count};
///
/// let mut builder = InteractionsBuilder::new(3);
/// for user in 0..1000 {
///     builder.push(user, 0, 4.0)?;
/// }
/// let data = Private::new(builder.build().0);
/// let target = ApproxDp::target(1.0, 1e-5)?;
/// let requests = [
///     ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 1),
///     ReleaseRequest::new("users", 1.0, ReplaceFactor::Two, 1),
/// ];
/// let plan = Plan::calibrate(target, Adjacency::AddRemoveUser, &requests)?;
/// let mut ledger = Ledger::in_memory("example", Budget::new(target, Adjacency::AddRemoveUser)?)?;
/// let mut spends = ledger.reserve(&plan)?;
/// let noise = &mut NoiseSource::operating_system();
///
/// let first = |user: dp_core::UserRow<'_>| f64::from(user.values()[0]);
/// let sum = release_scalar_sum(&data, 5.0, first, spends.remove(0), noise)?;
/// let users = release_user_count(&data, spends.remove(0), noise)?;
/// assert!((sum.value() - 4000.0).abs() < 8.0 * sum.noise_stddev());
/// assert!((users.value() - 1000.0).abs() < 8.0 * users.noise_stddev());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(clippy::float_arithmetic, reason = "a sign, before the quantiser")]
pub fn release_scalar_sum(
    data: &Private<Interactions>,
    clip: f64,
    value: impl Fn(UserRow<'_>) -> f64 + Sync,
    spend: Spend,
    noise: &mut NoiseSource,
) -> Result<ReleasedScalar> {
    let grid = Grid::new(spend_multiplier(&spend)?, clip)?;
    // f64::clamp keeps NaN, which the grid maps to 0
    let clamped = |user: UserRow<'_>| value(user).clamp(-clip, clip);
    #[cfg(privacy_mutants)]
    let clamped =
        |user: UserRow<'_>| dp_core::mutants::pick("scalar-no-clamp", clamped(user), value(user));
    let contribution = Scalar(clamped);
    let released = VectorSum::accumulate(data, 1, grid, &contribution)?.release(spend, noise)?;
    Ok(ReleasedScalar::of(&released))
}

/// Releases the number of users: the sum of 1 over all users. Like [`release_scalar_sum`] with
/// clip 1. Under replacement the number of users is public, so this wastes budget.
///
/// # Errors
/// As [`release_scalar_sum`].
pub fn release_user_count(
    data: &Private<Interactions>,
    spend: Spend,
    noise: &mut NoiseSource,
) -> Result<ReleasedScalar> {
    #[cfg(privacy_mutants)]
    if let Some(value) = crate::mutants::user_value() {
        return release_scalar_sum(data, 1.0, value, spend, noise);
    }
    let released = release_scalar_sum(data, 1.0, |_| 1.0, spend, noise);
    #[cfg(privacy_mutants)]
    let released = released.map(|r| crate::mutants::counted(r, data.expose()));
    released
}

fn spend_multiplier(spend: &Spend) -> Result<f64> {
    spend
        .noise_multiplier()
        .map_err(|_| crate::Error::WrongSpend {
            label: spend.label().to_owned(),
            release: "one Gaussian release",
        })
}

#[cfg(test)]
mod tests {
    use dp_core::ReplaceFactor;

    use super::*;
    use crate::test_support::{Lcg, rebuilt, spends, table};
    use crate::vector_contribution;

    /// One release with noise multiplier 1/2 on 300 users: the noise is half of `clip`.
    fn release(clip: f64, value: impl Fn(UserRow<'_>) -> f64 + Sync) -> f64 {
        let table = table(300, 5, 4, 1);
        let data = rebuilt(&table, 0..table.n_users());
        let spend = spends(&[(0.5, ReplaceFactor::Two, 1)]).remove(0);
        let mut noise = NoiseSource::insecure_seeded(1);
        let sum = release_scalar_sum(&data, clip, value, spend, &mut noise).unwrap();
        assert!(sum.is_insecure() && (sum.noise_stddev() * 2.0 / clip - 1.0).abs() < 1e-5);
        sum.value()
    }

    #[test]
    fn users_beyond_the_clip_are_clamped_not_dropped() {
        // eight standard deviations of 1; wrongly dropping or keeping a user would be off by
        // hundreds
        let n = table(300, 5, 4, 1).n_users() as f64;
        assert!((release(2.0, |_| 1.5) - 1.5 * n).abs() < 8.0);
        assert!((release(2.0, |_| 2.0) - 2.0 * n).abs() < 8.0);
        assert!((release(2.0, |_| 1e300) - 2.0 * n).abs() < 8.0);
        assert!((release(2.0, |_| f64::NEG_INFINITY) + 2.0 * n).abs() < 8.0);
        assert!(release(2.0, |_| f64::NAN).abs() < 8.0);
    }

    #[test]
    fn a_hundred_thousand_hostile_numbers_stay_within_the_bound() {
        let table = table(100_000, 3, 2, 6);
        let grid = Grid::new(0.5, 2.0).unwrap();
        let bound = grid.l2_bound().cast_signed();
        let mut numbers = Lcg(7);
        let (mut n_at_the_bound, mut n_dropped) = (0, 0);
        for user in table.users() {
            let number = numbers.hostile() * 3.0;
            // as given, and clamped as the release does
            for value in [number, number.clamp(-2.0, 2.0)] {
                let sent =
                    vector_contribution(&grid, 1, &Scalar(move |_: UserRow<'_>| value), user);
                assert!(
                    sent.iter().all(|&(at, z)| at == 0 && z.abs() <= bound),
                    "{value}"
                );
                n_at_the_bound +=
                    u32::from(sent.iter().any(|&(_, z)| z.abs() > bound - bound / 100_000));
                n_dropped += u32::from(sent.is_empty());
            }
        }
        assert!(
            n_at_the_bound > 10_000 && n_dropped > 10_000,
            "{n_at_the_bound} {n_dropped}"
        );
    }

    #[test]
    fn a_bad_clip_or_spend_is_an_error_and_not_a_panic() {
        let table = table(3, 5, 4, 1);
        let data = rebuilt(&table, 0..table.n_users());
        let mut noise = NoiseSource::insecure_seeded(2);
        for clip in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let spend = spends(&[(1.0, ReplaceFactor::Two, 1)]).remove(0);
            assert!(release_scalar_sum(&data, clip, |_| 1.0, spend, &mut noise).is_err());
        }
        let psd = spends(&[(1.0, ReplaceFactor::SqrtTwo, 1)]).remove(0);
        let refused = release_user_count(&data, psd, &mut noise);
        assert!(matches!(refused, Err(crate::Error::WrongSpend { .. })));
        let none = spends(&[(1.0, ReplaceFactor::Two, 0)]).remove(0);
        let refused = release_user_count(&data, none, &mut noise);
        assert!(matches!(refused, Err(crate::Error::DrawCount { .. })));
    }
}
