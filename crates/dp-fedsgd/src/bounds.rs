//! Excess-risk bounds of Bietti et al. 2022, for planning.
//!
//! Theorems 4.5, 5.2 and B.4 hold with the constants given here under these conditions: the loss is
//! jointly convex and `L`-smooth in `(w, theta_i)`; gradients are within the clipping norm, so
//! clipping has no effect; every round uses a fresh minibatch; the result is the average iterate;
//! the constant step is the best one ([`ExcessRisk::learning_rate`]); and the norms and variances
//! at the minimiser are known. These conditions rarely all hold: use the bounds to compare
//! settings, not to promise accuracy.
//!
//! `alpha` is the paper's here: for `N` users it is
//! [`PpSgdParams::alpha`](crate::PpSgdParams::alpha) over `N`. `noise_stddev` is the standard
//! deviation of the noise on the *mean*: `z C / (q N)` in the notation of [`PpSgd`](crate::PpSgd),
//! or `z C / (q M)` for sums of rows.
//!
//! ```
//! use dp_fedsgd::bounds::{ExcessRisk, norm_squared_for_equal_users};
//! // 1000 equal users with ||v|| = 1: noise makes large alpha pay
//! let risk = |alpha: f64, noise_stddev: f64| {
//!     let noise = ExcessRisk::theorem_4_5(alpha, 1e3, 2.0, (1.0, 1.0), 100, noise_stddev);
//!     noise.bound(norm_squared_for_equal_users(1.0, alpha, 1e3), 1e4)
//! };
//! assert!(risk(1.0, 0.0) < risk(1e-6, 0.0));
//! assert!(risk(1.0, 1.0) > risk(1e-6, 1.0));
//! ```

use dp_core::params;

use crate::Result;

/// Smoothness and variance of the pre-conditioned iteration, which the three theorems have in
/// common.
///
/// ```text
/// E f(mean iterate) - f*  <=  4 L z^2 / T + 3 s z / sqrt T,    eta = min(1 / (4 L), z / (sqrt T s))
/// ```
///
/// with `z = ||z*||_alpha` ([`alpha_norm_squared`]), `L` and `s^2` as defined in each theorem, and
/// `T` rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExcessRisk {
    /// `L_alpha` or `L_(m,alpha)`.
    pub smoothness: f64,
    /// `sigma_tot^2` or `sigma_(m,alpha)^2`.
    pub variance: f64,
}

/// Statistics of users with minibatches of different sizes, for Theorems 5.2 and B.4. `m_i` is the
/// number of rows in a minibatch of user `i`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampledUsers {
    /// `q`, the probability that a user takes part.
    pub sampling_probability: f64,
    /// `N`.
    pub n_users: f64,
    /// `M`, the sum of all `m_i`; used by Theorem 5.2 only.
    pub n_rows: f64,
    /// The largest `m_i`; used by Theorem 5.2 only.
    pub max_rows: f64,
    /// Variances `(sigma_w,m^2, sigma_theta,m^2)`: means over users of the variance of one row's
    /// gradient at the minimiser, weighted with `m_i / M` in Theorem 5.2 and with `1 / (N m_i)` in
    /// Theorem B.4.
    pub variances: (f64, f64),
    /// Variance added by the sampling of users: `1/M sum_i (1 - q) m_i^2 ||grad_w f_i||^2` at the
    /// minimiser (Theorem 5.2), `1/N sum_i (1 - q) ||grad_w f_i||^2` (Theorem B.4); 0 in additive
    /// models. The definition in the paper has another factor `q`; with it, the sum in its proof
    /// must be divided by `q^2 M`.
    pub sampling_variance: f64,
}

