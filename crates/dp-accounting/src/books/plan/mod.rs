//! Plans: what a run will release, the noise of each release, and the guarantee of the whole run.

mod requests;
#[cfg(test)]
mod tests;

use dp_core::{Adjacency, ApproxDp, DpEvent, Gdp, ParamError, ReplaceFactor, Zcdp, params};

use crate::books::allowance::{check_draws, usable_delta};
use crate::books::filter::largest_mu_squared;
use crate::books::schedule::{counterpart_epsilon, ideal_guarantee, total_mu_squared};
use crate::engines::gdp::{from_mu_squared, sensitivity_squared};
use crate::engines::rounding::UpwardSum;
use crate::{Error, Result, calibrate};

pub use requests::Requests;

/// Relative amount by which calibrated noise exceeds the exact solution: 2^-48. It covers the dozen
/// roundings between the share of a release and its recomputed cost.
const NOISE_MARGIN: f64 = 1.0 / ((1_u64 << 48) as f64);

/// What a run will release, with the noise of each release and the guarantee of the whole run.
///
/// A plan contains only public values; it can be printed and compared before any data is read. The
/// delta of its guarantee covers the mechanisms and, with [`crate::DELTA_RESERVE`] of it, the error
/// of the noise sampler.
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
    /// Absent if a release is not Gaussian.
    mu_squared: Option<f64>,
    guarantee: ApproxDp,
}

impl Plan {
    /// Gives each request the noise with which the whole plan meets `target` under `adjacency`.
    ///
    /// ```text
    /// z_i = f_i / (μ √(share_i / Σ share)),   f_i = 1 (add/remove), 2 or √2 (replace)
    /// ```
    ///
    /// with μ = [`crate::gdp::mu_for`] at `target.epsilon` and [`usable_delta`]`(target.delta)`,
    /// rounded up so that the recomputed cost stays within μ^2. Without requests the plan releases
    /// nothing and costs nothing, which is the case of a non-private baseline.
    ///
    /// # Errors
    /// [`Error::Param`] for an invalid target, a share that is not finite and positive, or shares
    /// that differ beyond the range of f64; [`Error::SamplerAllowance`] if there are too many draws
    /// for the reserve of delta; [`Error::TargetMissed`] if rounding exceeds its margin.
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

    /// Creates a plan of any mechanisms with the noise that the caller chose, and the guarantee
    /// that follows at `delta`. The plan's target is its own guarantee, so that a [`crate::Budget`]
    /// for that target covers it; if the guarantee's epsilon is 0, the target's is the smallest
    /// positive number.
    ///
    /// Gaussian releases alone are accounted for exactly; if there are others,
    /// [`crate::TightestAccountant`] computes the guarantee of the whole plan.
    ///
    /// # Errors
    /// [`Error::Param`] for a `delta` outside (0, 1), a parameter of an event that is out of range,
    /// or noise so small that cost or epsilon is not finite; [`Error::NonPrivateEvent`]; the errors
    /// of the accountant; [`Error::SamplerAllowance`] if there are too many draws for the reserve
    /// of delta (above epsilon 50 or so, no draws at all are covered).
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

    /// The plan that consists of some of the releases, counted from 0, with its guarantee at this
    /// plan's delta. If the plan has fewer releases than the range, the result is empty.
    ///
    /// # Errors
    /// The errors of [`with_noise_multipliers`](Self::with_noise_multipliers).
    pub fn part(&self, releases: std::ops::Range<usize>) -> Result<Self> {
        let part = self.releases.get(releases).unwrap_or_default().to_vec();
        Self::with_noise_multipliers(self.target.delta, self.adjacency, part)
    }

