//! The figures as JSON, as text, and as they are kept for `dp report`.

use dp_accounting::Certificate;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::scores::{Score, Scores};
use crate::error::Result;
use crate::evaluate::shown;
use crate::output::released;
use crate::ranking::bucket_name;

/// Figures with what was read for them: private.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Evaluated {
    pub(crate) schema_version: u32,
    /// Digest of the run's certificate.
    #[serde(default)]
    pub(crate) certificate: Option<String>,
    /// Whether what the run held out was tested on, and not a file of its own.
    #[serde(default)]
    pub(crate) own_split: bool,
    #[serde(flatten)]
    pub(crate) scores: Scores,
    /// What was read and what was left out.
    pub(crate) data: Vec<(String, u64)>,
}

impl Evaluated {
    /// The object that `json` prints.
    pub(super) fn json(
        &self,
        certificate: &Certificate,
        n_items: usize,
        dim: usize,
    ) -> Result<Value> {
        let data = self.data.iter().cloned();
        let data: serde_json::Map<String, Value> =
            data.map(|(name, count)| (name, count.into())).collect();
        let mut internal = serde_json::to_value(&self.scores)?;
        internal["data"] = data.into();
        Ok(json!({
            "dim": dim,
            "n_items": n_items,
            "released": released(certificate),
            "internal": internal,
        }))
    }

    /// A table for the terminal.
    pub(super) fn text(&self) -> String {
        let scores = &self.scores;
        let mut text = "internal, not covered by the guarantee: do not publish\n\n".to_owned();
        let names = scores.metrics.iter().map(|name| title(name));
        line(&mut text, "", names);
        for score in &scores.overall {
            let figures = scores.metrics.iter().map(|name| figure(score, name));
            line(&mut text, &score.method, figures);
        }
        text.push_str("\nby popularity of items\n");
        let methods = scores.overall.iter().map(|score| score.method.clone());
        line(&mut text, "", methods.chain(["held out".to_owned()]));
        for bucket in &scores.by_popularity {
            let metric = bucket.metric();
            let name = match bucket.k {
                Some(k) => format!("{}, Recall@{k}", bucket_name(bucket.bucket - 1)),
                None => format!("{}, {}", bucket_name(bucket.bucket - 1), title(metric)),
            };
            let figures = bucket.scores.iter().map(|score| figure(score, metric));
            line(
                &mut text,
                &name,
                figures.chain([bucket.n_targets.to_string()]),
            );
        }
        text.push('\n');
        for (name, count) in &self.data {
            line(&mut text, name, [count.to_string()].into_iter());
        }
        text
    }
}

/// As people write it.
pub(crate) fn title(metric: &str) -> String {
    match metric {
        "recall_at_20" => "Recall@20".to_owned(),
        "ndcg_at_20" => "NDCG@20".to_owned(),
        "recall" => "Recall".to_owned(),
        other => other.to_uppercase(),
    }
}

fn figure(score: &Score, metric: &str) -> String {
    let value = score.figures.get(metric).copied().flatten();
    value.map_or_else(|| "-".to_owned(), |_| shown(value))
}

fn line(text: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    let mut row = format!("  {name:<40}");
    for cell in cells {
        row.push_str(&format!(" {cell:>12}"));
    }
    text.push_str(row.trim_end());
    text.push('\n');
}
