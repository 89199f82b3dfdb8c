//! Private cells of the figure: one method at one epsilon under one accounting.

use dp_accounting::{Budget, Ledger, Plan, Spend, usable_delta};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{SharedSubspace, SubspaceData};
use dp_mechanism::NoiseSource;
use dp_personalize::{
    AltMin, AltMinParams, Initialisation, ResidualAltMinParams, SingleModelParams, Trainer,
};
use serde_json::{Map, Value, json};

use super::{DECAY, DELTA, subspace_mse, truth};
use dp_personal::error::Result;

const EPSILONS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// How epsilon is converted to noise, and for which neighbouring relation.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Accounting {
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
pub(super) enum Method {
    /// Algorithms 1 to 3 with settings of the paper, and matrices encoded with copied triangles or
    /// isometrically.
    Paper {
        isometric: bool,
    },
    /// The projector sum alone, instead of Algorithms 1 to 3.
    Projectors,
    /// The projector sum instead of Algorithm 3, followed by the step of Algorithm 2, isometric.
    ProjectorsSsp,
    /// Projector sum and residual steps without whitening.
    Unwhitened {
        n_steps: usize,
    },
    Best,
    SingleModel,
}

#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub(super) method: Method,
    pub(super) epsilon: f64,
    pub(super) accounting: Accounting,
    pub(super) decay: f64,
}

/// All private cells, in the order of the rows.
pub(super) fn cells() -> Vec<Cell> {
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
    let cell = |method, epsilon, accounting, decay| Cell {
        method,
        epsilon,
        accounting,
        decay,
    };
    let best = |epsilon, accounting, decay| cell(Method::Best, epsilon, accounting, decay);
    // intermediate variants between the paper's method and the best one
    for method in [
        Method::ProjectorsSsp,
        Method::Unwhitened { n_steps: 1 },
        Method::Unwhitened { n_steps: 4 },
    ] {
        cells.push(cell(method, 1.0, Accounting::GdpReplace, 0.0));
    }
    let unwhitened = Method::Unwhitened { n_steps: 4 };
    cells.push(cell(unwhitened, 1.0, Accounting::ClosedReplace, DECAY));
    cells.push(best(0.05, Accounting::GdpReplace, 0.0));
    cells.push(best(0.25, Accounting::GdpAddRemove, 0.0));
    cells.push(best(1.0, Accounting::ClosedReplace, DECAY));
    cells.push(best(0.25, Accounting::GdpAddRemove, DECAY));
    cells
}

impl Cell {
    pub(super) fn measure(
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
        let residual = |params: ResidualAltMinParams, mut noise: NoiseSource| {
            let fit = params.check()?;
            let plan = fit.plan(dim, target, adjacency)?;
            let fitted = fit.fit(&data.samples, &plan, pay(&plan)?, &mut noise)?;
            subspace_mse(data, &fitted.model)
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
                    n_rounds: 0,
                    ..AltMinParams::section_6(rank)
                };
                alt_min(settings.check()?, &mut noise)
            }
            Method::ProjectorsSsp => {
                let settings = AltMinParams {
                    init: Initialisation::Projectors,
                    ..AltMinParams::section_6(rank).isometric()
                };
                alt_min(settings.check()?, &mut noise)
            }
            Method::Unwhitened { n_steps } => residual(
                ResidualAltMinParams {
                    whitening: None,
                    n_steps,
                    ..ResidualAltMinParams::new(rank)
                },
                noise,
            ),
            Method::Best => residual(ResidualAltMinParams::new(rank), noise),
            Method::SingleModel => {
                let clips = SingleModelParams {
                    design_clip: (dim as f64).sqrt(),
                    label_clip: (rank as f64).sqrt(),
                };
                let fit = clips.check()?;
                let plan = fit.plan(dim, target, adjacency)?;
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

    pub(super) fn params(self) -> Result<Map<String, Value>> {
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

    pub(super) const fn name(self) -> &'static str {
        match self.method {
            Method::Paper { .. } => "paper",
            Method::Projectors => "projectors",
            Method::ProjectorsSsp => "projectors-ssp",
            Method::Unwhitened { n_steps: 1 } => "residual-1-step",
            Method::Unwhitened { .. } => "residual-unwhitened",
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

/// Reserves a plan on a separate budget for each measurement.
fn pay(plan: &Plan) -> Result<Vec<Spend>> {
    let budget = Budget::new(plan.target(), plan.adjacency())?;
    Ok(Ledger::in_memory("made data", budget)?.reserve(plan)?)
}
