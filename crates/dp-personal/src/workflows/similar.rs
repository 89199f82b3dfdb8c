//! `dp similar`: the items most similar to others, by their released taste factors.

use dp_multitask::SimilarItem;

use super::recommend::Recommender;
use crate::error::Result;
use crate::report::{Wanted, above_noise};
use crate::settings::SimilarSettings;

/// An item, and those most similar to it.
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarTo {
    /// Its id.
    pub id: String,
    /// Its title, if the catalogue has one.
    pub title: Option<String>,
    /// Whether its taste factors are above their noise; otherwise it has no similar items.
    pub is_above_noise: bool,
    /// The items, most similar first.
    pub items: Vec<Similar>,
}

/// A similar item.
#[derive(Debug, Clone, PartialEq)]
pub struct Similar {
    /// Its id.
    pub id: String,
    /// Its title, if the catalogue has one.
    pub title: Option<String>,
    /// Cosine similarity of the taste factors.
    pub cosine: f64,
    /// Standard deviation of the noise in it, if the model has standard errors.
    pub stddev: Option<f64>,
}

/// Items that are similar to others, and why there are none, if the model has no taste factors.
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarItems {
    /// One entry for each requested item.
    pub found: Vec<SimilarTo>,
    /// Why no item has similar ones.
    pub no_tastes: Option<&'static str>,
}

/// The items most similar to the requested ones by cosine similarity of their taste factors. Items
/// within their noise, as far as it is known, are left out, since their direction is random.
///
/// # Errors
/// When the folder holds no certified model, or no item has such an id or title.
///
/// # Privacy
/// Post-processing of a released model: nothing is spent.
pub fn similar(args: &SimilarSettings) -> Result<SimilarItems> {
    dp_core::params::at_least_one("count", args.count)?;
    let model = Recommender::read(&args.model, None)?;
    let (factors, catalogue) = (model.factors(), model.catalogue());
    let (wanted, counts) = (Wanted::default(), model.counts());
    let above = above_noise(factors, counts);
    let title = |item: usize| catalogue.title(item).map(str::to_owned);
    let near = |of: &SimilarItem| Similar {
        id: catalogue.ids()[of.item].clone(),
        title: title(of.item),
        cosine: of.cosine,
        stddev: of.stddev,
    };
    let found = args.titles.iter().map(|name| {
        let item = wanted.find(name, catalogue, counts)?;
        let is_above_noise = above[item];
        let items = match is_above_noise {
            true => factors.nearest_to(item, args.count, |other| above[other]),
            false => Vec::new(),
        };
        Ok(SimilarTo {
            id: catalogue.ids()[item].clone(),
            title: title(item),
            is_above_noise,
            items: items.iter().map(near).collect(),
        })
    });
    Ok(SimilarItems {
        found: found.collect::<Result<_>>()?,
        no_tastes: model.no_tastes(),
    })
}
