#[cfg(feature = "serde")]
mod read;

use crate::ParamError;

/// By what factor an L2 sensitivity grows if neighbours differ by replacing a unit instead of
/// adding or removing one.
///
/// With per-unit contributions `c`, `c'` of norm at most `S`, a replacement changes the sum by `c -
/// c'`. In general the norm of this is at most `2 S`. If every contribution is positive
/// semidefinite then `<c, c'> >= 0` and `||c - c'||^2 <= ||c||^2 + ||c'||^2 <= 2 S^2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum ReplaceFactor {
    /// The general factor 2.
    #[default]
    Two,
    /// The factor sqrt 2, for sums in which every contribution is positive semidefinite.
    SqrtTwo,
}

impl ReplaceFactor {
    /// The square of the factor: 4 or 2, exactly.
    #[must_use]
    pub const fn squared(self) -> f64 {
        match self {
            Self::Two => 4.0,
            Self::SqrtTwo => 2.0,
        }
    }
}

/// A mechanism that ran, described completely enough to account for it. The event does not contain
/// its privacy cost.
///
/// The meaning of a variant never changes; new mechanisms become new variants. The type is
/// deliberately exhaustive: a new variant must not compile until every accountant handles it. The
/// accountants check the parameters and reject values out of range, as well as events nested deeper
/// than [`DpEvent::MAX_DEPTH`].
///
/// Sensitivities are those of adding or removing one unit. Under replacement a unit's contribution
/// can change by twice as much, and every accountant applies that factor itself. Mechanisms that
/// are known only by a guarantee (`ApproxDp`, `Zcdp`, `Rdp`, `BoundedRange`) name the [`Relation`]
/// that the guarantee holds for.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(
        rename_all = "kebab-case",
        tag = "mechanism",
        try_from = "read::Members"
    )
)]
pub enum DpEvent {
    /// Gaussian mechanism on a sum over units.
    Gaussian {
        /// Noise standard deviation divided by the L2 sensitivity under add/remove of one unit.
        noise_multiplier: f64,
        /// Factor by which the sensitivity grows under replacement.
        replace_factor: ReplaceFactor,
    },
    /// Laplace mechanism on a sum over units, with density exp(-|x|/b) / (2b) in each coordinate.
    Laplace {
        /// Noise scale b divided by the L1 sensitivity under add/remove of one unit.
        noise_multiplier: f64,
    },
    /// Discrete Gaussian noise, P(x) proportional to exp(-x^2/(2 sigma^2)) on the integers, on
    /// one integer query.
    DiscreteGaussian {
        /// The parameter sigma, in units of the query.
        sigma: f64,
        /// Largest change of the query under add/remove of one unit.
        sensitivity: u32,
    },
    /// Discrete Laplace (two-sided geometric) noise, P(x) = tanh(rate/2) exp(-rate |x|) on the
    /// integers, on one integer query.
    DiscreteLaplace {
        /// Decay per unit of the query.
        rate: f64,
        /// Largest change of the query under add/remove of one unit.
        sensitivity: u32,
    },
    /// Every unit reports its own value, one of `buckets` possible values: with probability
    /// `noise_probability` it reports a uniformly random one, otherwise the true one. This is a
    /// local mechanism, so it is defined for replacement only.
    RandomizedResponse {
        /// Probability of answering at random, in (0, 1].
        noise_probability: f64,
        /// Number of possible values, at least 2.
        buckets: u32,
    },
    /// A mechanism with bounded range epsilon, such as the exponential mechanism: over all
    /// outcomes, the privacy loss varies by at most epsilon.
    BoundedRange {
        /// The range in nats. Selection with weights exp(c u) and score sensitivity s has range 2 c
        /// s in general, and c s if scores change in one direction only.
        epsilon: f64,
        /// The kind of neighbours that the range holds for.
        relation: Relation,
    },
    /// Any mechanism known to be (epsilon, delta)-DP.
    ApproxDp {
        /// In nats.
        epsilon: f64,
        /// Probability, in [0, 1).
        delta: f64,
        /// The kind of neighbours that the guarantee holds for.
        relation: Relation,
    },
    /// Any mechanism known to satisfy rho-zCDP.
    Zcdp {
        /// Renyi divergence of every order a above 1 is at most rho a.
        rho: f64,
        /// The kind of neighbours that the guarantee holds for.
        relation: Relation,
    },
    /// Any mechanism whose Renyi divergence is known at a single order.
    Rdp {
        /// The order, above 1.
        order: f64,
        /// Renyi divergence of that order, in nats.
        epsilon: f64,
        /// The kind of neighbours that the guarantee holds for.
        relation: Relation,
    },
    /// A mechanism run on a random subset that each unit joins independently (Poisson sampling).
    /// Defined for Gaussian (and sums of Gaussians), Laplace and `ApproxDp`.
    PoissonSampled {
        /// Probability that a unit joins, in (0, 1].
        sampling_probability: f64,
        /// The mechanism that runs on the subset.
        event: Box<Self>,
    },
    /// A Gaussian mechanism run on a uniformly drawn subset of fixed size. The number of units is
    /// public, so this is defined for replacement only.
    SampledWithoutReplacement {
        /// Number of units drawn, at least 1.
        sample_size: u64,
        /// Number of units in the population, at least `sample_size`.
        population_size: u64,
        /// The mechanism that runs on the subset.
        event: Box<Self>,
    },
    /// A whole schedule of `n_steps` Gaussian releases in which each unit takes part in exactly
    /// `n_selected` steps, chosen uniformly at random and kept secret (random allocation, "balls
    /// and bins").
    RandomAllocation {
        /// Noise standard deviation divided by the L2 sensitivity of one step under add/remove.
        noise_multiplier: f64,
        /// Number of steps that each unit takes part in, at least 1.
        n_selected: u64,
        /// Number of steps in total, at least `n_selected`.
        n_steps: u64,
    },
    /// A Gaussian mechanism whose L2 sensitivity is itself random: `sensitivities[i]` with
    /// probability `probabilities[i]`, as when a sampled batch holds a random number of the
    /// unit's records.
    MixtureOfGaussians {
        /// Noise standard deviation, in the unit of the sensitivities.
        sigma: f64,
        /// Non-negative, under add/remove.
        sensitivities: Vec<f64>,
        /// Positive, with sum 1; a rounding error of the sum of up to 1e-9 is divided out.
        probabilities: Vec<f64>,
    },
    /// Continual release by a binary tree with Gaussian noise on every node. Each unit takes part
    /// in one leaf and therefore affects `ceil(log2(n_steps + 1))` nodes.
    TreeAggregation {
        /// Noise standard deviation of a node divided by the L2 sensitivity under add/remove.
        noise_multiplier: f64,
        /// Number of leaves.
        n_steps: u64,
    },
    /// Several mechanisms on the same data. Each may depend on the outputs of earlier ones.
    Composed {
        /// The parts, in order; at least one.
        events: Vec<Self>,
    },
    /// The same mechanism `count` times on the same data.
    Repeated {
        /// The repeated mechanism.
        event: Box<Self>,
        /// Number of repetitions, at least 1.
        count: u64,
    },
    /// A mechanism run a secret random number of times, of which only the best result is published,
    /// as in hyper-parameter tuning.
    RepeatAndSelect {
        /// One run.
        event: Box<Self>,
        /// Distribution of the number of runs.
        stopping: Stopping,
    },
    /// A release without any privacy guarantee.
    NonPrivate,
}

