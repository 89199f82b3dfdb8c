//! Recall and NDCG of lists of recommendations, history left out.

use dp_core::{Interactions, Private};
use dp_data::{RankingMetrics, RankingSums};
use dp_multitask::FactorModel;

use super::parts::Parts;
use super::scores::{Buckets, MODEL, Score, Scores};
use crate::error::Result;
use crate::ranking::{K, N_BUCKETS};

/// The model beside the items that most users have.
pub(super) fn score(model: &FactorModel, parts: &Parts) -> Result<Scores> {
    let buckets = Buckets::of(parts.train.expose())?;
    let of_target = buckets.of_targets(parts.targets.expose());
    let depth = RankingSums::new(K, Some(&buckets.dealt))?.depth();
    let own = model.recommend_all(&parts.history, depth)?;
    let popular = buckets.most_popular(&parts.history, depth)?;
    let ranked = [
        (MODEL, measure(&own, &parts.targets, &buckets)?),
        ("popularity", measure(&popular, &parts.targets, &buckets)?),
    ];
    let inside = |bucket: usize| {
        let of_method = |(name, found): &(&str, Option<RankingMetrics>)| {
            let found = found.as_ref().and_then(|m| m.by_bucket.get(bucket));
            Score::new(name, [("recall", found.and_then(|b| b.recall))])
        };
        ranked.iter().map(of_method).collect()
    };
    let k = |bucket| Some(K * (N_BUCKETS - bucket));
    Ok(Scores {
        feedback: "implicit".to_owned(),
        metrics: ["recall_at_20", "ndcg_at_20"].map(str::to_owned).into(),
        overall: ranked
            .iter()
            .map(|(name, of)| means(name, of.as_ref()))
            .collect(),
        by_popularity: buckets.scored(&of_target, k, inside),
    })
}

/// None where nobody is held out: that, too, is private.
fn measure(
    lists: &Private<Vec<Vec<u32>>>,
    targets: &Private<Interactions>,
    buckets: &Buckets,
) -> Result<Option<RankingMetrics>> {
    let mut sums = RankingSums::new(K, Some(&buckets.dealt))?;
    sums.add_all(lists, targets)?;
    Ok(sums.finish().ok())
}

fn means(method: &str, found: Option<&RankingMetrics>) -> Score {
    let figures = [
        ("recall_at_20", found.map(|m| m.recall)),
        (
            "recall_standard_error",
            found.map(|m| m.recall_standard_error),
        ),
        ("ndcg_at_20", found.map(|m| m.ndcg)),
    ];
    Score::new(method, figures)
}
