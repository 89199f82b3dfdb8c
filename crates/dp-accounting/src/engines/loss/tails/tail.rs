//! The masses on either side of a point, and those of a normal distribution.

use std::f64::consts::FRAC_1_SQRT_2;

/// One rounding error, relative.
pub(crate) const ULP: f64 = f64::EPSILON;

/// The two tails of one measure at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tail {
    /// Mass strictly above.
    pub(crate) above: f64,
    /// Mass strictly below.
    pub(crate) below: f64,
    /// Bound on the relative error of the smaller one.
    pub(crate) error: f64,
}

impl Tail {
    /// The same point on the reversed axis.
    pub(super) const fn reversed(self) -> Self {
        Self {
            above: self.below,
            below: self.above,
            error: self.error,
        }
    }

    /// The mixture of this with weight `weight` and `other` with weight `1 - weight`.
    pub(super) fn mixed(self, weight: f64, other: Self) -> Self {
        Self {
            above: weight * self.above + (1.0 - weight) * other.above,
            below: weight * self.below + (1.0 - weight) * other.below,
            error: self.error.max(other.error) + 2.0 * ULP,
        }
    }
}

/// A point on the axis of a loss with the mass on either side, of the continuous part only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Edge {
    /// Under P.
    pub(crate) p: Tail,
    /// Under Q.
    pub(crate) q: Tail,
    /// Bound on the distance between the requested point and the point that the tails are for.
    pub(crate) shift: f64,
}

impl Edge {
    /// The same point for the loss with P and Q exchanged and the sign reversed.
    pub(super) const fn exchanged(self) -> Self {
        Self {
            p: self.q.reversed(),
            q: self.p.reversed(),
            shift: self.shift,
        }
    }
}

/// The mass between two edges with a bound on its absolute error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mass {
    /// Under P.
    pub(crate) p: f64,
    /// Absolute error of `p`.
    pub(crate) p_error: f64,
    /// Under Q.
    pub(crate) q: f64,
    /// Absolute error of `q`.
    pub(crate) q_error: f64,
}

/// The mass between the edges `a` and `b`, a left of b.
pub(crate) fn mass_between(a: &Edge, b: &Edge) -> Mass {
    let (p, p_error) = difference(a.p, b.p);
    let (q, q_error) = difference(a.q, b.q);
    Mass {
        p,
        p_error,
        q,
        q_error,
    }
}

/// Uses the tails on the side where they are small; each contributes its own error.
fn difference(a: Tail, b: Tail) -> (f64, f64) {
    let (large, small, error) = if b.below < a.above {
        (b.below, a.below, b.error * b.below + a.error * a.below)
    } else {
        (a.above, b.above, a.error * a.above + b.error * b.above)
    };
    // the absolute term covers results that underflow
    ((large - small).max(0.0), error + ULP * large + 1e-307)
}

/// Tails of N(`mean`, `sigma`^2) at x, from one erfc. The error includes the rounding of the
/// standardised point, which changes the tail by at most (|z| + 1) dz relatively.
pub(super) fn normal(x: f64, mean: f64, sigma: f64) -> Tail {
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
        p: normal(l, 0.5 * mu_squared, mu),
        q: normal(l, -0.5 * mu_squared, mu),
        shift: 0.0,
    }
}
