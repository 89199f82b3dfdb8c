//! `dp recommend`: folds users in, locally and one by one, and ranks the items that each has not
//! rated.

use std::path::Path;

use dp_core::{Interactions, InteractionsBuilder, UserRow};
use dp_data::{
    ColumnRole, Expected, ItemCatalogue, Ratings, RatingsColumns, RatingsFormat, TableSource,
};
use dp_multitask::{FactorModel, NoisyCounts, PersonalModel, Provenance, RatingScale, ScoreModel};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::output::{self, RELEASED, ReleasedRun, warn};
use crate::quality::QUANTILE;
use crate::settings::{RankBy, RecommendSettings};
use crate::warnings::is_outside;
use crate::workflows::verify::refuse_uncertified;

/// A recommended item.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommended {
    /// Its id.
    pub id: String,
    /// Its title, if the catalogue has one.
    pub title: Option<String>,
    /// Its predicted rating, clipped to the declared range of ratings, or with implicit feedback its
    /// score.
    pub score: f64,
    /// Ends of the 95 % interval of the score that accounts for the mechanism's noise, clipped like
    /// it, if the model has standard errors.
    pub interval: Option<[f64; 2]>,
}

/// Recommendations for one user, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendations {
    /// The items; empty if the model has no basis for ranking for this user.
    pub items: Vec<Recommended>,
    /// Whether scores are those of implicit feedback instead of ratings.
    pub implicit: bool,
    /// Whether there is no basis for ranking: the model has no item biases and has learned none of
    /// the items that the user likes.
    pub says_nothing: bool,
    /// Whether the user's ratings do not change the order of items: the model has item biases only,
    /// or no taste factors for any item that the user rated. Ratings then change only the level of
    /// predictions.
    pub orders_alike: bool,
    /// The provenance of the model.
    pub provenance: Provenance,
    /// Number of the user's ratings that the fold-in used, including those below the minimum
    /// rating.
    pub n_history: usize,
    /// Number of the user's ratings of items that the model does not know. Not counted, and 0, for
    /// the users of [`recommend_to_all`].
    pub n_unknown_items: usize,
    /// Number of the user's ratings outside the declared range of ratings, or far from a learned
    /// scale.
    pub n_outside_range: usize,
    /// The minimum rating that counted as positive: the requested one, otherwise that of training;
    /// none if ratings are values, or every record is a positive.
    pub min_rating: Option<f64>,
}

/// Folds one user in, locally, and ranks the items that the user has not rated.
///
/// # Errors
/// When settings are out of range or do not apply to this model, and when a file cannot be read.
///
/// # Privacy
/// The recommendations depend on the user's own ratings, and are for that user alone.
pub fn recommend(args: &RecommendSettings) -> Result<Recommendations> {
    let (model, columns) = opened(args)?;
    let own = model.personalize(&args.history, columns, args.min_rating)?;
    model.recommendations(args, &own)
}

/// Number of users whose recommendations are computed at once.
const AT_ONCE: usize = 512;

/// Folds every user of a table in, locally, and ranks the items that the user has not rated. `each`
/// is called with the id and the recommendations of one user after the other, in the order of their
/// first records; users who have only items that the model does not know come last.
///
/// # Errors
/// As [`recommend`], and those of `each`.
///
/// # Privacy
/// The recommendations to a user depend on that user's own ratings and no other user's, and are for
/// that user alone.
pub fn recommend_to_all<E: From<Error>>(
    args: &RecommendSettings,
    mut each: impl FnMut(&str, Recommendations) -> Result<(), E>,
) -> Result<(), E> {
    let (model, columns) = opened(args)?;
    let (ratings, min_rating) = model.read_all(&args.history, columns, args.min_rating)?;
    let table = ratings.interactions().expose();
    let mut nobody = InteractionsBuilder::new(table.n_items());
    nobody.ensure_users(1);
    let nobody = nobody.build().0;
    let known = ratings.user_ids().expose().iter().zip(table.users());
    let others = ratings.left_out_users().expose().iter();
    let users: Vec<_> = known.chain(others.map(|id| (id, nobody.user(0)))).collect();
    for some in users.chunks(AT_ONCE) {
        let recommended = some.par_iter().map(|(_, row)| {
            let own = model.own_tastes(*row, 0, min_rating)?;
            model.recommendations(args, &own)
        });
        let recommended = recommended.collect::<Result<Vec<_>>>()?;
        for ((id, _), found) in some.iter().zip(recommended) {
            each(id, found)?;
        }
    }
    Ok(())
}

