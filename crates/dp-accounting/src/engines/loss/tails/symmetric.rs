//! Losses whose law is the same in both directions, built from their positive half.

use super::{Edge, Tail, ULP, normal};

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

/// Masses of {L > l} for l >= 0 under P and under Q, with their relative error and the error of
/// the point.
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
    let with = normal::tail(full / mu, 0.5 * mu, 1.0);
    let without = normal::tail(full / mu, -0.5 * mu, 1.0);
    Half {
        p: q * with.above + (1.0 - q) * without.above,
        q: without.above,
        error: with.error.max(without.error) + 4.0 * ULP,
        shift: 4.0 * ULP * (l + l.min(1.0) * (full + 1.0)),
    }
}
