//! Settings of all workflows: one table, declared together with the structs that hold the values.
//!
//! The fields of the structs are documented here, including ranges and defaults:
//! [`Settings::table`] lists them with the flag of the command line and the key of a file. Errors
//! about a setting use the name of the field.

mod items;
mod ledger;
mod nightly;
mod ratings;
mod rows;
mod table;
mod tools;

pub use items::*;
pub use ledger::{
    LedgerAcceptRollbackSettings, LedgerChoice, LedgerCreateSettings, LedgerFile, LedgerKind,
    LedgerMergeSettings, LedgerSettings, LedgerShowSettings, LedgerUpgradeSettings,
};
pub use nightly::*;
pub use ratings::*;
pub use rows::*;
pub use table::{Given, Kind, Range, Setting, Settings, Shapes, Source, Unread, Value};
pub use tools::*;

pub(crate) use ledger::ONE_LEDGER;
pub(crate) use table::{choices, settings, words};
