//! Laplace noise on a Poisson sample.

use super::excess::{LogMoment, Outcome, log_moment as collect};
use super::integrand::{Base, Form, Integrand, Ratio};
use super::panels;
use crate::engines::loss::Side;

/// ln of the density of λ under the noise over e^{-λ/2}, times e^{ε/2}: 1/4.
const LOG_QUARTER: f64 = -2.0 * std::f64::consts::LN_2;

/// K(s). Without the unit, the noise N is centred at 0, with it at 1, so λ = ln dW/dN = ε (|x| -
/// |x-1|) has the values -ε (x < 0, probability 1/2 under N) and ε (x > 1, probability e^{-ε}/2),
/// and density e^{-(λ+ε)/2} / 4 in between. With R = 1 - q + q e^λ and ℓ = ln R:
///
/// * remove: P has density R over N, L = ℓ; add: P = N, L = -ℓ;
/// * replace: the other unit moves the noise to -1. For x > 0 that ratio is R(-ε), so L is ℓ(λ) -
///   ℓ(-ε) there, and for x < 0 the reverse; P has density R again.
pub(super) fn log_moment(epsilon: f64, q: f64, side: Side, s: f64) -> LogMoment {
    integrated(epsilon, q, side, s).map_or_else(
        || LogMoment::at_most(bound(epsilon, q, side, s)),
        LogMoment::exact,
    )
}

/// A bound for cases too extreme to integrate: no loss exceeds the largest, and below s = -1, K(s)
/// of (P, Q) is K(-1-s) of (Q, P). In between, K is at most 0.
fn bound(epsilon: f64, q: f64, side: Side, s: f64) -> f64 {
    let reversed = match side {
        Side::Remove => Side::Add,
        Side::Add => Side::Remove,
        Side::Replace => Side::Replace,
    };
    if s > 0.0 {
        s * max_loss(epsilon, q, side)
    } else if s < -1.0 {
        (-1.0 - s) * max_loss(epsilon, q, reversed)
    } else {
        0.0
    }
}

fn integrated(epsilon: f64, q: f64, side: Side, s: f64) -> Option<f64> {
    let ratio = Ratio::sampled(q);
    let (low, high) = (ratio.log(-epsilon), ratio.log(epsilon));
    let rare = -epsilon - std::f64::consts::LN_2;
    let form = |constant, here| Form::new(constant, here, 0.0);
    let (atoms, pieces): (Vec<Outcome>, Vec<(Form, Form)>) = match side {
        Side::Remove => (
            vec![(0.5, low, low), (1.0, rare + high, high)],
            vec![(form(0.0, 1.0), form(0.0, 1.0))],
        ),
        Side::Add => (
            vec![(0.5, 0.0, -low), (1.0, rare, -high)],
            vec![(form(0.0, 0.0), form(0.0, -1.0))],
        ),
        Side::Replace => (
            vec![
                (1.0, rare + high, high - low),
                (1.0, rare + low, low - high),
            ],
            vec![
                (form(0.0, 1.0), form(-low, 1.0)),
                (form(low, 0.0), form(low, -1.0)),
            ],
        ),
    };
    let mut integrands: Vec<Integrand<'_>> = Vec::new();
    for (p, loss) in pieces {
        let base = Base::Exponential;
        integrands.push(
            Integrand {
                ratio: &ratio,
                base,
                p,
                loss,
                s,
            }
            .oriented(),
        );
    }
    let swap = s < -0.5;
    let oriented = if swap { -1.0 - s } else { s };
    let atoms = atoms.into_iter().map(|(w, log_p, loss)| {
        if swap {
            (w, log_p - loss, -loss)
        } else {
            (w, log_p, loss)
        }
    });
    let mut outcomes: Vec<Outcome> = atoms.collect();
    // E[e^{sL}] - 1 is at least about |s| times the square of the total variation.
    let variation = q * -libm::expm1(-0.5 * epsilon);
    let floor = libm::log(0.5 * oriented.abs() * variation * variation);
    let log_scale = LOG_QUARTER - 0.5 * epsilon;
    for integrand in &integrands {
        let range = (-epsilon, epsilon);
        panels::append(&mut outcomes, integrand, range, log_scale, floor)?;
    }
    Some(collect(outcomes.iter().copied(), oriented, 0.0))
}

/// The loss at an end of the range of λ.
pub(super) fn max_loss(epsilon: f64, q: f64, side: Side) -> f64 {
    let ratio = Ratio::sampled(q);
    let (low, high) = (ratio.log(-epsilon), ratio.log(epsilon));
    match side {
        Side::Remove => high,
        Side::Add => -low,
        Side::Replace => high - low,
    }
}
