//! Exact comparisons of uniform numbers whose bits are drawn as needed.

use chacha20::rand_core::Rng;

use super::words::Words;

/// Number of bits of the offset that are drawn with a candidate.
pub(super) const HEAD_BITS: u32 = 52;

/// The position v of a candidate within its bin, a number in [0, 1).
pub(super) trait Place {
    /// Whether a fresh uniform number, whose first 52 bits are given, is below v.
    fn exceeds<R: Rng + ?Sized>(&mut self, head: u64, words: &mut Words<'_, R>) -> bool;
}

/// A rational position `over / under`, compared exactly.
pub(super) struct Fraction {
    over: u64,
    under: u64,
}

impl Fraction {
    /// For `over <= under < 2^62`.
    pub(super) const fn new(over: u64, under: u64) -> Self {
        Self { over, under }
    }
}

impl Place for Fraction {
    fn exceeds<R: Rng + ?Sized>(&mut self, head: u64, words: &mut Words<'_, R>) -> bool {
        let digit = (head << (64 - HEAD_BITS)) | (words.word() >> HEAD_BITS);
        let first = std::iter::once(u128::from(digit));
        uniform_below(first, self.over, self.under, words)
    }
}

/// A uniform number v in [0, 1): 52 bits at first, 128 more if they are needed.
pub(super) struct Offset {
    /// The first 52 bits, as an integer.
    pub(super) head: u64,
    /// The next 128 bits, once drawn.
    tail: Option<u128>,
}

impl Offset {
    pub(super) const fn new(head: u64) -> Self {
        Self { head, tail: None }
    }

    /// Whether the part of v after its head, as a number in [0, 1), is below `over / under`, for
    /// `over <= under < 2^62`.
    pub(super) fn rest_below<R: Rng + ?Sized>(
        &self,
        over: u64,
        under: u64,
        words: &mut Words<'_, R>,
    ) -> bool {
        let drawn = self
            .tail
            .map(|tail| [tail >> 64, tail & u128::from(u64::MAX)]);
        uniform_below(drawn.into_iter().flatten(), over, under, words)
    }
}

impl Place for Offset {
    /// Bits 53 to 180 of both are drawn on a tie. If they tie again (2^-180 in total), the answer
    /// is no; `TV_LOG2_PER_DRAW` accounts for this.
    fn exceeds<R: Rng + ?Sized>(&mut self, head: u64, words: &mut Words<'_, R>) -> bool {
        if head != self.head {
            return head < self.head;
        }
        let tail = *self.tail.get_or_insert_with(|| words.double_word());
        words.double_word() < tail
    }
}

/// An exact event of probability `over / under`, for `over <= under < 2^62`.
pub(super) fn bernoulli<R: Rng + ?Sized>(over: u64, under: u64, words: &mut Words<'_, R>) -> bool {
    uniform_below(std::iter::empty(), over, under, words)
}

/// Whether a uniform number is below `over / under`. Its 64-bit digits are first the given ones,
/// then newly drawn ones.
///
/// With u = (w + u')/2^64 the question u < a/b is u' < a'/b for a' = 2^64 a - w b: decided if a' <=
/// 0 or a' >= b, otherwise repeated for u'. It ends with probability one and the answer is exact.
fn uniform_below<R: Rng + ?Sized>(
    mut drawn: impl Iterator<Item = u128>,
    mut over: u64,
    under: u64,
    words: &mut Words<'_, R>,
) -> bool {
    loop {
        let digit = drawn.next().unwrap_or_else(|| u128::from(words.word()));
        let spent = digit.wrapping_mul(u128::from(under));
        let Some(left) = (u128::from(over) << 64).checked_sub(spent) else {
            return false;
        };
        over = match u64::try_from(left) {
            Ok(0) => return false,
            Ok(left) if left < under => left,
            Ok(_) | Err(_) => return true,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    fn words_of(words: &[u64]) -> Vec<(u32, u64)> {
        words.iter().map(|&w| (0, w)).collect()
    }

    #[test]
    fn comparison_with_a_fraction_is_exact_at_every_depth() {
        // 1/3 = 0.5555... in hexadecimal; a digit of 5 leaves it undecided, the next one decides
        let fives = 0x5555_5555_5555_5555;
        for depth in 0..4 {
            for (last, below) in [(fives - 1, true), (fives + 1, false)] {
                let mut digits = vec![fives; depth];
                digits.push(last);
                let mut script = Script::new(&words_of(&digits));
                assert_eq!(bernoulli(1, 3, &mut script.words()), below);
                assert_eq!(script.n_left(), 0);
            }
        }
    }

    #[test]
    fn a_finite_fraction_is_decided_at_its_last_digit() {
        // 1/2: equality of the first digit means u >= 1/2
        for (first, below) in [(1 << 63, false), ((1 << 63) - 1, true), (u64::MAX, false)] {
            let mut script = Script::new(&words_of(&[first]));
            assert_eq!(bernoulli(1, 2, &mut script.words()), below);
        }
        let mut script = Script::new(&words_of(&[u64::MAX]));
        assert!(bernoulli(7, 7, &mut script.words()), "probability one");
    }

    #[test]
    fn offsets_are_compared_digit_by_digit_and_remember_their_tail() {
        let head = 0xa_bcde_f012_3456;
        // tail of the offset first, then the other number's digits
        let tie = |other: [u64; 2]| {
            let mut script = Script::new(&words_of(&[7, 9, other[0], other[1], 7, 8]));
            let mut words = script.words();
            let mut offset = Offset::new(head);
            let first = offset.exceeds(head, &mut words);
            // the second comparison draws only the other number: the tail stays (7, 9)
            assert!(offset.exceeds(head, &mut words));
            drop(words);
            assert_eq!(script.n_left(), 0);
            first
        };
        assert!(tie([7, 8]));
        assert!(!tie([7, 9]));
        assert!(!tie([7, 10]));
        assert!(tie([6, 10]));
        assert!(!tie([8, 0]));
        let mut none = Script::new(&[]);
        assert!(Offset::new(head).exceeds(head - 1, &mut none.words()));
        assert!(!Offset::new(head).exceeds(head + 1, &mut none.words()));
    }

    #[test]
    fn the_rest_of_an_offset_starts_with_the_tail_already_drawn() {
        let fives = 0x5555_5555_5555_5555;
        for (digits, below) in [
            ([fives, fives - 1], true),
            ([fives, fives + 1], false),
            ([fives - 1, u64::MAX], true),
        ] {
            let mut script = Script::new(&words_of(&[digits[0], digits[1], 0, 0]));
            let mut words = script.words();
            let mut offset = Offset::new(3);
            offset.exceeds(3, &mut words);
            assert_eq!(offset.rest_below(1, 3, &mut words), below);
        }
        // and continues with new digits if the tail leaves it undecided
        let mut script = Script::new(&words_of(&[fives, fives, 0, 0, fives + 1]));
        let mut words = script.words();
        let mut offset = Offset::new(3);
        offset.exceeds(3, &mut words);
        assert!(!offset.rest_below(1, 3, &mut words));
    }
}
