//! Metrics over all held-out records and by the popularity of items.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use dp_core::{Interactions, InteractionsBuilder, Private};
use dp_data::{
    ItemCatalogue, PopularityBuckets, RankingMetrics, RankingSums, Ratings, SplitFractions,
};
use dp_multitask::{
    FactorModel, LocalBias, NoisyCounts, NonPrivateAls, constant_predictions, user_mean_predictions,
};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::evaluate::{Pairs, USER_MEAN_SHRINKAGE, mean};
use crate::output::HeldOutBy;
use crate::prior::OptIn;
use crate::quality::{Quality, QualityTables};
use crate::ranking::{K, N_BUCKETS};
use crate::settings::EvaluateSettings;
use crate::workflows::input::hold_out_users;

/// Lengths of the factors without privacy, besides a longer one of the defaults.
const LENGTHS: [usize; 4] = [2, 5, 17, 33];
/// Ridges without privacy.
const RIDGES: [f64; 3] = [3.0, 10.0, 30.0];
/// One in so many training records chooses among them.
const KEPT: usize = 10;

/// The metrics of one method: a number, or none if nothing is held out, under the name of each
/// metric.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Score {
    pub(crate) method: String,
    #[serde(flatten)]
    pub(crate) figures: BTreeMap<String, Option<f64>>,
}

/// A fifth of the items, by the number of users who have rated them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PopularityBucket {
    /// From 1, the rarest.
    pub(crate) bucket: usize,
    pub(crate) n_items: usize,
    /// Number of held-out records of its items.
    pub(crate) n_targets: usize,
    /// Length of the lists for recall; none for predicted ratings.
    pub(crate) k: Option<usize>,
    pub(crate) scores: Vec<Score>,
}

/// Quality of a model for users: private.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Scores {
    /// `explicit` or `implicit`.
    pub(crate) feedback: String,
    /// Names of the metrics over all targets.
    pub(crate) metrics: Vec<String>,
    /// All methods, the model first.
    pub(crate) overall: Vec<Score>,
    pub(crate) by_popularity: Vec<PopularityBucket>,
    /// The same with confidence intervals over users, as runs have them; files of earlier versions
    /// have none.
    #[serde(default)]
    pub(crate) quality: Option<QualityTables>,
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
    /// The metric shown for buckets.
    pub(crate) const fn metric(&self) -> &'static str {
        if self.k.is_some() { "recall" } else { "rmse" }
    }
}

/// Items by the number of users of a table who have them. Private.
pub(crate) struct Buckets {
    counts: Vec<f64>,
    pub(crate) dealt: PopularityBuckets,
}

