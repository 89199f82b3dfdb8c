//! Conversions to epsilon and delta: in order, and the best one attained by a pair of distributions.

use dp_accounting::rdp::conversion::{self, Conversion};

#[test]
fn conversions_are_ordered_and_the_best_is_attained() {
    for (order, rdp) in [
        (1.1, 0.01),
        (2.0, 0.1),
        (8.0, 0.5),
        (32.0, 0.8),
        (500.0, 2.0),
    ] {
        for epsilon in [0.0, 0.3, 1.0, 2.5] {
            let delta = |c| conversion::delta(order, rdp, epsilon, c).unwrap();
            let best = delta(Conversion::Asoodeh2020);
            assert!(best <= delta(Conversion::Cks2020) * (1.0 + 1e-12));
            assert!(delta(Conversion::Cks2020) <= delta(Conversion::Mironov2017));
            let attained = two_point_delta(order, rdp, epsilon);
            assert!(attained <= best * (1.0 + 1e-9), "{order} {rdp} {epsilon}");
            assert!(
                attained >= best * 0.98 || best < 1e-20,
                "{order} {rdp} {epsilon}: {attained} {best}"
            );
        }
        for delta in [1e-12, 1e-5, 0.01, 0.3] {
            let epsilon = |c| conversion::epsilon(order, rdp, delta, c).unwrap();
            let best = epsilon(Conversion::Asoodeh2020);
            assert!(best <= epsilon(Conversion::Cks2020).max(0.0) + 1e-12);
            let back = conversion::delta(order, rdp, best, Conversion::Asoodeh2020).unwrap();
            assert!(back <= delta * (1.0 + 1e-9), "{order} {rdp} {delta}");
            assert!(
                best == 0.0 || back > delta * (1.0 - 1e-6),
                "{order} {rdp} {delta}"
            );
        }
    }
}

/// The largest p - e^epsilon q over pairs of binary distributions within the divergence: for every
/// q of a fine grid the largest p by bisection.
fn two_point_delta(order: f64, rdp: f64, epsilon: f64) -> f64 {
    let s = order - 1.0;
    let divergence = |p: f64, q: f64| {
        let one = s * (p / q).ln() + p.ln();
        let other = s * ((1.0 - p) / (1.0 - q)).ln() + (1.0 - p).ln();
        (one.max(other) + (-(one - other).abs()).exp().ln_1p()) / s
    };
    let mut best = 0.0_f64;
    for i in 0..6_000 {
        let q = (-80.0 * f64::from(i) / 6_000.0).exp() * 0.999;
        let (mut low, mut high) = (q, 1.0 - 1e-15);
        for _ in 0..60 {
            let p = (low * high).sqrt();
            if divergence(p, q) <= rdp {
                low = p;
            } else {
                high = p;
            }
        }
        best = best.max(low - epsilon.exp() * q);
    }
    best
}
