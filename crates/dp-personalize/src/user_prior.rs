//! The prior of users' own fits, learned from all users by two small releases.

use dp_accounting::ReleaseRequest;
use dp_core::{ParamError, ReplaceFactor, SampleRows, UserRow, UserSamples};
use dp_mechanism::{Run, SparseBuffer, VectorContribution};
use serde::{Deserialize, Serialize};

use crate::weighed::{N_NEAR, N_PLAIN, N_STRENGTHS, SIGNALS, n_kinds};
use crate::{Result, SharedParts, Subspace, WeighedFit};

/// Candidate shares of the variance between users' levels in the variance of labels,
/// `c = tau^2 / (tau^2 + sigma^2)` (the intraclass correlation).
const CORRELATIONS: [f64; 6] = [0.05, 0.2, 0.5, 0.8, 0.95, 0.9999];
/// Standard deviations of its noise that the number of users must exceed for their mean to be used.
const CLEAR: f64 = 3.0;
/// Variance of a feature that is spread evenly from -1 to 1: the largest that is assumed, and the one where the number of users is lost in noise.
const EVEN_VARIANCE: f64 = 1.0 / 3.0;
/// Keeps rounding from pushing a contribution over its bound.
pub(crate) const INSIDE: f64 = 1.0 - 1e-9;

/// Length of the users' votes with a subspace of this shape.
pub(crate) fn n_votes(dim: usize, rank: usize) -> usize {
    n_kinds(rank) + N_STRENGTHS + CORRELATIONS.len() + 1 + dim
}

/// Where the labels of users lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserLevels {
    /// The mean of users' levels.
    pub mean: f64,
    /// The mean of users' standard deviations of labels, if it is known: too small as a typical one
    /// if many users have a single row, which counts as 0.
    pub deviation: Option<f64>,
}

/// The sum of `(1, a, s)` over users, with `a` the mean of a user's own labels and `s` their standard deviation,
/// scaled to `a^2 + s^2 <= 1` where it is larger. Of many labels between -1 and 1 it never is: `a^2 + s^2` is about the mean of their squares.
///
/// # Privacy
/// `||(1, a, s)|| <= sqrt 2`, whatever the rows are: the L2 sensitivity under adding or removing one
/// user with all rows; twice that under replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelSums {
    /// Length of the features.
    pub n_features: usize,
}

impl LevelSums {
    /// Label of the release.
    pub const LABEL: &'static str = "users' levels";
    const N_COORDINATES: usize = 3;

    /// The release as a share of the budget.
    #[must_use]
    pub fn request(share: f64) -> ReleaseRequest {
        let n_draws = Self::N_COORDINATES as u64;
        ReleaseRequest::new(Self::LABEL, share, ReplaceFactor::Two, n_draws)
    }

    /// The bound on a user's norm.
    #[must_use]
    pub fn clip_norm() -> f64 {
        2.0_f64.sqrt()
    }

    /// Where levels lie, from samples that [have](UserSamples::has_levels) them; none if the number of users does not stand
    /// out from the noise, and without a deviation if that does not.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for samples without levels; when the run is over, or does not pay for it.
    pub fn release(samples: &UserSamples, run: &mut Run<'_>) -> Result<Option<UserLevels>> {
        has_levels(samples)?;
        let sums = Self {
            n_features: samples.n_features(),
        };
        let shape = (Self::N_COORDINATES, Self::clip_norm());
        let released = run.vector(samples.table(), shape, &sums)?;
        Ok(levels_from(&released.values(), released.noise_stddev()))
    }

    /// The same of exact sums: not private.
    #[must_use]
    pub fn non_private(samples: &UserSamples) -> Option<UserLevels> {
        let sums = Self {
            n_features: samples.n_features(),
        };
        let mut total = [0.0; Self::N_COORDINATES];
        for own in samples.users().filter_map(|rows| sums.of_user(rows)) {
            total.iter_mut().zip(own).for_each(|(sum, x)| *sum += x);
        }
        levels_from(&total, 0.0)
    }

