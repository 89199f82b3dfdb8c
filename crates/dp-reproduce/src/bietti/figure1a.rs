//! Figure 1a: excess risk against the ratio of global to local steps, on generated data.

use dp_accounting::{Budget, Ledger, gdp, usable_delta};
use dp_core::Adjacency;
use dp_data::{OffsetData, PersonalOffsets};
use dp_fedsgd::{
    AdditiveLoss, AdditiveModel, PpSgd, PpSgdModel, PpSgdParams, StreamedBatches, Trainer,
};
use dp_mechanism::NoiseSource;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::super::report::Row;
use super::super::{ReproduceArgs, sizes};
use dp_personal::error::{Error, Result};
use dp_personal::federated::alpha_value;

const ALPHAS: [f64; 7] = [0.0, 0.1, 0.3, 1.0, 3.0, 10.0, f64::INFINITY];
const NOISE_MULTIPLIERS: [f64; 3] = [0.0, 1.0, 10.0];
/// From this noise multiplier on, runs are paid for; below it, rounds are simulated in floating
/// point (decision 0029).
const PAYABLE: f64 = 10.0;
const CLIP_NORM: f64 = 10.0;
const BATCH_SIZE: usize = 10;
const DELTA: f64 = 1e-4;
const METRIC: &str = "excess risk";
/// Data sets on which step sizes are chosen have seeds from here on: no row uses them.
const TUNING: u64 = 1 << 32;

/// All settings except the seed.
struct SetUp {
    data: PersonalOffsets,
    rounds: Vec<usize>,
    noise_multipliers: Vec<f64>,
    steps: &'static [f64],
}

#[derive(Clone, Copy)]
struct Cell {
    noise_multiplier: f64,
    n_rounds: usize,
    alpha: f64,
}

pub(super) fn rows(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let set_up = SetUp::new(args)?;
    let mut rows: Vec<Row> = Vec::new();
    for cell in set_up.cells() {
        let known = cell.alone_at_less_noise(&rows);
        rows.push(match known {
            Some(mut row) => {
                row.params
                    .insert("sigma".to_owned(), json!(cell.noise_multiplier));
                row
            }
            None => cell.row(&set_up, args)?,
        });
    }
    Ok(rows)
}

impl SetUp {
    fn new(args: &ReproduceArgs) -> Result<Self> {
        let mut set_up = Self {
            data: PersonalOffsets::figure_1a(),
            rounds: vec![100, 1000],
            noise_multipliers: NOISE_MULTIPLIERS.to_vec(),
            steps: &[0.1, 0.2, 0.4, 0.7, 0.85, 1.0, 1.2, 1.4],
        };
        if args.quick {
            (set_up.data.n_users, set_up.data.dim) = (100, 20);
            (set_up.rounds, set_up.steps) = (vec![20, 100], &[0.4, 1.0]);
        }
        let known =
            "n_users, dim, n_personal, personal_stddev, label_noise, rounds, noise_multiplier";
        sizes::apply(&args.size, known, |key, value| {
            match key {
                "n_users" => set_up.data.n_users = sizes::whole(value),
                "dim" => set_up.data.dim = sizes::whole(value),
                "n_personal" => set_up.data.n_personal = sizes::whole(value),
                "personal_stddev" => set_up.data.personal_stddev = value,
                "label_noise" => set_up.data.label_noise = value,
                "noise_multiplier" => set_up.noise_multipliers = vec![value],
                "rounds" => set_up.rounds = vec![sizes::whole(value)],
                _ => return false,
            }
            true
        })?;
        Ok(set_up)
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &noise_multiplier in &self.noise_multipliers {
            for &n_rounds in &self.rounds {
                cells.extend(ALPHAS.map(|alpha| Cell {
                    noise_multiplier,
                    n_rounds,
                    alpha,
                }));
            }
        }
        cells
    }
}

/// Generated data of one seed.
pub(super) fn generate(set_up: &PersonalOffsets, seed: u64) -> Result<OffsetData> {
    let made = set_up.generate(&mut ChaCha20Rng::seed_from_u64(seed));
    made.map_err(|error| match error {
        // a size out of range is an argument error, not a file error
        dp_data::Error::Param(param) => param.into(),
        other => Error::from(other),
    })
}

impl Cell {
    /// Learning alone releases nothing: its row is the same for every noise.
    fn alone_at_less_noise(self, rows: &[Row]) -> Option<Row> {
        let same = |row: &&Row| {
            row.params["rounds"] == json!(self.n_rounds) && row.params["alpha_q"] == json!(0.0)
        };
        (self.alpha <= 0.0)
            .then(|| rows.iter().find(same).cloned())
            .flatten()
    }

