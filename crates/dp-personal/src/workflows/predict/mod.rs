//! `dp predict`: users' own fits in a released subspace or around a released shared part, locally. Nothing is spent.

mod learned;
mod people;

use dp_data::SampleColumns;
use serde_json::json;

use self::learned::Learned;
use self::people::People;
use crate::error::{Error, Result};
use crate::output;
use crate::personal::Inputs;
use crate::settings::PredictArgs;

pub fn run(args: &PredictArgs) -> Result<()> {
    let (learned, inputs) = Learned::read(&args.model)?;
    let history = dp_data::read_samples(&args.history, &columns(args, &inputs, true))?;
    let people = People::fit(&inputs, &learned, &history)?;
    let rows = match &args.rows {
        Some(path) => {
            let table = dp_data::read_samples(path, &columns(args, &inputs, false))?;
            if *table.n_not_finite().expose() > 0 {
                let reason = "a row holds a number that is NaN or infinite: nothing can be predicted from it";
                return Err(Error::model(path, reason));
            }
            Some(people.predict(&inputs, &table))
        }
        None => None,
    };
    if args.json {
        return output::print_json(&json!({
            "provenance": learned.provenance(),
            "target": inputs.target.name,
            "users": people.as_json(&inputs),
            "predictions": rows,
        }));
    }
    if let Some(warning) = learned.warning() {
        output::warn(warning);
    }
    match rows {
        Some(rows) => print_csv(
            &["user".to_owned(), inputs.target.name.clone()],
            rows.iter()
                .map(|row| vec![row.0.clone(), row.1.to_string()]),
        ),
        None => print_csv(&people.heads(&inputs), people.lines()),
    }
}

/// The columns that the model was trained on.
fn columns(args: &PredictArgs, inputs: &Inputs, with_target: bool) -> SampleColumns {
    let names = inputs.features.iter().map(|column| column.name.clone());
    SampleColumns {
        user: args.user_col.clone(),
        target: Some(inputs.target.name.clone()),
        features: Some(names.collect()),
        user_is_optional: true,
        without_target: !with_target,
    }
}

fn print_csv(heads: &[String], lines: impl Iterator<Item = Vec<String>>) -> Result<()> {
    let write = || {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(heads)?;
        for line in lines {
            writer.write_record(line)?;
        }
        writer.into_inner().map_err(|e| e.into_error().into())
    };
    let bytes = write().map_err(|e: csv::Error| Error::Print(std::io::Error::other(e)))?;
    output::print(&String::from_utf8_lossy(&bytes))
}
