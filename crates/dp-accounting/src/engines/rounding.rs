//! Sums, products and quotients of non-negative numbers, rounded up.
//!
//! A computed cost must never be below its true value. Each operation is computed with the usual
//! rounding, its exact error is determined with a fused multiply-add (or Knuth's two-sum), and the
//! result is replaced by the next larger number if the error shows that it is too small.

/// Below this, a fused residual may itself underflow, so results are always rounded up.
const RESIDUAL_FLOOR: f64 = 1e-280;

/// a b, rounded up.
pub(crate) fn mul_up(a: f64, b: f64) -> f64 {
    let product = a * b;
    let inexact_tiny = product < RESIDUAL_FLOOR && a > 0.0 && b > 0.0;
    if inexact_tiny || a.mul_add(b, -product) > 0.0 {
        product.next_up()
    } else {
        product
    }
}

/// a / b for b > 0, rounded up.
pub(crate) fn div_up(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    let inexact_tiny = quotient < RESIDUAL_FLOOR && a > 0.0;
    if inexact_tiny || quotient.mul_add(b, -a) < 0.0 {
        quotient.next_up()
    } else {
        quotient
    }
}

/// Square root, rounded up.
pub(crate) fn sqrt_up(x: f64) -> f64 {
    let root = x.sqrt();
    if x < RESIDUAL_FLOOR && x > 0.0 || root.mul_add(root, -x) < 0.0 {
        root.next_up()
    } else {
        root
    }
}

/// The smallest f64 that is at least `n`.
#[allow(
    clippy::cast_precision_loss,
    reason = "the rounding is what this function is about"
)]
pub(crate) fn count_up(n: u64) -> f64 {
    const EXACT: u64 = 1 << 53;
    let value = n as f64;
    if n > EXACT { value.next_up() } else { value }
}

/// Rounded sum and its exact error, a + b = sum + error (Knuth).
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// Running sum with compensation of rounding errors: with n terms, the total is off by one unit of
/// rounding of itself and n² units squared of the terms' sizes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompensatedSum {
    sum: f64,
    rest: f64,
}

impl CompensatedSum {
    pub(crate) fn add(&mut self, term: f64) {
        let (sum, lost) = two_sum(self.sum, term);
        self.sum = sum;
        self.rest += lost;
    }

    pub(crate) fn total(self) -> f64 {
        self.sum + self.rest
    }
}

/// Sum that is accurate to one unit in the last place, however many terms there are, unless they
/// cancel.
pub(crate) fn accurate_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut sum = CompensatedSum::default();
    terms.for_each(|term| sum.add(term));
    sum.total()
}

/// Running sum of non-negative numbers whose total is rounded up.
///
/// The error of every addition is tracked, so the total of n terms is too large by about one unit
/// in the last place, not n.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UpwardSum {
    sum: f64,
    error: f64,
}

impl UpwardSum {
    /// The empty sum.
    pub(crate) const EMPTY: Self = Self {
        sum: 0.0,
        error: 0.0,
    };

    /// This sum and one more term.
    pub(crate) fn plus(self, term: f64) -> Self {
        let (sum, error) = two_sum(self.sum, term);
        let (errors, lost) = two_sum(self.error, error);
        Self {
            sum,
            // rounding of the sum of errors is rounded up as well, so that no term is ever lost
            error: if lost > 0.0 { errors.next_up() } else { errors },
        }
    }

    /// The total, rounded up; infinite after an overflow.
    pub(crate) fn total(self) -> f64 {
        let total = self.sum + self.error;
        if total.is_nan() {
            f64::INFINITY
        } else if self.error == 0.0 {
            total
        } else {
            total.next_up()
        }
    }
}

