//! Lemma 4.6: the number of rounds from which users with identical optima do better by learning
//! alone.

use dp_accounting::{Budget, Ledger, gdp, usable_delta};
use dp_core::{Adjacency, ApproxDp};
use dp_data::PersonalOffsets;
use dp_fedsgd::bounds::rounds_until_local_learning_wins;
use dp_fedsgd::{AdditiveLoss, AdditiveModel, PpSgdParams, StreamedBatches, Trainer};
use dp_mechanism::NoiseSource;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::super::report::Row;
use super::super::{ReproduceArgs, sizes};
use super::figure1a::generate;
use dp_personal::error::Result;
use dp_personal::federated::alpha_value;

const DELTA: f64 = 1e-4;
const BATCH_SIZE: usize = 10;
/// Gradients in this set-up reach this norm in only one of thousands of rounds: the lemma assumes
/// no clipping.
const CLIP_NORM: f64 = 6.0;
/// Learning alone, and together.
const ALPHAS: [f64; 2] = [0.0, f64::INFINITY];
const STEPS: [f64; 6] = [0.05, 0.1, 0.2, 0.4, 0.7, 1.0];
const FACTORS: [f64; 7] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0];
/// Data sets on which step sizes are chosen have seeds from here on.
const TUNING: u64 = 1 << 32;
const N_TUNING: u64 = 3;

struct SetUp {
    data: PersonalOffsets,
    epsilon: f64,
}

impl SetUp {
    fn new(args: &ReproduceArgs) -> Result<Self> {
        let dim = 10;
        let mut set_up = Self {
            data: PersonalOffsets {
                n_users: 200,
                dim,
                n_personal: 0,
                shared_stddev: (dim as f64).sqrt().recip(),
                personal_stddev: 0.0,
                label_noise: 2.0,
                feature_decay: 0.0,
            },
            epsilon: 1.0,
        };
        if args.quick {
            set_up.data.n_users = 100;
        }
        sizes::apply(
            &args.size,
            "n_users, dim, label_noise, epsilon",
            |key, value| {
                match key {
                    "n_users" => set_up.data.n_users = sizes::whole(value),
                    "dim" => set_up.data.dim = sizes::whole(value),
                    "label_noise" => set_up.data.label_noise = value,
                    "epsilon" => set_up.epsilon = value,
                    _ => return false,
                }
                true
            },
        )?;
        set_up.data.shared_stddev = (set_up.data.dim.max(1) as f64).sqrt().recip();
        Ok(set_up)
    }

    fn mu(&self) -> Result<f64> {
        let target = ApproxDp::target(self.epsilon, usable_delta(DELTA))?;
        Ok(gdp::mu_for(target)?)
    }

    /// `n*` of the lemma, with the variance of a minibatch's gradient at the minimiser.
    fn threshold(&self) -> Result<f64> {
        let n = self.data.n_users as f64;
        let stddev = self.data.label_noise * (self.data.dim as f64 / BATCH_SIZE as f64).sqrt();
        let per_root = CLIP_NORM / (self.mu()? * n);
        Ok(rounds_until_local_learning_wins(
            n,
            stddev,
            self.data.dim,
            per_root,
        )?)
    }

    /// Excess risk of the average iterate after `n_rounds` rounds, at the budget.
    fn risk(&self, alpha: f64, n_rounds: usize, step: f64, seed: u64) -> Result<f64> {
        let data = generate(&self.data, seed)?;
        let dim = self.data.dim;
        let model = AdditiveModel::new(AdditiveLoss::Squared, dim)?;
        let batches = StreamedBatches::new(&data.table, dim, |user, step, out| {
            data.rows(user, step, BATCH_SIZE, out.cells_mut());
        });
        let n_users = self.data.n_users as f64;
        let mut params = PpSgdParams::new(alpha, step, CLIP_NORM, n_rounds, n_users);
        params.average = true;
        let (fit, adjacency) = (params.check()?, Adjacency::AddRemoveUser);
        let made = if fit.releases() {
            let noise_multiplier = (n_rounds as f64).sqrt() / self.mu()?;
            let plan = fit.plan_with_noise(dim, noise_multiplier, DELTA, adjacency)?;
            let budget = Budget::new(plan.target(), adjacency)?;
            let spends = Ledger::in_memory("made data", budget)?.reserve(&plan)?;
            let noise = &mut NoiseSource::insecure_seeded(seed);
            fit.with(&model).fit(&batches, &plan, spends, noise)?.model
        } else {
            fit.train_alone(&model, &batches, &mut ())?
        };
        let (own, zeros) = (made.local.expose(), vec![0.0; dim]);
        let shared = made.shared.average().unwrap_or(&zeros);
        Ok(data.excess_risk(|user, theta| {
            let both = shared.iter().zip(own.average(user).unwrap_or(&zeros));
            let sums = theta.iter_mut().zip(both);
            sums.for_each(|(theta, (w, own))| *theta = w + own);
        }))
    }

