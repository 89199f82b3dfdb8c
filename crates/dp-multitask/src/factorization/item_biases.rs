//! Item biases as the best linear estimates from all residual rounds. Post-processing of releases.

/// How much of a residual passes the bound on users' residuals, about: users with large ones are shortened. Only the speed of convergence
/// depends on it, and how the noise of rounds is weighed.
const PASSES: f64 = 0.5;

/// Spreads `tau` that are weighed: this many, each so much smaller than the one before, from `LARGEST` bounds on labels.
const SPREADS: (usize, f64, f64) = (40, 0.84, 10.0);

/// Squares of the spreads that are weighed, largest first.
pub(super) fn spreads(unit: f64) -> impl Iterator<Item = f64> {
    let (n, ratio, largest) = SPREADS;
    std::iter::successors(Some((largest * unit).powi(2)), move |v| {
        Some(v * (ratio * ratio))
    })
    .take(n)
}

/// What the rounds so far say about the items' sums `W_i h_i`: their mean by the precision of the noise.
///
/// ```text
/// r_i + W_i h_i ~ N(W_i h*_i, s^2)           h_i the biases of a round, r_i the sum around them and s its noise, both over the part that passes
/// h*_i ~ N(a + b ln W_i, tau^2)              a, b by least squares, tau by maximum likelihood of the sums of all items
/// ```
///
/// `W_i` are the items' released total weights, at least the standard deviation of their noise. Where the sums show nothing above their noise,
/// `tau` is small, and so are the differences between the biases: a model that is no better than users' own means becomes one of users' own means.
#[derive(Debug, Default)]
pub(super) struct BiasEvidence {
    sums: Vec<f64>,
    precision: f64,
}

impl BiasEvidence {
    /// Means of the items' sums, with noise of this precision.
    pub(super) const fn of(sums: Vec<f64>, precision: f64) -> Self {
        Self { sums, precision }
    }

    /// Takes over a round: residual `sums` around the biases `h`, with noise of standard deviation `noise_stddev`.
    pub(super) fn observe(&mut self, sums: &[f64], h: &[f64], weights: &[f64], noise_stddev: f64) {
        let precision = (noise_stddev / PASSES).powi(-2);
        self.precision += precision;
        self.sums.resize(weights.len(), 0.0);
        let seen = sums.iter().zip(h).zip(weights);
        for (mean, ((r, h), w)) in self.sums.iter_mut().zip(seen) {
            *mean += precision / self.precision * (r / PASSES + w * h - *mean);
        }
    }

    /// The best linear estimates, data units; `unit` is the bound on labels.
    pub(super) fn estimates(&self, weights: &[f64], unit: f64) -> Vec<f64> {
        let posterior = self.posterior(weights, unit);
        posterior.map(|(mean, _)| mean).collect()
    }

    /// The same with the variances of what they are estimates of.
    pub(super) fn posterior<'s>(
        &'s self,
        weights: &'s [f64],
        unit: f64,
    ) -> impl Iterator<Item = (f64, f64)> + 's {
        let noise = self.precision.recip();
        let (mut most_likely, mut best) = (f64::NEG_INFINITY, (0.0, [0.0; 2]));
        for variance in spreads(unit) {
            let trend = self.trend(weights, variance);
            let log_likelihood: f64 = (self.sums.iter().zip(weights))
                .map(|(b, w)| {
                    let spread = w * w * variance + noise;
                    -spread.ln() - (b - w * at(trend, *w)).powi(2) / spread
                })
                .sum();
            if log_likelihood > most_likely {
                (most_likely, best) = (log_likelihood, (variance, trend));
            }
        }
        let (variance, trend) = best;
        (self.sums.iter().zip(weights)).map(move |(b, w)| {
            let mean = at(trend, *w);
            let spread = w * w * variance + noise;
            let mean = mean + w * variance * (b - w * mean) / spread;
            (mean, variance * noise / spread)
        })
    }

    /// `a` and `b` by weighted least squares; no trend where all weights are alike.
    fn trend(&self, weights: &[f64], variance: f64) -> [f64; 2] {
        let noise = self.precision.recip();
        let (mut g, mut r) = ([0.0; 3], [0.0; 2]);
        for (b, w) in self.sums.iter().zip(weights) {
            let spread = w * w * variance + noise;
            let x = [*w, w * w.ln()];
            for (sum, product) in g.iter_mut().zip([x[0] * x[0], x[0] * x[1], x[1] * x[1]]) {
                *sum += product / spread;
            }
            for (sum, x) in r.iter_mut().zip(x) {
                *sum += x * b / spread;
            }
        }
        let determinant = g[0] * g[2] - g[1] * g[1];
        if determinant <= 1e-9 * g[0] * g[2] {
            return [r[0] / g[0].max(f64::MIN_POSITIVE), 0.0];
        }
        [
            (g[2] * r[0] - g[1] * r[1]) / determinant,
            (g[0] * r[1] - g[1] * r[0]) / determinant,
        ]
    }
}

