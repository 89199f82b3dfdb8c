//! `krichene2023-appendix-c`: regression tasks with skewed sizes.

use dp_core::{Adjacency, Interactions};
use dp_data::{SkewedTasks, TaskData, rmse};
use dp_mechanism::NoiseSource;
use dp_multitask::{
    BudgetAllocation, MultiTaskNoisyGdParams, MultiTaskSspParams, Provenance, ResidualSspParams,
    TaskCounts, TaskModels, TaskSetup, Trainer as _,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use serde_json::{Map, json};

use super::calibration::{Accounting, pay};
use super::report::Row;
use super::{ReproduceArgs, sizes};
use dp_personal::error::{Error, Result};

const SKEWS: [f64; 2] = [1.0, 2.0];
const EXPONENTS: [f64; 4] = [0.0, 0.25, 0.5, 1.0];
const EPSILONS: [f64; 3] = [1.0, 5.0, 20.0];
const MADE: &str = "made data";
const METRIC: &str = "test RMSE";
/// Distance between the seeds of different repetitions.
const SEED_STRIDE: u64 = 1 << 20;

#[derive(Clone, Copy)]
enum Method {
    Ssp,
    NoisyGd,
    Residual,
}

#[derive(Clone, Copy)]
struct Cell {
    method: Method,
    epsilon: f64,
    exponent: f64,
    accounting: Accounting,
}

pub(super) fn run(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for skew in SKEWS {
        let set_up = set_up(args, skew)?;
        let seeds: Vec<u64> = (0..args.seeds)
            .map(|s| args.seed_base.wrapping_add(s))
            .collect();
        let by_seed: Vec<Measured> = seeds
            .par_iter()
            .map(|&seed| Measured::new(&set_up, seed))
            .collect::<Result<_>>()?;
        rows.extend(rows_of(skew, &by_seed)?);
    }
    Ok(rows)
}

fn set_up(args: &ReproduceArgs, skew: f64) -> Result<SkewedTasks> {
    let mut set_up = SkewedTasks::appendix_c(skew);
    if args.quick {
        set_up.n_users = 1_000;
    }
    let known = "n_users, n_tasks, dim, tasks_per_user, label_noise";
    sizes::apply(&args.size, known, |key, value| {
        match key {
            "n_users" => set_up.n_users = sizes::whole(value),
            "n_tasks" => set_up.n_tasks = sizes::whole(value),
            "dim" => set_up.dim = sizes::whole(value),
            "tasks_per_user" => set_up.tasks_per_user = value,
            "label_noise" => set_up.label_noise = value,
            _ => return false,
        }
        true
    })?;
    Ok(set_up)
}

/// All private cells, in the order of the rows.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for accounting in [Accounting::Closed, Accounting::Gdp] {
        for epsilon in EPSILONS {
            for method in [Method::Ssp, Method::NoisyGd, Method::Residual] {
                for exponent in EXPONENTS {
                    cells.push(Cell {
                        method,
                        epsilon,
                        exponent,
                        accounting,
                    });
                }
            }
        }
    }
    cells
}

/// Results of one seed.
struct Measured {
    zero: f64,
    non_private: f64,
    private: Vec<f64>,
}

impl Measured {
    fn new(set_up: &SkewedTasks, seed: u64) -> Result<Self> {
        let data = set_up
            .generate(&mut ChaCha20Rng::seed_from_u64(seed))
            .map_err(size_error)?;
        let n = data.train.expose().n_items() * set_up.dim;
        let zero = TaskModels::new(set_up.dim, vec![0.0; n], Provenance::NonPrivate)?;
        let ridge = TaskModels::non_private_ridge(&data.train, 1e-6)?;
        let counts = counts(data.train.expose());
        let private = (0..).zip(cells()).map(|(at, cell)| {
            let noise =
                NoiseSource::insecure_seeded(seed.wrapping_mul(SEED_STRIDE).wrapping_add(at));
            cell.measure(set_up.dim, &data, &counts, noise)
        });
        Ok(Self {
            zero: test_rmse(&zero, &data)?,
            non_private: test_rmse(&ridge, &data)?,
            private: private.collect::<Result<_>>()?,
        })
    }
}

