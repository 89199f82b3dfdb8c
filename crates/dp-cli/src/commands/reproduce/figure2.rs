//! `jain2021-figure2`: linear regressions whose coefficients share a subspace.

use dp_accounting::{Budget, Ledger, Plan, Spend, usable_delta};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{SharedSubspace, SubspaceData};
use dp_mechanism::NoiseSource;
use dp_personalize::{
    AltMin, AltMinParams, Candidates, ExponentialSelectionParams, GroundTruth, Initialisation,
    LocalFit, NonPrivateAltMin, Provenance, ResidualAltMinParams, SelectionLoss, SingleModel,
    SingleModelParams, Subspace, own_data_model, zero_model,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde_json::{Map, Value, json};

use super::report::Row;
use super::{ReproduceArgs, sizes};
use crate::error::{Error, Result};

const DELTA: f64 = 1e-6;
const EPSILONS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
const METRIC: &str = "population MSE";
/// Decay of the feature variances in the non-isotropic check.
const DECAY: f64 = 0.5;
/// Seeds of data and noise are this far apart.
const SEED_STRIDE: u64 = 1 << 20;

/// How epsilon becomes noise, and for which neighbours.
#[derive(Clone, Copy, PartialEq)]
enum Accounting {
    /// The paper's `rho = epsilon^2 / (8 ln(1/delta))`. Its true epsilon is smaller.
    ClosedReplace,
    GdpReplace,
    GdpAddRemove,
}

const ACCOUNTINGS: [Accounting; 3] = [
    Accounting::ClosedReplace,
    Accounting::GdpReplace,
    Accounting::GdpAddRemove,
];

#[derive(Clone, Copy)]
enum Method {
    /// Algorithms 1 to 3 with settings of the paper; matrices by copied triangles or isometric.
    Paper {
        isometric: bool,
    },
    /// The projector sum alone, in the place of Algorithms 1 to 3.
    Projectors,
    Best,
    SingleModel,
}

#[derive(Clone, Copy)]
struct Cell {
    method: Method,
    epsilon: f64,
    accounting: Accounting,
    decay: f64,
}

pub(super) fn run(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let set_up = set_up(args)?;
    let mut by_seed = Vec::new();
    for seed in (0..args.seeds).map(|s| args.seed_base.wrapping_add(s)) {
        by_seed.push(Measured::new(&set_up, args.quick, seed)?);
    }
    rows_of(&by_seed)
}

fn set_up(args: &ReproduceArgs) -> Result<SharedSubspace> {
    let mut set_up = SharedSubspace::section_6();
    if args.quick {
        (set_up.n_users, set_up.dim) = (2_000, 12);
    }
    let known = "n_users, rows_per_user, dim, rank, label_noise";
    sizes::apply(&args.size, known, |key, value| {
        match key {
            "n_users" => set_up.n_users = sizes::whole(value),
            "rows_per_user" => set_up.rows_per_user = sizes::whole(value),
            "dim" => set_up.dim = sizes::whole(value),
            "rank" => set_up.rank = sizes::whole(value),
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
    for accounting in ACCOUNTINGS {
        let methods = [
            Method::Paper { isometric: false },
            Method::Paper { isometric: true },
            Method::Projectors,
            Method::Best,
            Method::SingleModel,
        ];
        for method in methods {
            for epsilon in EPSILONS {
                cells.push(Cell {
                    method,
                    epsilon,
                    accounting,
                    decay: 0.0,
                });
            }
        }
    }
    let best = |epsilon, accounting, decay| Cell {
        method: Method::Best,
        epsilon,
        accounting,
        decay,
    };
    cells.push(best(0.05, Accounting::GdpReplace, 0.0));
    cells.push(best(0.25, Accounting::GdpAddRemove, 0.0));
    cells.push(best(1.0, Accounting::ClosedReplace, DECAY));
    cells.push(best(0.25, Accounting::GdpAddRemove, DECAY));
    cells
}

/// What one seed gave.
struct Measured {
    /// Name, decay of the features, value.
    baselines: Vec<(&'static str, f64, f64)>,
    private: Vec<f64>,
    /// Squared distance of the subspace that the exponential mechanism selected, per neighbours.
    selected: [f64; 2],
}

impl Measured {
    fn new(set_up: &SharedSubspace, quick: bool, seed: u64) -> Result<Self> {
        let (mut baselines, mut private) = (Vec::new(), Vec::new());
        for decay in [0.0, DECAY] {
            let set_up = SharedSubspace {
                feature_decay: decay,
                ..*set_up
            };
            let data = generate(&set_up, seed)?;
            baselines.extend(measure_baselines(&set_up, &data)?);
            for (at, cell) in (0..).zip(cells()) {
                if cell.decay.total_cmp(&decay).is_eq() {
                    let seed = seed.wrapping_mul(SEED_STRIDE).wrapping_add(at);
                    private.push(cell.measure(
                        &set_up,
                        &data,
                        NoiseSource::insecure_seeded(seed),
                    )?);
                }
            }
        }
        let selected = [Adjacency::AddRemoveUser, Adjacency::ReplaceUser];
        let [add, replace] = selected.map(|adjacency| select(adjacency, quick, seed));
        Ok(Self {
            baselines,
            private,
            selected: [add?, replace?],
        })
    }
}

fn generate(set_up: &SharedSubspace, seed: u64) -> Result<SubspaceData> {
    let made = set_up.generate(&mut ChaCha20Rng::seed_from_u64(seed));
    made.map_err(|error| match error {
        // a size out of range is a bad argument, not a bad file
        dp_data::Error::Param(param) => param.into(),
        other => Error::from(other),
    })
}

const fn truth(data: &SubspaceData) -> GroundTruth<'_> {
    GroundTruth {
        coefficients: data.coefficients.as_slice(),
        feature_variances: data.feature_variances.as_slice(),
    }
}

fn subspace_mse(data: &SubspaceData, subspace: &Subspace) -> Result<f64> {
    Ok(truth(data).subspace_mse(subspace, &LocalFit::default(), &data.samples)?)
}

fn measure_baselines(
    set_up: &SharedSubspace,
    data: &SubspaceData,
) -> Result<Vec<(&'static str, f64, f64)>> {
    let (dim, rank) = (set_up.dim, set_up.rank);
    let true_one = Subspace::spanned_by(dim, rank, &data.basis, Provenance::NonPrivate)?;
    let non_private = NonPrivateAltMin {
        rank,
        n_iterations: 5,
    }
    .fit(&data.samples)?;
    let own = data.samples.users().map(|rows| own_data_model(rows, dim));
    let zero = data.samples.users().map(|_| zero_model(dim));
    Ok(vec![
        (
            "true-subspace",
            set_up.feature_decay,
            subspace_mse(data, &true_one)?,
        ),
        (
            "non-private",
            set_up.feature_decay,
            subspace_mse(data, &non_private)?,
        ),
        (
            "own-data",
            set_up.feature_decay,
            truth(data).population_mse(own)?,
        ),
        (
            "zero",
            set_up.feature_decay,
            truth(data).population_mse(zero)?,
        ),
    ])
}

impl Cell {
    fn measure(
        self,
        set_up: &SharedSubspace,
        data: &SubspaceData,
        mut noise: NoiseSource,
    ) -> Result<f64> {
        let (dim, rank) = (set_up.dim, set_up.rank);
        let (target, adjacency) = (self.target()?, self.accounting.adjacency());
        let alt_min = |fit: AltMin, noise: &mut NoiseSource| {
            let plan = fit.plan(dim, target, adjacency)?;
            subspace_mse(
                data,
                &fit.fit(&data.samples, &plan, pay(&plan)?, noise)?.model,
            )
        };
        match self.method {
            Method::Paper { isometric } => {
                let settings = AltMinParams::section_6(rank);
                let settings = if isometric {
                    settings.isometric()
                } else {
                    settings
                };
                alt_min(settings.check()?, &mut noise)
            }
            Method::Projectors => {
                let settings = AltMinParams {
                    init: Initialisation::Projectors,
                    n_iterations: 0,
                    ..AltMinParams::section_6(rank)
                };
                alt_min(settings.check()?, &mut noise)
            }
            Method::Best => {
                let fit = ResidualAltMinParams::new(rank).check()?;
                let plan = fit.plan(dim, target, adjacency)?;
                let fitted = fit.fit(&data.samples, &plan, pay(&plan)?, &mut noise)?;
                subspace_mse(data, &fitted.model)
            }
            Method::SingleModel => {
                let clips = SingleModelParams {
                    design_clip: (dim as f64).sqrt(),
                    label_clip: (rank as f64).sqrt(),
                };
                let plan = SingleModel::plan(dim, target, adjacency)?;
                let fit = clips.check()?;
                let fitted = fit.fit(&data.samples, &plan, pay(&plan)?, &mut noise)?;
                let models = data.samples.users().map(|_| fitted.model.clone());
                Ok(truth(data).population_mse(models)?)
            }
        }
    }

    /// The target whose exact calibration gives the noise of the cell.
    fn target(self) -> Result<ApproxDp> {
        let epsilon = match self.accounting {
            Accounting::ClosedReplace => {
                let rho = self.epsilon * self.epsilon / (8.0 * (1.0 / DELTA).ln());
                dp_accounting::gdp::epsilon((2.0 * rho).sqrt(), usable_delta(DELTA))
            }
            _ => self.epsilon,
        };
        Ok(ApproxDp::target(epsilon, DELTA)?)
    }

    fn params(self) -> Result<Map<String, Value>> {
        let accounting = match self.accounting {
            Accounting::ClosedReplace => "closed-replace",
            Accounting::GdpReplace => "gdp-replace",
            Accounting::GdpAddRemove => "gdp-addremove",
        };
        let target = self.target()?;
        let mu = dp_accounting::gdp::mu_for(target)?;
        let rounded = |x: f64| (x * 1e4).ceil() / 1e4;
        let mut params = Map::from_iter([
            ("accounting".to_owned(), json!(accounting)),
            ("true_epsilon".to_owned(), json!(rounded(target.epsilon))),
            ("rho".to_owned(), json!(rounded(0.5 * mu * mu))),
        ]);
        if let Method::Paper { isometric } = self.method {
            let noise = if isometric { "isometric" } else { "copied" };
            params.insert("symmetric_noise".to_owned(), json!(noise));
        }
        if self.decay > 0.0 {
            params.insert("feature_decay".to_owned(), json!(self.decay));
        }
        Ok(params)
    }

    const fn name(self) -> &'static str {
        match self.method {
            Method::Paper { .. } => "paper",
            Method::Projectors => "projectors",
            Method::Best => "best",
            Method::SingleModel => "single-model",
        }
    }
}

impl Accounting {
    const fn adjacency(self) -> Adjacency {
        match self {
            Self::GdpAddRemove => Adjacency::AddRemoveUser,
            Self::ClosedReplace | Self::GdpReplace => Adjacency::ReplaceUser,
        }
    }
}

/// A budget of its own for each measurement.
fn pay(plan: &Plan) -> Result<Vec<Spend>> {
    let budget = Budget::new(plan.target(), plan.adjacency())?;
    Ok(Ledger::in_memory("made data", budget)?.reserve(plan)?)
}

/// The toy of the exponential mechanism: a line in three dimensions, 2,000 users, epsilon 1; the mean of 20
/// selections from one data set. In quick runs a tenth of the users and one selection.
fn select(adjacency: Adjacency, quick: bool, seed: u64) -> Result<f64> {
    let (n_users, n_draws) = if quick { (200, 1) } else { (2_000, 20) };
    let toy = SharedSubspace {
        n_users,
        dim: 3,
        rank: 1,
        ..SharedSubspace::section_6()
    };
    let data = generate(&toy, seed)?;
    let true_one = Subspace::spanned_by(3, 1, &data.basis, Provenance::NonPrivate)?;
    let loss = SelectionLoss::Explained;
    let selection = ExponentialSelectionParams { epsilon: 1.0, loss }.check()?;
    let plan = selection.plan(DELTA, adjacency)?;
    let net = Candidates::net(3, 1, 18)?;
    let mut total = 0.0;
    let mut noise = NoiseSource::insecure_seeded(seed.wrapping_mul(SEED_STRIDE).wrapping_sub(1));
    for _ in 0..n_draws {
        let budget = Budget::schedule(plan.target(), adjacency)?;
        let spend = Ledger::in_memory("made data", budget)?
            .reserve(&plan)?
            .remove(0);
        let fitted = selection.fit(&data.samples, &net, &plan, spend, &mut noise)?;
        total += fitted.model.frobenius_distance(&true_one)?.powi(2);
    }
    Ok(total / f64::from(n_draws))
}

fn rows_of(by_seed: &[Measured]) -> Result<Vec<Row>> {
    let of = |pick: &dyn Fn(&Measured) -> f64| by_seed.iter().map(pick).collect::<Vec<_>>();
    let mut rows = Vec::new();
    let baselines = by_seed.first().map_or(&[][..], |m| &m.baselines);
    for (at, &(name, decay, _)) in baselines.iter().enumerate() {
        let params = Map::from_iter([("feature_decay".to_owned(), json!(decay))]);
        rows.push(Row::over_seeds(
            name,
            None,
            params,
            METRIC,
            &of(&|m| m.baselines[at].2),
        ));
    }
    for (at, cell) in cells().into_iter().enumerate() {
        let (epsilon, values) = (Some(cell.epsilon), of(&|m| m.private[at]));
        rows.push(Row::over_seeds(
            cell.name(),
            epsilon,
            cell.params()?,
            METRIC,
            &values,
        ));
    }
    for (at, neighbours) in ["add-remove", "replace"].into_iter().enumerate() {
        let params = Map::from_iter([
            ("accounting".to_owned(), json!(neighbours)),
            ("candidates".to_owned(), json!(972)),
        ]);
        let values = of(&|m| m.selected[at]);
        rows.push(Row::over_seeds(
            "exponential",
            Some(1.0),
            params,
            "squared distance",
            &values,
        ));
    }
    Ok(rows)
}
