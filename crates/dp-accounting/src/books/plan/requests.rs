//! The releases that a training run requests, with noise to be determined or fixed.

use dp_core::{Adjacency, ApproxDp, DpEvent};

use super::{Plan, PlannedRelease, ReleaseRequest};
use crate::{Error, Result};

/// The releases of a training run before their noise is determined.
///
/// # Examples
/// ```
/// use dp_accounting::{ReleaseRequest, Requests};
/// use dp_core::{Adjacency, ApproxDp, ReplaceFactor};
/// let sum = ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 100);
/// let requests = Requests::Shares(vec![sum]);
/// let plan = requests.calibrate(ApproxDp::target(1.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(requests.first_difference(&plan), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(missing_debug_implementations, reason = "may hold a function")]
pub enum Requests {
    /// Gaussian releases on all users, which divide the budget by their shares.
    Shares(Vec<ReleaseRequest>),
    /// Releases with a common noise multiplier, such as those on samples of the users.
    Schedule(Box<dyn Fn(f64) -> Vec<PlannedRelease>>),
    /// Releases whose cost is part of the settings, such as exponential mechanisms.
    Fixed(Vec<PlannedRelease>),
}

impl Requests {
    /// Requests for releases with a common noise multiplier.
    pub fn schedule(releases: impl Fn(f64) -> Vec<PlannedRelease> + 'static) -> Self {
        Self::Schedule(Box::new(releases))
    }

    /// The plan with the smallest noise that meets `target`. For fixed releases, the plan that
    /// consists of them, at the target's delta.
    ///
    /// # Errors
    /// As [`Plan::calibrate`] and [`Plan::calibrate_noise`]; [`Error::TargetOutOfReach`] if fixed
    /// releases cost more than `target` allows.
    pub fn calibrate(&self, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        match self {
            Self::Shares(requests) => Plan::calibrate(target, adjacency, requests),
            Self::Schedule(releases) => Ok(Plan::calibrate_noise(target, adjacency, releases)?.0),
            Self::Fixed(releases) => {
                let plan = Plan::with_noise_multipliers(target.delta, adjacency, releases.clone())?;
                let nearest = plan.guarantee().epsilon;
                if nearest > target.epsilon {
                    return Err(Error::TargetOutOfReach {
                        epsilon: target.epsilon,
                        delta: target.delta,
                        nearest,
                    });
                }
                Ok(plan)
            }
        }
    }

    /// The label of the first release in which `plan` differs from these requests: in its label,
    /// its number of draws, its mechanism, or because it is missing in one of them. Noise that is
    /// still to be determined is not compared. A plan that was calibrated for these requests has no
    /// difference.
    #[must_use]
    pub fn first_difference(&self, plan: &Plan) -> Option<String> {
        let wanted = match self {
            Self::Shares(requests) => requests.iter().map(ReleaseRequest::at_noise_one).collect(),
            Self::Schedule(releases) => releases(1.0),
            Self::Fixed(releases) => releases.clone(),
        };
        let planned = plan.releases();
        let same: fn(&DpEvent, &DpEvent) -> bool = match self {
            Self::Fixed(_) => DpEvent::eq,
            _ => same_mechanism,
        };
        let differs = |(wanted, planned): (&PlannedRelease, &PlannedRelease)| {
            wanted.label() != planned.label()
                || wanted.n_draws() != planned.n_draws()
                || !same(wanted.event(), planned.event())
        };
        let pairs = wanted.iter().zip(planned);
        if let Some((_, planned)) = pairs.clone().find(|&pair| differs(pair)) {
            return Some(planned.label().to_owned());
        }
        let beyond = wanted.get(planned.len()).or(planned.get(wanted.len()));
        beyond.map(|release| release.label().to_owned())
    }
}

impl ReleaseRequest {
    fn at_noise_one(&self) -> PlannedRelease {
        let event = DpEvent::Gaussian {
            noise_multiplier: 1.0,
            replace_factor: self.replace_factor,
        };
        PlannedRelease::new(self.label.clone(), event, self.n_draws)
    }
}

/// Whether two events are the same mechanism except for the noise of a Gaussian.
fn same_mechanism(a: &DpEvent, b: &DpEvent) -> bool {
    use DpEvent::{Gaussian, PoissonSampled, SampledWithoutReplacement};
    match (a, b) {
        (
            Gaussian {
                replace_factor: a, ..
            },
            Gaussian {
                replace_factor: b, ..
            },
        ) => a == b,
        (
            PoissonSampled {
                sampling_probability: p,
                event: a,
            },
            PoissonSampled {
                sampling_probability: q,
                event: b,
            },
        ) => p.to_bits() == q.to_bits() && same_mechanism(a, b),
        (
            SampledWithoutReplacement {
                sample_size: m,
                population_size: n,
                event: a,
            },
            SampledWithoutReplacement {
                sample_size: k,
                population_size: l,
                event: b,
            },
        ) => (m, n) == (k, l) && same_mechanism(a, b),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use dp_core::ReplaceFactor;

    use super::*;

    fn target() -> ApproxDp {
        ApproxDp::target(1.0, 1e-5).unwrap()
    }

    fn shares(draws: u64, factor: ReplaceFactor) -> Requests {
        let second = ReleaseRequest::new("second", 3.0, factor, draws);
        Requests::Shares(vec![
            ReleaseRequest::new("first", 1.0, ReplaceFactor::Two, 5),
            second,
        ])
    }

    #[test]
    fn a_plan_fits_its_own_requests_and_no_others() {
        let adjacency = Adjacency::AddRemoveUser;
        let own = shares(7, ReplaceFactor::Two);
        let plan = own.calibrate(target(), adjacency).unwrap();
        assert_eq!(own.first_difference(&plan), None);
        for other in [
            shares(8, ReplaceFactor::Two),
            shares(7, ReplaceFactor::SqrtTwo),
        ] {
            assert_eq!(other.first_difference(&plan).as_deref(), Some("second"));
        }
        let none = Requests::Shares(Vec::new());
        assert_eq!(none.first_difference(&plan).as_deref(), Some("first"));
        let sampled = |q: f64| {
            Requests::schedule(move |z| {
                let event = DpEvent::sampled_gaussian(z, q);
                vec![PlannedRelease::new("step", event, 3)]
            })
        };
        let plan = sampled(0.1).calibrate(target(), adjacency).unwrap();
        assert!(plan.guarantee().epsilon <= 1.0);
        assert_eq!(sampled(0.1).first_difference(&plan), None);
        assert!(sampled(0.2).first_difference(&plan).is_some());
    }

    #[test]
    fn fixed_releases_are_planned_as_they_are_where_the_target_allows_them() {
        let fixed = |z| Requests::Fixed(vec![PlannedRelease::new("one", DpEvent::gaussian(z), 1)]);
        let plan = fixed(10.0)
            .calibrate(target(), Adjacency::AddRemoveUser)
            .unwrap();
        assert_eq!(fixed(10.0).first_difference(&plan), None);
        assert!(fixed(11.0).first_difference(&plan).is_some());
        let dear = fixed(0.5).calibrate(target(), Adjacency::AddRemoveUser);
        assert!(matches!(dear, Err(Error::TargetOutOfReach { .. })));
    }
}
