//! Gaussian noise on a subset of fixed size.

use super::excess::{LogMoment, MODERATE, Outcome, log_moment as collect};
use super::integrand::{Base, Form, Integrand, LOG_NORMAL, Ratio};
use super::panels;

/// Beyond the largest peak the integrand decreases like a normal density; at this many standard
/// deviations it is e^{-800} of its peak.
const REACH: f64 = 40.0;

/// K(s). The losses above 0 are those of ((1-q) Q + q P, Q), and by the symmetry of the normal
/// those below 0 are the losses of (Q, (1-q) Q + q P), both in the region where P is more likely
/// than Q, which is y > μ/2 for Q = N(0, 1): the two halves of the Poisson-sampled mechanism. At
/// L = 0 the excess is 0.
pub(super) fn log_moment(mu: f64, q: f64, s: f64) -> LogMoment {
    integrated(mu, q, s).map_or_else(|| LogMoment::at_most(bound(mu, q, s)), LogMoment::exact)
}

fn integrated(mu: f64, q: f64, s: f64) -> Option<f64> {
    let ratio = Ratio::gaussian([0.0, mu].into_iter(), &[1.0 - q, q]);
    let form = |here| Form::new(0.0, here, 0.0);
    let base = Base::Normal;
    let integrand = |p, loss| {
        Integrand {
            ratio: &ratio,
            base,
            p,
            loss,
            s,
        }
        .oriented()
    };
    let halves = [
        integrand(form(1.0), form(1.0)),
        integrand(form(0.0), form(-1.0)),
    ];
    let s = halves[0].s;
    let variation = q * libm::erf(0.5 * mu * std::f64::consts::FRAC_1_SQRT_2);
    let floor = libm::log(0.5 * s.abs() * variation * variation);
    let from = 0.5 * mu;
    let to = from.max((s.abs() + 1.0) * mu) + REACH;
    // The mass that neither half has: (1-q) (1 - 2 Q(y > μ/2)).
    let nothing = (1.0 - q) * libm::erf(0.5 * mu * std::f64::consts::FRAC_1_SQRT_2);
    let mut outcomes: Vec<Outcome> = vec![(nothing, 0.0, 0.0)];
    for half in &halves {
        panels::append(&mut outcomes, half, (from, to), LOG_NORMAL, floor)?;
    }
    Some(collect(outcomes.iter().copied(), s, 0.0))
}

/// A bound for cases too extreme to integrate: by convexity, each half has at most 1 - q + q e^{K}
/// with K that of the Gaussian pair. The pair is symmetric, so K(s) = K(-1-s), and K is at most 0
/// in between.
fn bound(mu: f64, q: f64, s: f64) -> f64 {
    let s = s.max(-1.0 - s);
    if s <= 0.0 {
        return 0.0;
    }
    let log = 0.5 * mu * mu * s * (s + 1.0);
    let mixed = if log < MODERATE {
        libm::log1p(q * libm::expm1(log))
    } else {
        log
    };
    mixed + std::f64::consts::LN_2
}
