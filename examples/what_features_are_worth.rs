//! How close do private item vectors come to the truth when items have public features?
//!
//! `cargo run --release -p dp-examples --example what_features_are_worth -- [--seeds N] [--methods a,b] [--cells P:EPS,P:EPS]`
//!
//! Mean and standard error over seeds of the excess risk per example, `<u, v^ - v>^2 / 2`, on data made of `p` public features: 5,000 users with 40 of 500
//! items each, delta 1e-5, add/remove one user. Noise is seeded so that the table can be repeated. Settings of the methods stand in the source; they
//! were tuned on the truth for these sizes, so the rows show what methods can reach, not what a user would get at the first try.

use std::time::Instant;

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{MadeLabels, PublicFeatureData, PublicFeatureTask};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    ConvexSspParams, DpSgdParams, FeatureKernel, ItemFeatures, ItemFeaturesBuilder, KernelRidge,
    LinearEncoder, Logistic, Optimiser, ProblemSetup, PublicEncoder, ResidualSspParams, RidgeNoise,
    SspParams, StatisticsLearner, ValueDescent, ValueDescentParams,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const DIM: usize = 8;
const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
const METHODS: [&str; 8] = [
    "non-private", "ssp-c", "ssp-c descent", "ssp-i", "dp-sgd", "noisy-gd", "best", "logistic",
];

/// One data set and one budget.
struct Cell {
    made: PublicFeatureData,
    features: ItemFeatures,
    kernel: FeatureKernel,
    target: ApproxDp,
    noise: NoiseSource,
}

impl Cell {
    fn new(n_features: usize, epsilon: f64, labels: MadeLabels, seed: u64) -> Result<Self> {
        let set_up = PublicFeatureTask {
            labels,
            ..PublicFeatureTask::new(n_features)
        };
        let made = set_up.generate(&mut ChaCha20Rng::seed_from_u64(seed))?;
        let mut builder = ItemFeaturesBuilder::new(set_up.n_items, &[n_features])?;
        for &(item, feature) in &made.features {
            builder.push(item, feature, 1.0)?;
        }
        let features = builder.build().with_unit_rows();
        Ok(Self {
            kernel: FeatureKernel::new(&features, 0.0)?,
            features,
            made,
            target: ApproxDp::target(epsilon, 1e-5)?,
            noise: NoiseSource::insecure_seeded(1000 + seed),
        })
    }

    fn n_items(&self) -> usize {
        self.features.n_items()
    }

    fn spends(&self, plan: &Plan, schedule: bool) -> Result<Vec<Spend>> {
        let budget = if schedule {
            Budget::schedule(self.target, ADJACENCY)?
        } else {
            Budget::new(self.target, ADJACENCY)?
        };
        Ok(Ledger::in_memory("made data", budget)?.reserve(plan)?)
    }

    fn ridge(&self, item_norm: f64, l2_penalty: f64) -> Result<KernelRidge> {
        let noise = RidgeNoise::FromRelease { item_norm };
        Ok(KernelRidge::new(self.kernel.clone(), DIM, noise, l2_penalty)?)
    }

    fn ssp_c(&mut self, learner: impl StatisticsLearner, resamples: usize, label_norm: f64) -> Result<f64> {
        let mut params = SspParams::new(setup(label_norm));
        params.matrix_share = 0.3;
        params.n_resamples = resamples;
        let ssp = params.check()?;
        let plan = ssp.plan(self.n_items(), self.target, ADJACENCY)?;
        let spends = self.spends(&plan, false)?;
        let fitted = ssp.fit(learner, &self.made.examples, &plan, spends, &mut self.noise)?;
        Ok(self.made.excess_risk(&fitted.model.item_vectors()?))
    }

    fn residual(&mut self, learner: impl StatisticsLearner, params: ResidualSspParams) -> Result<f64> {
        let residual = params.check()?;
        let plan = residual.plan(self.n_items(), self.target, ADJACENCY)?;
        let spends = self.spends(&plan, false)?;
        let fitted = residual.fit(learner, &self.made.examples, &plan, spends, &mut self.noise)?;
        Ok(self.made.excess_risk(&fitted.model.item_vectors()?))
    }

    fn dp_sgd(&mut self, params: DpSgdParams) -> Result<f64> {
        let encoder = LinearEncoder::zeros(self.features.clone().into(), DIM)?;
        let sgd = params.check()?;
        let plan = sgd.plan(encoder.parameters().len() / DIM, self.target, ADJACENCY)?;
        let spends = self.spends(&plan, true)?;
        let encoder = sgd.fit(encoder, &self.made.examples, &plan, spends, &mut self.noise)?.model;
        let items: Vec<u32> = (0..u32::try_from(self.n_items())?).collect();
        let mut vectors = vec![0.0; items.len() * DIM];
        encoder.forward(&items, &mut vectors)?;
        Ok(self.made.excess_risk(&vectors))
    }

