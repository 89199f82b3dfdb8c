//! Exact probabilities of floor(sigma N), and the chi-square test against them.
#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on should stop it"
)]

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use dp_mechanism::{DiscreteGaussian, FlooredGaussian};

/// Normal quantile of 1 - 1e-6.
pub(crate) const Z_1E_6: f64 = 4.753_424;
/// Normal quantile of 1 - 1e-9.
pub(crate) const Z_1E_9: f64 = 5.997_807;

/// A generator with a fixed key.
pub(crate) fn generator(key: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([key; 32])
}

/// `n` draws with a fixed key.
pub(crate) fn draws(sigma: u64, key: u8, n: usize) -> Vec<i64> {
    let mut out = vec![0; n];
    let noise = FlooredGaussian::new(sigma).unwrap();
    noise.fill(&mut generator(key), &mut out);
    out
}

/// `n` draws of the discrete Gaussian with a fixed key.
pub(crate) fn discrete_draws(sigma: u64, key: u8, n: usize) -> Vec<i64> {
    let mut out = vec![0; n];
    let noise = DiscreteGaussian::new(sigma).unwrap();
    noise.fill(&mut generator(key), &mut out);
    out
}

/// P(a <= N < b) by five-point Gauss-Legendre quadrature; for b - a <= 1/16 it errs by less than
/// 1e-15 of the value. Independent of any error function.
pub(crate) fn normal_mass(a: f64, b: f64) -> f64 {
    const RULE: [(f64, f64); 5] = [
        (-0.906_179_845_938_664, 0.236_926_885_056_189_1),
        (-0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
        (0.0, 0.568_888_888_888_888_9),
        (0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
        (0.906_179_845_938_664, 0.236_926_885_056_189_1),
    ];
    let (middle, half) = (f64::midpoint(a, b), (b - a) / 2.0);
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let sum: f64 = RULE
        .iter()
        .map(|&(x, w)| w * density(middle + half * x))
        .sum();
    half * sum
}

/// P(Y = y) = P(Y = -y), y = 0, 1, ..., 9 sigma, of the discrete Gaussian.
pub(crate) fn discrete_pmf(sigma: u64) -> Vec<f64> {
    let weight = |y: u64| (-0.5 * (y as f64 / sigma as f64).powi(2)).exp();
    let total = 1.0 + 2.0 * (1..=12 * sigma).rev().map(weight).sum::<f64>();
    (0..=9 * sigma).map(|y| weight(y) / total).collect()
}

/// Chi-square statistic of draws against P(Y = y) = Phi((y+1)/sigma) - Phi(y/sigma).
pub(crate) struct ChiSquare {
    pub(crate) statistic: f64,
    pub(crate) degrees: f64,
}

impl ChiSquare {
    /// Cells are single integers; those at either end that expect fewer than 20 are pooled.
    pub(crate) fn of(draws: impl Iterator<Item = i64>, sigma: u64) -> Self {
        let s = sigma as f64;
        Self::against(draws, sigma, |y| {
            normal_mass(y as f64 / s, (y + 1) as f64 / s)
        })
    }

    /// The same against the discrete Gaussian.
    pub(crate) fn of_discrete(draws: impl Iterator<Item = i64>, sigma: u64) -> Self {
        let pmf = discrete_pmf(sigma);
        Self::against(draws, sigma, |y| pmf[usize::try_from(y.abs()).unwrap()])
    }

    fn against(draws: impl Iterator<Item = i64>, sigma: u64, mass: impl Fn(i64) -> f64) -> Self {
        let reach = 9 * i64::try_from(sigma).unwrap();
        let mut counts = vec![0_u64; usize::try_from(2 * reach).unwrap()];
        let mut n = 0_u64;
        for y in draws {
            let cell = (y.clamp(-reach, reach - 1) + reach).unsigned_abs();
            counts[usize::try_from(cell).unwrap()] += 1;
            n += 1;
        }
        let expected: Vec<f64> = (-reach..reach).map(|y| n as f64 * mass(y)).collect();
        let total: f64 = expected.iter().sum();
        assert!(
            (total / n as f64 - 1.0).abs() < 1e-12,
            "the cells miss mass"
        );
        let first = expected.iter().position(|&e| e >= 20.0).unwrap();
        let last = expected.iter().rposition(|&e| e >= 20.0).unwrap();
        let mut terms = vec![0.0; last - first + 1];
        let mut pooled = vec![(0.0, 0.0); last - first + 1];
        for (i, (&count, &e)) in counts.iter().zip(&expected).enumerate() {
            let cell = &mut pooled[i.clamp(first, last) - first];
            cell.0 += count as f64;
            cell.1 += e;
        }
        for (term, (count, e)) in terms.iter_mut().zip(&pooled) {
            *term = (count - e) * (count - e) / e;
        }
        Self {
            statistic: terms.iter().sum(),
            degrees: (last - first) as f64,
        }
    }

    /// The normal score of the statistic (Wilson-Hilferty): large means a bad fit.
    pub(crate) fn score(&self) -> f64 {
        let spread = 2.0 / (9.0 * self.degrees);
        ((self.statistic / self.degrees).cbrt() - (1.0 - spread)) / spread.sqrt()
    }
}
