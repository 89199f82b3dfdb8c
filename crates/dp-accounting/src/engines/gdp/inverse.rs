//! The two inverses of the profile, each rounded to the side that promises less.

use dp_core::ApproxDp;

use super::profile::log_delta;
use crate::Result;

/// Returns the smallest epsilon for which a mu-GDP mechanism is (epsilon, delta)-DP, in nats,
/// never below the true value.
///
/// # Arguments
/// `mu` - at least 0. `delta` - probability.
///
/// # Numerics
/// Bisection over the floating-point numbers themselves: at most 64 steps end at two
/// neighbours, whatever the scale. The equation solved is `log_delta(mu, eps) = ln delta - m`
/// with a margin m of 1e-14 + 4e-16 |ln delta| for the error of `log_delta`. That moves epsilon up
/// by m (R(a)/R(a + mu) - 1) in the notation of [`delta`](super::delta): by a relative 1e-13 or
/// less as a rule, more where delta is so near its largest value that epsilon is small.
///
/// | input | result |
/// | --- | --- |
/// | mu = 0, or delta at or above the total variation distance 2 Φ(mu/2) - 1 | 0 |
/// | delta = 0 and mu above 0, mu infinite, NaN, negative | infinity |
///
/// # Examples
/// ```
/// use dp_accounting::gdp::epsilon;
/// assert!((epsilon(1.0, 1e-5) - 4.377178095681225).abs() < 1e-12);
/// ```
#[must_use]
pub fn epsilon(mu: f64, delta: f64) -> f64 {
    if mu.is_nan() || delta.is_nan() || mu < 0.0 || delta < 0.0 {
        return f64::INFINITY;
    }
    let log_target = libm::log(delta) - margin(delta);
    if mu == 0.0 || delta >= 1.0 {
        return 0.0;
    }
    if mu == f64::INFINITY || delta == 0.0 {
        return f64::INFINITY;
    }
    first_true(|eps| log_delta(mu, eps) <= log_target)
}

/// Returns the largest mu for which a mu-GDP mechanism meets `target`, rounded down:
/// `delta(mu, target.epsilon) <= target.delta`, and `epsilon(mu, target.delta) <= target.epsilon`.
///
/// # Errors
/// [`crate::Error::Param`] when the target's epsilon is not finite and positive or its delta
/// does not lie strictly between 0 and 1.
///
/// # Numerics
/// Bisection as in [`epsilon`], with twice its margin so that the second inequality survives
/// rounding. Relative distance to the true value about 1e-14.
///
/// # Examples
/// ```
/// use dp_accounting::gdp::{delta, mu_for};
/// use dp_core::ApproxDp;
/// let mu = mu_for(ApproxDp::target(1.0, 1e-5)?)?;
/// assert!((1.0 / mu - 3.730631634815942).abs() < 1e-12);
/// assert!(delta(mu, 1.0) <= 1e-5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn mu_for(target: ApproxDp) -> Result<f64> {
    let ApproxDp { epsilon, delta } = ApproxDp::target(target.epsilon, target.delta)?;
    let log_target = libm::log(delta) - 2.0 * margin(delta);
    Ok(first_true(|mu| log_delta(mu, epsilon) > log_target).next_down())
}

/// Twice the error of `log_delta` near `delta`.
fn margin(delta: f64) -> f64 {
    1e-14 + 4e-16 * libm::fabs(libm::log(delta))
}

/// The smallest non-negative f64 at which a monotone `test` holds, infinity if at none.
/// The bits of non-negative numbers are ordered as the numbers are, so 64 halvings suffice.
fn first_true(test: impl Fn(f64) -> bool) -> f64 {
    if test(0.0) {
        return 0.0;
    }
    let (mut fails, mut holds) = (0_u64, f64::INFINITY.to_bits());
    while holds - fails > 1 {
        let middle = fails + (holds - fails) / 2;
        if test(f64::from_bits(middle)) {
            holds = middle;
        } else {
            fails = middle;
        }
    }
    f64::from_bits(holds)
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    reason = "exact ends of the range are what is tested"
)]
mod tests {
    use super::*;
    use crate::engines::gdp::delta as delta_at;

    #[test]
    fn edges_are_on_the_safe_side() {
        let infinite = f64::INFINITY;
        let table = [
            (0.0, 1e-5, 0.0),
            (0.0, 0.0, 0.0),
            (1.0, 1.0, 0.0),
            (1.0, 0.5, 0.0),
            (1.0, 0.0, infinite),
            (infinite, 1e-5, infinite),
            (f64::NAN, 1e-5, infinite),
            (1.0, f64::NAN, infinite),
            (-1.0, 0.1, infinite),
            (1.0, -0.1, infinite),
        ];
        for (mu, delta, expected) in table {
            assert_eq!(epsilon(mu, delta), expected, "{mu} {delta}");
        }
    }

    #[test]
    fn epsilon_meets_delta_and_the_number_below_does_not_by_much() {
        for mu in [1e-3, 0.1, 1.0, 4.0, 30.0] {
            for delta in [1e-300, 1e-30, 1e-9, 1e-3, 1e-1] {
                let eps = epsilon(mu, delta);
                assert!(delta_at(mu, eps) <= delta, "{mu} {delta}");
                let below = eps * (1.0 - 1e-11);
                assert!(eps == 0.0 || delta_at(mu, below) > delta, "{mu} {delta}");
            }
        }
    }

    #[test]
    fn mu_for_holds_both_ways() {
        for eps in [1e-3, 0.1, 1.0, 20.0, 500.0] {
            for delta in [1e-300, 1e-12, 1e-5, 0.3, 0.999] {
                let target = ApproxDp {
                    epsilon: eps,
                    delta,
                };
                let mu = mu_for(target).unwrap();
                assert!(mu > 0.0 && delta_at(mu, eps) <= delta, "{eps} {delta}");
                assert!(epsilon(mu, delta) <= eps, "{eps} {delta}");
                assert!(delta_at(mu * (1.0 + 1e-11), eps) > delta, "{eps} {delta}");
            }
        }
    }

    #[test]
    fn mu_for_refuses_targets_that_cannot_be_aimed_at() {
        for (epsilon, delta) in [(0.0, 0.1), (1.0, 0.0), (1.0, 1.0), (f64::NAN, 0.1)] {
            assert!(mu_for(ApproxDp { epsilon, delta }).is_err());
        }
    }
}
