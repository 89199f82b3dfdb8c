//! delta(mu, epsilon) and its two inverses, each rounded towards the weaker guarantee.

use dp_core::ApproxDp;

use crate::Result;
use crate::engines::quadrature::HALF_LINE;
use crate::engines::rounding::{first_true, two_sum};

/// Returns the smallest delta for which a mu-GDP mechanism is (epsilon, delta)-DP.
///
/// ```text
/// delta = Φ(μ/2 - ε/μ) - exp(ε) Φ(-μ/2 - ε/μ)
///       = φ(a) (R(a) - R(a + μ)),   a = ε/μ - μ/2,   R(x) = Φ(-x)/φ(x)
/// ```
///
/// Source: Balle, Wang 2018, arXiv 1805.06530v2, Theorem 8. The second line follows from
/// exp(ε) φ(a + μ) = φ(a); it neither overflows nor cancels.
///
/// # Arguments
/// `mu` - at least 0. `epsilon` - nats, at least 0.
///
/// # Numerics
/// Relative error below 4e-15 for mu up to 100, including tiny mu and delta down to 1e-300; below
/// 1e-14 for mu up to 1e4, and 3e-12 beyond that together with a > 0 (epsilon above 5e7). Not
/// rounded to either side: [`epsilon`](super::epsilon) and [`mu_for`](super::mu_for) add the
/// margin.
///
/// | input | result |
/// | --- | --- |
/// | mu = 0 | 0 |
/// | mu infinite | 1 |
/// | result below the subnormals | 0 |
/// | NaN, negative mu, negative epsilon | 1, the most conservative value |
///
/// # Examples
/// ```
/// use dp_accounting::gdp::delta;
/// assert!((delta(1.0, 1.0) - 0.126936737506644).abs() < 1e-14);
/// ```
#[must_use]
pub fn delta(mu: f64, epsilon: f64) -> f64 {
    let profile = Profile::at(mu, epsilon);
    (libm::exp(profile.log_scale) * (1.0 + profile.log_scale_rest) * profile.factor).min(1.0)
}

/// Returns the natural logarithm of [`delta`], also if delta itself underflows.
///
/// # Numerics
/// Absolute error below 1e-14 + 2e-16 |ln delta|. Minus infinity for mu = 0, and if even the
/// logarithm is beyond 1e200; 0 if `delta` returns 1.
#[must_use]
pub fn log_delta(mu: f64, epsilon: f64) -> f64 {
    let profile = Profile::at(mu, epsilon);
    (profile.log_scale + (profile.log_scale_rest + libm::log(profile.factor))).min(0.0)
}

/// `delta = exp(log_scale + log_scale_rest) * factor`.
struct Profile {
    log_scale: f64,
    /// The rounding error of `log_scale`; tiny.
    log_scale_rest: f64,
    factor: f64,
}

impl Profile {
    fn at(mu: f64, epsilon: f64) -> Self {
        if mu.is_nan() || epsilon.is_nan() || mu < 0.0 || epsilon < 0.0 || mu == f64::INFINITY {
            return Self::plain(1.0);
        }
        let (a, a_rest) = tail_point(mu, epsilon);
        if mu == 0.0 || a > 1e100 {
            return Self::plain(0.0);
        }
        if mu >= 1.0 && a < 0.0 {
            // delta is at least 0.27 here; the second term is at most half the first.
            let second = normal_density(a) * mills_ratio(a + mu);
            return Self::plain(0.5 * libm::erfc(a * std::f64::consts::FRAC_1_SQRT_2) - second);
        }
        let square = a * a;
        let square_rest = a.mul_add(a, -square) + 2.0 * a * a_rest;
        Self {
            log_scale: -0.5 * square,
            log_scale_rest: -0.5 * square_rest,
            factor: mills_difference(a, mu) * normal_density(0.0),
        }
    }

    const fn plain(delta: f64) -> Self {
        Self {
            log_scale: 0.0,
            log_scale_rest: 0.0,
            factor: delta,
        }
    }
}

/// a = epsilon/mu - mu/2 and its rounding error; delta changes by a factor exp(-a da).
fn tail_point(mu: f64, epsilon: f64) -> (f64, f64) {
    let quotient = epsilon / mu;
    let (a, sum_rest) = two_sum(quotient, -0.5 * mu);
    let quotient_rest = (-quotient).mul_add(mu, epsilon) / mu;
    (a, sum_rest + quotient_rest)
}

fn normal_density(x: f64) -> f64 {
    const AT_ZERO: f64 = 0.398_942_280_401_432_677_94;
    AT_ZERO * libm::exp(-0.5 * x * x)
}

/// R(a) - R(a + mu), where R(x) = Phi(-x) / phi(x) is the Mills ratio of the normal.
///
/// ```text
/// R(a) - R(a + mu) = integral from 0 to infinity of exp(-a s - s^2/2) (1 - exp(-mu s)) ds
/// ```
///
/// The integrand is positive, so nothing cancels; an infinite `mu` gives R(a) itself. It is
/// computed over s = L u, L = 1/(1 + max(a, 0)), by the rule [`HALF_LINE`]. Valid for a >= -1;
/// relative error below 3e-15 for mu up to 1e4 or infinite, 3e-12 beyond.
fn mills_difference(a: f64, mu: f64) -> f64 {
    let length = 1.0 / (1.0 + a.max(0.0));
    let sum: f64 = HALF_LINE
        .iter()
        .map(|&(u, w)| {
            let s = length * u;
            w * libm::exp(-a * s - 0.5 * s * s) * -libm::expm1(-mu * s)
        })
        .sum();
    length * sum
}

