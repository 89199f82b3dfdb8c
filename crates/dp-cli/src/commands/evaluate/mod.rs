//! `dp evaluate`: how well the model of a folder serves users, on ratings it has not seen. All of it is internal.

mod lists;
mod output;
mod parts;
mod ratings;
mod scores;

use crate::args::EvaluateArgs;
use crate::error::{Error, Result};
use crate::output as screen;
use crate::output::{CERTIFICATE, EVALUATION, SCHEMA_VERSION, read_model};

use parts::Parts;

pub(crate) use output::{Evaluated, title};
pub(crate) use scores::{MODEL, NON_PRIVATE};

pub(crate) fn run(args: &EvaluateArgs) -> Result<()> {
    let (model, items) = read_model(&args.model)?;
    let implicit = model.scoring().unobserved_weight.is_some();
    refuse(args, implicit)?;
    let certificate = screen::read_certificate(&args.model.join(CERTIFICATE))?;
    let parts = Parts::read(args, &items, implicit)?;
    let scores = if implicit {
        lists::score(&model, &parts)?
    } else {
        ratings::score(&model, &parts, args.non_private)?
    };
    let evaluated = Evaluated {
        schema_version: SCHEMA_VERSION,
        scores,
        data: parts.data,
    };
    if args.output.save {
        let bytes = screen::pretty(&evaluated)?;
        screen::replace_files(&args.model, &[(EVALUATION, bytes, true)])?;
    }
    if args.output.json {
        return screen::print_json(&evaluated.json(&certificate, model.n_items(), model.dim())?);
    }
    screen::print(&evaluated.text())
}

/// Flags that mean nothing with this kind of model.
fn refuse(args: &EvaluateArgs, implicit: bool) -> Result<()> {
    let text = match (implicit, args.min_rating, args.non_private) {
        (false, Some(_), _) => "--min-rating needs a model trained with --feedback implicit",
        (true, _, true) => {
            "--non-private compares predicted ratings; this model is of implicit feedback"
        }
        _ => return Ok(()),
    };
    Err(Error::Usage(text.to_owned()))
}
