//! Moments, tails, low bits and independence at a large scale, and the white-box scale audit.

use crate::sampler_support::{ChiSquare, Z_1E_6, Z_1E_9, draws, normal_mass};

const K: u32 = 30;
const N: usize = 10_000_000;

/// P(N >= t) by quadrature over 40 standard deviations.
fn upper_tail(t: f64) -> f64 {
    (0..640)
        .map(|i| normal_mass(t + f64::from(i) / 16.0, t + f64::from(i + 1) / 16.0))
        .sum()
}

#[test]
fn moments_and_tails_are_those_of_the_normal() {
    // five standard errors each: two-sided false-alarm rate 6e-7 per assertion for a new key
    let sample = draws(1 << K, 31, N);
    let n = N as f64;
    let scaled = |y: i64| (y as f64 + 0.5) / f64::from(1 << K);
    let mut moments = [0.0; 4];
    for &y in &sample {
        let x = scaled(y);
        for (m, power) in moments.iter_mut().zip([x, x * x, x * x * x, x * x * x * x]) {
            *m += power / n;
        }
    }
    // E N^p and Var N^p = E N^(2p) - (E N^p)^2 with E N^2, 4, 6, 8 = 1, 3, 15, 105
    let normal = [(0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0_f64)];
    for (p, (found, (mean, variance))) in moments.iter().zip(normal).enumerate() {
        assert!(
            (found - mean).abs() < 5.0 * (variance / n).sqrt(),
            "moment {}: {found}",
            p + 1
        );
    }
    for t in 1..=6_i64 {
        let p = upper_tail(t as f64);
        let (edge, slack) = (t << K, 5.0 * (n * p).sqrt().max(1.0));
        let above = sample.iter().filter(|&&y| y >= edge).count() as f64;
        let below = sample.iter().filter(|&&y| y < -edge).count() as f64;
        assert!((above - n * p).abs() < slack, "above {t} sigma: {above}");
        assert!((below - n * p).abs() < slack, "below -{t} sigma: {below}");
    }
}

#[test]
fn low_bits_are_uniform_and_unrelated_to_sign() {
    for (sigma, key) in [(1 << K, 32), (1 << 40, 33), (777_472_127_994, 34)] {
        let mut cells = [0_u32; 512];
        let sample = draws(sigma, key, 2_000_000);
        for y in &sample {
            let cell = (y.cast_unsigned() & 0xff) | (u64::from(*y < 0) << 8);
            cells[usize::try_from(cell).unwrap()] += 1;
        }
        let e = sample.len() as f64 / 512.0;
        let statistic: f64 = cells.iter().map(|&c| (f64::from(c) - e).powi(2) / e).sum();
        let score = ChiSquare {
            statistic,
            degrees: 511.0,
        }
        .score();
        assert!(score < Z_1E_6, "sigma {sigma}: score {score}");
    }
}

#[test]
fn neighbouring_draws_are_uncorrelated() {
    let sample = draws(1 << K, 35, 2_000_000);
    let n = sample.len() as f64;
    let values: Vec<f64> = sample
        .iter()
        .map(|&y| y as f64 / f64::from(1 << K))
        .collect();
    let lag = |f: fn(f64) -> f64| {
        let pairs = values.iter().zip(&values[1..]);
        pairs.map(|(&a, &b)| f(a) * f(b)).sum::<f64>() / n.sqrt()
    };
    assert!(lag(|x| x).abs() < 5.0);
    assert!(lag(|x| (x * x - 1.0) / 2.0_f64.sqrt()).abs() < 5.0);
}

/// Number of draws that distinguish a scale too small by 1 percent from the correct one, with
/// false-alarm rate 1e-9 and miss rate 1e-6: `2 ((z_a + f^2 z_b)/(1 - f^2))^2` for f = 0.99.
const AUDIT_DRAWS: usize = 572_618;

/// Normal score of sum r^2 as chi-square, r = (Y + 1/2)/sigma: negative means too little noise.
fn audit_score(sample: &[i64], claimed_sigma: f64) -> f64 {
    let n = sample.len() as f64;
    let sum: f64 = sample
        .iter()
        .map(|&y| ((y as f64 + 0.5) / claimed_sigma).powi(2))
        .sum();
    (sum - n) / (2.0 * n).sqrt()
}

#[test]
fn audit_passes_the_sampler_and_catches_one_percent() {
    for (sigma, key) in [(1_u64 << 20, 36), (1 << 40, 37), (777_472_127_994, 38)] {
        let sample = draws(sigma, key, AUDIT_DRAWS);
        let claimed = sigma as f64;
        assert!(audit_score(&sample, claimed).abs() < Z_1E_9);
        assert!(
            audit_score(&sample, claimed / 0.99) < -Z_1E_9,
            "1 percent short not seen"
        );
        assert!(
            audit_score(&sample, claimed * 0.99) > Z_1E_9,
            "1 percent over not seen"
        );
    }
}
