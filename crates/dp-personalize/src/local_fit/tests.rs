#![allow(clippy::cast_possible_truncation, reason = "rows of made data are f32")]

use dp_core::UserSamplesBuilder;

use super::*;
use crate::Provenance;
use crate::small::inner;

#[test]
fn leaving_rows_out_by_the_hat_matrix_is_leaving_them_out() {
    let rows = [
        ([1.0_f32, 0.5], 2.0_f32),
        ([0.3, -1.0], 1.0),
        ([-0.7, 0.2], 0.0),
        ([0.1, 0.9], 3.0),
    ];
    let identity = [1.0, 0.0, 0.0, 1.0];
    // the relative ridge of all rows, as an absolute one
    let trace: f64 = rows
        .iter()
        .flat_map(|(x, _)| x)
        .map(|&x| f64::from(x).powi(2))
        .sum();
    let mut expected = 0.0;
    for out in 0..rows.len() {
        let kept = || {
            rows.iter()
                .enumerate()
                .filter(|(at, _)| *at != out)
                .map(|(_, (x, y))| (&x[..], *y))
        };
        let less: f64 = kept()
            .flat_map(|(x, _)| x)
            .map(|&x| f64::from(x).powi(2))
            .sum();
        let mut design = UserDesign::new(2);
        design.read(kept(), &identity);
        design.solve(0.1 * trace / less);
        let (x, y) = rows[out];
        let found = design.own[0] * f64::from(x[0]) + design.own[1] * f64::from(x[1]);
        expected += (f64::from(y) - found).powi(2) / 4.0;
    }
    let mut design = UserDesign::new(2);
    design.read(rows.iter().map(|(x, y)| (&x[..], *y)), &identity);
    assert!((design.leave_one_out(0.1) / expected - 1.0).abs() < 1e-10);
}

#[test]
fn users_without_rows_or_with_absurd_ones_get_finite_models() {
    let plane = Subspace::spanned_by(2, 2, &[1.0, 0.0, 0.0, 1.0], Provenance::NonPrivate).unwrap();
    let mut builder = UserSamplesBuilder::new(2, 3).unwrap();
    builder.push(0, &[0.0, 0.0], 1.0).unwrap();
    builder.push(1, &[f32::MAX, f32::MAX], f32::MAX).unwrap();
    builder
        .push(1, &[f32::MIN_POSITIVE, 1e-30], f32::MAX)
        .unwrap();
    builder.push(2, &[f32::NAN, 0.0], 1.0).unwrap();
    let samples = builder.build().0;
    let fit = LocalFit::leave_one_out(vec![1e-9, 1e-3, 1.0]).unwrap();
    for rows in samples.users() {
        let model = fit.fit(&plane, rows);
        assert!(model.coefficients().iter().all(|t| t.is_finite()));
    }
    assert!(LocalFit::leave_one_out(vec![]).is_err());
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(LocalFit::ridge(bad).is_err());
    }
}

/// Users whose models are a plane's plus two coordinates of their own, 20 features.
fn plane_and_more(beyond: f64, n_rows: usize) -> (Subspace, dp_core::UserSamples, Vec<Vec<f64>>) {
    let mut state = 5_u64;
    let mut number = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    };
    let columns: Vec<f64> = (0..40).map(|_| number()).collect();
    let plane = Subspace::spanned_by(20, 2, &columns, Provenance::NonPrivate).unwrap();
    let mut builder = UserSamplesBuilder::new(20, n_rows).unwrap();
    let mut truth = Vec::new();
    for user in 0..80_u32 {
        let own = vec![number(), number()];
        let mut theta = PersonalModel::new(&plane, own).coefficients().to_vec();
        theta[user as usize % 20] += beyond;
        theta[(user as usize * 7 + 3) % 20] -= beyond;
        for _ in 0..n_rows {
            let x: Vec<f32> = (0..20).map(|_| number() as f32).collect();
            let y: f64 = x.iter().zip(&theta).map(|(&x, t)| f64::from(x) * t).sum();
            builder
                .push(user, &x, (y + 0.02 * number()) as f32)
                .unwrap();
        }
        truth.push(theta);
    }
    (plane, builder.build().0, truth)
}