    fn of_user(self, rows: SampleRows<'_>) -> Option<[f64; 3]> {
        let [mean, deviation] = rows.level()?.map(f64::from);
        let length = mean.hypot(deviation).max(1.0);
        Some([1.0, mean / length, deviation / length])
    }
}

/// Checks that a table has users' levels, and not rows where these would be.
fn has_levels(samples: &UserSamples) -> Result<(), ParamError> {
    match samples.has_levels() {
        true => Ok(()),
        false => Err(ParamError {
            name: "levels",
            value: 0.0,
            expected: "samples with users' levels (UserSamplesBuilder::with_levels)",
        }),
    }
}

/// Levels from their sums.
fn levels_from(sums: &[f64], noise: f64) -> Option<UserLevels> {
    let &[n, means, deviations] = sums else {
        return None;
    };
    (n > CLEAR * noise).then(|| UserLevels {
        mean: (means / n).clamp(-1.0, 1.0),
        deviation: (deviations > CLEAR * noise).then(|| (deviations / n).min(1.0)),
    })
}

impl VectorContribution for LevelSums {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let own = self.of_user(SampleRows::of(user, self.n_features));
        for (at, x) in (0..).zip(own.into_iter().flatten()) {
            out.push(at, INSIDE * x);
        }
    }
}

/// The sum of users' votes on the prior of their own fits: how likely a user's own rows make each kind of own part, each strength, and each
/// share of levels in the variance, from the same candidates as in [`WeighedFit`] with equal weights.
///
/// ```text
/// c_u = (p_u(kind), p_u(strength), p_u(correlation), z_u, s_u / sqrt d)
///
/// p_u   numbers that are not negative, each of the three with a sum of at most 1
/// z_u   ||X U||^2 / ||X||^2 of the user's centred rows, at most 1
/// s_u   root mean square of each of the d features in these rows, at most 1; 0 unless features are between -1 and 1
/// ```
///
/// A user without usable rows adds nothing.
///
/// # Privacy
/// Each of the three has an L2 norm of at most its sum, so `||c_u|| <= sqrt 5`, whatever the rows are: `sqrt 3`, and 1 more in the square for levels and for bounded features:
/// the L2 sensitivity under adding or removing one user with all rows; twice that under replacement. A vote depends on the user's own rows and on
/// earlier releases.
#[allow(
    missing_debug_implementations,
    reason = "released values; print those instead"
)]
pub struct PriorVotes<'a> {
    /// How users fit.
    pub fit: WeighedFit,
    /// The released subspace.
    pub subspace: &'a Subspace,
    /// The released levels of users, if rows were centred and these are known.
    pub levels: Option<UserLevels>,
    /// Whether features are between -1 and 1, by public ranges.
    pub is_bounded: bool,
}

impl PriorVotes<'_> {
    /// Label of the release.
    pub const LABEL: &'static str = "users' votes on the prior";

    /// The release as a share of the budget, with a subspace of this shape.
    #[must_use]
    pub fn request((dim, rank): (usize, usize), share: f64) -> ReleaseRequest {
        let n_draws = n_votes(dim, rank) as u64;
        ReleaseRequest::new(Self::LABEL, share, ReplaceFactor::Two, n_draws)
    }

    /// The bound on a user's norm: `sqrt 3`, and 1 more in the square for each of levels, without which nobody votes on a correlation, and bounded features.
    #[must_use]
    pub fn clip_norm(&self) -> f64 {
        let parts = [self.levels.is_some(), self.is_bounded];
        (3.0 + parts.map(|of| f64::from(u8::from(of))).iter().sum::<f64>()).sqrt()
    }

    fn n_votes(&self) -> usize {
        n_votes(self.subspace.dim(), self.subspace.rank())
    }

    fn of_user(&self, rows: SampleRows<'_>) -> Option<Vec<f64>> {
        let prior = UserPrior::even(self.subspace.rank(), self.levels)
            .relative_to(rows.level().map_or(0.0, |[mean, _]| mean.into()));
        let shared = SharedParts {
            subspace: Some(self.subspace),
            prior: Some(&prior),
            ..SharedParts::default()
        };
        let mut votes = self.fit.votes(&shared, rows)?;
        if !self.is_bounded {
            let n_others = votes.len() - self.subspace.dim();
            votes[n_others..].fill(0.0);
        }
        Some(votes)
    }

    /// The prior that all users voted for.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for levels of samples that have none; when the run is over, or does not pay for it.
    pub fn release(&self, samples: &UserSamples, run: &mut Run<'_>) -> Result<UserPrior> {
        if self.levels.is_some() {
            has_levels(samples)?;
        }
        let released = run.vector(samples.table(), (self.n_votes(), self.clip_norm()), self)?;
        Ok(UserPrior::voted(
            self,
            &released.values(),
            released.noise_stddev(),
        ))
    }

    /// The same of exact sums: not private.
    #[must_use]
    pub fn non_private(&self, samples: &UserSamples) -> UserPrior {
        let mut sums = vec![0.0; self.n_votes()];
        for votes in samples.users().filter_map(|rows| self.of_user(rows)) {
            sums.iter_mut()
                .zip(votes)
                .for_each(|(sum, vote)| *sum += vote);
        }
        // so little noise that it decides only where there are no votes
        UserPrior::voted(self, &sums, 1e-12)
    }
}

