//! The nearest items of selected ones: post-processing of released factors.

use std::collections::BTreeSet;
use std::path::Path;

use dp_data::ItemCatalogue;
use dp_multitask::{ABOVE_NOISE, FactorModel, NoisyCounts, SimilarItem};
use dp_page::{BarRow, Bars, Block, Chart, Section, Unit};
use serde_json::Value;

use super::items::is_above;
use super::run::ReportedRun;
use crate::error::{Error, Result};
use crate::output::no_tastes;

/// Number of nearest items shown for each.
const N_NEAREST: usize = 6;
/// Number of items selected if none is requested.
const N_CHOSEN: usize = 4;

/// The items to show, and their titles.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Ids, titles or parts of titles.
    pub(crate) names: Vec<String>,
    /// Used instead of the model's own titles.
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

    /// The title of an item, if it has one.
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

    /// The item with that id, or with that title, or else the one with the largest count whose
    /// title contains the name.
    pub(crate) fn find(
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
                    "`titles` {name}: no item has this id or a title that contains it"
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
    // two names may be of one item
    let mut seen = BTreeSet::new();
    found.retain(|item| seen.insert(*item));
    if model.n_tastes() == 0 {
        if found.is_empty() {
            return Ok(None);
        }
        let mut text =
            "This model has no learned taste factors, so there are no nearest items.".to_owned();
        if run.setting("/dim").is_some_and(Value::is_null) {
            text += &format!(" {}.", no_tastes(model));
        }
        let blocks = vec![Block::Text(text)];
        return Ok(Some(Section::new("nearest", "Nearest items", blocks)));
    }
    if found.is_empty() {
        found = chosen(model, counts);
    }
    let above = above_noise(model, counts);
    let (clear, noisy): (Vec<usize>, Vec<usize>) = found.into_iter().partition(|&item| above[item]);
    let cards = clear
        .into_iter()
        .map(|item| card(model, catalogue, wanted, &above, item));
    let text = match model.standard_errors() {
        Some(_) => {
            "By cosine similarity of the released taste factors, 1 for the same direction, with 95 % intervals from their noise. Items are listed because \
             their similarity is high, which noise may have caused: another run would find most of these similarities lower."
        }
        None => "By cosine similarity of the released taste factors, 1 for the same direction.",
    };
    let mut blocks = vec![Block::Text(text.to_owned())];
    let cards: Vec<Chart> = cards.collect();
    if !cards.is_empty() {
        blocks.push(Block::Cards(cards));
    }
    if !noisy.is_empty() {
        let titles: Vec<&str> = (noisy.iter())
            .map(|&item| wanted.title(catalogue, item))
            .collect();
        let text = format!(
            "Within the noise, so their neighbours would be random: {}.",
            titles.join(", ")
        );
        blocks.push(Block::Warning(text));
    }
    let left_out = above.iter().filter(|above| !**above).count();
    let of_counts = format!(
        "their noisy count is at most {ABOVE_NOISE} standard deviations of its noise above zero"
    );
    let of_tastes = format!(
        "their tastes exceed the expected length of the noise by at most {ABOVE_NOISE} of its standard deviations"
    );
    let reasons = match (counts, model.standard_errors()) {
        (Some(_), Some(_)) => format!("{of_counts}, or {of_tastes}"),
        (Some(_), None) => format!("{of_counts}, or they have no tastes"),
        (None, Some(_)) => of_tastes,
        (None, None) => "they have no tastes. This run released neither counts of items nor standard errors, so neighbours of items \
                         within the noise are listed too, by chance"
            .to_owned(),
    };
    blocks.push(Block::Note(format!(
        "{left_out} of {} items are left out: {reasons}.",
        above.len()
    )));
    Ok(Some(Section::new("nearest", "Nearest items", blocks)))
}

/// Whether each item may have neighbours: it has taste factors, which are above their noise if
/// standard errors are known, and its released count, if there is one, is above the noise.
pub(crate) fn above_noise(model: &FactorModel, counts: Option<&NoisyCounts>) -> Vec<bool> {
    let is_counted = |item: usize| {
        counts.is_none_or(|counts| is_above(counts.values()[item], counts.noise_stddev()))
    };
    (0..model.n_items())
        .map(|item| model.has_tastes_above_noise(item) && is_counted(item))
        .collect()
}

