//! `dp train`: ratings in, private item factors and their certificate out.

use std::time::Instant;

use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{CatalogueSource, RatingSplit, Ratings, RatingsColumns, RatingsFormat, SplitFractions};
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorizationParams, FittedModel, MatrixFactorization};

use crate::args::{LedgerArgs, Method, SettingArgs, TrainArgs};
use crate::error::Result;
use crate::evaluate::Metrics;
use crate::output::{self, OutputFolder, Seconds, TrainReport};
use crate::progress::ReleaseBar;

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

pub(crate) fn run(args: &TrainArgs) -> Result<()> {
    // everything public is checked before the data is touched
    let target = ApproxDp::target(args.epsilon, args.delta)?;
    let Method::Adadpals = args.method;
    let mut fit = settings(&args.settings, target).check()?;
    let folder = OutputFolder::create(&args.out, args.force)?;
    let mut ledger = open_ledger(&args.ledger, &data_set_id(args), target)?;

    let start = Instant::now();
    let ratings = read(args)?;
    let split = hold_out(args, &ratings)?;
    let load = start.elapsed();

    fit = with_assumptions(fit, args, &ratings);
    let plan = fit.plan(ratings.catalogue().len(), target, ADJACENCY)?;
    let start = Instant::now();
    let fitted = fit_model(&fit, &plan, &mut ledger, &split, args.insecure_seed)?;
    let train = start.elapsed();

    let start = Instant::now();
    let metrics = Metrics::measure(&fitted.model, &split)?;
    let report = TrainReport {
        fitted: &fitted,
        params: fit.params(),
        plan: &plan,
        ratings: &ratings,
        metrics,
        seconds: Seconds {
            load: load.as_secs_f64(),
            train: train.as_secs_f64(),
            evaluate: start.elapsed().as_secs_f64(),
        },
    };
    report.write(&folder)?;
    folder.commit()?;
    if args.json {
        output::print_json(&report.json())
    } else {
        print!("{}", report.summary(&args.out));
        Ok(())
    }
}

/// Defaults from the target, overridden by flags.
fn settings(args: &SettingArgs, target: ApproxDp) -> FactorizationParams {
    let mut params = FactorizationParams::for_target(target);
    params.dim = args.dim.or(params.dim);
    params.n_rounds = args.steps.unwrap_or(params.n_rounds);
    for (setting, flag) in [
        (&mut params.weight_exponent, args.weight_exponent),
        (&mut params.clip_norm, args.clip_norm),
        (&mut params.label_center, args.label_center),
        (&mut params.label_bound, args.label_bound),
        (&mut params.item_ridge_factor, args.reg),
        (&mut params.count_share, args.count_share),
    ] {
        *setting = flag.unwrap_or(*setting);
    }
    params
}

fn data_set_id(args: &TrainArgs) -> String {
    args.ledger.data_set.clone().unwrap_or_else(|| {
        let name = args.ratings.file_name().unwrap_or(args.ratings.as_os_str());
        name.to_string_lossy().into_owned()
    })
}

/// An existing ledger keeps the budget it was made with; a new one gets the run's, or a larger one.
fn open_ledger(args: &LedgerArgs, data_set: &str, run: ApproxDp) -> Result<Ledger> {
    let asked = args.ledger_epsilon.is_some() || args.ledger_delta.is_some();
    let total = ApproxDp::target(
        args.ledger_epsilon.unwrap_or(run.epsilon),
        args.ledger_delta.unwrap_or(run.delta),
    )?;
    let budget = Budget::new(total, ADJACENCY)?;
    Ok(match &args.ledger {
        None => Ledger::in_memory(data_set, budget)?,
        Some(path) if asked => Ledger::open(path, data_set, budget)?,
        Some(path) => Ledger::open_or_create(path, data_set, budget)?,
    })
}

fn read(args: &TrainArgs) -> Result<Ratings> {
    let format = RatingsFormat::default().with_columns(RatingsColumns {
        user: args.columns.user_col.clone(),
        item: args.columns.item_col.clone(),
        rating: args.columns.rating_col.clone(),
    });
    Ok(match &args.items {
        Some(path) => {
            let catalogue = dp_data::read_catalogue(path)?;
            dp_data::read_ratings_with_catalogue(&args.ratings, &format, catalogue)?
        }
        None => dp_data::read_ratings(&args.ratings, &format)?,
    })
}

fn hold_out(args: &TrainArgs, ratings: &Ratings) -> Result<RatingSplit> {
    let fractions = if args.split.no_split {
        SplitFractions::new(1.0, 0.0, 0.0)?
    } else {
        SplitFractions::default()
    };
    Ok(ratings.split(fractions, args.split.split_seed))
}

fn with_assumptions(
    fit: MatrixFactorization,
    args: &TrainArgs,
    ratings: &Ratings,
) -> MatrixFactorization {
    let fit = match ratings.catalogue_source() {
        CatalogueSource::Declared => fit,
        CatalogueSource::FromRatings => fit.assuming("item ids of the input are public"),
    };
    match args.ledger.ledger {
        Some(_) => fit.assuming("every run on this data set used the same ledger file"),
        None => fit.assuming("this is the only run on this data set: no ledger file was used"),
    }
}

/// Reserves the plan and trains; from the reservation on the budget counts as spent.
fn fit_model(
    fit: &MatrixFactorization,
    plan: &Plan,
    ledger: &mut Ledger,
    split: &RatingSplit,
    insecure_seed: Option<u64>,
) -> Result<FittedModel> {
    let mut noise = insecure_seed.map_or_else(
        NoiseSource::operating_system,
        NoiseSource::insecure_seeded,
    );
    let bar = ReleaseBar::new(plan.releases().len());
    let spends = ledger.reserve(plan)?;
    let mut progress = |done| bar.show(done);
    Ok(fit.fit(&split.train, plan, spends, &mut noise, &mut progress)?)
}