/// The model, and the columns of the history.
fn opened(args: &RecommendSettings) -> Result<(Recommender, RatingsColumns)> {
    dp_core::params::at_least_one("count", args.count)?;
    let columns = RatingsColumns {
        user: args.user_col.clone(),
        item: args.item_col.clone(),
        rating: args.rating_col.clone(),
    };
    let model = Recommender::read(&args.model, args.items.as_deref())?;
    Ok((model, columns))
}

/// Released item factors with their items.
///
/// # Examples
/// ```no_run
/// use dp_personal::workflows::recommend::Recommender;
/// let model = Recommender::read("dp-model", None)?;
/// let mine = model.personalize("my-ratings.csv", Default::default(), None)?;
/// for item in model.recommend(&mine, 10)? {
///     println!("{} {:.1}", item.id, item.score);
/// }
/// # Ok::<(), dp_personal::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Recommender {
    factors: FactorModel,
    catalogue: ItemCatalogue,
    /// The minimum rating that was positive in training, if the run recorded it.
    min_rating: Option<f64>,
    /// The released counts of the items, if the run made any.
    counts: Option<NoisyCounts>,
    /// The range of ratings, if it was declared.
    range: Option<[f64; 2]>,
    /// Ratings outside this are unlike those of training: the range, or otherwise far from a learned
    /// scale.
    usual: Option<[f64; 2]>,
}

/// One user's personal part of a model, computed from the user's own records: private to that user.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct OwnTastes {
    model: PersonalModel,
    /// Indices of the items that the user has rated, in increasing order.
    rated: Vec<u32>,
    n_unknown_items: usize,
    n_outside_range: usize,
    says_nothing: bool,
    orders_alike: bool,
    min_rating: Option<f64>,
}

impl OwnTastes {
    /// The user's vector, which is private: the score of an item is its inner product with the
    /// item's row of the factors, plus [`offset`](Self::offset), before it is clipped.
    #[must_use]
    pub fn vector(&self) -> Vec<f64> {
        self.model.vector()
    }

    /// The constant that the user adds to every score.
    #[must_use]
    pub const fn offset(&self) -> f64 {
        self.model.offset()
    }

    /// The minimum rating that counted as positive; none if ratings are values, or every record is
    /// a positive.
    #[must_use]
    pub const fn min_rating(&self) -> Option<f64> {
        self.min_rating
    }

    /// Number of the user's records of items that the model does not know: left out.
    #[must_use]
    pub const fn n_unknown_items(&self) -> usize {
        self.n_unknown_items
    }

    /// As in [`Recommendations::says_nothing`].
    #[must_use]
    pub const fn says_nothing(&self) -> bool {
        self.says_nothing
    }

    /// As in [`Recommendations::orders_alike`].
    #[must_use]
    pub const fn orders_alike(&self) -> bool {
        self.orders_alike
    }
}

