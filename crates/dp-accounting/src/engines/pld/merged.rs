//! The optimistic discretisation, with second-order accuracy.
//!
//! Outcomes are merged: all those with a loss between two cuts become one, whose loss is ln(P-mass
//! / Q-mass). Merging is post-processing, so it lowers the profile. The cuts are chosen one after
//! the other so that the merged loss falls on a point of the lattice. The error of the bound is
//! then only the variance within the cells, (width)²/12.
//!
//! Validity does not depend on how accurately a cut is found. A cell is moved to the point l only
//! if its P-mass minus its error is at least e^l times its Q-mass plus its error. It then has that
//! P-mass and e^-l times as much under Q: less under P and more under Q than before, which lowers
//! the profile again. A slightly misplaced cut is still a valid cut, because both masses are those
//! of the same outcomes. Mass that cannot be placed is dropped.

use std::cell::Cell;

use super::cells::{Cutting, affordable_cuts};
use crate::engines::loss::{Edge, Loss, Mass, ULP, mass_between};

/// Precision of a cut, relative to the width of its cell.
const CUT: f64 = 1e-7;

/// P-mass on points of the lattice.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Offset of the points from whole numbers, in steps.
    pub(super) offset: f64,
    pub(super) points: Vec<(i64, f64)>,
}

/// The continuous part of `loss`, merged.
///
/// Successive cuts are reflections of each other at points of the lattice, so they keep the
/// distance from it that the first one has, up to the curvature of the distribution. Half a step is
/// best: then every point has its cell. The first cut is therefore at the end of the loss, with the
/// lattice shifted by half a step, or, if there are atoms that must stay on the lattice, at the
/// end; without an end it is next to 0. The rest at the far end of a march moves down by up to a
/// step; there is little mass there.
pub(super) fn merge(loss: &Loss, how: &Cutting, atoms: bool) -> Merged {
    let Some((low, high)) = loss.reach() else {
        return Merged::default();
    };
    let end = low >= 0.0 || high <= 0.0;
    let offset = if end && !atoms { 0.5 } else { 0.0 };
    let start = if end { 0.0 } else { 0.5 * how.step };
    let mut points = Vec::new();
    for (sign, limit, index) in [(1.0, high, how.last), (-1.0, low, how.first)] {
        let last = index as f64 * how.step;
        let march = March {
            loss,
            how,
            anchor: loss.anchor(),
            offset,
            sign,
            last: sign * (sign * limit).min(sign * last),
            cuts: Cell::new(affordable_cuts(loss)),
        };
        march.run(start, &mut points);
    }
    Merged { offset, points }
}

/// A sequence of cuts from the first one upwards or downwards.
struct March<'a> {
    loss: &'a Loss,
    how: &'a Cutting,
    anchor: f64,
    offset: f64,
    /// 1 or -1.
    sign: f64,
    /// Where the sequence stops; mass beyond is dropped.
    last: f64,
    /// How many evaluations of a cut are still allowed.
    cuts: Cell<usize>,
}

/// A cut and the masses on both sides of it.
type Cut = (f64, Edge);

