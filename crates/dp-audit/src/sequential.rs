//! Audits that may be evaluated after every run and stopped at any time.

use serde::{Deserialize, Serialize};

use crate::statistics::normal_cdf;

/// The shortfalls of noise that the martingale bets on.
const SHORTFALLS: [f64; 8] = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99];

/// Monitors residuals for too little noise, over any number of draws.
///
/// ```text
/// M_n = (1/8) sum_f prod_(i<=n) (1/f) exp(-(r_i^2/2) (1/f^2 - 1)),   f in {0.3, ..., 0.99}
/// ```
///
/// Each factor is a likelihood ratio of N(0, f^2) against N(0, 1). If the noise is N(0, s^2) with
/// `s >= 1` its mean is `(1/f) (1 + s^2 (1/f^2 - 1))^(-1/2) <= 1`, so M is a test supermartingale
/// and P(M ever reaches 1/alpha) <= alpha: Ville's inequality (Ville, *Etude critique de la notion
/// de collectif*, 1939; in this use Howard, Ramdas, `McAuliffe`, Sekhon, arXiv 1810.08240).
///
/// # Examples
/// ```
/// let mut watch = dp_audit::NoiseWatch::default();
/// watch.observe(&[0.2; 100]); // a root mean square of 0.2 where 1 is claimed
/// assert!(watch.alarm(1e-9));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseWatch {
    log_bets: [f64; SHORTFALLS.len()],
    log_peak: f64,
    n: u64,
}

impl NoiseWatch {
    /// Adds further residuals.
    pub fn observe(&mut self, residuals: &[f64]) {
        for r in residuals {
            for (log, f) in self.log_bets.iter_mut().zip(SHORTFALLS) {
                *log -= f.ln() + 0.5 * r * r * (1.0 / (f * f) - 1.0);
            }
            self.n += 1;
            self.log_peak = self.log_peak.max(log_mean(&self.log_bets));
        }
    }

    /// Whether the evidence ever exceeded `1/alpha`; with enough noise this happens with
    /// probability at most `alpha`, however often it is checked. NaN residuals raise no alarm here;
    /// [`crate::audit_release`] rejects them.
    #[must_use]
    pub fn alarm(&self, alpha: f64) -> bool {
        self.log_peak >= -alpha.ln()
    }

    /// Number of residuals seen so far.
    #[must_use]
    pub const fn n_draws(&self) -> u64 {
        self.n
    }
}

/// `ln` of the mean of `exp`.
fn log_mean(logs: &[f64]) -> f64 {
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|log| (log - top).exp()).sum();
    top + (sum / logs.len() as f64).ln()
}

/// Fractions of the largest possible stake.
const STAKES: [f64; 6] = [0.01, 0.03, 0.1, 0.2, 0.4, 0.8];
/// Spacing of the values of mu that are tested.
const MU_STEP: f64 = 0.02;
/// Number of values of mu, up to 8.
const N_MU: usize = 401;

/// A lower bound on mu from a guessing game, valid at every stopping time at once.
///
/// Each canary takes part or not according to its own fair coin, and the auditor guesses which from
/// the output. If the run is mu-GDP, a guess about one canary is correct with probability at most
/// `Phi(mu/2)`, given all other coins and all earlier runs: the best test of N(0,1) against N(mu,1)
/// at even odds. Within a run, guesses may depend on each other, so a run counts through the
/// fraction `c` of correct ones, whose mean has the same bound. For each `mu`
///
/// ```text
/// p = Phi(mu/2),   M_t = (1/6) sum_k prod_(runs s<=t) (1 + (l_k/p) (c_s - p)),   l_k in {0.01, ..., 0.8}
/// ```
///
/// is a nonnegative supermartingale started at 1 and all `mu` at which it ever reaches 1/alpha are
/// rejected. By Ville's inequality the true one is rejected, at any time, with probability at most
/// alpha. The betting follows Waudby-Smith and Ramdas, arXiv 2010.09686, section 4; the coin for
/// each canary follows Steinke, Nasr, Jagielski, arXiv 2305.08846, whose bound is not used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuessingGame {
    /// Per value of mu: the logarithms of its bets.
    log_bets: Vec<[f64; STAKES.len()]>,
    log_peaks: Vec<f64>,
    n_runs: u64,
}

