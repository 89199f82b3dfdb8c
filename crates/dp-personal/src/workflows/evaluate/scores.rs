//! Figures over all held-out records and by the popularity of items.

use std::collections::BTreeMap;

use dp_core::{Interactions, Private};
use dp_data::PopularityBuckets;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ranking::N_BUCKETS;

/// One method: a number, or none where nothing is held out, under the name of each metric.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Score {
    pub(crate) method: String,
    #[serde(flatten)]
    pub(crate) figures: BTreeMap<String, Option<f64>>,
}

/// A fifth of the items, by how many users have rated them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PopularityBucket {
    /// From 1, the rarest.
    pub(crate) bucket: usize,
    pub(crate) n_items: usize,
    /// Held-out records on them.
    pub(crate) n_targets: usize,
    /// Length of the lists that recall looks at; none of predicted ratings.
    pub(crate) k: Option<usize>,
    pub(crate) scores: Vec<Score>,
}

/// How well a model serves users: private.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Scores {
    /// `explicit` or `implicit`.
    pub(crate) feedback: String,
    /// Names of the figures over all targets.
    pub(crate) metrics: Vec<String>,
    /// The model first.
    pub(crate) overall: Vec<Score>,
    pub(crate) by_popularity: Vec<PopularityBucket>,
}

/// The name of the model itself.
pub(crate) const MODEL: &str = "model";
/// The same kind of model without privacy.
pub(crate) const NON_PRIVATE: &str = "non-private";

impl Score {
    pub(super) fn new<const N: usize>(method: &str, figures: [(&str, Option<f64>); N]) -> Self {
        let figures = figures.map(|(name, value)| (name.to_owned(), value));
        Self {
            method: method.to_owned(),
            figures: figures.into(),
        }
    }
}

impl PopularityBucket {
    /// The metric that buckets are shown by.
    pub(crate) const fn metric(&self) -> &'static str {
        if self.k.is_some() { "recall" } else { "rmse" }
    }
}

/// Items by how many users of a table have them. Private.
pub(super) struct Buckets {
    counts: Vec<f64>,
    pub(super) dealt: PopularityBuckets,
}

impl Buckets {
    pub(super) fn of(table: &Interactions) -> Result<Self> {
        let mut counts = vec![0.0; table.n_items()];
        for row in table.users() {
            for &item in row.items() {
                counts[item as usize] += 1.0;
            }
        }
        Ok(Self {
            dealt: PopularityBuckets::new(&counts, N_BUCKETS)?,
            counts,
        })
    }

    /// The bucket of every record, in the order of the table.
    pub(super) fn of_targets(&self, table: &Interactions) -> Vec<Option<usize>> {
        let items = table.users().flat_map(|row| row.items().to_vec());
        items.map(|item| self.dealt.of(item as usize)).collect()
    }

    /// All buckets, rarest first; `scores` and length of lists of each come from its number.
    pub(super) fn scored(
        &self,
        of_target: &[Option<usize>],
        k: impl Fn(usize) -> Option<usize>,
        scores: impl Fn(usize) -> Vec<Score>,
    ) -> Vec<PopularityBucket> {
        let items = 0..self.counts.len();
        let of_item: Vec<_> = items.map(|item| self.dealt.of(item)).collect();
        let count =
            |all: &[Option<usize>], bucket| all.iter().filter(|b| **b == Some(bucket)).count();
        (0..N_BUCKETS)
            .map(|bucket| PopularityBucket {
                bucket: bucket + 1,
                n_items: count(&of_item, bucket),
                n_targets: count(of_target, bucket),
                k: k(bucket),
                scores: scores(bucket),
            })
            .collect()
    }

    /// The items that most users have, best first, for every user without the own ones.
    pub(super) fn most_popular(
        &self,
        own: &Private<Interactions>,
        k: usize,
    ) -> Result<Private<Vec<Vec<u32>>>> {
        let of_user = |items: &[u32]| -> Result<Vec<u32>> {
            let best = dp_linalg::top_k(&self.counts, &[1.0], k, items)
                .map_err(dp_multitask::Error::from)?;
            Ok(best.into_iter().map(|scored| scored.item).collect())
        };
        let users = own.expose().users();
        let lists: Result<Vec<_>> = users.map(|row| of_user(row.items())).collect();
        Ok(Private::new(lists?))
    }
}
