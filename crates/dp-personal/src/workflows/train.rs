//! `dp train`: from ratings to private item factors and their certificate.

use dp_accounting::{Certificate, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, Scratch};
use dp_data::{CatalogueSource, Ratings};
use dp_mechanism::NoiseSource;
use dp_multitask::{
    FactorModel, FactorizationParams, ItemPrior, MatrixFactorization, Observer, Round, Trainer,
};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::evaluate::{self, Baseline, Evaluation, POPULARITY, USER_MEAN};
use crate::metric_release::{Measured, MetricRelease, OwnMetrics, TrainedAndHeldOut, with_metrics};
use crate::output::TrainSettings as ReleasedSettings;
use crate::output::{HeldOutBy, Seconds, TrainRelease, TrainReport, catalogue_sha256};
use crate::personal::reserve_in_memory;
use crate::prior::{OptIn, PriorTable};
use crate::quality::Verdict;
use crate::settings::{FactorSettings, FeedbackKind, Given, Method, SplitSettings, TrainSettings};
use crate::warnings;
use crate::watch::{Watch, Watched, go_on};
use crate::workers::{Dealing, Place};
use crate::workflows::input::{HeldOut, check_items, read, settings_for};
use crate::workflows::private_run::{Clock, Opened, Opening};

/// Key of the hash of the prior among the inputs that determine a run.
pub(crate) const PRIOR_SHA256: &str = "prior_sha256";
/// Key of the hash of the list of unprotected users.
pub(crate) const OPT_IN_SHA256: &str = "opt_in_sha256";
pub(crate) const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

/// The releases that [`train`] will make with these settings, and its guarantee: public, and known
/// before any data are read. Neither noise nor cost depends on the number of items, which is set to
/// 1.
///
/// # Errors
/// When settings are out of range or conflict.
pub fn plan(args: &TrainSettings) -> Result<Plan> {
    if args.target.method == Method::AmSsp {
        return crate::item_features::plan(args);
    }
    Ok(checked(args)?.draft)
}

/// Values that follow from settings alone.
struct Checked {
    target: ApproxDp,
    fit: MatrixFactorization,
    metrics: Option<MetricRelease>,
    draft: Plan,
    table: Option<PriorTable>,
    opt_in: Option<OptIn>,
}

/// Checks everything public before the data are read.
fn checked(args: &TrainSettings) -> Result<Checked> {
    crate::item_features::refuse_flags(&args.features)?;
    let target = args.target.guarantee.target()?;
    let method = args.target.method.meant();
    let params = settings_for(method, &args.feedback, &args.settings, target)?;
    let ledger = Some(&args.ledger);
    let table = PriorTable::of_run(&args.prior, method, args.feedback.feedback, ledger)?;
    let opt_in = args.prior.opt_in.as_deref().map(OptIn::read).transpose()?;
    let fit = params.check()?;
    let metrics = metric_release(args, fit.params().into(), counts_items(&fit)?)?;
    // neither noise nor cost depends on the number of items; a table made of ratings has taste
    // factors, unless it has too few of them
    let n_tastes = match (&table, &opt_in) {
        (Some(table), _) => table.n_tastes(),
        (None, opt_in) => usize::from(opt_in.is_some()),
    };
    let draft = match n_tastes {
        0 => fit.clone(),
        n => (fit.clone()).with_prior(ItemPrior::new(vec![0.0; n], n, 0..n)?)?,
    };
    let draft = with_metrics(&draft, metrics.as_ref(), target).plan(1, target, ADJACENCY)?;
    Ok(Checked {
        target,
        fit,
        metrics,
        draft,
        table,
        opt_in,
    })
}

/// Trains private item factors on a file of ratings and writes a release folder.
///
/// # Errors
/// Before anything is read, when settings are out of range or conflict, when the output exists or
/// when the ledger's budget is too small; after that, when the data cannot be read or the folder
/// cannot be written.
///
/// # Privacy
/// The contents of the folder are covered by its certificate; measurements on private data go to a
/// separate folder. The run is paid for in the ledger before any noise is drawn.
pub fn train(args: &TrainSettings, watch: &mut dyn Watch) -> Result<TrainOutcome> {
    train_at(args, watch, Place::Alone)
}

