//! `dp train`: ratings in, private item factors and their certificate out.

use dp_accounting::{Certificate, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, Scratch};
use dp_data::{CatalogueSource, Ratings};
use dp_mechanism::NoiseSource;
use dp_multitask::{
    FactorModel, FactorizationParams, MatrixFactorization, Observer, Round, Trainer,
};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::evaluate::{self, Baseline, Evaluation, POPULARITY, USER_MEAN};
use crate::metric_release::{Measured, MetricRelease, OwnMetrics, TrainedAndHeldOut, with_metrics};
use crate::output::TrainSettings as ReleasedSettings;
use crate::output::{HeldOutBy, Seconds, TrainRelease, TrainReport, catalogue_sha256};
use crate::personal::reserve_in_memory;
use crate::prior::PriorTable;
use crate::quality::Verdict;
use crate::settings::{FactorSettings, FeedbackKind, Given, Method, SplitSettings, TrainSettings};
use crate::warnings;
use crate::watch::{Watch, Watched, go_on};
use crate::workers::{Dealing, Place};
use crate::workflows::input::{HeldOut, check_items, read, settings_for};
use crate::workflows::private_run::{Clock, Opened, Opening, unit_of};

/// Under which name the hash of the prior stands among what shapes a run.
pub(crate) const PRIOR_SHA256: &str = "prior_sha256";
pub(crate) const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

/// What [`train`] will release with these settings, and its guarantee: public, and known before any data is read. Neither noise nor cost depends on the
/// number of items, which is taken for 1.
///
/// # Errors
/// When settings are out of range or do not go together.
pub fn plan(args: &TrainSettings) -> Result<Plan> {
    if args.target.method == Method::AmSsp {
        return crate::item_features::plan(args);
    }
    Ok(checked(args)?.draft)
}

/// What follows from settings alone.
struct Checked {
    target: ApproxDp,
    fit: MatrixFactorization,
    metrics: Option<MetricRelease>,
    draft: Plan,
    table: Option<PriorTable>,
}

/// Everything public, checked before the data is touched.
fn checked(args: &TrainSettings) -> Result<Checked> {
    crate::item_features::refuse_flags(&args.features)?;
    let target = args.target.guarantee.target()?;
    let method = args.target.method.meant();
    let mut params = settings_for(method, &args.feedback, &args.settings, target)?;
    let mut table = None;
    if let Some(path) = &args.prior.prior {
        if method != Method::Pooled || args.feedback.feedback != FeedbackKind::Explicit {
            let text = "`prior` is for ratings by `method` auto or pooled";
            return Err(Error::Usage(text.to_owned()));
        }
        params = args.settings.over(params.with_public_tastes());
        table = Some(PriorTable::read(path)?);
    }
    let fit = params.check()?;
    let metrics = metric_release(args, fit.params().into(), counts_items(&fit)?)?;
    // neither noise nor cost depends on the number of items
    let draft = with_metrics(&fit, metrics.as_ref(), target).plan(1, target, ADJACENCY)?;
    Ok(Checked {
        target,
        fit,
        metrics,
        draft,
        table,
    })
}

/// Trains private item factors on a file of ratings and writes a release folder.
///
/// # Errors
/// Before anything is read when settings are out of range or do not go together, when the output exists or when the ledger has
/// no room; after that when the data cannot be read or the folder cannot be written.
///
/// # Privacy
/// What the folder holds is covered by its certificate; what is measured on private data goes to a folder beside it. The run is paid for
/// in the ledger before any noise is drawn.
pub fn train(args: &TrainSettings, watch: &mut dyn Watch) -> Result<TrainOutcome> {
    train_at(args, watch, Place::Alone)
}

