//! The Gauss-Legendre rule of 20 points.

use std::sync::LazyLock;

/// Number of points; the rule is exact for polynomials of degree 2 `N_POINTS` - 1.
pub(crate) const N_POINTS: usize = 20;

/// Nodes on (-1, 1) and weights, by Newton's method on the Legendre polynomial.
pub(crate) static RULE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_exact_for_polynomials_of_degree_39() {
        for degree in [0, 2, 20, 38] {
            let sum: f64 = RULE.iter().map(|(x, w)| w * x.powi(degree)).sum();
            let exact = 2.0 / (f64::from(degree) + 1.0);
            assert!((sum / exact - 1.0).abs() < 1e-13, "{degree}: {sum}");
        }
    }
}
