//! `dp train --method am-ssp`: items are described by public features, and so are items without
//! ratings.

mod audit;
mod fit;
mod items;
mod rounds;
mod settings;
mod unseen;
mod weights_file;

pub(crate) use audit::audited;
pub(crate) use fit::{plan, train};
pub(crate) use items::{FEATURES, Items, read_columns, read_features};
pub(crate) use rounds::of_public;
pub(crate) use settings::refuse_flags;
pub(crate) use unseen::with_new_items;
pub(crate) use weights_file::FEATURE_WEIGHTS;