    /// Risks of all seeds, with the step size that is best on separate data sets.
    fn risks(&self, alpha: f64, n_rounds: usize, args: &ReproduceArgs) -> Result<(f64, Vec<f64>)> {
        let seeds = |from: u64, n: u64| -> Vec<u64> {
            let from = args.seed_base.wrapping_add(from);
            (0..n).map(|s| from.wrapping_add(s)).collect()
        };
        let all = |step: f64, seeds: &[u64]| {
            let each = seeds.par_iter();
            let risks = each.map(|&seed| self.risk(alpha, n_rounds, step, seed));
            risks.collect::<Result<Vec<f64>>>()
        };
        let (tuning, mut best) = (seeds(TUNING, N_TUNING), (f64::INFINITY, STEPS[0]));
        for step in STEPS {
            let sum: f64 = all(step, &tuning)?.iter().sum();
            if sum < best.0 {
                best = (sum, step);
            }
        }
        Ok((best.1, all(best.1, &seeds(0, args.seeds))?))
    }
}

pub(super) fn rows(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let set_up = SetUp::new(args)?;
    let threshold = set_up.threshold()?;
    let factors = if args.quick { &FACTORS[2..5] } else { &FACTORS };
    let (mut rows, mut path) = (Vec::new(), Vec::new());
    for &factor in factors {
        let n_rounds = sizes::whole((factor * threshold).round()).max(1);
        let mut pair = Vec::new();
        for alpha in ALPHAS {
            let (step, risks) = set_up.risks(alpha, n_rounds, args)?;
            let epsilon = (alpha > 0.0).then_some(set_up.epsilon);
            let mut params = params(threshold, n_rounds);
            params.insert("alpha_q".to_owned(), alpha_value(alpha));
            params.insert("step".to_owned(), json!(step));
            let row = Row::over_seeds("ppsgd", epsilon, params, "excess risk", &risks);
            rows.push(Row {
                tuned_on_truth: true,
                ..row
            });
            pair.push(risks);
        }
        let ratios = pair[0].iter().zip(&pair[1]).map(|(alone, all)| alone / all);
        path.push((n_rounds as f64, ratios.collect::<Vec<f64>>()));
    }
    let found: Vec<f64> = (0..path[0].1.len())
        .filter_map(|seed| crossing(path.iter().map(|(n, ratios)| (*n, ratios[seed]))))
        .collect();
    if !found.is_empty() {
        let metric = "rounds from which alone wins";
        let params = Map::from_iter([("lemma".to_owned(), json!(threshold))]);
        rows.push(Row::over_seeds(
            "threshold",
            Some(set_up.epsilon),
            params,
            metric,
            &found,
        ));
    }
    Ok(rows)
}

fn params(threshold: f64, n_rounds: usize) -> Map<String, Value> {
    let share = (n_rounds as f64 / threshold * 1e3).round() / 1e3;
    Map::from_iter([
        ("rounds".to_owned(), json!(n_rounds)),
        ("rounds_over_lemma".to_owned(), json!(share)),
    ])
}

/// Where the ratio of two risks falls below 1, by linear interpolation between logarithms.
fn crossing(path: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let path: Vec<(f64, f64)> = path.map(|(n, ratio)| (n.ln(), ratio.ln())).collect();
    let falls = path
        .windows(2)
        .find(|pair| pair[0].1 > 0.0 && pair[1].1 <= 0.0)?;
    let ((n, above), (m, below)) = (falls[0], falls[1]);
    Some((n + (m - n) * above / (above - below)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossing_lies_where_the_ratio_is_one() {
        let path = [(1.0, 4.0), (2.0, 2.0), (8.0, 0.5)];
        assert!((crossing(path.into_iter()).unwrap() - 4.0).abs() < 1e-12);
        assert!(crossing([(1.0, 0.5), (2.0, 0.2)].into_iter()).is_none());
        assert!(crossing([(1.0, 3.0), (2.0, 2.0)].into_iter()).is_none());
    }
}
