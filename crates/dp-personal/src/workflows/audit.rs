//! `dp audit`: what complete training runs reveal, measured with planted users.
//!
//! The runs are those that `dp train`, `dp tune`, `dp personalize` and `dp federate` would make
//! with the same flags, each with a separate budget in memory: nothing of them is released, so no
//! ledger is charged.

use std::path::PathBuf;

use chacha20::ChaCha20Rng;
use dp_accounting::{Budget, Ledger};
use dp_audit::{
    AuditedRun, AuditedTrainer, Canaries, FactorizationOracle, RunAudit, RunSettings, Verdict,
    audit_run,
};
use dp_core::{
    Adjacency, ApproxDp, Interactions, ParamError, Private, UserSamples, UserSamplesBuilder,
};
use dp_data::{ItemCatalogue, LongTailRatings, TableSource};
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorizationParams, MOST_COOCCURRING, MatrixFactorization, Trainer as _};
use rand::SeedableRng;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::metric_release::{MetricRelease, with_audited_metrics, with_metrics};
use crate::output::{self, AuditReport};
use crate::prior::PriorTable;
use crate::settings::{AuditSettings, Method, TrialSettings};
use crate::watch::{Watch, begins, go_on};
use crate::workflows::input::{HeldOut, as_feedback, read, settings_for};
use crate::workflows::train::{counts_items, metric_release};

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

/// Numbers of users, items and ratings of the generated data into which users are planted.
const SHAPE: (usize, usize, usize) = (300, 200, 12_000);

/// Default number of users planted in ratings.
pub(super) const USUAL_CANARIES: usize = 200;

/// Maximum number of items of a planted user.
const MOST_ITEMS: f64 = 100.0;

/// Maximum number of canaries, and of runs.
const MOST: usize = 10_000;

/// With fewer outputs, a coin may well show only one side.
const LEAST_OUTPUTS: usize = 40;

/// Number of stored draws, 16 bytes each, above which an audit warns.
const MANY_DRAWS: usize = 1 << 27;

/// Result of an audit: measured with the exact sums of the data, and not covered by any guarantee.
#[derive(Debug, Clone)]
pub struct AuditOutcome {
    /// Whether the claim was refuted.
    pub verdict: Verdict,
    /// The results as JSON with a documented schema.
    pub json: Value,
    /// The same as text, for a terminal.
    pub text: String,
}

/// Repeats the run of a training on ratings many times with planted users, and measures what the
/// runs reveal about them. Nothing is released, and no ledger is charged.
///
/// # Errors
/// When settings are out of range or conflict, and when a file cannot be read. A refuted claim is
/// not an error.
pub fn audit(args: &AuditSettings, watch: &mut dyn Watch) -> Result<AuditOutcome> {
    // everything public is checked before the data is touched
    let table = prior(args)?;
    if args.target.method == Method::AmSsp {
        return audit_features(args, watch);
    }
    crate::item_features::refuse_flags(&args.features)?;
    let target = args.target.guarantee.target()?;
    let method = args.target.method.meant();
    let params = settings_for(method, &args.feedback, &args.settings, target)?;
    let fit = params.clone().check()?;
    let run = args.run_on(PathBuf::new());
    let metrics = metric_release(&run, fit.params().into(), counts_items(&fit)?)?;
    let metrics = metrics.as_ref();
    with_metrics(&fit, metrics, target).plan(1, target, ADJACENCY)?;
    let trials = Trials::new(&args.trials, USUAL_CANARIES)?;

    go_on(watch)?;
    let (data, catalogue) = data(args)?;
    let n_items = data.expose().n_items();
    let known = table.as_ref().zip(catalogue.as_ref());
    let with_prior = |params: FactorizationParams, n_others: usize| -> Result<_> {
        let fit = params.check()?;
        Ok(match known {
            Some((table, items)) => fit.with_prior(table.with_others(items, n_others)?)?,
            None => fit,
        })
    };
    let dim = params.dim;
    let is_voted = table.as_ref().is_some_and(|table| table.n_tastes() > 0);
    let by_rule = params.clone();
    let params = with_length(with_prior(params, 0)?, &data, target, metrics)?;
    let canaries = canaries(data, trials.n_canaries, (&params, 1.0))?;
    warn_of_memory([&params], &canaries, &trials.runs);
    let is_set = dim.is_some();
    let dim = params.dim;
    // a fixed length of 1 would leave out the votes on the prior's taste factors
    let audited = if is_voted { by_rule } else { params };
    let fit = with_prior(audited, canaries.n_items() - n_items)?;
    let run = match dim {
        Some(dim) if is_set => format!("factors of length {dim}, as set"),
        Some(dim) => format!("factors of length {dim}, by rule in a run without planted users"),
        None => "factors of a length by rule".to_owned(),
    };
    let plan = with_metrics(&fit, metrics, target).plan(canaries.n_items(), target, ADJACENCY)?;
    let audited = |plan| Ok(factorization(fit, canaries.n_items(), target)?.with_plan(plan));
    let trainer = with_audited_metrics(metrics, &plan, &canaries, audited)?;
    let what = Audited {
        data: args.ratings.as_ref(),
        dim,
        run,
    };
    what.measure(&*trainer, &canaries, &trials, watch)
}