impl Buckets {
    pub(crate) fn of(table: &Interactions) -> Result<Self> {
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

    /// All buckets, rarest first; scores and list length of each are computed from its number.
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

    /// The items that most users have, best first, for every user with targets, excluding the
    /// user's own.
    pub(super) fn most_popular(&self, parts: &Parts, k: usize) -> Result<Private<Vec<Vec<u32>>>> {
        let counts = NoisyCounts::released_elsewhere(self.counts.clone(), 0.0, false)?;
        Ok(counts.most_popular_held_out(&parts.history, &parts.targets, k)?)
    }
}

/// The model compared with free baselines, and with the same kind of model without privacy if
/// requested.
pub(super) fn of_ratings(model: &FactorModel, parts: &Parts, non_private: bool) -> Result<Scores> {
    let all = predictions(model, parts, non_private)?;
    let buckets = Buckets::of(parts.train.expose())?;
    let of_target = buckets.of_targets(parts.targets.expose());
    let inside = |bucket| {
        let of_method = |(name, pairs): &(String, Pairs)| {
            let inside = of_target.iter().zip(pairs);
            let inside = inside.filter(|(b, _)| **b == Some(bucket));
            errors(name, inside.map(|(_, pair)| *pair))
        };
        all.iter().map(of_method).collect()
    };
    let (history, targets) = (parts.history.expose(), parts.targets.expose());
    let quality = Quality::of_ratings(history, targets, &all, &buckets.dealt);
    let overall = all.iter();
    let overall = overall.map(|(name, pairs)| errors(name, pairs.iter().copied()));
    Ok(Scores {
        feedback: "explicit".to_owned(),
        metrics: ["rmse", "mae"].map(str::to_owned).into(),
        overall: overall.collect(),
        by_popularity: buckets.scored(&of_target, |_| None, inside),
        quality: Some(quality.tables()),
    })
}

/// Predictions by method, the model first.
fn predictions(
    model: &FactorModel,
    parts: &Parts,
    non_private: bool,
) -> Result<Vec<(String, Pairs)>> {
    let (train, targets) = (parts.train.expose(), parts.targets.expose());
    let predicted = |model: &FactorModel| -> Result<Pairs> {
        let pairs = model.predict_held_out(&parts.history, &parts.targets)?;
        Ok(pairs.into_exposed())
    };
    let bias = LocalBias {
        center: mean(train),
        shrinkage: USER_MEAN_SHRINKAGE,
    };
    let mut all = vec![(MODEL.to_owned(), predicted(model)?)];
    if non_private {
        let exact = parts.without_privacy(
            NonPrivateAls::default().on_scale_of(&parts.train),
            |model, [known, kept]| {
                let pairs = model.predict_held_out(known, kept)?.into_exposed();
                Ok(dp_data::rmse(pairs).unwrap_or(f64::NAN))
            },
        )?;
        all.push((NON_PRIVATE.to_owned(), predicted(&exact)?));
    }
    let own_mean = user_mean_predictions(parts.history.expose(), targets, bias);
    all.push(("user-mean".to_owned(), own_mean.collect()));
    let constant = constant_predictions(targets, bias.center);
    all.push(("constant".to_owned(), constant.collect()));
    Ok(all)
}

/// Without held-out ratings there is no error: that there are none is itself private.
fn errors(method: &str, pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Score {
    let figures = [
        ("rmse", dp_data::rmse(pairs.clone()).ok()),
        ("mae", dp_data::mae(pairs).ok()),
    ];
    Score::new(method, figures)
}

/// The model compared with the items that most users have, and with the same kind of model without
/// privacy if requested.
pub(super) fn of_lists(model: &FactorModel, parts: &Parts, non_private: bool) -> Result<Scores> {
    let buckets = Buckets::of(parts.train.expose())?;
    let of_target = buckets.of_targets(parts.targets.expose());
    let depth = RankingSums::new(K, Some(&buckets.dealt))?.depth();
    let of_model =
        |model: &FactorModel| model.recommend_held_out(&parts.history, &parts.targets, depth);
    let mut lists = vec![(MODEL.to_owned(), of_model(model)?)];
    if non_private {
        let exact = parts.without_privacy(NonPrivateAls::implicit(), |model, [known, kept]| {
            let mut sums = RankingSums::new(K, None)?;
            sums.add_all(&model.recommend_held_out(known, kept, K)?, kept)?;
            Ok(sums.finish().map_or(f64::NAN, |found| -found.recall))
        })?;
        lists.push((NON_PRIVATE.to_owned(), of_model(&exact)?));
    }
    let popular = buckets.most_popular(parts, depth)?;
    lists.push(("popularity".to_owned(), popular));
    let (history, targets) = (parts.history.expose(), parts.targets.expose());
    let quality = Quality::of_lists(history, targets, &lists, &buckets.dealt)?;
    let measured = lists.iter().map(|(name, lists)| {
        let found = measure(lists, &parts.targets, &buckets)?;
        Ok((name.as_str(), found))
    });
    let ranked = measured.collect::<Result<Vec<_>>>()?;
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
        quality: Some(quality.tables()),
    })
}

/// None if no users are held out: that, too, is private.
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

/// Two tables with the same users in the same rows. Private.
pub(super) struct Parts {
    /// Records for the fold-in.
    pub(super) history: Private<Interactions>,
    /// Records to be predicted, or found.
    pub(super) targets: Private<Interactions>,
    /// Records for popularity counts and for training other models.
    pub(super) train: Private<Interactions>,
    /// Counts of what was read and what was left out.
    pub(super) data: Vec<(String, u64)>,
}

impl Parts {
    /// Reads the ratings of the model's items; `implicit` if every record is a positive.
    pub(super) fn read(
        args: &EvaluateSettings,
        split: HeldOutBy,
        items: &ItemCatalogue,
        implicit: bool,
    ) -> Result<Self> {
        let least = dp_core::params::finite("min_rating", split.min_rating.unwrap_or(f64::MIN))?;
        let format = args
            .columns
            .format(!implicit || split.min_rating.is_some())?;
        let read = |path: &Path| -> Result<Ratings> {
            tracing::info!(file = %path.display(), "reading ratings");
            let ratings = dp_data::read_ratings_with_catalogue(path, &format, items.clone())?;
            Ok(if implicit {
                ratings.to_implicit(least)?
            } else {
                ratings
            })
        };
        let mut ratings = read(&args.ratings)?;
        if let Some(path) = &args.opt_in {
            ratings = OptIn::read(path)?.protected(&ratings);
        }
        match &args.history {
            Some(path) => Ok(Self::of_two_files(&read(path)?, &ratings)?),
            None => Self::as_in_training(split.split_seed, &ratings, implicit),
        }
    }

