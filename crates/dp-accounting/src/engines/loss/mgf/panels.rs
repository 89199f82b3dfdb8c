//! Gauss-Legendre panels.

use super::excess::Outcome;
use super::integrand::Integrand;
use crate::engines::quadrature::{GAUSS_LEGENDRE, Judgement, relevant};

/// Largest change of the log-integrand over a panel.
const VARIATION: f64 = 4.0;
/// The zeros of the ratio 1 - q + q e^{cy} are at distance π/c from the line, above and below the
/// point where both terms are equal. Panels are no longer than this over c, or than their
/// distance from that point, which keeps the zeros out of the ellipse of analyticity with
/// semi-axes 2.1 and 1.9 half-lengths: error 4^-40.
const LENGTH: f64 = 1.5;
/// Terms below e^-DROP of the largest are omitted.
const DROP: f64 = 50.0;

/// Maximum number of panels of an integral: a few milliseconds.
const MOST: usize = 4096;

/// Appends the nodes of `integrand` times `e^{log_scale}` on `[from, to]`. Terms below e^{floor}
/// may be omitted. `None` if this takes too many panels.
pub(super) fn append(
    outcomes: &mut Vec<Outcome>,
    integrand: &Integrand<'_>,
    range: (f64, f64),
    log_scale: f64,
    floor: f64,
) -> Option<()> {
    for (a, b) in panels(integrand, range, log_scale, floor - DROP)? {
        let (middle, half) = (0.5 * (a + b), 0.5 * (b - a));
        for &(x, w) in GAUSS_LEGENDRE.iter() {
            let (log_p, loss) = integrand.outcome(half.mul_add(x, middle));
            outcomes.push((half * w, log_scale + log_p, loss));
        }
    }
    Some(())
}

fn panels(
    integrand: &Integrand<'_>,
    range: (f64, f64),
    log_scale: f64,
    floor: f64,
) -> Option<Vec<(f64, f64)>> {
    let forms = integrand.envelope();
    let (crossing, slope) = integrand.ratio.crossing();
    let judge = |a: f64, b: f64| {
        let bracket = integrand.bracket(a, b);
        let (mut upper, mut steep) = (f64::NEG_INFINITY, 0.0_f64);
        for &form in &forms {
            let bound = log_scale + bracket.upper(form) + libm::log((b - a).max(1.0));
            upper = upper.max(bound);
            if bound >= floor {
                steep = steep.max(bracket.steepness(form));
            }
        }
        let to = |point: f64| (a - point).max(point - b);
        let distance = if integrand.two_sided() {
            to(crossing).min(to(-crossing))
        } else {
            to(crossing)
        };
        Judgement {
            upper,
            reached: integrand.reached(0.5 * (a + b), log_scale),
            small: b - a <= distance.max(LENGTH / slope) && steep * (b - a) <= VARIATION,
        }
    };
    relevant(range, floor, DROP, MOST, judge)
}