/// [`train`] with users in several processes: see [`crate::workers`].
///
/// # Errors
/// As [`train`]; [`Error::WorkerDone`] at a worker that has sent its sums; errors of the links.
///
/// # Privacy
/// As [`train`]. Exact sums are sent over the links.
pub fn train_at(
    args: &TrainSettings,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<TrainOutcome> {
    if args.target.method == Method::AmSsp {
        PriorTable::of_run(&args.prior, Method::AmSsp, args.feedback.feedback, None)?;
        return crate::item_features::train(args, watch, place);
    }
    let Checked {
        target,
        fit,
        metrics,
        draft,
        mut table,
        opt_in,
    } = checked(args)?;
    if opt_in.is_some() && (!matches!(place, Place::Alone) || args.memory.memory.is_some()) {
        let text = "`opt_in` is for one process that keeps its ratings in memory";
        return Err(Error::Usage(text.to_owned()));
    }
    let scratch = scratch(args, &place)?;
    let method = args.target.method.meant();
    let opened = opening(args, &place)?.open(&draft, place)?;

    go_on(watch)?;
    let mut clock = Clock::start();
    let mut ratings = read(&args.ratings, &args.input, &args.feedback, scratch)?;
    if let Some(opt_in) = &opt_in {
        table = Some(opt_in.table(&ratings)?);
        ratings = opt_in.protected(&ratings);
    }
    let mut opened = opened.bind(&ratings)?;

    let mut assumed = assumptions(args, &ratings, &opened);
    let mut fit = fit;
    let mut prior = None;
    if let Some(table) = table {
        let file = table.file(ratings.catalogue())?;
        let sha256 = dp_accounting::sha256_hex(&file);
        let (n, known) = (
            ratings.catalogue().len(),
            table.n_known(ratings.catalogue()),
        );
        if 2 * known < n {
            crate::output::warn(&format!(
                "`prior` covers only {known} of the {n} items: check that it describes these items and uses their ids"
            ));
        }
        assumed.push(table.assumption(&sha256));
        fit = fit.with_prior(table.of(ratings.catalogue())?)?;
        prior = Some((file, sha256));
    }
    let fit = with_assumptions(fit, &assumed);
    let trainer = with_metrics(&fit, metrics.as_ref(), target);
    let plan = trainer.plan(ratings.catalogue().len(), target, ADJACENCY)?;
    go_on(watch)?;
    let mut rounds = Rounds::for_split(&args.split);
    let mut own = json!({
        "method": method.name(),
        "settings": fit.params(),
        "items_sha256": catalogue_sha256(ratings.catalogue())?,
    });
    if let Some((_, sha256)) = &prior {
        own[PRIOR_SHA256] = json!(sha256);
    }
    if let Some(opt_in) = &opt_in {
        own[OPT_IN_SHA256] = json!(opt_in.sha256());
    }
    MetricRelease::put(metrics.as_ref(), &mut own);
    let public = opened.public("train", args, &assumed, own)?;
    let parts = Parts::new(args, ratings, &opened, &public)?;
    let (ratings, own) = (&parts.ratings, parts.own());
    let load = clock.lap();
    let noise = &mut args.output.noise();
    let mut watched = Watched::begin(watch, &plan)?.with_rounds(&mut rounds);
    let run = opened.run(&plan, &public);
    let data = TrainedAndHeldOut {
        train: own.train(),
        scored: &|model| scored_by_releases(model, own),
    };
    let fitted = run.train(&trainer, &data, noise, &mut watched, |n_made| {
        fit.n_rounds_after(n_made) > 0
    })?;
    let fitted = Measured::certified(fitted);
    let unused = args.settings.of_alternating_minimisation();
    if fitted.model.is_of_cooccurrences() && !unused.is_empty() {
        crate::output::warn(&format!(
            "{} had no effect: item factors were learned from co-occurrences of likes, and not by alternating \
             minimisation, which `dim` asks for",
            unused.join(", ")
        ));
    }
    let release = TrainRelease {
        fitted: &fitted,
        method,
        params: fit.params(),
        ratings,
        held_out: held_out_by(args),
        comparison: None,
        prior: prior.map(|(file, _)| file),
        run: Some(&public),
    };
    let rounds = rounds.0.unwrap_or_default();
    finish(
        opened,
        (args, &plan, noise),
        &release,
        &parts.all,
        rounds,
        (load, clock),
    )
}

/// The bound on labels, in data units or in units that are learned.
#[derive(Clone, Copy)]
pub(crate) struct LabelBound {
    pub(crate) bound: f64,
    pub(crate) in_learnt_unit: bool,
}

impl From<&FactorizationParams> for LabelBound {
    fn from(params: &FactorizationParams) -> Self {
        Self {
            bound: params.label_bound,
            in_learnt_unit: params.releases_scale(),
        }
    }
}

/// The settings of the run's release of held-out metrics. The baseline is available to users from
/// the releases and their own records.
pub(crate) fn metric_release(
    args: &TrainSettings,
    label: LabelBound,
    counts_items: bool,
) -> Result<Option<MetricRelease>> {
    let Some(share) = args.output.metrics.share()? else {
        return Ok(None);
    };
    Ok(Some(match args.feedback.feedback {
        FeedbackKind::Explicit => {
            let given = args.output.metrics.metric_bound;
            let in_learnt_unit = given.is_none() && label.in_learnt_unit;
            let bound = if in_learnt_unit { 1.0 } else { label.bound };
            let bound = given.unwrap_or(2.0 * bound);
            MetricRelease {
                in_learnt_unit,
                ..MetricRelease::of_ratings(share, bound, Some(USER_MEAN.to_owned()))
            }
        }
        FeedbackKind::Implicit => {
            MetricRelease::of_lists(share, counts_items.then(|| POPULARITY.to_owned()))
        }
    }))
}

/// Whether a run with these settings releases the counts of items, in addition to a model that is
/// more than these.
pub(super) fn counts_items(fit: &MatrixFactorization) -> Result<bool> {
    if fit.params().n_rounds == 0 {
        return Ok(false);
    }
    let requests = fit.requests(1, ADJACENCY)?;
    let Requests::Shares(shares) = requests else {
        return Ok(false);
    };
    let mut labels = shares.iter().map(|request| request.label.as_str());
    Ok(labels.any(|label| label.ends_with("item counts")))
}

/// Users' scores by the model and by a baseline, from released values and each user's own records
/// alone.
pub(crate) fn scored_by_releases(
    model: &FactorModel,
    split: &HeldOut,
) -> Result<Vec<Option<OwnMetrics>>> {
    let baseline = match (split, model.counts()) {
        (HeldOut::Ratings(_), _) => Some(Baseline::UserMean(model.scoring().bias.center)),
        (HeldOut::Users(_), counts) => counts.map(|of| Baseline::Popularity(POPULARITY, of)),
    };
    let baseline: Vec<Baseline<'_>> = baseline.into_iter().collect();
    let scored = evaluate::scored(model, split, &baseline)?;
    Ok(OwnMetrics::of_columns(&scored))
}

/// The disk storage for the ratings of a run, if they stay on disk.
///
/// # Errors
/// When files cannot be created in the folder, or the run has several processes, which keep their
/// users in memory.
pub(crate) fn scratch(args: &TrainSettings, place: &Place<'_>) -> Result<Option<Scratch>> {
    if args.memory.memory.is_some() && !matches!(place, Place::Alone) {
        let text = "`memory` is for one process: each of several keeps its users in memory";
        return Err(Error::Usage(text.to_owned()));
    }
    args.memory.scratch(&args.output.out)
}

/// The inputs that a training on ratings opens.
pub(crate) fn opening<'a>(args: &'a TrainSettings, place: &Place<'_>) -> Result<Opening<'a>> {
    check_items(&args.input)?;
    args.input.columns.format(args.feedback.needs_values())?;
    if place.dealing() != Dealing::ByRun && args.input.items.is_none() {
        let text = "with users in several processes the items must be declared: give `items`, a public catalogue";
        return Err(Error::Usage(text.to_owned()));
    }
    let (catalogue, columns) = (args.input.items.as_deref(), &args.input.columns);
    Ok(Opening {
        catalogue: catalogue.map(|items| {
            let named = [&columns.user_col, &columns.item_col];
            (items, named.map(Option::as_ref))
        }),
        data: &args.ratings,
        inputs: ([&args.input.items, &args.prior.prior, &args.prior.opt_in].into_iter())
            .filter_map(|file| file.as_deref())
            .collect(),
        ledger: &args.ledger,
        resume: &args.resume,
        output: &args.output,
    })
}

/// The ratings, and their training and test parts.
pub(crate) struct Parts {
    /// Ratings of all users; at a worker, of its own.
    pub(crate) ratings: Ratings,
    /// The parts of these ratings, for measurements.
    pub(crate) all: HeldOut,
    /// The parts of the users in this process's shard, if that is not everything.
    shard: Option<HeldOut>,
}

impl Parts {
    /// [Distributes](Opened::deal) the users over the processes of the run. The part of a record
    /// follows from its ids, so the parts of a shard are a shard of the parts.
    pub(crate) fn new(
        args: &TrainSettings,
        ratings: Ratings,
        opened: &Opened<'_>,
        public: &Value,
    ) -> Result<Self> {
        let (ratings, shard) = opened.deal(public, ratings, |all, keep| all.of_users(keep))?;
        let parts = |of: &Ratings| HeldOut::new(&args.feedback, &args.split, of);
        Ok(Self {
            all: parts(&ratings)?,
            shard: shard.as_ref().map(parts).transpose()?,
            ratings,
        })
    }

    /// The training data of this process.
    pub(crate) fn own(&self) -> &HeldOut {
        self.shard.as_ref().unwrap_or(&self.all)
    }
}

/// Writes the release, then measures it, also after each of `rounds`, and compares it with other
/// uses of the same budget. `seconds` is the time to load, and the clock has run since then.
pub(crate) fn finish<S: ReleasedSettings>(
    mut opened: Opened<'_>,
    (args, plan, noise): (&TrainSettings, &Plan, &mut NoiseSource),
    release: &TrainRelease<'_, S>,
    split: &HeldOut,
    rounds: Vec<(Vec<f64>, usize)>,
    (load, mut clock): (f64, Clock),
) -> Result<TrainOutcome> {
    let train = clock.lap();
    opened.write(release)?;
    if opened.has_no_users() {
        opened.found(vec![warnings::USERS_ELSEWHERE.to_owned()]);
    } else {
        opened.found(warnings::of_ratings(release.ratings, plan.target().delta));
        let scale = release.fitted.model.scale().map(|of| of.unit);
        if let Some(bound) = scale.or(release.params.label_bound()) {
            let settings = &args.settings;
            let is_given = settings.rating_range.is_some() || settings.label_bound.is_some();
            opened.found(warnings::of_scale(release.ratings, bound, is_given));
        }
    }
    let is_measured = !args.split.no_split && !opened.has_no_users();
    let fitted = release.fitted;
    let (json, summary, verdict) = opened.close(plan, || {
        tracing::info!("measuring on held-out ratings");
        let others = match is_measured {
            true => WholeBudget::new(args, &fitted.model, split, noise),
            false => WholeBudget::default(),
        };
        Ok(TrainReport {
            release,
            metrics: Evaluation::measure(fitted, split, &others.baselines())?,
            by_round: Evaluation::by_round(fitted, rounds, split)?,
            seconds: Seconds {
                load,
                train,
                evaluate: clock.lap(),
            },
        })
    })?;
    Ok(TrainOutcome {
        certificate: fitted.certificate.clone(),
        model: fitted.model.clone(),
        json,
        summary,
        verdict,
    })
}

/// Models that spend the whole budget on the simplest release: measured, and discarded.
#[derive(Default)]
struct WholeBudget {
    /// For ratings, unless the model itself is one of item biases.
    biases: Option<FactorModel>,
    /// For lists, unless the run itself is one of popularity.
    popularity: Option<FactorModel>,
}

impl WholeBudget {
    /// Callers cannot see whether these models can be made: one that fails is left out.
    fn new(
        args: &TrainSettings,
        model: &FactorModel,
        split: &HeldOut,
        noise: &mut NoiseSource,
    ) -> Self {
        let train = split.train();
        let is_of_lists = matches!(split, HeldOut::Users(_));
        let biases = !is_of_lists && model.dim() > 1;
        let popularity = is_of_lists && args.target.method != Method::Popularity;
        let mut made = |method, is_wanted: bool| {
            let made = is_wanted.then(|| trained_alone(method, args, train, noise).ok());
            made.flatten()
        };
        Self {
            biases: made(Method::Biases, biases),
            popularity: made(Method::Popularity, popularity),
        }
    }

    fn baselines(&self) -> Vec<Baseline<'_>> {
        let biases = self.biases.as_ref();
        let biases = biases.map(|of| Baseline::Model("item biases (private, whole budget)", of));
        let counts = self.popularity.as_ref().and_then(FactorModel::counts);
        let counts =
            counts.map(|of| Baseline::Popularity("popularity (private, whole budget)", of));
        biases.into_iter().chain(counts).collect()
    }
}

