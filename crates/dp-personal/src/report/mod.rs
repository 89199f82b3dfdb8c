//! Pages about a run: what was released, and apart from it what is not covered by the guarantee.
//!
//! Sections make a page of plain words and numbers; `html` and `markdown` write the same page twice.

mod convergence;
mod html;
mod internal;
mod items;
mod markdown;
mod nearest;
mod page;
mod privacy;
mod released;
mod run;
mod runs;

pub(crate) use html::html;
pub(crate) use internal::internal_page;
pub(crate) use items::item_table;
pub(crate) use markdown::markdown;
pub(crate) use nearest::Wanted;
pub(crate) use released::released_page;
pub(crate) use run::RunFolder;
