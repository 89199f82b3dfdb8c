//! The part of delta that accounts for the error of the noise sampler.
//!
//! If every noise draw is within total variation TV of the exact distribution, a run of n draws is
//! within n TV of the ideal one, and an (epsilon, delta) guarantee of the ideal run becomes
//! (epsilon, delta + n (1 + e^epsilon) TV) for the real one. Calibration therefore aims at slightly
//! less than the target's delta, and the number of draws is checked against the difference.

use dp_core::ApproxDp;

use crate::{Error, Result};

/// Total variation distance between one draw of the sampler and the exact distribution:
/// 2^-118, the bound that dp-mechanism states for its 128-bit tables.
pub const SAMPLER_TOTAL_VARIATION: f64 = 1.0 / ((1_u128 << 118) as f64);

/// Fraction of the target's delta that is set aside for the sampler.
pub const DELTA_RESERVE: f64 = 1e-6;

/// Returns the delta left for the ideal Gaussian mechanisms: `delta (1 - DELTA_RESERVE)`,
/// rounded down.
///
/// # Examples
/// ```
/// use dp_accounting::usable_delta;
/// assert!((usable_delta(1e-5) - 0.999999e-5).abs() < 1e-20);
/// ```
#[must_use]
pub fn usable_delta(delta: f64) -> f64 {
    (delta * (1.0 - DELTA_RESERVE)).next_down().max(0.0)
}

/// Largest number of draws with n (1 + e^epsilon) TV <= `reserve` delta. Counts saturate at
/// `u64::MAX`, so that number is never allowed.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the quotient is not negative; rounding toward zero and saturation are wanted"
)]
fn allowed_draws(target: ApproxDp, reserve: f64) -> u64 {
    let per_draw = (1.0 + libm::exp(target.epsilon)) * SAMPLER_TOTAL_VARIATION;
    let allowed = reserve * target.delta / per_draw * (1.0 - 1e-12);
    (allowed as u64).min(u64::MAX - 1)
}

/// Rejects more draws than the reserve covers.
pub(crate) fn check_draws(target: ApproxDp, n_draws: u64) -> Result<()> {
    let allowed = allowed_draws(target, DELTA_RESERVE);
    if n_draws <= allowed {
        return Ok(());
    }
    Err(Error::SamplerAllowance { n_draws, allowed })
}

/// Whether a fraction `reserve` of delta covers the error of `n_draws` draws.
pub(crate) fn covers_draws(target: ApproxDp, n_draws: u64, reserve: f64) -> bool {
    n_draws <= allowed_draws(target, reserve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_is_two_to_the_minus_118() {
        assert!((SAMPLER_TOTAL_VARIATION.log2() + 118.0).abs() < 1e-12);
    }

    #[test]
    fn allowance_is_what_the_formula_says() {
        // 1e-6 * 1e-9 / ((1 + e^40) 2^-118) = 1411.76
        let target = ApproxDp {
            epsilon: 40.0,
            delta: 1e-9,
        };
        assert!(check_draws(target, 1_411).is_ok());
        assert!(matches!(
            check_draws(target, 1_412),
            Err(Error::SamplerAllowance {
                n_draws: 1_412,
                allowed: 1_411
            })
        ));
    }

    #[test]
    fn no_draws_are_always_allowed_and_no_delta_allows_none() {
        for epsilon in [1.0, 800.0, f64::INFINITY] {
            assert!(
                check_draws(
                    ApproxDp {
                        epsilon,
                        delta: 1e-5
                    },
                    0
                )
                .is_ok()
            );
        }
        assert!(
            check_draws(
                ApproxDp {
                    epsilon: 800.0,
                    delta: 1e-5
                },
                1
            )
            .is_err()
        );
        assert!(
            check_draws(
                ApproxDp {
                    epsilon: 1.0,
                    delta: 0.0
                },
                1
            )
            .is_err()
        );
        assert!(
            check_draws(
                ApproxDp {
                    epsilon: 1.0,
                    delta: 0.5
                },
                u64::MAX
            )
            .is_err()
        );
    }
}