/// [`train`] with users in several processes: see [`crate::workers`].
///
/// # Errors
/// As [`train`]; [`Error::WorkerDone`] at a worker that has sent its sums; those of the links.
///
/// # Privacy
/// As [`train`]. Exact sums go over the links.
pub fn train_at(
    args: &TrainSettings,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<TrainOutcome> {
    if args.target.method == Method::AmSsp {
        return crate::item_features::train(args, watch, place);
    }
    let Checked {
        target,
        fit,
        metrics,
        draft,
        table,
    } = checked(args)?;
    let scratch = scratch(args, &place)?;
    let method = args.target.method.meant();
    let opened = opening(args, &place)?.open(&draft, place)?;

    go_on(watch)?;
    let mut clock = Clock::start();
    let ratings = read(&args.ratings, &args.input, &args.feedback, scratch)?;
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
                "`prior` has lines for {known} of the {n} items: is it about these items, and are its ids theirs?"
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

/// The bound on labels, data units, or units that are learnt.
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

/// What the run is to release of held-out metrics. The baseline is what users could have from the releases and their own records.
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

/// Whether a run of these settings releases the counts of items, beside a model that is more than these.
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

/// What users score by the model, and by what they have without it: from released values and each user's own records alone.
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

/// Where the ratings of a run stay on disk, where they do.
///
/// # Errors
/// When the folder takes no files, or the run has several processes, which keep their users in memory.
pub(crate) fn scratch(args: &TrainSettings, place: &Place<'_>) -> Result<Option<Scratch>> {
    if args.memory.memory.is_some() && !matches!(place, Place::Alone) {
        let text = "`memory` is for one process: each of several keeps its users in memory";
        return Err(Error::Usage(text.to_owned()));
    }
    args.memory.scratch(&args.output.out)
}

/// What a training on ratings opens.
pub(crate) fn opening<'a>(args: &'a TrainSettings, place: &Place<'_>) -> Result<Opening<'a>> {
    check_items(&args.input)?;
    if place.dealing() != Dealing::ByRun && args.input.items.is_none() {
        let text = "users are at workers, which would each find other items: give `items`, a public catalogue";
        return Err(Error::Usage(text.to_owned()));
    }
    let (catalogue, columns) = (args.input.items.as_deref(), &args.input.columns);
    Ok(Opening {
        catalogue: catalogue.map(|items| {
            let named = [&columns.user_col, &columns.item_col];
            (items, named.map(Option::as_ref))
        }),
        data: &args.ratings,
        inputs: ([&args.input.items, &args.prior.prior].into_iter())
            .filter_map(|file| file.as_deref())
            .collect(),
        ledger: &args.ledger,
        resume: &args.resume,
        output: &args.output,
    })
}

/// The ratings, and the parts of them to train and to test on.
pub(crate) struct Parts {
    /// Those of all users; at a worker, of its own.
    pub(crate) ratings: Ratings,
    /// The parts of these ratings, to measure on.
    pub(crate) all: HeldOut,
    /// Of the users in this process's shard, where that is not all there is.
    shard: Option<HeldOut>,
}

impl Parts {
    /// [Deals](Opened::deal) the users to the processes of the run. Where a record goes follows from its ids, so that the parts of a
    /// shard are a shard of the parts.
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

    /// What this process trains on.
    pub(crate) fn own(&self) -> &HeldOut {
        self.shard.as_ref().unwrap_or(&self.all)
    }
}

/// Writes what is released, then measures it, after `rounds` of factors too, and beside what the same budget buys otherwise. `seconds` to
/// load, and the clock since then.
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
            opened.found(warnings::of_scale(release.ratings, bound));
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

/// What the whole budget buys where it is spent on the simplest thing: measured, and thrown away.
#[derive(Default)]
struct WholeBudget {
    /// Of ratings, unless the model is no more itself.
    biases: Option<FactorModel>,
    /// Of lists, unless the run was no more itself.
    popularity: Option<FactorModel>,
}

impl WholeBudget {
    /// Whether these can be made depends on nothing that a caller sees: one that fails is left out.
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

/// The model of a method that has the whole budget, beside the settings of a run.
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

/// What a training run left, and what it has to say.
#[derive(Debug, Clone)]
pub struct TrainOutcome {
    /// The certificate of everything that was released.
    pub certificate: Certificate,
    /// The released factors.
    pub model: FactorModel,
    /// What was released and, apart from it, what is internal, by a documented schema.
    pub json: Value,
    /// The same in words, for a terminal.
    pub summary: String,
    /// Whether the best baseline is better: by released metrics where the run released some, else private, and there only with
    /// `show_internal` or `fail_if_worse`.
    pub verdict: Option<Verdict>,
}

/// What is held out by these flags, for whoever tests the model later.
pub(crate) const fn held_out_by(args: &TrainSettings) -> HeldOutBy {
    HeldOutBy {
        no_split: args.split.no_split,
        split_seed: args.split.split_seed,
        min_rating: args.feedback.min_rating,
    }
}

/// The factors after every round, and their length; none where nothing is held out to measure them on.
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

/// What the run takes on trust of its inputs.
pub(crate) fn assumptions(
    args: &TrainSettings,
    ratings: &Ratings,
    opened: &Opened<'_>,
) -> Vec<String> {
    let mut all = Vec::new();
    if ratings.catalogue_source() == CatalogueSource::FromRatings {
        all.push("item ids of the input are public".to_owned());
    }
    let unit = args.input.columns.user_col.as_ref();
    all.extend(unit.map(|name| unit_of(Some(name))));
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
