//! Pages about a run: what was released, and separately what the guarantee does not cover. A run
//! writes both when it ends; `dp report` writes them again, together with other runs.

mod convergence;
mod internal;
mod items;
mod model_card;
mod nearest;
mod privacy;
mod released;
mod run;
mod runs;

pub(crate) use internal::internal_page;
pub(crate) use items::item_table;
pub(crate) use nearest::{Wanted, above_noise};
pub(crate) use released::released_page;
pub(crate) use run::{Model, ReportedRun};

use crate::error::Result;
use model_card::{CARD, CARD_JSON, model_card};

/// The pages of a run that may be published, and the charts and the table of items next to them.
/// All of them follow from the certificate, the released values and the model.
pub(crate) const PAGES: [&str; 7] = [
    CARD,
    CARD_JSON,
    MARKDOWN,
    HTML,
    ITEM_TABLE,
    "features.svg",
    "coefficients.svg",
];
pub(crate) const MARKDOWN: &str = "report.md";
pub(crate) const HTML: &str = "report.html";
pub(crate) const ITEM_TABLE: &str = "report-items.csv";

/// The pages that a run writes: names and contents.
pub(crate) fn pages_of(run: ReportedRun<'_>) -> Result<Vec<(String, Vec<u8>)>> {
    let cards = model_card(&run)?;
    let page = released_page(&[run], &Wanted::default())?;
    let pages = cards
        .into_iter()
        .chain([(MARKDOWN, page.markdown().into_bytes())]);
    let figures = page.figures().map(|(name, svg)| (name, svg.into_bytes()));
    let files = pages.chain(figures);
    Ok(files
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .collect())
}
