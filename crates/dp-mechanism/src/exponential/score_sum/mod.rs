//! Scores that are sums over users, with each user's share bounded by the kernel.

use std::ops::RangeInclusive;

use dp_accounting::Spend;
use dp_core::{Interactions, ParamError, Private, Relation, UserRow, params};

use super::{ExponentialMechanism, ScoreChange, SelectedIndex, scores, weight::MAX_CANDIDATES};
use crate::contribution::{AnyContribution, Contributor};
use crate::{Error, NoiseSource, Result, SparseBuffer, VectorContribution};

/// Scores of public candidates as exact integer sums of bounded shares of users.
///
/// ```text
/// k_c = sum_u clamp(floor(v_uc / step), lowest, D)      lowest = 0 or -D
/// ```
///
/// `step` and `D` are those of the mechanism. Repeated entries of one user for one candidate are
/// added up before they are bounded; candidates out of range are ignored; NaN counts as `lowest`.
///
/// # Privacy
/// Unit: the user. Here the kernel enforces the sensitivity that [`ExponentialMechanism::select`]
/// has to take on trust:
///
/// | relation | change | shares | why a score changes by at most `D` |
/// |---|---|---|---|
/// | add/remove | monotone | 0 to D | one user's shares are added or removed, all of the same sign |
/// | add/remove | general | -D to D | one user's shares are added or removed |
/// | replace | general | 0 to D | the difference of two numbers from 0 to D |
/// | replace | monotone | rejected | a replacement changes scores in both directions |
///
/// The scores are private and have no getter; [`select`](Self::select) is the only way out.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger, Plan, PlannedRelease};
/// use dp_core::{Adjacency, InteractionsBuilder, Private, Relation, UserRow};
/// use dp_mechanism::{
///     ExponentialMechanism, NoiseSource, ScoreChange, ScoreSum, SparseBuffer, VectorContribution,
/// };
///
/// struct Holds; // each user gives one point to each item held
/// impl VectorContribution for Holds {
///     type Scratch = ();
///     fn scratch(&self) {}
///     fn contribute(&self, user: UserRow<'_>, _: &mut (), out: &mut SparseBuffer) {
///         user.items().iter().for_each(|&item| out.push(item, 1.0));
///     }
/// }
///
/// let mut builder = InteractionsBuilder::new(3);
/// for user in 0..400 {
///     builder.push(user, 1, 1.0)?;
///     builder.push(user, if user % 2 == 0 { 0 } else { 2 }, 1.0)?;
/// }
/// let data = Private::new(builder.build().0);
///
/// let (change, relation) = (ScoreChange::Monotone, Relation::AddRemove);
/// let mechanism = ExponentialMechanism::new(0.5, 1.0, change, relation)?;
/// let adjacency = Adjacency::AddRemoveUser;
/// let release = PlannedRelease::new("most held item", mechanism.event(), 0);
/// let plan = Plan::with_noise_multipliers(1e-6, adjacency, vec![release])?;
/// let mut ledger = Ledger::in_memory("example", Budget::schedule(plan.target(), adjacency)?)?;
/// let spend = ledger.reserve(&plan)?.remove(0);
///
/// let scores = ScoreSum::accumulate(&data, 3, mechanism, &Holds)?;
/// let item = scores.select(spend, &mut NoiseSource::operating_system())?;
/// assert_eq!(item.index(), 1); // anything else has probability e^-99
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "holds private scores; printing them is never wanted"
)]
pub struct ScoreSum {
    mechanism: ExponentialMechanism,
    steps: Vec<i64>,
}

impl ScoreSum {
    /// Adds up the shares of all users for `n_candidates` public candidates.
    ///
    /// # Errors
    /// [`Error::Param`] unless there are 1 to 2^24 candidates, and for a mechanism that is
    /// monotone under replacement.
    pub fn accumulate<C: VectorContribution>(
        data: &Private<Interactions>,
        n_candidates: usize,
        mechanism: ExponentialMechanism,
        contribution: &C,
    ) -> Result<Self> {
        let steps = Self::shard_sum(data.expose(), n_candidates, mechanism, contribution)?;
        Ok(Self { mechanism, steps })
    }

