//! `dp train`: ratings in, private item factors and their certificate out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use dp_accounting::Certificate;
use dp_core::{Adjacency, ApproxDp};
use dp_data::{CatalogueSource, Ratings};
use dp_multitask::{FactorModel, MatrixFactorization, Observer, Round, Trainer};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::evaluate::Evaluation;
use crate::output::TrainSettings as ReleasedSettings;
use crate::output::{
    self, HeldOutBy, OutputFolder, Seconds, TrainRelease, TrainReport, catalogue_sha256,
};
use crate::settings::{
    Method, OutputSettings, ResumeSettings, SplitKind, SplitSettings, TrainSettings,
};
use crate::watch::{Watch, Watched, go_on};
use crate::workflows::input::{HeldOut, as_feedback, read, settings_for};
use crate::workflows::ledger::{Account, data_set_id};
use crate::workflows::private_run::PrivateRun;

pub(crate) const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

/// Trains private item factors on a file of ratings and writes a release folder.
///
/// # Errors
/// Before anything is read when settings are out of range or do not go together, when the output exists or when the ledger has
/// no room; after that when the data cannot be read or the folder cannot be written.
///
/// # Privacy
/// What the folder holds beside files whose names begin with `internal` is covered by its certificate; the run is paid for
/// in the ledger before any noise is drawn.
pub fn train(args: &TrainSettings, watch: &mut dyn Watch) -> Result<TrainOutcome> {
    if args.target.method == Method::AmSsp {
        return crate::featured::train(args, watch);
    }
    crate::featured::refuse_flags(&args.features)?;
    // everything public is checked before the data is touched
    let target = ApproxDp::target(args.target.epsilon, args.target.delta)?;
    let method = args.target.method;
    let fit = settings_for(method, &args.feedback, &args.settings, target)?.check()?;
    // neither noise nor cost depends on the number of items
    let draft = fit.plan(1, target, ADJACENCY)?;
    protect(
        &args.output,
        &[
            Some(args.ratings.as_path()),
            args.input.items.as_deref(),
            args.ledger.file(),
        ],
    )?;
    // a model that is there already needs no account
    OutputFolder::recover(&args.output.out, args.output.force)?;
    let data_set = data_set_id(&args.ledger, &args.ratings);
    let account = Account::open(&args.ledger, data_set, &draft)?;
    let folder = open_output(&args.output, &args.resume, || account.check(&draft))?;

    go_on(watch)?;
    let start = Instant::now();
    let ratings = as_feedback(&args.feedback, read(&args.ratings, &args.input)?)?;
    let mut account = account.bind(&ratings)?;
    let split = HeldOut::new(&args.feedback, &args.split, &ratings)?;
    let load = start.elapsed();

    let fit = with_assumptions(fit, args, &ratings);
    let plan = fit.plan(ratings.catalogue().len(), target, ADJACENCY)?;
    go_on(watch)?;
    let start = Instant::now();
    let mut rounds = Rounds::for_split(&args.split);
    let public = json!({
        "command": "train",
        "method": method.name(),
        "target": target,
        "settings": fit.params(),
        "items_sha256": catalogue_sha256(ratings.catalogue())?,
        "data": public_data(args, &ratings),
    });
    let run = PrivateRun {
        folder: &folder,
        account: &mut account,
        plan: &plan,
        public: &public,
    };
    let noise = &mut args.output.noise();
    let mut watched = Watched::begin(watch, &plan)?.with_rounds(&mut rounds);
    let fitted = run.train(&fit, split.train(), noise, &mut watched, |n_made| {
        fit.n_rounds_after(n_made) > 0
    })?;
    let train = start.elapsed();
    let release = TrainRelease {
        fitted: &fitted,
        method,
        params: fit.params(),
        ratings: &ratings,
        held_out: held_out_by(args),
        comparison: None,
        run: Some(&public),
    };
    release.write(&folder, args.output.publish_releases)?;
    // from here on the model stays, whatever happens
    let report = folder.commit_after(|folder| {
        let start = Instant::now();
        tracing::info!("measuring on held-out ratings");
        let metrics = Evaluation::measure(&fitted, &split)?;
        let by_round = Evaluation::by_round(&fitted, rounds.0.unwrap_or_default(), &split)?;
        let report = TrainReport {
            release: &release,
            metrics,
            by_round,
            seconds: Seconds {
                load: load.as_secs_f64(),
                train: train.as_secs_f64(),
                evaluate: start.elapsed().as_secs_f64(),
            },
        };
        report.write_internal(folder)?;
        Ok(report)
    })?;
    Ok(TrainOutcome::new(
        &report,
        &args.output,
        account.balance(&plan),
    ))
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
}

