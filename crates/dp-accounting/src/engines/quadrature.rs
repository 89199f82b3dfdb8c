//! Rules for one-dimensional integrals, and the search for the parts of the line that matter.
//!
//! What a rule requires of an integrand, and the bound on its error, is documented with the rule if
//! it is general, and otherwise with the integrand: mixtures of normals in [`crate::engines::loss`]
//! and [`crate::engines::saddle_point`] use the plain trapezoidal rule with a step of their own.

use std::sync::LazyLock;

/// Number of points; the rule is exact for polynomials of degree 2 `N_POINTS` - 1.
const N_POINTS: usize = 20;

/// The Gauss-Legendre rule of [`N_POINTS`] points: nodes on (-1, 1) and weights, by Newton's method on the Legendre polynomial.
pub(crate) static GAUSS_LEGENDRE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    let n = N_POINTS as f64;
    (0..N_POINTS)
        .map(|i| {
            let mut x = libm::cos(std::f64::consts::PI * (i as f64 + 0.75) / (n + 0.5));
            let mut slope = 1.0;
            for _ in 0..12 {
                let (value, derivative) = legendre(x);
                slope = derivative;
                x -= value / derivative;
            }
            (x, 2.0 / ((1.0 - x * x) * slope * slope))
        })
        .collect()
});

/// The Legendre polynomial of degree `N_POINTS` and its derivative.
fn legendre(x: f64) -> (f64, f64) {
    let (mut before, mut now) = (1.0, x);
    for k in 2..=N_POINTS {
        let k = k as f64;
        (before, now) = (now, ((2.0 * k - 1.0) * x * now - (k - 1.0) * before) / k);
    }
    let n = N_POINTS as f64;
    (now, n * (x * now - before) / (x * x - 1.0))
}

/// Largest product of rate and half a panel.
const REACH: f64 = 4.0;

/// Nodes and weights for an integral from `low` to `high` of a function that grows at most like
/// e^(rate |v|) for a complex displacement v.
///
/// On a panel of half-width a, the rate times a is <= 4. On the ellipse with semi-axis sum ρ = 20
/// around it, the function is at most e^(4 (ρ + 1/ρ)/2) = e^40.1 times its largest value on the
/// panel, and the error of the rule is at most (64/15) e^40.1 ρ^-40 / (1 - ρ^-2) = e^-78 of that,
/// times the panel (Trefethen, Approximation Theory and Approximation Practice, Theorem 19.3).
///
/// If this takes more than `most_nodes`, the result has a few more than that, which the caller must
/// reject.
pub(crate) fn panels(
    low: f64,
    high: f64,
    rate: f64,
    most_nodes: usize,
) -> impl Iterator<Item = (f64, f64)> {
    let count = ((high - low) * rate / (2.0 * REACH)).ceil();
    let count = count.clamp(1.0, (most_nodes / N_POINTS + 2) as f64);
    let half = 0.5 * (high - low) / count;
    (0..whole(count)).flat_map(move |i| {
        let middle = low + half * (2.0 * i as f64 + 1.0);
        GAUSS_LEGENDRE
            .iter()
            .map(move |(x, w)| (middle + half * x, half * w))
    })
}

/// Step of the trapezoidal rule. Halving it from 1/12 changes no result by more than 2e-15.
const STEP: f64 = 1.0 / 16.0;
/// The rule runs over `FIRST..=LAST` steps. Outside, the weight is below 1e-20 of the total.
const FIRST: i32 = -64;
const LAST: i32 = 96;

/// Nodes `u` and weights `w` for an integral over u from 0 to infinity: the trapezoidal rule in t
/// with u = exp(t - exp(-t)). With this substitution, an integrand that decreases like e^-u decays
/// doubly exponentially on both sides, so the rule converges exponentially.
pub(crate) static HALF_LINE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    (FIRST..=LAST)
        .map(|k| {
            let t = f64::from(k) * STEP;
            let e = libm::exp(-t);
            let u = libm::exp(t - e);
            (u, STEP * u * (1.0 + e))
        })
        .collect()
});

/// Number of intervals examined per piece that may be kept: bisection visits twice as many as it
/// keeps, and some for every piece that is dropped.
const LOOKS: usize = 64;

/// Bisects `[from, to]` and returns the pieces that matter.
///
/// `judge(a, b, floor)` returns an upper bound on the logarithm of what lies in the interval, a
/// value attained inside it, and whether the piece is small enough. A piece is dropped if its bound
/// is below the floor, which is `floor` or `drop` below the largest value seen. Returns `None` as
/// soon as more than `limit` pieces are kept, or far more were examined.
pub(crate) fn relevant(
    (from, to): (f64, f64),
    floor: f64,
    drop: f64,
    limit: usize,
    judge: impl Fn(f64, f64) -> Judgement,
) -> Option<Vec<(f64, f64)>> {
    let mut floor = floor;
    let mut kept: Vec<(f64, f64, f64)> = Vec::new();
    let mut open = vec![(from, to)];
    let mut looks = LOOKS.saturating_mul(limit);
    while let Some((a, b)) = open.pop() {
        looks = looks.checked_sub(1)?;
        let Judgement {
            upper,
            reached,
            small,
        } = judge(a, b);
        floor = floor.max(reached - drop);
        if upper < floor {
            continue;
        }
        let middle = 0.5 * (a + b);
        if small || middle <= a || middle >= b {
            if kept.len() >= limit {
                return None;
            }
            kept.push((a, b, upper));
        } else {
            open.push((middle, b));
            open.push((a, middle));
        }
    }
    kept.retain(|&(_, _, upper)| upper >= floor);
    Some(kept.into_iter().map(|(a, b, _)| (a, b)).collect())
}

/// The bounds on one interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judgement {
    /// Upper bound on the log-integrand.
    pub(crate) upper: f64,
    /// The log-integrand is at least this somewhere inside, as far as it may raise the floor.
    pub(crate) reached: f64,
    /// Whether the piece does not need to be divided further.
    pub(crate) small: bool,
}

/// A positive count that was computed as a floating-point number, saturating at the largest value.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are positive; saturation is wanted"
)]
pub(crate) const fn whole(x: f64) -> usize {
    x as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_exact_for_polynomials_of_degree_39() {
        for degree in [0, 2, 20, 38] {
            let sum: f64 = GAUSS_LEGENDRE.iter().map(|(x, w)| w * x.powi(degree)).sum();
            let exact = 2.0 / (f64::from(degree) + 1.0);
            assert!((sum / exact - 1.0).abs() < 1e-13, "{degree}: {sum}");
        }
    }

    #[test]
    fn exponentials_are_integrated_to_rounding() {
        for rate in [0.01, 1.0, 30.0, 400.0] {
            let found: f64 = panels(-1.0, 2.0, rate, 20_000)
                .map(|(x, w)| w * (rate * x).cos())
                .sum();
            let expected = ((2.0 * rate).sin() + rate.sin()) / rate;
            assert!(
                (found - expected).abs() < 3e-15,
                "{rate}: {found} {expected}"
            );
        }
    }
}
