//! `dp evaluate`: how well the model of a folder serves users, on ratings it has not seen. All of it is internal.

mod lists;
mod output;
mod parts;
mod ratings;
mod scores;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::output::{
    self as files, EVALUATION, HeldOutBy, RELEASED, ReleasedRun, SCHEMA_VERSION, read_model,
};
use crate::settings::EvaluateSettings;
use crate::workflows::verify::checked_certificate;

use parts::Parts;

pub(crate) use output::{Evaluated, title};
pub(crate) use scores::{MODEL, NON_PRIVATE};

/// What an evaluation found: computed from private data, and not covered by any guarantee.
#[derive(Debug, Clone)]
pub struct EvaluateOutcome {
    /// The figures, by a documented schema.
    pub json: Value,
    /// The same as a table for a terminal.
    pub text: String,
}

/// Measures the model of a release folder on ratings it has not seen. Nothing is released.
///
/// # Errors
/// When the certificate does not hold or belongs to other files, when settings contradict what the run held out, and when a file
/// cannot be read or written.
pub fn evaluate(args: &EvaluateSettings) -> Result<EvaluateOutcome> {
    // what is printed under `released` holds, and is of this model
    let (certificate, _) = checked_certificate(&args.model)?;
    let (model, items) = read_model(&args.model)?;
    let implicit = model.scoring().unobserved_weight.is_some();
    refuse(args, implicit)?;
    let run: Option<ReleasedRun> = files::read_run_file(&args.model, RELEASED)?;
    let said = run.and_then(|run| run.held_out());
    let split = split_of(args, said)?;
    let parts = Parts::read(args, split, &items, implicit)?;
    let scores = if implicit {
        lists::score(&model, &parts, args.non_private)?
    } else {
        ratings::score(&model, &parts, args.non_private)?
    };
    let evaluated = Evaluated {
        schema_version: SCHEMA_VERSION,
        certificate: Some(certificate.digest.clone()),
        own_split: said.is_some() && args.history.is_none(),
        scores,
        data: parts.data,
    };
    if args.output.save {
        let bytes = files::pretty(&evaluated)?;
        files::replace_files(&args.model, &[(EVALUATION, bytes, true)], &[])?;
    }
    Ok(EvaluateOutcome {
        json: evaluated.json(&certificate, model.n_items(), model.dim())?,
        text: evaluated.text(),
    })
}

/// Flags that mean nothing with this kind of model.
fn refuse(args: &EvaluateSettings, implicit: bool) -> Result<()> {
    if implicit || args.min_rating.is_none() {
        return Ok(());
    }
    let text = "`min_rating` needs a model trained with `feedback` implicit";
    Err(Error::Usage(text.to_owned()))
}

/// How records are held out: as the run did, which no flag may contradict. Runs that do not say leave it to the flags.
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
        files::warn("the run does not say what it held out: make sure that the flags do");
        return Ok(own);
    };
    if run.no_split {
        let text = "the run held nothing out (`no_split`): give ratings that it has not seen as RATINGS, and with `history` those \
                    that users are folded in from";
        return Err(Error::Usage(text.to_owned()));
    }
    let differs = |flag: &str, run: String| {
        Err(Error::Usage(format!(
            "`{flag}`: the run was made with {run}, so records that it was trained on would be tested on"
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
