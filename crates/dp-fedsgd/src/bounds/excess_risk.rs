//! Theorems 4.5, 5.2 and B.4.

/// Smoothness and variance of the pre-conditioned iteration: what the three theorems have in common.
///
/// ```text
/// E f(mean iterate) - f*  <=  4 L z^2 / T + 3 s z / sqrt T,    eta = min(1 / (4 L), z / (sqrt T s))
/// ```
///
/// with `z = ||z*||_alpha` ([`alpha_norm_squared`](super::alpha_norm_squared)), `L` and `s^2` as each theorem has them, `T` rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExcessRisk {
    /// `L_alpha` or `L_(m,alpha)`.
    pub smoothness: f64,
    /// `sigma_tot^2` or `sigma_(m,alpha)^2`.
    pub variance: f64,
}

/// Figures of users with minibatches of different sizes, for Theorems 5.2 and B.4. `m_i` rows in a minibatch of user `i`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampledUsers {
    /// `q`, the probability that a user takes part.
    pub sampling_probability: f64,
    /// `N`.
    pub n_users: f64,
    /// `M`, the sum of all `m_i`; read by Theorem 5.2 only.
    pub n_rows: f64,
    /// The largest `m_i`; read by Theorem 5.2 only.
    pub max_rows: f64,
    /// Variances `(sigma_w,m^2, sigma_theta,m^2)`: means over users of those of one row's gradient at the minimiser, weighted with `m_i / M` in Theorem 5.2 and
    /// with `1 / (N m_i)` in Theorem B.4.
    pub variances: (f64, f64),
    /// What the draw of users adds: `1/M sum_i (1 - q) m_i^2 ||grad_w f_i||^2` at the minimiser (Theorem 5.2), `1/N sum_i (1 - q) ||grad_w f_i||^2`
    /// (Theorem B.4); 0 in additive models. The definition in the paper has another factor `q`; the sum in its proof is then to be divided by
    /// `q^2 M`.
    pub sampling_variance: f64,
}

impl ExcessRisk {
    /// Theorem 4.5, eq. (6): everybody in every round.
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
    /// Derived anew: with `a_ik` the differences of gradients to those at the minimiser, the mean of the sum over a sample contributes `alpha` by convexity,
    /// its variance `alpha m_max / (q M)` and the local part `m_max / (q M)`, the last two by `||sum_k a_ik||^2 <= m_i sum_k ||a_ik||^2`.
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
    /// Derived anew as for [`theorem_5_2`](Self::theorem_5_2), with `||mean_k a_ik||^2 <= mean_k ||a_ik||^2`.
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

    /// The bound after `n_rounds` rounds for a minimiser with this `||z*||_alpha^2`.
    #[must_use]
    pub fn bound(&self, norm_squared: f64, n_rounds: f64) -> f64 {
        let statistical = 3.0 * (self.variance * norm_squared / n_rounds).sqrt();
        4.0 * self.smoothness * norm_squared / n_rounds + statistical
    }

    /// The step `eta` that the bound is for, in the paper's terms: `w` moves by `alpha eta` times the mean over users,
    /// `theta_i` by `eta / N` (`eta / (q M)`) times its own gradient.
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