/// The same for rounds with public features of items.
fn audit_features(args: &AuditSettings, watch: &mut dyn Watch) -> Result<AuditOutcome> {
    let Some(ratings) = &args.ratings else {
        let text = "`method` am-ssp cannot be audited on generated ratings: give `ratings` and their `items`";
        return Err(Error::Usage(text.to_owned()));
    };
    let trials = Trials::new(&args.trials, USUAL_CANARIES)?;
    let run = args.run_on(ratings.clone());
    let rounds = crate::item_features::audited(&run, trials.n_canaries, watch)?;
    let what = Audited {
        data: Some(ratings),
        dim: Some(rounds.dim),
        run: format!("item vectors of length {}, by public features", rounds.dim),
    };
    what.measure(&*rounds.trainer, &rounds.canaries, &trials, watch)
}

/// A factorisation and its oracle.
fn factorization(
    fit: MatrixFactorization,
    n_items: usize,
    target: ApproxDp,
) -> Result<AuditedTrainer<MatrixFactorization, FactorizationOracle>> {
    let oracle = FactorizationOracle::new(fit.clone());
    Ok(AuditedTrainer::new(fit, n_items, target, ADJACENCY)?.checked_by(oracle))
}

/// What is audited, for the report.
pub(crate) struct Audited<'a> {
    /// The input file; none for generated ratings.
    pub(crate) data: Option<&'a TableSource>,
    /// Length of factors, dimension of the subspace or number of features.
    pub(crate) dim: Option<usize>,
    /// Description of the run in one line.
    pub(crate) run: String,
}

impl Audited<'_> {
    /// Makes the runs.
    pub(crate) fn measure<T: AuditedRun + ?Sized>(
        self,
        trainer: &T,
        canaries: &Canaries,
        trials: &Trials,
        watch: &mut dyn Watch,
    ) -> Result<AuditOutcome> {
        let audit = measure(trainer, canaries, &trials.runs, watch)?;
        let report = AuditReport {
            audit: &audit,
            data: self.data,
            n_canaries: canaries.len(),
            dim: self.dim,
            run: self.run,
        };
        Ok(AuditOutcome {
            verdict: audit.verdict,
            json: report.json()?,
            text: report.text(),
        })
    }
}

/// Size of the audit.
pub(crate) struct Trials {
    pub(crate) n_canaries: usize,
    pub(crate) runs: RunSettings,
}

impl Trials {
    /// Uses `usual` canaries if no number is given.
    ///
    /// # Errors
    /// When a number is out of range, or there would be too few outputs.
    pub(crate) fn new(args: &TrialSettings, usual: usize) -> Result<Self> {
        let n_canaries = args.n_canaries.unwrap_or(usual);
        for (name, value) in [("n_canaries", n_canaries), ("n_runs", args.n_runs)] {
            if !(1..=MOST).contains(&value) {
                return Err(bad(name, value as f64, "a whole number from 1 to 10000"));
            }
        }
        let n_outputs = n_canaries * args.n_runs;
        if n_outputs < LEAST_OUTPUTS {
            return Err(Error::Usage(format!(
                "`n_canaries` times `n_runs` is {n_outputs}; expected 40 or more, so that users are seen both present and absent"
            )));
        }
        if !(args.confidence > 0.5 && args.confidence < 1.0) {
            let expected = "a number above 0.5 and below 1";
            return Err(bad("confidence", args.confidence, expected));
        }
        let runs = RunSettings {
            n_runs: args.n_runs,
            confidence: args.confidence,
            coin_seed: args.generated.data_seed,
            ..RunSettings::default()
        };
        Ok(Self { n_canaries, runs })
    }
}

/// The mean label of planted users, beyond every range.
const FAR: f32 = 1e30;

/// Users with rows, and planted users whose rows are along axes that no other user has.
pub(crate) struct PlantedRows {
    pub(crate) canaries: Canaries,
    /// Samples of the same shape, without users.
    pub(crate) nobody: UserSamples,
    /// Number of features in a row, including those axes.
    pub(crate) dim: usize,
}

