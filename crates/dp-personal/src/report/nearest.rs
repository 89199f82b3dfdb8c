//! The nearest items of chosen ones: post-processing of released factors.

use std::path::Path;

use dp_data::ItemCatalogue;
use dp_multitask::{FactorModel, NoisyCounts};
use dp_page::{BarRow, Bars, Block, Chart, Section, Unit};
use serde_json::Value;

use super::run::ReportedRun;
use crate::error::{Error, Result};
use crate::output::NO_TASTES;

/// Items shown for each.
const N_NEAREST: usize = 6;
/// Items chosen where none is asked for.
const N_CHOSEN: usize = 4;

/// Which items to show, and what they are called.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Ids, titles or parts of titles.
    pub(crate) names: Vec<String>,
    /// Instead of the model's own titles.
    pub(crate) titles: Option<ItemCatalogue>,
}

impl Wanted {
    pub(crate) fn read(names: &[String], items: Option<&Path>) -> Result<Self> {
        Ok(Self {
            names: names.to_vec(),
            titles: items.map(dp_data::read_catalogue).transpose()?,
        })
    }

    /// The title of an item, or its id.
    fn title<'a>(&'a self, catalogue: &'a ItemCatalogue, item: usize) -> &'a str {
        let stated = self.stated_title(catalogue, item);
        stated.unwrap_or(&catalogue.ids()[item])
    }

    /// The title of an item, where it has one.
    pub(super) fn stated_title<'a>(
        &'a self,
        catalogue: &'a ItemCatalogue,
        item: usize,
    ) -> Option<&'a str> {
        let own = self.titles.as_ref();
        let own = own.and_then(|titles| titles.title(titles.index(&catalogue.ids()[item])?));
        own.or_else(|| catalogue.title(item))
            .filter(|title| !title.is_empty())
    }

    /// The item of that id, else of that title, else the one with the largest count whose title contains the name.
    fn find(
        &self,
        name: &str,
        catalogue: &ItemCatalogue,
        counts: Option<&NoisyCounts>,
    ) -> Result<usize> {
        if let Some(item) = catalogue.index(name) {
            return Ok(item);
        }
        let wanted = name.to_lowercase();
        let titles: Vec<String> = (0..catalogue.len())
            .map(|item| self.title(catalogue, item).to_lowercase())
            .collect();
        if let Some(item) = titles.iter().position(|title| *title == wanted) {
            return Ok(item);
        }
        let count = |item: usize| counts.map_or(0.0, |counts| counts.values()[item]);
        let holding = (0..titles.len()).filter(|&item| titles[item].contains(&wanted));
        holding
            .reduce(|a, b| if count(b) > count(a) { b } else { a })
            .ok_or_else(|| {
                Error::Usage(format!(
                    "--title {name}: no item has this id or a title that contains it"
                ))
            })
    }
}

/// Cards of the nearest items.
pub(super) fn nearest(run: &ReportedRun<'_>, wanted: &Wanted) -> Result<Option<Section>> {
    let Some((model, catalogue)) = &run.model else {
        if wanted.names.is_empty() {
            return Ok(None);
        }
        let text = "--title needs a folder of `dp train` or `dp tune`: this model has no items";
        return Err(Error::Usage(text.to_owned()));
    };
    let counts = run.counts();
    let found = wanted.names.iter();
    let found: Result<Vec<usize>> = found
        .map(|name| wanted.find(name, catalogue, counts))
        .collect();
    let mut found = found?;
    if model.dim() == 1 {
        let mut text = "This model has item biases only, so there are no nearest items.".to_owned();
        if run.setting("/dim").is_some_and(Value::is_null) {
            text += &format!(" {NO_TASTES}.");
        }
        let blocks = vec![Block::Text(text)];
        return Ok(Some(Section::new("nearest", "Nearest items", blocks)));
    }
    if found.is_empty() {
        found = chosen(model, counts);
    }
    let cards = found
        .into_iter()
        .map(|item| card(model, catalogue, wanted, item));
    let text = "By cosine similarity of the released taste factors, 1 for the same direction. An item whose count does not stand out \
                from the noise has random neighbours.";
    let blocks = vec![Block::Text(text.to_owned()), Block::Cards(cards.collect())];
    Ok(Some(Section::new("nearest", "Nearest items", blocks)))
}

/// The items with the largest counts, or those with the strongest tastes.
fn chosen(model: &FactorModel, counts: Option<&NoisyCounts>) -> Vec<usize> {
    let strength = |item: usize| match counts {
        Some(counts) => counts.values()[item],
        None => tastes(model, item).iter().map(|q| q * q).sum(),
    };
    let mut items: Vec<usize> = (0..model.n_items()).collect();
    items.sort_by(|&a, &b| strength(b).total_cmp(&strength(a)));
    items.truncate(N_CHOSEN);
    items
}

fn card(model: &FactorModel, catalogue: &ItemCatalogue, wanted: &Wanted, item: usize) -> Chart {
    let near = neighbours(model, item).into_iter();
    let rows = near.map(|(other, cosine)| BarRow {
        label: wanted.title(catalogue, other).to_owned(),
        detail: String::new(),
        values: vec![Some(cosine)],
    });
    let bars = Bars {
        series: vec!["cosine".to_owned()],
        unit: Unit::Plain,
        rows: rows.collect(),
    };
    Chart::bars(wanted.title(catalogue, item), "", bars)
}

fn tastes(model: &FactorModel, item: usize) -> &[f64] {
    &model.item_factors()[item * model.dim()..][1..model.dim()]
}

/// Nearest first; nothing for an item without tastes.
fn neighbours(model: &FactorModel, item: usize) -> Vec<(usize, f64)> {
    let norm = |q: &[f64]| q.iter().map(|x| x * x).sum::<f64>().sqrt();
    let own = tastes(model, item);
    let cosine = |other: usize| {
        let q = tastes(model, other);
        let product: f64 = own.iter().zip(q).map(|(a, b)| a * b).sum();
        product / (norm(own) * norm(q))
    };
    let others = (0..model.n_items()).filter(|&other| other != item);
    let mut all: Vec<(usize, f64)> = others.map(|other| (other, cosine(other))).collect();
    all.retain(|(_, cosine)| cosine.is_finite());
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.truncate(N_NEAREST);
    all
}
