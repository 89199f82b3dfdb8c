//! Lemma 4.6: from how many rounds on learning alone wins.

use dp_core::params;

use crate::Result;

/// Lemma 4.6 for the noise that is really added: rounds `n` from which on learning alone has the smaller variance term, for equal users of an
/// additive model with `sigma_w = sigma_theta = sigma`.
///
/// ```text
/// square of the variance term = ||v||^2 / n * [ (1 + alpha) sigma^2 / N + alpha d_w s^2 ] N / (alpha N + 1)
/// rises with alpha  iff  d_w s^2 >= sigma^2 (N - 1) / N,      s^2 = n r^2
/// n* = (N - 1) sigma^2 / (N d_w r^2)
/// ```
///
/// `noise_per_root_round` is `r`, the noise on the mean per square root of the number of rounds: with a fixed privacy budget mu and clip `C`,
/// `s = C sqrt n / (mu N)`, so `r = C / (mu N)` and `n* = N (N - 1) sigma^2 mu^2 / (d_w C^2)`, the lemma with `mu^2` for
/// `epsilon^2 / log(1/delta)` (printed with `epsilon` to the first power in its proof) and without hidden constants.
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
