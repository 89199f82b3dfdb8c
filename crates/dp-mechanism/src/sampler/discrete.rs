//! One draw of the discrete Gaussian: candidate, its position among the integers of a bin,
//! rejection.
//!
//! Integer m >= 0 lies in bin j if j <= 16 m / sigma < j + 1, at the rational position v = (16 m -
//! j sigma) / sigma. A bin contains at most W = ceil(sigma / 16) integers. A candidate is a bin,
//! drawn by its weight, and one of W consecutive integers from the bin's first on. It is rejected
//! if that integer lies beyond the bin, and otherwise accepted with probability exp(-(2 j v +
//! v^2)/512). So
//!
//! ```text
//! P(m) proportional to exp(-j^2/512) exp(-(2 j v + v^2)/512) = exp(-(16 m / sigma)^2 / 512)
//!                    = exp(-m^2 / (2 sigma^2))
//! ```
//!
//! A random sign makes it two-sided; zero with a minus sign is rejected, so that zero counts once.

use chacha20::rand_core::Rng;

use super::alias;
use super::floored::{Candidate, bin_of, walk};
use super::uniform::{Fraction, HEAD_BITS, Place};
use super::words::Words;

/// Whether a candidate is not minus zero.
#[inline(always)]
fn counts(magnitude: u64, negative: bool) -> bool {
    #[cfg(privacy_mutants)]
    if dp_core::mutants::active("discrete-zero-twice") {
        return true;
    }
    magnitude > 0 || !negative
}

/// Constants of a scale, shared by all its draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    sigma: u64,
    /// W = ceil(sigma / 16): the number of integers from which a candidate is chosen.
    width: u64,
    /// 2^52 modulo W: the number of the 2^52 offsets that must be rejected for a uniform choice.
    excess: u64,
}

impl Scale {
    /// For 2^5 <= sigma <= 2^40.
    pub(super) const fn new(sigma: u64) -> Self {
        let width = sigma.div_ceil(16);
        let excess = match (1_u64 << HEAD_BITS).checked_rem(width) {
            Some(rest) => rest,
            None => 0,
        };
        Self {
            sigma,
            width,
            excess,
        }
    }

    pub(super) const fn sigma(&self) -> u64 {
        self.sigma
    }

    /// Draws from `N_Z(0, sigma^2)`.
    #[inline(always)]
    pub(super) fn draw<R: Rng + ?Sized>(&self, words: &mut Words<'_, R>) -> i64 {
        loop {
            let candidate = Candidate::from_block(words.block());
            let (bin, tie) = alias::first_pick(candidate.column, candidate.prefix);
            let bin = if tie { bin_of(&candidate, words) } else { bin };
            if let Some(magnitude) = self.magnitude(&candidate, bin, words)
                && counts(magnitude, candidate.negative)
            {
                let sign = (candidate.negative as i64).wrapping_neg();
                return (magnitude.cast_signed() ^ sign).wrapping_sub(sign);
            }
        }
    }

    /// The integer of a candidate; `None` if it is rejected.
    #[inline(always)]
    fn magnitude<R: Rng + ?Sized>(
        &self,
        candidate: &Candidate,
        bin: u64,
        words: &mut Words<'_, R>,
    ) -> Option<u64> {
        let place = self.place(candidate.offset)?;
        let edge = bin.wrapping_mul(self.sigma);
        let magnitude = edge.div_ceil(16).wrapping_add(place);
        // 16 m - j sigma: below sigma inside the bin, where it is the numerator of v
        let over = magnitude.wrapping_mul(16).wrapping_sub(edge);
        if over >= self.sigma {
            return None;
        }
        // drawn for every candidate, needed or not, so that the work does not reveal the bin
        let head = words.word() >> (64 - HEAD_BITS);
        let mut fraction = Fraction::new(over, self.sigma);
        let below = fraction.exceeds(head, words);
        if candidate.slot > bin.wrapping_mul(2) {
            return Some(magnitude);
        }
        walk(candidate.slot, below, bin, &mut fraction, words).then_some(magnitude)
    }

