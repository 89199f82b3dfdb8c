//! `krichene2024-synthetic`: all methods by number of features and epsilon.

use dp_data::GeneratedLabels;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::super::ReproduceArgs;
use super::super::report::Row;
use super::methods::Method;
use super::set_up::{SetUp, SyntheticData};
use dp_personal::error::Result;

const METHODS: [Method; 7] = [
    Method::Zero,
    Method::SspC,
    Method::SspCSteps,
    Method::SspI,
    Method::DpSgd,
    Method::NoisyGd,
    Method::Best,
];
const RISK: &str = "excess risk per example";
const LOGISTIC: &str = "excess logistic risk per example";
/// Scales of logits, and numbers of approximations of the logistic loss.
const SCALES: [f64; 2] = [4.0, 8.0];
const APPROXIMATIONS: [usize; 2] = [1, 3];
/// Number of features in the rows for the logistic loss; if it is not selected, the last selected
/// number.
const LOGISTIC_FEATURES: usize = 2000;
/// Distance between the seeds of different repetitions.
const SEED_STRIDE: u64 = 1 << 20;

/// Results of an independent implementation on the same data.
struct Known {
    n_features: usize,
    epsilon: f64,
    ssp_c: f64,
    ssp_i: Option<f64>,
    noisy_gd: f64,
    best: f64,
}

const TARGETS: [Known; 5] = [
    Known {
        n_features: 500,
        epsilon: 5.0,
        ssp_c: 0.0092,
        ssp_i: Some(0.0101),
        noisy_gd: 0.0031,
        best: 0.0029,
    },
    Known {
        n_features: 2000,
        epsilon: 5.0,
        ssp_c: 0.0102,
        ssp_i: Some(0.0108),
        noisy_gd: 0.0035,
        best: 0.0036,
    },
    Known {
        n_features: 8000,
        epsilon: 5.0,
        ssp_c: 0.0107,
        ssp_i: Some(0.0112),
        noisy_gd: 0.0037,
        best: 0.0037,
    },
    Known {
        n_features: 2000,
        epsilon: 1.0,
        ssp_c: 0.0231,
        ssp_i: None,
        noisy_gd: 0.0127,
        best: 0.0175,
    },
    Known {
        n_features: 2000,
        epsilon: 20.0,
        ssp_c: 0.0027,
        ssp_i: None,
        noisy_gd: 0.0019,
        best: 0.00046,
    },
];
/// Epsilon and risk of the same for one approximation of the logistic loss. Its scale of logits is
/// not known; compared with the first of the scales.
const LOGISTIC_TARGETS: [(f64, f64); 3] = [(1.0, 0.131), (5.0, 0.073), (20.0, 0.027)];

/// A cell of the table on a data set.
#[derive(Clone, Copy)]
struct Cell {
    method: Method,
    epsilon: f64,
}

pub(super) fn rows(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let set_up = SetUp::new(args)?;
    let mut rows = Vec::new();
    for &p in &set_up.n_features {
        let cells = cells(&METHODS, &set_up);
        let table = Table {
            set_up: &set_up,
            n_features: p,
            labels: None,
        };
        rows.extend(table.rows(args, &cells)?);
    }
    let known = set_up.n_features.contains(&LOGISTIC_FEATURES);
    let last = set_up.n_features.last().copied();
    let n_features = if known {
        LOGISTIC_FEATURES
    } else {
        last.unwrap_or(1)
    };
    for scale in SCALES {
        let of = |n_steps| Method::Convex { n_steps, scale };
        let methods = [&[Method::Zero], APPROXIMATIONS.map(of).as_slice()].concat();
        let table = Table {
            set_up: &set_up,
            n_features,
            labels: Some(GeneratedLabels::Signs { scale }),
        };
        rows.extend(table.rows(args, &cells(&methods, &set_up))?);
    }
    Ok(rows)
}

/// The zero model once, all other methods at every epsilon.
fn cells(methods: &[Method], set_up: &SetUp) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (at, &epsilon) in set_up.epsilons.iter().enumerate() {
        let here = methods.iter().filter(|m| at == 0 || **m != Method::Zero);
        cells.extend(here.map(|&method| Cell { method, epsilon }));
    }
    cells
}

struct Table<'a> {
    set_up: &'a SetUp,
    n_features: usize,
    /// Labels that replace those of the set-up.
    labels: Option<GeneratedLabels>,
}

