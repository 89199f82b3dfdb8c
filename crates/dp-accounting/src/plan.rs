use dp_core::{Adjacency, ApproxDp, DpEvent, Gdp, ParamError, ReplaceFactor, Zcdp, params};

use crate::allowance::{check_draws, usable_delta};
use crate::filter::largest_mu_squared;
use crate::gdp::{from_mu_squared, sensitivity_squared};
use crate::rounding::UpwardSum;
use crate::schedule::{ideal_guarantee, total_mu_squared};
use crate::{Error, Result, calibrate};

/// Relative amount by which calibrated noise exceeds the exact solution: 2^-48. It covers the
/// dozen roundings between the share of a release and its recomputed cost.
const NOISE_MARGIN: f64 = 1.0 / ((1_u64 << 48) as f64);

/// One release that a run wants to make, before its noise is known.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseRequest {
    /// A name for the release, such as `item-gramians-2`.
    pub label: String,
    /// Share of mu^2 under the plan's adjacency, relative to the other requests; above 0.
    pub budget_share: f64,
    /// Growth of the sensitivity under replacement.
    pub replace_factor: ReplaceFactor,
    /// Number of noise coordinates that the release draws.
    pub n_draws: u64,
}

impl ReleaseRequest {
    /// A request with the given fields.
    #[must_use]
    pub fn new(
        label: impl Into<String>,
        budget_share: f64,
        replace_factor: ReplaceFactor,
        n_draws: u64,
    ) -> Self {
        Self {
            label: label.into(),
            budget_share,
            replace_factor,
            n_draws,
        }
    }
}

/// One release of a [`Plan`]: a mechanism with its noise.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRelease {
    label: String,
    event: DpEvent,
    n_draws: u64,
}

impl PlannedRelease {
    /// A release of any mechanism, for [`Plan::with_noise_multipliers`]. Whether the event has a
    /// guarantee is found when the plan is made.
    #[must_use]
    pub fn new(label: impl Into<String>, event: DpEvent, n_draws: u64) -> Self {
        Self {
            label: label.into(),
            event,
            n_draws,
        }
    }

    /// A Gaussian release whose noise the caller chooses.
    ///
    /// # Errors
    /// [`Error::Param`] when `noise_multiplier` is not finite and positive.
    pub fn gaussian(
        label: impl Into<String>,
        noise_multiplier: f64,
        replace_factor: ReplaceFactor,
        n_draws: u64,
    ) -> Result<Self> {
        let noise_multiplier = params::finite_positive("noise_multiplier", noise_multiplier)?;
        let event = DpEvent::Gaussian {
            noise_multiplier,
            replace_factor,
        };
        Ok(Self::new(label, event, n_draws))
    }

    /// The release's name.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Noise standard deviation over the L2 sensitivity under add/remove, of a release that is one
    /// Gaussian mechanism on all units. A sampled one has none: its noise multiplier taken alone
    /// says little about what it costs, and a spend for it must not pay for an unsampled release.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] for every other mechanism.
    pub fn noise_multiplier(&self) -> Result<f64> {
        match self.event {
            DpEvent::Gaussian {
                noise_multiplier, ..
            } => Ok(noise_multiplier),
            _ => Err(Error::NotGaussian {
                what: format!("release {}", self.label),
            }),
        }
    }

    /// The mechanism, for the accountant.
    #[must_use]
    pub const fn event(&self) -> &DpEvent {
        &self.event
    }

    /// Number of noise coordinates.
    #[must_use]
    pub const fn n_draws(&self) -> u64 {
        self.n_draws
    }
}

/// What a run will release, with the noise of each release and the guarantee of the whole.
///
/// A plan holds public values only; it can be printed and compared before any data is read.
/// The delta of its guarantee covers the mechanisms and, with
/// [`crate::DELTA_RESERVE`] of it, the error of the noise sampler.
///
/// # Examples
/// ```
/// use dp_accounting::{Plan, ReleaseRequest};
/// use dp_core::{Adjacency, ApproxDp, ReplaceFactor};
/// let plan = Plan::calibrate(
///     ApproxDp::target(1.0, 1e-5)?,
///     Adjacency::AddRemoveUser,
///     &[
///         ReleaseRequest::new("counts", 1.0, ReplaceFactor::Two, 1_000),
///         ReleaseRequest::new("gramians", 9.0, ReplaceFactor::SqrtTwo, 100_000),
///     ],
/// )?;
/// let [counts, gramians] = plan.releases() else { unreachable!() };
/// assert!((counts.noise_multiplier()? / gramians.noise_multiplier()? - 3.0).abs() < 1e-12);
/// assert!(plan.guarantee().epsilon <= 1.0 && plan.guarantee().epsilon > 0.9999);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    target: ApproxDp,
    adjacency: Adjacency,
    releases: Vec<PlannedRelease>,
    /// Absent when a release is not Gaussian.
    mu_squared: Option<f64>,
    guarantee: ApproxDp,
}

