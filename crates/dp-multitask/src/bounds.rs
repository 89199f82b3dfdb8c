//! Excess-risk bounds of Krichene et al. 2023, for planning.
//!
//! All are **up to constants** (and, where the paper writes a soft O, up to logarithms): use them
//! to compare allocations or sizes, never to predict accuracy. `omega` are task weights with
//! `sum_{i of j} omega_i^2 <= beta` for every user, `counts` the task sizes `n_i`, both one per
//! task; excess risk is summed over all records, not averaged. `beta` is the paper's RDP budget:
//! order `a` costs `a beta`, so a mu-GDP guarantee has `beta = mu^2 / 2` ([`rdp_budget`]).
//!
//! ```
//! use dp_multitask::bounds;
//! let counts = [1_000.0, 100.0, 10.0];
//! let equal = [0.1; 3];
//! let adaptive = counts.map(|n: f64| n.powf(-0.5));
//! // scaled to the same spending of the average user, weights n^-1/2 have the smaller bound
//! let spent = |w: &[f64]| counts.iter().zip(w).map(|(n, w)| n * w * w).sum::<f64>();
//! let scale = (spent(&equal) / spent(&adaptive)).sqrt();
//! let adaptive = adaptive.map(|w| w * scale);
//! let risk = |w: &[f64]| bounds::ssp_excess_risk(1.0, 1.0, 5, 0.1, w, &counts);
//! let gain = risk(&equal) / risk(&adaptive);
//! assert!((gain / dp_multitask::improvement_ratio_strongly_convex(&counts) - 1.0).abs() < 1e-9);
//! ```

/// The paper's budget `beta` of a mu-GDP guarantee: a Gaussian mechanism of parameter mu costs
/// `a mu^2 / 2` at Rényi order `a`.
#[must_use]
pub fn rdp_budget(mu: f64) -> f64 {
    0.5 * mu * mu
}

/// Theorem 3.8, eq. (6), SSP: `Gamma_x^4 Gamma_*^2 d / lambda * sum_i 1 / (omega_i^2 n_i)`.
///
/// `l2_penalty` is the paper's `lambda` per record; `coefficient_norm` bounds the solutions.
#[must_use]
pub fn ssp_excess_risk(
    feature_norm: f64,
    coefficient_norm: f64,
    dim: usize,
    l2_penalty: f64,
    omega: &[f64],
    counts: &[f64],
) -> f64 {
    let scale = feature_norm.powi(4) * coefficient_norm.powi(2) * dim as f64 / l2_penalty;
    scale * inverse_information(omega, counts)
}

/// Theorem 3.12(a), eq. (7), noisy GD on convex losses that are Lipschitz with constant
/// `lipschitz` on a domain of this diameter: `||C|| Gamma sqrt(m d) sqrt(sum_i 1/omega_i^2)`.
#[must_use]
pub fn gd_convex_excess_risk(diameter: f64, lipschitz: f64, dim: usize, omega: &[f64]) -> f64 {
    let size = (omega.len() as f64 * dim as f64).sqrt();
    diameter * lipschitz * size * inverse_squares(omega).sqrt()
}

/// Steps of Theorem 3.12(a): `T = (2/d) sum_i n_i^2 / sum_i omega_i^-2`, not rounded.
#[must_use]
pub fn gd_convex_steps(dim: usize, omega: &[f64], counts: &[f64]) -> f64 {
    let squares: f64 = counts.iter().map(|n| n * n).sum();
    2.0 / dim as f64 * squares / inverse_squares(omega)
}

/// Theorem 3.12(b), eq. (8), noisy GD on Lipschitz losses that are `convexity`-strongly convex:
/// `Gamma^2 d / lambda * sum_i 1 / (omega_i^2 n_i)`.
#[must_use]
pub fn gd_strongly_convex_excess_risk(
    lipschitz: f64,
    convexity: f64,
    dim: usize,
    omega: &[f64],
    counts: &[f64],
) -> f64 {
    lipschitz.powi(2) * dim as f64 / convexity * inverse_information(omega, counts)
}

/// Steps of Theorem 3.12(b): `T = (2/d) sum_i n_i / sum_i 1/(omega_i^2 n_i)`, not rounded.
#[must_use]
pub fn gd_strongly_convex_steps(dim: usize, omega: &[f64], counts: &[f64]) -> f64 {
    2.0 / dim as f64 * counts.iter().sum::<f64>() / inverse_information(omega, counts)
}

