//! The trade-off function: lower bounds on the errors of any test of whether one unit took part.

use dp_core::params;
use serde::Serialize;

use crate::Result;
use crate::engines::accountant::{Accountant, Method};

/// The type II error of the best test at one type I error, with bounds from both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TradeOff {
    /// The type I error: the probability that the test accuses a unit that did not take part,
    /// between 0 and 1.
    pub alpha: f64,
    /// A lower bound on the true type II error: every test misses a unit that took part at least
    /// this often. This is the value to report.
    pub lower: f64,
    /// An upper bound on the true type II error; `1 - alpha` if the accountant has no lower bound
    /// on delta.
    pub upper: f64,
    /// How the accountant computed delta.
    pub method: Method,
}

/// The symmetric trade-off function of everything composed, at the type I error `alpha`.
///
/// ```text
/// f(α) = max over ε >= 0 of  0,  1 - δ(ε) - e^ε α,  e^-ε (1 - δ(ε) - α)
/// ```
///
/// (Dong, Roth, Su, arXiv 1905.02383, Proposition 2.12.) It is equivalent to the whole privacy
/// profile: the composition is (ε, δ(ε))-DP for every ε if and only if each test between neighbours
/// with type I error α has a type II error of f(α) or more.
///
/// Written over `s = e^ε`, or `e^-ε` for the second line, the maximum is that of one concave
/// function of `s > 0`. A golden-section search finds it with about 40 evaluations of delta by the
/// accountant. Every evaluated point gives a lower bound on f; the extended chords between them
/// give an upper bound, because the function is concave.
///
/// # Errors
/// [`crate::Error::Param`] unless alpha lies strictly between 0 and 1, and the errors of
/// [`Accountant::delta`].
///
/// # Examples
/// ```
/// use dp_accounting::{Accountant, TightestAccountant, trade_off};
/// use dp_core::{Adjacency, DpEvent};
/// let mut accountant = TightestAccountant::new(Adjacency::AddRemoveUser);
/// accountant.compose(&DpEvent::gaussian(1.0), 1)?;
/// // Φ(Φ^-1(1 - 0.05) - 1)
/// let missed = trade_off(&accountant, 0.05)?;
/// assert!(missed.lower <= 0.740_488_98 && 0.740_488_97 <= missed.upper);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
pub fn trade_off(accountant: &dyn Accountant, alpha: f64) -> Result<TradeOff> {
    params::open_unit("alpha", alpha)?;
    let at = |t: f64| Point::ask(accountant, alpha, t);
    let middle = at(0.0)?;
    let mut points = vec![middle];
    let low = climb(middle, -1.0, LEAST, at, &mut points)?;
    let high = climb(middle, 1.0, -libm::log(alpha), at, &mut points)?;
    search(low, high, at, &mut points)?;
    let lower = points.iter().map(|point| point.lower).fold(0.0, f64::max);
    // what is known about the ends
    let end = |s: f64, lower: f64| Point {
        s,
        lower,
        upper: 0.0,
        ..middle
    };
    points.extend([end(0.0, 0.0), end(alpha.recip(), -1.0)]);
    points.sort_by(|a, b| a.s.total_cmp(&b.s));
    points.dedup_by(|b, a| b.s <= a.s);
    Ok(TradeOff {
        alpha,
        lower,
        upper: above(&points).min(1.0 - alpha).max(lower),
        method: middle.method,
    })
}

/// Steps from the midpoint, each twice as long, to a point that is lower than the previous one or
/// to the limit.
fn climb(
    middle: Point,
    first: f64,
    limit: f64,
    at: impl Fn(f64) -> Result<Point>,
    points: &mut Vec<Point>,
) -> Result<f64> {
    let (mut last, mut step) = (middle, first);
    loop {
        let t = if step.abs() < limit.abs() {
            step
        } else {
            limit
        };
        let next = at(t)?;
        points.push(next);
        if next.lower < last.lower || t.abs() >= limit.abs() {
            return Ok(t);
        }
        (last, step) = (next, 2.0 * step);
    }
}

/// Golden-section search between two values of t.
fn search(
    mut low: f64,
    mut high: f64,
    at: impl Fn(f64) -> Result<Point>,
    points: &mut Vec<Point>,
) -> Result<()> {
    let inner = |low: f64, high: f64| GOLDEN * (high - low);
    let mut left = at(high - inner(low, high))?;
    let mut right = at(low + inner(low, high))?;
    points.extend([left, right]);
    while high - low > WIDTH {
        if left.lower < right.lower {
            low = left.t;
            left = right;
            right = at(low + inner(low, high))?;
            points.push(right);
        } else {
            high = right.t;
            right = left;
            left = at(high - inner(low, high))?;
            points.push(left);
        }
    }
    Ok(())
}

/// The fraction of the longer part of a golden section.
const GOLDEN: f64 = 0.618_033_988_749_894_8;
/// Smallest log s; the function is below s.
const LEAST: f64 = -60.0;
/// Width in log s at which the search ends: the error of a maximum is of the order of its square.
const WIDTH: f64 = 1e-6;
/// Relative rounding of one point.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// Bounds of the concave function at `s = e^t`.
#[derive(Debug, Clone, Copy)]
struct Point {
    t: f64,
    s: f64,
    lower: f64,
    upper: f64,
    method: Method,
}

