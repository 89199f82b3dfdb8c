//! A run of `dp federate` for programs.

use super::federated_report::FederatedReport;
use super::{Chart, Headline, InternalRun, ReleasedRun, SCHEMA_VERSION};
use crate::federated::alpha_name;

impl FederatedReport<'_> {
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
        }
    }

    /// For programs: what was measured on private data.
    pub(super) fn internal_run(&self) -> InternalRun {
        let (metric, n) = (self.inputs.metric(), self.alphas.len());
        let over = |at: usize| self.figures(at).over_rows;
        let rows = self.alphas.iter().enumerate().map(|(at, &alpha)| {
            let mark = if at == self.chosen { ", chosen" } else { "" };
            let name = format!("alpha {}{mark}", alpha_name(alpha));
            (name, vec![over(at), over(n + at)])
        });
        let own = ["users' own choice (free)", "own ridge (free, local)"].iter();
        let own = own.enumerate().filter_map(|(which, name)| {
            Some(((*name).to_owned(), vec![self.own(which)?.over_rows, None]))
        });
        InternalRun {
            schema_version: SCHEMA_VERSION,
            command: "federate".to_owned(),
            headline: over(self.chosen).map(|value| Headline {
                metric: format!("{metric} on held-out rows"),
                value,
                non_private: over(n + self.chosen),
            }),
            metrics: Vec::new(),
            by_round: None,
            charts: vec![Chart {
                title: format!("{metric} on held-out rows, by alpha"),
                note: "alpha 0 learns alone, alpha inf is one model for all".to_owned(),
                series: ["private", "no noise"].map(str::to_owned).into(),
                rows: rows.chain(own).collect(),
            }],
            data: self.data_handling(),
            seconds: self.seconds,
        }
    }

    /// What was read and what was left out: private counts.
    pub(super) fn data_handling(&self) -> Vec<(String, u64)> {
        [
            ("users", self.users.len()),
            ("rows trained or tested on", self.n_rows()),
            ("rows left out: NaN or infinite", self.n_left_out),
        ]
        .map(|(name, value)| (name.to_owned(), value as u64))
        .into()
    }
}
