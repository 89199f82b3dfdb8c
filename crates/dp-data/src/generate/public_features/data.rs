//! Made examples, and what item vectors lose on them.

use dp_core::{Interactions, Private};

/// What users of a [`PublicFeatureTask`](super::PublicFeatureTask) say of items.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)
)]
pub enum MadeLabels {
    /// `<u, v>` with normal noise.
    Values {
        /// Standard deviation of the noise.
        noise: f64,
    },
    /// 1 with probability `1 / (1 + exp(-scale <u, v>))`, else -1.
    Signs {
        /// Scale of the logits.
        scale: f64,
    },
}

/// Made examples with the truth behind them.
#[allow(
    missing_debug_implementations,
    reason = "holds records that stand for private ones; printing them is never wanted"
)]
pub struct PublicFeatureData {
    /// Users' labels of items, with the users' vectors as features.
    pub examples: Private<Interactions>,
    /// Pairs of item and active feature, items increasing.
    pub features: Vec<(u32, u32)>,
    /// True item vectors, shape `(n_items, dim)`, row-major. For signs they carry the scale of the logits.
    pub item_vectors: Vec<f64>,
    pub(super) dim: usize,
    pub(super) logistic: bool,
}

impl PublicFeatureData {
    /// Mean over all examples of what item vectors lose against the true ones, given users and items, labels averaged out.
    ///
    /// ```text
    /// values:  <u, v^ - v>^2 / 2      the paper's loss (y - <u, v>)^2 / 2 above its least
    /// signs:   KL divergence of the label's law under v^ from that under v: the logistic loss above its least
    /// ```
    ///
    /// # Panics
    /// When `item_vectors` has another shape.
    #[must_use]
    pub fn excess_risk(&self, item_vectors: &[f64]) -> f64 {
        assert_eq!(item_vectors.len(), self.item_vectors.len());
        let examples = self.examples.expose();
        let mut sum = 0.0;
        for user in examples.users() {
            for &item in user.items() {
                let of = |all: &[f64]| score(user.features(), &all[item as usize * self.dim..]);
                let (true_score, score) = (of(&self.item_vectors), of(item_vectors));
                sum += if self.logistic {
                    logistic_excess(true_score, score)
                } else {
                    0.5 * (score - true_score).powi(2)
                };
            }
        }
        sum / examples.n_records().max(1) as f64
    }
}

fn logistic_excess(true_score: f64, score: f64) -> f64 {
    let p = sigmoid(true_score);
    let loss = |s: f64| p * softplus(-s) + (1.0 - p) * softplus(s);
    loss(score) - loss(true_score)
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

pub(super) fn score(u: &[f32], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(&u, v)| f64::from(u) * v).sum()
}
