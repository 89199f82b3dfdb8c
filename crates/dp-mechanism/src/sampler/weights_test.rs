//! Recomputes the bin weights in fixed-point arithmetic with 192 fractional bits.
#![allow(
    clippy::cast_possible_truncation,
    reason = "splitting products into limbs"
)]

use super::weights::WEIGHTS;
use super::{TV_LOG2_PER_DISCRETE_DRAW, TV_LOG2_PER_DRAW};

/// A number from 0 to below 2^64 in units of 2^-192, least limb first.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fixed([u64; 4]);

const ZERO: Fixed = Fixed([0; 4]);
const ONE: Fixed = Fixed([0, 0, 0, 1]);

impl Fixed {
    /// `mass / 2^128`.
    fn fraction(mass: u128) -> Self {
        let low = u64::try_from(mass & u128::from(u64::MAX)).unwrap();
        Self([0, low, u64::try_from(mass >> 64).unwrap(), 0])
    }

    fn add(self, other: Self) -> Self {
        let mut carry = 0_u128;
        Self(std::array::from_fn(|i| {
            let sum = u128::from(self.0[i]) + u128::from(other.0[i]) + carry;
            carry = sum >> 64;
            sum as u64
        }))
    }

    /// The distance between two numbers.
    fn distance(self, other: Self) -> Self {
        let (large, small) = if self.above(other) {
            (self, other)
        } else {
            (other, self)
        };
        let mut borrow = false;
        Self(std::array::from_fn(|i| {
            let (d, b1) = large.0[i].overflowing_sub(small.0[i]);
            let (d, b2) = d.overflowing_sub(u64::from(borrow));
            borrow = b1 | b2;
            d
        }))
    }

    fn above(self, other: Self) -> bool {
        self.0.iter().rev().gt(other.0.iter().rev())
    }

    /// The product, rounded down.
    fn times(self, other: Self) -> Self {
        let mut limbs = [0_u64; 8];
        for i in 0..4 {
            let mut carry = 0_u128;
            for j in 0..4 {
                let t = u128::from(self.0[i]) * u128::from(other.0[j])
                    + u128::from(limbs[i + j])
                    + carry;
                limbs[i + j] = t as u64;
                carry = t >> 64;
            }
            limbs[i + 4] = carry as u64;
        }
        Self([limbs[3], limbs[4], limbs[5], limbs[6]])
    }

    fn divided(self, by: u64) -> Self {
        let mut out = ZERO;
        let mut rest = 0_u128;
        for i in (0..4).rev() {
            let t = (rest << 64) | u128::from(self.0[i]);
            out.0[i] = (t / u128::from(by)) as u64;
            rest = t % u128::from(by);
        }
        out
    }

    fn to_f64(self) -> f64 {
        self.0
            .iter()
            .fold(0.0, |sum, &limb| sum / 2_f64.powi(64) + limb as f64)
    }
}

/// exp(-1/512) as 1 - 1/512 + 1/(2 * 512^2) - ..., with even and odd terms separately.
fn step() -> Fixed {
    let (mut even, mut odd, mut term) = (ZERO, ZERO, ONE);
    for n in 1..=40 {
        if n % 2 == 1 {
            even = even.add(term);
        } else {
            odd = odd.add(term);
        }
        term = term.divided(512 * n);
    }
    even.distance(odd)
}

/// exp(-j^2/512) for j below 400, by exp(-(j+1)^2/512) = exp(-j^2/512) exp(-(2j+1)/512).
fn real_weights() -> Vec<Fixed> {
    let step = step();
    let (mut value, mut factor) = (ONE, step);
    let mut weights = Vec::new();
    for _ in 0..400 {
        weights.push(value);
        value = value.times(factor);
        factor = factor.times(step).times(step);
    }
    weights
}

#[test]
fn weights_are_the_gaussian_ones_to_the_last_bit_and_keep_the_stated_bound() {
    let real = real_weights();
    let total = real.iter().fold(ZERO, |sum, &w| sum.add(w));
    let unit = Fixed::fraction(1).times(total);
    let mut error = ZERO;
    for (j, &w) in real.iter().enumerate() {
        let rounded = WEIGHTS.get(j).copied().unwrap_or(0);
        let off = Fixed::fraction(rounded).times(total).distance(w);
        assert!(unit.above(off), "bin {j} is off by a unit or more");
        error = error.add(off);
    }
    let tau = error.to_f64() / total.to_f64() / 2.0;
    let distance = 1.5 * tau / 0.9756;
    assert!(
        distance.log2() < f64::from(TV_LOG2_PER_DRAW),
        "2^{}",
        distance.log2()
    );
    assert!(tau.log2() < -123.0, "tau 2^{}", tau.log2());
    let discrete = 1.5 * tau / 0.61;
    assert!(discrete.log2() < f64::from(TV_LOG2_PER_DISCRETE_DRAW));
}

#[test]
fn discrete_candidates_stay_at_the_rate_that_the_bound_needs() {
    let real = real_weights();
    let total: f64 = real.iter().map(|w| w.to_f64()).sum();
    let share = |j: usize| real[j].to_f64() / total;
    let worst_place: f64 = (0..400)
        .map(|j| share(j) * (-(2.0 * j as f64 + 1.0) / 512.0).exp())
        .sum();
    let not_minus_zero = 1.0 - share(0) / 2.0 / 2.0; // half of one of at least two integers
    let rate = 2.0 / 3.0 * worst_place * not_minus_zero;
    assert!(rate > 0.61, "{rate}");
}

#[test]
fn weights_add_up_to_two_to_the_128() {
    let (mut sum, mut n_wraps) = (0_u128, 0);
    for w in WEIGHTS {
        let (next, wrapped) = sum.overflowing_add(w);
        sum = next;
        n_wraps += u32::from(wrapped);
    }
    assert_eq!((sum, n_wraps), (0, 1));
}
