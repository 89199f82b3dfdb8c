//! Normal tails.

use std::f64::consts::FRAC_1_SQRT_2;

use super::{Edge, Tail, ULP};

/// Tails of N(`mean`, `sigma`^2) at x, from one erfc. The error counts the rounding of the
/// standardised point, which moves the tail by at most (|z| + 1) dz relatively.
pub(super) fn tail(x: f64, mean: f64, sigma: f64) -> Tail {
    let z = (x - mean) / sigma;
    let small = 0.5 * libm::erfc(z.abs() * FRAC_1_SQRT_2);
    let size = (x.abs() + mean.abs()) / sigma;
    // A tail of 0 is within the absolute floor of `difference`, whatever the rounding.
    let error = if small > 0.0 {
        ULP * (4.0 + 2.0 * (z.abs() + 1.0) * size)
    } else {
        4.0 * ULP
    };
    let tail = Tail {
        above: small,
        below: 1.0 - small,
        error,
    };
    if z >= 0.0 { tail } else { tail.reversed() }
}

/// L is N(m/2, m) under P and N(-m/2, m) under Q, m = mu^2.
pub(super) fn gaussian(mu_squared: f64, l: f64) -> Edge {
    let mu = mu_squared.sqrt();
    Edge {
        p: tail(l, 0.5 * mu_squared, mu),
        q: tail(l, -0.5 * mu_squared, mu),
        shift: 0.0,
    }
}