fn at([a, b]: [f64; 2], weight: f64) -> f64 {
    a + b * weight.ln()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use rand_distr::{Distribution, Normal};

    use super::*;

    const N_ITEMS: usize = 4000;

    /// Weights from 2 to 200, biases around a trend in them, and residual sums of five rounds around the estimates so far, `passing` of what is left
    /// with noise of standard deviation `noise`. Gives the root mean squares of `h* - h`, by the estimates and by dividing the mean of the sums.
    fn errors(trend: [f64; 2], tau: f64, passing: f64, noise: f64) -> [f64; 2] {
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut draw = |scale: f64| scale * normal.sample(&mut rng);
        let weights: Vec<f64> = (0..N_ITEMS)
            .map(|i| 2.0 * 100.0_f64.powf(i as f64 / N_ITEMS as f64))
            .collect();
        let truth: Vec<f64> = weights.iter().map(|w| at(trend, *w) + draw(tau)).collect();
        let mut evidence = BiasEvidence::default();
        let mut h = vec![0.0; N_ITEMS];
        for _ in 0..5 {
            let sums: Vec<f64> = (0..N_ITEMS)
                .map(|i| passing * weights[i] * (truth[i] - h[i]) + draw(noise))
                .collect();
            evidence.observe(&sums, &h, &weights, noise);
            h = evidence.estimates(&weights, 1.0);
        }
        let rms = |estimate: &dyn Fn(usize) -> f64| {
            let squares = (0..N_ITEMS).map(|i| (estimate(i) - truth[i]).powi(2));
            (squares.sum::<f64>() / N_ITEMS as f64).sqrt()
        };
        [rms(&|i| h[i]), rms(&|i| evidence.sums[i] / weights[i])]
    }

    #[test]
    fn errors_are_those_of_the_posterior() {
        // half of each residual passes, as is assumed; the noise of five rounds together is that of one of sqrt(4/5) times 3
        let (tau, noise) = (0.3_f64, 3.0);
        let spread: f64 = (0..N_ITEMS)
            .map(|i| 2.0 * 100.0_f64.powf(i as f64 / N_ITEMS as f64))
            .map(|w| ((tau * tau).recip() + w * w / (0.8 * noise * noise)).recip())
            .sum();
        let expected = (spread / N_ITEMS as f64).sqrt();
        let [found, divided] = errors([0.2, 0.1], tau, 0.5, noise);
        // a root mean square of 4,000 numbers has a relative standard error of .011; five of them
        assert!((found / expected - 1.0).abs() < 0.056, "{found} {expected}");
        assert!(divided > 1.5 * found, "{divided} {found}");
    }

    #[test]
    fn sums_of_noise_alone_leave_no_biases() {
        let [found, divided] = errors([0.0, 0.0], 0.0, 0.5, 30.0);
        assert!(found < 0.05, "{found}"); // the trend's standard errors: 26.8 / (W sqrt n), about .01
        assert!(divided > 1.0, "{divided}");
    }

    #[test]
    fn residuals_of_which_less_passes_are_followed_all_the_same() {
        for passing in [0.3, 0.7, 1.0] {
            // biases have a root mean square of 1.3
            let [found, _] = errors([0.0, 0.3], 0.3, passing, 1.0);
            assert!(found < 0.25, "{passing}: {found}");
        }
    }

    #[test]
    fn one_weight_for_all_items_has_no_trend() {
        let mut evidence = BiasEvidence::default();
        let weights = [5.0; 3];
        evidence.observe(&[2.5, 2.5, 2.5], &[0.0; 3], &weights, 0.1);
        for h in evidence.estimates(&weights, 1.0) {
            assert!((h - 1.0).abs() < 1e-9, "{h}");
        }
    }
}