    /// A uniform choice from 0..W using 52 bits; `None` for the bits that would bias it.
    ///
    /// W blocks of equal size: with product = bits W the choice is its part above 2^52, and each
    /// choice keeps floor(2^52 / W) values if the lowest 2^52 mod W remainders are left out
    /// (Lemire, *Fast random integer generation in an interval*, 2019, arXiv 1805.10941).
    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the choice is below W and the rest below 2^52"
    )]
    fn place(&self, bits: u64) -> Option<u64> {
        let product = u128::from(bits).wrapping_mul(u128::from(self.width));
        let rest = (product as u64) & (u64::MAX >> (64 - HEAD_BITS));
        (rest >= self.excess).then_some((product >> HEAD_BITS) as u64)
    }
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::{SeedableRng, TryRng};

    use super::super::script::Script;
    use super::*;

    #[test]
    fn places_are_uniform_over_the_integers_of_a_bin() {
        // W = 3: 2^52 = 3 K + 1, so one value of the offset is rejected and K remain for each
        // choice
        let scale = Scale::new(48);
        assert_eq!((scale.width, scale.excess), (3, 1));
        let third = (1_u64 << 52) / 3;
        assert_eq!(scale.place(0), None);
        assert_eq!(scale.place(1), Some(0));
        assert_eq!(scale.place(third), Some(0));
        assert_eq!(scale.place(third + 1), Some(1));
        assert_eq!(scale.place(2 * third), Some(1));
        assert_eq!(scale.place(2 * third + 1), Some(2));
        assert_eq!(scale.place((1 << 52) - 1), Some(2));
    }

    #[test]
    fn candidates_without_a_slot_are_the_integers_of_their_bin() {
        // slot 511 lies beyond 2j for every bin: no rejection, whatever the two words are
        for sigma in [32, 33, 47, 64, 1_000_003, (1 << 40) - 1] {
            let scale = Scale::new(sigma);
            for bin in [0, 1, 7, 210] {
                for place in 0..scale.width.min(4) {
                    let offset = ((u128::from(place) << 52).div_ceil(u128::from(scale.width)) + 1)
                        .try_into()
                        .unwrap();
                    let candidate = Candidate {
                        negative: false,
                        slot: 511,
                        probe: 0,
                        offset,
                        column: 0,
                        prefix: 0,
                    };
                    let found =
                        scale.magnitude(&candidate, bin, &mut Script::new(&[(0, 0); 2]).words());
                    let m = (bin * sigma).div_ceil(16) + place;
                    let inside = 16 * m >= bin * sigma && 16 * m < (bin + 1) * sigma;
                    assert_eq!(found, inside.then_some(m), "sigma {sigma}, bin {bin}");
                }
            }
        }
    }

    /// Counts how often a generator is called.
    struct Counted(ChaCha20Rng, u32);

    impl TryRng for Counted {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(self.0.next_u32())
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(self.0.next_u64())
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            self.1 += 1;
            self.0.fill_bytes(bytes);
            Ok(())
        }
    }

    #[test]
    fn work_per_draw_is_all_but_independent_of_the_result() {
        // as for the floored sampler; at 2^20 every bin is full, at 33 a third of the candidates is
        // rejected
        for sigma in [1 << 20, 33] {
            const N: u32 = 500_000;
            let scale = Scale::new(sigma);
            let mut rng = Counted(ChaCha20Rng::from_seed([4; 32]), 0);
            let (mut x, mut y, mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
            for _ in 0..N {
                rng.1 = 0;
                let size = scale.draw(&mut Words::new(&mut rng, 0)) as f64 / sigma as f64;
                let (cost, size) = (f64::from(rng.1).ln(), size.abs());
                x += cost;
                y += size;
                xx += cost * cost;
                yy += size * size;
                xy += cost * size;
            }
            let n = f64::from(N);
            let correlation = (n * xy - x * y) / ((n * xx - x * x) * (n * yy - y * y)).sqrt();
            assert!(xx > 0.01 * n, "the count must vary");
            assert!(correlation.abs() < 0.02, "sigma {sigma}: {correlation}");
        }
    }
}
