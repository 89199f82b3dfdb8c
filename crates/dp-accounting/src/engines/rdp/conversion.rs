//! From Renyi divergence to (epsilon, delta).

use dp_core::{ParamError, params};

use super::search::{minimum, minimum_on};
use crate::engines::loss::phi;
use crate::{Error, Result};

/// Which theorem converts a Renyi divergence to (epsilon, delta).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Conversion {
    /// epsilon = r + ln(1/delta) / (a-1): Mironov 2017, arXiv 1702.07476, Proposition 3.
    Mironov2017,
    /// epsilon = r + ln(1 - 1/a) - ln(delta a) / (a-1): Canonne, Kamath, Steinke 2020, arXiv
    /// 2004.00010, Proposition 12. Never worse than the first.
    #[default]
    Cks2020,
    /// The best that follows from one order: Asoodeh, Liao, Calmon, Kosut, Sankar 2020, arXiv
    /// 2001.05990. Never worse than the second.
    Asoodeh2020,
}

/// Returns the epsilon at `delta` of a mechanism with Renyi divergence `rdp` of order `order`.
///
/// # Arguments
/// `order` - finite, above 1. `rdp` - nats, finite, not negative. `delta` - strictly between 0 and 1.
///
/// # Returns
/// Nats. The closed forms are not clipped: a value below 0 means that even epsilon = 0 holds with a
/// smaller delta. [`Conversion::Asoodeh2020`] is computed for epsilon >= 0 only.
///
/// # Errors
/// [`Error::Param`] for an argument out of its range.
///
/// # Numerics
/// Closed forms with ordinary rounding, error below 4 units in the last place of the largest term;
/// the third to 1e-12, rounded up.
///
/// # Examples
/// ```
/// use dp_accounting::rdp::conversion::{Conversion, epsilon};
/// let cks = epsilon(8.0, 0.5, 1e-5, Conversion::Cks2020)?;
/// assert!((cks - 1.7141091678455334).abs() < 1e-12);
/// assert!(epsilon(8.0, 0.5, 1e-5, Conversion::Asoodeh2020)? < cks);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
pub fn epsilon(order: f64, rdp: f64, delta: f64, conversion: Conversion) -> Result<f64> {
    check(order, rdp)?;
    params::open_unit("delta", delta)?;
    let s = order - 1.0;
    Ok(match conversion {
        Conversion::Mironov2017 => rdp - libm::log(delta) / s,
        Conversion::Cks2020 => rdp + (log_tail(s) - libm::log(delta)) / s,
        Conversion::Asoodeh2020 => {
            let start = rdp + (log_tail(s) - libm::log(delta)) / s;
            best_epsilon(s, rdp, libm::log(delta), start)
        }
    })
}

/// Returns the delta at `epsilon` of a mechanism with Renyi divergence `rdp` of order `order`.
///
/// # Arguments
/// As in [`epsilon`](fn@epsilon); `epsilon` - nats, finite, not negative.
///
/// # Returns
/// A probability, at most 1.
///
/// # Errors
/// [`Error::Param`] for an argument out of its range.
///
/// # Examples
/// ```
/// use dp_accounting::rdp::conversion::{Conversion, delta};
/// let best = delta(8.0, 0.5, 2.0, Conversion::Asoodeh2020)?;
/// assert!((best / 1.3108671872635764e-6 - 1.0).abs() < 1e-9);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
pub fn delta(order: f64, rdp: f64, epsilon: f64, conversion: Conversion) -> Result<f64> {
    check(order, rdp)?;
    params::finite_non_negative("epsilon", epsilon)?;
    let s = order - 1.0;
    let log_delta = match conversion {
        Conversion::Mironov2017 => s * (rdp - epsilon),
        Conversion::Cks2020 => s * (rdp - epsilon) + log_tail(s),
        Conversion::Asoodeh2020 => best_log_delta(s, rdp, epsilon),
    };
    Ok(libm::exp(log_delta).min(1.0))
}

fn check(order: f64, rdp: f64) -> Result<()> {
    if !(order.is_finite() && order > 1.0) {
        return Err(Error::Param(ParamError {
            name: "order",
            value: order,
            expected: "a finite number above 1",
        }));
    }
    params::finite_non_negative("rdp", rdp)?;
    Ok(())
}

/// ln of the largest (1 - e^{-t}) e^{-st} over t >= 0: s ln(s / (s+1)) - ln(s+1).
///
/// It converts a moment to a delta: (1 - e^{ε-L})_+ <= e^{s(L-ε)} times it, so with K(s) = ln
/// `E_P`[e^{sL}; L finite]
///
/// ```text
/// δ(ε) <= P(L = ∞) + e^{K(s) - sε + log_tail(s)}
/// ```
pub(crate) fn log_tail(s: f64) -> f64 {
    -s * libm::log1p(1.0 / s) - libm::log1p(s)
}

