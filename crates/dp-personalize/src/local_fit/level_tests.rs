//! Levels of a user's own: against fits from scratch, with a column of ones, for every row that is left out.

use dp_core::UserSamplesBuilder;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use super::*;
use crate::Provenance;
use crate::small::inner;

const X: [[f32; 3]; 5] = [
    [1.0, 0.5, -0.3],
    [0.3, -1.0, 0.8],
    [-0.7, 0.2, 0.1],
    [0.1, 0.9, -1.2],
    [2.0, 1.0, 0.4],
];
const Y: [f32; 5] = [12.0, 11.0, 10.0, 13.0, 14.5];

fn samples(at: &[usize]) -> dp_core::UserSamples {
    let mut builder = UserSamplesBuilder::new(3, 5).unwrap();
    for &k in at {
        builder.push(0, &X[k], Y[k]).unwrap();
    }
    builder.build().0
}

fn plane() -> Subspace {
    let columns = [1.0, 0.2, 0.4, 1.0, -0.3, 0.5];
    Subspace::spanned_by(3, 2, &columns, Provenance::NonPrivate).unwrap()
}

/// Minimiser of `sum (y - b - <x, t>)^2 + t^T penalty t` over the rows: t, then b.
fn from_scratch(rows: &[(Vec<f64>, f64)], penalty: &[f64]) -> Vec<f64> {
    let d = penalty.len().isqrt();
    let n = d + 1;
    let (mut system, mut solution) = (vec![0.0; n * n], vec![0.0; n]);
    for (a, line) in penalty.chunks_exact(d).enumerate() {
        system[a * n..a * n + d].copy_from_slice(line);
    }
    for (x, y) in rows {
        let row: Vec<f64> = x.iter().copied().chain([1.0]).collect();
        for (a, xa) in row.iter().enumerate() {
            solution[a] += xa * y;
            let line = system[a * n..(a + 1) * n].iter_mut().zip(&row);
            line.for_each(|(s, xb)| *s += xa * xb);
        }
    }
    cholesky_in_place(&mut system, n).unwrap();
    cholesky_solve_in_place(&system, n, &mut solution).unwrap();
    solution
}

/// Squared errors on rows left out, summed.
fn left_out_error(rows: &[(Vec<f64>, f64)], penalty: &[f64]) -> f64 {
    let errors = (0..rows.len()).map(|out| {
        let mut kept = rows.to_vec();
        let (x, y) = kept.remove(out);
        let model = from_scratch(&kept, penalty);
        (y - inner(&model[..x.len()], &x) - model[x.len()]).powi(2)
    });
    errors.sum()
}

/// Sum of squares around the means.
fn spread(rows: &[(Vec<f64>, f64)]) -> f64 {
    let mut all: Vec<f64> = rows.iter().flat_map(|(x, _)| x.clone()).collect();
    crate::design::take_off_means(&mut all, rows[0].0.len());
    inner(&all, &all)
}

fn diagonal(n: usize, value: f64) -> Vec<f64> {
    let entry = |at: usize| if at.is_multiple_of(n + 1) { value } else { 0.0 };
    (0..n * n).map(entry).collect()
}

fn rows_as_they_are(at: &[usize]) -> Vec<(Vec<f64>, f64)> {
    let row = |&k: &usize| (X[k].iter().map(|&x| f64::from(x)).collect(), Y[k].into());
    at.iter().map(row).collect()
}

/// The same through the basis.
fn rows_in(plane: &Subspace, at: &[usize]) -> Vec<(Vec<f64>, f64)> {
    let rank = plane.rank();
    let through = |(x, y): (Vec<f64>, f64)| {
        let product = |k| {
            let column = plane.basis().iter().skip(k).step_by(rank);
            x.iter().zip(column).map(|(x, u)| x * u).sum()
        };
        ((0..rank).map(product).collect(), y)
    };
    rows_as_they_are(at).into_iter().map(through).collect()
}

#[test]
fn a_level_is_fitted_anew_for_every_row_that_is_left_out() {
    let plane = plane();
    for m in 2..=5 {
        let at: Vec<usize> = (0..m).collect();
        let rows = rows_in(&plane, &at);
        let given = samples(&at);
        for penalty in [0.02, 0.5, 20.0] {
            let mut design = UserDesign::new(2);
            design.read(given.rows(0).iter(), plane.basis());
            design.center();
            let found = design.leave_one_out(penalty);
            let lift = penalty * spread(&rows) / 2.0;
            let expected = left_out_error(&rows, &diagonal(2, lift)) / m as f64;
            assert!((found / expected - 1.0).abs() < 1e-8, "{m} {penalty}");
            // and the model is that of all rows
            let fit = LocalFit::ridge(penalty).unwrap().with_own_level().unwrap();
            let model = fit.fit(&plane, given.rows(0));
            let expected = from_scratch(&rows, &diagonal(2, lift));
            let found = [model.own(), &[model.level()]].concat();
            let pairs = found.iter().zip(&expected);
            for (a, b) in pairs {
                assert!((a - b).abs() < 1e-8, "{m} {penalty}: {a} {b}");
            }
        }
    }
}