impl PlantedRows {
    /// Adds `n_canaries` users to the given ones, each with `n_rows` rows on `axes_each` axes in
    /// turn; `row` gives norm and label of a row by its number.
    ///
    /// # Errors
    /// When rows have the wrong width.
    pub(crate) fn new(
        users: &UserSamples,
        (n_canaries, axes_each, n_rows): (usize, usize, usize),
        row: impl Fn(usize) -> (f32, f32),
    ) -> Result<Self> {
        let common = users.n_features();
        let dim = common + n_canaries * axes_each;
        let n_users = users.table().expose().n_users();
        let most = (0..n_users).map(|user| users.rows(user).iter().count());
        let max_rows = most.max().unwrap_or(0).max(n_rows);
        let new = |max_rows| {
            let builder = UserSamplesBuilder::new(dim, max_rows)?;
            Ok::<_, Error>(match users.has_levels() {
                true => builder.with_levels(),
                false => builder,
            })
        };
        let mut base = new(max_rows)?;
        for user in 0..n_users {
            let number = u32::try_from(user).unwrap_or(u32::MAX);
            base.push(number, &vec![f32::NAN; dim], 0.0)
                .map_err(dp_audit::Error::from)?; // known even without rows
            let rows = users.rows(user);
            if let Some([mean, deviation]) = rows.level().filter(|_| users.has_levels()) {
                base.set_level(number, mean, deviation);
            }
            for (x, y) in rows.iter() {
                let mut longer = x.to_vec();
                longer.resize(dim, 0.0);
                base.push(number, &longer, y)
                    .map_err(dp_audit::Error::from)?;
            }
        }
        let nobody = new(users.max_rows())?.build().0;
        let mut alone = new(max_rows)?;
        for canary in 0..n_canaries {
            let number = u32::try_from(canary).unwrap_or(u32::MAX);
            alone.set_level(number, FAR, FAR);
            for at in 0..n_rows {
                let (length, label) = row(at);
                let mut x = vec![0.0; dim];
                x[common + canary * axes_each + at % axes_each] = length;
                alone
                    .push(number, &x, label)
                    .map_err(dp_audit::Error::from)?;
            }
        }
        let table = |rows: UserSamplesBuilder| rows.build().0.table().expose().clone();
        let canaries = Canaries::of_users(Private::new(table(base)), table(alone))?;
        Ok(Self {
            canaries,
            nobody,
            dim,
        })
    }
}

fn bad(name: &'static str, value: f64, expected: &'static str) -> Error {
    let error = ParamError {
        name,
        value,
        expected,
    };
    error.into()
}

/// The prior of the audited run, if it has one.
fn prior(args: &AuditSettings) -> Result<Option<PriorTable>> {
    let (method, feedback) = (args.target.method.meant(), args.feedback.feedback);
    if args.prior.opt_in.is_some() {
        let text = "`opt_in` is not supported by `dp audit`: audit a run with the `prior` that `dp evidence` makes from the ratings of these users";
        return Err(Error::Usage(text.to_owned()));
    }
    let table = PriorTable::of_run(&args.prior, method, feedback, None)?;
    if table.is_some() && args.ratings.is_none() {
        let text = "`prior` needs `ratings`: a table knows no generated items";
        return Err(Error::Usage(text.to_owned()));
    }
    Ok(table)
}

/// The training data of a run and their items: the part of the ratings that is not held out, or
/// generated ratings.
pub(super) fn data(args: &AuditSettings) -> Result<(Private<Interactions>, Option<ItemCatalogue>)> {
    let Some(path) = &args.ratings else {
        let (n_users, n_items, n_ratings) = SHAPE;
        let mut rng = ChaCha20Rng::seed_from_u64(args.trials.generated.data_seed);
        let ratings = LongTailRatings::new(n_users, n_items, n_ratings).generate(&mut rng)?;
        let ratings = as_feedback(&args.feedback, ratings)?;
        let data = Private::new(ratings.interactions().expose().clone());
        return Ok((data, None));
    };
    let ratings = read(path, &args.input, &args.feedback, None)?;
    let data = HeldOut::new(&args.feedback, &args.split, &ratings)?.into_train();
    Ok((data, Some(ratings.catalogue().clone())))
}

/// The settings with the factor dimension of a run without planted users. The rule uses the mean
/// count of an item, which the items of the planted users would lower. Likes that are learned from
/// co-occurrences, or not at all, keep the dimension by rule, so that every run decides again.
pub(super) fn with_length(
    fit: MatrixFactorization,
    data: &Private<Interactions>,
    target: ApproxDp,
    metrics: Option<&MetricRelease>,
) -> Result<FactorizationParams> {
    let mut params = fit.params().clone();
    if params.dim.is_none() {
        let whole = with_metrics(&fit, metrics, target);
        let mut plan = whole.plan(data.expose().n_items(), target, ADJACENCY)?;
        if metrics.is_some() {
            plan = plan.part(0..plan.releases().len() - 1)?;
        }
        let spends = Ledger::in_memory("audit", Budget::new(target, ADJACENCY)?)?.reserve(&plan)?;
        let mut noise = NoiseSource::operating_system();
        let fitted = fit.fit(data, &plan, spends, &mut noise)?;
        // co-occurrences and popularity have no length that settings could ask for
        let by_rounds = !fitted.model.is_of_cooccurrences() && fitted.model.n_tastes() > 0;
        if by_rounds || !params.considers_cooccurrences() {
            params.dim = Some(1 + fitted.model.n_tastes());
        }
    }
    Ok(params)
}