impl Plan {
    /// Gives each request the noise that makes the whole meet `target` under `adjacency`.
    ///
    /// ```text
    /// z_i = f_i / (μ √(share_i / Σ share)),   f_i = 1 (add/remove), 2 or √2 (replace)
    /// ```
    ///
    /// with μ = [`crate::gdp::mu_for`] at `target.epsilon` and [`usable_delta`]`(target.delta)`, rounded
    /// up so that the recomputed cost stays within μ^2. Without requests the plan releases nothing
    /// and costs nothing, which is what a non-private baseline asks for.
    ///
    /// # Errors
    /// [`Error::Param`] for a target that cannot be aimed at, a share that is not finite and
    /// positive, or shares that differ beyond the range of f64; [`Error::SamplerAllowance`] when
    /// the draws are too many for the reserve of delta; [`Error::TargetMissed`] should rounding
    /// exceed its margin.
    pub fn calibrate(
        target: ApproxDp,
        adjacency: Adjacency,
        requests: &[ReleaseRequest],
    ) -> Result<Self> {
        let allowed = mu_squared_budget(target)?;
        #[cfg(privacy_mutants)]
        let allowed = dp_core::mutants::pick("budget-doubled", allowed, 2.0 * allowed);
        let share_sum = sum_of_shares(requests)?;
        let mut releases = Vec::with_capacity(requests.len());
        for request in requests {
            let factor_squared = sensitivity_squared(request.replace_factor, adjacency);
            let fraction = request.budget_share / share_sum;
            let noise_multiplier = (factor_squared / fraction).sqrt() / allowed.sqrt();
            releases.push(PlannedRelease::gaussian(
                request.label.clone(),
                noise_multiplier * (1.0 + NOISE_MARGIN),
                request.replace_factor,
                request.n_draws,
            )?);
        }
        let mut plan = Self::assemble(target, adjacency, releases)?;
        let mu_squared = plan.mu_squared()?;
        if mu_squared > allowed {
            return Err(Error::TargetMissed {
                mu_squared,
                allowed,
            });
        }
        plan.target = target;
        check_draws(target, plan.n_draws())?;
        Ok(plan)
    }

    /// A plan of any mechanisms with the noise that the caller chose, and the guarantee that
    /// follows at `delta`. Its target is its own guarantee, so that a [`crate::Budget`] for the
    /// target pays for it; where the guarantee's epsilon is 0 the target's is the smallest
    /// positive number.
    ///
    /// Gaussian releases alone are accounted for exactly; with others among them,
    /// [`crate::TightestAccountant`] says what the whole is worth.
    ///
    /// # Errors
    /// [`Error::Param`] for a `delta` outside (0, 1), a parameter of an event that is out of
    /// range, or noise so small that cost or epsilon is not finite; [`Error::NonPrivateEvent`];
    /// what the accountant refuses; [`Error::SamplerAllowance`] when the draws are too many
    /// for the reserve of delta (no draws at all are covered above epsilon 50 or so).
    pub fn with_noise_multipliers(
        delta: f64,
        adjacency: Adjacency,
        releases: Vec<PlannedRelease>,
    ) -> Result<Self> {
        let target = ApproxDp {
            epsilon: 0.0,
            delta: params::open_unit("delta", delta)?,
        };
        let mut plan = Self::assemble(target, adjacency, releases)?;
        plan.target.epsilon = plan.guarantee.epsilon.max(f64::MIN_POSITIVE);
        check_draws(plan.target, plan.n_draws())?;
        Ok(plan)
    }