impl Default for GuessingGame {
    fn default() -> Self {
        Self {
            log_bets: vec![[0.0; STAKES.len()]; N_MU],
            log_peaks: vec![0.0; N_MU],
            n_runs: 0,
        }
    }
}

impl GuessingGame {
    /// Adds one run: the number of its correct guesses. A run without guesses is ignored.
    pub fn observe(&mut self, n_right: u64, n_guesses: u64) {
        if n_guesses == 0 {
            return;
        }
        let share = n_right.min(n_guesses) as f64 / n_guesses as f64;
        self.n_runs += 1;
        for (at, (bets, peak)) in self
            .log_bets
            .iter_mut()
            .zip(&mut self.log_peaks)
            .enumerate()
        {
            let p = right_guess(at);
            for (log, stake) in bets.iter_mut().zip(STAKES) {
                *log += (stake / p * (share - p)).ln_1p();
            }
            *peak = peak.max(log_mean(bets));
        }
    }

    /// The largest mu below which every value is rejected at level `alpha`; 0 if none is.
    #[must_use]
    pub fn lower_bound_mu(&self, alpha: f64) -> f64 {
        let rejected = self
            .log_peaks
            .iter()
            .take_while(|&&peak| peak >= -alpha.ln())
            .count();
        rejected.saturating_sub(1) as f64 * MU_STEP
    }

    /// Number of runs seen so far.
    #[must_use]
    pub const fn n_runs(&self) -> u64 {
        self.n_runs
    }
}

fn right_guess(at: usize) -> f64 {
    normal_cdf(0.5 * at as f64 * MU_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::normal_quantile;

    /// Quantiles of N(0, scale^2) in a mixed order.
    fn normals(n: u32, scale: f64) -> Vec<f64> {
        (0..n)
            .map(|i| {
                let mixed = u64::from(i) * 7_368_787 % u64::from(n);
                scale * normal_quantile((mixed as f64 + 0.5) / f64::from(n))
            })
            .collect()
    }

    #[test]
    fn enough_noise_raises_no_alarm_and_too_little_does() {
        for (scale, n, alarmed) in [
            (1.0, 200_000, false),
            (1.3, 50_000, false),
            (0.9, 20_000, true),
            (0.98, 200_000, true),
        ] {
            let mut watch = NoiseWatch::default();
            watch.observe(&normals(n, scale));
            assert_eq!(watch.alarm(1e-6), alarmed, "scale {scale}");
        }
    }

    #[test]
    fn the_bound_approaches_the_truth_from_below() {
        // mu = 1: 69.15 % of the guesses are correct
        let mut game = GuessingGame::default();
        let mut last = 0.0;
        for run in 0..1500 {
            let right = if run % 2 == 0 { 690 } else { 693 };
            game.observe(right, 1000);
            last = game.lower_bound_mu(1e-3);
            assert!(last <= 1.0);
        }
        assert!(last > 0.85, "bound {last}");
    }

    #[test]
    fn ville_holds_for_fair_coins() {
        // 200 games of 50 runs of one guess each at mu = 0: at most a fraction alpha = 0.1 may ever
        // reject 0.02 or more; among 200 games these are at most 48 except with probability 1e-9
        let mut state = 1_u64;
        let mut rejections = 0;
        for _ in 0..200 {
            let mut game = GuessingGame::default();
            for _ in 0..50 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                game.observe(state >> 63, 1);
            }
            rejections += u32::from(game.log_peaks[0] >= 10.0_f64.ln());
        }
        assert!(rejections <= 48, "{rejections} of 200");
    }
}