/// The smallest non-negative f64 for which a monotone `test` holds; infinity if there is none. The
/// bit patterns of non-negative numbers have the same order as the numbers, so 64 bisections
/// suffice.
pub(crate) fn first_true(test: impl Fn(f64) -> bool) -> f64 {
    if test(0.0) {
        return 0.0;
    }
    let (mut fails, mut holds) = (0_u64, f64::INFINITY.to_bits());
    while holds - fails > 1 {
        let middle = fails + (holds - fails) / 2;
        if test(f64::from_bits(middle)) {
            holds = middle;
        } else {
            fails = middle;
        }
    }
    f64::from_bits(holds)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the last bit is what is tested")]
mod tests {
    use super::*;

    #[test]
    fn exact_results_stay_and_inexact_ones_go_up() {
        assert_eq!(mul_up(1.5, 4.0), 6.0);
        assert_eq!(div_up(1.0, 4.0), 0.25);
        // 0.7 * 0.7 rounds down in f64 and 0.3 * 0.3 rounds up; 1/3 rounds down and 1/5 up.
        assert_eq!(mul_up(0.7, 0.7), (0.7_f64 * 0.7).next_up());
        assert_eq!(mul_up(0.3, 0.3), 0.3 * 0.3);
        assert_eq!(div_up(1.0, 3.0), (1.0_f64 / 3.0).next_up());
        assert_eq!(div_up(1.0, 5.0), 0.2);
        assert_eq!(sqrt_up(2.25), 1.5);
        let root = sqrt_up(5.0);
        assert!(root.mul_add(root, -5.0) >= 0.0);
    }

    #[test]
    fn underflow_never_gives_a_free_event() {
        assert!(mul_up(1e-200, 1e-200) > 0.0);
        assert!(div_up(1e-300, 1e300) > 0.0);
        assert_eq!(mul_up(0.0, 1e-300), 0.0);
        assert_eq!(count_up(u64::MAX), 18_446_744_073_709_555_712.0);
    }

    #[test]
    fn sum_keeps_what_a_plain_sum_loses() {
        let mut sum = UpwardSum::EMPTY.plus(1.0);
        for _ in 0..1_000 {
            sum = sum.plus(1e-17);
        }
        assert!(sum.total() >= 1.0 + 1e-14 && sum.total() <= 1.0 + 1.05e-14);
        let exact = UpwardSum::EMPTY.plus(0.25).plus(0.5);
        assert_eq!(exact.total(), 0.75);
    }

    /// The sign of the exact sum: the terms are expanded into non-overlapping numbers (Shewchuk),
    /// of which the largest determines the sign.
    fn sign_of_sum(terms: impl Iterator<Item = f64>) -> f64 {
        let mut parts: Vec<f64> = Vec::new();
        for mut rest in terms {
            for part in &mut parts {
                (rest, *part) = two_sum(rest, *part);
            }
            parts.push(rest);
        }
        let largest = parts.into_iter().rev().find(|&part| part != 0.0);
        largest.map_or(0.0, f64::signum)
    }

    #[test]
    fn the_total_is_never_below_the_exact_sum() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bits = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..2_000 {
            let n = bits() % 40;
            // of any size up to 2, including subnormal numbers, most of them close to each other
            let lowest = bits() % 1024;
            let terms: Vec<f64> = (0..n)
                .map(|_| {
                    let spread = if bits() % 4 == 0 { 1024 } else { 70 };
                    let exponent = (lowest + bits() % spread).min(1023);
                    f64::from_bits((exponent << 52) | (bits() >> 12))
                })
                .collect();
            let mut sum = UpwardSum::EMPTY;
            for &term in &terms {
                sum = sum.plus(term);
            }
            let total = sum.total();
            let left = terms.iter().map(|term| -term).chain([total]);
            assert!(sign_of_sum(left) >= 0.0, "{terms:?}");
            let exceeds = terms
                .iter()
                .map(|term| -term)
                .chain([total.next_down().next_down()]);
            assert!(total == 0.0 || sign_of_sum(exceeds) <= 0.0, "{terms:?}");
        }
    }

    #[test]
    fn no_term_is_too_small_to_be_counted() {
        // 1 + 2^-60 + 5e-324 - 2^-60: the error of the sum cancels all but the smallest term
        let (tiny, small) = (5e-324, 2.0_f64.powi(-60));
        let sum = UpwardSum::EMPTY.plus(1.0).plus(small).plus(tiny);
        assert!(sum.plus(-small).total() > 1.0);
        // each of many tiny terms changes the sum
        let mut sum = UpwardSum::EMPTY.plus(1.0).plus(small);
        for _ in 0..100 {
            let next = sum.plus(tiny);
            assert!(next != sum && next.total() >= sum.total());
            sum = next;
        }
    }

    #[test]
    fn long_sums_keep_what_a_plain_sum_loses() {
        let terms = || std::iter::once(1.0).chain((0..1000).map(|_| 1e-17));
        assert!((accurate_sum(terms()) - (1.0 + 1e-14)).abs() < 1e-15);
    }

    #[test]
    fn overflow_is_infinite_not_nan() {
        assert_eq!(mul_up(1e300, 1e300), f64::INFINITY);
        let sum = UpwardSum::EMPTY.plus(f64::MAX).plus(f64::MAX);
        assert_eq!(sum.plus(1.0).total(), f64::INFINITY);
    }
}
