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
