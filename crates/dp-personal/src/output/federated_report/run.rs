//! A run of `dp federate` for programs.

use super::super::{Chart, INTERNAL_SCHEMA_VERSION, InternalRun, ReleasedRun, SCHEMA_VERSION};
use super::{FederatedRelease, FederatedReport};

impl FederatedRelease<'_> {
    /// For programs: released values only.
    pub(super) fn released_run(&self) -> ReleasedRun {
        let coefficients = self.coefficients();
        ReleasedRun {
            schema_version: SCHEMA_VERSION,
            command: "federate".to_owned(),
            model: self.describe_model(),
            counts: None,
            comparison: None,
            charts: vec![Chart {
                title: "Shared coefficients".to_owned(),
                note: "the part that all users share, of features as models see them; every user adds an own part, which stays with the user".to_owned(),
                series: vec!["shared".to_owned()],
                rows: coefficients.map(|(name, w)| (name, vec![Some(w)])).collect(),
            }],
            settings: self.settings_json(),
            run: Some(self.run.clone()),
        }
    }
}

impl FederatedReport<'_> {
    /// For programs: what was measured on private data.
    pub(super) fn internal_run(&self) -> InternalRun {
        let measured = self.measured();
        InternalRun {
            schema_version: INTERNAL_SCHEMA_VERSION,
            certificate: None,
            command: "federate".to_owned(),
            headline: measured.headline(),
            metrics: Vec::new(),
            by_round: measured.by_round(),
            charts: measured.charts(),
            data: self.data_handling(),
            seconds: self.seconds,
        }
    }

    /// What was read and what was left out: private counts.
    pub(super) fn data_handling(&self) -> Vec<(String, u64)> {
        [
            ("users", self.users.len()),
            ("users held out", self.held_out.len()),
            ("rows trained or tested on", self.measured().n_rows()),
            ("rows left out: NaN or infinite", self.n_left_out),
        ]
        .map(|(name, value)| (name.to_owned(), value as u64))
        .into()
    }
}