    /// The parts that `dp train` held out from the same file.
    fn as_in_training(split_seed: u64, ratings: &Ratings, implicit: bool) -> Result<Self> {
        let data = summary(ratings);
        if implicit {
            let split = hold_out_users(ratings, split_seed)?;
            return Ok(Self {
                history: split.test.history,
                targets: split.test.targets,
                train: split.train,
                data,
            });
        }
        let split = ratings.split(SplitFractions::default(), split_seed)?;
        let history = split.train;
        Ok(Self {
            train: Private::new(history.expose().clone()),
            history,
            targets: split.test,
            data,
        })
    }

    /// The model without privacy, with the length and ridge that are best on one in [`KEPT`] of the
    /// training records, fitted to all of them.
    fn without_privacy(
        &self,
        als: NonPrivateAls,
        loss: impl Fn(&FactorModel, [&Private<Interactions>; 2]) -> Result<f64>,
    ) -> Result<FactorModel> {
        let train = self.train.expose();
        let part = |user: usize, item: u32, _: f32| {
            usize::from((user + item as usize).is_multiple_of(KEPT))
        };
        let parts = train.partition(2, part).map_err(dp_data::Error::from)?;
        let mut parts = parts.into_iter().map(Private::new);
        let longer = Some(als.dim).filter(|dim| !LENGTHS.contains(dim));
        let lengths: Vec<usize> = LENGTHS.into_iter().chain(longer).collect();
        let (Some(known), Some(kept)) = (parts.next(), parts.next()) else {
            return Ok(als.fit(&self.train)?);
        };
        let best = als.best_among(&lengths, &RIDGES, &known, |model| {
            loss(model, [&known, &kept])
        })?;
        Ok(best.fit(&self.train)?)
    }

    /// All of `asked` is tested; a pair that is also in the history is left out.
    fn of_two_files(history: &Ratings, asked: &Ratings) -> Result<Self> {
        let mut users: HashMap<&str, u32> = HashMap::new();
        for id in (history.user_ids().expose().iter()).chain(asked.user_ids().expose()) {
            let next = u32::try_from(users.len()).unwrap_or(u32::MAX);
            users.entry(id).or_insert(next);
        }
        let (known, _) = table(history, &users, |_, _| true)?;
        let is_new = |user: u32, item: u32| {
            let row = known.user(user as usize);
            row.items().binary_search(&item).is_err()
        };
        let (targets, n_known) = table(asked, &users, is_new)?;
        let mut data = summary(asked);
        data.push(("also in the history, left out".to_owned(), n_known));
        let n_history = known.n_records() as u64;
        data.push(("ratings of the history".to_owned(), n_history));
        Ok(Self {
            train: Private::new(known.clone()),
            history: Private::new(known),
            targets: Private::new(targets),
            data,
        })
    }
}

/// The records for which `keep` is true, in rows by `users`, and the number of other records.
fn table(
    ratings: &Ratings,
    users: &HashMap<&str, u32>,
    keep: impl Fn(u32, u32) -> bool,
) -> Result<(Interactions, u64)> {
    let mut builder = InteractionsBuilder::new(ratings.catalogue().len());
    let mut n_left_out = 0;
    let ids = ratings.user_ids().expose().iter();
    for (id, row) in ids.zip(ratings.interactions().expose().users()) {
        let Some(&user) = users.get(id.as_str()) else {
            continue;
        };
        for (item, value) in row.iter() {
            if keep(user, item) {
                builder
                    .push(user, item, value)
                    .map_err(dp_data::Error::from)?;
            } else {
                n_left_out += 1;
            }
        }
    }
    builder.ensure_users(users.len());
    Ok((builder.build().0, n_left_out))
}

/// Counts of what was read and what was left out: private.
fn summary(ratings: &Ratings) -> Vec<(String, u64)> {
    let table = ratings.interactions().expose();
    let read = ratings.summary().expose();
    [
        ("users", table.n_users()),
        ("ratings kept", table.n_records()),
        ("ratings read", read.n_read),
        (
            "on items that the model does not know",
            read.n_outside_catalogue,
        ),
        ("NaN or infinite, left out", read.dropped.not_finite),
        (
            "repeated pairs, replaced by the later",
            read.dropped.repeated,
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value as u64))
    .into()
}