/// The model of a method that uses the whole budget, with the other settings of a run.
fn trained_alone(
    method: Method,
    args: &TrainSettings,
    train: &Private<Interactions>,
    noise: &mut NoiseSource,
) -> Result<FactorModel> {
    let target = args.target.guarantee.target()?;
    let settings = match method {
        Method::Popularity => {
            let none = Given::default().settings::<FactorSettings>();
            none.map_err(|error| Error::Usage(error.to_string()))?
        }
        _ => FactorSettings {
            dim: None,
            ..args.settings.clone()
        },
    };
    let fit = settings_for(method, &args.feedback, &settings, target)?.check()?;
    let plan = fit.plan(train.expose().n_items(), target, ADJACENCY)?;
    Ok(fit
        .fit(train, &plan, reserve_in_memory(&plan)?, noise)?
        .model)
}

/// Results of a training run.
#[derive(Debug, Clone)]
pub struct TrainOutcome {
    /// The certificate of everything that was released.
    pub certificate: Certificate,
    /// The released factors.
    pub model: FactorModel,
    /// Released values and, separately, internal ones, as JSON with a documented schema.
    pub json: Value,
    /// The same as text, for a terminal.
    pub summary: String,
    /// Whether the best baseline is better: by released metrics if the run released some, otherwise
    /// by private ones, and then only with `show_internal` or `fail_if_worse`.
    pub verdict: Option<Verdict>,
}