impl VectorContribution for PriorVotes<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let rows = SampleRows::of(user, self.subspace.dim());
        for (at, vote) in (0..).zip(self.of_user(rows).into_iter().flatten()) {
            out.push(at, INSIDE * vote);
        }
    }
}

/// The prior of users' own fits: released, and the same for everybody.
///
/// A user's [`WeighedFit`] weights its candidates by it, and takes the level of a user as
///
/// ```text
/// level ~ N(mean, tau^2),   tau^2 = sigma^2 c / (1 - c),   c = .05, .2, .5, .8, .95, .9999
/// ```
///
/// with `sigma^2` the variance of the labels of one user, which itself has an inverse chi-squared prior of two
/// degrees of freedom around the typical deviation, if that is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct UserPrior {
    levels: Option<UserLevels>,
    kinds: Vec<f64>,
    strengths: Vec<f64>,
    correlations: Vec<f64>,
    share: Option<f64>,
    spreads: Option<Vec<f64>>,
}

/// As stored in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    levels: Option<UserLevels>,
    kinds: Vec<f64>,
    strengths: Vec<f64>,
    correlations: Vec<f64>,
    share: Option<f64>,
    /// Of an earlier version: the sum of all.
    #[serde(default)]
    length: Option<f64>,
    #[serde(default)]
    spreads: Option<Vec<f64>>,
}

impl TryFrom<Unchecked> for UserPrior {
    type Error = ParamError;

    fn try_from(read: Unchecked) -> Result<Self, ParamError> {
        let wrong = |name, value| {
            Err(ParamError {
                name,
                value,
                expected: "a finite number in its range",
            })
        };
        let n_near = read.kinds.len().saturating_sub(N_PLAIN).max(N_NEAR);
        check_weights(
            "kinds",
            &read.kinds,
            N_PLAIN + n_near.next_multiple_of(N_NEAR),
        )?;
        check_weights("strengths", &read.strengths, N_STRENGTHS)?;
        check_weights("correlations", &read.correlations, CORRELATIONS.len())?;
        if let Some(share) = read.share.filter(|share| !(0.0..=1.0).contains(share)) {
            return wrong("share", share);
        }
        let spreads = read.spreads.or(read.length.map(|sum| vec![sum]));
        let is_spread = |spread: &f64| spread.is_finite() && *spread > 0.0;
        if let Some(spread) = spreads.iter().flatten().find(|of| !is_spread(of)) {
            return wrong("spreads", *spread);
        }
        if let Some(levels) = read.levels {
            let deviation = levels.deviation.unwrap_or(1.0);
            let is_known =
                (-1.0..=1.0).contains(&levels.mean) && deviation > 0.0 && deviation <= 1.0;
            if !is_known {
                return wrong("levels", levels.mean);
            }
        }
        Ok(Self {
            levels: read.levels,
            kinds: read.kinds,
            strengths: read.strengths,
            correlations: read.correlations,
            share: read.share,
            spreads,
        })
    }
}