impl Table<'_> {
    /// Rows of all cells, each over all seeds.
    fn rows(&self, args: &ReproduceArgs, cells: &[Cell]) -> Result<Vec<Row>> {
        let seeds = (0..args.seeds).map(|s| args.seed_base.wrapping_add(s));
        let seeds: Vec<u64> = seeds.collect();
        let measure = |seed: &u64| {
            let made = self.set_up.make(self.n_features, self.labels, *seed)?;
            risks(&made, cells, *seed)
        };
        let by_seed: Vec<Vec<f64>> = seeds.par_iter().map(measure).collect::<Result<_>>()?;
        let rows = cells.iter().enumerate().map(|(at, cell)| {
            let values: Vec<f64> = by_seed.iter().map(|of_seed| of_seed[at]).collect();
            self.row(*cell, &values)
        });
        Ok(rows.collect())
    }

    fn row(&self, cell: Cell, risks: &[f64]) -> Row {
        let Cell { method, epsilon } = cell;
        let metric = match self.labels {
            Some(GeneratedLabels::Signs { .. }) => LOGISTIC,
            _ => RISK,
        };
        let zero = method == Method::Zero;
        let epsilon = (!zero).then_some(epsilon);
        let row = Row::over_seeds(method.name(), epsilon, self.params(cell), metric, risks);
        Row {
            tuned_on_truth: !zero,
            ..row
        }
    }

    fn params(&self, cell: Cell) -> Map<String, Value> {
        let mut params = Map::from_iter([("n_features".to_owned(), json!(self.n_features))]);
        if let Some(GeneratedLabels::Signs { scale }) = self.labels {
            params.insert("logit_scale".to_owned(), json!(scale));
        }
        if let Method::Convex { n_steps, .. } = cell.method {
            params.insert("approximations".to_owned(), json!(n_steps));
        }
        if let Some(target) = self.target(cell) {
            params.insert("target".to_owned(), json!(target));
        }
        params
    }

    /// The reference value of a cell, at the full sizes.
    fn target(&self, Cell { method, epsilon }: Cell) -> Option<f64> {
        let near = |other: f64| (other - epsilon).abs() < 1e-9;
        if !self.set_up.is_whole() {
            return None;
        }
        if let Method::Convex { n_steps, scale } = method {
            if n_steps > 1 || scale > SCALES[0] {
                return None;
            }
            let mut known = LOGISTIC_TARGETS.into_iter();
            return known.find(|(e, _)| near(*e)).map(|(_, risk)| risk);
        }
        let mut known = TARGETS.iter();
        let of = known.find(|of| of.n_features == self.n_features && near(of.epsilon))?;
        match method {
            Method::SspC => Some(of.ssp_c),
            Method::SspI => of.ssp_i,
            Method::NoisyGd => Some(of.noisy_gd),
            Method::Best => Some(of.best),
            _ => None,
        }
    }
}

fn risks(made: &SyntheticData, cells: &[Cell], seed: u64) -> Result<Vec<f64>> {
    let each = (0..).zip(cells).map(|(at, cell)| {
        let noise = seed.wrapping_mul(SEED_STRIDE).wrapping_add(at);
        cell.method.risk(made, cell.epsilon, noise)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_belong_to_their_cells_and_to_the_full_sizes() {
        let args = |size: &[&str]| ReproduceArgs {
            name: None,
            list: false,
            seeds: 1,
            seed_base: 0,
            size: size.iter().map(|s| (*s).to_owned()).collect(),
            quick: false,
            data: None,
            plot: None,
            rows: None,
            json: false,
        };
        let target = |size: &[&str], method, epsilon| {
            let set_up = SetUp::new(&args(size)).unwrap();
            let table = Table {
                set_up: &set_up,
                n_features: 2000,
                labels: None,
            };
            table.target(Cell { method, epsilon })
        };
        assert_eq!(target(&[], Method::Best, 20.0), Some(0.00046));
        assert_eq!(target(&[], Method::SspC, 1.0), Some(0.0231));
        assert_eq!(target(&[], Method::SspI, 1.0), None);
        assert_eq!(target(&[], Method::DpSgd, 5.0), None);
        assert_eq!(target(&["epsilon=5"], Method::NoisyGd, 5.0), Some(0.0035));
        assert_eq!(target(&["n_users=4999"], Method::NoisyGd, 5.0), None);
        let of = |n_steps, scale| target(&[], Method::Convex { n_steps, scale }, 5.0);
        assert_eq!(
            (of(1, 4.0), of(1, 8.0), of(3, 4.0)),
            (Some(0.073), None, None)
        );
    }
}
