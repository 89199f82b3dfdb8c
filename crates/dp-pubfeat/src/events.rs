//! Planned events: Gaussian releases on everybody or on a Poisson sample.

use dp_accounting::{PlannedRelease, ReleaseRequest, Requests};
use dp_core::{DpEvent, ReplaceFactor};
use dp_mechanism::PoissonSampling;

use crate::{Error, Result};

/// Coordinates of a vector sum are numbered in 32 bits.
pub(crate) fn check_coordinates(n_coordinates: usize) -> Result<()> {
    if (1..=u32::MAX as usize).contains(&n_coordinates) {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "a sum without coordinates, or with more than 2^32",
    })
}

/// Equal steps of one vector each, on a Poisson sample of the units.
pub(crate) fn sampled_steps(
    name: &'static str,
    n_steps: usize,
    sampling: PoissonSampling,
    n_draws: usize,
) -> Requests {
    Requests::schedule(move |noise_multiplier| {
        let event = sampling.event(DpEvent::gaussian(noise_multiplier));
        let step = |t| PlannedRelease::new(format!("{name} {t}"), event.clone(), n_draws as u64);
        (1..=n_steps).map(step).collect()
    })
}

/// A request of the general replacement factor.
pub(crate) fn request(label: impl Into<String>, share: f64, n_draws: usize) -> ReleaseRequest {
    ReleaseRequest::new(label, share, ReplaceFactor::Two, n_draws as u64)
}