/// Checks that there are `n` positive weights with a sum of 1.
pub(crate) fn check_weights(
    name: &'static str,
    weights: &[f64],
    n: usize,
) -> Result<(), ParamError> {
    let sum: f64 = weights.iter().sum();
    let positive = weights.iter().all(|w| *w > 0.0);
    if weights.len() == n && positive && (sum - 1.0).abs() <= 1e-6 {
        return Ok(());
    }
    Err(ParamError {
        name,
        value: sum,
        expected: "positive weights with a sum of 1, as many as there are candidates",
    })
}

/// Weights in proportion to these.
pub(crate) fn weights(of: &[f64]) -> Vec<f64> {
    let sum: f64 = of.iter().sum();
    of.iter().map(|w| w / sum).collect()
}

/// Shares of variance that own parts explain, `s / (1 + s)`, with the weights of their strengths.
pub(crate) fn explained(strengths: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let shares = SIGNALS.into_iter().map(|s| s / (1.0 + s));
    shares.zip(strengths.iter().copied())
}

/// Weights in proportion to what votes exceed their noise by, and twice as much as the noise without votes.
pub(crate) fn raised(votes: &[f64], noise: f64, even: &[f64]) -> Vec<f64> {
    let raised = votes.iter().zip(even);
    let raised = raised.map(|(vote, even)| (vote - noise).max(0.0) + 2.0 * noise * even);
    weights(&raised.collect::<Vec<_>>())
}

impl UserPrior {
    /// The weights of a user who knows nothing of others, with a subspace of this rank: half for own parts that use nothing shared.
    #[must_use]
    pub fn even(rank: usize, levels: Option<UserLevels>) -> Self {
        // none, alike in coefficients, alike in features; within the parts of the subspace, and near them
        let n = N_STRENGTHS as f64;
        let mut kinds = vec![1.0, n, n];
        let n_near = n_kinds(rank) - N_PLAIN;
        kinds.resize(n_kinds(rank), 2.0_f64.mul_add(n, 1.0) / n_near as f64);
        Self {
            levels,
            kinds: weights(&kinds),
            strengths: weights(&SIGNALS.map(|s| s.sqrt() / (1.0 + s))),
            correlations: weights(&[1.0; CORRELATIONS.len()]),
            share: None,
            spreads: None,
        }
    }

    /// In proportion to votes as far as these exceed their noise.
    fn voted(by: &PriorVotes<'_>, votes: &[f64], noise: f64) -> Self {
        let (kinds, rest) = votes.split_at(n_kinds(by.subspace.rank()));
        let (strengths, rest) = rest.split_at(N_STRENGTHS);
        let (correlations, means) = rest.split_at(CORRELATIONS.len());
        let (share, spreads) = means.split_at(1);
        let n: f64 = kinds.iter().sum();
        // the sum of so many noisy numbers
        let has_users = n > CLEAR * noise * (kinds.len() as f64).sqrt();
        let is_clear = |sum: f64| has_users && sum > CLEAR * noise;
        let dim = by.subspace.dim() as f64;
        // at least what the noise would hide
        let spread = |sum: &f64| match has_users {
            true => (sum.max(noise) * dim.sqrt() / n).powi(2).min(EVEN_VARIANCE),
            false => EVEN_VARIANCE,
        };
        let even = Self::even(by.subspace.rank(), by.levels);
        Self {
            levels: by.levels,
            kinds: raised(kinds, noise, &even.kinds),
            strengths: raised(strengths, noise, &even.strengths),
            correlations: raised(correlations, noise, &even.correlations),
            share: is_clear(share[0]).then(|| (share[0] / n).min(1.0)),
            spreads: by.is_bounded.then(|| spreads.iter().map(spread).collect()),
        }
    }

    /// Where users' levels lie; none if that may be anywhere.
    #[must_use]
    pub const fn levels(&self) -> Option<UserLevels> {
        self.levels
    }

    /// Weights of the kinds of own part, in the order of [`WeighedFit`]: three that use nothing shared, then four for each
    /// [part](Subspace::parts) of the subspace, or for the subspace alone.
    #[must_use]
    pub fn kinds(&self) -> &[f64] {
        &self.kinds
    }

