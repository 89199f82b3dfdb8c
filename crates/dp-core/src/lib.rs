#![doc = include_str!("../README.md")]

mod adjacency;
mod error;
mod event;
mod guarantee;
mod interactions;
#[cfg(privacy_mutants)]
pub mod mutants;
pub mod parallel;
pub mod params;
mod private;
mod user_samples;

pub use adjacency::Adjacency;
pub use error::{Error, ParamError, Result, ScratchError, ShapeError};
pub use event::{DpEvent, Relation, ReplaceFactor, Stopping};
pub use guarantee::{ApproxDp, Gdp, Zcdp};
pub use interactions::{
    DroppedRecords, Interactions, InteractionsBuilder, ItemEntry, ItemMajor, Origin, PerUser,
    Scratch, SpillingBuilder, UserKey, UserRow,
};
pub use private::Private;
pub use user_samples::{SampleRows, UserSamples, UserSamplesBuilder};
