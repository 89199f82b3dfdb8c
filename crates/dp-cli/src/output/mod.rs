//! What commands leave on disk and on the screen.

mod answers;
mod audit_report;
mod bars;
mod comparison;
mod exploration_report;
mod federated_report;
mod folder;
mod lines;
mod model_file;
mod personal_report;
mod report;
mod screen;
mod shared_file;
mod statement;
mod subspace_file;

pub(crate) use answers::{at_least, at_most, bracket, bracket_of, duration, figure};
pub(crate) use audit_report::AuditReport;
pub(crate) use comparison::Comparison;
pub(crate) use dp_accounting::{rounded_down, rounded_up};
pub(crate) use exploration_report::{ExplorationReport, FrontierPoint};
pub(crate) use federated_report::FederatedReport;
pub(crate) use folder::{OutputFolder, folder_of};
pub(crate) use lines::{Axes, Line, lines};
pub(crate) use model_file::{CERTIFICATE, MODEL_FILES, model_files, read_model};
pub(crate) use personal_report::PersonalReport;
pub(crate) use report::{Seconds, TrainReport, TrainSettings};
pub(crate) use screen::{print, print_error, print_json, say, warn};
pub(crate) use shared_file::SHARED;
pub(crate) use statement::{privacy_overview, privacy_statement};
pub(crate) use subspace_file::{SUBSPACE, read_subspace};
