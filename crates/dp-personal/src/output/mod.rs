//! Output of commands on disk and on the screen.

mod audit_report;
mod exploration_report;
mod federated_report;
mod folder;
mod items_report;
mod manifest;
mod model_file;
mod personal_report;
mod release;
mod replace;
mod run_files;
mod statement;
mod train_report;

pub(crate) use audit_report::{AuditReport, SampledAuditReport};
pub use dp_accounting::{rounded_down, rounded_up};
pub use dp_page::decimals;
pub(crate) use exploration_report::{ExplorationReport, FrontierPoint};
pub(crate) use federated_report::{FederatedRelease, FederatedReport, ITEM_FEATURES};
pub use folder::folder_of;
pub(crate) use folder::{
    INTERNAL_RELEASES, OutputFolder, RELEASES, StagedFolder, internal_folder_of, make_folder,
    make_internal_folder,
};
pub(crate) use items_report::{ITEMS_COMMAND, ItemVectors, ItemsRelease, ItemsReport};
pub(crate) use manifest::{INTERNAL_PREFIX, MANIFEST, Manifest};
pub(crate) use model_file::{
    CERTIFICATE, FACTORS, ITEM_VECTORS, ITEMS, MODEL_FILES, ReleasedShared, SHARED, SUBSPACE,
    catalogue_sha256, model_files, read_model, read_shared, read_subspace, shared_bytes,
    subspace_bytes, without_privacy,
};
pub(crate) use personal_report::{PersonalRelease, PersonalReport, SubspaceBy};
pub(crate) use release::{Release, RunReport, Seconds, no_split};
pub(crate) use replace::replace_private;
pub use replace::{Replacement, replace_files};
pub(crate) use run_files::{
    Aside, ByRound, ChartData, EVALUATION, Headline, HeldOutBy, INTERNAL, INTERNAL_PAGE,
    InternalRun, NUMERICS, RELEASED, ReleasedRun, RoundLine, SCHEMA_VERSION, expected_run, pretty,
    read_certificate, read_run_file,
};
pub use statement::PlanOverview;
pub(crate) use statement::{BudgetShare, INTERNAL_HEAD, budget_shares, privacy_overview, released};
pub(crate) use train_report::{
    Comparison, TrainRelease, TrainReport, TrainSettings, no_tastes, votes_facts,
};

/// A number of releases in words.
pub fn releases_in_words(n: u64) -> String {
    match n {
        1 => "1 release".to_owned(),
        n => format!("{n} releases"),
    }
}

/// Informs the operator about something that a run does; not a warning.
pub(crate) fn tell(text: &str) {
    tracing::warn!(target: "dp_personal::notice", "{text}");
}

/// Warns the operator of the workflow.
pub(crate) fn warn(text: &str) {
    tracing::warn!("{text}");
}
