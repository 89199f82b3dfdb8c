//! `dp demo`: the complete workflow on generated ratings.

use std::fs;
use std::path::Path;
use std::time::Instant;

use chacha20::ChaCha20Rng;
use dp_accounting::{Budget, Certificate, Ledger};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{LongTailRatings, RatingSplit, Ratings, SplitFractions};
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorizationParams, NonPrivateAls, Run, Trainer};
use rand::SeedableRng;

use crate::error::Result;
use crate::evaluate::{Evaluation, Figures, Metrics, model_rmse};
use crate::output::{
    Aside, CERTIFICATE, HeldOutBy, OutputFolder, Release, RunReport, Seconds, TrainRelease,
    TrainReport,
};
use crate::settings::{DemoSettings, Method};
use crate::watch::{Watch, Watched, go_on};

const EPSILONS: [f64; 2] = [1.0, 5.0];
const DELTA: f64 = 1e-5;
/// Name of the data set in the certificate, by which an earlier demo is recognised.
const DATA_SET: &str = "generated ratings";

/// The errors of one method to predict held-out ratings.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoRow {
    /// Name of the method.
    pub method: String,
    /// Root mean squared error in stars; none without test ratings.
    pub test_rmse: Option<f64>,
}

/// The data of a demo, and the target of the run that it keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DemoData {
    /// Number of generated users.
    pub n_users: usize,
    /// Number of generated items.
    pub n_items: usize,
    /// Number of generated ratings.
    pub n_ratings: usize,
    /// Epsilon of the run whose model is kept in the folder.
    pub epsilon: f64,
    /// Delta of all runs.
    pub delta: f64,
}

/// Generates ratings, trains on them at two epsilons, compares with training without privacy, and
/// writes the release folder of the last run. `begin` is called with the generated sizes before
/// training begins.
///
/// # Errors
/// When the folder exists and is not that of an earlier demo, or cannot be written.
pub fn demo(
    args: &DemoSettings,
    watch: &mut dyn Watch,
    begin: &mut dyn FnMut(DemoData),
) -> Result<Vec<DemoRow>> {
    let folder = OutputFolder::create(&args.out, is_earlier_demo(&args.out))?;
    let start = Instant::now();
    let mut rng = ChaCha20Rng::seed_from_u64(args.generated.data_seed);
    let ratings = LongTailRatings::movielens_1m().generate(&mut rng)?;
    let split = ratings.split(SplitFractions::default(), 0)?;
    let table = ratings.interactions().expose();
    let load = start.elapsed().as_secs_f64();
    let last = EPSILONS[EPSILONS.len() - 1];
    begin(DemoData {
        n_users: table.n_users(),
        n_items: table.n_items(),
        n_ratings: table.n_records(),
        epsilon: last,
        delta: DELTA,
    });

    let row = |method: &str, test_rmse| DemoRow {
        method: method.to_owned(),
        test_rmse,
    };
    let mut rows = Vec::new();
    let mut baselines = Metrics::default();
    for epsilon in EPSILONS {
        go_on(watch)?;
        let keep = (epsilon >= last).then_some(&folder);
        baselines = train(&ratings, &split, epsilon, load, keep, watch)?;
        let method = format!("private, epsilon {epsilon}");
        rows.push(row(&method, baselines.test_rmse));
    }
    let als = NonPrivateAls::default().fit(&split.train)?;
    let als = model_rmse(&als, &split.train, &split.test)?;
    rows.insert(0, row("constant", baselines.constant_rmse));
    rows.insert(1, row("user mean (free, local)", baselines.user_mean_rmse));
    rows.push(row("no privacy", als));
    folder.commit()?;
    Ok(rows)
}

/// One run with a separate budget; the model of the last one is kept.
fn train(
    ratings: &Ratings,
    split: &RatingSplit,
    epsilon: f64,
    load: f64,
    keep: Option<&OutputFolder>,
    watch: &mut dyn Watch,
) -> Result<Metrics> {
    let target = ApproxDp::target(epsilon, DELTA)?;
    let adjacency = Adjacency::AddRemoveUser;
    let fit = FactorizationParams::for_target(target)
        .check()?
        .assuming("generated data: each run of the demo has a budget of its own");
    let plan = fit.plan(ratings.catalogue().len(), target, adjacency)?;
    let mut ledger = Ledger::in_memory(DATA_SET, Budget::new(target, adjacency)?)?;
    let (spends, noise) = (ledger.reserve(&plan)?, &mut NoiseSource::operating_system());
    let start = Instant::now();
    let run = Run::new(&plan, spends, noise).map_err(dp_multitask::Error::from)?;
    let mut watched = Watched::begin(watch, &plan)?;
    let fitted = fit.run(&split.train, run.observed_by(&mut watched))?;
    let trained = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let metrics = Evaluation::of_ratings(&fitted.model, split, &[])?;
    let Figures::Ratings(figures) = metrics.figures else {
        return Ok(Metrics::default());
    };
    if let Some(folder) = keep {
        let release = TrainRelease {
            fitted: &fitted,
            params: fit.params(),
            ratings,
            method: Method::Pooled,
            held_out: HeldOutBy::default(),
            comparison: None,
            prior: None,
            run: None,
        };
        release.write(folder, false, &[])?;
        let report = TrainReport {
            release: &release,
            by_round: None,
            metrics,
            seconds: Seconds {
                load,
                train: trained,
                evaluate: start.elapsed().as_secs_f64(),
            },
        };
        report.write_internal(folder, &Aside::default())?;
    }
    Ok(figures)
}

/// Only the output of an earlier demo is replaced.
fn is_earlier_demo(out: &Path) -> bool {
    let certificate = fs::read_to_string(out.join(CERTIFICATE))
        .ok()
        .and_then(|text| Certificate::from_json(&text).ok());
    certificate.is_some_and(|found| found.data_set_id == DATA_SET)
}