fn mean_error(
    fit: impl Fn(SampleRows<'_>) -> PersonalModel,
    of: &(Subspace, dp_core::UserSamples, Vec<Vec<f64>>),
) -> f64 {
    let users = of.1.users().zip(&of.2);
    let errors = users.map(|(rows, theta)| {
        let found = fit(rows);
        let pairs = found.coefficients().iter().zip(theta);
        pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>()
    });
    errors.sum::<f64>() / of.2.len() as f64
}

#[test]
fn low_rank_plus_sparse_is_found_where_it_is_true_and_costs_little_where_not() {
    let sparse = LocalFit::default().with_sparse_residual(4).unwrap();
    let plain = LocalFit::default();
    // fewer rows than features: own data alone cannot do it
    let data = plane_and_more(1.0, 16);
    let with = mean_error(|rows| sparse.fit(&data.0, rows), &data);
    let without = mean_error(|rows| plain.fit(&data.0, rows), &data);
    let alone = mean_error(|rows| crate::own_data_model(rows, 20), &data);
    assert!(
        with < 0.25 * without && with < 0.25 * alone,
        "{with} {without} {alone}"
    );
    let data = plane_and_more(0.0, 16);
    let with = mean_error(|rows| sparse.fit(&data.0, rows), &data);
    let without = mean_error(|rows| plain.fit(&data.0, rows), &data);
    assert!(with < 4.0 * without && with < 1e-2, "{with} {without}");
}

#[test]
fn a_soft_prior_lies_between_the_subspace_and_the_own_data() {
    let soft = LocalFit::default()
        .with_soft_prior(vec![1e-4, 1e-2, 1.0])
        .unwrap();
    let plain = LocalFit::default();
    for (n_rows, factor) in [(60, 0.01), (12, 1.05)] {
        let data = plane_and_more(0.5, n_rows);
        let with = mean_error(|rows| soft.fit(&data.0, rows), &data);
        let without = mean_error(|rows| plain.fit(&data.0, rows), &data);
        assert!(with < factor * without, "{n_rows}: {with} {without}");
    }
    // the dual is the primal: normal equations of the objective hold
    let data = plane_and_more(0.5, 9);
    let rows = data.1.rows(3);
    let mut design = UserDesign::new(2);
    design.read(rows.iter(), data.0.basis());
    let x: Vec<f64> = rows
        .iter()
        .flat_map(|(x, _)| x.iter().map(|&x| f64::from(x)))
        .collect();
    let (z, y) = (design.projected.clone(), design.labels.clone());
    let own = OwnRows {
        dim: 20,
        rank: 2,
        x,
        z,
        y,
        own_level: false,
    };
    let (inside, outside) = (0.3, 0.7);
    let (pulled, left_out) = own.near(inside, outside).unwrap();
    let theta: Vec<f64> = {
        let within = PersonalModel::new(&data.0, pulled[20..].to_vec());
        within
            .coefficients()
            .iter()
            .zip(&pulled)
            .map(|(a, b)| a + b)
            .collect()
    };
    let (t, e) = (inner(&own.z, &own.z) / 2.0, inner(&own.x, &own.x) / 20.0);
    let v: Vec<f64> = (0..2)
        .map(|k| {
            data.0
                .basis()
                .iter()
                .skip(k)
                .step_by(2)
                .zip(&theta)
                .map(|(u, t)| u * t)
                .sum()
        })
        .collect();
    let part = PersonalModel::new(&data.0, v);
    for c in 0..20 {
        let pull: f64 = (0..9)
            .map(|i| (inner(own.row(i).0, &theta) - own.y[i]) * own.row(i).0[c])
            .sum();
        let within = part.coefficients()[c];
        let slope = pull + inside * t * within + outside * e * (theta[c] - within);
        assert!(slope.abs() < 1e-9, "{slope}");
    }
    assert!(left_out > 0.0);
}

#[test]
fn no_more_coordinates_are_tried_than_there_are_features() {
    let data = plane_and_more(1.0, 16);
    let fit = |most| {
        let fit = LocalFit::default().with_sparse_residual(most).unwrap();
        fit.fit(&data.0, data.1.rows(0)).coefficients().to_vec()
    };
    let all = fit(20);
    for most in [21, 1 << 40, usize::MAX] {
        assert_eq!(fit(most), all, "{most}");
    }
}

#[test]
fn going_beyond_the_subspace_never_fails_on_absurd_rows() {
    let plane = Subspace::spanned_by(2, 1, &[1.0, 0.5], Provenance::NonPrivate).unwrap();
    let mut builder = UserSamplesBuilder::new(2, 6).unwrap();
    builder.push(0, &[f32::NAN, 0.0], 1.0).unwrap();
    for i in 0..6_u8 {
        builder.push(1, &[f32::MAX, -f32::MAX], f32::MAX).unwrap();
        builder.push(2, &[1e-40, f32::from(i)], f32::MAX).unwrap();
        builder.push(3, &[1.0, 1.0], 0.0).unwrap();
    }
    let samples = builder.build().0;
    let fits = [
        LocalFit::default().with_sparse_residual(5).unwrap(),
        LocalFit::default()
            .with_soft_prior(vec![1e-6, 1.0])
            .unwrap(),
    ];
    for fit in fits {
        for rows in samples.users() {
            let model = fit.fit(&plane, rows);
            assert!(model.coefficients().iter().all(|t| t.is_finite()));
        }
    }
    let logistic = LocalFit::convex(ConvexLoss::Logistic, 0.1).unwrap();
    assert!(logistic.clone().with_sparse_residual(1).is_err());
    assert!(logistic.with_soft_prior(vec![1.0]).is_err());
    assert!(LocalFit::default().with_sparse_residual(0).is_err());
    assert!(LocalFit::default().with_soft_prior(vec![0.0]).is_err());
}
