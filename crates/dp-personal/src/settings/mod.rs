//! What every workflow can be told: one table, declared with the structs that hold the values.
//!
//! A struct's fields are documented here, and so are their ranges and defaults: [`Settings::table`] lists them with the
//! flag of the command line and the key of a file. Errors about a setting name it as the field is called.

mod ledger;
mod nightly;
mod ratings;
mod rows;
mod table;
mod tools;

pub use ledger::{
    LedgerChoice, LedgerCreateSettings, LedgerFile, LedgerKind, LedgerMergeSettings,
    LedgerSettings, LedgerShowSettings, LedgerUpgradeSettings,
};
pub use nightly::*;
pub use ratings::*;
pub use rows::*;
pub use table::{Given, Kind, Range, Setting, Settings, Shapes, Source, Unread, Value};
pub use tools::*;

pub(crate) use ledger::ONE_LEDGER;
pub(crate) use table::{choices, settings, words};
