//! `dp recommend`: fold one user in, locally, and rank the items the user has not rated.

use std::path::Path;

use dp_core::{Interactions, InteractionsBuilder, UserRow};
use dp_data::{ItemCatalogue, RatingsFormat};
use dp_multitask::{Provenance, ScoreModel};

use crate::error::{Error, Result};
use crate::output;
use crate::settings::RecommendSettings;

/// An item for one user.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommended {
    /// Its id.
    pub id: String,
    /// Its title, where the catalogue has one.
    pub title: Option<String>,
    /// Its predicted rating, or with implicit feedback its score.
    pub score: f64,
}

/// What is recommended to one user, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendations {
    /// The items; none where the model says nothing of this user.
    pub items: Vec<Recommended>,
    /// Whether scores are those of implicit feedback and not ratings.
    pub implicit: bool,
    /// Whether there is nothing to rank by: the model has no item biases and has learnt none of the items that the user likes.
    pub says_nothing: bool,
    /// Whether own ratings leave the order of items as it is for everybody: the model has item biases only, or no tastes for any item
    /// that the user rated. They then move the level of predictions alone.
    pub orders_alike: bool,
    /// How private the model is.
    pub provenance: Provenance,
    /// Own ratings that the user was folded in from, those below the least rating included.
    pub n_history: usize,
    /// Own ratings of items that the model does not know.
    pub n_unknown_items: usize,
}

/// Folds one user in, locally, and ranks the items that the user has not rated.
///
/// # Errors
/// When settings are out of range or mean nothing with this model, and when a file cannot be read.
///
/// # Privacy
/// The recommendations depend on the user's own ratings, and are for that user alone.
pub fn recommend(args: &RecommendSettings) -> Result<Recommendations> {
    dp_core::params::at_least_one("count", args.count)?;
    let (mut model, mut catalogue) = output::read_model(&args.model)?;
    if let Some(items) = &args.items {
        (model, catalogue) =
            crate::featured::with_new_items(&args.model, (model, catalogue), items)?;
    }
    let implicit = model.scoring().unobserved_weight.is_some();
    let format = match implicit && args.min_rating.is_none() {
        true => RatingsFormat::default().without_ratings(),
        false => RatingsFormat::default(),
    };
    let history = read_history(&args.history, &format, &catalogue)?;
    let row = history.table.user(0);
    let liked = liked(row, args.min_rating, implicit, catalogue.len())?;
    let personal = model.fold_in(liked.user(0))?;
    let has_tastes = personal.factor().iter().any(|v| v.abs() > 0.0);
    let is_plain = model.scoring().score_model == ScoreModel::Plain;
    // without biases, who has nothing of what was learnt has the popular items, if the model knows them
    let knows_popular = model
        .item_factors()
        .chunks(model.dim())
        .any(|row| row[0] > 0.0);
    let says_nothing = is_plain && !has_tastes && !knows_popular;
    let rates_alike = !has_tastes && !says_nothing && (is_plain || !liked.user(0).is_empty());
    let count = if says_nothing { 0 } else { args.count };
    let best = model.recommend(&personal, count, row.items())?;
    let recommended = |(item, score): (u32, f64)| Recommended {
        id: catalogue.ids()[item as usize].clone(),
        title: catalogue.title(item as usize).map(str::to_owned),
        score,
    };
    Ok(Recommendations {
        items: best.into_iter().map(recommended).collect(),
        implicit,
        says_nothing,
        orders_alike: model.dim() == 1 || rates_alike,
        provenance: model.provenance(),
        n_history: row.len(),
        n_unknown_items: history.n_unknown_items,
    })
}

/// The records that the user is folded in from: with implicit feedback, those that are a yes.
fn liked(
    row: UserRow<'_>,
    min_rating: Option<f64>,
    implicit: bool,
    n_items: usize,
) -> Result<Interactions> {
    if min_rating.is_some() && !implicit {
        let text = "`min_rating` needs a model trained with `feedback` implicit";
        return Err(Error::Usage(text.to_owned()));
    }
    let least = dp_core::params::finite("min_rating", min_rating.unwrap_or(f64::MIN))?;
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
fn read_history(path: &Path, format: &RatingsFormat, catalogue: &ItemCatalogue) -> Result<History> {
    let mut builder = InteractionsBuilder::new(catalogue.len());
    let mut n_unknown_items = 0;
    match dp_data::read_history(path, format, catalogue) {
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
