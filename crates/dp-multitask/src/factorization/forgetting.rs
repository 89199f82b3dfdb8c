//! Forgetting: how fast past nights lose weight, chosen by how well they predicted the next night.
//! Post-processing of releases.

use super::item_posterior::{ItemEvidence, Known};
use crate::Result;

/// Discount factors per night that are compared with 1, which forgets nothing.
const FACTORS: [f64; 4] = [0.997, 0.99, 0.97, 0.9];
/// Minimum log-likelihood gain in predicting nights of a factor below 1 over 1.
const LEAST_GAIN: f64 = 5.0;
/// Number of nights before the first that is predicted: while the model is starting from nothing,
/// its nights differ from each other even without drift.
const SETTLING: u32 = 10;

/// One parameter of each item as observed on nights: `z_it ~ N(k_t w_i x_i, s_t^2)`.
pub(super) struct Told<'a> {
    /// `z_it`.
    pub(super) values: &'a [f64],
    /// `k_t`, and its square minus the contribution of noise to it.
    pub(super) gain: (f64, f64),
    /// Variance of the noise in `k_t`.
    pub(super) gain_noise: f64,
    /// The point around which `z_it` is observed: noise in `k_t` affects the difference between
    /// `x_i` and it.
    pub(super) around: &'a [f64],
    /// `s_t`.
    pub(super) noise: f64,
    /// `w_i`.
    pub(super) weights: &'a [f64],
    /// The assumed size of `x_i`.
    pub(super) unit: f64,
}

