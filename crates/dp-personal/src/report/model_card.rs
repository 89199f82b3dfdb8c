//! The model card: what a model is for, what it was trained on, and what is known about it, from
//! released values alone.

use dp_accounting::Status;
use dp_multitask::FactorModel;
use dp_page::{Block, Kind, Page, Section, Table, Unit};
use serde_json::{Value, json};

use super::items::n_above;
use super::privacy::scope_lists;
use super::released::{footer, title};
use super::run::ReportedRun;
use crate::error::Result;
use crate::output::{no_split, pretty};

/// The human-readable card.
pub(crate) const CARD: &str = "model-card.md";
/// The machine-readable card.
pub(crate) const CARD_JSON: &str = "model-card.json";
const SCHEMA_VERSION: u32 = 1;

/// Both forms of the card: names and contents.
pub(crate) fn model_card(run: &ReportedRun<'_>) -> Result<[(&'static str, Vec<u8>); 2]> {
    let card = Card::of(run);
    Ok([
        (CARD, card.page().markdown().into_bytes()),
        (CARD_JSON, pretty(&card.json())?),
    ])
}

/// Limits and uses in prose, in addition to what the run itself states.
struct Card<'a> {
    run: &'a ReportedRun<'a>,
    intended_for: &'static str,
    not_for: &'static str,
    limits: Vec<String>,
}

impl<'a> Card<'a> {
    fn of(run: &'a ReportedRun<'a>) -> Self {
        let of_items = run.is_of_items();
        let is_linear = run.model.is_none() && !of_items;
        let mut limits = Vec::new();
        if let Status::NotPrivate { reason } = &run.statement.status {
            limits.push(format!(
                "Not private: {reason}. Treat the model as private data."
            ));
        }
        let warnings = run.released.iter().flat_map(|of| &of.warnings);
        limits.extend(warnings.cloned());
        if !run.certificate.not_made.is_empty() {
            let n = run.certificate.not_made.len();
            limits.push(format!(
                "The run ended early: {n} planned releases were not made."
            ));
        }
        if run.certificate.metrics.is_empty() {
            let reason = match &run.released {
                Some(of) if of.run.as_ref().is_some_and(no_split) => "nothing was held out",
                Some(of) if of.command.starts_with("nightly") => "held-out figures are private",
                _ => {
                    "held-out figures of this run are private; `release_metrics` publishes some within the budget"
                }
            };
            limits.push(format!("No accuracy is published: {reason}."));
        }
        limits.extend(run.model.iter().filter_map(|(model, _)| alike(model)));
        limits.extend(is_linear.then(|| {
            "Linear in the features: what depends on products of features is not learned."
                .to_owned()
        }));
        Self {
            run,
            intended_for: match (of_items, is_linear) {
                (true, _) => ITEM_SCORES,
                (false, true) => PREDICTIONS,
                (false, false) => RECOMMENDATIONS,
            },
            not_for: match (is_linear, run.is_private()) {
                (true, _) => STRANGERS,
                (false, true) => HIDDEN,
                (false, false) => UNPROTECTED,
            },
            limits,
        }
    }