/// A size out of range is an argument error, not a file error.
fn size_error(error: dp_data::Error) -> Error {
    match error {
        dp_data::Error::Param(param) => param.into(),
        other => other.into(),
    }
}

/// Number of training users of each task, public in this set-up as in the paper.
fn counts(train: &Interactions) -> Vec<f64> {
    (0..train.n_items())
        .map(|task| train.item_major().item(task).len() as f64)
        .collect()
}

fn test_rmse(model: &TaskModels, data: &TaskData) -> Result<f64> {
    let users = data.test.expose().users();
    Ok(rmse(users.flat_map(|row| {
        model.predict_user(row).collect::<Vec<_>>()
    }))?)
}

impl Cell {
    fn measure(
        self,
        dim: usize,
        data: &TaskData,
        counts: &[f64],
        mut noise: NoiseSource,
    ) -> Result<f64> {
        let public = TaskCounts::Public {
            values: counts.to_vec(),
        };
        let setup = TaskSetup {
            allocation: BudgetAllocation::adaptive(self.exponent, public),
            ..TaskSetup::unit_ball(dim)
        };
        let (target, train) = (self.accounting.target(self.epsilon)?, &data.train);
        let n_tasks = counts.len();
        let adjacency = Adjacency::AddRemoveUser;
        let fitted = match self.method {
            Method::Ssp => {
                let fit = MultiTaskSspParams::new(setup).check()?;
                let plan = fit.plan(n_tasks, target, adjacency)?;
                fit.fit(train, &plan, pay(&plan, MADE)?, &mut noise)?
            }
            Method::NoisyGd => {
                let fit = MultiTaskNoisyGdParams::new(setup).check()?;
                let plan = fit.plan(n_tasks, target, adjacency)?;
                fit.fit(train, &plan, pay(&plan, MADE)?, &mut noise)?
            }
            Method::Residual => {
                let fit = ResidualSspParams::new(setup).check()?;
                let plan = fit.plan(n_tasks, target, adjacency)?;
                fit.fit(train, &plan, pay(&plan, MADE)?, &mut noise)?
            }
        };
        test_rmse(&fitted.model, data)
    }

    const fn name(self) -> &'static str {
        match self.method {
            Method::Ssp => "ssp",
            Method::NoisyGd => "noisy-gd",
            Method::Residual => "residual",
        }
    }
}

fn rows_of(skew: f64, by_seed: &[Measured]) -> Result<Vec<Row>> {
    let of = |pick: &dyn Fn(&Measured) -> f64| by_seed.iter().map(pick).collect::<Vec<_>>();
    let baseline = |method, values: &[f64]| {
        let params = Map::from_iter([("a".to_owned(), json!(skew))]);
        Row::over_seeds(method, None, params, METRIC, values)
    };
    let mut rows = vec![
        baseline("non-private", &of(&|m| m.non_private)),
        baseline("zero", &of(&|m| m.zero)),
    ];
    for (at, cell) in cells().into_iter().enumerate() {
        let accounting = match cell.accounting {
            Accounting::Closed => "closed",
            Accounting::Gdp => "gdp",
        };
        let true_epsilon = cell.accounting.true_epsilon(cell.epsilon)?;
        let params = Map::from_iter([
            ("a".to_owned(), json!(skew)),
            ("mu".to_owned(), json!(cell.exponent)),
            ("accounting".to_owned(), json!(accounting)),
            ("true_epsilon".to_owned(), json!(true_epsilon)),
        ]);
        let values = of(&|m| m.private[at]);
        rows.push(Row::over_seeds(
            cell.name(),
            Some(cell.epsilon),
            params,
            METRIC,
            &values,
        ));
    }
    Ok(rows)
}
