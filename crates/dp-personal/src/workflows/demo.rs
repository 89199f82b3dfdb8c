//! `dp demo`: the whole path on generated ratings.

use std::fs;
use std::path::Path;
use std::time::Instant;

use dp_accounting::{Budget, Certificate, Ledger};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{LongTailRatings, RatingSplit, Ratings, SplitFractions};
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorizationParams, NonPrivateAls, Run, Trainer};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde_json::json;

use crate::error::Result;
use crate::evaluate::{Evaluation, Metrics, model_rmse};
use crate::output::{
    self, CERTIFICATE, HeldOutBy, OutputFolder, Seconds, TrainRelease, TrainReport,
};
use crate::progress::ReleaseBar;
use crate::settings::{DemoArgs, Method};

const EPSILONS: [f64; 2] = [1.0, 5.0];
const DELTA: f64 = 1e-5;
/// Name of the data set in the certificate; by it an earlier demo is known.
const DATA_SET: &str = "generated ratings";

pub fn run(args: &DemoArgs) -> Result<()> {
    let start = Instant::now();
    let folder = OutputFolder::create(&args.out, is_earlier_demo(&args.out))?;
    let mut rng = ChaCha20Rng::seed_from_u64(args.generated.data_seed);
    let ratings = LongTailRatings::movielens_1m().generate(&mut rng)?;
    let split = ratings.split(SplitFractions::default(), 0);
    let table = ratings.interactions().expose();
    let load = start.elapsed().as_secs_f64();
    if !args.json {
        output::print(&format!(
            "generated {} ratings of {} users for {} items\n\n",
            table.n_records(),
            table.n_users(),
            table.n_items()
        ))?;
    }

    let mut rows = Vec::new();
    let mut baselines = Metrics::default();
    for epsilon in EPSILONS {
        let last = epsilon >= EPSILONS[EPSILONS.len() - 1];
        let keep = last.then_some(&folder);
        baselines = train(&ratings, &split, epsilon, load, keep)?;
        rows.push((format!("private, epsilon {epsilon}"), baselines.test_rmse));
    }
    let als = NonPrivateAls::default().fit(&split.train)?;
    let als = model_rmse(&als, &split.train, &split.test)?;
    rows.insert(0, ("constant".to_owned(), baselines.constant_rmse));
    rows.insert(
        1,
        (
            "user mean (free, local)".to_owned(),
            baselines.user_mean_rmse,
        ),
    );
    rows.push(("no privacy".to_owned(), als));
    folder.commit()?;
    print(args, &rows, start)
}

/// One run on its own budget; the last one leaves its model behind.
fn train(
    ratings: &Ratings,
    split: &RatingSplit,
    epsilon: f64,
    load: f64,
    keep: Option<&OutputFolder>,
) -> Result<Metrics> {
    let target = ApproxDp::target(epsilon, DELTA)?;
    let adjacency = Adjacency::AddRemoveUser;
    let fit = FactorizationParams::for_target(target)
        .check()?
        .assuming("generated data: each run of the demo has a budget of its own");
    let plan = fit.plan(ratings.catalogue().len(), target, adjacency)?;
    let mut ledger = Ledger::in_memory(DATA_SET, Budget::new(target, adjacency)?)?;
    let mut bar = ReleaseBar::new(plan.releases().len());
    let (spends, noise) = (ledger.reserve(&plan)?, &mut NoiseSource::operating_system());
    let start = Instant::now();
    let run = Run::new(&plan, spends, noise).map_err(dp_multitask::Error::from)?;
    let fitted = fit.run(&split.train, run.observed_by(&mut bar))?;
    drop(bar);
    let trained = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let metrics = Metrics::measure(&fitted.model, split)?;
    if let Some(folder) = keep {
        let release = TrainRelease {
            fitted: &fitted,
            params: fit.params(),
            ratings,
            method: Method::Pooled,
            held_out: HeldOutBy::default(),
            comparison: None,
        };
        release.write(folder)?;
        let report = TrainReport {
            release: &release,
            by_round: None,
            metrics: Evaluation::Ratings(metrics),
            seconds: Seconds {
                load,
                train: trained,
                evaluate: start.elapsed().as_secs_f64(),
            },
        };
        report.write_internal(folder)?;
    }
    Ok(metrics)
}

/// Only what an earlier demo wrote is replaced without being asked.
fn is_earlier_demo(out: &Path) -> bool {
    let certificate = fs::read_to_string(out.join(CERTIFICATE))
        .ok()
        .and_then(|text| Certificate::from_json(&text).ok());
    certificate.is_some_and(|found| found.data_set_id == DATA_SET)
}

fn print(args: &DemoArgs, rows: &[(String, Option<f64>)], start: Instant) -> Result<()> {
    let seconds = start.elapsed().as_secs_f64();
    let out = args.out.display();
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(method, rmse)| json!({"method": method, "test_rmse": rmse}))
            .collect();
        let out = out.to_string();
        return output::print_json(&json!({"rows": rows, "out": out, "seconds": seconds}));
    }
    output::print(&(table(rows) + &what_is_left(&args.out) + &format!("\n{seconds:.1} s in all\n")))
}

fn table(rows: &[(String, Option<f64>)]) -> String {
    let mut text = format!("{:<26} test RMSE\n", "method");
    for (method, rmse) in rows {
        let rmse = rmse.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
        text.push_str(&format!("{method:<26} {rmse:>9}\n"));
    }
    text + &format!(
        "\nRMSE: root mean squared error of the ratings held out, in stars; less is better\n\
         private: everything a user contributed, against adding or removing the user, delta {DELTA:e}\n\
         user mean: each user's own average, which needs no server and releases nothing\n"
    )
}

/// The files of the last run, as `dp train` leaves them.
fn what_is_left(out: &Path) -> String {
    let last = EPSILONS[EPSILONS.len() - 1];
    let out = out.display();
    format!(
        "\n{out}/ holds the run at epsilon {last}:\n\
         \u{20} item_factors.safetensors, items.csv  the model\n\
         \u{20} certificate.json                     every release, its noise, and the guarantee that follows\n\
         \u{20} report.md                            the same in words; may be published like the two above\n\
         \u{20} internal.md                          accuracy, from private data: not covered, not to be published\n\
         \ncheck the certificate:  cargo run --release -p dp-cli -- verify {out}\n\
         measure the guarantee:  cargo run --release -p dp-cli -- audit --epsilon {last} --delta {DELTA:e}\n"
    )
}
