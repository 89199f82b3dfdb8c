//! What commands leave on disk and on the screen.

mod audit_report;
mod comparison;
mod exploration_report;
mod federated_report;
mod folder;
mod model_file;
mod personal_report;
mod replace;
mod run_files;
mod shared_file;
mod statement;
mod subspace_file;
mod train_report;

pub(crate) use audit_report::{AuditReport, SampledAuditReport};
pub(crate) use comparison::Comparison;
pub use dp_accounting::{rounded_down, rounded_up};
pub(crate) use exploration_report::{ExplorationReport, FrontierPoint};
pub(crate) use federated_report::{FederatedRelease, FederatedReport, ITEM_FEATURES};
pub use folder::folder_of;
pub(crate) use folder::{INTERNAL_RELEASES, OutputFolder, RELEASES, make_folder};
pub(crate) use model_file::{
    CERTIFICATE, FACTORS, ITEMS, MODEL_FILES, catalogue_sha256, model_files, read_model,
};
pub(crate) use personal_report::{PersonalRelease, PersonalReport};
pub(crate) use replace::replace_private;
pub use replace::{Replacement, replace_files};
pub(crate) use run_files::{
    ByRound, ChartData, EVALUATION, Headline, HeldOutBy, INTERNAL, INTERNAL_SCHEMA_VERSION,
    InternalRun, RELEASED, ReleasedRun, RoundLine, SCHEMA_VERSION, pretty, read_certificate,
    read_run_file,
};
pub(crate) use shared_file::{ReleasedShared, SHARED, read_shared, shared_bytes};
pub(crate) use statement::{INTERNAL_HEAD, budget_shares, privacy_overview, released};
pub(crate) use subspace_file::{SUBSPACE, read_subspace, subspace_bytes};
pub(crate) use train_report::{NO_TASTES, Seconds, TrainRelease, TrainReport, TrainSettings};

/// Something that whoever runs the workflow should know.
pub(crate) fn warn(text: &str) {
    tracing::warn!("{text}");
}
