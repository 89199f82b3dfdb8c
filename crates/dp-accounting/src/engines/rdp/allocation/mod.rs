//! Random allocation: each unit takes part in exactly k of t Gaussian steps, chosen at random.
//!
//! Source: Feldman, Shenfeld, arXiv 2502.08202, whose dominating pairs also cover steps chosen
//! adaptively: for k = 1, with N the noise alone (mean 0 in t dimensions) and `N_j` the same with
//! mean mu in step j, the pair is P = (1/t) `Σ_j` `N_j` against N, and the reverse.
//!
//! * *k of t is at most k times 1 of g = ⌊t/k⌋.* Draw a uniformly random ordered partition of the
//!   steps into k groups of g or more, then one step of each group. The resulting set is invariant
//!   under permutations of the steps, so it is a uniform k-subset. e^{(a-1) `D_a`} is jointly
//!   convex and N does not depend on the partition, so revealing it bounds the divergence; then the
//!   groups are independent. In the same way 1 of g+1 is a mixture of 1 of g's, so larger groups
//!   cost less.
//! * *Nothing costs more than no amplification*: k Gaussian mechanisms, again by convexity.
//! * Under replacement, only the latter is used, at twice the distance.

mod add;
mod error;
mod remove;

use crate::engines::loss::{Direction, LogMoment};

/// Largest order for which amplification is computed.
const MAX_ORDER: f64 = 512.0;
/// Above this distance divided by noise, only the bound without amplification is used for `add`.
const MAX_MU: f64 = 4.0;
/// Above this, amplification reduces moments of 1e4 and more by less than ln(g); it is not
/// computed.
const LARGEST_MU: f64 = 150.0;
/// Relative rounding error of the amplified moments, measured against 60 digits (`tests/rdp`).
const RELATIVE_ERROR: f64 = 1e-11;

/// Bounds on the moments of one random allocation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Allocation {
    mu_squared: f64,
    n_selected: f64,
    /// K of 1 of g at integer s = 1, 2, ..., direction remove.
    remove: Vec<f64>,
    add: Option<add::Table>,
}

impl Allocation {
    pub(super) fn new(mu: f64, n_selected: u64, n_steps: u64, replace: bool) -> Self {
        let k = crate::engines::rounding::count_up(n_selected);
        let group = n_steps / n_selected;
        let g = group as f64;
        let amplified = !replace && group > 1 && mu <= LARGEST_MU;
        let orders = useful_orders(mu, k, g);
        let scale = if replace { 4.0 } else { 1.0 };
        Self {
            mu_squared: (scale * mu * mu).next_up(),
            n_selected: k,
            remove: if amplified {
                remove::moments(mu, group, orders)
            } else {
                Vec::new()
            },
            add: (amplified && mu <= MAX_MU).then(|| add::Table::new(mu, g, (orders - 1) as f64)),
        }
    }

    /// The largest s with amplification: K jumps there, and is convex on both sides.
    pub(super) const fn jump(&self) -> Option<f64> {
        match self.remove.len() {
            0 => None,
            n => Some(n as f64),
        }
    }

    /// K(s) for all k, and a bound on its error.
    pub(super) fn moment(&self, direction: Direction, s: f64) -> (LogMoment, f64) {
        let plain = 0.5 * self.mu_squared * s * (s + 1.0);
        let amplified = match direction {
            Direction::Remove => interpolated(&self.remove, s),
            Direction::Add => self.add.as_ref().map(|table| table.moment(s)),
        };
        let (log, error) = match amplified {
            Some(k) if k < plain => (k, RELATIVE_ERROR * k),
            _ => (plain, 2e-15 * plain),
        };
        let k = self.n_selected;
        (LogMoment::at_most(k * log), k * error)
    }
}

/// Twice the order that would be best at delta 1e-5 if the allocation were a Gaussian mechanism
/// with the same second moment, limited by cost.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 4..=512 before"
)]
fn useful_orders(mu: f64, k: f64, g: f64) -> usize {
    let second = libm::expm1((mu * mu).min(50.0));
    let best = (24.0 * g / (k * second)).sqrt();
    let exact = (2.0 * g + 2.0).max(128.0);
    (2.0 * best)
        .clamp(64.0, MAX_ORDER)
        .min(exact)
        .min(600.0 / mu)
        .max(4.0) as usize
}

/// Between integers, chords are an upper bound, because K is convex with K(0) = 0.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "s is compared with the length first"
)]
fn interpolated(at_integers: &[f64], s: f64) -> Option<f64> {
    if s > at_integers.len() as f64 {
        return None;
    }
    let below = s.floor();
    let value = |i: usize| {
        if i == 0 {
            Some(0.0)
        } else {
            at_integers.get(i - 1).copied()
        }
    };
    let low = value(below as usize)?;
    if s <= below {
        return Some(low);
    }
    let high = value(below as usize + 1)?;
    Some((1.0 - (s - below)) * low + (s - below) * high)
}
