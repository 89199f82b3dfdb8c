//! The trade-off of figure 2 on real data: test error against epsilon, by alpha.

mod measured;

use dp_core::{ApproxDp, Private};
use dp_data::{Ratings, RatingsFormat, SampleTable};
use dp_fedsgd::PpSgdModel;
use dp_mechanism::{Grid, NoiseSource, VectorSum};
use dp_multitask::CountContribution;
use serde_json::{Map, Value, json};

use self::measured::Measured;
use crate::ReproduceArgs;
use crate::data_file::data_file;
use crate::groups::data::{DataSet, PARKINSONS, SCHOOL};
use crate::report::Row;
use dp_personal::error::{Error, Result};
use dp_personal::federated::{
    HoldOut, ItemTable, Parts, RunSettings, Spending, Trainer, alpha_value,
};
use dp_personal::personal::{Column, Inputs, Intercept, Task};

const ALPHAS: [f64; 7] = [0.0, 0.1, 0.3, 1.0, 3.0, 10.0, f64::INFINITY];
const EPSILONS: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 20.0];
const N_ROUNDS: usize = 50;
const MAX_ROWS: usize = 256;
const METRIC: &str = "test RMSE";
/// Alphas are compared on a separate part of the rows.
const SHARES: HoldOut = HoldOut {
    test: 0.2,
    validation: 0.2,
    held_out_users: 0.0,
};
/// Distance between the seeds of different repetitions.
const SEED_STRIDE: u64 = 1 << 20;

/// The kinds of data sets.
enum Data {
    Rows(Box<(SampleTable, Inputs)>),
    Ratings(Box<(Ratings, ItemTable)>),
}

struct Named {
    name: &'static str,
    /// Well below the inverse of the number of users.
    delta: f64,
    n_rounds: usize,
    data: Data,
}

pub(super) fn rows(args: &ReproduceArgs) -> Result<Vec<Row>> {
    if !args.size.is_empty() {
        let message = "--size: the sizes are those of the data sets under --data";
        return Err(Error::Usage(message.to_owned()));
    }
    let mut rows = Vec::new();
    for named in data_sets(args)? {
        let epsilons: Vec<Option<f64>> = if args.quick {
            vec![None, Some(5.0)]
        } else {
            [None].into_iter().chain(EPSILONS.map(Some)).collect()
        };
        for epsilon in epsilons {
            let seeds = (0..args.seeds).map(|s| args.seed_base.wrapping_add(s));
            let by_seed = seeds.map(|seed| named.measure(epsilon, seed));
            let by_seed = by_seed.collect::<Result<Vec<_>>>()?;
            rows.extend(named.rows(epsilon, &by_seed));
        }
    }
    Ok(rows)
}

/// The data sets that are present; at least one must be.
fn data_sets(args: &ReproduceArgs) -> Result<Vec<Named>> {
    let mut found = Vec::new();
    let n_rounds = if args.quick { 5 } else { N_ROUNDS };
    for set in [&SCHOOL, &PARKINSONS] {
        if set.is_there(args) {
            found.push(Named {
                name: set.folder,
                delta: 1e-4,
                n_rounds,
                data: Data::Rows(Box::new((set.read(args)?, inputs_of(set)))),
            });
        }
    }
    let ratings = data_file(args, "ml-1m", &["ratings.csv.gz", "ratings.csv"]);
    let items = data_file(args, "ml-1m", &["items.tsv.gz", "items.tsv"]);
    match (ratings, items) {
        (Ok(ratings), Ok(items)) => {
            let items = ItemTable::read(&items)?;
            let catalogue = items.catalogue().clone();
            let format = RatingsFormat::default();
            let ratings = dp_data::read_ratings_with_catalogue(&ratings, &format, catalogue)?;
            found.push(Named {
                name: "ml-1m",
                delta: 1e-5,
                n_rounds,
                data: Data::Ratings(Box::new((ratings, items))),
            });
        }
        (Err(error), _) | (_, Err(error)) if found.is_empty() => return Err(error),
        _ => {}
    }
    Ok(found)
}

/// Includes a shared intercept, to which users add their own.
fn inputs_of(set: &DataSet) -> Inputs {
    Inputs {
        intercept: Intercept::Shared,
        ..set.inputs(Task::Regression, vec![1.0])
    }
}

impl Named {
    fn measure(&self, epsilon: Option<f64>, seed: u64) -> Result<Measured> {
        let noise = &mut NoiseSource::insecure_seeded(seed.wrapping_mul(SEED_STRIDE));
        let target = epsilon.map(|epsilon| ApproxDp::target(epsilon, self.delta));
        let target = target.transpose()?;
        let (table, inputs, norm_squared) = match &self.data {
            Data::Rows(rows) => {
                let (table, inputs) = rows.as_ref();
                (copied(table), inputs.clone(), inputs.dim() as f64)
            }
            Data::Ratings(rated) => self.rated(&rated.0, &rated.1, target, noise)?,
        };
        let settings = RunSettings {
            n_rounds: self.n_rounds,
            learning_rate: 1.0 / norm_squared,
            clip_norm: 1.0,
            shrink: None,
            batch_size: MAX_ROWS,
            sampling_probability: None,
        };
        let parts = Parts::new(&inputs, table, SHARES, MAX_ROWS, seed)?;
        // used as the declared number
        let n_users = parts.trained.users().len().max(1) as f64;
        let trainer = Trainer::new(settings, &inputs, &parts, n_users)?;
        let spending = self.spending(settings);
        let mut runs: Vec<PpSgdModel> = Vec::new();
        for alpha in ALPHAS {
            runs.push(match target {
                Some(target) if alpha > 0.0 => {
                    let plan = spending.plan(inputs.dim(), target)?;
                    let z = Spending::round_noise(&plan).unwrap_or(1.0);
                    let mut paid = spending.divide(spending.reserve_in_memory(&plan)?);
                    let spends = paid.runs.pop().unwrap_or_default();
                    trainer
                        .private(alpha, z, target.delta, spends, noise, &mut ())?
                        .0
                }
                _ => trainer.without_noise(alpha)?,
            });
        }
        Measured::of(&inputs, &parts.trained, &runs)
    }

