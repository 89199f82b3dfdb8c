//! Integer weights that decrease as powers of two: the whole numeric part of the mechanism.

/// Fractional bits of an exponent: 2^24 steps per halving.
pub(super) const FRACTION_BITS: u32 = 24;
/// Number of halvings after which the weights no longer decrease.
pub(super) const MAX_HALVINGS: u64 = 63;
/// The weight at deficit 0 is 2^(`MANTISSA_BITS` + `MAX_HALVINGS`).
const MANTISSA_BITS: u32 = 40;
/// Bound on |ln W(x) - ln(2^103 2^(-x / 2^24))|: at most 24 truncations of 2^-62 and a last one
/// to 40 bits, 2^-39.
pub(super) const LOG_WEIGHT_ERROR: f64 = 1.0 / (1_u64 << 38) as f64;
/// Largest number of candidates: 2^24 weights of at most 2^103 stay within 2^127.
pub(super) const MAX_CANDIDATES: u64 = 1 << 24;

/// 2^63 2^(-2^-i) for i = 1, ..., 24, by square roots of whole numbers.
const ROOTS: [u64; FRACTION_BITS as usize] = roots();

#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler; square roots of numbers below 2^126 are below 2^63"
)]
const fn roots() -> [u64; FRACTION_BITS as usize] {
    let mut roots = [0; FRACTION_BITS as usize];
    let mut square = 1_u128 << 125; // 2^126 / 2
    let mut i = 0;
    while i < roots.len() {
        let root = square.isqrt();
        roots[i] = root as u64;
        square = root << 63;
        i += 1;
    }
    roots
}

/// The weight of a deficit of x / 2^24 halvings.
///
/// ```text
/// W(x) = trunc_40(2^(-frac(x / 2^24))) 2^(63 - floor(x / 2^24)),   x capped at 63 2^24
/// ```
///
/// Never 0, so that no outcome is impossible; the cap is the same for all data. The same steps are
/// executed for every x.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a product of 126 bits cut to 63"
)]
pub(super) fn weight(deficit: u64) -> u128 {
    let deficit = deficit.min(MAX_HALVINGS << FRACTION_BITS);
    let mut mantissa = 1_u64 << 63;
    for (root, place) in ROOTS.iter().zip((0..FRACTION_BITS).rev()) {
        let taken = ((deficit >> place) & 1).wrapping_neg();
        let factor = (root & taken) | ((1 << 63) & !taken);
        mantissa = ((u128::from(mantissa).wrapping_mul(u128::from(factor))) >> 63) as u64;
    }
    let halvings = MAX_HALVINGS.saturating_sub(deficit >> FRACTION_BITS);
    u128::from(mantissa >> (63 - MANTISSA_BITS)) << halvings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_those_of_one_half() {
        // mpmath with 60 digits: floor(2^63 2^(-2^-i)); each may be too small by 1
        for (i, expected) in [
            (1, 6_521_908_912_666_391_106),
            (2, 7_755_900_482_342_532_474),
            (24, 9_223_371_655_793_091_286),
        ] {
            let found: u64 = ROOTS[i - 1];
            assert!(found <= expected && expected - found <= 1, "{i}: {found}");
        }
    }

    #[test]
    fn weights_are_powers_of_two_within_the_stated_error() {
        let mut x = 0_u64;
        while x <= MAX_HALVINGS << FRACTION_BITS {
            let ideal = 103.0 - x as f64 / f64::from(1 << FRACTION_BITS);
            let off = ((weight(x) as f64).log2() - ideal) * std::f64::consts::LN_2;
            // 103 - x has about 45 correct bits in f64
            assert!(off.abs() < LOG_WEIGHT_ERROR + 1e-13, "{x}: {off}");
            x += 9_999_991; // prime
        }
        assert_eq!(weight(0), 1 << 103);
        assert_eq!(weight(1 << FRACTION_BITS), 1 << 102);
    }

    #[test]
    fn weights_fall_at_every_step_and_never_to_zero() {
        for start in [0, (1 << 24) - 1000, 12_345_678, 62 << 24] {
            for x in start..start + 2000 {
                assert!(weight(x + 1) < weight(x), "{x}");
            }
        }
        assert_eq!(weight(63 << 24), 1 << 40);
        assert_eq!(weight(u64::MAX), 1 << 40);
    }
}