impl Recommender {
    /// Why the model has no taste factors, if it has none.
    #[must_use]
    pub fn no_tastes(&self) -> Option<&'static str> {
        (self.factors.n_tastes() == 0).then(|| crate::output::no_tastes(&self.factors))
    }

    /// The model of a folder written by `dp train` or `dp tune`, with the additional `items` of a
    /// table if it was trained with features.
    ///
    /// # Errors
    /// If the folder holds no such model, if its certificate is missing, does not hold or is of
    /// other files, or if the items cannot be read.
    pub fn read(folder: impl AsRef<Path>, items: Option<&Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let mut model = output::read_model(folder)?;
        refuse_uncertified(folder)?;
        let run: Option<ReleasedRun> = output::read_run_file(folder, RELEASED)?;
        let range = run.as_ref().and_then(ReleasedRun::declared_range);
        let usual = range.or_else(|| run.as_ref()?.rating_scale.and_then(usual_of));
        let held_out = run.as_ref().and_then(ReleasedRun::held_out);
        let counts = run.and_then(|run| run.counts);
        let min_rating = held_out.and_then(|of| of.min_rating);
        if let Some(items) = items {
            model = crate::item_features::with_new_items(folder, model, items)?;
        }
        let (factors, catalogue) = model;
        // new items have none
        let counts = counts.filter(|of| of.values().len() == factors.n_items());
        Ok(Self {
            counts,
            factors,
            catalogue,
            min_rating,
            range,
            usual,
        })
    }

    pub(super) const fn counts(&self) -> Option<&NoisyCounts> {
        self.counts.as_ref()
    }

    /// The factors, with rows in the order of the catalogue.
    #[must_use]
    pub const fn factors(&self) -> &FactorModel {
        &self.factors
    }

    /// The items.
    #[must_use]
    pub const fn catalogue(&self) -> &ItemCatalogue {
        &self.catalogue
    }

    /// Whether scores are those of implicit feedback instead of ratings.
    #[must_use]
    pub const fn is_implicit(&self) -> bool {
        self.factors.scoring().unobserved_weight.is_some()
    }

    /// Folds one user in, locally, from a table with an item column and, if needed, a rating
    /// column; `columns` names them if they do not have default names. Nothing is spent. With
    /// implicit feedback, records below `min_rating` are not positives; the default is that of
    /// training, and a table without ratings contains likes.
    ///
    /// # Errors
    /// When the history cannot be read, also contains another user's records, or `min_rating` does
    /// not apply to this model.
    pub fn personalize(
        &self,
        history: impl Into<TableSource>,
        columns: RatingsColumns,
        min_rating: Option<f64>,
    ) -> Result<OwnTastes> {
        let source: TableSource = history.into();
        let (history, min_rating) = self.read_as(&source, columns, min_rating, |format| {
            read_history(source.clone(), format, &self.catalogue)
        })?;
        let own = self.own_tastes(history.table.user(0), history.n_unknown_items, min_rating)?;
        if let (Some([low, high]), 1..) = (self.usual, own.n_outside_range) {
            let what = match self.range {
                Some(_) => "the range of ratings that the model was trained for",
                None => "which is far around the scale of ratings that the model learned",
            };
            let [low, high] = [low, high].map(dp_page::short);
            warn(&format!(
                "{} of {} ratings in {source} are outside {low} to {high}, {what}: recommendations from them mean little",
                own.n_outside_range,
                own.rated.len()
            ));
        }
        Ok(own)
    }

    /// The ratings of all users of a table, restricted to the catalogue, and the minimum rating that
    /// counts as positive.
    fn read_all(
        &self,
        source: &TableSource,
        columns: RatingsColumns,
        min_rating: Option<f64>,
    ) -> Result<(Ratings, Option<f64>)> {
        self.read_as(source, columns, min_rating, |format| {
            let catalogue = self.catalogue.clone();
            Ok(dp_data::read_ratings_with_catalogue(
                source, format, catalogue,
            )?)
        })
    }

    /// What `read` reads from a table in the format that fits the model, and the minimum rating that
    /// counts as positive.
    fn read_as<T>(
        &self,
        source: &TableSource,
        columns: RatingsColumns,
        min_rating: Option<f64>,
        read: impl Fn(&RatingsFormat) -> Result<T>,
    ) -> Result<(T, Option<f64>)> {
        let implicit = self.is_implicit();
        let format = RatingsFormat::default().with_columns(columns);
        let least = min_rating.or(self.min_rating.filter(|_| implicit));
        Ok(match (implicit, least, min_rating) {
            (true, None, _) => (read(&format.without_ratings())?, None),
            (true, Some(in_training), None) => match read(&format) {
                Err(error) if has_no_ratings(&error) => {
                    warn(&format!(
                        "{source} has no rating column: every record in it counts as positive, where training counted only ratings of {in_training} or more"
                    ));
                    (read(&format.without_ratings())?, None)
                }
                history => (history?, least),
            },
            _ => (read(&format)?, least),
        })
    }

    /// One user's personal part, from the user's row.
    fn own_tastes(
        &self,
        row: UserRow<'_>,
        n_unknown_items: usize,
        min_rating: Option<f64>,
    ) -> Result<OwnTastes> {
        let implicit = self.is_implicit();
        let outside = |value: &f32| (self.usual).is_some_and(|usual| is_outside(*value, usual));
        let liked = liked(row, min_rating, implicit, self.catalogue.len())?;
        let model = self.factors.fold_in(liked.user(0))?;
        let has_tastes = model.factor().iter().any(|v| v.abs() > 0.0);
        let is_plain = self.factors.scoring().score_model == ScoreModel::Plain;
        // without biases, a user who has none of the learned items gets the popular items, if the
        // model knows them
        let dim = self.factors.dim();
        let mut rows = self.factors.item_factors().chunks(dim);
        let knows_popular = rows.any(|row| row[0] > 0.0);
        let says_nothing = is_plain && !has_tastes && !knows_popular;
        let rates_alike = !has_tastes && !says_nothing && (is_plain || !liked.user(0).is_empty());
        Ok(OwnTastes {
            model,
            rated: row.items().to_vec(),
            n_unknown_items,
            n_outside_range: row.values().iter().filter(|value| outside(value)).count(),
            says_nothing,
            orders_alike: dim == 1 || rates_alike,
            min_rating,
        })
    }

    /// The `count` best items that the user has not rated, best first; empty if the model has no
    /// basis for ranking for this user.
    ///
    /// # Errors
    /// None for a model as it was released.
    pub fn recommend(&self, own: &OwnTastes, count: usize) -> Result<Vec<Recommended>> {
        let count = if own.says_nothing { 0 } else { count };
        let best = self.factors.recommend(&own.model, count, &own.rated)?;
        let best = best.into_iter();
        Ok(best
            .map(|(item, score)| self.recommended(own, item, score))
            .collect())
    }

    /// The `count` items, among those that the user has not rated, with the highest lower ends of
    /// their 95 % intervals, best first; empty if the model has no basis for ranking for this user.
    ///
    /// # Errors
    /// [`Error::Usage`] if the model has no standard errors.
    pub fn recommend_by_lower(&self, own: &OwnTastes, count: usize) -> Result<Vec<Recommended>> {
        let count = if own.says_nothing { 0 } else { count };
        let factors = &self.factors;
        let best = factors.recommend_by_lower(&own.model, QUANTILE, count, &own.rated)?;
        let best = best.ok_or_else(|| {
            let text = "`rank_by` lower needs a model with standard errors of its factors, and this one has none; use `rank_by` score";
            Error::Usage(text.to_owned())
        })?;
        let best = best.into_iter().map(|(item, _)| {
            let score = factors.predict(&own.model, item as usize);
            self.recommended(own, item, score)
        });
        Ok(best.collect())
    }

    /// One user's recommendations, as these settings rank them.
    fn recommendations(
        &self,
        args: &RecommendSettings,
        own: &OwnTastes,
    ) -> Result<Recommendations> {
        Ok(Recommendations {
            items: match args.rank_by {
                RankBy::Score => self.recommend(own, args.count)?,
                RankBy::Lower => self.recommend_by_lower(own, args.count)?,
            },
            implicit: self.is_implicit(),
            says_nothing: own.says_nothing,
            orders_alike: own.orders_alike,
            provenance: self.factors.provenance(),
            n_history: own.rated.len(),
            n_unknown_items: own.n_unknown_items,
            n_outside_range: own.n_outside_range,
            min_rating: own.min_rating,
        })
    }

    /// A predicted rating within the declared range of ratings.
    fn clipped(&self, score: f64) -> f64 {
        let range = self.range;
        range.map_or(score, |[low, high]| score.clamp(low, high))
    }

    fn recommended(&self, own: &OwnTastes, item: u32, score: f64) -> Recommended {
        let item = item as usize;
        let error = self.factors.predict_stddev(&own.model, item);
        Recommended {
            id: self.catalogue.ids()[item].clone(),
            title: self.catalogue.title(item).map(str::to_owned),
            score: self.clipped(score),
            interval: error.map(|error| {
                let ends = [score - QUANTILE * error, score + QUANTILE * error];
                ends.map(|end| self.clipped(end))
            }),
        }
    }

    /// The predicted rating of an item, clipped to the declared range of ratings, or with implicit
    /// feedback its score; `None` for an item
    /// that the model does not know.
    #[must_use]
    pub fn predict(&self, own: &OwnTastes, item: &str) -> Option<f64> {
        let item = self.catalogue.index(item)?;
        Some(self.clipped(self.factors.predict(&own.model, item)))
    }
}

