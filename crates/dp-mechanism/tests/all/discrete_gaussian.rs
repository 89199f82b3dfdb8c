//! The discrete Gaussian compared with its exact probabilities, moments and tails.
//!
//! Keys are fixed, so the outcomes are reproducible. With a new key, the false-alarm rate is 1e-6
//! for each chi-square test and 6e-7 for each moment or tail count.

use crate::sampler_support::{ChiSquare, Z_1E_6, Z_1E_9, discrete_draws, discrete_pmf, draws};
use dp_mechanism::DiscreteGaussian;

#[test]
fn ten_million_draws_fit_the_exact_probabilities() {
    let chi = ChiSquare::of_discrete(discrete_draws(64, 41, 10_000_000).into_iter(), 64);
    assert!(chi.score() < Z_1E_6, "score {}", chi.score());
    assert!(chi.degrees > 350.0);
}

#[test]
fn scales_that_do_not_divide_into_bins_fit_too() {
    // 33 has bins of 2 or 3 integers, 47 of 2 or 3, 48 of 3, 100 of 6 or 7
    for (sigma, key) in [(32, 42), (33, 43), (47, 44), (48, 45), (100, 46)] {
        let sample = discrete_draws(sigma, key, 3_000_000);
        let chi = ChiSquare::of_discrete(sample.into_iter(), sigma);
        assert!(chi.score() < Z_1E_6, "sigma {sigma}: score {}", chi.score());
    }
}

#[test]
fn large_scales_are_normal_on_a_coarse_grid() {
    // cells of about 2^20 integers: the discrete and the continuous mass differ by 1e-6 of a cell
    for (sigma, key) in [(1 << 30, 47), (1 << 40, 48), (777_472_127_994, 49)] {
        let coarse = discrete_draws(sigma, key, 3_000_000).into_iter().map(|y| {
            let scaled = (i128::from(y) << 10).div_euclid(i128::from(sigma));
            i64::try_from(scaled).unwrap()
        });
        let chi = ChiSquare::of(coarse, 1024);
        assert!(chi.score() < Z_1E_6, "sigma {sigma}: score {}", chi.score());
    }
}

#[test]
fn the_test_tells_floored_from_discrete() {
    // the floored distribution is centred at -1/2; a shift by 1/2 in either direction must be
    // detected
    let floored = draws(64, 50, 10_000_000);
    assert!(ChiSquare::of_discrete(floored.into_iter(), 64).score() > Z_1E_9);
    // zero counted twice, as if minus zero were not rejected
    let doubled = discrete_draws(64, 51, 10_000_000)
        .into_iter()
        .flat_map(|y| std::iter::repeat_n(y, 1 + usize::from(y == 0)));
    assert!(ChiSquare::of_discrete(doubled, 64).score() > Z_1E_9);
}

#[test]
fn moments_and_tails_are_those_of_the_discrete_gaussian() {
    const SIGMA: u64 = 64;
    let sample = discrete_draws(SIGMA, 52, 10_000_000);
    let n = sample.len() as f64;
    let pmf = discrete_pmf(SIGMA);
    let exact_moment = |p: i32| -> f64 {
        let side = |sign: f64| {
            let terms = pmf.iter().enumerate().skip(1).rev();
            terms
                .map(|(y, m)| m * (sign * y as f64 / SIGMA as f64).powi(p))
                .sum::<f64>()
        };
        side(1.0) + side(-1.0)
    };
    for p in 1..=4 {
        let power = |&y: &i64| (y as f64 / SIGMA as f64).powi(p);
        let found = sample.iter().map(power).sum::<f64>() / n;
        let mean = exact_moment(p);
        let variance = exact_moment(2 * p) - mean * mean;
        assert!(
            (found - mean).abs() < 5.0 * (variance / n).sqrt(),
            "moment {p}: {found} for {mean}"
        );
    }
    for t in 0..=6_u64 {
        let edge = t * SIGMA + 1;
        let p: f64 = pmf.iter().skip(usize::try_from(edge).unwrap()).sum();
        let slack = 5.0 * (n * p).sqrt().max(1.0);
        let edge = i64::try_from(edge).unwrap();
        let above = sample.iter().filter(|&&y| y >= edge).count() as f64;
        let below = sample.iter().filter(|&&y| y <= -edge).count() as f64;
        assert!((above - n * p).abs() < slack, "above {t} sigma: {above}");
        assert!((below - n * p).abs() < slack, "below -{t} sigma: {below}");
    }
}

#[test]
fn a_sum_of_shares_is_the_discrete_gaussian_of_the_summed_variance() {
    // sqrt(9) * 32 = 96: nine parties of scale 32 compared with `N_Z(0, 96^2)`
    let mut total = vec![0_i64; 2_000_000];
    for key in 60..69 {
        let share = discrete_draws(32, key, total.len());
        for (sum, y) in total.iter_mut().zip(share) {
            *sum += y;
        }
    }
    let chi = ChiSquare::of_discrete(total.into_iter(), 96);
    assert!(chi.score() < Z_1E_6, "score {}", chi.score());
}

#[test]
fn sums_wrap_and_scales_are_checked() {
    let noise = DiscreteGaussian::new(1 << 40).unwrap();
    let from = |start: i64| {
        let mut sums = vec![start; 1000];
        noise.add_noise(&mut crate::sampler_support::generator(70), &mut sums);
        sums
    };
    for (top, zero) in from(i64::MAX).into_iter().zip(from(0)) {
        assert_eq!(top, i64::MAX.wrapping_add(zero));
    }
    assert!(DiscreteGaussian::new(31).is_err() && DiscreteGaussian::new((1 << 40) + 1).is_err());
    assert_eq!(DiscreteGaussian::new(33).unwrap().sigma(), 33);
}
