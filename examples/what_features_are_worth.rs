//! How close do private item vectors come to the truth when items have public features?
//!
//! `cargo run --release -p dp-examples --example what_features_are_worth -- [--seeds N] [--methods a,b] [--cells P:EPS,P:EPS] [--scale S]`
//!
//! Mean and standard error over seeds of the excess risk per example, `<u, v^ - v>^2 / 2` (`logistic-T`: of the logistic loss, on signs with logits of
//! scale S), on data made of `p` public features: 5,000 users with 40 of 500 items each, delta 1e-5, add/remove one user. Noise is seeded so that the table can be repeated. Settings of the methods stand in the source; they
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
const METHODS: &str = "zero,ssp-c,ssp-c-descent,ssp-i,dp-sgd,noisy-gd,best,logistic-1,logistic-3";
const CELLS: &str = "500:5,2000:1,2000:5,2000:20,8000:5";
/// Weighted norm of a user's labels, and of those of the noise alone with some room.
const LABELS: [f64; 2] = [0.4, 0.11];

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
        let kernel = self.kernel.clone();
        Ok(KernelRidge::new(kernel, DIM, noise, l2_penalty)?)
    }

    fn descent(&self, n_steps: usize) -> Result<ValueDescent> {
        let params = ValueDescentParams {
            rate: 1.9,
            ..ValueDescentParams::new(n_steps)
        };
        Ok(ValueDescent::new(self.kernel.clone(), DIM, params)?)
    }

    fn ssp(
        &mut self,
        learner: impl StatisticsLearner,
        n_resamples: usize,
        matrix_share: f64,
    ) -> Result<f64> {
        let params = SspParams {
            n_resamples,
            matrix_share,
            ..SspParams::new(setup())
        };
        let ssp = params.check()?;
        let plan = ssp.plan(self.n_items(), self.target, ADJACENCY)?;
        let spends = self.spends(&plan, false)?;
        let data = &self.made.examples;
        let fitted = ssp.fit(learner, data, &plan, spends, &mut self.noise)?;
        Ok(self.made.excess_risk(&fitted.model.item_vectors()?))
    }

    fn residual(
        &mut self,
        learner: impl StatisticsLearner,
        n_steps: usize,
        forget: bool,
    ) -> Result<f64> {
        let params = ResidualSspParams {
            forget,
            ..ResidualSspParams::new(setup(), n_steps, LABELS[0], LABELS[1])
        };
        let residual = params.check()?;
        let plan = residual.plan(self.n_items(), self.target, ADJACENCY)?;
        let spends = self.spends(&plan, false)?;
        let data = &self.made.examples;
        let fitted = residual.fit(learner, data, &plan, spends, &mut self.noise)?;
        Ok(self.made.excess_risk(&fitted.model.item_vectors()?))
    }

    fn dp_sgd(&mut self) -> Result<f64> {
        let encoder = LinearEncoder::zeros(self.features.clone().into(), DIM)?;
        let params = DpSgdParams {
            setup: setup(),
            n_steps: 40,
            sampling_probability: 0.3,
            gradient_norm: 0.3,
            optimiser: Optimiser::Momentum {
                rate: 1e-3,
                decay: 0.9,
            },
        };
        let sgd = params.check()?;
        let plan = sgd.plan(self.features.n_features(), self.target, ADJACENCY)?;
        let spends = self.spends(&plan, true)?;
        let data = &self.made.examples;
        let fitted = sgd.fit(encoder, data, &plan, spends, &mut self.noise)?;
        let items: Vec<u32> = (0..u32::try_from(self.n_items())?).collect();
        let mut vectors = vec![0.0; items.len() * DIM];
        fitted.model.forward(&items, &mut vectors)?;
        Ok(self.made.excess_risk(&vectors))
    }

    fn logistic(&mut self, n_steps: usize, item_norm: f64) -> Result<f64> {
        let params = ConvexSspParams {
            slope_norm: 0.5,
            matrix_share: 0.5,
            ..ConvexSspParams::new(ProblemSetup::new(DIM, 1.0), n_steps)
        };
        let convex = params.check()?;
        let plan = convex.plan(self.n_items(), self.target, ADJACENCY)?;
        let spends = self.spends(&plan, false)?;
        let learner = self.ridge(item_norm, 0.0)?;
        let data = &self.made.examples;
        let fitted = convex.fit(&Logistic, learner, data, &plan, spends, &mut self.noise)?;
        Ok(self.made.excess_risk(&fitted.model.item_vectors()?))
    }

    fn run(&mut self, method: &str, scale: f64) -> Result<f64> {
        // steps that this much noise bears
        let (few, steps, more) = match self.target.epsilon {
            e if e < 3.0 => (5, 6, 20),
            e if e < 10.0 => (12, 15, 20),
            _ => (40, 35, 80),
        };
        match method {
            "zero" => Ok(self.made.excess_risk(&vec![0.0; self.n_items() * DIM])),
            "ssp-c" => self.ssp(self.ridge(1.0, 0.0)?, 1, 0.6),
            "ssp-c-descent" => self.ssp(self.descent(steps)?, 1, 0.5),
            "ssp-i" => self.ssp(self.descent(1)?, few, 0.5),
            "dp-sgd" => self.dp_sgd(),
            "noisy-gd" => self.residual(self.descent(1)?, more, true),
            "best" => self.residual(self.ridge(1.0, 0.0127)?, 6, false),
            "logistic-1" => self.logistic(1, scale),
            "logistic-3" => self.logistic(3, scale),
            _ => Err(format!("no method {method}").into()),
        }
    }
}

fn setup() -> ProblemSetup {
    ProblemSetup {
        label_norm: LABELS[0],
        ..ProblemSetup::new(DIM, 2.0)
    }
}

/// Mean and its standard error.
fn summary(risks: &[f64]) -> (f64, f64) {
    let n = risks.len() as f64;
    let mean = risks.iter().sum::<f64>() / n;
    let squares: f64 = risks.iter().map(|r| (r - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str, default: &str| {
        let at = args.iter().position(|a| a == name);
        let given = at.and_then(|at| args.get(at + 1)).cloned();
        given.unwrap_or_else(|| default.to_owned())
    };
    let n_seeds: u64 = value("--seeds", "3").parse()?;
    let scale: f64 = value("--scale", "4").parse()?;
    for cell in value("--cells", CELLS).split(',') {
        let (p, epsilon) = cell.split_once(':').ok_or("a cell is P:EPS")?;
        for method in value("--methods", METHODS).split(',') {
            let labels = if method.starts_with("logistic") {
                MadeLabels::Signs { scale }
            } else {
                MadeLabels::Values { noise: 0.1 }
            };
            let (mut risks, mut seconds) = (Vec::new(), 0.0);
            for seed in 0..n_seeds {
                let mut cell = Cell::new(p.parse()?, epsilon.parse()?, labels, seed)?;
                let start = Instant::now();
                risks.push(cell.run(method, scale)?);
                seconds += start.elapsed().as_secs_f64() / n_seeds as f64;
            }
            let (mean, se) = summary(&risks);
            println!(
                "p {p:>5}  epsilon {epsilon:>3}  {method:<14} {mean:.5} +- {se:.5}  {seconds:.2} s a fit"
            );
        }
    }
    Ok(())
}