    /// For how many parts of a subspace it has kinds.
    pub(crate) fn n_parts(&self) -> usize {
        (self.kinds.len() - N_PLAIN) / N_NEAR
    }

    /// Whether it is of a subspace of this shape, or of an earlier version, which had kinds for the whole subspace and one number for all
    /// spreads.
    #[must_use]
    pub fn is_of(&self, subspace: &Subspace) -> bool {
        let n_spreads = |n: usize| self.spreads.as_ref().is_none_or(|of| of.len() == n);
        let is_of = |rank: usize, n: usize| self.kinds.len() == n_kinds(rank) && n_spreads(n);
        is_of(subspace.rank(), subspace.dim()) || is_of(1, 1)
    }

    /// Weights of the strengths of own parts.
    #[must_use]
    pub fn strengths(&self) -> &[f64] {
        &self.strengths
    }

    /// Weights of the shares of levels in the variance of labels.
    #[must_use]
    pub fn correlations(&self) -> &[f64] {
        &self.correlations
    }

    /// The usual share of the subspace in the squared length of a user's centred rows, if it is known.
    #[must_use]
    pub const fn share(&self) -> Option<f64> {
        self.share
    }

    /// Shares of the variance of a user's labels that features may explain, `s / (1 + s)`, with their weights.
    pub fn explained(&self) -> impl Iterator<Item = (f64, f64)> {
        explained(&self.strengths)
    }

    /// Shares of the variance of labels that may lie between users, `c`, with their weights.
    pub fn between(&self) -> impl Iterator<Item = (f64, f64)> {
        CORRELATIONS
            .into_iter()
            .zip(self.correlations.iter().copied())
    }