    /// The least noise for which the releases that `releases` lists meet `target`, for mechanisms of
    /// any kind: the route for sampled steps. Returns the plan and the noise multiplier found.
    ///
    /// `releases` makes the list from the noise multiplier z, the same list but for z each time, of
    /// a cost that falls with z. Reserve it with [`crate::Budget::schedule`].
    ///
    /// # Errors
    /// Those of [`crate::calibrate::noise`] and of the accountant; [`Error::TargetOutOfReach`] too
    /// should the list cost more when it is made again; [`Error::SamplerAllowance`] when the draws are
    /// too many for the reserve of delta.
    ///
    /// # Examples
    /// ```
    /// use dp_accounting::{Plan, PlannedRelease};
    /// use dp_core::{Adjacency, ApproxDp, DpEvent};
    /// let target = ApproxDp::target(2.0, 1e-5)?;
    /// let (plan, z) = Plan::calibrate_noise(target, Adjacency::AddRemoveUser, |z| {
    ///     let step = DpEvent::sampled_gaussian(z, 0.01);
    ///     (0..100).map(|t| PlannedRelease::new(format!("step-{t}"), step.clone(), 50)).collect()
    /// })?;
    /// assert_eq!(plan.releases()[7].event(), &DpEvent::sampled_gaussian(z, 0.01));
    /// assert!(plan.guarantee().epsilon <= 2.0 && plan.guarantee().epsilon > 1.9999);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn calibrate_noise(
        target: ApproxDp,
        adjacency: Adjacency,
        releases: impl Fn(f64) -> Vec<PlannedRelease>,
    ) -> Result<(Self, f64)> {
        let ideal = ApproxDp {
            epsilon: target.epsilon,
            delta: usable_delta(target.delta),
        };
        let whole = |z| DpEvent::Composed {
            events: releases(z).into_iter().map(|r| r.event).collect(),
        };
        let noise_multiplier = calibrate::noise(ideal, adjacency, whole)?.value;
        let mut plan = Self::assemble(target, adjacency, releases(noise_multiplier))?;
        if plan.guarantee.epsilon > target.epsilon {
            return Err(Error::TargetOutOfReach {
                epsilon: target.epsilon,
                delta: target.delta,
                nearest: noise_multiplier,
            });
        }
        plan.target = target;
        check_draws(target, plan.n_draws())?;
        Ok((plan, noise_multiplier))
    }

    fn assemble(
        target: ApproxDp,
        adjacency: Adjacency,
        releases: Vec<PlannedRelease>,
    ) -> Result<Self> {
        let ideal = ideal_guarantee(
            releases.iter().map(PlannedRelease::event),
            adjacency,
            usable_delta(target.delta),
        )?;
        Ok(Self {
            target,
            adjacency,
            mu_squared: total_mu_squared(releases.iter().map(PlannedRelease::event), adjacency)?,
            releases,
            guarantee: ApproxDp {
                epsilon: ideal.upper,
                delta: target.delta,
            },
        })
    }

    /// The releases, in the order in which they were asked for.
    #[must_use]
    pub fn releases(&self) -> &[PlannedRelease] {
        &self.releases
    }

    /// The neighbours that the guarantee is for.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// What the plan was calibrated to.
    #[must_use]
    pub const fn target(&self) -> ApproxDp {
        self.target
    }

    /// What the plan guarantees, at the target's delta, sampler included.
    #[must_use]
    pub const fn guarantee(&self) -> ApproxDp {
        self.guarantee
    }

    /// Total cost of Gaussian releases, rounded up.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] when a release is not Gaussian.
    pub fn mu_squared(&self) -> Result<f64> {
        self.mu_squared.ok_or_else(|| Error::NotGaussian {
            what: "the plan".to_owned(),
        })
    }

    /// The guarantee of the ideal mechanisms as mu-GDP.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] when a release is not Gaussian.
    pub fn gdp(&self) -> Result<Gdp> {
        Ok(from_mu_squared(self.mu_squared()?))
    }

    /// The guarantee of the ideal mechanisms as zCDP.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] when a release is not Gaussian.
    pub fn zcdp(&self) -> Result<Zcdp> {
        Ok(Zcdp {
            rho: 0.5 * self.mu_squared()?,
        })
    }

    /// Number of noise draws of all releases.
    #[must_use]
    pub fn n_draws(&self) -> u64 {
        n_draws(&self.releases)
    }
}

/// mu^2 that a target allows, rounded down, with the sampler's part of delta set aside.
fn mu_squared_budget(target: ApproxDp) -> Result<f64> {
    let target = ApproxDp::target(target.epsilon, target.delta)?;
    largest_mu_squared(ApproxDp {
        epsilon: target.epsilon,
        delta: usable_delta(target.delta),
    })
}

fn sum_of_shares(requests: &[ReleaseRequest]) -> Result<f64> {
    let mut sum = UpwardSum::EMPTY;
    for request in requests {
        sum = sum.plus(params::finite_positive(
            "budget_share",
            request.budget_share,
        )?);
    }
    let total = sum.total();
    if total.is_finite() {
        return Ok(total);
    }
    Err(Error::Param(ParamError {
        name: "budget_share",
        value: total,
        expected: "shares with a finite sum",
    }))
}