impl ExcessRisk {
    /// Theorem 4.5, eq. (6): every user in every round.
    ///
    /// ```text
    /// L = L_f max(alpha, 1/N),   s^2 = (alpha sigma_w^2 + sigma_theta^2) / N + alpha d_w sigma_zeta^2
    /// ```
    ///
    /// `variances` are `(sigma_w^2, sigma_theta^2)`, to be divided by the minibatch size; `n_shared` is `d_w`.
    #[must_use]
    pub fn theorem_4_5(
        alpha: f64,
        n_users: f64,
        smoothness: f64,
        variances: (f64, f64),
        n_shared: usize,
        noise_stddev: f64,
    ) -> Self {
        let (shared, local) = variances;
        Self {
            smoothness: smoothness * alpha.max(1.0 / n_users),
            variance: (alpha * shared + local) / n_users
                + alpha * n_shared as f64 * noise_stddev.powi(2),
        }
    }

    /// Theorem 5.2, eq. (13): sampled users, sums over rows (Algorithm 2).
    ///
    /// ```text
    /// L = L_f max(alpha + alpha m_max / (q M), m_max / (q M))
    /// s^2 = (alpha (sigma_w,m^2 + sampling variance) + sigma_theta,m^2) / (q M) + alpha d_w sigma_zeta^2
    /// ```
    ///
    /// Re-derived: with `a_ik` the differences between the gradients and those at the minimiser,
    /// the mean of the sum over a sample contributes `alpha` by convexity, its variance contributes
    /// `alpha m_max / (q M)` and the local part `m_max / (q M)`, the last two by
    /// `||sum_k a_ik||^2 <= m_i sum_k ||a_ik||^2`.
    #[must_use]
    pub fn theorem_5_2(
        alpha: f64,
        smoothness: f64,
        users: &SampledUsers,
        n_shared: usize,
        noise_stddev: f64,
    ) -> Self {
        let weight = users.sampling_probability * users.n_rows;
        let largest = alpha + alpha * users.max_rows / weight;
        Self {
            smoothness: smoothness * largest.max(users.max_rows / weight),
            variance: users.variance_over(alpha, weight)
                + alpha * n_shared as f64 * noise_stddev.powi(2),
        }
    }

    /// Theorem B.4, eq. (35): sampled users, means over rows (Algorithm 3).
    ///
    /// ```text
    /// L = L_f max(alpha + alpha / (q N), 1 / (q N))
    /// s^2 = (alpha (sigma_w,m^2 + sampling variance) + sigma_theta,m^2) / (q N) + alpha d_w sigma_zeta^2
    /// ```
    ///
    /// Re-derived as for [`theorem_5_2`](Self::theorem_5_2), with `||mean_k a_ik||^2 <= mean_k
    /// ||a_ik||^2`.
    #[must_use]
    pub fn theorem_b_4(
        alpha: f64,
        smoothness: f64,
        users: &SampledUsers,
        n_shared: usize,
        noise_stddev: f64,
    ) -> Self {
        let weight = users.sampling_probability * users.n_users;
        let largest = alpha + alpha / weight;
        Self {
            smoothness: smoothness * largest.max(1.0 / weight),
            variance: users.variance_over(alpha, weight)
                + alpha * n_shared as f64 * noise_stddev.powi(2),
        }
    }

    /// The bound after `n_rounds` rounds for a minimiser with squared norm `||z*||_alpha^2`.
    #[must_use]
    pub fn bound(&self, norm_squared: f64, n_rounds: f64) -> f64 {
        let statistical = 3.0 * (self.variance * norm_squared / n_rounds).sqrt();
        4.0 * self.smoothness * norm_squared / n_rounds + statistical
    }

    /// The step `eta` for which the bound holds, in the paper's notation: `w` moves by `alpha eta`
    /// times the mean over users, `theta_i` by `eta / N` (`eta / (q M)`) times its own gradient.
    #[must_use]
    pub fn learning_rate(&self, norm_squared: f64, n_rounds: f64) -> f64 {
        let noisy = (norm_squared / (n_rounds * self.variance)).sqrt();
        noisy.min(0.25 / self.smoothness)
    }
}

