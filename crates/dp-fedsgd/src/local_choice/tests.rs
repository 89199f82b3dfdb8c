use super::*;

const ALL: [[f32; 2]; 5] = [[1.0, 0.5], [0.3, -1.0], [-0.7, 0.2], [0.1, 0.9], [2.0, 1.0]];
const Y: [f32; 5] = [2.0, 1.0, 0.0, 3.0, 4.5];

/// Rows of two features and further ones.
fn rows(at: &[usize], further: impl Fn(usize, usize) -> f32, n_further: usize) -> Minibatch {
    let mut rows = Minibatch::new(2 + n_further);
    for &k in at {
        let more = (0..n_further).map(|c| further(k, c));
        let x: Vec<f32> = ALL[k].into_iter().chain(more).collect();
        rows.push(&x, Y[k]);
    }
    rows
}

const COEFFICIENTS: [f64; 2] = [1.570_022_84, 1.110_958_58];

fn wave(k: usize, c: usize) -> f32 {
    (1.3 * k as f32 + 2.1 * c as f32).sin()
}

#[test]
fn the_error_by_the_hat_matrix_is_that_of_leaving_rows_out() {
    // in features, in rows, and where leaving one out goes from the one to the other
    for n_further in [0, 6, 2] {
        let shared: Vec<f64> = (0..2 + n_further).map(|c| 1.0 - 0.3 * c as f64).collect();
        for penalty in [0.02, 0.5, f64::INFINITY] {
            let choice = LocalChoice::new(vec![0.7], vec![penalty]).unwrap();
            let all = rows(&[0, 1, 2, 3, 4], wave, n_further);
            let found = choice.choose(&[&shared], &all).error;
            let mut expected = 0.0;
            for out in 0..5 {
                let kept: Vec<usize> = (0..5).filter(|&k| k != out).collect();
                // the penalty of five rows, for the four that are left
                let same = LocalChoice::new(vec![0.7], vec![penalty * 5.0 / 4.0]).unwrap();
                let model = same.choose(&[&shared], &rows(&kept, wave, n_further));
                let one = rows(&[out], wave, n_further);
                let (x, y) = one.rows().next().unwrap();
                expected += (model.predict(x) - f64::from(y)).powi(2) / 5.0;
            }
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "{n_further} {penalty}"
            );
        }
    }
}

#[test]
fn in_rows_and_in_features_it_is_the_same_ridge() {
    let choice = LocalChoice::new(vec![0.7], vec![0.1]).unwrap();
    let at = [0, 1, 2, 3, 4];
    let zero = |_: usize, _: usize| 0.0;
    let [tall, wide] = [0, 6].map(|n_further| {
        let shared: Vec<f64> = [1.0, 0.5].into_iter().chain(vec![0.0; n_further]).collect();
        choice.choose(&[&shared], &rows(&at, zero, n_further))
    });
    assert!((tall.error / wide.error - 1.0).abs() < 1e-12);
    for (a, b) in tall.coefficients.iter().zip(&wide.coefficients) {
        assert!((a - b).abs() < 1e-12);
    }
    assert!(wide.coefficients[2..].iter().all(|c| c.abs() < 1e-12));
    // numpy: solve(X.T @ X + 5 * 0.1 * eye(2), X.T @ (y - 0.7 * X @ w)) + 0.7 * w
    assert!((tall.coefficients[0] - COEFFICIENTS[0]).abs() < 1e-6);
    assert!((tall.coefficients[1] - COEFFICIENTS[1]).abs() < 1e-6);
}

#[test]
fn users_choose_what_predicts_them() {
    let choice = LocalChoice::new(vec![0.0, 1.0], vec![1e-3, 1.0, f64::INFINITY]).unwrap();
    let mut own = Minibatch::new(3);
    for k in 0..5_u8 {
        let x = [f32::from(k) - 2.0, f32::from(k % 3) - 1.0, f32::from(k % 2)];
        own.push(&x, 2.0 * x[0] - x[1] + 4.0 * x[2]);
    }
    let (right, wrong) = ([2.0, -1.0, 4.0], [-9.0, 30.0, 5.0]);
    let found = choice.choose(&[&wrong, &right], &own);
    assert_eq!((found.round, found.weight, found.error), (1, 1.0, 0.0));
    let alone = choice.choose(&[&wrong], &own);
    assert!(alone.weight == 0.0 && alone.l2_penalty < 1.0);
}

#[test]
fn users_without_rows_or_with_absurd_ones_get_the_last_model() {
    let choice = LocalChoice::new(vec![0.0, 1.0], vec![0.1]).unwrap();
    let found = choice.choose(&[&[1.0, 1.0], &[2.0, 3.0]], &Minibatch::new(2));
    assert_eq!((found.round, found.coefficients), (1, vec![2.0, 3.0]));
    let mut absurd = Minibatch::new(2);
    absurd.push(&[f32::INFINITY, 1.0], 1.0);
    let found = choice.choose(&[&[2.0, 3.0]], &absurd);
    assert_eq!(found.coefficients, [2.0, 3.0]);
    for bad in [0.0, -1.0, f64::NAN] {
        assert!(LocalChoice::new(vec![1.0], vec![bad]).is_err());
        assert!(LocalChoice::new(vec![1.0 / bad, f64::NAN], vec![1.0]).is_err());
    }
    assert!(LocalChoice::new(vec![], vec![1.0]).is_err());
}
