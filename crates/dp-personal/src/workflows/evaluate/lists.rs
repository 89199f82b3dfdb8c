//! Recall and NDCG of lists of recommendations, history left out.

use dp_core::{Interactions, Private};
use dp_data::{RankingMetrics, RankingSums};
use dp_multitask::{FactorModel, NonPrivateAls};

use super::parts::Parts;
use super::scores::{Buckets, MODEL, NON_PRIVATE, Score, Scores};
use crate::error::Result;
use crate::ranking::{K, N_BUCKETS};

/// The model beside the items that most users have, and beside the same without privacy where that is asked for.
pub(super) fn score(model: &FactorModel, parts: &Parts, non_private: bool) -> Result<Scores> {
    let buckets = Buckets::of(parts.train.expose())?;
    let of_target = buckets.of_targets(parts.targets.expose());
    let depth = RankingSums::new(K, Some(&buckets.dealt))?.depth();
    let of_model = |model: &FactorModel| {
        let own = model.recommend_all(&parts.history, depth)?;
        measure(&own, &parts.targets, &buckets)
    };
    let mut ranked = vec![(MODEL, of_model(model)?)];
    if non_private {
        let exact = NonPrivateAls::implicit().fit(&parts.train)?;
        ranked.push((NON_PRIVATE, of_model(&exact)?));
    }
    let popular = buckets.most_popular(&parts.history, depth)?;
    let popular = measure(&popular, &parts.targets, &buckets)?;
    ranked.push(("popularity", popular));
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
