//! Exact uniform whole numbers from the key of one release.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// Random bits of one release, drawn in order from one cipher stream.
pub(crate) struct RandomBits(ChaCha20Rng);

impl RandomBits {
    pub(crate) const fn new(rng: ChaCha20Rng) -> Self {
        Self(rng)
    }

    /// 64 fresh uniform bits.
    pub(crate) fn of_key(key: &[u8; 32]) -> Self {
        Self(ChaCha20Rng::from_seed(*key))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 128 fresh uniform bits.
    pub(crate) fn double_word(&mut self) -> u128 {
        (u128::from(self.word()) << 64) | u128::from(self.word())
    }

    /// A uniform whole number from 0 to `last`, exactly.
    #[allow(clippy::cast_possible_truncation, reason = "at most `last`")]
    pub(crate) fn at_most(&mut self, last: usize) -> usize {
        let count = (last as u128).saturating_add(1);
        self.below(count) as usize
    }

    /// A uniform whole number below `count`, exactly.
    ///
    /// With 256 random bits u the candidate is floor(u count / 2^256). Each value occurs for
    /// floor(2^256 / count) of the u that leave a remainder of at least 2^256 mod count; the others
    /// are drawn again (Lemire 2019, arXiv 1805.10941). That happens with probability below count /
    /// 2^256 < 2^-128: in practice the work is the same whatever `count` is, so the time reveals
    /// nothing about a private `count`.
    ///
    /// # Panics
    /// Never; a `count` of 0 gives 0.
    pub(crate) fn below(&mut self, count: u128) -> u128 {
        loop {
            let (high, low) = (self.double_word(), self.double_word());
            if let Some(value) = choice(high, low, count) {
                return value;
            }
        }
    }
}

/// The candidate for the random bits `high 2^128 + low`; `None` if they must be drawn again.
fn choice(high: u128, low: u128, count: u128) -> Option<u128> {
    let (low_carry, rest_low) = wide_product(low, count);
    let (value, rest) = wide_product(high, count);
    let (rest_high, carries) = rest.overflowing_add(low_carry);
    let value = value.wrapping_add(u128::from(carries));
    // the remainder is rest_high 2^128 + rest_low; it can be below 2^256 mod count < 2^128 only if
    // rest_high is 0
    (rest_high > 0 || rest_low >= excess(count)).then_some(value)
}

/// 2^256 modulo `count`, by doubling 256 times.
fn excess(count: u128) -> u128 {
    let mut rest = 1_u128.checked_rem(count).unwrap_or(0);
    for _ in 0..256 {
        let to_wrap = count.wrapping_sub(rest);
        rest = if rest >= to_wrap {
            rest.wrapping_sub(to_wrap)
        } else {
            rest.wrapping_mul(2)
        };
    }
    rest
}

/// The product of two 128-bit numbers as its high and low 128 bits.
const fn wide_product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0.wrapping_mul(b0);
    let (cross, other) = (a1.wrapping_mul(b0), a0.wrapping_mul(b1));
    // three numbers below 2^64 each
    let middle = (low >> 64)
        .wrapping_add(cross & LOW)
        .wrapping_add(other & LOW);
    let high = a1
        .wrapping_mul(b1)
        .wrapping_add(cross >> 64)
        .wrapping_add(other >> 64)
        .wrapping_add(middle >> 64);
    (high, (middle << 64) | (low & LOW))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn wide_products_are_those_of_long_integers() {
        // (2^128 - 1)^2 = 2^256 - 2^129 + 1
        assert_eq!(wide_product(u128::MAX, u128::MAX), (u128::MAX - 1, 1));
        // computed with Python's integers
        let (a, b) = (
            0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128,
            0xdead_beef_cafe_babe_0bad_f00d_8bad_f00d_u128,
        );
        assert_eq!(
            wide_product(a, b),
            (
                0x00fd_5bde_eeb2_a01e_5c74_36e8_40ed_86de,
                0x6b1c_cba7_5a5a_4e33_3771_a191_7605_8ad0
            )
        );
        assert_eq!(wide_product(a, 1), (0, a));
        assert_eq!(wide_product(0, b), (0, 0));
    }

    #[test]
    fn the_excess_is_two_to_the_256_modulo_the_count() {
        for count in [1, 2, 1 << 100, 1 << 127] {
            assert_eq!(excess(count), 0);
        }
        assert_eq!(excess(3), 1); // 4^128 = 1 modulo 3
        assert_eq!(excess(7), 2); // 2^256 = 2^(3 * 85 + 1)
        assert_eq!(excess(u128::MAX), 1); // (2^128)^2 modulo 2^128 - 1
        assert_eq!(excess((1 << 127) - 1), 4); // 2^254 = 1
    }

    #[test]
    fn each_value_keeps_equally_many_random_numbers() {
        // count 3: 2^256 = 3 K + 1. Values change at ceil(i 2^256 / 3); of the K + 1 random numbers
        // for the first value, the number 0 is drawn again; the other values have no such number.
        let third = u128::MAX / 3; // 0x5555...5
        assert_eq!(choice(0, 0, 3), None);
        assert_eq!(choice(0, 1, 3), Some(0));
        assert_eq!(choice(third, third, 3), Some(0));
        assert_eq!(choice(third, third + 1, 3), Some(1));
        assert_eq!(choice(2 * third, 2 * third, 3), Some(1));
        assert_eq!(choice(2 * third, 2 * third + 1, 3), Some(2));
        assert_eq!(choice(u128::MAX, u128::MAX, 3), Some(2));
    }

    #[test]
    fn small_counts_are_uniform() {
        // chi-square with 6 degrees: 50 is exceeded with probability 5e-9
        let mut bits = RandomBits::new(ChaCha20Rng::from_seed([9; 32]));
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[usize::try_from(bits.below(7)).unwrap()] += 1;
        }
        let chi: f64 = counts
            .iter()
            .map(|&c| (f64::from(c) - 1e4).powi(2) / 1e4)
            .sum();
        assert!(chi < 50.0, "{chi}");
    }
}
