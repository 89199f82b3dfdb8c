//! One draw of the discrete Gaussian: candidate, its place among the integers of a bin, rejection.
//!
//! Integer m >= 0 lies in bin j when j <= 16 m / sigma < j + 1, at the rational place
//! v = (16 m - j sigma) / sigma. A bin holds at most W = ceil(sigma / 16) integers. A candidate is
//! a bin by its weight and one of W consecutive integers from the bin's first on; it falls away
//! when that integer lies beyond the bin, and otherwise stays with probability
//! exp(-(2 j v + v^2)/512). So
//!
//! ```text
//! P(m) proportional to exp(-j^2/512) exp(-(2 j v + v^2)/512) = exp(-(16 m / sigma)^2 / 512)
//!                    = exp(-m^2 / (2 sigma^2))
//! ```
//!
//! A random sign makes it two-sided; zero with a minus sign falls away, so that zero counts once.

use chacha20::rand_core::Rng;

use super::alias;
use super::floored::{Candidate, bin_of, walk};
use super::uniform::{Fraction, HEAD_BITS};
use super::words::Words;

/// What a scale fixes for all its draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    sigma: u64,
    /// W = ceil(sigma / 16): integers of which a candidate takes one.
    width: u64,
    /// 2^52 modulo W: so many of the 2^52 offsets are one too many for a uniform choice.
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
                && (magnitude > 0 || !candidate.negative)
            {
                let sign = (candidate.negative as i64).wrapping_neg();
                return (magnitude.cast_signed() ^ sign).wrapping_sub(sign);
            }
        }
    }

    /// The integer that a candidate stands for; `None` when it falls away.
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
        let whole = bin.wrapping_mul(2);
        if candidate.slot > whole {
            return Some(magnitude);
        }
        let mut fraction = Fraction::new(over, self.sigma);
        walk(candidate.slot, bin, &mut fraction, words).then_some(magnitude)
    }

    /// A uniform one of 0..W out of 52 bits, `None` for the bits that would favour some.
    ///
    /// W blocks of equal size: with product = bits W the choice is its part above 2^52, and each
    /// choice keeps floor(2^52 / W) values when the lowest 2^52 mod W remainders are left out
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