/// ln delta at `epsilon` >= 0; s = a - 1. The best bound that follows from one Renyi divergence.
///
/// With X = dP/dQ, delta(epsilon) is `E_Q`[(X - γ)_+] for γ = e^epsilon, and the known facts about
/// X are X >= 0, `E_Q` X = 1 and `E_Q` X^a <= C = e^{(a-1) r}. By weak duality every function
/// ψ(x) = α (x^a - y^a - a y^{a-1} (x - y)) with α > 0, 0 <= y < 1 that is nowhere below (x - γ)_+ gives
/// delta <= `E_Q` ψ(X) <= α (C - y^a - a y^{a-1} (1 - y)). ψ is convex with a double zero at y; the
/// smallest α lets it touch x - γ at some x > γ:
///
/// ```text
/// α a (x^{a-1} - y^{a-1}) = 1,   (a-1) x = a γ (1 - ρ) + (a-1) ρ y,   ρ = (y/x)^{a-1}
/// δ(y) = (C - y^a - a y^{a-1} (1 - y)) / (a x^{a-1} (1 - ρ))
/// ```
///
/// At y = 0 the slope there may also be positive; then the best x is e^r and δ = 1 - e^{ε-r}, which
/// requires e^r >= γ a/(a-1), and is attained by X = 0 or e^r. With slope 0, y = 0 is the formula
/// of Canonne, Kamath and Steinke; the smallest δ(y) is the two-point optimum of Asoodeh et al.
/// (arXiv 2001.05990), where x and y are the two likelihood ratios. Because any y gives a bound, an
/// inexact minimum errs on the safe side.
fn best_log_delta(s: f64, rdp: f64, epsilon: f64) -> f64 {
    if rdp >= epsilon + libm::log1p(1.0 / s) {
        return libm::log(-libm::expm1(epsilon - rdp));
    }
    let at = |l: f64| log_delta_at(s, rdp, epsilon, l);
    // y = e^-l; beyond 40 / s, y^s is negligible
    let (low, high) = (1e-9, 40.0 / s + 40.0);
    let points: Vec<f64> = (0..=48)
        .map(|i| low * libm::exp(f64::from(i) / 48.0 * libm::log(high / low)))
        .collect();
    let (i, _) = minimum_on(&points, None, at);
    let around = (points[i.max(1) - 1], points[(i + 1).min(48)]);
    let (_, best) = minimum(around.0, around.1, 48, at);
    let plain = s * (rdp - epsilon) + log_tail(s);
    best.min(plain).min(0.0)
}

/// ln δ(y) for y = e^-l.
fn log_delta_at(s: f64, rdp: f64, epsilon: f64, l: f64) -> f64 {
    let log_x = touching_point(s, epsilon, l);
    let log_rho = -s * (l + log_x);
    log_moment_gap(s, rdp, l) - libm::log1p(s) - s * log_x - libm::log(-libm::expm1(log_rho))
}

/// ln(C - y^a - a y^{a-1} (1 - y)) = ln(C - 1 + y^s (φ(sl) + s φ(-l))), both parts positive.
fn log_moment_gap(s: f64, rdp: f64, l: f64) -> f64 {
    let rest = if s * l > 30.0 {
        1.0 - libm::exp(-s * l) * (1.0 + s * l - s * phi(-l))
    } else {
        libm::exp(-s * l) * (phi(s * l) + s * phi(-l))
    };
    if s * rdp > 30.0 {
        return s * rdp + libm::log1p((rest - 1.0) * libm::exp(-s * rdp));
    }
    libm::log(libm::expm1(s * rdp) + rest)
}

/// ln x for the x > γ where ψ touches x - γ: the root of an increasing function, bracketed by γ and
/// γ a/(a-1).
fn touching_point(s: f64, epsilon: f64, l: f64) -> f64 {
    let (mut low, mut high) = (0.0, libm::log1p(1.0 / s));
    // With x = γ e^u: s e^u - a (1 - ρ) - s ρ y / γ, y/γ = e^{-l - ε}.
    let y = libm::exp(-l - epsilon);
    let residual = |u: f64| {
        let log_rho = -s * (l + epsilon + u);
        let rho = libm::exp(log_rho);
        s * libm::exp(u) + (s + 1.0) * libm::expm1(log_rho) - s * rho * y
    };
    for _ in 0..56 {
        let middle = 0.5 * (low + high);
        if residual(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    epsilon + 0.5 * (low + high)
}

/// The smallest epsilon >= 0, rounded up, at which [`best_log_delta`] is at most `target`; `start`,
/// if positive, is an epsilon that satisfies this.
fn best_epsilon(s: f64, rdp: f64, target: f64, start: f64) -> f64 {
    if start <= 0.0 || best_log_delta(s, rdp, 0.0) <= target {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, start);
    while high - low > 1e-13 * high {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if best_log_delta(s, rdp, middle) <= target {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}
