//! Errors on held-out rows of the users in training, and of users who joined later.

use dp_core::{Adjacency, ApproxDp, Private};
use dp_data::{SampleShares, SampleTable, SampleUser, SplitUser};
use dp_mechanism::{NoiseSource, Run, Trainer};
use dp_personalize::ConvexLoss;
use serde_json::{Map, Value, json};

use super::super::ReproduceArgs;
use super::super::report::Row;
use super::data::DataSet;
use dp_personal::error::Result;
use dp_personal::personal::{
    Baselines, Errors, Inputs, Method, MethodName, MethodSettings, Task, Users, errors_of_users,
    reserve_in_memory,
};

/// Well below the inverse of the number of users of either data set.
const DELTA: f64 = 1e-4;
const EPSILONS: [f64; 3] = [1.0, 5.0, 20.0];
const SHARES: SampleShares = SampleShares {
    test_rows: 0.2,
    held_out_users: 0.2,
};
/// Numbers of rows that a user learns from: a handful, and as many as there are.
const MAX_ROWS: [usize; 2] = [10, 256];
const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
/// Distance between the seeds of different repetitions.
const SEED_STRIDE: u64 = 1 << 20;

/// The task, the number of rows to learn from, and the method.
struct Cell {
    inputs: Inputs,
    max_rows: usize,
    settings: MethodSettings,
    label: &'static str,
}

/// Errors of one seed: for each kind of user, all methods.
type Measured = [[Errors; 7]; 2];

pub(super) fn rows(args: &ReproduceArgs, data: &DataSet) -> Result<Vec<Row>> {
    let table = data.read(args)?;
    let seeds: Vec<u64> = (0..args.seeds)
        .map(|seed| args.seed_base.wrapping_add(seed))
        .collect();
    let mut rows = Vec::new();
    let epsilons = if args.quick {
        &EPSILONS[1..2]
    } else {
        &EPSILONS
    };
    for cell in cells(data, args.quick) {
        for (at, &epsilon) in epsilons.iter().enumerate() {
            let by_seed = seeds
                .iter()
                .map(|&seed| cell.measure(&table, epsilon, seed));
            let by_seed = by_seed.collect::<Result<Vec<_>>>()?;
            rows.extend(cell.rows(epsilon, &by_seed, at == 0));
        }
    }
    Ok(rows)
}

fn cells(data: &DataSet, quick: bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    let max_rows = if quick { &MAX_ROWS[..1] } else { &MAX_ROWS };
    for &max_rows in max_rows {
        let penalties = vec![1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0];
        let inputs = data.inputs(Task::Regression, penalties);
        for (method, rank, label) in [
            (Method::Projectors, 1, "projectors, rank 1"),
            (Method::Projectors, 3, "projectors, rank 3"),
            (Method::Residual, 1, "residual, rank 1"),
        ] {
            cells.push(Cell {
                inputs: inputs.clone(),
                max_rows,
                settings: MethodSettings::new(method, rank, ConvexLoss::Squared),
                label,
            });
        }
        if let Some(threshold) = data.threshold {
            let task = Task::Classification { threshold };
            cells.push(Cell {
                inputs: data.inputs(task, vec![0.1]),
                max_rows,
                settings: MethodSettings::new(Method::Gradient, 2, ConvexLoss::Logistic),
                label: "gradient, rank 2, logistic",
            });
        }
    }
    cells
}

impl Cell {
    fn measure(&self, table: &SampleTable, epsilon: f64, seed: u64) -> Result<Measured> {
        let all = Private::new(table.users().expose().clone());
        let split = SHARES.split(all, self.inputs.features.len(), seed)?;
        let split: &[SplitUser] = split.expose();
        let users = |held_out: bool| {
            let mine = split.iter().filter(move |user| held_out || !user.held_out);
            let histories = mine.map(|user: &SplitUser| -> &SampleUser { &user.history });
            Users::new(&self.inputs, histories, self.max_rows)
        };
        let train = users(false)?;
        let mut noise = NoiseSource::insecure_seeded(seed.wrapping_mul(SEED_STRIDE));
        let target = ApproxDp::target(epsilon, DELTA)?;
        let fit = self.settings.check(&self.inputs)?;
        let plan = fit.plan(self.inputs.dim(), target, ADJACENCY)?;
        let run = Run::new(&plan, reserve_in_memory(&plan)?, &mut noise)?;
        let fitted = fit.run(train.samples(), run)?;
        let baselines = Baselines::new(&train, &fitted.model, None, &plan, seed, &mut noise)?;
        let errors = errors_of_users(&self.inputs, &users(true)?, split, &baselines)?;
        Ok([false, true].map(|held_out| Errors::of(&self.inputs, &errors, held_out)))
    }

    /// Rows of the private methods, and once for all epsilons the rows of the others.
    fn rows(&self, epsilon: f64, by_seed: &[Measured], with_others: bool) -> Vec<Row> {
        let mut rows = Vec::new();
        for (kind, users) in ["trained on", "held out"].into_iter().enumerate() {
            for (at, method) in MethodName::ALL.into_iter().enumerate() {
                let private = [MethodName::SingleModel, MethodName::Private].contains(&method);
                if !private && !with_others {
                    continue;
                }
                let values = by_seed.iter().filter_map(|m| m[kind][at].over_rows);
                let values: Vec<f64> = values.collect();
                if values.is_empty() {
                    continue; // no such users
                }
                let params = self.params(users);
                let metric = match self.inputs.metric() {
                    "RMSE" => "test RMSE",
                    _ => "test accuracy",
                };
                let epsilon = private.then_some(epsilon);
                rows.push(Row::over_seeds(
                    method.name(),
                    epsilon,
                    params,
                    metric,
                    &values,
                ));
            }
        }
        rows
    }

    fn params(&self, users: &str) -> Map<String, Value> {
        let rows = match self.max_rows {
            256 => json!("all"),
            few => json!(few),
        };
        Map::from_iter([
            ("users".to_owned(), json!(users)),
            ("rows".to_owned(), rows),
            ("subspace".to_owned(), json!(self.label)),
        ])
    }
}
