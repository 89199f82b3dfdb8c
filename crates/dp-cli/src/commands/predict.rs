//! `dp predict`: users' own fits in a released subspace, locally. Nothing is spent.

use std::collections::HashMap;

use dp_data::{SampleColumns, SampleTable, SampleUser};
use dp_personalize::{Provenance, Subspace};
use serde_json::{Value, json};

use crate::args::PredictArgs;
use crate::error::{Error, Result};
use crate::output;
use crate::personal::{Inputs, Personal, Users};

pub(crate) fn run(args: &PredictArgs) -> Result<()> {
    let (subspace, inputs) = output::read_subspace(&args.model)?;
    let history = dp_data::read_samples(&args.history, &columns(args, &inputs, true))?;
    let people = People::fit(&inputs, &subspace, &history)?;
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
            "provenance": subspace.provenance(),
            "target": inputs.target.name,
            "users": people.as_json(&inputs),
            "predictions": rows,
        }));
    }
    match subspace.provenance() {
        Provenance::Private => {}
        Provenance::SeededNoise => output::warn("this model is not private: its noise was seeded"),
        Provenance::NonPrivate => output::warn("this model is not private: it has no noise"),
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

/// Users with their own models.
struct People {
    ids: Vec<String>,
    n_rows: Vec<usize>,
    models: Vec<Personal>,
    by_id: HashMap<String, usize>,
    /// Of somebody without history.
    stranger: Personal,
}

impl People {
    fn fit(inputs: &Inputs, subspace: &Subspace, history: &SampleTable) -> Result<Self> {
        let (users, n_features) = (history.users().expose(), inputs.features.len());
        let n_rows: Vec<usize> = users.iter().map(|u| u.rows(n_features).len()).collect();
        let most = n_rows.iter().copied().max().unwrap_or(0).clamp(1, 1 << 16);
        let local = inputs.local_fit()?;
        // the last place is that of a user without rows
        let nobody = SampleUser::default();
        let all = Users::new(inputs, users.iter().chain([&nobody]), most)?;
        let fit = |user| all.fit(user, &local, subspace);
        let ids: Vec<String> = users.iter().map(|user| user.id().to_owned()).collect();
        Ok(Self {
            models: (0..users.len()).map(fit).collect(),
            stranger: fit(users.len()),
            by_id: ids.iter().cloned().zip(0..).collect(),
            ids,
            n_rows,
        })
    }

    /// The model of a user: the one of that id, or else the only one where the history names no users.
    fn model(&self, id: &str) -> &Personal {
        let at = self.by_id.get(id).or_else(|| self.by_id.get(""));
        at.map_or(&self.stranger, |&at| &self.models[at])
    }

    /// User and prediction of every row, in the order of the file.
    fn predict(&self, inputs: &Inputs, table: &SampleTable) -> Vec<(String, f64)> {
        let users = table.users().expose();
        let mut rows: Vec<_> = users
            .iter()
            .map(|user| user.rows(inputs.features.len()))
            .collect();
        let mut encoded = Vec::new();
        let order = table.order().expose().iter().map(|&user| user as usize);
        order
            .filter_map(|user| {
                let (x, _) = rows[user].next()?;
                inputs.encode(x, &mut encoded);
                let id = users[user].id();
                let score = self.model(id).score(&encoded);
                Some((id.to_owned(), inputs.answer(score)))
            })
            .collect()
    }

    fn heads(&self, inputs: &Inputs) -> Vec<String> {
        let fixed = ["user", "rows", "level"].map(str::to_owned).into_iter();
        let mut heads: Vec<String> = fixed.collect();
        heads.extend(inputs.names());
        heads
    }

    /// Level where all encoded features are 0, and the coefficients of the encoded features.
    fn lines(&self) -> impl Iterator<Item = Vec<String>> {
        let users = self.ids.iter().zip(&self.n_rows).zip(&self.models);
        users.map(|((id, n_rows), model)| {
            let numbers = [model.level()]
                .into_iter()
                .chain(model.coefficients().iter().copied());
            let fixed = [id.clone(), n_rows.to_string()].into_iter();
            fixed.chain(numbers.map(|x| x.to_string())).collect()
        })
    }

    fn as_json(&self, inputs: &Inputs) -> Vec<Value> {
        let names: Vec<String> = inputs.names().collect();
        let users = self.ids.iter().zip(&self.n_rows).zip(&self.models);
        users
            .map(|((id, n_rows), model)| {
                let coefficients = names.iter().cloned().zip(model.coefficients().iter().copied());
                let coefficients: serde_json::Map<String, Value> =
                    coefficients.map(|(name, t)| (name, json!(t))).collect();
                json!({"user": id, "n_rows": n_rows, "level": model.level(), "coefficients": coefficients})
            })
            .collect()
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
