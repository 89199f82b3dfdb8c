//! `dp evaluate`: how well the model of a folder serves users, on ratings it has not seen. All of it is internal.

mod lists;
mod output;
mod parts;
mod ratings;
mod scores;

use crate::error::{Error, Result};
use crate::output as screen;
use crate::output::{EVALUATION, HeldOutBy, RELEASED, ReleasedRun, SCHEMA_VERSION, read_model};
use crate::settings::EvaluateArgs;
use crate::workflows::verify::checked_certificate;

use parts::Parts;

pub(crate) use output::{Evaluated, title};
pub(crate) use scores::{MODEL, NON_PRIVATE};

pub fn run(args: &EvaluateArgs) -> Result<()> {
    // what is printed under `released` holds, and is of this model
    let (certificate, _) = checked_certificate(&args.model)?;
    let (model, items) = read_model(&args.model)?;
    let implicit = model.scoring().unobserved_weight.is_some();
    refuse(args, implicit)?;
    let run: Option<ReleasedRun> = screen::read_run_file(&args.model, RELEASED)?;
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
        let bytes = screen::pretty(&evaluated)?;
        screen::replace_files(&args.model, &[(EVALUATION, bytes, true)], &[])?;
    }
    if args.output.json {
        return screen::print_json(&evaluated.json(&certificate, model.n_items(), model.dim())?);
    }
    screen::print(&evaluated.text())
}

/// Flags that mean nothing with this kind of model.
fn refuse(args: &EvaluateArgs, implicit: bool) -> Result<()> {
    if implicit || args.min_rating.is_none() {
        return Ok(());
    }
    let text = "--min-rating needs a model trained with --feedback implicit";
    Err(Error::Usage(text.to_owned()))
}

/// How records are held out: as the run did, which no flag may contradict. Runs that do not say leave it to the flags.
fn split_of(args: &EvaluateArgs, run: Option<HeldOutBy>) -> Result<HeldOutBy> {
    let own = HeldOutBy {
        no_split: false,
        split_seed: args.split_seed.unwrap_or(0),
        min_rating: args.min_rating.or(run.and_then(|run| run.min_rating)),
    };
    if args.history.is_some() {
        return Ok(own);
    }
    let Some(run) = run else {
        screen::warn("the run does not say what it held out: make sure that the flags do");
        return Ok(own);
    };
    if run.no_split {
        let text = "the run held nothing out (--no-split): give ratings that it has not seen as RATINGS, and with --history those \
                    that users are folded in from";
        return Err(Error::Usage(text.to_owned()));
    }
    let differs = |flag: &str, run: String| {
        Err(Error::Usage(format!(
            "{flag}: the run was made with {run}, so records that it was trained on would be tested on"
        )))
    };
    if args.split_seed.is_some_and(|seed| seed != run.split_seed) {
        return differs("--split-seed", format!("--split-seed {}", run.split_seed));
    }
    if args.min_rating.is_some() && args.min_rating != run.min_rating {
        let least = run.min_rating;
        let least = least.map_or_else(|| "all records".to_owned(), |x| format!("--min-rating {x}"));
        return differs("--min-rating", least);
    }
    Ok(run)
}