/// R(x) = Phi(-x) / phi(x) for x >= -1.
fn mills_ratio(x: f64) -> f64 {
    mills_difference(x, f64::INFINITY)
}

/// Returns the smallest epsilon for which a mu-GDP mechanism is (epsilon, delta)-DP, in nats,
/// never below the true value.
///
/// # Arguments
/// `mu` - at least 0. `delta` - probability.
///
/// # Numerics
/// Bisection over the floating-point numbers themselves: at most 64 steps lead to two adjacent
/// numbers, whatever the scale. The equation solved is `log_delta(mu, eps) = ln delta - m` with a
/// margin m of 1e-14 + 4e-16 |ln delta| for the error of `log_delta`. This increases epsilon by m
/// (R(a)/R(a + mu) - 1) in the notation of [`delta`](super::delta): usually by a relative 1e-13 or
/// less, and by more if delta is so close to its largest value that epsilon is small.
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
/// [`crate::Error::Param`] if the target's epsilon is not finite and positive or its delta does not
/// lie strictly between 0 and 1.
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

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    reason = "exact ends of the range are what is tested"
)]
mod tests {
    use super::*;
    use crate::engines::gdp::delta as delta_at;

    #[test]
    fn no_epsilon_gives_the_total_variation_distance() {
        for mu in [1e-6, 1e-3, 0.25, 1.0, 3.0, 10.0] {
            let expected = libm::erf(mu / 8.0_f64.sqrt());
            assert!((delta(mu, 0.0) / expected - 1.0).abs() < 4e-15, "{mu}");
        }
    }

    #[test]
    fn both_branches_meet() {
        // At mu = 1 the branch changes with the sign of a.
        let (left, right) = (0.5_f64.next_down(), 0.5_f64.next_up());
        assert!((delta(1.0, left) / delta(1.0, right) - 1.0).abs() < 3e-15);
        let (below, above) = (1.0_f64.next_down(), 1.0_f64);
        assert!((delta(below, 0.1) / delta(above, 0.1) - 1.0).abs() < 3e-15);
    }

    #[test]
    fn edges_are_safe() {
        let table = [
            (0.0, 0.0, 0.0),
            (0.0, 3.0, 0.0),
            (f64::INFINITY, 3.0, 1.0),
            (1e200, 3.0, 1.0),
            (1e-3, 1e308, 0.0),
            (1.0, f64::INFINITY, 0.0),
            (1.0, 50.0, 0.0),
            (f64::NAN, 1.0, 1.0),
            (1.0, f64::NAN, 1.0),
            (-1.0, 1.0, 1.0),
            (1.0, -1.0, 1.0),
            (f64::INFINITY, f64::INFINITY, 1.0),
        ];
        for (mu, epsilon, expected) in table {
            let found = delta(mu, epsilon);
            assert!((found - expected).abs() < 1e-300, "{mu} {epsilon}: {found}");
            assert!(log_delta(mu, epsilon) <= 0.0, "{mu} {epsilon}");
        }
        assert!(delta(5e-324, 0.0) >= 0.0 && delta(5e-324, 1.0) >= 0.0);
    }

    #[test]
    fn logarithm_goes_on_where_delta_underflows() {
        assert!(delta(1.0, 50.0) == 0.0);
        let log = log_delta(1.0, 50.0);
        // -a^2/2 with a = 49.5, less ln(sqrt(2 pi) a (a + 1)), up to O(1/a^2).
        let leading = -0.5 * 49.5 * 49.5 - (2.506_628_274_631 * 49.5 * 50.5_f64).ln();
        assert!((log - leading).abs() < 2e-3, "{log} {leading}");
    }

    #[test]
    fn mills_ratio_at_zero_is_root_half_pi() {
        let expected = (0.5 * std::f64::consts::PI).sqrt();
        assert!((mills_ratio(0.0) / expected - 1.0).abs() < 2e-15);
    }

    #[test]
    fn far_out_the_ratio_is_asymptotic() {
        // R(x) = 1/x - 1/x^3 + 3/x^5 - ...
        let x = 1e4_f64;
        let expected = 1.0 / x - 1.0 / (x * x * x);
        assert!((mills_ratio(x) / expected - 1.0).abs() < 2e-15);
    }

    #[test]
    fn difference_adds_up() {
        for (a, m, n) in [(0.0, 0.3, 0.5), (2.0, 1e-3, 4.0), (-0.5, 1.0, 1.0)] {
            let whole = mills_difference(a, m + n);
            let parts = mills_difference(a, m) + mills_difference(a + m, n);
            assert!((parts / whole - 1.0).abs() < 4e-15, "{a} {m} {n}");
        }
    }

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
