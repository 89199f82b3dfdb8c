//! Composite Gauss-Legendre quadrature for entire or nearly entire integrands.

use super::inversion::whole;
use super::nodes::MAX_NODES;
use crate::engines::gauss_legendre::{N_POINTS, RULE};

/// Largest product of rate and half a panel.
const REACH: f64 = 4.0;

/// More panels have more nodes than any loss may have: what takes more is cut short here and refused
/// for its number of nodes.
const MOST_PANELS: f64 = (MAX_NODES / N_POINTS + 2) as f64;

/// Nodes and weights for an integral from `low` to `high` of a function that grows at most like
/// e^(rate |v|) for a complex displacement v.
///
/// A panel of half-width a has a rate <= 4. On the ellipse with semi-axis sum ρ = 20 around it the
/// function is at most e^(4 (ρ + 1/ρ)/2) = e^40.1 times its largest value on the panel, and the
/// error of the rule at most (64/15) e^40.1 ρ^-40 / (1 - ρ^-2) = e^-78 of that, times the panel
/// (Trefethen, Approximation Theory and Approximation Practice, Theorem 19.3).
pub(super) fn panels(low: f64, high: f64, rate: f64) -> impl Iterator<Item = (f64, f64)> {
    let count = ((high - low) * rate / (2.0 * REACH)).ceil();
    let count = count.clamp(1.0, MOST_PANELS);
    let half = 0.5 * (high - low) / count;
    (0..whole(count)).flat_map(move |i| {
        let middle = low + half * (2.0 * i as f64 + 1.0);
        RULE.iter().map(move |(x, w)| (middle + half * x, half * w))
    })
}

/// The rate, in units of epsilon, of (1 - q + q e^l)^z e^(-epsilon x) with l = epsilon (2 x - 1).
///
/// On the ellipse l moves by |v| <= 80/rate <= 2, so its imaginary part β stays below 2. There
/// the modulus of 1 - q + q e^l is at least cos(β/2) times that of its real counterpart and its
/// argument at most β, and it grows at most like e^|Re v|: all in all the integrand grows by less
/// than exp((t + c + 2) |v|) <= e^40.
pub(super) fn sampled_rate(c: f64, t: f64) -> f64 {
    (2.0 * (c + t + 2.0)).max(40.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_integrated_to_rounding() {
        for rate in [0.01, 1.0, 30.0, 400.0] {
            let found: f64 = panels(-1.0, 2.0, rate)
                .map(|(x, w)| w * (rate * x).cos())
                .sum();
            let expected = ((2.0 * rate).sin() + rate.sin()) / rate;
            assert!(
                (found - expected).abs() < 3e-15,
                "{rate}: {found} {expected}"
            );
        }
    }
}
