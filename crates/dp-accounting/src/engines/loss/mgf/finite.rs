//! Finitely many losses.

use super::excess::log_moment;
use crate::engines::loss::FiniteLoss;

/// Differences of two sums of probabilities below this much of the sums are rounding.
const ROUNDING: f64 = 1e-15;

/// K(s) over the finite losses.
///
/// With m the mass of P at infinity and r the mass of Q where P has none,
/// E e^{sL} - 1 = Σ p (φ(sl) + s φ(-l)) + s (r - m) - m, because Σ p = 1 - m and
/// Σ p e^{-l} = 1 - r. Below s = -1/2 the roles of P and Q are exchanged, which keeps the first
/// sum free of cancellation.
pub(super) fn log_mgf(finite: &FiniteLoss, s: f64) -> f64 {
    let m = finite.infinite_mass;
    let gap = mass_gap(&finite.atoms, m);
    let outcomes = finite.atoms.iter().map(|&(l, p)| (1.0, libm::log(p), l));
    if s >= -0.5 {
        log_moment(outcomes, s, s * gap - m)
    } else {
        let r = gap + m;
        let swapped = outcomes.map(|(_, log_p, l)| (1.0, log_p - l, -l));
        log_moment(swapped, -1.0 - s, (1.0 + s) * gap - r)
    }
}

/// A bound on the error of K(s) that comes from the rounding of probabilities.
pub(super) fn rounding(finite: &FiniteLoss, s: f64) -> f64 {
    ROUNDING * s.abs().max(1.0) * gap_and_size(&finite.atoms).1
}

/// r - m = Σ p (1 - e^{-l}); 0 or -m, the commonest values, when only rounding differs.
fn mass_gap(atoms: &[(f64, f64)], m: f64) -> f64 {
    let (sum, size) = gap_and_size(atoms);
    if sum.abs() <= ROUNDING * size {
        0.0
    } else if (sum + m).abs() <= ROUNDING * size {
        -m
    } else {
        sum
    }
}

fn gap_and_size(atoms: &[(f64, f64)]) -> (f64, f64) {
    let terms = atoms.iter().map(|&(l, p)| -libm::expm1(-l) * p);
    terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
}
