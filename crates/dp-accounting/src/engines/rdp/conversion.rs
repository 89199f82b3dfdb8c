//! From Renyi divergence to (epsilon, delta).

use dp_core::{ParamError, params};

use super::asoodeh;
use crate::{Error, Result};

/// Which theorem turns a Renyi divergence into (epsilon, delta).
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
/// Nats. The closed forms are not clipped: below 0 they say that even epsilon = 0 holds with a
/// smaller delta. [`Conversion::Asoodeh2020`] is found for epsilon >= 0 only.
///
/// # Errors
/// [`Error::Param`] for an argument out of its range.
///
/// # Numerics
/// Closed forms in usual rounding, error below 4 units in the last place of the largest term; the
/// third to 1e-12, rounded up.
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
            asoodeh::epsilon(s, rdp, libm::log(delta), start)
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
        Conversion::Asoodeh2020 => asoodeh::log_delta(s, rdp, epsilon),
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
/// It is what turns a moment into a delta: (1 - e^{ε-L})_+ <= e^{s(L-ε)} times it, so with
/// K(s) = ln `E_P`[e^{sL}; L finite]
///
/// ```text
/// δ(ε) <= P(L = ∞) + e^{K(s) - sε + log_tail(s)}
/// ```
pub(crate) fn log_tail(s: f64) -> f64 {
    -s * libm::log1p(1.0 / s) - libm::log1p(s)
}