    /// The usual variance of each feature among the rows of one user, the square of users' mean standard deviation, if it is known; of a
    /// prior that an earlier version made, the sum of all.
    #[must_use]
    pub fn spreads(&self) -> Option<&[f64]> {
        self.spreads.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn with_spreads(mut self, spreads: &[f64]) -> Self {
        self.spreads = Some(spreads.to_vec());
        self
    }

    /// The same prior for labels relative to this one.
    #[must_use]
    pub fn relative_to(&self, label: f64) -> Self {
        Self {
            levels: self.levels.map(|levels| UserLevels {
                mean: levels.mean - label,
                ..levels
            }),
            ..self.clone()
        }
    }

    /// Candidate variances of levels, in units of the variance of one user's labels.
    pub(crate) fn ratios() -> impl Iterator<Item = f64> {
        CORRELATIONS.into_iter().map(|c| c / (1.0 - c))
    }

    /// The level of a user of whose labels only the mean and their number are known: the mean of users for one without rows.
    #[must_use]
    pub fn shrunk(&self, mean: f64, n_rows: usize) -> f64 {
        let Some(levels) = self.levels else {
            return mean;
        };
        let n = n_rows as f64;
        let shares = Self::ratios().map(|ratio| n * ratio / n.mul_add(ratio, 1.0));
        let share: f64 = shares
            .zip(&self.correlations)
            .map(|(share, w)| share * w)
            .sum();
        levels.mean + share * (mean - levels.mean)
    }
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;

    use super::*;
    use crate::{ConvexLoss, OwnLevel, Provenance};

    /// Labels beyond their range count as far as the bound allows, and users without rows not at all.
    #[test]
    fn levels_are_scaled_to_their_bound() {
        let levels_of = |levels: &[Option<(f32, f32)>]| {
            let mut builder = UserSamplesBuilder::new(1, 1).unwrap().with_levels();
            for (user, level) in (0..).zip(levels) {
                builder.push(user, &[f32::NAN], 0.0).unwrap();
                if let Some((mean, deviation)) = level {
                    builder.set_level(user, *mean, *deviation);
                }
            }
            LevelSums::non_private(&builder.build().0)
        };
        let near = |found: Option<UserLevels>, mean: f64, deviation: f64| {
            let found = found.unwrap();
            let off = (found.deviation.unwrap() - deviation).abs();
            assert!((found.mean - mean).abs() < 1e-7 && off < 1e-7, "{found:?}");
        };
        near(levels_of(&[Some((3.0, 4.0)), None]), 0.6, 0.8);
        // (1, .6, .8): the bound is reached, and a smaller one would be wrong
        let length = 1.0_f64.hypot(0.6_f64.hypot(0.8));
        assert!((length - LevelSums::clip_norm()).abs() < 1e-12);
        near(
            levels_of(&[Some((0.25, 0.5)), Some((-0.75, 0.25))]),
            -0.25,
            0.375,
        );
        assert!(levels_of(&[None]).is_none());
        // too few users for the noise; a deviation that is lost in it
        assert!(levels_from(&[2.9, 1.0, 1.0], 1.0).is_none());
        let found = levels_from(&[50.0, -20.0, 2.0], 1.0).unwrap();
        assert!((found.mean + 0.4).abs() < 1e-12 && found.deviation.is_none());
    }

    /// As an earlier version wrote it: kinds of the whole subspace, and the sum of all variances.
    #[test]
    fn earlier_priors_are_read_and_wrong_ones_refused() {
        let mut written = serde_json::to_value(UserPrior::even(1, None)).unwrap();
        let fields = written.as_object_mut().unwrap();
        fields.remove("spreads");
        fields.insert("length".to_owned(), 0.6.into());
        let read: UserPrior = serde_json::from_value(written.clone()).unwrap();
        assert_eq!((read.spreads(), read.n_parts()), (Some(&[0.6][..]), 1));
        for (field, wrong) in [
            ("length", serde_json::json!(-1.0)),
            ("kinds", serde_json::json!([0.2, 0.2, 0.2, 0.2, 0.2])),
            ("spreads", serde_json::json!([0.1, 0.0])),
        ] {
            let mut spoilt = written.clone();
            spoilt[field] = wrong;
            assert!(
                serde_json::from_value::<UserPrior>(spoilt).is_err(),
                "{field}"
            );
        }
    }

    /// 300 users for one kind, strength and correlation, then all noise.
    #[test]
    fn clear_votes_decide_and_lost_ones_leave_the_even_prior() {
        let plane = Subspace::spanned_by(2, 1, &[1.0, 0.0], Provenance::NonPrivate).unwrap();
        let by = PriorVotes {
            fit: WeighedFit::new(ConvexLoss::Squared, OwnLevel::Free).unwrap(),
            subspace: &plane,
            levels: None,
            is_bounded: true,
        };
        // undivided votes of a user whose rows fill the subspace and the ranges reach the bound
        let with_levels = PriorVotes {
            levels: Some(UserLevels {
                mean: 0.0,
                deviation: None,
            }),
            ..by
        };
        for (of, n_parts) in [(&with_levels, 5.0_f64), (&by, 4.0)] {
            assert!((of.clip_norm() - n_parts.sqrt()).abs() < 1e-12);
        }
        let mut votes = vec![0.0; n_votes(2, 1)];
        for at in [3, n_kinds(1) + 2, n_kinds(1) + N_STRENGTHS + 1] {
            votes[at] = 300.0;
        }
        votes[n_votes(2, 1) - 3..].copy_from_slice(&[150.0, 30.0, 1.0]);
        let clear = UserPrior::voted(&by, &votes, 3.0);
        // 297 of 297 + 2 * 3, and what the even prior has there
        let even = UserPrior::even(1, None);
        for (found, even) in [
            (clear.kinds()[3], even.kinds()[3]),
            (clear.strengths()[2], even.strengths()[2]),
            (clear.correlations()[1], even.correlations()[1]),
        ] {
            assert!((found - (297.0 + 6.0 * even) / 303.0).abs() < 1e-12);
        }
        assert!((clear.share().unwrap() - 0.5).abs() < 1e-12);
        // a spread of .14 and one that is lost in noise of 3
        let spreads = clear.spreads().unwrap();
        assert!((spreads[0] - 0.02).abs() < 1e-12 && (spreads[1] - 2e-4).abs() < 1e-12);

        let lost = UserPrior::voted(&by, &votes, 300.0);
        let pairs = lost.kinds().iter().zip(even.kinds());
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-12));
        assert_eq!(lost.share(), None);
        assert_eq!(lost.spreads(), Some(&[EVEN_VARIANCE; 2][..]));
    }
}