/// Users planted in the data. Each has so many items that the number of them in the training part
/// is the number that the bound on counts lets one user have in full, and rates them far beyond
/// every bound, so that each bound is attained. With implicit feedback any rating is a positive.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1..=100; the bounds of centre and label keep the rating in the range of f32"
)]
pub(super) fn canaries(
    data: Private<Interactions>,
    n_canaries: usize,
    (params, trained_on): (&FactorizationParams, f64),
) -> Result<Canaries> {
    let items = params.count_clip_norm.powi(2) / trained_on;
    let items_each = items.ceil().clamp(1.0, MOST_ITEMS) as usize;
    let rating = params.label_center + 1e4 * params.label_bound;
    Ok(Canaries::new(data, n_canaries, items_each, rating as f32)?)
}

pub(super) fn warn_of_memory<'p>(
    all: impl IntoIterator<Item = &'p FactorizationParams>,
    canaries: &Canaries,
    trials: &RunSettings,
) {
    let per_item = |params: &FactorizationParams| {
        let dim = params.dim.unwrap_or(1);
        let pairs = match params.considers_cooccurrences() {
            true => canaries.n_items().min(MOST_COOCCURRING) / 2,
            false => 0,
        };
        1 + params.n_rounds * (dim * (dim + 3) / 2).max(pairs)
    };
    let per_item = all.into_iter().map(per_item).sum::<usize>();
    let draws = [per_item, canaries.n_items(), trials.n_runs]
        .into_iter()
        .fold(1, usize::saturating_mul);
    if draws > MANY_DRAWS {
        output::warn(&format!(
            "this audit keeps {:.0} million draws in memory, about {:.0} GB; fewer runs or \
             canaries need less",
            draws as f64 * 1e-6,
            draws as f64 * 16e-9
        ));
    }
}

fn measure<T: AuditedRun + ?Sized>(
    trainer: &T,
    canaries: &Canaries,
    trials: &RunSettings,
    watch: &mut dyn Watch,
) -> Result<RunAudit> {
    let mut n_begun = 0;
    let fresh_noise = || {
        begins(watch, n_begun, trials.n_runs);
        n_begun += 1;
        NoiseSource::operating_system()
    };
    Ok(audit_run(trainer, canaries, trials, fresh_noise)?)
}

#[cfg(test)]
mod tests {
    use dp_audit::View;
    use dp_core::Gdp;

    use super::*;
    use crate::watch::Silent;

    /// A run that claims half of its true cost.
    struct Liar<T>(T);

    impl<T: AuditedRun> AuditedRun for Liar<T> {
        fn claim(&self) -> (ApproxDp, Gdp) {
            let (mut claimed, gdp) = self.0.claim();
            claimed.epsilon *= 0.5;
            (claimed, Gdp { mu: 0.5 * gdp.mu })
        }

        fn train(
            &self,
            data: &Private<Interactions>,
            canaries: &Interactions,
            noise: &mut NoiseSource,
        ) -> dp_audit::Result<Vec<View>> {
            self.0.train(data, canaries, noise)
        }
    }

    /// The white-box estimate is within a few percent of twice the claim, whatever the noise.
    #[test]
    fn a_claim_that_is_too_small_is_refuted_in_words_and_by_the_verdict() {
        let target = ApproxDp::target(8.0, 1e-5).unwrap();
        let mut params = FactorizationParams::for_target(target);
        (params.dim, params.n_rounds) = (Some(1), 1);
        let data = Private::new(dp_core::InteractionsBuilder::new(5).build().0);
        let canaries = canaries(data, 30, (&params, 1.0)).unwrap();
        let fit = params.check().unwrap();
        let trainer = factorization(fit, canaries.n_items(), target).unwrap();
        let settings = RunSettings {
            n_runs: 2,
            ..RunSettings::default()
        };
        let audit = measure(&Liar(trainer), &canaries, &settings, &mut Silent).unwrap();
        assert!(audit.verdict.is_violated());
        let report = AuditReport {
            audit: &audit,
            data: None,
            n_canaries: 30,
            dim: Some(1),
            run: String::new(),
        };
        let text = report.text();
        for part in ["REFUTED", "failed: white-box mu above the claim"] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
        assert_eq!(report.json().unwrap()["verdict"], "violated");
    }
}