    /// The scores of the users of one shard.
    pub(crate) fn shard_sum(
        shard: &Interactions,
        n_candidates: usize,
        mechanism: ExponentialMechanism,
        contribution: &dyn AnyContribution<SparseBuffer>,
    ) -> Result<Vec<i64>> {
        let expected = "from 1 to 2^24 candidates";
        let most = usize::try_from(MAX_CANDIDATES).unwrap_or(usize::MAX);
        params::in_range("n_candidates", n_candidates, 1, most, expected)?;
        let allowed = mechanism.allowed_shares()?;
        let mut steps = vec![0_i64; n_candidates];
        let (mut contribute, mut buffer) = (contribution.contributor(), SparseBuffer::default());
        for user in 0..shard.n_users() {
            let row = shard.user(user);
            for (candidate, share) in mechanism.shares(&allowed, &mut contribute, row, &mut buffer)
            {
                if let Some(sum) = steps.get_mut(candidate) {
                    // a share is below 2^12, so wrapping would take 2^51 users
                    *sum = sum.wrapping_add(share);
                }
            }
        }
        Ok(steps)
    }

    /// The scores in a total.
    pub(crate) const fn of_total(mechanism: ExponentialMechanism, steps: Vec<i64>) -> Self {
        Self { mechanism, steps }
    }

    /// Selects a candidate by its score; larger is better, equal scores are equally likely.
    ///
    /// # Errors
    /// [`Error::WrongSpend`] if the spend is not for the mechanism's event or more;
    /// [`Error::EntropyUnavailable`]. In each case nothing is released and the spend is lost.
    pub fn select(self, spend: Spend, noise: &mut NoiseSource) -> Result<SelectedIndex> {
        self.mechanism.check_spend(&spend)?;
        let mut bits = noise.release_stream()?.into_bits();
        Ok(SelectedIndex {
            index: self.mechanism.draw(&self.steps, &mut bits),
            insecure: noise.is_insecure(),
        })
    }
}

impl ExponentialMechanism {
    /// What one user may add to a score, in steps.
    fn allowed_shares(&self) -> Result<RangeInclusive<i64>> {
        let bound = self.sensitivity.cast_signed();
        match (self.relation, self.change) {
            (Relation::AddRemove, ScoreChange::General) => Ok(bound.saturating_neg()..=bound),
            (Relation::AddRemove, ScoreChange::Monotone)
            | (Relation::Replace, ScoreChange::General) => Ok(0..=bound),
            (Relation::Replace, ScoreChange::Monotone) => Err(Error::Param(ParamError {
                name: "change",
                value: 1.0,
                expected: "a general change (0): replacing a user moves scores both ways",
            })),
        }
    }

    /// One user's bounded shares: candidate and steps, with each candidate only once.
    fn shares<'b>(
        &self,
        allowed: &'b RangeInclusive<i64>,
        contribute: &mut Contributor<'_, SparseBuffer>,
        user: UserRow<'_>,
        buffer: &'b mut SparseBuffer,
    ) -> impl Iterator<Item = (usize, i64)> + use<'b> {
        buffer.reset();
        contribute(user, buffer);
        buffer.spread();
        buffer.entries.sort_by_key(|&(candidate, _)| candidate);
        let log2_step = self.log2_step;
        buffer.entries.chunk_by(|a, b| a.0 == b.0).map(move |same| {
            let candidate = same.first().map_or(0, |&(candidate, _)| candidate);
            let value = same.iter().map(|&(_, value)| value).sum();
            let bounded = |value| {
                let share = scores::quantise(value, log2_step);
                share.clamp(*allowed.start(), *allowed.end())
            };
            let share = bounded(value);
            #[cfg(privacy_mutants)]
            let share = crate::mutants::share(
                share,
                scores::quantise(value, log2_step),
                same.iter().map(|&(_, value)| bounded(value)).sum(),
            );
            (candidate as usize, share)
        })
    }
}

#[cfg(test)]
mod tests;