impl TrainOutcome {
    pub(crate) fn new<S: ReleasedSettings>(
        report: &TrainReport<'_, S>,
        output: &OutputSettings,
        balance: Option<String>,
    ) -> Self {
        let fitted = report.release.fitted;
        Self {
            certificate: fitted.certificate.clone(),
            model: fitted.model.clone(),
            json: report.json(),
            summary: report.summary(&output.out, balance.as_deref()),
        }
    }
}

/// What is held out by these flags, for whoever tests the model later.
pub(crate) const fn held_out_by(args: &TrainSettings) -> HeldOutBy {
    HeldOutBy {
        no_split: args.split.no_split,
        split_seed: args.split.split_seed,
        min_rating: args.feedback.min_rating,
    }
}

/// The factors after every round; none where nothing is held out to measure them on.
struct Rounds(Option<Vec<Vec<f64>>>);

impl Rounds {
    fn for_split(split: &SplitSettings) -> Self {
        Self((!split.no_split).then(Vec::new))
    }
}

impl Observer for Rounds {
    fn round(&mut self, round: &Round<'_>) {
        if let (Some(kept), 1..) = (&mut self.0, round.round) {
            kept.push(round.parameters.to_vec());
        }
    }
}

/// What was read and held out, and what the operator answers for: a list of releases belongs to a run on the same data.
pub(crate) fn public_data(args: &TrainSettings, ratings: &Ratings) -> Value {
    json!({
        "held_out": held_out_by(args),
        "split": args.feedback.split.map(SplitKind::name),
        "columns": [&args.input.user_col, &args.input.item_col, &args.input.rating_col],
        "assumptions": assumptions(args, ratings),
    })
}

/// The output folder, as an interrupted run left it where it is to go on. `check` refuses what the ledger has no room for: a run
/// that goes on has paid for a part of it.
pub(crate) fn open_output(
    output: &OutputSettings,
    resume: &ResumeSettings,
    check: impl FnOnce() -> Result<()>,
) -> Result<OutputFolder> {
    if !(resume.resume && OutputFolder::is_interrupted(&output.out)) {
        check()?;
    }
    OutputFolder::create_or_resume(&output.out, output.force, resume.resume)
}

/// Refuses an output folder whose replacement would delete what the run needs, or the current folder.
pub(crate) fn protect(output: &OutputSettings, inputs: &[Option<&Path>]) -> Result<()> {
    let out = match output.out.canonicalize() {
        Ok(out) if output.force => out,
        Ok(_) | Err(_) => return Ok(()), // will not be replaced, or does not exist
    };
    let here = Path::new(".");
    for input in inputs.iter().copied().flatten().chain([here]) {
        if absolute(input).is_some_and(|path| path.starts_with(&out)) {
            let (input, out) = (input.display(), output.out.display());
            return Err(Error::Usage(format!(
                "{input} lies in the output folder {out}, which would be replaced; choose another \
                 `out`"
            )));
        }
    }
    Ok(())
}

/// The path without links, also of a file that does not exist yet.
fn absolute(path: &Path) -> Option<PathBuf> {
    let whole = path.canonicalize();
    whole
        .or_else(|_| output::folder_of(path).canonicalize())
        .ok()
}

pub(super) fn with_assumptions(
    fit: MatrixFactorization,
    args: &TrainSettings,
    ratings: &Ratings,
) -> MatrixFactorization {
    let all = assumptions(args, ratings).into_iter();
    all.fold(fit, MatrixFactorization::assuming)
}

/// What the run takes on trust of its inputs.
pub(crate) fn assumptions(args: &TrainSettings, ratings: &Ratings) -> Vec<String> {
    let mut all = Vec::new();
    if ratings.catalogue_source() == CatalogueSource::FromRatings {
        all.push("item ids of the input are public".to_owned());
    }
    if let Some(name) = &args.input.user_col {
        all.push(format!(
            "a user is whoever shares a value of the column `{name}`"
        ));
    }
    all.push(args.ledger.assumption().to_owned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_kept_only_where_they_can_be_measured() {
        for (no_split, kept) in [(false, Some(vec![vec![1.5]])), (true, None)] {
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
