//! The exponential mechanism in exact integers.

mod rate;
mod score_sum;
mod scores;
mod weight;

use dp_accounting::Spend;
use dp_core::{DpEvent, ParamError, Relation, ShapeError, params};

pub use score_sum::ScoreSum;

use crate::payment::check_neighbours;
use crate::random_bits::RandomBits;
use crate::{Error, NoiseSource, Result};
use rate::{floor_log2, range, rate_for};
use weight::{MAX_CANDIDATES, weight};

/// Number of steps per sensitivity, so that rounding it up to whole steps costs little.
const LOG2_STEPS_PER_SENSITIVITY: i32 = 10;

/// How the scores of neighbouring data sets differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScoreChange {
    /// Each score may increase or decrease by up to the sensitivity.
    #[default]
    General,
    /// Either no score increases or no score decreases, by up to the sensitivity: counts under
    /// add/remove. This is hardly ever true under replacement.
    Monotone,
}

/// The exponential mechanism with base-2 weights on quantised scores, sampled exactly.
///
/// ```text
/// k_c = floor(score_c / step)                   step = 2^e, the sensitivity rounded down / 2^10
/// D   = ceil(sensitivity / step)                integer sensitivity
/// x_c = min(b (max_i k_i - k_c), 63 2^24)       b a whole number: the base is 2^(-b / 2^24)
/// P(c) = W(x_c) / sum_i W(x_i),                 W(x) = 2^(103 - x / 2^24) (1 + 2^-38 at most)
/// ```
///
/// Source: `McSherry` and Talwar 2007 with a base-2 weight and exact integer sampling after
/// Ilvento, *Implementing the exponential mechanism with base-2 differential privacy* (arXiv
/// 1912.04222). For the range of the loss: Dong, Durfee, Rogers, *Optimal differential privacy
/// composition for exponential mechanisms* (arXiv 1909.13830).
///
/// # Privacy
/// Released to everybody: the index of the selected candidate. Unit and neighbours: those for which
/// the caller states the sensitivity ([`Relation`]). The sensitivity is the caller's
/// responsibility: the largest change of any single score, where NaN counts as -2^40 steps. The
/// kernel guarantees that clipping, quantisation, the cap and the sampling do not exceed it. If
/// scores are sums over users, [`ScoreSum`] makes the kernel enforce it.
///
/// * Floors change by at most `D` if scores change by at most the sensitivity.
/// * The deficit below the largest score is capped. `max_i k_i` changes by at most `D`, so `max(b
///   k_c, b max_i k_i - cap)` changes by at most `b D`, in the same direction for all `c` if the
///   change is monotone. Subtracting the common maximum changes no probability.
/// * With `B = b D ln 2 / 2^24 + 2^-37` (the second term for the rounding of `W`) the loss `ln
///   P(c)/P'(c) = ln W(x_c)/W(x'_c) - const` lies in an interval of length `2 B`, or `B` if the
///   change is monotone: it is of **bounded range** [`epsilon`](Self::epsilon), hence also
///   (epsilon, 0)-DP. No delta is used: the sampling is exact.
///
/// Work and random bits depend only on the number of candidates, which is public, except with
/// probability 2^-128.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger, Plan, PlannedRelease};
/// use dp_core::{Adjacency, Relation};
/// use dp_mechanism::{ExponentialMechanism, NoiseSource, ScoreChange};
///
/// // which item is most popular; one user changes every count by at most 1, all upwards
/// let counts = [120.0, 80.0, 300.0];
/// let mechanism =
///     ExponentialMechanism::new(1.0, 1.0, ScoreChange::Monotone, Relation::AddRemove)?;
///
/// let release = PlannedRelease::new("best item", mechanism.event(), 0);
/// let adjacency = Adjacency::AddRemoveUser;
/// let plan = Plan::with_noise_multipliers(1e-6, adjacency, vec![release])?;
/// let mut ledger = Ledger::in_memory("example", Budget::schedule(plan.target(), adjacency)?)?;
/// let spend = ledger.reserve(&plan)?.remove(0);
///
/// let best = mechanism.select(&counts, spend, &mut NoiseSource::operating_system())?;
/// assert_eq!(best.index(), 2); // anything else has probability e^-180
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExponentialMechanism {
    log2_step: i32,
    /// D, in steps.
    sensitivity: u64,
    /// b: units of 2^-24 halvings per step.
    rate: u64,
    change: ScoreChange,
    relation: Relation,
}

