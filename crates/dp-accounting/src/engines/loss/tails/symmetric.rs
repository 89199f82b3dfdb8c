//! Losses whose distribution is the same in both directions, built from their positive half, and
//! those of Laplace noise: truncated exponentials between two atoms.

use super::super::Side;
use super::mixture::log_expm1;
use super::tail::{Edge, Tail, ULP, normal};

/// No continuous part.
pub(super) const NOTHING: Edge = Edge {
    p: Tail {
        above: 0.0,
        below: 0.0,
        error: 0.0,
    },
    q: Tail {
        above: 0.0,
        below: 0.0,
        error: 0.0,
    },
    shift: 0.0,
};

/// Masses of {L > l} for l >= 0 under P and under Q, with their relative error and the error of the
/// point.
pub(super) struct Half {
    pub(super) p: f64,
    pub(super) q: f64,
    pub(super) error: f64,
    pub(super) shift: f64,
}

/// Completes `half` by L -> -L, which exchanges P and Q.
pub(super) fn complete(l: f64, half: impl Fn(f64) -> Half) -> Edge {
    let (zero, at) = (half(0.0), half(l.abs()));
    let tail = |above: f64, same: f64, other: f64| Tail {
        above,
        below: other + (same - above).max(0.0),
        error: at.error + zero.error + 2.0 * ULP,
    };
    let edge = Edge {
        p: tail(at.p, zero.p, zero.q),
        q: tail(at.q, zero.q, zero.p),
        shift: at.shift,
    };
    if l >= 0.0 { edge } else { edge.exchanged() }
}

/// e^l = 1 - q + q e^m solved for m >= 0.
pub(super) fn unsampled(l: f64, q: f64) -> f64 {
    if l < 1.0 {
        libm::log1p(libm::expm1(l) / q)
    } else {
        l - libm::log(q) + libm::log1p(-(1.0 - q) * libm::exp(-l))
    }
}

/// The Gaussian pair at distance mu on a subset of fixed size.
pub(super) fn without_replacement(mu: f64, q: f64, l: f64) -> Edge {
    complete(l, |l| positive_half(mu, q, l))
}

/// P(L > 0) and Q(L > 0) of the same.
pub(super) fn without_replacement_sides(mu: f64, q: f64) -> (f64, f64) {
    let half = positive_half(mu, q, 0.0);
    (half.p, half.q)
}

fn positive_half(mu: f64, q: f64, l: f64) -> Half {
    let full = unsampled(l, q);
    let with = normal(full / mu, 0.5 * mu, 1.0);
    let without = normal(full / mu, -0.5 * mu, 1.0);
    Half {
        p: q * with.above + (1.0 - q) * without.above,
        q: without.above,
        error: with.error.max(without.error) + 4.0 * ULP,
        shift: 4.0 * ULP * (l + l.min(1.0) * (full + 1.0)),
    }
}

const ERROR: f64 = 6.0 * ULP;

/// (e^(t/2) - e^(-epsilon)) and its complement up to t = 0, times `scale`; t in [-2 epsilon, 0].
fn truncated(epsilon: f64, t: f64, scale: f64) -> Tail {
    let from_left = t + 2.0 * epsilon;
    Tail {
        above: -libm::expm1(0.5 * t) * scale,
        below: -libm::expm1(-0.5 * from_left) * libm::exp(0.5 * t) * scale,
        error: ERROR,
    }
}

fn pair(epsilon: f64, t: f64, scale: f64) -> Edge {
    let t = t.clamp(-2.0 * epsilon, 0.0);
    Edge {
        p: truncated(epsilon, t, scale),
        q: truncated(epsilon, -2.0 * epsilon - t, scale).reversed(),
        shift: 2.0 * ULP * epsilon,
    }
}

/// P-density e^((l - epsilon)/2) / 4 between the atoms.
pub(super) fn laplace(epsilon: f64, t: f64) -> Edge {
    pair(epsilon, t, 0.5)
}

/// The same without atoms, with total mass 1.
pub(super) fn bounded_range(epsilon: f64, t: f64) -> Edge {
    pair(epsilon, t, -1.0 / libm::expm1(-epsilon))
}

/// ln(1 - q + q e^-epsilon), the smallest loss of the sampled mechanism.
pub(super) fn bottom(epsilon: f64, q: f64) -> f64 {
    libm::log1p(q * libm::expm1(-epsilon))
}

/// The largest loss minus the smallest.
pub(super) fn spread(epsilon: f64, q: f64) -> f64 {
    let low = 1.0 + q * libm::expm1(-epsilon);
    if epsilon < 30.0 {
        libm::log1p(2.0 * q * libm::sinh(epsilon) / low)
    } else {
        epsilon + libm::log(q + (1.0 - q) * libm::exp(-epsilon)) - libm::log(low)
    }
}

/// The unsampled loss, measured from its maximum, at which the sampled loss is `t` above its
/// minimum.
fn unsampled_laplace(epsilon: f64, q: f64, t: f64) -> f64 {
    let low = 1.0 + q * libm::expm1(-epsilon);
    let log_grown = log_expm1(t) + libm::log(low) - libm::log(q) + epsilon;
    let from_bottom = if log_grown > 37.0 {
        log_grown
    } else {
        libm::log1p(libm::exp(log_grown))
    };
    (from_bottom - 2.0 * epsilon).clamp(-2.0 * epsilon, 0.0)
}

pub(super) fn sampled_laplace(epsilon: f64, q: f64, side: Side, t: f64) -> Edge {
    match side {
        Side::Remove => removed(epsilon, q, t),
        Side::Add => removed(epsilon, q, -t).exchanged(),
        Side::Replace => complete(t, |t| replaced(epsilon, q, t)),
    }
}

fn position_error(epsilon: f64, t: f64) -> f64 {
    8.0 * ULP * (t.abs() + t.abs().min(1.0) * (1.0 + epsilon))
}

fn removed(epsilon: f64, q: f64, t: f64) -> Edge {
    let base = laplace(epsilon, unsampled_laplace(epsilon, q, t));
    Edge {
        p: base.p.mixed(q, base.q),
        q: base.q,
        shift: position_error(epsilon, t),
    }
}

/// Noise centred at 0 or 1 against noise centred at 0 or -1: on each side of 0, both share the
/// component centred at 0.
fn replaced(epsilon: f64, q: f64, t: f64) -> Half {
    let base = laplace(epsilon, unsampled_laplace(epsilon, q, t));
    let shared = (1.0 - q) * base.q.above;
    Half {
        p: shared + q * base.p.above,
        q: shared + q * libm::exp(-epsilon) * base.q.above,
        error: 2.0 * ERROR,
        shift: position_error(epsilon, t),
    }
}
