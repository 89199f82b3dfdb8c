//! Planned events: Gaussian releases on everybody or on a Poisson sample.

use dp_accounting::{Plan, PlannedRelease, ReleaseRequest};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor};
use dp_mechanism::{Grid, PoissonSampling};

use crate::{Error, Result};

/// Whether two events are the same mechanism but for the amount of noise.
pub(crate) fn same_kind(a: &DpEvent, b: &DpEvent) -> bool {
    match (a, b) {
        (
            DpEvent::Gaussian {
                replace_factor: a, ..
            },
            DpEvent::Gaussian {
                replace_factor: b, ..
            },
        ) => a == b,
        (
            DpEvent::PoissonSampled {
                sampling_probability: p,
                event: a,
            },
            DpEvent::PoissonSampled {
                sampling_probability: q,
                event: b,
            },
        ) => p.to_bits() == q.to_bits() && same_kind(a, b),
        _ => false,
    }
}

/// The noise multiplier of a Gaussian, sampled or not.
pub(crate) fn noise_multiplier(event: &DpEvent) -> Result<f64> {
    match event {
        &DpEvent::Gaussian {
            noise_multiplier, ..
        } => Ok(noise_multiplier),
        DpEvent::PoissonSampled { event, .. } => noise_multiplier(event),
        _ => Err(dp_accounting::Error::NotGaussian {
            what: "a release".to_owned(),
        }
        .into()),
    }
}

/// The requests as releases, with noise 1: what a plan for them looks like.
pub(crate) fn wanted(requests: &[ReleaseRequest]) -> Vec<PlannedRelease> {
    let planned = requests.iter().map(|request| {
        let event = DpEvent::Gaussian {
            noise_multiplier: 1.0,
            replace_factor: request.replace_factor,
        };
        PlannedRelease::new(request.label.clone(), event, request.n_draws)
    });
    planned.collect()
}

/// A calibrated plan with every grid tried once, so that nothing is paid for that could not be released.
pub(crate) fn plan(
    requests: &[ReleaseRequest],
    target: ApproxDp,
    adjacency: Adjacency,
) -> Result<Plan> {
    let plan = Plan::calibrate(target, adjacency, requests)?;
    try_grids(&plan)?;
    Ok(plan)
}

pub(crate) fn try_grids(plan: &Plan) -> Result<()> {
    for release in plan.releases() {
        Grid::new(noise_multiplier(release.event())?, 1.0)?;
    }
    Ok(())
}

/// Equal steps of one vector each, on a Poisson sample of the units.
pub(crate) fn sampled_steps(
    name: &str,
    n_steps: usize,
    sampling: PoissonSampling,
    noise_multiplier: f64,
    n_draws: usize,
) -> Vec<PlannedRelease> {
    let event = sampling.event(DpEvent::gaussian(noise_multiplier));
    let step = |t| PlannedRelease::new(format!("{name} {t}"), event.clone(), n_draws as u64);
    (1..=n_steps).map(step).collect()
}

/// A request of the general replacement factor.
pub(crate) fn request(label: impl Into<String>, share: f64, n_draws: usize) -> ReleaseRequest {
    ReleaseRequest::new(label, share, ReplaceFactor::Two, n_draws as u64)
}

/// Coordinates of a vector sum are numbered in 32 bits.
pub(crate) fn check_coordinates(n_coordinates: usize) -> Result<()> {
    if (1..=u32::MAX as usize).contains(&n_coordinates) {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "a sum without coordinates, or with more than 2^32",
    })
}
