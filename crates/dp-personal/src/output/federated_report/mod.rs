//! The files of `dp federate` at one epsilon, and its summary on the screen.

mod internal;

use std::path::Path;

use dp_accounting::Certificate;
use dp_fedsgd::SharedModel;
use serde_json::{Value, json};

use self::internal::Measured;
use super::shared_file::{SHARED, shared_bytes};
use super::statement::{fact, released, summary};
use super::{
    ChartData, INTERNAL_SCHEMA_VERSION, InternalRun, OutputFolder, ReleasedRun, SCHEMA_VERSION,
    Seconds,
};
use crate::error::{Error, Result};
use crate::federated::{
    Convergence, DescribedItems, RunSettings, UserFigures, alpha_name, alpha_value,
};
use crate::personal::Inputs;
use crate::report::{write_internal, write_released};

/// What a run releases.
pub(crate) struct FederatedRelease<'a> {
    pub(crate) certificate: Certificate,
    pub(crate) model: &'a SharedModel,
    pub(crate) alphas: &'a [f64],
    /// Which of them.
    pub(crate) chosen: usize,
    pub(crate) inputs: &'a Inputs,
    /// Of ratings: what users need to describe their own.
    pub(crate) items: Option<&'a DescribedItems>,
    pub(crate) settings: &'a RunSettings,
    /// Everything public that shaped the run.
    pub(crate) run: &'a Value,
}

/// Everything a run has to say, released and internal apart.
pub(crate) struct FederatedReport<'a> {
    pub(crate) release: &'a FederatedRelease<'a>,
    /// Errors of the private runs, of the same without noise, and of the users' own choices.
    pub(crate) users: &'a [UserFigures],
    /// The same of users whom nothing was trained on.
    pub(crate) held_out: &'a [UserFigures],
    /// The error after rounds of the private runs.
    pub(crate) convergence: Option<&'a Convergence>,
    pub(crate) n_left_out: usize,
    pub(crate) seconds: Seconds,
}

/// The rated items with their features, as the model was trained on them.
pub(crate) const ITEM_FEATURES: &str = "item-features.csv";

impl FederatedRelease<'_> {
    /// Model, certificate, released report with its chart.
    pub(crate) fn write(&self, folder: &OutputFolder, publish_releases: bool) -> Result<()> {
        let shared = shared_bytes(self.model, self.alpha(), self.settings, self.inputs)?;
        folder.write(SHARED, &shared)?;
        let mut certificate = self.certificate.clone();
        certificate = certificate.with_artifact(SHARED, &shared);
        if let Some(items) = self.items {
            let items = items
                .csv()
                .map_err(|e| Error::model(Path::new(ITEM_FEATURES), e))?;
            folder.write(ITEM_FEATURES, &items)?;
            certificate = certificate.with_artifact(ITEM_FEATURES, &items);
        }
        let certificate = folder.settle_releases(publish_releases, certificate)?;
        write_released(folder, certificate, self.released_run(), None)
    }

    fn settings_json(&self) -> Value {
        let alphas: Vec<Value> = self.alphas.iter().copied().map(alpha_value).collect();
        json!({
            "alphas": alphas,
            "alpha": alpha_value(self.alpha()),
            "rounds": self.settings,
            "inputs": self.inputs,
        })
    }

    fn alpha(&self) -> f64 {
        self.alphas[self.chosen]
    }

    fn describe_model(&self) -> String {
        let (n, rounds) = (self.inputs.features.len(), self.settings.n_rounds);
        let grid = match self.alphas.len() {
            1 => "the only one".to_owned(),
            n => format!("of {n}, chosen within the budget"),
        };
        let alpha = alpha_name(self.alpha());
        format!("{n} features, alpha {alpha}, {grid}; {rounds} rounds each")
    }

    /// For programs: released values only.
    fn released_run(&self) -> ReleasedRun {
        let coefficients = self.coefficients();
        ReleasedRun {
            schema_version: SCHEMA_VERSION,
            command: "federate".to_owned(),
            model: self.describe_model(),
            counts: None,
            comparison: None,
            charts: vec![ChartData {
                title: "Shared coefficients".to_owned(),
                note: "the part that all users share, of features as models see them; every user adds an own part, which stays with the user".to_owned(),
                series: vec!["shared".to_owned()],
                rows: coefficients.map(|(name, w)| (name, vec![Some(w)])).collect(),
            }],
            settings: self.settings_json(),
            run: Some(self.run.clone()),
        }
    }

    fn coefficients(&self) -> impl Iterator<Item = (String, f64)> {
        self.inputs.names().zip(self.model.last().iter().copied())
    }
}

impl FederatedReport<'_> {
    /// Internal report with its chart, and the table of users.
    pub(crate) fn write_internal(&self, folder: &OutputFolder) -> Result<()> {
        folder.write_internal("internal-users.csv", &self.measured().user_table()?)?;
        write_internal(
            folder,
            self.internal_run(),
            self.release.released_run(),
            None,
        )
    }

    const fn measured(&self) -> Measured<'_> {
        Measured {
            inputs: self.release.inputs,
            alphas: self.release.alphas,
            chosen: self.release.chosen,
            users: self.users,
            held_out: self.held_out,
            convergence: self.convergence,
        }
    }

    /// The object that `--json` prints.
    pub(crate) fn json(&self) -> Value {
        let alphas: Vec<Value> = self
            .release
            .alphas
            .iter()
            .copied()
            .map(alpha_value)
            .collect();
        json!({
            "alphas": alphas,
            "alpha": alpha_value(self.release.alpha()),
            "rounds": self.release.settings.n_rounds,
            "n_features": self.release.inputs.features.len(),
            "released": released(&self.release.certificate),
            "internal": self.measured().json(&self.seconds),
        })
    }

    /// What the terminal shows.
    pub(crate) fn summary(&self, out: &Path, balance: Option<&str>) -> String {
        let model = fact("model", self.release.describe_model());
        let table = self.measured().table();
        let certificate = &self.release.certificate;
        summary(certificate, [model], (out, balance), table, self.seconds)
    }

    /// For programs: what was measured on private data.
    fn internal_run(&self) -> InternalRun {
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
    fn data_handling(&self) -> Vec<(String, u64)> {
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
