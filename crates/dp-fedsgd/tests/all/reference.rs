//! The rounds compared with a direct transcription of the formulas, in double precision and without
//! noise.

use dp_core::UserSamples;
use dp_fedsgd::{BatchReduction, HeldBatches, PpSgdParams, StepSchedule};
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};

use crate::support::{samples, squared};

struct Setting {
    steps: (f64, f64),
    inverse_sqrt: bool,
    sum: bool,
    clip: f64,
    denominator: f64,
    n_rounds: usize,
    batch_size: usize,
}

/// `w_T`, its average, and every user's `theta_T` and average: Algorithms 1 to 3 with full
/// participation.
fn plain(data: &UserSamples, dim: usize, s: &Setting) -> [Vec<f64>; 4] {
    let n = data.users().len();
    let (mut w, mut theta) = (vec![0.0; dim], vec![vec![0.0; dim]; n]);
    let (mut w_sum, mut theta_sum) = (w.clone(), vec![0.0; n * dim]);
    for t in 1..=s.n_rounds {
        let factor = if s.inverse_sqrt {
            1.0 / (t as f64).sqrt()
        } else {
            1.0
        };
        w_sum.iter_mut().zip(&w).for_each(|(a, b)| *a += b);
        let everybody = theta.iter().flatten();
        theta_sum
            .iter_mut()
            .zip(everybody)
            .for_each(|(a, b)| *a += b);
        let mut total = vec![0.0; dim];
        for (user, own) in data.users().zip(&mut theta) {
            let rows: Vec<_> = user.iter().collect();
            let size = s.batch_size.min(rows.len());
            let mut g = vec![0.0; dim];
            for k in 0..size {
                let (x, y) = rows[((t - 1) * size + k) % rows.len()];
                let both = w.iter().zip(own.iter()).zip(x);
                let score: f64 = both.map(|((w, o), &x)| (w + o) * f64::from(x)).sum();
                let r = score - f64::from(y);
                g.iter_mut()
                    .zip(x)
                    .for_each(|(g, &x)| *g += r * f64::from(x));
            }
            if !s.sum {
                g.iter_mut().for_each(|g| *g /= size as f64);
            }
            let norm = g.iter().map(|g| g * g).sum::<f64>().sqrt();
            let clip = (s.clip / norm).min(1.0);
            for k in 0..dim {
                total[k] += clip * g[k];
                own[k] -= s.steps.0 * factor * g[k];
            }
        }
        for k in 0..dim {
            w[k] -= s.steps.1 * factor * total[k] / s.denominator;
        }
    }
    let mean = |v: Vec<f64>| v.iter().map(|v| v / s.n_rounds as f64).collect();
    [w, mean(w_sum), theta.concat(), mean(theta_sum)]
}

#[test]
fn rounds_are_those_of_the_formulas() {
    let data = samples(23, 3, 7, 5);
    for (alpha, steps) in [
        (0.25, (0.4, 0.1)),
        (1.0, (0.4, 0.4)),
        (4.0, (0.1, 0.4)),
        (f64::INFINITY, (0.0, 0.4)),
    ] {
        for (sum, inverse_sqrt) in [(false, false), (true, false), (false, true)] {
            let mut params = PpSgdParams::new(alpha, 0.4, 0.35, 9, 20.0);
            params.average = true;
            let schedule = if inverse_sqrt {
                StepSchedule::InverseSqrt
            } else {
                StepSchedule::Constant
            };
            (params.local_schedule, params.global_schedule) = (schedule, schedule);
            if sum {
                params.reduction = BatchReduction::Sum { rows_per_user: 2.5 };
            }
            let setting = Setting {
                steps,
                inverse_sqrt,
                sum,
                clip: 0.35,
                denominator: if sum { 50.0 } else { 20.0 },
                n_rounds: 9,
                batch_size: 3,
            };
            let fit = params.check().unwrap();
            let batches = HeldBatches::new(&data, 3).unwrap();
            let rng = &mut ChaCha20Rng::seed_from_u64(1);
            let found = fit.simulate(&squared(3), &batches, 0.0, rng).unwrap();
            let own = found.local.expose();
            let users = 0..data.users().len();
            let last: Vec<f64> = users.clone().flat_map(|u| own.last(u).to_vec()).collect();
            let average: Vec<f64> = users
                .flat_map(|u| own.average(u).unwrap().to_vec())
                .collect();
            let expected = plain(&data, 3, &setting);
            let model = &found.shared;
            let all = [model.last(), model.average().unwrap(), &last, &average];
            for (found, expected) in all.into_iter().zip(&expected) {
                assert_eq!(found.len(), expected.len());
                for (a, b) in found.iter().zip(expected) {
                    assert!((a - b).abs() < 2e-5, "alpha {alpha}, sum {sum}: {a} {b}");
                }
            }
        }
    }
}
