//! Roots of an excess that falls towards the safe end, by guarded secants.

use crate::Result;

/// The logarithm of a parameter with its excess: positive where the target is missed.
pub(super) type Point = (f64, f64);

/// Distance in ln x at which a search by estimates ends.
const PRECISION: f64 = 1e-7;

/// Most evaluations within a bracket.
const MOST_ROUNDS: u32 = 60;

/// Where the excess turns positive, from 0 (or the end nearest to it) outwards, so that extremes
/// are tried only when needed; an end where it does not turn.
pub(super) fn boundary(
    (bad, good): (f64, f64),
    excess: impl Fn(f64) -> Result<f64>,
) -> Result<f64> {
    let mut x = 0.0_f64.clamp(bad.min(good), bad.max(good));
    let mut found = excess(x)?;
    let meets = found <= 0.0;
    let end = if meets { bad } else { good };
    let mut reach = 1.0;
    while (end - x).abs() > 0.0 {
        let next = x + (end - x).signum() * f64::min(reach, (end - x).abs());
        let before = (x, found);
        (x, found) = (next, excess(next)?);
        match (meets, found <= 0.0) {
            (true, false) => return close_in((x, found), before, excess),
            (false, true) => return close_in(before, (x, found), excess),
            _ => reach *= 1.5,
        }
    }
    Ok(end)
}

fn close_in(bad: Point, good: Point, excess: impl Fn(f64) -> Result<f64>) -> Result<f64> {
    let mut secant = Secant::new(bad, good);
    while (secant.good.0 - secant.bad.0).abs() > PRECISION && secant.rounds < MOST_ROUNDS {
        let x = secant.next(0.3 * PRECISION);
        secant.add((x, excess(x)?));
    }
    Ok(secant.good.0)
}

/// Where the line between two points reaches `-below`; the middle where it leads out of them.
pub(super) fn between(bad: Point, good: Point, below: f64) -> f64 {
    let share = (-below - good.1) / (bad.1 - good.1);
    let middle = 0.5 * (bad.0 + good.0);
    if share.is_finite() && share > 0.0 && share < 1.0 {
        good.0 + share * (bad.0 - good.0)
    } else {
        middle
    }
}

/// A bracket and the two points evaluated last.
pub(super) struct Secant {
    bad: Point,
    good: Point,
    last: [Point; 2],
    rounds: u32,
}

impl Secant {
    pub(super) const fn new(bad: Point, good: Point) -> Self {
        Self {
            bad,
            good,
            last: [bad, good],
            rounds: 0,
        }
    }

    pub(super) fn add(&mut self, point: Point) {
        if point.1 > 0.0 {
            self.bad = point;
        } else {
            self.good = point;
        }
        self.last = [self.last[1], point];
        self.rounds += 1;
    }

    /// Where to look next: the root of the secant through the last two points, pushed a little away
    /// from the nearer end of the bracket, by `least` at least, so that both ends close in; the
    /// middle where the secant leads out of the bracket, and every sixth time.
    pub(super) fn next(&self, least: f64) -> f64 {
        let (low, high) = (self.bad.0.min(self.good.0), self.bad.0.max(self.good.0));
        let middle = low + 0.5 * (high - low);
        let [a, b] = self.last;
        let root = b.0 - b.1 * (b.0 - a.0) / (b.1 - a.1);
        if self.rounds % 6 == 5 || !(low..=high).contains(&root) {
            return middle;
        }
        let (below, above) = (root - low, high - root);
        let push = (0.02 * below.min(above)).max(least);
        let pushed = if below < above {
            root + push
        } else {
            root - push
        };
        pushed.clamp((low + least).min(middle), (high - least).max(middle))
    }
}
