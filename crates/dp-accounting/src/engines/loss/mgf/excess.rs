//! Sums of e^{sL} and of e^{sL} - 1 - s (1 - e^{-L}).

/// K at one point, with information on its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogMoment {
    /// K(s), or an upper bound if `exact` is false.
    pub(crate) log: f64,
    /// Whether `log` is the value itself.
    pub(crate) exact: bool,
}

impl LogMoment {
    pub(crate) const fn exact(log: f64) -> Self {
        Self { log, exact: true }
    }

    pub(crate) const fn at_most(log: f64) -> Self {
        Self { log, exact: false }
    }
}

/// Above this log-moment, the sum is computed relative to its largest term.
pub(super) const MODERATE: f64 = 40.0;
/// Above this exponent, the exponential is computed together with its weight.
const LARGE: f64 = 30.0;

/// 2 / k! for k = 2, ..., 16.
const COEFFICIENTS: [f64; 15] = {
    let mut out = [1.0; 15];
    let mut i = 1;
    while i < 15 {
        out[i] = out[i - 1] / (i as f64 + 2.0);
        i += 1;
    }
    out
};

/// φ(x) = e^x - 1 - x >= 0.
pub(crate) fn phi(x: f64) -> f64 {
    if x.abs() > 0.5 {
        return libm::expm1(x) - x;
    }
    // The omitted terms are below 2/17! 2^-15 = 2e-19 of the whole.
    let horner = |acc: f64, c: &f64| acc * x + c;
    0.5 * x * x * COEFFICIENTS.iter().rev().fold(0.0, horner)
}

/// `e^{log_p`} φ(x), p = `e^{log_p`}, for the case that e^x alone might overflow.
fn weighted_phi(log_p: f64, p: f64, x: f64) -> f64 {
    if x > LARGE {
        libm::exp(log_p + x) - p * (1.0 + x)
    } else {
        p * phi(x)
    }
}

/// `e^{log_p`} (φ(s l) + s φ(-l)).
pub(super) fn excess(log_p: f64, s: f64, l: f64) -> f64 {
    let p = libm::exp(log_p);
    weighted_phi(log_p, p, s * l) + s * weighted_phi(log_p, p, -l)
}

/// An outcome: a weight, the log of its density or probability under P, and the loss.
pub(super) type Outcome = (f64, f64, f64);

/// K(s) of all outcomes together; `surplus` is the term that must be added to the sum of excesses
/// to make it E\[e^{sL}\] - 1.
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
