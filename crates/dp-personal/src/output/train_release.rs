//! What a training run releases.

use dp_data::Ratings;
use dp_multitask::{FactorModel, FactorizationParams, Fitted, ScoreModel};
use serde::Serialize;
use serde_json::{Value, json};

use super::statement::put;
use super::{
    CERTIFICATE, Comparison, HeldOutBy, OutputFolder, ReleasedRun, SCHEMA_VERSION, model_files,
    privacy_statement,
};
use crate::error::Result;
use crate::settings::Method;

/// Settings of a run, for its report.
pub(crate) trait TrainSettings: Serialize {
    fn n_rounds(&self) -> usize;

    /// Whether a rule, not the operator, chose the length of the factors.
    fn dim_by_rule(&self) -> bool;

    /// How many of `n_items` items are learnt, where that is not all of them.
    fn n_head(&self, _n_items: usize) -> Option<usize> {
        None
    }

    /// What the model has besides factors and catalogue: names and bytes.
    fn more_files(&self) -> Vec<(&'static str, Vec<u8>)> {
        Vec::new()
    }
}

impl TrainSettings for FactorizationParams {
    fn n_rounds(&self) -> usize {
        self.n_rounds
    }

    fn dim_by_rule(&self) -> bool {
        self.dim.is_none()
    }

    fn n_head(&self, n_items: usize) -> Option<usize> {
        Self::n_head(self, n_items)
    }
}

/// Model, certificate and released values of `dp train` or `dp tune`.
pub(crate) struct TrainRelease<'a, S = FactorizationParams> {
    pub(crate) fitted: &'a Fitted<FactorModel>,
    pub(crate) method: Method,
    pub(crate) params: &'a S,
    pub(crate) ratings: &'a Ratings,
    pub(crate) held_out: HeldOutBy,
    /// Where settings were chosen within the budget.
    pub(crate) comparison: Option<Comparison>,
    /// Everything public that shaped the run, where it kept its list of releases.
    pub(crate) run: Option<&'a Value>,
}

impl<S: TrainSettings> TrainRelease<'_, S> {
    /// All files that may be published.
    pub(crate) fn write(&self, folder: &OutputFolder, publish_releases: bool) -> Result<()> {
        let mut certificate = self.fitted.certificate.clone();
        let files = model_files(&self.fitted.model, self.ratings.catalogue())?;
        for (name, bytes) in files.into_iter().chain(self.params.more_files()) {
            folder.write(name, &bytes)?;
            certificate = certificate.with_artifact(name, &bytes);
        }
        let certificate = self.released_run().write(folder, certificate)?;
        let certificate = folder.settle_releases(publish_releases, certificate)?;
        folder.write(CERTIFICATE, certificate.to_json().as_bytes())?;
        folder.write("report.md", self.released_report()?.as_bytes())
    }

    pub(super) fn command(&self) -> String {
        let tuned = self.comparison.is_some();
        (if tuned { "tune" } else { "train" }).to_owned()
    }

    fn released_run(&self) -> ReleasedRun {
        let mut settings = json!(self.params);
        self.held_out.put(&mut settings);
        ReleasedRun {
            schema_version: SCHEMA_VERSION,
            command: self.command(),
            model: self.describe_model(),
            counts: self.fitted.model.counts().cloned(),
            comparison: self.comparison.clone(),
            charts: Vec::new(),
            settings,
            run: self.run.cloned(),
        }
    }

    pub(super) fn describe_model(&self) -> String {
        let model = &self.fitted.model;
        let plain = model.scoring().score_model == ScoreModel::Plain;
        let length = match model.dim() {
            2 if plain => "1 taste".to_owned(),
            dim if plain => format!("{} tastes", dim - 1),
            1 => "item bias only".to_owned(),
            2 => "item bias and 1 taste".to_owned(),
            dim => format!("item bias and {} tastes", dim - 1),
        };
        let (n_items, n_rounds) = (model.n_items(), self.params.n_rounds());
        let head = match self.params.n_head(n_items) {
            Some(n_head) => format!(" for the {n_head} with the largest noisy counts"),
            None => String::new(),
        };
        format!(
            "{n_items} items, factors of length {} ({length}){head}, {n_rounds} rounds of {}",
            model.dim(),
            self.method.name()
        )
    }

    /// Said where the rule, not the operator, chose factors without tastes.
    pub(super) fn why_no_tastes(&self) -> Option<&'static str> {
        (self.params.dim_by_rule() && self.fitted.model.dim() == 1).then_some(
            "tastes would add more noise than they tell at this epsilon and amount of data",
        )
    }

    fn released_report(&self) -> Result<String> {
        let title = match self.fitted.certificate.guarantee {
            Some(_) => "Private item factors",
            None => "Item factors, NOT PRIVATE",
        };
        let mut text = format!("# {title}\n\n{}", self.describe_model());
        if let Some(reason) = self.why_no_tastes() {
            text.push_str(&format!(": {reason}"));
        }
        put(&mut text, ".\n\n## Guarantee\n");
        text.push_str(&privacy_statement(&self.fitted.certificate)?);
        if let Some(counts) = self.fitted.model.counts() {
            put(
                &mut text,
                &format!(
                    "\n## Released counts\n\nMean noisy count of an item {:.1}, noise {:.1} on each; {:.0} % of \
                 the items stand more than two noise deviations above zero.",
                    counts.mean(),
                    counts.noise_stddev(),
                    100.0 * share_above_noise(counts)
                ),
            );
            if self.method == Method::AmSsp {
                put(&mut text, "A user with n likes counts as 1/sqrt(n) of one.");
            }
        }
        if let Some(comparison) = &self.comparison {
            text.push_str(&comparison.section());
        }
        put(&mut text, "\n## Settings\n\n```json");
        put(
            &mut text,
            &serde_json::to_string_pretty(self.params).unwrap_or_default(),
        );
        put(&mut text, "```");
        Ok(text)
    }
}

fn share_above_noise(counts: &dp_multitask::NoisyCounts) -> f64 {
    let above = counts
        .values()
        .iter()
        .filter(|&&c| c > 2.0 * counts.noise_stddev())
        .count();
    above as f64 / counts.values().len() as f64
}