    /// The releases of one run; item ratings are counted within its budget.
    fn spending(&self, settings: RunSettings) -> Spending {
        Spending {
            settings,
            alphas: vec![1.0],
            counts_users: false,
            n_items: match &self.data {
                Data::Rows(_) => None,
                Data::Ratings(rated) => Some(rated.1.catalogue().len()),
            },
            choice: None,
            has_votes: false,
        }
    }

    /// Rows of rated items, with popularity features from counts released within the budget of a
    /// run, or from exact counts without one.
    fn rated(
        &self,
        ratings: &Ratings,
        items: &ItemTable,
        target: Option<ApproxDp>,
        noise: &mut NoiseSource,
    ) -> Result<(Private<Vec<dp_data::SampleUser>>, Inputs, f64)> {
        let column = |name: String| Column { name, range: None };
        let inputs = Inputs {
            target: Column {
                name: "rating".to_owned(),
                range: Some([1.0, 5.0]),
            },
            features: items.names().into_iter().map(column).collect(),
            intercept: Intercept::Shared,
            task: Task::Regression,
            l2_penalties: vec![1.0],
            sparse: 0,
        };
        let (n_items, table) = (items.catalogue().len(), ratings.interactions());
        let counts = match target {
            None => (0..n_items)
                .map(|item| table.expose().item_major().item(item).len() as f64)
                .collect(),
            Some(target) => {
                // the counts cost the same share whatever the cost of a round
                let spending = self.spending(RunSettings {
                    n_rounds: 1,
                    learning_rate: 1.0,
                    clip_norm: 1.0,
                    shrink: None,
                    batch_size: 1,
                    sampling_probability: None,
                });
                let plan = spending.plan(inputs.dim(), target)?;
                let paid = spending.divide(spending.reserve_in_memory(&plan)?);
                let Some(spend) = paid.items else {
                    return Err(Error::Usage("no counts of items".to_owned()));
                };
                let grid = Grid::new(spend.noise_multiplier()?, 1.0);
                let votes = CountContribution::new(1.0)?;
                let counted = |grid| VectorSum::accumulate(table, n_items, grid, &votes);
                let released = grid
                    .and_then(counted)
                    .and_then(|sum| sum.release(spend, noise));
                released.map_err(dp_multitask::Error::from)?.values()
            }
        };
        let rows = items.described(&counts).rows_of(ratings)?;
        Ok((rows.into_users(), inputs, items.largest() + 1.0))
    }

    fn rows(&self, epsilon: Option<f64>, by_seed: &[Measured]) -> Vec<Row> {
        let of = |pick: &dyn Fn(&Measured) -> f64| by_seed.iter().map(pick).collect::<Vec<_>>();
        let mut rows = Vec::new();
        for (at, alpha) in ALPHAS.into_iter().enumerate() {
            if alpha <= 0.0 && epsilon.is_some() && !self.counts_items() {
                continue; // the same as without noise
            }
            let params = self.params(Some(alpha));
            let values = of(&|m| m.by_alpha[at]);
            rows.push(Row::over_seeds("ppsgd", epsilon, params, METRIC, &values));
        }
        for (method, values) in [
            ("validated", of(&|m| m.selected)),
            ("own-choice", of(&|m| m.own_choice)),
        ] {
            rows.push(Row::over_seeds(
                method,
                epsilon,
                self.params(None),
                METRIC,
                &values,
            ));
        }
        if epsilon.is_none() {
            let values = of(&|m| m.own_ridge);
            rows.push(Row::over_seeds(
                "own-ridge",
                None,
                self.params(None),
                METRIC,
                &values,
            ));
        }
        rows
    }

    /// Whether features cost budget, so that learning alone does too.
    const fn counts_items(&self) -> bool {
        matches!(self.data, Data::Ratings(_))
    }

    fn params(&self, alpha: Option<f64>) -> Map<String, Value> {
        let mut params = Map::from_iter([
            ("data".to_owned(), json!(self.name)),
            ("rounds".to_owned(), json!(self.n_rounds)),
        ]);
        if let Some(alpha) = alpha {
            params.insert("alpha_q".to_owned(), alpha_value(alpha));
        }
        params
    }
}

fn copied(table: &SampleTable) -> Private<Vec<dp_data::SampleUser>> {
    Private::new(table.users().expose().clone())
}