/// Discount factors, each with the evidence of the nights under it and how well that predicted each
/// next night.
///
/// ```text
/// g_t = f^(t - t') g_t' + k_t^2,   b_it = f^(t - t') b_it' + k_t z_it         f the factor, t' the previous night, k_t^2 minus the contribution of noise
/// h_t                              as g_t, including the contribution of noise
/// x_i | nights before t            posterior of b_i / g ~ N(w_i x_i, s^2 h / g^2) under the prior of ItemEvidence
/// L_f = sum_t sum_i ln N(z_it; k_t w_i E x_i, (k_t w_i)^2 V x_i + s_t^2)        and the noise in k_t
/// ```
///
/// Discounted evidence corresponds to a random walk whose variance grows by a factor of `1/f - 1`
/// per night (discount models, West and Harrison 1997, chapter 6). The chosen factor is the one
/// with the largest `L` over all nights except the first [`SETTLING`], if it exceeds that of 1 by
/// [`LEAST_GAIN`].
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forgetting {
    candidates: Vec<Candidate>,
    n_nights: u32,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Candidate {
    factor: f64,
    log_likelihood: f64,
    precision: f64,
    squares: f64,
    sums: Vec<f64>,
}

impl Forgetting {
    /// Adds a night, `gap` nights after the previous one.
    ///
    /// # Errors
    /// When a released value is not finite.
    pub(super) fn observe(&mut self, night: &Told<'_>, gap: u32) -> Result<()> {
        if self.candidates.is_empty() {
            let factors = [1.0].into_iter().chain(FACTORS);
            self.candidates = factors.map(Candidate::new).collect();
        }
        for candidate in &mut self.candidates {
            candidate.observe(night, gap, self.n_nights >= SETTLING)?;
        }
        self.n_nights = self.n_nights.saturating_add(1);
        Ok(())
    }

    /// The factor to use next.
    pub(super) fn factor(&self) -> f64 {
        let Some(none) = self.candidates.first() else {
            return 1.0;
        };
        let better = self
            .candidates
            .iter()
            .filter(|candidate| candidate.log_likelihood > none.log_likelihood + LEAST_GAIN);
        let best = better.max_by(|a, b| a.log_likelihood.total_cmp(&b.log_likelihood));
        best.map_or(1.0, |best| best.factor)
    }
}

impl Candidate {
    const fn new(factor: f64) -> Self {
        Self {
            factor,
            log_likelihood: 0.0,
            precision: 0.0,
            squares: 0.0,
            sums: Vec::new(),
        }
    }

    fn observe(&mut self, night: &Told<'_>, gap: u32, is_foretold: bool) -> Result<()> {
        let (gain, squared) = night.gain;
        let noise = night.noise * night.noise;
        let kept = self.factor.powf(gap.into());
        self.precision *= kept;
        self.squares *= kept;
        self.sums.iter_mut().for_each(|sum| *sum *= kept);
        self.sums.resize(night.values.len(), 0.0);
        if is_foretold && self.precision > 0.0 {
            let means = self.sums.iter().map(|sum| sum / self.precision).collect();
            let precision = self.precision * self.precision / (self.squares * noise);
            let mut evidence = ItemEvidence::of(means, precision);
            let foretold = evidence.of_biases(&Known::of_biases(night.weights, night.unit))?;
            let each = night.values.iter().zip(night.weights).zip(night.around);
            self.log_likelihood += each
                .zip(foretold)
                .map(|(((z, w), around), (mean, variance))| {
                    let of_gain = night.gain_noise * (w * (mean - around)).powi(2);
                    let spread = (gain * w).powi(2) * variance + of_gain + noise;
                    -0.5 * (spread.ln() + (z - gain * w * mean).powi(2) / spread)
                })
                .sum::<f64>();
        }
        self.squares += gain * gain;
        self.precision += squared;
        let sums = self.sums.iter_mut().zip(night.values);
        sums.for_each(|(sum, z)| *sum += gain * z);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use rand::SeedableRng;
    use rand_distr::{Distribution, Normal};

    use super::*;

    const N_ITEMS: usize = 200;
    const NIGHTS: u32 = 200;

    /// The factor chosen after nights on which items' parameters of standard deviation 1 make steps
    /// of this size.
    fn chosen(step: f64, noise: f64, seed: u64) -> f64 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut draw = |scale: f64| scale * normal.sample(&mut rng);
        let weights: Vec<f64> = (0..N_ITEMS).map(|i| 0.2 + (i % 10) as f64 / 5.0).collect();
        let mut x: Vec<f64> = (0..N_ITEMS).map(|_| draw(1.0)).collect();
        let mut forgetting = Forgetting::default();
        for _ in 0..NIGHTS {
            let values: Vec<f64> = x
                .iter()
                .zip(&weights)
                .map(|(x, w)| w * x + draw(noise))
                .collect();
            let told = forgetting.observe(
                &Told {
                    values: &values,
                    gain: (1.0, 1.0),
                    gain_noise: 0.0,
                    around: &[0.0; N_ITEMS],
                    noise,
                    weights: &weights,
                    unit: 1.0,
                },
                1,
            );
            told.unwrap();
            x.iter_mut().for_each(|x| *x += draw(step));
        }
        forgetting.factor()
    }

    #[test]
    #[ignore = "heavy: part of CI"]
    fn heavy_what_stays_is_kept_and_what_drifts_is_forgotten() {
        for noise in [0.3, 3.0, 30.0] {
            assert!(chosen(0.0, noise, 0) > 0.999, "{noise}");
        }
        // with steps of .3 and noise of .3, a night's drift is as large as the evidence of the last
        // night
        let fast = chosen(0.3, 0.3, 1);
        assert!(fast <= 0.9, "{fast}");
        // the best factor for a random walk of variance q, observed with precision w^2 / s^2, is
        // about 1 - w sqrt(q) / s: .97 here
        let slow = chosen(0.03, 1.0, 2);
        assert!((0.97..0.995).contains(&slow), "{slow}");
    }

    #[test]
    fn nights_that_were_not_made_are_forgotten_as_well() {
        let night = |values| Told {
            values,
            gain: (2.0, 4.0),
            gain_noise: 0.0,
            around: &[0.0; 2],
            noise: 1.0,
            weights: &[1.0, 1.0],
            unit: 1.0,
        };
        let (mut one, mut three) = (Candidate::new(0.9), Candidate::new(0.9));
        for candidate in [&mut one, &mut three] {
            candidate.observe(&night(&[1.0, 3.0]), 1, false).unwrap();
        }
        one.observe(&night(&[0.0, 0.0]), 1, true).unwrap();
        three.observe(&night(&[0.0, 0.0]), 3, true).unwrap();
        let of = |candidate: &Candidate| (candidate.precision, candidate.sums[1]);
        let (near, far) = (of(&one), of(&three));
        assert!((near.0 - (0.9 * 4.0 + 4.0)).abs() < 1e-12 && (near.1 - 0.9 * 6.0).abs() < 1e-12);
        assert!((far.0 - (0.729 * 4.0 + 4.0)).abs() < 1e-12);
        assert!((far.1 - 0.729 * 6.0).abs() < 1e-12);
    }
}
