//! What users are folded in from, and what is asked of them.

use std::collections::HashMap;
use std::path::Path;

use dp_core::{Interactions, InteractionsBuilder, Private};
use dp_data::{ItemCatalogue, Ratings, RatingsColumns, RatingsFormat, SplitFractions};

use crate::columns::refuse_shared;
use crate::error::Result;
use crate::output::HeldOutBy;
use crate::settings::EvaluateSettings;
use crate::workflows::input::hold_out_users;

/// Two tables with the same users in the same rows. Private.
pub(super) struct Parts {
    /// What users are folded in from.
    pub(super) history: Private<Interactions>,
    /// What is to be predicted, or to be found.
    pub(super) targets: Private<Interactions>,
    /// What popularity is counted on and other models are trained on.
    pub(super) train: Private<Interactions>,
    /// What was read and what was left out.
    pub(super) data: Vec<(String, u64)>,
}

impl Parts {
    /// Reads the ratings on the model's items; `implicit` when every record is a yes.
    pub(super) fn read(
        args: &EvaluateSettings,
        split: HeldOutBy,
        items: &ItemCatalogue,
        implicit: bool,
    ) -> Result<Self> {
        let least = dp_core::params::finite("min_rating", split.min_rating.unwrap_or(f64::MIN))?;
        let read = |path: &Path| -> Result<Ratings> {
            tracing::info!(file = %path.display(), "reading ratings");
            let ratings = dp_data::read_ratings_with_catalogue(path, &format(args), items.clone())?;
            Ok(if implicit {
                ratings.to_implicit(least)?
            } else {
                ratings
            })
        };
        refuse_shared(&[
            ("user_col", args.columns.user_col.as_ref()),
            ("item_col", args.columns.item_col.as_ref()),
            ("rating_col", args.columns.rating_col.as_ref()),
        ])?;
        let ratings = read(&args.ratings)?;
        match &args.history {
            Some(path) => Ok(Self::of_two_files(&read(path)?, &ratings)?),
            None => Self::as_in_training(split.split_seed, &ratings, implicit),
        }
    }

    /// The parts that `dp train` held out of the same file.
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
        let split = ratings.split(SplitFractions::default(), split_seed);
        let history = split.train;
        Ok(Self {
            train: Private::new(history.expose().clone()),
            history,
            targets: split.test,
            data,
        })
    }

    /// All of `asked` is tested on; a pair that the history holds as well is left out of it.
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

fn format(args: &EvaluateSettings) -> RatingsFormat {
    RatingsFormat::default().with_columns(RatingsColumns {
        user: args.columns.user_col.clone(),
        item: args.columns.item_col.clone(),
        rating: args.columns.rating_col.clone(),
    })
}

/// The records that `keep` lets through, in rows by `users`, and how many it did not.
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

/// What was read and what was left out: private counts.
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
