//! `dp predict`: users' own fits in a released subspace or around a released shared part, locally. Nothing is spent.

mod learned;
mod people;

use dp_data::SampleColumns;
use serde_json::Value;

use self::learned::Learned;
use self::people::People;
use crate::error::{Error, Result};
use crate::personal::Inputs;
use crate::settings::PredictSettings;

/// A user's own model.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnModel {
    /// The user's id.
    pub user: String,
    /// Own rows that it was fitted to.
    pub n_rows: usize,
    /// Its value where all encoded features are 0.
    pub level: f64,
    /// One coefficient for each of [`Predictions::features`].
    pub coefficients: Vec<f64>,
}

/// Users' own models, and what these predict.
#[derive(Debug, Clone, PartialEq)]
pub struct Predictions {
    /// What is predicted.
    pub target: String,
    /// Names of the encoded features.
    pub features: Vec<String>,
    /// The users of the history.
    pub users: Vec<OwnModel>,
    /// User and prediction of every row to predict, in the order of the file; `None` without such a file.
    pub rows: Option<Vec<(String, f64)>>,
    /// How private the model is that the users' own models rest on.
    pub provenance: Value,
    /// What to say of a model that is not private.
    pub warning: Option<&'static str>,
}

/// Fits users' own models to what a release folder holds, locally, and predicts. Nothing is spent.
///
/// # Errors
/// When a file cannot be read, or does not have the columns of the training data.
///
/// # Privacy
/// What is returned depends on the users' own rows, and is for each user alone.
pub fn predict(args: &PredictSettings) -> Result<Predictions> {
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
    Ok(Predictions {
        users: people.models(),
        features: inputs.names().collect(),
        target: inputs.target.name,
        rows,
        provenance: learned.provenance(),
        warning: learned.warning(),
    })
}

/// The columns that the model was trained on.
fn columns(args: &PredictSettings, inputs: &Inputs, with_target: bool) -> SampleColumns {
    let names = inputs.features.iter().map(|column| column.name.clone());
    SampleColumns {
        user: args.user_col.clone(),
        target: Some(inputs.target.name.clone()),
        features: Some(names.collect()),
        user_is_optional: true,
        without_target: !with_target,
    }
}
