//! The figures as JSON, as text, and as they are kept for `dp report`.

use dp_accounting::Certificate;
use dp_page::{Block, Table, terminal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::scores::{Score, Scores};
use crate::error::Result;
use crate::evaluate::shown;
use crate::output::{INTERNAL_HEAD, released};
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

    /// Tables for the terminal.
    pub(super) fn text(&self) -> String {
        let scores = &self.scores;
        let names = scores.metrics.iter().map(|name| title(name));
        let overall = scores.overall.iter().map(|score| {
            let figures = scores.metrics.iter().map(|name| figure(score, name));
            [score.method.clone()].into_iter().chain(figures).collect()
        });
        let methods = scores.overall.iter().map(|score| score.method.clone());
        let heads = methods.chain(["held out".to_owned()]);
        let buckets = scores.by_popularity.iter().map(|bucket| {
            let metric = bucket.metric();
            let of = match bucket.k {
                Some(k) => format!("Recall@{k}"),
                None => title(metric),
            };
            let name = format!("{}, {of}", bucket_name(bucket.bucket - 1));
            let figures = bucket.scores.iter().map(|score| figure(score, metric));
            let figures = figures.chain([bucket.n_targets.to_string()]);
            [name].into_iter().chain(figures).collect()
        });
        let data = self.data.iter();
        let data = data.map(|(name, count)| vec![name.clone(), count.to_string()]);
        let first = || [String::new()].into_iter();
        let by = "by popularity of items";
        terminal(&[
            Block::Text(INTERNAL_HEAD.to_owned()),
            Block::Table(Table::new("", first().chain(names), overall)),
            Block::Table(Table::new(by, first().chain(heads), buckets)),
            Block::Table(Table::new("", ["", ""], data)),
        ])
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