impl Point {
    fn ask(accountant: &dyn Accountant, alpha: f64, t: f64) -> Result<Self> {
        let delta = accountant.delta(t.abs())?;
        let s = libm::exp(t);
        let kept = s.min(1.0);
        let value = |delta: f64| kept * (1.0 - delta) - s * alpha;
        let rounding = ROUNDING * (kept + s * alpha);
        Ok(Self {
            t,
            s,
            lower: value(delta.upper) - rounding,
            upper: value(delta.lower) + rounding,
            method: delta.method,
        })
    }
}

/// An upper bound of the concave function between its first and last point.
fn above(points: &[Point]) -> f64 {
    let mut bound: f64 = 0.0;
    for at in 0..points.len() - 1 {
        let (a, b) = (points[at], points[at + 1]);
        // extended chords of the neighbours on either side
        let rising = at
            .checked_sub(1)
            .map(|before| Line::through(points[before], a));
        let falling = points.get(at + 2).map(|&after| Line::through(after, b));
        bound = bound.max(match (rising, falling) {
            (Some(rising), Some(falling)) => rising.least_with(falling, a.s, b.s),
            (Some(line), None) | (None, Some(line)) => line.at(a.s).max(line.at(b.s)),
            (None, None) => f64::INFINITY,
        });
    }
    bound * (1.0 + 1e-12) // the intersection of the lines is computed in floating point
}

/// A line above the function beyond the point through which it goes.
#[derive(Debug, Clone, Copy)]
struct Line {
    s: f64,
    height: f64,
    slope: f64,
}

impl Line {
    /// The steepest line that the bounds allow, from a point on the other side.
    fn through(from: Point, to: Point) -> Self {
        Self {
            s: to.s,
            height: to.upper,
            slope: (to.upper - from.lower) / (to.s - from.s),
        }
    }

    fn at(self, s: f64) -> f64 {
        self.height + self.slope * (s - self.s)
    }

    /// The largest value between `a` and `b` of the smaller of two lines: at an end or where they meet.
    fn least_with(self, other: Self, a: f64, b: f64) -> f64 {
        let least = |s: f64| self.at(s).min(other.at(s));
        let meet = (other.at(0.0) - self.at(0.0)) / (self.slope - other.slope);
        let ends = least(a).max(least(b));
        match meet > a && meet < b {
            true => ends.max(least(meet)),
            false => ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use dp_core::{Adjacency, DpEvent, Relation};

    use super::*;
    use crate::engines::gaussian::GdpAccountant;
    use crate::engines::rdp::RdpAccountant;
    use crate::engines::tightest::TightestAccountant;

    fn of(event: &DpEvent, count: u64) -> TightestAccountant {
        let mut accountant = TightestAccountant::new(Adjacency::AddRemoveUser);
        accountant.compose(event, count).unwrap();
        accountant
    }

    /// Probability that a standard normal is below x.
    fn normal(x: f64) -> f64 {
        0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
    }

    #[test]
    fn of_gaussians_it_is_the_closed_form_from_both_sides() {
        for (sigma, count) in [(1.0, 1_u32), (2.0, 10), (20.0, 3), (0.3, 1)] {
            let mu = f64::sqrt(f64::from(count)) / sigma;
            let accountant = of(&DpEvent::gaussian(sigma), u64::from(count));
            for x in [-3.0, -1.0, 0.0, 0.5, 2.0, 4.0] {
                let (alpha, expected) = (normal(-x), normal(x - mu));
                let found = trade_off(&accountant, alpha).unwrap();
                assert!(
                    found.lower <= expected && expected <= found.upper,
                    "{sigma} {x}: {found:?}, not {expected}"
                );
                assert!(found.upper - found.lower < 1e-9, "{sigma} {x}: {found:?}");
            }
        }
    }

    #[test]
    fn of_a_stated_guarantee_it_is_two_lines() {
        let (epsilon, delta) = (1.0_f64, 0.01);
        let accountant = of(&DpEvent::approx_dp(epsilon, delta, Relation::AddRemove), 1);
        for alpha in [1e-6, 0.01, 0.2, 0.6, 0.995] {
            let direct = 1.0 - delta - epsilon.exp() * alpha;
            let reverse = (-epsilon).exp() * (1.0 - delta - alpha);
            let expected = direct.max(reverse).max(0.0);
            let found = trade_off(&accountant, alpha).unwrap();
            assert!(
                found.lower <= expected && expected <= found.upper + 1e-15,
                "{found:?}, not {expected}"
            );
            assert!(found.lower > expected - 1e-6, "{found:?}, not {expected}");
        }
    }

    #[test]
    fn what_is_known_from_above_alone_promises_less_and_says_so() {
        let event = DpEvent::gaussian(1.0);
        let mut renyi = RdpAccountant::new(Adjacency::AddRemoveUser);
        let mut exact = GdpAccountant::new(Adjacency::AddRemoveUser);
        renyi.compose(&event, 1).unwrap();
        exact.compose(&event, 1).unwrap();
        let (renyi, exact) = (
            trade_off(&renyi, 0.05).unwrap(),
            trade_off(&exact, 0.05).unwrap(),
        );
        assert!(renyi.lower < exact.lower && exact.upper < renyi.upper);
        assert_eq!((renyi.method, exact.method), (Method::Rdp, Method::Gdp));
        assert!(trade_off(&of(&event, 1), 1.0).is_err());
    }
}