/// Theorem 4.3(a), eq. (13), SSP with the weights of eq. (11) at `gamma = 1`:
/// `Gamma_x^4 Gamma_*^2 d m^2 / (n lambda beta)`.
#[must_use]
pub fn ssp_adaptive_excess_risk(
    feature_norm: f64,
    coefficient_norm: f64,
    dim: usize,
    n_tasks: usize,
    n_users: f64,
    l2_penalty: f64,
    beta: f64,
) -> f64 {
    let scale = feature_norm.powi(4) * coefficient_norm.powi(2) * dim as f64;
    scale * (n_tasks as f64).powi(2) / (n_users * l2_penalty * beta)
}

/// Theorem 4.3(b), eq. (14), convex losses with the weights of eq. (11) at `gamma = 0`:
/// `||C|| Gamma sqrt(m d / (n beta)) sum_i sqrt(n_i)`, as printed.
#[must_use]
pub fn gd_convex_adaptive_excess_risk(
    diameter: f64,
    lipschitz: f64,
    dim: usize,
    n_users: f64,
    beta: f64,
    counts: &[f64],
) -> f64 {
    let size = (counts.len() as f64 * dim as f64 / (n_users * beta)).sqrt();
    diameter * lipschitz * size * counts.iter().map(|n| n.sqrt()).sum::<f64>()
}

/// Theorem 4.3(c), eq. (15), strongly convex losses with the weights of eq. (11) at `gamma = 1`:
/// `Gamma^2 d m^2 / (n lambda beta)`.
#[must_use]
pub fn gd_strongly_convex_adaptive_excess_risk(
    lipschitz: f64,
    convexity: f64,
    dim: usize,
    n_tasks: usize,
    n_users: f64,
    beta: f64,
) -> f64 {
    let tasks = (n_tasks as f64).powi(2);
    lipschitz.powi(2) * dim as f64 * tasks / (n_users * convexity * beta)
}

/// Theorem B.2, eq. (21): the factor by which counts known only to within `slack` raise the bound
/// of [`ssp_adaptive_excess_risk`], `(1/m) sum_i (n^_i + s) / n_i`.
///
/// `counts` are the true sizes: for planning, the expected ones.
#[must_use]
pub fn approximate_count_factor(noisy_counts: &[f64], counts: &[f64], slack: f64) -> f64 {
    let terms = noisy_counts.iter().zip(counts);
    terms.map(|(noisy, n)| (noisy + slack) / n).sum::<f64>() / counts.len() as f64
}

fn inverse_squares(omega: &[f64]) -> f64 {
    omega.iter().map(|w| 1.0 / (w * w)).sum()
}

fn inverse_information(omega: &[f64], counts: &[f64]) -> f64 {
    let terms = omega.iter().zip(counts);
    terms.map(|(w, n)| 1.0 / (w * w * n)).sum()
}

/// `R_0`, the improvement of the bound for convex losses: `sqrt(m sum_i n_i) / sum_i sqrt(n_i)`, at
/// least 1, and 1 exactly if all counts are equal.
///
/// Source: Krichene et al. 2023, after Theorem 4.3. Counts at or below 0 are left out, as tasks
/// without data; if no task is left the ratio is 1.
///
/// # Examples
/// ```
/// use dp_multitask::improvement_ratio_convex;
/// assert_eq!(improvement_ratio_convex(&[9.0, 9.0]), 1.0);
/// assert!((improvement_ratio_convex(&[16.0, 1.0]) - 34.0_f64.sqrt() / 5.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn improvement_ratio_convex(counts: &[f64]) -> f64 {
    let (n, sum, roots) = sums(counts, f64::sqrt);
    if n > 0.0 {
        (n * sum).sqrt() / roots
    } else {
        1.0
    }
}

/// `R_1`, the improvement of the bound for strongly convex losses and for SSP:
/// `(sum_i 1/n_i)(sum_i n_i) / m^2`, at least 1.
///
/// Source and conventions as for [`improvement_ratio_convex`].
///
/// # Examples
/// ```
/// use dp_multitask::improvement_ratio_strongly_convex;
/// assert!((improvement_ratio_strongly_convex(&[16.0, 1.0]) - 17.0 / 16.0 * 17.0 / 4.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn improvement_ratio_strongly_convex(counts: &[f64]) -> f64 {
    let (n, sum, inverses) = sums(counts, f64::recip);
    if n > 0.0 {
        inverses * sum / (n * n)
    } else {
        1.0
    }
}