    /// Name and value of each property of the model.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let (run, project) = (self.run, &self.run.certificate.project);
        let revision = project.revision.as_ref();
        let revision = revision.map_or_else(String::new, |of| format!(", revision {of}"));
        let software = format!("{} {}{revision}", project.name, project.version);
        let facts = [
            ("name", run.name.clone()),
            ("model", run.model_line()),
            ("method", run.method_name()),
            ("trained on", run.certificate.data_set_id.clone()),
            ("software", software),
        ];
        let date = run.date().map(|date| ("date", date));
        let above = self
            .above_noise()
            .map(|(above, n_items)| ("items above the noise", format!("{above} of {n_items}")));
        facts.into_iter().chain(above).chain(date).collect()
    }

    /// Number of items whose released count is above its noise, and of all items; none if no counts
    /// were released.
    fn above_noise(&self) -> Option<(usize, usize)> {
        let counts = self.run.counts().filter(|of| !of.values().is_empty())?;
        Some((n_above(counts), counts.values().len()))
    }

    fn page(&self) -> Page {
        let statement = &self.run.statement;
        let [is_for, not_for] = [self.intended_for, self.not_for].map(|text| vec![text.to_owned()]);
        let mut privacy = Vec::new();
        if statement.guarantee.is_some() {
            let rows = statement.epsilons().into_iter();
            let delta = (
                "delta".to_owned(),
                format!("{:e}", self.run.certificate.target.delta),
            );
            let rows =
                rows.map(|(neighbours, epsilon)| (format!("epsilon, {neighbours}"), epsilon));
            let unit = ("unit".to_owned(), statement.unit.clone());
            privacy.push(Block::Facts(rows.chain([delta, unit]).collect()));
            privacy.push(Block::Text(statement.meaning().join(" ")));
        }
        privacy.extend(scope_lists(statement));
        let mut sections = vec![
            Section::new(
                "use",
                "Intended use",
                vec![Block::List("For", is_for), Block::List("Not for", not_for)],
            ),
            Section::new("privacy", "Privacy", privacy),
        ];
        sections.extend(self.accuracy());
        if !self.limits.is_empty() {
            let limits = vec![Block::List("Known", self.limits.clone())];
            sections.push(Section::new("limits", "Limitations", limits));
        }
        sections.push(self.files());
        let facts = self.facts().into_iter();
        Page {
            kind: match self.run.is_private() {
                true => Kind::Released,
                false => Kind::NotPrivate,
            },
            title: format!("Model card: {}", title(self.run)),
            facts: facts
                .map(|(name, value)| (name.to_owned(), value))
                .chain(self.run.votes())
                .collect(),
            lead: "Made from published values alone; report.md has all of them.".to_owned(),
            caution: (!self.run.is_private())
                .then(|| "NOT PRIVATE: this model carries no guarantee.".to_owned()),
            sections,
            footer: footer(self.run),
        }
    }

    fn accuracy(&self) -> Option<Section> {
        let metrics = &self.run.certificate.metrics;
        let confidence = 100.0 * metrics.first()?.confidence;
        let shown = |value| Unit::Plain.shown(Some(value));
        let rows = metrics.iter().map(|of| {
            let interval = format!("{} to {}", shown(of.lower), shown(of.upper));
            vec![
                of.metric.clone(),
                of.method.clone(),
                shown(of.value),
                interval,
            ]
        });
        let interval = format!("{confidence:.0} % interval");
        let heads = ["metric", "of", "value", &interval];
        let table = Table::new(
            "On held-out records, released within the budget",
            heads,
            rows,
        );
        let blocks = vec![Block::Table(table.with_text([1]))];
        Some(Section::new("accuracy", "Accuracy", blocks))
    }

    fn files(&self) -> Section {
        let files = self.run.certificate.artifacts.iter();
        let rows = files.map(|file| vec![file.name.clone(), file.sha256.clone()]);
        let table = Table::new("Covered by the certificate", ["file", "SHA-256"], rows);
        let words = "dp verify DIR recomputes the guarantee from the list of releases in certificate.json and compares all files.";
        let blocks = vec![
            Block::Table(table.with_text([1])),
            Block::Text(words.to_owned()),
        ];
        Section::new("files", "Files", blocks)
    }

    fn json(&self) -> Value {
        let (run, certificate) = (self.run, &self.run.certificate);
        let statement = &run.statement;
        json!({
            "schema_version": SCHEMA_VERSION,
            "name": run.name,
            "description": run.model_line(),
            "command": run.released.as_ref().map(|of| &of.command),
            "method": run.method_name(),
            "date": certificate.made.as_ref().and_then(|made| made.time.as_ref()),
            "software": certificate.project,
            "data_set": certificate.data_set_id,
            "n_items": self.above_noise().map(|(_, n_items)| n_items),
            "n_items_above_noise": self.above_noise().map(|(above, _)| above),
            "intended_use": { "for": self.intended_for, "not_for": self.not_for },
            "privacy": {
                "private": run.is_private(),
                "unit": statement.unit,
                "adjacency": statement.adjacency,
                "guarantee": statement.guarantee,
                "released": statement.released,
                "assumptions": statement.assumptions,
                "not_covered": statement.not_covered,
                "tuning_included": statement.tuning_included,
            },
            "prior_votes": run.released.as_ref().map(|of| &of.prior_votes),
            "taste_votes": run.released.as_ref().map(|of| &of.taste_votes),
            "metrics": certificate.metrics,
            "limitations": self.limits,
            "settings": run.released.as_ref().map(|of| &of.settings),
            "files": certificate.artifacts,
            "certificate": certificate.digest,
        })
    }
}

/// What users of a model without taste factors have in common.
fn alike(model: &FactorModel) -> Option<String> {
    let text = match (model.n_tastes(), model.scoring().n_effects) {
        (0, 0) => "No taste factors: all users have the same order of items.",
        (0, _) => {
            "No taste factors: users' orders of items differ only by global effects, that is, in how much a user follows the item biases and likes popular items."
        }
        _ => return None,
    };
    Some(text.to_owned())
}

const ITEM_SCORES: &str = "Scores of items for a user: inner products with that user's own vector, computed where the vector is (dp_personal.devices).";
const PREDICTIONS: &str = "Predictions for a user from that user's own labelled rows, computed where these rows are (dp predict).";
const RECOMMENDATIONS: &str = "Recommendations for a user from that user's own ratings or likes, computed where these are (dp recommend).";

const STRANGERS: &str =
    "Predictions about users without own rows, unless the model is the same for all users.";
const HIDDEN: &str = "Statements about single users of the training data, which the noise hides.";
const UNPROTECTED: &str = "Publication: nothing hides the single users of the training data.";