/// The kind of neighbours that a stated guarantee holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Relation {
    /// One unit is added or removed.
    #[default]
    AddRemove,
    /// One unit is replaced by another.
    Replace,
}

/// Distribution of the number of runs of [`DpEvent::RepeatAndSelect`], independent of the data.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(
        rename_all = "kebab-case",
        tag = "distribution",
        try_from = "read::StoppingMembers"
    )
)]
pub enum Stopping {
    /// Truncated negative binomial on 1, 2, ...; `shape` 1 is geometric, 0 logarithmic.
    TruncatedNegativeBinomial {
        /// The parameter eta, above -1.
        shape: f64,
        /// The parameter gamma, in (0, 1). Smaller values mean more runs.
        success_probability: f64,
    },
    /// The logarithmic distribution on 1, 2, ...
    Logarithmic {
        /// The parameter gamma, in (0, 1).
        success_probability: f64,
    },
    /// Poisson on 0, 1, 2, ...; if there are zero runs, nothing is published.
    Poisson {
        /// Mean number of runs, above 0.
        mean: f64,
    },
}

impl DpEvent {
    /// Largest nesting depth that accountants accept; an event without parts has depth 1. Code that
    /// traverses an event may recurse to this depth on any thread's stack.
    pub const MAX_DEPTH: usize = 64;