fn n_draws(releases: &[PlannedRelease]) -> u64 {
    releases
        .iter()
        .fold(0, |sum, release| sum.saturating_add(release.n_draws))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gdp::mu_squared;

    const TARGET: ApproxDp = ApproxDp {
        epsilon: 1.0,
        delta: 1e-5,
    };

    fn request(share: f64, n_draws: u64) -> ReleaseRequest {
        ReleaseRequest::new("x", share, ReplaceFactor::SqrtTwo, n_draws)
    }

    #[test]
    fn single_release_gets_the_known_noise() {
        // Smallest sigma for (1, 1e-5): 3.7306316348159418; the reserve of delta adds 1e-7 or so.
        let plan = Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &[request(7.0, 10)]).unwrap();
        let z = plan.releases()[0].noise_multiplier().unwrap();
        assert!(z > 3.730_631_634_815_9 && z < 3.730_631_634_8 * (1.0 + 2e-7));
        let psd = Plan::calibrate(TARGET, Adjacency::ReplaceUser, &[request(7.0, 10)]).unwrap();
        let ratio = psd.releases()[0].noise_multiplier().unwrap() / z;
        assert!((ratio - 2.0_f64.sqrt()).abs() < 1e-14);
    }

    #[test]
    fn shares_are_of_mu_squared_under_the_plans_adjacency() {
        let requests = [
            ReleaseRequest::new("a", 3.0, ReplaceFactor::Two, 0),
            ReleaseRequest::new("b", 1.0, ReplaceFactor::SqrtTwo, 0),
        ];
        for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
            let plan = Plan::calibrate(TARGET, adjacency, &requests).unwrap();
            let cost = |i: usize| mu_squared(plan.releases()[i].event(), adjacency).unwrap();
            assert!((cost(0) / cost(1) - 3.0).abs() < 1e-13, "{adjacency}");
        }
    }

    #[test]
    fn empty_plan_costs_nothing() {
        let plan = Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &[]).unwrap();
        assert!(plan.mu_squared().unwrap() == 0.0 && plan.guarantee().epsilon == 0.0);
        assert_eq!(plan.target(), TARGET);
    }

    #[test]
    fn bad_shares_are_refused() {
        let adjacency = Adjacency::AddRemoveUser;
        for share in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let requests = [request(1.0, 0), request(share, 0)];
            let error = Plan::calibrate(TARGET, adjacency, &requests).unwrap_err();
            assert!(error.to_string().starts_with("budget_share"), "{share}");
        }
        let overflow = [request(f64::MAX, 0), request(f64::MAX, 0)];
        assert!(Plan::calibrate(TARGET, adjacency, &overflow).is_err());
        let too_far_apart = [request(f64::MAX, 0), request(5e-324, 0)];
        assert!(Plan::calibrate(TARGET, adjacency, &too_far_apart).is_err());
    }

    #[test]
    fn draws_beyond_the_reserve_are_refused() {
        let high = ApproxDp {
            epsilon: 40.0,
            delta: 1e-9,
        };
        let plan = |n| Plan::calibrate(high, Adjacency::AddRemoveUser, &[request(1.0, n); 1]);
        assert!(plan(1_411).is_ok());
        assert!(matches!(
            plan(1_412),
            Err(Error::SamplerAllowance { n_draws: 1_412, .. })
        ));
        let requests = [request(1.0, u64::MAX), request(1.0, u64::MAX)];
        assert!(Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &requests).is_err());
    }

    #[test]
    fn chosen_noise_gives_its_own_guarantee() {
        let releases = (0..4)
            .map(|_| PlannedRelease::gaussian("r", 2.0, ReplaceFactor::Two, 5).unwrap())
            .collect();
        let plan = Plan::with_noise_multipliers(1e-5, Adjacency::AddRemoveUser, releases).unwrap();
        assert!((plan.mu_squared().unwrap() - 1.0).abs() < 1e-15);
        // epsilon(mu = 1, 1e-5) = 4.3771780956812246 and a little for the reserve.
        let epsilon = plan.guarantee().epsilon;
        assert!(
            epsilon > 4.377_178_095 && epsilon < 4.377_178_6,
            "{epsilon}"
        );
        assert_eq!(plan.target(), plan.guarantee());
        assert_eq!(plan.n_draws(), 20);
    }

    #[test]
    fn chosen_noise_is_checked() {
        for z in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(PlannedRelease::gaussian("r", z, ReplaceFactor::Two, 5).is_err());
        }
        let plan = |delta| Plan::with_noise_multipliers(delta, Adjacency::ReplaceUser, vec![]);
        assert!(plan(0.5).is_ok());
        assert!(plan(0.0).is_err() && plan(1.0).is_err() && plan(f64::NAN).is_err());
    }
}
