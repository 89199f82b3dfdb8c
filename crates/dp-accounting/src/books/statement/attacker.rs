//! The best possible attacker against a guarantee.

use serde::Serialize;

use crate::Accountant;
use crate::books::allowance::usable_delta;
use crate::books::certificate::{Certificate, Guarantee};
use crate::books::schedule::tightest;

/// The best possible test of whether a given unit took part, against a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Attacker {
    /// How often the test may accuse somebody who did not take part.
    pub false_positive_rate: f64,
    /// How often it then finds somebody who did, at most.
    pub true_positive_rate: f64,
}

/// The attacker of the statement is wrong about 5 in 100 of those who did not take part.
const FALSE_POSITIVE_RATE: f64 = 0.05;

/// The point below which a standard normal falls with that probability.
pub(super) const QUANTILE: f64 = -1.644_853_626_951_472_7;

impl Attacker {
    /// The attacker that the events leave room for, the sampler's part of delta added.
    pub(super) fn against(guarantee: &Guarantee, certificate: &Certificate) -> Self {
        // n TV is at most half the reserve, and no bound rises faster than 20 TPR per FPR here
        let sampler = 11.0 * (guarantee.delta - usable_delta(guarantee.delta));
        let ideal = match guarantee.gdp_mu {
            Some(mu) => 0.5 * libm::erfc(-(QUANTILE + mu) * std::f64::consts::FRAC_1_SQRT_2),
            None => profile_rate(certificate),
        };
        let at_target = rate(guarantee.epsilon, guarantee.delta);
        Self {
            false_positive_rate: FALSE_POSITIVE_RATE,
            true_positive_rate: (ideal + sampler).min(at_target).min(1.0),
        }
    }
}

/// The least bound over a range of the releases' profile; 1 where the accountant does not answer.
fn profile_rate(certificate: &Certificate) -> f64 {
    let events = certificate.releases.iter().map(|release| &release.event);
    let Ok(accountant) = tightest(events, certificate.adjacency) else {
        return 1.0;
    };
    [0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0]
        .into_iter()
        .filter_map(|epsilon| Some(rate(epsilon, accountant.delta(epsilon).ok()?.upper)))
        .fold(1.0, f64::min)
}

/// Largest true-positive rate that (epsilon, delta) allows.
pub(super) fn rate(epsilon: f64, delta: f64) -> f64 {
    let direct = libm::exp(epsilon) * FALSE_POSITIVE_RATE + delta;
    let reverse = 1.0 - libm::exp(-epsilon) * (1.0 - delta - FALSE_POSITIVE_RATE);
    direct.min(reverse).min(1.0)
}
