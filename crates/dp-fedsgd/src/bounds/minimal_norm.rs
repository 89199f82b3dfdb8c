//! The norm that the bounds are in, and the minimisers that have the least of it.

/// `||z||_alpha^2 = ||w||^2 / alpha + sum_i ||theta_i||^2`, eq. (5). Infinite for `alpha = 0` unless `w` is 0.
#[must_use]
pub fn alpha_norm_squared(shared: &[f64], local: &[&[f64]], alpha: f64) -> f64 {
    let square = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>();
    let shared = square(shared);
    let own: f64 = local.iter().map(|theta| square(theta)).sum();
    if shared == 0.0 {
        return own;
    }
    shared / alpha + own
}

/// The minimiser of least `alpha`-norm in an additive model: of all `w + theta_i = v_i`, the one with
///
/// ```text
/// w = alpha / (alpha N + 1) sum_i v_i,   theta_i = v_i - w
/// ```
///
/// Derivation: the derivative of `||w||^2 / alpha + sum_i ||v_i - w||^2` is 0 there. For equal users this is Lemma 4.6, `w = alpha N / (alpha N + 1) v`.
/// Returns `w`.
#[must_use]
pub fn minimal_norm_shared(optima: &[&[f64]], alpha: f64) -> Vec<f64> {
    let dim = optima.first().map_or(0, |v| v.len());
    let n = optima.len() as f64;
    // alpha / (alpha N + 1), also for infinity
    let weight = 1.0 / (n + 1.0 / alpha);
    let mut shared = vec![0.0; dim];
    for v in optima {
        for (w, x) in shared.iter_mut().zip(*v) {
            *w += weight * x;
        }
    }
    shared
}

/// `||z*||_alpha^2 = N ||v||^2 / (alpha N + 1)` of the minimal-norm minimiser when all users have the same `v` (Lemma 4.6).
#[must_use]
pub fn norm_squared_for_equal_users(v_norm: f64, alpha: f64, n_users: f64) -> f64 {
    v_norm.powi(2) * n_users / (alpha * n_users + 1.0)
}
