//! Trapezoidal nodes for mixtures of normals.
//!
//! With x = σ y the integrand N(y) M(x)^p ... is analytic in a strip. On the line Im y = b let
//! β = b s/σ, s the largest shift: |N| grows by e^(b²/2), |M| does not grow and shrinks at most by
//! cos(β/2) (all its terms lie within a cone of opening β), and |arg M| <= β. So |integrand| is
//! at most e^(b²/2 + τ b) cos(β/2)^-n times its value on the real line, τ = t s/σ (twice that for
//! replacement) and n the negative power of M. Two such lines bound the error of the trapezoidal
//! rule with step h, relative to the integral at t = 0, by
//!
//! ```text
//! 2 exp(b²/2 + τ b - n ln cos(β/2)) / (exp(2 π b / h) - 1)
//! ```
//!
//! (Trefethen, Weideman, The exponentially convergent trapezoidal rule, 2014, Theorem 5.1).

use super::contour::KEEP_ALL;
use super::nodes::{Demand, Nodes};
use crate::engines::loss::{MixtureLoss, Side};

/// Most candidates looked at.
const MAX_CANDIDATES: f64 = 2e5;

/// The nodes of a mixture for `demand`, `None` when there would be more than `max_nodes`.
pub(super) fn of(mixture: &MixtureLoss, demand: Demand, max_nodes: usize) -> Option<Nodes> {
    let step = mixture.sigma * step(mixture, demand);
    let (low, high) = range(mixture, demand);
    // What is left out, tilted or not, is below e^-negligible of the largest.
    let negligible = demand.exponent + 6.0;
    let (first, last) = ((low / step).floor(), (high / step).ceil());
    let candidates = last - first;
    if !candidates.is_finite() || candidates > MAX_CANDIDATES {
        return None;
    }
    let log_step = libm::log(step / mixture.sigma);
    let mut all = Nodes::default();
    let (mut top, mut k) = (f64::NEG_INFINITY, first);
    while k <= last {
        let x = k * step;
        let (loss, log_weight) = (mixture.loss_at(x), mixture.log_density(x) + log_step);
        top = top.max(log_weight + demand.c * loss);
        all.push(loss, log_weight);
        k += 1.0;
    }
    if all.len() <= KEEP_ALL {
        return Some(all);
    }
    let mut nodes = Nodes::default();
    for (&loss, &log_weight) in all.loss.iter().zip(&all.log_weight) {
        let tilted = log_weight + demand.c * loss;
        if log_weight > -negligible || tilted > top - negligible {
            nodes.push(loss, log_weight);
        }
    }
    (nodes.len() <= max_nodes).then_some(nodes)
}

/// The step in y, from the best of a few strips.
fn step(mixture: &MixtureLoss, demand: Demand) -> f64 {
    let shift = mixture.largest_shift() / mixture.sigma;
    let (negative_power, phases) = match mixture.side {
        Side::Remove => (0.0, 1.0),
        Side::Add => (demand.c, 1.0),
        Side::Replace => (demand.c, 2.0),
    };
    let widest = (0.98 * std::f64::consts::PI / shift).min(9.0);
    let strips = (1..=48).map(|i| widest * f64::from(i) / 48.0);
    let frequency = strips
        .map(|b| {
            let shrink = -negative_power * libm::log(libm::cos(0.5 * b * shift));
            (demand.exponent + 1.0 + 0.5 * b * b + shrink) / b
        })
        .fold(f64::INFINITY, f64::min);
    2.0 * std::f64::consts::PI / (frequency + phases * demand.t * shift)
}

/// Where the tilted integrand lives; what is outside is below e^-exponent of the whole.
///
/// By convexity, with r the likelihood ratios of the components and s their shifts,
///
/// ```text
/// M(x)^(c+1) <= Σ w r(x)^(c+1)                          and N r^(c+1) is a normal at (c+1) s
/// M(x)^(c+1) M(-x)^-c <= Σ w r(x)^(c+1) r(-x)^-c        and N times that one at (2c+1) s
/// M(x)^-c <= (weight at 0)^-c                           where the first shift is 0
/// ```
pub(super) fn range(mixture: &MixtureLoss, demand: Demand) -> (f64, f64) {
    let (sigma, shift, c) = (mixture.sigma, mixture.largest_shift(), demand.c);
    let reach = (2.0 * (demand.exponent + 4.0)).sqrt();
    match mixture.side {
        Side::Remove => (-reach * sigma, (c + 1.0) * shift + reach * sigma),
        Side::Replace => (-reach * sigma, (2.0 * c + 1.0) * shift + reach * sigma),
        Side::Add => {
            let far = c * shift + reach * sigma;
            let floor = if mixture.shifts.first() == Some(&0.0) {
                -libm::log(mixture.weights[0])
            } else {
                f64::INFINITY
            };
            let near = sigma * (reach * reach + 2.0 * c * floor).sqrt();
            (-far.min(near), reach * sigma)
        }
    }
}
