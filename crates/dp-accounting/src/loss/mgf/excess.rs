//! Sums of e^{sL} and of e^{sL} - 1 - s (1 - e^{-L}).

/// Above this log-moment the sum is taken relative to its largest term.
pub(super) const MODERATE: f64 = 40.0;
/// Above this exponent the exponential is formed together with its weight.
const LARGE: f64 = 30.0;

/// φ(x) = e^x - 1 - x >= 0.
pub(crate) fn phi(x: f64) -> f64 {
    if x.abs() > 0.5 {
        return libm::expm1(x) - x;
    }
    // x^2/2 (1 + x/3 (1 + x/4 (...))): the terms beyond k = 18 are below 1e-20 of the first.
    let tail = (3..=18)
        .rev()
        .fold(1.0, |acc, k| 1.0 + x / f64::from(k) * acc);
    0.5 * x * x * tail
}

/// e^{log_p} φ(x) where e^x alone might overflow.
fn weighted_phi(log_p: f64, x: f64) -> f64 {
    if x > LARGE {
        libm::exp(log_p + x) - libm::exp(log_p) * (1.0 + x)
    } else {
        libm::exp(log_p) * phi(x)
    }
}

/// e^{log_p} (φ(s l) + s φ(-l)).
pub(super) fn excess(log_p: f64, s: f64, l: f64) -> f64 {
    weighted_phi(log_p, s * l) + s * weighted_phi(log_p, -l)
}

/// An outcome: a weight, the log of its density or probability under P, and the loss.
pub(super) type Outcome = (f64, f64, f64);

/// K(s) of all outcomes together; `surplus` is what has to be added to the sum of excesses to
/// make it E\[e^{sL}\] - 1.
pub(super) fn log_moment(
    outcomes: impl Iterator<Item = Outcome> + Clone,
    s: f64,
    surplus: f64,
) -> f64 {
    let exponent = |&(_, log_p, loss): &Outcome| log_p + s * loss;
    let largest = outcomes
        .clone()
        .map(|o| exponent(&o))
        .fold(f64::NEG_INFINITY, f64::max);
    if largest <= MODERATE {
        let sum: f64 = outcomes
            .clone()
            .map(|(weight, log_p, loss)| weight * excess(log_p, s, loss))
            .sum();
        if sum + surplus > -0.5 {
            return libm::log1p(sum + surplus);
        }
    }
    let sum: f64 = outcomes
        .map(|o| o.0 * libm::exp(exponent(&o) - largest))
        .sum();
    largest + libm::log(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phi_is_continuous_where_the_branches_meet() {
        for x in [0.5_f64, -0.5] {
            let direct = libm::expm1(x) - x;
            assert!((phi(x) / direct - 1.0).abs() < 1e-15);
        }
        assert!((phi(1e-9) / 5e-19 - 1.0).abs() < 1e-9);
    }
}
