//! `krichene2023-ml1m` and similar: private matrix factorisation of ratings, evaluated by rating
//! error and by ranked lists, and of song plays, evaluated by ranked lists.

mod data;
mod lists;
mod methods;
mod most_played;
mod neighbours;
mod ratings;
pub(super) mod settings;
mod table;
mod task;

use self::lists::{LEAST_YES, Lists};
use self::ratings::HeldOutRatings;
use self::table::Table;
use super::ReproduceArgs;
use super::report::Row;
use dp_personal::error::{Error, Result};

pub(super) fn ml1m(args: &ReproduceArgs) -> Result<Vec<Row>> {
    run(args, "ml-1m")
}

pub(super) fn ml100k(args: &ReproduceArgs) -> Result<Vec<Row>> {
    run(args, "ml-100k")
}

fn run(args: &ReproduceArgs, folder: &str) -> Result<Vec<Row>> {
    if !args.size.is_empty() {
        let message = "--size: the size is that of the data set under --data";
        return Err(Error::Usage(message.to_owned()));
    }
    let ratings = data::read(args, folder)?;
    let table = Table::new(args);
    let mut rows = table.rows(&HeldOutRatings::new(&ratings)?, &methods::of_ratings())?;
    let likes = ratings.to_implicit(LEAST_YES)?;
    rows.extend(table.rows(&Lists::new(&likes)?, &methods::of_lists())?);
    Ok(rows)
}

/// The Million Song data set: a song that a user has played is a positive.
pub(super) fn msd(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let lists = Lists::new(&data::read_plays(args)?)?;
    Table::new(args).rows(&lists, &methods::of_lists())
}
