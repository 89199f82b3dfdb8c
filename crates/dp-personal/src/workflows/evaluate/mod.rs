//! `dp evaluate`: quality of a folder's model for users, on ratings it has not seen. All results
//! are internal.

mod scores;

use dp_accounting::Certificate;
use dp_page::{Block, Table, terminal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::evaluate::shown;
use crate::output::{
    self as files, EVALUATION, HeldOutBy, INTERNAL, INTERNAL_HEAD, InternalRun, RELEASED,
    ReleasedRun, SCHEMA_VERSION, internal_folder_of, make_internal_folder, read_model, released,
    warn,
};
use crate::prior::OptIn;
use crate::ranking::bucket_name;
use crate::settings::EvaluateSettings;
use crate::workflows::ledger::{
    UNNOTED, is_paid_by_ledger, last_of, note_exploration, note_exploration_of,
};
use crate::workflows::train::OPT_IN_SHA256;
use crate::workflows::verify::checked_certificate;

pub(crate) use self::scores::{Buckets, MODEL, NON_PRIVATE};
use self::scores::{Parts, Score, Scores, of_lists, of_ratings};

/// Results of an evaluation: computed from private data, and not covered by any guarantee.
#[derive(Debug, Clone)]
pub struct EvaluateOutcome {
    /// The metrics as JSON with a documented schema.
    pub json: Value,
    /// The same as a table for a terminal.
    pub text: String,
}

/// Evaluates the model of a release folder on ratings it has not seen. Nothing is released.
///
/// # Errors
/// When the certificate does not verify or belongs to other files, when settings contradict what
/// the run held out, and when a file cannot be read or written.
pub fn evaluate(args: &EvaluateSettings) -> Result<EvaluateOutcome> {
    // what is printed under `released` is verified, and belongs to this model
    let (certificate, _) = checked_certificate(&args.model)?;
    let (model, items) = read_model(&args.model)?;
    let implicit = model.scoring().unobserved_weight.is_some();
    refuse(args, implicit)?;
    let run: Option<ReleasedRun> = files::read_run_file(&args.model, RELEASED)?;
    refuse_opted_in(args, run.as_ref().and_then(|of| of.run.as_ref()))?;
    let said = run.and_then(|run| run.held_out());
    let split = split_of(args, said)?;
    let parts = Parts::read(args, split, &items, implicit)?;
    let internal: Option<InternalRun> =
        files::read_run_file(&internal_folder_of(&args.model), INTERNAL)?;
    // before there are any results
    note(args, &certificate, internal.as_ref())?;
    let scores = if implicit {
        of_lists(&model, &parts, args.non_private)?
    } else {
        of_ratings(&model, &parts, args.non_private)?
    };
    let evaluated = Evaluated {
        schema_version: SCHEMA_VERSION,
        certificate: Some(certificate.digest.clone()),
        own_split: said.is_some() && args.history.is_none(),
        scores,
        data: parts.data,
    };
    let kept = internal_folder_of(&args.model);
    let shown = args.output.show_internal;
    if args.output.save || !shown {
        let bytes = files::pretty(&evaluated)?;
        make_internal_folder(&kept)?;
        files::replace_files(&kept, &[(EVALUATION, bytes, true)], &[])?;
    }
    let mut json = json!({
        "dim": model.dim(),
        "n_items": model.n_items(),
        "released": released(&certificate),
        "internal_folder": kept.display().to_string(),
    });
    let text = if shown {
        json["internal"] = evaluated.json()?;
        evaluated.text()
    } else {
        format!(
            "the figures are in {}: measured on private data, not to be published; dp report {} makes a page of them, \
             --show-internal prints them\n",
            kept.join(EVALUATION).display(),
            args.model.display()
        )
    };
    Ok(EvaluateOutcome { json, text })
}

/// Leaves a note in the ledger that the model is evaluated. Printed results require one, unless the
/// operator declares that there is no ledger to record it.
fn note(
    args: &EvaluateSettings,
    certificate: &Certificate,
    internal: Option<&InternalRun>,
) -> Result<()> {
    const KIND: &str = "a model measured by dp evaluate";
    let output = &args.output;
    let known = internal.and_then(|run| run.aside.ledger.clone());
    let Some(ledger) = output.ledger.clone().or(known) else {
        if !output.show_internal {
            note_exploration_of([internal], KIND);
        } else if output.no_ledger
            || !is_paid_by_ledger(certificate.assumptions.iter().map(|text| &**text))
        {
            warn(UNNOTED);
        } else {
            let text = "`show_internal`: a ledger paid for this model, and the folder of internal files, which names it, does not say \
                        where it is; give `ledger`, which notes that the model was measured, or `no_ledger`";
            return Err(Error::Usage(text.to_owned()));
        }
        return Ok(());
    };
    let noted = note_exploration(&last_of(&ledger), Some(&certificate.data_set_id), KIND);
    match noted {
        Err(error) if output.no_ledger || !output.show_internal => {
            warn(&format!(
                "the ledger of the run cannot record this look at its data: {error}; certificates of later runs will not mention it"
            ));
            Ok(())
        }
        noted => noted,
    }
}

/// Refuses flags that do not apply to this kind of model.
fn refuse(args: &EvaluateSettings, implicit: bool) -> Result<()> {
    if implicit || args.min_rating.is_none() {
        return Ok(());
    }
    let text = "`min_rating` needs a model trained with `feedback` implicit";
    Err(Error::Usage(text.to_owned()))
}

/// Refuses the records of the run with the users whose ratings it used without protection: none of
/// these ratings were held out.
fn refuse_opted_in(args: &EvaluateSettings, run: Option<&Value>) -> Result<()> {
    let of_run = run.and_then(|run| run[OPT_IN_SHA256].as_str());
    let Some(of_run) = of_run.filter(|_| args.history.is_none()) else {
        return Ok(());
    };
    let given = args.opt_in.as_deref().map(OptIn::read).transpose()?;
    if given.is_some_and(|of| of.sha256() == of_run) {
        return Ok(());
    }
    let text = "`opt_in`: the run used all ratings of users who contribute without protection; give the same list, which leaves them out";
    Err(Error::Usage(text.to_owned()))
}

/// How records are held out: as in the run, which no flag may contradict. If the run did not record
/// it, the flags decide.
fn split_of(args: &EvaluateSettings, run: Option<HeldOutBy>) -> Result<HeldOutBy> {
    let own = HeldOutBy {
        no_split: false,
        split_seed: args.split_seed.unwrap_or(0),
        min_rating: args.min_rating.or(run.and_then(|run| run.min_rating)),
    };
    if args.history.is_some() {
        return Ok(own);
    }
    let Some(run) = run else {
        warn("the run does not record what it held out: make sure that the flags match it");
        return Ok(own);
    };
    if run.no_split {
        let text = "the run held nothing out (`no_split`): give ratings that it has not seen as RATINGS, and with `history` those \
                    that users are folded in from";
        return Err(Error::Usage(text.to_owned()));
    }
    let differs = |flag: &str, run: String| {
        Err(Error::Usage(format!(
            "`{flag}`: the run used {run}, so the test would include records that it was trained on"
        )))
    };
    if args.split_seed.is_some_and(|seed| seed != run.split_seed) {
        return differs("split_seed", format!("`split_seed` {}", run.split_seed));
    }
    if args.min_rating.is_some() && args.min_rating != run.min_rating {
        let least = run.min_rating;
        let least = least.map_or_else(|| "all records".to_owned(), |x| format!("`min_rating` {x}"));
        return differs("min_rating", least);
    }
    Ok(run)
}

/// Results with counts of the records read: private.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Evaluated {
    pub(crate) schema_version: u32,
    /// Digest of the run's certificate.
    #[serde(default)]
    pub(crate) certificate: Option<String>,
    /// Whether the test data are the run's held-out records, not a separate file.
    #[serde(default)]
    pub(crate) own_split: bool,
    #[serde(flatten)]
    pub(crate) scores: Scores,
    /// Counts of what was read and what was left out.
    pub(crate) data: Vec<(String, u64)>,
}

