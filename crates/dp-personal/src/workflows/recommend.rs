//! `dp recommend`: fold one user in, locally, and rank the items the user has not rated.

use std::path::Path;

use dp_core::{Interactions, InteractionsBuilder, UserRow};
use dp_data::ItemCatalogue;
use dp_multitask::{Provenance, ScoreModel};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::output;
use crate::settings::RecommendArgs;

pub fn run(args: &RecommendArgs) -> Result<()> {
    dp_core::params::at_least_one("k", args.count)?;
    let (mut model, mut catalogue) = output::read_model(&args.model)?;
    if let Some(items) = &args.items {
        (model, catalogue) =
            crate::featured::with_new_items(&args.model, (model, catalogue), items)?;
    }
    let history = read_history(&args.history, &catalogue)?;
    let row = history.table.user(0);
    let implicit = model.scoring().unobserved_weight.is_some();
    let liked = liked(row, args.min_rating, implicit, catalogue.len())?;
    let personal = model.fold_in(liked.user(0))?;
    // without biases, who has nothing of what was learnt gives every item the score 0
    let says_nothing = model.scoring().score_model == ScoreModel::Plain
        && personal.factor().iter().all(|v| v.abs() <= 0.0);
    let count = if says_nothing { 0 } else { args.count };
    let best = model.recommend(&personal, count, row.items())?;
    if args.json {
        return output::print_json(&json!({
            "provenance": model.provenance(),
            "n_history": row.len(),
            "n_unknown_items": history.n_unknown_items,
            "recommendations": as_json(&best, &catalogue),
        }));
    }
    match model.provenance() {
        Provenance::Private => {}
        Provenance::SeededNoise => output::warn("this model is not private: its noise was seeded"),
        Provenance::NonPrivate | Provenance::NotTrained => {
            output::warn("this model is not private: it has no noise");
        }
    }
    if says_nothing {
        let text = "nothing to rank by: this model has no item biases (--score-model plain) and has learnt none of \
                    the items that the user likes\n";
        return output::print(text);
    }
    output::print(&as_table(
        &best,
        &catalogue,
        if implicit { "score" } else { "rating" },
        row.len(),
        history.n_unknown_items,
    ))
}

/// The records that the user is folded in from: with implicit feedback, those that are a yes.
fn liked(
    row: UserRow<'_>,
    min_rating: Option<f64>,
    implicit: bool,
    n_items: usize,
) -> Result<Interactions> {
    if min_rating.is_some() && !implicit {
        let text = "--min-rating needs a model trained with --feedback implicit";
        return Err(Error::Usage(text.to_owned()));
    }
    let least = dp_core::params::finite("--min-rating", min_rating.unwrap_or(f64::MIN))?;
    let mut builder = InteractionsBuilder::new(n_items);
    for (item, value) in row.iter().filter(|&(_, value)| f64::from(value) >= least) {
        builder.push(0, item, value).map_err(dp_data::Error::from)?;
    }
    builder.ensure_users(1);
    Ok(builder.build().0)
}

/// One user's own ratings on the catalogue.
struct History {
    table: Interactions,
    n_unknown_items: usize,
}

/// A file without ratings is a user who has not rated yet.
fn read_history(path: &Path, catalogue: &ItemCatalogue) -> Result<History> {
    let mut builder = InteractionsBuilder::new(catalogue.len());
    let mut n_unknown_items = 0;
    match dp_data::read_history(path, catalogue) {
        Ok(history) => {
            for &(item, value) in history.records() {
                builder.push(0, item, value).map_err(dp_data::Error::from)?;
            }
            n_unknown_items = history.n_unknown_items();
        }
        Err(dp_data::Error::Empty { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    builder.ensure_users(1);
    let (table, _) = builder.build();
    Ok(History {
        table,
        n_unknown_items,
    })
}

fn as_json(best: &[(u32, f64)], catalogue: &ItemCatalogue) -> Vec<Value> {
    (1..)
        .zip(best)
        .map(|(rank, &(item, rating))| {
            json!({
                "rank": rank,
                "item": catalogue.ids()[item as usize],
                "title": catalogue.title(item as usize),
                "predicted_rating": rating,
            })
        })
        .collect()
}

fn as_table(
    best: &[(u32, f64)],
    catalogue: &ItemCatalogue,
    value: &str,
    n_history: usize,
    n_unknown: usize,
) -> String {
    let mut text = match n_history {
        0 => "no own ratings: these are the items that people like in general\n".to_owned(),
        1 => "from 1 own rating:\n".to_owned(),
        n => format!("from {n} own ratings:\n"),
    };
    if n_unknown > 0 {
        text.push_str(&format!(
            "({n_unknown} more on items the model does not know)\n"
        ));
    }
    let id = |item: u32| catalogue.ids()[item as usize].as_str();
    let widest = best.iter().map(|&(item, _)| id(item).chars().count()).max();
    let width = widest.unwrap_or(0).max("item".len());
    text.push_str(&format!("\nrank  {value:>6}  {:<width$}  title\n", "item"));
    for (rank, &(item, rating)) in (1..).zip(best) {
        let title = catalogue.title(item as usize).unwrap_or("");
        let line = format!("{rank:>4}  {rating:>6.2}  {:<width$}  {title}", id(item));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