/// The items with the largest counts, or those with the largest taste vectors, in units of their
/// noise if it is known.
fn chosen(model: &FactorModel, counts: Option<&NoisyCounts>) -> Vec<usize> {
    let strength = |item: usize| match counts {
        Some(counts) => counts.values()[item],
        None => model
            .tastes_over_noise(item)
            .unwrap_or_else(|| model.tastes(item).iter().map(|q| q * q).sum()),
    };
    let mut items: Vec<usize> = (0..model.n_items()).collect();
    items.sort_by(|&a, &b| strength(b).total_cmp(&strength(a)));
    items.truncate(N_CHOSEN);
    items
}

fn card(
    model: &FactorModel,
    catalogue: &ItemCatalogue,
    wanted: &Wanted,
    above: &[bool],
    item: usize,
) -> Chart {
    let near = neighbours(model, above, item).into_iter();
    let rows = near.map(|near| BarRow {
        label: wanted.title(catalogue, near.item).to_owned(),
        detail: near
            .stddev
            .map_or_else(String::new, |stddev| match 1.96 * stddev {
                half if half < 0.005 => "± < 0.01".to_owned(),
                half => format!("± {half:.2}"),
            }),
        values: vec![Some(near.cosine)],
    });
    let bars = Bars {
        series: vec!["cosine".to_owned()],
        unit: Unit::Plain,
        rows: rows.collect(),
    };
    Chart::bars(wanted.title(catalogue, item), "", bars)
}

/// The nearest items that may have neighbours, nearest first.
fn neighbours(model: &FactorModel, above: &[bool], item: usize) -> Vec<SimilarItem> {
    model.nearest_to(item, N_NEAREST, |other| above[other])
}

#[cfg(test)]
mod tests {
    use dp_multitask::{LocalBias, Provenance, ScoreModel, Scoring, UserPenalties};

    use super::*;

    #[test]
    fn an_item_within_the_noise_is_nobodys_neighbour() {
        let penalties = UserPenalties {
            offset: 1.0,
            factor: 1.0,
            factor_per_record: 0.0,
        };
        let scoring = Scoring {
            dim: 3,
            bias: LocalBias {
                center: 3.0,
                shrinkage: 1.0,
            },
            score_model: ScoreModel::Biased,
            penalties: Some(penalties),
            unobserved_weight: None,
            n_effects: 0,
        };
        // items 0 and 1 are similar; item 2 points in the same direction as item 0 by chance; item
        // 3 has no taste factors
        let factors = [
            [0.0, 1.0, 0.1],
            [0.0, 1.0, 0.3],
            [0.0, 9.0, 0.9],
            [0.0, 0.0, 0.0],
        ];
        let model = FactorModel::new(scoring, factors.concat(), Provenance::NonPrivate).unwrap();
        let counts = vec![50.0, 40.0, 19.0, 60.0];
        let counts = NoisyCounts::released_elsewhere(counts, 10.0, true).unwrap();
        let near = |counts: Option<&NoisyCounts>| {
            let near = neighbours(&model, &above_noise(&model, counts), 0);
            near.into_iter().map(|near| near.item).collect::<Vec<_>>()
        };
        assert_eq!(near(Some(&counts)), [1]);
        assert_eq!(near(None), [2, 1]);
        // item 1 has taste factors of 2 and .6 standard errors: 4.4 in squares, below 2 + 4
        let errors = [0.5, 0.5, 0.1, 0.1].map(|e| [e; 3]).concat();
        let model = model.with_standard_errors(errors).unwrap();
        let above = above_noise(&model, None);
        assert_eq!(above, [false, false, true, false]);
        // item 2 has the longest taste vector, and the one furthest above its noise here
        assert_eq!(chosen(&model, None)[0], 2);
        let errors = [0.1, 0.1, 5.0, 0.1].map(|e| [e; 3]).concat();
        let noisy = model.with_standard_errors(errors).unwrap();
        assert_eq!(chosen(&noisy, None)[0], 1);
    }
}