impl Evaluated {
    /// The part that `json` prints.
    fn json(&self) -> Result<Value> {
        let data = self.data.iter().cloned();
        let data: serde_json::Map<String, Value> =
            data.map(|(name, count)| (name, count.into())).collect();
        let mut internal = serde_json::to_value(&self.scores)?;
        internal["data"] = data.into();
        Ok(internal)
    }

    /// Tables for the terminal.
    fn text(&self) -> String {
        let scores = &self.scores;
        let names = scores.metrics.iter().map(|name| title(name));
        let overall = scores.overall.iter().map(|score| {
            let figures = scores.metrics.iter().map(|name| figure(score, name));
            [score.method.clone()].into_iter().chain(figures).collect()
        });
        let methods = scores.overall.iter().map(|score| score.method.clone());
        let heads = methods.chain(["held out".to_owned()]);
        let buckets = scores.by_popularity.iter().map(|bucket| {
            let metric = bucket.metric();
            let of = match bucket.k {
                Some(k) => format!("Recall@{k}"),
                None => title(metric),
            };
            let name = format!("{}, {of}", bucket_name(bucket.bucket - 1));
            let figures = bucket.scores.iter().map(|score| figure(score, metric));
            let figures = figures.chain([bucket.n_targets.to_string()]);
            [name].into_iter().chain(figures).collect()
        });
        let data = self.data.iter();
        let data = data.map(|(name, count)| vec![name.clone(), count.to_string()]);
        let first = || [String::new()].into_iter();
        let by = "by popularity of items";
        let mut blocks = vec![
            Block::Text(INTERNAL_HEAD.to_owned()),
            Block::Table(Table::new("", first().chain(names), overall)),
        ];
        let quality = scores.quality.iter();
        blocks.extend(quality.map(|quality| Block::Table(quality.overall())));
        blocks.extend([
            Block::Table(Table::new(by, first().chain(heads), buckets)),
            Block::Table(Table::new("", ["", ""], data)),
        ]);
        terminal(&blocks)
    }
}

/// The usual spelling of a metric.
pub(crate) fn title(metric: &str) -> String {
    match metric {
        "recall_at_20" => "Recall@20".to_owned(),
        "ndcg_at_20" => "NDCG@20".to_owned(),
        "recall" => "Recall".to_owned(),
        other => other.to_uppercase(),
    }
}

fn figure(score: &Score, metric: &str) -> String {
    let value = score.figures.get(metric).copied().flatten();
    value.map_or_else(|| "-".to_owned(), |_| shown(value))
}