impl SampledUsers {
    fn variance_over(&self, alpha: f64, weight: f64) -> f64 {
        let (shared, local) = self.variances;
        (alpha * (shared + self.sampling_variance) + local) / weight
    }
}

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

/// The minimiser with the smallest `alpha`-norm in an additive model: of all `w + theta_i = v_i`,
/// the one with
///
/// ```text
/// w = alpha / (alpha N + 1) sum_i v_i,   theta_i = v_i - w
/// ```
///
/// Derivation: the derivative of `||w||^2 / alpha + sum_i ||v_i - w||^2` is 0 there. For users with
/// equal optima this is Lemma 4.6, `w = alpha N / (alpha N + 1) v`. Returns `w`.
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

/// Lemma 4.6 for the noise that is actually added: the number of rounds `n` from which learning
/// alone has the smaller variance term, for equal users of an additive model with
/// `sigma_w = sigma_theta = sigma`.
///
/// ```text
/// square of the variance term = ||v||^2 / n * [ (1 + alpha) sigma^2 / N + alpha d_w s^2 ] N / (alpha N + 1)
/// rises with alpha  iff  d_w s^2 >= sigma^2 (N - 1) / N,      s^2 = n r^2
/// n* = (N - 1) sigma^2 / (N d_w r^2)
/// ```
///
/// `noise_per_root_round` is `r`, the noise on the mean divided by the square root of the number of
/// rounds: with a fixed privacy budget mu and clipping norm `C`, `s = C sqrt n / (mu N)`, so
/// `r = C / (mu N)` and `n* = N (N - 1) sigma^2 mu^2 / (d_w C^2)`. This is the lemma with `mu^2`
/// for `epsilon^2 / log(1/delta)` (printed with `epsilon` to the first power in its proof) and
/// without hidden constants.
///
/// # Errors
/// [`crate::Error::Param`] unless all numbers are finite and positive.
pub fn rounds_until_local_learning_wins(
    n_users: f64,
    gradient_stddev: f64,
    n_shared: usize,
    noise_per_root_round: f64,
) -> Result<f64> {
    params::finite_positive("n_users", n_users)?;
    params::finite_positive("gradient_stddev", gradient_stddev)?;
    params::finite_positive("noise_per_root_round", noise_per_root_round)?;
    params::at_least_one("n_shared", n_shared)?;
    let noise = n_shared as f64 * noise_per_root_round.powi(2);
    Ok((n_users - 1.0) * gradient_stddev.powi(2) / (n_users * noise))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from a transcription of the theorems in Python with mpmath, 30 digits.
    #[test]
    fn bounds_are_those_of_the_theorems() {
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
        let full = ExcessRisk::theorem_4_5(0.01, 200.0, 3.0, (2.0, 5.0), 40, 0.25);
        close(full.smoothness, FULL.0);
        close(full.variance, FULL.1);
        close(full.bound(7.0, 900.0), FULL.2);
        close(full.learning_rate(7.0, 900.0), FULL.3);
        let users = SampledUsers {
            sampling_probability: 0.05,
            n_users: 200.0,
            n_rows: 1500.0,
            max_rows: 30.0,
            variances: (2.0, 5.0),
            sampling_variance: 0.4,
        };
        let sums = ExcessRisk::theorem_5_2(0.01, 3.0, &users, 40, 0.25);
        close(sums.smoothness, SUMS.0);
        close(sums.variance, SUMS.1);
        close(sums.bound(7.0, 900.0), SUMS.2);
        let means = ExcessRisk::theorem_b_4(0.01, 3.0, &users, 40, 0.25);
        close(means.smoothness, MEANS.0);
        close(means.variance, MEANS.1);
        close(means.bound(7.0, 900.0), MEANS.2);
    }

    const FULL: (f64, f64, f64, f64) = (0.03, 0.0501, 0.06015326241130505, 0.39401150417812186);
    const SUMS: (f64, f64, f64) = (1.2, 0.091986666666666667, 0.11757712852440506);
    const MEANS: (f64, f64, f64) = (0.3, 0.5274, 0.20147390687260431);

    #[test]
    fn without_sampling_and_with_one_row_each_all_three_agree_but_for_the_smoothness_of_samples() {
        let users = SampledUsers {
            sampling_probability: 1.0,
            n_users: 50.0,
            n_rows: 50.0,
            max_rows: 1.0,
            variances: (2.0, 5.0),
            sampling_variance: 0.0,
        };
        let full = ExcessRisk::theorem_4_5(0.3, 50.0, 3.0, (2.0, 5.0), 4, 0.25);
        for other in [
            ExcessRisk::theorem_5_2(0.3, 3.0, &users, 4, 0.25),
            ExcessRisk::theorem_b_4(0.3, 3.0, &users, 4, 0.25),
        ] {
            assert!((other.variance / full.variance - 1.0).abs() < 1e-12);
            assert!(other.smoothness >= full.smoothness);
        }
    }

    #[test]
    fn the_minimal_norm_minimiser_has_the_least_norm() {
        let optima: [&[f64]; 3] = [&[1.0, 2.0], &[0.0, 2.5], &[-1.0, 3.0]];
        let norm = |w: &[f64], alpha: f64| {
            let local: Vec<Vec<f64>> = optima
                .iter()
                .map(|v| v.iter().zip(w).map(|(v, w)| v - w).collect())
                .collect();
            let local: Vec<&[f64]> = local.iter().map(Vec::as_slice).collect();
            alpha_norm_squared(w, &local, alpha)
        };
        for alpha in [0.01, 1.0, 30.0] {
            let w = minimal_norm_shared(&optima, alpha);
            let least = norm(&w, alpha);
            for step in [[1e-3, 0.0], [0.0, 1e-3], [-1e-3, 1e-3]] {
                assert!(norm(&[w[0] + step[0], w[1] + step[1]], alpha) > least);
            }
        }
        let mean = minimal_norm_shared(&optima, f64::INFINITY);
        assert!((mean[0]).abs() < 1e-15 && (mean[1] - 2.5).abs() < 1e-15);
        let same: [&[f64]; 4] = [&[2.0]; 4];
        let w = minimal_norm_shared(&same, 0.5);
        let own = [2.0 - w[0]];
        let direct = alpha_norm_squared(&w, &[&own[..]; 4], 0.5);
        assert!((direct - norm_squared_for_equal_users(2.0, 0.5, 4.0)).abs() < 1e-12);
        assert!(alpha_norm_squared(&[1.0], &[], 0.0).is_infinite());
    }

    #[test]
    fn the_threshold_is_where_the_variance_term_turns() {
        let (n_users, sigma, dim, per_root) = (300.0, 1.7, 20, 0.01);
        let turn = rounds_until_local_learning_wins(n_users, sigma, dim, per_root).unwrap();
        for (factor, rises) in [(0.9, false), (1.1, true)] {
            let rounds = turn * factor;
            let term = |alpha: f64| {
                let noise = per_root * f64::sqrt(rounds);
                let variances = (sigma * sigma, sigma * sigma);
                let risk = ExcessRisk::theorem_4_5(alpha, n_users, 1.0, variances, dim, noise);
                risk.variance * norm_squared_for_equal_users(1.0, alpha, n_users)
            };
            for pair in [1e-4, 1e-2, 1.0, 100.0].windows(2) {
                assert_eq!(term(pair[1]) > term(pair[0]), rises, "{factor} {pair:?}");
            }
        }
        assert!(rounds_until_local_learning_wins(0.0, 1.0, 1, 1.0).is_err());
        assert!(rounds_until_local_learning_wins(5.0, 1.0, 0, 1.0).is_err());
    }
}