#[test]
fn a_soft_prior_leaves_rows_out_of_the_level_too() {
    check_soft_prior(&[0, 1, 2, 3, 4], 0.3, 0.7, 1e-8);
    // few rows and next to no penalty: the fits from scratch have lost half of their digits
    for outside in [0.1, 10.0] {
        check_soft_prior(&[0, 1, 2], 1e-9, outside, 1e-4);
    }
}

fn check_soft_prior(at: &[usize], inside: f64, outside: f64, tolerance: f64) {
    let plane = plane();
    let (rows, given) = (rows_as_they_are(at), samples(at));
    let within = inside * spread(&rows_in(&plane, at)) / 2.0;
    let beyond = outside * spread(&rows) / 3.0;
    let mut penalty = diagonal(3, beyond);
    for (a, u) in plane.basis().chunks_exact(2).enumerate() {
        for (b, w) in plane.basis().chunks_exact(2).enumerate() {
            penalty[3 * a + b] += (within - beyond) * inner(u, w);
        }
    }
    let mut design = UserDesign::new(2);
    design.read(given.rows(0).iter(), plane.basis());
    let own = OwnRows::of(given.rows(0), &plane, &design, true).0;
    let found = own.near(inside, outside).unwrap().1;
    let expected = left_out_error(&rows, &penalty);
    let error = (found / expected - 1.0).abs();
    assert!(error < tolerance, "{found} {expected}");
}

#[test]
fn a_row_that_is_left_out_of_a_sparse_fit_is_in_no_mean() {
    let (plane, at) = (plane(), [0, 1, 2, 3, 4]);
    let given = samples(&at);
    let mut design = UserDesign::new(2);
    design.read(given.rows(0).iter(), plane.basis());
    let own = OwnRows::of(given.rows(0), &plane, &design, true).0;
    let (kept, one) = own.without(4);
    let (x, z, y) = one.row(0);
    let mean = |of: &dyn Fn(usize) -> f32| (0..4).map(|k| f64::from(of(k)) / 4.0).sum::<f64>();
    for (c, x) in x.iter().enumerate() {
        let expected = f64::from(X[4][c]) - mean(&|k| X[k][c]);
        assert!((x - expected).abs() < 1e-12);
    }
    assert!((y - (14.5 - mean(&|k| Y[k]))).abs() < 1e-12);
    let through: Vec<f64> = (0..2)
        .map(|k| (0..3).map(|c| x[c] * plane.basis()[2 * c + k]).sum())
        .collect();
    assert!(z.iter().zip(through).all(|(a, b)| (a - b).abs() < 1e-12));
    assert!(kept.y.len() == 4 && kept.y.iter().sum::<f64>().abs() < 1e-12);
}

#[test]
fn centring_first_changes_nothing_but_the_level() {
    let (plane, at) = (plane(), [0, 1, 2, 3, 4]);
    let mut moved = UserSamplesBuilder::new(3, 5).unwrap();
    for k in at {
        let x: Vec<f32> = X[k].iter().map(|x| x - 0.5).collect();
        moved.push(0, &x, Y[k] - 12.0).unwrap();
    }
    let (given, moved) = (samples(&at), moved.build().0);
    let fit = LocalFit::leave_one_out(vec![1e-3, 0.1, 10.0]).unwrap();
    let sparse = fit.clone().with_sparse_residual(2).unwrap();
    let near = fit.clone().with_soft_prior(vec![0.1, 1.0]).unwrap();
    for fit in [fit, sparse, near] {
        let fit = fit.with_own_level().unwrap();
        let [one, other] = [&given, &moved].map(|rows| fit.fit(&plane, rows.rows(0)));
        for x in X {
            let shifted = x.map(|x| x - 0.5);
            let gap = one.predict(&x) - other.predict(&shifted) - 12.0;
            assert!(gap.abs() < 1e-5, "{gap}");
        }
    }
}

#[test]
fn two_rows_and_a_level_take_the_first_ridge_and_one_row_has_no_slopes() {
    let plane = plane();
    for penalties in [vec![1e-3, 1.0, 100.0], vec![100.0, 1.0, 1e-3]] {
        let first = LocalFit::ridge(penalties[0]).unwrap();
        let fit = LocalFit::leave_one_out(penalties).unwrap();
        let [fit, first] = [fit, first].map(|fit| fit.with_own_level().unwrap());
        let two = samples(&[0, 3]);
        assert!(fit.fit(&plane, two.rows(0)) == first.fit(&plane, two.rows(0)));
        let one = fit.fit(&plane, samples(&[1]).rows(0));
        assert!(one.coefficients().iter().all(|&t| t == 0.0));
        assert!((one.level() - 11.0).abs() < 1e-12);
    }
    let logistic = LocalFit::convex(ConvexLoss::Logistic, 0.1).unwrap();
    assert!(logistic.with_own_level().is_err());
}