/// What these flags hold out, for later tests of the model.
pub(crate) const fn held_out_by(args: &TrainSettings) -> HeldOutBy {
    HeldOutBy {
        no_split: args.split.no_split,
        split_seed: args.split.split_seed,
        min_rating: args.feedback.min_rating,
    }
}

/// The factors after every round, and their dimension; none if nothing is held out to measure them
/// on.
struct Rounds(Option<Vec<(Vec<f64>, usize)>>);

impl Rounds {
    fn for_split(split: &SplitSettings) -> Self {
        Self((!split.no_split).then(Vec::new))
    }
}

impl Observer for Rounds {
    fn round(&mut self, round: &Round<'_>) {
        if let (Some(kept), 1..) = (&mut self.0, round.round) {
            kept.push((round.parameters.to_vec(), round.shape.1));
        }
    }
}

pub(super) fn with_assumptions(
    fit: MatrixFactorization,
    assumed: &[String],
) -> MatrixFactorization {
    let all = assumed.iter().cloned();
    all.fold(fit, MatrixFactorization::assuming)
}

/// The assumptions of the run about its inputs.
pub(crate) fn assumptions(
    args: &TrainSettings,
    ratings: &Ratings,
    opened: &Opened<'_>,
) -> Vec<String> {
    let mut all = Vec::new();
    match ratings.catalogue_source() {
        CatalogueSource::FromRatings => all.push("item ids of the input are public".to_owned()),
        // am-ssp says it of the whole table
        CatalogueSource::Declared if args.target.method == Method::AmSsp => {}
        CatalogueSource::Declared => {
            all.push("the catalogue is public and does not follow from the ratings".to_owned());
        }
    }
    let given = args.input.columns.user_col.as_ref();
    all.push(opened.unit(ratings.user_column(), given));
    all.extend(opened.dealing_assumptions(&args.ledger));
    all.push(args.ledger.assumption().to_owned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_kept_only_where_they_can_be_measured() {
        for (no_split, kept) in [(false, Some(vec![(vec![1.5], 1)])), (true, None)] {
            let mut rounds = Rounds::for_split(&SplitSettings {
                split_seed: 0,
                no_split,
            });
            for round in 0..2 {
                rounds.round(&Round {
                    round,
                    parameters: &[round as f64 + 0.5],
                    shape: (1, 1),
                    local: None,
                });
            }
            assert_eq!(rounds.0, kept);
        }
    }
}
