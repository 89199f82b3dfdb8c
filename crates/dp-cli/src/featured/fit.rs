//! The run: ratings and public items in, factors, feature weights and certificate out.

use std::time::Instant;

use dp_accounting::{Plan, Spend};
use dp_core::{ApproxDp, Interactions, Private};
use dp_multitask::{
    FactorModel, FittedModel, LocalBias, Progress, Provenance, ScoreModel, Scoring, UserPenalties,
};
use dp_pubfeat::{AmResidualSsp, FeatureModel, FeaturePrior, FittedItems, PriorVariances};

use super::items::Items;
use super::settings::{self, Featured};
use super::weights_file;
use crate::args::{Method, TrainArgs};
use crate::commands::input::{HeldOut, read};
use crate::commands::ledger::{Account, data_set_id};
use crate::commands::train::{ADJACENCY, assumptions, held_out_by, protect, say};
use crate::error::Result;
use crate::evaluate::Evaluation;
use crate::output::{OutputFolder, Seconds, TrainRelease, TrainReport};
use crate::progress::ReleaseBar;

pub(crate) fn train(args: &TrainArgs) -> Result<()> {
    // everything public is checked before the data is touched
    let target = ApproxDp::target(args.target.epsilon, args.target.delta)?;
    let fit = settings::settings(args, target)?.check()?;
    let items_path = settings::items_path(args)?;
    let draft = fit.plan(1, target, ADJACENCY)?;
    let ledger = args.ledger.ledger.as_deref();
    let inputs = [Some(args.ratings.as_path()), Some(items_path), ledger];
    protect(&args.output, &inputs)?;
    let data_set = data_set_id(&args.ledger, &args.ratings);
    let mut account = Account::open(&args.ledger, data_set, target, ADJACENCY)?;
    account.check(&draft)?;
    let folder = OutputFolder::create(&args.output.out, args.output.force)?;

    let start = Instant::now();
    let items = Items::read(items_path, &args.features)?;
    items.announce(items_path);
    let ratings = read(&args.ratings, &args.input)?;
    let features = items.features(ratings.catalogue())?;
    let split = HeldOut::new(&args.feedback, &args.split, &ratings)?;
    let load = start.elapsed();

    let variances = PriorVariances::for_features(&features);
    let prior = FeaturePrior::new(&features, variances)?;
    weights_file::check(&items, items_path)?;
    let plan = fit.plan(prior.n_items(), target, ADJACENCY)?;
    let start = Instant::now();
    let paid = (&plan, account.reserve(&plan)?);
    let mut made = fit_model(&fit, &prior, split.train(), paid, args)?;
    for assumption in assumptions(args, &ratings)
        .into_iter()
        .chain([items.assumption()])
    {
        made.certificate = made.certificate.with_assumption(assumption);
    }
    let train = start.elapsed();

    let weights = made.model.weights();
    let params = Featured {
        params: fit.params(),
        prior_variances: prior.variances(),
        feature_columns: items.table.columns(),
        n_features: weights.n_features(),
        weights_file: weights_file::write(weights, &items)?,
    };
    let fitted = as_factors(&made, args.output.insecure_seed.is_some())?;
    let release = TrainRelease {
        fitted: &fitted,
        method: Method::AmSsp,
        params: &params,
        ratings: &ratings,
        held_out: held_out_by(args),
        comparison: None,
    };
    release.write(&folder)?;
    // from here on the model stays, whatever happens
    let report = folder.commit_after(|folder| {
        let start = Instant::now();
        let report = TrainReport {
            release: &release,
            metrics: Evaluation::measure(&fitted, &split)?,
            by_round: None,
            seconds: Seconds {
                load: load.as_secs_f64(),
                train: train.as_secs_f64(),
                evaluate: start.elapsed().as_secs_f64(),
            },
        };
        report.write_internal(folder)?;
        Ok(report)
    })?;
    say(&report, &args.output, || account.balance(&plan))
}

/// Trains on what was paid for.
fn fit_model(
    fit: &AmResidualSsp,
    prior: &FeaturePrior,
    train: &Private<Interactions>,
    (plan, spends): (&Plan, Vec<Spend>),
    args: &TrainArgs,
) -> Result<FittedItems<FeatureModel>> {
    let total = plan.releases().len();
    let (bar, mut done) = (ReleaseBar::new(total), 0);
    let mut noise = args.output.noise();
    let fitted = fit.fit_watched(prior, train, plan, spends, &mut noise, &mut |_| {
        done += 1;
        bar.show(Progress { done, total });
    });
    Ok(fitted?)
}

/// Ratings of a user's shrunken mean before the user step: so many that there is none, since the step fits the level itself.
const NO_MEAN: f64 = 1e12;

/// The model as factors, which users fold in by the same ridge.
fn as_factors(made: &FittedItems<FeatureModel>, insecure: bool) -> Result<FittedModel> {
    let (model, step) = (&made.model, made.model.user_step());
    let scoring = Scoring {
        dim: model.dim(),
        bias: LocalBias {
            center: step.label_center,
            shrinkage: NO_MEAN,
        },
        score_model: ScoreModel::Biased,
        penalties: UserPenalties {
            offset: step.level_penalty,
            factor: step.l2_penalty,
            factor_per_record: 0.0,
        },
        unobserved_weight: None,
    };
    let provenance = if insecure {
        Provenance::SeededNoise
    } else {
        Provenance::Private
    };
    Ok(FittedModel {
        model: FactorModel::new(scoring, model.item_vectors().to_vec(), provenance)?,
        certificate: made.certificate.clone(),
        counts: None,
    })
}

#[cfg(test)]
mod tests {
    use dp_accounting::{Budget, Ledger};
    use dp_core::InteractionsBuilder;
    use dp_mechanism::NoiseSource;
    use dp_pubfeat::{AmResidualSspParams, ItemFeaturesBuilder};

    use super::*;

    #[test]
    fn factors_predict_what_the_model_predicts() {
        let mut features = ItemFeaturesBuilder::new(9, &[3]).unwrap();
        let mut data = InteractionsBuilder::new(9);
        for item in 0..9_u32 {
            features.push(item, item % 3, 1.0).unwrap();
            for user in (0..40_u32).filter(|user| (user + item) % 2 == 0) {
                let y = 1.0 + ((user * 7 + item * 5) % 9) as f32 / 2.0;
                data.push(user, item, y).unwrap();
            }
        }
        let (features, data) = (features.build(), Private::new(data.build().0));
        let target = ApproxDp::target(20.0, 1e-5).unwrap();
        let fit = AmResidualSspParams::for_target(target).check().unwrap();
        let plan = fit.plan(9, target, ADJACENCY).unwrap();
        let mut ledger =
            Ledger::in_memory("test", Budget::new(target, ADJACENCY).unwrap()).unwrap();
        let spends = ledger.reserve(&plan).unwrap();
        let prior = FeaturePrior::new(&features, PriorVariances::for_features(&features)).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(3);
        let made = fit.fit(&prior, &data, &plan, spends, noise).unwrap();
        let factors = as_factors(&made, true).unwrap().model;
        for row in data.expose().users() {
            let (own, other) = (
                made.model.fold_in(row).unwrap(),
                factors.fold_in(row).unwrap(),
            );
            for item in 0..9 {
                let (a, b) = (
                    made.model.predict(&own, item),
                    factors.predict(&other, item),
                );
                assert!((a - b).abs() < 1e-4, "{a} {b}"); // factors sum in single precision
            }
        }
    }
}
