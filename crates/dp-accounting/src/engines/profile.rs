//! The privacy profile of one mechanism that runs once: no composition, no grid.
//!
//! ```text
//! δ(ε) = P(L > ε) - e^ε Q(L > ε)      (both tails at the same point; atoms term by term)
//! ```
//!
//! The difference cancels if the loss beyond ε is small. The resulting error is bounded and
//! included in the bracket, so the result is proved however accurate it is.

use dp_core::Adjacency;

use crate::engines::accountant::{Method, PrivacyBound};
use crate::engines::loss::{Loss, ULP};
use crate::engines::rounding::first_true;
use crate::{Error, Result};

/// Lower and upper bounds on delta of a single mechanism at `epsilon`.
pub(crate) fn single_delta(
    loss: &Loss,
    epsilon: f64,
    adjacency: Adjacency,
) -> Result<PrivacyBound> {
    let (lower, upper) = delta(loss, epsilon)?;
    // a value that is too small to be represented is not 0
    let smallest = f64::from_bits(1);
    let upper = if loss.max_finite() > epsilon {
        upper.max(smallest)
    } else {
        upper
    };
    let middle = 0.5 * (lower + upper);
    Ok(PrivacyBound::bracket(
        middle,
        lower,
        upper,
        Method::Profile,
        adjacency,
    ))
}

/// Lower and upper bounds on epsilon of a single mechanism at `delta`, by bisection over the
/// floating-point numbers.
pub(crate) fn single_epsilon(
    loss: &Loss,
    target: f64,
    adjacency: Adjacency,
) -> Result<PrivacyBound> {
    let infinite_mass = loss.infinite_mass();
    if infinite_mass > target {
        return Err(Error::NoFiniteEpsilon {
            delta: target,
            infinite_mass,
        });
    }
    delta(loss, 0.0)?;
    let bounds = |epsilon: f64| delta(loss, epsilon).unwrap_or((0.0, 1.0));
    let upper = first_true(|epsilon| bounds(epsilon).1 <= target);
    let lower = first_true(|epsilon| bounds(epsilon).0 <= target);
    let lower = if lower > 0.0 { lower.next_down() } else { 0.0 };
    if !upper.is_finite() {
        return Err(unsure());
    }
    Ok(PrivacyBound::bracket(
        upper,
        lower.min(upper),
        upper,
        Method::Profile,
        adjacency,
    ))
}

const fn unsure() -> Error {
    Error::NotCertified {
        method: "profile",
        reason: "the mechanism has too many atoms or its tails are lost in rounding",
    }
}

/// Bounds on delta.
fn delta(loss: &Loss, epsilon: f64) -> Result<(f64, f64)> {
    let atoms = loss.atoms().ok_or_else(unsure)?;
    let anchor = loss.anchor();
    let (mut value, mut error) = density_part(loss, epsilon);
    let place = 2.0 * ULP * (anchor.abs() + epsilon);
    for (t, p) in atoms {
        let beyond = (t + anchor) - epsilon;
        if beyond.is_nan() {
            return Err(unsure());
        }
        if beyond > -place {
            value += p * -libm::expm1(-beyond.max(0.0));
            error += p * (place + 8.0 * ULP * beyond.clamp(0.0, 1.0));
        }
    }
    if !(error < 1.0) {
        return Err(unsure());
    }
    let infinite = loss.infinite_mass();
    let bound = |x: f64| (infinite + x).clamp(0.0, 1.0);
    Ok((
        bound((value - error) * (1.0 - 4.0 * ULP)),
        bound((value + error) * (1.0 + 4.0 * ULP)),
    ))
}