/// Number of tasks with data, sum of their counts, and sum of a function of the counts.
fn sums(counts: &[f64], of: impl Fn(f64) -> f64) -> (f64, f64, f64) {
    let kept = counts.iter().filter(|&&count| count > 0.0);
    kept.fold((0.0, 0.0, 0.0), |(n, sum, total), &count| {
        (n + 1.0, sum + count, total + of(count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights of eq. (11) with `c(n) = 1`.
    fn optimal(counts: &[f64], gamma: f64, n_users: f64, beta: f64) -> Vec<f64> {
        let sum: f64 = counts.iter().map(|n| n.powf(0.5 * (1.0 - gamma))).sum();
        let scale = (sum / (n_users * beta)).sqrt();
        counts
            .iter()
            .map(|n| n.powf(-0.25 * (1.0 + gamma)) / scale)
            .collect()
    }

    const COUNTS: [f64; 4] = [900.0, 400.0, 25.0, 4.0];

    #[test]
    fn the_adaptive_bounds_are_the_general_ones_at_the_optimal_weights() {
        let (n, beta) = (1_500.0, 0.3);
        let w = optimal(&COUNTS, 1.0, n, beta);
        let general = ssp_excess_risk(1.2, 0.7, 5, 0.1, &w, &COUNTS);
        let adaptive = ssp_adaptive_excess_risk(1.2, 0.7, 5, 4, n, 0.1, beta);
        assert!((general / adaptive - 1.0).abs() < 1e-12);
        let general = gd_strongly_convex_excess_risk(2.0, 0.1, 5, &w, &COUNTS);
        let adaptive = gd_strongly_convex_adaptive_excess_risk(2.0, 0.1, 5, 4, n, beta);
        assert!((general / adaptive - 1.0).abs() < 1e-12);
        let w = optimal(&COUNTS, 0.0, n, beta);
        let general = gd_convex_excess_risk(2.0, 3.0, 5, &w);
        let adaptive = gd_convex_adaptive_excess_risk(2.0, 3.0, 5, n, beta, &COUNTS);
        assert!((general / adaptive - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_other_power_of_the_counts_beats_the_optimal_one() {
        for gamma in [0.0, 1.0] {
            let objective = |exponent: f64| {
                let w: Vec<f64> = COUNTS.iter().map(|n| n.powf(-exponent)).collect();
                let spent: f64 = COUNTS.iter().zip(&w).map(|(n, w)| n * w * w).sum();
                let terms = COUNTS.iter().zip(&w);
                spent * terms.map(|(n, w)| n.powf(-gamma) / (w * w)).sum::<f64>()
            };
            let best = objective(0.25 * (1.0 + gamma));
            for exponent in [0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0] {
                assert!(objective(exponent) >= best * (1.0 - 1e-12), "{exponent}");
            }
        }
    }

    #[test]
    fn steps_balance_the_two_terms_of_the_proofs() {
        let w = [0.1, 0.2, 0.4, 0.8];
        // (1/T) sum n_i = (d/2) sum 1/(omega_i^2 n_i)
        let t = gd_strongly_convex_steps(3, &w, &COUNTS);
        let noise: f64 = COUNTS.iter().zip(&w).map(|(n, w)| 1.5 / (w * w * n)).sum();
        assert!((COUNTS.iter().sum::<f64>() / t / noise - 1.0).abs() < 1e-12);
        let t = gd_convex_steps(3, &w, &COUNTS);
        let noise: f64 = w.iter().map(|w| 1.5 / (w * w)).sum();
        assert!((COUNTS.iter().map(|n| n * n).sum::<f64>() / t / noise - 1.0).abs() < 1e-12);
    }

    #[test]
    fn exact_counts_cost_nothing_and_inexact_ones_their_relative_error() {
        assert!((approximate_count_factor(&COUNTS, &COUNTS, 0.0) - 1.0).abs() < 1e-12);
        let factor = approximate_count_factor(&[12.0], &[10.0], 3.0);
        assert!((factor - 1.5).abs() < 1e-12);
        assert!((rdp_budget(2.0) - 2.0).abs() < 1e-15);
    }
}
