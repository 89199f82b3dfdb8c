//! How close are the weights n^-1/2, normalised for each user, to the best possible weights?
//!
//! `cargo run --release -p dp-examples --example how_good_are_the_weights`
//!
//! The error bound of sufficient statistics for strongly convex losses (Krichene et al. 2023, Theorem 3.8) grows with
//!
//! ```text
//! F(w) = sum_i n_i / (sum_j w_ij)^2,     sum_i w_ij^2 <= 1 for every user j
//! ```
//!
//! The example compares three kinds of weights: `w_ij = n_i^-1/2` normalised for each user, which
//! need noisy counts only; the best weights of all, one for every record; and the best weights that
//! are the same for all users of a task, `w_ij = omega_i`, which is problem (9) of the paper. The
//! last two need the private table and serve as references, each with a lower bound.

use dp_core::Interactions;
use dp_data::SkewedTasks;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

/// Relative gap to the lower bound at which the search for the best weights stops.
const GAP: f64 = 2e-4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("F relative to the best weights of all (lower bounds in brackets)\n");
    println!("tail   n^-1/2 normalised   best of all     problem (9)");
    for exponent in [1.0, 2.0] {
        let shape = SkewedTasks::appendix_c(exponent);
        let data = shape.generate(&mut ChaCha20Rng::seed_from_u64(1))?;
        let table = data.train.expose();
        let n: Vec<f64> = (0..table.n_items())
            .map(|task| table.item_major().item(task).len() as f64)
            .collect();
        let shape: Vec<f64> = n.iter().map(|n| n.max(1.0).powf(-0.5)).collect();
        let simple = objective(&n, &normalised(table, &shape));
        let (best, bound) = best_of_all(table, &n);
        let (per_task, task_bound) = best_per_task(table, &n);
        println!(
            "a = {exponent}  {:<18.4}  1 [{:.4}]      {:.3} [{:.3}]",
            simple / best,
            bound / best,
            per_task / best,
            task_bound / best,
        );
    }
    Ok(())
}

/// `F` for total weights `W_i = sum_j w_ij`; tasks without users do not count.
fn objective(n: &[f64], totals: &[f64]) -> f64 {
    let tasks = n.iter().zip(totals).filter(|(n, _)| **n > 0.0);
    tasks.map(|(n, w)| n / (w * w)).sum()
}

/// Total weights of the tasks when every user's weights are proportional to `shape` and have norm 1.
fn normalised(table: &Interactions, shape: &[f64]) -> Vec<f64> {
    let mut totals = vec![0.0; shape.len()];
    for user in table.users() {
        let own = || user.items().iter().map(|&task| task as usize);
        let norm = own().map(|task| shape[task].powi(2)).sum::<f64>().sqrt();
        own().for_each(|task| totals[task] += shape[task] / norm);
    }
    totals
}

/// The smallest `F` over all weights, and a lower bound, by the Frank-Wolfe method. `F` is convex
/// in the total weights, and the weights that minimise its linearisation are normalised for each
/// user.
fn best_of_all(table: &Interactions, n: &[f64]) -> (f64, f64) {
    let mut totals = normalised(table, &vec![1.0; n.len()]);
    let mut bound = 0.0_f64;
    for _ in 0..5_000 {
        let slope: Vec<f64> = n
            .iter()
            .zip(&totals)
            .map(|(n, w)| 2.0 * n / w.max(1e-9).powi(3))
            .collect();
        let toward = normalised(table, &slope);
        let value = objective(n, &totals);
        let gains = slope.iter().zip(toward.iter().zip(&totals));
        bound = bound.max(value - gains.map(|(s, (t, w))| s * (t - w)).sum::<f64>());
        if value - bound < GAP * value {
            break;
        }
        let mixed = |step: f64| -> Vec<f64> {
            let pairs = totals.iter().zip(&toward);
            pairs.map(|(w, t)| w + step * (t - w)).collect()
        };
        totals = mixed(least(|step| objective(n, &mixed(step))));
    }
    (objective(n, &totals), bound)
}

/// The smallest `sum_i 1 / (omega_i^2 n_i)` with `sum_i omega_i^2 <= 1` over the tasks of every
/// user, and a lower bound, by multiplicative updates of the users' prices. With `v_i = omega_i^2`
/// and prices `p_j`, the best `v_i` are `1 / sqrt(n_i sum_j p_j)`, and the dual value is
/// `(sum_i sqrt(sum_j p_j / n_i))^2 / sum_j p_j`.
fn best_per_task(table: &Interactions, n: &[f64]) -> (f64, f64) {
    let mut prices = vec![1.0; table.n_users()];
    let (mut best, mut bound) = (f64::INFINITY, 0.0_f64);
    for _ in 0..4_000 {
        let mut priced = vec![0.0; n.len()];
        for (user, price) in table.users().zip(&prices) {
            user.items()
                .iter()
                .for_each(|&task| priced[task as usize] += price);
        }
        let tasks = || priced.iter().zip(n).filter(|(_, n)| **n > 0.0);
        let root: f64 = tasks().map(|(price, n)| (price / n).sqrt()).sum();
        bound = bound.max(root * root / prices.iter().sum::<f64>());
        let squares: Vec<f64> = priced
            .iter()
            .zip(n)
            .map(|(p, n)| 1.0 / (n * p).sqrt())
            .collect();
        let loads: Vec<f64> = (table.users())
            .map(|user| {
                user.items()
                    .iter()
                    .map(|&task| squares[task as usize])
                    .sum()
            })
            .collect();
        let largest = loads.iter().copied().fold(0.0, f64::max);
        let used = squares.iter().zip(n).filter(|(_, n)| **n > 0.0);
        best = best.min(largest * used.map(|(v, n)| 1.0 / (n * v)).sum::<f64>());
        for (price, load) in prices.iter_mut().zip(&loads) {
            *price *= (load / largest).powf(2.0);
        }
    }
    (best, bound)
}

/// The minimiser of a unimodal function on [0, 1], by golden-section search.
fn least(f: impl Fn(f64) -> f64) -> f64 {
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let (a, b) = (high - golden * (high - low), low + golden * (high - low));
        if f(a) < f(b) {
            high = b;
        } else {
            low = a;
        }
    }
    (low + high) / 2.0
}
