//! The kernels compared with faer's own routines and with matrices of known eigenvalues.
#![cfg(feature = "dense")]
#![allow(
    clippy::float_cmp,
    clippy::shadow_unrelated,
    reason = "equality is the claim; each check rebinds the same few names"
)]

use dp_linalg::{
    Error, PsdPath, PsdScratch, Result, cholesky_in_place, cholesky_solve_in_place,
    project_psd_in_place, psd_part_plus_ridge_solve,
};
use faer::linalg::solvers::Solve;
use faer::{Mat, MatRef, Side};
use proptest::prelude::*;

const DIMS: [usize; 9] = [1, 2, 3, 8, 15, 16, 33, 64, 130];

/// Numbers in (-1, 1): the fractional parts of multiples of an irrational number.
fn reals(n: usize, seed: usize) -> Vec<f64> {
    let mut at = (seed as f64 * 0.754_877_666_246_692_8).fract();
    let mut next = || {
        at = (at + 0.618_033_988_749_894_8).fract();
        // the map x -> fract(977 x^2) breaks the lattice structure
        (977.0 * at * at).fract() * 2.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// `Q diag(values) Q^T` with the reflection `Q = I - 2 v v^T / v^T v`.
fn with_eigenvalues(values: &[f64], seed: usize) -> Vec<f64> {
    let dim = values.len();
    let v = reals(dim, seed);
    let norm: f64 = v.iter().map(|x| x * x).sum();
    let q = |i: usize, j: usize| f64::from(u8::from(i == j)) - 2.0 * v[i] * v[j] / norm;
    let entry = |i, j| (0..dim).map(|k| q(i, k) * values[k] * q(j, k)).sum();
    let cells = (0..dim).flat_map(|i| (0..dim).map(move |j| (i, j)));
    cells.map(|(i, j)| entry(i, j)).collect()
}

/// Eigenvalues from -1 to 1, some repeated, some zero.
fn indefinite(dim: usize) -> Vec<f64> {
    reals(dim, 5)
        .into_iter()
        .map(|x| (x * 6.0).round() / 6.0)
        .collect()
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    let size = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    for (x, y) in found.iter().zip(expected) {
        assert!((x - y).abs() <= tolerance * size, "{x} is not {y}");
    }
}

#[test]
fn cholesky_solves_as_faer_does() -> Result<()> {
    for dim in DIMS {
        let values: Vec<f64> = (0..dim).map(|k| 1.0 + k as f64).collect();
        let a = with_eigenvalues(&values, dim);
        let b = reals(dim, 3);
        let matrix = MatRef::from_row_major_slice(&a, dim, dim);
        let llt = matrix.llt(Side::Lower).expect("positive definite");

        let (mut u, mut x) = (a.clone(), b.clone());
        cholesky_in_place(&mut u, dim)?;
        for row in 0..dim {
            for col in row..dim {
                assert!((u[row * dim + col] - llt.L()[(col, row)]).abs() < 1e-12);
            }
        }
        cholesky_solve_in_place(&u, dim, &mut x)?;
        let expected = llt.solve(Mat::from_fn(dim, 1, |i, _| b[i]));
        assert_close(&x, expected.col_as_slice(0), 1e-11);
    }
    Ok(())
}

#[test]
fn projection_keeps_the_positive_eigenvalues() -> Result<()> {
    for dim in DIMS {
        let values = indefinite(dim);
        let positive: Vec<f64> = values.iter().map(|x| x.max(0.0)).collect();
        let expected = with_eigenvalues(&positive, dim);
        let mut a = with_eigenvalues(&values, dim);
        for row in 0..dim {
            a[row * dim..row * dim + row].fill(f64::NAN); // must not be read
        }
        project_psd_in_place(&mut a, dim)?;
        for (x, y) in a.iter().zip(&expected) {
            assert!((x - y).abs() < 1e-12, "dim {dim}");
        }
    }
    Ok(())
}

#[test]
fn a_positive_definite_matrix_is_its_own_projection_bit_for_bit() -> Result<()> {
    let values: Vec<f64> = (0..12).map(|k| 0.01 + f64::from(k)).collect();
    let mut a = with_eigenvalues(&values, 1);
    for row in 0..12 {
        for col in 0..row {
            a[row * 12 + col] = a[col * 12 + row];
        }
    }
    let before = a.clone();
    assert_eq!(project_psd_in_place(&mut a, 12)?, PsdPath::Cholesky);
    assert!(a == before);
    Ok(())
}

/// Reference solution: eigenvectors, clipped eigenvalues, reassembled matrix, then a general
/// solver.
fn straightforward(a: &[f64], dim: usize, ridge: f64, b: &[f64]) -> Mat<f64> {
    let matrix = MatRef::from_row_major_slice(a, dim, dim);
    let eigen = matrix.self_adjoint_eigen(Side::Upper).expect("converges");
    let (v, values) = (eigen.U(), eigen.S());
    let clipped = Mat::from_fn(dim, dim, |i, j| {
        (0..dim)
            .map(|k| v[(i, k)] * values[k].max(0.0) * v[(j, k)])
            .sum::<f64>()
            + if i == j { ridge } else { 0.0 }
    });
    clipped
        .partial_piv_lu()
        .solve(Mat::from_fn(dim, 1, |i, _| b[i]))
}

#[test]
fn ridge_solve_agrees_with_the_straightforward_route_on_both_paths() -> Result<()> {
    for dim in DIMS {
        let mut scratch = PsdScratch::new(dim)?;
        let b = reals(dim, 9);
        let mut negative = indefinite(dim);
        negative[0] = -0.5;
        let positive: Vec<f64> = negative.iter().map(|x| x + 1.01).collect();
        let cases = [(negative, PsdPath::Eigen), (positive, PsdPath::Cholesky)];
        for (values, path) in cases {
            let a = with_eigenvalues(&values, dim);
            for ridge in [1e-3, 0.1, 10.0] {
                let mut x = b.clone();
                let found = psd_part_plus_ridge_solve(&a, ridge, &mut x, &mut scratch)?;
                assert_eq!(found, path, "dim {dim}");
                let expected = straightforward(&a, dim, ridge, &b);
                assert_close(&x, expected.col_as_slice(0), 1e-9);
            }
        }
    }
    Ok(())
}

#[test]
fn extreme_scales_neither_overflow_nor_vanish() -> Result<()> {
    let dim = 9;
    let a = with_eigenvalues(&[3.0, -2.0, 1.0, 0.0, 5.0, -1.0, 2.0, 0.5, -4.0], 2);
    let b = reals(dim, 4);
    let mut scratch = PsdScratch::new(dim)?;
    let mut expected = b.clone();
    psd_part_plus_ridge_solve(&a, 0.25, &mut expected, &mut scratch)?;
    for exponent in [-1010, -600, 600, 1010] {
        let scale = 2.0_f64.powi(exponent);
        let scaled: Vec<f64> = a.iter().map(|x| x * scale).collect();
        // keeps the solution in range: (s A + s r) x = s b
        let mut x: Vec<f64> = b.iter().map(|x| x * scale).collect();
        psd_part_plus_ridge_solve(&scaled, 0.25 * scale, &mut x, &mut scratch)?;
        assert_close(&x, &expected, 1e-11);
    }
    Ok(())
}

/// Regression test: the iteration stalled on this matrix before negligible entries were set to
/// zero.
#[test]
fn entries_of_very_different_size_do_not_stall_the_iteration() -> Result<()> {
    let mut a = [0.0; 16];
    (a[2], a[6], a[7]) = (4e25, -8e-31, -2e219);
    let mut scratch = PsdScratch::new(4)?;
    let mut x = [1.0; 4];
    let path = psd_part_plus_ridge_solve(&a, 1.0, &mut x, &mut scratch)?;
    assert_eq!(path, PsdPath::Eigen);
    // The large eigenvalue belongs to (0, 1, 0, -1), in which b has no component; its opposite,
    // along (0, 1, 0, 1), becomes 0, and so does nearly everything else.
    assert_close(&x, &[1.0, 1.0, 1.0, 1.0], 1e-12);
    Ok(())
}

#[test]
fn a_zero_matrix_leaves_only_the_ridge() -> Result<()> {
    let mut scratch = PsdScratch::new(3)?;
    let mut x = [2.0, 0.0, -6.0];
    let path = psd_part_plus_ridge_solve(&[0.0; 9], 2.0, &mut x, &mut scratch)?;
    assert_eq!(path, PsdPath::Eigen);
    assert_close(&x, &[1.0, 0.0, -3.0], 1e-14);
    Ok(())
}

#[test]
fn bad_input_is_refused_and_the_right_hand_side_kept() -> Result<()> {
    let mut scratch = PsdScratch::new(2)?;
    let good = [1.0, 0.0, 0.0, -1.0];
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for place in [0, 1, 3] {
            let mut a = good;
            a[place] = bad;
            let mut x = [1.0, 2.0];
            let got = psd_part_plus_ridge_solve(&a, 1.0, &mut x, &mut scratch);
            assert_eq!(got, Err(Error::NotFinite { name: "a" }));
            assert!(x == [1.0, 2.0]);
            let got = project_psd_in_place(&mut a, 2);
            assert_eq!(got, Err(Error::NotFinite { name: "a" }));
        }
        let got = psd_part_plus_ridge_solve(&good, 1.0, &mut [bad, 1.0], &mut scratch);
        assert_eq!(got, Err(Error::NotFinite { name: "rhs" }));
        let got = psd_part_plus_ridge_solve(&good, bad, &mut [1.0; 2], &mut scratch);
        assert!(matches!(got, Err(Error::Param(_))));
    }
    for ridge in [0.0, -1.0] {
        let got = psd_part_plus_ridge_solve(&good, ridge, &mut [1.0; 2], &mut scratch);
        assert!(matches!(got, Err(Error::Param(_))));
    }
    let got = psd_part_plus_ridge_solve(&good[..3], 1.0, &mut [1.0; 2], &mut scratch);
    assert!(matches!(got, Err(Error::Shape(_))));
    let got = psd_part_plus_ridge_solve(&good, 1.0, &mut [1.0; 3], &mut scratch);
    assert!(matches!(got, Err(Error::Shape(_))));
    for dim in [0, 1025] {
        assert!(matches!(PsdScratch::new(dim), Err(Error::Param(_))));
        let got = project_psd_in_place(&mut [], dim);
        assert!(matches!(got, Err(Error::Param(_))));
    }
    Ok(())
}

/// Mostly numbers of any magnitude, sometimes NaN or an infinity.
fn entry() -> impl Strategy<Value = f64> {
    prop_oneof![50 => any::<f64>(), 1 => prop::num::f64::ANY]
}

fn square_matrix() -> impl Strategy<Value = (usize, Vec<f64>)> {
    (1_usize..7).prop_flat_map(|dim| (Just(dim), prop::collection::vec(entry(), dim * dim)))
}

proptest! {
    #[test]
    fn any_matrix_gets_a_bounded_answer_or_a_typed_error((dim, a) in square_matrix()) {
        let mut rows = a.chunks_exact(dim).enumerate();
        let finite = rows.all(|(r, row)| row[r..].iter().all(|x| x.is_finite()));
        let mut scratch = PsdScratch::new(dim).unwrap();
        let mut x = vec![1.0; dim];
        let got = psd_part_plus_ridge_solve(&a, 1.0, &mut x, &mut scratch);
        prop_assert_eq!(got.is_ok(), finite);
        // no eigenvalue of the matrix is below the ridge of 1, and b has norm sqrt(dim)
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        prop_assert!(!finite || norm <= (dim as f64).sqrt() * (1.0 + 1e-9));
        let mut projected = a;
        prop_assert_eq!(project_psd_in_place(&mut projected, dim).is_ok(), finite);
    }
}