    /// Rejects an event nested deeper than [`MAX_DEPTH`](Self::MAX_DEPTH). Does not recurse.
    ///
    /// # Errors
    /// [`ParamError`] with the name `depth`.
    ///
    /// # Examples
    /// ```
    /// use dp_core::DpEvent;
    /// let deep = |n| (1..n).fold(DpEvent::NonPrivate, |event, _| event.repeated(1));
    /// assert!(deep(DpEvent::MAX_DEPTH).check_depth().is_ok());
    /// assert!(deep(DpEvent::MAX_DEPTH + 1).check_depth().is_err());
    /// ```
    pub fn check_depth(&self) -> Result<(), ParamError> {
        let mut open = vec![(self, 1)];
        while let Some((event, depth)) = open.pop() {
            if depth > Self::MAX_DEPTH {
                return Err(ParamError {
                    name: "depth",
                    value: depth as f64,
                    expected: "events nested at most 64 deep",
                });
            }
            open.extend(event.parts().iter().map(|part| (part, depth + 1)));
        }
        Ok(())
    }

    /// The direct components of this event.
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::PoissonSampled { event, .. }
            | Self::SampledWithoutReplacement { event, .. }
            | Self::Repeated { event, .. }
            | Self::RepeatAndSelect { event, .. } => std::slice::from_ref(event),
            Self::Composed { events } => events,
            Self::Gaussian { .. }
            | Self::Laplace { .. }
            | Self::DiscreteGaussian { .. }
            | Self::DiscreteLaplace { .. }
            | Self::RandomizedResponse { .. }
            | Self::BoundedRange { .. }
            | Self::ApproxDp { .. }
            | Self::Zcdp { .. }
            | Self::Rdp { .. }
            | Self::RandomAllocation { .. }
            | Self::MixtureOfGaussians { .. }
            | Self::TreeAggregation { .. }
            | Self::NonPrivate => &[],
        }
    }

    /// A Gaussian mechanism with the general replacement factor 2.
    ///
    /// # Examples
    /// ```
    /// use dp_core::{DpEvent, ReplaceFactor};
    /// let event = DpEvent::gaussian(2.0);
    /// assert_eq!(
    ///     event,
    ///     DpEvent::Gaussian { noise_multiplier: 2.0, replace_factor: ReplaceFactor::Two }
    /// );
    /// ```
    #[must_use]
    pub const fn gaussian(noise_multiplier: f64) -> Self {
        Self::Gaussian {
            noise_multiplier,
            replace_factor: ReplaceFactor::Two,
        }
    }

    /// A Gaussian mechanism on a sum of positive semidefinite contributions.
    #[must_use]
    pub const fn gaussian_psd(noise_multiplier: f64) -> Self {
        Self::Gaussian {
            noise_multiplier,
            replace_factor: ReplaceFactor::SqrtTwo,
        }
    }

    /// A Laplace mechanism.
    #[must_use]
    pub const fn laplace(noise_multiplier: f64) -> Self {
        Self::Laplace { noise_multiplier }
    }

    /// A discrete Gaussian mechanism.
    #[must_use]
    pub const fn discrete_gaussian(sigma: f64, sensitivity: u32) -> Self {
        Self::DiscreteGaussian { sigma, sensitivity }
    }

    /// A discrete Laplace mechanism.
    #[must_use]
    pub const fn discrete_laplace(rate: f64, sensitivity: u32) -> Self {
        Self::DiscreteLaplace { rate, sensitivity }
    }

    /// A mechanism of bounded range.
    #[must_use]
    pub const fn bounded_range(epsilon: f64, relation: Relation) -> Self {
        Self::BoundedRange { epsilon, relation }
    }

    /// A mechanism that is (epsilon, delta)-DP.
    #[must_use]
    pub const fn approx_dp(epsilon: f64, delta: f64, relation: Relation) -> Self {
        Self::ApproxDp {
            epsilon,
            delta,
            relation,
        }
    }

    /// A mechanism whose Renyi divergence is known at one order.
    #[must_use]
    pub const fn rdp(order: f64, epsilon: f64, relation: Relation) -> Self {
        Self::Rdp {
            order,
            epsilon,
            relation,
        }
    }

    /// A mechanism that is rho-zCDP.
    #[must_use]
    pub const fn zcdp(rho: f64, relation: Relation) -> Self {
        Self::Zcdp { rho, relation }
    }

    /// Randomised response.
    #[must_use]
    pub const fn randomized_response(noise_probability: f64, buckets: u32) -> Self {
        Self::RandomizedResponse {
            noise_probability,
            buckets,
        }
    }

    /// Continual release by a binary tree.
    #[must_use]
    pub const fn tree_aggregation(noise_multiplier: f64, n_steps: u64) -> Self {
        Self::TreeAggregation {
            noise_multiplier,
            n_steps,
        }
    }

    /// A Gaussian mechanism with random sensitivity.
    #[must_use]
    pub fn mixture_of_gaussians(
        sigma: f64,
        sensitivities: impl Into<Vec<f64>>,
        probabilities: impl Into<Vec<f64>>,
    ) -> Self {
        Self::MixtureOfGaussians {
            sigma,
            sensitivities: sensitivities.into(),
            probabilities: probabilities.into(),
        }
    }

    /// A schedule of Gaussian releases by random allocation.
    #[must_use]
    pub const fn random_allocation(noise_multiplier: f64, n_selected: u64, n_steps: u64) -> Self {
        Self::RandomAllocation {
            noise_multiplier,
            n_selected,
            n_steps,
        }
    }

    /// Several mechanisms on the same data.
    #[must_use]
    pub const fn composed(events: Vec<Self>) -> Self {
        Self::Composed { events }
    }

    /// The best result of a random number of runs of this event.
    #[must_use]
    pub fn best_of(self, stopping: Stopping) -> Self {
        Self::RepeatAndSelect {
            event: Box::new(self),
            stopping,
        }
    }

    /// This event on `sample_size` of `population_size` units, drawn uniformly.
    #[must_use]
    pub fn sampled_without_replacement(self, sample_size: u64, population_size: u64) -> Self {
        Self::SampledWithoutReplacement {
            sample_size,
            population_size,
            event: Box::new(self),
        }
    }

    /// A Gaussian mechanism on a Poisson sample, as in one step of private SGD.
    #[must_use]
    pub fn sampled_gaussian(noise_multiplier: f64, sampling_probability: f64) -> Self {
        Self::gaussian(noise_multiplier).poisson_sampled(sampling_probability)
    }

    /// This event on a Poisson sample of the units.
    #[must_use]
    pub fn poisson_sampled(self, sampling_probability: f64) -> Self {
        Self::PoissonSampled {
            sampling_probability,
            event: Box::new(self),
        }
    }

    /// This event repeated `count` times.
    #[must_use]
    pub fn repeated(self, count: u64) -> Self {
        Self::Repeated {
            event: Box::new(self),
            count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psd_replacement_factor_is_attained_by_orthogonal_directions() {
        // ||x x' - y y'||_F^2 = 2 for orthogonal unit vectors x, y, so the factor cannot be smaller.
        let (x, y) = ([1.0, 0.0], [0.0, 1.0]);
        let mut squared = 0.0;
        for a in 0..2 {
            for b in 0..2 {
                let d: f64 = x[a] * x[b] - y[a] * y[b];
                squared += d * d;
            }
        }
        assert!((squared - ReplaceFactor::SqrtTwo.squared()).abs() < 1e-15);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn events_survive_json() {
        let event = DpEvent::Composed {
            events: vec![
                DpEvent::gaussian(0.1 + 0.2),
                DpEvent::gaussian_psd(7.0).repeated(3),
                DpEvent::laplace(2.0).best_of(Stopping::Poisson { mean: 3.0 }),
                DpEvent::NonPrivate,
            ],
        };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<DpEvent>(&text).unwrap(), event);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn events_with_members_of_others_or_without_their_own_are_errors() {
        for (text, expected) in [
            (r#"{"noise_multiplier":3}"#, "missing field `mechanism`"),
            (
                r#"{"mechanism":"laplace"}"#,
                "missing field `noise_multiplier`",
            ),
            (
                r#"{"mechanism":"laplace","noise_multiplier":null}"#,
                "invalid type: null",
            ),
            (
                r#"{"mechanism":"laplace","noise_multiplier":3,"sigma":1}"#,
                "unknown field `sigma` for this mechanism",
            ),
            (
                r#"{"mechanism":"laplace","noise_multiplier":3,"noise_multiplier":4}"#,
                "duplicate field `noise_multiplier`",
            ),
            (
                r#"{"mechanism":"laplace","noise_multiplier":3,"noise":1}"#,
                "unknown field `noise`",
            ),
            (
                r#"{"mechanism":"non-private","count":1}"#,
                "unknown field `count`",
            ),
            (r#"{"mechanism":"cauchy"}"#, "unknown variant `cauchy`"),
            (
                r#"{"mechanism":{"laplace":null},"noise_multiplier":3}"#,
                "invalid type: map, expected a string",
            ),
            (
                r#"{"mechanism":"zcdp","rho":"1","relation":"replace"}"#,
                "invalid type: string \"1\", expected f64 at line 1 column 29",
            ),
        ] {
            let error = serde_json::from_str::<DpEvent>(text)
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
