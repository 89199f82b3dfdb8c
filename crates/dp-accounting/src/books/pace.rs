//! How one user's lifetime budget is spread over nights.

use dp_core::{ParamError, params};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Longest horizon in nights: eleven years.
const MAX_HORIZON: u32 = 4096;
/// Largest lifetime bound: its square and any sum of nightly squares fit in 128 bits.
const MAX_BOUND: u64 = 1 << 52;
/// Relative amount by which the nightly bounds are reduced, so that rounding in their computation
/// cannot violate the exact check.
const MARGIN: f64 = 1.0 / (1_u64 << 38) as f64;

/// How much one user may change the release of a night, as a function of the nights since the user
/// was first seen.
///
/// ```text
/// D_a = floor(D c_a),   c_a proportional to (a + 1)^-alpha,   sum_{a < L} D_a^2 <= D^2   for ages a = 0, ..., L - 1
/// D_a = 0               for a >= L
/// ```
///
/// `D` is the integer L2 bound of the lifetime on the release's grid, and `L` the horizon. The age
/// is the number of the night minus that of the night on which the user was first seen, whether or
/// not the nights in between were made. So no two nights share an age of one user, and whatever
/// nights are made, `sum_t D_{a(t)}^2 <= D^2`. `alpha = 0` spends evenly; the larger it is, the
/// more is spent early. Derivation: `docs/nights-proof.md`.
///
/// # Examples
/// ```
/// use dp_accounting::Pace;
/// let bounds = Pace::new(0.4, 365)?.bounds(1 << 40)?;
/// let squares: u128 = bounds.iter().map(|&d| u128::from(d).pow(2)).sum();
/// assert!(squares <= 1 << 80 && squares > (1 << 80) - (1 << 50));
/// assert!(bounds[0] > bounds[364]);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    alpha: f64,
    horizon: u32,
}

impl Pace {
    /// Creates a pace with exponent `alpha` over `horizon` nights.
    ///
    /// # Errors
    /// [`Error::Param`] for an `alpha` outside 0 to 4, or a horizon outside 1 to 4096.
    pub fn new(alpha: f64, horizon: u32) -> Result<Self> {
        let in_range = (0.0..=4.0).contains(&alpha); // false for NaN
        if !in_range {
            return Err(Error::Param(ParamError {
                name: "alpha",
                value: alpha,
                expected: "a number from 0 to 4",
            }));
        }
        let expected = "a whole number of nights from 1 to 4096";
        params::in_range(
            "horizon",
            horizon as usize,
            1,
            MAX_HORIZON as usize,
            expected,
        )?;
        Ok(Self { alpha, horizon })
    }

    /// The exponent.
    #[must_use]
    pub const fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Number of nights after which a user no longer contributes, `L`.
    #[must_use]
    pub const fn horizon(&self) -> u32 {
        self.horizon
    }

    /// `D_a` for each age from 0, `horizon` numbers, for the lifetime bound `D`. The result is the
    /// same on every machine: powers are computed in software, and `sum_a D_a^2 <= D^2` is checked
    /// in 128-bit integers.
    ///
    /// # Errors
    /// [`Error::Param`] for a bound of 0 or above 2^52, or if the exact check fails.
    pub fn bounds(&self, lifetime: u64) -> Result<Vec<u64>> {
        let refused = || {
            Error::Param(ParamError {
                name: "lifetime bound",
                value: lifetime as f64,
                expected: "a whole number from 1 to 2^52 whose nightly bounds keep within it",
            })
        };
        if !(1..=MAX_BOUND).contains(&lifetime) {
            return Err(refused());
        }
        let weight = |age: u32| libm::pow(f64::from(age) + 1.0, -self.alpha);
        let squares: f64 = (0..self.horizon).map(|age| weight(age).powi(2)).sum();
        let scale = lifetime as f64 / (squares.sqrt() * (1.0 + MARGIN));
        let bounds: Vec<u64> = (0..self.horizon)
            .map(|age| floor(scale * weight(age)))
            .collect();
        if keeps_within(&bounds, lifetime) {
            Ok(bounds)
        } else {
            Err(refused())
        }
    }
}

/// Whether `sum_a D_a^2 <= D^2`, exactly.
fn keeps_within(bounds: &[u64], lifetime: u64) -> bool {
    let square = |d: u64| u128::from(d).saturating_mul(u128::from(d));
    let sum = bounds
        .iter()
        .fold(0, |sum: u128, &d| sum.saturating_add(square(d)));
    sum <= square(lifetime)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 2^52, and rounding toward zero is wanted"
)]
const fn floor(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nightly_bounds_keep_within_the_lifetime_and_waste_next_to_nothing() {
        for alpha in [0.0, 0.1, 0.25, 0.4, 0.5, 0.73, 1.0, 2.5, 4.0] {
            for horizon in [1, 2, 3, 7, 30, 364, 365, 1000, 4096] {
                let pace = Pace::new(alpha, horizon).unwrap();
                for lifetime in [
                    1,
                    2,
                    33,
                    1025,
                    (1 << 30) - 1,
                    1 << 38,
                    (1 << 42) - 7,
                    1 << 42,
                ] {
                    let bounds = pace.bounds(lifetime).unwrap();
                    assert_eq!(bounds.len(), horizon as usize);
                    assert!(bounds.is_sorted_by(|a, b| a >= b));
                    let sum: u128 = bounds.iter().map(|&d| u128::from(d) * u128::from(d)).sum();
                    let whole = u128::from(lifetime) * u128::from(lifetime);
                    assert!(sum <= whole, "{alpha} {horizon} {lifetime}");
                    // each floor subtracts less than one: D_a^2 decreases by less than 2 D_a + 1
                    let floors: u128 = bounds.iter().map(|&d| 2 * u128::from(d) + 1).sum();
                    assert!(
                        whole - sum <= floors + (whole >> 36) + 1,
                        "{alpha} {horizon}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_exact_check_refuses_one_unit_too_much() {
        assert!(keeps_within(&[3, 4], 5) && !keeps_within(&[3, 4, 1], 5));
        assert!(!keeps_within(&[u64::MAX, u64::MAX], u64::MAX));
    }

    #[test]
    fn rejects_what_has_no_pace() {
        for (alpha, horizon) in [(-0.1, 3), (f64::NAN, 3), (4.1, 3), (0.4, 0), (0.4, 4097)] {
            assert!(Pace::new(alpha, horizon).is_err());
        }
        let pace = Pace::new(0.4, 3).unwrap();
        assert!(pace.bounds(0).is_err() && pace.bounds((1 << 52) + 1).is_err());
    }
}
