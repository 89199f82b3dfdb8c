//! How errors scale according to the theorems of Jain et al. 2021, for planning.

use dp_core::params;

use crate::Result;

/// A linear problem with a shared subspace under the assumptions of the theorems: isotropic
/// features, all users with `n_rows` rows.
///
/// Every method returns a rate: the expression inside `O(...)` in the paper, without its constant
/// and its polylogarithms in `d` and `n`. Ratios are meaningful (twice the users, half the noise),
/// values are not.
///
/// # Examples
/// ```
/// use dp_personalize::UtilityRates;
/// let now = UtilityRates { n_users: 50_000, n_rows: 10, dim: 50, rank: 2, label_noise: 0.01, signal: 1.0, incoherence: 1.0, noise_multiplier: 10.0 };
/// let later = UtilityRates { n_users: 100_000, ..now };
/// // noise dominates here: twice the users, half the distance
/// assert!((now.subspace_distance() / later.subspace_distance() - 2.0).abs() < 0.01);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UtilityRates {
    /// Number of users `n`.
    pub n_users: usize,
    /// Number of rows of a user, `m`.
    pub n_rows: usize,
    /// Number of features `d`.
    pub dim: usize,
    /// Dimension of the subspace `k`.
    pub rank: usize,
    /// Standard deviation of the label noise, `sigma_F`.
    pub label_noise: f64,
    /// Smallest eigenvalue `lambda_k` of the users' `(1/n) sum_j v_j v_j^T`.
    pub signal: f64,
    /// `mu = max_j ||v_j|| / sqrt(k lambda_k)`.
    pub incoherence: f64,
    /// `Delta`: noise divided by the sensitivity of each release; the paper's is
    /// `sqrt(8 ln(1/delta))/epsilon`, the plan's noise multiplier is the exact one.
    pub noise_multiplier: f64,
}

impl UtilityRates {
    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first number out of range.
    pub fn check(&self) -> Result<()> {
        params::at_least_one("n_users", self.n_users)?;
        params::at_least_one("n_rows", self.n_rows)?;
        params::at_least_one("dim", self.dim)?;
        params::in_range("rank", self.rank, 1, self.dim, "from 1 to dim")?;
        params::finite_non_negative("label_noise", self.label_noise)?;
        params::finite_positive("signal", self.signal)?;
        params::finite_positive("incoherence", self.incoherence)?;
        params::finite_non_negative("noise_multiplier", self.noise_multiplier)?;
        Ok(())
    }

    /// Noise-to-signal ratio `sigma_F / sqrt(lambda_k)`.
    fn nsr(&self) -> f64 {
        self.label_noise / self.signal.sqrt()
    }

    fn sizes(&self) -> [f64; 4] {
        [self.n_users, self.n_rows, self.dim, self.rank].map(|n| n as f64)
    }

    /// Lemma 4.4: `||(I - U* U*^T) U||_F` after Algorithm 1 with Algorithm 2.
    ///
    /// ```text
    /// Delta (NSR + mu sqrt(d k^2)) mu sqrt(k^2 d^2) / n + NSR mu sqrt(k d) / sqrt(n m)
    /// ```
    #[must_use]
    pub fn subspace_distance(&self) -> f64 {
        let ([n, m, d, k], mu) = (self.sizes(), self.incoherence);
        let noise = self.noise_multiplier * (self.nsr() + mu * k * d.sqrt()) * mu * k * d / n;
        noise + self.nsr() * mu * (k * d).sqrt() / (n * m).sqrt()
    }

    /// Lemma 4.6: the spectral distance after the first release, Algorithm 3.
    ///
    /// ```text
    /// (NSR^2 + mu^2 k) (Delta d^(3/2) / n + sqrt(d) / sqrt(n m))
    /// ```
    #[must_use]
    pub fn first_distance(&self) -> f64 {
        let ([n, m, d, k], nsr) = (self.sizes(), self.nsr());
        let size = nsr * nsr + self.incoherence.powi(2) * k;
        size * (self.noise_multiplier * d.powf(1.5) / n + (d / (n * m)).sqrt())
    }

    /// Theorem 4.2: excess population risk of Algorithm 1 with users' personal fits, above the
    /// irreducible label noise.
    ///
    /// ```text
    /// Delta^2 (sigma_F^2 + mu^2 k^2 d lambda_k) mu^4 k^3 d^2 / n^2 + sigma_F^2 mu^4 k^2 d / (n m) + sigma_F^2 k / m
    /// ```
    ///
    /// The printed theorem has `Delta` to the first power; squaring Lemma 4.4 gives the second (`docs/errata.md`).
    #[must_use]
    pub fn excess_risk(&self) -> f64 {
        let ([n, m, d, k], mu) = (self.sizes(), self.incoherence);
        let (noise, label) = (self.noise_multiplier.powi(2), self.label_noise.powi(2));
        let size = label + (mu * k).powi(2) * d * self.signal;
        let private = noise * size * mu.powi(4) * k.powi(3) * d * d / (n * n);
        private + label * mu.powi(4) * k * k * d / (n * m) + label * k / m
    }

    /// Theorem 5.2: excess population risk of the exponential mechanism over a net of all subspaces
    /// (Algorithm 4), for a loss that is `slope`-Lipschitz (`xi`) and models of norm at most
    /// `model_bound` (`C`). It depends on neither the label noise nor the signal.
    ///
    /// ```text
    /// xi C ( sqrt(k^2 d^3) / (epsilon n) + sqrt(d) / sqrt(n m) + sqrt(k) / sqrt(m) )
    /// ```
    #[must_use]
    pub fn exponential_risk(&self, epsilon: f64, slope: f64, model_bound: f64) -> f64 {
        let [n, m, d, k] = self.sizes();
        let private = k * d.powf(1.5) / (epsilon * n);
        slope * model_bound * (private + (d / (n * m)).sqrt() + (k / m).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values computed from the printed formulas in Python.
    #[test]
    fn rates_are_those_of_the_paper() {
        let rates = UtilityRates {
            n_users: 50_000,
            n_rows: 10,
            dim: 50,
            rank: 2,
            label_noise: 0.01,
            signal: 1.5,
            incoherence: 1.2,
            noise_multiplier: 8.0,
        };
        rates.check().unwrap();
        for (found, expected) in [
            (rates.subspace_distance(), 0.326_130_136_178_904_74),
            (rates.first_distance(), 0.191_721_840_288_213_54),
            (rates.excess_risk(), 0.458_667_331_512_320_03),
            (rates.exponential_risk(0.5, 0.7, 1.3), 0.441_803_058_740_152),
        ] {
            assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
        }
        // if privacy dominates, the risk is the squared distance times the signal, up to a power of
        // k and mu
        let (half, whole) = (
            UtilityRates {
                noise_multiplier: 4.0,
                ..rates
            },
            rates,
        );
        let privacy = |r: &UtilityRates| {
            let without = UtilityRates {
                noise_multiplier: 0.0,
                ..*r
            };
            r.excess_risk() - without.excess_risk()
        };
        assert!((privacy(&whole) / privacy(&half) - 4.0).abs() < 1e-9);
        for bad in [
            UtilityRates { rank: 51, ..rates },
            UtilityRates {
                n_users: 0,
                ..rates
            },
            UtilityRates {
                signal: 0.0,
                ..rates
            },
            UtilityRates {
                noise_multiplier: f64::NAN,
                ..rates
            },
        ] {
            assert!(bad.check().is_err());
        }
    }
}
