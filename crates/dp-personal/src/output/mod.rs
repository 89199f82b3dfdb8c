//! What commands leave on disk and on the screen.

mod audit_report;
mod bars;
mod comparison;
mod exploration_report;
mod federated_report;
mod folder;
mod lines;
mod model_file;
mod personal_release;
mod personal_report;
mod personal_run;
mod replace;
mod report;
mod run_files;
mod shared_file;
mod statement;
mod subspace_file;
mod train_release;

pub(crate) use audit_report::AuditReport;
pub(crate) use bars::escaped;
pub(crate) use comparison::Comparison;
pub use dp_accounting::{rounded_down, rounded_up};
pub(crate) use exploration_report::{ExplorationReport, FrontierPoint};
pub(crate) use federated_report::{FederatedRelease, FederatedReport, ITEM_FEATURES};
pub use folder::folder_of;
pub(crate) use folder::{INTERNAL_RELEASES, OutputFolder, RELEASES, make_folder};
pub use lines::{Axes, Line, Look, lines, stacked};
pub(crate) use model_file::{
    CERTIFICATE, FACTORS, ITEMS, MODEL_FILES, catalogue_sha256, model_files, read_model,
};
pub(crate) use personal_release::PersonalRelease;
pub(crate) use personal_report::PersonalReport;
pub use replace::{Replacement, replace_files};
pub(crate) use report::{Seconds, TrainReport};
pub(crate) use run_files::{
    ByRound, Chart, EVALUATION, Headline, HeldOutBy, INTERNAL, INTERNAL_SCHEMA_VERSION,
    InternalRun, RELEASED, ReleasedRun, RoundLine, SCHEMA_VERSION, pretty, read_certificate,
    read_run_file,
};
pub(crate) use shared_file::{ReleasedShared, SHARED, read_shared, shared_bytes};
pub(crate) use statement::{budget_shares, privacy_overview, privacy_statement, released};
pub(crate) use subspace_file::{SUBSPACE, read_subspace, subspace_bytes};
pub(crate) use train_release::{TrainRelease, TrainSettings};

/// Something that whoever runs the workflow should know.
pub(crate) fn warn(text: &str) {
    tracing::warn!("{text}");
}
