//! Inputs of training: settings, ratings, and the part of them that is not held out.

use dp_core::{ApproxDp, Interactions, Private, Scratch};
use dp_data::{RatingSplit, Ratings, SplitFractions, TableSource, UserSplit};
use dp_multitask::{FactorizationParams, Feedback, ItemGramian};

use crate::columns::pair;
use crate::error::{Error, Result};
use crate::output::warn;
use crate::settings::{
    FactorSettings, FeedbackKind, FeedbackSettings, InputSettings, Method, ScoreModelName,
    SplitKind, SplitSettings,
};

/// Refuses flags of feedback and settings that conflict.
pub(crate) fn check_feedback(feedback: &FeedbackSettings, args: &FactorSettings) -> Result<()> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    match (feedback.feedback, feedback.split) {
        (FeedbackKind::Explicit, _) if feedback.min_rating.is_some() => {
            usage("`min_rating` needs `feedback` implicit")
        }
        (FeedbackKind::Explicit, _) if args.of_lists().is_some() => usage(&format!(
            "`{}` needs `feedback` implicit",
            args.of_lists().unwrap_or_default()
        )),
        (FeedbackKind::Explicit, Some(SplitKind::Users)) => {
            usage("`split` users needs `feedback` implicit: ratings are held out, not users")
        }
        (FeedbackKind::Implicit, Some(SplitKind::Ratings)) => {
            usage("`feedback` implicit holds out users: use `split` users")
        }
        (FeedbackKind::Implicit, _)
            if args.label_center.is_some()
                || args.label_bound.is_some()
                || args.rating_range.is_some()
                || args.scale_share.is_some()
                || args.no_global_effects =>
        {
            usage(
                "`label_center`, `label_bound`, `rating_range`, `scale_share` and `no_global_effects` have no meaning with `feedback` implicit",
            )
        }
        _ => {
            pair("rating_range", args.rating_range.as_deref())?;
            if let Some(least) = feedback.min_rating {
                dp_core::params::finite("min_rating", least)?;
            }
            Ok(())
        }
    }
}

/// Defaults from the target and the kind of records, overridden by flags.
pub(crate) fn settings_for(
    method: Method,
    feedback: &FeedbackSettings,
    args: &FactorSettings,
    target: ApproxDp,
) -> Result<FactorizationParams> {
    check_feedback(feedback, args)?;
    args.check_method(method, feedback.feedback)?;
    let defaults = match (feedback.feedback, method) {
        (_, Method::AmSsp) => {
            let text =
                "`method` am-ssp trains with public features of items: only `dp train` supports it";
            return Err(Error::Usage(text.to_owned()));
        }
        (_, Method::Popularity) => FactorizationParams::popularity_for_target(target),
        (FeedbackKind::Explicit, Method::Adadpals) => {
            FactorizationParams::adadpals_for_target(target)
        }
        (FeedbackKind::Explicit, Method::Biases) => FactorizationParams {
            dim: Some(1),
            global_effects: false,
            ..FactorizationParams::for_target(target)
        },
        (FeedbackKind::Explicit, _) => FactorizationParams::for_target(target),
        (FeedbackKind::Implicit, _) => {
            let mut defaults = match args.score_model {
                Some(ScoreModelName::Biased) => FactorizationParams::implicit_for_target(target),
                // settings of the published algorithm are those with biases
                None if method == Method::Adadpals => {
                    FactorizationParams::implicit_for_target(target)
                }
                Some(ScoreModelName::Plain) | None => {
                    FactorizationParams::implicit_plain_for_target(target)
                }
            };
            if let (Method::Adadpals, Feedback::Implicit(own)) = (method, &mut defaults.feedback) {
                own.item_gramian = ItemGramian::PerItem;
            }
            defaults
        }
    };
    Ok(args.over(defaults))
}

/// Refuses ratings whose item ids would be published without a declaration that they are public.
pub(crate) fn check_items(args: &InputSettings) -> Result<()> {
    let text = match (&args.items, args.item_ids_are_public) {
        (Some(_), false) | (None, true) => return Ok(()),
        (Some(_), true) => {
            "`items` and `item_ids_are_public` exclude each other: with a catalogue no id of the ratings is published"
        }
        (None, false) => {
            "item ids are published with the model: give `items`, a public catalogue (ratings of other items are left out), \
             or `item_ids_are_public` if everybody may know every id in the ratings, including those that only one user has"
        }
    };
    Err(Error::Usage(text.to_owned()))
}

/// The column of user ids in a file without names.
const WITHOUT_NAMES: &str = "1";