impl March<'_> {
    fn cut(&self, t: f64) -> Cut {
        self.cuts.set(self.cuts.get().saturating_sub(1));
        (t, self.loss.edge(t))
    }

    /// Distance of t from the end of the sequence.
    fn left(&self, t: f64) -> f64 {
        self.sign * (self.last - t)
    }

    fn run(&self, start: f64, points: &mut Vec<(i64, f64)>) {
        if self.left(start) <= 0.0 {
            return;
        }
        let mut a = self.cut(start);
        let mut size = (self.left(start) / self.how.step / 64.0).max(1.0);
        let mut jump = 1.0;
        while self.left(a.0) > 0.0 && self.cuts.get() > 0 {
            let found = self.other_cut(&a, self.target(a.0, size));
            if size > 1.0 && found.is_none_or(|b| self.is_heavy(&a, &b)) {
                size = (0.5 * size).max(1.0);
                continue;
            }
            let b = found.unwrap_or_else(|| self.next_cut(&a, &mut jump));
            points.extend(self.place(&a, &b));
            a = b;
            size = jump.max(1.3 * size);
            jump = if found.is_some() { 1.0 } else { 2.0 * jump };
        }
        if self.left(a.0) > 0.0 {
            points.extend(self.place(&a, &self.cut(self.last)));
        }
    }

    /// The mass between two cuts in any order.
    fn mass(a: &Cut, b: &Cut) -> Mass {
        if a.0 <= b.0 {
            mass_between(&a.1, &b.1)
        } else {
            mass_between(&b.1, &a.1)
        }
    }

    /// Position of t on the lattice.
    fn index(&self, t: f64) -> f64 {
        t / self.how.step - self.offset
    }

    fn t(&self, index: i64) -> f64 {
        (index as f64 + self.offset) * self.how.step
    }

    /// The lattice point about half of `size` steps ahead of t, at least a quarter.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "within the ends of the lattice"
    )]
    fn target(&self, t: f64, size: f64) -> i64 {
        let place = self.sign * self.index(t);
        let next = (place + 0.25).ceil();
        let ahead = (place + 0.5 * size).round().max(next);
        (self.sign * ahead) as i64
    }

    /// The loss at a point of the lattice.
    fn at(&self, index: i64) -> f64 {
        self.anchor + self.t(index)
    }

    /// The P-mass minus e^l times the Q-mass for l at `index`, with errors subtracted.
    fn surplus(&self, a: &Cut, b: &Cut, index: i64) -> f64 {
        let mass = Self::mass(a, b);
        self.above((mass.p - mass.p_error, mass.q + mass.q_error), index)
    }

    fn above(&self, (p, q): (f64, f64), index: i64) -> f64 {
        let l = self.at(index);
        let relative = 8.0 * ULP * (1.0 + l.abs());
        p - q * libm::exp(l) * (1.0 + relative)
    }

    /// The cut b such that the outcomes between a and b merge into the loss at `index`, on the side
    /// where the merged loss is not below it.
    fn other_cut(&self, a: &Cut, index: i64) -> Option<Cut> {
        let near = self.t(index);
        let reach = 3.0 * self.how.step + 2.0 * (near - a.0).abs();
        let room = self.left(near);
        if room <= 0.0 {
            return None;
        }
        let far = near + self.sign * reach.min(room);
        let value = |b: &Cut| self.sign * self.surplus(a, b, index);
        let (mut close, mut remote) = (self.cut(near), self.cut(far));
        let (mut f_close, mut f_remote) = (value(&close), value(&remote));
        if f_close >= 0.0 || !(f_remote >= 0.0) {
            return None;
        }
        let mut guess = 2.0 * near - a.0;
        let tolerance = CUT * (near - a.0).abs();
        for _ in 0..40 {
            let width = (remote.0 - close.0).abs();
            if width <= tolerance {
                break;
            }
            let margin = (0.3 * tolerance).min(0.5 * width);
            let (low, high) = (
                close.0.min(remote.0) + margin,
                close.0.max(remote.0) - margin,
            );
            let middle = self.cut(guess.clamp(low, high.max(low)));
            let f = value(&middle);
            if f >= 0.0 {
                (remote, f_remote, f_close) = (middle, f, 0.6 * f_close);
            } else {
                (close, f_close, f_remote) = (middle, f, 0.6 * f_remote);
            }
            guess = close.0 + (remote.0 - close.0) * (f_close / (f_close - f_remote));
        }
        Some(if self.sign > 0.0 { remote } else { close })
    }

    /// A cut about `jump` points ahead, fewer if there is much mass, for outcomes that do not merge
    /// into a lattice point: their loss is lowered.
    fn next_cut(&self, a: &Cut, jump: &mut f64) -> Cut {
        loop {
            let next = self.t(self.target(a.0, 2.0 * *jump - 1.0));
            let b = self.cut(if self.left(next) > 0.0 {
                next
            } else {
                self.last
            });
            if *jump <= 1.0 || !self.is_heavy(a, &b) {
                return b;
            }
            *jump = (0.5 * *jump).max(1.0);
        }
    }

    fn is_heavy(&self, a: &Cut, b: &Cut) -> bool {
        let exponent = self.how.lambda * (self.anchor + a.0.max(b.0)) - self.how.log_m;
        let tilted = Self::mass(a, b).p * libm::exp(exponent.min(700.0));
        self.how.is_heavy(tilted, (b.0 - a.0).abs())
    }

    fn place(&self, a: &Cut, b: &Cut) -> Option<(i64, f64)> {
        let mass = Self::mass(a, b);
        let masses = (mass.p - mass.p_error, mass.q + mass.q_error);
        self.settle(masses, a.0.min(b.0), a.0.max(b.0))
    }

    /// The highest point up to `to` to which the masses may be moved, if there is one near `from`.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "within the ends of the lattice"
    )]
    fn settle(&self, masses: (f64, f64), from: f64, to: f64) -> Option<(i64, f64)> {
        let fits = |index: i64| self.above(masses, index) >= 0.0;
        let mut holds = self.index(from).floor() as i64 - 2;
        let mut fails = self.index(to).ceil() as i64 + 1;
        if !(masses.0 > 0.0 && fits(holds)) {
            return None;
        }
        while fails - holds > 1 {
            let middle = holds + (fails - holds) / 2;
            if fits(middle) {
                holds = middle;
            } else {
                fails = middle;
            }
        }
        Some((holds, masses.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::loss::{MixtureLoss, Side};

    fn laplace() -> (Loss, Cutting) {
        let loss = Loss::Laplace { epsilon: 1.0 };
        let how = Cutting {
            step: 2.0 / 256.0,
            lambda: 3.0,
            log_m: 2.0,
            tolerance: 1e-9,
            first: -257,
            last: 1,
        };
        (loss, how)
    }

    /// δ of the density alone is (1 - e^((ε - 1)/2))² / 2.
    #[test]
    fn merged_profile_is_below_and_second_order_close() {
        let (loss, how) = laplace();
        let merged = merge(&loss, &how, true);
        for epsilon in [-0.9, -0.3, 0.0, 0.4123, 0.9] {
            let part = |&(i, p): &(i64, f64)| {
                let l = 1.0 + i as f64 * how.step;
                p * -libm::expm1((epsilon - l).min(0.0))
            };
            let below: f64 = merged.points.iter().map(part).sum();
            let root = libm::expm1(0.5 * (epsilon - 1.0));
            let exact = 0.5 * root * root;
            assert!(below <= exact * (1.0 + 1e-14), "{epsilon}: {below} {exact}");
            assert!(
                exact - below <= how.step * how.step,
                "{epsilon}: {below} {exact}"
            );
        }
    }

    /// The cells of a sampled loss start at its lower end, half a step below the first point.
    #[test]
    fn no_mass_is_lost_at_the_sharp_end() {
        let loss = Loss::Mixture(MixtureLoss {
            sigma: 0.8,
            shifts: vec![0.0, 1.0],
            weights: vec![0.999, 0.001],
            side: Side::Remove,
        });
        let how = Cutting {
            step: 1e-4,
            lambda: 3.0,
            log_m: 0.0,
            tolerance: 1e-12,
            first: -1,
            last: 60_000,
        };
        let merged = merge(&loss, &how, false);
        assert!((merged.offset - 0.5).abs() < 1e-15);
        let total: f64 = merged.points.iter().map(|point| point.1).sum();
        assert!((total - 1.0).abs() < 1e-12, "{total}");
        let q = |&(i, p): &(i64, f64)| {
            p * libm::exp(-(loss.anchor() + (i as f64 + merged.offset) * how.step))
        };
        let q: f64 = merged.points.iter().map(q).sum();
        // mass moved to the point below has more under Q than before
        assert!((1.0 - 1e-12..1.0 + 1e-8).contains(&q), "{q}");
    }
}
