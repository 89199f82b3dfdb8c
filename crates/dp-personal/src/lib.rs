#![doc = include_str!("../README.md")]

mod columns;
pub mod devices;
pub mod error;
mod evaluate;
pub mod federated;
mod item_features;
mod metric_release;
pub mod output;
pub mod personal;
mod prior;
pub mod quality;
mod ranking;
mod report;
mod rounds;
pub mod settings;
mod warnings;
pub mod watch;
pub mod workers;
pub mod workflows;

pub use dp_accounting as accounting;
pub use dp_audit as audit;
pub use dp_core as core;
pub use dp_data as data;
pub use dp_fedsgd as fedsgd;
pub use dp_mechanism as mechanism;
pub use dp_multitask as multitask;
pub use dp_personalize as personalize;
pub use dp_pubfeat as pubfeat;