/// Ratings in the requested interpretation, with the declared catalogue or otherwise the items
/// found in them; on disk in `scratch`. Warns if a column of ratings is not used.
pub(crate) fn read(
    source: &TableSource,
    args: &InputSettings,
    feedback: &FeedbackSettings,
    scratch: Option<Scratch>,
) -> Result<Ratings> {
    let ratings = read_table(source, args, feedback, scratch)?;
    let columns = &args.columns;
    let is_unnamed = columns.header.is_none() && columns.user_col.is_none();
    if is_unnamed && source.file().is_some() && ratings.user_column() == Some(WITHOUT_NAMES) {
        warn(&format!(
            "{source} has no header and is read as a file of MovieLens: user, item, rating, time. If its columns are others, name them with `header`"
        ));
    }
    let declared = columns
        .rating_col
        .as_deref()
        .filter(|_| !feedback.needs_values() && source.file().is_some());
    if let Some(column) = declared.or(ratings.unread_rating_column()) {
        let looks = match declared {
            Some(_) => "is named by `rating_col`, and its values are not used",
            None => "looks like ratings and is not used",
        };
        warn(&format!(
            "column {column} of {source} {looks}: with `feedback` implicit every record counts as positive; set `min_rating` \
             to count only high ratings, or use `feedback` explicit to learn the ratings"
        ));
    }
    as_feedback(feedback, ratings)
}

/// The same in memory for a table like one that was read before: without the warning.
pub(crate) fn read_again(
    source: &TableSource,
    args: &InputSettings,
    feedback: &FeedbackSettings,
) -> Result<Ratings> {
    as_feedback(feedback, read_table(source, args, feedback, None)?)
}

fn read_table(
    source: &TableSource,
    args: &InputSettings,
    feedback: &FeedbackSettings,
    scratch: Option<Scratch>,
) -> Result<Ratings> {
    let format = args.columns.format(feedback.needs_values())?;
    tracing::info!(file = %source, "reading ratings");
    let catalogue = args.items.as_deref().map(dp_data::read_catalogue);
    let catalogue = catalogue.transpose()?;
    let ratings = match (scratch, catalogue) {
        (Some(scratch), catalogue) => {
            dp_data::read_ratings_on_disk(source, &format, catalogue, scratch)?
        }
        (None, Some(catalogue)) => {
            dp_data::read_ratings_with_catalogue(source, &format, catalogue)?
        }
        (None, None) => dp_data::read_ratings(source, &format)?,
    };
    if let Some(items) = &args.items {
        let titles = ratings.catalogue().titles().iter().flatten();
        dp_data::check_no_user_ids(items, titles.map(String::as_str), &ratings)?;
    }
    Ok(ratings)
}

/// The records in the requested interpretation: all of them, or only positives.
pub(crate) fn as_feedback(feedback: &FeedbackSettings, ratings: Ratings) -> Result<Ratings> {
    match feedback.feedback {
        FeedbackKind::Explicit => Ok(ratings),
        // values are finite, so the smallest finite number keeps every record
        FeedbackKind::Implicit => Ok(ratings.to_implicit(feedback.min_rating.unwrap_or(f64::MIN))?),
    }
}

/// The training and test parts, by the seed in the flags.
fn hold_out(args: &SplitSettings, ratings: &Ratings) -> Result<RatingSplit> {
    let fractions = if args.no_split {
        SplitFractions::new(1.0, 0.0, 0.0)?
    } else {
        SplitFractions::default()
    };
    Ok(ratings.split(fractions, args.split_seed)?)
}

/// Expected shares of the users for training, validation and test.
const USER_SHARES: [f64; 3] = [0.75, 1.0 / 12.0, 1.0 / 6.0];
/// Expected share of a held-out user's records that is used for the fold-in.
const HISTORY_SHARE: f64 = 0.8;

/// Users for training, validation and test.
///
/// # Errors
/// When the split cannot be made.
pub fn hold_out_users(ratings: &Ratings, seed: u64) -> Result<UserSplit> {
    let [train, valid, test] = USER_SHARES;
    let shares = SplitFractions::new(train, valid, test)?;
    Ok(UserSplit::new(ratings, shares, HISTORY_SHARE, seed)?)
}

/// The training part and the held-out parts.
pub(crate) enum HeldOut {
    Ratings(Box<RatingSplit>),
    Users(Box<UserSplit>),
}

impl HeldOut {
    /// Splits according to the feedback; with implicit feedback, ratings below the threshold have
    /// already been removed.
    pub(crate) fn new(
        feedback: &FeedbackSettings,
        args: &SplitSettings,
        ratings: &Ratings,
    ) -> Result<Self> {
        if feedback.feedback == FeedbackKind::Explicit {
            return Ok(Self::Ratings(Box::new(hold_out(args, ratings)?)));
        }
        let split = if args.no_split {
            let all = SplitFractions::new(1.0, 0.0, 0.0)?;
            UserSplit::new(ratings, all, HISTORY_SHARE, args.split_seed)?
        } else {
            hold_out_users(ratings, args.split_seed)?
        };
        Ok(Self::Users(Box::new(split)))
    }

    /// The training part alone.
    pub(crate) fn into_train(self) -> Private<Interactions> {
        match self {
            Self::Ratings(split) => split.train,
            Self::Users(split) => split.train,
        }
    }

    pub(crate) fn train(&self) -> &Private<Interactions> {
        match self {
            Self::Ratings(split) => &split.train,
            Self::Users(split) => &split.train,
        }
    }
}
