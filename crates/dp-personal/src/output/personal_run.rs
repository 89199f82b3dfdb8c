//! A run of `dp personalize` for programs.

use serde_json::json;

use super::{
    Chart, Headline, INTERNAL_SCHEMA_VERSION, InternalRun, PersonalRelease, PersonalReport,
    ReleasedRun, SCHEMA_VERSION,
};
use crate::error::Result;
use crate::personal::MethodName;

impl PersonalRelease<'_> {
    /// For programs: released values only.
    pub(super) fn released_run(&self) -> Result<ReleasedRun> {
        let shares = self.feature_shares().into_iter();
        Ok(ReleasedRun {
            schema_version: SCHEMA_VERSION,
            command: "personalize".to_owned(),
            model: self.describe_model(),
            counts: None,
            comparison: None,
            charts: vec![Chart {
                title: "Features in the subspace".to_owned(),
                note: "how much of each feature's direction lies in the released subspace, from 0 to 1: the diagonal of U U^T".to_owned(),
                series: vec!["share".to_owned()],
                rows: shares.map(|(name, share)| (name, vec![Some(share)])).collect(),
            }],
            settings: json!({"method": self.settings, "inputs": self.inputs}),
            run: Some(self.run.clone()),
        })
    }
}

impl PersonalReport<'_> {
    /// For programs: what was measured on private data.
    pub(super) fn internal_run(&self) -> InternalRun {
        let metric = self.release.inputs.metric();
        let kinds = self.kinds();
        let of = |method: MethodName| method.over_rows(&kinds.first()?.1);
        let rows = MethodName::ALL.iter().enumerate();
        let rows = rows.map(|(at, method)| {
            let figures = kinds.iter().map(|(_, errors)| errors[at].over_rows);
            (method.words().to_owned(), figures.collect())
        });
        let series = ["users trained on", "users held out"].map(str::to_owned);
        InternalRun {
            schema_version: INTERNAL_SCHEMA_VERSION,
            certificate: None,
            command: "personalize".to_owned(),
            headline: of(MethodName::Private).map(|value| Headline {
                metric: format!("{metric} on held-out rows"),
                value,
                non_private: of(MethodName::NonPrivate),
            }),
            metrics: Vec::new(),
            by_round: self.by_round.clone(),
            charts: vec![Chart {
                title: format!("{metric} on held-out rows, by method"),
                note: "own methods use a user's rows alone; the random subspace is what a private one is worth that is nothing but noise".to_owned(),
                series: series.into_iter().take(kinds.len()).collect(),
                rows: rows.collect(),
            }],
            data: self.data_handling(),
            seconds: self.seconds,
        }
    }

    /// What was read and what was left out: private counts.
    pub(super) fn data_handling(&self) -> Vec<(String, u64)> {
        let n_held_out = self.users.iter().filter(|user| user.held_out).count();
        [
            ("users", self.users.len()),
            ("users held out", n_held_out),
            ("rows kept", self.n_rows()),
            ("rows left out: NaN or infinite", self.n_left_out),
        ]
        .map(|(name, value)| (name.to_owned(), value as u64))
        .into()
    }
}