/// The continuous part and a bound on its error.
///
/// The tails are those of a point within `shift` of epsilon. {L > that point} is not the best test
/// at epsilon, but it falls short of the best by at most the mass in between times the shift.
fn density_part(loss: &Loss, epsilon: f64) -> (f64, f64) {
    if let Some(exact) = exponential(loss, epsilon) {
        return exact;
    }
    let Some((low, high)) = loss.reach() else {
        return (0.0, 0.0);
    };
    let t = epsilon - loss.anchor();
    if t >= high {
        return (0.0, 0.0);
    }
    let edge = loss.edge(t.max(low));
    let (p, q) = (edge.p.above, libm::exp(epsilon) * edge.q.above);
    if q.is_nan() {
        return (0.0, p);
    }
    // for the larger tail, the error is that of its complement
    let relative = |tail: crate::engines::loss::Tail| {
        tail.error * tail.above.min(tail.below) + ULP * tail.above
    };
    let rounding = relative(edge.p)
        + libm::exp(epsilon) * relative(edge.q)
        + q * ULP * (4.0 + epsilon)
        + p * (edge.shift + ULP * (epsilon + loss.anchor().abs()));
    let value = (p - q).max(0.0).min(p);
    (value, rounding.min(p + 1e-307))
}

/// Truncated exponentials, without cancellation: with largest loss m and scale A, ∫ from ε to m of
/// (1 - e^(ε - l)) dP = A (1 - e^((ε - m)/2))².
fn exponential(loss: &Loss, epsilon: f64) -> Option<(f64, f64)> {
    let (top, scale) = match *loss {
        Loss::Laplace { epsilon } => (epsilon, 0.5),
        Loss::BoundedRange { epsilon } => (epsilon, -1.0 / libm::expm1(-epsilon)),
        _ => return None,
    };
    let below = (top - epsilon).max(0.0);
    let factor = libm::expm1(-0.5 * below);
    let value = scale * factor * factor;
    Some((
        value,
        16.0 * ULP * value + 4.0 * ULP * scale * factor.abs() * top,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::loss::{MixtureLoss, Side};

    fn sampled(sigma: f64, q: f64, side: Side) -> Loss {
        Loss::Mixture(MixtureLoss {
            sigma,
            shifts: vec![0.0, 1.0],
            weights: vec![1.0 - q, q],
            side,
        })
    }

    /// From `tests/pld_values.py`: the closed form with 50 digits.
    #[test]
    fn sampled_gaussian_profile() {
        let table = [
            (1.3, 0.02, 0.4, 1.9622665234684396e-7),
            (0.35, 2e-6, 1.5, 1.3247352526801703e-10),
            (700.0, 0.25, 1e-4, 9.8053811656011298e-5),
            (0.6, 0.05, 40.0, 2.3414519661738435e-140),
        ];
        for (sigma, q, epsilon, expected) in table {
            let (low, high) = delta(&sampled(sigma, q, Side::Remove), epsilon).unwrap();
            assert!(low <= expected * (1.0 + 1e-12) && expected * (1.0 - 1e-12) <= high);
            assert!(high - low <= 1e-8 * expected, "{sigma} {q}: {low} {high}");
        }
    }

    /// Reference value from mpmath with 50 digits.
    #[test]
    fn sampled_gaussian_profile_with_a_tiny_sample() {
        let table = [
            (1.0, 3e-13, 1e-13, Side::Add, 5.274_871_782_180_529_3e-14),
            (1.0, 3e-13, 1e-13, Side::Remove, 8.904_460_958_832_297e-14),
            (0.5, 7e-15, 5e-15, Side::Add, 9.277_719_983_620_779_7e-16),
        ];
        for (sigma, q, epsilon, side, expected) in table {
            let (low, high) = delta(&sampled(sigma, q, side), epsilon).unwrap();
            let found = format!("{sigma} {q}: {low} {high}, not {expected}");
            assert!(low <= expected && expected <= high, "{found}");
        }
    }

    #[test]
    fn laplace_profile_and_its_inverse() {
        let loss = Loss::Laplace { epsilon: 1.0 };
        let (low, high) = delta(&loss, 0.5).unwrap();
        let expected = 1.0 - (-0.25_f64).exp();
        assert!(low <= expected && expected <= high && high - low < 1e-14);
        let bound = single_epsilon(&loss, expected, Adjacency::AddRemoveUser).unwrap();
        assert!(bound.lower <= 0.5 && 0.5 <= bound.upper && bound.upper - bound.lower < 1e-13);
    }
}