    /// Finds the smallest noise multiplier for which the list returned by `releases` meets
    /// `target`, for mechanisms of any kind, such as sampled steps. Returns the plan and the noise
    /// multiplier.
    ///
    /// `releases` returns the list for a noise multiplier z. The lists must be equal except for z,
    /// and their cost must decrease with z. Reserve the plan with [`crate::Budget::schedule`].
    ///
    /// # Errors
    /// The errors of [`crate::calibrate::noise`] and of the accountant; [`Error::TargetOutOfReach`]
    /// also if the list costs more when it is computed again; [`Error::SamplerAllowance`] if there
    /// are too many draws for the reserve of delta.
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
            events: releases(z).into_iter().map(|r| r.event().clone()).collect(),
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

    /// The releases, in the order of the requests.
    #[must_use]
    pub fn releases(&self) -> &[PlannedRelease] {
        &self.releases
    }

    /// The adjacency of the guarantee.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// The target that the plan was calibrated to.
    #[must_use]
    pub const fn target(&self) -> ApproxDp {
        self.target
    }

    /// The guarantee of the plan at the target's delta, including the sampler.
    #[must_use]
    pub const fn guarantee(&self) -> ApproxDp {
        self.guarantee
    }

    /// Epsilon at the target's delta for the other neighbouring relation (replacing instead of
    /// adding or removing, or the reverse), including the sampler, as a certificate states it; `None`
    /// if a mechanism has no guarantee there, or if no part of delta covers the sampler.
    #[must_use]
    pub fn counterpart_epsilon(&self) -> Option<f64> {
        let events = self.releases.iter().map(PlannedRelease::event);
        counterpart_epsilon(events, self.n_draws(), self.adjacency, self.target.delta)
    }

    /// Total cost of Gaussian releases, rounded up.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] if a release is not Gaussian.
    pub fn mu_squared(&self) -> Result<f64> {
        self.mu_squared.ok_or_else(|| Error::NotGaussian {
            what: "the plan".to_owned(),
        })
    }

    /// The guarantee of the ideal mechanisms as mu-GDP.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] if a release is not Gaussian.
    pub fn gdp(&self) -> Result<Gdp> {
        Ok(from_mu_squared(self.mu_squared()?))
    }

    /// The guarantee of the ideal mechanisms as zCDP.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] if a release is not Gaussian.
    pub fn zcdp(&self) -> Result<Zcdp> {
        Ok(Zcdp {
            rho: 0.5 * self.mu_squared()?,
        })
    }

    /// Total number of noise draws of all releases.
    #[must_use]
    pub fn n_draws(&self) -> u64 {
        n_draws(&self.releases)
    }
}

/// The mu^2 that a target allows, rounded down, with the sampler's part of delta set aside.
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
        .fold(0, |sum, release| sum.saturating_add(release.n_draws()))
}

/// A release that a run will make, before its noise is determined.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseRequest {
    /// A name for the release, such as `item-gramians-2`.
    pub label: String,
    /// Share of mu^2 under the plan's adjacency, relative to the other requests; above 0.
    pub budget_share: f64,
    /// Factor by which the sensitivity grows under replacement.
    pub replace_factor: ReplaceFactor,
    /// Number of noise coordinates that the release draws.
    pub n_draws: u64,
}

impl ReleaseRequest {
    /// Creates a request with the given fields.
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

/// One release of a [`crate::Plan`]: a mechanism with its noise.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRelease {
    label: String,
    event: DpEvent,
    n_draws: u64,
}

impl PlannedRelease {
    /// Creates a release of any mechanism, for [`crate::Plan::with_noise_multipliers`]. Whether the
    /// event has a guarantee is checked when the plan is created.
    #[must_use]
    pub fn new(label: impl Into<String>, event: DpEvent, n_draws: u64) -> Self {
        Self {
            label: label.into(),
            event,
            n_draws,
        }
    }

    /// Creates a Gaussian release with noise chosen by the caller.
    ///
    /// # Errors
    /// [`Error::Param`] if `noise_multiplier` is not finite and positive.
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

    /// Noise standard deviation divided by the L2 sensitivity under add/remove, for a release that
    /// is one Gaussian mechanism on all units. A sampled mechanism has none: its noise multiplier
    /// alone says little about its cost, and a spend for it must not be usable for an unsampled
    /// release.
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

    /// The mechanism, as the accountants use it.
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
