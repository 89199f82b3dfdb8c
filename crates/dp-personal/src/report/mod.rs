//! Pages about a run: what was released, and apart from it what is not covered by the guarantee. A run writes both as it ends;
//! `dp report` writes them again, with other runs beside it.

mod convergence;
mod internal;
mod items;
mod nearest;
mod privacy;
mod released;
mod run;
mod runs;

pub(crate) use internal::internal_page;
pub(crate) use items::item_table;
pub(crate) use nearest::Wanted;
pub(crate) use released::released_page;
pub(crate) use run::{Model, ReportedRun};
