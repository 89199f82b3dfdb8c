//! What `dp personalize` releases: subspace, certificate, report and plot.

use dp_personalize::{Fitted, Subspace};
use serde_json::{Value, json};

use super::bars::bars;
use super::statement::put;
use super::subspace_file::{SUBSPACE, subspace_bytes};
use super::{CERTIFICATE, OutputFolder, privacy_statement};
use crate::error::Result;
use crate::personal::{Inputs, Intercept, MethodSettings};

/// The released part of a run: whole before anything is measured on held-out rows.
pub(crate) struct PersonalRelease<'a> {
    pub(crate) fitted: &'a Fitted<Subspace>,
    pub(crate) inputs: &'a Inputs,
    pub(crate) settings: &'a MethodSettings,
    /// Everything public that shaped the run.
    pub(crate) run: &'a Value,
}

impl PersonalRelease<'_> {
    /// Subspace, certificate, released report with its plot.
    pub(crate) fn write(&self, folder: &OutputFolder, publish_releases: bool) -> Result<()> {
        let subspace = subspace_bytes(&self.fitted.model, self.inputs)?;
        folder.write(SUBSPACE, &subspace)?;
        let certificate = self.fitted.certificate.clone();
        let certificate = certificate.with_artifact(SUBSPACE, &subspace);
        let certificate = self.released_run()?.write(folder, certificate)?;
        let certificate = folder.settle_releases(publish_releases, certificate)?;
        folder.write(CERTIFICATE, certificate.to_json().as_bytes())?;
        folder.write("report.md", self.released_report()?.as_bytes())?;
        folder.write("features.svg", self.released_plot().as_bytes())
    }

    pub(super) fn describe_model(&self) -> String {
        let (settings, n) = (self.settings, self.inputs.features.len());
        let level = match self.inputs.intercept {
            Intercept::Own => "users' own levels",
            Intercept::Shared => "a constant feature",
            Intercept::None => "no intercept",
        };
        let steps = match settings.n_steps() {
            0 => String::new(),
            1 => ", 1 step".to_owned(),
            n => format!(", {n} steps"),
        };
        let method = serde_json::to_value(settings.method).unwrap_or_default();
        let method = method.as_str().unwrap_or_default().to_owned();
        let sparse = match self.inputs.sparse {
            0 => String::new(),
            most => format!(" and up to {most} coefficients of the user's own"),
        };
        format!(
            "{n} features and {level}, subspace of dimension {}{sparse}, {method}{steps}",
            settings.rank
        )
    }

    fn released_report(&self) -> Result<String> {
        let title = match self.fitted.certificate.guarantee {
            Some(_) => "Private shared subspace",
            None => "Shared subspace, NOT PRIVATE",
        };
        let mut text = format!(
            "# {title}\n\nTarget `{}`: {}.\n\n",
            self.inputs.target.name,
            self.describe_model()
        );
        put(&mut text, "## Guarantee\n");
        text.push_str(&privacy_statement(&self.fitted.certificate)?);
        put(
            &mut text,
            "\n## Features in the subspace\n\nHow much of each feature's direction lies in the subspace, from 0 to 1: \
             the diagonal of `U U^T`. It adds up to the rank, and is computed from the released subspace.\n\n\
             ![Features in the subspace](features.svg)\n\n| feature | share |\n|---|---:|",
        );
        for (name, share) in self.feature_shares() {
            let name = name.replace('|', "\\|");
            put(&mut text, &format!("| {name} | {share:.4} |"));
        }
        put(&mut text, "\n## Settings\n\n```json");
        let settings = json!({"method": self.settings, "inputs": self.inputs});
        put(&mut text, &serde_json::to_string_pretty(&settings)?);
        put(&mut text, "```");
        Ok(text)
    }

    fn released_plot(&self) -> String {
        let rows = self.feature_shares().into_iter();
        let rows: Vec<_> = rows.map(|(name, share)| (name, Some(share))).collect();
        bars(
            "Features in the subspace",
            "diagonal of U U^T, from the released subspace",
            &rows,
        )
    }

    /// Largest first.
    pub(super) fn feature_shares(&self) -> Vec<(String, f64)> {
        let mut shares = feature_shares(&self.fitted.model, self.inputs);
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

/// `(U U^T)_cc` of each coordinate.
fn feature_shares(subspace: &Subspace, inputs: &Inputs) -> Vec<(String, f64)> {
    let rows = subspace.basis().chunks_exact(subspace.rank());
    inputs
        .names()
        .zip(rows.map(|row| row.iter().map(|u| u * u).sum()))
        .collect()
}