    fn row(self, set_up: &SetUp, args: &ReproduceArgs) -> Result<Row> {
        // short runs are cheap: use the mean over three data sets, except for a quick look
        let n_tuning = if self.n_rounds > 100 || args.quick {
            1
        } else {
            3
        };
        let first = args.seed_base.wrapping_add(TUNING);
        let tuning: Vec<u64> = (0..n_tuning).map(|s| first.wrapping_add(s)).collect();
        let step = self.best_step(set_up, &tuning)?;
        let seeds: Vec<u64> = (0..args.seeds)
            .map(|s| args.seed_base.wrapping_add(s))
            .collect();
        let risks = seeds
            .par_iter()
            .map(|&seed| self.risk(set_up, step, seed))
            .collect::<Result<Vec<f64>>>()?;
        let epsilon = self.epsilon(Adjacency::AddRemoveUser);
        let row = Row::over_seeds("ppsgd", epsilon, self.params(step), METRIC, &risks);
        // step size chosen by the true risk on other data sets from the same distribution
        Ok(Row {
            tuned_on_truth: true,
            ..row
        })
    }

    fn best_step(self, set_up: &SetUp, seeds: &[u64]) -> Result<f64> {
        let mut best = (f64::INFINITY, 0.0);
        for &step in set_up.steps {
            let risks = seeds
                .par_iter()
                .map(|&seed| self.risk(set_up, step, seed))
                .collect::<Result<Vec<f64>>>()?;
            let sum: f64 = risks.iter().sum();
            if sum < best.0 {
                best = (sum, step);
            }
        }
        Ok(best.1)
    }

    /// Exact epsilon of all rounds, rounded up; none where nothing is protected or nothing is
    /// released.
    fn epsilon(self, adjacency: Adjacency) -> Option<f64> {
        let factor = if adjacency.is_replace() { 2.0 } else { 1.0 };
        let mu = factor * (self.n_rounds as f64).sqrt() / self.noise_multiplier;
        let is_private = self.noise_multiplier > 0.0 && self.alpha > 0.0;
        is_private.then(|| (gdp::epsilon(mu, usable_delta(DELTA)) * 1e2).ceil() / 1e2)
    }

    fn params(self, step: f64) -> Map<String, Value> {
        let mut params = Map::from_iter([
            ("sigma".to_owned(), json!(self.noise_multiplier)),
            ("rounds".to_owned(), json!(self.n_rounds)),
            ("alpha_q".to_owned(), alpha_value(self.alpha)),
            ("step".to_owned(), json!(step)),
        ]);
        if let Some(epsilon) = self.epsilon(Adjacency::ReplaceUser) {
            params.insert("epsilon_replace".to_owned(), json!(epsilon));
        }
        params
    }

    fn risk(self, set_up: &SetUp, step: f64, seed: u64) -> Result<f64> {
        let data = generate(&set_up.data, seed)?;
        let model = self.fit(set_up, &data, step, seed)?;
        let own = model.local.expose();
        Ok(data.excess_risk(|user, theta| {
            let both = model.shared.last().iter().zip(own.last(user));
            let sums = theta.iter_mut().zip(both);
            sums.for_each(|(theta, (w, own))| *theta = w + own);
        }))
    }

    fn fit(self, set_up: &SetUp, data: &OffsetData, step: f64, seed: u64) -> Result<PpSgdModel> {
        let dim = set_up.data.dim;
        let model = AdditiveModel::new(AdditiveLoss::Squared, dim)?;
        let batches = StreamedBatches::new(&data.table, dim, |user, step, out| {
            data.rows(user, step, BATCH_SIZE, out.cells_mut());
        });
        let n_users = set_up.data.n_users as f64;
        let fit: PpSgd =
            PpSgdParams::new(self.alpha, step, CLIP_NORM, self.n_rounds, n_users).check()?;
        let z = self.noise_multiplier;
        if z < PAYABLE || !fit.releases() {
            let rng = &mut ChaCha20Rng::seed_from_u64(seed);
            return Ok(fit.simulate(&model, &batches, z, rng)?);
        }
        let adjacency = Adjacency::AddRemoveUser;
        let plan = fit.plan_with_noise(dim, z, DELTA, adjacency)?;
        let budget = Budget::new(plan.target(), adjacency)?;
        let spends = Ledger::in_memory("made data", budget)?.reserve(&plan)?;
        let noise = &mut NoiseSource::insecure_seeded(seed);
        Ok(fit.with(&model).fit(&batches, &plan, spends, noise)?.model)
    }
}