    fn logistic(&mut self, n_steps: usize, item_norm: f64) -> Result<f64> {
        let mut params = ConvexSspParams::new(ProblemSetup::new(DIM, 1.0), n_steps);
        params.slope_norm = 0.5;
        let convex = params.check()?;
        let plan = convex.plan(self.n_items(), self.target, ADJACENCY)?;
        let spends = self.spends(&plan, false)?;
        let learner = self.ridge(item_norm, 0.0)?;
        let data = &self.made.examples;
        let fitted = convex.fit(&Logistic, learner, data, &plan, spends, &mut self.noise)?;
        Ok(self.made.excess_risk(&fitted.model.item_vectors()?))
    }

    fn run(&mut self, method: &str) -> Result<f64> {
        let epsilon = self.target.epsilon;
        let knob = |name: &str, default: f64| -> f64 {
            std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
        };
        match method {
            "ssp-c" => {
                let l = self.ridge(knob("R", 1.0), knob("L2", 0.0))?;
                self.ssp_c(l, 1, knob("B", 0.4))
            }
            "ssp-c descent" => {
                let l = ValueDescent::new(self.kernel.clone(), DIM, ValueDescentParams::new(knob("T", 60.0) as usize))?;
                self.ssp_c(l, 1, knob("B", 0.4))
            }
            "ssp-i" => {
                let steps = knob("T", 2.0) as usize;
                let l = self.ridge(knob("R", 1.0), 0.0)?;
                self.ssp_c(l, steps, knob("B", 0.4))
            }
            "noisy-gd" => {
                let steps = knob("T", 20.0) as usize;
                let mut descent = ValueDescentParams::new(1);
                descent.rate = knob("RATE", 1.5);
                let l = ValueDescent::new(self.kernel.clone(), DIM, descent)?;
                let mut params = ResidualSspParams::new(setup(knob("B", 0.4)), steps, knob("B", 0.4), knob("C", 0.12));
                params.forget = true;
                self.residual(l, params)
            }
            "best" => {
                let steps = knob("T", 4.0) as usize;
                let l = self.ridge(knob("R", 1.0), knob("L2", 0.0127))?;
                let mut params = ResidualSspParams::new(setup(knob("B", 0.4)), steps, knob("B", 0.4), knob("C", 0.12));
                params.pooled_share = knob("SHARE", 0.02);
                self.residual(l, params)
            }
            "dp-sgd" => self.dp_sgd(DpSgdParams {
                setup: setup(1e3),
                n_steps: knob("T", 50.0) as usize,
                sampling_probability: knob("Q", 0.2),
                gradient_norm: knob("C", 0.4),
                optimiser: Optimiser::Momentum { rate: knob("RATE", 1e-3), decay: 0.9 },
            }),
            "logistic" => self.logistic(knob("T", 1.0) as usize, knob("R", 4.0)),
            _ => Err(format!("no method {method} at {epsilon}").into()),
        }
    }
}

fn setup(label_norm: f64) -> ProblemSetup {
    ProblemSetup {
        label_norm: label_norm.min(1e6),
        ..ProblemSetup::new(DIM, 2.0)
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str, default: &str| {
        let at = args.iter().position(|a| a == name);
        at.and_then(|at| args.get(at + 1)).map_or(default.to_owned(), Clone::clone)
    };
    let n_seeds: u64 = value("--seeds", "3").parse()?;
    for cell in value("--cells", "500:5,2000:1,2000:5,2000:20,8000:5").split(',') {
        let (p, epsilon) = cell.split_once(':').ok_or("a cell is P:EPS")?;
        for method in value("--methods", &METHODS[1..].join(",")).split(',') {
            let start = Instant::now();
            let labels = if method == "logistic" {
                MadeLabels::Signs { scale: value("--scale", "8").parse()? }
            } else {
                MadeLabels::Values { noise: 0.1 }
            };
            let risks = (0..n_seeds).map(|seed| {
                Cell::new(p.parse()?, epsilon.parse()?, labels, seed)?.run(method)
            });
            let risks: Vec<f64> = risks.collect::<Result<_>>()?;
            let n = risks.len() as f64;
            let mean = risks.iter().sum::<f64>() / n;
            let variance = risks.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let se = (variance / n).sqrt();
            println!("p {p:>5}  eps {epsilon:>3}  {method:<14} {mean:.5} +- {se:.5}  ({:.1} s)", start.elapsed().as_secs_f64());
        }
    }
    Ok(())
}
