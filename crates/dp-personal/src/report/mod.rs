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
pub(crate) use model_card::model_card;
pub(crate) use nearest::{Wanted, above_noise};
pub(crate) use released::released_page;
pub(crate) use run::{Model, ReportedRun};