impl ExponentialMechanism {
    /// A mechanism whose range is at most `epsilon` (nats) for scores of the given `sensitivity`
    /// (in score units) under `relation`.
    ///
    /// # Errors
    /// [`Error::Param`] when `epsilon` is not in [1e-3, 40] or `sensitivity` is not in
    /// [1e-250, 1e250].
    pub fn new(
        epsilon: f64,
        sensitivity: f64,
        change: ScoreChange,
        relation: Relation,
    ) -> Result<Self> {
        within("epsilon", epsilon, 1e-3, 40.0, "nats from 0.001 to 40")?;
        let expected = "a number from 1e-250 to 1e250";
        within("sensitivity", sensitivity, 1e-250, 1e250, expected)?;
        #[cfg(privacy_mutants)]
        let sensitivity =
            dp_core::mutants::pick("exponential-sensitivity-ignored", sensitivity, 1.0);
        let log2_step = floor_log2(sensitivity).saturating_sub(LOG2_STEPS_PER_SENSITIVITY);
        let refused = || {
            Error::Param(ParamError {
                name: "sensitivity",
                value: sensitivity,
                expected,
            })
        };
        let steps = scores::steps_up(sensitivity, log2_step).ok_or_else(refused)?;
        Ok(Self {
            log2_step,
            sensitivity: steps,
            rate: rate_for(epsilon, steps, change),
            change,
            relation,
        })
    }

    /// The range of the privacy loss in nats, rounded up; at most the requested one.
    #[must_use]
    pub fn epsilon(&self) -> f64 {
        range(self.rate, self.sensitivity, self.change)
    }

    /// The event to plan and charge; no noise draws need to be counted.
    #[must_use]
    pub fn event(&self) -> DpEvent {
        DpEvent::BoundedRange {
            epsilon: self.epsilon(),
            relation: self.relation,
        }
    }

    /// Selects a candidate by its score; larger is better.
    ///
    /// A NaN score counts as -2^40 steps, scores beyond 2^40 steps on either side are clamped, and
    /// the stated sensitivity is that of the scores **after** this rule: a score that is 5 on one
    /// data set and NaN on its neighbour changes by 5 and 2^40 steps, however little the other
    /// numbers change. So either no score is ever NaN, or the same ones are for all data sets.
    /// Equal scores are equally likely.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are 1 to 2^24 scores; [`Error::WrongSpend`] if the spend is
    /// not for a bounded range of at least [`epsilon`](Self::epsilon) under this relation, or is
    /// for adding and removing single records; [`Error::EntropyUnavailable`]. In each case nothing
    /// is released and the spend is lost.
    pub fn select(
        &self,
        scores: &[f64],
        spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<SelectedIndex> {
        if scores.is_empty() || scores.len() as u64 > MAX_CANDIDATES {
            return Err(Error::Shape(ShapeError {
                name: "scores",
                found: scores.len(),
                expected: scores.len().clamp(1, 1 << 24),
            }));
        }
        self.check_spend(&spend)?;
        let mut bits = noise.release_stream()?.into_bits();
        let steps: Vec<i64> = scores
            .iter()
            .map(|&score| scores::quantise(score, self.log2_step))
            .collect();
        Ok(SelectedIndex {
            index: self.draw(&steps, &mut bits),
            insecure: noise.is_insecure(),
        })
    }

    /// Rejects a spend that does not cover one selection.
    pub(crate) fn check_spend(&self, spend: &Spend) -> Result<()> {
        check_neighbours(spend)?;
        if let &DpEvent::BoundedRange {
            epsilon: paid,
            relation,
        } = spend.event()
            && relation == self.relation
            && paid >= self.epsilon()
        {
            return Ok(());
        }
        Err(Error::WrongSpend {
            label: spend.label().to_owned(),
            release: "one selection by this exponential mechanism",
        })
    }

    /// Draws a candidate by scores in steps, for 1 to 2^24 candidates.
    pub(crate) fn draw(&self, steps: &[i64], bits: &mut RandomBits) -> usize {
        let best = steps.iter().copied().max().unwrap_or(0);
        let weight_of = |k: i64| weight(best.abs_diff(k).saturating_mul(self.rate));
        #[cfg(privacy_mutants)]
        let weight_of = |k: i64| crate::mutants::weight(weight_of(k));
        let total = steps
            .iter()
            .fold(0_u128, |sum, &k| sum.saturating_add(weight_of(k)));
        locate(bits.below(total), steps, weight_of)
    }

    /// Whole-numbered scores, such as ranks, in steps.
    pub(crate) fn in_steps(&self, score: f64) -> i64 {
        scores::quantise(score, self.log2_step)
    }
}

/// The candidate that contains the position `target` among all cumulative weights: the number of
/// candidates whose weights end at or below it. Visits all of them, whatever the answer.
fn locate(target: u128, steps: &[i64], weight_of: impl Fn(i64) -> u128) -> usize {
    let (mut end, mut index) = (0_u128, 0);
    for &k in steps {
        end = end.saturating_add(weight_of(k));
        index = usize::from(end <= target).saturating_add(index);
    }
    #[cfg(privacy_mutants)]
    let index = crate::mutants::selected(index, steps.len());
    index
}

/// The selected index. Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectedIndex {
    index: usize,
    insecure: bool,
}

impl SelectedIndex {
    pub(crate) const fn of(index: usize, insecure: bool) -> Self {
        Self { index, insecure }
    }

    /// The selected candidate.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Whether the draw was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }
}

fn within(
    name: &'static str,
    value: f64,
    low: f64,
    high: f64,
    expected: &'static str,
) -> Result<()> {
    params::finite_positive(name, value)?;
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::Param(ParamError {
        name,
        value,
        expected,
    }))
}

#[cfg(test)]
mod tests;
