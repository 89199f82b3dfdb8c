//! Levels of a user's own: against fits from scratch for every row that is left out.

use super::*;

const X: [[f32; 3]; 5] = [
    [1.0, 0.5, -0.3],
    [0.3, -1.0, 0.8],
    [-0.7, 0.2, 0.1],
    [0.1, 0.9, -1.2],
    [2.0, 1.0, 0.4],
];
const Y: [f32; 5] = [12.0, 11.0, 10.0, 13.0, 14.5];

fn rows(at: &[usize], n_features: usize) -> Minibatch {
    let mut rows = Minibatch::new(n_features);
    for &k in at {
        rows.push(&X[k][..n_features], Y[k]);
    }
    rows
}

/// Coefficients and level of the ridge around `c w`: its normal equations by elimination, the constant a column that is not penalised.
fn from_scratch(at: &[usize], shared: &[f64], weight: f64, penalty: f64) -> Vec<f64> {
    let d = shared.len();
    let mut system = vec![vec![0.0; d + 2]; d + 1];
    for &k in at {
        let mut row: Vec<f64> = X[k][..d].iter().map(|&x| x.into()).collect();
        let offset: f64 = row.iter().zip(shared).map(|(x, w)| weight * w * x).sum();
        row.extend([1.0, f64::from(Y[k]) - offset]);
        for (line, a) in system.iter_mut().zip(&row) {
            line.iter_mut().zip(&row).for_each(|(s, b)| *s += a * b);
        }
    }
    (0..d).for_each(|c| system[c][c] += penalty);
    for pivot in 0..=d {
        let line: Vec<f64> = system[pivot]
            .iter()
            .map(|s| s / system[pivot][pivot])
            .collect();
        for target in &mut system {
            let factor = target[pivot];
            target
                .iter_mut()
                .zip(&line)
                .for_each(|(t, l)| *t -= factor * l);
        }
        system[pivot] = line;
    }
    let solved = (0..=d).map(|c| system[c][d + 1] + weight * shared.get(c).unwrap_or(&0.0));
    solved.collect()
}

fn predicted(model: &[f64], k: usize) -> f64 {
    let terms = model.iter().zip(X[k]).take(model.len() - 1);
    model[model.len() - 1] + terms.map(|(c, x)| c * f64::from(x)).sum::<f64>()
}

#[test]
fn a_level_is_fitted_anew_for_every_row_that_is_left_out() {
    for (m, d) in [(2, 3), (3, 3), (3, 2), (5, 3), (2, 1), (5, 1)] {
        let all: Vec<usize> = (0..m).collect();
        let shared = &[1.0, 0.4, -0.2][..d];
        for penalty in [0.02, 0.5, 1e12] {
            let choice = LocalChoice::new(vec![0.7], vec![penalty]).unwrap();
            let found = choice.with_own_level().choose(&[shared], &rows(&all, d));
            let total = penalty * m as f64;
            let expected = all.iter().map(|&out| {
                let kept: Vec<usize> = all.iter().copied().filter(|&k| k != out).collect();
                let model = from_scratch(&kept, shared, 0.7, total);
                (predicted(&model, out) - f64::from(Y[out])).powi(2) / m as f64
            });
            let expected: f64 = expected.sum();
            assert!(
                (found.error / expected - 1.0).abs() < 1e-8,
                "{m} {d} {penalty}: {} {expected}",
                found.error
            );
            let model = from_scratch(&all, shared, 0.7, total);
            let both = found.coefficients.iter().chain([&found.level]).zip(&model);
            for (a, b) in both {
                assert!((a - b).abs() < 1e-8, "{m} {d} {penalty}: {a} {b}");
            }
            assert!((found.predict(&X[0][..d]) - predicted(&model, 0)).abs() < 1e-8);
        }
    }
    // without an own part, the infinite penalty is the limit
    let of = |penalty| {
        let choice = LocalChoice::new(vec![0.7], vec![penalty]).unwrap();
        let choice = choice.with_own_level();
        choice.choose(&[&[1.0, 0.4]], &rows(&[0, 1, 2], 2)).error
    };
    assert!((of(f64::INFINITY) / of(1e12) - 1.0).abs() < 1e-8);
}

fn choice() -> LocalChoice {
    let penalties = vec![1e-2, 1.0, f64::INFINITY];
    LocalChoice::new(vec![0.0, 0.5, 1.0], penalties).unwrap()
}

#[test]
fn one_row_and_a_level_leave_the_shared_model_as_it_is() {
    let offered: [&[f64]; 2] = [&[5.0, 5.0], &[2.0, -1.0]];
    let found = choice().with_own_level().choose(&offered, &rows(&[0], 2));
    assert_eq!((found.round, found.weight), (1, 1.0));
    assert_eq!(found.coefficients, [2.0, -1.0]);
    // 12 - (2 * 1 - 0.5)
    assert!((found.level - 10.5).abs() < 1e-12);
    let nobody = choice().with_own_level().choose(&offered, &rows(&[], 2));
    assert_eq!((nobody.coefficients, nobody.level), (vec![2.0, -1.0], 0.0));
}

#[test]
fn ties_go_to_what_is_nearest_to_the_released_model() {
    // of two rows, one left out, there is nothing for a ridge: all penalties are alike
    let two = rows(&[0, 2], 2);
    let found = choice().with_own_level().choose(&[&[1.0, 0.4]], &two);
    assert!(found.l2_penalty.is_infinite());
    // a feature that is always 0 predicts nothing: all candidates are alike
    let mut empty = Minibatch::new(1);
    (0..3_u8).for_each(|k| empty.push(&[0.0], f32::from(k)));
    let found = choice().choose(&[&[3.0], &[4.0]], &empty);
    assert_eq!((found.round, found.weight), (1, 1.0));
    assert!(found.l2_penalty.is_infinite() && found.coefficients == [4.0]);
}