/// Number of units around the centre of a learned scale within which ratings are usual: three times
/// the half range of ratings from 1 to 5, whose unit is 1.
const USUAL_UNITS: f64 = 6.0;

/// Where ratings on a learned scale are, unless it has long tails.
fn usual_of(scale: RatingScale) -> Option<[f64; 2]> {
    let far = USUAL_UNITS * scale.unit;
    let is_known = scale.center_is_learnt && scale.unit_is_learnt && !scale.has_long_tails;
    is_known.then_some([scale.center - far, scale.center + far])
}

/// Whether a table was refused because it lacks a rating column, including tables with only one
/// column.
fn has_no_ratings(error: &Error) -> bool {
    matches!(
        error,
        Error::Data(
            dp_data::Error::UnknownColumn {
                role: ColumnRole::Rating,
                ..
            } | dp_data::Error::Malformed {
                expected: Expected::Separator,
                ..
            }
        )
    )
}

/// The records used for the fold-in: with implicit feedback, only positives.
fn liked(
    row: UserRow<'_>,
    min_rating: Option<f64>,
    implicit: bool,
    n_items: usize,
) -> Result<Interactions> {
    if min_rating.is_some() && !implicit {
        let text = "`min_rating` needs a model trained with `feedback` implicit";
        return Err(Error::Usage(text.to_owned()));
    }
    let least = dp_core::params::finite("min_rating", min_rating.unwrap_or(f64::MIN))?;
    let mut builder = InteractionsBuilder::new(n_items);
    for (item, value) in row.iter().filter(|&(_, value)| f64::from(value) >= least) {
        builder.push(0, item, value).map_err(dp_data::Error::from)?;
    }
    builder.ensure_users(1);
    Ok(builder.build().0)
}

/// One user's ratings, restricted to the catalogue.
struct History {
    table: Interactions,
    n_unknown_items: usize,
}

/// A table without ratings belongs to a user who has not rated yet.
fn read_history(
    source: TableSource,
    format: &RatingsFormat,
    catalogue: &ItemCatalogue,
) -> Result<History> {
    let mut builder = InteractionsBuilder::new(catalogue.len());
    let mut n_unknown_items = 0;
    match dp_data::read_history(source, format, catalogue) {
        Ok(history) => {
            for &(item, value) in history.records() {
                builder.push(0, item, value).map_err(dp_data::Error::from)?;
            }
            n_unknown_items = history.n_unknown_items();
        }
        Err(dp_data::Error::Empty { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    builder.ensure_users(1);
    let (table, _) = builder.build();
    Ok(History {
        table,
        n_unknown_items,
    })
}
